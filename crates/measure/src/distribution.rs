//! Distributions of times, and the part of a run that is measured.

use crate::result::{ByClass, Spread};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use weir_units::{Duration, Ecn, Time};

/// Resolution of the distributions.
const TICK_NS: u64 = 100;
/// Longest time told apart.
const LONGEST_S: u64 = 120;

/// Values below this have a count of their own; each doubling above has half as many counts. Values of three
/// digits are so told apart, as in an HDR histogram, which reads the counts.
const FINE: usize = 2048;
/// Doublings above the fine values: the last of them has the longest time.
const DOUBLINGS: usize = 20;

/// A distribution of times.
pub struct Distribution {
    /// How many values of each size there are; as far as it goes.
    counts: Vec<u64>,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution { counts: vec![0; FINE + DOUBLINGS * FINE / 2] }
    }
}

/// Where a value is counted.
#[inline(always)]
fn place(ticks: u64) -> usize {
    // For values of 11 binary digits nothing is shifted out; of longer ones the first 11 count.
    let shift = u64::BITS - FINE.trailing_zeros() - (ticks | (FINE as u64 - 1)).leading_zeros();
    (shift as usize) * (FINE / 2) + (ticks >> shift) as usize
}

/// The smallest value that is counted there.
fn ticks_of(place: usize) -> u64 {
    let shift = (place / (FINE / 2)).saturating_sub(1);
    ((place - shift * (FINE / 2)) as u64) << shift
}

impl Distribution {
    /// One that takes little memory until long times come, and then asks for more: for many of them. It tells
    /// the same.
    pub fn growing() -> Distribution {
        Distribution { counts: Vec::new() }
    }

    /// Counts one value; longer ones count as the longest.
    #[inline]
    pub fn record(&mut self, d: Duration) {
        let ticks = d.as_nanos() / TICK_NS;
        match self.counts.get_mut(place(ticks)) {
            Some(count) => *count += 1,
            None => self.record_beyond(ticks),
        }
    }

    #[cold]
    fn record_beyond(&mut self, ticks: u64) {
        let mut place = place(ticks);
        if place >= FINE + DOUBLINGS * FINE / 2 {
            place = self::place(LONGEST_S * 1_000_000_000 / TICK_NS);
        }
        if place >= self.counts.len() {
            // Room for all of the same doubling.
            let room = (place + 1).next_multiple_of(FINE / 2);
            self.counts.reserve_exact(room - self.counts.len());
            self.counts.resize(room, 0);
        }
        self.counts[place] += 1;
    }

    /// The counts, to be read.
    fn histogram(&self) -> Histogram<u64> {
        let ticks = LONGEST_S * 1_000_000_000 / TICK_NS;
        let mut histogram =
            Histogram::new_with_bounds(1, ticks, 3).expect("the bounds are constant and valid");
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.record_n(ticks_of(place), *count).expect("its counts reach as far");
        }
        histogram
    }

    /// Mean and percentiles in milliseconds.
    pub fn spread_ms(&self) -> Spread {
        let histogram = self.histogram();
        if histogram.is_empty() {
            return Spread::default();
        }
        let ms = |ticks: f64| ticks * TICK_NS as f64 / 1e6;
        let quantile = |q| ms(histogram.value_at_quantile(q) as f64);
        Spread {
            mean: ms(histogram.mean()),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: ms(histogram.max() as f64),
        }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Quantiles and a histogram in milliseconds.
    pub fn quantiles_ms(&self) -> Quantiles {
        let ms = |ticks: u64| (ticks as f64) * TICK_NS as f64 / 1e6;
        let histogram = self.histogram();
        let steps = histogram.iter_recorded();
        Quantiles::of(steps.map(|step| (ms(step.value_iterated_to()), step.count_since_last_iteration())))
    }
}

/// A distribution for figures: quantiles at fixed shares, and a histogram with eight bins for each doubling.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many values there are.
    pub count: u64,
    /// Share of the values, and the value that so many do not exceed.
    pub quantiles: Vec<(f64, f64)>,
    /// Lower and upper end of a bin, and how many values are in it. Bins without any are left out.
    pub histogram: Vec<(f64, f64, u64)>,
}

