//! The parts that charts are put together from: frames with axes, lines, limits and legends.

use crate::axis::Axis;
use crate::downsample::keep_extremes;
use crate::number::{drawable, extent};
use crate::panels::{Kind, Limit, Panel, Series};
use crate::svg::{Svg, text_width};

/// A rectangle of the picture.
#[derive(Clone, Copy)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The ends of a vertical axis: values grow upwards.
    pub(super) fn upwards(&self) -> (f64, f64) {
        (self.bottom(), self.top)
    }

    /// The ends of a horizontal axis.
    pub(super) fn along(&self) -> (f64, f64) {
        (self.left, self.right())
    }

    fn y_ticks(&self) -> usize {
        (self.height / 24.0).max(2.0) as usize
    }

    fn x_ticks(&self) -> usize {
        (self.width / 56.0).max(2.0) as usize
    }
}

/// Which axes of a frame carry labels; inner frames of a grid share those of their neighbours.
#[derive(Clone, Copy)]
pub(super) struct Labels {
    pub(super) x: bool,
    pub(super) y: bool,
}

/// Title and subtitle at the head of a chart.
pub(super) fn heading(svg: &mut Svg, title: &str, subtitle: &str) {
    svg.text((16.0, 26.0), "title", title);
    svg.text((16.0, 44.0), "soft", subtitle);
}

/// Distance of two lines of text.
pub(super) const LINE: f64 = 14.0;

/// A text in lines of at most this width, broken between words.
pub(super) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if text_width(line) + text_width(" ") + text_width(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

/// A vertical axis for values up to `highest`, with room for a round number at the top.
pub(super) fn value_axis(place: Rect, highest: f64) -> Axis {
    Axis::rounded(0.0, highest, place.upwards(), place.y_ticks())
}

/// A vertical axis for throughput, whose top is the rate of the link and not a round number above it.
pub(super) fn rate_axis(place: Rect, lowest: f64, highest: f64) -> Axis {
    Axis::linear(lowest, highest + 0.04 * (highest - lowest), place.upwards())
}

/// A logarithmic vertical axis around the positive ones of `values`.
pub(super) fn log_axis<'a>(place: Rect, values: impl Iterator<Item = &'a f64>) -> Axis {
    // Queues that run empty have delays near zero, and all their decades would leave the rest no room.
    const DECADES: i32 = 4;
    let (lo, hi) = extent(values.filter(|v| **v > 0.0)).unwrap_or((1.0, 10.0));
    Axis::log(lo.max(hi * 10f64.powi(-DECADES)), hi, place.upwards())
}

/// Grid lines and labels of a vertical axis.
pub(super) fn draw_y_axis(svg: &mut Svg, place: Rect, y: &Axis, labelled: bool) {
    for tick in y.ticks(place.y_ticks()) {
        svg.line((place.left, tick.at), (place.right(), tick.at), "grid");
        if labelled {
            svg.text((place.left - 6.0, tick.at + 3.8), "end", &tick.label);
        }
    }
}

/// Warm-up, grid, axes and border of a panel over time.
pub(super) fn draw_frame(
    svg: &mut Svg,
    place: Rect,
    x: &Axis,
    y: &Axis,
    warmup: Option<f64>,
    labels: Labels,
) {
    if let Some(warmup) = warmup {
        let end = x.place(warmup);
        svg.rect((place.left, place.top), (end - place.left, place.height), "warmup");
    }
    draw_y_axis(svg, place, y, labels.y);
    for tick in x.ticks(place.x_ticks()) {
        svg.line((tick.at, place.top), (tick.at, place.bottom()), "grid");
        if labels.x {
            svg.line((tick.at, place.bottom()), (tick.at, place.bottom() + 4.0), "tick");
            svg.text((tick.at, place.bottom() + 16.0), "middle", &tick.label);
        }
    }
    svg.rect((place.left, place.top), (place.width, place.height), "panel");
}

/// A series, thinned to what its width in pixels can show.
pub(super) fn draw_series(svg: &mut Svg, place: Rect, x: &Axis, y: &Axis, series: &Series) {
    let limit = (place.width * 4.0) as usize;
    let point = |i: usize| match series.v[i] {
        v if drawable(v) => (x.place(series.t[i]), y.place(v)),
        _ => (f64::NAN, f64::NAN),
    };
    let points: Vec<_> = keep_extremes(&series.v, limit).into_iter().map(point).collect();
    svg.path(&points, series.step, &format!("series {}", series.tone.class()));
}

