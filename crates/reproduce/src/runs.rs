//! Runs of experiments: as they are planned, made, and asked for by claims, charts and tables.

use crate::host::{Error, Host};
use crate::statistics::{extremes, mean};
use serde::Serialize;
use std::ops::Deref;
use weir_config::Scenario;
use weir_measure::result::Recording;
use weir_report::chart::PlotPoint;
use weir_sim::batch::{self, Progress};
use weir_sim::tap::Tap;

/// One run that is to be made.
#[derive(Clone, Debug)]
pub struct Planned<C> {
    /// What it has in common with the other runs of its point.
    pub case: C,
    /// The random numbers.
    pub seed: u64,
    /// What is run.
    pub scenario: Scenario,
}

impl<C: Clone> Planned<C> {
    /// Runs of one case that differ in nothing but their random numbers.
    pub fn repeated(case: &C, scenario: &Scenario, times: u32) -> Vec<Planned<C>> {
        let one = |seed| Planned { case: case.clone(), seed, scenario: scenario.clone() };
        (0..u64::from(times)).map(one).collect()
    }
}

/// How often each run is made: as often as is asked, otherwise once in the short form, and so often in the
/// long one.
pub fn times(asked: Option<u32>, quick: bool, long: u32) -> u32 {
    asked.unwrap_or(if quick { 1 } else { long })
}

/// A scenario of this length and with this beginning that is not measured, in seconds: with real TCP they are
/// not those of the simulator.
#[cfg(feature = "live")]
pub fn lasting(mut scenario: Scenario, (length_s, warmup_s): (u64, u64)) -> Scenario {
    let seconds = weir_units::Duration::from_secs;
    (scenario.run.duration, scenario.run.warmup) = (seconds(length_s), seconds(warmup_s));
    scenario
}

/// One run that was made, and what was measured of it.
#[derive(Clone, Debug, Serialize)]
pub struct Run<C, V> {
    /// What it has in common with the other runs of its point.
    #[serde(flatten)]
    pub case: C,
    /// The random numbers.
    pub seed: u64,
    /// What was measured.
    #[serde(flatten)]
    pub values: V,
    /// Fingerprint of every decision about every packet, where the arm has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_hash: Option<String>,
    /// Things a reader must know before believing the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

impl<C: Clone, V> Run<C, V> {
    /// What was measured of a planned run that has no fingerprint.
    #[cfg(feature = "live")]
    pub fn of(planned: &Planned<C>, values: V) -> Run<C, V> {
        Run { case: planned.case.clone(), seed: planned.seed, values, trace_hash: None, warnings: None }
    }
}

/// A case that results show as an object of its own, under the key `case`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NestedCase<C> {
    /// The case.
    pub case: C,
}

impl<C> Deref for NestedCase<C> {
    type Target = C;
    fn deref(&self) -> &C {
        &self.case
    }
}

/// Makes all runs of a plan on all processors. Those that were interrupted or not begun are left out; the
/// others are in the order of the plan.
pub fn run_all<C: Sync, R: Send>(
    plan: &[Planned<C>],
    host: &dyn Host,
    measure: impl Fn(&Planned<C>, &dyn Progress) -> Result<Option<R>, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let progress = |runs, work| host.progress(runs, work);
    let results = batch::run_all(
        plan,
        |planned| &planned.scenario,
        progress,
        |planned, progress| measure(planned, progress.as_ref()),
    )?;
    Ok(results.into_iter().flatten().collect())
}

/// Makes a run in the simulator. Returns nothing of one that was interrupted.
pub fn simulate<C: Clone, V, T: Tap>(
    planned: &Planned<C>,
    tap: T,
    progress: &dyn Progress,
    values: impl FnOnce(Recording, T) -> V,
) -> Result<Option<Run<C, V>>, Error> {
    let (outcome, interrupted, tap) = batch::simulate(&planned.scenario, planned.seed, tap, progress)?;
    Ok((!interrupted).then(|| Run {
        case: planned.case.clone(),
        seed: planned.seed,
        values: values(outcome.recording, tap),
        trace_hash: Some(format!("{:016x}", outcome.trace_hash)),
        warnings: None,
    }))
}

