//! The bits of QUIC that are visible without keys (RFC 8999, RFC 9000 section 17, RFC 9369).

use crate::bytes::be32;

/// Most packets that are looked for in one datagram (RFC 9000 section 12.2); the interesting ones come first.
pub const COALESCED_MAX: usize = 4;

/// What the packets of one datagram show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuicPackets {
    /// There is an Initial packet of a known version.
    pub initial: bool,
    /// There is a Handshake packet of a known version.
    pub handshake: bool,
    /// The spin bit, where the datagram begins with a packet of one round-trip time (short header).
    pub spin: Option<bool>,
}

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;
const VERSION_1: u32 = 1;
/// RFC 9369 section 3.1.
const VERSION_2: u32 = 0x6b33_43cf;
const CONNECTION_ID_MAX: u8 = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// Version 2 turns the types by one (RFC 9369 section 3.2).
fn kind(first: u8, version: u32) -> Option<Kind> {
    const KINDS: [Kind; 4] = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry];
    let bits = usize::from(first >> 4 & 3);
    match version {
        VERSION_1 => Some(KINDS[bits]),
        VERSION_2 => Some(KINDS[(bits + 3) % 4]),
        _ => None,
    }
}

/// Reads a UDP payload; `None` if it cannot be QUIC of a known version.
#[inline]
pub fn read(datagram: &[u8]) -> Option<QuicPackets> {
    let first = *datagram.first()?;
    if first & FIXED == 0 {
        return None;
    }
    if first & LONG == 0 {
        return Some(QuicPackets { spin: Some(first & SPIN != 0), ..QuicPackets::default() });
    }
    let mut seen = QuicPackets::default();
    let mut rest = datagram;
    for number in 0..COALESCED_MAX {
        let Some((kind, behind)) = long_header(rest) else {
            // The first packet decides whether this is QUIC; padding or damage behind it does not matter.
            return (number > 0).then_some(seen);
        };
        seen.initial |= kind == Kind::Initial;
        seen.handshake |= kind == Kind::Handshake;
        rest = behind;
    }
    Some(seen)
}

/// The kind of a packet with a long header, and what follows the packet.
fn long_header(bytes: &[u8]) -> Option<(Kind, &[u8])> {
    let first = *bytes.first()?;
    if first & LONG == 0 || first & FIXED == 0 {
        return None;
    }
    let kind = kind(first, be32(bytes, 1)?)?;
    let rest = skip_connection_id(bytes.get(5..)?)?;
    let rest = skip_connection_id(rest)?;
    let rest = match kind {
        // It has no length and ends the datagram.
        Kind::Retry => return Some((kind, &[])),
        Kind::Initial => skip_counted(rest)?,
        Kind::ZeroRtt | Kind::Handshake => rest,
    };
    Some((kind, skip_counted(rest)?))
}

fn skip_connection_id(bytes: &[u8]) -> Option<&[u8]> {
    let len = *bytes.first()?;
    if len > CONNECTION_ID_MAX { None } else { bytes.get(1 + usize::from(len)..) }
}

/// Skips a variable-length integer (RFC 9000 section 16) and as many bytes as it says.
fn skip_counted(bytes: &[u8]) -> Option<&[u8]> {
    let first = *bytes.first()?;
    let size = 1usize << (first >> 6);
    let start = u64::from(first & 0x3f);
    let number = bytes.get(1..size)?.iter().fold(start, |n, byte| n << 8 | u64::from(*byte));
    bytes.get(size..)?.get(usize::try_from(number).ok()?..)
}
