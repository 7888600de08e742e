//! What becomes of single packets.

use crate::rig::*;
use etherparse::PacketBuilder;
use weir_units::Duration;
use weir_upf::filter::{Endpoint, Filter, PortRange};
use weir_upf::plane::{ACCESS, CORE, Cause, LOCAL};
use weir_upf::rules::*;
use weir_wire::checksum::{finish, sum};
use weir_wire::{gtpu, ip};

#[test]
fn packets_leave_tunnels_and_enter_them() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let up = udp(ue(5), SERVER, (4000, 53), 100);
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &up));
    let sent = rig.sent();
    let [(port, frame)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((*port, &frame[..6], &frame[6..12]), (CORE, &ROUTER[..], &OWN[CORE][..]));
    let mut expected = up.clone();
    ip::take_hop(false, &mut expected);
    assert_eq!(frame[14..], expected, "a hop less, and nothing else");
    let down = udp(SERVER, ue(5), (53, 4000), 200);
    rig.comes(CORE, &down);
    let sent = rig.sent();
    let [(port, frame)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((*port, &frame[..6]), (ACCESS, &STATION[..]));
    assert_eq!(frame[14 + 28..14 + 44], [0x34, 255, 0, 208, 0, 0, 0x20, 5, 0, 0, 0, 0x85, 1, 0, 9, 0]);
    let parsed = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
    assert!(
        matches!(parsed.transport, Some(etherparse::TransportSlice::Udp(u)) if u.destination_port() == 2152)
    );
    let usage = rig.0.usage(5).unwrap();
    assert_eq!((usage.packets, usage.bytes), (both(1), PerDirection { up: 100, down: 200 }));
}

#[test]
fn tunnels_over_ipv6_bear_packets_of_either_family() {
    let mut rig = Rig::new(setup());
    let mut session = session(5, None);
    let prefix = Ipv6Prefix { address: "2001:db8:45:1::".parse().unwrap(), length: 64 };
    for pdr in &mut session.pdrs {
        pdr.ue.as_mut().unwrap().v6 = Some(prefix);
        if let Some(tunnel) = &mut pdr.tunnel {
            tunnel.v6 = Some("2001:db8::1".parse().unwrap());
        }
    }
    let tunnel = RemoteTunnel { teid: 77, address: "2001:db8::2".parse().unwrap(), port: 2152 };
    session.fars[1] = forward(2, Side::Access, Some(tunnel));
    rig.establish(session);
    let mut inner = Vec::new();
    let (user, server) = ("2001:db8:45:1::abcd", "2001:db8:9::9");
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    PacketBuilder::ipv6(octets(server), octets(user), 9)
        .tcp(443, 5000, 1, 99)
        .write(&mut inner, b"hello")
        .unwrap();
    rig.comes(CORE, &inner);
    let packets = rig.packets();
    inner[7] -= 1;
    assert_eq!(packets, [(ACCESS, Some(9), inner.clone())]);
    // Back, in a tunnel over IPv6 with a checksum.
    let mut up = Vec::new();
    PacketBuilder::ipv6(octets(user), octets(server), 9)
        .tcp(5000, 443, 1, 99)
        .write(&mut up, b"hello")
        .unwrap();
    let mut message = vec![0; 16];
    gtpu::write_header(&mut message, 0x1005, Some((gtpu::Way::Up, 9)), up.len() as u16).unwrap();
    message.extend(&up);
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(octets("2001:db8::2"), octets("2001:db8::1"), 64).udp(2152, 2152);
    builder.write(&mut packet, &message).unwrap();
    rig.comes(ACCESS, &packet);
    up[7] -= 1;
    assert_eq!(rig.packets(), [(CORE, None, up)]);
    packet[46] ^= 1;
    rig.comes(ACCESS, &packet);
    assert_eq!((rig.sent().len(), rig.count(Cause::OuterChecksum)), (0, 1));
}

#[test]
fn users_bear_their_own_address_and_come_in_their_own_tunnel() {
    let mut rig = Rig::new(setup());
    (5..7).for_each(|number| rig.establish(session(number, None)));
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &udp(ue(6), SERVER, (1, 2), 50)));
    assert_eq!((rig.sent().len(), rig.count(Cause::NoRule), rig.0.usage(5).unwrap().dropped.up), (0, 1, 1));
    rig.comes(CORE, &udp(SERVER, ue(7), (1, 2), 50));
    assert_eq!((rig.sent().len(), rig.count(Cause::NoUser)), (0, 1));
    // What nobody knows is told.
    rig.comes(ACCESS, &tunnelled(0x1007, Some(9), &udp(ue(7), SERVER, (1, 2), 50)));
    let sent = rig.sent();
    let packet = &sent[0].1[14..];
    let indication = gtpu::Message::ErrorIndication { teid: 0x1007, peer: "192.0.2.1".parse().unwrap() };
    assert_eq!(gtpu::read(&packet[28..]), Ok(indication));
    assert_eq!((&packet[16..20], rig.count(Cause::NoTunnel)), (&[192, 0, 2, 2][..], 1));
}

