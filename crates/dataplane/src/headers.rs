//! What the packet path reads from and writes to frames: the ECN field, the flow, the IP length.
//!
//! Reading never fails: whatever is not understood is forwarded untouched, as a wire would. Frames whose
//! headers contradict themselves are forwarded and counted.

use crate::Received;
use crate::frames::Arena;
use std::ops::Range;
use weir_aqm::Ecn;
use weir_sense::checksum::{finish, sum};
use weir_sense::wire;

const ETHERNET: usize = 14;
const VLAN_TAGS_MAX: usize = 2;
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const IPV4_MIN: usize = 20;
const IPV6_LEN: usize = 40;

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
    /// Offset of the network header.
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

/// What counts as a user, where hosts are users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Users {
    /// Bits of an IPv4 address, at most 32.
    pub prefix4: u32,
    /// Bits of an IPv6 address, at most 128.
    pub prefix6: u32,
    /// VLAN tags instead of addresses.
    pub vlan: bool,
}

impl Users {
    /// Every address is a user.
    pub const ADDRESSES: Users = Users { prefix4: 32, prefix6: 128, vlan: false };

    fn mask4(&self) -> u64 {
        u64::from(u32::MAX) & !(u64::from(u32::MAX) >> self.prefix4)
    }

    /// The mask of the word of an IPv6 address that begins at so many bits.
    fn mask6(&self, bits: u32) -> u64 {
        u64::from(u32::MAX) & !(u64::from(u32::MAX) >> self.prefix6.saturating_sub(bits).min(32))
    }
}

/// How hashes of flows and hosts are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashing {
    /// A secret one keeps senders from choosing their hashes.
    pub seed: u64,
    /// Whose hashes those of hosts are.
    pub users: Users,
    /// Whether addresses and ports are taken in exchange: the hashes are then those of the packets that a packet
    /// answers.
    pub turned: bool,
}

impl Hashing {
    /// Hosts are addresses.
    pub fn of(seed: u64) -> Hashing {
        Hashing { seed, users: Users::ADDRESSES, turned: false }
    }

    /// The same for the packets that a packet answers.
    pub fn turned(self) -> Hashing {
        Hashing { turned: !self.turned, ..self }
    }

    fn address(&self, ip: &[u8], at: std::ops::Range<usize>, mask: impl Fn(usize) -> u64) -> u64 {
        let start = at.start;
        at.step_by(4).fold(self.seed, |hash, at| mix(hash, word(ip, at) & mask(at - start)))
    }
}

/// What hashes are made of: the two addresses whole, and as far as they name a user.
struct Pair {
    addresses: [u64; 2],
    users: [u64; 2],
}

impl Headers {
    /// Where nothing was read.
    pub(crate) const NONE: Headers = Headers::nothing(Kind::Runt, 0);

    fn with_hashes(self, pair: Pair, protocol: u8, ports: u64, turned: bool) -> Headers {
        let Pair { addresses: [sender, receiver], users } = pair;
        let (from, to, ports) = match turned {
            false => (sender, receiver, ports),
            true => (receiver, sender, ports >> 16 | (ports & 0xffff) << 16),
        };
        let [first, second] = users.map(fold);
        let (sender, receiver) = if turned { (second, first) } else { (first, second) };
        // Turned, or the two directions between two hosts would cancel alike.
        let addresses = mix(from, to.rotate_left(23));
        let flow = fold(mix(addresses ^ u64::from(protocol), ports));
        Headers { flow, sender, receiver, ..self }
    }

