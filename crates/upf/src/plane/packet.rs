//! What rules ask of an IP packet.

use weir_sense::checksum::{finish, sum};

pub(super) const IPV4_MIN: usize = 20;
pub(super) const IPV6_LEN: usize = 40;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
/// Both ports.
const PORTS: usize = 4;
/// Extension headers that are looked through: hop by hop, routing, fragment, destination (RFC 8200 section 4).
const EXTENSIONS: [u8; 4] = [0, 43, FRAGMENT, 60];
const FRAGMENT: u8 = 44;
/// Most of them; what lies behind a longer chain has no ports.
const EXTENSIONS_MAX: usize = 8;

/// What was read of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner {
    /// Whether it is IPv6.
    pub is_v6: bool,
    /// Who sent it; IPv4 in the lowest bits.
    pub source: u128,
    /// Whom it is for.
    pub destination: u128,
    /// What it carries.
    pub protocol: u8,
    /// Source and destination port, where there are any.
    pub ports: Option<(u16, u16)>,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Hops that it may still go.
    pub hops: u8,
    /// Length by its header.
    pub len: u16,
    /// Where the transport header begins.
    pub transport: u16,
    /// Flow label of IPv6.
    pub label: u32,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads a packet from its first byte on; bytes behind its length are padding. `None` for what contradicts itself.
pub fn read(packet: &[u8]) -> Option<Inner> {
    match packet.first()? >> 4 {
        4 => read_v4(packet),
        6 => read_v6(packet),
        _ => None,
    }
}

/// Reads a packet of the form that nearly all have: TCP or UDP over IPv4 without options. `None` for all others.
#[inline(always)]
pub fn read_usual(packet: &[u8]) -> Option<Inner> {
    const TRANSPORT: usize = IPV4_MIN;
    let header: &[u8; TRANSPORT + PORTS] = packet.first_chunk()?;
    let (len, protocol) = (be16(header, 2), header[9]);
    if header[0] != 0x45 || be16(header, 6) & 0x1fff != 0 || !matches!(protocol, TCP | UDP) {
        return None;
    }
    if usize::from(len) < TRANSPORT + PORTS || usize::from(len) > packet.len() {
        return None;
    }
    Some(Inner {
        is_v6: false,
        source: u128::from(be32(header, 12)),
        destination: u128::from(be32(header, 16)),
        protocol,
        ports: Some((be16(header, TRANSPORT), be16(header, TRANSPORT + 2))),
        tos: header[1],
        hops: header[8],
        len,
        transport: TRANSPORT as u16,
        label: 0,
    })
}

fn read_v4(packet: &[u8]) -> Option<Inner> {
    let header: &[u8; IPV4_MIN] = packet.first_chunk()?;
    let (start, len) = (usize::from(header[0] & 15) * 4, be16(header, 2));
    if start < IPV4_MIN || usize::from(len) < start || usize::from(len) > packet.len() {
        return None;
    }
    // Fragments but the first have no ports.
    let has_transport = be16(header, 6) & 0x1fff == 0;
    let transport = &packet[start..usize::from(len)];
    Some(Inner {
        is_v6: false,
        source: u128::from(be32(header, 12)),
        destination: u128::from(be32(header, 16)),
        protocol: header[9],
        ports: if has_transport { ports(header[9], transport) } else { None },
        tos: header[1],
        hops: header[8],
        len,
        transport: start as u16,
        label: 0,
    })
}

fn read_v6(packet: &[u8]) -> Option<Inner> {
    let header: &[u8; IPV6_LEN] = packet.first_chunk()?;
    let len = IPV6_LEN + usize::from(be16(header, 4));
    let packet = packet.get(..len)?;
    let (mut protocol, mut at, mut has_transport) = (header[6], IPV6_LEN, true);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&protocol) {
            break;
        }
        let extension: &[u8; 8] = packet.get(at..)?.first_chunk()?;
        let is_fragment = protocol == FRAGMENT;
        has_transport &= !is_fragment || be16(extension, 2) & 0xfff8 == 0;
        at += if is_fragment { 8 } else { 8 + usize::from(extension[1]) * 8 };
        protocol = extension[0];
    }
    let address =
        |at: usize| u128::from_be_bytes(*header[at..].first_chunk().expect("the header has its length"));
    let transport = packet.get(at..).filter(|_| has_transport);
    Some(Inner {
        is_v6: true,
        source: address(8),
        destination: address(24),
        protocol,
        ports: transport.and_then(|transport| ports(protocol, transport)),
        tos: (be16(header, 0) >> 4) as u8,
        hops: header[7],
        len: u16::try_from(len).ok()?,
        transport: at as u16,
        label: be32(header, 0) & 0xf_ffff,
    })
}

#[inline]
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

#[inline]
fn ports(protocol: u8, transport: &[u8]) -> Option<(u16, u16)> {
    let has = has_ports(protocol) && transport.len() >= PORTS;
    has.then(|| (be16(transport, 0), be16(transport, 2)))
}

