//! One FIFO under one algorithm, whose packets lie in memory that many FIFOs share.
//!
//! For hosts with more queues than could each have room of their own, most of them empty: a network function
//! with a queue for each user. The host chooses which queue is served; [`Store`] is the memory, allocated
//! once.

use crate::management::Management;
use crate::pool::{Chain, Pool};
use crate::{Arrival, Counters, Departure, Outbox};
use weir_aqm::{Aqm, Cause, Guide, Packet, Sample};
use weir_units::{Bytes, Duration, Rate, Time};

/// Memory for the packets of many queues.
pub struct Store<T> {
    pool: Pool<T>,
    free: u32,
}

impl<T: Copy> Store<T> {
    /// With room for so many packets, allocated at once.
    pub fn new(packets: u32) -> Store<T> {
        Store { pool: Pool::with_capacity(packets as usize), free: packets }
    }

    /// Packets that there is still room for.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free
    }
}

/// A FIFO managed by `A` under the guide `G`. Every call must get the same [`Store`].
pub struct Pooled<A, G = ()> {
    management: Management<A, G>,
    chain: Chain,
    packets: u32,
}

impl<A: Aqm, G: Guide<A>> Pooled<A, G> {
    /// An empty queue. `rate` is what the algorithm is told about the link.
    pub fn new(aqm: A, guide: G, rate: Rate, seed: u64) -> Self {
        Pooled { management: Management::new(aqm, guide, rate, seed), chain: Chain::default(), packets: 0 }
    }

    /// Takes a packet, or hands it to the outbox; it may store at most `room` bytes.
    #[inline]
    pub fn enqueue<T: Copy>(
        &mut self,
        store: &mut Store<T>,
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
        debug_assert!(self.counters().is_conserved(self.packets));
    }

    /// The next packet to send, if any; discarded heads go to the outbox.
    #[inline]
    pub fn dequeue<T: Copy>(
        &mut self,
        store: &mut Store<T>,
        now: Time,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        self.management.wake(now, self.packets);
        let mut drops = 0;
        let departure = loop {
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
        if self.packets == 0 && (departure.is_some() || drops > 0) {
            self.management.emptied(now);
        }
        debug_assert!(self.counters().is_conserved(self.packets));
        departure
    }

    /// What [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue) at the same time do with a packet that
    /// finds the queue empty and has room, without the memory between them. Whether it goes on marked, or
    /// why it was discarded.
    #[inline]
    pub fn pass(&mut self, now: Time, arrival: Arrival) -> Result<bool, Cause> {
        debug_assert!(self.packets == 0);
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

    /// Discards the head without asking the algorithm, as for lack of room.
    pub fn shed_head<T: Copy>(&mut self, store: &mut Store<T>, now: Time, out: &mut impl Outbox<T>) {
        let Some(slot) = store.pool.pop(&mut self.chain) else { return };
        store.free += 1;
        self.packets -= 1;
        self.management.shed(&slot.packet);
        out.discarded(&slot.packet, slot.item, Cause::Overflow);
        if self.packets == 0 {
            self.management.emptied(now);
        }
        debug_assert!(self.counters().is_conserved(self.packets));
    }

    /// Hands everything that is stored to the outbox, as discarded for lack of room: the queue ends.
    pub fn clear<T: Copy>(&mut self, store: &mut Store<T>, out: &mut impl Outbox<T>) {
        while let Some(slot) = store.pool.pop(&mut self.chain) {
            store.free += 1;
            self.packets -= 1;
            self.management.shed(&slot.packet);
            out.discarded(&slot.packet, slot.item, Cause::Overflow);
        }
        debug_assert!(self.counters().is_conserved(0));
    }

    /// The packet that is likely to be next, with what the host stored.
    #[inline]
    pub fn head<'s, T: Copy>(&self, store: &'s Store<T>) -> Option<(&'s Packet, &'s T)> {
        store.pool.head(&self.chain).map(|slot| (&slot.packet, &slot.item))
    }

    /// Bytes stored.
    pub fn backlog(&self) -> Bytes {
        self.management.backlog
    }

    /// Packets stored.
    pub fn packets(&self) -> u32 {
        self.packets
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
        self.management.setpoint()
    }

    /// Moves the set point, where there is one.
    pub fn aim(&mut self, to: Duration) {
        if let Some(setpoint) = self.management.aqm.setpoint() {
            setpoint.set(to);
        }
    }

    /// The rate at which the queue is served changed.
    pub fn set_rate(&mut self, rate: Rate) {
        self.management.rate = rate;
    }

    /// Something was measured outside.
    pub fn sample(&mut self, now: Time, sample: Sample) {
        self.management.aqm.on_sample(now, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                let b = pooled
                    .dequeue(&mut store, now, &mut |p: &Packet, n, cause| other.push((p.seq, n, cause)));
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
                    let gone = other.dequeue(&mut stores[1], now, &mut none).map(|gone| gone.marked);
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
                        let gone = if goes { queue.dequeue(store, now, &mut out) } else { None };
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
                    let gone = if n % 2 == 0 { queue.dequeue(store, now, &mut out) } else { None };
                    (gone.map(|gone| (gone.item, gone.marked)), lost)
                });
                assert_eq!(outcomes[0], outcomes[1], "{name}");
                signals += outcomes[0].1.len() + usize::from(outcomes[0].0.is_some_and(|gone| gone.1));
            }
            assert!(signals > 100, "{name}: {signals}");
        }
        assert!(weir_aqm::ignores_passing("codel") && !weir_aqm::ignores_passing("gsp"));
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
        assert_eq!(b.head(&store).map(|(_, n)| *n), Some(1));
    }
}
