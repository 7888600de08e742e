//! The tests of `weir-steer`, in one program, which links once.

mod closed_loop;
#[path = "../common/mod.rs"]
mod common;
mod lockstep;
mod many;
mod properties;
#[path = "../reference/mod.rs"]
mod reference;
