//! Sampling at a fixed frequency, by a host that may be late.

use crate::periodic::Periodic;
use weir_units::{Duration, Time};

/// Instants that were missed are made up for, because the queue was during them what it is now: hosts wake an
/// algorithm before they touch its queue. Beyond this span the host itself stood still, with packets in the
/// queue, and a law that went on integrating would discard everything for minutes afterwards.
const MADE_UP_MAX: Duration = Duration::from_secs(1);

/// The instants at which a law looks at its queue.
#[derive(Clone, Debug)]
pub(crate) struct Sampling(Periodic);

impl Sampling {
    /// The first instant is the start.
    pub(crate) fn new(period: Duration, start: Time) -> Sampling {
        Sampling(Periodic::first_at(start, period))
    }

    /// When the next instant is.
    pub(crate) fn due(&self) -> Time {
        self.0.due()
    }

    /// Another period from the next instant on.
    pub(crate) fn set_period(&mut self, period: Duration) {
        self.0.set_period(period);
    }

    /// Passes the instants up to `now`; how many the law has to take, at least one. An empty queue may have
    /// been empty for as long as it likes.
    pub(crate) fn pass(&mut self, now: Time, empty: bool) -> f64 {
        let most = if empty { u64::MAX } else { MADE_UP_MAX.as_nanos() / self.0.period().as_nanos() };
        let missed = self.0.take(now).saturating_sub(1);
        1.0 + missed.min(most) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_instants_are_counted_and_the_next_lies_ahead_on_the_grid() {
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let mut sampling = Sampling::new(Duration::from_millis(10), ms(0));
        assert_eq!((sampling.pass(ms(0), false), sampling.due()), (1.0, ms(10)));
        assert_eq!((sampling.pass(ms(14), false), sampling.due()), (1.0, ms(20)));
        assert_eq!((sampling.pass(ms(50), false), sampling.due()), (4.0, ms(60)));
        // A host that stood still for an hour, and a link that was idle for an hour.
        assert_eq!((sampling.pass(ms(3_600_060), false), sampling.due()), (101.0, ms(3_600_070)));
        assert_eq!((sampling.pass(ms(7_200_070), true), sampling.due()), (360_001.0, ms(7_200_080)));
        let end = Time::from_nanos(u64::MAX - 5);
        let _ = sampling.pass(end, true);
        assert!(sampling.due() > end);
    }
}
