//! CUBIC (RFC 9438) with Linux's constants, its integer arithmetic and its HyStart.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max      K = cbrt((W_max - cwnd) / C)      C = 0.4
//! ```
//!
//! The time is counted in 1/1024 s, C is 410/1024 and the factor after a loss 717/1024. Growth is held as the
//! number of ACKed segments per segment of growth, computed once per change of cwnd and jiffy, or 32 times a
//! second. It is at least 2, so that the window grows by no more than half per round trip.

use super::hystart::HyStart;
use super::hystart_plus::HyStartPlus;
use super::{AckSample, ReductionCause, CongestionControl, Env, Window};
use crate::nanos::OptionNanos;
use weir_units::{Duration, Time};

weir_params::params! {
    /// Parameters of CUBIC.
    pub struct Params {
        /// Whether slow start of CUBIC ends early when the delay rises (HyStart).
        hystart: bool = true, false => true;
        /// Whether that is HyStart++ (RFC 9406) and not Linux's HyStart.
        hystart_plus: bool = false, false => true;
    }
}

/// The factor after a loss, in 1/1024.
const BETA: u32 = 717;
/// C in 1/1024.
const C: u64 = 410;
/// C and the cube of the time unit as one shift: 2^10 for C, 2^30 for the cube of 1/1024 s.
const CUBE_SHIFT: u32 = 40;
/// A window of Reno's growth and CUBIC's backing off gains one per this many eighths of a window:
/// 8 (1 + beta) / (3 (1 - beta)) with beta = 717/1024, rounded down.
const FRIENDLY_EIGHTHS: u64 = 15;
/// A tick of Linux's clock at HZ = 250, as Debian and others build it.
const JIFFY: Duration = Duration::from_millis(4);
const JIFFIES_PER_SEC: u32 = 250;
/// Growth with nothing known about the path: at least a segment per 20.
const FIRST_EPOCH_MAX: u32 = 20;
/// Farther from K than this the cubic has left every window behind; keeps the cube in 64 bits.
const OFFSET_MAX: u64 = 1 << 17;

/// The time from a window `below` segments under W_max up to W_max, in 1/1024 s.
pub fn time_to_origin(below: u32) -> u64 {
    let cube = (1u64 << CUBE_SHIFT) / C * u64::from(below);
    (libm::cbrt(cube as f64) + 0.5) as u64
}

/// The cubic at `t`, with `k` and `t` in 1/1024 s and `origin` its plateau.
pub fn window_at(t: u64, k: u64, origin: u32) -> u32 {
    let offset = t.abs_diff(k).min(OFFSET_MAX);
    let delta = ((C * offset * offset * offset) >> CUBE_SHIFT) as u32;
    if t < k { origin.saturating_sub(delta) } else { origin.saturating_add(delta) }
}

/// What holds between two reductions.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began, in jiffies.
    start: u32,
    k: u32,
    origin: u32,
    /// The window that Reno would have.
    friendly: u32,
    /// Segments ACKed towards the next segment of `friendly`.
    acked: u32,
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Cubic {
    /// ACKed segments per segment of growth.
    per: u32,
    last_cwnd: u32,
    /// When `per` was computed, in jiffies.
    last_update: u32,
    /// Window at the last reduction; `None` before and after a timeout.
    w_max: Option<u32>,
    min_rtt: OptionNanos,
    epoch: Option<Epoch>,
    /// ACKed segments not yet counted into the epoch.
    uncounted: u32,
    start: Start,
}

/// How slow start ends before something is lost.
#[derive(Clone, Debug)]
enum Start {
    /// Not at all.
    Plain,
    /// As in Linux.
    HyStart(HyStart),
    /// RFC 9406.
    HyStartPlus(Box<HyStartPlus>),
}

impl Start {
    fn of(params: &Params, env: &Env) -> Start {
        match (params.hystart, params.hystart_plus) {
            (false, _) => Start::Plain,
            (true, false) => Start::HyStart(HyStart::new(env.now, env.paced, env.mss)),
            (true, true) => Start::HyStartPlus(Box::new(HyStartPlus::new(env.paced))),
        }
    }
}

/// Ticks of Linux's clock, which has as many bits and goes on for half a year.
fn jiffies(t: Time) -> u32 {
    (t.as_nanos() / JIFFY.as_nanos()) as u32
}

