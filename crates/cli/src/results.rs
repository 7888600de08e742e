//! Which runs a verb makes, and the files of a run: the same for every arm.

use crate::interrupt::is_interrupted;
use crate::output::{Failure, warn};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_config::{DescribedPage, Document, NetworkLink, PolicyConfig, Scenario, TraceFile};
use weir_measure::result::{LINKS_SHOWN, Recording, Summary};
use weir_report::chart::{Compared, Comparison, TimeSeriesOptions};
use weir_report::{FileSet, Policy, csv, html};

/// Longest name of a folder that is made from settings; file systems take 255 bytes.
const NAME_MAX: usize = 120;

/// One run of one point of one scenario.
#[derive(Clone)]
pub struct Planned {
    /// The scenario; its title tells point and number of the run.
    pub scenario: Scenario,
    /// Where its results go.
    pub folder: PathBuf,
    /// Number of the point over all files, from 0.
    pub point: usize,
    /// Number of the run at this point, from 0.
    pub run: u32,
    /// The file it comes from, for what a lab tells about it.
    #[cfg_attr(not(feature = "live"), allow(dead_code, reason = "the simulator has told everything before"))]
    pub document: Arc<Document>,
}

/// Says whether an arm can run a scenario of a file.
pub type Check = fn(&Document, &Scenario) -> Result<(), Failure>;

/// Bytes that must fit into a folder for results before anything is run: less than any run writes.
static PROBE: [u8; 64 << 10] = [0; 64 << 10];

/// What is exported of a run for Flent, beside its files.
pub const FLENT: &str = "run.flent.gz";

/// The data file of a test of Flent that ran in a lab.
pub const FLENT_TEST: &str = "test.flent.gz";

/// What runs call their files, but for those with the name of a link or of a figure in them, and what a sweep
/// keeps beside its tables.
const RESULTS: &[&str] = &[
    "INCOMPLETE",
    "chart.svg",
    "comparison.json",
    "completions.csv",
    "comparison.svg",
    "decisions.csv",
    "decisions.parquet",
    "distributions.csv",
    "events.csv",
    "flows.csv",
    "histograms.csv",
    "report.html",
    FLENT,
    FLENT_TEST,
    "result.json",
    "runs.msgpack",
    "scenario.toml",
    "summary.csv",
    "summary.json",
    "sweep.json",
    "sweep.toml",
    "table.csv",
    "table.parquet",
];

/// Every run of the scenarios, checked before the first one starts. The folders are not looked at.
pub fn draft(
    files: &[PathBuf],
    set: &[String],
    out: &Path,
    checks: &[Check],
) -> Result<Vec<Planned>, Failure> {
    let mut plan = Vec::new();
    let (mut names, mut points) = (BTreeSet::new(), 0);
    for path in files {
        let (document, scenario) = load(path, set)?;
        let document = Arc::new(document);
        for warning in scenario.warnings() {
            warn(format_args!("weir: {}: {warning}", path.display()));
        }
        let stem = path.file_stem().map_or("run".into(), |s| s.to_string_lossy().into_owned());
        for point in scenario.expand() {
            checks.iter().try_for_each(|check| check(&document, &point.scenario))?;
            let seeds = point.scenario.run.seeds;
            for run in 0..seeds {
                let mut scenario = point.scenario.clone();
                let mut name = file_name(&stem);
                if !point.settings.is_empty() {
                    scenario.title = format!("{} [{}]", scenario.title, point.label());
                    name = format!("{name}-{}", file_name(&point.label()));
                }
                if seeds > 1 {
                    scenario.title = format!("{} #{}", scenario.title, run + 1);
                    name = format!("{name}-{}", run + 1);
                }
                let folder = out.join(own_name(name, &mut names));
                plan.push(Planned { scenario, folder, point: points, run, document: document.clone() });
            }
            points += 1;
        }
    }
    if let [only] = plan.as_mut_slice() {
        only.folder = out.to_path_buf();
    }
    Ok(plan)
}

