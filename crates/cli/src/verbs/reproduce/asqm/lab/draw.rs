//! Distributions of delay and bandwidth, as in the paper.

use super::{Load, Point};
use crate::verbs::reproduce::publish::Named;
use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};

/// The share of values up to each.
fn distribution(points: &[Point], load: Load, of: fn(&Point) -> &Vec<f64>) -> Vec<PlotSeries> {
    let of_load = points.iter().filter(|p| p.load == load);
    let series = of_load.map(|p| {
        let values = of(p);
        let step = (values.len() / 200).max(1);
        let at = |i: usize| PlotPoint { x: values[i], y: (i + 1) as f64 / values.len() as f64, range: None };
        let points = (0..values.len()).step_by(step).map(at).collect();
        PlotSeries { name: p.title.clone(), look: Look::Line, points, on_right: false }
    });
    series.collect()
}

/// A file, the name of an axis, and the values.
type Quantity = (&'static str, &'static str, fn(&Point) -> &Vec<f64>);

/// The charts.
pub fn figures(points: &[Point]) -> Vec<Named> {
    let axis = |name: &str, range| PlotAxis { name: name.into(), range };
    let mut figures = Vec::new();
    for load in [Load::OffPeak, Load::Peak] {
        let of: [Quantity; 2] = [
            ("delay", "Round trip of a ping beside the transfers (ms)", |p| &p.pings_ms),
            ("bandwidth", "Throughput of a modem in a second (Mbit/s)", |p| &p.bins_mbps),
        ];
        for (file, name, of) in of {
            let series = distribution(points, load, of);
            if series.is_empty() {
                continue;
            }
            let plot = Plot {
                title: format!("Distribution of {file}, {}", load.name()),
                x: axis(name, None),
                left: axis("Share", Some((0.0, 1.0))),
                series,
                ..Plot::default()
            };
            figures.push(Named { file: format!("{file}-{}", load.name()), plot });
        }
    }
    figures
}
