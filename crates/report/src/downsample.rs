//! Fewer points with the same outline.

use crate::number::drawable;

/// Indices of at most `limit` points (at least five) that keep the look of a series.
///
/// The series is cut into buckets of equal length; of each bucket the first point, the smallest, the largest
/// and the last one stay, and so does the first hole, so that a gap is not bridged. Every extreme of the
/// whole series is therefore among the points that stay.
pub fn keep_extremes(values: &[f64], limit: usize) -> Vec<usize> {
    const PER_BUCKET: usize = 5;
    if values.len() <= limit.max(PER_BUCKET) {
        return (0..values.len()).collect();
    }
    let buckets = (limit / PER_BUCKET).max(1);
    let mut kept = Vec::with_capacity(buckets * PER_BUCKET);
    for bucket in 0..buckets {
        let from = bucket * values.len() / buckets;
        let to = (bucket + 1) * values.len() / buckets;
        keep_of_bucket(values, from, to, &mut kept);
    }
    kept
}

fn keep_of_bucket(values: &[f64], from: usize, to: usize, kept: &mut Vec<usize>) {
    let drawn = || (from..to).filter(|&i| drawable(values[i]));
    let smallest = drawn().min_by(|&a, &b| values[a].total_cmp(&values[b]));
    let largest = drawn().max_by(|&a, &b| values[a].total_cmp(&values[b]));
    let hole = (from..to).find(|&i| !drawable(values[i]));
    let mut picked = [Some(from), smallest, largest, hole, to.checked_sub(1)];
    picked.sort_unstable();
    for i in picked.into_iter().flatten() {
        if kept.last().is_none_or(|&last| last < i) {
            kept.push(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_and_order_is_kept() {
        let mut values: Vec<f64> = (0..100_000).map(|i| ((i * 7919) % 1000) as f64).collect();
        values[31_337] = 5000.0;
        values[77_777] = -5000.0;
        let kept = keep_extremes(&values, 4000);
        assert!(kept.len() <= 4000, "{}", kept.len());
        assert!(kept.contains(&31_337) && kept.contains(&77_777));
        assert!(kept.windows(2).all(|w| w[0] < w[1]));
        assert_eq!((kept[0], kept[kept.len() - 1]), (0, 99_999));
    }

    #[test]
    fn holes_and_small_series_survive() {
        assert_eq!(keep_extremes(&[], 10), Vec::<usize>::new());
        assert_eq!(keep_extremes(&[1.0, f64::NAN], 0), vec![0, 1]);
        let mut values = vec![1.0; 10_000];
        values[5_000] = f64::NAN;
        assert!(keep_extremes(&values, 100).contains(&5_000));
        let all_holes = vec![f64::NAN; 1000];
        assert!(!keep_extremes(&all_holes, 10).is_empty());
    }
}
