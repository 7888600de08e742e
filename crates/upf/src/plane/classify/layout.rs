//! The rules of a session as the packet path takes them.

use crate::plane::classify::lookup::Filters;
use crate::rules::{End, UeAddress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_units::{Duration, Rate};
use weir_wire::tunnel::Encapsulation;

/// Most rates that one queue obeys.
pub const LIMITS_MAX: usize = 4;
/// A place that nobody has, as sessions have fewer: who looks there finds nothing.
pub const NO_PLACE: u8 = u8::MAX;

/// Numbers of the ports.
pub const ACCESS: usize = 0;
/// See [`ACCESS`].
pub const CORE: usize = 1;
/// See [`ACCESS`].
pub const LOCAL: usize = 2;

/// What a matching packet meets.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Number of the PDR.
    pub id: u16,
    /// The tunnel that it must come in, among those of the session.
    pub teid: Option<u8>,
    /// QoS flows that it may be of, as bits.
    pub qfis: u64,
    /// The address that it must bear, among those of the session.
    pub ue: Option<u8>,
    /// Place of what is done; that of nobody where no rule says.
    pub act: u8,
    /// Where it waits.
    pub queue: u8,
    /// Whether all gates are open.
    pub is_open: bool,
    /// The QoS flow that it is marked with.
    pub qfi: Option<u8>,
    /// The meters that count it, as bits.
    pub meters: u16,
    /// What becomes of packets that need not wait.
    pub express: FastPath,
}

/// Whether packets that need not wait can go their way without more ado.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastPath {
    /// A meter or an algorithm is to be asked, or they are not forwarded.
    Never,
    /// Nobody notices.
    Always,
    /// A bottleneck behind the base station is learnt from them.
    Learning,
}

/// Rules for packets one way.
#[derive(Default)]
pub struct Rules {
    /// Their filters.
    pub filters: Filters,
    /// The rules.
    pub rules: Box<[Rule]>,
}

/// What is done with packets. Each packet asks, so that it is not hidden in a byte of something else.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum What {
    /// They are discarded.
    Drop,
    /// They wait.
    Buffer {
        /// Whether that is told.
        tell: bool,
    },
    /// They go out of a port.
    Plain(usize),
    /// They go into a tunnel to the base station.
    Tunnel(Encapsulation),
    /// They go into a tunnel to another user-plane function (N9), which is reached by the same port.
    Onward(Encapsulation),
}

impl What {
    /// Whether they wait for other rules.
    #[inline]
    pub fn keeps(&self) -> bool {
        matches!(self, What::Buffer { .. })
    }

    /// The tunnel that they go into.
    pub fn tunnel(&self) -> Option<&Encapsulation> {
        match self {
            What::Tunnel(outer) | What::Onward(outer) => Some(outer),
            What::Drop | What::Buffer { .. } | What::Plain(_) => None,
        }
    }
}

/// A FAR in its place.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    /// How often the place was given to another: packets of the former do not go the way of the latter.
    pub generation: u8,
    /// What is done.
    pub what: What,
}

impl Act {
    /// The port that packets go out of, if they do.
    #[inline]
    pub fn port(&self) -> Option<usize> {
        match self.what {
            What::Plain(port) => Some(port),
            What::Tunnel(_) | What::Onward(_) => Some(ACCESS),
            What::Drop | What::Buffer { .. } => None,
        }
    }
}

/// A queue in its place.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlan {
    /// Whether packets come from the user equipment.
    pub is_up: bool,
    /// Whether they come from or go to the port for local breakout.
    pub is_local: bool,
    /// Its QoS flow; `None` for the aggregate.
    pub qfi: Option<u8>,
    /// Number of the profile.
    pub profile: u16,
    /// Places of the rates that it obeys, up to the first [`NO_PLACE`].
    pub limits: [u8; LIMITS_MAX],
    /// The least of them; zero for none.
    pub rate: Rate,
    /// Its guaranteed rate; zero for none.
    pub gbr: Rate,
    /// The bottleneck behind the base station, among those of the session, that its packets pass.
    pub path: u8,
    /// Whether that bottleneck is learnt from its packets.
    pub learns: bool,
    /// Whether its rate follows that bottleneck.
    pub follows: bool,
    /// Whether its algorithm is asked of packets that need not wait.
    pub is_asked: bool,
    /// Whether it was there before, in this place.
    pub is_kept: bool,
}

