//! `weir run --in-kernel`: the virtual queue as a BPF program, or the queue itself, steered.

use crate::control::in_kernel::Watched;
use crate::control::{Desk, Doors, Source};
use crate::interrupt::{HangUp, interrupted, is_cut_short};
use crate::log::{Entry, Level};
use crate::output::{Done, Failure, Output, exit_status};
use crate::speaker::Speaker;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_config::{Document, Errors, RunConfig};
use weir_dataplane::{clock, privileges};
use weir_kernel::{Egress, EgressError, EgressReport, EgressSetup, JOURNALS, Journal, Link, restore_dead};

/// What the kernel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum InKernel {
    /// It keeps a virtual queue; packets pass.
    VirtualQueue,
    /// It has the queue, with a shaper.
    Queue,
}

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(10);

fn wrong(e: EgressError) -> Failure {
    match e {
        EgressError::NoInterface(_) | EgressError::Policy(_) | EgressError::Taken { .. } => {
            Failure::Input(e.to_string())
        }
        _ => Failure::Failed(e.to_string()),
    }
}

/// What the directions of the configuration ask for; `document` is where it was written.
fn planned(
    (config, document): (&RunConfig, &Document),
    what: InKernel,
    keep: bool,
) -> Result<Vec<(&'static str, EgressSetup)>, Errors> {
    // `fail_open.keep_forwarding` asks for what is so anyway: the kernel forwards all the time.
    let useless = [
        ("sense", !config.sense.is_empty(), "nobody would send probes with --in-kernel"),
        (
            "run.out",
            config.run.out.is_some(),
            "results are printed at the end with --in-kernel, as data with --json",
        ),
    ];
    if let Some((key, _, why)) = useless.iter().find(|(_, is_given, _)| *is_given) {
        return Err(document.refuse(key, *why, "leave it out"));
    }
    let directions =
        [("a_to_b", &config.a_to_b, &config.ports.b), ("b_to_a", &config.b_to_a, &config.ports.a)];
    let mut setups = Vec::new();
    for (name, channel, port) in directions {
        let setup = EgressSetup::of(name, channel, port, keep, what == InKernel::Queue);
        let setup = setup.map_err(|unfit| document.refuse(&unfit.key, unfit.problem, unfit.remedy))?;
        setups.extend(setup.map(|setup| (name, setup)));
    }
    if setups.is_empty() {
        let why = "has no rate with an algorithm, nor has `b_to_a`, so that --in-kernel has nothing to do";
        return Err(document.refuse("a_to_b", why, "docs/kernel-queues.md has an example"));
    }
    Ok(setups)
}

fn line(r: &EgressReport) -> String {
    let share = |s: Option<f64>| s.map_or("nothing".into(), |s| format!("{:.1} %", 100.0 * s));
    let left = r.left.as_ref().map_or(String::new(), |left| format!("; left: {left}"));
    let queue = match &r.queue {
        Some(queue) => format!("target {:.2} ms, {} packets found no room", r.target_ms, queue.overflows),
        None => format!("virtual queue at {:.1} Mbit/s", r.virtual_bps as f64 / 1e6),
    };
    format!(
        "{}: {} packets, {} of {:.1} Mbit/s used; {queue}, {} signals, {} drops{left}",
        r.interface,
        r.packets,
        share(r.utilization),
        r.rate_bps as f64 / 1e6,
        r.signals,
        r.drops
    )
}

/// Takes the programs off, or leaves them where they are kept. Says what was not put back; the journal stays
/// for the next start then, as it does where none is given.
fn end(egresses: &mut [Egress], link: &mut Link, journal: Option<Journal>, output: &Output) -> Vec<String> {
    let not_back: Vec<String> = egresses.iter_mut().filter_map(|egress| egress.end(link)).collect();
    not_back.iter().for_each(|line| output.tell_error(&Entry::new(Level::Error, "not_put_back", line)));
    if not_back.is_empty() {
        journal.into_iter().for_each(Journal::remove);
    }
    not_back
}

