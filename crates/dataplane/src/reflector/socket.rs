//! Reflecting from packet sockets, where XDP is unavailable.

use super::turn::{ReflectedFrame, turn};
use super::{KnownHost, Reflected};
use crate::Error;
use crate::interface::Interface;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use weir_sense::probe::PROTOCOL;
use weir_wire::{ethernet, ipv4, ipv6};

/// Longest frame that can hold a probe, with padding; what is longer is cut and is none.
const FRAME_MAX: usize = 128;
/// Frames taken from a socket until the other one is looked at.
const DRAINED_MAX: usize = 256;
/// Ethernet header, then the protocol's place in the header of IPv4 and of IPv6.
const PROTOCOL_AT: [(libc::c_int, usize); 2] = [
    (libc::ETH_P_IP, ethernet::HEADER_LEN + ipv4::PROTOCOL_AT),
    (libc::ETH_P_IPV6, ethernet::HEADER_LEN + ipv6::NEXT_HEADER_AT),
];

/// Sockets that see probes, and sockets that keep the kernel from answering them itself.
pub struct Sockets {
    packet: [OwnedFd; 2],
    /// A protocol that nobody listens to is answered with an ICMP message. Never read: what does not fit is
    /// dropped.
    _listeners: Vec<OwnedFd>,
    known: KnownHost,
    /// What became of probes.
    pub reflected: Reflected,
}

impl Sockets {
    /// Opens them on an interface.
    pub fn open(interface: &Interface, known: &KnownHost) -> Result<Sockets, Error> {
        let [v4, v6] = PROTOCOL_AT.map(|(kind, at)| packet_socket(interface, kind, at as u32));
        let packet = [v4?, v6?];
        // IPv6 may be off.
        let listeners =
            vec![listener(libc::AF_INET)?].into_iter().chain(listener(libc::AF_INET6).ok()).collect();
        Ok(Sockets { packet, _listeners: listeners, known: known.clone(), reflected: Reflected::default() })
    }

    /// Turns around what comes in within a span.
    pub fn work(&mut self, span: Duration) -> Result<(), Error> {
        let end = Instant::now() + span;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let events = libc::POLLIN;
            let mut fds = [0, 1].map(|i| libc::pollfd { fd: self.packet[i].as_raw_fd(), events, revents: 0 });
            // SAFETY: the array holds two descriptors.
            unsafe { libc::poll(fds.as_mut_ptr(), 2, left.as_millis() as libc::c_int) };
            for socket in 0..2 {
                self.drain(socket)?;
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    fn drain(&mut self, socket: usize) -> Result<(), Error> {
        let fd = self.packet[socket].as_raw_fd();
        let mut buffer = [0u8; FRAME_MAX];
        // A flood at one socket holds up neither the other one nor the end.
        for _ in 0..DRAINED_MAX {
            // SAFETY: the pointer and length describe the buffer.
            let len = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
            if len < 0 {
                let error = std::io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(()),
                    _ => Err(Error::io("cannot read probes", error)),
                };
            }
            let frame = &mut buffer[..len as usize];
            match turn(frame, &self.known) {
                ReflectedFrame::Back => {
                    // SAFETY: the pointer and length describe the frame. One that cannot be sent now is lost.
                    let sent =
                        unsafe { libc::send(fd, frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
                    self.reflected.reflected += u64::from(sent >= 0);
                }
                ReflectedFrame::Refused => self.reflected.refused += 1,
                ReflectedFrame::NotOurs => {}
            }
        }
        Ok(())
    }
}

fn socket(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Result<OwnedFd, Error> {
    // SAFETY: no pointers are involved.
    match unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) } {
        raw if raw < 0 => Err(Error::os("cannot open a socket for probes")),
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        raw => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
    }
}

fn listener(domain: libc::c_int) -> Result<OwnedFd, Error> {
    socket(domain, libc::SOCK_RAW, libc::c_int::from(PROTOCOL))
}

/// A packet socket that gets probes of one IP version, and nothing that is sent here.
fn packet_socket(interface: &Interface, kind: libc::c_int, protocol_at: u32) -> Result<OwnedFd, Error> {
    let fd = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    filter(&fd, protocol_at)?;
    let one: libc::c_int = 1;
    option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one)?;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (kind as u16).to_be();
    address.sll_ifindex = interface.index as i32;
    // SAFETY: the pointer and length describe the address.
    let code = unsafe {
        let pointer: *const libc::sockaddr_ll = &address;
        libc::bind(fd.as_raw_fd(), pointer.cast(), size_of_val(&address) as libc::socklen_t)
    };
    if code == 0 { Ok(fd) } else { Err(Error::os(format!("{}: cannot receive probes", interface.name))) }
}

/// Lets only the protocol of probes through.
fn filter(fd: &OwnedFd, protocol_at: u32) -> Result<(), Error> {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_BYTE, 0, 0, protocol_at),
        step(JUMP_EQUAL, 0, 1, u32::from(PROTOCOL)),
        step(RETURN, 0, 0, FRAME_MAX as u32),
        step(RETURN, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn option<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> Result<(), Error> {
    // SAFETY: the pointer and length describe the value.
    let code = unsafe {
        let pointer: *const T = value;
        libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<T>() as libc::socklen_t)
    };
    if code == 0 { Ok(()) } else { Err(Error::os("cannot set up a socket for probes")) }
}
