//! `weir steer`: holds queues of the kernel to a policy.

use crate::control::steer::{Watched, policy_in_force, settled};
use crate::control::{Desk, Doors, Source};
use crate::interrupt::{HangUp, interrupted, is_cut_short};
use crate::log::{self, Entry, Level};
use crate::output::{Done, Failure, Output, exit_status};
use crate::speaker::Speaker;
use crate::verbs::init::driver_rate;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_aqm::Value;
use weir_config::{Document, SteerConfig};
use weir_dataplane::privileges;
use weir_kernel::{
    Event, JOURNALS, Journal, Link, News, Place, Setup, Standing, Steerer, Unprobed, restore_dead,
};
use weir_operate::FOLDER;
use weir_steer::Policy;
use weir_units::{Rate, Time};

/// Hold queues of the kernel to a policy by moving their targets, until stopped.
///
/// The kernel goes on working the queue; this program reads its counters, and moves the target of its AQM so
/// that the link stays busy with as little delay as the traffic needs: codel, fq_codel, pie, fq_pie, dualpi2,
/// cake with its interval, and the room of a bfifo below a shaper, at the root or below htb, tbf or mq. With
/// --utilization-target below 100 % it moves the rate of the shaper above the queue, too. A queue that is no
/// bottleneck is left alone. What somebody else changes meanwhile is told, and left to him. At the end queues
/// are put back as they were found, after a kill by the next start. Needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The interface that packets leave by, or a configuration (docs/steer-config.md), which ends in `.toml`.
    #[arg(value_name = "DEV|CONFIG.toml")]
    what: String,
    /// Utilization of the link below which the target is raised [default: 99%].
    #[arg(long, value_name = "SHARE")]
    utilization_low: Option<String>,
    /// Largest target: the most delay that throughput may cost [default: 30ms].
    #[arg(long, value_name = "TIME")]
    target_max: Option<String>,
    /// Utilization that is aimed at; below 100% by the rate of the shaper above the queue [default: 100%].
    #[arg(long, value_name = "SHARE")]
    utilization_target: Option<String>,
    /// Rate of the link, where neither shaper nor driver tells it.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// The queue, by the handle that `tc qdisc show` writes, instead of all of the interface.
    #[arg(long, value_name = "HANDLE")]
    handle: Option<String>,
    /// Time between two looks at the counters [default: 10ms].
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// How long to run, instead of until stopped.
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Read the delay of each packet, by BPF programs on tracepoints of the kernel, instead of estimating it.
    #[arg(long)]
    probe: bool,
    /// Leave queues as they are at the end.
    #[arg(long)]
    keep: bool,
    /// Serve a page at this address, by default 127.0.0.1:9470 (`steer.page`); `weir ctl page` prints how.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = weir_operate::page::ADDRESS)]
    page: Option<String>,
    /// Say what would be steered, with which rate and bounds, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Set a key over the file, such as `policy.target_min=1ms`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  tc qdisc replace dev eth0 root handle 1: cake bandwidth 95mbit
  weir steer eth0 --dry-run                            what there is to steer
  weir steer eth0                                      busy to 99 % with at most 30 ms of queue
  weir steer eth0 --target-max 10ms --rate 940Mbit/s   another bound, and a link that nobody tells the rate of
  weir steer queues.toml                               several interfaces and queues
  weir ctl policy target_max=10ms                      another bound while it runs; `weir ctl status` shows how
                                                       queues stand

docs/kernel-queues.md says what each kind tells, and how far estimates are off.";

