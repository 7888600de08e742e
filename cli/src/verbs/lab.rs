//! `weir lab`: a scenario with real TCP in network namespaces.

use crate::interrupt::interrupted;
use crate::live::{About, View};
use crate::output::{Done, Failure, INTERRUPTED, Output};
use crate::results::{Side, describe, plan, policy_of, write, write_comparison};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_dataplane::Mode;
use weir_report::table;
use weir_scenario::Scenario;
use weir_scenario::result::Recording;

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

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let plan = plan(&arguments.scenarios, &arguments.set, &arguments.out)?;
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
        write_comparison(&sides(&runs), &arguments.out)?;
    }
    report(&runs, &arguments.out, output);
    let was_interrupted = interrupted().load(Ordering::Relaxed);
    Ok(if was_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
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

fn sides<'a>(runs: &'a [(Recording, &'a Scenario)]) -> Vec<Side<'a>> {
    let side = |(recording, scenario): &'a (Recording, &'a Scenario)| Side {
        label: describe(scenario),
        recording,
        policy: policy_of(scenario),
    };
    runs.iter().map(side).collect()
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
