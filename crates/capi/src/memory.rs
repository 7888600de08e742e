//! Memory of the caller: what a call allocates lies in a region that the caller gave.
//!
//! The disciplines allocate when they are made and never while packets pass. The allocator of this library
//! looks whether the thread is within a call on a queue in a region ([`within`]) and serves it from there,
//! one piece after the other; nothing of a region is used twice, as a queue gives nothing back before its
//! end. What does not fit comes from the system, and is counted, so that whoever makes the queue knows that
//! the region is too small. Outside of such calls this is the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

/// Every region starts at a multiple of this.
pub const ALIGN: usize = 64;

/// A region, or the count of what one would have to hold.
#[derive(Debug)]
pub struct Region {
    start: usize,
    len: usize,
    /// Bytes asked for so far, also those that did not fit.
    used: usize,
}

impl Region {
    /// `len` bytes at `start`, which is a multiple of [`ALIGN`].
    pub fn new(start: *mut u8, len: usize) -> Region {
        Region { start: start as usize, len, used: 0 }
    }

    /// Holds nothing and counts.
    pub fn counting() -> Region {
        Region { start: 0, len: 0, used: 0 }
    }

    /// Bytes asked for so far.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether all that was asked for is in it.
    pub fn fits(&self) -> bool {
        self.used <= self.len
    }

    fn has(&self, p: *mut u8) -> bool {
        (p as usize).wrapping_sub(self.start) < self.len
    }

    /// The place of the next piece; the same whether the region is real or counts.
    fn take(&mut self, layout: Layout) -> Option<*mut u8> {
        // Beyond the alignment of regions the place depends on the region: room for the worst.
        let slack = if layout.align() > ALIGN { layout.align() } else { 0 };
        let from = self.used.checked_next_multiple_of(layout.align().min(ALIGN))?;
        let until = from.checked_add(layout.size())?.checked_add(slack)?;
        self.used = until;
        let at = (self.start + from).next_multiple_of(layout.align());
        // The region is the caller's, and its address was given as a pointer to it.
        (until <= self.len).then(|| ptr::with_exposed_provenance_mut(at))
    }
}

thread_local! {
    /// The region of the call that this thread is in; null outside of calls.
    static CURRENT: Cell<*mut Region> = const { Cell::new(ptr::null_mut()) };
}

/// Ends the use of a region, also when a call panics.
struct Leave(*mut Region);

impl Drop for Leave {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}

/// Does something whose allocations lie in the region.
pub fn within<T>(region: *mut Region, call: impl FnOnce() -> T) -> T {
    let _leave = Leave(CURRENT.with(|current| current.replace(region)));
    call()
}

/// The allocator of the library.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The region of the call, if there is one. What a panic allocates may stay after it.
fn region<'a>() -> Option<&'a mut Region> {
    let region = CURRENT.with(Cell::get);
    if region.is_null() || std::thread::panicking() {
        return None;
    }
    // SAFETY: `within` has it for as long as the call takes, and only this thread and only the allocator,
    // which does not call itself, uses it in that time.
    Some(unsafe { &mut *region })
}

// SAFETY: pieces of a region do not overlap, as `used` only grows, and are aligned; the rest is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match region().and_then(|region| region.take(layout)) {
            Some(place) => place,
            // SAFETY: as the caller promises.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let current = CURRENT.with(Cell::get);
        // SAFETY: as in `region`.
        if current.is_null() || !unsafe { &*current }.has(p) {
            // SAFETY: it does not come from a region: those are left only within calls on their queue.
            unsafe { System.dealloc(p, layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match region().and_then(|region| region.take(layout)) {
            Some(place) => {
                // SAFETY: the piece is as long as the layout says.
                unsafe { place.write_bytes(0, layout.size()) };
                place
            }
            // SAFETY: as the caller promises.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if CURRENT.with(Cell::get).is_null() {
            // SAFETY: as in `dealloc`.
            return unsafe { System.realloc(p, layout, size) };
        }
        // SAFETY: the caller promises that `size` with this alignment is a layout, and what it says of `p`;
        // the new piece does not overlap the old one.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(p, layout.size().min(size));
                self.dealloc(p, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_a_region_needs_and_one_byte_less_is_too_little() {
        let make = || (vec![1u8; 1000], vec![2u64; 77], Box::new([0u8; 3]));
        let mut counting = Region::counting();
        drop(within(&raw mut counting, make));
        let mut memory = vec![[0u64; 8]; counting.used().div_ceil(64) + 2];
        let start = memory.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(ALIGN));
        start.expose_provenance();
        for (len, fits) in [(counting.used(), true), (counting.used() - 1, false)] {
            let mut region = Region::new(start, len);
            let made = within(&raw mut region, make);
            assert_eq!((region.fits(), region.used()), (fits, counting.used()));
            assert!(region.has(made.0.as_ptr().cast_mut()) && made.0.iter().all(|b| *b == 1));
            within(&raw mut region, || drop(made));
        }
    }

    #[test]
    fn a_panic_leaves_the_region() {
        let mut region = Region::counting();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            within(&raw mut region, || panic!("of a test"));
        }));
        assert!(CURRENT.with(Cell::get).is_null());
    }
}
