//! What flows of BBR do to steered and other queues: no figure of the paper, and no claims.

use super::{Arguments, Arm, folder};
use crate::claim::percent;
use crate::experiment::{Point, Points, delay_mean_ms, delay_p95_ms, expand, samples, utilization};
use crate::host::{Error, Host, Report};
use crate::publish::Outcome;
use crate::statistics::mean;
use serde_json::json;
use weir_measure::result::Recording;
use weir_report::html::Rows;

/// Name of the choice.
pub const NAME: &str = "bbr";

const HEADER: [&str; 7] =
    ["BBR", "flows", "queue", "utilization", "mean ms", "95 % ms", "told: do not respond"];
const NOTE: &str = "100 Mbit/s, 50 ms, a buffer of 200 ms unless it says otherwise, GSP-AS with <99 %, 30 ms>, 40 s after 20 s. \
    Steering tells that flows do not respond (state 4) in the last column's share of that time. \
    Version 1 answers neither single losses nor marks: room alone bounds its delay, that of the link (\"buffer\") or that of each flow \
    (\"FQ\", tail drop in a FlowQueue). docs/steering.md says what to choose.";

/// Runs the scenario and puts its points into a table.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let Arguments { rate, seeds, quick, resume, .. } = arguments;
    if arguments.arm != Arm::Sim || rate.is_some() || seeds.is_some() || *quick || *resume {
        let remedy = "choose --arm sim, without --rate, --seeds, --quick and --resume";
        return Err(Error::input(format!(
            "figure {NAME} is a scenario of the simulator as it stands: {remedy}"
        )));
    }
    let folder = folder(arguments, &format!("figure{NAME}-sim"));
    host.prepare(&folder)?;
    let Points(points) = Points::run(&expand(scenario_file!("bbr.toml"))?, host)?;
    let made = || points.iter().filter(|point| !point.runs.is_empty());
    let repetitions = made().map(|point| point.runs.len()).max().unwrap_or(0);
    let runs = made().flat_map(|point| {
        let run = move |seed: usize| json!({ "case": point.values, "seed": seed, "link": point.runs[seed].summary.links.first() });
        (0..point.runs.len()).map(run)
    });
    let outcome = Outcome {
        title: "AQM Steering, BBR in steered and other queues, simulated".into(),
        notes: vec![NOTE.into()],
        about: json!({ "paper": "steering", "figure": NAME, "arm": "sim", "quick": false }),
        runs: runs.collect(),
        tables: vec![Rows {
            title: format!("Means of {repetitions} runs"),
            header: HEADER.map(String::from).to_vec(),
            rows: made().map(row).collect(),
        }],
        ..Outcome::default()
    };
    outcome.deliver_with_tables(&folder, host)
}

/// Whether a set point was moved or could have been: its queue has a state.
fn is_steered(point: &Point) -> bool {
    point.runs.iter().flat_map(samples).any(|sample| sample.table_state > 0)
}

fn row(point: &Point) -> Vec<String> {
    let of = |quantity: crate::experiment::Quantity| mean(point.runs.iter().map(quantity));
    let mut cells = point.values.clone();
    cells.extend([
        percent(of(utilization)),
        format!("{:.1}", of(delay_mean_ms)),
        format!("{:.1}", of(delay_p95_ms)),
        if is_steered(point) { percent(of(Recording::unresponsive_share)) } else { "-".into() },
    ]);
    cells
}
