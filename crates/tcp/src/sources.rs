//! What generates traffic: applications on top of a [`Sender`](crate::Sender), and sources without transport.
//!
//! All are state machines that name the next time at which they want to be called. Dice are an argument: a
//! function that returns 64 random bits, so that the host decides which generator is used and seeds it.

mod datagram;
mod gaps;
mod page;
mod realtime;
mod video;
mod web;

pub use datagram::{Datagram, DatagramConfig, OnOff, Spacing};
pub use page::{Page, PageConfig, PageObjects};
pub use realtime::{Fate, Realtime, RealtimeConfig, Scream, ScreamConfig, Told};
pub use video::{Shown, Video, VideoConfig};
pub use web::{Periodic, Web, WebConfig};

use weir_units::Duration;

/// A uniform number above 0 and up to 1, from 64 random bits.
pub fn uniform(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// An exponentially distributed duration.
pub fn exponential(mean: Duration, bits: u64) -> Duration {
    mean.mul_f64(-libm::log(uniform(bits)))
}

/// A bounded Pareto distribution: shape `alpha` above 0, values from `min` to `max`, 0 < min <= max.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Tail index; from 1 to 2 the tail is heavy.
    pub alpha: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Pareto {
    /// A value, from 64 random bits.
    pub fn draw(&self, bits: u64) -> f64 {
        let ratio = libm::pow(self.min / self.max, self.alpha);
        let x = self.min * libm::pow(1.0 - (1.0 - uniform(bits)) * (1.0 - ratio), -1.0 / self.alpha);
        x.clamp(self.min, self.max)
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let Pareto { alpha, min, max } = *self;
        let ratio = libm::pow(min / max, alpha);
        if (alpha - 1.0).abs() < 1e-9 {
            return min * libm::log(max / min) / (1.0 - ratio);
        }
        libm::pow(min, alpha) / (1.0 - ratio) * alpha / (alpha - 1.0)
            * (libm::pow(min, 1.0 - alpha) - libm::pow(max, 1.0 - alpha))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    #[test]
    fn draws_have_their_means() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let n = 200_000;
        let mean = Duration::from_millis(10);
        let sum: f64 = (0..n).map(|_| exponential(mean, rng.next_u64()).as_secs_f64()).sum();
        assert!((sum / f64::from(n) / 0.01 - 1.0).abs() < 0.01);
        let pareto = Pareto { alpha: 1.5, min: 1000.0, max: 1e6 };
        let draws: Vec<f64> = (0..n).map(|_| pareto.draw(rng.next_u64())).collect();
        assert!(draws.iter().all(|x| (1000.0..=1e6).contains(x)));
        let sum: f64 = draws.iter().sum();
        assert!((sum / f64::from(n) / pareto.mean() - 1.0).abs() < 0.03, "{} {}", sum / 2e5, pareto.mean());
    }

    #[test]
    fn the_extremes_of_the_dice_stay_in_bounds() {
        let pareto = Pareto { alpha: 1.2, min: 10.0, max: 20.0 };
        assert_eq!(uniform(u64::MAX), 1.0);
        assert!(uniform(0) > 0.0);
        assert!((10.0..=20.0).contains(&pareto.draw(0)) && (10.0..=20.0).contains(&pareto.draw(u64::MAX)));
        assert_eq!(exponential(Duration::from_secs(1), u64::MAX), Duration::ZERO);
    }
}
