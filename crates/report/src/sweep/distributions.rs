//! Tables of completions and distributions.

use crate::columns::{Cells, Table};
use crate::{FileSet, WriteError};
use weir_measure::study::{Distributed, Study};

/// Adds `distributions.csv` and `histograms.csv`, and `completions.csv` where something was completed.
pub fn add_study(study: &Study, files: &mut FileSet) -> Result<(), WriteError> {
    if !study.each.is_empty() {
        files.add("completions.csv", completions(study).to_csv())?;
    }
    let all: Vec<(usize, u64, &Distributed)> = study.distributions.iter().map(|d| (1, 1, d)).collect();
    files.add("histograms.csv", histograms(&study.distributions).to_csv())?;
    files.add("distributions.csv", quantiles(&[], &all).to_csv())
}

/// Each completion.
fn completions(study: &Study) -> Table {
    let each = &study.each;
    let mut table = Table::default();
    table.push("kind", Cells::Text(each.iter().map(|c| c.kind.name().into()).collect()));
    table.push("flow", Cells::Count(each.iter().map(|c| Some(c.flow.into())).collect()));
    table.push("group", Cells::Count(each.iter().map(|c| Some(c.group.into())).collect()));
    table.push("start_s", Cells::Number(each.iter().map(|c| Some(c.start_s)).collect()));
    table.push("bytes", Cells::Count(each.iter().map(|c| Some(c.bytes)).collect()));
    table.push("took_s", Cells::Number(each.iter().map(|c| Some(c.took_s)).collect()));
    table.push("slowdown", Cells::Number(each.iter().map(|c| c.slowdown()).collect()));
    table
}

/// Quantiles of runs (point from 1, seed, distribution): `share` of the values do not exceed `value_ms`.
/// `axes` are columns with a value for each point.
pub fn quantiles(axes: &[(String, Vec<String>)], runs: &[(usize, u64, &Distributed)]) -> Table {
    let rows: Vec<(usize, u64, &Distributed, f64, f64)> = runs
        .iter()
        .flat_map(|(point, seed, d)| d.values.quantiles.iter().map(move |(s, v)| (*point, *seed, *d, *s, *v)))
        .collect();
    let mut table = Table::default();
    if !axes.is_empty() {
        table.push("point", Cells::Count(rows.iter().map(|row| Some(row.0 as u64)).collect()));
        for (name, values) in axes {
            table.push(name, Cells::read(rows.iter().map(|row| values[row.0 - 1].clone()).collect()));
        }
        table.push("seed", Cells::Count(rows.iter().map(|row| Some(row.1)).collect()));
    }
    push_whose(&mut table, rows.iter().map(|row| row.2));
    table.push("share", Cells::Number(rows.iter().map(|row| Some(row.3)).collect()));
    table.push("value_ms", Cells::Number(rows.iter().map(|row| Some(row.4)).collect()));
    table
}

fn histograms(all: &[Distributed]) -> Table {
    let rows: Vec<(&Distributed, f64, f64, u64)> = all
        .iter()
        .flat_map(|d| d.values.histogram.iter().map(move |(from, to, n)| (d, *from, *to, *n)))
        .collect();
    let mut table = Table::default();
    push_whose(&mut table, rows.iter().map(|row| row.0));
    table.push("from_ms", Cells::Number(rows.iter().map(|row| Some(row.1)).collect()));
    table.push("to_ms", Cells::Number(rows.iter().map(|row| Some(row.2)).collect()));
    table.push("count", Cells::Count(rows.iter().map(|row| Some(row.3)).collect()));
    table
}

/// Of what a row is: quantity, link, and group where it is of one.
fn push_whose<'a>(table: &mut Table, rows: impl Iterator<Item = &'a Distributed> + Clone) {
    table.push("quantity", Cells::Text(rows.clone().map(|d| d.quantity.clone()).collect()));
    table.push("link", Cells::Text(rows.clone().map(|d| d.link.clone()).collect()));
    table.push("group", Cells::Count(rows.map(|d| d.group.map(u64::from)).collect()));
}
