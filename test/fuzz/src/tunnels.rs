//! Scripts for the user plane: messages of tunnels, and whole frames among sessions that come and go.

use crate::bytes::Script;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use weir_config::AqmConfig;
use weir_units::Time;
use weir_upf::filter::{Endpoint, Filter, PortRange, Prefix};
use weir_upf::plane::memory::{Here, Memory};
use weir_upf::plane::{Io, PlaneHandle, PlaneSetup, PortInterface, PortSetup, Profile, UserPlane};
use weir_upf::rules::*;
use weir_wire::{ethernet, gtpu, ipv4, tunnel, udp};

/// Most frames of a script that wait or are under way.
const FRAMES: u32 = 256;
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// A message whose parts are what a script says: flags, type, a chain of extension headers, elements; then
/// some octets are others.
fn message(script: &mut Script) -> Vec<u8> {
    let flags = 0x30 | script.byte_or_zero() & 7;
    let kind = [255, 1, 2, 26, 31, 254, 99][usize::from(script.byte_or_zero() % 7)];
    let mut message = vec![flags, kind, 0, 0, 0, 0, 0x10, script.byte_or_zero() % 4];
    if flags & 7 != 0 {
        let kinds = [0x85, 0x20, 0x40, 0xc0, 0x84, 0x03];
        let count = script.byte_or_zero() % 10;
        message.extend([0, script.byte_or_zero(), 0]);
        for _ in 0..count {
            message.push(kinds[usize::from(script.byte_or_zero()) % kinds.len()]);
            let units = 1 + script.byte_or_zero() % 3;
            message.push(units);
            let content = script.some(usize::from(units) * 4 - 2).to_vec();
            let len = message.len() + usize::from(units) * 4 - 2;
            message.extend(content);
            message.resize(len, 0x10);
        }
        message.push(0);
    }
    message.extend(packet(script));
    let len = (message.len() - 8) as u16;
    message[2..4].copy_from_slice(&len.to_be_bytes());
    for _ in 0..script.byte_or_zero() % 3 {
        let at = usize::from(script.number()) % message.len();
        message[at] = script.byte_or_zero();
    }
    message
}

/// An IPv4 packet of a user, nearly always a right one.
fn packet(script: &mut Script) -> Vec<u8> {
    let len = 28 + usize::from(script.number() % 200);
    let mut packet = vec![0; len];
    packet[..10].copy_from_slice(&[
        0x45,
        0,
        0,
        len as u8,
        0,
        0,
        0,
        0,
        64,
        [17, 6, 1][usize::from(script.byte_or_zero() % 3)],
    ]);
    packet[2] = (len >> 8) as u8;
    packet[1] = script.byte_or_zero() & 3;
    packet[8] = 1 + script.byte_or_zero() % 3;
    packet[12..20].copy_from_slice(&[
        10,
        45,
        0,
        script.byte_or_zero() % 4,
        10,
        45,
        0,
        script.byte_or_zero() % 4,
    ]);
    (packet[21], packet[23]) = (script.byte_or_zero() % 8, script.byte_or_zero() % 8);
    packet
}

/// Messages are read within their bounds; a packet is written again as it was read.
pub fn gtpu(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let message =
        if script.byte_or_zero().is_multiple_of(4) { script.rest().to_vec() } else { message(&mut script) };
    match gtpu::read(&message) {
        Ok(gtpu::Message::Packet(found)) => {
            assert!(found.start <= found.end && found.end <= message.len());
            let container = found.container.map(|c| (c.way, c.qfi));
            let head = gtpu::header_len(container.is_some());
            let mut again = vec![0; head];
            let len = (found.end - found.start) as u16;
            gtpu::write_header(&mut again, found.teid, container, len).expect("there is room");
            again.extend(&message[found.start..found.end]);
            let Ok(gtpu::Message::Packet(second)) = gtpu::read(&again) else { panic!("{again:02x?}") };
            assert_eq!((second.teid, second.container, second.start), (found.teid, found.container, head));
            assert_eq!(again[second.start..second.end], message[found.start..found.end]);
        }
        Ok(gtpu::Message::ErrorIndication { teid, peer }) => {
            let mut again = [0; gtpu::SIGNALLING_MAX];
            let len = gtpu::write_error_indication(&mut again, teid, peer).expect("there is room");
            assert_eq!(gtpu::read(&again[..len]), Ok(gtpu::Message::ErrorIndication { teid, peer }));
        }
        _ => {}
    }
}

