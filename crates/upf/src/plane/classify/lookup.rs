//! Which rule a packet matches.
//!
//! Rules are asked in the order of their precedence. What most of them differ in (protocol, ports, family,
//! side) is compared for eight of them at once; the rest is looked at only where that fits.

use crate::filter::{Filter, PortRange, Prefix};
use std::net::IpAddr;
use weir_wire::ip::Header;

/// Filters that are compared at once.
const LANES: usize = 8;
/// Most filters of one direction of a session, with a filter for each pair of port ranges.
pub const FILTERS_MAX: usize = 1024;

/// Bits of the word beside the protocol.
const HAS_PORTS: u16 = 1 << 8;
const IS_V6: u16 = 1 << 9;
const IS_LOCAL: u16 = 1 << 10;

/// A packet as rules see it: from the network's end and the user equipment's.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    word: u16,
    /// That of the network's end in the upper half, and that of the user equipment's.
    ports: u32,
    remote: u128,
    local: u128,
}

impl Key {
    /// Of a packet from the user equipment, or to it; `is_local` if it came in at the port for local
    /// breakout.
    #[inline(always)]
    pub fn new(packet: &Header, is_up: bool, is_local: bool) -> Key {
        let (source, destination) = packet.ports.unwrap_or((0, 0));
        let word = u16::from(packet.protocol)
            | if packet.ports.is_some() { HAS_PORTS } else { 0 }
            | if packet.is_v6 { IS_V6 } else { 0 }
            | if is_local { IS_LOCAL } else { 0 };
        let ports = u32::from(source) << 16 | u32::from(destination);
        let ports = if is_up { ports.rotate_left(16) } else { ports };
        let (remote, local) =
            if is_up { (packet.destination, packet.source) } else { (packet.source, packet.destination) };
        Key { word, ports, remote, local }
    }

    /// That of the network's end, and of the user equipment's; those of IPv4 in one word.
    #[inline(always)]
    pub fn addresses(&self) -> [u64; 4] {
        let (remote, local) = (self.remote, self.local);
        if self.word & IS_V6 == 0 {
            [0, 0, 0, (remote as u64) << 32 | local as u64]
        } else {
            [(remote >> 64) as u64, remote as u64, (local >> 64) as u64, local as u64]
        }
    }

    /// Protocol, family and side; and both ports.
    #[inline]
    pub fn word_and_ports(&self) -> (u16, u32) {
        (self.word, self.ports)
    }
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Block {
    mask: [u16; LANES],
    word: [u16; LANES],
    remote_first: [u16; LANES],
    remote_span: [u16; LANES],
    local_first: [u16; LANES],
    local_span: [u16; LANES],
}

/// Nothing has a word that is not within its mask.
const NEVER: Block = Block {
    mask: [0; LANES],
    word: [1; LANES],
    remote_first: [0; LANES],
    remote_span: [0; LANES],
    local_first: [0; LANES],
    local_span: [0; LANES],
};

impl Block {
    /// Lanes that may match, as bits.
    #[inline]
    fn candidates(&self, key: &Key) -> u16 {
        let (mut bits, remote_port, local_port) = (0, (key.ports >> 16) as u16, key.ports as u16);
        for lane in 0..LANES {
            let is_word = key.word & self.mask[lane] == self.word[lane];
            let within =
                |port: u16, first: u16, span: u16| port.wrapping_sub(first).saturating_sub(span) == 0;
            let fits = is_word
                & within(remote_port, self.remote_first[lane], self.remote_span[lane])
                & within(local_port, self.local_first[lane], self.local_span[lane]);
            bits |= if fits { 1 << lane } else { 0 };
        }
        bits
    }
}

/// Addresses that begin alike: a value, and how far the bits that do not count are shifted out.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Beginning {
    value: u128,
    shift: u8,
}

impl Beginning {
    const ANY: Beginning = Beginning { value: 0, shift: 128 };

    fn of(prefix: Option<Prefix>) -> Beginning {
        match prefix {
            None => Beginning::ANY,
            Some(Prefix { length: 0, .. }) => Beginning::ANY,
            Some(Prefix { address: IpAddr::V4(a), length }) => {
                Beginning { value: u128::from(u32::from(a)), shift: 32 - length.min(32) }
            }
            Some(Prefix { address: IpAddr::V6(a), length }) => {
                Beginning { value: u128::from(a), shift: 128 - length.min(128) }
            }
        }
    }

