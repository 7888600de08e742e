//! Spreading segments over the round trip.

use weir_units::{Duration, Time};

/// When the next segment may leave.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    on: bool,
    /// Set while something waits for the release.
    waiting: bool,
    release: Time,
    gap: Duration,
}

impl Pacer {
    pub fn new(on: bool, now: Time) -> Pacer {
        Pacer { on, waiting: false, release: now, gap: Duration::ZERO }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Sets the distance of full segments from their rate per second.
    pub fn set_rate(&mut self, segments_per_second: f64) {
        self.gap = if segments_per_second > 0.0 {
            Duration::from_secs_f64(1.0 / segments_per_second).min(Duration::from_secs(1))
        } else {
            Duration::ZERO
        };
    }

    /// Whether a segment may leave now. If not, [`Pacer::release`] names the time.
    #[inline]
    pub fn is_ready(&mut self, now: Time) -> bool {
        self.waiting = self.on && now < self.release;
        !self.waiting
    }

    /// Accounts for a segment that left.
    #[inline]
    pub fn on_sent(&mut self, now: Time) {
        if self.on {
            self.release = self.release.max(now) + self.gap;
        }
    }

    /// When that which waits may leave.
    #[inline]
    pub fn release(&self) -> Option<Time> {
        self.waiting.then_some(self.release)
    }
}
