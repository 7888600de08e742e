//! Frames as the packet path reads, marks and completes them.

use etherparse::PacketBuilder;
use weir_units::Ecn;
use weir_wire::checksum::{self, finish, sum};
use weir_wire::flow_hash::{Hashing, Users, of_header};
use weir_wire::frame::{
    Head, Kind, complete_checksum, is_unfinished, mark, peek, read, read_hashed, read_seeded,
};
use weir_wire::{TooShort, ip, vlan};

fn tcp4(payload: &[u8], tos: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(1000, 80, 7, 65000)
        .write(&mut frame, payload)
        .unwrap();
    frame[15] = tos;
    let sum = {
        frame[24..26].fill(0);
        finish(sum(&frame[14..34]))
    };
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn marking_keeps_every_ipv4_checksum_right() {
    for tos in 0..=255u8 {
        for id in [0u16, 1, 0xffff, 0x1234, 0xfffe] {
            let mut frame = tcp4(b"x", tos);
            frame[18..20].copy_from_slice(&id.to_be_bytes());
            frame[24..26].fill(0);
            let right = finish(sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&right.to_be_bytes());
            let headers = read(&frame);
            assert_eq!(headers.ecn, Ecn::from_bits(tos));
            mark(&mut frame, headers.kind, headers.network);
            assert_eq!(read(&frame).ecn, Ecn::Ce);
            assert_eq!(finish(sum(&frame[14..34])), 0, "tos {tos} id {id}");
            assert_eq!(frame[15] >> 2, tos >> 2, "the DSCP is not touched");
        }
    }
}

#[test]
fn marking_ipv6_sets_two_bits_and_nothing_else() {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv6([1; 16], [2; 16], 64)
        .udp(5000, 443)
        .write(&mut frame, b"hello")
        .unwrap();
    frame[15] = 0x2a;
    let before = frame.clone();
    let headers = read(&frame);
    assert_eq!((headers.kind, headers.ecn), (Kind::Ipv6, Ecn::Ect0));
    mark(&mut frame, headers.kind, headers.network);
    assert_eq!(frame[15], 0x3a);
    frame[15] = 0x2a;
    assert_eq!(frame, before);
}

#[test]
fn vlan_tags_are_looked_through() {
    let plain = tcp4(b"payload", 2);
    for tags in [vec![0x8100u16], vec![0x88a8, 0x8100]] {
        let mut frame = plain[..12].to_vec();
        for tag in &tags {
            frame.extend_from_slice(&tag.to_be_bytes());
            frame.extend_from_slice(&[0, 5]);
        }
        frame.extend_from_slice(&plain[12..]);
        let headers = read(&frame);
        assert_eq!(headers.kind, Kind::Ipv4);
        assert_eq!(usize::from(headers.network), 14 + 4 * tags.len());
        assert_eq!(headers.flow, read(&plain).flow);
    }
}

#[test]
fn flows_are_told_apart() {
    let mut seen = std::collections::HashSet::new();
    for port in 0..2000u16 {
        let mut frame = tcp4(b"", 0);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        seen.insert(read(&frame).flow % 65_536);
    }
    assert!(seen.len() > 1900, "{} buckets for 2000 flows", seen.len());
}

#[test]
fn hosts_are_told_apart_whatever_their_ports() {
    let of = |source: u8, port: u8, seed: u64| {
        let mut frame = tcp4(b"", 0);
        (frame[29], frame[34]) = (source, port);
        read_seeded(&frame, seed)
    };
    let (first, port, other) = (of(1, 1, 7), of(1, 2, 7), of(2, 1, 7));
    assert_eq!((first.sender, first.receiver), (port.sender, port.receiver));
    assert_eq!(first.receiver, other.receiver);
    assert!(first.sender != other.sender && first.sender != first.receiver);
    assert!(first.flow != port.flow && first.flow != other.flow);
    let elsewhere = of(1, 1, 8);
    assert!(elsewhere.flow != first.flow && elsewhere.sender != first.sender);
    let mut v6 = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv6([1; 16], [2; 16], 64)
        .udp(5000, 443)
        .write(&mut v6, b"")
        .unwrap();
    let before = read(&v6);
    v6[14 + 8 + 15] ^= 1;
    let after = read(&v6);
    assert!(before.sender != after.sender && before.receiver == after.receiver);
}

#[test]
fn an_answer_has_the_hashes_of_what_it_answers() {
    let there = tcp4(b"data", 0);
    let mut back = there.clone();
    back.copy_within(26..30, 30);
    back[26..30].copy_from_slice(&there[30..34]);
    back[34..36].copy_from_slice(&there[36..38]);
    back[36..38].copy_from_slice(&there[34..36]);
    let hashing = Hashing::of(9);
    let (data, answer) = (read_hashed(&there, &hashing), read_hashed(&back, &hashing.turned()));
    assert_eq!((data.flow, data.sender, data.receiver), (answer.flow, answer.sender, answer.receiver));
    assert!(read_hashed(&back, &hashing).flow != data.flow);
}

#[test]
fn users_are_addresses_prefixes_or_tags() {
    let receiver = |frame: &[u8], prefix4, prefix6, vlan| {
        let users = Users { prefix4, prefix6, vlan };
        read_hashed(frame, &Hashing { users, ..Hashing::of(1) }).receiver
    };
    let near = tcp4(b"", 0);
    let far = |byte: usize| {
        let mut frame = near.clone();
        frame[byte] ^= 1;
        frame
    };
    for (bits, byte, alike) in
        [(32, 33, false), (24, 33, true), (24, 32, false), (31, 33, true), (0, 30, true)]
    {
        assert_eq!(
            receiver(&near, bits, 128, false) == receiver(&far(byte), bits, 128, false),
            alike,
            "{bits}"
        );
    }
    let v6 = |byte: u8| {
        let (mut frame, mut address) = (Vec::new(), [2; 16]);
        address[usize::from(byte)] = 3;
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], address, 64)
            .udp(1, 2)
            .write(&mut frame, b"")
            .unwrap();
        frame
    };
    let same =
        |bits, one, other| receiver(&v6(one), 32, bits, false) == receiver(&v6(other), 32, bits, false);
    assert!(!same(128, 15, 14) && same(64, 15, 8) && !same(64, 15, 7) && !same(48, 15, 5) && same(48, 15, 6));
    let tagged = |id: [u8; 2]| [&near[..12], &[0x81, 0][..], &id[..], &near[12..]].concat();
    assert_eq!(receiver(&tagged([0x20, 5]), 32, 128, true), receiver(&tagged([0, 5]), 32, 128, true));
    assert!(receiver(&tagged([0, 5]), 32, 128, true) != receiver(&tagged([0, 6]), 32, 128, true));
}

