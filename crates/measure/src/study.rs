//! What a study asks of a run beyond its summary: completion times, delays of each group of flows, fairness
//! over time scales, how long a link takes to settle after a change.

use crate::applications::{Calls, Datagrams, Realtimes, Videos};
use crate::distribution::Quantiles;
use crate::fairness::jain;
use crate::order::spread;
use crate::phases::utilization;
use crate::result::{LinkSample, Phase, Spread};
use serde::{Deserialize, Serialize};

/// What was measured beyond the summary. Empty parts were not asked for, or did not happen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Study {
    /// Completion times of transfers and pages that began in the measured part, by group and size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completions>,
    /// Queueing delay of the packets of each group of flows at each link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupDelay>,
    /// Fairness of the flows at each link over each time scale.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fairness: Vec<FairnessOver>,
    /// How long each link took to settle after flows started or stopped, or its rate changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub convergence: Vec<Convergence>,
    /// Calls of each group of flows, with delay, jitter, loss and opinion score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Calls>,
    /// Games of each group of flows, with delay, jitter and loss.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub games: Vec<Datagrams>,
    /// Players of video of each group of flows, with rate, switches and stalls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<Videos>,
    /// Real-time video of each group of flows, with rate, delay, loss and freezes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub realtimes: Vec<Realtimes>,
    /// Each completion, in the order in which they ended.
    #[serde(skip)]
    pub each: Vec<Completion>,
    /// Distributions of delays and completion times.
    #[serde(skip)]
    pub distributions: Vec<Distributed>,
}

/// What was completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A transfer: from its start to the arrival of its last byte.
    Transfer,
    /// A page: from the request of its first object to the acknowledgement of its last byte.
    Page,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Transfer => "transfer",
            Kind::Page => "page",
        }
    }
}

/// A transfer or a page that was completed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Completion {
    /// What it was.
    pub kind: Kind,
    /// Number of the flow.
    pub flow: u32,
    /// Index of its `[[flows]]` table.
    pub group: u32,
    /// When it began, in seconds after the start of the run.
    pub start_s: f64,
    /// Bytes of the application.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// How long it would have taken at the least: propagation, and all its packets at the rate of the slowest
    /// link.
    pub ideal_s: f64,
}

impl Completion {
    /// How many times as long as ideal it took; none where nothing limits it.
    pub fn slowdown(&self) -> Option<f64> {
        (self.ideal_s > 0.0).then(|| self.took_s / self.ideal_s)
    }
}

/// Completion times of a kind, of one size or of all.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Completions {
    /// What was completed.
    pub kind: Kind,
    /// Index of the `[[flows]]` table; none of all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Size class, such as `10kB to 100kB`; none of all sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// How many were completed.
    pub completed: u64,
    /// How many had begun and were not complete when the run ended: times leave them out, which makes
    /// percentiles smaller than they are where there are many. None by size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// Completion time; none where nothing was completed.
    pub time_ms: Option<Spread>,
    /// Completion time divided by the ideal; none where nothing was completed that something limits.
    pub slowdown: Option<Spread>,
}

/// Ends of the size classes in bytes; larger ones are in one more.
const SIZES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// The classes with names for people and for columns.
const CLASSES: [(&str, &str); 5] = [
    ("up to 10kB", "to_10kB"),
    ("10kB to 100kB", "to_100kB"),
    ("100kB to 1MB", "to_1MB"),
    ("1MB to 10MB", "to_10MB"),
    ("above 10MB", "above_10MB"),
];

fn class(bytes: u64) -> usize {
    SIZES.partition_point(|end| *end < bytes)
}

/// The name of a size class in the name of a column.
pub fn size_column(size: &str) -> &str {
    CLASSES.iter().find(|(name, _)| *name == size).map_or(size, |(_, column)| column)
}

/// The spread of values, if there are any.
fn of_any(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| spread(&mut values))
}

