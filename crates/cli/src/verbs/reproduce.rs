//! `weir reproduce`: the experiments of papers, from scenario files, and what became of their claims.
//!
//! The experiments are `weir_reproduce`'s; here are their options, their progress and what is printed.

use crate::interrupt::is_interrupted;
use crate::made::{UNKNOWN, made};
use crate::output::{Done, Failure, INTERRUPTED, Output, warn};
use crate::progress::Progress;
use crate::results;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_measure::result::Claim;
use weir_report::FileSet;
use weir_report::table::Paint;
use weir_reproduce::summary::Kept;
use weir_reproduce::{Arm, Choice, Error, Host, Made, Report, asqm, avq, by_name, steering, summary, vaqm};
use weir_sim::batch;

/// Repeat the experiment of a paper and print each of its claims as held or missed, with its numbers.
///
/// Claims are judged on what was measured here, never adjusted: a missed claim is printed as missed, and the
/// exit status is 1.
#[derive(clap::Args)]
#[command(subcommand_value_name = "PAPER", subcommand_help_heading = "Papers", after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    paper: Paper,
}

const EXAMPLES: &str = "Examples:
  weir reproduce steering --figure 5 --arm sim
  weir reproduce avq --experiment 2";

/// Papers that can be repeated.
#[derive(clap::Subcommand)]
enum Paper {
    Steering(Steering),
    Avq(Avq),
    Asqm(Asqm),
    Vaqm(Vaqm),
    Summary(Summary),
}

