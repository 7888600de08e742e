//! What a paper says beside its claims as they are judged here: its own words and numbers, where the bound
//! comes from, and why a claim is missed where that is known.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_measure::result::Claim;

/// What a paper says of one claim, or of several with the same identifier.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Identifier of the claim, such as `A5`.
    pub id: &'static str,
    /// A part of the claim's sentence; empty for every claim with the identifier that no row before is about.
    pub about: &'static str,
    /// The paper's own words, with its number where it gives one.
    pub paper: &'static str,
    /// Where the bound comes from.
    pub basis: &'static str,
    /// Why it is missed, where that was found out; empty otherwise.
    pub cause: &'static str,
}

/// A claim of a paper that no run can judge, and why.
pub type Unjudged = (&'static str, &'static str);

/// Puts beside each claim what the paper says of it.
pub fn tell(claims: &mut [Claim], table: &[Said]) {
    for claim in claims {
        let row = table.iter().find(|row| row.id == claim.id && claim.text.contains(row.about));
        let Some(row) = row else { continue };
        claim.paper = row.paper.into();
        claim.basis = row.basis.into();
        if claim.is_missed() {
            claim.cause = row.cause.into();
        }
    }
}

/// The claims in numbers: how many were judged, held and missed, in all and for each identifier, which of
/// the missed ones have a cause that is known, and which claims no run can judge.
pub fn totals(claims: &[Claim], unjudged: &[Unjudged]) -> Value {
    let mut by_id: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for claim in claims {
        let counts = by_id.entry(&claim.id).or_default();
        counts[if claim.held { 0 } else { 1 + usize::from(claim.undecided) }] += 1;
    }
    let sum = |i: usize| by_id.values().map(|counts| counts[i]).sum::<u64>();
    let explained = claims.iter().filter(|c| c.is_missed() && !c.cause.is_empty()).count();
    json!({
        "judged": sum(0) + sum(1), "held": sum(0), "missed": sum(1), "missed_with_cause": explained,
        "undecided": sum(2),
        "by_id": by_id.iter().map(|(id, [held, missed, undecided])| {
            (id.to_string(), json!({ "held": held, "missed": missed, "undecided": undecided }))
        }).collect::<serde_json::Map<_, _>>(),
        "not_judgeable": unjudged.iter().map(|(id, why)| json!({ "id": id, "why": why })).collect::<Vec<_>>(),
    })
}

/// That every claim has the paper's words and the origin of its bound, and that its row is about it.
#[cfg(test)]
pub fn assert_told(claims: &[Claim], table: &[Said]) {
    let mut claims = claims.to_vec();
    tell(&mut claims, table);
    let untold: Vec<&Claim> =
        claims.iter().filter(|claim| claim.paper.is_empty() || claim.basis.is_empty()).collect();
    assert!(untold.is_empty(), "without the paper's words: {untold:#?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_get_the_words_of_the_first_row_that_is_about_them() {
        let claim = |text: &str, held| Claim { id: "A5".into(), text: text.into(), held, ..Claim::default() };
        let mut claims = [claim("with 2 flows", false), claim("other", true), claim("other", false)];
        let row = |about, paper, cause| Said { id: "A5", about, paper, basis: "text", cause };
        tell(&mut claims, &[row("2 flows", "10 to 20 ms", "why"), row("", "below 30 ms", "")]);
        let seen = claims.each_ref().map(|c| (c.paper.as_str(), c.cause.as_str()));
        assert_eq!(seen, [("10 to 20 ms", "why"), ("below 30 ms", ""), ("below 30 ms", "")]);
        let total = totals(&claims, &[("A1", "background")]);
        let wanted = [("judged", 3), ("held", 1), ("missed", 2), ("missed_with_cause", 1), ("undecided", 0)];
        wanted.iter().for_each(|(key, count)| assert_eq!(total[key], *count, "{key}"));
        assert_eq!(total["by_id"]["A5"]["missed"], 2);
        assert_eq!(total["not_judgeable"][0]["id"], "A1");
    }
}
