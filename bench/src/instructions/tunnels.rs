//! Packets of users through the user plane: out of tunnels and into them, where the last of 16 rules matches. Beside them the
//! same packets are forwarded plainly: their headers are read, and they wait under the same algorithm.

use crate::error::{Error, Result};
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_aqm::algorithms::codel::{CoDel, Params};
use weir_aqm::{Algorithm, Packet};
use weir_dataplane::Frame;
use weir_queue::{Arrival, Hosts, Pooled, Store};
use weir_scenario::AqmConfig;
use weir_units::{Bytes, Duration, Rate, Time};
use weir_upf::filter::{Endpoint, Filter, PortRange};
use weir_upf::plane::memory::{Here, Memory};
use weir_upf::plane::{
    ACCESS, CORE, Card, DELAY_MAX, Desk, Io, PlaneSetup, PortSetup, Profile, UserPlane, gtpu,
};
use weir_upf::rules::*;

/// Most instructions of one packet that are demanded; plain forwarding takes about as many.
pub const DEMANDED: f64 = 400.0;

/// Most instructions of one packet that a build such as this one takes, also where that misses what is demanded.
pub fn ceiling(way: Way) -> f64 {
    let (release, dev) = match way {
        Way::Up => (1300.0, 2400.0),
        Way::Down => (1100.0, 2400.0),
        Way::Plain => (DEMANDED, 1100.0),
    };
    if cfg!(debug_assertions) { dev } else { release }
}

/// Rules of the session each way; none but the last has the packet's port.
const RULES: u16 = 16;
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 5);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// Length of a user's packet.
const LEN: usize = 1400;

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// Out of a tunnel.
    Up,
    /// Into a tunnel.
    Down,
    /// From one port to the other, without tunnels, users and rules.
    Plain,
}

/// All ways.
pub const WAYS: [Way; 3] = [Way::Up, Way::Down, Way::Plain];

/// The name of a way on the command line; without one, the loop alone.
pub fn name(way: Option<Way>) -> &'static str {
    match way {
        Some(Way::Up) => "up",
        Some(Way::Down) => "down",
        Some(Way::Plain) => "plain",
        None => "none",
    }
}

/// Lets so many packets pass, each alone: it goes into its queue and, because its rate allows it, out at once.
pub fn run(way: &str, packets: u64) -> Result<()> {
    let mut desk = desk()?;
    let mut forwarder = Forwarder::new();
    desk.establish(Arc::new(session())).map_err(|refusal| Error::new(refusal.to_string()))?;
    let (port, bytes) = match way {
        "up" => (ACCESS, frame(&tunnelled(&packet(UE, SERVER, (9, 5015))))),
        "down" | "plain" | "none" => (CORE, frame(&packet(SERVER, UE, (5015, 9)))),
        _ => return Err(Error::new("there is no such way")),
    };
    let Here { plane, memory, now } = desk.reach();
    let frame = memory.frame(&bytes);
    for _ in 0..packets {
        *now += Duration::from_micros(2);
        // The packet changes on its way, and so does where it begins.
        memory.bytes(frame)[..96].copy_from_slice(&bytes[..96]);
        match way {
            "none" => memory.sent.push((port, frame)),
            "plain" => forwarder.forward(port, frame, *now, memory),
            _ => plane.receive(port, frame, *now, memory),
        }
        if memory.sent.pop().is_none() {
            return Err(Error::new("a packet did not come through"));
        }
    }
    Ok(())
}

/// A bump in the wire.
struct Forwarder {
    store: Store<Frame>,
    queue: Pooled<CoDel>,
}

impl Forwarder {
    fn new() -> Forwarder {
        let codel = CoDel::new(&Params::default(), Time::ZERO);
        let queue = Pooled::new(codel, (), Rate::from_mbps(10_000), 7);
        Forwarder { store: Store::new(1024), queue }
    }

    #[inline(never)]
    fn forward(&mut self, port: usize, frame: Frame, now: Time, memory: &mut Memory) {
        let headers = weir_dataplane::read(memory.bytes(frame));
        let len = Bytes::new(u64::from(frame.len));
        let arrival = Arrival { len, flow: headers.flow, hosts: Hosts::UNKNOWN, ecn: headers.ecn };
        let (store, free) = (&mut self.store, &mut |_: &Packet, _, _| {});
        self.queue.enqueue(store, Bytes::new(1 << 20), now, arrival, frame, free);
        if let Some(departure) = self.queue.dequeue(store, now, free) {
            if departure.marked {
                weir_dataplane::mark(memory.bytes(frame), headers.kind, headers.network);
            }
            memory.push(port, departure.item);
        }
    }
}

