//! Charts with the axes of the paper.

use super::cases::{Measured, Part, Values};
use super::claims::STEERED;
use crate::experiment::{between, samples};
use crate::figure::{Figure, axis, point, printed, series};
use crate::statistics::mean;
use weir_measure::result::{LinkSample, Recording};
use weir_report::chart::{self, FigurePoint, FigureSeries, Look, Plot, PlotAxis, PlotSeries};

/// Numbers of flows that the paper shows the throughput of.
const SHOWN: [u32; 3] = [2, 9, 36];
/// Length of the detail of figure 8b.
const DETAIL_S: f64 = 5.0;

/// The charts of one figure at one rate.
pub fn figures(part: Part, m: &Measured) -> Vec<Figure> {
    let rate = m.rate_bps() / 1e9;
    let plots = match part {
        // The policy with every number of flows, and the large tail-drop buffer with the most; in figure 6
        // what is left of the throughput with two.
        Part::Five => vec![
            throughput(m, "5a", 0.88 * rate, &[(2, 0.99), (9, 0.99), (36, 0.99), (36, 1.0)]),
            delay_over_flows(m),
        ],
        Part::Six => vec![throughput(m, "6a", 0.2 * rate, &[(2, 0.6), (2, 0.8)]), delay_by_flows(m)],
        Part::SevenA | Part::SevenB => return transitions(part, m),
        Part::Text => Vec::new(),
        Part::EightA => vec![headroom(m)],
        Part::EightB => m.recording().map_or(Vec::new(), |r| vec![virtual_queue(r), virtual_rate(r)]),
    };
    plots.into_iter().map(|(name, plot)| named(name, &m.rate(), plot)).collect()
}

/// Utilization above 95 % delay, of every queue with every number of flows.
pub fn chart(m: &Measured, title: &str, subtitle: String) -> chart::Figure {
    let point = |series: &str, flows: u32, of: fn(&Values) -> f64| {
        let plotted = m.at(series, flows).plotted(0.0, 1.0, of);
        FigurePoint { value: plotted.y, range: plotted.range }
    };
    let flows = m.flows();
    let curve = |name: &str| FigureSeries {
        name: name.to_string(),
        utilization: flows.iter().map(|n| point(name, *n, |v| v.link.utilization)).collect(),
        delay_p95_ms: flows.iter().map(|n| point(name, *n, p95)).collect(),
    };
    chart::Figure {
        title: title.into(),
        subtitle,
        x_name: "Number of flows".into(),
        categories: flows.iter().map(u32::to_string).collect(),
        series: m.series().into_iter().map(curve).collect(),
        log_delay: true,
        ..chart::Figure::default()
    }
}

/// A chart whose file and title say its rate.
fn named(name: &str, rate: &str, plot: Plot) -> Figure {
    Figure {
        file: format!("figure{name}-{}", rate.replace('/', "p")),
        plot: Plot { title: format!("{} ({rate})", plot.title), ..plot },
    }
}

/// Figures 7a and 7b: one chart for each size of packets.
fn transitions(part: Part, m: &Measured) -> Vec<Figure> {
    let chart = |(name, m): (&str, Measured)| {
        let (number, plot) = transition(part, m.recording()?);
        let size = name.split(", ").nth(1).map_or(String::new(), |s| format!("-{}", s.replace(' ', "")));
        let title = if size.is_empty() { plot.title } else { format!("{}, {name}", plot.title) };
        Some(named(&format!("{number}{size}"), &m.rate(), Plot { title, ..plot }))
    };
    m.curves().into_iter().filter_map(chart).collect()
}

const OVER_RUNS: &str = "95th percentile; mean over the runs, and their range.";

/// A value with the numbers of flows that the paper shows, and what it prints of these.
fn by_flows(
    m: &Measured,
    title: String,
    subtitle: &str,
    left: PlotAxis,
    factor: f64,
    of: fn(&Values) -> f64,
    said: &[(u32, f64)],
) -> Plot {
    let shown: Vec<u32> = m.flows().into_iter().filter(|n| SHOWN.contains(n)).collect();
    let curve = |name: &&str| {
        let at = |(i, n): (usize, &u32)| m.at(name, *n).plotted(i as f64, factor, of);
        series(name, Look::Points, shown.iter().enumerate().map(at))
    };
    let place = |flows: u32| shown.iter().position(|n| *n == flows);
    let said = said.iter().filter_map(|(flows, value)| Some((place(*flows)? as f64, value * factor)));
    Plot {
        title,
        subtitle: subtitle.into(),
        x: "Number of flows".into(),
        categories: shown.iter().map(u32::to_string).collect(),
        left,
        series: m.series().iter().map(curve).chain([printed(said)]).collect(),
        ..Plot::default()
    }
}

