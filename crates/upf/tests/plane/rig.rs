//! A user plane with ports that lead nowhere, and packets for it.

use etherparse::PacketBuilder;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use weir_config::AqmConfig;
use weir_units::{Duration, Time};
use weir_upf::plane::memory::{Here, Memory};
use weir_upf::plane::{
    ACCESS, Cause, Io, PlaneHandle, PlaneSetup, PortInterface, PortSetup, Profile, UserPlane,
};
use weir_upf::rules::*;
use weir_wire::{gtpu, tunnel};

pub const STATION: [u8; 6] = [2, 0, 0, 0, 0, 10];
pub const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 20];
pub const OWN: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

fn port(name: &str, addresses: &[&str], gateway: &str, card: [u8; 6]) -> PortSetup {
    let gateway: IpAddr = gateway.parse().unwrap();
    PortSetup {
        name: name.into(),
        addresses: addresses
            .iter()
            .map(|a| (a.parse().unwrap(), if a.contains(':') { 64 } else { 24 }))
            .collect(),
        gateways: vec![gateway],
        neighbours: vec![
            (gateway, card),
            ("192.0.2.2".parse().unwrap(), card),
            ("192.0.2.3".parse().unwrap(), card),
            ("2001:db8::2".parse().unwrap(), card),
        ],
        rate: None,
    }
}

/// Everything waits under CoDel, and little of anything is allotted.
pub fn setup() -> PlaneSetup {
    let access = port("n3", &["192.0.2.1", "2001:db8::1"], "192.0.2.254", STATION);
    let core = port("n6", &["203.0.113.1", "2001:db8:6::1"], "203.0.113.254", ROUTER);
    let mut core = core;
    core.gateways.push("2001:db8:6::fe".parse().unwrap());
    core.neighbours.push(("2001:db8:6::fe".parse().unwrap(), ROUTER));
    let mut setup = PlaneSetup::new(access, core, 7);
    setup.local = Some(port("n6l", &["10.9.0.1"], "10.9.0.254", ROUTER));
    setup.profile = Profile::of(AqmConfig::new("codel").unwrap());
    (setup.sessions, setup.queues, setup.packets) = (64, 32, 8192);
    setup
}

pub struct Rig(pub PlaneHandle<Here>);

impl Rig {
    pub fn new(setup: PlaneSetup) -> Rig {
        Rig::with_mtu(setup, 1500)
    }

    pub fn with_mtu(setup: PlaneSetup, mtu: u32) -> Rig {
        let cards = OWN.map(|address| PortInterface { address, mtu });
        let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO).unwrap();
        let memory = Memory::new(setup.packets + 1024).unwrap();
        Rig(PlaneHandle::new(setup, Here { plane, memory, now: Time::from_nanos(1_000_000_000) }))
    }

    pub fn here(&mut self) -> &mut Here {
        self.0.reach()
    }

    pub fn establish(&mut self, session: Session) {
        self.0.establish(Arc::new(session)).unwrap();
    }

    /// An IP packet comes in at a port, in a frame.
    pub fn comes(&mut self, port: usize, packet: &[u8]) {
        let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        let from = if port == ACCESS { STATION } else { ROUTER };
        let bytes = [&OWN[port][..], &from[..], &kind[..], packet].concat();
        let Here { plane, memory, now } = self.here();
        let frame = memory.frame(&bytes);
        plane.receive(port, frame, *now, memory);
    }

    pub fn passes(&mut self, time: Duration) {
        let Here { plane, memory, now } = self.here();
        let end = *now + time;
        while *now < end {
            // As a packet loop that is never late.
            *now = plane.next_event(*now).max(*now + Duration::from_micros(20)).min(end);
            plane.turn(*now, memory);
        }
    }

    /// What was sent since the last call: port, and the frame.
    pub fn sent(&mut self) -> Vec<(usize, Vec<u8>)> {
        let memory = &mut self.here().memory;
        let sent = std::mem::take(&mut memory.sent);
        let bytes = |(port, frame): (usize, _)| {
            let bytes = memory.bytes(frame).to_vec();
            memory.give(frame);
            (port, bytes)
        };
        sent.into_iter().map(bytes).collect()
    }

    /// The same, taken out of its frames and tunnels; with the QoS flow.
    pub fn packets(&mut self) -> Vec<(usize, Option<u8>, Vec<u8>)> {
        let open = |(port, frame): (usize, Vec<u8>)| {
            if port != ACCESS {
                return (port, None, frame[14..].to_vec());
            }
            let (_, qfi, inner) = opened(&frame);
            (port, qfi, inner)
        };
        self.sent().into_iter().map(open).collect()
    }

    /// What was sent to base stations since the last call: tunnel, QoS flow, and packet.
    pub fn tunnelled(&mut self) -> Vec<(u32, Option<u8>, Vec<u8>)> {
        let to_access = self.sent().into_iter().filter(|(port, _)| *port == ACCESS);
        to_access.map(|(_, frame)| opened(&frame)).collect()
    }

    pub fn count(&mut self, cause: Cause) -> u64 {
        self.here().plane.faults().of(cause)
    }
}

