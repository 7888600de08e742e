//! Requests about sessions.

use super::bag::{Bag, incorrect};
use super::cause::{Cause, Refused};
use super::nodes::node_id;
use super::sessions::Entry;
use super::sides::Sides;
use super::translate::{create_far, create_pdr, create_qer, remove, update_far, update_pdr, update_qer};
use super::tunnels::Chosen;
use super::{Answer, Control};
use crate::codec::Codec;
use crate::message::{Element, Message, Tunnel, Value, ie, kind};
use crate::rules::{Plane, RemoteTunnel, RuleKind, Seid, Session, Teid};
use std::net::IpAddr;
use std::sync::Arc;
use weir_units::{Duration, Time};

/// What is done for a request: elements of its answer, and the number of the session at the peer.
type Done = Result<Vec<Element>, Refused>;

impl<P: Plane, C: Codec> Control<P, C> {
    /// Does a request, or refuses it. What is no request gets no answer.
    pub(super) fn work(&mut self, now: Time, at: usize, message: &Message) -> Option<Answer> {
        let (done, kind) = match message.kind {
            kind::HEARTBEAT_REQUEST => return self.heartbeat(at, message),
            kind::ASSOCIATION_SETUP_REQUEST => (self.associate(now, at, message), message.kind + 1),
            kind::ASSOCIATION_UPDATE_REQUEST => (self.update(at, message), message.kind + 1),
            kind::ASSOCIATION_RELEASE_REQUEST => (self.release(at, message), message.kind + 1),
            kind::PFD_MANAGEMENT_REQUEST
            | kind::NODE_REPORT_REQUEST
            | kind::SESSION_SET_DELETION_REQUEST
            | kind::SESSION_SET_MODIFICATION_REQUEST => {
                (Err(Refused::new(Cause::NotSupported, "that is not done here")), message.kind + 1)
            }
            kind::SESSION_ESTABLISHMENT_REQUEST
            | kind::SESSION_MODIFICATION_REQUEST
            | kind::SESSION_DELETION_REQUEST
            | kind::SESSION_REPORT_REQUEST => return Some(self.session(at, message)),
            _ => {
                self.counts.unexpected += 1;
                return None;
            }
        };
        let elements = self.outcome(at, done, true);
        Some(Answer { kind, seid: None, elements })
    }

    /// What an answer says: what was done, or why it was not.
    fn outcome(&mut self, at: usize, done: Done, names_node: bool) -> Vec<Element> {
        match done {
            Ok(elements) => {
                self.counts.note(Cause::Accepted);
                elements
            }
            Err(refused) => {
                self.counts.note(refused.cause);
                self.tell(format!("{}: refused: {}", self.peers[at].address, refused.why));
                let node = names_node.then(|| Element::new(ie::NODE_ID, Value::Node(self.node())));
                node.into_iter().chain(refused.elements()).collect()
            }
        }
    }

    fn session(&mut self, at: usize, message: &Message) -> Answer {
        let known = self.sessions.get(message.seid.unwrap_or(0)).filter(|entry| entry.peer == at as u16);
        let is_new = message.kind == kind::SESSION_ESTABLISHMENT_REQUEST;
        let seid = match known {
            Some(entry) => entry.cp_seid,
            None if is_new => named_seid(&message.elements),
            None => 0,
        };
        let found = known.map(|entry| entry.rules.seid);
        let done = self.needs_association(at).and_then(|()| match (message.kind, found) {
            (kind::SESSION_ESTABLISHMENT_REQUEST, _) => self.establish(at, message),
            (kind::SESSION_REPORT_REQUEST, _) => {
                Err(Refused::new(Cause::NotSupported, "reports go the other way"))
            }
            (_, None) => Err(Refused::new(Cause::NoSession, "there is no such session")),
            (kind::SESSION_MODIFICATION_REQUEST, Some(found)) => self.modify(found, message),
            (_, Some(found)) => self.delete(found, message),
        });
        // A modification may have changed the number at the peer; its answer goes to the new one.
        let now = found.and_then(|found| self.sessions.get(found)).map_or(seid, |entry| entry.cp_seid);
        let elements = self.outcome(at, done, is_new);
        Answer { kind: message.kind + 1, seid: Some(now), elements }
    }

