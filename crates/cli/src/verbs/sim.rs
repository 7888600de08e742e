//! `weir sim`: a scenario in the simulator.

use super::warmup;
use crate::capture;
use crate::interrupt::{interrupted, is_interrupted};
use crate::output::{Done, Failure, Output, exit_status, warn};
use crate::results::{Planned, Side, add_comparison, describe, draft, policies_in, prepare_all, set_of_runs};
use crate::runs::run_all;
use crate::simulate::{Simulated, check, record};
use crate::warmup::Decided;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_config::Record;
use weir_measure::result::Recording;
use weir_report::measured::{Measured, measured_with, unfit};
use weir_report::sweep::{Labels, PointStatistics, RunRow, run_table, show, statistics, summary_table};
use weir_report::{FileSet, table, terminal};
use weir_units::Duration;

/// Run a scenario in the simulator: the same files and results as `weir lab`, without root, network or
/// waiting.
///
/// The same scenario and seed give the same bytes on every machine; the trace hash proves it. Several
/// scenarios, the points of a sweep and the seeds of a scenario run side by side on all cores. `weir sweep`
/// is for many points: it can be resumed, and makes tables.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenarios, TOML files. Several are compared in one report.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Seed of the random numbers; of the first run where there are several.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each scenario, with the seeds from `--seed` on, instead of `run.seeds`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Change a key of the file, such as `run.duration=5s` or `aqm.name=codel`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Leave out this much of the beginning, such as 10s, instead of `run.warmup`; `auto` decides by MSER-5
    /// from the delay and the rate of the first link, makes each run twice, and says what it found.
    #[arg(long, value_name = "TIME|auto", value_parser = warmup::parse)]
    warmup: Option<warmup::Warmup>,
    /// Directory for the results: summary.json, samples, events and flows as CSV, SVG and an HTML page.
    #[arg(long, value_name = "DIR", default_value = "out/sim")]
    out: PathBuf,
    /// Write every drop and mark with its reason to decisions.csv, and the packets of each link as a capture
    /// for Wireshark, between these times. The table [record] of the scenario does the same; its key
    /// `size_max` says how large a file may become.
    #[arg(long, value_name = "FROM..TO", value_parser = capture::period)]
    record: Option<(Duration, Option<Duration>)>,
}

const EXAMPLES: &str = "Examples:
  weir sim data/scenarios/demo.toml
  weir sim data/scenarios/demo.toml --seeds 10                  ten runs, mean and 95 % confidence
  weir sim data/scenarios/demo.toml --warmup auto               leaves out what is not yet steady, and says how much
  weir sim data/scenarios/demo.toml --record 20s..20.5s         why each packet was dropped, and a capture
  weir sim data/scenarios/demo.toml data/scenarios/demo_codel.toml   side by side";

/// With more runs than this, their curves are not kept for a page that shows all of them.
const SIDE_BY_SIDE: usize = 24;
/// Points that are listed on the terminal.
const POINTS_SHOWN: usize = 60;

/// A run with what is kept of it.
struct Finished {
    simulated: Simulated,
    recording: Option<Recording>,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let mut plan = plan_records(&arguments)?;
    prepare_all(&arguments.out, &plan)?;
    let _ = interrupted();
    if plan.len() > 1 {
        FileSet::withdraw(&arguments.out, &[])?;
    }
    let decided = match arguments.warmup {
        Some(warmup::Warmup::Auto) => warmup::decide(&mut plan, arguments.seed, output)?,
        _ => Vec::new(),
    };
    let finished = make(&plan, arguments.seed, &decided, output)?;
    if plan.len() > 1 {
        write_together(&plan, &finished, &arguments.out)?;
    }
    report(&plan, finished, &arguments.out, output)?;
    Ok(exit_status(false, is_interrupted()))
}

/// Every run, with what is to be written down.
fn plan_records(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let seeds = arguments.seeds.map(|seeds| format!("run.seeds={seeds}"));
    let warmup = match &arguments.warmup {
        Some(warmup::Warmup::Fixed(text)) => Some(format!("run.warmup={text}")),
        Some(warmup::Warmup::Auto) => Some("run.warmup=0s".to_string()),
        None => None,
    };
    let set: Vec<String> = arguments.set.iter().cloned().chain(seeds).chain(warmup).collect();
    let mut plan = draft(&arguments.scenarios, &set, &arguments.out, &[check])?;
    for planned in &mut plan {
        let scenario = &mut planned.scenario;
        let Some((from, to)) = arguments.record else { continue };
        if from >= scenario.run.duration {
            let end = scenario.run.duration;
            return Err(Failure::Input(format!(
                "--record starts at {from}, and the run ends at {end}: start earlier, or run longer"
            )));
        }
        let record = scenario.record.take().unwrap_or_default();
        scenario.record = Some(Record { decisions: true, pcapng: true, from, to, ..record });
    }
    Ok(plan)
}

/// Makes all runs. Those that were not started when it was interrupted are missing.
fn make(
    plan: &[Planned],
    seed: u64,
    decided: &[Decided],
    output: &Output,
) -> Result<Vec<Option<Finished>>, Failure> {
    run_all(
        plan,
        |planned| &planned.scenario,
        output,
        |planned, progress| {
            let seed = seed.wrapping_add(u64::from(planned.run));
            let decided = decided.iter().find(|d| d.point == planned.point);
            let (simulated, recording) = record(planned, seed, decided, progress)?;
            let recording = (plan.len() <= SIDE_BY_SIDE).then(|| recording.shown().into_owned());
            Ok(Some(Finished { simulated, recording }))
        },
    )
}

/// Whether points were run more than once.
fn is_repeated(plan: &[Planned]) -> bool {
    plan.iter().any(|p| p.run > 0)
}

