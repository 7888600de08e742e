//! An optional number of nanoseconds in eight bytes: flows have many, and there are many flows.

use std::num::NonZeroU64;
use weir_units::{Duration, Time};

/// `Option<Time>` or `Option<Duration>`. The last nanosecond of the clock is not told from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OptionNanos(Option<NonZeroU64>);

impl OptionNanos {
    pub const NONE: OptionNanos = OptionNanos(None);

    fn some(nanos: u64) -> OptionNanos {
        OptionNanos(NonZeroU64::new(nanos.saturating_add(1)))
    }

    fn nanos(self) -> Option<u64> {
        self.0.map(|n| n.get() - 1)
    }

    #[inline]
    pub fn at(time: Time) -> OptionNanos {
        OptionNanos::some(time.as_nanos())
    }

    #[inline]
    pub fn lasting(duration: Duration) -> OptionNanos {
        OptionNanos::some(duration.as_nanos())
    }

    #[inline]
    pub fn time(self) -> Option<Time> {
        self.nanos().map(Time::from_nanos)
    }

    #[inline]
    pub fn duration(self) -> Option<Duration> {
        self.nanos().map(Duration::from_nanos)
    }

    /// This, or else that.
    #[inline]
    pub fn or(self, that: OptionNanos) -> OptionNanos {
        OptionNanos(self.0.or(that.0))
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self.0.is_none()
    }
}

impl core::fmt::Debug for OptionNanos {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.duration().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_something_and_nothing_is_not() {
        assert_eq!(OptionNanos::at(Time::ZERO).time(), Some(Time::ZERO));
        assert_eq!(OptionNanos::lasting(Duration::from_nanos(7)).duration(), Some(Duration::from_nanos(7)));
        assert_eq!((OptionNanos::NONE.time(), OptionNanos::NONE.is_none()), (None, true));
        assert_eq!(size_of::<OptionNanos>(), 8);
    }
}