impl QueuePlan {
    /// Whether packets that need not wait are something to it, so that it must be there for them.
    #[inline]
    pub fn notices(&self) -> bool {
        self.is_asked || self.learns || self.gbr > Rate::ZERO
    }
}

/// A rate in its place.
#[derive(Clone, Copy, Debug)]
pub struct LimitPlan {
    /// The rate.
    pub rate: Rate,
    /// Whether it was there before, in this place.
    pub is_kept: bool,
}

/// A session as the packet path takes it.
pub struct Program {
    /// Our number of it.
    pub seid: u64,
    /// Packets from the user equipment.
    pub up: Rules,
    /// Packets to it.
    pub down: Rules,
    /// Where they go.
    pub acts: Box<[Act]>,
    /// Where they wait.
    pub queues: Box<[QueuePlan]>,
    /// What they obey.
    pub limits: Box<[LimitPlan]>,
    /// Our ends of tunnels.
    pub teids: Box<[u32]>,
    /// Addresses that rules ask for.
    pub ues: Box<[UeAddress]>,
    /// Keys of the user equipment's addresses.
    pub users: Box<[User]>,
    /// Whether packets may wait for the rules to change, to the user equipment and from it.
    pub buffers: [bool; 2],
    /// After how long without packets that is told.
    pub inactivity: Option<Duration>,
}

/// An address by which sessions are found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum User {
    /// IPv4.
    V4(u32),
    /// The first 64 bits of IPv6.
    V6(u64),
}

impl User {
    /// The address; of IPv6 the first of the prefix.
    pub fn address(self) -> IpAddr {
        match self {
            User::V4(address) => Ipv4Addr::from(address).into(),
            User::V6(prefix) => Ipv6Addr::from(u128::from(prefix) << 64).into(),
        }
    }
}

impl Program {
    /// Whether a packet that bears these addresses is of the user equipment of the rule.
    #[inline]
    pub fn is_of_user(&self, rule: &Rule, is_v6: bool, source: u128, destination: u128) -> bool {
        let Some(ue) = rule.ue.map(|at| &self.ues[usize::from(at)]) else { return true };
        let address = if ue.end == End::Source { source } else { destination };
        if is_v6 {
            ue.v6.is_some_and(|prefix| (u128::from(prefix.address) ^ address) >> 64 == 0)
        } else {
            ue.v4.is_some_and(|own| u128::from(u32::from(own)) == address)
        }
    }

    /// Whether packets to the user equipment come in a tunnel, from another user-plane function (N9).
    pub fn is_from_core(&self, teid: u32) -> bool {
        let mut tunnels = self.down.rules.iter().filter_map(|rule| self.teids.get(usize::from(rule.teid?)));
        tunnels.any(|own| *own == teid)
    }

    /// The tunnel whose packets wait in a queue, where no QoS flow is named.
    pub fn bearer_of(&self, queue: usize) -> Option<u32> {
        let plan = self.queues.get(queue)?;
        let rules = if plan.is_up { &self.up.rules } else { &self.down.rules };
        let is_flow = |rule: &Rule| rule.qfi.is_some() || rule.qfis != u64::MAX;
        if self.up.rules.iter().chain(&self.down.rules).any(is_flow) {
            return None;
        }
        let rule = rules.iter().find(|rule| usize::from(rule.queue) == queue)?;
        match self.acts.get(usize::from(rule.act)).map(|act| &act.what) {
            _ if plan.is_up => self.teids.get(usize::from(rule.teid?)).copied(),
            Some(what) => what.tunnel().map(Encapsulation::teid),
            None => None,
        }
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let of = |rules: &Rules| rules.filters.bytes() + size_of_val(&*rules.rules);
        let lists = size_of_val(&*self.acts) + size_of_val(&*self.queues) + size_of_val(&*self.limits);
        let keys = size_of_val(&*self.teids) + size_of_val(&*self.users) + size_of_val(&*self.ues);
        size_of::<Program>() + of(&self.up) + of(&self.down) + lists + keys
    }
}
