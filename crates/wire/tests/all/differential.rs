//! The readers beside etherparse, an independent reader and writer of packets: on frames that etherparse
//! writes, on the corpus of damaged frames, and on both with some bytes changed.

use etherparse::{IpNumber, LaxSlicedPacket, LinkExtSlice, NetSlice, PacketBuilder, SlicedPacket};
use etherparse::{Ipv6RawExtHeader, TcpOptionElement, TransportSlice, VlanId};
use proptest::prelude::*;
use std::path::Path;
use weir_wire::flow_hash::Hashing;
use weir_wire::frame::{self, Kind};
use weir_wire::ip::{self, Fragment, Packet};
use weir_wire::tcp::{Options, Segment, Stamps, TcpOption};
use weir_wire::transport::{self, Transport};
use weir_wire::{checksum, ethernet, ipv4, ipv6, udp, vlan};

/// Frames of the corpus.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        let digits = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect()
    };
    files.iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

/// What a frame is made of.
#[derive(Clone, Debug)]
struct Recipe {
    tags: Vec<u16>,
    is_v6: bool,
    traffic_class: u8,
    hops: u8,
    extensions: Vec<u8>,
    is_tcp: bool,
    ports: (u16, u16),
    payload: Vec<u8>,
    padding: usize,
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let tags = prop::collection::vec(0u16..4096, 0..=2);
    let header = (any::<bool>(), any::<u8>(), 1..=255u8);
    // Next headers of extension headers, each with one to three units of content behind it.
    let extensions = prop::collection::vec(prop::sample::select(vec![0u8, 43, 60]), 0..4);
    let rest = (any::<bool>(), any::<(u16, u16)>(), prop::collection::vec(any::<u8>(), 0..80), 0usize..9);
    (tags, header, extensions, rest).prop_map(|(tags, (is_v6, traffic_class, hops), extensions, rest)| {
        let (is_tcp, ports, payload, padding) = rest;
        Recipe { tags, is_v6, traffic_class, hops, extensions, is_tcp, ports, payload, padding }
    })
}

const V4: ([u8; 4], [u8; 4]) = ([10, 1, 2, 3], [192, 0, 2, 99]);
const V6: ([u8; 16], [u8; 16]) = ([0x20; 16], [0xfd; 16]);
const OPTIONS: [TcpOptionElement; 4] = [
    TcpOptionElement::MaximumSegmentSize(1460),
    TcpOptionElement::Timestamp(7, 9),
    TcpOptionElement::WindowScale(8),
    TcpOptionElement::SelectiveAcknowledgement((1, 2), [Some((5, 8)), None, None]),
];

