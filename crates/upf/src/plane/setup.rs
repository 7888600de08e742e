//! What a user plane is made with.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_aqm::Needs;
use weir_config::{AqmConfig, PolicyConfig};
use weir_sense::bottleneck::FollowLaw;
use weir_steer::Policy;
use weir_units::{Bytes, Duration, Rate};
use weir_wire::ethernet::MacAddr;

/// A port.
#[derive(Clone, Debug)]
pub struct PortSetup {
    /// Name of the interface.
    pub name: String,
    /// Our addresses, with the lengths of the prefixes on the link.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where packets go that are for nobody on the link: one for each family.
    pub gateways: Vec<IpAddr>,
    /// Neighbours that are not asked for.
    pub neighbours: Vec<(IpAddr, MacAddr)>,
    /// Rate of the link behind the port, where that is less than the port can send; IP bytes.
    pub rate: Option<Rate>,
}

/// How packets of a QoS flow wait.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The algorithm.
    pub aqm: AqmConfig,
    /// The policy that moves its set point, if any does.
    pub policy: Option<PolicyConfig>,
    /// Whether the rate follows what round-trip times tell of a bottleneck behind the base station.
    pub follow: bool,
    /// How long 95 % of the packets may wait, whatever the algorithm is content with: see [`DELAY_MAX`].
    pub bound: Option<Duration>,
}

/// What queues of a profile are held to, which changes while they are in use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeldTo {
    /// The policy that moves their set point, if one does.
    pub policy: Option<Policy>,
    /// The set point that somebody chose, of an algorithm that no policy moves.
    pub setpoint: Option<Duration>,
}

/// How long nearly all packets wait at most where nothing is said of how they wait; at rates at which a
/// packet takes longer than that, so long. Three milliseconds are left of fifteen for what cannot be
/// foreseen.
pub const DELAY_MAX: Duration = Duration::from_millis(12);

/// There is a shaper for so many bottlenecks that are learnt.
const LEARNERS_FOR_SHAPER: u32 = 16;

impl Profile {
    /// An algorithm of the list with its defaults, alone: it learns nothing from elsewhere, and what it lets
    /// wait waits.
    pub fn of(aqm: AqmConfig) -> Profile {
        Profile { aqm, policy: None, follow: false, bound: None }
    }

    /// Whether its algorithm is made of what round-trip times tell, so that it is told also where the rate
    /// does not follow.
    pub fn is_told(&self) -> bool {
        self.aqm.needs() == Needs::PassingPackets
    }

    /// The set point that gives way to that of the path where a bottleneck is followed: one that nobody
    /// chose, and that nothing moves.
    pub fn fits(&self) -> Option<Duration> {
        let is_chosen = self.policy.is_some() || self.is_told() || self.aqm.has_own_setpoint();
        if self.follow && !is_chosen { self.aqm.setpoint() } else { None }
    }

    /// Whether its algorithm, or what steers it, is to be asked of packets that need not wait.
    pub(super) fn is_asked(&self) -> bool {
        self.policy.is_some() || !weir_aqm::ignores_passing(&self.aqm.name)
    }

    /// What a QoS flow gets that nothing is said of. vAQM with dynamic bitrate adjustment: the rate is that
    /// of the rules, or what the bottleneck to the user delivers if that is less, so that the queue
    /// stands here, under CoDel. It learns all it needs.
    pub fn self_learning() -> Profile {
        let aqm = AqmConfig::new(weir_aqm::USUAL).expect("it is in the list");
        Profile { aqm, policy: None, follow: true, bound: Some(DELAY_MAX) }
    }
}

/// From whom packets in a session's tunnel are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sources {
    /// From anybody.
    Any,
    /// From base stations to which this or another session sends.
    Known,
    /// From those to which this session sends.
    Own,
}

