//! Reno: additive increase, multiplicative decrease (RFC 5681).

use super::{AckSample, ReductionCause, CongestionControl, Env, Window};
use weir_params::NoParams;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Reno;

/// Slow start, then one segment per window, while the window is what limits the flow.
#[inline]
pub(super) fn grow(window: &mut Window, sample: &AckSample) {
    if !sample.cwnd_limited {
        return;
    }
    let mut acked = sample.delivered;
    if window.in_slow_start() {
        acked = window.slow_start(acked);
        if acked == 0 {
            return;
        }
    }
    window.grow(acked, window.cwnd);
}

/// Half of the window.
pub(super) fn half(window: &Window, cause: ReductionCause) -> u32 {
    (window.cwnd / 2).max(window.floor(cause))
}

impl CongestionControl for Reno {
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "One segment more per round trip, half the window at a loss.";
    const SOURCE: &'static str = "RFC 5681";
    type Params = NoParams;

    fn new(_params: &NoParams, _env: &Env) -> Reno {
        Reno
    }

    #[inline]
    fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        grow(window, sample);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        half(window, cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    #[test]
    fn pacing_is_quick_only_far_from_the_threshold() {
        let rtt = Some(Duration::from_millis(100));
        let mut window = Window::new(50);
        let rate = |w: &Window, out| Reno.pacing_rate(w, rtt, out).unwrap().round();
        assert_eq!(Reno.pacing_rate(&window, None, 0), None);
        assert_eq!(rate(&window, 0), 1000.0);
        window.ssthresh = Some(102);
        assert_eq!(rate(&window, 50), 1000.0);
        window.ssthresh = Some(101);
        assert_eq!(rate(&window, 50), 600.0);
        // A window that has just fallen does not hold the repair back.
        assert_eq!(rate(&window, 80), 960.0);
    }

    #[test]
    fn half_is_left_but_never_less_than_the_floor() {
        let halves = |least, cause| {
            [101, 3, 1].map(|cwnd| {
                let mut window = Window::new(cwnd);
                window.least = least;
                half(&window, cause)
            })
        };
        assert_eq!(halves(2, ReductionCause::Mark), [50, 2, 2]);
        assert_eq!(halves(1, ReductionCause::Mark), [50, 1, 1]);
        assert_eq!(halves(1, ReductionCause::Loss), [50, 2, 2]);
    }
}
