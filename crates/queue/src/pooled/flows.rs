//! The flows of queues of which there are many: a packet waits in a FIFO of its own for each flow, with an
//! instance of the algorithm, and these are served in turn (DRR++, RFC 8290 section 4.2).
//!
//! A queue without packets needs none, so that sets of a few FIFOs are lent to queues that have some, as
//! shapers are. A queue that finds no set has one FIFO, and so has one that is not to tell flows apart.

use super::{Loan, Pooled, Store};
use crate::management::Management;
use crate::per_user::flows::{FLOWS, Set};
use crate::pool::{Chain, Pool, Slot};
use crate::settle::Decision;
use crate::{Arrival, Departure, Fifos, Outbox};
use weir_aqm::{Aqm, Cause, Guide, Moment, Packet, Sample, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// Bytes that a flow sends in one round.
const QUANTUM: i64 = 1538;
/// Whose no set is.
const NOBODY: u64 = u64::MAX;
/// Most sets that are looked at for one that can be lent.
const SWEEP_MAX: usize = 16;

/// The FIFOs of a queue, and whose they are.
struct Lent<A> {
    owner: u64,
    set: Set<A>,
}

/// A bounded number of sets of FIFOs. An owner keeps what was lent to it until no packet waits in it and
/// another queue needs it.
pub(super) struct Sets<A> {
    all: Box<[Lent<A>]>,
    hand: usize,
}

impl<A> Sets<A> {
    /// None.
    pub fn none() -> Sets<A> {
        Sets { all: Box::default(), hand: 0 }
    }

    /// Memory of all.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.all)
    }

    fn lent(&mut self, loan: Option<Loan>) -> Option<&mut Lent<A>> {
        let Loan { at, number } = loan?;
        self.all.get_mut(at as usize).filter(|lent| lent.owner == number)
    }

    fn get(&mut self, loan: Option<Loan>) -> Option<&mut Set<A>> {
        self.lent(loan).map(|lent| &mut lent.set)
    }

    fn look(&self, loan: Option<Loan>) -> Option<&Set<A>> {
        let Loan { at, number } = loan?;
        self.all.get(at as usize).filter(|lent| lent.owner == number).map(|lent| &lent.set)
    }

    /// A queue has no packets in its set and needs it no longer.
    pub fn give_back(&mut self, loan: Option<Loan>) {
        self.lent(loan).into_iter().for_each(|lent| lent.owner = NOBODY);
    }
}

impl<A: Clone> Sets<A> {
    /// So many; all of their memory is allocated here.
    pub fn new(count: usize, aqm: &A) -> Sets<A> {
        let fresh = |_| Lent { owner: NOBODY, set: Set::new(aqm) };
        Sets { all: (0..count).map(fresh).collect(), hand: 0 }
    }

    /// Lends one: one that is nobody's, else one in which nothing waits.
    fn lend(&mut self, number: u64) -> Option<Loan> {
        let (count, hand) = (self.all.len(), self.hand);
        let near = || (0..count.min(SWEEP_MAX)).map(|step| (hand + step) % count);
        let is_empty = |at: &usize| self.all[*at].set.backlog() == Bytes::ZERO;
        let is_nobodys = |at: &usize| self.all[*at].owner == NOBODY;
        let found = near().find(is_nobodys).or_else(|| near().find(is_empty));
        self.hand = found.map_or(hand + SWEEP_MAX, |at| at + 1) % count.max(1);
        let at = found?;
        self.all[at].owner = number;
        self.all[at].set.lend(None);
        Some(Loan { at: at as u32, number })
    }
}

/// What the algorithm of a FIFO is told: of the rate, a share.
fn moment<A: Aqm + Clone, G: Guide<A>>(
    management: &mut Management<A, G>,
    set: &Set<A>,
    fifo: usize,
    now: Time,
) -> Moment {
    let line = set.line(fifo);
    let rate = Rate::from_bps(management.rate.as_bps() / u64::from(set.active().max(1)));
    let mut moment = management.moment(now, line.packets);
    moment.queue = View { backlog: line.backlog, packets: line.packets, delay: line.last_delay, rate };
    moment
}

