//! `weir run`: a bump in the wire between two interfaces, under a configuration.

mod in_kernel;

use crate::control::customers::{self, Customers};
use crate::control::run::Control;
use crate::control::{Doors, Source, aqm, folders};
use crate::growing::{self, Growing, Rotation};
use crate::interrupt::{HangUp, interrupted};
use crate::live::{About, View};
use crate::log::{self, Entry, Level};
use crate::opening::Opening;
use crate::output::{Done, Failure, INTERRUPTED, Output};
use crate::results;
use crate::speaker::Speaker;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_config::{Channel, Poll, PortMode, RunConfig};
use weir_dataplane::{
    DirectionPlans, DirectionSetup, Handle, JOURNALS, LinkState, Loop, Mode, Outcome, Progress, Setup,
    privileges,
};
use weir_lab::host;
use weir_measure::result::{HostJitter, LinkSample, Summary};
use weir_report::table;

/// Forward between two interfaces under a configuration, until stopped.
///
/// Offloads that would break forwarding are switched off, and told; everything is put back at the end, and
/// after a crash at the next start or by `weir doctor --clean`. If the program dies or hangs, the kernel
/// forwards. Needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The configuration, a TOML file.
    config: PathBuf,
    /// Change a key of the file, such as `run.duration=10s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Take over the ports of a run that lives: it ends, and the kernel forwards until this one does. Those
    /// of a run that was killed, or that kept forwarding, are taken over without it.
    #[arg(long)]
    takeover: bool,
    /// Let the kernel go on forwarding after the end; the same as `--set fail_open.keep_forwarding=true`.
    #[arg(long)]
    keep_forwarding: bool,
    /// Serve a page at this address, by default 127.0.0.1:9470: how the link stands, live, and its policy to
    /// be changed. The same as `--set run.page=ADDRESS`; `weir ctl page` prints where it is, with the token
    /// that changes take.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = weir_operate::page::ADDRESS)]
    page: Option<String>,
    /// Leave packets to the kernel, and have it keep only the virtual queue: GSP as a BPF program where
    /// packets leave by the ports (clsact egress), steered to a policy with `utilization_target` below 100%.
    /// It marks or drops; queues and offloads stay as they are. The kernel routes or bridges between the
    /// ports, as without. With this program it ends. `=queue` puts GSP's whole queue there instead, with its
    /// shaper, in the place of the default queue of the port: Linux 6.16 or newer with CONFIG_NET_SCH_BPF,
    /// and a policy with `utilization_target` at 100%.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "virtual-queue", conflicts_with_all = ["takeover", "keep_forwarding"])]
    in_kernel: Option<in_kernel::InKernel>,
    /// With --in-kernel: leave program and queue there at the end, at their last set point.
    #[arg(long, requires = "in_kernel")]
    keep: bool,
}