    const fn nothing(kind: Kind, network: usize) -> Headers {
        Headers { kind, network: network as u16, ecn: Ecn::NotEct, flow: 0, sender: 0, receiver: 0 }
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Offset of the network header of a frame with an Ethernet header, and what its type field says of it; behind
/// VLAN tags, if there are any. An offset alone where the tags are cut off.
#[inline]
fn behind_tags(frame: &[u8]) -> Result<(usize, u16), usize> {
    let mut network = ETHERNET;
    let mut ethertype = be16(frame, 12);
    for _ in 0..VLAN_TAGS_MAX {
        if !matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
            break;
        }
        if frame.len() < network + 4 {
            return Err(network);
        }
        ethertype = be16(frame, network + 2);
        network += 4;
    }
    Ok((network, ethertype))
}

/// As [`behind_tags`], for any frame.
#[inline]
pub(crate) fn network_of(frame: &[u8]) -> Option<(usize, u16)> {
    if frame.len() < ETHERNET { None } else { behind_tags(frame).ok() }
}

/// Reads the transports of frames that came in, once for all who observe.
pub(crate) fn note_transports(received: &[Received], arena: &mut Arena) {
    for r in received {
        let bytes = arena.bytes(r.frame);
        let network = network_of(bytes).filter(|(_, kind)| matches!(*kind, ETHERTYPE_IPV4 | ETHERTYPE_IPV6));
        let datagram = network.and_then(|(network, _)| wire::read(&bytes[network..]));
        let note = arena.note(r.frame);
        note.transport = datagram.map(|datagram| datagram.transport);
        note.ports = datagram.map_or((0, 0), |datagram| datagram.ports);
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
pub fn read_hashed(frame: &[u8], hashing: &Hashing) -> Headers {
    let headers = read_kind(frame, hashing);
    if !hashing.users.vlan || headers.kind == Kind::Runt {
        return headers;
    }
    let tags = (ETHERNET..usize::from(headers.network)).step_by(4).filter(|at| at + 2 <= frame.len());
    // The rest of a tag is a priority, which may differ between the directions.
    let user = fold(tags.fold(hashing.seed, |hash, at| mix(hash, u64::from(be16(frame, at) & 0xfff))));
    Headers { sender: user, receiver: user, ..headers }
}

fn read_kind(frame: &[u8], hashing: &Hashing) -> Headers {
    if frame.len() < ETHERNET {
        return Headers::nothing(Kind::Runt, 0);
    }
    let (network, ethertype) = match behind_tags(frame) {
        Ok(found) => found,
        Err(network) => return Headers::nothing(Kind::Malformed, network),
    };
    match ethertype {
        ETHERTYPE_IPV4 => read_ipv4(&frame[network..], network, hashing),
        ETHERTYPE_IPV6 => read_ipv6(&frame[network..], network, hashing),
        _ => Headers::nothing(Kind::Other, network),
    }
}

fn read_ipv4(ip: &[u8], network: usize, hashing: &Hashing) -> Headers {
    let malformed = Headers::nothing(Kind::Malformed, network);
    if ip.len() < IPV4_MIN || ip[0] >> 4 != 4 {
        return malformed;
    }
    let header = usize::from(ip[0] & 15) * 4;
    let total = usize::from(be16(ip, 2));
    if header < IPV4_MIN || total < header || total > ip.len() {
        return malformed;
    }
    // Only first fragments have ports, so fragments are told apart by addresses and protocol alone.
    let is_fragment = be16(ip, 6) & 0x3fff != 0;
    let ports = if is_fragment { 0 } else { ports(ip[9], &ip[header..total]) };
    let addresses = [12..16, 16..20].map(|at| hashing.address(ip, at, |_| u64::MAX));
    let users = match hashing.users.prefix4 {
        32 => addresses,
        _ => [12..16, 16..20].map(|at| hashing.address(ip, at, |_| hashing.users.mask4())),
    };
    let hashed = Headers { kind: Kind::Ipv4, ecn: Ecn::from_bits(ip[1]), ..malformed };
    hashed.with_hashes(Pair { addresses, users }, ip[9], ports, hashing.turned)
}

fn read_ipv6(ip: &[u8], network: usize, hashing: &Hashing) -> Headers {
    let malformed = Headers::nothing(Kind::Malformed, network);
    if ip.len() < IPV6_LEN || ip[0] >> 4 != 6 {
        return malformed;
    }
    let payload = usize::from(be16(ip, 4));
    if IPV6_LEN + payload > ip.len() {
        return malformed;
    }
    let ports = ports(ip[6], &ip[IPV6_LEN..IPV6_LEN + payload]);
    let addresses = [8..24, 24..40].map(|at| hashing.address(ip, at, |_| u64::MAX));
    let users = match hashing.users.prefix6 {
        128 => addresses,
        _ => [8..24, 24..40].map(|at| hashing.address(ip, at, |byte| hashing.users.mask6(8 * byte as u32))),
    };
    let hashed = Headers { kind: Kind::Ipv6, ecn: Ecn::from_bits(ip[1] >> 4), ..malformed };
    hashed.with_hashes(Pair { addresses, users }, ip[6], ports, hashing.turned)
}

/// Source and destination port of the protocols that have them in their first four bytes.
fn ports(protocol: u8, transport: &[u8]) -> u64 {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const SCTP: u8 = 132;
    if matches!(protocol, TCP | UDP | SCTP) && transport.len() >= 4 { word(transport, 0) } else { 0 }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// Mixes a word into a hash. Odd constant of the golden ratio; multiplication carries upwards, the shift
/// brings the high bits back down.
fn mix(hash: u64, word: u64) -> u64 {
    let h = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 32)
}

/// The high half of one more mixing: low bits of a product depend on low bits alone, and its users take
/// the low bits.
fn fold(hash: u64) -> u32 {
    (mix(hash, 0) >> 32) as u32
}

/// Sets CE in a frame whose headers were read as `kind` at offset `network`.
///
/// The IPv4 header checksum is updated incrementally (RFC 1624 section 3, equation 3); IPv6 has none, and
/// neither TCP's nor UDP's pseudo header covers the field.
pub fn mark(frame: &mut [u8], kind: Kind, network: u16) {
    let ip = &mut frame[usize::from(network)..];
    match kind {
        Kind::Ipv4 => {
            let old = be16(ip, 0);
            ip[1] |= 3;
            let new = be16(ip, 0);
            let mut sum = u32::from(!be16(ip, 10)) + u32::from(!old) + u32::from(new);
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Kind::Ipv6 => ip[1] |= 0x30,
        Kind::Other | Kind::Malformed | Kind::Runt => {}
    }
}

/// The checksum of a TCP or UDP packet in a frame.
struct Checksum {
    /// What it is of, beside the pseudo-header.
    covered: Range<usize>,
    /// Where it stands.
    field: Range<usize>,
    /// Sum of the pseudo-header.
    pseudo: u64,
}

/// Finds the checksum; there is none in other packets, and in those that are cut off.
fn checksum_of(frame: &[u8]) -> Option<Checksum> {
    let headers = read(frame);
    let network = usize::from(headers.network);
    let ip = &frame[network..];
    let (protocol, addresses, start, end) = match headers.kind {
        Kind::Ipv4 => (ip[9], 12..20, usize::from(ip[0] & 15) * 4, usize::from(be16(ip, 2))),
        Kind::Ipv6 => (ip[6], 8..40, IPV6_LEN, IPV6_LEN + usize::from(be16(ip, 4))),
        _ => return None,
    };
    let field = start
        + match protocol {
            6 => 16,
            17 => 6,
            _ => return None,
        };
    if end < field + 2 || end > ip.len() {
        return None;
    }
    let pseudo = sum(&ip[addresses]) + u64::from(protocol) + (end - start) as u64;
    Some(Checksum {
        covered: network + start..network + end,
        field: network + field..network + field + 2,
        pseudo,
    })
}

/// Computes the TCP or UDP checksum of a packet that its sender left to hardware that is not there.
/// Returns whether it could.
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    let Some(Checksum { covered, field, pseudo }) = checksum_of(frame) else { return false };
    frame[field.clone()].fill(0);
    let checksum = match finish(pseudo + sum(&frame[covered])) {
        // Zero would say that a UDP datagram has no checksum (RFC 768).
        0 => 0xffff,
        other => other,
    };
    frame[field].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Whether a TCP or UDP packet has a checksum that its sender left to hardware: the sum of the pseudo-header alone.
/// One right checksum in 65536 looks like that. None of other packets.
pub fn is_unfinished(frame: &[u8]) -> Option<bool> {
    let Checksum { field, pseudo, .. } = checksum_of(frame)?;
    Some(be16(frame, field.start) == !finish(pseudo))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn tcp4(payload: &[u8], tos: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1000, 80, 7, 65000)
            .write(&mut frame, payload)
            .unwrap();
        frame[15] = tos;
        let sum = {
            frame[24..26].fill(0);
            finish(super::sum(&frame[14..34]))
        };
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn marking_keeps_every_ipv4_checksum_right() {
        for tos in 0..=255u8 {
            for id in [0u16, 1, 0xffff, 0x1234, 0xfffe] {
                let mut frame = tcp4(b"x", tos);
                frame[18..20].copy_from_slice(&id.to_be_bytes());
                frame[24..26].fill(0);
                let right = finish(sum(&frame[14..34]));
                frame[24..26].copy_from_slice(&right.to_be_bytes());
                let headers = read(&frame);
                assert_eq!(headers.ecn, Ecn::from_bits(tos));
                mark(&mut frame, headers.kind, headers.network);
                assert_eq!(read(&frame).ecn, Ecn::Ce);
                assert_eq!(finish(sum(&frame[14..34])), 0, "tos {tos} id {id}");
                assert_eq!(frame[15] >> 2, tos >> 2, "the DSCP is not touched");
            }
        }
    }

    #[test]
    fn marking_ipv6_sets_two_bits_and_nothing_else() {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(5000, 443)
            .write(&mut frame, b"hello")
            .unwrap();
        frame[15] = 0x2a;
        let before = frame.clone();
        let headers = read(&frame);
        assert_eq!((headers.kind, headers.ecn), (Kind::Ipv6, Ecn::Ect0));
        mark(&mut frame, headers.kind, headers.network);
        assert_eq!(frame[15], 0x3a);
        frame[15] = 0x2a;
        assert_eq!(frame, before);
    }

    #[test]
    fn vlan_tags_are_looked_through() {
        let plain = tcp4(b"payload", 2);
        for tags in [vec![0x8100u16], vec![0x88a8, 0x8100]] {
            let mut frame = plain[..12].to_vec();
            for tag in &tags {
                frame.extend_from_slice(&tag.to_be_bytes());
                frame.extend_from_slice(&[0, 5]);
            }
            frame.extend_from_slice(&plain[12..]);
            let headers = read(&frame);
            assert_eq!(headers.kind, Kind::Ipv4);
            assert_eq!(usize::from(headers.network), 14 + 4 * tags.len());
            assert_eq!(headers.flow, read(&plain).flow);
        }
    }

    #[test]
    fn flows_are_told_apart() {
        let mut seen = std::collections::HashSet::new();
        for port in 0..2000u16 {
            let mut frame = tcp4(b"", 0);
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            seen.insert(read(&frame).flow % 65_536);
        }
        assert!(seen.len() > 1900, "{} buckets for 2000 flows", seen.len());
    }

    #[test]
    fn hosts_are_told_apart_whatever_their_ports() {
        let of = |source: u8, port: u8, seed: u64| {
            let mut frame = tcp4(b"", 0);
            (frame[29], frame[34]) = (source, port);
            read_seeded(&frame, seed)
        };
        let (first, port, other) = (of(1, 1, 7), of(1, 2, 7), of(2, 1, 7));
        assert_eq!((first.sender, first.receiver), (port.sender, port.receiver));
        assert_eq!(first.receiver, other.receiver);
        assert!(first.sender != other.sender && first.sender != first.receiver);
        assert!(first.flow != port.flow && first.flow != other.flow);
        let elsewhere = of(1, 1, 8);
        assert!(elsewhere.flow != first.flow && elsewhere.sender != first.sender);
        let mut v6 = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(5000, 443)
            .write(&mut v6, b"")
            .unwrap();
        let before = read(&v6);
        v6[14 + 8 + 15] ^= 1;
        let after = read(&v6);
        assert!(before.sender != after.sender && before.receiver == after.receiver);
    }

    #[test]
    fn an_answer_has_the_hashes_of_what_it_answers() {
        let there = tcp4(b"data", 0);
        let mut back = there.clone();
        back.copy_within(26..30, 30);
        back[26..30].copy_from_slice(&there[30..34]);
        back[34..36].copy_from_slice(&there[36..38]);
        back[36..38].copy_from_slice(&there[34..36]);
        let hashing = Hashing::of(9);
        let (data, answer) = (read_hashed(&there, &hashing), read_hashed(&back, &hashing.turned()));
        assert_eq!((data.flow, data.sender, data.receiver), (answer.flow, answer.sender, answer.receiver));
        assert!(read_hashed(&back, &hashing).flow != data.flow);
    }

    #[test]
    fn users_are_addresses_prefixes_or_tags() {
        let receiver = |frame: &[u8], prefix4, prefix6, vlan| {
            let users = Users { prefix4, prefix6, vlan };
            read_hashed(frame, &Hashing { users, ..Hashing::of(1) }).receiver
        };
        let near = tcp4(b"", 0);
        let far = |byte: usize| {
            let mut frame = near.clone();
            frame[byte] ^= 1;
            frame
        };
        for (bits, byte, alike) in
            [(32, 33, false), (24, 33, true), (24, 32, false), (31, 33, true), (0, 30, true)]
        {
            assert_eq!(
                receiver(&near, bits, 128, false) == receiver(&far(byte), bits, 128, false),
                alike,
                "{bits}"
            );
        }
        let v6 = |byte: u8| {
            let (mut frame, mut address) = (Vec::new(), [2; 16]);
            address[usize::from(byte)] = 3;
            PacketBuilder::ethernet2([1; 6], [2; 6])
                .ipv6([1; 16], address, 64)
                .udp(1, 2)
                .write(&mut frame, b"")
                .unwrap();
            frame
        };
        let same =
            |bits, one, other| receiver(&v6(one), 32, bits, false) == receiver(&v6(other), 32, bits, false);
        assert!(
            !same(128, 15, 14) && same(64, 15, 8) && !same(64, 15, 7) && !same(48, 15, 5) && same(48, 15, 6)
        );
        let tagged = |id: [u8; 2]| [&near[..12], &[0x81, 0][..], &id[..], &near[12..]].concat();
        assert_eq!(receiver(&tagged([0x20, 5]), 32, 128, true), receiver(&tagged([0, 5]), 32, 128, true));
        assert!(receiver(&tagged([0, 5]), 32, 128, true) != receiver(&tagged([0, 6]), 32, 128, true));
    }

    #[test]
    fn contradictory_headers_are_malformed_and_never_panic() {
        let good = tcp4(b"some payload", 0);
        for len in 0..good.len() {
            let kind = read(&good[..len]).kind;
            assert!(matches!(kind, Kind::Runt | Kind::Malformed), "cut to {len} bytes: {kind:?}");
        }
        let mut short_ihl = good.clone();
        short_ihl[14] = 0x44;
        assert_eq!(read(&short_ihl).kind, Kind::Malformed);
        let mut version = good.clone();
        version[14] = 0x65;
        assert_eq!(read(&version).kind, Kind::Malformed);
        // Every single byte set to every value: reading and marking hold on.
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut frame = good.clone();
                frame[at] = value;
                let headers = read(&frame);
                mark(&mut frame, headers.kind, headers.network);
                complete_checksum(&mut frame);
            }
        }
    }

    #[test]
    fn missing_checksums_are_completed_like_etherparse_computes_them() {
        for payload in [&b""[..], b"x", b"xy", b"a longer payload, odd"] {
            let mut v6 = Vec::new();
            PacketBuilder::ethernet2([1; 6], [2; 6])
                .ipv6([1; 16], [2; 16], 64)
                .udp(5000, 443)
                .write(&mut v6, payload)
                .unwrap();
            for right in [tcp4(payload, 0), v6] {
                let at = if right[12] == 8 { 50 } else { 60 };
                let mut frame = right.clone();
                frame[at..at + 2].copy_from_slice(&[0xaa, 0x55]);
                assert!(complete_checksum(&mut frame));
                assert_eq!(frame, right);
                assert_eq!(is_unfinished(&right), Some(false));
                // What Linux leaves there for hardware.
                let pseudo = checksum_of(&right).unwrap().pseudo;
                frame[at..at + 2].copy_from_slice(&(!finish(pseudo)).to_be_bytes());
                assert_eq!(is_unfinished(&frame), Some(true));
            }
        }
        assert_eq!(is_unfinished(&[0; 60]), None);
    }
}
