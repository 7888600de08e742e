//! `weir characterize`: the experiments of RFC 7928 with one algorithm, beside tail drop, and what follows
//! from them.

mod chart;
mod experiments;
mod measure;
mod page;
mod plan;
mod rules;

use crate::interrupt::{interrupted, is_interrupted};
use crate::output::{Done, Failure, Output, exit_status};
use crate::progress::Progress;
use crate::results::{file_set, prepare};
use crate::runs::run_all;
use crate::simulate::simulate;
use measure::{Case, numbers};
use plan::{Pair, Subject};
use rules::{Finding, Results, judge};
use std::path::{Path, PathBuf};
use weir_config::Scenario;
use weir_report::html;

/// Run the experiments of RFC 7928 (Characterization Guidelines for Active Queue Management) with an
/// algorithm in the simulator, each beside tail drop, and write one page: what it is good at, and where it
/// breaks.
///
/// Every verdict follows from numbers by a rule that stands beside it. The experiments are
/// data/scenarios/rfc7928_*.toml: 10 Mbit/s and 100 ms unless `--rate` says otherwise. The same command
/// yields the same bytes everywhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The algorithm, by its name in `weir list`; with `fq_` before it in each FIFO of a FlowQueue; or
    /// `dualpi2`.
    name: String,
    /// Set a parameter of the algorithm, of a policy that steers it or of the discipline it works in, such
    /// as `aqm.target=2.5ms`, `policy.target_max=30ms` or `queue.discipline=flow`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Rate of the link, from 1Mbit/s to 1Gbit/s. On faster links there are more flows, as the levels of
    /// congestion demand it.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Runs of a quarter of the length: to try something, not to choose by.
    #[arg(long)]
    quick: bool,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the results; without it one named after the algorithm in out/characterize.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  weir characterize codel
  weir characterize pie --set aqm.target=5ms --rate 100Mbit/s
  weir characterize gsp --set policy.target_max=30ms   steered: any key of [policy] turns steering on";

/// Everything that was found out.
struct Characterization {
    subject: Subject,
    seed: u64,
    results: Results,
    findings: Vec<Finding>,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let rate = arguments.rate.as_deref();
    let subject = Subject::new(&arguments.name, &arguments.set, rate, arguments.quick)?;
    let plan = plan::plan(&subject)?;
    let folder = arguments.out.unwrap_or_else(|| Path::new("out/characterize").join(&subject.name));
    prepare(&folder)?;
    let _ = interrupted();
    let results = Results(run(&plan, arguments.seed, output)?);
    let findings = judge(&results);
    let all = Characterization { subject, seed: arguments.seed, results, findings };
    write(&all, &folder)?;
    let report = folder.join("report.html");
    output.result(&page::json(&all, &folder), || page::text(&all, output.colour(), &report));
    Ok(exit_status(false, is_interrupted()))
}

/// Makes all runs. Experiments of which one was interrupted or not begun are left out.
fn run(plan: &[Pair], seed: u64, output: &Output) -> Result<Vec<Case>, Failure> {
    let runs: Vec<(&Pair, &Scenario)> = plan.iter().flat_map(|p| [(p, &p.aqm), (p, &p.tail_drop)]).collect();
    let measure = |(pair, scenario): &(&Pair, &Scenario), progress: &Progress| {
        let (outcome, interrupted) = simulate(scenario, seed, progress)?;
        let numbers =
            numbers(pair.experiment, scenario, outcome.recording, &outcome.study.games, outcome.trace_hash);
        Ok((!interrupted).then_some(numbers))
    };
    let mut done = run_all(&runs, |(_, scenario)| scenario, output, measure)?.into_iter();
    let case = |pair: &Pair| {
        let [aqm, tail_drop] = std::array::from_fn(|_| done.next().flatten());
        let (experiment, scenario) = (pair.experiment, pair.aqm.clone());
        Some(Case { experiment, scenario, aqm: aqm?, tail_drop: tail_drop? })
    };
    Ok(plan.iter().filter_map(case).collect())
}

fn write(all: &Characterization, folder: &Path) -> Result<(), Failure> {
    let mut files = file_set(folder)?;
    let figures = chart::figures(all);
    let (title, notes, grids) = (page::title(all), page::notes(all), page::grids(all));
    let page = html::Page {
        title: &title,
        notes: &notes,
        grids: &grids,
        figures: &figures,
        ..html::Page::default()
    };
    files.add("report.html", html::page(&page))?;
    files.add("result.json", serde_json::to_string_pretty(&page::json(all, folder))?)?;
    Ok(files.publish()?)
}
