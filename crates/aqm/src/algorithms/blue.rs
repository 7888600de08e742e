//! BLUE: a drop probability from losses and idle times (Feng, Kandlur, Saha, Shin, 1999).
//!
//! Acts at enqueue, by chance. The probability is raised when the buffer overflows or the queue is too long,
//! and lowered when the link idles, each at most once in a `freeze` time. So it settles where the link is
//! busy and nothing overflows, whatever the number of flows.
//!
//! ```text
//! overflow, or delay > target:  p = min(p + increment, 1)     if the last change is longer ago than freeze
//! idle:                         p = max(p - decrement, 0)     likewise; once for each freeze time of idleness
//! ```
//!
//! The paper gives the length as a number of packets L; here it is a delay. What overflow and idle events
//! mean on an idle link, where no event happens, is left open there: here the time counts, so that the past
//! is forgotten.

use crate::{Algorithm, Aqm, Cause, Chance, Moment, Packet, Share, Verdict};
use weir_units::{Bytes, Duration, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of BLUE.
    pub struct Params {
        /// Delay above which the probability is raised as after an overflow: the length L (BLUE, on the
        /// algorithm).
        target: Duration = Duration::from_millis(20), TARGET_MIN => TARGET_MAX;
        /// What is added to the probability on congestion: d1 (BLUE, on the algorithm; of the values tried
        /// there, the smaller, which suits fewer flows).
        increment: Share = Share(0.0025), Share(0.0) => Share(1.0);
        /// What is taken from the probability on idleness: d2, much smaller than d1 (BLUE, on the algorithm).
        decrement: Share = Share(0.000_25), Share(0.0) => Share(1.0);
        /// Least time between two changes, about a round-trip time, so that the last one has had its effect:
        /// freeze_time (BLUE, on the algorithm).
        freeze: Duration = Duration::from_millis(100), Duration::from_micros(10) => Duration::from_secs(100);
        /// Whether ECN-capable packets are marked instead of dropped (BLUE, on the algorithm).
        ecn: bool = true, false => true;
    }
}

/// The probability and its two rules; COBALT has one as well.
#[derive(Clone, Debug)]
pub struct Probability {
    chance: Chance,
    increment: Chance,
    decrement: Chance,
    changed: Time,
}

impl Probability {
    /// A probability of zero.
    pub fn new(increment: Share, decrement: Share, start: Time) -> Probability {
        let (increment, decrement) = (Chance::new(increment.0), Chance::new(decrement.0));
        Probability { chance: Chance::NEVER, increment, decrement, changed: start }
    }

    /// The probability now.
    #[inline]
    pub fn chance(&self) -> Chance {
        self.chance
    }

    /// There is congestion: one step up, unless there was a change within `freeze`.
    pub fn raise(&mut self, now: Time, freeze: Duration) {
        if now.since(self.changed) > freeze {
            self.chance = self.chance.plus(self.increment);
            self.changed = now;
        }
    }

    /// The queue runs empty: one step down, unless there was a change within `freeze`.
    pub fn lower(&mut self, now: Time, freeze: Duration) {
        if self.chance > Chance::NEVER && now.since(self.changed) > freeze {
            self.chance = self.chance.minus(self.decrement, 1);
            self.changed = now;
        }
    }

