//! The tests of `weir-cli`, in one program, which links once.

mod characterize;
mod figures;
mod full_disk;
#[path = "../program/mod.rs"]
mod program;
mod refusals;
mod reproduce_asqm;
mod reproduce_avq;
mod reproduce_sim;
mod reproduce_vaqm;
mod sim;
#[path = "../../../lab/tests/skipped/mod.rs"]
mod skipping;
mod sweep;
mod tools;
#[cfg(unix)]
mod tune;
