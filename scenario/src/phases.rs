//! The spans of a run in which the number of flows stays, and how the link stood in each.
//!
//! When flows start or stop, a queue needs a while to follow, and TCP longer. A mean over the whole run mixes
//! both; here the later half of each span tells how it settled.

use crate::result::{LinkSample, Phase, Recording};
use crate::{FlowGroup, Scenario};
use weir_units::Duration;

impl Recording {
    /// Adds the phases to the summaries of shaped links, where flows start or stop during the run.
    pub fn note_phases(&mut self, scenario: &Scenario) {
        let spans = spans(&scenario.flows, scenario.run.duration);
        if spans.len() < 2 {
            return;
        }
        for (link, samples) in self.summary.links.iter_mut().zip(&self.link_samples) {
            let Some(rate_bps) = link.rate_bps else { continue };
            link.phases = spans.iter().filter_map(|span| span.phase(rate_bps, samples)).collect();
        }
    }
}

/// A span in which no group of flows starts or stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    from: Duration,
    to: Duration,
    flows: u32,
}

/// The spans with flows, in order of time.
fn spans(groups: &[FlowGroup], end: Duration) -> Vec<Span> {
    let stop = |g: &FlowGroup| g.stop.unwrap_or(end).min(end);
    let mut edges: Vec<Duration> = groups.iter().flat_map(|g| [g.start.min(end), stop(g)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let span = |pair: &[Duration]| {
        let (from, to) = (pair[0], pair[1]);
        let active = groups.iter().filter(|g| g.start <= from && to <= stop(g));
        Span { from, to, flows: active.map(|g| g.count).sum() }
    };
    edges.windows(2).map(span).filter(|s| s.flows > 0).collect()
}

impl Span {
    /// What the samples of its later half say; `None` where there are none.
    fn phase(&self, rate_bps: f64, samples: &[LinkSample]) -> Option<Phase> {
        let (from_s, to_s) = ((self.from + self.to).as_secs_f64() / 2.0, self.to.as_secs_f64());
        // Rows bear the end of their period, which may come a little late on a live link.
        let within = |t_s: f64| from_s < t_s - 1e-3 && t_s <= to_s + 1e-3;
        let (mut seconds, mut bits, mut delay, mut before) = (0.0, 0.0, 0.0, 0.0);
        for row in samples {
            if within(row.t_s) {
                let in_row = row.delivered_bps * (row.t_s - before);
                seconds += row.t_s - before;
                bits += in_row;
                delay += row.delay_mean_ms * in_row;
            }
            before = row.t_s;
        }
        let utilization = bits / seconds / rate_bps;
        let delay_mean_ms = if bits > 0.0 { delay / bits } else { 0.0 };
        (seconds > 0.0).then_some(Phase { from_s, to_s, flows: self.flows, utilization, delay_mean_ms })
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

    fn recording(delivered_bps: &[f64]) -> Recording {
        let row = |(i, bps): (usize, &f64)| LinkSample {
            t_s: (i + 1) as f64,
            delivered_bps: *bps,
            delay_mean_ms: i as f64,
            ..LinkSample::default()
        };
        let mut recording = Recording::default();
        recording.summary.links.push(LinkSummary { rate_bps: Some(8000.0), ..LinkSummary::default() });
        recording.link_samples.push(delivered_bps.iter().enumerate().map(row).collect());
        recording
    }

    #[test]
    fn the_later_half_of_each_span_is_told() {
        let mut recording = recording(&[0.0, 0.0, 4000.0, 8000.0, 0.0, 8000.0, 0.0, 2000.0]);
        recording.note_phases(&scenario());
        let phase = |from_s, to_s, flows, utilization, delay_mean_ms| Phase {
            from_s,
            to_s,
            flows,
            utilization,
            delay_mean_ms,
        };
        let delay = (2.0 * 4000.0 + 3.0 * 8000.0) / 12000.0;
        let expected =
            [phase(2.0, 4.0, 2, 0.75, delay), phase(5.0, 6.0, 9, 1.0, 5.0), phase(7.0, 8.0, 2, 0.25, 7.0)];
        assert_eq!(recording.summary.links[0].phases, expected);
    }

    #[test]
    fn an_interrupted_run_has_the_phases_it_came_to() {
        let mut recording = recording(&[8000.0; 5]);
        recording.note_phases(&scenario());
        assert_eq!(recording.summary.links[0].phases.len(), 1);
    }

    #[test]
    fn flows_that_stay_make_no_phases() {
        let mut scenario = scenario();
        scenario.flows.truncate(1);
        let mut recording = recording(&[8000.0; 8]);
        recording.note_phases(&scenario);
        assert!(recording.summary.links[0].phases.is_empty());
    }
}
