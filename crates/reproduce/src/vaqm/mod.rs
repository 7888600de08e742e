//! The article on virtual AQM: its test with phones in a radio cell.

mod cases;
mod causes;
mod claims;
mod draw;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod results;
pub(crate) mod said;
mod tables;
mod text;
#[cfg(feature = "live")]
mod upf;
mod users;

use crate::SHORT_FORM;
use crate::choice::{Arm, Choice};
use crate::host::{Error, Host, Report};
use std::path::PathBuf;

/// What is to be repeated, and how.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// One of [`ARMS`].
    pub arm: Arm,
    /// A short form with one short run of each case.
    pub quick: bool,
    /// How often each run is made, with other random numbers each time.
    pub seeds: Option<u32>,
    /// Runs in network namespaces that are made at a time, 1 or more.
    pub jobs: u32,
    /// Runs that the folder of results has already are not made again.
    pub resume: bool,
    /// Folder in which that of the results is made.
    pub out: PathBuf,
}

/// Where the test can run.
pub static ARMS: [Choice<Arm>; 3] = [
    Choice::new("sim", "The simulator", Arm::Sim),
    Choice::new("lab", "Real TCP and QUIC in network namespaces", Arm::Lab),
    Choice::new(
        "upf",
        "The same behind the user-plane function of a 5G core: sessions over PFCP, tunnels to the base station",
        Arm::Upf,
    ),
];

/// Repeats the test.
///
/// # Errors
///
/// If a run or its files could not be made.
pub fn reproduce(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    if arguments.quick {
        host.say(&SHORT_FORM);
    }
    match arguments.arm {
        Arm::Sim => results::main(arguments, host),
        #[cfg(feature = "live")]
        Arm::Lab => lab::main(arguments, host),
        #[cfg(feature = "live")]
        Arm::Upf => upf::main(arguments, host),
        #[cfg(not(feature = "live"))]
        _ => Err(crate::no_live_links()),
    }
}
