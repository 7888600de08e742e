//! Transfers of a given size over this program's own TCP sockets.

use super::{Findings, FlowReport, Interval, Numbered, TrafficOptions, Transfer};
use crate::error::{Error, Result};
use crate::netns::{Testbed, enter_netns, in_netns};
use crate::process::{SpawnOptions, set_affinity};
use crate::sock_diag::TcpInfo;
use crate::tcpinfo::{FlowTable, PortEnd, sleep_until};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_units::Time;

/// Most transfers of a group that are under way at once; further ones are left out, with a warning.
pub(super) const MAX_OPEN: usize = 512;
/// Threads look this often whether they shall end.
const NAP: Duration = Duration::from_millis(50);
/// Bytes given to or taken from the kernel at once.
const CHUNK: usize = 128 * 1024;
/// How long an accepted connection waits for the sending thread to say whose it is.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);

/// The transfers of a group.
pub(super) struct Job {
    pub group: Numbered,
    pub size: u64,
    pub every: Option<weir_units::Duration>,
    pub options: Arc<TrafficOptions>,
}

/// A transfer as both of its threads see it.
#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    intervals: Vec<Interval>,
    received: u64,
    /// When the last byte arrived, if all did.
    completed: Option<Time>,
    /// Neither side will change anything any more.
    ended: bool,
}

/// Connections by the port of the sending side, for the receiving side to find.
type Claims = Arc<Mutex<HashMap<u16, Arc<Shared>>>>;

/// What all threads of a job share.
struct Context {
    job: Job,
    target: SocketAddr,
    claims: Claims,
    table: FlowTable,
    abort: Arc<AtomicBool>,
    /// Set when all sending threads have ended.
    finished: AtomicBool,
    sending: AtomicUsize,
    open: AtomicUsize,
    skipped: AtomicUsize,
    stop: Time,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the threads of a group: one that receives, one for each flow.
pub(super) fn start(
    testbed: &Testbed,
    job: Job,
    table: &FlowTable,
    abort: &Arc<AtomicBool>,
    findings: &Findings,
) -> Result<Vec<JoinHandle<()>>> {
    let (source, sink) = (job.group.source(), job.group.source().other());
    let ip: IpAddr = job
        .group
        .address(sink)
        .parse()
        .map_err(|_| Error::invalid("the testbed's address is none", "report this as a bug"))?;
    let listener = in_netns(testbed.namespace(sink), || listen(ip))?
        .map_err(|e| Error::system(format!("listen for transfers on {ip}"), e))?;
    let target = listener.local_addr().ok().and_then(|a| a.as_socket());
    let target = target.ok_or_else(|| Error::last("find the port of a listening socket"))?;
    let (_, stop) = job.options.life(&job.group.flows);
    let (first, count) = (job.group.first_flow, job.group.flows.count);
    let context = Arc::new(Context {
        job,
        target,
        claims: Claims::default(),
        table: table.clone(),
        abort: abort.clone(),
        finished: AtomicBool::new(false),
        sending: AtomicUsize::new(count as usize),
        open: AtomicUsize::new(0),
        skipped: AtomicUsize::new(0),
        stop,
    });
    let mut threads = vec![spawn("weir-sink", {
        let context = context.clone();
        move || accept(&context, &listener, sink)
    })?];
    for flow in first..first + count {
        let (context, findings) = (context.clone(), findings.clone());
        let namespace = testbed.namespace(source).to_string();
        threads.push(spawn("weir-source", move || source_thread(&context, flow, &namespace, &findings))?);
    }
    Ok(threads)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| Error::system("start a thread for transfers", e))
}

fn listen(ip: IpAddr) -> io::Result<Socket> {
    let socket = Socket::new(domain(ip), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(ip, 0).into())?;
    socket.listen(1024)?;
    // On Linux, accept obeys it.
    socket.set_read_timeout(Some(NAP))?;
    Ok(socket)
}

fn domain(ip: IpAddr) -> Domain {
    if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }
}

/// CPUs and niceness are wishes here: transfers run without them, too.
fn settle(options: &SpawnOptions) {
    let _ = set_affinity(&options.cpus);
    if options.nice != 0 {
        // SAFETY: plain integers; on Linux 0 means the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, options.nice) };
    }
}

