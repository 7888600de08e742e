//! PIE: proportional integral controller enhanced (RFC 8033).
//!
//! Acts at enqueue, by chance. Each `t_update` the drop probability follows the queue's delay:
//!
//! ```text
//! p         = alpha * (delay - target) + beta * (delay - delay_old)        divided by 1 .. 2048 (section 4.2)
//! drop_prob = clamp(drop_prob + p, 0, 1)                                   and * 0.98 while the queue is short
//! ```
//!
//! All of the RFC is here: auto-tuning of the gains (section 4.2), the burst allowance (4.4), the ECN limit
//! (5.1), both estimates of the delay, from timestamps (4.3) or from the rate of departures (5.2), switching
//! off (5.3), de-randomisation (5.4) and the cap on an increase (5.5). Where its basic and its extended
//! pseudocode differ (appendices A and B), this follows the extended one, with these choices:
//!
//! * While the burst allowance lasts, probability is not accumulated: those packets bypass the drop (4.4).
//! * The rate of departures is measured whether PIE is on or off. With appendix B, which forgets it when PIE
//!   goes on, the unknown rate reads as no delay, and no delay switches PIE off again.
//!
//! On the packet path probabilities are whole numbers of 2^-56; a drop probability is wrong by at most 2^-57,
//! the accumulated one by at most that much per packet.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Periodic, Setpoint, Share, Verdict};
use weir_units::{Bytes, Duration, Time};

mod departures;
#[cfg(test)]
mod tests;

use departures::Departures;

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of PIE.
    pub struct Params {
        /// Queue delay that is aimed at: QDELAY_REF (RFC 8033 section 4.2).
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// Time between two updates of the drop probability (RFC 8033 section 4.2).
        t_update: Duration = Duration::from_millis(15), Duration::from_micros(10) => Duration::from_secs(10);
        /// Integral gain, per second of delay above the target (RFC 8033 section 4.2). Halve it for each
        /// halving of t_update; for a much smaller target scale alpha and beta by the ratio of the targets.
        alpha: f64 = 0.125, 0.0 => 1e6;
        /// Proportional gain, per second of growth of the delay (RFC 8033 section 4.2).
        beta: f64 = 1.25, 0.0 => 1e6;
        /// How long a burst into a calm queue passes without a signal: MAX_BURST (RFC 8033 section 4.4).
        max_burst: Duration = Duration::from_millis(150), Duration::ZERO => Duration::from_secs(100);
        /// Whether ECN-capable packets are marked instead of dropped (RFC 8033 section 5.1).
        ecn: bool = true, false => true;
        /// Drop probability from which ECN-capable packets are dropped too: MARK_ECNTH (RFC 8033 section
        /// 5.1).
        mark_ecnth: Share = Share(0.1), Share(0.0) => Share(1.0);
        /// Whether the delay is the backlog over the rate of departures (RFC 8033 section 5.2) and not the
        /// sojourn time of the packet that left last (RFC 8033 section 4.3).
        departure_rate: bool = false, false => true;
        /// Data that one measurement of the rate of departures takes: DQ_THRESHOLD (RFC 8033 section 5.2).
        dq_threshold: Bytes = Bytes::new(16_384), Bytes::new(1) => Bytes::new(1_048_576);
        /// Backlog at which PIE goes on after it went off in a calm queue, proposed is a third of the buffer;
        /// with 0B it is always on (RFC 8033 section 5.3).
        activation: Bytes = Bytes::ZERO, Bytes::ZERO => Bytes::new(10_000_000_000);
        /// Whether signals are kept from coming too close and too far apart (RFC 8033 section 5.4).
        derandomize: bool = true, false => true;
        /// Whether a probability from 10 % on grows by at most 2 % at once (RFC 8033 section 5.5).
        cap: bool = true, false => true;
        /// In how many steps the gains are reduced at small drop probabilities, the first below 10 %, each
        /// further one a tenth of that (RFC 8033 section 4.2 has all six). Linux from 3.14 to 4.20 has two.
        tune_steps: u32 = 6, 0 => 6;
        /// Mean packet: a backlog of at most two of them is never signalled (RFC 8033 section 4.1).
        mean_packet: Bytes = Bytes::new(1538), Bytes::new(1) => Bytes::new(65_536);
    }
}

