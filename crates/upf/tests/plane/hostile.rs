//! Who floods, guesses and forges: user equipment that is idle, base stations that are none, tunnels in
//! tunnels.

use crate::rig::*;
use etherparse::PacketBuilder;
use std::sync::Arc;
use weir_units::Duration;
use weir_upf::filter::{Endpoint, Filter, PortRange};
use weir_upf::plane::{ACCESS, CORE, Cause, Sources};
use weir_upf::rules::*;
use weir_wire::gtpu;

/// A session whose user equipment is idle: packets to it wait, and that is told.
fn idle(number: u32) -> Session {
    let mut session = session(number, None);
    session.fars[1].action = Action::Buffer { tell: true };
    session
}

fn told(rig: &mut Rig) -> Vec<u64> {
    let next = || match rig.0.event()? {
        Event::DownlinkData { seid, pdr: 2 } => Some(seid),
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn packets_for_idle_users_take_a_part_of_the_memory_and_one_user_leaves_room_for_others() {
    let mut setup = setup();
    (setup.packets, setup.buffered) = (1000, 200);
    let mut rig = Rig::new(setup);
    (1..=4).for_each(|number| rig.establish(idle(number)));
    rig.establish(session(5, Some(1000)));
    let down = |number| udp(SERVER, ue(number), (1, 2), 60);
    (0..5000).for_each(|_| rig.comes(CORE, &down(1)));
    let free = |rig: &mut Rig| rig.here().plane.occupancy().1;
    assert_eq!((free(&mut rig), rig.count(Cause::BufferFull)), (900, 4900), "as many as are free");
    (0..5000).for_each(|_| rig.comes(CORE, &down(2)));
    rig.comes(CORE, &down(3));
    assert_eq!(free(&mut rig), 849);
    assert_eq!(told(&mut rig), [1, 2, 3]);
    // Others have the rest of the memory.
    (0..500).for_each(|_| rig.comes(CORE, &down(5)));
    rig.passes(Duration::from_secs(1));
    assert!(rig.packets().iter().all(|(_, _, packet)| packet[16..20] == ue(5).octets()));
    // Who is paged gets what waits, and gives the place back.
    rig.0.modify(Arc::new(session(1, None)), &[]).unwrap();
    assert_eq!((rig.packets().len(), free(&mut rig)), (100, 949));
    rig.0.remove(2).unwrap();
    (0..5000).for_each(|_| rig.comes(CORE, &down(4)));
    assert_eq!(free(&mut rig), 1000 - 1 - 100);
}

/// Of two rules that share a queue one keeps its packets: before those of the other, between them and alone.
#[test]
fn what_one_rule_keeps_holds_up_nothing_of_another_in_the_same_queue() {
    let mut setup = setup();
    setup.buffered_for = Duration::from_secs(5);
    let mut rig = Rig::new(setup);
    let mut mixed = session(1, Some(1000));
    let ports = Box::new([PortRange { first: 7000, last: 7999 }]);
    let mut keeps = pdr(3, Side::Core, 1, 3, &[1, 2]);
    keeps.filters = Box::new([Filter { remote: Endpoint { prefix: None, ports }, ..Filter::default() }]);
    keeps.precedence = 1;
    mixed.pdrs.push(keeps);
    let far = forward(3, Side::Access, Some(remote(1)));
    mixed.fars.push(Far { action: Action::Buffer { tell: false }, ..far });
    mixed.order();
    rig.establish(mixed);
    let mut comes = |port: u16| rig.comes(CORE, &udp(SERVER, ue(1), (port, 1), 500));
    [7000, 1, 1, 1, 7001, 2, 7000, 1].into_iter().for_each(&mut comes);
    rig.passes(Duration::from_millis(100));
    assert_eq!(rig.packets().len(), 5);
    rig.comes(CORE, &udp(SERVER, ue(1), (3, 1), 500));
    assert_eq!(rig.packets().len(), 1, "only what is kept was before it");
    assert_eq!((rig.here().plane.occupancy().1, rig.count(Cause::BufferedLong)), (8192 - 3, 0));
    rig.passes(Duration::from_secs(6));
    assert_eq!((rig.here().plane.occupancy().1, rig.count(Cause::BufferedLong)), (8192, 3));
}

#[test]
fn packets_for_idle_users_do_not_wait_for_ever() {
    let mut setup = setup();
    setup.buffered_for = Duration::from_secs(5);
    let mut rig = Rig::new(setup);
    rig.establish(idle(1));
    let down = udp(SERVER, ue(1), (1, 2), 60);
    (0..10).for_each(|_| rig.comes(CORE, &down));
    rig.passes(Duration::from_secs(3));
    (0..7).for_each(|_| rig.comes(CORE, &down));
    rig.passes(Duration::from_millis(1990));
    assert_eq!((rig.here().plane.occupancy().1, rig.count(Cause::BufferedLong)), (8192 - 17, 0));
    rig.passes(Duration::from_millis(20));
    assert_eq!((rig.here().plane.occupancy().1, rig.count(Cause::BufferedLong)), (8192 - 7, 10));
    rig.passes(Duration::from_secs(10));
    assert_eq!((rig.here().plane.occupancy(), rig.count(Cause::BufferedLong)), ((1, 8192), 17));
    assert_eq!(rig.0.usage(1).unwrap().dropped.down, 17);
    // All of it was given back: as much can wait again.
    (0..7).for_each(|_| rig.comes(CORE, &down));
    rig.0.modify(Arc::new(session(1, None)), &[]).unwrap();
    assert_eq!(rig.packets().len(), 7);
}

#[test]
fn that_packets_wait_is_told_again_while_they_do() {
    let mut rig = Rig::new(setup());
    rig.establish(idle(1));
    let down = udp(SERVER, ue(1), (1, 2), 60);
    (0..10).for_each(|_| rig.comes(CORE, &down));
    rig.passes(Duration::from_millis(9_990));
    assert_eq!(told(&mut rig), [1]);
    rig.passes(Duration::from_millis(20));
    assert_eq!(told(&mut rig), [1], "ten seconds later, without another packet");
    // It did not reach session management.
    rig.0.untold(1);
    rig.passes(Duration::from_millis(990));
    assert!(told(&mut rig).is_empty());
    rig.passes(Duration::from_millis(20));
    assert_eq!(told(&mut rig), [1]);
    rig.0.modify(Arc::new(session(1, None)), &[]).unwrap();
    rig.passes(Duration::from_secs(60));
    assert!(told(&mut rig).is_empty());
}

#[test]
fn a_flood_of_events_that_nobody_fetches_ends_no_paging() {
    let mut setup = setup();
    setup.sessions = 5000;
    setup.queues = 5000;
    let mut rig = Rig::new(setup);
    (1..=5000).for_each(|number| rig.establish(idle(number)));
    (1..=5000).for_each(|number| rig.comes(CORE, &udp(SERVER, ue(number), (1, 2), 60)));
    assert!(rig.count(Cause::EventsLost) > 0, "there were more than can wait");
    let mut all = told(&mut rig);
    rig.passes(Duration::from_secs(1));
    all.extend(told(&mut rig));
    all.sort_unstable();
    assert_eq!(all, (1..=5000).collect::<Vec<u64>>(), "each once");
}

/// Sends a packet up in the tunnel of a session from a host; whether it came through.
fn comes_from(rig: &mut Rig, number: u32, station: [u8; 4]) -> bool {
    // Questions for neighbours.
    rig.sent();
    let inner = udp(ue(number), SERVER, (1, 2), 60);
    rig.comes(ACCESS, &tunnelled_from(station, 0x1000 + number, Some(9), &inner));
    rig.sent().len() == 1
}

const STRANGER: [u8; 4] = [192, 0, 2, 77];

#[test]
fn only_base_stations_send_into_tunnels() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    assert!(comes_from(&mut rig, 5, [192, 0, 2, 2]), "its own");
    // Also after its flow is known.
    for _ in 0..3 {
        assert!(!comes_from(&mut rig, 5, STRANGER));
    }
    assert!(comes_from(&mut rig, 5, [192, 0, 2, 2]));
    assert_eq!((rig.count(Cause::StationForeign), rig.0.usage(5).unwrap().packets.up), (3, 2));
}

#[test]
fn a_handover_loses_nothing_and_ends_what_the_former_base_station_may() {
    let mut rig = Rig::new(setup());
    let at = |number: u32, last: u8| {
        let mut session = session(number, None);
        let tunnel =
            RemoteTunnel { address: std::net::Ipv4Addr::new(192, 0, 2, last).into(), ..remote(number) };
        session.fars[1] = forward(2, Side::Access, Some(tunnel));
        session
    };
    rig.establish(at(5, 2));
    rig.establish(at(6, 3));
    // Over Xn the new one sends first.
    assert!(comes_from(&mut rig, 5, [192, 0, 2, 3]));
    assert_eq!((rig.count(Cause::StationMoved), rig.count(Cause::StationForeign)), (1, 0));
    rig.0.modify(Arc::new(at(5, 3)), &[]).unwrap();
    assert!(comes_from(&mut rig, 5, [192, 0, 2, 3]));
    // Nobody is at the former one any more.
    assert!(!comes_from(&mut rig, 5, [192, 0, 2, 2]));
    // While user equipment is idle or its session is set up, no base station is known: it may come back at
    // another.
    let mut nowhere = at(5, 3);
    nowhere.fars[1] = Far { id: 2, action: Action::Buffer { tell: true }, forward: None };
    rig.0.modify(Arc::new(nowhere), &[]).unwrap();
    assert!(comes_from(&mut rig, 5, STRANGER));
    rig.0.modify(Arc::new(at(5, 77)), &[]).unwrap();
    assert!(comes_from(&mut rig, 5, STRANGER));
    rig.0.remove(5).unwrap();
    rig.establish(at(5, 3));
    assert!(!comes_from(&mut rig, 5, STRANGER));
}

#[test]
fn whom_packets_are_taken_from_can_be_configured() {
    let passes = |sources: Sources, stations: &[(&str, u8)]| {
        let mut setup = setup();
        setup.sources = sources;
        setup.stations =
            stations.iter().map(|(address, length)| (address.parse().unwrap(), *length)).collect();
        let mut rig = Rig::new(setup);
        rig.establish(session(5, None));
        let mut other = session(6, None);
        let tunnel = RemoteTunnel { address: "192.0.2.3".parse().unwrap(), ..remote(6) };
        other.fars[1] = forward(2, Side::Access, Some(tunnel));
        rig.establish(other);
        [[192, 0, 2, 2], [192, 0, 2, 3], STRANGER].map(|station| comes_from(&mut rig, 5, station))
    };
    assert_eq!(passes(Sources::Any, &[]), [true, true, true]);
    assert_eq!(passes(Sources::Known, &[]), [true, true, false]);
    assert_eq!(passes(Sources::Own, &[]), [true, false, false]);
    assert_eq!(passes(Sources::Own, &[("192.0.2.64", 26)]), [true, false, true]);
    assert_eq!(passes(Sources::Known, &[("2001:db8::", 32)]), [true, true, false]);
}

#[test]
fn a_sweep_of_tunnels_finds_nothing_and_is_answered_at_most_a_thousand_times_a_second() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let inner = udp(ue(5), SERVER, (1, 2), 60);
    let mut answered = 0;
    for teid in 0..20_000u32 {
        rig.comes(ACCESS, &tunnelled_from(STRANGER, teid, Some(9), &inner));
        rig.passes(Duration::from_micros(50));
        answered += rig.sent().iter().filter(|(port, _)| *port == CORE).count();
    }
    assert_eq!((answered, rig.count(Cause::StationForeign)), (0, 1), "also the one that there is");
    assert_eq!(rig.count(Cause::NoTunnel), 19_999);
    let hushed = rig.count(Cause::Hushed);
    assert!((18_900..=19_000).contains(&hushed), "{hushed} of 19 999 in a second were not answered");
    assert!(comes_from(&mut rig, 5, [192, 0, 2, 2]));
}

