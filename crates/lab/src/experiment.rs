//! One run of a scenario: namespaces, packet loop, traffic and samplers, from start to recording.

use crate::access::Access;
use crate::awake::Awake;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::exclusive::SideBySide;
use crate::flent::{self, FlentTest};
use crate::follow::{Follow, Looking, Playing};
use crate::host;
use crate::loop_thread::LoopThread;
use crate::netns::{self, Stale, Testbed, TestbedConfig};
use crate::process::{SpawnOptions, set_affinity};
use crate::responsiveness::Running;
use crate::supported;
use crate::tcpinfo::{Sampler, SamplerConfig};
use crate::traffic::{Receiving, TrafficOptions, TrafficReport, TrafficRun, lead_time, low_water_mark};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_config::{Channel, Scenario};
use weir_dataplane::{DirectionSetup, Impairments, Outcome, RunClock, Setup};
use weir_measure::responsiveness::Parameters;
use weir_measure::result::{LinkSample, LinkSummary, Progress, Recording, Summary};

/// How often somebody who watches is told.
const WATCH: Duration = Duration::from_millis(100);
/// Time for the namespaces' first packets before flows start.
const SETTLE: Duration = Duration::from_millis(200);
/// The delay line hides stalls of the host up to its length, so the shaper makes up for as much.
const CATCH_UP: weir_units::Duration = weir_units::Duration::from_millis(50);
/// The same where several links stand in a row: their loops sleep, and a late one makes a burst for the next.
const CATCH_UP_IN_ROW: weir_units::Duration = weir_units::Duration::from_millis(10);
/// A stopped loop is a stopped link: frames wait in the port's ring and never pass the queue in the kernel.
/// The namespaces end with the run, so that nobody is cut off.
const FAIL_OPEN_AFTER: weir_units::Duration = weir_units::Duration::from_secs(3600);
/// The end hosts stand for machines of their own: they come before whatever else runs here.
const END_HOST_NICE: i32 = -15;
/// Headers of IPv4 and TCP with timestamps.
const TCP_HEADERS: u32 = 52;
/// Where a test of responsiveness has no result.
const UNANSWERED: &str = "responsiveness was not measured: the run ended before an interval of a second had answers to probes of each \
                          kind. Remedy: a longer run.duration, 15 s beside the warm-up";
/// Name of the managed direction in results.
pub const FORWARD: &str = "a_to_b";
/// Name of the way back, which is delayed and not managed.
pub const REVERSE: &str = "b_to_a";
/// A flow whose buffers limit it for more than this share of its busy time did not measure the bottleneck.
const BUFFER_LIMITED: f64 = 0.02;

/// A sampler that was later than this had no processor, nor had what begins the flows.
const LATE_S: f64 = 1.0;

/// Runs a scenario once. One run measures at a time on a machine: while another does, `waiting` is
/// called about ten times a second with the time since then, from zero, and can end it. `watch` is called
/// about ten times a second and can end the run early; what was measured until then is returned with a
/// warning.
pub fn run(
    scenario: &Scenario,
    mode: Option<weir_dataplane::Mode>,
    waiting: impl FnMut(Duration) -> ControlFlow<()>,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Recording> {
    follow(scenario, &Wanted { mode, ..Wanted::default() }, waiting, &mut Looking(watch))
}

/// How a scenario is run, beside what it says itself.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How frames enter and leave the packet loop; `None` chooses the best that works.
    pub mode: Option<weir_dataplane::Mode>,
    /// Whether responsiveness is measured from the end of the warm-up on, by connections of its own.
    pub responsiveness: bool,
    /// A test of Flent in place of the flows. Its load lasts as long as the scenario says of the run, which
    /// ends when the test does.
    pub flent: Option<FlentTest>,
    /// The runs that it may be made beside; otherwise nothing else measures meanwhile. Its packet loop sleeps
    /// in place of filling a processor, so that the rate of its link is to be low.
    pub beside: Option<SideBySide>,
}

