//! A run of a scenario, from start to recording.

use crate::error::Error;
use crate::flow::{Flow, FlowStats};
use crate::link::Link;
use crate::network::{Counts, Ended, Simulation};
use crate::scenario::build;
use crate::tap::Tap;
use std::ops::ControlFlow;
use weir_config::{Network, NetworkLink, Scenario, Traffic};
use weir_measure::applications::{Calls, Datagrams, Realtimes, Videos};
use weir_measure::result::{
    FlowSummary, LinkSummary, Progress, Recording, Sensing, SteeringEvent, Summary, Transfers, UsersSummary,
};
use weir_measure::study::{self, Completion, Distributed, Kind, Study};
use weir_measure::{Quantiles, Window, utilization};
use weir_sense::probe::State;
use weir_units::{Duration, Time};

/// Somebody who watches is told about this often, in virtual time, but not more often than samples come.
const WATCH: Duration = Duration::from_millis(100);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Summary, samples and events, as every arm makes them.
    pub recording: Recording,
    /// Fingerprint of every decision about every packet: equal for equal scenario and seed, everywhere.
    pub trace_hash: u64,
    /// Packets by where they ended.
    pub counts: Counts,
    /// Completion times and what else a study asks for. Groups and fairness are filled in by a
    /// [`Watcher`](crate::Watcher).
    pub study: Study,
}

/// Runs a scenario once. `watch` is called from time to time and can end the run early; what was measured
/// until then is returned with a warning.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
    run_with(scenario, seed, (), watch).map(|(outcome, ())| outcome)
}

