//! Numbers of tunnels: which are taken, and choosing new ones.

use super::cause::{Cause, Refused};
use crate::message::ie;
use crate::rules::{Seid, Teid};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::HashMap;

/// Numbers of tunnels that are taken, with their sessions.
#[derive(Debug)]
pub struct Tunnels {
    owners: HashMap<Teid, Seid>,
    numbers: StdRng,
}

impl Tunnels {
    /// None are taken. Numbers are of `numbers`, so that nobody guesses one, and a base station that still
    /// sends into a tunnel of the time before hardly hits a new one.
    pub fn new(numbers: StdRng) -> Tunnels {
        Tunnels { owners: HashMap::new(), numbers }
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// The session of a tunnel.
    pub fn owner(&self, teid: Teid) -> Option<Seid> {
        self.owners.get(&teid).copied()
    }

    /// Gives a session its tunnels: those of `had` that are not in `now` become free.
    pub fn settle(&mut self, seid: Seid, had: &[Teid], now: &[Teid]) {
        for teid in had.iter().filter(|teid| !now.contains(teid)) {
            self.owners.remove(teid);
        }
        for teid in now {
            self.owners.insert(*teid, seid);
        }
    }
}

/// Tunnels that one request names or lets us choose. Nothing is taken until the request is done.
pub struct ReservedTunnels<'a> {
    tunnels: &'a mut Tunnels,
    seid: Seid,
    by_id: Vec<(u8, Teid)>,
    /// The rules whose tunnels were chosen, with those.
    pub told: Vec<(u16, Teid)>,
}

impl<'a> ReservedTunnels<'a> {
    /// For a request about a session.
    pub fn new(tunnels: &'a mut Tunnels, seid: Seid) -> ReservedTunnels<'a> {
        ReservedTunnels { tunnels, seid, by_id: Vec::new(), told: Vec::new() }
    }

    /// A number that session management chose.
    pub fn given(&mut self, teid: Teid) -> Result<(), Refused> {
        match self.tunnels.owner(teid) {
            Some(owner) if owner != self.seid => {
                let why = format!("the tunnel {teid:#x} is another session's");
                Err(Refused::element(Cause::RuleFailure, ie::F_TEID, why))
            }
            _ => Ok(()),
        }
    }

    /// A number that we choose for a rule; all with the same `id` get the same.
    pub fn choose(&mut self, id: Option<u8>, pdr: u16) -> Result<Teid, Refused> {
        let known = self.by_id.iter().find(|(known, _)| Some(*known) == id).map(|(_, teid)| *teid);
        let teid = known.unwrap_or_else(|| self.free());
        if let Some(id) = id {
            self.by_id.push((id, teid));
        }
        self.told.push((pdr, teid));
        Ok(teid)
    }

    /// The table of sessions is far smaller than the numbers there are, so that one is soon found.
    fn free(&mut self) -> Teid {
        loop {
            let teid = self.tunnels.numbers.next_u32();
            let is_chosen = self.told.iter().any(|(_, chosen)| *chosen == teid);
            if teid != 0 && !is_chosen && !self.tunnels.owners.contains_key(&teid) {
                return teid;
            }
        }
    }
}
