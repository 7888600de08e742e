//! The spans of a run in which the number of flows stays, and how a link stood in each.
//!
//! When flows start or stop, a queue needs a while to follow, and TCP longer. A mean over the whole run mixes
//! both; the later half of each span says how it settled.

use crate::measure::Distribution;
use crate::result::{Phase, Summary};
use crate::{FlowGroup, Scenario};
use weir_units::{Bytes, Duration, Rate, Time};

/// The later half of a span in which no group of flows starts or stops. Times count from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    from: Duration,
    until: Duration,
    flows: u32,
}

impl Scenario {
    /// The groups of flows that send data over a link, numbered as in [`Scenario::network`].
    fn flows_over(&self, link: usize) -> Vec<&FlowGroup> {
        let network = self.network();
        let passing =
            network.routes.iter().zip(&self.flows).filter(|(route, _)| route.forward.contains(&link));
        passing.map(|(_, flows)| flows).collect()
    }

    /// The later halves of the spans with flows over a link, in order of time; none where such flows neither start nor stop
    /// during the run.
    pub fn settled(&self, link: usize) -> Vec<Settled> {
        let spans = spans(&self.flows_over(link), self.run.duration);
        if spans.len() < 2 { Vec::new() } else { spans }
    }
}

impl Summary {
    /// Adds to each link that the scenario names how many flows send data over it.
    pub fn note_flows(&mut self, scenario: &Scenario) {
        for (number, link) in scenario.network().links.iter().enumerate() {
            if let Some(summary) = self.links.iter_mut().find(|summary| summary.name == link.name) {
                summary.flows = Some(scenario.flows_over(number).iter().map(|group| group.count).sum());
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
        let half = Duration::from_nanos((until - from).as_nanos() / 2);
        Settled { from: until - half, until, flows: active.map(|g| g.count).sum() }
    };
    edges.windows(2).map(span).filter(|s| s.flows > 0).collect()
}

/// What left a link in each settled span.
#[derive(Default)]
pub struct Phases {
    origin: Time,
    spans: Vec<(Settled, u64, Distribution)>,
    /// The span that is or comes next, and when it begins; without one, never.
    at: usize,
    begins: Option<Time>,
}

impl Phases {
    /// Measures these spans of a run that began at `origin`.
    pub fn new(origin: Time, settled: &[Settled]) -> Phases {
        let spans = settled.iter().map(|span| (*span, 0, Distribution::default())).collect();
        let mut phases = Phases { origin, spans, at: 0, begins: None };
        phases.begins = phases.beginning();
        phases
    }

    fn beginning(&self) -> Option<Time> {
        self.spans.get(self.at).map(|(span, ..)| self.origin + span.from)
    }

    /// A packet left the queue after this sojourn time. Times do not decrease.
    #[inline]
    pub fn departed(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        if self.begins.is_some_and(|begins| at >= begins) {
            self.departed_within(at, len, sojourn);
        }
    }

    #[inline(never)]
    fn departed_within(&mut self, at: Time, len: Bytes, sojourn: Duration) {
        while let Some((span, bytes, sojourns)) = self.spans.get_mut(self.at) {
            if at < self.origin + span.until {
                if at >= self.origin + span.from {
                    *bytes += len.get();
                    sojourns.record(sojourn);
                }
                break;
            }
            self.at += 1;
        }
        self.begins = self.beginning();
    }

    /// The spans that have ended by `now`, on a link of this rate.
    pub fn ended(&self, now: Time, rate: Option<Rate>) -> Vec<Phase> {
        let Some(rate) = rate.filter(|rate| rate.as_bps() > 0) else { return Vec::new() };
        let ended = self.spans.iter().filter(|(span, ..)| self.origin + span.until <= now);
        let phase = |(span, bytes, sojourns): &(Settled, u64, Distribution)| {
            let delay = sojourns.spread_ms();
            let seconds = (span.until - span.from).as_secs_f64();
            Phase {
                from_s: span.from.as_secs_f64(),
                to_s: span.until.as_secs_f64(),
                flows: span.flows,
                utilization: *bytes as f64 * 8.0 / seconds / rate.as_bps_f64(),
                delay_mean_ms: delay.mean,
                delay_p95_ms: delay.p95,
            }
        };
        ended.map(phase).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::LinkSummary;

    fn scenario() -> Scenario {
        let text = "title = \"t\"\n[link]\nrate = \"1Mbit/s\"\nbuffer = \"1s\"\n[path]\nrtt = \"1ms\"\n[aqm]\n\
            name = \"tail_drop\"\n[[flows]]\ncount = 2\n[[flows]]\ncount = 7\nstart = \"4s\"\nstop = \"6s\"\n\
            [run]\nduration = \"8s\"\nsample = \"1s\"\n";
        Scenario::parse("t.toml", text).unwrap()
    }

    const ORIGIN: Time = Time::from_nanos(5_000_000_000);
    const RATE: Option<Rate> = Some(Rate::from_bps(8000));

    /// A packet of so many bytes each second, at the middle of it, each a millisecond longer in the queue.
    fn measured(bytes: &[u64]) -> Phases {
        let mut phases = Phases::new(ORIGIN, &scenario().settled(0));
        for (second, bytes) in bytes.iter().enumerate() {
            let at = ORIGIN + Duration::from_millis(1000 * second as u64 + 500);
            phases.departed(at, Bytes::new(*bytes), Duration::from_millis(second as u64));
        }
        phases
    }

    #[test]
    fn the_later_half_of_each_span_is_told() {
        let phases = measured(&[0, 0, 500, 1000, 0, 1000, 0, 250]);
        let phase = |from_s, to_s, flows, utilization, delay_mean_ms, delay_p95_ms| Phase {
            from_s,
            to_s,
            flows,
            utilization,
            delay_mean_ms,
            delay_p95_ms,
        };
        let expected = [
            phase(2.0, 4.0, 2, 0.75, 2.5, 3.0),
            phase(5.0, 6.0, 9, 1.0, 5.0, 5.0),
            phase(7.0, 8.0, 2, 0.25, 7.0, 7.0),
        ];
        let rounded = |mut phase: Phase| {
            phase.delay_mean_ms = (phase.delay_mean_ms * 10.0).round() / 10.0;
            phase.delay_p95_ms = (phase.delay_p95_ms * 10.0).round() / 10.0;
            phase
        };
        let end = ORIGIN + Duration::from_secs(8);
        assert_eq!(phases.ended(end, RATE).into_iter().map(rounded).collect::<Vec<_>>(), expected);
        assert!(phases.ended(end, None).is_empty(), "a link without a rate has no utilization");
    }

    #[test]
    fn an_interrupted_run_has_the_phases_it_came_to() {
        assert_eq!(measured(&[1000; 5]).ended(ORIGIN + Duration::from_millis(5500), RATE).len(), 1);
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
        summary.note_flows(&scenario);
        assert_eq!(summary.links.iter().map(|l| l.flows).collect::<Vec<_>>(), [Some(5), Some(0), Some(4)]);
        let spans: Vec<Vec<u32>> =
            (0..3).map(|link| scenario.settled(link).iter().map(|span| span.flows).collect()).collect();
        assert_eq!(spans, [vec![], vec![4, 5], vec![]]);
    }

    #[test]
    fn flows_that_stay_make_no_phases() {
        let mut scenario = scenario();
        scenario.flows.truncate(1);
        assert!(scenario.settled(0).is_empty());
    }
}
