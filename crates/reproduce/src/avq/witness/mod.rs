//! The same experiments in ns-2.35, an independent simulator, and how far both are apart.

mod compare;
mod setup;

pub use compare::{Comparison, compare};

use super::experiments::Case;
use super::measured::{Run, Values};
use super::observer::{Deliveries, Observation, Sample};
use super::spans::spans;
use crate::host::{Error, Host};
use crate::runs::{Planned, run_all};
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_report::write_atomic;

/// What is run there.
const SCRIPT: &str = include_str!("witness.tcl");

/// What a reader of the comparison must know.
pub const NOTE: &str = "The witness is ns-2.35 with its own RED, REM, PI, GK and Vq (AVQ), the parameters of the \
    scenario files, TCP Newreno with timestamps whose windows grow by whole packets, and other random numbers. \
    Its REM marks packets when they leave and counts arrivals instead of the change of the queue; its virtual \
    queue of GK forgets an arrival after each idle time.";

/// Where ns-2 is.
pub fn find() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("ns")).find(|file| file.is_file());
    found.ok_or_else(|| {
        Error::Failed(
            "the program `ns` of the simulator ns-2 is missing. Remedy: install the Debian package `ns2`, or leave \
             --witness out"
                .into(),
        )
    })
}

/// Makes every run of the plan there, on all processors. The scripts stay beside the results.
pub fn run(ns: &Path, plan: &[Planned<Case>], folder: &Path, host: &dyn Host) -> Result<Vec<Run>, Error> {
    let folder = folder.join("ns2");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Error::Failed(format!("cannot create {}: {e}", folder.display())))?;
    let script = folder.join("witness.tcl");
    write_atomic(&script, SCRIPT)?;
    host.say(&format!("{} runs in ns-2", plan.len()));
    run_all(plan, host, |planned, progress| {
        let run = measure(ns, &script, planned, &folder, host)?;
        progress.advance(weir_sim::batch::cost(&planned.scenario));
        progress.run_ended();
        Ok(run)
    })
}

fn measure(
    ns: &Path,
    script: &Path,
    planned: &Planned<Case>,
    folder: &Path,
    host: &dyn Host,
) -> Result<Option<Run>, Error> {
    let series = planned.case.series.to_lowercase().replace([' ', '%'], "");
    let name = format!("experiment{}-{series}-{}.tcl", u32::from(planned.case.experiment), planned.seed);
    let setup = folder.join(name);
    let spans = spans(&planned.scenario);
    write_atomic(&setup, setup::setup(planned, &spans)?)?;
    let run = Command::new(ns).arg(script).arg(&setup).output();
    let run = run.map_err(|e| Error::Failed(format!("cannot start {}: {e}", ns.display())))?;
    if host.is_interrupted() {
        return Ok(None);
    }
    let blame = |what: String| {
        let line = format!("{} {} {}", ns.display(), script.display(), setup.display());
        Error::Failed(format!("ns-2 failed: {}; try `{line}`", what.trim()))
    };
    if !run.status.success() {
        return Err(blame(format!("{}, {}", run.status, String::from_utf8_lossy(&run.stderr))));
    }
    let seen = read(&String::from_utf8_lossy(&run.stdout)).map_err(blame)?;
    let (case, seed, values) = (planned.case.clone(), planned.seed, Values::new(&spans, seen));
    Ok(Some(Run { case, seed, values, trace_hash: None, warnings: None }))
}

/// Reads what the script prints: sums since the start.
fn read(text: &str) -> Result<Observation, String> {
    let mut seen = Observation::default();
    let mut before = [0.0; 5];
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let kind = words.next();
        let numbers: Result<Vec<f64>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|e| format!("it printed `{line}`: {e}"))?;
        match (kind, numbers.as_slice()) {
            (Some("s"), &[t, departed, lost, queue, waited]) => {
                let now = [t, departed, lost, queue, waited];
                seen.samples.push(sample(&before, &now));
                before = now;
            }
            (Some("f"), [t, short, long @ ..]) => {
                let long: Vec<u64> = long.iter().map(|n| *n as u64).collect();
                if seen.delivered.is_empty() {
                    seen.delivered.push(Deliveries { long: vec![0; long.len()], ..Deliveries::default() });
                }
                seen.delivered.push(Deliveries { t_s: *t, long, short: *short as u64 });
            }
            _ => return Err(format!("it printed `{line}`")),
        }
    }
    if seen.samples.is_empty() { Err("it printed no samples".into()) } else { Ok(seen) }
}

fn sample(before: &[f64; 5], now: &[f64; 5]) -> Sample {
    let more = |i: usize| now[i] - before[i];
    Sample {
        t_s: now[0],
        queue_mean: more(4) / more(0),
        queue: now[3],
        departed: more(1),
        lost: more(2) as u64,
        discarded: None,
        marked: None,
        capacity: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_become_periods() {
        let text = "s 0.1 100 1 3 0.5\nf 0.15 20 40 60\ns 0.2 225 1 0 1.5\n";
        let seen = read(text).unwrap();
        assert_eq!((seen.samples[0].queue_mean, seen.samples[0].lost), (5.0, 1));
        assert_eq!(
            (seen.samples[1].queue_mean, seen.samples[1].departed, seen.samples[1].lost),
            (10.0, 125.0, 0)
        );
        assert_eq!(seen.samples.iter().map(|s| s.marked).collect::<Vec<_>>(), [None, None]);
        let ends = [
            Deliveries { t_s: 0.0, long: vec![0, 0], short: 0 },
            Deliveries { t_s: 0.15, long: vec![40, 60], short: 20 },
        ];
        assert_eq!(seen.delivered, ends);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for text in ["", "s 0.1 100\n", "no such queue\n", "s 0.1 x 1 1 1\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
