//! What packet loop and other threads share, compiled over loom's atomics: each test runs every interleaving
//! of its threads, with every value that the memory model allows a read to see. The files are those of the
//! dataplane.

#![cfg(not(test))] // `cargo test --lib` would run the unit tests of the files here too, which are those of the dataplane.

/// As in the dataplane, with atomics whose every interleaving is tried.
mod sync {
    pub use loom::sync::{Arc, atomic};
}

/// The host's clock; proofs name their times.
mod clock {
    /// Zero.
    pub fn clock() -> weir_units::Time {
        weir_units::Time::ZERO
    }
}

#[path = "../../../crates/dataplane/src/heart.rs"]
pub mod heart;
#[path = "../../../crates/dataplane/src/link_clock.rs"]
pub mod link_clock;
#[path = "../../../crates/dataplane/src/mailbox.rs"]
pub mod mailbox;
#[path = "../../../crates/dataplane/src/ring.rs"]
pub mod ring;