/// The name with a number where another run has it: files of two folders may be named alike.
fn own_name(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.expect("numbers do not end");
    taken.insert(free.clone());
    free
}

/// Reads a file with overrides.
pub fn document(path: &Path, overrides: &[String]) -> Result<Document, Failure> {
    document_of(path, overrides, &[]).map_err(Failure::input)
}

/// The same, with the problems one by one. `assumed` is set where neither file nor overrides have the key.
pub fn document_of(
    path: &Path,
    overrides: &[String],
    assumed: &[&str],
) -> Result<Document, weir_config::Errors> {
    let mut document = Document::load(path)?;
    overrides.iter().try_for_each(|text| document.set_from(text))?;
    for text in assumed {
        if !document.has(key_of(text)) {
            document.set_from(text)?;
        }
    }
    Ok(document)
}

/// The key of `KEY=VALUE`.
pub fn key_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}

/// The same as a scenario.
pub fn load(path: &Path, overrides: &[String]) -> Result<(Document, Scenario), Failure> {
    let document = document(path, overrides)?;
    let scenario = document.scenario().map_err(Failure::input)?;
    Ok((document, scenario))
}

/// The algorithm in a few words.
pub fn describe(scenario: &Scenario) -> String {
    let name = scenario.queue.label(&scenario.aqm.name);
    match (&scenario.policy, scenario.aqm.setpoint()) {
        (Some(_), _) => format!("{name}, steered"),
        (None, Some(setpoint)) => format!("{name} {setpoint}"),
        (None, None) => name,
    }
}

/// A label as the name of a file.
fn file_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = label.chars().map(plain).take(NAME_MAX).collect();
    // Hidden files are none of a user's, and `.` is the folder itself.
    let hidden = name.strip_prefix('.').map(|rest| format!("_{rest}"));
    if name.is_empty() { "run".into() } else { hidden.unwrap_or(name) }
}

/// What the charts show of the policies of the links of a scenario.
#[cfg(feature = "live")]
pub fn policies_of(scenario: &Scenario) -> Vec<Policy> {
    scenario.network().links.iter().map(|link| shown(link.policy.as_ref())).collect()
}

/// The same for the links of a summary. What a lab has beyond, as the way back, has none.
pub fn policies_in(summary: &Summary, scenario: &Scenario) -> Vec<Policy> {
    let network = scenario.network();
    let named: BTreeMap<&str, &NetworkLink> = network.links.iter().map(|l| (l.name.as_str(), l)).collect();
    let policy = |name: &str| named.get(name).and_then(|link| link.policy.as_ref());
    summary.links.iter().map(|link| shown(policy(&link.name))).collect()
}

fn shown(policy: Option<&PolicyConfig>) -> Policy {
    let policy = policy.map(|p| p.policy());
    Policy {
        utilization_low: policy.as_ref().map(|p| p.utilization_low.0),
        utilization_target: policy.as_ref().map(|p| p.utilization_target.0).filter(|u| *u < 1.0),
        target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
    }
}

/// Makes a folder for results.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    let remedy = "Remedy: choose another folder with --out (`weir run`: run.out)";
    Ok(std::fs::create_dir_all(folder)
        .map_err(|e| format!("cannot create {}: {e}. {remedy}", folder.display()))?)
}

/// Makes a folder for results and sees that it takes them: nobody wants to hear after a long run that its
/// results have no place. One that holds files of somebody else, or of a sweep, under names of results is
/// refused.
pub fn prepare(folder: &Path) -> Result<(), Failure> {
    make_folder(folder)?;
    refuse_foreign(folder, RESULTS)?;
    probe(folder)
}

/// Refuses a folder with files of these names that no set of results was.
pub fn refuse_foreign(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    match FileSet::foreign(folder, names).as_slice() {
        [] => Ok(()),
        foreign => Err(Failure::Failed(format!(
            "{} holds {}, which such a run did not write there and would overwrite. Remedy: choose another folder with \
             --out (`weir run`: run.out), or move these files away",
            folder.display(),
            foreign.join(", ")
        ))),
    }
}

