//! The receiver: what arrived, and when to say so.

mod out_of_order;
mod right_sizing;

use crate::config::{EcnMode, ReceiverConfig};
use crate::nanos::OptionNanos;
use crate::{Ack, Segment};
use out_of_order::OutOfOrder;
use right_sizing::RightSizing;
use weir_units::{Duration, Ecn, Time};

/// Duplicate ACKs that are sent at once before Linux begins to gather them.
const DUP_THRESH: u8 = 3;
/// Most segments out of order that one ACK is late for (`tcp_comp_sack_nr`).
const GATHERED_MAX: u8 = 44;
/// After a pause this long, the sender may be in slow start again: Linux takes its timeout.
const QUICK_AFTER: Duration = Duration::from_millis(240);
/// Ticks by which a timestamp may be older than the newest in order (`TCP_PAWS_WINDOW`).
const OLD_TICKS: u64 = 1;
/// Segments acknowledged at once after a CE mark under classic ECN.
const QUICK_AFTER_CE: u16 = 2;

/// The receiving end of a flow.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// First segment that has not arrived.
    next: u64,
    bytes: u64,
    /// What arrived out of order, and what makes the window grow; kept apart so that a flow in order is
    /// small, and kept when all holes are filled until a pause, so that the next loss allocates nothing.
    beyond: Option<Box<OutOfOrder>>,
    window: u32,
    ack_every: u32,
    unacked: u32,
    number: u32,
    ce: u32,
    /// In nanoseconds, as is the next.
    delayed_ack: u32,
    sack_delay: u32,
    due: OptionNanos,
    echo: Time,
    last_arrival: Time,
    newest: Time,
    /// `next` of the last ACK.
    acked: u64,
    repeated: u32,
    quick: u16,
    quick_acks: u16,
    duplicates: u8,
    gathered: u8,
    /// Whether something waits in `beyond`.
    has_gap: bool,
    /// Whether segments in order need more than to be counted: with a gap, or where the window grows.
    watches: bool,
    dsack: bool,
    paws: bool,
    ecn: EcnMode,
    ece: bool,
    spin: bool,
}

/// The clock of timestamps in Linux: milliseconds.
fn ticks(t: Time) -> u64 {
    t.as_nanos() / 1_000_000
}

/// An ACK that reports a segment that had arrived before as its first block (RFC 2883 section 4).
fn with_repeat(ack: Ack, seq: u64) -> Ack {
    let [newest, second, _] = ack.sacks;
    Ack { sacks: [(seq, seq + 1), newest, second], ..ack }
}

impl Receiver {
    /// A receiver at the start of a flow.
    pub fn new(config: &ReceiverConfig, now: Time) -> Receiver {
        let quick_acks = u16::try_from(config.quick_acks).unwrap_or(u16::MAX);
        let nanos = |d: Duration| u32::try_from(d.as_nanos()).unwrap_or(u32::MAX);
        let window = config.window.max(1);
        let sizing = config.window_most.map(|most| RightSizing::new(window, most, now));
        Receiver {
            next: 0,
            bytes: 0,
            watches: sizing.is_some(),
            beyond: sizing
                .map(|sizing| Box::new(OutOfOrder { sizing: Some(sizing), ..OutOfOrder::default() })),
            window,
            ack_every: config.ack_every.max(1),
            unacked: 0,
            quick: quick_acks,
            quick_acks,
            has_gap: false,
            duplicates: 0,
            gathered: 0,
            number: 0,
            ce: 0,
            delayed_ack: nanos(config.delayed_ack),
            sack_delay: nanos(config.sack_delay),
            due: OptionNanos::NONE,
            echo: now,
            last_arrival: now,
            newest: now,
            acked: 0,
            dsack: config.dsack,
            paws: config.paws,
            ecn: config.ecn,
            ece: false,
            spin: false,
            repeated: 0,
        }
    }

