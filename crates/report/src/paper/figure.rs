//! The layout of a figure: panels beside each other with common axes, and one legend above.

use super::canvas::{Anchor, Canvas, Rgb, Stroke};
use crate::axis::{Axis, Tick};
use crate::chart::plot::{reach, rounded};
use crate::downsample::keep_extremes;
use crate::number::drawable;

/// A figure: panels with the same axes and the same series.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The horizontal axis.
    pub x: ChartAxis,
    /// The vertical axis.
    pub y: ChartAxis,
    /// Names of the series, in the order of the legend.
    pub names: Vec<String>,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
}

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct ChartAxis {
    /// Name and unit, such as `95 % delay (ms)`.
    pub name: String,
    /// Whether it is logarithmic.
    pub is_log: bool,
    /// Names of the places 0, 1, 2 and so on. Empty if its values are numbers.
    pub categories: Vec<String>,
    /// What it shows at least.
    pub range: Option<(f64, f64)>,
}

/// A panel.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What it shows, over it; empty for a single one.
    pub name: String,
    /// Its series.
    pub series: Vec<Series>,
}

/// One series of a panel.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Number of its name.
    pub name: usize,
    /// How it is drawn.
    pub look: Look,
    /// Its points.
    pub points: Vec<ChartPoint>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    /// Marks with whiskers, joined by a thin line.
    #[default]
    Points,
    /// Marks alone, with whiskers and ellipses.
    Scatter,
    /// A line.
    Line,
    /// A line whose value holds until the next point.
    Steps,
}

impl Look {
    /// Whether it is a line without marks.
    fn is_line(self) -> bool {
        matches!(self, Look::Line | Look::Steps)
    }
}

/// A point.
#[derive(Clone, Debug, Default)]
pub struct ChartPoint {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Place on the vertical axis.
    pub y: f64,
    /// An interval around `y`, such as its confidence interval.
    pub interval: Option<(f64, f64)>,
    /// An ellipse around it, as a closed line in the units of the axes; empty for none.
    pub ellipse: Vec<(f64, f64)>,
}

/// Size and type of a figure.
#[derive(Clone, Debug)]
pub struct Style {
    /// Width in millimetres.
    pub width_mm: f64,
    /// Height in millimetres; by the width if not given.
    pub height_mm: Option<f64>,
    /// Size of the type in points.
    pub font_pt: f64,
    /// A title; papers have captions instead.
    pub title: Option<String>,
}

/// A figure in both forms.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// As SVG.
    pub svg: String,
    /// As PDF with one page.
    pub pdf: Vec<u8>,
}

/// Points per millimetre.
const MM: f64 = 72.0 / 25.4;
/// The hues of Okabe and Ito (Color Universal Design, 2008) but yellow, which paper swallows.
const COLOURS: [Rgb; 7] = [
    [0.0, 0.447, 0.698],
    [0.835, 0.369, 0.0],
    [0.0, 0.62, 0.451],
    [0.8, 0.475, 0.655],
    [0.902, 0.624, 0.0],
    [0.337, 0.706, 0.914],
    [0.0, 0.0, 0.0],
];
/// Dashes tell lines apart that are printed in grey, in points.
const DASHES: [&[f64]; 5] = [&[], &[4.0, 1.6], &[1.2, 1.4], &[5.0, 1.4, 1.2, 1.4], &[2.6, 1.2]];
const GREY: Rgb = [0.85, 0.85, 0.85];
const BLACK: Rgb = [0.0, 0.0, 0.0];
/// Lines have no more points than a printer shows.
const POINTS_MAX: usize = 3000;
/// A panel narrower than this many sizes of the type has no room for its ticks.
const NARROWEST: f64 = 11.0;

/// Draws a figure.
pub fn draw(chart: &Chart, style: &Style) -> Drawn {
    let canvas = Layout::new(chart, style).draw();
    Drawn { svg: canvas.svg(), pdf: canvas.pdf() }
}

struct Layout<'a> {
    chart: &'a Chart,
    style: &'a Style,
    size: f64,
    canvas: Canvas,
    columns: usize,
    x: (f64, f64),
    y: (f64, f64),
}

