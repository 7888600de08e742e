//! Sessions that come, change and go while packets pass.

use crate::rig::*;
use std::sync::Arc;
use weir_units::Duration;
use weir_upf::plane::{ACCESS, CORE, Cause};
use weir_upf::rules::*;
use weir_wire::gtpu;

#[test]
fn what_is_refused_changes_nothing() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    rig.establish(session(6, None));
    let mut refused = |mut change: Box<dyn FnMut(&mut Session)>| {
        let mut other = session(6, None);
        change(&mut other);
        assert!(rig.0.modify(Arc::new(other), &[]).is_err());
    };
    refused(Box::new(|s| s.pdrs[0].tunnel.as_mut().unwrap().teid = 0x1005));
    refused(Box::new(|s| s.pdrs[1].ue.as_mut().unwrap().v4 = Some(ue(5))));
    refused(Box::new(|s| s.qers[0].correlation = Some(1)));
    refused(Box::new(|s| (s.qers[0].mbr, s.qers[0].gbr) = (Some(both(1)), Some(both(2)))));
    refused(Box::new(|s| s.seid = 7));
    refused(Box::new(|s| s.fars[0] = forward(1, Side::Local, Some(remote(1)))));
    refused(Box::new(|s| s.fars[1] = forward(2, Side::Access, None)));
    refused(Box::new(|s| s.pdrs[0].far = Some(77)));
    refused(Box::new(|s| s.pdrs[0].removal = None));
    refused(Box::new(|s| s.pdrs[0].tunnel = None));
    refused(Box::new(|s| s.pdrs[0].tunnel.as_mut().unwrap().v4 = Some(SERVER)));
    assert!(rig.0.establish(Arc::new(session(5, None))).is_err());
    for number in [5, 6] {
        rig.comes(ACCESS, &tunnelled(0x1000 + number, Some(9), &udp(ue(number), SERVER, (1, 2), 60)));
        rig.comes(CORE, &udp(SERVER, ue(number), (1, 2), 60));
    }
    assert_eq!(rig.packets().len(), 4);
}

#[test]
fn as_many_come_and_go_as_there_are_places_for() {
    let mut rig = Rig::new(setup());
    for _ in 0..3 {
        (1..=64).for_each(|number| rig.establish(session(number, Some(1000))));
        let full = rig.0.establish(Arc::new(session(65, None)));
        assert!(matches!(full, Err(Refusal::NoResources(_))), "{full:?}");
        assert_eq!(rig.0.capacity(), Capacity { used: 64, most: 64 });
        // More sessions have packets than there are queues: those that are idle for long give theirs away.
        for number in 1..=64 {
            rig.comes(CORE, &udp(SERVER, ue(number), (1, 2), 60));
            rig.passes(Duration::from_secs(1));
        }
        assert_eq!((rig.packets().len(), rig.count(Cause::NoQueue)), (64, 0));
        (1..=64).for_each(|number| assert_eq!(rig.0.remove(number).unwrap().0.packets.down, 1));
        assert_eq!((rig.here().plane.occupancy(), rig.0.remove(1)), ((0, 8192), Err(Refusal::NoSession(1))));
    }
}

#[test]
fn what_is_there_can_change_when_the_tables_are_full() {
    let mut setup = setup();
    setup.sessions = 1;
    let mut rig = Rig::new(setup);
    rig.establish(session(5, None));
    assert!(rig.0.establish(Arc::new(session(6, None))).is_err());
    let mut other = session(5, None);
    other.pdrs[1].ue.as_mut().unwrap().v4 = Some(ue(9));
    other.pdrs[0].ue.as_mut().into_iter().for_each(|address| address.v4 = Some(ue(9)));
    for changed in [session(5, None), other, session(5, None)] {
        rig.0.modify(Arc::new(changed), &[]).unwrap();
    }
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 60));
    assert_eq!(rig.packets().len(), 1);
}

#[test]
fn churn_loses_no_packet_of_others() {
    let mut rig = Rig::new(setup());
    rig.establish(session(1, Some(50_000)));
    let (mut given, mut got) = (0, 0);
    for round in 0..20_000u32 {
        let number = 2 + round % 50;
        match round / 50 % 3 {
            0 => rig.establish(session(number, Some(1000))),
            1 => drop(rig.0.modify(Arc::new(session(number, Some(2000))), &[]).unwrap()),
            _ => drop(rig.0.remove(u64::from(number)).unwrap()),
        }
        rig.comes(CORE, &udp(SERVER, ue(1), (1, 2), 500));
        rig.comes(CORE, &udp(SERVER, ue(number), (1, 2), 500));
        given += 1;
        rig.passes(Duration::from_micros(90));
        got += rig.packets().iter().filter(|(_, _, packet)| packet[16..20] == ue(1).octets()).count();
    }
    rig.passes(Duration::from_secs(1));
    got += rig.packets().iter().filter(|(_, _, packet)| packet[16..20] == ue(1).octets()).count();
    assert_eq!((given, rig.0.usage(1).unwrap().dropped.down), (got, 0));
}

