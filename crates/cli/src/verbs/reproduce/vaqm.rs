//! The article on virtual AQM: its test with phones in a radio cell.

mod cases;
mod claims;
mod draw;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod results;
mod tables;
#[cfg(feature = "live")]
mod upf;

use super::claim;
use super::work::SHORT_FORM;
#[cfg(not(feature = "live"))]
use crate::output::Failure;
use crate::output::{Done, Output};
use std::path::PathBuf;

/// The article on virtual AQM (Ericsson Technology Review, 2018).
///
/// Three phones download in the background, a fourth loads pages and images, by TCP and by QUIC, with a strong and a weak
/// signal: with vAQM off, with its signals, and with its shaper. In network namespaces this needs root.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where it runs.
    #[arg(long, value_enum, default_value = "sim")]
    arm: Arm,
    /// A short form: one run of 30 s each, in network namespaces of 24 s.
    #[arg(long)]
    quick: bool,
    /// How often each run is made, with other random numbers each time; otherwise 10, and 1 in the short form and in network namespaces.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arm {
    /// The simulator.
    Sim,
    /// Real TCP and QUIC in network namespaces.
    Lab,
    /// The same behind the user-plane function of a 5G core: sessions over PFCP, tunnels to the base station.
    Upf,
}

/// Repeats the test.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    if arguments.quick {
        output.say(SHORT_FORM);
    }
    match arguments.arm {
        Arm::Sim => results::main(arguments, output),
        #[cfg(feature = "live")]
        Arm::Lab => lab::main(arguments, output),
        #[cfg(feature = "live")]
        Arm::Upf => upf::main(arguments, output),
        #[cfg(not(feature = "live"))]
        Arm::Lab | Arm::Upf => {
            Err(Failure::input("this program was made without live links: choose --arm sim"))
        }
    }
}
