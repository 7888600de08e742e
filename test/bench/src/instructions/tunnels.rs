//! Packets of users through the user plane: out of tunnels and into them, where the last of 16 rules matches.
//! Beside them the same packets are forwarded plainly: their headers are read, and they wait under the same
//! algorithm.
//!
//! What a packet takes depends on what its session asks for, so that several readings stand beside each other
//! ([`Case`]).

use crate::error::{Error, Result};
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_aqm::algorithms::codel::{CoDel, Params};
use weir_aqm::{Algorithm, Packet};
use weir_config::AqmConfig;
use weir_dataplane::Frame;
use weir_queue::{Arrival, Hosts, Pooled, Store};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_upf::filter::{Endpoint, Filter, PortRange};
use weir_upf::plane::memory::{Here, Memory};
use weir_upf::plane::{
    ACCESS, CORE, DELAY_MAX, Io, PlaneHandle, PlaneSetup, PortInterface, PortSetup, Profile, UserPlane,
};
use weir_upf::rules::*;
use weir_wire::{ethernet, gtpu, ipv4, udp};

/// Most instructions of one packet that are demanded; plain forwarding takes about as many.
pub const DEMANDED: f64 = 400.0;

/// Most instructions of one packet that a build such as this one takes, also where that is more than what is
/// demanded. Of development builds the incremental one, which divides crates into more parts, takes up to a
/// tenth more than the other.
pub fn ceiling(way: Way) -> f64 {
    let (release, dev) = match way {
        Way::Up(Case::Free) => (DEMANDED, 1180.0),
        Way::Down(Case::Free) => (DEMANDED, 1370.0),
        Way::Up(Case::Rate) => (DEMANDED, 1280.0),
        Way::Down(Case::Rate) => (DEMANDED, 1465.0),
        Way::Up(Case::Learning) => (1150.0, 2350.0),
        Way::Down(Case::Learning) => (1250.0, 2820.0),
        // Each flow waits in a FIFO of its own; in one for all these were 1800, 3640 and 3780.
        Way::Up(Case::Waiting) => (2750.0, 5330.0),
        Way::Down(Case::Waiting) => (2750.0, 5460.0),
        Way::Plain => (DEMANDED, 1100.0),
    };
    if cfg!(debug_assertions) { dev } else { release }
}

/// Packets of the shorter of two counted runs: there is no state that takes long to settle.
pub const PACKETS: u64 = 1 << 13;

/// Rules of the session each way; none but the last has the packet's port.
const RULES: u16 = 16;
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 5);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// Length of a user's packet.
const LEN: usize = 1400;
/// How often one comes.
const EVERY: Duration = Duration::from_nanos(2240);
/// Packets that are before one that waits.
const AHEAD: u64 = 3;

/// What packets meet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Case {
    /// No rate is enforced: what is left is GTP-U, the rules and forwarding.
    Free,
    /// An aggregate rate that is not used up, CoDel and the bound of its delay.
    Rate,
    /// The same with the queue of which nothing is said: vAQM that looks for a bottleneck behind the base
    /// station.
    Learning,
    /// An aggregate rate that is used up: every packet is stored, behind others, and leaves when it may.
    Waiting,
}

/// All cases.
const CASES: [Case; 4] = [Case::Free, Case::Rate, Case::Learning, Case::Waiting];

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Free => "free",
            Case::Rate => "rate",
            Case::Learning => "learning",
            Case::Waiting => "waiting",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Case::Free => "no rate",
            Case::Rate => "AMBR not used up, CoDel",
            Case::Learning => "AMBR not used up, vAQM",
            Case::Waiting => "AMBR used up, CoDel",
        }
    }

    /// Aggregate of the session, in kbit/s.
    fn rate(self) -> Option<u64> {
        match self {
            Case::Free => None,
            Case::Rate | Case::Learning => Some(10_000_000),
            // As much as comes.
            Case::Waiting => Some(LEN as u64 * 8 * 1_000_000 / EVERY.as_nanos()),
        }
    }

    fn profile(self) -> Profile {
        let codel = Profile::of(AqmConfig::new("codel").expect("the list has CoDel"));
        let bounded = Profile { bound: Some(DELAY_MAX), ..codel };
        if self == Case::Learning { Profile { follow: true, ..bounded } } else { bounded }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// Out of a tunnel.
    Up(Case),
    /// Into a tunnel.
    Down(Case),
    /// From one port to the other, without tunnels, users and rules.
    Plain,
}

/// All of it.
pub fn ways() -> impl Iterator<Item = Way> {
    CASES.into_iter().flat_map(|case| [Way::Up(case), Way::Down(case)]).chain([Way::Plain])
}

/// The name of a way on the command line; without one, the loop alone.
pub fn name(way: Option<Way>) -> String {
    match way {
        Some(Way::Up(case)) => format!("up,{}", case.name()),
        Some(Way::Down(case)) => format!("down,{}", case.name()),
        Some(Way::Plain) => "plain".into(),
        None => "none".into(),
    }
}

/// The same in words.
pub fn title(way: Option<Way>) -> String {
    let of = |direction, case: Case| format!("{direction}, {}", case.title());
    match way {
        Some(Way::Up(case)) => of("up", case),
        Some(Way::Down(case)) => of("down", case),
        other => name(other),
    }
}

