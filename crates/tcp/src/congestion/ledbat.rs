//! LEDBAT (RFC 6817): a flow of less than best effort, which holds the delay it adds at a target and yields
//! to others.
//!
//! The delay is that of the round trip, since that is what a TCP sender knows: a queue on the way of the
//! acknowledgements counts as well. The window starts as that of any flow, there is no slow start (section
//! 2.4.2 leaves it to the implementer), and a loss halves the window (section 2.4.2).

use super::{AckSample, CWND_MIN, ReductionCause, CongestionControl, Env, Window, reno};
use std::num::NonZeroU32;
use weir_units::{Duration, Time};

weir_params::params! {
    /// Parameters of LEDBAT.
    pub struct Params {
        /// Delay that a LEDBAT flow adds to a link of its own; RFC 6817 allows at most 100 ms.
        delay_target: Duration = Duration::from_millis(100), Duration::from_millis(1) => Duration::from_millis(100);
    }
}

/// Segments per round trip by which the window grows where nothing waits; the RFC allows at most this.
const GAIN: f64 = 1.0;
/// Segments by which the window may exceed what is in flight.
const ALLOWED_INCREASE: u32 = 1;
/// Minutes of which the smallest delay is the base.
const BASE_HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Samples of which the smallest is the delay of now: fewer than two windows hold, and enough to pass over
/// the acknowledgements that were delayed.
const CURRENT_FILTER: usize = 4;

/// A round-trip time in microseconds, small because every flow keeps fourteen.
type Delay = NonZeroU32;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Ledbat {
    /// The smallest delay of each of the last minutes, that of now first.
    base: [Option<Delay>; BASE_HISTORY],
    minute_began: Time,
    current: [Option<Delay>; CURRENT_FILTER],
    next: u8,
    /// What was earned towards one segment more, or less: between -1 and 1.
    part: f64,
    /// The delay to add, in seconds.
    target: f64,
}

impl Ledbat {
    fn remember(&mut self, now: Time, rtt: Duration) {
        while now >= self.minute_began + MINUTE {
            self.minute_began += MINUTE;
            self.base.rotate_right(1);
            self.base[0] = None;
        }
        let micros = u32::try_from(rtt.as_nanos() / 1000).unwrap_or(u32::MAX);
        let delay = Delay::new(micros).unwrap_or(Delay::MIN);
        self.base[0] = Some(self.base[0].map_or(delay, |least| least.min(delay)));
        self.current[usize::from(self.next)] = Some(delay);
        self.next = (self.next + 1) % CURRENT_FILTER as u8;
    }

    /// The delay that packets find in queues, if any was measured.
    fn queuing_delay(&self) -> Option<Duration> {
        let least = |of: &[Option<Delay>]| Some(of.iter().flatten().min()?.get());
        let waited = least(&self.current)?.saturating_sub(least(&self.base)?);
        Some(Duration::from_micros(waited.into()))
    }
}

impl CongestionControl for Ledbat {
    const NAME: &'static str = "ledbat";
    const SUMMARY: &'static str = "Background transfers: adds 100 ms of delay at most and yields to others.";
    const SOURCE: &'static str = "RFC 6817";
    type Params = Params;

    fn new(params: &Params, env: &Env) -> Ledbat {
        Ledbat {
            base: [None; BASE_HISTORY],
            minute_began: env.now,
            current: [None; CURRENT_FILTER],
            next: 0,
            part: 0.0,
            target: params.delay_target.as_secs_f64(),
        }
    }

