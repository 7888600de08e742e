//! What a session management function asks for, over PFCP (TS 29.244), and what it is told.
//!
//! A step machine: datagrams go in with their time, datagrams come out; sockets are `server`'s. Each request
//! is done as a whole or refused with its cause, and nothing of it is accepted in silence.

mod answers;
mod cause;
mod counts;
mod draft;
mod ie_reader;
mod nodes;
mod peers;
mod reports;
mod requests;
mod saved;
mod sessions;
mod sides;
mod translate;
mod tunnels;
mod usage;
mod work;

pub use cause::{Cause, Refused, shown as shown_cause};
pub use counts::Counts;
pub use nodes::is_earlier;
pub use peers::{Association, Peer};
pub use saved::{Saved, SavedPeer, SavedSession};
pub use sessions::{SessionEntry, Sessions};
pub use translate::GTPU_PORT;

use crate::codec::{Codec, Flaw, Malformed};
use crate::message::{Element, Message, NodeId, Value, ie, kind};
use crate::rules::{Plane, RemoteTunnel, Seid};
use answers::Answers;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use requests::Requests;
use sides::Sides;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use tunnels::Tunnels;
use weir_config::{N4, UpfConfig};
use weir_units::Time;

/// A datagram that is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// To whom.
    pub to: SocketAddr,
    /// What.
    pub datagram: Vec<u8>,
}

/// UDP port of PFCP.
pub const PFCP_PORT: u16 = 8805;
/// Most lines that wait to be told.
const TOLD_MAX: usize = 256;

/// The control half of a user-plane function.
pub struct Control<P, C> {
    plane: P,
    codec: C,
    sides: Sides,
    sessions: Sessions,
    tunnels: Tunnels,
    peers: Vec<Peer>,
    /// Of each peer, so that one that asks much evicts nothing of others.
    answers: Vec<Answers>,
    requests: Requests,
    settings: N4,
    /// When this function started, in seconds of NTP.
    recovery: u32,
    counts: Counts,
    told: VecDeque<String>,
    /// Sessions that changed since they were last kept, where they are kept.
    changed: Option<BTreeSet<Seid>>,
    peers_changed: bool,
    /// When peers are next asked for an association.
    setup_due: Time,
    /// When usage of which session is looked at.
    usage_due: BTreeSet<(Time, Seid)>,
    /// When an error indication of which tunnel was last reported.
    indicated: HashMap<(Seid, RemoteTunnel), Time>,
}

/// Numbers of a seed, for tests and measurements: they can be guessed.
pub fn numbers_of_seed(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Most octets of answers that are kept, of all peers together.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Octets that came from a peer, which may be a message.
struct Came<'a> {
    now: Time,
    /// Number of the peer in the configuration.
    at: usize,
    from: SocketAddr,
    octets: &'a [u8],
}

/// An answer in the making.
struct Answer {
    kind: u8,
    seid: Option<u64>,
    elements: Vec<Element>,
}

impl<P: Plane, C: Codec> Control<P, C> {
    /// A function that started at `recovery`, in seconds of NTP (TS 29.244 section 8.2.65). Of `numbers` are
    /// those of sessions, tunnels and requests: whoever guesses one could end a session or send in its name.
    pub fn new(config: &UpfConfig, recovery: u32, plane: P, codec: C, mut numbers: StdRng) -> Control<P, C> {
        let settings = config.n4.clone();
        let most = (config.limits.sessions as usize).min(plane.capacity().most);
        let share = |all: usize| (all / settings.peers.len().max(1)).max(1);
        Control {
            plane,
            codec,
            sides: Sides::new(config),
            sessions: Sessions::new(most, StdRng::from_rng(&mut numbers)),
            tunnels: Tunnels::new(StdRng::from_rng(&mut numbers)),
            peers: settings.peers.iter().map(|address| Peer::new(*address)).collect(),
            answers: settings
                .peers
                .iter()
                .map(|_| Answers::new(share(settings.answers as usize), share(ANSWER_BYTES_MAX)))
                .collect(),
            requests: Requests::new(settings.again, settings.tries, numbers.next_u32()),
            settings,
            recovery,
            counts: Counts::default(),
            told: VecDeque::new(),
            changed: None,
            peers_changed: false,
            setup_due: Time::ZERO,
            usage_due: BTreeSet::new(),
            indicated: HashMap::new(),
        }
    }

