//! Tunnels of GTP-U as they travel: what stands in front of a packet (IP, UDP and GTP-U), and what came in.

use crate::bytes::{field, room};
use crate::checksum::{finish, finish_nonzero, pseudo, sum};
use crate::ethernet::HEADER_LEN as ETHERNET;
use crate::gtpu::{self, Container, GPdu, Way};
use crate::ip::{Fragment, Packet, UDP, mapped};
use crate::{TooShort, ipv4, ipv6, udp};
use core::net::{IpAddr, SocketAddr};

/// The longest headers, in bytes: IPv6, UDP, and GTP-U with a PDU session container.
pub const OVERHEAD_MAX: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + gtpu::header_len(true);
/// Where GTP-U begins over IPv4, and what stands in front of most packets.
const GTPU_V4: usize = ipv4::HEADER_MIN + udp::HEADER_LEN;
const USUAL: usize = GTPU_V4 + gtpu::header_len(true);
const GTPU_V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN;
/// Where a PDU session container says the direction, behind where GTP-U begins: header, optional octets, and
/// its length.
const WAY: usize = gtpu::HEADER + 5;

/// The way into a tunnel, with as much of the headers as is the same for all packets.
#[derive(Clone, Copy, Debug)]
pub struct Encapsulation {
    /// Sum of what the checksum is of and is the same for all: the IPv4 header, or the pseudo-header of UDP
    /// over IPv6.
    partial: u32,
    /// Bits of the packet's traffic class octet that are copied, and those that are set.
    tos: (u8, u8),
    is_v6: bool,
    /// What the container says of the direction.
    way: Way,
    teid: u32,
    /// All headers, with a PDU session container; lengths, traffic class, QoS flow and checksums are filled
    /// in.
    head: [u8; OVERHEAD_MAX],
}

