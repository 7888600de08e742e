//! The two coupled algorithms: PI2 for classic traffic, a ramp and the coupling for low-latency traffic.

use super::Params;
use weir_aqm::{Aqm, Cause, Ecn, Moment, Packet, PiController, PiGains, Setpoint, Verdict};
use weir_units::{Duration, Time};

pub(super) const TARGET_MIN: Duration = Duration::from_micros(1);
pub(super) const TARGET_MAX: Duration = Duration::from_secs(10);

/// The algorithm of DualPI2 (RFC 9332 appendix A).
///
/// A proportional integral controller moves a base probability p'. Classic packets are signalled with its
/// square, as their senders answer to its square root; low-latency packets with k times p', to which theirs
/// answer. Signals come at even distances instead of by dice.
///
/// It is asked about the packets of both queues, each with the view of its own, and woken with the delay that
/// the controller is to see.
#[derive(Clone, Debug)]
pub struct Coupled {
    /// Of p'.
    pi: PiController,
    coupling: f64,
    ramp_min: Duration,
    ramp_range: Duration,
    low: Even,
    classic: Even,
}

/// Spreads events of a probability evenly (`recur` of RFC 9332 appendix A).
#[derive(Clone, Copy, Default, Debug)]
struct Even(f64);

impl Even {
    fn hits(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let hit = self.0 > 1.0;
        if hit {
            self.0 -= 1.0;
        }
        hit
    }
}

impl Coupled {
    /// Its gains follow from the target and the longest usual round-trip time (RFC 9332 appendix A).
    pub(super) fn new(params: &Params, start: Time) -> Coupled {
        let gains = PiGains::for_rtt_max(params.target, params.rtt_max);
        Coupled {
            pi: PiController::new(params.target, gains, start),
            coupling: params.coupling,
            ramp_min: params.ramp_min,
            ramp_range: params.ramp_range,
            low: Even::default(),
            classic: Even::default(),
        }
    }

    /// Probability of a signal on a classic packet.
    pub fn classic_probability(&self) -> f64 {
        self.pi.probability() * self.pi.probability()
    }

    /// Probability of a mark on a low-latency packet for the sake of classic ones.
    pub fn coupled_probability(&self) -> f64 {
        self.coupling * self.pi.probability()
    }

    /// Above this, classic packets are dropped although they could be marked: the senders do not listen. It
    /// is where the coupled probability reaches 1 (RFC 9332 appendix A).
    fn classic_most(&self) -> f64 {
        (1.0 / (self.coupling * self.coupling)).min(1.0)
    }

    /// Probability of a mark on a packet that waited so long in the low-latency queue.
    fn ramp(&self, delay: Duration) -> f64 {
        if delay <= self.ramp_min {
            0.0
        } else if delay >= self.ramp_min + self.ramp_range {
            1.0
        } else {
            (delay - self.ramp_min).as_secs_f64() / self.ramp_range.as_secs_f64()
        }
    }

    fn on_low_latency(&mut self, m: &Moment, delay: Duration) -> Verdict {
        let coupled = self.coupled_probability();
        if coupled >= 1.0 {
            // Marks are no longer enough: both queues get the same drops (RFC 9332 on ECN saturation).
            if self.low.hits(self.classic_probability()) {
                return Verdict::Drop(Cause::Chance);
            }
            return self.mark_if(coupled.min(1.0), Cause::Chance);
        }
        // A packet that nobody waits behind is no queue.
        let native = if m.queue.packets > 0 { self.ramp(delay) } else { 0.0 };
        let cause = if native > coupled { Cause::SetPoint } else { Cause::Chance };
        self.mark_if(native.max(coupled), cause)
    }

    fn mark_if(&mut self, probability: f64, cause: Cause) -> Verdict {
        if self.low.hits(probability) { Verdict::Mark(cause) } else { Verdict::Forward }
    }

    fn on_classic(&mut self, ecn: Ecn) -> Verdict {
        let probability = self.classic_probability();
        if !self.classic.hits(probability) {
            Verdict::Forward
        } else if ecn.is_capable() && probability < self.classic_most() {
            Verdict::Mark(Cause::Chance)
        } else {
            Verdict::Drop(Cause::Chance)
        }
    }
}

impl Aqm for Coupled {
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if p.ecn.is_low_latency() {
            self.on_low_latency(m, m.now.since(p.arrived))
        } else {
            self.on_classic(p.ecn)
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.pi.due())
    }

    fn on_wakeup(&mut self, m: &Moment) {
        self.pi.update(m.now, m.queue.delay);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("base_probability", self.pi.probability());
        plot("classic_probability", self.classic_probability());
        plot("coupled_probability", self.coupled_probability().min(1.0));
    }
}

impl Setpoint for Coupled {
    fn get(&self) -> Duration {
        self.pi.target()
    }