/// The title with a number where another point has it: files may have one title, and runs of different files
/// are no seeds of one point.
fn own_title(title: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{title} ({n})"));
    let free = std::iter::once(title.to_string()).chain(numbered).find(|title| !taken.contains(title));
    let free = free.expect("numbers do not end");
    taken.insert(free.clone());
    free
}

/// Statistics over the seeds of each point, from complete runs.
fn points(plan: &[Planned], finished: &[Option<Finished>]) -> (Labels, Vec<RunRow>, Vec<PointStatistics>) {
    let mut labels = Labels { names: vec!["scenario".into()], points: Vec::new() };
    let (mut rows, mut titles) = (Vec::new(), BTreeSet::new());
    for (planned, finished) in plan.iter().zip(finished) {
        if planned.point == labels.points.len() {
            let title = planned.scenario.title.as_str();
            let title = title.strip_suffix(" #1").unwrap_or(title);
            labels.points.push(vec![own_title(title, &mut titles)]);
        }
        if let Some(Finished { simulated: s, .. }) =
            finished.as_ref().filter(|f| !f.simulated.summary.interrupted)
        {
            rows.push(RunRow {
                point: planned.point + 1,
                seed: s.seed,
                trace_hash: s.trace_hash.clone(),
                measured: measured_with(&s.summary, &s.study, &planned.scenario.run.objectives),
                distributions: Vec::new(),
            });
        }
    }
    let mut points = statistics(&labels, &rows);
    // A title speaks for itself.
    points.iter_mut().for_each(|p| p.label = labels.points[p.point - 1].concat());
    (labels, rows, points)
}

/// Tables of all runs, and a page with all of them if they are few enough.
fn write_together(plan: &[Planned], finished: &[Option<Finished>], out: &Path) -> Result<(), Failure> {
    let made = plan.iter().zip(finished).filter(|(_, finished)| finished.is_some());
    let mut files = set_of_runs(out, made.map(|(planned, _)| planned.folder.as_path()))?;
    let (labels, rows, points) = points(plan, finished);
    if is_repeated(plan) {
        files.add("summary.csv", summary_table(&labels, &points).to_csv())?;
    }
    let side = |(planned, finished): (&Planned, &'_ Option<Finished>)| -> Option<(String, _)> {
        let summary = &finished.as_ref()?.recording.as_ref()?.summary;
        Some((describe(&planned.scenario), policies_in(summary, &planned.scenario)))
    };
    let recordings = finished.iter().flatten().filter_map(|f| f.recording.as_ref());
    let named = plan.iter().zip(finished).filter_map(side).zip(recordings);
    let sides: Vec<Side> =
        named.map(|((label, policies), recording)| Side { label, recording, policies }).collect();
    if !sides.is_empty() {
        add_comparison(&sides, &mut files)?;
    }
    files.add("table.csv", run_table(&labels, &rows).to_csv())?;
    Ok(files.publish()?)
}

fn report(
    plan: &[Planned],
    finished: Vec<Option<Finished>>,
    out: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let (labels, rows, points) = points(plan, &finished);
    let measured: Vec<&Measured> = rows.iter().map(|row| &row.measured).collect();
    if let Some(planned) = plan.first().filter(|_| !rows.is_empty()) {
        for warning in unfit(&planned.scenario.run.objectives, &measured) {
            warn(format_args!("weir: {warning}"));
        }
    }
    let runs: Vec<Simulated> = finished.into_iter().flatten().map(|f| f.simulated).collect();
    let folder = out.display().to_string();
    let text = || show_runs(&runs, (&labels, &points), is_repeated(plan), out, output);
    match runs.as_slice() {
        [one] if plan.len() == 1 => {
            let mut json = serde_json::to_value(one).expect("results are plain data");
            json["out"] = folder.into();
            output.result(&json, text);
        }
        many => {
            let json = serde_json::json!({
                "runs": many, "points": points, "out": folder, "interrupted": is_interrupted(),
            });
            output.result(&json, text);
        }
    }
    Ok(())
}

fn show_runs(
    runs: &[Simulated],
    (labels, points): (&Labels, &[PointStatistics]),
    repeated: bool,
    out: &Path,
    output: &Output,
) -> String {
    let mut text = String::new();
    if runs.len() <= SIDE_BY_SIDE {
        let summaries: Vec<_> = runs.iter().map(|r| r.summary.shown()).collect();
        text.push_str(&table::results(summaries.iter().map(|summary| &**summary), output.paint()));
        for run in runs {
            text.push_str(&format!(
                "Trace hash {}, seed {}: {}\n",
                run.trace_hash,
                run.seed,
                terminal(&run.summary.title)
            ));
        }
    }
    text.push_str(&crate::studies::show(runs.iter().map(|r| (&r.summary, &r.study))));
    let mut decided: Vec<&Decided> = runs.iter().filter_map(|run| run.warmup.as_ref()).collect();
    decided.dedup_by_key(|d| d.point);
    decided.iter().for_each(|d| text.push_str(&format!("{d}\n")));
    if repeated || runs.len() > SIDE_BY_SIDE {
        text.push_str("\nMean over the seeds, with half the 95 % confidence interval\n");
        text.push_str(&show(labels, points, POINTS_SHOWN));
    }
    for name in runs.iter().flat_map(|run| &run.records).take(if runs.len() == 1 { usize::MAX } else { 0 }) {
        text.push_str(&format!("Written down: {}\n", out.join(name).display()));
    }
    let shown = if runs.len() <= SIDE_BY_SIDE { "report.html" } else { "table.csv" };
    text + &format!("\nReport: {}", out.join(shown).display())
}
