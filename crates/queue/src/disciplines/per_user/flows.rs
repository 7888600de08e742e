//! The flows of users who are held to a rate: what waits for the rate of a user waits in a FIFO of its own
//! for each flow.
//!
//! A user without packets needs none, so that sets of a few flows are lent to those who have some, and stay
//! where they are until somebody else needs them. Their number is bounded; who finds none has one FIFO, as
//! without a rate.

use super::{Line, PerUser, User};
use crate::rounds::{Rounds, Turn};
use std::array;
use weir_aqm::{Aqm, Guide};
use weir_units::Bytes;

/// Flows of a user that are told apart; of those beyond several share a FIFO.
pub(crate) const FLOWS: usize = 8;
/// Most users whose flows are told apart at once.
pub(super) const SETS_MAX: usize = 1024;
/// Most sets that are looked at for one whose owner has no packets.
const SWEEP_MAX: usize = 16;

/// The flows of a user, in turn.
pub(crate) struct Set<A> {
    owner: Option<u32>,
    /// Whose the FIFOs are or were.
    tags: [Option<u32>; FLOWS],
    /// Of each FIFO, how many packets from the head on there are among which may be some of flows that found
    /// none of their own.
    shared: [u32; FLOWS],
    turns: [Turn; FLOWS],
    rounds: Rounds,
    lines: [Line<A>; FLOWS],
    /// Flows that have something to send, and bytes of all of them.
    active: u32,
    backlog: Bytes,
}

/// All sets.
pub(super) struct Sets<A> {
    sets: Box<[Set<A>]>,
    /// Where the search for a set goes on.
    hand: usize,
}

impl<A: Clone> Set<A> {
    /// With copies of `aqm`.
    pub fn new(aqm: &A) -> Set<A> {
        Set {
            owner: None,
            tags: [None; FLOWS],
            shared: [0; FLOWS],
            turns: [Turn::IDLE; FLOWS],
            rounds: Rounds::default(),
            lines: array::from_fn(|_| Line::new(aqm.clone())),
            active: 0,
            backlog: Bytes::ZERO,
        }
    }

    /// The FIFO for the next packet of a flow: the one that it has, or an empty one, with a copy of `aqm`.
    /// Where there is none it shares one, and stays there until the last packet has left that may be its own.
    pub fn flow_of(&mut self, hash: u32, aqm: &A) -> usize {
        if let Some(own) = self.tags.iter().position(|tag| *tag == Some(hash)) {
            return own;
        }
        let other = hash as usize % FLOWS;
        let free = if self.shared[other] > 0 { None } else { self.free() };
        let Some(free) = free else {
            self.shared[other] = self.turns[other].waiting + 1;
            return other;
        };
        self.tags[free] = Some(hash);
        self.lines[free].aqm = aqm.clone();
        free
    }

    /// A FIFO without packets: one that nobody had, else one that is idle. One that is still on a round comes
    /// last, as its flow is likely to go on.
    fn free(&self) -> Option<usize> {
        let find = |is_free: &dyn Fn(usize) -> bool| (0..FLOWS).find(|flow| is_free(*flow));
        find(&|flow| self.tags[flow].is_none())
            .or_else(|| find(&|flow| self.turns[flow].is_idle()))
            .or_else(|| find(&|flow| self.turns[flow].waiting == 0))
    }

    /// What belongs to a flow.
    pub fn line(&self, flow: usize) -> &Line<A> {
        &self.lines[flow]
    }

    /// The same, to change it.
    pub fn line_mut(&mut self, flow: usize) -> &mut Line<A> {
        &mut self.lines[flow]
    }

    /// The algorithms of all flows.
    pub fn aqms(&mut self) -> impl Iterator<Item = &mut A> {
        self.lines.iter_mut().map(|line| &mut line.aqm)
    }

    /// Flows that have something to send.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Bytes of all flows.
    pub fn backlog(&self) -> Bytes {
        self.backlog
    }

    /// A packet was stored for a flow.
    pub fn stored(&mut self, flow: usize, len: Bytes, quantum: i64) {
        self.backlog += len;
        self.turns[flow].waiting += 1;
        if self.turns[flow].is_idle() {
            self.rounds.join(&mut self.turns, flow, quantum);
            self.active += 1;
        }
    }

    /// A packet of a flow left its FIFO.
    pub fn left(&mut self, flow: usize, len: Bytes) {
        self.backlog -= len;
        self.turns[flow].waiting -= 1;
        // No more than there are: what was to share it may have been refused.
        self.shared[flow] = self.shared[flow].saturating_sub(1).min(self.turns[flow].waiting);
    }

    /// A flow sent a packet.
    pub fn sent(&mut self, flow: usize, len: Bytes) {
        self.turns[flow].charge(len);
    }

    /// The flow whose turn it is.
    pub fn choose(&mut self, quantum: i64) -> Option<usize> {
        let mut left = 0;
        let flow = self.rounds.choose(&mut self.turns, quantum, &mut left);
        self.active -= left;
        flow
    }

