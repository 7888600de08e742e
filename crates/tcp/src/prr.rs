//! Proportional rate reduction (RFC 6937): how the window gets from its size at a loss down to ssthresh.

/// Counts of one reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prr {
    /// The window when the reduction began (RecoverFS; Linux takes cwnd and not the flight size).
    pub start: u32,
    /// Where the window goes.
    pub ssthresh: u32,
    /// Segments delivered since.
    pub delivered: u32,
    /// Segments sent since.
    pub out: u32,
}

impl Prr {
    /// A reduction from `start` to `ssthresh`.
    pub fn new(start: u32, ssthresh: u32) -> Prr {
        Prr { start: start.max(1), ssthresh, delivered: 0, out: 0 }
    }

    /// The window after an ACK that delivered `delivered` segments (at least one) and left `in_flight` of
    /// them.
    ///
    /// `safe` means that the ACK moved the left edge and showed no new loss: then the flight may grow by one
    /// more, as in slow start.
    pub fn on_delivered(&mut self, delivered: u32, in_flight: u32, safe: bool) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let quota = if in_flight > self.ssthresh {
            let allowed = u64::from(self.ssthresh) * u64::from(self.delivered);
            let allowed = allowed.div_ceil(u64::from(self.start));
            allowed.saturating_sub(u64::from(self.out)) as u32
        } else {
            let banked = self.delivered.saturating_sub(self.out).max(delivered);
            (banked + u32::from(safe)).min(self.ssthresh - in_flight)
        };
        // The first retransmission must leave, whatever the proportion says.
        in_flight + quota.max(u32::from(self.out == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_of_ten_are_sent_while_the_flight_is_above_ssthresh() {
        // 100 in flight, one lost, 98 to come: the pipe falls by one per ACK, and 7 of 10 ACKs send.
        let mut prr = Prr::new(100, 70);
        let (mut pipe, mut sent) = (99u32, 0);
        for acks in 1..=80u32 {
            pipe -= 1;
            let cwnd = prr.on_delivered(1, pipe, false);
            let quota = cwnd.saturating_sub(pipe);
            pipe += quota;
            sent += quota;
            prr.out = sent;
            assert_eq!(sent, (acks * 70).div_ceil(100).max(1), "{acks}");
        }
    }

    #[test]
    fn below_ssthresh_it_slow_starts_up_to_it_but_no_further() {
        let mut prr = Prr::new(100, 50);
        prr.out = 10;
        assert_eq!(prr.on_delivered(1, 20, false), 21);
        assert_eq!(prr.on_delivered(1, 20, true), 22);
        // What was delivered but not answered is caught up with at once.
        prr.delivered = 40;
        assert_eq!(prr.on_delivered(1, 20, false), 50);
        assert_eq!(prr.on_delivered(1, 50, true), 50);
    }

    #[test]
    fn the_first_retransmission_always_leaves() {
        let mut prr = Prr::new(100, 50);
        assert_eq!(prr.on_delivered(1, 97, false), 98);
        prr.out = 1;
        assert_eq!(prr.on_delivered(1, 96, false), 96);
        assert_eq!(prr.on_delivered(1, 95, false), 96);
    }
}
