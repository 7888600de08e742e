//! One FIFO under one algorithm, whose packets lie in memory that many FIFOs share.
//!
//! For hosts with more queues than could each have room of their own, most of them empty: a network function
//! with a queue for each user. The host chooses which queue is served; [`Store`] is the memory, allocated
//! once. It may have FIFOs for flows, and shapers for those that do not respond, which it lends to the queues
//! that have some; where none is left, all packets wait in the one FIFO.

mod flows;

use crate::management::Management;
use crate::pool::{Chain, Pool};
use crate::shaped::{Shaped, Shapers};
use crate::{Arrival, Counters, Departure, Fifos, Outbox};
use flows::Sets;
use weir_aqm::{Aqm, Cause, Guide, Packet};
use weir_units::{Bytes, Duration, Rate, Time};

/// Memory for the packets of many queues, under algorithms `A`.
pub struct Store<T, A> {
    pool: Pool<T>,
    free: u32,
    shapers: Shapers,
    sets: Sets<A>,
    /// How often shapers and sets were lent.
    lent: u64,
}

impl<T: Copy, A> Store<T, A> {
    /// With room for so many packets, allocated at once, without shapers and FIFOs for flows.
    pub fn new(packets: u32) -> Self {
        Store::with_shapers(packets, 0, 0)
    }

    /// The same with so many shapers; `salt` keeps senders from choosing the FIFOs of their flows.
    pub fn with_shapers(packets: u32, shapers: usize, salt: u64) -> Self {
        let shapers = Shapers::new(shapers, salt);
        let pool = Pool::with_capacity(packets as usize);
        Store { pool, free: packets, shapers, sets: Sets::none(), lent: 0 }
    }

    /// The same with FIFOs for the flows of so many queues at once, eight of each.
    pub fn with_flows(self, queues: usize, aqm: &A) -> Self
    where
        A: Clone,
    {
        Store { sets: Sets::new(queues, aqm), ..self }
    }

    /// Packets that there is still room for.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Memory of the shapers, without packets.
    pub fn bytes_of_shapers(&self) -> usize {
        self.shapers.bytes()
    }

    /// Memory of the FIFOs for flows, without packets.
    pub fn bytes_of_flows(&self) -> usize {
        self.sets.bytes()
    }
}

/// A shaper or a set of FIFOs that was lent to a queue, which may belong to another one since.
#[derive(Clone, Copy)]
struct Loan {
    at: u32,
    number: u64,
}

impl Loan {
    #[inline]
    fn shaped(self, shapers: &mut Shapers) -> Option<&mut Shaped> {
        shapers.get(self.at as usize, self.number)
    }
}

/// A FIFO managed by `A` under the guide `G`, in its place FIFOs of flows where these are told apart, and a
/// shaper beside it while the algorithm has flows shaped. Every call must get the same [`Store`].
pub struct Pooled<A, G = ()> {
    management: Management<A, G>,
    fifos: Fifos,
    chain: Chain,
    /// Packets of the FIFO and of those of flows.
    packets: u32,
    /// Packets and bytes in the shaper.
    shaped: (u32, Bytes),
    loan: Option<Loan>,
    /// The FIFOs of flows.
    set: Option<Loan>,
}

impl<A: Aqm + Clone, G: Guide<A>> Pooled<A, G> {
    /// An empty queue with one FIFO. `rate` is what the algorithm is told about the link.
    pub fn new(aqm: A, guide: G, rate: Rate, seed: u64) -> Self {
        Pooled {
            management: Management::new(aqm, guide, rate, seed),
            fifos: Fifos::One,
            chain: Chain::default(),
            packets: 0,
            shaped: (0, Bytes::ZERO),
            loan: None,
            set: None,
        }
    }

