//! Many runs of one scenario: which ones, what was found of them, and the tables they make.

pub mod chart;
pub mod fingerprint;
pub mod rows;
pub mod store;
