//! What a sender tells about itself, like `tcp_info` of Linux.

use super::{Sender, State};
use crate::nanos::OptionNanos;
use weir_units::{Duration, Rate, Time};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub retransmits: u32,
    pub probes: u32,
    pub timeouts: u32,
    pub reductions: u32,
    pub undone: u32,
    pub repeats: u32,
    pub invalid_acks: u32,
    pub marked: u64,
}

/// The delivery rate over the last round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    end: u64,
    start: Time,
    /// Segments delivered before it, modulo 2^32.
    delivered: u32,
    /// Segments delivered in the round that ended last, and how long that took; none before the first.
    last_count: u32,
    last_span: OptionNanos,
}

impl Round {
    pub fn new(now: Time) -> Round {
        Round { end: 0, start: now, delivered: 0, last_count: 0, last_span: OptionNanos::NONE }
    }

    /// An ACK; `una` and `nxt` delimit rounds.
    #[inline]
    pub fn on_ack(&mut self, now: Time, una: u64, nxt: u64, delivered: u64) {
        if una > self.end {
            self.last_span = OptionNanos::lasting(now.since(self.start));
            self.last_count = (delivered as u32).wrapping_sub(self.delivered);
            self.end = nxt;
            self.start = now;
            self.delivered = delivered as u32;
        }
    }

    /// Segments per second in the round that ended last, if it took any time.
    fn rate(&self) -> Option<f64> {
        let span = self.last_span.duration().filter(|span| *span > Duration::ZERO)?;
        Some(f64::from(self.last_count) / span.as_secs_f64())
    }
}

/// What a sender tells about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderInfo {
    /// State of loss recovery.
    pub state: State,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed RTT; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the RTT.
    pub rttvar: Duration,
    /// Smallest RTT of five minutes.
    pub min_rtt: Option<Duration>,
    /// Retransmission timeout, with its back-off.
    pub rto: Duration,
    /// Segments in flight.
    pub in_flight: u32,
    /// First segment not acknowledged.
    pub una: u64,
    /// Next new segment.
    pub nxt: u64,
    /// Segments delivered since the start.
    pub delivered: u64,
    /// Of these, those reported to carry a congestion mark.
    pub marked: u64,
    /// Payload rate of delivery over the last round trip; `None` before the first.
    pub delivery_rate: Option<Rate>,
    /// Rate at which a paced flow sends; `None` if it is not paced.
    pub pacing_rate: Option<Rate>,
    /// Segments sent again since the start.
    pub retransmits: u64,
    /// Segments taken for lost since the start.
    pub lost: u64,
    /// Tail-loss probes since the start.
    pub probes: u32,
    /// Retransmission timeouts since the start.
    pub timeouts: u32,
    /// Reductions of the window since the start.
    pub reductions: u32,
    /// Of these, those taken back.
    pub undone: u32,
    /// Segments that the receiver reported to have arrived twice (RFC 2883).
    pub repeats: u32,
    /// ACKs for data that was never sent.
    pub invalid_acks: u64,
}

impl Sender {
    /// What stands now.
    pub fn info(&self) -> SenderInfo {
        let bits = f64::from(self.mss) * 8.0;
        let srtt = self.rtt.srtt();
        let paced = || self.control.pacing_rate(&self.window, srtt, self.board.out());
        SenderInfo {
            state: self.state,
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            srtt,
            rttvar: self.rtt.deviation(),
            min_rtt: self.rtt.min(),
            rto: self.backed_off_rto(),
            in_flight: self.board.in_flight(),
            una: self.board.una,
            nxt: self.board.nxt,
            delivered: self.delivered,
            marked: self.totals.marked,
            delivery_rate: self.round.rate().map(|rate| Rate::from_bps_f64(rate * bits)),
            pacing_rate: if self.pacer.is_on() {
                paced().map(|r| Rate::from_bps_f64(r * bits))
            } else {
                None
            },
            retransmits: self.totals.retransmits.into(),
            lost: self.board.lost_total,
            probes: self.totals.probes,
            timeouts: self.totals.timeouts,
            reductions: self.totals.reductions,
            undone: self.totals.undone,
            repeats: self.totals.repeats,
            invalid_acks: self.totals.invalid_acks.into(),
        }
    }
}