    fn establish(&mut self, at: usize, message: &Message) -> Done {
        let mut bag = Bag::new(&message.elements);
        node_id(&mut bag)?;
        let (cp_seid, cp_address) = self.cp_seid(bag.need(ie::F_SEID)?)?;
        let full = || Refused::new(Cause::NoResources, "the table of sessions is full");
        let seid = self.sessions.vacant().ok_or_else(full)?;
        let mut chosen = Chosen::new(&self.tunnels, seid);
        let session = read_new(bag, seid, &self.sides, &mut chosen)?;
        let (told, next) = chosen.end();
        let rules = Arc::new(session);
        self.plane.establish(rules.clone())?;
        self.tunnels.advance(next);
        self.tunnels.settle(seid, &[], &teids(&rules));
        let mut elements = self.says_who(Cause::Accepted);
        elements.push(self.own_seid(seid));
        elements.extend(created(&told, &rules));
        self.sessions.insert(Entry { rules, peer: at as u16, cp_seid, cp_address });
        self.counts.established += 1;
        Ok(elements)
    }

    /// Makes the session as it would be, and puts it in the place of what is, once it is whole.
    fn modify(&mut self, seid: Seid, message: &Message) -> Done {
        let entry = self.sessions.get(seid).expect("the caller found it");
        let mut bag = Bag::new(&message.elements);
        let moved = bag.take(ie::F_SEID)?.map(|value| self.cp_seid(value)).transpose()?;
        let mut chosen = Chosen::new(&self.tunnels, seid);
        let mut session = Session::clone(&entry.rules);
        let ended = change(bag, &mut session, &self.sides, &mut chosen)?;
        let (told, next) = chosen.end();
        let (had, rules) = (teids(&entry.rules), Arc::new(session));
        self.plane.modify(rules.clone(), &ended)?;
        self.tunnels.advance(next);
        self.tunnels.settle(seid, &had, &teids(&rules));
        let mut elements = vec![Element::number(ie::CAUSE, Cause::Accepted as u8)];
        elements.extend(created(&told, &rules));
        let entry = self.sessions.get_mut(seid).expect("the caller found it");
        entry.rules = rules;
        if let Some((cp_seid, cp_address)) = moved {
            (entry.cp_seid, entry.cp_address) = (cp_seid, cp_address);
        }
        self.counts.modified += 1;
        Ok(elements)
    }

    fn delete(&mut self, seid: Seid, message: &Message) -> Done {
        Bag::new(&message.elements).finish()?;
        self.end_session(seid);
        Ok(vec![Element::number(ie::CAUSE, Cause::Accepted as u8)])
    }

    /// Ends a session, whoever wants it.
    pub(super) fn end_session(&mut self, seid: Seid) {
        let Some(entry) = self.sessions.remove(seid) else { return };
        if let Err(refusal) = self.plane.remove(seid) {
            self.tell(format!("session {seid:#x}: {refusal}"));
        }
        self.tunnels.settle(seid, &teids(&entry.rules), &[]);
        self.counts.removed += 1;
    }

    /// A session's number at a peer, and where reports about it go: to a peer of the configuration.
    fn cp_seid(&self, value: &Value) -> Result<(u64, IpAddr), Refused> {
        let Value::Session { seid, v4, v6 } = *value else { return Err(incorrect(ie::F_SEID)) };
        let addresses = [v4.map(IpAddr::V4), v6.map(IpAddr::V6)];
        let is_peer = |address: &IpAddr| self.peers.iter().any(|peer| peer.address == *address);
        match addresses.into_iter().flatten().find(is_peer) {
            Some(address) => Ok((seid, address)),
            None => {
                let why = "the F-SEID has no address of a peer in `n4.peers`, to which reports could go";
                Err(Refused::element(Cause::Rejected, ie::F_SEID, why))
            }
        }
    }

    fn own_seid(&self, seid: Seid) -> Element {
        let (v4, v6) = match self.settings.address {
            IpAddr::V4(v4) => (Some(v4), None),
            IpAddr::V6(v6) => (None, Some(v6)),
        };
        Element::new(ie::F_SEID, Value::Session { seid, v4, v6 })
    }
}

/// The number at the peer that a request names, for the answer to one that is refused.
fn named_seid(elements: &[Element]) -> u64 {
    let named = elements.iter().find_map(|element| match element.value {
        Value::Session { seid, .. } => Some(seid),
        _ => None,
    });
    named.unwrap_or(0)
}

/// The rules that were told their tunnels (Created PDR).
fn created(told: &[(u16, Teid)], rules: &Session) -> Vec<Element> {
    let one = |(id, teid): &(u16, Teid)| {
        let tunnel = rules.pdr(*id)?.tunnel.filter(|tunnel| tunnel.teid == *teid)?;
        let (v4, v6) = (tunnel.v4, tunnel.v6);
        let tunnel = Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Given { teid: *teid, v4, v6 }));
        Some(Element::new(ie::CREATED_PDR, Value::Group(vec![Element::number(ie::PDR_ID, *id), tunnel])))
    };
    told.iter().filter_map(one).collect()
}

