//! The algorithm of a crate outside of this repository.

include!(concat!(env!("OUT_DIR"), "/outside.rs"));

pub use author::Outside;
