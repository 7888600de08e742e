//! Tables of runs, and of points with their statistics.

use crate::columns::{Cells, Table};
use crate::measured::{Measured, Value};
use crate::statistics::Statistics;
use crate::table::aligned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weir_config::{Point, Scenario};
use weir_measure::study::Distributed;

/// What one run measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRow {
    /// Number of the point, from 1.
    pub point: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Fingerprint of the run.
    pub trace_hash: String,
    /// What was measured.
    pub measured: Measured,
    /// Distributions, where the scenario asks for them by `[measure]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Distributed>,
}

/// What tells the points apart: columns, and their values for each point.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Labels {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Values of each point.
    pub points: Vec<Vec<String>>,
}

impl Labels {
    /// The axes of a sweep, and the settings of its points.
    pub fn of(scenario: &Scenario, points: &[Point]) -> Labels {
        let values = |p: &Point| p.settings.iter().map(|(_, value)| value.clone()).collect();
        Labels {
            names: scenario.sweep.axes.iter().map(|axis| axis.name.clone()).collect(),
            points: points.iter().map(values).collect(),
        }
    }

    /// A point in a few words.
    pub fn text(&self, point: usize) -> String {
        let pairs = self.names.iter().zip(&self.points[point]);
        let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { "the scenario".into() } else { pairs.join(", ") }
    }

    /// The columns of what tells the points apart.
    pub fn columns(&self) -> Vec<(String, Vec<String>)> {
        let column = |(i, name): (usize, &String)| {
            (name.clone(), self.points.iter().map(|values| values[i].clone()).collect())
        };
        self.names.iter().enumerate().map(column).collect()
    }

    /// The name of a measured column: an axis keeps the one that its user gave it, as tables with two
    /// columns of one name are refused by those who read them.
    fn beside(&self, measured: &str) -> String {
        let taken = self.names.iter().any(|name| name == measured);
        if taken { self.beside(&format!("{measured}_measured")) } else { measured.to_string() }
    }

    /// Adds a column for each name, with the values of these points (from 1).
    fn add_to(&self, table: &mut Table, points: &[usize]) {
        table.push("point", Cells::Count(points.iter().map(|p| Some(*p as u64)).collect()));
        for (i, name) in self.names.iter().enumerate() {
            let texts = points.iter().map(|p| self.points[p - 1][i].clone());
            table.push(name, Cells::read(texts.collect()));
        }
    }
}

/// Names of all measured columns, in the order in which they first appear.
fn names(rows: &[RunRow]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut last: Vec<&str> = Vec::new();
    for row in rows {
        let own: Vec<&str> = row.measured.iter().map(|(name, _)| name.as_str()).collect();
        // Nearly all rows are alike.
        if own != last {
            names.extend(own.iter().filter(|name| !known.contains(*name)));
            known.extend(&own);
            last = own;
        }
    }
    names
}

/// The value of a column, which mostly stands where it stands in the table.
fn value(row: &RunRow, name: &str, place: usize) -> Value {
    let there = row.measured.get(place).filter(|(n, _)| n == name);
    let found = there.or_else(|| row.measured.iter().find(|(n, _)| n == name));
    found.map_or(Value::Missing, |(_, value)| *value)
}

/// One row for each run, in the order of points and seeds.
pub fn run_table(labels: &Labels, rows: &[RunRow]) -> Table {
    let mut table = Table::default();
    labels.add_to(&mut table, &rows.iter().map(|r| r.point).collect::<Vec<_>>());
    table.push("seed", Cells::Count(rows.iter().map(|r| Some(r.seed)).collect()));
    table.push("trace_hash", Cells::Text(rows.iter().map(|r| r.trace_hash.clone()).collect()));
    for (place, name) in names(rows).into_iter().enumerate() {
        let values: Vec<Value> = rows.iter().map(|row| value(row, name, place)).collect();
        let counts = values.iter().map(|v| match v {
            Value::Count(n) => Some(Some(*n)),
            Value::Missing => Some(None),
            Value::Number(_) => None,
        });
        let cells = counts.collect::<Option<Vec<_>>>().map(Cells::Count);
        let cells = cells.unwrap_or_else(|| Cells::Number(values.iter().map(|v| v.get()).collect()));
        table.push(labels.beside(name), cells);
    }
    table
}

