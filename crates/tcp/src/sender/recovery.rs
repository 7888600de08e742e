//! Finding and repairing losses as Linux does: RACK-TLP (RFC 8985) and PRR (RFC 6937).

use super::ack::Event;
use super::timer::{Kind, Timer};
use super::{Sender, State, Undo};
use crate::congestion::ReductionCause;
use crate::nanos::OptionNanos;
use crate::rate::RateSampler;
use crate::scoreboard::Delivered;
use std::num::NonZeroU64;
use weir_units::{Duration, Time};

/// Segments by which reordering is assumed not to move one (RFC 5681's threshold).
const DUP_THRESH: u32 = 3;
/// Linux never assumes more than this (`tcp_max_reordering`).
const DUP_THRESH_MAX: u64 = 300;
/// Recoveries without a needless retransmission after which the reordering window is as at first.
const WIDE_FOR: u8 = 16;
/// Slack of the reordering timer: two ticks of Linux's clock at HZ = 250.
const REORDER_SLACK: Duration = Duration::from_millis(8);

/// The segment delivered that was sent last, against which others are measured.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    newest: Option<(Time, NonZeroU64)>,
    rtt: Duration,
    advanced: bool,
    reordering_seen: bool,
    /// Quarters of the smallest RTT that the reordering window has, and recoveries for which it keeps more
    /// than one (RFC 8985 section 6.2, step 4).
    quarters: u8,
    persist: u8,
    threshold: u32,
    /// One round trip widens the window once: until this segment is acknowledged. Zero where none did.
    widened_until: u64,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            newest: None,
            rtt: Duration::ZERO,
            advanced: false,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            threshold: DUP_THRESH,
            widened_until: 0,
        }
    }
}

impl Rack {
    #[inline]
    pub fn on_delivered(&mut self, now: Time, newest: (Time, u64)) {
        self.advanced = true;
        self.rtt = now.since(newest.0);
        if self.newest().is_none_or(|n| newest > n) {
            self.newest = Some((newest.0, NonZeroU64::MIN.saturating_add(newest.1)));
        }
    }

    /// Its transmission and its number, which is kept with one added to save room.
    #[inline]
    fn newest(&self) -> Option<(Time, u64)> {
        self.newest.map(|(sent, after)| (sent, after.get() - 1))
    }

    /// A segment arrived `distance` segments late.
    pub fn on_reordered(&mut self, distance: u64) {
        self.reordering_seen = true;
        self.threshold = self.threshold.max(distance.min(DUP_THRESH_MAX) as u32);
    }

    /// Something sent again had arrived: the reordering window was too small (RFC 8985 section 6.2, step 4).
    fn on_repeat(&mut self, una: u64, nxt: u64) {
        if una >= self.widened_until {
            self.widened_until = nxt;
            self.quarters = self.quarters.saturating_add(1);
            self.persist = WIDE_FOR;
        }
    }

    /// A recovery is over.
    fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Whether SACKs alone are a sign of progress.
    #[inline]
    pub fn is_reordering_wide(&self) -> bool {
        self.threshold > DUP_THRESH
    }
}

impl Sender {
    /// An ACK that is not plain progress in the open state. Returns whether the timer is to be left as it is.
    pub(super) fn alert(&mut self, now: Time, event: &Event, d: &Delivered) -> bool {
        if !self.sack {
            return self.alert_without_sack(now, event, d);
        }
        if event.echo {
            // What was marked was congestion, whatever else turns out.
            self.set_undo(None);
        }
        if self.state == State::Open
            && let Some(episode) = &mut self.episode
        {
            episode.first_again = OptionNanos::NONE;
        }
        if self.state == State::Recovery {
            if self.on_ack_in_recovery(event) {
                return false;
            }
        } else if self.state == State::Loss {
            self.on_ack_in_loss(event, d);
        } else if self.state == State::Cwr && self.board.una > self.high_seq {
            self.end_reduction();
        }
        if self.state != State::Cwr && self.undo().is_some_and(Undo::was_in_vain) {
            self.undo_reduction();
            self.reopen();
        }
        let found_again = self.rack.advanced && self.detect_losses(now);
        self.rack.advanced = false;
        let must_repair = match self.state {
            State::Recovery => false,
            State::Loss => found_again,
            _ => self.board.lost_out > 0,
        };
        if must_repair {
            self.enter_recovery(event.echo);
        } else if self.state < State::Recovery {
            self.forget_retransmissions();
            if event.echo {
                self.on_echo(now);
            }
            self.keep_open();
        }
        self.timer.is_some_and(|t| t.kind == Kind::Reorder && t.due > now)
    }

