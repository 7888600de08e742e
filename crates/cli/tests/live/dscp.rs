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
    let got = to.drain(Duration::from_millis(200));
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
        let weir = Weir::start(testbed.bottleneck(), &config);
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
