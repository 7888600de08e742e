//! The clock of emulated links, which may stand still while the host does.
//!
//! A host that is a guest loses its processors for milliseconds at a time. Afterwards all that was on its way is
//! overdue and leaves at once: a burst that no network made. End hosts on the same machine, which move only when
//! the loop delivers something to them, lived through no such time. So the loop leaves it out.

use weir_units::{Duration, Time};

/// Turns are this far apart only if the host took the loop's processor away.
const STOPPED: Duration = Duration::from_micros(500);

/// Link time.
#[derive(Clone, Copy, Debug)]
pub struct LinkClock {
    stands_still: bool,
    /// When the host's clock was read last.
    last: Time,
    /// All the time that was left out, and how much it was before the last stop.
    left_out: Duration,
    left_out_before: Duration,
    /// The last stop, on the host's clock.
    stop: (Time, Time),
}

impl LinkClock {
    /// A clock that agrees with the host's `now`; `stands_still` says whether stops of the host count.
    pub fn new(now: Time, stands_still: bool) -> LinkClock {
        LinkClock {
            stands_still,
            last: now,
            left_out: Duration::ZERO,
            left_out_before: Duration::ZERO,
            stop: (now, now),
        }
    }

    /// Link time at the host's `now`, at which a turn of the loop begins.
    pub fn turn(&mut self, now: Time) -> Time {
        let gap = now.since(self.last);
        if self.stands_still && gap > STOPPED {
            self.left_out_before = self.left_out;
            self.left_out += gap;
            self.stop = (self.last, now);
        }
        self.last = now;
        self.of(now)
    }

    /// The host's time at which the turn began.
    pub fn last(&self) -> Time {
        self.last
    }

    /// The loop slept on purpose until now, which is not to be left out.
    pub fn slept(&mut self, time: Duration) {
        self.last += time;
    }

    /// Link time of a moment on the host's clock that is later than the stop before the last one.
    pub fn of(&self, moment: Time) -> Time {
        let (from, until) = self.stop;
        if moment >= until {
            return moment - self.left_out;
        }
        moment.min(from) - self.left_out_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(1_000_000_000 + us * 1000)
    }

    #[test]
    fn a_stop_of_the_host_is_no_time_for_links() {
        let mut clock = LinkClock::new(at(0), true);
        assert_eq!(clock.turn(at(500)), at(500));
        // From 500 to 6500 the processor was away.
        assert_eq!(clock.turn(at(6500)), at(500));
        assert_eq!(clock.turn(at(6510)), at(510));
        // What came before, during and after it.
        assert_eq!(clock.of(at(499)), at(499));
        assert_eq!(clock.of(at(3000)), at(500));
        assert_eq!(clock.of(at(6499)), at(500));
        assert_eq!(clock.of(at(6505)), at(505));
        // Stops add up, and time never runs backwards over one.
        assert_eq!(clock.turn(at(8510)), at(510));
        assert_eq!(clock.of(at(6509)), at(509));
        assert_eq!(clock.of(at(8500)), at(510));
        assert_eq!(clock.turn(at(8530)), at(530));
    }

    #[test]
    fn a_sleep_on_purpose_is_time() {
        let mut clock = LinkClock::new(at(0), true);
        clock.turn(at(10));
        clock.slept(Duration::from_millis(3));
        assert_eq!(clock.turn(at(3010)), at(3010));
        // One that lasted longer than it was to is not, by so much.
        clock.slept(Duration::from_millis(3));
        assert_eq!(clock.turn(at(8010)), at(6010));
    }

    #[test]
    fn a_clock_that_does_not_stand_still_is_the_hosts() {
        let mut clock = LinkClock::new(at(0), false);
        assert_eq!(clock.turn(at(50_000)), at(50_000));
        assert_eq!(clock.of(at(20_000)), at(20_000));
    }
}
