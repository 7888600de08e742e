//! PFCP (TS 29.244) through the crate `rs-pfcp`.
//!
//! The header and the elements with a structure are its work. Messages are not: its readers of whole messages
//! pass over what they do not know, and here nothing is passed over. Gate status and SDF filter are read here
//! too: it takes the uplink gate from another bit than section 8.2.7 says, and of a filter the description
//! alone.

use super::{Codec, DEPTH_MAX, ELEMENTS_MAX, Flaw, Malformed};
use crate::message::{Element, Fault, FlowFilter, Message, NodeId, Tunnel, UserAddress, Value, Volume, ie};
use rs_pfcp::error::PfcpError;
use rs_pfcp::ie::f_teid::Fteid;
use rs_pfcp::ie::fseid::Fseid;
use rs_pfcp::ie::mbr::Mbr;
use rs_pfcp::ie::node_id::NodeId as WireNodeId;
use rs_pfcp::ie::outer_header_creation::{OuterHeaderCreation, OuterHeaderCreationFlags};
use rs_pfcp::ie::ue_ip_address::UeIpAddress;
use rs_pfcp::message::MsgType;
use rs_pfcp::message::header::Header;
use std::net::IpAddr;

/// PFCP as it is on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pfcp;

const VERSION: u8 = 1;
/// Octets that the length of a message does not count.
const UNCOUNTED: usize = 4;

/// Flags of a header: a session is named; another message follows.
const HAS_SEID: u8 = 1;
const FOLLOW_ON: u8 = 4;

/// The version that the first octet names.
fn version(octets: &[u8]) -> u8 {
    octets[0] >> 5
}

