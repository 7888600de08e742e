//! What each kind of figure shows.

use super::data::{self, Cells, run_folders};
use super::{Asked, Interval, Kind};
use crate::output::Failure;
use std::path::Path;
use weir_measure::result::LinkSample;
use weir_report::paper::{Chart, ChartAxis, ChartPoint, Look, Panel, Series};
use weir_report::statistics::Statistics;

/// The table that a sweep has for its figures.
const SWEPT: &str = "table.csv";

/// The figure that is asked for, and its kind.
pub fn chart(asked: &Asked) -> Result<(Chart, Kind), Failure> {
    let Some(first) = asked.results.first() else {
        return Err(Failure::Input(
            "no results: name a folder that `weir sweep`, `weir sim` or `weir lab` wrote".into(),
        ));
    };
    let is_sweep = first.join(SWEPT).is_file();
    let kind = asked.kind.unwrap_or(if is_sweep { Kind::Points } else { Kind::Time });
    Ok((chart_of(asked, first, kind)?, kind))
}

fn chart_of(asked: &Asked, first: &Path, kind: Kind) -> Result<Chart, Failure> {
    if kind == Kind::Time {
        return time(asked);
    }
    if asked.results.len() > 1 {
        return Err(Failure::Input("give one folder: only `--kind time` shows several runs".into()));
    }
    if matches!(kind, Kind::Cdf | Kind::Histogram) {
        return distribution(asked, first, kind);
    }
    if !first.join(SWEPT).is_file() {
        return Err(Failure::Input(format!(
            "{} has no {SWEPT}, as `weir sweep` writes it: `--kind time`, `cdf` and `histogram` show single runs",
            first.display()
        )));
    }
    let mut table = Cells::read(first.join(SWEPT))?;
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
        let name = |column: usize| match table.header[column].as_str() {
            GROUP => value.clone(),
            axis => format!("{} {value}", label(axis).0),
        };
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

/// Distributions, as the share of what is not longer (`cdf`), or by length.
fn distribution(asked: &Asked, folder: &Path, kind: Kind) -> Result<Chart, Failure> {
    let name = if kind == Kind::Cdf { "distributions.csv" } else { "histograms.csv" };
    let file = folder.join(name);
    if !file.is_file() {
        return Err(Failure::Input(format!(
            "{} has no {name}: a sweep writes it where its scenario has a table [measure]",
            folder.display()
        )));
    }
    let mut table = Cells::read(file)?;
    table.keep(&asked.only)?;
    let column = |name: &str| table.measured(name);
    let (quantity, link, group) = (column("quantity")?, column("link")?, column("group")?);
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
    for row in &mut table.rows {
        row[group] = if row[group].is_empty() { ALL.into() } else { format!("flows.{}", row[group]) };
    }
    table.named_axis = Some(GROUP);
    let roles = if !table.axes().is_empty() || asked.series.is_some() || asked.panels.is_some() {
        roles(asked, &table, false)?
    } else {
        Roles { x: None, series: Some(group), panels: None }
    };
    let shows_groups = [roles.series, roles.panels].contains(&Some(group));
    if !shows_groups || asked.group.is_some() {
        choose_group(asked, &mut table, group)?;
    }
    let panels = match kind {
        Kind::Cdf => {
            let (share, value) = (table.measured("share")?, table.measured("value_ms")?);
            panels(&table, &roles, Look::Line, |rows| mean_quantiles(rows, share, value))
        }
        _ => {
            let bin = [table.measured("from_ms")?, table.measured("to_ms")?, table.measured("count")?];
            panels(&table, &roles, Look::Steps, |rows| pooled(rows, bin))
        }
    };
    let x_name = match wanted {
        "delay" => "Queueing delay (ms)",
        "page" => "Page load time (ms)",
        "voice" | "game" => "Packet delay (ms)",
        "realtime" => "Frame delay (ms)",
        _ => "Completion time (ms)",
    };
    let share = if wanted == "delay" { "Share of packets" } else { "Share" };
    let y = match kind {
        Kind::Cdf => ChartAxis { name: share.into(), range: Some((0.0, 1.0)), ..ChartAxis::default() },
        _ => ChartAxis { name: format!("{share} (%)"), is_log: asked.log_y, ..ChartAxis::default() },
    };
    // Bins are as wide as each other on a logarithmic axis alone.
    let is_log = asked.log_x || kind == Kind::Histogram;
    Ok(Chart {
        x: ChartAxis { name: x_name.into(), is_log, ..ChartAxis::default() },
        y,
        names: values(&table, roles.series),
        panels,
    })
}

/// The column of groups in tables of distributions, and what stands there for all packets of a link.
const GROUP: &str = "group";
const ALL: &str = "all";

/// Keeps the rows of the group that is asked for, or of all packets.
fn choose_group(asked: &Asked, table: &mut Cells, group: usize) -> Result<(), Failure> {
    let groups = table.values(group);
    let only = if groups.len() == 1 { groups[0].clone() } else { ALL.into() };
    let wanted = asked.group.map_or(only, |n| format!("flows.{n}"));
    if !groups.contains(&wanted) {
        let all: Vec<&str> = groups.iter().filter_map(|group| group.strip_prefix("flows.")).collect();
        let told = format!(
            "--group: choose one of {}; a scenario with [measure] measures groups that pass the link",
            all.join(", ")
        );
        return Err(Failure::Input(told));
    }
    table.rows.retain(|row| row[group] == wanted);
    Ok(())
}

/// The share of all values in each bin, in per cent, of all runs together; columns are the ends of a bin and
/// how many values it has. What lies between bins is empty.
fn pooled(rows: &[&Vec<String>], [from, to, count]: [usize; 3]) -> Vec<ChartPoint> {
    let number = |row: &Vec<String>, column: usize| row[column].parse::<f64>().ok();
    let read = |row: &&Vec<String>| Some((number(row, from)?, number(row, to)?, number(row, count)?));
    let mut bins: Vec<(f64, f64, f64)> = rows.iter().filter_map(read).collect();
    bins.sort_by(|a, b| a.0.total_cmp(&b.0));
    bins.dedup_by(|next, bin| {
        let same = next.0 == bin.0;
        bin.2 += if same { next.2 } else { 0.0 };
        same
    });
    let all: f64 = bins.iter().map(|bin| bin.2).sum();
    let point = |x: f64, y: f64| ChartPoint { x, y, ..ChartPoint::default() };
    let mut points: Vec<ChartPoint> = Vec::new();
    for (from, to, count) in bins {
        // The first bin begins at zero, which a logarithmic axis does not have.
        let from = if from > 0.0 { from } else { to / 2.0 };
        if points.last().is_some_and(|last| from - last.x < 1e-9 * from) {
            points.pop();
        } else {
            points.push(point(from, 0.0));
        }
        points.extend([point(from, 100.0 * count / all), point(to, 0.0)]);
    }
    points
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

/// What a table has of a figure whose places are numbers: of distributions their quantiles, of samples over
/// time mean, least and largest. None of other figures.
pub fn tabled(chart: &Chart, kind: Kind) -> Option<Chart> {
    let mean = |points: &[ChartPoint]| {
        let values: Vec<f64> = points.iter().map(|p| p.y).filter(|y| y.is_finite()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let end = |points: &[ChartPoint], of: fn(f64, f64) -> f64| {
        points.iter().map(|p| p.y).filter(|y| y.is_finite()).reduce(of)
    };
    let quantile = |points: &[ChartPoint], share: f64| points.iter().find(|p| p.y >= share).map(|p| p.x);
    let (name, categories): (&str, Vec<String>) = match kind {
        Kind::Cdf => {
            (&chart.x.name, QUANTILES.iter().map(|share| format!("{:.0} %", share * 100.0)).collect())
        }
        Kind::Time => (&chart.y.name, ["Mean", "Least", "Largest"].map(String::from).to_vec()),
        Kind::Points | Kind::Plane | Kind::Histogram => return None,
    };
    let values = |points: &[ChartPoint]| match kind {
        Kind::Cdf => QUANTILES.iter().map(|share| quantile(points, *share)).collect::<Vec<_>>(),
        _ => vec![mean(points), end(points, f64::min), end(points, f64::max)],
    };
    let of_series = |series: &Series| {
        let values = values(&series.points).into_iter().enumerate();
        let point = |(place, value): (usize, Option<f64>)| {
            Some(ChartPoint { x: place as f64, y: value?, ..ChartPoint::default() })
        };
        Series { points: values.filter_map(point).collect(), ..*series }
    };
    let panel = |panel: &Panel| Panel {
        name: panel.name.clone(),
        series: panel.series.iter().map(of_series).collect(),
    };
    Some(Chart {
        x: ChartAxis { categories, ..ChartAxis::default() },
        y: ChartAxis { name: name.to_string(), ..ChartAxis::default() },
        names: chart.names.clone(),
        panels: chart.panels.iter().map(panel).collect(),
    })
}

/// Shares whose quantiles tables have.
const QUANTILES: [f64; 7] = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

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
    fn bins_of_several_runs_are_added_up_and_gaps_are_empty() {
        let row = |from: &str, to: &str, count: &str| [from, to, count].map(String::from).to_vec();
        let rows = [row("1", "2", "10"), row("2", "4", "20"), row("0", "0.5", "5"), row("1", "2", "15")];
        let points = pooled(&rows.iter().collect::<Vec<_>>(), [0, 1, 2]);
        let told: Vec<(f64, f64)> = points.iter().map(|p| (p.x, p.y)).collect();
        // 5 from zero, which is drawn from a half on; nothing up to 1; 25 in the runs together; 20.
        let expected =
            [(0.25, 0.0), (0.25, 10.0), (0.5, 0.0), (1.0, 0.0), (1.0, 50.0), (2.0, 40.0), (4.0, 0.0)];
        assert_eq!(told, expected);
        assert!(pooled(&[], [0, 1, 2]).is_empty());
    }

    #[test]
    fn tables_have_quantiles_of_distributions_and_ends_of_samples() {
        let chart = |points: &[(f64, f64)]| {
            let points = points.iter().map(|(x, y)| ChartPoint { x: *x, y: *y, ..ChartPoint::default() });
            let series = vec![Series { name: 0, look: Look::Line, points: points.collect() }];
            Chart { panels: vec![Panel { name: String::new(), series }], ..Chart::default() }
        };
        let told = |chart: &Chart, kind: Kind| -> Vec<f64> {
            tabled(chart, kind).unwrap().panels[0].series[0].points.iter().map(|p| p.y).collect()
        };
        let shares: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n) * 10.0, f64::from(n) / 20.0)).collect();
        // The largest share of these is that of all.
        assert_eq!(told(&chart(&shares), Kind::Cdf), [10.0, 50.0, 100.0, 150.0, 180.0, 190.0, 200.0]);
        let samples = [(0.0, 3.0), (1.0, f64::NAN), (2.0, 9.0)];
        assert_eq!(told(&chart(&samples), Kind::Time), [6.0, 3.0, 9.0]);
        assert!(told(&chart(&[]), Kind::Time).is_empty());
        assert!(tabled(&chart(&[]), Kind::Histogram).is_none());
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
