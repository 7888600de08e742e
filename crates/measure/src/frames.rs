//! Frames of real-time video: what a frame is worth depends on when its last packet comes.

use crate::distribution::Window;
use crate::streams::{Pool, Received, Shown};
use weir_units::{Duration, Time};

/// A picture stands still when the next comes later than the usual distance and this, or than three times
/// the distance (`freezeCount` of W3C's Identifiers for WebRTC's Statistics API).
const NOTICED: Duration = Duration::from_millis(150);

/// The receiving side of a stream of frames.
#[derive(Clone, Debug)]
pub struct Frames {
    interval: Duration,
    late: Duration,
    window: Window,
    bytes: u64,
    /// Delay of the last frame, and when it came.
    last: Option<(Duration, Time)>,
    freezes: u64,
    frozen: Duration,
    is_missing: bool,
    so_far: Received,
}

impl Frames {
    /// Of frames at these distances, of which one is too late after `late`.
    pub fn new(interval: Duration, late: Duration, window: Window) -> Frames {
        Frames {
            interval,
            late,
            window,
            bytes: 0,
            last: None,
            freezes: 0,
            frozen: Duration::ZERO,
            is_missing: false,
            so_far: Received::default(),
        }
    }

    /// A frame arrived whole, or never will; frames come in the order in which they were made.
    pub fn tells(&mut self, made: Time, arrived: Option<Time>, bytes: u32, pool: &mut Pool) {
        let is_measured = self.window.contains(made);
        let before = self.last;
        if let Some(at) = arrived {
            self.last = Some((at.since(made), at));
        }
        if !is_measured {
            return;
        }
        self.so_far.sent += 1;
        let Some(at) = arrived else {
            self.so_far.lost += 1;
            self.so_far.runs += u64::from(!self.is_missing);
            self.is_missing = true;
            return;
        };
        let delay = at.since(made);
        let is_late = delay > self.late;
        self.so_far.late += u64::from(is_late);
        self.so_far.runs += u64::from(is_late && !self.is_missing);
        self.is_missing = is_late;
        self.bytes += u64::from(bytes);
        pool.delays.record(delay);
        if let Some((last, came)) = before {
            pool.steps.record(delay.saturating_sub(last) + last.saturating_sub(delay));
            self.notes_gap(at.since(came.max(self.window.from)));
        }
    }

    fn notes_gap(&mut self, gap: Duration) {
        if gap > self.interval.saturating_mul(3).max(self.interval + NOTICED) {
            self.freezes += 1;
            self.frozen += gap;
        }
    }

    /// The stream, which began at `began`, ends.
    pub fn ends(mut self, began: Time, at: Time, pool: &mut Pool) {
        if self.so_far.sent == 0 {
            return;
        }
        // The last picture stands until the end.
        let since = self.last.map_or(began, |(_, came)| came).max(self.window.from);
        self.notes_gap(at.min(self.window.until).since(since));
        let length = at.min(self.window.until).since(began.max(self.window.from)).as_secs_f64().max(1e-9);
        self.so_far.shown = Some(Shown {
            rate_bps: self.bytes as f64 * 8.0 / length,
            freezes: self.freezes,
            frozen: (self.frozen.as_secs_f64() / length).min(1.0),
        });
        pool.ended.push(self.so_far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn frames_are_judged_by_their_delay_and_by_the_gaps_between_them() {
        let (interval, late) = (Duration::from_millis(40), Duration::from_millis(100));
        let window = Window { from: at(1000), until: at(11_000) };
        let (mut frames, mut pool) = (Frames::new(interval, late, window), Pool::default());
        // 25 frames a second, each 50 ms on its way; ten in a row are lost, and the two before them are late.
        for n in 0..275u64 {
            let made = at(40 * n);
            let arrived = match n {
                100..110 => None,
                98 | 99 => Some(made + Duration::from_millis(150)),
                _ => Some(made + Duration::from_millis(50)),
            };
            frames.tells(made, arrived, 5000, &mut pool);
        }
        frames.ends(at(0), at(11_000), &mut pool);
        let told = pool.ended[0];
        assert_eq!((told.sent, told.lost, told.late, told.runs), (250, 10, 2, 1));
        assert_eq!((pool.delays.count(), told.useless()), (240, 12.0 / 250.0));
        let shown = told.shown.unwrap();
        // 240 frames of 5 kB in ten seconds; from frame 99 at 4.11 s to frame 110 at 4.45 s nothing moves.
        assert!((shown.rate_bps - 240.0 * 5000.0 * 8.0 / 10.0).abs() < 1.0, "{shown:?}");
        assert_eq!(shown.freezes, 1);
        assert!((shown.frozen - 0.034).abs() < 1e-9, "{shown:?}");
    }

    #[test]
    fn a_picture_that_stands_until_the_end_is_frozen() {
        let window = Window { from: at(1000), until: at(11_000) };
        let mut pool = Pool::default();
        let mut frames = Frames::new(Duration::from_millis(40), Duration::from_millis(100), window);
        for n in 0..275u64 {
            let made = at(40 * n);
            frames.tells(made, (n < 150).then(|| made + Duration::from_millis(50)), 5000, &mut pool);
        }
        frames.ends(at(0), at(11_000), &mut pool);
        // The last came at 6.01 s.
        let shown = pool.ended[0].shown.unwrap();
        assert_eq!(shown.freezes, 1);
        assert!((shown.frozen - 0.499).abs() < 1e-9, "{shown:?}");
    }

    #[test]
    fn a_stream_of_which_nothing_is_measured_tells_nothing() {
        let window = Window { from: at(1000), until: at(2000) };
        let mut pool = Pool::default();
        let mut frames = Frames::new(Duration::from_millis(40), Duration::from_millis(100), window);
        frames.tells(at(0), Some(at(50)), 1, &mut pool);
        frames.ends(at(0), at(2000), &mut pool);
        assert!(pool.ended.is_empty() && pool.delays.count() == 0);
    }
}
