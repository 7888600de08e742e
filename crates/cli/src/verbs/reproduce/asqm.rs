//! The ASQM paper: figures 4 to 15, and the sweeps that it tells of.

mod cases;
mod claims;
mod draw;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod observer;
mod results;
mod tables;

use super::claim;
use super::work::SHORT_FORM;
use crate::output::{Done, Failure, Output};
use std::path::PathBuf;

/// The ASQM paper (Active Sense Queue Management).
///
/// In the simulator, which gives the same numbers everywhere, or in the lab, with real TCP and an unmodified gateway.
#[derive(clap::Args)]
pub struct Arguments {
    /// The figure: 4 to 9 are off-peak, 10 to 15 at peak hours; "sweep" is what the paper tells without a figure.
    #[arg(long, value_enum)]
    figure: FigureName,
    /// Where it runs.
    #[arg(long, value_enum, default_value = "sim")]
    arm: Arm,
    /// A short form: one run of 20 s, upload only, one round-trip time; in the lab one modem, CoDel and ASQM at peak, whatever the
    /// figure.
    #[arg(long)]
    quick: bool,
    /// How often each run is made, with other random numbers each time; otherwise 5, and 1 in the short form and for the
    /// sweeps.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
}

/// Figures of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FigureName {
    /// Delay under CoDel, off-peak.
    #[value(name = "4")]
    Four,
    /// Bandwidth under CoDel, off-peak.
    #[value(name = "5")]
    Five,
    /// Delay under PIE, off-peak.
    #[value(name = "6")]
    Six,
    /// Bandwidth under PIE, off-peak.
    #[value(name = "7")]
    Seven,
    /// Delay under ASQM, off-peak.
    #[value(name = "8")]
    Eight,
    /// Bandwidth under ASQM, off-peak.
    #[value(name = "9")]
    Nine,
    /// Delay under CoDel, at peak hours.
    #[value(name = "10")]
    Ten,
    /// Bandwidth under CoDel, at peak hours.
    #[value(name = "11")]
    Eleven,
    /// Delay under PIE, at peak hours.
    #[value(name = "12")]
    Twelve,
    /// Bandwidth under PIE, at peak hours.
    #[value(name = "13")]
    Thirteen,
    /// Delay under ASQM, at peak hours.
    #[value(name = "14")]
    Fourteen,
    /// Bandwidth under ASQM, at peak hours.
    #[value(name = "15")]
    Fifteen,
    /// Slight shortfalls, long round trips, other rates and targets.
    #[value(name = "sweep")]
    Sweep,
    /// All of them.
    #[value(name = "all")]
    All,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arm {
    /// The simulator.
    Sim,
    /// Real TCP in network namespaces: homes behind limiters and modems, and an unmodified Linux gateway.
    Lab,
}

/// Repeats the experiments.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    if arguments.quick {
        output.say(SHORT_FORM);
    }
    match arguments.arm {
        Arm::Sim => results::main(arguments, output),
        Arm::Lab if arguments.figure == FigureName::Sweep || arguments.seeds.is_some() => {
            Err(Failure::input(
                "the lab makes the runs of the figures once each: choose one of them or --figure all, without --seeds",
            ))
        }
        #[cfg(feature = "live")]
        Arm::Lab => lab::main(arguments.figure, arguments.quick, &arguments.out, output),
        #[cfg(not(feature = "live"))]
        Arm::Lab => Err(Failure::input("this program was made without live links: choose --arm sim")),
    }
}
