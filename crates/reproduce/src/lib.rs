//! The experiments of papers: what is run, what was measured, and what became of the papers' claims.
//!
//! A paper is a module with its [`Arguments`](steering::Arguments) and a function `reproduce`; what papers
//! share is here. The program that runs a reproduction is a [`Host`]: this crate prints nothing itself.
#![forbid(unsafe_code)]

/// Name and content of a scenario file. A program with this crate needs no files beside it.
macro_rules! scenario_file {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $name)))
    };
}

pub mod asqm;
pub mod avq;
mod choice;
mod claim;
mod experiment;
mod figure;
mod host;
mod journal;
mod publish;
mod runs;
mod said;
mod segments;
mod statistics;
pub mod steering;
pub mod summary;
mod traces;
pub mod vaqm;

pub use choice::{Arm, Choice, by_name};
#[cfg(feature = "live")]
pub use host::Lab;
pub use host::{Error, Host, Made, Report};

/// What is said before the short form of an experiment.
const SHORT_FORM: &str =
    "the short form: its runs are too short for some claims, which may be missed only for that";

/// Why a program without the feature `live` refuses an arm.
#[cfg(not(feature = "live"))]
fn no_live_links() -> Error {
    Error::input("this program was made without live links: choose --arm sim")
}