impl Encapsulation {
    /// From an address of ours to tunnel `teid` of the other end; `None` if they are of different families.
    /// `dscp` is the traffic class octet; without it that of the packet is copied. ECN always is (RFC
    /// 6040, normal mode).
    pub fn new(local: IpAddr, remote: SocketAddr, teid: u32, dscp: Option<u8>) -> Option<Encapsulation> {
        let mut head = [0; OVERHEAD_MAX];
        let (is_v6, partial) = match (local, remote.ip()) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let header =
                    ipv6::Header { next_header: UDP, ..ipv6::Header::new(from.octets(), to.octets()) };
                header.write(&mut head).ok()?;
                (true, pseudo(&head[8..ipv6::HEADER_LEN], UDP, 0))
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // Not to be fragmented, so that an identification is not needed (RFC 6864).
                let header = ipv4::Header { protocol: UDP, ..ipv4::Header::new(from.octets(), to.octets()) };
                header.write(&mut head).ok()?;
                // The checksum is of what follows from the packet.
                head[10..12].fill(0);
                head[2..4].fill(0);
                (false, sum(&head[..ipv4::HEADER_MIN]))
            }
            _ => return None,
        };
        let at = if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_MIN };
        let ports = udp::Header { source: gtpu::PORT, destination: remote.port() };
        ports.write_without_checksum(&mut head[at..]).ok()?;
        gtpu::write_header(&mut head[at + udp::HEADER_LEN..], teid, Some((Way::Down, 0)), 0).ok()?;
        let tos = dscp.map_or((0xff, 0), |dscp| (3, dscp & 0xfc));
        // Sums of at most twenty words.
        Some(Encapsulation { partial: partial as u32, tos, is_v6, way: Way::Down, teid, head })
    }

    /// The same for packets from the user equipment, as one user-plane function sends them to the next over
    /// N9: the PDU session container is that of the uplink (TS 38.415 section 5.5.2.2).
    pub fn upward(mut self) -> Encapsulation {
        self.way = Way::Up;
        self.head[self.head_len() + WAY] = gtpu::of_way(Way::Up);
        self
    }

    /// The other end as a number ([`mapped`]).
    #[inline]
    pub fn host(&self) -> u128 {
        // The last four bytes of sixteen that end with the destination.
        let host = match self.is_v6 {
            true => u128::from_be_bytes(field(&self.head, 24)),
            false => u128::from_be_bytes(field(&self.head, 4)) & u128::from(u32::MAX),
        };
        mapped(self.is_v6, host)
    }

    /// The tunnel, by its number at the other end.
    pub fn teid(&self) -> u32 {
        self.teid
    }

    /// Whether it is reached by IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Bytes in front of the payload of UDP.
    #[inline]
    pub fn head_len(&self) -> usize {
        if self.is_v6 { GTPU_V6 } else { GTPU_V4 }
    }

    /// Bytes in front of a packet, with a PDU session container or without.
    #[inline]
    pub fn overhead(&self, container: bool) -> usize {
        self.head_len() + gtpu::header_len(container)
    }

    /// The traffic class octet in front of a packet with this one.
    #[inline]
    fn tos(&self, inner_tos: u8) -> u8 {
        inner_tos & self.tos.0 | self.tos.1
    }

    /// Writes the headers in front of a packet that stands at the end of `out`, behind exactly
    /// [`Encapsulation::overhead`] bytes; `qfi` is the QoS flow, 0 to 63.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than that, or longer than an IP packet can be.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8], qfi: Option<u8>, inner_tos: u8) -> Result<(), TooShort> {
        match qfi {
            Some(qfi) if !self.is_v6 => self.write_usual(out, qfi, inner_tos),
            _ => self.write_any(out, qfi, inner_tos),
        }
    }

    /// Over IPv4, with a PDU session container.
    #[inline(always)]
    fn write_usual(&self, out: &mut [u8], qfi: u8, inner_tos: u8) -> Result<(), TooShort> {
        let len = u16::try_from(out.len()).map_err(|_| TooShort)?;
        let head: &mut [u8; USUAL] = room(out)?;
        head.copy_from_slice(&self.head[..USUAL]);
        let message = len - (GTPU_V4 + gtpu::HEADER) as u16;
        head[GTPU_V4 + 2..GTPU_V4 + 4].copy_from_slice(&message.to_be_bytes());
        head[GTPU_V4 + 14] = qfi & 0x3f;
        self.fill_v4(head, len, self.tos(inner_tos));
        Ok(())
    }

    #[inline(never)]
    fn write_any(&self, out: &mut [u8], qfi: Option<u8>, inner_tos: u8) -> Result<(), TooShort> {
        let (head_len, overhead) = (self.head_len(), self.overhead(qfi.is_some()));
        let container = qfi.map(|qfi| (self.way, qfi));
        let len = out.len().checked_sub(overhead).and_then(|len| u16::try_from(len).ok()).ok_or(TooShort)?;
        gtpu::write_header(&mut out[head_len..overhead], self.teid, container, len)?;
        self.write_head(out, inner_tos)
    }

    /// Writes IP and UDP header in front of a payload of UDP that stands behind [`Encapsulation::head_len`]
    /// bytes.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than that, or longer than an IP packet can be.
    pub fn write_head(&self, out: &mut [u8], inner_tos: u8) -> Result<(), TooShort> {
        let tos = self.tos(inner_tos);
        if self.is_v6 {
            return self.head_v6(out, tos);
        }
        let len = u16::try_from(out.len()).map_err(|_| TooShort)?;
        let head: &mut [u8; GTPU_V4] = room(out)?;
        head.copy_from_slice(&self.head[..GTPU_V4]);
        self.fill_v4(head, len, tos);
        Ok(())
    }

    /// Fills in what differs between packets over IPv4.
    #[inline(always)]
    fn fill_v4(&self, head: &mut [u8], len: u16, tos: u8) {
        let Ok(head) = room::<GTPU_V4>(head) else { return };
        head[1] = tos;
        head[2..4].copy_from_slice(&len.to_be_bytes());
        let checksum = finish(u64::from(self.partial) + u64::from(tos) + u64::from(len));
        head[10..12].copy_from_slice(&checksum.to_be_bytes());
        // No checksum of UDP: the packet has its own (TS 29.281 section 4.4.2.1 leaves it open).
        head[24..26].copy_from_slice(&(len - ipv4::HEADER_MIN as u16).to_be_bytes());
    }

    fn head_v6(&self, out: &mut [u8], tos: u8) -> Result<(), TooShort> {
        const UDP_AT: usize = ipv6::HEADER_LEN;
        let len = out.len().checked_sub(UDP_AT).and_then(|len| u16::try_from(len).ok()).ok_or(TooShort)?;
        room::<GTPU_V6>(out)?.copy_from_slice(&self.head[..GTPU_V6]);
        (out[0], out[1]) = (0x60 | tos >> 4, tos << 4);
        out[4..6].copy_from_slice(&len.to_be_bytes());
        out[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&len.to_be_bytes());
        let checksum = finish_nonzero(u64::from(self.partial) + u64::from(len) + sum(&out[UDP_AT..]));
        let at = UDP_AT + udp::CHECKSUM_AT;
        out[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        Ok(())
    }
}

/// A datagram for the port of tunnels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Who sent it; IPv4 in the lowest 32 bits.
    pub from: u128,
    /// Whom it is for; IPv4 in the lowest 32 bits.
    pub to: u128,
    /// Whether it came over IPv6.
    pub is_v6: bool,
    /// Traffic class of the outer header.
    pub tos: u8,
    /// Source port.
    pub port: u16,
    /// Where the payload of UDP begins, in bytes from the beginning of the packet.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Why an IP packet holds no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDatagram {
    /// Its headers contradict themselves or its length.
    Malformed,
    /// It is a fragment, and nothing is put together here.
    Fragment,
    /// It is something else than UDP for this port.
    Other,
    /// Its checksum is wrong, or missing over IPv6.
    Checksum,
}

