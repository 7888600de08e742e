//! Results over the number of flows, as figures in AQM papers show them.

use super::frame::{
    LINE, LegendEntry, Rect, draw_legend, draw_limits, draw_y_axis, heading, highest_limited, legend_rows,
    log_axis, rate_axis, value_axis, wrapped,
};
use crate::axis::Axis;
use crate::number::{drawable, extent};
use crate::panels::Limit;
use crate::svg::{Shape, Svg};

/// A figure: utilization above the 95 % delay, one group of points for each category.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Title of the figure.
    pub title: String,
    /// Under the title.
    pub subtitle: String,
    /// Name of the horizontal axis, such as `Number of flows`.
    pub x_name: String,
    /// Names of the categories from left to right, such as numbers of flows.
    pub categories: Vec<String>,
    /// One series for each algorithm.
    pub series: Vec<FigureSeries>,
    /// Dashed lines at what was claimed.
    pub claims: Vec<FigureClaim>,
    /// Whether the delay has a logarithmic axis.
    pub log_delay: bool,
}

/// One algorithm of a figure. Values beyond the categories are ignored, missing ones leave a hole.
#[derive(Clone, Debug, Default)]
pub struct FigureSeries {
    /// Name of the algorithm.
    pub name: String,
    /// Utilization for each category, as a share of 1.
    pub utilization: Vec<FigurePoint>,
    /// 95th percentile of the delay for each category, in milliseconds.
    pub delay_p95_ms: Vec<FigurePoint>,
}

/// A value and, over repeated runs, its range.
#[derive(Clone, Copy, Debug, Default)]
pub struct FigurePoint {
    /// The value: of the only run, or the mean or median of several.
    pub value: f64,
    /// Smallest and largest value of the runs, drawn as whiskers.
    pub range: Option<(f64, f64)>,
}

/// The quantity that a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureQuantity {
    /// Utilization, as a share of 1.
    Utilization,
    /// 95th percentile of the delay, in milliseconds.
    DelayP95,
}

/// A claim as a horizontal line.
#[derive(Clone, Debug)]
pub struct FigureClaim {
    /// What it is about.
    pub quantity: FigureQuantity,
    /// Short name, which stands beside the line.
    pub label: String,
    /// Where the line is.
    pub value: f64,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 116.0;
const TOP: f64 = 100.0;
const MARGIN: f64 = 16.0;
const HEIGHT: f64 = 190.0;
const GAP: f64 = 36.0;
const SHAPES: [Shape; 5] = [Shape::Circle, Shape::Square, Shape::Diamond, Shape::Up, Shape::Down];
/// Colours of the style sheet; shapes repeat with another period, so that 35 pairs are distinct.
const COLOURS: usize = 7;
/// Lines of series whose colour was there before.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "4 2"];

/// Draws a [`Figure`].
pub fn figure(figure: &Figure) -> String {
    let lines = wrapped(&figure.subtitle, WIDTH - 2.0 * MARGIN);
    let entries = legend_entries(figure);
    let rows = legend_rows(&entries, WIDTH - RIGHT - MARGIN);
    // Two lines have room above a legend of one row.
    let legend_top = TOP + LINE * lines.len().saturating_sub(2) as f64;
    let top = legend_top + LINE * (rows.len() - 1) as f64;
    let mut svg = Svg::new(WIDTH, top + 2.0 * HEIGHT + GAP + 52.0, &figure.title);
    heading(&mut svg, &figure.title, &lines[0]);
    for (i, line) in lines.iter().enumerate().skip(1) {
        svg.text((MARGIN, 44.0 + LINE * i as f64), "soft", line);
    }
    let mut place = Rect { left: LEFT, top, width: WIDTH - LEFT - RIGHT, height: HEIGHT };
    legend(&mut svg, &entries, &rows, (place.right(), legend_top - 28.0));
    for quantity in [FigureQuantity::Utilization, FigureQuantity::DelayP95] {
        draw_quantity(&mut svg, place, figure, quantity);
        place.top += HEIGHT + GAP;
    }
    let bottom = place.top - GAP;
    for (i, name) in figure.categories.iter().enumerate() {
        svg.text((category_middle(place, figure, i), bottom + 17.0), "middle", name);
    }
    svg.text((LEFT + place.width / 2.0, bottom + 38.0), "soft middle", &figure.x_name);
    svg.finish()
}

fn legend_entries(figure: &Figure) -> Vec<LegendEntry<'_>> {
    let entries = figure.series.iter().enumerate();
    entries.map(|(i, s)| LegendEntry { text: &s.name, class: format!("c{}", i % COLOURS) }).collect()
}

/// The first row ends at `at`, the others stand below it.
fn legend(svg: &mut Svg, entries: &[LegendEntry], rows: &[usize], at: (f64, f64)) {
    let mut first = 0;
    for (row, count) in rows.iter().enumerate() {
        let entries = &entries[first..first + count];
        let middles = draw_legend(svg, at.0, at.1 + LINE * row as f64, entries);
        for (i, (middle, entry)) in middles.into_iter().zip(entries).enumerate() {
            svg.shape(middle, SHAPES[(first + i) % SHAPES.len()], &format!("mark {}", entry.class));
        }
        first += count;
    }
}

impl FigureQuantity {
    /// The points of a series, in the unit in which they are drawn.
    fn points(self, series: &FigureSeries) -> Vec<FigurePoint> {
        match self {
            FigureQuantity::Utilization => series.utilization.iter().map(|p| p.times(100.0)).collect(),
            FigureQuantity::DelayP95 => series.delay_p95_ms.clone(),
        }
    }

