//! An access network with modems: the queue that fills is not the one that is managed.
//!
//! The testbed of the paper on Active Sense Queue Management. The data of each home passes a limiter of its
//! own, where the algorithm is, and a FIFO that nobody manages, in the modem for uploads and in the head end
//! for downloads; the modems share a link. While the shared link is fast enough the limiter is the
//! bottleneck. When it is not, packets wait in the FIFO.

mod scenario;
mod traffic;
mod wires;

pub use scenario::Access;
pub(crate) use traffic::transfer;

use crate::error::{Error, Result};
use crate::exclusive::Exclusive;
use crate::follow::{Follow, Playing};
use crate::loop_thread::LoopThread;
use crate::netns;
use std::time::{Duration, Instant};
use traffic::Traffic;
use weir_config::{Channel, RunConfig};
use weir_dataplane::{DirectionSetup, Mode, Setup};
use weir_measure::result::{LinkSample, LinkSummary, Progress, SteeringEvent};
use weir_queue::Class;
use weir_units::Rate;
use weir_wire::dscp::Dscp;
use wires::{Wires, gateway_address};

/// Lengths of bins of throughput.
const BIN: Duration = Duration::from_secs(1);
/// How often somebody who watches is told.
const LOOK: Duration = Duration::from_millis(100);

/// Which way the data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the homes to the server; probes turn around at the gateway.
    Upload,
    /// From the server to the homes; probes turn around at the homes.
    Download,
}

/// A connection of a home, or one after the other.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Bytes of a transfer; without it there is no end.
    pub size: Option<u64>,
    /// From the end of a transfer to the start of the next; without it there is no next.
    pub pause: Option<Duration>,
    /// Which machine of the home has it.
    pub machine: u32,
    /// Congestion control of its sender, as Linux calls it.
    pub congestion: String,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection { size: None, pause: None, machine: 0, congestion: "cubic".into() }
    }
}

/// Datagrams at equal distances between a home and the server, both ways: each is sent back at once.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Code point of all of them.
    pub dscp: Dscp,
    /// Bytes in a datagram, 8 at least.
    pub payload: usize,
    /// Time from one to the next.
    pub every: Duration,
    /// Which machine of the home has it.
    pub machine: u32,
}

/// A home behind its modem.
#[derive(Clone, Debug)]
pub struct Home {
    /// Configuration of its limiter, as for `weir run`; the link is `a_to_b`, and modem and head end are at
    /// port `b`.
    pub limiter: RunConfig,
    /// The rate that its limiter has whatever the others send, where limiters borrow: the rate in `limiter`
    /// is then the most that it has with what it borrows.
    pub committed: Option<Rate>,
    /// Whether packets of the class EF pass the limiter in a lane of their own, as they do in any case where
    /// it probes.
    pub expedites: bool,
    /// Its machines, each with an address and a memory of its own; the first one pings.
    pub machines: u32,
    /// Its connections.
    pub connections: Vec<Connection>,
    /// Its calls.
    pub calls: Vec<Call>,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// Which way the data goes.
    pub way: Way,
    /// The homes, with a modem each.
    pub homes: Vec<Home>,
    /// How frames enter and leave the limiters; `None` chooses the best that works.
    pub mode: Option<Mode>,
    /// Rate of the link that the modems share, by frames.
    pub shared: Rate,
    /// Rate from which limiters borrow.
    pub lent: Rate,
    /// Packets that a modem's FIFO holds.
    pub fifo: u32,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Length of the run.
    pub duration: Duration,
    /// Its beginning, which is not measured.
    pub warmup: Duration,
}

/// What came of one modem.
#[derive(Clone, Debug, Default)]
pub struct ModemResult {
    /// Throughput of transfers in each second, in bit/s.
    pub bins_bps: Vec<f64>,
    /// Round trips of pings beside the transfers, in milliseconds.
    pub pings_ms: Vec<f64>,
    /// Round trips of the datagrams of each call, in milliseconds.
    pub calls_ms: Vec<Vec<f64>>,
    /// Its connections, in order.
    pub connections: Vec<ConnectionResult>,
    /// The limiter's link.
    pub link: LinkSummary,
    /// Its samples.
    pub samples: Vec<LinkSample>,
    /// Moves of its set point.
    pub events: Vec<SteeringEvent>,
    /// How frames entered and left the limiter.
    pub ports: String,
    /// Share of the time in which the limiter's loop, or that of the path's delay, was not called: the larger
    /// of both.
    pub stalled_share: f64,
    /// What is to be known of the limiter's run.
    pub warnings: Vec<String>,
}

