//! Flows of users that do not respond: a shaper for each user who has some.
//!
//! Few users have any, so that a bounded number of shapers is lent to users. Who finds none has the algorithm
//! do what else it can. Users who are held to rates or plans have none: their flows wait for the rate in
//! FIFOs of their own.

use super::PerUser;
use crate::shaped::{Shaped, Shapers};
use crate::{Departure, Outbox};
use weir_aqm::{Aqm, Guide, Packet};
use weir_units::{Bytes, Time};

/// Most users who have flows shaped at once.
const USERS_MAX: usize = 16;

/// The shapers of all users, who own them by their places.
pub(super) struct UserShapers {
    shapers: Shapers,
    /// Packets and bytes in all of them.
    packets: u32,
    backlog: Bytes,
}

impl UserShapers {
    /// For so many users at most, if the algorithm has flows shaped.
    pub fn under<A: Aqm>(users: usize, salt: u64) -> Option<UserShapers> {
        let shapers = || Shapers::new(users.min(USERS_MAX), salt);
        A::SHAPES.then(|| UserShapers { shapers: shapers(), packets: 0, backlog: Bytes::ZERO })
    }

    /// The shaper of a user: its own, or one that is lent to it.
    fn of(&mut self, user: usize) -> Option<&mut Shaped> {
        let owner = user as u64;
        let at = self.shapers.find(owner).or_else(|| self.shapers.lend(owner))?;
        self.shapers.get(at, owner)
    }

    /// A user starts anew: what still waits of it is nobody's.
    pub fn forget(&mut self, user: usize) {
        if let Some(at) = self.shapers.find(user as u64) {
            self.shapers.give_back(at, user as u64);
        }
    }

    /// Packets and bytes of a user.
    fn held_of(&self, user: usize) -> (u32, Bytes) {
        let own = self.shapers.iter().find(|(owner, _)| *owner == user as u64);
        own.map_or((0, Bytes::ZERO), |(_, shaped)| (shaped.packets(), shaped.backlog()))
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
        self.shapers.iter().filter_map(|(_, shaped)| shaped.due()).min()
    }

    /// What waits may leave at once.
    pub fn let_go(&mut self) {
        self.shapers.iter_mut().for_each(|(_, shaped)| shaped.let_go());
    }

    /// Memory of all.
    pub fn bytes(&self) -> usize {
        self.shapers.bytes()
    }

    fn count(&mut self) {
        self.packets = self.shapers.iter().map(|(_, shaped)| shaped.packets()).sum();
        self.backlog = Bytes::new(self.shapers.iter().map(|(_, shaped)| shaped.backlog().get()).sum());
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
        shaped.offer(&mut self.pool, (*packet, item), rate, fits, &mut self.counters, out);
        shapers.count();
        None
    }

    /// The next packet of a shaper that may leave by now.
    #[inline]
    pub(super) fn take_shaped(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        let shapers = self.shapers.as_mut().filter(|shapers| A::SHAPES && shapers.packets > 0)?;
        let due = |(_, shaped): &(u64, &mut Shaped)| shaped.due().is_some_and(|due| due <= now);
        let first = shapers.shapers.iter_mut().filter(due).min_by_key(|(_, shaped)| shaped.due());
        let (user, shaped) = first?;
        let departure = shaped.take(&mut self.pool, now, &mut self.counters, out);
        shapers.count();
        let packet = departure.as_ref()?.packet;
        // What waits of a user who started anew is nobody's.
        if let Some(user) = usize::try_from(user).ok().filter(|user| *user < self.users.len()) {
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
    pub(super) fn busy_shapers(&self) -> Option<&UserShapers> {
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
        self.sum.packets + self.busy_shapers().map_or(0, UserShapers::packets)
    }
}
