//! The flows of many users, and their bottlenecks where rates follow these: tables of fixed size that are
//! lent to those who are active.

use std::ops::Range;
use weir_sense::bottleneck::FollowLaw;
use weir_sense::{Bottleneck, FLOWS_EACH, Flows, LIVE, Observer, Suspicions};
use weir_units::{Duration, Rate, Time};

/// Users that are measured at once, at most; the others find a place when one of these falls silent.
pub const USERS_MAX: usize = 4096;
/// Places that a user can have: those of the set that its hash names.
const WAYS: usize = 8;

/// A table of flows and whose it is.
struct UserSlot {
    user: Option<u32>,
    flows: Flows<FLOWS_EACH>,
}

/// The users that are measured, in sets of [`WAYS`].
pub struct Users {
    places: Box<[UserSlot]>,
    /// The bottlenecks of those who have the places; empty where no rate follows them.
    bottlenecks: Box<[Bottleneck]>,
    law: FollowLaw,
    /// What did not add up for users that lost their places.
    past: Suspicions,
    /// Packets of users without a place.
    unplaced: u64,
    used: u32,
}

impl Users {
    /// Room for `users`, and at most [`USERS_MAX`]; with bottlenecks where rates follow them, from that time
    /// on.
    pub fn new(users: usize, follows: Option<(Time, FollowLaw)>) -> Users {
        let count = users.clamp(1, USERS_MAX).next_multiple_of(WAYS);
        let place = |_| UserSlot { user: None, flows: Flows::default() };
        let bottlenecks = follows.map(|(start, law)| vec![Bottleneck::new(start, law); count]);
        Users {
            places: (0..count).map(place).collect(),
            bottlenecks: bottlenecks.unwrap_or_default().into(),
            law: follows.map(|(_, law)| law).unwrap_or_default(),
            past: Suspicions::default(),
            unplaced: 0,
            used: 0,
        }
    }

    /// Memory of all places.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.places) + size_of_val(&*self.bottlenecks)
    }

    /// How many users can be measured at once.
    pub fn room(&self) -> usize {
        self.places.len()
    }

    /// How many have a place.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// How many are held to a rate below the direction's own; `None` where no rates follow.
    pub fn held(&self, own: Rate) -> Option<usize> {
        let held = self.bottlenecks.iter().filter(|bottleneck| bottleneck.rate(own).is_some());
        (!self.bottlenecks.is_empty()).then(|| held.count())
    }

    fn set(&self, user: u32) -> Range<usize> {
        let first = user as usize % (self.places.len() / WAYS) * WAYS;
        first..first + WAYS
    }

    /// The place of a user who has one.
    pub fn find(&self, user: u32) -> Option<usize> {
        self.set(user).find(|at| self.places[*at].user == Some(user))
    }

    /// The place of a user; `None` while all places that it can have are taken by others who are active.
    pub fn of(&mut self, now: Time, user: u32) -> Option<usize> {
        let at = self.find(user).or_else(|| self.take(now, self.set(user), user));
        self.unplaced += u64::from(at.is_none());
        at
    }

    /// The round-trip time of a user who has a place, as it was measured last.
    pub fn rtt(&self, now: Time, user: u32) -> Option<Duration> {
        self.places[self.find(user)?].flows.rtt(now)
    }

    /// The observer of who has this place.
    pub fn observer(&mut self, at: usize) -> Observer<'_, FLOWS_EACH> {
        Observer { flows: &mut self.places[at].flows, bottleneck: self.bottlenecks.get_mut(at) }
    }

    /// The bottleneck of who has this place, where rates follow.
    pub fn bottleneck(&mut self, at: usize) -> Option<&mut Bottleneck> {
        self.bottlenecks.get_mut(at)
    }

    #[cold]
    fn take(&mut self, now: Time, mut set: Range<usize>, user: u32) -> Option<usize> {
        let is_free = |place: &UserSlot| place.user.is_none() || place.flows.is_idle(now, LIVE);
        let at = set.find(|at| is_free(&self.places[*at]))?;
        let place = &mut self.places[at];
        self.used += u32::from(place.user.is_none());
        self.past = sum(&self.past, place.flows.suspicions());
        *place = UserSlot { user: Some(user), flows: Flows::default() };
        if let Some(bottleneck) = self.bottlenecks.get_mut(at) {
            *bottleneck = Bottleneck::new(now, self.law);
        }
        Some(at)
    }

    /// What did not add up so far; packets without a place are among those that are not tracked.
    pub fn suspicions(&self) -> Suspicions {
        let now = self.places.iter().fold(self.past, |all, place| sum(&all, place.flows.suspicions()));
        Suspicions { untracked: now.untracked + self.unplaced, ..now }
    }
}

fn sum(a: &Suspicions, b: &Suspicions) -> Suspicions {
    Suspicions {
        acks_beyond: a.acks_beyond + b.acks_beyond,
        sequence_jumps: a.sequence_jumps + b.sequence_jumps,
        stamp_jumps: a.stamp_jumps + b.stamp_jumps,
        spin_out_of_turn: a.spin_out_of_turn + b.spin_out_of_turn,
        spin_distrusted: a.spin_distrusted + b.spin_distrusted,
        spin_outliers: a.spin_outliers + b.spin_outliers,
        untracked: a.untracked + b.untracked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sense::Way;
    use weir_units::Duration;
    use weir_wire::tcp::Segment;
    use weir_wire::transport::Transport;

    #[test]
    fn a_million_users_cost_the_memory_of_the_first_and_active_ones_keep_their_places() {
        let mut users = Users::new(100, None);
        let (room, bytes) = (users.room(), users.bytes());
        assert!((100..108).contains(&room) && bytes < room * 8192);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let segment = Transport::Tcp(Segment { len: 1448, ..Segment::default() });
        let mut placed = 0;
        for user in 0..1_000_000u32 {
            let place = users.of(at(1), user.wrapping_mul(2_654_435_761));
            let Some(place) = place else { continue };
            users.observer(place).flows.observe(at(1), Way::ToUser, user, 1500, &segment);
            placed += 1;
        }
        assert_eq!((placed, users.used() as usize, users.bytes()), (room, room, bytes));
        assert_eq!(users.suspicions().untracked, 1_000_000 - room as u64);
        assert!(users.of(at(2), 0).is_some(), "the first one still has its place");
        let later = at(1) + LIVE;
        assert!(users.of(later, 999_999_999).is_some(), "who was silent makes room");
    }
}
