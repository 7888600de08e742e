//! Elements of a request to rules.

use super::cause::{Cause, Refused, rule_number};
use super::ie_reader::{IeReader, incorrect};
use super::sides::Sides;
use super::tunnels::ReservedTunnels;
use crate::filter::Filter;
use crate::message::{FlowFilter, Tunnel, UserAddress, Value, ie};
use crate::rules::{
    Action, End, Far, Forward, Ipv6Prefix, LocalTunnel, Pdr, PerDirection, Qer, RemoteTunnel, Removal,
    RuleKind, Session, Side, UeAddress,
};
use std::net::IpAddr;
use weir_config::unicast;

/// UDP port of GTP-U.
pub const GTPU_PORT: u16 = 2152;

const PDR: u8 = 0;
const FAR: u8 = 1;
const QER: u8 = 2;

/// Refuses a rule for what it says of itself.
fn bad(id: u16, why: impl Into<String>) -> Refused {
    Refused::element(Cause::RuleFailure, id, why)
}

/// Refuses what an element says whatever the rules are.
fn senseless(id: u16, why: impl Into<String>) -> Refused {
    Refused::element(Cause::MandatoryIncorrect, id, why)
}

fn conditional(id: u16, why: &str) -> Refused {
    Refused::element(Cause::ConditionalMissing, id, why)
}