/// Figures 5a and 6a: throughput from `floor` in Gbit/s on; what the paper prints is given as shares.
fn throughput(m: &Measured, name: &'static str, floor: f64, said: &[(u32, f64)]) -> (&'static str, Plot) {
    let rate = m.rate_bps() / 1e9;
    let subtitle = "Byte accounting of Ethernet lines; the paper's axis, longer where values lie below it.";
    let (title, left) = (format!("Figure {name}: throughput"), axis("Throughput (Gbit/s)", floor, rate));
    (name, by_flows(m, title, subtitle, left, rate, |v| v.link.utilization, said))
}

/// Figure 6b.
fn delay_by_flows(m: &Measured) -> (&'static str, Plot) {
    let (title, left) =
        ("Figure 6b: queueing delay, disturbed by short flows", axis("95 % delay (ms)", 0.0, 30.0));
    // "Practically no delay" in a short tail-drop buffer with two flows.
    ("6b", by_flows(m, title.into(), OVER_RUNS, left, 1.0, p95, &[(2, 0.0)]))
}

fn p95(values: &Values) -> f64 {
    values.link.delay_ms.p95
}

/// A value of a curve over the number of flows.
fn over_flows(m: &Measured, curve: &str, name: &str, factor: f64, of: fn(&Values) -> f64) -> PlotSeries {
    let at = |n: u32| m.at(curve, n).plotted(f64::from(n), factor, of);
    series(name, Look::Points, m.flows().into_iter().map(at))
}

/// Figure 5b.
fn delay_over_flows(m: &Measured) -> (&'static str, Plot) {
    // GSP-AS with two flows (read off the figure) and with 36, the static set point, and the large tail-drop
    // buffer.
    let paper = printed([(2.0, 10.0), (2.0, 20.0), (36.0, 0.825), (36.0, 2.5), (36.0, 30.0)]);
    let plot = Plot {
        title: "Figure 5b: queueing delay".into(),
        subtitle: OVER_RUNS.into(),
        x: axis("Number of flows", 0.0, 37.0),
        left: axis("95 % delay (ms)", 0.0, 30.0),
        series: m.series().iter().map(|name| over_flows(m, name, name, 1.0, p95)).chain([paper]).collect(),
        ..Plot::default()
    };
    ("5b", plot)
}

/// Samples as a series over time.
fn over_time<'a>(
    name: &str,
    look: Look,
    samples: impl Iterator<Item = &'a LinkSample>,
    of: impl Fn(&LinkSample) -> f64,
) -> PlotSeries {
    series(name, look, samples.map(|s| point(s.t_s, of(s))))
}

fn is_discard(sample: &&LinkSample) -> bool {
    sample.drops > 0
}

/// Figures 7a and 7b: from 20 s before the first change to the end.
fn transition(part: Part, recording: &Recording) -> (&'static str, Plot) {
    let from = 160.0;
    let end = samples(recording).last().map_or(from, |s| s.t_s);
    let here = || between(recording, from, end);
    // About 11 ms before, the end of the time in which the link is reclaimed, and about 10 ms afterwards; in
    // figure 7b nearly that value each time before 34 flows come.
    let said: &[(f64, f64)] = match part {
        Part::SevenA => &[(180.0, 11.0), (278.0, 0.0), (300.0, 10.0)],
        _ => &[(180.0, 11.0), (220.0, 11.0), (260.0, 11.0), (300.0, 11.0)],
    };
    let what = if part == Part::SevenA { "34 flows for 80 s" } else { "34 flows for 20 s, every 40 s" };
    let plot = Plot {
        title: format!("Figure {}: transitions, {what}", part.name()),
        subtitle:
            "First run. Delay: mean of each sample of 50 ms. Discards: the samples in which there were any."
                .into(),
        x: axis("Time (s)", from, end),
        left: axis("Queueing delay (ms)", 0.0, 18.0),
        series: vec![
            over_time("Queueing delay", Look::Line, here(), |s| s.delay_mean_ms),
            over_time("Threshold", Look::Step, here(), |s| s.setpoint_ms),
            over_time("Packet discard", Look::Marks, here().filter(is_discard), |_| 0.0),
            printed(said.iter().copied()),
        ],
        ..Plot::default()
    };
    (part.name(), plot)
}

