//! Associations and heartbeats.

use super::cause::{Cause, Refused};
use super::ie_reader::{IeReader, incorrect};
use super::requests::About;
use super::{Answer, Control, Outgoing, PFCP_PORT};
use crate::codec::Codec;
use crate::message::{Element, Message, NodeId, Value, ie, kind};
use crate::rules::Plane;
use std::net::{IpAddr, SocketAddr};
use weir_units::{Duration, Time};

use super::peers::{Association, Peer};

/// Functions of ours (TS 29.244 section 8.2.25): allocation of tunnels (FTUP), end markers (EMPU), packets
/// measured with bytes (MNOP), and messages in bundles (BUNDL).
const FEATURES: u64 = 0x50_0110;
/// PFCPASRsp-Flags: the sessions of the time before are kept (PSREI).
const SESSIONS_KEPT: u64 = 1;

/// A peer is asked at most so often whether it has started again.
const DOUBT_EVERY: Duration = Duration::from_secs(1);

/// Whether a time of start is before another. Seconds of NTP wrap in 2036.
pub fn is_earlier(time: u32, other: u32) -> bool {
    (time.wrapping_sub(other) as i32) < 0
}

impl<P: Plane, C: Codec> Control<P, C> {
    /// A heartbeat. One without a time of start means nothing and has no cause to be refused with.
    pub(super) fn heartbeat(&mut self, now: Time, at: usize, message: &Message) -> Option<Answer> {
        let Ok(recovery) = IeReader::new(&message.elements).need_number(ie::RECOVERY_TIME_STAMP) else {
            self.counts.malformed += 1;
            return None;
        };
        self.said_start(now, at, recovery as u32);
        let elements = vec![Element::number(ie::RECOVERY_TIME_STAMP, self.recovery)];
        Some(Answer { kind: kind::HEARTBEAT_RESPONSE, seid: None, elements })
    }

    /// Notes when a peer says that it started. A request may be old, repeated or forged: before sessions end
    /// for it the peer is asked, and what it answers counts. An earlier start than the known one is not
    /// believed (TS 23.007 section 19A), but asked for as well: the peer may have no clock that goes on.
    fn said_start(&mut self, now: Time, at: usize, recovery: u32) {
        let Some(association) = &mut self.peers[at].association else { return };
        if association.recovery == recovery {
            return;
        }
        self.counts.stale += u64::from(is_earlier(recovery, association.recovery));
        if association.doubted.is_none_or(|last| now.since(last) >= DOUBT_EVERY) {
            association.doubted = Some(now);
            association.beat_due = now;
        }
    }

    /// Takes what a peer answers to a heartbeat of ours: one that has started again knows nothing of its
    /// sessions.
    pub(super) fn confirmed_start(&mut self, at: usize, recovery: u32) {
        let known = self.peers[at].association.as_ref().map(|association| association.recovery);
        if let Some(association) = &mut self.peers[at].association {
            association.restored = false;
        }
        if known.is_some_and(|known| known != recovery) {
            self.drop_association(at, "has started again");
        }
    }

    /// Whether a request for an association is older than the association that there is: it gets no answer.
    pub(super) fn is_stale(&mut self, now: Time, at: usize, message: &Message) -> bool {
        let Ok(recovery) = IeReader::new(&message.elements).need_number(ie::RECOVERY_TIME_STAMP) else {
            return false;
        };
        let known = self.peers[at].association.as_ref();
        let is_stale = known.is_some_and(|known| is_earlier(recovery as u32, known.recovery));
        if is_stale {
            self.said_start(now, at, recovery as u32);
        }
        is_stale
    }

    /// Ends an association with its sessions.
    pub(super) fn drop_association(&mut self, at: usize, why: &str) {
        let address = self.peers[at].address;
        self.peers[at].association = None;
        self.peers_changed = true;
        self.requests.forget(address);
        let count = self.drop_sessions(at);
        self.tell(format!("{address} {why}: its association ends, with {count} sessions"));
    }

    fn drop_sessions(&mut self, at: usize) -> usize {
        let of_peer = self.sessions.of_peer(at as u16);
        of_peer.iter().for_each(|seid| drop(self.end_session(*seid)));
        of_peer.len()
    }

