//! Session management, as far as tests, benchmarks and labs need it: rules to requests, and a socket that
//! asks.

pub mod wanted;

use crate::codec::{Codec, Pfcp};
use crate::control::PFCP_PORT;
use crate::message::{Element, FlowFilter, Message, NodeId, Tunnel, UserAddress, Value, ie, kind};
use crate::rules::{
    Action, Amounts, End, Far, Forward, LocalTunnel, Pdr, PerDirection, Qer, Removal, Seid, Session, Side,
    Teid,
};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket fails.
    #[error("PFCP from {own}: {error}. Remedy: {}", remedy(error))]
    Socket {
        /// Our address.
        own: IpAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// Nobody answers.
    #[error(
        "{server} does not answer PFCP to {own}. Remedy: start `weir upf` there with {own} among `n4.peers`, and let UDP pass"
    )]
    NoAnswer {
        /// Whom.
        server: SocketAddr,
        /// Our address.
        own: IpAddr,
    },
    /// The request was refused.
    #[error("the {} was refused: {}{}", kind::shown(*kind), cause.map_or("no cause is told".into(), crate::control::shown_cause), fault(*offending, *rule))]
    Refused {
        /// Its kind.
        kind: u8,
        /// The cause, if it was told one.
        cause: Option<u64>,
        /// The type of the element that is at fault.
        offending: Option<u16>,
        /// The rule that is at fault, as in [`Value::FailedRule`].
        rule: Option<(u8, u32)>,
    },
}

/// Whether nothing came for as long as was waited.
fn is_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// What helps against an error of the socket.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "another program has that port; end it, or speak from another address",
        ErrorKind::AddrNotAvailable => "give this machine that address, or speak from one that it has",
        _ => "look at the route to the user-plane function",
    }
}

/// What an answer says is at fault, behind its cause.
fn fault(offending: Option<u16>, rule: Option<(u8, u32)>) -> String {
    let rule = rule.map(|(kind, id)| match kind {
        0 => format!("PDR {id}"),
        1 => format!("FAR {id}"),
        2 => format!("QER {id}"),
        3 => format!("URR {id}"),
        kind => format!("rule {id} of kind {kind}"),
    });
    let at_fault: Vec<String> = offending.map(ie::shown).into_iter().chain(rule).collect();
    if at_fault.is_empty() { String::new() } else { format!(", at fault: {}", at_fault.join(", ")) }
}

/// A session that was established.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Established {
    /// Its number at the user-plane function.
    pub seid: Seid,
    /// The tunnels that were chosen there, by PDR.
    pub tunnels: Vec<(u16, LocalTunnel)>,
}

/// Session management on a socket. One request at a time; each is sent up to four times.
pub struct Client {
    socket: UdpSocket,
    own: IpAddr,
    server: SocketAddr,
    sequence: u32,
    /// When it started, as it says.
    recovery: u32,
    /// Requests of the other side, which were answered.
    pub asked: Vec<Message>,
}

const TRIES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(1);

impl Client {
    /// Speaks from the usual port of `own` with a user-plane function, whose requests come there.
    pub fn open(own: IpAddr, server: SocketAddr) -> Result<Client, Error> {
        Client::open_at(own, PFCP_PORT, server)
    }

    /// Only asks: from any port of `own`, so that another program may hear the requests of the other side.
    pub fn asking(own: IpAddr, server: SocketAddr) -> Result<Client, Error> {
        Client::open_at(own, 0, server)
    }

    fn open_at(own: IpAddr, port: u16, server: SocketAddr) -> Result<Client, Error> {
        let fail = |error| Error::Socket { own, error };
        let socket = UdpSocket::bind(SocketAddr::new(own, port)).map_err(fail)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        Ok(Client { socket, own, server, sequence: 0, recovery: 1, asked: Vec::new() })
    }

    /// Waits this long for each of the four times that a request is sent; a second by default.
    pub fn wait_at_most(&mut self, each: Duration) -> Result<(), Error> {
        let own = self.own;
        self.socket.set_read_timeout(Some(each)).map_err(|error| Error::Socket { own, error })
    }

    /// Says when session management started, in seconds of NTP, where it is associated already.
    pub fn started(&mut self, recovery: u32) {
        self.recovery = recovery;
    }

