//! What a paper says beside its claims as they are judged here: its own words and numbers, where the bound
//! comes from, and why a claim is missed where that is known.

use crate::choice::Arm;
use crate::experiment::{Experiment, Points, expand};
use crate::host::{Error, Host};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use weir_measure::result::Claim;

/// What a paper says of one claim, or of several with the same identifier.
#[derive(Clone, Copy)]
pub struct Said {
    /// Identifier of the claim, such as `A5`.
    pub id: &'static str,
    /// A part of the claim's sentence; empty for every claim with the identifier that no row before is about.
    pub about: &'static str,
    /// The paper's own words, with its number where it gives one.
    pub paper: &'static str,
    /// Where the bound comes from.
    pub basis: &'static str,
    /// Why it is missed, as far as something is known of that; empty otherwise.
    pub cause: &'static str,
    /// What shows that; without it the cause is assumed.
    pub experiment: Option<&'static Experiment>,
    /// Whether it is a criterion of this program's, of which the paper says nothing.
    pub own: bool,
}

/// Without an experiment.
pub const fn row(
    id: &'static str,
    about: &'static str,
    paper: &'static str,
    basis: &'static str,
    cause: &'static str,
) -> Said {
    Said { id, about, paper, basis, cause, experiment: None, own: false }
}

impl Said {
    /// A criterion of this program's.
    pub const fn own(self) -> Said {
        Said { own: true, ..self }
    }

    /// With an experiment that shows the cause.
    pub const fn shown_by(self, experiment: &'static Experiment) -> Said {
        Said { experiment: Some(experiment), ..self }
    }
}

/// The experiments that show causes, the scenario of each run once, when the first claim that needs it was
/// missed.
pub struct Experiments<'a> {
    /// None where nothing is run, as in a short form.
    host: Option<&'a dyn Host>,
    /// What the runs that are judged have otherwise than the files, made in the points of one, and how it is
    /// called; it may leave a file as it is.
    otherwise: Option<(&'a Otherwise<'a>, &'a str)>,
    /// What was run, by the name of its file, and what it had otherwise: several experiments may be about
    /// one.
    run: RefCell<BTreeMap<&'static str, (Points, String)>>,
}

/// Changes the points of a file, and tells whether it did.
type Otherwise<'a> = dyn Fn(&mut [weir_config::Point]) -> bool + 'a;

impl<'a> Experiments<'a> {
    /// Run by this host, but not in a short form.
    pub fn new(host: &'a dyn Host, quick: bool) -> Experiments<'a> {
        Experiments { host: (!quick).then_some(host), otherwise: None, run: RefCell::default() }
    }

    /// The same, run as the runs that are judged are, and what is said of that.
    pub fn otherwise(self, change: &'a Otherwise<'a>, told: &'a str) -> Experiments<'a> {
        Experiments { otherwise: Some((change, told)), ..self }
    }

    /// What came of one, with the name of its file, and whether it was as expected; nothing of one that is
    /// not run.
    fn of(&self, id: &str, experiment: &Experiment) -> Result<Option<(String, String, bool)>, Error> {
        let (name, _) = experiment.file;
        let Some(host) = self.host.filter(|host| !host.is_interrupted()) else { return Ok(None) };
        let mut run = self.run.borrow_mut();
        if !run.contains_key(name) {
            host.say(&format!("why {id} was missed: {name}"));
            let mut points = expand(experiment.file)?;
            let otherwise = self.otherwise.filter(|(change, _)| change(&mut points));
            let points = Points::run(&points, host)?;
            if host.is_interrupted() {
                return Ok(None);
            }
            let told = otherwise.map_or(String::new(), |(_, told)| format!(", {told}"));
            run.insert(name, (points, told));
        }
        Ok(run.get(name).map(|(points, told)| {
            let (found, is_expected) = (experiment.judge)(points);
            (found, format!("{name}{told}"), is_expected)
        }))
    }
}

/// The other simulator, and what claims about it are called: that it finds the same. They are none of a
/// paper.
pub const WITNESS: &str = "ns-2";

/// Claims of a paper that are not judged in some arms.
#[derive(Clone, Copy, Debug)]
pub struct Unjudged {
    /// Their identifiers.
    pub ids: &'static [&'static str],
    /// The arms.
    arms: &'static [Arm],
    /// Why not.
    pub why: &'static str,
}

impl Unjudged {
    /// Of which no run can tell.
    pub const fn anywhere(ids: &'static [&'static str], why: &'static str) -> Unjudged {
        Unjudged { ids, arms: &[Arm::Sim, Arm::Lab, Arm::Upf], why }
    }

