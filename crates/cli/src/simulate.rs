//! A run of the simulator, as the verbs use it.

use crate::capture::{Records, Truncated, Written};
use crate::output::Failure;
use crate::progress::Progress;
use crate::results::{Planned, file_set, write_as};
use crate::warmup::Decided;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_config::{Document, Scenario, nearest};
use weir_measure::result::{Recording, Summary};
use weir_measure::study::Study;
use weir_report::FileSet;
use weir_report::measured::objectives;
use weir_report::sweep::add_study;
use weir_sim::Outcome;
use weir_sim::Watcher;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_tcp::Congestion;
use weir_units::Duration;

/// A summary as it is written, with what is needed to make the same run again.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    #[serde(flatten)]
    pub summary: Summary,
    /// Completion times and what else a study asks for.
    #[serde(flatten)]
    pub study: Study,
    /// What the run comes to by each of `run.objectives`; null where a column has no value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub objectives: BTreeMap<String, Option<f64>>,
    /// How the warm-up was decided, where the run itself was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Decided>,
    /// Seed of the run.
    pub seed: u64,
    /// Fingerprint of every decision about every packet.
    pub trace_hash: String,
    /// Names of the files with decisions and packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<String>,
    /// Those of them that reached `record.size_max` and end there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<Truncated>,
}

/// A congestion control that the transport models do not have.
pub struct Unknown<'a> {
    /// Number of the group of flows, from 0.
    pub group: usize,
    /// The name given.
    pub name: &'a str,
    /// Which one may be meant, and which there are.
    pub remedy: String,
}

/// What the transport models do not have of a scenario.
pub fn unknown(scenario: &Scenario) -> impl Iterator<Item = Unknown<'_>> {
    let groups = scenario.flows.iter().enumerate();
    let responsive = groups.filter(|(_, flows)| flows.traffic().is_transported());
    let missing = responsive.filter(|(_, flows)| Congestion::by_name(&flows.congestion).is_none());
    missing.map(|(group, flows)| {
        let (name, names) = (flows.congestion.as_str(), weir_tcp::congestion::names());
        let meant = nearest(name, names.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
        Unknown { group, name, remedy: format!("{meant}choose one of: {}", names.join(", ")) }
    })
}

/// Refuses what the transport models do not have, before anything is run.
pub fn check(document: &Document, scenario: &Scenario) -> Result<(), Failure> {
    let Some(Unknown { group, name, remedy }) = unknown(scenario).next() else { return Ok(()) };
    let problem = format!("the simulator has no congestion control `{name}`");
    Err(Failure::input(document.refuse(&format!("flows.{group}.congestion"), problem, remedy)))
}

/// Runs a scenario once. Returns the outcome and whether it was interrupted. `[record]` is left out.
pub fn simulate(scenario: &Scenario, seed: u64, progress: &Progress) -> Result<(Outcome, bool), Failure> {
    let Some(watcher) = Watcher::new(scenario) else {
        let (outcome, interrupted, ()) = simulate_with(scenario, seed, (), progress)?;
        return Ok((outcome, interrupted));
    };
    let taps = Taps { records: None, watcher: Some(watcher) };
    let (mut outcome, interrupted, taps) = simulate_with(scenario, seed, taps, progress)?;
    taps.finish(&mut outcome);
    Ok((outcome, interrupted))
}

/// The same, and writes what `[record]` asks for into `files`.
fn simulate_recording(
    scenario: &Scenario,
    seed: u64,
    files: &mut FileSet,
    progress: &Progress,
) -> Result<(Outcome, Written), Failure> {
    let wanted = |r: &&weir_config::Record| r.decisions || r.forwarded || r.pcapng;
    let Some(record) = scenario.record.as_ref().filter(wanted) else {
        return Ok((simulate(scenario, seed, progress)?.0, Written::default()));
    };
    let taps =
        Taps { records: Some(Records::new(scenario, record, files)?), watcher: Watcher::new(scenario) };
    let (mut outcome, _, taps) = simulate_with(scenario, seed, taps, progress)?;
    let written = match taps.finish(&mut outcome) {
        Some(records) => records.finish(files)?,
        None => Written::default(),
    };
    outcome.recording.summary.warnings.extend(written.truncated.iter().map(Truncated::to_string));
    Ok((outcome, written))
}

/// What looks at single packets, of which a run has what was asked for.
struct Taps {
    records: Option<Records>,
    watcher: Option<Watcher>,
}

impl Taps {
    /// Adds what was measured to the outcome; the records are left.
    fn finish(self, outcome: &mut Outcome) -> Option<Records> {
        if let Some(watcher) = self.watcher {
            watcher.finish(outcome);
        }
        self.records
    }
}

impl Tap for Taps {
    fn on_drop(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, cause: weir_aqm::Cause) {
        self.records.iter_mut().for_each(|records| records.on_drop(at, seen, cause));
    }
    fn on_mark(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        self.records.iter_mut().for_each(|records| records.on_mark(at, seen));
    }
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, marked: bool) {
        self.records.iter_mut().for_each(|records| records.on_depart(at, seen, sojourn, marked));
        self.watcher.iter_mut().for_each(|watcher| watcher.on_depart(at, seen, sojourn, marked));
    }
}

/// Runs a scenario once with a tap that looks at the packets, which is given back.
pub fn simulate_with<T: Tap>(
    scenario: &Scenario,
    seed: u64,
    tap: T,
    progress: &Progress,
) -> Result<(Outcome, bool, T), Failure> {
    weir_sim::batch::simulate(scenario, seed, tap, progress).map_err(Failure::input)
}

/// Makes a planned run and writes its results.
pub fn record(
    planned: &Planned,
    seed: u64,
    warmup: Option<&Decided>,
    progress: &Progress,
) -> Result<(Simulated, Recording), Failure> {
    let Planned { scenario, folder, .. } = planned;
    let mut files = file_set(folder)?;
    let (outcome, written) = simulate_recording(scenario, seed, &mut files, progress)?;
    let Written { names: records, truncated } = written;
    let trace_hash = format!("{:016x}", outcome.trace_hash);
    let Outcome { recording, study, .. } = outcome;
    let summary = recording.summary.clone();
    add_study(&study, &mut files)?;
    let objectives = objectives(&summary, &study, &scenario.run.objectives);
    let warmup = warmup.cloned();
    let simulated = Simulated { summary, study, objectives, warmup, seed, trace_hash, records, truncated };
    // The copy is this run alone.
    let mut copy = scenario.clone();
    copy.run.seeds = 1;
    write_as(&simulated, &recording, &copy, files)?;
    Ok((simulated, recording))
}
