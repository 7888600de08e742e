//! A row of samples of a link each period, the same in every arm.

use crate::phases::{CapacityBetween, Phases, Settled};
use crate::result::{LinkSample, Phase};
use weir_queue::Counters;
use weir_steer::{Helm, Observer, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

/// How an algorithm stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Set point in force.
    pub setpoint: Option<Duration>,
    /// State of Table I of the AQM Steering paper; 0 without steering.
    pub table_state: u8,
    /// Backlog and rate of the virtual queue while it is in charge.
    pub virtual_queue: Option<(Bytes, Rate)>,
    /// How long the virtual queue was empty while it was in charge, since the start of the run.
    pub virtual_empty_for: Duration,
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
            virtual_empty_for: helm.virtual_empty_for(),
        }
    }
}

/// Makes the rows of a link's sample table, and measures the settled spans of a run.
pub struct Sampler {
    /// Rows tell the time since then.
    origin: Time,
    last: Time,
    before: Counters,
    virtual_empty_before: Duration,
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
            virtual_empty_before: Duration::ZERO,
            period: Period::default(),
            phases: Phases::new(origin, settled),
        }
    }

    /// The settled spans that have ended by `now`, on a link that has this capacity between two moments.
    pub fn phases(&self, now: Time, capacity: CapacityBetween<'_>) -> Vec<Phase> {
        self.phases.ended(now, capacity)
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

    /// Closes a period, in which the link had this mean capacity in bit/s, if it has a rate.
    pub fn row(
        &mut self,
        now: Time,
        backlog: Bytes,
        status: &Status,
        counters: &Counters,
        capacity_bps: Option<f64>,
    ) -> LinkSample {
        let span = now.since(self.last).as_secs_f64().max(1e-9);
        let (before, period) = (self.before, self.period);
        let rate = |after: u64, before: u64| (after - before) as f64 * 8.0 / span;
        let (virtual_backlog, virtual_rate) = status.virtual_queue.unwrap_or_default();
        let empty_s = status.virtual_empty_for.saturating_sub(self.virtual_empty_before).as_secs_f64();
        self.virtual_empty_before = status.virtual_empty_for;
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
            virtual_empty: (empty_s / span).min(1.0),
            capacity_bps: capacity_bps.unwrap_or(f64::NAN),
        }
    }
}
