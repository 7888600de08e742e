//! Spreading segments over the round trip.

use weir_units::{Duration, Time};

/// When the next segment may leave. Few flows are paced: the others carry a pointer.
#[derive(Clone, Debug)]
pub(crate) struct Pacer(Option<Box<Pace>>);

#[derive(Clone, Debug)]
struct Pace {
    /// Set while something waits for the release.
    waiting: bool,
    release: Time,
    gap: Duration,
}

impl Pacer {
    pub fn new(on: bool, now: Time) -> Pacer {
        Pacer(on.then(|| Box::new(Pace { waiting: false, release: now, gap: Duration::ZERO })))
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the distance of full segments from their rate per second.
    pub fn set_rate(&mut self, segments_per_second: f64) {
        let Some(pace) = &mut self.0 else { return };
        pace.gap = if segments_per_second > 0.0 {
            Duration::from_secs_f64(1.0 / segments_per_second).min(Duration::from_secs(1))
        } else {
            Duration::ZERO
        };
    }

    /// Whether a segment may leave now. If not, [`Pacer::release`] names the time.
    #[inline]
    pub fn is_ready(&mut self, now: Time) -> bool {
        let Some(pace) = &mut self.0 else { return true };
        pace.waiting = now < pace.release;
        !pace.waiting
    }

    /// Accounts for a segment that left.
    #[inline]
    pub fn on_sent(&mut self, now: Time) {
        if let Some(pace) = &mut self.0 {
            pace.release = pace.release.max(now) + pace.gap;
        }
    }

    /// When that which waits may leave.
    #[inline]
    pub fn release(&self) -> Option<Time> {
        self.0.as_ref().and_then(|pace| pace.waiting.then_some(pace.release))
    }
}