    /// Which only simulated runs judge.
    pub const fn live(ids: &'static [&'static str], why: &'static str) -> Unjudged {
        Unjudged { ids, arms: &[Arm::Lab, Arm::Upf], why }
    }

    /// Whether this is so in the arm of this name.
    pub fn is_in(&self, arm: &str) -> bool {
        self.arms.iter().any(|this| this.name() == arm)
    }
}

/// Puts beside each claim what the paper says of it, and beside a missed one its cause, with what the
/// experiment found that shows it.
pub fn tell(claims: &mut [Claim], table: &[Said], experiments: &Experiments) -> Result<(), Error> {
    for claim in claims {
        let row = table.iter().find(|row| row.id == claim.id && claim.text.contains(row.about));
        let Some(row) = row else { continue };
        claim.paper = row.paper.into();
        claim.basis = row.basis.into();
        claim.own = row.own;
        if claim.is_missed() {
            claim.cause = row.cause.into();
            let Some(experiment) = row.experiment else { continue };
            if let Some((found, file, is_expected)) = experiments.of(&claim.id, experiment)? {
                let cause = row.cause;
                claim.cause = match is_expected {
                    true => format!("{cause}: {found} ({file})"),
                    false => format!("{cause}, which {file} did not show: {found}"),
                };
                claim.shown = is_expected;
            }
        }
    }
    Ok(())
}

/// Leaves claims open that an arm cannot decide, whatever it measured: identifier, a part of the sentence,
/// and why, which stands where the cause of a missed one does.
pub fn leave_open(claims: &mut [Claim], table: &[(&str, &str, &str)]) {
    for claim in claims {
        let row = table.iter().find(|(id, about, _)| *id == claim.id && claim.text.contains(about));
        row.into_iter().for_each(|(_, _, why)| open(claim, why));
    }
}

/// Leaves a claim open, and says why.
pub fn open(claim: &mut Claim, why: &str) {
    (claim.held, claim.undecided, claim.shown, claim.cause) = (false, true, false, why.into());
}

/// The claims in numbers: how many were judged, held and missed, in all and for each identifier, of how many
/// missed ones an experiment showed the cause and of how many one is assumed, and which claims this arm does
/// not judge. Criteria of this program's, and comparisons with another simulator, count apart.
pub fn totals(claims: &[Claim], unjudged: &[Unjudged], arm: &str) -> Value {
    let (own, claims): (Vec<&Claim>, Vec<&Claim>) = claims.iter().partition(|claim| claim.own);
    let (compared, claims): (Vec<&Claim>, Vec<&Claim>) =
        claims.into_iter().partition(|claim| claim.id == WITNESS);
    let apart = |claims: &[&Claim]| {
        let count = |is: fn(&Claim) -> bool| claims.iter().filter(|claim| is(claim)).count();
        json!({ "held": count(|c| c.held), "missed": count(Claim::is_missed), "undecided": count(|c| c.undecided) })
    };
    let mut by_id: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for claim in &claims {
        let counts = by_id.entry(&claim.id).or_default();
        counts[if claim.held { 0 } else { 1 + usize::from(claim.undecided) }] += 1;
    }
    let sum = |i: usize| by_id.values().map(|counts| counts[i]).sum::<u64>();
    let missed = || claims.iter().filter(|c| c.is_missed());
    let shown = missed().filter(|c| c.shown).count();
    let assumed = missed().filter(|c| !c.shown && !c.cause.is_empty()).count();
    json!({
        "judged": sum(0) + sum(1), "held": sum(0), "missed": sum(1), "cause_shown": shown, "cause_assumed": assumed,
        "undecided": sum(2), "own": apart(&own), "beside_ns2": apart(&compared),
        "by_id": by_id.iter().map(|(id, [held, missed, undecided])| {
            (id.to_string(), json!({ "held": held, "missed": missed, "undecided": undecided }))
        }).collect::<serde_json::Map<_, _>>(),
        "not_judgeable": unjudged.iter().filter(|claims| claims.is_in(arm)).flat_map(|claims| {
            claims.ids.iter().map(|id| json!({ "id": id, "why": claims.why }))
        }).collect::<Vec<_>>(),
    })
}

