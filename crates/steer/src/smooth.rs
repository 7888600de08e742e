//! Averages over samples at irregular times.
//!
//! From Menth and Hauser, "On Moving Averages, Histograms and Time-Dependent Rates for Online Measurement"
//! (ICPE 2017). In all of them a sample of age `a` weighs `exp(-a / M)`, where `M` is the memory.

use weir_units::{Duration, Time};

/// The weight that is left after `gap`.
fn decay(gap: Duration, memory_s: f64) -> f64 {
    libm::exp(-gap.as_secs_f64() / memory_s)
}

/// UTEMA: unbiased time-exponential moving average (section 3.2.4).
///
/// ```text
/// w = exp(-gap / M);  S = w*S + x;  N = w*N + 1;  mean = S / N
/// ```
///
/// Between samples both sums decay alike, so the mean stays.
#[derive(Clone, Copy, Debug)]
pub struct Utema {
    memory_s: f64,
    sum: f64,
    weight: f64,
    last: Time,
}

impl Utema {
    /// No sample yet.
    pub fn new(memory: Duration) -> Self {
        Utema { memory_s: memory.as_secs_f64(), sum: 0.0, weight: 0.0, last: Time::ZERO }
    }

    /// Takes a sample and returns the mean.
    pub fn sample(&mut self, now: Time, x: f64) -> f64 {
        let w = decay(now.since(self.last), self.memory_s);
        self.last = now;
        self.sum = w * self.sum + x;
        self.weight = w * self.weight + 1.0;
        self.sum / self.weight
    }

    /// The mean; `None` before the first sample.
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// UTEMA of mean and variance with the same weights.
///
/// West's update ("Updating Mean and Variance Estimates", CACM 1979) stays exact when samples are
/// forgotten exponentially, because scaling all weights alike leaves the mean where it is.
///
/// ```text
/// w = exp(-gap / M);  S, N, Q *= w;  N2 *= w*w
/// S += x;  N += 1;  N2 += 1;  Q += (x - mean before) * (x - mean after)
/// variance = Q / N                          of a population
///          = Q / (N - N2 / N)               estimated for a sample
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UtemaVariance {
    memory_s: f64,
    sum: f64,
    weight: f64,
    weight_squared: f64,
    spread: f64,
    last: Time,
    count: u32,
}

impl UtemaVariance {
    /// No sample yet.
    pub fn new(memory: Duration) -> Self {
        UtemaVariance {
            memory_s: memory.as_secs_f64(),
            sum: 0.0,
            weight: 0.0,
            weight_squared: 0.0,
            spread: 0.0,
            last: Time::ZERO,
            count: 0,
        }
    }

    /// Takes a sample and returns the mean.
    pub fn sample(&mut self, now: Time, x: f64) -> f64 {
        let w = decay(now.since(self.last), self.memory_s);
        self.last = now;
        let before = self.mean().unwrap_or(x);
        self.sum = w * self.sum + x;
        self.weight = w * self.weight + 1.0;
        self.weight_squared = w * w * self.weight_squared + 1.0;
        let after = self.sum / self.weight;
        // The product is not negative but for rounding.
        self.spread = w * self.spread + ((x - before) * (x - after)).max(0.0);
        self.count = self.count.saturating_add(1);
        after
    }

    /// The mean; `None` before the first sample.
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// The variance of a population; zero before the second sample.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.spread / self.weight }
    }

    /// The variance estimated for a sample; zero before the second sample.
    pub fn variance_unbiased(&self) -> f64 {
        let freedom = self.weight - self.weight_squared / self.weight;
        // After a gap of many memories only the last sample is left: no variance can be told.
        if self.count < 2 || freedom < 1e-9 { 0.0 } else { self.spread / freedom }
    }

    /// Changes the memory from the last sample on.
    pub fn set_memory(&mut self, memory: Duration) {
        self.memory_s = memory.as_secs_f64();
    }

    /// How many samples were taken.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many equally weighted samples would be as good.
    pub fn effective(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.weight * self.weight / self.weight_squared }
    }
}

/// TDRM-UTEMA: time-dependent rate (section 6.1.5). Jumps at packets and decays in between.
///
/// ```text
/// R(t) = S(t) / T(t);  S as in UTEMA;  T = M * (1 - exp(-(t - start) / M))
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TdrmUtema {
    memory_s: f64,
    sum: f64,
    start: Time,
    last: Time,
}

impl TdrmUtema {
    /// A measurement that starts at `start`.
    pub fn new(memory: Duration, start: Time) -> Self {
        TdrmUtema { memory_s: memory.as_secs_f64(), sum: 0.0, start, last: start }
    }

