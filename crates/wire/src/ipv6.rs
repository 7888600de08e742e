//! IPv6 packets, extension headers and fragments (RFC 8200).

use crate::TooShort;
use crate::bytes::{field, room};
use crate::dscp::{Dscp, Remarks};
use crate::fragment::Fragment;
use weir_units::Ecn;

/// Length of the header in bytes, without extension headers.
pub const HEADER_LEN: usize = 40;
/// Most extension headers of one packet that are looked through; what a longer chain carries is not known.
pub const EXTENSIONS_MAX: usize = 8;
/// Length of a fragment header in bytes.
pub const FRAGMENT_LEN: usize = 8;
/// Offset of the next header field, for filters in the kernel.
pub const NEXT_HEADER_AT: usize = 6;

/// Next header: options for every router (section 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// Next header: where the packet is to pass (section 4.4).
pub const ROUTING: u8 = 43;
/// Next header: a fragment (section 4.5).
pub const FRAGMENT: u8 = 44;
/// Next header: options for the destination (section 4.6).
pub const DESTINATION_OPTIONS: u8 = 60;

/// A whole packet whose header agrees with the length of the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LEN],
    /// As long as the packet.
    bytes: &'a [u8],
}

/// What a packet carries behind its extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper {
    /// The protocol. Of a fragment but the first it is what the fragment header says, which need not be the
    /// protocol of the packet (RFC 8200 section 4.5); an extension header where the chain is longer than
    /// [`EXTENSIONS_MAX`]. Authentication headers (RFC 4302) and the like count as protocols.
    pub protocol: u8,
    /// Where its header begins, in bytes from the beginning of the packet; of a fragment but the first,
    /// where its data begin.
    pub offset: usize,
    /// Which part of a packet it is. A fragment header in front of a whole packet (RFC 6946) is no fragment.
    pub fragment: Fragment,
    /// Whether a routing header leads to somebody else than the destination first: pseudo-headers have the
    /// last address of the routing header then (section 8.1).
    pub is_routed: bool,
}

impl<'a> Packet<'a> {
    /// Reads a packet from its first byte on; bytes behind its length are padding. `None` if the version is
    /// not 6 or the packet longer than the slice. Extension headers are not looked at
    /// ([`Packet::upper`]).
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let total = HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        Some(Packet { header, bytes: bytes.get(..total)? })
    }

    /// The packet, with its header and without padding.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length of the packet in bytes, 40 to 65575.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a packet has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The traffic class octet: DSCP (RFC 2474) and ECN (RFC 3168).
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (u16::from_be_bytes([self.header[0], self.header[1]]) >> 4) as u8
    }

    /// The ECN field.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.header[1] >> 4)
    }

    /// The flow label, 20 bits (RFC 6437).
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes(field(self.header, 0)) & 0xf_ffff
    }

    /// Hops that it may still go.
    #[inline(always)]
    pub fn hops(&self) -> u8 {
        self.header[7]
    }

    /// The first extension header, or the protocol if there is none.
    #[inline(always)]
    pub fn next_header(&self) -> u8 {
        self.header[NEXT_HEADER_AT]
    }

    /// Who sent it.
    #[inline(always)]
    pub fn source(&self) -> [u8; 16] {
        field(self.header, 8)
    }

    /// Whom it is for.
    #[inline(always)]
    pub fn destination(&self) -> [u8; 16] {
        field(self.header, 24)
    }

    /// Source and destination, one behind the other, as pseudo-headers have them.
    #[inline(always)]
    pub fn addresses(&self) -> &'a [u8] {
        &self.header[8..]
    }

    /// What follows the header: extension headers, or the protocol's.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or(&[])
    }

    /// Looks through the extension headers; `None` if the packet ends within one.
    #[inline(always)]
    pub fn upper(&self) -> Option<Upper> {
        let protocol = self.next_header();
        if is_extension(protocol) {
            return self.walk();
        }
        Some(Upper { protocol, offset: HEADER_LEN, fragment: Fragment::Whole, is_routed: false })
    }

    #[inline(never)]
    fn walk(&self) -> Option<Upper> {
        let protocol = self.next_header();
        let mut upper = Upper { protocol, offset: HEADER_LEN, fragment: Fragment::Whole, is_routed: false };
        for _ in 0..EXTENSIONS_MAX {
            if !is_extension(upper.protocol) {
                break;
            }
            let extension: &[u8; 8] = self.bytes.get(upper.offset..)?.first_chunk()?;
            let len = match upper.protocol {
                FRAGMENT => FRAGMENT_LEN,
                _ => 8 + 8 * usize::from(extension[1]),
            };
            match upper.protocol {
                FRAGMENT => upper.fragment = FragmentHeader::of(extension).part(),
                ROUTING => upper.is_routed |= extension[3] != 0,
                _ => {}
            }
            (upper.protocol, upper.offset) = (extension[0], upper.offset + len);
            // What follows are data, and no headers.
            if upper.fragment == Fragment::Later {
                break;
            }
        }
        (upper.offset <= self.bytes.len()).then_some(upper)
    }

    /// What the header says, without extension headers.
    pub fn header(&self) -> Header {
        Header {
            traffic_class: self.traffic_class(),
            flow_label: self.flow_label(),
            payload_len: self.payload().len() as u16,
            next_header: self.next_header(),
            hops: self.hops(),
            source: self.source(),
            destination: self.destination(),
        }
    }
}

