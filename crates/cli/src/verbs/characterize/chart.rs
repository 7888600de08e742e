//! Charts: the algorithm beside tail drop.

use super::Characterization;
use super::experiments::*;
use super::measure::{Case, Numbers};
use super::rules::share_of_second;
use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};

/// Experiments of the overview, of which each has one queue and a delay of its own.
const OVERVIEW: [&str; 10] =
    [RENO, CUBIC, FLOOD, UNRESPONSIVE, "mild", "medium", "heavy", VARYING_LEVEL, FAST, MIX];

/// All charts.
pub fn figures(all: &Characterization) -> Vec<Plot> {
    let mut figures = vec![
        overview(all, "Queueing delay", "95th percentile.", "95 % delay (ms)", None, |n| n.delay_ms.p95),
        overview(
            all,
            "Use of the link",
            "Share of what the link can carry.",
            "Utilization (%)",
            Some((90.0, 100.0)),
            |n| n.utilization * 100.0,
        ),
        round_trip_times(all),
    ];
    figures.extend(all.results.0.iter().filter(|case| case.experiment.is_drawn).map(|c| over_time(all, c)));
    figures
}

fn overview(
    all: &Characterization,
    title: &str,
    subtitle: &str,
    axis: &str,
    range: Option<(f64, f64)>,
    of: fn(&Numbers) -> f64,
) -> Plot {
    let cases: Vec<&Case> = OVERVIEW.iter().filter_map(|id| all.results.get(id)).collect();
    let curve = |name: &str, side: fn(&Case) -> &Numbers| {
        let at = |(i, case): (usize, &&Case)| PlotPoint { x: i as f64, y: of(side(case)), range: None };
        series(name, Look::Points, cases.iter().enumerate().map(at).collect())
    };
    Plot {
        title: title.into(),
        subtitle: subtitle.into(),
        x: "Experiment".into(),
        categories: cases.iter().map(|case| case.experiment.id.to_string()).collect(),
        left: PlotAxis { name: axis.into(), range: range.or(Some((0.0, 1.0))) },
        series: both(all, curve),
        ..Plot::default()
    }
}

fn series(name: &str, look: Look, points: Vec<PlotPoint>) -> PlotSeries {
    PlotSeries { name: name.into(), look, points, ..PlotSeries::default() }
}

/// A curve of the algorithm and one of tail drop.
fn both(
    all: &Characterization,
    curve: impl Fn(&str, fn(&Case) -> &Numbers) -> PlotSeries,
) -> Vec<PlotSeries> {
    vec![curve(&all.subject.label(), |case| &case.aqm), curve("tail drop", |case| &case.tail_drop)]
}

fn round_trip_times(all: &Characterization) -> Plot {
    let curve = |name: &str, side: fn(&Case) -> &Numbers| {
        let at = |(i, (id, _)): (usize, &(&str, f64))| {
            let share = all.results.get(id).and_then(|case| share_of_second(side(case)));
            PlotPoint { x: i as f64, y: share.map_or(f64::NAN, |s| s * 100.0), range: None }
        };
        series(name, Look::Points, RTTS.iter().enumerate().map(at).collect())
    };
    Plot {
        title: "Fairness between round-trip times".into(),
        subtitle: "Share of a Reno flow beside one with 100 ms; 50 % is equal.".into(),
        x: "Round-trip time of the flow (ms)".into(),
        categories: RTTS.iter().map(|(_, rtt_ms)| rtt_ms.to_string()).collect(),
        left: PlotAxis { name: "Share of the goodput (%)".into(), range: Some((0.0, 100.0)) },
        series: both(all, curve),
        ..Plot::default()
    }
}

fn over_time(all: &Characterization, case: &Case) -> Plot {
    let curve = |name: &str, side: fn(&Case) -> &Numbers| {
        let point =
            |s: &weir_measure::result::LinkSample| PlotPoint { x: s.t_s, y: s.delay_mean_ms, range: None };
        series(name, Look::Line, side(case).samples.iter().map(point).collect())
    };
    Plot {
        title: format!("Section {}: {}", case.experiment.section, case.experiment.title),
        subtitle: "Mean queueing delay of each sample of 100 ms.".into(),
        x: "Time (s)".into(),
        left: PlotAxis { name: "Queueing delay (ms)".into(), range: Some((0.0, 1.0)) },
        series: both(all, curve),
        ..Plot::default()
    }
}