/// A new packet detection rule, and the URRs that it names.
pub fn create_pdr(
    mut bag: IeReader,
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<(Pdr, Vec<u32>), Refused> {
    let id = bag.need_number(ie::PDR_ID)? as u16;
    let read = move || -> Result<(Pdr, Vec<u32>), Refused> {
        let precedence = bag.need_number(ie::PRECEDENCE)? as u32;
        let mut pdr = detection(bag.need_group(ie::PDI)?, id, sides, chosen)?;
        pdr.precedence = precedence;
        pdr.removal = removal(&mut bag)?;
        pdr.far = bag.number(ie::FAR_ID)?.map(|far| far as u32);
        pdr.qers = bag.numbers(ie::QER_ID)?.into_iter().map(|qer| qer as u32).collect();
        let urrs = urrs(&mut bag)?;
        bag.finish()?;
        Ok((pdr, urrs))
    };
    read().map_err(|refused| refused.of_rule(PDR, u32::from(id)))
}

fn urrs(bag: &mut IeReader) -> Result<Vec<u32>, Refused> {
    Ok(bag.numbers(ie::URR_ID)?.into_iter().map(|urr| urr as u32).collect())
}

/// What changes of a packet detection rule: its number, and the URRs that it names, if any.
pub fn update_pdr(
    mut bag: IeReader,
    pdrs: &mut [Pdr],
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<(u16, Vec<u32>), Refused> {
    let id = bag.need_number(ie::PDR_ID)? as u16;
    let read = move || -> Result<(u16, Vec<u32>), Refused> {
        let pdr = pdrs.iter_mut().find(|pdr| pdr.id == id).ok_or_else(|| absent(RuleKind::Pdr))?;
        if let Some(pdi) = bag.group(ie::PDI)? {
            let new = detection(pdi, id, sides, chosen)?;
            let old = std::mem::replace(pdr, new);
            (pdr.precedence, pdr.removal, pdr.far, pdr.qers) =
                (old.precedence, old.removal, old.far, old.qers);
        }
        if let Some(precedence) = bag.number(ie::PRECEDENCE)? {
            pdr.precedence = precedence as u32;
        }
        if let Some(new) = removal(&mut bag)? {
            pdr.removal = Some(new);
        }
        if let Some(far) = bag.number(ie::FAR_ID)? {
            pdr.far = Some(far as u32);
        }
        let qers = bag.numbers(ie::QER_ID)?;
        if !qers.is_empty() {
            pdr.qers = qers.into_iter().map(|qer| qer as u32).collect();
        }
        let urrs = urrs(&mut bag)?;
        bag.finish()?;
        Ok((id, urrs))
    };
    read().map_err(|refused| refused.of_rule(PDR, u32::from(id)))
}

fn absent(kind: RuleKind) -> Refused {
    Refused::new(Cause::RuleFailure, format!("there is no such {kind}"))
}

/// The packets that a rule is for, as a rule that does nothing with them yet.
fn detection(
    mut pdi: IeReader,
    id: u16,
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<Pdr, Refused> {
    let interface = pdi.need_number(ie::SOURCE_INTERFACE)?;
    let instance = text(&mut pdi)?;
    let from = sides.side(ie::SOURCE_INTERFACE, interface, instance)?;
    let tunnel = pdi.take(ie::F_TEID)?.map(|value| tunnel(value, id, sides, chosen)).transpose()?;
    let ue = pdi.take(ie::UE_IP_ADDRESS)?.map(|value| user(value, sides)).transpose()?;
    let filters = filters(pdi.all(ie::SDF_FILTER)?, from, sides)?;
    let qfis = pdi.numbers(ie::QFI)?.into_iter().map(qfi).collect::<Result<_, _>>()?;
    pdi.inform(&[ie::INTERFACE_TYPE])?;
    pdi.finish()?;
    match (from, &tunnel, &ue) {
        (Side::Access, None, _) => {
            return Err(conditional(ie::F_TEID, "packets from the access side come in a tunnel"));
        }
        (Side::Local, Some(_), _) => {
            return Err(bad(ie::F_TEID, "packets from the port for local breakout come in no tunnel"));
        }
        (Side::Core | Side::Local, None, None) => {
            return Err(conditional(ie::UE_IP_ADDRESS, "packets from the core side are found by it"));
        }
        (Side::Core | Side::Local, _, Some(ue)) if ue.end == End::Source => {
            return Err(bad(ie::UE_IP_ADDRESS, "packets from the core side bear it as destination (S/D)"));
        }
        (Side::Access, _, Some(ue)) if ue.end == End::Destination => {
            return Err(bad(ie::UE_IP_ADDRESS, "packets from the access side bear it as source (S/D)"));
        }
        _ => {}
    }
    let (removal, far, qers) = (None, None, Box::default());
    Ok(Pdr { id, precedence: 0, from, tunnel, ue, filters, qfis, removal, far, qers })
}

fn text<'a>(bag: &mut IeReader<'a>) -> Result<Option<&'a str>, Refused> {
    match bag.take(ie::NETWORK_INSTANCE)? {
        None => Ok(None),
        Some(Value::Text(name)) => Ok(Some(name)),
        Some(_) => Err(incorrect(ie::NETWORK_INSTANCE)),
    }
}

fn tunnel(
    value: &Value,
    pdr: u16,
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<LocalTunnel, Refused> {
    match *value {
        Value::Tunnel(Tunnel::Given { teid: 0, .. }) => {
            Err(senseless(ie::F_TEID, "a tunnel has a number above zero"))
        }
        Value::Tunnel(Tunnel::Given { teid, v4, v6 }) => {
            let foreign = v4.is_some() && v4 != sides.v4 || v6.is_some() && v6 != sides.v6;
            if foreign || (v4.is_none() && v6.is_none()) {
                return Err(bad(ie::F_TEID, "no tunnel ends at that address here"));
            }
            chosen.given(teid)?;
            Ok(LocalTunnel { teid, v4, v6 })
        }
        Value::Tunnel(Tunnel::Choose { v4, v6, id }) => {
            let missing = v4 && sides.v4.is_none() || v6 && sides.v6.is_none();
            if missing || !(v4 || v6) {
                let why = "there is no address of that IP version here";
                return Err(Refused::element(Cause::TunnelOption, ie::F_TEID, why));
            }
            let teid = chosen.choose(id, pdr)?;
            Ok(LocalTunnel { teid, v4: sides.v4.filter(|_| v4), v6: sides.v6.filter(|_| v6) })
        }
        _ => Err(incorrect(ie::F_TEID)),
    }
}

fn user(value: &Value, sides: &Sides) -> Result<UeAddress, Refused> {
    const ID: u16 = ie::UE_IP_ADDRESS;
    let Value::UserAddress(UserAddress { v4, v6, is_destination, is_chosen }) = *value else {
        return Err(incorrect(ID));
    };
    if is_chosen {
        return Err(bad(ID, "addresses of user equipment are not allocated here"));
    }
    if v4.is_none() && v6.is_none() {
        return Err(incorrect(ID));
    }
    if let Some(v4) = v4.filter(|v4| !is_host((*v4).into())) {
        return Err(senseless(ID, format!("{v4} is no address of a host")));
    }
    let v6 = v6.map(|(address, length)| Ipv6Prefix { address, length });
    v6.map_or(Ok(()), check_prefix)?;
    let named = |own: &IpAddr| match *own {
        IpAddr::V4(own) => v4 == Some(own),
        IpAddr::V6(own) => v6.is_some_and(|prefix| prefix.covers(own)),
    };
    if let Some(own) = sides.taken().find(named) {
        return Err(bad(ID, format!("{own} is an address of this function or of its gateway")));
    }
    Ok(UeAddress { v4, v6, end: if is_destination { End::Destination } else { End::Source } })
}

/// Refuses a prefix that no user equipment has.
fn check_prefix(prefix: Ipv6Prefix) -> Result<(), Refused> {
    let Ipv6Prefix { address, length } = prefix;
    let is_nobodys = u128::from(address) >> 64 == 0 || address.is_unicast_link_local();
    if is_nobodys || address.is_multicast() {
        return Err(senseless(
            ie::UE_IP_ADDRESS,
            format!("{address}/{length} is no prefix of user equipment"),
        ));
    }
    if length != 64 {
        return Err(bad(ie::UE_IP_ADDRESS, "the IPv6 prefix of the user equipment must have 64 bits"));
    }
    Ok(())
}

fn filters(values: Vec<&Value>, from: Side, sides: &Sides) -> Result<Box<[Filter]>, Refused> {
    if values.len() > sides.filters_max {
        let why = format!("more than {} filters", sides.filters_max);
        return Err(Refused::element(Cause::NoResources, ie::SDF_FILTER, why));
    }
    values.into_iter().map(|value| filter(value, from)).collect()
}

fn filter(value: &Value, from: Side) -> Result<Filter, Refused> {
    let Value::Flow(FlowFilter { description, tos, spi, flow_label, id }) = value else {
        return Err(incorrect(ie::SDF_FILTER));
    };
    let mut filter = match description {
        Some(text) => text.parse::<Filter>().map_err(|wrong| bad(ie::SDF_FILTER, wrong.to_string()))?,
        None if tos.is_none() && spi.is_none() && flow_label.is_none() => {
            return Err(bad(ie::SDF_FILTER, "a filter that only refers to another is not done"));
        }
        None => Filter::default(),
    };
    if filter.is_in && from != Side::Access {
        return Err(bad(ie::SDF_FILTER, "`permit in` stands in a rule for packets to the user equipment"));
    }
    (filter.tos, filter.spi, filter.flow_label, filter.id) = (*tos, *spi, *flow_label, *id);
    if flow_label.is_some() && filter.address_is_ipv6() == Some(false) {
        return Err(bad(ie::SDF_FILTER, "a flow label is IPv6's, and the addresses are IPv4's"));
    }
    Ok(filter)
}

fn qfi(number: u64) -> Result<u8, Refused> {
    match number {
        1..=63 => Ok(number as u8),
        _ => Err(incorrect(ie::QFI)),
    }
}

fn removal(bag: &mut IeReader) -> Result<Option<Removal>, Refused> {
    // The second octet asks to take extension headers off, which goes with the tunnel.
    match bag.number(ie::OUTER_HEADER_REMOVAL)?.map(|number| number & 0xff) {
        None => Ok(None),
        Some(0) => Ok(Some(Removal::GtpUdpIpv4)),
        Some(1) => Ok(Some(Removal::GtpUdpIpv6)),
        Some(6) => Ok(Some(Removal::GtpUdpIp)),
        Some(other) => Err(bad(ie::OUTER_HEADER_REMOVAL, format!("header {other} is not done"))),
    }
}

/// A new forwarding action rule.
pub fn create_far(mut bag: IeReader, sides: &Sides) -> Result<Far, Refused> {
    let id = bag.need_number(ie::FAR_ID)? as u32;
    let read = move || -> Result<Far, Refused> {
        let action = action(bag.need_number(ie::APPLY_ACTION)?)?;
        bag.number(ie::BAR_ID)?;
        let parameters = bag.group(ie::FORWARDING_PARAMETERS)?;
        let forward = parameters.map(|parameters| forwarding(parameters, None, sides)).transpose()?;
        bag.finish()?;
        let forward = forward.map(|(forward, _)| forward);
        says_where(action, forward, ie::FORWARDING_PARAMETERS)?;
        Ok(Far { id, action, forward })
    };
    read().map_err(|refused| refused.of_rule(FAR, id))
}

/// What changes of a forwarding action rule. Gives the tunnel that is to be told its end: the one that
/// packets went into last, also if they have been buffered since (TS 29.244 section 5.2.3).
pub fn update_far(
    mut bag: IeReader,
    fars: &mut [Far],
    sides: &Sides,
) -> Result<Option<RemoteTunnel>, Refused> {
    let id = bag.need_number(ie::FAR_ID)? as u32;
    let read = move || -> Result<Option<RemoteTunnel>, Refused> {
        let far = fars.iter_mut().find(|far| far.id == id).ok_or_else(|| absent(RuleKind::Far))?;
        let (old, mut ends) = (far.forward, false);
        bag.number(ie::BAR_ID)?;
        if let Some(flags) = bag.number(ie::APPLY_ACTION)? {
            far.action = action(flags)?;
        }
        if let Some(parameters) = bag.group(ie::UPDATE_FORWARDING_PARAMETERS)? {
            let (new, flags) = forwarding(parameters, old, sides)?;
            (far.forward, ends) = (Some(new), flags & SEND_END_MARKER != 0);
        }
        bag.finish()?;
        says_where(far.action, far.forward, ie::UPDATE_FORWARDING_PARAMETERS)?;
        // A tunnel that goes on does not end.
        let goes_on = far.way().and_then(|forward| forward.tunnel);
        Ok(old.and_then(|old| old.tunnel).filter(|old| ends && goes_on != Some(*old)))
    };
    read().map_err(|refused| refused.of_rule(FAR, id))
}

/// PFCPSMReq-Flags (TS 29.244 section 8.2.28).
const SEND_END_MARKER: u64 = 2;
/// Apply Action (section 8.2.26).
const DROP: u64 = 1;
const FORW: u64 = 2;
const BUFF: u64 = 4;
const NOCP: u64 = 8;

fn action(flags: u64) -> Result<Action, Refused> {
    match flags {
        DROP => Ok(Action::Drop),
        FORW => Ok(Action::Forward),
        BUFF => Ok(Action::Buffer { tell: false }),
        flags if flags == BUFF | NOCP => Ok(Action::Buffer { tell: true }),
        other => Err(bad(ie::APPLY_ACTION, format!("the action {other:#x} is not done"))),
    }
}

/// Refuses to forward without an element that says where.
fn says_where(action: Action, forward: Option<Forward>, id: u16) -> Result<(), Refused> {
    match (action, forward) {
        (Action::Forward, None) => Err(conditional(id, "forwarding without parameters")),
        _ => Ok(()),
    }
}

/// Where packets go: new, or `old` with what changes. With the flags of the request.
fn forwarding(mut bag: IeReader, old: Option<Forward>, sides: &Sides) -> Result<(Forward, u64), Refused> {
    let instance = text(&mut bag)?;
    let to = match (bag.number(ie::DESTINATION_INTERFACE)?, old) {
        (Some(interface), _) => sides.side(ie::DESTINATION_INTERFACE, interface, instance)?,
        (None, Some(old)) if instance.is_none() => old.to,
        (None, _) => {
            let why = "parameters of forwarding without an interface";
            return Err(Refused::element(Cause::MandatoryMissing, ie::DESTINATION_INTERFACE, why));
        }
    };
    let tunnel = match bag.take(ie::OUTER_HEADER_CREATION)? {
        Some(value) => Some(remote(value, sides)?),
        // A tunnel that leads to another side is none there.
        None => old.filter(|old| old.to == to).and_then(|old| old.tunnel),
    };
    let marking = bag.number(ie::TRANSPORT_LEVEL_MARKING)?;
    let dscp = marking.map(dscp).transpose()?.or(old.and_then(|old| old.dscp));
    if let Some(value) = bag.take(ie::FORWARDING_POLICY)? {
        let why = format!("there is no forwarding policy {value:?}");
        return Err(Refused::element(Cause::ForwardingPolicy, ie::FORWARDING_POLICY, why));
    }
    let flags = bag.number(ie::PFCPSM_REQ_FLAGS)?.unwrap_or(0);
    if flags & !SEND_END_MARKER != 0 {
        return Err(bad(ie::PFCPSM_REQ_FLAGS, format!("the flags {flags:#x} are not done")));
    }
    bag.inform(&[ie::INTERFACE_TYPE])?;
    bag.finish()?;
    match (to, tunnel) {
        (Side::Access, None) => {
            Err(conditional(ie::OUTER_HEADER_CREATION, "packets to the access side go in a tunnel"))
        }
        (Side::Local, Some(_)) => {
            let why = "packets to the port for local breakout go in no tunnel";
            Err(bad(ie::OUTER_HEADER_CREATION, why))
        }
        _ => Ok((Forward { to, tunnel, dscp }, flags)),
    }
}

fn remote(value: &Value, sides: &Sides) -> Result<RemoteTunnel, Refused> {
    const ID: u16 = ie::OUTER_HEADER_CREATION;
    let Value::OuterHeader { teid, address } = *value else {
        return Err(incorrect(ID));
    };
    let has_family = if address.is_ipv4() { sides.v4.is_some() } else { sides.v6.is_some() };
    if teid == 0 {
        return Err(senseless(ID, "a tunnel has a number above zero"));
    }
    if !is_host(address) {
        return Err(senseless(ID, format!("{address} is no address of a host")));
    }
    if !has_family {
        return Err(bad(ID, format!("no tunnel can lead to {address} from here")));
    }
    if sides.is_own(address) {
        return Err(bad(ID, format!("{address} is an address of this function: the tunnel would end here")));
    }
    Ok(RemoteTunnel { teid, address, port: GTPU_PORT })
}

/// Whether an address can be that of one host elsewhere; those of 0.0.0.0/8 are of hosts that do not know
/// theirs.
fn is_host(address: IpAddr) -> bool {
    unicast(&address) && !matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0)
}

/// Transport Level Marking: the octet of the header, and a mask of which the upper six bits are the DSCP's.
fn dscp(octets: u64) -> Result<u8, Refused> {
    let (value, mask) = ((octets >> 8) as u8, octets as u8);
    match mask {
        0xfc | 0xff => Ok(value & 0xfc),
        _ => Err(bad(ie::TRANSPORT_LEVEL_MARKING, "a mask that is not that of the whole DSCP")),
    }
}

/// A new QoS enforcement rule.
pub fn create_qer(mut bag: IeReader) -> Result<Qer, Refused> {
    let id = bag.need_number(ie::QER_ID)? as u32;
    let read = move || -> Result<Qer, Refused> {
        let open = gates(bag.need_number(ie::GATE_STATUS)?)?;
        let mut qer = Qer { id, correlation: None, open, mbr: None, gbr: None, qfi: None };
        enforcement(bag, &mut qer)?;
        Ok(qer)
    };
    read().map_err(|refused| refused.of_rule(QER, id))
}

/// What changes of a QoS enforcement rule.
pub fn update_qer(mut bag: IeReader, qers: &mut [Qer]) -> Result<(), Refused> {
    let id = bag.need_number(ie::QER_ID)? as u32;
    let read = move || -> Result<(), Refused> {
        let qer = qers.iter_mut().find(|qer| qer.id == id).ok_or_else(|| absent(RuleKind::Qer))?;
        if let Some(flags) = bag.number(ie::GATE_STATUS)? {
            qer.open = gates(flags)?;
        }
        enforcement(bag, qer)
    };
    read().map_err(|refused| refused.of_rule(QER, id))
}

/// What a new rule and a changed one say alike.
fn enforcement(mut bag: IeReader, qer: &mut Qer) -> Result<(), Refused> {
    if let Some(number) = bag.number(ie::QER_CORRELATION_ID)? {
        qer.correlation = Some(number as u32);
    }
    if let Some(rates) = rates(&mut bag, ie::MBR)? {
        qer.mbr = Some(rates);
    }
    if let Some(rates) = rates(&mut bag, ie::GBR)? {
        qer.gbr = Some(rates).filter(|rates| rates.up > 0 || rates.down > 0);
    }
    if let Some(number) = bag.number(ie::QFI)? {
        qer.qfi = Some(qfi(number)?);
    }
    if bag.number(ie::RQI)?.is_some_and(|flags| flags & 1 == 1) {
        return Err(bad(ie::RQI, "reflective QoS is not done"));
    }
    bag.inform(&[ie::AVERAGING_WINDOW])?;
    bag.finish()?;
    match (qer.gbr, qer.mbr) {
        (Some(gbr), Some(mbr)) if gbr.up > mbr.up || gbr.down > mbr.down => {
            Err(bad(ie::GBR, "more is guaranteed than is allowed"))
        }
        _ => Ok(()),
    }
}

/// Refuses a guaranteed rate that is no flow's where flows are named. Where none is (a 4G gateway), it is
/// that of the bearer whose rules name the QER.
pub fn check_guarantees(session: &Session) -> Result<(), Refused> {
    let unnamed = |rule: &&Qer| rule.gbr.is_some() && rule.qfi.is_none();
    match session.qers.iter().find(unnamed).filter(|_| session.names_flows()) {
        Some(rule) => {
            let refused = conditional(ie::QFI, "a guaranteed rate without a QoS flow, where others have one");
            Err(refused.of_rule(QER, rule.id))
        }
        None => Ok(()),
    }
}

fn rates(bag: &mut IeReader, id: u16) -> Result<Option<PerDirection<u64>>, Refused> {
    match bag.take(id)? {
        None => Ok(None),
        Some(Value::Rates { up, down }) => Ok(Some(PerDirection { up: *up, down: *down })),
        Some(_) => Err(incorrect(id)),
    }
}

/// Gate Status (section 8.2.7): downlink in bits 1 and 2, uplink in bits 3 and 4.
fn gates(flags: u64) -> Result<PerDirection<bool>, Refused> {
    let open = |bits: u64| match bits & 3 {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(incorrect(ie::GATE_STATUS)),
    };
    Ok(PerDirection { up: open(flags >> 2)?, down: open(flags)? })
}

/// Takes a rule out.
pub fn remove<R>(
    mut bag: IeReader,
    id: u16,
    kind: RuleKind,
    rules: &mut Vec<R>,
    number: fn(&R) -> u32,
) -> Result<R, Refused> {
    let wanted = bag.need_number(id)? as u32;
    let fail = |refused: Refused| refused.of_rule(rule_number(kind), wanted);
    bag.finish().map_err(fail)?;
    match rules.iter().position(|rule| number(rule) == wanted) {
        Some(at) => Ok(rules.remove(at)),
        None => Err(fail(absent(kind))),
    }
}
