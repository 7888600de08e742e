//! A frame as the packet path needs it: what it carries, its ECN field, and the hash of its flow.
//!
//! Reading never fails: whatever is not understood is forwarded untouched, as a wire would. Frames whose
//! headers contradict themselves are told apart ([`Kind::Malformed`]), so that they can be counted.

use crate::checksum::{finish, finish_nonzero, pseudo, sum};
use crate::dscp::Remarks;
use crate::ethernet::{self, MacAddr, Network, NoNetwork};
use crate::flow_hash::{Hashes, Hashing};
use crate::ip::{Fragment, Packet, TCP, UDP, Upper};
use crate::{ipv4, ipv6, tcp, transport, udp};
use core::ops::Range;
use weir_units::Ecn;

/// What kind of packet a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// IPv4 with a sane header.
    Ipv4,
    /// IPv6 with a sane header.
    Ipv6,
    /// Anything else.
    Other,
    /// IP by its type field, but its header contradicts itself or the frame's length.
    Malformed,
    /// Shorter than an Ethernet header.
    Runt,
}

/// What was read from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// What the frame carries.
    pub kind: Kind,
    /// Offset of the network header in bytes: 14, and 4 for each VLAN tag.
    pub network: u16,
    /// The ECN field; not capable where there is none.
    pub ecn: Ecn,
    /// Hash of addresses, protocol and ports; the same on every machine for the same seed.
    pub flow: u32,
    /// Hash of the source address.
    pub sender: u32,
    /// Hash of the destination address.
    pub receiver: u32,
}

impl Headers {
    /// Where nothing was read.
    pub const NONE: Headers = Headers::nothing(Kind::Runt, 0);

    const fn nothing(kind: Kind, network: usize) -> Headers {
        Headers { kind, network: network as u16, ecn: Ecn::NotEct, flow: 0, sender: 0, receiver: 0 }
    }
}

/// Reads the headers of an Ethernet frame; hashes have the seed 0.
pub fn read(frame: &[u8]) -> Headers {
    read_seeded(frame, 0)
}

/// Reads the headers of an Ethernet frame; a secret seed keeps senders from choosing their hashes.
pub fn read_seeded(frame: &[u8], seed: u64) -> Headers {
    read_hashed(frame, &Hashing::of(seed))
}

/// Reads the headers of an Ethernet frame.
#[inline]
pub fn read_hashed(frame: &[u8], hashing: &Hashing) -> Headers {
    let headers = read_kind(frame, hashing);
    if !hashing.users.vlan || headers.kind == Kind::Runt {
        return headers;
    }
    let user = hashing.of_tags(frame);
    Headers { sender: user, receiver: user, ..headers }
}

#[inline(always)]
fn read_kind(frame: &[u8], hashing: &Hashing) -> Headers {
    let Network { offset, ethertype } = match ethernet::network(frame) {
        Ok(network) => network,
        Err(NoNetwork::Runt) => return Headers::nothing(Kind::Runt, 0),
        Err(NoNetwork::CutTag(offset)) => return Headers::nothing(Kind::Malformed, offset),
    };
    let packet = frame.get(offset..).unwrap_or(&[]);
    let of = |kind, ecn, Hashes { flow, sender, receiver }: Hashes| Headers {
        kind,
        network: offset as u16,
        ecn,
        flow,
        sender,
        receiver,
    };
    match ethertype {
        ethernet::IPV4 => match ipv4::Packet::read(packet) {
            Some(packet) => of(Kind::Ipv4, packet.ecn(), hashing.of_v4(&packet)),
            None => Headers::nothing(Kind::Malformed, offset),
        },
        ethernet::IPV6 => match ipv6::Packet::read(packet) {
            Some(packet) => of(Kind::Ipv6, packet.ecn(), hashing.of_v6(&packet)),
            None => Headers::nothing(Kind::Malformed, offset),
        },
        _ => Headers::nothing(Kind::Other, offset),
    }
}

/// What an observer reads of the transport of an IP packet in a frame ([`transport::read`]).
#[inline]
pub fn transport(frame: &[u8]) -> Option<transport::Datagram> {
    transport::read(packet(frame)?)
}

