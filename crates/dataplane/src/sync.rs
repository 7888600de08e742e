//! What threads share memory by. A proof that tries all interleavings puts its own in this place.

pub use std::sync::Arc;
pub use std::sync::atomic;
