//! The arm of the simulator: every figure, any number of runs, the same numbers everywhere.

use super::figures::{Part, Planned, plan};
use super::measured::{Measured, Point};
use super::{Arguments, claims, draw, folder, paper};
use crate::output::{Done, Failure, Output};
use crate::progress::Progress;
use crate::results::{file_set, prepare};
use crate::simulate::simulate;
use crate::verbs::reproduce::publish::{
    Named, Publication, beside_json, ended, keep_measured, status, value_name,
};
use crate::verbs::reproduce::work::run_all;
use std::path::Path;
use weir_report::html::Beside;
use weir_report::{csv, table};
use weir_scenario::result::{Claim, Summary};
use weir_units::Rate;

/// What became of the figures.
struct Results {
    points: Vec<Point>,
    claims: Vec<Claim>,
    beside: Vec<Beside>,
    figures: Vec<Named>,
}

/// Runs the figures and judges their claims.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let plan = plan(arguments)?;
    let folder = folder(arguments, &format!("figure{}-sim", value_name(&arguments.figure)));
    prepare(&folder)?;
    let points = run_all(&plan, |p| &p.scenario, output, measure)?;
    let mut results = judge(points, arguments.quick);
    keep_measured(&mut results.claims, &mut results.beside, output);
    write(&results, arguments, &folder)?;
    print(&results, arguments, &folder, output);
    Ok(status(&results.claims))
}

/// A run, if it was not interrupted.
pub fn measure(planned: &Planned, progress: &Progress) -> Result<Option<Point>, Failure> {
    let (outcome, interrupted) = simulate(&planned.scenario, planned.seed, progress)?;
    let trace_hash = format!("{:016x}", outcome.trace_hash);
    let mut recording = outcome.recording;
    recording.flow_samples.clear();
    let summary = &recording.summary;
    let point = Point {
        figure: planned.part,
        rate_bps: planned.scenario.rate().as_bps_f64(),
        series: planned.series.clone(),
        flows: planned.flows,
        seed: planned.seed,
        link: summary.links.first().cloned().unwrap_or_default(),
        trace_hash,
        warnings: summary.warnings.clone(),
        recording: None,
    };
    let is_shown = planned.part.is_over_time() && planned.seed == 0;
    Ok((!interrupted).then(|| Point { recording: is_shown.then_some(recording), ..point }))
}

/// Claims, comparisons and charts of every figure at every rate.
fn judge(points: Vec<Point>, quick: bool) -> Results {
    let (mut claims, mut beside, mut figures) = (Vec::new(), Vec::new(), Vec::new());
    for (part, rate_bps) in groups(&points) {
        let measured = Measured::new(&points, part, rate_bps);
        let rate = rate_text(rate_bps);
        let found = claims::of(part, &measured, claims::Margins::of(quick));
        claims.extend(
            found.into_iter().map(|c| Claim { text: format!("{}: {} ({rate})", part.name(), c.text), ..c }),
        );
        beside.extend(paper::beside(part, &measured));
        figures.extend(draw::figures(part, &measured));
    }
    Results { points, claims, beside, figures }
}

/// Every figure at every rate, in the order of the plan.
fn groups(points: &[Point]) -> Vec<(Part, f64)> {
    let mut groups = Vec::new();
    for point in points {
        if !groups.contains(&(point.figure, point.rate_bps)) {
            groups.push((point.figure, point.rate_bps));
        }
    }
    groups
}

/// A rate in words.
pub fn rate_text(bps: f64) -> String {
    Rate::from_bps_f64(bps).to_string()
}

fn title(arguments: &Arguments) -> String {
    let what = match value_name(&arguments.figure).as_str() {
        "all" => "figures 5 to 8".to_string(),
        one => format!("figure {one}"),
    };
    format!("AQM Steering, {what}, simulated{}", if arguments.quick { " (short form)" } else { "" })
}

fn note(results: &Results, arguments: &Arguments) -> String {
    let runs = results.points.iter().map(|p| p.seed + 1).max().unwrap_or(0);
    let short = if arguments.quick { " This is the short form, with wider margins." } else { "" };
    format!(
        "Policy-oriented AQM Steering (Bless et al., 2018), section V, repeated in a simulator: CUBIC, round-trip \
         time 50 ms, packets of 1500 bytes, byte accounting of Ethernet lines. Runs per point: {runs} (the paper: \
         10); charts show the mean, whiskers the smallest and the largest.{short}"
    )
}

fn write(results: &Results, arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let (title, notes) = (title(arguments), [note(results, arguments)]);
    let mut files = file_set(folder)?;
    for point in &results.points {
        if let Some(recording) = &point.recording {
            let name =
                format!("figure{}-{}", point.figure.name(), rate_text(point.rate_bps).replace('/', "p"));
            let samples = csv::link_samples(recording.link_samples.first().map_or(&[][..], Vec::as_slice));
            files.add(format!("{name}-samples.csv"), samples)?;
            files.add(format!("{name}-events.csv"), csv::steering_events(&recording.events))?;
        }
    }
    let publication = Publication {
        title: &title,
        notes: &notes,
        claims: &results.claims,
        figures: &results.figures,
        tables: &[],
        beside: &results.beside,
        result: &result_of(results, arguments, folder),
    };
    publication.publish(&[], files)
}

fn result_of(results: &Results, arguments: &Arguments, folder: &Path) -> serde_json::Value {
    let result = serde_json::json!({
        "paper": "steering",
        "figure": value_name(&arguments.figure),
        "arm": "sim",
        "quick": arguments.quick,
        "claims": results.claims,
        "beside": beside_json(&results.beside),
        "runs": results.points,
    });
    ended(result, folder)
}

/// The means of every point, as rows of the table of results.
fn summaries(results: &Results) -> Vec<Summary> {
    let mut summaries = Vec::new();
    for (part, rate_bps) in groups(&results.points) {
        for (series, flows, link) in Measured::new(&results.points, part, rate_bps).rows() {
            let title = format!("{}, {}, {series}, {flows} flows", part.name(), rate_text(rate_bps));
            summaries.push(Summary { title, links: vec![link], ..Summary::default() });
        }
    }
    summaries
}

fn print(results: &Results, arguments: &Arguments, folder: &Path, output: &Output) {
    output.result(&result_of(results, arguments, folder), || {
        format!(
            "{}\n{}\nReport: {}",
            table::results(&summaries(results), output.paint()),
            table::claims(&results.claims, output.paint()),
            folder.join("report.html").display()
        )
    });
}
