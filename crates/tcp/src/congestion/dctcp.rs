//! DCTCP (RFC 8257): the window falls in proportion to the share of marked segments.
//!
//! Integer arithmetic as in Linux: alpha in 1/1024, gain 1/16.

use super::{AckSample, ReductionCause, CongestionControl, Env, Window, reno};
use crate::EcnMode;
use weir_params::NoParams;

const ALPHA_MAX: u32 = 1024;
const GAIN_SHIFT: u32 = 4;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Share of marked segments, smoothed, in 1/1024.
    alpha: u32,
    round_end: u64,
    delivered: u64,
    marked: u64,
}

/// The next alpha after a window in which `marked` of `delivered` segments were marked.
pub fn next_alpha(alpha: u32, marked: u64, delivered: u64) -> u32 {
    // The last sixteenths would never decay: then all of it goes.
    let decay = match alpha >> GAIN_SHIFT {
        0 => alpha,
        d => d,
    };
    let gain = (marked << (10 - GAIN_SHIFT)) / delivered.max(1);
    (alpha - decay).saturating_add(gain.min(u64::from(ALPHA_MAX)) as u32).min(ALPHA_MAX)
}

impl CongestionControl for Dctcp {
    const NAME: &'static str = "dctcp";
    const SUMMARY: &'static str = "Falls by half the share of marked segments, for data centres.";
    const SOURCE: &'static str = "RFC 8257";
    type Params = NoParams;
    const ECN: EcnMode = EcnMode::Dctcp;

    fn new(_params: &NoParams, _env: &Env) -> Dctcp {
        Dctcp { alpha: ALPHA_MAX, round_end: 0, delivered: 0, marked: 0 }
    }

    #[inline]
    fn on_sample(&mut self, _window: &mut Window, s: &AckSample) {
        self.delivered += u64::from(s.delivered);
        self.marked += u64::from(s.marked);
        if s.una >= self.round_end {
            self.alpha = next_alpha(self.alpha, self.marked, self.delivered);
            self.round_end = s.nxt;
            self.delivered = 0;
            self.marked = 0;
        }
    }

    #[inline]
    fn grow(&mut self, window: &mut Window, s: &AckSample) {
        reno::grow(window, s);
    }

    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        if cause != ReductionCause::Mark {
            return reno::half(window, cause);
        }
        let cut = (u64::from(window.cwnd) * u64::from(self.alpha)) >> 11;
        (window.cwnd - cut as u32).max(window.floor(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_without_marks() {
        let mut alpha = ALPHA_MAX;
        for expected in [960, 900, 844, 792, 743, 697] {
            alpha = next_alpha(alpha, 0, 10);
            assert_eq!(alpha, expected);
        }
        for _ in 0..100 {
            alpha = next_alpha(alpha, 0, 10);
        }
        assert_eq!(alpha, 0);
    }

    #[test]
    fn known_answers_with_marks() {
        let mut alpha = 0;
        for (marks, expected) in [(10, 0.0625), (10, 0.121094), (10, 0.176025), (0, 0.165024)] {
            alpha = next_alpha(alpha, marks, 10);
            // Whole 1/1024, with one truncation per step.
            assert!((f64::from(alpha) / 1024.0 - expected).abs() < 3.0 / 1024.0, "{alpha}");
        }
        assert_eq!(next_alpha(ALPHA_MAX, 10, 10), ALPHA_MAX);
    }

    #[test]
    fn the_window_falls_by_half_of_alpha_at_marks_and_by_half_at_losses() {
        let mut d = Dctcp { alpha: 256, round_end: 0, delivered: 0, marked: 0 };
        assert_eq!(d.ssthresh(&Window::new(800), ReductionCause::Mark), 700);
        assert_eq!(d.ssthresh(&Window::new(800), ReductionCause::Loss), 400);
        d.alpha = ALPHA_MAX;
        let mut window = Window::new(2);
        assert_eq!(d.ssthresh(&window, ReductionCause::Mark), 2);
        window.least = 1;
        assert_eq!((d.ssthresh(&window, ReductionCause::Mark), d.ssthresh(&window, ReductionCause::Loss)), (1, 2));
    }
}