/// The same, with somebody who may ask its packet loops for changes while it runs.
pub fn follow(
    scenario: &Scenario,
    wanted: &Wanted,
    waiting: impl FnMut(Duration) -> ControlFlow<()>,
    watch: &mut dyn Follow,
) -> Result<Recording> {
    supported::check(scenario)?;
    if Access::is_meant(scenario) {
        let remedy = "leave it out, or choose a scenario with one link or links in a row";
        if wanted.responsiveness {
            return Err(Error::invalid("responsiveness is not measured in a lab of homes", remedy));
        }
        if wanted.flent.is_some() {
            return Err(Error::invalid("a lab of homes has no place for a test of Flent", remedy));
        }
        return Access::of(scenario)?.record(scenario, wanted.mode, waiting, watch);
    }
    netns::require_root(netns::LAB)?;
    let _turn = wanted.beside.clone().unwrap_or_default().exclusive(waiting)?;
    let stale = netns::clean_stale()?;
    let cores = Cores::choose(wanted.beside.is_none());
    // The sampler and this thread are not to disturb the loop.
    let mut warnings = cores.warnings();
    warnings.extend(stale.iter().map(|Stale { name, removed }| match removed {
        Ok(_) => format!("removed {name} of an earlier, killed run"),
        Err(e) => format!("{name} of an earlier, killed run is still there: {e}"),
    }));
    let _ = set_affinity(&cores.others);
    let _awake = cores.lent.then(|| Awake::keep(&cores.all)).transpose()?;
    let result = run_on(scenario, wanted, &cores, watch);
    let _ = set_affinity(&cores.all);
    let mut recording = result?;
    recording.summary.warnings.splice(0..0, warnings);
    Ok(recording)
}

fn run_on(scenario: &Scenario, wanted: &Wanted, cores: &Cores, watch: &mut dyn Follow) -> Result<Recording> {
    let mode = wanted.mode;
    let load = Duration::from_nanos(scenario.run.duration.as_nanos());
    let mut longer = scenario.clone();
    let (scenario, flows) = match wanted.flent {
        Some(_) => {
            longer.run.duration = flent::at_most(load).into();
            (&longer, &[][..])
        }
        None => (scenario, &scenario.flows[..]),
    };
    let chain = (!scenario.links.is_empty()).then(|| Chain::of(scenario)).transpose()?;
    let config = TestbedConfig {
        boxes: chain.as_ref().map_or(1, |chain| chain.places.len() as u32),
        mtu: scenario.path.mtu,
        // End hosts answer packets on the core of the loop that delivers them, at once and not when the
        // processor of their programs has time: that would gather acknowledgements and segments in bursts.
        rps_sender: 0,
        rps_receiver: 0,
        burst_segments: burst_segments(scenario),
        ..TestbedConfig::default()
    };
    let testbed = Testbed::new(config)?;
    for group in flows.iter().filter(|g| g.udp_rate.is_none()) {
        testbed.require_congestion(&group.congestion)?;
    }
    let rtt = chain.as_ref().map_or(scenario.path.rtt, |chain| chain.rtt);
    let rtt = Duration::from_nanos(rtt.as_nanos());
    let lead = lead_time(flows, rtt) + SETTLE;
    let zero = Instant::now() + lead;
    let loops = match &chain {
        None => Loops::one(testbed.bottleneck(), setup(scenario, mode, cores, lead))?,
        Some(chain) => Loops::in_row(testbed.boxes(), chain, |directions| Setup {
            directions,
            // Each opens after the one before it, and all have one zero.
            ..row_setup(scenario, mode, zero.saturating_duration_since(Instant::now()))
        })?,
    };
    let clock = loops.clock();
    let slowest = chain.iter().flat_map(Chain::forward).map(|link| link.rate).min();
    let end_host = || SpawnOptions { cpus: cores.others.clone(), nice: END_HOST_NICE, is_end_host: true };
    let options = TrafficOptions {
        clock: clock.clone(),
        duration: Duration::from_nanos(scenario.run.duration.as_nanos()),
        rtt,
        interval: Duration::from_millis(500),
        receiving: Receiving {
            low_water: low_water_mark(slowest.unwrap_or(scenario.rate()), scenario.flow_count()),
            window: testbed.config().receive_window(),
        },
        sender: end_host(),
        receiver: end_host(),
    };
    let traffic = TrafficRun::start(&testbed, flows, options)?;
    let start = |test| flent::Running::start(&testbed, &end_host(), test, load);
    let flent = wanted.flent.as_ref().map(start).transpose()?;
    let instant = |after: weir_units::Duration| {
        let left_s = clock.seconds(clock.at(after)) - clock.seconds(clock.now());
        Instant::now() + Duration::from_secs_f64(left_s.max(0.0))
    };
    let span = (instant(scenario.run.warmup), instant(scenario.run.duration));
    let start = || Running::start(&testbed, &end_host(), span, Parameters::default());
    let responsiveness = wanted.responsiveness.then(start).transpose()?;
    let period = Duration::from_nanos(scenario.run.sample.as_nanos());
    let sampler = Sampler::start(&testbed, traffic.table(), SamplerConfig { clock: clock.clone(), period })?;
    let run = Run { scenario, clock, loops, traffic, flent, sampler, responsiveness };
    let mut recording = run.watch_and_finish(watch)?;
    recording.summary.warnings.extend(testbed.wire_losses()?.warning());
    testbed.close()?;
    Ok(recording)
}

