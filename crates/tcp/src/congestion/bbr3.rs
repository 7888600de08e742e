//! BBR version 3 (draft-ietf-ccwg-bbr-06): a model of the path that also answers losses and marks.
//!
//! The bottleneck's rate is the largest delivery rate of two cycles of probing, its RTT the smallest of ten
//! seconds. Where probing for rate lost more than 2 %, what was in flight then bounds the window until a
//! later probe gets further; other losses bound rate and window until the next probe. The draft leaves the
//! answer to ECN open but asks that a mark counts as congestion (section 3.7): here a mark, of which a round
//! trip tells no more than one, counts as a loss does where no more than one is told, without SACK (5.3.1.3,
//! 5.5.10.2).

mod control;
mod model;
mod states;

use super::bbr::bandwidth::Bandwidth;
use super::{AckSample, CongestionControl, Env, ReductionCause, Window};
use crate::{RateSample, State};
use weir_params::NoParams;
use weir_units::{Duration, Time};

/// `StartupPacingGain` (section 5.3.1.1).
const STARTUP_PACING_GAIN: f64 = 2.77;
/// `Beta`: the largest cut per round trip with losses (section 2.5).
const BETA: f64 = 0.7;
/// Windows and inflight limits without a bound.
const UNBOUNDED: u32 = u32::MAX;

/// State of the machine (section 5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What ACKs tell of the last probe for rate (section 2.14, `ack_phase`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Feedback {
    Init,
    Refilling,
    Starting,
    Running,
    Stopping,
}

/// What stood when a repair began (section 5.5.11.1).
#[derive(Clone, Copy, Debug)]
struct Saved {
    /// The state that the losses ended.
    phase: Option<Phase>,
    short_bw: f64,
    short_inflight: u32,
    long_inflight: u32,
}

/// See the [module documentation](self). Boxed, so that flows of other kinds are small.
#[derive(Clone, Debug)]
pub struct Bbr3(Box<Model>);

/// Names in parentheses are the draft's.
#[derive(Clone, Debug)]
struct Model {
    phase: Phase,
    initial_window: u32,
    mss: u32,
    dice: u64,
    /// Segments per second (`pacing_rate`).
    pacing: f64,
    /// Whether a measured RTT went into it.
    paced_by_rtt: bool,
    /// Rounds (`round_count`, `round_start`, `next_round_delivered`).
    round: u32,
    round_started: bool,
    next_round: u64,
    /// Largest rate of this cycle and of the one before, in segments per second (`max_bw_filter`).
    cycles: [f64; 2],
    /// In force (`bw`).
    bw: f64,
    /// Bounds until the next probe (`bw_shortterm`, `inflight_shortterm`).
    short_bw: f64,
    short_inflight: u32,
    /// What the last probes found bearable (`inflight_longterm`).
    long_inflight: u32,
    /// Over the last round trip (`bw_latest`, `inflight_latest`).
    latest_bw: f64,
    latest_inflight: u32,
    /// Round trips that delimit losses (`loss_round_delivered`, `loss_round_start`, `is_loss_in_round`).
    loss_round: u64,
    loss_round_started: bool,
    lossy: bool,
    /// Runs of lost segments in the round trip.
    loss_runs: u32,
    /// The sender began a repair or was told of a mark since the last ACK.
    repair_began: bool,
    marked: bool,
    /// Search for a full pipe (`full_bw`, `full_bw_count`, `full_bw_now`, `full_bw_reached`).
    full_bw: f64,
    full_rounds: u32,
    full_now: bool,
    full: bool,
    drain_round: u32,
    /// The probe for rate.
    feedback: Feedback,
    /// What is acknowledged now was sent in a probe (`is_bw_probe_sample`).
    probe_sample: bool,
    probe_up_acked: u32,
    probe_up_per_segment: u32,
    probe_up_rounds: u32,
    rounds_since_up: u32,
    probe_wait: Duration,
    cycle_start: Time,
    too_high: bool,
    precautionary: bool,
    /// RTT (`min_rtt`, `probe_rtt_min_delay`).
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    recent_rtt: Option<Duration>,
    recent_rtt_at: Time,
    recent_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// What was sent before so much was delivered was held back to probe the RTT.
    held_back_until: u64,
    /// Nothing was in flight, and no ACK came since (`idle_restart`).
    idle: bool,
    /// Aggregated ACKs in segments (`extra_acked`).
    excess: Bandwidth,
    excess_since: Time,
    excess_delivered: f64,
    prior_cwnd: u32,
    restore_cwnd: bool,
    saved: Saved,
    /// State of the sender at the last ACK.
    state: State,
}

