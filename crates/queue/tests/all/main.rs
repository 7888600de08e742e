//! The tests of `weir-queue`, in one program, which links once.

mod choke;
#[path = "../common/mod.rs"]
mod common;
mod conservation;
mod dual_pi2;
mod flow_queue;
mod paces;
mod plans;
