//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::{Planned, plan};
use super::measured::{Cases, Run, measure};
use super::{Arguments, claims, draw, tables};
use crate::output::{Done, Output};
use crate::results::prepare;
use crate::verbs::reproduce::publish::{Outcome, value_name};
use crate::verbs::reproduce::work::run_all;
use std::path::{Path, PathBuf};

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
    let outcome = Outcome {
        claims: claims::all(&cases),
        figures: draw::figures(&cases),
        tables: tables::all(&cases, arguments.quick),
        runs,
    };
    let about = serde_json::json!({
        "paper": "vaqm",
        "arm": value_name(&arguments.arm),
        "quick": arguments.quick,
    });
    outcome.deliver("Virtual AQM before a radio cell", &[note(arguments)], about, folder, output)
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
