//! The user plane that a configuration asks for.

use crate::plane::{HeldTo, Pace, PlaneSetup, PortSetup, Profile, Sources};
use std::net::IpAddr;
use weir_config::{FlowConfig, LinkAddress, Poll, PortMode, UpfConfig};
use weir_dataplane::Mode;
use weir_units::Rate;

/// What the plane is made with. `seed` is the secret of its hashes.
pub fn plane_setup(config: &UpfConfig, seed: u64) -> PlaneSetup {
    let side = |name: &str, own: &[LinkAddress], gateways: &[IpAddr], rate: Option<Rate>| PortSetup {
        name: name.to_string(),
        addresses: own.iter().map(|own| (own.address, own.length)).collect(),
        gateways: gateways.to_vec(),
        neighbours: Vec::new(),
        rate,
    };
    let n6 = |n6: &weir_config::N6| side(&n6.port, &n6.address, &n6.gateway, n6.rate);
    let n3 = &config.n3;
    let limits = &config.limits;
    let qfi = |number: u32| number as u8;
    PlaneSetup {
        local: config.local.as_ref().map(n6),
        sources: match n3.sources {
            weir_config::Sources::Any => Sources::Any,
            weir_config::Sources::Known => Sources::Known,
            weir_config::Sources::Own => Sources::Own,
        },
        stations: n3.stations.iter().map(|network| (network.address, network.length)).collect(),
        control: Some(config.n4.address),
        sessions: limits.sessions,
        queues: limits.queues,
        idle: limits.idle,
        learners: limits.learners,
        follow_law: config.follow_law.law(),
        packets: limits.packets,
        buffered: limits.buffered.unwrap_or(limits.packets / 4),
        buffered_for: limits.buffered_for,
        page_again: config.n4.page_again,
        buffer: (limits.buffer, limits.buffer_min),
        profile: profile(&config.flow),
        profiles: config.flows.iter().map(|flow| (qfi(flow.qfi), profile(&flow.waits))).collect(),
        local_profile: config.local_flow.as_ref().map(profile),
        ..PlaneSetup::new(side(&n3.port, &n3.address, &n3.gateway, n3.rate), n6(&config.n6), seed)
    }
}

fn profile(flow: &FlowConfig) -> Profile {
    let follow = flow.follows();
    match &flow.aqm {
        Some(aqm) => Profile { policy: flow.policy.clone(), follow, ..Profile::of(aqm.clone()) },
        None => Profile { follow, ..Profile::self_learning() },
    }
}

/// What all queues are held to, by number of the profile: that of all others, those of QoS flows by rising
/// QFI, that of local breakout.
pub fn held_to(config: &UpfConfig) -> Vec<HeldTo> {
    let mut flows: Vec<_> = config.flows.iter().collect();
    flows.sort_by_key(|flow| flow.qfi);
    let all = [&config.flow].into_iter().chain(flows.into_iter().map(|flow| &flow.waits));
    let all = all.chain(&config.local_flow);
    let held = |flow: &FlowConfig| {
        let Some(aqm) = &flow.aqm else { return HeldTo::default() };
        let policy = flow.policy.as_ref().map(|policy| policy.policy());
        let is_chosen = policy.is_none() && aqm.has_own_setpoint();
        HeldTo { policy, setpoint: aqm.setpoint().filter(|_| is_chosen) }
    };
    all.map(held).collect()
}

/// How its packet loop runs.
pub fn pace(config: &UpfConfig) -> Pace {
    let mode = match config.host.mode {
        PortMode::Auto => None,
        PortMode::XdpNative => Some(Mode::XdpNative),
        PortMode::XdpGeneric => Some(Mode::XdpGeneric),
        PortMode::AfPacket => Some(Mode::AfPacket),
    };
    Pace { mode, journal: true, busy: config.host.poll == Poll::Busy, takeover: false }
}
