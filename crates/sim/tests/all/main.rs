//! The tests of `weir-sim`, in one program, which links once.

mod applications;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod customers;
mod determinism;
mod disciplines;
mod disorder;
mod flows;
mod handshake;
mod media;
mod networks;
mod physics;
mod polling;
mod receive_window;
mod sensing;
mod sharing;
mod upstream;
