//! The runs of a reproduction: what was not measured is left out, and what is alike belongs together.

use crate::output::{Failure, Output};
use crate::progress::Progress;
use crate::runs;
use std::collections::BTreeMap;
use weir_scenario::Scenario;

/// What is said before the short form of an experiment.
pub const SHORT_FORM: &str =
    "the short form: its runs are too short for some claims, which may be missed only for that";

/// Makes all runs. Those that were interrupted or not begun are left out; the others are in the order of the plan.
pub fn run_all<P: Sync, R: Send>(
    plan: &[P],
    scenario: impl Fn(&P) -> &Scenario,
    output: &Output,
    measure: impl Fn(&P, &Progress) -> Result<Option<R>, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    Ok(runs::run_all(plan, scenario, output, measure)?.into_iter().flatten().collect())
}

/// The runs of each case, in the order in which they were made.
pub fn by_case<R, C: Ord>(runs: &[R], case: impl Fn(&R) -> C) -> BTreeMap<C, Vec<&R>> {
    let mut cases: BTreeMap<C, Vec<&R>> = BTreeMap::new();
    for run in runs {
        cases.entry(case(run)).or_default().push(run);
    }
    cases
}
