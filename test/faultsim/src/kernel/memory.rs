//! Memory that the process maps.

use super::{Kernel, Object, error};
use crate::calls::{map_of_machine, unmap_of_machine};
use libc::{c_int, c_void, size_t};

/// Memory of the machine, which is filled with zeros when it is touched first.
pub fn anonymous(len: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address of the machine's choice touches no memory of ours.
    let at = unsafe {
        map_of_machine(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert!(at != libc::MAP_FAILED, "the machine has {len} bytes");
    // SAFETY: the mapping was just made. Where it is refused, pages are small and the run the same.
    unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
    at.cast()
}

impl Kernel {
    pub(crate) fn map(
        &mut self,
        at: *mut c_void,
        len: size_t,
        flags: c_int,
        fd: c_int,
        offset: libc::off_t,
    ) -> Option<i64> {
        if fd >= 0 && self.place(fd).is_none() {
            return None;
        }
        if let Err(result) = self.step() {
            return result;
        }
        if flags & libc::MAP_FIXED != 0 {
            // An image of a map's contents: it stays where it is.
            return Some(at as i64);
        }
        if let Some(number) = self.armed.map.take_one() {
            self.met.count(crate::faults::Kind::OpenErrno);
            return error(number);
        }
        let memory = match self.object(fd) {
            None => anonymous(len),
            Some(Object::Map(map)) => return Some(map.borrow().page() as i64),
            Some(Object::Xsk(socket)) => {
                let memory = anonymous(len);
                socket.borrow_mut().map_ring(offset as u64, memory);
                memory
            }
            Some(Object::Packet(socket)) => {
                let memory = anonymous(len);
                socket.borrow_mut().map_rings(memory);
                memory
            }
            Some(_) => return error(libc::ENODEV),
        };
        self.mapped += len as u64;
        self.mapped_max = self.mapped_max.max(self.mapped);
        Some(memory as i64)
    }

    pub(crate) fn unmap(&mut self, at: *mut c_void, len: size_t) -> Option<i64> {
        // Also of a process that is dead, whose memory is the machine's.
        if self.pages.iter().any(|page| page.at() == at.cast()) {
            return Some(0);
        }
        for entry in self.descriptors.iter().flatten() {
            match &entry.object {
                Object::Xsk(socket) => socket.borrow_mut().unmap_ring(at.cast()),
                Object::Packet(socket) => socket.borrow_mut().unmap_rings(at.cast()),
                _ => {}
            }
        }
        self.mapped = self.mapped.saturating_sub(len as u64);
        // SAFETY: the process gives back what it mapped, and no socket refers to it any more.
        unsafe { unmap_of_machine(at, len) };
        Some(0)
    }
}
