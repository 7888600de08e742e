use super::*;
use crate::filter::{Endpoint, Filter, PortRange};
use crate::plane::memory::{Here, Memory};
use crate::plane::{PlaneHandle, PlaneSetup, PortInterface};
use crate::rules::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_units::Time;
use weir_wire::flow_hash;
use weir_wire::gtpu::{Container, Way};
use weir_wire::ip::Fragment;

/// Few values of everything, so that flows return and rules differ in what they say of them.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn sometimes<T>(&mut self, value: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.below(3) == 0).then(|| value(self))
    }
}

const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn user(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + number as u32)
}

fn desk() -> PlaneHandle<Here> {
    let mut setup = PlaneSetup::alone(N3, Ipv4Addr::new(198, 51, 100, 1));
    (setup.sessions, setup.queues, setup.packets) = (8, 8, 64);
    let cards = [PortInterface { address: [2; 6], mtu: 1500 }; 2];
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO).unwrap();
    PlaneHandle::new(setup, Here { plane, memory: Memory::new(64).unwrap(), now: Time::ZERO })
}

fn filter(dice: &mut Dice) -> Filter {
    let port = dice.below(3) as u16;
    let ports = dice.sometimes(|_| PortRange { first: port, last: port + 1 });
    Filter {
        protocol: dice.sometimes(|dice| [17, 50][dice.below(2) as usize]),
        remote: Endpoint { prefix: None, ports: ports.into_iter().collect() },
        tos: dice.sometimes(|dice| (dice.below(2) as u8, 1)),
        spi: dice.sometimes(|dice| dice.sometimes(|dice| dice.below(2) as u32)).flatten(),
        ..Filter::default()
    }
}

fn session(seid: u64, dice: &mut Dice) -> Session {
    let (owner, mut pdrs) = (dice.below(2), Vec::new());
    for id in 0..1 + dice.below(6) {
        let is_up = dice.below(2) == 0;
        let end = if is_up { End::Source } else { End::Destination };
        let teid = 1 + 2 * owner as u32 + dice.below(2) as u32;
        pdrs.push(Pdr {
            id: id as u16,
            precedence: dice.below(4) as u32,
            from: if is_up { Side::Access } else { Side::Core },
            tunnel: is_up.then_some(LocalTunnel { teid, v4: Some(N3), v6: None }),
            ue: (!is_up || dice.below(2) == 0).then_some(UeAddress { v4: Some(user(owner)), v6: None, end }),
            filters: (0..dice.below(3)).map(|_| filter(dice)).collect(),
            qfis: dice.sometimes(|dice| dice.below(2) as u8).into_iter().collect(),
            removal: is_up.then_some(Removal::GtpUdpIp),
            far: None,
            qers: Box::new([]),
        });
    }
    pdrs.iter_mut().filter(|pdr| pdr.from == Side::Core).for_each(|pdr| pdr.qfis = Box::new([]));
    let mut session = Session { seid, pdrs, ..Session::default() };
    session.order();
    session
}

/// A packet of one of few flows, and the tunnel that it came in.
fn packet(dice: &mut Dice) -> (Header, Option<GPdu>) {
    let is_up = dice.below(2) == 0;
    let (own, other) = (u128::from(u32::from(user(dice.below(2)))), 1);
    let (source, destination) = if is_up { (own, other) } else { (other, own) };
    let ports = dice.sometimes(|_| ()).is_none().then(|| (dice.below(3) as u16, 1));
    let inner = Header {
        is_v6: false,
        source,
        destination,
        protocol: if ports.is_some() { 17 } else { 50 },
        ports,
        fragment: Fragment::Whole,
        traffic_class: dice.below(2) as u8,
        hops: 64,
        len: 40,
        transport: 20,
        flow_label: 0,
    };
    let teid = 1 + dice.below(4) as u32;
    let container =
        dice.sometimes(|_| ()).is_none().then(|| Container { way: Way::Up, qfi: dice.below(2) as u8 });
    (inner, is_up.then_some(GPdu { teid, container, start: 16, end: 56 }))
}

/// Its header; `spi` is its index of IPsec, if it has one.
fn written(inner: &Header, spi: u8) -> [u8; 40] {
    let mut bytes = [0; 40];
    (bytes[0], bytes[1], bytes[3], bytes[8], bytes[9]) =
        (0x45, inner.traffic_class, 40, inner.hops, inner.protocol);
    bytes[12..16].copy_from_slice(&(inner.source as u32).to_be_bytes());
    bytes[16..20].copy_from_slice(&(inner.destination as u32).to_be_bytes());
    match inner.ports {
        Some((source, destination)) => (bytes[21], bytes[23]) = (source as u8, destination as u8),
        None => bytes[23] = spi,
    }
    bytes
}

/// Whose a packet is and what it meets, without any memory of others.
fn afresh(plane: &UserPlane, key: &Key, inner: &Header, bytes: &[u8], gpdu: Option<&GPdu>) -> Option<Met> {
    let session = match gpdu {
        Some(gpdu) => plane.by_teid.get(gpdu.teid),
        None => plane.by_user.v4.get(inner.destination as u32),
    }?;
    let live = plane.sessions[session as usize].as_ref()?;
    Some((session, live.first_match(key, inner, bytes, gpdu.is_some(), gpdu).0))
}

/// Sends a packet; whether it was of a flow that was known.
fn is_recalled(here: &mut Here, dice: &mut Dice) -> bool {
    let (inner, gpdu) = packet(dice);
    let bytes = written(&inner, dice.below(2) as u8);
    let key = Key::new(&inner, gpdu.is_some(), false);
    // Few hashes, so that flows drive each other out.
    let hash = flow_hash::of_header(7, &inner, gpdu.is_some()) & 3;
    let flow =
        Flow::new(&key, hash, inner.traffic_class, gpdu.map(|g| (g.teid, g.container.map(|c| c.qfi), 0)));
    assert_eq!(Header::read(&bytes), Some(inner));
    let frame = here.memory.frame(&bytes);
    let expected = afresh(&here.plane, &key, &inner, &bytes, gpdu.as_ref());
    let recalled = here.plane.recall(&flow);
    assert!(recalled.is_none() || recalled == expected, "{recalled:?} {expected:?} {inner:?} {gpdu:?}");
    let tunnel = gpdu.map(|gpdu| (gpdu, 0));
    let found = here.plane.look_up(flow, frame, gpdu.is_some(), tunnel, false, &mut here.memory);
    assert_eq!(found.ok(), expected);
    here.memory.give(frame);
    recalled.is_some()
}

/// Sessions come, change and go, and exchange tunnels and addresses; how many packets were of known flows.
fn recalled(seed: u64, changes: usize) -> usize {
    let (mut desk, mut dice, mut recalled) = (desk(), Dice(seed), 0);
    for _ in 0..changes {
        let seid = 1 + dice.below(3);
        let new = Arc::new(session(seid, &mut dice));
        // What cannot be is refused, and changes nothing.
        let _ = match dice.below(4) {
            0 => desk.remove(seid).map(|_| ()),
            1 => desk.establish(new),
            _ => desk.modify(new, &[]).map(drop),
        };
        recalled += (0..60).filter(|_| is_recalled(desk.reach(), &mut dice)).count();
    }
    recalled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_recalled_is_what_would_be_found(seed: u64) {
        recalled(seed, 30);
    }
}

#[test]
fn flows_are_recalled() {
    assert!(recalled(1, 300) > 2000);
}
