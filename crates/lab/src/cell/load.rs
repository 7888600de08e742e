//! What the phones download, and how long it takes.

use super::LoadBy;
use crate::access::transfer;
use crate::error::{Error, Result};
use crate::netns::{Testbed, address, enter_netns, in_netns, require_congestion};
use crate::quic::{QuicClient, QuicServer};
use crate::side::Side;
use crate::tcpinfo::snapshot;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAGE: u64 = 1_000_000;
const IMAGE: u64 = 16_000_000;
/// Between the end of a page or an image and the next.
const PAUSE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(50);
/// Where phones take what they asked for: pages, images, and downloads in the background.
const PORTS: [u16; 3] = [9001, 9002, 9003];
const QUIC_PORT: u16 = 4433;
/// That of all TCP senders.
const CONGESTION: &str = "cubic";

/// A transfer that is complete.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    size: u64,
    began: Instant,
    took: Duration,
}

/// What all threads share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Bytes that phones received.
    received: AtomicU64,
    loaded: Mutex<Vec<Loaded>>,
}

/// All traffic that is under way. Dropping it ends it.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    server: Option<QuicServer>,
    sender: String,
    seen: Mutex<RttObservations>,
}

/// Round-trip times of the first phone's senders.
#[derive(Default)]
struct RttObservations {
    rtts_ms: Vec<f64>,
    /// By the port of the connection: what was acknowledged when it was looked at last.
    acked: HashMap<u16, u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Starts it.
    pub fn start(testbed: &Testbed, by: LoadBy) -> Result<Load> {
        let first: IpAddr = parsed(address(Side::Receiver, false, false))?;
        let mut load = Load {
            shared: Arc::default(),
            threads: Vec::new(),
            server: None,
            sender: testbed.sender().to_string(),
            seen: Mutex::default(),
        };
        for phone in &testbed.config().more_receivers {
            load.tcp(testbed, (parsed(phone)?, PORTS[2]).into(), u64::MAX)?;
        }
        match by {
            LoadBy::Tcp => {
                load.tcp(testbed, (first, PORTS[0]).into(), PAGE)?;
                load.tcp(testbed, (first, PORTS[1]).into(), IMAGE)?;
            }
            LoadBy::Quic => {
                let at = (parsed(address(Side::Sender, false, false))?, QUIC_PORT).into();
                let server = load.server.insert(QuicServer::start(testbed.sender(), at)?).handle();
                for size in [PAGE, IMAGE] {
                    let (namespace, server) = (testbed.receiver().to_string(), server.clone());
                    load.thread("weir-quic-load", move |shared| {
                        repeat(shared, size, || {
                            let client =
                                QuicClient::connect(&namespace, first, &server).map_err(io::Error::other)?;
                            let fetched = client.fetch(size, &shared.received, &shared.stop);
                            Ok(fetched.map_err(io::Error::other)?.is_some())
                        });
                    })?;
                }
            }
        }
        Ok(load)
    }

    fn thread(&mut self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || body(&shared));
        self.threads.push(thread.map_err(|e| Error::system("start a thread for traffic", e))?);
        Ok(())
    }

    /// Transfers to a phone, one after the other.
    fn tcp(&mut self, testbed: &Testbed, phone: SocketAddr, size: u64) -> Result<()> {
        let failed = |e| Error::system(format!("listen on {phone}"), e);
        let listener = in_netns(testbed.receiver(), || TcpListener::bind(phone))?.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.thread("weir-phone", move |shared| {
            while !shared.stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => take(stream, shared),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        })?;
        let namespace = testbed.sender().to_string();
        in_netns(&namespace, || require_congestion(CONGESTION))??;
        self.thread("weir-server", move |shared| {
            if enter_netns(&namespace).is_ok() {
                repeat(shared, size, || give(phone, size, shared));
            }
        })
    }

    /// Bytes that phones received so far.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Looks at the round-trip times of the first phone's connections by TCP, and keeps them if they are
    /// `wanted`.
    pub fn look(&self, wanted: bool) -> Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let mut seen = locked(&self.seen);
        for socket in snapshot(&self.sender)? {
            let Some(tcp) = socket.tcp.filter(|_| PORTS[..2].contains(&socket.remote_port)) else { continue };
            let moved = seen.acked.insert(socket.local_port, tcp.bytes_acked) != Some(tcp.bytes_acked);
            if wanted && moved && tcp.rtt_us > 0 {
                seen.rtts_ms.push(f64::from(tcp.rtt_us) / 1e3);
            }
        }
        Ok(())
    }

    /// What came of the first phone's transfers that began after `from`.
    pub fn result(&self, from: Instant) -> super::CellResult {
        let loaded = locked(&self.shared.loaded);
        let of = |size: u64| {
            let mine = loaded.iter().filter(|l| l.size == size && l.began >= from);
            mine.map(|l| l.took.as_secs_f64()).collect()
        };
        let rtts_ms = match &self.server {
            None => locked(&self.seen).rtts_ms.clone(),
            Some(server) => of_quic(server, from),
        };
        super::CellResult { rtts_ms, pages_s: of(PAGE), images_s: of(IMAGE), ..super::CellResult::default() }
    }
}

/// Samples of connections that acknowledged something since the one before.
fn of_quic(server: &QuicServer, from: Instant) -> Vec<f64> {
    let mut heard = HashMap::new();
    let mut rtts = Vec::new();
    for sample in server.samples() {
        let moved = heard.insert(sample.peer, sample.received) != Some(sample.received);
        if moved && sample.at >= from {
            rtts.push(sample.rtt.as_secs_f64() * 1e3);
        }
    }
    rtts
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn parsed(address: &str) -> Result<IpAddr> {
    address.parse().map_err(|_| Error::invalid(format!("`{address}` is no address"), "report this as a bug"))
}

/// Transfers again and again, and notes how long each took.
fn repeat(shared: &Shared, size: u64, mut transfer: impl FnMut() -> io::Result<bool>) {
    while !shared.stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        if transfer().is_ok_and(|complete| complete) {
            let loaded = Loaded { size, began, took: began.elapsed() };
            locked(&shared.loaded).push(loaded);
        }
        let next = Instant::now() + PAUSE;
        while !shared.stop.load(Ordering::Relaxed) && Instant::now() < next {
            std::thread::sleep(NAP);
        }
    }
}

/// One transfer from the server; it is complete when the phone has all of it and closes.
fn give(phone: SocketAddr, size: u64, shared: &Shared) -> io::Result<bool> {
    let mut stream = transfer::connect(phone, CONGESTION)?;
    stream.set_write_timeout(Some(NAP))?;
    stream.set_read_timeout(Some(NAP))?;
    let chunk = [0; 64 << 10];
    let mut left = size;
    while left > 0 && !shared.stop.load(Ordering::Relaxed) {
        match stream.write(&chunk[..left.min(chunk.len() as u64) as usize]) {
            Ok(len) => left -= len as u64,
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut [0; 16]) {
            Ok(0) => return Ok(left == 0),
            Ok(_) => {}
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Takes what a connection brings.
fn take(mut stream: TcpStream, shared: &Shared) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(NAP));
    let mut buffer = vec![0; 64 << 10];
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => {
                shared.received.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(e) if is_timeout(&e) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
