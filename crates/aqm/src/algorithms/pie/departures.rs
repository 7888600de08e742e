//! The delay of a queue from its backlog and the rate at which packets leave (RFC 8033 section 5.2).

use weir_units::{Bytes, Duration, Time};

/// A measurement that is under way.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    start: Time,
    left: Bytes,
}

/// Measures how long `threshold` bytes take to leave.
///
/// It measures only while at least that much waits: a queue that runs empty says nothing about the link. The
/// RFC takes the time of a whole cycle, which ends with a packet and so is up to a packet too long; here it
/// is scaled to the threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departures {
    threshold: Bytes,
    /// Weight of a new measurement: less for short ones, which are noisy (section 5.2).
    weight: f64,
    cycle: Option<Cycle>,
    /// Smoothed time of `threshold` bytes, in seconds.
    time: Option<f64>,
}

/// A measurement of this size needs no smoothing: 64 KiB (section 5.2).
const WEIGHT_ONE: f64 = 65_536.0;

impl Departures {
    pub(super) fn new(threshold: Bytes) -> Departures {
        let weight = (threshold.get() as f64 / WEIGHT_ONE).min(1.0);
        Departures { threshold, weight, cycle: None, time: None }
    }

    /// A packet left, and so much waits behind it.
    pub(super) fn left(&mut self, now: Time, len: Bytes, backlog: Bytes) {
        if let Some(cycle) = &mut self.cycle {
            cycle.left += len;
            if cycle.left < self.threshold {
                return;
            }
            let taken = now.since(cycle.start).as_secs_f64();
            let sample = taken * self.threshold.get() as f64 / cycle.left.get() as f64;
            let old = self.time.unwrap_or(sample);
            self.time = Some(old + self.weight * (sample - old));
            self.cycle = None;
        }
        if backlog >= self.threshold {
            self.cycle = Some(Cycle { start: now, left: Bytes::ZERO });
        }
    }

    /// How long this backlog takes to leave; zero as long as nothing is known.
    pub(super) fn delay(&self, backlog: Bytes) -> Duration {
        let time = self.time.unwrap_or_default();
        Duration::from_secs_f64(backlog.get() as f64 * time / self.threshold.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1538);

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn the_delay_is_the_backlog_over_the_rate() {
        let mut departures = Departures::new(Bytes::new(16_384));
        assert_eq!(departures.delay(Bytes::new(100_000)), Duration::ZERO);
        // 1538 bytes each 100 us.
        for n in 0..1000 {
            departures.left(at(100 * n), PACKET, Bytes::new(100_000));
        }
        let want = 100_000.0 / 1538.0 * 0.1;
        let got = departures.delay(Bytes::new(100_000)).as_millis_f64();
        assert!((got - want).abs() < 1e-6, "{got} and not {want}");
    }

    #[test]
    fn a_quarter_of_each_new_measurement_counts() {
        let mut departures = Departures::new(Bytes::new(16_384));
        let full = Bytes::new(16_384);
        departures.left(at(0), full, full);
        departures.left(at(1000), full, full);
        assert_eq!(departures.delay(full), Duration::from_micros(1000));
        departures.left(at(3000), full, full);
        assert_eq!(departures.delay(full), Duration::from_micros(1250));
    }

    #[test]
    fn a_short_queue_is_not_measured() {
        let mut departures = Departures::new(Bytes::new(16_384));
        for n in 0..1000 {
            departures.left(at(100 * n), PACKET, Bytes::new(16_383));
        }
        assert_eq!(departures.delay(Bytes::new(100_000)), Duration::ZERO);
    }
}
