//! `faultsim`: campaigns of the fault simulation, and the replay of a seed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_faultsim::campaign::{Case, Sum, essence};
use weir_faultsim::plan::Plan;

const USAGE: &str = "\
faultsim: the packet loop and the user plane under simulated faults, in virtual time

  --seeds N     run N seeds (1000 unless another length is given)
  --hours H     run seeds for H hours (a fraction is allowed)
  --first S     the first seed (default 1)
  --jobs J      run on J threads (default 1)
  --seed S      replay one seed with its trace; a failing one is shrunk first
  --case FILE   replay a case that was written as JSON
  --whole       with --seed: do not shrink
  --years Y     a link of 10 Mbit/s with sparse traffic for Y years
  --json        tell the result as JSON on standard output
  --keep-going  do not stop at the first 20 failing seeds

Exit code: 0 nothing found, 1 a failing seed, 2 wrong usage, 130 interrupted by Ctrl-C and nothing found";

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

#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    hours: Option<f64>,
    first: Option<u64>,
    jobs: Option<u64>,
    seed: Option<u64>,
    case: Option<String>,
    years: Option<f64>,
    whole: bool,
    json: bool,
    keep_going: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        fn number<T: std::str::FromStr>(word: &str, text: String) -> Result<Option<T>, String> {
            text.parse().map(Some).map_err(|_| format!("{word}: `{text}` is no number"))
        }
        match word.as_str() {
            "--seeds" => options.seeds = number(&word, value()?)?,
            "--hours" => options.hours = number(&word, value()?)?,
            "--first" => options.first = number(&word, value()?)?,
            "--jobs" => options.jobs = number(&word, value()?)?,
            "--seed" => options.seed = number(&word, value()?)?,
            "--years" => options.years = number(&word, value()?)?,
            "--case" => options.case = Some(value()?),
            "--whole" => options.whole = true,
            "--json" => options.json = true,
            "--keep-going" => options.keep_going = true,
            _ => return Err(format!("`{word}` is not known")),
        }
    }
    if options.jobs == Some(0) {
        return Err("--jobs 0 would run nothing".into());
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
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
                eprintln!("{file}: {wrong}. Remedy: give a file that `--seed` wrote");
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
    let deadline =
        options.hours.map(|hours| start + Duration::from_secs_f64((hours * 3600.0).clamp(0.0, 1e7)));
    let seeds = options.seeds.unwrap_or(if deadline.is_some() { u64::MAX } else { 1000 });
    let first = options.first.unwrap_or(1);
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
            let report = Case::of(first + number).run(false);
            if let Some(found) = report.violations.first() {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("seed {}: {found}", first + number);
            }
            sum.add(first + number, report);
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
    let jobs = options.jobs.unwrap_or(1);
    let mut all = Sum::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || work(job == 0))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).for_each(|sum| all.merge(sum));
    });
    tell(&all, start.elapsed(), options.json)
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