    /// The receiver says that a segment arrived twice (RFC 2883).
    pub(super) fn note_repeat(&mut self, (first, end): (u64, u64)) {
        self.totals.repeats =
            self.totals.repeats.saturating_add((end - first).min(u64::from(u32::MAX)) as u32);
        // The network made more copies than this host: then nothing can be told (RFC 3708 section 3).
        if self.totals.repeats > self.totals.retransmits {
            return;
        }
        if let Some(undo) = self.episode.as_mut().and_then(|e| e.undo.as_mut()).filter(|u| end > u.begin) {
            undo.needed = undo.needed.map(|needed| needed.saturating_sub((end - first) as u32));
        }
        // Linux: a probe is no sign of reordering, nor is anything before some was seen.
        let is_probe = self.probe.is_some_and(|probe| probe.retransmission && probe.end == end);
        if self.rack.reordering_seen && !is_probe {
            self.rack.on_repeat(self.board.una, self.board.nxt);
        }
    }

    /// Whether an ACK answers an original after a retransmission had left, or before any did: that one was in
    /// vain (RFC 3522).
    fn is_spurious(&self, event: &Event) -> bool {
        let first = self.episode.as_ref().and_then(|episode| episode.first_again.time());
        event.advanced && self.undo().is_some() && first.is_none_or(|first| event.answers < first)
    }

    /// Forgets when the first retransmission left, where none is waited for (Linux's `tcp_any_retrans_done`).
    fn forget_retransmissions(&mut self) {
        let head = self.board.out() > 0 && self.board.was_sent_again(self.board.una);
        if self.board.retrans_out == 0
            && !head
            && let Some(episode) = &mut self.episode
        {
            episode.first_again = OptionNanos::NONE;
        }
    }

    /// Returns whether an original arrived late and others are still to be waited for.
    fn on_ack_in_recovery(&mut self, event: &Event) -> bool {
        if self.is_spurious(event) {
            // What was sent again was only late, and says how late. Others that were sent again may have been
            // lost: Linux waits for those (`tcp_try_undo_partial`).
            if self.board.una < self.high_seq {
                let late = self.board.highest_sacked().saturating_sub(event.before);
                if late > 0 {
                    self.rack.on_reordered(late);
                }
                if self.board.retrans_out > 0 {
                    return true;
                }
                self.forget_retransmissions();
            }
            self.undo_reduction();
            self.reopen();
        } else if self.board.una >= self.high_seq {
            // Reductions by marks do not count (RFC 8985 section 6.2).
            self.rack.on_recovered();
            self.end_reduction();
        }
        false
    }

    fn on_ack_in_loss(&mut self, event: &Event, d: &Delivered) {
        // A timeout was spurious if what it did not send again arrives (RFC 5682, simplified).
        let spurious = self.check_timeout && d.original;
        if self.undo().is_some() && (spurious || self.is_spurious(event)) {
            self.undo_reduction();
            return self.reopen();
        }
        if event.advanced {
            self.check_timeout = false;
        }
        if self.board.una >= self.high_seq {
            self.rack.on_recovered();
            self.reopen();
        }
    }

    /// How much later than a segment sent after it one may arrive and not be lost.
    fn reordering_window(&self) -> Duration {
        let eager = self.state >= State::Recovery || self.board.sacked_out >= self.rack.threshold;
        if eager && !self.rack.reordering_seen {
            return Duration::ZERO;
        }
        let quarter = Duration::from_nanos(self.rtt.min().unwrap_or(Duration::ZERO).as_nanos() / 4);
        let window = quarter.saturating_mul(self.rack.quarters.into());
        self.rtt.srtt().map_or(window, |srtt| window.min(srtt))
    }

    /// Looks for lost segments; returns whether a retransmission was among them.
    pub(super) fn detect_losses(&mut self, now: Time) -> bool {
        let Some(newest) = self.rack.newest() else { return false };
        let wait = self.rack.rtt + self.reordering_window();
        let Sender { board, rates, .. } = self;
        let found = board.detect(newest, now, wait, &mut RateSampler::note_losses(rates));
        if found.waiting {
            let due = (newest.0 + wait).max(now) + REORDER_SLACK;
            self.timer = Some(Timer { kind: Kind::Reorder, due });
        } else if self.timer.is_some_and(|t| t.kind == Kind::Reorder) {
            self.arm_rto_from_head(now);
        }
        found.retransmission
    }

    /// Losses were found by the reordering timer, without an ACK.
    pub(super) fn repair_after_detection(&mut self) {
        if self.state != State::Recovery {
            self.enter_recovery(false);
        }
        if !self.control.owns_window() {
            // Room for one, as if an ACK had come.
            self.follow_reduction(1, self.board.in_flight(), false);
        }
    }

