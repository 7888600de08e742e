//! Control as session management sees it: octets in, octets out.

mod bearers;
mod broken;
mod usage;

use super::*;
use crate::codec::Pfcp;
use crate::ledger::Ledger;
use crate::message::{FlowFilter, Tunnel, UserAddress, Value, Volume, ie};
use crate::rules::{Amounts, Event, Refusal, RemoteTunnel, RuleKind, Seid, Side};
use weir_units::Duration;

const CONFIG: &str = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                      n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\", \"127.0.0.3\"] }\n\
                      n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n\
                      local = { port = \"c\", address = [\"203.0.113.1/24\"], instance = \"edge\" }\n\
                      limits = { sessions = 3, rules = 8 }\n";
const OUR_START: u32 = 1000;
const CP_SEID: u64 = 0xabcd;

struct Bench {
    control: Control<Ledger, Pfcp>,
    now: Time,
    sequence: u32,
    peer: SocketAddr,
}

impl Bench {
    fn new() -> Bench {
        let config = UpfConfig::parse("x", CONFIG).unwrap();
        let control = Control::new(&config, OUR_START, Ledger::new(100), Pfcp, numbers_of_seed(1));
        Bench { control, now: Time::ZERO, sequence: 0, peer: "127.0.0.2:9000".parse().unwrap() }
    }

    /// With an association.
    fn associated() -> Bench {
        let mut bench = Bench::new();
        assert_eq!(bench.setup(5), Some(1));
        bench
    }

    fn octets(&mut self, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Vec<u8> {
        self.sequence += 1;
        let mut octets = Vec::new();
        Pfcp.encode(&Message { kind, seid, sequence: self.sequence, elements }, &mut octets);
        octets
    }

    fn raw(&mut self, octets: &[u8]) -> Vec<Outgoing> {
        let mut out = Vec::new();
        self.control.receive(self.now, self.peer, octets, &mut out);
        out
    }

    fn ask(&mut self, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Message {
        let octets = self.octets(kind, seid, elements);
        let mut out = self.raw(&octets);
        assert_eq!((out.len(), out[0].to), (1, self.peer));
        let answer = Pfcp.decode(&out.remove(0).datagram).unwrap();
        assert_eq!((answer.sequence, answer.kind), (self.sequence, kind + 1));
        answer
    }

    fn setup(&mut self, recovery: u32) -> Option<u64> {
        let elements = vec![node(), Element::number(ie::RECOVERY_TIME_STAMP, recovery)];
        number(&self.ask(kind::ASSOCIATION_SETUP_REQUEST, None, elements), ie::CAUSE)
    }

    fn establish(&mut self, more: Vec<Element>) -> Message {
        let mut elements = vec![node(), f_seid(CP_SEID)];
        elements.extend(more);
        self.ask(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements)
    }

    /// A usual session; its number.
    fn session(&mut self) -> Seid {
        let answer = self.establish(usual());
        assert_eq!(number(&answer, ie::CAUSE), Some(1), "{:?}", self.control.told());
        seid_of(&answer)
    }

    fn modify(&mut self, seid: Seid, elements: Vec<Element>) -> Message {
        self.ask(kind::SESSION_MODIFICATION_REQUEST, Some(seid), elements)
    }

    /// What a peer answers that started then.
    fn answer_heartbeat(&mut self, request: &Message, recovery: u64) {
        let elements = vec![n(ie::RECOVERY_TIME_STAMP, recovery)];
        let answer = Message { kind: 2, seid: None, sequence: request.sequence, elements };
        let mut octets = Vec::new();
        Pfcp.encode(&answer, &mut octets);
        assert!(self.raw(&octets).is_empty());
    }

    fn tick(&mut self, later: Duration) -> Vec<Message> {
        self.now += later;
        let mut out = Vec::new();
        self.control.tick(self.now, &mut out);
        out.iter().map(|sent| Pfcp.decode(&sent.datagram).unwrap()).collect()
    }
}

fn node() -> Element {
    Element::new(ie::NODE_ID, Value::Node(NodeId::Address("127.0.0.2".parse().unwrap())))
}

fn f_seid(seid: u64) -> Element {
    let v4 = Some("127.0.0.2".parse().unwrap());
    Element::new(ie::F_SEID, Value::Session { seid, v4, v6: None })
}

fn group(id: u16, elements: Vec<Element>) -> Element {
    Element::new(id, Value::Group(elements))
}

fn n(id: u16, number: u64) -> Element {
    Element::number(id, number)
}

fn user(is_destination: bool) -> Element {
    let v4 = Some("10.45.0.7".parse().unwrap());
    Element::new(
        ie::UE_IP_ADDRESS,
        Value::UserAddress(UserAddress { v4, v6: None, is_destination, is_chosen: false }),
    )
}

fn choose(id: Option<u8>) -> Element {
    Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Choose { v4: true, v6: false, id }))
}

fn flow(text: &str) -> Element {
    let filter = FlowFilter { description: Some(text.into()), ..FlowFilter::default() };
    Element::new(ie::SDF_FILTER, Value::Flow(filter))
}

fn outer(teid: u32) -> Element {
    Element::new(
        ie::OUTER_HEADER_CREATION,
        Value::OuterHeader { teid, address: "192.0.2.9".parse().unwrap() },
    )
}

fn up(id: u64, more: Vec<Element>) -> Element {
    let mut pdi = vec![n(ie::SOURCE_INTERFACE, 0), choose(Some(1))];
    pdi.extend(more);
    group(
        ie::CREATE_PDR,
        vec![
            n(ie::PDR_ID, id),
            n(ie::PRECEDENCE, 100),
            group(ie::PDI, pdi),
            n(ie::OUTER_HEADER_REMOVAL, 0),
            n(ie::FAR_ID, 1),
            n(ie::QER_ID, 1),
        ],
    )
}

fn down(id: u64, more: Vec<Element>) -> Element {
    let mut pdi = vec![n(ie::SOURCE_INTERFACE, 1), user(true)];
    pdi.extend(more);
    let pdi = group(ie::PDI, pdi);
    group(
        ie::CREATE_PDR,
        vec![n(ie::PDR_ID, id), n(ie::PRECEDENCE, 50), pdi, n(ie::FAR_ID, 2), n(ie::QER_ID, 1)],
    )
}