    #[inline]
    fn on_sample(&mut self, _window: &mut Window, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.remember(sample.now, rtt);
        }
    }

    fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(delay) = self.queuing_delay() else { return };
        let off_target = 1.0 - delay.as_secs_f64() / self.target;
        // However long the queue, no more than is acknowledged is taken away.
        let step = (GAIN * off_target / f64::from(window.cwnd)).max(-1.0);
        self.part += step * f64::from(sample.delivered);
        let whole = self.part.trunc();
        self.part -= whole;
        let moved = (f64::from(window.cwnd) + whole).max(f64::from(CWND_MIN)) as u32;
        // What a window is not used for is not earned. It shrinks by delay and loss alone.
        let most = sample.prior_in_flight.saturating_add(ALLOWED_INCREASE).max(window.cwnd);
        window.cwnd = moved.min(most);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        self.part = 0.0;
        reno::half(window, cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> (Ledbat, Window) {
        let env = Env { now: Time::ZERO, paced: false, initial_window: 10, mss: 1448, seed: 1 };
        (Ledbat::new(&Params::default(), &env), Window::new(10))
    }

    /// One window of acknowledgements, all with that delay.
    fn round(flow: &mut (Ledbat, Window), now: Time, rtt: Duration) -> u32 {
        let (control, window) = flow;
        for _ in 0..window.cwnd {
            let sample = AckSample::of_one(now, 1, rtt, window.cwnd);
            control.on_sample(window, &sample);
            control.grow(window, &sample);
        }
        window.cwnd
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_window_more_each_round_trip_on_an_empty_link_none_at_the_target_less_above() {
        let mut flow = flow();
        for expected in 11..=30 {
            let cwnd = round(&mut flow, Time::ZERO, MS(20));
            assert!(cwnd.abs_diff(expected) <= 1, "{cwnd} {expected}");
        }
        let full = round(&mut flow, Time::ZERO, MS(20));
        // Half of the target: half a segment for each round trip.
        for _ in 0..10 {
            round(&mut flow, Time::ZERO, MS(70));
        }
        let half = flow.1.cwnd;
        assert!((half - full).abs_diff(5) <= 1, "{full} {half}");
        let before = flow.1.cwnd;
        round(&mut flow, Time::ZERO, MS(120));
        assert!(round(&mut flow, Time::ZERO, MS(120)).abs_diff(before) <= 1);
        for _ in 0..10 {
            round(&mut flow, Time::ZERO, MS(220));
        }
        assert!(before.abs_diff(flow.1.cwnd).abs_diff(10) <= 2, "{before} {}", flow.1.cwnd);
    }

    #[test]
    fn the_window_never_falls_below_two_nor_grows_unused() {
        let mut flow = flow();
        round(&mut flow, Time::ZERO, MS(1));
        for _ in 0..300 {
            round(&mut flow, Time::ZERO, Duration::from_secs(5));
        }
        assert_eq!(flow.1.cwnd, CWND_MIN);
        let (control, window) = &mut flow;
        window.cwnd = 50;
        let mut sample = AckSample::of_one(Time::ZERO, 1, MS(1), 50);
        sample.prior_in_flight = 3;
        for _ in 0..1000 {
            control.on_sample(window, &sample);
            control.grow(window, &sample);
        }
        assert_eq!(window.cwnd, 50);
    }

    #[test]
    fn a_longer_way_becomes_the_base_after_ten_minutes() {
        let mut flow = flow();
        round(&mut flow, Time::ZERO, MS(20));
        round(&mut flow, Time::ZERO + MINUTE, MS(150));
        assert_eq!(flow.0.queuing_delay(), Some(MS(130)));
        for minute in 2..10 {
            round(&mut flow, Time::ZERO + Duration::from_secs(60 * minute), MS(150));
            assert_eq!(flow.0.queuing_delay(), Some(MS(130)), "{minute}");
        }
        round(&mut flow, Time::ZERO + Duration::from_secs(600), MS(150));
        assert_eq!(flow.0.queuing_delay(), Some(Duration::ZERO));
    }

    #[test]
    fn a_loss_halves() {
        let (mut control, mut window) = flow();
        window.cwnd = 41;
        assert_eq!(control.ssthresh(&window, ReductionCause::Loss), 20);
    }
}
