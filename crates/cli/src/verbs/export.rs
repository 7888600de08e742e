//! `weir export`: results in the formats of other programs.

use crate::log::utc;
use crate::output::{Done, Failure, Output};
use crate::results::FLENT;
use crate::verbs::plot::data::{run_folders, samples};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};
use weir_config::{Direction, Document, Rtt, Scenario};
use weir_measure::result::{Recording, Summary};
use weir_report::flent::{Facts, data_file, gzip};
use weir_report::{FileSet, csv, write_chosen};

/// Write results of `weir sim`, `weir lab` or `weir run` as data files of Flent, which draws and compares
/// them.
///
/// Goodput of flows becomes "TCP download" and "TCP upload", with sums and averages, under the name of the
/// test of Flent that has such series: rrul_be_nflows, tcp_ndown or tcp_nup. "Ping (ms) ICMP" is computed:
/// the round trip of the path without queues, and the mean delay of the queues on it in each period. Of a run
/// on live links, which knows no flows, all packets of both directions count, and the ping has no path.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Folders with results of single runs, or folders with such.
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// As data files of Flent, format version 4; required, as there is no other format yet.
    #[arg(long, required = true)]
    flent: bool,
    /// Folder for the files, which are called as the folders of their runs; if not given, each lies in the
    /// folder of its run as `run.flent.gz`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "Example:
  weir export out/sim --flent
  flent -i out/sim/run.flent.gz -f summary";

/// The verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let Arguments { results, flent: _, out } = arguments;
    let mut written: Vec<PathBuf> = Vec::new();
    for folder in run_folders(&results)? {
        let file = data_of(&folder)?;
        let name = format!("{}.flent.gz", name_of(&folder));
        let path = out.as_ref().map_or_else(|| folder.join(FLENT), |out| out.join(name));
        if written.contains(&path) {
            let told = format!("two folders are called {}", path.display());
            return Err(Failure::Input(format!(
                "{told}: leave `--out` out, so that each file lies in its folder"
            )));
        }
        let bytes = gzip(file.as_bytes());
        match &out {
            Some(out) => {
                std::fs::create_dir_all(out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
                write_chosen(&path, bytes)?;
            }
            None => FileSet::append(&folder, FLENT, bytes)?,
        }
        written.push(path);
    }
    let files: Vec<_> = written.iter().map(|path| path.to_string_lossy()).collect();
    output.result(&serde_json::json!({ "files": files }), || {
        written.iter().map(|path| format!("{}\n", path.display())).collect()
    });
    Ok(ExitCode::SUCCESS)
}

/// The last part of the path of a folder.
fn name_of(folder: &Path) -> String {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    path.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned())
}

/// The data file of a folder.
fn data_of(folder: &Path) -> Result<String, Failure> {
    let recording = read(folder)?;
    let facts = facts(folder, &recording)?;
    let none = || format!("{} has no samples of a link", folder.display());
    data_file(&recording, &facts).ok_or_else(|| Failure::Input(none()))
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| Failure::Input(format!("cannot read {}: {e}", path.display())))
}

/// What the folder holds of its run.
fn read(folder: &Path) -> Result<Recording, Failure> {
    let path = folder.join("summary.json");
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        let remedy = "make the run again, or give a folder that this version of weir wrote";
        Failure::Input(format!("{}: {error}; {remedy}", path.display()))
    };
    let summary: Summary = serde_json::from_str(&text(&path)?).map_err(|e| wrong(&path, &e))?;
    let mut recording = Recording::default();
    let names: Vec<&str> = summary.links.iter().map(|link| link.name.as_str()).collect();
    recording.link_samples = samples(folder, &names)?;
    let path = folder.join("flows.csv");
    if path.is_file() {
        recording.flow_samples = csv::read_flow_samples(&text(&path)?).map_err(|e| wrong(&path, &e))?;
    }
    recording.summary = summary;
    Ok(recording)
}

/// What is not in the recording: when the run was, and what its scenario says.
fn facts(folder: &Path, recording: &Recording) -> Result<Facts, Failure> {
    // The summary is written at the end, and the last sample is that of the end.
    let written = std::fs::metadata(folder.join("summary.json")).and_then(|data| data.modified())?;
    let ended = written.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let last = recording.link_samples.iter().flatten().map(|row| row.t_s).fold(0.0, f64::max);
    let begun = ended.saturating_sub(Duration::try_from_secs_f64(last).unwrap_or_default());
    // Of the times that a file names, none is finer.
    let begun = Duration::from_millis(begun.as_millis() as u64);
    let times = (utc(begun), begun.as_secs_f64());
    let path = folder.join("scenario.toml");
    if !path.is_file() {
        return Ok(Facts { begun: times, waits: vec![0], ..Facts::default() });
    }
    let scenario = Document::load(&path).and_then(|document| document.scenario()).map_err(Failure::input)?;
    let network = scenario.network();
    let route = network.routes.first();
    let rtt_ms = route.map_or(0.0, |route| match route.rtt {
        Rtt::Constant(rtt) => rtt.as_millis_f64(),
        Rtt::Uniform(from, to) => (from.as_millis_f64() + to.as_millis_f64()) / 2.0,
    });
    let place = |name: &str| recording.summary.links.iter().position(|link| link.name == name);
    let on_the_way = route.into_iter().flat_map(|route| route.forward.iter().chain(&route.back));
    let waits = on_the_way.filter_map(|link| place(&network.links[*link].name)).collect();
    Ok(Facts { begun: times, uploads: uploads(&scenario), rtt_ms, waits })
}

/// Groups of flows that send up: in reverse, or between nodes from where the first group sends to.
fn uploads(scenario: &Scenario) -> BTreeSet<u32> {
    let far = scenario.flows.first().and_then(|flows| flows.to.clone());
    let is_up = |flows: &weir_config::FlowGroup| {
        flows.direction == Direction::Reverse || (far.is_some() && flows.from == far)
    };
    let groups = scenario.flows.iter().enumerate().filter(|(_, flows)| is_up(flows));
    groups.map(|(group, _)| group as u32).collect()
}
