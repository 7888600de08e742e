//! Numbers as people read them.

/// The largest magnitude that is drawn; anything beyond is a fault of the data and is treated as missing,
/// so that no difference or sum of two drawn numbers can overflow.
const MAX_DRAWN: f64 = 1e18;

/// Whether a value can be drawn at all.
pub(crate) fn drawable(v: f64) -> bool {
    v.abs() <= MAX_DRAWN
}

/// The smallest and largest drawable values.
pub(crate) fn extent<'a>(values: impl IntoIterator<Item = &'a f64>) -> Option<(f64, f64)> {
    let drawn = values.into_iter().copied().filter(|v| drawable(*v));
    drawn.fold(None, |found, v| match found {
        None => Some((v, v)),
        Some((lo, hi)) => Some((lo.min(v), hi.max(v))),
    })
}

/// `v` with `digits` significant digits and no trailing zeros; a dash where there is no number.
pub(crate) fn significant(v: f64, digits: i32) -> String {
    if !drawable(v) {
        return "–".to_string();
    }
    if v == 0.0 {
        return "0".to_string();
    }
    let magnitude = v.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).clamp(0, 12) as usize;
    trim(format!("{v:.decimals$}"))
}

/// `v` with `decimals` places; a dash where there is no number.
pub(crate) fn fixed(v: f64, decimals: usize) -> String {
    if drawable(v) { format!("{v:.decimals$}") } else { "–".to_string() }
}

/// `v` with at most `decimals` places and no trailing zeros, for coordinates and data.
pub(crate) fn compact(v: f64, decimals: usize) -> String {
    trim(format!("{v:.decimals$}"))
}

fn trim(text: String) -> String {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

/// `v` rounded to six significant digits, so that embedded data stays small.
pub(crate) fn rounded(v: f64) -> Option<f64> {
    if !drawable(v) {
        return None;
    }
    format!("{v:.5e}").parse().ok()
}

/// A decimal prefix and the number to divide by, so that `largest` has one to three digits before the point.
pub(crate) fn prefix(largest: f64) -> (f64, &'static str) {
    const PREFIXES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    PREFIXES.into_iter().find(|(scale, _)| largest >= *scale).unwrap_or((1.0, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(significant(1234.5678, 4), "1235");
        assert_eq!(significant(0.0123456, 3), "0.0123");
        assert_eq!(significant(2.5, 4), "2.5");
        assert_eq!(significant(f64::NAN, 4), "–");
        assert_eq!(compact(-0.001, 1), "0");
        assert_eq!(compact(100.0, 0), "100");
        assert_eq!(rounded(123_456_789.0), Some(123_457_000.0));
        assert_eq!(rounded(f64::INFINITY), None);
        assert_eq!(prefix(9.5e9), (1e9, "G"));
    }

    #[test]
    fn holes_have_no_extent() {
        assert_eq!(extent(&[f64::NAN, 2.0, f64::INFINITY, -1.0, 1e300]), Some((-1.0, 2.0)));
        assert_eq!(extent(&[f64::NAN]), None);
    }
}
