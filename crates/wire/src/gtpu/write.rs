//! Writing.

use super::{HEADER, PDU_SESSION_CONTAINER, Way, element, flag, kind};
use crate::TooShort;
use crate::bytes::room;
use core::net::IpAddr;

/// Header, optional octets and a PDU session container.
const WITH_CONTAINER: usize = HEADER + 8;
/// An end marker without a container, in bytes.
pub const END_MARKER_LEN: usize = HEADER;
/// Header with a sequence number, of a message that belongs to no tunnel.
const OF_PATH: usize = HEADER + 4;
/// The longest message that is written and is no packet in a tunnel, in bytes: an error indication about an
/// IPv6 address.
pub const SIGNALLING_MAX: usize = OF_PATH + 5 + 3 + 16;

/// Length of what stands before a packet in a tunnel, in bytes.
#[inline]
pub const fn header_len(container: bool) -> usize {
    if container { WITH_CONTAINER } else { HEADER }
}

/// The octet of a PDU session container that says the direction.
pub(crate) const fn of_way(way: Way) -> u8 {
    match way {
        Way::Down => 0x00,
        Way::Up => 0x10,
    }
}

/// Writes what stands before a packet of `len` bytes; its length. Of the QoS flow the six bits that fit. With
/// a container packets have at most 65527 bytes; a longer one is written as that.
///
/// # Errors
///
/// If `out` is shorter than [`header_len`].
#[inline]
pub fn write_header(
    out: &mut [u8],
    teid: u32,
    container: Option<(Way, u8)>,
    len: u16,
) -> Result<usize, TooShort> {
    let Some((way, qfi)) = container else { return plain(out, kind::G_PDU, teid, len) };
    let out: &mut [u8; WITH_CONTAINER] = room(out)?;
    out[0] = flag::VERSION_1 | flag::PROTOCOL | flag::EXTENSION;
    out[1] = kind::G_PDU;
    out[2..4].copy_from_slice(&len.saturating_add((WITH_CONTAINER - HEADER) as u16).to_be_bytes());
    out[4..8].copy_from_slice(&teid.to_be_bytes());
    // No sequence number, no N-PDU number; then one extension header of four octets.
    out[8..].copy_from_slice(&[0, 0, 0, PDU_SESSION_CONTAINER, 1, of_way(way), qfi & 0x3f, 0]);
    Ok(WITH_CONTAINER)
}

fn plain(out: &mut [u8], kind: u8, teid: u32, len: u16) -> Result<usize, TooShort> {
    let out: &mut [u8; HEADER] = room(out)?;
    out[0] = flag::VERSION_1 | flag::PROTOCOL;
    out[1] = kind;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    out[4..8].copy_from_slice(&teid.to_be_bytes());
    Ok(HEADER)
}

/// A message that belongs to no tunnel, with the parts of its elements.
fn of_path(out: &mut [u8], kind: u8, sequence: u16, parts: &[&[u8]]) -> Result<usize, TooShort> {
    let elements: usize = parts.iter().map(|part| part.len()).sum();
    let out = out.get_mut(..OF_PATH + elements).ok_or(TooShort)?;
    plain(out, kind, 0, (OF_PATH - HEADER + elements) as u16)?;
    out[0] |= flag::SEQUENCE;
    out[HEADER..HEADER + 2].copy_from_slice(&sequence.to_be_bytes());
    out[HEADER + 2..OF_PATH].fill(0);
    let mut at = OF_PATH;
    for part in parts {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Ok(at)
}

/// Writes an echo request; its length.
///
/// # Errors
///
/// If `out` is too short; [`SIGNALLING_MAX`] is enough.
pub fn write_echo_request(out: &mut [u8], sequence: u16) -> Result<usize, TooShort> {
    of_path(out, kind::ECHO_REQUEST, sequence, &[])
}

/// Writes an echo response; its length. Its recovery element says nothing and must be there (TS 29.281
/// section 7.2.2).
///
/// # Errors
///
/// If `out` is too short; [`SIGNALLING_MAX`] is enough.
pub fn write_echo_response(out: &mut [u8], sequence: u16) -> Result<usize, TooShort> {
    of_path(out, kind::ECHO_RESPONSE, sequence, &[&[element::RECOVERY, 0]])
}

/// Writes an error indication; its length. `teid` at `own`, an address of ours, is unknown.
///
/// # Errors
///
/// If `out` is too short; [`SIGNALLING_MAX`] is enough.
pub fn write_error_indication(out: &mut [u8], teid: u32, own: IpAddr) -> Result<usize, TooShort> {
    let teid = teid.to_be_bytes();
    let mut write = |address: &[u8]| {
        let peer = [element::PEER_ADDRESS, 0, address.len() as u8];
        of_path(out, kind::ERROR_INDICATION, 0, &[&[element::TEID], &teid, &peer, address])
    };
    match own {
        IpAddr::V4(address) => write(&address.octets()),
        IpAddr::V6(address) => write(&address.octets()),
    }
}

/// Writes a notification of the extension headers that are understood; its length.
///
/// # Errors
///
/// If `out` is too short; [`SIGNALLING_MAX`] is enough.
pub fn write_supported_extensions(out: &mut [u8]) -> Result<usize, TooShort> {
    of_path(out, kind::SUPPORTED_EXTENSIONS, 0, &[&[element::EXTENSION_TYPES, 1, PDU_SESSION_CONTAINER]])
}

/// Writes an end marker; its length.
///
/// # Errors
///
/// If `out` is shorter than [`END_MARKER_LEN`].
pub fn write_end_marker(out: &mut [u8], teid: u32) -> Result<usize, TooShort> {
    plain(out, kind::END_MARKER, teid, 0)
}
