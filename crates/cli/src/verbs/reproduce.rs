//! `weir reproduce`: the experiments of papers, from scenario files, and what became of their claims.
//!
//! A paper is a module with its arguments and one line in [`Paper`]; what papers have in common is here.

mod asqm;
mod avq;
mod publish;
mod steering;
mod vaqm;
mod work;

use crate::output::{Done, Output};
use weir_scenario::result::Claim;

/// Repeat the experiment of a paper and print each of its claims as held or missed, with its numbers.
///
/// Claims are judged on what was measured here, never adjusted: a missed claim is printed as missed, and the
/// exit status is 1.
#[derive(clap::Args)]
#[command(subcommand_value_name = "PAPER", subcommand_help_heading = "Papers", after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    paper: Paper,
}

const EXAMPLES: &str = "Examples:
  weir reproduce steering --figure 5 --arm sim
  weir reproduce avq --experiment 2";

/// Papers that can be repeated.
#[derive(clap::Subcommand)]
enum Paper {
    Steering(steering::Arguments),
    Avq(avq::Arguments),
    Asqm(asqm::Arguments),
    Vaqm(vaqm::Arguments),
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    match arguments.paper {
        Paper::Steering(arguments) => steering::main(arguments, output),
        Paper::Avq(arguments) => avq::main(&arguments, output),
        Paper::Asqm(arguments) => asqm::main(&arguments, output),
        Paper::Vaqm(arguments) => vaqm::main(&arguments, output),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn claim(
    id: &str,
    text: impl Into<String>,
    expected: impl Into<String>,
    measured: impl Into<String>,
    held: bool,
) -> Claim {
    Claim { id: id.into(), text: text.into(), expected: expected.into(), measured: measured.into(), held }
}
