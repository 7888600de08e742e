//! How fast and how small the simulator is, beside ns-2 in the same run.

pub mod memory;
mod scenarios;
mod sweep;

use crate::error::{Error, Result};
use crate::rows::{Row, all, median};
use crate::tools;
use crate::wire::alone;
use scenarios::{LARGE, SMALL, TEN, TWENTY};
use std::ops::ControlFlow;
use std::process::Command;
use std::time::Instant;
use weir_config::Scenario;

const PART: &str = "sim";
/// Packets per second through the bottleneck, in millions, with twenty flows.
const LEAST_MILLIONS: f64 = 5.0;
/// Times as many as ns-2, in the same dumbbell.
const LEAST_OF_PEER: f64 = 15.0;
/// Times as fast as the wall, at 10 Gbit/s.
const LEAST_OF_REAL_TIME: f64 = 4.0;
/// Cost of a packet with ten thousand flows, of that with two.
const MOST_GROWTH: f64 = 2.0;
/// Bytes of an open flow that waits, both ends, application and timers included.
const MOST_IDLE_BYTES: f64 = 1024.0;
/// Gain of a second thread in a sweep of independent runs.
const LEAST_GAIN: f64 = 1.8;
/// Idle flows that are counted.
const IDLE_FLOWS: u32 = 10_000;

/// A form of the dumbbell in ns-2: see `peers/ns2_dumbbell.tcl`.
struct Form {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Whether Weir has to be so much faster than it.
    required: bool,
}

const FORMS: [Form; 3] = [
    Form { name: "ns-2 as installed", arguments: &["hosts", "all"], required: true },
    Form { name: "ns-2, only the headers used", arguments: &["hosts"], required: false },
    Form { name: "ns-2, only the headers used, no hosts", arguments: &["bare"], required: false },
];

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rounds; each measures everybody once.
    pub rounds: u32,
    /// Simulated seconds of the scenario that ns-2 runs as well.
    pub seconds: u32,
}

/// What came of one run.
struct Timed {
    wall_s: f64,
    packets: u64,
    simulated_s: f64,
}

impl Timed {
    fn millions_per_s(&self) -> f64 {
        self.packets as f64 / self.wall_s / 1e6
    }

    fn ns_per_packet(&self) -> f64 {
        self.wall_s / self.packets.max(1) as f64 * 1e9
    }
}

/// Measures everything, on one processor but for the sweep.
pub fn run(options: Options) -> Vec<Row> {
    // Without the right to lock there is nobody to wait for who measures live links.
    let _alone = alone().ok();
    let mut rows = on_one_processor(|| {
        let mut rows = beside_ns2(options);
        rows.push(real_time(options.rounds));
        rows.extend(growth(options.rounds));
        rows.push(idle());
        rows
    });
    rows.push(sweep::row(options.rounds));
    rows
}

/// Runs `body`, and what it starts, on the last processor that this program may use.
fn on_one_processor(body: impl FnOnce() -> Vec<Row> + Send) -> Vec<Row> {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            let last = weir_lab::host::cpus().allowed.last().copied();
            if let Err(error) = weir_lab::set_affinity(&Vec::from_iter(last)) {
                return vec![Row::failed(PART, "one processor", error.to_string())];
            }
            body()
        });
        pinned.join().unwrap_or_else(|_| vec![Row::failed(PART, "everything", "a run panicked")])
    })
}

/// Runs a scenario once. Its text is this program's own.
fn timed(text: &str, seed: u64) -> Result<Timed> {
    let scenario = Scenario::parse("bench", text).map_err(|e| Error::new(e.to_string()))?;
    let begin = Instant::now();
    let outcome = weir_sim::run(&scenario, seed, &mut |_| ControlFlow::Continue(()))?;
    let wall_s = begin.elapsed().as_secs_f64();
    Ok(Timed { wall_s, packets: outcome.counts.hops, simulated_s: scenario.run.duration.as_secs_f64() })
}

/// Several runs of the same scenario.
fn repeated(name: &str, text: &str, rounds: u32) -> Result<Vec<Timed>> {
    (0..rounds)
        .map(|round| {
            let run = timed(text, 1)?;
            eprintln!("sim: {name}: round {round}: {:.1} ns per packet", run.ns_per_packet());
            Ok(run)
        })
        .collect()
}

/// Packets of a run of a form, and the values of the rounds.
struct Peer {
    form: Form,
    packets: Result<f64>,
    millions: Vec<f64>,
}

impl Peer {
    fn new(form: Form, seconds: u32) -> Peer {
        let packets = ns2(seconds, "count", form.arguments);
        Peer { form, packets, millions: Vec::new() }
    }

    fn round(&mut self, seconds: u32) {
        let Ok(packets) = self.packets else { return };
        match ns2(seconds, "time", self.form.arguments) {
            Ok(wall_s) => self.millions.push(packets / wall_s / 1e6),
            Err(error) => self.packets = Err(error),
        }
    }
}

/// The number that the peer's script prints.
fn ns2(seconds: u32, what: &str, form: &[&str]) -> Result<f64> {
    let script = tools::peers().join("ns2_dumbbell.tcl");
    let mut command = Command::new(tools::program("ns")?);
    let (out, _) = tools::output(command.arg(script).args([&seconds.to_string(), what]).args(form))?;
    // Its agents print what they were told as well.
    let number = out.lines().find_map(|line| line.trim().parse().ok());
    number.ok_or_else(|| Error::new(format!("ns-2 printed no number but: {}", out.trim())))
}

