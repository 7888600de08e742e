//! How fast a link sends: at a constant rate, at one that steps, or by a recorded trace of opportunities.

use weir_config::trace::TraceLink;
use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate, Time};

/// The end of the clock: a link that will never be free by itself.
pub const NEVER: Time = Time::from_nanos(u64::MAX);

/// Transmission times without rounding.
///
/// The remainder of each division is carried into the next packet, so that over any number of packets a link
/// sends exactly its rate. Packets of the size of the one before need no division.
#[derive(Clone, Debug)]
pub struct Serializer {
    rate: Rate,
    /// In units of 1/rate nanoseconds; less than `rate`.
    remainder: u64,
    /// Length, nanoseconds and remainder of the last packet.
    last: (u64, u64, u64),
}

impl Serializer {
    /// For a link of `rate`.
    pub fn new(rate: Rate) -> Serializer {
        Serializer { rate, remainder: 0, last: (0, 0, 0) }
    }

    /// How long `bytes` take. Rate zero never sends: the caller does not ask.
    #[inline]
    pub fn time_for(&mut self, bytes: u64) -> Duration {
        let rate = self.rate.as_bps();
        if bytes != self.last.0 {
            let work = bytes * 8 * NANOS_PER_SEC;
            self.last = (bytes, work / rate, work % rate);
        }
        let (_, mut nanos, rest) = self.last;
        self.remainder += rest;
        if self.remainder >= rate {
            self.remainder -= rate;
            nanos += 1;
        }
        Duration::from_nanos(nanos)
    }
}

/// The sending side of a link.
#[derive(Clone, Debug)]
pub enum Service {
    /// At a rate, which may change in steps.
    Rate {
        /// Transmission times at the rate in force.
        serializer: Serializer,
        /// When the transmission under way ends.
        busy_until: Time,
    },
    /// By a trace.
    Trace(TraceLink),
}

impl Service {
    /// A link of `rate`; zero stands still.
    pub fn at_rate(rate: Rate) -> Service {
        Service::Rate { serializer: Serializer::new(rate), busy_until: Time::ZERO }
    }

    /// When a transmission can begin, from `now` on; [`NEVER`] while the link stands still.
    #[inline]
    pub fn free_at(&mut self, now: Time) -> Time {
        match self {
            Service::Rate { serializer, .. } if serializer.rate == Rate::ZERO => NEVER,
            Service::Rate { busy_until, .. } => (*busy_until).max(now),
            Service::Trace(trace) => trace.free_at(now),
        }
    }

    /// Begins a transmission at `now`, when the link is free; returns its end.
    #[inline]
    pub fn send(&mut self, now: Time, len: Bytes) -> Time {
        match self {
            Service::Rate { serializer, busy_until } => {
                *busy_until = now + serializer.time_for(len.get());
                *busy_until
            }
            Service::Trace(trace) => trace.send(len),
        }
    }

    /// Changes the rate; a packet in transmission is not touched. A trace has no rate to change.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Service::Rate { serializer, .. } = self {
            *serializer = Serializer::new(rate);
        }
    }

    /// The rate in force, or a trace's mean.
    pub fn rate(&self) -> Rate {
        match self {
            Service::Rate { serializer, .. } => serializer.rate,
            Service::Trace(trace) => trace.rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn rates_are_exact_over_any_number_of_packets() {
        for rate in [1_000, 333_333_333, 9_999_999_999, 100_000_000_000, 1_000_000_000_000] {
            let mut link = Serializer::new(Rate::from_bps(rate));
            let (mut bytes, mut nanos) = (0u128, 0u128);
            for n in 0..10_000u64 {
                let len = if n % 3 == 0 { 84 } else { 1538 };
                bytes += u128::from(len);
                nanos += u128::from(link.time_for(len).as_nanos());
                assert_eq!(nanos, bytes * 8_000_000_000 / u128::from(rate), "{rate} {n}");
            }
        }
    }

    #[test]
    fn a_rate_of_zero_is_never_free_and_the_next_one_goes_on() {
        let mut link = Service::at_rate(Rate::from_mbps(8));
        assert_eq!(link.send(Time::ZERO, Bytes::new(1000)), Time::ZERO + ms(1));
        link.set_rate(Rate::ZERO);
        assert_eq!(link.free_at(Time::ZERO + ms(5)), NEVER);
        link.set_rate(Rate::from_mbps(16));
        assert_eq!(link.free_at(Time::ZERO + ms(9)), Time::ZERO + ms(9));
        assert_eq!(link.send(Time::ZERO + ms(9), Bytes::new(1000)), Time::from_nanos(9_500_000));
    }
}