/// What is in a frame to a base station: tunnel, QoS flow, and packet.
fn opened(frame: &[u8]) -> (u32, Option<u8>, Vec<u8>) {
    let packet = &frame[14..];
    let datagram = tunnel::read(packet).unwrap();
    match gtpu::read(&packet[datagram.start..datagram.end]) {
        Ok(gtpu::Message::Packet(found)) => {
            let inner = packet[datagram.start + found.start..datagram.start + found.end].to_vec();
            (found.teid, found.container.map(|c| c.qfi), inner)
        }
        other => panic!("{other:?}"),
    }
}

pub fn ue(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a2d_0000 + number)
}

pub fn udp(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(from.octets(), to.octets(), 64).udp(ports.0, ports.1);
    builder.write(&mut packet, &vec![0x5a; len - 28]).unwrap();
    packet
}

/// A packet as a base station sends it.
pub fn tunnelled(teid: u32, qfi: Option<u8>, inner: &[u8]) -> Vec<u8> {
    tunnelled_from([192, 0, 2, 2], teid, qfi, inner)
}

/// The same of another base station.
pub fn tunnelled_from(station: [u8; 4], teid: u32, qfi: Option<u8>, inner: &[u8]) -> Vec<u8> {
    let container = qfi.map(|qfi| (gtpu::Way::Up, qfi));
    let mut message = vec![0; gtpu::header_len(container.is_some())];
    gtpu::write_header(&mut message, teid, container, inner.len() as u16).unwrap();
    message.extend(inner);
    datagram_from(station, &message)
}

pub fn datagram(message: &[u8]) -> Vec<u8> {
    datagram_from([192, 0, 2, 2], message)
}

fn datagram_from(station: [u8; 4], message: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(station, [192, 0, 2, 1], 64).udp(2152, 2152);
    builder.write(&mut packet, message).unwrap();
    packet
}

pub fn both<T: Copy>(value: T) -> PerDirection<T> {
    PerDirection { up: value, down: value }
}

pub fn qer(id: u32, mbr: Option<u64>, gbr: Option<u64>, qfi: Option<u8>) -> Qer {
    Qer { id, correlation: None, open: both(true), mbr: mbr.map(both), gbr: gbr.map(both), qfi }
}

pub fn pdr(id: u16, from: Side, number: u32, far: u32, qers: &[u32]) -> Pdr {
    let is_up = from == Side::Access;
    let tunnel = LocalTunnel { teid: 0x1000 + number, v4: Some(Ipv4Addr::new(192, 0, 2, 1)), v6: None };
    Pdr {
        id,
        precedence: 100 + u32::from(id),
        from,
        tunnel: is_up.then_some(tunnel),
        ue: Some(UeAddress {
            v4: Some(ue(number)),
            v6: None,
            end: if is_up { End::Source } else { End::Destination },
        }),
        filters: Box::new([]),
        qfis: Box::new([]),
        removal: is_up.then_some(Removal::GtpUdpIp),
        far: Some(far),
        qers: qers.into(),
    }
}

pub fn remote(number: u32) -> RemoteTunnel {
    RemoteTunnel { teid: 0x2000 + number, address: Ipv4Addr::new(192, 0, 2, 2).into(), port: 2152 }
}

pub fn forward(id: u32, to: Side, tunnel: Option<RemoteTunnel>) -> Far {
    Far::forwarding(id, Forward { to, tunnel, dscp: None })
}

/// A session with one non-GBR flow: PDR and FAR 1 up, 2 down; QER 1 the aggregate, QER 2 names QFI 9.
pub fn session(number: u32, ambr_kbps: Option<u64>) -> Session {
    Session {
        seid: u64::from(number),
        pdrs: vec![pdr(1, Side::Access, number, 1, &[1, 2]), pdr(2, Side::Core, number, 2, &[1, 2])],
        fars: vec![forward(1, Side::Core, None), forward(2, Side::Access, Some(remote(number)))],
        qers: vec![qer(1, ambr_kbps, None, None), qer(2, None, None, Some(9))],
        inactivity: None,
        meters: Box::default(),
    }
}
