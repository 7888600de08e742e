//! Asking for memory before it is needed: with thousands of flows most of their state is not in the cache.

/// Most lines of a value that are asked for.
const LINES: usize = 6;
const LINE_BYTES: usize = 64;

/// Asks for the beginning of a value; changes nothing but the time that it takes to reach it.
#[inline(always)]
pub fn soon<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for line in 0..LINES.min(size_of::<T>().div_ceil(LINE_BYTES)) {
            // SAFETY: a prefetch reads nothing that a program could see and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line * LINE_BYTES)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
