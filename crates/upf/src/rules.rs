//! What a session management function wants for one PDU session, and who keeps it.
//!
//! Plain data in the terms of 3GPP TS 29.244, free of its encoding. Control checks what can be checked of a
//! session by itself (every rule that is named exists, identifiers occur once, filters fit the IP version)
//! before a [`Plane`] is told, so that a plane may rely on it; see [`Session::problem`].

use crate::filter::Filter;
use crate::kept_times::nanos;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weir_steer::TableState;
use weir_units::Duration;

/// The number of the user-plane function for a session (SEID).
pub type Seid = u64;
/// The number of a tunnel at the end that receives from it (TEID).
pub type Teid = u32;

/// Where packets come from or go to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Side {
    /// The base station, over GTP-U (N3).
    Access,
    /// The data network (N6), or in a tunnel another user-plane function (N9).
    Core,
    /// The data network beside it, at the port for local breakout.
    Local,
}

/// All rules of a PDU session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// Our number of it, never zero.
    pub seid: Seid,
    /// Packet detection rules, in the order in which they are asked: falling precedence (rising value), then
    /// rising number.
    pub pdrs: Vec<Pdr>,
    /// Forwarding action rules, by rising number.
    pub fars: Vec<Far>,
    /// QoS enforcement rules, by rising number.
    pub qers: Vec<Qer>,
    /// After this long without a packet the plane reports [`Event::Inactive`], once until packets come
    /// again.
    #[serde(with = "nanos")]
    pub inactivity: Option<Duration>,
    /// What is measured, by place: a usage reporting rule keeps its place as long as it is there.
    pub meters: Box<[Meter]>,
}

/// Most places for meters in a session.
pub const METERS_MAX: usize = 16;

/// Packets that are counted together for a usage reporting rule (URR). What is done with the counts is
/// control's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Meter {
    /// The rule; `None` for a place that nobody has now.
    pub urr: Option<u32>,
    /// Packets that matched one of these PDRs count when they are forwarded.
    pub pdrs: Box<[u16]>,
}

/// Bytes or packets of both directions together, and of each, as far as something is said of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Amounts {
    /// Of both.
    pub total: Option<u64>,
    /// From the user equipment.
    pub up: Option<u64>,
    /// To the user equipment.
    pub down: Option<u64>,
}

impl Amounts {
    /// Whether one of them is reached.
    pub fn are_reached(&self, done: PerDirection<u64>) -> bool {
        let reached = |most: Option<u64>, done: u64| most.is_some_and(|most| done >= most);
        reached(self.total, done.up + done.down) || reached(self.up, done.up) || reached(self.down, done.down)
    }

    /// Those that are reached when as much comes on top of what is done already.
    pub fn beyond(&self, done: PerDirection<u64>) -> Amounts {
        let after = |most: Option<u64>, done: u64| most.map(|most| most.saturating_add(done));
        Amounts {
            total: after(self.total, done.up + done.down),
            up: after(self.up, done.up),
            down: after(self.down, done.down),
        }
    }

    /// What is left of each after so much.
    pub fn without(&self, done: PerDirection<u64>) -> Amounts {
        let left = |most: Option<u64>, done: u64| most.map(|most| most.saturating_sub(done));
        Amounts {
            total: left(self.total, done.up + done.down),
            up: left(self.up, done.up),
            down: left(self.down, done.down),
        }
    }

    /// The smaller of each.
    pub fn least(&self, other: &Amounts) -> Amounts {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Amounts {
            total: least(self.total, other.total),
            up: least(self.up, other.up),
            down: least(self.down, other.down),
        }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Amounts::default()
    }
}

/// What a meter has counted since it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Its place.
    pub place: u8,
    /// IP packets that were forwarded.
    pub packets: PerDirection<u64>,
    /// Their bytes, by IP length without tunnel headers.
    pub bytes: PerDirection<u64>,
}

/// When a meter is to be told of, and when it lets nothing pass, in what it has counted since it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// Once these are reached, [`Event::Measured`] is told, once for these bounds.
    pub tell: Amounts,
    /// Its packets are discarded once these are reached.
    pub stop: Amounts,
    /// Whether its first packet is told.
    pub first: bool,
}

impl Session {
    /// The rule with a number.
    pub fn pdr(&self, id: u16) -> Option<&Pdr> {
        self.pdrs.iter().find(|rule| rule.id == id)
    }

