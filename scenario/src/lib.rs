//! What an experiment is (a TOML file) and what it yields (results), the same for every arm.
#![forbid(unsafe_code)]

pub mod result;
