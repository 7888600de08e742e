//! The charts: round-trip times as in the article's figure, and what they mean for pages.

use super::cases::{FORMS, PROTOCOLS, SIGNALS, Signal};
use super::measured::Measured;
use crate::figure::{Figure, distributions, point, series};
use crate::statistics::quantile;
use weir_report::chart::{Look, Plot, PlotPoint};

/// Steps of a distribution.
const STEPS: usize = 200;

/// All charts of what was measured.
pub fn figures(cases: &Measured) -> Vec<Figure> {
    let mut figures: Vec<Figure> =
        SIGNALS.into_iter().filter_map(|signal| distribution(signal, cases)).collect();
    if !cases.runs.is_empty() {
        figures.push(Figure { file: "pages".into(), plot: pages(cases) });
    }
    figures
}

fn of<'a>(cases: &Measured<'a>, signal: Signal) -> Vec<Measured<'a>> {
    cases.only(|case| case.signal == signal).cases()
}

fn distribution(signal: Signal, cases: &Measured) -> Option<Figure> {
    let mine = of(cases, signal);
    let curve = |m: &Measured| {
        let rtts = m.rtts_ms();
        series(&m.case().series(), Look::Line, shares().map(|y| point(quantile(&rtts, y), y)))
    };
    let title = format!("Round trips of the phone that loads pages, {} signal", signal.name());
    let subtitle =
        "Cumulative distribution over all runs; the path takes 60 ms, and up to 8 ms for repetitions.";
    let x = "Smoothed round-trip time of the sender (ms)";
    // Without vAQM and with a weak signal the article prints a second for the 95th percentile.
    let said =
        (signal == Signal::Weak).then(|| series("the article prints", Look::Printed, [point(1000.0, 0.95)]));
    let plot = distributions(title, subtitle, x, mine.iter().map(curve).chain(said).collect());
    (!mine.is_empty()).then(|| Figure { file: format!("rtt-{}", signal.name()), plot })
}

/// Shares at which a distribution is drawn.
fn shares() -> impl Iterator<Item = f64> {
    (1..STEPS).map(|step| step as f64 / STEPS as f64)
}

/// A point for each case with pages: a curve has one signal and protocol, its points are the forms of vAQM.
fn pages(cases: &Measured) -> Plot {
    let mut curves = Vec::new();
    for signal in SIGNALS {
        for protocol in PROTOCOLS {
            let mine = cases.only(|case| (case.signal, case.protocol) == (signal, protocol)).cases();
            let at = |m: &Measured| point(m.quantile(0.5), m.page_s());
            let mut points: Vec<PlotPoint> = mine.iter().map(at).filter(|p| p.y.is_finite()).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let name = format!("{} signal, {}", signal.name(), protocol.name());
            curves.push(series(&name, Look::Points, points));
        }
    }
    let forms: Vec<&str> = FORMS.iter().map(|form| form.name()).collect();
    Plot {
        title: "Time of a page of 1 MB".into(),
        subtitle: format!("Mean over the pages of all runs; points of a curve: {}.", forms.join(", ")),
        x: "Median round-trip time (ms)".into(),
        left: "Time of a page (s)".into(),
        series: curves,
        ..Plot::default()
    }
}
