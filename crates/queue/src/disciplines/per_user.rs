//! A FIFO and an algorithm for each user, served in turn: for a network function that carries many.
//!
//! A user is whoever has the same host hash: an address, a prefix, a VLAN or a tunnel. Whoever hosts the
//! queue makes the hash, a live link after the parameters `prefix4`, `prefix6` and `vlan`. Users come into
//! being with their first packet, or by [`PerUser::admit`]. All memory for them is allocated at the start, so
//! that it has a bound that is known then ([`PerUser::bytes_per_user`]). When all places are taken, a
//! newcomer gets that of somebody who sent one packet or was idle for `idle`, else its packets wait in a
//! queue that all without a place share (`strangers.rs`).
//!
//! Room for packets is shared by a dynamic threshold (A. K. Choudhury, E. L. Hahne, "Dynamic queue length
//! thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998): a user may
//! have as much as is still free, so that there is always room for others, without looking for the longest of
//! many.
//!
//! Where each user has a bottleneck of its own elsewhere, each can be held to a rate
//! ([`Discipline::set_rate_of`]): one who may not send yet is passed over, and [`Discipline::head_arrived`]
//! says when the first of them may. What waits for that rate waits in a FIFO for each flow, each with an
//! algorithm, so that a download of a user does not delay its call.

mod ahead;
pub(crate) mod flows;
mod own;
mod paces;
mod plans;
mod shaped;
mod strangers;
mod table;

