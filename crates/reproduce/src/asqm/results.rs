//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::plan;
use super::measured::{Measured, measure};
use super::{Arguments, claims, draw, said, tables, text};
use crate::host::{Error, Host, Report};
use crate::journal::{Done, Journal};
use crate::publish::Outcome;
use crate::said::{Experiments, tell};
use serde_json::json;
use std::path::PathBuf;

/// Repeats the experiments.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let plan = plan(arguments)?;
    let folder = folder(arguments);
    host.prepare(&folder)?;
    let Done { runs, origins } =
        Journal::begin(&folder, arguments.resume, host)?.simulate(&plan, host, measure)?;
    let cases = Measured::new(&runs);
    let mut claims = match arguments.figure.value.sweeps {
        true => text::oversized(host)?.map_or(Vec::new(), claims::oversized),
        false => Vec::new(),
    };
    claims.extend(claims::all(&cases));
    tell(&mut claims, said::TABLE, &Experiments::new(host, arguments.quick))?;
    let outcome = Outcome {
        title: title(arguments),
        notes: vec![note(arguments)],
        about: json!({
            "paper": "asqm", "figure": arguments.figure.name, "arm": "sim", "quick": arguments.quick,
            "borrow": arguments.borrow, "machines": arguments.machines,
        }),
        runs: json!(runs),
        origins,
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        figures: draw::figures(arguments.figure.value.figures, &cases),
        tables: tables::all(&cases),
        ..Outcome::default()
    };
    outcome.deliver_with_tables(&folder, host)
}

fn title(arguments: &Arguments) -> String {
    let what = match arguments.figure.name {
        "all" => "figures 4 to 15".to_string(),
        "4-15" => "figures 4 to 15, without what is told beside them".to_string(),
        "sweep" => "what is told without a figure".to_string(),
        one => format!("figure {one}"),
    };
    format!("ASQM, {what}{}", arguments.testbed().1)
}

fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    let (named, _) = arguments.testbed();
    arguments.out.join(format!("asqm-figure{}-sim{named}{quick}", arguments.figure.name))
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