impl Cubic {
    #[inline]
    fn update(&mut self, cwnd: u32, acked: u32, now: u32) {
        self.uncounted = self.uncounted.saturating_add(acked);
        let elapsed = now.wrapping_sub(self.last_update);
        if self.epoch.is_some() && self.last_cwnd == cwnd && elapsed <= JIFFIES_PER_SEC / 32 {
            return;
        }
        self.recompute(cwnd, acked, now);
    }

    fn recompute(&mut self, cwnd: u32, acked: u32, now: u32) {
        let fresh = self.epoch.is_none();
        if fresh {
            self.uncounted = acked;
        }
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(cwnd, w_max, now));
        if fresh || now != self.last_update {
            self.last_cwnd = cwnd;
            self.last_update = now;
            self.per = epoch.cubic_growth(cwnd, now, self.min_rtt.duration());
            if w_max.is_none() {
                self.per = self.per.min(FIRST_EPOCH_MAX);
            }
        }
        epoch.acked = epoch.acked.saturating_add(core::mem::take(&mut self.uncounted));
        self.per = self.per.min(epoch.friendly_growth(cwnd)).max(2);
    }
}

impl Epoch {
    fn begin(cwnd: u32, w_max: Option<u32>, now: u32) -> Epoch {
        let below = w_max.unwrap_or(0).saturating_sub(cwnd);
        Epoch {
            start: now,
            k: if below == 0 { 0 } else { time_to_origin(below) as u32 },
            origin: cwnd + below,
            friendly: cwnd,
            acked: 0,
        }
    }

    /// ACKed segments per segment of growth so as to be on the cubic in one RTT.
    fn cubic_growth(&self, cwnd: u32, now: u32, min_rtt: Option<Duration>) -> u32 {
        let ahead = min_rtt.unwrap_or(Duration::ZERO).as_nanos().div_ceil(JIFFY.as_nanos());
        let t = (u64::from(now.saturating_sub(self.start)) + ahead) * 1024 / u64::from(JIFFIES_PER_SEC);
        let target = window_at(t, u64::from(self.k), self.origin);
        if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) }
    }

    /// ACKed segments per segment of growth so as not to fall behind Reno.
    fn friendly_growth(&mut self, cwnd: u32) -> u32 {
        let per = ((u64::from(cwnd) * FRIENDLY_EIGHTHS / 8) as u32).max(1);
        // Strictly more than `per` is needed, as in Linux.
        let steps = self.acked.saturating_sub(1) / per;
        self.acked -= steps * per;
        self.friendly = self.friendly.saturating_add(steps);
        match self.friendly.checked_sub(cwnd) {
            None | Some(0) => u32::MAX,
            Some(behind) => cwnd / behind,
        }
    }
}

impl CongestionControl for Cubic {
    const NAME: &'static str = "cubic";
    const SUMMARY: &'static str =
        "A cubic around the window of the last loss, independent of the RTT, never slower than Reno.";
    const SOURCE: &'static str = "RFC 9438";
    type Params = Params;

    fn new(params: &Params, env: &Env) -> Cubic {
        Cubic {
            per: 0,
            last_cwnd: 0,
            last_update: 0,
            w_max: None,
            min_rtt: OptionNanos::NONE,
            epoch: None,
            uncounted: 0,
            start: Start::of(params, env),
        }
    }

    #[inline]
    fn on_sample(&mut self, window: &mut Window, s: &AckSample) {
        let Some(rtt) = s.rtt else { return };
        // Right after a reduction the queue still drains; such samples say nothing about the path.
        if let Some(e) = &self.epoch
            && jiffies(s.now).saturating_sub(e.start) < JIFFIES_PER_SEC
        {
            return;
        }
        let min = self.min_rtt.duration().map_or(rtt, |m| m.min(rtt));
        self.min_rtt = OptionNanos::lasting(min);
        if window.in_slow_start() {
            match &mut self.start {
                Start::Plain => {}
                Start::HyStart(hystart) => hystart.on_ack(window, s, rtt, min),
                Start::HyStartPlus(hystart) => hystart.on_ack(window, s, rtt),
            }
        }
    }

