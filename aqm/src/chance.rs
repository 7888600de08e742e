//! Dice against a probability.

/// Whether something of probability `p` happens with these dice: never at 0, always at 1. Probabilities are
/// told apart to 2^-53.
pub(crate) fn happens(dice: u64, p: f64) -> bool {
    // The upper 53 bits are a double from 0 to just below 1, without rounding.
    ((dice >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_at_zero_always_at_one_and_half_between() {
        for dice in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!happens(dice, 0.0) && happens(dice, 1.0));
        }
        assert!(happens(u64::MAX / 2, 0.5) && !happens(u64::MAX / 2 + 1, 0.5));
        assert!(happens(0, 1e-16) && !happens(1 << 12, 1e-16));
    }
}
