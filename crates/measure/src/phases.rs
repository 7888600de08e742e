//! The spans of a run in which the number of flows and the rate of a link stay, and how it stood in each.
//!
//! When flows start or stop, or the rate changes, a queue needs a while to follow, and TCP longer. A mean
//! over the whole run mixes both; the later half of each span says how it settled.

use crate::distribution::Distribution;
use crate::result::Phase;
use weir_units::{Bytes, Duration, Time};

/// The later half of a span in which no group of flows starts or stops and the rate stays. Times count from
/// the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    from: Duration,
    until: Duration,
    flows: u32,
}

impl Settled {
    /// The later half of the span from `from` to `until`, in which so many flows send. Times count from the
    /// start of the run.
    pub fn of_span(from: Duration, until: Duration, flows: u32) -> Settled {
        let half = Duration::from_nanos((until - from).as_nanos() / 2);
        Settled { from: until - half, until, flows }
    }

    /// How many flows send in it.
    pub fn flows(&self) -> u32 {
        self.flows
    }
}

/// The mean capacity of a link between two moments after the start of the run, in bit/s; none without a rate.
pub type CapacityBetween<'a> = &'a dyn Fn(Duration, Duration) -> Option<f64>;

/// Delivered rate divided by the capacity; 0 where there is none.
pub fn utilization(delivered_bps: f64, capacity_bps: Option<f64>) -> f64 {
    capacity_bps.filter(|capacity| *capacity > 0.0).map_or(0.0, |capacity| delivered_bps / capacity)
}

/// What left a link in each settled span.
#[derive(Default)]
pub struct Phases {
    origin: Time,
    spans: Vec<(Settled, u64, Distribution)>,
    /// The span that is or comes next, and when it begins; without one, never.
    at: usize,
    begins: Option<Time>,
}

impl Phases {
    /// Measures these spans of a run that began at `origin`.
    pub fn new(origin: Time, settled: &[Settled]) -> Phases {
        let spans = settled.iter().map(|span| (*span, 0, Distribution::default())).collect();
        let mut phases = Phases { origin, spans, at: 0, begins: None };
        phases.begins = phases.beginning();
        phases
    }

    fn beginning(&self) -> Option<Time> {
        self.spans.get(self.at).map(|(span, ..)| self.origin + span.from)
    }

    /// A packet left the queue after this sojourn time. Times do not decrease.
    #[inline]
    pub fn departed(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        if self.begins.is_some_and(|begins| at >= begins) {
            self.departed_within(at, len, sojourn);
        }
    }

    #[inline(never)]
    fn departed_within(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        while let Some((span, bytes, sojourns)) = self.spans.get_mut(self.at) {
            if at < self.origin + span.until {
                if at >= self.origin + span.from {
                    *bytes += len.get();
                    sojourns.record(sojourn);
                }
                break;
            }
            self.at += 1;
        }
        self.begins = self.beginning();
    }

    /// The spans that have ended by `now`, on a link that has this capacity; none without one.
    pub fn ended(&self, now: Time, capacity: CapacityBetween<'_>) -> Vec<Phase> {
        let ended = self.spans.iter().filter(|(span, ..)| self.origin + span.until <= now);
        let phase = |(span, bytes, sojourns): &(Settled, u64, Distribution)| {
            let delay = sojourns.spread_ms();
            let seconds = (span.until - span.from).as_secs_f64();
            let capacity_bps = capacity(span.from, span.until)?;
            Some(Phase {
                from_s: span.from.as_secs_f64(),
                to_s: span.until.as_secs_f64(),
                flows: span.flows,
                utilization: utilization(*bytes as f64 * 8.0 / seconds, Some(capacity_bps)),
                delay_mean_ms: delay.mean,
                delay_p95_ms: delay.p95,
            })
        };
        ended.filter_map(phase).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows all the time, and seven more from 4 to 6 s.
    fn settled() -> Vec<Settled> {
        let seconds = Duration::from_secs;
        let spans = [(0, 4, 2), (4, 6, 9), (6, 8, 2)];
        spans.map(|(from, until, flows)| Settled::of_span(seconds(from), seconds(until), flows)).to_vec()
    }

    const ORIGIN: Time = Time::from_nanos(5_000_000_000);
    const RATE: CapacityBetween<'static> = &|_, _| Some(8000.0);

    /// A packet of so many bytes each second, at the middle of it, each a millisecond longer in the queue.
    fn measured(bytes: &[u64]) -> Phases {
        let mut phases = Phases::new(ORIGIN, &settled());
        for (second, bytes) in bytes.iter().enumerate() {
            let at = ORIGIN + Duration::from_millis(1000 * second as u64 + 500);
            phases.departed(at, Bytes::new(*bytes), Duration::from_millis(second as u64));
        }
        phases
    }

    #[test]
    fn the_later_half_of_each_span_is_told() {
        let phases = measured(&[0, 0, 500, 1000, 0, 1000, 0, 250]);
        let phase = |from_s, to_s, flows, utilization, delay_mean_ms, delay_p95_ms| Phase {
            from_s,
            to_s,
            flows,
            utilization,
            delay_mean_ms,
            delay_p95_ms,
        };
        let expected = [
            phase(2.0, 4.0, 2, 0.75, 2.5, 3.0),
            phase(5.0, 6.0, 9, 1.0, 5.0, 5.0),
            phase(7.0, 8.0, 2, 0.25, 7.0, 7.0),
        ];
        let rounded = |mut phase: Phase| {
            phase.delay_mean_ms = (phase.delay_mean_ms * 10.0).round() / 10.0;
            phase.delay_p95_ms = (phase.delay_p95_ms * 10.0).round() / 10.0;
            phase
        };
        let end = ORIGIN + Duration::from_secs(8);
        assert_eq!(phases.ended(end, RATE).into_iter().map(rounded).collect::<Vec<_>>(), expected);
        assert!(phases.ended(end, &|_, _| None).is_empty(), "a link without a rate has no utilization");
    }

    #[test]
    fn an_interrupted_run_has_the_phases_it_came_to() {
        assert_eq!(measured(&[1000; 5]).ended(ORIGIN + Duration::from_millis(5500), RATE).len(), 1);
    }
}
