//! CoDel: controlled delay (RFC 8289).
//!
//! Acts at dequeue. A sojourn time that stays above `target` for a whole `interval` starts the dropping
//! state; in it, head packets are signalled at times `interval / sqrt(count)` apart until one sojourn time
//! falls below the target. The pseudocode of RFC 8289 section 5 is a loop over packets; here it is cut into
//! one step per packet, and the host brings the next head after each drop.
//!
//! `1 / sqrt(count)` is computed exactly (IEEE double). With `newton` it is one Newton step per signal from
//! the value before, in 16 bits, as in the Linux kernel (include/net/codel_impl.h): there the second interval
//! is 29 % too short, and a count that jumps is followed slowly.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Sample, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);
const INTERVAL_MIN: Duration = Duration::from_micros(10);
const INTERVAL_MAX: Duration = Duration::from_secs(100);

crate::params! {
    /// Parameters of CoDel.
    pub struct Params {
        /// Acceptable standing queue delay (RFC 8289 section 4.4).
        target: Duration = Duration::from_millis(5), TARGET_MIN => TARGET_MAX;
        /// About a worst-case round-trip time: how long the delay must stand above the target before the
        /// first signal (RFC 8289 section 4.3).
        interval: Duration = Duration::from_millis(100), INTERVAL_MIN => INTERVAL_MAX;
        /// Whether ECN-capable packets are marked instead of dropped (RFC 8289 section 3.1 leaves it open).
        ecn: bool = true, false => true;
        /// A backlog of at most this size is never signalled: one maximum packet must be allowed to wait
        /// (RFC 8289 section 5.4).
        mtu: Bytes = Bytes::new(1538), Bytes::new(1) => Bytes::new(65_536);
        /// Whether the inverse square root is the Linux kernel's: one Newton step per signal, in 16 bits. For
        /// comparisons with `codel` and `fq_codel` of Linux.
        newton: bool = false, false => true;
    }
}

/// Re-entry soon after the last dropping state resumes its rate: within 16 intervals (RFC 8289 section 5.4).
const RESUME_INTERVALS: u64 = 16;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Duration,
    interval: Duration,
    mtu: Bytes,
    ecn: bool,
    dropping: bool,
    /// A packet was dropped in the dropping state and its successor has not been looked at yet.
    dropped: bool,
    /// When the delay will have stood above the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    newton: bool,
    /// The kernel's `1 / sqrt(count)`, in parts of 65536.
    inverse_root: u16,
}

impl Algorithm for CoDel {
    const NAME: &'static str = "codel";
    const SUMMARY: &'static str =
        "Signals at the head, ever faster, while the sojourn time stays above a target for an interval.";
    const SOURCE: &'static str = "RFC 8289";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        CoDel {
            target: params.target,
            interval: params.interval,
            mtu: params.mtu,
            ecn: params.ecn,
            dropping: false,
            dropped: false,
            first_above: None,
            drop_next: start,
            count: 0,
            last_count: 0,
            newton: params.newton,
            inverse_root: u16::MAX,
        }
    }
}

impl CoDel {
    /// One step from the inverse square root of another count towards that of this one, as the kernel makes
    /// it.
    fn newton_step(&mut self) {
        let root = u64::from(self.inverse_root) << 16;
        let square = (root * root) >> 32;
        // x (3 - count x^2) / 2 in 32 bits after the point; divided by 4 first, so that the product fits.
        let rest = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        self.inverse_root = ((rest.wrapping_mul(root) >> 31) >> 16) as u16;
    }

    /// `t + interval / sqrt(count)` (RFC 8289 section 5.3).
    fn control_law(&self, t: Time, count: u32) -> Time {
        if self.newton {
            let spacing = u128::from(self.interval.as_nanos()) * u128::from(self.inverse_root);
            return t + Duration::from_nanos((spacing >> 16) as u64);
        }
        t + self.interval.mul_f64(1.0 / libm::sqrt(f64::from(count.max(1))))
    }

