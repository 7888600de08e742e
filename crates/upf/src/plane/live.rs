//! A session in the packet path.

use super::classify::layout::Program;
use super::classify::rule_slots::FlowKey;
use crate::rules::{Bounds, Measured, Meter, PerDirection, Usage};
use weir_queue::{Counters, Shaper};
use weir_units::{Bytes, Duration, Time};

/// A queue of a session. All that it needs for packets is in its place among those in use, which it has only
/// while there are some.
#[derive(Clone, Copy, Default)]
pub struct Line {
    /// Its place among those in use.
    pub place: Option<u32>,
    /// What was done in places that it has no more, or in none.
    pub past: Past,
    /// Packets that need not wait since its place, or whoever asks how long they waited, was told last.
    pub passed: u64,
}

impl Line {
    /// A packet need not wait, and its algorithm is not asked.
    #[inline]
    pub fn note_passed(&mut self, len: Bytes) {
        self.past.packets += 1;
        self.past.bytes += len.get();
        self.passed += 1;
    }
}

/// What a queue has done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Past {
    /// Packets that left it.
    pub packets: u64,
    /// Packets that were discarded.
    pub dropped: u64,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that were marked.
    pub marked: u64,
}

impl Past {
    /// With what was counted since.
    pub fn plus(&self, c: &Counters) -> Past {
        Past {
            packets: self.packets + c.dequeued,
            bytes: self.bytes + c.dequeued_bytes,
            dropped: self.dropped + c.drops() + c.overflows(),
            marked: self.marked + c.marked,
        }
    }
}

/// What a meter has counted.
#[derive(Clone, Copy, Default)]
pub struct Count {
    /// Whose it is.
    pub urr: Option<u32>,
    /// Packets that were forwarded.
    pub packets: PerDirection<u64>,
    /// Their bytes.
    pub bytes: PerDirection<u64>,
    /// When it is told, and when it stops.
    pub bounds: Bounds,
    /// Whether these bounds were told.
    pub is_told: bool,
}

impl Count {
    /// One packet more.
    pub fn add(&mut self, is_up: bool, len: Bytes) {
        *self.packets.of(is_up) += 1;
        *self.bytes.of(is_up) += len.get();
    }

    /// Whether its bounds are reached and were not told; they are told then.
    pub fn is_due(&mut self) -> bool {
        let has_begun = self.packets.up + self.packets.down > 0;
        let reached = self.bounds.tell.are_reached(self.bytes) || (self.bounds.first && has_begun);
        let is_due = reached && !self.is_told;
        self.is_told |= is_due;
        is_due
    }
}

impl Usage {
    /// A packet is forwarded.
    #[inline]
    pub(super) fn note_forwarded(&mut self, is_up: bool, len: Bytes) {
        *self.packets.of(is_up) += 1;
        *self.bytes.of(is_up) += len.get();
    }
}

/// A bottleneck behind the base station, and what is known of it.
#[derive(Clone, Copy)]
pub struct FollowedPath {
    /// Whose packets pass it.
    pub key: FlowKey,
    /// What learns of it.
    pub learner: Option<u32>,
    /// The rate that it allows, where that is known.
    pub shaper: Option<Shaper>,
}

/// See the [module documentation](self).
pub struct Live {
    /// Its rules.
    pub program: Program,
    /// Its queues, by place.
    pub lines: Box<[Line]>,
    /// Its rates, by place.
    pub limits: Box<[Shaper]>,
    /// Its bottlenecks behind the base station, by number.
    pub paths: Box<[FollowedPath]>,
    /// What it has done.
    pub usage: Usage,
    /// What its meters have counted, by place.
    pub counts: Box<[Count]>,
    /// Number of the rules, which no others ever bear.
    pub serial: u64,
    /// Packets that wait, to the user equipment and from it.
    pub waiting: [u32; 2],
    /// When a packet came last.
    pub active: Time,
    /// When the next may leave, to the user equipment and from it; `None` while none waits for its time.
    pub due: [Option<Time>; 2],
    /// Whether it was told that none comes any more.
    pub told_inactive: bool,
    /// When it was told last that packets wait for its rules to change.
    pub told_waiting: Option<Time>,
    /// How many do, as far as they are counted among those of all sessions.
    pub parked: u32,
}

impl Live {
    /// A session without packets, with bottlenecks of which nothing is known.
    pub fn new(program: Program, paths: &[FlowKey], meters: &[Meter], catch_up: Duration) -> Live {
        let limits = program.limits.iter().map(|plan| Shaper::new(plan.rate, catch_up)).collect();
        let lines = program.queues.iter().map(|_| Line::default()).collect();
        Live {
            program,
            lines,
            limits,
            paths: paths.iter().map(|key| FollowedPath { key: *key, learner: None, shaper: None }).collect(),
            usage: Usage::default(),
            counts: meters.iter().map(|meter| Count { urr: meter.urr, ..Count::default() }).collect(),
            serial: 0,
            waiting: [0; 2],
            active: Time::ZERO,
            due: [None; 2],
            told_inactive: false,
            told_waiting: None,
            parked: 0,
        }
    }

    /// Takes over what goes on of the session that it replaces. What does not is left there.
    pub fn succeed(&mut self, former: &mut Live) {
        for (at, plan) in self.program.queues.iter().enumerate().filter(|(_, plan)| plan.is_kept) {
            std::mem::swap(&mut self.lines[at], &mut former.lines[at]);
            debug_assert!(plan.is_kept);
        }
        for (at, plan) in self.program.limits.iter().enumerate().filter(|(_, plan)| plan.is_kept) {
            self.limits[at] = former.limits[at];
            self.limits[at].set_rate(plan.rate);
        }
        for path in &mut self.paths {
            let Some(former) = former.paths.iter_mut().find(|former| former.key == path.key) else {
                continue;
            };
            (path.learner, path.shaper) = (former.learner.take(), former.shaper.take());
        }
        (self.usage, self.active) = (former.usage, former.active);
        (self.waiting, self.parked) = (former.waiting, former.parked);
        for (count, former) in self.counts.iter_mut().zip(&former.counts) {
            if count.urr == former.urr {
                *count = *former;
            }
        }
    }

    /// What its meters have counted.
    pub fn measured(&self) -> impl Iterator<Item = Measured> {
        let of = |(place, count): (usize, &Count)| {
            let Count { packets, bytes, .. } = *count;
            Measured { place: place as u8, packets, bytes }
        };
        self.counts.iter().enumerate().map(of)
    }

    /// Memory that it takes while no packets wait.
    pub fn bytes(&self) -> usize {
        let lists = size_of_val(&*self.lines) + size_of_val(&*self.limits) + size_of_val(&*self.counts);
        let lists = lists + size_of_val(&*self.paths);
        size_of::<Live>() - size_of::<Program>() + self.program.bytes() + lists
    }
}