/// Reads the outer headers of an IP packet.
///
/// # Errors
///
/// If it holds no message for the port of tunnels; why not.
#[inline(always)]
pub fn read(packet: &[u8]) -> Result<Datagram, NoDatagram> {
    let packet = Packet::read(packet).ok_or(NoDatagram::Malformed)?;
    let upper = packet.upper().ok_or(NoDatagram::Malformed)?;
    match (upper.fragment, upper.protocol) {
        (Fragment::Whole, UDP) => {}
        (Fragment::Whole, _) => return Err(NoDatagram::Other),
        // What a later fragment of IPv6 carries is not known.
        (_, protocol) if protocol != UDP && matches!(packet, Packet::V4(_)) => return Err(NoDatagram::Other),
        _ => return Err(NoDatagram::Fragment),
    }
    let ports: &[u8; 4] = upper.payload.first_chunk().ok_or(NoDatagram::Malformed)?;
    if u16::from_be_bytes([ports[2], ports[3]]) != gtpu::PORT {
        return Err(NoDatagram::Other);
    }
    let udp = udp::Datagram::read(upper.payload).ok_or(NoDatagram::Malformed)?;
    let (is_v6, from, to) = match packet {
        Packet::V4(v4) => {
            let [from, to] = [v4.source(), v4.destination()].map(|a| u128::from(u32::from_be_bytes(a)));
            (false, from, to)
        }
        Packet::V6(v6) => {
            let [from, to] = [v6.source(), v6.destination()].map(u128::from_be_bytes);
            (true, from, to)
        }
    };
    // Over IPv4 there may be no checksum; over IPv6 there must be one, because nothing else covers the
    // addresses.
    let is_right = match udp.is_without_checksum() {
        true => !is_v6,
        false => udp.has_right_checksum(packet.addresses()),
    };
    if !is_right {
        return Err(NoDatagram::Checksum);
    }
    let (start, end) = (upper.offset + udp::HEADER_LEN, upper.offset + udp.len());
    Ok(Datagram { from, to, is_v6, tos: packet.traffic_class(), port: udp.ports().0, start, end })
}

/// A packet in a tunnel, in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunnelled {
    /// The address that it came from, as a number ([`mapped`]).
    pub from: u128,
    /// The address that the tunnel ends at, as a number ([`mapped`]).
    pub host: u128,
    /// Traffic class of the outer header.
    pub tos: u8,
    /// Where the message begins in the frame, in bytes.
    pub message: usize,
    /// What it says.
    pub gpdu: GPdu,
}

impl Tunnelled {
    /// What was read step by step of a frame without VLAN tags.
    pub fn new(datagram: &Datagram, gpdu: GPdu) -> Tunnelled {
        let Datagram { is_v6, from, to, tos, start, .. } = *datagram;
        let [from, host] = [from, to].map(|address| mapped(is_v6, address));
        Tunnelled { from, host, tos, message: ETHERNET + start, gpdu }
    }

    /// Where the packet begins in the frame, and where it ends.
    #[inline]
    pub fn bounds(&self) -> (usize, usize) {
        (self.message + self.gpdu.start, self.message + self.gpdu.end)
    }
}

/// Reads a frame that has the usual form: IPv4 without options, no fragment, UDP without checksum, a PDU
/// session container from the access side, a packet with ports, and lengths that leave no padding between.
/// `None` of all others, which are read step by step ([`read`], [`gtpu::read`]); what is read is the same.
#[inline(always)]
pub fn read_usual(frame: &[u8]) -> Option<Tunnelled> {
    /// Where the message begins behind Ethernet, IPv4 without options, and UDP.
    const MESSAGE: usize = ETHERNET + GTPU_V4;
    /// Where the packet begins: the message has a PDU session container and nothing else.
    const PACKET: usize = MESSAGE + gtpu::header_len(true);
    /// The least that a message is long behind its first header: with one more, an IP header, and ports.
    const LEAST: usize = 8 + 20 + 4;
    let head: &[u8; PACKET] = frame.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if word(12) != crate::ethernet::IPV4 || head[14] != 0x45 || word(20) & 0x3fff != 0 || head[23] != UDP {
        return None;
    }
    if word(36) != gtpu::PORT || word(40) != 0 {
        return None;
    }
    // Version 1, an extension header; G-PDU. Its type, its length in units of four, that it comes from there,
    // the QoS flow; that it is the last.
    let extension = number(53);
    if word(42) != 0x34ff || extension & 0xffff_f000 != 0x8501_1000 || head[57] != 0 {
        return None;
    }
    let (ip, udp, message) = (usize::from(word(16)), usize::from(word(38)), usize::from(word(44)));
    if ip != udp + 20 || udp != message + 16 || message < LEAST || ip > frame.len() - ETHERNET {
        return None;
    }
    let container = Some(Container { way: Way::Up, qfi: extension as u8 & 0x3f });
    let (start, end) = (gtpu::header_len(true), gtpu::HEADER + message);
    let gpdu = GPdu { teid: number(46), container, start, end };
    let [from, host] = [26, 30].map(|at| mapped(false, u128::from(number(at))));
    Some(Tunnelled { from, host, tos: head[15], message: MESSAGE, gpdu })
}
