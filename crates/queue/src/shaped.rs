//! A shaper beside a FIFO: for flows that do not respond to signals.
//!
//! All flows of one bottleneck that its algorithm wants shaped ([`Aqm::shaped`](weir_aqm::Aqm::shaped)) wait
//! here, in a FIFO for each, served in turn and all together at one rate. So their number costs the others
//! nothing. Nobody is signalled here, because nobody would respond: a packet is discarded that would wait
//! longer than [`WAIT`], on arrival or at the head, and a flow may always have the bytes of two rounds.

use crate::buckets::Buckets;
use crate::pool::{Chain, Pool};
use crate::rounds::{Rounds, Turn};
use crate::{Counters, DROPS_PER_DEQUEUE_MAX, Departure, Outbox, Shaper};
use weir_aqm::{Aqm, Cause, Packet};
use weir_units::{Bytes, Duration, Rate, Time};

/// FIFOs; flows beyond share one with another. As in CAKE, a flow may choose from several.
const FLOWS: u32 = 512;
const WAYS: u32 = 8;
/// Most packets of all flows together.
const PACKETS_MAX: u32 = 1024;
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
pub(crate) struct Shaped<T> {
    buckets: Buckets,
    fifos: Box<[Chain]>,
    turns: Box<[Turn]>,
    rounds: Rounds,
    pool: Pool<T>,
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

impl<T: Copy> Shaped<T> {
    /// An empty one, for a queue of at most so many packets; its memory is allocated at once unless it grows.
    pub fn new(packets: u32, grows: bool, salt: u64) -> Shaped<T> {
        let buckets = Buckets::new(FLOWS, WAYS, salt);
        let count = buckets.len();
        Shaped {
            buckets,
            fifos: vec![Chain::default(); count].into(),
            turns: vec![Turn::IDLE; count].into(),
            rounds: Rounds::default(),
            pool: Pool::with_capacity(if grows { 0 } else { packets.min(PACKETS_MAX) as usize }),
            shaper: Shaper::new(Rate::ZERO, CATCH_UP),
            room: 0,
            active: 0,
            packets: 0,
            backlog: Bytes::ZERO,
            latest: Time::ZERO,
        }
    }

    /// The same for an algorithm, if it has flows shaped.
    pub fn under<A: Aqm>(packets: u32, grows: bool, salt: u64) -> Option<Box<Shaped<T>>> {
        A::SHAPES.then(|| Box::new(Shaped::new(packets, grows, salt)))
    }

    /// Memory beside the place where it lies.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + size_of_val(&*self.fifos) + size_of_val(&*self.turns) + self.pool.bytes()
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
    pub fn offer(
        &mut self,
        packet: Packet,
        item: T,
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
        self.pool.push(&mut self.fifos[at], packet, false, item);
        self.packets += 1;
        self.backlog += packet.len;
        self.latest = packet.arrived;
        counters.admitted(Ok(false));
    }

    /// The next packet, if one may leave by now; heads that waited too long go to the outbox.
    pub fn take(
        &mut self,
        now: Time,
        counters: &mut Counters,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        self.due().filter(|due| *due <= now)?;
        let mut drops = 0;
        loop {
            let mut left = 0;
            let chosen = self.rounds.choose(&mut self.turns, QUANTUM, &mut left);
            self.active -= left;
            let at = chosen?;
            let slot = *self.pool.pop(&mut self.fifos[at])?;
            let (packet, sojourn) = (slot.packet, now.since(slot.packet.arrived));
            let turn = &mut self.turns[at];
            turn.taken(packet.len);
            self.packets -= 1;
            self.backlog -= packet.len;
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
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
        let mut shaped = Shaped::new(10_000, false, 7);
        let mut counters = Counters::default();
        let mut seen = Seen { left: 0, modest_lost: 0, most_wait: Duration::ZERO, most_packets: 0 };
        let mut next_modest = 0;
        for n in 0..33_333u32 {
            // 1500 bytes at 40 Mbit/s.
            let now = at(u64::from(n) * 300);
            let mut offer = |flow, shaped: &mut Shaped<u32>| {
                let arrival = crate::Arrival {
                    len: Bytes::new(1500),
                    flow,
                    hosts: crate::Hosts::UNKNOWN,
                    ecn: Ecn::NotEct,
                    nqb: false,
                };
                let packet = counters.arrive(now, &arrival);
                let mut out = |_: &Packet, flow, _| seen.modest_lost += u64::from(flow == MODEST);
                shaped.offer(packet, flow, Rate::from_mbps(10), true, &mut counters, &mut out);
            };
            offer(n % flows, &mut shaped);
            if n >= next_modest {
                next_modest += 8 * (flows + 1);
                offer(MODEST, &mut shaped);
            }
            seen.most_packets = seen.most_packets.max(shaped.packets());
            while let Some(due) = shaped.due().filter(|due| *due <= now) {
                let mut out = |_: &Packet, flow, _| seen.modest_lost += u64::from(flow == MODEST);
                let Some(departure) = shaped.take(due, &mut counters, &mut out) else { break };
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