fn teids(rules: &Session) -> Vec<Teid> {
    rules.pdrs.iter().filter_map(|pdr| pdr.tunnel).map(|tunnel| tunnel.teid).collect()
}

/// The rules of a new session.
fn read_new(mut bag: Bag, seid: Seid, sides: &Sides, chosen: &mut Chosen) -> Result<Session, Refused> {
    /// PDN Type (section 8.2.79): IPv4, IPv6, both.
    const IP: std::ops::RangeInclusive<u64> = 1..=3;
    let mut session = Session { seid, ..Session::default() };
    if let Some(other) = bag.number(ie::PDN_TYPE)?.filter(|number| !IP.contains(&(number & 7))) {
        let why = format!("sessions of type {other} are not done");
        return Err(Refused::element(Cause::NotSupported, ie::PDN_TYPE, why));
    }
    bag.inform(&[ie::APN_DNN, ie::S_NSSAI, ie::USER_ID]);
    session.inactivity = inactivity(&mut bag)?.flatten();
    create(&mut bag, &mut session, sides, chosen)?;
    for (is_empty, id) in
        [(session.pdrs.is_empty(), ie::CREATE_PDR), (session.fars.is_empty(), ie::CREATE_FAR)]
    {
        if is_empty {
            return Err(Refused::element(Cause::MandatoryMissing, id, format!("element {id} is missing")));
        }
    }
    bag.finish()?;
    whole(session, sides)
}

/// Changes rules: takes out, changes, adds. Gives the tunnels that are to be told their end.
fn change(
    mut bag: Bag,
    session: &mut Session,
    sides: &Sides,
    chosen: &mut Chosen,
) -> Result<Vec<RemoteTunnel>, Refused> {
    for group in bag.groups(ie::REMOVE_PDR)? {
        remove(group, ie::PDR_ID, RuleKind::Pdr, &mut session.pdrs, |rule| u32::from(rule.id))?;
    }
    for group in bag.groups(ie::REMOVE_FAR)? {
        remove(group, ie::FAR_ID, RuleKind::Far, &mut session.fars, |rule| rule.id)?;
    }
    for group in bag.groups(ie::REMOVE_QER)? {
        remove(group, ie::QER_ID, RuleKind::Qer, &mut session.qers, |rule| rule.id)?;
    }
    for group in bag.groups(ie::UPDATE_PDR)? {
        update_pdr(group, &mut session.pdrs, sides, chosen)?;
    }
    let mut ended = Vec::new();
    for group in bag.groups(ie::UPDATE_FAR)? {
        ended.extend(update_far(group, &mut session.fars, sides)?);
    }
    for group in bag.groups(ie::UPDATE_QER)? {
        update_qer(group, &mut session.qers)?;
    }
    if let Some(inactivity) = inactivity(&mut bag)? {
        session.inactivity = inactivity;
    }
    create(&mut bag, session, sides, chosen)?;
    bag.finish()?;
    *session = whole(std::mem::take(session), sides)?;
    Ok(ended)
}

/// Adds new rules.
fn create(bag: &mut Bag, session: &mut Session, sides: &Sides, chosen: &mut Chosen) -> Result<(), Refused> {
    for group in bag.groups(ie::CREATE_FAR)? {
        session.fars.push(create_far(group, sides)?);
    }
    for group in bag.groups(ie::CREATE_QER)? {
        session.qers.push(create_qer(group)?);
    }
    for group in bag.groups(ie::CREATE_PDR)? {
        session.pdrs.push(create_pdr(group, sides, chosen)?);
    }
    Ok(())
}

/// The time without packets after which session management is told; none if it says zero.
fn inactivity(bag: &mut Bag) -> Result<Option<Option<Duration>>, Refused> {
    let seconds = bag.number(ie::INACTIVITY_TIMER)?;
    Ok(seconds.map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds))))
}

/// Rules in their order, if they go together.
fn whole(mut session: Session, sides: &Sides) -> Result<Session, Refused> {
    let most = session.pdrs.len().max(session.fars.len()).max(session.qers.len());
    if most > sides.rules_max {
        let why = format!("more than {} rules of a kind", sides.rules_max);
        return Err(Refused::new(Cause::NoResources, why));
    }
    session.order();
    session.problem()?;
    session.pdrs.shrink_to_fit();
    session.fars.shrink_to_fit();
    session.qers.shrink_to_fit();
    Ok(session)
}
