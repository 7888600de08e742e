//! The folder of a sweep.

pub mod store;
