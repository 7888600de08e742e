//! What was measured of the experiments, as claims, charts and tables ask for it.

use super::experiments::{Case, Experiment};
use super::observer::{Observation, Observer, Sample};
use super::spans::{Span, spans};
use crate::host::Error;
use crate::journal::Measurement;
use crate::runs::{self, Planned, simulate};
use crate::statistics::{deviation, jain, mean};
use serde::{Deserialize, Serialize};
use weir_measure::result::HostJitter;
use weir_report::chart::PlotPoint;
use weir_sim::batch::Progress;

/// Packets of the paper that the link carries in a second.
pub const PACKETS_PER_S: f64 = 1250.0;

/// A span of a run: the load and what came of it, with everything that happened in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Its beginning in seconds.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Long flows.
    pub flows: usize,
    /// Short flows that begin in a second.
    pub short_per_s: f64,
    /// Share of what the link can carry that it carried.
    pub utilization: f64,
    /// Packets that waited, on average over the time.
    pub queue: f64,
    /// Standard deviation of the queue.
    pub deviation: f64,
    /// Packets that were discarded.
    pub lost: f64,
    /// Those of them that the algorithm discarded, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discarded: Option<f64>,
    /// Packets that were marked, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<f64>,
    /// Packets per second that were delivered and had not been before.
    pub goodput: f64,
    /// Jain's index of what the long flows got.
    pub fairness: f64,
}

/// What is measured of a run, in any simulator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Values {
    /// What came of each load.
    pub spans: Vec<Row>,
    /// The run over time.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// How disturbed the machine was, in an arm with real TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostJitter>,
}

impl Values {
    /// A run as it was seen.
    pub fn new(spans: &[Span], seen: Observation) -> Values {
        let rows = spans.iter().map(|span| row(span, &seen)).collect();
        Values { spans: rows, samples: seen.samples, host: None }
    }
}

impl Measurement for Values {
    type Detail = Vec<Sample>;
    fn detail(&mut self) -> &mut Vec<Sample> {
        &mut self.samples
    }
    #[cfg(feature = "live")]
    fn stalled_share(&self) -> Option<f64> {
        self.host.map(|host| host.stalled_share)
    }
}

/// One run.
pub type Run = runs::Run<Case, Values>;
/// Runs, mostly those of one experiment.
pub type Measured<'a> = runs::Measured<'a, Case, Values>;

/// Makes a run, if it is not interrupted.
pub fn measure(planned: &Planned<Case>, progress: &dyn Progress) -> Result<Option<Run>, Error> {
    let spans = spans(&planned.scenario);
    let observer = Observer::new(&planned.scenario, &spans);
    let end_s = planned.scenario.run.duration.as_secs_f64();
    simulate(planned, observer, progress, |_, observer| Values::new(&spans, observer.finish(end_s)))
}

/// The samples from one time to another.
pub fn between(samples: &[Sample], from_s: f64, to_s: f64) -> impl Iterator<Item = &Sample> + Clone {
    samples.iter().filter(move |s| s.t_s > from_s + 1e-6 && s.t_s <= to_s + 1e-6)
}

fn row(span: &Span, seen: &Observation) -> Row {
    let here = between(&seen.samples, span.from_s, span.to_s);
    let seconds = span.to_s - span.from_s;
    let sum = |of: fn(&Sample) -> f64| here.clone().map(of).sum::<f64>();
    let known = |of: fn(&Sample) -> Option<u64>| here.clone().map(of).sum::<Option<u64>>().map(|n| n as f64);
    let at =
        |t_s: f64| seen.delivered.iter().min_by(|a, b| (a.t_s - t_s).abs().total_cmp(&(b.t_s - t_s).abs()));
    let mut row = Row {
        from_s: span.from_s,
        to_s: span.to_s,
        flows: span.long.len(),
        short_per_s: span.short_per_s,
        utilization: sum(|s| s.departed) / seconds / PACKETS_PER_S,
        queue: mean(here.clone().map(|s| s.queue_mean)),
        deviation: deviation(here.clone().map(|s| s.queue)),
        lost: sum(|s| s.lost as f64),
        discarded: known(|s| s.discarded),
        marked: known(|s| s.marked),
        ..Row::default()
    };
    if let (Some(before), Some(after)) = (at(span.from_s), at(span.to_s)) {
        let got: Vec<f64> = after.long.iter().zip(&before.long).map(|(a, b)| (a - b) as f64).collect();
        row.goodput = (got.iter().sum::<f64>() + (after.short - before.short) as f64) / seconds;
        let long: Vec<f64> = span.long.iter().filter_map(|flow| got.get(*flow).copied()).collect();
        row.fairness = jain(&long);
    }
    row
}

