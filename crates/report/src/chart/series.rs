//! One link over time.

use weir_measure::result::Recording;

use super::frame::{
    Labels, Rect, draw_frame, draw_legend, draw_limits, draw_series, entries_of, heading, highest_of,
    log_axis, panel_name, rate_axis, value_axis,
};
use crate::axis::Axis;
use crate::number::{drawable, extent};
use crate::panels::{Kind, LinkView, Panel, Policy, Series};
use crate::svg::{Shape, Svg};

/// How a time-series chart is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeSeriesOptions {
    /// The policy of the run, drawn as dashed lines.
    pub policy: Policy,
    /// Whether the delay has a logarithmic axis.
    pub log_delay: bool,
    /// Where the axis of the throughput starts, as a share of the configured rate. With 0.9 the last tenth
    /// fills the panel, and what lies below is drawn on its lower edge.
    pub utilization_floor: f64,
}

const WIDTH: f64 = 994.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 126.0;
const TOP: f64 = 84.0;
const GAP: f64 = 34.0;
/// More markers than this would be a solid bar.
const MAX_MARKERS: usize = 400;

/// One link of a recording as a page of stacked panels that share the time axis: throughput against the
/// configured rate, delay against the set point, signals (drops, overflows, marks), the backlog of the
/// virtual queue when it was in charge, and the number of active flows when flows were sampled.
///
/// A `link` that the recording does not have yields an empty chart.
pub fn time_series(recording: &Recording, link: usize, options: &TimeSeriesOptions) -> String {
    let view = LinkView::new(recording, link, options.policy);
    let panels = view.panels();
    let heights: Vec<f64> = panels.iter().map(|p| height_of(p.kind)).collect();
    let total = TOP + heights.iter().map(|h| h + GAP).sum::<f64>() + 14.0;
    let mut svg = Svg::new(WIDTH, total, &recording.summary.title);
    heading(&mut svg, &recording.summary.title, &view.subtitle());

    let mut place = Rect { left: LEFT, top: TOP, width: WIDTH - LEFT - RIGHT, height: 0.0 };
    let (from, to) = view.span();
    let x = Axis::linear(from, to, place.along());
    for (i, (panel, height)) in panels.iter().zip(&heights).enumerate() {
        place.height = *height;
        let last = i + 1 == panels.len();
        draw_panel(&mut svg, place, &x, panel, &view, options, last);
        place.top += height + GAP;
    }
    let bottom = place.top - GAP;
    svg.text((LEFT + place.width / 2.0, bottom + 32.0), "soft middle", "Time (s)");
    if let Some(warmup) = view.warmup() {
        let middle = (x.place(0.0) + x.place(warmup)) / 2.0;
        svg.text((middle.max(LEFT + 28.0), bottom + 32.0), "soft middle", "warm-up");
    }
    svg.finish()
}

fn height_of(kind: Kind) -> f64 {
    match kind {
        Kind::Throughput | Kind::Delay => 160.0,
        Kind::Discards => 100.0,
        Kind::Virtual | Kind::Flows => 80.0,
    }
}

fn draw_panel(
    svg: &mut Svg,
    place: Rect,
    x: &Axis,
    panel: &Panel,
    view: &LinkView,
    options: &TimeSeriesOptions,
    last: bool,
) {
    svg.note(panel.title);
    let top = match panel.kind {
        Kind::Discards => highest_binned(panel, view.span().1),
        _ => highest_of(panel),
    };
    let y = vertical_axis(place, panel, top, options);
    draw_frame(svg, place, x, &y, view.warmup(), Labels { x: last, y: true });
    svg.text((place.left, place.top - 8.0), "name", &panel_name(panel));
    draw_legend(svg, place.right(), place.top - 8.0, &entries_of(panel));
    for series in &panel.series {
        if panel.kind == Kind::Discards {
            draw_series(svg, place, x, &y, &binned(series, view.span().1));
        } else {
            draw_series(svg, place, x, &y, series);
        }
    }
    draw_limits(svg, place, &y, top, &panel.limits);
    if panel.kind == Kind::Delay {
        draw_events(svg, place, x, view);
    }
}

fn vertical_axis(place: Rect, panel: &Panel, top: f64, options: &TimeSeriesOptions) -> Axis {
    match panel.kind {
        Kind::Delay if options.log_delay => {
            log_axis(place, panel.series.iter().flat_map(|s| &s.v).chain([&top]))
        }
        Kind::Throughput => {
            let rate = panel.limits.first().map_or(0.0, |l| l.value);
            let floor = options.utilization_floor;
            rate_axis(place, if (0.0..1.0).contains(&floor) { floor * rate } else { 0.0 }, top)
        }
        _ => value_axis(place, top),
    }
}

/// Rates of rare signals averaged over bins: a single packet in a sampling period of milliseconds would
/// otherwise look like hundreds per second.
fn binned(series: &Series, end: f64) -> Series {
    const BINS: f64 = 300.0;
    let width = end / BINS;
    let mut binned = Series { t: Vec::new(), v: Vec::new(), ..*series };
    let mut points = series.t.iter().zip(&series.v).peekable();
    while let Some(&(&first, _)) = points.peek() {
        let bin = (first / width).floor();
        let mut inside = Vec::new();
        while let Some((_, v)) = points.next_if(|(t, _)| (**t / width).floor() == bin) {
            inside.push(*v);
        }
        let known: Vec<f64> = inside.into_iter().filter(|v| drawable(*v)).collect();
        binned.t.push(first);
        // The mean of nothing is NaN, which is a hole, as it should be.
        binned.v.push(known.iter().sum::<f64>() / known.len() as f64);
    }
    binned
}

fn highest_binned(panel: &Panel, end: f64) -> f64 {
    let highest = |s: &Series| extent(&binned(s, end).v).map_or(0.0, |(_, hi)| hi);
    panel.series.iter().map(highest).fold(0.0, f64::max)
}

/// Moves of the set point as small triangles at the top of the panel, pointing where it went.
fn draw_events(svg: &mut Svg, place: Rect, x: &Axis, view: &LinkView) {
    let events: Vec<_> = view.events().filter(|e| drawable(e.t_s)).collect();
    let stride = events.len().div_ceil(MAX_MARKERS).max(1);
    for event in events.into_iter().step_by(stride) {
        let shape = if event.to < event.from { Shape::Down } else { Shape::Up };
        svg.shape((x.place(event.t_s), place.top + 7.0), shape, "mark c1");
    }
}
