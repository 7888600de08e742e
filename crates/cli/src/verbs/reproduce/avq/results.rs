//! Runs the experiments, judges the claims, and writes and prints what came of them.

use super::experiments::{Experiment, Planned, plan};
use super::measured::{Point, Row, Runs, measure};
use super::{Arguments, claims, draw, paper, witness};
use crate::output::{Done, Failure, Output};
use crate::results::{file_set, prepare};
use crate::verbs::reproduce::publish::{
    Named, Publication, beside_json, ended, keep_measured, status, text, value_name,
};
use crate::verbs::reproduce::work::{by_case, run_all};
use std::path::{Path, PathBuf};
use weir_report::csv;
use weir_report::html::{Beside, Rows};
use weir_scenario::result::Claim;

/// What became of the experiments.
struct Results {
    points: Vec<Point>,
    claims: Vec<Claim>,
    beside: Vec<Beside>,
    figures: Vec<Named>,
    tables: Vec<Rows>,
    witness: Option<witness::Comparison>,
}

/// Repeats the experiments.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let plan = plan(arguments)?;
    let ns = arguments.witness.map(|_| witness::find()).transpose()?;
    let folder = folder(arguments);
    prepare(&folder)?;
    let points = run_all(&plan, |p: &Planned| &p.scenario, output, measure)?;
    let mut results = judge(points, arguments);
    if let Some(ns) = ns {
        let theirs = witness::run(&ns, &plan, &folder, output)?;
        results.add_witness(witness::compare(&results.points, theirs));
    }
    keep_measured(&mut results.claims, &mut results.beside, output);
    write(&results, arguments, &folder)?;
    print(&results, arguments, &folder, output);
    Ok(status(&results.claims))
}

/// Claims, comparisons, charts and tables of every experiment.
fn judge(points: Vec<Point>, arguments: &Arguments) -> Results {
    let (mut claims, mut beside, mut figures, mut tables) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let condition = condition(&points, arguments.quick);
    for (experiment, runs) in experiments(&points) {
        let number = u32::from(experiment);
        let found = claims::of(experiment, &runs);
        claims.extend(found.into_iter().map(|c| Claim { text: format!("{number}: {}", c.text), ..c }));
        beside.extend(paper::beside(experiment, &runs, &condition));
        figures.extend(draw::figures(experiment, &runs, None));
        let table = rows(experiment, &runs);
        tables.push(Rows { title: format!("{} ({condition})", table.title), ..table });
    }
    Results { claims, beside, figures, tables, witness: None, points }
}

/// The experiments that were run.
fn experiments(points: &[Point]) -> Vec<(Experiment, Runs<'_>)> {
    by_case(points, |p| p.experiment).into_keys().map(|e| (e, Runs::new(points, e))).collect()
}

impl Results {
    fn add_witness(&mut self, comparison: witness::Comparison) {
        self.claims.extend(comparison.claims.iter().cloned());
        for (experiment, runs) in experiments(&comparison.points) {
            self.figures.extend(draw::figures(experiment, &runs, Some("ns-2")));
        }
        self.tables.push(comparison.table.clone());
        self.witness = Some(comparison);
    }
}

fn condition(points: &[Point], quick: bool) -> String {
    let runs = points.iter().map(|p| p.seed + 1).max().unwrap_or(0);
    let runs = if runs == 1 { "one run".to_string() } else { format!("mean of {runs} runs") };
    format!("{runs}{}", if quick { ", a tenth of the time" } else { "" })
}

/// In tables, what a run does not tell.
const UNKNOWN: &str = "–";

