//! What packets tell of a path.
//!
//! Sans-IO: times and packets are arguments, estimates are values. No clock, no allocation, no dice, so that
//! the simulator and the live link sense with the same code.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod probe;
mod srtt;
mod windowed;

pub use srtt::Srtt;
pub use windowed::{WindowedMax, WindowedMin};
