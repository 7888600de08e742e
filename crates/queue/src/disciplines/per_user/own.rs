//! Customers with a guide of their own: it is told of one customer what the guide of all is told of the
//! queue, and the rate that the customer is held to is its link.
//!
//! To the guide of all, packets of such a customer wait beside: they fill the link, and it decides nothing
//! about them.

use super::PerUser;
use super::flows::line_of;
use crate::OwnGuides;
use crate::pool::Slot;
use crate::settle::Decision;
use weir_aqm::{Aqm, Cause, Guide, Moment, Packet, View};
use weir_units::{Duration, Rate};

/// The guide that the user with this key has of its own.
#[inline]
pub(super) fn own_of<G>(own: &mut OwnGuides<G>, key: u32) -> Option<&mut G> {
    own.get_mut(key as usize)?.as_deref_mut()
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> PerUser<A, T, G> {
    /// Whether a user has a guide of its own.
    #[inline]
    pub(super) fn has_own(&self, at: usize) -> bool {
        self.own.get(self.users[at].key as usize).is_some_and(Option::is_some)
    }

    /// A user as a whole. Its delay is the time that everything takes at its rate.
    fn whole_of(&self, at: usize) -> View {
        let rate = self.paces.as_ref().and_then(|paces| paces.rate(at)).unwrap_or(Rate::ZERO);
        let backlog = self.backlog_of(at);
        let delay = if rate == Rate::ZERO { Duration::ZERO } else { rate.time_for(backlog) };
        View { backlog, packets: self.turns[at].waiting, delay, rate }
    }

    /// What the algorithm of a user with a guide of its own is told. Where all its flows have one FIFO, its
    /// link is the rate that it is held to, also while it has to share the real one: a virtual queue is
    /// served at a part of that.
    pub(super) fn own_moment(&self, at: usize, m: &Moment) -> Moment {
        let mut m = *m;
        let own = self.paces.as_ref().and_then(|paces| paces.rate(at));
        if let (Some(rate), Some(entitled)) = (own, &self.entitled)
            && entitled.is_one_fifo(at)
        {
            m.queue.rate = rate;
        }
        m
    }

    /// Decides about an arrival for a user with a guide of its own.
    #[inline(never)]
    pub(super) fn admit_by_own(
        &mut self,
        at: usize,
        flow: Option<usize>,
        fits: bool,
        m: &Moment,
        packet: &Packet,
    ) -> Result<bool, Cause> {
        let (whole, key) = (self.whole_of(at), self.users[at].key);
        let m = &self.own_moment(at, m);
        let aqm = &mut line_of(&mut self.users, &mut self.sets, at, flow).aqm;
        let guide = own_of(&mut self.own, key).expect("whoever asks has looked");
        let decision = Decision { aqm, guide, counters: &mut self.counters };
        let admitted = decision.admit(fits, || whole, m, packet);
        if admitted.is_ok() {
            self.guide.on_beside(m.now, packet);
        }
        admitted
    }

    /// Decides about a head of a user with a guide of its own.
    #[inline(never)]
    pub(super) fn release_by_own(
        &mut self,
        at: usize,
        flow: Option<usize>,
        drops: &mut u32,
        m: &Moment,
        head: &Slot<T>,
    ) -> Result<bool, Cause> {
        let (whole, key) = (self.whole_of(at), self.users[at].key);
        let m = &self.own_moment(at, m);
        let line = line_of(&mut self.users, &mut self.sets, at, flow);
        line.last_delay = m.now.since(head.packet.arrived);
        let guide = own_of(&mut self.own, key).expect("whoever asks has looked");
        let decision = Decision { aqm: &mut line.aqm, guide, counters: &mut self.counters };
        decision.release(drops, || whole, m, &head.packet, head.marked)
    }
}
