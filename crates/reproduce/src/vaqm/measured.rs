//! What was measured of the cases, as claims, charts and tables ask for it, whichever arm measured it.

use super::cases::{Case, IMAGE, PAGE};
use crate::host::Error;
use crate::journal::Measurement;
use crate::runs::{self, NestedCase, Planned, simulate};
use crate::statistics::{extremes, mean, quantile, sorted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_measure::result::{FlowSample, Recording};
use weir_sim::batch::Progress;

/// What is measured of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Values {
    /// Median of the round-trip times that the senders of the watched phone had, in ms.
    pub rtt_median_ms: f64,
    /// Their 95th percentile.
    pub rtt_p95_ms: f64,
    /// Mean time that a page took, in seconds, if one was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_s: Option<f64>,
    /// The same of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_s: Option<f64>,
    /// What all phones received, in Mbit/s of payload.
    pub goodput_mbps: f64,
    /// The share of the time in which a packet loop did not turn, of a run with real senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// The round-trip times, in order of size.
    #[serde(skip)]
    pub rtts_ms: Vec<f64>,
}

impl Values {
    /// From round-trip times in order of size, mean times of a page and the image, and what all phones
    /// received.
    pub fn new(rtts_ms: Vec<f64>, [page_s, image_s]: [Option<f64>; 2], goodput_mbps: f64) -> Values {
        let [rtt_median_ms, rtt_p95_ms] = [0.5, 0.95].map(|share| quantile(&rtts_ms, share));
        Values { rtt_median_ms, rtt_p95_ms, page_s, image_s, goodput_mbps, stalled_share: None, rtts_ms }
    }

    /// From what the simulator recorded.
    pub fn recorded(seen: &Recording) -> Values {
        let transfers = [PAGE, IMAGE].map(|group: u32| {
            let flow = seen.summary.flows.iter().find(|f| f.group == group);
            flow.and_then(|f| f.transfers).and_then(|t| t.mean_s)
        });
        let bytes: u64 = seen.summary.flows.iter().map(|f| f.bytes).sum();
        let goodput_mbps = bytes as f64 * 8.0 / 1e6 / seen.summary.duration_s;
        Values::new(round_trips(&seen.flow_samples, seen.summary.warmup_s), transfers, goodput_mbps)
    }
}

impl Measurement for Values {
    type Detail = Vec<f64>;
    fn detail(&mut self) -> &mut Vec<f64> {
        &mut self.rtts_ms
    }
    #[cfg(feature = "live")]
    fn stalled_share(&self) -> Option<f64> {
        self.stalled_share
    }
}

/// One run.
pub type Run = runs::Run<NestedCase<Case>, Values>;
/// Runs, mostly those of one case.
pub type Measured<'a> = runs::Measured<'a, NestedCase<Case>, Values>;

/// Makes a run in the simulator, if it is not interrupted.
pub fn measure(planned: &Planned<NestedCase<Case>>, progress: &dyn Progress) -> Result<Option<Run>, Error> {
    simulate(planned, (), progress, |recording, ()| Values::recorded(&recording))
}

impl<'a> Measured<'a> {
    /// Those of a case, if it was run.
    pub fn get(&self, wanted: Case) -> Option<Measured<'a>> {
        let mine = self.only(|case| **case == wanted);
        (!mine.runs.is_empty()).then_some(mine)
    }

    /// Round-trip times of all runs, in order of size, in ms.
    pub fn rtts_ms(&self) -> Vec<f64> {
        sorted(self.runs.iter().flat_map(|run| run.values.rtts_ms.iter().copied()))
    }

    /// The round-trip time that a share of the samples does not exceed, in ms.
    pub fn quantile(&self, share: f64) -> f64 {
        quantile(&self.rtts_ms(), share)
    }

    /// Smallest and largest median of a run, in ms.
    pub fn median_range_ms(&self) -> (f64, f64) {
        extremes(&self.runs.iter().map(|run| run.values.rtt_median_ms).collect::<Vec<_>>())
    }

    /// What all phones received, in Mbit/s.
    pub fn goodput_mbps(&self) -> f64 {
        self.mean(|values| values.goodput_mbps)
    }

    /// Mean time of a page in seconds; NaN where none was complete.
    pub fn page_s(&self) -> f64 {
        mean(self.runs.iter().filter_map(|run| run.values.page_s))
    }

    /// The same of the image.
    pub fn image_s(&self) -> f64 {
        mean(self.runs.iter().filter_map(|run| run.values.image_s))
    }
}

/// Smoothed round-trip times of the watched phone's senders, in order of size. A sample counts while data is
/// acknowledged: between two transfers the last one would be told again and again.
fn round_trips(samples: &[FlowSample], warmup_s: f64) -> Vec<f64> {
    let mut acked = BTreeMap::new();
    let mut rtts = Vec::new();
    for s in samples.iter().filter(|s| s.flow <= IMAGE) {
        let moved = acked.insert(s.flow, s.bytes_acked) != Some(s.bytes_acked);
        if moved && s.t_s > warmup_s && s.rtt_us > 0 {
            rtts.push(f64::from(s.rtt_us) / 1e3);
        }
    }
    sorted(rtts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_while_data_moves() {
        let sample = |t_s, flow, rtt_us, bytes_acked| FlowSample {
            t_s,
            flow,
            rtt_us,
            bytes_acked,
            ..FlowSample::default()
        };
        let samples = [
            sample(1.0, 0, 9_000, 1),
            sample(11.0, 0, 50_000, 2),
            sample(11.1, 0, 50_000, 2),
            sample(11.2, 1, 40_000, 1),
            sample(11.3, 4, 1_000, 1),
            sample(11.4, 1, 0, 2),
            sample(11.5, 0, 60_000, 0),
        ];
        assert_eq!(round_trips(&samples, 10.0), [40.0, 50.0, 60.0]);
    }
}