#[inline(always)]
fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Bytes behind the header, extension headers included.
    pub payload_len: u16,
    /// What follows.
    pub next_header: u8,
    /// Hops that it may go.
    pub hops: u8,
    /// Who sends it.
    pub source: [u8; 16],
    /// Whom it is for.
    pub destination: [u8; 16],
}

impl Header {
    /// Of an empty packet with 64 hops, no flow label and no next header (59).
    pub const fn new(source: [u8; 16], destination: [u8; 16]) -> Header {
        Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: 59,
            hops: 64,
            source,
            destination,
        }
    }

    /// Writes the header; its length. Of the flow label the bits that fit.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`HEADER_LEN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let head: &mut [u8; HEADER_LEN] = room(out)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        head[..4].copy_from_slice(&first.to_be_bytes());
        head[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        (head[NEXT_HEADER_AT], head[7]) = (self.next_header, self.hops);
        head[8..24].copy_from_slice(&self.source);
        head[24..].copy_from_slice(&self.destination);
        Ok(HEADER_LEN)
    }
}

/// A fragment header (section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentHeader {
    /// What the part of the packet that is fragmented begins with.
    pub next_header: u8,
    /// Where the fragment begins, in units of eight bytes, 0 to 8191.
    pub offset: u16,
    /// It is not the last one.
    pub more_fragments: bool,
    /// What tells the fragments of one packet from those of others.
    pub identification: u32,
}

impl FragmentHeader {
    /// Reads the header; `None` of what is shorter than [`FRAGMENT_LEN`].
    pub fn read(bytes: &[u8]) -> Option<FragmentHeader> {
        bytes.first_chunk().map(FragmentHeader::of)
    }

    fn of(head: &[u8; FRAGMENT_LEN]) -> FragmentHeader {
        let word = u16::from_be_bytes(field(head, 2));
        let identification = u32::from_be_bytes(field(head, 4));
        FragmentHeader {
            next_header: head[0],
            offset: word >> 3,
            more_fragments: word & 1 != 0,
            identification,
        }
    }

    /// Which part of a packet it stands before.
    pub fn part(&self) -> Fragment {
        match (self.offset, self.more_fragments) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// Writes the header; its length.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`FRAGMENT_LEN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let head: &mut [u8; FRAGMENT_LEN] = room(out)?;
        (head[0], head[1]) = (self.next_header, 0);
        head[2..4].copy_from_slice(&(self.offset << 3 | u16::from(self.more_fragments)).to_be_bytes());
        head[4..].copy_from_slice(&self.identification.to_be_bytes());
        Ok(FRAGMENT_LEN)
    }
}

/// Sets "congestion experienced" in a packet that was read before.
#[inline(always)]
pub fn mark(packet: &mut [u8]) {
    if let Some(octet) = packet.get_mut(1) {
        *octet |= 0x30;
    }
}

/// Sets the DSCP of a packet that was read before; the ECN field stays (RFC 3168 section 5).
#[inline(always)]
pub fn remark(packet: &mut [u8], remarks: &Remarks) {
    let Some(head) = packet.first_chunk_mut::<2>() else { return };
    let word = u16::from_be_bytes(*head);
    let dscp = remarks.of(Dscp::of((word >> 4) as u8)).number();
    *head = (word & 0xf03f | u16::from(dscp) << 6).to_be_bytes();
}

/// Takes one hop away from a packet that was read before. One without hops left stays as it is.
#[inline(always)]
pub fn take_hop(packet: &mut [u8]) {
    if let Some(hops) = packet.get_mut(7) {
        *hops = hops.saturating_sub(1);
    }
}
