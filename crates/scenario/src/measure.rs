//! What is measured of a link, the same in every arm: distributions of times, the measured part, and a row of
//! samples each period.

use crate::phases::{Phases, Settled};
use crate::result::{ByClass, LinkSample, Phase, Spread};
use hdrhistogram::Histogram;
use weir_queue::Counters;
use weir_steer::{Helm, Observer, SteeringLaw};
use weir_units::{Bytes, Duration, Ecn, Rate, Time};

/// Resolution of the distributions.
const TICK_NS: u64 = 100;
/// Longest time told apart.
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

/// Sojourn times of a link, of low-latency and of classic traffic apart (RFC 9331).
#[derive(Default)]
pub struct Sojourns {
    low_latency: Distribution,
    classic: Distribution,
    /// Whether a packet came with ECT(1); before, CE tells nothing of L4S.
    is_l4s_there: bool,
}

impl Sojourns {
    /// Counts a packet that came with this ECN field.
    #[inline]
    pub fn record(&mut self, ecn: Ecn, d: Duration) {
        self.is_l4s_there |= ecn == Ecn::Ect1;
        if ecn.is_low_latency() { self.low_latency.record(d) } else { self.classic.record(d) }
    }

    /// Of all packets, in milliseconds.
    pub fn spread_ms(&self) -> Spread {
        let mut all = Distribution::default();
        for part in [&self.low_latency, &self.classic] {
            all.0.add(&part.0).expect("both have the same bounds");
        }
        all.spread_ms()
    }

    /// Of each kind, where there was low-latency traffic.
    pub fn by_class_ms(&self) -> Option<ByClass> {
        let by_class =
            || ByClass { low_latency: self.low_latency.spread_ms(), classic: self.classic.spread_ms() };
        self.is_l4s_there.then(by_class)
    }
}

/// The measured part of a run, in the link's time: from the end of the warm-up to the end of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: Time,
    /// Its end, as far as it is known.
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

/// How an algorithm stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Set point in force.
    pub setpoint: Option<Duration>,
    /// State of Table I of the AQM Steering paper; 0 without steering.
    pub table_state: u8,
    /// Backlog and rate of the virtual queue while it is in charge.
    pub virtual_queue: Option<(Bytes, Rate)>,
}

impl Status {
    /// Of an algorithm that is not steered.
    pub fn plain(setpoint: Option<Duration>) -> Status {
        Status { setpoint, ..Status::default() }
    }

    /// Of a steered one.
    pub fn steered<O: Observer>(helm: &Helm<SteeringLaw, O>, now: Time) -> Status {
        Status {
            setpoint: Some(helm.setpoint_now()),
            table_state: helm.table_state(now) as u8,
            virtual_queue: helm.virtual_queue(),
        }
    }
}

/// Makes the rows of a link's sample table, and measures the settled spans of a run.
pub struct Sampler {
    /// Rows tell the time since then.
    origin: Time,
    last: Time,
    before: Counters,
    period: Period,
    phases: Phases,
}

#[derive(Clone, Copy, Debug, Default)]
struct Period {
    delay_sum: u64,
    delay_max: u64,
    packets: u64,
}

impl Sampler {
    /// The run and its first period begin at `origin`.
    pub fn new(origin: Time, settled: &[Settled]) -> Sampler {
        Sampler {
            origin,
            last: origin,
            before: Counters::default(),
            period: Period::default(),
            phases: Phases::new(origin, settled),
        }
    }

    /// The settled spans that have ended by `now`, on a link of this rate.
    pub fn phases(&self, now: Time, rate: Option<Rate>) -> Vec<Phase> {
        self.phases.ended(now, rate)
    }

    /// When the last period ended.
    pub fn last(&self) -> Time {
        self.last
    }

    /// A packet left the queue.
    #[inline]
    pub fn departed(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        self.phases.departed(at, len, sojourn);
        self.period.packets += 1;
        self.period.delay_sum += sojourn.as_nanos();
        self.period.delay_max = self.period.delay_max.max(sojourn.as_nanos());
    }

    /// Closes a period.
    pub fn row(&mut self, now: Time, backlog: Bytes, status: &Status, counters: &Counters) -> LinkSample {
        let span = now.since(self.last).as_secs_f64().max(1e-9);
        let (before, period) = (self.before, self.period);
        let rate = |after: u64, before: u64| (after - before) as f64 * 8.0 / span;
        let (virtual_backlog, virtual_rate) = status.virtual_queue.unwrap_or_default();
        (self.last, self.before, self.period) = (now, *counters, Period::default());
        LinkSample {
            t_s: now.since(self.origin).as_secs_f64(),
            arrived_bps: rate(counters.arrived_bytes, before.arrived_bytes),
            delivered_bps: rate(counters.dequeued_bytes, before.dequeued_bytes),
            delay_mean_ms: period.delay_sum as f64 / period.packets.max(1) as f64 / 1e6,
            delay_max_ms: period.delay_max as f64 / 1e6,
            backlog_bytes: backlog.get(),
            setpoint_ms: status.setpoint.map_or(f64::NAN, |d| d.as_millis_f64()),
            drops: counters.drops() - before.drops(),
            overflows: counters.overflows() - before.overflows(),
            marks: counters.marked - before.marked,
            table_state: status.table_state,
            virtual_backlog_bytes: virtual_backlog.get(),
            virtual_rate_bps: virtual_rate.as_bps_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_told_apart_once_one_packet_is_of_l4s() {
        let mut sojourns = Sojourns::default();
        let ms = Duration::from_millis;
        for (ecn, delay) in [(Ecn::Ect0, 10), (Ecn::Ce, 2), (Ecn::NotEct, 30)] {
            sojourns.record(ecn, ms(delay));
        }
        // A mark alone tells nothing of what the packet was.
        assert_eq!(sojourns.by_class_ms(), None);
        sojourns.record(Ecn::Ect1, ms(4));
        let by_class = sojourns.by_class_ms().unwrap();
        let near = |value: f64, wanted: f64| (value - wanted).abs() < 0.02 * wanted;
        assert!(near(by_class.low_latency.mean, 3.0) && near(by_class.classic.mean, 20.0), "{by_class:?}");
        assert!(near(sojourns.spread_ms().mean, 11.5) && near(sojourns.spread_ms().max, 30.0));
    }
}
