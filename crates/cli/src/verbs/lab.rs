//! `weir lab`: a scenario with real TCP in network namespaces.

use crate::control::Doors;
use crate::control::lab::Control;
use crate::interrupt::{HangUp, interrupted};
use crate::live::{About, Shown, View};
use crate::log::{self, Entry};
use crate::output::{Done, Failure, Output, exit_status};
use crate::results::{
    FLENT_TEST, Planned, Side, add_comparison, describe, draft, file_set, policies_of, prepare_all,
    set_of_runs, write_as,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_config::{Document, Link, Scenario, nearest};
use weir_dataplane::Mode;
use weir_lab::access::Access;
use weir_lab::flent::FlentTest;
use weir_lab::{Follow, Looking, Playing, SideBySide, Wanted};
use weir_measure::result::{LinkSample, Progress, Recording};
use weir_report::{FileSet, table, terminal};

/// Run a scenario on this machine with real TCP, in network namespaces.
///
/// Builds a sender, a bottleneck and a receiver, runs the packet loop in the bottleneck, drives the flows
/// with iperf3 and samples the queue and each flow's kernel state. Needs root and iperf3. Nothing stays
/// behind: what a killed run left is removed by the next one, or by `weir doctor --clean`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
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
    /// Measure responsiveness under working conditions, in round trips per minute, as
    /// draft-ietf-ippm-responsiveness has it: from the end of the warm-up on up to 16 connections load the
    /// link beside the scenario's flows, and probes go on these and on new ones, until both are stable.
    #[arg(long)]
    responsiveness: bool,
    /// Let a test of Flent, such as `rrul`, make the traffic in place of the scenario's flows. Its client is
    /// at the receiver, so that what it downloads passes the managed link; its load lasts for
    /// `run.duration`, with 5 s before and after. The data file is `test.flent.gz` among the results. Needs
    /// flent, and what its test does: rrul needs netperf. A way back without a rate is as fast as the
    /// machine: `[[links]]` with one for each way bound both (data/scenarios/rrul.toml).
    #[arg(long, value_name = "TEST", conflicts_with = "responsiveness")]
    flent: Option<String>,
    /// Serve a page at this address, by default 127.0.0.1:9470: how the links stand, live, and the policy to
    /// be changed. `weir ctl page` prints where it is, with the token that changes take.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = weir_operate::page::ADDRESS, value_parser = listening)]
    page: Option<String>,
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:9469.
    #[arg(long, value_name = "ADDRESS", value_parser = listening)]
    metrics: Option<String>,
}

/// An address to listen at.
fn listening(text: &str) -> Result<String, String> {
    let address: Result<std::net::SocketAddr, _> = text.parse();
    address.map(|_| text.to_string()).map_err(|_| "it is no ADDRESS:PORT, such as 127.0.0.1:9470".into())
}

const EXAMPLES: &str = "Examples:
  sudo weir lab data/scenarios/demo.toml
  sudo weir lab data/scenarios/demo.toml data/scenarios/demo_codel.toml   one after the other, compared on one page
  sudo weir lab data/scenarios/demo.toml --set link.rate=200Mbit/s --out out/slow
  sudo weir lab data/scenarios/rrul.toml --flent rrul    a test of Flent in place of the flows
  sudo weir lab data/scenarios/demo.toml --page     in the browser; `weir ctl policy target_max=5ms` changes it";

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
    let plan = draft(&arguments.scenarios, &arguments.set, &arguments.out, &[check])?;
    arguments.flent.iter().try_for_each(|test| weir_lab::flent::check(test).map_err(Failure::input))?;
    prepare_all(&arguments.out, &plan)?;
    let addresses = (("--metrics", arguments.metrics.as_deref()), ("--page", arguments.page.as_deref()));
    let doors = Doors::open(addresses.0, addresses.1, false)?;
    let mut control = Control::new(doors, &arguments.set, HangUp::listen());
    let (mode, responsiveness) = (arguments.mode.mode(), arguments.responsiveness);
    let mut runs = Vec::new();
    for (number, planned) in plan.iter().enumerate() {
        if plan.len() > 1 {
            let line = format!("[{}/{}] {}", number + 1, plan.len(), terminal(&planned.scenario.title));
            output.tell(&Entry::info("begin", line));
        }
        control.begin(planned)?;
        let flent = arguments.flent.as_deref().map(Flent::new).transpose()?;
        let wanted =
            Wanted { mode, responsiveness, flent: flent.as_ref().map(|flent| flent.0.clone()), beside: None };
        let mut recording = recorded(planned, &wanted, output, Some(&mut control))?;
        recording.summary.warnings.extend(control.changed());
        recording.summary.warnings.extend(flent.as_ref().map(Flent::told));
        if plan.len() > 1 && runs.is_empty() {
            FileSet::withdraw(&arguments.out, &[])?;
        }
        let mut files = file_set(&planned.folder)?;
        flent.map_or(Ok(()), |flent| flent.add_to(&mut files))?;
        write_as(&recording.summary, &recording, &planned.scenario, files)?;
        runs.push((recording, &planned.scenario));
        if interrupted().load(Ordering::Relaxed) || control.is_draining() {
            break;
        }
    }
    control.close();
    if plan.len() > 1 {
        let made = plan.iter().take(runs.len()).map(|planned| planned.folder.as_path());
        let mut files = set_of_runs(&arguments.out, made)?;
        add_comparison(&sides(&runs), &mut files)?;
        files.publish()?;
    }
    report(&runs, &arguments.out, output);
    let was_interrupted = interrupted().load(Ordering::Relaxed) || control.is_draining();
    Ok(exit_status(false, was_interrupted))
}

