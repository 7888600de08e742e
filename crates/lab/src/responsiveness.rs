//! The test of responsiveness under working conditions, between the end hosts of a lab: its loaded
//! connections, its probes, and its intervals. What is computed of them is [`weir_measure::responsiveness`].
//!
//! The client is at the receiver, so that what is downloaded passes the managed link, and the server at the
//! sender. Requests and answers are frames with the header of HTTP/2 (RFC 9113 section 4.1), without TLS:
//! streams share a connection as they do there, and blocks of fields are one word.

use crate::error::{Error, Result};
use crate::netns::{Testbed, address, enter_netns};
use crate::process::{SpawnOptions, block_on, set_affinity};
use crate::side::Side;
use crate::socket::set_option;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc as queue, oneshot};
use tokio::task::{JoinHandle as Task, spawn_local};
use weir_measure::responsiveness::{Parameters, Probes, Responsiveness, Test};

/// Bytes of a frame's header.
const HEADER: usize = 9;
/// Types of frames (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// Payload of a frame of a large object: it fits in a segment. Where 16 connections share 20 Mbit/s, a frame
/// of 16 kB, the largest that a peer takes unasked, would hold an answer behind it for 100 ms.
const PIECE: usize = 1400;
/// Bytes that a server gives to the kernel before they are sent, so that answers need not wait behind more
/// ("Interaction with End Systems": TCP_NOTSENT_LOWAT).
const UNSENT: u32 = 2 * (HEADER + PIECE) as u32;
/// Bytes that a client takes from the kernel at once.
const TAKEN: usize = 64 * 1024;
/// What is asked for: an object without end, or one of a byte.
const LARGE: &[u8] = b"large";
const SMALL: &[u8] = b"small";
/// Pairs of probes in a second before anything is known of the capacity.
const FIRST_PAIRS: f64 = 10.0;
/// The client looks this often whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// A test under way. Dropping it ends it.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    results: mpsc::Receiver<io::Result<Option<Responsiveness>>>,
}

impl Running {
    /// Starts it at `begin`; it ends by itself, or at `end` with what there is.
    pub fn start(
        testbed: &Testbed,
        options: &SpawnOptions,
        (begin, end): (Instant, Instant),
        parameters: Parameters,
    ) -> Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, results) = mpsc::channel();
        let (bound, opened) = mpsc::channel();
        let stopped = stop.clone();
        let server = thread("weir-rpm-server", testbed.namespace(Side::Sender), options, move || {
            block_on(async move {
                let listener = TcpListener::bind((address(Side::Sender, false, false), 0)).await;
                let at = listener.as_ref().map_err(|e| io::Error::new(e.kind(), e.to_string()));
                let _ = bound.send(at.and_then(TcpListener::local_addr));
                if let Ok(listener) = listener {
                    serve(listener, &stopped).await;
                }
                Ok(())
            })
        })?;
        let failed = |e| Error::system("listen for the test of responsiveness", e);
        let server_at = opened
            .recv()
            .map_err(|_| failed(io::Error::other("its thread ended")))
            .and_then(|at| at.map_err(failed));
        let server_at = match server_at {
            Ok(at) => at,
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        };
        let stopped = stop.clone();
        let client = thread("weir-rpm-client", testbed.namespace(Side::Receiver), options, move || {
            let _ = told.send(block_on(measure(server_at, (begin, end), parameters, stopped)));
            Ok(())
        })?;
        Ok(Running { stop, threads: vec![server, client], results })
    }

    /// What came of it: waits for the client, which is told to end now if it still measures.
    pub fn finish(self) -> io::Result<Option<Responsiveness>> {
        self.stop.store(true, Ordering::Relaxed);
        self.results.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended before it began")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A thread in a namespace, on the processors of end hosts.
fn thread(
    name: &str,
    namespace: &str,
    options: &SpawnOptions,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<()>> {
    let (namespace, cpus) = (namespace.to_string(), options.cpus.clone());
    let begin = move || {
        let _ = set_affinity(&cpus);
        if enter_netns(&namespace).is_ok() {
            let _ = body();
        }
    };
    let thread = std::thread::Builder::new().name(name.into()).spawn(begin);
    thread.map_err(|e| Error::system("start a thread for the test of responsiveness", e))
}

/// A frame without flags.
fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, 0]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Length, type and stream of a frame.
fn header(bytes: [u8; HEADER]) -> (usize, u8, u32) {
    let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    (length as usize, bytes[3], u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]))
}

