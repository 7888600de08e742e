//! GSP: global synchronization protection (draft-lauten-aqm-gsp-03).
//!
//! Acts at enqueue. One packet is signalled when the queue stands above its threshold, then GSP is silent
//! for a timeout, so that not all flows back off together. *Basic* GSP has a constant timeout; *adaptive*
//! GSP (section 4.2) shortens it while the queue is above the threshold more than a third of the time; the
//! *delay-based* form (section 5.2) compares the sojourn time of the packet that left last instead of the
//! backlog. All three are parameters here.
//!
//! ```text
//! above    = delay > target                      delay-based
//!          = backlog > target * rate             size-based
//! cum_time = clamp(cum_time + alpha * (time above) - (time below), 0, max_cum)
//! interval = initial_interval / (1 + cum_time / tau)
//! ```
//!
//! After an overflow, time below is not counted until the queue was empty and then above the threshold
//! once more: without that guard the interval would spring back while the queue drains.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Verdict};
use weir_units::{Duration, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of GSP.
    pub struct Params {
        /// Threshold of the queue: as a delay, or in the size-based form as the time the backlog takes at
        /// the link's rate. The draft proposes half the buffer (section 4.1) or a few milliseconds.
        target: Duration = Duration::from_micros(2500), TARGET_MIN => TARGET_MAX;
        /// Timeout after a signal: 1 to 3 round-trip times of the dominating traffic (section 4.1).
        interval: Duration = Duration::from_millis(100), Duration::from_micros(10) => Duration::from_secs(100);
        /// Whether the timeout adapts to the time spent above the threshold (section 4.2).
        adaptive: bool = true, false => true;
        /// Whether the sojourn time is compared (section 5.2) and not the backlog.
        delay_based: bool = true, false => true;
        /// Time constant of the adaptation: about five timeouts (section 4.2).
        tau: Duration = Duration::from_millis(500), Duration::from_micros(10) => Duration::from_secs(1000);
        /// Weight of time above the threshold against time below it (section 4.2).
        alpha: f64 = 2.0, 0.0 => 100.0;
        /// Most that the adaptation accumulates; the draft says several minutes (section 4.2).
        max_cum: Duration = Duration::from_secs(300), Duration::ZERO => Duration::from_secs(3600);
        /// Whether an arrival at an empty queue restarts the timeout, so that a burst passes (section 4.4).
        burst_rule: bool = true, false => true;
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
    }
}

/// Whether time below the threshold counts (section 4.3 of the draft).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guard {
    /// It counts.
    Clear,
    /// The buffer was full; it does not count until the queue was empty.
    Overflow,
    /// The queue was empty after an overflow; it does not count until it is above the threshold again.
    Drain,
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Gsp {
    target: Duration,
    initial_interval: Duration,
    tau: Duration,
    alpha: f64,
    max_cum: Duration,
    adaptive: bool,
    delay_based: bool,
    burst_rule: bool,
    ecn: bool,
    guard: Guard,
    was_above: bool,
    last_update: Time,
    timeout_expiry: Time,
    cum_time: Duration,
}

impl Algorithm for Gsp {
    const NAME: &'static str = "gsp";
    const SUMMARY: &'static str =
        "Signals one packet above the threshold, then is silent for a timeout that adapts to the load.";
    const SOURCE: &'static str = "draft-lauten-aqm-gsp-03";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        Gsp {
            target: params.target,
            initial_interval: params.interval,
            tau: params.tau,
            alpha: params.alpha,
            max_cum: params.max_cum,
            adaptive: params.adaptive,
            delay_based: params.delay_based,
            burst_rule: params.burst_rule,
            ecn: params.ecn,
            guard: Guard::Clear,
            was_above: false,
            last_update: start,
            timeout_expiry: start,
            cum_time: Duration::ZERO,
        }
    }

    /// AQM Steering, section III: 0.025 times the initial timeout.
    fn raise_floor(params: &Params) -> Option<Duration> {
        Some(params.interval.mul_f64(0.025))
    }
}

impl Gsp {
    /// The timeout in force: `initial_interval / (1 + cum_time / tau)`.
    ///
    /// Computed when a timeout starts and not at each arrival, where only its ingredients change.
    pub fn interval(&self) -> Duration {
        // The law without its divisions: this is asked for with every arrival at an empty queue.
        if self.cum_time == Duration::ZERO {
            return self.initial_interval;
        }
        self.initial_interval.mul_f64(1.0 / (1.0 + self.cum_time.as_secs_f64() / self.tau.as_secs_f64()))
    }

