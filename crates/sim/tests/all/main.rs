//! The tests of `weir-sim`, in one program, which links once.

#[path = "../common/mod.rs"]
mod common;
mod capture;
mod determinism;
mod disciplines;
mod flows;
mod physics;
mod sensing;
mod sharing;
mod upstream;
