//! The spans of a run in which the number of flows and the rate of the link stay.

use crate::capacity::Capacity;
use crate::experiment::Scenario;
use crate::flows::FlowGroup;
use crate::network::Network;
use std::collections::BTreeMap;
use weir_measure::Settled;
use weir_measure::result::Summary;
use weir_units::Duration;

/// Most changes of a link's rate after which it is told how the link settled.
const CHANGES_MAX: usize = 100;

impl Scenario {
    /// For each link, numbered as in [`Scenario::network`], the groups of flows that send data over it, each
    /// with the number of its flows that do.
    fn flows_over(&self, network: &Network) -> Vec<Vec<(&FlowGroup, u32)>> {
        let mut over: Vec<Vec<(&FlowGroup, u32)>> = vec![Vec::new(); network.links.len()];
        for route in &network.routes {
            let group = &self.flows[route.group];
            for link in &route.forward {
                match over[*link].last_mut() {
                    Some((last, flows)) if std::ptr::eq(*last, group) => *flows += group.count,
                    _ => over[*link].push((group, group.count)),
                }
            }
        }
        over
    }

    /// For each link the later halves of the spans with flows over it, in order of time; none where nothing
    /// changes during the run: no such flows start or stop, and the rate makes no steps. Of more than
    /// 100 steps none counts: nothing settles between them.
    pub fn settled(&self) -> Vec<Vec<Settled>> {
        let of_link = |(groups, capacity): (Vec<(&FlowGroup, u32)>, Capacity)| {
            let mut steps: Vec<Duration> = capacity.changes().collect();
            if steps.len() > CHANGES_MAX {
                steps.clear();
            }
            let spans = spans(&groups, &steps, self.run.duration);
            if spans.len() < 2 { Vec::new() } else { spans }
        };
        let network = self.network();
        let capacities = Capacity::of_links(&network.links);
        self.flows_over(&network).into_iter().zip(capacities).map(of_link).collect()
    }

    /// Adds to each link of a summary that the scenario names how many flows send data over it.
    pub fn note_flows(&self, summary: &mut Summary) {
        let network = self.network();
        let names = network.links.iter().map(|link| link.name.as_str());
        let flows: BTreeMap<&str, u32> = names
            .zip(self.flows_over(&network))
            .map(|(name, groups)| (name, groups.iter().map(|(_, flows)| flows).sum()))
            .collect();
        for link in &mut summary.links {
            link.flows = flows.get(link.name.as_str()).copied().or(link.flows);
        }
    }
}

fn spans(groups: &[(&FlowGroup, u32)], steps: &[Duration], end: Duration) -> Vec<Settled> {
    let stop = |g: &FlowGroup| g.stop.unwrap_or(end).min(end);
    let mut edges: Vec<Duration> = groups.iter().flat_map(|(g, _)| [g.start.min(end), stop(g)]).collect();
    edges.extend(steps.iter().filter(|at| **at < end));
    edges.sort_unstable();
    edges.dedup();
    let span = |pair: &[Duration]| {
        let (from, until) = (pair[0], pair[1]);
        let active = groups.iter().filter(|(g, _)| g.start <= from && until <= stop(g));
        (from, until, active.map(|(_, flows)| flows).sum())
    };
    let spans = edges.windows(2).map(span).filter(|(.., flows)| *flows > 0);
    spans.map(|(from, until, flows)| Settled::of_span(from, until, flows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::LinkSummary;

    /// Two flows all the time, and seven more from 4 to 6 s.
    fn scenario() -> Scenario {
        let text = "title = \"t\"\n[link]\nrate = \"1Mbit/s\"\nbuffer = \"1s\"\n[path]\nrtt = \"1ms\"\n[aqm]\n\
            name = \"tail_drop\"\n[[flows]]\ncount = 2\n[[flows]]\ncount = 7\nstart = \"4s\"\nstop = \"6s\"\n\
            [run]\nduration = \"8s\"\nsample = \"1s\"\n";
        Scenario::parse("t.toml", text).unwrap()
    }

    #[test]
    fn a_span_ends_where_flows_start_or_stop() {
        let seconds = Duration::from_secs;
        let spans = [(0, 4, 2), (4, 6, 9), (6, 8, 2)];
        let expected =
            spans.map(|(from, until, flows)| Settled::of_span(seconds(from), seconds(until), flows));
        assert_eq!(scenario().settled()[0], expected);
    }

    #[test]
    fn a_link_has_the_flows_that_send_over_it() {
        let link = |name: &str, from: &str, to: &str| {
            format!(
                "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"8kbit/s\"\nbuffer = \"9s\"\n"
            )
        };
        let text = format!(
            "title = \"t\"\n{}{}{}[[flows]]\ncount = 4\nfrom = \"a\"\nto = \"c\"\n[[flows]]\nfrom = \"b\"\nto = \"c\"\n\
             start = \"4s\"\n[run]\nduration = \"8s\"\nsample = \"1s\"\n",
            link("one", "a", "b"),
            link("two", "b", "c"),
            link("back", "c", "a")
        );
        let scenario = Scenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        // In another order than in the file.
        let link = |name: &str| LinkSummary { name: name.into(), ..LinkSummary::default() };
        let mut summary = Summary { links: ["two", "back", "one"].map(link).to_vec(), ..Summary::default() };
        scenario.note_flows(&mut summary);
        assert_eq!(summary.links.iter().map(|l| l.flows).collect::<Vec<_>>(), [Some(5), Some(0), Some(4)]);
        let spans: Vec<Vec<u32>> =
            scenario.settled().iter().map(|of| of.iter().map(Settled::flows).collect()).collect();
        assert_eq!(spans, [vec![], vec![4, 5], vec![]]);
    }

    #[test]
    fn a_span_ends_where_the_rate_of_the_link_changes() {
        let text = |steps: &str| {
            format!(
                "title = \"t\"\n[link]\nrate = \"1Mbit/s\"\nbuffer = \"1s\"\nsteps = [{steps}]\n[path]\nrtt = \"1ms\"\n\
                 [aqm]\nname = \"tail_drop\"\n[[flows]]\ncount = 2\nstart = \"1s\"\n[run]\nduration = \"8s\"\n\
                 sample = \"1s\"\n"
            )
        };
        let step = |at_ms: u32, kbps: u32| format!("{{ at = \"{at_ms}ms\", rate = \"{kbps}kbit/s\" }}, ");
        let settled = |steps: &str| Scenario::parse("t.toml", &text(steps)).unwrap().settled().remove(0);
        let seconds = Duration::from_secs;
        // Before flows there is nothing to settle; a step to the same rate is none, nor one after the end.
        let steps =
            [step(500, 800), step(4000, 500), step(5000, 500), step(6000, 900), step(9000, 1)].concat();
        let spans = [(1, 4), (4, 6), (6, 8)];
        assert_eq!(settled(&steps), spans.map(|(from, to)| Settled::of_span(seconds(from), seconds(to), 2)));
        // What varies all the time has no span to settle in.
        let many = |count: u32| (1..=count).map(|n| step(2000 + 10 * n, 100 + n)).collect::<String>();
        assert_eq!((settled(&many(100)).len(), settled(&many(101)).len()), (101, 0));
    }

    #[test]
    fn flows_that_stay_make_no_phases() {
        let mut scenario = scenario();
        scenario.flows.truncate(1);
        assert!(scenario.settled()[0].is_empty());
    }
}
