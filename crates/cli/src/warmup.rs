//! What was decided about the warm-up of a run.

use serde::Serialize;
use std::fmt;

/// What was decided for a point, from all of its runs.
#[derive(Clone, Debug, Serialize)]
pub struct Decided {
    /// Number of the point, from 0.
    #[serde(skip)]
    pub point: usize,
    /// `MSER-5`.
    pub method: &'static str,
    /// What is left out: the longest that a series of a run asks for.
    pub warmup_s: f64,
    /// The longest that the delay of the first link asks for.
    pub of_delay_s: f64,
    /// The longest that its delivered rate asks for.
    pub of_rate_s: f64,
    /// Runs that were looked at.
    pub runs: usize,
    /// Whether a series was least uncertain only in its later half, so that the run is too short to tell:
    /// then half of it is left out.
    pub is_undecided: bool,
    /// Length of the run.
    pub duration_s: f64,
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decided { method, warmup_s, of_delay_s, of_rate_s, runs, duration_s, .. } = self;
        write!(
            f,
            "Warm-up {warmup_s} s of {duration_s} s by {method} (least standard error of the mean of what is left): the \
             delay of the first link asks for {of_delay_s} s, its rate for {of_rate_s} s, over {runs} runs"
        )?;
        if self.is_undecided {
            write!(f, ". The run is too short to tell: it is not steady in its later half. Run longer")?;
        }
        Ok(())
    }
}
