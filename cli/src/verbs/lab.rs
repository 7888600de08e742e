//! `weir lab`: a scenario with real TCP in network namespaces.

use crate::live::{About, View, interrupted};
use crate::output::{Done, Failure, INTERRUPTED, Output, warn};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_dataplane::Mode;
use weir_report::chart::{Compared, Comparison, TimeSeriesOptions};
use weir_report::{csv, html, table, write_atomic};
use weir_scenario::result::Recording;
use weir_scenario::{Document, Scenario};

/// Run a scenario on this machine with real TCP, in network namespaces.
///
/// Builds a sender, a bottleneck and a receiver, runs the packet loop in the bottleneck, drives the flows
/// with iperf3 and samples the queue and each flow's kernel state. Needs root and iperf3. Nothing stays
/// behind: what a killed run left is removed by the next one, or by `weir doctor --clean`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenarios, TOML files. Several are run one after the other and compared in one report.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Change a key of the file, such as `run.duration=5s` or `aqm.name=codel`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Directory for the results: summary.json, samples, events and flows as CSV, SVG and an HTML page.
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    out: PathBuf,
    /// How frames enter and leave the packet loop.
    #[arg(long, value_enum, default_value = "auto")]
    mode: ModeChoice,
}

/// How frames enter and leave the packet loop.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ModeChoice {
    /// The best that works.
    Auto,
    /// AF_XDP in the driver.
    XdpNative,
    /// AF_XDP behind the driver.
    XdpGeneric,
    /// AF_PACKET rings.
    AfPacket,
}

impl ModeChoice {
    /// The mode, or none for the best that works.
    pub fn mode(self) -> Option<Mode> {
        match self {
            ModeChoice::Auto => None,
            ModeChoice::XdpNative => Some(Mode::XdpNative),
            ModeChoice::XdpGeneric => Some(Mode::XdpGeneric),
            ModeChoice::AfPacket => Some(Mode::AfPacket),
        }
    }
}