    #[inline]
    fn fits(&self, address: u128) -> bool {
        (self.value ^ address).checked_shr(u32::from(self.shift)).unwrap_or(0) == 0
    }
}

/// What is looked at where the lane fits.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rest {
    remote: Beginning,
    local: Beginning,
    tos: (u8, u8),
    spi: Option<u32>,
    label: Option<u32>,
}

impl Rest {
    fn is_nothing(&self) -> bool {
        let any = Rest { remote: Beginning::ANY, local: Beginning::ANY, tos: (0, 0), spi: None, label: None };
        *self == any
    }

    #[inline]
    fn fits(&self, key: &Key, inner: &Header, packet: &[u8]) -> bool {
        self.remote.fits(key.remote)
            && self.local.fits(key.local)
            && inner.traffic_class & self.tos.1 == self.tos.0 & self.tos.1
            && self.spi.is_none_or(|spi| inner.spi(packet) == Some(spi))
            && self.label.is_none_or(|label| inner.is_v6 && inner.flow_label == label)
    }
}

/// Whose filter it is, and where the rest of it stands.
#[derive(Clone, Copy)]
struct Entry {
    rule: u16,
    rest: Option<u16>,
}

/// Filters that ask for something.
struct Lanes {
    blocks: Box<[Block]>,
    entries: Box<[Entry]>,
    rests: Box<[Rest]>,
}

/// The filters of one direction of a session, in the order in which they are asked.
#[derive(Default)]
pub struct Filters {
    /// Most sessions have none.
    lanes: Option<Box<Lanes>>,
    /// Rules behind the last of these, which every packet matches.
    otherwise: Box<[u16]>,
    asks_beyond_flows: bool,
}

impl Filters {
    /// The first rule with a filter that fits and that `suits`.
    #[inline]
    pub fn find(
        &self,
        key: &Key,
        inner: &Header,
        packet: &[u8],
        mut suits: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let found = self.lanes.as_ref().and_then(|lanes| lanes.find(key, inner, packet, &mut suits));
        found.or_else(|| self.otherwise.iter().copied().find(|rule| suits(*rule)))
    }

    /// Whether a filter asks for what differs between packets of one flow: an index of IPsec, a flow label.
    pub fn ask_beyond_flows(&self) -> bool {
        self.asks_beyond_flows
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let lanes = self.lanes.as_ref().map_or(0, |lanes| size_of::<Lanes>() + lanes.bytes());
        lanes + size_of_val(&*self.otherwise)
    }
}

