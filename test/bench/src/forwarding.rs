//! How fast a bump in the wire that does not shape can be, beside testpmd that forwards without reading.

use crate::error::Result;
use crate::rows::{Row, all, median};
use crate::tools;
use crate::traffic::{self, Flood};
use crate::wire::{Interrupts, Manner, Testpmd, Weir, alone, channel};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_config::Channel;
use weir_lab::{Testbed, TestbedConfig};

const PART: &str = "forwarding";

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rounds; each measures everybody once.
    pub rounds: u32,
    /// Length of one measurement.
    pub seconds: u32,
}

/// Kinds of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// So many connections.
    Tcp(u32),
    /// The smallest frames, as many as go.
    Small,
}

const LOADS: [Load; 3] = [Load::Tcp(1), Load::Tcp(4), Load::Small];

impl Load {
    /// What it is called.
    pub fn name(self) -> String {
        match self {
            Load::Tcp(1) => "TCP, 1 flow".into(),
            Load::Tcp(n) => format!("TCP, {n} flows"),
            Load::Small => "64-byte frames".into(),
        }
    }

    /// What its values are in.
    pub fn unit(self) -> &'static str {
        match self {
            Load::Tcp(_) => "Gbit/s",
            Load::Small => "thousand/s",
        }
    }

    /// The setting of the ports that is best for this traffic, for both forwarders; see the peers' README.
    pub fn best_interrupts(self) -> Interrupts {
        match self {
            Load::Tcp(_) => Interrupts::Kernel,
            Load::Small => Interrupts::Deferred,
        }
    }

    /// The options of testpmd that are best for this traffic.
    fn best_testpmd(self) -> &'static [&'static str] {
        match self.best_interrupts() {
            Interrupts::Kernel => &[],
            Interrupts::Deferred => &["--defer-interrupts", "2"],
        }
    }
}

/// Who forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forwarder {
    Weir,
    Testpmd,
}

/// Values of one kind of traffic, by round.
#[derive(Default)]
struct Values {
    weir: Vec<f64>,
    testpmd: Vec<f64>,
    /// Weir's by testpmd's, of the rounds in which both forwarded.
    ratios: Vec<f64>,
}

impl Values {
    fn of(&mut self, forwarder: Forwarder) -> &mut Vec<f64> {
        match forwarder {
            Forwarder::Weir => &mut self.weir,
            Forwarder::Testpmd => &mut self.testpmd,
        }
    }
}

/// Measures everybody, in turns.
pub fn run(options: Options) -> Vec<Row> {
    let blast = match ready() {
        Ok(blast) => blast,
        Err(error) => return vec![Row::skipped(PART, "everything", error.to_string())],
    };
    let peer = tools::program("dpdk-testpmd").and_then(|_| tools::python());
    if let Err(error) = &peer {
        eprintln!("forwarding: NO PEER: {error}");
    }
    LOADS
        .into_iter()
        .flat_map(|load| compare(load, &turns(load, &blast, peer.is_ok(), options), &peer))
        .collect()
}

/// Measures everybody in turns, so that what else the machine does hits all alike. Whoever is first takes
/// turns as well.
fn turns(load: Load, blast: &Path, peer: bool, options: Options) -> Values {
    let mut values = Values::default();
    let forwarders = if peer { &[Forwarder::Weir, Forwarder::Testpmd][..] } else { &[Forwarder::Weir] };
    for round in 0..options.rounds {
        let mut order = forwarders.to_vec();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut both = [None; 2];
        for forwarder in order {
            match measure(forwarder, load, blast, options.seconds) {
                Ok(value) => {
                    eprintln!("forwarding: {}: round {round}: {forwarder:?} {value:.3}", load.name());
                    values.of(forwarder).push(value);
                    both[forwarder as usize] = Some(value);
                }
                Err(error) => eprintln!("forwarding: {}: {forwarder:?} FAILED: {error}", load.name()),
            }
        }
        if let [Some(weir), Some(testpmd)] = both {
            values.ratios.push(weir / testpmd);
        }
    }
    values
}

/// The sender of small frames, if everything that is needed is there.
pub fn ready() -> Result<PathBuf> {
    for tool in ["ip", "tc", "iperf3"] {
        tools::program(tool)?;
    }
    tools::peer("udp_blast")
}

fn measure(forwarder: Forwarder, load: Load, blast: &Path, seconds: u32) -> Result<f64> {
    let _alone = alone()?;
    // Receive work stays where the kernel puts it, for both.
    let testbed = Testbed::new(TestbedConfig::default())?;
    let value = match forwarder {
        Forwarder::Weir => {
            let forward = channel("aqm = { name = \"gsp\" }")?;
            let manner = Manner { realtime: false, interrupts: load.best_interrupts(), sense: None };
            let weir = Weir::start(&testbed, forward, Channel::unshaped(), manner)?;
            let value = offer(&testbed, load, blast, seconds);
            weir.finish()?;
            value
        }
        Forwarder::Testpmd => {
            let testpmd = Testpmd::start(&testbed, load.best_testpmd())?;
            let value = offer(&testbed, load, blast, seconds);
            testpmd.finish()?;
            value
        }
    };
    testbed.close()?;
    value
}

/// Offers the traffic for so many seconds; how much of it arrived.
pub fn offer(testbed: &Testbed, load: Load, blast: &Path, seconds: u32) -> Result<f64> {
    match load {
        Load::Tcp(flows) => traffic::tcp_gbps(testbed, flows, seconds),
        Load::Small => {
            let settle = Duration::from_millis(500);
            let flood = Flood::start(testbed, blast, 64, 0.0, f64::from(seconds) + 1.0)?;
            let (frames, _) = traffic::arriving(testbed, settle, Duration::from_secs(seconds.into()))?;
            flood.finish()?;
            Ok(frames / 1e3)
        }
    }
}

fn compare(load: Load, values: &Values, peer: &Result<PathBuf>) -> Vec<Row> {
    let Values { weir, testpmd, ratios } = values;
    let name = load.name();
    if weir.is_empty() {
        return vec![Row::failed(PART, name, "Weir did not forward; see the progress above")];
    }
    let row = |who: &str, values: &[f64]| {
        Row::told(PART, format!("{name}: {who}"), median(values), load.unit())
            .times(values.len() as u32)
            .note(format!("rounds: {}", all(values)))
    };
    let mut rows = vec![row("Weir with gsp", weir)];
    let what = format!("{name}: Weir / testpmd");
    if ratios.is_empty() {
        rows.push(match peer {
            Err(missing) => Row::skipped(PART, what, missing.to_string()),
            Ok(_) => Row::failed(PART, what, "testpmd did not forward beside Weir; see the progress above"),
        });
        return rows;
    }
    rows.push(row("testpmd", testpmd));
    // Rounds are compared one by one: what else the machine does changes more slowly.
    let ratio = Row::told(PART, what, median(ratios), "").at_least(1.0);
    let ratio = ratio.times(ratios.len() as u32).note(format!("rounds: {}", all(ratios)));
    let options = load.best_testpmd().join(" ");
    rows.push(ratio.beside(format!("testpmd, io {options}").trim().to_string()));
    rows
}
