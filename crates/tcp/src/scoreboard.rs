//! What became of each segment that was sent (RFC 2018, RFC 6675, RFC 8985).
//!
//! Every question is answered in amortised constant or logarithmic time, however large the window is:
//! originals leave in order of their numbers, so the search for lost ones is a pointer that only moves
//! forward; retransmissions wait in a queue in order of time; SACK blocks are compared with the ranges known.

mod delivered;
mod losses;

pub(crate) use delivered::Delivered;

use crate::nanos::OptionNanos;
use crate::ranges::{Range, RangeSet};
use crate::ring::Ring;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use weir_units::Time;

const SACKED: u8 = 1;
/// Taken for lost.
const LOST: u8 = 2;
/// A retransmission is in flight.
const RETRANS: u8 = 4;
/// Was sent more than once.
const EVER: u8 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    sent: Time,
    payload: u32,
    flags: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// First segment not acknowledged.
    pub una: u64,
    /// Next new segment.
    pub nxt: u64,
    records: Ring<Record>,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    /// Lost and not yet sent again.
    pub pending: u32,
    /// Segments taken for lost since the start.
    pub lost_total: u64,
    /// What only repairs need; kept apart so that a flow without losses is small, and kept until everything
    /// is acknowledged, so that the next loss allocates nothing.
    repair: Option<Box<Repair>>,
}

#[derive(Clone, Debug, Default)]
struct Repair {
    /// What arrived above `una`.
    sacked: RangeSet,
    /// Below this no segment that was sent once is neither delivered nor lost.
    searched: u64,
    /// Below this, what is pending is in `lost_again`.
    resent: u64,
    /// In order of time; entries of what has become of otherwise are skipped.
    retransmissions: VecDeque<(u64, Time)>,
    /// Pending segments below `resent`.
    lost_again: BinaryHeap<Reverse<u64>>,
}

impl Scoreboard {
    pub fn new() -> Scoreboard {
        Scoreboard {
            una: 0,
            nxt: 0,
            records: Ring::new(),
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            pending: 0,
            lost_total: 0,
            repair: None,
        }
    }

    /// What the next acknowledgement reads and the next segment writes.
    #[inline]
    pub fn ahead(&self) -> [Option<&impl Sized>; 2] {
        [self.records.place(self.una), self.records.place(self.nxt)]
    }

    /// Segments sent and not acknowledged.
    #[inline]
    pub fn out(&self) -> u32 {
        (self.nxt - self.una) as u32
    }

