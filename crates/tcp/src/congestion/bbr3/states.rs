//! The state machine (section 5.3).

use super::model::is_too_high;
use super::{Feedback, Model, Phase, UNBOUNDED};
use crate::RateSample;
use crate::State;
use crate::congestion::{AckSample, Window};
use weir_units::{Duration, Time};

/// `Headroom`: what others may use of what the path can hold (section 2.5).
const HEADROOM: f64 = 0.15;
/// Growth by less than this in three rounds means that the pipe is full (section 5.3.1.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt` (section 5.3.1.3).
const STARTUP_LOSS_RUNS: u32 = 6;
/// Rounds after which draining is given up (section 5.3.2).
const DRAIN_ROUNDS: u32 = 3;
/// Rounds after which Reno would have grown back what it lost on paths where it does well (section 5.3.3.8).
const RENO_ROUNDS: u32 = 63;
/// `ProbeRTTDuration` (section 2.16.2).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Doublings of the growth per round after which it grows no faster (section 5.3.3.9).
const DOUBLINGS: u32 = 30;

impl Model {
    /// Whether in one of the four states of probing for rate.
    pub(super) fn is_cycling(&self) -> bool {
        matches!(self.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    /// Section 5.3.3.9, `IsProbingBW`.
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up)
    }

    /// Section 5.3.1.2, `ResetFullBW`.
    pub(super) fn reset_full(&mut self) {
        self.full_bw = 0.0;
        self.full_rounds = 0;
        self.full_now = false;
    }

    /// Section 5.3.1.2, `CheckFullBWReached`.
    pub(super) fn check_full(&mut self, rate: &RateSample) {
        let Some(sample) = rate.rate else { return };
        if self.full_now || !self.round_started || self.is_limited(rate) {
            return;
        }
        if sample >= self.full_bw * FULL_GROWTH {
            self.reset_full();
            self.full_bw = sample;
            return;
        }
        self.full_rounds += 1;
        self.full_now = self.full_rounds >= FULL_ROUNDS;
        self.full |= self.full_now;
    }

    /// Section 5.3.1, `CheckStartupDone`, and with it the end of a round trip's losses.
    pub(super) fn check_startup(&mut self, s: &AckSample, rate: &RateSample) {
        // A round trip of repairs has passed with the round that the first loss began (section 5.3.1.3).
        if self.phase == Phase::Startup
            && self.loss_round_started
            && self.lossy
            && s.state == State::Recovery
            && self.loss_runs >= STARTUP_LOSS_RUNS
            && is_too_high(rate.lost, rate.sent_in_flight)
        {
            self.leave_startup();
        }
        if self.loss_round_started {
            self.lossy = false;
            self.loss_runs = 0;
        }
        if self.phase == Phase::Startup && self.full {
            self.phase = Phase::Drain;
            self.drain_round = self.round;
        }
    }

    /// Losses or a mark say that the pipe is full (section 5.3.1.3).
    pub(super) fn leave_startup(&mut self) {
        self.saved.phase = Some(Phase::Startup);
        self.full = true;
        self.long_inflight = self.bdp(1.0).max(self.latest_inflight);
    }

    /// Section 5.3.2, `CheckDrainDone`.
    pub(super) fn check_drain(&mut self, s: &AckSample) {
        if self.phase == Phase::Drain
            && (s.in_flight <= self.inflight(self.bw)
                || self.round.wrapping_sub(self.drain_round) > DRAIN_ROUNDS)
        {
            self.start_down(s);
        }
    }

    /// Section 5.3.3.9, `StartProbeBW_DOWN`, and section 5.3.3.8.3, `PickProbeWait`.
    pub(super) fn start_down(&mut self, s: &AckSample) {
        self.enter_down(s.now);
        self.start_round(s);
    }

    fn enter_down(&mut self, now: Time) {
        self.reset_signals();
        self.probe_up_per_segment = UNBOUNDED;
        self.rounds_since_up = self.roll() & 1;
        let share = f64::from(self.roll()) / f64::from(1u32 << 31);
        self.probe_wait = Duration::from_secs(2) + Duration::from_secs_f64(share);
        self.cycle_start = now;
        self.feedback = Feedback::Stopping;
        self.phase = Phase::Down;
    }

    /// Section 5.3.3.9, `StartProbeBW_REFILL`.
    fn start_refill(&mut self, s: &AckSample) {
        self.forget_short_term();
        self.begin_refill();
        self.start_round(s);
    }

    pub(super) fn begin_refill(&mut self) {
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0;
        self.precautionary = false;
        self.feedback = Feedback::Refilling;
        self.phase = Phase::Refill;
    }

    /// Section 5.3.3.9, `StartProbeBW_UP`.
    fn start_up(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        self.probe_sample = true;
        self.feedback = Feedback::Starting;
        self.start_round(s);
        self.reset_full();
        self.full_bw = rate.rate.unwrap_or(0.0);
        self.phase = Phase::Up;
        self.raise_slope(window);
    }

