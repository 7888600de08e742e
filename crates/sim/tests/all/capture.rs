//! Captures, read by an independent parser.

use crate::common;

use common::{quiet, scenario};
use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use weir_sim::{PacketOutcome, Recorder};

/// The packets of a capture: time in ns, captured bytes, length, comment.
fn packets(capture: &[u8]) -> Vec<(u64, Vec<u8>, u32, String)> {
    let u32_at = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let u16_at = |at: usize| u16::from_le_bytes(capture[at..at + 2].try_into().unwrap());
    let (mut at, mut out) = (0, Vec::new());
    while at < capture.len() {
        let (kind, length) = (u32_at(at), u32_at(at + 4) as usize);
        assert_eq!((length % 4, u32_at(at + length - 4) as usize), (0, length));
        if kind == 6 {
            let time = u64::from(u32_at(at + 12)) << 32 | u64::from(u32_at(at + 16));
            let (there, original) = (u32_at(at + 20) as usize, u32_at(at + 24));
            let options = at + 28 + there.next_multiple_of(4);
            assert_eq!(u16_at(options), 1);
            let comment = &capture[options + 4..options + 4 + usize::from(u16_at(options + 2))];
            let comment = String::from_utf8(comment.to_vec()).unwrap();
            out.push((time, capture[at + 28..at + 28 + there].to_vec(), original, comment));
        }
        at += length;
    }
    out
}

fn checksums_hold(bytes: &[u8], length: u32) {
    let mut whole = bytes.to_vec();
    whole.resize(length as usize, 0);
    let parsed = PacketHeaders::from_ip_slice(&whole).unwrap();
    let payload = parsed.payload.slice();
    match (parsed.net.unwrap(), parsed.transport.unwrap()) {
        (NetHeaders::Ipv4(ip, _), TransportHeader::Tcp(tcp)) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap());
        }
        (NetHeaders::Ipv6(ip, _), TransportHeader::Tcp(tcp)) => {
            assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, payload).unwrap());
        }
        (NetHeaders::Ipv4(ip, _), TransportHeader::Udp(udp)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv4(&ip, payload).unwrap());
        }
        other => panic!("{other:?}"),
    }
}

/// The capture of a whole run.
fn captured(text: &str) -> Vec<(u64, Vec<u8>, u32, String)> {
    let scenario = scenario(text);
    let record = scenario.record.clone().unwrap();
    let recorder = Recorder::new(&scenario, &record, Some(Vec::new())).unwrap();
    let go_on = &mut |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
    let (_, recorder) = weir_sim::run_with(&scenario, 1, recorder, go_on).unwrap();
    packets(&recorder.finish().unwrap().1.unwrap())
}

/// Queues take the flows of a table for one pair of hosts; a capture gives each a pair of addresses.
#[test]
fn each_flow_of_a_table_has_addresses_of_its_own() {
    let flows = "[[flows]]\ncount = 3\nwindow = \"30kB\"\n[record]\npcapng = true\n";
    let link = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n";
    let mut pairs = std::collections::BTreeSet::new();
    for (_, bytes, length, _) in captured(&quiet(link, flows, "1s")) {
        let mut whole = bytes;
        whole.resize(length as usize, 0);
        let Some(NetHeaders::Ipv4(ip, _)) = PacketHeaders::from_ip_slice(&whole).unwrap().net else {
            panic!("no IPv4")
        };
        pairs.insert((ip.source, ip.destination));
    }
    assert_eq!(pairs.len(), 3, "{pairs:?}");
    let senders: std::collections::BTreeSet<_> = pairs.iter().map(|pair| pair.0).collect();
    let receivers: std::collections::BTreeSet<_> = pairs.iter().map(|pair| pair.1).collect();
    assert_eq!((senders.len(), receivers.len()), (3, 3));
}

/// A reader takes the window of a packet times the scale of the SYN-ACK.
#[test]
fn windows_are_what_the_handshake_says() {
    let flows =
        "[[flows]]\ndirection = \"reverse\"\nhandshake = true\nwindow = \"30kB\"\n[record]\npcapng = true\n";
    let link = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n";
    let mut scale = None;
    let mut windows = Vec::new();
    for (_, bytes, length, _) in captured(&quiet(link, flows, "1s")) {
        let mut whole = bytes;
        whole.resize(length as usize, 0);
        let Some(TransportHeader::Tcp(tcp)) = PacketHeaders::from_ip_slice(&whole).unwrap().transport else {
            panic!("no TCP")
        };
        let shift = tcp.options_iterator().find_map(|option| match option {
            Ok(etherparse::TcpOptionElement::WindowScale(shift)) => Some(shift),
            _ => None,
        });
        match shift {
            Some(shift) => scale = Some((tcp.syn, shift)),
            None => windows.push(u64::from(tcp.window_size) << scale.expect("the SYN comes first").1),
        }
    }
    assert_eq!(scale, Some((true, 0)));
    assert!(!windows.is_empty() && windows.iter().all(|w| (20_000..=30_000).contains(w)), "{windows:?}");
}

