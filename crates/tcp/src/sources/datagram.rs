//! Sources that send whatever the network does: constant rate, Poisson, on and off.

use super::gaps::Gaps;
use super::{exponential, uniform};
use weir_units::{Bytes, Duration, Rate, Time};

/// Distances of datagrams while the source is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// All equal (CBR).
    Constant,
    /// Exponential (Poisson arrivals).
    Exponential,
}

/// Lengths of the times in which a source sends and does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnOff {
    /// It always sends.
    Always,
    /// Both times are constant.
    Fixed {
        /// How long it sends.
        on: Duration,
        /// How long it does not.
        off: Duration,
    },
    /// Both times are exponential with these means.
    Exponential {
        /// How long it sends.
        on: Duration,
        /// How long it does not.
        off: Duration,
    },
}

/// What can be chosen about a source of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct DatagramConfig {
    /// Rate while it is on, counted in the bytes of `size`. Above zero.
    pub rate: Rate,
    /// Bytes per datagram, with whatever headers the host counts.
    pub size: u32,
    /// Distances of datagrams.
    pub spacing: Spacing,
    /// When it sends at all.
    pub on_off: OnOff,
}

/// A source of datagrams without transport.
#[derive(Clone, Debug)]
pub struct Datagram {
    gaps: Gaps,
    /// What rounding to nanoseconds left of random distances.
    fraction: f64,
    spacing: Spacing,
    on_off: OnOff,
    next: Time,
    /// When it falls silent; `None` if never.
    until: Option<Time>,
    sent: u64,
}

impl Datagram {
    /// A source that begins to send at `start`.
    pub fn new(config: &DatagramConfig, start: Time, mut dice: impl FnMut() -> u64) -> Datagram {
        let mut source = Datagram {
            gaps: Gaps::new(config.rate, Bytes::new(u64::from(config.size.max(1)))),
            fraction: 0.0,
            spacing: config.spacing,
            on_off: config.on_off,
            next: start,
            until: None,
            sent: 0,
        };
        source.until = source.draw_on(&mut dice).map(|on| start + on);
        source
    }

    /// When the next datagram leaves.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Datagrams that have left.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The datagram leaves; moves [`Datagram::next`] on.
    pub fn advance(&mut self, mut dice: impl FnMut() -> u64) {
        self.sent += 1;
        let gap = match self.spacing {
            Spacing::Constant => self.gaps.next(1),
            Spacing::Exponential => self.random_gap(dice()),
        };
        self.next += gap;
        // The time on stands still while the source is off, so that its rate while on is exact.
        while let Some(until) = self.until.filter(|u| self.next >= *u) {
            let off = self.draw_off(&mut dice);
            let on = self.draw_on(&mut dice).unwrap_or(Duration::MAX);
            self.next += off;
            self.until = Some(until + off + on);
            if on == Duration::ZERO && off == Duration::ZERO {
                self.until = None;
            }
        }
    }

    /// An exponential distance; what is left of a nanosecond goes into the next.
    fn random_gap(&mut self, bits: u64) -> Duration {
        let exact = self.gaps.mean_nanos() * -libm::log(uniform(bits)) + self.fraction;
        let whole = exact as u64;
        self.fraction = exact - whole as f64;
        Duration::from_nanos(whole)
    }

    fn draw_on(&self, dice: &mut impl FnMut() -> u64) -> Option<Duration> {
        match self.on_off {
            OnOff::Always => None,
            OnOff::Fixed { on, .. } => Some(on),
            OnOff::Exponential { on, .. } => Some(exponential(on, dice())),
        }
    }

    fn draw_off(&self, dice: &mut impl FnMut() -> u64) -> Duration {
        match self.on_off {
            OnOff::Always => Duration::ZERO,
            OnOff::Fixed { off, .. } => off,
            OnOff::Exponential { off, .. } => exponential(off, dice()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    fn config(spacing: Spacing, on_off: OnOff) -> DatagramConfig {
        DatagramConfig { rate: Rate::from_mbps(12), size: 1500, spacing, on_off }
    }

    fn count(config: &DatagramConfig, end: Time) -> u64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut source = Datagram::new(config, Time::ZERO, || rng.next_u64());
        while source.next() < end {
            source.advance(|| rng.next_u64());
        }
        source.sent()
    }

    #[test]
    fn rates_are_met() {
        let end = Time::ZERO + Duration::from_secs(100);
        assert_eq!(count(&config(Spacing::Constant, OnOff::Always), end), 100_000);
        let poisson = count(&config(Spacing::Exponential, OnOff::Always), end);
        assert!((99_000..101_000).contains(&poisson), "{poisson}");
        let s = Duration::from_secs;
        let fixed = OnOff::Fixed { on: s(1), off: s(3) };
        assert_eq!(count(&config(Spacing::Constant, fixed), end), 25_000);
        let random = OnOff::Exponential { on: Duration::from_millis(10), off: Duration::from_millis(10) };
        let half = count(&config(Spacing::Constant, random), end);
        assert!((48_000..52_000).contains(&half), "{half}");
    }

    #[test]
    fn the_smallest_packets_at_the_highest_rates_keep_their_rate() {
        let end = Time::ZERO + Duration::from_millis(10);
        // 64 bytes at 100 Gbit/s are 5.12 ns.
        let config = DatagramConfig {
            rate: Rate::from_mbps(100_000),
            size: 64,
            ..config(Spacing::Constant, OnOff::Always)
        };
        assert_eq!(count(&config, end), 1_953_125);
        let poisson = count(&DatagramConfig { spacing: Spacing::Exponential, ..config }, end);
        assert!((1_948_000..1_958_000).contains(&poisson), "{poisson}");
    }

    #[test]
    fn a_source_that_is_never_on_does_not_hang() {
        let never = OnOff::Fixed { on: Duration::ZERO, off: Duration::ZERO };
        assert!(count(&config(Spacing::Constant, never), Time::ZERO + Duration::from_secs(1)) > 0);
    }
}
