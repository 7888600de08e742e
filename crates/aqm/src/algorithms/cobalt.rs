//! COBALT: CoDel and BLUE together, as in CAKE (Høiland-Jørgensen, Täht, Morton, LANMAN 2018).
//!
//! Acts at dequeue. The CoDel part signals ever faster while the sojourn time is above the target, and
//! forgets step by step, at the pace at which it learned, where CoDel guesses how much to resume with. The
//! BLUE part drops by chance what does not respond: its probability is raised by overflows and lowered by an
//! empty queue, and its drops are drops also for ECN-capable packets.
//!
//! ```text
//! above the target:   signal at drop_next; count += 1; drop_next += interval / sqrt(count)
//! below it:           at drop_next:        count -= 1; drop_next += interval / sqrt(count)
//! BLUE:               overflow: p += increment;  empty: p -= decrement;  at most once in a target
//! ```
//!
//! On a slow link the target is at least one and a half times the time of a full packet, and a sojourn time
//! of up to four such times is never too long. The CoDel part of CAKE starts a new drop state one interval
//! after the target was exceeded, as here, but has its inverse square roots from a table and Newton's
//! method; here they are exact.

use super::blue::Probability;
use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Share, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of COBALT.
    pub struct Params {
        /// Acceptable standing queue delay (RFC 8289 section 4.4).
        target: Duration = Duration::from_millis(5), TARGET_MIN => TARGET_MAX;
        /// About a worst-case round-trip time (RFC 8289 section 4.3).
        interval: Duration = Duration::from_millis(100), Duration::from_micros(10) => Duration::from_secs(100);
        /// What an overflow adds to the drop probability of BLUE; CAKE has 1/256.
        increment: Share = Share(1.0 / 256.0), Share(0.0) => Share(1.0);
        /// What an empty queue takes from the drop probability of BLUE; CAKE has 1/4096.
        decrement: Share = Share(1.0 / 4096.0), Share(0.0) => Share(1.0);
        /// Whether the CoDel part marks ECN-capable packets instead of dropping them.
        ecn: bool = true, false => true;
        /// Largest packet, whose time on the link bounds the target from below.
        mtu: Bytes = Bytes::new(1538), Bytes::ZERO => Bytes::new(65_536);
    }
}

/// Steps of forgetting that are done one by one; more are done by an integral.
const STEPS_MAX: u32 = 16;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Cobalt {
    /// The set point, before the link's rate is considered.
    target: Duration,
    interval: Duration,
    mtu: Bytes,
    ecn: bool,
    /// Target, shortest delay above it and interval on this link.
    link: Rate,
    freeze: Duration,
    too_long: Duration,
    pace: Duration,
    count: u32,
    drop_next: Time,
    dropping: bool,
    blue: Probability,
}

impl Algorithm for Cobalt {
    const NAME: &'static str = "cobalt";
    const SUMMARY: &'static str =
        "CoDel that forgets as it learned, with BLUE beside it that drops what does not respond.";
    const SOURCE: &'static str = "Høiland-Jørgensen, Täht and Morton, Piece of CAKE, LANMAN 2018; RFC 8289";
    const SETPOINT: Option<&'static str> = Some("target");
    const PER_FLOW_ELSEWHERE: &'static [&'static str] = &["cake"];
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let Params { target, interval, increment, decrement, ecn, mtu } = *params;
        let blue = Probability::new(increment, decrement, start);
        let mut cobalt = Cobalt {
            target,
            interval,
            mtu,
            ecn,
            link: Rate::ZERO,
            freeze: target,
            too_long: target,
            pace: interval,
            count: 0,
            drop_next: start,
            dropping: false,
            blue,
        };
        cobalt.follow(Rate::ZERO);
        cobalt
    }
}