fn fars() -> Vec<Element> {
    let to_core = group(ie::FORWARDING_PARAMETERS, vec![n(ie::DESTINATION_INTERFACE, 1)]);
    let to_access = group(ie::FORWARDING_PARAMETERS, vec![n(ie::DESTINATION_INTERFACE, 0), outer(0x77)]);
    vec![
        group(ie::CREATE_FAR, vec![n(ie::FAR_ID, 1), n(ie::APPLY_ACTION, 2), to_core]),
        group(ie::CREATE_FAR, vec![n(ie::FAR_ID, 2), n(ie::APPLY_ACTION, 2), to_access]),
    ]
}

fn qer(more: Vec<Element>) -> Element {
    let mut elements = vec![n(ie::QER_ID, 1), n(ie::GATE_STATUS, 0)];
    elements.extend(more);
    group(ie::CREATE_QER, elements)
}

fn usual() -> Vec<Element> {
    let mut elements = vec![up(1, vec![]), down(2, vec![])];
    elements.extend(fars());
    elements.push(qer(vec![Element::new(ie::MBR, Value::Rates { up: 1000, down: 2000 }), n(ie::QFI, 9)]));
    elements
}

fn number(message: &Message, id: u16) -> Option<u64> {
    message.elements.iter().find_map(|element| match element.value {
        Value::Number(number) if element.id == id => Some(number),
        _ => None,
    })
}

fn seid_of(message: &Message) -> Seid {
    let found = message.elements.iter().find_map(|element| match element.value {
        Value::Session { seid, .. } => Some(seid),
        _ => None,
    });
    found.expect("an answer with an F-SEID")
}

fn failed(message: &Message) -> Option<(u8, u32)> {
    message.elements.iter().find_map(|element| match element.value {
        Value::FailedRule { kind, id } => Some((kind, id)),
        _ => None,
    })
}

fn created(message: &Message) -> Vec<u32> {
    let groups = message.elements.iter().filter(|element| element.id == ie::CREATED_PDR);
    let teid = |element: &Element| match &element.value {
        Value::Group(inner) => inner.iter().find_map(|e| match e.value {
            Value::Tunnel(Tunnel::Given { teid, .. }) => Some(teid),
            _ => None,
        }),
        _ => None,
    };
    groups.filter_map(teid).collect()
}

