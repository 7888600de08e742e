//! What an observer reads of TCP and QUIC.

use etherparse::{PacketBuilder, TcpOptionElement};
use proptest::prelude::*;
use weir_wire::ip::{TCP, UDP};
use weir_wire::ipv6::EXTENSIONS_MAX;
use weir_wire::quic::{self, QuicPackets};
use weir_wire::tcp::{Segment, Stamps};
use weir_wire::transport::{Transport, read};

fn tcp4(options: &[TcpOptionElement], payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(443, 50_000, 0xffff_fff0, 1000)
        .ack(77)
        .options(options)
        .unwrap()
        .write(&mut packet, payload)
        .unwrap();
    packet
}

fn udp6(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(443, 50_000).write(&mut packet, payload).unwrap();
    packet
}

fn long(version: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4];
    packet.extend(version.to_be_bytes());
    packet.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let initial = (version == 1 && kind == 0) || (version != 1 && kind == 1);
    if initial {
        packet.extend([0x40, 3, 9, 9, 9]);
    }
    packet.extend([0x40, payload.len() as u8]);
    packet.extend(payload);
    packet
}

fn tcp_of(packet: &[u8]) -> Segment {
    match read(packet).unwrap().transport {
        Transport::Tcp(segment) => segment,
        other => panic!("{other:?}"),
    }
}

fn quic_of(payload: &[u8]) -> Transport {
    read(&udp6(payload)).unwrap().transport
}

#[test]
fn a_tcp_segment_is_read_with_its_options() {
    let options = [
        TcpOptionElement::Noop,
        TcpOptionElement::Noop,
        TcpOptionElement::Timestamp(5, 6),
        TcpOptionElement::SelectiveAcknowledgement((1, 2), [Some((3, 4)), None, None]),
    ];
    let packet = tcp4(&options, b"hello");
    let read = read(&packet).unwrap();
    assert_eq!((read.ports, read.len as usize), ((443, 50_000), packet.len()));
    let want = Segment {
        seq: 0xffff_fff0,
        ack: Some(77),
        len: 5,
        window: 1000,
        sacked: Some((1, 2)),
        stamps: Some(Stamps { value: 5, echo: 6 }),
        ..Segment::default()
    };
    assert_eq!(tcp_of(&packet), want);
    // Ethernet pads short frames: the length of the packet counts, not that of the frame.
    let mut padded = packet;
    padded.extend([0; 20]);
    assert_eq!(tcp_of(&padded), want);
}

#[test]
fn flags_say_what_takes_sequence_numbers() {
    let mut packet = tcp4(&[], b"ab");
    packet[33] = 0x02;
    let syn = tcp_of(&packet);
    assert_eq!((syn.syn, syn.ack, syn.span()), (true, None, 3));
    packet[33] = 0x11;
    let fin = tcp_of(&packet);
    assert_eq!((fin.fin, fin.ack, fin.span()), (true, Some(77), 3));
    packet[33] = 0x04;
    assert!(tcp_of(&packet).rst);
}

#[test]
fn options_that_lie_about_their_length_end_the_reading() {
    let good =
        tcp4(&[TcpOptionElement::Timestamp(5, 6), TcpOptionElement::Noop, TcpOptionElement::Noop], b"");
    for len in [0u8, 1, 9, 11, 40, 255] {
        let mut packet = good.clone();
        packet[41] = len;
        assert_eq!(tcp_of(&packet).stamps, None, "length {len}");
    }
    let mut ended = good;
    ended[40] = 0;
    assert_eq!(tcp_of(&ended).stamps, None);
}

#[test]
fn the_spin_bit_is_read_from_short_headers_only() {
    let spin = |spin| Transport::Quic(QuicPackets { spin: Some(spin), ..QuicPackets::default() });
    assert_eq!(quic_of(&[0x40, 1, 2]), spin(false));
    assert_eq!(quic_of(&[0x60, 1, 2]), spin(true));
    // Without the fixed bit it is not QUIC (RFC 9000 section 17.3).
    assert_eq!(quic_of(&[0x20, 1, 2]), Transport::Other);
    assert_eq!(quic_of(b""), Transport::Other);
}

#[test]
fn handshakes_are_found_in_both_versions_and_behind_other_packets() {
    for (version, initial, handshake) in [(1, 0, 2), (0x6b33_43cf, 1, 3)] {
        let first = long(version, initial, &[7; 30]);
        let both = [first.clone(), long(version, handshake, &[8; 50])].concat();
        let alone = QuicPackets { initial: true, ..QuicPackets::default() };
        assert_eq!(quic_of(&first), Transport::Quic(alone));
        assert_eq!(quic_of(&both), Transport::Quic(QuicPackets { handshake: true, ..alone }));
        // Bytes of padding behind the packet.
        let padded = [first, vec![0; 100]].concat();
        assert_eq!(quic_of(&padded), Transport::Quic(alone));
    }
    assert_eq!(quic_of(&long(0xff00_001d, 0, &[7; 30])), Transport::Other, "a draft");
    assert_eq!(quic_of(&long(0, 0, &[7; 30])), Transport::Other, "version negotiation");
}

#[test]
fn fragments_and_chains_of_extensions_show_no_transport() {
    let mut fragment = tcp4(&[], b"hello");
    fragment[6] = 0x20;
    assert_eq!(read(&fragment).unwrap().transport, Transport::Other);
    let segment = &tcp4(&[], b"hello")[20..];
    let with_headers = |headers: usize| {
        let mut chain: Vec<u8> = Vec::new();
        for n in 0..headers {
            chain.extend([if n + 1 == headers { 6 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
        }
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(((chain.len() + segment.len()) as u16).to_be_bytes());
        packet.extend([if headers == 0 { 6 } else { 60 }, 64]);
        packet.extend([1; 32]);
        packet.extend(chain);
        packet.extend(segment);
        packet
    };
    for headers in [0, 1, EXTENSIONS_MAX] {
        assert_eq!(tcp_of(&with_headers(headers)).len, 5, "{headers} extension headers");
    }
    assert_eq!(read(&with_headers(EXTENSIONS_MAX + 1)).unwrap().transport, Transport::Other);
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    let options = [TcpOptionElement::Timestamp(5, 6), TcpOptionElement::Noop, TcpOptionElement::Noop];
    let quic = [long(1, 0, &[7; 20]), long(1, 2, &[7; 20])].concat();
    for good in [tcp4(&options, b"hello"), udp6(&quic)] {
        for len in 0..good.len() {
            assert_eq!(read(&good[..len]), None, "cut to {len} of {} bytes", good.len());
        }
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut packet = good.clone();
                packet[at] = value;
                let _ = read(&packet);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0u8..3) {
        // Most random bytes are no IP at all: half of them get the start of a packet that is.
        if let Some(first) = bytes.first_mut() {
            *first = match version { 0 => 0x45, 1 => 0x60, _ => *first };
        }
        if bytes.len() > 10 && version == 0 {
            (bytes[2], bytes[3], bytes[6], bytes[7]) = (0, bytes.len() as u8, 0, 0);
            bytes[9] = if bytes[9] & 1 == 1 { TCP } else { UDP };
        }
        if let Some(datagram) = read(&bytes) {
            prop_assert!(datagram.len as usize <= bytes.len());
        }
    }

    #[test]
    fn quic_of_any_bytes_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut bytes = bytes;
        if bytes.len() > 5 {
            bytes[0] |= 0xc0;
            bytes[1..5].copy_from_slice(&1u32.to_be_bytes());
        }
        let _ = quic::read(&bytes);
    }
}