#[test]
fn calls_games_and_real_time_video_are_datagrams() {
    let flows =
        "[[flows]]\nvoice = {}\n[[flows]]\ngame = {}\n[[flows]]\nrealtime = {}\n[record]\npcapng = true\n";
    let link = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n";
    let packets = captured(&quiet(link, flows, "1s"));
    assert!(packets.len() > 100, "{}", packets.len());
    let mut sizes = std::collections::BTreeSet::new();
    for (_, bytes, length, _) in packets {
        let mut whole = bytes;
        whole.resize(length as usize, 0);
        let Some(TransportHeader::Udp(udp)) = PacketHeaders::from_ip_slice(&whole).unwrap().transport else {
            panic!("no UDP")
        };
        sizes.insert(udp.length - 8);
    }
    // Of a call with its RTP header, of a game, and of video at most 1200 bytes.
    assert!(
        sizes.contains(&172) && sizes.contains(&130) && sizes.last().is_some_and(|most| *most <= 1200),
        "{sizes:?}"
    );
}

#[test]
fn where_nothing_is_lost_nothing_looks_lost() {
    let flows = "[[flows]]\ntransfer = \"20kB\"\nevery = \"500ms\"\n\
                 [[flows]]\ndirection = \"reverse\"\nwindow = \"30kB\"\n[record]\npcapng = true\n";
    let link = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n";
    let packets = captured(&quiet(link, flows, "3s"));
    assert!(packets.iter().all(|p| p.3.starts_with("forwarded")));
    let mut next = BTreeMap::new();
    let mut acks = 0;
    for (_, bytes, length, _) in packets {
        let mut whole = bytes;
        whole.resize(length as usize, 0);
        let parsed = PacketHeaders::from_ip_slice(&whole).unwrap();
        let Some(TransportHeader::Tcp(tcp)) = parsed.transport else { panic!("no TCP") };
        if tcp.source_port == 443 {
            // In bytes, as TCP has it.
            assert!((28_000..=30_000).contains(&tcp.window_size), "{}", tcp.window_size);
            acks += 1;
        } else {
            // Each transfer is a connection of its own, and begins at the beginning.
            let expected = next.entry(tcp.source_port).or_insert(1);
            assert_eq!(tcp.sequence_number, *expected, "port {}", tcp.source_port);
            *expected += 1448;
        }
    }
    assert!(acks > 100 && next.len() == 6, "{acks} acknowledgements, {} connections", next.len());
}

#[test]
fn a_capture_has_valid_packets_and_says_what_was_decided() {
    let flows = "[[flows]]\necn = true\n[[flows]]\nip = 6\n[[flows]]\nudp_rate = \"2Mbit/s\"\n\
                 [[flows]]\ndirection = \"reverse\"\nwindow = \"500kB\"\n\
                 [record]\ndecisions = true\npcapng = true\nfrom = \"1s\"\nto = \"4s\"\n";
    let link = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
    let scenario = scenario(&quiet(link, flows, "5s"));
    let record = scenario.record.clone().unwrap();
    let recorder = Recorder::new(&scenario, &record, Some(Vec::new())).unwrap();
    let go_on = &mut |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
    let (outcome, recorder) = weir_sim::run_with(&scenario, 1, recorder, go_on).unwrap();
    let (decisions, capture) = recorder.finish().unwrap();
    // A tap changes nothing.
    assert_eq!(outcome.trace_hash, weir_sim::run(&scenario, 1, go_on).unwrap().trace_hash);

    let packets = packets(&capture.unwrap());
    assert!(packets.len() > 3000, "{}", packets.len());
    assert!(packets.is_sorted_by(|a, b| a.0 <= b.0));
    assert!(packets.first().unwrap().0 >= 1_000_000_000 && packets.last().unwrap().0 < 4_000_000_000);
    for (_, bytes, length, comment) in &packets {
        checksums_hold(bytes, *length);
        assert!(comment.contains("waited") && comment.contains("count"), "{comment}");
    }
    let said = |what: &str| packets.iter().filter(|p| p.3.starts_with(what)).count();
    let decided = |want: fn(PacketOutcome) -> bool| decisions.iter().filter(|d| want(d.verdict)).count();
    assert_eq!(said("marked"), decided(|v| v == PacketOutcome::Marked));
    assert_eq!(said("dropped"), decided(|v| matches!(v, PacketOutcome::Dropped(_))));
    assert!(said("marked") > 0 && said("dropped") > 0);
    // CE on the wire where it was marked.
    let ce = |p: &&(u64, Vec<u8>, u32, String)| p.1[0] == 0x45 && p.1[1] & 3 == 3;
    assert_eq!(packets.iter().filter(ce).count(), said("marked"));
}

#[test]
fn a_record_ends_at_its_size() {
    let flows = "[[flows]]\n[record]\ndecisions = true\npcapng = true\nsize_max = \"100kB\"\n";
    let link = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
    let scenario = scenario(&quiet(link, flows, "5s"));
    let record = scenario.record.clone().unwrap();
    let recorder = Recorder::new(&scenario, &record, Some(Vec::new())).unwrap();
    let go_on = &mut |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
    let (_, recorder) = weir_sim::run_with(&scenario, 1, recorder, go_on).unwrap();
    let full_at = recorder.full_at().unwrap().as_nanos();
    let capture = recorder.finish().unwrap().1.unwrap();
    assert!((99_000..=100_000).contains(&capture.len()), "{}", capture.len());
    let last = packets(&capture).last().unwrap().0;
    assert!(last <= full_at && full_at < last + 10_000_000, "{last} {full_at}");
}
