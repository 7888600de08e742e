//! A shallow lane beside a FIFO: for packets that ask not to wait behind what builds a queue.
//!
//! Packets of the non-queue-building behaviour (NQB, RFC 9956) and, where marks at a shallow threshold are
//! on, those of L4S wait in the lane, all others in the classic FIFO beside it. Both get the same share of
//! what their flow or user gets, by bytes, so that the lane brings no bandwidth and no priority, and its room
//! is small, so that it is worth nothing to senders that build a queue. The algorithm is not asked about
//! packets in the lane; those of L4S are marked at the threshold. With queue protection, packets of flows
//! that build a queue in the lane go to the classic FIFO.

use crate::memory;
use crate::pool::{Chain, Pool, Slot};
use crate::protection::{Protection, Ramp};
use std::iter::repeat_n;
use weir_aqm::Packet;
use weir_units::{Bytes, Duration, Ecn, Rate, Time};

/// Room of a lane when nothing is said, as time at the rate, and its bounds.
pub(crate) const NQB_BUFFER: Duration = Duration::from_millis(10);
pub(crate) const NQB_BUFFER_MIN: Duration = Duration::from_millis(1);
pub(crate) const NQB_BUFFER_MAX: Duration = Duration::from_secs(1);

/// What the lane can always hold: two of the largest packets, however slow the link is.
const ROOM_MIN: Bytes = Bytes::new(2 * 1538);

/// Base 2 logarithm of the number of buckets, which all lanes of a queue share.
const BUCKET_BITS: u32 = 10;

/// What so much time is in bytes.
pub(crate) fn room(rate: Rate, buffer: Duration) -> Bytes {
    rate.bytes_in(buffer).max(ROOM_MIN)
}

/// What lanes are made of.
#[derive(Clone, Copy)]
pub(crate) struct LaneParams {
    /// Room of a lane, as time at the rate.
    pub buffer: Duration,
    /// Where packets of L4S are marked; zero if they do not use the lane.
    pub l4s_threshold: Duration,
    pub protection: bool,
}

impl LaneParams {
    /// The delay above which each packet with ECT(1) is marked; [`Duration::MAX`] where none is.
    pub fn marked_above(&self) -> Duration {
        if self.l4s_threshold == Duration::ZERO { Duration::MAX } else { self.l4s_threshold }
    }
}

/// One lane.
#[derive(Clone, Copy, Default)]
struct Lane {
    fifo: Chain,
    packets: u32,
    bytes: u32,
    /// Bytes that the lane may send before the classic FIFO, while both have packets.
    credit: i64,
}

/// Where an arrival goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Classic,
    /// To the classic FIFO, by queue protection.
    Sanctioned,
    Shallow,
    /// It belongs into the lane, which has no room.
    Full,
}

/// The lanes of all flows or users.
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    params: LaneParams,
    protection: Option<Protection>,
}

impl Lanes {
    /// So many of them, empty.
    pub fn new(count: usize, params: LaneParams) -> Lanes {
        Lanes {
            lanes: memory::array(repeat_n(Lane::default(), count)),
            params,
            protection: params.protection.then(|| Protection::new(BUCKET_BITS)),
        }
    }

    /// Memory of one.
    pub fn bytes_of_one() -> usize {
        size_of::<Lane>()
    }

    /// Packets in a lane.
    #[inline]
    pub fn packets(&self, at: usize) -> u32 {
        self.lanes[at].packets
    }

    /// Bytes in a lane.
    #[inline]
    pub fn bytes(&self, at: usize) -> Bytes {
        Bytes::new(self.lanes[at].bytes.into())
    }

