//! What a reproduction needs from the program that runs it, and what it returns.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Display;
#[cfg(feature = "live")]
use std::ops::ControlFlow;
use std::path::Path;
#[cfg(feature = "live")]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "live")]
use std::sync::{Mutex, PoisonError};
#[cfg(feature = "live")]
use std::time::Duration;
#[cfg(feature = "live")]
use weir_config::Scenario;
#[cfg(feature = "live")]
use weir_lab::SideBySide;
#[cfg(feature = "live")]
use weir_measure::result::Recording;
use weir_measure::result::{Claim, HostJitter};
use weir_report::FileSet;
#[cfg(feature = "live")]
use weir_report::Policy;
use weir_report::table::Paint;
use weir_sim::batch::Progress;

/// Why a reproduction ended without results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments or the input are wrong.
    #[error("{0}")]
    Input(String),
    /// Something could not be done.
    #[error("{0}")]
    Failed(String),
    /// The user ended it before it began.
    #[error("{0}")]
    Interrupted(String),
}

impl Error {
    /// The arguments or the input are wrong.
    pub fn input(e: impl Display) -> Error {
        Error::Input(e.to_string())
    }
}

impl From<weir_report::WriteError> for Error {
    fn from(e: weir_report::WriteError) -> Error {
        Error::Failed(e.to_string())
    }
}

impl From<weir_sim::Error> for Error {
    fn from(e: weir_sim::Error) -> Error {
        Error::input(e)
    }
}

#[cfg(feature = "live")]
impl From<weir_lab::Error> for Error {
    fn from(e: weir_lab::Error) -> Error {
        match e {
            weir_lab::Error::Interrupted => Error::Interrupted(e.to_string()),
            _ => Error::Failed(e.to_string()),
        }
    }
}

/// The program that runs a reproduction. Everything that is printed passes through it.
pub trait Host: Sync {
    /// Prints a line that tells how far the work is.
    fn say(&self, line: &dyn Display);
    /// Whether the tables of [`Report::text`] may have colours.
    fn paint(&self) -> Paint;
    /// When, with which program and on which machine the results are made.
    fn made(&self) -> Made;
    /// Whether the user asked for an end.
    fn is_interrupted(&self) -> bool;
    /// Shows the progress of so many simulated runs with so much work together, until it is dropped.
    fn progress(&self, runs: usize, work: f64) -> Box<dyn Progress + '_>;
    /// Makes a folder for results and checks that it can be written to.
    fn prepare(&self, folder: &Path) -> Result<(), Error>;
    /// Begins the files of a folder, which is made where there is none. After an interruption a file says so.
    fn files(&self, folder: &Path) -> Result<FileSet, Error>;
    /// The part of the program that runs the lab.
    #[cfg(feature = "live")]
    fn lab(&self) -> &dyn Lab;
}

/// Where results come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The day in UTC, as 2026-11-23.
    pub date: String,
    /// The commit of the program, and whether its tree was changed.
    pub commit: String,
    /// Version of the program.
    pub version: String,
    /// Processor, number of processors, and operating system.
    pub machine: String,
}

/// What the arms with real TCP need besides.
#[cfg(feature = "live")]
pub trait Lab {
    /// Runs a scenario once with real TCP, and shows it as it goes. Where there are others that it may be
    /// made beside, it is not shown.
    fn run(&self, scenario: &Scenario, beside: Option<&SideBySide>) -> Result<Recording, weir_lab::Error>;
    /// Writes the files of one run to a folder, as `weir lab` does.
    fn write(&self, recording: &Recording, scenario: &Scenario, folder: &Path) -> Result<(), Error>;
    /// What the charts show of the policies of a scenario's links.
    fn policies(&self, scenario: &Scenario) -> Vec<Policy>;
}

/// What came of a reproduction, after its files were written.
#[derive(Clone, Debug)]
pub struct Report {
    /// The result for programs.
    pub json: Value,
    /// The result for people.
    pub text: String,
    /// The claims, judged.
    pub claims: Vec<Claim>,
}

/// Makes live runs, `jobs` at a time, and says how far they are. Results are in the order of the plan. After
/// an error, or an end that the user asked for, no run begins; interrupted ones are left out.
#[cfg(feature = "live")]
pub fn run_live<T: Sync, R: Send>(
    plan: &[T],
    jobs: u32,
    host: &dyn Host,
    title: impl Fn(&T) -> String + Sync,
    run: impl Fn(&T, &SideBySide) -> Result<(R, String), Error> + Sync,
) -> Result<Vec<R>, Error> {
    let (turns, next) = (SideBySide::default(), AtomicUsize::new(0));
    let done: Vec<Mutex<Option<Result<R, Error>>>> = plan.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while !host.is_interrupted() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(planned) = plan.get(number) else { return };
            let named = format!("[{}/{}] {}", number + 1, plan.len(), title(planned));
            host.say(&named);
            let result = run(planned, &turns).map(|(measured, told)| {
                if !host.is_interrupted() {
                    host.say(&format!("{named}: {told}"));
                }
                measured
            });
            // Also while it waited for the machine, and where the end reached what the run had started first.
            if host.is_interrupted() {
                return;
            }
            if result.is_err() {
                next.store(plan.len(), Ordering::Relaxed);
            }
            *done[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    done.into_iter().filter_map(|run| run.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// How disturbed the packet loops of runs with real TCP were, in a line; none where nothing is known of it.
pub fn disturbance(hosts: impl Iterator<Item = HostJitter>) -> Option<String> {
    let hosts: Vec<HostJitter> = hosts.collect();
    let worst = |of: fn(&HostJitter) -> f64| hosts.iter().map(of).fold(0.0, f64::max);
    (!hosts.is_empty()).then(|| {
        format!(
            "host: loop called late by at most {:.2} ms (99 %: {:.3} ms), frames left the delay line late by {:.3} ms \
             (99 %), stalled {:.3} % of the time; real-time class: {}, own core: {}",
            worst(|host| host.gap_ms.max),
            worst(|host| host.gap_ms.p99),
            worst(|host| host.late_ms.p99),
            worst(|host| host.stalled_share) * 100.0,
            hosts.iter().all(|host| host.realtime),
            hosts.iter().all(|host| host.own_core),
        )
    })
}

/// How many live runs were made at a time, in words.
pub fn at_a_time(jobs: u32) -> Option<String> {
    let told = || {
        format!(
            "{jobs} runs were made at a time, each in namespaces of its own: they shared the processors and nothing else."
        )
    };
    (jobs > 1).then(told)
}

/// Says that the machine is taken; ends the wait when the user does.
#[cfg(feature = "live")]
pub fn waits(host: &dyn Host) -> impl FnMut(Duration) -> ControlFlow<()> {
    let say = move || host.say(&"waiting for another run on this machine to end");
    weir_lab::waiting(say, move || !host.is_interrupted())
}
