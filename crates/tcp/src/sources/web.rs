//! Applications on top of a sender: pages of objects with time to think between them, and data at a rate.

use super::gaps::Gaps;
use super::{Pareto, exponential};
use crate::nanos::OptionNanos;
use std::sync::Arc;
use weir_units::{Bytes, Duration, Rate, Time};

/// What can be chosen about a reader of pages.
#[derive(Clone, Copy, Debug)]
pub struct WebConfig {
    /// Objects per page. At least 1.
    pub objects: u32,
    /// Bytes per object.
    pub size: Pareto,
    /// Mean time from the end of a page to the request of the next.
    pub think: Duration,
}

/// What a reader waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Thinking(Time),
    Loading { left: u32 },
}

/// A reader of pages: loads one object after the other, thinks, and loads the next page.
#[derive(Clone, Debug)]
pub struct Web {
    /// Shared with all readers of the same kind.
    config: Arc<WebConfig>,
    stage: Stage,
    page_start: Time,
    pages: u32,
    last_load: OptionNanos,
    /// Bytes of the page that is loading, or was loaded last.
    page_bytes: u64,
}

impl Web {
    /// A reader that requests its first page at `start`.
    pub fn new(config: Arc<WebConfig>, start: Time) -> Web {
        Web {
            config,
            stage: Stage::Thinking(start),
            page_start: start,
            pages: 0,
            last_load: OptionNanos::NONE,
            page_bytes: 0,
        }
    }

    /// When [`Web::poll`] has to be called; `None` while an object is being transferred.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Thinking(until) => Some(until),
            Stage::Loading { .. } => None,
        }
    }

    /// To be called when the time has come and when the sender is done: the acknowledgement of the last byte
    /// stands for the request of the next object. Returns the bytes to write now.
    pub fn poll(&mut self, now: Time, sender_is_done: bool, mut dice: impl FnMut() -> u64) -> Option<u64> {
        match self.stage {
            Stage::Thinking(until) if now < until => None,
            Stage::Thinking(_) => {
                self.page_start = now;
                self.page_bytes = 0;
                self.stage = Stage::Loading { left: self.config.objects.saturating_sub(1) };
                Some(self.object(&mut dice))
            }
            Stage::Loading { .. } if !sender_is_done => None,
            Stage::Loading { left: 0 } => {
                self.pages += 1;
                self.last_load = OptionNanos::lasting(now.since(self.page_start));
                self.stage = Stage::Thinking(now + exponential(self.config.think, dice()));
                None
            }
            Stage::Loading { left } => {
                self.stage = Stage::Loading { left: left - 1 };
                Some(self.object(&mut dice))
            }
        }
    }

    fn object(&mut self, dice: &mut impl FnMut() -> u64) -> u64 {
        let bytes = (self.config.size.draw(dice()) as u64).max(1);
        self.page_bytes += bytes;
        bytes
    }

    /// Whether a page is loading.
    pub fn is_loading(&self) -> bool {
        matches!(self.stage, Stage::Loading { .. })
    }

    /// When the page that is loading, or was loaded last, was requested, and its bytes so far.
    pub fn page(&self) -> (Time, u64) {
        (self.page_start, self.page_bytes)
    }

    /// Pages loaded so far.
    pub fn pages(&self) -> u64 {
        self.pages.into()
    }

    /// How long the last page took.
    pub fn last_load(&self) -> Option<Duration> {
        self.last_load.duration()
    }
}

/// An application that makes data at a rate.
#[derive(Clone, Debug)]
pub struct Periodic {
    bytes: u64,
    gaps: Gaps,
    next: Time,
}

/// Longest time between two writes, unless a single byte takes longer.
const WRITE_MAX: Duration = Duration::from_millis(100);

impl Periodic {
    /// Data at a rate above zero from `start` on, written in pieces of `piece` bytes as long as they come
    /// often enough.
    pub fn new(rate: Rate, piece: u32, start: Time) -> Periodic {
        let bytes = u64::from(piece).min(rate.bytes_in(WRITE_MAX).get()).max(1);
        Periodic { bytes, gaps: Gaps::new(rate, Bytes::new(bytes)), next: start }
    }

    /// When [`Periodic::poll`] has to be called.
    pub fn next_timeout(&self) -> Time {
        self.next
    }

    /// The bytes to write now; `None` if it is too early. With a `surplus` of so many bytes that the
    /// connection cannot take soon, the next piece comes later and is the larger for it: what is made in
    /// any time stays the same.
    pub fn poll(&mut self, now: Time, surplus: u64) -> Option<u64> {
        if now < self.next {
            return None;
        }
        // Half of the surplus: the other half is there while the next piece is made.
        let pieces = 1 + surplus / 2 / self.bytes;
        self.next += self.gaps.next(pieces);
        Some(self.bytes * pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_objects_and_then_a_pause() {
        let size = Pareto { alpha: 1.2, min: 1000.0, max: 1e5 };
        let config = WebConfig { objects: 3, size, think: Duration::from_secs(1) };
        let mut web = Web::new(Arc::new(config), Time::ZERO);
        let dice = || 1u64 << 63;
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(web.next_timeout(), Some(Time::ZERO));
        for ms in [0, 10, 20] {
            assert!(web.poll(at(ms), true, dice).unwrap() >= 1000);
            assert_eq!(web.poll(at(ms), false, dice), None);
        }
        assert_eq!(web.poll(at(30), true, dice), None);
        assert_eq!((web.pages(), web.last_load()), (1, Some(Duration::from_millis(30))));
        let next = web.next_timeout().unwrap();
        // The median of an exponential is ln 2 means.
        assert!((next.since(at(30)).as_secs_f64() - std::f64::consts::LN_2).abs() < 1e-3);
        assert_eq!(web.poll(at(40), true, dice), None);
        assert!(web.poll(next, true, dice).is_some());
    }

    #[test]
    fn any_rate_is_met_to_the_byte() {
        for bps in [8, 250, 9_990, 115_840, 5_000_000, 100_000_000_000] {
            let mut app = Periodic::new(Rate::from_bps(bps), 1448, Time::ZERO);
            // As long as a million bytes take.
            let end = Time::from_nanos(8_000_000_000_000_000 / bps);
            let mut made = 0u64;
            while app.next_timeout() < end {
                made += app.poll(app.next_timeout(), 0).unwrap();
            }
            assert!(made.abs_diff(1_000_000) <= 1448, "{bps} bit/s: {made} bytes");
        }
    }

    #[test]
    fn what_a_connection_cannot_take_is_made_in_larger_pieces() {
        let rate = Rate::from_mbps(100_000);
        let mut app = Periodic::new(rate, 1448, Time::ZERO);
        let (mut made, mut calls) = (0, 0);
        let end = Time::ZERO + Duration::from_secs(60);
        while app.next_timeout() < end {
            // Nothing is taken.
            made += app.poll(app.next_timeout(), made).unwrap();
            calls += 1;
        }
        assert!(calls < 100, "{calls}");
        let exact = rate.bytes_in(app.next_timeout().since(Time::ZERO)).get();
        assert!(exact.abs_diff(made) < 1448, "{made} of {exact}");
        assert_eq!(app.poll(Time::ZERO, 0), None);
    }
}
