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

/// Rules that are not of a QoS flow: to the data network here, or to the function that anchors the session.
const FAR_UP: u32 = 1;
const FAR_DOWN: u32 = 2;
/// Beside a tunnel to another function, what stays here.
const FAR_HERE: u32 = 3;
/// The FAR of a bearer has its number and this.
const FAR_OF_BEARER: u32 = 100;
const AMBR: u32 = 1;
const URR: u32 = 1;
/// The QER of a QoS flow has its number and this.
const QER_OF_FLOW: u32 = 100;
/// Filters are asked before what takes the rest.
const PRECEDENCE_FILTERS: u32 = 100;
const PRECEDENCE_REST: u32 = 200;
/// PFCPSMReq-Flags (TS 29.244 section 8.2.28): the tunnel of before is told its end.
const SEND_END_MARKER: u32 = 2;

/// PDRs of bearers but the first have numbers from here on, and those of tunnels from another function from
/// there.
const PDRS_OF_BEARERS: u16 = 256;
const PDRS_OF_N9: u16 = 512;
/// Numbers of tunnels that the other side chooses (CHOOSE ID): one from the base station and one from another
/// function, or one for each bearer.
const CHOSEN_N3: u32 = 1;
const CHOSEN_N9: u32 = 2;

/// The PDR that takes what comes from the base station in a QoS flow or bearer of a session.
pub fn pdr_up(wanted: &SessionConfig, qfi: u32) -> u16 {
    // The first bearer is the one of the rest, and the user plane takes that with the smallest number for it.
    let is_later = wanted.bearers && qfi != wanted.qfi;
    2 * qfi as u16 + if is_later { PDRS_OF_BEARERS } else { 0 }
}

/// The PDR that takes what comes from another function in a QoS flow of a session.
pub fn pdr_n9(qfi: u32) -> u16 {
    PDRS_OF_N9 + qfi as u16
}

/// The tunnel of a PDR: its own, or else, but for bearers, another one from the same side; or one that the
/// other side chooses.
fn tunnel_here(
    wanted: &SessionConfig,
    tunnels: &[(u16, LocalTunnel)],
    (pdr, from, chosen): (u16, IpAddr, u32),
) -> LocalTunnel {
    let own = tunnels.iter().find(|(of, _)| *of == pdr);
    let is_alike = |of: u16| !wanted.bearers && (of >= PDRS_OF_N9) == (pdr >= PDRS_OF_N9);
    let known = own.or_else(|| tunnels.iter().find(|(of, _)| is_alike(*of)));
    known.map_or(
        LocalTunnel {
            teid: chosen,
            v4: from.is_ipv4().then_some(Ipv4Addr::UNSPECIFIED),
            v6: from.is_ipv6().then_some(Ipv6Addr::UNSPECIFIED),
        },
        |(_, tunnel)| *tunnel,
    )
}

fn removal(tunnel: LocalTunnel) -> Option<Removal> {
    Some(if tunnel.v4.is_some() { Removal::GtpUdpIpv4 } else { Removal::GtpUdpIpv6 })
}