    /// Where an arrival goes, which asks for NQB or not. The rate is that of its link or user; zero if it is
    /// not known, when the lane has no bound of its own and nobody is sanctioned.
    pub fn way(&mut self, at: usize, now: Time, packet: &Packet, nqb: bool, rate: Rate) -> Way {
        let is_l4s = self.params.l4s_threshold > Duration::ZERO && packet.ecn.is_low_latency();
        if !nqb && !is_l4s {
            return Way::Classic;
        }
        if rate == Rate::ZERO {
            return Way::Shallow;
        }
        let stored = self.bytes(at);
        if let Some(protection) = &mut self.protection {
            let delay = rate.time_for(stored);
            if protection.sanctions(now, packet.flow, packet.len, delay, Ramp::native(rate)) {
                return Way::Sanctioned;
            }
        }
        if stored + packet.len <= room(rate, self.params.buffer) { Way::Shallow } else { Way::Full }
    }

    /// Stores a packet.
    pub fn push<T: Copy>(&mut self, at: usize, pool: &mut Pool<T>, packet: Packet, item: T) {
        let lane = &mut self.lanes[at];
        lane.packets += 1;
        lane.bytes += packet.len.get() as u32;
        pool.push(&mut lane.fifo, packet, false, item);
    }

    /// Whether the lane is next, beside a classic FIFO that has packets or not.
    #[inline]
    pub fn is_next(&self, at: usize, classic_has: bool) -> bool {
        let lane = &self.lanes[at];
        lane.packets > 0 && (!classic_has || lane.credit >= 0)
    }

    /// Takes the first packet, if there is one.
    pub fn pop<T: Copy>(&mut self, at: usize, pool: &mut Pool<T>) -> Option<Slot<T>> {
        let lane = &mut self.lanes[at];
        let slot = *pool.pop(&mut lane.fifo)?;
        lane.packets -= 1;
        lane.bytes -= slot.packet.len.get() as u32;
        Some(slot)
    }

    /// Somebody else has it from now on. It is empty.
    pub fn reset(&mut self, at: usize) {
        debug_assert_eq!(self.lanes[at].packets, 0);
        self.lanes[at] = Lane::default();
    }

