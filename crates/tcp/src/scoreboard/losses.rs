//! The search for lost segments (RFC 8985 section 6.2), and what becomes of what is taken for lost.

use super::{LOST, RETRANS, SACKED, Scoreboard};
use std::cmp::Reverse;
use weir_units::{Duration, Time};

/// What the search for lost segments found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detection {
    /// Whether a retransmission was lost too.
    pub retransmission: bool,
    /// Whether segments that were overtaken are still within the reordering window.
    pub waiting: bool,
}

impl Scoreboard {
    /// Takes `seq` for lost, whether it was sent once or more often; `each` is called if it was not yet.
    pub fn mark_lost(&mut self, seq: u64, each: &mut impl FnMut(u64)) {
        let record = self.records.get_mut(seq);
        let flags = record.flags;
        if flags & SACKED != 0 || flags & (LOST | RETRANS) == LOST {
            return;
        }
        record.flags = (flags | LOST) & !RETRANS;
        self.lost_out += u32::from(flags & LOST == 0);
        self.retrans_out -= u32::from(flags & RETRANS != 0);
        self.pending += 1;
        self.lost_total += 1;
        each(seq);
        if let Some(repair) = self.repair.as_mut().filter(|r| seq < r.resent) {
            repair.lost_again.push(Reverse(seq));
        }
    }

    /// Takes for lost what was sent before `newest` (the segment delivered that was sent last) and at least
    /// `wait` ago (RFC 8985 section 6.2); `each` is called for each.
    pub fn detect(
        &mut self,
        newest: (Time, u64),
        now: Time,
        wait: Duration,
        each: &mut impl FnMut(u64),
    ) -> Detection {
        let mut found = Detection { retransmission: false, waiting: false };
        let mut seq = self.repair.as_ref().map_or(0, |r| r.searched).max(self.una);
        while seq < self.nxt {
            let record = self.records.get(seq);
            if record.flags == 0 {
                if (record.sent, seq) >= newest {
                    break;
                }
                if record.sent + wait > now {
                    found.waiting = true;
                    break;
                }
                self.mark_lost(seq, each);
            }
            seq += 1;
        }
        // Where no repair is under way, the search may as well begin with the head again.
        if let Some(repair) = &mut self.repair {
            repair.searched = seq;
        }
        self.detect_again(newest, now, wait, &mut found, each);
        found
    }

    fn detect_again(
        &mut self,
        newest: (Time, u64),
        now: Time,
        wait: Duration,
        found: &mut Detection,
        each: &mut impl FnMut(u64),
    ) {
        while let Some(&(seq, sent)) = self.repair.as_ref().and_then(|r| r.retransmissions.front()) {
            if self.is_retransmitted(seq, sent) {
                if (sent, seq) >= newest {
                    return;
                }
                if sent + wait > now {
                    found.waiting = true;
                    return;
                }
                self.mark_lost(seq, each);
                found.retransmission = true;
            }
            self.repair.as_mut().and_then(|r| r.retransmissions.pop_front());
        }
    }

    /// Whether the retransmission of `seq` at `sent` is still in flight.
    fn is_retransmitted(&self, seq: u64, sent: Time) -> bool {
        if seq < self.una {
            return false;
        }
        let record = self.records.get(seq);
        record.flags & RETRANS != 0 && record.sent == sent
    }

    /// A timeout: takes the head and everything sent at least `wait` ago for lost; `each` is called for each.
    pub fn mark_all_lost(&mut self, now: Time, wait: Duration, each: &mut impl FnMut(u64)) {
        self.restart_search(self.una);
        let mut searched = None;
        for seq in self.una..self.nxt {
            let record = self.records.get(seq);
            if seq == self.una || record.sent + wait <= now {
                self.mark_lost(seq, each);
            } else if record.flags == 0 {
                searched = searched.or(Some(seq));
            }
        }
        self.repair.get_or_insert_default().searched = searched.unwrap_or(self.nxt);
    }

    /// Looks for lost and for pending segments from `seq` on again.
    fn restart_search(&mut self, seq: u64) {
        if let Some(repair) = &mut self.repair {
            repair.lost_again.clear();
            repair.searched = seq;
            repair.resent = seq;
        }
    }

    /// What was taken for lost is only late.
    pub fn unmark_lost(&mut self) {
        for seq in self.una..self.nxt {
            self.records.get_mut(seq).flags &= !LOST;
        }
        self.lost_out = 0;
        self.pending = 0;
        self.restart_search(self.una);
    }
}