fn port(name: &str, own: [u8; 4], neighbour: IpAddr) -> PortSetup {
    PortSetup {
        name: name.into(),
        addresses: vec![(Ipv4Addr::from(own).into(), 24)],
        gateways: vec![neighbour],
        neighbours: vec![(neighbour, [2, 0, 0, 0, 0, 9])],
        rate: None,
    }
}

fn setup() -> PlaneSetup {
    let access = port("n3", [192, 0, 2, 1], STATION.into());
    let core = port("n6", [203, 0, 113, 1], Ipv4Addr::new(203, 0, 113, 2).into());
    let mut setup = PlaneSetup::new(access, core, 7);
    setup.local = Some(port("local", [10, 9, 0, 1], Ipv4Addr::new(10, 9, 0, 2).into()));
    (setup.sessions, setup.queues, setup.learners, setup.packets) = (3, 5, 2, 64);
    setup.profiles.insert(5, Profile::of(AqmConfig::new("gsp").expect("the list has GSP")));
    setup
}

/// The same for both directions.
fn both<T: Copy>(value: T) -> PerDirection<T> {
    PerDirection { up: value, down: value }
}

/// A session with rules that overlap, may contradict each other, and may be refused.
fn session(script: &mut Script) -> Session {
    let number = u32::from(script.byte_or_zero() % 4);
    let sides = [Side::Access, Side::Core, Side::Local];
    let range = |script: &mut Script| {
        let first = u16::from(script.byte_or_zero() % 8);
        PortRange { first, last: first + u16::from(script.byte_or_zero() % 4) }
    };
    let filter = |script: &mut Script| {
        let prefix =
            Prefix { address: Ipv4Addr::new(10, 45, 0, 0).into(), length: script.byte_or_zero() % 33 };
        let end = |script: &mut Script| Endpoint {
            prefix: (script.byte_or_zero().is_multiple_of(2)).then_some(prefix),
            ports: (0..script.byte_or_zero() % 3).map(|_| range(script)).collect(),
        };
        let protocol = [None, Some(17), Some(6)][usize::from(script.byte_or_zero() % 3)];
        Filter { protocol, remote: end(script), local: end(script), ..Filter::default() }
    };
    let mut pdrs = Vec::new();
    for id in 0..script.byte_or_zero() % 6 {
        let from = sides[usize::from(script.byte_or_zero() % 3)];
        let is_up = from == Side::Access;
        let end = if is_up { End::Source } else { End::Destination };
        let v4 = Some(Ipv4Addr::new(10, 45, 0, number as u8));
        pdrs.push(Pdr {
            id: u16::from(id),
            precedence: u32::from(script.byte_or_zero() % 4),
            from,
            tunnel: is_up.then_some(LocalTunnel { teid: 0x1000 + number, v4: None, v6: None }),
            ue: Some(UeAddress { v4, v6: None, end }),
            filters: (0..script.byte_or_zero() % 3).map(|_| filter(script)).collect(),
            qfis: (0..script.byte_or_zero() % 2).map(|_| 16).collect(),
            removal: is_up.then_some(Removal::GtpUdpIp),
            far: Some(u32::from(script.byte_or_zero() % 4)),
            qers: (0..script.byte_or_zero() % 3).map(|_| u32::from(script.byte_or_zero() % 3)).collect(),
        });
    }
    let fars = (0..4).map(|id| {
        let to = sides[usize::from(script.byte_or_zero() % 3)];
        let tunnel = (to == Side::Access).then_some(RemoteTunnel {
            teid: 7 + id,
            address: STATION.into(),
            port: 2152,
        });
        let action = [Action::Drop, Action::Buffer { tell: true }, Action::Forward, Action::Forward]
            [usize::from(script.byte_or_zero() % 4)];
        Far { id, action, forward: Some(Forward { to, tunnel, dscp: None }) }
    });
    let fars = fars.collect();
    let qers = (0..3).map(|id| {
        let rate = script.magnitude(20);
        Qer {
            id,
            correlation: None,
            open: both(!script.byte_or_zero().is_multiple_of(8)),
            mbr: (script.byte_or_zero().is_multiple_of(2)).then_some(both(rate)),
            gbr: (script.byte_or_zero().is_multiple_of(4)).then_some(both(rate / 2)),
            qfi: (script.byte_or_zero().is_multiple_of(2)).then_some(5 + id as u8),
        }
    });
    let mut session = Session {
        seid: 1 + u64::from(number),
        pdrs,
        fars,
        qers: qers.collect(),
        inactivity: None,
        meters: Box::default(),
    };
    session.order();
    session
}

