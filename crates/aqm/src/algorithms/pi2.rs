//! PI2: a linear PI controller whose output is squared (De Schepper et al., CoNEXT 2016; RFC 9332).
//!
//! Acts at enqueue, by chance. A [`PiController`] turns the queue's delay into a base probability `p'` each
//! `t_update`. Senders of the classic kind, whose rate falls with the square root of the signals, get `p'^2`;
//! scalable ones (ECT(1), RFC 9331), whose rate falls in proportion, get `coupling * p'`. So both kinds
//! share the queue about fairly, and the gains need no adjustment to the load as in PIE: the square does it.
//!
//! ```text
//! classic:   p_C = p'^2             dropped, or marked if ECN-capable and p_C < p_Cmax = min(1 / coupling^2, 1)
//! scalable:  p_L = coupling * p'    marked; where that would exceed 1: dropped by p_C, else marked
//! ```
//!
//! This is the single queue of the PI2 paper with the constants of RFC 9332 appendix A; the paper's own are
//! a target of 20 ms, an update each 32 ms, alpha 5/16 and beta 50/16.

use crate::{Algorithm, Aqm, Cause, Chance, Ecn, Moment, Packet, PiController, PiGains, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of PI2.
    pub struct Params {
        /// Queue delay that is aimed at (RFC 9332 appendix A).
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// Time between two updates of the probability: the smaller of the target and a third of the longest
        /// round-trip time (RFC 9332 appendix A).
        t_update: Duration = Duration::from_millis(15), Duration::from_micros(10) => Duration::from_secs(10);
        /// Integral gain, per second of delay above the target: 0.1 * t_update / (longest round-trip time)^2,
        /// here for 100 ms (RFC 9332 appendix A).
        alpha: f64 = 0.15, 0.0 => 1e6;
        /// Proportional gain, per second of growth of the delay: 0.3 / (longest round-trip time), here for
        /// 100 ms (RFC 9332 appendix A).
        beta: f64 = 3.0, 0.0 => 1e6;
        /// Ratio k between the signals of scalable traffic and the base probability (RFC 9332 appendix A).
        coupling: f64 = 2.0, 0.1 => 10.0;
        /// Whether ECT(1) means scalable traffic, which is signalled in proportion to the base probability
        /// (RFC 9331 on setting the codepoint); otherwise it is as any ECN-capable packet.
        scalable: bool = true, false => true;
        /// Whether ECN-capable packets are marked instead of dropped, below overload.
        ecn: bool = true, false => true;
        /// Largest packet: a backlog of at most two of them is never signalled, so that the link stays busy.
        mtu: Bytes = Bytes::new(1538), Bytes::new(1) => Bytes::new(65_536);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Pi2 {
    pi: PiController,
    ecn: bool,
    scalable: bool,
    coupling: f64,
    small: Bytes,
    /// p_C and p_L as of the last update.
    classic: Chance,
    linear: Chance,
    /// Whether classic packets are dropped even if they are ECN-capable.
    classic_overload: bool,
    /// Whether marks are not enough for scalable traffic.
    scalable_overload: bool,
}

impl Algorithm for Pi2 {
    const NAME: &'static str = "pi2";
    const SUMMARY: &'static str =
        "Signals by a chance that a PI controller of the delay sets: squared for classic senders, linear for L4S.";
    const SOURCE: &'static str = "De Schepper et al., PI2, CoNEXT 2016; RFC 9332 appendix A";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let Params { target, t_update, alpha, beta, coupling, scalable, ecn, mtu } = *params;
        Pi2 {
            pi: PiController::new(target, PiGains { t_update, alpha, beta }, start),
            ecn,
            scalable,
            coupling,
            small: mtu + mtu,
            classic: Chance::NEVER,
            linear: Chance::NEVER,
            classic_overload: false,
            scalable_overload: false,
        }
    }
}

impl Pi2 {
    /// Turns the base probability into what packets are compared with.
    fn set_chances(&mut self) {
        let p = self.pi.probability();
        let (classic, linear) = (p * p, p * self.coupling);
        self.classic = Chance::new(classic);
        self.linear = Chance::new(linear);
        self.classic_overload = classic >= (1.0 / (self.coupling * self.coupling)).min(1.0);
        self.scalable_overload = linear >= 1.0;
    }

    fn classic(&self, m: &Moment, p: &Packet) -> Verdict {
        if self.classic.hits(m.random_bits::<Self>()) {
            Verdict::signal(p, self.ecn && !self.classic_overload, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }

    fn scalable(&self, m: &Moment) -> Verdict {
        if self.scalable_overload && self.classic.hits(m.random_bits::<Self>()) {
            Verdict::Drop(Cause::Chance)
        } else if self.linear.hits(m.random_bits::<Self>()) {
            Verdict::Mark(Cause::Chance)
        } else {
            Verdict::Forward
        }
    }
}

impl Aqm for Pi2 {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if m.queue.backlog <= self.small {
            return Verdict::Forward;
        }
        // CE may have been either; RFC 9332 on traffic classification counts it as scalable.
        let scalable = self.ecn && self.scalable && matches!(p.ecn, Ecn::Ect1 | Ecn::Ce);
        if scalable { self.scalable(m) } else { self.classic(m, p) }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.pi.due())
    }

    fn on_wakeup(&mut self, m: &Moment) {
        if self.pi.update(m.now, m.queue.delay) {
            self.set_chances();
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("base_probability", self.pi.probability());
        plot("classic_probability", self.classic.get());
        plot("scalable_probability", self.linear.get());
    }
}

impl Setpoint for Pi2 {
    fn get(&self) -> Duration {
        self.pi.target()
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.pi.set_target(to.clamp(TARGET_MIN, TARGET_MAX));
        self.pi.target()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::View;
    use weir_units::Rate;

    fn moment(now_ms: u64, delay: Duration, dice: u64) -> Moment {
        let queue = View { backlog: Bytes::new(100_000), packets: 67, delay, rate: Rate::from_mbps(100) };
        Moment::new(Time::ZERO + Duration::from_millis(now_ms), queue, dice)
    }

    fn ask(pi2: &mut Pi2, ecn: Ecn, dice: u64) -> Verdict {
        let m = moment(15, Duration::from_millis(15), dice);
        pi2.on_enqueue(&m, &Packet { arrived: m.now, len: Bytes::new(1500), seq: 0, flow: 0, ecn })
    }

    /// At a base probability, reached by one update with gains to match.
    fn at(base: f64) -> Pi2 {
        let params = Params { alpha: base / 0.015, beta: 0.0, ..Params::default() };
        let mut pi2 = Pi2::new(&params, Time::ZERO);
        pi2.on_wakeup(&moment(15, Duration::from_millis(30), 0));
        assert!((pi2.pi.probability() - base).abs() < 1e-12);
        pi2
    }

    /// The number below which dice hit with probability `p`.
    fn edge(p: f64) -> u64 {
        (p * 18_446_744_073_709_551_616.0) as u64
    }

    #[test]
    fn the_square_for_classic_and_twice_for_scalable() {
        let mut pi2 = at(0.065750);
        for (ecn, p, signal) in [
            (Ecn::NotEct, 0.004_323_06, Verdict::Drop(Cause::Chance)),
            (Ecn::Ect0, 0.004_323_06, Verdict::Mark(Cause::Chance)),
            (Ecn::Ect1, 0.1315, Verdict::Mark(Cause::Chance)),
            (Ecn::Ce, 0.1315, Verdict::Mark(Cause::Chance)),
        ] {
            assert_eq!(ask(&mut pi2, ecn, edge(p * 0.999_99)), signal, "{ecn:?}");
            assert_eq!(ask(&mut pi2, ecn, edge(p * 1.000_01)), Verdict::Forward, "{ecn:?}");
        }
    }

    #[test]
    fn without_ecn_or_l4s_all_are_classic() {
        let mut pi2 = at(0.065750);
        pi2.scalable = false;
        assert_eq!(ask(&mut pi2, Ecn::Ect1, edge(0.1)), Verdict::Forward);
        assert_eq!(ask(&mut pi2, Ecn::Ect1, 0), Verdict::Mark(Cause::Chance));
        (pi2.scalable, pi2.ecn) = (true, false);
        assert_eq!(ask(&mut pi2, Ecn::Ect1, 0), Verdict::Drop(Cause::Chance));
    }

    #[test]
    fn in_overload_ecn_is_no_protection() {
        let mut below = at(0.499);
        assert_eq!(ask(&mut below, Ecn::Ect0, 0), Verdict::Mark(Cause::Chance));
        assert_eq!(ask(&mut below, Ecn::Ect1, 0), Verdict::Mark(Cause::Chance));
        let mut over = at(0.5);
        assert_eq!(ask(&mut over, Ecn::Ect0, edge(0.24)), Verdict::Drop(Cause::Chance));
        assert_eq!(ask(&mut over, Ecn::Ect1, edge(0.24)), Verdict::Drop(Cause::Chance));
        assert_eq!(ask(&mut over, Ecn::Ect1, edge(0.26)), Verdict::Mark(Cause::Chance));
        assert_eq!(ask(&mut over, Ecn::Ect0, edge(0.26)), Verdict::Forward);
    }

    #[test]
    fn two_packets_may_always_wait() {
        let mut pi2 = at(1.0);
        let mut m = moment(15, Duration::from_millis(15), 0);
        let p = Packet { arrived: m.now, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
        m.queue.backlog = Bytes::new(3076);
        assert_eq!(pi2.on_enqueue(&m, &p), Verdict::Forward);
        m.queue.backlog = Bytes::new(3077);
        assert_eq!(pi2.on_enqueue(&m, &p), Verdict::Drop(Cause::Chance));
    }
}
