//! Applications on top of a sender: pages of objects with time to think between them, and periodic writes.

use super::{Pareto, exponential};
use crate::nanos::OptionNanos;
use std::sync::Arc;
use weir_units::{Duration, Time};

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
        }
    }

    /// When [`Web::poll`] has to be called; `None` while an object is being transferred.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Thinking(until) => Some(until),
            Stage::Loading { .. } => None,
        }
    }

    /// To be called when the time has come and when the sender is done. Returns the bytes to write now.
    pub fn poll(&mut self, now: Time, sender_is_done: bool, mut dice: impl FnMut() -> u64) -> Option<u64> {
        match self.stage {
            Stage::Thinking(until) if now < until => None,
            Stage::Thinking(_) => {
                self.page_start = now;
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

    fn object(&self, dice: &mut impl FnMut() -> u64) -> u64 {
        (self.config.size.draw(dice()) as u64).max(1)
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

/// An application that writes a constant amount in constant distances.
#[derive(Clone, Debug)]
pub struct Periodic {
    bytes: u64,
    period: Duration,
    next: Time,
}

impl Periodic {
    /// Writes `bytes` at `start` and every `period` (at least 1 ns) after.
    pub fn new(bytes: u64, period: Duration, start: Time) -> Periodic {
        Periodic { bytes, period: period.max(Duration::from_nanos(1)), next: start }
    }

    /// When [`Periodic::poll`] has to be called.
    pub fn next_timeout(&self) -> Time {
        self.next
    }

    /// The bytes to write now; `None` if it is too early. A late call writes one period's amount, not more.
    pub fn poll(&mut self, now: Time) -> Option<u64> {
        if now < self.next {
            return None;
        }
        let missed = now.since(self.next).as_nanos() / self.period.as_nanos();
        self.next += self.period.saturating_mul(missed + 1);
        Some(self.bytes)
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
    fn periods_are_kept() {
        let mut p = Periodic::new(5000, Duration::from_millis(20), Time::ZERO);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(p.poll(at(0)), Some(5000));
        assert_eq!(p.poll(at(19)), None);
        assert_eq!(p.poll(at(50)), Some(5000));
        assert_eq!(p.next_timeout(), at(60));
    }
}
