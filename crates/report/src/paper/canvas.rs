//! What is drawn, before it becomes SVG or PDF: lines, areas and texts in points of 1/72 inch, downwards.

use super::font::{FAMILY, Font};
use crate::escape::xml;
use crate::number::{compact, drawable};

/// A colour: red, green, blue, from 0 to 1.
pub(super) type Rgb = [f32; 3];

/// How a line is drawn.
#[derive(Clone, Debug)]
pub(super) struct Stroke {
    pub colour: Rgb,
    pub width: f64,
    /// Lengths of dashes and gaps; none for a solid line.
    pub dashes: &'static [f64],
}

/// Which point of a text its place is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Something that is drawn.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Line {
        points: Vec<(f64, f64)>,
        stroke: Stroke,
    },
    /// A closed area, filled, with an opacity.
    Area {
        points: Vec<(f64, f64)>,
        fill: Rgb,
        opacity: f64,
    },
    Text {
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        is_upright: bool,
        text: String,
    },
}

/// A picture.
pub(super) struct Canvas {
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
    pub font: Font,
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, marks: Vec::new(), font: Font::new() }
    }

    /// A line; points that cannot be drawn interrupt it.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: &Stroke) {
        for part in points.split(|p| !(drawable(p.0) && drawable(p.1))).filter(|part| part.len() > 1) {
            self.marks.push(Mark::Line { points: part.to_vec(), stroke: stroke.clone() });
        }
    }

    pub fn area(&mut self, points: Vec<(f64, f64)>, fill: Rgb, opacity: f64) {
        if points.len() > 2 && points.iter().all(|p| drawable(p.0) && drawable(p.1)) {
            self.marks.push(Mark::Area { points, fill, opacity });
        }
    }

    pub fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, text: &str) {
        self.marks.push(Mark::Text { at, size, anchor, is_upright: true, text: text.into() });
    }

    /// A text that is read from below.
    pub fn turned(&mut self, at: (f64, f64), size: f64, text: &str) {
        self.marks.push(Mark::Text {
            at,
            size,
            anchor: Anchor::Middle,
            is_upright: false,
            text: text.into(),
        });
    }

    /// As SVG, in points.
    pub fn svg(&self) -> String {
        let (w, h) = (compact(self.width, 2), compact(self.height, 2));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}pt\" height=\"{h}pt\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"{FAMILY}\">\n"
        );
        for mark in &self.marks {
            out.push_str(&match mark {
                Mark::Line { points, stroke } => {
                    let dashes: Vec<String> = stroke.dashes.iter().map(|d| compact(*d, 2)).collect();
                    let dashes = match dashes.is_empty() {
                        true => String::new(),
                        false => format!(" stroke-dasharray=\"{}\"", dashes.join(" ")),
                    };
                    format!(
                        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}/>\n",
                        path(points),
                        hex(stroke.colour),
                        compact(stroke.width, 2)
                    )
                }
                Mark::Area { points, fill, opacity } => {
                    let see_through = match *opacity < 1.0 {
                        true => format!(" fill-opacity=\"{}\"", compact(*opacity, 2)),
                        false => String::new(),
                    };
                    format!("<path d=\"{}Z\" fill=\"{}\"{see_through}/>\n", path(points), hex(*fill))
                }
                Mark::Text { at, size, anchor, is_upright, text } => {
                    let (x, y) = (compact(at.0, 2), compact(at.1, 2));
                    let place = match is_upright {
                        true => format!("x=\"{x}\" y=\"{y}\""),
                        false => format!("transform=\"translate({x} {y}) rotate(-90)\""),
                    };
                    let anchor = match anchor {
                        Anchor::Start => "",
                        Anchor::Middle => " text-anchor=\"middle\"",
                        Anchor::End => " text-anchor=\"end\"",
                    };
                    format!(
                        "<text {place} font-size=\"{}\"{anchor}>{}</text>\n",
                        compact(*size, 2),
                        xml(text)
                    )
                }
            });
        }
        out + "</svg>\n"
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let place = |(x, y): &(f64, f64)| format!("{} {}", compact(*x, 2), compact(*y, 2));
    let places: Vec<String> = points.iter().map(place).collect();
    format!("M{}", places.join("L"))
}

fn hex([r, g, b]: Rgb) -> String {
    let byte = |v: f32| (v * 255.0).round() as u8;
    format!("#{:02x}{:02x}{:02x}", byte(r), byte(g), byte(b))
}