    pub(super) fn enter_recovery(&mut self, marked: bool) {
        if self.state != State::Cwr && self.state != State::Recovery {
            self.set_undo(if marked { None } else { Some(self.undo_point()) });
            self.begin_reduction(ReductionCause::Loss);
        }
        self.state = State::Recovery;
    }

    /// What stood before the reduction under way, if that may be taken back.
    pub(super) fn undo(&self) -> Option<&Undo> {
        self.episode.as_ref().and_then(|e| e.undo.as_ref())
    }

    pub(super) fn set_undo(&mut self, undo: Option<Undo>) {
        if self.episode.is_some() || undo.is_some() {
            self.episode.get_or_insert_default().undo = undo;
        }
    }

    fn undo_point(&self) -> Undo {
        Undo {
            cwnd: self.window.cwnd,
            ssthresh: self.ssthresh_to_return(),
            begin: self.board.una,
            // What was sent again before may still be reported as in vain (Linux's `tcp_init_undo`).
            needed: (self.board.retrans_out > 0).then_some(self.board.retrans_out),
        }
    }

    pub(super) fn begin_reduction(&mut self, cause: ReductionCause) {
        self.high_seq = self.board.nxt;
        self.probe = None;
        self.reduce(cause);
    }

    /// The reduction is complete.
    pub(super) fn end_reduction(&mut self) {
        if let Some(ssthresh) = self.window.ssthresh
            && !self.control.owns_window()
        {
            self.window.cwnd = ssthresh;
        }
        // What was sent again may still turn out to have been in vain: the undo point stays.
        self.reopen();
    }

    fn undo_reduction(&mut self) {
        self.board.unmark_lost();
        let Some(undo) = self.episode.as_mut().and_then(|e| e.undo.take()) else { return };
        if !self.control.owns_window() {
            self.window.cwnd = self.window.cwnd.max(undo.cwnd);
            self.window.ssthresh = undo.ssthresh;
        }
        self.send_cwr = false;
        self.control.on_undo();
        self.totals.undone += 1;
    }

    /// Leaves a state of reduction or repair.
    pub(super) fn reopen(&mut self) {
        self.state = State::Open;
        self.keep_open();
    }

    fn keep_open(&mut self) {
        if self.state == State::Cwr {
            return;
        }
        let tidy = self.board.sacked_out | self.board.lost_out | self.board.retrans_out == 0;
        let state = if tidy { State::Open } else { State::Disorder };
        if state != self.state {
            self.state = state;
            self.high_seq = self.board.nxt;
        }
    }

    /// An ACK while a tail-loss probe is out (RFC 8985 section 7.4.2).
    pub(super) fn on_probe_answer(&mut self, event: &Event) {
        let Some(probe) = self.probe.filter(|p| event.next >= p.end) else { return };
        if !probe.retransmission || event.duplicate {
            self.probe = None;
        } else if event.next > probe.end {
            // The probe repaired a loss without anybody noticing.
            self.set_undo(None);
            self.begin_reduction(ReductionCause::Loss);
            self.end_reduction();
        } else if self.board.out() == 0 && !event.advanced {
            // Both the original and the probe arrived.
            self.probe = None;
        }
    }

    /// The retransmission timer expired (RFC 6298 section 5, RFC 5681 section 3.1).
    pub(super) fn on_rto(&mut self, now: Time) {
        if self.board.out() == 0 {
            return self.rest(now);
        }
        self.totals.timeouts += 1;
        let again = self.state == State::Loss && self.backoff > 0;
        let first = self.state < State::Recovery;
        let episode = self.state <= State::Disorder
            || self.high_seq <= self.board.una
            || (self.state == State::Loss && !again);
        if episode {
            self.set_undo(Some(self.undo_point()));
            if !self.sack {
                self.fit_window(self.board.out());
            }
            self.reduce(ReductionCause::Timeout);
        }
        self.control.on_timeout();
        let wait = if self.sack { self.rack.rtt } else { Duration::ZERO };
        let Sender { board, rates, .. } = self;
        board.mark_all_lost(now, wait, &mut RateSampler::note_losses(rates));
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.restart_count();
        self.state = State::Loss;
        self.high_seq = self.board.nxt;
        self.check_timeout = first || again;
        self.probe = None;
        self.probe_due = false;
        self.dup_acks = 0;
        self.limited_transmit = 0;
        self.burst_left = 0;
        self.backoff = self.backoff.saturating_add(1);
        self.arm_rto(now);
    }
}