    /// A segment arrives. Returns the ACK if there is one at once; else [`Receiver::next_timeout`] may name
    /// the time of a delayed one.
    #[inline]
    pub fn on_segment(&mut self, now: Time, s: &Segment) -> Option<Ack> {
        let at_once = self.note_header(now, s);
        // The timestamp of the first segment since the last ACK is echoed (RFC 7323 section 4.3).
        let is_old = s.sent < self.echo;
        if s.seq <= self.acked && !is_old {
            self.echo = s.sent;
        }
        if s.seq != self.next || self.watches || is_old {
            return self.on_watched(now, s, at_once);
        }
        self.on_next(now, s, at_once)
    }

    /// The next segment in order, while nothing is missing.
    #[inline(always)]
    fn on_next(&mut self, now: Time, s: &Segment, at_once: bool) -> Option<Ack> {
        let changes = self.ecn == EcnMode::Dctcp && (s.ecn == Ecn::Ce) != self.ece;
        let early = if changes { self.ack_before_change() } else { None };
        self.next += 1;
        self.bytes += u64::from(s.payload);
        self.unacked += 1;
        if early.is_some() {
            // The news itself does not wait either: its ACK leaves right behind.
            self.due = OptionNanos::at(now);
            return early;
        }
        if self.unacked >= self.ack_every || self.quick > 0 || at_once || changes {
            return Some(self.ack());
        }
        if self.due.is_none() {
            self.due = self.after_delay(now);
        }
        None
    }

    /// Spin bit, idle time and ECN. Returns whether an ACK has to leave at once.
    #[inline]
    fn note_header(&mut self, now: Time, s: &Segment) -> bool {
        if s.sent >= self.newest {
            self.newest = s.sent;
            self.spin = s.spin;
        }
        if now.since(self.last_arrival) > QUICK_AFTER {
            self.quick = self.quick_acks;
            self.release();
        }
        self.last_arrival = now;
        if self.ecn == EcnMode::Off {
            return false;
        }
        self.note_ecn(s)
    }

    fn note_ecn(&mut self, s: &Segment) -> bool {
        let marked = s.ecn == Ecn::Ce;
        self.ce = self.ce.wrapping_add(u32::from(marked));
        match self.ecn {
            EcnMode::Off | EcnMode::Accurate | EcnMode::Dctcp => false,
            EcnMode::Classic => {
                let was = self.ece;
                self.ece = marked || (was && !s.cwr);
                if marked && !was {
                    self.quick = self.quick.max(QUICK_AFTER_CE);
                }
                s.cwr
            }
        }
    }

    /// What is not just the next segment, or the next where the window grows.
    fn on_watched(&mut self, now: Time, s: &Segment, at_once: bool) -> Option<Ack> {
        if self.paws && ticks(self.echo) > ticks(s.sent) + OLD_TICKS {
            return Some(self.reject(s));
        }
        if s.seq == self.next && !self.watches {
            return self.on_next(now, s, at_once);
        }
        if let Some(sizing) = self.beyond.as_mut().and_then(|beyond| beyond.sizing.as_mut()) {
            self.window = sizing.window(now, self.next, self.window);
            if s.seq == self.next && !self.has_gap {
                return self.on_next(now, s, at_once);
            }
        }
        self.on_disorder(now, s, at_once)
    }

    /// A segment is too old to be taken, and answered at once (RFC 7323 section 5.3).
    fn reject(&mut self, s: &Segment) -> Ack {
        let was_there = s.seq < self.next;
        if was_there {
            self.repeated += 1;
            self.quick = self.quick.max(self.quick_acks);
        }
        let ack = self.ack();
        if was_there && self.dsack { with_repeat(ack, s.seq) } else { ack }
    }

