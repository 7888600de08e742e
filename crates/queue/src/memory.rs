//! Memory as the processor sees it: lines that are asked for before they are needed, and large pages.
//!
//! With thousands of flows or users most of their state is in no cache. Neither changes anything but the time
//! that it takes to reach it. All `unsafe` code of this crate is here.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Most lines of a value that [`soon`] asks for.
const LINES: usize = 6;
const LINE_BYTES: usize = 64;
/// A large page of the processors that have any.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for the beginning of a value; changes nothing but the time that it takes to reach it.
#[inline(always)]
pub fn soon<T>(value: &T) {
    lines_soon(value, LINES);
}

/// The same of at most so many lines.
#[inline(always)]
pub fn lines_soon<T>(value: &T, most: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for line in 0..most.min(size_of::<T>().div_ceil(LINE_BYTES)) {
            // SAFETY: a prefetch reads nothing that a program could see and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line * LINE_BYTES)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, most);
}

/// An array in large pages, as far as it fills any and the system has them: of small ones, a large array
/// needs more than the processor can remember the places of.
pub fn array<T>(items: impl ExactSizeIterator<Item = T>) -> Box<[T]> {
    let mut array = Vec::with_capacity(items.len());
    prefer_large_pages(array.spare_capacity_mut());
    array.extend(items);
    array.into()
}

#[cfg(target_os = "linux")]
fn prefer_large_pages<T>(room: &mut [MaybeUninit<T>]) {
    let (bytes, start) = (size_of_val(room), room.as_mut_ptr().cast::<u8>());
    let skipped = start.align_offset(LARGE_PAGE_BYTES);
    let whole = bytes.saturating_sub(skipped) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if whole > 0 {
        // SAFETY: whole pages of memory that the caller alone has, and an advice that leaves its contents as
        // they are. Where the system refuses, pages stay small.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_holds_what_it_is_made_of_and_nothing_more_whatever_its_size() {
        for count in [0u32, 1, 100, 300_000, 1_000_000] {
            let array = array(0..count);
            array.iter().step_by(1000).for_each(soon);
            assert_eq!(array.len(), count as usize);
            assert!((0..count).eq(array.iter().copied()));
        }
    }
}
