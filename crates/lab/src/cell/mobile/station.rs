//! The base station's end of tunnels: GTP-U on a UDP socket at one side, a TUN device at the other. The
//! kernel of its namespace forwards between that and the radio.

use super::N3;
use crate::command::{ip_batch, run};
use crate::error::{Error, Result};
use crate::netns::{self, address, in_netns, link_address, set_sysctl};
use crate::side::Side;
use crate::socket::set_option;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_wire::{gtpu, ip};

/// Name of the TUN device.
const DEVICE: &str = "gtp0";
/// A whole packet and the headers of its tunnel over IPv4.
const MTU: u32 = 1600;
/// QoS flow of all packets.
const QFI: u8 = 9;
/// Room for bursts of the user-plane function.
const SOCKET_BUFFER: u32 = 16 << 20;
/// Longest wait before the end is looked for.
const NAP: Duration = Duration::from_millis(50);

/// The tunnel to a phone, as the base station numbers it.
pub fn downlink_teid(phone: usize) -> u32 {
    0x100 + phone as u32
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The tunnel of each phone's packets at the user-plane function.
    uplinks: RwLock<BTreeMap<Ipv4Addr, u32>>,
    lost: AtomicU64,
}

/// At work until it is dropped.
pub struct Station {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Station {
    /// Starts it in its namespace, on the link to the user plane in that of `plane`.
    pub fn start(namespace: &str, plane: &str, phones: &[Ipv4Addr]) -> Result<Station> {
        ip_batch(plane, &[format!("link set dev {} mtu {MTU}", netns::PORT_B)])?;
        let (device, socket) = in_netns(namespace, || -> Result<(File, UdpSocket)> {
            set_sysctl("ipv4/ip_forward", "1")?;
            Ok((tun()?, socket()?))
        })??;
        ip_batch(namespace, &lines(phones))?;
        for port in [netns::PORT_A, netns::PORT_B] {
            run("tc", &["-n", namespace, "qdisc", "replace", "dev", port, "root", "pfifo"])?;
        }
        let shared: Arc<Shared> = Arc::default();
        let (device, socket) = (Arc::new(device), Arc::new(socket));
        let mut station = Station { shared, threads: Vec::new() };
        let (d, s) = (device.clone(), socket.clone());
        station.thread("weir-gnb-up", move |shared| put_in(shared, &d, &s))?;
        station.thread("weir-gnb-down", move |shared| take_out(shared, &device, &socket))?;
        Ok(station)
    }

    fn thread(&mut self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || body(&shared));
        self.threads.push(thread.map_err(|e| Error::system("start a thread of the base station", e))?);
        Ok(())
    }

    /// Packets of a phone go into this tunnel from now on.
    pub fn attach(&self, phone: Ipv4Addr, teid: u32) {
        self.shared.uplinks.write().unwrap_or_else(PoisonError::into_inner).insert(phone, teid);
    }

    /// Ends it; how many packets it could not pass on.
    pub fn finish(mut self) -> Result<u64> {
        self.end();
        Ok(self.shared.lost.load(Ordering::Relaxed))
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.end();
    }
}

/// Its link to the user plane; the way to the phones, which know the server by its address on the link; the
/// way to the server.
fn lines(phones: &[Ipv4Addr]) -> Vec<String> {
    let (a, b) = (netns::PORT_A, netns::PORT_B);
    let server = address(Side::Sender, false, false);
    let mut lines = vec![
        format!("link set dev {a} mtu {MTU}"),
        format!("addr add {}/24 dev {a}", N3[1]),
        format!("link set dev {b} address {}", link_address(Side::Sender)),
        format!("link set dev {DEVICE} txqueuelen 1000 mtu 1500 up"),
        format!("route add {server}/32 dev {DEVICE}"),
    ];
    for phone in phones {
        lines.push(format!("route add {phone}/32 dev {b}"));
        let there = link_address(Side::Receiver);
        lines.push(format!("neigh replace {phone} lladdr {there} nud permanent dev {b}"));
    }
    lines
}

/// A TUN device in the namespace of this thread.
fn tun() -> Result<File> {
    let path = "/dev/net/tun";
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path);
    let file = file.map_err(|e| Error::system(format!("open {path}"), e))?;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the request is a valid `ifreq`.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &request) } {
        0 => Ok(file),
        _ => Err(Error::last(format!("make the TUN device `{DEVICE}`"))),
    }
}

fn socket() -> Result<UdpSocket> {
    let failed = |e| Error::system("open the base station's socket for GTP-U", e);
    // Its own address comes later: the link gets it after the device.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, gtpu::PORT)).map_err(failed)?;
    socket.set_read_timeout(Some(NAP)).map_err(failed)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER)
        .map_err(|e| Error::system("give the base station's socket room for bursts", e))?;
    Ok(socket)
}

fn readable(file: &File) -> bool {
    let mut fd = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is passed.
    unsafe { libc::poll(&mut fd, 1, NAP.as_millis() as i32) > 0 }
}

/// From phones into tunnels.
fn put_in(shared: &Shared, mut device: &File, socket: &UdpSocket) {
    let head = gtpu::header_len(true);
    let mut message = vec![0; 2048];
    while !shared.stop.load(Ordering::Relaxed) {
        if !readable(device) {
            continue;
        }
        let Ok(len) = device.read(&mut message[head..]) else { continue };
        let Some(IpAddr::V4(source)) = ip::source(&message[head..head + len]) else { continue };
        let uplinks = shared.uplinks.read().unwrap_or_else(PoisonError::into_inner);
        let Some(teid) = uplinks.get(&source) else { continue };
        let written = gtpu::write_header(&mut message, *teid, Some((gtpu::Way::Up, QFI)), len as u16);
        if written.is_err() || socket.send_to(&message[..head + len], (N3[0], gtpu::PORT)).is_err() {
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Out of tunnels, to phones.
fn take_out(shared: &Shared, mut device: &File, socket: &UdpSocket) {
    let mut message = vec![0; 2048];
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok((len, _)) = socket.recv_from(&mut message) else { continue };
        if let Ok(gtpu::Message::Packet(packet)) = gtpu::read(&message[..len])
            && device.write(&message[packet.start..packet.end]).is_err()
        {
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_are_reached_as_the_server_reached_them() {
        let lines = lines(&[Ipv4Addr::new(10, 77, 0, 21)]);
        assert!(lines.iter().any(|l| l.contains("address 02:77:00:00:00:01")), "{lines:?}");
        assert!(lines.last().unwrap().contains("10.77.0.21 lladdr 02:77:00:00:00:02"), "{lines:?}");
        assert_ne!(downlink_teid(0), downlink_teid(1));
    }
}
