//! IP packets of either family, read and changed alike.

pub use crate::fragment::Fragment;

use crate::{ipv4, ipv6};
use core::net::IpAddr;
use weir_units::Ecn;

/// Protocol number of ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// Protocol number of TCP (RFC 9293).
pub const TCP: u8 = 6;
/// Protocol number of UDP (RFC 768).
pub const UDP: u8 = 17;
/// Protocol number of IPsec's encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// Protocol number of IPsec's authentication header (RFC 4302).
pub const AH: u8 = 51;
/// Protocol number of ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// Protocol number for experiments (RFC 3692).
pub const EXPERIMENT: u8 = 253;
/// Length of both ports in bytes.
const PORTS: usize = 4;

/// A whole packet of either family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// IPv4.
    V4(ipv4::Packet<'a>),
    /// IPv6.
    V6(ipv6::Packet<'a>),
}

impl<'a> Packet<'a> {
    /// Reads a packet from its first byte on, by its version; bytes behind its length are padding. `None` of
    /// what is neither, and of what contradicts itself or the length of the slice.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Packet<'a>> {
        match bytes.first()? >> 4 {
            4 => ipv4::Packet::read(bytes).map(Packet::V4),
            6 => ipv6::Packet::read(bytes).map(Packet::V6),
            _ => None,
        }
    }

    /// Length of the packet in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Packet::V4(packet) => packet.len(),
            Packet::V6(packet) => packet.len(),
        }
    }

    /// Never: a packet has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The octet with DSCP and ECN.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        match self {
            Packet::V4(packet) => packet.traffic_class(),
            Packet::V6(packet) => packet.traffic_class(),
        }
    }

    /// The ECN field.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Source and destination, one behind the other: 8 or 32 bytes, as pseudo-headers have them.
    #[inline(always)]
    pub fn addresses(&self) -> &'a [u8] {
        match self {
            Packet::V4(packet) => packet.addresses(),
            Packet::V6(packet) => packet.addresses(),
        }
    }

    /// What it carries, behind options or extension headers; `None` if it ends within an extension header.
    #[inline(always)]
    pub fn upper(&self) -> Option<Upper<'a>> {
        match self {
            Packet::V4(packet) => {
                let (protocol, offset, fragment) =
                    (packet.protocol(), packet.header_len(), packet.fragment());
                Some(Upper { protocol, offset, fragment, payload: packet.payload() })
            }
            Packet::V6(packet) => {
                let ipv6::Upper { protocol, offset, fragment, .. } = packet.upper()?;
                Some(Upper { protocol, offset, fragment, payload: packet.bytes().get(offset..)? })
            }
        }
    }
}

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper<'a> {
    /// The protocol (see [`ipv6::Upper::protocol`] for fragments of IPv6).
    pub protocol: u8,
    /// Where `payload` begins, in bytes from the beginning of the packet.
    pub offset: usize,
    /// Which part of a packet it is.
    pub fragment: Fragment,
    /// The protocol's header and what follows it; of a fragment but the first, data.
    pub payload: &'a [u8],
}

impl Upper<'_> {
    /// Source and destination port, where there are any: in whole packets and first fragments of TCP, UDP and
    /// SCTP.
    #[inline(always)]
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.fragment == Fragment::Later { None } else { ports(self.protocol, self.payload) }
    }
}

#[inline(always)]
fn ports(protocol: u8, payload: &[u8]) -> Option<(u16, u16)> {
    if !has_ports(protocol) {
        return None;
    }
    let ports: &[u8; PORTS] = payload.first_chunk()?;
    Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
}

/// Whether the first four bytes of a protocol's header are source and destination port.
#[inline(always)]
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

/// What the headers of a packet say, for those who ask for most of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whether it is IPv6.
    pub is_v6: bool,
    /// Who sent it; IPv4 in the lowest 32 bits.
    pub source: u128,
    /// Whom it is for; IPv4 in the lowest 32 bits.
    pub destination: u128,
    /// What it carries (see [`ipv6::Upper::protocol`] for fragments of IPv6).
    pub protocol: u8,
    /// Source and destination port, where there are any: in whole packets and first fragments of TCP, UDP
    /// and SCTP.
    pub ports: Option<(u16, u16)>,
    /// Which part of a packet it is.
    pub fragment: Fragment,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hops that it may still go.
    pub hops: u8,
    /// Length of the packet in bytes, 20 to 65575.
    pub len: u32,
    /// Where the transport's header begins, in bytes from the beginning of the packet.
    pub transport: u32,
    /// Flow label of IPv6, 20 bits.
    pub flow_label: u32,
}

