//! The spans of a run in which the number of flows stays.

use crate::experiment::Scenario;
use crate::flows::FlowGroup;
use weir_measure::Settled;
use weir_measure::result::Summary;
use weir_units::Duration;

impl Scenario {
    /// The groups of flows that send data over a link, numbered as in [`Scenario::network`].
    fn flows_over(&self, link: usize) -> Vec<&FlowGroup> {
        let network = self.network();
        let passing =
            network.routes.iter().zip(&self.flows).filter(|(route, _)| route.forward.contains(&link));
        passing.map(|(_, flows)| flows).collect()
    }

    /// The later halves of the spans with flows over a link, in order of time; none where such flows neither
    /// start nor stop during the run.
    pub fn settled(&self, link: usize) -> Vec<Settled> {
        let spans = spans(&self.flows_over(link), self.run.duration);
        if spans.len() < 2 { Vec::new() } else { spans }
    }

    /// Adds to each link of a summary that the scenario names how many flows send data over it.
    pub fn note_flows(&self, summary: &mut Summary) {
        for (number, link) in self.network().links.iter().enumerate() {
            if let Some(summary) = summary.links.iter_mut().find(|summary| summary.name == link.name) {
                summary.flows = Some(self.flows_over(number).iter().map(|group| group.count).sum());
            }
        }
    }
}

fn spans(groups: &[&FlowGroup], end: Duration) -> Vec<Settled> {
    let stop = |g: &FlowGroup| g.stop.unwrap_or(end).min(end);
    let mut edges: Vec<Duration> = groups.iter().flat_map(|g| [g.start.min(end), stop(g)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let span = |pair: &[Duration]| {
        let (from, until) = (pair[0], pair[1]);
        let active = groups.iter().filter(|g| g.start <= from && until <= stop(g));
        (from, until, active.map(|g| g.count).sum())
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
        assert_eq!(scenario().settled(0), expected);
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
            (0..3).map(|link| scenario.settled(link).iter().map(Settled::flows).collect()).collect();
        assert_eq!(spans, [vec![], vec![4, 5], vec![]]);
    }

    #[test]
    fn flows_that_stay_make_no_phases() {
        let mut scenario = scenario();
        scenario.flows.truncate(1);
        assert!(scenario.settled(0).is_empty());
    }
}
