//! What a second thread gains where many scenarios are run: runs share nothing.

use super::{LEAST_GAIN, PART, scenarios, timed};
use crate::error::{Error, Result};
use crate::rows::{Row, all, median};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Runs of a sweep.
const RUNS: u64 = 12;

/// Two threads against one, in turns.
pub fn row(rounds: u32) -> Row {
    let what = format!("a sweep of {RUNS} runs: two threads, of one");
    if weir_lab::host::cpus().allowed.len() < 2 {
        return Row::skipped(PART, what, "this needs two processors");
    }
    let gain = |round| -> Result<f64> {
        let (one, two) = (sweep(1)?, sweep(2)?);
        eprintln!("sim: sweep: round {round}: {one:.2} s with one thread, {two:.2} s with two");
        Ok(one / two)
    };
    match (0..rounds).map(gain).collect::<Result<Vec<f64>>>() {
        Ok(gains) => {
            let note = format!("rounds: {}", all(&gains));
            Row::told(PART, what, median(&gains), "").at_least(LEAST_GAIN).times(rounds).note(note)
        }
        Err(error) => Row::failed(PART, what, error.to_string()),
    }
}

/// Seconds of wall time for all runs.
fn sweep(threads: u32) -> Result<f64> {
    let next = AtomicU64::new(1);
    let work = || -> Result<()> {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed > RUNS {
                return Ok(());
            }
            timed(scenarios::SWEPT, seed)?;
        }
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::new("a run of the sweep panicked")))
        })
    })?;
    Ok(begin.elapsed().as_secs_f64())
}
