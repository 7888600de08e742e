//! A radio cell with phones, and a bump in the wire before it: the queue that fills is the base station's.
//!
//! ```text
//!   server ---- [a] core [b] ---- [a] cell [b] ---- phones
//! ```
//!
//! The testbed of the article on virtual AQM. In the cell each phone has a FIFO of its own that nobody
//! manages, and they take turns on a radio link that follows a trace. Phones are addresses of one end host.
//! All but the first download without end; the first loads a page and an image again and again, by TCP or by
//! QUIC.

mod load;
pub mod mobile;

use crate::error::{Error, Result};
use crate::exclusive::Exclusive;
use crate::loop_thread::LoopThread;
use crate::netns::{self, Testbed, TestbedConfig};
use load::Load;
use std::time::{Duration, Instant};
use weir_config::{RunConfig, Variation};
use weir_dataplane::{DirectionSetup, Impairments, Outcome, Setup};
use weir_measure::result::LinkSummary;

/// Most phones.
pub const PHONES_MAX: u32 = 16;
/// How often the sending kernel is asked for round-trip times.
const PERIOD: Duration = Duration::from_millis(50);

/// How the first phone loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadBy {
    /// The kernel's TCP.
    Tcp,
    /// QUIC, which sets the spin bit.
    Quic,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct CellConfig {
    /// Number of phones, the one that loads pages among them.
    pub phones: u32,
    /// How that one does.
    pub by: LoadBy,
    /// Configuration of the bump in the wire, as for `weir run`; the cell is at port `b`.
    pub core: RunConfig,
    /// The same of the base station.
    pub cell: RunConfig,
    /// How its radio link varies.
    pub radio: Variation,
    /// Length of the run.
    pub duration: Duration,
    /// Its beginning, which is not measured.
    pub warmup: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct CellResult {
    /// Smoothed round-trip times of the first phone's senders while they sent, in milliseconds.
    pub rtts_ms: Vec<f64>,
    /// How long pages of 1 MB took, in seconds.
    pub pages_s: Vec<f64>,
    /// How long images of 16 MB took.
    pub images_s: Vec<f64>,
    /// What all phones received, in bit/s.
    pub goodput_bps: f64,
    /// Both boxes, towards the phones.
    pub links: Vec<LinkSummary>,
    /// The larger share of the time in which one of both loops did not turn.
    pub stalled_share: f64,
    /// Things a reader must know before believing the numbers.
    pub warnings: Vec<String>,
}

impl CellResult {
    /// Ends both loops, and adds what came of them and what was lost beside them.
    fn end(&mut self, loops: [&mut LoopThread; 2], testbed: &Testbed) -> Result<()> {
        for looping in loops {
            let Outcome { links: [towards_phones, _], host, warnings, .. } = looping.finish()?;
            self.links.push(towards_phones);
            self.stalled_share = self.stalled_share.max(host.stalled_share);
            self.warnings.extend(warnings);
        }
        self.warnings.extend(testbed.wire_losses()?.warning());
        Ok(())
    }
}

/// Runs it with the right to measure that `turn` gives (`exclusive`, or runs side by side). `go_on` is asked
/// about twenty times a second; what was measured until it says no is returned.
pub fn run(
    config: &CellConfig,
    turn: impl FnOnce() -> Result<Exclusive>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<CellResult> {
    let (_turn, testbed) = testbed(config.phones, 2, turn)?;
    let radio = Impairments { variation: config.radio.clone() };
    let mut core = LoopThread::start(&testbed.boxes()[0], setup("core", &config.core, None, config))?;
    let mut cell = LoopThread::start(&testbed.boxes()[1], setup("radio", &config.cell, Some(radio), config))?;
    let load = Load::start(&testbed, config.by)?;
    let mut result = measure(config, &load, go_on)?;
    drop(load);
    result.end([&mut core, &mut cell], &testbed)?;
    testbed.close()?;
    Ok(result)
}

/// Refuses whoever may not make network namespaces.
pub fn allowed() -> Result<()> {
    netns::require_root(netns::LAB)
}

/// Phones and boxes in a row before them, on a machine where nothing else measures while the first value
/// lives.
fn testbed(
    phones: u32,
    boxes: u32,
    turn: impl FnOnce() -> Result<Exclusive>,
) -> Result<(Exclusive, Testbed)> {
    if !(1..=PHONES_MAX).contains(&phones) {
        let remedy = format!("choose 1 to {PHONES_MAX}");
        return Err(Error::invalid(format!("{phones} phones cannot be had"), remedy));
    }
    allowed()?;
    let turn = turn()?;
    netns::clean_stale()?;
    let more_receivers = other_phones(phones).collect();
    let testbed = Testbed::new(TestbedConfig { boxes, more_receivers, ..TestbedConfig::default() })?;
    Ok((turn, testbed))
}

/// Addresses of all phones but the first, which has the receiver's.
fn other_phones(phones: u32) -> impl Iterator<Item = String> {
    (1..phones).map(|phone| format!("10.77.0.{}", 20 + phone))
}

/// Lets time pass and counts.
fn measure(config: &CellConfig, load: &Load, go_on: &mut dyn FnMut() -> bool) -> Result<CellResult> {
    let start = Instant::now();
    let (from, end) = (start + config.warmup, start + config.duration);
    let mut before = None;
    while Instant::now() < end && go_on() {
        std::thread::sleep(PERIOD.min(end.saturating_duration_since(Instant::now())));
        let now = Instant::now();
        if now >= from {
            before.get_or_insert((now, load.received()));
        }
        load.look(now >= from)?;
    }
    let now = Instant::now();
    let (since, earlier) = before.unwrap_or((now, load.received()));
    let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
    let goodput_bps = (load.received() - earlier) as f64 * 8.0 / seconds;
    Ok(CellResult { goodput_bps, ..load.result(from) })
}

/// Both loops sleep, as there are no more processors than loops.
fn setup(name: &str, boxed: &RunConfig, impairments: Option<Impairments>, config: &CellConfig) -> Setup {
    let there = DirectionSetup { impairments, ..DirectionSetup::new(name, boxed.a_to_b.clone()) };
    let back = DirectionSetup::new("back", boxed.b_to_a.clone());
    Setup { warmup: config.warmup.into(), ..Setup::in_namespace(netns::PORTS, [there, back]) }
}