    /// The flow that comes first, if none comes or goes.
    pub fn first(&self) -> Option<&Line<A>> {
        self.rounds
            .coming(&self.turns)
            .find(|flow| self.turns[*flow].waiting > 0)
            .map(|flow| &self.lines[flow])
    }

    /// It belongs to somebody else, or nobody. There are no packets in it.
    pub fn lend(&mut self, owner: Option<u32>) {
        assert_eq!(self.backlog, Bytes::ZERO, "only who has no packets gives a set back");
        self.owner = owner;
        (self.tags, self.turns, self.rounds) = ([None; FLOWS], [Turn::IDLE; FLOWS], Rounds::default());
        (self.active, self.shared) = (0, [0; FLOWS]);
    }
}

impl<A: Clone> Sets<A> {
    /// For at most so many users.
    pub fn new(users: usize, aqm: &A) -> Sets<A> {
        Sets { sets: (0..users.min(SETS_MAX)).map(|_| Set::new(aqm)).collect(), hand: 0 }
    }

    /// A set for a user, and who had it; `None` where others need all that were looked at.
    pub fn take(
        &mut self,
        user: usize,
        has_packets: impl Fn(usize) -> bool,
    ) -> Option<(usize, Option<usize>)> {
        for _ in 0..SWEEP_MAX.min(self.sets.len()) {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.sets.len();
            let owner = self.sets[at].owner.map(|owner| owner as usize);
            if owner.is_none_or(|owner| !has_packets(owner)) {
                self.sets[at].lend(Some(user as u32));
                return Some((at, owner));
            }
        }
        None
    }

    /// All flows begin with copies of this algorithm, those to come, too.
    pub fn set_aqm(&mut self, aqm: &A) {
        let lines = self.sets.iter_mut().flat_map(|set| &mut set.lines);
        lines.for_each(|line| line.aqm = aqm.clone());
    }

    /// Its user starts anew.
    pub fn give_back(&mut self, set: usize) {
        self.sets[set].lend(None);
    }
}

impl<A> Sets<A> {
    /// Memory of them all.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    /// A set.
    pub fn get(&mut self, set: usize) -> &mut Set<A> {
        &mut self.sets[set]
    }

    /// The same to look at.
    pub fn look(&self, set: usize) -> &Set<A> {
        &self.sets[set]
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> PerUser<A, T, G> {
    /// Where a packet of a user goes: among its flows, where it is held to a rate, its plan tells its flows
    /// apart and there is a set for it.
    #[inline]
    pub(super) fn flow_of(&mut self, at: usize, hash: u32) -> Option<usize> {
        let sets = self.sets.as_mut()?;
        let is_held = || self.paces.as_ref().is_some_and(|paces| paces.rate(at).is_some());
        let is_one = || self.entitled.as_ref().is_some_and(|entitled| entitled.is_one_fifo(at));
        // Who has packets in a set when its plan changes keeps that until they have left.
        if self.turns[at].waiting == 0
            && is_one()
            && let Some(set) = self.users[at].set.take()
        {
            sets.give_back(set as usize);
        }
        if self.users[at].set.is_none() && is_held() && !is_one() {
            let turns = &self.turns;
            let (set, before) = sets.take(at, |owner| turns[owner].waiting > 0)?;
            before.into_iter().for_each(|before| self.users[before].set = None);
            self.users[at].set = Some(set as u32);
        }
        let user = &self.users[at];
        Some(sets.get(user.set? as usize).flow_of(hash, &user.line.aqm))
    }

    /// The set of a user whose flows are told apart.
    #[inline]
    pub(super) fn set_of(&self, at: usize) -> Option<&Set<A>> {
        Some(self.sets.as_ref()?.look(self.users[at].set? as usize))
    }

    /// The FIFO of a user, or that of one of its flows.
    #[inline]
    pub(super) fn line(&self, at: usize, flow: Option<usize>) -> &Line<A> {
        let set = flow.and_then(|flow| Some(self.set_of(at)?.line(flow)));
        set.unwrap_or(&self.users[at].line)
    }

    /// A packet left its FIFO.
    #[inline]
    pub(super) fn left(&mut self, at: usize, flow: Option<usize>, len: Bytes) {
        self.turns[at].waiting -= 1;
        if let Some(entitled) = &mut self.entitled {
            entitled.taken(at);
        }
        self.sum.remove(len);
        if let (Some(sets), Some(set), Some(flow)) = (&mut self.sets, self.users[at].set, flow) {
            sets.get(set as usize).left(flow, len);
        }
    }
}

/// The FIFO of a user, or that of a flow where flows are told apart.
#[inline]
pub(super) fn line_of<'a, A: Clone>(
    users: &'a mut [User<A>],
    sets: &'a mut Option<Sets<A>>,
    at: usize,
    flow: Option<usize>,
) -> &'a mut Line<A> {
    let user = &mut users[at];
    match (sets, user.set, flow) {
        (Some(sets), Some(set), Some(flow)) => sets.get(set as usize).line_mut(flow),
        _ => &mut user.line,
    }
}
