//! The event queue: a timing wheel for what comes soon, a heap for what comes late.
//!
//! Events come out in order of time, and those of equal time in order of insertion. An event that is due
//! within the horizon goes to the list of its tick, in constant time. When a tick comes up, its list is
//! sorted into the *batch*, from which events are taken; a bitmap finds the next tick that has any. Events
//! beyond the horizon (retransmission timers, starts of flows) wait in a heap and join the batch of their
//! tick.
//!
//! Nodes live in one array with a free list: after warm-up nothing is allocated, and a network with few
//! events in flight touches little memory, however long the wheel is.

mod far;
#[cfg(test)]
mod tests;

use far::{FarEntry, FarEvent};
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use weir_queue::memory;
use weir_units::{Duration, Time};

/// Most ticks on the wheel.
const SLOTS_MAX: u64 = 1 << 14;
/// Fewest, so that the bitmap has a word.
const SLOTS_MIN: u64 = 64;
/// Shortest tick, 2^12 ns; longer ones are chosen for long delays, and where events are rare.
const SHIFT_MIN: u32 = 12;
const SHIFT_MAX: u32 = 24;
/// What the wheel reaches over at least: delayed acknowledgements are on it.
const HORIZON_MIN: u64 = SLOTS_MAX << SHIFT_MIN;

/// Position in the array of nodes; the first node is never used.
type Index = Option<NonZeroU32>;

/// In one line of the processor's cache, so that one request brings all of it.
#[derive(Clone)]
#[repr(align(64))]
struct Node<E> {
    time: Time,
    next: Index,
    event: Option<E>,
}

/// An event of the batch: its time and its node.
#[derive(Clone, Copy)]
struct Due {
    time: Time,
    /// Rank of insertion among the events of this batch's tick, for a sort that needs no memory.
    rank: u32,
    node: NonZeroU32,
}

/// Events of which those that often lie far ahead have a small form.
pub trait Compact: Copy {
    /// The small form.
    type Small: Copy;
    /// The event in the small form, if it has one.
    fn small(self) -> Option<Self::Small>;
    /// The event of that form.
    fn from_small(small: Self::Small) -> Self;
}

/// Room that is added when there is none: a quarter, as with many flows the array is large.
fn more(len: usize) -> usize {
    (len / 4).max(64)
}

/// Events in order of time, then of insertion.
pub struct Wheel<E: Compact> {
    shift: u32,
    nodes: Vec<Node<E>>,
    free: Index,
    /// The newest event of each tick; their number is a power of two.
    heads: Box<[Index]>,
    occupied: Box<[u64]>,
    /// Events before `batch_end`, sorted; those before `cursor` are gone.
    batch: Vec<Due>,
    cursor: usize,
    /// A tick's beginning; every event before it is in the batch.
    batch_end: u64,
    /// The beginning of the first tick with an event that is not in the batch.
    upcoming: Option<u64>,
    /// A node of the first tick behind the batch whose memory has been asked for.
    walker: Index,
    far: BinaryHeap<FarEntry<E::Small>>,
    far_rank: u64,
}

impl<E: Compact> Wheel<E> {
    /// An empty wheel for delays up to about `delay`, as longer ones cost a heap operation, and for events
    /// that are about `spacing` apart: a tick that is not much shorter than that keeps the wheel small, so
    /// that it stays in the processor's cache beside those of other simulations.
    pub fn new(delay: Duration, spacing: Duration) -> Wheel<E> {
        let horizon = delay.as_nanos().saturating_add(delay.as_nanos() / 8).max(HORIZON_MIN);
        let mut shift = SHIFT_MIN;
        while shift < SHIFT_MAX && (SLOTS_MAX << shift < horizon || 2 << shift <= spacing.as_nanos()) {
            shift += 1;
        }
        let slots = horizon.div_ceil(1 << shift).clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two();
        Wheel {
            shift,
            nodes: vec![Node { time: Time::ZERO, next: None, event: None }],
            free: None,
            heads: vec![None; slots as usize].into(),
            occupied: vec![0; slots as usize / 64].into(),
            batch: Vec::with_capacity(256),
            cursor: 0,
            batch_end: 0,
            upcoming: None,
            walker: None,
            far: BinaryHeap::new(),
            far_rank: 0,
        }
    }

