//! Confidence without a model: the bootstrap; and how much of a run to leave out.

use crate::order::{median, rank};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;

/// The 95 % confidence interval of the median of these values, such as percentiles of repeated runs, by the
/// percentile bootstrap (B. Efron: Bootstrap methods: another look at the jackknife. Annals of Statistics 7,
/// 1979); none of fewer than two. The same values give the same interval.
pub fn bootstrap_median(values: &[f64]) -> Option<(f64, f64)> {
    bootstrap(values, |sample| {
        sample.sort_by(f64::total_cmp);
        median(sample).unwrap_or_default()
    })
}

/// The same of a percentile, from 0 to 1, of observations that are independent of each other.
pub fn bootstrap_quantile(values: &[f64], q: f64) -> Option<(f64, f64)> {
    bootstrap(values, |sample| {
        let at = rank(sample.len(), q);
        *sample.select_nth_unstable_by(at, f64::total_cmp).1
    })
}

fn bootstrap(values: &[f64], mut statistic: impl FnMut(&mut [f64]) -> f64) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    // SplitMix64 (Steele, Lea and Flood, 2014): the interval must not depend on anything but the values.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        values[(((z ^ (z >> 31)) as u128 * n as u128) >> 64) as usize]
    };
    let mut sample = vec![0.0; n];
    let mut found: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            sample.iter_mut().for_each(|slot| *slot = draw());
            statistic(&mut sample)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    let at = |q: f64| found[((RESAMPLES as f64 * q) as usize).min(RESAMPLES - 1)];
    Some((at(0.025), at(0.975)))
}

/// Samples that make one batch of [`mser`].
const BATCH: usize = 5;

/// What [`mser`] decided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truncation {
    /// Samples to leave out at the beginning.
    pub samples: usize,
    /// Whether the error becomes smaller up to the middle of the series, beyond which is not looked, so that
    /// it is too short to tell: half of it is left out.
    pub is_undecided: bool,
}

/// How many samples to leave out at the beginning, by MSER-5 (K. P. White: An effective truncation heuristic
/// for bias reduction in simulation output. Simulation 69, 1997): the number that makes the standard error of
/// the mean of the rest smallest, over means of five samples. None of fewer than forty samples.
pub fn mser(samples: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> = samples
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().map(|x| if x.is_finite() { *x } else { 0.0 }).sum::<f64>() / BATCH as f64)
        .collect();
    let n = batches.len();
    if n < 8 {
        return None;
    }
    // Sums from the end on, so that each step adds one batch, around the mean, or differences of large
    // numbers would be left. The later half is not searched: a few batches at the end are alike by chance.
    let centre = batches.iter().sum::<f64>() / n as f64;
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for d in (0..n).rev() {
        let x = batches[d] - centre;
        (sum, squares) = (sum + x, squares + x * x);
        let left = (n - d) as f64;
        let error = (squares - sum * sum / left).max(0.0) / (left * left);
        if d <= n / 2 && error <= best.0 {
            best = (error, d);
        }
    }
    Some(Truncation { samples: best.1 * BATCH, is_undecided: best.1 == n / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_holds_what_it_promises() {
        // Exponential values: the 90th percentile is ln 10.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut hits = 0;
        for _ in 0..100 {
            let values: Vec<f64> = (0..200).map(|_| -uniform().ln()).collect();
            let (lo, hi) = bootstrap_quantile(&values, 0.9).unwrap();
            hits += u32::from((lo..=hi).contains(&10f64.ln()));
        }
        assert!((85..=100).contains(&hits), "{hits} of 100 intervals hold the value");
        let (lo, hi) = bootstrap_median(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert!((1.0..=2.0).contains(&lo) && (4.0..=100.0).contains(&hi), "{lo} {hi}");
        assert_eq!(bootstrap_median(&[1.0, 2.0, 9.0]), bootstrap_median(&[1.0, 2.0, 9.0]));
        assert_eq!(bootstrap_median(&[1.0]), None);
    }

    #[test]
    fn the_beginning_that_differs_is_left_out() {
        // A decaying start on a small noise, as of a queue that fills.
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        let values: Vec<f64> = (0..600).map(|_| draw()).collect();
        let noise = |i: usize| values[i];
        let samples: Vec<f64> = (0..600).map(|i| 100.0 * (-(i as f64) / 20.0).exp() + noise(i)).collect();
        let told = mser(&samples).unwrap();
        assert!(!told.is_undecided && (50..=200).contains(&told.samples), "{told:?}");
        let steady: Vec<f64> = (0..600).map(noise).collect();
        assert!(mser(&steady).unwrap().samples <= 150, "{:?}", mser(&steady));
        let growing: Vec<f64> = (0..600).map(|i| i as f64).collect();
        assert_eq!(mser(&growing), Some(Truncation { samples: 300, is_undecided: true }));
        assert_eq!(mser(&[1.0; 39]), None);
    }
}
