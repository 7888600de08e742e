//! An uplink classifier (TS 23.501 section 5.6.4.2): what filters choose goes to the data network here, and
//! the rest in a second tunnel to another user-plane function (N9), from which packets come back.

use crate::rig::*;
use std::net::Ipv4Addr;
use weir_upf::plane::{ACCESS, CORE, Cause};
use weir_upf::rules::*;
use weir_wire::checksum::{finish, sum};
use weir_wire::{gtpu, ip, tunnel};

/// The other function, and our end of the tunnel that it sends into.
const ANCHOR: [u8; 4] = [192, 0, 2, 3];
const FROM_ANCHOR: u32 = 0x9005;
/// A server in the data network here.
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 9);

/// PDR 1 sends uplink to the anchor, PDR 3 what is for this data network to it; PDR 2 takes what comes from
/// the data network, and PDR 4 what comes from the anchor.
fn classifying() -> Session {
    let mut session = session(5, None);
    let near = "permit out ip from 198.18.0.0/24 to assigned".parse().unwrap();
    let to_near =
        Pdr { id: 3, precedence: 10, filters: [near].into(), far: Some(3), ..session.pdrs[0].clone() };
    let tunnel = LocalTunnel { teid: FROM_ANCHOR, v4: Some(Ipv4Addr::new(192, 0, 2, 1)), v6: None };
    let removal = Some(Removal::GtpUdpIpv4);
    let from_anchor = Pdr { id: 4, tunnel: Some(tunnel), removal, ..session.pdrs[1].clone() };
    session.pdrs.extend([to_near, from_anchor]);
    let anchor = RemoteTunnel { teid: 0xa005, address: ANCHOR.into(), port: 2152 };
    session.fars[0] = forward(1, Side::Core, Some(anchor));
    session.fars.push(forward(3, Side::Core, None));
    session.order();
    session
}

/// In a tunnel from the anchor: with a container of the downlink.
fn from_anchor(teid: u32, tos: u8, inner: &[u8]) -> Vec<u8> {
    let mut packet = tunnelled_from(ANCHOR, teid, Some(9), inner);
    packet[28 + 13] = 0;
    // Without a checksum of UDP.
    packet[26..28].fill(0);
    packet[1] = tos;
    checksum(&mut packet);
    packet
}

/// Puts the checksum of an IPv4 header right.
fn checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let right = finish(sum(&packet[..20]));
    packet[10..12].copy_from_slice(&right.to_be_bytes());
}

fn a_hop_less(mut packet: Vec<u8>) -> Vec<u8> {
    ip::take_hop(false, &mut packet);
    packet
}

#[test]
fn filters_choose_between_the_data_network_and_a_second_tunnel() {
    let mut rig = Rig::new(setup());
    rig.establish(classifying());
    // Twice each: what is found for the first packet of a flow holds for the next.
    for _ in 0..2 {
        let far = udp(ue(5), SERVER, (4000, 53), 100);
        rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &far));
        let sent = rig.sent();
        let [(ACCESS, frame)] = &sent[..] else { panic!("{sent:?}") };
        let packet = &frame[14..];
        let outer = tunnel::read(packet).unwrap();
        assert_eq!((outer.from, outer.to), (0xc000_0201, 0xc000_0203));
        let Ok(gtpu::Message::Packet(found)) = gtpu::read(&packet[outer.start..outer.end]) else { panic!() };
        let container = Some(gtpu::Container { way: gtpu::Way::Up, qfi: 9 });
        assert_eq!((found.teid, found.container), (0xa005, container), "an uplink container");
        assert_eq!(packet[outer.start + found.start..outer.start + found.end], a_hop_less(far)[..]);
        let near = udp(ue(5), NEAR, (4000, 53), 100);
        rig.comes(ACCESS, &tunnelled(0x1005, Some(9), &near));
        assert_eq!(rig.packets(), [(CORE, None, a_hop_less(near))]);
    }
    let usage = rig.0.usage(5).unwrap();
    assert_eq!((usage.packets, usage.dropped), (PerDirection { up: 4, down: 0 }, both(0)));
}

