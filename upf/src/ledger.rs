//! A plane that keeps rules and forwards nothing: for tests of control, and to measure it alone.

use crate::rules::{Capacity, Event, FlowUsage, Plane, Refusal, RemoteTunnel, Seid, Session, Usage};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Rules and nothing else.
#[derive(Debug)]
pub struct Ledger {
    sessions: HashMap<Seid, Arc<Session>>,
    most: usize,
    /// What it will tell.
    pub events: VecDeque<Event>,
    /// Tunnels that were told their end.
    pub ended: Vec<RemoteTunnel>,
    /// Refuses the next verb with this.
    pub refuses: Option<Refusal>,
}

impl Ledger {
    /// Keeps at most `most` sessions.
    pub fn new(most: usize) -> Ledger {
        Ledger { sessions: HashMap::new(), most, events: VecDeque::new(), ended: Vec::new(), refuses: None }
    }

    /// A session as it is kept.
    pub fn get(&self, seid: Seid) -> Option<&Session> {
        self.sessions.get(&seid).map(|session| &**session)
    }
}

impl Plane for Ledger {
    fn establish(&mut self, session: Arc<Session>) -> Result<(), Refusal> {
        self.refuses.take().map_or(Ok(()), Err)?;
        if self.sessions.len() >= self.most {
            return Err(Refusal::NoResources("the table of sessions is full".into()));
        }
        self.sessions.insert(session.seid, session);
        Ok(())
    }

    fn modify(&mut self, session: Arc<Session>, ended: &[RemoteTunnel]) -> Result<(), Refusal> {
        self.refuses.take().map_or(Ok(()), Err)?;
        let place = self.sessions.get_mut(&session.seid).ok_or(Refusal::NoSession(session.seid))?;
        *place = session;
        self.ended.extend(ended);
        Ok(())
    }

    fn remove(&mut self, seid: Seid) -> Result<Usage, Refusal> {
        self.sessions.remove(&seid).map(|_| Usage::default()).ok_or(Refusal::NoSession(seid))
    }

    fn usage(&mut self, seid: Seid) -> Option<Usage> {
        self.sessions.get(&seid).map(|_| Usage::default())
    }

    fn flows(&mut self, _seid: Seid) -> Vec<FlowUsage> {
        Vec::new()
    }

    fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn capacity(&self) -> Capacity {
        Capacity { used: self.sessions.len(), most: self.most }
    }
}
