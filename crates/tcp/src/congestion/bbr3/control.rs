//! What follows from the model: pacing rate and window (section 5.6).

use super::{Model, Phase, STARTUP_PACING_GAIN, UNBOUNDED};
use crate::congestion::{AckSample, Window};

/// `MinPipeCwnd` (section 5.6.4.3).
pub(super) const CWND_FLOOR: u32 = 4;
/// `PacingMarginPercent`: paced a little below the estimate, so that a queue drains (section 5.6.2).
const MARGIN: f64 = 0.99;
/// The largest burst (section 5.6.3).
const QUANTUM_MAX_BYTES: u32 = 65536;

impl Model {
    /// Section 5.6.1.
    fn pacing_gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP_PACING_GAIN,
            Phase::Drain => 0.5,
            Phase::Down => 0.9,
            Phase::Up => 1.25,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => 1.0,
        }
    }

    /// Section 5.6.1.
    fn cwnd_gain(&self) -> f64 {
        match self.phase {
            Phase::Up => 2.25,
            Phase::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// Section 5.6.2, `SetPacingRate` and `InitPacingRate`.
    pub(super) fn set_pacing(&mut self, s: &AckSample) {
        if !self.paced_by_rtt
            && let Some(srtt) = s.srtt.map(|srtt| srtt.as_secs_f64()).filter(|srtt| *srtt > 0.0)
        {
            self.paced_by_rtt = true;
            self.pacing = STARTUP_PACING_GAIN * f64::from(self.initial_window) / srtt;
        }
        let rate = self.pacing_gain() * self.bw * MARGIN;
        if rate > 0.0 && (self.full || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    /// Segments per second; after a pause no more than the estimate (section 5.4.1).
    pub(super) fn pacing_now(&self) -> f64 {
        if self.idle && self.is_cycling() && self.bw > 0.0 { self.bw * MARGIN } else { self.pacing }
    }

    /// Segments of a burst (section 5.6.3, `SetSendQuantum`).
    fn quantum(&self) -> u32 {
        ((self.pacing / 1000.0) as u32).min(QUANTUM_MAX_BYTES / self.mss).max(2)
    }

    /// Segments of `gain` bandwidth-delay products at a rate (section 5.6.4.2, `BDPMultiple`).
    fn product(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(f64::from(self.initial_window), |rtt| gain * bw * rtt.as_secs_f64())
    }

    /// Of the estimate in force, rounded up.
    pub(super) fn bdp(&self, gain: f64) -> u32 {
        self.product(self.bw, gain).ceil() as u32
    }

    /// Section 5.6.4.2, `QuantizationBudget`.
    fn with_room(&self, inflight: f64) -> u32 {
        let least = (3 * self.quantum()).max(CWND_FLOOR);
        let whole = (inflight.ceil() as u32).max(least);
        if self.phase == Phase::Up { whole.saturating_add(2) } else { whole }
    }

    /// What a drained path holds at a rate (section 5.6.4.2, `Inflight`).
    pub(super) fn inflight(&self, bw: f64) -> u32 {
        self.with_room(self.product(bw, 1.0))
    }

    /// Section 5.3.3.8.3, `TargetInflight`.
    pub(super) fn target_inflight(&self, window: &Window) -> u32 {
        self.bdp(1.0).min(window.cwnd)
    }

    /// Section 5.6.4.5.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(0.5).max(CWND_FLOOR)
    }

    /// Section 5.6.4.6, `SetCwnd`, and 5.6.4.7, `BoundCwndForModel`.
    pub(super) fn set_cwnd(&mut self, window: &mut Window, s: &AckSample) {
        let target = self.with_room(self.product(self.bw, self.cwnd_gain()) + self.excess());
        if self.full {
            window.cwnd = window.cwnd.saturating_add(s.delivered).min(target);
        } else if window.cwnd < target || s.total_delivered < u64::from(self.initial_window) {
            window.cwnd = window.cwnd.saturating_add(s.delivered);
        }
        window.cwnd = window.cwnd.max(CWND_FLOOR);
        if self.phase == Phase::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_cwnd());
        }
        let long = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.long_inflight,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(),
            Phase::Startup | Phase::Drain => UNBOUNDED,
        };
        window.cwnd = window.cwnd.min(long.min(self.short_inflight).max(CWND_FLOOR));
    }
}
