//! The user plane under faults: control and packet path as they are, with ports in memory, in virtual time.
//!
//! Each step of a script is something that a peer, a base station, a neighbour or a user does, honest or not.
//! After each of them the frames that the packet path holds are counted, and what it sends is looked at.

use crate::dice::Dice;
use crate::faults::Kind;
use crate::life::Report;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_config::UpfConfig;
use weir_dataplane::{Arena, Frame, HEADROOM_MIN};
use weir_units::{Duration, Time};
use weir_upf::client::{creates, usual};
use weir_upf::codec::{Codec, Pfcp};
use weir_upf::configured::plane_setup;
use weir_upf::control::{Control, Outgoing, numbers_of_seed};
use weir_upf::message::{Element, Message, NodeId, Tunnel, Value, ie, kind};
use weir_upf::plane::{
    ACCESS, Answer, CORE, Command, Io, PlaneEvent, PlaneHandle, PortInterface, Reach, UserPlane,
};
use weir_upf::rules::{PerDirection, Plane as _};
use weir_wire::gtpu;

const CONFIG: &str = "n3 = { port = \"n3\", address = [\"192.0.2.1/24\"] }\n\
    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\", \"127.0.0.3\"] }\n\
    n6 = { port = \"n6\", address = [\"198.51.100.1/24\"] }\n\
    limits = { sessions = 8, rules = 8, packets = 512, queues = 16 }\n";
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const OWN: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const OTHERS: [u8; 6] = [2, 0, 0, 0, 0, 9];
const CHUNK: u32 = 2048;
const CHUNKS: u32 = 1024;
/// Packets that may wait in queues, and for neighbours beside that.
const WAITING_MAX: usize = 512 + 2 * 64 + 64;
/// Answers and questions of the packet path itself in a second, and at once.
const OWN_RATE_MAX: u64 = 1100;
const OWN_BURST_MAX: u64 = 200;
const MARK: u32 = 0x5765_6972;
/// Users of a script.
const USERS: u64 = 6;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Time before it, in ns.
    pub after: u64,
    /// What.
    pub what: What,
    /// Which user, peer or port.
    pub who: u64,
    /// How much.
    pub value: u64,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum What {
    /// Session management asks for a session.
    Establish,
    /// Its packets are to wait, to be discarded, or to go on.
    Change,
    /// It ends.
    Delete,
    /// Packets from a user.
    Up,
    /// Packets to a user.
    Down,
    /// A port takes nothing, or as much as ever.
    Room,
    /// A fault of this kind.
    Fault(Kind),
}

/// A script.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Script {
    /// The seed that it was made of.
    pub seed: u64,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

const FAULTS: &[Kind] = &[
    Kind::PfcpLies,
    Kind::PfcpFlood,
    Kind::PfcpLoss,
    Kind::PfcpRestart,
    Kind::TunnelLies,
    Kind::IndicationFlood,
    Kind::NeighbourLies,
    Kind::Spray,
    Kind::Stall,
];

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Script {
        let dice = &mut Dice::new(seed ^ 0x0055_5046);
        let is_hostile = !dice.one_in(4);
        let count = dice.span(10, 160);
        let mut steps: Vec<Step> = (0..USERS.min(2 + dice.below(5)))
            .map(|who| Step { after: 1_000_000, what: What::Establish, who, value: dice.bits() >> 16 })
            .collect();
        for _ in 0..count {
            let what = match dice.below(20) {
                0..6 => What::Up,
                6..12 => What::Down,
                12 => What::Room,
                13 | 14 => What::Change,
                15 if is_hostile => What::Establish,
                16 if is_hostile => What::Delete,
                _ if is_hostile => What::Fault(dice.of(FAULTS)),
                _ => What::Up,
            };
            let after = dice.span(1_000, 400_000_000);
            steps.push(Step { after, what, who: dice.below(USERS), value: dice.bits() >> 16 });
        }
        Script { seed, steps }
    }

    /// Smaller scripts that may fail as well.
    pub fn smaller(&self) -> Vec<Script> {
        let count = self.steps.len();
        let mut all = Vec::new();
        let mut size = count / 2;
        while size > 0 {
            for first in (0..count).step_by(size) {
                let mut steps = self.steps.clone();
                steps.drain(first..(first + size).min(count));
                all.push(Script { seed: self.seed, steps });
            }
            size /= 2;
        }
        all
    }

    fn is_honest(&self) -> bool {
        self.steps.iter().all(|step| !matches!(step.what, What::Fault(_) | What::Delete))
    }
}