    /// An amount `x` arrived; returns the rate in amount per second.
    pub fn sample(&mut self, now: Time, x: f64) -> f64 {
        self.sum = self.sum * decay(now.since(self.last), self.memory_s) + x;
        self.last = now;
        self.rate(now)
    }

    /// The rate in amount per second; zero at the start itself.
    pub fn rate(&self, now: Time) -> f64 {
        let measured = self.memory_s * (1.0 - decay(now.since(self.start), self.memory_s));
        let sum = self.sum * decay(now.since(self.last), self.memory_s);
        if measured > 0.0 { sum / measured } else { 0.0 }
    }
}

/// TDRM-UTEMA-CPA: time-dependent rate of continuous packet arrivals (section 6.1.6).
///
/// What arrived during a gap is taken as a constant rate over that gap.
///
/// ```text
/// w = exp(-gap / M);  R = w*R + (1 - w)*rate                       first: R = rate
/// S = w*S + (1 - w)*rate;  T = w*T + (1 - w);  R = S / T           unbiased form
/// ```
///
/// The first form starts with too much weight on the first rate and forgets that within a few memories.
#[derive(Clone, Copy, Debug)]
pub struct TdrmUtemaCpa {
    memory_s: f64,
    sum: f64,
    weight: f64,
    unbiased: bool,
}

impl TdrmUtemaCpa {
    /// No sample yet.
    pub fn new(memory: Duration, unbiased: bool) -> Self {
        TdrmUtemaCpa { memory_s: memory.as_secs_f64(), sum: 0.0, weight: 0.0, unbiased }
    }

    /// Takes the rate measured over the last `gap` and returns the average. A gap of zero says nothing
    /// and is not taken.
    pub fn sample(&mut self, gap: Duration, rate: f64) -> Option<f64> {
        self.take(gap, rate, self.memory_s, 1.0)
    }

    /// The same where each gap has a memory of its own, so that weights are times, and not shares of one
    /// memory. Not to be mixed with `sample`.
    ///
    /// ```text
    /// w = exp(-gap / M);  S = w*S + M * (1 - w)*rate;  T = w*T + M * (1 - w);  R = S / T    first: S = M*rate, T = M
    /// ```
    pub fn sample_over(&mut self, gap: Duration, rate: f64, memory: Duration) -> Option<f64> {
        let memory_s = memory.as_secs_f64();
        self.take(gap, rate, memory_s, memory_s)
    }

    /// Takes a sample whose weight is a share of `unit`.
    fn take(&mut self, gap: Duration, rate: f64, memory_s: f64, unit: f64) -> Option<f64> {
        if gap == Duration::ZERO {
            return self.rate();
        }
        let w = decay(gap, memory_s);
        let is_first = self.weight == 0.0 && !self.unbiased;
        let added = unit * if is_first { 1.0 } else { 1.0 - w };
        self.sum = w * self.sum + added * rate;
        self.weight = w * self.weight + added;
        self.rate()
    }

