//! Requests about sessions.

use super::cause::{Cause, Refused};
use super::draft::{Draft, change, read_new};
use super::ie_reader::{IeReader, incorrect};
use super::nodes::node_id;
use super::sessions::{SessionEntry, Usage};
use super::tunnels::ReservedTunnels;
use super::usage::{ASKED, ENDS, UsageRecord, reports};
use super::{Answer, Control};
use crate::codec::{Codec, Flaw};
use crate::message::{Element, Message, Tunnel, Value, ie, kind};
use crate::rules::{Measured, Plane, Seid, Session, Teid};
use std::net::IpAddr;
use std::sync::Arc;
use weir_units::Time;

/// What is done for a request: elements of its answer, and the number of the session at the peer.
type RequestResult = Result<Vec<Element>, Refused>;

impl<P: Plane, C: Codec> Control<P, C> {
    /// Does a request, or refuses it, as it does one with a flaw. What is no request gets no answer.
    pub(super) fn work(
        &mut self,
        now: Time,
        at: usize,
        message: &Message,
        flaw: Option<Flaw>,
    ) -> Option<Answer> {
        let sound = flaw.map_or(Ok(()), |flaw| Err(Refused::from(flaw)));
        let done = match message.kind {
            // Its answer has no cause.
            kind::HEARTBEAT_REQUEST if sound.is_err() => return None,
            kind::HEARTBEAT_REQUEST => return self.heartbeat(now, at, message),
            kind::ASSOCIATION_SETUP_REQUEST if sound.is_ok() && self.is_stale(now, at, message) => {
                return None;
            }
            kind::ASSOCIATION_SETUP_REQUEST => sound.and_then(|()| self.associate(now, at, message)),
            kind::ASSOCIATION_UPDATE_REQUEST => sound.and_then(|()| self.update(at, message)),
            kind::ASSOCIATION_RELEASE_REQUEST => sound.and_then(|()| self.release(at, message)),
            kind::PFD_MANAGEMENT_REQUEST
            | kind::NODE_REPORT_REQUEST
            | kind::SESSION_SET_DELETION_REQUEST
            | kind::SESSION_SET_MODIFICATION_REQUEST => {
                Err(Refused::new(Cause::NotSupported, "that is not done here"))
            }
            kind::SESSION_ESTABLISHMENT_REQUEST
            | kind::SESSION_MODIFICATION_REQUEST
            | kind::SESSION_DELETION_REQUEST
            | kind::SESSION_REPORT_REQUEST => return Some(self.session(now, at, message, sound)),
            _ => {
                self.counts.unexpected += 1;
                return None;
            }
        };
        let elements = self.outcome(at, message.kind, done, true);
        Some(Answer { kind: message.kind + 1, seid: None, elements })
    }

    /// What an answer says: what was done, or why it was not.
    fn outcome(&mut self, at: usize, request: u8, done: RequestResult, names_node: bool) -> Vec<Element> {
        match done {
            Ok(elements) => {
                self.counts.note(Cause::Accepted);
                elements
            }
            Err(refused) => {
                self.counts.note(refused.cause);
                let (peer, Refused { cause, why, .. }) = (self.peers[at].address, &refused);
                self.tell(format!("{peer}: {} refused: {cause}: {why}", kind::shown(request)));
                let node = names_node.then(|| Element::new(ie::NODE_ID, Value::Node(self.node())));
                node.into_iter().chain(refused.elements()).collect()
            }
        }
    }

    fn session(&mut self, now: Time, at: usize, message: &Message, sound: Result<(), Refused>) -> Answer {
        let known = self.sessions.get(message.seid.unwrap_or(0)).filter(|entry| entry.peer == at as u16);
        let is_new = message.kind == kind::SESSION_ESTABLISHMENT_REQUEST;
        let seid = match known {
            Some(entry) => entry.cp_seid,
            None if is_new => named_seid(&message.elements),
            None => 0,
        };
        let found = known.map(|entry| entry.rules.seid);
        let done = self.needs_association(at).and(sound).and_then(|()| match (message.kind, found) {
            (kind::SESSION_ESTABLISHMENT_REQUEST, _) => self.establish(now, at, message),
            (kind::SESSION_REPORT_REQUEST, _) => {
                Err(Refused::new(Cause::NotSupported, "reports go the other way"))
            }
            (_, None) => Err(Refused::new(Cause::NoSession, "there is no such session")),
            (kind::SESSION_MODIFICATION_REQUEST, Some(found)) => self.modify(now, found, message),
            (_, Some(found)) => self.delete(now, found, message),
        });
        // A modification may have changed the number at the peer; its answer goes to the new one.
        let moved = found.and_then(|found| self.sessions.get(found)).map_or(seid, |entry| entry.cp_seid);
        let elements = self.outcome(at, message.kind, done, is_new);
        Answer { kind: message.kind + 1, seid: Some(moved), elements }
    }

