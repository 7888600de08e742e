//! The points of a sweep as a figure: utilization and delay over one axis, a series for each combination of the
//! others.

use super::rows::{Labels, PointStatistics};
use weir_report::chart::{Figure, FigurePoint, FigureSeries, figure};

/// More series could not be told apart, and more categories would not fit.
const SERIES_MAX: usize = 35;
const CATEGORIES_MAX: usize = 40;

/// The figure as SVG; none where there are more points than one can show, or nothing to compare.
pub fn chart(title: &str, labels: &Labels, points: &[PointStatistics]) -> Option<String> {
    let axis = horizontal(labels)?;
    let value = |p: &PointStatistics| labels.points[p.point - 1][axis].clone();
    let others = |p: &PointStatistics| {
        let values = labels.points[p.point - 1].iter().enumerate();
        values.filter(|(i, _)| *i != axis).map(|(_, v)| v.as_str()).collect::<Vec<_>>().join(", ")
    };
    let categories = distinct(points.iter().map(value));
    let names = distinct(points.iter().map(others));
    if names.len() > SERIES_MAX || categories.len() > CATEGORIES_MAX {
        return None;
    }
    let series = |name: &String| {
        let points_of = |quantity: &str| {
            let at = |category: &String| {
                let mine = |p: &&PointStatistics| others(p) == *name && value(p) == *category;
                points.iter().find(mine).map_or(HOLE, |p| point(p, quantity))
            };
            categories.iter().map(at).collect()
        };
        FigureSeries {
            name: name.clone(),
            utilization: points_of("utilization"),
            delay_p95_ms: points_of("delay_p95_ms"),
        }
    };
    Some(figure(&Figure {
        title: title.to_string(),
        subtitle: "Mean over the seeds, with the smallest and the largest value".into(),
        x_name: labels.names[axis].clone(),
        series: names.iter().map(series).collect(),
        categories: categories.clone(),
        ..Figure::default()
    }))
}

const HOLE: FigurePoint = FigurePoint { value: f64::NAN, range: None };

/// The axis that is drawn horizontally: the last one that is not the algorithm.
fn horizontal(labels: &Labels) -> Option<usize> {
    let is_aqm = |name: &String| name == "aqm" || name == "aqm.name";
    labels.names.iter().rposition(|name| !is_aqm(name)).or(labels.names.len().checked_sub(1))
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    texts.for_each(|text| {
        if !all.contains(&text) {
            all.push(text);
        }
    });
    all
}

/// A quantity of the first link.
fn point(p: &PointStatistics, quantity: &str) -> FigurePoint {
    let mine = |name: &str| name == quantity || name.split_once('.').is_some_and(|(_, n)| n == quantity);
    let found = p.measured.iter().find(|q| mine(&q.name)).and_then(|q| q.statistics);
    found.map_or(HOLE, |s| FigurePoint { value: s.mean, range: (s.n > 1).then_some((s.min, s.max)) })
}
