//! IP packets of both families, as rules and routers need them.

use etherparse::PacketBuilder;
use weir_wire::checksum::{finish, pseudo, sum};
use weir_wire::icmp::{Error, may_tell_errors, quoted, write_error};
use weir_wire::ip::{self, Fragment, Header};
use weir_wire::nd::{self, NoMessage};

fn udp4(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [192, 0, 2, 9], 64).udp(4000, 53);
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn tcp6(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(4000, 443, 1, 1000);
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// A packet with an extension header of eight bytes in front of its protocol.
fn with_extension(mut packet: Vec<u8>, kind: u8, rest: [u8; 7]) -> Vec<u8> {
    let protocol = packet[6];
    packet.splice(40..40, [&[protocol][..], &rest].concat());
    packet[6] = kind;
    packet[5] += 8;
    packet
}

#[test]
fn packets_are_read() {
    let found = Header::read(&udp4(b"question")).unwrap();
    assert_eq!((found.source, found.destination), (0x0a00_0001, 0xc000_0209));
    assert_eq!((found.protocol, found.ports, found.hops, found.len), (17, Some((4000, 53)), 64, 36));
    assert_eq!(Header::read_usual(&udp4(b"question")), Some(found));
    assert_eq!(Header::read_usual(&tcp6(b"x")), None);
    let found = Header::read(&tcp6(b"x")).unwrap();
    assert_eq!((found.source, found.ports, found.len), (u128::from_be_bytes([1; 16]), Some((4000, 443)), 61));
    let behind_options = with_extension(tcp6(b"x"), 60, [0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(Header::read(&behind_options).map(|p| (p.protocol, p.ports)), Some((6, Some((4000, 443)))));
}

#[test]
fn what_follows_the_header_of_a_later_fragment_is_data() {
    let later = with_extension(tcp6(b"x"), 44, [0, 0, 8, 0, 0, 0, 0]);
    let found = Header::read(&later).unwrap();
    assert_eq!((found.protocol, found.ports, found.fragment), (6, None, Fragment::Later));
    // By its fragment header the packet goes on with options, which are in the first fragment.
    let mut options = later.clone();
    options[40] = 60;
    options[48..50].copy_from_slice(&[17, 255]);
    let found = Header::read(&options).unwrap();
    assert_eq!((found.protocol, found.transport, found.fragment), (60, 48, Fragment::Later));
    let mut fragment = udp4(b"question");
    fragment[7] = 1;
    assert_eq!(Header::read(&fragment).unwrap().ports, None);
}

#[test]
fn whatever_contradicts_itself_is_nothing() {
    for packet in [udp4(b"question"), tcp6(b"question")] {
        assert!((0..packet.len()).all(|len| Header::read(&packet[..len]).is_none()));
        for at in 0..packet.len() {
            for value in 0..=255 {
                let mut packet = packet.clone();
                packet[at] = value;
                if let Some(found) = Header::read(&packet) {
                    let _ = (found.spi(&packet), may_tell_errors(&found, &packet), quoted(&packet));
                }
                let at_once = Header::read_usual(&packet);
                assert!(at_once.is_none() || at_once == Header::read(&packet), "{packet:?}");
            }
        }
    }
}

#[test]
fn a_hop_less_and_a_mark_keep_the_checksum() {
    for hops in 1..=255 {
        let mut packet = udp4(b"");
        packet[8] = hops;
        packet[10..12].fill(0);
        let right = finish(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&right.to_be_bytes());
        ip::take_hop(false, &mut packet);
        assert_eq!((finish(sum(&packet[..20])), packet[8]), (0, hops - 1));
        ip::mark(&mut packet);
        assert_eq!((finish(sum(&packet[..20])), packet[1]), (0, 3));
    }
    let mut packet = tcp6(b"");
    ip::take_hop(true, &mut packet);
    ip::mark(&mut packet);
    assert_eq!((packet[7], packet[1]), (63, 0x30));
}

#[test]
fn errors_are_told_to_senders_with_right_checksums() {
    let mut out = [0; 1500];
    let about = udp4(&[7; 1400]);
    let len = write_error(&mut out, &about, Error::TooBig { most: 1456 }, 0x0a00_00fe).unwrap();
    let copy = out;
    let error = etherparse::SlicedPacket::from_ip(&copy[..len]).unwrap();
    let Some(etherparse::TransportSlice::Icmpv4(icmp)) = error.transport else { panic!("{error:?}") };
    assert_eq!(len, 576);
    assert_eq!((finish(sum(&out[..20])), finish(sum(icmp.slice()))), (0, 0));
    assert_eq!(
        (&out[16..20], &icmp.slice()[..2], &icmp.slice()[6..8]),
        (&about[12..16], &[3, 4][..], &[5, 176][..])
    );
    assert!(!may_tell_errors(&Header::read(&out[..len]).unwrap(), &out), "none of an error");
    let found = quoted(&out[..len]).unwrap();
    assert_eq!((found.packet, found.is_redirect), (&about[..548], false));
    let about = tcp6(&[7; 1400]);
    let len = write_error(&mut out, &about, Error::Expired, 5).unwrap();
    assert_eq!((len, out[40]), (1280, 3));
    assert_eq!(finish(pseudo(&out[8..40], 58, len - 40) + sum(&out[40..len])), 0);
    assert!(!may_tell_errors(&Header::read(&out[..len]).unwrap(), &out));
    assert_eq!(quoted(&out[..len]).map(|found| found.packet), Some(&about[..1232]));
}

#[test]
fn no_error_is_told_of_a_later_fragment_over_ipv4() {
    let mut fragment = udp4(&[7; 100]);
    assert!(may_tell_errors(&Header::read(&fragment).unwrap(), &fragment));
    fragment[7] = 1;
    assert!(!may_tell_errors(&Header::read(&fragment).unwrap(), &fragment));
}

#[test]
fn messages_of_neighbours_that_break_a_rule_are_told_apart_from_others() {
    let target = [0xfd; 16];
    let ask = nd::Message {
        source: [0x20; 16],
        destination: nd::solicited_group(target),
        kind: nd::Kind::Solicitation,
        target,
        mac: Some([2; 6]),
    };
    let written = |message: nd::Message, change: &dyn Fn(&mut [u8])| {
        let mut out = [0; nd::LEN];
        let len = message.write(&mut out).unwrap();
        change(&mut out[..len]);
        out[42..44].fill(0);
        let checksum = finish(pseudo(&out[8..40], 58, len - 40) + sum(&out[40..len]));
        out[42..44].copy_from_slice(&checksum.to_be_bytes());
        nd::Message::read(&out[..len])
    };
    assert_eq!(written(ask, &|_| {}), Ok(ask));
    assert_eq!(written(ask, &|out| out[40] = 128), Err(NoMessage::Other), "an echo");
    assert_eq!(written(ask, &|out| out[7] = 64), Err(NoMessage::Invalid), "from another link");
    assert_eq!(written(ask, &|out| out[41] = 1), Err(NoMessage::Invalid), "a code");
    assert_eq!(written(ask, &|out| out[48] = 0xff), Err(NoMessage::Invalid), "of a group");
    assert_eq!(written(ask, &|out| out[65] = 0), Err(NoMessage::Invalid), "an option without length");
    assert_eq!(written(ask, &|out| out[65] = 2), Err(NoMessage::Invalid), "an option that is cut");
    assert_eq!(
        written(ask, &|out| out[8..24].fill(0)),
        Err(NoMessage::Invalid),
        "from nobody, with an interface"
    );
    let probe = nd::Message { source: [0; 16], mac: None, ..ask };
    assert_eq!(written(probe, &|_| {}), Ok(probe), "duplicate address detection");
}