/// Runs until it is stopped, the time is over, or nothing is left.
pub fn main((config, source): (&RunConfig, Source), what: InKernel, keep: bool, output: &Output) -> Done {
    let setups = planned((config, source.document()), what, keep).map_err(Failure::input)?;
    // From here on Ctrl-C ends the run in order.
    let hangup = HangUp::listen();
    let metrics = ("run.metrics", config.run.metrics.as_deref());
    let mut doors = Doors::open(metrics, ("run.page", config.run.page.as_deref()), false)?;
    let mut link = Link::open()?;
    let journals = Path::new(JOURNALS);
    for line in restore_dead(journals, &mut link) {
        output.tell(&Entry::warn("put_back", format!("after a killed run: {line}")));
    }
    let mut journal = Journal::open(journals)?;
    let mut egresses: Vec<Egress> = Vec::new();
    let names: Vec<&'static str> = setups.iter().map(|(name, _)| *name).collect();
    for (_, setup) in setups {
        let name = setup.interface.clone();
        match Egress::attach(setup, &mut link, &mut journal, clock()) {
            Ok(egress) => egresses.push(egress),
            Err(e) => {
                let is_back = !matches!(e, EgressError::NotPutBack { .. });
                end(&mut egresses, &mut link, is_back.then_some(journal), output);
                return Err(wrong(e));
            }
        }
        let open = match what {
            InKernel::VirtualQueue => format!("{name}: the kernel keeps a virtual queue for what leaves"),
            InKernel::Queue => format!("{name}: what leaves waits in a queue in BPF, at its root"),
        };
        output.tell(&Entry::info("open", open).with("port", name));
    }
    journal.started();
    doors.listen().into_iter().for_each(|line| output.tell(&Entry::warn("control", line)));
    let readable = source.folders();
    let (mode, after) = match (what, keep) {
        (InKernel::VirtualQueue, false) => ("virtual queue in the kernel", "the program is taken off"),
        (InKernel::Queue, false) => ("queue in the kernel", "the queue is taken off"),
        (InKernel::VirtualQueue, true) => ("virtual queue in the kernel", "the program stays as it is"),
        (InKernel::Queue, true) => ("queue in the kernel", "the queue stays as it is"),
    };
    let again =
        Box::new(move |config: &RunConfig, document: &Document| planned((config, document), what, keep));
    let mut watched = Watched::new((config, again), &names, (mode, after), clock());
    // To look whether the programs are still there, and to take them off.
    let kept = [privileges::QUEUES, privileges::PROGRAMS];
    let opened = || -> Result<Desk, Failure> {
        privileges::keep(&[&kept[..], &privileges::USERS].concat())?;
        privileges::confine(&[journals.to_path_buf()], &readable)
            .iter()
            .for_each(|line| output.tell(&Entry::info("privileges", line)));
        let desk = watched.open(doors, source, hangup)?;
        privileges::keep(&kept)?;
        Ok(desk)
    };
    let desk = match opened() {
        Ok(desk) => desk,
        Err(failure) => {
            end(&mut egresses, &mut link, Some(journal), output);
            return Err(failure);
        }
    };
    follow((&mut watched, desk), &mut egresses, &mut link, config.run.duration, output);
    let not_back = end(&mut egresses, &mut link, Some(journal), output);
    let reports: Vec<EgressReport> = egresses.iter().map(Egress::report).collect();
    let is_interrupted = is_cut_short(config.run.duration.is_some());
    let json = serde_json::json!({
        "egress": reports, "kept": keep, "not_put_back": not_back, "interrupted": is_interrupted,
    });
    output.result(&json, || reports.iter().map(line).collect::<Vec<_>>().join("\n"));
    let is_bad = !not_back.is_empty() || egresses.iter().all(Egress::is_left);
    Ok(exit_status(is_bad, is_interrupted))
}

/// Looks and answers until it is stopped, the time is over, or nothing is left.
fn follow(
    (watched, mut desk): (&mut Watched, Desk),
    egresses: &mut [Egress],
    link: &mut Link,
    duration: Option<weir_units::Duration>,
    output: &Output,
) {
    let stop = interrupted();
    // Nobody who does not read holds up what is steered.
    let mut speaker = Speaker::new(*output);
    desk.begin();
    let until = duration.map(|duration| clock() + duration);
    while !stop.load(Ordering::Relaxed) && !egresses.iter().all(Egress::is_left) && !desk.is_draining() {
        let now = clock();
        if until.is_some_and(|until| now >= until) {
            break;
        }
        for egress in &mut *egresses {
            if let Some(why) = egress.turn(now, link) {
                speaker.say(Entry::warn("left", format!("left as it is: {why}")));
            }
        }
        desk.alive();
        if let Some(status) = watched.tell(egresses, now) {
            desk.stands(&status);
        }
        let lines = desk.serve(&mut watched.asked(egresses, now), PERIOD);
        lines.into_iter().for_each(|line| speaker.say(line));
    }
    desk.close();
}