impl Model {
    fn new(env: &Env) -> Model {
        let nothing = Saved {
            phase: None,
            short_bw: f64::INFINITY,
            short_inflight: UNBOUNDED,
            long_inflight: UNBOUNDED,
        };
        Model {
            phase: Phase::Startup,
            initial_window: env.initial_window,
            mss: env.mss,
            dice: env.seed,
            pacing: STARTUP_PACING_GAIN * f64::from(env.initial_window) * 1000.0,
            paced_by_rtt: false,
            round: 0,
            round_started: false,
            next_round: 0,
            cycles: [0.0; 2],
            bw: 0.0,
            short_bw: f64::INFINITY,
            short_inflight: UNBOUNDED,
            long_inflight: UNBOUNDED,
            latest_bw: 0.0,
            latest_inflight: 0,
            loss_round: 0,
            loss_round_started: false,
            lossy: false,
            loss_runs: 0,
            repair_began: false,
            marked: false,
            full_bw: 0.0,
            full_rounds: 0,
            full_now: false,
            full: false,
            drain_round: 0,
            feedback: Feedback::Init,
            probe_sample: false,
            probe_up_acked: 0,
            probe_up_per_segment: UNBOUNDED,
            probe_up_rounds: 0,
            rounds_since_up: 0,
            probe_wait: Duration::ZERO,
            cycle_start: env.now,
            too_high: false,
            precautionary: false,
            min_rtt: None,
            min_rtt_at: env.now,
            recent_rtt: None,
            recent_rtt_at: env.now,
            recent_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            held_back_until: 0,
            idle: false,
            excess: Bandwidth::default(),
            excess_since: env.now,
            excess_delivered: 0.0,
            prior_cwnd: 0,
            restore_cwnd: false,
            saved: nothing,
            state: State::Open,
        }
    }

    fn max_bw(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    /// Whether a rate is less than the path's because the flow did not try, for want of data or to probe the
    /// RTT (section 5.3.4.3, `MarkConnectionAppLimited`).
    fn is_limited(&self, sample: &RateSample) -> bool {
        sample.app_limited || sample.prior_delivered < self.held_back_until
    }

    /// A number below 2^31.
    fn roll(&mut self) -> u32 {
        self.dice = self.dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.dice >> 33) as u32
    }
}

impl CongestionControl for Bbr3 {
    const NAME: &'static str = "bbr3";
    const SUMMARY: &'static str = "Sends at the measured rate of the bottleneck, within what losses allow.";
    const SOURCE: &'static str = "draft-ietf-ccwg-bbr-06";
    type Params = NoParams;
    const PACED: bool = true;
    const WANTS_RATE: bool = true;
    const OWNS_WINDOW: bool = true;

    fn new(_params: &NoParams, env: &Env) -> Bbr3 {
        Bbr3(Box::new(Model::new(env)))
    }

    /// Section 5.2.3, `UpdateOnACK`, after what section 5.2.4 does for each lost segment.
    fn on_sample(&mut self, window: &mut Window, s: &AckSample) {
        let model = &mut self.0;
        model.follow_repair(window, s);
        let Some(rate) = &s.rate else { return };
        model.note_losses(window, s, rate);
        model.update_latest(s, rate);
        model.update_congestion(window, s, rate);
        model.update_excess(window, s);
        model.check_full(rate);
        model.check_startup(s, rate);
        model.check_drain(s);
        model.update_cycle(window, s, rate);
        model.update_min_rtt(s);
        model.check_probe_rtt(window, s);
        model.advance_latest(rate);
        model.bound_bw();
        model.set_pacing(s);
        model.set_cwnd(window, s);
    }

    fn grow(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// Reduces nothing by itself; the next ACK's sample says what follows from it. A repair may turn out to
    /// have been in vain (section 5.6.4.4, `OnEnterFastRecovery`, `OnEnterRTO`).
    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        if cause == ReductionCause::Mark {
            self.0.marked = true;
        } else {
            self.0.save_state(window);
            self.0.repair_began = true;
        }
        window.cwnd
    }

    fn on_timeout(&mut self) {
        self.0.state = State::Loss;
    }

    /// Section 5.4.1, `HandleRestartFromIdle`.
    fn on_idle(&mut self, now: Time, _idle: Duration) {
        self.0.restart(now);
    }

    fn on_undo(&mut self) {
        self.0.undo();
    }

    fn pacing_rate(&self, _window: &Window, _srtt: Option<Duration>, _out: u32) -> Option<f64> {
        Some(self.0.pacing_now())
    }
}

#[cfg(test)]
mod tests;