    /// The rule with a number.
    pub fn far(&self, id: u32) -> Option<&Far> {
        self.fars.iter().find(|rule| rule.id == id)
    }

    /// The rule with a number.
    pub fn qer(&self, id: u32) -> Option<&Qer> {
        self.qers.iter().find(|rule| rule.id == id)
    }

    /// Whether anything names a QoS flow, as in 5G; else tunnels tell bearers apart, as in 4G.
    pub fn names_flows(&self) -> bool {
        self.qers.iter().any(|rule| rule.qfi.is_some()) || self.pdrs.iter().any(|rule| !rule.qfis.is_empty())
    }

    /// Brings the rules into their order.
    pub fn order(&mut self) {
        self.pdrs.sort_by_key(|rule| (rule.precedence, rule.id));
        self.fars.sort_by_key(|rule| rule.id);
        self.qers.sort_by_key(|rule| rule.id);
    }

    /// What is wrong with the rules as they stand: a number that occurs twice, a rule that names one that is
    /// not there.
    pub fn problem(&self) -> Result<(), Refusal> {
        let twice = |kind, id| Err(Refusal::rule(kind, id, "its number is there already"));
        for (at, rule) in self.pdrs.iter().enumerate() {
            let id = u32::from(rule.id);
            if self.pdrs[..at].iter().any(|other| other.id == rule.id) {
                return twice(RuleKind::Pdr, id);
            }
            if let Some(far) = rule.far.filter(|far| self.far(*far).is_none()) {
                return Err(Refusal::rule(RuleKind::Pdr, id, format!("there is no FAR {far}")));
            }
            if let Some(qer) = rule.qers.iter().find(|qer| self.qer(**qer).is_none()) {
                return Err(Refusal::rule(RuleKind::Pdr, id, format!("there is no QER {qer}")));
            }
        }
        if let Some(pair) = self.fars.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return twice(RuleKind::Far, pair[0].id);
        }
        if let Some(far) = self.fars.iter().find(|far| far.action == Action::Forward && far.forward.is_none())
        {
            return Err(Refusal::rule(RuleKind::Far, far.id, "it forwards, and does not say where"));
        }
        if let Some(pair) = self.qers.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return twice(RuleKind::Qer, pair[0].id);
        }
        Ok(())
    }
}

/// Packet detection rule: which packets, and what happens to them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pdr {
    /// Its number in the session.
    pub id: u16,
    /// The rule with the lowest value that matches wins.
    pub precedence: u32,
    /// Where the packets come from.
    pub from: Side,
    /// Our end of the tunnel that they come in: always there for packets from the access side, and for those
    /// from another user-plane function on the core side.
    pub tunnel: Option<LocalTunnel>,
    /// Address of the user equipment that they bear. Packets to it that come in no tunnel are found by it.
    pub ue: Option<UeAddress>,
    /// A packet must match one of these; all match if there are none.
    pub filters: Box<[Filter]>,
    /// A packet of a tunnel must bear one of these QoS flow identifiers; any will do if there are none.
    pub qfis: Box<[u8]>,
    /// What is taken off a matching packet.
    pub removal: Option<Removal>,
    /// Number of the FAR that says where packets go; `None` discards them.
    pub far: Option<u32>,
    /// Numbers of the QERs, each of which a packet must obey.
    pub qers: Box<[u32]>,
}

/// Our end of a tunnel (F-TEID). It has at least one address; the same number serves both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LocalTunnel {
    /// Its number, never zero.
    pub teid: Teid,
    /// Address for tunnels over IPv4.
    pub v4: Option<Ipv4Addr>,
    /// Address for tunnels over IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// An address of the user equipment in a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UeAddress {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 prefix.
    pub v6: Option<Ipv6Prefix>,
    /// Where a packet bears it.
    pub end: End,
}

/// The IPv6 prefix of the user equipment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Ipv6Prefix {
    /// An address of it.
    pub address: Ipv6Addr,
    /// How many bits count, usually 64.
    pub length: u8,
}

impl Ipv6Prefix {
    /// Whether an address has the first 64 bits in common with it: prefixes of user equipment have so many.
    pub fn covers(&self, first: Ipv6Addr) -> bool {
        (u128::from(self.address) ^ u128::from(first)) >> 64 == 0
    }
}

