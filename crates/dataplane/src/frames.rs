//! The memory that frames live in: one region of equal chunks, shared by both ports.

use crate::Error;
use std::ptr::NonNull;
use weir_queue::{Hosts, memory};
use weir_units::Bytes;
use weir_wire::transport::Transport;

/// A frame in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Offset of its first byte in the arena.
    pub addr: u64,
    /// Its length in bytes, without the frame check sequence.
    pub len: u32,
}

/// What is kept of a frame for those who observe flows, from the moment it came in, so that nothing is read
/// twice.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// What its transport shows; `None` where the frame has none, or where it cannot be read.
    pub transport: Option<Transport>,
    /// Source and destination port; zero where the transport has none.
    pub ports: (u16, u16),
    /// Hash of its flow.
    pub flow: u32,
    /// Whose flow it is.
    pub hosts: Hosts,
    /// Its size by the link's byte accounting.
    pub len: Bytes,
}

impl Note {
    const NONE: Note =
        Note { transport: None, ports: (0, 0), flow: 0, hosts: Hosts::UNKNOWN, len: Bytes::ZERO };
}

/// Frame memory and the list of free chunks. Allocated once, locked by AF_XDP.
pub struct Arena {
    base: NonNull<u8>,
    chunk: u32,
    count: u32,
    /// In bytes.
    size: usize,
    free: Vec<u32>,
    /// Receive queues that chunks are lent to.
    borrowers: u32,
    /// One for each chunk; none where nobody observes.
    notes: Box<[Note]>,
}

// SAFETY: the region belongs to this value alone; the kernel writes only to chunks lent to it.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for `count` frames of at most `chunk` bytes (a power of two) with their headroom.
    pub fn new(chunk: u32, count: u32) -> Result<Arena, Error> {
        assert!(chunk.is_power_of_two(), "chunks are powers of two");
        let size = chunk as usize * count as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(Error::os(format!("cannot allocate {} MiB for frames", size >> 20)));
        }
        // A fork copies pages that the kernel has pinned at once, all of them: children are not to have it.
        // SAFETY: the region was just mapped with this size.
        unsafe { libc::madvise(base, size, libc::MADV_DONTFORK) };
        let base = NonNull::new(base.cast()).expect("a successful mmap is not null");
        let free = (0..count).rev().collect();
        Ok(Arena { base, chunk, count, size, free, borrowers: 0, notes: Box::default() })
    }

    /// Makes room for notes, for those who observe; returns its size in bytes.
    pub fn keep_notes(&mut self) -> usize {
        self.notes = vec![Note::NONE; self.count as usize].into();
        size_of_val(&*self.notes)
    }

    /// The note of a frame. Asking where no notes are kept is a broken invariant and panics.
    pub fn note(&mut self, frame: Frame) -> &mut Note {
        &mut self.notes[(frame.addr / u64::from(self.chunk)) as usize]
    }

    /// Address of the region in this process.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size of a chunk in bytes.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Size of the region in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// One more receive queue borrows chunks.
    pub(crate) fn add_borrower(&mut self) {
        self.borrowers += 1;
    }

    /// One less does.
    pub(crate) fn remove_borrower(&mut self) {
        self.borrowers = self.borrowers.saturating_sub(1);
    }

    /// How many chunks one receive queue may borrow now, so that the others find some, too.
    pub(crate) fn share(&self) -> u32 {
        self.free.len() as u32 / self.borrowers.max(1)
    }

    /// Takes a free chunk; its offset in the arena.
    pub fn take(&mut self) -> Option<u64> {
        self.free.pop().map(|index| u64::from(index) * u64::from(self.chunk))
    }

    /// Gives back the chunk that `addr` lies in.
    pub fn give(&mut self, addr: u64) {
        let index = (addr / u64::from(self.chunk)) as u32;
        debug_assert!(index < self.count && self.free.len() < self.count as usize);
        self.free.push(index);
    }

    /// Asks for the beginning of a frame, which is read soon.
    pub fn expect(&mut self, frame: Frame) {
        if let Some(first) = self.bytes(frame).first() {
            memory::lines_soon(first, 1);
        }
    }

    /// The bytes of a frame. A descriptor that leaves the arena is a broken invariant and panics.
    pub fn bytes(&mut self, frame: Frame) -> &mut [u8] {
        let (start, len) = (frame.addr as usize, frame.len as usize);
        assert!(start + len <= self.size(), "a frame lies outside of the arena");
        // SAFETY: in bounds by the check above; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(start), len) }
    }

    /// The same to look at only, of several frames at once.
    pub fn look(&self, frame: Frame) -> &[u8] {
        let (start, len) = (frame.addr as usize, frame.len as usize);
        assert!(start + len <= self.size(), "a frame lies outside of the arena");
        // SAFETY: in bounds by the check above; `&self` keeps everybody from writing.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), len) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the region was mapped in `new` with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size()) };
    }
}
