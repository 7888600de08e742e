//! Scenarios beside those of the papers, in the simulator: experiments that show why a claim is missed, and
//! what a paper has no figure of.

use crate::host::{Error, Host};
use crate::runs::{Planned, run_all};
use crate::statistics::mean;
use weir_config::Document;
use weir_measure::result::{LinkSample, LinkSummary, Recording};
use weir_sim::batch;

/// An experiment that shows why claims are missed, if it comes out as expected.
#[derive(Debug)]
pub struct Experiment {
    /// Name and content of its scenario file; several may be about one.
    pub file: (&'static str, &'static str),
    /// What it measures beside what is expected, and whether it came out so.
    pub judge: fn(&Points) -> (String, bool),
}

/// A point of a scenario, with its runs.
#[derive(Debug)]
pub struct Point {
    /// The values that its axes have, in their order.
    pub values: Vec<String>,
    /// One recording for each seed.
    pub runs: Vec<Recording>,
}

/// All points of a scenario.
#[derive(Debug)]
pub struct Points(pub Vec<Point>);

/// Most flows of a run of which samples are kept: nothing asks for those of hundreds.
const SAMPLED: usize = 8;

/// A quantity of a run.
pub type Quantity = fn(&Recording) -> f64;

/// The points of a file.
pub fn expand((name, text): (&str, &str)) -> Result<Vec<weir_config::Point>, Error> {
    let scenario = Document::parse(name, text).and_then(|file| file.scenario()).map_err(Error::input)?;
    Ok(scenario.expand())
}

impl Points {
    /// The points of a file, before any run.
    pub fn not_run(points: &[weir_config::Point]) -> Points {
        let values =
            |settings: &[(String, String)]| settings.iter().map(|(_, value)| value.clone()).collect();
        Points(
            points.iter().map(|point| Point { values: values(&point.settings), runs: Vec::new() }).collect(),
        )
    }

    /// Runs every point with all its seeds. Points that were interrupted have no runs.
    pub fn run(points: &[weir_config::Point], host: &dyn Host) -> Result<Points, Error> {
        let planned = points.iter().enumerate().flat_map(|(number, point)| {
            let seeds = point.scenario.run.seeds;
            Planned::repeated(&number, &point.scenario, seeds)
        });
        let plan: Vec<Planned<usize>> = planned.collect();
        let runs = run_all(&plan, host, |planned, progress| {
            let (outcome, interrupted, ()) = batch::simulate(&planned.scenario, planned.seed, (), progress)?;
            let mut recording = outcome.recording;
            if recording.summary.flows.len() > SAMPLED {
                recording.flow_samples = Vec::new();
            }
            Ok((!interrupted).then_some((planned.case, recording)))
        })?;
        let Points(mut found) = Points::not_run(points);
        for (number, recording) in runs {
            found[number].runs.push(recording);
        }
        Ok(Points(found))
    }

    /// The runs of the point whose axes have these values, of which an empty text stands for any; none where
    /// there is no such point.
    pub fn runs(&self, values: &[&str]) -> impl Iterator<Item = &Recording> {
        let is_meant = |point: &&Point| {
            point.values.len() == values.len()
                && point.values.iter().zip(values).all(|(a, b)| b.is_empty() || a == b)
        };
        debug_assert!(self.0.iter().any(|point| is_meant(&point)), "{values:?} is no point");
        self.0.iter().filter(is_meant).flat_map(|point| &point.runs).collect::<Vec<_>>().into_iter()
    }

    /// Mean over the runs of such points; NaN of none.
    pub fn mean(&self, values: &[&str], of: Quantity) -> f64 {
        mean(self.runs(values).map(of))
    }
}

/// The samples of the managed link.
pub fn samples(run: &Recording) -> &[LinkSample] {
    run.link_samples.first().map_or(&[], Vec::as_slice)
}

/// Those from one time to another, in seconds.
pub fn between(run: &Recording, from_s: f64, to_s: f64) -> impl Iterator<Item = &LinkSample> + Clone {
    samples(run).iter().filter(move |sample| sample.t_s > from_s && sample.t_s <= to_s)
}

fn link(run: &Recording) -> Option<&LinkSummary> {
    run.summary.links.first()
}

/// Delivered rate divided by the rate of the link.
pub fn utilization(run: &Recording) -> f64 {
    link(run).map_or(f64::NAN, |link| link.utilization)
}

/// Mean delay in milliseconds.
pub fn delay_mean_ms(run: &Recording) -> f64 {
    link(run).map_or(f64::NAN, |link| link.delay_ms.mean)
}

/// Delay in milliseconds that 95 % of the packets do not exceed.
pub fn delay_p95_ms(run: &Recording) -> f64 {
    link(run).map_or(f64::NAN, |link| link.delay_ms.p95)
}

/// Packets that were discarded, for whatever reason.
pub fn lost(run: &Recording) -> f64 {
    link(run).map_or(f64::NAN, |link| (link.drops + link.overflows) as f64)
}

/// What applications received, in Mbit/s.
pub fn payload_mbps(run: &Recording) -> f64 {
    let bytes: u64 = run.summary.flows.iter().map(|flow| flow.bytes).sum();
    bytes as f64 * 8.0 / run.summary.duration_s / 1e6
}

/// Jain's index of what the flows got.
pub fn fairness(run: &Recording) -> f64 {
    let got: Vec<f64> = run.summary.flows.iter().map(|flow| flow.goodput_bps).collect();
    crate::statistics::jain(&got)
}

/// That the scenarios of these experiments can be read and have the points that are judged, and that nothing
/// is shown by no runs.
#[cfg(test)]
pub fn assert_judged<'a>(experiments: impl Iterator<Item = &'a Experiment>) {
    for Experiment { file, judge } in experiments {
        let (name, _) = file;
        let points = expand(*file).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let (found, is_expected) = judge(&Points::not_run(&points));
        assert!(!is_expected && found.contains("NaN"), "{name}: {found}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_the_values_of_their_axes() {
        let point = |values: [&str; 2], utilization: f64| {
            let link = LinkSummary { utilization, ..LinkSummary::default() };
            let mut run = Recording::default();
            run.summary.links.push(link);
            Point { values: values.map(String::from).to_vec(), runs: vec![run] }
        };
        let points =
            Points(vec![point(["1ms", "2"], 0.5), point(["1ms", "9"], 0.7), point(["250us", "9"], 0.9)]);
        let mean = |values: [&str; 2]| (points.mean(&values, utilization) * 100.0).round();
        assert_eq!([mean(["1ms", "9"]), mean(["1ms", ""]), mean(["", "9"])], [70.0, 60.0, 80.0]);
    }
}
