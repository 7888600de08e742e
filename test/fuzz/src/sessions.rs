//! Scripts for what session management may say: messages with anything in them.

use crate::bytes::Script;
use std::net::SocketAddr;
use weir_config::UpfConfig;
use weir_units::{Duration, Time};
use weir_upf::client::{creates, usual};
use weir_upf::codec::{Codec, Pfcp};
use weir_upf::control::{Control, Outgoing, numbers_of_seed};
use weir_upf::filter::Filter;
use weir_upf::ledger::Ledger;
use weir_upf::message::{Element, FlowFilter, Message, NodeId, Tunnel, UserAddress, Value, ie, kind};
use weir_upf::rules::{Event, PerDirection, Plane, RemoteTunnel, Seid};

const CONFIG: &str = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"], answers = 16 }\n\
    n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\nlimits = { sessions = 4, rules = 6, filters = 3 }\n";
const SESSIONS_MAX: usize = 4;

const FILTERS: [&str; 4] = [
    "permit out ip from any to assigned",
    "permit out 6 from 192.0.2.0/24 80,443 to assigned 1024-65535",
    "permit in 17 from assigned to 2001:db8::/32 53",
    "permit out 6 from 192.0.2.0/23 80-90 to any",
];

/// A description of a flow is taken and reads back as what was taken, or is refused with a remedy.
pub fn sdf_filter(bytes: &[u8]) {
    let text = crate::parsers::utf8(crate::parsers::text(bytes, &FILTERS));
    match text.parse::<Filter>() {
        Ok(filter) => assert_eq!(filter.to_string().parse(), Ok(filter), "{text}"),
        Err(wrong) => assert!(!wrong.problem.is_empty() && !wrong.remedy.is_empty()),
    }
}

/// Octets that are read as a message read again as the same once they are written.
pub(crate) fn reads_back(octets: &[u8]) {
    let Ok(message) = Pfcp.decode(octets) else { return };
    let mut written = Vec::new();
    Pfcp.encode(&message, &mut written);
    if !has_incorrect(&message.elements) {
        assert_eq!(Pfcp.decode(&written).as_ref(), Ok(&message));
    }
}

fn has_incorrect(elements: &[Element]) -> bool {
    elements.iter().any(|element| match &element.value {
        Value::Incorrect(_) => true,
        Value::Group(inner) => has_incorrect(inner),
        // Labels longer than the domain name system has them are cut when they are written.
        Value::Text(name) | Value::Node(NodeId::Name(name)) => {
            name.is_empty() || name.split('.').any(|label| label.is_empty() || label.len() > 63)
        }
        _ => false,
    })
}

/// Control, and a peer that asks.
pub(crate) struct Bench {
    control: Control<Ledger, Pfcp>,
    now: Time,
    peer: SocketAddr,
    sequence: u32,
}

