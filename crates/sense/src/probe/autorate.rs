//! A shaping rate that follows a link whose own rate nobody tells, within stated bounds.
//!
//! A shaper keeps the queue with it as long as it sends no faster than the link below, and wastes what it
//! sends slower. Probes say both: how long they wait below, above the least of the last seconds, and how fast
//! the data between two of them came out at the other end. So the rate rises by steps that grow while the
//! link is loaded and nothing waits below, and falls to a share of what was *delivered* as soon as something
//! does; the deeper the queue, the smaller the share, until it is drained. As what is delivered is the link's
//! own rate while a queue stands there, one cut finds it, however far it lies below, and a second one does
//! not lower it further. Without load nothing can be learned, and the rate goes back to the configured one.
//!
//! Traffic below three quarters of the least rate is never taken for the cause of a delay, and a delay that
//! comes with a link that is not loaded must last for three intervals: others, and radios, delay probes too.

use crate::WindowedMin;
use weir_units::{Duration, Rate, Time};

/// Shortest interval between two decisions; on longer paths it is their round trip without queues.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long the least delay counts as that of the empty path.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);
/// The link is loaded while at least this share of the rate is used.
const LOADED: f64 = 0.8;
/// The first step upwards, how steps grow while one follows the other, and the largest.
const RAISE_FIRST: f64 = 0.02;
const RAISE_GROWTH: f64 = 1.25;
const RAISE_MOST: f64 = 0.1;
/// Largest and smallest share of what was delivered that a cut leaves.
const CUT_LEAST: f64 = 0.9;
const CUT_MOST: f64 = 0.5;
/// Time in which a queue is to be drained, as far as that share allows.
const DRAIN: Duration = Duration::from_secs(1);
/// Share of the way to the configured rate that an idle link goes in an interval.
const DECAY: f64 = 0.05;
/// Share of the least rate below which traffic is not the cause of a delay.
const CAUSE: f64 = 0.75;
/// Intervals for which a delay must last where the link is not loaded, and half of one where it is.
const LASTING: u32 = 3;
const STANDING: u32 = 5;

/// Within what a rate moves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AutorateConfig {
    /// Least rate.
    pub min: Rate,
    /// Largest rate.
    pub max: Rate,
    /// Delay below that is too much, above the least of the last ten seconds.
    pub delay: Duration,
}

/// What an interval showed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// How fast the shaper sent.
    pub sent: Rate,
    /// How fast that came out at the other end; `None` where fewer than two probes tell.
    pub delivered: Option<Rate>,
    /// Least time from the shaper to the other end and back; `None` where no probe came back.
    pub delay: Option<Duration>,
    /// For how long the first of the probes is underway that are not back, where none came back.
    pub overdue: Option<Duration>,
}

/// The law: a value that is told of intervals.
#[derive(Clone, Copy, Debug)]
pub struct Autorate {
    config: AutorateConfig,
    /// In bits per second.
    rate: f64,
    floor: WindowedMin<Duration>,
    /// Rate of the link, while a queue that was found there is drained.
    draining: Option<f64>,
    /// The next step upwards.
    step: f64,
    /// Intervals in a row with more than half of the delay, and with more than the delay.
    standing: u32,
    excess: u32,
    cuts: u64,
}

impl Autorate {
    /// Begins at a rate.
    pub fn new(config: AutorateConfig, rate: Rate) -> Autorate {
        Autorate {
            config,
            rate: rate.as_bps_f64(),
            floor: WindowedMin::new(FLOOR_WINDOW),
            draining: None,
            step: RAISE_FIRST,
            standing: 0,
            excess: 0,
            cuts: 0,
        }
    }

    /// The rate, within the bounds.
    pub fn rate(&self) -> Rate {
        Rate::from_bps_f64(self.rate).clamp(self.config.min, self.config.max)
    }

