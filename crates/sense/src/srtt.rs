//! A smoothed round-trip time (RFC 6298 section 2).

use weir_units::Duration;

/// Gain of a new sample in the smoothed time, as a shift: alpha = 1/8.
const ALPHA: u32 = 3;

/// Gain of a new deviation, as a shift: beta = 1/4.
const BETA: u32 = 2;

/// The smoothed round-trip time and its mean deviation, as RFC 6298 rules 2.2 and 2.3 move them.
///
/// Kept in nanoseconds scaled by the gains, so that nothing is lost by rounding from sample to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Srtt(Option<Scaled>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scaled {
    /// The smoothed time, times eight.
    srtt8: u64,
    /// The mean deviation, times four.
    rttvar4: u64,
}

impl Srtt {
    /// Takes a sample and returns the smoothed time after it.
    pub fn sample(&mut self, rtt: Duration) -> Duration {
        // Above half an hour a round trip is an error of a clock; the bound keeps the scaled sums in range.
        let r = rtt.as_nanos().min(1 << 41);
        let now = match self.0 {
            None => Scaled { srtt8: r << ALPHA, rttvar4: r << (BETA - 1) },
            Some(s) => {
                let error = (s.srtt8 >> ALPHA).abs_diff(r);
                Scaled {
                    srtt8: s.srtt8 - (s.srtt8 >> ALPHA) + r,
                    rttvar4: s.rttvar4 - (s.rttvar4 >> BETA) + error,
                }
            }
        };
        self.0 = Some(now);
        Duration::from_nanos(now.srtt8 >> ALPHA)
    }

    /// The smoothed time; `None` before the first sample.
    pub fn get(&self) -> Option<Duration> {
        self.0.map(|s| Duration::from_nanos(s.srtt8 >> ALPHA))
    }

    /// The mean deviation; `None` before the first sample.
    pub fn deviation(&self) -> Option<Duration> {
        self.0.map(|s| Duration::from_nanos(s.rttvar4 >> BETA))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_step_from_20_to_200_ms_is_followed_by_an_eighth_a_sample() {
        let mut srtt = Srtt::default();
        assert_eq!(srtt.get(), None);
        let seen: Vec<f64> = [20, 200, 200, 200, 200, 200]
            .map(|ms| srtt.sample(Duration::from_millis(ms)).as_secs_f64() * 1e3)
            .to_vec();
        for (got, want) in seen.iter().zip([20.0, 42.5, 62.1875, 79.4141, 94.4873, 107.6764]) {
            assert!((got - want).abs() < 1e-4, "{got} for {want}");
        }
    }

    #[test]
    fn the_deviation_starts_at_half_and_decays_by_a_quarter() {
        let mut srtt = Srtt::default();
        srtt.sample(Duration::from_millis(80));
        assert_eq!(srtt.deviation(), Some(Duration::from_millis(40)));
        srtt.sample(Duration::from_millis(80));
        assert_eq!(srtt.deviation(), Some(Duration::from_millis(30)));
    }

    #[test]
    fn a_sample_of_centuries_does_not_overflow() {
        let mut srtt = Srtt::default();
        for _ in 0..1000 {
            srtt.sample(Duration::from_nanos(u64::MAX));
        }
        assert!(srtt.get().unwrap() < Duration::from_secs(2200));
    }
}