/// Whatever comes, no frame is lost or made up: when all sessions are over, all memory is free. What is
/// refused leaves no trace, and packets in tunnels go out with right headers.
pub fn user_plane(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let setup = setup();
    let cards = [1, 2, 3].map(|n| PortInterface { address: [2, 0, 0, 0, 0, n], mtu: 1500 });
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO).expect("the setup is a right one");
    let memory = Memory::new(FRAMES).expect("there is memory for a few frames");
    let mut desk = PlaneHandle::new(setup, Here { plane, memory, now: Time::ZERO });
    let mut there = std::collections::BTreeSet::new();
    while let Some(choice) = script.byte() {
        match choice % 8 {
            0 => {
                let session = session(&mut script);
                let seid = session.seid;
                let done = if there.contains(&seid) {
                    desk.modify(Arc::new(session), &[]).map(drop)
                } else {
                    desk.establish(Arc::new(session))
                };
                there.extend(done.ok().map(|()| seid));
            }
            1 => {
                let seid = 1 + u64::from(script.byte_or_zero() % 4);
                assert_eq!(desk.remove(seid).is_ok(), there.remove(&seid));
            }
            2 => {
                let Here { plane, memory, now } = desk.reach();
                *now += script.wait();
                plane.turn(*now, memory);
            }
            3 => desk.reach().memory.room = [usize::from(script.byte_or_zero()); 4],
            way => comes(&mut desk, way, &mut script),
        }
        sent(&mut desk.reach().memory);
        while desk.event().is_some() {}
    }
    there.into_iter().for_each(|seid| {
        desk.remove(seid).expect("it is there");
    });
    let memory = &mut desk.reach().memory;
    let free = std::iter::from_fn(|| memory.take(60)).count();
    assert_eq!(free, FRAMES as usize, "frames were lost or made up");
}

fn comes(desk: &mut PlaneHandle<Here>, way: u8, script: &mut Script) {
    let (port, ip) = match way % 4 {
        0 => (0, script.some(64).to_vec()),
        1 | 2 => (0, datagram(&message(script))),
        _ => (1 + usize::from(script.byte_or_zero() % 2), packet(script)),
    };
    let kind: [u8; 2] = [[8, 0], [8, 6], [0x86, 0xdd]]
        [usize::from(if way.is_multiple_of(4) { script.byte_or_zero() % 3 } else { 0 })];
    let frame = [&[2; 12][..], &kind[..], &ip[..]].concat();
    let Here { plane, memory, now } = desk.reach();
    // What waits in queues is bounded, so that there is a frame for each that comes.
    let frame = memory.frame(&frame);
    plane.receive(port, frame, *now, memory);
}

/// A message in UDP and IPv4, without the checksum of UDP.
fn datagram(message: &[u8]) -> Vec<u8> {
    let mut packet = [&[0; ipv4::HEADER_MIN + udp::HEADER_LEN][..], message].concat();
    let header = ipv4::Header {
        payload_len: (udp::HEADER_LEN + message.len()) as u16,
        protocol: weir_wire::ip::UDP,
        ..ipv4::Header::new(STATION.octets(), [192, 0, 2, 1])
    };
    let at = header.write(&mut packet).expect("there is room");
    let ports = udp::Header { source: gtpu::PORT, destination: gtpu::PORT };
    ports.write_without_checksum(&mut packet[at..]).expect("there is room");
    packet
}

/// Takes what was sent; tunnels are right.
fn sent(memory: &mut Memory) {
    for (port, frame) in std::mem::take(&mut memory.sent) {
        let bytes = memory.bytes(frame);
        if port == 0 && ethernet::ethertype(bytes) == Some(ethernet::IPV4) {
            let datagram = tunnel::read(&bytes[14..]).expect("headers of tunnels are right");
            gtpu::read(&bytes[14 + datagram.start..14 + datagram.end]).expect("messages are right");
        }
        memory.give(frame);
    }
}
