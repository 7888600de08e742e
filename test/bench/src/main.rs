//! Measures Weir beside other people's programs on the same machine; see the README of this crate.

mod delay;
mod error;
mod forwarding;
mod instructions;
mod queues;
mod rows;
mod sensing;
mod sessions;
mod shaper;
mod sim;
mod tools;
mod traffic;
mod users;
mod wire;

use instructions::workload::PERIOD;
use rows::{Machine, Row, Verdict};
use std::process::ExitCode;

#[global_allocator]
static COUNTING: sim::memory::Counting = sim::memory::Counting;

const USAGE: &str = "\
weir-bench <part> [--json] [--quick]

parts:
  all            everything below
  instructions   instructions and nanoseconds of a packet, beside DPDK's RED and PIE
  ceilings       instructions where signals happen, alone: what the tests check
  sim            speed and size of the simulator, beside ns-2
  users          a packet among 100 000 users, and an idle user
  sessions       sessions of a 5G user-plane function: established in a second, and an idle one
  queues         10 000 queueing disciplines of the kernel decoded
  forwarding     unshaped forwarding beside DPDK's testpmd (root)
  sensing        unshaped forwarding with probes beside it without (root)
  shaper         delivered rate of the shaper (root)
  delay          error of the delay line (root)

options:
  --json         results as JSON
  --quick        short and few runs, to see whether it works

The result is 1 if something that is required was missed.";

/// What was asked for.
struct Options {
    json: bool,
    quick: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "packets" => return for_itself(instructions::packets(rest)),
        Some((first, rest)) if first == "tunnels" => return for_itself(instructions::tunnels(rest)),
        Some((first, rest)) if first == "probes" => return for_itself(instructions::probes(rest)),
        _ => {}
    }
    let (flags, parts): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|a| a.starts_with("--"));
    let known = flags.iter().all(|f| ["--json", "--quick"].contains(f));
    let options = Options { json: flags.contains(&"--json"), quick: flags.contains(&"--quick") };
    match parts[..] {
        [part] if known => measure(part, &options),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Prints what a run of this program for itself found.
fn for_itself(line: error::Result<String>) -> ExitCode {
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("weir-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(part: &str, options: &Options) -> ExitCode {
    let machine = Machine::this();
    let live = ["all", "forwarding", "sensing", "shaper", "delay"].contains(&part);
    let rows = match part {
        _ if live && !weir_lab::host::is_root() && part != "all" => {
            vec![Row::skipped("all", part, "network namespaces need root: run it with sudo")]
        }
        "all" => all(options),
        "instructions" => instructions(options),
        "ceilings" => instructions::ceilings(),
        "sim" => sim(options),
        "users" => users(options),
        "sessions" => sessions(options),
        "queues" => queues::run(if options.quick { 3 } else { 21 }),
        "forwarding" => forwarding(options),
        "sensing" => sensing(options),
        "shaper" => shaper::run(seconds(options)),
        "delay" => delay::run(seconds(options)),
        _ => return usage(),
    };
    tell(&machine, &rows, options);
    let missed = |r: &Row| matches!(r.verdict, Verdict::Missed | Verdict::Failed);
    if rows.iter().any(missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn all(options: &Options) -> Vec<Row> {
    let mut rows = instructions(options);
    rows.extend(sim(options));
    rows.extend(users(options));
    rows.extend(sessions(options));
    rows.extend(queues::run(if options.quick { 3 } else { 21 }));
    if weir_lab::host::is_root() {
        rows.extend(forwarding(options));
        rows.extend(sensing(options));
        rows.extend(shaper::run(seconds(options)));
        rows.extend(delay::run(seconds(options)));
    } else {
        for part in ["forwarding", "sensing", "shaper", "delay"] {
            rows.push(Row::skipped(part, "everything", "network namespaces need root: run it with sudo"));
        }
    }
    rows
}

fn instructions(options: &Options) -> Vec<Row> {
    instructions::run(if options.quick { PERIOD } else { 2 * PERIOD })
}

fn sim(options: &Options) -> Vec<Row> {
    let (rounds, seconds) = if options.quick { (1, 10) } else { (5, 30) };
    sim::run(sim::Options { rounds, seconds })
}

fn users(options: &Options) -> Vec<Row> {
    users::run(if options.quick { 100_000 } else { 2_000_000 })
}

fn sessions(options: &Options) -> Vec<Row> {
    sessions::run(if options.quick { 10_000 } else { 100_000 })
}

fn forwarding(options: &Options) -> Vec<Row> {
    let (rounds, seconds) = if options.quick { (1, 1) } else { (9, 3) };
    forwarding::run(forwarding::Options { rounds, seconds })
}

fn sensing(options: &Options) -> Vec<Row> {
    let (rounds, seconds) = if options.quick { (1, 1) } else { (9, 4) };
    sensing::run(forwarding::Options { rounds, seconds })
}

fn seconds(options: &Options) -> u32 {
    if options.quick { 2 } else { 10 }
}

fn tell(machine: &Machine, rows: &[Row], options: &Options) {
    if options.json {
        println!("{}", serde_json::json!({ "machine": machine, "rows": rows }));
    } else {
        println!("{}", rows::table(machine, rows));
    }
    for row in rows.iter().filter(|r| r.verdict == Verdict::Skipped) {
        eprintln!("SKIPPED {}: {}: {}", row.part, row.what, row.note);
    }
}
