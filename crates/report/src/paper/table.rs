//! The numbers of a figure: as CSV, and as a LaTeX table.

use super::figure::Chart;
use crate::csv;
use crate::number::drawable;

/// Every point of a figure as CSV: panel, series, place, value, and the ends of its interval.
pub fn numbers(chart: &Chart) -> String {
    let mut out = csv::line(&["panel", "series", "x", "y", "low", "high"]);
    let number = |v: f64| if drawable(v) { v.to_string() } else { String::new() };
    for panel in &chart.panels {
        for series in &panel.series {
            for point in &series.points {
                let x = chart.x.categories.get(point.x as usize).cloned().unwrap_or_else(|| number(point.x));
                let (low, high) =
                    point.interval.map_or((String::new(), String::new()), |(a, b)| (number(a), number(b)));
                let name = chart.names.get(series.name).cloned().unwrap_or_default();
                out.push_str(&csv::line(&[panel.name.clone(), name, x, number(point.y), low, high]));
            }
        }
    }
    out
}

/// The same as a LaTeX table, which needs no package: a row for each series of each panel, a column for each
/// place. None where places are numbers, of which there are too many.
pub fn latex(chart: &Chart) -> Option<String> {
    let columns = &chart.x.categories;
    if columns.is_empty() {
        return None;
    }
    let has_panels = chart.panels.iter().any(|p| !p.name.is_empty());
    let mut out = format!("% {}\n", one_line(&chart.y.name));
    let front = if has_panels { "ll" } else { "l" };
    out.push_str(&format!("\\begin{{tabular}}{{{front}{}}}\n\\hline\n", "r".repeat(columns.len())));
    let mut header = vec![String::new(); front.len()];
    header.extend(columns.iter().map(|c| escape(c)));
    out.push_str(&format!("{} \\\\\n\\hline\n", header.join(" & ")));
    for panel in &chart.panels {
        for (i, series) in panel.series.iter().enumerate() {
            let mut row = Vec::new();
            if has_panels {
                row.push(if i == 0 { escape(&panel.name) } else { String::new() });
            }
            row.push(escape(chart.names.get(series.name).map_or("", String::as_str)));
            for place in 0..columns.len() {
                let point = series.points.iter().find(|p| p.x == place as f64 && drawable(p.y));
                row.push(point.map_or("--".into(), |p| cell(p.y, p.interval)));
            }
            out.push_str(&format!("{} \\\\\n", row.join(" & ")));
        }
        if has_panels {
            out.push_str("\\hline\n");
        }
    }
    if !has_panels {
        out.push_str("\\hline\n");
    }
    out.push_str("\\end{tabular}\n");
    Some(out)
}

/// A value with three significant digits, with its interval where it has one.
fn cell(value: f64, interval: Option<(f64, f64)>) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v => (2 - v.log10().floor() as i32).clamp(0, 9) as usize,
    };
    match interval.filter(|(lo, hi)| drawable(*lo) && drawable(*hi) && lo < hi) {
        // An interval as wide on both sides is shorter as one number.
        Some((lo, hi)) if ((hi - value) - (value - lo)).abs() <= 1e-6 * (hi - lo) => {
            format!("${value:.decimals$} \\pm {:.decimals$}$", (hi - lo) / 2.0)
        }
        Some((lo, hi)) => format!("${value:.decimals$}\\;[{lo:.decimals$}, {hi:.decimals$}]$"),
        None => format!("${value:.decimals$}$"),
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A text with LaTeX's own characters as themselves.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{ChartAxis, ChartPoint, Panel, Series};

    #[test]
    fn tables_have_the_numbers_of_the_figure() {
        let point = |x: f64, y: f64, interval| ChartPoint { x, y, interval, ellipse: Vec::new() };
        let points = vec![
            point(0.0, 12.345, Some((11.345, 13.345))),
            point(1.0, f64::NAN, None),
            point(2.0, 250.0, Some((200.0, 400.0))),
        ];
        let chart = Chart {
            x: ChartAxis {
                name: "n".into(),
                categories: ["2", "9", "50 %"].map(String::from).into(),
                ..ChartAxis::default()
            },
            y: ChartAxis { name: "delay (ms)".into(), ..ChartAxis::default() },
            names: vec!["a_b, c".into()],
            panels: vec![Panel {
                name: String::new(),
                series: vec![Series { name: 0, points, ..Series::default() }],
            }],
        };
        assert_eq!(
            numbers(&chart),
            "panel,series,x,y,low,high\n,\"a_b, c\",2,12.345,11.345,13.345\n,\"a_b, c\",9,,,\n,\"a_b, c\",50 %,250,200,400\n"
        );
        let table = latex(&chart).unwrap();
        assert!(table.contains("a\\_b, c & $12.3 \\pm 1.0$ & -- & $250\\;[200, 400]$ \\\\"), "{table}");
        assert!(table.contains(" & 2 & 9 & 50 \\% \\\\") && table.contains("{lrrr}"), "{table}");
        assert_eq!(latex(&Chart::default()), None);
    }
}
