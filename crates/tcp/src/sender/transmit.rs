//! What leaves: new segments, lost ones again, and tail-loss probes.

use super::{Probe, Sender, State};
use crate::Segment;
use crate::config::EcnMode;
use crate::nanos::OptionNanos;
use weir_units::{Ecn, Time};

impl Sender {
    /// The next segment that may leave now. To be called until it returns `None`.
    #[inline(always)]
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if self.probe_due {
            return self.send_probe(now);
        }
        if self.burst_left == 0 && !self.pacer.is_ready(now) {
            return None;
        }
        if self.board.pending > 0 {
            return self.resend(now);
        }
        self.send_new(now)
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time) -> Option<Segment> {
        if !self.has_data() {
            self.pause(now, false);
            return None;
        }
        if self.is_held(now) {
            self.pause(now, true);
            return None;
        }
        let out = self.board.out();
        if out == 0 {
            self.restart_after_idle(now);
        }
        let in_flight = self.board.in_flight();
        let room = (self.window.cwnd + u32::from(self.limited_transmit)).saturating_sub(in_flight);
        let peer = self.window_end.saturating_sub(self.board.nxt);
        if room == 0 || peer == 0 || (self.burst > 1 && self.defers(now, room, peer)) {
            self.pause(now, room == 0 || peer > u64::from(room));
            return None;
        }
        Some(self.emit_new(now))
    }

    #[inline]
    fn emit_new(&mut self, now: Time) -> Segment {
        let nothing_in_flight = self.board.out() == 0;
        let payload =
            if self.unlimited { self.mss.into() } else { self.unsent.min(u64::from(self.mss)) as u32 };
        self.unsent = self.unsent.saturating_sub(u64::from(payload));
        self.sent_new = true;
        let seq = self.board.send_new(now, payload);
        self.arm_after_send(now, nothing_in_flight);
        let ecn = match self.ecn {
            EcnMode::Off => Ecn::NotEct,
            EcnMode::Classic | EcnMode::Dctcp => Ecn::Ect0,
            EcnMode::Accurate => Ecn::Ect1,
        };
        let cwr = core::mem::take(&mut self.send_cwr);
        self.account_sent(now, seq, nothing_in_flight);
        Segment { seq, sent: now, payload, ecn, retransmission: false, cwr, spin: self.spin }
    }

    /// Bookkeeping that originals and retransmissions share.
    #[inline]
    fn account_sent(&mut self, now: Time, seq: u64, nothing_in_flight: bool) {
        self.last_sent = now;
        self.burst_left = self.burst_left.saturating_sub(1);
        self.pacer.on_sent(now);
        if self.state >= State::Cwr
            && let Some(episode) = &mut self.episode
        {
            episode.prr.out += 1;
        }
        if let Some(rates) = &mut self.rates {
            rates.on_sent(now, self.board.una, seq, self.board.in_flight(), nothing_in_flight);
        }
    }

    /// Sends the lowest lost segment again, if the window has room.
    #[inline(never)]
    fn resend(&mut self, now: Time) -> Option<Segment> {
        if self.board.in_flight() >= self.window.cwnd && !self.force_resend {
            self.pause(now, true);
            return None;
        }
        self.force_resend = false;
        let seq = self.board.next_lost()?;
        let episode = self.episode.get_or_insert_default();
        episode.first_again = episode.first_again.or(OptionNanos::at(now));
        Some(self.emit_again(now, seq))
    }

    fn emit_again(&mut self, now: Time, seq: u64) -> Segment {
        self.board.send_again(now, seq);
        self.totals.retransmits += 1;
        if let Some(undo) = self.episode.as_mut().and_then(|e| e.undo.as_mut()) {
            undo.needed = Some(undo.needed.unwrap_or(0) + 1);
        }
        self.account_sent(now, seq, false);
        if seq == self.board.una && self.does_resending_restart_timer() {
            self.arm_rto(now);
        }
        // Classic ECN must not be lost with a retransmission (RFC 3168 section 6.1.5); DCTCP and L4S do not
        // care.
        let ecn = match self.ecn {
            EcnMode::Off | EcnMode::Classic => Ecn::NotEct,
            EcnMode::Dctcp => Ecn::Ect0,
            EcnMode::Accurate => Ecn::Ect1,
        };
        let payload = self.board.payload(seq);
        Segment { seq, sent: now, payload, ecn, retransmission: true, cwr: false, spin: self.spin }
    }

    /// New data if there is some, else the last segment once more (RFC 8985 section 7.3).
    #[inline(never)]
    fn send_probe(&mut self, now: Time) -> Option<Segment> {
        self.probe_due = false;
        let has_new = self.has_data() && self.board.nxt < self.window_end && !self.is_held(now);
        let segment = if has_new {
            self.emit_new(now)
        } else if self.board.out() > 0 && !self.board.is_sacked(self.board.nxt - 1) {
            self.emit_again(now, self.board.nxt - 1)
        } else {
            return None;
        };
        self.probe = Some(Probe { end: self.board.nxt, retransmission: !has_new });
        self.totals.probes += 1;
        self.arm_rto(now);
        Some(segment)
    }
}