/// Figure 8a.
fn headroom(m: &Measured) -> (&'static str, Plot) {
    let curve = |name: &str, of: fn(&Values) -> f64, factor: f64, on_right: bool| PlotSeries {
        on_right,
        ..over_flows(m, STEERED, name, factor, of)
    };
    let bounds: Vec<(f64, f64)> =
        m.flows().into_iter().flat_map(|n| [(f64::from(n), 94.0), (f64::from(n), 95.0)]).collect();
    // Delays are "effectively zero" from six flows on.
    let empty: Vec<(f64, f64)> =
        m.flows().into_iter().filter(|n| *n >= 6).map(|n| (f64::from(n), 0.0)).collect();
    let plot = Plot {
        title: "Figure 8a: throughput and queueing delay, u_target 95 %, u_low 94 %".into(),
        subtitle: "Mean over the runs, and their range; delays of the real queue.".into(),
        x: axis("Number of flows", 0.0, 37.0),
        left: axis("Queueing delay (ms)", 0.0, 6.0),
        right: Some(axis("Throughput (%)", 90.0, 96.0)),
        series: vec![
            curve("Queue length q-95", p95, 1.0, false),
            curve("Queue length average", |v| v.link.delay_ms.mean, 1.0, false),
            curve("Throughput", |v| v.link.utilization, 100.0, true),
            PlotSeries { on_right: true, ..printed(bounds) },
            printed(empty),
        ],
        ..Plot::default()
    };
    ("8a", plot)
}

/// The last seconds of a run.
fn detail(recording: &Recording) -> (f64, f64) {
    let end = samples(recording).last().map_or(DETAIL_S, |s| s.t_s);
    (end - DETAIL_S, end)
}

/// Figure 8b.
fn virtual_queue(recording: &Recording) -> (&'static str, Plot) {
    let (from, to) = detail(recording);
    let here = || between(recording, from, to);
    let threshold_kb = |s: &LinkSample| s.setpoint_ms / 1e3 * s.virtual_rate_bps / 8.0 / 1e3;
    let rate_bps = recording.summary.links.first().and_then(|l| l.rate_bps).unwrap_or(0.0);
    let plot = Plot {
        title: "Figure 8b: length of the virtual queue, 36 flows".into(),
        subtitle: "First run, samples of 2 ms.".into(),
        x: axis("Time (s)", from, to),
        left: axis("Queue length (kB)", 0.0, 800.0 * rate_bps / 10e9),
        series: vec![
            over_time("Virtual queue", Look::Line, here(), |s| s.virtual_backlog_bytes as f64 / 1e3),
            over_time("Threshold", Look::Step, here(), threshold_kb),
            over_time("Packet discard", Look::Marks, here().filter(is_discard), |_| 0.0),
        ],
        ..Plot::default()
    };
    ("8b", plot)
}

/// The rates of that run, which the paper describes in words.
fn virtual_rate(recording: &Recording) -> (&'static str, Plot) {
    const MEAN_OVER: usize = 50;
    let from = recording.summary.warmup_s;
    let here: Vec<LinkSample> = between(recording, from, f64::INFINITY).copied().collect();
    let mean = |part: &[LinkSample]| {
        let last = part.last().copied().unwrap_or_default();
        LinkSample { delivered_bps: mean(part.iter().map(|s| s.delivered_bps)), ..last }
    };
    let thin: Vec<LinkSample> = here.chunks(MEAN_OVER).map(mean).collect();
    let rate_bps = recording.summary.links.first().and_then(|l| l.rate_bps).unwrap_or(0.0);
    let end = thin.last().map_or(from + 1.0, |s| s.t_s);
    // The policy's bounds, at both ends.
    let bounds = [from, end].map(|at| [(at, 0.94 * rate_bps / 1e9), (at, 0.95 * rate_bps / 1e9)]).concat();
    let unset = |s: &LinkSample| if s.virtual_rate_bps > 0.0 { s.virtual_rate_bps / 1e9 } else { f64::NAN };
    let plot = Plot {
        title: "Beside figure 8b: egress rate and rate of the virtual queue, 36 flows".into(),
        subtitle: "First run, means of 100 ms. No virtual rate: the real queue was controlled.".into(),
        x: axis("Time (s)", from, end),
        left: axis("Rate (Gbit/s)", rate_bps * 0.9 / 1e9, rate_bps / 1e9),
        series: vec![
            over_time("Egress rate", Look::Line, thin.iter(), |s| s.delivered_bps / 1e9),
            over_time("Rate of the virtual queue", Look::Step, thin.iter(), unset),
            printed(bounds),
        ],
        ..Plot::default()
    };
    ("8b-rate", plot)
}