    /// A request for an association, or for another in the place of the one there is.
    pub(super) fn associate(
        &mut self,
        now: Time,
        at: usize,
        message: &Message,
    ) -> Result<Vec<Element>, Refused> {
        let mut bag = IeReader::new(&message.elements);
        let node = node_id(&mut bag)?;
        let recovery = bag.need_number(ie::RECOVERY_TIME_STAMP)? as u32;
        let retains = bag.take(ie::SESSION_RETENTION)?.is_some();
        bag.inform(&[ie::CP_FUNCTION_FEATURES])?;
        bag.finish()?;
        // Who asks anew after a restart of ours that it was not to notice has noticed, and given its sessions
        // up.
        let is_same = |known: &Association| known.recovery == recovery && !known.restored;
        let same = self.peers[at].association.as_ref().is_some_and(is_same);
        if !(same || retains) {
            let ended = self.drop_sessions(at);
            if ended > 0 {
                let address = self.peers[at].address;
                self.tell(format!("{address} has started again: {ended} sessions end"));
            }
        }
        self.begin_association(now, at, node, recovery);
        let (address, kept) = (self.peers[at].address, self.sessions.of_peer(at as u16).len());
        self.tell(format!("{address} is associated, with {kept} sessions of before"));
        let mut elements = self.says_who(Cause::Accepted);
        elements.push(Element::number(ie::RECOVERY_TIME_STAMP, self.recovery));
        elements.push(Element::number(ie::UP_FUNCTION_FEATURES, FEATURES));
        if retains {
            elements.push(Element::number(ie::PFCPAS_RSP_FLAGS, SESSIONS_KEPT));
        }
        Ok(elements)
    }

    /// Asks peers that are not associated for an association, where that is configured (TS 29.244 section
    /// 6.2.6.3).
    pub(super) fn initiate(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if !self.settings.initiate || now < self.setup_due {
            return;
        }
        self.setup_due = now + self.settings.heartbeat;
        let alone = |at: &usize| self.peers[*at].association.is_none() && self.holder(*at).is_none();
        for at in (0..self.peers.len()).filter(alone).collect::<Vec<_>>() {
            let elements = vec![
                Element::new(ie::NODE_ID, Value::Node(self.node())),
                Element::number(ie::RECOVERY_TIME_STAMP, self.recovery),
                Element::number(ie::UP_FUNCTION_FEATURES, FEATURES),
            ];
            let to = reached_at(self.peers[at].address);
            self.ask(now, to, kind::ASSOCIATION_SETUP_REQUEST, None, elements, About::Setup, out);
        }
    }

    /// Takes what a peer answers to that. One that has asked meanwhile is associated already.
    pub(super) fn associated(&mut self, now: Time, at: usize, message: &Message) {
        let mut bag = IeReader::new(&message.elements);
        let mut read = || -> Result<_, Refused> {
            let (node, cause) = (node_id(&mut bag)?, bag.need_number(ie::CAUSE)?);
            Ok((node, cause, bag.number(ie::RECOVERY_TIME_STAMP)?))
        };
        let address = self.peers[at].address;
        match read() {
            Ok((node, cause, Some(recovery))) if cause == Cause::Accepted as u64 => {
                if self.peers[at].association.is_none() {
                    self.begin_association(now, at, node, recovery as u32);
                    self.tell(format!("{address} is associated, as it was asked"));
                }
            }
            Ok((_, cause, _)) => {
                self.tell(format!("{address} wants no association: {}", super::shown_cause(cause)))
            }
            Err(refused) => self.tell(format!("{address} answers to no association: {}", refused.why)),
        }
    }

    fn begin_association(&mut self, now: Time, at: usize, node: NodeId, recovery: u32) {
        let beat_due = now + self.settings.heartbeat;
        self.peers[at].association =
            Some(Association { node, recovery, heard: now, beat_due, restored: false, doubted: None });
        self.peers_changed = true;
    }

    /// The peer in whose association an address takes part that has none of its own.
    pub(super) fn holder(&self, at: usize) -> Option<usize> {
        let holder = self.peers[at].holder?;
        (self.peers[at].association.is_none() && self.peers[holder].association.is_some()).then_some(holder)
    }

