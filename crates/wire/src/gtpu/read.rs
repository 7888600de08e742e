//! Reading.

use super::{
    Container, EXTENSIONS_MAX, Fault, GPdu, HEADER, Message, PDU_SESSION_CONTAINER, Way, element, flag, kind,
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Sequence number, N-PDU number and the type of the first extension header, of which some say something.
const OPTIONAL: usize = 4;
/// Bit of the type of an extension header that an endpoint must understand (TS 29.281 figure 5.2.1-2).
const REQUIRED: u8 = 0x80;

/// Reads a message; bytes behind its length are padding.
#[inline(always)]
pub fn read(bytes: &[u8]) -> Result<Message, Fault> {
    let header: &[u8; HEADER] = bytes.first_chunk().ok_or(Fault::Short)?;
    if header[0] & 0xf0 != flag::VERSION_1 | flag::PROTOCOL {
        return Err(Fault::Version);
    }
    let end = HEADER + usize::from(u16::from_be_bytes([header[2], header[3]]));
    let teid = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let message = bytes.get(..end).ok_or(Fault::Short)?;
    let behind = behind_header(message, header[0])?;
    if header[1] == kind::G_PDU {
        let Behind { start, container, .. } = behind;
        return Ok(Message::Packet(GPdu { teid, container, start, end }));
    }
    signalling(header[1], teid, &behind, &message[behind.start..])
}

/// What stands between header and payload.
struct Behind {
    start: usize,
    sequence: u16,
    container: Option<Container>,
}

#[inline]
fn behind_header(message: &[u8], flags: u8) -> Result<Behind, Fault> {
    if flags & flag::ANY == 0 {
        return Ok(Behind { start: HEADER, sequence: 0, container: None });
    }
    let optional: &[u8; OPTIONAL] = message[HEADER..].first_chunk().ok_or(Fault::Short)?;
    let sequence =
        if flags & flag::SEQUENCE == 0 { 0 } else { u16::from_be_bytes([optional[0], optional[1]]) };
    let mut behind = Behind { start: HEADER + OPTIONAL, sequence, container: None };
    let mut next = if flags & flag::EXTENSION == 0 { 0 } else { optional[3] };
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Ok(behind);
        }
        // The first octet is the length in units of four, the last the type of the next.
        let rest = &message[behind.start..];
        let len = usize::from(*rest.first().ok_or(Fault::Extension)?) * 4;
        let extension = rest.get(..len).filter(|e| !e.is_empty()).ok_or(Fault::Extension)?;
        match next {
            PDU_SESSION_CONTAINER => behind.container = Some(container(&extension[1..len - 1])?),
            unknown if unknown & REQUIRED != 0 => return Err(Fault::NotComprehended(unknown)),
            _ => {}
        }
        next = extension[len - 1];
        behind.start += len;
    }
    if next == 0 { Ok(behind) } else { Err(Fault::Extension) }
}

/// TS 38.415 section 5.5.2: type and QoS flow; what may follow says nothing to us.
#[inline]
fn container(content: &[u8]) -> Result<Container, Fault> {
    let [first, second, ..] = content else { return Err(Fault::Container) };
    let way = match first >> 4 {
        0 => Way::Down,
        1 => Way::Up,
        _ => return Err(Fault::Container),
    };
    Ok(Container { way, qfi: second & 0x3f })
}

#[cold]
fn signalling(kind: u8, teid: u32, behind: &Behind, elements: &[u8]) -> Result<Message, Fault> {
    let sequence = behind.sequence;
    match kind {
        kind::ECHO_REQUEST => Ok(Message::EchoRequest { sequence }),
        kind::ECHO_RESPONSE => Ok(Message::EchoResponse { sequence }),
        kind::ERROR_INDICATION => error_indication(elements),
        kind::END_MARKER => Ok(Message::EndMarker { teid }),
        kind::SUPPORTED_EXTENSIONS => Ok(Message::SupportedExtensions),
        other => Err(Fault::Kind(other)),
    }
}

fn error_indication(mut elements: &[u8]) -> Result<Message, Fault> {
    let (mut teid, mut peer) = (None, None);
    while let Some((&kind, rest)) = elements.split_first() {
        // Types below 128 have a length that everybody must know (TS 29.281 section 8.1).
        let (value, rest) = match kind {
            element::TEID => rest.split_at_checked(4),
            element::RECOVERY => rest.split_at_checked(1),
            0..128 => None,
            _ => rest
                .split_first_chunk()
                .and_then(|(len, rest)| rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))),
        }
        .ok_or(Fault::Element)?;
        match kind {
            element::TEID => teid = value.first_chunk().map(|b| u32::from_be_bytes(*b)),
            element::PEER_ADDRESS => peer = Some(address(value).ok_or(Fault::Element)?),
            // Others are passed over.
            _ => {}
        }
        elements = rest;
    }
    let (teid, peer) = teid.zip(peer).ok_or(Fault::Element)?;
    Ok(Message::ErrorIndication { teid, peer })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => value.first_chunk::<4>().map(|a| Ipv4Addr::from(*a).into()),
        16 => value.first_chunk::<16>().map(|a| Ipv6Addr::from(*a).into()),
        _ => None,
    }
}