    /// When the other side says that it started, in seconds of NTP.
    pub fn heartbeat(&mut self) -> Result<Option<u32>, Error> {
        let own = vec![Element::number(ie::RECOVERY_TIME_STAMP, self.recovery)];
        let answer = self.ask(kind::HEARTBEAT_REQUEST, None, own)?;
        Ok(number(&answer, ie::RECOVERY_TIME_STAMP).map(|stamp| stamp as u32))
    }

    /// Associates; `recovery` is when session management started, in seconds of NTP.
    pub fn associate(&mut self, recovery: u32) -> Result<Message, Error> {
        self.recovery = recovery;
        let elements = vec![self.node(), Element::number(ie::RECOVERY_TIME_STAMP, recovery)];
        self.accepted(kind::ASSOCIATION_SETUP_REQUEST, None, elements)
    }

    /// Establishes a session under rules of which only tunnels are chosen at the other side.
    pub fn establish(&mut self, rules: &Session) -> Result<Established, Error> {
        self.establish_with(rules, true)
    }

    /// The same with the tunnels that the rules name.
    pub fn establish_as_given(&mut self, rules: &Session) -> Result<Established, Error> {
        self.establish_with(rules, false)
    }

    fn establish_with(&mut self, rules: &Session, chooses: bool) -> Result<Established, Error> {
        let mut elements = vec![self.node(), self.seid(rules.seid)];
        elements.extend(creates(rules, chooses));
        let answer = self.accepted(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements)?;
        let seid = answer.elements.iter().find_map(|element| match element.value {
            Value::Session { seid, .. } => Some(seid),
            _ => None,
        });
        let refused = refusal(answer.kind, &answer, None);
        Ok(Established { seid: seid.ok_or(refused)?, tunnels: created(&answer) })
    }

    /// Changes a session.
    pub fn modify(&mut self, seid: Seid, elements: Vec<Element>) -> Result<Message, Error> {
        self.accepted(kind::SESSION_MODIFICATION_REQUEST, Some(seid), elements)
    }

    /// Ends a session.
    pub fn delete(&mut self, seid: Seid) -> Result<Message, Error> {
        self.accepted(kind::SESSION_DELETION_REQUEST, Some(seid), Vec::new())
    }

    fn node(&self) -> Element {
        Element::new(ie::NODE_ID, Value::Node(NodeId::Address(self.own)))
    }

    fn seid(&self, seid: Seid) -> Element {
        let (v4, v6) = match self.own {
            IpAddr::V4(v4) => (Some(v4), None),
            IpAddr::V6(v6) => (None, Some(v6)),
        };
        Element::new(ie::F_SEID, Value::Session { seid, v4, v6 })
    }

    fn accepted(&mut self, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Result<Message, Error> {
        let answer = self.ask(kind, seid, elements)?;
        match number(&answer, ie::CAUSE) {
            Some(1) => Ok(answer),
            cause => Err(refusal(kind, &answer, cause)),
        }
    }

    /// Sends a request and waits for its answer, whatever it says.
    pub fn ask(&mut self, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Result<Message, Error> {
        let own = self.own;
        let fail = |error| Error::Socket { own, error };
        self.sequence += 1;
        let sequence = self.sequence;
        let mut octets = Vec::new();
        Pfcp.encode(&Message { kind, seid, sequence, elements }, &mut octets);
        for _ in 0..TRIES {
            self.socket.send_to(&octets, self.server).map_err(fail)?;
            while let Some(message) = self.hear()? {
                if message.sequence == sequence && message.kind == kind + 1 {
                    return Ok(message);
                }
            }
        }
        Err(Error::NoAnswer { server: self.server, own: self.own })
    }

    /// Waits for requests of the other side and answers them: heartbeats and reports. False if none came.
    pub fn listen(&mut self) -> Result<bool, Error> {
        let before = self.asked.len();
        Ok(self.hear()?.is_some() || self.asked.len() > before)
    }

    /// The next message that is not of another sender; requests of the other side are answered.
    fn hear(&mut self) -> Result<Option<Message>, Error> {
        let mut buffer = [0; 8192];
        let own = self.own;
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) if from.ip() == self.server.ip() => {
                let Ok(message) = Pfcp.decode(&buffer[..length]) else { return Ok(None) };
                self.answer(&message, from).map_err(|error| Error::Socket { own, error })?;
                Ok(Some(message))
            }
            Ok(_) => Ok(None),
            // A signal ends the wait, too; whoever waits looks whether it was meant for them.
            Err(error) if is_over(error.kind()) => Ok(None),
            Err(error) => Err(Error::Socket { own, error }),
        }
    }

