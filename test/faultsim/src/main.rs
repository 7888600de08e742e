//! `faultsim`: campaigns of the fault simulation, and the replay of a seed.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_faultsim::campaign::{Case, Sum, essence};
use weir_faultsim::plan::Plan;

/// Failing seeds after which a campaign ends.
const FAILED_MAX: usize = 20;
/// Runs that are spent to make a failing case smaller.
const SHRINK_RUNS: u32 = 2000;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
const DAY: u64 = 86_400;
/// A process runs so long before the next one begins, with another seed.
const MONTH: u64 = 30 * DAY;

/// The signal that asked for the end; zero for none.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn interrupt(signal: libc::c_int) {
    if INTERRUPTED.swap(signal, Ordering::Relaxed) != 0 {
        // Asked twice: what was found until now is not waited for.
        // SAFETY: it ends the process, and is allowed in a handler.
        unsafe { libc::_exit(128 + signal) };
    }
}

fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed) != 0
}

/// The packet loop and the user plane under simulated faults, in virtual time.
///
/// A failing seed is told when it is found; the sum, with the faults met by kind, at the end, also after
/// Ctrl-C or SIGTERM. A second one of these ends it at once.
///
/// Exit code: 0 nothing found, 1 a failing seed, 2 wrong usage, 130 or 143 ended by Ctrl-C or SIGTERM and
/// nothing found.
#[derive(Parser)]
struct Options {
    /// Seeds to run; 1000 unless another length is given.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Runs seeds for so many hours; a fraction is allowed.
    #[arg(long, value_name = "H", value_parser = amount)]
    hours: Option<f64>,
    /// The first seed.
    #[arg(long, value_name = "S", default_value_t = 1)]
    first: u64,
    /// Threads that run seeds.
    #[arg(long, value_name = "J", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: u64,
    /// Replays one seed with its trace; a failing one is made as small as possible first.
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "hours", "case", "years"])]
    seed: Option<u64>,
    /// Replays a case that was written as JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "hours", "years"])]
    case: Option<PathBuf>,
    /// With `--seed`: the case as it is, not made smaller.
    #[arg(long, requires = "seed")]
    whole: bool,
    /// A link of 10 Mbit/s with sparse traffic for so many years, a month in each process.
    #[arg(long, value_name = "Y", value_parser = amount, conflicts_with_all = ["seeds", "hours"])]
    years: Option<f64>,
    /// The result as one JSON object on standard output.
    #[arg(long)]
    json: bool,
    /// Does not stop at the first 20 failing seeds.
    #[arg(long)]
    keep_going: bool,
}

/// A number above zero, of hours or years.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1e-6..=1e4).contains(&number) => Ok(number),
        _ => Err("a number between 0.000001 and 10000 is expected".into()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores to an atomic, or ends the process.
        unsafe { libc::signal(signal, interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    // A panic is a finding, which is told with its seed.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    weir_faultsim::warm_up();
    match (&options.case, options.seed, options.years) {
        (Some(file), _, _) => match std::fs::read(file)
            .map_err(|e| e.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()))
        {
            Ok(case) => replay(&case),
            Err(wrong) => {
                eprintln!("{}: {wrong}. Remedy: give a file that `--seed` wrote", file.display());
                ExitCode::from(2)
            }
        },
        (None, Some(seed), _) => {
            let case = Case::of(seed);
            let fails = essence(&case.run(false)).is_some();
            replay(&if fails && !options.whole { case.shrunk(SHRINK_RUNS) } else { case })
        }
        (None, None, Some(years)) => simulate_years(years, &options),
        _ => campaign(&options),
    }
}

/// Shows a case, step by step.
fn replay(case: &Case) -> ExitCode {
    let report = case.run(true);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("{}", serde_json::to_string(case).unwrap_or_default());
    if report.violations.is_empty() {
        println!("nothing found");
        return ExitCode::SUCCESS;
    }
    report.violations.iter().for_each(|found| println!("FOUND: {found}"));
    ExitCode::from(1)
}

fn simulate_years(years: f64, options: &Options) -> ExitCode {
    let all = (years * 365.25) as u64 * DAY;
    let case = |number: u64| Case::Loop(Plan::years(number + 1, MONTH.min(all - number * MONTH)));
    run_all(options, all.div_ceil(MONTH), None, &|number| (number + 1, case(number)))
}

fn campaign(options: &Options) -> ExitCode {
    let seeds = options.seeds.unwrap_or(if options.hours.is_some() { u64::MAX } else { 1000 });
    let span = options.hours.map(|hours| Duration::from_secs_f64(hours * 3600.0));
    run_all(options, seeds, span, &|number| {
        let seed = options.first.wrapping_add(number);
        (seed, Case::of(seed))
    })
}

/// Runs so many cases, each with its seed, for at most this time.
fn run_all(
    options: &Options,
    count: u64,
    span: Option<Duration>,
    case: &(dyn Fn(u64) -> (u64, Case) + Sync),
) -> ExitCode {
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    // Of all threads, so that nothing is lost with one that dies.
    let sum = Mutex::new(Sum::default());
    let sum_now = || -> MutexGuard<'_, Sum> { sum.lock().unwrap_or_else(PoisonError::into_inner) };
    let is_over = || {
        is_interrupted()
            || span.is_some_and(|span| start.elapsed() >= span)
            || (!options.keep_going && sum_now().failed.len() >= FAILED_MAX)
    };
    eprintln!("it begins; Ctrl-C ends it with what was found so far");
    let work = |is_first: bool| {
        let mut told = Instant::now();
        while !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            let (seed, case) = case(number);
            let report = case.run(false);
            if let Some(found) = report.violations.first() {
                eprintln!("seed {seed}: {found}");
            }
            sum_now().add(seed, report);
            if is_first && told.elapsed() >= PROGRESS {
                told = Instant::now();
                eprintln!("{}", sum_now().line(start.elapsed()));
            }
        }
    };
    let mut panicked = false;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs)
            .map(|job| {
                let work = &work;
                scope.spawn(move || work(job == 0))
            })
            .collect();
        threads.into_iter().for_each(|thread| panicked |= thread.join().is_err());
    });
    let code = tell(&sum_now(), start.elapsed(), options.json);
    if panicked {
        eprintln!("a thread of the campaign panicked. Remedy: RUST_BACKTRACE=1 shows where");
        return ExitCode::from(1);
    }
    code
}

fn tell(sum: &Sum, took: Duration, json: bool) -> ExitCode {
    if json {
        println!("{}", sum.json(took));
    } else {
        println!("{}\n\nfaults met, by kind:\n{}", sum.line(took), sum.table());
        sum.failed.iter().for_each(|(seed, found)| println!("seed {seed}: {}", found.join("; ")));
        if let Some((seed, _)) = sum.failed.first() {
            println!("replay: faultsim --seed {seed}");
        }
    }
    match (sum.failed.is_empty(), INTERRUPTED.load(Ordering::Relaxed)) {
        (false, _) => ExitCode::from(1),
        (true, 0) => ExitCode::SUCCESS,
        (true, signal) => ExitCode::from(128 + signal as u8),
    }
}
