//! Runs the cases, judges the claims, and writes and prints what came of them.

use super::cases::Case;
use super::cases::plan;
use super::measured::{Measured, Values, measure};
use super::users::{self, Noticed};
use super::{Arguments, claims, draw, said, tables, text};
use crate::host::{Error, Host, Report};
use crate::journal::{Done, Journal};
use crate::publish::Outcome;
use crate::runs::NestedCase;
use crate::said::{Experiments, tell};
use serde_json::json;
use std::path::{Path, PathBuf};
use weir_measure::result::Claim;

/// Repeats the test in the simulator.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let plan = plan(arguments)?;
    let folder = folder(arguments);
    host.prepare(&folder)?;
    let done = Journal::begin(&folder, arguments.resume, host)?.simulate(&plan, host, measure)?;
    let beside = Beside { background: text::background(host)?, noticed: users::noticed(arguments, host)? };
    publish_with(done, beside, note(arguments.quick), arguments, &folder, host)
}

/// Judges what an arm measured and writes it.
#[cfg(feature = "live")]
pub fn publish(
    done: Done<NestedCase<Case>, Values>,
    note: String,
    arguments: &Arguments,
    folder: &Path,
    host: &dyn Host,
) -> Result<Report, Error> {
    publish_with(done, Beside::default(), note, arguments, folder, host)
}

/// What comes of other runs.
#[derive(Default)]
struct Beside {
    /// Claims that were judged on them.
    background: Vec<Claim>,
    /// What users notice.
    noticed: Vec<Noticed>,
}

/// The same, with what comes of other runs.
fn publish_with(
    Done { runs, origins }: Done<NestedCase<Case>, Values>,
    beside: Beside,
    note: String,
    arguments: &Arguments,
    folder: &Path,
    host: &dyn Host,
) -> Result<Report, Error> {
    let cases = Measured::new(&runs);
    let mut claims = claims::all(&cases);
    claims.extend(beside.background);
    tell(&mut claims, said::TABLE, &Experiments::new(host, arguments.quick))?;
    let mut tables = tables::all(&cases, arguments.quick);
    tables.extend(users::table(&beside.noticed));
    let outcome = Outcome {
        title: "Virtual AQM before a radio cell".into(),
        notes: vec![note],
        about: json!({
            "paper": "vaqm", "arm": arguments.arm.name(), "quick": arguments.quick, "jobs": arguments.jobs,
        }),
        runs: json!(runs),
        origins,
        more: if beside.noticed.is_empty() { json!(null) } else { json!({ "noticed": beside.noticed }) },
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        figures: draw::figures(&cases),
        tables,
        ..Outcome::default()
    };
    outcome.deliver_with_tables(folder, host)
}

/// Where the results of these arguments go.
pub fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    arguments.out.join(format!("vaqm-{}{quick}", arguments.arm.name()))
}

fn note(quick: bool) -> String {
    let length = if quick {
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
