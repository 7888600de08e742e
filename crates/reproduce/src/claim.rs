//! Claims: what a paper says of a quantity, judged on what was measured. NaN holds nothing.

use std::ops::RangeInclusive;
use weir_measure::result::Claim;

/// A claim with its texts.
pub fn claim(
    id: &str,
    text: impl Into<String>,
    expected: impl Into<String>,
    measured: impl Into<String>,
    held: bool,
) -> Claim {
    Claim { id: id.into(), text: text.into(), expected: expected.into(), measured: measured.into(), held }
}

/// How a quantity is written.
pub type Unit = fn(f64) -> String;

/// A share of one as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The value is below a bound.
pub fn below(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    claim(id, text, format!("below {}", unit(bound)), unit(value), value < bound)
}

/// The value is above a bound.
pub fn above(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    claim(id, text, format!("above {}", unit(bound)), unit(value), value > bound)
}

/// The value reaches a bound.
pub fn at_least(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    claim(id, text, format!("at least {}", unit(bound)), unit(value), value >= bound)
}

/// The value does not exceed a bound.
pub fn at_most(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    claim(id, text, format!("at most {}", unit(bound)), unit(value), value <= bound)
}

/// The value lies in a range.
pub fn within(
    id: &str,
    text: impl Into<String>,
    range: RangeInclusive<f64>,
    value: f64,
    unit: Unit,
) -> Claim {
    let expected = format!("{} to {}", unit(*range.start()), unit(*range.end()));
    claim(id, text, expected, unit(value), range.contains(&value))
}
