//! The ASQM paper: figures 4 to 15, and the sweeps that it tells of.

mod cases;
mod causes;
mod claims;
mod draw;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod observer;
mod results;
pub(crate) mod said;
mod tables;
mod text;

use crate::SHORT_FORM;
use crate::choice::{Arm, Choice};
use crate::host::{Error, Host, Report};
pub use cases::{Figure, Selection};
use std::path::PathBuf;

/// What is to be repeated, and how.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// One of [`FIGURES`].
    pub figure: &'static Choice<Selection>,
    /// One of [`ARMS`].
    pub arm: Arm,
    /// A short form: upload only, one round-trip time.
    pub quick: bool,
    /// Limiters that borrow, instead of links of the rate that they have with it.
    pub borrow: bool,
    /// Machines behind each modem, 1 or more.
    pub machines: u32,
    /// How often each run is made, with other random numbers each time.
    pub seeds: Option<u32>,
    /// Runs with real TCP that are made at a time, 1 or more.
    pub jobs: u32,
    /// Runs that the folder of results has already are not made again.
    pub resume: bool,
    /// Folder in which that of the results is made.
    pub out: PathBuf,
}

impl Arguments {
    /// By what the testbed differs from the usual one, in the name of a folder and in a title.
    fn testbed(&self) -> (String, String) {
        let (mut named, mut told) = (String::new(), String::new());
        if self.borrow {
            named += "-borrow";
            told += ", limiters that borrow";
        }
        if self.machines > 1 {
            named += &format!("-machines{}", self.machines);
            told += &format!(", {} machines in each home", self.machines);
        }
        (named, told)
    }
}

/// Figures of the paper.
pub static FIGURES: [Choice<Selection>; 15] = [
    figure("4", "Delay under CoDel, off-peak", 0),
    figure("5", "Bandwidth under CoDel, off-peak", 1),
    figure("6", "Delay under PIE, off-peak", 2),
    figure("7", "Bandwidth under PIE, off-peak", 3),
    figure("8", "Delay under ASQM, off-peak", 4),
    figure("9", "Bandwidth under ASQM, off-peak", 5),
    figure("10", "Delay under CoDel, at peak hours", 6),
    figure("11", "Bandwidth under CoDel, at peak hours", 7),
    figure("12", "Delay under PIE, at peak hours", 8),
    figure("13", "Bandwidth under PIE, at peak hours", 9),
    figure("14", "Delay under ASQM, at peak hours", 10),
    figure("15", "Bandwidth under ASQM, at peak hours", 11),
    Choice::new("4-15", "All figures", Selection { figures: &cases::FIGURES, sweeps: false }),
    Choice::new(
        "sweep",
        "What is told without a figure: slight shortfalls, long round trips, other rates, targets, probes and kernels",
        Selection { figures: &[], sweeps: true },
    ),
    Choice::new("all", "Both", Selection { figures: &cases::FIGURES, sweeps: true }),
];

const fn figure(name: &'static str, help: &'static str, index: usize) -> Choice<Selection> {
    let figures = std::slice::from_ref(&cases::FIGURES[index]);
    Choice::new(name, help, Selection { figures, sweeps: false })
}

/// Where they can run.
pub static ARMS: [Choice<Arm>; 2] = [
    Choice::new("sim", "The simulator", Arm::Sim),
    Choice::new(
        "lab",
        "Real TCP in network namespaces: homes behind limiters and modems, and an unmodified Linux gateway",
        Arm::Lab,
    ),
];

/// Repeats the experiments.
///
/// # Errors
///
/// If the arguments do not fit together, or a run or its files could not be made.
pub fn reproduce(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    if arguments.quick {
        host.say(&SHORT_FORM);
    }
    if arguments.arm == Arm::Sim {
        return results::main(arguments, host);
    }
    #[cfg(feature = "live")]
    return lab::main(arguments, host);
    #[cfg(not(feature = "live"))]
    Err(crate::no_live_links())
}
