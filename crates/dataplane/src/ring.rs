//! Indices of a ring that two sides share: who may read an entry, and who may write it.
//!
//! The entries between what was consumed and what was produced are the consumer's; the others are the
//! producer's. An entry is handed over by the index behind it, so that whoever sees the index sees the entry.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Entries that the other side has produced, for a consumer that has taken all before `at`.
#[inline]
pub fn available(produced: &AtomicU32, at: u32) -> u32 {
    produced.load(Ordering::Acquire).wrapping_sub(at)
}

/// Entries that the other side has not consumed, for a producer that has written all before `at`.
#[inline]
pub fn pending(consumed: &AtomicU32, at: u32) -> u32 {
    at.wrapping_sub(consumed.load(Ordering::Acquire))
}

/// Hands over all entries before `at`.
#[inline]
pub fn hand_over(index: &AtomicU32, at: u32) {
    index.store(at, Ordering::Release);
}
