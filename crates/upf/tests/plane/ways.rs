//! Packets that nothing keeps take a short way; others take the long one. What becomes of them is the same.

use crate::rig::*;
use etherparse::PacketBuilder;
use std::net::Ipv4Addr;
use weir_units::Duration;
use weir_upf::plane::{ACCESS, CORE, Cause, DELAY_MAX, PlaneSetup, Profile};
use weir_upf::rules::*;

struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// One session takes the short way, and the other is metered, so that it does not.
fn rigs(setup: PlaneSetup, kbps: Option<u64>) -> [Rig; 2] {
    let meter = Meter { urr: Some(7), pdrs: [1, 2].into() };
    let of = |meters: &[Meter]| Session { meters: meters.into(), ..session(5, kbps) };
    [of(&[]), of(&[meter])].map(|session| {
        let mut rig = Rig::new(setup.clone());
        rig.establish(session);
        rig
    })
}

/// A packet of one of few flows, most of them as they should be.
fn packet(dice: &mut Dice, is_up: bool) -> Vec<u8> {
    let (from, to) = if is_up { (ue(5), SERVER) } else { (SERVER, ue(5)) };
    let (hops, port) = (dice.of(&[64, 64, 64, 64, 64, 64, 2, 1]), dice.below(3) as u16);
    let payload = vec![0x5a; dice.of(&[0, 20, 1000, 1400, 1450])];
    let builder = PacketBuilder::ipv4(from.octets(), to.octets(), hops);
    let mut packet = Vec::new();
    match dice.below(8) {
        0 => builder.icmpv4_echo_request(1, 1).write(&mut packet, &payload).unwrap(),
        1..4 => builder.tcp(port, 443, 1, 1000).write(&mut packet, &payload).unwrap(),
        _ => builder.udp(port, 53).write(&mut packet, &payload).unwrap(),
    }
    packet[1] = dice.of(&[0, 1, 2, 3, 0xb8]);
    packet[10..12].fill(0);
    let right = weir_wire::checksum::finish(weir_wire::checksum::sum(&packet[..20]));
    packet[10..12].copy_from_slice(&right.to_be_bytes());
    packet
}

/// In a tunnel, with a checksum of UDP, which is read step by step, or without.
fn in_tunnel(inner: &[u8], tos: u8, has_checksum: bool) -> Vec<u8> {
    let mut outer = tunnelled(0x1005, Some(9), inner);
    outer[1] = tos;
    if !has_checksum {
        outer[26..28].fill(0);
    }
    outer
}

fn both_do_the_same(setup: PlaneSetup, kbps: Option<u64>, seed: u64) -> u64 {
    let (mut rigs, mut dice) = (rigs(setup, kbps), Dice(seed));
    for _ in 0..3000 {
        let (is_up, outer_tos) = (dice.below(2) == 0, dice.of(&[0, 0, 0, 2, 3]));
        let inner = packet(&mut dice, is_up);
        let time = Duration::from_micros(dice.of(&[0, 0, 1, 50, 300, 2000, 20_000]));
        let [short, long] = rigs.each_mut().map(|rig| {
            let number = usize::from(rig.0.measured(5).is_empty());
            match is_up {
                true => rig.comes(ACCESS, &in_tunnel(&inner, outer_tos, number == 0)),
                false => rig.comes(CORE, &inner),
            }
            rig.passes(time);
            rig.sent()
        });
        assert_eq!(short, long);
    }
    let [short, long] = rigs.each_mut().map(|rig| (rig.0.usage(5), rig.0.flows(5), rig.0.faults()));
    assert_eq!(short, long);
    short.0.unwrap().packets.up
}

#[test]
fn the_short_way_is_the_long_one() {
    let codel = Profile { bound: Some(DELAY_MAX), ..setup().profile };
    for (seed, profile) in [setup().profile, codel, Profile::self_learning()].into_iter().enumerate() {
        for kbps in [None, Some(1_000), Some(20_000), Some(1_000_000)] {
            let passed =
                both_do_the_same(PlaneSetup { profile: profile.clone(), ..setup() }, kbps, seed as u64);
            assert!(passed > 500, "{passed}");
        }
    }
}

#[test]
fn packets_that_need_not_wait_need_no_queue_and_count() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    for _ in 0..10 {
        rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 100));
    }
    assert_eq!((rig.packets().len(), rig.here().plane.occupancy().0), (10, 0));
    let flows = rig.0.flows(5);
    let down = flows.iter().find(|flow| !flow.is_uplink).unwrap();
    assert_eq!((down.packets, down.bytes, down.sojourn_p95), (10, 1000, Some(Duration::from_nanos(1 << 14))));
    // Where nobody asked since, there is nothing to tell.
    assert!(rig.0.flows(5).iter().all(|flow| flow.sojourn_p95.is_none()));
}

#[test]
fn an_address_that_is_not_ours_ends_no_tunnel() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let mut outer = in_tunnel(&udp(ue(5), SERVER, (1, 2), 100), 0, false);
    rig.comes(ACCESS, &outer);
    outer[16..20].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 77).octets());
    rig.comes(ACCESS, &outer);
    assert_eq!((rig.packets().len(), rig.count(Cause::NotOurs)), (1, 1));
}
