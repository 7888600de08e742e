//! When a link may send: at a rate, as a class of a shaper that several share, or at the opportunities of a
//! trace.

use weir_config::Trace;
use weir_config::trace::TraceLink;
use weir_queue::{Class, Shaper};
use weir_units::{Bytes, Duration, Rate, Time};

/// The sending side of a link, in link time.
#[derive(Clone, Debug)]
pub enum Service {
    /// At a rate; zero for unshaped.
    Rate(Shaper),
    /// As a class of a shaper that it shares with other links.
    Class {
        /// The class.
        class: Class,
        /// Lost time that is made up for.
        catch_up: Duration,
    },
    /// By a trace.
    Trace {
        /// The trace.
        link: TraceLink,
        /// Opportunities that were slept through for so long are made up for.
        catch_up: Duration,
    },
}

impl Service {
    /// By a trace that is at its beginning at `origin`, in use from `now` on.
    pub fn traced(trace: &Trace, origin: Time, now: Time, catch_up: Duration) -> Service {
        Service::Trace { link: TraceLink::new(trace, origin, now), catch_up }
    }

    /// Whether packets leave as fast as the port takes them.
    pub fn is_unshaped(&self) -> bool {
        matches!(self, Service::Rate(shaper) if shaper.rate() == Rate::ZERO)
    }

    /// The link time at which a packet that arrived then may leave, given that nothing left before.
    pub fn departure(&mut self, head_arrived: Time) -> Time {
        match self {
            Service::Rate(shaper) => shaper.departure(head_arrived),
            Service::Class { class, .. } => class.departure(head_arrived),
            Service::Trace { link, .. } => link.free_at(head_arrived),
        }
    }

    /// To be called when the host looks: time lost beyond what is made up for is given up.
    pub fn looked(&mut self, now: Time) {
        match self {
            Service::Rate(shaper) => shaper.looked(now),
            Service::Class { class, catch_up } => class.looked(now, *catch_up),
            Service::Trace { link, catch_up } => link.skip_to(now - *catch_up),
        }
    }

    /// What follows the link could not take a packet until `now`.
    pub fn blocked(&mut self, now: Time) {
        match self {
            Service::Rate(shaper) => shaper.blocked(now),
            Service::Class { class, .. } => class.looked(now, Duration::ZERO),
            Service::Trace { link, .. } => link.skip_to(now),
        }
    }

    /// A packet of `len` is taken at `at`; returns when it leaves. With a rate that is at once, and the next
    /// one waits; by a trace it leaves with its last byte.
    pub fn sent(&mut self, at: Time, len: Bytes) -> Time {
        match self {
            Service::Rate(shaper) => {
                shaper.sent(at, len);
                at
            }
            Service::Class { class, .. } => {
                class.sent(at, len);
                at
            }
            Service::Trace { link, .. } => link.send(len),
        }
    }

    /// Changes the rate, of a class its ceiling; a trace has none to change.
    pub fn set_rate(&mut self, rate: Rate) {
        match self {
            Service::Rate(shaper) => shaper.set_rate(rate),
            Service::Class { class, .. } => class.set_ceiling(rate),
            Service::Trace { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::Trace;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn opportunities_that_were_slept_through_are_lost_beyond_what_is_made_up_for() {
        let trace = Trace::parse("t", b"1\n1\n4\n10\n").unwrap();
        let mut link = Service::traced(&trace, Time::ZERO, Time::ZERO, Duration::from_millis(2));
        link.looked(ms(5));
        assert_eq!(link.departure(Time::ZERO), ms(4));
        link.looked(ms(7));
        assert_eq!(link.departure(Time::ZERO), ms(10));
        link.blocked(ms(12));
        assert_eq!(link.departure(Time::ZERO), ms(14));
        assert_eq!(link.sent(ms(14), Bytes::new(1538)), ms(20), "it leaves with its last byte");
    }
}