/// Share of its time that the program may take: a look that takes longer is made less often, as long as
/// [`LOOK_MAX`] allows.
const BUSY_MAX: u32 = 10;
/// The longest time between two looks, so that what others change is noticed within a second.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// How long the kernel may refuse to be asked before that ends the program.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The configuration that the arguments are.
fn configuration(a: &Arguments) -> Result<(SteerConfig, Source), Failure> {
    let is_file = a.what.ends_with(".toml") || a.what.contains('/');
    let mut set = Vec::new();
    let mut document = if is_file {
        let own = [("--rate", a.rate.is_some()), ("--handle", a.handle.is_some())];
        if let Some((flag, _)) = own.into_iter().find(|(_, given)| *given) {
            return Err(Failure::Input(format!(
                "{flag} is for a DEV: in {} it is a key of `[[queues]]`",
                a.what
            )));
        }
        Document::load(&a.what).map_err(Failure::input)?
    } else {
        let quoted = serde_json::json!(a.what).to_string();
        let mut text = format!("[[queues]]\ninterface = {quoted}\n");
        for (key, value) in [("rate", &a.rate), ("handle", &a.handle)] {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", serde_json::json!(value));
            }
        }
        Document::parse("the arguments", &text).map_err(Failure::input)?
    };
    let policy = [
        ("policy.utilization_low", &a.utilization_low),
        ("policy.target_max", &a.target_max),
        ("policy.utilization_target", &a.utilization_target),
        ("steer.period", &a.period),
        ("steer.duration", &a.duration),
        ("steer.page", &a.page),
    ];
    for (key, value) in policy {
        if let Some(value) = value {
            set.push(format!("{key}={value}"));
        }
    }
    set.extend(a.probe.then(|| "steer.probe=true".to_string()));
    set.extend(a.keep.then(|| "steer.keep=true".to_string()));
    set.extend_from_slice(&a.set);
    for text in &set {
        document.set_from(text).map_err(Failure::input)?;
    }
    let config = settled(document.steer_config().map_err(Failure::input)?);
    Ok((config, Source::new(is_file.then(|| Path::new(&a.what)), &set, document)))
}

fn described(place: &Place, rate: Rate, policy: &Policy) -> String {
    let shaper =
        place.shaper.as_ref().map_or_else(String::new, |s| format!(", served by {} {}", s.kind, s.handle));
    let found = place.target(&place.options);
    let target = found.map_or_else(|| "no target".into(), |t| format!("target {:.3} ms", t.as_millis_f64()));
    let aim = if policy.uses_virtual_queue() {
        format!(", its rate moved towards {} of the link", Value::Share(policy.utilization_target))
    } else {
        String::new()
    };
    format!(
        "{}: {target}, link {rate}{shaper}; would be held between {} and {} so that {} are used{aim}",
        place.label(),
        policy.target_min,
        policy.target_max,
        Value::Share(policy.utilization_low)
    )
}

fn told(news: &News) -> Entry {
    let what = match &news.event {
        Event::Target { from, to, rule } => {
            format!("target {:.3} -> {:.3} ms ({rule})", from.as_millis_f64(), to.as_millis_f64())
        }
        Event::Rate { from, to } => format!("rate of the shaper {from} -> {to}"),
        Event::Left(why) => format!("left as it is: {}", why.text()),
    };
    let line = format!("{:9.3} s  {}: {what}", news.time.as_secs_f64(), news.label);
    let entry = match &news.event {
        Event::Target { rule, .. } => Entry::debug("move", line).with("rule", rule),
        Event::Rate { .. } => Entry::info("rate", line),
        Event::Left(_) => Entry::warn("left", line),
    };
    entry.with("queue", &news.label).with("t_s", format!("{:.3}", news.time.as_secs_f64()))
}

fn wrong(e: Setup) -> Failure {
    match e {
        Setup::Kernel(_) | Setup::Journal(_) | Setup::Probe(Unprobed::Refused { .. }) => {
            Failure::Failed(e.to_string())
        }
        _ => Failure::Input(e.to_string()),
    }
}

