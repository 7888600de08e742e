//! Retransmission timeout, tail-loss probe and reordering timer. One is armed at a time, as in Linux.

use super::{Sender, State};
use crate::rtt::RTO_MAX;
use weir_units::{Duration, Time};

/// Which timer is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Retransmission timeout.
    Rto,
    /// Tail-loss probe.
    Probe,
    /// The reordering window of RACK.
    Reorder,
    /// The wait after a mark at a window of one.
    Hold,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub kind: Kind,
    pub due: Time,
}

/// Slack of a probe with several segments out: two ticks of Linux's clock at HZ = 250.
const PROBE_SLACK: Duration = Duration::from_millis(8);
/// The probe before the first RTT sample.
const PROBE_INITIAL: Duration = Duration::from_secs(1);
/// Doublings after which the timeout grows no more; 200 ms shifted by this is above the largest timeout.
const BACKOFF_MAX: u32 = 16;

impl Sender {
    /// The earliest time at which [`Sender::on_timeout`] or, for a paced flow, [`Sender::poll`] has to be
    /// called. It moves with every ACK, so a host may keep its old alarm and ask again when that rings.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        match (self.timer, self.pacer.release()) {
            (Some(timer), Some(release)) => Some(timer.due.min(release)),
            (Some(timer), None) => Some(timer.due),
            (None, release) => release,
        }
    }

    /// Does what is due. To be followed by [`Sender::poll`].
    pub fn on_timeout(&mut self, now: Time) {
        let Some(timer) = self.timer.filter(|t| t.due <= now) else { return };
        match timer.kind {
            Kind::Rto => self.on_rto(now),
            Kind::Probe => self.on_probe_timeout(now),
            Kind::Reorder => self.on_reorder_timeout(now),
            Kind::Hold => self.rest(now),
        }
    }

    /// The retransmission timeout with its back-off.
    pub(super) fn backed_off_rto(&self) -> Duration {
        let factor = 1u64 << u32::from(self.backoff).min(BACKOFF_MAX);
        self.rtt.rto().saturating_mul(factor).min(RTO_MAX)
    }

    pub(super) fn arm_rto(&mut self, now: Time) {
        self.timer = Some(Timer { kind: Kind::Rto, due: now + self.backed_off_rto() });
    }

    /// The timeout counted from the transmission of the head, for when a probe or nothing else was armed.
    pub(super) fn arm_rto_from_head(&mut self, now: Time) {
        if self.board.out() == 0 {
            return self.rest(now);
        }
        let due = self.board.sent(self.board.una) + self.backed_off_rto();
        let soonest = now + Duration::from_micros(1);
        self.timer = Some(Timer { kind: Kind::Rto, due: due.max(soonest) });
    }

    /// An ACK made progress.
    #[inline]
    pub(super) fn arm_after_ack(&mut self, now: Time) {
        if self.board.out() == 0 {
            self.rest(now);
        } else if self.may_probe() {
            self.arm_probe(now, now + self.backed_off_rto());
        } else {
            self.arm_rto(now);
        }
    }

    /// A new segment left.
    #[inline]
    pub(super) fn arm_after_send(&mut self, now: Time, was_empty: bool) {
        if self.may_probe() {
            let rto = if was_empty { now } else { self.board.sent(self.board.una) } + self.backed_off_rto();
            self.arm_probe(now, rto);
        } else if was_empty || self.timer.is_none() {
            self.arm_rto(now);
        }
    }

    #[inline]
    fn may_probe(&self) -> bool {
        self.sack && matches!(self.state, State::Open | State::Cwr) && self.probe.is_none()
    }

    /// Two RTTs after the last transmission, but no later than the timeout (RFC 8985 section 7.2).
    #[inline]
    fn arm_probe(&mut self, now: Time, rto: Time) {
        // The ACK of a lone segment may be a delayed one; Linux grants it its smallest timeout.
        let slack = if self.board.out() == 1 { self.rtt.floor() } else { PROBE_SLACK };
        let wait = self.rtt.srtt().map_or(PROBE_INITIAL, |srtt| srtt + srtt + slack);
        self.timer = Some(Timer { kind: Kind::Probe, due: (now + wait).min(rto.max(now)) });
    }

    fn on_probe_timeout(&mut self, now: Time) {
        if self.board.out() == 0 || !self.may_probe() {
            return self.arm_rto_from_head(now);
        }
        self.probe_due = true;
        // Stands in until the probe has left, which may wait for the host.
        self.arm_rto(now);
    }

    fn on_reorder_timeout(&mut self, now: Time) {
        let before = self.board.in_flight();
        self.timer = None;
        self.detect_losses(now);
        if self.board.in_flight() != before {
            self.repair_after_detection();
        }
        if self.timer.is_none() {
            self.arm_rto_from_head(now);
        }
    }
}