impl Lanes {
    #[inline]
    fn find(
        &self,
        key: &Key,
        inner: &Header,
        packet: &[u8],
        suits: &mut impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        for (number, block) in self.blocks.iter().enumerate() {
            let mut bits = block.candidates(key);
            while bits != 0 {
                let entry = self.entries[number * LANES + bits.trailing_zeros() as usize];
                let fits = entry.rest.is_none_or(|at| self.rests[usize::from(at)].fits(key, inner, packet));
                if fits && suits(entry.rule) {
                    return Some(entry.rule);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.blocks) + size_of_val(&*self.entries) + size_of_val(&*self.rests)
    }
}

/// Filters in the making.
#[derive(Default)]
pub struct Builder {
    blocks: Vec<Block>,
    entries: Vec<Entry>,
    rests: Vec<Rest>,
}

/// What a filter asks beside itself.
#[derive(Clone, Copy, Debug)]
pub struct FilterContext {
    /// Number of its rule.
    pub rule: u16,
    /// Whether the packet comes in at the port for local breakout; `None` where there is only one way in.
    pub is_local: Option<bool>,
}

impl Builder {
    /// Adds a rule that all packets match.
    pub fn add_any(&mut self, asked: FilterContext) -> Option<()> {
        self.add(asked, &Filter::default())
    }

    /// Adds a filter behind the others. `None` if there are too many.
    pub fn add(&mut self, asked: FilterContext, filter: &Filter) -> Option<()> {
        let families = [&filter.remote, &filter.local].map(|end| end.prefix.map(|p| p.address.is_ipv6()));
        let is_v6 = match families {
            [Some(one), Some(other)] if one != other => return Some(()),
            [one, other] => one.or(other).or(filter.flow_label.map(|_| true)),
        };
        let rest = Rest {
            remote: Beginning::of(filter.remote.prefix),
            local: Beginning::of(filter.local.prefix),
            tos: filter.tos.unwrap_or((0, 0)),
            spi: filter.spi,
            label: filter.flow_label,
        };
        let rest = self.rest(rest);
        let (mut mask, mut word) = (0, 0);
        let mut ask = |bits: u16, value: u16| (mask, word) = (mask | bits, word | value);
        filter.protocol.into_iter().for_each(|p| ask(0xff, u16::from(p)));
        is_v6.into_iter().for_each(|is| ask(IS_V6, if is { IS_V6 } else { 0 }));
        asked.is_local.into_iter().for_each(|is| ask(IS_LOCAL, if is { IS_LOCAL } else { 0 }));
        if !filter.remote.ports.is_empty() || !filter.local.ports.is_empty() {
            ask(HAS_PORTS, HAS_PORTS);
        }
        let any = [PortRange { first: 0, last: u16::MAX }];
        let ranges = |ports: &'_ [PortRange]| -> Vec<PortRange> {
            if ports.is_empty() { any.to_vec() } else { ports.to_vec() }
        };
        for remote in ranges(&filter.remote.ports) {
            for local in ranges(&filter.local.ports) {
                self.lane(mask, word, remote, local, Entry { rule: asked.rule, rest })?;
            }
        }
        Some(())
    }

    fn rest(&mut self, rest: Rest) -> Option<u16> {
        if rest.is_nothing() {
            return None;
        }
        let at = self.rests.iter().position(|other| *other == rest).unwrap_or_else(|| {
            self.rests.push(rest);
            self.rests.len() - 1
        });
        Some(at as u16)
    }

    fn lane(
        &mut self,
        mask: u16,
        word: u16,
        remote: PortRange,
        local: PortRange,
        entry: Entry,
    ) -> Option<()> {
        // A range that ends before it begins has no port.
        if remote.last < remote.first || local.last < local.first {
            return Some(());
        }
        if self.entries.len() >= FILTERS_MAX {
            return None;
        }
        let lane = self.entries.len() % LANES;
        if lane == 0 {
            self.blocks.push(NEVER);
        }
        let block = self.blocks.last_mut().expect("one was added before its first lane");
        (block.mask[lane], block.word[lane]) = (mask, word);
        (block.remote_first[lane], block.remote_span[lane]) = (remote.first, remote.last - remote.first);
        (block.local_first[lane], block.local_span[lane]) = (local.first, local.last - local.first);
        self.entries.push(entry);
        Some(())
    }

    /// The filters, in as little memory as they take: rules at the end that ask for nothing need no lane.
    pub fn build(mut self) -> Filters {
        let mut otherwise = Vec::new();
        while let Some(entry) = self.entries.last().copied().filter(|entry| self.last_asks_nothing(entry)) {
            otherwise.push(entry.rule);
            self.take_last();
        }
        otherwise.reverse();
        let Builder { blocks, entries, rests } = self;
        let asks_beyond_flows = rests.iter().any(|rest| rest.spi.is_some() || rest.label.is_some());
        let lanes = (!entries.is_empty())
            .then(|| Box::new(Lanes { blocks: blocks.into(), entries: entries.into(), rests: rests.into() }));
        Filters { lanes, otherwise: otherwise.into(), asks_beyond_flows }
    }

    /// The block and the lane of the last entry.
    fn last(&self) -> (usize, usize) {
        let at = self.entries.len() - 1;
        (at / LANES, at % LANES)
    }

    fn last_asks_nothing(&self, entry: &Entry) -> bool {
        let (block, lane) = self.last();
        let block = &self.blocks[block];
        let takes_all = |span: u16| span == u16::MAX;
        entry.rest.is_none()
            && block.mask[lane] == 0
            && takes_all(block.remote_span[lane])
            && takes_all(block.local_span[lane])
    }

    fn take_last(&mut self) {
        let (block, lane) = self.last();
        self.entries.pop();
        self.blocks[block].word[lane] = NEVER.word[lane];
        self.blocks.truncate(self.entries.len().div_ceil(LANES));
    }
}

#[cfg(test)]
mod tests;
