//! The PI controller of PI2 and DualPI2 (RFC 9332 appendix A): from queue delay to a base probability.

use crate::periodic::Periodic;
use weir_units::{Duration, Time};

/// Constants of a [`PiController`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PiGains {
    /// Time between two updates.
    pub t_update: Duration,
    /// Integral gain, per second of delay above the target.
    pub alpha: f64,
    /// Proportional gain, per second of growth of the delay.
    pub beta: f64,
}

impl PiGains {
    /// Gains that are stable for all round-trip times up to `rtt_max` (RFC 9332 appendix A): an update each
    /// `min(target, rtt_max / 3)`, `alpha = 0.1 * t_update / rtt_max^2` and `beta = 0.3 / rtt_max`.
    pub fn for_rtt_max(target: Duration, rtt_max: Duration) -> PiGains {
        let third = Duration::from_nanos(rtt_max.as_nanos() / 3);
        let t_update = target.min(third).max(Duration::from_nanos(1));
        let rtt = rtt_max.max(Duration::from_nanos(1)).as_secs_f64();
        PiGains { t_update, alpha: 0.1 * t_update.as_secs_f64() / (rtt * rtt), beta: 0.3 / rtt }
    }
}

/// Proportional-integral control of a queue's delay.
///
/// ```text
/// p' = clamp(p' + alpha * (delay - target) + beta * (delay - delay at the last update), 0, 1)
/// ```
///
/// `p'` is the base probability. What reacts to signals like 1/p (DCTCP, Prague) gets a multiple of it, what
/// reacts like 1/sqrt(p) (Reno, CUBIC) its square: in terms of `p'` both are linear, so that one pair of
/// gains fits all loads.
#[derive(Clone, Copy, Debug)]
pub struct PiController {
    target: Duration,
    alpha: f64,
    beta: f64,
    updates: Periodic,
    delay: Duration,
    p: f64,
}

impl PiController {
    /// A controller at zero, with its first update one period after `start`.
    pub fn new(target: Duration, gains: PiGains, start: Time) -> PiController {
        let PiGains { t_update, alpha, beta } = gains;
        let updates = Periodic::new(t_update, start);
        PiController { target, alpha, beta, updates, delay: Duration::ZERO, p: 0.0 }
    }

    /// The same, as it stands at a base probability with a delay seen at the last update.
    pub fn standing_at(self, p: f64, delay: Duration) -> PiController {
        PiController { p, delay, ..self }
    }

    /// What it was made with.
    pub fn gains(&self) -> PiGains {
        PiGains { t_update: self.updates.period(), alpha: self.alpha, beta: self.beta }
    }

    /// The base probability p'.
    pub fn probability(&self) -> f64 {
        self.p
    }

    /// The delay that is aimed at.
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Aims at another delay from the next update on.
    pub fn set_target(&mut self, to: Duration) {
        self.target = to;
    }

    /// When the next update is due.
    #[inline]
    pub fn due(&self) -> Time {
        self.updates.due()
    }

    /// Does the updates that are due at `now`, for a queue with this delay; `false` if there were none.
    ///
    /// Of several updates only the first sees the delay change. The others add the same each time, so that
    /// they are one multiplication, however many.
    pub fn update(&mut self, now: Time, delay: Duration) -> bool {
        let updates = self.updates.take(now);
        if updates == 0 {
            return false;
        }
        let error = self.alpha * (delay.as_secs_f64() - self.target.as_secs_f64());
        let growth = self.beta * (delay.as_secs_f64() - self.delay.as_secs_f64());
        self.p = (self.p + error + growth).clamp(0.0, 1.0);
        self.p = (self.p + error * (updates - 1) as f64).clamp(0.0, 1.0);
        self.delay = delay;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Duration {
        Duration::from_millis(v)
    }

    fn controller(alpha: f64, beta: f64, p: f64, delay: Duration) -> PiController {
        let gains = PiGains { t_update: ms(15), alpha, beta };
        PiController::new(ms(15), gains, Time::ZERO).standing_at(p, delay)
    }

    #[test]
    fn one_update_by_hand() {
        // From p' = 0.05, 15 ms at the last update and 20 ms now: gains of the RFC, and of the Linux kernel.
        for (alpha, beta, want) in
            [(0.15, 3.0, 0.06575), (0.16, 3.2, 0.0668), (41.0 / 256.0, 819.0 / 256.0, 0.066797)]
        {
            let mut pi = controller(alpha, beta, 0.05, ms(15));
            assert!(pi.update(Time::ZERO + ms(15), ms(20)));
            assert!((pi.probability() - want).abs() < 5e-7, "{}", pi.probability());
        }
    }

    #[test]
    fn the_gains_follow_from_the_longest_round_trip_time() {
        let gains = PiGains::for_rtt_max(ms(15), ms(100));
        assert_eq!(gains.t_update, ms(15));
        assert!((gains.alpha - 0.15).abs() < 1e-12 && (gains.beta - 3.0).abs() < 1e-12, "{gains:?}");
        assert_eq!(PiGains::for_rtt_max(ms(15), ms(30)).t_update, ms(10));
    }

    #[test]
    fn missed_updates_are_as_good_as_done() {
        for (p, before, delay) in [(0.02, 15, 17), (0.9, 20, 60), (0.03, 30, 0), (0.5, 0, 15)] {
            let mut one_by_one = controller(0.15, 3.0, p, ms(before));
            let mut late = one_by_one;
            for n in 1..=20 {
                assert!(one_by_one.update(Time::ZERO + ms(15 * n), ms(delay)));
            }
            assert!(late.update(Time::ZERO + ms(15 * 20 + 14), ms(delay)));
            assert!((late.probability() - one_by_one.probability()).abs() < 1e-14, "{p}");
            assert_eq!(late.due(), one_by_one.due());
            assert!(!late.update(Time::ZERO + ms(15 * 20 + 14), ms(delay)));
        }
    }

    #[test]
    fn an_idle_day_brings_it_to_zero_and_an_hour_of_stall_to_one() {
        let mut pi = controller(0.15, 3.0, 1.0, ms(100));
        pi.update(Time::ZERO + Duration::from_secs(86_400), Duration::ZERO);
        assert_eq!(pi.probability(), 0.0);
        pi.update(Time::ZERO + Duration::from_secs(90_000), ms(16));
        assert_eq!(pi.probability(), 1.0);
    }
}
