//! IPv4 packets (RFC 791).

use crate::TooShort;
use crate::bytes::{field, room};
use crate::checksum::{self, finish, sum};
use crate::dscp::{Dscp, Remarks};
use crate::fragment::Fragment;
use weir_units::Ecn;

/// Length of a header without options in bytes.
pub const HEADER_MIN: usize = 20;
/// Length of a header with the most options in bytes.
pub const HEADER_MAX: usize = 60;
/// Offset of the protocol field, for filters in the kernel.
pub const PROTOCOL_AT: usize = 9;
/// More fragments follow, or this one does not begin at zero.
const FRAGMENT: u16 = 0x3fff;
const FRAGMENT_OFFSET: u16 = 0x1fff;
const MORE_FRAGMENTS: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;

/// A whole packet whose header agrees with itself and with the length of the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_MIN],
    /// As long as the packet.
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// Reads a packet from its first byte on; bytes behind its length are padding. `None` if the version is
    /// not 4, if the header is shorter than 20 bytes or longer than the packet, or the packet longer than
    /// the slice. The checksum is not looked at ([`Packet::has_right_checksum`]).
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let header: &[u8; HEADER_MIN] = bytes.first_chunk()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_len < HEADER_MIN || total < header_len {
            return None;
        }
        Some(Packet { header, bytes: bytes.get(..total)?, header_len })
    }

    /// The packet, with its header and without padding.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length of the header in bytes, 20 to 60.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Length of the packet in bytes, 20 to 65535.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a packet has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The type of service octet: DSCP (RFC 2474) and ECN (RFC 3168).
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        self.header[1]
    }

    /// The ECN field.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.header[1])
    }

    /// Flags and fragment offset.
    #[inline(always)]
    fn fragment_word(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Whether it is a fragment, the first one included.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        self.fragment_word() & FRAGMENT != 0
    }

    /// Which part of a packet it is.
    #[inline(always)]
    pub fn fragment(&self) -> Fragment {
        match self.fragment_word() {
            word if word & FRAGMENT == 0 => Fragment::Whole,
            word if word & FRAGMENT_OFFSET == 0 => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// Time to live: hops that it may still go.
    #[inline(always)]
    pub fn hops(&self) -> u8 {
        self.header[8]
    }

    /// What it carries.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.header[PROTOCOL_AT]
    }

    /// Who sent it.
    #[inline(always)]
    pub fn source(&self) -> [u8; 4] {
        field(self.header, 12)
    }

    /// Whom it is for.
    #[inline(always)]
    pub fn destination(&self) -> [u8; 4] {
        field(self.header, 16)
    }

    /// Source and destination, one behind the other, as pseudo-headers have them.
    #[inline(always)]
    pub fn addresses(&self) -> &'a [u8] {
        &self.header[12..]
    }

    /// What follows the header; of a fragment a part of it.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or(&[])
    }

    /// Options, as they stand in the header: 0 to 40 bytes.
    pub fn options(&self) -> &'a [u8] {
        self.bytes.get(HEADER_MIN..self.header_len).unwrap_or(&[])
    }

    /// Whether the checksum of the header is right.
    pub fn has_right_checksum(&self) -> bool {
        self.bytes.get(..self.header_len).is_some_and(|header| finish(sum(header)) == 0)
    }

    /// What a header without the options of this one says.
    pub fn header(&self) -> Header {
        let word = self.fragment_word();
        Header {
            traffic_class: self.traffic_class(),
            payload_len: self.payload().len() as u16,
            identification: u16::from_be_bytes(field(self.header, 4)),
            dont_fragment: word & DONT_FRAGMENT != 0,
            more_fragments: word & MORE_FRAGMENTS != 0,
            fragment_offset: word & FRAGMENT_OFFSET,
            hops: self.hops(),
            protocol: self.protocol(),
            source: self.source(),
            destination: self.destination(),
        }
    }
}

