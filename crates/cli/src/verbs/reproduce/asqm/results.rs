//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::{Planned, plan};
use super::measured::{Cases, measure};
use super::{Arguments, claims, draw, tables};
use crate::output::{Done, Output};
use crate::results::prepare;
use crate::verbs::reproduce::publish::{Outcome, value_name};
use crate::verbs::reproduce::work::run_all;
use std::path::PathBuf;

/// Repeats the experiments.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let plan = plan(arguments)?;
    let folder = folder(arguments);
    prepare(&folder)?;
    let runs = run_all(&plan, |p: &Planned| &p.scenario, output, measure)?;
    let cases = Cases::new(&runs);
    let outcome = Outcome {
        claims: claims::all(&cases),
        figures: draw::figures(arguments.figure, &cases),
        tables: tables::all(&cases),
        runs,
    };
    let about = serde_json::json!({
        "paper": "asqm",
        "figure": value_name(&arguments.figure),
        "arm": "sim",
        "quick": arguments.quick,
    });
    outcome.deliver(&title(arguments), &[note(arguments)], about, &folder, output)
}

fn title(arguments: &Arguments) -> String {
    match value_name(&arguments.figure).as_str() {
        "all" => "ASQM, figures 4 to 15".to_string(),
        "sweep" => "ASQM, what is told without a figure".to_string(),
        one => format!("ASQM, figure {one}"),
    }
}

fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    arguments.out.join(format!("asqm-figure{}-sim{quick}", value_name(&arguments.figure)))
}

fn note(arguments: &Arguments) -> String {
    let length = if arguments.quick {
        "This is the short form: 20 s, of which 15 s are measured, upload only."
    } else {
        "Runs of 120 s, of which 110 s are measured."
    };
    format!(
        "The testbed of the ASQM paper in a simulator: three modems with limiters of 16 Mbit/s, FIFOs of 1000 full frames \
         below them, and a shared access link on which they take turns; each modem has five connections that transfer \
         5 MB again and again, one without an end, and four that transfer 700 kB again and again. Bandwidth is payload \
         that reached its application in order; round trips are those of data packets. {length}"
    )
}
