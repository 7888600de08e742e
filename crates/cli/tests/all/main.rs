//! The tests of `weir-cli`, in one program, which links once.

#[path = "../program/mod.rs"]
mod program;
#[path = "../../../lab/tests/skipped/mod.rs"]
mod skipping;
mod characterize;
mod figures;
mod full_disk;
mod refusals;
mod reproduce_asqm;
mod reproduce_avq;
mod reproduce_sim;
mod reproduce_vaqm;
mod sim;
mod sweep;
mod tools;
