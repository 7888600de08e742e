//! The model of the path (section 5.5): rate, RTT, aggregation, and what losses say of them.

use super::{BETA, Feedback, Model, Phase, Saved, UNBOUNDED};
use crate::congestion::{AckSample, Window};
use crate::rate::LOSS_THRESHOLD;
use crate::{HeavyLoss, RateSample, State};
use weir_units::Duration;

/// `MinRTTFilterLen` and `ProbeRTTInterval` (section 2.16).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// Section 5.5.10.2, `IsInflightTooHigh`.
pub(super) fn is_too_high(lost: u32, sent_in_flight: u32) -> bool {
    f64::from(lost) > LOSS_THRESHOLD * f64::from(sent_in_flight)
}

/// What was in flight when losses crossed the threshold (section 5.5.10.2, `InflightAtLoss`).
pub(super) fn inflight_at_loss(heavy: &HeavyLoss) -> u32 {
    let before = f64::from(heavy.sent_in_flight) - 1.0;
    let lost_before = f64::from(heavy.lost) - 1.0;
    let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
    (before + prefix).max(0.0) as u32
}

impl Model {
    /// The sender's repairs begin and end elsewhere; their end gives the window back (section 5.6.4.4).
    pub(super) fn follow_repair(&mut self, window: &mut Window, s: &AckSample) {
        let before = core::mem::replace(&mut self.state, s.state);
        let ended = before >= State::Recovery && s.state < State::Recovery;
        if ended || core::mem::take(&mut self.restore_cwnd) {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
    }

    /// Section 5.6.4.4, `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self, window: &Window) {
        let good = self.state < State::Recovery && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if good { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
    }

    /// Section 5.5.11.1, `SaveStateUponLoss`.
    pub(super) fn save_state(&mut self, window: &Window) {
        self.save_cwnd(window);
        self.saved = Saved {
            phase: None,
            short_bw: self.short_bw,
            short_inflight: self.short_inflight,
            long_inflight: self.long_inflight,
        };
    }

    /// What was taken for lost and what was marked since the last ACK (section 5.5.10.2, `HandleLostPacket`).
    pub(super) fn note_losses(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        let repair_began = core::mem::take(&mut self.repair_began);
        let marked = core::mem::take(&mut self.marked);
        if rate.newly_lost == 0 && !marked && !repair_began {
            return;
        }
        if !self.lossy {
            self.lossy = true;
            self.loss_round = s.total_delivered;
            self.save_state(window);
        }
        self.loss_runs += rate.lost_runs;
        if marked && self.phase == Phase::Startup {
            self.leave_startup();
        }
        if !self.probe_sample {
            return;
        }
        if let Some(heavy) = &rate.heavy_loss {
            self.on_too_high(window, s, inflight_at_loss(heavy), heavy.app_limited);
        } else if marked {
            self.on_too_high(window, s, rate.sent_in_flight, rate.app_limited);
        }
    }

    /// Section 5.5.10.2, `HandleInflightTooHigh`.
    fn on_too_high(&mut self, window: &Window, s: &AckSample, inflight: u32, app_limited: bool) {
        self.too_high = true;
        self.probe_sample = false;
        if !app_limited {
            let least = (f64::from(self.target_inflight(window)) * BETA) as u32;
            self.long_inflight = inflight.max(least);
        }
        if self.phase == Phase::Up {
            self.saved.phase = Some(Phase::Up);
            self.start_down(s);
        }
    }

    /// Section 5.5.10.3, `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, s: &AckSample, rate: &RateSample) {
        self.latest_bw = self.latest_bw.max(rate.rate.unwrap_or(0.0));
        self.latest_inflight = self.latest_inflight.max(rate.delivered);
        self.loss_round_started = rate.prior_delivered >= self.loss_round;
        if self.loss_round_started {
            self.loss_round = s.total_delivered;
        }
    }

