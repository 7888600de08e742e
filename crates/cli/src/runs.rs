//! The runs of a plan on all processors.

use crate::interrupt::is_interrupted;
use crate::output::{Failure, Output};
use crate::progress::Progress;
use crate::simulate::cost;
use crate::workers::{lock, processors, work_through};
use std::sync::{Mutex, PoisonError};
use weir_scenario::Scenario;

/// Makes all runs, the long ones first, so that no processor ends long before the others. Results are in the order of
/// the plan; those of runs that were interrupted or not begun are missing.
pub fn run_all<P: Sync, R: Send>(
    plan: &[P],
    scenario: impl Fn(&P) -> &Scenario,
    output: &Output,
    measure: impl Fn(&P, &Progress) -> Result<Option<R>, Failure> + Sync,
) -> Result<Vec<Option<R>>, Failure> {
    let costs: Vec<f64> = plan.iter().map(|p| cost(scenario(p))).collect();
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]));
    let progress = Progress::new(plan.len(), costs.iter().sum(), output);
    let results: Vec<Mutex<Option<R>>> = plan.iter().map(|_| Mutex::new(None)).collect();
    work_through(&order, processors(), |index| {
        if !is_interrupted() {
            let result = measure(&plan[index], &progress)?;
            *lock(&results[index]) = result;
        }
        Ok::<(), Failure>(())
    })?;
    Ok(results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}