/// A short queue is not signalled while the drop probability is below this (section 4.1).
const PROTECTED_BELOW: f64 = 0.2;
/// Factor of the probability at each update while the queue is short (section 4.2).
const DECAY: f64 = 0.98;
/// Largest step of a probability from `CAP_FROM` on (section 5.5).
const CAP: f64 = 0.02;
const CAP_FROM: f64 = 0.1;
/// One, in the numbers of the packet path.
const ONE: f64 = (1u64 << 56) as f64;
/// Accumulated probability below which nothing is signalled, and from which all is (section 5.4).
const PROB_LOW: u64 = (0.85 * ONE) as u64;
const PROB_HIGH: u64 = (8.5 * ONE) as u64;
/// Most updates made up for at once. What a short queue leaves after them is below 0.98^1024, 2e-9.
const CATCH_UP_MAX: u64 = 1024;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Pie {
    target: Duration,
    alpha: f64,
    beta: f64,
    max_burst: Duration,
    mark_ecnth: f64,
    activation: Bytes,
    small: Bytes,
    ecn: bool,
    derandomize: bool,
    cap: bool,
    /// Below this drop probability the gains are not reduced any further.
    tuned_down_to: f64,
    /// Measures the rate of departures, if that gives the delay.
    departures: Option<Departures>,
    updates: Periodic,
    active: bool,
    burst_left: Duration,
    delay_old: Duration,
    drop_prob: f64,
    /// `drop_prob` in the numbers of the packet path.
    prob: u64,
    accu_prob: u64,
    /// What follows from the above at each update: no signals; marks instead of drops.
    protected: bool,
    marks: bool,
}

impl Algorithm for Pie {
    const NAME: &'static str = "pie";
    const SUMMARY: &'static str = "Signals by a chance that a self-tuning PI controller of the delay sets, after an allowance for bursts.";
    const SOURCE: &'static str = "RFC 8033";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let p = params;
        Pie {
            target: p.target,
            alpha: p.alpha,
            beta: p.beta,
            max_burst: p.max_burst,
            mark_ecnth: p.mark_ecnth.0,
            activation: p.activation,
            small: p.mean_packet + p.mean_packet,
            ecn: p.ecn,
            derandomize: p.derandomize,
            cap: p.cap,
            tuned_down_to: TUNED_DOWN_TO[p.tune_steps.min(6) as usize],
            departures: p.departure_rate.then(|| Departures::new(p.dq_threshold)),
            updates: Periodic::new(p.t_update, start),
            active: p.activation == Bytes::ZERO,
            burst_left: p.max_burst,
            delay_old: Duration::ZERO,
            drop_prob: 0.0,
            prob: 0,
            accu_prob: 0,
            protected: true,
            marks: p.ecn,
        }
    }
}

/// Least drop probability for which `divisor` still counts, after so many steps.
const TUNED_DOWN_TO: [f64; 7] = [0.1, 0.01, 0.001, 0.000_1, 0.000_01, 0.000_001, 0.0];

