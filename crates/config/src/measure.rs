//! What the simulator measures beyond summaries and samples.

use crate::problems::Problems;
use crate::schema::{Check, Here, list, within};
use weir_units::Duration;

/// Most time scales.
const MAX_SCALES: usize = 8;
/// Most counters for fairness at a link: flows times the shortest scales of the run.
pub(crate) const MAX_BINS: u64 = 50_000_000;

section! {
    /// What the simulator measures beyond summaries and samples, which costs time for each packet: the
    /// queueing delay of the packets of each group of flows at each link, with its distribution, and fairness
    /// over time scales. A sweep keeps the distributions of its runs, which figures of them need.
    pub struct Measure {
        /// Time scales over which the fairness of the flows of a link is measured, each a multiple of the
        /// first.
        fairness: Vec<Duration> = list("100ms, 1s and 10s", MAX_SCALES, within(Duration::from_millis(1), Duration::from_secs(3600)));
    }
}

impl Check for Measure {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let Some(first) = self.fairness.first().copied() else { return };
        for (i, scale) in self.fairness.iter().enumerate().skip(1) {
            let is_multiple = scale.as_nanos() % first.as_nanos() == 0;
            if !is_multiple || *scale <= self.fairness[i - 1] {
                let problem = format!("{scale} is no larger multiple of the first, {first}");
                let remedy = "begin with the shortest scale, such as [\"100ms\", \"1s\", \"10s\"]";
                here.wrong(p, &format!("fairness.{i}"), problem, remedy);
            }
        }
    }
}

impl Measure {
    /// The time scales of a run of that length: those that were given, or else those that fit in.
    pub fn scales(&self, run: Duration) -> Vec<Duration> {
        let usual = [100, 1_000, 10_000].map(Duration::from_millis);
        let all = if self.fairness.is_empty() { &usual[..] } else { &self.fairness[..] };
        all.iter().copied().filter(|scale| *scale <= run).collect()
    }
}
