//! An uplink classifier before another user-plane function (TS 23.501 section 5.6.4.2): two functions with
//! PFCP and interfaces of their own, a tunnel between them (N9), and a data network behind each.

use crate::station::{Bearer, Station};
use crate::world::{self, ANCHOR, FAR, N3, World, inside};
use crate::{Downloads, PATIENCE, SERVER, TURN, UE, with_function};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use weir_upf::client::usual;
use weir_upf::rules::*;

/// The aggregate of the session at both functions, in kbit/s.
const AMBR: PerDirection<u64> = PerDirection { up: 50_000, down: 50_000 };
/// Of the classifier: the tunnels of base station and anchor, by which it chooses their numbers.
const CHOSEN: [u32; 2] = [1, 2];

/// Rules of the classifier: uplink for its data network by a filter, and the rest to the anchor; downlink
/// from either. The anchor's tunnel is `to_anchor`.
fn classifying(to_anchor: RemoteTunnel) -> Session {
    let mut session = usual(7, UE, N3, (world::STATION.into(), 0x2005), AMBR);
    let [up, down] = [0, 1].map(|at| session.pdrs[at].clone());
    let near = "permit out ip from 203.0.113.0/24 to assigned".parse().unwrap();
    let tunnel = Some(LocalTunnel { teid: CHOSEN[1], v4: Some(N3), v6: None });
    session.pdrs.push(Pdr { id: 3, precedence: 10, filters: [near].into(), far: Some(3), ..up });
    session.pdrs.push(Pdr { id: 4, tunnel, removal: Some(Removal::GtpUdpIpv4), ..down });
    let forward = |id, tunnel| Far::forwarding(id, Forward { to: Side::Core, tunnel, dscp: None });
    session.fars[0] = forward(1, Some(to_anchor));
    session.fars.push(forward(3, None));
    session.order();
    session
}

/// A datagram from the user equipment to a server, and one back.
fn speaks(world: &World, (network, server): (&str, Ipv4Addr)) {
    let host = inside(network, || UdpSocket::bind((server, 7000)).unwrap());
    let user = inside(&world.ran, || UdpSocket::bind((UE, 5000)).unwrap());
    for socket in [&host, &user] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    user.send_to(b"there", (server, 7000)).unwrap();
    let (_, from) = host.recv_from(&mut [0; 64]).unwrap_or_else(|e| panic!("to {server}: {e}"));
    assert_eq!(from.ip(), UE);
    host.send_to(b"back", from).unwrap();
    assert_eq!(user.recv_from(&mut [0; 64]).unwrap_or_else(|e| panic!("from {server}: {e}")).0, 4);
}

#[test]
fn uplink_is_divided_between_a_data_network_here_and_a_tunnel_to_another_function() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new().map(World::with_anchor) else { return };
    let [anchor, far] = world.anchor.clone().unwrap();
    let to_anchor = RemoteTunnel { teid: 0xa005, address: ANCHOR.into(), port: 2152 };
    let classifies = |anchor: &mut weir_upf::client::Client| {
        with_function(&world.upf, 65, world::setup(), |classifier| {
            let session = classifier.establish(&classifying(to_anchor)).unwrap();
            let chosen = |pdr: u16| session.tunnels.iter().find(|(of, _)| *of == pdr).unwrap().1;
            let (from_station, from_anchor) = (chosen(1), chosen(4));
            assert_eq!((chosen(3), from_anchor.v4), (from_station, Some(N3)));
            assert_ne!(from_station.teid, from_anchor.teid);
            // The anchor takes the classifier for its base station.
            let mut rules = usual(8, UE, ANCHOR, (N3.into(), from_anchor.teid), AMBR);
            rules.pdrs[0].tunnel = Some(LocalTunnel { teid: to_anchor.teid, v4: Some(ANCHOR), v6: None });
            let anchored = anchor.establish_as_given(&rules).unwrap();
            let usual =
                Bearer { port: 0, up: (from_station.teid, Some(9)), down: (0x2005, Some(9)), radio: None };
            let station = Station::with_bearers(&world, UE, world::STATION.into(), N3.into(), vec![usual]);
            speaks(&world, (&world.dn, SERVER));
            speaks(&world, (&far, FAR));
            // TCP through both functions: its acknowledgements take the second tunnel.
            let downloads = Downloads::start(&world, (&far, FAR), 5001, 2);
            // A fiftieth of the aggregate: it is asked whether it passes, and not how fast.
            let begun = Instant::now();
            while station.rate_over(Duration::from_millis(700)) < 1e6 {
                assert!(begun.elapsed() < PATIENCE, "nothing comes from behind the other function");
            }
            drop(downloads);
            [classifier.delete(session.seid), anchor.delete(anchored.seid)]
                .into_iter()
                .for_each(|ended| drop(ended.unwrap()));
        })
    };
    with_function(&anchor, 66, world::setup_of_anchor(), classifies);
}