#[test]
fn a_session_becomes_rules() {
    let mut bench = Bench::associated();
    let more = vec![flow("permit out 6 from 198.51.100.0/24 443 to assigned"), n(ie::QFI, 9)];
    let mut elements = usual();
    elements[0] = up(1, more);
    elements.push(up(3, vec![]));
    elements.push(n(ie::INACTIVITY_TIMER, 30));
    elements.push(n(ie::PDN_TYPE, 1));
    let answer = bench.establish(elements);
    assert_eq!((number(&answer, ie::CAUSE), answer.seid), (Some(1), Some(CP_SEID)));
    let teids = created(&answer);
    assert!(teids.len() == 2 && teids[0] == teids[1], "one CHOOSE ID is one tunnel: {teids:?}");
    let seid = seid_of(&answer);
    let session = bench.control.plane().get(seid).unwrap().clone();
    assert_eq!(session.pdrs.iter().map(|p| p.id).collect::<Vec<_>>(), [2, 1, 3], "by precedence");
    let up = session.pdr(1).unwrap();
    assert_eq!((up.from, up.tunnel.unwrap().teid, &*up.qfis), (Side::Access, teids[0], &[9][..]));
    assert_eq!(up.filters[0].to_string(), "permit out 6 from 198.51.100.0/24 443 to assigned");
    assert_eq!(session.inactivity, Some(Duration::from_secs(30)));
    let qer = session.qer(1).unwrap();
    assert_eq!((qer.qfi, qer.mbr.unwrap().down, qer.open.up), (Some(9), 2000, true));
    let forward = session.far(2).unwrap().way().unwrap();
    assert_eq!(forward.tunnel.unwrap().teid, 0x77);
    assert_eq!(bench.control.tunnels(), 1);
    let gone = bench.ask(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
    assert_eq!((number(&gone, ie::CAUSE), gone.seid), (Some(1), Some(CP_SEID)));
    assert!(bench.control.sessions().is_empty() && bench.control.tunnels() == 0);
    let again = bench.ask(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
    assert_eq!((number(&again, ie::CAUSE), again.seid), (Some(65), Some(0)));
}

#[test]
fn a_network_instance_chooses_the_port_for_local_breakout() {
    let mut bench = Bench::associated();
    let edge = || Element::new(ie::NETWORK_INSTANCE, Value::Text("edge".into()));
    let mut elements = usual();
    elements[1] = down(2, vec![edge()]);
    let seid = seid_of(&bench.establish(elements));
    assert_eq!(bench.control.plane().get(seid).unwrap().pdr(2).unwrap().from, Side::Local);
}

#[test]
fn only_peers_of_the_configuration_are_heard() {
    let mut bench = Bench::new();
    bench.peer = "127.0.0.9:8805".parse().unwrap();
    let setup = bench.octets(5, None, vec![node(), n(ie::RECOVERY_TIME_STAMP, 1)]);
    assert!(bench.raw(&setup).is_empty());
    assert_eq!(bench.control.counts().strangers, 1);
    bench.peer = "127.0.0.2:8805".parse().unwrap();
    let answer = bench.establish(usual());
    assert_eq!((number(&answer, ie::CAUSE), answer.seid), (Some(72), Some(CP_SEID)));
    assert_eq!(bench.setup(5), Some(1));
    bench.session();
    // Another peer cannot touch it.
    let seid = bench.control.sessions().iter().next().unwrap().rules.seid;
    bench.peer = "127.0.0.3:8805".parse().unwrap();
    assert_eq!(bench.setup(5), Some(1));
    assert_eq!(number(&bench.ask(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]), ie::CAUSE), Some(65));
    assert_eq!(bench.control.sessions().len(), 1);
}

#[test]
fn a_request_that_comes_again_gets_the_same_octets_and_does_nothing() {
    let mut bench = Bench::associated();
    let mut elements = vec![node(), f_seid(CP_SEID)];
    elements.extend(usual());
    let request = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
    let first = bench.raw(&request);
    assert_eq!(bench.raw(&request), first);
    assert_eq!((bench.control.sessions().len(), bench.control.counts().repeated), (1, 1));
    assert_eq!(bench.control.counts().reused, 0);
    // The same number on another request is another request, and counted.
    bench.sequence -= 1;
    let other = bench.octets(kind::SESSION_DELETION_REQUEST, Some(1), vec![]);
    assert_ne!(bench.raw(&other), first);
    assert_eq!((bench.control.counts().repeated, bench.control.counts().reused), (1, 1));
    bench.raw(&other);
    assert_eq!((bench.control.counts().repeated, bench.control.counts().reused), (2, 1));
}

/// Elements in the place of those of a usual session, and the cause, the offending element and the rule that
/// are named.
type Case = (Vec<Element>, u64, Option<u64>, Option<(u8, u32)>);

fn without(mut elements: Vec<Element>, id: u16) -> Vec<Element> {
    elements.retain(|element| element.id != id);
    elements
}

fn with(at: usize, element: Element) -> Vec<Element> {
    let mut elements = usual();
    elements[at] = element;
    elements
}

fn and(element: Element) -> Vec<Element> {
    let mut elements = usual();
    elements.push(element);
    elements
}

fn inside(element: Element, more: Element) -> Element {
    let Value::Group(mut elements) = element.value else { panic!() };
    elements.push(more);
    group(element.id, elements)
}

/// A URR that is told after so many bytes.
fn reported_after(bytes: u64) -> Element {
    let bytes = Amounts { total: Some(bytes), ..Amounts::default() };
    let volume = Value::Volume(Box::new(Volume { bytes, packets: Amounts::default() }));
    let method = [(ie::URR_ID, 7u32), (ie::MEASUREMENT_METHOD, 2), (ie::REPORTING_TRIGGERS, 2)];
    let mut elements: Vec<Element> = method.map(|(id, value)| Element::number(id, value)).into();
    elements.push(Element::new(ie::VOLUME_THRESHOLD, volume));
    group(ie::CREATE_URR, elements)
}

const IPV6: &str = "permit out 17 from 2001:db8:1::/48 to assigned";

/// A filter for a flow label of IPv6.
fn label(text: Option<&str>) -> Element {
    let filter =
        FlowFilter { description: text.map(str::to_string), flow_label: Some(5), ..FlowFilter::default() };
    Element::new(ie::SDF_FILTER, Value::Flow(filter))
}

/// The usual rule 2, for user equipment with another address.
fn down_for(v4: Option<&str>, v6: Option<(&str, u8)>) -> Element {
    let v4 = v4.map(|v4| v4.parse().unwrap());
    let v6 = v6.map(|(prefix, length)| (prefix.parse().unwrap(), length));
    let address = UserAddress { v4, v6, is_destination: true, is_chosen: false };
    let address = Element::new(ie::UE_IP_ADDRESS, Value::UserAddress(address));
    let pdi = group(ie::PDI, vec![n(ie::SOURCE_INTERFACE, 1), address]);
    let rule = vec![n(ie::PDR_ID, 2), n(ie::PRECEDENCE, 50), pdi, n(ie::FAR_ID, 2), n(ie::QER_ID, 1)];
    group(ie::CREATE_PDR, rule)
}

fn down_to(v4: &str) -> Element {
    down_for(Some(v4), None)
}

fn down_to_prefix(prefix: &str, length: u8) -> Element {
    down_for(None, Some((prefix, length)))
}

/// The usual FAR 2, into another tunnel.
fn to_station(teid: u32, address: &str) -> Element {
    let address = address.parse().unwrap();
    let outer = Element::new(ie::OUTER_HEADER_CREATION, Value::OuterHeader { teid, address });
    let parameters = group(ie::FORWARDING_PARAMETERS, vec![n(ie::DESTINATION_INTERFACE, 0), outer]);
    group(ie::CREATE_FAR, vec![n(ie::FAR_ID, 2), n(ie::APPLY_ACTION, 2), parameters])
}

fn refused() -> Vec<Case> {
    let octets = |octets: &[u8]| Value::Octets(octets.to_vec());
    let far = |more: Vec<Element>| {
        let mut elements = vec![n(ie::FAR_ID, 1)];
        elements.extend(more);
        group(ie::CREATE_FAR, elements)
    };
    let given = |teid: u32, address: &str| {
        let v4 = Some(address.parse().unwrap());
        Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Given { teid, v4, v6: None }))
    };
    let pdr = |pdi: Vec<Element>| {
        group(
            ie::CREATE_PDR,
            vec![n(ie::PDR_ID, 1), n(ie::PRECEDENCE, 1), group(ie::PDI, pdi), n(ie::FAR_ID, 1)],
        )
    };
    vec![
        (without(usual(), ie::CREATE_PDR), 66, Some(1), None),
        (without(usual(), ie::CREATE_FAR), 66, Some(3), None),
        (without(usual(), ie::CREATE_QER), 73, None, Some((0, 2))),
        (with(0, group(ie::CREATE_PDR, vec![n(ie::PDR_ID, 1)])), 66, Some(29), None),
        (with(0, group(ie::CREATE_PDR, vec![])), 66, Some(56), None),
        (with(0, Element::new(ie::CREATE_PDR, octets(&[0, 56, 0, 1, 0]))), 68, Some(56), None),
        (with(0, pdr(vec![n(ie::SOURCE_INTERFACE, 0)])), 67, Some(21), None),
        (with(0, pdr(vec![n(ie::SOURCE_INTERFACE, 1)])), 67, Some(93), None),
        (with(0, pdr(vec![n(ie::SOURCE_INTERFACE, 9), choose(None)])), 73, Some(20), Some((0, 1))),
        (with(0, pdr(vec![n(ie::SOURCE_INTERFACE, 0), given(7, "192.0.2.77")])), 73, Some(21), Some((0, 1))),
        (with(0, pdr(vec![n(ie::SOURCE_INTERFACE, 0), given(0, "192.0.2.1")])), 69, Some(21), None),
        (with(0, up(1, vec![flow("permit out gre from any to assigned")])), 73, Some(23), Some((0, 1))),
        (with(0, up(1, vec![n(ie::QFI, 0)])), 69, Some(124), None),
        // Addresses that no host has, our own, and a tunnel without a number.
        (with(1, down_to("0.0.0.0")), 69, Some(93), None),
        (with(1, down_to("255.255.255.255")), 69, Some(93), None),
        (with(1, down_to("224.0.0.9")), 69, Some(93), None),
        (with(1, down_to("127.0.0.9")), 69, Some(93), None),
        (with(1, down_to("192.0.2.1")), 73, Some(93), Some((0, 2))),
        (with(1, down_to("198.51.100.1")), 73, Some(93), Some((0, 2))),
        (with(1, down_to("203.0.113.1")), 73, Some(93), Some((0, 2))),
        (with(1, down_to_prefix("ff02::", 64)), 69, Some(93), None),
        (with(1, down_to_prefix("fe80::", 64)), 69, Some(93), None),
        (with(1, down_to_prefix("::", 64)), 69, Some(93), None),
        (with(1, down_to_prefix("2001:db8::", 56)), 73, Some(93), Some((0, 2))),
        (with(3, to_station(0, "192.0.2.9")), 69, Some(84), None),
        (with(3, to_station(7, "0.0.0.0")), 69, Some(84), None),
        (with(3, to_station(7, "239.1.1.1")), 69, Some(84), None),
        (with(3, to_station(7, "192.0.2.1")), 73, Some(84), Some((1, 2))),
        (with(3, to_station(7, "2001:db8::9")), 73, Some(84), Some((1, 2))),
        // Filters for IPv6 where there is only IPv4, also if another rule says so.
        (with(0, up(1, vec![flow(IPV6)])), 73, Some(23), Some((0, 1))),
        (with(1, down(2, vec![flow(IPV6)])), 73, Some(23), Some((0, 2))),
        (with(1, down(2, vec![label(None)])), 73, Some(23), Some((0, 2))),
        (
            with(1, down(2, vec![label(Some("permit out ip from 192.0.2.0/24 to any"))])),
            73,
            Some(23),
            Some((0, 2)),
        ),
        (with(0, up(1, vec![user(true)])), 73, Some(93), Some((0, 1))),
        (with(1, down(1, vec![])), 73, None, Some((0, 1))),
        (with(0, inside(up(1, vec![]), Element::new(81, octets(&[0, 0, 0, 1])))), 73, Some(81), Some((0, 1))),
        (and(Element::new(ie::CREATE_URR, octets(&[]))), 66, Some(81), None),
        (and(reported_after(0)), 69, Some(31), None),
        (and(Element::new(ie::CREATE_TRAFFIC_ENDPOINT, octets(&[]))), 76, Some(127), None),
        (and(n(ie::PDN_TYPE, 5)), 76, Some(113), None),
        (with(2, far(vec![n(ie::APPLY_ACTION, 2)])), 67, Some(4), None),
        (with(2, far(vec![n(ie::APPLY_ACTION, 0x12)])), 73, Some(44), Some((1, 1))),
        (with(2, far(vec![])), 66, Some(44), None),
        (
            with(
                2,
                far(vec![
                    n(ie::APPLY_ACTION, 2),
                    group(
                        ie::FORWARDING_PARAMETERS,
                        vec![
                            n(ie::DESTINATION_INTERFACE, 1),
                            Element::new(ie::FORWARDING_POLICY, octets(b"\x01x")),
                        ],
                    ),
                ]),
            ),
            70,
            Some(41),
            None,
        ),
        (
            with(
                2,
                far(vec![
                    n(ie::APPLY_ACTION, 2),
                    group(ie::FORWARDING_PARAMETERS, vec![n(ie::DESTINATION_INTERFACE, 0)]),
                ]),
            ),
            67,
            Some(84),
            None,
        ),
        (with(4, qer(vec![n(ie::GATE_STATUS, 0)])), 73, Some(25), Some((2, 1))),
        (
            and(group(
                ie::CREATE_QER,
                vec![
                    n(ie::QER_ID, 2),
                    n(ie::GATE_STATUS, 0),
                    Element::new(ie::GBR, Value::Rates { up: 1, down: 1 }),
                ],
            )),
            67,
            Some(124),
            None,
        ),
        (
            with(
                4,
                qer(vec![
                    n(ie::QFI, 1),
                    Element::new(ie::MBR, Value::Rates { up: 1, down: 1 }),
                    Element::new(ie::GBR, Value::Rates { up: 0, down: 2 }),
                ]),
            ),
            73,
            Some(27),
            Some((2, 1)),
        ),
        (with(4, qer(vec![Element::new(ie::MBR, octets(&[1, 2]))])), 68, Some(26), None),
        (
            (0..9).flat_map(|at| if at == 0 { usual() } else { vec![up(10 + at, vec![])] }).collect(),
            75,
            None,
            None,
        ),
    ]
}