/// A test of Flent for one run, whose folder goes when this is dropped.
struct Flent(FlentTest);

impl Flent {
    fn new(name: &str) -> Result<Flent, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-flent-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Failure::Failed(format!(
                "cannot make the folder {}: {error}. Remedy: remove it",
                folder.display()
            ))
        })?;
        Ok(Flent(FlentTest { name: name.into(), folder }))
    }

    /// What is to be known of the results.
    fn told(&self) -> String {
        format!(
            "Flent's test `{}` made the traffic, and no flows of the scenario: {FLENT_TEST} has its data",
            self.0.name
        )
    }

    /// Adds its data to the results; one that was interrupted may have none.
    fn add_to(&self, files: &mut FileSet) -> Result<(), Failure> {
        match weir_lab::flent::data_file(&self.0.folder) {
            Some(data) => Ok(files.add(FLENT_TEST, std::fs::read(data)?)?),
            None => Ok(()),
        }
    }
}

impl Drop for Flent {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0.folder);
    }
}

/// Refuses what only the simulator can do, before anything is run.
pub fn check(document: &Document, scenario: &Scenario) -> Result<(), Failure> {
    weir_lab::check(scenario).map_err(|e| Failure::Input(format!("{}: {e}", document.file())))
}

/// Makes a planned run once and shows it as it goes.
pub fn run(planned: &Planned, mode: Option<Mode>, output: &Output) -> Result<Recording, Failure> {
    recorded(planned, &Wanted { mode, ..Wanted::default() }, output, None)
}

/// The same, under control.
fn recorded(
    planned: &Planned,
    wanted: &Wanted,
    output: &Output,
    control: Option<&mut Control>,
) -> Result<Recording, Failure> {
    followed(&planned.scenario, wanted, output, control).map_err(|e| match &e {
        weir_lab::Error::Congestion { name, available } => unknown(planned, name, available),
        weir_lab::Error::Interrupted => Failure::Interrupted(e.to_string()),
        _ => e.into(),
    })
}

/// A congestion control that this kernel does not have, with the line that asks for it and the one that may
/// be meant.
fn unknown(planned: &Planned, name: &str, available: &str) -> Failure {
    let flows = &planned.scenario.flows;
    let group = flows.iter().position(|group| group.congestion == name).unwrap_or(0);
    let meant = nearest(name, available.split_whitespace());
    let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
    let problem = format!("this kernel has no congestion control `{name}`");
    let remedy = format!("{meant}it has {available}; others come with a module, such as `tcp_{name}`");
    Failure::input(planned.document.refuse(&format!("flows.{group}.congestion"), problem, remedy))
}

/// Runs a scenario once and shows it as it goes; not beside others, which are there to be shown as well.
pub fn record(
    scenario: &Scenario,
    beside: Option<&SideBySide>,
    output: &Output,
) -> Result<Recording, weir_lab::Error> {
    let Some(beside) = beside else { return followed(scenario, &Wanted::default(), output, None) };
    let look = |_: Progress<'_>| if go_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let wanted = Wanted { beside: Some(beside.clone()), ..Wanted::default() };
    weir_lab::follow(scenario, &wanted, waiting(output), &mut Looking(look))
}

