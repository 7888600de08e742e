//! The claims of a reproduction in numbers.

use weir_measure::result::Claim;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It holds.
    Held,
    /// It does not.
    Missed,
    /// Nothing was decided.
    Open,
}

impl Judged {
    /// What became of this one.
    pub fn of(claim: &Claim) -> Judged {
        match claim {
            claim if claim.held => Judged::Held,
            claim if claim.undecided => Judged::Open,
            _ => Judged::Missed,
        }
    }

    /// The same in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Judged::Held => "held",
            Judged::Missed => "missed",
            Judged::Open => "not judged",
        }
    }
}

/// How many of how many claims held, and how many were not judged.
pub(crate) fn tally(claims: &[Claim], what: &str) -> String {
    let held = claims.iter().filter(|c| c.held).count();
    match claims.iter().filter(|c| c.undecided).count() {
        0 => format!("{held} of {} {what}held", claims.len()),
        undecided => format!("{held} of {} {what}held, {undecided} not judged", claims.len()),
    }
}
