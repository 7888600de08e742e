//! Flows of users that do not respond: a shaper for each user who has some.
//!
//! Few users have any, so that a bounded number of shapers is lent to users while these have packets in them.
//! Who finds none has the algorithm do what else it can. Users who are held to rates or plans have none:
//! their flows wait for the rate in FIFOs of their own.

use super::PerUser;
use crate::shaped::Shaped;
use crate::{Departure, Outbox};
use weir_aqm::{Aqm, Guide, Packet};
use weir_units::{Bytes, Time};

/// Most users who have flows shaped at once.
const USERS_MAX: usize = 16;

/// The shapers of all users.
pub(super) struct Shapers<T> {
    shapers: Box<[Lent<T>]>,
    /// Packets and bytes in all of them.
    packets: u32,
    backlog: Bytes,
}

/// A shaper, and whose it is or was.
struct Lent<T> {
    user: Option<u32>,
    shaped: Shaped<T>,
}

impl<T: Copy> Shapers<T> {
    /// For so many users at most, if the algorithm has flows shaped.
    pub fn under<A: Aqm>(users: usize, packets: u32, grows: bool, salt: u64) -> Option<Shapers<T>> {
        let shaper = |_| Lent { user: None, shaped: Shaped::new(packets, grows, salt) };
        let shapers = || (0..users.min(USERS_MAX)).map(shaper).collect();
        A::SHAPES.then(|| Shapers { shapers: shapers(), packets: 0, backlog: Bytes::ZERO })
    }

    /// The shaper of a user: its own, or one in which nobody waits.
    fn of(&mut self, user: usize) -> Option<&mut Shaped<T>> {
        let own = |lent: &Lent<T>| lent.user == Some(user as u32);
        let is_free = |lent: &Lent<T>| lent.shaped.packets() == 0;
        let at = self.shapers.iter().position(own).or_else(|| self.shapers.iter().position(is_free))?;
        let lent = &mut self.shapers[at];
        lent.user = Some(user as u32);
        Some(&mut lent.shaped)
    }

    /// A user starts anew: what still waits of it is nobody's.
    pub fn forget(&mut self, user: usize) {
        let own = self.shapers.iter_mut().filter(|lent| lent.user == Some(user as u32));
        own.for_each(|lent| lent.user = None);
    }

    /// Packets and bytes of a user.
    fn held_of(&self, user: usize) -> (u32, Bytes) {
        let own = self.shapers.iter().find(|lent| lent.user == Some(user as u32));
        own.map_or((0, Bytes::ZERO), |lent| (lent.shaped.packets(), lent.shaped.backlog()))
    }

    /// Packets of all.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes of all.
    pub fn backlog(&self) -> Bytes {
        self.backlog
    }

    /// When the first packet may leave.
    pub fn due(&self) -> Option<Time> {
        self.shapers.iter().filter_map(|lent| lent.shaped.due()).min()
    }

    /// What waits may leave at once.
    pub fn let_go(&mut self) {
        self.shapers.iter_mut().for_each(|lent| lent.shaped.let_go());
    }

    /// Memory of all, that of packets included.
    pub fn bytes(&self) -> usize {
        self.shapers.iter().map(|lent| size_of::<Lent<T>>() + lent.shaped.bytes()).sum()
    }

    fn count(&mut self) {
        self.packets = self.shapers.iter().map(|lent| lent.shaped.packets()).sum();
        self.backlog = Bytes::new(self.shapers.iter().map(|lent| lent.shaped.backlog().get()).sum());
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> PerUser<A, T, G> {
    /// Stores a packet in the shaper of its user, if its algorithm wants it there; else returns it.
    #[inline]
    pub(super) fn shape(
        &mut self,
        now: Time,
        at: usize,
        packet: &Packet,
        item: T,
        out: &mut impl Outbox<T>,
    ) -> Option<T> {
        if !A::SHAPES || self.paces.is_some() {
            return Some(item);
        }
        let Some(rate) = self.users[at].line.aqm.shaped(packet) else { return Some(item) };
        let fits = self.fits(at, packet.len);
        let Some(shapers) = &mut self.shapers else { return Some(item) };
        let Some(shaped) = shapers.of(at) else { return Some(item) };
        self.users[at].line.aqm.on_shaped(now, packet);
        self.guide.on_beside(now, packet);
        shaped.offer(*packet, item, rate, fits, &mut self.counters, out);
        shapers.count();
        None
    }

    /// The next packet of a shaper that may leave by now.
    #[inline]
    pub(super) fn take_shaped(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        let shapers = self.shapers.as_mut().filter(|shapers| A::SHAPES && shapers.packets > 0)?;
        let due = |lent: &&mut Lent<T>| lent.shaped.due().is_some_and(|due| due <= now);
        let lent = shapers.shapers.iter_mut().filter(due).min_by_key(|lent| lent.shaped.due())?;
        let departure = lent.shaped.take(now, &mut self.counters, out);
        let user = lent.user;
        shapers.count();
        let packet = departure.as_ref()?.packet;
        if let Some(user) = user {
            let user = user as usize;
            self.users[user].line.aqm.on_shaped_sent(now, &packet);
            self.users[user].active = now;
            self.turns[user].charge(packet.len);
        }
        if self.packets_in_all() == 0 {
            self.guide.on_idle();
        }
        departure
    }

    /// The shapers, if packets wait in them.
    #[inline]
    pub(super) fn busy_shapers(&self) -> Option<&Shapers<T>> {
        self.shapers.as_ref().filter(|shapers| A::SHAPES && shapers.packets > 0)
    }

    /// Packets and bytes of a user that are shaped.
    #[inline]
    pub(super) fn shaped_of(&self, at: usize) -> (u32, Bytes) {
        self.busy_shapers().map_or((0, Bytes::ZERO), |shapers| shapers.held_of(at))
    }

    /// Packets that wait, shaped or not.
    #[inline]
    pub(super) fn packets_in_all(&self) -> u32 {
        self.sum.packets + self.busy_shapers().map_or(0, Shapers::packets)
    }
}
