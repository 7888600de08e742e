//! HyStart++ (RFC 9406): when the delay of a round trip rises, slow start goes on at a quarter of its pace
//! for some rounds, in case the rise was jitter, before it ends.

use super::{AckSample, Window};
use weir_units::Duration;

/// Bounds of the rise (MIN_RTT_THRESH, MAX_RTT_THRESH); between them it is an eighth (MIN_RTT_DIVISOR).
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);
/// Samples of a round after which its smallest is trusted (N_RTT_SAMPLE).
const MIN_SAMPLES: u8 = 8;
/// How much slower conservative slow start grows (CSS_GROWTH_DIVISOR).
const SLOWER: u32 = 4;
/// Rounds of conservative slow start (CSS_ROUNDS).
const ROUNDS: u8 = 5;
/// Most segments that one acknowledgement counts for without pacing (L).
const MOST_UNPACED: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct HyStartPlus {
    paced: bool,
    samples: u8,
    /// Rounds of conservative slow start that have ended; `None` outside of it.
    conservative: Option<u8>,
    /// Segments acknowledged in it that have not grown the window.
    rest: u8,
    round_end: u64,
    last_min: Duration,
    round_min: Duration,
    /// The delay with which conservative slow start began.
    baseline: Duration,
}

impl HyStartPlus {
    pub fn new(paced: bool) -> HyStartPlus {
        HyStartPlus {
            paced,
            samples: 0,
            conservative: None,
            rest: 0,
            round_end: 0,
            last_min: Duration::MAX,
            round_min: Duration::MAX,
            baseline: Duration::MAX,
        }
    }

    /// An acknowledgement with a round-trip time. Only the first slow start is looked at (section 4.3).
    pub fn on_ack(&mut self, window: &mut Window, s: &AckSample, rtt: Duration) {
        if window.ssthresh.is_some() {
            return;
        }
        if s.una > self.round_end {
            self.round_end = s.nxt;
            self.last_min = self.round_min;
            self.round_min = Duration::MAX;
            self.samples = 0;
            if let Some(rounds) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= ROUNDS {
                    window.ssthresh = Some(window.cwnd);
                    return;
                }
            }
        }
        self.round_min = self.round_min.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < MIN_SAMPLES {
            return;
        }
        if self.conservative.is_some() {
            // The rise was jitter: slow start goes on.
            if self.round_min < self.baseline {
                self.conservative = None;
            }
        } else if self.last_min < Duration::MAX {
            let rise = Duration::from_nanos(self.last_min.as_nanos() / 8).clamp(RISE_MIN, RISE_MAX);
            if self.round_min >= self.last_min + rise {
                self.baseline = self.round_min;
                self.conservative = Some(0);
            }
        }
    }

    /// By how many segments the window grows in slow start for so many acknowledged ones.
    pub fn growth(&mut self, window: &Window, acked: u32) -> u32 {
        if window.ssthresh.is_some() {
            return acked;
        }
        let acked = if self.paced { acked } else { acked.min(MOST_UNPACED) };
        if self.conservative.is_none() {
            return acked;
        }
        let all = u32::from(self.rest) + acked;
        self.rest = (all % SLOWER) as u8;
        all / SLOWER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Time;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ten acknowledgements of a round with this delay; by how much the window grew.
    fn round(h: &mut HyStartPlus, window: &mut Window, number: u64, rtt: Duration) -> u32 {
        let before = window.cwnd;
        for n in 0..10 {
            // The first acknowledgement of a round passes the end of the one before.
            let una = number * 100 + u64::from(n > 0);
            let now = Time::ZERO + ms(1000 * number);
            let sample = AckSample::of_one(now, una, rtt, 50);
            h.on_ack(window, &sample, rtt);
            let growth = h.growth(window, 1);
            window.slow_start(growth);
        }
        window.cwnd - before
    }

    #[test]
    fn a_rise_slows_slow_start_and_five_rounds_end_it() {
        let (mut h, mut w) = (HyStartPlus::new(false), Window::new(10));
        assert_eq!(round(&mut h, &mut w, 1, ms(50)), 10);
        assert_eq!(round(&mut h, &mut w, 2, ms(56)), 10, "a rise of less than an eighth");
        // 56 ms and an eighth, 7 ms; seen with the eighth sample.
        assert_eq!(round(&mut h, &mut w, 3, ms(63)), 7);
        assert!(h.conservative.is_some() && w.ssthresh.is_none());
        let grown: Vec<u32> = (4..8).map(|n| round(&mut h, &mut w, n, ms(70))).collect();
        assert!(grown.iter().all(|g| (2..=3).contains(g)), "{grown:?}");
        assert_eq!(w.ssthresh, None, "the round in which it began counts, four whole ones have begun");
        let before = w.cwnd;
        round(&mut h, &mut w, 8, ms(70));
        assert_eq!(w.ssthresh, Some(before));
    }

    #[test]
    fn jitter_lets_slow_start_go_on() {
        let (mut h, mut w) = (HyStartPlus::new(false), Window::new(10));
        round(&mut h, &mut w, 1, ms(50));
        round(&mut h, &mut w, 2, ms(80));
        assert!(h.conservative.is_some());
        round(&mut h, &mut w, 3, ms(51));
        assert!(h.conservative.is_none());
        assert_eq!((round(&mut h, &mut w, 4, ms(51)), w.ssthresh), (10, None));
    }

    #[test]
    fn one_acknowledgement_counts_for_eight_segments_unless_paced() {
        let w = Window::new(10);
        assert_eq!(HyStartPlus::new(false).growth(&w, 40), 8);
        assert_eq!(HyStartPlus::new(true).growth(&w, 40), 40);
    }
}
