//! What each kind of figure shows.

use super::data::{self, Cells, run_folders};
use super::{Asked, Interval, Kind};
use crate::output::Failure;
use std::path::Path;
use weir_measure::result::LinkSample;
use weir_report::paper::{Chart, ChartAxis, ChartPoint, Look, Panel, Series};
use weir_report::statistics::Statistics;

/// The figure that is asked for.
pub fn chart(asked: &Asked) -> Result<Chart, Failure> {
    let Some(first) = asked.results.first() else {
        return Err(Failure::Input(
            "no results: name a folder that `weir sweep`, `weir sim` or `weir lab` wrote".into(),
        ));
    };
    let is_sweep = first.join("table.csv").is_file();
    let kind = asked.kind.unwrap_or(if is_sweep { Kind::Points } else { Kind::Time });
    if kind == Kind::Time {
        return time(asked);
    }
    if asked.results.len() > 1 {
        return Err(Failure::Input("give one folder: only `--kind time` shows several runs".into()));
    }
    if kind == Kind::Cdf {
        return cdf(asked, first);
    }
    if !is_sweep {
        return Err(Failure::Input(format!(
            "{} has no table.csv, as `weir sweep` writes it: `--kind time` and `--kind cdf` show single runs",
            first.display()
        )));
    }
    let mut table = Cells::read(first.join("table.csv"))?;
    table.keep(&asked.only)?;
    match kind {
        Kind::Plane => plane(asked, &table),
        _ => points(asked, &table),
    }
}

/// Which axes are what: columns of the table.
struct Roles {
    x: Option<usize>,
    series: Option<usize>,
    panels: Option<usize>,
}

/// Chooses axes for what was not said, from those that have several values: the legend is of what is
/// compared, the horizontal axis the last of the others, and one more axis makes panels. What is left must
/// have been chosen.
fn roles(asked: &Asked, table: &Cells, has_x: bool) -> Result<Roles, Failure> {
    let given = |name: &Option<String>| name.as_deref().map(|name| table.axis(name)).transpose();
    let (mut x, mut series, mut panels) = (given(&asked.x)?, given(&asked.series)?, given(&asked.panels)?);
    let mut left: Vec<usize> = Vec::new();
    for name in table.axes() {
        let column = table.axis(&name)?;
        if table.values(column).len() > 1 && ![x, series, panels].contains(&Some(column)) {
            left.push(column);
        }
    }
    // Names of schemes are made to be compared, and so are algorithms.
    let is_compared = |column: &usize| {
        let is_text = table
            .values(*column)
            .iter()
            .all(|v| v.parse::<f64>().is_err() && weir_units::parse_duration(v).is_err());
        is_text && weir_units::parse_rate(&table.values(*column)[0]).is_err()
    };
    if series.is_none()
        && !left.is_empty()
        && (left.len() > 1 || x.is_some() || !has_x || is_compared(&left[0]))
    {
        let chosen = left.iter().position(is_compared).unwrap_or(0);
        series = Some(left.remove(chosen));
    }
    if has_x && x.is_none() {
        x = left.pop();
    }
    if panels.is_none() && left.len() == 1 {
        panels = left.pop();
    }
    if !left.is_empty() {
        let names: Vec<String> = left
            .iter()
            .map(|column| format!("{} ({})", table.header[*column], table.values(*column).join(", ")))
            .collect();
        return Err(Failure::Input(format!(
            "{} has more axes than a figure shows: choose a value with --where of {}",
            table.file.display(),
            names.join(", ")
        )));
    }
    Ok(Roles { x, series, panels })
}

/// Values of a role: those of its column, or a single one without a name.
fn values(table: &Cells, role: Option<usize>) -> Vec<String> {
    role.map_or(vec![String::new()], |column| table.values(column))
}

fn is_of(row: &[String], role: Option<usize>, value: &str) -> bool {
    role.is_none_or(|column| row[column] == value)
}

/// A panel for each value of its axis, with a series for each value of theirs, drawn of the rows of both.
fn panels(
    table: &Cells,
    roles: &Roles,
    look: Look,
    draw: impl Fn(&[&Vec<String>]) -> Vec<ChartPoint>,
) -> Vec<Panel> {
    let panel = |value: String| {
        let series = |(name, series): (usize, String)| {
            let is_mine =
                |row: &&Vec<String>| is_of(row, roles.panels, &value) && is_of(row, roles.series, &series);
            let mine: Vec<&Vec<String>> = table.rows.iter().filter(is_mine).collect();
            Series { name, look, points: draw(&mine) }
        };
        let series = values(table, roles.series).into_iter().enumerate().map(series).collect();
        let name = |column: usize| format!("{} {value}", label(&table.header[column]).0);
        Panel { name: roles.panels.map_or(String::new(), name), series }
    };
    values(table, roles.panels).into_iter().map(panel).collect()
}

