//! The tests of `weir-config`, in one program, which links once.

mod applications;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod forms;
mod networks;
mod queues;
mod random;
mod remarks;
