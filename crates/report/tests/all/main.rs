//! The tests of `weir-report`, in one program, which links once.

#[path = "../common/mod.rs"]
mod common;
mod escaping;
mod files;
mod golden;
