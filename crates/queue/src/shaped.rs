//! A shaper beside a FIFO: for flows that do not respond to signals.
//!
//! All flows of one bottleneck that its algorithm wants shaped ([`Aqm::shaped`](weir_aqm::Aqm::shaped)) wait
//! here, in a FIFO for each, served in turn and all together at one rate. So their number costs the others
//! nothing. Nobody is signalled here, because nobody would respond: a packet is discarded that would wait
//! longer than [`WAIT`], on arrival or at the head, and a flow may always have the bytes of two rounds.
//!
//! The packets lie in a [`Pool`] of the host, which is the same in every call. Where there are many queues,
//! few have such flows at once, and a bounded number of shapers is lent to those ([`Shapers`]).

use crate::buckets::Buckets;
use crate::pool::{Chain, Pool, Slot};
use crate::rounds::{Rounds, Turn};
use crate::{Counters, DROPS_PER_DEQUEUE_MAX, Departure, Outbox, Shaper};
use weir_aqm::{Cause, Packet};
use weir_units::{Bytes, Duration, Rate, Time};

/// FIFOs; flows beyond share one with another. As in CAKE, a flow may choose from several.
const FLOWS: u32 = 512;
const WAYS: u32 = 8;
/// Most packets of all flows together.
pub(crate) const PACKETS_MAX: u32 = 1024;
/// Bytes that a flow sends in one round.
const QUANTUM: i64 = 1538;
/// How long a packet may wait behind others of its flow.
const WAIT: Duration = Duration::from_millis(100);
/// Bytes that a flow may have however long they take: those of two rounds, so that one below its share loses
/// nothing.
const LEAST: u64 = 2 * QUANTUM as u64;
/// Time lost that is made up for.
const CATCH_UP: Duration = Duration::from_millis(5);

/// See the [module documentation](self).
pub(crate) struct Shaped {
    buckets: Buckets,
    fifos: Box<[Chain]>,
    turns: Box<[Turn]>,
    rounds: Rounds,
    shaper: Shaper,
    /// What leaves in [`WAIT`].
    room: u64,
    /// Flows that are not idle.
    active: u32,
    packets: u32,
    backlog: Bytes,
    /// When the packet arrived that was stored last.
    latest: Time,
}

impl Shaped {
    /// An empty one; all of its memory is allocated here.
    pub fn new(salt: u64) -> Shaped {
        let buckets = Buckets::new(FLOWS, WAYS, salt);
        let count = buckets.len();
        Shaped {
            buckets,
            fifos: vec![Chain::default(); count].into(),
            turns: vec![Turn::IDLE; count].into(),
            rounds: Rounds::default(),
            shaper: Shaper::new(Rate::ZERO, CATCH_UP),
            room: 0,
            active: 0,
            packets: 0,
            backlog: Bytes::ZERO,
            latest: Time::ZERO,
        }
    }