impl Bench {
    /// A peer that is associated.
    pub(crate) fn associated() -> Bench {
        let config = UpfConfig::parse("fuzz", CONFIG).expect("a good configuration");
        let control = Control::new(&config, 77, Ledger::new(SESSIONS_MAX), Pfcp, numbers_of_seed(1));
        let peer = "127.0.0.2:8805".parse().expect("an address");
        let mut bench = Bench { control, now: Time::ZERO, peer, sequence: 0 };
        let setup = bench.message(kind::ASSOCIATION_SETUP_REQUEST, None, vec![node(), started(1)]);
        bench.ask(&setup);
        bench
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn send(&mut self, octets: &[u8]) -> Vec<Outgoing> {
        let mut out = Vec::new();
        self.control.receive(self.now, self.peer, octets, &mut out);
        out
    }

    /// Sends a request twice. The answer is the same, refusals change nothing, and tables are whole.
    pub(crate) fn ask(&mut self, octets: &[u8]) {
        let before: Vec<_> = self.control.sessions().iter().map(|entry| entry.rules.clone()).collect();
        let accepted = self.control.counts().accepted;
        let answer = self.send(octets);
        // One for each message of the datagram, of which the shortest has eight octets.
        assert!(answer.len() <= (octets.len() / 8).max(1), "{answer:?}");
        let again = self.send(octets);
        let is_heartbeat = octets.get(1).is_some_and(|number| *number == kind::HEARTBEAT_REQUEST);
        assert!(again == answer || answer.is_empty(), "{answer:?} then {again:?}");
        if self.control.counts().accepted == accepted && !is_heartbeat {
            let after: Vec<_> = self.control.sessions().iter().map(|entry| entry.rules.clone()).collect();
            assert_eq!(after, before, "what was refused changed something");
        }
        self.whole();
    }

    fn whole(&mut self) {
        let sessions: Vec<Seid> = self.control.sessions().iter().map(|entry| entry.rules.seid).collect();
        assert!(sessions.len() <= SESSIONS_MAX && self.control.answers() <= 16);
        assert_eq!(self.control.plane().capacity().used, sessions.len());
        for seid in sessions {
            let rules = self.control.sessions().get(seid).expect("it is in the table").rules.clone();
            assert_eq!(self.control.plane().get(seid), Some(&*rules));
            assert_eq!(rules.problem(), Ok(()));
        }
    }

    fn message(&mut self, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Vec<u8> {
        self.sequence += 1;
        let mut octets = Vec::new();
        Pfcp.encode(&Message { kind, seid, sequence: self.sequence, elements }, &mut octets);
        octets
    }
}

/// Session management says anything: good requests with parts taken out, doubled and replaced, whole messages
/// of octets, the passing of time, reports.
pub fn pfcp(bytes: &[u8]) {
    reads_back(bytes);
    let mut bench = Bench::associated();
    let mut script = Script::new(bytes);
    while let Some(what) = script.byte() {
        bench.pass(Duration::from_millis(u64::from(script.byte_or_zero())));
        turn(&mut bench, what, &mut script);
    }
    let mut out = Vec::new();
    bench.control.goodbye(bench.now, &mut out);
    bench.control.tick(bench.now + Duration::from_secs(100), &mut out);
    bench.whole();
}

fn turn(bench: &mut Bench, what: u8, script: &mut Script) {
    let seids: Vec<Seid> = bench.control.sessions().iter().map(|entry| entry.rules.seid).collect();
    let seid = match seids.len() {
        0 => Seid::from(script.number()),
        count => seids[usize::from(script.byte_or_zero()) % count],
    };
    let mut elements = vec![node(), f_seid(u64::from(what))];
    elements.extend(creates(&good(what), what & 1 == 0));
    match what % 8 {
        0..=2 => {
            changed(&mut elements, script);
            let octets = bench.message(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
            bench.ask(&octets);
        }
        3 | 4 => {
            let mut elements = modification(&elements, script);
            changed(&mut elements, script);
            let octets = bench.message(kind::SESSION_MODIFICATION_REQUEST, Some(seid), elements);
            bench.ask(&octets);
        }
        5 => {
            let kinds = [1, 3, 5, 7, 9, 12, 14, 16, 54, 56];
            let number = kinds[usize::from(script.byte_or_zero()) % kinds.len()];
            let mut elements = vec![node(), started(u32::from(script.byte_or_zero()) / 64)];
            changed(&mut elements, script);
            let octets = bench.message(number, (number > 49).then_some(seid), elements);
            bench.ask(&octets);
        }
        6 => {
            let octets = script.some(usize::from(what)).to_vec();
            reads_back(&octets);
            bench.send(&octets);
        }
        _ => {
            let tunnel =
                RemoteTunnel { teid: 1, address: "192.0.2.9".parse().expect("an address"), port: 2152 };
            bench.control.plane().events.push_back(Event::ErrorIndication { seid, tunnel });
            let (mut out, later) = (Vec::new(), bench.now + script.wait());
            bench.control.tick(later, &mut out);
            out.iter().for_each(|sent| reads_back(&sent.datagram));
        }
    }
    bench.whole();
}

/// The octets of a good request about a session: to begin, to change or to end one.
pub(crate) fn request(bench: &mut Bench, what: u8, script: &mut Script) -> Vec<u8> {
    let seids: Vec<Seid> = bench.control.sessions().iter().map(|entry| entry.rules.seid).collect();
    let seid = seids.get(usize::from(script.byte_or_zero()) % seids.len().max(1)).copied();
    let mut elements = vec![node(), f_seid(u64::from(what))];
    elements.extend(creates(&good(what), what & 1 == 0));
    match what % 4 {
        0 | 1 => bench.message(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements),
        2 => {
            let elements = modification(&elements, script);
            bench.message(kind::SESSION_MODIFICATION_REQUEST, seid, elements)
        }
        _ => bench.message(kind::SESSION_DELETION_REQUEST, seid, Vec::new()),
    }
}

fn node() -> Element {
    Element::new(ie::NODE_ID, Value::Node(NodeId::Address("127.0.0.2".parse().expect("an address"))))
}

fn started(recovery: u32) -> Element {
    Element::number(ie::RECOVERY_TIME_STAMP, recovery)
}

fn f_seid(seid: u64) -> Element {
    Element::new(ie::F_SEID, Value::Session { seid, v4: "127.0.0.2".parse().ok(), v6: None })
}

fn good(what: u8) -> weir_upf::rules::Session {
    let ambr = PerDirection { up: 1000, down: 2000 };
    let station = ("192.0.2.9".parse().expect("an address"), 5);
    let (user, n3) = ([10, 0, 0, what].into(), [192, 0, 2, 1].into());
    usual(1, user, n3, station, ambr)
}

/// The rules of a good session as changes, new rules and removals.
fn modification(elements: &[Element], script: &mut Script) -> Vec<Element> {
    let number = |element: &Element| match &element.value {
        Value::Group(inner) => inner.first().cloned().into_iter().collect(),
        _ => Vec::new(),
    };
    let one = |element: &Element| {
        let [update, remove] = match element.id {
            ie::CREATE_PDR => [ie::UPDATE_PDR, ie::REMOVE_PDR],
            ie::CREATE_FAR => [ie::UPDATE_FAR, ie::REMOVE_FAR],
            ie::CREATE_QER => [ie::UPDATE_QER, ie::REMOVE_QER],
            _ => return None,
        };
        match script.byte_or_zero() % 4 {
            0 => Some(element.clone()),
            1 => Some(Element::new(update, element.value.clone())),
            2 => Some(Element::new(remove, Value::Group(number(element)))),
            _ => None,
        }
    };
    elements.iter().filter_map(one).collect()
}

/// Takes elements out, doubles them, puts others in their place, at any depth.
fn changed(elements: &mut Vec<Element>, script: &mut Script) {
    for _ in 0..script.byte_or_zero() % 4 {
        let mut level = &mut *elements;
        while !script.byte_or_zero().is_multiple_of(3) {
            let at = usize::from(script.byte_or_zero());
            let groups: Vec<usize> =
                (0..level.len()).filter(|at| matches!(level[*at].value, Value::Group(_))).collect();
            if groups.is_empty() {
                break;
            }
            let Value::Group(inner) = &mut level[groups[at % groups.len()]].value else {
                unreachable!("chosen among groups")
            };
            level = inner;
        }
        let at = usize::from(script.byte_or_zero()) % (level.len() + 1);
        match script.byte_or_zero() % 4 {
            0 if at < level.len() => drop(level.remove(at)),
            1 if at < level.len() => level.insert(at, level[at].clone()),
            2 if at < level.len() => level[at] = any(script),
            _ => level.insert(at, any(script)),
        }
    }
}

/// Any element: one of those that are known, or not.
fn any(script: &mut Script) -> Element {
    let known = [
        20, 21, 22, 23, 25, 26, 27, 28, 29, 30, 42, 44, 49, 56, 57, 84, 93, 95, 108, 109, 113, 117, 123, 124,
    ];
    let choice = script.byte_or_zero();
    let id =
        known.get(usize::from(choice)).copied().unwrap_or_else(|| known[usize::from(choice) % known.len()]);
    let id = if choice > 250 { script.number() } else { id };
    let number = u64::from(script.byte_or_zero());
    let value = match id {
        ie::F_TEID if number.is_multiple_of(2) => {
            Value::Tunnel(Tunnel::Choose { v4: number & 2 == 0, v6: number & 4 == 0, id: None })
        }
        ie::F_TEID => {
            Value::Tunnel(Tunnel::Given { teid: number as u32, v4: "192.0.2.1".parse().ok(), v6: None })
        }
        ie::SDF_FILTER => {
            let text = crate::parsers::utf8(crate::parsers::text(script.some(20), &FILTERS));
            Value::Flow(FlowFilter { description: Some(text), ..FlowFilter::default() })
        }
        ie::UE_IP_ADDRESS => Value::UserAddress(UserAddress {
            v4: Some([10, 0, 0, number as u8].into()),
            v6: None,
            is_destination: number & 1 == 1,
            is_chosen: false,
        }),
        ie::MBR | ie::GBR => Value::Rates { up: number, down: u64::from(script.byte_or_zero()) },
        ie::OUTER_HEADER_CREATION => {
            Value::OuterHeader { teid: number as u32, address: [192, 0, 2, script.byte_or_zero()].into() }
        }
        ie::NETWORK_INSTANCE | ie::F_SEID => Value::Octets(script.some(usize::from(choice % 20)).to_vec()),
        _ if number > 240 => Value::Octets(script.some(usize::from(choice % 8)).to_vec()),
        _ => Value::Number(number % 16),
    };
    Element::new(id, value)
}
