//! What is written reads as the same, nothing is written beyond it, and a buffer that is a byte too short is
//! refused and left alone.

use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use weir_wire::gtpu::{self, Container, GPdu, Message, Way};
use weir_wire::tcp::{Options, Segment, Stamps, TcpOption};
use weir_wire::tunnel::{self, Encapsulation, Tunnelled};
use weir_wire::{TooShort, arp, ethernet, icmp, ipv4, ipv6, nd, tcp, udp, vlan};

/// Writes into a buffer that is longer than what is written, and into one that is too short.
fn written(write: impl Fn(&mut [u8]) -> Result<usize, TooShort>) -> Vec<u8> {
    let mut out = vec![0xa5; 200];
    let len = write(&mut out).unwrap();
    assert!(out[len..].iter().all(|byte| *byte == 0xa5), "written beyond {len} bytes");
    out.truncate(len);
    let mut short = vec![0xa5; len - 1];
    assert_eq!(write(&mut short), Err(TooShort));
    assert!(short.iter().all(|byte| *byte == 0xa5), "something was written");
    out
}

fn mac() -> impl Strategy<Value = [u8; 6]> {
    any::<[u8; 6]>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ethernet_and_tags(
        (destination, source, ethertype) in (mac(), mac(), any::<u16>()),
        (priority, drop_eligible, id) in (0u8..8, any::<bool>(), 0u16..4096),
    ) {
        let header = ethernet::Header { destination, source, ethertype };
        let bytes = written(|out| header.write(out));
        prop_assert_eq!(ethernet::Header::read(&bytes), Some(header));
        let mut back = bytes.clone();
        ethernet::reverse(&mut back);
        let turned = ethernet::Header { destination: source, source: destination, ethertype };
        prop_assert_eq!(ethernet::Header::read(&back), Some(turned));
        let tag = vlan::Tag { priority, drop_eligible, id, ethertype };
        let bytes = written(|out| tag.write(out));
        prop_assert_eq!(vlan::Tag::read(&bytes), Some(tag));
        for (count, types) in [(1, [vlan::CUSTOMER, 0]), (2, [vlan::SERVICE, vlan::CUSTOMER])] {
            let mut frame = [&[0; 12][..], &types[0].to_be_bytes()].concat();
            for number in 0..count {
                let ethertype = if number + 1 == count { ethernet::IPV6 } else { types[1] };
                frame.extend(written(|out| vlan::Tag { ethertype, ..tag }.write(out)));
            }
            let network = ethernet::Network { offset: 14 + 4 * count, ethertype: ethernet::IPV6 };
            prop_assert_eq!(ethernet::network(&frame), Ok(network));
            prop_assert_eq!(vlan::tags(&frame).map(|tag| tag.id).collect::<Vec<_>>(), vec![id; count]);
        }
    }

    #[test]
    fn ip_headers(
        (traffic_class, identification, hops, protocol) in any::<(u8, u16, u8, u8)>(),
        (dont_fragment, more_fragments, fragment_offset) in (any::<bool>(), any::<bool>(), 0u16..8192),
        (payload_len, flow_label) in (0u16..120, 0u32..1 << 20),
        (source, destination) in any::<([u8; 16], [u8; 16])>(),
    ) {
        let [from, to] = [source, destination].map(|address| *address.first_chunk::<4>().unwrap());
        let v4 = ipv4::Header {
            traffic_class, payload_len, identification, dont_fragment, more_fragments, fragment_offset, hops,
            protocol, source: from, destination: to,
        };
        let v6 = ipv6::Header {
            traffic_class, flow_label, payload_len, next_header: protocol, hops, source, destination,
        };
        let mut bytes = written(|out| v4.write(out));
        bytes.resize(usize::from(payload_len) + 20, 0);
        let packet = ipv4::Packet::read(&bytes).unwrap();
        prop_assert_eq!(packet.header(), v4);
        prop_assert!(packet.has_right_checksum() && packet.options().is_empty());
        let mut marked = bytes.clone();
        ipv4::mark(&mut marked);
        ipv4::take_hop(&mut marked);
        let packet = ipv4::Packet::read(&marked).unwrap();
        let want = ipv4::Header { traffic_class: traffic_class | 3, hops: hops.saturating_sub(1), ..v4 };
        prop_assert_eq!(packet.header(), want);
        prop_assert!(packet.has_right_checksum());

        let mut bytes = written(|out| v6.write(out));
        bytes.resize(usize::from(payload_len) + 40, 0);
        prop_assert_eq!(ipv6::Packet::read(&bytes).unwrap().header(), v6);
        ipv6::mark(&mut bytes);
        ipv6::take_hop(&mut bytes);
        let want = ipv6::Header { traffic_class: traffic_class | 3, hops: hops.saturating_sub(1), ..v6 };
        prop_assert_eq!(ipv6::Packet::read(&bytes).unwrap().header(), want);

        let fragment = ipv6::FragmentHeader {
            next_header: protocol, offset: fragment_offset, more_fragments, identification: flow_label,
        };
        let bytes = written(|out| fragment.write(out));
        prop_assert_eq!(ipv6::FragmentHeader::read(&bytes), Some(fragment));
    }

    #[test]
    fn udp_datagrams(
        (source, port) in any::<(u16, u16)>(),
        addresses in any::<([u8; 16], [u8; 16])>(),
        payload in prop::collection::vec(any::<u8>(), 0..70),
    ) {
        let header = udp::Header { source, destination: port };
        let mut bytes = [&[0xa5; 8][..], &payload].concat();
        header.write_v6(addresses.0, addresses.1, &mut bytes).unwrap();
        let both = [addresses.0, addresses.1].concat();
        let read = udp::Datagram::read(&bytes).unwrap();
        prop_assert_eq!((read.ports(), read.payload()), ((source, port), &payload[..]));
        prop_assert!(read.has_right_checksum(&both) && !read.is_without_checksum());
        header.write_without_checksum(&mut bytes).unwrap();
        prop_assert!(udp::Datagram::read(&bytes).unwrap().is_without_checksum());
        prop_assert_eq!(header.write_without_checksum(&mut [0; 7]), Err(TooShort));
        prop_assert_eq!(header.write_without_checksum(&mut vec![0; 65536]), Err(TooShort));
    }

    #[test]
    fn tcp_segments(
        (source, destination, seq, ack, flags, window) in any::<(u16, u16, u32, u32, u8, u16)>(),
        (mss, window_scale, sack_permitted) in any::<(Option<u16>, Option<u8>, bool)>(),
        stamps in any::<Option<(u32, u32)>>(),
        sacks in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
        len in 0usize..60,
    ) {
        let stamps = stamps.map(|(value, echo)| Stamps { value, echo });
        let header = tcp::Header {
            source, destination, seq, ack, flags, window, mss, window_scale, sack_permitted, stamps, sacks: &sacks,
        };
        if header.len() > tcp::HEADER_MAX {
            prop_assert_eq!(header.write(&mut [0; 200]), Err(TooShort));
            return Ok(());
        }
        let mut bytes = written(|out| header.write(out));
        prop_assert_eq!(bytes.len(), header.len());
        bytes.resize(header.len() + len, 7);
        let read = Segment::read(&bytes).unwrap();
        let ack = (flags & tcp::ACK != 0).then_some(ack);
        let [syn, fin, rst] = [tcp::SYN, tcp::FIN, tcp::RST].map(|flag| flags & flag != 0);
        let sacked = sacks.first().copied();
        prop_assert_eq!(read, Segment { seq, ack, len: len as u32, window, syn, fin, rst, sacked, stamps });
        let mut seen = (None, None, false, None, vec![]);
        for option in Options::of(&bytes) {
            match option {
                TcpOption::Mss(mss) => seen.0 = Some(mss),
                TcpOption::WindowScale(shift) => seen.1 = Some(shift),
                TcpOption::SackPermitted => seen.2 = true,
                TcpOption::Stamps(stamps) => seen.3 = Some(stamps),
                TcpOption::Sack(blocks) => seen.4 = blocks.iter().collect(),
                TcpOption::Other { .. } => prop_assert!(false, "nobody wrote it"),
            }
        }
        prop_assert_eq!(seen, (mss, window_scale, sack_permitted, stamps, sacks.clone()));
    }

    #[test]
    fn arp_messages(
        operation: u16, sender_mac in mac(), sender: [u8; 4], target_mac in mac(), target: [u8; 4],
    ) {
        let message = arp::Message { operation, sender_mac, sender, target_mac, target };
        let bytes = written(|out| message.write(out));
        prop_assert_eq!(arp::Message::read(&bytes), Some(message));
        prop_assert!((0..bytes.len()).all(|len| arp::Message::read(&bytes[..len]).is_none()));
    }

    #[test]
    fn neighbour_discovery(
        (source, target) in any::<([u8; 16], [u8; 16])>(),
        mac in any::<Option<[u8; 6]>>(),
        flags in prop::sample::select(vec![None, Some(0x20), Some(0x60), Some(0xe0)]),
        changed in any::<(prop::sample::Index, u8)>(),
    ) {
        let (mut source, mut target) = (source, target);
        (source[0], target[0]) = (0xfd, 0x20);
        let kind = flags.map_or(nd::Kind::Solicitation, |flags| nd::Kind::Advertisement { flags });
        let destination = if flags.is_none() { nd::solicited_group(target) } else { [0xfd; 16] };
        let message = nd::Message { source, destination, kind, target, mac };
        let bytes = written(|out| message.write(out));
        prop_assert_eq!(nd::Message::read(&bytes), Ok(message));
        // One octet of the message that is another one shows in the checksum.
        let (at, value) = (40 + changed.0.index(bytes.len() - 40), changed.1);
        let mut damaged = bytes.clone();
        damaged[at] = value;
        prop_assert!(damaged == bytes || nd::Message::read(&damaged).is_err());
    }

    #[test]
    fn echoes(is_reply: bool, identifier: u16, sequence: u16, data in prop::collection::vec(any::<u8>(), 0..40)) {
        let echo = icmp::Echo { is_reply, identifier, sequence };
        let mut message = [&[0xa5; 8][..], &data].concat();
        echo.write_v4(&mut message).unwrap();
        prop_assert_eq!(icmp::Echo::read(false, &message), Some(echo));
        prop_assert_eq!(weir_wire::checksum::finish(weir_wire::checksum::sum(&message)), 0);
        echo.write_v6([1; 16], [2; 16], &mut message).unwrap();
        prop_assert_eq!(icmp::Echo::read(true, &message), Some(echo));
        prop_assert_eq!(icmp::Echo::read(false, &message), None);
        prop_assert_eq!(&message[8..], &data[..]);
    }

    #[test]
    fn packets_in_tunnels(
        is_v6: bool,
        (teid, port, tos) in any::<(u32, u16, u8)>(),
        dscp in any::<Option<u8>>(),
        qfi in prop::option::of(0u8..64),
        len in 0usize..100,
    ) {
        let [local, remote]: [IpAddr; 2] = match is_v6 {
            true => ["2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
            false => ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()],
        };
        // The other end has our port, or we would not read it.
        let way = Encapsulation::new(local, SocketAddr::new(remote, gtpu::PORT), teid, dscp).unwrap();
        let overhead = way.overhead(qfi.is_some());
        let mut packet = [vec![0xa5; overhead], vec![0x45; len]].concat();
        way.write(&mut packet, qfi, tos).unwrap();
        let datagram = tunnel::read(&packet).unwrap();
        let outer_tos = dscp.map_or(tos, |dscp| dscp & 0xfc | tos & 3);
        prop_assert_eq!((datagram.tos, datagram.end, datagram.is_v6), (outer_tos, packet.len(), is_v6));
        prop_assert_eq!(weir_wire::ip::mapped(is_v6, datagram.to), way.host());
        let message = gtpu::read(&packet[datagram.start..datagram.end]);
        let container = qfi.map(|qfi| Container { way: Way::Down, qfi });
        let start = gtpu::header_len(qfi.is_some());
        let gpdu = GPdu { teid, container, start, end: start + len };
        prop_assert_eq!(message, Ok(Message::Packet(gpdu)));
        prop_assert_eq!(&packet[datagram.start + start..], &vec![0x45; len][..]);
        prop_assert_eq!(way.write(&mut vec![0; overhead - 1], qfi, tos), Err(TooShort));
        let other = Encapsulation::new(local, SocketAddr::new(remote, port), teid, dscp).unwrap();
        other.write(&mut packet, qfi, tos).unwrap();
        prop_assert_eq!(tunnel::read(&packet).is_ok(), port == gtpu::PORT);
    }

    /// The form that nearly all packets have is read at once; it says what reading step by step says.
    #[test]
    fn what_is_read_at_once_is_what_is_read_step_by_step(
        len in 0usize..80,
        changes in prop::collection::vec((12usize..60, any::<u8>(), any::<bool>()), 0..3),
        cut in 0usize..12,
    ) {
        let local = "192.0.2.1".parse().unwrap();
        let way = Encapsulation::new(local, "192.0.2.2:2152".parse().unwrap(), 0x1234_5678, None).unwrap();
        let mut frame = vec![0x45; 14 + way.overhead(true) + len];
        way.write(&mut frame[14..], Some(9), 0xb9).unwrap();
        frame[12..14].copy_from_slice(&[8, 0]);
        // From the access side.
        frame[55] = 0x10;
        frame.extend([0; 6]);
        prop_assert_eq!(tunnel::read_usual(&frame).is_some(), len >= 24);
        for (at, value, is_bit) in changes {
            let at = at.min(frame.len() - 1);
            frame[at] = if is_bit { frame[at] ^ 1 << (value & 7) } else { value };
        }
        frame.truncate(frame.len() - cut);
        let at_once = tunnel::read_usual(&frame);
        let step_by_step = tunnel::read(&frame[14..]).ok().and_then(|datagram| {
            match gtpu::read(&frame[14..][datagram.start..datagram.end]) {
                Ok(Message::Packet(gpdu)) => Some(Tunnelled::new(&datagram, gpdu)),
                _ => None,
            }
        });
        prop_assert!(at_once.is_none() || at_once == step_by_step);
    }

    /// The same for packets of TCP and UDP over IPv4.
    #[test]
    fn usual_packets_read_as_all_do(
        bytes in prop::collection::vec(any::<u8>(), 24..60),
        (protocol, total) in (prop::sample::select(vec![6u8, 17, 1]), 15u8..64),
    ) {
        let mut packet = bytes;
        (packet[0], packet[2], packet[3], packet[9]) = (0x45, 0, total, protocol);
        packet[6] &= 0x40;
        packet[7] &= 1;
        let usual = weir_wire::ip::Header::read_usual(&packet);
        let is_usual = protocol != 1 && packet[7] == 0 && (24..=packet.len()).contains(&usize::from(total));
        prop_assert_eq!(usual.is_some(), is_usual);
        prop_assert!(usual.is_none() || usual == weir_wire::ip::Header::read(&packet));
    }
}

