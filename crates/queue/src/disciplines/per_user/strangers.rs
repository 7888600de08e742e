//! Users for whom there is no place: they share one queue, which takes its turn like a user.
//!
//! Who sent one packet may be somebody who scans addresses; who sent more talks. A newcomer therefore takes
//! the place of somebody who sent one packet, else waits in the shared queue, and with the second packet
//! takes the place of somebody who sent little and has been silent for long enough. What it has in the shared
//! queue by then goes out before what waits in its place, so that no flow is reordered.

use super::table::Table;
use std::collections::VecDeque;
use weir_units::{Duration, Time};

/// Newcomers that are remembered; with more at once some count as new again with their second packet.
const REMEMBERED: usize = 1024;
/// Most users whose place waits for what they have in the shared queue; others stay there for now.
const HELD_MAX: usize = 256;
/// Packets after which a place is kept for all of `idle`; who sent fewer keeps it for a part of that.
const TALK: u32 = 64;

/// What is known of the newcomers of one hash value.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Who came last.
    key: u32,
    /// Number of the last packet in the shared queue of any of them.
    last: u64,
}

/// Those without a place.
pub(super) struct Strangers {
    seen: Box<[Seen]>,
    /// Packets that were ever stored in the shared queue.
    stored: u64,
    /// Places whose packets wait until so many have left the shared queue, in this order.
    held: VecDeque<(u64, u32)>,
}

/// What a newcomer is to those without a place.
#[derive(Clone, Copy)]
pub(super) struct Newcomer {
    slot: usize,
    /// Whether it was seen before.
    pub is_known: bool,
    /// Whether something that may be its own waits in the shared queue.
    pub waits: bool,
}

impl Strangers {
    pub fn new() -> Strangers {
        let seen = vec![Seen::default(); REMEMBERED].into();
        Strangers { seen, stored: 0, held: VecDeque::with_capacity(HELD_MAX) }
    }

    /// Who comes, while so many packets wait in the shared queue.
    pub fn look(&self, table: &Table, key: u32, waiting: u32) -> Newcomer {
        let slot = table.hash(key) as usize % REMEMBERED;
        let Seen { key: before, last } = self.seen[slot];
        Newcomer { slot, is_known: before == key, waits: last > self.stored - u64::from(waiting) }
    }

    /// Notes who came, or lost a place after one packet.
    pub fn remember(&mut self, newcomer: Newcomer, key: u32) {
        self.seen[newcomer.slot].key = key;
    }

    /// A packet of a newcomer is about to be stored in the shared queue, behind so many.
    pub fn stored(&mut self, newcomer: Newcomer) {
        self.stored += 1;
        self.seen[newcomer.slot].last = self.stored;
    }

    /// Whether one more place can wait for the shared queue.
    pub fn can_hold(&self) -> bool {
        self.held.len() < HELD_MAX
    }

    /// What is stored in a place waits until all that is in the shared queue now has left.
    pub fn hold(&mut self, at: usize) {
        self.held.push_back((self.stored, at as u32));
    }

    /// Whether a place waits for the shared queue.
    pub fn holds(&self, at: usize) -> bool {
        self.held.iter().any(|(_, held)| *held as usize == at)
    }

    /// A place that need not wait any more, with so many packets left in the shared queue.
    pub fn release(&mut self, waiting: u32) -> Option<usize> {
        let left = self.stored - u64::from(waiting);
        self.held.front().filter(|(until, _)| *until <= left)?;
        self.held.pop_front().map(|(_, at)| at as usize)
    }
}

/// How a user stands who has a place and no packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Sent one packet, or was idle for so long that its past does not count.
    Spare,
    /// Sent so many, and was silent for longer than that keeps a place.
    Silent(u32),
}

/// How somebody stands who sent so many packets, the last so long ago; `None` for who keeps the place.
pub(super) fn standing(sent: u32, now: Time, active: Time, idle: Duration) -> Option<Standing> {
    let silent = now.since(active);
    if sent <= 1 || silent >= idle {
        return Some(Standing::Spare);
    }
    let kept = idle.as_nanos() / u64::from(TALK) * u64::from(sent - 1);
    (silent.as_nanos() >= kept).then_some(Standing::Silent(sent))
}
