//! What was measured of the experiments, as claims, charts and tables ask for it.

use super::experiments::{Experiment, Planned};
use super::observer::{Observed, Observer, Sample};
use super::spans::{Span, spans};
use crate::measured::jain;
use crate::output::Failure;
use crate::progress::Progress;
use crate::simulate::simulate_with;
use serde::Serialize;
use weir_report::chart::PlotPoint;

/// Packets of the paper that the link carries in a second.
pub const PACKETS_PER_S: f64 = 1250.0;

/// A span of a run: the load and what came of it, with everything that happened in it.
#[derive(Clone, Debug, Default, Serialize)]
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

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The experiment.
    pub experiment: Experiment,
    /// Name of the curve.
    pub series: String,
    /// The random numbers.
    pub seed: u64,
    /// What came of each load.
    pub spans: Vec<Row>,
    /// Fingerprint of every decision about every packet; a witness has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_hash: Option<String>,
    /// The run over time.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl Point {
    /// A run as it was seen.
    pub fn new(planned: &Planned, spans: &[Span], seen: Observed, trace_hash: Option<String>) -> Point {
        Point {
            experiment: planned.experiment,
            series: planned.series.clone(),
            seed: planned.seed,
            spans: spans.iter().map(|span| row(span, &seen)).collect(),
            trace_hash,
            samples: seen.samples,
        }
    }
}

/// Makes a run, if it is not interrupted.
pub fn measure(planned: &Planned, progress: &Progress) -> Result<Option<Point>, Failure> {
    let spans = spans(&planned.scenario);
    let observer = Observer::new(&planned.scenario, &spans);
    let (outcome, interrupted, observer) =
        simulate_with(&planned.scenario, planned.seed, observer, progress)?;
    if interrupted {
        return Ok(None);
    }
    let seen = observer.finish(planned.scenario.run.duration.as_secs_f64());
    Ok(Some(Point::new(planned, &spans, seen, Some(format!("{:016x}", outcome.trace_hash)))))
}

/// The samples from one time to another.
pub fn between(samples: &[Sample], from_s: f64, to_s: f64) -> impl Iterator<Item = &Sample> + Clone {
    samples.iter().filter(move |s| s.t_s > from_s + 1e-6 && s.t_s <= to_s + 1e-6)
}

/// Mean; NaN of nothing, which no comparison holds for.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(count)
}

/// Standard deviation of the queue.
pub fn deviation<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> f64 {
    let middle = mean(samples.clone().map(|s| s.queue));
    mean(samples.map(|s| (s.queue - middle) * (s.queue - middle))).sqrt()
}

fn row(span: &Span, seen: &Observed) -> Row {
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
        deviation: deviation(here.clone()),
        lost: sum(|s| s.lost as f64),
        discarded: known(|s| s.discarded),
        marked: known(|s| s.marked),
        ..Row::default()
    };
    if let (Some(before), Some(after)) = (at(span.from_s), at(span.to_s)) {
        let got: Vec<f64> = after.long.iter().zip(&before.long).map(|(a, b)| (a - b) as f64).collect();
        row.goodput = (got.iter().sum::<f64>() + (after.short - before.short) as f64) / seconds;
        let long: Vec<f64> = span.long.iter().filter_map(|flow| got.get(*flow).copied()).collect();
        row.fairness = jain(&long).unwrap_or(f64::NAN);
    }
    row
}

/// The runs of one experiment.
#[derive(Clone)]
pub struct Runs<'a> {
    points: Vec<&'a Point>,
    /// The span from which on values are looked at along the load.
    first: usize,
}

impl<'a> Runs<'a> {
    /// Those of an experiment.
    pub fn new(points: &'a [Point], experiment: Experiment) -> Runs<'a> {
        Runs { points: points.iter().filter(|p| p.experiment == experiment).collect(), first: 0 }
    }

    /// The same, along the loads with short flows alone: what is before them is for the algorithms to converge.
    pub fn with_short_flows(&self) -> Runs<'a> {
        let first = (0..self.spans()).find(|span| self.load(*span).short_per_s > 0.0);
        Runs { points: self.points.clone(), first: first.unwrap_or(0) }
    }

    /// Names of the curves, in the order of the plan.
    pub fn series(&self) -> Vec<&'a str> {
        let mut names = Vec::new();
        for point in &self.points {
            if !names.contains(&point.series.as_str()) {
                names.push(point.series.as_str());
            }
        }
        names
    }

    /// The first run of a curve.
    pub fn first(&self, series: &str) -> Option<&'a Point> {
        self.points.iter().copied().find(|p| p.series == series)
    }

    /// Number of spans.
    pub fn spans(&self) -> usize {
        self.points.iter().map(|p| p.spans.len()).min().unwrap_or(0)
    }

    /// The load of a span.
    pub fn load(&self, span: usize) -> Row {
        self.points.first().and_then(|p| p.spans.get(span)).cloned().unwrap_or_default()
    }

    /// Mean over the runs of a curve, of one span; NaN where there are none.
    pub fn at(&self, series: &str, span: usize, of: fn(&Row) -> f64) -> f64 {
        mean(self.values(series, span, of).into_iter())
    }

    /// The same for every span.
    pub fn along(&self, series: &str, of: fn(&Row) -> f64) -> Vec<f64> {
        (self.first..self.spans()).map(|span| self.at(series, span, of)).collect()
    }

    /// Mean over the runs of a curve of what is not known of every run.
    pub fn known(&self, series: &str, span: usize, of: fn(&Row) -> Option<f64>) -> Option<f64> {
        let mine = self.points.iter().filter(|p| p.series == series);
        let values: Option<Vec<f64>> = mine.filter_map(|p| p.spans.get(span)).map(of).collect();
        values.map(|values| mean(values.into_iter()))
    }

    /// Mean over the runs, with their range, to be drawn at `x`.
    pub fn plotted(&self, series: &str, span: usize, of: fn(&Row) -> f64, x: f64) -> PlotPoint {
        let values = self.values(series, span, of);
        let ends = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        PlotPoint { x, y: mean(values.iter().copied()), range: (values.len() > 1).then_some(ends) }
    }

    /// The mean over the runs of a curve of anything that a run tells.
    pub fn mean_of(&self, series: &str, of: impl Fn(&Point) -> f64) -> f64 {
        mean(self.points.iter().filter(|p| p.series == series).map(|p| of(p)))
    }

    fn values(&self, series: &str, span: usize, of: fn(&Row) -> f64) -> Vec<f64> {
        let mine = self.points.iter().filter(|p| p.series == series);
        mine.filter_map(|p| p.spans.get(span)).map(of).collect()
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
        let delivered = |t_s, a, b, short| super::super::observer::Delivered { t_s, long: vec![a, b], short };
        let seen = Observed {
            samples: (1..=6).map(sample).collect(),
            delivered: vec![delivered(0.0, 0, 0, 0), delivered(2.0, 10, 10, 1), delivered(6.0, 50, 90, 9)],
        };
        let span = Span { from_s: 2.0, to_s: 6.0, long: vec![0, 1], short_per_s: 0.0 };
        let row = row(&span, &seen);
        assert_eq!((row.utilization, row.queue, row.deviation, row.lost), (0.8, 45.0, 2.0, 18.0));
        assert_eq!((row.goodput, row.fairness), (32.0, 14400.0 / (8000.0 * 2.0)));
    }
}