    /// Section 5.5.10.3, `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest(&mut self, rate: &RateSample) {
        if self.loss_round_started {
            self.latest_bw = rate.rate.unwrap_or(0.0);
            self.latest_inflight = rate.delivered;
        }
    }

    /// Section 5.5.10.3, `ResetCongestionSignals`.
    pub(super) fn reset_signals(&mut self) {
        self.lossy = false;
        self.loss_runs = 0;
        self.latest_bw = 0.0;
        self.latest_inflight = 0;
    }

    /// Section 5.5.10.3, `UpdateCongestionSignals`. The losses of the round trip are forgotten by
    /// [`Model::check_startup`], which asks for them last.
    pub(super) fn update_congestion(&mut self, window: &Window, s: &AckSample, rate: &RateSample) {
        self.update_round(s, rate);
        self.update_max_bw(rate);
        if self.loss_round_started && self.lossy && !self.is_probing() {
            self.lower_bounds(window);
        }
    }

    /// Section 5.5.1, `UpdateRound`.
    fn update_round(&mut self, s: &AckSample, rate: &RateSample) {
        self.round_started = rate.prior_delivered >= self.next_round;
        if self.round_started {
            self.start_round(s);
            self.round = self.round.wrapping_add(1);
            self.rounds_since_up = self.rounds_since_up.saturating_add(1);
        }
    }

    pub(super) fn start_round(&mut self, s: &AckSample) {
        self.next_round = s.total_delivered;
    }

    /// Section 5.5.5, `UpdateMaxBw`.
    fn update_max_bw(&mut self, rate: &RateSample) {
        let Some(sample) = rate.rate else { return };
        if sample >= self.max_bw() || !self.is_limited(rate) {
            self.cycles[1] = self.cycles[1].max(sample);
        }
    }

    /// A cycle is over (section 5.5.6, `AdvanceMaxBwFilter`). One in which nothing was measured does not
    /// count: nothing would be known of the path.
    pub(super) fn advance_max_bw(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }

    /// Section 5.5.10.3, `InitLowerBounds` and `LossLowerBounds`.
    fn lower_bounds(&mut self, window: &Window) {
        if self.short_bw.is_infinite() {
            self.short_bw = self.max_bw();
        }
        if self.short_inflight == UNBOUNDED {
            self.short_inflight = window.cwnd;
        }
        self.short_bw = self.latest_bw.max(BETA * self.short_bw);
        let least = (BETA * f64::from(self.short_inflight)) as u32;
        self.short_inflight = self.latest_inflight.max(least);
    }

    /// Section 5.5.10.3, `ResetShortTermModel`.
    pub(super) fn forget_short_term(&mut self) {
        self.short_bw = f64::INFINITY;
        self.short_inflight = UNBOUNDED;
    }

    /// Section 5.5.10.3, `BoundBWForModel`.
    pub(super) fn bound_bw(&mut self) {
        self.bw = self.max_bw().min(self.short_bw);
    }

    /// Section 5.5.9, `UpdateACKAggregation`.
    pub(super) fn update_excess(&mut self, window: &Window, s: &AckSample) {
        let mut expected = self.bw * s.now.since(self.excess_since).as_secs_f64();
        if self.excess_delivered <= expected {
            self.excess_delivered = 0.0;
            self.excess_since = s.now;
            expected = 0.0;
        }
        self.excess_delivered += f64::from(s.delivered);
        let extra = (self.excess_delivered - expected).min(f64::from(window.cwnd));
        self.excess.add(self.round, extra);
    }

    /// Segments of aggregated ACKs: the most of ten rounds, in the start of one (section 5.5.9).
    pub(super) fn excess(&self) -> f64 {
        if self.full { self.excess.max() } else { self.excess.latest() }
    }

    /// Section 5.3.4.3, `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, s: &AckSample) {
        self.recent_rtt_expired = s.now.since(self.recent_rtt_at) > PROBE_RTT_INTERVAL;
        if let Some(rtt) = s.rtt
            && (self.recent_rtt_expired || self.recent_rtt.is_none_or(|recent| rtt < recent))
        {
            self.recent_rtt = Some(rtt);
            self.recent_rtt_at = s.now;
        }
        let expired = s.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(recent) = self.recent_rtt
            && (expired || self.min_rtt.is_none_or(|min| recent < min))
        {
            self.min_rtt = Some(recent);
            self.min_rtt_at = self.recent_rtt_at;
        }
    }

    /// Section 5.5.11.2, `HandleSpuriousLossDetection`.
    pub(super) fn undo(&mut self) {
        self.restore_cwnd = true;
        self.lossy = false;
        self.reset_full();
        self.short_bw = self.short_bw.max(self.saved.short_bw);
        self.short_inflight = self.short_inflight.max(self.saved.short_inflight);
        self.long_inflight = self.long_inflight.max(self.saved.long_inflight);
        match self.saved.phase.take() {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full = false;
                if self.phase != Phase::ProbeRtt {
                    self.phase = Phase::Startup;
                }
            }
            Some(Phase::Up) if self.phase != Phase::Up && self.phase != Phase::ProbeRtt => {
                self.forget_short_term();
                self.begin_refill();
            }
            _ => {}
        }
    }

    /// Whether what is acknowledged says that the last probe's feedback is complete.
    pub(super) fn is_stopping(&self) -> bool {
        self.feedback == Feedback::Stopping && self.round_started
    }
}
