//! `weir sweep`: every combination of a sweep and every seed, in the simulator, on all cores.

use crate::interrupt::{interrupted, is_interrupted};
use crate::output::{Done, Failure, Output, exit_status, warn};
use crate::progress::Progress;
use crate::results::{load, mark_incomplete};
use crate::simulate::{check, simulate};
use crate::sweep::store::{Store, StoredRun};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Mutex;
use weir_config::{Point, Scenario};
use weir_report::measured::{Measured, measured_with, unfit};
use weir_report::sweep::{Fingerprint, Labels, PointStatistics, RunRow, show, statistics, tables};
use weir_sim::batch::{cost, lock, processors, work_through};

/// Run every combination of a scenario's sweep with every seed, in the simulator, on all cores.
///
/// Each finished run is kept at once. Started again, a sweep goes on where it ended, whatever ended it; with
/// more values, schemes or seeds only what is new is computed, and results of another build of this program
/// are computed anew. Tables hold
/// the runs that are there, in the order of points and seeds: table.csv and table.parquet a row for each run,
/// summary.csv mean, 95 % confidence interval, smallest and largest value of each point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario, a TOML file with a table named sweep.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Directory for the results. Finished runs that are there are not made again.
    #[arg(long, value_name = "DIR", default_value = "out/sweep")]
    out: PathBuf,
    /// Runs of each point, with the seeds 1 to N, instead of `run.seeds`. A finished sweep can get more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Runs at a time; as many as there are processors if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Make only every n-th run, beginning with the i-th, to share the work between machines. Afterwards
    /// copy the folders `points` together and run the sweep once more without it: that makes the whole
    /// table.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Change a key of the file, such as `run.duration=5s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const EXAMPLES: &str = "Example: add to a scenario
  [sweep]
  \"aqm.name\" = [\"gsp\", \"codel\"]
  \"flows.0.count\" = [2, 9, 36]
and run its six points with five seeds each:
  weir sweep my.toml --seeds 5 --out out/my
Several keys at a time, under names:
  [sweep.schemes.queue]
  \"tail drop\" = { aqm = { name = \"tail_drop\" }, without = [\"policy\"] }
  \"FQ-CoDel\" = { aqm = { name = \"codel\" }, queue = { discipline = \"flow\" } }