    /// The queue was empty up to now: one step down for each `freeze` that fits between the last change and
    /// now. The freeze must not be zero.
    pub fn lower_after_idling(&mut self, now: Time, freeze: Duration) {
        let steps = now.since(self.changed).as_nanos() / freeze.as_nanos();
        if self.chance > Chance::NEVER && steps > 0 {
            self.chance = self.chance.minus(self.decrement, steps);
            self.changed += freeze.saturating_mul(steps);
        }
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Blue {
    target: Duration,
    freeze: Duration,
    ecn: bool,
    probability: Probability,
}

impl Algorithm for Blue {
    const NAME: &'static str = "blue";
    const SUMMARY: &'static str =
        "Signals by a chance that long queues and overflows raise and idle times lower, in small steps.";
    const SOURCE: &'static str =
        "Feng, Kandlur, Saha and Shin, BLUE: A New Class of Active Queue Management Algorithms, 1999";
    /// `target` is a threshold like an overflow: where the queue settles follows from the steps and the load.
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let Params { target, increment, decrement, freeze, ecn } = *params;
        Blue { target, freeze, ecn, probability: Probability::new(increment, decrement, start) }
    }
}

impl Aqm for Blue {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if m.queue.backlog == Bytes::ZERO {
            self.probability.lower_after_idling(m.now, self.freeze);
        } else if m.queue.delay > self.target {
            self.probability.raise(m.now, self.freeze);
        }
        if self.probability.chance().hits(m.random_bits::<Self>()) {
            Verdict::signal(p, self.ecn, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }

    fn on_empty(&mut self, now: Time) {
        self.probability.lower(now, self.freeze);
    }

    fn on_overflow(&mut self, m: &Moment, _p: &Packet) {
        self.probability.raise(m.now, self.freeze);
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("drop_probability", self.probability.chance().get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use weir_units::Rate;

    fn moment(now_ms: u64, delay_ms: u64, packets: u32, dice: u64) -> Moment {
        let backlog = Bytes::new(u64::from(packets) * 1500);
        let delay = Duration::from_millis(delay_ms);
        let queue = View { backlog, packets, delay, rate: Rate::from_mbps(100) };
        Moment::new(Time::ZERO + Duration::from_millis(now_ms), queue, dice)
    }

    fn ask(blue: &mut Blue, m: &Moment, ecn: Ecn) -> Verdict {
        blue.on_enqueue(m, &Packet { arrived: m.now, len: Bytes::new(1500), seq: 0, flow: 0, ecn })
    }

    fn overflow(blue: &mut Blue, now_ms: u64) {
        let m = moment(now_ms, 0, 9, 0);
        let p = Packet { arrived: m.now, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
        blue.on_overflow(&m, &p);
    }

    /// With steps of 2 % up and 0.2 % down.
    fn coarse() -> Blue {
        let params = Params { increment: Share(0.02), decrement: Share(0.002), ..Params::default() };
        Blue::new(&params, Time::ZERO)
    }

    fn probability(blue: &Blue) -> f64 {
        (blue.probability.chance().get() * 1e6).round() / 1e6
    }

    #[test]
    fn up_on_congestion_and_down_on_idleness_once_in_a_freeze_time() {
        let mut blue = coarse();
        for (now, want) in [(100, 0.0), (101, 0.02), (150, 0.02), (201, 0.02), (202, 0.04)] {
            overflow(&mut blue, now);
            assert_eq!(probability(&blue), want, "at {now}");
        }
        for (now, delay, want) in [(302, 21, 0.04), (303, 20, 0.04), (303, 21, 0.06)] {
            let _ = ask(&mut blue, &moment(now, delay, 9, u64::MAX), Ecn::NotEct);
            assert_eq!(probability(&blue), want, "at {now}");
        }
        for (now, want) in [(403, 0.06), (404, 0.058), (405, 0.058)] {
            blue.on_empty(Time::ZERO + Duration::from_millis(now));
            assert_eq!(probability(&blue), want, "at {now}");
        }
        // Idle from 405 to 1404: nine whole freeze times, and the rest counts towards the next.
        for (now, want) in [(1403, 0.04), (1404, 0.038), (1503, 0.038), (1504, 0.036), (99_999, 0.0)] {
            let _ = ask(&mut blue, &moment(now, 0, 0, u64::MAX), Ecn::NotEct);
            assert_eq!(probability(&blue), want, "at {now}");
        }
    }

    /// The steps lose at most 2^-64 each, and the two of them 2^-53 of themselves: 1e-12 after ten thousand.
    #[test]
    fn the_twin_in_floats_agrees() {
        let (up, down) = (0.0025, 0.00025);
        let mut blue = Probability::new(Share(up), Share(down), Time::ZERO);
        let freeze = Duration::from_millis(1);
        let (mut twin, mut now, mut dice) = (0.0f64, Time::ZERO, 1u64);
        for n in 0..12_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += Duration::from_nanos(1_000_001);
            // Up for a while and then down, so that both ends are reached.
            let drift = if n % 6000 < 1000 { 2 } else { 1000 };
            if (dice >> 33).is_multiple_of(drift) {
                blue.raise(now, freeze);
                twin = (twin + up).min(1.0);
            } else {
                blue.lower(now, freeze);
                twin = (twin - down).max(0.0);
            }
            assert!((blue.chance().get() - twin).abs() < 1e-12, "step {n}: {} for {twin}", blue.chance().get());
        }
    }

    #[test]
    fn packets_are_signalled_with_that_probability() {
        let mut blue = coarse();
        (1..=25).for_each(|n| overflow(&mut blue, 101 * n));
        assert_eq!(probability(&blue), 0.5);
        let ask = |blue: &mut Blue, dice, ecn| ask(blue, &moment(2600, 5, 9, dice), ecn);
        assert_eq!(ask(&mut blue, (1 << 63) - (1 << 12), Ecn::NotEct), Verdict::Drop(Cause::Chance));
        assert_eq!(ask(&mut blue, (1 << 63) - (1 << 12), Ecn::Ect1), Verdict::Mark(Cause::Chance));
        assert_eq!(ask(&mut blue, (1 << 63) + (1 << 12), Ecn::NotEct), Verdict::Forward);
    }
}