impl Codec for Pfcp {
    fn split<'a>(&self, datagram: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let Some(head) = datagram.first_chunk::<4>() else { return (datagram, &[]) };
        let is_followed = version(head) == VERSION && head[0] & FOLLOW_ON != 0;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]])) + UNCOUNTED;
        is_followed.then(|| datagram.split_at_checked(length)).flatten().unwrap_or((datagram, &[]))
    }

    fn decode(&self, octets: &[u8]) -> Result<Message, Malformed> {
        if octets.len() < 8 {
            return Err(Malformed::Short);
        }
        if version(octets) != VERSION {
            let at = if octets[0] & HAS_SEID != 0 { 12 } else { 4 };
            let sequence = octets.get(at..at + 3).ok_or(Malformed::Short)?;
            return Err(Malformed::Version { kind: octets[1], sequence: number(sequence) as u32 });
        }
        let header = Header::unmarshal(octets).map_err(|_| Malformed::Short)?;
        let mut message = Message {
            kind: header.message_type_code(),
            seid: header.has_seid.then_some(header.seid.0),
            sequence: header.sequence_number.0,
            elements: Vec::new(),
        };
        let flaw = if usize::from(header.length) + UNCOUNTED == octets.len() {
            let behind = octets.get(usize::from(header.len())..).ok_or(Malformed::Short)?;
            let mut budget = ELEMENTS_MAX;
            elements(behind, DEPTH_MAX, &mut budget, &mut message.elements).err()
        } else {
            Some(Flaw::Length)
        };
        match flaw {
            None => Ok(message),
            Some(flaw) => Err(Malformed::Broken { message: Box::new(message), flaw }),
        }
    }

    fn encode(&self, message: &Message, out: &mut Vec<u8>) {
        let (kind, has_seid, seid) = (message.kind, message.seid.is_some(), message.seid.unwrap_or(0));
        let header = match MsgType::from(kind) {
            MsgType::Unknown => Header::new_unknown(kind, has_seid, seid, message.sequence)
                .expect("a kind that is not known is taken"),
            known => Header::new(known, has_seid, seid, message.sequence),
        };
        let start = out.len();
        header.marshal_into(out);
        message.elements.iter().for_each(|element| write(element, out));
        let length = (out.len() - start - UNCOUNTED) as u16;
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Reads the elements of a message or of a group, up to the first that does not fit.
fn elements(
    mut octets: &[u8],
    depth: usize,
    budget: &mut usize,
    read: &mut Vec<Element>,
) -> Result<(), Flaw> {
    while !octets.is_empty() {
        *budget = budget.checked_sub(1).ok_or(Flaw::TooMuch)?;
        let head = octets.first_chunk::<4>().ok_or(Flaw::Length)?;
        let (id, length) = (number(&head[..2]) as u16, number(&head[2..]) as usize);
        let payload = octets.get(4..4 + length).ok_or(Flaw::Element(id))?;
        read.push(Element { id, value: value(id, payload, depth, budget)? });
        octets = &octets[4 + length..];
    }
    Ok(())
}

/// The elements of a group of a type.
fn group(id: u16, octets: &[u8], depth: usize, budget: &mut usize) -> Result<Value, Flaw> {
    let depth = depth.checked_sub(1).ok_or(Flaw::TooMuch)?;
    let mut inner = Vec::new();
    match elements(octets, depth, budget, &mut inner) {
        // What is left over is too short to tell its type.
        Err(Flaw::Length) => Err(Flaw::Element(id)),
        read => read.map(|()| Value::Group(inner)),
    }
}

/// How an element is written.
enum Form {
    Group,
    /// This many octets.
    Number(usize),
    /// Flags of one octet or more, the first of which is the lowest here.
    Flags,
    Rates,
    Node,
    Session,
    Tunnel,
    UserAddress,
    OuterHeader,
    Text,
    Flow,
    Volume,
    FailedRule,
    Octets,
}

fn form(id: u16) -> Form {
    match id {
        ie::CREATE_PDR | ie::PDI | ie::CREATE_FAR | ie::FORWARDING_PARAMETERS | ie::CREATE_QER => Form::Group,
        ie::CREATED_PDR | ie::UPDATE_PDR | ie::UPDATE_FAR | ie::UPDATE_FORWARDING_PARAMETERS => Form::Group,
        ie::UPDATE_QER | ie::REMOVE_PDR | ie::REMOVE_FAR | ie::REMOVE_QER => Form::Group,
        ie::CREATE_BAR
        | ie::UPDATE_BAR
        | ie::REMOVE_BAR
        | ie::DOWNLINK_DATA_REPORT
        | ie::ERROR_INDICATION_REPORT => Form::Group,
        ie::CREATE_URR | ie::UPDATE_URR | ie::REMOVE_URR | ie::QUERY_URR => Form::Group,
        ie::MODIFICATION_USAGE_REPORT | ie::DELETION_USAGE_REPORT | ie::USAGE_REPORT => Form::Group,
        ie::CAUSE | ie::SOURCE_INTERFACE | ie::GATE_STATUS | ie::REPORT_TYPE => Form::Number(1),
        ie::DESTINATION_INTERFACE | ie::PFCPSM_REQ_FLAGS | ie::PDN_TYPE | ie::RQI | ie::QFI => {
            Form::Number(1)
        }
        ie::ASSOCIATION_RELEASE_REQUEST | ie::PFCPAS_RSP_FLAGS | ie::INTERFACE_TYPE | ie::BAR_ID => {
            Form::Number(1)
        }
        ie::MEASUREMENT_METHOD | ie::MEASUREMENT_INFORMATION => Form::Number(1),
        ie::URR_ID | ie::UR_SEQN | ie::MEASUREMENT_PERIOD | ie::START_TIME | ie::END_TIME => Form::Number(4),
        ie::TIME_THRESHOLD | ie::TIME_QUOTA | ie::DURATION_MEASUREMENT => Form::Number(4),
        ie::REPORTING_TRIGGERS | ie::USAGE_REPORT_TRIGGER => Form::Flags,
        ie::VOLUME_THRESHOLD | ie::VOLUME_QUOTA | ie::VOLUME_MEASUREMENT => Form::Volume,
        ie::TRANSPORT_LEVEL_MARKING | ie::OFFENDING_IE | ie::PDR_ID => Form::Number(2),
        ie::QER_CORRELATION_ID | ie::PRECEDENCE | ie::RECOVERY_TIME_STAMP | ie::FAR_ID => Form::Number(4),
        ie::QER_ID | ie::INACTIVITY_TIMER | ie::AVERAGING_WINDOW => Form::Number(4),
        ie::APPLY_ACTION | ie::OUTER_HEADER_REMOVAL | ie::UP_FUNCTION_FEATURES => Form::Flags,
        ie::MBR | ie::GBR => Form::Rates,
        ie::NODE_ID => Form::Node,
        ie::F_SEID => Form::Session,
        ie::F_TEID => Form::Tunnel,
        ie::UE_IP_ADDRESS => Form::UserAddress,
        ie::OUTER_HEADER_CREATION => Form::OuterHeader,
        ie::NETWORK_INSTANCE => Form::Text,
        ie::SDF_FILTER => Form::Flow,
        ie::FAILED_RULE_ID => Form::FailedRule,
        _ => Form::Octets,
    }
}

fn value(id: u16, octets: &[u8], depth: usize, budget: &mut usize) -> Result<Value, Flaw> {
    let read = match form(id) {
        Form::Group => return group(id, octets, depth, budget),
        Form::Number(size) => octets.get(..size).map(|o| Value::Number(number(o))).ok_or(Fault::Length),
        Form::Flags if octets.is_empty() => Err(Fault::Length),
        Form::Flags => Ok(Value::Number(flags(octets))),
        Form::Rates => {
            Mbr::unmarshal(octets).map_err(fault).map(|r| Value::Rates { up: r.uplink, down: r.downlink })
        }
        Form::Node => WireNodeId::unmarshal(octets).map_err(fault).map(|_| node(octets)),
        Form::Session => Fseid::unmarshal(octets).map_err(fault).map(|s| Value::Session {
            seid: s.seid.0,
            v4: s.ipv4_address,
            v6: s.ipv6_address,
        }),
        Form::Tunnel => Fteid::unmarshal(octets).map_err(fault).map(|t| Value::Tunnel(tunnel(&t))),
        Form::UserAddress => UeIpAddress::unmarshal(octets).map_err(fault).map(|a| user_address(&a)),
        Form::OuterHeader => OuterHeaderCreation::unmarshal(octets).map_err(fault).map(|h| outer_header(&h)),
        Form::Text if octets.is_empty() => Err(Fault::Length),
        Form::Text => text(octets).map(Value::Text).ok_or(Fault::Content),
        Form::Flow => flow(octets).ok_or(Fault::Length),
        Form::Volume => volume(octets).ok_or(Fault::Length),
        Form::FailedRule => failed_rule(octets).ok_or(Fault::Length),
        Form::Octets => Ok(Value::Octets(octets.to_vec())),
    };
    Ok(read.unwrap_or_else(Value::Incorrect))
}

fn fault(error: PfcpError) -> Fault {
    match error {
        PfcpError::InvalidLength { .. } => Fault::Length,
        _ => Fault::Content,
    }
}

/// A number in network order; at most eight octets.
fn number(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |value, octet| value << 8 | u64::from(*octet))
}

