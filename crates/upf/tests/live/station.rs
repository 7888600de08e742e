//! A base station with one user equipment: a TUN device on one side, tunnels on the other.

use crate::world::{World, command, inside};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_wire::gtpu;

/// A QoS flow of 5G or a bearer of 4G, and its radio resources.
#[derive(Clone, Copy)]
pub struct Bearer {
    /// Port of servers whose packets are its; of the first bearer are all others.
    pub port: u16,
    /// Tunnel and QoS flow of packets from the user equipment, and of those to it.
    pub up: (u32, Option<u8>),
    pub down: (u32, Option<u8>),
    /// Rate in bit/s behind an endless buffer, and the path behind that; `None` for no limit.
    pub radio: Option<(f64, Duration)>,
}

/// The QoS flow of sessions with one.
const USUAL: Bearer = Bearer { port: 0, up: (0x1005, Some(9)), down: (0x2005, Some(9)), radio: None };
/// Room for any header of GTP-U.
const HEAD_MAX: usize = 16;

/// What came of a bearer: bytes of IP packets, and how long they waited for the radio.
#[derive(Default)]
struct Come {
    bytes: u64,
    waits: Vec<Duration>,
}

/// What others put in the place of a queue: packets above a rate are discarded.
struct Policer {
    bps: f64,
    /// Bits that may come at once, those that may come now, and since when.
    burst: f64,
    tokens: f64,
    since: Instant,
}

impl Policer {
    /// With a burst of a tenth of a second, and of two packets at least.
    fn new(bps: f64) -> Policer {
        let burst = (bps * 0.1).max(2.0 * 1500.0 * 8.0);
        Policer { bps, burst, tokens: burst, since: Instant::now() }
    }

    fn lets_pass(&mut self, bytes: usize) -> bool {
        let (now, bits) = (Instant::now(), bytes as f64 * 8.0);
        let earned = now.duration_since(self.since).as_secs_f64() * self.bps;
        (self.tokens, self.since) = ((self.tokens + earned).min(self.burst), now);
        let passes = self.tokens >= bits;
        self.tokens -= if passes { bits } else { 0.0 };
        passes
    }
}

/// It works until it is dropped.
pub struct Station {
    stop: Arc<AtomicBool>,
    /// Bytes of IP packets that came out of tunnels.
    bytes: Arc<AtomicU64>,
    policer: Arc<Mutex<Option<Policer>>>,
    come: Arc<Mutex<Vec<Come>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A TUN device in the namespace of this thread.
fn tun(name: &str) -> File {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open("/dev/net/tun").unwrap();
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the request is a valid `ifreq`.
    let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &request) };
    assert_eq!(code, 0, "TUNSETIFF: {}", std::io::Error::last_os_error());
    file
}

fn readable(file: &impl AsRawFd) -> bool {
    let mut fd = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is passed.
    unsafe { libc::poll(&mut fd, 1, 50) > 0 }
}

impl Station {
    /// At an address of its namespace, with tunnels to `n3`.
    pub fn new(world: &World, ue: Ipv4Addr, own: IpAddr, n3: IpAddr) -> Station {
        Station::with_bearers(world, ue, own, n3, vec![USUAL])
    }

