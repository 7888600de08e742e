//! What was measured of the cases, as claims, charts and tables ask for it.

use super::cases::{Algorithm, Case, Direction, Study};
use super::observer::{Delays, Observer};
use crate::host::Error;
use crate::journal::Measurement;
use crate::runs::{self, NestedCase, Planned, simulate};
use crate::statistics::{deviation, extremes, mean, sorted};
use serde::{Deserialize, Serialize};
use weir_sim::batch::Progress;

/// What is measured of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Values {
    /// What each modem delivered on average, in Mbit/s of payload.
    pub bandwidth_mbps: Vec<f64>,
    /// Standard deviation of what it delivered in a second.
    pub deviation_mbps: Vec<f64>,
    /// Bytes of probes divided by those of data, over all links that probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<f64>,
    /// What the last probe said of the delay differs for 95 % of the packets of data by at most this, in ms;
    /// upper ends of milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_p95_ms: Option<f64>,
    /// Round trip that 95 % of the packets of class EF do not exceed, in ms, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice_p95_ms: Option<f64>,
    /// What results do not show.
    #[serde(skip)]
    pub seen: Seen,
}

/// What claims and charts ask for besides.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Round trips.
    pub delays: Delays,
    /// Megabits in each second, of all modems.
    pub seconds: Vec<f64>,
}

impl Measurement for Values {
    type Detail = Seen;
    fn detail(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

/// One run.
pub type Run = runs::Run<NestedCase<Case>, Values>;
/// Runs, mostly those of one case.
pub type Measured<'a> = runs::Measured<'a, NestedCase<Case>, Values>;

/// Makes a run, if it is not interrupted.
pub fn measure(planned: &Planned<NestedCase<Case>>, progress: &dyn Progress) -> Result<Option<Run>, Error> {
    let observer = Observer::new(&planned.scenario, planned.case.rtt_ms as f64);
    simulate(planned, observer, progress, |recording, seen| {
        let sensed = recording.summary.links.iter().filter_map(|link| link.sensing.as_ref());
        Values {
            bandwidth_mbps: seen.delivered.iter().map(|bins| mean(bins.iter().copied())).collect(),
            deviation_mbps: seen.delivered.iter().map(|bins| deviation(bins.iter().copied())).collect(),
            overhead: sensed.map(|sensing| sensing.share).reduce(f64::max),
            error_p95_ms: Some(seen.errors.quantile(0.95)).filter(|ms| ms.is_finite()),
            voice_p95_ms: Some(seen.voice.quantile(0.95)).filter(|ms| ms.is_finite()),
            seen: Seen { delays: seen.delays, seconds: seen.delivered.concat() },
        }
    })
}

impl<'a> Measured<'a> {
    /// The cases of a study with an algorithm, in one direction.
    pub fn of(&self, study: Study, way: Direction, managed: Algorithm) -> Vec<Measured<'a>> {
        self.only(|case| (case.study, case.way, case.managed) == (study, way, managed)).cases()
    }

    /// The cases of a study, whatever the algorithm and the direction.
    pub fn study(&self, study: Study) -> Vec<Measured<'a>> {
        self.only(|case| case.study == study).cases()
    }

    /// Directions that were run.
    pub fn ways(&self) -> Vec<Direction> {
        let mut ways = self.keys(|case| case.way);
        ways.sort_unstable();
        ways
    }

    fn bandwidths(&self) -> Vec<f64> {
        self.runs.iter().flat_map(|run| run.values.bandwidth_mbps.iter().copied()).collect()
    }

    /// Mean over modems and runs, in Mbit/s of payload.
    pub fn bandwidth(&self) -> f64 {
        mean(self.bandwidths())
    }

    /// Of the modem with the least in any run, and with the most.
    pub fn bandwidth_range(&self) -> (f64, f64) {
        extremes(&self.bandwidths())
    }

    /// Standard deviation of what a modem delivers in a second, mean over modems and runs.
    pub fn deviation(&self) -> f64 {
        mean(self.runs.iter().flat_map(|run| run.values.deviation_mbps.iter().copied()))
    }

    /// The largest share of probes.
    pub fn overhead(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.values.overhead).reduce(f64::max)
    }

    /// By how much what probes said differs from what 95 % of the packets took, in ms; NaN without probes.
    pub fn error_p95_ms(&self) -> f64 {
        mean(self.runs.iter().filter_map(|run| run.values.error_p95_ms))
    }

    /// Round trips of all runs.
    pub fn delays(&self) -> Delays {
        let mut delays = Delays::default();
        self.runs.iter().for_each(|run| delays.add(&run.values.seen.delays));
        delays
    }

    /// The round trip that 95 % of the packets of class EF do not exceed, in ms; NaN without any.
    pub fn voice_p95_ms(&self) -> f64 {
        mean(self.runs.iter().filter_map(|run| run.values.voice_p95_ms))
    }

    /// The round trip that a share of the packets does not exceed, in ms.
    pub fn delay(&self, share: f64) -> f64 {
        self.delays().quantile(share)
    }

    /// The same beyond the round trip of the empty path.
    pub fn excess(&self, share: f64) -> f64 {
        self.delay(share) - self.case().rtt_ms as f64
    }

    /// Megabits in each second, of all modems and runs, in order of size.
    pub fn seconds(&self) -> Vec<f64> {
        sorted(self.runs.iter().flat_map(|run| run.values.seen.seconds.iter().copied()))
    }
}
