//! Rates over bins of time.

use weir_units::{Duration, NANOS_PER_SEC, Rate, Time};

/// Counts bytes over bins; a bin ends with the first byte, or the first look, after its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bins {
    width: Duration,
    start: Time,
    bytes: u64,
    rate: Option<Rate>,
}

impl Bins {
    pub fn new(width: Duration, start: Time) -> Bins {
        Bins { width, start, bytes: 0, rate: None }
    }

    /// Closes the bin if its time has come, and returns its rate then.
    pub fn look(&mut self, now: Time) -> Option<Rate> {
        let passed = now.since(self.start);
        if passed < self.width {
            return None;
        }
        let seconds = passed.as_nanos() as f64 / NANOS_PER_SEC as f64;
        self.rate = Some(Rate::from_bps_f64(self.bytes as f64 * 8.0 / seconds));
        (self.start, self.bytes) = (now, 0);
        self.rate
    }

    pub fn add(&mut self, now: Time, bytes: u64) -> Option<Rate> {
        let closed = self.look(now);
        self.bytes += bytes;
        closed
    }

    /// The rate of the last bin that closed.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    pub fn set_width(&mut self, width: Duration) {
        self.width = width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_whatever_the_phase_of_the_packets() {
        let mut bins = Bins::new(Duration::from_millis(50), Time::ZERO);
        let mut closed = 0;
        for n in 1..1000u64 {
            // 1500 bytes each 700 us: 17.142857 Mbit/s.
            let now = Time::from_nanos(n * 700_000);
            if let Some(rate) = bins.add(now, 1500) {
                assert!((rate.as_bps_f64() / 17.142857e6 - 1.0).abs() < 0.02, "{rate}");
                closed += 1;
            }
        }
        assert!((13..=14).contains(&closed), "{closed} bins of 50 ms in 0.7 s");
        assert!(bins.look(Time::from_nanos(10_000_000_000)).unwrap() < Rate::from_mbps(1), "a pause");
    }
}
