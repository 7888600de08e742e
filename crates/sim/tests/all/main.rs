//! The tests of `weir-sim`, in one program, which links once.

mod applications;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod disciplines;
mod flows;
mod handshake;
mod networks;
mod physics;
mod polling;
mod sensing;
mod sharing;
mod upstream;
