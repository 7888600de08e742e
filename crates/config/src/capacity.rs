//! What a link can carry over time: a rate, rates that change in steps, or the opportunities of a trace.

use crate::network::NetworkLink;
use crate::trace::{OPPORTUNITY, Trace};
use crate::variation::Variation;
use weir_units::{Duration, Rate};

/// What a link can carry over time. Times count from the start of the run. Of a link that shares a medium it
/// is what it can carry while the others are silent.
#[derive(Clone, PartialEq, Debug)]
pub struct Capacity(Carries);

#[derive(Clone, PartialEq, Debug)]
enum Carries {
    /// Whatever comes.
    All,
    /// As much at any time.
    Rate(Rate),
    /// Rates in order of time, each from a moment on; the first one from the start on.
    Steps(Vec<(Duration, Rate)>),
    Trace(Trace),
}

impl Capacity {
    /// Of a link of `rate`, or without one as fast as packets come, that varies so.
    pub fn new(rate: Option<Rate>, variation: &Variation) -> Capacity {
        let steps = variation.steps.iter().map(|step| (step.at, step.rate));
        Capacity(match (variation.trace(), rate) {
            (Some(trace), _) => Carries::Trace(trace.clone()),
            (None, None) => Carries::All,
            (None, Some(rate)) if variation.steps.is_empty() => Carries::Rate(rate),
            (None, Some(rate)) => {
                Carries::Steps(std::iter::once((Duration::ZERO, rate)).chain(steps).collect())
            }
        })
    }

    /// Of each of these links: steps are those of the first link of a medium, and a class of a shaper has no
    /// more than its ceiling.
    pub fn of_links(links: &[NetworkLink]) -> Vec<Capacity> {
        let of = |link: &NetworkLink| {
            let rate = (link.rate > Rate::ZERO).then_some(link.rate);
            Capacity::new(rate, &links[link.medium].variation)
        };
        links.iter().map(of).collect()
    }

    /// When the rate changes by a step.
    pub fn changes(&self) -> impl Iterator<Item = Duration> {
        let rates = match &self.0 {
            Carries::Steps(rates) => rates.as_slice(),
            Carries::All | Carries::Rate(_) | Carries::Trace(_) => &[],
        };
        rates.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0)
    }

    /// The mean between two moments, in bit/s by the link's accounting; none of a link without a rate. The
    /// opportunities of a trace count at their moments, those at `until` too, and those at `from` only where
    /// that is the start.
    pub fn mean_bps(&self, from: Duration, until: Duration) -> Option<f64> {
        match &self.0 {
            Carries::All => None,
            // Without a division, which would round it.
            Carries::Rate(rate) => Some(rate.as_bps_f64()),
            Carries::Steps(_) | Carries::Trace(_) => {
                (until > from).then(|| self.bits(from, until) / (until - from).as_secs_f64())
            }
        }
    }

    /// What can be carried between two moments, in bits; 0 without a rate.
    fn bits(&self, from: Duration, until: Duration) -> f64 {
        match &self.0 {
            Carries::All => 0.0,
            Carries::Rate(rate) => rate.as_bps_f64() * (until - from).as_secs_f64(),
            Carries::Trace(trace) => {
                let before = if from == Duration::ZERO { 0 } else { trace.opportunities_by(from) };
                let count = trace.opportunities_by(until).saturating_sub(before);
                count as f64 * OPPORTUNITY.get() as f64 * 8.0
            }
            Carries::Steps(rates) => {
                let mut at = rates.partition_point(|(since, _)| *since <= from).saturating_sub(1);
                let (mut begins, mut sum) = (from, 0.0);
                while begins < until {
                    let ends = rates.get(at + 1).map_or(until, |(next, _)| (*next).min(until));
                    sum += rates[at].1.as_bps_f64() * (ends - begins).as_secs_f64();
                    (begins, at) = (ends, at + 1);
                }
                sum
            }
        }
    }
}

/// What a link can carry from a moment on, with changes of its rate that its description does not know.
#[derive(Clone, Debug)]
pub struct CapacitySince {
    capacity: Capacity,
    from: Duration,
    /// What could be carried until the last change, and when that was.
    bits: f64,
    changed: Duration,
}

impl CapacitySince {
    /// From a moment on.
    pub fn new(capacity: Capacity, from: Duration) -> CapacitySince {
        CapacitySince { capacity, from, bits: 0.0, changed: from }
    }