#[test]
fn contradictory_headers_are_malformed_and_never_panic() {
    let good = tcp4(b"some payload", 0);
    for len in 0..good.len() {
        let kind = read(&good[..len]).kind;
        assert!(matches!(kind, Kind::Runt | Kind::Malformed), "cut to {len} bytes: {kind:?}");
    }
    let mut short_ihl = good.clone();
    short_ihl[14] = 0x44;
    assert_eq!(read(&short_ihl).kind, Kind::Malformed);
    let mut version = good.clone();
    version[14] = 0x65;
    assert_eq!(read(&version).kind, Kind::Malformed);
    // Every single byte set to every value: reading and marking hold on.
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut frame = good.clone();
            frame[at] = value;
            let headers = read(&frame);
            mark(&mut frame, headers.kind, headers.network);
            complete_checksum(&mut frame);
        }
    }
}

#[test]
fn missing_checksums_are_completed_like_etherparse_computes_them() {
    for payload in [&b""[..], b"x", b"xy", b"a longer payload, odd"] {
        let mut v6 = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(5000, 443)
            .write(&mut v6, payload)
            .unwrap();
        for right in [tcp4(payload, 0), v6] {
            let at = if right[12] == 8 { 50 } else { 60 };
            let mut frame = right.clone();
            frame[at..at + 2].copy_from_slice(&[0xaa, 0x55]);
            assert!(complete_checksum(&mut frame));
            assert_eq!(frame, right);
            assert_eq!(is_unfinished(&right), Some(false));
            // What Linux leaves there for hardware.
            let packet = ip::Packet::read(&right[14..]).unwrap();
            let upper = packet.upper().unwrap();
            let pseudo = checksum::pseudo(packet.addresses(), upper.protocol, upper.payload.len());
            frame[at..at + 2].copy_from_slice(&(!finish(pseudo)).to_be_bytes());
            assert_eq!(is_unfinished(&frame), Some(true));
        }
    }
    assert_eq!(is_unfinished(&[0; 60]), None);
}

