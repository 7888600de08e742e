//! Charts as the papers draw them.

use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};

/// A chart and the name of its file.
pub struct Figure {
    /// Without extension.
    pub file: String,
    /// The chart.
    pub plot: Plot,
}

/// An axis that has at least this range.
pub fn axis(name: &str, from: f64, to: f64) -> PlotAxis {
    PlotAxis { name: name.into(), range: Some((from, to)) }
}

/// A point without a range.
pub fn point(x: f64, y: f64) -> PlotPoint {
    PlotPoint { x, y, range: None }
}

/// Points that belong together, on the left axis.
pub fn series(name: &str, look: Look, points: impl IntoIterator<Item = PlotPoint>) -> PlotSeries {
    PlotSeries { name: name.into(), look, on_right: false, points: points.into_iter().collect() }
}

/// Values that the paper prints, as marks.
pub fn printed(points: impl IntoIterator<Item = (f64, f64)>) -> PlotSeries {
    series("the paper prints", Look::Printed, points.into_iter().map(|(x, y)| point(x, y)))
}

/// A chart of distributions: the share of values up to each.
pub fn distributions(title: String, subtitle: &str, x: &str, series: Vec<PlotSeries>) -> Plot {
    Plot {
        title,
        subtitle: subtitle.into(),
        x: x.into(),
        left: axis("Share", 0.0, 1.0),
        series,
        ..Plot::default()
    }
}

/// The share of sorted values up to each.
pub fn shares(sorted: &[f64]) -> Vec<(f64, f64)> {
    sorted.iter().enumerate().map(|(i, v)| (*v, (i + 1) as f64 / sorted.len() as f64)).collect()
}
