//! Charts as papers draw them: values over a number, over categories, or over time, with one or two scales.

use super::frame::{LegendEntry, Rect, draw_legend, heading};
use crate::axis::Axis;
use crate::downsample::keep_extremes;
use crate::number::{drawable, extent};
use crate::svg::{Shape, Svg};

/// A chart of several series over one horizontal axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Title of the chart.
    pub title: String,
    /// Under the title.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: PlotAxis,
    /// Names of the places 0, 1, 2 and so on of the horizontal axis. Empty if its values are numbers.
    pub categories: Vec<String>,
    /// The vertical axis on the left.
    pub left: PlotAxis,
    /// A second vertical axis on the right.
    pub right: Option<PlotAxis>,
    /// The series, in the order of the legend.
    pub series: Vec<PlotSeries>,
}

/// An axis: its name with the unit, and the range that it shows at least.
#[derive(Clone, Debug, Default)]
pub struct PlotAxis {
    /// Name and unit, such as `Queueing delay (ms)`.
    pub name: String,
    /// Ends of the axis; data beyond makes it longer, data that is missing does not make it shorter.
    pub range: Option<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Markers with whiskers, joined by a faint line.
    #[default]
    Points,
    /// A line.
    Line,
    /// A line whose values hold until the next one.
    Step,
    /// Marks at the upper edge, whatever their value: something happened there.
    Marks,
    /// Hollow marks without a line: values that a paper prints.
    Printed,
}

/// One series of a chart.
#[derive(Clone, Debug, Default)]
pub struct PlotSeries {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Whether its values belong to the axis on the right.
    pub on_right: bool,
    /// The points, from left to right.
    pub points: Vec<PlotPoint>,
}

/// A point and, over repeated runs, the range of its value.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlotPoint {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Value: of the only run, or the mean of several.
    pub y: f64,
    /// Smallest and largest value of the runs, drawn as whiskers.
    pub range: Option<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const PLACE: Rect = Rect { left: 62.0, top: 84.0, width: 730.0, height: 300.0 };
const HEIGHT: f64 = PLACE.top + PLACE.height + 54.0;
/// Points of a line beyond which it is thinned out: no screen is so wide.
const MAX_POINTS: usize = 4000;
const SHAPES: [Shape; 5] = [Shape::Circle, Shape::Square, Shape::Diamond, Shape::Up, Shape::Down];
const COLOURS: usize = 7;
/// Class of values that a paper prints: hollow, with a dashed edge.
const PRINTED: &str = "limit";

/// The ends of the three axes, as both the picture and the page use them.
pub(crate) struct Scales {
    pub(crate) x: (f64, f64),
    pub(crate) left: (f64, f64),
    pub(crate) right: (f64, f64),
}

/// Left edge, upper edge, width and height of the plotting area in the picture.
pub(crate) const AREA: [f64; 4] = [PLACE.left, PLACE.top, PLACE.width, PLACE.height];

impl Plot {
    pub(crate) fn scales(&self) -> Scales {
        let xs = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.x));
        let x = match self.categories.len() {
            0 => reach(self.x.range, xs),
            n => (-0.5, n as f64 - 0.5),
        };
        let ys = |right: bool| {
            let mine = self.series.iter().filter(move |s| s.on_right == right && s.look != Look::Marks);
            mine.flat_map(|s| s.points.iter().flat_map(PlotPoint::values))
        };
        let right = self.right.as_ref().and_then(|axis| axis.range);
        let (left, right) = (reach(self.left.range, ys(false)), reach(right, ys(true)));
        Scales { x, left: rounded(left), right: rounded(right) }
    }

    /// How far a point of series `index` stands aside of its category, so that whiskers do not cover each
    /// other.
    pub(crate) fn aside(&self, index: usize) -> f64 {
        if self.categories.is_empty() {
            return 0.0;
        }
        if self.series.get(index).is_some_and(|series| series.look == Look::Printed) {
            return 0.0;
        }
        let count = self.series.len().max(1) as f64;
        (index as f64 - (count - 1.0) / 2.0) * (0.6 / count).min(0.12)
    }
}

/// An axis without a range of its own.
impl From<&str> for PlotAxis {
    fn from(name: &str) -> PlotAxis {
        PlotAxis { name: name.to_string(), range: None }
    }
}

impl PlotPoint {
    /// Everything of it that must be visible.
    fn values(&self) -> impl Iterator<Item = f64> {
        let (lo, hi) = self.range.unwrap_or((self.y, self.y));
        [self.y, lo, hi].into_iter()
    }
}

impl PlotSeries {
    /// The points that are drawn: all, or as many as keep its outline.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = &PlotPoint> {
        let values: Vec<f64> = self.points.iter().map(|p| p.y).collect();
        keep_extremes(&values, MAX_POINTS).into_iter().map(|i| &self.points[i])
    }
}

/// A range that holds the given one and all values; of length one where there is nothing.
pub(crate) fn reach(given: Option<(f64, f64)>, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let given = given.filter(|(lo, hi)| drawable(*lo) && drawable(*hi));
    let all: Vec<f64> = values.chain(given.into_iter().flat_map(|(lo, hi)| [lo, hi])).collect();
    match extent(&all) {
        Some((lo, hi)) if hi - lo > lo.abs() * 1e-9 => (lo, hi),
        Some((lo, _)) => (lo, lo + lo.abs().max(1.0)),
        None => (0.0, 1.0),
    }
}

/// The range with its ends moved outwards to round numbers. What lies just beyond one, such as a rate of
/// which a packet more was counted, needs no other.
pub(crate) fn rounded((lo, hi): (f64, f64)) -> (f64, f64) {
    const JUST: f64 = 0.02;
    let step = Axis::step(hi - lo, 8);
    ((lo / step + JUST).floor() * step, (hi / step - JUST).ceil() * step)
}