/// What a user plane is to be.
#[derive(Clone, Debug)]
pub struct PlaneSetup {
    /// The port to base stations (N3).
    pub access: PortSetup,
    /// The port to the data network (N6).
    pub core: PortSetup,
    /// The port to the data network beside it, for local breakout.
    pub local: Option<PortSetup>,
    /// From whom packets in a session's tunnel are taken.
    pub sources: Sources,
    /// Networks of base stations from which they are as well.
    pub stations: Vec<(IpAddr, u8)>,
    /// Address of the control half, to which users may not send, as to those of the ports.
    pub control: Option<IpAddr>,
    /// Most sessions.
    pub sessions: u32,
    /// Most queues that are in use at once. One that was empty for [`PlaneSetup::idle`] may be given to
    /// another session.
    pub queues: u32,
    /// See [`PlaneSetup::queues`].
    pub idle: Duration,
    /// Most bottlenecks that are learnt at once: of the non-GBR flows of a session, and of each GBR flow.
    pub learners: u32,
    /// How the rate is found that follows one.
    pub follow_law: FollowLaw,
    /// Most packets that wait at once.
    pub packets: u32,
    /// Most packets that wait for user equipment that is idle: under rules that buffer.
    pub buffered: u32,
    /// How long they do at most.
    pub buffered_for: Duration,
    /// After which time it is told again that they wait.
    pub page_again: Duration,
    /// Room of a queue, as time at its rate, and at least so many bytes.
    pub buffer: (Duration, Bytes),
    /// How packets wait of which nothing else is said.
    pub profile: Profile,
    /// How those of QoS flows wait, by QFI.
    pub profiles: BTreeMap<u8, Profile>,
    /// How packets from and to the port for local breakout wait.
    pub local_profile: Option<Profile>,
    /// Time that was lost while the host did not run, which rates make up for.
    pub catch_up: Duration,
    /// Secret of the hashes.
    pub seed: u64,
}

impl PlaneSetup {
    /// A profile by its number: that of all others, those of QoS flows by rising QFI, that of local breakout.
    pub(super) fn profile_number(&self, number: u16) -> &Profile {
        let all = [&self.profile].into_iter().chain(self.profiles.values()).chain(&self.local_profile);
        all.into_iter().nth(usize::from(number)).expect("profiles are numbered by the same list")
    }

    /// Most queues at once that have a shaper for flows that do not respond: none where no algorithm has any
    /// shaped. An algorithm knows such flows by what is learnt, and few bottlenecks have any.
    pub(super) fn shapers(&self) -> usize {
        let all = [&self.profile].into_iter().chain(self.profiles.values()).chain(&self.local_profile);
        let is_wanted = all.into_iter().any(|profile| weir_aqm::shapes(&profile.aqm.name));
        if is_wanted { self.learners.min(self.queues).div_ceil(LEARNERS_FOR_SHAPER) as usize } else { 0 }
    }

    /// Between two ports with an address each and nothing else, for tests.
    #[cfg(test)]
    pub(crate) fn alone(access: std::net::Ipv4Addr, core: std::net::Ipv4Addr) -> PlaneSetup {
        let [access, core] = [access, core].map(|address| PortSetup {
            name: "port".into(),
            addresses: vec![(address.into(), 24)],
            gateways: vec![],
            neighbours: vec![],
            rate: None,
        });
        PlaneSetup::new(access, core, 7)
    }

    /// Limits for a machine of a middling size, and the self-learning queue for all.
    pub fn new(access: PortSetup, core: PortSetup, seed: u64) -> PlaneSetup {
        PlaneSetup {
            access,
            core,
            local: None,
            sources: Sources::Known,
            stations: Vec::new(),
            control: None,
            sessions: 100_000,
            queues: 8192,
            idle: Duration::from_secs(10),
            learners: 1024,
            follow_law: FollowLaw::default(),
            packets: 32_768,
            buffered: 32_768 / 4,
            buffered_for: Duration::from_secs(30),
            page_again: Duration::from_secs(10),
            buffer: (Duration::from_millis(250), Bytes::new(64 << 10)),
            profile: Profile::self_learning(),
            profiles: BTreeMap::new(),
            local_profile: None,
            catch_up: Duration::from_millis(5),
            seed,
        }
    }
}