/// The statistics of a point over its seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PointStatistics {
    /// Number of the point, from 1.
    pub point: usize,
    /// What sets it apart.
    pub label: String,
    /// Number of runs.
    pub seeds: usize,
    /// For each column that was measured.
    pub measured: Vec<Quantity>,
}

/// A quantity with its statistics.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Quantity {
    /// Name of the column.
    pub name: String,
    /// None where no run has a value.
    #[serde(flatten)]
    pub statistics: Option<Statistics>,
}

/// Percentiles of runs are not normally distributed: their interval is that of the median, by the bootstrap.
fn is_percentile(column: &str) -> bool {
    ["_p5", "_p50", "_p95", "_p99"].iter().any(|p| column.ends_with(p) || column.contains(&format!("{p}_")))
}

/// Statistics of every point that has a run. Rows come in the order of points.
pub fn statistics(labels: &Labels, rows: &[RunRow]) -> Vec<PointStatistics> {
    let names = names(rows);
    let of_point = |rows: &[RunRow]| {
        let quantity = |(place, name): (usize, &&str)| {
            let values: Vec<f64> = rows.iter().filter_map(|row| value(row, name, place).get()).collect();
            let of = if is_percentile(name) { Statistics::with_median } else { Statistics::of };
            Quantity { name: name.to_string(), statistics: of(&values) }
        };
        let point = rows[0].point;
        PointStatistics {
            point,
            label: labels.text(point - 1),
            seeds: rows.len(),
            measured: names.iter().enumerate().map(quantity).collect(),
        }
    };
    rows.chunk_by(|a, b| a.point == b.point).map(of_point).collect()
}

/// One row for each point.
pub fn summary_table(labels: &Labels, points: &[PointStatistics]) -> Table {
    let mut table = Table::default();
    labels.add_to(&mut table, &points.iter().map(|p| p.point).collect::<Vec<_>>());
    table.push("seeds", Cells::Count(points.iter().map(|p| Some(p.seeds as u64)).collect()));
    let count = points.first().map_or(0, |p| p.measured.len());
    for i in 0..count {
        let mut push = |suffix: &str, of: fn(&Statistics) -> Option<f64>| {
            let cell = |p: &PointStatistics| p.measured[i].statistics.as_ref().and_then(of);
            let name = format!("{}_{suffix}", points[0].measured[i].name);
            table.push(labels.beside(&name), Cells::Number(points.iter().map(cell).collect()));
        };
        push("mean", |s| Some(s.mean));
        push("ci95", |s| s.ci95);
        push("min", |s| Some(s.min));
        push("max", |s| Some(s.max));
        if is_percentile(&points[0].measured[i].name) {
            push("median_low95", |s| s.median95.map(|(low, _)| low));
            push("median_high95", |s| s.median95.map(|(_, high)| high));
        }
    }
    table
}

/// A column of what people are shown: its header, the measured quantity, a factor, decimals.
type Shown = (&'static str, &'static str, f64, usize);

const SHOWN: [Shown; 6] = [
    ("util %", "utilization", 100.0, 2),
    ("mean ms", "delay_mean_ms", 1.0, 2),
    ("p95 ms", "delay_p95_ms", 1.0, 2),
    ("Mbit/s", "goodput_bps", 1e-6, 2),
    ("drops", "drops", 1.0, 0),
    ("marks", "marks", 1.0, 0),
];