    /// Whether the delay has stood above the target for an interval (`dodequeue`, RFC 8289 section 5.6).
    #[inline]
    fn stands_above(&mut self, m: &Moment, p: &Packet) -> bool {
        if m.now.since(p.arrived) < self.target || m.queue.backlog <= self.mtu {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(m.now + self.interval);
                false
            }
            Some(due) => m.now >= due,
        }
    }

    #[inline(never)]
    fn in_dropping_state(&mut self, now: Time, p: &Packet, above: bool) -> Verdict {
        if !above {
            self.dropping = false;
            self.dropped = false;
            return Verdict::Forward;
        }
        if self.dropped {
            self.dropped = false;
            self.drop_next = self.control_law(self.drop_next, self.count);
        }
        if now < self.drop_next {
            return Verdict::Forward;
        }
        self.count = self.count.saturating_add(1);
        if self.newton {
            self.newton_step();
        }
        let verdict = Verdict::signal(p, self.ecn, Cause::SetPoint);
        match verdict {
            // A marked packet is sent, so the loop of the RFC ends with it.
            Verdict::Mark(_) => self.drop_next = self.control_law(self.drop_next, self.count),
            _ => self.dropped = true,
        }
        verdict
    }

    #[inline(never)]
    fn enter_dropping_state(&mut self, now: Time, p: &Packet) -> Verdict {
        let delta = self.count.saturating_sub(self.last_count);
        let soon = now.since(self.drop_next) < self.interval.saturating_mul(RESUME_INTERVALS);
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.last_count = self.count;
        if self.newton {
            match self.count {
                1 => self.inverse_root = u16::MAX,
                _ => self.newton_step(),
            }
        }
        self.drop_next = self.control_law(now, self.count);
        self.dropping = true;
        Verdict::signal(p, self.ecn, Cause::SetPoint)
    }
}

impl Aqm for CoDel {
    /// Without a sojourn time nothing stands above the target, and a queue that ran empty has left the
    /// dropping state.
    const IGNORES_PASSING: bool = true;

    /// Few packets come while it drops: what it does with them is kept out of line.
    #[inline]
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let above = self.stands_above(m, p);
        if self.dropping {
            self.in_dropping_state(m.now, p, above)
        } else if above {
            self.enter_dropping_state(m.now, p)
        } else {
            Verdict::Forward
        }
    }

    fn on_empty(&mut self, _now: Time) {
        self.first_above = None;
        self.dropping = false;
        self.dropped = false;
    }

    /// The interval stands for a round-trip time, and what was measured is better than what was configured.
    fn on_sample(&mut self, _now: Time, s: Sample) {
        if let Sample::Reaction(time) = s {
            self.interval = time.clamp(INTERVAL_MIN, INTERVAL_MAX);
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("count", f64::from(self.count));
        plot("dropping", f64::from(u8::from(self.dropping)));
        plot("drop_next_s", self.drop_next.as_secs_f64());
    }
}

impl Setpoint for CoDel {
    fn get(&self) -> Duration {
        self.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.target = to.clamp(TARGET_MIN, TARGET_MAX);
        self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, View};
    use std::vec::Vec;
    use weir_units::Rate;

    fn ms(v: f64) -> Time {
        Time::from_nanos((v * 1e6) as u64)
    }

    /// Asks about a head packet that has waited for `wait`, with a long backlog behind it.
    fn head(codel: &mut CoDel, now: Time, wait: Duration, ecn: Ecn) -> Verdict {
        let queue = View {
            backlog: Bytes::new(1_000_000),
            packets: 600,
            delay: wait,
            rate: Rate::from_mbps(100),
        };
        let p = Packet { arrived: now - wait, len: Bytes::new(1500), seq: 0, flow: 0, ecn };
        codel.on_dequeue(&Moment::new(now, queue, 0), &p)
    }

    /// Times of the signals, relative to the first, of a queue that stays 20 ms long; a packet each 50 us.
    fn signals(ecn: Ecn) -> Vec<f64> {
        signals_of(&Params::default(), ecn)
    }

    fn signals_of(params: &Params, ecn: Ecn) -> Vec<f64> {
        let mut codel = CoDel::new(params, Time::ZERO);
        let mut times = Vec::new();
        for step in 0..14_000u64 {
            let now = ms(1000.0) + Duration::from_micros(50 * step);
            while head(&mut codel, now, Duration::from_millis(20), ecn) != Verdict::Forward {
                times.push(now);
                if ecn != Ecn::NotEct {
                    break;
                }
            }
        }
        let first = times[0];
        times.iter().map(|t| t.since(first).as_millis_f64()).collect()
    }

    /// Inverse square roots of 1, 2, 3 ... as the kernel's 16 bits have them: each by one step from the one
    /// before, computed by hand from x (3 - n x^2) / 2.
    #[test]
    fn the_kernels_newton_step_is_there_as_a_parameter() {
        let params = Params { newton: true, ..Params::default() };
        let times = signals_of(&params, Ecn::Ect0);
        let spacings: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut x = 65535.0 / 65536.0;
        for (n, spacing) in spacings.iter().enumerate().take(9) {
            if n > 0 {
                let count = (n + 1) as f64;
                x = x * (3.0 - count * x * x) / 2.0;
            }
            assert!((spacing - 100.0 * x).abs() < 0.12, "after {} signals: {spacing} ms, {} expected", n + 1, 100.0 * x);
        }
        // The second is 29 % too short; then the error goes.
        assert!((spacings[1] - 50.0).abs() < 0.12 && (spacings[8] - 100.0 / 3.0).abs() < 0.5, "{spacings:?}");
        // A count so large that the step would go astray neither panics nor stops signals.
        let mut codel = CoDel::new(&params, Time::ZERO);
        codel.count = u32::MAX;
        codel.newton_step();
        assert!(codel.control_law(Time::ZERO, codel.count) <= Time::ZERO + codel.interval);
    }