use crate::disciplines::{Entry, Fifos, Managed, OverAny, Setup, UserKey, Visitor};
use crate::lanes::{LaneParams, Lanes, NQB_BUFFER, NQB_BUFFER_MAX, NQB_BUFFER_MIN, Way};
use crate::memory;
use crate::pool::{Chain, Pool, Slot};
use crate::rounds::{Rounds, Turn};
use crate::settle::{Decision, random_bits};
use crate::sum::Sum;
use crate::{Arrival, Counters, Departure, Discipline, Hosts, Limits, Outbox, OwnGuides, UserCounters};
use flows::{Set, Sets, line_of};
use own::own_of;
use paces::Paces;
use plans::Entitlements;
pub use plans::{Plan, Plans, UserNow};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use shaped::UserShapers;
use std::iter::repeat_n;
use strangers::{Newcomer, Standing, Strangers, standing};
use table::Table;
use weir_aqm::{Aqm, Cause, Ecn, Guide, Moment, Packet, Sample, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// Most places that are looked at for one that can be given away when a new user comes and all are taken.
pub const SWEEP_MAX: usize = 16;

weir_aqm::params! {
    /// Parameters of PerUser.
    pub struct Params {
        /// Most users; memory for them is allocated at the start.
        users: u32 = 1024, 1 => 1_000_000;
        /// Whether a user is whoever sends, by source address, instead of whoever receives.
        by_sender: bool = false, false => true;
        /// Bits of an IPv4 address that name a user on a live link: 32 for a host, less for a network.
        prefix4: u32 = 32, 0 => 32;
        /// The same of an IPv6 address; networks give a user 64 or less.
        prefix6: u32 = 128, 0 => 128;
        /// Whether a user is a VLAN on a live link (both tags, where there are two) instead of an address.
        vlan: bool = false, false => true;
        /// How long a user must have been idle before any newcomer may take the place, when all are taken;
        /// who sent fewer than 65 packets keeps it for a part of that, and who sent one does not keep it. A
        /// user who comes back after that starts anew.
        idle: Duration = Duration::from_secs(60), Duration::from_millis(1) => Duration::from_secs(86_400);
        /// Bytes that a user sends in one round, about one packet of the largest size.
        quantum: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(1_000_000);
        /// Most bytes of one user.
        user_memory: Bytes = Bytes::new(4_000_000), Bytes::new(1500) => Bytes::new(4_000_000_000);
        /// Most packets stored, beside the room of the link.
        packets: u32 = 102_400, 1 => 10_000_000;
        /// Most bytes stored, beside the room of the link.
        memory: Bytes = Bytes::new(128_000_000), Bytes::new(1500) => Bytes::new(64_000_000_000);
        /// Delay above which each packet with ECT(1) is marked, beside what the algorithm does, as senders of
        /// L4S need it (RFC 9331 section 5.2): in the user's FIFO, or with `nqb` in its lane. Zero turns it
        /// off.
        l4s_threshold: Duration = Duration::ZERO, Duration::ZERO => Duration::from_secs(1);
        /// Whether each user has a shallow lane beside the FIFO for packets of NQB (DSCP 45, RFC 9956), and
        /// with `l4s_threshold` for those of L4S; both get the same share of what the user gets.
        nqb: bool = false, false => true;
        /// Room of a lane, as time at the link's rate, or at that of the user, but two packets at least.
        nqb_buffer: Duration = NQB_BUFFER, NQB_BUFFER_MIN => NQB_BUFFER_MAX;
        /// Whether packets of flows that build a queue in a lane go to the FIFO beside it (queue protection,
        /// RFC 9957); needs `nqb`.
        protection: bool = false, false => true;
    }
}

/// What every packet needs comes first and within a cache line: the memory of most users is in no cache when
/// a packet comes for them.
#[repr(C, align(64))]
struct User<A> {
    key: u32,
    /// Where its flows are told apart, if they are.
    set: Option<u32>,
    /// Packets since it got its place.
    sent: u32,
    active: Time,
    line: Line<A>,
}

/// A FIFO and its algorithm: of a user, or of one of its flows.
#[repr(C)]
pub(crate) struct Line<A> {
    pub fifo: Chain,
    pub packets: u32,
    pub backlog: Bytes,
    pub last_delay: Duration,
    pub aqm: A,
}

impl<A> Line<A> {
    fn new(aqm: A) -> Line<A> {
        Line { fifo: Chain::default(), packets: 0, backlog: Bytes::ZERO, last_delay: Duration::ZERO, aqm }
    }

    /// Stores a packet.
    #[inline]
    pub fn push<T: Copy>(&mut self, pool: &mut Pool<T>, packet: Packet, marked: bool, item: T) {
        pool.push(&mut self.fifo, packet, marked, item);
        self.backlog += packet.len;
        self.packets += 1;
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop<T: Copy>(&mut self, pool: &mut Pool<T>) -> Option<Slot<T>> {
        let slot = *pool.pop(&mut self.fifo)?;
        self.backlog -= slot.packet.len;
        self.packets -= 1;
        Some(slot)
    }
}

/// See the [module documentation](self).
pub struct PerUser<A, T, G = ()> {
    /// One for each place, and behind them the queue of those without a place.
    users: Box<[User<A>]>,
    turns: Box<[Turn]>,
    rounds: Rounds,
    /// The users' rates, where they may have some, and then the flows of those who are held to one.
    paces: Option<Paces>,
    sets: Option<Sets<A>>,
    /// Shapers for flows that do not respond, where the algorithm has some shaped.
    shapers: Option<UserShapers>,
    /// Plans, where there may be some: users are then on the rounds of their sites.
    entitled: Option<Entitlements>,
    table: Table,
    /// What a new user starts with.
    fresh: A,
    /// Places that were ever given out.
    used: usize,
    /// Where the search for a place to give away goes on.
    hand: usize,
    pool: Pool<T>,
    guide: G,
    /// Guides of single customers in its place, by the number of the plan.
    own: OwnGuides<G>,
    limits: Limits,
    user_memory: Bytes,
    idle: Duration,
    by_sender: bool,
    quantum: i64,
    sum: Sum,
    /// Users that have something to send.
    active: u32,
    latest: Time,
    /// The user that was served last, and its flow.
    served: (usize, Option<usize>),
    strangers: Strangers,
    user_counters: UserCounters,
    dice: SplitMix64,
    counters: Counters,
    /// Where packets with ECT(1) are marked; [`Duration::MAX`] where they are not.
    shallow: Duration,
    /// One for each user, where they are wanted.
    lanes: Option<Lanes>,
}

impl<A: Aqm + Clone, T: Copy> PerUser<A, T> {
    /// An empty queue, with a copy of `aqm` for each user.
    pub fn new(params: &Params, aqm: A, setup: &Setup) -> Self {
        Self::guided(params, aqm, (), setup)
    }
}

impl<A, T, G> PerUser<A, T, G> {
    /// Memory of a user without packets.
    pub fn bytes_per_user() -> usize {
        size_of::<User<A>>() + size_of::<Turn>() + Table::bytes_per_key()
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> PerUser<A, T, G> {
    /// The same with a guide.
    pub fn guided(params: &Params, aqm: A, guide: G, setup: &Setup) -> Self {
        let lane = LaneParams {
            buffer: params.nqb_buffer,
            l4s_threshold: params.l4s_threshold,
            protection: params.protection,
        };
        let count = params.users as usize + 1;
        // The last place is of those without one, who are no customers.
        let key = |at| if at + 1 == count { u32::MAX } else { 0 };
        let user = |at| {
            let line = Line::new(aqm.clone());
            User { key: key(at), set: None, sent: 0, active: Time::ZERO, line }
        };
        let limits = Limits {
            bytes: setup.limits.bytes.min(params.memory),
            packets: setup.limits.packets.min(params.packets),
        };
        let room = if setup.grows { 0 } else { limits.packets as usize };
        PerUser {
            users: memory::array((0..count).map(user)),
            turns: memory::array(repeat_n(Turn::IDLE, count)),
            rounds: Rounds::default(),
            paces: None,
            sets: None,
            shapers: UserShapers::under::<A>(count, setup.seed),
            entitled: None,
            table: Table::new(params.users as usize, setup.seed),
            fresh: aqm,
            used: 0,
            hand: 0,
            pool: Pool::with_capacity(room),
            guide,
            own: OwnGuides::default(),
            limits,
            user_memory: params.user_memory,
            idle: params.idle,
            by_sender: params.by_sender,
            quantum: params.quantum.get() as i64,
            sum: Sum::new(setup.rate),
            active: 0,
            latest: Time::ZERO,
            served: (0, None),
            strangers: Strangers::new(),
            user_counters: UserCounters::default(),
            dice: SplitMix64::seed_from_u64(setup.seed),
            counters: Counters::default(),
            shallow: lane.marked_above(),
            lanes: params.nqb.then(|| Lanes::new(count, lane)),
        }
    }

    /// The same queue, with what waits in it, under another guide.
    pub fn under<H: Guide<A>>(self, guide: H) -> PerUser<A, T, H> {
        let PerUser { users, turns, rounds, paces, sets, shapers, entitled, table, fresh, used, hand, pool, guide: _, own: _, limits, user_memory, idle, by_sender, quantum, sum, active, latest, served, strangers, user_counters, dice, counters, shallow, lanes } = self;
        PerUser { users, turns, rounds, paces, sets, shapers, entitled, table, fresh, used, hand, pool, guide, own: OwnGuides::default(), limits, user_memory, idle, by_sender, quantum, sum, active, latest, served, strangers, user_counters, dice, counters, shallow, lanes }
    }

    /// Gives a user a place before the first packet, which counts as one; whether there was one.
    pub fn admit(&mut self, now: Time, key: u32) -> bool {
        self.place(now, key).is_ok()
    }

    /// Tells the algorithm of one user what was measured for it; whether the user is known.
    pub fn sample_of(&mut self, key: u32, now: Time, sample: Sample) -> bool {
        let place = self.table.find(key, |at| self.users[at].key);
        place.map(|at| self.tell(at, now, sample)).is_some()
    }

    /// A flow that comes later begins with a copy of the user's algorithm, which was told as well.
    fn tell(&mut self, at: usize, now: Time, sample: Sample) {
        let user = &mut self.users[at];
        user.line.aqm.on_sample(now, sample);
        if let (Some(sets), Some(set)) = (&mut self.sets, user.set) {
            sets.get(set as usize).aqms().for_each(|aqm| aqm.on_sample(now, sample));
        }
    }

    /// Users that have a place, idle ones included.
    pub fn users(&self) -> usize {
        self.used
    }

    /// Where those without a place wait.
    #[inline]
    fn shared(&self) -> usize {
        self.users.len() - 1
    }

    /// The place of a user, or what the user is who has none.
    #[inline]
    fn place(&mut self, now: Time, key: u32) -> Result<usize, Newcomer> {
        let users = &self.users;
        match self.table.find(key, |at| users[at].key) {
            Some(at) => {
                if self.is_forgotten(now, at) {
                    self.begin(at);
                }
                let user = &mut self.users[at];
                (user.active, user.sent) = (now, user.sent.saturating_add(1));
                Ok(at)
            }
            None => self.take_place(now, key),
        }
    }

    /// A user without packets starts anew.
    #[cold]
    fn begin(&mut self, at: usize) {
        let user = &mut self.users[at];
        user.sent = 0;
        user.line.aqm = self.fresh.clone();
        if let (Some(sets), Some(set)) = (&mut self.sets, user.set.take()) {
            sets.give_back(set as usize);
        }
        if let Some(paces) = &mut self.paces {
            paces.reset(at);
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.reset(at);
        }
        if let Some(shapers) = &mut self.shapers {
            shapers.forget(at);
        }
        if let Some(entitled) = &mut self.entitled {
            entitled.begin(at);
        }
        self.entitle(at);
    }

    /// Whether a user was idle for so long that its past does not count.
    #[inline]
    fn is_forgotten(&self, now: Time, at: usize) -> bool {
        now.since(self.users[at].active) >= self.idle && self.turns[at].is_idle()
    }

    /// A place for a newcomer. Who has packets in the shared queue gets one that waits for these.
    #[cold]
    fn take_place(&mut self, now: Time, key: u32) -> Result<usize, Newcomer> {
        let newcomer = self.strangers.look(&self.table, key, self.turns[self.shared()].waiting);
        self.strangers.remember(newcomer, key);
        let found = if newcomer.waits && !self.strangers.can_hold() {
            None
        } else if self.used < self.shared() {
            self.used += 1;
            Some(self.used - 1)
        } else {
            self.sweep(now, newcomer.is_known)
        };
        let at = found.ok_or(newcomer)?;
        self.users[at].key = key;
        self.begin(at);
        let user = &mut self.users[at];
        (user.key, user.sent, user.active, user.line.last_delay) = (key, 1, now, Duration::ZERO);
        self.table.insert(key, at);
        self.user_counters.placed += 1;
        if newcomer.waits {
            self.strangers.hold(at);
            self.rounds.put_off(&mut self.turns, at, self.quantum);
            self.active += 1;
        }
        Ok(at)
    }

    /// Looks for a place to give away, a few places further each time, and takes it from its user. Who sent
    /// one packet or was idle for `idle` goes first, and for a newcomer who was seen before, who sent the
    /// least of those who are silent.
    fn sweep(&mut self, now: Time, is_known: bool) -> Option<usize> {
        let places = self.shared();
        let mut best: Option<(Standing, usize)> = None;
        for _ in 0..SWEEP_MAX.min(places) {
            let at = self.hand;
            self.hand = (self.hand + 1) % places;
            let User { sent, active, .. } = self.users[at];
            let Some(standing) = standing(sent, now, active, self.idle) else { continue };
            if !self.turns[at].is_idle() || best.is_some_and(|(least, _)| least <= standing) {
                continue;
            }
            best = Some((standing, at));
            if standing == Standing::Spare {
                break;
            }
        }
        let (_, at) = best.filter(|(standing, _)| is_known || *standing == Standing::Spare)?;
        let users = &self.users;
        let key = users[at].key;
        self.table.remove(key, |other| users[other].key);
        if !self.is_forgotten(now, at) {
            self.user_counters.displaced += 1;
            let before = self.strangers.look(&self.table, key, 0);
            self.strangers.remember(before, key);
        }
        Some(at)
    }

    /// Stores an arrival of somebody who has no place.
    #[cold]
    fn offer_shared(
        &mut self,
        now: Time,
        newcomer: Newcomer,
        packet: Packet,
        item: T,
        out: &mut impl Outbox<T>,
    ) {
        let at = self.shared();
        let before = self.turns[at].waiting;
        self.user_counters.shared += 1;
        self.offer(now, at, packet, item, out);
        if self.turns[at].waiting > before {
            self.strangers.stored(newcomer);
        }
    }

    /// A packet left the shared queue: who waited for that takes part in the rounds.
    #[cold]
    fn left_shared(&mut self) {
        while let Some(at) = self.strangers.release(self.turns[self.shared()].waiting) {
            self.resume(at);
        }
    }

    fn moment(&mut self, now: Time, at: usize, flow: Option<usize>) -> Moment {
        let flows = if flow.is_some() { self.set_of(at).map_or(1, |set| set.active().max(1)) } else { 1 };
        let share = self.sum.share(self.active);
        let of_site = self.entitled.as_ref().and_then(|entitled| entitled.share(at));
        let share = of_site.map_or(share, |own| if share == Rate::ZERO { own } else { own.min(share) });
        let own = self.paces.as_ref().and_then(|paces| paces.rate(at));
        let rate = own.map_or(share, |own| if share == Rate::ZERO { own } else { own.min(share) });
        let line = self.line(at, flow);
        let queue = View {
            backlog: line.backlog,
            packets: line.packets,
            delay: line.last_delay,
            rate: if flows > 1 { Rate::from_bps(rate.as_bps() / u64::from(flows)) } else { rate },
        };
        Moment::new(now, queue, random_bits::<A>(&mut self.dice))
    }

    fn wake(&mut self, now: Time, at: usize, flow: Option<usize>) {
        if self.line(at, flow).aqm.next_wakeup().is_some_and(|due| due <= now) {
            let m = self.moment(now, at, flow);
            let (key, of_own) = (self.users[at].key, self.own_moment(at, &m));
            let line = line_of(&mut self.users, &mut self.sets, at, flow);
            match own_of(&mut self.own, key) {
                Some(own) => own.on_wakeup(&mut line.aqm, &of_own),
                None => self.guide.on_wakeup(&mut line.aqm, &m),
            }
        }
    }

    /// Whether a packet of a user may be stored: in what the user may have of what is free.
    fn fits(&self, at: usize, len: Bytes) -> bool {
        let (packets, bytes) = self.shaped_of(at);
        let free = self.limits.bytes - self.backlog();
        let own = self.backlog_of(at) + bytes + len;
        let packets_free = self.limits.packets - self.packets_in_all();
        own <= free.min(self.user_memory) && self.turns[at].waiting + packets < packets_free
    }

    /// Bytes of a user that wait.
    #[inline]
    fn backlog_of(&self, at: usize) -> Bytes {
        let of_flows = self.set_of(at).map_or(Bytes::ZERO, Set::backlog);
        let beside = self.lanes.as_ref().map_or(Bytes::ZERO, |lanes| lanes.bytes(at));
        self.users[at].line.backlog + of_flows + beside
    }

    /// Stores an arrival of a user, or hands it to the outbox.
    fn offer(&mut self, now: Time, at: usize, packet: Packet, item: T, out: &mut impl Outbox<T>) {
        let flow = self.flow_of(at, packet.flow);
        self.wake(now, at, flow);
        let (m, fits) = (self.moment(now, at, flow), self.fits(at, packet.len));
        if let Some(entitled) = &mut self.entitled {
            let account = entitled.account(at);
            if account.is_exempt && fits {
                self.counters.admitted(Ok(false));
                self.passed_beside(now, at, &packet);
                return self.store(at, flow, packet, false, item);
            }
        }
        let admitted = if self.has_own(at) {
            self.admit_by_own(at, flow, fits, &m, &packet)
        } else {
            let line = line_of(&mut self.users, &mut self.sets, at, flow);
            let (aqm, guide) = (&mut line.aqm, &mut self.guide);
            let decision = Decision { aqm, guide, counters: &mut self.counters };
            decision.admit(fits, || self.sum.view(), &m, &packet)
        };
        match admitted {
            Ok(marked) => self.store(at, flow, packet, marked, item),
            Err(cause) => {
                self.discarded(at);
                out.discarded(&packet, item, cause);
            }
        }
    }

    /// Stores an arrival in the lane of a user, or discards it, if it belongs there; whether it does. Those
    /// without a place have none.
    #[inline(never)]
    fn offer_beside(
        &mut self,
        now: Time,
        at: usize,
        packet: &Packet,
        nqb: bool,
        item: T,
        out: &mut impl Outbox<T>,
    ) -> bool {
        let fits = self.fits(at, packet.len);
        let own = self.paces.as_ref().and_then(|paces| paces.rate(at));
        let Some(lanes) = &mut self.lanes else { return false };
        match lanes.way(at, now, packet, nqb, own.unwrap_or(self.sum.rate())) {
            Way::Classic => return false,
            Way::Sanctioned => {
                self.counters.sanctioned += 1;
                return false;
            }
            Way::Shallow if fits => {
                lanes.push(at, &mut self.pool, *packet, item);
                self.counters.admitted(Ok(false));
                self.passed_beside(now, at, packet);
                self.stored(at, packet);
            }
            Way::Shallow | Way::Full => {
                self.counters.admitted(Err(Cause::Overflow));
                self.discarded(at);
                out.discarded(packet, item, Cause::Overflow);
            }
        }
        true
    }

    /// A packet of a user was admitted without a decision of the user's algorithm: guides count what it fills
    /// of the rate.
    #[inline]
    fn passed_beside(&mut self, now: Time, at: usize, packet: &Packet) {
        own_of(&mut self.own, self.users[at].key).into_iter().for_each(|own| own.on_beside(now, packet));
        self.guide.on_beside(now, packet);
    }

    /// The next packet of the lane of a user.
    #[inline(never)]
    fn take_beside(&mut self, now: Time, at: usize) -> Option<Departure<T>> {
        let lanes = self.lanes.as_mut()?;
        let Slot { packet, item, .. } = lanes.pop(at, &mut self.pool)?;
        self.left(at, None, packet.len);
        let lanes = self.lanes.as_mut()?;
        lanes.sent(at, packet.len, self.turns[at].waiting > lanes.packets(at));
        let sojourn = now.since(packet.arrived);
        let is_exempt = self.entitled.as_mut().is_some_and(|entitled| entitled.account(at).is_exempt);
        let marked = !is_exempt && lanes.marks(&packet, sojourn);
        self.counters.marked += u64::from(marked);
        self.counters.departure(packet.len);
        self.sent(now, at, None, &packet, sojourn, marked);
        if self.turns[at].waiting == 0 {
            own_of(&mut self.own, self.users[at].key).into_iter().for_each(|own| own.on_idle());
        }
        if self.sum.packets == 0 {
            self.guide.on_idle();
        }
        Some(Departure { packet, item, marked, sojourn })
    }

    /// Whether the lane of a user is next.
    #[inline]
    fn is_lane_next(&self, at: usize) -> bool {
        let Some(lanes) = &self.lanes else { return false };
        lanes.is_next(at, self.turns[at].waiting > lanes.packets(at))
    }

    /// A packet of a user was discarded.
    #[inline]
    fn discarded(&mut self, at: usize) {
        if let Some(entitled) = &mut self.entitled {
            entitled.account(at).dropped();
        }
    }

    fn store(&mut self, at: usize, flow: Option<usize>, packet: Packet, marked: bool, item: T) {
        if let (Some(sets), Some(set), Some(flow)) = (&mut self.sets, self.users[at].set, flow) {
            sets.get(set as usize).stored(flow, packet.len, self.quantum);
        }
        let line = line_of(&mut self.users, &mut self.sets, at, flow);
        line.push(&mut self.pool, packet, marked, item);
        self.stored(at, &packet);
    }

    /// A packet of a user was stored.
    fn stored(&mut self, at: usize, packet: &Packet) {
        self.turns[at].waiting += 1;
        self.sum.add(packet.len);
        self.latest = packet.arrived;
        if self.turns[at].is_idle() {
            match &mut self.entitled {
                Some(entitled) => entitled.join(&mut self.turns, at, self.quantum),
                None => self.rounds.join(&mut self.turns, at, self.quantum),
            }
            self.active += 1;
        }
        if !self.turns[at].is_suspended() {
            if let Some(entitled) = &mut self.entitled {
                entitled.stored(at);
            }
        } else if !self.strangers.holds(at)
            && let Some(paces) = &mut self.paces
        {
            paces.stored();
        }
    }

    /// Whose turn it is of those who may send now.
    fn choose(&mut self, now: Time) -> Option<usize> {
        self.release(now);
        if let (Some(entitled), Some(paces)) = (&mut self.entitled, &mut self.paces) {
            let mut left = 0;
            let hold = |at, turn: &Turn| match paces.not_before(at, now) {
                Some(due) => {
                    paces.hold(at, due, turn.waiting);
                    true
                }
                None => false,
            };
            let chosen = entitled.choose(&mut self.turns, now, self.quantum, &mut left, hold);
            self.active -= left;
            return chosen;
        }
        loop {
            let mut left = 0;
            let chosen = self.rounds.choose(&mut self.turns, self.quantum, &mut left);
            self.active -= left;
            let at = chosen?;
            let Some(paces) = &mut self.paces else { return Some(at) };
            let Some(due) = paces.not_before(at, now) else { return Some(at) };
            paces.hold(at, due, self.turns[at].waiting);
            self.rounds.suspend(&mut self.turns, at);
        }
    }

    /// Those whose time has come take part in the rounds again.
    #[inline]
    fn release(&mut self, now: Time) {
        let Some(paces) = &mut self.paces else { return };
        if let Some(due) = self.entitled.as_mut().and_then(|entitled| entitled.release(now)) {
            self.latest = self.latest.max(due);
        }
        while let Some((at, due)) = paces.release(now, |at| self.turns[at].waiting) {
            match &mut self.entitled {
                Some(entitled) => entitled.resume(&mut self.turns, at),
                None => self.rounds.resume(&mut self.turns, at),
            }
            self.latest = self.latest.max(due);
        }
    }

    /// A user that waited for something else than its turn takes part in the rounds again.
    fn resume(&mut self, at: usize) {
        match &mut self.entitled {
            Some(entitled) => entitled.resume(&mut self.turns, at),
            None => self.rounds.resume(&mut self.turns, at),
        }
    }

    /// The next packet of a user; `None` when its algorithms let none go.
    fn take(
        &mut self,
        now: Time,
        at: usize,
        drops: &mut u32,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        if self.is_lane_next(at) {
            self.users[at].active = now;
            self.served = (at, None);
            return self.take_beside(now, at);
        }
        loop {
            // What waits since before the flows were told apart goes first.
            let flow = match (&mut self.sets, self.users[at].set) {
                (Some(sets), Some(set)) if self.users[at].line.packets == 0 => {
                    sets.get(set as usize).choose(self.quantum)
                }
                _ => None,
            };
            let departure = self.take_of(now, at, flow, drops, out);
            self.users[at].active = now;
            if let (Some(lanes), Some(departure)) = (&mut self.lanes, &departure) {
                lanes.classic_sent(at, departure.packet.len);
            }
            if departure.is_some() || self.turns[at].waiting == 0 || self.is_lane_next(at) {
                self.served = (at, flow);
                return departure;
            }
        }
    }

    /// The next packet of a user, or of one of its flows.
    fn take_of(
        &mut self,
        now: Time,
        at: usize,
        flow: Option<usize>,
        drops: &mut u32,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        self.wake(now, at, flow);
        let departure = loop {
            let line = line_of(&mut self.users, &mut self.sets, at, flow);
            let Some(slot) = line.pop(&mut self.pool) else { break None };
            let (packet, sojourn) = (slot.packet, now.since(slot.packet.arrived));
            self.left(at, flow, packet.len);
            if let Some(entitled) = &mut self.entitled
                && entitled.account(at).is_exempt
            {
                self.counters.departure(packet.len);
                self.sent(now, at, flow, &packet, sojourn, false);
                break Some(Departure { packet, item: slot.item, marked: slot.marked, sojourn });
            }
            let m = self.moment(now, at, flow);
            let released = if self.has_own(at) {
                self.release_by_own(at, flow, drops, &m, &slot)
            } else {
                let line = line_of(&mut self.users, &mut self.sets, at, flow);
                line.last_delay = sojourn;
                let (aqm, guide) = (&mut line.aqm, &mut self.guide);
                let decision = Decision { aqm, guide, counters: &mut self.counters };
                decision.release(drops, || self.sum.view(), &m, &packet, slot.marked)
            };
            match released {
                Ok(mut marked) => {
                    if sojourn > self.shallow && packet.ecn == Ecn::Ect1 && !marked {
                        self.counters.marked += 1;
                        marked = true;
                    }
                    self.sent(now, at, flow, &packet, sojourn, marked);
                    break Some(Departure { packet, item: slot.item, marked, sojourn });
                }
                Err(cause) => {
                    self.discarded(at);
                    out.discarded(&packet, slot.item, cause);
                }
            }
        };
        let key = self.users[at].key;
        let line = line_of(&mut self.users, &mut self.sets, at, flow);
        if line.packets == 0 {
            line.last_delay = Duration::ZERO;
            match own_of(&mut self.own, key) {
                Some(own) => {
                    own.on_empty(&mut line.aqm, self.turns[at].waiting == 0, now);
                    if self.sum.packets == 0 {
                        self.guide.on_idle();
                    }
                }
                None => self.guide.on_empty(&mut line.aqm, self.sum.packets == 0, now),
            }
        }
        departure
    }

    /// A packet goes out.
    #[inline]
    fn sent(
        &mut self,
        now: Time,
        at: usize,
        flow: Option<usize>,
        packet: &Packet,
        sojourn: Duration,
        is_marked: bool,
    ) {
        self.turns[at].charge(packet.len);
        if let Some(entitled) = &mut self.entitled {
            entitled.sent(at, now, packet.arrived, packet.len);
            entitled.counted(at, packet.len, sojourn, is_marked);
        }
        if let Some(paces) = &mut self.paces {
            paces.sent(at, now, packet.arrived, packet.len);
        }
        if let (Some(sets), Some(set), Some(flow)) = (&mut self.sets, self.users[at].set, flow) {
            sets.get(set as usize).sent(flow, packet.len);
        }
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> Discipline<T> for PerUser<A, T, G> {
    const EXPECTS: bool = true;

    fn expect(&self, hosts: &[Hosts]) {
        self.ask_ahead(hosts);
    }

    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>) {
        let packet = self.counters.arrive(now, &arrival);
        match self.place(now, arrival.hosts.user(self.by_sender)) {
            Ok(at) if self.lanes.is_some()
                && self.offer_beside(now, at, &packet, arrival.nqb, item, out) => {}
            Ok(at) => {
                if let Some(item) = self.shape(now, at, &packet, item, out) {
                    self.offer(now, at, packet, item, out);
                }
            }
            Err(newcomer) => self.offer_shared(now, newcomer, packet, item, out),
        }
        debug_assert!(self.counters.is_conserved(self.packets_in_all()));
    }

    fn reads_nqb(&self) -> bool {
        self.lanes.is_some()
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        if let Some(departure) = self.take_shaped(now, out) {
            debug_assert!(self.counters.is_conserved(self.packets_in_all()));
            return Some(departure);
        }
        let mut drops = 0;
        let departure = loop {
            let Some(at) = self.choose(now) else { break None };
            let departure = self.take(now, at, &mut drops, out);
            if at == self.shared() {
                self.left_shared();
            }
            if departure.is_some() {
                break departure;
            }
        };
        debug_assert!(self.counters.is_conserved(self.packets_in_all()));
        departure
    }

    /// That of the packet stored last: none leaves before it, as all that could have left by then did. Where
    /// everybody has to wait, when the first may send.
    fn head_arrived(&self) -> Option<Time> {
        let of_sites = self.entitled.as_ref().map_or(0, Entitlements::packets);
        let ready = match &self.paces {
            Some(paces) if paces.packets() + of_sites == self.sum.packets => {
                let site = self.entitled.as_ref().and_then(Entitlements::first);
                paces.first().into_iter().chain(site).min()
            }
            _ => (self.sum.packets > 0).then_some(self.latest),
        };
        match self.busy_shapers() {
            Some(shapers) => shapers.due().into_iter().chain(ready).min(),
            None => ready,
        }
    }

    fn backlog(&self) -> Bytes {
        self.sum.backlog + self.busy_shapers().map_or(Bytes::ZERO, UserShapers::backlog)
    }

    fn packets(&self) -> u32 {
        self.packets_in_all()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn set_rate(&mut self, rate: Rate) {
        self.sum.set_rate(rate);
    }

    fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>) {
        let place = self.table.find(hosts.user(self.by_sender), |at| self.users[at].key);
        if let (Some(at), Some(paces)) = (place, &mut self.paces) {
            paces.set_rate(at, rate);
        }
    }

    fn packets_of(&self, hosts: Hosts) -> u32 {
        let place = self.table.find(hosts.user(self.by_sender), |at| self.users[at].key);
        place.map_or(0, |at| self.turns[at].waiting + self.shaped_of(at).0)
    }

    fn sample_for(&mut self, now: Time, hosts: Hosts, sample: Sample) {
        // A user without a place has no algorithm to tell.
        self.sample_of(hosts.user(self.by_sender), now, sample);
    }

    /// For all users; [`PerUser::sample_of`] tells one of them.
    fn sample(&mut self, now: Time, sample: Sample) {
        for at in (0..self.used).chain([self.shared()]) {
            self.tell(at, now, sample);
        }
    }

    fn user_counters(&self) -> Option<UserCounters> {
        Some(self.user_counters)
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> Managed<T> for PerUser<A, T, G> {
    type Aqm = A;
    type Guide = G;

    fn set_aqm(&mut self, aqm: A) {
        self.users.iter_mut().for_each(|user| user.line.aqm = aqm.clone());
        self.sets.iter_mut().for_each(|sets| sets.set_aqm(&aqm));
        self.fresh = aqm;
    }

    fn guide(&self) -> &G {
        &self.guide
    }

    fn guide_mut(&mut self) -> &mut G {
        &mut self.guide
    }

    fn setpoint(&mut self) -> Option<Duration> {
        let (at, flow) = self.served;
        line_of(&mut self.users, &mut self.sets, at, flow).aqm.setpoint().map(|s| s.get())
    }

    fn head(&self) -> Option<&T> {
        let at = self.rounds.first()?;
        let own = &self.users[at].line;
        let line = if own.packets > 0 { own } else { self.set_of(at).and_then(Set::first).unwrap_or(own) };
        let beside = || self.lanes.as_ref().and_then(|lanes| lanes.head(at, &self.pool));
        self.pool.head(&line.fifo).or_else(beside).map(|slot| &slot.item)
    }

    fn bytes_of_users(&self) -> usize {
        let of_flows = self.sets.as_ref().map_or(0, Sets::bytes);
        self.users.len() * Self::bytes_per_user() + self.paces.as_ref().map_or(0, Paces::bytes) + of_flows
            + self.entitled.as_ref().map_or(0, Entitlements::bytes)
            + self.lanes.as_ref().map_or(0, |_| self.users.len() * Lanes::bytes_of_one())
            + self.shapers.as_ref().map_or(0, UserShapers::bytes)
    }

    fn make_paces(&mut self, catch_up: Duration) {
        self.paces = Some(Paces::new(self.users.len(), catch_up));
        self.sets = Some(Sets::new(self.users.len(), &self.fresh));
    }

    fn make_plans(&mut self, catch_up: Duration) {
        self.make_paces(catch_up);
        self.make_entitlements(catch_up);
    }

    fn set_plans(&mut self, plans: &mut Plans) {
        self.put_plans(plans);
    }

    fn own_guides(&mut self) -> Option<&mut OwnGuides<G>> {
        self.entitled.as_ref().map(|_| &mut self.own)
    }

    fn let_go(&mut self) {
        PerUser::let_go(self);
    }

    fn hold_again(&mut self) {
        PerUser::hold_again(self);
    }

    fn tell_users(&mut self, from: usize, into: &mut [UserNow]) -> usize {
        self.told(from, into)
    }

    /// Those of the user that was served last, and of the queue.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        let (at, flow) = self.served;
        self.line(at, flow).aqm.gauges(plot);
        self.guide.gauges(plot);
        plot("users", self.used as f64);
        plot("active_users", f64::from(self.active));
        plot("shared", self.user_counters.shared as f64);
        plot("displaced", self.user_counters.displaced as f64);
    }
}

/// PerUser in the list of disciplines.
pub struct Users;

impl Entry for Users {
    const NAME: &'static str = "user";
    const SUMMARY: &'static str = "A FIFO and an instance of the algorithm for each user, served in turn; where users are held to rates, for each of their flows.";
    const SOURCE: &'static str = "Ihlar, Nazari, Skog, Ericsson Technology Review 2018";
    type Params = Params;

    fn user_key(params: &Params) -> Option<UserKey> {
        let Params { users, by_sender, prefix4, prefix6, vlan, idle, .. } = *params;
        Some(UserKey { most: users, by_sender, prefix4, prefix6, vlan, idle })
    }

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.over_any::<Self>()
    }
}

impl OverAny for Users {
    const FIFOS: Fifos = Fifos::Many;
    type Queue<A, G, T>
        = PerUser<A, T, G>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;

    fn build<A, G, T>(params: &Params, aqm: A, guide: G, setup: &Setup) -> Self::Queue<A, G, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        PerUser::guided(params, aqm, guide, setup)
    }

    fn under<A, G, H, T>(queue: Self::Queue<A, G, T>, guide: H) -> Self::Queue<A, H, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        H: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        queue.under(guide)
    }
}

#[cfg(test)]
mod tests;
