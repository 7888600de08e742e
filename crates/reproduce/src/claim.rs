//! Claims: what a paper says of a quantity, judged on what was measured. NaN holds nothing, nor does what is
//! infinite.

use std::cmp::Ordering;
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
    let (id, text, expected, measured) = (id.into(), text.into(), expected.into(), measured.into());
    Claim { id, text, expected, measured, held, ..Claim::default() }
}

/// Claims with the bounds of the long form. What the short one misses there, and holds with the bounds
/// `short` that allow for the shortness of its runs, is not judged. Both bounds are of the same claims in the
/// same order.
pub fn of_form<M>(quick: bool, [full, short]: [&M; 2], claims: impl Fn(&M) -> Vec<Claim>) -> Vec<Claim> {
    let mut judged = claims(full);
    if quick {
        for (claim, loose) in judged.iter_mut().zip(claims(short)) {
            claim.undecided = !claim.held && loose.held;
        }
    }
    judged
}

/// How a quantity is written.
pub type Unit = fn(f64) -> String;

/// A share of one as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A value as it is written beside a bound: where both are written alike and are not the same, with what
/// tells them apart.
fn beside(bound: f64, value: f64, unit: Unit) -> String {
    match (unit(value), value.partial_cmp(&bound)) {
        (written, Some(Ordering::Less)) if written == unit(bound) => format!("{written} (a little less)"),
        (written, Some(Ordering::Greater)) if written == unit(bound) => format!("{written} (a little more)"),
        (written, _) => written,
    }
}

/// The value beside one bound, on the side that the word says. What is not finite was not measured.
fn against(
    id: &str,
    text: impl Into<String>,
    (word, bound): (&str, f64),
    value: f64,
    unit: Unit,
    is_there: fn(&f64, &f64) -> bool,
) -> Claim {
    let held = value.is_finite() && is_there(&value, &bound);
    claim(id, text, format!("{word} {}", unit(bound)), beside(bound, value, unit), held)
}

/// The value is below a bound.
pub fn below(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    against(id, text, ("below", bound), value, unit, f64::lt)
}

/// The value is above a bound.
pub fn above(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    against(id, text, ("above", bound), value, unit, f64::gt)
}

/// The value reaches a bound.
pub fn at_least(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    against(id, text, ("at least", bound), value, unit, f64::ge)
}

/// The value does not exceed a bound.
pub fn at_most(id: &str, text: impl Into<String>, bound: f64, value: f64, unit: Unit) -> Claim {
    against(id, text, ("at most", bound), value, unit, f64::le)
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
    let nearest = if value < *range.start() { range.start() } else { range.end() };
    let written = if range.contains(&value) { unit(value) } else { beside(*nearest, value, unit) };
    claim(id, text, expected, written, range.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_written_like_its_bound_says_on_which_side_it_lies() {
        let written = |value: f64| at_least("A1", "it is high", 0.99, value, percent).measured;
        assert_eq!(written(0.98996), "99.00 % (a little less)");
        assert_eq!(written(0.99004), "99.00 % (a little more)");
        assert_eq!([written(0.99), written(0.98)], ["99.00 %", "98.00 %"]);
        let within = |value: f64| within("A1", "it is there", 0.94..=0.95, value, percent).measured;
        assert_eq!(within(0.950_01), "95.00 % (a little more)");
        assert_eq!([within(0.949_99), within(0.94)], ["95.00 %", "94.00 %"]);
        assert_eq!(written(f64::NAN), "NaN %");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let judged =
                [below, above, at_least, at_most].map(|of| of("A1", "it is so", 0.5, value, percent));
            assert!(judged.iter().all(|claim| !claim.held), "{judged:?}");
        }
    }

    #[test]
    fn a_short_form_is_judged_by_the_bounds_of_the_long_one_or_not_at_all() {
        let of =
            |most| [0.9, 1.2, 2.0].map(|value| at_most("A1", "it is low", most, value, percent)).to_vec();
        let claims = of_form(true, [&1.0, &1.5], |most| of(*most));
        let outcomes: Vec<_> = claims.iter().map(|c| (c.held, c.undecided, c.is_missed())).collect();
        assert_eq!(outcomes, [(true, false, false), (false, true, false), (false, false, true)]);
        assert!(claims.iter().all(|c| c.expected == "at most 100.00 %"), "{claims:?}");
    }
}
