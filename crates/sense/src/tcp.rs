//! The round-trip time between an observer and the receiver of a TCP stream, and what is in flight there.
//!
//! Data passes the observer towards its receiver ("forward"), acknowledgements come back. What the observer
//! sees is the half of the path on the receiver's side, with its queues.
//!
//! With delayed ACKs (RFC 5681 section 4.2) an acknowledgement covers several segments, and the last of them
//! caused it: that one times the path. Senders time the first, which also waited at the receiver for the
//! others; that is told beside it ([`Rtt::held`]). At low rates it is the time of a packet, which is no
//! queue.
//! What stands behind a hole is timed by the SACK block that names it first (RFC 2018 section 4), so that a
//! queue is seen while senders recover from it, which is when it is longest. What must not be timed is left
//! out:
//!
//! * Segments that were sent again (Karn's algorithm, RFC 6298 section 3), and with them what an
//!   acknowledgement covers beside them: it was held behind the hole.
//! * Acknowledgements that tell nothing new.
//! * A segment that was alone under way may have waited for the delayed-ACK timer, up to half a second. It is
//!   [`Rtt::doubtful`]: good for a minimum, bad for a mean.
//!
//! Where sequence numbers say nothing, timestamps may (RFC 7323 section 4): the echo of a TSval names one
//! transmission even if the data was sent twice.

use crate::timed::{Flying, Timed, ahead};
use crate::{Rtt, Suspicions};
use weir_units::{Bytes, Duration, Time};
use weir_wire::tcp::Segment;

/// Segments that are timed at once.
const TIMED: usize = 16;
/// Timestamps that are timed at once.
const STAMPED: usize = 8;
/// Pairs of segments that are timed in a round trip: a receiver acknowledges every other segment, and both
/// may be its first.
const PAIRS_PER_RTT: u64 = 8;
/// No window is larger (RFC 7323 section 2.3), so what jumps further is another connection, or a lie.
const WINDOW_MAX: u32 = 1 << 30;
/// A clock of TSvals that goes back this far was started anew; a smaller step is reordering.
const STAMPS_BACK_MAX: i32 = 1 << 20;

/// One direction of data of a TCP connection, as an observer sees it, joined at any moment.
#[derive(Clone, Copy, Debug)]
pub struct TcpFlow {
    stream: Option<Stream>,
    timed: Flying<TIMED>,
    stamped: Timed<STAMPED>,
    last_stamp: Option<u32>,
    /// The next segment is timed whatever the spacing: it is the second of a pair.
    second: bool,
    timed_at: Option<Time>,
    /// The last round-trip time, and when it was taken.
    last: Option<(Duration, Time)>,
    largest: u32,
    delivered: u64,
}

/// The part of the sequence space that is in flight.
#[derive(Clone, Copy, Debug)]
struct Stream {
    acknowledged: u32,
    forwarded: u32,
    /// Whether only the SYN is under way: no receiver delays its answer.
    opening: bool,
    /// From the first to behind the last byte that was sent again and is not acknowledged.
    again: Option<(u32, u32)>,
}

impl Stream {
    fn starting(s: &Segment, end: u32) -> Stream {
        Stream { acknowledged: s.seq, forwarded: end, opening: s.syn, again: None }
    }

    /// What lies between was sent before.
    fn send_again(&mut self, from: u32, to: u32) {
        if ahead(to, self.acknowledged) <= 0 {
            return;
        }
        let (first, last) = self.again.unwrap_or((from, to));
        let first = if ahead(from, first) < 0 { from } else { first };
        self.again = Some((first, if ahead(to, last) > 0 { to } else { last }));
    }

    /// Everything before `ack` arrived; whether some of what is new of it was sent again.
    fn acknowledge(&mut self, ack: u32) -> bool {
        (self.acknowledged, self.opening) = (ack, false);
        let is_touched = self.again.is_some_and(|(first, _)| ahead(ack, first) > 0);
        if is_touched {
            self.again = self.again.filter(|(_, last)| ahead(*last, ack) > 0).map(|(_, last)| (ack, last));
        }
        is_touched
    }
}

impl Default for TcpFlow {
    fn default() -> TcpFlow {
        TcpFlow {
            stream: None,
            timed: Flying::NONE,
            stamped: Timed::NONE,
            last_stamp: None,
            second: false,
            timed_at: None,
            last: None,
            largest: 0,
            delivered: 0,
        }
    }
}

