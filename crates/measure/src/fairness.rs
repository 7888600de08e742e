//! How equal shares are.

/// Jain's index: 1 where all get the same, 1/n where one gets everything; none where nobody gets anything.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}