/// Name and unit of a panel, to stand above it.
pub(super) fn panel_name(panel: &Panel) -> String {
    if panel.unit.is_empty() { panel.title.to_string() } else { format!("{} ({})", panel.title, panel.unit) }
}

/// The largest value that decides the scale of a panel.
pub(super) fn highest_of(panel: &Panel) -> f64 {
    if panel.kind == Kind::Throughput {
        return panel.highest();
    }
    highest_limited(panel.series.iter().flat_map(|s| &s.v), &panel.limits)
}

/// The largest of the values and of those limits that are near them: limits far above all data would
/// flatten the data.
pub(super) fn highest_limited<'a>(values: impl IntoIterator<Item = &'a f64>, limits: &[Limit]) -> f64 {
    let data = extent(values).map_or(0.0, |(_, hi)| hi.max(0.0));
    let near = limits.iter().map(|l| l.value).filter(|v| data <= 0.0 || *v <= 2.0 * data);
    near.fold(data, f64::max)
}

/// Dashed lines, named in the margin to the right. A limit off the scale is named with an arrow.
pub(super) fn draw_limits(svg: &mut Svg, place: Rect, y: &Axis, top: f64, limits: &[Limit]) {
    let mut names: Vec<(f64, String)> = Vec::new();
    for limit in limits {
        let at = y.place(limit.value);
        if limit.value > top * 1.000_001 {
            names.push((at, format!("{} ↑", limit.label)));
            continue;
        }
        svg.line((place.left, at), (place.right(), at), "limit");
        names.push((at, limit.label.clone()));
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = names.iter().map(|n| n.0).collect();
    for ((at, name), shown) in names.iter().zip(spread(&wanted, 12.0)) {
        let right = place.right();
        svg.line((right, *at), (right + 8.0, shown), "leader");
        svg.text((right + 11.0, shown + 3.8), "soft", name);
    }
}

/// Places in rising order, moved downwards just so far that they keep their distance.
fn spread(wanted: &[f64], distance: f64) -> Vec<f64> {
    let mut last = f64::NEG_INFINITY;
    let shift = |w: &f64| {
        last = w.max(last + distance);
        last
    };
    wanted.iter().map(shift).collect()
}

/// An entry of a legend: its text and the class of its stroke.
pub(super) struct LegendEntry<'a> {
    pub(super) text: &'a str,
    pub(super) class: String,
}

const SWATCH: f64 = 22.0;
const LEGEND_GAP: f64 = 14.0;

fn entry_width(entry: &LegendEntry) -> f64 {
    SWATCH + text_width(entry.text) + LEGEND_GAP
}

/// How many legend entries each row has room for; an entry that is wider than a row has one for itself.
pub(super) fn legend_rows(entries: &[LegendEntry], width: f64) -> Vec<usize> {
    let (mut rows, mut used) = (vec![0], 0.0);
    for entry in entries {
        let own = entry_width(entry);
        if used > 0.0 && used + own > width + LEGEND_GAP {
            rows.push(0);
            used = 0.0;
        }
        used += own;
        *rows.last_mut().expect("there is always one") += 1;
    }
    rows
}

/// Legend entries in a row that ends at `right`. Returns the middles of the swatches.
pub(super) fn draw_legend(
    svg: &mut Svg,
    right: f64,
    baseline: f64,
    entries: &[LegendEntry],
) -> Vec<(f64, f64)> {
    let mut x = right + LEGEND_GAP - entries.iter().map(entry_width).sum::<f64>();
    let mut middles = Vec::with_capacity(entries.len());
    let y = baseline - 4.0;
    for entry in entries {
        middles.push((x + (SWATCH - 6.0) / 2.0, y));
        svg.line((x, y), (x + SWATCH - 6.0, y), &format!("swatch {}", entry.class));
        svg.text((x + SWATCH, baseline), "soft", entry.text);
        x += entry_width(entry);
    }
    middles
}

/// The legend of a panel.
pub(super) fn entries_of(panel: &Panel) -> Vec<LegendEntry<'static>> {
    let entry = |s: &Series| LegendEntry { text: s.name, class: s.tone.class().to_string() };
    panel.series.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance() {
        assert_eq!(spread(&[10.0, 11.0, 40.0], 12.0), [10.0, 22.0, 40.0]);
        assert!(spread(&[], 12.0).is_empty());
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        let width = text_width("one two");
        assert_eq!(wrapped("one two three", width), ["one two", "three"]);
        assert_eq!(wrapped("one two", width), ["one two"]);
        assert_eq!(wrapped("unbreakable one two", width), ["unbreakable", "one two"]);
        assert_eq!(wrapped("", width), [""]);
    }
}