/// The results of an experiment as a table: means over the runs.
fn rows(experiment: Experiment, runs: &Runs) -> Rows {
    let header = [
        "AQM",
        "from s",
        "to s",
        "long flows",
        "short/s",
        "util %",
        "queue",
        "deviation",
        "lost",
        "by AQM",
        "marked",
        "goodput/s",
        "Jain",
    ];
    let mut rows = Vec::new();
    for series in runs.series() {
        for span in 0..runs.spans() {
            let load = runs.load(span);
            let value =
                |of: fn(&Row) -> f64, digits: usize| format!("{:.digits$}", runs.at(series, span, of));
            let known = |of: fn(&Row) -> Option<f64>| {
                runs.known(series, span, of).map_or(UNKNOWN.into(), |n| format!("{n:.0}"))
            };
            rows.push(vec![
                series.to_string(),
                format!("{}", load.from_s),
                format!("{}", load.to_s),
                format!("{}", load.flows),
                format!("{}", load.short_per_s),
                value(|r| r.utilization * 100.0, 2),
                value(|r| r.queue, 1),
                value(|r| r.deviation, 1),
                value(|r| r.lost, 0),
                known(|r| r.discarded),
                known(|r| r.marked),
                value(|r| r.goodput, 1),
                value(|r| r.fairness, 3),
            ]);
        }
    }
    let title = format!("Experiment {}: each load, transients included", u32::from(experiment));
    Rows { title, header: header.map(String::from).to_vec(), rows }
}

fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    arguments.out.join(format!("avq-experiment{}{quick}", value_name(&arguments.experiment)))
}

fn note(results: &Results, arguments: &Arguments) -> String {
    let short = match arguments.quick {
        true => {
            " This is the short form: every span has a tenth of its length, so that more of it is transient."
        }
        false => "",
    };
    format!(
        "Analysis and design of an adaptive virtual queue (AVQ) algorithm for active queue management (Kunniyur and \
         Srikant, SIGCOMM 2001), experiments of section 4, repeated in a simulator: a link of 10 Mbit/s, 1250 packets \
         of 1000 bytes per second, room for 100, Reno, round-trip times of 40 to 130 ms. Values: {}; charts show the \
         mean, whiskers the smallest and the largest.{short}",
        condition(&results.points, arguments.quick)
    )
}

fn write(results: &Results, arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let title = match value_name(&arguments.experiment).as_str() {
        "all" => "AVQ, experiments 1 to 5".to_string(),
        one => format!("AVQ, experiment {one}"),
    };
    let mut notes = vec![note(results, arguments)];
    notes.extend(results.witness.iter().map(|_| witness::NOTE.to_string()));
    let publication = Publication {
        title: &title,
        notes: &notes,
        claims: &results.claims,
        figures: &results.figures,
        tables: &results.tables,
        beside: &results.beside,
        result: &result_of(results, arguments, folder),
    };
    let mut files = file_set(folder)?;
    for (experiment, runs) in experiments(&results.points) {
        let number = u32::from(experiment);
        let table = rows(experiment, &runs);
        files.add(format!("experiment{number}.csv"), csv::rows(&table))?;
        for series in runs.series().into_iter().filter(|_| experiment.is_over_time()) {
            if let Some(point) = runs.first(series) {
                let name = format!("experiment{number}-{}-samples.csv", series.to_lowercase());
                files.add(name, samples_csv(point))?;
            }
        }
    }
    if let Some(witness) = &results.witness {
        files.add("witness.csv", csv::rows(&witness.table))?;
    }
    publication.publish(&[], files)
}

fn samples_csv(point: &Point) -> String {
    let header =
        ["t_s", "queue_mean_packets", "queue_packets", "departed", "lost", "marked", "virtual_capacity"];
    let row = |s: &super::observer::Sample| {
        let cells = [s.t_s, s.queue_mean, s.queue, s.departed, s.lost as f64];
        let known = [s.marked.map(|n| n.to_string()), s.capacity.map(|c| c.to_string())];
        let known = known.map(Option::unwrap_or_default);
        let cells: Vec<String> = cells.iter().map(f64::to_string).chain(known).collect();
        csv::line(&cells)
    };
    point.samples.iter().fold(csv::line(&header), |out, sample| out + &row(sample))
}

fn result_of(results: &Results, arguments: &Arguments, folder: &Path) -> serde_json::Value {
    let result = serde_json::json!({
        "paper": "avq",
        "experiment": value_name(&arguments.experiment),
        "quick": arguments.quick,
        "claims": results.claims,
        "beside": beside_json(&results.beside),
        "runs": results.points,
    });
    let mut result = ended(result, folder);
    if let Some(witness) = &results.witness {
        result["witness"] = serde_json::json!({ "simulator": "ns-2", "runs": witness.points });
    }
    result
}

fn print(results: &Results, arguments: &Arguments, folder: &Path, output: &Output) {
    output.result(&result_of(results, arguments, folder), || {
        text(&results.tables, &results.claims, folder, output)
    });
}
