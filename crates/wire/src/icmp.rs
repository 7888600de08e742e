//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echoes, errors and what errors quote.

use crate::bytes::{array, be16};
use crate::checksum::{finish, pseudo, sum};
use crate::ip::{Fragment, Header, ICMP, ICMPV6, Packet};
use crate::{TooShort, ipv4, ipv6};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// Most bytes of an error message, with its IP header (RFC 1812 section 4.3.2.3).
pub const ERROR_MAX_V4: usize = 576;
/// The same of ICMPv6 (RFC 4443 section 2.4 (c)).
pub const ERROR_MAX_V6: usize = 1280;

/// An echo request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// It answers a request.
    pub is_reply: bool,
    /// What tells the requests of one sender from those of others.
    pub identifier: u16,
    /// Number of the request.
    pub sequence: u16,
}

impl Echo {
    /// Reads a message from its type on; `None` of other messages. The checksum is not looked at.
    pub fn read(is_v6: bool, message: &[u8]) -> Option<Echo> {
        let header: &[u8; HEADER_LEN] = message.first_chunk()?;
        let is_reply = match (is_v6, header[0], header[1]) {
            (false, 8, 0) | (true, 128, 0) => false,
            (false, 0, 0) | (true, 129, 0) => true,
            _ => return None,
        };
        Some(Echo { is_reply, identifier: be16(header, 4)?, sequence: be16(header, 6)? })
    }

    /// Writes the header of an ICMP message in front of the data that stand behind it in `message`; its
    /// length.
    ///
    /// # Errors
    ///
    /// If `message` is shorter than [`HEADER_LEN`].
    pub fn write_v4(&self, message: &mut [u8]) -> Result<usize, TooShort> {
        self.write(if self.is_reply { 0 } else { 8 }, 0, message)
    }

    /// The same of an ICMPv6 message, whose checksum covers the addresses.
    ///
    /// # Errors
    ///
    /// If `message` is shorter than [`HEADER_LEN`].
    pub fn write_v6(&self, from: [u8; 16], to: [u8; 16], message: &mut [u8]) -> Result<usize, TooShort> {
        let pseudo = sum(&from) + sum(&to) + pseudo(&[], ICMPV6, message.len());
        self.write(if self.is_reply { 129 } else { 128 }, pseudo, message)
    }

    fn write(&self, kind: u8, pseudo: u64, message: &mut [u8]) -> Result<usize, TooShort> {
        let header: &mut [u8; HEADER_LEN] = crate::bytes::room(message)?;
        header[..4].copy_from_slice(&[kind, 0, 0, 0]);
        header[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        header[6..].copy_from_slice(&self.sequence.to_be_bytes());
        let checksum = finish(pseudo + sum(message));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        Ok(HEADER_LEN)
    }
}

/// An error that a router tells the sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The packet is longer than what goes on from here: fragmentation needed (RFC 1191), packet too big.
    TooBig {
        /// The longest that would, in bytes.
        most: u16,
    },
    /// It has no hops left.
    Expired,
}

/// Whether errors may be told of a packet (RFC 1122 section 3.2.2, RFC 4443 section 2.4 (e)): not of one that
/// is an error itself, and over IPv4 not of a fragment but the first. `header` was read of the packet.
pub fn may_tell_errors(header: &Header, packet: &[u8]) -> bool {
    let kind = packet.get(header.transport as usize).copied();
    match (header.is_v6, header.protocol) {
        (false, _) if header.fragment == Fragment::Later => false,
        (true, _) if header.fragment == Fragment::Later => true,
        (false, ICMP) => matches!(kind, Some(0 | 8)),
        (true, ICMPV6) => kind.is_some_and(|kind| kind >= 128),
        _ => true,
    }
}

/// Writes an error about a packet from `own`, an address of the packet's family (IPv4 in the lowest 32 bits),
/// to its sender; its length with its IP header. As much of the packet is quoted as an error may have.
///
/// # Errors
///
/// If `out` is shorter than the error, or `about` shorter than its IP header.
pub fn write_error(out: &mut [u8], about: &[u8], error: Error, own: u128) -> Result<usize, TooShort> {
    match about.first().map(|first| first >> 4) {
        Some(6) => write_error_v6(out, about, error, own.to_be_bytes()),
        _ => write_error_v4(out, about, error, (own as u32).to_be_bytes()),
    }
}