#[test]
fn paths_are_answered_and_told_of() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let mut message = [0; gtpu::SIGNALLING_MAX];
    let len = gtpu::write_echo_request(&mut message, 99).unwrap();
    rig.comes(ACCESS, &datagram(&message[..len]));
    let sent = rig.sent();
    assert_eq!(gtpu::read(&sent[0].1[14 + 28..]), Ok(gtpu::Message::EchoResponse { sequence: 99 }));
    let len = gtpu::write_error_indication(&mut message, 0x2005, "192.0.2.2".parse().unwrap()).unwrap();
    rig.comes(ACCESS, &datagram(&message[..len]));
    assert_eq!(rig.0.event(), Some(Event::ErrorIndication { seid: 5, tunnel: remote(5) }));
    let len = gtpu::write_error_indication(&mut message, 0x2006, "192.0.2.2".parse().unwrap()).unwrap();
    rig.comes(ACCESS, &datagram(&message[..len]));
    assert_eq!(rig.0.event(), None, "nobody sends there");
    let len = gtpu::write_error_indication(&mut message, 0x2005, "192.0.2.3".parse().unwrap()).unwrap();
    rig.comes(ACCESS, &datagram(&message[..len]));
    assert_eq!((rig.0.event(), rig.count(Cause::IndicationForeign)), (None, 1), "it speaks for another");
    // An extension header that must be understood.
    rig.comes(ACCESS, &datagram(&[0x34, 255, 0, 8, 0, 0, 0x10, 5, 0, 0, 0, 0xc0, 1, 0, 0, 0]));
    let sent = rig.sent();
    assert_eq!(gtpu::read(&sent[0].1[14 + 28..]), Ok(gtpu::Message::SupportedExtensions));
    // A flood is not answered for ever, and neither are garbage and what is for others.
    for _ in 0..1000 {
        rig.comes(ACCESS, &tunnelled(0x9999, None, &[0; 20]));
    }
    assert!(rig.sent().len() < 25 && rig.count(Cause::Hushed) > 900);
    rig.comes(ACCESS, &datagram(&[0x30, 255, 9]));
    assert_eq!((rig.sent().len(), rig.count(Cause::GtpShort)), (0, 1));
}

#[test]
fn what_does_not_fit_or_has_no_hops_left_is_told_to_its_sender() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 1456));
    assert_eq!(rig.packets().len(), 1, "it just fits: 44 bytes of headers");
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 1457));
    let sent = rig.sent();
    let [(port, frame)] = &sent[..] else { panic!("{sent:?}") };
    let ip = &frame[14..];
    assert_eq!((*port, &ip[12..16], &ip[16..20]), (CORE, &[203, 0, 113, 1][..], &SERVER.octets()[..]));
    assert_eq!((&ip[20..22], &ip[26..28]), (&[3, 4][..], &1456u16.to_be_bytes()[..]));
    assert_eq!((rig.count(Cause::TooBig), rig.0.usage(5).unwrap().dropped.down), (1, 1));
    let mut last = udp(ue(5), SERVER, (1, 2), 60);
    last[8] = 1;
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &last));
    let packets = rig.packets();
    let [(port, _, error)] = &packets[..] else { panic!("{packets:?}") };
    assert_eq!((*port, error[20], &error[16..20]), (ACCESS, 11, &ue(5).octets()[..]));
    assert_eq!(rig.count(Cause::Expired), 1);
}

#[test]
fn congestion_outside_is_not_lost() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let marked = |tos: u8| {
        let mut inner = udp(ue(5), SERVER, (1, 2), 60);
        inner[1] = tos;
        inner[10..12].fill(0);
        let right = finish(sum(&inner[..20]));
        inner[10..12].copy_from_slice(&right.to_be_bytes());
        let mut outside = tunnelled(0x1005, Some(9), &inner);
        outside[1] = 3;
        outside
    };
    rig.comes(ACCESS, &marked(2));
    let packets = rig.packets();
    assert_eq!((packets[0].2[1], finish(sum(&packets[0].2[..20]))), (3, 0));
    rig.comes(ACCESS, &marked(0));
    assert_eq!((rig.sent().len(), rig.count(Cause::InnerNotCapable)), (0, 1));
    // Down, ECN and DSCP are copied to the outside.
    let mut down = udp(SERVER, ue(5), (1, 2), 60);
    down[1] = 0xb9;
    rig.comes(CORE, &down);
    assert_eq!(rig.sent()[0].1[15], 0xb9);
}

