//! A base station with one user equipment: a TUN device on one side, tunnels on the other.

use crate::world::{World, inside};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_wire::gtpu;

const TEID: u32 = 0x1005;
const QFI: u8 = 9;

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
                Command::new("ip").args(arguments.split_whitespace()).status().unwrap().success(),
                "{arguments}"
            );
        }
        let stop = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let policer = Arc::new(Mutex::new(None));
        let (device, socket) = (Arc::new(device), Arc::new(socket));
        let up = std::thread::spawn({
            let (stop, device, socket) = (stop.clone(), device.clone(), socket.clone());
            move || put_in(&stop, &device, &socket, n3)
        });
        let down = std::thread::spawn({
            let (stop, bytes, policer) = (stop.clone(), bytes.clone(), policer.clone());
            move || take_out(&stop, &device, &socket, &bytes, &policer)
        });
        Station { stop, bytes, policer, threads: vec![up, down] }
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

fn put_in(stop: &AtomicBool, mut device: &File, socket: &UdpSocket, n3: IpAddr) {
    let head = gtpu::header_len(true);
    let mut message = vec![0; 2048];
    while !stop.load(Ordering::Relaxed) {
        if !readable(device) {
            continue;
        }
        let Ok(len) = device.read(&mut message[head..]) else { continue };
        gtpu::write_header(&mut message[..head], TEID, Some((gtpu::Way::Up, QFI)), len as u16).unwrap();
        let _ = socket.send_to(&message[..head + len], (n3, gtpu::PORT));
    }
}

fn take_out(
    stop: &AtomicBool,
    mut device: &File,
    socket: &UdpSocket,
    bytes: &AtomicU64,
    policer: &Mutex<Option<Policer>>,
) {
    let mut message = vec![0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, _)) = socket.recv_from(&mut message) else { continue };
        if let Ok(gtpu::Message::Packet(packet)) = gtpu::read(&message[..len]) {
            assert_eq!(packet.container.map(|c| c.qfi), Some(QFI));
            let len = packet.end - packet.start;
            if policer.lock().unwrap().as_mut().is_some_and(|policer| !policer.lets_pass(len)) {
                continue;
            }
            bytes.fetch_add(len as u64, Ordering::Relaxed);
            let _ = device.write(&message[packet.start..packet.end]);
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
