//! Code points of packets that pass a run on live interfaces.
//!
//! These tests need root; without it they say so and pass.

use crate::common::{self, *};
use std::thread::sleep;
use std::time::Duration;

const MODES: [&str; 3] = ["xdp-native", "xdp-generic", "af_packet"];
const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]];

/// A UDP datagram with this octet of DSCP and ECN.
fn datagram(v6: bool, tags: &[u8], octet: u8) -> Vec<u8> {
    let mut ip = Vec::new();
    let builder = if v6 {
        let [from, to] = [1, 2].map(|n| std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, n).octets());
        etherparse::PacketBuilder::ipv6(from, to, 64)
    } else {
        etherparse::PacketBuilder::ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
    };
    builder.udp(5000, 5001).write(&mut ip, &[octet; 100]).unwrap();
    if v6 {
        // A flow label of all ones shows whether its bits stay.
        let word = 6 << 28 | u32::from(octet) << 20 | 0xf_ffff;
        ip[..4].copy_from_slice(&word.to_be_bytes());
    } else {
        ip[1] = octet;
        let header = etherparse::Ipv4HeaderSlice::from_slice(&ip).unwrap().to_header();
        ip[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
    let ethertype: &[u8] = if v6 { &[0x86, 0xdd] } else { &[8, 0] };
    [&DESTINATION[..], &SOURCE, tags, ethertype, &ip].concat()
}

/// Frames of all code points with all ECN fields, of both families, with and without tags, and frames that
/// have no code point; each with what is to come out, where `rule` says what becomes of a code point.
fn frames(rule: impl Fn(u8) -> u8) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut sent, mut wanted) = (Vec::new(), Vec::new());
    for tags in TAGS {
        for (v6, octet) in [false, true].into_iter().flat_map(|v6| (0..=255u8).map(move |octet| (v6, octet)))
        {
            let mut want = datagram(v6, tags, rule(octet >> 2) << 2 | octet & 3);
            // The payload tells what was sent, and the checksum of UDP is of it.
            let frame = datagram(v6, tags, octet);
            let transport = 14 + tags.len() + if v6 { 40 } else { 20 };
            want[transport..].copy_from_slice(&frame[transport..]);
            sent.push(frame);
            wanted.push(want);
        }
        // Neither a protocol of its own nor ARP has a code point.
        for ethertype in [[0x88, 0xb5], [8, 6]] {
            let other = [&DESTINATION[..], &SOURCE, tags, &ethertype, &[0xb8; 46]].concat();
            sent.push(other.clone());
            wanted.push(other);
        }
    }
    (sent, wanted)
}

fn pass(from: &Raw, to: &Raw, rule: impl Fn(u8) -> u8, what: &str) {
    let (sent, wanted) = frames(rule);
    to.drain(Duration::from_millis(1));
    for frame in &sent {
        from.send(frame);
        sleep(Duration::from_micros(50));
    }
    let got = to.take(wanted.len());
    for (n, (got, want)) in got.iter().zip(&wanted).enumerate() {
        assert!(got == want, "{what}: frame {n}\ngot  {got:02x?}\nwant {want:02x?}");
    }
    assert_eq!(got.len(), wanted.len(), "{what}: number of frames");
}

#[test]
fn code_points_are_washed_and_remarked_on_live_links_and_it_changes_while_packets_pass() {
    let Some(_turn) = turn_beside_others() else { return };
    for mode in MODES {
        let testbed = testbed();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        // One direction has a shaped queue, the other one has none.
        let config = format!(
            "{}[a_to_b]\nrate = \"900Mbit/s\"\naqm = {{ name = \"codel\" }}\ndscp = \"wash\"\n\
             remark = [{{ from = \"nqb\", to = \"nqb\" }}, {{ from = 46, to = \"af41\" }}]\n[b_to_a]\ndscp = 1\n",
            ports(mode)
        );
        let weir = Weir::start(testbed.bottleneck(), &patient(&config));
        let washed = |dscp| match dscp {
            45 => 45,
            46 => 34,
            _ => 0,
        };
        pass(&sender, &receiver, washed, &format!("{mode}, a to b"));
        pass(&receiver, &sender, |_| 1, &format!("{mode}, b to a"));
        let pid = weir.child.pid();
        let (code, told) = common::ctl(pid, &["set", "a_to_b.dscp=keep", "b_to_a.dscp=keep"]);
        assert_eq!(code, 0, "{told}");
        pass(&sender, &receiver, |dscp| if dscp == 46 { 34 } else { dscp }, &format!("{mode}, kept"));
        pass(&receiver, &sender, |dscp| dscp, &format!("{mode}, kept on the way back"));
        let (code, told) = common::ctl(pid, &["set", "a_to_b.dscp=64"]);
        assert!(code == 1 && told.to_string().contains("0 .. 63"), "{told}");
        let ended = weir.interrupt();
        assert_eq!((ended.code, ended.warnings()), (Some(0), vec![]), "{}", ended.stderr);
    }
}

/// A queue on a link of 400 kbit/s, and frames that all come while the first ones are sent, which takes
/// 61 ms; what leaves, in this order, without those, and what is told of the link. None, which is said, where
/// the frames could not be sent in time.
fn queued(mode: &str, queue: &str, frames: &[Vec<u8>]) -> Option<(Vec<Vec<u8>>, serde_json::Value)> {
    let aqm =
        if queue.contains("dualpi2") { "" } else { "aqm = { name = \"tail_drop\", limit = \"10s\" }\n" };
    let config = format!(
        "{}[a_to_b]\nrate = \"400kbit/s\"\nbuffer = \"5s\"\nqueue = {{ {queue} }}\n{aqm}",
        ports(mode)
    );
    let first = [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 1500]].concat();
    let first = [first.clone(), first];
    let in_time = Duration::from_millis(50);
    let (got, mut told) = sent_at_once(&config, &first, frames, in_time, first.len() + frames.len())?;
    let got: Vec<Vec<u8>> = got.into_iter().filter(|frame| frame[12..14] != [0x88, 0xb5]).collect();
    assert_eq!(got.len(), frames.len(), "{mode}, {queue}: all have room");
    Some((got, told["links"][0].take()))
}

