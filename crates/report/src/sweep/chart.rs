//! The points of a sweep as a figure: utilization and delay over one axis, a series for each combination of
//! the others.

use super::rows::{Labels, PointStatistics};
use crate::chart::{Figure, FigurePoint, FigureSeries, figure};

/// More series could not be told apart, and more categories would not fit.
const SERIES_MAX: usize = 35;
const CATEGORIES_MAX: usize = 40;

/// The figure as SVG; none where there are more points than one can show, or nothing to compare.
pub fn chart(title: &str, labels: &Labels, points: &[PointStatistics]) -> Option<String> {
    let axis = horizontal(labels)?;
    let axes: Vec<Short> = (0..labels.names.len()).map(|axis| Short::of(labels, axis)).collect();
    let shown = |p: &PointStatistics, axis: usize| axes[axis].text(&labels.points[p.point - 1][axis]);
    let value = |p: &PointStatistics| shown(p, axis);
    let others = |p: &PointStatistics| {
        (0..axes.len()).filter(|i| *i != axis).map(|i| shown(p, i)).collect::<Vec<_>>().join(", ")
    };
    let categories = distinct(points.iter().map(value));
    let names = distinct(points.iter().map(others));
    if names.len() > SERIES_MAX || categories.len() > CATEGORIES_MAX {
        return None;
    }
    let series = |name: &String| {
        let points_of = |quantity: &str| {
            let at = |category: &String| {
                let mine = |p: &&PointStatistics| others(p) == *name && value(p) == *category;
                points.iter().find(mine).map_or(HOLE, |p| point(p, quantity))
            };
            categories.iter().map(at).collect()
        };
        FigureSeries {
            name: name.clone(),
            utilization: points_of("utilization"),
            delay_p95_ms: points_of("delay_p95_ms"),
        }
    };
    Some(figure(&Figure {
        title: title.to_string(),
        subtitle: format!(
            "Mean over the seeds, with the smallest and the largest value{}",
            axes.iter().map(Short::note).collect::<String>()
        ),
        x_name: labels.names[axis].clone(),
        series: names.iter().map(series).collect(),
        categories: categories.clone(),
        ..Figure::default()
    }))
}

/// Longest value of an axis that stands in a figure as it is.
const LABEL_MAX: usize = 20;

/// The values of an axis in short form for a figure.
struct Short {
    /// Name of the axis.
    name: String,
    /// Values as they are, with the short form of each.
    values: Vec<(String, String)>,
    /// Whether the short forms are letters that have to be explained.
    are_letters: bool,
}

impl Short {
    /// Of tables the values in which they differ, and letters where that is too long or says nothing.
    fn of(labels: &Labels, axis: usize) -> Short {
        let values = distinct(labels.points.iter().map(|p| p[axis].clone()));
        let parts: Vec<Vec<&str>> = values.iter().map(|value| entries(value)).collect();
        let is_common = |part: &str| values.len() > 1 && parts.iter().all(|other| other.contains(&part));
        let plain = |part: &&str| {
            part.split_once(" = ").map_or(*part, |(_, value)| value).trim_matches('"').to_string()
        };
        let own = |parts: &Vec<&str>| {
            parts.iter().filter(|part| !is_common(part)).map(plain).collect::<Vec<_>>().join(" ")
        };
        let short: Vec<String> = parts.iter().map(own).collect();
        let is_clear = |(i, text): (usize, &String)| {
            (1..=LABEL_MAX).contains(&text.chars().count()) && !short[..i].contains(text)
        };
        let are_letters = !short.iter().enumerate().all(is_clear);
        let short = if are_letters { (0..values.len()).map(letter).collect() } else { short };
        Short {
            name: labels.names[axis].clone(),
            values: values.into_iter().zip(short).collect(),
            are_letters,
        }
    }

    fn text(&self, value: &str) -> String {
        self.values.iter().find(|(long, _)| long == value).map_or(value, |(_, short)| short).to_string()
    }

    /// What the letters mean.
    fn note(&self) -> String {
        if !self.are_letters {
            return String::new();
        }
        let all = self.values.iter().map(|(long, short)| format!("{short} = {long}"));
        format!(". {}: {}", self.name, all.collect::<Vec<_>>().join("; "))
    }
}

/// A, B, ... Z, A1, B1 ...
fn letter(number: usize) -> String {
    let letter = char::from(b'A' + (number % 26) as u8);
    if number < 26 { letter.to_string() } else { format!("{letter}{}", number / 26) }
}

/// The entries `key = value` of a table on one line; any other value as it is.
fn entries(value: &str) -> Vec<&str> {
    let Some(inner) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return vec![value];
    };
    let (mut entries, mut from, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0, false, false);
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                entries.push(inner[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    entries.push(inner[from..].trim());
    entries
}

const HOLE: FigurePoint = FigurePoint { value: f64::NAN, range: None };

/// The axis that is drawn horizontally: the last one of numbers. Algorithms, schemes and other words are
/// compared and stand in the legend.
fn horizontal(labels: &Labels) -> Option<usize> {
    let is_number = |value: &String| value.starts_with(|c: char| c.is_ascii_digit());
    let is_compared = |axis: &usize| labels.points.iter().all(|values| !is_number(&values[*axis]));
    let mut axes = (0..labels.names.len()).rev();
    axes.find(|axis| !is_compared(axis)).or(labels.names.len().checked_sub(1))
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    texts.for_each(|text| {
        if !all.contains(&text) {
            all.push(text);
        }
    });
    all
}

/// A quantity of the first link.
fn point(p: &PointStatistics, quantity: &str) -> FigurePoint {
    let mine = |name: &str| name == quantity || name.split_once('.').is_some_and(|(_, n)| n == quantity);
    let found = p.measured.iter().find(|q| mine(&q.name)).and_then(|q| q.statistics);
    found.map_or(HOLE, |s| FigurePoint { value: s.mean, range: (s.n > 1).then_some((s.min, s.max)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(values: &[&str]) -> (Vec<String>, String) {
        let points = values.iter().map(|value| vec![value.to_string()]).collect();
        let short = Short::of(&Labels { names: vec!["aqm".into()], points }, 0);
        (values.iter().map(|value| short.text(value)).collect(), short.note())
    }

    #[test]
    fn tables_are_told_by_what_they_differ_in_and_long_ones_by_letters() {
        assert_eq!(short(&["2", "9"]).0, ["2", "9"]);
        let tables = [r#"{ name = "gsp", ecn = true }"#, r#"{ name = "codel", target = "5ms", ecn = true }"#];
        assert_eq!(short(&tables), (vec!["gsp".into(), "codel 5ms".into()], String::new()));
        let none = [r#"{ name = "pie" }"#, r#"{ name = "pie", target = "5ms" }"#];
        let note = r#". aqm: A = { name = "pie" }; B = { name = "pie", target = "5ms" }"#;
        assert_eq!(short(&none), (vec!["A".into(), "B".into()], note.into()));
        let long = [r#"{ name = "a,}", aqm = { name = "gsp", x = [1, 2] } }"#, r#"{ name = "b" }"#];
        assert_eq!(short(&long).0, ["A", "B"]);
        assert_eq!(entries(long[0]), [r#"name = "a,}""#, r#"aqm = { name = "gsp", x = [1, 2] }"#]);
        assert_eq!([0, 25, 26, 27].map(letter), ["A", "Z", "A1", "B1"]);
    }
}
