//! What was measured of the cases, as claims, charts and tables ask for it.

use super::cases::{Case, Managed, Planned, Study, Way};
use super::observer::{Delays, Observer};
use crate::output::Failure;
use crate::progress::Progress;
use crate::simulate::simulate_with;
use crate::verbs::reproduce::work::by_case;
use serde::Serialize;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What of.
    pub case: Case,
    /// The random numbers.
    pub seed: u64,
    /// What each modem delivered on average, in Mbit/s of payload.
    pub bandwidth_mbps: [f64; 3],
    /// Standard deviation of what it delivered in a second.
    pub deviation_mbps: [f64; 3],
    /// Bytes of probes divided by those of data, over all links that probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<f64>,
    /// Fingerprint of every decision about every packet.
    pub trace_hash: String,
    /// Round trips.
    #[serde(skip)]
    pub delays: Delays,
    /// Megabits in each second, of all modems.
    #[serde(skip)]
    pub seconds: Vec<f64>,
}

/// Makes a run, if it is not interrupted.
pub fn measure(planned: &Planned, progress: &Progress) -> Result<Option<Run>, Failure> {
    let observer = Observer::new(&planned.scenario, planned.case.rtt_ms as f64);
    let (outcome, interrupted, seen) = simulate_with(&planned.scenario, planned.seed, observer, progress)?;
    if interrupted {
        return Ok(None);
    }
    let sensed = outcome.recording.summary.links.iter().filter_map(|l| l.sensing.as_ref());
    let shares: Vec<f64> = sensed.map(|s| s.share).collect();
    Ok(Some(Run {
        case: planned.case,
        seed: planned.seed,
        bandwidth_mbps: seen.delivered.each_ref().map(|bins| mean(bins)),
        deviation_mbps: seen.delivered.each_ref().map(|bins| deviation(bins)),
        overhead: shares.iter().copied().reduce(f64::max),
        trace_hash: format!("{:016x}", outcome.trace_hash),
        delays: seen.delays,
        seconds: seen.delivered.concat(),
    }))
}

/// Mean; NaN of nothing, which no comparison holds for.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - middle) * (v - middle)).collect();
    mean(&squares).sqrt()
}

/// The runs of one case together.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub case: Case,
    /// Mean over modems and runs, in Mbit/s of payload.
    pub bandwidth: f64,
    /// Of the modem with the least in any run, and with the most.
    pub bandwidth_range: (f64, f64),
    /// Standard deviation of what a modem delivers in a second, mean over modems and runs.
    pub deviation: f64,
    /// The largest share of probes.
    pub overhead: Option<f64>,
    /// Round trips of all runs.
    pub delays: Delays,
    /// Megabits in each second, of all modems and runs, in order of size.
    pub seconds: Vec<f64>,
}

impl Measured {
    fn of(case: Case, runs: &[&Run]) -> Measured {
        let bandwidths: Vec<f64> = runs.iter().flat_map(|r| r.bandwidth_mbps).collect();
        let deviations: Vec<f64> = runs.iter().flat_map(|r| r.deviation_mbps).collect();
        let mut delays = Delays::default();
        runs.iter().for_each(|r| delays.add(&r.delays));
        let mut seconds: Vec<f64> = runs.iter().flat_map(|r| r.seconds.iter().copied()).collect();
        seconds.sort_by(f64::total_cmp);
        let least = bandwidths.iter().copied().fold(f64::INFINITY, f64::min);
        let most = bandwidths.iter().copied().fold(0.0, f64::max);
        Measured {
            case,
            bandwidth: mean(&bandwidths),
            bandwidth_range: (least, most),
            deviation: mean(&deviations),
            overhead: runs.iter().filter_map(|r| r.overhead).reduce(f64::max),
            delays,
            seconds,
        }
    }

    /// Round trip beyond that of the empty path that a share of the packets does not exceed, in ms.
    pub fn excess(&self, share: f64) -> f64 {
        self.delays.quantile(share) - self.case.rtt_ms as f64
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

    /// Those of a study with an algorithm, in one direction.
    pub fn of(&self, study: Study, way: Way, managed: Managed) -> Vec<&Measured> {
        let wanted = |m: &&Measured| (m.case.study, m.case.way, m.case.managed) == (study, way, managed);
        self.0.iter().filter(wanted).collect()
    }

    /// Those of a study, whatever the algorithm and the direction.
    pub fn study(&self, study: Study) -> Vec<&Measured> {
        self.0.iter().filter(|m| m.case.study == study).collect()
    }

    /// Directions that were run.
    pub fn ways(&self) -> Vec<Way> {
        let mut ways: Vec<Way> = self.0.iter().map(|m| m.case.way).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }
}
