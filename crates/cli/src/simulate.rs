//! A run of the simulator, as the verbs use it.

use crate::capture::{Records, Truncated, Written};
use crate::output::Failure;
use crate::progress::Progress;
use crate::results::{Planned, file_set, write_as};
use serde::Serialize;
use weir_config::{Document, Scenario, Traffic, nearest};
use weir_measure::result::{Recording, Summary};
use weir_report::FileSet;
use weir_sim::Outcome;
use weir_sim::tap::Tap;
use weir_tcp::Congestion;

/// A summary as it is written, with what is needed to make the same run again.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    #[serde(flatten)]
    pub summary: Summary,
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
    let responsive = groups.filter(|(_, flows)| !matches!(flows.traffic(), Traffic::Unresponsive(_)));
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

/// Runs a scenario once. Returns the outcome and whether it was interrupted.
pub fn simulate(scenario: &Scenario, seed: u64, progress: &Progress) -> Result<(Outcome, bool), Failure> {
    let (outcome, interrupted, ()) = simulate_with(scenario, seed, (), progress)?;
    Ok((outcome, interrupted))
}

/// The same, and writes what `[record]` asks for into `files`.
fn simulate_recording(
    scenario: &Scenario,
    seed: u64,
    files: &mut FileSet,
    progress: &Progress,
) -> Result<(Outcome, Written), Failure> {
    let Some(record) = scenario.record.as_ref().filter(|r| r.decisions || r.pcapng) else {
        return Ok((simulate(scenario, seed, progress)?.0, Written::default()));
    };
    let records = Records::new(scenario, record, files)?;
    let (mut outcome, _, records) = simulate_with(scenario, seed, records, progress)?;
    let written = records.finish(files)?;
    outcome.recording.summary.warnings.extend(written.truncated.iter().map(Truncated::to_string));
    Ok((outcome, written))
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
pub fn record(planned: &Planned, seed: u64, progress: &Progress) -> Result<(Simulated, Recording), Failure> {
    let Planned { scenario, folder, .. } = planned;
    let mut files = file_set(folder)?;
    let (outcome, written) = simulate_recording(scenario, seed, &mut files, progress)?;
    let Written { names: records, truncated } = written;
    let trace_hash = format!("{:016x}", outcome.trace_hash);
    let recording = outcome.recording;
    let summary = recording.summary.clone();
    let simulated = Simulated { summary, seed, trace_hash, records, truncated };
    // The copy is this run alone.
    let mut copy = scenario.clone();
    copy.run.seeds = 1;
    write_as(&simulated, &recording, &copy, files)?;
    Ok((simulated, recording))
}