    /// Every event that waits, in no particular order; small ones that lie far ahead are left out.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.nodes.iter().filter_map(|node| node.event.as_ref())
    }

    /// Ticks on the wheel.
    #[inline]
    fn slots(&self) -> u64 {
        self.heads.len() as u64
    }

    #[inline]
    fn slot(&self, tick: u64) -> usize {
        (tick & (self.slots() - 1)) as usize
    }

    /// Adds an event. Its time must not lie before that of the event taken last.
    #[inline]
    pub fn insert(&mut self, time: Time, event: E) {
        let at = time.as_nanos();
        if at < self.batch_end {
            return self.insert_into_batch(time, event);
        }
        let tick = at >> self.shift;
        if tick - (self.batch_end >> self.shift) < self.slots() {
            let node = self.store(time, event);
            let slot = self.slot(tick);
            self.nodes[node.get() as usize].next = self.heads[slot];
            self.heads[slot] = Some(node);
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.insert_far(time, event);
        }
        let begin = tick << self.shift;
        self.upcoming = Some(self.upcoming.map_or(begin, |first| first.min(begin)));
    }

    #[cold]
    fn insert_far(&mut self, time: Time, event: E) {
        if self.far.len() == self.far.capacity() {
            self.far.reserve_exact(more(self.far.len()));
        }
        let what = match event.small() {
            Some(small) => FarEvent::Small(small),
            None => FarEvent::Node(self.store(time, event)),
        };
        self.far.push(FarEntry { time, rank: self.far_rank, what });
        self.far_rank += 1;
    }

    #[inline]
    fn store(&mut self, time: Time, event: E) -> NonZeroU32 {
        if let Some(index) = self.free {
            let node = &mut self.nodes[index.get() as usize];
            self.free = node.next;
            *node = Node { time, next: None, event: Some(event) };
            return index;
        }
        self.store_in_new(Node { time, next: None, event: Some(event) })
    }

    #[cold]
    fn store_in_new(&mut self, node: Node<E>) -> NonZeroU32 {
        let index = u32::try_from(self.nodes.len()).ok().and_then(NonZeroU32::new);
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact(more(self.nodes.len()));
        }
        self.nodes.push(node);
        index.expect("fewer than 2^32 events wait")
    }

    fn insert_into_batch(&mut self, time: Time, event: E) {
        let node = self.store(time, event);
        let mut at = self.batch.len();
        while at > self.cursor && self.batch[at - 1].time > time {
            at -= 1;
        }
        self.batch.insert(at, Due { time, rank: 0, node });
    }

    /// The time of the first event, if it may come at or before `limit`: a later one may be left out.
    #[inline(always)]
    pub fn peek(&mut self, limit: Time) -> Option<Time> {
        if let Some(due) = self.batch.get(self.cursor) {
            return Some(due.time);
        }
        match self.upcoming {
            Some(begin) if begin <= limit.as_nanos() => self.load(begin),
            _ => None,
        }
    }

    /// Takes the event that [`peek`](Wheel::peek) told of.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let due = *self.batch.get(self.cursor)?;
        self.cursor += 1;
        self.walk();
        let node = &mut self.nodes[due.node.get() as usize];
        node.next = self.free;
        self.free = Some(due.node);
        node.event.take()
    }

    /// Asks for the memory of one more event of the tick to come. Its list is a chain of places all over the
    /// array, each known only from the one before: followed at once it would cost a cache miss for each
    /// event.
    #[inline]
    fn walk(&mut self) {
        let Some(node) = self.walker else { return };
        self.walker = self.nodes[node.get() as usize].next;
        if let Some(next) = self.walker {
            memory::soon(&self.nodes[next.get() as usize]);
        }
    }

    /// The event that comes `ahead` places after the next one, if it is in the batch already.
    #[inline]
    pub fn ahead(&self, ahead: usize) -> Option<&E> {
        let due = self.batch.get(self.cursor + ahead)?;
        self.nodes[due.node.get() as usize].event.as_ref()
    }

    /// Makes the batch of the tick that begins then. Out of line, as most looks find a batch or nothing.
    #[inline(never)]
    fn load(&mut self, begin: u64) -> Option<Time> {
        self.batch.clear();
        self.cursor = 0;
        self.batch_end = begin + (1 << self.shift);
        // Those from the heap were inserted before any of the same time on the wheel.
        while let Some(&FarEntry { time, what, .. }) = self.far.peek() {
            if time.as_nanos() >= self.batch_end {
                break;
            }
            self.far.pop();
            let node = match what {
                FarEvent::Small(small) => self.store(time, E::from_small(small)),
                FarEvent::Node(node) => node,
            };
            self.batch.push(Due { time, rank: self.batch.len() as u32, node });
        }
        self.load_slot(self.slot(begin >> self.shift));
        if self.batch.len() > 1 {
            self.batch.sort_unstable_by_key(|due| (due.time, due.rank));
        }
        self.upcoming = self.first_after();
        self.walker = self.upcoming.and_then(|begin| self.heads[self.slot(begin >> self.shift)]);
        if let Some(first) = self.walker {
            memory::soon(&self.nodes[first.get() as usize]);
        }
        self.batch.first().map(|due| due.time)
    }

    fn load_slot(&mut self, slot: usize) {
        let mut rank = u32::MAX;
        let mut next = self.heads[slot].take();
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        // The list has the newest first, so ranks count down.
        while let Some(index) = next {
            let node = &self.nodes[index.get() as usize];
            self.batch.push(Due { time: node.time, rank, node: index });
            rank -= 1;
            next = node.next;
        }
    }

    /// The beginning of the first tick behind the batch that has an event.
    fn first_after(&self) -> Option<u64> {
        let near = self.first_slot_after();
        let far = self.far.peek().map(|far| far.time.as_nanos() >> self.shift << self.shift);
        match (near, far) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn first_slot_after(&self) -> Option<u64> {
        let tick = self.batch_end >> self.shift;
        let first = self.slot(tick);
        let words = self.occupied.len();
        let told = |word: usize, bits: u64| {
            let slot = (word * 64) as u64 + u64::from(bits.trailing_zeros());
            let ticks = slot.wrapping_sub(tick) & (self.slots() - 1);
            Some((tick + ticks) << self.shift)
        };
        let bits = self.occupied[first / 64] & (u64::MAX << (first % 64));
        if bits != 0 {
            return told(first / 64, bits);
        }
        // The word of the first slot comes again last: what of it lies from that slot on is empty.
        for step in 1..=words {
            let word = (first / 64 + step) & (words - 1);
            if self.occupied[word] != 0 {
                return told(word, self.occupied[word]);
            }
        }
        None
    }
}