/// The frame, written by etherparse but for extension headers, which its builder cannot write.
fn write(recipe: &Recipe) -> Vec<u8> {
    let Recipe { tags, is_v6, traffic_class, hops, extensions, is_tcp, ports, payload, padding } = recipe;
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let id = |at: usize| VlanId::try_new(tags[at]).unwrap();
    let link = |builder: etherparse::PacketBuilderStep<etherparse::Ethernet2Header>| match tags.len() {
        0 if *is_v6 => builder.ipv6(V6.0, V6.1, *hops),
        0 => builder.ipv4(V4.0, V4.1, *hops),
        1 if *is_v6 => builder.single_vlan(id(0)).ipv6(V6.0, V6.1, *hops),
        1 => builder.single_vlan(id(0)).ipv4(V4.0, V4.1, *hops),
        _ if *is_v6 => builder.double_vlan(id(0), id(1)).ipv6(V6.0, V6.1, *hops),
        _ => builder.double_vlan(id(0), id(1)).ipv4(V4.0, V4.1, *hops),
    };
    let ip = link(ethernet);
    let mut frame = Vec::new();
    if *is_tcp {
        let tcp = ip.tcp(ports.0, ports.1, 0x0102_0304, 500).ack(77).options(&OPTIONS).unwrap();
        tcp.write(&mut frame, payload).unwrap();
    } else {
        ip.udp(ports.0, ports.1).write(&mut frame, payload).unwrap();
    }
    let at = 14 + 4 * tags.len();
    if *is_v6 {
        frame[at] = 0x60 | traffic_class >> 4;
        frame[at + 1] = traffic_class << 4 | frame[at + 1] & 15;
        for number in extensions.iter().rev() {
            let content = vec![0; 6 + 8 * (usize::from(*number) % 3)];
            // A routing header that leads nowhere else.
            let header = Ipv6RawExtHeader::new_raw(IpNumber(frame[at + 6]), &content).unwrap();
            frame[at + 6] = *number;
            let bytes = header.to_bytes();
            frame.splice(at + 40..at + 40, bytes.iter().copied());
            let len = u16::from_be_bytes([frame[at + 4], frame[at + 5]]) + bytes.len() as u16;
            frame[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
        }
    } else {
        frame[at + 1] = *traffic_class;
        frame[at + 10..at + 12].fill(0);
        let sum = checksum::finish(checksum::sum(&frame[at..at + 20]));
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    frame.extend(vec![0; *padding]);
    frame
}

/// All that both readers know is compared. Frames that etherparse refuses must not be read as whole by us,
/// where the reason is one that we look at.
fn compare(frame: &[u8]) -> Result<(), TestCaseError> {
    let ours = frame::read(frame);
    let theirs = SlicedPacket::from_ethernet(frame);
    let Ok(theirs) = theirs else {
        return compare_refused(frame, ours.kind);
    };
    // They look through three tags and through IEEE 802.1AE; we look through two.
    if theirs.link_exts.len() > vlan::TAGS_MAX
        || theirs.link_exts.iter().any(|ext| !matches!(ext, LinkExtSlice::Vlan(_)))
    {
        return Ok(());
    }
    // They take an outer type field that we do not know.
    if theirs.link_exts.len() != vlan::tags(frame).count() {
        prop_assert_eq!(ours.kind, Kind::Other);
        return Ok(());
    }
    let theirs_ids: Vec<u16> = theirs.vlan_ids().iter().map(|id| id.value()).collect();
    let ours_ids: Vec<u16> = vlan::tags(frame).map(|tag| tag.id).collect();
    prop_assert_eq!(ours_ids, theirs_ids);
    let at = usize::from(ours.network);
    match &theirs.net {
        Some(NetSlice::Ipv4(their)) => {
            prop_assert_eq!(ours.kind, Kind::Ipv4);
            let (our, header) = (ipv4::Packet::read(&frame[at..]).unwrap(), their.header());
            prop_assert_eq!((our.source(), our.destination()), (header.source(), header.destination()));
            prop_assert_eq!(our.traffic_class(), header.dcp().value() << 2 | header.ecn().value());
            prop_assert_eq!((our.hops(), our.protocol()), (header.ttl(), header.protocol().0));
            prop_assert_eq!(our.len(), usize::from(header.total_len()));
            prop_assert_eq!(our.options(), header.options());
            prop_assert_eq!(our.is_fragment(), header.is_fragmenting_payload());
            let said = our.header();
            prop_assert_eq!(said.identification, header.identification());
            prop_assert_eq!(said.fragment_offset, header.fragments_offset().value());
            prop_assert_eq!(
                (said.dont_fragment, said.more_fragments),
                (header.dont_fragment(), header.more_fragments())
            );
            let right = header.to_header().calc_header_checksum() == header.header_checksum();
            // Two forms of zero are one sum, and what they compute one from has no reserved bit.
            let is_known = header.header_checksum() != 0xffff && frame[at + 6] & 0x80 == 0;
            prop_assert!(our.has_right_checksum() == right || !is_known);
        }
        Some(NetSlice::Ipv6(their)) => {
            prop_assert_eq!(ours.kind, Kind::Ipv6);
            let (our, header) = (ipv6::Packet::read(&frame[at..]).unwrap(), their.header());
            prop_assert_eq!((our.source(), our.destination()), (header.source(), header.destination()));
            prop_assert_eq!((our.traffic_class(), our.hops()), (header.traffic_class(), header.hop_limit()));
            prop_assert_eq!(our.flow_label(), header.flow_label().value());
            prop_assert_eq!(our.len(), 40 + usize::from(header.payload_length()));
        }
        Some(NetSlice::Arp(their)) => {
            if let Some(our) = weir_wire::arp::Message::read(&frame[at..]) {
                prop_assert_eq!(our.operation, their.operation().0);
                prop_assert_eq!(&our.sender[..], their.sender_protocol_addr());
                prop_assert_eq!(&our.sender_mac[..], their.sender_hw_addr());
                prop_assert_eq!(&our.target[..], their.target_protocol_addr());
                prop_assert_eq!(&our.target_mac[..], their.target_hw_addr());
            }
        }
        None => prop_assert_eq!(ours.kind, Kind::Other),
    }
    compare_transport(&frame[at..], &theirs)
}

fn compare_transport(packet: &[u8], theirs: &SlicedPacket<'_>) -> Result<(), TestCaseError> {
    let (Some(ours), Some(transport)) = (ip::Header::read(packet), &theirs.transport) else { return Ok(()) };
    // They take a length of zero for "as much as there is", and fragments of IPv6 for others than they are.
    if ours.len == 40 || (ours.is_v6 && ours.fragment != Fragment::Whole) {
        return Ok(());
    }
    // They know protocols that we take for payload (authentication headers), and follow longer chains.
    let ports = match transport {
        TransportSlice::Tcp(tcp) => {
            let segment = Segment::read(&packet[ours.transport as usize..ours.len as usize]);
            if ours.protocol == ip::TCP {
                let segment = segment.unwrap();
                prop_assert_eq!(segment.seq, tcp.sequence_number());
                prop_assert_eq!(segment.ack, tcp.ack().then(|| tcp.acknowledgment_number()));
                prop_assert_eq!((segment.syn, segment.fin, segment.rst), (tcp.syn(), tcp.fin(), tcp.rst()));
                prop_assert_eq!(segment.window, tcp.window_size());
                prop_assert_eq!(segment.len as usize, tcp.payload().len());
                compare_options(&packet[ours.transport as usize..], tcp)?;
            }
            Some((tcp.source_port(), tcp.destination_port()))
        }
        TransportSlice::Udp(udp) => Some((udp.source_port(), udp.destination_port())),
        _ => None,
    };
    if let (Some(ports), ip::TCP | ip::UDP) = (ports, ours.protocol) {
        prop_assert_eq!(ours.ports, Some(ports));
    }
    Ok(())
}

fn compare_options(segment: &[u8], theirs: &etherparse::TcpSlice<'_>) -> Result<(), TestCaseError> {
    let mut ours = Options::of(segment);
    for their in theirs.options_iterator() {
        let Ok(their) = their else { break };
        if their == TcpOptionElement::Noop {
            continue;
        }
        let our = ours.next();
        let equal = match (their.clone(), our) {
            (TcpOptionElement::MaximumSegmentSize(a), Some(TcpOption::Mss(b))) => a == b,
            (TcpOptionElement::WindowScale(a), Some(TcpOption::WindowScale(b))) => a == b,
            (TcpOptionElement::SelectiveAcknowledgementPermitted, Some(TcpOption::SackPermitted)) => true,
            (TcpOptionElement::Timestamp(a, b), Some(TcpOption::Stamps(Stamps { value, echo }))) => {
                (a, b) == (value, echo)
            }
            (TcpOptionElement::SelectiveAcknowledgement(first, more), Some(TcpOption::Sack(blocks))) => {
                let theirs = std::iter::once(first).chain(more.into_iter().flatten());
                blocks.first() == Some(first) && theirs.eq(blocks.iter())
            }
            _ => false,
        };
        prop_assert!(equal, "{their:?} {our:?}");
    }
    Ok(())
}

/// A frame that etherparse does not take whole. What of it is readable, they read leniently; of that the
/// addresses agree.
fn compare_refused(frame: &[u8], kind: Kind) -> Result<(), TestCaseError> {
    let Ok(lax) = LaxSlicedPacket::from_ethernet(frame) else {
        prop_assert!(matches!(kind, Kind::Runt), "{kind:?} of a frame without a header");
        return Ok(());
    };
    if !matches!(kind, Kind::Ipv4 | Kind::Ipv6) {
        return Ok(());
    }
    // We take it, so that only what is behind the IP header can be wrong: extension headers, transport.
    let network = ethernet::network(frame).unwrap();
    let ours = Packet::read(&frame[network.offset..]).unwrap();
    let addresses = match &lax.net {
        Some(etherparse::LaxNetSlice::Ipv4(v4)) => {
            [&v4.header().source()[..], &v4.header().destination()].concat()
        }
        Some(etherparse::LaxNetSlice::Ipv6(v6)) => {
            [&v6.header().source()[..], &v6.header().destination()].concat()
        }
        other => return Err(TestCaseError::fail(format!("they find no packet: {other:?}"))),
    };
    prop_assert_eq!(ours.addresses(), &addresses[..]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_read_as_etherparse_reads_them(recipe in recipes()) {
        let frame = write(&recipe);
        compare(&frame)?;
        let ours = frame::read(&frame);
        prop_assert_eq!(ours.kind, if recipe.is_v6 { Kind::Ipv6 } else { Kind::Ipv4 });
        prop_assert_eq!(ours.ecn, weir_units::Ecn::from_bits(recipe.traffic_class));
        // Ports are found behind extension headers.
        let header = ip::Header::read(&frame[usize::from(ours.network)..]).unwrap();
        prop_assert_eq!(header.ports, Some(recipe.ports));
        prop_assert_eq!(header.len as usize, frame.len() - usize::from(ours.network) - recipe.padding);
        // The flow is the same with tags and extension headers or without.
        let plain = write(&Recipe { tags: vec![], extensions: vec![], padding: 0, ..recipe.clone() });
        prop_assert_eq!(ours.flow, frame::read(&plain).flow);
        // What etherparse wrote has a right checksum, which is completed as it was.
        let unfinished = frame::is_unfinished(&frame);
        let mut completed = frame.clone();
        prop_assert!(frame::complete_checksum(&mut completed));
        prop_assert_eq!(&completed, &frame);
        // One right checksum in 65 535 is also the sum that an unfinished one has; completing leaves it. If
        // all were taken for such, too many cases would be thrown away here, which fails.
        prop_assume!(unfinished != Some(true));
        prop_assert_eq!(unfinished, Some(false));
        match transport::read(&frame[usize::from(ours.network)..]).unwrap().transport {
            Transport::Tcp(segment) => {
                prop_assert!(recipe.is_tcp);
                prop_assert_eq!((segment.seq, segment.ack, segment.window), (0x0102_0304, Some(77), 500));
                prop_assert_eq!(segment.stamps, Some(Stamps { value: 7, echo: 9 }));
                prop_assert_eq!(segment.sacked, Some((1, 2)));
                prop_assert_eq!(segment.len as usize, recipe.payload.len());
            }
            _ => prop_assert!(!recipe.is_tcp),
        }
    }

    #[test]
    fn changed_frames_read_as_etherparse_reads_them(
        recipe in recipes(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in 0usize..20,
    ) {
        let mut frame = write(&recipe);
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        compare(&frame)?;
        frame.truncate(frame.len() - cut);
        compare(&frame)?;
    }

    /// Fragments that etherparse writes: whose they are, and what is read of them.
    #[test]
    fn fragments_read_as_etherparse_writes_them(
        recipe in recipes(),
        offset in 0u16..100,
        more in any::<bool>(),
        id in any::<u16>(),
    ) {
        let whole = write(&Recipe { tags: vec![], padding: 0, ..recipe.clone() });
        let fragment_of = |offset: u16, more: bool, id: u16| {
            let mut frame = whole.clone();
            if recipe.is_v6 {
                // etherparse 0.19 puts offset and flag elsewhere than RFC 8200 section 4.5 does.
                let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
                let header = [frame[20], 0, high, low, 0, 0, (id >> 8) as u8, id as u8];
                frame[20] = 44;
                frame.splice(54..54, header);
                let len = u16::from_be_bytes([frame[18], frame[19]]) + 8;
                frame[18..20].copy_from_slice(&len.to_be_bytes());
            } else {
                let word = offset | if more { 0x2000 } else { 0 };
                frame[18..20].copy_from_slice(&id.to_be_bytes());
                frame[20..22].copy_from_slice(&word.to_be_bytes());
            }
            frame
        };
        let frame = fragment_of(offset, more, id);
        compare(&frame)?;
        let want = match (offset, more) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        };
        let header = ip::Header::read(&frame[14..]).unwrap();
        prop_assert_eq!(header.fragment, want);
        prop_assert_eq!(header.ports, (want != Fragment::Later).then_some(recipe.ports));
        if want == Fragment::Whole {
            prop_assert_eq!(frame::read(&frame).flow, frame::read(&whole).flow);
        } else {
            // All fragments are of one flow: the first, those behind it, those of other packets.
            let first = frame::read(&fragment_of(0, true, id.wrapping_add(1)));
            prop_assert_eq!(frame::read(&frame).flow, first.flow);
            prop_assert_eq!(transport::read(&frame[14..]).unwrap().transport, Transport::Other);
            prop_assert_eq!(frame::is_unfinished(&frame), None);
            prop_assert!(!frame::complete_checksum(&mut frame.clone()));
        }
    }
}

#[test]
fn the_corpus_reads_as_etherparse_reads_it() {
    let corpus = corpus();
    assert!(corpus.len() > 50);
    for (name, frame) in corpus {
        for len in 0..=frame.len() {
            compare(&frame[..len]).unwrap_or_else(|e| panic!("{name}, cut to {len}: {e}"));
        }
    }
}

#[test]
fn udp_checksums_are_those_of_etherparse() {
    for is_v6 in [false, true] {
        for len in 0..60usize {
            let payload: Vec<u8> = (0..len).map(|n| (n * 37) as u8).collect();
            let recipe = Recipe {
                tags: vec![],
                is_v6,
                traffic_class: 0,
                hops: 1,
                extensions: vec![],
                is_tcp: false,
                ports: (5, 6),
                payload,
                padding: 0,
            };
            let frame = write(&recipe);
            let packet = Packet::read(&frame[14..]).unwrap();
            let upper = packet.upper().unwrap();
            let datagram = udp::Datagram::read(upper.payload).unwrap();
            assert!(datagram.has_right_checksum(packet.addresses()));
            let mut again = upper.payload.to_vec();
            let header = udp::Header { source: 5, destination: 6 };
            match is_v6 {
                true => header.write_v6(V6.0, V6.1, &mut again).unwrap(),
                false => header.write_v4(V4.0, V4.1, &mut again).unwrap(),
            };
            assert_eq!(again, upper.payload);
        }
    }
}

#[test]
fn hashes_are_the_same_on_every_machine() {
    // Tables by flow and by user are compared between machines.
    let recipe = Recipe {
        tags: vec![5],
        is_v6: false,
        traffic_class: 0,
        hops: 64,
        extensions: vec![],
        is_tcp: true,
        ports: (1000, 80),
        payload: vec![],
        padding: 0,
    };
    let frames = [recipe.clone(), Recipe { is_v6: true, ..recipe }].map(|recipe| write(&recipe));
    let of = |frame: &[u8], hashing: &Hashing| {
        let headers = frame::read_hashed(frame, hashing);
        [headers.flow, headers.sender, headers.receiver]
    };
    let plain = frames.each_ref().map(|frame| of(frame, &Hashing::of(7)));
    let turned = frames.each_ref().map(|frame| of(frame, &Hashing::of(7).turned()));
    let mut hashing = Hashing::of(7);
    (hashing.users.prefix4, hashing.users.prefix6) = (24, 56);
    let prefixes = frames.each_ref().map(|frame| of(frame, &hashing));
    hashing.users.vlan = true;
    let tags = frames.each_ref().map(|frame| of(frame, &hashing));
    let all = [plain, turned, prefixes, tags];
    assert_eq!(
        all,
        [
            [[2461935420, 2629920898, 872667775], [1617063811, 3281860103, 3812019902]],
            [[244743174, 872667775, 2629920898], [2788959361, 3812019902, 3281860103]],
            [[2461935420, 1794685367, 1409030965], [1617063811, 620911682, 1620795949]],
            [[2461935420, 3605184859, 3605184859], [1617063811, 3605184859, 3605184859]]
        ]
    );
}