    /// Section 5.3.3.9, `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        if !self.full || self.adapt_long_term(window, s, rate) {
            return;
        }
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(window, s) => self.start_refill(s),
            Phase::Down if self.is_time_to_cruise(s) => self.phase = Phase::Cruise,
            Phase::Refill if self.round_started => self.start_up(window, s, rate),
            Phase::Up => self.check_up(window, s, rate),
            _ => {}
        }
    }

    fn check_up(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        if self.is_time_to_go_down(window, s, rate) {
            self.too_high = false;
            self.start_down(s);
        }
    }

    /// Section 5.3.3.8.3, `IsTimeToProbeBW`.
    fn is_time_to_probe(&self, window: &Window, s: &AckSample) -> bool {
        s.now.since(self.cycle_start) > self.probe_wait
            || self.rounds_since_up >= self.target_inflight(window).min(RENO_ROUNDS)
    }

    fn is_time_to_cruise(&self, s: &AckSample) -> bool {
        s.in_flight <= self.inflight_with_headroom() && s.in_flight <= self.inflight(self.max_bw())
    }

    /// Section 5.3.3.9, `IsTimeToGoDown`. After a probe that went too high the next one only touches the
    /// limit (section 5.3.3.6).
    fn is_time_to_go_down(&mut self, window: &Window, s: &AckSample, rate: &RateSample) -> bool {
        if self.too_high && s.in_flight >= self.long_inflight {
            self.precautionary = true;
            return true;
        }
        if rate.window_used && window.cwnd >= self.long_inflight {
            self.reset_full();
            self.full_bw = rate.rate.unwrap_or(0.0);
            return false;
        }
        self.full_now
    }

    /// Section 5.3.3.9, `AdaptLongTermModel`; whether it moved to another state.
    fn adapt_long_term(&mut self, window: &Window, s: &AckSample, rate: &RateSample) -> bool {
        if self.feedback == Feedback::Starting && self.round_started {
            self.feedback = Feedback::Running;
        }
        if self.is_stopping() {
            self.probe_sample = false;
            self.feedback = Feedback::Init;
            if self.is_cycling() && !self.is_limited(rate) {
                self.advance_max_bw();
            }
            if self.is_cycling() && self.precautionary && !self.too_high {
                self.start_refill(s);
                return true;
            }
        }
        if is_too_high(rate.lost, rate.sent_in_flight) || self.long_inflight == UNBOUNDED {
            return false;
        }
        self.long_inflight = self.long_inflight.max(rate.sent_in_flight);
        if self.phase == Phase::Up {
            self.probe_upward(window, s, rate);
        }
        false
    }

    /// Section 5.3.3.9, `ProbeInflightLongtermUpward`.
    fn probe_upward(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        if !rate.window_used || window.cwnd < self.long_inflight {
            return;
        }
        self.probe_up_acked += s.delivered;
        let more = self.probe_up_acked / self.probe_up_per_segment;
        self.probe_up_acked -= more * self.probe_up_per_segment;
        self.long_inflight = self.long_inflight.saturating_add(more);
        if self.round_started {
            self.raise_slope(window);
        }
    }

    /// Section 5.3.3.9, `RaiseInflightLongtermSlope`.
    pub(super) fn raise_slope(&mut self, window: &Window) {
        let growth = 1u32 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(DOUBLINGS);
        self.probe_up_per_segment = (window.cwnd / growth).max(1);
    }

    /// Section 5.3.3.9, `InflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.long_inflight == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((HEADROOM * f64::from(self.long_inflight)) as u32).max(1);
        self.long_inflight.saturating_sub(headroom).max(super::control::CWND_FLOOR)
    }

    /// Section 5.3.4.3, `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, window: &mut Window, s: &AckSample) {
        // After a pause the first samples tell the RTT by themselves.
        if self.phase != Phase::ProbeRtt && self.recent_rtt_expired && !self.idle {
            self.save_cwnd(window);
            self.phase = Phase::ProbeRtt;
            self.probe_rtt_done = None;
            self.feedback = Feedback::Stopping;
            self.start_round(s);
        }
        if self.phase == Phase::ProbeRtt {
            self.probe_rtt(window, s);
        }
        self.idle &= s.delivered == 0;
    }

    /// Section 5.3.4.3, `HandleProbeRTT`.
    fn probe_rtt(&mut self, window: &mut Window, s: &AckSample) {
        self.held_back_until = s.total_delivered + u64::from(s.in_flight);
        if self.probe_rtt_done.is_none() {
            if s.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(s.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.start_round(s);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_started;
        if self.probe_rtt_round_done && self.leave_probe_rtt(s.now) {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.start_round(s);
        }
    }

    /// Section 5.3.4.3, `CheckProbeRTTDone`, and 5.3.4.4; whether it was.
    fn leave_probe_rtt(&mut self, now: Time) -> bool {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return false;
        }
        self.recent_rtt_at = now;
        self.forget_short_term();
        if self.full {
            self.enter_down(now);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
        true
    }

    /// Section 5.4.1, `HandleRestartFromIdle`. The next ACK gives the window back that probing the RTT took.
    pub(super) fn restart(&mut self, now: Time) {
        self.idle = true;
        self.excess_since = now;
        self.excess_delivered = 0.0;
        if self.phase == Phase::ProbeRtt {
            self.restore_cwnd |= self.leave_probe_rtt(now);
        }
    }
}
