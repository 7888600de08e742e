//! What is measured of a direction: totals, distributions, and a row of samples each period.

use hdrhistogram::Histogram;
use rtrb::Producer;
use weir_queue::Counters;
use weir_scenario::result::{LinkSample, Spread};
use weir_units::{Bytes, Duration, Time};

/// Resolution of the delay distributions.
const TICK_NS: u64 = 100;
/// Longest delay told apart.
const LONGEST_S: u64 = 120;

/// A distribution of times.
pub struct Distribution(Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        let ticks = LONGEST_S * 1_000_000_000 / TICK_NS;
        Distribution(Histogram::new_with_bounds(1, ticks, 3).expect("the bounds are constant and valid"))
    }
}

impl Distribution {
    /// Counts one value; longer ones count as the longest.
    pub fn record(&mut self, d: Duration) {
        self.0.saturating_record(d.as_nanos() / TICK_NS);
    }

    /// Mean and percentiles in milliseconds.
    pub fn spread_ms(&self) -> Spread {
        if self.0.is_empty() {
            return Spread::default();
        }
        let ms = |ticks: f64| ticks * TICK_NS as f64 / 1e6;
        let quantile = |q| ms(self.0.value_at_quantile(q) as f64);
        Spread {
            mean: ms(self.0.mean()),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: ms(self.0.max() as f64),
        }
    }
}

/// How an algorithm stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Set point in force.
    pub setpoint: Option<Duration>,
    /// State of Table I of the AQM Steering paper; 0 without steering.
    pub table_state: u8,
    /// Backlog and rate of the virtual queue while it is in charge.
    pub virtual_queue: Option<(Bytes, weir_units::Rate)>,
    /// Moves of the set point that nobody fetched in time.
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
}

/// The measured part of a run, in link time.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: Time,
    /// Its end, if that is known.
    pub until: Time,
}

impl Window {
    /// Whether `at` lies in it.
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }
}

/// Measures one direction. Times given are link times.
pub struct Meter {
    origin: Time,
    measured: Window,
    /// Counters when the measured part began and ended; `None` before.
    edges: [Option<Counters>; 2],
    /// Delivered in the measured part.
    pub delivered: (u64, u64),
    /// Sojourn times in the measured part.
    pub sojourn: Distribution,
    /// How late frames left the delay line.
    pub lateness: Distribution,
    /// Frames that were not forwarded as they should.
    pub faults: Faults,
    last_counters: Counters,
    last_sample: Time,
    status: Status,
    period: Period,
    samples: Producer<LinkSample>,
    samples_lost: u64,
}

#[derive(Clone, Copy, Default)]
struct Period {
    delay_sum: u64,
    delay_max: u64,
    packets: u64,
}

impl Meter {
    /// A meter that counts totals in the measured part of a run.
    pub fn new(origin: Time, measured: Window, samples: Producer<LinkSample>) -> Meter {
        Meter {
            origin,
            measured,
            edges: [None; 2],
            delivered: (0, 0),
            sojourn: Distribution::default(),
            lateness: Distribution::default(),
            faults: Faults::default(),
            last_counters: Counters::default(),
            last_sample: origin,
            status: Status::default(),
            period: Period::default(),
            samples,
            samples_lost: 0,
        }
    }

    /// A packet left the queue.
    pub fn departed(&mut self, at: Time, len: Bytes, sojourn: Duration, counters: &Counters) {
        self.period.packets += 1;
        self.period.delay_sum += sojourn.as_nanos();
        self.period.delay_max = self.period.delay_max.max(sojourn.as_nanos());
        if self.measured.contains(at) {
            self.edges[0].get_or_insert(*counters);
            self.delivered.0 += 1;
            self.delivered.1 += len.get();
            self.sojourn.record(sojourn);
        } else if at >= self.measured.until {
            self.edges[1].get_or_insert(*counters);
        }
    }

    /// A frame left the delay line.
    pub fn released(&mut self, due: Time, now: Time) {
        if self.measured.contains(now) {
            self.lateness.record(now.since(due));
        }
    }

    /// Drops, overflows and marks of the measured part.
    pub fn signals(&self, now: &Counters) -> (u64, u64, u64) {
        let Some(first) = self.edges[0] else { return (0, 0, 0) };
        let last = self.edges[1].as_ref().unwrap_or(now);
        (last.drops() - first.drops(), last.overflowed - first.overflowed, last.marked - first.marked)
    }

    /// Set point at the last sample, in milliseconds.
    pub fn setpoint_ms(&self) -> Option<f64> {
        self.status.setpoint.map(Duration::as_millis_f64)
    }

    /// Rows and moves that nobody fetched in time.
    pub fn lost(&self) -> (u64, u64) {
        (self.samples_lost, self.status.moves_lost)
    }

    /// Closes a period.
    pub fn sample(&mut self, now: Time, backlog: Bytes, status: Status, counters: &Counters) {
        let span = now.since(self.last_sample).as_secs_f64().max(1e-9);
        let before = self.last_counters;
        let rate = |after: u64, before: u64| (after - before) as f64 * 8.0 / span;
        let (virtual_backlog, virtual_rate) = status.virtual_queue.unwrap_or_default();
        let row = LinkSample {
            t_s: now.since(self.origin).as_secs_f64(),
            arrived_bps: rate(counters.arrived_bytes, before.arrived_bytes),
            delivered_bps: rate(counters.dequeued_bytes, before.dequeued_bytes),
            delay_mean_ms: self.period.delay_sum as f64 / self.period.packets.max(1) as f64 / 1e6,
            delay_max_ms: self.period.delay_max as f64 / 1e6,
            backlog_bytes: backlog.get(),
            setpoint_ms: status.setpoint.map_or(f64::NAN, |d| d.as_millis_f64()),
            drops: counters.drops() - before.drops(),
            overflows: counters.overflowed - before.overflowed,
            marks: counters.marked - before.marked,
            table_state: status.table_state,
            virtual_backlog_bytes: virtual_backlog.get(),
            virtual_rate_bps: virtual_rate.as_bps_f64(),
        };
        if self.samples.push(row).is_err() {
            self.samples_lost += 1;
        }
        self.status = status;
        self.period = Period::default();
        self.last_counters = *counters;
        self.last_sample = now;
    }
}
