//! A probability that is decided by one comparison.

/// A probability as the share of all 64-bit numbers that lie below it.
///
/// It is computed where probabilities change, a few times a second, so that a packet costs one comparison
/// with its dice. From a float it is wrong by less than 2^-53 of itself plus 2^-64; one is wrong by 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Chance(u64);

/// 2^64.
const ALL: f64 = 18_446_744_073_709_551_616.0;

impl Chance {
    /// It never happens.
    pub const NEVER: Chance = Chance(0);

    /// Probability `p`, clamped to 0 .. 1; what is no number never happens.
    pub fn new(p: f64) -> Chance {
        // The cast saturates at both ends and maps NaN to zero.
        Chance((p * ALL) as u64)
    }

    /// The probability as a float.
    pub fn get(self) -> f64 {
        self.0 as f64 / ALL
    }

    /// Whether it happens with these random bits.
    #[inline]
    pub fn hits(self, dice: u64) -> bool {
        dice < self.0
    }

    /// The sum, at most one.
    pub fn plus(self, other: Chance) -> Chance {
        Chance(self.0.saturating_add(other.0))
    }

    /// The difference with `times` times `other`, at least zero.
    pub fn minus(self, other: Chance, times: u64) -> Chance {
        Chance(self.0.saturating_sub(other.0.saturating_mul(times)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_hits_below_its_share_of_all_numbers() {
        let half = Chance::new(0.5);
        assert!(half.hits((1 << 63) - 1) && !half.hits(1 << 63));
        assert!(!Chance::new(0.0).hits(0) && !Chance::NEVER.hits(0) && !Chance::new(f64::NAN).hits(0));
        assert!(Chance::new(1.0).hits(u64::MAX - 1));
    }

    #[test]
    fn it_stays_between_zero_and_one_and_close_to_the_float() {
        assert_eq!(Chance::new(7.0), Chance::new(1.0));
        assert_eq!(Chance::new(0.9).plus(Chance::new(0.2)), Chance::new(1.0));
        assert_eq!(Chance::new(0.9).minus(Chance::new(0.2), 5), Chance::NEVER);
        for p in [1e-9, 1e-3, 0.02, 0.7] {
            assert!((Chance::new(p).get() - p).abs() <= p * f64::EPSILON + 1.0 / ALL, "{p}");
        }
    }
}
