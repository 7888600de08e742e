//! Frames of data beside the probe path while no probe is due and none comes back: what sensing costs every
//! packet.

use crate::error::{Error, Result};
use std::hint::black_box;
use weir_config::RunConfig;
use weir_dataplane::Rehearsal;
use weir_wire::ip::TCP;
use weir_wire::{ethernet, ipv4};

/// Most instructions of one packet, in a release build and in a development build.
pub const CEILING: f64 = 60.0;
pub const CEILING_DEV: f64 = 110.0;

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// To the gateway: they are counted, and probes could follow them.
    Out,
    /// From the gateway: they could be probes.
    In,
}

/// Both ways.
pub const WAYS: [Way; 2] = [Way::Out, Way::In];

/// Frames that the packet loop takes at once.
const BATCH: u64 = 64;

/// The name of a way on the command line; without one, the loop alone.
pub fn name(way: Option<Way>) -> &'static str {
    match way {
        Some(Way::Out) => "out",
        Some(Way::In) => "in",
        None => "none",
    }
}

/// A link whose packets get no probe: the budget is used up with the first.
const IDLE: &str = "[ports]\na = \"x\"\nb = \"y\"\n[a_to_b]\nrate = \"1Gbit/s\"\naqm = { name = \"codel\" }\n[sense]\nport = \
                    \"b\"\nrate_max = 1\n";

/// Lets so many packets pass.
pub fn run(way: &str, packets: u64) -> Result<()> {
    let config = RunConfig::parse("idle", IDLE).map_err(|e| Error::new(e.to_string()))?;
    let sense = config.sense.into_iter().next().ok_or_else(|| Error::new("nothing is sensed"))?;
    let mut path = Rehearsal::new(&sense, &data(), BATCH as usize)?;
    for _ in 0..packets / BATCH {
        match way {
            "out" => black_box(path.go_out()),
            "in" => black_box(path.come_in()),
            "none" => black_box(0),
            _ => return Err(Error::new("there is no such way")),
        };
    }
    Ok(())
}

/// A TCP segment of full size.
fn data() -> Vec<u8> {
    let mut frame = vec![0u8; 1514];
    let ethernet = ethernet::Header {
        destination: [2, 0, 0, 0, 0, 1],
        source: [2, 0, 0, 0, 0, 2],
        ethertype: ethernet::IPV4,
    };
    let ip =
        ipv4::Header { payload_len: 1480, protocol: TCP, ..ipv4::Header::new([10, 9, 0, 2], [192, 0, 2, 1]) };
    let at = ethernet.write(&mut frame).expect("there is room");
    ip.write(&mut frame[at..]).expect("there is room");
    frame
}
