//! Charts with the axes of the paper.

use super::experiments::Experiment;
use super::measured::{Measured, PACKETS_PER_S, Row, Run};
use super::observer::Sample;
use crate::figure::{Figure, axis, point, printed, series};
use weir_report::chart::{Look, Plot, PlotSeries};

/// What is drawn over the load: number in the paper, title, name of the axis, its range, the value.
type OverLoad = (&'static str, &'static str, &'static str, (f64, f64), fn(&Row) -> f64);

const LOST: &str = "Packets lost";
const UTILIZATION: &str = "Utilization";
const QUEUE: &str = "Mean queue (packets)";

const TWO: [OverLoad; 4] = [
    ("3", "losses", LOST, (0.0, 100.0), |r| r.lost),
    ("4", "utilization", UTILIZATION, (0.7, 1.0), |r| r.utilization),
    ("5", "mean queue", QUEUE, (0.0, 100.0), |r| r.queue),
    ("5-fairness", "Jain's index of the flows (not in the paper)", "Jain's index", (0.0, 1.0), |r| {
        r.fairness
    }),
];
const FOUR: [OverLoad; 3] = [
    ("9", "losses", LOST, (0.0, 100.0), |r| r.lost),
    ("10", "utilization", UTILIZATION, (0.7, 1.0), |r| r.utilization),
    ("11", "mean queue", QUEUE, (0.0, 100.0), |r| r.queue),
];
const FIVE: [OverLoad; 5] = [
    ("12", "mean queue", QUEUE, (0.0, 100.0), |r| r.queue),
    ("13", "utilization", UTILIZATION, (0.7, 1.0), |r| r.utilization),
    ("14", "goodput", "Goodput (packets/s)", (900.0, PACKETS_PER_S), |r| r.goodput),
    ("14-losses", "losses (not in the paper)", LOST, (0.0, 100.0), |r| r.lost),
    ("14-fairness", "Jain's index of the long flows", "Jain's index", (0.0, 1.0), |r| r.fairness),
];

/// The charts of one experiment; `by` names the simulator where that is a witness.
pub fn figures(experiment: Experiment, runs: &Measured, by: Option<&str>) -> Vec<Figure> {
    let plots = match experiment {
        Experiment::One => alone(runs),
        Experiment::Two => TWO.iter().map(|f| over_load(f, 2, runs)).collect(),
        Experiment::Three => over_time(runs),
        Experiment::Four => FOUR.iter().map(|f| over_load(f, 4, runs)).collect(),
        Experiment::Five => FIVE.iter().map(|f| over_load(f, 5, runs)).collect(),
    };
    let named = |(number, plot): (&str, Plot)| match by {
        None => Figure { file: format!("figure{number}"), plot },
        Some(name) => Figure {
            file: format!("figure{number}-{name}"),
            plot: Plot { title: format!("{} ({name})", plot.title), ..plot },
        },
    };
    plots.into_iter().map(named).collect()
}

/// A value of every curve over the number of flows, or over the rate of short ones.
fn over_load(figure: &OverLoad, experiment: u32, runs: &Measured) -> (&'static str, Plot) {
    let &(number, what, name, range, of) = figure;
    let is_long = experiment == 2;
    let x = |span: usize| if is_long { runs.load(span).flows as f64 } else { runs.load(span).short_per_s };
    let curve = |name: &&str| {
        let points = (0..runs.spans()).map(|span| runs.plotted_at(name, span, x(span), of));
        series(name, Look::Points, points)
    };
    // What the paper's text prints: GKVQ's least utilization, the aims of AVQ, the 1 of REM and PI; and the
    // 50 packets wanted of these.
    let said: &[f64] = match number {
        "4" => &[0.75, 0.98, 1.0],
        "5" => &[50.0],
        "10" | "13" => &[0.98, 1.0],
        _ => &[],
    };
    let (load, least) = match is_long {
        true => ("Number of long flows", 20.0),
        false => ("Short flows per second, beside 40 long ones", 0.0),
    };
    let last = runs.spans().saturating_sub(1);
    let marks = (!said.is_empty()).then(|| printed(said.iter().map(|y| (x(last), *y))));
    let plot = Plot {
        title: format!("Figure {number}: experiment {experiment}, {what}"),
        subtitle:
            "Of each span with the same load, transients included; mean over the runs, and their range."
                .into(),
        x: axis(load, least, x(last)),
        left: axis(name, range.0, range.1),
        series: runs.series().iter().map(curve).chain(marks).collect(),
        ..Plot::default()
    };
    (number, plot)
}

/// A value of a run over time, where it is known.
fn curve(run: &Run, name: &str, of: impl Fn(&Sample) -> Option<f64>) -> PlotSeries {
    let at = |s: &Sample| Some(point(s.t_s, of(s)?));
    series(name, Look::Line, run.values.samples.iter().filter_map(at))
}

fn end(run: &Run) -> f64 {
    run.values.samples.last().map_or(1.0, |s| s.t_s)
}

/// The queue of a run, and where the paper gives one the level that it wants, at both ends.
fn queue_over_time(
    number: &'static str,
    experiment: u32,
    run: &Run,
    wanted: Option<f64>,
) -> (&'static str, Plot) {
    let marks = wanted.map(|level| printed([0.0, end(run)].map(|at| (at, level))));
    let plot = Plot {
        title: format!("Figure {number}: experiment {experiment}, queue over time for {}", run.case.series),
        subtitle: "First run; queue at the end of each tenth of a second.".into(),
        x: axis("Time (s)", 0.0, end(run)),
        left: axis("Queue (packets)", 0.0, 100.0),
        series: [curve(run, "Queue", |s| Some(s.queue))].into_iter().chain(marks).collect(),
        ..Plot::default()
    };
    (number, plot)
}

/// Figures 1 and 2.
fn alone(runs: &Measured) -> Vec<(&'static str, Plot)> {
    let Some(run) = runs.first("AVQ") else { return Vec::new() };
    let mut plots = vec![queue_over_time("1", 1, run, None)];
    if run.values.samples.iter().any(|s| s.capacity.is_some()) {
        let plot = Plot {
            title: "Figure 2: experiment 1, virtual capacity over time for AVQ".into(),
            subtitle: "First run; at the end of each tenth of a second.".into(),
            x: axis("Time (s)", 0.0, end(run)),
            left: axis("Virtual capacity (packets/s)", 450.0, 700.0),
            series: vec![curve(run, "Virtual capacity", |s| Some(s.capacity? * PACKETS_PER_S))],
            ..Plot::default()
        };
        plots.push(("2", plot));
    }
    plots
}

/// Figures 6 to 8.
fn over_time(runs: &Measured) -> Vec<(&'static str, Plot)> {
    // AVQ wants no queue.
    let numbers = [("6", "PI", Some(50.0)), ("7", "AVQ", None), ("8", "REM", Some(50.0))];
    let drawn = |(number, series, wanted)| Some(queue_over_time(number, 3, runs.first(series)?, wanted));
    numbers.into_iter().filter_map(drawn).collect()
}
