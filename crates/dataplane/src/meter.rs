//! What is measured of a direction: totals, distributions, and a row of samples each period.

use rtrb::Producer;
use weir_aqm::Packet;
use weir_config::{Capacity, CapacitySince};
use weir_measure::Settled;
use weir_measure::result::{LinkSample, Phase};
use weir_measure::{Distribution, Octaves, Sampler, Sojourns, Status, Window};
use weir_queue::Counters;
use weir_units::{Bytes, Duration, Rate, Time};

/// How the algorithm of a direction stands, and its moves of the set point that nobody fetched in time.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// How the algorithm stands.
    pub status: Status,
    /// Moves that were lost so far.
    pub moves_lost: u64,
}

/// Frames that were not forwarded as they should, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Shorter than an Ethernet header; dropped.
    pub runt: u64,
    /// IP headers that contradict themselves; forwarded.
    pub malformed: u64,
    /// Longer than the other port's MTU; dropped.
    pub too_long: u64,
    /// No room in the delay line; dropped.
    pub delay_line_full: u64,
    /// Lost behind the queue, as the link is to lose some.
    pub lost_behind_queue: u64,
    /// Held back behind the queue, as the link is to reorder some; forwarded.
    pub reordered: u64,
    /// Waited while the kernel forwarded newer ones in the loop's place; dropped.
    pub stale: u64,
}

/// Measures one direction. Times given are link times.
pub struct Meter {
    measured: Window,
    /// Counters when the measured part began and ended; `None` before.
    edges: [Option<Counters>; 2],
    /// Delivered in the measured part.
    pub delivered: (u64, u64),
    /// Sojourn times in the measured part.
    pub sojourn: Sojourns,
    /// Sojourn times of the whole run, for those who watch it.
    pub delays: Octaves,
    /// How late frames left the delay line.
    pub lateness: Distribution,
    /// Frames that were not forwarded as they should.
    pub faults: Faults,
    /// Packets that came in marked CE.
    pub came_marked: u64,
    sampler: Sampler,
    status: Status,
    /// Moves of the set point that nobody fetched in time.
    moves_lost: u64,
    samples: Producer<LinkSample>,
    samples_lost: u64,
    /// When the run begins, and what the link can carry since the last sample.
    origin: Time,
    capacity: CapacitySince,
}

/// What a queue did in the measured part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// Packets that the algorithm discarded.
    pub drops: u64,
    /// Packets that found no room.
    pub overflows: u64,
    /// Acknowledgements whose place newer ones took.
    pub filtered: u64,
    /// Packets that queue protection sent to the classic queue.
    pub sanctioned: u64,
    /// Packets marked CE.
    pub marks: u64,
}

impl Meter {
    /// A meter that counts totals in the measured part of a run.
    pub fn new(
        origin: Time,
        measured: Window,
        settled: &[Settled],
        capacity: Capacity,
        samples: Producer<LinkSample>,
    ) -> Meter {
        Meter {
            measured,
            edges: [None; 2],
            delivered: (0, 0),
            sojourn: Sojourns::default(),
            delays: Octaves::default(),
            lateness: Distribution::default(),
            faults: Faults::default(),
            came_marked: 0,
            sampler: Sampler::new(origin, settled),
            status: Status::default(),
            moves_lost: 0,
            samples,
            samples_lost: 0,
            origin,
            capacity: CapacitySince::new(capacity, Duration::ZERO),
        }
    }

    /// A packet left the queue; the counters are asked for at the edges of the measured part.
    pub fn departed(
        &mut self,
        at: Time,
        packet: &Packet,
        sojourn: Duration,
        counters: impl FnOnce() -> Counters,
    ) {
        self.sampler.departed(at, packet.len, sojourn);
        self.delays.record(sojourn);
        if self.measured.contains(at) {
            self.edges[0].get_or_insert_with(counters);
            self.delivered.0 += 1;
            self.delivered.1 += packet.len.get();
            self.sojourn.record(packet.ecn, sojourn);
        } else if at >= self.measured.until {
            self.edges[1].get_or_insert_with(counters);
        }
    }

    /// A frame left the delay line.
    pub fn released(&mut self, due: Time, now: Time) {
        if self.measured.contains(now) {
            self.lateness.record(now.since(due));
        }
    }

    /// What the queue did in the measured part.
    pub fn signals(&self, now: &Counters) -> Signals {
        let Some(first) = self.edges[0] else { return Signals::default() };
        let last = self.edges[1].as_ref().unwrap_or(now);
        Signals {
            drops: last.drops() - first.drops(),
            overflows: last.overflows() - first.overflows(),
            filtered: last.filtered - first.filtered,
            sanctioned: last.sanctioned - first.sanctioned,
            marks: last.marked - first.marked,
        }
    }

    /// Set point at the last sample, in milliseconds.
    pub fn setpoint_ms(&self) -> Option<f64> {
        self.status.setpoint.map(Duration::as_millis_f64)
    }

    /// The settled spans that have ended by `now`, on a link that can carry so much.
    pub fn phases(&self, now: Time, capacity: &Capacity) -> Vec<Phase> {
        self.sampler.phases(now, &|from, until| capacity.mean_bps(from, until))
    }

    /// Somebody changes the rate of the link.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.capacity.set_rate(now.since(self.origin), rate);
    }

    /// Rows and moves that nobody fetched in time.
    pub fn lost(&self) -> (u64, u64) {
        (self.samples_lost, self.moves_lost)
    }

    /// Closes a period.
    pub fn sample(&mut self, now: Time, backlog: Bytes, standing: Standing, counters: &Counters) {
        let Standing { status, moves_lost } = standing;
        let capacity = self.capacity.take_mean_bps(now.since(self.origin));
        let row = self.sampler.row(now, backlog, &status, counters, capacity);
        if self.samples.push(row).is_err() {
            self.samples_lost += 1;
        }
        (self.status, self.moves_lost) = (status, moves_lost);
    }
}
