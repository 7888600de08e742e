//! The arm with real TCP: the same scenario files, with what the kernel's end hosts do instead of those of
//! 2001.

use super::experiments::{Case, Experiment, plan as simulated};
use super::measured::{Run, Values};
use super::observer::{Deliveries, Observation, PACKET_BYTES, Sample};
use super::results::publish;
use super::spans::{Span, edges, spans};
use super::{Arguments, TIMERS};
use crate::host::{Error, Host, Report};
use crate::journal::{Attempt, Journal, STALLED_MAX};
use crate::runs::Planned;
use weir_config::{EcnUse, EndHost, FlowGroup, Scenario};
use weir_measure::result::{FlowSample, LinkSample, Recording};
use weir_units::Duration;

/// TCP's payload in a packet, with timestamps.
const PAYLOAD_BYTES: f64 = 948.0;
/// Long flows that windows of two packets, the kernel's smallest, leave room for: 60 of them have 120 packets
/// on the way, where the path has 106 and the queue is to be 50 long. With more, marks change nothing.
const MARKED_FLOWS: usize = 60;
/// Flows that begin at random times in the simulator begin in steps of this here.
const STEP: Duration = Duration::from_secs(1);

/// A run as it is planned: what the kernel plays, and the loads by which it is judged.
struct Live {
    planned: Planned<Case>,
    spans: Vec<Span>,
    /// Of each flow: its number among the long ones, or of short ones from when on they come.
    flows: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Long(usize),
    Short { from_s: f64 },
}

/// Runs the experiments and judges their claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let plan = plan(arguments)?;
    let folder = super::results::folder(arguments);
    host.prepare(&folder)?;
    let journal = Journal::begin(&folder, arguments.resume, host)?;
    let planned: Vec<Planned<Case>> = plan.iter().map(|live| live.planned.clone()).collect();
    let title = |planned: &Planned<Case>| {
        format!("experiment {}, {}", u32::from(planned.case.experiment), planned.case.series)
    };
    let most = |_: &Planned<Case>| STALLED_MAX;
    let done = journal.live(&planned, arguments.jobs, host, title, most, |planned, turns| {
        let is_meant =
            |live: &&Live| (&live.planned.case, live.planned.seed) == (&planned.case, planned.seed);
        let live = plan.iter().find(is_meant).expect("it is planned");
        // Hundreds of iperf3 need both processors, also where one run is made at a time.
        let run = measured(live, &host.lab().run(&planned.scenario, Some(turns))?);
        let told = run.values.spans.last().map_or(String::new(), |last| {
            format!(
                "{:.1} % of the link and {:.1} packets waiting at the end",
                last.utilization * 100.0,
                last.queue
            )
        });
        Ok(Attempt::new(run, told))
    })?;
    publish(done, |_| Ok(None), arguments, &folder, host)
}

/// Every run, one after the other of each repetition.
fn plan(arguments: &Arguments) -> Result<Vec<Live>, Error> {
    if arguments.timers.value != TIMERS[0].value {
        return Err(Error::input(
            "the kernel has timers of its own: leave out --timers, or choose --arm sim",
        ));
    }
    if arguments.witness.is_some() {
        return Err(Error::input(
            "a witness is put beside the simulator: leave out --witness, or choose --arm sim",
        ));
    }
    let seeds = Some(arguments.seeds.unwrap_or(1));
    let planned = simulated(&Arguments { seeds, ..arguments.clone() })?;
    let mut plan: Vec<Live> = planned.into_iter().map(live).collect();
    plan.sort_by_key(|live| live.planned.seed);
    Ok(plan)
}

/// A run of the simulator as the kernel can play it.
fn live(mut planned: Planned<Case>) -> Live {
    let Planned { case, scenario, .. } = &mut planned;
    if case.experiment == Experiment::Two {
        keep_marked(scenario);
    }
    let spans = spans(scenario);
    let (mut flows, mut long) = (Vec::new(), 0);
    for group in &scenario.flows {
        for _ in 0..group.count {
            flows.push(match group.every {
                Some(_) => Part::Short { from_s: group.start.as_secs_f64() },
                None => Part::Long(long),
            });
            long += usize::from(group.every.is_none());
        }
    }
    let by_drops = matches!(case.experiment, Experiment::One | Experiment::Three);
    scenario.flows = scenario.flows.iter().flat_map(|group| as_played(group, by_drops)).collect();
    scenario.title = format!("AVQ paper, experiment {}, {}", u32::from(case.experiment), case.series);
    Live { planned, spans, flows }
}

