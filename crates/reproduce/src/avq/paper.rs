//! What the paper says in numbers, beside what was measured here. "Scale" means that the number is only
//! bounded by the axis of its figure.

use super::experiments::Experiment;
use super::measured::{Measured, PACKETS_PER_S, Row};
use crate::claim::percent;
use crate::statistics::mean;
use weir_report::html::Beside;

/// The rows of one experiment.
pub fn beside(experiment: Experiment, runs: &Measured, condition: &str) -> Vec<Beside> {
    let rows = match experiment {
        Experiment::One => alone(runs),
        Experiment::Two => over_load(&["3", "4", "5"], &TWO, |series, of| runs.along(series, of)),
        Experiment::Three => Vec::new(),
        Experiment::Four => over_load(&["9", "10", "11"], &FOUR, |series, of| runs.along_short(series, of)),
        Experiment::Five => Vec::new(),
    };
    let row = |(figure, quantity, paper, ours): Line| Beside {
        figure: figure.into(),
        quantity,
        paper: paper.into(),
        ours,
        condition: condition.into(),
    };
    rows.into_iter().map(row).collect()
}

/// Figure, quantity, paper, here.
type Line = (&'static str, String, &'static str, String);

fn alone(runs: &Measured) -> Vec<Line> {
    let sum = |of: fn(&Row) -> f64| runs.along("AVQ", of).iter().sum::<f64>();
    let carried = sum(|r| r.utilization * PACKETS_PER_S * (r.to_s - r.from_s));
    let used = mean(runs.along("AVQ", |r| r.utilization));
    let capacity = mean(runs.curve("AVQ").runs.iter().map(|run| {
        let samples = &run.values.samples;
        let middle = 0.5 * samples.last().map_or(0.0, |s| s.t_s);
        let late = samples.iter().filter(|s| s.t_s > middle);
        mean(late.filter_map(|s| s.capacity).map(|c| c * PACKETS_PER_S))
    }));
    vec![
        ("1", "packets".into(), "about 250000", format!("{carried:.0}")),
        ("1", "packets lost".into(), "10", format!("{:.0}", sum(|r| r.lost))),
        ("1", "utilization".into(), "98.27 %", percent(used)),
        (
            "2",
            "virtual capacity, second half".into(),
            "450 to 700 packets/s (scale)",
            if capacity.is_nan() { "not told by the lab".into() } else { format!("{capacity:.0} packets/s") },
        ),
    ]
}

/// What the paper says of the losses, the utilization and the mean queue of a curve.
type Statement = (&'static str, [&'static str; 3]);

const TWO: [Statement; 5] = [
    ("AVQ", ["fewest but for GKVQ", "tracks 98 %", "below 50"]),
    ("RED", ["more than AVQ", "poor", "below 50"]),
    ("REM", ["more than AVQ", "100 %", "above 50"]),
    ("PI", ["more than AVQ", "100 %", "above 50"]),
    ("GKVQ", ["as AVQ", "as low as 75 %", "below 50"]),
];
const FOUR: [Statement; 5] = [
    ("AVQ", ["fewer than RED, REM, PI", "slightly above 98 % at high loads", "shortest"]),
    ("RED", ["more than AVQ", "poor", "above AVQ"]),
    ("REM", ["more than AVQ", "100 %", "above AVQ"]),
    ("PI", ["more than AVQ", "100 %", "above AVQ"]),
    ("GKVQ", ["none that show", "poor", "above AVQ"]),
];

fn over_load(
    figures: &[&'static str; 3],
    said: &[Statement],
    along: impl Fn(&str, fn(&Row) -> f64) -> Vec<f64>,
) -> Vec<Line> {
    let ends = |series: &str, of: fn(&Row) -> f64, text: fn(f64) -> String| {
        let values = along(series, of);
        values
            .first()
            .zip(values.last())
            .map_or("–".into(), |(a, b)| format!("{} … {}", text(*a), text(*b)))
    };
    let mut lines = Vec::new();
    for (series, [losses, used, queue]) in said {
        lines.push((
            figures[0],
            format!("{series}: packets lost, first … last load"),
            *losses,
            ends(series, |r| r.lost, |v| format!("{v:.0}")),
        ));
        lines.push((
            figures[1],
            format!("{series}: utilization"),
            *used,
            ends(series, |r| r.utilization, percent),
        ));
        lines.push((
            figures[2],
            format!("{series}: mean queue in packets"),
            *queue,
            ends(series, |r| r.queue, |v| format!("{v:.1}")),
        ));
    }
    lines
}