#[test]
fn what_comes_back_from_either_goes_into_the_tunnel_to_the_base_station() {
    let mut rig = Rig::new(setup());
    let mut session = classifying();
    // The tunnel says whose packets are; an address beside it need not be named.
    session.pdrs.iter_mut().filter(|pdr| pdr.id == 4).for_each(|pdr| pdr.ue = None);
    rig.establish(session);
    for _ in 0..2 {
        let far = udp(SERVER, ue(5), (53, 4000), 200);
        rig.comes(ACCESS, &from_anchor(FROM_ANCHOR, 0, &far));
        assert_eq!(rig.tunnelled(), [(0x2005, Some(9), a_hop_less(far))]);
        let near = udp(NEAR, ue(5), (53, 4000), 200);
        rig.comes(CORE, &near);
        assert_eq!(rig.tunnelled(), [(0x2005, Some(9), a_hop_less(near))]);
    }
    assert_eq!(rig.0.usage(5).unwrap().packets, PerDirection { up: 0, down: 4 });
    // Packets from the anchor may come without a container, and through congestion (RFC 6040 section 4.2).
    let far = udp(SERVER, ue(5), (53, 4000), 200);
    let mut bare = vec![0; gtpu::header_len(false)];
    gtpu::write_header(&mut bare, FROM_ANCHOR, None, far.len() as u16).unwrap();
    bare.extend(&far);
    rig.comes(ACCESS, &datagram(&bare));
    assert_eq!(rig.tunnelled(), [(0x2005, Some(9), a_hop_less(far.clone()))]);
    rig.comes(ACCESS, &from_anchor(FROM_ANCHOR, 3, &far));
    assert_eq!((rig.sent().len(), rig.count(Cause::InnerNotCapable)), (0, 1));
    let mut capable = far.clone();
    capable[1] = 2;
    checksum(&mut capable);
    rig.comes(ACCESS, &from_anchor(FROM_ANCHOR, 3, &capable));
    let marked = &rig.tunnelled()[0].2;
    assert_eq!(marked[1] & 3, 3);
}

#[test]
fn each_way_has_its_own_tunnel_and_one_is_no_way_around_the_other() {
    let mut rig = Rig::new(setup());
    let mut session = classifying();
    // Without a data network here nobody's packets are found by the address.
    session.pdrs.retain(|pdr| pdr.id != 2);
    rig.establish(session);
    rig.comes(CORE, &udp(NEAR, ue(5), (53, 4000), 200));
    assert_eq!((rig.sent().len(), rig.count(Cause::NoUser)), (0, 1));
    // Uplink in the tunnel for downlink, and the other way round.
    rig.comes(ACCESS, &tunnelled(FROM_ANCHOR, Some(9), &udp(ue(5), SERVER, (1, 2), 50)));
    rig.comes(ACCESS, &from_anchor(0x1005, 0, &udp(SERVER, ue(5), (1, 2), 50)));
    assert_eq!((rig.sent().len(), rig.count(Cause::NoRule)), (0, 2));
    // The anchor does not know the tunnel any more, and says so.
    let mut message = [0; gtpu::SIGNALLING_MAX];
    let len = gtpu::write_error_indication(&mut message, 0xa005, ANCHOR.into()).unwrap();
    let mut packet = tunnelled_from(ANCHOR, 0, None, &[]);
    packet.truncate(28);
    packet.extend(&message[..len]);
    let [total, udp] = [packet.len(), packet.len() - 20].map(|len| (len as u16).to_be_bytes());
    packet[2..4].copy_from_slice(&total);
    packet[24..26].copy_from_slice(&udp);
    packet[26..28].fill(0);
    checksum(&mut packet);
    rig.comes(ACCESS, &packet);
    let anchor = RemoteTunnel { teid: 0xa005, address: ANCHOR.into(), port: 2152 };
    assert_eq!(rig.0.event(), Some(Event::ErrorIndication { seid: 5, tunnel: anchor }));
}

#[test]
fn rules_of_n9_that_cannot_be_are_refused() {
    let mut rig = Rig::new(setup());
    let mut refused = |change: &dyn Fn(&mut Session)| {
        let mut session = classifying();
        change(&mut session);
        rig.0.establish(std::sync::Arc::new(session)).unwrap_err().to_string()
    };
    let at = |session: &Session, id: u16| session.pdrs.iter().position(|pdr| pdr.id == id).unwrap();
    let told = refused(&|session| {
        let at = at(session, 4);
        session.pdrs[at].removal = None;
    });
    assert!(told.contains("Outer Header Removal"), "{told}");
    let told = refused(&|session| {
        let at = at(session, 4);
        session.pdrs[at].tunnel.as_mut().unwrap().v4 = Some(Ipv4Addr::new(192, 0, 2, 77));
    });
    assert!(told.contains("192.0.2.77 is not an address"), "{told}");
    let told = refused(&|session| {
        let anchor = RemoteTunnel { teid: 1, address: ANCHOR.into(), port: 2152 };
        session.fars[2] = forward(3, Side::Local, Some(anchor));
    });
    assert!(told.contains("in no tunnel"), "{told}");
}
