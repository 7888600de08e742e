//! Round-trip times of TCP flows out of a capture taken near the sender, without help of the end hosts:
//! `cargo run -p weir-examples --example round_trip_times [CAPTURE.pcap]`.

use pcap_file::pcap::PcapReader;
use std::collections::BTreeMap;
use std::fs::File;
use weir_sense::{Flows, Way};
use weir_units::{Duration, Time};
use weir_wire::{ethernet, transport};

/// Two downloads of 100 kB over a path of 20 ms and a queue.
const DOWNLOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/download.pcap");

#[derive(Default)]
struct Times {
    least: Option<Duration>,
    most: Duration,
    samples: u32,
}

/// Runs the example.
pub fn main() {
    let named = std::env::args().skip(1).find(|argument| argument.ends_with(".pcap"));
    let path = named.unwrap_or(DOWNLOAD.into());
    let file = File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut capture = PcapReader::new(file).unwrap_or_else(|e| panic!("{path} is no pcap file: {e}"));
    // At most 16 flows at once are measured; more cost no more memory.
    let (mut flows, mut times) = (Flows::<16>::default(), BTreeMap::<(u16, u16), Times>::new());
    while let Some(packet) = capture.next_packet() {
        let packet = packet.unwrap_or_else(|e| panic!("{path} ends early: {e}"));
        let now = Time::from_nanos(packet.timestamp.as_nanos() as u64);
        // What the capture left out of long packets is data, which nobody reads here.
        let mut frame = packet.data.into_owned();
        frame.resize(packet.orig_len as usize, 0);
        let Ok(network) = ethernet::network(&frame) else { continue };
        let Some(datagram) = transport::read(&frame[network.offset..]) else { continue };
        // Data goes from the lower port to the higher one here.
        let (source, destination) = datagram.ports;
        let (ports, way) = if source > destination {
            ((source, destination), Way::FromUser)
        } else {
            ((destination, source), Way::ToUser)
        };
        let key = (u32::from(ports.0) << 16) | u32::from(ports.1);
        let seen = flows.observe(now, way, key, datagram.len, &datagram.transport);
        if let Some(rtt) = seen.rtt.filter(|rtt| !rtt.doubtful) {
            let times = times.entry(ports).or_default();
            times.least = Some(times.least.map_or(rtt.rtt, |least| least.min(rtt.rtt)));
            times.most = times.most.max(rtt.rtt);
            times.samples += 1;
        }
    }
    for ((higher, lower), Times { least, most, samples }) in &times {
        let least = least.unwrap_or_default();
        println!("ports {lower} to {higher}: {samples} samples, least {least}, most {most}");
        assert!(path != DOWNLOAD || least >= Duration::from_millis(20) && *most < Duration::from_millis(60));
    }
    assert!(path != DOWNLOAD || times.len() == 2, "two connections, both measured");
}