impl Cobalt {
    /// Fits target and interval to the link; an unshaped one has packets that take no time.
    #[cold]
    fn follow(&mut self, link: Rate) {
        self.link = link;
        let packet = if link == Rate::ZERO { Duration::ZERO } else { link.time_for(self.mtu) };
        self.freeze = self.target.max(packet.mul_f64(1.5));
        self.too_long = self.freeze.max(packet.saturating_mul(4));
        self.pace = (self.interval + (self.freeze - self.target)).max(self.freeze.saturating_mul(2));
    }

    /// Time to the next step with `count` signals behind: `interval / sqrt(count)`.
    fn step(&self, count: u32) -> Duration {
        self.pace.mul_f64(1.0 / libm::sqrt(f64::from(count.max(1))))
    }

    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    /// Whether the CoDel part wants a signal. Also forgets, while the delay is below the target.
    fn codel(&mut self, m: &Moment, p: &Packet) -> bool {
        let due = self.is_due(m.now);
        if m.now.since(p.arrived) <= self.too_long {
            self.dropping = false;
            self.forget(m.now);
            return false;
        }
        if !self.dropping {
            self.dropping = true;
            self.drop_next = m.now + self.step(self.count);
        }
        self.count = self.count.max(1);
        if due {
            self.count = self.count.saturating_add(1);
            self.drop_next += self.step(self.count);
        }
        due
    }

    /// Takes back one step at each time a signal would have been due.
    fn forget(&mut self, now: Time) {
        for _ in 0..STEPS_MAX {
            if !self.is_due(now) {
                return;
            }
            self.count -= 1;
            self.drop_next += self.step(self.count);
        }
        if self.is_due(now) {
            self.forget_much(now);
        }
    }

    /// The same for a long time: going from `count` down to `c` takes `2 interval (sqrt(count) - sqrt(c))`,
    /// to within a step.
    #[cold]
    fn forget_much(&mut self, now: Time) {
        let behind = now.since(self.drop_next).as_secs_f64() / (2.0 * self.pace.as_secs_f64());
        let root = (libm::sqrt(f64::from(self.count)) - behind).max(0.0);
        self.count = (root * root) as u32;
        self.drop_next = now + self.step(self.count);
    }
}

impl Aqm for Cobalt {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, _p: &Packet) -> Verdict {
        if m.queue.backlog == Bytes::ZERO {
            self.blue.lower_after_idling(m.now, self.freeze);
        }
        Verdict::Forward
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if m.queue.rate != self.link {
            self.follow(m.queue.rate);
        }
        let verdict =
            if self.codel(m, p) { Verdict::signal(p, self.ecn, Cause::SetPoint) } else { Verdict::Forward };
        let dropped = matches!(verdict, Verdict::Drop(_));
        let unresponsive = self.blue.chance().hits(m.random_bits::<Self>());
        if self.count == 0 {
            self.drop_next = m.now + self.pace;
        } else if self.drop_next < m.now && !dropped && !unresponsive {
            self.drop_next = m.now;
        }
        if unresponsive && !dropped { Verdict::Drop(Cause::Chance) } else { verdict }
    }

    fn on_empty(&mut self, now: Time) {
        self.blue.lower(now, self.freeze);
        self.dropping = false;
        if self.is_due(now) {
            self.count -= 1;
            self.drop_next += self.step(self.count);
        }
    }

    fn on_overflow(&mut self, m: &Moment, _p: &Packet) {
        self.blue.raise(m.now, self.freeze);
        self.dropping = true;
        self.drop_next = m.now;
        self.count = self.count.max(1);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("count", f64::from(self.count));
        plot("dropping", f64::from(u8::from(self.dropping)));
        plot("drop_next_s", self.drop_next.as_secs_f64());
        plot("blue_probability", self.blue.chance().get());
    }
}

impl Setpoint for Cobalt {
    fn get(&self) -> Duration {
        self.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.target = to.clamp(TARGET_MIN, TARGET_MAX);
        self.follow(self.link);
        self.target
    }
}

#[cfg(test)]
mod tests;
