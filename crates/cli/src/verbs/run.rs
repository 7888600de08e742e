//! `weir run`: a bump in the wire between two interfaces, under a configuration.

mod in_kernel;
mod links;

use crate::control::run::Control;
use crate::control::{Source, aqm};
use crate::growing::Growing;
use crate::interrupt::{HangUp, interrupted, is_cut_short};
use crate::live::{About, Shown, View};
use crate::log::{self, Entry, Level};
use crate::output::{Done, Failure, Output, exit_status};
use links::{Followed, Measured, Planned, Prepared};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_config::{Channel, Poll, PortMode, RunConfig};
use weir_dataplane::{DirectionPlans, DirectionSetup, Handle, LinkState, Mode, Outcome, Setup};
use weir_measure::result::{HostJitter, LinkSample, Summary, Unresponsive};
use weir_report::table;

/// Forward between two interfaces under a configuration, until stopped.
///
/// Offloads that would break forwarding are switched off, and told; everything is put back at the end, and
/// after a crash at the next start or by `weir doctor --clean`. If the program dies or hangs, the kernel
/// forwards. Needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The configuration, a TOML file; several for several links in one process, each with ports of its own.
    /// They share packet loops, which sleep unless a file says `host.poll = "busy"`; each is looked at,
    /// changed, taken over and ended by itself.
    #[arg(required = true, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Packet loops for several links that name no core with `host.core`; they are dealt out to these in
    /// turn. Those that name the same core have one there.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    loops: u16,
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
    /// that changes take. Of several links each has a page, at this port and those that follow.
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
  sudo weir run /etc/weir/run/*.toml --loops 2                             many links on two packet loops
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
    let mut planned = links::plan(&arguments)?;
    let (asked, output) = (output, &output.logging(Level::of(planned[0].config.run.log)));
    let titles: Vec<String> = planned.iter().map(|one| title(&one.config)).collect();
    log::about("run", titles.join(", "));
    if let Some(what) = arguments.in_kernel {
        if planned.len() > 1 {
            let remedy = "Remedy: start a `weir run --in-kernel` for each";
            return Err(Failure::Input(format!("--in-kernel takes one configuration. {remedy}")));
        }
        let Planned { config, set, document, .. } = planned.remove(0);
        let source = Source::new(Some(&arguments.config[0]), &set, document);
        return in_kernel::main((&config, source), what, arguments.keep, output);
    }
    let files = arguments.config;
    let has_several = planned.len() > 1;
    let mut prepared = Vec::new();
    for (number, (one, file)) in planned.into_iter().zip(&files).enumerate() {
        prepared.push(Prepared::new(one, file, has_several.then_some(number), arguments.takeover, asked)?);
    }
    // From here on Ctrl-C ends the run in order, also while the ports are being opened.
    let hangup = HangUp::listen();
    let metrics = links::open_doors(&mut prepared, arguments.takeover)?;
    let has_end = prepared.iter().any(|one| one.config.run.duration.is_some());
    let (mut opened, mut all) = (Vec::new(), Vec::new());
    for one in prepared {
        let file = one.file.clone();
        match one.open(arguments.takeover) {
            Ok(Some(one)) => opened.push(one),
            Ok(None) => return Ok(given_up(has_end, output)),
            Err(failure) if !has_several => return Err(failure),
            Err(failure) => all.push((file, Err(failure))),
        }
    }
    links::share_metrics(&mut opened, metrics);
    links::confine(&mut opened);
    let controlled = opened.into_iter().map(|one| one.controlled(&hangup));
    let controlled = controlled.collect::<Result<Vec<_>, Failure>>()?;
    let mut watched = links::turn(controlled, usize::from(arguments.loops))?;
    if !has_several {
        let only = watched.pop().expect("the only link was opened");
        let view = view(only.config(), output);
        return told(only.follow(view)?, output);
    }
    all.extend(links::follow_all(watched, output));
    all.sort_by_key(|(file, _)| files.iter().position(|known| known == file));
    Ok(told_of_several(all, has_end, output))
}

/// Tells what came of the only link.
fn told(Measured { summary, written, out }: Measured, output: &Output) -> Done {
    output.result(&summary, || {
        let text = table::results([&summary], output.paint());
        match &out {
            Some(out) if written.is_ok() => format!("{text}\nResults: {}", out.display()),
            _ => text,
        }
    });
    written?;
    Ok(exit_status(false, summary.interrupted))
}

/// Tells what came of each link; those that failed have told why when they did.
fn told_of_several(all: Vec<(PathBuf, Followed)>, has_end: bool, output: &Output) -> ExitCode {
    let is_interrupted = is_cut_short(has_end);
    let one = |(file, result): &(PathBuf, Followed)| {
        let file = file.display().to_string();
        match result {
            Ok(Measured { summary, written: Ok(()), .. }) => {
                serde_json::json!({ "config": file, "summary": summary })
            }
            Ok(Measured { summary, written: Err(failure), .. }) => {
                serde_json::json!({ "config": file, "summary": summary, "error": failure.text() })
            }
            Err(failure) => serde_json::json!({ "config": file, "error": failure.text() }),
        }
    };
    let runs: Vec<serde_json::Value> = all.iter().map(one).collect();
    let has_failed = runs.iter().any(|run| run.get("error").is_some());
    output.result(&serde_json::json!({ "interrupted": is_interrupted, "runs": runs }), || {
        let measured = all.iter().filter_map(|(_, result)| result.as_ref().ok());
        let mut text = table::results(measured.clone().map(|one| &one.summary), output.paint());
        let whole = measured.filter(|one| one.written.is_ok());
        for out in whole.filter_map(|one| one.out.as_ref()) {
            text.push_str(&format!("\nResults: {}", out.display()));
        }
        for (file, result) in &all {
            let failure = result.as_ref().map_or_else(Some, |one| one.written.as_ref().err());
            text.extend(failure.map(|why| format!("\n{} failed: {}", file.display(), why.text())));
        }
        text
    });
    exit_status(has_failed, is_interrupted)
}

/// The user ended the run before it began, which is in order for one without an end.
pub fn given_up(has_end: bool, output: &Output) -> ExitCode {
    let said = weir_dataplane::Error::GivenUp.to_string();
    output.result(&serde_json::json!({ "interrupted": true, "warnings": [said] }), || said.clone());
    exit_status(false, has_end)
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

/// The link as a view shows it: at first the direction with a policy, else the one that is shaped.
fn shown(config: &RunConfig) -> Shown {
    let rank = |c: &Channel| u8::from(c.policy.is_some()) * 2 + u8::from(c.link.rate.is_some());
    let first = usize::from(rank(&config.b_to_a) > rank(&config.a_to_b));
    Shown { label: title(config), sides: vec![about(config, 0), about(config, 1)], first }
}

/// The view of the only link.
fn view(config: &RunConfig, output: &Output) -> View {
    View::row(vec![shown(config)], output)
}

/// Follows the loop until it ends, or until it is to end; the time of the last sample, and for how long the
/// flows of each direction did not respond.
fn watch(
    control: &mut Control,
    mut handle: Handle,
    has_ended: &mut dyn FnMut() -> bool,
    stop: &AtomicBool,
    growing: &mut Option<Growing>,
    view: &mut View,
) -> (f64, [Unresponsive; 2]) {
    let config = control.config().clone();
    let (flag, start) = (interrupted(), Instant::now());
    let length_s = config.run.duration.map(|d| d.as_secs_f64());
    let (mut last_s, mut unresponsive) = (0.0, [Unresponsive::default(); 2]);
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
        if let Some(line) = sensing(control).or(upstream(&mut handle)) {
            view.sense(line);
        }
        let taken = collect(&mut handle, control, (t_s, length_s), growing, &mut unresponsive, view);
        last_s = taken.unwrap_or(last_s);
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
    let taken = collect(&mut handle, control, (t_s, length_s), growing, &mut unresponsive, view);
    (taken.unwrap_or(last_s), unresponsive)
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
/// How far the run is comes with its length, both in seconds.
fn collect(
    handle: &mut Handle,
    control: &mut Control,
    (t_s, length_s): (f64, Option<f64>),
    growing: &mut Option<Growing>,
    unresponsive: &mut [Unresponsive; 2],
    view: &mut View,
) -> Option<f64> {
    let samples: [Vec<LinkSample>; 2] = [0, 1].map(|direction| handle.samples(direction));
    for (seen, samples) in unresponsive.iter_mut().zip(&samples) {
        samples.iter().for_each(|sample| seen.add(sample));
    }
    let events = handle.events();
    if let Some(warning) = growing.as_mut().and_then(|growing| growing.add(&samples, &events)) {
        view.warn(warning);
    }
    let said = growing.as_mut().and_then(Growing::said);
    said.into_iter().for_each(|line| view.note(Entry::info("results", line)));
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

fn summary(
    config: &RunConfig,
    outcome: Outcome,
    (duration_s, unresponsive): (f64, [Unresponsive; 2]),
    interrupted: bool,
) -> Summary {
    let stalled = stalled(&outcome.host);
    let links = outcome.links.iter().zip(unresponsive);
    let unresponsive: Vec<String> = links.filter_map(|(link, seen)| seen.told(link)).collect();
    Summary {
        title: title(config),
        arm: "run".into(),
        interrupted,
        ports: outcome.mode.to_string(),
        duration_s,
        links: outcome.links.into(),
        host: Some(outcome.host),
        warnings: outcome.warnings.into_iter().chain(stalled).chain(unresponsive).collect(),
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
