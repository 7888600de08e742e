//! Delay bound: limits late packets to 1 in 25, whatever their senders do.
//!
//! An algorithm such as CoDel lets a queue stand for a round trip before it tells anybody, and senders take
//! more of them to slow down. What a slow start brings meanwhile waits for longer than the bound, and so does
//! a flood of datagrams, for which there is no algorithm but the end of the room. So a packet that would wait
//! longer is admitted only while few did: each packet that leaves in time earns a twenty-fourth of the right
//! of another to be late. A burst passes as before; where late packets are the rule, at most one in
//! twenty-five is, and the queue ends at the bound.
//!
//! How long a packet would wait follows from the bytes before it: by the rate of the rules, and by how long
//! those that left waited for each byte before them. The latter knows what no rule says: others under the
//! same rate, a port that is behind, a bottleneck that is followed. Where flows are told apart, the bytes of
//! other flows that leave meanwhile are before it, and not those behind.

use weir_units::{Bytes, Duration, Rate};

/// Packets in time for each that is late: 4 %, where one in twenty may be.
const PRICE: i32 = 24;
/// Late packets that may come in a row.
const BURST: i32 = 16;
/// So many late packets that nobody foresaw are remembered.
const DEBT: i32 = 256;
/// A queue at a slow rate has room for one packet of this length, whatever that takes.
const PACKET: Bytes = Bytes::new(1538);
/// Waiting times are kept for so many bytes, as a power of two.
const PACE_BITS: u32 = 10;
/// Weight of a packet in the mean of waiting times, as a power of two.
const GAIN_BITS: u32 = 3;

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    most: Duration,
    /// What is served within `most` at the rate of the rules.
    room: Bytes,
    /// The same bound where the rate is slow: the time of a packet.
    late: Duration,
    /// Nanoseconds that packets waited for each 2^10 bytes before them.
    pace: u64,
    /// Late packets that may come, times [`PRICE`]; below zero more came than may.
    credit: i32,
}

/// What a queue says to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It will be in time.
    InTime,
    /// It will be late, and may.
    Late,
    /// It would be late, and may not.
    Refused,
}

impl Bound {
    /// For a queue at a rate; zero for none.
    pub fn new(most: Duration, rate: Rate) -> Bound {
        let mut bound = Bound { most, room: Bytes::ZERO, late: most, pace: 0, credit: BURST * PRICE };
        bound.set_rate(rate);
        bound
    }

    /// How long packets may wait is another, at a rate of the rules.
    pub fn set_most(&mut self, most: Duration, rate: Rate) {
        self.most = most;
        self.set_rate(rate);
    }

    /// The rate of the rules is another.
    pub fn set_rate(&mut self, rate: Rate) {
        (self.room, self.late) = match rate {
            Rate::ZERO => (Bytes::new(u64::MAX), self.most),
            rate => (rate.bytes_in(self.most).max(PACKET), self.most.max(rate.time_for(PACKET))),
        };
    }

    /// Whether a packet of that length may come behind so many bytes.
    #[inline]
    pub fn enter(&mut self, backlog: Bytes, len: Bytes) -> Admission {
        // With nothing before it a packet waits for what it alone can find out.
        if backlog == Bytes::ZERO {
            return Admission::InTime;
        }
        let waits = (backlog + len).get().saturating_mul(self.pace) >> PACE_BITS;
        let late = self.late.as_nanos();
        // Where more were late than was foreseen, it is foreseen that more will be.
        let most = if self.credit < 0 { late - late / 8 } else { late };
        if backlog + len <= self.room && waits <= most {
            return Admission::InTime;
        }
        if self.credit < PRICE {
            return Admission::Refused;
        }
        self.credit -= PRICE;
        Admission::Late
    }

    /// A packet left that was to be in time: it waited so long for itself and what was before it. One that
    /// went before others says nothing of them (zero bytes).
    #[inline]
    pub fn left(&mut self, sojourn: Duration, bytes: u32) {
        if bytes > 0 {
            let pace = (sojourn.as_nanos() << PACE_BITS) / u64::from(bytes);
            self.pace = self.pace - (self.pace >> GAIN_BITS) + (pace >> GAIN_BITS);
        }
        self.credit = if sojourn > self.late {
            (self.credit - PRICE).max(-DEBT * PRICE)
        } else {
            (self.credit + 1).min(BURST * PRICE)
        };
    }
}

