//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::{Planned, plan};
use super::measured::{Cases, Run, measure};
use super::{Arguments, claims, draw, tables};
use crate::interrupt::is_interrupted;
use crate::output::{Done, Failure, Output};
use crate::results::{file_set, prepare};
use crate::verbs::reproduce::publish::{Named, Publication, keep_measured, status, text, value_name};
use crate::verbs::reproduce::work::run_all;
use std::path::{Path, PathBuf};
use weir_report::csv;
use weir_report::html::Rows;
use weir_scenario::result::Claim;

/// What became of the experiments.
struct Results {
    runs: Vec<Run>,
    claims: Vec<Claim>,
    figures: Vec<Named>,
    tables: Vec<Rows>,
}

/// Repeats the experiments.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let plan = plan(arguments)?;
    let folder = folder(arguments);
    prepare(&folder)?;
    let runs = run_all(&plan, |p: &Planned| &p.scenario, output, measure)?;
    let cases = Cases::new(&runs);
    let mut results = Results {
        claims: claims::all(&cases),
        figures: draw::figures(arguments.figure, &cases),
        tables: tables::all(&cases),
        runs,
    };
    keep_measured(&mut results.claims, &mut Vec::new(), output);
    write(&results, arguments, &folder)?;
    print(&results, arguments, &folder, output);
    Ok(status(&results.claims))
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

fn write(results: &Results, arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let title = match value_name(&arguments.figure).as_str() {
        "all" => "ASQM, figures 4 to 15".to_string(),
        "sweep" => "ASQM, what is told without a figure".to_string(),
        one => format!("ASQM, figure {one}"),
    };
    let publication = Publication {
        title: &title,
        notes: &[note(arguments)],
        claims: &results.claims,
        figures: &results.figures,
        tables: &results.tables,
        beside: &[],
        result: &result_of(results, arguments, folder),
    };
    let mut files = file_set(folder)?;
    for (number, table) in results.tables.iter().enumerate() {
        files.add(format!("table{}.csv", number + 1), csv::rows(table))?;
    }
    publication.publish(&[], files)
}

fn result_of(results: &Results, arguments: &Arguments, folder: &Path) -> serde_json::Value {
    serde_json::json!({
        "paper": "asqm",
        "figure": value_name(&arguments.figure),
        "arm": "sim",
        "quick": arguments.quick,
        "claims": results.claims,
        "runs": results.runs,
        "interrupted": is_interrupted(),
        "out": folder.display().to_string(),
    })
}

fn print(results: &Results, arguments: &Arguments, folder: &Path, output: &Output) {
    output.result(&result_of(results, arguments, folder), || {
        text(&results.tables, &results.claims, folder, output)
    });
}