#[test]
fn messages_about_tunnels() {
    for peer in ["192.0.2.1", "2001:db8::9"] {
        let peer: IpAddr = peer.parse().unwrap();
        let bytes = written(|out| gtpu::write_error_indication(out, 0x0a0b_0c0d, peer));
        assert_eq!(gtpu::read(&bytes), Ok(Message::ErrorIndication { teid: 0x0a0b_0c0d, peer }));
        assert!(bytes.len() <= gtpu::SIGNALLING_MAX);
    }
    let bytes = written(|out| gtpu::write_echo_request(out, 77));
    assert_eq!(gtpu::read(&bytes), Ok(Message::EchoRequest { sequence: 77 }));
    let bytes = written(|out| gtpu::write_echo_response(out, 77));
    assert_eq!(gtpu::read(&bytes), Ok(Message::EchoResponse { sequence: 77 }));
    let bytes = written(gtpu::write_supported_extensions);
    assert_eq!(gtpu::read(&bytes), Ok(Message::SupportedExtensions));
    let bytes = written(|out| gtpu::write_end_marker(out, 9));
    assert_eq!(gtpu::read(&bytes), Ok(Message::EndMarker { teid: 9 }));
}

#[test]
fn headers_like_those_of_another_frame() {
    let like = [&[1; 6][..], &[2; 6], &[0x81, 0, 0, 5, 8, 0, 0x45]].concat();
    let mut out = [0xaa; 20];
    assert_eq!(ethernet::write_like(&mut out, &like, 18, Some([3; 6]), ethernet::IPV6), Ok(18));
    assert_eq!(out[..18], [&[3; 6][..], &[2; 6], &[0x81, 0, 0, 5, 0x86, 0xdd]].concat());
    assert_eq!(out[18], 0xaa);
    for (len, offset) in [(17, 18), (20, 13), (20, 20)] {
        let written = ethernet::write_like(&mut out[..len], &like, offset, None, ethernet::IPV4);
        assert_eq!(written, Err(TooShort), "{offset} of {len}");
    }
}

#[test]
fn a_segment_has_the_checksum_that_an_independent_writer_computes() {
    let (from, to) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut expected = Vec::new();
    etherparse::PacketBuilder::ipv4(from, to, 64).tcp(1, 2, 3, 4).write(&mut expected, b"odd").unwrap();
    let header = tcp::Header { source: 1, destination: 2, seq: 3, window: 4, ..tcp::Header::default() };
    let mut out = [&[0; 20][..], b"odd"].concat();
    header.write_v4(from, to, &mut out).unwrap();
    assert_eq!(out, expected[20..]);
    let (from, to) = ([1; 16], [2; 16]);
    let mut expected = Vec::new();
    etherparse::PacketBuilder::ipv6(from, to, 64).tcp(1, 2, 3, 4).write(&mut expected, b"odd").unwrap();
    header.write_v6(from, to, &mut out).unwrap();
    assert_eq!(out, expected[40..]);
}
