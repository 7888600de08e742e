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

use crate::choice::Choice;
use crate::host::{Error, Host, Report};
pub use experiments::Experiment;
use std::path::PathBuf;

/// What is to be repeated, and how.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// One of [`EXPERIMENTS`].
    pub experiment: &'static Choice<&'static [Experiment]>,
    /// A short form: a tenth of the time.
    pub quick: bool,
    /// How often each run is made, with other random numbers each time.
    pub seeds: Option<u32>,
    /// One of [`WITNESSES`], beside which the results are put.
    pub witness: Option<&'static Choice<()>>,
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

/// Other simulators.
pub static WITNESSES: [Choice<()>; 1] = [Choice::new("ns2", "ns-2.35, Debian package `ns2`", ())];

/// Repeats the experiments.
///
/// # Errors
///
/// If a run or its files could not be made.
pub fn reproduce(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    results::main(arguments, host)
}