/// What the guide is told, if it asks: the delay is the time that everything takes at the rate of the queue,
/// and where that has none, how long the packet waited that left last.
fn whole<A, G>(management: &Management<A, G>, packets: u32) -> impl FnOnce() -> View + use<A, G> {
    let Management { backlog, rate, last_delay, .. } = *management;
    move || {
        let delay = if rate == Rate::ZERO { last_delay } else { rate.time_for(backlog) };
        View { backlog, packets, delay, rate }
    }
}

/// Takes the first packet out of a FIFO.
fn pop<A: Clone, T: Copy>(set: &mut Set<A>, pool: &mut Pool<T>, fifo: usize) -> Option<Slot<T>> {
    let slot = set.line_mut(fifo).pop(pool)?;
    set.left(fifo, slot.packet.len);
    Some(slot)
}

/// Runs the wakeup of a FIFO's algorithm if it is due.
fn wake<A: Aqm + Clone, G: Guide<A>>(
    management: &mut Management<A, G>,
    set: &mut Set<A>,
    fifo: usize,
    now: Time,
) {
    if set.line(fifo).aqm.next_wakeup().is_some_and(|due| due <= now) {
        let m = moment(management, set, fifo, now);
        management.guide.on_wakeup(&mut set.line_mut(fifo).aqm, &m);
    }
}

/// A FIFO may have run empty; so many packets are left in all.
fn look_if_empty<A: Aqm + Clone, G: Guide<A>>(
    management: &mut Management<A, G>,
    set: &mut Set<A>,
    fifo: usize,
    left: u32,
    now: Time,
) {
    let line = set.line_mut(fifo);
    if line.packets == 0 {
        line.last_delay = Duration::ZERO;
        management.guide.on_empty(&mut line.aqm, left == 0, now);
    }
    if left == 0 {
        management.last_delay = Duration::ZERO;
    }
}

impl<A: Aqm + Clone, G: Guide<A>> Pooled<A, G> {
    /// Whether flows are told apart from now on. What waits in FIFOs of flows leaves these first.
    pub fn set_fifos(&mut self, fifos: Fifos) {
        self.fifos = fifos;
    }

    /// The FIFO for packets of a flow, where flows are told apart and the store has a set for this queue.
    #[inline]
    pub fn fifo_of<T>(&mut self, store: &mut Store<T, A>, flow: u32) -> Option<usize> {
        let Store { sets, lent, .. } = store;
        if self.fifos == Fifos::One && sets.look(self.set).is_none_or(|set| set.backlog() == Bytes::ZERO) {
            return None;
        }
        if sets.look(self.set).is_none() {
            self.set = sets.lend(*lent);
            *lent += u64::from(self.set.is_some());
        }
        Some(sets.get(self.set)?.flow_of(flow, &self.management.aqm))
    }

    /// Bytes that leave before a packet of that length that comes into a FIFO now, if nothing else comes: at
    /// most so many. And whether it is the first of its FIFO, which goes before the others if it was idle.
    pub fn bytes_before<T>(&self, store: &Store<T, A>, fifo: usize, len: Bytes) -> (Bytes, bool) {
        let Some(set) = store.sets.look(self.set) else { return (self.management.backlog, false) };
        let earlier = self.management.backlog - set.backlog();
        let own = set.line(fifo).backlog;
        let is_first = own == Bytes::ZERO;
        if set.backlog() == own {
            return (earlier + own, is_first);
        }
        let others = (0..FLOWS).filter(|other| *other != fifo);
        let before = others.fold(earlier + own, |sum, other| sum + set.line(other).backlog.min(own + len));
        (before, is_first)
    }

