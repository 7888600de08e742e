//! The program `weir`: one file for each verb. This crate alone prints.

mod live;
mod output;
mod verbs;

use clap::{Parser, Subcommand};
use output::Output;
use std::process::ExitCode;

/// Keeps queues short: forwards a link, steers its queue to your policy, and shows what that costs.
///
/// Start with `weir doctor`, which says what this machine can do, and `weir lab scenarios/demo.toml`, which
/// lets real TCP flows share a link made of network namespaces.
#[derive(Parser)]
#[command(name = "weir", version, propagate_version = true, after_help = EXAMPLES)]
struct Arguments {
    /// Print one JSON object on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  weir doctor                                   what this machine can do, and how to get the rest
  weir list                                     the algorithms
  weir explain gsp                              what one does, its parameters, units and ranges
  weir check scenarios/demo.toml                validate a scenario or configuration
  weir lab scenarios/demo.toml                  run it with real TCP in network namespaces (root)
  weir run bridge.toml                          forward between two interfaces (root)
  weir reproduce steering --figure 5 --arm lab  the experiment of a paper, claim by claim

Exit status: 0 done, 1 failed or a claim missed, 2 wrong arguments or input, 130 interrupted.";

#[derive(Subcommand)]
enum Verb {
    /// Forward between two interfaces under a configuration, until stopped.
    Run(verbs::run::Arguments),
    /// Run a scenario on this machine with real TCP, in network namespaces.
    Lab(verbs::lab::Arguments),
    /// List the algorithms.
    List(verbs::list::Arguments),
    /// Explain an algorithm or the policy: what it does, its parameters, units, ranges and source.
    Explain(verbs::explain::Arguments),
    /// Validate a scenario or a configuration and say what is in force.
    Check(verbs::check::Arguments),
    /// Say what this machine can do, what is missing and how to get it.
    Doctor(verbs::doctor::Arguments),
    /// Repeat the experiment of a paper and print each of its claims as held or missed.
    Reproduce(verbs::reproduce::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(arguments.json);
    let result = match arguments.verb {
        Verb::Run(a) => verbs::run::main(a, &output),
        Verb::Lab(a) => verbs::lab::main(a, &output),
        Verb::List(a) => verbs::list::main(a, &output),
        Verb::Explain(a) => verbs::explain::main(a, &output),
        Verb::Check(a) => verbs::check::main(a, &output),
        Verb::Doctor(a) => verbs::doctor::main(a, &output),
        Verb::Reproduce(a) => verbs::reproduce::main(a, &output),
    };
    result.unwrap_or_else(|failure| output.failed(&failure))
}
