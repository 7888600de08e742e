//! What flows of BBR do to steered and other queues: no figure of the paper, and no claims.

use super::{Arguments, Arm, folder};
use crate::claim::percent;
use crate::experiment::{Point, Points, delay_mean_ms, delay_p95_ms, utilization};
use crate::host::{Error, Host, Report};
use crate::publish::Outcome;
use crate::statistics::mean;
use serde_json::json;
use weir_report::html::Rows;

/// Name of the choice.
pub const NAME: &str = "bbr";

const HEADER: [&str; 6] = ["BBR", "flows", "queue", "utilization", "mean ms", "95 % ms"];
const NOTE: &str = "100 Mbit/s, 50 ms, a buffer of 200 ms unless it says otherwise, GSP-AS with <99 %, 30 ms>, 40 s after 20 s. \
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
    let Points(points) = Points::of(scenario_file!("bbr.toml"), host)?;
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

fn row(point: &Point) -> Vec<String> {
    let of = |quantity: crate::experiment::Quantity| mean(point.runs.iter().map(quantity));
    let mut cells = point.values.clone();
    cells.extend([
        percent(of(utilization)),
        format!("{:.1}", of(delay_mean_ms)),
        format!("{:.1}", of(delay_p95_ms)),
    ]);
    cells
}