/// Ends experiment 2 before there are more flows than marks can slow down.
fn keep_marked(scenario: &mut Scenario) {
    let mut count = 0;
    let first_too_many = scenario.flows.iter().position(|group| {
        count += group.count as usize;
        count > MARKED_FLOWS
    });
    if let Some(first) = first_too_many {
        scenario.run.duration = scenario.flows[first].start;
        scenario.flows.truncate(first);
    }
}

/// A group as the kernel and iperf3 can play it: with the hosts there are, and in parts that begin one after
/// the other where the simulator draws the beginnings at random. The flows keep their order.
fn as_played(group: &FlowGroup, by_drops: bool) -> Vec<FlowGroup> {
    let spread = group.start_spread;
    let steps = (spread.as_nanos() / STEP.as_nanos()).max(1) as u32;
    let parts = if group.every.is_some() { group.count } else { steps.min(group.count) };
    let first_of = |part: u32| group.count * part / parts;
    (0..parts)
        .map(|part| FlowGroup {
            count: first_of(part + 1) - first_of(part),
            start: group.start + Duration::from_nanos(spread.as_nanos() * u64::from(part) / u64::from(parts)),
            start_spread: Duration::ZERO,
            rtt: None,
            ecn: if by_drops { EcnUse::Given(false) } else { group.ecn },
            host: EndHost::default(),
            ..group.clone()
        })
        .collect()
}

/// What was measured of a run.
fn measured(live: &Live, recording: &Recording) -> Run {
    let scenario = &live.planned.scenario;
    let samples = recording.link_samples.first().map_or(&[][..], Vec::as_slice);
    let period_s = scenario.run.sample.as_secs_f64();
    let seen = Observation {
        samples: samples.iter().map(|sample| period(sample, period_s)).collect(),
        delivered: deliveries(live, recording),
    };
    let summary = &recording.summary;
    Run {
        case: live.planned.case.clone(),
        seed: live.planned.seed,
        values: Values { host: summary.host, ..Values::new(&live.spans, seen) },
        trace_hash: None,
        warnings: Some(summary.warnings.clone()),
    }
}

/// A period of the link. The mean number of waiting packets is their delay times their rate (Little's law).
fn period(sample: &LinkSample, period_s: f64) -> Sample {
    let packets_per_s = sample.delivered_bps / 8.0 / PACKET_BYTES;
    Sample {
        t_s: sample.t_s,
        queue_mean: packets_per_s * sample.delay_mean_ms / 1e3,
        queue: sample.backlog_bytes as f64 / PACKET_BYTES,
        departed: packets_per_s * period_s,
        lost: sample.drops + sample.overflows,
        discarded: Some(sample.drops),
        marked: Some(sample.marks),
        capacity: None,
    }
}