/// The mode of a case by its number. Queues are the same in all modes, which take turns.
fn mode_of(case: usize) -> &'static str {
    MODES[case % MODES.len()]
}

/// The places at which frames of NQB came out.
fn places_of_nqb(got: &[Vec<u8>], v6: bool) -> Vec<usize> {
    let octet = |frame: &[u8]| if v6 { frame[14] << 4 | frame[15] >> 4 } else { frame[15] };
    got.iter().enumerate().filter(|(_, frame)| octet(frame) >> 2 == 45).map(|(place, _)| place).collect()
}

#[test]
fn frames_of_nqb_do_not_wait_behind_others_of_their_flow_or_user_and_get_no_more_than_these() {
    let Some(_turn) = turn_beside_others() else { return };
    for (n, (queue, order)) in [
        ("discipline = \"flow\"", "as they came"),
        ("discipline = \"user\"", "as they came"),
        ("discipline = \"dualpi2\", target = \"10s\"", "as they came"),
        ("discipline = \"flow\", nqb = true", "in turn"),
        ("discipline = \"user\", nqb = true", "in turn"),
        ("discipline = \"dualpi2\", target = \"10s\", nqb = true, classic_share = \"0%\"", "first"),
    ]
    .into_iter()
    .enumerate()
    {
        let (mode, v6) = (mode_of(n), n % 2 == 1);
        let plain = std::iter::repeat_n(datagram(v6, &[], 0), 20);
        let nqb = std::iter::repeat_n(datagram(v6, &[], 45 << 2), 8);
        let frames: Vec<Vec<u8>> = plain.chain(nqb).collect();
        let Some((got, told)) = queued(mode, queue, &frames) else { return };
        let places = places_of_nqb(&got, v6);
        let what = format!("{mode}, {queue}: {places:?}");
        assert_eq!(places.len(), 8, "{what}");
        // The frame that was being taken out when they came may have gone before.
        match order {
            "first" => assert!(places[0] <= 2 && places[7] == places[0] + 7, "{what}"),
            "in turn" => {
                assert!(places[0] <= 2 && places.windows(2).all(|two| two[1] - two[0] == 2), "{what}")
            }
            _ => assert_eq!(places, (20..28).collect::<Vec<_>>(), "{what}"),
        }
        assert!(told.get("sanctioned").is_none(), "{told}");
    }
}

#[test]
fn queue_protection_sends_frames_of_a_flow_that_builds_a_queue_where_others_wait() {
    let Some(_turn) = turn_beside_others() else { return };
    let frames = vec![datagram(false, &[], 45 << 2); 100];
    for (n, discipline) in ["\"flow\"", "\"user\"", "\"dualpi2\", target = \"10s\""].into_iter().enumerate() {
        let mode = mode_of(n);
        let lane = format!("discipline = {discipline}, nqb = true, nqb_buffer = \"1s\"");
        let Some((_, told)) = queued(mode, &lane, &frames) else { return };
        assert!(told.get("sanctioned").is_none(), "{told}");
        let Some((_, told)) = queued(mode, &format!("{lane}, protection = true"), &frames) else { return };
        // Two of the largest frames may wait in any case, which are 21 of these.
        let sanctioned = told["sanctioned"].as_u64().unwrap_or(0);
        assert!((20..80).contains(&sanctioned), "{mode}, {discipline}: {told}");
    }
}

/// A datagram between two hosts, of a flow of theirs.
fn between(from: u8, to: u8, flow: u16) -> Vec<u8> {
    let mut ip = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 77, 0, from], [10, 77, 0, to], 64);
    builder.udp(5000 + flow, 5001).write(&mut ip, &[0; 100]).unwrap();
    [&DESTINATION[..], &SOURCE, &[8, 0], &ip].concat()
}

#[test]
fn hosts_share_a_live_link_equally_whatever_the_number_of_their_flows() {
    let Some(_turn) = turn_beside_others() else { return };
    for (n, (queue, by_sender, equal)) in [
        ("ways = 8, fair_senders = true", true, true),
        ("ways = 8, fair_receivers = true", false, true),
        ("ways = 8, fair_receivers = true", true, false),
        ("ways = 8", true, false),
    ]
    .into_iter()
    .enumerate()
    {
        let mode = mode_of(n);
        // One host has one flow, the other nine; all have more to send than what is counted.
        let hosts = |host: u8| if by_sender { (host, 9) } else { (9, host) };
        let of = |host: u8, flow: u16| {
            let (from, to) = hosts(host);
            between(from, to, flow)
        };
        let one = std::iter::repeat_n(of(1, 0), 100);
        let nine = (0..20).flat_map(|_| (1..10).map(|flow| of(2, flow)));
        let frames: Vec<Vec<u8>> = nine.chain(one).collect();
        let config = format!("discipline = \"flow\", quantum = \"150B\", {queue}");
        let Some((got, _)) = queued(mode, &config, &frames) else { return };
        let at = if by_sender { 29 } else { 33 };
        let counted = got[5..105].iter().filter(|frame| frame[at] == 1).count();
        let want = if equal { 45..=55 } else { 8..=12 };
        assert!(want.contains(&counted), "{mode}, {queue}: {counted} of 100");
    }
}