/// The rules of a session. Tunnels here are those of `tunnels`, by PDR, and others that the other side
/// chooses. Tells which filter is wrong, and why.
pub fn rules(seid: Seid, wanted: &SessionConfig, tunnels: &[(u16, LocalTunnel)]) -> Result<Session, String> {
    let mut session = Session { seid, ..Session::default() };
    let ambr = rates(wanted.ambr_up, wanted.ambr_down);
    let open = PerDirection { up: true, down: true };
    let qer = |id, mbr, gbr, qfi| Qer { id, correlation: None, open, mbr, gbr, qfi };
    session.qers.extend(ambr.map(|ambr| qer(AMBR, Some(ambr), None, None)));
    let station = |teid| RemoteTunnel { teid, address: wanted.station, port: GTPU_PORT };
    let to = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    let rest = (wanted.qfi, None::<&SessionFlow>);
    for (qfi, flow) in wanted.flows.iter().map(|flow| (flow.qfi, Some(flow))).chain([rest]) {
        let gbr = flow.and_then(|flow| guaranteed(flow.gbr_up, flow.gbr_down));
        let mbr = flow.and_then(|flow| rates(flow.mbr_up, flow.mbr_down));
        // Bearers are told apart by their tunnels, and only QoS flows by their number.
        let named = (!wanted.bearers).then_some(qfi as u8);
        session.qers.push(qer(QER_OF_FLOW + qfi, mbr, gbr, named));
        let aggregate = (gbr.is_none() && ambr.is_some()).then_some(AMBR);
        let qers: Box<[u32]> = aggregate.into_iter().chain([QER_OF_FLOW + qfi]).collect();
        let filters = flow.map_or(Ok(Box::default()), filters)?;
        let precedence = if flow.is_some() { PRECEDENCE_FILTERS } else { PRECEDENCE_REST };
        let id = pdr_up(wanted, qfi);
        let bearer = flow.and_then(|flow| flow.teid);
        let chosen = if bearer.is_some() { CHOSEN_N9 + qfi } else { CHOSEN_N3 };
        let local = tunnel_here(wanted, tunnels, (id, wanted.station, chosen));
        let stays = wanted.core.is_some() && flow.is_some_and(|flow| flow.breakout);
        let up = Pdr {
            id,
            precedence,
            from: Side::Access,
            tunnel: Some(local),
            ue: Some(user(wanted, End::Source)),
            filters,
            qfis: Box::default(),
            removal: removal(local),
            far: Some(if stays { FAR_HERE } else { FAR_UP }),
            qers,
        };
        let down = Pdr {
            id: up.id + 1,
            from: Side::Core,
            tunnel: None,
            ue: Some(user(wanted, End::Destination)),
            removal: None,
            far: Some(bearer.map_or(FAR_DOWN, |_| FAR_OF_BEARER + qfi)),
            ..up.clone()
        };
        if let Some(core) = wanted.core {
            let id = pdr_n9(qfi);
            let local = tunnel_here(wanted, tunnels, (id, core, CHOSEN_N9));
            session.pdrs.push(Pdr { id, tunnel: Some(local), removal: removal(local), ..down.clone() });
        }
        session.pdrs.extend([down, up]);
        session.fars.extend(bearer.map(|teid| to(FAR_OF_BEARER + qfi, Side::Access, Some(station(teid)))));
    }
    let anchor = wanted.core.zip(wanted.core_teid);
    let anchor = anchor.map(|(address, teid)| RemoteTunnel { teid, address, port: GTPU_PORT });
    session.fars.push(to(FAR_UP, Side::Core, anchor));
    session.fars.push(to(FAR_DOWN, Side::Access, Some(station(wanted.teid))));
    session.fars.extend(anchor.map(|_| to(FAR_HERE, Side::Core, None)));
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
/// What goes on keeps its tunnels here: `new` names them. A tunnel to a base station that is no more is told
/// its end. Rules for a tunnel to another function ([`SessionConfig::core`]) are there before and after, or
/// neither.
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
    for rule in old.fars.iter().filter(|rule| new.far(rule.id).is_none()) {
        elements.push(removed(ie::REMOVE_FAR, ie::FAR_ID, rule.id));
    }
    fresh.fars = new.fars.iter().filter(|rule| old.far(rule.id).is_none()).copied().collect();
    let is_changed = |rule: &&Far| old.far(rule.id).is_some_and(|before| before != *rule);
    for rule in new.fars.iter().filter(is_changed) {
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
        let session = rules(7, &wanted(CALL), &[]).unwrap();
        session.problem().unwrap();
        assert_eq!((session.pdrs.len(), session.qers.len(), session.fars.len()), (4, 3, 2));
        let call = session.pdr(2).unwrap();
        assert_eq!((call.filters.len(), &*call.qers), (1, &[101][..]));
        assert_eq!(&*session.pdr(19).unwrap().qers, [AMBR, 109]);
        assert_eq!(session.qer(AMBR).unwrap().mbr, Some(PerDirection { up: 50_000, down: 100_000 }));
        assert_eq!(session.qer(101).unwrap().gbr, Some(PerDirection { up: 0, down: 1000 }));
        // What takes the rest is asked last.
        assert!(session.pdrs.last().unwrap().filters.is_empty());
        let wrong = rules(7, &wanted(&CALL.replace("permit out", "deny out")), &[]).unwrap_err();
        assert!(wrong.starts_with("QoS flow 1: filter `deny out 17"), "{wrong}");
    }

    #[test]
    fn only_what_differs_is_changed() {
        let tunnel = LocalTunnel { teid: 0x1234, v4: Some([192, 0, 2, 1].into()), v6: None };
        let of = |wanted: &SessionConfig| rules(7, wanted, &[(18, tunnel)]).unwrap();
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

    #[test]
    fn each_bearer_has_a_tunnel_both_ways_and_none_has_a_number_in_packets() {
        let call = format!("{CALL}teid = 0x9a\n");
        let with_call = wanted(&format!("bearers = true\n{call}"));
        let session = rules(7, &with_call, &[]).unwrap();
        session.problem().unwrap();
        assert!(!session.names_flows());
        let pdr = |qfi| session.pdr(pdr_up(&with_call, qfi)).unwrap();
        // The one of the rest is the first, and the other side chooses a tunnel for each.
        assert!(pdr(9).id < pdr(1).id);
        assert_ne!(pdr(9).tunnel.unwrap().teid, pdr(1).tunnel.unwrap().teid);
        let down = |qfi| {
            let far = session.pdr(pdr_up(&with_call, qfi) + 1).unwrap().far.unwrap();
            session.far(far).unwrap().forward.unwrap().tunnel.unwrap().teid
        };
        assert_eq!((down(9), down(1)), (0x99, 0x9a));
        // A bearer comes and goes with its rules and its tunnel, and is handed over like the first.
        let plain = wanted("bearers = true\n");
        let given = |teid| LocalTunnel { teid, v4: Some([192, 0, 2, 1].into()), v6: None };
        let tunnels = [(pdr_up(&plain, 9), given(5)), (pdr_up(&with_call, 1), given(6))];
        let ids = |old: &SessionConfig, new: &SessionConfig, known: usize| -> Vec<u16> {
            let of = |wanted: &SessionConfig| rules(7, wanted, &tunnels[..known]).unwrap();
            changes(&of(old), &of(new)).iter().map(|element| element.id).collect()
        };
        let added = [ie::CREATE_PDR, ie::CREATE_PDR, ie::CREATE_FAR, ie::CREATE_QER];
        assert_eq!(ids(&plain, &with_call, 1), added);
        assert_eq!(
            ids(&with_call, &plain, 2),
            [ie::REMOVE_PDR, ie::REMOVE_PDR, ie::REMOVE_QER, ie::REMOVE_FAR]
        );
        let handed_over = wanted(&format!("bearers = true\n{}", call.replace("0x9a", "0x100")));
        assert_eq!(ids(&with_call, &handed_over, 2), [ie::UPDATE_FAR]);
    }

    #[test]
    fn what_is_not_kept_here_goes_to_another_function_and_comes_back_from_it() {
        let near = "[[sessions.flows]]\nqfi = 1\nfilter = [\"permit out ip from 203.0.113.0/24 to assigned\"]\nbreakout = true\n";
        let divided = wanted(&format!("core = \"192.0.2.30\"\ncore_teid = 0xa005\n{near}"));
        let session = rules(7, &divided, &[]).unwrap();
        session.problem().unwrap();
        let to = |pdr: u16| {
            let forward = session.far(session.pdr(pdr).unwrap().far.unwrap()).unwrap().forward.unwrap();
            (forward.to, forward.tunnel.map(|tunnel| tunnel.teid))
        };
        assert_eq!(
            (to(pdr_up(&divided, 1)), to(pdr_up(&divided, 9))),
            ((Side::Core, None), (Side::Core, Some(0xa005)))
        );
        for qfi in [1, 9] {
            let (n3, n9) = (session.pdr(pdr_up(&divided, qfi)).unwrap(), session.pdr(pdr_n9(qfi)).unwrap());
            assert_eq!((n9.from, to(n9.id)), (Side::Core, (Side::Access, Some(0x99))));
            assert_eq!((n3.tunnel.unwrap().teid, n9.tunnel.unwrap().teid), (CHOSEN_N3, CHOSEN_N9));
        }
        // Chosen tunnels are given from then on, to QoS flows that come later, too.
        let given = |teid| LocalTunnel { teid, v4: Some([192, 0, 2, 1].into()), v6: None };
        let later = rules(7, &divided, &[(pdr_up(&divided, 9), given(5)), (pdr_n9(9), given(6))]).unwrap();
        let teid = |pdr: u16| later.pdr(pdr).unwrap().tunnel.unwrap().teid;
        assert_eq!([teid(pdr_up(&divided, 1)), teid(pdr_n9(1)), teid(pdr_n9(9))], [5, 6, 6]);
    }
}
