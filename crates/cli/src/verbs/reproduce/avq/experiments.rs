//! The experiments of the paper as scenario files, and what the short form changes in them.

use super::{Arguments, ExperimentName};
use crate::output::Failure;
use serde::Serialize;
use weir_aqm::Value;
use weir_scenario::{Document, Scenario};
use weir_units::Duration;

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u32")]
pub enum Experiment {
    /// AVQ alone, and short flows from the middle on.
    One,
    /// More and more long flows.
    Two,
    /// Flows leave and come.
    Three,
    /// More and more short flows.
    Four,
    /// The same with drops.
    Five,
}

impl From<Experiment> for u32 {
    fn from(experiment: Experiment) -> u32 {
        experiment as u32 + 1
    }
}

type File = (&'static str, &'static str);

macro_rules! scenario_file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../../data/scenarios/", $name)))
    };
}

const ONE: [File; 1] = [scenario_file!("avq_experiment1.toml")];
const TWO: [File; 2] = [scenario_file!("avq_experiment2_avq.toml"), scenario_file!("avq_experiment2.toml")];
const THREE: [File; 2] = [scenario_file!("avq_experiment3_avq.toml"), scenario_file!("avq_experiment3.toml")];
const FOUR: [File; 2] = [scenario_file!("avq_experiment4_avq.toml"), scenario_file!("avq_experiment4.toml")];
const FIVE: [File; 1] = [scenario_file!("avq_experiment5.toml")];

/// By how much the short form is shorter.
const SHORTER: u64 = 10;

impl Experiment {
    /// The experiments that a name stands for.
    pub(super) fn of(name: ExperimentName) -> Vec<Experiment> {
        use Experiment::*;
        match name {
            ExperimentName::One => vec![One],
            ExperimentName::Two => vec![Two],
            ExperimentName::Three => vec![Three],
            ExperimentName::Four => vec![Four],
            ExperimentName::Five => vec![Five],
            ExperimentName::All => vec![One, Two, Three, Four, Five],
        }
    }

    fn files(self) -> &'static [File] {
        match self {
            Experiment::One => &ONE,
            Experiment::Two => &TWO,
            Experiment::Three => &THREE,
            Experiment::Four => &FOUR,
            Experiment::Five => &FIVE,
        }
    }

    /// Whether it shows the queue over time.
    pub fn is_over_time(self) -> bool {
        matches!(self, Experiment::One | Experiment::Three)
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The experiment.
    pub experiment: Experiment,
    /// Name of its curve.
    pub series: String,
    /// The random numbers.
    pub seed: u64,
    /// What is run.
    pub scenario: Scenario,
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let seeds = u64::from(arguments.seeds.unwrap_or(if arguments.quick { 1 } else { 3 }));
    let mut plan = Vec::new();
    for experiment in Experiment::of(arguments.experiment) {
        for (name, text) in experiment.files() {
            let file = Document::parse(name, text).map_err(Failure::input)?;
            for point in file.scenario().map_err(Failure::input)?.expand() {
                let mut scenario = point.scenario;
                if arguments.quick {
                    shorten(&mut scenario);
                }
                let series = series(&scenario, experiment);
                let planned = Planned { experiment, series, seed: 0, scenario };
                plan.extend((0..seeds).map(|seed| Planned { seed, ..planned.clone() }));
            }
        }
    }
    Ok(plan)
}

/// Name of the curve that a scenario belongs to. AVQ is there twice where packets are dropped.
fn series(scenario: &Scenario, experiment: Experiment) -> String {
    let name = scenario.aqm.name.to_uppercase();
    match scenario.aqm.get("utilization") {
        Some(Value::Share(share)) if experiment == Experiment::Five => {
            format!("{name} {:.0} %", share.0 * 100.0)
        }
        _ => name,
    }
}

/// Makes everything happen sooner, but for the distance of short flows, which is the load.
fn shorten(scenario: &mut Scenario) {
    let shorter = |d: Duration| Duration::from_nanos(d.as_nanos() / SHORTER);
    scenario.run.duration = shorter(scenario.run.duration);
    scenario.run.warmup = shorter(scenario.run.warmup);
    for group in &mut scenario.flows {
        group.start = shorter(group.start);
        group.stop = group.stop.map(shorter);
        if group.every.is_none() {
            group.start_spread = shorter(group.start_spread);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Arguments for an experiment.
    pub fn arguments(experiment: ExperimentName, quick: bool) -> Arguments {
        Arguments { experiment, quick, seeds: None, witness: None, out: PathBuf::from("out") }
    }

    #[test]
    fn the_full_plan_has_every_curve_of_the_paper() {
        let plan = plan(&arguments(ExperimentName::All, false)).unwrap();
        let names = |experiment| {
            let mine = plan.iter().filter(|p| p.experiment == experiment && p.seed == 2);
            mine.map(|p| p.series.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(Experiment::One), ["AVQ"]);
        assert_eq!(names(Experiment::Two), ["AVQ", "RED", "REM", "PI", "GKVQ"]);
        assert_eq!(names(Experiment::Three), ["AVQ", "REM", "PI"]);
        assert_eq!(names(Experiment::Four), ["AVQ", "RED", "REM", "PI", "GKVQ"]);
        assert_eq!(names(Experiment::Five), ["RED", "REM", "PI", "AVQ 98 %", "AVQ 100 %"]);
    }

    #[test]
    fn the_short_form_keeps_the_load() {
        let [full, quick] = [false, true]
            .map(|quick| plan(&arguments(ExperimentName::Four, quick)).unwrap().swap_remove(0).scenario);
        assert_eq!(full.run.duration, Duration::from_secs(600));
        assert_eq!(quick.run.duration, Duration::from_secs(60));
        assert_eq!(
            (full.flows[5].start, quick.flows[5].start),
            (Duration::from_secs(500), Duration::from_secs(50))
        );
        assert_eq!(
            (full.flows[5].every, full.flows[5].start_spread),
            (quick.flows[5].every, quick.flows[5].start_spread)
        );
    }
}