#[test]
fn a_change_keeps_what_waits_and_moves_it_to_the_new_tunnel_behind_an_end_marker() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, Some(1000)));
    (0..10).for_each(|_| rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 500)));
    let before = rig.packets().len();
    assert_eq!(before, 1);
    let mut moved = session(5, Some(1000));
    let elsewhere = RemoteTunnel { teid: 0x3005, address: "192.0.2.3".parse().unwrap(), port: 2152 };
    moved.fars[1] = forward(2, Side::Access, Some(elsewhere));
    rig.0.modify(Arc::new(moved), &[remote(5)]).unwrap();
    let sent = rig.sent();
    assert_eq!(gtpu::read(&sent[0].1[14 + 28..]), Ok(gtpu::Message::EndMarker { teid: 0x2005 }));
    assert_eq!(sent[0].1[14 + 16..14 + 20], [192, 0, 2, 2]);
    rig.passes(Duration::from_secs(1));
    let sent = rig.sent();
    assert_eq!(sent.len(), 9);
    assert!(sent.iter().all(|(_, frame)| frame[14 + 16..14 + 20] == [192, 0, 2, 3]));
    assert_eq!(rig.0.usage(5).unwrap().packets.down, 10);
}

/// A handover while packets are buffered: what waited goes into the new tunnel, and the old one, into which
/// packets went before, gets its end marker first of all.
#[test]
fn a_handover_out_of_buffering_ends_the_old_tunnel() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, None));
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 500));
    let mut waits = session(5, None);
    waits.fars[1].action = Action::Buffer { tell: false };
    rig.0.modify(Arc::new(waits), &[]).unwrap();
    (0..3).for_each(|_| rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 500)));
    assert_eq!(rig.packets().len(), 1);
    let mut moved = session(5, None);
    let elsewhere = RemoteTunnel { teid: 0x3005, address: "192.0.2.3".parse().unwrap(), port: 2152 };
    moved.fars[1] = forward(2, Side::Access, Some(elsewhere));
    rig.0.modify(Arc::new(moved), &[remote(5)]).unwrap();
    let sent: Vec<_> = rig.sent().into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(gtpu::read(&sent[0][14 + 28..]), Ok(gtpu::Message::EndMarker { teid: 0x2005 }));
    assert_eq!((sent.len(), rig.count(Cause::EndMarkerSent)), (4, 1));
    assert!(sent[1..].iter().all(|frame| frame[14 + 16..14 + 20] == [192, 0, 2, 3]));
}

#[test]
fn packets_of_an_idle_user_wait_and_are_told_of_once() {
    let mut rig = Rig::new(setup());
    let mut idle = session(5, None);
    idle.fars[1].action = Action::Buffer { tell: true };
    rig.establish(idle);
    (0..3).for_each(|_| rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 500)));
    rig.passes(Duration::from_millis(300));
    assert_eq!((rig.sent().len(), rig.0.event()), (0, Some(Event::DownlinkData { seid: 5, pdr: 2 })));
    assert_eq!(rig.0.event(), None);
    rig.0.modify(Arc::new(session(5, None)), &[]).unwrap();
    assert_eq!(rig.packets().len(), 3);
    // The same, and then they are not wanted.
    let mut idle = session(6, None);
    idle.fars[1].action = Action::Buffer { tell: false };
    rig.establish(idle);
    (0..3).for_each(|_| rig.comes(CORE, &udp(SERVER, ue(6), (1, 2), 500)));
    let mut unwanted = session(6, None);
    unwanted.fars[1].action = Action::Drop;
    rig.0.modify(Arc::new(unwanted), &[]).unwrap();
    assert_eq!((rig.sent().len(), rig.0.usage(6).unwrap().dropped.down), (0, 3));
    assert_eq!(rig.here().plane.occupancy().1, 8192);
}

#[test]
fn a_silent_session_is_told_of_once_until_it_speaks() {
    let mut rig = Rig::new(setup());
    rig.establish(Session { inactivity: Some(Duration::from_secs(2)), ..session(5, None) });
    let told = |rig: &mut Rig, seconds| {
        (0..seconds).for_each(|_| rig.passes(Duration::from_secs(1)));
        std::iter::from_fn(|| rig.0.event()).count()
    };
    assert_eq!((told(&mut rig, 1), told(&mut rig, 3), told(&mut rig, 5)), (0, 1, 0));
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 60));
    assert_eq!((told(&mut rig, 1), told(&mut rig, 3)), (0, 1));
}

/// Sixteen rules with a filter each, and one for all others, each way.
#[test]
fn an_idle_session_takes_at_most_two_kibibytes() {
    let mut rig = Rig::new(setup());
    rig.establish(session(5, Some(1000)));
    rig.comes(CORE, &udp(SERVER, ue(5), (1, 2), 60));
    let plain = rig.here().plane.idle_bytes(5).unwrap();
    println!("{plain} bytes with two rules");
    assert!(plain <= 2048, "{plain} bytes");
    let mut many = session(6, Some(1000));
    for id in 3..=16u16 {
        let side = if id % 2 == 0 { Side::Core } else { Side::Access };
        let mut rule = pdr(id, side, 6, if id % 2 == 0 { 2 } else { 1 }, &[1, 2]);
        rule.precedence = u32::from(id);
        let filter = weir_upf::filter::Filter { protocol: Some(id as u8), ..Default::default() };
        rule.filters = Box::new([filter]);
        many.pdrs.push(rule);
    }
    many.order();
    rig.establish(many);
    let sixteen = rig.here().plane.idle_bytes(6).unwrap();
    println!("{sixteen} bytes with sixteen rules");
    assert!(sixteen <= 2048, "{sixteen} bytes");
}
