//! The hash of a flow, and those of the hosts at its ends.
//!
//! A flow is what has the same addresses, protocol and ports. **All fragments of a packet are of one flow**,
//! the first included, though it alone has ports: IPv4 fragments of one protocol between two addresses are of
//! one flow, and so are IPv6 fragments of any protocol, because the protocol that later ones name need not be
//! the packet's (RFC 8200 section 4.5). The identification of the packet is left out, so that packets that
//! are fragmented keep their order, too. Linux's flow dissector does the same.
//!
//! Hashes are the same on every machine for the same seed.

use crate::ip::{Fragment, Header, has_ports};
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

    #[inline(always)]
    fn mask4(&self) -> u64 {
        ones_from(32 + self.prefix4.min(32))
    }

    /// Masks of both halves of an IPv6 address.
    #[inline(always)]
    fn masks6(&self) -> [u64; 2] {
        [ones_from(self.prefix6), ones_from(self.prefix6.saturating_sub(64))]
    }
}

/// A word whose first bits are set.
#[inline(always)]
fn ones_from(bits: u32) -> u64 {
    !u64::MAX.checked_shr(bits).unwrap_or(0)
}

/// How hashes of flows and hosts are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashing {
    /// A secret one keeps senders from choosing their hashes.
    pub seed: u64,
    /// Whose hashes those of hosts are.
    pub users: Users,
    /// Whether addresses and ports are taken in exchange: the hashes are then those of the packets that a
    /// packet answers.
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
        let ends = [packet.source(), packet.destination()].map(|a| u64::from(u32::from_be_bytes(a)));
        let mask = self.users.mask4();
        let users = ends.map(|address| fold(mix(self.seed, address & mask)));
        let [from, to] = self.in_order(ends);
        let flow = flow(addresses_v4(self.seed, from, to), packet.protocol(), self.ports_in_order(ports));
        self.hashes(flow, users)
    }

    /// Hashes of an IPv6 packet. One that ends within its extension headers has neither protocol nor ports
    /// but the number of the first of them.
    #[inline(always)]
    pub fn of_v6(&self, packet: &ipv6::Packet<'_>) -> Hashes {
        let (protocol, ports) = match packet.upper() {
            None => (packet.next_header(), 0),
            Some(ipv6::Upper { protocol, offset, fragment: Fragment::Whole, .. }) => {
                (protocol, ports(protocol, packet.bytes().get(offset..).unwrap_or(&[])))
            }
            Some(_) => (ipv6::FRAGMENT, 0),
        };
        let ends = [packet.source(), packet.destination()].map(u128::from_be_bytes);
        let masks = self.users.masks6();
        let users = ends.map(|address| {
            let [high, low] = halves(address);
            fold(mix(mix(self.seed, high & masks[0]), low & masks[1]))
        });
        let [from, to] = self.in_order(ends);
        let flow = flow(addresses_v6(self.seed, from, to), protocol, self.ports_in_order(ports));
        self.hashes(flow, users)
    }

    #[inline(always)]
    fn in_order<T>(&self, [source, destination]: [T; 2]) -> [T; 2] {
        if self.turned { [destination, source] } else { [source, destination] }
    }

    #[inline(always)]
    fn ports_in_order(&self, ports: u32) -> u32 {
        if self.turned { ports.rotate_left(16) } else { ports }
    }

    #[inline(always)]
    fn hashes(&self, flow: u32, users: [u32; 2]) -> Hashes {
        let [sender, receiver] = self.in_order(users);
        Hashes { flow, sender, receiver }
    }

    /// The hash of the VLAN tags of a frame, where they are users. Priorities do not count: they may differ
    /// between the directions.
    pub fn of_tags(&self, frame: &[u8]) -> u32 {
        fold(vlan::tags(frame).fold(self.seed, |hash, tag| mix(hash, u64::from(tag.id))))
    }
}

/// The hash of the flow of a packet whose headers were read: the same as [`Hashing`] makes of the packet.
/// `turned` is that of [`Hashing`].
#[inline(always)]
pub fn of_header(seed: u64, header: &Header, turned: bool) -> u32 {
    let (source, destination) = header.ports.unwrap_or((0, 0));
    let ports = u32::from(source) << 16 | u32::from(destination);
    let (protocol, ports) = match header.fragment {
        Fragment::Whole => (header.protocol, ports),
        _ if header.is_v6 => (ipv6::FRAGMENT, 0),
        _ => (header.protocol, 0),
    };
    let (from, to, ports) = match turned {
        false => (header.source, header.destination, ports),
        true => (header.destination, header.source, ports.rotate_left(16)),
    };
    let addresses = match header.is_v6 {
        false => addresses_v4(seed, from as u64, to as u64),
        true => addresses_v6(seed, from, to),
    };
    flow(addresses, protocol, ports)
}

#[inline(always)]
fn addresses_v4(seed: u64, from: u64, to: u64) -> u64 {
    mix(seed, from << 32 | to)
}

#[inline(always)]
fn addresses_v6(seed: u64, from: u128, to: u128) -> u64 {
    let [[a, b], [c, d]] = [from, to].map(halves);
    mix(mix(mix(mix(seed, a), b), c), d)
}

#[inline(always)]
fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

#[inline(always)]
fn flow(addresses: u64, protocol: u8, ports: u32) -> u32 {
    fold(mix(addresses, u64::from(protocol) << 32 | u64::from(ports)))
}

/// Both ports as one number, the source in the upper half; zero where there are none.
#[inline(always)]
fn ports(protocol: u8, payload: &[u8]) -> u32 {
    match payload.first_chunk() {
        Some(ports) if has_ports(protocol) => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

/// Mixes a word into a hash. Odd constant of the golden ratio; multiplication carries upwards, the shift
/// brings the high bits back down.
#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    let h = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 32)
}

/// The high half of one more mixing: low bits of a product depend on low bits alone, and its users take
/// the low bits.
#[inline(always)]
fn fold(hash: u64) -> u32 {
    (mix(hash, 0) >> 32) as u32
}
