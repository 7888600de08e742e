//! Control on a real UDP socket.

use crate::codec::Pfcp;
use crate::control::{Control, Outgoing};
use crate::rules::Plane;
use rand::SeedableRng;
use rand::rngs::{StdRng, SysRng};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
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
    /// Receiving fails.
    #[error("cannot receive PFCP: {0}. Remedy: look whether the interface of `n4.address` is still there")]
    Receive(std::io::Error),
}

/// Control with its socket and clock.
pub struct Server<P> {
    control: Control<P, Pfcp>,
    socket: UdpSocket,
    start: Instant,
    ticked: Time,
    outgoing: Vec<Outgoing>,
    buffer: Box<[u8]>,
    /// Datagrams that the system did not take.
    unsent: u64,
}

impl<P: Plane> Server<P> {
    /// Listens where the configuration says.
    pub fn open(config: &UpfConfig, plane: P) -> Result<Server<P>, Error> {
        let address = SocketAddr::new(config.n4.address, config.n4.udp_port as u16);
        let socket = listen(address).map_err(|error| Error::Listen { address, error })?;
        let numbers = StdRng::try_from_rng(&mut SysRng).map_err(Error::Random)?;
        Ok(Server {
            control: Control::new(config, ntp_seconds(next_second()), plane, Pfcp, numbers),
            socket,
            start: Instant::now(),
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
            self.flush();
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

    fn flush(&mut self) {
        for sent in self.outgoing.drain(..) {
            if self.socket.send_to(&sent.datagram, sent.to).is_err() {
                self.unsent += 1;
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
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

/// Seconds since 1900, as PFCP writes times (RFC 5905 section 6); it wraps in 2036.
/// Waits until a second begins. A start after that of another run in the same second would bear the same time
/// stamp, so that peers would not see that sessions are lost.
fn next_second() -> SystemTime {
    let now = SystemTime::now();
    let over = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let left = Duration::from_nanos(1_000_000_000 - u64::from(over));
    std::thread::sleep(left);
    now + left
}

fn ntp_seconds(time: SystemTime) -> u32 {
    const BEFORE_UNIX: u64 = 2_208_988_800;
    let unix = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    (unix + BEFORE_UNIX) as u32
}