    fn on_disorder(&mut self, now: Time, s: &Segment, at_once: bool) -> Option<Ack> {
        let before = self.next;
        let new = self.store(s);
        if !new {
            self.repeated += 1;
            // ACKs seem to be lost: the next ones leave at once.
            if s.seq < before {
                self.quick = self.quick.max(self.quick_acks);
            }
        }
        if self.ecn == EcnMode::Dctcp {
            self.ece = s.ecn == Ecn::Ce;
        }
        if self.next > before {
            self.duplicates = 0;
            self.unacked += 1;
        } else {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        // Whatever fills a hole or repeats is answered at once, and so are the first out of order.
        let gathers = new
            && self.next == before
            && self.duplicates > DUP_THRESH
            && self.sack_delay > 0
            && self.gathered < GATHERED_MAX
            && self.quick == 0
            && !at_once;
        if !gathers {
            let ack = self.ack();
            // What lies beyond the window is not there either.
            let is_repeat = self.dsack && !new && s.seq < self.next + u64::from(self.window);
            return Some(if is_repeat { with_repeat(ack, s.seq) } else { ack });
        }
        self.gathered += 1;
        let due = now + Duration::from_nanos(self.sack_delay.into());
        self.due = OptionNanos::at(self.due.time().map_or(due, |d| d.min(due)));
        None
    }

    /// DCTCP's echo is that of what is acknowledged: a change first sends the ACK that waits
    /// (RFC 8257 section 3.2).
    fn ack_before_change(&mut self) -> Option<Ack> {
        let early = (self.unacked > 0).then(|| self.ack());
        self.ece = !self.ece;
        early
    }

    /// Puts a segment where it belongs; `false` if it was there.
    fn store(&mut self, s: &Segment) -> bool {
        if s.seq < self.next || s.seq - self.next >= u64::from(self.window) {
            return false;
        }
        let beyond = self.beyond.get_or_insert_default();
        if !self.has_gap {
            beyond.unit = s.payload;
            beyond.recent = [(0, 0); 3];
        }
        let mut new = false;
        let range = beyond.ranges.insert((s.seq, s.seq + 1), |_| new = true);
        if new && s.payload != beyond.unit {
            beyond.odd.insert(s.seq, s.payload);
        }
        if range.0 == self.next {
            self.bytes += beyond.take(self.next, range.1);
            self.next = range.1;
        }
        beyond.remember(range, self.next);
        self.has_gap = !beyond.ranges.is_empty();
        self.watches = self.has_gap || beyond.sizing.is_some();
        new
    }

    /// When [`Receiver::on_timeout`] has to be called for a delayed ACK. Like the sender's, it moves.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.time()
    }

    /// Sends the delayed ACK, if it is due.
    pub fn on_timeout(&mut self, now: Time) -> Option<Ack> {
        self.due.time().filter(|due| *due <= now)?;
        self.release();
        Some(self.ack())
    }

    /// The application answers at once to what it got: its data carries the acknowledgement that was to wait.
    pub fn answer(&mut self) -> Option<Ack> {
        self.due.time()?;
        Some(self.ack())
    }

    fn after_delay(&self, now: Time) -> OptionNanos {
        OptionNanos::at(now + Duration::from_nanos(self.delayed_ack.into()))
    }

    /// A pause: gives back what waits for the next loss, if nothing is missing.
    fn release(&mut self) {
        if !self.watches {
            self.beyond = None;
        }
    }

    #[inline]
    fn ack(&mut self) -> Ack {
        self.due = OptionNanos::NONE;
        self.unacked = 0;
        self.gathered = 0;
        self.quick = self.quick.saturating_sub(1);
        self.acked = self.next;
        self.number = self.number.wrapping_add(1);
        Ack {
            next: self.next,
            sacks: match &self.beyond {
                Some(beyond) if self.has_gap => beyond.recent,
                _ => [(0, 0); 3],
            },
            echo: self.echo,
            window: self.window,
            ce: self.ce,
            number: self.number,
            ece: self.ece,
            spin: self.spin,
        }
    }

    /// Payload received in order: the goodput.
    pub fn received_bytes(&self) -> u64 {
        self.bytes
    }

    /// Segments received in order.
    pub fn received_segments(&self) -> u64 {
        self.next
    }

    /// Segments that had arrived before.
    pub fn repeated(&self) -> u64 {
        self.repeated.into()
    }

    /// Segments that arrived with a congestion mark, modulo 2^32; zero without ECN.
    pub fn marked(&self) -> u32 {
        self.ce
    }
}