/// Lets so many packets pass. Each goes into its queue and, because its rate allows it, out at once; but for
/// [`Case::Waiting`], where one that came before it goes.
pub fn run(name_of_way: &str, packets: u64) -> Result<()> {
    let way = ways().map(Some).chain([None]).find(|way| name(*way) == name_of_way);
    let way = way.ok_or_else(|| Error::new("there is no such way"))?;
    let case = match way {
        Some(Way::Up(case) | Way::Down(case)) => case,
        _ => Case::Free,
    };
    let mut desk = desk(case)?;
    let mut forwarder = Forwarder::new();
    desk.establish(Arc::new(session(case))).map_err(|refusal| Error::new(refusal.to_string()))?;
    let (port, bytes) = match way {
        Some(Way::Up(_)) => (ACCESS, frame(&tunnelled(&packet(UE, SERVER, (9, 5015))))),
        _ => (CORE, frame(&packet(SERVER, UE, (5015, 9)))),
    };
    let Here { plane, memory, now } = desk.reach();
    let frames = [(); AHEAD as usize + 2].map(|()| memory.frame(&bytes));
    let ahead = if case == Case::Waiting { AHEAD } else { 0 };
    let mut through = 0;
    for number in 0..ahead + packets {
        // The first ones come together, and the others behind them.
        *now += if number < ahead { Duration::ZERO } else { EVERY };
        let frame = frames[number as usize % frames.len()];
        // The packet changes on its way, and so does where it begins.
        memory.bytes(frame)[..96].copy_from_slice(&bytes[..96]);
        match way {
            None => memory.sent.push((port, frame)),
            Some(Way::Plain) => forwarder.forward(port, frame, *now, memory),
            Some(_) => plane.receive(port, frame, *now, memory),
        }
        through += u64::from(memory.sent.pop().is_some());
    }
    // Not one by one: rates are exact to a millionth, so that sooner or later one that is due when the next
    // comes is due a nanosecond after that, and leaves with the one behind it. The first of those ahead
    // left at once.
    if through < packets {
        return Err(Error::new(format!("of {packets} packets {through} came through")));
    }
    Ok(())
}

/// A bump in the wire.
struct Forwarder {
    store: Store<Frame, CoDel>,
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
        let headers = weir_wire::frame::read(memory.bytes(frame));
        let len = Bytes::new(u64::from(frame.len));
        let arrival =
            Arrival { len, flow: headers.flow, hosts: Hosts::UNKNOWN, ecn: headers.ecn, nqb: false };
        let (store, free) = (&mut self.store, &mut |_: &Packet, _, _| {});
        self.queue.enqueue(store, Bytes::new(1 << 20), now, arrival, frame, free);
        if let Some(departure) = self.queue.dequeue(store, now, |_| true, free) {
            if departure.marked {
                weir_wire::frame::mark(memory.bytes(frame), headers.kind, headers.network);
            }
            memory.push(port, departure.item);
        }
    }
}

fn desk(case: Case) -> Result<PlaneHandle<Here>> {
    let port = |own: Ipv4Addr, neighbour: Ipv4Addr| PortSetup {
        name: "port".into(),
        addresses: vec![(own.into(), 24)],
        gateways: vec![neighbour.into()],
        neighbours: vec![(neighbour.into(), [2; 6])],
        rate: None,
    };
    let mut setup = PlaneSetup::new(port(N3, STATION), port(Ipv4Addr::new(203, 0, 113, 1), ROUTER), 7);
    setup.profile = case.profile();
    (setup.sessions, setup.queues, setup.learners, setup.packets) = (16, 16, 1, 1024);
    let cards = [PortInterface { address: [4; 6], mtu: 1500 }; 2];
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO).map_err(Error::new)?;
    let memory = Memory::new(1024).map_err(|error| Error::new(error.to_string()))?;
    Ok(PlaneHandle::new(setup, Here { plane, memory, now: Time::from_nanos(1_000_000_000) }))
}

fn session(case: Case) -> Session {
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
        qers: vec![qer(1, case.rate().map(both), None), qer(2, None, Some(9))],
        inactivity: None,
        meters: Box::default(),
    }
}

fn datagram(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut packet = [&[0; ipv4::HEADER_MIN + udp::HEADER_LEN][..], payload].concat();
    let header = ipv4::Header {
        payload_len: (udp::HEADER_LEN + payload.len()) as u16,
        dont_fragment: false,
        protocol: weir_wire::ip::UDP,
        ..ipv4::Header::new(from.octets(), to.octets())
    };
    let at = header.write(&mut packet).expect("there is room");
    let ports = udp::Header { source: ports.0, destination: ports.1 };
    ports.write_without_checksum(&mut packet[at..]).expect("there is room");
    packet
}

fn packet(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16)) -> Vec<u8> {
    datagram(from, to, ports, &[0x5a; LEN - 28])
}

fn tunnelled(inner: &[u8]) -> Vec<u8> {
    let mut message = [&[0; gtpu::header_len(true)][..], inner].concat();
    let len = inner.len() as u16;
    gtpu::write_header(&mut message, 0x1005, Some((gtpu::Way::Up, 9)), len).expect("there is room");
    datagram(STATION, N3, (gtpu::PORT, gtpu::PORT), &message)
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; ethernet::HEADER_LEN][..], packet].concat();
    let header = ethernet::Header { destination: [4; 6], source: [2; 6], ethertype: ethernet::IPV4 };
    header.write(&mut frame).expect("there is room");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a quarter of a second of their time: in the seconds that are timed, too, rates are as exact as
    /// they are.
    #[test]
    fn packets_come_through_for_long() {
        for way in ways() {
            run(&name(Some(way)), 100_000).unwrap_or_else(|error| panic!("{}: {error}", name(Some(way))));
        }
    }
}
