//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation), for congestion controls that ask.

use crate::ring::Ring;
use weir_units::{Duration, Time};

/// What stood when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: bool,
}

/// A measurement of how fast the network delivered, over the flight of one segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Segments per second; `None` if the interval was too short to tell.
    pub rate: Option<f64>,
    /// Segments that had been delivered when the measured segment was sent.
    pub prior_delivered: u64,
    /// Whether the application had nothing to send in between, so that the rate is a lower bound.
    pub app_limited: bool,
}

/// Keeps a snapshot for each segment in flight.
#[derive(Clone, Debug)]
pub(crate) struct RateSampler {
    snapshots: Ring<Snapshot>,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Everything up to this count was sent while the application limited the rate.
    app_limited_until: u64,
    best: Option<(Snapshot, Time)>,
}

impl RateSampler {
    pub fn new(now: Time) -> RateSampler {
        RateSampler {
            snapshots: Ring::new(),
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            app_limited_until: 0,
            best: None,
        }
    }

    /// A segment is sent, while everything from `una` on is in flight.
    pub fn on_sent(&mut self, now: Time, una: u64, seq: u64, nothing_in_flight: bool) {
        if nothing_in_flight {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let snapshot = Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited_until > 0,
        };
        self.snapshots.put(una, seq, snapshot);
    }

    /// Segment `seq`, sent at `sent`, was delivered. The one sent last makes the sample.
    pub fn on_delivered(&mut self, seq: u64, sent: Time) {
        let snapshot = *self.snapshots.get(seq);
        if self.best.is_none_or(|(best, _)| snapshot.delivered >= best.delivered) {
            self.best = Some((snapshot, sent));
            self.first_sent = sent;
        }
    }

    /// The application has nothing to send, with `in_flight` segments under way.
    pub fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Ends an ACK that delivered `count` segments.
    pub fn finish(&mut self, now: Time, count: u32, min_rtt: Option<Duration>) -> Option<RateSample> {
        self.delivered += u64::from(count);
        if count > 0 {
            self.delivered_at = now;
        }
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let (snapshot, sent) = self.best.take()?;
        let interval = sent.since(snapshot.first_sent).max(now.since(snapshot.delivered_at));
        let measurable = interval > Duration::ZERO && min_rtt.is_none_or(|min| interval >= min);
        let segments = (self.delivered - snapshot.delivered) as f64;
        Some(RateSample {
            rate: measurable.then(|| segments / interval.as_secs_f64()),
            prior_delivered: snapshot.delivered,
            app_limited: snapshot.app_limited,
        })
    }

    /// Gives its memory back.
    pub fn release(&mut self) {
        self.snapshots.release();
    }
}
