//! What was measured of one figure at one rate, as its claims and charts ask for it.

use super::figures::Part;
use serde::Serialize;
use weir_report::chart::PlotPoint;
use weir_scenario::result::{LinkSummary, Recording};

/// One run of one point of a figure, in either arm.
pub trait Run {
    /// The curve it belongs to.
    fn series(&self) -> &str;
    /// Number of long-lived flows.
    fn flows(&self) -> u32;
    /// What the link did.
    fn link(&self) -> &LinkSummary;
}

/// Runs of a figure, as its claims and charts ask for them.
#[derive(Clone)]
pub struct Runs<'a, R> {
    /// In the order of the plan.
    pub points: Vec<&'a R>,
}

impl<'a, R: Run> Runs<'a, R> {
    /// Numbers of flows, in rising order.
    pub fn flows(&self) -> Vec<u32> {
        let mut flows: Vec<u32> = self.points.iter().map(|p| p.flows()).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// Names of the curves, in the order of the plan.
    pub fn series(&self) -> Vec<&'a str> {
        let mut names = Vec::new();
        for point in &self.points {
            if !names.contains(&point.series()) {
                names.push(point.series());
            }
        }
        names
    }

    /// Mean over the runs of a point; NaN where there are none, which no comparison holds for.
    pub fn mean(&self, series: &str, flows: u32, of: fn(&LinkSummary) -> f64) -> f64 {
        let values = self.values(series, flows, of);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// Smallest and largest value of the runs of a point; none for a single run.
    pub fn range(&self, series: &str, flows: u32, of: fn(&LinkSummary) -> f64) -> Option<(f64, f64)> {
        let values = self.values(series, flows, of);
        let ends = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        (values.len() > 1).then_some(ends)
    }

    /// Utilization as a share of one, mean over the runs.
    pub fn utilization(&self, series: &str, flows: u32) -> f64 {
        self.mean(series, flows, |l| l.utilization)
    }

    /// 95th percentile of the delay in milliseconds, mean over the runs.
    pub fn p95(&self, series: &str, flows: u32) -> f64 {
        self.mean(series, flows, |l| l.delay_ms.p95)
    }

    fn values(&self, series: &str, flows: u32, of: fn(&LinkSummary) -> f64) -> Vec<f64> {
        let here = self.points.iter().filter(|p| p.series() == series && p.flows() == flows);
        here.map(|p| of(p.link())).collect()
    }
}

/// One run of one point.
#[derive(Clone, Serialize)]
pub struct Point {
    /// The figure.
    #[serde(serialize_with = "part_name")]
    pub figure: Part,
    /// Rate of the link in bit/s.
    pub rate_bps: f64,
    /// The curve it belongs to.
    pub series: String,
    /// Number of long-lived flows.
    pub flows: u32,
    /// The random numbers.
    pub seed: u64,
    /// What the link did.
    pub link: LinkSummary,
    /// Fingerprint of every decision about every packet.
    pub trace_hash: String,
    /// Things a reader must know before believing the numbers.
    pub warnings: Vec<String>,
    /// Samples and moves, of figures over time.
    #[serde(skip)]
    pub recording: Option<Recording>,
}

fn part_name<S: serde::Serializer>(part: &Part, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(part.name())
}

impl Run for Point {
    fn series(&self) -> &str {
        &self.series
    }
    fn flows(&self) -> u32 {
        self.flows
    }
    fn link(&self) -> &LinkSummary {
        &self.link
    }
}

/// The simulated runs of one figure at one rate.
pub type Measured<'a> = Runs<'a, Point>;

impl<'a> Measured<'a> {
    /// Those of `points` that belong to a figure at a rate.
    pub fn new(points: &'a [Point], part: Part, rate_bps: f64) -> Measured<'a> {
        let mine = points.iter().filter(|p| p.figure == part && p.rate_bps == rate_bps);
        Measured { points: mine.collect() }
    }

    /// Rate of the link in bit/s.
    pub fn rate_bps(&self) -> f64 {
        self.points.first().map_or(0.0, |p| p.rate_bps)
    }

    /// The mean and the range over the runs, times `factor`, to be drawn at `x`.
    pub fn plotted(
        &self,
        series: &str,
        flows: u32,
        of: fn(&LinkSummary) -> f64,
        x: f64,
        factor: f64,
    ) -> PlotPoint {
        let range = self.range(series, flows, of).map(|(least, most)| (least * factor, most * factor));
        PlotPoint { x, y: self.mean(series, flows, of) * factor, range }
    }

    /// One row for each point: the means over its runs.
    pub fn rows(&self) -> Vec<(&'a str, u32, LinkSummary)> {
        let mut rows = Vec::new();
        for series in self.series() {
            for flows in self.flows() {
                rows.extend(self.row(series, flows).map(|link| (series, flows, link)));
            }
        }
        rows
    }

    fn row(&self, series: &str, flows: u32) -> Option<LinkSummary> {
        let first = self.points.iter().find(|p| p.series == series && p.flows == flows)?;
        let mut link = first.link.clone();
        link.utilization = self.utilization(series, flows);
        link.delay_ms.mean = self.mean(series, flows, |l| l.delay_ms.mean);
        link.delay_ms.p95 = self.p95(series, flows);
        link.delay_ms.p99 = self.mean(series, flows, |l| l.delay_ms.p99);
        link.delay_ms.max = self.mean(series, flows, |l| l.delay_ms.max);
        link.drops = self.mean(series, flows, |l| l.drops as f64).round() as u64;
        link.overflows = self.mean(series, flows, |l| l.overflows as f64).round() as u64;
        Some(link)
    }

    /// The first run with its samples, of figures over time.
    pub fn recording(&self) -> Option<&'a Recording> {
        self.points.iter().find_map(|p| p.recording.as_ref())
    }
}
