//! The tests of `weir-lab` that need real links, in one program, which links once.

#[path = "../skipped/mod.rs"]
mod skipped;
mod access;
mod follow;
mod follow_users;
mod mobile;
mod passive;
mod testbed;
