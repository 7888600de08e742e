//! How much memory a simulation holds: an allocator that counts.

use crate::error::{Error, Result};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use weir_config::Scenario;
use weir_units::{Duration, Time};

/// The allocator of this program. Nothing that is measured allocates per packet, so counting costs nothing
/// there.
pub struct Counting;

static HELD: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Makes something, and tells how many bytes it holds.
pub fn allocated_by<R>(make: impl FnOnce() -> R) -> (R, u64) {
    let before = HELD.load(Relaxed);
    let made = make();
    (made, HELD.load(Relaxed) - before)
}

/// When flows that have little to send have sent it.
const CALM: Duration = Duration::from_millis(9_999);

/// Bytes that the simulation of a scenario holds when its flows are idle.
pub fn held_by(text: &str) -> Result<u64> {
    let scenario = Scenario::parse("bench", text).map_err(|e| Error::new(e.to_string()))?;
    let before = HELD.load(Relaxed);
    let mut simulation = weir_sim::build(&scenario, 1, ())?;
    simulation.run_until(Time::ZERO + CALM);
    Ok(HELD.load(Relaxed) - before)
}