#[test]
fn the_hash_of_headers_is_that_of_the_frame() {
    let v6 = |kind: Option<(u8, [u8; 7])>| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(5000, 443)
            .write(&mut frame, b"hello")
            .unwrap();
        if let Some((kind, rest)) = kind {
            frame.splice(54..54, [&[17][..], &rest].concat());
            (frame[20], frame[19]) = (kind, frame[19] + 8);
        }
        frame
    };
    let mut fragment4 = tcp4(b"first", 0);
    fragment4[20] = 0x20;
    let first = v6(Some((44, [0, 0, 1, 0, 0, 0, 7])));
    let options = v6(Some((60, [0, 1, 4, 0, 0, 0, 0])));
    for frame in [&tcp4(b"whole", 0), &fragment4, &v6(None), &first, &options] {
        let header = ip::Header::read(&frame[14..]).unwrap();
        let hashing = Hashing::of(7);
        assert_eq!(of_header(7, &header, false), read_hashed(frame, &hashing).flow);
        assert_eq!(of_header(7, &header, true), read_hashed(frame, &hashing.turned()).flow);
    }
    assert_eq!(read(&options).flow, read(&v6(None)).flow, "extension headers are walked");
    assert!(read(&first).flow != read(&v6(None)).flow, "a first fragment is of the flow of later ones");
    let mut later = first.clone();
    later[56..58].copy_from_slice(&[0, 8]);
    later[54] = 6;
    assert_eq!(read(&first).flow, read(&later).flow);
}

#[test]
fn flows_of_many_hosts_are_told_apart() {
    for seed in [0, 7, u64::MAX] {
        let mut seen = std::collections::HashSet::new();
        for (host, port) in (0..250u8).flat_map(|host| (0..8u8).map(move |port| (host, port))) {
            let mut frame = tcp4(b"", 0);
            (frame[33], frame[35]) = (host, port);
            seen.insert(read_seeded(&frame, seed).flow % 65_536);
        }
        assert!(seen.len() > 1900, "{} buckets for 2000 flows", seen.len());
    }
}

#[test]
fn a_tag_goes_in_behind_the_addresses() {
    let frame = tcp4(b"tagged", 0);
    let mut out = vec![0; frame.len() + 4];
    vlan::insert(&mut out, &frame, 0x88a8, 0x2005).unwrap();
    let tag = vlan::tags(&out).next().unwrap();
    assert_eq!((tag.id, tag.priority, out[12..14] == [0x88, 0xa8]), (5, 1, true));
    assert_eq!(read(&out).flow, read(&frame).flow);
    assert_eq!(out[..12], frame[..12]);
    assert_eq!(vlan::insert(&mut out[1..], &frame, 0x88a8, 5), Err(TooShort));
    assert_eq!(vlan::insert(&mut out[..15], &frame[..11], 0x88a8, 5), Err(TooShort));
}

#[test]
fn the_head_of_a_frame_says_what_a_peek_finds() {
    let mut frame = tcp4(b"payload", 0xb8);
    let head = Head::read(&frame).unwrap();
    let found = peek(&frame).unwrap();
    assert!(head.is_untagged_ipv4() && *head.destination() == [2; 6]);
    assert_eq!(
        (14, head.ipv4_traffic_class(), head.ipv4_len()),
        (found.network, found.traffic_class, found.len)
    );
    assert_eq!(found.len, frame.len() - 14);
    // A header that says more than there is.
    frame[16] = 0xff;
    assert_eq!(peek(&frame).map(|found| found.len), Some(frame.len() - 14));
    let mut tagged = vec![0; frame.len() + 4];
    vlan::insert(&mut tagged, &frame, 0x8100, 5).unwrap();
    assert!(!Head::read(&tagged).unwrap().is_untagged_ipv4());
    assert_eq!(peek(&tagged).map(|found| (found.network, found.traffic_class)), Some((18, 0xb8)));
    assert_eq!((Head::read(&frame[..33]), peek(&frame[..33])), (None, None));
    frame[14] = 0x65;
    assert_eq!(peek(&frame), None, "another version than the type field says");
}