    fn answer(&mut self, message: &Message, from: SocketAddr) -> std::io::Result<()> {
        let elements = match message.kind {
            kind::HEARTBEAT_REQUEST => vec![Element::number(ie::RECOVERY_TIME_STAMP, self.recovery)],
            kind::ASSOCIATION_SETUP_REQUEST => vec![
                self.node(),
                Element::number(ie::CAUSE, 1u32),
                Element::number(ie::RECOVERY_TIME_STAMP, self.recovery),
            ],
            kind::SESSION_REPORT_REQUEST => vec![Element::number(ie::CAUSE, 1u32)],
            kind::ASSOCIATION_UPDATE_REQUEST => vec![self.node(), Element::number(ie::CAUSE, 1u32)],
            _ => return Ok(()),
        };
        self.asked.push(message.clone());
        let seid = message.seid.map(|_| 0);
        let answer = Message { kind: message.kind + 1, seid, sequence: message.sequence, elements };
        let mut octets = Vec::new();
        Pfcp.encode(&answer, &mut octets);
        self.socket.send_to(&octets, from).map(drop)
    }
}

fn refusal(kind: u8, answer: &Message, cause: Option<u64>) -> Error {
    let rule = answer.elements.iter().find_map(|element| match element.value {
        Value::FailedRule { kind, id } => Some((kind, id)),
        _ => None,
    });
    let offending = number(answer, ie::OFFENDING_IE).map(|id| id as u16);
    Error::Refused { kind, cause, offending, rule }
}

fn number(message: &Message, id: u16) -> Option<u64> {
    message.elements.iter().find_map(|element| match element.value {
        Value::Number(number) if element.id == id => Some(number),
        _ => None,
    })
}

/// What was measured of a rule, as it was reported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageReport {
    /// The rule.
    pub urr: u32,
    /// Number of the report.
    pub number: u64,
    /// Why it was reported (Usage Report Trigger).
    pub trigger: u64,
    /// Bytes of IP packets.
    pub bytes: PerDirection<u64>,
    /// IP packets, where they were asked for.
    pub packets: PerDirection<u64>,
    /// Seconds, where time is measured.
    pub seconds: Option<u64>,
}

/// The usage that a message reports: a report, or the answer to a modification or a deletion.
pub fn usage_reports(message: &Message) -> Vec<UsageReport> {
    let ids = [ie::USAGE_REPORT, ie::MODIFICATION_USAGE_REPORT, ie::DELETION_USAGE_REPORT];
    let groups = message.elements.iter().filter(|element| ids.contains(&element.id));
    groups.filter_map(usage_report).collect()
}

fn usage_report(element: &Element) -> Option<UsageReport> {
    let Value::Group(elements) = &element.value else { return None };
    let both = |of: &Amounts| PerDirection { up: of.up.unwrap_or(0), down: of.down.unwrap_or(0) };
    let mut report = UsageReport::default();
    for element in elements {
        match (element.id, &element.value) {
            (ie::URR_ID, Value::Number(id)) => report.urr = *id as u32,
            (ie::UR_SEQN, Value::Number(number)) => report.number = *number,
            (ie::USAGE_REPORT_TRIGGER, Value::Number(trigger)) => report.trigger = *trigger,
            (ie::DURATION_MEASUREMENT, Value::Number(seconds)) => report.seconds = Some(*seconds),
            (ie::VOLUME_MEASUREMENT, Value::Volume(volume)) => {
                (report.bytes, report.packets) = (both(&volume.bytes), both(&volume.packets));
            }
            _ => {}
        }
    }
    Some(report)
}