    /// The same with these bearers.
    pub fn with_bearers(
        world: &World,
        ue: Ipv4Addr,
        own: IpAddr,
        n3: IpAddr,
        bearers: Vec<Bearer>,
    ) -> Station {
        let (device, socket) = inside(&world.ran, || {
            let device = tun("ue0");
            let socket = UdpSocket::bind((own, gtpu::PORT)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            (device, socket)
        });
        for arguments in [
            format!("address add {ue}/32 dev ue0"),
            "link set dev ue0 mtu 1500 up".into(),
            "route add default dev ue0".into(),
        ] {
            let arguments = format!("-n {} {arguments}", world.ran);
            assert!(
                command("ip").args(arguments.split_whitespace()).status().unwrap().success(),
                "{arguments}"
            );
        }
        let stop = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let policer = Arc::new(Mutex::new(None));
        let (device, socket) = (Arc::new(device), Arc::new(socket));
        let come = Arc::new(Mutex::new(bearers.iter().map(|_| Come::default()).collect()));
        let up = std::thread::spawn({
            let (stop, device, socket, bearers) =
                (stop.clone(), device.clone(), socket.clone(), bearers.clone());
            move || put_in(&stop, &device, &socket, n3, &bearers)
        });
        let mut threads = vec![up];
        let air = bearers.iter().map(|bearer| {
            bearer.radio?;
            let ((sender, receiver), device) = (mpsc::channel(), device.clone());
            threads.push(std::thread::spawn(move || deliver(&receiver, &device)));
            Some(sender)
        });
        let air = air.collect();
        let out =
            TakesOut { bytes: bytes.clone(), policer: policer.clone(), come: come.clone(), bearers, air };
        threads.push(std::thread::spawn({
            let stop = stop.clone();
            move || out.take_out(&stop, &device, &socket)
        }));
        Station { stop, bytes, policer, come, threads }
    }

    /// Bit/s of a bearer over a time, and what 95 % of its packets waited for the radio.
    pub fn bearers_over(&self, time: Duration) -> Vec<(f64, Duration)> {
        let take = || -> Vec<Come> {
            let mut come = self.come.lock().unwrap();
            come.iter_mut().map(std::mem::take).collect()
        };
        take();
        let begin = Instant::now();
        std::thread::sleep(time);
        let told = |mut come: Come| {
            come.waits.sort_unstable();
            let wait = come.waits.get(come.waits.len() * 95 / 100).copied().unwrap_or_default();
            (come.bytes as f64 * 8.0 / begin.elapsed().as_secs_f64(), wait)
        };
        take().into_iter().map(told).collect()
    }

    /// Discards what comes out of tunnels above a rate; with `None` nothing.
    pub fn police(&self, bps: Option<f64>) {
        *self.policer.lock().unwrap() = bps.map(Policer::new);
    }

    /// How many bits of IP packets came out of tunnels in a second, over a time, as far as the policer let
    /// them.
    pub fn rate_over(&self, time: Duration) -> f64 {
        let (begin, before) = (Instant::now(), self.bytes.load(Ordering::Relaxed));
        std::thread::sleep(time);
        let bytes = self.bytes.load(Ordering::Relaxed) - before;
        bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()
    }
}

/// The bearer that a packet from the user equipment takes, as traffic flow templates have it.
fn bearer_of<'a>(packet: &[u8], bearers: &'a [Bearer]) -> &'a Bearer {
    let port = packet.get(22..24).map(|port| u16::from_be_bytes([port[0], port[1]]));
    bearers[1..].iter().find(|bearer| Some(bearer.port) == port).unwrap_or(&bearers[0])
}

fn put_in(stop: &AtomicBool, mut device: &File, socket: &UdpSocket, n3: IpAddr, bearers: &[Bearer]) {
    let mut message = vec![0; 2048];
    while !stop.load(Ordering::Relaxed) {
        if !readable(device) {
            continue;
        }
        let Ok(len) = device.read(&mut message[HEAD_MAX..]) else { continue };
        let (teid, qfi) = bearer_of(&message[HEAD_MAX..HEAD_MAX + len], bearers).up;
        let start = HEAD_MAX - gtpu::header_len(qfi.is_some());
        let container = qfi.map(|qfi| (gtpu::Way::Up, qfi));
        gtpu::write_header(&mut message[start..HEAD_MAX], teid, container, len as u16).unwrap();
        let _ = socket.send_to(&message[start..HEAD_MAX + len], (n3, gtpu::PORT));
    }
}

/// What a packet on the air is, and when it is there.
type OnAir = (Instant, Vec<u8>);

/// Gives packets to the user equipment when they are there.
fn deliver(receiver: &mpsc::Receiver<OnAir>, mut device: &File) {
    for (at, packet) in receiver {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = device.write(&packet);
    }
}

struct TakesOut {
    bytes: Arc<AtomicU64>,
    policer: Arc<Mutex<Option<Policer>>>,
    come: Arc<Mutex<Vec<Come>>>,
    bearers: Vec<Bearer>,
    air: Vec<Option<mpsc::Sender<OnAir>>>,
}

impl TakesOut {
    fn take_out(self, stop: &AtomicBool, mut device: &File, socket: &UdpSocket) {
        let mut message = vec![0; 2048];
        let mut free = vec![Instant::now(); self.bearers.len()];
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, _)) = socket.recv_from(&mut message) else { continue };
            let Ok(gtpu::Message::Packet(packet)) = gtpu::read(&message[..len]) else { continue };
            let come = (packet.teid, packet.container.map(|c| c.qfi));
            let bearer = self.bearers.iter().position(|bearer| bearer.down == come);
            let bearer = bearer.unwrap_or_else(|| panic!("a packet of no bearer: {come:x?}"));
            let inner = &message[packet.start..packet.end];
            if self.policer.lock().unwrap().as_mut().is_some_and(|policer| !policer.lets_pass(inner.len())) {
                continue;
            }
            self.bytes.fetch_add(inner.len() as u64, Ordering::Relaxed);
            let now = Instant::now();
            {
                let come = &mut self.come.lock().unwrap()[bearer];
                come.bytes += inner.len() as u64;
                come.waits.push(free[bearer].saturating_duration_since(now));
            }
            match (self.bearers[bearer].radio, &self.air[bearer]) {
                (Some((bps, path)), Some(air)) => {
                    let takes = Duration::from_secs_f64(inner.len() as f64 * 8.0 / bps);
                    free[bearer] = free[bearer].max(now) + takes;
                    let _ = air.send((free[bearer] + path, inner.to_vec()));
                }
                _ => drop(device.write(inner)),
            }
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
