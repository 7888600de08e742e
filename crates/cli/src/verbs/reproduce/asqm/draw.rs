//! Charts with the axes of the paper.

use super::FigureName;
use super::cases::{Managed, Study, Way};
use super::measured::{Cases, Measured};
use crate::verbs::reproduce::publish::Named;
use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};

/// What a figure shows.
#[derive(Clone, Copy)]
enum What {
    Delay,
    Bandwidth,
}

/// Number, whether it is asked for by name, load, algorithm, and what is shown.
type Figure = (u32, FigureName, Study, Managed, What);

const FIGURES: [Figure; 12] = [
    (4, FigureName::Four, Study::OffPeak, Managed::CoDel, What::Delay),
    (5, FigureName::Five, Study::OffPeak, Managed::CoDel, What::Bandwidth),
    (6, FigureName::Six, Study::OffPeak, Managed::Pie, What::Delay),
    (7, FigureName::Seven, Study::OffPeak, Managed::Pie, What::Bandwidth),
    (8, FigureName::Eight, Study::OffPeak, Managed::Asqm, What::Delay),
    (9, FigureName::Nine, Study::OffPeak, Managed::Asqm, What::Bandwidth),
    (10, FigureName::Ten, Study::Peak, Managed::CoDel, What::Delay),
    (11, FigureName::Eleven, Study::Peak, Managed::CoDel, What::Bandwidth),
    (12, FigureName::Twelve, Study::Peak, Managed::Pie, What::Delay),
    (13, FigureName::Thirteen, Study::Peak, Managed::Pie, What::Bandwidth),
    (14, FigureName::Fourteen, Study::Peak, Managed::Asqm, What::Delay),
    (15, FigureName::Fifteen, Study::Peak, Managed::Asqm, What::Bandwidth),
];

/// The charts that were asked for and measured.
pub fn figures(wanted: FigureName, cases: &Cases) -> Vec<Named> {
    let mut named = Vec::new();
    for figure in FIGURES.iter().filter(|f| wanted == FigureName::All || f.1 == wanted) {
        for way in cases.ways() {
            let mine = cases.of(figure.2, way, figure.3);
            if !mine.is_empty() {
                let file = format!("figure{}-{}", figure.0, way.name());
                named.push(Named { file, plot: distribution(figure, way, &mine) });
            }
        }
    }
    named
}

/// Points beyond which a distribution is thinned out.
const POINTS_MAX: usize = 500;

fn distribution(figure: &Figure, way: Way, mine: &[&Measured]) -> Plot {
    let &(number, _, study, managed, what) = figure;
    let load = if study == Study::Peak { "peak hours, 21 Mbit/s" } else { "off-peak, 48 Mbit/s" };
    let (quantity, x) = match what {
        What::Delay => ("delay", axis("End-to-end round trip (ms)", None)),
        What::Bandwidth => ("bandwidth", axis("Bandwidth of a modem in a second (Mbit/s)", None)),
    };
    let curve = |m: &&Measured| {
        let points = match what {
            What::Delay => m.delays.distribution(),
            What::Bandwidth => shares(&m.seconds),
        };
        let step = points.len().div_ceil(POINTS_MAX).max(1);
        let last = points.len().saturating_sub(1);
        let kept = points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
        PlotSeries {
            name: format!("RTT {} ms", m.case.rtt_ms),
            look: Look::Line,
            on_right: false,
            points: kept.map(|(_, &(x, y))| PlotPoint { x, y, range: None }).collect(),
        }
    };
    Plot {
        title: format!("Figure {number}: {quantity} under {}, {load}, {}", managed.name(), way.name()),
        subtitle: "Cumulative distribution over all packets or seconds, modems and runs.".into(),
        x,
        left: axis("Share", Some((0.0, 1.0))),
        series: mine.iter().map(curve).collect(),
        ..Plot::default()
    }
}

fn axis(name: &str, range: Option<(f64, f64)>) -> PlotAxis {
    PlotAxis { name: name.into(), range }
}

/// The share of sorted values up to each.
fn shares(sorted: &[f64]) -> Vec<(f64, f64)> {
    sorted.iter().enumerate().map(|(i, v)| (*v, (i + 1) as f64 / sorted.len() as f64)).collect()
}
