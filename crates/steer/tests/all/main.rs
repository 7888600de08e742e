//! The tests of `weir-steer`, in one program, which links once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../reference/mod.rs"]
mod reference;
mod closed_loop;
mod lockstep;
mod many;
mod properties;
