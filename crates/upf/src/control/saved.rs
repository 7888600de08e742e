//! What is kept of associations and sessions, so that a restart of this function loses none.

use super::Control;
use super::peers::Association;
use super::sessions::{SessionEntry, Usage};
use super::usage::UsageRecord;
use super::work::teids;
use crate::codec::Codec;
use crate::message::NodeId;
use crate::rules::{Plane, Seid, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use weir_units::Time;

/// An association as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedPeer {
    /// The peer.
    pub address: IpAddr,
    /// Who it says it is.
    pub node: NodeId,
    /// When it started.
    pub recovery: u32,
}

/// A session as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedSession {
    /// Its rules, with its number.
    pub rules: Session,
    /// The peer.
    pub peer: IpAddr,
    /// Its number at the peer.
    pub cp_seid: u64,
    /// Where reports about it go.
    pub cp_address: IpAddr,
    /// What is measured of it.
    pub(crate) books: Vec<UsageRecord>,
}

/// All that is kept.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// Associations.
    pub peers: Vec<SavedPeer>,
    /// Sessions.
    pub sessions: Vec<SavedSession>,
}

impl<P: Plane, C: Codec> Control<P, C> {
    /// From now on it is noted which sessions change.
    pub fn note_changes(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    pub(super) fn note_change(&mut self, seid: Seid) {
        if let Some(changed) = &mut self.changed {
            changed.insert(seid);
        }
    }

    /// Takes which sessions changed since it was asked last, and whether associations did.
    pub fn take_changes(&mut self) -> (BTreeSet<Seid>, bool) {
        let changed = self.changed.as_mut().map(std::mem::take).unwrap_or_default();
        (changed, std::mem::take(&mut self.peers_changed))
    }

    /// The associations, to be kept.
    pub fn saved_peers(&self) -> Vec<SavedPeer> {
        let of = |peer: &super::Peer| {
            let Association { node, recovery, .. } = peer.association.clone()?;
            Some(SavedPeer { address: peer.address, node, recovery })
        };
        self.peers.iter().filter_map(of).collect()
    }

    /// A session, to be kept; `None` if there is none.
    pub fn saved_session(&mut self, seid: Seid) -> Option<SavedSession> {
        let entry = self.sessions.get(seid)?;
        let has_books = entry.books().next().is_some();
        let measured = if has_books { self.plane.measured(seid) } else { Vec::new() };
        Some(SavedSession {
            rules: Session::clone(&entry.rules),
            peer: self.peers[usize::from(entry.peer)].address,
            cp_seid: entry.cp_seid,
            cp_address: entry.cp_address,
            books: entry.books().map(|book| book.carried_on(&measured)).collect(),
        })
    }

    /// The numbers of all sessions.
    pub fn seids(&self) -> Vec<Seid> {
        self.sessions.iter().map(|entry| entry.rules.seid).collect()
    }

    /// Takes up what was kept, before anything else is done: all of it or nothing.
    ///
    /// # Errors
    ///
    /// If the configuration or the plane has no room for it, or not the same peers and addresses; which.
    pub fn restore(&mut self, now: Time, saved: Saved) -> Result<(), String> {
        let done = self.try_restore(now, saved);
        if done.is_err() {
            for seid in self.seids() {
                self.end_session(seid);
            }
            self.peers.iter_mut().for_each(|peer| peer.association = None);
        }
        done
    }

    fn try_restore(&mut self, now: Time, saved: Saved) -> Result<(), String> {
        let addresses: Vec<IpAddr> = self.peers.iter().map(|peer| peer.address).collect();
        let number = |address: IpAddr| addresses.iter().position(|peer| *peer == address);
        let mut entries = Vec::new();
        for session in saved.sessions {
            let SavedSession { rules, peer, cp_seid, cp_address, books } = session;
            let at = number(peer).ok_or_else(|| format!("{peer} is none of `n4.peers` any more"))?;
            let usage = (!books.is_empty()).then(|| Box::new(Usage { books, due: None }));
            entries.push(SessionEntry {
                rules: Arc::new(rules),
                peer: at as u16,
                cp_seid,
                cp_address,
                usage,
            });
        }
        for SavedPeer { address, node, recovery } in saved.peers {
            let at = number(address).ok_or_else(|| format!("{address} is none of `n4.peers` any more"))?;
            let association =
                Association { node, recovery, heard: now, beat_due: now, restored: true, doubted: None };
            self.peers[at].association = Some(association);
        }
        if let Some(entry) =
            entries.iter().find(|entry| self.peers[usize::from(entry.peer)].association.is_none())
        {
            return Err(format!("session {:#x} is of a peer that is not associated", entry.rules.seid));
        }
        let all: Vec<Arc<Session>> = entries.iter().map(|entry| entry.rules.clone()).collect();
        if !self.sessions.fill(entries) {
            return Err(format!("there is no room for {} sessions (`limits.sessions`)", all.len()));
        }
        for rules in all {
            let seid = rules.seid;
            self.plane.establish(rules.clone()).map_err(|refusal| format!("session {seid:#x}: {refusal}"))?;
            self.tunnels.settle(seid, &[], &teids(&rules));
            self.plan_usage(seid);
        }
        Ok(())
    }
}
