//! Transfers of a given size over this program's own TCP sockets. Hundreds of them may be open: one thread
//! sends those of a group, and one receives them.

use super::{Findings, FlowReport, Interval, Numbered, PACED_BYTES_PER_S, TrafficOptions, Transfer};
use crate::error::{Error, Result};
use crate::netns::{Testbed, enter_netns, in_netns};
use crate::process::{SpawnOptions, block_on, set_affinity, set_nice};
use crate::side::Side;
use crate::sock_diag::TcpInfo;
use crate::socket::set_option;
use crate::tcpinfo::{FlowTable, PortEnd};
use socket2::{Domain, SockRef, Socket, Type};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use weir_config::Pacing;
use weir_units::Time;

/// Most transfers of a group that are under way at once; further ones are left out, with a warning.
pub(super) const MAX_OPEN: usize = 512;
/// The threads look this often whether they shall end, and receivers whether there is data below the
/// low-water mark.
const NAP: Duration = Duration::from_millis(50);
/// Bytes given to or taken from the kernel at once.
const CHUNK: usize = 128 * 1024;
/// What is sent.
static DATA: [u8; CHUNK] = [0x77; CHUNK];
/// How long an accepted connection waits for the sending thread to say whose it is.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);

/// The transfers of a group.
pub(super) struct Job {
    pub group: Numbered,
    pub size: u64,
    pub every: Option<weir_units::Duration>,
    pub options: Arc<TrafficOptions>,
}

/// A transfer as both sides see it.
#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    ended: Notify,
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

/// What both threads of a job share.
struct Context {
    job: Job,
    target: SocketAddr,
    /// Connections by the port of the sending side, for the receiving side to find.
    claims: Mutex<HashMap<u16, Arc<Shared>>>,
    table: FlowTable,
    abort: Arc<AtomicBool>,
    /// Set when the sending thread has ended.
    finished: AtomicBool,
    stop: Time,
}

impl Context {
    fn now(&self) -> Time {
        self.job.options.clock.now()
    }

    fn seconds(&self, time: Time) -> f64 {
        self.job.options.clock.seconds(time)
    }

