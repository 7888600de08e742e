//! Control on a real UDP socket.

use crate::codec::Pfcp;
use crate::control::is_earlier;
use crate::control::{Control, Outgoing};
use crate::rules::Plane;
use crate::state::{self, Start, Store};
use rand::SeedableRng;
use rand::rngs::{StdRng, SysRng};
use socket2::{Domain, Protocol, Socket, Type};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use weir_config::UpfConfig;
use weir_units::Time;

/// Most datagrams between two looks at the clock.
const BATCH: usize = 256;
/// Between two looks at what is due.
const TICK: weir_units::Duration = weir_units::Duration::from_millis(10);
/// Room for datagrams that wait: a burst of ten thousand requests.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be had.
    #[error(
        "cannot listen on {address} for PFCP: {error}. Remedy: give this machine the address of `n4.address`, and end \
             what else listens there"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers, of which those of sessions and tunnels are: {0}")]
    Random(rand::rngs::SysError),
    /// Sessions cannot be kept.
    #[error(transparent)]
    State(#[from] state::Error),
    /// Receiving fails.
    #[error("cannot receive PFCP: {0}. Remedy: look whether the interface of `n4.address` is still there")]
    Receive(std::io::Error),
}

/// Control with its socket and clock.
pub struct Server<P> {
    control: Control<P, Pfcp>,
    socket: UdpSocket,
    /// Nanoseconds from the start of the machine to that of this function, or to that of the one whose
    /// sessions go on.
    started: u64,
    store: Option<Store>,
    said: Vec<String>,
    ticked: Time,
    outgoing: Vec<Outgoing>,
    buffer: Box<[u8]>,
    /// Datagrams that the system did not take.
    unsent: u64,
}

impl<P: Plane> Server<P> {
    /// Listens where the configuration says. Sessions are in memory.
    ///
    /// # Errors
    ///
    /// If the address cannot be had, or the system has no random numbers.
    pub fn open(config: &UpfConfig, plane: P) -> Result<Server<P>, Error> {
        Server::begin(config, plane, ntp_seconds(next_second()))
    }

    /// The same with sessions that are kept in a folder, of which this process has the lock
    /// ([`state::lock`]). Those that are there go on: all, or none where that cannot be, and only then peers
    /// see another start.
    ///
    /// # Errors
    ///
    /// As [`Server::open`], and if the folder cannot be read or written.
    pub fn open_keeping(config: &UpfConfig, plane: P, folder: &Path, lock: File) -> Result<Server<P>, Error> {
        let node = config.n4.address;
        let boot = boot();
        let found = state::find(folder, node, &boot)?;
        let clock = ntp_seconds(SystemTime::now());
        // Another than the last, whatever the clock says: it may begin anew with each boot.
        let anew = found.last.map_or_else(
            || ntp_seconds(next_second()),
            |last| if is_earlier(last, clock) { clock } else { last.wrapping_add(1) },
        );
        let recovery = found.kept.as_ref().map_or(anew, |(start, _)| start.recovery);
        let mut server = Server::begin(config, plane, recovery)?;
        server.said = found.said;
        if let Some((start, saved)) = found.kept {
            let count = saved.sessions.len();
            let now = std::mem::replace(&mut server.started, start.started);
            match server.control.restore(server.now(), saved) {
                Ok(()) => server.said.push(format!("{count} sessions of before go on")),
                Err(why) => {
                    server.started = now;
                    server.control.set_recovery(anew);
                    server.said.push(format!("{count} sessions of before are lost: {why}"));
                }
            }
        }
        server.control.note_changes();
        let recovery = server.control.recovery();
        let start = Start { recovery, started: server.started };
        let peers = server.control.saved_peers();
        let seids = server.control.seids();
        let control = &mut server.control;
        let all = seids.into_iter().filter_map(|seid| control.saved_session(seid));
        let store = Store::begin(folder, lock, node, &boot, start, all, peers);
        let unwritten = |error| state::Error::Folder { path: folder.into(), error };
        server.store = Some(store.map_err(unwritten)?);
        Ok(server)
    }

    fn begin(config: &UpfConfig, plane: P, recovery: u32) -> Result<Server<P>, Error> {
        let address = SocketAddr::new(config.n4.address, config.n4.udp_port as u16);
        let socket = listen(address).map_err(|error| Error::Listen { address, error })?;
        let numbers = StdRng::try_from_rng(&mut SysRng).map_err(Error::Random)?;
        Ok(Server {
            control: Control::new(config, recovery, plane, Pfcp, numbers),
            socket,
            started: since_boot(),
            store: None,
            said: Vec::new(),
            ticked: Time::ZERO,
            outgoing: Vec::new(),
            buffer: vec![0; 1 << 16].into(),
            unsent: 0,
        })
    }

