//! TCP sockets of a namespace as the kernel lists them (`sock_diag` over netlink).

use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NETLINK_HEADER: usize = 16;
/// `struct inet_diag_msg`.
const DIAG_MESSAGE: usize = 72;
/// The largest message the kernel makes for a dump is 32 KiB.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// States in which a connection can still carry data: ESTABLISHED, FIN_WAIT1, CLOSE_WAIT, LAST_ACK, CLOSING.
pub(crate) const CONNECTED: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// State of a socket that accepts connections.
pub(crate) const LISTENING: u32 = 1 << 10;

/// What the kernel tells about a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; 0 while it is infinite.
    pub ssthresh: u32,
    /// Smoothed RTT in microseconds.
    pub rtt_us: u32,
    /// Variation of the RTT in microseconds.
    pub rttvar_us: u32,
    /// Segments sent again so far.
    pub retransmits: u32,
    /// Bytes acknowledged by the peer so far.
    pub bytes_acked: u64,
    /// Bytes received in order so far.
    pub bytes_received: u64,
    /// Bytes sent so far, including those sent again.
    pub bytes_sent: u64,
    /// Delivery rate as the kernel estimates it, in bit/s.
    pub delivery_bps: u64,
    /// Largest rate at which its socket was asked to pace, in bit/s; 0 where it was not.
    pub pacing_max_bps: u64,
    /// Time with data to send or on the way, in microseconds.
    pub busy_us: u64,
    /// Part of the busy time in which the receiver's window was the limit, in microseconds.
    pub receive_limited_us: u64,
    /// Part of the busy time in which the send buffer was the limit, in microseconds.
    pub send_limited_us: u64,
}

