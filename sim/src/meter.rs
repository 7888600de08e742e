//! What is measured of a link: totals, distributions, and a row of samples each period.
//!
//! Definitions are those of the live links: the measured part is from the end of the warm-up to the end of the
//! run, a packet belongs to the moment at which its transmission begins, and delays have the same resolution.

use crate::discipline::{LinkQueue, Status};
use hdrhistogram::Histogram;
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
    #[inline]
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

/// The measured part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub until: Time,
}

impl Window {
    /// Whether `at` lies in it.
    #[inline]
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        self.until.since(self.from)
    }
}

/// Measures one link.
pub struct Meter {
    window: Window,
    /// Counters when the measured part began and ended; `None` before.
    edges: [Option<Counters>; 2],
    packets: u64,
    bytes: u64,
    sojourn: Distribution,
    period: Period,
    last_counters: Counters,
    last_sample: Time,
    samples: Vec<LinkSample>,
}

#[derive(Clone, Copy, Default)]
struct Period {
    delay_sum: u64,
    delay_max: u64,
    packets: u64,
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
    /// Packets marked CE.
    pub marks: u64,
}

impl Meter {
    /// A meter with room for `rows` samples.
    pub fn new(window: Window, rows: usize) -> Meter {
        Meter {
            window,
            edges: [None; 2],
            packets: 0,
            bytes: 0,
            sojourn: Distribution::default(),
            period: Period::default(),
            last_counters: Counters::default(),
            last_sample: Time::ZERO,
            samples: Vec::with_capacity(rows),
        }
    }

    /// A packet's transmission begins.
    #[inline]
    pub fn departed(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        self.period.packets += 1;
        self.period.delay_sum += sojourn.as_nanos();
        self.period.delay_max = self.period.delay_max.max(sojourn.as_nanos());
        if self.window.contains(at) {
            self.packets += 1;
            self.bytes += len.get();
            self.sojourn.record(sojourn);
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
            overflows: last.overflowed - first.overflowed,
            marks: last.marked - first.marked,
        }
    }

    /// Sojourn times in the measured part.
    pub fn sojourn(&self) -> &Distribution {
        &self.sojourn
    }

    /// The rows so far.
    pub fn samples(&self) -> &[LinkSample] {
        &self.samples
    }

    /// The run ends: the last period, and the measured part where it has not ended yet.
    pub fn completes(&mut self, now: Time, queue: &mut dyn LinkQueue) {
        if now > self.last_sample {
            self.sample(now, queue);
        }
        let counters = *queue.counters();
        self.edges[1].get_or_insert(counters);
    }

    /// Closes a period.
    pub fn sample(&mut self, now: Time, queue: &mut dyn LinkQueue) {
        let status = queue.status(now);
        let counters = *queue.counters();
        let row = self.row(now, queue.backlog(), status, &counters);
        self.samples.push(row);
        self.period = Period::default();
        self.last_counters = counters;
        self.last_sample = now;
    }

    fn row(&self, now: Time, backlog: Bytes, status: Status, counters: &Counters) -> LinkSample {
        let span = now.since(self.last_sample).as_secs_f64().max(1e-9);
        let before = &self.last_counters;
        let rate = |after: u64, before: u64| (after - before) as f64 * 8.0 / span;
        let (virtual_backlog, virtual_rate) = status.virtual_queue.unwrap_or_default();
        LinkSample {
            t_s: now.as_secs_f64(),
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
        }
    }
}