/// Ports that lead to whoever looks, and the memory of frames, of which each has one owner.
struct Ports {
    arena: Arena,
    is_held: Vec<bool>,
    held: usize,
    sent: Vec<(usize, Vec<u8>)>,
    room: [usize; 2],
    wrong: Vec<String>,
}

impl Ports {
    fn number(&self, frame: Frame) -> usize {
        (frame.addr / u64::from(CHUNK)) as usize
    }

    fn let_go(&mut self, frame: Frame, how: &str) {
        let number = self.number(frame);
        if !std::mem::replace(&mut self.is_held[number], false) {
            return self.wrong.push(format!("frame {number} is {how} and was not held"));
        }
        self.held -= 1;
        self.arena.give(frame.addr);
    }

    fn frame(&mut self, bytes: &[u8]) -> Option<Frame> {
        let frame = self.take(bytes.len())?;
        self.bytes(frame).copy_from_slice(bytes);
        Some(frame)
    }
}

impl Io for Ports {
    fn bytes(&mut self, frame: Frame) -> &mut [u8] {
        self.arena.bytes(frame)
    }

    fn take(&mut self, len: usize) -> Option<Frame> {
        if len > (CHUNK - HEADROOM_MIN) as usize {
            return None;
        }
        let addr = self.arena.take()? + u64::from(HEADROOM_MIN);
        let frame = Frame { addr, len: len as u32 };
        let number = self.number(frame);
        if std::mem::replace(&mut self.is_held[number], true) {
            self.wrong.push(format!("frame {number} is taken twice"));
        }
        self.held += 1;
        Some(frame)
    }

    fn give(&mut self, frame: Frame) {
        self.let_go(frame, "given back");
    }

    fn room(&self, port: usize) -> usize {
        self.room[port]
    }

    fn push(&mut self, port: usize, frame: Frame) {
        let bytes = self.arena.bytes(frame).to_vec();
        self.sent.push((port, bytes));
        self.let_go(frame, "sent");
    }
}

/// The packet path at a time, asked directly.
struct Path {
    plane: UserPlane,
    ports: Ports,
    now: Time,
}

impl Reach for Path {
    fn ask(&mut self, command: Command) -> Option<Answer> {
        Some(self.plane.apply(command, self.now, &mut self.ports))
    }

    fn happened(&mut self) -> Option<PlaneEvent> {
        self.plane.happened()
    }
}

/// A session as session management knows it.
#[derive(Clone, Copy)]
struct Known {
    seid: u64,
    teid: u32,
    peer: usize,
}

struct Bench<'a> {
    script: &'a Script,
    control: Control<PlaneHandle<Path>, Pfcp>,
    dice: Dice,
    known: Vec<Option<Known>>,
    sequence: u32,
    last: Vec<u8>,
    stamp: u32,
    offered: u64,
    delivered: u64,
    /// By user and direction: the last number that was sent, and that was received.
    flows: Vec<[(u64, u64); 2]>,
    own: u64,
    own_last: (u64, u64),
    report: Report,
    wants_trace: bool,
    ticked: u64,
}

/// Runs a script.
pub fn run(script: &Script, wants_trace: bool) -> Report {
    let run = || {
        let mut bench = Bench::new(script, wants_trace)?;
        bench.run();
        Ok::<Report, String>(bench.report)
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(report)) => report,
        Ok(Err(text)) => Report { violations: vec![text], ..Report::default() },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Report { violations: vec![format!("it panicked: {text}")], ..Report::default() }
        }
    }
}

fn peer(at: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([127, 0, 0, 2 + at as u8]), 8805)
}