/// Segments of the largest burst, which all flows share: it is a property of their interface.
fn burst_segments(scenario: &Scenario) -> u32 {
    let payload = u64::from(scenario.path.mtu.saturating_sub(TCP_HEADERS).max(1));
    let bursts = scenario.flows.iter().filter_map(|flows| flows.host.burst);
    bursts.map(|burst| u32::try_from(burst.get() / payload).unwrap_or(u32::MAX)).max().unwrap_or(1).max(1)
}

/// Which processors do what.
struct Cores {
    all: Vec<usize>,
    /// For the packet loop; `None` where there is only one.
    own: Option<usize>,
    others: Vec<usize>,
    /// Whether a hypervisor may lend them to others when they halt.
    lent: bool,
}

impl Cores {
    /// One is set apart for the packet loop of a run that is alone, where there are several.
    fn choose(is_alone: bool) -> Cores {
        let host::Cpus { allowed: all, lent, .. } = host::cpus();
        match all.split_last() {
            Some((own, others)) if is_alone && !others.is_empty() => {
                Cores { own: Some(*own), others: others.to_vec(), all: all.clone(), lent }
            }
            _ => Cores { own: None, others: all.clone(), all, lent },
        }
    }

    fn warnings(&self) -> Vec<String> {
        let told = || "one processor does everything: delays contain the host's scheduling".into();
        (self.all.len() <= 1).then(told).into_iter().collect()
    }
}

/// The directions of each packet loop of a scenario with one link or links in a row, as they are built.
pub fn directions(scenario: &Scenario) -> Result<Vec<[DirectionSetup; 2]>> {
    if scenario.links.is_empty() {
        return Ok(vec![only(scenario)]);
    }
    let chain = Chain::of(scenario)?;
    Ok((0..chain.places.len()).map(|number| chain.directions(number, CATCH_UP_IN_ROW)).collect())
}

/// Those of a scenario with one link.
fn only(scenario: &Scenario) -> [DirectionSetup; 2] {
    let forward = Channel { catch_up: CATCH_UP, ..scenario.forward() };
    let reverse = Channel { delay: scenario.path.reverse_delay(), ..Channel::unshaped() };
    [
        DirectionSetup {
            impairments: Some(Impairments { variation: scenario.link.variation.clone() }),
            settled: scenario.settled().swap_remove(0),
            ..DirectionSetup::new(FORWARD, forward)
        },
        DirectionSetup::new(REVERSE, reverse),
    ]
}

fn setup(scenario: &Scenario, mode: Option<weir_dataplane::Mode>, cores: &Cores, lead: Duration) -> Setup {
    let directions = only(scenario);
    Setup {
        mode,
        core: cores.own,
        realtime: cores.all.len() > 1,
        busy: cores.own.is_some(),
        // Whoever answers does so on the loop's core.
        stands_still: cores.own.is_some(),
        fail_open_after: FAIL_OPEN_AFTER,
        sample: scenario.run.sample,
        lead: lead.into(),
        warmup: scenario.run.warmup,
        duration: Some(scenario.run.duration),
        ..Setup::in_namespace(netns::PORTS, directions)
    }
}

/// What the loops of a row have in common, beside their directions: they sleep, as there are more of them
/// than processors, and time goes on for all of them.
fn row_setup(scenario: &Scenario, mode: Option<weir_dataplane::Mode>, lead: Duration) -> Setup {
    let none = Cores { all: Vec::new(), own: None, others: Vec::new(), lent: false };
    Setup { realtime: true, ..setup(scenario, mode, &none, lead) }
}

