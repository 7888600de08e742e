//! A plane that keeps all rules and judges none: for tests of control, and to measure it alone.

use crate::rules::{
    Bounds, Capacity, Event, FlowUsage, Measured, Plane, Refusal, RemoteTunnel, Seid, Session, Usage,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Rules and nothing else.
#[derive(Debug)]
pub struct Ledger {
    sessions: HashMap<Seid, Arc<Session>>,
    most: usize,
    /// What it will tell.
    pub events: VecDeque<Event>,
    /// Sessions of which an event could not be told.
    pub untold: Vec<Seid>,
    /// Tunnels that were told their end.
    pub ended: Vec<RemoteTunnel>,
    /// Refuses the next verb with this.
    pub refuses: Option<Refusal>,
    /// What it says that meters counted, by place, of every session.
    pub counted: Vec<Measured>,
    /// Bounds of meters, the latest last.
    pub bounds: Vec<(Seid, u8, Bounds)>,
}

impl Ledger {
    /// Keeps at most `most` sessions.
    pub fn new(most: usize) -> Ledger {
        Ledger {
            sessions: HashMap::new(),
            most,
            events: VecDeque::new(),
            untold: Vec::new(),
            ended: Vec::new(),
            refuses: None,
            counted: Vec::new(),
            bounds: Vec::new(),
        }
    }

    /// What its meters counted.
    fn of(&self, session: &Session) -> Vec<Measured> {
        let counted = |place: usize| {
            let known = self.counted.get(place).copied().unwrap_or_default();
            Measured { place: place as u8, ..known }
        };
        (0..session.meters.len()).map(counted).collect()
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

    fn modify(&mut self, session: Arc<Session>, ended: &[RemoteTunnel]) -> Result<Vec<Measured>, Refusal> {
        self.refuses.take().map_or(Ok(()), Err)?;
        let place = self.sessions.get_mut(&session.seid).ok_or(Refusal::NoSession(session.seid))?;
        let former = std::mem::replace(place, session);
        self.ended.extend(ended);
        Ok(self.of(&former))
    }

    fn remove(&mut self, seid: Seid) -> Result<(Usage, Vec<Measured>), Refusal> {
        let session = self.sessions.remove(&seid).ok_or(Refusal::NoSession(seid))?;
        Ok((Usage::default(), self.of(&session)))
    }

    fn measured(&mut self, seid: Seid) -> Vec<Measured> {
        self.sessions.get(&seid).map_or_else(Vec::new, |session| self.of(session))
    }

    fn bound(&mut self, seid: Seid, place: u8, bounds: Bounds) {
        self.bounds.push((seid, place, bounds));
    }

    fn usage(&mut self, seid: Seid) -> Option<Usage> {
        self.sessions.get(&seid).map(|_| Usage::default())
    }

    fn flows(&mut self, _seid: Seid) -> Vec<FlowUsage> {
        Vec::new()
    }

    fn untold(&mut self, seid: Seid) {
        self.untold.push(seid);
    }

    fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn capacity(&self) -> Capacity {
        Capacity { used: self.sessions.len(), most: self.most }
    }
}
