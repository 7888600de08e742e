//! Charts of tiny data, byte for byte. `WEIR_BLESS=1 cargo test -p weir-report` writes them anew; look at
//! them in a browser before committing.

use crate::common;

use std::path::Path;

use weir_report::Policy;
use weir_report::chart::{
    Compared, Comparison, Figure, FigureClaim, FigurePoint, FigureQuantity, FigureSeries, Look, Plot,
    PlotPoint, PlotSeries, TimeSeriesOptions, comparison, figure, plot, time_series,
};

const POLICY: Policy =
    Policy { utilization_low: Some(0.99), utilization_target: Some(0.95), target_max_ms: Some(30.0) };

fn check(name: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        weir_report::write_atomic(&path, drawn).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (expected, found)) in golden.lines().zip(drawn.lines()).enumerate() {
        assert_eq!(expected, found, "{name}, line {}", number + 1);
    }
    assert_eq!(golden.len(), drawn.len(), "{name} is longer or shorter");
}

#[test]
fn a_time_series_looks_as_before() {
    let options = TimeSeriesOptions { policy: POLICY, ..TimeSeriesOptions::default() };
    check("series.svg", &time_series(&common::tiny(), 0, &options));
}

#[test]
fn a_comparison_looks_as_before() {
    let recording = common::tiny();
    let run = |label| Compared { label, recording: &recording, link: 0, policy: POLICY };
    let runs = vec![run("GSP"), run("CoDel")];
    check("comparison.svg", &comparison(&Comparison { title: "Two runs", runs, log_delay: true }));
}

#[test]
fn a_figure_looks_as_before() {
    let point = |value| FigurePoint { value, range: Some((value * 0.9, value)) };
    let series = |name: &str, shift: f64| FigureSeries {
        name: name.to_string(),
        utilization: vec![point(0.97 + shift), point(0.98), point(0.99)],
        delay_p95_ms: vec![point(5.0), point(f64::NAN), point(20.0 * (1.0 + shift))],
    };
    let claim = |quantity, label: &str, value| FigureClaim { quantity, label: label.to_string(), value };
    check(
        "figure.svg",
        &figure(&Figure {
            title: "Tiny figure".to_string(),
            subtitle: "two algorithms".to_string(),
            x_name: "Number of flows".to_string(),
            categories: ["1", "10", "100"].map(str::to_string).to_vec(),
            series: vec![series("gsp", 0.0), series("codel", -0.02)],
            claims: vec![
                claim(FigureQuantity::Utilization, "A1", 0.99),
                claim(FigureQuantity::DelayP95, "A2", 10.0),
            ],
            log_delay: true,
        }),
    );
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let options = TimeSeriesOptions::default();
    let draw = || time_series(&common::nasty(), 0, &options);
    assert_eq!(draw(), draw());
}

#[test]
fn a_plot_looks_as_before() {
    let at = |x, y, range| PlotPoint { x, y, range };
    let series = |name: &str, look, on_right, points: &[PlotPoint]| PlotSeries {
        name: name.to_string(),
        look,
        on_right,
        points: points.to_vec(),
    };
    let drawn = plot(&Plot {
        title: "Tiny plot".to_string(),
        subtitle: "two scales".to_string(),
        x: "Number of flows".into(),
        left: "Delay (ms)".into(),
        right: Some("Throughput (%)".into()),
        series: vec![
            series("delay", Look::Points, false, &[at(2.0, 5.0, Some((4.0, 5.5))), at(36.0, 1.0, None)]),
            series("threshold", Look::Step, false, &[at(2.0, 5.0, None), at(20.0, 2.0, None)]),
            series("discard", Look::Marks, false, &[at(7.0, 0.0, None)]),
            series("throughput", Look::Line, true, &[at(2.0, 94.0, None), at(36.0, 95.0, None)]),
        ],
        ..Plot::default()
    });
    check("plot.svg", &drawn);
}

#[test]
fn values_that_a_paper_prints_are_marks_without_a_line() {
    let at = |x: f64, y: f64| PlotPoint { x, y, range: None };
    let printed = PlotSeries {
        name: "the paper prints".to_string(),
        look: Look::Printed,
        on_right: false,
        points: vec![at(2.0, 11.0), at(36.0, 0.825), at(40.0, f64::NAN)],
    };
    let drawn = plot(&Plot { series: vec![printed], ..Plot::default() });
    // The two that can be drawn, and the legend's; hollow, as limits are.
    assert_eq!(drawn.matches("Z\" class=\"limit\"").count(), 3, "{drawn}");
    assert!(!drawn.contains("class=\"series"), "{drawn}");
}