impl<'a> Bench<'a> {
    fn new(script: &'a Script, wants_trace: bool) -> Result<Bench<'a>, String> {
        let config = UpfConfig::parse("faultsim", CONFIG).map_err(|errors| errors.to_string())?;
        let mut setup = plane_setup(&config, script.seed);
        setup.access.neighbours = vec![(STATION.into(), OTHERS)];
        setup.core.neighbours = vec![(SERVER.into(), OTHERS)];
        let now = Time::from_nanos(1_000_000_000);
        let cards = OWN.map(|address| PortInterface { address, mtu: 1500 });
        let plane = UserPlane::new(setup.clone(), &cards, now)?;
        let arena = Arena::new(CHUNK, CHUNKS).map_err(|error| error.to_string())?;
        let is_held = vec![false; CHUNKS as usize];
        let ports =
            Ports { arena, is_held, held: 0, sent: Vec::new(), room: [usize::MAX; 2], wrong: Vec::new() };
        let handle = PlaneHandle::new(setup, Path { plane, ports, now });
        let control = Control::new(&config, 1000, handle, Pfcp, numbers_of_seed(script.seed));
        let mut bench = Bench {
            script,
            control,
            dice: Dice::new(script.seed ^ 77),
            known: vec![None; USERS as usize],
            sequence: 0,
            last: Vec::new(),
            stamp: 5000,
            offered: 0,
            delivered: 0,
            flows: vec![[(0, 0); 2]; USERS as usize],
            own: 0,
            own_last: (0, 0),
            report: Report { lives: 1, ..Report::default() },
            wants_trace,
            ticked: 0,
        };
        (0..2).for_each(|at| bench.associate(at));
        Ok(bench)
    }

    fn path(&mut self) -> &mut Path {
        self.control.plane().reach()
    }

    fn now(&mut self) -> u64 {
        self.path().now.as_nanos()
    }

    fn violated(&mut self, text: String) {
        if self.report.violations.len() < 8 {
            self.note(|| format!("VIOLATION: {text}"));
            self.report.violations.push(text);
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.wants_trace {
            let now = self.now();
            self.report.trace.push(format!("{:>14.6} ms  {}", now as f64 / 1e6, text()));
        }
    }

    fn run(&mut self) {
        let begin = self.now();
        for at in 0..self.script.steps.len() {
            let step = self.script.steps[at];
            self.passes(step.after);
            self.note(|| format!("{step:?}"));
            self.does(step);
            self.check();
            if !self.report.violations.is_empty() {
                break;
            }
        }
        if self.report.violations.is_empty() {
            self.ends();
        }
        self.report.simulated = self.now() - begin;
        self.report.frames = (self.offered, self.delivered);
    }

    /// Everything goes on, then ends: nothing is held any more, and every packet is accounted for.
    fn ends(&mut self) {
        self.path().ports.room = [usize::MAX; 2];
        for user in 0..USERS {
            self.change(user, 2);
        }
        self.passes(4_000_000_000);
        self.check();
        if self.script.is_honest() {
            let dropped: u64 = (0..USERS as usize)
                .filter_map(|user| self.known[user])
                .filter_map(|known| self.control.plane().usage(known.seid))
                .map(|usage| usage.dropped.up + usage.dropped.down)
                .sum();
            let faults: u64 = self.path().plane.faults().named().map(|(_, n)| n).sum();
            let (offered, delivered) = (self.offered, self.delivered);
            if delivered + dropped + faults < offered {
                self.violated(format!(
                    "{offered} packets came, {delivered} left, {dropped} + {faults} were counted as lost"
                ));
            }
        }
        for user in 0..USERS {
            self.delete(user);
        }
        self.passes(60_000_000_000);
        let held = self.path().ports.held;
        if held > 0 {
            self.violated(format!("{held} frames are held though nobody has a session"));
        }
        let (sessions, used) = (self.control.sessions().len(), self.control.plane().capacity().used);
        if sessions != used {
            self.violated(format!("control has {sessions} sessions, and the packet path {used}"));
        }
    }

    /// Time passes as for a packet loop that is never late.
    fn passes(&mut self, span: u64) {
        let end = self.now() + span;
        while self.now() < end {
            let path = self.path();
            let next = path.plane.next_event(path.now).as_nanos();
            let now = path.now.as_nanos();
            // Not to turn more often than a loop does.
            let to = next.max(now + 20_000).min(now + 10_000_000).min(end);
            path.now = Time::from_nanos(to);
            path.plane.turn(path.now, &mut path.ports);
            self.tick(to);
            self.look_at_sent();
        }
    }

    fn tick(&mut self, now: u64) {
        if now < self.ticked + 10_000_000 {
            return;
        }
        self.ticked = now;
        let mut out = Vec::new();
        self.control.tick(Time::from_nanos(now), &mut out);
        if out.len() > 256 {
            self.violated(format!("{} messages were sent at once", out.len()));
        }
        self.answer(&out);
    }

    /// Session management answers what it is asked.
    fn answer(&mut self, out: &[Outgoing]) {
        for sent in out {
            let Ok(message) = Pfcp.decode(&sent.datagram) else {
                self.violated("a message was sent that cannot be read".into());
                continue;
            };
            let elements = match message.kind {
                kind::HEARTBEAT_REQUEST => vec![Element::number(ie::RECOVERY_TIME_STAMP, self.stamp)],
                kind::SESSION_REPORT_REQUEST => vec![Element::number(ie::CAUSE, 1u32)],
                _ => continue,
            };
            let seid = message.seid.map(|_| 0);
            let answer = Message { kind: message.kind + 1, seid, sequence: message.sequence, elements };
            let mut octets = Vec::new();
            Pfcp.encode(&answer, &mut octets);
            let now = self.path().now;
            self.control.receive(now, sent.to, &octets, &mut Vec::new());
        }
    }

    /// A request, and the answer to it.
    fn ask(&mut self, at: usize, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Option<Message> {
        self.sequence += 1;
        let sequence = self.sequence;
        let mut octets = Vec::new();
        Pfcp.encode(&Message { kind, seid, sequence, elements }, &mut octets);
        self.last = octets.clone();
        let (now, mut out) = (self.path().now, Vec::new());
        self.control.receive(now, peer(at), &octets, &mut out);
        let answers: Vec<Message> = out
            .iter()
            .filter_map(|sent| Pfcp.decode(&sent.datagram).ok())
            .filter(|message| message.sequence == sequence && message.kind == kind + 1)
            .collect();
        if answers.len() > 1 {
            self.violated(format!("{} answers to one request", answers.len()));
        }
        answers.into_iter().next()
    }

    fn associate(&mut self, at: usize) {
        let node = Element::new(ie::NODE_ID, Value::Node(NodeId::Address(peer(at).ip())));
        let elements = vec![node, Element::number(ie::RECOVERY_TIME_STAMP, self.stamp)];
        self.ask(at, kind::ASSOCIATION_SETUP_REQUEST, None, elements);
    }

    fn establish(&mut self, user: u64) {
        let at = (user % 2) as usize;
        let ambr = PerDirection { up: 20_000, down: 20_000 };
        let mut rules = usual(1 + user, address_of(user), N3, (STATION.into(), 100 + user as u32), ambr);
        rules.seid = 1 + user;
        let IpAddr::V4(v4) = peer(at).ip() else { return };
        let mut elements = vec![
            Element::new(ie::NODE_ID, Value::Node(NodeId::Address(peer(at).ip()))),
            Element::new(ie::F_SEID, Value::Session { seid: 1 + user, v4: Some(v4), v6: None }),
        ];
        elements.extend(creates(&rules, true));
        let Some(answer) = self.ask(at, kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements) else {
            return;
        };
        let seid = answer.elements.iter().find_map(|element| match element.value {
            Value::Session { seid, .. } => Some(seid),
            _ => None,
        });
        let created = answer.elements.iter().filter(|element| element.id == ie::CREATED_PDR);
        let teid = created.filter_map(|element| match &element.value {
            Value::Group(inner) => inner.iter().find_map(|element| match element.value {
                Value::Tunnel(Tunnel::Given { teid, .. }) => Some(teid),
                _ => None,
            }),
            _ => None,
        });
        let teid = teid.into_iter().next();
        if let (Some(seid), Some(teid)) = (seid, teid) {
            self.known[user as usize] = Some(Known { seid, teid, peer: at });
        }
    }

    /// What becomes of packets to a user: 1 they are discarded, 2 they go on, 12 they wait.
    fn change(&mut self, user: u64, action: u32) {
        let Some(known) = self.known[user as usize] else { return };
        let elements = vec![Element::number(ie::FAR_ID, 2u32), Element::number(ie::APPLY_ACTION, action)];
        let update = Element::new(ie::UPDATE_FAR, Value::Group(elements));
        self.ask(known.peer, kind::SESSION_MODIFICATION_REQUEST, Some(known.seid), vec![update]);
    }

    fn delete(&mut self, user: u64) {
        let Some(known) = self.known[user as usize].take() else { return };
        self.ask(known.peer, kind::SESSION_DELETION_REQUEST, Some(known.seid), Vec::new());
    }

    fn comes(&mut self, port: usize, frame: &[u8]) {
        let path = self.control.plane().reach();
        let Some(frame) = path.ports.frame(frame) else { return };
        path.plane.receive(port, frame, path.now, &mut path.ports);
    }

    fn does(&mut self, step: Step) {
        let Step { who, value, .. } = step;
        match step.what {
            What::Establish => self.establish(who),
            What::Delete => self.delete(who),
            What::Change => self.change(who, [1, 2, 2, 12][(value % 4) as usize]),
            What::Room => {
                self.path().ports.room[(who % 2) as usize] =
                    if value % 3 == 0 { usize::MAX } else { value as usize % 40 }
            }
            What::Up | What::Down => {
                let is_up = step.what == What::Up;
                for _ in 0..1 + value % 60 {
                    self.packet(who, is_up, 28 + 16 + (value >> 8) as usize % 1300);
                }
            }
            What::Fault(kind) => {
                self.report.met.count(kind);
                self.fault(kind, who, value);
            }
        }
        self.look_at_sent();
    }

    /// An honest packet.
    fn packet(&mut self, user: u64, is_up: bool, len: usize) {
        let Some(known) = self.known[user as usize] else { return };
        let counts = &mut self.flows[user as usize][usize::from(is_up)];
        counts.0 += 1;
        let number = counts.0;
        let ue = address_of(user);
        let (from, to) = if is_up { (ue, SERVER) } else { (SERVER, ue) };
        let mut inner = ip(from, to, 17, len);
        let end = inner.len();
        inner[end - 16..end - 12].copy_from_slice(&MARK.to_be_bytes());
        inner[end - 12..end - 8].copy_from_slice(&(2 * user as u32 + u32::from(is_up)).to_be_bytes());
        inner[end - 8..].copy_from_slice(&number.to_be_bytes());
        self.offered += 1;
        let (port, packet) = if is_up { (ACCESS, tunnelled(known.teid, &inner)) } else { (CORE, inner) };
        self.comes(port, &ethernet(port, 0x0800, &packet));
    }

    fn fault(&mut self, kind: Kind, who: u64, value: u64) {
        let at = (who % 2) as usize;
        match kind {
            Kind::PfcpLies => {
                let mut octets = self.last.clone();
                match value % 4 {
                    0 => octets.truncate(value as usize / 4 % octets.len().max(1)),
                    1 => (0..1 + value / 4 % 8).for_each(|_| {
                        let place = self.dice.below(octets.len().max(1) as u64) as usize;
                        if let Some(octet) = octets.get_mut(place) {
                            *octet = self.dice.bits() as u8;
                        }
                    }),
                    2 => octets = (0..value / 4 % 200).map(|_| self.dice.bits() as u8).collect(),
                    _ => {
                        // A session of somebody else, by any number.
                        if let Some(place) = octets.get_mut(4..12) {
                            place.copy_from_slice(&self.dice.bits().to_be_bytes());
                        }
                    }
                }
                self.datagram(at, &octets);
            }
            Kind::PfcpFlood => {
                for _ in 0..value % 3000 {
                    let elements = vec![Element::number(ie::RECOVERY_TIME_STAMP, self.stamp)];
                    self.ask(at, weir_upf::message::kind::HEARTBEAT_REQUEST, None, elements);
                }
            }
            Kind::PfcpLoss => {
                // What was asked comes twice, as its answer was lost.
                let octets = self.last.clone();
                let before = self.control.sessions().len();
                self.datagram(at, &octets);
                let after = self.control.sessions().len();
                if after > before {
                    self.violated("a request that came twice was done twice".into());
                }
            }
            Kind::PfcpRestart => {
                let stamp = if value.is_multiple_of(2) {
                    self.stamp - 1 - (value >> 8) as u32 % 100
                } else {
                    self.stamp
                };
                let elements = vec![Element::number(ie::RECOVERY_TIME_STAMP, stamp)];
                let before = self.control.sessions().len();
                self.ask(at, weir_upf::message::kind::HEARTBEAT_REQUEST, None, elements);
                if self.control.sessions().len() < before {
                    self.violated("a heartbeat with an earlier time stamp ended sessions".into());
                }
            }
            Kind::TunnelLies => {
                let user = address_of(who);
                let inner = ip(user, SERVER, 17, 60);
                for n in 0..1 + value % 64 {
                    let teid = if n % 3 == 0 {
                        self.known[who as usize].map_or(1, |k| k.teid)
                    } else {
                        self.dice.bits() as u32
                    };
                    let mut packet = tunnelled(teid, &inner);
                    match value / 64 % 4 {
                        0 => packet.truncate(29 + self.dice.below(30) as usize),
                        1 => {
                            let place = 28 + self.dice.below(12) as usize;
                            packet[place] = self.dice.bits() as u8;
                        }
                        2 => packet = tunnelled(teid, &tunnelled(teid, &inner)),
                        _ => {}
                    }
                    self.comes(ACCESS, &ethernet(ACCESS, 0x0800, &packet));
                }
            }
            Kind::IndicationFlood => {
                for _ in 0..1 + value % 500 {
                    let mut message = [0; gtpu::SIGNALLING_MAX];
                    let teid =
                        if value.is_multiple_of(2) { 100 + who as u32 } else { self.dice.bits() as u32 };
                    let about = if value.is_multiple_of(3) {
                        STATION
                    } else {
                        Ipv4Addr::from(self.dice.bits() as u32)
                    };
                    let Ok(len) = gtpu::write_error_indication(&mut message, teid, about.into()) else {
                        break;
                    };
                    let packet = udp(STATION, N3, 2152, &message[..len]);
                    self.comes(ACCESS, &ethernet(ACCESS, 0x0800, &packet));
                }
            }
            Kind::NeighbourLies => {
                for _ in 0..1 + value % 50 {
                    let host = Ipv4Addr::new(198, 51, 100, self.dice.bits() as u8);
                    let target = if value.is_multiple_of(2) { SERVER } else { host };
                    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1 + (value / 2 % 2) as u8, 2, 6, 6, 6, 6, 6];
                    arp.extend(target.octets());
                    arp.extend(OWN[CORE]);
                    arp.extend([198, 51, 100, 1]);
                    arp.truncate(if value.is_multiple_of(7) { 20 } else { 28 });
                    self.comes(CORE, &ethernet(CORE, 0x0806, &arp));
                }
            }
            Kind::Spray => {
                for n in 0..1 + value % 600 {
                    let user = address_of(who);
                    // To users that are not there, and from a user to hosts that are not there.
                    if n % 2 == 0 {
                        let nobody = Ipv4Addr::from(0x0a2d_0000 | self.dice.bits() as u32 & 0xffff);
                        let known = nobody.octets()[3] < USERS as u8 + 1;
                        if !known {
                            self.comes(CORE, &ethernet(CORE, 0x0800, &ip(SERVER, nobody, 17, 60)));
                        }
                    } else if let Some(known) = self.known[who as usize] {
                        let nobody = Ipv4Addr::new(198, 51, 100, 10 + (self.dice.bits() % 200) as u8);
                        let packet = tunnelled(known.teid, &ip(user, nobody, 17, 60));
                        self.comes(ACCESS, &ethernet(ACCESS, 0x0800, &packet));
                    }
                }
            }
            Kind::Stall => {
                let path = self.path();
                path.now += Duration::from_nanos(1_000_000 + value % 3_000_000_000);
            }
            _ => {}
        }
    }

    fn datagram(&mut self, at: usize, octets: &[u8]) {
        let (now, mut out) = (self.path().now, Vec::new());
        self.control.receive(now, peer(at), octets, &mut out);
        // A bundle has a message for each twelve octets at most.
        if out.len() > 1 + octets.len() / 8 {
            self.violated(format!("{} messages answer {} octets", out.len(), octets.len()));
        }
    }

    /// What the packet path sent: packets of users in their order, and few of its own.
    fn look_at_sent(&mut self) {
        let sent = std::mem::take(&mut self.path().ports.sent);
        for (port, frame) in sent {
            let end = frame.len();
            let long = |at: usize| {
                frame
                    .get(at..at + 8)
                    .map_or(0, |b| u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
            };
            let first = if end >= 14 + 44 { long(end - 16) } else { 0 };
            if first >> 32 != u64::from(MARK) {
                self.own += 1;
                continue;
            }
            let (which, number) = (first as u32, long(end - 8));
            let (user, is_up) = ((which / 2) as usize, which % 2 == 1);
            if is_up != (port == CORE) {
                self.violated(format!("a packet of user {user} left at the wrong port"));
            }
            self.delivered += 1;
            let Some(counts) = self.flows.get_mut(user) else { continue };
            let counts = &mut counts[usize::from(is_up)];
            let last = std::mem::replace(&mut counts.1, number);
            if number <= last || number > counts.0 {
                self.violated(format!("packet {number} of user {user} was sent after packet {last}"));
            }
        }
    }

    fn check(&mut self) {
        let now = self.now();
        let (own, (then, before)) = (self.own, self.own_last);
        let span = now - then.max(1);
        if span > 1_000_000_000 {
            self.own_last = (now, own);
        }
        if own - before > OWN_BURST_MAX + OWN_RATE_MAX * span / 1_000_000_000 {
            self.violated(format!("{} frames of its own in {} ms", own - before, span / 1_000_000));
        }
        let ports = &mut self.path().ports;
        let (held, wrong) = (ports.held, std::mem::take(&mut ports.wrong));
        wrong.into_iter().for_each(|text| self.violated(text));
        if held > WAITING_MAX {
            self.violated(format!("{held} frames are held"));
        }
        let (sessions, used) = (self.control.sessions().len(), self.control.plane().capacity().used);
        if sessions != used {
            self.violated(format!("control has {sessions} sessions, and the packet path {used}"));
        }
        self.report.calls += 1;
    }
}

fn address_of(user: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, 1 + user as u8)
}

fn ethernet(port: usize, kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = OWN[port].to_vec();
    frame.extend(OTHERS);
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame
}

fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, len: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((len as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let mut sum: u32 = packet.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.resize(len, 0);
    if protocol == 17 && len >= 28 {
        packet[20..28].copy_from_slice(&[4, 0, 1, 187, ((len - 20) >> 8) as u8, (len - 20) as u8, 0, 0]);
    }
    packet
}

fn udp(from: Ipv4Addr, to: Ipv4Addr, port: u16, content: &[u8]) -> Vec<u8> {
    let mut packet = ip(from, to, 17, 28 + content.len());
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[28..].copy_from_slice(content);
    packet
}

fn tunnelled(teid: u32, inner: &[u8]) -> Vec<u8> {
    let container = Some((gtpu::Way::Up, 9));
    let mut message = vec![0; gtpu::header_len(true)];
    if gtpu::write_header(&mut message, teid, container, inner.len() as u16).is_err() {
        return Vec::new();
    }
    message.extend(inner);
    udp(STATION, N3, 2152, &message)
}
