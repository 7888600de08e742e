//! The tests of `weir-tcp`, in one program, which links once.

mod bbr;
mod bbr3;
mod below_one;
mod habits;
#[path = "../link/mod.rs"]
mod link;
mod newreno;
mod properties;
mod recovery;
mod reordering;
mod response;
mod textbook;