#[test]
fn what_is_not_done_is_refused_with_its_cause_and_leaves_nothing() {
    let mut bench = Bench::associated();
    for (at, (elements, cause, offending, rule)) in refused().into_iter().enumerate() {
        let answer = bench.establish(elements);
        let told = (number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE), failed(&answer));
        assert_eq!(told, (Some(cause), offending, rule), "case {at}: {:?}", bench.control.told());
        assert_eq!(answer.seid, Some(CP_SEID));
        let left =
            (bench.control.sessions().len(), bench.control.tunnels(), bench.control.plane().capacity().used);
        assert_eq!(left, (0, 0, 0), "case {at}");
    }
    for (elements, offending) in [(vec![f_seid(1)], 60), (vec![node()], 57)] {
        let answer = bench.ask(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
        assert_eq!(
            (number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE)),
            (Some(66), Some(offending))
        );
    }
    // The plane has the last word.
    let refusal = Refusal::rule(RuleKind::Far, 2, "not here");
    bench.control.plane().refuses = Some(refusal);
    let answer = bench.establish(usual());
    assert_eq!((number(&answer, ie::CAUSE), failed(&answer)), (Some(73), Some((1, 2))));
    assert_eq!((bench.control.sessions().len(), bench.control.tunnels()), (0, 0));
}

