//! Below one segment per round trip: what a mark does to a window of one (RFC 3168 section 6.1.2).

use super::Sender;
use super::timer::{Kind, Timer};
use crate::nanos::OptionNanos;
use weir_units::Time;

impl Sender {
    /// The only segment of the window was marked: the next new one leaves when the retransmission timer
    /// expires.
    ///
    /// With each mark in a row that timer has expired once more, and so is twice as long (RFC 6298 section
    /// 5).
    pub(super) fn hold(&mut self, now: Time) {
        let end = now + self.backed_off_rto();
        self.episode.get_or_insert_default().hold = OptionNanos::at(end);
        self.backoff = self.backoff.saturating_add(1);
        self.arm_after_ack(now);
    }

    /// When the last wait is over, or was.
    #[inline]
    pub(super) fn held_until(&self) -> Option<Time> {
        self.episode.as_ref().and_then(|e| e.hold.time())
    }

    /// Whether a new segment still has to wait.
    #[inline]
    pub(super) fn is_held(&self, now: Time) -> bool {
        self.held_until().is_some_and(|end| now < end)
    }

    /// Nothing is out: no timer is needed but that of a wait.
    pub(super) fn rest(&mut self, now: Time) {
        let end = self.held_until().filter(|end| now < *end);
        self.timer = end.map(|due| Timer { kind: Kind::Hold, due });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Congestion, SenderConfig};
    use weir_units::Duration;

    /// Two segments are out: the tail-loss probe repeats the last one where it would have sent a new one.
    #[test]
    fn a_probe_sends_nothing_new_during_the_wait() {
        for held in [false, true] {
            let config = SenderConfig { initial_window: 2, ..SenderConfig::default() };
            let mut sender = Sender::new(&config, Congestion::Reno, Time::ZERO);
            sender.set_unlimited(true);
            sender.window_end = 10;
            while sender.poll(Time::ZERO).is_some() {}
            sender.rtt.sample(Duration::from_millis(100), 0, 2);
            if held {
                sender.hold(Time::ZERO);
            } else {
                sender.arm_after_ack(Time::ZERO);
            }
            let now = Time::ZERO + Duration::from_millis(208);
            assert_eq!(sender.next_timeout(), Some(now));
            sender.on_timeout(now);
            let probe = sender.poll(now).map(|s| (s.seq, s.retransmission));
            assert_eq!(probe, Some(if held { (1, true) } else { (2, false) }));
        }
    }
}
