//! Round-trip times that a live link reads from what passes, beside those of the end hosts: the kernel's TCP
//! and quinn.
//!
//! Two boxes: the first observes and does nothing else; the second delays, loses and reorders. The sender
//! stands right before the first, so that its round-trip times are those behind the observer. Needs root;
//! skipped without.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_aqm::Share;
use weir_config::disorder::Reorder;
use weir_config::{AqmConfig, Channel, Scenario, Upstream, Variation};
use weir_dataplane::{DirectionSetup, Handle, Impairments, Loop, Outcome, RunClock, Setup};
use weir_lab::quic::{QuicClient, QuicServer};
use weir_lab::traffic::Receiving;
use weir_lab::*;
use weir_measure::result::FlowSample;
use weir_units::{Bytes, Rate};

/// Waits for the right to measure; none, said loudly, where the test cannot run.
fn turn(programs: &[&str]) -> Option<Exclusive> {
    can_run_live(programs).then(|| exclusive(|_| ControlFlow::Continue(())).unwrap())
}

/// A packet loop in a namespace, on a thread of its own.
struct Running {
    handle: Handle,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

impl Running {
    fn start(namespace: &str, directions: [DirectionSetup; 2]) -> Running {
        let setup = Setup::in_namespace(netns::PORTS, directions);
        let (opened, opening) = mpsc::channel();
        let (namespace, stop) = (namespace.to_string(), Arc::<AtomicBool>::default());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let body = || {
                let (looping, handle) = Loop::open(setup).unwrap();
                opened.send(handle).unwrap();
                looping.run(&stopped).unwrap()
            };
            in_netns(&namespace, body).unwrap()
        });
        Running { handle: opening.recv().unwrap(), stop, thread }
    }

    fn end(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn way(name: &str, delay_ms: u64, rate: Option<Rate>, variation: Variation) -> DirectionSetup {
    let mut channel = Channel { delay: weir_units::Duration::from_millis(delay_ms), ..Channel::unshaped() };
    channel.link.rate = rate;
    channel.aqm = rate.and_then(|_| AqmConfig::new("codel"));
    let impairments = Some(Impairments { variation });
    DirectionSetup { impairments, ..DirectionSetup::new(name, channel) }
}

/// Both boxes: one that observes, right behind the sender, and one of that rate which delays, loses and
/// reorders.
fn boxes(testbed: &Testbed, rate: Rate, loss: f64, reorder: f64) -> [Running; 2] {
    let [observer, disturber] = testbed.boxes() else { panic!("two boxes") };
    let watched = Channel { upstream: Upstream::Inform, ..Channel::unshaped() };
    let watched = DirectionSetup { tells_rtts: true, ..DirectionSetup::new("watched", watched) };
    let lossy = || Variation { loss: Share(loss), ..Variation::default() };
    // Three full packets overtake one that is held back.
    let delay = rate.time_for(Bytes::new(3 * 1538));
    let reorder = (reorder > 0.0).then_some(Reorder { share: Some(Share(reorder)), every: None, delay });
    let there = way("there", 20, Some(rate), Variation { reorder, ..lossy() });
    let back = way("back", 20, None, lossy());
    let plain = DirectionSetup::new("plain", Channel::unshaped());
    [Running::start(observer, [watched, plain]), Running::start(disturber, [there, back])]
}

fn testbed() -> Testbed {
    Testbed::new(TestbedConfig { boxes: 2, ..TestbedConfig::default() }).unwrap()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Within ten percent, or a millisecond.
fn agree(one_ms: f64, other_ms: f64) -> bool {
    (one_ms - other_ms).abs() <= (0.1 * other_ms).max(1.0)
}

#[test]
fn tcp_is_measured_as_its_sender_measures_it() {
    let Some(_turn) = turn(&["ip", "tc", "iperf3"]) else { return };
    judged(tcp_beside_the_kernel);
}

fn tcp_beside_the_kernel(attempt: &mut Attempt) {
    let testbed = testbed();
    let [mut observer, disturber] = boxes(&testbed, Rate::from_mbps(60), 0.001, 0.001);
    let flows = "[[flows]]\ncount = 10\n[[flows]]\ncount = 10\ncongestion = \"reno\"\nip = \"6\"\n";
    let text = format!(
        "title = \"x\"\nlink = {{ rate = \"60Mbit/s\" }}\npath.rtt = \"40ms\"\naqm.name = \"codel\"\n{flows}\
         [run]\nduration = \"60s\"\n"
    );
    let groups = Scenario::parse("x", &text).unwrap().flows;
    let rtt = Duration::from_millis(40);
    let zero = weir_dataplane::clock() + traffic::lead_time(&groups, rtt).into();
    let clock = RunClock::of_host(zero);
    let options = TrafficOptions {
        clock: clock.clone(),
        // Means of flows over half of that differed by up to 9 and once 11 %, over this by up to 7.
        duration: Duration::from_millis(9500),
        rtt,
        interval: Duration::from_millis(500),
        receiving: Receiving { low_water: 1, window: 1 << 20 },
        sender: SpawnOptions::default(),
        receiver: SpawnOptions::default(),
    };
    let run = TrafficRun::start(&testbed, &groups, options).unwrap();
    let config = SamplerConfig { clock, period: Duration::from_millis(20) };
    let sampler = Sampler::start(&testbed, run.table(), config).unwrap();
    let report = run.finish();
    let kernel = sampler.stop().unwrap();
    attempt.end();
    let mut passive: BTreeMap<u16, Vec<(f64, f64)>> = BTreeMap::new();
    let zero_s = zero.as_nanos() as f64 / 1e9;
    for sample in observer.handle.rtts(0) {
        let t_s = sample.at.as_nanos() as f64 / 1e9 - zero_s;
        passive.entry(sample.ports.0).or_default().push((t_s, sample.rtt.as_millis_f64()));
    }
    let links = observer.end().links;
    let disturbed = disturber.end().links;
    let observed = links[0].upstream.clone().unwrap();
    eprintln!(
        "{observed:?}, faults {:?} {:?}, {:?}",
        disturbed[0].faults, disturbed[1].faults, report.warnings
    );
    let (mut disagreeing, mut few) = (0, 0);
    for flow in 0..20u32 {
        let measured = passive.get(&(10_000 + flow as u16)).map_or(&[][..], Vec::as_slice);
        let (theirs, ours) = side_by_side(&kernel.samples, flow, measured);
        eprintln!(
            "flow {flow}: kernel {:.1} ms, passive {:.1} ms of {}",
            mean(&theirs),
            mean(&ours),
            ours.len()
        );
        few += u32::from(theirs.len() <= 50);
        disagreeing += u32::from(!agree(mean(&ours), mean(&theirs)));
    }
    attempt.within("of twenty flows disagree", f64::from(disagreeing), 0.0..=0.0);
    attempt.within("of twenty flows have at most 50 samples", f64::from(few), 0.0..=0.0);
    attempt.within("coverage", observed.coverage().unwrap_or(0.0), 0.95..=1.0);
    for link in disturbed {
        let lost = link.faults.iter().find(|(name, _)| name == "lost_behind_queue").map_or(0, |(_, n)| *n);
        attempt.within("packets lost behind the queue of a link", lost as f64, 4.0..=f64::MAX);
    }
    let retransmits = kernel.last.values().map(|info| info.retransmits).sum::<u32>();
    attempt.within("retransmissions", f64::from(retransmits), 21.0..=f64::MAX);
}

/// Smoothed round-trip times of the kernel in ms, while data of the flow is acknowledged, and the last one
/// that was measured on the way at each of these times; without the first second, in which windows open.
fn side_by_side(samples: &[FlowSample], flow: u32, passive: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    let mine: Vec<&FlowSample> =
        samples.iter().filter(|s| s.flow == flow && s.t_s > 1.0 && s.rtt_us > 0).collect();
    let moved = mine.windows(2).filter(|pair| pair[1].bytes_acked > pair[0].bytes_acked).map(|pair| pair[1]);
    moved.filter_map(|s| Some((f64::from(s.rtt_us) / 1e3, last(passive, s.t_s)?))).unzip()
}

/// The last one that was measured by then. Of every moment, and not of every sample: a short round trip is
/// followed by another one sooner than a long one.
fn last(passive: &[(f64, f64)], t_s: f64) -> Option<f64> {
    passive[..passive.partition_point(|(at, _)| *at <= t_s)].last().map(|(_, rtt_ms)| *rtt_ms)
}

/// The clock of the packet loop.
fn monotonic_s() -> f64 {
    // SAFETY: a valid clock and a place for its time.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[test]
fn the_spin_bit_tells_what_quinn_measures() {
    let Some(_turn) = turn(&["ip", "tc"]) else { return };
    judged(spin_bit_beside_quinn);
}

fn spin_bit_beside_quinn(attempt: &mut Attempt) {
    let testbed = testbed();
    let [mut observer, disturber] = boxes(&testbed, Rate::from_mbps(40), 0.001, 0.002);
    let server = QuicServer::start(testbed.sender(), "10.77.0.1:4433".parse().unwrap()).unwrap();
    let stop = Arc::<AtomicBool>::default();
    // Each side of quinn switches the bit off in one connection of eight (RFC 9000 section 17.4 asks for
    // one of 16), so that a quarter have none: all of eight once in a hundred thousand times.
    let clients: Vec<JoinHandle<(u16, u64)>> = (0..8)
        .map(|_| {
            let from: IpAddr = "10.77.0.2".parse().unwrap();
            let client = QuicClient::connect(testbed.receiver(), from, &server.handle()).unwrap();
            let stop = stop.clone();
            std::thread::spawn(move || {
                let received = AtomicU64::new(0);
                client.fetch(1 << 40, &received, &stop).unwrap();
                (client.port(), received.into_inner())
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(5000));
    let library = server.samples();
    attempt.end();
    let (now, now_s) = (Instant::now(), monotonic_s());
    let passive = observer.handle.rtts(0);
    stop.store(true, Ordering::Relaxed);
    let fetched: Vec<(u16, u64)> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let least = fetched.iter().map(|(_, received)| *received).min().unwrap();
    attempt.within("bytes were fetched at least", least as f64, 100_000.0..=f64::MAX);
    drop(server);
    let observed = observer.end().links[0].upstream.clone().unwrap();
    disturber.end();
    eprintln!("{observed:?}");
    let (mut spinning, mut disagreeing) = (0, 0);
    for (port, _) in fetched {
        // The first samples are those of the handshake and of slow start, which the spin bit is not yet
        // trusted with.
        let ours: Vec<_> = passive.iter().filter(|s| s.ports == (4433, port)).skip(2).collect();
        let samples = ours.len();
        if samples < 20 {
            continue;
        }
        let ours: Vec<(f64, f64)> =
            ours.iter().map(|s| (s.at.as_nanos() as f64 / 1e9, s.rtt.as_millis_f64())).collect();
        let mine = library.iter().filter(|s| s.peer.port() == port);
        let at_s = |at: Instant| now_s - now.duration_since(at).as_secs_f64();
        let (theirs, ours): (Vec<f64>, Vec<f64>) =
            mine.filter_map(|s| Some((s.rtt.as_secs_f64() * 1e3, last(&ours, at_s(s.at))?))).unzip();
        eprintln!("port {port}: quinn {:.1} ms, spin bit {:.1} ms of {samples}", mean(&theirs), mean(&ours));
        disagreeing += u32::from(!agree(mean(&ours), mean(&theirs)));
        spinning += 1;
    }
    attempt.within(format!("of {spinning} connections disagree"), f64::from(disagreeing), 0.0..=0.0);
    attempt.within("of eight connections spin", f64::from(spinning), 1.0..=8.0);
}
