//! What flows of BBR do to steered and other queues: no figure of the paper, and no claims.

use super::cases::about;
#[cfg(feature = "live")]
use super::cases::seeds;
#[cfg(feature = "live")]
use super::lab::attempt;
use super::{Arguments, Arm, folder};
use crate::claim::percent;
use crate::experiment::{Point, Points, delay_mean_ms, delay_p95_ms, expand, samples, utilization};
use crate::host::{Error, Host, Report};
use crate::journal::Origins;
#[cfg(feature = "live")]
use crate::journal::{Journal, STALLED_MAX};
use crate::publish::Outcome;
#[cfg(feature = "live")]
use crate::runs::Planned;
use crate::statistics::mean;
#[cfg(feature = "live")]
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use weir_measure::result::Recording;
use weir_report::html::Rows;

/// Name of the choice.
pub const NAME: &str = "bbr";

const HEADER: [&str; 7] =
    ["BBR", "flows", "queue", "utilization", "mean ms", "95 % ms", "told: do not respond"];
const NOTE: &str = "100 Mbit/s, 50 ms, a buffer of 200 ms unless it says otherwise, GSP-AS with <99 %, 30 ms>. \
    Steering tells that flows do not respond (state 4) in the last column's share of that time. \
    Version 1 answers neither single losses nor marks: room alone bounds its delay, that of the link (\"buffer\") or that of each flow \
    (\"FQ\", tail drop in a FlowQueue). docs/steering.md says what to choose.";

/// Runs the scenario and puts its points into a table.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let Arguments { arm, rate, seeds, quick, resume, .. } = arguments;
    let is_live = *arm != Arm::Sim;
    if rate.is_some() || *quick || !is_live && (seeds.is_some() || *resume) {
        let remedy = "choose --arm sim without --rate, --seeds, --quick and --resume, or --arm lab without --rate and --quick";
        return Err(Error::input(format!("figure {NAME} is a scenario as it stands: {remedy}")));
    }
    let folder = folder(arguments, &format!("figure{NAME}-{}", arm.name()));
    host.prepare(&folder)?;
    let (Points(points), origins) = if is_live {
        played(arguments, &folder, host)?
    } else {
        (Points::run(&expand(scenario_file!("bbr.toml"))?, host)?, Origins::default())
    };
    let made = || points.iter().filter(|point| !point.runs.is_empty());
    let repetitions = made().map(|point| point.runs.len()).max().unwrap_or(0);
    let runs = made().flat_map(|point| {
        let run = move |(seed, run): (usize, &Recording)| {
            let mut told = json!({ "case": point.values, "seed": seed, "link": run.summary.links.first() });
            if let Some(host) = run.summary.host {
                told["host"] = json!(host);
            }
            told
        };
        point.runs.iter().enumerate().map(run)
    });
    let (how, length) =
        if is_live { ("real TCP", "30 s after 10 s") } else { ("simulated", "40 s after 20 s") };
    let outcome = Outcome {
        title: format!("AQM Steering, BBR in steered and other queues, {how}"),
        notes: vec![format!("{NOTE} Measured: {length}.")],
        about: about(arguments),
        runs: runs.collect(),
        origins,
        tables: vec![Rows {
            title: format!("Means of {repetitions} runs"),
            header: HEADER.map(String::from).to_vec(),
            rows: made().map(row).collect(),
        }],
        ..Outcome::default()
    };
    outcome.deliver_with_tables(&folder, host)
}

/// The points with the kernel's BBR, one run of each after the other.
#[cfg(feature = "live")]
fn played(arguments: &Arguments, folder: &Path, host: &dyn Host) -> Result<(Points, Origins), Error> {
    let points = expand(scenario_file!("bbr_lab.toml"))?;
    let planned = |(number, point): (usize, &weir_config::Point), seed| {
        let case = Case { figure: NAME, point: number };
        Planned { case, seed, scenario: point.scenario.clone() }
    };
    let all = |seed| points.iter().enumerate().map(move |point| planned(point, seed));
    let plan: Vec<Planned<Case>> = (0..u64::from(seeds(arguments))).flat_map(all).collect();
    let Points(mut found) = Points::not_run(&points);
    let title = |planned: &Planned<Case>| {
        let [flows, queue] = &found[planned.case.point].values[..] else { unreachable!("two axes") };
        format!("{queue}, {flows} flows")
    };
    let journal = Journal::begin(folder, arguments.resume, host)?;
    let most = |_: &Planned<Case>| STALLED_MAX;
    let done = journal.live(&plan, 1, host, title, most, |planned, _| {
        let mut recording = host.lab().run(&planned.scenario, None)?;
        recording.flow_samples.clear();
        Ok(attempt(planned, recording))
    })?;
    for run in done.runs {
        found[run.case.point].runs.extend(run.values.recording);
    }
    found.iter_mut().for_each(|point| point.values.insert(0, "version 1, the kernel's".into()));
    Ok((Points(found), done.origins))
}

#[cfg(not(feature = "live"))]
fn played(_: &Arguments, _: &Path, _: &dyn Host) -> Result<(Points, Origins), Error> {
    Err(crate::no_live_links())
}

/// A point of the scenario for real TCP, by its number there.
#[cfg(feature = "live")]
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Case {
    figure: &'static str,
    point: usize,
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