/// That every claim has the paper's words and the origin of its bound, and that its row is about it.
#[cfg(test)]
pub fn assert_told(claims: &[Claim], table: &[Said]) {
    let mut claims = claims.to_vec();
    let none = Experiments { host: None, otherwise: None, run: RefCell::default() };
    tell(&mut claims, table, &none).expect("nothing is run");
    let untold: Vec<&Claim> =
        claims.iter().filter(|claim| claim.paper.is_empty() || claim.basis.is_empty()).collect();
    assert!(untold.is_empty(), "without the paper's words: {untold:#?}");
    crate::experiment::assert_judged(table.iter().filter_map(|row| row.experiment));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_get_the_words_of_the_first_row_that_is_about_them() {
        let claim = |text: &str, held| Claim { id: "A5".into(), text: text.into(), held, ..Claim::default() };
        let mut claims = [claim("with 2 flows", false), claim("other", true), claim("other", false)];
        let row = |about, paper, cause| row("A5", about, paper, "text", cause);
        let none = Experiments { host: None, otherwise: None, run: RefCell::default() };
        let table = [row("2 flows", "10 to 20 ms", "why"), row("", "below 30 ms", "")];
        tell(&mut claims, &table, &none).unwrap();
        let seen = claims.each_ref().map(|c| (c.paper.as_str(), c.cause.as_str()));
        assert_eq!(seen, [("10 to 20 ms", "why"), ("below 30 ms", ""), ("below 30 ms", "")]);
        let total = totals(
            &claims,
            &[Unjudged::anywhere(&["A1"], "background"), Unjudged::live(&["A2"], "arithmetic")],
            "sim",
        );
        let wanted = [
            ("judged", 3),
            ("held", 1),
            ("missed", 2),
            ("cause_shown", 0),
            ("cause_assumed", 1),
            ("undecided", 0),
        ];
        wanted.iter().for_each(|(key, count)| assert_eq!(total[key], *count, "{key}"));
        claims[0].shown = true;
        let total_shown = totals(&claims, &[], "sim");
        assert_eq!((&total_shown["cause_shown"], &total_shown["cause_assumed"]), (&json!(1), &json!(0)));
        assert_eq!(claims[0].why().as_deref(), Some("is missed: why"));
        tell(&mut claims, &[row("2 flows", "10 to 20 ms", "why").own()], &none).unwrap();
        let apart = totals(&claims, &[], "sim");
        assert_eq!(
            (&apart["judged"], &apart["own"]),
            (&json!(2), &json!({ "held": 0, "missed": 1, "undecided": 0 }))
        );
        let alike = Claim { id: WITNESS.into(), held: true, ..Claim::default() };
        let beside = totals(&[claims.to_vec(), vec![alike]].concat(), &[], "sim");
        assert_eq!((&beside["judged"], &beside["by_id"]), (&apart["judged"], &apart["by_id"]));
        assert_eq!(beside["beside_ns2"], json!({ "held": 1, "missed": 0, "undecided": 0 }));
        leave_open(&mut claims, &[("A5", "2 flows", "no room")]);
        assert_eq!(claims[0].why().as_deref(), Some("is not judged: no room"));
        assert_eq!(total["by_id"]["A5"]["missed"], 2);
        assert_eq!(total["not_judgeable"], json!([{ "id": "A1", "why": "background" }]));
    }

    #[test]
    fn a_file_is_run_once_whatever_experiments_are_about_it() {
        const FILE: (&str, &str) = ("file.toml", "");
        let one = Experiment { file: FILE, judge: |points| (format!("{} points", points.0.len()), true) };
        let other = Experiment { file: FILE, judge: |points| ("none".into(), !points.0.is_empty()) };
        let host = crate::journal::tests::Quiet::default();
        let experiments = Experiments::new(&host, false);
        experiments.run.borrow_mut().insert(FILE.0, (Points(Vec::new()), ", otherwise".into()));
        let file = "file.toml, otherwise".to_string();
        assert_eq!(experiments.of("A5", &one).unwrap(), Some(("0 points".into(), file.clone(), true)));
        assert_eq!(experiments.of("A6", &other).unwrap(), Some(("none".into(), file, false)));
    }
}