/// A measured column over an axis.
fn points(asked: &Asked, table: &Cells) -> Result<Chart, Failure> {
    let name = asked.y.as_deref().unwrap_or("delay_p95_ms");
    let y = table.measured(name)?;
    let roles = roles(asked, table, true)?;
    let (y_name, factor) = label(&table.header[y]);
    let categories = values(table, roles.x);
    let point = |rows: &[&Vec<String>], (place, category): (usize, &String)| {
        let mine = rows.iter().filter(|row| is_of(row, roles.x, category));
        let found: Vec<f64> = mine.filter_map(|row| row[y].parse::<f64>().ok()).map(|v| v * factor).collect();
        let (y, interval) = summarized(&found, asked.interval)?;
        Some(ChartPoint { x: place as f64, y, interval, ellipse: Vec::new() })
    };
    let draw = |rows: &[&Vec<String>]| {
        categories.iter().enumerate().filter_map(|category| point(rows, category)).collect()
    };
    let panels = panels(table, &roles, Look::Points, draw);
    let x_name = roles.x.map_or(String::new(), |column| label(&table.header[column]).0);
    Ok(Chart {
        names: values(table, roles.series),
        panels,
        x: ChartAxis { name: x_name, categories, ..ChartAxis::default() },
        y: ChartAxis { name: y_name, is_log: asked.log_y, ..ChartAxis::default() },
    })
}

/// What is drawn of the values of several seeds, and its interval.
fn summarized(values: &[f64], interval: Interval) -> Option<(f64, Option<(f64, f64)>)> {
    let s = match interval {
        Interval::Bootstrap => Statistics::with_median(values)?,
        _ => Statistics::of(values)?,
    };
    Some(match interval {
        Interval::T => (s.mean, s.ci95.map(|half| (s.mean - half, s.mean + half))),
        Interval::Range => (s.mean, (s.n > 1).then_some((s.min, s.max))),
        Interval::None => (s.mean, None),
        Interval::Bootstrap => {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            (weir_measure::median(&sorted)?, s.median95)
        }
    })
}

/// Delay over utilization.
fn plane(asked: &Asked, table: &Cells) -> Result<Chart, Failure> {
    let (across, up) = ("utilization", asked.y.as_deref().unwrap_or("delay_p95_ms"));
    let (x, y) = (table.measured(across)?, table.measured(up)?);
    let ((x_name, x_factor), (y_name, y_factor)) = (label(&table.header[x]), label(&table.header[y]));
    let roles = roles(asked, table, true)?;
    let pair = |row: &&Vec<String>| {
        Some((row[x].parse::<f64>().ok()? * x_factor, row[y].parse::<f64>().ok()? * y_factor))
    };
    let categories = values(table, roles.x);
    let draw = |rows: &[&Vec<String>]| {
        let mine = |category: &String| {
            let pairs: Vec<(f64, f64)> =
                rows.iter().filter(|row| is_of(row, roles.x, category)).filter_map(&pair).collect();
            ellipse(&pairs)
        };
        categories.iter().filter_map(mine).collect()
    };
    let panels = panels(table, &roles, Look::Scatter, draw);
    Ok(Chart {
        x: ChartAxis { name: x_name, is_log: asked.log_x, ..ChartAxis::default() },
        y: ChartAxis { name: y_name, is_log: asked.log_y, ..ChartAxis::default() },
        names: values(table, roles.series),
        panels,
    })
}

