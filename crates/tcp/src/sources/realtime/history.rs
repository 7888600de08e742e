//! What an algorithm remembers of the last seconds.

use std::collections::VecDeque;
use weir_units::{Duration, Time};

/// The last `N` values.
#[derive(Clone, Debug)]
pub struct History<const N: usize> {
    values: [f64; N],
    next: usize,
}

impl<const N: usize> Default for History<N> {
    fn default() -> Self {
        History { values: [0.0; N], next: 0 }
    }
}

impl<const N: usize> History<N> {
    /// A value comes, and the oldest goes.
    pub fn push(&mut self, value: f64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % N;
    }

    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / N as f64
    }

    /// The mean of the newest `n`.
    pub fn mean_of_last(&self, n: usize) -> f64 {
        let newest = (1..=n).map(|back| self.values[(self.next + N - back) % N]);
        newest.sum::<f64>() / n as f64
    }

    /// The variance.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        self.values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / N as f64
    }

    /// The autocorrelation at a distance of one, without the mean; zero where all are equal.
    pub fn correlation(&self) -> f64 {
        let mean = self.mean();
        let at = |i: usize| self.values[(self.next + i) % N] - mean;
        let power = (0..N).map(|i| at(i) * at(i)).sum::<f64>();
        if power > 0.0 { (1..N).map(|i| at(i) * at(i - 1)).sum::<f64>() / power } else { 0.0 }
    }
}

/// The greatest value of the last five seconds.
#[derive(Clone, Debug, Default)]
pub struct Greatest {
    /// Of each half second that has one, its number and its greatest, the oldest first.
    halves: VecDeque<(u64, u64)>,
}

const HALF: Duration = Duration::from_millis(500);

impl Greatest {
    /// A value.
    pub fn note(&mut self, now: Time, value: u64) {
        let half = now.since(Time::ZERO).as_nanos() / HALF.as_nanos();
        match self.halves.back_mut() {
            Some((number, greatest)) if *number == half => *greatest = value.max(*greatest),
            _ => self.halves.push_back((half, value)),
        }
        while self.halves.front().is_some_and(|(number, _)| number + 10 < half) {
            self.halves.pop_front();
        }
    }

    /// The greatest.
    pub fn of_last_5s(&self, now: Time) -> u64 {
        let half = now.since(Time::ZERO).as_nanos() / HALF.as_nanos();
        let recent = self.halves.iter().filter(|(number, _)| number + 10 >= half);
        recent.map(|(_, greatest)| *greatest).max().unwrap_or(0)
    }
}

/// A rate in bit/s, of what was counted since it was asked for last, and the median of the last ten seconds.
#[derive(Clone, Debug)]
pub struct Metered {
    bytes: u64,
    since: Time,
    /// Those that were told, the oldest of which gives way; beyond `told` none.
    rates: [f64; REMEMBERED],
    told: usize,
}

/// Rates that the median is of, one each 200 ms.
const REMEMBERED: usize = 50;

impl Metered {
    /// One that counts from `start` on.
    pub fn new(start: Time) -> Metered {
        Metered { bytes: 0, since: start, rates: [0.0; REMEMBERED], told: 0 }
    }

    /// So many bytes more.
    pub fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The rate since the last call.
    pub fn rate(&mut self, now: Time) -> f64 {
        let length = now.since(self.since);
        let rate = self.bytes as f64 * 8.0 / length.as_secs_f64().max(1e-3);
        (self.bytes, self.since) = (0, now);
        self.rates[self.told % REMEMBERED] = rate;
        self.told += 1;
        rate
    }

    /// The median of the rates that were told.
    pub fn median(&self) -> f64 {
        let mut rates = self.rates;
        let known = &mut rates[..self.told.min(REMEMBERED)];
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_trend_correlates_and_what_swings_does_not() {
        let mut rising = History::<20>::default();
        let mut swings = History::<20>::default();
        for i in 0..20 {
            rising.push(f64::from(i));
            swings.push(f64::from(i % 2));
        }
        assert!(rising.correlation() > 0.8 && swings.correlation() < -0.9);
        assert_eq!(History::<20>::default().correlation(), 0.0);
        assert_eq!((rising.mean_of_last(2), swings.variance()), (18.5, 0.25));
    }

    #[test]
    fn the_greatest_is_forgotten_after_five_seconds() {
        let mut greatest = Greatest::default();
        greatest.note(ms(0), 9);
        greatest.note(ms(100), 12);
        greatest.note(ms(4000), 5);
        assert_eq!(greatest.of_last_5s(ms(5000)), 12);
        assert_eq!(greatest.of_last_5s(ms(6000)), 5);
    }

    #[test]
    fn a_rate_is_that_of_the_time_since_it_was_asked_for() {
        let mut rate = Metered::new(ms(0));
        rate.count(25_000);
        assert_eq!(rate.rate(ms(200)), 1e6);
        rate.count(25_000);
        assert_eq!(rate.rate(ms(600)), 0.5e6);
        assert_eq!(rate.median(), 1e6);
    }
}