/// Put results that were written before into one page, in Markdown.
///
/// Reads every `result.json` below a folder and writes their tables and claims, each with the command, date,
/// commit, machine and number of runs, and with whether the code that it depends on has changed since that
/// commit in the working tree of git around the current folder. docs/results.md is made of what is kept in
/// data/results: `weir reproduce summary FOLDER --keep data/results --into docs/results.md`.
#[derive(clap::Args)]
struct Summary {
    /// The folder that `--out` named when they were made.
    #[arg(value_name = "FOLDER", default_value = OUT)]
    folder: PathBuf,
    /// Some of the same runs, made again with the code of that tree (`--out`, fewer seeds): where the code of
    /// results has changed, the page tells of how many these gave the same numbers.
    #[arg(long, value_name = "FOLDER")]
    repeated: Option<PathBuf>,
    /// Put what the page shows of each result, without its runs, into this folder, beside what is there of
    /// others, and make the page of all that is there.
    #[arg(long, value_name = "DIR", conflicts_with = "repeated")]
    keep: Option<PathBuf>,
    /// The file to write; otherwise the page is printed.
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

/// Policy-oriented AQM Steering (Bless et al., 2018).
///
/// In the lab the host's scheduling jitter during the runs is printed beside the results; the same figure at
/// a lower rate (--rate 200Mbit/s) tells what is the host's and what is the algorithm's. The simulator has no
/// host, and gives the same numbers everywhere.
#[derive(clap::Args)]
#[command(after_help = STEERING_EXAMPLES)]
struct Steering {
    /// The figure, or `text` for what the paper says without one; in the lab every figure, at 1 Gbit/s.
    #[arg(long, value_parser = choice(&steering::FIGURES))]
    figure: &'static Choice<&'static [steering::Part]>,
    /// Where to run: `lab` is real TCP in network namespaces on this machine, `sim` the simulator.
    #[arg(long, value_parser = choice(&steering::ARMS), default_value = DEFAULT_ARM)]
    arm: &'static Choice<Arm>,
    /// A short form with fewer and shorter runs (lab: figures 5, at 200 Mbit/s, and 8a; simulator: at 1
    /// Gbit/s). What it misses and longer runs could hold is not judged.
    #[arg(long)]
    quick: bool,
    /// Rate of the link, instead of the scenario's; the simulator takes 10 Gbit/s and 1 Gbit/s otherwise.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    #[command(flatten)]
    resume: Resume,
    /// How often each point is run, with other random numbers each time; otherwise 3, or 1 in the short form.
    /// Figures show the mean and the range. The paper has 10.
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Run only the points of this series more than once, such as `GSP-AS`; of others one run of each counts,
    /// and those that the folder has (--resume).
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// With `--figure 5 --arm sim`: what steering adds to other algorithms, instead of the paper's claims.
    /// Names from `weir list`, `fq_codel` and `dualpi2`, between commas, or `all` for every one with a set
    /// point; at 1 Gbit/s with 2, 9 and 36 flows, one run per point.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    aqm: Vec<String>,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
}

impl From<Steering> for steering::Arguments {
    fn from(s: Steering) -> steering::Arguments {
        steering::Arguments {
            figure: s.figure,
            arm: s.arm.value,
            quick: s.quick,
            rate: s.rate,
            seeds: s.seeds,
            series: s.series,
            aqm: s.aqm,
            resume: s.resume.resume,
            out: s.out,
        }
    }
}

const STEERING_EXAMPLES: &str = "Examples:
  weir reproduce steering --figure 5 --arm sim --quick
  weir reproduce steering --figure all --arm sim --rate 1Gbit/s --seeds 10
  weir reproduce steering --figure 5 --arm sim --aqm pie,codel   what steering adds to other algorithms
  sudo weir reproduce steering --figure 5 --arm lab              with real TCP
  sudo weir reproduce steering --figure 5 --arm lab --resume     and on where that was ended";

/// The AVQ paper (Kunniyur and Srikant, 2001).
///
/// In the simulator, which gives the same numbers everywhere, or in the lab, with the kernel's TCP as far as
/// it can do the same.
#[derive(clap::Args)]
#[command(after_help = AVQ_EXAMPLES)]
struct Avq {
    /// The experiment.
    #[arg(long, value_parser = choice(&avq::EXPERIMENTS))]
    experiment: &'static Choice<&'static [avq::Experiment]>,
    /// Where it runs.
    #[arg(long, value_parser = choice(&avq::ARMS), default_value = "sim")]
    arm: &'static Choice<Arm>,
    /// A short form: a tenth of the time, in the lab a twentieth, in which slow algorithms do not converge.
    #[arg(long)]
    quick: bool,
    /// How often each run is made, with other random numbers each time; otherwise 3, or 1 in the short form
    /// and in the lab.
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Retransmission timers of the senders: with windows of about a packet they are what sets the rate.
    #[arg(long, value_parser = choice(&avq::TIMERS), default_value = "linux")]
    timers: &'static Choice<Option<avq::Timers>>,
    /// Run the same in another simulator too, and put both side by side.
    #[arg(long, value_parser = choice(&avq::WITNESSES))]
    witness: Option<&'static Choice<()>>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    resume: Resume,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
}

const AVQ_EXAMPLES: &str = "Examples:
  weir reproduce avq --experiment 2 --quick
  weir reproduce avq --experiment all --witness ns2   beside another simulator
  sudo weir reproduce avq --experiment 5 --arm lab    with real TCP";

/// The ASQM paper (Active Sense Queue Management).
///
/// In the simulator, which gives the same numbers everywhere, or in the lab, with real TCP and an unmodified
/// gateway.
#[derive(clap::Args)]
struct Asqm {
    /// The figure: 4 to 9 are off-peak, 10 to 15 at peak hours; "sweep" is what the paper tells without a
    /// figure.
    #[arg(long, value_parser = choice(&asqm::FIGURES))]
    figure: &'static Choice<asqm::Selection>,
    /// Where it runs.
    #[arg(long, value_parser = choice(&asqm::ARMS), default_value = "sim")]
    arm: &'static Choice<Arm>,
    /// A short form: one run of 20 s, upload only, one round-trip time; in the lab one modem, CoDel and ASQM
    /// at peak, whatever the figure, and with a call of class EF where it is "sweep" or "all".
    #[arg(long)]
    quick: bool,
    /// Limiters that borrow, as in the paper (HTB: 8 Mbit/s committed, 16 with what is borrowed), instead of
    /// links of 16 Mbit/s.
    #[arg(long)]
    borrow: bool,
    /// Machines behind each modem, between which its connections are divided; the paper has two.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    machines: u32,
    /// How often each run is made, with other random numbers each time; otherwise 5, and 1 in the short form
    /// and, with real TCP, for the sweeps.
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    resume: Resume,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
}

/// The article on virtual AQM (Ericsson Technology Review, 2018).
///
/// Three phones download in the background, a fourth loads pages and images, by TCP and by QUIC, with a
/// strong and a weak signal: with vAQM off, with its signals, and with its shaper. In network namespaces this
/// needs root.
#[derive(clap::Args)]
struct Vaqm {
    /// Where it runs.
    #[arg(long, value_parser = choice(&vaqm::ARMS), default_value = "sim")]
    arm: &'static Choice<Arm>,
    /// A short form: one run of 30 s each, in network namespaces of 24 s.
    #[arg(long)]
    quick: bool,
    /// How often each run is made, with other random numbers each time; otherwise 10, in network
    /// namespaces 5, and 1 in the short form.
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    resume: Resume,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
}

/// Folder for the results, unless another is given.
const OUT: &str = "out/reproduce";
/// Where the steering paper's figures run by default: on live links, if the program has them.
const DEFAULT_ARM: &str = if cfg!(feature = "live") { "lab" } else { "sim" };

/// Reads a value that is one of several.
fn choice<T: Sync>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = &'static Choice<T>> {
    let values = choices.iter().map(|choice| PossibleValue::new(choice.name).help(choice.help));
    PossibleValuesParser::new(values)
        .map(|name| by_name(choices, &name).expect("only names of choices are possible"))
}

