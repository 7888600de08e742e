//! Means, quantiles and extremes. Of nothing, and of values of which one is none, they are NaN, which no
//! comparison holds for.

/// Mean.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(count)
}

/// Standard deviation.
pub fn deviation(values: impl IntoIterator<Item = f64, IntoIter: Clone>) -> f64 {
    let values = values.into_iter();
    let middle = mean(values.clone());
    mean(values.map(|v| (v - middle) * (v - middle))).sqrt()
}

/// The value that a share of sorted ones does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    weir_measure::quantile(sorted, share).unwrap_or(f64::NAN)
}

/// The values in rising order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Smallest value.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(|a, b| numbers(a, b, f64::min)).unwrap_or(f64::NAN)
}

/// Largest value.
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(|a, b| numbers(a, b, f64::max)).unwrap_or(f64::NAN)
}

/// One of two numbers; NaN unless both are.
fn numbers(a: f64, b: f64, pick: fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) }
}

/// Smallest and largest value.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    (least(values.iter().copied()), most(values.iter().copied()))
}

/// Jain's index of shares.
pub fn jain(shares: &[f64]) -> f64 {
    weir_measure::jain(shares).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_a_number() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.0);
        assert_eq!((mean([1.0, 2.0]), deviation([1.0, 3.0]), extremes(&[2.0, 1.0])), (1.5, 1.0, (1.0, 2.0)));
        assert!([quantile(&[], 0.5), mean([]), least([]), jain(&[0.0])].iter().all(|v| v.is_nan()));
        let gaps = [[1.0, f64::NAN, 2.0], [f64::NAN, 1.0, 2.0]];
        assert!(gaps.into_iter().flat_map(|gap| [least(gap), most(gap), mean(gap)]).all(f64::is_nan));
    }
}
