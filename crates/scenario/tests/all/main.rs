//! The tests of `weir-scenario`, in one program, which links once.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod forms;
mod networks;
mod queues;
mod random;
