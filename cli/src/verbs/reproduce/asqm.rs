//! The paper on Active Sense Queue Management: an access network with modems.

#[cfg(feature = "live")]
mod lab;

use crate::output::{Done, Output};
use std::path::PathBuf;

/// Active Sense Queue Management: modems whose shared link is too slow at peak times.
///
/// Real TCP in network namespaces: each home uploads through a limiter of its own and a modem with a FIFO that nobody
/// manages; an unmodified Linux gateway bounces the probes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where to run.
    #[arg(long, value_enum, default_value = "lab")]
    arm: Arm,
    /// A short form: one modem, a round-trip time of 50 ms, CoDel and ASQM, 24 s each.
    #[arg(long)]
    quick: bool,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arm {
    /// Real TCP in network namespaces.
    Lab,
}

/// Repeats the experiment.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    match arguments.arm {
        #[cfg(feature = "live")]
        Arm::Lab => lab::main(arguments.quick, &arguments.out, output),
        #[cfg(not(feature = "live"))]
        Arm::Lab => Err(crate::output::Failure::input("this program was made without live links")),
    }
}