/// Completion times of what began at `from_s` or later: of each kind together, by size where there is more
/// than one, and by group where there is more than one. `unfinished` are kinds and groups of what did not
/// end.
pub fn completions(each: &[Completion], from_s: f64, unfinished: &[(Kind, u32)]) -> Vec<Completions> {
    let mut all = Vec::new();
    for kind in [Kind::Transfer, Kind::Page] {
        let mine: Vec<&Completion> = each.iter().filter(|c| c.kind == kind && c.start_s >= from_s).collect();
        let open: Vec<u32> = unfinished.iter().filter(|(k, _)| *k == kind).map(|(_, group)| *group).collect();
        if mine.is_empty() && open.is_empty() {
            continue;
        }
        let of = |group: Option<u32>, size: Option<usize>| {
            let wanted = |c: &&&Completion| {
                group.is_none_or(|g| c.group == g) && size.is_none_or(|s| class(c.bytes) == s)
            };
            let chosen: Vec<&&Completion> = mine.iter().filter(wanted).collect();
            let left = open.iter().filter(|g| group.is_none_or(|group| group == **g)).count();
            Completions {
                kind,
                group,
                size: size.map(|size| CLASSES[size].0.to_string()),
                completed: chosen.len() as u64,
                unfinished: size.is_none().then_some(left as u64),
                time_ms: of_any(chosen.iter().map(|c| c.took_s * 1e3)),
                slowdown: of_any(chosen.iter().filter_map(|c| c.slowdown())),
            }
        };
        all.push(of(None, None));
        let mut sizes: Vec<usize> = mine.iter().map(|c| class(c.bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > 1 {
            all.extend(sizes.into_iter().map(|size| of(None, Some(size))));
        }
        let mut groups: Vec<u32> = mine.iter().map(|c| c.group).chain(open.iter().copied()).collect();
        groups.sort_unstable();
        groups.dedup();
        if groups.len() > 1 {
            all.extend(groups.into_iter().map(|group| of(Some(group), None)));
        }
    }
    all
}

/// Queueing delay of the packets of a group of flows at a link, in the measured part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupDelay {
    /// Name of the link.
    pub link: String,
    /// Index of the `[[flows]]` table.
    pub group: u32,
    /// Packets that left the queue.
    pub packets: u64,
    /// Their sojourn time.
    pub delay_ms: Spread,
}

/// Jain's index of what the flows of a link send in windows of one length, in the measured part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FairnessOver {
    /// Name of the link.
    pub link: String,
    /// Length of a window in seconds.
    pub scale_s: f64,
    /// Mean over the windows.
    pub mean: f64,
    /// 5th percentile: one window in twenty is less fair.
    pub p5: f64,
    /// Smallest.
    pub min: f64,
    /// Windows with two flows or more.
    pub windows: u64,
}

/// Fairness over windows of `scale` bins each. `flows` has the bytes of each flow in bins of equal length
/// from the start of the run; of these, bins `from` to `until` are looked at. A flow counts in windows
/// between its first and its last packet.
pub fn fairness_over(flows: &[&[u32]], from: usize, until: usize, scale: usize) -> Option<[f64; 4]> {
    let mut lives: Vec<(&[u32], usize, usize)> = Vec::new();
    for bins in flows {
        let ends = bins.iter().position(|b| *b > 0).zip(bins.iter().rposition(|b| *b > 0));
        lives.extend(ends.map(|(first, last)| (*bins, first, last)));
    }
    let mut indices: Vec<f64> = Vec::new();
    let mut start = from;
    while scale > 0 && start + scale <= until {
        let end = start + scale;
        let there = lives.iter().filter(|(_, first, last)| *first <= start && *last + 1 >= end);
        let shares: Vec<f64> = there
            .map(|(bins, ..)| bins.iter().take(end).skip(start).map(|b| f64::from(*b)).sum::<f64>())
            .collect();
        if shares.len() > 1 {
            indices.extend(jain(&shares));
        }
        start = end;
    }
    indices.sort_by(f64::total_cmp);
    let n = indices.len();
    let mean = indices.iter().sum::<f64>() / n as f64;
    (n > 0).then(|| [mean, indices[(n - 1) / 20], indices[0], n as f64])
}

/// How long a link took to settle in a span of the run in which the number of flows and its rate stay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Convergence {
    /// Index of the link in the summary.
    pub link: u32,
    /// The change: the beginning of the span, in seconds after the start of the run.
    pub at_s: f64,
    /// The number of flows from then on.
    pub flows: u32,
    /// Time from the change on after which moving means of delay and delivered rate stay with those of the
    /// later half of the span; none where they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_s: Option<f64>,
}

/// Moving means are over this share of the span.
const WINDOW: f64 = 0.05;
/// How far from the settled mean a moving mean of the delay may be: a share of it, or so many milliseconds.
const DELAY_NEAR: (f64, f64) = (0.25, 1.0);
/// The same for utilization, in points.
const UTILIZATION_NEAR: f64 = 0.05;
/// What leaves its settled mean in the last part of a span has not settled.
const DECIDED: f64 = 0.75;

/// How long the link with these samples took to settle in the span of a phase.
pub fn convergence(link: u32, samples: &[LinkSample], phase: &Phase) -> Convergence {
    // A phase is the later half of its span.
    let at_s = 2.0 * phase.from_s - phase.to_s;
    let length = phase.to_s - at_s;
    let mine: Vec<&LinkSample> =
        samples.iter().filter(|s| s.t_s > at_s + 1e-9 && s.t_s <= phase.to_s + 1e-9).collect();
    let window = ((mine.len() as f64 * WINDOW).round() as usize).max(1);
    let near = |rows: &[&LinkSample]| {
        let n = rows.len() as f64;
        let delay = rows.iter().map(|r| r.delay_mean_ms).sum::<f64>() / n;
        let sum = |of: fn(&LinkSample) -> f64| rows.iter().map(|r| of(r)).sum::<f64>();
        let used = utilization(sum(|r| r.delivered_bps), Some(sum(|r| r.capacity_bps)));
        let apart = (delay - phase.delay_mean_ms).abs();
        apart <= (DELAY_NEAR.0 * phase.delay_mean_ms).max(DELAY_NEAR.1)
            && (used - phase.utilization).abs() <= UTILIZATION_NEAR
    };
    let last_away = mine.windows(window).rposition(|rows| !near(rows));
    let settled_s = match last_away {
        _ if mine.len() < 4 => None,
        None => Some(0.0),
        Some(i) => mine.get(i + window - 1).map(|row| row.t_s - at_s),
    };
    Convergence { link, at_s, flows: phase.flows, settled_s: settled_s.filter(|s| *s <= DECIDED * length) }
}

