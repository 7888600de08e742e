//! A small SVG writer: one element per line, coordinates with one decimal, all text escaped.

use std::fmt::{Display, Write};

use crate::escape::xml;
use crate::number::{compact, drawable};

/// Colours are classes, so that one style sheet serves light and dark. The hues are those of Okabe and Ito,
/// which people with any common colour blindness can tell apart, lightened on a dark ground.
pub(crate) const STYLE: &str = include_str!("chart/style.css");

const NAMESPACE: &str = r#" xmlns="http://www.w3.org/2000/svg""#;

/// A picture being drawn.
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Svg {
        let (w, h) = (compact(width, 0), compact(height, 0));
        let mut svg = Svg { out: String::new() };
        svg.put(format_args!(
            r#"<svg{NAMESPACE} class="weir" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}">"#
        ));
        svg.put(format_args!("<title>{}</title>", xml(title)));
        svg.put(format_args!("<style>\n{}</style>", STYLE));
        svg.put(format_args!(r#"<rect class="ground" width="{w}" height="{h}"/>"#));
        svg
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    fn put(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{element}");
    }

    /// Begins a group, which a program may look for by its class.
    pub(crate) fn open_group(&mut self, class: &str) {
        self.put(format_args!(r#"<g class="{class}">"#));
    }

    /// Ends the group that was begun last.
    pub(crate) fn close_group(&mut self) {
        self.put("</g>");
    }

    /// A comment that helps a person find the place in the file.
    pub(crate) fn note(&mut self, text: &str) {
        // Two hyphens would end the comment.
        self.put(format_args!("<!-- {} -->", xml(text).replace("--", "- -")));
    }

    pub(crate) fn text(&mut self, at: (f64, f64), class: &str, text: &str) {
        self.put(format_args!(r#"<text {} class="{class}">{}</text>"#, xy(at), xml(text)));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(|v| compact(v, 1));
        self.put(format_args!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{class}"/>"#));
    }

    pub(crate) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), class: &str) {
        let (w, h) = (compact(size.0.max(0.0), 1), compact(size.1.max(0.0), 1));
        self.put(format_args!(r#"<rect {} width="{w}" height="{h}" class="{class}"/>"#, xy(corner)));
    }

    /// A line through points; points that cannot be drawn (NaN) interrupt it.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], step: bool, class: &str) {
        self.dashed_path(points, step, class, "");
    }

    /// The same in dashes of these lengths; none for a solid line.
    pub(crate) fn dashed_path(&mut self, points: &[(f64, f64)], step: bool, class: &str, dashes: &str) {
        let d = path_data(points, step);
        let dashes = if dashes.is_empty() { "".into() } else { format!(r#" stroke-dasharray="{dashes}""#) };
        if !d.is_empty() {
            self.put(format_args!(r#"<path d="{d}" class="{class}"{dashes}/>"#));
        }
    }

    /// A closed shape, for markers.
    pub(crate) fn shape(&mut self, centre: (f64, f64), shape: Shape, class: &str) {
        let corners: &[(f64, f64)] = match shape {
            Shape::Circle => {
                let (x, y) = (compact(centre.0, 1), compact(centre.1, 1));
                return self.put(format_args!(r#"<circle cx="{x}" cy="{y}" r="3.8" class="{class}"/>"#));
            }
            Shape::Square => &[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)],
            Shape::Diamond => &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
            Shape::Up => &[(0.0, -4.8), (4.6, 3.6), (-4.6, 3.6)],
            Shape::Down => &[(0.0, 4.8), (4.6, -3.6), (-4.6, -3.6)],
        };
        let points: Vec<_> = corners.iter().map(|c| (centre.0 + c.0, centre.1 + c.1)).collect();
        self.put(format_args!(r#"<path d="{}Z" class="{class}"/>"#, path_data(&points, false)));
    }
}

/// A picture as a part of a page that has [`STYLE`] itself: without style sheet, namespace and comments,
/// which HTML does not need.
pub(crate) fn inline(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut in_style = false;
    for line in svg.lines() {
        in_style |= line == "<style>";
        if !in_style && !line.starts_with("<!--") {
            out.push_str(&line.replacen(NAMESPACE, "", 1));
            out.push('\n');
        }
        in_style &= line != "</style>";
    }
    out
}

/// Shapes that stay apart when colours do not.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
}

fn xy(at: (f64, f64)) -> String {
    format!(r#"x="{}" y="{}""#, compact(at.0, 1), compact(at.1, 1))
}

fn path_data(points: &[(f64, f64)], step: bool) -> String {
    let mut d = String::new();
    let mut last: Option<(String, String)> = None;
    for &(x, y) in points {
        if !drawable(x) || !drawable(y) {
            last = None;
            continue;
        }
        let here = (compact(x, 1), compact(y, 1));
        match &last {
            // A single point has no length; the round cap of a zero-length line makes it a dot.
            None => d.push_str(&format!("M{} {}h0", here.0, here.1)),
            Some(before) if *before == here => {}
            Some(before) if step && before.1 != here.1 => d.push_str(&format!("H{}V{}", here.0, here.1)),
            Some(before) if before.1 == here.1 => d.push_str(&format!("H{}", here.0)),
            Some(_) => d.push_str(&format!("L{} {}", here.0, here.1)),
        }
        last = Some(here);
    }
    d
}

/// The width of a text at 11 px, near enough to lay out legends.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().map(|c| if c.is_ascii() { 6.1 } else { 8.0 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_interrupt_a_line() {
        let points = [(0.0, 0.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)];
        assert_eq!(path_data(&points, false), "M0 0h0L1 1M3 1h0L4 2");
        assert_eq!(path_data(&points, true), "M0 0h0H1V1M3 1h0H4V2");
        assert_eq!(path_data(&[(f64::NAN, 0.0)], false), "");
    }
}