/// The packet loops of a run, and which links they play.
pub(crate) struct Loops {
    loops: Vec<(LoopThread, [Option<usize>; 2])>,
    names: Vec<String>,
}

impl Loops {
    fn one(namespace: &str, setup: Setup) -> Result<Loops> {
        let names = setup.directions.iter().map(|direction| direction.name.clone()).collect();
        Ok(Loops { loops: vec![(LoopThread::start(namespace, setup)?, [Some(0), Some(1)])], names })
    }

    fn in_row(
        boxes: &[String],
        chain: &Chain,
        setup: impl Fn([DirectionSetup; 2]) -> Setup,
    ) -> Result<Loops> {
        let start = |(number, namespace): (usize, &String)| {
            let place = chain.places[number];
            let looping = LoopThread::start(namespace, setup(chain.directions(number, CATCH_UP_IN_ROW)))?;
            Ok((looping, [place.there, place.back]))
        };
        let loops = boxes.iter().enumerate().map(start).collect::<Result<_>>()?;
        Ok(Loops { loops, names: chain.names().into_iter().map(String::from).collect() })
    }

    /// The run's clock, by the first of them.
    fn clock(&self) -> RunClock {
        self.loops[0].0.clock()
    }

    fn has_ended(&self) -> bool {
        self.loops.iter().any(|(looping, _)| looping.has_ended())
    }

    fn said(&self) -> impl Iterator<Item = &String> {
        self.loops.iter().flat_map(|(looping, _)| looping.messages())
    }

    /// Takes what they told; the new samples of each.
    fn collect(&mut self, recording: &mut Recording) -> Vec<[Vec<LinkSample>; 2]> {
        let mut new = Vec::new();
        for (looping, links) in &mut self.loops {
            let rows = [0, 1].map(|direction| looping.handle().samples(direction));
            for (link, rows) in links.iter().zip(&rows) {
                if let Some(link) = link {
                    recording.link_samples[*link].extend_from_slice(rows);
                }
            }
            new.push(rows);
            recording.events.extend(looping.handle().events());
        }
        recording.events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        new
    }

    /// The loops for who follows the run, with what they told.
    fn playing<'a>(&'a mut self, new: &'a [[Vec<LinkSample>; 2]]) -> Vec<Playing<'a>> {
        let names = &self.names;
        let loops = self.loops.iter_mut().enumerate();
        let playing = loops.map(|(number, (looping, links))| Playing {
            handle: looping.handle(),
            names: links.map(|link| Some(names[link?].as_str())),
            samples: new.get(number).map_or([&[]; 2], |[there, back]| [there, back]),
        });
        playing.collect()
    }

    /// What was told of the first link.
    fn of_first<'a>(&self, new: &'a [[Vec<LinkSample>; 2]]) -> &'a [LinkSample] {
        let of = |links: &[Option<usize>; 2]| links.iter().position(|link| *link == Some(0));
        let found = self.loops.iter().zip(new).find_map(|((_, links), rows)| Some(&rows[of(links)?]));
        found.map_or(&[], |rows| rows)
    }

    /// Ends them; what came of the links, in the order of the file, and of the first loop.
    fn finish(&mut self) -> Result<(Vec<LinkSummary>, Outcome)> {
        let empty = |name: &String| LinkSummary { name: name.clone(), ..LinkSummary::default() };
        let mut summaries: Vec<LinkSummary> = self.names.iter().map(empty).collect();
        let mut outcomes = Vec::new();
        for (looping, links) in &mut self.loops {
            let outcome = looping.finish()?;
            for (link, summary) in links.iter().zip(&outcome.links) {
                if let Some(link) = link {
                    summaries[*link] = summary.clone();
                }
            }
            outcomes.push(outcome);
        }
        let warnings = outcomes.iter().flat_map(|outcome| outcome.warnings.iter().cloned()).collect();
        let first = outcomes.swap_remove(0);
        Ok((summaries, Outcome { warnings, ..first }))
    }
}

/// Everything that is under way.
struct Run<'a> {
    scenario: &'a Scenario,
    clock: RunClock,
    loops: Loops,
    traffic: TrafficRun,
    flent: Option<flent::Running>,
    sampler: Sampler,
    responsiveness: Option<Running>,
}

