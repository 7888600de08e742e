//! An access network with modems: the queue that fills is not the one that is managed.
//!
//! The testbed of the paper on Active Sense Queue Management. Each home uploads through a limiter of its own, where the
//! algorithm is, and a modem with a FIFO that nobody manages; the modems share a link. While the shared link is fast
//! enough the limiter is the bottleneck. When it is not, packets wait in the FIFO.

mod traffic;
mod wires;

use crate::error::{Error, Result};
use crate::exclusive::exclusive;
use crate::experiment::Looping;
use crate::host;
use crate::netns;
use std::time::{Duration, Instant};
use traffic::Traffic;
use weir_dataplane::{DirectionSetup, Setup};
use weir_scenario::result::LinkSummary;
use weir_scenario::{Channel, RunConfig};
use weir_units::Rate;
use wires::Wires;

/// Lengths of bins of throughput.
const BIN: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// Number of modems.
    pub modems: u32,
    /// Rate of the link that they share, by frames.
    pub shared: Rate,
    /// Packets that a modem's FIFO holds.
    pub fifo: u32,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Configuration of each limiter, as for `weir run`; the link is `a_to_b`, the gateway is at port `b`.
    pub limiter: RunConfig,
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
    /// Pages that the users sent, over the whole run.
    pub pages: u64,
    /// The limiter's upload.
    pub link: LinkSummary,
}

/// Runs it. One run measures at a time on a machine: `waiting` is called if this one has to wait for another.
/// `go_on` is asked about ten times a second with the time in seconds; what was measured until it says no is returned.
pub fn run(
    config: &AccessConfig,
    waiting: impl FnOnce(),
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Vec<ModemResult>> {
    if !(1..=wires::MODEMS_MAX).contains(&config.modems) {
        let remedy = format!("choose 1 to {}", wires::MODEMS_MAX);
        return Err(Error::invalid(format!("{} modems cannot be had", config.modems), remedy));
    }
    if !host::is_root() {
        return Err(Error::NotRoot { what: "a lab of network namespaces".into() });
    }
    let _alone = exclusive(waiting)?;
    netns::clean_stale()?;
    let wires = Wires::new(config.modems, config.shared, config.fifo)?;
    let delay = Looping::start(&wires.delay, delay(config))?;
    let limiters = wires.limiters.iter().map(|namespace| Looping::start(namespace, limiter(config)));
    let limiters: Vec<Looping> = limiters.collect::<Result<_>>()?;
    let traffic = Traffic::start(&wires)?;
    let results = measure(config, &traffic, go_on);
    drop(traffic);
    let results = limiters.into_iter().zip(results).map(|(mut limiter, result)| {
        let [link, _] = limiter.finish()?.links;
        Ok(ModemResult { link, ..result })
    });
    let results: Result<Vec<ModemResult>> = results.collect();
    drop(delay);
    results
}

/// Lets time pass and counts.
fn measure(config: &AccessConfig, traffic: &Traffic, go_on: &mut dyn FnMut(f64) -> bool) -> Vec<ModemResult> {
    let start = Instant::now();
    let (from, end) = (start + config.warmup, start + config.duration);
    let mut results = vec![ModemResult::default(); config.modems as usize];
    let (mut due, mut before) = (from, None);
    while Instant::now() < end && go_on(start.elapsed().as_secs_f64()) {
        std::thread::sleep(Duration::from_millis(100).min(end.saturating_duration_since(Instant::now())));
        let now = Instant::now();
        if now < due {
            continue;
        }
        let received = traffic.received();
        if let Some((then, earlier)) = before.replace((now, received.clone())) {
            let span = now.duration_since(then).as_secs_f64();
            for (result, (now, then)) in results.iter_mut().zip(received.iter().zip(earlier)) {
                result.bins_bps.push((now - then) as f64 * 8.0 / span);
            }
        }
        due += BIN;
    }
    for (home, result) in results.iter_mut().enumerate() {
        result.pings_ms = traffic.pings(home, from, end);
        result.pages = traffic.pages(home);
    }
    results
}

fn units(d: Duration) -> weir_units::Duration {
    weir_units::Duration::from_nanos(d.as_nanos() as u64)
}

/// What all loops here have in common: they sleep, as there are more of them than processors.
fn setup(directions: [DirectionSetup; 2], config: &AccessConfig) -> Setup {
    Setup {
        ports: [netns::PORT_A.into(), netns::PORT_B.into()],
        mode: None,
        directions,
        sense: None,
        fail_open_after: weir_units::Duration::from_millis(500),
        core: None,
        realtime: true,
        busy: false,
        // Kernel queues stand between these links, and their time goes on.
        stands_still: false,
        // The namespace goes away with everything in it.
        journal: false,
        sample: weir_units::Duration::from_millis(100),
        lead: weir_units::Duration::ZERO,
        warmup: units(config.warmup),
        duration: None,
    }
}

fn delay(config: &AccessConfig) -> Setup {
    let half = Channel { delay: units(config.rtt / 2), ..Channel::unshaped() };
    setup(["up", "down"].map(|name| DirectionSetup::new(name, half.clone())), config)
}

fn limiter(config: &AccessConfig) -> Setup {
    let RunConfig { a_to_b, b_to_a, sense, .. } = config.limiter.clone();
    let upload = DirectionSetup { expedites: sense.is_some(), ..DirectionSetup::new("upload", a_to_b) };
    Setup { sense, ..setup([upload, DirectionSetup::new("download", b_to_a)], config) }
}
