//! Figures on a page: a picture that needs no program, its numbers as a table, and the data of its hover.

use serde::Serialize;
use std::fmt::Write;

use super::{close_table, push};
use crate::chart::plot::{AREA, Plot, PlotPoint, PlotSeries};
use crate::chart::{Look, plot};
use crate::escape::xml;
use crate::number::{drawable, rounded, significant};
use crate::svg::inline;

/// A number of a paper beside one measured here.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The figure of the paper.
    pub figure: String,
    /// What is compared.
    pub quantity: String,
    /// What the paper says; read off its figure where it gives no number.
    pub paper: String,
    /// What was found here.
    pub ours: String,
    /// Under which conditions.
    pub condition: String,
}

/// A table of results: the first column is text, the others hold numbers.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Its heading.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

/// What the program of the page must know of a figure.
#[derive(Serialize)]
pub(super) struct FigureData<'a> {
    /// Left edge, upper edge, width and height of the plotting area in the picture.
    place: [f64; 4],
    x_name: &'a str,
    x: (f64, f64),
    left: (f64, f64),
    right: (f64, f64),
    categories: &'a [String],
    series: Vec<SeriesData<'a>>,
}

#[derive(Serialize)]
struct SeriesData<'a> {
    name: &'a str,
    look: String,
    right: bool,
    aside: f64,
    x: Vec<Option<f64>>,
    y: Vec<Option<f64>>,
    /// Ends of the whiskers, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lo: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hi: Vec<Option<f64>>,
}

pub(super) fn data(plot: &Plot) -> FigureData<'_> {
    let scales = plot.scales();
    FigureData {
        place: AREA,
        x_name: &plot.x.name,
        x: scales.x,
        left: scales.left,
        right: scales.right,
        categories: &plot.categories,
        series: plot.series.iter().enumerate().map(|(i, s)| series(s, plot.aside(i))).collect(),
    }
}

fn series(series: &PlotSeries, aside: f64) -> SeriesData<'_> {
    let has_ranges = series.points.iter().any(|p| p.range.is_some());
    let ends = |end: fn((f64, f64)) -> f64| match has_ranges {
        true => series.drawn().map(|p| p.range.map(end).and_then(rounded)).collect(),
        false => Vec::new(),
    };
    SeriesData {
        name: &series.name,
        look: format!("{:?}", series.look).to_lowercase(),
        right: series.on_right,
        aside,
        x: series.drawn().map(|p| drawable(p.x).then(|| (p.x * 1e6).round() / 1e6)).collect(),
        y: series.drawn().map(|p| rounded(p.y)).collect(),
        lo: ends(|r| r.0),
        hi: ends(|r| r.1),
    }
}

pub(super) fn push_figures(out: &mut String, figures: &[Plot]) {
    if figures.is_empty() {
        return;
    }
    push(out, "<h2>Figures</h2>");
    push(
        out,
        "<p class=\"sub\">With JavaScript: point at a chart for its values, drag to zoom, double click to reset. With \
         the keyboard: ← → move, + − zoom, Shift with ← → shifts, Esc resets.</p>",
    );
    for (i, figure) in figures.iter().enumerate() {
        push(out, format_args!("<section class=\"figure\" data-figure=\"{i}\" id=\"figure{i}\">"));
        out.push_str(&inline(&plot(figure)));
        push(out, "</section>");
        push_numbers(out, figure);
    }
}

/// The numbers of the points; lines over time are in the CSV files.
fn push_numbers(out: &mut String, figure: &Plot) {
    let shown: Vec<&PlotSeries> = figure.series.iter().filter(|s| s.look == Look::Points).collect();
    if shown.is_empty() {
        return;
    }
    out.push_str("<details><summary>Numbers</summary><div class=\"wide\"><table><thead><tr>");
    let _ = write!(out, "<th scope=\"col\">{}</th>", xml(&figure.x.name));
    for s in &shown {
        let axis = if s.on_right { figure.right.as_ref().map_or("", |a| &a.name) } else { &figure.left.name };
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{}, {}</th>", xml(&s.name), xml(axis));
    }
    out.push_str("</tr></thead><tbody>\n");
    for x in places(&shown) {
        let _ = write!(out, "<tr><td>{}</td>", xml(&place_name(figure, x)));
        for s in &shown {
            let point = s.points.iter().find(|p| p.x == x);
            let _ = write!(out, "<td class=\"n\">{}</td>", point.map_or(String::new(), number));
        }
        out.push_str("</tr>\n");
    }
    close_table(out);
    push(out, "</details>");
}

/// Every place at which one of the series has a point, in order.
fn places(series: &[&PlotSeries]) -> Vec<f64> {
    let mut all: Vec<f64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
    all.retain(|x| drawable(*x));
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn place_name(figure: &Plot, x: f64) -> String {
    let category = figure.categories.get(x as usize).filter(|_| x >= 0.0);
    category.cloned().unwrap_or_else(|| significant(x, 6))
}

fn number(point: &PlotPoint) -> String {
    let range = |(lo, hi)| format!(" ({} – {})", significant(lo, 4), significant(hi, 4));
    significant(point.y, 4) + &point.range.map_or(String::new(), range)
}

/// Tables as they are.
pub(super) fn push_tables(out: &mut String, tables: &[Rows]) {
    let class = |i: usize| if i == 0 { "" } else { " class=\"n\"" };
    for table in tables {
        push(out, format_args!("<h2>{}</h2>", xml(&table.title)));
        out.push_str("<div class=\"wide\"><table><thead><tr>");
        for (i, name) in table.header.iter().enumerate() {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(i), xml(name));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in &table.rows {
            let cells = row.iter().enumerate().map(|(i, c)| format!("<td{}>{}</td>", class(i), xml(c)));
            push(out, format_args!("<tr>{}</tr>", cells.collect::<String>()));
        }
        close_table(out);
    }
}

/// What a paper says and what was found here, row by row.
pub(super) fn push_beside(out: &mut String, rows: &[Beside]) {
    if rows.is_empty() {
        return;
    }
    push(out, "<h2>Beside the paper</h2>");
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    for name in ["Figure", "Quantity", "Paper", "Here", "Conditions here"] {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let cells = [&row.figure, &row.quantity, &row.paper, &row.ours, &row.condition];
        let cells: String = cells.iter().map(|c| format!("<td>{}</td>", xml(c))).collect();
        push(out, format_args!("<tr>{cells}</tr>"));
    }
    close_table(out);
}