/// One of the two addresses of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Headers that are taken off (Outer Header Removal).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Removal {
    /// GTP-U, UDP and IPv4.
    GtpUdpIpv4,
    /// GTP-U, UDP and IPv6.
    GtpUdpIpv6,
    /// GTP-U, UDP and whichever IP there is.
    GtpUdpIp,
}

/// Forwarding action rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Far {
    /// Its number in the session.
    pub id: u32,
    /// What it does.
    pub action: Action,
    /// Where packets go: always there with [`Action::Forward`], and kept with the others for when it
    /// forwards again.
    pub forward: Option<Forward>,
}

impl Far {
    /// One that forwards.
    pub fn forwarding(id: u32, forward: Forward) -> Far {
        Far { id, action: Action::Forward, forward: Some(forward) }
    }

    /// Where packets go now, if they do.
    pub fn way(&self) -> Option<Forward> {
        self.forward.filter(|_| self.action == Action::Forward)
    }
}

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// It is discarded.
    Drop,
    /// It waits until the rule changes, within the plane's limits: with [`Action::Forward`] it goes on, with
    /// [`Action::Drop`] it is discarded.
    Buffer {
        /// Whether the first that waits is reported ([`Event::DownlinkData`]).
        tell: bool,
    },
    /// It goes on, as [`Far::forward`] says.
    Forward,
}

/// Where a packet goes, and in what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Forward {
    /// The side.
    pub to: Side,
    /// The tunnel that it enters (Outer Header Creation), with a PDU session container where a QER names a
    /// QFI.
    pub tunnel: Option<RemoteTunnel>,
    /// The traffic class octet of the outer header (Transport Level Marking): DSCP in the upper six bits.
    /// Without it that of the packet is copied. ECN is the plane's own.
    pub dscp: Option<u8>,
}

/// The other end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RemoteTunnel {
    /// Its number.
    pub teid: Teid,
    /// Its host.
    pub address: IpAddr,
    /// UDP port, usually 2152.
    pub port: u16,
}

/// QoS enforcement rule. A QER without a QFI that all PDRs of non-GBR flows name is the session's aggregate
/// (AMBR).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Qer {
    /// Its number in the session.
    pub id: u32,
    /// QERs of several sessions with the same number here are one aggregate (QER Correlation ID).
    pub correlation: Option<u32>,
    /// Whether packets pass.
    pub open: PerDirection<bool>,
    /// Highest rate in kbit/s (1000 bit/s).
    pub mbr: Option<PerDirection<u64>>,
    /// Guaranteed rate in kbit/s; a QER with one is a GBR flow's.
    pub gbr: Option<PerDirection<u64>>,
    /// The QoS flow, marked on packets that enter a tunnel; none in a 4G gateway.
    pub qfi: Option<u8>,
}

/// A value for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// From the user equipment.
    pub up: T,
    /// To the user equipment.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// That of one direction.
    #[inline]
    pub fn of(&mut self, is_up: bool) -> &mut T {
        if is_up { &mut self.up } else { &mut self.down }
    }
}

/// Why a plane refuses. It then is as it was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// A table is full.
    #[error("no room: {0}")]
    NoResources(String),
    /// A tunnel is another session's.
    #[error("the tunnel {0:#x} is another session's")]
    TunnelTaken(Teid),
    /// An address of user equipment is another session's: of IPv6 its prefix.
    #[error("{0} is the address of another session's user equipment")]
    AddressTaken(IpAddr),
    /// There is no such session (or there is one already, for one that is to be established).
    #[error("there is no session {0:#x}")]
    NoSession(Seid),
    /// A rule cannot be kept.
    #[error("{kind} {id}: {why}")]
    Rule {
        /// Which kind of rule.
        kind: RuleKind,
        /// Its number.
        id: u32,
        /// What is wrong.
        why: String,
    },
}

impl Refusal {
    /// A rule that cannot be kept.
    pub fn rule(kind: RuleKind, id: u32, why: impl Into<String>) -> Refusal {
        Refusal::Rule { kind, id, why: why.into() }
    }
}

/// A kind of rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuleKind {
    /// Packet detection rule.
    Pdr,
    /// Forwarding action rule.
    Far,
    /// QoS enforcement rule.
    Qer,
    /// Usage reporting rule.
    Urr,
}