fn flags(octets: &[u8]) -> u64 {
    octets.iter().take(8).rev().fold(0, |value, octet| value << 8 | u64::from(*octet))
}

fn node(octets: &[u8]) -> Value {
    match WireNodeId::unmarshal(octets) {
        Ok(WireNodeId::IPv4(address)) => Value::Node(NodeId::Address(IpAddr::V4(address))),
        Ok(WireNodeId::IPv6(address)) => Value::Node(NodeId::Address(IpAddr::V6(address))),
        _ => text(&octets[1..])
            .map_or(Value::Incorrect(Fault::Content), |name| Value::Node(NodeId::Name(name))),
    }
}

fn tunnel(wire: &Fteid) -> Tunnel {
    match wire.ch {
        true => Tunnel::Choose { v4: wire.v4, v6: wire.v6, id: wire.chid.then_some(wire.choose_id) },
        false => Tunnel::Given { teid: wire.teid.0, v4: wire.ipv4_address, v6: wire.ipv6_address },
    }
}

/// An address alone stands for all of it: a host under IPv4, a prefix of 64 bits under IPv6.
const USUAL_PREFIX: u8 = 64;

fn user_address(wire: &UeIpAddress) -> Value {
    // Delegated prefixes are another thing: up to here they are refused.
    let length = wire.ipv6_prefix_length.unwrap_or(USUAL_PREFIX);
    if wire.ipv6_prefix_delegation {
        return Value::Incorrect(Fault::Unsupported);
    }
    if length > 128 {
        return Value::Incorrect(Fault::Content);
    }
    Value::UserAddress(UserAddress {
        v4: wire.ipv4_address,
        v6: wire.ipv6_address.map(|address| (address, length)),
        is_destination: wire.source_destination,
        is_chosen: wire.choose_ipv4 || wire.choose_ipv6,
    })
}

fn outer_header(wire: &OuterHeaderCreation) -> Value {
    let kind = wire.description;
    let other = kind.udp_ipv4 || kind.udp_ipv6 || kind.ipv4 || kind.ipv6 || kind.ctag || kind.stag;
    match (wire.teid, wire.ipv4_address, wire.ipv6_address) {
        _ if other => Value::Incorrect(Fault::Unsupported),
        (Some(teid), Some(v4), None) => Value::OuterHeader { teid: teid.0, address: IpAddr::V4(v4) },
        (Some(teid), None, Some(v6)) => Value::OuterHeader { teid: teid.0, address: IpAddr::V6(v6) },
        (Some(_), Some(_), Some(_)) => Value::Incorrect(Fault::Unsupported),
        _ => Value::Incorrect(Fault::Content),
    }
}