// Comments of their own would stand in the help instead of those of the papers.
#[derive(clap::Args)]
struct Resume {
    /// Runs that the folder of results has already, of the same scenario, are not made again: to go on after
    /// an end, to add runs of other random numbers, or to judge old ones by the claims of this program.
    #[arg(long)]
    resume: bool,
}

#[derive(clap::Args)]
struct Jobs {
    /// With real TCP, how many runs are made at a time, otherwise 1; each has network namespaces of its own,
    /// and they share the processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
}

impl Jobs {
    /// How many runs are made at a time in this arm.
    fn of(self, arm: Arm) -> Result<u32, Failure> {
        match (self.jobs, arm) {
            (Some(_), Arm::Sim) => Err(Failure::Input(
                "--jobs: the simulator takes all processors by itself; leave it out".into(),
            )),
            (jobs, _) => Ok(jobs.unwrap_or(1)),
        }
    }
}

/// What was kept of results in a folder, and what was not.
fn told(Kept { results, replaced, interrupted }: &Kept, folder: &Path) -> String {
    let count = |count: usize| if count == 1 { "1 result".to_string() } else { format!("{count} results") };
    let mut told = format!("kept in {}: {}", folder.display(), count(*results));
    if *replaced > 0 {
        told += &format!(", {replaced} in place of earlier ones");
    }
    for one in interrupted {
        told += &format!("; not {}, of which not all runs were made", one.display());
    }
    told
}