    /// The rate is this one from a moment on, whatever else was to come. Moments do not decrease.
    pub fn set_rate(&mut self, at: Duration, rate: Rate) {
        (self.bits, self.changed) = (self.bits(at), at.max(self.changed));
        self.capacity = Capacity(Carries::Rate(rate));
    }

    /// What could be carried until a moment, in bits; 0 without a rate.
    pub fn bits(&self, until: Duration) -> f64 {
        self.bits + self.capacity.bits(self.changed, until.max(self.changed))
    }

    /// The mean until a moment, in bit/s; none without a rate.
    pub fn mean_bps(&self, until: Duration) -> Option<f64> {
        if self.changed == self.from {
            return self.capacity.mean_bps(self.from, until);
        }
        (until > self.from).then(|| self.bits(until) / (until - self.from).as_secs_f64())
    }

    /// The same, and from that moment on it begins anew.
    pub fn take_mean_bps(&mut self, until: Duration) -> Option<f64> {
        let mean = self.mean_bps(until);
        (self.from, self.changed, self.bits) = (until, until, 0.0);
        mean
    }

    /// The rate, where it does not change by itself.
    pub fn rate(&self) -> Option<Rate> {
        if let Carries::Rate(rate) = self.capacity.0 { Some(rate) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variation::{Step, TraceFile};

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn stepping() -> Capacity {
        let step = |at, mbps| Step { at: s(at), rate: Rate::from_mbps(mbps) };
        let steps = vec![step(2, 40), step(4, 40), step(6, 0)];
        Capacity::new(Some(Rate::from_mbps(100)), &Variation { steps, ..Variation::default() })
    }

    #[test]
    fn steps_count_for_as_long_as_they_are_in_force() {
        let link = stepping();
        for (from, until, mbps) in
            [(0, 2, 100.0), (1, 3, 70.0), (2, 6, 40.0), (5, 7, 20.0), (7, 9, 0.0), (0, 8, 45.0)]
        {
            assert_eq!(link.mean_bps(s(from), s(until)), Some(mbps * 1e6), "{from} to {until} s");
        }
        assert_eq!(link.changes().collect::<Vec<_>>(), [s(2), s(6)], "the second one changes nothing");
        assert_eq!(link.mean_bps(s(1), s(1)), None);
    }

    #[test]
    fn a_trace_carries_its_opportunities_and_a_constant_link_its_rate() {
        let trace = Trace::parse("t", b"0\n1\n1\n4\n10\n").unwrap();
        let trace = Some(TraceFile { path: "t".into(), trace });
        let link = Capacity::new(None, &Variation { trace, ..Variation::default() });
        // Five opportunities of 12 000 bits in each 10 ms; at 10 ms those of the end and of the new
        // beginning.
        for (from, until, opportunities) in
            [(0, 1, 3), (1, 4, 1), (4, 9, 0), (9, 10, 2), (10, 11, 2), (0, 20, 11), (990, 1000, 5)]
        {
            let bps = link.mean_bps(ms(from), ms(until)).unwrap();
            let bits = bps * (ms(until) - ms(from)).as_secs_f64();
            assert!(
                (bits - 12_000.0 * f64::from(opportunities)).abs() < 1e-6,
                "{from} to {until} ms: {bits}"
            );
        }
        let odd = Rate::from_bps(333_333_333);
        let constant = Capacity::new(Some(odd), &Variation::default());
        assert_eq!(constant.mean_bps(ms(3), ms(7)), Some(333_333_333.0), "not rounded");
        assert_eq!(Capacity::new(None, &Variation::default()).mean_bps(ms(0), ms(1)), None);
    }

    #[test]
    fn what_is_changed_by_hand_counts_from_then_on() {
        let mut link = CapacitySince::new(stepping(), s(1));
        assert_eq!(link.mean_bps(s(3)), Some(70e6));
        link.set_rate(s(3), Rate::from_mbps(10));
        assert_eq!((link.bits(s(7)), link.rate()), (180e6, Some(Rate::from_mbps(10))));
        assert_eq!(link.take_mean_bps(s(7)), Some(30e6));
        assert_eq!(link.take_mean_bps(s(8)), Some(10e6));
        let unshaped = CapacitySince::new(Capacity::new(None, &Variation::default()), s(0));
        assert_eq!((unshaped.bits(s(1)), unshaped.mean_bps(s(1))), (0.0, None));
    }
}
