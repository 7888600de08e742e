//! QoS flows of 5G and bearers of 4G, each behind radio resources of its own, with session management that
//! speaks PFCP over sockets.

use crate::skipped::judged::judged;
use crate::station::{Bearer, Station};
use crate::world::{self, World};
use crate::{Downloads, SERVER, TURN, UE, with_function};
use std::sync::PoisonError;
use std::time::Duration;
use weir_upf::client::creates;
use weir_upf::plane::{PlaneSetup, Profile};
use weir_upf::rules::*;

/// What the radio gives the usual flow and the GBR flow, and the path behind it.
const RADIO: [(f64, Duration); 2] = [(20e6, Duration::from_millis(40)), (8e6, Duration::from_millis(15))];
/// The port of the server of the GBR flow.
const GBR_PORT: u16 = 5002;
const SETTLES: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(3);

/// Rules of the first flow of a session, or of a GBR flow beside it; tunnels are chosen by the function.
fn rules(is_4g: bool, is_gbr: bool) -> Session {
    let first: u16 = if is_gbr { 3 } else { 1 };
    let both = |value| PerDirection { up: value, down: value };
    let ue = |end| Some(UeAddress { v4: Some(UE), v6: None, end });
    let filter = format!("permit out 6 from any {GBR_PORT} to assigned").parse().unwrap();
    let filters: Box<[_]> = if is_gbr { Box::new([filter]) } else { Box::default() };
    let chosen = LocalTunnel { teid: first.into(), v4: Some(world::N3), v6: None };
    let pdr = |id, from, far: u16| Pdr {
        id,
        precedence: if is_gbr { 10 } else { 200 },
        from,
        tunnel: (from == Side::Access).then_some(chosen),
        ue: ue(if from == Side::Access { End::Source } else { End::Destination }),
        filters: filters.clone(),
        qfis: Box::default(),
        removal: (from == Side::Access).then_some(Removal::GtpUdpIpv4),
        far: Some(u32::from(far)),
        qers: Box::new([u32::from(first)]),
    };
    let qfi = if is_gbr { 5 } else { 9 };
    let qer = Qer {
        id: u32::from(first),
        correlation: None,
        open: PerDirection { up: true, down: true },
        mbr: Some(both(if is_gbr { 40_000 } else { 200_000 })),
        gbr: is_gbr.then_some(both(2_000)),
        qfi: (!is_4g).then_some(qfi),
    };
    let remote = RemoteTunnel { teid: down_teid(is_4g, is_gbr), address: world::STATION.into(), port: 2152 };
    let forward = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    Session {
        seid: 7,
        pdrs: vec![pdr(first, Side::Access, first), pdr(first + 1, Side::Core, first + 1)],
        fars: vec![
            forward(u32::from(first), Side::Core, None),
            forward(u32::from(first) + 1, Side::Access, Some(remote)),
        ],
        qers: vec![qer],
        inactivity: None,
        meters: Box::default(),
    }
}

/// In 5G all flows share the tunnel.
fn down_teid(is_4g: bool, is_gbr: bool) -> u32 {
    if is_4g && is_gbr { 0x2006 } else { 0x2005 }
}

/// Two downloads, one in each flow: the rate of each, and what 95 % of its packets wait for its radio.
fn measure(world: &World, number: u8, is_4g: bool, profile: Profile) -> Vec<(f64, Duration)> {
    let setup = PlaneSetup { profile, ..world::setup() };
    with_function(&world.upf, number, setup, |client| {
        let session = client.establish(&rules(is_4g, false)).unwrap();
        let usual = session.tunnels[0].1.teid;
        // The GBR flow comes later: in 4G with a tunnel of its own, in 5G in the same.
        let mut more = rules(is_4g, true);
        let shared = LocalTunnel { teid: usual, v4: Some(world::N3), v6: None };
        let answer = if is_4g {
            client.modify(session.seid, creates(&more, true)).unwrap()
        } else {
            more.pdrs[0].tunnel = Some(shared);
            client.modify(session.seid, creates(&more, false)).unwrap()
        };
        let chosen = weir_upf::client::created(&answer).first().map_or(usual, |(_, tunnel)| tunnel.teid);
        assert_eq!(chosen != usual, is_4g, "a tunnel for each bearer of 4G, one for a session of 5G");
        let qfi = |qfi| (!is_4g).then_some(qfi);
        let bearers = vec![
            Bearer {
                port: 0,
                up: (usual, qfi(9)),
                down: (down_teid(is_4g, false), qfi(9)),
                radio: Some(RADIO[0]),
            },
            Bearer {
                port: GBR_PORT,
                up: (chosen, qfi(5)),
                down: (down_teid(is_4g, true), qfi(5)),
                radio: Some(RADIO[1]),
            },
        ];
        let station = Station::with_bearers(world, UE, world::STATION.into(), world::N3.into(), bearers);
        let network = (world.dn.as_str(), SERVER);
        let _usual = Downloads::start(world, network, 5001, 2);
        let _guaranteed = Downloads::start(world, network, GBR_PORT, 2);
        std::thread::sleep(SETTLES);
        station.bearers_over(MEASURED)
    })
}

/// Real TCP: without following, both buffers of the radio fill; followed, both queues stand here, in 5G and
/// in 4G, and each radio is kept busy.
#[test]
fn each_flow_and_each_bearer_follows_its_own_radio() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new() else { return };
    let shown = |what: &str, told: &[(f64, Duration)]| {
        let one =
            |(bps, wait): &(f64, Duration)| format!("{:.1} Mbit/s, {wait:.1?} before the radio", bps / 1e6);
        println!("{what}: {}", told.iter().map(one).collect::<Vec<_>>().join("; "));
    };
    judged(|attempt| {
        // Rates are below their bounds by a quarter, and waits are half of theirs.
        attempt.tolerates(0.1);
        let alone = Profile { follow: false, ..Profile::self_learning() };
        let unmanaged = measure(&world, 61, false, alone);
        shown("5G, not followed", &unmanaged);
        for (number, is_4g) in [(62, false), (63, true)] {
            let told = measure(&world, number, is_4g, Profile::self_learning());
            shown(if is_4g { "4G" } else { "5G" }, &told);
            for ((flow, (rate, wait)), ((radio, _), most)) in
                ["usual", "GBR"].iter().zip(&told).zip(RADIO.into_iter().zip([45.0, 30.0]))
            {
                attempt.within(format!("{flow} flow, share of its radio"), rate / radio, 0.75..1.05);
                attempt.within(format!("{flow} flow, ms before its radio"), wait.as_secs_f64() * 1e3, ..most);
            }
        }
        for (_, wait) in unmanaged {
            attempt.within("ms before a radio that is not followed", wait.as_secs_f64() * 1e3, 50.0..);
        }
    });
}
