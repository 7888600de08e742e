//! What is measured of a link: totals, distributions, and a row of samples each period.
//!
//! Definitions are those of the live links: the measured part is from the end of the warm-up to the end of
//! the run, a packet belongs to the moment at which its transmission begins, and delays have the same
//! resolution.

use crate::discipline::LinkQueue;
use weir_config::Capacity;
use weir_measure::Settled;
use weir_measure::result::{LinkSample, Phase};
use weir_measure::{Sampler, Sojourns, Window};
use weir_queue::Counters;
use weir_units::{Bytes, Duration, Ecn, Time};

/// Measures one link.
pub struct LinkMeter {
    window: Window,
    /// Counters when the measured part began and ended; `None` before.
    edges: [Option<Counters>; 2],
    packets: u64,
    bytes: u64,
    sojourn: Sojourns,
    sampler: Sampler,
    samples: Vec<LinkSample>,
    capacity: Capacity,
}

/// Totals of the measured part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets whose transmission began.
    pub packets: u64,
    /// Their bytes, by the link's accounting.
    pub bytes: u64,
    /// Packets that the algorithm discarded.
    pub drops: u64,
    /// Packets for which there was no room.
    pub overflows: u64,
    /// Acknowledgements whose place newer ones took.
    pub filtered: u64,
    /// Packets that queue protection sent to the classic queue.
    pub sanctioned: u64,
    /// Packets marked CE.
    pub marks: u64,
}

impl LinkMeter {
    /// A meter with room for `rows` samples; of `many` links one that takes memory when it needs it.
    pub fn new(
        window: Window,
        settled: &[Settled],
        capacity: Capacity,
        rows: usize,
        many: bool,
    ) -> LinkMeter {
        LinkMeter {
            window,
            edges: [None; 2],
            packets: 0,
            bytes: 0,
            sojourn: if many { Sojourns::growing() } else { Sojourns::default() },
            sampler: Sampler::new(Time::ZERO, settled),
            samples: Vec::with_capacity(rows),
            capacity,
        }
    }

    /// The transmission of a packet begins that came with this ECN field.
    #[inline]
    pub fn departed(&mut self, at: Time, len: Bytes, ecn: Ecn, sojourn: Duration) {
        self.sampler.departed(at, len, sojourn);
        if self.window.contains(at) {
            self.packets += 1;
            self.bytes += len.get();
            self.sojourn.record(ecn, sojourn);
        }
    }

    /// The measured part begins.
    pub fn begins(&mut self, counters: &Counters) {
        self.edges[0] = Some(*counters);
    }

    /// The measured part ends.
    pub fn ends(&mut self, counters: &Counters) {
        self.edges[1] = Some(*counters);
    }

    /// Totals of the measured part, if it has begun.
    pub fn totals(&self) -> Totals {
        let [Some(first), Some(last)] = &self.edges else { return Totals::default() };
        Totals {
            packets: self.packets,
            bytes: self.bytes,
            drops: last.drops() - first.drops(),
            overflows: last.overflows() - first.overflows(),
            filtered: last.filtered - first.filtered,
            sanctioned: last.sanctioned - first.sanctioned,
            marks: last.marked - first.marked,
        }
    }

    /// Sojourn times in the measured part.
    pub fn sojourn(&self) -> &Sojourns {
        &self.sojourn
    }

    /// The settled spans that have ended by `now`.
    pub fn phases(&self, now: Time) -> Vec<Phase> {
        self.sampler.phases(now, &|from, until| self.capacity.mean_bps(from, until))
    }

    /// The mean capacity in a part of the run, in bit/s; none without a rate.
    pub fn capacity_bps(&self, part: Window) -> Option<f64> {
        mean_between(&self.capacity, part.from, part.until)
    }

    /// The rows so far.
    pub fn samples(&self) -> &[LinkSample] {
        &self.samples
    }

    /// The run ends: the last period, and the measured part where it has not ended yet.
    pub fn completes(&mut self, now: Time, queue: &mut dyn LinkQueue) {
        if now > self.sampler.last() {
            self.sample(now, queue);
        }
        let counters = *queue.counters();
        self.edges[1].get_or_insert(counters);
    }

    /// Closes a period.
    pub fn sample(&mut self, now: Time, queue: &mut dyn LinkQueue) {
        let status = queue.status(now);
        let capacity = mean_between(&self.capacity, self.sampler.last(), now);
        let row = self.sampler.row(now, queue.backlog(), &status, queue.counters(), capacity);
        self.samples.push(row);
    }
}

fn mean_between(capacity: &Capacity, from: Time, until: Time) -> Option<f64> {
    capacity.mean_bps(from.since(Time::ZERO), until.since(Time::ZERO))
}