impl<'a> Measured<'a> {
    /// The runs of each experiment, in the order of the paper.
    pub fn experiments(&self) -> Vec<(Experiment, Measured<'a>)> {
        let mut experiments = self.by(|case| case.experiment);
        experiments.sort_by_key(|(experiment, _)| *experiment);
        experiments
    }

    /// The runs of a curve.
    pub fn curve(&self, series: &str) -> Measured<'a> {
        self.only(|case| case.series == series)
    }

    /// Names of the curves, in the order of the plan.
    pub fn series(&self) -> Vec<&'a str> {
        self.keys(|case| case.series.as_str())
    }

    /// The first run of a curve.
    pub fn first(&self, series: &str) -> Option<&'a Run> {
        self.runs.iter().copied().find(|run| run.case.series == series)
    }

    /// Number of spans.
    pub fn spans(&self) -> usize {
        self.runs.iter().map(|run| run.values.spans.len()).min().unwrap_or(0)
    }

    /// The load of a span.
    pub fn load(&self, span: usize) -> Row {
        self.runs.first().and_then(|run| run.values.spans.get(span)).cloned().unwrap_or_default()
    }

    /// Values of a span: one for each run.
    fn rows(&self, span: usize) -> impl Iterator<Item = &'a Row> {
        self.runs.iter().filter_map(move |run| run.values.spans.get(span))
    }

    /// Mean over the runs of a curve, of one span.
    pub fn at(&self, series: &str, span: usize, of: fn(&Row) -> f64) -> f64 {
        mean(self.curve(series).rows(span).map(of))
    }

    /// The same for every span.
    pub fn along(&self, series: &str, of: fn(&Row) -> f64) -> Vec<f64> {
        (0..self.spans()).map(|span| self.at(series, span, of)).collect()
    }

    /// The same for the loads with short flows alone: what is before them is for the algorithms to converge.
    pub fn along_short(&self, series: &str, of: fn(&Row) -> f64) -> Vec<f64> {
        let first = (0..self.spans()).find(|span| self.load(*span).short_per_s > 0.0);
        self.along(series, of).split_off(first.unwrap_or(0))
    }

    /// Mean over the runs of a curve of what is not known of every run.
    pub fn known(&self, series: &str, span: usize, of: fn(&Row) -> Option<f64>) -> Option<f64> {
        self.curve(series).rows(span).map(of).collect::<Option<Vec<f64>>>().map(mean)
    }

    /// Mean over the runs, with their range, to be drawn at `x`.
    pub fn plotted_at(&self, series: &str, span: usize, x: f64, of: fn(&Row) -> f64) -> PlotPoint {
        self.curve(series).plotted(x, 1.0, |values| values.spans.get(span).map_or(f64::NAN, of))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    #[test]
    fn a_row_counts_what_lies_in_its_span() {
        let sample = |n: u64| Sample {
            t_s: n as f64,
            queue_mean: 10.0 * n as f64,
            queue: if n.is_multiple_of(2) { 4.0 } else { 8.0 },
            departed: 1000.0,
            lost: n,
            ..Sample::default()
        };
        let delivered =
            |t_s, a, b, short| super::super::observer::Deliveries { t_s, long: vec![a, b], short };
        let seen = Observation {
            samples: (1..=6).map(sample).collect(),
            delivered: vec![delivered(0.0, 0, 0, 0), delivered(2.0, 10, 10, 1), delivered(6.0, 50, 90, 9)],
        };
        let span = Span { from_s: 2.0, to_s: 6.0, long: vec![0, 1], short_per_s: 0.0 };
        let row = row(&span, &seen);
        assert_eq!((row.utilization, row.queue, row.deviation, row.lost), (0.8, 45.0, 2.0, 18.0));
        assert_eq!((row.goodput, row.fairness), (32.0, 14400.0 / (8000.0 * 2.0)));
    }
}