/// What came of one connection, or of those that followed each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionResult {
    /// Bytes received in the measured part.
    pub bytes: u64,
    /// Transfers completed over the whole run, and the time that they took.
    pub completed: u64,
    /// Seconds that completed transfers took.
    pub busy_s: f64,
    /// Segments that the sender's kernel sent again, over the whole run.
    pub retransmits: u64,
    /// Smoothed round-trip time at the ends of the connections, mean, in milliseconds.
    pub rtt_ms: f64,
}

/// Runs it with the right to measure that `turn` gives (`exclusive`, or runs side by side). `watch` is told
/// about ten times a second; what was measured until it breaks off is returned.
pub fn run(
    config: &AccessConfig,
    turn: impl FnOnce() -> Result<Exclusive>,
    watch: &mut dyn Follow,
) -> Result<Vec<ModemResult>> {
    let modems = config.homes.len() as u32;
    if !(1..=wires::MODEMS_MAX).contains(&modems) {
        let remedy = format!("choose 1 to {}", wires::MODEMS_MAX);
        return Err(Error::invalid(format!("{modems} modems cannot be had"), remedy));
    }
    for home in &config.homes {
        let asked = home.connections.iter().map(|c| c.machine).chain(home.calls.iter().map(|c| c.machine));
        let most = asked.max().map_or(1, |last| last + 1);
        if !(most..=wires::MACHINES_MAX).contains(&home.machines) {
            let remedy = format!("choose {most} to {}", wires::MACHINES_MAX);
            return Err(Error::invalid(
                format!("{} machines of a home cannot be had", home.machines),
                remedy,
            ));
        }
    }
    netns::require_root(netns::LAB)?;
    let _turn = turn()?;
    netns::clean_stale()?;
    let machines: Vec<u32> = config.homes.iter().map(|home| home.machines).collect();
    let wires = Wires::new(&machines, config.way, config.shared, config.fifo)?;
    let mut delay = LoopThread::start(&wires.delay, delay(config))?;
    let mut limiters = Vec::new();
    for ((namespace, home), class) in wires.limiters.iter().zip(0..).zip(classes(config)) {
        limiters.push(LoopThread::start(namespace, limiter(config, home, class))?);
    }
    let traffic = Traffic::start(&wires, config)?;
    let mut results = measure(config, &traffic, &mut limiters, watch);
    let connections = traffic.finish();
    let delayed = delay.finish()?.host.stalled_share;
    for ((result, limiter), connections) in results.iter_mut().zip(&mut limiters).zip(connections) {
        let outcome = limiter.finish()?;
        collect(limiter, result);
        [result.link, _] = outcome.links;
        result.ports = outcome.mode.to_string();
        result.stalled_share = outcome.host.stalled_share.max(delayed);
        result.warnings = outcome.warnings;
        for (told, counted) in result.connections.iter_mut().zip(connections) {
            // What was received is that of the measured part.
            *told = ConnectionResult { bytes: told.bytes, ..counted };
        }
    }
    Ok(results)
}

/// Takes what a limiter told.
fn collect(limiter: &mut LoopThread, result: &mut ModemResult) {
    result.samples.extend(limiter.handle().samples(0));
    result.events.extend(limiter.handle().events());
}

/// Lets time pass and counts.
fn measure(
    config: &AccessConfig,
    traffic: &Traffic,
    limiters: &mut [LoopThread],
    watch: &mut dyn Follow,
) -> Vec<ModemResult> {
    let start = Instant::now();
    let (from, end) = (start + config.warmup, start + config.duration);
    let length_s = config.duration.as_secs_f64();
    let mut results = vec![ModemResult::default(); config.homes.len()];
    let (mut due, mut counts) = (from, Vec::new());
    let names: Vec<String> = (0..limiters.len()).map(|home| format!("home {home}")).collect();
    loop {
        let now = Instant::now();
        if now >= due {
            due += BIN;
            counts.push((now, traffic.received()));
        }
        let moved = results.first().map_or(0, |first| first.events.len());
        let seen: Vec<usize> = results.iter().map(|result| result.samples.len()).collect();
        results.iter_mut().zip(&mut *limiters).for_each(|(result, limiter)| collect(limiter, result));
        let (samples, events) = (&results[0].samples[seen[0]..], &results[0].events[moved..]);
        let t_s = now.duration_since(start).as_secs_f64();
        let new: Vec<&[LinkSample]> = results.iter().zip(seen).map(|(r, seen)| &r.samples[seen..]).collect();
        let progress = Progress { t_s, length_s, samples, events };
        if now >= end || watch.look(progress, &mut playing(limiters, &names, &new)).is_break() {
            break;
        }
        watch.pass(LOOK.min(end.saturating_duration_since(now)), &mut playing(limiters, &names, &[]));
    }
    for (home, result) in results.iter_mut().enumerate() {
        result.bins_bps = bins(&counts, home);
        result.connections = connections(&counts, home, config.homes[home].connections.len());
        result.pings_ms = traffic.pings(home, from, end);
        let calls = 0..config.homes[home].calls.len();
        result.calls_ms = calls.map(|call| traffic.call(home, call, from, end)).collect();
    }
    results
}