    fn limits(self, figure: &Figure) -> Vec<Limit> {
        let factor = if self == FigureQuantity::Utilization { 100.0 } else { 1.0 };
        let mine = figure.claims.iter().filter(|c| c.quantity == self && drawable(c.value * factor));
        mine.map(|c| Limit { label: c.label.clone(), value: c.value * factor }).collect()
    }

    fn name(self) -> &'static str {
        match self {
            FigureQuantity::Utilization => "Utilization (%)",
            FigureQuantity::DelayP95 => "95 % delay (ms)",
        }
    }
}

impl FigurePoint {
    fn times(&self, factor: f64) -> FigurePoint {
        let range = self.range.map(|(lo, hi)| (lo * factor, hi * factor));
        FigurePoint { value: self.value * factor, range }
    }

    /// Everything of it that must be visible.
    fn values(&self) -> impl Iterator<Item = f64> {
        let (lo, hi) = self.range.unwrap_or((self.value, self.value));
        [self.value, lo, hi].into_iter()
    }
}

fn draw_quantity(svg: &mut Svg, place: Rect, figure: &Figure, quantity: FigureQuantity) {
    svg.note(quantity.name());
    let all: Vec<Vec<FigurePoint>> = figure.series.iter().map(|s| quantity.points(s)).collect();
    let limits = quantity.limits(figure);
    let values: Vec<f64> = all.iter().flatten().flat_map(FigurePoint::values).collect();
    let top = highest_limited(&values, &limits);
    let shown: Vec<f64> = values.iter().copied().chain(limits.iter().map(|l| l.value)).collect();
    let y = match quantity {
        FigureQuantity::Utilization => utilization_axis(place, &shown),
        FigureQuantity::DelayP95 if figure.log_delay => log_axis(place, shown.iter().filter(|v| **v <= top)),
        FigureQuantity::DelayP95 => value_axis(place, top),
    };
    draw_y_axis(svg, place, &y, true);
    draw_separators(svg, place, figure);
    svg.rect((place.left, place.top), (place.width, place.height), "panel");
    svg.text((place.left, place.top - 8.0), "name", quantity.name());
    draw_limits(svg, place, &y, if quantity == FigureQuantity::Utilization { 1e18 } else { top }, &limits);
    for (i, points) in all.iter().enumerate() {
        draw_points(svg, place, figure, &y, i, points);
    }
}

/// From a round number just below the smallest value to all of the link: differences of a per cent decide,
/// and points, unlike bars, need no zero.
fn utilization_axis(place: Rect, values: &[f64]) -> Axis {
    const FLOORS: [f64; 9] = [99.0, 98.0, 95.0, 90.0, 80.0, 70.0, 60.0, 50.0, 0.0];
    let (lo, hi) = extent(values).unwrap_or((0.0, 100.0));
    let floor = FLOORS.into_iter().find(|f| *f < lo).unwrap_or(0.0);
    rate_axis(place, floor, hi.max(100.0))
}

fn slot(place: Rect, figure: &Figure) -> f64 {
    place.width / figure.categories.len().max(1) as f64
}

fn category_middle(place: Rect, figure: &Figure, category: usize) -> f64 {
    place.left + (category as f64 + 0.5) * slot(place, figure)
}

fn draw_separators(svg: &mut Svg, place: Rect, figure: &Figure) {
    for i in 1..figure.categories.len() {
        let x = place.left + i as f64 * slot(place, figure);
        svg.line((x, place.top), (x, place.bottom()), "grid");
    }
}

/// The points of one series, each a little aside of its neighbours so that whiskers do not cover each other.
fn draw_points(svg: &mut Svg, place: Rect, figure: &Figure, y: &Axis, index: usize, points: &[FigurePoint]) {
    let class = format!("c{}", index % COLOURS);
    let count = figure.series.len() as f64;
    let spacing = (slot(place, figure) * 0.7 / count).min(16.0);
    let aside = (index as f64 - (count - 1.0) / 2.0) * spacing;
    let shown: Vec<(f64, &FigurePoint)> = points
        .iter()
        .take(figure.categories.len())
        .enumerate()
        .map(|(i, p)| (category_middle(place, figure, i) + aside, p))
        .collect();
    let at = |v: f64| if drawable(v) { y.place(v) } else { f64::NAN };
    let line: Vec<(f64, f64)> = shown.iter().map(|(x, p)| (*x, at(p.value))).collect();
    let dashes = DASHES[index / COLOURS % DASHES.len()];
    svg.dashed_path(&line, false, &format!("series thin link {class}"), dashes);
    for (x, point) in &shown {
        if let Some((lo, hi)) = point.range.filter(|(lo, hi)| drawable(*lo) && drawable(*hi)) {
            draw_whisker(svg, *x, (y.place(lo), y.place(hi)), &class);
        }
    }
    for (x, y) in line.into_iter().filter(|(_, y)| drawable(*y)) {
        svg.shape((x, y), SHAPES[index % SHAPES.len()], &format!("mark {class}"));
    }
}

fn draw_whisker(svg: &mut Svg, x: f64, (lo, hi): (f64, f64), class: &str) {
    let class = format!("whisker {class}");
    svg.line((x, lo), (x, hi), &class);
    for y in [lo, hi] {
        svg.line((x - 3.0, y), (x + 3.0, y), &class);
    }
}