/// The packet behind Ethernet header and VLAN tags, if the type field says that it is IP. The packet may
/// contradict itself.
#[inline]
pub fn packet(frame: &[u8]) -> Option<&[u8]> {
    let Network { offset, ethertype } = ethernet::network(frame).ok()?;
    matches!(ethertype, ethernet::IPV4 | ethernet::IPV6).then(|| frame.get(offset..))?
}

/// The first bytes of a frame, as many as Ethernet and IPv4 without tags and options have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a>(&'a [u8; ethernet::HEADER_LEN + ipv4::HEADER_MIN]);

impl<'a> Head<'a> {
    /// Those of a frame; `None` of a shorter one.
    #[inline(always)]
    pub fn read(frame: &'a [u8]) -> Option<Head<'a>> {
        frame.first_chunk().map(Head)
    }

    /// Which interface the frame is for.
    #[inline(always)]
    pub fn destination(self) -> &'a MacAddr {
        self.0.first_chunk().unwrap_or(&ethernet::BROADCAST)
    }

    /// Whether it holds IPv4 without tags, as almost all frames do. What follows has a meaning only if it
    /// does.
    #[inline(always)]
    pub fn is_untagged_ipv4(self) -> bool {
        let ethertype = u16::from_be_bytes([self.0[12], self.0[13]]);
        ethertype == ethernet::IPV4 && self.0[ethernet::HEADER_LEN] >> 4 == 4
    }

    /// The octet with DSCP and ECN of IPv4 without tags.
    #[inline(always)]
    pub fn ipv4_traffic_class(self) -> u8 {
        self.0[ethernet::HEADER_LEN + 1]
    }

    /// Length in bytes that IPv4 without tags says of itself.
    #[inline(always)]
    pub fn ipv4_len(self) -> usize {
        usize::from(u16::from_be_bytes([self.0[ethernet::HEADER_LEN + 2], self.0[ethernet::HEADER_LEN + 3]]))
    }
}

/// What an IP header says, whether or not it agrees with itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peek {
    /// Offset of the network header in bytes.
    pub network: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Length of the packet in bytes: what the header says, or what there is of the frame if that is less.
    pub len: usize,
}

/// Peeks into a frame with an IP header, behind up to two VLAN tags. `None` of other frames, of headers that
/// are cut, and of a version that is not that of the type field.
#[inline(never)]
pub fn peek(frame: &[u8]) -> Option<Peek> {
    let Network { offset: network, ethertype } = ethernet::network(frame).ok()?;
    let packet = frame.get(network..)?;
    let word = |at: usize| crate::bytes::be16(packet, at);
    let (is_whole, said, traffic_class) = match (ethertype, packet.first()? >> 4) {
        (ethernet::IPV4, 4) => (packet.len() >= ipv4::HEADER_MIN, usize::from(word(2)?), word(0)? as u8),
        (ethernet::IPV6, 6) => {
            let said = ipv6::HEADER_LEN + usize::from(word(4)?);
            (packet.len() >= ipv6::HEADER_LEN, said, (word(0)? >> 4) as u8)
        }
        _ => return None,
    };
    is_whole.then_some(Peek { network, traffic_class, len: said.min(packet.len()) })
}

/// Whether a frame without VLAN tags holds IPv6, and the first protocol number in its IP header, unchecked.
/// `None` of all other frames, also of IP behind tags.
#[inline(always)]
pub fn untagged_protocol(frame: &[u8]) -> Option<(bool, u8)> {
    let head: &[u8; ethernet::HEADER_LEN + ipv4::HEADER_MIN] = frame.first_chunk()?;
    match u16::from_be_bytes([head[12], head[13]]) {
        ethernet::IPV4 => Some((false, head[ethernet::HEADER_LEN + ipv4::PROTOCOL_AT])),
        ethernet::IPV6 => Some((true, head[ethernet::HEADER_LEN + ipv6::NEXT_HEADER_AT])),
        _ => None,
    }
}

/// Addresses of a packet as numbers: source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Of IPv4.
    V4([u32; 2]),
    /// Of IPv6.
    V6([u128; 2]),
}

