//! Charts with the axes of the paper.

use super::cases::{Algorithm, Direction, Figure as Number, Quantity, Study};
use super::measured::Measured;
use crate::figure::{Figure, distributions, point, printed, series, shares};
use weir_report::chart::{Look, Plot, PlotSeries};

/// The charts that were asked for and measured.
pub fn figures(wanted: &[Number], cases: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    for number in wanted {
        for way in cases.ways() {
            let mine = cases.of(number.study, way, number.managed);
            if !mine.is_empty() {
                let file = format!("figure{}-{}", number.number, way.name());
                figures.push(Figure { file, plot: distribution(number, way, &mine) });
            }
        }
    }
    figures
}

/// Points beyond which a distribution is thinned out.
const POINTS_MAX: usize = 500;

fn distribution(figure: &Number, way: Direction, mine: &[Measured]) -> Plot {
    let &Number { number, study, managed, quantity } = figure;
    let load = if study == Study::Peak { "peak hours, 21 Mbit/s" } else { "off-peak, 48 Mbit/s" };
    let (name, x) = match quantity {
        Quantity::Delay => ("delay", "End-to-end round trip (ms)"),
        Quantity::Bandwidth => ("bandwidth", "Bandwidth of a modem in a second (Mbit/s)"),
    };
    let curve = |m: &Measured| {
        let points = match quantity {
            Quantity::Delay => m.delays().distribution(),
            Quantity::Bandwidth => shares(&m.seconds()),
        };
        let step = points.len().div_ceil(POINTS_MAX).max(1);
        let last = points.len().saturating_sub(1);
        let thin = points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
        let name = format!("RTT {} ms", m.case().rtt_ms);
        series(&name, Look::Line, thin.map(|(_, &(x, y))| point(x, y)))
    };
    let said = said(figure, mine);
    let title = format!("Figure {number}: {name} under {}, {load}, {}", managed.name(), way.name());
    let subtitle = "Cumulative distribution over all packets or seconds, modems and runs.";
    distributions(title, subtitle, x, mine.iter().map(curve).chain([said]).collect())
}

/// What the paper's text prints of a figure: the ends of ranges of delays, and bandwidths.
fn said(figure: &Number, mine: &[Measured]) -> PlotSeries {
    let rtts = || mine.iter().map(|m| m.case().rtt_ms as f64);
    // 25 ms from the round trip without queues on, up to a share.
    let ranges = |share: f64| rtts().flat_map(|rtt| [(rtt, 0.0), (rtt + 25.0, share)]).collect();
    let points: Vec<(f64, f64)> = match (figure.quantity, figure.study, figure.managed) {
        (Quantity::Bandwidth, Study::Peak, _) => vec![(6.5, 0.5)],
        (Quantity::Bandwidth, ..) => vec![(15.5, 0.5)],
        (Quantity::Delay, Study::Peak, Algorithm::CoDel) => vec![(100.0, 0.0), (1500.0, 1.0)],
        (Quantity::Delay, Study::Peak, Algorithm::Pie) => vec![(200.0, 0.0), (1200.0, 1.0)],
        // Of figure 14 it gives no number.
        (Quantity::Delay, Study::Peak, Algorithm::Asqm) => Vec::new(),
        (Quantity::Delay, _, Algorithm::CoDel) => ranges(1.0),
        (Quantity::Delay, _, Algorithm::Pie) => ranges(0.9),
        (Quantity::Delay, _, Algorithm::Asqm) => rtts().map(|rtt| (rtt + 50.0, 1.0)).collect(),
    };
    printed(points)
}