fn port_filter(protocol: u8, first: u16, last: u16) -> Filter {
    let ports = Box::new([PortRange { first, last }]);
    Filter { protocol: Some(protocol), remote: Endpoint { prefix: None, ports }, ..Filter::default() }
}

#[test]
fn flows_are_bound_by_the_first_filter_that_matches_and_gates_close() {
    let mut rig = Rig::new(setup());
    let mut session = session(5, None);
    session.qers.extend([qer(3, Some(1000), Some(1000), Some(5)), qer(4, None, None, Some(6))]);
    session.qers[3].open.down = false;
    for (id, precedence, filter, flow) in
        [(10, 10, port_filter(17, 5000, 5010), 3), (11, 20, port_filter(17, 5005, 6000), 4)]
    {
        let mut rule = pdr(id, Side::Core, 5, 2, &[flow]);
        (rule.precedence, rule.filters) = (precedence, Box::new([filter]));
        session.pdrs.push(rule);
    }
    session.order();
    rig.establish(session);
    let mut qfi = |port: u16| {
        rig.comes(CORE, &udp(SERVER, ue(5), (port, 1), 60));
        rig.passes(Duration::from_millis(1));
        rig.packets().first().map(|(_, qfi, _)| qfi.unwrap())
    };
    assert_eq!([qfi(5000), qfi(5005), qfi(5010), qfi(4999)], [Some(5), Some(5), Some(5), Some(9)]);
    assert_eq!(qfi(5011), None, "the gate is closed");
    assert_eq!((rig.count(Cause::Gate), rig.0.usage(5).unwrap().dropped.down), (1, 1));
}

#[test]
fn local_breakout_has_a_port_and_a_queue_of_its_own() {
    let mut rig = Rig::new(setup());
    let mut session = session(5, Some(10_000));
    let mut out = pdr(3, Side::Access, 5, 3, &[1, 2]);
    (out.precedence, out.filters) = (1, Box::new([port_filter(6, 443, 443)]));
    session.pdrs.extend([out, pdr(4, Side::Local, 5, 2, &[1, 2])]);
    session.fars.push(forward(3, Side::Local, None));
    session.order();
    rig.establish(session);
    let mut tcp = Vec::new();
    PacketBuilder::ipv4(ue(5).octets(), SERVER.octets(), 9)
        .tcp(999, 443, 1, 9)
        .write(&mut tcp, b"x")
        .unwrap();
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &tcp));
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &udp(ue(5), SERVER, (1, 443), 60)));
    rig.comes(LOCAL, &udp(SERVER, ue(5), (443, 1), 60));
    rig.comes(CORE, &udp(SERVER, ue(5), (443, 1), 60));
    rig.passes(Duration::from_millis(10));
    let mut ports: Vec<usize> = rig.packets().iter().map(|(port, ..)| *port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [ACCESS, ACCESS, CORE, LOCAL]);
    let flows = rig.0.flows(5);
    assert_eq!(flows.iter().filter(|flow| flow.is_local && flow.packets == 1).count(), 2);
    assert_eq!(flows.iter().filter(|flow| !flow.is_local && flow.packets == 1).count(), 2);
}

#[test]
fn users_send_from_their_own_addresses_also_where_the_rule_names_none() {
    let mut rig = Rig::new(setup());
    let mut session = session(5, None);
    session.pdrs[0].ue = None;
    rig.establish(session);
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &udp(ue(5), SERVER, (1, 2), 60)));
    assert_eq!(rig.packets().len(), 1);
    rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &udp(ue(6), SERVER, (1, 2), 60)));
    assert_eq!((rig.packets().len(), rig.count(Cause::NoRule)), (0, 1), "that is somebody else's address");
}

#[test]
fn a_scan_of_the_link_takes_no_place_from_packets_that_wait_for_a_neighbour() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    let to = |last: u8| udp(ue(5), std::net::Ipv4Addr::new(203, 0, 113, last), (1, 2), 60);
    for _ in 0..20 {
        rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &to(9)));
    }
    assert_eq!(rig.count(Cause::NoNeighbour), 12, "eight wait");
    for last in 10..250 {
        rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &to(last)));
    }
    // One question for each of the first 31, whose packets wait as well; the others are discarded at once.
    assert_eq!((rig.sent().len(), rig.count(Cause::NoNeighbour)), (32, 12 + 240 - 31));
}
