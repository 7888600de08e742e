//! The hash of a flow, and those of the hosts at its ends.
//!
//! A flow is what has the same addresses, protocol and ports. **All fragments of a packet are of one flow**, the first
//! included, though it alone has ports: IPv4 fragments of one protocol between two addresses are of one flow, and so are
//! IPv6 fragments of any protocol, because the protocol that later ones name need not be the packet's (RFC 8200 section
//! 4.5). The identification of the packet is left out, so that packets that are fragmented keep their order, too.
//! Linux's flow dissector does the same.
//!
//! Hashes are the same on every machine for the same seed.

use crate::ip::{Fragment, has_ports};
use crate::{ipv4, ipv6, vlan};

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
        ones_from(self.prefix4)
    }

    /// The mask of the word of an IPv6 address that begins at so many bits.
    fn mask6(&self, bits: u32) -> u64 {
        ones_from(self.prefix6.saturating_sub(bits))
    }
}

/// A word of 32 bits whose first ones are set.
fn ones_from(bits: u32) -> u64 {
    u64::from(u32::MAX) & !(u64::from(u32::MAX) >> bits.min(32))
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

/// Hashes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashes {
    /// Of addresses, protocol and ports.
    pub flow: u32,
    /// Of the source address, as far as it names a user.
    pub sender: u32,
    /// Of the destination address, as far as it names a user.
    pub receiver: u32,
}

/// What hashes are made of: the two addresses whole, and as far as they name a user.
struct Pair {
    addresses: [u64; 2],
    users: [u64; 2],
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

    /// Hashes of an IPv4 packet.
    #[inline(always)]
    pub fn of_v4(&self, packet: &ipv4::Packet<'_>) -> Hashes {
        let ports = if packet.is_fragment() { 0 } else { ports(packet.protocol(), packet.payload()) };
        let addresses = [packet.source(), packet.destination()].map(|a| u64::from(u32::from_be_bytes(a)));
        let mask = self.users.mask4();
        let pair = Pair {
            addresses: addresses.map(|address| mix(self.seed, address)),
            users: addresses.map(|address| mix(self.seed, address & mask)),
        };
        self.hashes(pair, packet.protocol(), ports)
    }

    /// Hashes of an IPv6 packet. One that ends within its extension headers has neither protocol nor ports but the
    /// number of the first of them.
    #[inline(always)]
    pub fn of_v6(&self, packet: &ipv6::Packet<'_>) -> Hashes {
        let (protocol, ports) = match packet.upper() {
            None => (packet.next_header(), 0),
            Some(ipv6::Upper { protocol, offset, fragment: Fragment::Whole, .. }) => {
                (protocol, ports(protocol, packet.bytes().get(offset..).unwrap_or(&[])))
            }
            Some(_) => (ipv6::FRAGMENT, 0),
        };
        let both = [packet.source(), packet.destination()];
        let addresses = both.map(|address| self.address6(address, |_| u64::MAX));
        let users = match self.users.prefix6 {
            128 => addresses,
            _ => both.map(|address| self.address6(address, |bits| self.users.mask6(bits))),
        };
        self.hashes(Pair { addresses, users }, protocol, ports)
    }

    #[inline(always)]
    fn address6(&self, address: [u8; 16], mask: impl Fn(u32) -> u64) -> u64 {
        let words = address.as_chunks::<4>().0.iter().zip((0..).step_by(32));
        words.fold(self.seed, |hash, (word, bits)| {
            mix(hash, u64::from(u32::from_be_bytes(*word)) & mask(bits))
        })
    }

    #[inline(always)]
    fn hashes(&self, pair: Pair, protocol: u8, ports: u64) -> Hashes {
        let Pair { addresses: [sender, receiver], users } = pair;
        let (from, to, ports) = match self.turned {
            false => (sender, receiver, ports),
            true => (receiver, sender, ports >> 16 | (ports & 0xffff) << 16),
        };
        let [first, second] = users.map(fold);
        let (sender, receiver) = if self.turned { (second, first) } else { (first, second) };
        // Turned, or the two directions between two hosts would cancel alike.
        let addresses = mix(from, to.rotate_left(23));
        let flow = fold(mix(addresses ^ u64::from(protocol), ports));
        Hashes { flow, sender, receiver }
    }

    /// The hash of the VLAN tags of a frame, where they are users. Priorities do not count: they may differ between the
    /// directions.
    pub fn of_tags(&self, frame: &[u8]) -> u32 {
        fold(vlan::tags(frame).fold(self.seed, |hash, tag| mix(hash, u64::from(tag.id))))
    }
}

/// Both ports as one number, the source in the upper half; zero where there are none.
#[inline(always)]
fn ports(protocol: u8, payload: &[u8]) -> u64 {
    match payload.first_chunk() {
        Some(ports) if has_ports(protocol) => u64::from(u32::from_be_bytes(*ports)),
        _ => 0,
    }
}

/// Mixes a word into a hash. Odd constant of the golden ratio; multiplication carries upwards, the shift
/// brings the high bits back down.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let h = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 32)
}

/// The high half of one more mixing: low bits of a product depend on low bits alone, and its users take
/// the low bits.
#[inline(always)]
fn fold(hash: u64) -> u32 {
    (mix(hash, 0) >> 32) as u32
}
