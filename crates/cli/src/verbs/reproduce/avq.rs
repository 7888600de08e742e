//! The AVQ paper (Kunniyur and Srikant, SIGCOMM 2001): experiments 1 to 5, and ns-2 as a witness.

mod claims;
mod draw;
mod experiments;
mod measured;
mod observer;
mod paper;
mod results;
mod spans;
mod witness;

use super::{claim, percent};
use crate::output::{Done, Output};
use std::path::PathBuf;

/// The AVQ paper (Kunniyur and Srikant, 2001).
///
/// The experiments run in the simulator, which gives the same numbers everywhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The experiment.
    #[arg(long, value_enum)]
    experiment: ExperimentName,
    /// A short form: a tenth of the time, in which slow algorithms do not converge.
    #[arg(long)]
    quick: bool,
    /// How often each run is made, with other random numbers each time; otherwise 3, or 1 in the short form.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Run the same in another simulator too, and put both side by side.
    #[arg(long, value_enum)]
    witness: Option<Witness>,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
}

const EXAMPLES: &str = "Examples:
  weir reproduce avq --experiment 2 --quick
  weir reproduce avq --experiment all --witness ns2   beside another simulator";

/// Experiments of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExperimentName {
    /// AVQ with 180 long flows, then also 30 short ones per second.
    #[value(name = "1")]
    One,
    /// 20 to 180 long flows, all algorithms.
    #[value(name = "2")]
    Two,
    /// 105 of 140 flows leave, and 105 come.
    #[value(name = "3")]
    Three,
    /// 40 long flows and 10 to 50 short ones per second.
    #[value(name = "4")]
    Four,
    /// The same with drops instead of marks.
    #[value(name = "5")]
    Five,
    /// All of them.
    #[value(name = "all")]
    All,
}

/// Other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Witness {
    /// ns-2.35, Debian package `ns2`.
    Ns2,
}

/// Repeats the experiments.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    results::main(arguments, output)
}