    /// Segments in the network, as far as is known.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.out() - self.sacked_out - self.lost_out + self.retrans_out
    }

    /// One past the highest segment SACKed.
    pub fn highest_sacked(&self) -> u64 {
        self.repair.as_ref().and_then(|r| r.sacked.end()).unwrap_or(self.una)
    }

    /// When segment `seq`, which is not acknowledged, was last sent.
    #[inline]
    pub fn sent(&self, seq: u64) -> Time {
        self.records.get(seq).sent
    }

    /// Payload of segment `seq`, which is not acknowledged.
    pub fn payload(&self, seq: u64) -> u32 {
        self.records.get(seq).payload
    }

    /// Whether segment `seq`, which is not acknowledged, was SACKed.
    pub fn is_sacked(&self, seq: u64) -> bool {
        self.records.get(seq).flags & SACKED != 0
    }

    /// Whether segment `seq`, which is not acknowledged, was sent more than once.
    pub fn was_sent_again(&self, seq: u64) -> bool {
        self.records.get(seq).flags & EVER != 0
    }

    /// Records a new segment and returns its number.
    #[inline]
    pub fn send_new(&mut self, now: Time, payload: u32) -> u64 {
        let seq = self.nxt;
        self.records.put(self.una, seq, Record { sent: now, payload, flags: 0 });
        self.nxt = seq + 1;
        seq
    }

    /// Records that segment `seq` is sent again.
    pub fn send_again(&mut self, now: Time, seq: u64) {
        let record = self.records.get_mut(seq);
        if record.flags & LOST != 0 && record.flags & RETRANS == 0 {
            self.pending -= 1;
        }
        if record.flags & RETRANS == 0 {
            self.retrans_out += 1;
        }
        record.flags |= RETRANS | EVER;
        record.sent = now;
        let repair = self.repair.get_or_insert_default();
        repair.retransmissions.push_back((seq, now));
        if repair.lost_again.peek() == Some(&Reverse(seq)) {
            repair.lost_again.pop();
        } else if seq == repair.resent {
            repair.resent += 1;
        }
    }

    /// The lowest lost segment that was not sent again.
    pub fn next_lost(&mut self) -> Option<u64> {
        if self.pending == 0 {
            return None;
        }
        while let Some(&Reverse(seq)) = self.repair.as_ref().and_then(|r| r.lost_again.peek()) {
            if self.is_pending(seq) {
                return Some(seq);
            }
            self.repair.as_mut().and_then(|r| r.lost_again.pop());
        }
        let mut seq = self.resent().max(self.una);
        while !self.is_pending(seq) {
            seq += 1;
            assert!(seq < self.nxt, "{} lost segments are not found", self.pending);
        }
        self.repair.get_or_insert_default().resent = seq;
        Some(seq)
    }

    fn resent(&self) -> u64 {
        self.repair.as_ref().map_or(0, |r| r.resent)
    }

    fn is_pending(&self, seq: u64) -> bool {
        seq >= self.una && self.records.get(seq).flags & (LOST | RETRANS) == LOST
    }

    /// Everything below `next` has arrived; tells `each` the segments that are new, and when they were sent.
    #[inline]
    pub fn acknowledge(&mut self, next: u64, d: &mut Delivered, each: impl FnMut(u64, Time)) {
        if self.sacked_out | self.lost_out | self.retrans_out == 0 {
            self.acknowledge_plain(next, d, each);
        } else {
            self.acknowledge_each(next, d, each);
        }
        self.una = next;
    }

    /// Without losses only the first and the last record matter.
    #[inline]
    fn acknowledge_plain(&mut self, next: u64, d: &mut Delivered, mut each: impl FnMut(u64, Time)) {
        let last = self.records.get(next - 1);
        d.count += (next - self.una) as u32;
        d.original = self.una < d.original_below;
        if last.flags & EVER == 0 {
            d.first_sent = OptionNanos::at(self.records.get(self.una).sent);
            d.last_sent = OptionNanos::at(last.sent);
            d.newest = Some((last.sent, next - 1));
        }
        each(next - 1, last.sent);
    }

    fn acknowledge_each(&mut self, next: u64, d: &mut Delivered, mut each: impl FnMut(u64, Time)) {
        let highest = self.highest_sacked();
        let mut repeated = false;
        for seq in self.una..next {
            let record = *self.records.get(seq);
            self.discount(record.flags);
            repeated |= record.flags & EVER != 0;
            if record.flags & SACKED != 0 {
                self.sacked_out -= 1;
                continue;
            }
            d.add(seq, &record, highest);
            each(seq, record.sent);
            if record.flags & EVER == 0 {
                d.first_sent = d.first_sent.or(OptionNanos::at(record.sent));
                d.last_sent = OptionNanos::at(record.sent);
            }
        }
        // What waited behind a hole for its repair arrived earlier than it was acknowledged.
        if repeated {
            d.first_sent = OptionNanos::NONE;
            d.last_sent = OptionNanos::NONE;
        }
        if let Some(repair) = &mut self.repair {
            repair.sacked.remove_below(next);
        }
    }

    /// Takes a segment out of the counts of lost and retransmitted ones.
    fn discount(&mut self, flags: u8) {
        if flags & LOST != 0 {
            self.lost_out -= 1;
            if flags & RETRANS == 0 {
                self.pending -= 1;
            }
        }
        if flags & RETRANS != 0 {
            self.retrans_out -= 1;
        }
    }

    /// A SACK block; tells `each` the segments that are new. Blocks that name what was never sent are cut.
    pub fn sack(&mut self, block: Range, d: &mut Delivered, mut each: impl FnMut(u64, Time)) {
        let block = (block.0.max(self.una), block.1.min(self.nxt));
        if block.0 >= block.1 {
            return;
        }
        let highest = self.highest_sacked();
        // The ranges are taken out while the records they speak of are changed.
        let mut repair = self.repair.take().unwrap_or_default();
        repair.sacked.insert(block, |(start, end)| {
            for seq in start..end {
                self.sack_one(seq, highest, d, &mut each);
            }
        });
        self.repair = Some(repair);
    }

    fn sack_one(&mut self, seq: u64, highest: u64, d: &mut Delivered, each: &mut impl FnMut(u64, Time)) {
        let record = *self.records.get(seq);
        self.discount(record.flags);
        d.add(seq, &record, highest);
        d.sacked += 1;
        each(seq, record.sent);
        if record.flags & EVER == 0 {
            d.sack_first = d.sack_first.or(OptionNanos::at(record.sent));
            d.sack_last = OptionNanos::at(record.sent);
        }
        self.records.get_mut(seq).flags = SACKED | (record.flags & EVER);
        self.sacked_out += 1;
    }

    /// Gives memory back; nothing may be outstanding.
    pub fn release(&mut self) {
        assert_eq!(self.una, self.nxt, "a scoreboard in use was released");
        self.records.release();
        self.repair = None;
    }
}
