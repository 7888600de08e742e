//! What a packet loop and the programs in the kernel share of its life: when it last turned, and what passed
//! it by.
//!
//! The loop alone writes the beat, any processor in the kernel reads it, and any counts what it forwards.
//! Each word is for itself, so no order between them is needed; `test/proofs` tries every interleaving.

use crate::sync::atomic::{AtomicU64, Ordering};
use weir_units::{Duration, Time};

/// The first words of `struct control` in `port.bpf.c`.
#[repr(C)]
#[derive(Debug)]
pub struct Heart {
    /// The monotonic clock at the last turn; zero for a loop that has ended.
    pub beat_ns: AtomicU64,
    /// Age at which a beat is stale.
    pub after_ns: AtomicU64,
    /// Frames that the kernel forwarded.
    pub bypassed: AtomicU64,
}

impl Heart {
    /// For how long a beat is fresh, to be told before the programs are attached.
    pub fn set_after(&self, after: Duration) {
        self.after_ns.store(after.as_nanos(), Ordering::Relaxed);
    }

    /// The loop lives.
    pub fn beat(&self, now: Time) {
        self.beat_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The loop has ended: from now on the kernel forwards.
    pub fn stop(&self) {
        self.beat_ns.store(0, Ordering::Relaxed);
    }

    /// Frames the kernel forwarded past the loop.
    pub fn bypassed(&self) -> u64 {
        self.bypassed.load(Ordering::Relaxed)
    }
}