    /// Memory beside the place where it lies.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + size_of_val(&*self.fifos) + size_of_val(&*self.turns)
    }

    /// Packets stored.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes stored.
    pub fn backlog(&self) -> Bytes {
        self.backlog
    }

    /// When the next packet may leave, or the last one arrived, if that was later.
    pub fn due(&self) -> Option<Time> {
        (self.packets > 0).then(|| self.shaper.departure(self.latest))
    }

    /// Stores an arrival or hands it to the outbox. From now on all leave at this rate. `fits` says whether
    /// the queue has room for it.
    pub fn offer<T: Copy>(
        &mut self,
        pool: &mut Pool<T>,
        (packet, item): (Packet, T),
        rate: Rate,
        fits: bool,
        counters: &mut Counters,
        out: &mut impl Outbox<T>,
    ) {
        if self.shaper.rate() != rate {
            self.shaper.set_rate(rate);
            self.room = rate.bytes_in(WAIT).get();
        }
        let turns = &self.turns;
        let at = self.buckets.place(packet.flow, |at| turns[at].is_idle());
        let turn = &mut self.turns[at];
        let active = self.active + u32::from(turn.is_idle());
        let wants = u64::from(turn.bytes) + packet.len.get();
        let is_late = wants > LEAST && wants * u64::from(active) > self.room;
        if !fits || is_late || self.packets >= PACKETS_MAX {
            let cause = if is_late { Cause::SetPoint } else { Cause::Overflow };
            counters.admitted(Err(cause));
            return out.discarded(&packet, item, cause);
        }
        if turn.is_idle() {
            self.rounds.join(&mut self.turns, at, QUANTUM);
        }
        self.active = active;
        self.turns[at].stored(packet.len);
        pool.push(&mut self.fifos[at], packet, false, item);
        self.packets += 1;
        self.backlog += packet.len;
        self.latest = packet.arrived;
        counters.admitted(Ok(false));
    }

    /// The flow whose turn it is.
    fn choose(&mut self) -> Option<usize> {
        let mut left = 0;
        let chosen = self.rounds.choose(&mut self.turns, QUANTUM, &mut left);
        self.active -= left;
        chosen
    }

    /// The packet whose turn it is, whether it may leave or not.
    pub fn head<'p, T: Copy>(&mut self, pool: &'p Pool<T>) -> Option<&'p Slot<T>> {
        let at = self.choose()?;
        pool.head(&self.fifos[at])
    }

    /// Takes it out, without charging anybody.
    pub fn pop<T: Copy>(&mut self, pool: &mut Pool<T>) -> Option<(usize, Slot<T>)> {
        let at = self.choose()?;
        let slot = *pool.pop(&mut self.fifos[at])?;
        self.turns[at].taken(slot.packet.len);
        self.packets -= 1;
        self.backlog -= slot.packet.len;
        Some((at, slot))
    }

    /// The next packet, if one may leave by now; heads that waited too long go to the outbox.
    pub fn take<T: Copy>(
        &mut self,
        pool: &mut Pool<T>,
        now: Time,
        counters: &mut Counters,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        self.due().filter(|due| *due <= now)?;
        let mut drops = 0;
        loop {
            let (at, slot) = self.pop(pool)?;
            let (packet, sojourn) = (slot.packet, now.since(slot.packet.arrived));
            let turn = &mut self.turns[at];
            if sojourn > WAIT && u64::from(turn.bytes) >= QUANTUM as u64 && drops < DROPS_PER_DEQUEUE_MAX {
                drops += 1;
                counters.dropped_out += 1;
                out.discarded(&packet, slot.item, Cause::SetPoint);
                continue;
            }
            turn.charge(packet.len);
            self.shaper.looked(now);
            self.shaper.sent(self.shaper.departure(packet.arrived), packet.len);
            counters.departure(packet.len);
            return Some(Departure { packet, item: slot.item, marked: false, sojourn });
        }
    }

    /// What waits may leave at once, and what comes until a rate is told again.
    pub fn let_go(&mut self) {
        self.shaper = Shaper::new(Rate::ZERO, CATCH_UP);
    }
}

/// Whose no shaper is.
const NOBODY: u64 = u64::MAX;
/// Most shapers that are looked at for one that can be lent.
const SWEEP_MAX: usize = 16;

/// A bounded number of shapers, lent to queues or users. An owner keeps what was lent to it, and so the time
/// at which the next packet may leave, until it is empty and somebody else needs it.
pub(crate) struct Shapers {
    owners: Box<[u64]>,
    shapers: Box<[Shaped]>,
    hand: usize,
}

impl Shapers {
    /// So many; all of their memory is allocated here.
    pub fn new(count: usize, salt: u64) -> Shapers {
        let shapers = (0..count).map(|_| Shaped::new(salt)).collect();
        Shapers { owners: vec![NOBODY; count].into(), shapers, hand: 0 }
    }