/// Interfaces of these queues that a packet loop of a living process has for ports.
fn ports_of_runs(steerer: &Steerer) -> BTreeMap<String, u32> {
    let mut seen = BTreeSet::new();
    let places = steerer.places().map(|(place, ..)| place);
    let once = places.filter(|place| seen.insert(place.interface));
    let user = |interface: i32| weir_dataplane::user_of(u32::try_from(interface).ok()?);
    once.filter_map(|place| Some((place.name.clone(), user(place.interface)?))).collect()
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let (config, source) = configuration(&arguments)?;
    let output = &output.logging(Level::of(config.steer.log));
    let devices: Vec<&str> = config.queues.iter().map(|queue| queue.interface.as_str()).collect();
    log::about("steer", devices.join(","));
    let stop = interrupted();
    let hangup = HangUp::listen();
    let mut link = Link::open()?;
    let journals = Path::new(JOURNALS);
    if !arguments.dry_run {
        restore_dead(journals, &mut link)
            .iter()
            .for_each(|line| output.tell(&Entry::warn("put_back", format!("after a killed run: {line}"))));
    }
    let mut steerer = Steerer::find(&config, &mut link, &driver_rate).map_err(wrong)?;
    for (interface, refused) in steerer.refused() {
        let line = format!("{interface} {} {}: not steered: {}", refused.kind, refused.handle, refused.why);
        output.tell(&Entry::warn("not_steered", line).with("port", interface));
    }
    for (interface, pid) in ports_of_runs(&steerer) {
        let line = format!(
            "{interface} is a port of process {pid}, and what that forwards passes by the queues here: only what \
             others send waits in them"
        );
        output.tell(&Entry::warn("not_all", line).with("port", interface));
    }
    if config.steer.probe {
        steerer.probe(&mut link).map_err(wrong)?;
    }
    let places: Vec<String> =
        steerer.places().map(|(place, rate, policy)| described(place, rate, policy)).collect();
    if arguments.dry_run {
        let would = |(report, queue): (weir_kernel::Report, Standing<'_>)| {
            let mut told = serde_json::json!(report);
            told["policy"] = serde_json::json!(policy_in_force(&config, &queue));
            told
        };
        let queues: Vec<_> = steerer.reports().into_iter().zip(steerer.stand()).map(would).collect();
        let json = serde_json::json!({ "would_steer": queues, "changed": false });
        output.result(&json, || places.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let metrics = ("steer.metrics", config.steer.metrics.as_deref());
    let mut doors = Doors::open(metrics, ("steer.page", config.steer.page.as_deref()), false)?;
    steerer.begin(Journal::open(journals)?).map_err(wrong)?;
    doors.listen().into_iter().for_each(|line| output.tell(&Entry::warn("control", line)));
    for (place, rate, policy) in steerer.places() {
        let (least, most) = (policy.target_min, policy.target_max);
        let line = format!("{}: steered between {least} and {most}, link {rate}", place.label());
        output.tell(&Entry::info("open", line).with("queue", place.label()));
    }
    // The socket and the journal are open: nothing else of root's is needed to move targets and to put them
    // back.
    let mut kept = vec![privileges::QUEUES];
    // To read what the programs count.
    kept.extend(config.steer.probe.then_some(privileges::PROGRAMS));
    privileges::keep(&[&kept[..], &privileges::USERS].concat())?;
    let readable = source.folders();
    let mut watched = Watched::new(&config, &steerer, &driver_rate);
    privileges::confine(&[PathBuf::from(FOLDER)], &readable)
        .iter()
        .for_each(|line| output.tell(&Entry::info("privileges", line)));
    let mut desk = watched.open(doors, source, hangup)?;
    privileges::keep(&kept)?;
    desk.begin();
    let worked = steer(&mut steerer, &mut link, &mut watched, &stop, &mut desk, output);
    desk.close();
    let config = watched.config();
    let not_back = steerer.end(&mut link, config.steer.keep);
    not_back.iter().for_each(|line| output.tell_error(&Entry::new(Level::Error, "not_put_back", line)));
    worked?;
    let reports = steerer.reports();
    let is_interrupted = is_cut_short(config.steer.duration.is_some());
    let json = serde_json::json!({
        "queues": reports, "kept": config.steer.keep, "not_put_back": not_back, "interrupted": is_interrupted,
    });
    output.result(&json, || {
        let line = |r: &weir_kernel::Report| {
            format!(
                "{} {} {}: {} changes, target {:.3} .. {:.3} ms, {} signals, {} used{}",
                r.interface,
                r.kind,
                r.handle,
                r.changes,
                r.target_min_ms,
                r.target_max_ms,
                r.signals,
                r.utilization.map_or("nothing".into(), |u| format!("{:.1} %", 100.0 * u)),
                r.left.as_ref().map_or(String::new(), |left| format!("; left: {left}"))
            )
        };
        reports.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    let is_bad = !not_back.is_empty() || reports.iter().all(|r| r.left.is_some());
    Ok(exit_status(is_bad, is_interrupted))
}

/// Until it is stopped, the time is over, or nothing is left to be steered.
fn steer(
    steerer: &mut Steerer,
    link: &mut Link,
    watched: &mut Watched,
    stop: &AtomicBool,
    desk: &mut Desk,
    output: &Output,
) -> Result<(), Failure> {
    // Nobody who does not read holds up what is steered.
    let mut speaker = Speaker::new(*output);
    let start = Instant::now();
    let mut answered = start;
    let mut news = Vec::new();
    while !stop.load(Ordering::Relaxed) && !steerer.is_done() && !desk.is_draining() {
        let options = &watched.config().steer;
        let period = Duration::from_nanos(options.period.as_nanos());
        let end = options.duration.map(|d| Duration::from_nanos(d.as_nanos()));
        let began = Instant::now();
        let elapsed = began - start;
        if end.is_some_and(|end| elapsed >= end) {
            break;
        }
        let now = Time::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        match steerer.turn(link, now, &mut |one| news.push(one)) {
            Ok(()) => {
                answered = began;
                desk.alive();
            }
            Err(e) if began - answered > SILENCE_MAX => return Err(e.into()),
            Err(_) => {}
        }
        for one in news.drain(..) {
            speaker.say(told(&one));
            watched.moved(steerer, &one);
        }
        if let Some(status) = watched.tell(steerer, now) {
            desk.stands(&status);
        }
        let took = began.elapsed();
        let next = period.max(took.saturating_mul(BUSY_MAX)).min(LOOK_MAX);
        // Where looks take very long, half of the time is left to others and to what is asked for.
        let rest = next.saturating_sub(took).max(took.min(LOOK_MAX));
        let lines = desk.serve(&mut watched.asked(steerer, now), rest);
        lines.into_iter().for_each(|entry| speaker.say(entry));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<SteerConfig, String> {
        let words = [&["steer"], words].concat();
        configuration(&Program::try_parse_from(words).unwrap().arguments)
            .map(|(config, _)| config)
            .map_err(|e| e.text().to_string())
    }

    #[test]
    fn a_device_with_flags_is_a_configuration() {
        let config =
            parsed(&["eth0", "--target-max", "10ms", "--rate", "5Mbit/s", "--handle", "1a:", "--keep"])
                .unwrap();
        assert_eq!(config.queues[0].interface, "eth0");
        assert_eq!((config.queues[0].rate, config.queues[0].major()), (Some(Rate::from_mbps(5)), Some(0x1a)));
        assert_eq!(
            config.policy_of(&config.queues[0], None).target_max,
            weir_units::Duration::from_millis(10)
        );
        assert!(config.steer.keep);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_key() {
        assert!(parsed(&["eth 0"]).unwrap_err().contains("interface"));
        assert!(parsed(&["eth0", "--target-max", "10"]).unwrap_err().contains("target_max"));
        assert!(parsed(&["eth0", "--handle", "10"]).unwrap_err().contains("handle"));
        let both = parsed(&["eth0", "--utilization-target", "95%"]).unwrap_err();
        assert!(both.contains("utilization_low") && both.contains("raise"), "{both}");
        assert!(parsed(&["x.toml", "--rate", "5Mbit/s"]).unwrap_err().contains("[[queues]]"));
    }
}