impl Quantiles {
    /// Of values in ascending order, each with how many there are of it.
    pub fn of(steps: impl Iterator<Item = (f64, u64)>) -> Quantiles {
        let steps: Vec<(f64, u64)> = steps.collect();
        let count: u64 = steps.iter().map(|(_, n)| n).sum();
        let mut shares: Vec<f64> = (0..100).map(|i| f64::from(i) / 100.0).collect();
        shares.extend([0.995, 0.999, 1.0]);
        let (mut quantiles, mut histogram) = (Vec::new(), Vec::<(f64, f64, u64)>::new());
        let (mut seen, mut next) = (0, shares.into_iter().peekable());
        for (value, n) in steps {
            seen += n;
            while let Some(share) = next.next_if(|share| seen as f64 >= share * count as f64) {
                quantiles.push((share, value));
            }
            let (from, to) = bin(value);
            match histogram.last_mut() {
                Some(last) if last.0 == from => last.2 += n,
                _ => histogram.push((from, to, n)),
            }
        }
        Quantiles { count, quantiles, histogram }
    }
}

/// The ends of the bin of a value: 0 to 1 us, and then eight for each doubling.
fn bin(value: f64) -> (f64, f64) {
    const FIRST: f64 = 0.001;
    if value < FIRST {
        return (0.0, FIRST);
    }
    let number = ((value / FIRST).log2() * 8.0 + 1e-9).floor();
    let end = |number: f64| FIRST * (number / 8.0).exp2();
    (end(number), end(number + 1.0))
}

/// Times counted by powers of two, from 16 us to 9 s: few enough to be copied while packets pass, and
/// cumulative since the start, as metrics want them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Octaves {
    counts: [u64; Octaves::BOUNDS + 1],
    sum_ns: u64,
}

impl Octaves {
    /// Bounds of the buckets; longer times are in one more.
    pub const BOUNDS: usize = 20;
    /// Binary logarithm of the first bound in nanoseconds.
    const FIRST: u32 = 14;

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, d: Duration) {
        // A bound belongs to its bucket, as in OpenMetrics.
        let above = d.as_nanos().saturating_sub(1) >> Self::FIRST;
        let bucket = (u64::BITS - above.leading_zeros()) as usize;
        self.counts[bucket.min(Self::BOUNDS)] += 1;
        self.sum_ns = self.sum_ns.wrapping_add(d.as_nanos());
    }

    /// The upper bound of each bucket in seconds, infinity for the last, with what is counted in it.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bound = |at: usize| match at {
            Self::BOUNDS => f64::INFINITY,
            _ => (1u64 << (Self::FIRST as usize + at)) as f64 / 1e9,
        };
        self.counts.iter().enumerate().map(move |(at, count)| (bound(at), *count))
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together, in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

/// Sojourn times of a link, of low-latency and of classic traffic apart (RFC 9331).
#[derive(Default)]
pub struct Sojourns {
    low_latency: Distribution,
    classic: Distribution,
    /// Whether a packet came with ECT(1); before, CE tells nothing of L4S.
    is_l4s_there: bool,
}

impl Sojourns {
    /// For many links: it asks for memory when times are longer than any before.
    pub fn growing() -> Sojourns {
        let (low_latency, classic) = (Distribution::growing(), Distribution::growing());
        Sojourns { low_latency, classic, is_l4s_there: false }
    }

    /// Counts a packet that came with this ECN field.
    #[inline]
    pub fn record(&mut self, ecn: Ecn, d: Duration) {
        self.is_l4s_there |= ecn == Ecn::Ect1;
        if ecn.is_low_latency() { self.low_latency.record(d) } else { self.classic.record(d) }
    }

    /// Of all packets, in milliseconds.
    pub fn spread_ms(&self) -> Spread {
        self.all().spread_ms()
    }

    /// Of all packets.
    pub fn all(&self) -> Distribution {
        let mut all = Distribution::default();
        for part in [&self.low_latency, &self.classic] {
            all.counts.iter_mut().zip(&part.counts).for_each(|(sum, count)| *sum += count);
        }
        all
    }

    /// Of each kind, where there was low-latency traffic.
    pub fn by_class_ms(&self) -> Option<ByClass> {
        let by_class =
            || ByClass { low_latency: self.low_latency.spread_ms(), classic: self.classic.spread_ms() };
        self.is_l4s_there.then(by_class)
    }
}

/// The measured part of a run, in the link's time: from the end of the warm-up to the end of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: Time,
    /// Its end, as far as it is known.
    pub until: Time,
}

