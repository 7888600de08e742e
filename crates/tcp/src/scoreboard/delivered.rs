//! What an ACK reported as delivered.

use super::{EVER, Record};
use crate::nanos::OptionNanos;
use weir_units::{Duration, Time};

/// What an ACK reported as delivered.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    /// Segments newly delivered.
    pub count: u32,
    /// Of these, by SACK.
    pub sacked: u32,
    /// Transmission of the first and of the last acknowledged segment that was sent only once.
    pub first_sent: OptionNanos,
    pub last_sent: OptionNanos,
    /// Transmission of the first and last segment SACKed that was sent only once.
    pub sack_first: OptionNanos,
    pub sack_last: OptionNanos,
    /// The segment delivered that was sent last, and its number.
    pub newest: Option<(Time, u64)>,
    /// Whether segments below `original_below` that were sent only once were delivered.
    pub original: bool,
    /// Lowest segment that arrived after later ones although it was sent only once.
    pub reordered: Option<u64>,
    pub(super) original_below: u64,
    /// Retransmissions sent later than this were too recent to be what was delivered.
    retransmitted_before: Time,
}

impl Delivered {
    /// Nothing yet. A retransmission younger than the smallest RTT cannot be what was acknowledged.
    pub fn new(now: Time, min_rtt: Option<Duration>, original_below: u64) -> Delivered {
        Delivered {
            count: 0,
            sacked: 0,
            first_sent: OptionNanos::NONE,
            last_sent: OptionNanos::NONE,
            sack_first: OptionNanos::NONE,
            sack_last: OptionNanos::NONE,
            newest: None,
            original: false,
            reordered: None,
            original_below,
            retransmitted_before: now - min_rtt.unwrap_or(Duration::ZERO),
        }
    }

    fn newer(&mut self, sent: Time, seq: u64) {
        if self.newest.is_none_or(|n| (sent, seq) > n) {
            self.newest = Some((sent, seq));
        }
    }

    /// Accounts for one segment that was not known to be delivered.
    pub(super) fn add(&mut self, seq: u64, record: &Record, highest_sacked: u64) {
        self.count += 1;
        if record.flags & EVER == 0 {
            self.newer(record.sent, seq);
            self.original |= seq < self.original_below;
            if seq < highest_sacked {
                self.reordered = Some(self.reordered.map_or(seq, |r| r.min(seq)));
            }
        } else if record.sent <= self.retransmitted_before {
            self.newer(record.sent, seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retransmission_younger_than_any_round_trip_is_not_what_arrived() {
        let ms = Duration::from_millis;
        let at = |n| Time::ZERO + ms(n);
        let record = |sent, flags| Record { sent, payload: 1448, flags };
        let mut d = Delivered::new(at(100), Some(ms(20)), 0);
        d.add(1, &record(at(81), EVER), 0);
        assert_eq!((d.count, d.newest), (1, None));
        d.add(2, &record(at(80), EVER), 0);
        assert_eq!(d.newest, Some((at(80), 2)));
        d.add(3, &record(at(95), 0), 0);
        assert_eq!(d.newest, Some((at(95), 3)));
    }

    #[test]
    fn originals_that_arrive_behind_later_ones_are_reordered() {
        let sent = Time::ZERO;
        let mut d = Delivered::new(sent, None, 5);
        d.add(9, &Record { sent, payload: 1, flags: 0 }, 9);
        assert_eq!((d.original, d.reordered), (false, None));
        d.add(7, &Record { sent, payload: 1, flags: 0 }, 9);
        d.add(4, &Record { sent, payload: 1, flags: EVER }, 9);
        assert_eq!((d.original, d.reordered), (false, Some(7)));
        d.add(4, &Record { sent, payload: 1, flags: 0 }, 9);
        assert_eq!((d.original, d.reordered), (true, Some(4)));
    }
}