    /// The first packet, if there is one.
    pub fn head<'p, T: Copy>(&self, at: usize, pool: &'p Pool<T>) -> Option<&'p Slot<T>> {
        pool.head(&self.lanes[at].fifo)
    }

    /// A packet of the lane was sent; `contended` if the classic FIFO has packets as well. Who sends alone
    /// owes nothing for it, but what is owed must be paid, or a lane that runs empty after each packet
    /// would get more than its share.
    pub fn sent(&mut self, at: usize, len: Bytes, contended: bool) {
        let lane = &mut self.lanes[at];
        let (len, before) = (len.get() as i64, lane.credit);
        lane.credit = if contended { before - len } else { (before - len).max(before.min(0)) };
    }

    /// A packet of the classic FIFO beside the lane was sent.
    #[inline]
    pub fn classic_sent(&mut self, at: usize, len: Bytes) {
        let lane = &mut self.lanes[at];
        let (len, before) = (len.get() as i64, lane.credit);
        lane.credit = if lane.packets > 0 { before + len } else { (before + len).min(before.max(0)) };
    }

    /// Whether a packet that waited so long in the lane is to be marked: a step, as what responds to each
    /// mark needs it early (RFC 9331 section 5.2). One that came with CE has its mark.
    pub fn marks(&self, packet: &Packet, sojourn: Duration) -> bool {
        let threshold = self.params.l4s_threshold;
        packet.ecn == Ecn::Ect1 && threshold > Duration::ZERO && sojourn > threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(protection: bool) -> Lanes {
        let params = LaneParams {
            buffer: Duration::from_millis(10),
            l4s_threshold: Duration::from_millis(1),
            protection,
        };
        Lanes::new(1, params)
    }

    fn packet(len: u64) -> Packet {
        Packet { arrived: Time::ZERO, len: Bytes::new(len), seq: 0, flow: 0, ecn: Ecn::NotEct }
    }

    /// Bytes that each sends of 1000 packets when the classic FIFO always has packets of this size and the
    /// lane gets one of that size whenever it has none, or always has some.
    fn shares(classic: u64, shallow: u64, at_once: u32) -> (u64, u64) {
        let (mut lanes, mut pool) = (lanes(false), Pool::with_capacity(10));
        let mut sent = (0, 0);
        for _ in 0..1000 {
            while lanes.packets(0) < at_once {
                lanes.push(0, &mut pool, packet(shallow), ());
            }
            if lanes.is_next(0, true) {
                lanes.pop(0, &mut pool).unwrap();
                lanes.sent(0, Bytes::new(shallow), true);
                sent.1 += shallow;
            } else {
                lanes.classic_sent(0, Bytes::new(classic));
                sent.0 += classic;
            }
        }
        sent
    }

    #[test]
    fn both_get_the_same_share_by_bytes_even_if_the_lane_runs_empty_after_each_packet() {
        for at_once in [1, 3] {
            for (classic, shallow) in [(1500, 1500), (1500, 200), (100, 1500)] {
                let (c, s) = shares(classic, shallow, at_once);
                assert!(c.abs_diff(s) <= 2 * 1500, "{classic} {shallow} {at_once}: {c} {s}");
            }
        }
    }

    #[test]
    fn what_one_sends_alone_costs_it_nothing_and_gives_it_nothing() {
        let (mut lanes, mut pool) = (lanes(false), Pool::with_capacity(10));
        lanes.sent(0, Bytes::new(1500), false);
        assert_eq!(lanes.lanes[0].credit, 0);
        lanes.classic_sent(0, Bytes::new(1500));
        assert_eq!(lanes.lanes[0].credit, 0);
        // What it owes stays until it is paid.
        lanes.sent(0, Bytes::new(1500), true);
        lanes.sent(0, Bytes::new(1500), false);
        assert_eq!(lanes.lanes[0].credit, -1500);
        lanes.push(0, &mut pool, packet(100), ());
        assert!(!lanes.is_next(0, true) && lanes.is_next(0, false));
        lanes.pop(0, &mut pool).unwrap();
        lanes.classic_sent(0, Bytes::new(1000));
        lanes.classic_sent(0, Bytes::new(1000));
        assert_eq!(lanes.lanes[0].credit, 0);
    }

    #[test]
    fn who_belongs_into_the_lane_and_how_much_it_holds() {
        let mut lanes = lanes(true);
        let mut pool = Pool::with_capacity(100);
        let of = |ecn| Packet { ecn, ..packet(1000) };
        let rate = Rate::from_mbps(8);
        let way = |lanes: &mut Lanes, nqb, ecn| lanes.way(0, Time::ZERO, &of(ecn), nqb, rate);
        assert_eq!(way(&mut lanes, false, Ecn::NotEct), Way::Classic);
        assert_eq!(way(&mut lanes, false, Ecn::Ect0), Way::Classic);
        for (nqb, ecn) in [(true, Ecn::NotEct), (false, Ecn::Ect1), (false, Ecn::Ce)] {
            assert_eq!(way(&mut lanes, nqb, ecn), Way::Shallow);
        }
        // 10 ms at 8 Mbit/s are 10 kB. Without protection it is full, with it they go elsewhere before.
        lanes.protection = None;
        (0..9).for_each(|_| lanes.push(0, &mut pool, packet(1000), ()));
        assert_eq!(way(&mut lanes, true, Ecn::NotEct), Way::Shallow);
        lanes.push(0, &mut pool, packet(1000), ());
        assert_eq!(way(&mut lanes, true, Ecn::NotEct), Way::Full);
        assert_eq!(lanes.way(0, Time::ZERO, &of(Ecn::NotEct), true, Rate::ZERO), Way::Shallow);
        lanes.protection = Some(Protection::new(5));
        assert_eq!(way(&mut lanes, true, Ecn::NotEct), Way::Sanctioned);
        lanes.params.l4s_threshold = Duration::ZERO;
        assert_eq!(way(&mut lanes, false, Ecn::Ect1), Way::Classic);
    }
}
