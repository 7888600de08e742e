//! HyStart (Ha and Rhee, 2008) as Linux's CUBIC has it: slow start ends when the queue begins to grow.
//!
//! Two signs are looked for in each round trip. An unbroken train of ACKs that lasts longer than half the
//! smallest RTT means that the window fills that much of the path. A rise of the RTT means that a queue stands.

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
const SEGMENT_BYTES: u64 = 1448;

#[derive(Clone, Debug)]
pub(super) struct HyStart {
    found: bool,
    paced: bool,
    samples: u8,
    round_end: u64,
    round_start: Time,
    last_ack: Time,
    round_min: Duration,
}

impl HyStart {
    pub fn new(now: Time, paced: bool) -> HyStart {
        HyStart {
            found: false,
            paced,
            samples: 0,
            round_end: 0,
            round_start: now,
            last_ack: now,
            round_min: Duration::MAX,
        }
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
        let mut limit = (min_rtt + ack_delay(window, s.srtt)).as_nanos();
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
}

/// The time of four 64 KiB aggregates at the rate of slow start, twice the window per RTT.
fn ack_delay(window: &Window, srtt: Option<Duration>) -> Duration {
    let srtt = srtt.unwrap_or(Duration::ZERO).as_nanos();
    let per_rtt = 2 * u64::from(window.cwnd) * SEGMENT_BYTES;
    Duration::from_nanos(srtt.saturating_mul(ACK_DELAY_BYTES) / per_rtt).min(ACK_DELAY_MAX)
}