impl std::fmt::Display for RuleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RuleKind::Pdr => "PDR",
            RuleKind::Far => "FAR",
            RuleKind::Qer => "QER",
            RuleKind::Urr => "URR",
        })
    }
}

/// What a session has done since it was established.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// IP packets that were forwarded.
    pub packets: PerDirection<u64>,
    /// Their bytes, by IP length without tunnel headers.
    pub bytes: PerDirection<u64>,
    /// IP packets that were discarded: by gates, algorithms, full buffers, or for want of a rule.
    pub dropped: PerDirection<u64>,
}

/// A queue of a session, for the live table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowUsage {
    /// The QoS flow; `None` is the aggregate of those without a guaranteed rate.
    pub qfi: Option<u8>,
    /// Where no QoS flow is named, as in 4G, the tunnel of the bearer: at the base station for packets to the
    /// user equipment, ours for those from it.
    pub bearer: Option<Teid>,
    /// Whether it is the queue of the uplink.
    pub is_uplink: bool,
    /// Whether it is the queue of the port for local breakout.
    pub is_local: bool,
    /// Name of the algorithm.
    pub aqm: String,
    /// Packets that left it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were discarded.
    pub dropped: u64,
    /// Packets that were marked.
    pub marked: u64,
    /// 95th percentile of the sojourn time since it was last asked for, where packets left it.
    pub sojourn_p95: Option<Duration>,
    /// Bytes and packets that wait.
    pub backlog: (u64, u32),
    /// The set point in force, where its algorithm has one.
    pub setpoint: Option<Duration>,
    /// State of the queue relative to the set point (AQM Steering, Table I), where a policy moves that.
    pub state: Option<TableState>,
}

/// What a plane tells without being asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The other end of a tunnel does not know it (GTP-U Error Indication).
    ErrorIndication {
        /// The session.
        seid: Seid,
        /// The tunnel, as the rules name it.
        tunnel: RemoteTunnel,
    },
    /// Nothing has passed for the time that was asked for.
    Inactive {
        /// The session.
        seid: Seid,
    },
    /// A packet waits under [`Action::Buffer`] with `tell`.
    DownlinkData {
        /// The session.
        seid: Seid,
        /// The rule that it matched.
        pdr: u16,
    },
    /// A meter has reached its [`Bounds`].
    Measured {
        /// The session.
        seid: Seid,
    },
}

/// How many sessions there are and can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// There are.
    pub used: usize,
    /// There can be.
    pub most: usize,
}

/// Who keeps the rules: the user plane as control sees it.
///
/// Each verb is done as a whole or refused without a trace. Rules hold from the return of a verb on, for
/// every packet that comes in afterwards; packets of other sessions are not touched.
pub trait Plane {
    /// Begins a session.
    fn establish(&mut self, session: Arc<Session>) -> Result<(), Refusal>;

    /// Puts `session` in the place of the session with its number. Queues of QoS flows that go on keep their
    /// packets and what their algorithms learnt. The tunnels of `ended` are told their end (End Marker,
    /// TS 29.281 7.3.2), behind what was sent into them before.
    /// Says what all meters of before had counted at that moment.
    fn modify(&mut self, session: Arc<Session>, ended: &[RemoteTunnel]) -> Result<Vec<Measured>, Refusal>;

    /// Ends a session, and says what it had done, and what its meters had counted.
    fn remove(&mut self, seid: Seid) -> Result<(Usage, Vec<Measured>), Refusal>;

    /// What the meters of a session have counted.
    fn measured(&mut self, seid: Seid) -> Vec<Measured>;

    /// Sets the bounds of a meter.
    fn bound(&mut self, seid: Seid, place: u8, bounds: Bounds);

    /// What a session has done.
    fn usage(&mut self, seid: Seid) -> Option<Usage>;

    /// The queues of a session.
    fn flows(&mut self, seid: Seid) -> Vec<FlowUsage>;

    /// [`Event::DownlinkData`] of a session did not reach session management: it is told again after a
    /// second, if packets still wait.
    fn untold(&mut self, seid: Seid);

    /// The oldest thing that was not told yet.
    fn event(&mut self) -> Option<Event>;

    /// How many sessions there are and can be.
    fn capacity(&self) -> Capacity;
}
