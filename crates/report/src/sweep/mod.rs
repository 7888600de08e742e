//! Many runs of one scenario: what tells them apart, and the tables they make.
//!
//! A point of a sweep with a seed is a pure task, which gives a [`RunRow`]. Whoever makes the runs, in
//! whichever order and wherever, hands their rows to [`tables`] in the order of points and seeds and gets the
//! same bytes.

mod chart;
mod distributions;
mod fingerprint;
mod rows;

pub use chart::chart;
pub use distributions::add_study;
pub use fingerprint::Fingerprint;
pub use rows::{Labels, PointStatistics, Quantity, RunRow, run_table, show, statistics, summary_table};

/// The files of a sweep with these runs, by name: `table.csv` and `table.parquet` with a row for each run,
/// `summary.csv` with one for each point, `distributions.csv` and `histograms.csv` where runs have quantiles,
/// and `chart.svg` where a figure can show them.
///
/// # Errors
///
/// If the table cannot be written as Parquet.
pub fn tables(title: &str, labels: &Labels, rows: &[RunRow]) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let points = statistics(labels, rows);
    let table = run_table(labels, rows);
    let parquet = table.to_parquet().map_err(|e| format!("cannot make table.parquet: {e}"))?;
    let chart = chart(title, labels, &points).map(|svg| ("chart.svg", svg.into_bytes()));
    let tables = [
        ("summary.csv", summary_table(labels, &points).to_csv().into_bytes()),
        ("table.parquet", parquet),
        ("table.csv", table.to_csv().into_bytes()),
    ];
    let distributed: Vec<_> =
        rows.iter().flat_map(|row| row.distributions.iter().map(|d| (row.point, row.seed, d))).collect();
    let mut distributions = Vec::new();
    if !distributed.is_empty() {
        let mut axes = labels.columns();
        if axes.is_empty() {
            axes.push(("scenario".into(), vec![title.to_string()]));
        }
        let (quantiles, histograms) =
            (distributions::quantiles(&axes, &distributed), distributions::histograms(&axes, &distributed));
        distributions.push(("distributions.csv", quantiles.to_csv().into_bytes()));
        distributions.push(("histograms.csv", histograms.to_csv().into_bytes()));
    }
    Ok(chart.into_iter().chain(distributions).chain(tables).collect())
}