/// What was measured: runs of one or several cases.
#[derive(Debug)]
pub struct Measured<'a, C, V> {
    /// In the order of the plan.
    pub runs: Vec<&'a Run<C, V>>,
}

impl<C, V> Clone for Measured<'_, C, V> {
    fn clone(&self) -> Self {
        Measured { runs: self.runs.clone() }
    }
}

impl<'a, C, V> Measured<'a, C, V> {
    /// All of these runs.
    pub fn new(runs: &'a [Run<C, V>]) -> Measured<'a, C, V> {
        Measured { runs: runs.iter().collect() }
    }

    /// The runs of some cases.
    pub fn only(&self, wanted: impl Fn(&C) -> bool) -> Measured<'a, C, V> {
        Measured { runs: self.runs.iter().copied().filter(|run| wanted(&run.case)).collect() }
    }

    /// The runs apart by a property of their case, in the order of the plan.
    pub fn by<K: PartialEq>(&self, key: impl Fn(&'a C) -> K) -> Vec<(K, Measured<'a, C, V>)> {
        let mut groups: Vec<(K, Measured<'a, C, V>)> = Vec::new();
        for &run in &self.runs {
            let key = key(&run.case);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.runs.push(run),
                None => groups.push((key, Measured { runs: vec![run] })),
            }
        }
        groups
    }

    /// The values of a property of the cases, in the order of the plan.
    pub fn keys<K: PartialEq>(&self, key: impl Fn(&'a C) -> K) -> Vec<K> {
        self.by(key).into_iter().map(|(key, _)| key).collect()
    }

    /// Number of runs of each case.
    pub fn repetitions(&self) -> u64 {
        self.runs.iter().map(|run| run.seed + 1).max().unwrap_or(0)
    }

    /// Mean over the runs; NaN of no runs, which no comparison holds for.
    pub fn mean(&self, of: impl Fn(&V) -> f64) -> f64 {
        mean(self.runs.iter().map(|run| of(&run.values)))
    }

    /// Mean over the runs, drawn at `x` with their range, times `factor`.
    pub fn plotted(&self, x: f64, factor: f64, of: impl Fn(&V) -> f64) -> PlotPoint {
        let values: Vec<f64> = self.runs.iter().map(|run| of(&run.values)).collect();
        let (least, most) = extremes(&values);
        let range = (values.len() > 1).then_some((least * factor, most * factor));
        PlotPoint { x, y: mean(values) * factor, range }
    }
}

/// How many runs each of some cases has: `3`, or `1 to 3` where they differ.
pub fn counts<C, V>(cases: &[Measured<C, V>]) -> String {
    let counts = || cases.iter().map(|case| case.runs.len());
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// The same in words.
pub fn runs_each<C, V>(cases: &[Measured<C, V>]) -> String {
    match counts(cases).as_str() {
        "1" => "one run of each".into(),
        many => format!("{many} runs of each"),
    }
}

impl<'a, C: PartialEq, V> Measured<'a, C, V> {
    /// The runs of each case, in the order of the plan.
    pub fn each(&self) -> Vec<Measured<'a, C, V>> {
        self.by(|case| case).into_iter().map(|(_, measured)| measured).collect()
    }
}

impl<'a, C: Ord, V> Measured<'a, C, V> {
    /// The runs of each case, in the order of cases.
    pub fn cases(&self) -> Vec<Measured<'a, C, V>> {
        let mut cases = self.by(|case| case);
        cases.sort_by(|a, b| a.0.cmp(b.0));
        cases.into_iter().map(|(_, measured)| measured).collect()
    }

    /// The case of the first run. Only for the runs of one case, as [`Measured::cases`] returns them.
    pub fn case(&self) -> &'a C {
        &self.runs.first().expect("a case has runs").case
    }
}
