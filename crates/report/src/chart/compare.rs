//! Several runs side by side.

use weir_measure::result::Recording;

use super::frame::{
    Labels, Rect, draw_frame, draw_legend, draw_limits, draw_series, entries_of, heading, highest_of,
    log_axis, panel_name, rate_axis, value_axis,
};
use crate::axis::Axis;
use crate::number::{prefix, significant};
use crate::panels::{CAPACITY, LinkView, Panel, Policy, Tone};
use crate::svg::Svg;

/// One run of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// What stands above it, such as the name of the algorithm.
    pub label: &'a str,
    /// The run.
    pub recording: &'a Recording,
    /// Index of the link in the recording.
    pub link: usize,
    /// The policy of the run.
    pub policy: Policy,
}

/// Several runs side by side.
#[derive(Clone, Debug, Default)]
pub struct Comparison<'a> {
    /// Title of the chart.
    pub title: &'a str,
    /// The runs, from left to right and from top to bottom.
    pub runs: Vec<Compared<'a>>,
    /// Whether the delay has a logarithmic axis, for algorithms whose delays are of different magnitudes.
    pub log_delay: bool,
}

const MAX_COLUMNS: usize = 3;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 126.0;
const TOP: f64 = 98.0;
const CELL_WIDTH: f64 = 290.0;
const CELL_GAP: f64 = 16.0;
const DELAY_HEIGHT: f64 = 130.0;
const RATE_HEIGHT: f64 = 90.0;
const INNER_GAP: f64 = 30.0;
const ROW_GAP: f64 = 92.0;

/// Runs as small multiples: for each the delay with its set point above the throughput. All share the time
/// axis and the scales, so that heights can be compared by eye.
pub fn comparison(comparison: &Comparison) -> String {
    let cells: Vec<Cell> = comparison.runs.iter().map(Cell::new).collect();
    let columns = cells.len().clamp(1, MAX_COLUMNS);
    let rows = cells.len().div_ceil(columns).max(1);
    let right = LEFT + columns as f64 * (CELL_WIDTH + CELL_GAP) - CELL_GAP;
    let row_height = DELAY_HEIGHT + INNER_GAP + RATE_HEIGHT + ROW_GAP;
    let height = TOP + rows as f64 * row_height - 46.0;
    let mut svg = Svg::new(right + RIGHT, height, comparison.title);
    heading(&mut svg, comparison.title, "All panels share their scales. Shaded: warm-up.");
    if let Some(cell) = cells.iter().max_by_key(|c| c.delay.series.len()) {
        draw_legend(&mut svg, right, 44.0, &entries_of(&cell.delay));
    }
    let scales = Scales::of(&cells, comparison.log_delay);
    let count = cells.len();
    for (i, cell) in cells.into_iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let corner = (LEFT + column as f64 * (CELL_WIDTH + CELL_GAP), TOP + row as f64 * row_height);
        let ends_row = column + 1 == columns || i + 1 == count;
        cell.draw(&mut svg, corner, &scales, (column == 0, ends_row));
    }
    svg.finish()
}

struct Cell<'a> {
    label: &'a str,
    view: LinkView<'a>,
    delay: Panel,
    /// In bit/s until the common scale is known.
    throughput: Panel,
}

/// What all cells have in common.
struct Scales {
    end: f64,
    delay: f64,
    /// Delays for a logarithmic axis; empty for a linear one.
    log_delays: Vec<f64>,
    rate: f64,
    divisor: f64,
    letter: &'static str,
}

impl Scales {
    fn of(cells: &[Cell], log_delay: bool) -> Scales {
        let most = |value: &dyn Fn(&Cell) -> f64| cells.iter().map(value).fold(0.0, f64::max);
        let delays = cells.iter().flat_map(|c| &c.delay.series).flat_map(|s| &s.v).copied();
        let rate = most(&|c| highest_of(&c.throughput));
        let (divisor, letter) = prefix(rate);
        Scales {
            end: most(&|c| c.view.span().1),
            delay: most(&|c| highest_of(&c.delay)),
            log_delays: delays.filter(|_| log_delay).collect(),
            rate: rate / divisor,
            divisor,
            letter,
        }
    }

    fn delay_axis(&self, place: Rect) -> Axis {
        if self.log_delays.is_empty() {
            value_axis(place, self.delay)
        } else {
            log_axis(place, self.log_delays.iter().chain([&self.delay]))
        }
    }
}

impl<'a> Cell<'a> {
    fn new(run: &Compared<'a>) -> Cell<'a> {
        let view = LinkView::new(run.recording, run.link, run.policy);
        let mut throughput = view.throughput_unscaled();
        // One line is enough to compare, and it needs no legend; beside it the capacity, where it varies.
        throughput.series.retain(|s| s.tone == Tone::Main || s.name == CAPACITY);
        Cell { label: run.label, view, delay: view.delay(), throughput }
    }

    fn draw(self, svg: &mut Svg, corner: (f64, f64), scales: &Scales, ends: (bool, bool)) {
        svg.note(self.label);
        let mut place = Rect { left: corner.0, top: corner.1, width: CELL_WIDTH, height: DELAY_HEIGHT };
        svg.text((place.left, place.top - 26.0), "title", self.label);
        if let Some(result) = self.result() {
            svg.text((place.right(), place.top - 26.0), "soft end", &result);
        }
        let warmup = self.view.warmup();
        let x = Axis::linear(0.0, scales.end, place.along());
        let frame = Frame { place, x, y: scales.delay_axis(place), top: scales.delay, warmup, ends };
        frame.draw(svg, &self.delay, false);

        place = Rect { top: place.bottom() + INNER_GAP, height: RATE_HEIGHT, ..place };
        let y = rate_axis(place, 0.0, scales.rate);
        let throughput = self.throughput.scaled(scales.divisor, scales.letter);
        Frame { place, y, top: scales.rate, ..frame }.draw(svg, &throughput, true);
        svg.text((place.left + place.width / 2.0, place.bottom() + 30.0), "soft middle", "Time (s)");
    }

    /// The two numbers for which one compares.
    fn result(&self) -> Option<String> {
        let link = self.view.summary?;
        let used = |_| format!("{} % used, ", significant(link.utilization * 100.0, 4));
        let used = link.rate_bps.map_or(String::new(), used);
        Some(format!("{used}p95 {} ms", significant(link.delay_ms.p95, 3)))
    }
}

/// One panel of a cell.
#[derive(Clone, Copy)]
struct Frame {
    place: Rect,
    x: Axis,
    y: Axis,
    /// The largest value on the scale.
    top: f64,
    warmup: Option<f64>,
    /// Whether the cell is the first and the last of its row.
    ends: (bool, bool),
}

impl Frame {
    fn draw(&self, svg: &mut Svg, panel: &Panel, times: bool) {
        let Frame { place, x, y, .. } = self;
        draw_frame(svg, *place, x, y, self.warmup, Labels { x: times, y: self.ends.0 });
        svg.text((place.left, place.top - 7.0), "name", &panel_name(panel));
        for series in &panel.series {
            draw_series(svg, *place, x, y, series);
        }
        if self.ends.1 {
            return draw_limits(svg, *place, y, self.top, &panel.limits);
        }
        // The margin belongs to the neighbour; the same line is named at the end of the row.
        for limit in panel.limits.iter().filter(|l| l.value <= self.top) {
            let at = y.place(limit.value);
            svg.line((place.left, at), (place.right(), at), "limit");
        }
    }
}