// The receiving side.

fn accept(context: &Arc<Context>, listener: &Socket, sink: crate::side::Side) {
    settle(context.job.options.spawn_options(sink));
    std::thread::scope(|scope| {
        while !context.finished.load(Ordering::Relaxed) {
            let Ok((socket, peer)) = listener.accept() else { continue };
            let Some(port) = peer.as_socket().map(|a| a.port()) else { continue };
            let context = context.clone();
            let body = move || {
                if let Some(shared) = claim(&context, port) {
                    receive(&context, socket.into(), &shared);
                }
            };
            // Without a thread the connection is closed, and the sender reports it as incomplete.
            let _ = std::thread::Builder::new().name("weir-receive".into()).spawn_scoped(scope, body);
        }
    });
}

/// Finds whose connection it is. The sending thread says so when its connect returns, which may be later
/// than the accept.
fn claim(context: &Context, port: u16) -> Option<Arc<Shared>> {
    let deadline = Instant::now() + CLAIM_TIMEOUT;
    while Instant::now() < deadline && !context.finished.load(Ordering::Relaxed) {
        if let Some(shared) = locked(&context.claims).remove(&port) {
            return Some(shared);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    None
}

fn receive(context: &Context, mut stream: TcpStream, shared: &Shared) {
    let mut buffer = vec![0; CHUNK];
    let _ = stream.set_read_timeout(Some(NAP));
    // Transfers run without it too, in larger bursts.
    let _ = context.job.options.receiving.set(&stream);
    let clock = &context.job.options.clock;
    let interval = context.job.options.interval.into();
    let mut from = clock.now();
    let mut pending = 0;
    loop {
        let read = stream.read(&mut buffer);
        let now = clock.now();
        let mut progress = locked(&shared.progress);
        if progress.ended {
            break;
        }
        let over = match read {
            Ok(0) => true,
            Ok(n) => {
                if progress.received == 0 {
                    let _ = context.job.options.receiving.set(&stream);
                }
                pending += n as u64;
                progress.received += n as u64;
                if progress.received >= context.job.size {
                    progress.completed.get_or_insert(now);
                }
                false
            }
            Err(e) => !retry(&e),
        };
        let complete = progress.completed.is_some();
        if over || complete || now.since(from) >= interval {
            if pending > 0 {
                progress.intervals.push(Interval {
                    from_s: clock.seconds(from),
                    to_s: clock.seconds(now),
                    bytes: pending,
                });
            }
            (from, pending) = (now, 0);
        }
        if over || complete {
            progress.ended = true;
            shared.changed.notify_all();
            break;
        }
    }
}

fn retry(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

// The sending side.

fn source_thread(context: &Arc<Context>, flow: u32, namespace: &str, findings: &Findings) {
    settle(context.job.options.spawn_options(context.job.group.source()));
    match enter_netns(namespace) {
        Ok(()) => findings.flow(run_flow(context, flow)),
        Err(e) => findings.warn(format!("flow {flow}: {e}")),
    }
    if context.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
        let skipped = context.skipped.load(Ordering::Relaxed);
        if skipped > 0 {
            let group = context.job.group.index;
            findings
                .warn(format!("group {group}: {skipped} transfers were left out, as {MAX_OPEN} were open"));
        }
        context.finished.store(true, Ordering::Release);
    }
}

/// Starts the transfers of a flow when they are due and collects what became of them.
fn run_flow(context: &Context, flow: u32) -> FlowReport {
    let group = &context.job.group;
    let results = Mutex::new(Vec::new());
    let options = &context.job.options;
    let (mut due, _) = options.life(&group.flows);
    std::thread::scope(|scope| {
        while due < context.stop && sleep_until(&options.clock, due, &context.abort) {
            if context.open.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN {
                context.open.fetch_sub(1, Ordering::Relaxed);
                context.skipped.fetch_add(1, Ordering::Relaxed);
            } else {
                let results = &results;
                let body = move || {
                    let result = transfer(context, flow);
                    context.open.fetch_sub(1, Ordering::Relaxed);
                    locked(results).push(result);
                };
                let thread = std::thread::Builder::new().name("weir-transfer".into());
                if thread.spawn_scoped(scope, body).is_err() {
                    context.open.fetch_sub(1, Ordering::Relaxed);
                    context.skipped.fetch_add(1, Ordering::Relaxed);
                }
            }
            match context.job.every {
                Some(period) => due += period.max(weir_units::Duration::from_nanos(1)),
                None => break,
            }
        }
    });
    let mut report = FlowReport {
        id: flow,
        group: group.index,
        congestion: group.flows.congestion.clone(),
        ..FlowReport::default()
    };
    for (transfer, intervals, retransmits) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        report.transfers.push(transfer);
        report.intervals.extend(intervals);
        report.retransmits += retransmits;
    }
    report.transfers.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    report.intervals.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    report
}

/// Sends one transfer and waits until the receiver has it, or until the flow stops.
fn transfer(context: &Context, flow: u32) -> (Transfer, Vec<Interval>, u64) {
    let clock = &context.job.options.clock;
    let begin = clock.now();
    let mut result = Transfer { start_s: clock.seconds(begin), ..Transfer::default() };
    let Ok(socket) = connect(context) else { return (result, Vec::new(), 0) };
    let Some(port) = socket.local_addr().ok().and_then(|a| a.as_socket()).map(|a| a.port()) else {
        return (result, Vec::new(), 0);
    };
    let shared = Arc::new(Shared::default());
    context.table.register(context.job.group.source(), PortEnd::Local(port), flow);
    locked(&context.claims).insert(port, shared.clone());
    let mut stream: TcpStream = socket.into();
    if send(context, &mut stream).is_ok() {
        await_receiver(context, &shared);
    }
    locked(&context.claims).remove(&port);
    let retransmits = tcp_info(&stream).map_or(0, |t| u64::from(t.retransmits));
    let mut progress = locked(&shared.progress);
    progress.ended = true;
    result.bytes = progress.received;
    // The receiving side adds an interval from time to time; what came since is in none if this side ended
    // first.
    let rest = progress.received - progress.intervals.iter().map(|interval| interval.bytes).sum::<u64>();
    if rest > 0 {
        let from_s = progress.intervals.last().map_or(result.start_s, |interval| interval.to_s);
        progress.intervals.push(Interval { from_s, to_s: clock.seconds(clock.now()), bytes: rest });
    }
    result.completion_s = progress.completed.map(|t| t.since(begin).as_secs_f64());
    if result.completion_s.is_none() {
        // What is still in the send buffer must not be sent after the flow's stop: a reset throws it away.
        let _ = Socket::from(stream).set_linger(Some(Duration::ZERO));
    }
    (result, std::mem::take(&mut progress.intervals), retransmits)
}

fn over(context: &Context) -> bool {
    context.abort.load(Ordering::Relaxed) || context.job.options.clock.now() >= context.stop
}

/// Connects in short steps, so that an abort is heard.
fn connect(context: &Context) -> io::Result<Socket> {
    let socket = Socket::new(domain(context.target.ip()), Type::STREAM, None)?;
    socket.set_tcp_congestion(context.job.group.flows.congestion.as_bytes())?;
    socket.set_nonblocking(true)?;
    match socket.connect(&context.target.into()) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => await_connected(context, &socket)?,
        other => other?,
    }
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(NAP))?;
    Ok(socket)
}

fn await_connected(context: &Context, socket: &Socket) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    while !over(context) {
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&mut poll, 1, NAP.as_millis() as i32) } > 0 {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn send(context: &Context, stream: &mut TcpStream) -> io::Result<()> {
    let chunk = vec![0x77; CHUNK];
    let mut left = context.job.size;
    while left > 0 {
        if over(context) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let n = left.min(CHUNK as u64) as usize;
        match stream.write(&chunk[..n]) {
            Ok(sent) => left -= sent as u64,
            Err(e) if retry(&e) => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(Shutdown::Write)
}

fn await_receiver(context: &Context, shared: &Shared) {
    let mut progress = locked(&shared.progress);
    while !progress.ended && !over(context) {
        let waited = shared.changed.wait_timeout(progress, NAP);
        progress = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn tcp_info(stream: &TcpStream) -> Option<TcpInfo> {
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: a buffer and its length, of which the kernel writes at most that much.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut length,
        )
    };
    (result == 0).then(|| TcpInfo::parse(&bytes[..length as usize]))
}
