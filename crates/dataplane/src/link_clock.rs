//! The clock of emulated links, which may stand still while the host does.
//!
//! A host that is a guest loses its processors for milliseconds at a time. Afterwards all that was on its way
//! is overdue and leaves at once: a burst that no network made. End hosts on the same machine, which move
//! only when the loop delivers something to them, lived through no such time. So the loop leaves it out.

use crate::clock::clock;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use weir_units::{Duration, Time};

/// Turns are this far apart only if the host took the loop's processor away.
const STOPPED: Duration = Duration::from_micros(500);
/// Stops that are kept for other threads, so that they can convert moments that have passed. A host that
/// takes the processor away a hundred times a second has so many in eleven minutes; after that, moments are
/// converted as if the stops that came later had all come before the last one kept.
const STOPS_MAX: usize = 65_536;

/// A span of host time in which link time stood still.
#[derive(Default, Debug)]
struct Stop {
    from: AtomicU64,
    until: AtomicU64,
    /// All the time left out until the stop ended.
    left_out: AtomicU64,
}

/// What the loop tells other threads of link time. The loop is the only writer.
#[derive(Debug)]
struct Shared {
    /// When the loop turned last, on the host's clock.
    last: AtomicU64,
    /// How many of `stops` are there.
    count: AtomicUsize,
    stops: Box<[Stop]>,
    /// The loop has ended; link time passes from then on as the host's does.
    ended: AtomicBool,
}

/// Link time as other threads read it, with the zero of a run. Everything of a run that has a time follows
/// this clock: when flows start and stop, when they are sampled, and when the run ends.
#[derive(Clone, Debug)]
pub struct RunClock {
    zero: Time,
    /// `None` where link time is the host's.
    shared: Option<Arc<Shared>>,
}

impl RunClock {
    /// The host's clock, with zero at `zero`.
    pub fn of_host(zero: Time) -> RunClock {
        RunClock { zero, shared: None }
    }

    /// Link time. While the loop is stopped it stands still at the loop's last turn; it never exceeds the
    /// link time of the loop's next turn by more than the gap that counts as a stop.
    pub fn now(&self) -> Time {
        self.of(clock())
    }

    /// Link time at a moment of the host's clock (`clock`) that has passed.
    pub fn of(&self, moment: Time) -> Time {
        let Some(shared) = &self.shared else { return moment };
        // Read before the stops: a stop is published before the turn that ended it.
        let last = Time::from_nanos(shared.last.load(Ordering::Acquire));
        let is_stopped = moment.since(last) > STOPPED && !shared.ended.load(Ordering::Acquire);
        shared.of(if is_stopped { last } else { moment })
    }

    /// Link time at `after` the zero of the run.
    pub fn at(&self, after: Duration) -> Time {
        self.zero + after
    }

    /// Seconds from the zero of the run to a link time; negative before it.
    pub fn seconds(&self, at: Time) -> f64 {
        if at >= self.zero { at.since(self.zero).as_secs_f64() } else { -self.zero.since(at).as_secs_f64() }
    }
}

impl Shared {
    fn new(now: Time, stops_max: usize) -> Shared {
        Shared {
            last: AtomicU64::new(now.as_nanos()),
            count: AtomicUsize::new(0),
            stops: std::iter::repeat_with(Stop::default).take(stops_max).collect(),
            ended: AtomicBool::new(false),
        }
    }

    /// Tells of a turn, and of the stop before it if there was one.
    fn turned(&self, now: Time, stop: Option<(Time, Duration)>) {
        if let Some((from, left_out)) = stop {
            let count = self.count.load(Ordering::Relaxed);
            let slot = &self.stops[count.min(self.stops.len() - 1)];
            slot.from.store(from.as_nanos(), Ordering::Relaxed);
            slot.until.store(now.as_nanos(), Ordering::Relaxed);
            slot.left_out.store(left_out.as_nanos(), Ordering::Relaxed);
            self.count.store((count + 1).min(self.stops.len()), Ordering::Release);
        }
        self.last.store(now.as_nanos(), Ordering::Release);
    }

