//! The charts: round-trip times as in the article's figure, and what they mean for pages.

use super::cases::{FORMS, PROTOCOLS, SIGNALS, Signal};
use super::measured::{Cases, Measured};
use crate::verbs::reproduce::publish::Named;
use weir_report::chart::{Look, Plot, PlotAxis, PlotPoint, PlotSeries};

/// Steps of a distribution.
const STEPS: usize = 200;

/// All charts of what was measured.
pub fn figures(cases: &Cases) -> Vec<Named> {
    let mut named: Vec<Named> =
        SIGNALS.into_iter().filter_map(|signal| distribution(signal, cases)).collect();
    if !cases.all().is_empty() {
        named.push(Named { file: "pages".into(), plot: pages(cases) });
    }
    named
}

fn of(cases: &Cases, signal: Signal) -> Vec<&Measured> {
    cases.all().iter().filter(|m| m.case.signal == signal).collect()
}

fn axis(name: &str, range: Option<(f64, f64)>) -> PlotAxis {
    PlotAxis { name: name.into(), range }
}

fn distribution(signal: Signal, cases: &Cases) -> Option<Named> {
    let mine = of(cases, signal);
    let curve = |m: &&Measured| PlotSeries {
        name: m.case.series(),
        look: Look::Line,
        on_right: false,
        points: shares().map(|y| PlotPoint { x: m.quantile(y), y, range: None }).collect(),
    };
    let plot = Plot {
        title: format!("Round trips of the phone that loads pages, {} signal", signal.name()),
        subtitle:
            "Cumulative distribution over all runs; the path takes 60 ms, and up to 8 ms for repetitions."
                .into(),
        x: axis("Smoothed round-trip time of the sender (ms)", None),
        left: axis("Share", Some((0.0, 1.0))),
        series: mine.iter().map(curve).collect(),
        ..Plot::default()
    };
    (!mine.is_empty()).then(|| Named { file: format!("rtt-{}", signal.name()), plot })
}

/// Shares at which a distribution is drawn.
fn shares() -> impl Iterator<Item = f64> {
    (1..STEPS).map(|step| step as f64 / STEPS as f64)
}

/// A point for each case with pages: a curve has one signal and protocol, its points are the forms of vAQM.
fn pages(cases: &Cases) -> Plot {
    let mut series = Vec::new();
    for signal in SIGNALS {
        for protocol in PROTOCOLS {
            let mine = of(cases, signal).into_iter().filter(|m| m.case.protocol == protocol);
            let mut points: Vec<PlotPoint> = mine
                .filter(|m| m.page_s.is_finite())
                .map(|m| PlotPoint { x: m.quantile(0.5), y: m.page_s, range: None })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let name = format!("{} signal, {}", signal.name(), protocol.name());
            series.push(PlotSeries { name, look: Look::Points, on_right: false, points });
        }
    }
    let forms: Vec<&str> = FORMS.iter().map(|form| form.name()).collect();
    Plot {
        title: "Time of a page of 1 MB".into(),
        subtitle: format!("Mean over the pages of all runs; points of a curve: {}.", forms.join(", ")),
        x: axis("Median round-trip time (ms)", None),
        left: axis("Time of a page (s)", None),
        series,
        ..Plot::default()
    }
}
