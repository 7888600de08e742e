//! Tables of completions and distributions.

use crate::columns::{Cells, Table};
use crate::{FileSet, WriteError};
use weir_measure::study::{Distributed, Study};

/// Adds `distributions.csv` and `histograms.csv`, and `completions.csv` where something could be
/// completed.
pub fn add_study(study: &Study, files: &mut FileSet) -> Result<(), WriteError> {
    if !study.completions.is_empty() || !study.each.is_empty() {
        files.add("completions.csv", completions(study).to_csv())?;
    }
    let all: Vec<(usize, u64, &Distributed)> = study.distributions.iter().map(|d| (1, 1, d)).collect();
    files.add("histograms.csv", histograms(&[], &all).to_csv())?;
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
    let mut table = of_runs(axes, rows.iter().map(|row| (row.0, row.1, row.2)));
    table.push("share", Cells::Number(rows.iter().map(|row| Some(row.3)).collect()));
    table.push("value_ms", Cells::Number(rows.iter().map(|row| Some(row.4)).collect()));
    table
}

/// Histograms of runs, as [`quantiles`] has their quantiles: `count` values are in the bin from `from_ms` to
/// `to_ms`.
pub fn histograms(axes: &[(String, Vec<String>)], runs: &[(usize, u64, &Distributed)]) -> Table {
    let bins = |run: &(usize, u64, &Distributed)| run.2.values.histogram.len();
    let rows = runs.iter().flat_map(|run| std::iter::repeat_n(*run, bins(run)));
    let mut table = of_runs(axes, rows);
    let bins = || runs.iter().flat_map(|(.., d)| &d.values.histogram);
    table.push("from_ms", Cells::Number(bins().map(|(from, ..)| Some(*from)).collect()));
    table.push("to_ms", Cells::Number(bins().map(|(_, to, _)| Some(*to)).collect()));
    table.push("count", Cells::Count(bins().map(|(.., n)| Some(*n)).collect()));
    table
}

/// A table whose rows are of runs: the point with its axes and the seed, where there are axes, and whose a
/// row is: quantity, link, and group where it is of one.
fn of_runs<'a>(
    axes: &[(String, Vec<String>)],
    rows: impl Iterator<Item = (usize, u64, &'a Distributed)> + Clone,
) -> Table {
    let mut table = Table::default();
    if !axes.is_empty() {
        table.push("point", Cells::Count(rows.clone().map(|row| Some(row.0 as u64)).collect()));
        for (name, values) in axes {
            table.push(name, Cells::read(rows.clone().map(|row| values[row.0 - 1].clone()).collect()));
        }
        table.push("seed", Cells::Count(rows.clone().map(|row| Some(row.1)).collect()));
    }
    table.push("quantity", Cells::Text(rows.clone().map(|row| row.2.quantity.clone()).collect()));
    table.push("link", Cells::Text(rows.clone().map(|row| row.2.link.clone()).collect()));
    table.push("group", Cells::Count(rows.map(|row| row.2.group.map(u64::from)).collect()));
    table
}