    fn of(&self, moment: Time) -> Time {
        let stops = &self.stops[..self.count.load(Ordering::Acquire)];
        let time = |cell: &AtomicU64| Time::from_nanos(cell.load(Ordering::Relaxed));
        let over = stops.partition_point(|stop| time(&stop.until) <= moment);
        // Within a stop, time stands still where the stop began.
        let moment = stops.get(over).map_or(moment, |stop| moment.min(time(&stop.from)));
        let left_out = over.checked_sub(1).map_or(0, |at| stops[at].left_out.load(Ordering::Relaxed));
        moment - Duration::from_nanos(left_out)
    }
}

/// Link time.
#[derive(Debug)]
pub struct LinkClock {
    stands_still: bool,
    shared: Option<Arc<Shared>>,
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
        LinkClock::with_room(now, stands_still, STOPS_MAX)
    }

    /// The same with room for so many stops.
    pub fn with_room(now: Time, stands_still: bool, stops_max: usize) -> LinkClock {
        LinkClock {
            stands_still,
            shared: stands_still.then(|| Arc::new(Shared::new(now, stops_max))),
            last: now,
            left_out: Duration::ZERO,
            left_out_before: Duration::ZERO,
            stop: (now, now),
        }
    }

    /// The same clock for other threads, with the zero of a run in link time.
    pub fn for_others(&self, zero: Time) -> RunClock {
        RunClock { zero, shared: self.shared.clone() }
    }

    /// The loop begins at the host's `now`: what has passed since the clock was made is no stop.
    pub fn begin(&mut self, now: Time) {
        self.slept(now.since(self.last));
        if let Some(shared) = &self.shared {
            shared.turned(now, None);
        }
    }

    /// Link time at the host's `now`, at which a turn of the loop begins.
    pub fn turn(&mut self, now: Time) -> Time {
        let gap = now.since(self.last);
        let mut ended = None;
        if self.stands_still && gap > STOPPED {
            self.left_out_before = self.left_out;
            self.left_out += gap;
            self.stop = (self.last, now);
            ended = Some((self.last, self.left_out));
        }
        self.last = now;
        if let Some(shared) = &self.shared {
            shared.turned(now, ended);
        }
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

impl Drop for LinkClock {
    /// Whoever waits for a link time would wait for ever otherwise.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.ended.store(true, Ordering::Release);
        }
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
    fn other_threads_read_the_same_time() {
        let mut link = LinkClock::new(at(0), true);
        let clock = link.for_others(at(100));
        for turn in [400, 6400, 6410, 8410, 8420] {
            link.turn(at(turn));
        }
        // Stopped from 400 to 6400 and from 6410 to 8410.
        for (host, of_links) in
            [(300, 300), (400, 400), (3000, 400), (6399, 400), (6405, 405), (7000, 410), (8415, 415)]
        {
            assert_eq!(clock.of(at(host)), at(of_links), "at {host}");
        }
        assert_eq!(clock.of(at(8900)), at(900), "the loop may be about to turn");
        assert_eq!(clock.of(at(90_000)), at(420), "it has not turned for long: time stands still");
        assert_eq!(clock.seconds(at(600)), 500e-6);
        assert_eq!(clock.seconds(at(0)), -100e-6);
        drop(link);
        assert_eq!(clock.of(at(90_000)), at(82_000), "nobody turns any more");
    }

    #[test]
    fn stops_beyond_those_that_are_kept_are_left_out_all_the_same() {
        let mut link = LinkClock::new(at(0), true);
        let clock = link.for_others(at(0));
        let end = STOPS_MAX as u64 + 10;
        for stop in 1..=end {
            link.turn(at(1000 * stop));
        }
        assert_eq!(clock.of(at(1000 * end)), at(0));
        assert_eq!(clock.of(at(1000 * end + 5)), at(5));
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
