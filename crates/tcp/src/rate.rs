//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation), for congestion controls that ask.

use crate::ring::Ring;
use weir_units::{Duration, Time};

/// What stood when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Segments taken for lost before it was sent, modulo 2^32.
    lost: u32,
    /// Segments in flight once it was sent.
    in_flight: u32,
    app_limited: bool,
}

/// A loss rate above which BBR takes what it had in flight for too much: 2 % (draft-ietf-ccwg-bbr-06
/// section 2.5, `LossThresh`).
pub(crate) const LOSS_THRESHOLD: f64 = 0.02;

/// A measurement of how fast the network delivered, over the flight of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Segments per second; `None` if the interval was too short to tell.
    pub rate: Option<f64>,
    /// Segments that had been delivered when the measured segment was sent.
    pub prior_delivered: u64,
    /// Whether the application had nothing to send in between, so that the rate is a lower bound.
    pub app_limited: bool,
    /// Segments delivered over the measured interval.
    pub delivered: u32,
    /// Segments in flight once the measured segment was sent.
    pub sent_in_flight: u32,
    /// Segments taken for lost since the measured segment was sent.
    pub lost: u32,
    /// Segments taken for lost since the last measurement.
    pub newly_lost: u32,
    /// Of these, runs of consecutive ones.
    pub lost_runs: u32,
    /// The first of these at which more than 2 % of what was in flight was lost.
    pub heavy_loss: Option<HeavyLoss>,
    /// Whether the window held the sender back in the last round trip.
    pub window_used: bool,
}

/// A lost segment, with what was in flight and lost when it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeavyLoss {
    /// Segments in flight once it was sent.
    pub sent_in_flight: u32,
    /// Segments taken for lost since it was sent, itself included.
    pub lost: u32,
    /// Whether the application limited the flow when it was sent.
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
    /// Segments taken for lost since the start, modulo 2^32.
    lost: u32,
    newly_lost: u32,
    lost_runs: u32,
    /// One past the segment lost last.
    after_lost: u64,
    heavy_loss: Option<HeavyLoss>,
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
            lost: 0,
            newly_lost: 0,
            lost_runs: 0,
            after_lost: 0,
            heavy_loss: None,
        }
    }

    /// A segment is sent, while everything from `una` on is kept; with it `in_flight` segments are in flight,
    /// and nothing was before it if `nothing_in_flight`.
    pub fn on_sent(&mut self, now: Time, una: u64, seq: u64, in_flight: u32, nothing_in_flight: bool) {
        if nothing_in_flight {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let snapshot = Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            in_flight,
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

    /// What a sender that may have a sampler calls for each segment that it takes for lost.
    pub fn note_losses(rates: &mut Option<Box<RateSampler>>) -> impl FnMut(u64) {
        move |seq| {
            if let Some(rates) = rates {
                rates.on_lost(seq);
            }
        }
    }

    /// Segment `seq` is taken for lost.
    pub fn on_lost(&mut self, seq: u64) {
        self.lost = self.lost.wrapping_add(1);
        self.newly_lost += 1;
        self.lost_runs += u32::from(seq != self.after_lost || self.newly_lost == 1);
        self.after_lost = seq + 1;
        let sent = self.snapshots.get(seq);
        let lost = self.lost.wrapping_sub(sent.lost);
        if self.heavy_loss.is_none() && f64::from(lost) > LOSS_THRESHOLD * f64::from(sent.in_flight) {
            let (sent_in_flight, app_limited) = (sent.in_flight, sent.app_limited);
            self.heavy_loss = Some(HeavyLoss { sent_in_flight, lost, app_limited });
        }
    }

    /// The application has nothing to send, with `in_flight` segments under way.
    pub fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Ends an ACK that delivered `count` segments; `window_used` if the window held the sender back.
    pub fn finish(
        &mut self,
        now: Time,
        count: u32,
        min_rtt: Option<Duration>,
        window_used: bool,
    ) -> Option<RateSample> {
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
            delivered: (self.delivered - snapshot.delivered) as u32,
            sent_in_flight: snapshot.in_flight,
            lost: self.lost.wrapping_sub(snapshot.lost),
            newly_lost: core::mem::take(&mut self.newly_lost),
            lost_runs: core::mem::take(&mut self.lost_runs),
            heavy_loss: self.heavy_loss.take(),
            window_used,
        })
    }

    /// Gives its memory back.
    pub fn release(&mut self) {
        self.snapshots.release();
    }
}
