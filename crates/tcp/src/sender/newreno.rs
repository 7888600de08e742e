//! Fast retransmit and fast recovery without SACK (RFC 6582), for hosts that lack it.

use super::ack::Event;
use super::{Sender, State};
use crate::congestion::ReductionCause;
use crate::rate::RateSampler;
use crate::scoreboard::Delivered;
use weir_units::Time;

const DUP_THRESH: u32 = 3;
/// New segments that the first duplicates release (RFC 3042).
const LIMITED_TRANSMIT: u8 = 2;

impl Sender {
    /// Returns whether the retransmission timer is to be left as it is.
    pub(super) fn alert_without_sack(&mut self, now: Time, event: &Event, d: &Delivered) -> bool {
        match self.state {
            State::Recovery if event.advanced => return self.on_progress_in_recovery(d.count),
            // Each duplicate says that a segment left the network.
            State::Recovery if event.duplicate => self.window.cwnd += 1,
            State::Recovery => {}
            State::Loss => {
                if self.board.una >= self.high_seq {
                    self.reopen();
                }
            }
            _ => self.on_ack_outside_recovery(now, event),
        }
        false
    }

    /// Of the segments that an ACK acknowledges, those by which the window may grow: none of an ACK that
    /// echoes a mark (RFC 3168 section 6.1.2). What fills a hole acknowledges all that arrived behind it, of
    /// which duplicates told before: at the end of a recovery the window is set (RFC 6582 section 3.2
    /// step 3), and after a timeout it grows by a segment for each ACK (RFC 5681 section 3.1).
    pub(super) fn counted(state: State, echo: bool, acknowledged: u32) -> u32 {
        match state {
            _ if echo => 0,
            State::Recovery => 0,
            State::Loss => acknowledged.min(1),
            State::Open | State::Disorder | State::Cwr => acknowledged,
        }
    }

    /// What is to be reduced is what is in flight (RFC 5681 section 3.1, equation 4), as a receiver's window
    /// or the application may have kept the sender from using up its window.
    pub(super) fn fit_window(&mut self, flight: u32) {
        if !self.control.owns_window() {
            self.window.cwnd = self.window.cwnd.min(flight.max(1));
        }
    }

    fn on_ack_outside_recovery(&mut self, now: Time, event: &Event) {
        if event.advanced {
            self.dup_acks = 0;
            self.limited_transmit = 0;
            if self.state == State::Cwr && self.board.una > self.high_seq {
                self.reopen();
            }
        }
        if event.echo && self.state <= State::Disorder {
            // The segments of this ACK were in flight when it arrived.
            let acknowledged = event.next.saturating_sub(event.before) as u32;
            self.fit_window(self.board.out() + acknowledged);
            self.on_echo(now);
            // At once, as after a loss (RFC 3168 section 6.1.2).
            self.window.cwnd = self.window.ssthresh.unwrap_or(self.window.cwnd);
        }
        if !event.duplicate {
            return;
        }
        self.dup_acks = self.dup_acks.saturating_add(1);
        self.limited_transmit = self.dup_acks.min(LIMITED_TRANSMIT.into()) as u8;
        // Duplicates of what was sent before the last recovery ended are no sign of a new loss (section 3.2).
        let fresh = self.state == State::Cwr || self.board.una > self.high_seq || self.totals.reductions == 0;
        if u32::from(self.dup_acks) >= DUP_THRESH && fresh {
            self.fast_retransmit();
        }
    }

    fn fast_retransmit(&mut self) {
        if self.state != State::Cwr {
            self.fit_window(self.board.out());
            self.begin_reduction(ReductionCause::Loss);
        }
        self.state = State::Recovery;
        self.high_seq = self.board.nxt;
        self.limited_transmit = 0;
        let ssthresh = self.window.ssthresh.unwrap_or(self.window.cwnd);
        self.window.cwnd = ssthresh + u32::from(self.dup_acks);
        self.resend_head();
    }

    fn resend_head(&mut self) {
        let Sender { board, rates, .. } = self;
        board.mark_lost(board.una, &mut RateSampler::note_losses(rates));
        self.force_resend = true;
    }

    /// Whether the timer starts again as the head is sent again. Without SACK it does where a recovery
    /// begins, which the duplicates tell that led to it, and at no later hole.
    pub(super) fn does_resending_restart_timer(&self) -> bool {
        self.sack || self.dup_acks > 0
    }

    /// Returns whether the retransmission timer is to be left as it is: only the first partial ACK restarts
    /// it, so that a recovery from many losses, one per round trip, ends by a timeout (section 3.2 step 3).
    fn on_progress_in_recovery(&mut self, acked: u32) -> bool {
        let is_first = core::mem::take(&mut self.dup_acks) > 0;
        if self.board.una < self.high_seq {
            // A partial ACK: the next hole.
            self.window.cwnd = self.window.cwnd.saturating_sub(acked).max(1) + 1;
            self.resend_head();
            return !is_first;
        }
        // Section 3.2 step 3, option 2. By option 1, which begins with what is in flight, flows with several
        // losses per window get a tenth less than Reno's law gives them.
        self.force_resend = false;
        self.end_reduction();
        false
    }
}
