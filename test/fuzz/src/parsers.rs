//! Scripts for everything that reads what others have written.

use crate::bytes::Script;
use std::collections::BTreeSet;
use weir_config::{RunConfig, Scenario, Trace, UpfConfig};
use weir_dataplane::rewritten_journal;
use weir_sense::bottleneck::{FollowConfig, Follower};
use weir_sense::{Flows, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::frame::{Kind, complete_checksum, mark, read};
use weir_wire::transport;

const SCENARIOS: [&str; 4] = [
    include_str!("../../../data/scenarios/demo.toml"),
    include_str!("../../../data/scenarios/shared_access.toml"),
    include_str!("../../../data/scenarios/steering_figure8.toml"),
    include_str!("../../../data/scenarios/flow_smoke.toml"),
];

const CONFIGURATIONS: [&str; 1] = ["ports = { a = \"x\", b = \"y\" }\n[a_to_b]\nrate = \"20Mbit/s\"\n\
    [a_to_b.aqm]\nname = \"pie\"\n[b_to_a]\ndelay = \"5ms\"\n[b_to_a.queue]\ndiscipline = \"dualpi2\"\n"];

const UPF_CONFIGURATIONS: [&str; 1] =
    ["n3 = { port = \"x\", address = [\"192.0.2.1/24\", \"2001:db8::1/64\"] }\n\
    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"], hold = \"90s\" }\n\
    n6 = { port = \"y\", address = [\"198.51.100.1/24\"], gateway = [\"198.51.100.9\"] }\n\
    [[flows]]\nqfi = 5\naqm = { name = \"codel\" }\n[limits]\nsessions = 7\n"];

const JOURNALS: [&str; 1] =
    ["{\"pid\":7,\"started\":12,\"netns\":4026531840,\"netns_cookie\":1,\"records\":[\
    {\"interface\":{\"name\":\"a\",\"index\":3},\"change\":{\"Offload\":\"tx-checksumming\"}},\
    {\"interface\":{\"name\":\"b\",\"index\":4},\"change\":\"Up\"},\
    {\"interface\":{\"name\":\"b\",\"index\":4},\"change\":{\"Programs\":{\"created_clsact\":true}}}]}"];

/// Half of the scripts are texts themselves, the others say what is cut out of a good one and put in.
pub(crate) fn text(bytes: &[u8], good: &[&str]) -> Vec<u8> {
    let mut script = Script::new(bytes);
    let choice = usize::from(script.byte_or_zero());
    if choice % 2 == 0 {
        return script.rest().to_vec();
    }
    let mut text = good[choice / 2 % good.len()].as_bytes().to_vec();
    while let Some(cut) = script.byte() {
        let at = usize::from(script.number()) % (text.len() + 1);
        let end = (at + usize::from(cut % 16)).min(text.len());
        let length = usize::from(cut / 16);
        text.splice(at..end, script.some(length).iter().copied());
    }
    text
}

pub(crate) fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// What is read as a scenario prints as itself; a refusal says something.
pub fn scenario(bytes: &[u8]) {
    let text = utf8(text(bytes, &SCENARIOS));
    match Scenario::parse("fuzz.toml", &text) {
        Ok(scenario) => {
            let printed = scenario.to_toml();
            let again =
                Scenario::parse("printed.toml", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again, scenario, "{printed}");
            let groups: BTreeSet<usize> = scenario.network().routes.iter().map(|route| route.group).collect();
            assert_eq!(groups.len(), scenario.flows.len());
        }
        Err(errors) => assert!(errors.count() > 0 && !errors.to_string().is_empty()),
    }
}

/// The same for a configuration of `weir run`.
pub fn configuration(bytes: &[u8]) {
    let text = utf8(text(bytes, &CONFIGURATIONS));
    match RunConfig::parse("fuzz.toml", &text) {
        Ok(config) => assert_eq!(RunConfig::parse("printed.toml", &config.to_toml()).as_ref(), Ok(&config)),
        Err(errors) => assert!(errors.count() > 0 && !errors.to_string().is_empty()),
    }
}

/// The same for a configuration of `weir upf`.
pub fn upf_configuration(bytes: &[u8]) {
    let text = utf8(text(bytes, &UPF_CONFIGURATIONS));
    match UpfConfig::parse("fuzz.toml", &text) {
        Ok(config) => assert_eq!(UpfConfig::parse("printed.toml", &config.to_toml()).as_ref(), Ok(&config)),
        Err(errors) => assert!(errors.count() > 0 && !errors.to_string().is_empty()),
    }
}

