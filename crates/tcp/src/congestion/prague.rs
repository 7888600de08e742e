//! Prague in a simple form (draft-briscoe-iccrg-prague-congestion-control): scalable, for L4S.
//!
//! ECT(1) and accurate ECN. Alpha is the share of marked segments, smoothed by 1/16 per round; at marks the
//! window falls by alpha/2 once per round, at a loss by half. A flow with an RTT below 25 ms grows, after 500
//! rounds, as slowly as one with 25 ms. Paced at the rate of the window, twice that in slow start.

use super::{AckSample, ReductionCause, CongestionControl, Env, Window, reno};
use crate::EcnMode;
use weir_params::NoParams;
use weir_units::{Duration, Time};

const GAIN: f64 = 1.0 / 16.0;
/// RTT that shorter flows imitate.
const TARGET_RTT: Duration = Duration::from_millis(25);
/// Rounds after which they do, so that short flows are as fast as ever.
const ROUNDS_BEFORE_TARGET: u32 = 500;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Prague {
    alpha: f64,
    /// The fraction of a segment that the window has beyond whole ones.
    fraction: f64,
    delivered: u64,
    marked: u64,
    rounds: u32,
    round_end: u64,
    /// When the virtual round began; it is no shorter than the target.
    round_start: Time,
    last_cut: Option<Time>,
}

impl Prague {
    /// The RTT that the flow behaves as if it had.
    fn virtual_rtt(&self, srtt: Duration) -> Duration {
        if self.rounds >= ROUNDS_BEFORE_TARGET { srtt.max(TARGET_RTT) } else { srtt }
    }

    fn set(&mut self, window: &mut Window, cwnd: f64) {
        let cwnd = cwnd.clamp(f64::from(window.least), f64::from(u32::MAX / 2));
        window.cwnd = cwnd as u32;
        self.fraction = cwnd - f64::from(window.cwnd);
    }

    fn end_round(&mut self, s: &AckSample, rtt: Duration) {
        if s.una < self.round_end {
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        self.round_end = s.nxt;
        // The window's own rounds delimit the count; alpha follows once per virtual round.
        if s.now.since(self.round_start) < rtt && self.rounds > ROUNDS_BEFORE_TARGET {
            return;
        }
        let share = self.marked as f64 / self.delivered.max(1) as f64;
        self.alpha += GAIN * (share.min(1.0) - self.alpha);
        self.round_start = s.now;
        self.delivered = 0;
        self.marked = 0;
    }

    fn cut(&mut self, window: &mut Window, s: &AckSample, rtt: Duration) {
        if self.last_cut.is_some_and(|t| s.now.since(t) < rtt) {
            return;
        }
        self.last_cut = Some(s.now);
        let cwnd = f64::from(window.cwnd) + self.fraction;
        self.set(window, cwnd * (1.0 - self.alpha / 2.0));
        window.ssthresh = Some(window.cwnd);
    }
}

impl CongestionControl for Prague {
    const NAME: &'static str = "prague";
    const SUMMARY: &'static str = "Scalable control for L4S: falls by half the share of marked segments.";
    const SOURCE: &'static str = "draft-briscoe-iccrg-prague-congestion-control";
    type Params = NoParams;
    const PACED: bool = true;
    const OWNS_MARKS: bool = true;
    const ECN: EcnMode = EcnMode::Accurate;

    fn new(_params: &NoParams, env: &Env) -> Prague {
        Prague {
            alpha: 1.0,
            fraction: 0.0,
            delivered: 0,
            marked: 0,
            rounds: 0,
            round_end: 0,
            round_start: env.now,
            last_cut: None,
        }
    }

    #[inline]
    fn on_sample(&mut self, window: &mut Window, s: &AckSample) {
        self.delivered += u64::from(s.delivered);
        self.marked += u64::from(s.marked);
        let rtt = self.virtual_rtt(s.srtt.unwrap_or(TARGET_RTT));
        self.end_round(s, rtt);
        if s.marked > 0 && matches!(s.state, crate::State::Open | crate::State::Disorder) {
            self.cut(window, s, rtt);
        }
    }