/// The same for a folder in one that was prepared, if it is there from before; else it is made when it is
/// needed.
pub fn prepare_old(folder: &Path) -> Result<(), Failure> {
    if folder.symlink_metadata().is_ok() { prepare(folder) } else { Ok(()) }
}

/// The same for the folder of all results and those of single runs.
pub fn prepare_all(out: &Path, plan: &[Planned]) -> Result<(), Failure> {
    prepare(out)?;
    plan.iter().map(|p| p.folder.as_path()).filter(|folder| *folder != out).try_for_each(prepare_old)
}

/// Writes to a folder as results will be written, and takes it away again. What a killed run left goes as
/// well.
pub fn probe(folder: &Path) -> Result<(), Failure> {
    let written = FileSet::new(folder).add("probe", PROBE);
    let remedy =
        "make room or change its permissions, or choose another folder with --out (`weir run`: run.out)";
    Ok(written.map_err(|e| format!("cannot write to {}: {}; {remedy}", folder.display(), e.source))?)
}

/// The files of a run for a folder, which is made where there is none. Those of an interrupted run say so,
/// each table included, by a file beside them.
pub fn file_set(folder: &Path) -> Result<FileSet, Failure> {
    make_folder(folder)?;
    let mut files = FileSet::new(folder);
    if is_interrupted() {
        mark_incomplete(&mut files, "interrupted before the end")?;
    }
    Ok(files)
}

/// Tells those who find the files later, each table for itself included, that they are not whole.
pub fn mark_incomplete(files: &mut FileSet, why: &str) -> Result<(), Failure> {
    Ok(files.add("INCOMPLETE", format!("What lies here is not whole: {why}.\n"))?)
}

/// Writes everything of a run to a folder.
#[cfg(feature = "live")]
pub fn write(recording: &Recording, scenario: &Scenario, folder: &Path) -> Result<(), Failure> {
    write_as(&recording.summary, recording, scenario, file_set(folder)?)
}

/// The same with a summary that says more than that of the recording, beside what is in the set already. The
/// summary comes last: a folder that has one has everything.
pub fn write_as(
    summary: &impl Serialize,
    recording: &Recording,
    scenario: &Scenario,
    mut files: FileSet,
) -> Result<(), Failure> {
    add_scenario(scenario, &mut files)?;
    add_samples(recording, &mut files)?;
    files.add("flows.csv", csv::flow_samples(&recording.flow_samples))?;
    let recording = &*recording.shown();
    let policies = policies_in(&recording.summary, scenario);
    let policy = policies.first().copied().unwrap_or_default();
    let options = TimeSeriesOptions { policy, ..TimeSeriesOptions::default() };
    files.add("chart.svg", weir_report::chart::time_series(recording, 0, &options))?;
    let run = html::PageRun { label: "", recording, policies: &policies };
    let page = html::Page { title: &recording.summary.title, runs: vec![run], ..html::Page::default() };
    files.add("report.html", html::page(&page))?;
    finish(files, summary)
}

/// Adds the samples of each link, and the moves of the set point. Those of more links than are shown are one
/// table.
pub fn add_samples(recording: &Recording, files: &mut FileSet) -> Result<(), Failure> {
    let each = recording.summary.links.iter().zip(&recording.link_samples);
    if recording.summary.links.len() > LINKS_SHOWN {
        files.add(
            "samples.csv",
            csv::samples_of_links(each.map(|(link, rows)| (link.name.as_str(), &rows[..]))),
        )?;
        return Ok(files.add("events.csv", csv::steering_events(&recording.events))?);
    }
    for (link, samples) in each {
        files.add(format!("samples_{}.csv", link.name), csv::link_samples(samples))?;
    }
    Ok(files.add("events.csv", csv::steering_events(&recording.events))?)
}

