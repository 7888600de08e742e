//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::{Planned, plan};
use super::measured::{Cases, Run, measure};
use super::{Arguments, claims, draw, tables};
use crate::output::{Done, Failure, Output};
use crate::results::{file_set, prepare};
use crate::verbs::reproduce::publish::{Named, Publication, keep_measured, status, text, value_name};
use crate::verbs::reproduce::work::run_all;
use std::path::{Path, PathBuf};
use weir_report::csv;
use weir_report::html::Rows;
use weir_scenario::result::Claim;

/// What became of the test.
struct Results {
    runs: Vec<Run>,
    claims: Vec<Claim>,
    figures: Vec<Named>,
    tables: Vec<Rows>,
}

/// Repeats the test in the simulator.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let plan = plan(arguments)?;
    let folder = folder(arguments);
    prepare(&folder)?;
    let runs = run_all(&plan, |p: &Planned| &p.scenario, output, measure)?;
    publish(runs, arguments, &folder, output)
}

/// Judges what an arm measured, writes it and prints it.
pub fn publish(runs: Vec<Run>, arguments: &Arguments, folder: &Path, output: &Output) -> Done {
    let cases = Cases::new(&runs);
    let mut results = Results {
        claims: claims::all(&cases),
        figures: draw::figures(&cases),
        tables: tables::all(&cases),
        runs,
    };
    keep_measured(&mut results.claims, &mut Vec::new(), output);
    write(&results, arguments, folder)?;
    output.result(&result_of(&results, arguments, folder), || {
        text(&results.tables, &results.claims, folder, output)
    });
    Ok(status(&results.claims))
}

/// Where the results of these arguments go.
pub fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    arguments.out.join(format!("vaqm-{}{quick}", value_name(&arguments.arm)))
}

fn note(arguments: &Arguments) -> String {
    #[cfg(feature = "live")]
    if arguments.arm == super::Arm::Lab {
        return super::lab::note(arguments.quick);
    }
    #[cfg(feature = "live")]
    if arguments.arm == super::Arm::Upf {
        return super::upf::note(arguments.quick);
    }
    let length = if arguments.quick {
        "This is the short form: 30 s, of which 20 s are measured."
    } else {
        "Runs of 120 s, of which 110 s are measured."
    };
    format!(
        "The test of the article: four phones share a radio cell whose rate follows a trace, 62 Mbit/s on average with a strong \
         signal and 32 with a weak one, each with a drop-tail buffer of 1 MB in the base station. Three download 1 GB \
         by TCP; the fourth loads a page of 1 MB and an image of 16 MB again and again, by TCP or QUIC. Senders are \
         CUBIC. vAQM stands before the cell: without bitrate adjustment it signals, with it FQ-CoDel runs at a rate \
         that follows the cell. Round trips are the smoothed ones of the fourth phone's senders. {length}"
    )
}

fn write(results: &Results, arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let publication = Publication {
        title: "Virtual AQM before a radio cell",
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
        "paper": "vaqm",
        "arm": value_name(&arguments.arm),
        "quick": arguments.quick,
        "claims": results.claims,
        "runs": results.runs,
        "out": folder.display().to_string(),
    })
}