impl TcpFlow {
    /// A segment passes towards the receiver, leaving the observer at `now`.
    pub fn forward(&mut self, now: Time, s: &Segment, suspicions: &mut Suspicions) {
        if s.rst {
            self.stream = None;
            return self.forget_timed();
        }
        if s.span() == 0 {
            return;
        }
        let end = s.seq.wrapping_add(s.span());
        let started = Stream::starting(s, end);
        match &mut self.stream {
            Some(stream) if !s.syn => {
                let gap = ahead(s.seq, stream.forwarded);
                let further = ahead(end, stream.forwarded) > 0;
                let flight = end.wrapping_sub(stream.acknowledged);
                if gap.unsigned_abs() > WINDOW_MAX || (further && flight > WINDOW_MAX) {
                    suspicions.sequence_jumps += 1;
                    *stream = started;
                    self.forget_timed();
                } else if gap < 0 {
                    stream.forwarded = if further { end } else { stream.forwarded };
                    stream.send_again(s.seq, end);
                    self.timed.forget(s.seq, end);
                    return self.stamp(now, s, true, suspicions);
                }
            }
            _ => {
                // A SYN that is sent again is ambiguous as any other segment.
                let again = self.stream.is_some_and(|old| old.opening && old.acknowledged == s.seq);
                self.stream = Some(started);
                self.forget_timed();
                if again {
                    return;
                }
            }
        }
        let stream = self.stream.get_or_insert(started);
        stream.forwarded = end;
        stream.opening &= s.syn;
        self.largest = self.largest.max(s.len);
        self.time(now, s.seq, end);
        self.stamp(now, s, false, suspicions);
    }

    fn forget_timed(&mut self) {
        self.timed.clear();
        self.stamped.clear();
        self.last_stamp = None;
        (self.second, self.timed_at) = (false, None);
    }

    /// The time between two pairs that are timed; nothing before a round-trip time is known.
    fn spacing(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(rtt, _)| Duration::from_nanos(rtt.as_nanos() / PAIRS_PER_RTT))
    }

    fn time(&mut self, now: Time, from: u32, to: u32) {
        let due = self.timed_at.is_none_or(|at| now.since(at) >= self.spacing());
        if due {
            self.timed_at = Some(now);
        }
        if due || self.second {
            self.timed.push(from, to, now);
        }
        self.second = due;
    }

    /// Of what is sent `again` nothing but the stamp will tell.
    fn stamp(&mut self, now: Time, s: &Segment, again: bool, suspicions: &mut Suspicions) {
        let Some(stamps) = s.stamps else { return };
        match self.last_stamp.map(|last| ahead(stamps.value, last)) {
            Some(0) => return,
            Some(step) if step < -STAMPS_BACK_MAX => {
                suspicions.stamp_jumps += 1;
                self.stamped.clear();
            }
            Some(step) if step < 0 => return,
            _ => {}
        }
        self.last_stamp = Some(stamps.value);
        if again {
            self.stamped.insist(stamps.value, now);
        } else {
            self.stamped.push(stamps.value, now);
        }
    }

    /// A segment comes back from the receiver at `now`.
    pub fn back(&mut self, now: Time, s: &Segment, suspicions: &mut Suspicions) -> Option<Rtt> {
        if s.rst {
            self.stream = None;
            self.forget_timed();
            return None;
        }
        let (stream, ack) = (self.stream.as_mut()?, s.ack?);
        let news = ahead(ack, stream.acknowledged);
        if ahead(ack, stream.forwarded) > 0 {
            // Nobody can have received what did not pass here.
            suspicions.acks_beyond += 1;
            return None;
        }
        if news < 0 {
            return None;
        }
        let sacked = s.sacked.filter(|(_, to)| ahead(*to, stream.forwarded) <= 0);
        let alone = ack == stream.forwarded && news.unsigned_abs() <= self.largest && !stream.opening;
        let acknowledged = if news > 0 { self.acknowledge(ack, news.unsigned_abs(), s) } else { None };
        let sacked = sacked.and_then(|(from, to)| self.timed.take_between(from, to));
        let (first, last) = acknowledged.or(sacked.map(|at| (at, None)))?;
        let last = last.unwrap_or(first);
        let (rtt, held) = (now.since(last), last.since(first));
        self.last = Some((rtt, now));
        Some(Rtt { rtt, held, doubtful: alone && acknowledged.is_some() })
    }

    /// Everything before `ack` arrived, `news` bytes of it since the last time: when the first of these
    /// passed, and the last where that is known.
    fn acknowledge(&mut self, ack: u32, news: u32, s: &Segment) -> Option<(Time, Option<Time>)> {
        self.delivered += u64::from(news);
        let sent_again = self.stream.as_mut().is_some_and(|stream| stream.acknowledge(ack));
        let timed = self.timed.take_before(ack).filter(|_| !sent_again);
        let stamped = s.stamps.and_then(|stamps| self.stamped.take(stamps.echo));
        let unanswered = |at: &Time| self.last.is_none_or(|(_, last)| last < *at);
        timed.or(stamped.filter(|at| sent_again || unanswered(at)).map(|at| (at, None)))
    }

    /// Bytes forwarded and not acknowledged; what SACK blocks name counts as in flight until the hole before
    /// it is filled.
    pub fn in_flight(&self) -> Bytes {
        self.stream.map_or(Bytes::ZERO, |s| {
            let span = s.forwarded.wrapping_sub(s.acknowledged);
            Bytes::new(u64::from(span))
        })
    }

    /// Bytes acknowledged since the observer joined.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }

    /// When the last round-trip time was taken.
    pub fn measured_at(&self) -> Option<Time> {
        self.last.map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests;
