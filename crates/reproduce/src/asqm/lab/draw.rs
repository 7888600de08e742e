//! Distributions of delay and bandwidth, as in the paper.

use super::{LabRun, Point, load_name};
use crate::asqm::cases::Study;
use crate::figure::{Figure, distributions, point, series};
use weir_report::chart::{Look, PlotSeries};

/// The share of values up to each.
fn distribution(runs: &[LabRun], study: Study, of: fn(&Point) -> &Vec<f64>) -> Vec<PlotSeries> {
    let of_load = runs.iter().filter(|run| run.case.study == study);
    let curve = |p: &Point| {
        let values = of(p);
        let at = |i: usize| point(values[i], (i + 1) as f64 / values.len() as f64);
        let thin = (0..values.len()).step_by((values.len() / 200).max(1));
        series(&p.title, Look::Line, thin.map(at))
    };
    of_load.map(|run| curve(&run.values)).collect()
}

/// A file, the name of an axis, and the values.
type Quantity = (&'static str, &'static str, fn(&Point) -> &Vec<f64>);

const QUANTITIES: [Quantity; 2] = [
    ("delay", "Round trip of a ping beside the transfers (ms)", |p| &p.seen.pings_ms),
    ("bandwidth", "Throughput of a modem in a second (Mbit/s)", |p| &p.seen.bins_mbps),
];

/// The charts.
pub fn figures(runs: &[LabRun]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for study in [Study::OffPeak, Study::Peak] {
        for (file, name, of) in QUANTITIES {
            let series = distribution(runs, study, of);
            if !series.is_empty() {
                let title = format!("Distribution of {file}, {}", load_name(study));
                let plot = distributions(title, "", name, series);
                figures.push(Figure { file: format!("{file}-{}", load_name(study)), plot });
            }
        }
    }
    figures
}