    fn is_above(&self, m: &Moment) -> bool {
        if self.delay_based {
            m.queue.delay > self.target
        } else {
            m.queue.backlog > m.queue.rate.bytes_in(self.target)
        }
    }

    /// Adaptation of the timeout and the burst rule; `true` if the queue is above the threshold.
    #[inline]
    fn update(&mut self, m: &Moment, overflow: bool) -> bool {
        let above = self.is_above(m);
        let empty = m.queue.packets == 0;
        if self.adaptive {
            self.adapt(m.now, above, empty, overflow);
        }
        if self.burst_rule && empty {
            self.timeout_expiry = m.now + self.interval();
        }
        above
    }

    fn adapt(&mut self, now: Time, above: bool, empty: bool, overflow: bool) {
        if overflow {
            self.guard = Guard::Overflow;
        }
        if self.guard == Guard::Overflow && empty {
            self.guard = Guard::Drain;
        }
        if self.guard == Guard::Drain && above {
            self.guard = Guard::Clear;
        }
        let gap = now.since(self.last_update);
        // A gap that crosses the threshold is not counted at all.
        if above && self.was_above {
            self.cum_time = (self.cum_time + gap.mul_f64(self.alpha)).min(self.max_cum);
        } else if !above && !self.was_above && self.guard == Guard::Clear {
            self.cum_time -= gap;
        }
        self.was_above = above;
        self.last_update = now;
    }
}

impl Aqm for Gsp {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let above = self.update(m, false);
        if !above || m.now <= self.timeout_expiry {
            return Verdict::Forward;
        }
        self.timeout_expiry = m.now + self.interval();
        Verdict::signal(p, self.ecn, Cause::SetPoint)
    }

    /// The host drops the packet; that does not restart the timeout.
    fn on_overflow(&mut self, m: &Moment, _p: &Packet) {
        self.update(m, true);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("cum_time_s", self.cum_time.as_secs_f64());
        plot("interval_ms", self.interval().as_millis_f64());
        plot("timeout_expiry_s", self.timeout_expiry.as_secs_f64());
        plot("guard", f64::from(self.guard as u8));
    }
}

impl Setpoint for Gsp {
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
    use weir_units::{Bytes, Rate};

