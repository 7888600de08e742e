//! The claims of a reproduction in numbers.

use weir_measure::result::Claim;

/// How many of how many claims held, and how many were not judged.
pub(crate) fn tally(claims: &[Claim], what: &str) -> String {
    let held = claims.iter().filter(|c| c.held).count();
    match claims.iter().filter(|c| c.undecided).count() {
        0 => format!("{held} of {} {what}held", claims.len()),
        undecided => format!("{held} of {} {what}held, {undecided} not judged", claims.len()),
    }
}