    /// Takes a datagram, which may be anything, and adds what is to be sent for it.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8], out: &mut Vec<Outgoing>) {
        self.counts.received += 1;
        let Some(at) = self.peers.iter().position(|peer| peer.address == from.ip()) else {
            self.counts.strangers += 1;
            return;
        };
        let mut rest = datagram;
        // Each message of a bundle counts, so that there is an end to what is done for a datagram.
        loop {
            let (octets, behind) = self.codec.split(rest);
            if !self.peers[at].may_ask(now, u64::from(self.settings.rate_max), octets.len()) {
                self.counts.over_rate += 1;
                return;
            }
            self.receive_one(Came { now, at, from, octets }, out);
            if behind.is_empty() {
                return;
            }
            rest = behind;
        }
    }

    /// Takes what may be a message. What is wrong with one is handled as TS 29.244 section 7.6 says.
    fn receive_one(&mut self, came: Came, out: &mut Vec<Outgoing>) {
        let error = match self.codec.decode(came.octets) {
            Ok(message) => return self.take(came, &message, None, out),
            Err(error) => error,
        };
        self.counts.malformed += 1;
        match error {
            // Who answers that there is no such version gets no such answer.
            Malformed::Version { kind: kind::VERSION_NOT_SUPPORTED, .. } | Malformed::Short => {}
            Malformed::Version { sequence, .. } => {
                let kind = kind::VERSION_NOT_SUPPORTED;
                self.send(came.from, &Message { kind, seid: None, sequence, elements: Vec::new() }, out);
            }
            // It is not understood, and what it answers is not sent again.
            Malformed::Broken { message, .. } if is_answer(message.kind) => {
                self.requests.answered(message.sequence, came.from);
            }
            Malformed::Broken { message, flaw } => self.take(came, &message, Some(flaw), out),
        }
    }

    /// Takes a message; of one with a flaw nothing is done, and it is refused if it is a request.
    fn take(&mut self, came: Came, message: &Message, flaw: Option<Flaw>, out: &mut Vec<Outgoing>) {
        let Came { now, at, from, octets } = came;
        let peer = self.peer_of(at, message);
        if let Some(association) = &mut self.peers[peer].association {
            association.heard = now;
        }
        if is_answer(message.kind) {
            return self.answered(now, from, message);
        }
        let key = Answers::key(from, message.sequence, octets);
        if let Some(answer) = self.answers[at].find(&key) {
            self.counts.repeated += 1;
            out.push(Outgoing { to: from, datagram: answer.to_vec() });
            return;
        }
        self.counts.ignored += unknown(&message.elements);
        self.counts.reused += u64::from(self.answers[at].is_reused(&key));
        let Some(answer) = self.work(now, peer, message, flaw) else { return };
        let Answer { kind, seid, elements } = answer;
        self.send(from, &Message { kind, seid, sequence: message.sequence, elements }, out);
        if let Some(sent) = out.last() {
            self.answers[at].keep(now, key, &sent.datagram);
        }
    }

    fn send(&self, to: SocketAddr, message: &Message, out: &mut Vec<Outgoing>) {
        let mut datagram = Vec::with_capacity(128);
        self.codec.encode(message, &mut datagram);
        out.push(Outgoing { to, datagram });
    }

    /// Our own Node ID.
    fn node(&self) -> NodeId {
        NodeId::Address(self.settings.address)
    }

    fn tell(&mut self, line: String) {
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(line);
    }

    /// What there is to say since it was last asked, in words.
    pub fn told(&mut self) -> Vec<String> {
        self.told.drain(..).collect()
    }

    /// What was received, done and refused.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// All peers.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// How many tunnels end here.
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Answers that are kept for requests that come again.
    pub fn answers(&self) -> usize {
        self.answers.iter().map(Answers::len).sum()
    }

    /// Requests of ours without an answer.
    pub fn unanswered(&self) -> usize {
        self.requests.len()
    }

    /// When it started, in seconds of NTP.
    pub fn recovery(&self) -> u32 {
        self.recovery
    }

    /// It counts as started then: what peers know of before is lost.
    pub fn set_recovery(&mut self, recovery: u32) {
        self.recovery = recovery;
    }

    /// Who keeps the rules.
    pub fn plane(&mut self) -> &mut P {
        &mut self.plane
    }
}

/// Elements that are not known here, also within others.
fn unknown(elements: &[Element]) -> u64 {
    let of = |element: &Element| match &element.value {
        Value::Group(within) => unknown(within),
        _ => u64::from(!ie::is_known(element.id)),
    };
    elements.iter().map(of).sum()
}

/// Whether a message answers a request: the others are requests, or nothing that is known.
fn is_answer(number: u8) -> bool {
    matches!(
        number,
        kind::HEARTBEAT_RESPONSE
            | kind::ASSOCIATION_SETUP_RESPONSE
            | kind::ASSOCIATION_UPDATE_RESPONSE
            | kind::ASSOCIATION_RELEASE_RESPONSE
            | kind::VERSION_NOT_SUPPORTED
            | kind::SESSION_ESTABLISHMENT_RESPONSE
            | kind::SESSION_MODIFICATION_RESPONSE
            | kind::SESSION_DELETION_RESPONSE
            | kind::SESSION_REPORT_RESPONSE
    )
}

#[cfg(test)]
mod tests;
