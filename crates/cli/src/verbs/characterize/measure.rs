//! What was measured of an experiment, in the same form for every algorithm.

use super::experiments::{Experiment, L4S_CLASS};
use serde::Serialize;
use weir_config::{Scenario, Traffic};
use weir_measure::applications::Datagrams;
use weir_measure::result::{FlowSummary, LinkSample, LinkSummary, Phase, Recording, Spread, Summary};
use weir_report::measured::Goodput;

/// The numbers of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Numbers {
    /// Delivered rate as a share of what the link could carry; of several managed links the smallest.
    pub utilization: f64,
    /// Queueing delay; of several managed links that with the largest 95th percentile.
    pub delay_ms: Spread,
    /// Share of the arriving packets that were discarded, over all managed links.
    pub loss: f64,
    /// Share of the arriving packets that were marked.
    pub marked: f64,
    /// Jain's index of the goodput of flows that send as much as they can; none with fewer than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// The flows, by what they are.
    pub classes: Vec<Class>,
    /// How each span with the same flows and rate settled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Fingerprint of every decision about every packet.
    pub trace_hash: String,
    /// Delay over time, where it is drawn.
    #[serde(skip)]
    pub samples: Vec<LinkSample>,
}

/// Flows that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// What they are called.
    pub name: &'static str,
    /// How many.
    pub flows: u32,
    /// Goodput of one of them, on average.
    pub goodput_bps: f64,
    /// Mean time of a transfer, where they make such and one was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_s: Option<f64>,
    /// 99th percentile of the time that their packets wait, in ms, where that is measured: of games, and of
    /// L4S.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_p99_ms: Option<f64>,
}

/// An experiment with both its runs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// What was run with the algorithm.
    pub scenario: Scenario,
    /// With the algorithm.
    pub aqm: Numbers,
    /// With tail drop.
    pub tail_drop: Numbers,
}

/// The numbers of a run.
pub fn numbers(
    experiment: &Experiment,
    scenario: &Scenario,
    recording: Recording,
    games: &[Datagrams],
    trace_hash: u64,
) -> Numbers {
    let Recording { summary, link_samples, .. } = recording;
    let links = &summary.links;
    let sum = |of: fn(&LinkSummary) -> u64| links.iter().map(of).sum::<u64>() as f64;
    let lost = sum(|l| l.drops + l.overflows);
    let arrived = (sum(|l| l.packets) + lost).max(1.0);
    let slowest = links.iter().max_by(|a, b| a.delay_ms.p95.total_cmp(&b.delay_ms.p95));
    let used = links.iter().map(|l| l.utilization).reduce(f64::min).unwrap_or(0.0);
    Numbers {
        utilization: used,
        delay_ms: slowest.map_or(Spread::default(), |l| l.delay_ms),
        loss: lost / arrived,
        marked: sum(|l| l.marks) / arrived,
        fairness: fairness(scenario, &summary),
        classes: classes(experiment, scenario, &summary, games),
        phases: links.first().map_or(Vec::new(), |l| l.phases.clone()),
        trace_hash: format!("{trace_hash:016x}"),
        samples: match experiment.is_drawn {
            true => link_samples.into_iter().next().unwrap_or_default(),
            false => Vec::new(),
        },
    }
}

fn fairness(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    let is_bulk = |flow: &&FlowSummary| {
        let group = scenario.flows.get(flow.group as usize);
        group.is_some_and(|group| matches!(group.traffic(), Traffic::Bulk))
    };
    let bulk: Vec<f64> = summary.flows.iter().filter(is_bulk).map(|f| f.goodput_bps).collect();
    if bulk.len() < 2 { None } else { Goodput::of(bulk.into_iter())?.fairness }
}

fn classes(
    experiment: &Experiment,
    scenario: &Scenario,
    summary: &Summary,
    games: &[Datagrams],
) -> Vec<Class> {
    // A game's delay is that of its whole way.
    let way_ms = scenario.path.rtt.as_secs_f64() * 1e3 / 2.0;
    let of_l4s = || Some(summary.links.first()?.delay_by_class_ms?.low_latency.p99);
    let class = |(group, name): (usize, &&'static str)| {
        let flows: Vec<&FlowSummary> = summary.flows.iter().filter(|f| f.group as usize == group).collect();
        let transfers = flows.iter().filter_map(|f| f.transfers);
        let (mut count, mut seconds) = (0.0, 0.0);
        for (completed, mean_s) in transfers.filter_map(|t| Some((f64::from(t.completed), t.mean_s?))) {
            (count, seconds) = (count + completed, seconds + completed * mean_s);
        }
        Class {
            name,
            flows: flows.len() as u32,
            goodput_bps: Goodput::of(flows.iter().map(|f| f.goodput_bps)).map_or(0.0, |g| g.mean),
            transfer_s: (count > 0.0).then(|| seconds / count),
            queue_p99_ms: match games.iter().find(|game| game.group as usize == group) {
                Some(game) => Some(game.delay_ms.p99 - way_ms),
                None => of_l4s().filter(|_| *name == L4S_CLASS),
            },
        }
    };
    experiment.classes.iter().enumerate().map(class).collect()
}

impl Numbers {
    /// The flows of a `[[flows]]` table.
    pub fn class(&self, group: usize) -> Option<&Class> {
        self.classes.get(group)
    }

    /// The first class of that name.
    pub fn named(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// Goodput of a flow of table `of` divided by that of one of table `to`; none if those have none.
    pub fn ratio(&self, of: usize, to: usize) -> Option<f64> {
        let (of, to) = (self.class(of)?.goodput_bps, self.class(to)?.goodput_bps);
        (to > 0.0).then(|| of / to)
    }
}