/// The points for people, of the first link: what tells them apart, mean and half the confidence interval. At
/// most `most` points.
pub fn show(labels: &Labels, points: &[PointStatistics], most: usize) -> String {
    let cell = |point: &PointStatistics, (_, name, factor, decimals): Shown| {
        let mine = |q: &&Quantity| q.name == name || q.name.split_once('.').is_some_and(|(_, n)| n == name);
        let Some(s) = point.measured.iter().find(mine).and_then(|q| q.statistics) else {
            return "–".into();
        };
        let mean = format!("{:.decimals$}", s.mean * factor);
        s.ci95.map_or(mean.clone(), |ci| format!("{mean} ±{:.decimals$}", ci * factor))
    };
    let row = |point: &PointStatistics| {
        let mut row = match labels.names.is_empty() {
            true => vec![point.label.clone()],
            false => labels.points[point.point - 1].clone(),
        };
        row.push(point.seeds.to_string());
        row.extend(SHOWN.map(|shown| cell(point, shown)));
        row
    };
    let own: Vec<&str> = labels.names.iter().map(String::as_str).collect();
    let own = if own.is_empty() { vec!["point"] } else { own };
    let header: Vec<&str> = own.into_iter().chain(["seeds"]).chain(SHOWN.map(|s| s.0)).collect();
    let rows: Vec<Vec<String>> = points.iter().take(most).map(row).collect();
    let mut text = aligned(&header, &rows);
    if points.len() > most {
        text.push_str(&format!("and {} more points\n", points.len() - most));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(point: usize, seed: u64, x: f64, extra: Option<u64>) -> RunRow {
        let mut measured = vec![("x".to_string(), Value::Number(x)), ("n".to_string(), Value::Count(seed))];
        measured.extend(extra.map(|n| ("extra".to_string(), Value::Count(n))));
        RunRow { point, seed, trace_hash: format!("h{seed}"), measured, distributions: Vec::new() }
    }

    #[test]
    fn tables_are_united_over_points_that_measure_different_things() {
        let labels = Labels {
            names: vec!["aqm.name".into(), "flows.0.count".into()],
            points: vec![vec!["gsp".into(), "2".into()], vec!["codel".into(), "9".into()]],
        };
        let rows = [row(1, 1, 1.0, None), row(1, 2, 3.0, None), row(2, 1, 5.0, Some(4))];
        assert_eq!(
            run_table(&labels, &rows).to_csv(),
            "point,aqm.name,flows.0.count,seed,trace_hash,x,n,extra\n1,gsp,2,1,h1,1,1,\n1,gsp,2,2,h2,3,2,\n\
             2,codel,9,1,h1,5,1,4\n"
        );
        let points = statistics(&labels, &rows);
        assert_eq!(
            summary_table(&labels, &points).to_csv().lines().nth(1).unwrap(),
            "1,gsp,2,2,2,12.706205,1,3,1.5,6.3531025,1,2,,,,"
        );
        assert_eq!(points[1].label, "aqm.name=codel, flows.0.count=9");
        let shown = show(&labels, &points, 60);
        let words = |line: usize| shown.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(0)[..4], ["aqm.name", "flows.0.count", "seeds", "util"]);
        assert_eq!(words(3)[..3], ["codel", "9", "1"], "values stand under the names of their axes: {shown}");
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let names = ["x", "n_mean"].map(String::from).to_vec();
        let labels = Labels { names, points: vec![vec!["1".into(), "2".into()]] };
        let rows = [row(1, 1, 5.0, None)];
        assert_eq!(
            run_table(&labels, &rows).to_csv(),
            "point,x,n_mean,seed,trace_hash,x_measured,n\n1,1,2,1,h1,5,1\n"
        );
        let summary = summary_table(&labels, &statistics(&labels, &rows)).to_csv();
        assert!(summary.contains(",x_mean,") && summary.contains(",n_mean_measured,"), "{summary}");
    }

    #[test]
    fn no_rows_make_an_empty_table() {
        let labels = Labels::default();
        assert_eq!(run_table(&labels, &[]).to_csv(), "point,seed,trace_hash\n");
        assert_eq!(summary_table(&labels, &[]).to_csv(), "point,seeds\n");
    }
}