    /// Takes what comes in, for at most `wait`, and does what is due.
    pub fn turn(&mut self, wait: Duration) -> Result<(), Error> {
        // A timeout of zero would be one without end.
        let wait = wait.max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(wait)).map_err(Error::Receive)?;
        for _ in 0..BATCH {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, from)) => {
                    let now = self.now();
                    self.control.receive(now, from, &self.buffer[..length], &mut self.outgoing);
                    self.keep();
                    self.flush();
                }
                Err(error) if would_wait(&error) => break,
                Err(error) => return Err(Error::Receive(error)),
            }
            if self.now().since(self.ticked) >= TICK {
                break;
            }
        }
        let now = self.now();
        if now.since(self.ticked) >= TICK {
            self.ticked = now;
            self.control.tick(now, &mut self.outgoing);
            self.keep();
            self.flush();
            self.renew(false);
        }
        Ok(())
    }

    /// Asks peers to release us, for at most `wait`.
    pub fn goodbye(&mut self, wait: Duration) -> Result<(), Error> {
        let now = self.now();
        self.control.goodbye(now, &mut self.outgoing);
        self.flush();
        let end = Instant::now() + wait;
        while self.control.unanswered() > 0 && Instant::now() < end {
            self.turn(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// Keeps what changed, before it is answered.
    fn keep(&mut self) {
        let Some(store) = &mut self.store else { return };
        let (changed, peers) = self.control.take_changes();
        let peers = peers.then(|| self.control.saved_peers());
        let control = &mut self.control;
        let sessions = changed.into_iter().map(|seid| (seid, control.saved_session(seid)));
        if let Err(error) = store.note(sessions, peers) {
            self.spoil(&error);
        }
    }

    /// A new snapshot, where the log of changes is long, or at the end.
    fn renew(&mut self, is_end: bool) {
        let Some(store) = self.store.as_mut().filter(|store| is_end || store.is_long()) else { return };
        let (peers, seids) = (self.control.saved_peers(), self.control.seids());
        let control = &mut self.control;
        let all = seids.into_iter().filter_map(|seid| control.saved_session(seid));
        if let Err(error) = store.snapshot(all, peers) {
            self.spoil(&error);
        }
    }

    fn spoil(&mut self, error: &std::io::Error) {
        if let Some(mut store) = self.store.take() {
            store.spoil();
            self.said.push(format!(
                "sessions are no longer kept, and a restart loses them: {error}. Remedy: make room in `run.state`, and \
                 start again when no session is needed"
            ));
        }
    }

    /// Whether sessions go on after this function ends.
    pub fn keeps(&self) -> bool {
        self.store.is_some()
    }

    /// Keeps everything as it is now: the end, after which another run takes up.
    pub fn close(&mut self) {
        self.keep();
        self.renew(true);
    }

    /// What there is to say of what is kept since it was last asked, in words.
    pub fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn flush(&mut self) {
        for sent in self.outgoing.drain(..) {
            if self.socket.send_to(&sent.datagram, sent.to).is_err() {
                self.unsent += 1;
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(since_boot().saturating_sub(self.started))
    }

    /// The control half.
    pub fn control(&mut self) -> &mut Control<P, Pfcp> {
        &mut self.control
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Datagrams that the system did not take.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }
}

fn listen(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Less room than asked for is no reason to stop: what does not fit is sent again by the peer.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn would_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Nanoseconds since the machine started. The clock goes on while it sleeps, and nobody sets it.
fn since_boot() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to `time`, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * weir_units::NANOS_PER_SEC + time.tv_nsec as u64
}

/// Which start of the machine this is.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_string()).unwrap_or_default()
}

/// Waits until a second begins. A start after that of another run in the same second would bear the same time
/// stamp, so that peers would not see that sessions are lost.
fn next_second() -> SystemTime {
    let now = SystemTime::now();
    let over = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let left = Duration::from_nanos(1_000_000_000 - u64::from(over));
    std::thread::sleep(left);
    now + left
}

/// Seconds since 1900, as PFCP writes times (RFC 5905 section 6); it wraps in 2036.
fn ntp_seconds(time: SystemTime) -> u32 {
    const BEFORE_UNIX: u64 = 2_208_988_800;
    let unix = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    (unix + BEFORE_UNIX) as u32
}
