//! Many runs, on all processors. A run itself has one thread.

use crate::{Error, Outcome, run_with, tap::Tap};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_config::Scenario;

/// What several runs report together, from any thread, and whether they shall go on.
pub trait Progress: Sync {
    /// Reports work that was done, in the unit of [`cost`].
    fn advance(&self, work: f64);
    /// Reports that a run has ended.
    fn run_ended(&self);
    /// Whether the user asked for an end.
    fn is_interrupted(&self) -> bool;
}

impl<P: Progress + ?Sized> Progress for Box<P> {
    fn advance(&self, work: f64) {
        (**self).advance(work);
    }
    fn run_ended(&self) {
        (**self).run_ended();
    }
    fn is_interrupted(&self) -> bool {
        (**self).is_interrupted()
    }
}

/// What a run costs, about: the bits that the slowest links of all routes can carry in its time. Runs are
/// started in this order, and progress is told by it.
pub fn cost(scenario: &Scenario) -> f64 {
    let network = scenario.network();
    let rate = |link: usize| network.links[link].rate.as_bps_f64();
    let slowest = |links: &Vec<usize>| links.iter().copied().min_by(|a, b| rate(*a).total_cmp(&rate(*b)));
    let mut slow: Vec<usize> = network.routes.iter().filter_map(|r| slowest(&r.forward)).collect();
    slow.sort_unstable();
    slow.dedup();
    // Rates are counted in Gbit/s; even what sends nothing takes a moment.
    (slow.into_iter().map(rate).sum::<f64>() / 1e9 + 1e-3) * scenario.run.duration.as_secs_f64()
}

/// Runs a scenario once with a tap that looks at the packets. Returns the outcome, whether the run was
/// interrupted, and the tap.
///
/// # Errors
///
/// If the simulator cannot run the scenario.
pub fn simulate<T: Tap>(
    scenario: &Scenario,
    seed: u64,
    tap: T,
    progress: &dyn Progress,
) -> Result<(Outcome, bool, T), Error> {
    let (cost, mut reported, mut interrupted) = (cost(scenario), 0.0, false);
    let mut watch = |now: crate::Progress<'_>| {
        let share = now.t_s / now.length_s;
        progress.advance(cost * (share - reported));
        reported = share;
        interrupted = progress.is_interrupted() && share < 1.0;
        if interrupted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let (outcome, tap) = run_with(scenario, seed, tap, &mut watch)?;
    progress.run_ended();
    Ok((outcome, interrupted, tap))
}

/// Makes all runs of a plan, the long ones first, so that no processor ends long before the others. Results
/// are in the order of the plan; those of runs that were interrupted or not begun are missing.
///
/// # Errors
///
/// The first failure of a run.
pub fn run_all<P: Sync, R: Send, E: Send, W: Progress>(
    plan: &[P],
    scenario: impl Fn(&P) -> &Scenario,
    progress: impl FnOnce(usize, f64) -> W,
    measure: impl Fn(&P, &W) -> Result<Option<R>, E> + Sync,
) -> Result<Vec<Option<R>>, E> {
    let costs: Vec<f64> = plan.iter().map(|p| cost(scenario(p))).collect();
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]));
    let progress = progress(plan.len(), costs.iter().sum());
    let results: Vec<Mutex<Option<R>>> = plan.iter().map(|_| Mutex::new(None)).collect();
    work_through(&order, processors(), |index| {
        if !progress.is_interrupted() {
            let result = measure(&plan[index], &progress)?;
            *lock(&results[index]) = result;
        }
        Ok(())
    })?;
    Ok(results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// As many threads as there are processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Does every piece of work in `order` on `jobs` threads, which start them in that order. After a failure no
/// further one is started.
///
/// # Errors
///
/// The first failure.
pub fn work_through<E: Send>(
    order: &[usize],
    jobs: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let take = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(piece) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(e) = work(*piece) {
                failed.store(true, Ordering::Relaxed);
                lock(&failure).get_or_insert(e);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(order.len()) {
            scope.spawn(take);
        }
        take();
    });
    lock(&failure).take().map_or(Ok(()), Err)
}

/// Takes a lock under which nothing is left half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_a_failure_ends_it() {
        let done: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let order: Vec<usize> = (0..50).rev().collect();
        let count = |piece: usize| {
            done[piece].fetch_add(1, Ordering::Relaxed);
            Ok::<(), usize>(())
        };
        assert_eq!(work_through(&order, 4, count), Ok(()));
        assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        assert_eq!(work_through(&order, 1, |n| if n == 30 { Err(n) } else { count(n) }), Err(30));
        assert_eq!(done[31].load(Ordering::Relaxed), 2);
        assert_eq!(done[29].load(Ordering::Relaxed), 1);
    }
}