/// The mean of pairs with the ellipse of one standard deviation: the image of the unit circle under the
/// Cholesky factor of their covariance.
fn ellipse(pairs: &[(f64, f64)]) -> Option<ChartPoint> {
    let n = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    let (mx, my) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let mut ellipse = Vec::new();
    if pairs.len() > 2 {
        let sum = |f: &dyn Fn(f64, f64) -> f64| {
            pairs.iter().map(|(x, y)| f(x - mx, y - my)).sum::<f64>() / (n - 1.0)
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        let a = xx.sqrt();
        let b = if a > 0.0 { xy / a } else { 0.0 };
        let c = (yy - b * b).max(0.0).sqrt();
        ellipse = (0..=60)
            .map(|i| std::f64::consts::TAU * f64::from(i) / 60.0)
            .map(|t| (mx + a * t.cos(), my + b * t.cos() + c * t.sin()))
            .collect();
    }
    Some(ChartPoint { x: mx, y: my, interval: None, ellipse })
}

/// Distributions.
fn cdf(asked: &Asked, folder: &Path) -> Result<Chart, Failure> {
    let file = folder.join("distributions.csv");
    if !file.is_file() {
        return Err(Failure::Input(format!(
            "{} has no distributions.csv: a sweep writes it where its scenario has a table [measure]",
            folder.display()
        )));
    }
    let mut table = Cells::read(file)?;
    table.keep(&asked.only)?;
    let column = |name: &str| table.measured(name);
    let (quantity, link, group) = (column("quantity")?, column("link")?, column("group")?);
    let (share, value) = (column("share")?, column("value_ms")?);
    let wanted = asked.quantity.name();
    table.rows.retain(|row| row[quantity] == wanted);
    if table.rows.is_empty() {
        let told = format!(
            "{} has no distribution of {wanted} times: nothing of that kind ended",
            table.file.display()
        );
        return Err(Failure::Input(told));
    }
    let links = table.values(link);
    let chosen = asked.link.clone().unwrap_or_else(|| links[0].clone());
    if !links.contains(&chosen) {
        return Err(Failure::Input(format!("--link {chosen}: there are {}", links.join(", "))));
    }
    table.rows.retain(|row| row[link] == chosen);
    let groups = table.values(group);
    let is_sweep = !table.axes().is_empty();
    let roles = if is_sweep {
        roles(asked, &table, false)?
    } else {
        Roles { x: None, series: Some(group), panels: None }
    };
    if is_sweep || asked.group.is_some() {
        let only = groups.first().filter(|_| groups.len() == 1).cloned().unwrap_or_default();
        let wanted = asked.group.map_or(only, |n| n.to_string());
        if !groups.contains(&wanted) {
            let all: Vec<&str> =
                groups.iter().map(String::as_str).filter(|group| !group.is_empty()).collect();
            let told = format!(
                "--group: choose one of {}; a scenario with [measure] measures groups that pass the link",
                all.join(", ")
            );
            return Err(Failure::Input(told));
        }
        table.rows.retain(|row| row[group] == wanted);
    }
    let panels = panels(&table, &roles, Look::Line, |rows| mean_quantiles(rows, share, value));
    let name = |text: &String| match (is_sweep, text.as_str()) {
        (true, _) => text.clone(),
        (false, "") => "all".into(),
        (false, group) => format!("flows.{group}"),
    };
    let x_name = match wanted {
        "delay" => "Queueing delay (ms)",
        "page" => "Page load time (ms)",
        "voice" | "game" => "Packet delay (ms)",
        "realtime" => "Frame delay (ms)",
        _ => "Completion time (ms)",
    };
    let share = if wanted == "delay" { "Share of packets" } else { "Share" };
    Ok(Chart {
        x: ChartAxis { name: x_name.into(), is_log: asked.log_x, ..ChartAxis::default() },
        y: ChartAxis { name: share.into(), range: Some((0.0, 1.0)), ..ChartAxis::default() },
        names: values(&table, roles.series).iter().map(name).collect(),
        panels,
    })
}

/// The mean over seeds of the value at each share.
fn mean_quantiles(rows: &[&Vec<String>], share: usize, value: usize) -> Vec<ChartPoint> {
    let mut sums: Vec<(f64, f64, u32)> = Vec::new();
    for row in rows {
        let (Ok(s), Ok(v)) = (row[share].parse::<f64>(), row[value].parse::<f64>()) else { continue };
        match sums.iter_mut().find(|(known, ..)| *known == s) {
            Some((_, sum, n)) => (*sum, *n) = (*sum + v, *n + 1),
            None => sums.push((s, v, 1)),
        }
    }
    sums.sort_by(|a, b| a.0.total_cmp(&b.0));
    sums.into_iter()
        .map(|(s, sum, n)| ChartPoint { x: sum / f64::from(n), y: s, ..ChartPoint::default() })
        .collect()
}

/// A column of the samples of a link.
type Column = (&'static str, fn(&LinkSample) -> f64);

const COLUMNS: [Column; 10] = [
    ("delay_mean_ms", |row| row.delay_mean_ms),
    ("delay_max_ms", |row| row.delay_max_ms),
    ("delivered_bps", |row| row.delivered_bps),
    ("arrived_bps", |row| row.arrived_bps),
    ("capacity_bps", |row| row.capacity_bps),
    ("backlog_bytes", |row| row.backlog_bytes as f64),
    ("setpoint_ms", |row| row.setpoint_ms),
    ("drops", |row| row.drops as f64),
    ("overflows", |row| row.overflows as f64),
    ("marks", |row| row.marks as f64),
];

/// Samples of runs over time.
fn time(asked: &Asked) -> Result<Chart, Failure> {
    let name = asked.y.as_deref().unwrap_or("delay_mean_ms");
    let Some((_, of)) = COLUMNS.iter().find(|(own, _)| *own == name) else {
        let all: Vec<&str> = COLUMNS.iter().map(|(own, _)| *own).collect();
        return Err(Failure::Input(format!("--y {name}: samples have {}", all.join(", "))));
    };
    let (y_name, factor) = label(name);
    let folders = run_folders(&asked.results)?;
    let (mut names, mut series) = (Vec::new(), Vec::new());
    for folder in &folders {
        let rows = samples(folder, asked.link.as_deref())?;
        let points =
            rows.iter().map(|row| ChartPoint { x: row.t_s, y: of(row) * factor, ..ChartPoint::default() });
        series.push(Series { name: names.len(), look: Look::Line, points: points.collect() });
        names.push(folder.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned()));
    }
    Ok(Chart {
        x: ChartAxis { name: "Time (s)".into(), is_log: asked.log_x, ..ChartAxis::default() },
        y: ChartAxis { name: y_name, is_log: asked.log_y, ..ChartAxis::default() },
        names,
        panels: vec![Panel { name: String::new(), series }],
    })
}

fn samples(folder: &Path, link: Option<&str>) -> Result<Vec<LinkSample>, Failure> {
    let path = folder.join("summary.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let summary: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    let links = summary["links"].as_array().into_iter().flatten();
    let names: Vec<&str> = links.filter_map(|link| link["name"].as_str()).collect();
    let chosen = match link {
        Some(link) if names.contains(&link) => link,
        Some(link) => {
            return Err(Failure::Input(format!(
                "--link {link}: {} has {}",
                folder.display(),
                names.join(", ")
            )));
        }
        None => names.first().copied().unwrap_or_default(),
    };
    Ok(data::samples(folder, &[chosen])?.remove(0))
}

/// What users of applications notice, for people, and what its values are multiplied by.
fn noticed(name: &str) -> Option<(String, f64)> {
    let (application, what) = name.split_once('_')?;
    let (unit, delay) = match application {
        "voice" | "game" => ("packets", "packet delay"),
        "realtime" => ("frames", "frame delay"),
        "video" | "page" => ("", "page load time"),
        _ => return None,
    };
    let percentile = |of: &str| {
        let p = what.strip_prefix(of)?.strip_suffix("_ms")?;
        p.parse::<u8>().ok().map(|p| format!("{p} % {delay} (ms)"))
    };
    let text = match (application, what) {
        ("voice", "mos_mean") => "MOS".to_string(),
        ("voice", "mos_min") => "Lowest MOS".to_string(),
        ("voice", "rating") => "Rating R".to_string(),
        ("voice", "mouth_to_ear_ms") => "Mouth-to-ear delay (ms)".to_string(),
        ("voice" | "game" | "realtime", "lost") => return Some((format!("Lost {unit} (%)"), 100.0)),
        ("voice" | "game" | "realtime", "late") => return Some((format!("Late {unit} (%)"), 100.0)),
        ("voice" | "game" | "realtime", "delay_mean_ms") => format!("Mean {delay} (ms)"),
        ("voice" | "game" | "realtime", "jitter_mean_ms") => "Mean jitter (ms)".to_string(),
        ("realtime", "freezes_per_minute") => "Freezes per minute".to_string(),
        ("realtime", "frozen") => return Some(("Time frozen (%)".into(), 100.0)),
        ("voice" | "game" | "realtime", _) => percentile("delay_p")?,
        ("video", "stalls") => "Stalls".to_string(),
        ("video", "stalled") => return Some(("Time stalled (%)".into(), 100.0)),
        ("video", "switches_per_minute") => "Switches per minute".to_string(),
        ("video", "startup_ms") => "Start-up (ms)".to_string(),
        ("page", "mean_ms") => format!("Mean {delay} (ms)"),
        ("page", _) => percentile("p")?,
        _ => return None,
    };
    Some((text, 1.0))
}

/// A column or an axis for people, and what its values are multiplied by.
fn label(column: &str) -> (String, f64) {
    let own = |name: &str| -> Option<(String, f64)> {
        let percentile = name.strip_prefix("delay_p").and_then(|rest| rest.strip_suffix("_ms"));
        let text = match name {
            "utilization" => return Some(("Utilization (%)".into(), 100.0)),
            "delay_mean_ms" => "Mean queueing delay (ms)".to_string(),
            "delay_max_ms" => "Largest queueing delay (ms)".to_string(),
            "setpoint_ms" => "Set point (ms)".to_string(),
            "backlog_bytes" => return Some(("Backlog (kB)".into(), 1e-3)),
            "fairness" => "Fairness (Jain)".to_string(),
            "path.rtt" => "RTT".to_string(),
            "flows.0.count" | "flows" => "Flows".to_string(),
            "link.rate" => "Rate".to_string(),
            _ => match percentile {
                Some(p) => format!("{p} % queueing delay (ms)"),
                None => return None,
            },
        };
        Some((text, 1.0))
    };
    let words = |name: &str| {
        let mut text = name.replace('_', " ");
        if let Some(first) = text.get(..1).map(str::to_uppercase) {
            text.replace_range(..1, &first);
        }
        text
    };
    let own = |name: &str| own(name).or_else(|| noticed(name));
    if let Some(found) = own(column) {
        return found;
    }
    // What is of one link, or of one group of flows, says so.
    if let Some((of, name)) = column.rsplit_once('.')
        && let Some((text, factor)) = own(name)
    {
        return (format!("{text}, {of}"), factor);
    }
    match (column.strip_suffix("_bps"), column.strip_suffix("_ms")) {
        (Some(name), _) => (format!("{} (Mbit/s)", words(name)), 1e-6),
        (_, Some(name)) => (format!("{} (ms)", words(name)), 1.0),
        _ => (words(column), 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_and_units_for_people() {
        for (column, name, factor) in [
            ("utilization", "Utilization (%)", 100.0),
            ("delay_p95_ms", "95 % queueing delay (ms)", 1.0),
            ("core.delay_p99_ms", "99 % queueing delay (ms), core", 1.0),
            ("goodput_min_bps", "Goodput min (Mbit/s)", 1e-6),
            ("transfer_p99_ms", "Transfer p99 (ms)", 1.0),
            ("drops", "Drops", 1.0),
            ("voice_mos_mean", "MOS", 1.0),
            ("flows.1.voice_late", "Late packets (%), flows.1", 100.0),
            ("game_delay_p99_ms", "99 % packet delay (ms)", 1.0),
            ("realtime_delay_p95_ms", "95 % frame delay (ms)", 1.0),
            ("realtime_rate_bps", "Realtime rate (Mbit/s)", 1e-6),
            ("video_stalled", "Time stalled (%)", 100.0),
            ("video_rate_bps", "Video rate (Mbit/s)", 1e-6),
            ("flows.2.page_p95_ms", "95 % page load time (ms), flows.2", 1.0),
            ("page_slowdown_p95", "Page slowdown p95", 1.0),
        ] {
            assert_eq!(label(column), (name.to_string(), factor));
        }
    }

    #[test]
    fn an_ellipse_has_the_deviations_of_its_values() {
        let pairs = [(1.0, 2.0), (2.0, 4.0), (3.0, 3.0), (2.0, 3.0)];
        let point = ellipse(&pairs).unwrap();
        assert_eq!((point.x, point.y), (2.0, 3.0));
        let widest = point.ellipse.iter().map(|p| p.0).fold(0.0, f64::max);
        let highest = point.ellipse.iter().map(|p| p.1).fold(0.0, f64::max);
        let deviation = (2.0f64 / 3.0).sqrt();
        assert!((widest - 2.0 - deviation).abs() < 1e-9 && (highest - 3.0 - deviation).abs() < 5e-3);
        assert!(ellipse(&pairs[..2]).unwrap().ellipse.is_empty() && ellipse(&[]).is_none());
    }
}