/// The tunnels that an answer says were chosen, by PDR.
pub fn created(answer: &Message) -> Vec<(u16, LocalTunnel)> {
    let groups = answer.elements.iter().filter(|element| element.id == ie::CREATED_PDR);
    let one = |element: &Element| {
        let Value::Group(elements) = &element.value else { return None };
        let pdr = elements.iter().find_map(|element| match element.value {
            Value::Number(number) if element.id == ie::PDR_ID => Some(number as u16),
            _ => None,
        });
        let tunnel = elements.iter().find_map(|element| match element.value {
            Value::Tunnel(Tunnel::Given { teid, v4, v6 }) => Some(LocalTunnel { teid, v4, v6 }),
            _ => None,
        });
        Some((pdr?, tunnel?))
    };
    groups.filter_map(one).collect()
}

/// The usual rules of a session with one address and one tunnel: all packets of both directions under one
/// aggregate (AMBR, in kbit/s) and in one QoS flow.
pub fn usual(
    seid: Seid,
    user: Ipv4Addr,
    n3: Ipv4Addr,
    station: (IpAddr, Teid),
    ambr: PerDirection<u64>,
) -> Session {
    let open = PerDirection { up: true, down: true };
    let aggregate = Qer { id: 1, correlation: None, open, mbr: Some(ambr), gbr: None, qfi: None };
    let flow = Qer { id: 2, correlation: None, open, mbr: None, gbr: None, qfi: Some(9) };
    let ue = |end| Some(crate::rules::UeAddress { v4: Some(user), v6: None, end });
    let up = Pdr {
        id: 1,
        precedence: 100,
        from: Side::Access,
        tunnel: Some(LocalTunnel { teid: 1, v4: Some(n3), v6: None }),
        ue: ue(End::Source),
        filters: Box::default(),
        qfis: Box::default(),
        removal: Some(Removal::GtpUdpIpv4),
        far: Some(1),
        qers: [1, 2].into(),
    };
    let from = Side::Core;
    let down = Pdr {
        id: 2,
        from,
        tunnel: None,
        ue: ue(End::Destination),
        removal: None,
        far: Some(2),
        ..up.clone()
    };
    let (address, teid) = station;
    let tunnel = Some(crate::rules::RemoteTunnel { teid, address, port: crate::control::GTPU_PORT });
    let to = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    let fars = vec![to(1, Side::Core, None), to(2, Side::Access, tunnel)];
    Session {
        seid,
        pdrs: vec![up, down],
        fars,
        qers: vec![aggregate, flow],
        inactivity: None,
        meters: Box::default(),
    }
}

fn group(id: u16, elements: Vec<Element>) -> Element {
    Element::new(id, Value::Group(elements))
}

/// Elements that make the rules of a session. `chooses` lets the other side choose the tunnels, as it does
/// those whose address is unspecified; rules with the same number then share one. A meter becomes a URR that
/// measures bytes and time and reports when it is asked and when it ends.
pub fn creates(session: &Session, chooses: bool) -> Vec<Element> {
    let urrs_of = |pdr: u16| session.meters.iter().filter(move |meter| meter.pdrs.contains(&pdr));
    let pdrs = session.pdrs.iter().map(|rule| {
        let urrs = urrs_of(rule.id).filter_map(|meter| meter.urr).map(|urr| Element::number(ie::URR_ID, urr));
        group(ie::CREATE_PDR, pdr(rule, chooses).into_iter().chain(urrs).collect())
    });
    let urrs = session.meters.iter().filter_map(|meter| meter.urr).map(urr);
    let fars = session.fars.iter().map(|rule| group(ie::CREATE_FAR, far(rule)));
    let qers = session.qers.iter().map(|rule| group(ie::CREATE_QER, qer(rule)));
    let timer = session.inactivity.map(|wait| wait.as_nanos() / weir_units::NANOS_PER_SEC);
    pdrs.chain(fars)
        .chain(urrs)
        .chain(qers)
        .chain(timer.map(|s| Element::number(ie::INACTIVITY_TIMER, s)))
        .collect()
}

fn urr(id: u32) -> Element {
    /// Measurement Method: bytes and time. No trigger reports by itself.
    const METHOD: u32 = 3;
    let elements = vec![
        Element::number(ie::URR_ID, id),
        Element::number(ie::MEASUREMENT_METHOD, METHOD),
        Element::number(ie::REPORTING_TRIGGERS, 0u32),
    ];
    group(ie::CREATE_URR, elements)
}

fn interface(id: u16, side: Side) -> Element {
    Element::number(id, if side == Side::Access { 0u32 } else { 1 })
}