    /// Goes on from another rate; what was learned of the path stays.
    pub fn set_rate(&mut self, rate: Rate) {
        (self.rate, self.draining, self.step) = (rate.as_bps_f64(), None, RAISE_FIRST);
        (self.standing, self.excess) = (0, 0);
    }

    /// How often it was cut.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// How long an interval is to be at least.
    pub fn interval(&mut self, now: Time) -> Duration {
        self.floor.get(now).map_or(INTERVAL, |floor| floor.max(INTERVAL))
    }

    /// An interval ended; `base` is the configured rate. [`Autorate::rate`] is what it comes to.
    pub fn step(&mut self, now: Time, base: Rate, seen: &Interval) {
        if let Some(delay) = seen.delay {
            self.floor.insert(now, delay);
        }
        let delay = seen.delay.or(seen.overdue);
        let excess = delay.zip(self.floor.get(now)).map(|(delay, floor)| delay.saturating_sub(floor));
        let (sent, was) = (seen.sent.as_bps_f64(), self.rate().as_bps_f64());
        let delivered = seen.delivered.map(Rate::as_bps_f64);
        let is_loaded = sent >= LOADED * was;
        let is_cause = sent.max(delivered.unwrap_or(0.0)) >= CAUSE * self.config.min.as_bps_f64();
        let count = |is: bool, so_far: u32| if is { so_far + 1 } else { 0 };
        let half = Duration::from_nanos(self.config.delay.as_nanos() / 2);
        let above = |limit: Duration| excess.is_some_and(|excess| excess > limit);
        self.excess = count(is_cause && above(self.config.delay), self.excess);
        self.standing = count(is_cause && above(half), self.standing);
        let is_too_much = self.excess >= if is_loaded || self.draining.is_some() { 1 } else { LASTING };
        let next = match (excess, self.draining) {
            (Some(excess), draining) if is_too_much || self.standing >= STANDING => {
                self.cuts += u64::from(draining.is_none());
                self.standing = 0;
                // A link that delivers more than it was sent has a queue to take it from.
                let link = delivered.or(draining).unwrap_or(was);
                self.draining = Some(link);
                link.min(draining.unwrap_or(was).max(was)) * share(excess)
            }
            (Some(_), Some(link)) => {
                self.draining = None;
                link * CUT_LEAST
            }
            (Some(excess), None) if is_loaded && excess <= half => was * (1.0 + self.step),
            _ if !is_loaded => {
                self.draining = None;
                was + (base.as_bps_f64() - was) * DECAY
            }
            _ => was,
        };
        let is_raised = is_loaded && next > was && self.draining.is_none();
        self.step = if is_raised { (self.step * RAISE_GROWTH).min(RAISE_MOST) } else { RAISE_FIRST };
        self.rate = next.clamp(self.config.min.as_bps_f64(), self.config.max.as_bps_f64());
    }
}