    /// Takes a packet into a FIFO of a flow ([`fifo_of`](Self::fifo_of)), or hands it to the outbox. The
    /// FIFOs may store at most `room` bytes: where they are taken, heads of the one with the most bytes give
    /// way to packets of others (RFC 8290 section 4.1), but none does where there is to be no room at all.
    #[inline(never)]
    pub fn enqueue_in<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        fifo: usize,
        room: Bytes,
        now: Time,
        (arrival, item): (Arrival, T),
        out: &mut impl Outbox<T>,
    ) {
        let Some(set) = store.sets.get(self.set) else {
            return self.enqueue(store, room, now, arrival, item, out);
        };
        let management = &mut self.management;
        wake(management, set, fifo, now);
        let packet = management.arrive(now, &arrival);
        let len = packet.len;
        let mut fits = store.free > 0 && management.backlog + len <= room;
        if !fits && room > Bytes::ZERO {
            let (freed, packets) =
                give_way(management, set, &mut store.pool, (fifo, len), self.packets, now, out);
            store.free += packets;
            self.packets -= packets;
            fits = freed >= len && packets > 0;
        }
        let (m, whole) = (moment(management, set, fifo, now), whole(management, self.packets));
        let Management { guide, counters, .. } = management;
        let decision = Decision { aqm: &mut set.line_mut(fifo).aqm, guide, counters };
        match decision.admit(fits, whole, &m, &packet) {
            Ok(marked) => {
                set.stored(fifo, len, QUANTUM);
                set.line_mut(fifo).push(&mut store.pool, packet, marked, item);
                management.backlog += len;
                self.packets += 1;
                store.free -= 1;
            }
            Err(cause) => out.discarded(&packet, item, cause),
        }
        debug_assert!(self.counters().is_conserved(self.packets()));
    }

    /// The FIFO whose turn it is of those whose first packet may go.
    fn choose<T: Copy>(set: &mut Set<A>, pool: &Pool<T>, may_go: impl Fn(&T) -> bool) -> Option<usize> {
        let may = |set: &Set<A>, fifo: usize| {
            pool.head(&set.line(fifo).fifo).is_some_and(|slot| may_go(&slot.item))
        };
        let mut fifo = set.choose(QUANTUM)?;
        if !may(set, fifo) && !(0..FLOWS).any(|other| may(set, other)) {
            return None;
        }
        // Each round brings one that may go nearer to its turn.
        while !may(set, fifo) {
            set.sent(fifo, Bytes::new(QUANTUM as u64));
            fifo = set.choose(QUANTUM)?;
        }
        Some(fifo)
    }

    /// The next packet of the flows of those that may go; discarded heads go to the outbox.
    #[inline(never)]
    pub(super) fn take_of_flows<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        now: Time,
        may_go: impl Fn(&T) -> bool,
        drops: &mut u32,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        let set = store.sets.get(self.set)?;
        let management = &mut self.management;
        loop {
            let fifo = Self::choose(set, &store.pool, &may_go)?;
            wake(management, set, fifo, now);
            let slot = pop(set, &mut store.pool, fifo)?;
            let (packet, sojourn) = (slot.packet, now.since(slot.packet.arrived));
            store.free += 1;
            self.packets -= 1;
            management.backlog -= packet.len;
            management.last_delay = sojourn;
            let (m, whole) = (moment(management, set, fifo, now), whole(management, self.packets));
            set.line_mut(fifo).last_delay = sojourn;
            let Management { guide, counters, .. } = &mut *management;
            let decision = Decision { aqm: &mut set.line_mut(fifo).aqm, guide, counters };
            let released = decision.release(drops, whole, &m, &packet, slot.marked);
            if released.is_ok() {
                set.sent(fifo, packet.len);
            }
            look_if_empty(management, set, fifo, self.packets, now);
            match released {
                Ok(marked) => return Some(Departure { packet, item: slot.item, marked, sojourn }),
                Err(cause) => out.discarded(&packet, slot.item, cause),
            }
        }
    }

    /// The next packet of the flows of those that may go, with what the host stored.
    pub(super) fn head_of_flows<'s, T: Copy>(
        &self,
        store: &'s mut Store<T, A>,
        may_go: impl Fn(&T) -> bool,
    ) -> Option<(&'s Packet, &'s T)> {
        let fifo = Self::choose(store.sets.get(self.set)?, &store.pool, may_go)?;
        let line = store.sets.look(self.set)?.line(fifo);
        store.pool.head(&line.fifo).map(|slot| (&slot.packet, &slot.item))
    }

    /// Where the packet is that came first of those that are first in a FIFO and are meant: in that of a
    /// flow, or in the one FIFO.
    fn oldest_fifo<T: Copy>(
        &self,
        store: &Store<T, A>,
        is_meant: impl Fn(&T) -> bool,
    ) -> Option<Option<usize>> {
        let number = |chain: &Chain| {
            store.pool.head(chain).filter(|slot| is_meant(&slot.item)).map(|slot| slot.packet.seq)
        };
        let set = store.sets.look(self.set);
        let of_flow = |fifo| Some((number(&set?.line(fifo).fifo)?, Some(fifo)));
        let of_all = number(&self.chain).map(|number| (number, None));
        (0..FLOWS).filter_map(of_flow).chain(of_all).min().map(|(_, fifo)| fifo)
    }

    /// The packet that came first of those that are first in a FIFO and are meant, without those in the
    /// shaper, with what the host stored.
    pub fn oldest<'s, T: Copy>(
        &self,
        store: &'s Store<T, A>,
        is_meant: impl Fn(&T) -> bool,
    ) -> Option<(&'s Packet, &'s T)> {
        let chain = match self.oldest_fifo(store, is_meant)? {
            Some(fifo) => &store.sets.look(self.set)?.line(fifo).fifo,
            None => &self.chain,
        };
        store.pool.head(chain).map(|slot| (&slot.packet, &slot.item))
    }

    /// Discards that packet without asking the algorithm, as for lack of room; whether there was one.
    pub fn shed_oldest<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        now: Time,
        is_meant: impl Fn(&T) -> bool,
        out: &mut impl Outbox<T>,
    ) -> bool {
        let Some(fifo) = self.pop_oldest(store, is_meant, out) else { return false };
        match fifo.zip(store.sets.get(self.set)) {
            Some((fifo, set)) => look_if_empty(&mut self.management, set, fifo, self.packets, now),
            None => self.look_if_emptied(store, now),
        }
        true
    }

    /// The same, of which no algorithm is told; where it was.
    pub(super) fn pop_oldest<T: Copy>(
        &mut self,
        store: &mut Store<T, A>,
        is_meant: impl Fn(&T) -> bool,
        out: &mut impl Outbox<T>,
    ) -> Option<Option<usize>> {
        let fifo = self.oldest_fifo(store, is_meant)?;
        let slot = match fifo {
            Some(fifo) => {
                let set = store.sets.get(self.set)?;
                let slot = pop(set, &mut store.pool, fifo)?;
                let line = set.line_mut(fifo);
                if line.packets == 0 {
                    line.last_delay = Duration::ZERO;
                }
                slot
            }
            None => *store.pool.pop(&mut self.chain)?,
        };
        store.free += 1;
        self.packets -= 1;
        self.management.shed(&slot.packet);
        out.discarded(&slot.packet, slot.item, Cause::Overflow);
        debug_assert!(self.counters().is_conserved(self.packets()));
        Some(fifo)
    }

    /// The algorithm of the one FIFO, and those of flows.
    fn aqms<'a, T>(&'a mut self, store: &'a mut Store<T, A>) -> impl Iterator<Item = &'a mut A> {
        let of_flows = store.sets.get(self.set).into_iter().flat_map(Set::aqms);
        std::iter::once(&mut self.management.aqm).chain(of_flows)
    }

    /// Moves the set point of all algorithms, where they have one.
    pub fn aim<T>(&mut self, store: &mut Store<T, A>, to: Duration) {
        for aqm in self.aqms(store) {
            if let Some(setpoint) = aqm.setpoint() {
                setpoint.set(to);
            }
        }
    }

    /// Something was measured outside; all algorithms are told.
    pub fn sample<T>(&mut self, store: &mut Store<T, A>, now: Time, sample: Sample) {
        self.aqms(store).for_each(|aqm| aqm.on_sample(now, sample));
    }
}

