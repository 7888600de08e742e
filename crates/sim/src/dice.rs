//! Random numbers: one stream for each component, named after it.
//!
//! A component that is added, removed or asked more often changes nothing for the others, so that two
//! scenarios that differ in one thing see the same dice everywhere else.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use weir_units::Duration;

/// FNV-1a (64 bits) of a name, folded into the seed of the run.
pub fn seed_of(run: u64, name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// A stream of random numbers, eight bytes large, as every connection has one.
#[derive(Clone, Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// The stream of the component `name` in the run with that seed.
    pub fn of(run: u64, name: &str) -> Dice {
        Dice(SplitMix64::seed_from_u64(seed_of(run, name)))
    }

    /// Uniformly distributed bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A time between zero and `most`, uniformly distributed, `most` excluded.
    #[inline]
    pub fn up_to(&mut self, most: Duration) -> Duration {
        let wide = u128::from(self.bits()) * u128::from(most.as_nanos());
        Duration::from_nanos((wide >> 64) as u64)
    }
}

/// An event of fixed probability.
#[derive(Clone, Debug)]
pub struct Chance {
    dice: Dice,
    /// The probability times 2^64; rolls below it hit.
    threshold: u64,
}

impl Chance {
    /// Hits with probability `share`, which lies between 0 and 1.
    pub fn new(share: f64, dice: Dice) -> Chance {
        // The cast saturates, so that 1 hits all but one roll in 2^64.
        Chance { dice, threshold: (share * 18_446_744_073_709_551_616.0) as u64 }
    }

    /// Rolls once.
    #[inline]
    pub fn hits(&mut self) -> bool {
        self.dice.bits() < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_name_and_seed_and_nothing_else() {
        let first = |run, name: &str| Dice::of(run, name).bits();
        assert_eq!(first(1, "link.jitter"), first(1, "link.jitter"));
        assert_ne!(first(1, "link.jitter"), first(2, "link.jitter"));
        assert_ne!(first(1, "link.jitter"), first(1, "link.loss"));
        // A change of these numbers changes every result.
        assert_eq!(seed_of(1, "link.loss"), 0x0931_a537_8285_b77d);
    }

    #[test]
    fn a_uniform_time_stays_in_range_and_has_the_mean_of_it() {
        let (mut dice, most) = (Dice::of(7, "x"), Duration::from_micros(10));
        let n = 100_000;
        let mut sum = 0;
        for _ in 0..n {
            let d = dice.up_to(most);
            assert!(d < most);
            sum += d.as_nanos();
        }
        assert!((sum as f64 / f64::from(n) - 5000.0).abs() < 50.0);
    }

    #[test]
    fn a_chance_hits_as_often_as_it_says() {
        for share in [0.0, 0.01, 0.5, 1.0] {
            let mut chance = Chance::new(share, Dice::of(3, "y"));
            let hits = (0..100_000).filter(|_| chance.hits()).count() as f64 / 1e5;
            assert!((hits - share).abs() < 0.005, "{share}: {hits}");
        }
    }
}
