//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00, Linux `tcp_bbr`): a model of the path.
//!
//! The bottleneck's rate is the largest delivery rate of ten round trips, its RTT the smallest of ten seconds.
//! The flow is paced at a gain times that rate, with at most two bandwidth-delay products in flight.
//! Left out: detection of policers, and the compensation for aggregated ACKs.

use super::{AckSample, Cause, CongestionControl, Env, Window};
use crate::State;
use weir_units::{Duration, Time};

/// 2/ln 2: the least gain that doubles the rate each round trip.
const HIGH_GAIN: f64 = 2.885;
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const BW_ROUNDS: usize = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const CWND_FLOOR: u32 = 4;
/// Growth by less than this in three rounds means that the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Paced a little below the estimate, so that a queue drains.
const MARGIN: f64 = 0.99;
/// Room in the window for offload bursts and delayed ACKs.
const QUANTA: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// See the [module documentation](self). Boxed, so that flows of other kinds are small.
#[derive(Clone, Debug)]
pub struct Bbr(Box<Model>);

#[derive(Clone, Debug)]
struct Model {
    mode: Mode,
    phase: u8,
    full_rounds: u32,
    full_bw: f64,
    initial_window: u32,
    /// Largest delivery rate of each of the last rounds, in segments per second.
    bw: [f64; BW_ROUNDS],
    bw_max: f64,
    round: u32,
    round_started: bool,
    next_round: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    phase_start: Time,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    prior_cwnd: u32,
    state: State,
    conserving: bool,
    dice: u64,
}

impl Model {
    fn is_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn bdp(&self, gain: f64) -> Option<f64> {
        let rtt = self.min_rtt?;
        (self.bw_max > 0.0).then(|| gain * self.bw_max * rtt.as_secs_f64())
    }

    fn target(&self, gain: f64) -> u32 {
        let bdp = self.bdp(gain).map_or(self.initial_window, |b| (b + 0.999) as u32);
        bdp.saturating_add(QUANTA).max(CWND_FLOOR)
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

    fn update_bw(&mut self, s: &AckSample) {
        self.round_started = false;
        let Some(sample) = s.rate else { return };
        if sample.prior_delivered >= self.next_round {
            self.next_round = s.total_delivered;
            self.round = self.round.wrapping_add(1);
            self.round_started = true;
            self.bw[self.round as usize % BW_ROUNDS] = 0.0;
            self.bw_max = self.bw.iter().copied().fold(0.0, f64::max);
        }
        let Some(rate) = sample.rate else { return };
        if !sample.app_limited || rate >= self.bw_max {
            let slot = &mut self.bw[self.round as usize % BW_ROUNDS];
            *slot = slot.max(rate);
            self.bw_max = self.bw_max.max(rate);
        }
    }

    fn check_full(&mut self, app_limited: bool) {
        if self.is_full() || !self.round_started || app_limited {
            return;
        }
        if self.bw_max >= self.full_bw * FULL_GROWTH {
            self.full_bw = self.bw_max;
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
        }
    }

    fn update_mode(&mut self, s: &AckSample) {
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && f64::from(s.in_flight) <= self.bdp(1.0).unwrap_or(0.0) {
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
        let flight = f64::from(s.prior_in_flight);
        if gain > 1.0 {
            lasted && (s.lost > 0 || flight >= self.bdp(gain).unwrap_or(0.0))
        } else if gain < 1.0 {
            lasted || flight <= self.bdp(1.0).unwrap_or(0.0)
        } else {
            lasted
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, s: &AckSample) {
        let expired = s.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = s.rtt
            && (expired || self.min_rtt.is_none_or(|m| rtt <= m))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = s.now;
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(window, s);
        }
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

    fn set_cwnd(&mut self, window: &mut Window, s: &AckSample) {
        let target = self.target(self.cwnd_gain());
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

impl CongestionControl for Bbr {
    const NAME: &'static str = "bbr";
    const SUMMARY: &'static str = "Sends at the measured rate of the bottleneck, whatever is lost.";
    const SOURCE: &'static str = "draft-cardwell-iccrg-bbr-congestion-control-00";
    const PACED: bool = true;
    const WANTS_RATE: bool = true;
    const OWNS_WINDOW: bool = true;

    fn new(env: &Env) -> Bbr {
        Bbr(Box::new(Model {
            mode: Mode::Startup,
            phase: 0,
            full_rounds: 0,
            full_bw: 0.0,
            initial_window: env.initial_window,
            bw: [0.0; BW_ROUNDS],
            bw_max: 0.0,
            round: 0,
            round_started: false,
            next_round: 0,
            min_rtt: None,
            min_rtt_at: env.now,
            phase_start: env.now,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            prior_cwnd: 0,
            state: State::Open,
            conserving: false,
            dice: env.seed,
        }))
    }

    fn on_sample(&mut self, window: &mut Window, s: &AckSample) {
        let model = &mut self.0;
        model.update_bw(s);
        model.check_full(s.rate.is_some_and(|r| r.app_limited));
        model.update_mode(s);
        model.update_min_rtt(window, s);
        model.set_cwnd(window, s);
    }

    fn grow(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// Loss does not reduce the model; the window is remembered for the end of the repair.
    fn ssthresh(&mut self, window: &Window, _cause: Cause) -> u32 {
        let repairing = matches!(self.0.state, State::Recovery | State::Loss);
        self.0.prior_cwnd = if !repairing && self.0.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.0.prior_cwnd.max(window.cwnd)
        };
        window.cwnd
    }

    fn on_undo(&mut self) {
        self.0.full_bw = 0.0;
        self.0.full_rounds = 0;
    }

    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>) -> Option<f64> {
        if self.0.bw_max > 0.0 {
            return Some(self.0.pacing_gain() * self.0.bw_max * MARGIN);
        }
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).as_secs_f64();
        Some(HIGH_GAIN * f64::from(window.cwnd) / rtt)
    }
}