impl TcpInfo {
    /// Reads `struct tcp_info`. Older kernels have shorter ones: what they lack is zero.
    pub fn parse(bytes: &[u8]) -> TcpInfo {
        const ECN_NEGOTIATED: u8 = 8;
        const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
        let (u32_at, u64_at) = (|at| u32_at(bytes, at), |at| u64_at(bytes, at));
        let ssthresh = u32_at(76);
        TcpInfo {
            ecn: bytes.get(5).is_some_and(|options| options & ECN_NEGOTIATED != 0),
            rtt_us: u32_at(68),
            rttvar_us: u32_at(72),
            ssthresh: if ssthresh >= INFINITE_SSTHRESH { 0 } else { ssthresh },
            cwnd: u32_at(80),
            retransmits: u32_at(100),
            pacing_max_bps: u64_at(112).checked_add(1).map_or(0, |next| (next - 1).saturating_mul(8)),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            delivery_bps: u64_at(160).saturating_mul(8),
            busy_us: u64_at(168),
            receive_limited_us: u64_at(176),
            send_limited_us: u64_at(184),
            bytes_sent: u64_at(200),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// A TCP socket of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// Whether it is an IPv6 socket.
    pub ipv6: bool,
    /// Port on this side.
    pub local_port: u16,
    /// Port of the peer.
    pub remote_port: u16,
    /// State of the connection; `None` if the kernel gave none.
    pub tcp: Option<TcpInfo>,
}

/// A netlink socket that lists the TCP sockets of the namespace it was opened in, from whatever thread.
pub(crate) struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens it in the namespace of the calling thread.
    pub fn open() -> Result<SockDiag> {
        // SAFETY: plain integers; the result is checked before use.
        let fd = unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG)
        };
        if fd < 0 {
            return Err(Error::last("open a sock_diag socket (kernel option INET_DIAG)"));
        }
        // SAFETY: `fd` was just opened and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(SockDiag { socket, sequence: 0, buffer: vec![0; RECEIVE_BUFFER] })
    }

    /// All TCP sockets in one of the states, of both IP versions.
    pub fn dump(&mut self, states: u32) -> Result<Vec<SocketInfo>> {
        let mut sockets = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump_family(family as u8, states, &mut sockets)?;
        }
        Ok(sockets)
    }

    fn dump_family(&mut self, family: u8, states: u32, sockets: &mut Vec<SocketInfo>) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(family, states, self.sequence);
        // SAFETY: a buffer and its length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        if sent < 0 {
            return Err(Error::last("ask the kernel for its TCP sockets"));
        }
        loop {
            // SAFETY: a buffer and its length.
            let length = unsafe {
                libc::recv(self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0)
            };
            if length < 0 {
                return Err(Error::last("read the list of TCP sockets"));
            }
            let message = &self.buffer[..length as usize];
            if read_messages(message, self.sequence, sockets)? || length == 0 {
                return Ok(());
            }
        }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(family: u8, states: u32, sequence: u32) -> [u8; NETLINK_HEADER + 56] {
    let mut r = [0; NETLINK_HEADER + 56];
    let length = r.len() as u32;
    r[0..4].copy_from_slice(&length.to_ne_bytes());
    r[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    r[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    r[8..12].copy_from_slice(&sequence.to_ne_bytes());
    r[16] = family;
    r[17] = libc::IPPROTO_TCP as u8;
    r[18] = 1 << (INET_DIAG_INFO - 1);
    r[20..24].copy_from_slice(&states.to_ne_bytes());
    r
}

/// Reads what one call received; true when the list is complete. Messages cut short are left out.
fn read_messages(mut bytes: &[u8], sequence: u32, sockets: &mut Vec<SocketInfo>) -> Result<bool> {
    while bytes.len() >= NETLINK_HEADER {
        let length = u32_at(bytes, 0) as usize;
        let Some(payload) = bytes.get(NETLINK_HEADER..length) else { break };
        // An earlier dump that was given up may still have messages in the socket.
        if u32_at(bytes, 8) == sequence {
            match u16_at(bytes, 4) {
                NLMSG_DONE => return Ok(true),
                NLMSG_ERROR => return Err(netlink_error(payload)),
                SOCK_DIAG_BY_FAMILY => sockets.extend(read_socket(payload)),
                _ => {}
            }
        }
        bytes = bytes.get(align(length)..).unwrap_or_default();
    }
    Ok(false)
}

fn netlink_error(payload: &[u8]) -> Error {
    let code = u32_at(payload, 0) as i32;
    Error::system("list TCP sockets", std::io::Error::from_raw_os_error(code.wrapping_neg()))
}

/// `struct inet_diag_msg` and its attributes.
fn read_socket(payload: &[u8]) -> Option<SocketInfo> {
    let mut attributes = payload.get(DIAG_MESSAGE..)?;
    let port = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let mut socket = SocketInfo {
        ipv6: payload[0] == libc::AF_INET6 as u8,
        local_port: port(4),
        remote_port: port(6),
        tcp: None,
    };
    while attributes.len() >= 4 {
        let length = usize::from(u16_at(attributes, 0));
        let Some(value) = attributes.get(4..length) else { break };
        if u16_at(attributes, 2) == INET_DIAG_INFO {
            socket.tcp = Some(TcpInfo::parse(value));
        }
        attributes = attributes.get(align(length)..).unwrap_or_default();
    }
    Some(socket)
}

/// Netlink aligns to four bytes. Headers make every length at least four, so that loops make progress.
fn align(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn own_connections_are_listed_with_their_state() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut diag = SockDiag::open().unwrap();
        assert!(diag.dump(LISTENING).unwrap().iter().any(|s| s.local_port == port));
        let local = stream.local_addr().unwrap().port();
        let sockets = diag.dump(CONNECTED).unwrap();
        let mine = sockets.iter().find(|s| s.local_port == local && s.remote_port == port).unwrap();
        assert!(!mine.ipv6 && mine.tcp.unwrap().cwnd > 0);
    }

    #[test]
    fn short_and_odd_messages_are_no_panic() {
        let mut full = vec![0; NETLINK_HEADER + DIAG_MESSAGE + 4 + 232];
        let total = full.len() as u32;
        full[0..4].copy_from_slice(&total.to_ne_bytes());
        full[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        full[8..12].copy_from_slice(&7u32.to_ne_bytes());
        let attribute = NETLINK_HEADER + DIAG_MESSAGE;
        full[attribute..attribute + 2].copy_from_slice(&236u16.to_ne_bytes());
        full[attribute + 2..attribute + 4].copy_from_slice(&INET_DIAG_INFO.to_ne_bytes());
        full[attribute + 4 + 80] = 10;
        for cut in 0..full.len() {
            let mut sockets = Vec::new();
            assert!(!read_messages(&full[..cut], 7, &mut sockets).unwrap());
            assert!(sockets.is_empty());
        }
        let mut sockets = Vec::new();
        read_messages(&full, 7, &mut sockets).unwrap();
        assert_eq!(sockets[0].tcp.unwrap().cwnd, 10);
        // A length of zero must not loop for ever.
        full[0..4].fill(0);
        assert!(!read_messages(&full, 7, &mut sockets).unwrap());
        assert_eq!(TcpInfo::parse(&[0xff; 7]), TcpInfo { ecn: true, ..TcpInfo::default() });
    }
}
