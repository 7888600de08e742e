//! Writing.

use super::{HEADER, PDU_SESSION_CONTAINER, Way, element, flag, kind};
use std::net::IpAddr;

/// Header, optional octets and a PDU session container.
const WITH_CONTAINER: usize = HEADER + 8;
/// An end marker without a container.
pub const END_MARKER_LEN: usize = HEADER;

/// Length of what stands before a packet in a tunnel.
#[inline]
pub const fn header_len(container: bool) -> usize {
    if container { WITH_CONTAINER } else { HEADER }
}

/// Writes what stands before a packet of `len` bytes, into [`header_len`] bytes.
#[inline]
pub fn write_header(out: &mut [u8], teid: u32, container: Option<(Way, u8)>, len: u16) {
    let Some((way, qfi)) = container else {
        plain(out, kind::G_PDU, teid, len);
        return;
    };
    let out: &mut [u8; WITH_CONTAINER] = out.first_chunk_mut().expect("there is room for a header");
    out[0] = flag::VERSION_1 | flag::PROTOCOL | flag::EXTENSION;
    out[1] = kind::G_PDU;
    out[2..4].copy_from_slice(&(len + (WITH_CONTAINER - HEADER) as u16).to_be_bytes());
    out[4..8].copy_from_slice(&teid.to_be_bytes());
    // No sequence number, no N-PDU number; then one extension header of four octets.
    let way = match way {
        Way::Down => 0x00,
        Way::Up => 0x10,
    };
    out[8..].copy_from_slice(&[0, 0, 0, PDU_SESSION_CONTAINER, 1, way, qfi & 0x3f, 0]);
}

fn plain(out: &mut [u8], kind: u8, teid: u32, len: u16) {
    out[0] = flag::VERSION_1 | flag::PROTOCOL;
    out[1] = kind;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    out[4..8].copy_from_slice(&teid.to_be_bytes());
}

/// Header with a sequence number, of a message that belongs to no tunnel.
fn of_path(out: &mut Vec<u8>, kind: u8, sequence: u16, elements: &[u8]) {
    let len = (elements.len() + 4) as u16;
    out.extend([flag::VERSION_1 | flag::PROTOCOL | flag::SEQUENCE, kind]);
    out.extend(len.to_be_bytes());
    out.extend([0; 4]);
    out.extend(sequence.to_be_bytes());
    out.extend([0, 0]);
    out.extend(elements);
}

/// Appends an echo request.
pub fn write_echo_request(out: &mut Vec<u8>, sequence: u16) {
    of_path(out, kind::ECHO_REQUEST, sequence, &[]);
}

/// Appends an echo response. Its recovery element says nothing and must be there (TS 29.281 section 7.2.2).
pub fn write_echo_response(out: &mut Vec<u8>, sequence: u16) {
    of_path(out, kind::ECHO_RESPONSE, sequence, &[element::RECOVERY, 0]);
}

/// Appends an error indication: `teid` at `own`, an address of ours, is unknown.
pub fn write_error_indication(out: &mut Vec<u8>, teid: u32, own: IpAddr) {
    let mut elements = vec![element::TEID];
    elements.extend(teid.to_be_bytes());
    elements.push(element::PEER_ADDRESS);
    match own {
        IpAddr::V4(a) => {
            elements.extend([0, 4]);
            elements.extend(a.octets());
        }
        IpAddr::V6(a) => {
            elements.extend([0, 16]);
            elements.extend(a.octets());
        }
    }
    of_path(out, kind::ERROR_INDICATION, 0, &elements);
}

/// Appends a notification of the extension headers that are understood.
pub fn write_supported_extensions(out: &mut Vec<u8>) {
    of_path(out, kind::SUPPORTED_EXTENSIONS, 0, &[element::EXTENSION_TYPES, 1, PDU_SESSION_CONTAINER]);
}

/// Writes an end marker.
pub fn write_end_marker(out: &mut [u8; END_MARKER_LEN], teid: u32) {
    plain(out, kind::END_MARKER, teid, 0);
}