/// What is done while another run measures.
fn waiting(output: &Output) -> impl FnMut(Duration) -> ControlFlow<()> {
    let say = || output.tell(&Entry::info("waiting", "waiting for another run on this machine to end"));
    weir_lab::waiting(say, go_on)
}

fn followed(
    scenario: &Scenario,
    wanted: &Wanted,
    output: &Output,
    control: Option<&mut Control>,
) -> Result<Recording, weir_lab::Error> {
    log::about("lab", &scenario.title);
    // A request to end may come as soon as something was said.
    let _ = interrupted();
    let sides = about(scenario);
    let names = sides.iter().map(|side| side.name.clone()).collect();
    let shown = |side: About| Shown { label: side.name.clone(), sides: vec![side], first: 0 };
    let view = View::row(sides.into_iter().map(shown).collect(), output);
    weir_lab::follow(scenario, wanted, waiting(output), &mut Following { view, names, control })
}

fn go_on() -> bool {
    !interrupted().load(Ordering::Relaxed)
}

/// A run that is shown, and may be under control.
struct Following<'a> {
    view: View,
    /// Names of the links that are shown; one that is empty for the first of the run.
    names: Vec<String>,
    control: Option<&'a mut Control>,
}

impl Follow for Following<'_> {
    fn pass(&mut self, time: Duration, loops: &mut [Playing<'_>]) {
        match &mut self.control {
            Some(control) => {
                control.serve(loops, time).into_iter().for_each(|line| self.view.note(line));
                self.view.renew(control.scenario().map(about).into_iter().flatten());
            }
            None => std::thread::sleep(time),
        }
    }

    fn look(&mut self, progress: Progress<'_>, loops: &mut [Playing<'_>]) -> ControlFlow<()> {
        let Progress { t_s, length_s, samples, events } = progress;
        let of = |name: &String| {
            let mut all = loops.iter().flat_map(|playing| playing.names.into_iter().zip(playing.samples));
            let found = all.find(|(link, _)| *link == Some(name.as_str()));
            if name.is_empty() { samples } else { found.map_or(&[][..], |(_, samples)| samples) }
        };
        let shown: Vec<&[LinkSample]> = self.names.iter().map(of).collect();
        self.view.update(t_s, Some(length_s), &shown, events);
        let mut is_draining = false;
        if let Some(control) = &mut self.control {
            control.publish(loops, events);
            is_draining = control.is_draining();
        }
        if go_on() && !is_draining { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The links that are shown: all of a row, else the one that is managed.
fn about(scenario: &Scenario) -> Vec<About> {
    let title = scenario.title.clone();
    let of = |link: &Link, name: &str| {
        let policy = link.policy.as_ref().map(|policy| policy.policy());
        let name_of = |aqm: &weir_config::AqmConfig| link.queue.label(&aqm.name);
        let steered = if policy.is_some() { ", steered" } else { "" };
        About {
            title: title.clone(),
            name: name.into(),
            aqm: link.aqm.as_ref().map_or("unmanaged".into(), |aqm| name_of(aqm) + steered),
            rate_bps: link.rate().as_bps_f64(),
            utilization: policy.as_ref().map(|p| (p.utilization_low.0, p.utilization_target.0)),
            target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
        }
    };
    if Access::is_meant(scenario) {
        // Each limiter is told as that of a home.
        let limiter = scenario.links.iter().find(|link| link.aqm.is_some());
        return vec![of(limiter.unwrap_or(&scenario.links[0]), "")];
    }
    if !scenario.links.is_empty() {
        return scenario.links.iter().map(|link| of(link, &link.name)).collect();
    }
    let policy = scenario.policy.as_ref().map(|p| p.params::<weir_steer::Policy>());
    vec![About {
        title,
        name: String::new(),
        aqm: describe(scenario),
        rate_bps: scenario.rate().as_bps_f64(),
        utilization: policy.as_ref().map(|p| (p.utilization_low.0, p.utilization_target.0)),
        target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
    }]
}

fn sides<'a>(runs: &'a [(Recording, &'a Scenario)]) -> Vec<Side<'a>> {
    let side = |(recording, scenario): &'a (Recording, &'a Scenario)| Side {
        label: describe(scenario),
        recording,
        policies: policies_of(scenario),
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
