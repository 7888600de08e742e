//! HyStart (Ha and Rhee, 2008) as Linux's CUBIC has it: slow start ends when the queue begins to grow.
//!
//! Two signs are looked for in each round trip. An unbroken train of ACKs that lasts longer than half the
//! smallest RTT means that the window fills that much of the path. A rise of the RTT means that a queue
//! stands.

use super::{AckSample, Window};
use weir_units::{Duration, Time};

/// Windows below this are too small to tell.
const LOW_WINDOW: u32 = 16;
/// ACKs closer than this belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Samples of a round trip after which its smallest RTT is trusted.
const MIN_SAMPLES: u8 = 8;
/// Bounds of the rise in RTT that ends slow start; between them it is an eighth of the smallest.
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);
/// Most that is granted for a receiver that gathers ACKs: the time of four of the largest aggregates.
const ACK_DELAY_MAX: Duration = Duration::from_millis(1);
const ACK_DELAY_BYTES: u64 = 4 * 65536;

#[derive(Clone, Debug)]
pub(super) struct HyStart {
    found: bool,
    paced: bool,
    samples: u8,
    mss: u16,
    round_end: u64,
    round_start: Time,
    last_ack: Time,
    round_min: Duration,
}

impl HyStart {
    pub fn new(now: Time, paced: bool, mss: u32) -> HyStart {
        HyStart {
            found: false,
            paced,
            samples: 0,
            mss: u16::try_from(mss).unwrap_or(u16::MAX),
            round_end: 0,
            round_start: now,
            last_ack: now,
            round_min: Duration::MAX,
        }
    }

    /// Slow start begins again.
    pub fn restart(&mut self) {
        self.found = false;
        self.round_end = 0;
    }

    /// An ACK in slow start; `min_rtt` is the smallest RTT known to the congestion control.
    pub fn on_ack(&mut self, window: &mut Window, s: &AckSample, rtt: Duration, min_rtt: Duration) {
        if self.found {
            return;
        }
        if s.una > self.round_end {
            self.start_round(s.now, s.nxt);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        let train = self.train_is_long(window, s, min_rtt);
        if train || self.rtt_rose(rtt, min_rtt) {
            self.found = true;
            window.ssthresh = Some(window.cwnd);
        }
    }

    fn start_round(&mut self, now: Time, nxt: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.round_end = nxt;
        self.round_min = Duration::MAX;
        self.samples = 0;
    }

    fn train_is_long(&mut self, window: &Window, s: &AckSample, min_rtt: Duration) -> bool {
        if s.now.since(self.last_ack) > TRAIN_GAP {
            return false;
        }
        self.last_ack = s.now;
        let mut limit = (min_rtt + self.ack_delay(window, s.srtt)).as_nanos();
        // Pacing spreads the window over half of a round trip by itself.
        if !self.paced {
            limit /= 2;
        }
        s.now.since(self.round_start).as_nanos() > limit
    }

    fn rtt_rose(&mut self, rtt: Duration, min_rtt: Duration) -> bool {
        self.round_min = self.round_min.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let rise = Duration::from_nanos(min_rtt.as_nanos() / 8).clamp(RISE_MIN, RISE_MAX);
        self.round_min > min_rtt + rise
    }

    /// The time of four 64 KiB aggregates at the rate of slow start, twice the window per RTT.
    fn ack_delay(&self, window: &Window, srtt: Option<Duration>) -> Duration {
        let srtt = srtt.unwrap_or(Duration::ZERO).as_nanos();
        let per_rtt = 2 * u64::from(window.cwnd) * u64::from(self.mss);
        Duration::from_nanos(srtt.saturating_mul(ACK_DELAY_BYTES) / per_rtt).min(ACK_DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Feeds one round of ACKs `gap` apart with RTTs of `rtt`; when slow start ended, if it did.
    fn round(paced: bool, cwnd: u32, gap: Duration, rtt: Duration, min_rtt: Duration) -> Option<Duration> {
        let mut hystart = HyStart::new(Time::ZERO, paced, 1448);
        let mut window = Window::new(cwnd);
        for n in 0..200u64 {
            let now = Time::ZERO + Duration::from_nanos(gap.as_nanos() * n);
            let mut sample = AckSample::of_one(now, 1 + n.min(1), rtt, 200);
            sample.srtt = Some(min_rtt);
            hystart.on_ack(&mut window, &sample, rtt, min_rtt);
            if window.ssthresh.is_some() {
                assert_eq!(window.ssthresh, Some(cwnd));
                return Some(now.since(Time::ZERO));
            }
        }
        None
    }

    #[test]
    fn a_train_of_half_the_round_trip_ends_slow_start() {
        let rtt = us(100_000);
        // Half of 100 ms, and of the millisecond granted to a receiver that gathers.
        assert_eq!(round(false, 20, us(2000), rtt, rtt), Some(us(52_000)));
        assert_eq!(round(false, 20, us(1000), rtt, rtt), Some(us(51_000)));
        assert_eq!(round(false, 20, us(2001), rtt, rtt), None);
        // Pacing makes such a train by itself: all of the round trip.
        assert_eq!(round(true, 20, us(1000), rtt, rtt), Some(us(102_000)));
        assert_eq!(round(false, 15, us(1000), rtt, rtt), None);
        assert!(round(false, 16, us(1000), rtt, rtt).is_some());
        // Four aggregates at two windows of 1000 per 10 ms: 0.9 ms.
        assert_eq!(round(false, 1000, us(50), us(10_000), us(10_000)), Some(us(5500)));
    }

    #[test]
    fn a_rise_by_an_eighth_ends_slow_start_after_eight_samples() {
        for (min, limit) in [(100_000, 12_500), (20_000, 4000), (400_000, 16_000)] {
            let at = |rise| round(false, 20, us(3000), us(min + rise), us(min));
            assert_eq!(at(limit), None, "{min}");
            assert_eq!(at(limit + 1), Some(us(24_000)), "{min}");
        }
    }

    #[test]
    fn it_begins_again_after_a_timeout() {
        let mut hystart = HyStart::new(Time::ZERO, false, 1448);
        let mut window = Window::new(20);
        let mut feed = |hystart: &mut HyStart, start: u64| {
            window.ssthresh = None;
            for n in 0..60 {
                let now = Time::ZERO + us(1000 * (start + n));
                let sample = AckSample::of_one(now, start + 1, us(100_000), 1000);
                hystart.on_ack(&mut window, &sample, us(100_000), us(100_000));
            }
            window.ssthresh
        };
        assert_eq!(feed(&mut hystart, 0), Some(20));
        assert_eq!(feed(&mut hystart, 500), None);
        hystart.restart();
        assert_eq!(feed(&mut hystart, 600), Some(20));
    }
}
