//! `weir lab`: a scenario with real TCP in network namespaces.

use crate::live::{About, View, interrupted};
use crate::output::{Done, Failure, INTERRUPTED, Output};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_dataplane::Mode;
use weir_report::chart::TimeSeriesOptions;
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
    /// The scenario, a TOML file.
    scenario: PathBuf,
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

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let scenario = load(&arguments.scenario, &arguments.set)?;
    for warning in scenario.warnings() {
        eprintln!("weir: {warning}");
    }
    let points = scenario.expand();
    let many = points.len() > 1 || scenario.run.seeds > 1;
    let mut recordings = Vec::new();
    for point in &points {
        for seed in 0..scenario.run.seeds {
            let mut scenario = point.scenario.clone();
            if many {
                scenario.title = format!("{} [{} #{seed}]", scenario.title, point.label());
            }
            let recording = record(&scenario, arguments.mode.mode(), output)?;
            let folder = if many {
                arguments.out.join(format!("{}-{seed}", file_name(&point.label())))
            } else {
                arguments.out.clone()
            };
            write(&recording, &scenario, &folder)?;
            recordings.push(recording);
            if interrupted().load(Ordering::Relaxed) {
                break;
            }
        }
    }
    report(&recordings, &arguments.out, output);
    let was_interrupted = interrupted().load(Ordering::Relaxed);
    Ok(if was_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
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
    let recording = weir_lab::run(scenario, mode, &mut |progress| {
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

fn report(recordings: &[Recording], out: &Path, output: &Output) {
    let paint = output.paint();
    let text = || {
        let text = table::results(recordings.iter().map(|r| &r.summary), paint);
        format!("{text}\n\nResults: {}", out.display())
    };
    let folder = out.display().to_string();
    match recordings {
        [one] => {
            let mut json = serde_json::to_value(&one.summary).expect("results are plain data");
            json["out"] = folder.into();
            output.result(&json, text);
        }
        many => {
            let runs: Vec<_> = many.iter().map(|r| &r.summary).collect();
            output.result(&serde_json::json!({ "runs": runs, "out": folder }), text);
        }
    }
}