impl Run<'_> {
    fn watch_and_finish(mut self, watch: &mut dyn Follow) -> Result<Recording> {
        let links = self.loops.names.len();
        let mut recording = Recording { link_samples: vec![Vec::new(); links], ..Recording::default() };
        let length_s = self.scenario.run.duration.as_secs_f64();
        let end = self.clock.at(self.scenario.run.duration);
        let (mut interrupted, mut ended_s) = (None, None);
        while self.clock.now() < end && !self.loops.has_ended() {
            watch.pass(WATCH, &mut self.loops.playing(&[]));
            let first_event = recording.events.len();
            let new = self.loops.collect(&mut recording);
            let t_s = self.clock.seconds(self.clock.now());
            let samples = self.loops.of_first(&new);
            let events = &recording.events[first_event..];
            let progress = Progress { t_s, length_s, samples, events };
            if watch.look(progress, &mut self.loops.playing(&new)).is_break() {
                // Before the start of the run nothing was measured.
                interrupted = Some(t_s.max(0.0));
                break;
            }
            if self.flent.as_mut().is_some_and(flent::Running::has_ended) {
                ended_s = Some(t_s);
                break;
            }
        }
        if interrupted.is_some() || self.loops.has_ended() {
            self.traffic.abort();
        }
        self.finish(recording, interrupted, ended_s)
    }

    fn finish(
        mut self,
        mut recording: Recording,
        interrupted: Option<f64>,
        ended_s: Option<f64>,
    ) -> Result<Recording> {
        let run = &self.scenario.run;
        let (warmup_s, length_s) = (run.warmup.as_secs_f64(), run.duration.as_secs_f64());
        let end_s = interrupted.or(ended_s).unwrap_or(length_s);
        let has_flent = self.flent.is_some();
        self.flent.take().map(|flent| flent.finish(interrupted.is_some())).transpose()?;
        let responsiveness = self.responsiveness.take().map(Running::finish);
        // The loop goes on while iperf3 exchanges its results through it.
        let flows: TrafficReport = self.traffic.finish();
        let samples = self.sampler.stop()?;
        let (links, outcome) = self.loops.finish()?;
        self.loops.collect(&mut recording);
        recording.link_samples.iter_mut().for_each(|rows| rows.retain(|row| row.t_s <= end_s + 1e-3));
        recording.events.retain(|e| e.t_s <= end_s);
        let mut warnings = outcome.warnings;
        // What was switched off dies with the namespace; what was refused explains the numbers.
        warnings.extend(self.loops.said().filter(|line| line.contains("is unavailable")).cloned());
        warnings.extend(flows.warnings.iter().cloned());
        if let Some(t_s) = interrupted {
            warnings.push(format!("interrupted at {t_s:.1} s of {length_s:.1} s"));
        }
        let limited = samples.buffer_limited(BUFFER_LIMITED);
        if !limited.is_empty() {
            warnings.push(format!("flows {limited:?} waited for socket buffers, not for the bottleneck"));
        }
        if samples.late_s > LATE_S {
            warnings.push(format!(
                "the program itself had no processor for up to {:.1} s: flows began late, and samples of them are missing. Remedy: \
                 fewer flows, a lower rate, or more processors",
                samples.late_s
            ));
        }
        recording.summary = Summary {
            title: self.scenario.title.clone(),
            arm: "lab".into(),
            interrupted: interrupted.is_some(),
            ports: outcome.mode.to_string(),
            duration_s: (end_s - warmup_s).max(0.0),
            warmup_s,
            links,
            flows: flows.summaries(warmup_s, end_s, &samples.samples),
            host: Some(outcome.host),
            responsiveness: None,
            warnings,
        };
        match responsiveness {
            Some(Ok(Some(told))) => recording.summary.responsiveness = Some(told),
            Some(Ok(None)) => recording.summary.warnings.push(UNANSWERED.into()),
            Some(Err(error)) => recording.summary.warnings.push(format!(
                "the test of responsiveness was aborted, as a connection of it failed: {error}"
            )),
            None => {}
        }
        recording.flow_samples = samples.samples;
        recording.flow_samples.retain(|row| row.t_s <= end_s + 1e-3);
        if !has_flent {
            self.scenario.note_flows(&mut recording.summary);
        }
        let unresponsive = recording.unresponsive();
        recording.summary.warnings.extend(unresponsive);
        Ok(recording)
    }
}
