//! Reno: additive increase, multiplicative decrease (RFC 5681).

use super::{AckSample, CWND_MIN, Cause, CongestionControl, Env, Window};

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
pub(super) fn half(window: &Window) -> u32 {
    (window.cwnd / 2).max(CWND_MIN)
}

impl CongestionControl for Reno {
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "One segment more per round trip, half the window at a loss.";
    const SOURCE: &'static str = "RFC 5681";

    fn new(_env: &Env) -> Reno {
        Reno
    }

    #[inline]
    fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        grow(window, sample);
    }

    fn ssthresh(&mut self, window: &Window, _cause: Cause) -> u32 {
        half(window)
    }
}