/// One run of one point of one scenario.
struct Planned {
    scenario: Scenario,
    folder: PathBuf,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let plan = plan(&arguments)?;
    let mut runs = Vec::new();
    for (number, planned) in plan.iter().enumerate() {
        if plan.len() > 1 {
            output.say(format!("[{}/{}] {}", number + 1, plan.len(), planned.scenario.title));
        }
        let recording = record(&planned.scenario, arguments.mode.mode(), output)?;
        write(&recording, &planned.scenario, &planned.folder)?;
        runs.push((recording, &planned.scenario));
        if interrupted().load(Ordering::Relaxed) {
            break;
        }
    }
    if runs.len() > 1 {
        write_comparison(&runs, &arguments.out)?;
    }
    report(&runs, &arguments.out, output);
    let was_interrupted = interrupted().load(Ordering::Relaxed);
    Ok(if was_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Every run that the arguments ask for, checked before the first one starts.
fn plan(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let mut plan = Vec::new();
    for path in &arguments.scenarios {
        let scenario = load(path, &arguments.set)?;
        for warning in scenario.warnings() {
            warn(format_args!("weir: {}: {warning}", path.display()));
        }
        let stem = path.file_stem().map_or("run".into(), |s| s.to_string_lossy().into_owned());
        for point in scenario.expand() {
            for seed in 0..point.scenario.run.seeds {
                let mut scenario = point.scenario.clone();
                let mut name = file_name(&stem);
                if !point.settings.is_empty() {
                    scenario.title = format!("{} [{}]", scenario.title, point.label());
                    name = format!("{name}-{}", file_name(&point.label()));
                }
                if scenario.run.seeds > 1 {
                    scenario.title = format!("{} #{}", scenario.title, seed + 1);
                    name = format!("{name}-{}", seed + 1);
                }
                plan.push(Planned { scenario, folder: arguments.out.join(name) });
            }
        }
    }
    if let [only] = plan.as_mut_slice() {
        only.folder.clone_from(&arguments.out);
    }
    Ok(plan)
}

/// One page and one picture with all runs.
fn write_comparison(runs: &[(Recording, &Scenario)], out: &Path) -> Result<(), Failure> {
    let title = "Runs side by side";
    let runs_of_page = runs.iter().map(|(recording, scenario)| html::PageRun {
        label: "",
        recording,
        policy: policy_of(scenario),
    });
    let page = html::Page { title, runs: runs_of_page.collect(), ..html::Page::default() };
    write_atomic(out.join("report.html"), html::page(&page))?;
    // Panels side by side have room for a few words only.
    let labels: Vec<String> = runs.iter().map(|(_, scenario)| describe(scenario)).collect();
    let compared = runs.iter().zip(&labels).map(|((recording, scenario), label)| Compared {
        label,
        recording,
        link: 0,
        policy: policy_of(scenario),
    });
    let comparison = Comparison { title, runs: compared.collect(), log_delay: false };
    write_atomic(out.join("comparison.svg"), weir_report::chart::comparison(&comparison))?;
    Ok(())
}

/// Reads a scenario with overrides.
pub fn load(path: &Path, overrides: &[String]) -> Result<Scenario, Failure> {
    let mut document = Document::load(path).map_err(Failure::input)?;
    for text in overrides {
        document.set_from(text).map_err(Failure::input)?;
    }
    document.scenario().map_err(Failure::input)
}

/// Runs a scenario once and shows it as it goes.
pub fn record(scenario: &Scenario, mode: Option<Mode>, output: &Output) -> Result<Recording, Failure> {
    let mut view = View::new(about(scenario), output);
    let flag = interrupted();
    let waiting = || output.say("waiting for another run on this machine to end");
    let recording = weir_lab::run(scenario, mode, waiting, &mut |progress| {
        view.update(progress.t_s, Some(progress.length_s), progress.samples, progress.events);
        if flag.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(recording)
}

fn about(scenario: &Scenario) -> About {
    let policy = scenario.policy.as_ref().map(|p| p.params::<weir_steer::Policy>());
    About {
        title: scenario.title.clone(),
        aqm: describe(scenario),
        rate_bps: scenario.rate().as_bps_f64(),
        utilization: policy.as_ref().map(|p| (p.utilization_low.0, p.utilization_target.0)),
        target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
    }
}

/// The algorithm in a few words.
pub fn describe(scenario: &Scenario) -> String {
    match (&scenario.policy, scenario.aqm.setpoint()) {
        (Some(_), _) => format!("{}, steered", scenario.aqm.name),
        (None, Some(setpoint)) => format!("{} {setpoint}", scenario.aqm.name),
        (None, None) => scenario.aqm.name.clone(),
    }
}

fn file_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = label.chars().map(plain).collect();
    if name.is_empty() { "run".into() } else { name }
}

/// What the charts show of the policy.
pub fn policy_of(scenario: &Scenario) -> weir_report::Policy {
    let policy = scenario.policy.as_ref().map(|p| p.params::<weir_steer::Policy>());
    weir_report::Policy {
        utilization_low: policy.as_ref().map(|p| p.utilization_low.0),
        utilization_target: policy.as_ref().map(|p| p.utilization_target.0).filter(|u| *u < 1.0),
        target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
    }
}

/// Writes everything of a run to a folder.
pub fn write(recording: &Recording, scenario: &Scenario, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    let summary = serde_json::to_string_pretty(&recording.summary).expect("results are plain data");
    write_atomic(folder.join("summary.json"), summary)?;
    write_atomic(folder.join("scenario.toml"), scenario.to_toml())?;
    for (link, samples) in recording.summary.links.iter().zip(&recording.link_samples) {
        write_atomic(folder.join(format!("samples_{}.csv", link.name)), csv::link_samples(samples))?;
    }
    write_atomic(folder.join("flows.csv"), csv::flow_samples(&recording.flow_samples))?;
    write_atomic(folder.join("events.csv"), csv::steering_events(&recording.events))?;
    let policy = policy_of(scenario);
    let options = TimeSeriesOptions { policy, ..TimeSeriesOptions::default() };
    write_atomic(folder.join("chart.svg"), weir_report::chart::time_series(recording, 0, &options))?;
    let run = html::PageRun { label: "", recording, policy };
    let page = html::Page { title: &recording.summary.title, runs: vec![run], ..html::Page::default() };
    write_atomic(folder.join("report.html"), html::page(&page))?;
    Ok(())
}

fn report(runs: &[(Recording, &Scenario)], out: &Path, output: &Output) {
    let summaries: Vec<_> = runs.iter().map(|(recording, _)| &recording.summary).collect();
    let text = || {
        let table = table::results(summaries.iter().copied(), output.paint());
        format!("{table}\nReport: {}", out.join("report.html").display())
    };
    let folder = out.display().to_string();
    match summaries.as_slice() {
        [one] => {
            let mut json = serde_json::to_value(one).expect("results are plain data");
            json["out"] = folder.into();
            output.result(&json, text);
        }
        many => output.result(&serde_json::json!({ "runs": many, "out": folder }), text),
    }
}