    /// The average; `None` before the first sample.
    pub fn rate(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// Changes the memory from the last sample on.
    pub fn set_memory(&mut self, memory: Duration) {
        self.memory_s = memory.as_secs_f64();
    }

    /// Restates the past for a unit that is `factor` times as large, as when the link's rate changed.
    pub fn scale(&mut self, factor: f64) {
        self.sum *= factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(t_s: f64) -> Time {
        Time::from_nanos((t_s * 1e9).round() as u64)
    }

    fn near(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} for {want}");
    }

    const BITS: [f64; 12] = [1., 1., 0., 1., 1., 1., 0., 1., 0., 0., 0., 0.];

    fn utema_of_bits(times: [f64; 12]) -> [f64; 12] {
        let mut average = Utema::new(Duration::from_secs(4));
        let mut n = 0;
        times.map(|t| {
            n += 1;
            let mean = average.sample(at(t), BITS[n - 1]);
            assert_eq!(average.mean(), Some(mean));
            mean
        })
    }

    #[test]
    fn utema_of_the_published_series() {
        let steady = utema_of_bits([1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
        let want = [
            1., 1., 0.580771, 0.727473, 0.811962, 0.865502, 0.633788, 0.727473, 0.547598, 0.415637, 0.317420,
            0.243528,
        ];
        for (got, want) in steady.iter().zip(want) {
            near(*got, want, 5e-7);
        }
        let fast_slow = utema_of_bits([0.5, 1., 1.5, 2., 2.5, 3., 4.5, 6., 7.5, 9., 10.5, 12.]);
        near(fast_slow[11], 0.187150, 5e-7);
        let slow_fast = utema_of_bits([1.5, 3., 4.5, 6., 7.5, 9., 9.5, 10., 10.5, 11., 11.5, 12.]);
        near(slow_fast[11], 0.308902, 5e-7);
    }

    #[test]
    fn utema_is_uema_for_equidistant_samples() {
        // UEMA with factor 0.75 of the paper's Figure 3: 0.87, 0.62 and 0.21 at these places.
        let gap = Duration::from_secs_f64(-libm::log(0.75));
        let mut average = Utema::new(Duration::from_secs(1));
        let mut now = Time::ZERO;
        let means = BITS.map(|x| {
            now += gap;
            average.sample(now, x)
        });
        near(means[5], 0.8717, 5e-5);
        near(means[6], 0.6202, 5e-5);
        near(means[11], 0.2134, 5e-5);
    }

    #[test]
    fn rate_of_unit_packets() {
        let mut rate = TdrmUtema::new(Duration::from_secs(10), Time::ZERO);
        for (t, sum) in [(1., 1.), (2., 1.904837), (3., 2.723568), (4., 3.464386), (5., 4.134706)] {
            near(rate.sample(at(t), 1.0), 1.050833, 5e-7);
            near(rate.sum, sum, 5e-7);
        }
        near(rate.rate(at(10.)), 0.396732, 5e-7);
        assert_eq!(TdrmUtema::new(Duration::from_secs(10), Time::ZERO).rate(Time::ZERO), 0.0);
    }

    #[test]
    fn rate_of_continuous_arrivals() {
        let samples = [(1., 10.), (1., 9.), (2., 9.), (5., 9.9), (0.1, 5.), (10., 9.9)];
        let published = [10., 9.904837, 9.740818, 9.803451, 9.755656, 9.846899];
        let unbiased = [10., 9.475021, 9.213838, 9.668792, 9.591040, 9.820287];
        for (form, want) in [(false, published), (true, unbiased)] {
            let mut rate = TdrmUtemaCpa::new(Duration::from_secs(10), form);
            assert_eq!(rate.sample(Duration::ZERO, 5.0), None);
            for ((gap, sample), want) in samples.into_iter().zip(want) {
                near(rate.sample(Duration::from_secs_f64(gap), sample).unwrap(), want, 5e-7);
            }
            let before = rate.rate();
            assert_eq!(rate.sample(Duration::ZERO, 5.0), before);
            rate.scale(0.1);
            near(rate.rate().unwrap(), want[5] / 10.0, 5e-8);
        }
    }

    #[test]
    fn variance_with_the_weights_of_the_mean() {
        let rows = [
            (0.0, 0.50, 0.5, 0.0, 0.0),
            (0.3, 0.40, 0.449250, 0.00249944, 0.005),
            (0.6, 0.70, 0.535353, 0.01581777, 0.02373377),
            (1.0, 0.45, 0.512880, 0.01306613, 0.01742951),
            (2.0, 0.55, 0.521247, 0.01036162, 0.01296845),
        ];
        let mut average = UtemaVariance::new(Duration::from_secs(10));
        assert_eq!((average.mean(), average.variance(), average.effective()), (None, 0.0, 0.0));
        for (t, x, mean, population, unbiased) in rows {
            near(average.sample(at(t), x), mean, 5e-7);
            near(average.variance(), population, 5e-9);
            near(average.variance_unbiased(), unbiased, 5e-9);
        }
        assert_eq!(average.count(), 5);
        assert!(average.effective() > 4.8 && average.effective() < 5.0);
    }

    #[test]
    fn the_variance_of_an_average_is_that_of_the_paper() {
        // Equation 34: s^2 / (2 M / gap - 1), here for M = 10 gaps: 0.0526 s^2. The series of independent
        // samples comes from a linear congruential generator.
        let mut state = 1u64;
        let mut average = Utema::new(Duration::from_secs(10));
        let (mut sum, mut squares, n) = (0.0, 0.0, 200_000);
        for t in 0..n {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = (state >> 11) as f64 / (1u64 << 53) as f64;
            let mean = average.sample(at(f64::from(t)), x);
            sum += mean;
            squares += mean * mean;
        }
        let n = f64::from(n);
        let variance = squares / n - (sum / n) * (sum / n);
        near(variance / (1.0 / 12.0), 0.0526, 0.003);
    }

    #[test]
    fn a_long_gap_leaves_one_sample() {
        let mut average = UtemaVariance::new(Duration::from_secs(10));
        average.sample(at(1.0), 5.0);
        average.sample(at(2.0), 9.0);
        near(average.sample(at(36_000.0), 1.0), 1.0, 1e-12);
        assert_eq!(average.variance_unbiased(), 0.0);
        assert!(average.variance() >= 0.0);
    }
}