/// Adds the summary of a run and puts everything in its place.
pub fn finish(mut files: FileSet, summary: &impl Serialize) -> Result<(), Failure> {
    files.add("summary.json", serde_json::to_string_pretty(summary).expect("results are plain data"))?;
    Ok(files.publish()?)
}

/// Adds the scenario in canonical form, with the files it uses beside it, so that the copy can be run: traces
/// and descriptions of pages.
fn add_scenario(scenario: &Scenario, files: &mut FileSet) -> Result<(), Failure> {
    let mut copy = scenario.clone();
    let mut traces: Vec<TraceFile> = Vec::new();
    let links = copy.links.iter_mut().map(|link| &mut link.variation);
    for file in std::iter::once(&mut copy.link.variation).chain(links).filter_map(|v| v.trace.as_mut()) {
        let number = traces.iter().position(|known| known == file).unwrap_or_else(|| {
            traces.push(file.clone());
            traces.len() - 1
        });
        file.path = trace_name(number);
    }
    for (number, file) in traces.iter().enumerate() {
        files.add(trace_name(number), file.trace.to_text())?;
    }
    let mut pages: Vec<DescribedPage> = Vec::new();
    for file in copy.flows.iter_mut().filter_map(|flows| flows.page.as_mut()?.file.as_mut()) {
        let number = pages.iter().position(|known| known == file).unwrap_or_else(|| {
            pages.push(file.clone());
            pages.len() - 1
        });
        file.path = page_name(number);
    }
    for (number, file) in pages.iter().enumerate() {
        files.add(page_name(number), file.page.to_toml())?;
    }
    Ok(files.add("scenario.toml", copy.to_toml())?)
}

fn page_name(number: usize) -> String {
    format!("page{}.toml", number + 1)
}

fn trace_name(number: usize) -> String {
    format!("link{}.trace", number + 1)
}

/// The files of a folder with several runs, each of which has a folder of its own in it.
pub fn set_of_runs<'a>(out: &Path, folders: impl Iterator<Item = &'a Path>) -> Result<FileSet, Failure> {
    let mut files = file_set(out)?;
    for name in folders.filter_map(|folder| folder.strip_prefix(out).ok()?.to_str()) {
        files.add_folder(name);
    }
    Ok(files)
}

/// A run that is shown beside others.
pub struct Side<'a> {
    /// A few words: panels side by side have room for no more.
    pub label: String,
    /// The run.
    pub recording: &'a Recording,
    /// The policies of its links.
    pub policies: Vec<Policy>,
}

/// Adds one page and one picture with all runs.
pub fn add_comparison(runs: &[Side], files: &mut FileSet) -> Result<(), Failure> {
    let title = "Runs side by side";
    // On the page, unlike in the picture, there is room for titles.
    let runs_of_page = runs.iter().map(|side| html::PageRun { label: "", ..page_run(side) });
    let page = html::Page { title, runs: runs_of_page.collect(), ..html::Page::default() };
    add_picture(title, runs, files)?;
    Ok(files.add("report.html", html::page(&page))?)
}

/// A run as it stands on a page, under its label.
pub fn page_run<'a>(side: &'a Side<'a>) -> html::PageRun<'a> {
    html::PageRun { label: &side.label, recording: side.recording, policies: &side.policies }
}

/// Adds one picture with all runs.
pub fn add_picture(title: &str, runs: &[Side], files: &mut FileSet) -> Result<(), Failure> {
    let compared = runs.iter().map(|side| Compared {
        label: &side.label,
        recording: side.recording,
        link: 0,
        policy: side.policies.first().copied().unwrap_or_default(),
    });
    let comparison = Comparison { title, runs: compared.collect(), log_delay: false };
    Ok(files.add("comparison.svg", weir_report::chart::comparison(&comparison))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_of_files() {
        let names = ["demo", "aqm.name=gsp, n=2", "..", ".weir-files", "a/b", ""].map(file_name);
        assert_eq!(names, ["demo", "aqm.name_gsp__n_2", "_.", "_weir-files", "a_b", "run"]);
    }
}