fn write_error_v4(out: &mut [u8], about: &[u8], error: Error, own: [u8; 4]) -> Result<usize, TooShort> {
    let quoted = about.len().min(ERROR_MAX_V4 - ipv4::HEADER_MIN - HEADER_LEN);
    let len = ipv4::HEADER_MIN + HEADER_LEN + quoted;
    let out = out.get_mut(..len).ok_or(TooShort)?;
    let sender = array(about, 12).ok_or(TooShort)?;
    let header = ipv4::Header {
        // Internetwork control (RFC 1812 section 4.3.2.5).
        traffic_class: 0xc0,
        payload_len: (HEADER_LEN + quoted) as u16,
        dont_fragment: false,
        protocol: ICMP,
        ..ipv4::Header::new(own, sender)
    };
    let icmp = header.write(out)?;
    let icmp = &mut out[icmp..];
    let (kind, code, most) = match error {
        Error::TooBig { most } => (3, 4, most),
        Error::Expired => (11, 0, 0),
    };
    icmp[..6].copy_from_slice(&[kind, code, 0, 0, 0, 0]);
    icmp[6..8].copy_from_slice(&most.to_be_bytes());
    icmp[8..].copy_from_slice(&about[..quoted]);
    let checksum = finish(sum(icmp));
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(len)
}

fn write_error_v6(out: &mut [u8], about: &[u8], error: Error, own: [u8; 16]) -> Result<usize, TooShort> {
    let quoted = about.len().min(ERROR_MAX_V6 - ipv6::HEADER_LEN - HEADER_LEN);
    let len = ipv6::HEADER_LEN + HEADER_LEN + quoted;
    let out = out.get_mut(..len).ok_or(TooShort)?;
    let sender = array(about, 8).ok_or(TooShort)?;
    let header = ipv6::Header {
        payload_len: (HEADER_LEN + quoted) as u16,
        next_header: ICMPV6,
        ..ipv6::Header::new(own, sender)
    };
    let (addresses, icmp) = (sum(&own) + sum(&sender), header.write(out)?);
    let icmp = &mut out[icmp..];
    let (kind, most) = match error {
        Error::TooBig { most } => (2, most),
        Error::Expired => (3, 0),
    };
    icmp[..4].copy_from_slice(&[kind, 0, 0, 0]);
    icmp[4..8].copy_from_slice(&u32::from(most).to_be_bytes());
    icmp[8..].copy_from_slice(&about[..quoted]);
    let checksum = finish(addresses + pseudo(&[], ICMPV6, icmp.len()) + sum(icmp));
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(len)
}

/// What a router says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted<'a> {
    /// As much of the packet as it quotes.
    pub packet: &'a [u8],
    /// It tells of a shorter way, and passed the packet on; else it did not.
    pub is_redirect: bool,
}

/// Reads an error or a redirect from its IP header on; `None` of other messages. Checksums are not looked at.
pub fn quoted(packet: &[u8]) -> Option<Quoted<'_>> {
    let ip = Packet::read(packet)?;
    let upper = ip.upper().filter(|upper| upper.fragment == Fragment::Whole)?;
    let (kind, message) = (*upper.payload.first()?, upper.payload);
    let quote = message.get(HEADER_LEN..);
    let (packet, is_redirect) = match (ip, upper.protocol, kind) {
        // RFC 792: unreachable 3, redirect 5, time exceeded 11.
        (Packet::V4(_), ICMP, 3 | 11) => (quote?, false),
        (Packet::V4(_), ICMP, 5) => (quote?, true),
        // RFC 4443: unreachable 1, time exceeded 3, parameter problem 4.
        (Packet::V6(_), ICMPV6, 1 | 3 | 4) => (quote?, false),
        (Packet::V6(_), ICMPV6, 137) => (redirected_header(message)?, true),
        _ => return None,
    };
    Some(Quoted { packet, is_redirect })
}

/// The packet in the option "Redirected Header" of an ICMPv6 redirect (RFC 4861 section 4.6.3).
fn redirected_header(message: &[u8]) -> Option<&[u8]> {
    const OPTIONS: usize = 40;
    const REDIRECTED_HEADER: u8 = 4;
    let mut options = message.get(OPTIONS..)?;
    // Each option has eight bytes at least.
    loop {
        let (kind, len) = (*options.first()?, usize::from(*options.get(1)?) * 8);
        let option = options.get(..len).filter(|_| len > 0)?;
        if kind == REDIRECTED_HEADER {
            return option.get(8..);
        }
        options = options.get(len..)?;
    }
}