/// A name, as labels of the domain name system (TS 23.003 section 9.1) or as it is.
fn text(octets: &[u8]) -> Option<String> {
    let plain = |octets: &[u8]| {
        let text = std::str::from_utf8(octets).ok()?;
        text.chars().all(|c| c.is_ascii_graphic()).then(|| text.to_string())
    };
    labels(octets).or_else(|| plain(octets))
}

fn labels(mut octets: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    while let Some((length, rest)) = octets.split_first() {
        let label = rest.get(..usize::from(*length)).filter(|label| !label.is_empty())?;
        let label = std::str::from_utf8(label).ok()?;
        labels.push(label.chars().all(|c| c.is_ascii_graphic() && c != '.').then_some(label)?);
        octets = &rest[usize::from(*length)..];
    }
    (!labels.is_empty()).then(|| labels.join("."))
}

const FLOW_DESCRIPTION: u8 = 1;
const TOS: u8 = 2;
const SPI: u8 = 4;
const FLOW_LABEL: u8 = 8;
const FILTER_ID: u8 = 16;

fn flow(octets: &[u8]) -> Option<Value> {
    let [flags, _spare, rest @ ..] = octets else { return None };
    let mut rest = rest;
    let mut take = |flag: u8, count: usize| -> Option<Option<&[u8]>> {
        if flags & flag == 0 {
            return Some(None);
        }
        let (taken, left) = rest.split_at_checked(count)?;
        rest = left;
        Some(Some(taken))
    };
    let length = take(FLOW_DESCRIPTION, 2)?.map_or(0, |o| number(o) as usize);
    let description = take(FLOW_DESCRIPTION, length)?;
    let tos = take(TOS, 2)?.map(|o| (o[0], o[1]));
    let spi = take(SPI, 4)?.map(|o| number(o) as u32);
    let flow_label = take(FLOW_LABEL, 3)?.map(|o| number(o) as u32 & 0xf_ffff);
    let id = take(FILTER_ID, 4)?.map(|o| number(o) as u32);
    let description = match description.map(|text| std::str::from_utf8(text).map(str::to_string)) {
        Some(Err(_)) => return Some(Value::Incorrect(Fault::Content)),
        Some(Ok(text)) => Some(text),
        None => None,
    };
    Some(Value::Flow(FlowFilter { description, tos, spi, flow_label, id }))
}

/// The amounts of a volume in the order of their flags, which is that on the wire (TS 29.244 sections 8.2.13
/// and 8.2.44).
fn amounts(volume: &mut Volume) -> [&mut Option<u64>; 6] {
    let Volume { bytes, packets } = volume;
    [&mut bytes.total, &mut bytes.up, &mut bytes.down, &mut packets.total, &mut packets.up, &mut packets.down]
}

fn volume(octets: &[u8]) -> Option<Value> {
    let (flags, mut rest) = octets.split_first()?;
    let mut volume = Volume::default();
    for (bit, amount) in amounts(&mut volume).into_iter().enumerate() {
        if flags >> bit & 1 == 1 {
            let (taken, left) = rest.split_at_checked(8)?;
            (*amount, rest) = (Some(number(taken)), left);
        }
    }
    Some(Value::Volume(Box::new(volume)))
}

fn write_volume(mut volume: Volume, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    for (bit, amount) in amounts(&mut volume).into_iter().enumerate() {
        if let Some(amount) = amount {
            out[at] |= 1 << bit;
            out.extend(amount.to_be_bytes());
        }
    }
}

/// Kinds of failed rules that have numbers of two octets: PDR.
const SHORT_RULE: u8 = 0;

fn failed_rule(octets: &[u8]) -> Option<Value> {
    let (kind, rest) = octets.split_first()?;
    let kind = kind & 0x1f;
    let id = rest.get(..if kind == SHORT_RULE { 2 } else { 4 })?;
    Some(Value::FailedRule { kind, id: number(id) as u32 })
}