    /// Whose a request is. One about a session, from an address without an association, that names the node
    /// of another address's association, or a session whose reports go to it, is of that one (TS 29.244
    /// section 5.8.1 knows nodes by their Node ID). About associations each address speaks for itself alone.
    pub(super) fn peer_of(&mut self, at: usize, message: &Message) -> usize {
        let is_of_session = message.kind >= kind::SESSION_ESTABLISHMENT_REQUEST;
        if !self.settings.aliases || !is_of_session || self.peers[at].association.is_some() {
            return at;
        }
        if let Some(holder) = self.holder(at) {
            return holder;
        }
        let node = message.elements.iter().find_map(|element| match &element.value {
            Value::Node(node) if element.id == ie::NODE_ID => Some(node),
            _ => None,
        });
        let is_node =
            |peer: &Peer| node.is_some() && peer.association.as_ref().map(|known| &known.node) == node;
        let by_node = self.peers.iter().position(is_node);
        let address = self.peers[at].address;
        let by_session = || {
            let entry = self.sessions.get(message.seid.filter(|seid| *seid != 0)?)?;
            (entry.cp_address == address).then_some(usize::from(entry.peer))
        };
        let holder = by_node.or_else(by_session);
        self.peers[at].holder = holder;
        holder.unwrap_or(at)
    }

    /// News of an association.
    pub(super) fn update(&mut self, at: usize, message: &Message) -> Result<Vec<Element>, Refused> {
        self.needs_association(at)?;
        let mut bag = IeReader::new(&message.elements);
        node_id(&mut bag)?;
        bag.inform(&[ie::CP_FUNCTION_FEATURES])?;
        bag.finish()?;
        let mut elements = self.says_who(Cause::Accepted);
        elements.push(Element::number(ie::UP_FUNCTION_FEATURES, FEATURES));
        Ok(elements)
    }

    /// The end of an association.
    pub(super) fn release(&mut self, at: usize, message: &Message) -> Result<Vec<Element>, Refused> {
        self.needs_association(at)?;
        let mut bag = IeReader::new(&message.elements);
        node_id(&mut bag)?;
        bag.finish()?;
        self.drop_association(at, "leaves");
        Ok(self.says_who(Cause::Accepted))
    }

    /// Refuses who is not associated.
    pub(super) fn needs_association(&self, at: usize) -> Result<(), Refused> {
        match self.peers[at].association {
            Some(_) => Ok(()),
            None => Err(Refused::new(Cause::NoAssociation, "not associated")),
        }
    }

    /// Our Node ID and a cause.
    pub(super) fn says_who(&self, cause: Cause) -> Vec<Element> {
        vec![Element::new(ie::NODE_ID, Value::Node(self.node())), Element::number(ie::CAUSE, cause as u8)]
    }

    /// Heartbeats that are due, and peers that are gone.
    pub(super) fn beat(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        for at in 0..self.peers.len() {
            let Some(association) = &mut self.peers[at].association else { continue };
            if now.since(association.heard) > self.settings.hold {
                self.drop_association(at, "has not answered for the time of `n4.hold`");
            } else if association.beat_due <= now {
                association.beat_due = now + self.settings.heartbeat;
                let to = reached_at(self.peers[at].address);
                let elements = vec![Element::number(ie::RECOVERY_TIME_STAMP, self.recovery)];
                self.ask(now, to, kind::HEARTBEAT_REQUEST, None, elements, About::Heartbeat, out);
            }
        }
    }

    /// Asks associated peers to release us, since this function ends (TS 29.244 section 6.2.8.3).
    pub fn goodbye(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        /// PFCP Association Release Request: SARR.
        const RELEASE: u64 = 1;
        let there = self.peers.iter().filter(|peer| peer.association.is_some());
        let addresses: Vec<IpAddr> = there.map(|peer| peer.address).collect();
        for address in addresses {
            let elements = vec![
                Element::new(ie::NODE_ID, Value::Node(self.node())),
                Element::number(ie::ASSOCIATION_RELEASE_REQUEST, RELEASE),
            ];
            let kind = kind::ASSOCIATION_UPDATE_REQUEST;
            self.ask(now, reached_at(address), kind, None, elements, About::Goodbye, out);
        }
    }
}

/// Where a peer takes requests.
pub(super) fn reached_at(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, PFCP_PORT)
}

/// Takes the Node ID that must be there.
pub(super) fn node_id(bag: &mut IeReader) -> Result<NodeId, Refused> {
    match bag.need(ie::NODE_ID)? {
        Value::Node(node) => Ok(node.clone()),
        _ => Err(incorrect(ie::NODE_ID)),
    }
}
