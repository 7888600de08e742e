//! The runs of a plan on all processors.

use crate::output::{Failure, Output};
use crate::progress::Progress;
use weir_config::Scenario;
use weir_sim::batch;

/// Makes all runs and shows how far they are, as [`batch::run_all`] orders them.
pub fn run_all<P: Sync, R: Send>(
    plan: &[P],
    scenario: impl Fn(&P) -> &Scenario,
    output: &Output,
    measure: impl Fn(&P, &Progress) -> Result<Option<R>, Failure> + Sync,
) -> Result<Vec<Option<R>>, Failure> {
    batch::run_all(plan, scenario, |runs, work| Progress::new(runs, work, output), measure)
}