/// Writes the page of what was made before.
fn summarize(Summary { folder, repeated, keep, into }: Summary, output: &Output) -> Done {
    let folder = match keep {
        Some(kept) => {
            let told = told(&summary::keep(&folder, &kept).map_err(failure)?, &kept);
            // Where the page goes to standard output nothing else does.
            match into {
                Some(_) => output.say(told),
                None => warn(told),
            }
            kept
        }
        None => folder,
    };
    let page = summary::page(&folder, repeated.as_deref(), Path::new(".")).map_err(failure)?;
    match into {
        Some(file) => {
            weir_report::write_chosen(&file, &page).map_err(|e| Failure::Failed(e.to_string()))?;
            let written = serde_json::json!({ "page": file.display().to_string() });
            output.result(&written, || format!("Page: {}", file.display()));
        }
        None => output.result(&serde_json::json!({ "markdown": page }), || page.clone()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let is_made = !matches!(arguments.paper, Paper::Summary(_));
    if is_made && made().commit == UNKNOWN {
        let remedy = "take target/release/weir of a tree of git, or build with WEIR_COMMIT set";
        warn(format!(
            "the results will not say of which commit they are, as git does not tell it of this program: {remedy}"
        ));
    }
    let report = match arguments.paper {
        Paper::Summary(summary) => return summarize(summary, output),
        Paper::Steering(steering) => steering::reproduce(&steering.into(), output),
        Paper::Avq(Avq { experiment, arm, quick, seeds, timers, witness, jobs, resume, out }) => {
            let (arm, jobs, resume) = (arm.value, jobs.of(arm.value)?, resume.resume);
            avq::reproduce(
                &avq::Arguments { experiment, arm, quick, seeds, timers, witness, jobs, resume, out },
                output,
            )
        }
        Paper::Asqm(Asqm { figure, arm, quick, borrow, machines, seeds, jobs, resume, out }) => {
            let (arm, jobs, resume) = (arm.value, jobs.of(arm.value)?, resume.resume);
            asqm::reproduce(
                &asqm::Arguments { figure, arm, quick, borrow, machines, seeds, jobs, resume, out },
                output,
            )
        }
        Paper::Vaqm(Vaqm { arm, quick, seeds, jobs, resume, out }) => {
            let (arm, jobs, resume) = (arm.value, jobs.of(arm.value)?, resume.resume);
            vaqm::reproduce(&vaqm::Arguments { arm, quick, seeds, jobs, resume, out }, output)
        }
    };
    let Report { json, text, claims } = report.map_err(failure)?;
    output.result(&json, || text);
    Ok(match claims.iter().any(Claim::is_missed) {
        _ if is_interrupted() => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
        // A missed claim is no success.
        true => ExitCode::FAILURE,
    })
}

/// Why a reproduction ended, as the program says it.
fn failure(e: Error) -> Failure {
    match e {
        Error::Input(text) => Failure::Input(text),
        Error::Failed(text) => Failure::Failed(text),
        Error::Interrupted(text) => Failure::Interrupted(text),
    }
}

/// Why the program could not do its part, as reproductions pass it on.
fn error(failure: Failure) -> Error {
    match failure {
        Failure::Input(text) => Error::Input(text),
        Failure::Failed(text) => Error::Failed(text),
        Failure::Interrupted(text) => Error::Interrupted(text),
    }
}

impl Host for Output {
    fn say(&self, line: &dyn Display) {
        Output::say(self, line);
    }

    fn paint(&self) -> Paint {
        Output::paint(self)
    }

    fn made(&self) -> Made {
        made().clone()
    }

    fn is_interrupted(&self) -> bool {
        is_interrupted()
    }

    fn progress(&self, runs: usize, work: f64) -> Box<dyn batch::Progress + '_> {
        Box::new(Progress::new(runs, work, self))
    }

    fn prepare(&self, folder: &Path) -> Result<(), Error> {
        results::prepare(folder).map_err(error)
    }

    fn files(&self, folder: &Path) -> Result<FileSet, Error> {
        results::file_set(folder).map_err(error)
    }

    #[cfg(feature = "live")]
    fn lab(&self) -> &dyn weir_reproduce::Lab {
        self
    }
}

#[cfg(feature = "live")]
impl weir_reproduce::Lab for Output {
    fn run(
        &self,
        scenario: &weir_config::Scenario,
        beside: Option<&weir_lab::SideBySide>,
    ) -> Result<weir_measure::result::Recording, weir_lab::Error> {
        super::lab::record(scenario, beside, self)
    }

    fn write(
        &self,
        recording: &weir_measure::result::Recording,
        scenario: &weir_config::Scenario,
        folder: &Path,
    ) -> Result<(), Error> {
        results::write(recording, scenario, folder).map_err(error)
    }

    fn policies(&self, scenario: &weir_config::Scenario) -> Vec<weir_report::Policy> {
        results::policies_of(scenario)
    }
}