/// Reads the next frame; `payload` has room for any.
async fn next(reader: &mut (impl AsyncReadExt + Unpin), payload: &mut [u8]) -> io::Result<(usize, u8, u32)> {
    let mut bytes = [0; HEADER];
    reader.read_exact(&mut bytes).await?;
    let (length, kind, stream) = header(bytes);
    let payload = payload.get_mut(..length).ok_or_else(|| io::Error::other("a frame is too long"))?;
    reader.read_exact(payload).await?;
    Ok((length, kind, stream))
}

async fn serve(listener: TcpListener, stop: &AtomicBool) {
    let mut open: Vec<Task<()>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(Ok((stream, _))) = tokio::time::timeout(NAP, listener.accept()).await {
            open.retain(|task| !task.is_finished());
            open.push(spawn_local(async move {
                // A client that goes away ends its connection.
                let _ = answer(stream).await;
            }));
        }
    }
    open.iter().for_each(Task::abort);
}

/// Answers requests of a connection, small ones between pieces of a large object as they come.
async fn answer(stream: TcpStream) -> io::Result<()> {
    set_option(&stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT)?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let (asked, mut requests) = queue::unbounded_channel();
    let reading = spawn_local(async move {
        let mut payload = vec![0; PIECE];
        while let Ok((length, kind, stream)) = next(&mut reader, &mut payload).await {
            if kind == HEADERS && asked.send((stream, payload[..length] == *LARGE)).is_err() {
                break;
            }
        }
    });
    let mut large = None;
    let piece = |stream| frame(DATA, stream, &[0; PIECE]);
    let served = async {
        loop {
            let request = match &large {
                None => requests.recv().await.map(Some).ok_or(io::ErrorKind::UnexpectedEof)?,
                Some(_) => requests.try_recv().ok(),
            };
            match (request, &large) {
                (Some((stream, true)), _) => large = Some(piece(stream)),
                (Some((stream, false)), _) => writer.write_all(&frame(DATA, stream, &[1])).await?,
                (None, Some(piece)) => writer.write_all(piece).await?,
                (None, None) => {}
            }
        }
    };
    let result: io::Result<()> = served.await;
    reading.abort();
    result
}

/// A loaded connection.
struct Loaded {
    writer: OwnedWriteHalf,
    /// The next stream of the client, which has odd numbers (RFC 9113 section 5.1.1).
    next: u32,
    waiting: Rc<RefCell<HashMap<u32, oneshot::Sender<Instant>>>>,
    reading: Task<()>,
}

/// What is counted in an interval.
#[derive(Default)]
struct Counted {
    bytes: Cell<u64>,
    probes: RefCell<Probes>,
    error: Cell<Option<io::ErrorKind>>,
}

async fn load(server: SocketAddr, counted: &Rc<Counted>) -> io::Result<Loaded> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(TAKEN, reader);
    writer.write_all(&frame(HEADERS, 1, LARGE)).await?;
    let waiting = Rc::<RefCell<HashMap<u32, oneshot::Sender<Instant>>>>::default();
    let (asking, counted) = (waiting.clone(), counted.clone());
    let reading = spawn_local(async move {
        let mut payload = vec![0; PIECE];
        loop {
            match next(&mut reader, &mut payload).await {
                Ok((_, _, stream)) if stream != 1 => {
                    if let Some(asker) = asking.borrow_mut().remove(&stream) {
                        let _ = asker.send(Instant::now());
                    }
                }
                Ok((length, ..)) => counted.bytes.set(counted.bytes.get() + length as u64),
                Err(error) => break counted.error.set(Some(error.kind())),
            }
        }
    });
    Ok(Loaded { writer, next: 3, waiting, reading })
}

fn since_ms(begun: Instant, ended: Instant) -> f64 {
    ended.saturating_duration_since(begun).as_secs_f64() * 1e3
}

/// A probe on a connection of its own.
async fn probe_foreign(server: SocketAddr, counted: Rc<Counted>) -> io::Result<()> {
    let begun = Instant::now();
    let stream = TcpStream::connect(server).await?;
    let connected = Instant::now();
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(&frame(HEADERS, 1, SMALL)).await?;
    next(&mut reader, &mut [0; PIECE]).await?;
    let mut probes = counted.probes.borrow_mut();
    probes.tcp_foreign.push(since_ms(begun, connected));
    probes.http_foreign.push(since_ms(connected, Instant::now()));
    Ok(())
}

/// A probe on a loaded connection; its answer is waited for apart.
async fn probe_loaded(loaded: &mut Loaded, counted: &Rc<Counted>) -> io::Result<()> {
    let stream = loaded.next;
    loaded.next += 2;
    let (asker, answered) = oneshot::channel();
    loaded.waiting.borrow_mut().insert(stream, asker);
    let begun = Instant::now();
    loaded.writer.write_all(&frame(HEADERS, stream, SMALL)).await?;
    let counted = counted.clone();
    spawn_local(async move {
        if let Ok(at) = answered.await {
            counted.probes.borrow_mut().http_loaded.push(since_ms(begun, at));
        }
    });
    Ok(())
}