#[test]
fn tables_are_bounded() {
    let mut bench = Bench::associated();
    for _ in 0..3 {
        bench.session();
    }
    let answer = bench.establish(usual());
    assert_eq!(number(&answer, ie::CAUSE), Some(75));
    assert_eq!((bench.control.sessions().len(), bench.control.tunnels()), (3, 3));
    for _ in 0..200_000 {
        bench.now += Duration::from_micros(100);
        let heartbeat = bench.octets(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
        bench.raw(&heartbeat);
    }
    // The room of one of two peers.
    assert_eq!(bench.control.answers(), 65_536 / 2);
    assert_eq!(bench.control.counts().over_rate, 0);
    for _ in 0..20_000 {
        let heartbeat = bench.octets(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
        bench.raw(&heartbeat);
    }
    assert!(bench.control.counts().over_rate >= 14_000, "{:?}", bench.control.counts());
}

#[test]
fn a_tunnel_of_another_session_is_not_given_away() {
    let mut bench = Bench::associated();
    let given = || {
        let tunnel = Tunnel::Given { teid: 7, v4: Some("192.0.2.1".parse().unwrap()), v6: None };
        let pdi =
            group(ie::PDI, vec![n(ie::SOURCE_INTERFACE, 0), Element::new(ie::F_TEID, Value::Tunnel(tunnel))]);
        with(0, group(ie::CREATE_PDR, vec![n(ie::PDR_ID, 1), n(ie::PRECEDENCE, 1), pdi, n(ie::FAR_ID, 1)]))
    };
    assert_eq!(number(&bench.establish(given()), ie::CAUSE), Some(1));
    let second = bench.establish(given());
    assert_eq!((number(&second, ie::CAUSE), failed(&second)), (Some(73), Some((0, 1))));
}

#[test]
fn a_modification_is_done_as_a_whole() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let moved = group(ie::UPDATE_FORWARDING_PARAMETERS, vec![outer(0x88), n(ie::PFCPSM_REQ_FLAGS, 2)]);
    let elements = vec![
        group(ie::REMOVE_PDR, vec![n(ie::PDR_ID, 1)]),
        group(ie::UPDATE_PDR, vec![n(ie::PDR_ID, 2), n(ie::PRECEDENCE, 9)]),
        group(ie::UPDATE_FAR, vec![n(ie::FAR_ID, 2), moved]),
        group(ie::UPDATE_QER, vec![n(ie::QER_ID, 1), n(ie::GATE_STATUS, 4)]),
        up(5, vec![]),
        f_seid(0x1234),
    ];
    let answer = bench.modify(seid, elements);
    assert_eq!((number(&answer, ie::CAUSE), answer.seid), (Some(1), Some(0x1234)));
    assert_eq!(created(&answer).len(), 1);
    let session = bench.control.plane().get(seid).unwrap().clone();
    assert_eq!(session.pdrs.iter().map(|p| (p.id, p.precedence)).collect::<Vec<_>>(), [(2, 9), (5, 100)]);
    assert_eq!((session.qers[0].open.up, session.qers[0].open.down), (false, true));
    let forward = session.far(2).unwrap().way().unwrap();
    assert_eq!((forward.to, forward.tunnel.unwrap().teid), (Side::Access, 0x88));
    let old = RemoteTunnel { teid: 0x77, address: "192.0.2.9".parse().unwrap(), port: 2152 };
    assert_eq!(bench.control.plane().ended, [old]);
    assert_eq!(bench.control.tunnels(), 1, "the tunnel of the rule that went is free");
}

/// A handover of user equipment whose packets are buffered meanwhile: they were sent into the old tunnel
/// last.
#[test]
fn a_tunnel_that_was_left_to_buffer_is_told_its_end_all_the_same() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let far = |more: Vec<Element>| {
        let mut elements = vec![n(ie::FAR_ID, 2)];
        elements.extend(more);
        vec![group(ie::UPDATE_FAR, elements)]
    };
    let into = |teid| group(ie::UPDATE_FORWARDING_PARAMETERS, vec![outer(teid), n(ie::PFCPSM_REQ_FLAGS, 2)]);
    let mut done = |elements| assert_eq!(number(&bench.modify(seid, elements), ie::CAUSE), Some(1));
    done(far(vec![n(ie::APPLY_ACTION, 12)]));
    done(far(vec![n(ie::APPLY_ACTION, 2), into(0x88)]));
    // Then it is idle for a while, and goes on in the same tunnel: what is known of it is kept.
    done(far(vec![n(ie::APPLY_ACTION, 4)]));
    done(far(vec![n(ie::APPLY_ACTION, 2)]));
    done(far(vec![into(0x88)]));
    let ended: Vec<_> = bench.control.plane().ended.iter().map(|tunnel| tunnel.teid).collect();
    assert_eq!(ended, [0x77], "and a tunnel that goes on does not end");
    let forward = bench.control.plane().get(seid).unwrap().far(2).unwrap().way().unwrap();
    assert_eq!((forward.to, forward.tunnel.unwrap().teid), (Side::Access, 0x88));
}

#[test]
fn what_is_said_of_forwarding_beside_another_action_is_kept_for_later() {
    let mut bench = Bench::associated();
    let mut elements = usual();
    let Value::Group(rule) = &mut elements[3].value else { panic!() };
    rule[1] = n(ie::APPLY_ACTION, 4);
    let seid = seid_of(&bench.establish(elements));
    assert_eq!(bench.control.plane().get(seid).unwrap().far(2).unwrap().way(), None);
    let go = vec![group(ie::UPDATE_FAR, vec![n(ie::FAR_ID, 2), n(ie::APPLY_ACTION, 2)])];
    assert_eq!(number(&bench.modify(seid, go), ie::CAUSE), Some(1));
    let forward = bench.control.plane().get(seid).unwrap().far(2).unwrap().way().unwrap();
    assert_eq!(forward.tunnel.unwrap().teid, 0x77);
}

