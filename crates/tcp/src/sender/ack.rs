//! What an ACK means: the order of events is Linux's (`tcp_ack`).

use super::{Sender, State};
use crate::congestion::{AckSample, ReductionCause};
use crate::scoreboard::Delivered;
use crate::{Ack, EcnMode};
use weir_units::{Duration, Time};

/// What an ACK is, besides what it delivers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// It moved the left edge.
    pub advanced: bool,
    /// It moved nothing at all and is no older than the left edge.
    pub duplicate: bool,
    /// It says that the network marked, and the sender is to answer.
    pub echo: bool,
    /// Transmission time of what it answers.
    pub answers: Time,
    /// Its number of the first missing segment.
    pub next: u64,
    /// The first segment that was outstanding before it.
    pub before: u64,
}

/// What stood before.
struct Before {
    in_flight: u32,
    lost: u64,
}

/// The block of an ACK that reports what arrived twice (RFC 2883 section 4).
fn repeat(ack: &Ack) -> Option<(u64, u64)> {
    let [first, second, _] = ack.sacks;
    let within = second.0 <= first.0 && first.1 <= second.1;
    let is_repeat = first.0 < first.1 && (first.0 < ack.next || within);
    is_repeat.then_some(first)
}

impl Sender {
    /// Takes an ACK. To be followed by [`Sender::poll`]. One for data that was never sent is only counted.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.next > self.board.nxt {
            self.totals.invalid_acks += 1;
            return;
        }
        let before = Before { in_flight: self.board.in_flight(), lost: self.board.lost_total };
        let una = self.board.una;
        let advanced = ack.next > una;
        let current = ack.next >= una;
        self.note_newest(ack);
        if current {
            self.window_end = self.window_end.max(ack.next.saturating_add(u64::from(ack.window)));
        }
        if let Some(repeat) = repeat(ack).filter(|_| self.sack) {
            self.note_repeat(repeat);
        }
        let mut d = Delivered::new(now, self.rtt.min(), self.high_seq);
        self.note_delivered(now, ack, advanced, &mut d);
        let rtt = self.note_rtt(now, ack, &d, advanced);
        let marked = self.note_marks(ack, d.count);
        let event = Event {
            advanced,
            duplicate: current && !advanced && d.sacked == 0 && self.board.out() > 0,
            echo: self.is_echo(ack, marked),
            answers: ack.echo,
            next: ack.next,
            before: una,
        };
        // A mark that the window cannot answer is answered by the timer, whose back-off it keeps.
        if advanced && !(event.echo && self.window.is_lowest()) {
            self.backoff = 0;
        }
        let mut sample = self.sample(now, &d, marked, rtt, &before);
        if d.count > 0 && !self.control.owns_window() {
            self.control.on_sample(&mut self.window, &sample);
        }
        let mut waiting = false;
        if self.probe.is_some() {
            self.on_probe_answer(&event);
        }
        if !advanced || d.sacked > 0 || event.echo || self.state != State::Open {
            waiting = self.alert(now, &event, &d);
        }
        if !waiting && (advanced || self.is_head_younger(&d)) {
            self.arm_after_ack(now);
        }
        self.steer_window(now, &event, &d, &mut sample, &before);
        if self.is_done() {
            self.release();
        }
    }

    /// Feedback that only the newest ACK gives: the spin bit (RFC 9000 section 17.4).
    #[inline]
    fn note_newest(&mut self, ack: &Ack) {
        let newer = self.ack_number.is_none_or(|n| ack.number.wrapping_sub(n).cast_signed() > 0);
        if newer {
            self.ack_number = Some(ack.number);
            self.spin = !ack.spin;
        }
    }

    #[inline]
    fn note_delivered(&mut self, now: Time, ack: &Ack, advanced: bool, d: &mut Delivered) {
        let Sender { board, rates, .. } = self;
        let mut each = |seq, sent| {
            if let Some(rates) = rates {
                rates.on_delivered(seq, sent);
            }
        };
        if advanced {
            board.acknowledge(ack.next, d, &mut each);
        }
        if self.sack && ack.sacks[0].0 < ack.sacks[0].1 {
            for block in ack.sacks {
                board.sack(block, d, &mut each);
            }
        }
        self.delivered += u64::from(d.count);
        self.round.on_ack(now, self.board.una, self.board.nxt, self.delivered);
        if let Some(newest) = d.newest {
            self.rack.on_delivered(now, newest);
        }
        if let Some(low) = d.reordered {
            self.rack.on_reordered(self.board.highest_sacked().max(self.board.una) - low);
        }
    }

    /// Samples the RTT; returns that of the segment delivered last, for the congestion control.
    #[inline]
    fn note_rtt(&mut self, now: Time, ack: &Ack, d: &Delivered, advanced: bool) -> Option<Duration> {
        let first = d.first_sent.or(d.sack_first).time();
        let last = d.sack_last.or(d.last_sent).time();
        // Karn's rule; the timestamp tells apart what was sent twice (RFC 7323 section 4).
        let echoed = (first.is_none() && advanced).then_some(ack.echo);
        let last = last.or(echoed).map(|sent| now.since(sent));
        if let Some(rtt) = last {
            self.rtt.sample_min(now, rtt);
        }
        if let Some(sent) = first.or(echoed) {
            self.rtt.sample(now.since(sent), self.board.una, self.board.nxt);
        }
        last
    }

    /// Segments that this ACK reports as marked.
    #[inline]
    fn note_marks(&mut self, ack: &Ack, delivered: u32) -> u32 {
        let marked = match self.ecn {
            EcnMode::Off => return 0,
            EcnMode::Classic | EcnMode::Dctcp if ack.ece => delivered,
            EcnMode::Classic | EcnMode::Dctcp => 0,
            EcnMode::Accurate => {
                let more = ack.ce.wrapping_sub(self.ce_seen);
                // A late ACK counts less than was known.
                if more.cast_signed() <= 0 {
                    return 0;
                }
                self.ce_seen = ack.ce;
                more
            }
        };
        self.totals.marked += u64::from(marked);
        marked
    }

    #[inline]
    fn is_echo(&self, ack: &Ack, marked: u32) -> bool {
        match self.ecn {
            EcnMode::Off => false,
            EcnMode::Classic | EcnMode::Dctcp => ack.ece,
            EcnMode::Accurate => marked > 0 && !self.control.owns_marks(),
        }
    }

    #[inline]
    fn sample(
        &self,
        now: Time,
        d: &Delivered,
        marked: u32,
        rtt: Option<Duration>,
        before: &Before,
    ) -> AckSample {
        AckSample {
            now,
            delivered: d.count,
            marked,
            lost: 0,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            una: self.board.una,
            nxt: self.board.nxt,
            prior_in_flight: before.in_flight,
            in_flight: self.board.in_flight(),
            total_delivered: self.delivered,
            cwnd_limited: self.is_cwnd_limited(),
            state: self.state,
            rate: None,
        }
    }

    /// SACKs move the timeout only if the head was sent again since: else it would never come.
    fn is_head_younger(&self, d: &Delivered) -> bool {
        self.board.out() > 0 && d.sack_last.time().is_some_and(|sent| sent < self.board.sent(self.board.una))
    }

    /// Moves the window: through a reduction, by the congestion control, or not at all.
    #[inline]
    fn steer_window(
        &mut self,
        now: Time,
        event: &Event,
        d: &Delivered,
        sample: &mut AckSample,
        before: &Before,
    ) {
        let lost = self.board.lost_total - before.lost;
        if self.control.owns_window() {
            let min_rtt = self.rtt.min();
            let used = self.cwnd_limited;
            sample.rate = self.rates.as_mut().and_then(|r| r.finish(now, d.count, min_rtt, used));
            sample.lost = lost as u32;
            sample.in_flight = self.board.in_flight();
            sample.state = self.state;
            if d.count > 0 || lost > 0 {
                self.control.on_sample(&mut self.window, sample);
            }
        } else if self.is_reducing() {
            if d.count > 0 {
                let in_flight = self.board.in_flight();
                self.follow_reduction(d.count, in_flight, event.advanced && lost == 0);
            }
        } else if self.state != State::Recovery
            && d.count > 0
            && (event.advanced || self.rack.is_reordering_wide())
        {
            if !self.sack {
                // The sample has the state in which the ACK arrived.
                sample.delivered = Sender::counted(sample.state, event.echo, sample.delivered);
            }
            self.control.grow(&mut self.window, sample);
        }
        if self.pacer.is_on()
            && let Some(rate) = self.control.pacing_rate(&self.window, self.rtt.srtt(), self.board.out())
        {
            self.pacer.set_rate(rate);
        }
    }

    /// Whether proportional rate reduction sets the window.
    fn is_reducing(&self) -> bool {
        self.sack && matches!(self.state, State::Cwr | State::Recovery)
    }

    /// The network marked: one reduction per window.
    pub(super) fn on_echo(&mut self, now: Time) {
        if self.state > State::Disorder {
            return;
        }
        let lowest = self.window.is_lowest();
        self.set_undo(None);
        self.begin_reduction(ReductionCause::Mark);
        self.state = State::Cwr;
        if lowest {
            self.hold(now);
        }
    }

    /// The window after `delivered` segments by proportional rate reduction.
    pub(super) fn follow_reduction(&mut self, delivered: u32, in_flight: u32, safe: bool) {
        let prr = &mut self.episode.get_or_insert_default().prr;
        self.window.cwnd = prr.on_delivered(delivered, in_flight, safe);
    }

    /// Gives back what an idle flow does not need.
    fn release(&mut self) {
        self.board.release();
        if self.state <= State::Disorder && self.held_until().is_none() {
            self.episode = None;
        }
        if let Some(rates) = &mut self.rates {
            rates.release();
        }
    }
}