/// What was received up to a moment, by home and connection.
type Counted = (Instant, Vec<Vec<u64>>);

/// The limiters for who follows the run, with what they told.
fn playing<'a>(
    limiters: &'a mut [LoopThread],
    names: &'a [String],
    new: &[&'a [LinkSample]],
) -> Vec<Playing<'a>> {
    let limiters = limiters.iter_mut().zip(names).enumerate();
    let playing = limiters.map(|(home, (limiter, name))| Playing {
        handle: limiter.handle(),
        names: [Some(name.as_str()), None],
        samples: [new.get(home).copied().unwrap_or_default(), &[]],
    });
    playing.collect()
}

/// Throughput of a home between the moments, in bit/s.
fn bins(counts: &[Counted], home: usize) -> Vec<f64> {
    let received = |(_, of): &Counted| of[home].iter().sum::<u64>();
    let bin = |pair: &[Counted]| {
        let span = pair[1].0.duration_since(pair[0].0).as_secs_f64();
        (received(&pair[1]) - received(&pair[0])) as f64 * 8.0 / span
    };
    counts.windows(2).map(bin).collect()
}

/// What each connection of a home received from the first moment to the last.
fn connections(counts: &[Counted], home: usize, count: usize) -> Vec<ConnectionResult> {
    let received = |n: usize| match (counts.first(), counts.last()) {
        (Some((_, first)), Some((_, last))) => last[home][n] - first[home][n],
        _ => 0,
    };
    (0..count).map(|n| ConnectionResult { bytes: received(n), ..ConnectionResult::default() }).collect()
}

/// What all loops here have in common: they sleep, as there are more of them than processors.
fn setup(directions: [DirectionSetup; 2], config: &AccessConfig) -> Setup {
    Setup {
        mode: config.mode,
        // Kernel queues stand between these links, and their time goes on.
        stands_still: false,
        warmup: config.warmup.into(),
        ..Setup::in_namespace(netns::PORTS, directions)
    }
}

fn delay(config: &AccessConfig) -> Setup {
    let half = Channel { delay: (config.rtt / 2).into(), ..Channel::unshaped() };
    setup(["up", "down"].map(|name| DirectionSetup::new(name, half.clone())), config)
}

/// The class of each limiter, of those that borrow from each other.
fn classes(config: &AccessConfig) -> Vec<Option<Class>> {
    let rates = |home: &Home| Some((home.committed?, home.limiter.a_to_b.link.rate?));
    let of: Vec<Option<(Rate, Rate)>> = config.homes.iter().map(rates).collect();
    let borrowing: Vec<(Rate, Rate)> = of.iter().copied().flatten().collect();
    let mut classes = Class::siblings(config.lent, &borrowing).into_iter();
    of.iter().map(|rates| rates.and_then(|_| classes.next())).collect()
}

fn limiter(config: &AccessConfig, home: u32, class: Option<Class>) -> Setup {
    let Home { limiter, expedites, .. } = &config.homes[home as usize];
    let RunConfig { a_to_b, b_to_a, mut sense, .. } = limiter.clone();
    let (there, back) = match config.way {
        Way::Upload => ("upload", "download"),
        Way::Download => ("download", "upload"),
    };
    if let (Way::Download, Some(sense)) = (config.way, sense.first_mut()) {
        // Data comes from the server, whose address does not lead back through this limiter.
        sense.address = sense.address.or_else(|| gateway_address(home).parse().ok());
    }
    let expedites = *expedites || !sense.is_empty();
    let managed = DirectionSetup { expedites, class, ..DirectionSetup::new(there, a_to_b) };
    Setup { sense, ..setup([managed, DirectionSetup::new(back, b_to_a)], config) }
}