On two machines with copies of one program, then together:
  weir sweep my.toml --seeds 5 --out a --shard 1/2
  weir sweep my.toml --seeds 5 --out b --shard 2/2
  cp b/points/* a/points/ && weir sweep my.toml --seeds 5 --out a";

/// A part of the runs: the `index`-th, from 1, of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: usize,
    count: usize,
}

fn shard(text: &str) -> Result<Shard, String> {
    let wrong = || format!("`{text}` is no part: write it like 1/4, from 1/4 to 4/4");
    let (index, count) = text.split_once('/').ok_or_else(wrong)?;
    let shard = Shard {
        index: index.trim().parse().map_err(|_| wrong())?,
        count: count.trim().parse().map_err(|_| wrong())?,
    };
    if shard.index == 0 || shard.index > shard.count { Err(wrong()) } else { Ok(shard) }
}

/// Points that are listed on the terminal.
const POINTS_SHOWN: usize = 60;

/// A sweep with what is known of its runs.
struct Sweep {
    scenario: Scenario,
    points: Vec<Point>,
    fingerprints: Vec<Fingerprint>,
    seeds: usize,
    /// The runs, in the order of points and seeds.
    rows: Vec<Option<RunRow>>,
}

/// What is told of a sweep.
#[derive(Serialize)]
struct SweepSummary {
    title: String,
    points: usize,
    seeds: usize,
    runs: usize,
    /// Finished runs that were there.
    found: usize,
    /// Files of runs that were damaged; these runs were made again.
    damaged: usize,
    /// Results of another build of the program; these runs were made again.
    of_another_build: usize,
    made: usize,
    missing: usize,
    interrupted: bool,
    results: Vec<PointStatistics>,
    out: String,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let mut sweep = Sweep::read(&arguments)?;
    let store = Store::open(&arguments.out, &sweep.fingerprints, &sweep.scenario.to_toml())?;
    let (damaged, of_another_build) = sweep.find(&store)?;
    let found = sweep.rows.iter().flatten().count();
    if of_another_build > 0 {
        warn(format_args!(
            "weir: {}: {of_another_build} of {} results are of another build of weir and are computed anew",
            arguments.out.display(),
            sweep.rows.len()
        ));
    }
    if found > 0 {
        output.say(format!("{found} of {} runs were finished before", sweep.rows.len()));
    }
    let _ = interrupted();
    sweep.run(&arguments, &store, output)?;
    let labels = sweep.labels();
    let rows: Vec<RunRow> = sweep.rows.iter().flatten().cloned().collect();
    let measured: Vec<&Measured> = rows.iter().map(|row| &row.measured).collect();
    for warning in unfit(&sweep.scenario.run.objectives, &measured) {
        warn(format_args!("weir: {warning}"));
    }
    let points = statistics(&labels, &rows);
    let missing = sweep.rows.len() - rows.len();
    write_tables(&store, &sweep.scenario.title, &labels, &rows, missing)?;
    let told = SweepSummary {
        title: sweep.scenario.title.clone(),
        points: sweep.points.len(),
        seeds: sweep.seeds,
        runs: sweep.rows.len(),
        found,
        damaged,
        of_another_build,
        made: rows.len() - found,
        missing,
        interrupted: is_interrupted(),
        results: points,
        out: arguments.out.display().to_string(),
    };
    output.result(&told, || told.show(&labels, &arguments));
    Ok(exit_status(false, told.interrupted))
}

impl Sweep {
    fn read(arguments: &Arguments) -> Result<Sweep, Failure> {
        let (document, scenario) = load(&arguments.scenario, &arguments.set)?;
        let file = arguments.scenario.display();
        for warning in scenario.warnings() {
            warn(format_args!("weir: {file}: {warning}"));
        }
        if scenario.sweep.axes.is_empty() {
            warn(format_args!("weir: {file} has no table [sweep]: it is a single point"));
        }
        if scenario.record.is_some() {
            warn(format_args!(
                "weir: {file}: a sweep leaves out [record]; use `weir sim` for a single point"
            ));
        }
        let points = scenario.expand();
        points.iter().try_for_each(|point| check(&document, &point.scenario))?;
        // A sweep may give its points numbers of seeds of their own; the table has as many for all.
        let own = points.iter().map(|p| p.scenario.run.seeds).max().unwrap_or(1);
        let seeds = arguments.seeds.unwrap_or(own) as usize;
        let fingerprints = points.iter().map(|p| Fingerprint::of_point(&p.scenario)).collect();
        let rows = vec![None; points.len() * seeds];
        Ok(Sweep { scenario, points, fingerprints, seeds, rows })
    }

    /// Point (from 0) and seed of a run.
    fn place(&self, run: usize) -> (usize, u64) {
        (run / self.seeds, (run % self.seeds) as u64 + 1)
    }

    /// Takes the runs that are there; returns how many files were damaged, and how many are of another build.
    fn find(&mut self, store: &Store) -> Result<(usize, usize), Failure> {
        let (mut damaged, mut of_another_build) = (0, 0);
        for run in 0..self.rows.len() {
            let (point, seed) = self.place(run);
            match store.find(point + 1, seed, self.fingerprints[point])? {
                StoredRun::Whole(row) => self.rows[run] = Some(row),
                StoredRun::Absent => {}
                StoredRun::OfAnotherBuild => of_another_build += 1,
                StoredRun::Damaged(path) => {
                    damaged += 1;
                    warn(format_args!("weir: {} is damaged: its run is made again", path.display()));
                }
            }
        }
        Ok((damaged, of_another_build))
    }

    /// Makes the runs that are missing, the longest first, so that no thread ends long before the others.
    fn run(&mut self, arguments: &Arguments, store: &Store, output: &Output) -> Result<(), Failure> {
        let shard = arguments.shard.unwrap_or(Shard { index: 1, count: 1 });
        let mine = |run: &usize| run % shard.count == shard.index - 1 && self.rows[*run].is_none();
        let mut order: Vec<usize> = (0..self.rows.len()).filter(mine).collect();
        let costs: Vec<f64> = self.points.iter().map(|p| cost(&p.scenario)).collect();
        let cost_of = |run: usize| costs[self.place(run).0];
        order.sort_by(|a, b| cost_of(*b).total_cmp(&cost_of(*a)));
        let jobs = arguments.jobs.map_or(processors(), |jobs| jobs as usize);
        let progress = Progress::new(order.len(), order.iter().map(|run| cost_of(*run)).sum(), output);
        let made: Mutex<Vec<(usize, RunRow)>> = Mutex::new(Vec::new());
        let result = work_through(&order, jobs, |run| {
            let (point, seed) = self.place(run);
            if let Some(row) = one(&self.points[point].scenario, point, seed, &progress)? {
                store.keep(&row, self.fingerprints[point])?;
                lock(&made).push((run, row));
            }
            Ok(())
        });
        for (run, row) in std::mem::take(&mut *lock(&made)) {
            self.rows[run] = Some(row);
        }
        result
    }

    fn labels(&self) -> Labels {
        Labels::of(&self.scenario, &self.points)
    }
}

/// Makes one run; nothing if it was interrupted.
fn one(scenario: &Scenario, point: usize, seed: u64, progress: &Progress) -> Result<Option<RunRow>, Failure> {
    if is_interrupted() {
        return Ok(None);
    }
    let (outcome, interrupted) = simulate(scenario, seed, progress)?;
    Ok((!interrupted).then(|| RunRow {
        point: point + 1,
        seed,
        trace_hash: format!("{:016x}", outcome.trace_hash),
        measured: measured_with(&outcome.recording.summary, &outcome.study, &scenario.run.objectives),
        distributions: if scenario.measure.is_some() { outcome.study.distributions } else { Vec::new() },
    }))
}

fn write_tables(
    store: &Store,
    title: &str,
    labels: &Labels,
    rows: &[RunRow],
    missing: usize,
) -> Result<(), Failure> {
    let mut files = store.tables();
    if missing > 0 {
        mark_incomplete(&mut files, &format!("{missing} runs are missing"))?;
    }
    for (name, bytes) in tables(title, labels, rows)? {
        files.add(name, bytes)?;
    }
    Ok(files.publish()?)
}

impl SweepSummary {
    fn show(&self, labels: &Labels, arguments: &Arguments) -> String {
        let mut text = show(labels, &self.results, POINTS_SHOWN);
        text.push_str(&format!("\n{} runs made, {} found, {} missing", self.made, self.found, self.missing));
        if self.missing > 0 && self.interrupted {
            text.push_str("; interrupted: run it again to go on");
        } else if self.missing > 0 {
            text.push_str("; copy the `points` of the other parts here and run it without --shard");
        }
        let table = arguments.out.join("table.csv");
        text + &format!("\nTables: {}, table.parquet, summary.csv", table.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_wrong_ones_named() {
        assert_eq!(shard("2/3"), Ok(Shard { index: 2, count: 3 }));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"] {
            assert!(shard(wrong).unwrap_err().contains("write it like 1/4"), "{wrong}");
        }
    }
}
