//! The program `weir`: one file for each verb. This crate alone prints.
//!
//! It is a library so that a crate of one's own can be this program with an algorithm more. Its `main` is
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     weir_cli::main()
//! }
//! ```
//!
//! and its algorithm the file that `WEIR_ALGORITHM` names when it is built (`docs/own-algorithm.md`).

mod capture;
#[cfg(feature = "live")]
mod control;
#[cfg(feature = "live")]
mod differences;
#[cfg(feature = "live")]
mod growing;
mod interrupt;
#[cfg(feature = "live")]
mod live;
mod log;
mod made;
#[cfg(feature = "live")]
mod ns3;
#[cfg(feature = "live")]
mod opening;
mod output;
mod progress;
mod results;
mod runs;
#[cfg(feature = "live")]
mod service;
#[cfg(feature = "live")]
mod sessions;
mod simulate;
#[cfg(feature = "live")]
mod speaker;
mod studies;
mod sweep;
mod verbs;
mod warmup;

use clap::{CommandFactory, Parser, Subcommand};
use output::Output;
use std::process::ExitCode;

/// Keeps queues short: forwards a link, steers its queue to your policy, and shows what that costs.
///
/// Start with `weir sim data/scenarios/demo.toml`, which computes what flows do to a link. The Debian package
/// has `data` and `docs` in /usr/share/doc/weir.
#[cfg_attr(
    feature = "live",
    doc = "Then `weir doctor` says what this machine can do, and `weir lab data/scenarios/demo.toml` lets real TCP flows \
           share a link made of network namespaces."
)]
#[derive(Parser)]
#[command(name = "weir", version, propagate_version = true, after_help = EXAMPLES)]
struct Arguments {
    /// Print one JSON object on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    json: bool,
    /// Tell the log from this level on, as records on standard error; docs/operation.md says of what.
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    log: Option<log::Level>,
    #[command(subcommand)]
    verb: Verb,
}

#[cfg(feature = "live")]
const EXAMPLES: &str = "Examples:
  weir doctor                                   what this machine can do, and how to get the rest
  weir list                                     the algorithms
  weir explain gsp                              what one does, its parameters, units and ranges
  weir check data/scenarios/demo.toml           validate a scenario or configuration
  weir sim data/scenarios/demo.toml             run it in the simulator
  weir sweep my.toml --seeds 5                  every combination of its [sweep], on all cores
  weir plot out/sweep                           a figure of it for a paper: PDF, SVG, CSV, LaTeX
  weir tune my.toml                             parameters of the policy, searched with Optuna (Python)
  weir lab data/scenarios/demo.toml             run it with real TCP in network namespaces (root)
  weir compare data/scenarios/codel_smoke.toml  how far the two are apart (root; `--with ns3`: without)
  weir init bridge.toml                         write a configuration: asks, and looks at the machine
  weir run bridge.toml                          forward between two interfaces (root)
  weir ctl status                               how running links stand; `weir ctl set` changes them (root)
  weir steer eth0 --target-max 20ms             hold the kernel's queue to a policy (root)
  weir reflect --interface eth0 --peer ADDRESS  turn the probes of another `weir run` around (root)
  weir upf upf.toml                             a 5G user-plane function: sessions over PFCP (root)
  weir characterize codel                       what an algorithm is good at and where it breaks (RFC 7928)
  weir reproduce steering --figure 5 --arm lab  the experiment of a paper, claim by claim
  weir reproduce avq --experiment 2             that of another one, simulated

Exit status: 0 done, 1 failed or a claim missed, 2 wrong arguments or input, 130 interrupted.";

#[cfg(not(feature = "live"))]
const EXAMPLES: &str = "Examples:
  weir list                                     the algorithms
  weir explain gsp                              what one does, its parameters, units and ranges
  weir check data/scenarios/demo.toml           validate a scenario or configuration
  weir sim data/scenarios/demo.toml             run it in the simulator
  weir sweep my.toml --seeds 5                  every combination of its [sweep], on all cores
  weir plot out/sweep                           a figure of it for a paper: PDF, SVG, CSV, LaTeX
  weir tune my.toml                             parameters of the policy, searched with Optuna (Python)
  weir characterize codel                       what an algorithm is good at and where it breaks (RFC 7928)
  weir reproduce steering --figure 5 --arm sim  the experiment of a paper, claim by claim
  weir reproduce avq --experiment 2             that of another one

This program was made without what works on live links (`init`, `run`, `ctl`, `steer`, `upf`, `reflect`, `lab`,
`compare`, `doctor`): it needs Linux and clang.

Exit status: 0 done, 1 failed or a claim missed, 2 wrong arguments or input, 130 interrupted.";

