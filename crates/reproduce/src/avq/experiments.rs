//! The experiments of the paper as scenario files, and what the short form changes in them.

use super::Arguments;
use crate::choice::Arm;
use crate::host::Error;
use crate::runs::{Planned, times};
use serde::Serialize;
use weir_aqm::Value;
use weir_config::{Document, Scenario};
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

/// A curve of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    /// The experiment.
    pub experiment: Experiment,
    /// Name of the curve.
    pub series: String,
}

impl From<Experiment> for u32 {
    fn from(experiment: Experiment) -> u32 {
        experiment as u32 + 1
    }
}

/// Scenario files of the experiments: name and content.
static FILES: [&[(&str, &str)]; 5] = [
    &[scenario_file!("avq_experiment1.toml")],
    &[scenario_file!("avq_experiment2_avq.toml"), scenario_file!("avq_experiment2.toml")],
    &[scenario_file!("avq_experiment3_avq.toml"), scenario_file!("avq_experiment3.toml")],
    &[scenario_file!("avq_experiment4_avq.toml"), scenario_file!("avq_experiment4.toml")],
    &[scenario_file!("avq_experiment5.toml")],
];

/// By how much the short form is shorter; that of the lab takes the time that it simulates.
const SHORTER: u64 = 10;
const SHORTER_LIVE: u64 = 20;

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 5] =
        [Experiment::One, Experiment::Two, Experiment::Three, Experiment::Four, Experiment::Five];

    /// Whether it shows the queue over time.
    pub fn is_over_time(self) -> bool {
        matches!(self, Experiment::One | Experiment::Three)
    }
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned<Case>>, Error> {
    let seeds = times(arguments.seeds, arguments.quick, 3);
    let mut plan = Vec::new();
    for &experiment in arguments.experiment.value {
        for (name, text) in FILES[experiment as usize] {
            let file = Document::parse(name, text).map_err(Error::input)?;
            for point in file.scenario().map_err(Error::input)?.expand() {
                let mut scenario = point.scenario;
                if arguments.quick {
                    let times = if arguments.arm == Arm::Sim { SHORTER } else { SHORTER_LIVE };
                    shorten(&mut scenario, times);
                }
                arguments.timers.value.iter().for_each(|timers| timers.give_to(&mut scenario));
                let case = Case { experiment, series: series(&scenario, experiment) };
                plan.extend(Planned::repeated(&case, &scenario, seeds));
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
fn shorten(scenario: &mut Scenario, times: u64) {
    let shorter = |d: Duration| Duration::from_nanos(d.as_nanos() / times);
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
    use crate::avq::EXPERIMENTS;
    use crate::choice::by_name;
    use std::path::PathBuf;

    /// Arguments for an experiment.
    pub fn arguments(experiment: &str, quick: bool) -> Arguments {
        let experiment = by_name(&EXPERIMENTS, experiment).expect("an experiment");
        let timers = &crate::avq::TIMERS[0];
        let (arm, out) = (Arm::Sim, PathBuf::from("out"));
        Arguments { experiment, arm, quick, seeds: None, timers, witness: None, jobs: 1, resume: false, out }
    }

    #[test]
    fn the_full_plan_has_every_curve_of_the_paper() {
        let plan = plan(&arguments("all", false)).unwrap();
        let names = |experiment| {
            let mine = plan.iter().filter(|p| p.case.experiment == experiment && p.seed == 2);
            mine.map(|p| p.case.series.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(Experiment::One), ["AVQ"]);
        assert_eq!(names(Experiment::Two), ["AVQ", "RED", "REM", "PI", "GKVQ"]);
        assert_eq!(names(Experiment::Three), ["AVQ", "REM", "PI"]);
        assert_eq!(names(Experiment::Four), ["AVQ", "RED", "REM", "PI", "GKVQ"]);
        assert_eq!(names(Experiment::Five), ["RED", "REM", "PI", "AVQ 98 %", "AVQ 100 %"]);
    }

    #[test]
    fn the_short_form_keeps_the_load() {
        let [full, quick] =
            [false, true].map(|quick| plan(&arguments("4", quick)).unwrap().swap_remove(0).scenario);
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