/// The addresses of a frame whose headers were read as `kind` at offset `network`; `None` where there are
/// none.
#[inline]
pub fn ends(frame: &[u8], kind: Kind, network: u16) -> Option<Ends> {
    let packet = frame.get(usize::from(network)..)?;
    match kind {
        Kind::Ipv4 => {
            let packet = ipv4::Packet::read(packet)?;
            Some(Ends::V4([packet.source(), packet.destination()].map(u32::from_be_bytes)))
        }
        Kind::Ipv6 => {
            let packet = ipv6::Packet::read(packet)?;
            Some(Ends::V6([packet.source(), packet.destination()].map(u128::from_be_bytes)))
        }
        _ => None,
    }
}

/// The octet with DSCP and ECN of a frame whose headers were read as `kind` at offset `network`; `None` where
/// there is none.
#[inline]
pub fn traffic_class(frame: &[u8], kind: Kind, network: u16) -> Option<u8> {
    let packet = frame.get(usize::from(network)..)?;
    match kind {
        Kind::Ipv4 => packet.get(1).copied(),
        Kind::Ipv6 => Some((crate::bytes::be16(packet, 0)? >> 4) as u8),
        Kind::Other | Kind::Malformed | Kind::Runt => None,
    }
}

/// Sets CE in a frame whose headers were read as `kind` at offset `network` (see [`ipv4::mark`]).
#[inline]
pub fn mark(frame: &mut [u8], kind: Kind, network: u16) {
    let Some(packet) = frame.get_mut(usize::from(network)..) else { return };
    match kind {
        Kind::Ipv4 => ipv4::mark(packet),
        Kind::Ipv6 => ipv6::mark(packet),
        Kind::Other | Kind::Malformed | Kind::Runt => {}
    }
}

/// Changes the DSCP of a frame whose headers were read as `kind` at offset `network`, as a link does that
/// remarks. Of tunnels it is that of the outer header. What is not IP stays as it is.
#[inline]
pub fn remark(frame: &mut [u8], kind: Kind, network: u16, remarks: &Remarks) {
    let Some(packet) = frame.get_mut(usize::from(network)..) else { return };
    match kind {
        Kind::Ipv4 => ipv4::remark(packet, remarks),
        Kind::Ipv6 => ipv6::remark(packet, remarks),
        Kind::Other | Kind::Malformed | Kind::Runt => {}
    }
}

/// The checksum of a TCP or UDP packet in a frame.
struct Checksum {
    /// What it is of, beside the pseudo-header.
    covered: Range<usize>,
    /// Where it stands.
    at: usize,
    /// Sum of the pseudo-header.
    pseudo: u64,
    /// Of UDP, where zero says that there is none.
    is_udp: bool,
}

/// Finds the checksum. There is none in other packets, and in those that are cut off; that of a fragment is
/// of the whole packet; and that of a packet whose routing header leads elsewhere first is of another
/// destination.
fn checksum_of(frame: &[u8]) -> Option<Checksum> {
    let bytes = self::packet(frame)?;
    let network = frame.len() - bytes.len();
    let packet = Packet::read(bytes)?;
    if matches!(packet, Packet::V6(v6) if v6.upper()?.is_routed) {
        return None;
    }
    let Upper { protocol, offset, payload, .. } = packet.upper().filter(|u| u.fragment == Fragment::Whole)?;
    let (len, field) = match protocol {
        TCP => (payload.len(), tcp::CHECKSUM_AT),
        UDP => (udp::Datagram::read(payload)?.len(), udp::CHECKSUM_AT),
        _ => return None,
    };
    if len < field + 2 {
        return None;
    }
    let start = network + offset;
    Some(Checksum {
        covered: start..start + len,
        at: start + field,
        pseudo: pseudo(packet.addresses(), protocol, len),
        is_udp: protocol == UDP,
    })
}

/// Computes the TCP or UDP checksum of a packet that its sender left to hardware that is not there.
/// Returns whether it could.
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    let Some(Checksum { covered, at, pseudo, is_udp }) = checksum_of(frame) else { return false };
    frame[at..at + 2].fill(0);
    let sum = pseudo + sum(&frame[covered]);
    let checksum = if is_udp { finish_nonzero(sum) } else { finish(sum) };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Whether a TCP or UDP packet has a checksum that its sender left to hardware: the sum of the pseudo-header
/// alone. One right checksum in 65536 looks like that. `None` of other packets.
pub fn is_unfinished(frame: &[u8]) -> Option<bool> {
    let Checksum { at, pseudo, .. } = checksum_of(frame)?;
    Some(crate::bytes::be16(frame, at)? == !finish(pseudo))
}