#[test]
fn people_are_told_names_beside_numbers() {
    let mut bench = Bench::associated();
    bench.control.told();
    bench.establish(without(usual(), ie::CREATE_FAR));
    let told = bench.control.told().join("\n");
    let expected = "127.0.0.2: session establishment request (50) refused: cause 66, mandatory IE missing: Create FAR (3) \
                    is missing";
    assert_eq!(told, expected);
    let error = crate::client::Error::Refused { kind: 52, cause: Some(65), offending: None, rule: None };
    let expected = "the session modification request (52) was refused: cause 65, session context not found";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_another_session_has_is_the_fault_of_the_rule_that_asks_for_it() {
    let mut bench = Bench::associated();
    let address = "10.45.0.7".parse().unwrap();
    for (refusal, offending, pdr) in
        [(Refusal::AddressTaken(address), 93, 2), (Refusal::TunnelTaken(u32::MAX), 21, 1)]
    {
        let teid = |rule: &mut Element, teid: u32| {
            let v4 = Some("192.0.2.1".parse().unwrap());
            let given = Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Given { teid, v4, v6: None }));
            let Value::Group(elements) = &mut rule.value else { panic!() };
            elements[2] = group(ie::PDI, vec![n(ie::SOURCE_INTERFACE, 0), given]);
        };
        let mut elements = usual();
        teid(&mut elements[0], u32::MAX);
        bench.control.plane().refuses = Some(refusal);
        let answer = bench.establish(elements);
        let told = (number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE), failed(&answer));
        assert_eq!(told, (Some(73), Some(offending), Some((0, pdr))));
    }
}

#[test]
fn a_modification_that_fails_changes_nothing() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let before = bench.control.plane().get(seid).unwrap().clone();
    let first = || group(ie::REMOVE_PDR, vec![n(ie::PDR_ID, 1)]);
    let cases = [
        (
            vec![first(), group(ie::UPDATE_FAR, vec![n(ie::FAR_ID, 9), n(ie::APPLY_ACTION, 1)])],
            73,
            Some((1, 9)),
        ),
        (vec![first(), group(ie::REMOVE_QER, vec![n(ie::QER_ID, 1)])], 73, Some((0, 2))),
        (vec![first(), group(ie::REMOVE_FAR, vec![n(ie::FAR_ID, 7)])], 73, Some((1, 7))),
        (vec![first(), up(9, vec![flow("nonsense")])], 73, Some((0, 9))),
        (vec![up(9, vec![]), Element::new(ie::CREATE_MAR, Value::Octets(vec![1]))], 76, None),
    ];
    for (elements, cause, rule) in cases {
        let answer = bench.modify(seid, elements);
        assert_eq!((number(&answer, ie::CAUSE), failed(&answer)), (Some(cause), rule));
        assert_eq!(bench.control.plane().get(seid), Some(&before));
        assert_eq!(bench.control.tunnels(), 1);
    }
    bench.control.plane().refuses = Some(Refusal::NoResources("full".into()));
    assert_eq!(number(&bench.modify(seid, vec![first()]), ie::CAUSE), Some(75));
    assert_eq!(&*bench.control.sessions().get(seid).unwrap().rules, &before);
}

#[test]
fn sessions_live_as_the_recovery_time_stamp_says() {
    let mut bench = Bench::associated();
    bench.session();
    let heartbeat = bench.ask(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
    assert_eq!(number(&heartbeat, ie::RECOVERY_TIME_STAMP), Some(u64::from(OUR_START)));
    assert_eq!(bench.setup(5), Some(1));
    assert_eq!(bench.control.sessions().len(), 1, "the same start: they are kept");
    let retention = Element::new(ie::SESSION_RETENTION, Value::Octets(vec![0]));
    let answer = bench.ask(5, None, vec![node(), n(ie::RECOVERY_TIME_STAMP, 6), retention]);
    assert_eq!((number(&answer, ie::PFCPAS_RSP_FLAGS), bench.control.sessions().len()), (Some(1), 1));
    assert_eq!(bench.setup(7), Some(1));
    assert_eq!(bench.control.sessions().len(), 0, "another start: they are gone");
    bench.session();
    bench.ask(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 8)]);
    assert_eq!(bench.control.sessions().len(), 1, "anybody may have said so");
    let asked = bench.tick(Duration::from_millis(10));
    bench.answer_heartbeat(&asked[0], 8);
    assert_eq!((bench.control.sessions().len(), bench.control.peers()[0].association.is_none()), (0, true));
    assert_eq!(bench.setup(8), Some(1));
    bench.session();
    let released = bench.ask(kind::ASSOCIATION_RELEASE_REQUEST, None, vec![node()]);
    assert_eq!((number(&released, ie::CAUSE), bench.control.sessions().len()), (Some(1), 0));
    assert_eq!(number(&bench.ask(9, None, vec![node()]), ie::CAUSE), Some(72));
}

#[test]
fn one_datagram_does_not_end_the_sessions_of_a_peer() {
    let mut bench = Bench::associated();
    bench.session();
    // Old, repeated or forged: an earlier start, and a later one.
    for stamp in [4, 6, 1_000_000, 0x8000_0006] {
        bench.ask(1, None, vec![n(ie::RECOVERY_TIME_STAMP, stamp)]);
        let asked = bench.tick(Duration::from_secs(2));
        assert_eq!(asked.iter().map(|m| m.kind).collect::<Vec<_>>(), [1], "the peer is asked");
        bench.answer_heartbeat(&asked[0], 5);
        assert_eq!(bench.control.sessions().len(), 1, "{stamp}");
    }
    let setup = bench.octets(5, None, vec![node(), n(ie::RECOVERY_TIME_STAMP, 4)]);
    assert!(bench.raw(&setup).is_empty(), "an association of before");
    assert_eq!((bench.control.sessions().len(), bench.control.counts().stale), (1, 3));
    // However often it comes, the peer is asked once in a second.
    let mut asked = 0;
    for _ in 0..500 {
        bench.ask(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 6)]);
        asked += bench.tick(Duration::from_millis(10)).iter().filter(|m| m.kind == 1).count();
    }
    // Each of them is sent again until it is answered.
    assert!(asked <= 5 * 4, "{asked}");
    // A peer without a clock that goes on says so itself.
    let mut bench = Bench::associated();
    bench.session();
    let setup = bench.octets(5, None, vec![node(), n(ie::RECOVERY_TIME_STAMP, 1)]);
    assert!(bench.raw(&setup).is_empty());
    let asked = bench.tick(Duration::from_millis(10));
    bench.answer_heartbeat(&asked[0], 1);
    assert_eq!((bench.control.sessions().len(), bench.setup(1)), (0, Some(1)));
}