/// The same with a tap, which is given back.
pub fn run_with<T: Tap>(
    scenario: &Scenario,
    seed: u64,
    tap: T,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<(Outcome, T), Error> {
    finish(scenario, build(scenario, seed, tap)?, watch)
}

/// The same, after `prepare` has put parts of the caller's own in place: a queue on a link
/// ([`Simulation::links_mut`], [`queue_of`](crate::queue_of)), a congestion control
/// ([`Simulation::kinds_mut`]).
pub fn run_prepared(
    scenario: &Scenario,
    seed: u64,
    prepare: impl FnOnce(&mut Simulation<()>),
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
    let mut simulation = build(scenario, seed, ())?;
    prepare(&mut simulation);
    finish(scenario, simulation, watch).map(|(outcome, ())| outcome)
}

/// Runs what was built.
fn finish<T: Tap>(
    scenario: &Scenario,
    mut simulation: Simulation<T>,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<(Outcome, T), Error> {
    let mut events = Vec::new();
    let interrupted = watch_until_end(scenario, &mut simulation, &mut events, watch);
    let outcome = outcome(scenario, &mut simulation, events, interrupted);
    assert!(simulation.is_conserved(), "a packet was lost or made up: {:?}", simulation.counts());
    Ok((outcome, simulation.into_tap()))
}

/// Returns when the run was ended early, if it was.
fn watch_until_end<T: Tap>(
    scenario: &Scenario,
    simulation: &mut Simulation<T>,
    events: &mut Vec<SteeringEvent>,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Option<Time> {
    let end = Time::ZERO + scenario.run.duration;
    let step = scenario.run.sample.max(WATCH);
    let (mut told, mut told_events) = (0, 0);
    while simulation.now() < end {
        simulation.run_until((simulation.now() + step).min(end));
        collect(simulation, events);
        let samples = simulation.links().first().map_or(&[][..], |l| l.meter.samples());
        let progress = Progress {
            t_s: simulation.now().as_secs_f64(),
            length_s: scenario.run.duration.as_secs_f64(),
            samples: &samples[told..],
            events: &events[told_events..],
        };
        (told, told_events) = (samples.len(), events.len());
        if watch(progress).is_break() && simulation.now() < end {
            return Some(simulation.now());
        }
    }
    None
}

/// Takes the moves of all set points, in order of time.
fn collect<T: Tap>(simulation: &mut Simulation<T>, events: &mut Vec<SteeringEvent>) {
    let first = events.len();
    for link in simulation.links_mut() {
        for m in link.queue.take_moves() {
            events.push(SteeringEvent::of(&m, &link.name, Time::ZERO));
        }
    }
    events[first..].sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
}

fn outcome<T: Tap>(
    scenario: &Scenario,
    simulation: &mut Simulation<T>,
    events: Vec<SteeringEvent>,
    interrupted: Option<Time>,
) -> Outcome {
    let window = simulation.finish();
    let network = scenario.network();
    let length = window.length();
    let names = network.links.iter().zip(simulation.links());
    let summary = Summary {
        title: scenario.title.clone(),
        arm: "sim".into(),
        interrupted: interrupted.is_some(),
        duration_s: length.as_secs_f64(),
        warmup_s: scenario.run.warmup.as_secs_f64(),
        ports: String::new(),
        links: names.map(|(setup, link)| link_summary(setup, link, window)).collect(),
        flows: flow_summaries(scenario, simulation),
        host: None,
        responsiveness: None,
        warnings: warnings(scenario, simulation, interrupted),
    };
    let mut recording = Recording {
        summary,
        link_samples: simulation.links().iter().map(|l| l.meter.samples().to_vec()).collect(),
        flow_samples: simulation.flow_samples().to_vec(),
        events,
    };
    scenario.note_flows(&mut recording.summary);
    let unresponsive = recording.unresponsive();
    recording.summary.warnings.extend(unresponsive);
    let study = study(scenario, simulation, &network, &recording);
    Outcome { recording, trace_hash: simulation.trace_hash(), counts: simulation.counts(), study }
}

/// What a study asks for and costs nothing while packets pass.
fn study<T: Tap>(
    scenario: &Scenario,
    simulation: &Simulation<T>,
    network: &Network,
    recording: &Recording,
) -> Study {
    let ideal = |ended: &Ended| {
        let flow = &simulation.flows()[ended.flow as usize];
        let kind = &simulation.kinds[flow.kind as usize];
        let links = |of: &[u32]| {
            of.iter().map(|l| network.links[*l as usize].delay).fold(Duration::ZERO, |sum, delay| sum + delay)
        };
        let there = links(&kind.forward) + flow.extra.forward;
        let back = links(&kind.back) + flow.extra.back;
        let payload = u64::from(kind.sender.mss_payload);
        // Each object of a page has a last packet of its own, and is asked for by an acknowledgement.
        let pieces = match &kind.traffic {
            Traffic::Web(web) => u64::from(web.objects).max(1),
            // Parallel objects share packets, and are asked for together.
            Traffic::Page(_) => kind.parallel.as_ref().map_or(1, |page| page.depth()),
            _ => 1,
        };
        let packets = (ended.bytes.div_ceil(payload)).max(pieces);
        let sending = kind.forward.iter().map(|l| {
            let link = &network.links[*l as usize];
            // What the link counts beside the IP packet.
            let more = link.counting.of_ip(kind.headers.data).get();
            (ended.bytes + packets * more) as f64 * 8.0 / link.rate.as_bps_f64()
        });
        let slowest = sending.filter(|s| s.is_finite()).fold(0.0, f64::max);
        let rtt = there + back;
        let trips = if ended.is_page { rtt.as_secs_f64() * pieces as f64 } else { there.as_secs_f64() };
        let server = kind.parallel.as_ref().map_or(Duration::ZERO, |page| {
            page.waiting(rtt).saturating_sub(rtt.saturating_mul(page.depth()))
        });
        trips + server.as_secs_f64() + slowest
    };
    let kind = |is_page: bool| if is_page { Kind::Page } else { Kind::Transfer };
    let each: Vec<Completion> = simulation
        .ended
        .iter()
        .map(|ended| Completion {
            kind: kind(ended.is_page),
            flow: ended.flow,
            group: simulation.group(ended.flow),
            start_s: ended.began.as_secs_f64(),
            bytes: ended.bytes,
            took_s: ended.took.as_secs_f64(),
            ideal_s: ideal(ended),
        })
        .collect();
    let unfinished: Vec<(Kind, u32)> =
        simulation.unfinished.iter().map(|(p, group)| (kind(*p), *group)).collect();
    let from_s = scenario.run.warmup.as_secs_f64();
    let mut convergence = Vec::new();
    let links = recording.summary.links.iter().zip(&recording.link_samples).enumerate();
    for (number, (link, samples)) in links {
        convergence.extend(link.phases.iter().map(|p| study::convergence(number as u32, samples, p)));
    }
    let mut distributions: Vec<Distributed> = simulation
        .links()
        .iter()
        .filter(|link| link.meter.totals().packets > 0)
        .map(|link| Distributed {
            quantity: "delay".into(),
            link: link.name.clone(),
            group: None,
            values: link.meter.sojourn().all().quantiles_ms(),
        })
        .collect();
    for kind in [Kind::Transfer, Kind::Page] {
        let mine = each.iter().filter(|c| c.kind == kind && c.start_s >= from_s);
        let mut times: Vec<f64> = mine.map(|c| c.took_s * 1e3).collect();
        times.sort_by(f64::total_cmp);
        if !times.is_empty() {
            let values = Quantiles::of(times.into_iter().map(|ms| (ms, 1)));
            distributions.push(Distributed {
                quantity: kind.name().into(),
                link: String::new(),
                group: None,
                values,
            });
        }
    }
    let mut told = Study::default();
    let delays = |quantity: &str, group: u32, values: Quantiles| Distributed {
        quantity: quantity.into(),
        link: String::new(),
        group: Some(group),
        values,
    };
    for (group, flows) in scenario.flows.iter().enumerate() {
        let number = group as u32;
        match (flows.traffic(), simulation.pools.get(group)) {
            (Traffic::Voice(_), Some(pool)) => {
                told.calls.extend(Calls::of(number, pool));
                distributions.push(delays("voice", number, pool.quantiles()));
            }
            (Traffic::Game(_), Some(pool)) => {
                told.games.extend(Datagrams::of(number, pool));
                distributions.push(delays("game", number, pool.quantiles()));
            }
            (Traffic::Realtime(_), Some(pool)) => {
                told.realtimes.extend(Realtimes::of(number, pool, recording.summary.duration_s / 60.0));
                distributions.push(delays("realtime", number, pool.quantiles()));
            }
            (Traffic::Video(_), _) => {
                let mine = simulation.played.iter().filter(|(group, _)| *group == number);
                told.videos.extend(Videos::of(number, &mine.map(|(_, played)| *played).collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    Study {
        completions: study::completions(&each, from_s, &unfinished),
        convergence,
        each,
        distributions,
        ..told
    }
}

fn link_summary(setup: &NetworkLink, link: &Link, window: Window) -> LinkSummary {
    let totals = link.meter.totals();
    let rate_bps = setup.rate.as_bps_f64();
    let delivered_bps = totals.bytes as f64 * 8.0 / window.length().as_secs_f64().max(1e-9);
    let setpoint = link.meter.samples().last().map(|row| row.setpoint_ms);
    LinkSummary {
        name: setup.name.clone(),
        aqm: setup.queue.label(&setup.aqm.name),
        rate_bps: (rate_bps > 0.0).then_some(rate_bps),
        accounting: setup.counting.to_string(),
        packets: totals.packets,
        bytes: totals.bytes,
        utilization: utilization(delivered_bps, link.meter.capacity_bps(window)),
        delay_ms: link.meter.sojourn().spread_ms(),
        delay_by_class_ms: link.meter.sojourn().by_class_ms(),
        drops: totals.drops,
        overflows: totals.overflows,
        acks_filtered: totals.filtered,
        sanctioned: totals.sanctioned,
        marks: totals.marks,
        setpoint_ms: setpoint.filter(|ms| ms.is_finite()),
        faults: faults(link),
        sensing: link.prober.as_ref().map(|prober| Sensing::of(prober.sensor(), prober.shaped())),
        upstream: link.observer.as_ref().map(|observer| observer.observed()),
        users: link.queue.user_counters().map(UsersSummary::of),
        flows: None,
        phases: link.meter.phases(window.until),
    }
}

/// What the file had the link do to packets, by name and number of packets.
fn faults(link: &Link) -> Vec<(String, u64)> {
    let (reordered, duplicated) = link.disorder.as_ref().map_or((0, 0), |d| (d.reordered, d.duplicated));
    let counts = [("lost_at_random", link.lost), ("reordered", reordered), ("duplicated", duplicated)];
    counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_string(), n)).collect()
}

fn flow_summaries<T: Tap>(scenario: &Scenario, simulation: &Simulation<T>) -> Vec<FlowSummary> {
    let summary = |(id, flow): (usize, &Flow)| {
        let number = simulation.group(id as u32);
        let group = &scenario.flows[number as usize];
        let stats = &flow.stats;
        let active = stats.active.as_secs_f64();
        let samples = f64::from(stats.rtt_samples.max(1));
        FlowSummary {
            id: id as u32,
            group: number,
            congestion: group.congestion.clone(),
            bytes: stats.bytes,
            goodput_bps: if active > 0.0 { stats.bytes as f64 * 8.0 / active } else { 0.0 },
            retransmits: stats.retransmits,
            rtt_ms: stats.rtt_sum / samples * 1e3,
            transfers: transfers(&group.traffic(), stats),
        }
    };
    simulation.flows().iter().enumerate().map(summary).collect()
}

/// What came of the transfers of a flow that makes such.
fn transfers(traffic: &Traffic, stats: &FlowStats) -> Option<Transfers> {
    let Traffic::Transfers { .. } = traffic else { return None };
    let completed = stats.completed;
    let mean_s = (completed > 0).then(|| stats.transfer_time.as_secs_f64() / f64::from(completed));
    Some(Transfers { completed, mean_s })
}

fn warnings<T: Tap>(
    scenario: &Scenario,
    simulation: &Simulation<T>,
    interrupted: Option<Time>,
) -> Vec<String> {
    let mut warnings = scenario.warnings();
    let skipped: u32 = simulation.flows().iter().map(|f| f.skipped).sum();
    if skipped > 0 {
        let most = crate::MAX_OPEN;
        warnings.push(format!("{skipped} transfers were left out: {most} of their flow were under way"));
    }
    for link in simulation.links() {
        let states = link.prober.iter().flat_map(|prober| prober.states());
        for (at, _) in states.filter(|(_, state)| *state == State::FallenBack) {
            let (name, at) = (&link.name, at.as_secs_f64());
            let slower = link.prober.as_ref().and_then(|prober| prober.fall_back());
            let rate = slower.map_or(String::new(), |rate| format!(", at {rate} or less"));
            warnings.push(format!(
                "link {name}: too few probes came back, fell back to its own queue at {at:.1} s{rate}"
            ));
        }
    }
    if !simulation.samples_flows() {
        warnings.push("flows were not sampled: there would be too many rows".into());
    }
    if let Some(at) = interrupted {
        let length_s = scenario.run.duration.as_secs_f64();
        warnings.push(format!("interrupted at {:.1} s of {length_s:.1} s", at.as_secs_f64()));
    }
    warnings
}
