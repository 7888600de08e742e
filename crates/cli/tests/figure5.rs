//! Figure 5 of the paper on AQM Steering in its short form, with real TCP. It takes minutes and is only run
//! by name, as `tools/test` does: `cargo test --workspace --test figure5`.

#[path = "../../lab/tests/skipped/mod.rs"]
mod skipping;

use serde_json::Value;
use skipping::judged::{Attempt, judged};
use std::process::Command;

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

#[test]
fn steering_holds_its_claims_with_real_tcp() {
    let diagnosis = weir().args(["--json", "doctor"]).output().unwrap().stdout;
    let diagnosis: Value = serde_json::from_slice(&diagnosis).unwrap();
    if diagnosis["can"]["lab"] != true {
        return skipping::skipped("needs what `weir lab` needs");
    }
    judged(figure_5);
}

/// How often each point is run where one run misses a claim: a run of seconds may do so by chance, as flows
/// that began alike may or may not lose at the same time. The means of so many are judged then.
const RUNS_AGAIN: &str = "2";
/// The series that is run again, unless a claim that names another one was missed.
const STEERED: &str = "GSP-AS";
/// Time that is taken away stands still for the links.
const TOLERATED: f64 = 0.03;

fn figure_5(attempt: &mut Attempt) {
    attempt.tolerates(TOLERATED);
    let mut result = reproduce(&[]);
    // What the machine missed is not judged, whatever the next runs are like.
    let was_there = stalls(&result).all(|share| share <= TOLERATED);
    let (missed, open) = (claims(&result, is_missed), decides_too_little(&result));
    if was_there && (!missed.is_empty() || open.is_some()) {
        // What is open is so by the steered runs. What is missed may be so by either side of a comparison:
        // two flows under CoDel had 99.74 % of the link once, where they have less than GSP-AS.
        let steered = &["--series", STEERED][..];
        let which = if missed.iter().all(|claim| is_of_steered(&result, claim)) { steered } else { &[] };
        let open = open.unwrap_or_default();
        skipping::say(format!(
            "a second run of each point {which:?}, as of the first: missed {missed:?}, undecided {open}"
        ));
        result = reproduce(&[&["--seeds", RUNS_AGAIN, "--resume"], which].concat());
    }
    stalls(&result).for_each(|share| attempt.stalled(share));
    if let Some(open) = decides_too_little(&result) {
        attempt.undecided(open);
    }
    assert!(all(&result).len() >= 12, "{result}");
    for claim in all(&result) {
        let text = |key: &str| claim[key].as_str().unwrap();
        attempt.holds(
            format_args!("{} {}: {}", text("id"), text("text"), text("measured")),
            text("expected"),
            !is_missed(claim),
        );
    }
}

/// Runs the short form, and returns its result.
fn reproduce(more: &[&str]) -> Value {
    let arguments = "--json reproduce steering --figure 5 --arm lab --quick --out";
    let out = concat!(env!("CARGO_MANIFEST_DIR"), "/../../out/test");
    let output = weir().args(arguments.split(' ')).arg(out).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 1 is a claim that was missed.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// Whether a claim names the steered series and no other.
fn is_of_steered(result: &Value, claim: &str) -> bool {
    let mut runs = result["runs"].as_array().unwrap().iter();
    let others = runs.any(|run| run["series"] != STEERED && claim.contains(run["series"].as_str().unwrap()));
    claim.contains(STEERED) && !others
}

/// The share of each run in which its packet loop stood still.
fn stalls(result: &Value) -> impl Iterator<Item = f64> {
    result["runs"].as_array().unwrap().iter().map(|run| run["host"]["stalled_share"].as_f64().unwrap())
}

fn all(result: &Value) -> &[Value] {
    result["claims"].as_array().unwrap()
}

/// The claims of which this is so.
fn claims(result: &Value, so: fn(&Value) -> bool) -> Vec<&str> {
    all(result).iter().filter(|claim| so(claim)).map(|claim| claim["text"].as_str().unwrap()).collect()
}

fn is_missed(claim: &Value) -> bool {
    claim["held"] != true && claim["undecided"] != true
}

fn is_undecided(claim: &Value) -> bool {
    claim["undecided"] == true
}

/// What is undecided, if it is more than a third: what short runs cannot decide, delays and shares of runs
/// that are shorter than their convergence, has to be the smaller part.
fn decides_too_little(result: &Value) -> Option<String> {
    let (open, all) = (claims(result, is_undecided), all(result).len());
    (3 * open.len() > all).then(|| format!("of {all} claims these: {open:?}"))
}