/// What a header without options says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Bytes behind the header, at most 65515.
    pub payload_len: u16,
    /// What tells the fragments of one packet from those of others; without meaning in whole packets (RFC
    /// 6864).
    pub identification: u16,
    /// It must not be fragmented.
    pub dont_fragment: bool,
    /// It is a fragment and not the last one.
    pub more_fragments: bool,
    /// Where the fragment begins, in units of eight bytes, 0 to 8191.
    pub fragment_offset: u16,
    /// Time to live.
    pub hops: u8,
    /// What follows.
    pub protocol: u8,
    /// Who sends it.
    pub source: [u8; 4],
    /// Whom it is for.
    pub destination: [u8; 4],
}

impl Header {
    /// Of an empty packet that must not be fragmented, with 64 hops and protocol 0.
    pub const fn new(source: [u8; 4], destination: [u8; 4]) -> Header {
        Header {
            traffic_class: 0,
            payload_len: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            hops: 64,
            protocol: 0,
            source,
            destination,
        }
    }

    /// Writes the header with its checksum; its length. A payload that is too long for a packet is written as
    /// the longest that fits.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`HEADER_MIN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let head: &mut [u8; HEADER_MIN] = room(out)?;
        let fragment = self.fragment_offset & FRAGMENT_OFFSET
            | if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        *head = [0; HEADER_MIN];
        (head[0], head[1], head[8], head[PROTOCOL_AT]) = (0x45, self.traffic_class, self.hops, self.protocol);
        head[2..4].copy_from_slice(&self.payload_len.saturating_add(HEADER_MIN as u16).to_be_bytes());
        head[4..6].copy_from_slice(&self.identification.to_be_bytes());
        head[6..8].copy_from_slice(&fragment.to_be_bytes());
        head[12..16].copy_from_slice(&self.source);
        head[16..].copy_from_slice(&self.destination);
        let checksum = finish(sum(head));
        head[10..12].copy_from_slice(&checksum.to_be_bytes());
        Ok(HEADER_MIN)
    }
}

/// Sets "congestion experienced" in a packet that was read before, and updates the checksum of its header,
/// which stays right or wrong as it was (RFC 1624). Neither TCP's nor UDP's pseudo-header covers the field.
#[inline(always)]
pub fn mark(packet: &mut [u8]) {
    let Some(head) = packet.first_chunk_mut::<HEADER_MIN>() else { return };
    let old = u16::from_be_bytes([head[0], head[1]]);
    head[1] |= 3;
    let updated = checksum::update(u16::from_be_bytes([head[10], head[11]]), old, old | 3);
    head[10..12].copy_from_slice(&updated.to_be_bytes());
}

/// Sets the DSCP of a packet that was read before, and updates the checksum of its header as above. The ECN
/// field stays (RFC 3168 section 5).
#[inline(always)]
pub fn remark(packet: &mut [u8], remarks: &Remarks) {
    let Some(head) = packet.first_chunk_mut::<HEADER_MIN>() else { return };
    let old = u16::from_be_bytes([head[0], head[1]]);
    let octet = remarks.of(Dscp::of(head[1])).number() << 2 | head[1] & 3;
    // Where nothing changes the checksum stays, too: an update would write one of 0xffff as 0.
    if octet == head[1] {
        return;
    }
    head[1] = octet;
    let new = u16::from_be_bytes([head[0], octet]);
    let updated = checksum::update(u16::from_be_bytes([head[10], head[11]]), old, new);
    head[10..12].copy_from_slice(&updated.to_be_bytes());
}

/// Takes one hop away from a packet that was read before and updates the checksum of its header (RFC 1624).
/// One without hops left stays as it is.
#[inline(always)]
pub fn take_hop(packet: &mut [u8]) {
    let Some(head) = packet.first_chunk_mut::<HEADER_MIN>().filter(|head| head[8] > 0) else { return };
    head[8] -= 1;
    // The word with the hops is 0x0100 less, so the complement of the sum is that much more.
    let sum = u32::from(u16::from_be_bytes([head[10], head[11]])) + 0x0100;
    let sum = (sum & 0xffff) + (sum >> 16);
    head[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
}
