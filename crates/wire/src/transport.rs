//! What an observer without keys can read of a packet: ports, TCP's numbers, QUIC's visible bits.
//!
//! A packet whose headers contradict themselves or its length shows nothing: it is `None`, and it is
//! forwarded all the same.

use crate::ip::{Fragment, Packet, TCP, UDP, Upper};
use crate::quic::{self, QuicPackets};
use crate::tcp::Segment;
use crate::udp;

/// What was read of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source and destination port; zero where the transport has none, and in fragments.
    pub ports: (u16, u16),
    /// Length of the IP packet in bytes.
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

/// Reads an IP packet from its first byte on; bytes behind its length are padding. `None` if a header
/// contradicts itself or the length of the slice.
#[inline]
pub fn read(packet: &[u8]) -> Option<Datagram> {
    let packet = Packet::read(packet)?;
    let other = Datagram { ports: (0, 0), len: packet.len() as u32, transport: Transport::Other };
    let Upper { protocol, fragment, payload, .. } = packet.upper()?;
    // Only the first fragment has a transport's header, and its length says nothing about the segment.
    if fragment != Fragment::Whole {
        return Some(other);
    }
    match protocol {
        TCP => {
            let ports = (crate::bytes::be16(payload, 0)?, crate::bytes::be16(payload, 2)?);
            Some(Datagram { ports, transport: Transport::Tcp(Segment::read(payload)?), ..other })
        }
        UDP => {
            let datagram = udp::Datagram::read(payload)?;
            let transport = quic::read(datagram.payload()).map_or(Transport::Other, Transport::Quic);
            Some(Datagram { ports: datagram.ports(), transport, ..other })
        }
        _ => Some(other),
    }
}
