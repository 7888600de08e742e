//! When a link may send: at a rate, or at the opportunities of a trace.

use weir_queue::Shaper;
use weir_config::Trace;
use weir_config::trace::{OPPORTUNITY, Opportunities};
use weir_units::{Bytes, Duration, Rate, Time};

/// The sending side of a link, in link time.
#[derive(Clone, Debug)]
pub enum Service {
    /// At a rate; zero for unshaped.
    Rate(Shaper),
    /// By a trace.
    Trace(TraceLink),
}

impl Service {
    /// Whether packets leave as fast as the port takes them.
    pub fn is_unshaped(&self) -> bool {
        matches!(self, Service::Rate(shaper) if shaper.rate() == Rate::ZERO)
    }

    /// The link time at which a packet that arrived then may leave, given that nothing left before.
    pub fn departure(&mut self, head_arrived: Time) -> Time {
        match self {
            Service::Rate(shaper) => shaper.departure(head_arrived),
            Service::Trace(trace) => trace.departure(head_arrived),
        }
    }

    /// To be called when the host looks: time lost beyond what is made up for is given up.
    pub fn looked(&mut self, now: Time) {
        match self {
            Service::Rate(shaper) => shaper.looked(now),
            Service::Trace(trace) => trace.skip_to(now - trace.catch_up),
        }
    }

    /// What follows the link could not take a packet until `now`.
    pub fn blocked(&mut self, now: Time) {
        match self {
            Service::Rate(shaper) => shaper.blocked(now),
            Service::Trace(trace) => trace.skip_to(now),
        }
    }

    /// A packet of `len` left at `at`.
    pub fn sent(&mut self, at: Time, len: Bytes) {
        match self {
            Service::Rate(shaper) => shaper.sent(at, len),
            Service::Trace(trace) => trace.sent(len),
        }
    }

    /// Changes the rate; a trace has none to change.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Service::Rate(shaper) = self {
            shaper.set_rate(rate);
        }
    }
}

/// A link that sends up to [`OPPORTUNITY`] at each opportunity of a trace.
///
/// What a packet leaves of an opportunity serves the next packet, if one waits at that moment; otherwise it is lost. A
/// packet leaves with its first byte, and what does not fit is taken from the opportunities that follow.
#[derive(Clone, Debug)]
pub struct TraceLink {
    opportunities: Opportunities,
    start: Time,
    catch_up: Duration,
    /// The opportunity in use, and what is left of it.
    at: Time,
    left: u64,
}

impl TraceLink {
    /// A link whose trace is at its beginning at `origin`, in use from `now` on.
    pub fn new(trace: &Trace, origin: Time, now: Time, catch_up: Duration) -> TraceLink {
        let period = trace.period();
        let laps = origin.since(now).as_nanos().div_ceil(period.as_nanos().max(1));
        let start = origin - period.saturating_mul(laps);
        let mut link =
            TraceLink { opportunities: trace.opportunities(), start, catch_up, at: start, left: 0 };
        link.skip_to(now);
        link
    }

    fn step(&mut self) {
        let (offset, count) = self.opportunities.next().expect("a trace repeats without end");
        self.at = self.start + offset;
        self.left = u64::from(count) * OPPORTUNITY.get();
    }

    fn skip_to(&mut self, time: Time) {
        while self.at < time {
            self.step();
        }
    }

    fn departure(&mut self, head_arrived: Time) -> Time {
        while self.left == 0 || self.at < head_arrived {
            self.step();
        }
        self.at
    }

    fn sent(&mut self, len: Bytes) {
        let mut wanted = len.get();
        while wanted > self.left {
            wanted -= self.left;
            self.step();
        }
        self.left -= wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn link(origin: Time, now: Time) -> Service {
        let trace = Trace::parse("t", b"1\n1\n4\n10\n").unwrap();
        Service::Trace(TraceLink::new(&trace, origin, now, Duration::from_millis(2)))
    }

    #[test]
    fn a_trace_gives_1500_bytes_at_each_opportunity() {
        let mut link = link(Time::ZERO, Time::ZERO);
        for (arrived, len, left) in
            [(0, 600, 1), (0, 600, 1), (0, 1800, 1), (0, 1500, 4), (5, 100, 10), (10, 1500, 10)]
        {
            assert_eq!(link.departure(ms(arrived)), ms(left), "{len} bytes of {arrived} ms");
            link.sent(ms(left), Bytes::new(len));
        }
        assert_eq!(link.departure(ms(10)), ms(11), "the next round, 100 bytes into it");
        assert_eq!(link.departure(ms(1_000_003)), ms(1_000_004), "a pause costs what was not used");
    }

    #[test]
    fn opportunities_that_were_slept_through_are_lost_beyond_what_is_made_up_for() {
        let mut link = link(Time::ZERO, Time::ZERO);
        link.looked(ms(5));
        assert_eq!(link.departure(Time::ZERO), ms(4));
        link.looked(ms(7));
        assert_eq!(link.departure(Time::ZERO), ms(10));
        link.blocked(ms(12));
        assert_eq!(link.departure(Time::ZERO), ms(14));
    }

    #[test]
    fn a_trace_begins_at_the_origin_of_the_run_and_runs_before_it() {
        let mut link = link(ms(1003), ms(985));
        assert_eq!(link.departure(ms(985)), ms(987));
        assert_eq!(link.departure(ms(1003)), ms(1003));
        link.sent(ms(1003), Bytes::new(1500));
        assert_eq!(link.departure(ms(1003)), ms(1004));
    }
}