fn pdr(rule: &Pdr, chooses: bool) -> Vec<Element> {
    let mut pdi = vec![interface(ie::SOURCE_INTERFACE, rule.from)];
    pdi.extend(rule.tunnel.map(|tunnel| {
        let LocalTunnel { teid, v4, v6 } = tunnel;
        let chosen = Tunnel::Choose { v4: v4.is_some(), v6: v6.is_some(), id: Some(teid as u8) };
        let is_open = v4.is_some_and(|v4| v4.is_unspecified()) || v6.is_some_and(|v6| v6.is_unspecified());
        let chooses = chooses || is_open;
        Element::new(ie::F_TEID, Value::Tunnel(if chooses { chosen } else { Tunnel::Given { teid, v4, v6 } }))
    }));
    pdi.extend(rule.ue.map(|ue| {
        let v6 = ue.v6.map(|prefix| (prefix.address, prefix.length));
        let is_destination = ue.end == End::Destination;
        let address = UserAddress { v4: ue.v4, v6, is_destination, is_chosen: false };
        Element::new(ie::UE_IP_ADDRESS, Value::UserAddress(address))
    }));
    pdi.extend(rule.filters.iter().map(|filter| {
        let description = Some(filter.to_string());
        let (tos, spi, flow_label, id) = (filter.tos, filter.spi, filter.flow_label, filter.id);
        Element::new(ie::SDF_FILTER, Value::Flow(FlowFilter { description, tos, spi, flow_label, id }))
    }));
    pdi.extend(rule.qfis.iter().map(|qfi| Element::number(ie::QFI, *qfi)));
    let mut elements = vec![
        Element::number(ie::PDR_ID, rule.id),
        Element::number(ie::PRECEDENCE, rule.precedence),
        group(ie::PDI, pdi),
    ];
    elements.extend(rule.removal.map(|removal| {
        let number = match removal {
            Removal::GtpUdpIpv4 => 0u32,
            Removal::GtpUdpIpv6 => 1,
            Removal::GtpUdpIp => 6,
        };
        Element::number(ie::OUTER_HEADER_REMOVAL, number)
    }));
    elements.extend(rule.far.map(|far| Element::number(ie::FAR_ID, far)));
    elements.extend(rule.qers.iter().map(|qer| Element::number(ie::QER_ID, *qer)));
    elements
}

fn far(rule: &Far) -> Vec<Element> {
    let flags = match rule.action {
        Action::Drop => 1u32,
        Action::Forward => 2,
        Action::Buffer { tell } => {
            if tell {
                12
            } else {
                4
            }
        }
    };
    let mut elements = vec![Element::number(ie::FAR_ID, rule.id), Element::number(ie::APPLY_ACTION, flags)];
    elements.extend(rule.forward.map(|forward| group(ie::FORWARDING_PARAMETERS, parameters(forward))));
    elements
}

fn parameters(forward: Forward) -> Vec<Element> {
    let mut parameters = vec![interface(ie::DESTINATION_INTERFACE, forward.to)];
    parameters.extend(forward.tunnel.map(|tunnel| {
        let value = Value::OuterHeader { teid: tunnel.teid, address: tunnel.address };
        Element::new(ie::OUTER_HEADER_CREATION, value)
    }));
    let marking = forward.dscp.map(|dscp| u64::from(dscp) << 8 | 0xfc);
    parameters.extend(marking.map(|octets| Element::number(ie::TRANSPORT_LEVEL_MARKING, octets)));
    parameters
}

fn qer(rule: &Qer) -> Vec<Element> {
    let gates = u32::from(!rule.open.up) << 2 | u32::from(!rule.open.down);
    let mut elements = vec![Element::number(ie::QER_ID, rule.id), Element::number(ie::GATE_STATUS, gates)];
    elements.extend(rule.correlation.map(|id| Element::number(ie::QER_CORRELATION_ID, id)));
    let rates =
        |id, rates: PerDirection<u64>| Element::new(id, Value::Rates { up: rates.up, down: rates.down });
    elements.extend(rule.mbr.map(|mbr| rates(ie::MBR, mbr)));
    elements.extend(rule.gbr.map(|gbr| rates(ie::GBR, gbr)));
    elements.extend(rule.qfi.map(|qfi| Element::number(ie::QFI, qfi)));
    elements
}
