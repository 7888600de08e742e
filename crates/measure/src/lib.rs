//! What is measured of a run, the same in every arm: distributions, samples, settled phases, results.
//!
//! The [`Summary`](result::Summary) is JSON, the samples are tables; fields carry their unit in their name.
//!
//! ```
//! use weir_measure::Distribution;
//! use weir_units::Duration;
//!
//! let mut delays = Distribution::default();
//! (1..=100).for_each(|ms| delays.record(Duration::from_millis(ms)));
//! assert!((delays.spread_ms().p95 - 95.0).abs() < 0.1);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod applications;
mod confidence;
mod distribution;
mod emodel;
mod fairness;
mod frames;
mod moves;
mod order;
mod outcome;
mod phases;
mod player;
pub mod responsiveness;
pub mod result;
mod sampler;
mod streams;
pub mod study;

pub use confidence::{Truncation, bootstrap_median, bootstrap_quantile, mser};
pub use distribution::{Distribution, Octaves, Quantiles, Sojourns, Window};
pub use emodel::{Speech, mos, rating};
pub use fairness::jain;
pub use frames::Frames;
pub use order::{median, quantile, spread};
pub use outcome::Requirements;
pub use phases::{CapacityBetween, Phases, Settled, utilization};
pub use player::Played;
pub use sampler::{Sampler, Status};
pub use streams::{Judged, Pool, Received, Shown, Stream};