#[test]
fn users_do_not_reach_the_function_itself_nor_its_tunnels() {
    let mut setup = setup();
    setup.control = Some("10.4.0.1".parse().unwrap());
    let mut rig = Rig::new(setup);
    (5..7).for_each(|number| rig.establish(session(number, None)));
    let victim = udp(ue(6), SERVER, (1, 2), 60);
    let mut forged = vec![0; gtpu::header_len(true)];
    gtpu::write_header(&mut forged, 0x1006, Some((gtpu::Way::Up, 9)), victim.len() as u16).unwrap();
    forged.extend(&victim);
    for own in ["192.0.2.1", "203.0.113.1", "10.4.0.1", "10.9.0.1"] {
        for port in [2152, 8805] {
            let own: std::net::Ipv4Addr = own.parse().unwrap();
            let mut inner = Vec::new();
            let builder = PacketBuilder::ipv4(ue(5).octets(), own.octets(), 64).udp(2152, port);
            builder.write(&mut inner, &forged).unwrap();
            rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &inner));
        }
    }
    assert_eq!((rig.sent().len(), rig.count(Cause::OwnAddress)), (0, 8));
    assert_eq!(rig.0.usage(6).unwrap().packets.up, 0);
    // What comes from the data network is no tunnel, whatever it looks like.
    let mut outside = Vec::new();
    let builder = PacketBuilder::ipv4(SERVER.octets(), [192, 0, 2, 1], 64).udp(2152, 2152);
    builder.write(&mut outside, &forged).unwrap();
    rig.comes(CORE, &outside);
    assert_eq!((rig.sent().len(), rig.0.usage(6).unwrap().packets.up, rig.count(Cause::NoUser)), (0, 0, 1));
    // A tunnel in a tunnel to somebody else is a packet like others.
    let mut inner = Vec::new();
    let builder = PacketBuilder::ipv4(ue(5).octets(), SERVER.octets(), 64).udp(2152, 2152);
    builder.write(&mut inner, &forged).unwrap();
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &inner));
    assert_eq!(rig.packets()[0].2[16..20], SERVER.octets());
}