    #[inline]
    fn grow(&mut self, window: &mut Window, s: &AckSample) {
        if !s.cwnd_limited {
            return;
        }
        let mut acked = s.delivered;
        if window.in_slow_start() {
            if let Start::HyStartPlus(hystart) = &mut self.start {
                acked = hystart.growth(window, acked);
            }
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(window.cwnd, acked, jiffies(s.now));
        window.grow(acked, self.per);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.epoch = None;
        // Fast convergence: a flow that did not get back to its last maximum makes room for others.
        self.w_max = if self.w_max.is_some_and(|w| window.cwnd < w) {
            Some((cwnd * u64::from(1024 + BETA) / 2048) as u32)
        } else {
            Some(window.cwnd)
        };
        ((cwnd * u64::from(BETA) / 1024) as u32).max(window.floor(cause))
    }

    /// A timeout forgets what was known about the path.
    fn on_timeout(&mut self) {
        self.per = 0;
        self.last_cwnd = 0;
        self.last_update = 0;
        self.w_max = None;
        self.min_rtt = OptionNanos::NONE;
        self.epoch = None;
        self.uncounted = 0;
        if let Start::HyStart(hystart) = &mut self.start {
            hystart.restart();
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration) {
        if let Some(e) = &mut self.epoch {
            let idle = (idle.as_nanos() / JIFFY.as_nanos()) as u32;
            e.start = e.start.saturating_add(idle).min(jiffies(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_cubic() {
        assert_eq!((1u64 << CUBE_SHIFT) / C, 2_681_735_677);
        assert_eq!(time_to_origin(100 - 70), 4317);
        assert_eq!(time_to_origin(1000 - 700), 9301);
        assert_eq!(time_to_origin(20_000 - 14_003), 25_242);
        // In seconds the integer form is within 0.2 % of K = cbrt((W_max - cwnd) / 0.4).
        for (w_max, k) in [(100u32, 4.2172), (1000, 9.0856), (21_600, 25.303)] {
            let seconds = time_to_origin(w_max * 3 / 10) as f64 / 1024.0;
            assert!((seconds / k - 1.0).abs() < 2e-3, "{w_max}: {seconds}");
        }
        let k = time_to_origin(300);
        for (t, w) in [(0u64, 700.0), (2, 857.7), (5, 972.72)] {
            let integer = f64::from(window_at(t * 1024, k, 1000));
            assert!((integer - w).abs() <= 1.0, "{t}: {integer}");
        }
        assert_eq!(window_at(k, k, 1000), 1000);
        assert_eq!(window_at(u64::MAX, 0, 10), 10 + ((C * (1u64 << 51)) >> 40) as u32);
    }

    fn cubic() -> Cubic {
        Cubic::new(
            &Params::default(),
            &Env { now: Time::ZERO, paced: false, initial_window: 10, mss: 1448, seed: 0 },
        )
    }

    #[test]
    fn fast_convergence() {
        let mut c = cubic();
        c.w_max = Some(100);
        assert_eq!(c.ssthresh(&Window::new(80), ReductionCause::Loss), 56);
        assert_eq!(c.w_max, Some(68));
        assert_eq!(c.ssthresh(&Window::new(90), ReductionCause::Loss), 63);
        assert_eq!(c.w_max, Some(90));
        // One that got back to it has not made room for anybody.
        assert_eq!(c.ssthresh(&Window::new(90), ReductionCause::Loss), 63);
        assert_eq!(c.w_max, Some(90));
        let mut window = Window::new(2);
        assert_eq!((c.ssthresh(&window, ReductionCause::Mark), c.ssthresh(&window, ReductionCause::Timeout)), (2, 2));
        window.least = 1;
        assert_eq!((c.ssthresh(&window, ReductionCause::Mark), c.ssthresh(&window, ReductionCause::Timeout)), (1, 2));
        c.on_timeout();
        assert_eq!(c.w_max, None);
    }

    #[test]
    fn growth_is_at_most_half_a_window_per_round_trip() {
        let mut c = cubic();
        c.w_max = Some(100_000);
        c.update(10, 1, 1);
        c.update(10, 1, 5000);
        assert_eq!(c.per, 2);
    }

    #[test]
    fn an_idle_time_shifts_the_epoch() {
        let mut c = cubic();
        c.w_max = Some(1000);
        c.update(700, 1, 250);
        c.on_idle(Time::ZERO + Duration::from_secs(11), Duration::from_secs(10));
        assert_eq!(c.epoch.unwrap().start, 2750);
        c.on_idle(Time::ZERO + Duration::from_secs(12), Duration::from_secs(10));
        assert_eq!(c.epoch.unwrap().start, 3000);
    }
}
