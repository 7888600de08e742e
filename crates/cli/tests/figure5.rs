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

fn figure_5(attempt: &mut Attempt) {
    // Time that is taken away stands still for the links.
    attempt.tolerates(0.03);
    let arguments = "--json reproduce steering --figure 5 --arm lab --quick --out";
    let out = concat!(env!("CARGO_MANIFEST_DIR"), "/../../out/test");
    let output = weir().args(arguments.split(' ')).arg(out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 1 is a claim that was missed.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    for run in result["runs"].as_array().unwrap() {
        attempt.stalled(run["host"]["stalled_share"].as_f64().unwrap());
    }
    let claims = result["claims"].as_array().unwrap();
    // What a short run cannot decide is the smaller part: delays and shares of runs that are shorter than
    // their convergence. What is missed by more than that fails below.
    let undecided = claims.iter().filter(|claim| claim["undecided"] == true).count();
    assert!(claims.len() >= 12 && 3 * undecided <= claims.len(), "{claims:?}");
    for claim in claims {
        let text = |key: &str| claim[key].as_str().unwrap();
        attempt.holds(
            format_args!("{} {}: {}", text("id"), text("text"), text("measured")),
            text("expected"),
            claim["held"] == true || claim["undecided"] == true,
        );
    }
}
