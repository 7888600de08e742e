//! Time, durations, bytes, rates, shares and the ECN field as types.
//!
//! Everything is a whole number underneath (nanoseconds, bytes, bits per second), so that the same inputs
//! give the same bits on every machine. Text forms (`"2.5ms"`, `"1Gbit/s"`, `"99%"`) are parsed and printed
//! here and nowhere else.
//!
//! This crate has no dependencies, no allocation and no clock.
//!
//! ```
//! use weir_units::{Bytes, Duration, Rate, parse_rate};
//!
//! assert_eq!(parse_rate("10Mbit/s"), Ok(Rate::from_mbps(10)));
//! assert_eq!(Rate::from_mbps(10).time_for(Bytes::new(1250)), Duration::from_millis(1));
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

mod text;

pub use text::{ParseError, parse_bytes, parse_duration, parse_rate, parse_share};

use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point on the host's monotonic clock, in nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(0);

    /// The point `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin, for printing and for laws in floating point.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

/// A length of time in nanoseconds. Arithmetic saturates: a duration never wraps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration there is.
    pub const MAX: Duration = Duration(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Duration {
        Duration(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s.saturating_mul(NANOS_PER_SEC))
    }

    /// The nearest whole number of nanoseconds to `s` seconds; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Duration {
        // A float-to-integer cast saturates and maps NaN to zero; half is added by hand because
        // `f64::round` needs the standard library.
        Duration((s * NANOS_PER_SEC as f64 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for printing and for laws in floating point.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Milliseconds, for printing.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }

    /// `self * factor`, at most [`Duration::MAX`].
    pub const fn saturating_mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }

    /// `self * factor`, rounded to the nearest nanosecond.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration((self.0 as f64 * factor + 0.5) as u64)
    }
}

impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Duration {
        Duration(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        self.saturating_sub(other)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

/// An amount of data in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

impl Rate {
    /// Nothing flows.
    pub const ZERO: Rate = Rate(0);

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// `mbps` megabits per second.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps.saturating_mul(1_000_000))
    }

    /// The nearest whole number of bits per second; negative and NaN become zero.
    pub fn from_bps_f64(bps: f64) -> Rate {
        Rate((bps + 0.5) as u64)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bits per second as a float, for laws and printing.
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }

    /// How long `bytes` take at this rate, rounded to the nearest nanosecond; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration((bytes.0 as f64 * (8.0 * NANOS_PER_SEC as f64) / self.0 as f64 + 0.5) as u64)
    }

    /// How many whole bytes pass in `d` at this rate.
    pub fn bytes_in(self, d: Duration) -> Bytes {
        Bytes((d.0 as f64 * self.0 as f64 / (8.0 * NANOS_PER_SEC as f64)) as u64)
    }
}

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: such a packet can only be dropped.
    #[default]
    NotEct = 0,
    /// ECN-capable, and the identifier of L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The ECN field from the two low bits of a traffic class octet.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Whether a packet belongs to low-latency traffic (L4S): the classification of RFC 9331 section 5.1,
    /// which counts CE as L4S because it does not tell what the packet was before it was marked.
    pub const fn is_low_latency(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }

    /// Whether a signal may be a mark. A packet that is CE already counts as marked when signalled again.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_twelve_microseconds_at_a_gigabit() {
        assert_eq!(Rate::from_mbps(1000).time_for(Bytes::new(1500)), Duration::from_micros(12));
        assert_eq!(Rate::from_mbps(10_000).bytes_in(Duration::from_micros(200)), Bytes::new(250_000));
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Duration::MAX);
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Duration::MAX + Duration::from_secs(1), Duration::MAX);
        assert_eq!(Duration::from(core::time::Duration::MAX), Duration::MAX);
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
        assert_eq!(Time::ZERO.since(Time::from_nanos(5)), Duration::ZERO);
    }
}
