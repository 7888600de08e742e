//! The same cell behind a 5G core: packets reach the base station in tunnels, and a user-plane function
//! manages what waits there.
//!
//! ```text
//!                              session management
//!                                      | PFCP
//!   server -- [a] way [b] -- [a] user plane [b] -- GTP-U -- [a] tunnels [b] -- [a] radio [b] -- phones
//!                                                           `------ base station ------'
//! ```
//!
//! The picture of the article on virtual AQM with the user-plane function of the 5G core: each phone has a
//! session, which session management establishes over PFCP, and reports of usage come back over it at the
//! end. The base station takes packets out of tunnels and lets them wait in a deep FIFO before the radio
//! link.

mod function;
mod management;
mod station;

use super::load::Load;
use super::{CellConfig, CellResult, measure, other_phones, setup, testbed};
use crate::error::{Error, Result};
use crate::exclusive::Exclusive;
use crate::loop_thread::LoopThread;
use crate::netns::{self, address};
use crate::side::Side;
use function::Function;
use management::Management;
use station::Station;
use std::net::Ipv4Addr;
use weir_config::UpfConfig;
use weir_dataplane::Impairments;
use weir_upf::rules::{FlowUsage, PerDirection};

/// Where tunnels end at the user-plane function, and at the base station.
const N3: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// The user-plane function in the data network.
const N6: &str = "10.77.0.254/24";
/// Where PFCP is spoken: inside the namespace of the user-plane function.
const N4: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)];

/// What is run.
#[derive(Clone, Debug)]
pub struct MobileConfig {
    /// Phones, load and radio. Its `core` is the way between the server and the user-plane function.
    pub cell: CellConfig,
    /// How packets wait in the user-plane function, as tables and keys of `weir upf`'s configuration other
    /// than its ports and peers, such as `flow = { aqm = { name = "vaqm" } }`.
    pub waits: String,
    /// The aggregate of each session (AMBR), in kbit/s.
    pub ambr: PerDirection<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct MobileResult {
    /// What the end hosts saw.
    pub cell: CellResult,
    /// What the sessions did, in the order of the phones.
    pub sessions: Vec<SessionResult>,
    /// Packets that the base station's end of tunnels could not pass on: the machine was too slow.
    pub lost_in_station: u64,
}

/// What one session did.
#[derive(Clone, Debug, Default)]
pub struct SessionResult {
    /// Bytes of IP packets that the usage report at its end told.
    pub reported: PerDirection<u64>,
    /// Its queues at the end.
    pub flows: Vec<FlowUsage>,
}

impl MobileConfig {
    /// The user-plane function's configuration.
    pub fn upf(&self) -> Result<UpfConfig> {
        let [n3, _] = N3;
        let [own, peer] = N4;
        let text = format!(
            "{}\n[n3]\nport = \"{}\"\naddress = [\"{n3}/24\"]\n[n6]\nport = \"{}\"\naddress = [\"{N6}\"]\n\
             [n4]\naddress = \"{own}\"\npeers = [\"{peer}\"]\n",
            self.waits,
            netns::PORT_B,
            netns::PORT_A
        );
        let wrong = |e: weir_config::Errors| {
            Error::invalid(e.to_string(), "change how packets wait in the user-plane function")
        };
        UpfConfig::parse("the user-plane function of the lab", &text).map_err(wrong)
    }
}

/// Runs it with the right to measure that `turn` gives (`exclusive`, or runs side by side). `go_on` is asked
/// about twenty times a second; what was measured until it says no is returned.
pub fn run(
    config: &MobileConfig,
    turn: impl FnOnce() -> Result<Exclusive>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<MobileResult> {
    let cell = &config.cell;
    let upf = config.upf()?;
    let (_turn, testbed) = testbed(cell.phones, 4, turn)?;
    let [way, plane, tunnels, radio] = testbed.boxes() else { unreachable!("four boxes were asked for") };
    let first = address(Side::Receiver, false, false).to_string();
    let all = [first].into_iter().chain(other_phones(cell.phones));
    let phones: Vec<Ipv4Addr> = all.map(|own| own.parse().expect("the lab writes addresses")).collect();

    let mut looping = LoopThread::start(way, setup("way", &cell.core, None, cell))?;
    let impairments = Impairments { variation: cell.radio.clone() };
    let mut cell_loop = LoopThread::start(radio, setup("radio", &cell.cell, Some(impairments), cell))?;
    let station = Station::start(tunnels, plane, &phones)?;
    let mut function = Function::start(plane, upf)?;
    let mut management = Management::start(plane, &phones, config.ambr, &station)?;

    let load = Load::start(&testbed, cell.by)?;
    let mut result = MobileResult { cell: measure(cell, &load, go_on)?, ..MobileResult::default() };
    drop(load);
    // Numbers of sessions are the function's; it knows their queues, and the end of each tells what it used.
    let flows = function.flows(&management.seids())?;
    let reported = management.finish()?;
    result.sessions =
        flows.into_iter().zip(reported).map(|(flows, reported)| SessionResult { reported, flows }).collect();
    function.finish()?;
    result.lost_in_station = station.finish()?;
    result.cell.end([&mut looping, &mut cell_loop], &testbed)?;
    if result.lost_in_station > 0 {
        result.cell.warnings.push(format!(
            "the base station lost {} packets beside its queues: keep other programs away",
            result.lost_in_station
        ));
    }
    testbed.close()?;
    Ok(result)
}
