//! Mean and confidence over repeated runs.

use serde::Serialize;
use weir_measure::bootstrap_median;

/// What repeated measurements of a quantity tell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Statistics {
    /// How many there are.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); none for a single value.
    pub ci95: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// 95 % confidence interval of the median by the bootstrap; none for a single value, and where it was
    /// not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median95: Option<(f64, f64)>,
}

impl Statistics {
    /// Of these values, in their order; none if there are none.
    pub fn of(values: &[f64]) -> Option<Statistics> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let ci95 = (n > 1).then(|| t_975(n - 1) * (squares / (n - 1) as f64 / n as f64).sqrt());
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Statistics { n, mean, ci95, min, max, median95: None })
    }

    /// The same with an interval of the median, for what is not normally distributed.
    pub fn with_median(values: &[f64]) -> Option<Statistics> {
        Statistics::of(values).map(|s| Statistics { median95: bootstrap_median(values), ..s })
    }
}

/// 97.5th percentile of Student's t distribution, for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157,
    2.228_139, 2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905, 2.109_816, 2.100_922,
    2.093_024, 2.085_963, 2.079_614, 2.073_873, 2.068_658, 2.063_899, 2.059_539, 2.055_529, 2.051_831,
    2.048_407, 2.045_230, 2.042_272,
];

/// The same for any number; beyond the table by its expansion around the normal distribution (Abramowitz and
/// Stegun, 26.7.5), which is right to six digits there.
fn t_975(freedom: usize) -> f64 {
    if let Some(t) = T_975.get(freedom.wrapping_sub(1)) {
        return *t;
    }
    const X: f64 = 1.959_963_985;
    const X2: f64 = X * X;
    let v = freedom as f64;
    let first = X * (X2 + 1.0) / 4.0;
    let second = X * ((5.0 * X2 + 16.0) * X2 + 3.0) / 96.0;
    let third = X * (((3.0 * X2 + 19.0) * X2 + 17.0) * X2 - 15.0) / 384.0;
    X + first / v + second / (v * v) + third / (v * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample_has_its_known_interval() {
        let s = Statistics::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        // Standard deviation 2.13809, t with 7 degrees of freedom 2.364624.
        assert_eq!((s.n, s.mean, s.min, s.max), (8, 5.0, 2.0, 9.0));
        assert!((s.ci95.unwrap() - 1.787_488).abs() < 1e-6, "{s:?}");
        assert_eq!(Statistics::of(&[3.0]).unwrap().ci95, None);
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn the_expansion_goes_on_where_the_table_ends() {
        for (freedom, t) in [(31, 2.039_513), (40, 2.021_075), (60, 2.000_298), (120, 1.979_930)] {
            assert!((t_975(freedom) - t).abs() < 2e-6, "{freedom}: {}", t_975(freedom));
        }
        assert!((t_975(1_000_000) - 1.959_966).abs() < 1e-6);
        assert!(T_975.windows(2).all(|pair| pair[1] < pair[0]) && t_975(31) < T_975[29]);
    }
}