/// A trace has as many opportunities in a period as it says, in order, the last of them at its end.
pub fn trace(bytes: &[u8]) {
    let Ok(trace) = Trace::parse("fuzz.trace", &text(bytes, &["1\n3\n3\n7\n20\n"])) else { return };
    let (mut seen, mut last) = (0, weir_units::Duration::ZERO);
    for (at, count) in trace.opportunities().take_while(|(at, _)| *at <= trace.period()) {
        assert!(at >= last, "{at} after {last}");
        (seen, last) = (seen + u64::from(count), at);
    }
    assert!(seen >= trace.opportunities_in_period(), "{seen} opportunities in a period");
    assert!(trace.average_rate() > weir_units::Rate::ZERO);
}

/// Frames are read without a look beyond their end, and marked without a change of anything else.
pub fn frame(bytes: &[u8]) {
    let headers = read(bytes);
    let mut marked = bytes.to_vec();
    mark(&mut marked, headers.kind, headers.network);
    let again = read(&marked);
    assert_eq!((again.kind, again.network, again.flow), (headers.kind, headers.network, headers.flow));
    let changed = bytes.iter().zip(&marked).filter(|(a, b)| a != b).count();
    let most = match headers.kind {
        Kind::Ipv4 => 3,
        Kind::Ipv6 => 1,
        _ => 0,
    };
    assert!(changed <= most && marked.len() == bytes.len(), "a mark changed {changed} bytes");
    let is_ip = matches!(headers.kind, Kind::Ipv4 | Kind::Ipv6);
    assert!(!is_ip || again.ecn == weir_aqm::Ecn::Ce, "a marked packet reads as {:?}", again.ecn);
    let mut completed = bytes.to_vec();
    complete_checksum(&mut completed);
    assert!(completed.iter().zip(bytes).filter(|(a, b)| a != b).count() <= 2);
}

/// What is taken for a journal is written again as it is read.
pub fn journal(bytes: &[u8]) {
    match rewritten_journal(&text(bytes, &JOURNALS)) {
        Ok(written) => assert_eq!(rewritten_journal(&written).as_ref(), Ok(&written)),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Packets of both directions, whole and damaged, at any times: what is learned of them stays within bounds.
pub fn sensed(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let (mut flows, mut follower) =
        (Flows::<4>::default(), Follower::new(FollowConfig::default(), Time::ZERO));
    let (mut now, mut to_user) = (Time::ZERO, 0);
    while let Some(choice) = script.byte() {
        now += Duration::from_micros(u64::from(script.number()) << (choice >> 6 << 1));
        let way = if choice & 1 == 0 { Way::ToUser } else { Way::FromUser };
        let cut = usize::from(script.byte_or_zero());
        let packet = packet(choice, script.some(usize::from(choice >> 2 & 15)), cut);
        let Some(datagram) = transport::read(&packet) else { continue };
        assert!(datagram.len as usize <= packet.len(), "{} bytes of {}", datagram.len, packet.len());
        let len = datagram.len.max(1);
        let seen = flows.observe(now, way, u32::from(choice >> 1 & 7), len, &datagram.transport);
        to_user += if way == Way::ToUser { u64::from(len) } else { 0 };
        if let Some(rtt) = seen.rtt {
            assert!(rtt.rtt <= now.since(Time::ZERO), "a round trip that began before the start");
            follower.sample(now, rtt, seen.enters_mean);
        }
        if way == Way::ToUser {
            follower.forwarded(now, Bytes::new(u64::from(len)));
        }
        follower.look(now, choice & 2 == 0);
        assert!(follower.rate().is_none_or(|rate| rate > Rate::ZERO));
    }
    let coverage = flows.coverage();
    assert!(coverage.bytes == to_user && coverage.live <= coverage.bytes, "{coverage:?}");
}

/// An IPv4 packet with a TCP or UDP header that begins as the script says, with some of its bytes cut off.
fn packet(choice: u8, script: &[u8], cut: usize) -> Vec<u8> {
    let (protocol, header) = if choice & 32 == 0 { (6, 32) } else { (17, 8) };
    let total = 20 + header + script.len();
    let mut packet = vec![0u8; 20 + header];
    (packet[0], packet[2], packet[3], packet[9]) = (0x45, (total >> 8) as u8, total as u8, protocol);
    if protocol == 6 {
        (packet[32], packet[33]) = (0x80, 0x10);
        (packet[42], packet[43]) = (8, 10);
    } else {
        let length = header + script.len();
        (packet[24], packet[25]) = ((length >> 8) as u8, length as u8);
    }
    packet.extend(script);
    // What the script has also stands where numbers are: sequence, acknowledgement, timestamps.
    for (place, byte) in [24, 27, 28, 31, 44, 47, 48, 51].into_iter().zip(script) {
        if protocol == 6 {
            packet[place] ^= byte;
        }
    }
    if cut > 200 {
        packet.truncate(packet.len().saturating_sub(cut - 200));
    }
    packet
}
