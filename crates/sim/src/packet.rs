//! What travels: packets in queues and on wires, and acknowledgements in a form that costs one cache line.

use std::num::NonZeroU32;
use weir_sense::probe::Stamp;
use weir_tcp::{Ack, Segment};
use weir_units::Time;

/// Number of a connection: a sending and a receiving side. A flow has one after the other, or several.
pub type ConnectionId = u32;

/// A packet in a queue or on a wire.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// What it carries.
    pub body: Body,
    /// Whose it is.
    pub connection: ConnectionId,
    /// Tells packets of an earlier connection of that number.
    pub generation: u16,
    /// Links of its route that follow the one it is on.
    pub links_left: u16,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Data, from the sending side on.
    Data(Segment),
    /// An acknowledgement on its way back, kept in the [`AckStore`]: queues mostly hold data.
    Ack(StoreIndex),
    /// What opens a connection, either way.
    Opening(Opening),
    /// A probe of a link. Its `connection` is the number of that link, and its `links_left` counts the way
    /// out of the last one as well.
    Probe(Stamp),
}

/// A SYN, or the SYN-ACK that answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// When the SYN was sent; the answer echoes it.
    pub sent: Time,
    /// How many SYNs were sent before it.
    pub tries: u8,
    /// Whether it is the answer.
    pub is_answer: bool,
    /// Whether it asks for ECN, or grants it.
    pub ecn: bool,
}

/// Where something is kept; starts with 1 so that "nothing" costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreIndex(NonZeroU32);

/// Things that come and go, with the room used again.
struct Store<T> {
    things: Vec<T>,
    free: Vec<StoreIndex>,
}

impl<T: Copy> Store<T> {
    fn keep(&mut self, thing: T) -> StoreIndex {
        if let Some(kept) = self.free.pop() {
            self.things[kept.0.get() as usize - 1] = thing;
            return kept;
        }
        self.things.push(thing);
        let number = u32::try_from(self.things.len()).ok().and_then(NonZeroU32::new);
        StoreIndex(number.expect("fewer than 2^32 acknowledgements are on their way"))
    }

    fn get(&self, kept: StoreIndex) -> &T {
        &self.things[kept.0.get() as usize - 1]
    }

    fn take(&mut self, kept: StoreIndex) -> T {
        self.free.push(kept);
        *self.get(kept)
    }
}

type Blocks = [(u64, u64); 3];

/// An [`Ack`] without its SACK blocks, which few acknowledgements have.
#[derive(Clone, Copy, Debug)]
pub struct LightAck {
    next: u64,
    echo: Time,
    window: u32,
    ce: u32,
    number: u32,
    blocks: Option<StoreIndex>,
    ece: bool,
    spin: bool,
}

/// Keeps what of acknowledgements on their way does not fit into events and queues.
pub struct AckStore {
    blocks: Store<Blocks>,
    queued: Store<LightAck>,
}

impl Default for AckStore {
    fn default() -> AckStore {
        let (blocks, queued) = (Vec::new(), Vec::new());
        AckStore {
            blocks: Store { things: blocks, free: Vec::new() },
            queued: Store { things: queued, free: Vec::new() },
        }
    }
}

impl AckStore {
    /// Takes the SACK blocks off. [`open`](AckStore::open) must follow once.
    #[inline]
    pub fn close(&mut self, ack: &Ack) -> LightAck {
        let blocks = if ack.sacks[0].0 == ack.sacks[0].1 { None } else { Some(self.blocks.keep(ack.sacks)) };
        let Ack { next, echo, window, ce, number, ece, spin, .. } = *ack;
        LightAck { next, echo, window, ce, number, blocks, ece, spin }
    }

    /// The acknowledgement as it was.
    #[inline]
    pub fn open(&mut self, light: LightAck) -> Ack {
        let sacks = light.blocks.map_or([(0, 0); 3], |kept| self.blocks.take(kept));
        full(light, sacks)
    }

    /// Keeps an acknowledgement that goes into a queue. [`fetch`](AckStore::fetch) must follow once.
    pub fn keep(&mut self, light: LightAck) -> StoreIndex {
        self.queued.keep(light)
    }

    /// Takes an acknowledgement out.
    pub fn fetch(&mut self, kept: StoreIndex) -> LightAck {
        self.queued.take(kept)
    }

    /// An acknowledgement in a queue.
    pub fn look(&self, kept: StoreIndex) -> Ack {
        let light = *self.queued.get(kept);
        full(light, light.blocks.map_or([(0, 0); 3], |kept| *self.blocks.get(kept)))
    }

    /// Keeps a copy of an acknowledgement in a queue, as if it had been sent twice.
    pub fn keep_copy(&mut self, kept: StoreIndex) -> StoreIndex {
        let ack = self.look(kept);
        let light = self.close(&ack);
        self.keep(light)
    }

    /// A number for traces: that of the segment or probe, or what is acknowledged.
    #[inline]
    pub fn seq(&self, body: &Body) -> u64 {
        match body {
            Body::Data(segment) => segment.seq,
            Body::Ack(kept) => self.queued.get(*kept).next,
            Body::Opening(opening) => u64::from(opening.tries),
            Body::Probe(stamp) => u64::from(stamp.sequence),
        }
    }
}

fn full(light: LightAck, sacks: Blocks) -> Ack {
    let LightAck { next, echo, window, ce, number, ece, spin, .. } = light;
    Ack { next, sacks, echo, window, ce, number, ece, spin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_survive_the_way_and_their_room_is_used_again() {
        let mut store = AckStore::default();
        let plain = Ack {
            next: 7,
            sacks: [(0, 0); 3],
            echo: Time::from_nanos(5),
            window: 9,
            ce: 2,
            number: 4,
            ece: true,
            spin: false,
        };
        let sacked = Ack { sacks: [(9, 11), (13, 14), (0, 0)], ..plain };
        for _ in 0..3 {
            let (a, b) = (store.close(&plain), store.close(&sacked));
            let kept = store.keep(b);
            assert_eq!(store.look(kept), sacked);
            let copy = store.keep_copy(kept);
            let b = store.fetch(copy);
            assert_eq!(store.open(b), sacked);
            let b = store.fetch(kept);
            assert_eq!((store.open(b), store.open(a)), (sacked, plain));
        }
        assert_eq!((store.blocks.things.len(), store.queued.things.len()), (2, 2));
        assert!(size_of::<Item>() <= 32, "{}", size_of::<Item>());
    }
}