/// Discards heads of the FIFO with the most bytes until as many are free as a packet for another FIFO has, if
/// that one will have no more then. How many bytes and packets were.
fn give_way<A: Aqm + Clone, G: Guide<A>, T: Copy>(
    management: &mut Management<A, G>,
    set: &mut Set<A>,
    pool: &mut Pool<T>,
    (fifo, len): (usize, Bytes),
    mut left: u32,
    now: Time,
    out: &mut impl Outbox<T>,
) -> (Bytes, u32) {
    let (mut freed, mut packets) = (Bytes::ZERO, 0);
    let longest = (0..FLOWS).max_by_key(|at| set.line(*at).backlog).unwrap_or(fifo);
    if set.line(longest).backlog < set.line(fifo).backlog + len + len {
        return (freed, packets);
    }
    while freed < len {
        let Some(slot) = pop(set, pool, longest) else { break };
        freed += slot.packet.len;
        packets += 1;
        left -= 1;
        management.shed(&slot.packet);
        let m = moment(management, set, longest, now);
        management.guide.on_shed(&mut set.line_mut(longest).aqm, &m, &slot.packet);
        out.discarded(&slot.packet, slot.item, Cause::Overflow);
        look_if_empty(management, set, longest, left, now);
    }
    (freed, packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hosts;
    use weir_aqm::Algorithm;
    use weir_aqm::algorithms::codel::{CoDel, Params};
    use weir_units::Ecn;

    const LEN: Bytes = Bytes::new(1500);
    const ROOM: Bytes = Bytes::new(60_000);

    /// A packet, by its flow and its number.
    type Item = (u32, u32);

    fn codel() -> CoDel {
        CoDel::new(&Params::default(), Time::ZERO)
    }

    fn queue() -> Pooled<CoDel> {
        // A packet takes a millisecond.
        let mut queue = Pooled::new(codel(), (), Rate::from_mbps(12), 3);
        queue.set_fifos(Fifos::Many);
        queue
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// A packet comes for a flow; whether it went to a FIFO of its flow.
    fn put(
        queue: &mut Pooled<CoDel>,
        store: &mut Store<Item, CoDel>,
        now: Time,
        (flow, number): Item,
        lost: &mut Vec<Item>,
    ) -> bool {
        let arrival = Arrival { len: LEN, flow, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
        let mut out = |_: &Packet, item, _| lost.push(item);
        let fifo = queue.fifo_of(store, flow);
        match fifo {
            Some(fifo) => queue.enqueue_in(store, fifo, ROOM, now, (arrival, (flow, number)), &mut out),
            None => queue.enqueue(store, ROOM, now, arrival, (flow, number), &mut out),
        }
        fifo.is_some()
    }

    /// A flow is sent three times the rate and another as much as it, a third one a packet in 20 ms. Packets
    /// that left of each, the longest wait of the third, and who lost.
    fn shared(fifos: Fifos) -> ([u32; 3], Duration, [usize; 3]) {
        let (mut store, mut queue) = (Store::new(1000).with_flows(1, &codel()), queue());
        queue.set_fifos(fifos);
        let (mut sent, mut longest, mut lost) = ([0; 3], Duration::ZERO, Vec::new());
        let mut numbers = [0; 3];
        for ms in 0..5000 {
            for (flow, packets) in [(0, 3), (1, 1), (2, u32::from(ms % 20 == 0))] {
                for _ in 0..packets {
                    let item = (flow, numbers[flow as usize]);
                    numbers[flow as usize] += 1;
                    put(&mut queue, &mut store, at(ms), item, &mut lost);
                }
            }
            let head = queue.head(&mut store, |_| true).map(|(_, item)| *item);
            let before = lost.len();
            let mut out = |_: &Packet, item, _| lost.push(item);
            let departure = queue.dequeue(&mut store, at(ms), |_| true, &mut out);
            let Some(departure) = departure else { panic!("something waits") };
            assert!(lost.len() > before || head == Some(departure.item), "it is the head, if that stayed");
            sent[departure.item.0 as usize] += 1;
            // Who comes first has the first round.
            if departure.item.0 == 2 && ms > 10 {
                longest = longest.max(departure.sojourn);
            }
        }
        (sent, longest, [0, 1, 2].map(|flow| lost.iter().filter(|item| item.0 == flow).count()))
    }

    #[test]
    fn flows_share_the_rate_and_one_with_little_does_not_wait() {
        let (sent, longest, lost) = shared(Fifos::Many);
        assert!(sent[0].abs_diff(sent[1]) < 60 && sent[2] == 250, "{sent:?}");
        assert!(longest <= Duration::from_millis(1) && lost[2] == 0, "{longest}, {lost:?}");
        // In one FIFO the flood has most of it.
        let (sent, _, lost) = shared(Fifos::One);
        assert!(sent[0] > 2 * sent[1] && lost[2] > 0, "{sent:?}, {lost:?}");
    }

    #[test]
    fn the_flow_with_the_most_bytes_gives_way_where_room_or_memory_is_short() {
        let (mut store, mut queue) = (Store::new(30).with_flows(1, &codel()), queue());
        let mut lost = Vec::new();
        for number in 0..40 {
            put(&mut queue, &mut store, at(0), (0, number), &mut lost);
        }
        // What comes for the flow that has it all is discarded, without memory or without room.
        assert_eq!((lost.len(), store.free()), (10, 0));
        lost.clear();
        for number in 0..3 {
            put(&mut queue, &mut store, at(0), (1, number), &mut lost);
        }
        assert_eq!((lost, queue.packets(), store.free()), (vec![(0, 0), (0, 1), (0, 2)], 30, 0));
        // Where there is to be no room, nobody gives way.
        let fifo = queue.fifo_of(&mut store, 1).unwrap();
        let arrival = Arrival { len: LEN, flow: 1, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
        let mut lost = Vec::new();
        let mut out = |_: &Packet, item, cause| lost.push((item, cause));
        queue.enqueue_in(&mut store, fifo, Bytes::ZERO, at(0), (arrival, (1, 3)), &mut out);
        assert_eq!((lost, queue.packets()), (vec![((1, 3), Cause::Overflow)], 30));
    }

    #[test]
    fn bytes_before_a_packet_are_those_of_its_flow_and_as_many_of_others() {
        let (mut store, mut queue) = (Store::new(100).with_flows(1, &codel()), queue());
        let mut lost = Vec::new();
        for (flow, packets) in [(0, 9), (1, 3), (2, 1)] {
            for number in 0..packets {
                put(&mut queue, &mut store, at(0), (flow, number), &mut lost);
            }
        }
        let mut before = |flow| {
            let fifo = queue.fifo_of(&mut store, flow).unwrap();
            let (bytes, is_first) = queue.bytes_before(&store, fifo, LEN);
            (bytes.get() / 1500, is_first)
        };
        // 9 + 3 + 1; 3 + 4 of the first + 1; 1 + 2 + 2; one of each.
        let wanted = [(13, false), (8, false), (5, false), (3, true)];
        assert_eq!([before(0), before(1), before(2), before(3)], wanted);
    }

    #[test]
    fn a_set_is_lent_while_packets_wait_in_it_and_what_waits_in_the_one_fifo_goes_first() {
        let mut store = Store::new(100).with_flows(1, &codel());
        let [mut a, mut b] = [queue(), queue()];
        let mut lost = Vec::new();
        assert!(put(&mut a, &mut store, at(0), (1, 0), &mut lost));
        assert!(!put(&mut b, &mut store, at(0), (1, 0), &mut lost), "the only set is another's");
        let mut none = |_: &Packet, item: Item, _| panic!("{item:?} is lost");
        assert!(a.dequeue(&mut store, at(1), |_| true, &mut none).is_some());
        // It is free now, and goes to whom has a packet next.
        assert!(put(&mut b, &mut store, at(1), (2, 0), &mut lost));
        assert!(!put(&mut a, &mut store, at(1), (1, 1), &mut lost));
        assert!(put(&mut b, &mut store, at(1), (1, 1), &mut lost));
        let mut order = Vec::new();
        while let Some(departure) = b.dequeue(&mut store, at(2), |_| true, &mut none) {
            order.push(departure.item);
        }
        assert_eq!(order, [(1, 0), (2, 0), (1, 1)]);
        assert!(put(&mut a, &mut store, at(3), (1, 2), &mut lost) && lost.is_empty());
        // The oldest of all goes where packets are kept for too long, and everything when the queue ends.
        assert_eq!(a.oldest(&store, |_| true).map(|(_, item)| *item), Some((1, 1)));
        let mut shed = Vec::new();
        assert!(a.shed_oldest(&mut store, at(4), |_| true, &mut |_: &Packet, item, _| shed.push(item)));
        assert!(put(&mut a, &mut store, at(4), (3, 0), &mut lost));
        assert_eq!(a.oldest(&store, |_| true).map(|(_, item)| *item), Some((1, 2)));
        a.clear(&mut store, &mut |_: &Packet, item, _| shed.push(item));
        assert_eq!((shed, a.packets(), store.free()), (vec![(1, 1), (1, 2), (3, 0)], 0, 100));
        assert!(put(&mut b, &mut store, at(5), (4, 0), &mut lost));
    }

    #[test]
    fn a_flow_that_shares_a_fifo_stays_there_while_its_packets_may_be_in_it() {
        let (mut store, mut queue) = (Store::new(100).with_flows(1, &codel()), queue());
        let (mut lost, mut order) = (Vec::new(), Vec::new());
        (0..4).for_each(|number| assert!(put(&mut queue, &mut store, at(0), (0, number), &mut lost)));
        // The ninth flow finds no FIFO and shares that of the first.
        (1..=8).for_each(|flow| assert!(put(&mut queue, &mut store, at(0), (flow, 0), &mut lost)));
        let mut goes = |store: &mut Store<Item, CoDel>, queue: &mut Pooled<CoDel>| {
            let gone = queue.dequeue(store, at(1), |_| true, &mut |_: &Packet, _, _| {});
            order.push(gone.map(|departure| departure.item)?);
            order.last().copied()
        };
        // The FIFO of the second flow is empty then.
        while goes(&mut store, &mut queue).is_some_and(|(flow, _)| flow != 1) {}
        put(&mut queue, &mut store, at(1), (8, 1), &mut lost);
        while goes(&mut store, &mut queue).is_some() {}
        let of_ninth: Vec<u32> = order.iter().filter(|item| item.0 == 8).map(|item| item.1).collect();
        assert_eq!((of_ninth, order.len(), lost.len()), (vec![0, 1], 13, 0));
        // Another time it has one of its own: the second flow's, as the first one's is on a round still.
        put(&mut queue, &mut store, at(2), (8, 2), &mut lost);
        put(&mut queue, &mut store, at(2), (0, 4), &mut lost);
        assert_eq!([8, 0].map(|flow| queue.fifo_of(&mut store, flow)), [Some(1), Some(0)]);
    }

    #[test]
    fn packets_that_may_not_go_hold_up_their_flow_alone() {
        let (mut store, mut queue) = (Store::new(100).with_flows(1, &codel()), queue());
        let mut lost = Vec::new();
        for item in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            put(&mut queue, &mut store, at(0), item, &mut lost);
        }
        let is_second = |item: &Item| item.0 == 2;
        let mut order = Vec::new();
        while let Some((_, item)) = queue.head(&mut store, is_second) {
            let item = *item;
            let gone = queue.dequeue(&mut store, at(1), is_second, &mut |_: &Packet, _, _| {});
            assert_eq!(gone.map(|departure| departure.item), Some(item));
            order.push(item);
        }
        assert_eq!(order, [(2, 0), (2, 1)]);
        assert_eq!(queue.oldest(&store, is_second), None);
        let rest = std::iter::from_fn(|| {
            Some(queue.dequeue(&mut store, at(2), |_| true, &mut |_: &Packet, _, _| {})?.item)
        });
        assert_eq!(rest.collect::<Vec<_>>(), [(1, 0), (1, 1)]);
    }

    /// A flow that sent more than its share, as packets of 9000 bytes do, is found behind others that may not
    /// go and came later.
    #[test]
    fn a_packet_that_may_go_is_found_behind_any_number_of_flows_that_may_not() {
        let (mut store, mut queue) = (Store::new(100).with_flows(1, &codel()), queue());
        let mut none = |_: &Packet, item: Item, _| panic!("{item:?} is lost");
        let mut come = |queue: &mut Pooled<CoDel>, store: &mut Store<Item, CoDel>, flow, number| {
            let (len, hosts) = (Bytes::new(9000), Hosts::UNKNOWN);
            let arrival = Arrival { len, flow, hosts, ecn: Ecn::NotEct, nqb: false };
            let fifo = queue.fifo_of(store, flow).unwrap();
            let room = Bytes::new(1_000_000);
            queue.enqueue_in(store, fifo, room, at(0), (arrival, (flow, number)), &mut none);
        };
        (0..3).for_each(|number| come(&mut queue, &mut store, 1, number));
        come(&mut queue, &mut store, 2, 0);
        let is_first = |item: &Item| item.0 == 1;
        let goes = |queue: &mut Pooled<CoDel>, store: &mut Store<Item, CoDel>| {
            let gone = queue.dequeue(store, at(1), is_first, &mut |_: &Packet, _, _| {});
            gone.map(|departure| departure.item)
        };
        assert_eq!(goes(&mut queue, &mut store), Some((1, 0)));
        (3..8).for_each(|flow| come(&mut queue, &mut store, flow, 0));
        assert_eq!(queue.head(&mut store, is_first).map(|(_, item)| *item), Some((1, 1)));
        assert_eq!([0; 3].map(|_| goes(&mut queue, &mut store)), [Some((1, 1)), Some((1, 2)), None]);
        assert_eq!(queue.packets(), 6);
    }

    #[test]
    fn what_waits_in_fifos_of_flows_leaves_them_before_there_is_one_fifo() {
        let (mut store, mut queue) = (Store::new(100).with_flows(1, &codel()), queue());
        let mut lost = Vec::new();
        assert!(put(&mut queue, &mut store, at(0), (1, 0), &mut lost));
        queue.set_fifos(Fifos::One);
        assert!(put(&mut queue, &mut store, at(0), (1, 1), &mut lost), "or it would go before the first");
        for number in 0..2 {
            let gone = queue.dequeue(&mut store, at(1), |_| true, &mut |_: &Packet, _, _| {});
            assert_eq!(gone.map(|departure| departure.item), Some((1, number)));
        }
        assert!(!put(&mut queue, &mut store, at(1), (1, 2), &mut lost) && lost.is_empty());
    }
}