/// The share of what is delivered that is sent while so much waits below.
fn share(excess: Duration) -> f64 {
    (1.0 - excess.as_secs_f64() / DRAIN.as_secs_f64()).clamp(CUT_MOST, CUT_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6;

    fn config() -> AutorateConfig {
        AutorateConfig { min: mbps(2.0), max: mbps(20.0), delay: Duration::from_millis(30) }
    }

    fn mbps(rate: f64) -> Rate {
        Rate::from_bps_f64(rate * MBIT)
    }

    fn seen(sent: f64, delivered: f64, delay_ms: u64) -> Interval {
        let delay = Some(Duration::from_millis(delay_ms));
        Interval { sent: mbps(sent), delivered: Some(mbps(delivered)), delay, overdue: None }
    }

    /// A law that knows that the empty path takes 10 ms, at 10 Mbit/s, and what its next steps come to.
    struct Bench(Autorate, Time);

    impl Bench {
        fn new() -> Bench {
            let mut bench = Bench(Autorate::new(config(), mbps(10.0)), Time::ZERO);
            bench.step(&seen(7.0, 7.0, 10));
            assert_eq!(bench.0.rate(), mbps(10.0), "the link is not loaded, and the rate is the configured");
            bench
        }

        fn step(&mut self, seen: &Interval) -> f64 {
            self.1 += INTERVAL;
            self.0.step(self.1, mbps(10.0), seen);
            (self.0.rate().as_bps_f64() / 1e3 + 0.5).floor() / 1e3
        }
    }

    #[test]
    fn a_loaded_link_without_a_queue_is_raised_by_steps_that_grow_up_to_the_bound() {
        let mut bench = Bench::new();
        let mut rate = 10.0;
        for known in
            [10.2, 10.455, 10.782, 11.203, 11.75, 12.467, 13.418, 14.698, 16.168, 17.784, 19.563, 20.0, 20.0]
        {
            rate = bench.step(&seen(rate, rate, 14));
            assert_eq!(rate, known);
        }
        assert_eq!(bench.0.cuts(), 0);
    }

    #[test]
    fn a_queue_below_costs_a_share_of_what_is_delivered_once_until_it_is_drained() {
        let mut bench = Bench::new();
        // The link is down to 5 Mbit/s: 40 ms too much leave nine tenths of that, 200 ms eight, a second
        // half.
        for (delay_ms, known) in [(50, 4.5), (210, 4.0), (1010, 2.5), (310, 3.5), (110, 4.5)] {
            assert_eq!(bench.step(&seen(9.0, 5.0, delay_ms)), known);
        }
        assert_eq!((bench.step(&seen(4.0, 5.0, 12)), bench.0.cuts()), (4.5, 1), "drained");
        assert_eq!(bench.step(&seen(4.5, 4.5, 12)), 4.59, "and tried again");
    }

    #[test]
    fn half_of_the_delay_is_not_left_standing() {
        let mut bench = Bench::new();
        let rates: [f64; 5] = std::array::from_fn(|_| bench.step(&seen(9.9, 9.8, 30)));
        assert_eq!(rates, [10.0, 10.0, 10.0, 10.0, 8.82]);
    }

    #[test]
    fn delays_that_little_traffic_did_not_cause_do_not_take_the_rate() {
        let mut bench = Bench::new();
        for _ in 0..50 {
            assert_eq!(bench.step(&seen(1.4, 1.4, 200)), 10.0, "less than three quarters of the least rate");
        }
        let mut bench = Bench::new();
        assert_eq!(bench.step(&seen(5.0, 5.0, 200)), 10.0, "a radio was late");
        assert_eq!(bench.step(&seen(5.0, 5.0, 200)), 10.0);
        assert_eq!(bench.step(&seen(5.0, 5.0, 12)), 10.0);
        bench.step(&seen(5.0, 5.0, 200));
        bench.step(&seen(5.0, 5.0, 200));
        assert!(bench.step(&seen(5.0, 5.0, 200)) < 5.0, "and this is a queue");
    }

    #[test]
    fn it_never_leaves_its_bounds_and_goes_back_to_the_configured_rate_without_load() {
        let mut bench = Bench::new();
        let silent = Interval { delivered: None, delay: None, ..seen(5.0, 0.0, 0) };
        for _ in 0..40 {
            let overdue = Some(Duration::from_secs(2));
            bench.step(&Interval { overdue, ..silent });
        }
        assert_eq!(bench.0.rate(), mbps(5.0), "half, and no less for want of an answer");
        assert_eq!(bench.step(&seen(5.0, 1.0, 500)), 2.0);
        let idle = Interval { sent: Rate::ZERO, ..silent };
        assert_eq!(bench.step(&idle), 2.4, "a twentieth of the way");
        for _ in 0..200 {
            bench.step(&idle);
        }
        assert!((bench.0.rate().as_bps_f64() / 10e6 - 1.0).abs() < 0.01, "{}", bench.0.rate());
    }
}
