//! Acknowledgements that say nothing else, of which a later one says all that an earlier one did.

use crate::bytes::{be16, be32};
use crate::ip::{Fragment, Packet, TCP};
use crate::tcp::{ACK, ECE, HEADER_MIN, Options, Stamps, TcpOption};
use weir_units::Ecn;

/// A TCP segment without payload that opens and ends nothing and has no options but timestamps (RFC 7323).
///
/// Acknowledgements are cumulative, so that a queue may let a later one take the place of an earlier one that
/// waits ("ACK filtering", RFC 3449 section 5.2.1). Whatever has a meaning of its own is none of these: SACK
/// blocks, payload, urgent data, an answer to a mark (CWR), a mark on the acknowledgement itself, which its
/// receiver counts (RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PureAck<'a> {
    addresses: &'a [u8],
    ports: u32,
    traffic_class: u8,
    /// Length of the packet in bytes.
    len: usize,
    seq: u32,
    ack: u32,
    /// Flags, with the bits before them, in which AccECN counts (RFC 9768 section 2.2).
    flags: u16,
    stamps: Option<Stamps>,
}

impl<'a> PureAck<'a> {
    /// Reads an IP packet from its first byte on; `None` of all others.
    pub fn read(packet: &'a [u8]) -> Option<PureAck<'a>> {
        let packet = Packet::read(packet)?;
        if packet.ecn() == Ecn::Ce {
            return None;
        }
        let upper = packet.upper()?;
        if upper.protocol != TCP || upper.fragment != Fragment::Whole {
            return None;
        }
        let segment = upper.payload;
        let header_len = usize::from(*segment.get(12)? >> 4) * 4;
        let flags = be16(segment, 12)? & 0x0fff;
        // ECE is a state, which must be the same in both; in AccECN it is the lowest bit of a counter.
        let other = flags as u8 & !(ACK | ECE);
        if segment.len() != header_len || header_len < HEADER_MIN || flags as u8 & ACK == 0 || other != 0 {
            return None;
        }
        let mut stamps = None;
        for option in Options::of(segment) {
            match option {
                TcpOption::Stamps(read) => stamps = Some(read),
                _ => return None,
            }
        }
        // What could not be read to its end may hold anything.
        if header_len - HEADER_MIN > if stamps.is_some() { 12 } else { 0 } {
            return None;
        }
        Some(PureAck {
            addresses: packet.addresses(),
            ports: be32(segment, 0)?,
            traffic_class: packet.traffic_class(),
            len: packet.len(),
            seq: be32(segment, 4)?,
            ack: be32(segment, 8)?,
            flags,
            stamps,
        })
    }

    /// Whether this one says all that `last` says and acknowledges more, and `last` itself acknowledges more
    /// than `before`, so that it is no duplicate: those tell a sender of losses (RFC 5681 section 3.2).
    pub fn replaces(&self, last: &PureAck<'_>, before: &PureAck<'_>) -> bool {
        self.follows(last) && last.follows(before)
    }

    /// Whether it is of the same flow as an earlier one, says the same, and acknowledges more.
    fn follows(&self, earlier: &PureAck<'_>) -> bool {
        let of = |ack: &PureAck<'_>| (ack.ports, ack.traffic_class, ack.len, ack.seq, ack.flags);
        // Numbers wrap: those ahead are in the half above (RFC 9293 section 3.4, RFC 7323 section 5.2).
        let is_ahead = |to: u32, from: u32| (1..1 << 31).contains(&to.wrapping_sub(from));
        let in_order = match (self.stamps, earlier.stamps) {
            (Some(now), Some(then)) => now.value == then.value || is_ahead(now.value, then.value),
            (now, then) => now.is_none() && then.is_none(),
        };
        in_order
            && of(self) == of(earlier)
            && self.addresses == earlier.addresses
            && is_ahead(self.ack, earlier.ack)
    }
}