impl Bound {
    /// So many packets left that did not wait, one after the other.
    pub fn passed(&mut self, packets: u64) {
        let most = BURST * PRICE;
        self.credit =
            i32::try_from(packets).map_or(most, |packets| self.credit.saturating_add(packets).min(most));
        // The mean of waiting times does not get below the smallest from which a part can be taken.
        for _ in 0..packets {
            if self.pace >> GAIN_BITS == 0 {
                break;
            }
            self.pace -= self.pace >> GAIN_BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: Bytes = Bytes::new(1500);
    const MOST: Duration = Duration::from_millis(12);

    /// A queue that is served at `served` while `load` packets come for each that leaves: the share of late
    /// packets of those that could leave.
    fn late(bound: &mut Bound, served: Rate, load: u64, packets: u64) -> f64 {
        let each = served.time_for(LEN);
        let (mut queue, mut late, mut left) = (std::collections::VecDeque::new(), 0u32, 0u64);
        for slot in 0..packets {
            let now = each.saturating_mul(slot);
            for _ in 0..load {
                let backlog = Bytes::new(queue.len() as u64 * LEN.get());
                match bound.enter(backlog, LEN) {
                    Admission::Refused => {}
                    entry => queue.push_back((now, backlog + LEN, entry)),
                }
            }
            if let Some((came, bytes, entry)) = queue.pop_front() {
                let sojourn = now.saturating_sub(came);
                if entry == Admission::InTime {
                    bound.left(sojourn, bytes.get() as u32);
                }
                late += u32::from(sojourn > MOST);
                left += 1;
            }
        }
        assert_eq!(left, packets, "it is always busy");
        f64::from(late) / left as f64
    }

    #[test]
    fn a_flood_makes_few_packets_late_and_keeps_the_queue_busy() {
        for mbps in [2, 10, 100, 1000] {
            let rate = Rate::from_mbps(mbps);
            let share = late(&mut Bound::new(MOST, rate), rate, 2, 20_000);
            assert!(share < 0.045, "{mbps} Mbit/s: {share}");
        }
    }

    #[test]
    fn what_others_take_is_noticed() {
        // The rules allow four times what is served.
        let rate = Rate::from_mbps(10);
        let share = late(&mut Bound::new(MOST, Rate::from_mbps(40)), rate, 2, 20_000);
        assert!(share < 0.06, "{share}");
        let share = late(&mut Bound::new(MOST, Rate::ZERO), rate, 3, 20_000);
        assert!(share < 0.06, "{share}");
    }

    #[test]
    fn a_burst_passes_once_in_a_while() {
        let mut bound = Bound::new(MOST, Rate::from_mbps(10));
        let burst = |bound: &mut Bound| {
            (0..40).filter(|n| bound.enter(Bytes::new(n * 1500), LEN) != Admission::Refused).count()
        };
        assert_eq!([burst(&mut bound), burst(&mut bound)], [10 + 16, 10]);
        (0..1000).for_each(|_| bound.left(Duration::from_millis(1), 1500));
        assert_eq!(burst(&mut bound), 10 + 16);
    }

    #[test]
    fn packets_that_pass_are_packets_that_did_not_wait() {
        let mut one_by_one = Bound::new(MOST, Rate::from_mbps(10));
        (0..20).for_each(|_| one_by_one.left(Duration::from_millis(30), 1500));
        for packets in [0, 1, 7, 100, 3, 5000] {
            let mut at_once = one_by_one;
            at_once.passed(packets);
            (0..packets).for_each(|_| one_by_one.left(Duration::ZERO, 1500));
            assert_eq!((at_once.pace, at_once.credit), (one_by_one.pace, one_by_one.credit), "{packets}");
        }
    }

    #[test]
    fn a_slow_rate_has_room_for_a_packet() {
        let mut bound = Bound::new(MOST, Rate::from_bps(64_000));
        bound.credit = 0;
        assert_eq!(bound.enter(Bytes::ZERO, LEN), Admission::InTime);
        assert_eq!(bound.enter(LEN, LEN), Admission::Refused);
        bound.left(Duration::from_millis(187), 1500);
        assert_eq!(bound.credit, 1, "it waited for the one before it, and nobody could help it");
    }
}
