//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00, Linux `tcp_bbr`): a model of the path.
//!
//! The bottleneck's rate is the largest delivery rate of ten round trips, its RTT the smallest of ten
//! seconds. The flow is paced at a gain times that rate, with at most two bandwidth-delay products in flight.
//! Left out: detection of policers, and the compensation for aggregated ACKs.

pub(super) mod bandwidth;
mod model;

use super::{AckSample, ReductionCause, CongestionControl, Env, Window};
use crate::State;
use bandwidth::Bandwidth;
use weir_params::NoParams;
use weir_units::{Duration, Time};

/// 2/ln 2: the least gain that doubles the rate each round trip.
const HIGH_GAIN: f64 = 2.885;

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
    mss: u32,
    bw: Bandwidth,
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
    /// Nothing was in flight, and no ACK came since.
    idle: bool,
    /// What was sent before so much was delivered was held back to probe the RTT.
    held_back_until: u64,
    dice: u64,
}

impl CongestionControl for Bbr {
    const NAME: &'static str = "bbr";
    const SUMMARY: &'static str = "Sends at the measured rate of the bottleneck, whatever is lost.";
    const SOURCE: &'static str = "draft-cardwell-iccrg-bbr-congestion-control-00";
    type Params = NoParams;
    const PACED: bool = true;
    const WANTS_RATE: bool = true;
    const OWNS_WINDOW: bool = true;

    fn new(_params: &NoParams, env: &Env) -> Bbr {
        Bbr(Box::new(Model {
            mode: Mode::Startup,
            phase: 0,
            full_rounds: 0,
            full_bw: 0.0,
            initial_window: env.initial_window,
            mss: env.mss,
            bw: Bandwidth::default(),
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
            idle: false,
            held_back_until: 0,
            dice: env.seed,
        }))
    }

    fn on_sample(&mut self, window: &mut Window, s: &AckSample) {
        let model = &mut self.0;
        model.update_bw(s);
        model.check_full(s);
        model.update_mode(s);
        model.update_min_rtt(window, s);
        model.set_cwnd(window, s);
    }

    fn grow(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// Loss does not reduce the model; the window is remembered for the end of the repair.
    fn ssthresh(&mut self, window: &Window, _cause: ReductionCause) -> u32 {
        let repairing = matches!(self.0.state, State::Recovery | State::Loss);
        self.0.prior_cwnd = if !repairing && self.0.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.0.prior_cwnd.max(window.cwnd)
        };
        window.cwnd
    }

    fn on_timeout(&mut self) {
        self.0.full_bw = 0.0;
        self.0.state = State::Loss;
    }

    fn on_idle(&mut self, _now: Time, _idle: Duration) {
        self.0.idle = true;
    }

    fn on_undo(&mut self) {
        self.0.full_bw = 0.0;
        self.0.full_rounds = 0;
    }

    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, _out: u32) -> Option<f64> {
        if self.0.bw.max() > 0.0 {
            return Some(self.0.rate());
        }
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).as_secs_f64();
        Some(HIGH_GAIN * f64::from(window.cwnd) / rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::RateSample;

    /// The ACK that begins a round, with a measured rate in segments per second and too much in flight to
    /// leave draining.
    fn round(number: u64, rate: f64) -> AckSample {
        let rtt = Duration::from_millis(100);
        let now = Time::ZERO + rtt.saturating_mul(number);
        let prior_delivered = 100 * (number - 1);
        let rate = RateSample { rate: Some(rate), prior_delivered, ..RateSample::default() };
        let first = AckSample::of_one(now, 100 * number, rtt, 10_000);
        AckSample { rate: Some(rate), ..first }
    }

    #[test]
    fn three_rounds_without_growth_end_the_startup() {
        let env = Env { now: Time::ZERO, paced: true, initial_window: 10, mss: 1448, seed: 0 };
        let (mut bbr, mut window) = (Bbr::new(&NoParams, &env), Window::new(10));
        // A quarter more each round is growth; the rounds that follow add a few percent.
        let rates = [100.0, 130.0, 170.0, 175.0, 180.0, 185.0];
        let modes = [1, 2, 3, 4, 5, 6].map(|number| {
            bbr.on_sample(&mut window, &round(number, rates[number as usize - 1]));
            bbr.0.mode
        });
        assert_eq!(modes[..5], [Mode::Startup; 5]);
        assert_eq!(modes[5], Mode::Drain);
    }
}