#[test]
fn a_peer_that_asks_much_evicts_no_answer_of_another() {
    let mut bench = Bench::associated();
    let establish = bench.octets(
        kind::SESSION_ESTABLISHMENT_REQUEST,
        Some(0),
        [vec![node(), f_seid(CP_SEID)], usual()].concat(),
    );
    let first = bench.raw(&establish);
    let own = std::mem::replace(&mut bench.peer, "127.0.0.3:9000".parse().unwrap());
    for _ in 0..40_000 {
        bench.now += Duration::from_micros(100);
        let heartbeat = bench.octets(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
        bench.raw(&heartbeat);
    }
    bench.peer = own;
    let again = bench.raw(&establish);
    assert_eq!(again[0].datagram, first[0].datagram, "{:?}", bench.control.counts());
}

#[test]
fn thousands_of_empty_elements_cost_a_pass_each() {
    let mut bench = Bench::associated();
    let empty = (0..4096).map(|_| group(ie::CREATE_FAR, Vec::new()));
    let elements = [node(), f_seid(CP_SEID)].into_iter().chain(empty).collect();
    let octets = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
    assert!(octets.len() > 16_000);
    let out = bench.raw(&octets);
    let answer = Pfcp.decode(&out[0].datagram).unwrap();
    assert_ne!(number(&answer, ie::CAUSE), Some(1));
    // It counts for as many requests as it has kilobytes: of 5000 that may come at once.
    let left = (0..1000).filter(|_| !bench.raw(&octets).is_empty()).count();
    assert!(left <= 5000 / 16, "{left}");
}

#[test]
fn a_tunnel_is_reported_once_in_a_second_and_charging_keeps_its_room() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let tunnel = |teid| RemoteTunnel { teid, address: "192.0.2.9".parse().unwrap(), port: 2152 };
    let flood = |bench: &mut Bench, teids: std::ops::Range<u32>| {
        let events = teids.map(|teid| Event::ErrorIndication { seid, tunnel: tunnel(teid) });
        bench.control.plane().events.extend(events);
    };
    for _ in 0..50 {
        flood(&mut bench, 7..8);
    }
    let reports = |bench: &mut Bench, later| {
        let sent = bench.tick(later);
        sent.iter().filter(|m| m.kind == kind::SESSION_REPORT_REQUEST).count()
    };
    assert_eq!(reports(&mut bench, Duration::from_millis(10)), 1);
    assert_eq!(bench.control.counts().reports_hushed, 49);
    // As many tunnels as there are, each once: the requests that wait leave room for others.
    for at in 0..40 {
        flood(&mut bench, 1000 + at * 200..1200 + at * 200);
        bench.tick(Duration::from_millis(1));
    }
    assert_eq!(bench.control.unanswered(), requests::OPEN_MAX - requests::RESERVED);
    assert!(bench.control.requests.has_room(requests::About::Usage(seid)));
    assert!(!bench.control.requests.has_room(requests::About::Report(seid)));
}

#[test]
fn numbers_of_sessions_and_tunnels_are_not_guessed_from_others() {
    let mut bench = Bench::associated();
    let seids = [bench.session(), bench.session()];
    let high = seids.map(|seid| seid >> 20);
    assert!(high[0].abs_diff(high[1]) > 1 << 20 && high[0] >> 32 != u64::from(OUR_START) << 12, "{seids:x?}");
    let teids = seids.map(|seid| {
        let rules = &bench.control.sessions().get(seid).unwrap().rules;
        rules.pdrs.iter().find_map(|pdr| pdr.tunnel).unwrap().teid
    });
    assert!(teids[0].abs_diff(teids[1]) > 1 << 10, "{teids:x?}");
}

#[test]
fn a_peer_that_is_silent_loses_its_sessions() {
    let mut bench = Bench::associated();
    bench.session();
    let beats = bench.tick(Duration::from_secs(11));
    assert_eq!(beats.iter().map(|m| m.kind).collect::<Vec<_>>(), [1]);
    bench.answer_heartbeat(&beats[0], 5);
    assert_eq!((bench.control.unanswered(), bench.control.counts().unexpected), (0, 0));
    for _ in 0..61 {
        bench.tick(Duration::from_secs(1));
    }
    assert_eq!((bench.control.sessions().len(), bench.control.unanswered()), (0, 0));
}

#[test]
fn reports_are_sent_until_they_are_answered() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let tunnel = RemoteTunnel { teid: 0x77, address: "192.0.2.9".parse().unwrap(), port: 2152 };
    bench.control.plane().events.extend([
        Event::ErrorIndication { seid, tunnel },
        Event::Inactive { seid },
        Event::DownlinkData { seid, pdr: 2 },
        Event::Inactive { seid: 1 },
    ]);
    let reports = bench.tick(Duration::from_millis(10));
    let types: Vec<_> = reports.iter().map(|m| (m.kind, m.seid, number(m, ie::REPORT_TYPE))).collect();
    assert_eq!(types, [4, 8, 1].map(|bits| (kind::SESSION_REPORT_REQUEST, Some(CP_SEID), Some(bits))));
    let remote =
        Value::Tunnel(Tunnel::Given { teid: 0x77, v4: Some("192.0.2.9".parse().unwrap()), v6: None });
    let report = group(ie::ERROR_INDICATION_REPORT, vec![Element::new(ie::F_TEID, remote)]);
    assert_eq!(reports[0].elements[1], report);
    assert_eq!(bench.tick(Duration::from_secs(1)), reports, "again, as they were");
    let answer = |sequence: u32, cause: u64| {
        let mut octets = Vec::new();
        let elements = vec![n(ie::CAUSE, cause)];
        let kind = kind::SESSION_REPORT_RESPONSE;
        Pfcp.encode(&Message { kind, seid: Some(seid), sequence, elements }, &mut octets);
        octets
    };
    bench.raw(&answer(reports[0].sequence, 1));
    assert_eq!(bench.control.sessions().len(), 1);
    bench.raw(&answer(reports[1].sequence, 65));
    assert_eq!(bench.control.sessions().len(), 0, "the peer does not know it");
    for _ in 0..5 {
        bench.tick(Duration::from_secs(1));
    }
    assert_eq!((bench.control.unanswered(), bench.control.counts().reports_lost), (0, 1));
}

/// A peer that is not who it says, or asks what is another's.
mod hostile {
    use super::*;

