//! The tests of `weir-lab` that need real links, in one program, which links once.

mod access;
mod follow;
mod follow_users;
mod mobile;
mod passive;
#[path = "../skipped/mod.rs"]
mod skipped;
mod testbed;
