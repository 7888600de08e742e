//! `weir compare`: the same scenario simulated and with real TCP.

use crate::differences::{Difference, are_within, differences, overview, show};
use crate::interrupt::is_interrupted;
use crate::output::{Done, Failure, INTERRUPTED, Output};
use crate::progress::Progress;
use crate::results::{
    Planned, Side, add_picture, draft, make_folder, page_run, policies_of, prepare_all, prepare_old,
    set_of_runs, write,
};
use crate::simulate::{Simulated, check, record};
use crate::verbs::lab;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_config::BOTTLENECK;
use weir_measure::result::{Recording, Summary};
use weir_report::{FileSet, html};
use weir_sim::batch::cost;

/// Run a scenario with real TCP and in the simulator, and say how far the two are apart.
///
/// Both results stand beside each other: utilization, delay, signals, goodput and fairness (Jain's index).
/// Exit status 1 if throughput differs by more than 3 %, or the 95 % delay by more than 25 % and 0.5 ms. The
/// lab needs root; the simulator uses seed 1. Every point of a sweep is compared.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario, a TOML file. It may use what `weir lab` can do.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Directory for the results: those of both arms, comparison.json, comparison.svg and report.html.
    #[arg(long, value_name = "DIR", default_value = "out/compare")]
    out: PathBuf,
    /// Change a key of the file, such as `run.duration=5s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const EXAMPLES: &str = "Example:
  sudo weir compare data/scenarios/codel_smoke.toml --set run.duration=20s";

/// Seed of the simulation.
const SEED: u64 = 1;

/// Both arms of a point.
#[derive(Serialize)]
struct Compared {
    title: String,
    arms: Arms,
    differences: Vec<Difference>,
    within: bool,
    out: String,
}

#[derive(Serialize)]
struct Arms {
    sim: Simulated,
    lab: Summary,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let files = std::slice::from_ref(&arguments.scenario);
    let plan = draft(files, &arguments.set, &arguments.out, &[lab::check, check])?;
    // Repetitions are for the simulator; here each point is run once.
    let plan: Vec<Planned> = plan.into_iter().filter(|p| p.run == 0).collect();
    prepare_all(&arguments.out, &plan)?;
    let mut arms = plan.iter().flat_map(|p| ["lab", "sim"].map(|arm| p.folder.join(arm)));
    arms.try_for_each(|folder| prepare_old(&folder))?;
    let mut compared = Vec::new();
    for (number, planned) in plan.iter().enumerate() {
        if plan.len() > 1 {
            output.say(format!("[{}/{}] {}", number + 1, plan.len(), planned.scenario.title));
        }
        compared.push(compare(planned, output)?);
        if is_interrupted() {
            break;
        }
    }
    let within = compared.iter().all(|c| c.within);
    let text = || {
        let each = compared.iter().map(Compared::text).collect::<Vec<_>>().join("\n");
        if plan.len() == 1 { each } else { format!("{each}\n{}", all_points(&compared)) }
    };
    match compared.as_slice() {
        [one] if plan.len() == 1 => output.result(one, text),
        many => output.result(&serde_json::json!({ "points": many, "within": within }), text),
    }
    Ok(match (is_interrupted(), within) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// Runs both arms of a point. The lab goes first: it refuses what it cannot do.
fn compare(planned: &Planned, output: &Output) -> Result<Compared, Failure> {
    let Planned { scenario, folder, .. } = planned;
    let mut live = lab::run(planned, None, output)?;
    name_alike(&mut live);
    make_folder(folder)?;
    FileSet::withdraw(folder)?;
    write(&live, scenario, &folder.join("lab"))?;
    let of_sim = Planned { folder: folder.join("sim"), ..planned.clone() };
    let progress = Progress::new(1, cost(scenario), output);
    let (simulated, recording) = record(&of_sim, SEED, None, &progress)?;
    drop(progress);
    let differences = differences(&simulated.summary, &live.summary);
    let within = are_within(&differences);
    let arms = [folder.join("lab"), of_sim.folder];
    let mut files = set_of_runs(folder, arms.iter().map(PathBuf::as_path))?;
    add_side_by_side(planned, &recording, &live, &differences, &mut files)?;
    let compared = Compared {
        title: scenario.title.clone(),
        arms: Arms { sim: simulated, lab: live.summary },
        differences,
        within,
        out: folder.display().to_string(),
    };
    let text = serde_json::to_string_pretty(&compared).expect("results are plain data");
    files.add("comparison.json", text)?;
    files.publish()?;
    Ok(compared)
}

/// Gives the managed direction of the lab the name that the simulator has for it, so that files, pictures and
/// results of both arms call one thing by one name.
fn name_alike(lab: &mut Recording) {
    let Some(managed) = lab.summary.links.first_mut() else { return };
    let name = std::mem::replace(&mut managed.name, BOTTLENECK.to_string());
    let moves = lab.events.iter_mut().filter(|event| event.link == name);
    moves.for_each(|event| event.link = BOTTLENECK.to_string());
}

fn add_side_by_side(
    planned: &Planned,
    sim: &Recording,
    lab: &Recording,
    differences: &[Difference],
    files: &mut FileSet,
) -> Result<(), Failure> {
    let policies = policies_of(&planned.scenario);
    let side =
        |label: &str, recording| Side { label: label.to_string(), recording, policies: policies.clone() };
    let sides = [side("Simulated", sim), side("Measured in the lab", lab)];
    let title = planned.scenario.title.as_str();
    add_picture(title, &sides, files)?;
    let outside = |d: &&Difference| d.within == Some(false);
    let notes: Vec<String> = differences
        .iter()
        .filter(outside)
        .map(|d| format!("{} is outside its tolerance: simulated {:?}, measured {:?}", d.name, d.sim, d.lab))
        .collect();
    let runs = sides.iter().map(page_run).collect();
    let page = html::Page { title, runs, notes: &notes, ..html::Page::default() };
    Ok(files.add("report.html", html::page(&page))?)
}

impl Compared {
    fn text(&self) -> String {
        let verdict = if self.within { "within the tolerances" } else { "OUTSIDE the tolerances" };
        let report = Path::new(&self.out).join("report.html");
        let mut text = format!("{}\n\n{}", self.title, show(&self.differences));
        for warning in &self.arms.lab.warnings {
            text.push_str(&format!("! lab: {warning}\n"));
        }
        text + &format!(
            "\nThroughput 3 %, 95 % delay 25 % or 0.5 ms: {verdict}\nReport: {}\n",
            report.display()
        )
    }
}

/// All points of a sweep under one another.
fn all_points(compared: &[Compared]) -> String {
    let table = overview(compared.iter().map(|c| (c.title.as_str(), c.differences.as_slice())));
    let held = compared.iter().filter(|c| c.within).count();
    format!("{table}\n{held} of {} points within the tolerances\n", compared.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::{LinkSummary, SteeringEvent};

    #[test]
    fn both_arms_call_the_managed_direction_the_same() {
        let named = |name: &str| LinkSummary { name: name.into(), ..LinkSummary::default() };
        let mut lab = Recording::default();
        lab.summary.links = ["a_to_b", "b_to_a"].map(named).into();
        lab.events = vec![SteeringEvent { link: "a_to_b".into(), ..SteeringEvent::default() }];
        name_alike(&mut lab);
        let names: Vec<&str> = lab.summary.links.iter().map(|link| link.name.as_str()).collect();
        // Moves are found by the name of their link.
        assert_eq!((names, lab.events[0].link.as_str()), (vec![BOTTLENECK, "b_to_a"], BOTTLENECK));
    }
}