    #[test]
    fn drops_follow_the_inverse_square_root() {
        // Sums of 100/sqrt(n) ms: the exact control law of RFC 8289 section 5.3.
        let exact = [
            0.0, 100.0, 170.711, 228.446, 278.446, 323.167, 363.992, 401.788, 437.144, 470.477,
        ];
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let times = signals(ecn);
            for (got, want) in times.iter().zip(exact) {
                // A packet comes each 50 us, so a signal may be that late.
                assert!(*got >= want - 0.001 && *got < want + 0.051, "{ecn:?}: {got} for {want}");
            }
        }
    }

    #[test]
    fn spacings_are_exact() {
        let codel = CoDel::new(&Params::default(), Time::ZERO);
        let spacing = |n| codel.control_law(Time::ZERO, n).since(Time::ZERO).as_millis_f64();
        let exact = [100.0, 70.711, 57.735, 50.0, 44.721, 40.825, 37.796, 35.355, 33.333, 31.623];
        for (n, want) in (1..).zip(exact) {
            assert!((spacing(n) - want).abs() < 0.0005);
        }
    }

    /// In whole numbers, where nothing is rounded: `s` is within a nanosecond of `interval / sqrt(count)` if
    /// and only if `(s - 1)^2 count <= interval^2 <= (s + 1)^2 count`.
    #[test]
    fn the_exact_twin_agrees_within_a_nanosecond() {
        for interval in [10_000u64, 100_000_000, 99_999_999_999] {
            let params = Params { interval: Duration::from_nanos(interval), ..Params::default() };
            let codel = CoDel::new(&params, Time::ZERO);
            for count in (1..3000).chain([65_537, 1_000_003, u32::MAX]) {
                let spacing = u128::from(codel.control_law(Time::ZERO, count).as_nanos());
                let square = |s: u128| s * s * u128::from(count);
                let wanted = u128::from(interval) * u128::from(interval);
                let low = square(spacing.saturating_sub(1));
                assert!(low <= wanted && wanted <= square(spacing + 1), "{interval} {count}: {spacing}");
            }
        }
    }

    #[test]
    fn the_first_signal_waits_an_interval() {
        let mut codel = CoDel::new(&Params::default(), Time::ZERO);
        let wait = Duration::from_millis(6);
        assert_eq!(head(&mut codel, ms(10.0), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(109.9), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(110.0), wait, Ecn::NotEct), Verdict::Drop(Cause::SetPoint));
        // The packet behind a first drop is sent (RFC 8289 section 5.5), whatever its delay.
        assert_eq!(head(&mut codel, ms(110.0), wait, Ecn::NotEct), Verdict::Forward);
    }

    #[test]
    fn a_measured_reaction_time_takes_the_place_of_the_interval() {
        let mut codel = CoDel::new(&Params::default(), Time::ZERO);
        codel.on_sample(ms(1.0), Sample::Reaction(Duration::from_millis(30)));
        let wait = Duration::from_millis(6);
        assert_eq!(head(&mut codel, ms(10.0), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(39.9), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(40.0), wait, Ecn::NotEct), Verdict::Drop(Cause::SetPoint));
    }

    #[test]
    fn one_low_delay_ends_the_dropping_state() {
        let mut codel = CoDel::new(&Params::default(), Time::ZERO);
        let wait = Duration::from_millis(6);
        let _ = head(&mut codel, ms(1000.0), wait, Ecn::NotEct);
        assert_ne!(head(&mut codel, ms(1100.0), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(1150.0), Duration::from_millis(4), Ecn::NotEct), Verdict::Forward);
        // Above again: a whole interval has to pass again.
        assert_eq!(head(&mut codel, ms(1201.0), wait, Ecn::NotEct), Verdict::Forward);
        assert_eq!(head(&mut codel, ms(1300.0), wait, Ecn::NotEct), Verdict::Forward);
        assert_ne!(head(&mut codel, ms(1301.0), wait, Ecn::NotEct), Verdict::Forward);
    }

    #[test]
    fn a_backlog_of_one_packet_is_never_signalled() {
        let mut codel = CoDel::new(&Params::default(), Time::ZERO);
        let queue =
            View { backlog: Bytes::new(1538), packets: 1, delay: Duration::ZERO, rate: Rate::from_mbps(1) };
        for step in 0..100 {
            let now = ms(1000.0 + 10.0 * f64::from(step));
            let p = Packet { arrived: Time::ZERO, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
            assert_eq!(codel.on_dequeue(&Moment::new(now, queue, 0), &p), Verdict::Forward);
        }
    }
}