/// Where a panel lies: left, upper, right, lower edge.
type Place = (f64, f64, f64, f64);

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart, style: &'a Style) -> Layout<'a> {
        let points = || chart.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points);
        let positive = |is_log: bool| move |v: &f64| drawable(*v) && (!is_log || *v > 0.0);
        let xs = points().flat_map(|p| p.ellipse.iter().map(|e| e.0).chain([p.x]));
        let xs: Vec<f64> = xs.filter(positive(chart.x.is_log)).collect();
        let own = |p: &ChartPoint| {
            let interval = p.interval.map(|(lo, hi)| [lo, hi]).unwrap_or([p.y; 2]);
            p.ellipse.iter().map(|e| e.1).chain(interval).chain([p.y]).collect::<Vec<_>>()
        };
        let ys: Vec<f64> = points().flat_map(own).filter(positive(chart.y.is_log)).collect();
        let is_scattered = chart.panels.iter().flat_map(|p| &p.series).any(|s| s.look == Look::Scatter);
        let x = match (chart.x.categories.len(), reach(chart.x.range, xs.into_iter())) {
            // Marks are not to lie on the frame.
            (0, (lo, hi)) if is_scattered && !chart.x.is_log => {
                (lo - 0.04 * (hi - lo), hi + 0.04 * (hi - lo))
            }
            (0, ends) => ends,
            (n, _) => (-0.5, n as f64 - 0.5),
        };
        let mut y = reach(chart.y.range, ys.into_iter());
        if !chart.y.is_log {
            // What is never negative is shown from zero where that costs little.
            if chart.y.range.is_none() && y.0 > 0.0 && y.0 < 0.5 * y.1 {
                y.0 = 0.0;
            }
            y = rounded(y);
        }
        let width = style.width_mm * MM;
        let fitting = (width / (NARROWEST * style.font_pt)).floor() as usize;
        let count = chart.panels.len().max(1);
        let columns = count.min(fitting.clamp(1, 4));
        // Rows as even as they can be.
        let columns = count.div_ceil(count.div_ceil(columns));
        Layout { chart, style, size: style.font_pt, canvas: Canvas::new(width, 0.0), columns, x, y }
    }

    fn vertical(&self, ends: (f64, f64)) -> Axis {
        let (lo, hi) = self.y;
        if self.chart.y.is_log { Axis::log(lo, hi, ends) } else { Axis::linear(lo, hi, ends) }
    }

    fn horizontal(&self, ends: (f64, f64)) -> Axis {
        let (lo, hi) = self.x;
        if self.chart.x.is_log { Axis::log(lo, hi, ends) } else { Axis::linear(lo, hi, ends) }
    }

    fn draw(mut self) -> Canvas {
        let size = self.size;
        let rows = self.chart.panels.len().max(1).div_ceil(self.columns);
        let labels: Vec<String> = self.vertical((0.0, 1.0)).ticks(6).into_iter().map(|t| t.label).collect();
        let widest = labels.iter().map(|l| self.canvas.font.width(l, size)).fold(0.0, f64::max);
        let left = size * 1.35 + widest + size * 0.5;
        // Half of the last label of numbers stands beyond the axis.
        let right = if self.chart.x.categories.is_empty() { size * 1.3 } else { size * 0.6 };
        let gap = size * 0.9;
        let mut top = size * 0.4;
        if let Some(title) = &self.style.title {
            top += size * 1.2;
            self.canvas.text((self.canvas.width / 2.0, top), size * 1.1, Anchor::Middle, title);
            top += size * 0.5;
        }
        top = self.legend(top);
        let across =
            (self.canvas.width - left - right - gap * (self.columns - 1) as f64) / self.columns as f64;
        let has_names = self.chart.panels.iter().any(|p| !p.name.is_empty());
        let over = if has_names { size * 1.5 } else { size * 0.4 };
        let below = size * 3.0;
        let rest = top + below + (over + size * 0.5) * rows as f64;
        let high = match self.style.height_mm {
            Some(mm) => ((mm * MM - rest) / rows as f64).max(size * 3.0),
            // As wide as it is high but for a single one, which is flatter.
            None => across * if self.chart.panels.len() > 1 { 0.85 } else { 0.58 },
        };
        self.canvas.height = rest + high * rows as f64;
        for (number, panel) in self.chart.panels.iter().enumerate() {
            let (row, column) = (number / self.columns, number % self.columns);
            let x0 = left + (across + gap) * column as f64;
            let y0 = top + over + (high + over + size * 0.5) * row as f64;
            let is_lowest = number + self.columns >= self.chart.panels.len();
            self.panel(panel, (x0, y0, x0 + across, y0 + high), column == 0, is_lowest);
        }
        let middle = (left + self.canvas.width - right) / 2.0;
        let (bottom, upright) = (self.canvas.height - size * 0.6, (top + self.canvas.height - below) / 2.0);
        self.canvas.text((middle, bottom), size, Anchor::Middle, &self.chart.x.name);
        self.canvas.turned((size * 0.95, upright), size, &self.chart.y.name);
        self.canvas
    }

    /// Draws the legend in as many rows as it needs; the lower edge of it.
    fn legend(&mut self, top: f64) -> f64 {
        if self.chart.names.len() < 2 {
            return top;
        }
        let (size, sample) = (self.size, self.size * 2.2);
        let room = self.canvas.width - size;
        let mut rows: Vec<(f64, Vec<(f64, usize)>)> = vec![(0.0, Vec::new())];
        for (number, name) in self.chart.names.iter().enumerate() {
            let wide = sample + size * 0.4 + self.canvas.font.width(name, size) + size;
            if rows.last().is_some_and(|(used, row)| used + wide > room && !row.is_empty()) {
                rows.push((0.0, Vec::new()));
            }
            if let Some((used, row)) = rows.last_mut() {
                row.push((*used, number));
                *used += wide;
            }
        }
        let looks: Vec<Look> = (0..self.chart.names.len()).map(|number| self.look(number)).collect();
        let mut y = top;
        for (used, row) in rows {
            y += size * 1.25;
            let start = (self.canvas.width - used + size) / 2.0;
            for (x, number) in row {
                let (x, middle) = ((start + x).max(size * 0.3), y - size * 0.33);
                if looks[number] != Look::Scatter {
                    self.canvas.line(&[(x, middle), (x + sample, middle)], &stroke(number, looks[number]));
                }
                if !looks[number].is_line() {
                    self.mark((x + sample / 2.0, middle), number);
                }
                let at = (x + sample + size * 0.4, y);
                self.canvas.text(at, size, Anchor::Start, &self.chart.names[number]);
            }
        }
        y + size * 0.3
    }

    fn look(&self, name: usize) -> Look {
        let mut series = self.chart.panels.iter().flat_map(|p| &p.series);
        series.find(|s| s.name == name).map_or(Look::Points, |s| s.look)
    }

    fn panel(&mut self, panel: &Panel, place: Place, is_first: bool, is_lowest: bool) {
        let (x0, y0, x1, y1) = place;
        let (x, y) = (self.horizontal((x0, x1)), self.vertical((y1, y0)));
        let size = self.size;
        let thin = Stroke { colour: GREY, width: 0.4, dashes: &[] };
        let frame = Stroke { colour: BLACK, width: 0.5, dashes: &[] };
        for tick in y.ticks(6) {
            self.canvas.line(&[(x0, tick.at), (x1, tick.at)], &thin);
            if is_first {
                self.canvas.text((x0 - size * 0.35, tick.at + size * 0.35), size, Anchor::End, &tick.label);
            }
        }
        for tick in self.along(&x, x1 - x0) {
            if self.chart.x.categories.is_empty() {
                self.canvas.line(&[(tick.at, y0), (tick.at, y1)], &thin);
            }
            if is_lowest {
                self.canvas.text((tick.at, y1 + size * 1.15), size, Anchor::Middle, &tick.label);
            }
        }
        if !panel.name.is_empty() {
            self.canvas.text(((x0 + x1) / 2.0, y0 - size * 0.4), size, Anchor::Middle, &panel.name);
        }
        for series in &panel.series {
            self.series(series, &x, &y);
        }
        self.canvas.line(&[(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)], &frame);
    }

    /// Ticks of the horizontal axis that have room beside each other.
    fn along(&self, x: &Axis, wide: f64) -> Vec<Tick> {
        let width = |label: &str| self.canvas.font.width(label, self.size) + self.size * 0.8;
        if !self.chart.x.categories.is_empty() {
            let names = self.chart.x.categories.iter().enumerate();
            let ticks: Vec<Tick> =
                names.map(|(i, name)| Tick { at: x.place(i as f64), label: name.clone() }).collect();
            let widest = ticks.iter().map(|t| width(&t.label)).fold(0.0, f64::max);
            let step = ((widest * ticks.len() as f64 / wide).ceil() as usize).max(1);
            return ticks.into_iter().step_by(step).collect();
        }
        let fits = |ticks: &[Tick]| ticks.iter().map(|t| width(&t.label)).sum::<f64>() <= wide;
        let mut fewest = Vec::new();
        for count in [6, 5, 4, 3, 2] {
            fewest = x.ticks(count);
            if fits(&fewest) {
                return fewest;
            }
        }
        // A logarithmic axis has a tick for each power of ten at the least.
        while !fits(&fewest) && fewest.len() > 1 {
            fewest = fewest.into_iter().step_by(2).collect();
        }
        fewest
    }

    fn series(&mut self, series: &Series, x: &Axis, y: &Axis) {
        let is_out = |v: f64, is_log: bool| !drawable(v) || (is_log && v <= 0.0);
        let (log_x, log_y) = (self.chart.x.is_log, self.chart.y.is_log);
        let aside = self.aside(series.name);
        let at = |px: f64, py: f64| match is_out(px, log_x) || is_out(py, log_y) {
            true => (f64::NAN, f64::NAN),
            false => (x.place(px + aside), y.place(py)),
        };
        let values: Vec<f64> = series.points.iter().map(|p| p.y).collect();
        let kept: Vec<&ChartPoint> = match series.look {
            Look::Line => keep_extremes(&values, POINTS_MAX).into_iter().map(|i| &series.points[i]).collect(),
            _ => series.points.iter().collect(),
        };
        let stroke = stroke(series.name, series.look);
        for point in &kept {
            let outline: Vec<(f64, f64)> = point.ellipse.iter().map(|(a, b)| at(*a, *b)).collect();
            self.canvas.area(outline.clone(), stroke.colour, 0.25);
            self.canvas.line(&outline, &Stroke { width: 0.5, dashes: &[], ..stroke.clone() });
        }
        let mut places: Vec<(f64, f64)> = kept.iter().map(|p| at(p.x, p.y)).collect();
        if series.look == Look::Steps {
            let corners = places.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
            places = corners.chain(places.last().copied()).collect();
        }
        if series.look != Look::Scatter {
            self.canvas.line(&places, &stroke);
        }
        if series.look.is_line() {
            return;
        }
        for (point, place) in kept.iter().zip(places).filter(|(_, place)| drawable(place.0)) {
            if let Some((lo, hi)) = point.interval.filter(|(lo, hi)| drawable(*lo) && drawable(*hi)) {
                let end = |v: f64| if is_out(v, log_y) { y.place(self.y.0) } else { y.place(v) };
                let (lo, hi, cap) = (end(lo), end(hi), self.size * 0.22);
                let whisker = Stroke { width: 0.7, dashes: &[], ..stroke.clone() };
                self.canvas.line(&[(place.0, lo), (place.0, hi)], &whisker);
                for v in [lo, hi] {
                    self.canvas.line(&[(place.0 - cap, v), (place.0 + cap, v)], &whisker);
                }
            }
            self.mark(place, series.name);
        }
    }

    /// How far points stand aside of their category, so that whiskers do not cover each other.
    fn aside(&self, number: usize) -> f64 {
        let count = self.chart.names.len() as f64;
        match self.chart.x.categories.is_empty() || count < 2.0 {
            true => 0.0,
            false => (number as f64 - (count - 1.0) / 2.0) * (0.5 / count).min(0.08),
        }
    }

    fn mark(&mut self, centre: (f64, f64), number: usize) {
        let r = self.size * 0.28;
        let corner = |angle: f64, r: f64| (centre.0 + r * angle.sin(), centre.1 - r * angle.cos());
        let turn = std::f64::consts::TAU;
        let polygon = |n: usize, r: f64, from: f64| {
            (0..n).map(|i| corner(from + turn * i as f64 / n as f64, r)).collect::<Vec<_>>()
        };
        let points = match number % 5 {
            0 => polygon(20, r, 0.0),
            1 => polygon(4, r * 1.25, turn / 8.0),
            2 => polygon(3, r * 1.35, 0.0),
            3 => polygon(4, r * 1.35, 0.0),
            _ => polygon(3, r * 1.35, turn / 2.0),
        };
        self.canvas.area(points, COLOURS[number % COLOURS.len()], 1.0);
    }
}