/// The distribution of a quantity, as quantiles and as a histogram.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distributed {
    /// `delay`, `transfer` or `page`; `voice` or `game` of the delays of datagrams, `realtime` of those of
    /// frames.
    pub quantity: String,
    /// Name of the link, of delays.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// Index of the `[[flows]]` table; none of all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// In milliseconds.
    pub values: Quantiles,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(group: u32, start_s: f64, bytes: u64, took_s: f64) -> Completion {
        Completion { kind: Kind::Transfer, flow: group, group, start_s, bytes, took_s, ideal_s: 0.5 }
    }

    #[test]
    fn completion_times_are_told_by_size_and_group_and_leave_the_warm_up_out() {
        let mut each: Vec<Completion> = (1..=100).map(|i| done(0, 1.0, 10_000, f64::from(i))).collect();
        each.push(done(1, 1.0, 10_001, 1.0));
        each.push(done(1, 0.5, 10_001, 1000.0));
        let all = completions(&each, 1.0, &[(Kind::Transfer, 1), (Kind::Page, 2)]);
        let of = |group: Option<u32>, size: Option<&str>| {
            all.iter()
                .find(|c| c.kind == Kind::Transfer && c.group == group && c.size.as_deref() == size)
                .unwrap()
        };
        assert_eq!((of(None, None).completed, of(None, None).unfinished), (101, Some(1)));
        let small = of(None, Some("up to 10kB"));
        let times = small.time_ms.as_ref().unwrap();
        assert_eq!((times.p95, times.p99, times.max), (95e3, 99e3, 100e3));
        assert_eq!((small.slowdown.as_ref().unwrap().p50, small.unfinished), (100.0, None));
        assert_eq!(of(None, Some("10kB to 100kB")).completed, 1);
        assert_eq!((of(Some(1), None).completed, of(Some(1), None).time_ms.unwrap().mean), (1, 1000.0));
        let page = all.iter().find(|c| c.kind == Kind::Page).unwrap();
        assert_eq!((page.completed, page.unfinished), (0, Some(1)));
        assert_eq!(size_column("above 10MB"), "above_10MB");
        assert_eq!((class(10_000_000), class(10_000_001)), (3, 4));
    }

    #[test]
    fn fairness_depends_on_the_time_scale() {
        // Two flows take turns, a bin each.
        let (a, b): (Vec<u32>, Vec<u32>) = (0..40).map(|i| if i % 2 == 0 { (8, 1) } else { (1, 8) }).unzip();
        let [one, _, least, windows] = fairness_over(&[&a, &b], 0, 40, 1).unwrap();
        assert!(
            (one - 81.0 / 130.0).abs() < 1e-12 && (least - one).abs() < 1e-12 && windows == 40.0,
            "{one} {windows}"
        );
        assert_eq!(fairness_over(&[&a, &b], 0, 40, 2).unwrap()[0], 1.0);
        // A flow that is not there yet is not treated unfairly; one that starves while it is there is.
        let late: Vec<u32> = (0..40).map(|i| if i < 20 { 0 } else { 9 }).collect();
        let starved: Vec<u32> = (0..40).map(|i| if i == 0 || i == 39 { 9 } else { 0 }).collect();
        assert_eq!(fairness_over(&[&a, &late], 0, 20, 2), None);
        assert!(fairness_over(&[&a, &starved], 2, 38, 2).unwrap()[0] <= 0.5);
        assert_eq!(fairness_over(&[&a], 0, 40, 1), None);
    }

    #[test]
    fn a_link_settles_when_its_means_stay() {
        let phase =
            Phase { from_s: 15.0, to_s: 20.0, utilization: 0.9, delay_mean_ms: 10.0, ..Phase::default() };
        let samples = |delay: &dyn Fn(f64) -> f64| -> Vec<LinkSample> {
            let row = |i: u32| {
                let t_s = f64::from(i) / 10.0;
                let (delay_mean_ms, capacity_bps) = (delay(t_s), 1e6);
                LinkSample { t_s, delivered_bps: 0.9e6, capacity_bps, delay_mean_ms, ..LinkSample::default() }
            };
            (1..=300).map(row).collect()
        };
        let told = |delay: &dyn Fn(f64) -> f64| convergence(0, &samples(delay), &phase).settled_s;
        // The span begins at 10 s.
        let after = told(&|t| if t < 13.0 { 40.0 } else { 10.0 }).unwrap();
        assert!((2.9..=3.5).contains(&after), "{after}");
        assert_eq!(told(&|_| 10.5), Some(0.0));
        assert_eq!(told(&|t| if (t * 10.0) as u32 % 20 < 10 { 30.0 } else { 0.0 }), None, "it swings");
        assert_eq!(convergence(0, &[], &phase).settled_s, None);
    }
}
