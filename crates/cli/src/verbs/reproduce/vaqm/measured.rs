//! What was measured of the cases, as claims, charts and tables ask for it, whichever arm measured it.

use super::cases::{Case, IMAGE, PAGE, Planned};
use crate::output::Failure;
use crate::progress::Progress;
use crate::simulate::simulate;
use crate::verbs::reproduce::work::by_case;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_scenario::result::{FlowSample, Recording};

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What of.
    pub case: Case,
    /// The random numbers.
    pub seed: u64,
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
    /// Fingerprint of every decision about every packet, where the arm has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_hash: Option<String>,
    /// The round-trip times, in order of size.
    #[serde(skip)]
    pub rtts_ms: Vec<f64>,
}

impl Run {
    /// From what an arm recorded.
    pub fn new(case: Case, seed: u64, warmup_s: f64, seen: &Recording, trace_hash: Option<String>) -> Run {
        let rtts_ms = round_trips(&seen.flow_samples, warmup_s);
        let transfer = |group: u32| {
            let flow = seen.summary.flows.iter().find(|f| f.group == group);
            flow.and_then(|f| f.transfers).and_then(|t| t.mean_s)
        };
        let bytes: u64 = seen.summary.flows.iter().map(|f| f.bytes).sum();
        Run {
            case,
            seed,
            rtt_median_ms: quantile(&rtts_ms, 0.5),
            rtt_p95_ms: quantile(&rtts_ms, 0.95),
            page_s: transfer(PAGE),
            image_s: transfer(IMAGE),
            goodput_mbps: bytes as f64 * 8.0 / 1e6 / seen.summary.duration_s,
            trace_hash,
            rtts_ms,
        }
    }
}

/// Smoothed round-trip times of the watched phone's senders, in order of size. A sample counts while data is acknowledged:
/// between two transfers the last one would be told again and again.
fn round_trips(samples: &[FlowSample], warmup_s: f64) -> Vec<f64> {
    let mut acked = BTreeMap::new();
    let mut rtts: Vec<f64> = Vec::new();
    for s in samples.iter().filter(|s| s.flow <= IMAGE) {
        let moved = acked.insert(s.flow, s.bytes_acked) != Some(s.bytes_acked);
        if moved && s.t_s > warmup_s && s.rtt_us > 0 {
            rtts.push(f64::from(s.rtt_us) / 1e3);
        }
    }
    rtts.sort_by(f64::total_cmp);
    rtts
}

/// The value that a share of sorted ones does not exceed; NaN of nothing, which no comparison holds for.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Makes a run in the simulator, if it is not interrupted.
pub fn measure(planned: &Planned, progress: &Progress) -> Result<Option<Run>, Failure> {
    let (outcome, interrupted) = simulate(&planned.scenario, planned.seed, progress)?;
    let warmup_s = planned.scenario.run.warmup.as_secs_f64();
    let hash = Some(format!("{:016x}", outcome.trace_hash));
    Ok((!interrupted).then(|| Run::new(planned.case, planned.seed, warmup_s, &outcome.recording, hash)))
}

/// The runs of one case together.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub case: Case,
    /// Round-trip times of all runs, in order of size, in ms.
    pub rtts_ms: Vec<f64>,
    /// Smallest and largest median of a run.
    pub median_range_ms: (f64, f64),
    /// Mean over the runs of what all phones received, in Mbit/s.
    pub goodput_mbps: f64,
    /// Mean time of a page in seconds; NaN where none was complete.
    pub page_s: f64,
    /// The same of the image.
    pub image_s: f64,
}

impl Measured {
    fn of(case: Case, runs: &[&Run]) -> Measured {
        let mut rtts_ms: Vec<f64> = runs.iter().flat_map(|r| r.rtts_ms.iter().copied()).collect();
        rtts_ms.sort_by(f64::total_cmp);
        let medians = || runs.iter().map(|r| r.rtt_median_ms);
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        Measured {
            case,
            rtts_ms,
            median_range_ms: (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max)),
            goodput_mbps: mean(runs.iter().map(|r| r.goodput_mbps).collect()),
            page_s: mean(runs.iter().filter_map(|r| r.page_s).collect()),
            image_s: mean(runs.iter().filter_map(|r| r.image_s).collect()),
        }
    }

    /// The round-trip time that a share of the samples does not exceed, in ms.
    pub fn quantile(&self, share: f64) -> f64 {
        quantile(&self.rtts_ms, share)
    }
}

/// All cases that were run.
#[derive(Clone, Debug, Default)]
pub struct Cases(Vec<Measured>);

impl Cases {
    /// From the runs.
    pub fn new(runs: &[Run]) -> Cases {
        let cases = by_case(runs, |r| r.case);
        Cases(cases.into_iter().map(|(case, mine)| Measured::of(case, &mine)).collect())
    }

    /// One of them, if it was run.
    pub fn get(&self, case: Case) -> Option<&Measured> {
        self.0.iter().find(|m| m.case == case)
    }

    /// All of them.
    pub fn all(&self) -> &[Measured] {
        &self.0
    }
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
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 3.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
