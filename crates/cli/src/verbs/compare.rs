//! `weir compare`: the same scenario simulated, and with real TCP or in another simulator.

use crate::differences::{Difference, are_within, differences, overview, show};
use crate::interrupt::is_interrupted;
use crate::ns3::{self, Ns3};
use crate::output::{Done, Failure, INTERRUPTED, Output};
use crate::progress::Progress;
use crate::results::{
    Check, Planned, Side, add_picture, draft, make_folder, page_run, policies_of, prepare_all, prepare_old,
    set_of_runs, write,
};
use crate::simulate::{Simulated, check, record};
use crate::verbs::lab;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_config::BOTTLENECK;
use weir_measure::result::{Recording, Summary};
use weir_report::{FileSet, html, terminal};
use weir_sim::batch::cost;

/// Run a scenario in the simulator and with real TCP or in ns-3, and say how far the two are apart.
///
/// Both results stand beside each other: utilization, delay, signals, goodput and fairness (Jain's index).
/// Exit status 1 if throughput differs by more than 3 %, or the 95 % delay by more than 25 % and 0.5 ms. The
/// lab needs root; the simulator uses seed 1. Every point of a sweep is compared. `--with ns3` compares
/// with the simulator ns-3 instead (Debian packages g++ and libns3-dev, no root): docs/ns3.md.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario, a TOML file. It may use what `weir lab` can do; with ns-3 what docs/ns3.md says.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// What the simulator is compared with.
    #[arg(long, value_name = "ARM", default_value = "lab")]
    with: With,
    /// Directory for the results: those of both, comparison.json, comparison.svg and report.html.
    #[arg(long, value_name = "DIR", default_value = "out/compare")]
    out: PathBuf,
    /// Change a key of the file, such as `run.duration=5s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const EXAMPLES: &str = "Example:
  sudo weir compare data/scenarios/codel_smoke.toml --set run.duration=20s
  weir compare data/scenarios/ns3.toml --with ns3      another simulator, without root";

/// What a simulation is compared with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum With {
    /// Real TCP in network namespaces.
    Lab,
    /// The simulator ns-3.
    Ns3,
}

impl With {
    /// What it is called in files and tables.
    fn name(self) -> &'static str {
        match self {
            With::Lab => "lab",
            With::Ns3 => "ns3",
        }
    }

    fn title(self) -> &'static str {
        match self {
            With::Lab => "Measured in the lab",
            With::Ns3 => "Simulated by ns-3",
        }
    }

    fn check(self) -> Check {
        match self {
            With::Lab => lab::check,
            With::Ns3 => ns3::check,
        }
    }
}

/// The other arm, ready to run scenarios.
enum Other {
    Lab,
    Ns3(Ns3),
}

impl Other {
    fn run(&self, planned: &Planned, output: &Output) -> Result<Recording, Failure> {
        match self {
            Other::Lab => lab::run(planned, None, output),
            Other::Ns3(ns3) => ns3.run(planned, SEED, output),
        }
    }
}

/// Seed of the simulation.
const SEED: u64 = 1;

/// Both arms of a point.
#[derive(serde::Serialize)]
struct Compared {
    title: String,
    arms: Arms,
    differences: Vec<Difference>,
    within: bool,
    out: String,
}

struct Arms {
    sim: Simulated,
    with: With,
    there: Summary,
}