    fn arrival(gsp: &mut Gsp, t_s: f64, delay_ms: f64, packets: u32) -> Verdict {
        let now = Time::from_nanos((t_s * 1e9).round() as u64);
        let queue = View {
            backlog: Bytes::new(u64::from(packets) * 1500),
            packets,
            delay: Duration::from_secs_f64(delay_ms / 1e3),
            rate: Rate::from_mbps(1000),
        };
        let p = Packet { arrived: now, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
        gsp.on_enqueue(&Moment::new(now, queue, 0), &p)
    }

    #[test]
    fn the_interval_law() {
        let mut gsp = Gsp::new(&Params::default(), Time::ZERO);
        let law = [
            (0, 100.0),
            (100, 83.3333),
            (250, 66.6667),
            (500, 50.0),
            (1000, 33.3333),
            (5000, 9.0909),
            (60_000, 0.8264),
        ];
        for (cum_ms, interval_ms) in law {
            gsp.cum_time = Duration::from_millis(cum_ms);
            assert!((gsp.interval().as_millis_f64() - interval_ms).abs() < 5e-5, "{cum_ms}");
        }
    }

    /// `initial_interval * tau / (tau + cum_time)` in whole nanoseconds.
    #[test]
    fn the_exact_twin_of_the_interval_agrees_within_a_nanosecond() {
        for initial in [10_000u64, 100_000_000, 100_000_000_000] {
            for tau in [10_000u64, 500_000_000, 1_000_000_000_000] {
                let (interval, tau) = (Duration::from_nanos(initial), Duration::from_nanos(tau));
                let mut gsp = Gsp::new(&Params { interval, tau, ..Params::default() }, Time::ZERO);
                for step in 0..2000u64 {
                    gsp.cum_time = Duration::from_nanos(step * step * 75_011);
                    let [a, tau, cum] = [interval, tau, gsp.cum_time].map(|d| u128::from(d.as_nanos()));
                    let (got, exact) = (u128::from(gsp.interval().as_nanos()), a * tau / (tau + cum));
                    assert!(got.abs_diff(exact) <= 1, "{initial} {tau} {cum}: {got} for {exact}");
                }
            }
        }
    }

    #[test]
    fn a_trace_computed_by_hand() {
        // time s, delay ms, cum_time after, timeout_expiry after, signalled
        let rows = [
            (0.0010, 3.0, 0.0, 0.10100, true),
            (0.0500, 3.2, 0.0980, 0.10100, false),
            (0.1000, 3.4, 0.1980, 0.10100, false),
            (0.1010, 3.4, 0.2000, 0.10100, false),
            (0.1011, 3.4, 0.2002, 0.17251, true),
            (0.1500, 3.5, 0.2980, 0.17251, false),
            (0.1700, 3.6, 0.3380, 0.17251, false),
            (0.1800, 3.6, 0.3580, 0.23828, true),
            (0.2500, 2.0, 0.3580, 0.23828, false),
            (0.3500, 1.0, 0.2580, 0.23828, false),
            (0.5000, 0.5, 0.1080, 0.23828, false),
            (0.6000, 0.5, 0.0080, 0.23828, false),
            (0.6010, 2.6, 0.0080, 0.69943, true),
            (0.7000, 2.7, 0.2060, 0.77082, true),
        ];
        let params = Params { burst_rule: false, ..Params::default() };
        let mut gsp = Gsp::new(&params, Time::ZERO);
        for (t, delay, cum, expiry, signalled) in rows {
            let verdict = arrival(&mut gsp, t, delay, 10);
            assert_eq!(verdict == Verdict::Drop(Cause::SetPoint), signalled, "at {t}");
            assert!((gsp.cum_time.as_secs_f64() - cum).abs() < 1e-8, "cum_time at {t}: {:?}", gsp.cum_time);
            assert!((gsp.timeout_expiry.as_secs_f64() - expiry).abs() < 6e-6, "expiry at {t}");
        }
    }

    #[test]
    fn after_an_overflow_time_below_counts_only_once_drained_and_above_again() {
        let mut gsp = Gsp::new(&Params { burst_rule: false, ..Params::default() }, Time::ZERO);
        let _ = arrival(&mut gsp, 0.1, 3.0, 10);
        let _ = arrival(&mut gsp, 0.2, 3.0, 10);
        let now = Time::from_nanos(200_000_000);
        let queue = View {
            backlog: Bytes::new(1),
            packets: 10,
            delay: Duration::from_millis(3),
            rate: Rate::from_mbps(1),
        };
        let p = Packet { arrived: now, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
        gsp.on_overflow(&Moment::new(now, queue, 0), &p);
        let full = gsp.cum_time;
        assert!(full > Duration::ZERO);
        let _ = arrival(&mut gsp, 0.3, 1.0, 10);
        let _ = arrival(&mut gsp, 0.4, 1.0, 10);
        assert_eq!((gsp.cum_time, gsp.guard), (full, Guard::Overflow));
        let _ = arrival(&mut gsp, 0.5, 0.0, 0);
        assert_eq!((gsp.cum_time, gsp.guard), (full, Guard::Drain));
        let _ = arrival(&mut gsp, 0.6, 3.0, 10);
        assert_eq!((gsp.cum_time, gsp.guard), (full, Guard::Clear));
        let _ = arrival(&mut gsp, 0.61, 1.0, 10);
        let _ = arrival(&mut gsp, 0.62, 1.0, 10);
        assert_eq!(gsp.cum_time, full - Duration::from_millis(10));
    }

    #[test]
    fn basic_gsp_has_a_constant_timeout() {
        let params = Params { adaptive: false, burst_rule: false, ..Params::default() };
        let mut gsp = Gsp::new(&params, Time::ZERO);
        let mut signals = 0;
        for step in 1..=1000 {
            signals += u32::from(arrival(&mut gsp, f64::from(step) * 0.001, 9.0, 10) != Verdict::Forward);
        }
        // At 1 ms, and then whenever more than 100 ms have passed on a grid of 1 ms.
        assert_eq!(signals, 10);
    }

    #[test]
    fn the_size_form_compares_the_backlog() {
        let params = Params { delay_based: false, burst_rule: false, ..Params::default() };
        let mut gsp = Gsp::new(&params, Time::ZERO);
        // 2.5 ms at 1 Gbit/s are 312500 bytes: 208 packets of 1500 bytes are below, 209 above.
        assert_eq!(arrival(&mut gsp, 0.1, 50.0, 208), Verdict::Forward);
        assert_eq!(arrival(&mut gsp, 0.2, 0.0, 209), Verdict::Drop(Cause::SetPoint));
    }

    #[test]
    fn a_burst_into_an_empty_queue_passes() {
        let mut gsp = Gsp::new(&Params::default(), Time::ZERO);
        assert_eq!(arrival(&mut gsp, 1.0, 0.0, 0), Verdict::Forward);
        assert_eq!(arrival(&mut gsp, 1.05, 30.0, 500), Verdict::Forward);
        assert_eq!(arrival(&mut gsp, 1.2, 30.0, 500), Verdict::Drop(Cause::SetPoint));
    }
}