    fn is_over(&self) -> bool {
        self.abort.load(Ordering::Relaxed) || self.now() >= self.stop
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the threads of a group: one that receives, one that sends.
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
    open_as_many_files_as_allowed();
    let context = Arc::new(Context {
        job,
        target,
        claims: Mutex::default(),
        table: table.clone(),
        abort: abort.clone(),
        finished: AtomicBool::new(false),
        stop,
    });
    let (namespace, findings) = (testbed.namespace(source).to_string(), findings.clone());
    let receiving = context.clone();
    Ok(vec![
        spawn("weir-sink", move || sink_thread(receiving, listener, sink))?,
        spawn("weir-source", move || source_thread(context, &namespace, &findings))?,
    ])
}

/// Both ends of each transfer are here.
fn open_as_many_files_as_allowed() {
    // SAFETY: the pointers are to a plain struct.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
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
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn domain(ip: IpAddr) -> Domain {
    if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }
}

/// CPUs and niceness are wishes here: transfers run without them, too.
fn settle(options: &SpawnOptions) {
    let _ = set_affinity(&options.cpus);
    if options.nice != 0 {
        let _ = set_nice(options.nice);
    }
}

// The receiving side.

fn sink_thread(context: Arc<Context>, listener: Socket, side: Side) {
    settle(context.job.options.spawn_options(side));
    // Without it the connections are closed, and the sender reports its transfers as incomplete.
    let _ = block_on(async {
        let listener = TcpListener::from_std(listener.into())?;
        let buffer = Rc::new(RefCell::new(vec![0; CHUNK]));
        while !context.finished.load(Ordering::Relaxed) {
            let (stream, peer) = match timeout(NAP, listener.accept()).await {
                Ok(Ok(accepted)) => accepted,
                // As where there are no more descriptors.
                Ok(Err(_)) => {
                    sleep(NAP).await;
                    continue;
                }
                Err(_) => continue,
            };
            let (context, buffer) = (context.clone(), buffer.clone());
            spawn_local(async move {
                if let Some(shared) = claim(&context, peer.port()).await {
                    receive(&context, &stream, &shared, &buffer).await;
                }
            });
        }
        Ok(())
    });
}

/// Finds whose connection it is. The sending thread says so when it has begun to connect, which may be later
/// than the accept where it had no processor.
async fn claim(context: &Context, port: u16) -> Option<Arc<Shared>> {
    let deadline = Instant::now() + CLAIM_TIMEOUT;
    while Instant::now() < deadline && !context.finished.load(Ordering::Relaxed) {
        if let Some(shared) = locked(&context.claims).remove(&port) {
            return Some(shared);
        }
        sleep(Duration::from_millis(1)).await;
    }
    None
}

async fn receive(context: &Context, stream: &TcpStream, shared: &Shared, buffer: &RefCell<Vec<u8>>) {
    // Transfers run without it too, in larger bursts.
    let _ = context.job.options.receiving.set(stream);
    let interval = context.job.options.interval.into();
    let mut from = context.now();
    let mut pending = 0;
    loop {
        let read = match timeout(NAP, stream.readable()).await {
            Ok(Ok(())) => stream.try_read(&mut buffer.borrow_mut()),
            Ok(Err(e)) => Err(e),
            Err(_) => below_the_mark(stream, &mut buffer.borrow_mut()),
        };
        let now = context.now();
        let mut progress = locked(&shared.progress);
        if progress.ended {
            break;
        }
        let over = match read {
            Ok(0) => true,
            Ok(n) => {
                if progress.received == 0 {
                    let _ = context.job.options.receiving.set(stream);
                }
                pending += n as u64;
                progress.received += n as u64;
                if progress.received >= context.job.size {
                    progress.completed.get_or_insert(now);
                }
                false
            }
            Err(e) => !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        let complete = progress.completed.is_some();
        if over || complete || now.since(from) >= interval {
            if pending > 0 {
                let (from_s, to_s) = (context.seconds(from), context.seconds(now));
                progress.intervals.push(Interval { from_s, to_s, bytes: pending });
            }
            (from, pending) = (now, 0);
        }
        if over || complete {
            progress.ended = true;
            shared.ended.notify_one();
            break;
        }
    }
}

/// What waits although the kernel wakes nobody for it, as it is less than the low-water mark.
fn below_the_mark(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: initialized bytes may be taken for some that need not be; the kernel only writes to them.
    let room = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    SockRef::from(stream).recv(room)
}

// The sending side.

/// What the sending thread of a group knows of all its transfers.
struct Sending {
    context: Arc<Context>,
    /// True when all of them are to end.
    over: watch::Receiver<bool>,
    open: Cell<usize>,
    skipped: Cell<usize>,
    /// How many could not begin, and why the first of them could not.
    failed: RefCell<Option<(usize, io::Error)>>,
}

fn source_thread(context: Arc<Context>, namespace: &str, findings: &Findings) {
    settle(context.job.options.spawn_options(context.job.group.source()));
    let group = context.job.group.index;
    match enter_netns(namespace) {
        Ok(()) => {
            if let Err(e) = block_on(send_group(context.clone(), findings)) {
                findings.warn(format!("group {group}: transfers could not be made: {e}"));
            }
        }
        Err(e) => findings.warn(format!("group {group}: {e}")),
    }
    context.finished.store(true, Ordering::Release);
}

async fn send_group(context: Arc<Context>, findings: &Findings) -> io::Result<()> {
    let (end, over) = watch::channel(false);
    let sending = Rc::new(Sending {
        context: context.clone(),
        over,
        open: Cell::new(0),
        skipped: Cell::new(0),
        failed: RefCell::default(),
    });
    let group = &context.job.group;
    let flows = group.first_flow..group.first_flow + group.flows.count;
    let flows: Vec<_> = flows.map(|flow| spawn_local(run_flow(sending.clone(), flow))).collect();
    let watched = context.clone();
    let watcher = spawn_local(async move {
        sleep_until(&watched, watched.stop).await;
        let _ = end.send(true);
    });
    for flow in flows {
        match flow.await {
            Ok(report) => findings.flow(report),
            Err(e) => findings.warn(format!("group {}: a flow is missing: {e}", group.index)),
        }
    }
    watcher.abort();
    let skipped = sending.skipped.get();
    if skipped > 0 {
        let index = group.index;
        findings.warn(format!("group {index}: {skipped} transfers were left out, as {MAX_OPEN} were open"));
    }
    if let Some((count, why)) = sending.failed.take() {
        findings.warn(format!("group {}: {count} transfers could not begin: {why}", group.index));
    }
    Ok(())
}

/// Sleeps until `due`, a time of the run's clock, or until all flows are to end.
async fn sleep_until(context: &Context, due: Time) {
    while !context.abort.load(Ordering::Relaxed) {
        let left = Duration::from_nanos(due.since(context.now()).as_nanos());
        if left.is_zero() {
            break;
        }
        sleep(left.min(NAP)).await;
    }
}

/// Starts the transfers of a flow when they are due and collects what became of them.
async fn run_flow(sending: Rc<Sending>, flow: u32) -> FlowReport {
    let context = sending.context.clone();
    let group = &context.job.group;
    let (mut due, _) = context.job.options.life(&group.flows);
    let mut transfers = Vec::new();
    while due < context.stop {
        sleep_until(&context, due).await;
        if context.is_over() {
            break;
        }
        if sending.open.get() >= MAX_OPEN {
            sending.skipped.set(sending.skipped.get() + 1);
        } else {
            sending.open.set(sending.open.get() + 1);
            let sending = sending.clone();
            transfers.push(spawn_local(async move {
                let made = transfer(&sending, flow).await;
                sending.open.set(sending.open.get() - 1);
                made
            }));
        }
        match context.job.every {
            Some(period) => due += period.max(weir_units::Duration::from_nanos(1)),
            None => break,
        }
    }
    let mut report = FlowReport {
        id: flow,
        group: group.index,
        congestion: group.flows.congestion.clone(),
        ..FlowReport::default()
    };
    for made in transfers {
        let Ok((transfer, intervals, retransmits)) = made.await else { continue };
        report.transfers.push(transfer);
        report.intervals.extend(intervals);
        report.retransmits += retransmits;
    }
    report.transfers.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    report.intervals.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    report
}

/// Sends one transfer and waits until the receiver has it, or until the flow stops.
async fn transfer(sending: &Sending, flow: u32) -> (Transfer, Vec<Interval>, u64) {
    let context = &sending.context;
    let begin = context.now();
    let mut result = Transfer { start_s: context.seconds(begin), ..Transfer::default() };
    let (stream, port) = match begin_to_connect(context) {
        Ok(begun) => begun,
        Err(e) => {
            let mut failed = sending.failed.borrow_mut();
            failed.get_or_insert((0, e)).0 += 1;
            return (result, Vec::new(), 0);
        }
    };
    let shared = Arc::new(Shared::default());
    context.table.register(context.job.group.source(), PortEnd::Local(port), flow);
    locked(&context.claims).insert(port, shared.clone());
    let mut over = sending.over.clone();
    let deliver = async {
        if send(context, &stream).await.is_ok() {
            shared.ended.notified().await;
        }
    };
    first(deliver, over.wait_for(|is_over| *is_over)).await;
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
        let to_s = context.seconds(context.now());
        progress.intervals.push(Interval { from_s, to_s, bytes: rest });
    }
    result.completion_s = progress.completed.map(|t| t.since(begin).as_secs_f64());
    if result.completion_s.is_none() {
        // What is still in the send buffer must not be sent after the flow's stop: a reset throws it away.
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
    (result, std::mem::take(&mut progress.intervals), retransmits)
}

/// Waits for whichever comes first.
async fn first(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A connection that has been asked for, and its port.
fn begin_to_connect(context: &Context) -> io::Result<(TcpStream, u16)> {
    let socket = Socket::new(domain(context.target.ip()), Type::STREAM, None)?;
    let flows = &context.job.group.flows;
    socket.set_tcp_congestion(flows.congestion.as_bytes())?;
    if flows.host.pacing == Pacing::On {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, PACED_BYTES_PER_S)?;
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&context.target.into()) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        other => other?,
    }
    let port = socket.local_addr()?.as_socket().map(|address| address.port());
    let port = port.ok_or_else(|| io::Error::other("the address of a socket is none"))?;
    Ok((TcpStream::from_std(socket.into())?, port))
}

async fn send(context: &Context, stream: &TcpStream) -> io::Result<()> {
    let mut left = context.job.size;
    while left > 0 {
        // Before the first byte this is when the connection is there, or refused.
        stream.writable().await?;
        if let Some(e) = stream.take_error()? {
            return Err(e);
        }
        match stream.try_write(&DATA[..left.min(CHUNK as u64) as usize]) {
            Ok(sent) => left -= sent as u64,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    SockRef::from(stream).shutdown(Shutdown::Write)
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