/// The same dumbbell in turns, so that what else the machine does hits all alike.
fn beside_ns2(options: Options) -> Vec<Row> {
    let what = format!("20 CUBIC flows, CoDel, 1 Gbit/s, 50 ms, {} s", options.seconds);
    let text = TWENTY.replace("SECONDS", &options.seconds.to_string());
    let missing = tools::program("ns").err().map(|e| e.to_string());
    let mut peers: Vec<Peer> = match &missing {
        Some(_) => Vec::new(),
        None => FORMS.into_iter().map(|form| Peer::new(form, options.seconds)).collect(),
    };
    let mut weir = Vec::new();
    for round in 0..options.rounds {
        match timed(&text, 1) {
            Ok(run) => weir.push(run.millions_per_s()),
            Err(error) => return vec![Row::failed(PART, what, error.to_string())],
        }
        peers.iter_mut().for_each(|p| p.round(options.seconds));
        let last = |v: &Vec<f64>| v.last().copied().unwrap_or(f64::NAN);
        let others: Vec<f64> = peers.iter().map(|p| last(&p.millions)).collect();
        eprintln!("sim: 20 flows: round {round}: Weir {:.2}, ns-2 {}", last(&weir), all(&others));
    }
    let mut rows = vec![speed(format!("{what}: Weir"), &weir).at_least(LEAST_MILLIONS)];
    match missing {
        Some(why) => rows.push(Row::skipped(PART, "Weir / ns-2", why)),
        None => rows.extend(peers.iter().flat_map(|peer| compare(&what, &weir, peer))),
    }
    rows
}

fn speed(what: String, millions: &[f64]) -> Row {
    Row::told(PART, what, median(millions), "million packets/s")
        .times(millions.len() as u32)
        .note(format!("rounds: {}", all(millions)))
}

fn compare(what: &str, weir: &[f64], peer: &Peer) -> Vec<Row> {
    let name = peer.form.name;
    if let Err(error) = &peer.packets {
        return vec![Row::failed(PART, format!("Weir / {name}"), error.to_string())];
    }
    let ratio = median(weir) / median(&peer.millions);
    let ratio = Row::told(PART, format!("Weir / {name}"), ratio, "").times(weir.len() as u32).beside(name);
    let ratio = if peer.form.required { ratio.at_least(LEAST_OF_PEER) } else { ratio };
    vec![speed(format!("{what}: {name}"), &peer.millions), ratio.note("ns-2 has no CoDel: adaptive RED")]
}

fn real_time(rounds: u32) -> Row {
    let what = "36 CUBIC flows, GSP steered, 10 Gbit/s: times real time";
    match repeated("36 flows at 10 Gbit/s", TEN, rounds) {
        Ok(runs) => {
            let times: Vec<f64> = runs.iter().map(|r| r.simulated_s / r.wall_s).collect();
            let note = format!("rounds: {}", all(&times));
            Row::told(PART, what, median(&times), "").at_least(LEAST_OF_REAL_TIME).times(rounds).note(note)
        }
        Err(error) => Row::failed(PART, what, error.to_string()),
    }
}

/// The cost of a packet with two flows and with ten thousand, at 100 Gbit/s.
fn growth(rounds: u32) -> Vec<Row> {
    let costs = |name: &str, text: &str| -> Result<Vec<f64>> {
        let runs = repeated(name, text, rounds)?;
        Ok(runs.iter().map(Timed::ns_per_packet).collect())
    };
    let measured = || -> Result<_> { Ok((costs("2 flows", SMALL)?, costs("10 000 flows", LARGE)?)) };
    let what = "10 000 flows at 100 Gbit/s: cost of a packet, of that with 2 flows";
    match measured() {
        Ok((few, many)) => {
            let row = |what: &str, ns: &[f64]| {
                let note = format!("rounds: {}", all(ns));
                Row::told(PART, what, median(ns), "ns per packet").times(rounds).note(note)
            };
            let growth = Row::told(PART, what, median(&many) / median(&few), "").at_most(MOST_GROWTH);
            vec![
                row("2 flows, CoDel, 100 Gbit/s, 20 ms", &few),
                row("10 000 flows, CoDel, 100 Gbit/s, 20 ms", &many),
                growth.times(rounds),
            ]
        }
        Err(error) => vec![Row::failed(PART, what, error.to_string())],
    }
}

fn idle() -> Row {
    let what = format!("{IDLE_FLOWS} idle flows: bytes of each");
    let held = |count| memory::held_by(&scenarios::idle(count));
    match (held(1), held(IDLE_FLOWS)) {
        (Ok(one), Ok(many)) => {
            let each = (many - one) as f64 / f64::from(IDLE_FLOWS - 1);
            let note = "open connections that loaded 1 kB and wait, with application and timers";
            Row::told(PART, what, each, "B").at_most(MOST_IDLE_BYTES).note(note)
        }
        (Err(error), _) | (_, Err(error)) => Row::failed(PART, what, error.to_string()),
    }
}