/// By how much a change of the drop probability is divided: the smaller it is, the smaller the steps
/// (section 4.2).
fn divisor(drop_prob: f64) -> f64 {
    match drop_prob {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

impl Pie {
    fn is_short(&self, delay: Duration) -> bool {
        delay + delay < self.target
    }

    /// The delay now, as far as it is known between updates.
    fn current_delay(&self, m: &Moment) -> Duration {
        if self.departures.is_some() { self.delay_old } else { m.queue.delay }
    }

    /// One update of the drop probability (section 4.2).
    fn step(&mut self, delay: Duration) {
        let (now, old) = (delay.as_secs_f64(), self.delay_old.as_secs_f64());
        let p = self.alpha * (now - self.target.as_secs_f64()) + self.beta * (now - old);
        let mut p = p / divisor(self.drop_prob.max(self.tuned_down_to));
        if self.cap && self.drop_prob >= CAP_FROM {
            p = p.min(CAP);
        }
        self.drop_prob += p;
        if self.is_short(delay) && self.is_short(self.delay_old) {
            self.drop_prob *= DECAY;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.delay_old = delay;
    }

    /// Several updates for a queue that has stood at this delay meanwhile.
    fn catch_up(&mut self, updates: u64, delay: Duration) {
        for _ in 0..updates.min(CATCH_UP_MAX) {
            let before = (self.drop_prob, self.delay_old);
            self.step(delay);
            if (self.drop_prob, self.delay_old) == before {
                return;
            }
        }
        if updates > CATCH_UP_MAX && self.is_short(delay) {
            self.drop_prob = 0.0;
        }
    }

    /// Brings what packets are compared with up to date.
    fn refresh(&mut self) {
        self.prob = libm::round(self.drop_prob * ONE) as u64;
        self.protected = self.is_short(self.delay_old) && self.drop_prob < PROTECTED_BELOW;
        self.marks = self.ecn && self.drop_prob < self.mark_ecnth;
    }

    /// Restarts the burst allowance in a calm queue and switches PIE off and on (sections 4.4 and 5.3);
    /// `true` if it is on.
    fn is_active(&mut self, m: &Moment) -> bool {
        let calm = self.prob == 0 && self.is_short(self.delay_old) && self.is_short(self.current_delay(m));
        if calm {
            self.burst_left = self.max_burst;
        }
        let on = m.queue.backlog >= self.activation;
        if on && !self.active {
            self.active = true;
            self.burst_left = self.max_burst;
            self.accu_prob = 0;
            self.delay_old = Duration::ZERO;
        }
        self.active &= on || !calm;
        self.active
    }

    /// Whether the dice say drop, with drops neither too close nor too far apart (section 5.4).
    fn draws(&mut self, dice: u64) -> bool {
        let chance = dice >> 8 < self.prob;
        if !self.derandomize {
            return chance;
        }
        self.accu_prob = if self.prob == 0 { 0 } else { self.accu_prob + self.prob };
        let drawn = self.accu_prob >= PROB_LOW && (chance || self.accu_prob >= PROB_HIGH);
        if drawn {
            self.accu_prob = 0;
        }
        drawn
    }
}

impl Aqm for Pie {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let bypass = !self.is_active(m)
            || self.burst_left > Duration::ZERO
            || self.protected
            || m.queue.backlog <= self.small;
        if bypass || !self.draws(m.random_bits::<Self>()) {
            return Verdict::Forward;
        }
        Verdict::signal(p, self.marks, Cause::Chance)
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if let Some(departures) = &mut self.departures {
            departures.left(m.now, p.len, m.queue.backlog);
        }
        Verdict::Forward
    }

    /// A packet lost for lack of room counts as dropped (appendix B).
    fn on_overflow(&mut self, _m: &Moment, _p: &Packet) {
        self.accu_prob = 0;
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.updates.due())
    }

    fn on_wakeup(&mut self, m: &Moment) {
        let updates = self.updates.take(m.now);
        if updates == 0 || !self.active {
            return;
        }
        let delay = self.departures.as_ref().map_or(m.queue.delay, |d| d.delay(m.queue.backlog));
        self.catch_up(updates, delay);
        self.burst_left -= self.updates.period().saturating_mul(updates);
        self.refresh();
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("drop_probability", self.drop_prob);
        plot("accumulated_probability", self.accu_prob as f64 / ONE);
        plot("burst_allowance_ms", self.burst_left.as_millis_f64());
        plot("delay_estimate_ms", self.delay_old.as_millis_f64());
        plot("active", f64::from(u8::from(self.active)));
    }
}

impl Setpoint for Pie {
    fn get(&self) -> Duration {
        self.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.target = to.clamp(TARGET_MIN, TARGET_MAX);
        self.refresh();
        self.target
    }
}