    #[test]
    fn another_port_of_a_peer_gets_its_own_answers_and_takes_none_of_others() {
        let mut bench = Bench::associated();
        let mut elements = vec![node(), f_seid(CP_SEID)];
        elements.extend(usual());
        let request = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
        let first = bench.raw(&request);
        assert_eq!((first[0].to, bench.control.sessions().len()), (bench.peer, 1));
        // The same octets from another port are another request.
        let known = std::mem::replace(&mut bench.peer, "127.0.0.2:4444".parse().unwrap());
        let foreign = bench.raw(&request);
        assert_eq!((foreign.len(), foreign[0].to), (1, bench.peer));
        assert_ne!(foreign[0].datagram, first[0].datagram);
        // An answer from another peer answers nothing of ours. From another port of the one it does: some
        // send so.
        bench.peer = "127.0.0.3:8805".parse().unwrap();
        let mut out = Vec::new();
        bench.now += Duration::from_secs(11);
        bench.control.tick(bench.now, &mut out);
        let asked = Pfcp.decode(&out[0].datagram).unwrap();
        let unexpected = bench.control.counts().unexpected;
        bench.sequence = asked.sequence - 1;
        let answer = bench.octets(kind::HEARTBEAT_RESPONSE, None, vec![n(ie::RECOVERY_TIME_STAMP, 6)]);
        assert!(bench.raw(&answer).is_empty());
        assert_eq!((bench.control.counts().unexpected, bench.control.sessions().len()), (unexpected + 1, 2));
        bench.peer = known;
        assert_eq!(bench.raw(&request)[0].datagram, first[0].datagram);
    }

    #[test]
    fn a_replay_after_the_answers_were_forgotten_does_no_harm_to_others() {
        let mut bench = Bench::associated();
        let mut elements = vec![node(), f_seid(CP_SEID)];
        elements.extend(usual());
        let establish = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
        let answer = Pfcp.decode(&bench.raw(&establish)[0].datagram).unwrap();
        let seid = seid_of(&answer);
        let delete = bench.octets(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
        assert_eq!(bench.raw(&delete).len(), 1);
        let second = bench.session();
        let setup = bench.octets(5, None, vec![node(), n(ie::RECOVERY_TIME_STAMP, 4)]);
        bench.now += Duration::from_secs(25);
        // Answers of before are forgotten with the first that comes.
        bench.ask(kind::HEARTBEAT_REQUEST, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
        let told = |out: &[Outgoing]| number(&Pfcp.decode(&out[0].datagram).unwrap(), ie::CAUSE);
        assert!(bench.raw(&setup).is_empty(), "an association of before");
        assert_eq!(told(&bench.raw(&delete)), Some(65), "the number is borne by nobody again");
        assert_eq!(bench.control.sessions().len(), 1);
        // Nothing tells an establishment of before from a new one but what it asks for: the plane refuses an
        // address that another session has.
        bench.control.plane().refuses = Some(Refusal::AddressTaken("10.45.0.7".parse().unwrap()));
        assert_ne!(told(&bench.raw(&establish)), Some(1));
        assert_eq!(bench.control.sessions().len(), 1);
        assert!(bench.control.sessions().get(second).is_some());
    }

    #[test]
    fn a_sweep_of_session_numbers_finds_none() {
        let mut bench = Bench::associated();
        let seid = bench.session();
        for step in 1..=2000u64 {
            // Near a number that is known, near zero, and with the place of one that is there.
            for guess in [seid + step, seid - step, step, seid ^ (step << 20)] {
                let cause =
                    number(&bench.ask(kind::SESSION_DELETION_REQUEST, Some(guess), vec![]), ie::CAUSE);
                assert_eq!(cause, Some(65), "{guess:#x}");
            }
            bench.now += Duration::from_millis(1);
        }
        assert_eq!(bench.control.sessions().len(), 1);
        assert!(bench.control.answers() <= 65_536);
    }

    #[test]
    fn a_peer_that_floods_takes_neither_answers_nor_rate_of_another() {
        let mut bench = Bench::associated();
        let quiet = bench.peer;
        let mut elements = vec![node(), f_seid(CP_SEID)];
        elements.extend(usual());
        let request = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
        let first = bench.raw(&request);
        bench.peer = "127.0.0.3:8805".parse().unwrap();
        for _ in 0..200_000 {
            let heartbeat = bench.octets(kind::HEARTBEAT_REQUEST, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
            bench.raw(&heartbeat);
        }
        assert!(bench.control.counts().over_rate > 0);
        bench.peer = quiet;
        assert_eq!(bench.raw(&request), first, "its answer is still there");
        assert_eq!(
            number(
                &bench.ask(
                    kind::SESSION_MODIFICATION_REQUEST,
                    Some(seid_of(&Pfcp.decode(&first[0].datagram).unwrap())),
                    vec![]
                ),
                ie::CAUSE
            ),
            Some(1)
        );
    }

    #[test]
    fn another_peer_that_gives_the_node_of_one_ends_neither_its_association_nor_guessed_sessions() {
        let mut bench = Bench::associated();
        let seid = bench.session();
        bench.peer = "127.0.0.3:8805".parse().unwrap();
        // Without an association of its own it is taken for another address of that node, as far as sessions
        // go.
        assert_eq!(
            number(&bench.ask(kind::ASSOCIATION_RELEASE_REQUEST, None, vec![node()]), ie::CAUSE),
            Some(72)
        );
        assert_eq!(
            number(&bench.ask(kind::ASSOCIATION_UPDATE_REQUEST, None, vec![node()]), ie::CAUSE),
            Some(72)
        );
        assert_eq!(
            number(&bench.ask(kind::SESSION_DELETION_REQUEST, Some(seid ^ 1 << 30), vec![]), ie::CAUSE),
            Some(72)
        );
        assert_eq!(bench.control.sessions().len(), 1);
    }

    #[test]
    fn a_report_that_is_lost_has_paging_told_again() {
        let mut bench = Bench::associated();
        let seid = bench.session();
        let pdr = 2;
        bench.control.plane().events.push_back(Event::DownlinkData { seid, pdr });
        for _ in 0..60 {
            bench.control.tick(bench.now, &mut Vec::new());
            bench.now += Duration::from_millis(100);
        }
        assert_eq!(
            (bench.control.counts().reports_lost, &bench.control.plane().untold[..]),
            (1, &[seid][..])
        );
    }
}