const EXAMPLES: &str = "Examples:
  sudo weir run bridge.toml
  sudo weir run bridge.toml --page                                         with a page in the browser
  sudo weir run bridge.toml --set run.duration=60s --set run.out=out/run   a minute, with results
  sudo weir run virtual.toml --in-kernel     the virtual queue alone, in the kernel, at its full speed; with
      policy = { utilization_low = \"94%\", utilization_target = \"95%\" }
  sudo weir run bridge.toml --in-kernel=queue   the queue with its shaper, in the kernel (Linux 6.16 or newer)
A configuration that shapes one direction:
  ports = { a = \"eth1\", b = \"eth2\" }
  [a_to_b]
  rate = \"100Mbit/s\"
  aqm = { name = \"gsp\" }
  policy = { utilization_low = \"99%\", target_max = \"30ms\" }";

/// How often the view is fed.
const WATCH: Duration = Duration::from_millis(100);
/// Part of a run that the packet loop may miss until it is warned of.
const STALLED_MAX: f64 = 0.05;
/// Names of the directions, as in the configuration.
const DIRECTIONS: [&str; 2] = ["a_to_b", "b_to_a"];

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let kept = arguments.keep_forwarding.then(|| "fail_open.keep_forwarding=true".to_string());
    let page = arguments.page.map(|address| format!("run.page={address}"));
    let set: Vec<String> = arguments.set.into_iter().chain(kept).chain(page).collect();
    let document = results::document(&arguments.config, &set)?;
    let config = document.run_config().map_err(Failure::input)?;
    let output = &output.logging(Level::of(config.run.log));
    log::about("run", title(&config));
    if let Some(what) = arguments.in_kernel {
        let source = Source::new(Some(&arguments.config), &set, document);
        return in_kernel::main((&config, source), what, arguments.keep, output);
    }
    check_core(&config, &host::cpus().allowed)?;
    let (customers, plans) = Customers::open(&config, &arguments.config)?;
    // Nobody who does not read holds up what follows.
    let mut speaker = Speaker::new(*output);
    config
        .warnings()
        .iter()
        .for_each(|warning| speaker.say(Entry::warn("configuration", warning).prefixed("warning: ")));
    let out = config.run.out.as_deref().map(Path::new);
    let rotation = Rotation::of(&config.run);
    out.map_or(Ok(()), |out| growing::prepare(out, rotation))?;
    // From here on Ctrl-C ends the run in order, also while the ports are being opened.
    let _ = interrupted();
    let hangup = HangUp::listen();
    let mut doors = Doors::open(
        ("run.metrics", config.run.metrics.as_deref()),
        ("run.page", config.run.page.as_deref()),
        arguments.takeover,
    )?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut opening = Opening::begin();
    let step = &mut |at: Progress<'_>| opening.step(at, |line| speaker.say(Entry::info("opening", line)));
    let (looping, handle) = match Loop::open_while(setup(&config, plans, arguments.takeover), step) {
        Err(weir_dataplane::Error::GivenUp) => return Ok(given_up(config.run.duration.is_some(), output)),
        opened => opened?,
    };
    looping.said().iter().for_each(|line| speaker.say(Entry::info("opening", line)));
    let open = format!("{} <-> {}: {}", config.ports.a, config.ports.b, looping.mode());
    speaker.say(Entry::info("open", open).with("mode", looping.mode()));
    if let Some(why) = not_realtime(&config) {
        speaker.say(Entry::info("realtime", why));
    }
    // What an earlier run left there stays where the ports are unavailable.
    let mut growing = out.map(|out| Growing::begin(out, rotation)).transpose()?;
    doors.listen().into_iter().for_each(|line| speaker.say(Entry::warn("control", line)));
    confine(out, &arguments.config, &config)
        .into_iter()
        .for_each(|line| speaker.say(Entry::info("privileges", line)));
    let source = Source::new(Some(&arguments.config), &set, document);
    let control = Control::new(doors, source, (&config, customers), looping.mode(), hangup)?;
    let flag = stop.clone();
    let thread = std::thread::Builder::new().name("weir-loop".into()).spawn(move || looping.run(&flag))?;
    control.begin();
    drop(speaker);
    privileges::keep(out.map_or(&[], privileges::for_results))?;
    let has_ended = || thread.is_finished();
    let duration_s = watch(control, handle, &has_ended, &stop, &mut growing, output);
    let outcome = match thread.join() {
        Ok(outcome) => outcome.map_err(Failure::from),
        Err(_) => Err(Failure::from(
            "the packet loop panicked; the kernel forwards between the ports, past the queues. Remedy: start again, which \
             takes over; `weir doctor --clean` ends it and puts the ports back",
        )),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => {
            growing.map_or(Ok(()), |growing| growing.fail(failure.text()))?;
            return Err(failure);
        }
    };
    // Ctrl-C is how a run without end ends.
    let interrupted = interrupted().load(Ordering::Relaxed) && config.run.duration.is_some();
    let mut summary = summary(&config, outcome, duration_s, interrupted);
    let written = growing.map_or(Ok(()), |growing| growing.finish(&mut summary));
    output.result(&summary, || {
        let text = table::results([&summary], output.paint());
        match &config.run.out {
            Some(out) => format!("{text}\nResults: {out}"),
            None => text,
        }
    });
    written?;
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The user ended the run before it began, which is in order for one without an end.
pub fn given_up(has_end: bool, output: &Output) -> ExitCode {
    let said = weir_dataplane::Error::GivenUp.to_string();
    output.result(&serde_json::json!({ "interrupted": true, "warnings": [said] }), || said.clone());
    if has_end { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
}

/// Gives up what opening the ports took; the threads to come have no more. Says what stays.
fn confine(out: Option<&Path>, config: &Path, read: &RunConfig) -> Vec<String> {
    let kept = [
        &privileges::LOOP[..],
        &privileges::USERS,
        &[privileges::REALTIME],
        out.map_or(&[], privileges::for_results),
    ];
    let capabilities = privileges::keep(&kept.concat()).err().map(|error| error.to_string());
    let writable: Vec<PathBuf> = out.into_iter().chain([Path::new(JOURNALS)]).map(PathBuf::from).collect();
    let file = std::path::absolute(config).unwrap_or_else(|_| config.to_path_buf());
    let plans = customers::path(read, &file);
    let files = [Some(file), plans].into_iter().flatten();
    let readable: Vec<PathBuf> = files.flat_map(|file| folders(&file)).collect();
    capabilities.into_iter().chain(privileges::confine(&writable, &readable)).collect()
}

/// Refuses a core that this program may not use.
pub fn check_core(config: &RunConfig, allowed: &[usize]) -> Result<(), Failure> {
    match config.host.core.map(|core| core as usize) {
        Some(core) if !allowed.contains(&core) => Err(Failure::Input(format!(
            "host.core is {core}, and this program may use {} here. Remedy: name one of them, or leave `host.core` \
             out",
            cores(allowed)
        ))),
        _ => Ok(()),
    }
}

/// Whether the packet loop asks for a real-time class: one that has no core of its own would keep others from
/// theirs.
fn is_realtime(config: &RunConfig) -> bool {
    config.host.realtime && config.host.core.is_some()
}

/// Why the packet loop has no real-time class, where it asks for none.
fn not_realtime(config: &RunConfig) -> Option<&'static str> {
    let why = match config.host.realtime {
        _ if is_realtime(config) => return None,
        true => {
            "no real-time class, because the packet loop has no core of its own: name one with `host.core`"
        }
        false => "no real-time class, because `host.realtime` is false",
    };
    Some(why)
}

/// Cores in words, such as `cores 0-3, 6`.
fn cores(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    format!("cores {}", runs.map(run).collect::<Vec<_>>().join(", "))
}

fn setup(config: &RunConfig, plans: [Option<DirectionPlans>; 2], takeover: bool) -> Setup {
    let mode = match config.ports.mode {
        PortMode::Auto => None,
        PortMode::XdpNative => Some(Mode::XdpNative),
        PortMode::XdpGeneric => Some(Mode::XdpGeneric),
        PortMode::AfPacket => Some(Mode::AfPacket),
    };
    let direction = |name: &str, channel: &Channel, plans| DirectionSetup {
        expedites: config.is_sensed(name),
        plans,
        ..DirectionSetup::new(name, channel.clone())
    };
    let [there, back] = plans;
    Setup {
        ports: [config.ports.a.clone(), config.ports.b.clone()],
        mode,
        directions: [
            direction(DIRECTIONS[0], &config.a_to_b, there),
            direction(DIRECTIONS[1], &config.b_to_a, back),
        ],
        sense: config.sense.clone(),
        fail_open_after: config.fail_open.after,
        core: config.host.core.map(|core| core as usize),
        realtime: is_realtime(config),
        busy: config.host.poll == Poll::Busy,
        stands_still: false,
        journal: true,
        takeover,
        keep_forwarding: config.fail_open.keep_forwarding,
        sample: config.run.sample,
        lead: weir_units::Duration::ZERO,
        warmup: weir_units::Duration::ZERO,
        duration: config.run.duration,
    }
}

/// The direction that the view shows in full at first: the one with a policy, else the one that is shaped.
fn shown(config: &RunConfig) -> usize {
    let rank = |c: &Channel| u8::from(c.policy.is_some()) * 2 + u8::from(c.link.rate.is_some());
    usize::from(rank(&config.b_to_a) > rank(&config.a_to_b))
}

/// Follows the loop until it ends, or until it is to end; the time of the last sample.
fn watch(
    mut control: Control,
    mut handle: Handle,
    has_ended: &dyn Fn() -> bool,
    stop: &AtomicBool,
    growing: &mut Option<Growing>,
    output: &Output,
) -> f64 {
    let config = control.config().clone();
    let mut view = View::new(vec![about(&config, 0), about(&config, 1)], shown(&config), output);
    let (flag, start) = (interrupted(), Instant::now());
    let length_s = config.run.duration.map(|d| d.as_secs_f64());
    let mut last_s = 0.0;
    loop {
        let heard = control.serve(&mut handle, WATCH);
        heard.lines.into_iter().for_each(|line| view.note(line));
        if heard.is_changed {
            view.renew([0, 1].map(|direction| about(control.config(), direction)));
        }
        let t_s = start.elapsed().as_secs_f64();
        let is_over = flag.load(Ordering::Relaxed)
            || length_s.is_some_and(|l| t_s >= l)
            || has_ended()
            || control.is_draining();
        handle.warnings().into_iter().for_each(|warning| view.warn(warning));
        view.trouble(trouble(&config, &handle));
        if let Some(line) = sensing(&control).or(upstream(&mut handle)) {
            view.sense(line);
        }
        last_s = collect(&mut handle, &mut control, t_s, length_s, growing, &mut view).unwrap_or(last_s);
        if is_over {
            control.close();
            stop.store(true, Ordering::Relaxed);
            break;
        }
    }
    while !has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    handle.warnings().into_iter().for_each(|warning| view.warn(warning));
    let t_s = start.elapsed().as_secs_f64();
    collect(&mut handle, &mut control, t_s, length_s, growing, &mut view).unwrap_or(last_s)
}

/// Why nothing can pass now.
fn trouble(config: &RunConfig, handle: &Handle) -> Option<String> {
    let ports = handle.links().into_iter().zip([&config.ports.a, &config.ports.b]);
    let words = ports.filter_map(|(state, port)| match state {
        LinkState::Up => None,
        LinkState::NoCarrier => Some(format!("no carrier on {port}")),
        LinkState::Down => Some(format!("{port} is down")),
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// How the directions that are sensed stand, in words; nothing where none is.
fn sensing(control: &Control) -> Option<String> {
    let both = control.told()?.sensing.into_iter().zip(DIRECTIONS);
    let lines: Vec<String> =
        both.filter_map(|(now, name)| Some(format!("{name}: {}", now?.line()))).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// How the directions that observe stand, in words; nothing where nothing was told.
fn upstream(handle: &mut Handle) -> Option<String> {
    let both = handle.upstream().into_iter().zip(DIRECTIONS);
    let lines: Vec<String> =
        both.filter_map(|(now, name)| Some(format!("{name}: {}", now?.line()))).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Takes what was measured since the last call to the results and to the view; the time of the last sample.
fn collect(
    handle: &mut Handle,
    control: &mut Control,
    t_s: f64,
    length_s: Option<f64>,
    growing: &mut Option<Growing>,
    view: &mut View,
) -> Option<f64> {
    let samples: [Vec<LinkSample>; 2] = [0, 1].map(|direction| handle.samples(direction));
    let events = handle.events();
    if let Some(warning) = growing.as_mut().and_then(|growing| growing.add(&samples, &events)) {
        view.warn(warning);
    }
    view.update(t_s, length_s, &[&samples[0], &samples[1]], &events);
    control.publish(handle, &samples, &events);
    samples.iter().filter_map(|rows| rows.last()).map(|row| row.t_s).reduce(f64::max)
}

fn about(config: &RunConfig, direction: usize) -> About {
    let channel = [&config.a_to_b, &config.b_to_a][direction];
    let policy = channel.policy.as_ref().map(|p| p.policy());
    About {
        title: title(config),
        name: DIRECTIONS[direction].into(),
        aqm: aqm(channel),
        rate_bps: channel.link.rate.map_or(0.0, |r| r.as_bps_f64()),
        utilization: policy.as_ref().map(|p| (p.utilization_low.0, p.utilization_target.0)),
        target_max_ms: policy.as_ref().map(|p| p.target_max.as_millis_f64()),
    }
}

fn title(config: &RunConfig) -> String {
    format!("{} <-> {}", config.ports.a, config.ports.b)
}

fn summary(config: &RunConfig, outcome: Outcome, duration_s: f64, interrupted: bool) -> Summary {
    let stalled = stalled(&outcome.host);
    Summary {
        title: title(config),
        arm: "run".into(),
        interrupted,
        ports: outcome.mode.to_string(),
        duration_s,
        links: outcome.links.into(),
        host: Some(outcome.host),
        warnings: outcome.warnings.into_iter().chain(stalled).collect(),
        ..Summary::default()
    }
}

/// What to say of a packet loop that was late for too much of its time.
fn stalled(host: &HostJitter) -> Option<String> {
    (host.stalled_share > STALLED_MAX).then(|| {
        format!(
            "the packet loop did not turn for {:.1} % of the time, {:.0} ms at the longest (more than {:.0} % is too much): \
             packets waited longer than their delays say, and rates were not kept. Remedy: give it a core of its own \
             (`host.core`), or run less beside it",
            host.stalled_share * 100.0,
            host.gap_ms.max,
            STALLED_MAX * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_why_there_is_no_real_time_class() {
        let told = |host: &str| {
            let text = format!("ports = {{ a = \"x\", b = \"y\" }}\nhost = {{ {host} }}\n");
            not_realtime(&RunConfig::parse("x", &text).unwrap())
        };
        assert!(told("").unwrap().contains("host.core"));
        assert!(told("realtime = false, core = 0").unwrap().contains("`host.realtime` is false"));
        assert_eq!(told("core = 0"), None);
    }

    #[test]
    fn cores_are_told_in_runs() {
        assert_eq!(cores(&[0, 1, 2, 5, 7, 8]), "cores 0-2, 5, 7-8");
        assert_eq!(cores(&[3]), "cores 3");
    }
}