/// The client: intervals with one loaded connection more in each, and probes spread over them ("Final
/// Algorithm").
async fn measure(
    server: SocketAddr,
    (begin, end): (Instant, Instant),
    parameters: Parameters,
    stop: Arc<AtomicBool>,
) -> io::Result<Option<Responsiveness>> {
    let is_over = || stop.load(Ordering::Relaxed) || Instant::now() >= end;
    while !is_over() && Instant::now() < begin {
        tokio::time::sleep(NAP.min(begin.saturating_duration_since(Instant::now()))).await;
    }
    let counted = Rc::<Counted>::default();
    let (mut open, mut foreign): (Vec<Loaded>, Vec<Task<io::Result<()>>>) = Default::default();
    let mut test = Test::new(parameters.clone());
    let (mut next_interval, mut pairs, mut number) = (Instant::now(), FIRST_PAIRS, 0usize);
    let mut counted_from = Instant::now();
    'test: while !is_over() {
        let wanted = if open.is_empty() { parameters.initial } else { open.len() + parameters.increment };
        while open.len() < wanted.min(parameters.most) {
            let connecting = load(server, &counted);
            tokio::pin!(connecting);
            let loaded = loop {
                match tokio::time::timeout(NAP, &mut connecting).await {
                    Ok(Ok(loaded)) => break loaded,
                    Ok(Err(error)) if !is_over() => return Err(error),
                    Err(_) if !is_over() => {}
                    _ => break 'test,
                }
            };
            open.push(loaded);
        }
        // A connection may have taken longer than the interval.
        next_interval = next_interval.max(Instant::now());
        let (begun, step) = (next_interval, Duration::from_secs_f64(1.0 / pairs));
        next_interval += Duration::from_secs_f64(parameters.interval_s);
        let mut due = begun;
        while due < next_interval {
            if is_over() {
                break 'test;
            }
            let now = Instant::now();
            if now < due {
                tokio::time::sleep((due - now).min(NAP)).await;
                continue;
            }
            foreign.retain(|task| !task.is_finished());
            foreign.push(spawn_local(probe_foreign(server, counted.clone())));
            // Loaded connections are taken in turn, each as often; the draft takes them by dice.
            number += 1;
            let at = number % open.len();
            match probe_loaded(&mut open[at], &counted).await {
                Err(_) if is_over() => break 'test,
                probed => probed?,
            }
            due += step;
        }
        tokio::time::sleep(next_interval.saturating_duration_since(Instant::now())).await;
        // "if at any point one of these connections terminates with an error, the test should be aborted".
        if let Some(kind) = counted.error.take() {
            // At the end the server closes them.
            if is_over() {
                break;
            }
            return Err(kind.into());
        }
        // An interval is longer where a connection or the machine took its time.
        let took = counted_from.elapsed().as_secs_f64().max(1e-3);
        counted_from = Instant::now();
        let bytes = (counted.bytes.replace(0) as f64 * parameters.interval_s / took) as u64;
        pairs = parameters.pairs_per_s(bytes as f64 / parameters.interval_s);
        if test.interval(bytes, counted.probes.take(), open.len()) {
            break;
        }
    }
    open.iter().for_each(|loaded| loaded.reading.abort());
    foreign.iter().for_each(Task::abort);
    Ok(test.result())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_header_of_http_2() {
        let bytes = frame(HEADERS, 0x0102_0305, SMALL);
        assert_eq!(bytes, [0, 0, 5, 1, 0, 1, 2, 3, 5, b's', b'm', b'a', b'l', b'l']);
        assert_eq!(header(bytes[..HEADER].try_into().unwrap()), (5, HEADERS, 0x0102_0305));
        assert_eq!(frame(DATA, 1, &[0; PIECE]).len(), HEADER + PIECE);
    }

    #[test]
    fn a_test_on_this_machine_has_a_result() {
        let told = block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let server = listener.local_addr()?;
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let serving = spawn_local(async move { serve(listener, &stopped).await });
            let now = Instant::now();
            let parameters =
                Parameters { interval_s: 0.1, tolerance: 10.0, most: 3, ..Parameters::default() };
            let measured = measure(server, (now, now + Duration::from_secs(20)), parameters, stop).await;
            serving.abort();
            measured
        });
        let told = told.unwrap().unwrap();
        // Stable as soon as it can be, with one connection more in each interval.
        assert_eq!((told.intervals, told.connections), (8, 3), "{told:?}");
        assert!(
            told.rpm > 60.0 && told.goodput_bps > 1e6 && told.probes[0] > 0 && told.probes[1] > 0,
            "{told:?}"
        );
    }
}