/// What had arrived at the ends of the spans: of long flows what was acknowledged until then, of short ones
/// their share of what they got in all, as each of them makes the same transfers again and again.
fn deliveries(live: &Live, recording: &Recording) -> Vec<Deliveries> {
    let end_s = live.planned.scenario.run.duration.as_secs_f64();
    let packets = |bytes: f64| (bytes / PAYLOAD_BYTES) as u64;
    let long_flows = live.flows.iter().filter(|part| matches!(part, Part::Long(_))).count();
    let at = |t_s: f64| {
        let mut now = Deliveries { t_s, long: vec![0; long_flows], short: 0 };
        for sample in recording.flow_samples.iter().take_while(|sample: &&FlowSample| sample.t_s <= t_s) {
            if let Some(Part::Long(number)) = live.flows.get(sample.flow as usize) {
                now.long[*number] = packets(sample.bytes_acked as f64);
            }
        }
        let short =
            recording.summary.flows.iter().filter_map(|flow| match live.flows.get(flow.id as usize)? {
                Part::Short { from_s } => {
                    let share = ((t_s - from_s) / (end_s - from_s)).clamp(0.0, 1.0);
                    Some(flow.bytes as f64 * share)
                }
                Part::Long(_) => None,
            });
        now.short = packets(short.sum());
        now
    };
    std::iter::once(0.0).chain(edges(&live.spans)).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avq::experiments::tests::arguments;
    use crate::choice::Arm;
    use weir_measure::result::{FlowSummary, Summary};

    fn lab(experiment: &str, quick: bool) -> Arguments {
        Arguments { arm: Arm::Lab, ..arguments(experiment, quick) }
    }

    #[test]
    fn every_run_is_one_that_the_lab_can_play() {
        for quick in [false, true] {
            let plan = plan(&lab("all", quick)).unwrap();
            assert_eq!(plan.len(), 1 + 5 + 3 + 5 + 5);
            for Live { planned, .. } in &plan {
                weir_lab::check(&planned.scenario).unwrap_or_else(|e| panic!("{:?}: {e}", planned.case));
            }
        }
        let refused = plan(&Arguments { timers: &TIMERS[1], ..lab("1", true) });
        assert!(matches!(refused, Err(Error::Input(text)) if text.contains("choose --arm sim")));
    }

    #[test]
    fn flows_begin_one_after_the_other_and_keep_their_loads() {
        let of = |experiment: &str| plan(&lab(experiment, false)).unwrap().swap_remove(0);
        let Live { planned, spans, flows } = of("1");
        let starts: Vec<(u32, u64)> =
            planned.scenario.flows.iter().map(|g| (g.count, g.start.as_nanos() / 1_000_000)).collect();
        assert_eq!(
            (starts[0], starts[9], starts[10], starts[39]),
            ((18, 0), (18, 9000), (1, 100_000), (1, 100_966))
        );
        assert!(planned.scenario.flows.iter().all(|g| !g.ecn.is_on()), "180 flows of two packets");
        assert_eq!((flows.len(), flows[179]), (210, Part::Long(179)));
        assert_eq!(flows[180], Part::Short { from_s: 100.0 });
        assert_eq!((spans[1].long.len(), spans[1].short_per_s), (180, 30.0));
        let two = of("2");
        assert_eq!(two.spans.iter().map(|s| s.long.len()).collect::<Vec<_>>(), [20, 40, 60]);
        assert!(two.planned.scenario.flows.iter().all(|g| g.ecn.is_on()));
        assert_eq!(of("4").spans.last().map(|s| s.short_per_s), Some(50.0));
    }

    #[test]
    fn what_the_kernel_tells_becomes_loads() {
        let live = plan(&lab("4", true)).unwrap().swap_remove(0);
        let link = |n: u32| LinkSample {
            t_s: f64::from(n) / 10.0,
            delivered_bps: 8e6,
            delay_mean_ms: 20.0,
            backlog_bytes: 30_000,
            drops: 1,
            overflows: 2,
            marks: 3,
            ..LinkSample::default()
        };
        let length_s = live.planned.scenario.run.duration.as_secs_f64();
        let acked = |n: u32| {
            let t_s = f64::from(n) / 10.0;
            FlowSample { t_s, bytes_acked: (t_s * 94_800.0) as u64, ..FlowSample::default() }
        };
        let of = |id: u32, bytes: u64| FlowSummary { id, bytes, ..FlowSummary::default() };
        let periods = (length_s * 10.0) as u32;
        let recording = Recording {
            summary: Summary { flows: vec![of(0, 1), of(40, 948_000)], ..Summary::default() },
            link_samples: vec![(1..=periods).map(link).collect()],
            flow_samples: (0..=periods).map(acked).collect(),
            events: Vec::new(),
        };
        let run = measured(&live, &recording);
        let row = &run.values.spans[1];
        assert_eq!((row.utilization * 1e3).round(), 800.0);
        assert!((row.queue - 20.0).abs() < 1e-9 && row.deviation < 1e-9, "{row:?}");
        let seconds = row.to_s - row.from_s;
        assert_eq!(
            (row.lost, row.discarded, row.marked),
            (30.0 * seconds, Some(10.0 * seconds), Some(30.0 * seconds))
        );
        // A long flow of 100 packets/s, and 1000 packets of a short one over its time.
        let wanted = 100.0 + 1000.0 / (length_s - row.from_s);
        assert!((row.goodput - wanted).abs() < 2.0 / seconds, "{} instead of {wanted}", row.goodput);
    }
}