    fn establish(&mut self, now: Time, at: usize, message: &Message) -> RequestResult {
        let mut bag = IeReader::new(&message.elements);
        node_id(&mut bag)?;
        let (cp_seid, cp_address) = self.cp_seid(bag.need(ie::F_SEID)?)?;
        let full = || Refused::new(Cause::NoResources, "the table of sessions is full");
        let seid = self.sessions.vacant().ok_or_else(full)?;
        let mut chosen = ReservedTunnels::new(&mut self.tunnels, seid);
        let Draft { session, books, .. } = read_new(bag, seid, now, &self.sides, &mut chosen)?;
        let told = chosen.told;
        let rules = Arc::new(session);
        self.plane.establish(rules.clone()).map_err(|refusal| Refused::by_plane(refusal, &rules))?;
        self.tunnels.settle(seid, &[], &teids(&rules));
        let mut elements = self.says_who(Cause::Accepted);
        elements.push(self.own_seid(seid));
        elements.extend(created(&told, &rules));
        let usage = usage_of(books);
        self.sessions.insert(SessionEntry { rules, peer: at as u16, cp_seid, cp_address, usage });
        self.plan_usage(seid);
        self.note_change(seid);
        self.counts.established += 1;
        Ok(elements)
    }

    /// Makes the session as it would be, and puts it in the place of what is, once it is whole.
    fn modify(&mut self, now: Time, seid: Seid, message: &Message) -> RequestResult {
        let entry = self.sessions.get(seid).expect("the caller found it");
        let mut bag = IeReader::new(&message.elements);
        let moved = bag.take(ie::F_SEID)?.map(|value| self.cp_seid(value)).transpose()?;
        let mut chosen = ReservedTunnels::new(&mut self.tunnels, seid);
        let mut draft = change(bag, entry, now, &self.sides, &mut chosen)?;
        let told = chosen.told;
        let (had, rules) = (teids(&entry.rules), Arc::new(std::mem::take(&mut draft.session)));
        let measured = self.plane.modify(rules.clone(), &draft.closed);
        let measured = measured.map_err(|refusal| Refused::by_plane(refusal, &rules))?;
        self.tunnels.settle(seid, &had, &teids(&rules));
        let mut elements = vec![Element::number(ie::CAUSE, Cause::Accepted as u8)];
        elements.extend(created(&told, &rules));
        elements.extend(usage_told(&mut draft, &entry.rules, &rules, (now, self.recovery), &measured));
        let entry = self.sessions.get_mut(seid).expect("the caller found it");
        entry.rules = rules;
        let due = entry.usage.as_ref().and_then(|usage| usage.due);
        entry.usage = usage_of(draft.books);
        if let Some((cp_seid, cp_address)) = moved {
            (entry.cp_seid, entry.cp_address) = (cp_seid, cp_address);
        }
        if let Some(due) = due {
            self.usage_due.remove(&(due, seid));
        }
        self.plan_usage(seid);
        self.note_change(seid);
        self.counts.modified += 1;
        Ok(elements)
    }

    fn delete(&mut self, now: Time, seid: Seid, message: &Message) -> RequestResult {
        IeReader::new(&message.elements).finish()?;
        let mut elements = vec![Element::number(ie::CAUSE, Cause::Accepted as u8)];
        if let Some((mut usage, measured)) = self.end_session(seid) {
            let times = (now, self.recovery);
            elements.extend(reports(
                usage.books.iter_mut(),
                ie::DELETION_USAGE_REPORT,
                ENDS,
                times,
                &measured,
            ));
        }
        Ok(elements)
    }

    /// Ends a session, whoever wants it. Gives what was measured of it.
    pub(super) fn end_session(&mut self, seid: Seid) -> Option<(Box<Usage>, Vec<Measured>)> {
        let entry = self.sessions.remove(seid)?;
        let measured = match self.plane.remove(seid) {
            Ok((_, measured)) => measured,
            Err(refusal) => {
                self.tell(format!("session {seid:#x}: {refusal}"));
                Vec::new()
            }
        };
        self.tunnels.settle(seid, &teids(&entry.rules), &[]);
        self.counts.removed += 1;
        self.note_change(seid);
        let usage = entry.usage?;
        if let Some(due) = usage.due {
            self.usage_due.remove(&(due, seid));
        }
        Some((usage, measured))
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

pub(super) fn teids(rules: &Session) -> Vec<Teid> {
    rules.pdrs.iter().filter_map(|pdr| pdr.tunnel).map(|tunnel| tunnel.teid).collect()
}

fn usage_of(books: Vec<UsageRecord>) -> Option<Box<Usage>> {
    (!books.is_empty()).then(|| Box::new(Usage { books, due: None }))
}

/// Usage that the answer to a modification tells: of rules that end, of those that no PDR names any more, and
/// of those that were asked.
fn usage_told(
    draft: &mut Draft,
    former: &Session,
    rules: &Session,
    times: (Time, u32),
    measured: &[Measured],
) -> Vec<Element> {
    const ID: u16 = ie::MODIFICATION_USAGE_REPORT;
    let is_named = |session: &Session, book: &UsageRecord| {
        session.meters.iter().any(|meter| meter.urr == Some(book.urr.id) && !meter.pdrs.is_empty())
    };
    let (books, asked) = (&mut draft.books, &draft.asked);
    let mut told = reports(draft.ended.iter_mut(), ID, ENDS, times, measured);
    let left = books.iter_mut().filter(|book| is_named(former, book) && !is_named(rules, book));
    told.extend(reports(left, ID, ENDS, times, measured));
    let asked = books
        .iter_mut()
        .filter(|book| asked.contains(&book.urr.id) && (is_named(rules, book) || !is_named(former, book)));
    told.extend(reports(asked, ID, ASKED, times, measured));
    for book in books {
        let counted = book.total(measured);
        book.renew(times.0, &counted);
    }
    told
}