fn write(element: &Element, out: &mut Vec<u8>) {
    out.extend(element.id.to_be_bytes());
    let at = out.len();
    out.extend([0, 0]);
    write_value(element.id, &element.value, out);
    let length = (out.len() - at - 2) as u16;
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

fn write_value(id: u16, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Group(elements) => elements.iter().for_each(|element| write(element, out)),
        Value::Number(number) => write_number(id, *number, out),
        Value::Rates { up, down } => out.extend(Mbr::new(*up, *down).marshal()),
        Value::Node(NodeId::Address(IpAddr::V4(a))) => out.extend(WireNodeId::new_ipv4(*a).marshal()),
        Value::Node(NodeId::Address(IpAddr::V6(a))) => out.extend(WireNodeId::new_ipv6(*a).marshal()),
        Value::Node(NodeId::Name(name)) => {
            out.push(2);
            write_text(name, out);
        }
        Value::Session { seid, v4, v6 } => out.extend(Fseid::new(*seid, *v4, *v6).marshal()),
        Value::Tunnel(tunnel) => out.extend(wire_tunnel(tunnel).marshal()),
        Value::UserAddress(address) => out.extend(wire_address(address).marshal()),
        Value::OuterHeader { teid, address } => out.extend(wire_header(*teid, *address).marshal()),
        Value::Text(name) => write_text(name, out),
        Value::Flow(filter) => write_flow(filter, out),
        Value::Volume(volume) => write_volume(**volume, out),
        Value::FailedRule { kind, id } => {
            out.push(*kind);
            let octets = id.to_be_bytes();
            out.extend(if *kind == SHORT_RULE { &octets[2..] } else { &octets[..] });
        }
        Value::Octets(octets) => out.extend(octets),
        Value::Incorrect(_) => {}
    }
}

fn write_number(id: u16, number: u64, out: &mut Vec<u8>) {
    match form(id) {
        Form::Number(size) => out.extend(&number.to_be_bytes()[8 - size..]),
        _ => {
            let octets = number.to_le_bytes();
            let used = 8 - number.leading_zeros() as usize / 8;
            out.extend(&octets[..used.max(flags_min(id))]);
        }
    }
}

/// Octets of flags that are there even if none of them is set.
fn flags_min(id: u16) -> usize {
    match id {
        ie::REPORTING_TRIGGERS | ie::USAGE_REPORT_TRIGGER => 3,
        // Features come in pairs of octets (TS 29.244 section 8.2.25).
        ie::UP_FUNCTION_FEATURES => 4,
        _ => 1,
    }
}

/// Names go out as labels.
fn write_text(name: &str, out: &mut Vec<u8>) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        out.push(label.len() as u8);
        out.extend(label);
    }
}

fn wire_tunnel(tunnel: &Tunnel) -> Fteid {
    match *tunnel {
        Tunnel::Given { teid, v4, v6 } => Fteid::new(v4.is_some(), v6.is_some(), teid, v4, v6, 0),
        Tunnel::Choose { v4, v6, id } => {
            Fteid::new_with_choose(v4, v6, true, id.is_some(), 0, None, None, id.unwrap_or(0))
        }
    }
}

fn wire_address(address: &UserAddress) -> UeIpAddress {
    let v6 = address.v6.map(|(address, _)| address);
    let mut wire = UeIpAddress::new(address.v4, v6);
    wire.source_destination = address.is_destination;
    let length = address.v6.map(|(_, length)| length).filter(|length| *length != USUAL_PREFIX);
    wire.ipv6_prefix_length_present = length.is_some();
    wire.ipv6_prefix_length = length;
    wire.choose_ipv4 = address.is_chosen && address.v4.is_none();
    wire.choose_ipv6 = address.is_chosen && address.v4.is_some();
    wire
}

fn wire_header(teid: u32, address: IpAddr) -> OuterHeaderCreation {
    let mut header = OuterHeaderCreation::new(match address {
        IpAddr::V4(_) => OuterHeaderCreationFlags::gtpu_ipv4(),
        IpAddr::V6(_) => OuterHeaderCreationFlags::gtpu_ipv6(),
    });
    header.teid = Some(teid.into());
    match address {
        IpAddr::V4(v4) => header.ipv4_address = Some(v4),
        IpAddr::V6(v6) => header.ipv6_address = Some(v6),
    }
    header
}

fn write_flow(filter: &FlowFilter, out: &mut Vec<u8>) {
    let present = [
        (filter.description.is_some(), FLOW_DESCRIPTION),
        (filter.tos.is_some(), TOS),
        (filter.spi.is_some(), SPI),
        (filter.flow_label.is_some(), FLOW_LABEL),
        (filter.id.is_some(), FILTER_ID),
    ];
    out.push(present.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
    out.push(0);
    if let Some(text) = &filter.description {
        out.extend((text.len() as u16).to_be_bytes());
        out.extend(text.as_bytes());
    }
    if let Some((value, mask)) = filter.tos {
        out.extend([value, mask]);
    }
    filter.spi.iter().for_each(|spi| out.extend(spi.to_be_bytes()));
    filter.flow_label.iter().for_each(|label| out.extend(&label.to_be_bytes()[1..]));
    filter.id.iter().for_each(|id| out.extend(id.to_be_bytes()));
}

#[cfg(test)]
mod tests;
