//! Updates at a fixed period, by a host that may be late.

use weir_units::{Duration, Time};

/// When periodic work is due, and how often it became due.
///
/// Hosts may wake an algorithm late, by one packet or, on an idle link, by hours. Updates stay on their
/// grid: a late wakeup brings all that were missed at once, as a number.
#[derive(Clone, Copy, Debug)]
pub struct Periodic {
    due: Time,
    period: Duration,
}

impl Periodic {
    /// Work each `period`, for the first time one period after `start`. The period must not be zero.
    pub fn new(period: Duration, start: Time) -> Periodic {
        Periodic::first_at(start + period, period)
    }

    /// The same, for the first time at `due`.
    pub fn first_at(due: Time, period: Duration) -> Periodic {
        assert!(period > Duration::ZERO, "a period must have a length");
        Periodic { due, period }
    }

    /// Another period from the next update on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// When the next update is due.
    #[inline]
    pub fn due(&self) -> Time {
        self.due
    }

    /// Time between two updates.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How many updates have become due until `now`; they count as done.
    pub fn take(&mut self, now: Time) -> u64 {
        if now < self.due {
            return 0;
        }
        let missed = now.since(self.due).as_nanos() / self.period.as_nanos();
        self.due += self.period.saturating_mul(missed) + self.period;
        missed + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_wakeups_bring_what_was_missed_and_keep_the_grid() {
        let ms = |t| Time::ZERO + Duration::from_millis(t);
        let mut updates = Periodic::new(Duration::from_millis(15), Time::ZERO);
        assert_eq!((updates.take(ms(14)), updates.due()), (0, ms(15)));
        assert_eq!((updates.take(ms(15)), updates.due()), (1, ms(30)));
        assert_eq!((updates.take(ms(44)), updates.due()), (1, ms(45)));
        assert_eq!((updates.take(ms(75)), updates.due()), (3, ms(90)));
        let hour = Duration::from_secs(3600);
        assert_eq!((updates.take(ms(90) + hour), updates.due()), (240_001, ms(105) + hour));
    }
}
