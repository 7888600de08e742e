//! `faultsim`: campaigns of the fault simulation, and the replay of a seed.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// The packet loop and the user plane under simulated faults, in virtual time.
///
/// Exit code: 0 nothing found, 1 a failing seed, 2 wrong usage, 130 interrupted by Ctrl-C and nothing found.
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
    /// A link of 10 Mbit/s with sparse traffic for so many years.
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
    // SAFETY: the handler stores to an atomic and does nothing else.
    unsafe { libc::signal(libc::SIGINT, interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t) };
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
        (None, None, Some(years)) => simulate_years(years, options.json),
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

fn simulate_years(years: f64, json: bool) -> ExitCode {
    let all = (years * 365.25) as u64;
    let (start, mut sum) = (Instant::now(), Sum::default());
    // A month at a time, so that progress can be told.
    let mut left = all * DAY;
    while left > 0 && !INTERRUPTED.load(Ordering::Relaxed) {
        let seconds = left.min(30 * DAY);
        left -= seconds;
        sum.add(sum.seeds, Case::Loop(Plan::years(seconds)).run(false));
        eprintln!("{}", sum.line(start.elapsed()));
    }
    tell(&sum, start.elapsed(), json)
}

fn campaign(options: &Options) -> ExitCode {
    let start = Instant::now();
    let deadline = options.hours.map(|hours| start + Duration::from_secs_f64(hours * 3600.0));
    let seeds = options.seeds.unwrap_or(if deadline.is_some() { u64::MAX } else { 1000 });
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = || {
        INTERRUPTED.load(Ordering::Relaxed)
            || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || (!options.keep_going && failed.load(Ordering::Relaxed) >= FAILED_MAX as u64)
    };
    let work = |is_first: bool| {
        let (mut sum, mut told) = (Sum::default(), Instant::now());
        while !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                break;
            }
            let seed = options.first.wrapping_add(number);
            let report = Case::of(seed).run(false);
            if let Some(found) = report.violations.first() {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("seed {seed}: {found}");
            }
            sum.add(seed, report);
            if is_first && told.elapsed() >= PROGRESS {
                told = Instant::now();
                let done = next.load(Ordering::Relaxed);
                eprintln!(
                    "{done} seeds in {:.0} s; on this thread: {}",
                    start.elapsed().as_secs_f64(),
                    sum.line(start.elapsed())
                );
            }
        }
        sum
    };
    let (mut all, mut panicked) = (Sum::default(), false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs).map(|job| scope.spawn(move || work(job == 0))).collect();
        for thread in threads {
            match thread.join() {
                Ok(sum) => all.merge(sum),
                Err(_) => panicked = true,
            }
        }
    });
    let code = tell(&all, start.elapsed(), options.json);
    if panicked {
        eprintln!(
            "a thread of the campaign panicked, and what it found is lost. Remedy: RUST_BACKTRACE=1 shows where"
        );
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
        (true, true) => ExitCode::from(130),
        (true, false) => ExitCode::SUCCESS,
    }
}
