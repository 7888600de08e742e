//! Distances in time that keep a rate exactly, however short they are.

use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate};

/// Equal distances, rounded to nanoseconds so that over any number of them nothing is lost: the remainder of
/// each goes into the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    /// Of one distance: whole nanoseconds, and what is left in units of 1/`rate` nanoseconds.
    nanos: u64,
    rest: u64,
    rate: u64,
    /// What is left of those before; less than `rate`.
    carried: u64,
}

impl Gaps {
    /// Between pieces of `size` bytes at a rate above zero.
    pub fn new(rate: Rate, size: Bytes) -> Gaps {
        let work = u128::from(size.get()) * u128::from(8 * NANOS_PER_SEC);
        let rate = rate.as_bps().max(1);
        let nanos = u64::try_from(work / u128::from(rate)).unwrap_or(u64::MAX);
        Gaps { nanos, rest: (work % u128::from(rate)) as u64, rate, carried: 0 }
    }

    /// So many distances together.
    pub fn next(&mut self, count: u64) -> Duration {
        let rest = u128::from(self.rest) * u128::from(count) + u128::from(self.carried);
        self.carried = (rest % u128::from(self.rate)) as u64;
        let more = u64::try_from(rest / u128::from(self.rate)).unwrap_or(u64::MAX);
        Duration::from_nanos(self.nanos.saturating_mul(count).saturating_add(more))
    }

    /// One distance in nanoseconds.
    pub fn mean_nanos(&self) -> f64 {
        self.nanos as f64 + self.rest as f64 / self.rate as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_short_they_are() {
        for (bps, size) in [(100_000_000_000, 64), (1_000_000_000_000, 7), (333, 1), (12_000_000, 1500)] {
            let mut gaps = Gaps::new(Rate::from_bps(bps), Bytes::new(size));
            let count = 3 * bps.min(1_000_000);
            let sum: u128 = (0..count).map(|_| u128::from(gaps.next(1).as_nanos())).sum();
            let exact = u128::from(count) * u128::from(size) * 8_000_000_000 / u128::from(bps);
            assert_eq!(sum, exact, "{bps} bit/s, {size} bytes");
            let mut together = Gaps::new(Rate::from_bps(bps), Bytes::new(size));
            assert_eq!(u128::from(together.next(count).as_nanos()), exact);
        }
    }
}