    /// The gains stay: they depend on round-trip times, and on the target only for small ones.
    fn set(&mut self, to: Duration) -> Duration {
        self.pi.set_target(to.clamp(TARGET_MIN, TARGET_MAX));
        self.pi.target()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_aqm::View;
    use weir_units::{Bytes, Rate};

    fn coupled() -> Coupled {
        Coupled::new(&Params::default(), Time::ZERO)
    }

    /// With this base probability.
    fn at(p: f64, delay: Duration) -> Coupled {
        Coupled { pi: coupled().pi.standing_at(p, delay), ..coupled() }
    }

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    #[test]
    fn the_gains_of_the_rfc() {
        let gains = coupled().pi.gains();
        assert_eq!(gains.t_update, Duration::from_millis(15));
        assert!((gains.alpha - 0.15).abs() < 1e-12 && (gains.beta - 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_base_probability_is_squared_for_classic_and_doubled_for_low_latency_traffic() {
        // p', alpha, beta: p' afterwards, classic, coupled; for a delay that grew from 15 to 20 ms.
        let known = [(0.15, 3.0, 0.065750, 0.004323063, 0.1315), (0.16, 3.2, 0.0668, 0.00446224, 0.1336)];
        for (alpha, beta, base, classic, low) in known {
            let gains = PiGains { alpha, beta, ..coupled().pi.gains() };
            let pi = PiController::new(ms(15.0), gains, Time::ZERO).standing_at(0.05, ms(15.0));
            let mut aqm = Coupled { pi, ..coupled() };
            aqm.pi.update(aqm.pi.due(), ms(20.0));
            let p = aqm.pi.probability();
            assert!((p - base).abs() < 1e-12, "{p}");
            assert!((aqm.classic_probability() - classic).abs() < 1e-9);
            assert!((aqm.coupled_probability() - low).abs() < 1e-12);
        }
    }

    #[test]
    fn the_ramp() {
        let aqm = coupled();
        let of = |us| aqm.ramp(Duration::from_micros(us));
        for (us, known) in [(700, 0.0), (800, 0.0), (900, 0.25), (1000, 0.5), (1100, 0.75), (1200, 1.0)] {
            assert!((of(us) - known).abs() < 1e-12, "{us} us: {}", of(us));
        }
        let step = Coupled { ramp_range: Duration::ZERO, ramp_min: ms(1.0), ..coupled() };
        assert_eq!([999, 1000, 1001].map(|us| step.ramp(Duration::from_micros(us))), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn signals_come_at_even_distances() {
        let mut even = Even::default();
        let hits: Vec<u32> = (0..30).filter(|_| even.hits(0.125)).collect();
        assert_eq!(hits, [8, 16, 24]);
    }

    fn ask(aqm: &mut Coupled, ecn: Ecn, waited: Duration, behind: u32) -> Verdict {
        let now = Time::ZERO + Duration::from_secs(1);
        let queue =
            View { backlog: Bytes::new(1), packets: behind, delay: waited, rate: Rate::from_mbps(100) };
        let p = Packet { arrived: now - waited, len: Bytes::new(1500), seq: 0, flow: 0, ecn };
        aqm.on_dequeue(&Moment::new(now, queue, 0), &p)
    }

    /// Marks and drops of 10 000 packets.
    fn signals(aqm: &mut Coupled, ecn: Ecn) -> (u32, u32) {
        let mut counts = (0, 0);
        for _ in 0..10_000 {
            match ask(aqm, ecn, Duration::ZERO, 5) {
                Verdict::Mark(_) => counts.0 += 1,
                Verdict::Drop(_) => counts.1 += 1,
                Verdict::Forward => {}
            }
        }
        counts
    }

    #[test]
    fn rates_of_signals_are_the_probabilities() {
        let with = |p| at(p, Duration::ZERO);
        let (marks, drops) = signals(&mut with(0.1), Ecn::NotEct);
        assert!(marks == 0 && (99..=100).contains(&drops), "{marks} {drops}");
        let (marks, drops) = signals(&mut with(0.1), Ecn::Ect0);
        assert!((99..=100).contains(&marks) && drops == 0, "{marks} {drops}");
        let (marks, drops) = signals(&mut with(0.1), Ecn::Ect1);
        assert!((1998..=2000).contains(&marks) && drops == 0, "{marks}");
    }

    #[test]
    fn in_overload_both_queues_are_dropped_from_alike() {
        let mut aqm = at(0.6, Duration::ZERO);
        // Classic packets are no longer marked from a probability of 25 % on.
        let (marks, drops) = signals(&mut aqm, Ecn::Ect0);
        assert!(marks == 0 && (3598..=3600).contains(&drops), "{marks} {drops}");
        let (marks, drops) = signals(&mut aqm, Ecn::Ect1);
        assert!(marks + drops >= 9_998 && drops.abs_diff(3600) < 2000 && drops > 0, "{marks} {drops}");
    }

    #[test]
    fn the_ramp_needs_a_queue() {
        let mut aqm = coupled();
        assert_eq!(ask(&mut aqm, Ecn::Ect1, ms(5.0), 0), Verdict::Forward);
        let _ = ask(&mut aqm, Ecn::Ect1, ms(5.0), 1);
        assert_eq!(ask(&mut aqm, Ecn::Ect1, ms(5.0), 1), Verdict::Mark(Cause::SetPoint));
    }

    #[test]
    fn after_a_long_sleep_it_has_forgotten() {
        let mut aqm = at(0.9, ms(40.0));
        let queue =
            View { backlog: Bytes::ZERO, packets: 0, delay: Duration::ZERO, rate: Rate::from_mbps(100) };
        let now = Time::ZERO + Duration::from_secs(3600);
        aqm.on_wakeup(&Moment::new(now, queue, 0));
        assert_eq!(aqm.pi.probability(), 0.0);
        assert!(aqm.next_wakeup().is_some_and(|due| due > now && due <= now + aqm.pi.gains().t_update));
    }
}
