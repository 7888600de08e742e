//! What an observer without keys can read of a packet: addresses, ports, TCP's numbers, QUIC's visible bits.
//!
//! Reading never panics and takes bounded time, whatever the bytes say. A packet whose headers contradict
//! themselves or its length tells nothing: it is `None`, and it is forwarded all the same.

mod quic;
mod tcp;

pub use quic::QuicPackets;
pub use tcp::{Segment, Stamps};

const IPV4_MIN: usize = 20;
const IPV6_LEN: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LEN: usize = 8;

/// Most extension headers of IPv6 that are looked through (RFC 8200 section 4); chains that are longer carry
/// nothing that could be measured.
pub const EXTENSIONS_MAX: usize = 8;

/// An address of either family; IPv4 is written as `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2).
pub type Address = [u8; 16];

/// What was read of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Who sent it.
    pub source: Address,
    /// Whom it is for.
    pub destination: Address,
    /// Source and destination port; zero where the transport has none.
    pub ports: (u16, u16),
    /// Length of the IP packet.
    pub len: u32,
    /// What it carries.
    pub transport: Transport,
}

/// What a transport shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram that has the form of QUIC. Others may have it as well.
    Quic(QuicPackets),
    /// Anything else: fragments, other protocols, UDP that cannot be QUIC.
    Other,
}

/// Reads an IP packet from its first byte on; bytes behind its length are padding.
pub fn read(packet: &[u8]) -> Option<Datagram> {
    match packet.first()? >> 4 {
        4 => read_ipv4(packet),
        6 => read_ipv6(packet),
        _ => None,
    }
}

fn read_ipv4(packet: &[u8]) -> Option<Datagram> {
    let header = usize::from(packet.first()? & 15) * 4;
    let total = usize::from(be16(packet, 2)?);
    if header < IPV4_MIN || total < header {
        return None;
    }
    let payload = packet.get(..total)?.get(header..)?;
    let mapped = |at: usize| {
        let mut address = [0; 16];
        (address[10], address[11]) = (0xff, 0xff);
        address[12..].copy_from_slice(packet.get(at..at + 4)?);
        Some(address)
    };
    let datagram = Datagram {
        source: mapped(12)?,
        destination: mapped(16)?,
        ports: (0, 0),
        len: total as u32,
        transport: Transport::Other,
    };
    // Only the first fragment has a transport header, and its length says nothing about the segment.
    let is_fragment = be16(packet, 6)? & 0x3fff != 0;
    if is_fragment { Some(datagram) } else { with_transport(datagram, packet[9], payload) }
}

fn read_ipv6(packet: &[u8]) -> Option<Datagram> {
    let total = IPV6_LEN + usize::from(be16(packet, 4)?);
    let payload = packet.get(..total)?.get(IPV6_LEN..)?;
    let address = |at: usize| packet.get(at..at + 16)?.try_into().ok();
    let datagram = Datagram {
        source: address(8)?,
        destination: address(24)?,
        ports: (0, 0),
        len: total as u32,
        transport: Transport::Other,
    };
    match behind_extensions(*packet.get(6)?, payload)? {
        Some((protocol, payload)) => with_transport(datagram, protocol, payload),
        None => Some(datagram),
    }
}

/// The transport behind the extension headers; `Some(None)` where there is none to be seen.
fn behind_extensions(first: u8, payload: &[u8]) -> Option<Option<(u8, &[u8])>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const OPTIONS: u8 = 60;
    let (mut protocol, mut rest) = (first, payload);
    for _ in 0..EXTENSIONS_MAX {
        match protocol {
            HOP_BY_HOP | ROUTING | OPTIONS => {
                let len = 8 + 8 * usize::from(*rest.get(1)?);
                protocol = rest[0];
                rest = rest.get(len..)?;
            }
            FRAGMENT => return Some(None),
            _ => return Some(Some((protocol, rest))),
        }
    }
    Some(None)
}

fn with_transport(datagram: Datagram, protocol: u8, payload: &[u8]) -> Option<Datagram> {
    if !matches!(protocol, TCP | UDP) {
        return Some(datagram);
    }
    let ports = (be16(payload, 0)?, be16(payload, 2)?);
    let transport = match protocol {
        TCP => Transport::Tcp(tcp::read(payload)?),
        _ => {
            let len = usize::from(be16(payload, 4)?);
            let inside = payload.get(UDP_LEN..len)?;
            quic::read(inside).map_or(Transport::Other, Transport::Quic)
        }
    };
    Some(Datagram { ports, transport, ..datagram })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
