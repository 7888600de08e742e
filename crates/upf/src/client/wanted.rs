//! Sessions as a person describes them, as rules, and what makes one of another.

use super::{creates, group};
use crate::control::GTPU_PORT;
use crate::filter::Filter;
use crate::message::{Element, ie};
use crate::rules::{
    End, Far, Forward, Ipv6Prefix, LocalTunnel, Meter, Pdr, PerDirection, Qer, RemoteTunnel, Removal, Seid,
    Session, Side, UeAddress,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_config::{SessionConfig, SessionFlow};
use weir_units::Rate;

/// Rules that are not of a QoS flow.
const FAR_UP: u32 = 1;
const FAR_DOWN: u32 = 2;
const AMBR: u32 = 1;
const URR: u32 = 1;
/// The QER of a QoS flow has its number and this.
const QER_OF_FLOW: u32 = 100;
/// Filters are asked before what takes the rest.
const PRECEDENCE_FILTERS: u32 = 100;
const PRECEDENCE_REST: u32 = 200;
/// PFCPSMReq-Flags (TS 29.244 section 8.2.28): the tunnel of before is told its end.
const SEND_END_MARKER: u32 = 2;

/// The rules of a session. The tunnel from the base station is `tunnel`, or one that the other side chooses.
/// Tells which filter is wrong, and why.
pub fn rules(seid: Seid, wanted: &SessionConfig, tunnel: Option<LocalTunnel>) -> Result<Session, String> {
    let is_ipv4 = wanted.station.is_ipv4();
    // Where the other side chooses, only the version of IP counts.
    let local = tunnel.unwrap_or(LocalTunnel {
        teid: 1,
        v4: is_ipv4.then_some(Ipv4Addr::UNSPECIFIED),
        v6: (!is_ipv4).then_some(Ipv6Addr::UNSPECIFIED),
    });
    let mut session = Session { seid, ..Session::default() };
    let ambr = rates(wanted.ambr_up, wanted.ambr_down);
    let open = PerDirection { up: true, down: true };
    let qer = |id, mbr, gbr, qfi| Qer { id, correlation: None, open, mbr, gbr, qfi };
    session.qers.extend(ambr.map(|ambr| qer(AMBR, Some(ambr), None, None)));
    let rest = (wanted.qfi, None::<&SessionFlow>);
    for (qfi, flow) in wanted.flows.iter().map(|flow| (flow.qfi, Some(flow))).chain([rest]) {
        let gbr = flow.and_then(|flow| guaranteed(flow.gbr_up, flow.gbr_down));
        let mbr = flow.and_then(|flow| rates(flow.mbr_up, flow.mbr_down));
        session.qers.push(qer(QER_OF_FLOW + qfi, mbr, gbr, Some(qfi as u8)));
        let aggregate = (gbr.is_none() && ambr.is_some()).then_some(AMBR);
        let qers: Box<[u32]> = aggregate.into_iter().chain([QER_OF_FLOW + qfi]).collect();
        let filters = flow.map_or(Ok(Box::default()), filters)?;
        let precedence = if flow.is_some() { PRECEDENCE_FILTERS } else { PRECEDENCE_REST };
        let up = Pdr {
            id: 2 * qfi as u16,
            precedence,
            from: Side::Access,
            tunnel: Some(local),
            ue: Some(user(wanted, End::Source)),
            filters,
            qfis: Box::default(),
            removal: Some(if local.v4.is_some() { Removal::GtpUdpIpv4 } else { Removal::GtpUdpIpv6 }),
            far: Some(FAR_UP),
            qers,
        };
        session.pdrs.push(Pdr {
            id: up.id + 1,
            from: Side::Core,
            tunnel: None,
            ue: Some(user(wanted, End::Destination)),
            removal: None,
            far: Some(FAR_DOWN),
            ..up.clone()
        });
        session.pdrs.push(up);
    }
    let station = RemoteTunnel { teid: wanted.teid, address: wanted.station, port: GTPU_PORT };
    let to = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    session.fars = vec![to(FAR_UP, Side::Core, None), to(FAR_DOWN, Side::Access, Some(station))];
    let pdrs = session.pdrs.iter().map(|pdr| pdr.id).collect();
    session.meters = [Meter { urr: Some(URR), pdrs }].into();
    session.inactivity = wanted.inactivity;
    session.order();
    Ok(session)
}

fn user(wanted: &SessionConfig, end: End) -> UeAddress {
    let mut user = UeAddress { v4: None, v6: None, end };
    for network in &wanted.ue {
        match network.address {
            IpAddr::V4(v4) => user.v4 = Some(v4),
            IpAddr::V6(address) => user.v6 = Some(Ipv6Prefix { address, length: network.length }),
        }
    }
    user
}

fn filters(flow: &SessionFlow) -> Result<Box<[Filter]>, String> {
    let read = |text: &String| {
        text.parse::<Filter>().map_err(|wrong| format!("QoS flow {}: filter `{text}`: {wrong}", flow.qfi))
    };
    flow.filter.iter().map(read).collect()
}

/// In kbit/s, and never less than was asked for.
fn kbits(rate: Rate) -> u64 {
    rate.as_bps().div_ceil(1000)
}

fn rates(up: Option<Rate>, down: Option<Rate>) -> Option<PerDirection<u64>> {
    Some(PerDirection { up: kbits(up?), down: kbits(down?) })
}

/// A direction without a guarantee has none of it.
fn guaranteed(up: Option<Rate>, down: Option<Rate>) -> Option<PerDirection<u64>> {
    let one = |rate: Option<Rate>| rate.map_or(0, kbits);
    (up.is_some() || down.is_some()).then(|| PerDirection { up: one(up), down: one(down) })
}

/// The elements of a modification that make the session `new` of the session `old`; empty if nothing changes.
/// What goes on keeps its tunnel from the base station: `new` names it. A tunnel to a base station that is no
/// more is told its end.
pub fn changes(old: &Session, new: &Session) -> Vec<Element> {
    let mut elements = Vec::new();
    // A rule that changes is taken out and made anew in the same request, which is done as a whole.
    let mut fresh = Session { seid: new.seid, meters: new.meters.clone(), ..Session::default() };
    let removed = |group_id, id, number: u32| group(group_id, vec![Element::number(id, number)]);
    for rule in &old.pdrs {
        if new.pdr(rule.id) != Some(rule) {
            elements.push(removed(ie::REMOVE_PDR, ie::PDR_ID, rule.id.into()));
        }
    }
    fresh.pdrs = new.pdrs.iter().filter(|rule| old.pdr(rule.id) != Some(rule)).cloned().collect();
    for rule in &old.qers {
        if new.qer(rule.id) != Some(rule) {
            elements.push(removed(ie::REMOVE_QER, ie::QER_ID, rule.id));
        }
    }
    fresh.qers = new.qers.iter().filter(|rule| old.qer(rule.id) != Some(rule)).copied().collect();
    // Of these there are always the same two.
    for rule in new.fars.iter().filter(|rule| old.far(rule.id) != Some(rule)) {
        let Some(forward) = rule.forward else { continue };
        let mut parameters = super::parameters(forward);
        parameters.push(Element::number(ie::PFCPSM_REQ_FLAGS, SEND_END_MARKER));
        let parameters = group(ie::UPDATE_FORWARDING_PARAMETERS, parameters);
        elements.push(group(ie::UPDATE_FAR, vec![Element::number(ie::FAR_ID, rule.id), parameters]));
    }
    if old.inactivity != new.inactivity {
        let seconds = new.inactivity.map_or(0, |wait| wait.as_nanos() / weir_units::NANOS_PER_SEC);
        elements.push(Element::number(ie::INACTIVITY_TIMER, seconds));
    }
    // The usage reporting rule is there already.
    elements.extend(creates(&fresh, false).into_iter().filter(|element| element.id != ie::CREATE_URR));
    elements
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::{Document, SessionFile};

    fn wanted(more: &str) -> SessionConfig {
        let text = format!(
            "[[sessions]]\nname = \"phone\"\nue = [\"10.45.0.7\"]\nstation = \"192.0.2.9\"\nteid = 0x99\n\
             ambr_up = \"50Mbit/s\"\nambr_down = \"100Mbit/s\"\n{more}"
        );
        let file = SessionFile::of(&Document::parse("s.toml", &text).unwrap()).unwrap();
        file.sessions.into_iter().next().unwrap()
    }

    const CALL: &str = "[[sessions.flows]]\nqfi = 1\nfilter = [\"permit out 17 from any to assigned 5060\"]\n\
        gbr_down = \"1Mbit/s\"\n";

    #[test]
    fn a_session_has_a_queue_for_each_flow_and_its_ambr_holds_those_without_a_guarantee() {
        let session = rules(7, &wanted(CALL), None).unwrap();
        session.problem().unwrap();
        assert_eq!((session.pdrs.len(), session.qers.len(), session.fars.len()), (4, 3, 2));
        let call = session.pdr(2).unwrap();
        assert_eq!((call.filters.len(), &*call.qers), (1, &[101][..]));
        assert_eq!(&*session.pdr(19).unwrap().qers, [AMBR, 109]);
        assert_eq!(session.qer(AMBR).unwrap().mbr, Some(PerDirection { up: 50_000, down: 100_000 }));
        assert_eq!(session.qer(101).unwrap().gbr, Some(PerDirection { up: 0, down: 1000 }));
        // What takes the rest is asked last.
        assert!(session.pdrs.last().unwrap().filters.is_empty());
        let wrong = rules(7, &wanted(&CALL.replace("permit out", "deny out")), None).unwrap_err();
        assert!(wrong.starts_with("QoS flow 1: filter `deny out 17"), "{wrong}");
    }

    #[test]
    fn only_what_differs_is_changed() {
        let tunnel = LocalTunnel { teid: 0x1234, v4: Some([192, 0, 2, 1].into()), v6: None };
        let of = |wanted: &SessionConfig| rules(7, wanted, Some(tunnel)).unwrap();
        let ids = |old: &SessionConfig, new: &SessionConfig| -> Vec<u16> {
            changes(&of(old), &of(new)).iter().map(|element| element.id).collect()
        };
        let plain = wanted("");
        assert_eq!(ids(&plain, &plain), [0u16; 0]);
        let handed_over = SessionConfig { teid: 0x100, ..plain.clone() };
        assert_eq!(ids(&plain, &handed_over), [ie::UPDATE_FAR]);
        let faster = SessionConfig { ambr_down: Some(Rate::from_mbps(200)), ..plain.clone() };
        assert_eq!(ids(&plain, &faster), [ie::REMOVE_QER, ie::CREATE_QER]);
        let with_call = wanted(CALL);
        assert_eq!(ids(&plain, &with_call), [ie::CREATE_PDR, ie::CREATE_PDR, ie::CREATE_QER]);
        assert_eq!(ids(&with_call, &plain), [ie::REMOVE_PDR, ie::REMOVE_PDR, ie::REMOVE_QER]);
    }
}
