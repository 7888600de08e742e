//! The AVQ paper (Kunniyur and Srikant, SIGCOMM 2001): experiments 1 to 5 in the simulator and with real TCP,
//! and ns-2 as a witness.

mod causes;
mod claims;
mod draw;
mod experiments;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod observer;
mod paper;
mod results;
pub(crate) mod said;
mod spans;
mod witness;

use crate::choice::{Arm, Choice};
use crate::host::{Error, Host, Report};
pub use experiments::Experiment;
use std::path::PathBuf;
use weir_config::{Point, Scenario};
use weir_units::Duration;

/// What is to be repeated, and how.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// One of [`EXPERIMENTS`].
    pub experiment: &'static Choice<&'static [Experiment]>,
    /// One of [`ARMS`].
    pub arm: Arm,
    /// A short form: a tenth of the time, in the lab a twentieth.
    pub quick: bool,
    /// How often each run is made, with other random numbers each time.
    pub seeds: Option<u32>,
    /// One of [`TIMERS`].
    pub timers: &'static Choice<Option<Timers>>,
    /// One of [`WITNESSES`], beside which the results are put.
    pub witness: Option<&'static Choice<()>>,
    /// With real TCP, how many runs are made at a time.
    pub jobs: u32,
    /// Runs that the folder of results has already are not made again.
    pub resume: bool,
    /// Folder in which that of the results is made.
    pub out: PathBuf,
}

/// Experiments of the paper.
pub static EXPERIMENTS: [Choice<&[Experiment]>; 6] = [
    Choice::new("1", "AVQ with 180 long flows, then also 30 short ones per second", &[Experiment::One]),
    Choice::new("2", "20 to 180 long flows, all algorithms", &[Experiment::Two]),
    Choice::new("3", "105 of 140 flows leave, and 105 come", &[Experiment::Three]),
    Choice::new("4", "40 long flows and 10 to 50 short ones per second", &[Experiment::Four]),
    Choice::new("5", "The same with drops instead of marks", &[Experiment::Five]),
    Choice::new("all", "All of them", &Experiment::ALL),
];

/// Where they can run.
pub static ARMS: [Choice<Arm>; 2] = [
    Choice::new("sim", "The simulator", Arm::Sim),
    Choice::new(
        "lab",
        "Real TCP in network namespaces: the kernel's Reno, as far as it can do the same",
        Arm::Lab,
    ),
];

/// The retransmission timers of the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Smallest timeout.
    pub least: Duration,
    /// Tick of the clock by which round-trip times are measured.
    pub clock: Duration,
}

impl Timers {
    /// All senders of a scenario have them.
    fn give_to(&self, scenario: &mut Scenario) {
        for group in &mut scenario.flows {
            (group.host.rto_min, group.host.rto_clock) = (Some(self.least), Some(self.clock));
        }
    }

    /// The same of all points of a file, and `true`; but where some choose timers, all are left as they are.
    fn give_to_all(&self, points: &mut [Point]) -> bool {
        let chooses =
            points.iter().flat_map(|point| &point.scenario.flows).any(|group| group.host.rto_min.is_some());
        if !chooses {
            points.iter_mut().for_each(|point| self.give_to(&mut point.scenario));
        }
        !chooses
    }
}

/// What retransmission timers the senders can have: those of Linux, or those of ns-2 when the paper was
/// written.
pub static TIMERS: [Choice<Option<Timers>>; 2] = [
    Choice::new("linux", "200 ms above the smoothed round-trip time at least", None),
    Choice::new("2001", "1 s at least, by a clock of 100 ms", Some(TIMERS_2001)),
];

const TIMERS_2001: Timers = Timers { least: Duration::from_secs(1), clock: Duration::from_millis(100) };

/// Other simulators.
pub static WITNESSES: [Choice<()>; 1] = [Choice::new("ns2", "ns-2.35, Debian package `ns2`", ())];

/// Repeats the experiments.
///
/// # Errors
///
/// If the arguments do not fit together, or a run or its files could not be made.
pub fn reproduce(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    if arguments.arm == Arm::Sim {
        return results::main(arguments, host);
    }
    #[cfg(feature = "live")]
    return lab::main(arguments, host);
    #[cfg(not(feature = "live"))]
    Err(crate::no_live_links())
}