    #[inline]
    fn grow(&mut self, window: &mut Window, s: &AckSample) {
        if !s.cwnd_limited {
            return;
        }
        // Marked segments do not make the window grow.
        let mut acked = s.delivered - s.marked.min(s.delivered);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked == 0 {
            return;
        }
        let srtt = s.srtt.unwrap_or(TARGET_RTT);
        let ratio = srtt.as_secs_f64() / self.virtual_rtt(srtt).as_secs_f64();
        let cwnd = f64::from(window.cwnd) + self.fraction;
        self.set(window, cwnd + f64::from(acked) * ratio * ratio / cwnd);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        self.fraction = 0.0;
        if cause != ReductionCause::Mark {
            return reno::half(window, cause);
        }
        let kept = f64::from(window.cwnd) * (1.0 - self.alpha / 2.0);
        (kept as u32).max(window.floor(cause))
    }

    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, _out: u32) -> Option<f64> {
        let factor = if window.in_slow_start() { 2.0 } else { 1.0 };
        let cwnd = f64::from(window.cwnd) + self.fraction;
        Some(factor * cwnd / srtt?.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(5);

    fn prague() -> Prague {
        let env = Env { now: Time::ZERO, paced: true, initial_window: 10, mss: 1448, seed: 0 };
        Prague::new(&NoParams, &env)
    }

    /// The `n`-th ACK; each ends a round of the window.
    fn ack(n: u64) -> AckSample {
        let now = Time::ZERO + Duration::from_nanos(RTT.as_nanos() * n);
        AckSample { nxt: n, ..AckSample::of_one(now, n, RTT, 10) }
    }

    #[test]
    fn rounds_become_longer_after_five_hundred() {
        let mut prague = prague();
        let mut window = Window::new(10);
        let mut changes = |range: std::ops::RangeInclusive<u64>| {
            let mut count = 0;
            for n in range {
                let before = prague.alpha;
                prague.on_sample(&mut window, &ack(n));
                count += u32::from(prague.alpha != before);
            }
            (count, prague.alpha)
        };
        assert_eq!(changes(1..=1), (1, 15.0 / 16.0));
        assert_eq!(changes(2..=500).0, 499);
        // 25 ms are five rounds.
        assert_eq!(changes(501..=600).0, 20);
    }

    #[test]
    fn a_short_flow_grows_like_one_of_25_ms_in_the_end() {
        let mut prague = prague();
        let mut window = Window::new(100);
        window.ssthresh = Some(50);
        let grown = |prague: &mut Prague, window: &mut Window| {
            let before = f64::from(window.cwnd) + prague.fraction;
            for n in 0..100 {
                prague.grow(window, &ack(n));
            }
            f64::from(window.cwnd) + prague.fraction - before
        };
        // One segment per window of a hundred; a twenty-fifth of it with a fifth of the target's RTT.
        assert!((grown(&mut prague, &mut window) - 1.0).abs() < 0.01);
        prague.rounds = ROUNDS_BEFORE_TARGET;
        assert!((grown(&mut prague, &mut window) - 0.04).abs() < 0.001);
    }

    #[test]
    fn marks_cut_by_half_of_alpha_once_per_round_trip() {
        let mut prague = prague();
        let mut window = Window::new(100);
        let mut marked = |n, alpha| {
            prague.alpha = alpha;
            prague.round_end = u64::MAX;
            prague.on_sample(&mut window, &AckSample { marked: 1, ..ack(n) });
            (window.cwnd, window.ssthresh)
        };
        assert_eq!(marked(10, 0.5), (75, Some(75)));
        assert_eq!(marked(10, 0.5), (75, Some(75)));
        assert_eq!(marked(11, 1.0), (37, Some(37)));
        assert_eq!(prague.fraction, 0.5);
        for least in [2, 1] {
            let mut window = Window::new(2);
            window.least = least;
            prague.last_cut = None;
            prague.fraction = 0.0;
            prague.on_sample(&mut window, &AckSample { marked: 1, ..ack(20) });
            assert_eq!(window.cwnd, least);
        }
        assert_eq!(prague.ssthresh(&Window::new(100), ReductionCause::Loss), 50);
    }
}
