use super::*;
use etherparse::PacketBuilder;

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

#[test]
fn packets_are_read() {
    let found = read(&udp4(b"question")).unwrap();
    assert_eq!((found.source, found.destination), (0x0a00_0001, 0xc000_0209));
    assert_eq!((found.protocol, found.ports, found.hops, found.len), (17, Some((4000, 53)), 64, 36));
    assert_eq!(read_usual(&udp4(b"question")), Some(found));
    assert_eq!(read_usual(&tcp6(b"x")), None);
    let found = read(&tcp6(b"x")).unwrap();
    assert_eq!((found.source, found.ports, found.len), (u128::from_be_bytes([1; 16]), Some((4000, 443)), 61));
    // The same behind a header with destination options.
    let mut packet = tcp6(b"x");
    packet.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
    packet[6] = 60;
    packet[5] += 8;
    assert_eq!(read(&packet).map(|p| (p.protocol, p.ports)), Some((6, Some((4000, 443)))));
    // And behind one that says that this is a later fragment.
    packet[6] = 44;
    packet[42..44].copy_from_slice(&[0, 8]);
    assert_eq!(read(&packet).map(|p| (p.protocol, p.ports)), Some((6, None)));
    let mut fragment = udp4(b"question");
    fragment[7] = 1;
    assert_eq!(read(&fragment).unwrap().ports, None);
}

#[test]
fn whatever_contradicts_itself_is_nothing() {
    for packet in [udp4(b"question"), tcp6(b"question")] {
        assert!((0..packet.len()).all(|len| read(&packet[..len]).is_none()));
        for at in 0..packet.len() {
            for value in 0..=255 {
                let mut packet = packet.clone();
                packet[at] = value;
                if let Some(found) = read(&packet) {
                    let _ = (found.spi(&packet), found.tells_errors(&packet));
                }
                let at_once = read_usual(&packet);
                assert!(at_once.is_none() || at_once == read(&packet), "{packet:?}");
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
        take_hop(&mut packet);
        assert_eq!((finish(sum(&packet[..20])), packet[8]), (0, hops - 1));
        mark(&mut packet);
        assert_eq!((finish(sum(&packet[..20])), packet[1]), (0, 3));
    }
    let mut packet = tcp6(b"");
    take_hop(&mut packet);
    mark(&mut packet);
    assert_eq!((packet[7], packet[1]), (63, 0x30));
}

#[test]
fn errors_are_told_to_senders_with_right_checksums() {
    let mut out = [0; 1500];
    let about = udp4(&[7; 1400]);
    let len = write_error(&mut out, &about, Told::TooBig { most: 1456 }, 0x0a00_00fe).unwrap();
    let copy = out;
    let error = etherparse::SlicedPacket::from_ip(&copy[..len]).unwrap();
    let Some(etherparse::TransportSlice::Icmpv4(icmp)) = error.transport else { panic!("{error:?}") };
    assert_eq!(len, 576);
    assert_eq!((finish(sum(&out[..20])), finish(sum(icmp.slice()))), (0, 0));
    assert_eq!(
        (&out[16..20], &icmp.slice()[..2], &icmp.slice()[6..8]),
        (&about[12..16], &[3, 4][..], &[5, 176][..])
    );
    assert!(!read(&out[..len]).unwrap().tells_errors(&out), "none of an error");
    let about = tcp6(&[7; 1400]);
    let len = write_error(&mut out, &about, Told::Expired, 5).unwrap();
    assert_eq!((len, out[40]), (1280, 3));
    assert_eq!(icmp_v6_checksum(&out[..len]), 0);
    assert!(!read(&out[..len]).unwrap().tells_errors(&out));
}
