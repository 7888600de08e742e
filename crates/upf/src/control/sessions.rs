//! The table of sessions.

use super::usage::UsageRecord;
use crate::rules::{Seid, Session};
use rand::Rng;
use rand::rngs::StdRng;
use std::net::IpAddr;
use std::sync::Arc;
use weir_units::Time;

/// A session as control knows it.
#[derive(Debug)]
pub struct SessionEntry {
    /// What session management wants.
    pub rules: Arc<Session>,
    /// Number of the peer in the configuration.
    pub peer: u16,
    /// Its number at the peer.
    pub cp_seid: u64,
    /// Where reports about it go.
    pub cp_address: IpAddr,
    /// What is measured of it, if anything is.
    pub(super) usage: Option<Box<Usage>>,
}

/// What is measured of a session.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// For each usage reporting rule.
    pub books: Vec<UsageRecord>,
    /// When they are looked at next.
    pub due: Option<Time>,
}

impl SessionEntry {
    /// What is measured of it.
    pub(super) fn books(&self) -> impl Iterator<Item = &UsageRecord> {
        self.usage.iter().flat_map(|usage| &usage.books)
    }
}

/// A place in the table; the tag tells sessions apart that have had it one after the other, and cannot be
/// guessed.
#[derive(Debug)]
struct SessionSlot {
    tag: u64,
    entry: Option<Box<SessionEntry>>,
}

/// All sessions. Their numbers name their places, so that finding one is one step.
#[derive(Debug)]
pub struct Sessions {
    places: Vec<SessionSlot>,
    free: Vec<u32>,
    most: usize,
    used: usize,
    numbers: StdRng,
}

const INDEX_BITS: u32 = 20;

/// The part of a number that cannot be guessed; with it, no number is 0.
fn tag(numbers: &mut StdRng) -> u64 {
    (numbers.next_u64() >> INDEX_BITS).max(1)
}

impl Sessions {
    /// An empty table of at most `most`. Numbers are of `numbers`: nobody guesses one, and those of the time
    /// before are not found.
    pub fn new(most: usize, numbers: StdRng) -> Sessions {
        assert!(most < 1 << INDEX_BITS, "a number of a session has {INDEX_BITS} bits for its place");
        Sessions { places: Vec::new(), free: Vec::new(), most, used: 0, numbers }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many there can be.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The number of a place; `None` if there is no such place.
    fn number(&self, index: u32) -> Option<Seid> {
        let place = self.places.get(index as usize)?;
        Some(place.tag << INDEX_BITS | u64::from(index))
    }

    /// The number that the next session gets; `None` if the table is full.
    pub fn vacant(&mut self) -> Option<Seid> {
        if self.used >= self.most {
            return None;
        }
        if self.free.is_empty() {
            self.free.push(self.places.len() as u32);
            self.places.push(SessionSlot { tag: tag(&mut self.numbers), entry: None });
        }
        self.number(*self.free.last()?)
    }

    /// Begins the session whose number [`Sessions::vacant`] gave.
    pub fn insert(&mut self, entry: SessionEntry) {
        let index = self.free.pop().expect("the number that was given has a place");
        debug_assert_eq!(Some(entry.rules.seid), self.number(index));
        self.places[index as usize].entry = Some(Box::new(entry));
        self.used += 1;
    }

    fn index(&self, seid: Seid) -> Option<usize> {
        let index = (seid & ((1 << INDEX_BITS) - 1)) as u32;
        (self.number(index) == Some(seid)).then_some(index as usize)
    }

    /// A session by its number.
    pub fn get(&self, seid: Seid) -> Option<&SessionEntry> {
        self.places.get(self.index(seid)?)?.entry.as_deref()
    }

    /// A session by its number, to change it.
    pub fn get_mut(&mut self, seid: Seid) -> Option<&mut SessionEntry> {
        let index = self.index(seid)?;
        self.places.get_mut(index)?.entry.as_deref_mut()
    }

    /// Fills an empty table with sessions that have their numbers; `false` if two have one place, or one has
    /// none here.
    pub fn fill(&mut self, entries: Vec<SessionEntry>) -> bool {
        let index = |entry: &SessionEntry| (entry.rules.seid & ((1 << INDEX_BITS) - 1)) as usize;
        let count = entries.iter().map(|entry| index(entry) + 1).max().unwrap_or(0);
        if !self.places.is_empty() || count > self.most {
            return false;
        }
        self.places.resize_with(count, || SessionSlot { tag: tag(&mut self.numbers), entry: None });
        for entry in entries {
            let place = &mut self.places[index(&entry)];
            if place.entry.is_some() {
                return false;
            }
            place.tag = entry.rules.seid >> INDEX_BITS;
            place.entry = Some(Box::new(entry));
            self.used += 1;
        }
        self.free = (0..count as u32).rev().filter(|at| self.places[*at as usize].entry.is_none()).collect();
        true
    }

    /// Ends a session.
    pub fn remove(&mut self, seid: Seid) -> Option<Box<SessionEntry>> {
        let index = self.index(seid)?;
        let place = self.places.get_mut(index)?;
        let entry = place.entry.take()?;
        place.tag = tag(&mut self.numbers);
        self.free.push(index as u32);
        self.used -= 1;
        Some(entry)
    }

    /// All sessions, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &SessionEntry> {
        self.places.iter().filter_map(|place| place.entry.as_deref())
    }

    /// The numbers of a peer's sessions.
    pub fn of_peer(&self, peer: u16) -> Vec<Seid> {
        self.iter().filter(|entry| entry.peer == peer).map(|entry| entry.rules.seid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn table(seed: u64) -> Sessions {
        Sessions::new(2, StdRng::seed_from_u64(seed))
    }

    fn begin(sessions: &mut Sessions) -> Option<Seid> {
        let seid = sessions.vacant()?;
        let rules = Arc::new(Session { seid, ..Session::default() });
        sessions.insert(SessionEntry {
            rules,
            peer: 0,
            cp_seid: 1,
            cp_address: "::1".parse().unwrap(),
            usage: None,
        });
        Some(seid)
    }

    #[test]
    fn a_number_is_not_used_again_at_once() {
        let mut sessions = table(7);
        let first = begin(&mut sessions).unwrap();
        let second = begin(&mut sessions).unwrap();
        assert_eq!(begin(&mut sessions), None);
        assert!(sessions.remove(first).is_some() && sessions.remove(first).is_none());
        let third = begin(&mut sessions).unwrap();
        assert!(third != first && sessions.get(first).is_none());
        assert_eq!(sessions.get(third).map(|e| e.rules.seid), Some(third));
        assert_eq!((sessions.len(), sessions.get(second).is_some()), (2, true));
        assert!(sessions.get(0).is_none() && sessions.get(u64::MAX).is_none());
        assert_ne!(table(8).vacant(), table(7).vacant());
    }
}