impl Header {
    /// Reads a packet from its first byte on; bytes behind its length are padding. `None` of what contradicts
    /// itself or the length of the slice.
    pub fn read(packet: &[u8]) -> Option<Header> {
        let packet = Packet::read(packet)?;
        let upper = packet.upper()?;
        let (is_v6, source, destination, hops, flow_label) = match packet {
            Packet::V4(v4) => {
                let [source, destination] = [v4.source(), v4.destination()].map(number_of_v4);
                (false, source, destination, v4.hops(), 0)
            }
            Packet::V6(v6) => {
                let [source, destination] = [v6.source(), v6.destination()].map(u128::from_be_bytes);
                (true, source, destination, v6.hops(), v6.flow_label())
            }
        };
        Some(Header {
            is_v6,
            source,
            destination,
            protocol: upper.protocol,
            ports: upper.ports(),
            fragment: upper.fragment,
            traffic_class: packet.traffic_class(),
            hops,
            len: packet.len() as u32,
            transport: upper.offset as u32,
            flow_label,
        })
    }

    /// Reads a packet of the form that nearly all have: TCP or UDP over IPv4, without options and no
    /// fragment. `None` of all others. What is read is what [`Header::read`] reads.
    #[inline(always)]
    pub fn read_usual(packet: &[u8]) -> Option<Header> {
        const TRANSPORT: usize = ipv4::HEADER_MIN;
        let head: &[u8; TRANSPORT + PORTS] = packet.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let address = |at: usize| u128::from(u32::from(word(at)) << 16 | u32::from(word(at + 2)));
        let (len, protocol) = (word(2), head[9]);
        if head[0] != 0x45 || word(6) & 0x3fff != 0 || !matches!(protocol, TCP | UDP) {
            return None;
        }
        if usize::from(len) < TRANSPORT + PORTS || usize::from(len) > packet.len() {
            return None;
        }
        Some(Header {
            is_v6: false,
            source: address(12),
            destination: address(16),
            protocol,
            ports: Some((word(TRANSPORT), word(TRANSPORT + 2))),
            fragment: Fragment::Whole,
            traffic_class: head[1],
            hops: head[8],
            len: u32::from(len),
            transport: TRANSPORT as u32,
            flow_label: 0,
        })
    }

    /// The security parameter index of IPsec (RFC 4302, RFC 4303) in the packet that this was read of.
    pub fn spi(&self, packet: &[u8]) -> Option<u32> {
        let within = match self.protocol {
            _ if self.fragment == Fragment::Later => return None,
            ESP => 0,
            AH => 4,
            _ => return None,
        };
        crate::bytes::be32(packet.get(..self.len as usize)?, self.transport as usize + within)
    }
}

#[inline(always)]
fn number_of_v4(address: [u8; 4]) -> u128 {
    u128::from(u32::from_be_bytes(address))
}

/// An address of either family as one number: IPv4 as `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2).
#[inline(always)]
pub fn mapped(is_v6: bool, address: u128) -> u128 {
    if is_v6 { address } else { 0xffff_0000_0000 | address }
}

/// Whether a packet that was read before is IPv6.
#[inline(always)]
pub fn is_v6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}

/// Whom a packet is for that was read before, and whether it is IPv6; IPv4 in the lowest 32 bits.
#[inline(always)]
pub fn destination(packet: &[u8]) -> Option<(bool, u128)> {
    if is_v6(packet) {
        Some((true, u128::from_be_bytes(crate::bytes::array(packet, 24)?)))
    } else {
        Some((false, number_of_v4(crate::bytes::array(packet, 16)?)))
    }
}

/// Who sent a packet, by its version; `None` if it ends before. Nothing else of it is looked at.
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(crate::bytes::array::<4>(packet, 12)?)),
        6 => Some(IpAddr::from(crate::bytes::array::<16>(packet, 8)?)),
        _ => None,
    }
}

/// Sets "congestion experienced" in a packet that was read before.
#[inline(always)]
pub fn mark(packet: &mut [u8]) {
    if is_v6(packet) { ipv6::mark(packet) } else { ipv4::mark(packet) }
}

/// Takes one hop away from a packet that was read before.
#[inline(always)]
pub fn take_hop(is_v6: bool, packet: &mut [u8]) {
    if is_v6 { ipv6::take_hop(packet) } else { ipv4::take_hop(packet) }
}