fn desk() -> Result<Desk<Here>> {
    let port = |own: Ipv4Addr, neighbour: Ipv4Addr| PortSetup {
        name: "port".into(),
        addresses: vec![(own.into(), 24)],
        gateways: vec![neighbour.into()],
        neighbours: vec![(neighbour.into(), [2; 6])],
        rate: None,
    };
    let mut setup = PlaneSetup::new(port(N3, STATION), port(Ipv4Addr::new(203, 0, 113, 1), ROUTER), 7);
    let codel = Profile::of(AqmConfig::new("codel").expect("the list has CoDel"));
    setup.profile = Profile { bound: Some(DELAY_MAX), ..codel };
    (setup.sessions, setup.queues, setup.learners, setup.packets) = (16, 16, 1, 1024);
    let cards = [Card { address: [4; 6], mtu: 1500 }; 2];
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO).map_err(Error::new)?;
    let memory = Memory::new(1024).map_err(|error| Error::new(error.to_string()))?;
    Ok(Desk::new(setup, Here { plane, memory, now: Time::from_nanos(1_000_000_000) }))
}

fn session() -> Session {
    let mut pdrs = Vec::new();
    for number in 0..2 * RULES {
        let (at, from) = (number / 2, if number % 2 == 0 { Side::Access } else { Side::Core });
        let is_up = from == Side::Access;
        let ports = Box::new([PortRange { first: 5000 + at, last: 5000 + at }]);
        let filter =
            Filter { remote: Endpoint { prefix: None, ports }, protocol: Some(17), ..Filter::default() };
        let end = if is_up { End::Source } else { End::Destination };
        pdrs.push(Pdr {
            id: number,
            precedence: u32::from(number),
            from,
            tunnel: is_up.then_some(LocalTunnel { teid: 0x1005, v4: Some(N3), v6: None }),
            ue: Some(UeAddress { v4: Some(UE), v6: None, end }),
            filters: Box::new([filter]),
            qfis: Box::new([]),
            removal: is_up.then_some(Removal::GtpUdpIp),
            far: Some(u32::from(number % 2)),
            qers: Box::new([1, 2]),
        });
    }
    let tunnel = RemoteTunnel { teid: 0x2005, address: STATION.into(), port: 2152 };
    let forward = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    let both = |value| PerDirection { up: value, down: value };
    let open = PerDirection { up: true, down: true };
    let qer = |id, mbr, qfi| Qer { id, correlation: None, open, mbr, gbr: None, qfi };
    Session {
        seid: 5,
        pdrs,
        fars: vec![forward(0, Side::Core, None), forward(1, Side::Access, Some(tunnel))],
        qers: vec![qer(1, Some(both(10_000_000)), None), qer(2, None, Some(9))],
        inactivity: None,
        meters: Box::default(),
    }
}

fn ipv4(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = (28 + payload.len()) as u16;
    let mut ip = vec![0; 28];
    (ip[0], ip[8], ip[9]) = (0x45, 64, 17);
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    ip[20..22].copy_from_slice(&ports.0.to_be_bytes());
    ip[22..24].copy_from_slice(&ports.1.to_be_bytes());
    ip[24..26].copy_from_slice(&(len - 20).to_be_bytes());
    ip.extend(payload);
    ip
}

fn packet(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16)) -> Vec<u8> {
    ipv4(from, to, ports, &[0x5a; LEN - 28])
}

fn tunnelled(inner: &[u8]) -> Vec<u8> {
    let mut message = vec![0; gtpu::header_len(true)];
    gtpu::write_header(&mut message, 0x1005, Some((gtpu::Way::Up, 9)), inner.len() as u16);
    message.extend(inner);
    ipv4(STATION, N3, (gtpu::PORT, gtpu::PORT), &message)
}

fn frame(packet: &[u8]) -> Vec<u8> {
    [&[4u8; 6][..], &[2; 6], &[8, 0], packet].concat()
}