impl Window {
    /// Whether `at` lies in it.
    #[inline]
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        self.until.since(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_bucket_of_the_next_bound() {
        let mut octaves = Octaves::default();
        for ns in [0, 1, 16_384, 16_385, 32_768, 1_000_000, 8_589_934_592, 8_589_934_593, u64::MAX / 4] {
            octaves.record(Duration::from_nanos(ns));
        }
        let found: Vec<(f64, u64)> = octaves.buckets().filter(|(_, n)| *n > 0).collect();
        let (first, second, ms, last) = (16_384e-9, 32_768e-9, 1_048_576e-9, 8.589934592);
        assert_eq!(found, [(first, 3), (second, 2), (ms, 1), (last, 1), (f64::INFINITY, 2)]);
        assert_eq!((octaves.count(), octaves.buckets().count()), (9, Octaves::BOUNDS + 1));
    }

    /// Read from the counts it is the histogram that records each value itself.
    #[test]
    fn counts_tell_what_a_histogram_of_the_values_tells() {
        let ticks = LONGEST_S * 1_000_000_000 / TICK_NS;
        let mut whole: Histogram<u64> = Histogram::new_with_bounds(1, ticks, 3).unwrap();
        let mut times = Distribution::default();
        let edges = (0..24).flat_map(|n| [(1024u64 << n) - 1, 1024 << n, (1024 << n) + 1]);
        let spread = (0..50_000u64).map(|i| (i * i * i * 37 + i * 911) % 3_000_000_000);
        for value in edges.chain(spread).chain([0, 1, 2]) {
            times.record(Duration::from_nanos(value * TICK_NS + value % TICK_NS));
            if whole.record(value).is_err() {
                whole.saturating_record(value);
            }
        }
        assert!(times.histogram() == whole, "the counts differ");
        assert_eq!((times.count(), times.histogram().mean()), (whole.len(), whole.mean()));
        assert_eq!(times.histogram().max(), whole.max());
        for q in [0.0, 0.001, 0.5, 0.95, 0.99, 1.0] {
            assert_eq!(times.histogram().value_at_quantile(q), whole.value_at_quantile(q));
        }
        (0..FINE + DOUBLINGS * FINE / 2).for_each(|at| assert_eq!(place(ticks_of(at)), at));
    }

    /// Also where all is recorded anew in the sum of both classes, and times become longer and longer.
    #[test]
    fn a_distribution_that_grows_tells_the_same() {
        let (mut usual, mut growing) = (Sojourns::default(), Sojourns::growing());
        for ns in (0..2000u64).map(|i| (i * i * i * 37 + i * 911) % 90_000_000_000) {
            let ecn = if ns % 3 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
            usual.record(ecn, Duration::from_nanos(ns));
            growing.record(ecn, Duration::from_nanos(ns));
        }
        assert_eq!(growing.spread_ms(), usual.spread_ms());
        assert_eq!(growing.by_class_ms(), usual.by_class_ms());
        assert_eq!(growing.all().quantiles_ms(), usual.all().quantiles_ms());
    }

    #[test]
    fn quantiles_and_histogram_are_of_the_same_values() {
        let mut times = Distribution::default();
        (1..=1000).for_each(|ms| times.record(Duration::from_millis(ms)));
        let q = times.quantiles_ms();
        assert_eq!((q.count, q.quantiles.len()), (1000, 103));
        let at = |share: f64| q.quantiles.iter().find(|(s, _)| *s == share).unwrap().1;
        for (share, ms) in [(0.0, 1.0), (0.5, 500.0), (0.95, 950.0), (0.999, 999.0), (1.0, 1000.0)] {
            assert!((at(share) - ms).abs() <= 0.002 * ms, "{share}: {}", at(share));
        }
        assert_eq!(q.histogram.iter().map(|(.., n)| n).sum::<u64>(), 1000);
        assert!(q.histogram.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9));
        let (from, to, _) = q.histogram[q.histogram.len() - 1];
        assert!(from <= 1000.5 && 999.0 < to && (to / from - 2f64.powf(0.125)).abs() < 1e-9);
        assert_eq!(Distribution::default().quantiles_ms(), Quantiles::default());
    }

    #[test]
    fn classes_are_told_apart_once_one_packet_is_of_l4s() {
        let mut sojourns = Sojourns::default();
        let ms = Duration::from_millis;
        for (ecn, delay) in [(Ecn::Ect0, 10), (Ecn::Ce, 2), (Ecn::NotEct, 30)] {
            sojourns.record(ecn, ms(delay));
        }
        // A mark alone tells nothing of what the packet was.
        assert_eq!(sojourns.by_class_ms(), None);
        sojourns.record(Ecn::Ect1, ms(4));
        let by_class = sojourns.by_class_ms().unwrap();
        let near = |value: f64, wanted: f64| (value - wanted).abs() < 0.02 * wanted;
        assert!(near(by_class.low_latency.mean, 3.0) && near(by_class.classic.mean, 20.0), "{by_class:?}");
        assert!(near(sojourns.spread_ms().mean, 11.5) && near(sojourns.spread_ms().max, 30.0));
    }
}