fn stroke(number: usize, look: Look) -> Stroke {
    let width = if look.is_line() { 1.0 } else { 0.6 };
    Stroke { colour: COLOURS[number % COLOURS.len()], width, dashes: DASHES[number % DASHES.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let point =
            |x: f64, y: f64| ChartPoint { x, y, interval: Some((y - 1.0, y + 1.0)), ellipse: Vec::new() };
        let series = |name: usize| Series {
            name,
            look: Look::Points,
            points: (0..3).map(|i| point(f64::from(i), f64::from(i) * 7.0 + name as f64)).collect(),
        };
        let panel = |name: &str| Panel { name: name.into(), series: vec![series(0), series(1)] };
        Chart {
            x: ChartAxis {
                name: "Flows".into(),
                categories: ["2", "9", "36"].map(String::from).into(),
                ..ChartAxis::default()
            },
            y: ChartAxis { name: "95 % delay (ms) <&>".into(), ..ChartAxis::default() },
            names: vec!["FQ-CoDel".into(), "GSP \u{b5}".into()],
            panels: vec![panel("20 ms"), panel("80 ms")],
        }
    }

    fn style(width_mm: f64) -> Style {
        Style { width_mm, height_mm: None, font_pt: 8.0, title: None }
    }

    #[test]
    fn a_figure_has_the_width_and_the_type_that_was_asked_for() {
        let drawn = draw(&chart(), &style(88.9));
        assert!(
            drawn.svg.starts_with("<svg ") && drawn.svg.contains("width=\"252pt\""),
            "{}",
            &drawn.svg[..200]
        );
        assert!(drawn.svg.contains("font-size=\"8\"") && !drawn.svg.contains("font-size=\"11\""));
        assert!(drawn.svg.contains("95 % delay (ms) &lt;&amp;&gt;") && drawn.svg.contains(">FQ-CoDel<"));
        assert!(drawn.svg.contains("#0072b2") && drawn.svg.contains("#d55e00"));
        let high = draw(&chart(), &Style { height_mm: Some(60.0), ..style(88.9) }).svg;
        assert!(high.contains("height=\"170.08pt\""), "{}", &high[..200]);
        let titled = draw(&chart(), &Style { title: Some("A title".into()), ..style(180.0) }).svg;
        assert!(titled.contains(">A title<") && !drawn.svg.contains("<title"));
    }

    #[test]
    fn a_pdf_has_its_font_and_the_same_bytes_each_time() {
        let pdf = draw(&chart(), &style(88.9)).pdf;
        let has = |text: &str| pdf.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(
            pdf.starts_with(b"%PDF-")
                && has("/FontFile2")
                && has("WEIRAA+LiberationSans")
                && has("/ToUnicode")
        );
        assert!(pdf.len() < 60_000, "only the glyphs that it uses: {} bytes", pdf.len());
        assert_eq!(pdf, draw(&chart(), &style(88.9)).pdf);
    }

    #[test]
    fn steps_hold_until_the_next_point() {
        let point = |x: f64, y: f64| ChartPoint { x, y, ..ChartPoint::default() };
        let drawn = |look: Look| {
            let points = vec![point(1.0, 10.0), point(2.0, 30.0), point(3.0, 0.0)];
            let series = vec![Series { name: 0, look, points }];
            let panels = vec![Panel { name: String::new(), series }];
            draw(&Chart { panels, names: vec!["a".into()], ..Chart::default() }, &style(88.9)).svg
        };
        let places = |look: Look| -> Vec<String> {
            let svg = drawn(look);
            let line = svg.lines().find(|line| line.contains("stroke=\"#0072b2\"")).expect("it is drawn");
            assert!(!svg.contains("fill=\"#0072b2\""), "it has no marks");
            line.split('"').nth(1).unwrap().split(['M', 'L']).skip(1).map(String::from).collect()
        };
        let (line, steps) = (places(Look::Line), places(Look::Steps));
        assert_eq!((line.len(), steps.len()), (3, 5), "{line:?} {steps:?}");
        let pair = |of: &str| of.split_once(' ').map(|(x, y)| (x.to_string(), y.to_string())).unwrap();
        let (corner, before, after) = (pair(&steps[1]), pair(&line[0]), pair(&line[1]));
        assert_eq!(corner, (after.0, before.1));
    }

    #[test]
    fn holes_and_empty_charts_are_drawn() {
        let mut holes = chart();
        holes.panels[0].series[0].points[1].y = f64::NAN;
        holes.panels[0].series[1].points[1].interval = Some((f64::NEG_INFINITY, 3.0));
        holes.y.is_log = true;
        for chart in [holes, Chart::default(), Chart { panels: vec![Panel::default(); 9], ..chart() }] {
            let drawn = draw(&chart, &style(60.0));
            assert!(!drawn.svg.contains("NaN") && !drawn.svg.contains("inf"), "{}", drawn.svg);
            assert!(drawn.pdf.starts_with(b"%PDF-"));
        }
    }
}
