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

/// What became of a claim in a few words, with whose it is.
pub fn outcome(claim: &Claim) -> String {
    let own = if claim.own { " (own)" } else { "" };
    format!("{}{own}", Judged::of(claim).word())
}

/// How many of the claims that were judged held, and how many were not judged; criteria of this program's
/// apart. `what` stands before "held", with a blank behind it, or is empty.
pub fn tally<'a>(claims: impl IntoIterator<Item = &'a Claim>, what: &str) -> String {
    let (own, claims): (Vec<&Claim>, Vec<&Claim>) = claims.into_iter().partition(|claim| claim.own);
    let counted = |claims: &[&Claim], what: &str| {
        let held = claims.iter().filter(|c| c.held).count();
        let open = claims.iter().filter(|c| c.undecided).count();
        let undecided = if open == 0 { String::new() } else { format!(", {open} not judged") };
        format!("{held} of {} {what}{undecided}", claims.len() - open)
    };
    let of_own = match own.len() {
        0 => String::new(),
        _ => format!("; {}", counted(&own, "criteria of our own")),
    };
    format!("{}{of_own}", counted(&claims, &format!("{what}held")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_of_our_own_count_apart() {
        let claim = |held, own| Claim { held, own, ..Claim::default() };
        let claims = [claim(true, false), claim(false, false), claim(true, true)];
        assert_eq!(tally(&claims[..2], "claims "), "1 of 2 claims held");
        assert_eq!(tally(&claims, "claims "), "1 of 2 claims held; 1 of 1 criteria of our own");
        let open = [claim(true, false), Claim { undecided: true, ..claim(false, false) }];
        assert_eq!(tally(&open, "claims "), "1 of 1 claims held, 1 not judged");
        assert_eq!(claims.each_ref().map(outcome), ["held", "missed", "held (own)"]);
    }
}