    /// Takes a packet into the FIFO, which may store at most `room` bytes, or hands it to the outbox.
    #[inline]
    pub fn enqueue<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        room: Bytes,
        now: Time,
        arrival: Arrival,
        item: T,
        out: &mut impl Outbox<T>,
    ) {
        self.management.wake(now, self.packets);
        let fits = store.free > 0 && self.management.backlog + arrival.len <= room;
        let packet = self.management.arrive(now, &arrival);
        match self.management.admit(now, &packet, self.packets, fits) {
            Ok(marked) => {
                self.packets += 1;
                store.free -= 1;
                store.pool.push(&mut self.chain, packet, marked, item);
            }
            Err(cause) => out.discarded(&packet, item, cause),
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
    }

    /// The rate to which the algorithm has the flow of an arrival shaped, if there is a shaper for it: then
    /// it is to go there ([`shape`](Self::shape)).
    #[inline]
    pub fn shaped_to<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        now: Time,
        arrival: &Arrival,
    ) -> Option<Rate> {
        if !A::SHAPES || store.shapers.len() == 0 {
            return None;
        }
        let Arrival { len, flow, ecn, .. } = *arrival;
        let rate = self.management.aqm.shaped(&Packet { arrived: now, len, seq: 0, flow, ecn })?;
        self.borrow(store).map(|_| rate)
    }

    /// The shaper of the queue, which is lent to it if it has none.
    #[cold]
    fn borrow<T: Copy>(&mut self, store: &mut Store<T, A>) -> Option<Loan> {
        if let Some(loan) = self.loan.filter(|loan| loan.shaped(&mut store.shapers).is_some()) {
            return Some(loan);
        }
        self.loan = store.shapers.lend(store.lent).map(|at| Loan { at: at as u32, number: store.lent });
        store.lent += u64::from(self.loan.is_some());
        self.loan
    }

    /// Stores a packet in the shaper, from which all leave at `rate` from now on, or hands it to the outbox.
    /// The shaper may store at most `room` bytes beside those of the FIFO, so that neither is without room
    /// because of the other.
    #[inline(never)]
    pub fn shape<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        room: Bytes,
        rate: Rate,
        now: Time,
        (arrival, item): (Arrival, T),
        out: &mut impl Outbox<T>,
    ) {
        self.management.wake(now, self.packets);
        let fits = store.free > 0 && self.shaped.1 + arrival.len <= room;
        let Management { aqm, guide, counters, .. } = &mut self.management;
        let packet = counters.arrive(now, &arrival);
        aqm.on_shaped(now, &packet);
        guide.on_beside(now, &packet);
        match self.loan.and_then(|loan| loan.shaped(&mut store.shapers)) {
            Some(shaped) => {
                let before = shaped.packets();
                shaped.offer(&mut store.pool, (packet, item), rate, fits, counters, out);
                store.free -= shaped.packets() - before;
                self.shaped = (shaped.packets(), shaped.backlog());
            }
            None => {
                counters.admitted(Err(Cause::Overflow));
                out.discarded(&packet, item, Cause::Overflow);
            }
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
    }

    /// When the next packet may leave the shaper, and which it is.
    #[inline]
    pub fn shaped_head<'s, T: Copy>(&self, store: &'s mut Store<T, A>) -> Option<(Time, &'s T)> {
        if self.shaped.0 == 0 {
            return None;
        }
        let shaped = self.loan?.shaped(&mut store.shapers)?;
        Some((shaped.due()?, &shaped.head(&store.pool)?.item))
    }

    /// The next packet of the shaper, if one may leave by now; heads that waited too long go to the outbox.
    #[inline(never)]
    pub fn take_shaped<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        now: Time,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        let shaped = self.loan?.shaped(&mut store.shapers)?;
        let before = shaped.packets();
        let departure = shaped.take(&mut store.pool, now, &mut self.management.counters, out);
        store.free += before - shaped.packets();
        self.shaped = (shaped.packets(), shaped.backlog());
        if let Some(departure) = &departure {
            self.management.aqm.on_shaped_sent(now, &departure.packet);
        }
        if self.packets() == 0 && before > 0 {
            self.management.guide.on_idle();
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
        departure
    }

    /// Discards the head of the shaper, as for lack of room; whether there was one.
    pub fn shed_shaped<T: Copy>(&mut self, store: &mut Store<T, A>, out: &mut impl Outbox<T>) -> bool {
        let Some(shaped) = self.loan.and_then(|loan| loan.shaped(&mut store.shapers)) else { return false };
        let Some((_, slot)) = shaped.pop(&mut store.pool) else { return false };
        self.shaped = (shaped.packets(), shaped.backlog());
        store.free += 1;
        self.management.counters.shed += 1;
        out.discarded(&slot.packet, slot.item, Cause::Overflow);
        debug_assert!(self.counters().is_conserved(self.packets()));
        true
    }

    /// The next packet to send of those that may go, if any; discarded heads go to the outbox. In a FIFO
    /// those that may go wait behind those that may not.
    #[inline]
    pub fn dequeue<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        now: Time,
        may_go: impl Fn(&T) -> bool,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        self.management.wake(now, self.packets);
        let mut drops = 0;
        // What came before the flows were told apart goes first.
        let departure = loop {
            if store.pool.head(&self.chain).is_none_or(|slot| !may_go(&slot.item)) {
                break None;
            }
            let Some(slot) = store.pool.pop(&mut self.chain) else { break None };
            let (packet, item) = (slot.packet, slot.item);
            store.free += 1;
            self.packets -= 1;
            match self.management.release(now, &packet, slot.marked, self.packets, &mut drops) {
                Ok(marked) => {
                    break Some(Departure { packet, item, marked, sojourn: self.management.last_delay });
                }
                Err(cause) => out.discarded(&packet, item, cause),
            }
        };
        if departure.is_some() || drops > 0 {
            self.look_if_emptied(store, now);
        }
        let departure = match departure {
            None if self.packets > 0 => self.take_of_flows(store, now, may_go, &mut drops, out),
            departure => departure,
        };
        debug_assert!(self.counters().is_conserved(self.packets()));
        departure
    }

    /// The one FIFO may have run empty.
    #[inline]
    fn look_if_emptied<T: Copy>(&mut self, store: &Store<T, A>, now: Time) {
        if self.packets == 0 {
            self.management.emptied(now);
        } else if self.fifos == Fifos::Many && store.pool.head(&self.chain).is_none() {
            self.management.guide.on_empty(&mut self.management.aqm, false, now);
        }
    }

    /// What [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue) at the same time do with a packet that
    /// finds the queue empty and has room, without the memory between them. Whether it goes on marked, or
    /// why it was discarded.
    #[inline]
    pub fn pass(&mut self, now: Time, arrival: Arrival) -> Result<bool, Cause> {
        debug_assert!(self.packets() == 0);
        self.management.wake(now, 0);
        let packet = self.management.arrive(now, &arrival);
        let admitted = self.management.admit(now, &packet, 0, true);
        let outcome = admitted.and_then(|marked| {
            self.management.wake(now, 1);
            let released = self.management.release(now, &packet, marked, 0, &mut 0);
            self.management.emptied(now);
            released
        });
        debug_assert!(self.counters().is_conserved(0));
        outcome
    }

    /// Hands everything that is stored to the outbox, as discarded for lack of room: the queue ends.
    pub fn clear<T: Copy>(&mut self, store: &mut Store<T, A>, out: &mut impl Outbox<T>) {
        while self.pop_oldest(store, |_| true, out).is_some() || self.shed_shaped(store, out) {}
        if let Some(loan) = self.loan.take() {
            store.shapers.give_back(loan.at as usize, loan.number);
        }
        store.sets.give_back(self.set.take());
        debug_assert!(self.counters().is_conserved(0));
    }

    /// The packet that is likely to be next of those that may go, with what the host stored.
    #[inline]
    pub fn head<'s, T: Copy>(
        &self,
        store: &'s mut Store<T, A>,
        may_go: impl Fn(&T) -> bool,
    ) -> Option<(&'s Packet, &'s T)> {
        if store.pool.head(&self.chain).is_none_or(|slot| !may_go(&slot.item)) {
            return self.head_of_flows(store, may_go);
        }
        store.pool.head(&self.chain).map(|slot| (&slot.packet, &slot.item))
    }

    /// Bytes stored.
    pub fn backlog(&self) -> Bytes {
        self.management.backlog + self.shaped.1
    }

    /// Packets stored.
    pub fn packets(&self) -> u32 {
        self.packets + self.shaped.0
    }

    /// Packets in the FIFO or those of flows, and in the shaper.
    pub fn packets_of_both(&self) -> [u32; 2] {
        [self.packets, self.shaped.0]
    }

    /// Bytes in the FIFO or those of flows, without those in the shaper.
    pub fn bytes_of_fifos(&self) -> Bytes {
        self.management.backlog
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.management.counters
    }

    /// The algorithm.
    pub fn aqm(&self) -> &A {
        &self.management.aqm
    }

    /// The guide.
    pub fn guide(&self) -> &G {
        &self.management.guide
    }

    /// The guide, to change what it holds the queue to.
    pub fn guide_mut(&mut self) -> &mut G {
        &mut self.management.guide
    }

    /// The set point in force, where there is one.
    pub fn setpoint(&mut self) -> Option<Duration> {
        self.management.guide.setpoint().or_else(|| self.management.setpoint())
    }

    /// The rate at which the queue is served changed.
    pub fn set_rate(&mut self, rate: Rate) {
        self.management.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaped::tests::Odd;
    use crate::{Discipline, Hosts, Limits, Single};
    use weir_aqm::Algorithm;
    use weir_aqm::algorithms::codel::{self, CoDel};
    use weir_units::Ecn;

    const ARRIVAL: Arrival =
        Arrival { len: Bytes::new(1000), flow: 1, hosts: Hosts::UNKNOWN, ecn: Ecn::Ect0, nqb: false };

    fn codel() -> CoDel {
        CoDel::new(&codel::Params::default(), Time::ZERO)
    }

    /// What a queue does with packets that come twice as fast as they go.
    #[test]
    fn it_does_what_a_fifo_of_its_own_does() {
        let limits = Limits { bytes: Bytes::new(100_000), packets: 1000 };
        let mut single = Single::new(codel(), limits, Rate::from_mbps(8), 3);
        let mut store = Store::new(1000);
        let mut pooled = Pooled::new(codel(), (), Rate::from_mbps(8), 3);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for n in 0..20_000u64 {
            let now = Time::from_nanos(n * 500_000);
            single.enqueue(now, ARRIVAL, n, &mut |p: &Packet, n, cause| one.push((p.seq, n, cause)));
            let mut out = |p: &Packet, n, cause| other.push((p.seq, n, cause));
            pooled.enqueue(&mut store, limits.bytes, now, ARRIVAL, n, &mut out);
            if n % 2 == 1 {
                let a = single.dequeue(now, &mut |p: &Packet, n, cause| one.push((p.seq, n, cause)));
                let mut out = |p: &Packet, n, cause| other.push((p.seq, n, cause));
                let b = pooled.dequeue(&mut store, now, |_| true, &mut out);
                assert_eq!(a, b);
            }
        }
        assert!(one == other && !one.is_empty() && pooled.counters().marked > 10);
        assert_eq!(single.counters(), pooled.counters());
    }

    struct Defaults;

    impl weir_aqm::Parameters for Defaults {
        fn params<P: weir_aqm::Params>(&self) -> P {
            P::default()
        }
    }

    /// Packets that come alone, and between them so many that every algorithm signals.
    #[test]
    fn passing_is_coming_and_going_at_once() {
        for name in weir_aqm::names() {
            let aqm = || weir_aqm::AnyAqm::new(name, &Defaults, Time::ZERO).expect("it is in the list");
            let mut queues = [0, 1].map(|_| Pooled::new(aqm(), (), Rate::from_mbps(8), 3));
            let mut stores = [0, 1].map(|_| Store::new(100));
            let (mut now, mut passed) = (Time::ZERO, 0);
            for n in 0..20_000u64 {
                now += Duration::from_micros(700);
                let [one, other] = &mut queues;
                if one.packets() == 0 && n % 1000 < 500 {
                    passed += 1;
                    let mut none = |_: &Packet, _, _| {};
                    other.enqueue(&mut stores[1], Bytes::new(60_000), now, ARRIVAL, n, &mut none);
                    let gone =
                        other.dequeue(&mut stores[1], now, |_| true, &mut none).map(|gone| gone.marked);
                    assert_eq!(one.pass(now, ARRIVAL).ok(), gone, "{name}");
                } else {
                    let outcomes = [0, 1].map(|at| {
                        let (queue, store) = (&mut queues[at], &mut stores[at]);
                        let mut lost = Vec::new();
                        let mut out = |p: &Packet, n, cause| lost.push((p.seq, n, cause));
                        // More comes than goes, and then nothing comes.
                        if n % 1000 >= 500 {
                            queue.enqueue(store, Bytes::new(60_000), now, ARRIVAL, n, &mut out);
                        }
                        let goes = n % 1000 < 500 || n % 2 == 0;
                        let gone = if goes { queue.dequeue(store, now, |_| true, &mut out) } else { None };
                        (gone, lost)
                    });
                    assert_eq!(outcomes[0], outcomes[1], "{name}");
                }
                assert_eq!(queues[0].counters(), queues[1].counters(), "{name}");
            }
            assert!(passed > 5000, "{name}: {passed}");
        }
    }

    /// Two queues get the same packets, but only one is told of those that pass.
    #[test]
    fn whoever_ignores_packets_that_pass_need_not_be_asked() {
        let ignoring = weir_aqm::names().iter().filter(|name| weir_aqm::ignores_passing(name));
        for name in ignoring {
            let aqm = || weir_aqm::AnyAqm::new(name, &Defaults, Time::ZERO).expect("it is in the list");
            let mut queues = [0, 1].map(|_| (Pooled::new(aqm(), (), Rate::from_mbps(8), 3), Store::new(100)));
            let mut signals = 0;
            for n in 0..20_000u64 {
                let (now, brings) = (Time::from_nanos(n * 700_000), n % 1000 >= 500);
                if !brings && queues[0].0.packets() == 0 {
                    assert_eq!(queues[0].0.pass(now, ARRIVAL), Ok(false), "{name}");
                    continue;
                }
                let outcomes = queues.each_mut().map(|(queue, store)| {
                    let mut lost = Vec::new();
                    let mut out = |_: &Packet, n, cause| lost.push((n, cause));
                    if brings {
                        queue.enqueue(store, Bytes::new(60_000), now, ARRIVAL, n, &mut out);
                    }
                    let gone = if n % 2 == 0 { queue.dequeue(store, now, |_| true, &mut out) } else { None };
                    (gone.map(|gone| (gone.item, gone.marked)), lost)
                });
                assert_eq!(outcomes[0], outcomes[1], "{name}");
                signals += outcomes[0].1.len() + usize::from(outcomes[0].0.is_some_and(|gone| gone.1));
            }
            assert!(signals > 100, "{name}: {signals}");
        }
        assert!(weir_aqm::ignores_passing("codel") && !weir_aqm::ignores_passing("gsp"));
    }

    /// A packet of a flow goes where its algorithm wants it; whether it is shaped.
    fn put(queue: &mut Pooled<Odd>, store: &mut Store<u64, Odd>, now: Time, flow: u32, item: u64) -> bool {
        let arrival = Arrival { flow, len: Bytes::new(1500), ..ARRIVAL };
        let (room, mut none) = (Bytes::new(60_000), |_: &Packet, _, _| panic!("there is room"));
        let rate = queue.shaped_to(store, now, &arrival);
        match rate {
            Some(rate) => queue.shape(store, room, rate, now, (arrival, item), &mut none),
            None => queue.enqueue(store, room, now, arrival, item, &mut none),
        }
        rate.is_some()
    }

    #[test]
    fn a_shaper_is_lent_while_packets_wait_in_it_and_comes_back_with_its_queue() {
        let mut store = Store::with_shapers(100, 1, 7);
        let [mut a, mut b] = [0, 1].map(|_| Pooled::new(Odd, (), Rate::ZERO, 0));
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut none = |_: &Packet, _, _| panic!("nobody is late");
        assert!(
            (0..3).all(|n| put(&mut a, &mut store, ms(0), 1, n)) && !put(&mut a, &mut store, ms(0), 2, 3)
        );
        assert!(!put(&mut b, &mut store, ms(0), 1, 4), "none is left for another queue");
        assert_eq!((a.packets_of_both(), b.packets_of_both(), store.free()), ([1, 3], [1, 0], 95));
        for n in 0..3 {
            // 1500 bytes at 12 Mbit/s.
            assert_eq!(a.shaped_head(&mut store), Some((ms(n), &n)));
            assert_eq!(a.take_shaped(&mut store, ms(n), &mut none).map(|departure| departure.item), Some(n));
            assert_eq!(a.take_shaped(&mut store, ms(n), &mut none).map(|departure| departure.item), None);
        }
        // It has the rate until another queue needs it.
        assert!(put(&mut a, &mut store, ms(2), 1, 5));
        assert_eq!(a.shaped_head(&mut store), Some((ms(3), &5)));
        assert_eq!(a.take_shaped(&mut store, ms(3), &mut none).map(|departure| departure.item), Some(5));
        assert!(put(&mut b, &mut store, ms(3), 1, 6) && !put(&mut a, &mut store, ms(3), 1, 7));
        assert_eq!(a.shaped_head(&mut store), None);
        assert_eq!(b.shaped_head(&mut store), Some((ms(3), &6)));
        let mut lost = Vec::new();
        b.clear(&mut store, &mut |_: &Packet, item, _| lost.push(item));
        assert_eq!((lost, b.packets(), store.free()), (vec![4, 6], 0, 98));
        assert!(put(&mut a, &mut store, ms(4), 1, 8) && a.packets_of_both() == [2, 1]);
        // The head goes without a turn where its host wants it to.
        assert!(a.shed_shaped(&mut store, &mut |_: &Packet, item, _| assert_eq!(item, 8)));
        assert!(!a.shed_shaped(&mut store, &mut |_: &Packet, _, _| {}));
        assert_eq!((a.packets_of_both(), a.backlog(), store.free()), ([2, 0], Bytes::new(3000), 98));
    }

    #[test]
    fn the_memory_of_shapers_is_bounded_and_no_packet_is_lost_count_of() {
        const SHAPERS: usize = 64;
        let mut store = Store::with_shapers(300, SHAPERS, 7);
        assert!(store.bytes_of_shapers() <= SHAPERS * 20_000, "{}", store.bytes_of_shapers());
        let mut queues: Vec<_> = (0..100).map(|_| Pooled::new(Odd, (), Rate::ZERO, 0)).collect();
        let mut lost = 0;
        for n in 0..20_000u32 {
            // More flows than a shaper has FIFOs, in more queues than there are shapers, and little room.
            let queue = &mut queues[(n % 97) as usize];
            let arrival = Arrival { flow: n.wrapping_mul(0x9e37_79b1) >> 16, ..ARRIVAL };
            let now = Time::ZERO + Duration::from_micros(u64::from(n) * 20);
            let (room, mut out) = (Bytes::new(60_000), |_: &Packet, _, _| lost += 1);
            match queue.shaped_to(&mut store, now, &arrival) {
                Some(rate) => queue.shape(&mut store, room, rate, now, (arrival, u64::from(n)), &mut out),
                None => queue.enqueue(&mut store, room, now, arrival, u64::from(n), &mut out),
            }
            if n % 2 == 0 {
                let _ = queue.take_shaped(&mut store, now, &mut out);
                let _ = queue.dequeue(&mut store, now, |_| true, &mut out);
            }
            let stored: u32 = queues.iter().map(Pooled::packets).sum();
            assert_eq!(stored + store.free(), 300);
        }
        assert!(lost > 0);
        queues.iter_mut().for_each(|queue| queue.clear(&mut store, &mut |_: &Packet, _, _| {}));
        assert_eq!(store.free(), 300);
    }

    #[test]
    fn the_store_has_an_end_and_gets_everything_back() {
        let mut store = Store::new(3);
        let [mut a, mut b] = [0, 1].map(|_| Pooled::new(codel(), None::<()>, Rate::ZERO, 0));
        let mut lost = 0;
        for n in 0..5 {
            let queue = if n % 2 == 0 { &mut a } else { &mut b };
            let mut out = |_: &Packet, _, _| lost += 1;
            queue.enqueue(&mut store, Bytes::new(1_000_000), Time::ZERO, ARRIVAL, n, &mut out);
        }
        assert_eq!((a.packets(), b.packets(), store.free()), (2, 1, 0));
        a.clear(&mut store, &mut |_: &Packet, _, _| lost += 1);
        assert_eq!((lost, store.free(), a.counters().shed), (4, 2, 2));
        assert_eq!(b.head(&mut store, |_| true).map(|(_, n)| *n), Some(1));
    }
}