impl Inner {
    /// The security parameter index of IPsec.
    pub fn spi(&self, packet: &[u8]) -> Option<u32> {
        let at = usize::from(self.transport)
            + match self.protocol {
                50 => 0,
                51 => 4,
                _ => return None,
            };
        Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?))
    }

    /// Whether no error may be told of it (RFC 1122 section 3.2.2, RFC 4443 section 2.4): it is one itself, or was for many.
    pub fn tells_errors(&self, packet: &[u8]) -> bool {
        let kind = packet.get(usize::from(self.transport)).copied();
        match (self.is_v6, self.protocol) {
            (false, ICMP) => matches!(kind, Some(0 | 8)),
            (true, ICMPV6) => kind.is_some_and(|kind| kind >= 128),
            _ => true,
        }
    }
}

/// Whom a packet is for that was read before, and whether it is IPv6.
#[inline]
pub fn destination(packet: &[u8]) -> (bool, u128) {
    let whole = "it was read before";
    if packet[0] >> 4 == 6 {
        (true, u128::from_be_bytes(*packet[24..].first_chunk().expect(whole)))
    } else {
        (false, u128::from(u32::from_be_bytes(*packet[16..].first_chunk().expect(whole))))
    }
}

/// Takes a hop away; there is one left to take.
#[inline]
pub fn take_hop(packet: &mut [u8]) {
    take_hop_of(packet[0] >> 4 == 6, packet)
}

/// The same where the family is known.
#[inline(always)]
pub(super) fn take_hop_of(is_v6: bool, packet: &mut [u8]) {
    if is_v6 {
        packet[7] -= 1;
        return;
    }
    let header: &mut [u8; IPV4_MIN] = packet.first_chunk_mut().expect("it was read before");
    header[8] -= 1;
    // RFC 1624: the word with the hops is 0x0100 less, so the complement of the sum is that much more.
    let sum = u32::from(be16(header, 10)) + 0x0100;
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
}

/// Sets congestion experienced.
#[inline]
pub fn mark(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[1] |= 0x30;
        return;
    }
    let old = be16(packet, 0);
    packet[1] |= 3;
    let sum = u32::from(!be16(packet, 10)) + u32::from(!old) + u32::from(be16(packet, 0));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Which error is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The packet is longer than what goes on from here.
    TooBig {
        /// The longest that would.
        most: u16,
    },
    /// It has no hops left.
    Expired,
}

/// Most bytes of an error message (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 (c)).
const ERROR_MAX: [usize; 2] = [576, 1280];

/// Writes an ICMP message about a packet into `out`, from `own` (an address of the packet's family) to its sender; its
/// length. `None` if `out` is too short.
pub fn write_error(out: &mut [u8], about: &[u8], told: Told, own: u128) -> Option<usize> {
    if about[0] >> 4 == 6 { error_v6(out, about, told, own) } else { error_v4(out, about, told, own) }
}

fn error_v4(out: &mut [u8], about: &[u8], told: Told, own: u128) -> Option<usize> {
    let quoted = about.len().min(ERROR_MAX[0] - IPV4_MIN - 8);
    let len = IPV4_MIN + 8 + quoted;
    let out = out.get_mut(..len)?;
    out[..IPV4_MIN].copy_from_slice(&[0x45, 0xc0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    out[12..16].copy_from_slice(&(own as u32).to_be_bytes());
    out[16..20].copy_from_slice(&about[12..16]);
    let header = finish(sum(&out[..IPV4_MIN]));
    out[10..12].copy_from_slice(&header.to_be_bytes());
    let (kind, code, most) = match told {
        Told::TooBig { most } => (3, 4, most),
        Told::Expired => (11, 0, 0),
    };
    let icmp = &mut out[IPV4_MIN..];
    icmp[..6].copy_from_slice(&[kind, code, 0, 0, 0, 0]);
    icmp[6..8].copy_from_slice(&most.to_be_bytes());
    icmp[8..].copy_from_slice(&about[..quoted]);
    let checksum = finish(sum(icmp));
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    Some(len)
}

fn error_v6(out: &mut [u8], about: &[u8], told: Told, own: u128) -> Option<usize> {
    let quoted = about.len().min(ERROR_MAX[1] - IPV6_LEN - 8);
    let out = out.get_mut(..IPV6_LEN + 8 + quoted)?;
    out[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    out[4..6].copy_from_slice(&((8 + quoted) as u16).to_be_bytes());
    (out[6], out[7]) = (ICMPV6, 64);
    out[8..24].copy_from_slice(&own.to_be_bytes());
    out[24..40].copy_from_slice(&about[8..24]);
    let (kind, most) = match told {
        Told::TooBig { most } => (2, most),
        Told::Expired => (3, 0),
    };
    out[40..44].copy_from_slice(&[kind, 0, 0, 0]);
    out[44..48].copy_from_slice(&u32::from(most).to_be_bytes());
    out[48..].copy_from_slice(&about[..quoted]);
    let checksum = icmp_v6_checksum(out);
    out[42..44].copy_from_slice(&checksum.to_be_bytes());
    Some(out.len())
}

/// The checksum of an ICMPv6 message whose own field is zero, behind an IPv6 header without extensions.
pub fn icmp_v6_checksum(packet: &[u8]) -> u16 {
    let pseudo = sum(&packet[8..40]) + u64::from(ICMPV6) + (packet.len() - IPV6_LEN) as u64;
    finish(pseudo + sum(&packet[IPV6_LEN..]))
}

#[cfg(test)]
mod tests;