/// Draws a [`Plot`].
pub fn plot(plot: &Plot) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &plot.title);
    heading(&mut svg, &plot.title, &plot.subtitle);
    legend(&mut svg, plot);
    let scales = plot.scales();
    let x = Axis::linear(scales.x.0, scales.x.1, PLACE.along());
    let left = Axis::linear(scales.left.0, scales.left.1, PLACE.upwards());
    let right = Axis::linear(scales.right.0, scales.right.1, PLACE.upwards());
    draw_vertical(&mut svg, plot, &left, &right);
    svg.open_group("xaxis");
    draw_horizontal(&mut svg, plot, &x);
    svg.close_group();
    svg.rect((PLACE.left, PLACE.top), (PLACE.width, PLACE.height), "panel");
    svg.text((PLACE.left + PLACE.width / 2.0, PLACE.bottom() + 40.0), "soft middle", &plot.x.name);
    for (i, series) in plot.series.iter().enumerate() {
        svg.open_group("data");
        let y = if series.on_right { &right } else { &left };
        draw_series(&mut svg, plot, i, series, &x, y);
        svg.close_group();
    }
    svg.finish()
}

fn legend(svg: &mut Svg, plot: &Plot) {
    let entries: Vec<LegendEntry> = plot
        .series
        .iter()
        .enumerate()
        .map(|(i, s)| LegendEntry {
            text: &s.name,
            class: if s.look == Look::Printed { PRINTED.to_string() } else { colour(i) },
        })
        .collect();
    let right = PLACE.right() + 50.0;
    for (i, middle) in draw_legend(svg, right, 62.0, &entries).into_iter().enumerate() {
        match plot.series[i].look {
            look @ (Look::Points | Look::Marks) => {
                svg.shape(middle, shape(i, look), &format!("mark {}", colour(i)));
            }
            look @ Look::Printed => svg.shape(middle, shape(i, look), PRINTED),
            Look::Line | Look::Step => {}
        }
    }
}

fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

fn shape(index: usize, look: Look) -> Shape {
    match look {
        Look::Marks => Shape::Down,
        Look::Printed => Shape::Diamond,
        _ => SHAPES[index % SHAPES.len()],
    }
}

fn draw_vertical(svg: &mut Svg, plot: &Plot, left: &Axis, right: &Axis) {
    for tick in left.ticks(10) {
        svg.line((PLACE.left, tick.at), (PLACE.right(), tick.at), "grid");
        svg.text((PLACE.left - 6.0, tick.at + 3.8), "end", &tick.label);
    }
    svg.text((PLACE.left, PLACE.top - 7.0), "name", &plot.left.name);
    if let Some(axis) = &plot.right {
        for tick in right.ticks(10) {
            svg.text((PLACE.right() + 8.0, tick.at + 3.8), "", &tick.label);
        }
        svg.text((PLACE.right(), PLACE.top - 7.0), "name end", &axis.name);
    }
}

fn draw_horizontal(svg: &mut Svg, plot: &Plot, x: &Axis) {
    let bottom = PLACE.bottom();
    let mut tick = |at: f64, label: &str| {
        svg.line((at, PLACE.top), (at, bottom), "grid");
        svg.text((at, bottom + 17.0), "middle", label);
    };
    for (i, name) in plot.categories.iter().enumerate() {
        tick(x.place(i as f64), name);
    }
    if plot.categories.is_empty() {
        x.ticks(12).iter().for_each(|t| tick(t.at, &t.label));
    }
}

fn draw_series(svg: &mut Svg, plot: &Plot, index: usize, series: &PlotSeries, x: &Axis, y: &Axis) {
    let class = colour(index);
    let aside = plot.aside(index);
    let at = |p: &PlotPoint| match drawable(p.x) && drawable(p.y) {
        true => (x.place(p.x + aside), y.place(p.y)),
        false => (f64::NAN, f64::NAN),
    };
    let places: Vec<(f64, f64)> = series.drawn().map(at).collect();
    let line = match series.look {
        Look::Points => "series thin link",
        Look::Marks => return draw_marks(svg, &places, &class),
        Look::Printed => {
            for place in places.iter().filter(|place| drawable(place.0)) {
                svg.shape(*place, shape(index, series.look), PRINTED);
            }
            return;
        }
        Look::Line | Look::Step => "series",
    };
    svg.path(&places, series.look == Look::Step, &format!("{line} {class}"));
    if series.look != Look::Points {
        return;
    }
    for (point, place) in series.drawn().zip(&places).filter(|(_, place)| drawable(place.0)) {
        if let Some((lo, hi)) = point.range.filter(|(lo, hi)| drawable(*lo) && drawable(*hi)) {
            draw_whisker(svg, place.0, (y.place(lo), y.place(hi)), &format!("whisker {class}"));
        }
        svg.shape(*place, shape(index, series.look), &format!("mark {class}"));
    }
}

fn draw_marks(svg: &mut Svg, places: &[(f64, f64)], class: &str) {
    let mut last = f64::NEG_INFINITY;
    for (x, _) in places.iter().filter(|(x, _)| drawable(*x)) {
        // Marks at the same tenth of a pixel cover each other.
        if *x - last >= 0.1 {
            svg.shape((*x, PLACE.top + 7.0), Shape::Down, &format!("mark {class}"));
            last = *x;
        }
    }
}

fn draw_whisker(svg: &mut Svg, x: f64, (lo, hi): (f64, f64), class: &str) {
    svg.line((x, lo), (x, hi), class);
    for y in [lo, hi] {
        svg.line((x - 3.0, y), (x + 3.0, y), class);
    }
}
