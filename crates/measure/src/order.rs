//! Medians and percentiles of values. Percentiles are values that are there (nearest rank), not between two.

use crate::result::Spread;

/// The smallest of values in rising order that a share of them, from 0 to 1, does not exceed; none of none.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get(rank(sorted.len(), share)).copied()
}

/// Place of a quantile among `n` values in rising order.
pub(crate) fn rank(n: usize, share: f64) -> usize {
    ((n as f64 * share).ceil() as usize).clamp(1, n.max(1)) - 1
}

/// The middle of values in rising order, the mean of the two middle ones of an even number; none of none.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Mean and percentiles of values, which are sorted here; zeros of none.
pub fn spread(values: &mut [f64]) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| quantile(values, share).unwrap_or_default();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    Spread { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let s = spread(&mut values);
        assert_eq!((s.mean, s.p50, s.p95, s.p99, s.max), (50.5, 50.0, 95.0, 99.0, 100.0));
        assert_eq!((quantile(&values, 0.0), quantile(&values, 0.951)), (Some(1.0), Some(96.0)));
        assert_eq!(spread(&mut []), Spread::default());
        assert_eq!((spread(&mut [7.0]).p50, quantile(&[], 0.5)), (7.0, None));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(&[1.0, 4.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
