//! How the model of the path is kept, and what follows from it (the draft's section 4).

use super::{HIGH_GAIN, Mode, Model};
use crate::congestion::{AckSample, Window};
use crate::{RateSample, State};
use weir_units::{Duration, Time};

const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const CWND_FLOOR: u32 = 4;
/// Growth by less than this in three rounds means that the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Paced a little below the estimate, so that a queue drains.
const MARGIN: f64 = 0.99;
/// Below this rate a burst is one segment, above it two at least.
const SLOW_BITS_PER_SECOND: f64 = 1.2e6;
/// The largest burst.
const QUANTUM_MAX_BYTES: u32 = 65536;

impl Model {
    fn is_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn bdp(&self, gain: f64) -> Option<f64> {
        let rtt = self.min_rtt?;
        (self.bw.max() > 0.0).then(|| gain * self.bw.max() * rtt.as_secs_f64())
    }

    /// Segments in flight at `gain` times the bandwidth-delay product, with room for three bursts: one at the
    /// sender, one on the way, one at the receiver. Even, as every second segment is acknowledged.
    fn inflight(&self, gain: f64) -> u32 {
        let bdp = self.bdp(gain).map_or(self.initial_window, |b| (b + 0.999) as u32);
        let whole = bdp.saturating_add(3 * self.quantum());
        let even = whole.saturating_add(whole % 2);
        // Where the product is small, the probing phase must get above it too.
        if self.mode == Mode::ProbeBw && self.phase == 0 { even.saturating_add(2) } else { even }
    }

    /// Segments of a burst: what the pacing rate sends in a millisecond, within bounds.
    fn quantum(&self) -> u32 {
        let rate = self.rate();
        let slow = rate * f64::from(self.mss) * 8.0 < SLOW_BITS_PER_SECOND;
        let least = if slow { 1 } else { 2 };
        ((rate / 1000.0) as u32).min(QUANTUM_MAX_BYTES / self.mss).max(least)
    }

    /// Segments per second at which the flow is paced.
    pub(super) fn rate(&self) -> f64 {
        self.pacing_gain() * self.bw.max() * MARGIN
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw => CYCLE[usize::from(self.phase)],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    pub(super) fn update_bw(&mut self, s: &AckSample) {
        self.round_started = false;
        let Some(sample) = s.rate else { return };
        if sample.prior_delivered >= self.next_round {
            self.next_round = s.total_delivered;
            self.round = self.round.wrapping_add(1);
            self.round_started = true;
        }
        let Some(rate) = sample.rate else { return };
        if !self.is_limited(sample) || rate >= self.bw.max() {
            self.bw.add(self.round, rate);
        }
    }

    /// Whether a rate is less than the path's because the flow did not try, for want of data or to probe the
    /// RTT.
    fn is_limited(&self, sample: RateSample) -> bool {
        sample.app_limited || sample.prior_delivered < self.held_back_until
    }

    pub(super) fn check_full(&mut self, s: &AckSample) {
        if self.is_full() || !self.round_started || s.rate.is_some_and(|r| self.is_limited(r)) {
            return;
        }
        if self.bw.max() >= self.full_bw * FULL_GROWTH {
            self.full_bw = self.bw.max();
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
        }
    }

    pub(super) fn update_mode(&mut self, s: &AckSample) {
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && s.in_flight <= self.inflight(1.0) {
            self.enter_probe_bw(s.now);
        }
        if self.mode == Mode::ProbeBw && self.is_phase_over(s) {
            self.phase = (self.phase + 1) % CYCLE.len() as u8;
            self.phase_start = s.now;
        }
    }

    /// Starts in any phase but the draining one, so that flows do not probe together.
    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.dice = self.dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.phase = ((self.dice >> 33) % (CYCLE.len() as u64 - 1)) as u8;
        if self.phase > 0 {
            self.phase += 1;
        }
        self.phase_start = now;
    }

    fn is_phase_over(&self, s: &AckSample) -> bool {
        let lasted = s.now.since(self.phase_start) > self.min_rtt.unwrap_or(Duration::ZERO);
        let gain = CYCLE[usize::from(self.phase)];
        if gain > 1.0 {
            lasted && (s.lost > 0 || s.prior_in_flight >= self.inflight(gain))
        } else if gain < 1.0 {
            lasted || s.prior_in_flight <= self.inflight(1.0)
        } else {
            lasted
        }
    }

    pub(super) fn update_min_rtt(&mut self, window: &mut Window, s: &AckSample) {
        let expired = s.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = s.rtt
            && (expired || self.min_rtt.is_none_or(|m| rtt < m))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = s.now;
        }
        // After a pause the first samples tell the RTT by themselves.
        if expired && !self.idle && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.held_back_until = s.total_delivered + u64::from(s.in_flight);
            self.probe_rtt(window, s);
        }
        self.idle &= s.delivered == 0;
    }

    fn probe_rtt(&mut self, window: &mut Window, s: &AckSample) {
        let Some(done) = self.probe_rtt_done else {
            if s.in_flight <= CWND_FLOOR {
                self.probe_rtt_done = Some(s.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.next_round = s.total_delivered;
            }
            return;
        };
        self.probe_rtt_round_done |= self.round_started;
        if self.probe_rtt_round_done && s.now >= done {
            self.min_rtt_at = s.now;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.prior_cwnd = 0;
            if self.is_full() {
                self.enter_probe_bw(s.now);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    /// Follows loss recovery: no more than what is delivered for a round trip, then back to the old window.
    fn follow_state(&mut self, window: &mut Window, s: &AckSample) -> bool {
        let before = core::mem::replace(&mut self.state, s.state);
        let repairing = |state| matches!(state, State::Recovery | State::Loss);
        if s.lost > 0 {
            window.cwnd = window.cwnd.saturating_sub(s.lost).max(1);
        }
        if s.state == State::Recovery && before != State::Recovery {
            self.conserving = true;
            self.next_round = s.total_delivered;
            window.cwnd = s.in_flight + s.delivered;
        } else if repairing(before) && !repairing(s.state) {
            self.conserving = false;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.prior_cwnd = 0;
        } else if self.round_started {
            self.conserving = false;
        }
        if self.conserving {
            window.cwnd = window.cwnd.max(s.in_flight + s.delivered);
        }
        self.conserving
    }

    pub(super) fn set_cwnd(&mut self, window: &mut Window, s: &AckSample) {
        let target = self.inflight(self.cwnd_gain());
        if !self.follow_state(window, s) {
            if self.is_full() {
                window.cwnd = (window.cwnd + s.delivered).min(target);
            } else if window.cwnd < target || s.total_delivered < u64::from(self.initial_window) {
                window.cwnd += s.delivered;
            }
        }
        window.cwnd = window.cwnd.max(CWND_FLOOR);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(CWND_FLOOR);
        }
    }
}