    /// Memory of all.
    pub fn bytes(&self) -> usize {
        let of_one = |shaped: &Shaped| size_of::<Shaped>() + shaped.bytes();
        size_of_val(&*self.owners) + self.shapers.iter().map(of_one).sum::<usize>()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// The shaper at a place, if it is still the owner's.
    #[inline]
    pub fn get(&mut self, at: usize, owner: u64) -> Option<&mut Shaped> {
        if *self.owners.get(at)? == owner { Some(&mut self.shapers[at]) } else { None }
    }

    /// Where that of an owner is. All are looked at.
    pub fn find(&self, owner: u64) -> Option<usize> {
        self.owners.iter().position(|other| *other == owner)
    }

    /// Lends one to an owner who has none: one that is nobody's, else one in which nothing waits.
    pub fn lend(&mut self, owner: u64) -> Option<usize> {
        let count = self.len();
        let near = || (0..count.min(SWEEP_MAX)).map(|step| (self.hand + step) % count);
        let is_empty = |at: &usize| self.shapers[*at].packets() == 0;
        let is_nobodys = |at: &usize| self.owners[*at] == NOBODY && is_empty(at);
        let found = near().find(is_nobodys).or_else(|| near().find(is_empty));
        self.hand = found.map_or(self.hand + SWEEP_MAX, |at| at + 1) % count.max(1);
        let at = found?;
        self.owners[at] = owner;
        self.shapers[at].let_go();
        Some(at)
    }

    /// What still waits in the shaper at a place is nobody's from now on, if that is still the owner's.
    pub fn give_back(&mut self, at: usize, owner: u64) {
        if self.get(at, owner).is_some() {
            self.owners[at] = NOBODY;
        }
    }

    /// All shapers, with their owners.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Shaped)> {
        self.owners.iter().copied().zip(&self.shapers)
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Shaped)> {
        self.owners.iter().copied().zip(&mut self.shapers)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_aqm::Aqm;
    use weir_units::Ecn;

    /// Has flows with odd numbers shaped, to a packet in a millisecond.
    #[derive(Clone)]
    pub(crate) struct Odd;

    impl Aqm for Odd {
        const SHAPES: bool = true;

        fn shaped(&self, p: &Packet) -> Option<Rate> {
            (p.flow % 2 == 1).then_some(Rate::from_mbps(12))
        }
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    struct Seen {
        left: u64,
        modest_lost: u64,
        most_wait: Duration,
        most_packets: u32,
    }

    /// Ten seconds in which `flows` floods are sent four times the rate of 10 Mbit/s, and one flow is sent
    /// half of what each gets.
    fn floods(flows: u32) -> Seen {
        const MODEST: u32 = u32::MAX;
        let (mut shaped, mut pool) = (Shaped::new(7), Pool::with_capacity(PACKETS_MAX as usize));
        let mut counters = Counters::default();
        let mut seen = Seen { left: 0, modest_lost: 0, most_wait: Duration::ZERO, most_packets: 0 };
        let mut next_modest = 0;
        for n in 0..33_333u32 {
            // 1500 bytes at 40 Mbit/s.
            let now = at(u64::from(n) * 300);
            let mut offer = |flow, shaped: &mut Shaped, pool: &mut Pool<u32>| {
                let arrival = crate::Arrival {
                    len: Bytes::new(1500),
                    flow,
                    hosts: crate::Hosts::UNKNOWN,
                    ecn: Ecn::NotEct,
                    nqb: false,
                };
                let packet = counters.arrive(now, &arrival);
                let mut out = |_: &Packet, flow, _| seen.modest_lost += u64::from(flow == MODEST);
                shaped.offer(pool, (packet, flow), Rate::from_mbps(10), true, &mut counters, &mut out);
            };
            offer(n % flows, &mut shaped, &mut pool);
            if n >= next_modest {
                next_modest += 8 * (flows + 1);
                offer(MODEST, &mut shaped, &mut pool);
            }
            seen.most_packets = seen.most_packets.max(shaped.packets());
            while let Some(due) = shaped.due().filter(|due| *due <= now) {
                let mut out = |_: &Packet, flow, _| seen.modest_lost += u64::from(flow == MODEST);
                let Some(departure) = shaped.take(&mut pool, due, &mut counters, &mut out) else { break };
                seen.left += departure.packet.len.get();
                seen.most_wait = seen.most_wait.max(departure.sojourn);
            }
            assert!(counters.is_conserved(shaped.packets()));
        }
        seen
    }

    #[test]
    fn floods_share_one_rate_wait_a_bounded_time_and_cost_a_modest_flow_nothing() {
        for flows in [1, 10, 200] {
            let seen = floods(flows);
            // 10 Mbit/s are 12.5 MB in ten seconds.
            assert!((12_400_000..12_510_000).contains(&seen.left), "{flows}: {}", seen.left);
            assert_eq!(seen.modest_lost, 0, "{flows}");
            // Two packets of each flow may wait however long that takes, 1.2 ms each, behind one that came
            // while there were fewer flows.
            let rounds = Duration::from_micros(1200 * 3 * u64::from(flows + 2));
            assert!(seen.most_wait <= WAIT.max(rounds), "{flows}: {}", seen.most_wait);
            assert!(seen.most_wait > WAIT.mul_f64(0.5), "{flows} are queued: {}", seen.most_wait);
            assert!(seen.most_packets <= 84 + 2 * (flows + 2), "{flows}: {}", seen.most_packets);
        }
    }
}
