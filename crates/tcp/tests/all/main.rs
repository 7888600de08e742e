//! The tests of `weir-tcp`, in one program, which links once.

#[path = "../link/mod.rs"]
mod link;
mod bbr;
mod below_one;
mod habits;
mod properties;
mod recovery;
mod response;
mod textbook;