#[derive(Subcommand)]
enum Verb {
    #[cfg(feature = "live")]
    /// Forward between two interfaces under a configuration, until stopped.
    Run(verbs::run::Arguments),
    #[cfg(feature = "live")]
    /// Look at running programs and change them: status, policy, rates, configuration.
    Ctl(verbs::ctl::Arguments),
    #[cfg(feature = "live")]
    /// Hold queues of the kernel to a policy by moving their targets, until stopped.
    Steer(verbs::steer::Arguments),
    #[cfg(feature = "live")]
    /// Turn the probes of a `weir run` with `[sense]` around, until stopped.
    Reflect(verbs::reflect::Arguments),
    #[cfg(feature = "live")]
    /// Be a 5G user-plane function: sessions over PFCP, tunnels over GTP-U, a queue for each QoS flow.
    Upf(verbs::upf::Arguments),
    #[cfg(feature = "live")]
    /// Run a scenario on this machine with real TCP, in network namespaces.
    Lab(verbs::lab::Arguments),
    /// Run a scenario in the simulator.
    Sim(verbs::sim::Arguments),
    /// Run every combination and seed of a scenario in the simulator, on all cores; can be resumed.
    Sweep(verbs::sweep::Arguments),
    /// Draw figures for papers from results: PDF, SVG, CSV and LaTeX.
    Plot(Box<verbs::plot::Arguments>),
    /// Write results as data files of Flent.
    Export(verbs::export::Arguments),
    /// Search the open parameters of the steering law over scenarios; takes the Python package.
    Tune(verbs::tune::Arguments),
    /// Run a scenario in the simulator and with real TCP or in ns-3, and say how far the two are apart.
    #[cfg(feature = "live")]
    Compare(verbs::compare::Arguments),
    /// List the algorithms, and the congestion controls of the simulator.
    List(verbs::list::Arguments),
    /// Explain an algorithm or the policy: what it does, its parameters, units, ranges and source.
    Explain(verbs::explain::Arguments),
    /// Validate a scenario or a configuration and say what is in force.
    Check(verbs::check::Arguments),
    #[cfg(feature = "live")]
    /// Say what this machine can do, what is missing and how to get it.
    Doctor(verbs::doctor::Arguments),
    #[cfg(feature = "live")]
    /// Write a configuration of `run` with comments, from what is asked and found.
    Init(verbs::init::Arguments),
    /// Run the experiments of RFC 7928 with an algorithm: what it is good at, and where it breaks.
    Characterize(verbs::characterize::Arguments),
    /// Repeat the experiment of a paper and print each of its claims as held or missed.
    Reproduce(verbs::reproduce::Arguments),
    /// Print a script with which a shell completes arguments.
    Completions(verbs::completions::Arguments),
    /// Write manual pages.
    Man(verbs::man::Arguments),
}

/// Does what the arguments of the process ask for, and returns its exit status.
pub fn main() -> ExitCode {
    // A file that may not grow is an error of the write, which is told as a full disk is, and no end without
    // a word.
    #[cfg(unix)]
    // SAFETY: nothing runs at that signal.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        #[cfg(not(feature = "live"))]
        Err(e) if is_live_verb(&e) => {
            let told = "this program was made without live links, which take Linux and clang. Remedy: `make build`, and \
                        target/release/weir";
            return Output::new(asks_for_json()).failed(&output::Failure::Input(told.into()));
        }
        Err(e) => return refuse(&e),
    };
    let output = Output::new(arguments.json).logging(arguments.log);
    let result = match arguments.verb {
        #[cfg(feature = "live")]
        Verb::Run(a) => verbs::run::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Ctl(a) => verbs::ctl::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Steer(a) => verbs::steer::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Reflect(a) => verbs::reflect::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Upf(a) => verbs::upf::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Lab(a) => verbs::lab::main(a, &output),
        Verb::Sim(a) => verbs::sim::main(a, &output),
        Verb::Sweep(a) => verbs::sweep::main(a, &output),
        Verb::Plot(a) => verbs::plot::main(*a, &output),
        Verb::Export(a) => verbs::export::main(a, &output),
        Verb::Tune(a) => verbs::tune::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Compare(a) => verbs::compare::main(a, &output),
        Verb::List(a) => verbs::list::main(a, &output),
        Verb::Explain(a) => verbs::explain::main(a, &output),
        Verb::Check(a) => verbs::check::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Doctor(a) => verbs::doctor::main(a, &output),
        #[cfg(feature = "live")]
        Verb::Init(a) => verbs::init::main(a, &output),
        Verb::Completions(a) => verbs::completions::main(a, Arguments::command(), &output),
        Verb::Man(a) => verbs::man::main(a, Arguments::command(), &output),
        Verb::Characterize(a) => verbs::characterize::main(a, &output),
        Verb::Reproduce(a) => verbs::reproduce::main(a, &output),
    };
    let status = result.unwrap_or_else(|failure| output.failed(&failure));
    if output::is_lost() && status == ExitCode::SUCCESS { ExitCode::FAILURE } else { status }
}

/// Whether a verb was asked for that the program with live links has.
#[cfg(not(feature = "live"))]
fn is_live_verb(e: &clap::Error) -> bool {
    const VERBS: [&str; 9] = ["compare", "ctl", "doctor", "init", "lab", "reflect", "run", "steer", "upf"];
    let verb = e.get(clap::error::ContextKind::InvalidSubcommand);
    matches!(verb, Some(clap::error::ContextValue::String(verb)) if VERBS.contains(&verb.as_str()))
}

/// Whether the arguments, wrong as they may be, ask for one JSON object.
fn asks_for_json() -> bool {
    std::env::args_os().take_while(|a| a != "--").any(|a| a == "--json")
}

/// Says what is wrong with the arguments: to people as they are used to, and to programs that asked for it as
/// one object. A question for help or the version is answered.
fn refuse(e: &clap::Error) -> ExitCode {
    // Standard error may be closed.
    let _ = e.print();
    if e.use_stderr() && asks_for_json() {
        let text = e.render().to_string();
        // How the verb is used is for people.
        let problem = text.split("\n\nUsage:").next().unwrap_or(&text);
        let problem = problem.strip_prefix("error: ").unwrap_or(problem);
        Output::new(true).print(serde_json::json!({ "error": problem.trim() }));
    }
    u8::try_from(e.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