/// As an object in which the other arm has its name.
impl Serialize for Arms {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("sim", &self.sim)?;
        map.serialize_entry(self.with.name(), &self.there)?;
        map.end()
    }
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let files = std::slice::from_ref(&arguments.scenario);
    let with = arguments.with;
    // Repetitions are for the simulator; here each point is run once, and its folder has no number.
    let set = [arguments.set.as_slice(), &["run.seeds=1".into()]].concat();
    let plan = draft(files, &set, &arguments.out, &[with.check(), check])?;
    prepare_all(&arguments.out, &plan)?;
    let mut arms = plan.iter().flat_map(|p| [with.name(), "sim"].map(|arm| p.folder.join(arm)));
    arms.try_for_each(|folder| prepare_old(&folder))?;
    let other = match with {
        With::Lab => Other::Lab,
        With::Ns3 => Other::Ns3(Ns3::build(&arguments.out, output)?),
    };
    let mut compared = Vec::new();
    for (number, planned) in plan.iter().enumerate() {
        if plan.len() > 1 {
            let title = terminal(&planned.scenario.title);
            output.say(format!("[{}/{}] {title}", number + 1, plan.len()));
        }
        compared.push(compare(planned, with, &other, output)?);
        if is_interrupted() {
            break;
        }
    }
    let within = compared.iter().all(|c| c.within);
    let text = || {
        let each = compared.iter().map(Compared::text).collect::<Vec<_>>().join("\n");
        if plan.len() == 1 { each } else { format!("{each}\n{}", all_points(with, &compared)) }
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

/// Runs both arms of a point. The other one goes first: it refuses what it cannot do.
fn compare(planned: &Planned, with: With, other: &Other, output: &Output) -> Result<Compared, Failure> {
    let Planned { scenario, folder, .. } = planned;
    let mut there = other.run(planned, output)?;
    name_alike(&mut there);
    make_folder(folder)?;
    FileSet::withdraw(folder, &[])?;
    write(&there, scenario, &folder.join(with.name()))?;
    let of_sim = Planned { folder: folder.join("sim"), ..planned.clone() };
    let progress = Progress::new(1, cost(scenario), output);
    let (simulated, recording) = record(&of_sim, SEED, None, &progress)?;
    drop(progress);
    let differences = differences(&simulated.summary, with.name(), &there.summary);
    let within = are_within(&differences);
    let arms = [folder.join(with.name()), of_sim.folder];
    let mut files = set_of_runs(folder, arms.iter().map(PathBuf::as_path))?;
    add_side_by_side(planned, &recording, (with, &there), &differences, &mut files)?;
    let compared = Compared {
        title: scenario.title.clone(),
        arms: Arms { sim: simulated, with, there: there.summary },
        differences,
        within,
        out: folder.display().to_string(),
    };
    let text = serde_json::to_string_pretty(&compared).expect("results are plain data");
    files.add("comparison.json", text)?;
    files.publish()?;
    Ok(compared)
}

/// Gives the managed direction of the other arm the name that the simulator has for it, so that files,
/// pictures and results of both arms call one thing by one name.
fn name_alike(lab: &mut Recording) {
    let Some(managed) = lab.summary.links.first_mut() else { return };
    let name = std::mem::replace(&mut managed.name, BOTTLENECK.to_string());
    let moves = lab.events.iter_mut().filter(|event| event.link == name);
    moves.for_each(|event| event.link = BOTTLENECK.to_string());
}

fn add_side_by_side(
    planned: &Planned,
    sim: &Recording,
    (with, there): (With, &Recording),
    differences: &[Difference],
    files: &mut FileSet,
) -> Result<(), Failure> {
    let policies = policies_of(&planned.scenario);
    let side =
        |label: &str, recording| Side { label: label.to_string(), recording, policies: policies.clone() };
    let sides = [side("Simulated", sim), side(with.title(), there)];
    let title = planned.scenario.title.as_str();
    add_picture(title, &sides, files)?;
    let outside = |d: &&Difference| d.within == Some(false);
    let notes: Vec<String> = differences
        .iter()
        .filter(outside)
        .map(|d| {
            format!("{} is outside its tolerance: simulated {:?}, {} {:?}", d.name, d.sim, d.arm, d.there)
        })
        .collect();
    let runs = sides.iter().map(page_run).collect();
    let page = html::Page { title, runs, notes: &notes, ..html::Page::default() };
    Ok(files.add("report.html", html::page(&page))?)
}

impl Compared {
    fn text(&self) -> String {
        let verdict = if self.within { "within the tolerances" } else { "OUTSIDE the tolerances" };
        let report = Path::new(&self.out).join("report.html");
        let mut text = format!("{}\n\n{}", terminal(&self.title), show(&self.differences));
        for warning in &self.arms.there.warnings {
            text.push_str(&format!("! {}: {warning}\n", self.arms.with.name()));
        }
        text + &format!(
            "\nThroughput 3 %, 95 % delay 25 % or 0.5 ms: {verdict}\nReport: {}\n",
            report.display()
        )
    }
}

/// All points of a sweep under one another.
fn all_points(with: With, compared: &[Compared]) -> String {
    let titles: Vec<String> = compared.iter().map(|c| terminal(&c.title)).collect();
    let rows = titles.iter().map(String::as_str).zip(compared.iter().map(|c| c.differences.as_slice()));
    let table = overview(with.name(), rows);
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
