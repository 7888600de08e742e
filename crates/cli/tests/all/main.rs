//! The tests of `weir-cli`, in one program, which links once.

mod characterize;
#[cfg(feature = "live")]
mod compare_ns3;
mod export;
mod figures;
mod full_disk;
#[cfg(feature = "live")]
mod package;
mod pages;
mod plot;
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
mod studies;
mod sweep;
mod tools;
#[cfg(unix)]
mod tune;
