//! A tap that measures what `[measure]` asks for: delays of each group of flows, fairness over time scales.

use crate::packet::Body;
use crate::run::Outcome;
use crate::tap::{LinkContext, Tap, TappedPacket};
use weir_config::Scenario;
use weir_measure::study::{Distributed, FairnessOver, GroupDelay, fairness_over};
use weir_measure::{Distribution, Window};
use weir_units::{Duration, Time};

/// Measures groups and fairness of a run.
pub struct Watcher {
    window: Window,
    links: Vec<String>,
    /// Group of each flow.
    groups: Vec<u32>,
    group_count: usize,
    /// Delays of each group at each link, made when the first packet comes.
    delays: Vec<Option<Box<Distribution>>>,
    scales: Vec<Duration>,
    /// Length of a bin: the smallest scale.
    bin: Duration,
    bins: usize,
    /// For each link its flows in the order of their numbers, with the bytes of each in each bin. Of many
    /// links a flow passes few, so that there is room only for those whose first packet came.
    sent: Vec<Vec<(u32, Box<[u32]>)>>,
}

impl Watcher {
    /// For a scenario with `[measure]`; none without.
    pub fn new(scenario: &Scenario) -> Option<Watcher> {
        let measure = scenario.measure.as_ref()?;
        let links: Vec<String> = scenario.network().links.into_iter().map(|link| link.name).collect();
        let groups: Vec<u32> = scenario
            .flows
            .iter()
            .enumerate()
            .flat_map(|(number, flows)| (0..scenario.flows_of(flows)).map(move |_| number as u32))
            .collect();
        let scales = measure.scales(scenario.run.duration);
        let bin = scales.first().copied().unwrap_or(scenario.run.duration);
        let run = &scenario.run;
        Some(Watcher {
            window: Window { from: Time::ZERO + run.warmup, until: Time::ZERO + run.duration },
            group_count: scenario.flows.len(),
            delays: (0..links.len() * scenario.flows.len()).map(|_| None).collect(),
            bins: run.duration.as_nanos().div_ceil(bin.as_nanos().max(1)) as usize,
            sent: if scales.is_empty() { Vec::new() } else { vec![Vec::new(); links.len()] },
            links,
            groups,
            scales,
            bin,
        })
    }

    /// Adds what was measured to the outcome of the run.
    pub fn finish(self, outcome: &mut Outcome) {
        for (place, delay) in self.delays.iter().enumerate() {
            let Some(delay) = delay else { continue };
            let (link, group) = (&self.links[place / self.group_count], (place % self.group_count) as u32);
            outcome.study.groups.push(GroupDelay {
                link: link.clone(),
                group,
                packets: delay.count(),
                delay_ms: delay.spread_ms(),
            });
            outcome.study.distributions.push(Distributed {
                quantity: "delay".into(),
                link: link.clone(),
                group: Some(group),
                values: delay.quantiles_ms(),
            });
        }
        let number = |at: Time| (at.as_nanos() / self.bin.as_nanos().max(1)) as usize;
        // Only bins that lie in the measured part as a whole.
        let from = self.window.from.as_nanos().div_ceil(self.bin.as_nanos().max(1)) as usize;
        let until = number(self.window.until).min(self.bins);
        for (link, flows) in self.links.iter().zip(&self.sent) {
            let flows: Vec<&[u32]> = flows.iter().map(|(_, bins)| &bins[..]).collect();
            for scale in &self.scales {
                let bins = (scale.as_nanos() / self.bin.as_nanos().max(1)) as usize;
                let Some([mean, p5, min, windows]) = fairness_over(&flows, from, until, bins) else {
                    continue;
                };
                let (link, scale_s, windows) = (link.clone(), scale.as_secs_f64(), windows as u64);
                outcome.study.fairness.push(FairnessOver { link, scale_s, mean, p5, min, windows });
            }
        }
    }
}

impl Tap for Watcher {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, _marked: bool) {
        if self.window.contains(at.now) {
            let place = at.link * self.group_count + self.groups[seen.flow as usize] as usize;
            self.delays[place].get_or_insert_with(|| Box::new(Distribution::growing())).record(sojourn);
        }
        // Acknowledgements say nothing of who gets what.
        if let (Body::Data(_), Some(flows)) = (&seen.item.body, self.sent.get_mut(at.link)) {
            let place = flows.binary_search_by_key(&seen.flow, |(flow, _)| *flow).unwrap_or_else(|place| {
                flows.insert(place, (seen.flow, vec![0; self.bins].into()));
                place
            });
            let bin = (at.now.as_nanos() / self.bin.as_nanos().max(1)) as usize;
            if let Some(bytes) = flows[place].1.get_mut(bin) {
                *bytes = bytes.saturating_add(seen.packet.len.get() as u32);
            }
        }
    }
}
