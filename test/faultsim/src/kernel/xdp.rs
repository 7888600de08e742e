//! AF_XDP sockets as the kernel sees them.

use super::{Kernel, error, given};
use crate::faults::Kind;
use libc::{c_int, c_void, socklen_t};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most entries of a ring here.
pub const RING_MAX: u32 = 1 << 16;
/// Room that the kernel keeps in front of each frame.
const PACKET_HEADROOM: u64 = 256;
const STAMP_MAGIC: u64 = 0x5765_6972_5374_6d70;
/// Where indices, flags and entries lie in a ring's memory.
const PRODUCER: usize = 0;
const CONSUMER: usize = 64;
const FLAGS: usize = 128;
const ENTRIES: usize = 192;
/// Frames that are sent in one call unless the process says otherwise.
const COPY_BUDGET: u32 = 32;
/// Buffers that a driver without copies has in its own ring.
const DRIVER_RING: usize = 256;
/// After so many frames a driver without copies asks to be woken, whether or not it needs buffers.
const ASKS_EVERY: u32 = 32;
const OPTION_TX_BUDGET: c_int = 9;

/// A ring as the kernel sees it.
#[derive(Clone, Copy)]
struct Ring {
    memory: *mut u8,
    size: u32,
    /// Our own index.
    at: u32,
    /// How far the other side's entries were looked at.
    seen: u32,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { memory: std::ptr::null_mut(), size: 0, at: 0, seen: 0 }
    }
}

impl Ring {
    fn is_there(&self) -> bool {
        !self.memory.is_null() && self.size > 0
    }

    fn index(&self, place: usize) -> &AtomicU32 {
        // SAFETY: the memory is mapped while the ring is there, and indices lie at its beginning.
        unsafe { &*self.memory.add(place).cast::<AtomicU32>() }
    }

    fn place(&self, n: u32, size: usize) -> *mut u8 {
        // SAFETY: masked to the ring's size.
        unsafe { self.memory.add(ENTRIES + (n & (self.size - 1)) as usize * size) }
    }

    /// Entries of the process that were not taken.
    fn filled(&self) -> u32 {
        self.index(PRODUCER).load(Ordering::Acquire).wrapping_sub(self.at)
    }

    /// Entries of ours that the process did not take.
    fn untaken(&self) -> u32 {
        self.at.wrapping_sub(self.index(CONSUMER).load(Ordering::Acquire))
    }

    fn take_address(&mut self) -> Option<u64> {
        if self.filled() == 0 {
            return None;
        }
        // SAFETY: an entry of this ring, which the process has written.
        let address = unsafe { self.place(self.at, 8).cast::<u64>().read() };
        self.at = self.at.wrapping_add(1);
        self.index(CONSUMER).store(self.at, Ordering::Release);
        Some(address)
    }

    fn put_address(&mut self, address: u64) -> bool {
        if self.untaken() >= self.size {
            return false;
        }
        // SAFETY: an entry of this ring, which the process has taken.
        unsafe { self.place(self.at, 8).cast::<u64>().write(address) };
        self.at = self.at.wrapping_add(1);
        self.index(PRODUCER).store(self.at, Ordering::Release);
        true
    }
}

/// Memory for frames, registered with the first socket.
struct Umem {
    base: *mut u8,
    chunk: u64,
    headroom: u64,
    /// Whether the kernel has a chunk.
    is_kernels: Vec<bool>,
    violations: Vec<String>,
}

impl Umem {
    fn number(&mut self, address: u64, of: &str) -> Option<usize> {
        let number = (address / self.chunk) as usize;
        if number >= self.is_kernels.len() {
            self.violations
                .push(format!("address {address:#x} in the {of} ring lies outside of the frame memory"));
            return None;
        }
        Some(number)
    }

    /// The process hands a chunk over.
    fn get(&mut self, address: u64, of: &str) {
        let Some(number) = self.number(address, of) else { return };
        if std::mem::replace(&mut self.is_kernels[number], true) {
            self.violations.push(format!("chunk {number} is handed over twice, now in the {of} ring"));
        }
    }

    /// The kernel gives a chunk back.
    fn give(&mut self, address: u64) {
        let number = (address / self.chunk) as usize;
        if let Some(is_kernels) = self.is_kernels.get_mut(number) {
            *is_kernels = false;
        }
    }
}

/// A socket of one receive queue.
#[derive(Default)]
pub struct Xsk {
    umem: Option<Rc<RefCell<Umem>>>,
    rx: Ring,
    tx: Ring,
    fill: Ring,
    completion: Ring,
    /// Which interface it is bound to.
    pub port: Option<usize>,
    /// And which receive queue.
    pub queue: u32,
    is_zero_copy: bool,
    budget: u32,
    /// Chunks that were taken from the fill ring and not used.
    spare: Vec<u64>,
    /// A driver's own ring, where there are no copies.
    driver: VecDeque<u64>,
    /// Buffers that it had when it was bound.
    buffers_at_bind: usize,
    /// Sent, and not told yet.
    uncompleted: VecDeque<u64>,
    /// Frames that the kernel dropped, that found the receive ring full, and looks into an empty fill ring.
    dropped: u64,
    ring_full: u64,
    fill_empty: u64,
    received: u32,
}

/// Where a frame that came in was lost.
pub enum Lost {
    /// The socket's counters tell it.
    Counted,
    /// The driver's own counters do.
    InDriver,
}

impl Xsk {
    /// # Safety
    /// The pointer must be to what the option takes.
    pub(super) unsafe fn set_option(&mut self, name: c_int, value: *const c_void) -> Option<i64> {
        // SAFETY: as the caller promises.
        unsafe {
            match name {
                libc::XDP_UMEM_REG => {
                    let region: libc::xdp_umem_reg = given(value);
                    let chunk = u64::from(region.chunk_size);
                    self.umem = Some(Rc::new(RefCell::new(Umem {
                        base: region.addr as *mut u8,
                        chunk,
                        headroom: PACKET_HEADROOM + u64::from(region.headroom),
                        is_kernels: vec![false; (region.len / chunk) as usize],
                        violations: Vec::new(),
                    })));
                }
                libc::XDP_RX_RING => self.rx.size = given(value),
                libc::XDP_TX_RING => self.tx.size = given(value),
                libc::XDP_UMEM_FILL_RING => self.fill.size = given(value),
                libc::XDP_UMEM_COMPLETION_RING => self.completion.size = given(value),
                OPTION_TX_BUDGET => self.budget = given(value),
                _ => return error(libc::ENOPROTOOPT),
            }
        }
        Some(0)
    }

    /// # Safety
    /// The pointers must be to a place and its length.
    pub(super) unsafe fn option(&self, name: c_int, value: *mut c_void, len: *mut socklen_t) -> Option<i64> {
        // SAFETY: as the caller promises; the library's structs are plain numbers.
        unsafe {
            match name {
                libc::XDP_MMAP_OFFSETS => {
                    let one = libc::xdp_ring_offset {
                        producer: PRODUCER as u64,
                        consumer: CONSUMER as u64,
                        desc: ENTRIES as u64,
                        flags: FLAGS as u64,
                    };
                    let mut all: libc::xdp_mmap_offsets = std::mem::zeroed();
                    (all.rx, all.tx, all.fr, all.cr) = (one, one, one, one);
                    value.cast::<libc::xdp_mmap_offsets>().write_unaligned(all);
                    *len = size_of::<libc::xdp_mmap_offsets>() as socklen_t;
                }
                libc::XDP_STATISTICS => {
                    let mut all: libc::xdp_statistics = std::mem::zeroed();
                    (all.rx_dropped, all.rx_ring_full) = (self.dropped, self.ring_full);
                    all.rx_fill_ring_empty_descs = self.fill_empty;
                    value.cast::<libc::xdp_statistics>().write_unaligned(all);
                    *len = size_of::<libc::xdp_statistics>() as socklen_t;
                }
                libc::XDP_OPTIONS => value.cast::<u32>().write_unaligned(u32::from(self.is_zero_copy)),
                _ => return error(libc::ENOPROTOOPT),
            }
        }
        Some(0)
    }

    pub(super) fn map_ring(&mut self, offset: u64, memory: *mut u8) {
        const TX: u64 = libc::XDP_PGOFF_TX_RING as u64;
        let ring = match offset {
            libc::XDP_UMEM_PGOFF_FILL_RING => &mut self.fill,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING => &mut self.completion,
            TX => &mut self.tx,
            _ => &mut self.rx,
        };
        ring.memory = memory;
    }

    pub(super) fn unmap_ring(&mut self, at: *mut u8) {
        for ring in [&mut self.rx, &mut self.tx, &mut self.fill, &mut self.completion] {
            if ring.memory == at {
                ring.memory = std::ptr::null_mut();
            }
        }
        let base = self.umem.as_ref().map(|umem| umem.borrow().base);
        if base == Some(at) {
            self.umem = None;
        }
    }

    fn works(&self) -> bool {
        let rings = [&self.rx, &self.tx, &self.fill, &self.completion];
        self.umem.is_some() && self.port.is_some() && rings.iter().all(|ring| ring.is_there())
    }

    /// The process closes it, or dies; which port it was bound to.
    pub(super) fn close(&mut self) -> Option<usize> {
        for ring in [&mut self.rx, &mut self.tx, &mut self.fill, &mut self.completion] {
            ring.memory = std::ptr::null_mut();
        }
        self.umem = None;
        self.port.take()
    }

    /// Whether a call that waits for it wakes the driver first, as the kernel does.
    pub(super) fn poll_wakes(&self) -> bool {
        self.works() && (self.tx.filled() > 0 || (self.is_zero_copy && self.driver.is_empty()))
    }

    /// Whether there is something to take.
    pub fn has_received(&self) -> bool {
        self.rx.is_there() && self.rx.untaken() > 0
    }

    /// Looks at what the process has put into its rings since the last look: chunks are the kernel's from
    /// then on.
    fn look(&mut self) {
        let Some(umem) = &self.umem else { return };
        let mut umem = umem.borrow_mut();
        let produced = self.fill.index(PRODUCER).load(Ordering::Acquire);
        if produced.wrapping_sub(self.fill.at) > self.fill.size {
            umem.violations.push("the fill ring holds more than it has room for".into());
        }
        while self.fill.seen != produced {
            // SAFETY: an entry that the process has written.
            let address = unsafe { self.fill.place(self.fill.seen, 8).cast::<u64>().read() };
            umem.get(address, "fill");
            self.fill.seen = self.fill.seen.wrapping_add(1);
        }
        let produced = self.tx.index(PRODUCER).load(Ordering::Acquire);
        if produced.wrapping_sub(self.tx.at) > self.tx.size {
            umem.violations.push("the transmit ring holds more than it has room for".into());
        }
        while self.tx.seen != produced {
            // SAFETY: an entry that the process has written.
            let desc = unsafe { self.tx.place(self.tx.seen, 16).cast::<libc::xdp_desc>().read() };
            umem.get(desc.addr, "transmit");
            if desc.addr % umem.chunk + u64::from(desc.len) > umem.chunk {
                umem.violations
                    .push(format!("a frame of {} bytes at {:#x} leaves its chunk", desc.len, desc.addr));
            }
            self.tx.seen = self.tx.seen.wrapping_add(1);
        }
    }

    /// A driver without copies takes buffers, and asks to be woken where there are too few.
    fn refill_driver(&mut self) {
        while self.driver.len() < DRIVER_RING {
            let Some(address) = self.fill.take_address() else { break };
            self.driver.push_back(address);
        }
        let asks = self.driver.len() < DRIVER_RING / 2;
        self.fill.index(FLAGS).store(if asks { libc::XDP_RING_NEED_WAKEUP } else { 0 }, Ordering::Relaxed);
    }

    /// A frame comes in.
    pub(super) fn deliver(&mut self, frame: &[u8], now: u64) -> Result<(), Lost> {
        if !self.works() {
            self.dropped += 1;
            return Err(Lost::Counted);
        }
        self.look();
        let Some(umem) = self.umem.clone() else { return Err(Lost::InDriver) };
        let mut umem = umem.borrow_mut();
        if frame.len() as u64 > umem.chunk - umem.headroom {
            self.dropped += 1;
            return Err(Lost::Counted);
        }
        let buffer = if self.is_zero_copy {
            let Some(address) = self.driver.pop_front() else { return Err(Lost::InDriver) };
            address
        } else {
            match self.spare.pop().or_else(|| self.fill.take_address()) {
                Some(address) => address,
                None => {
                    self.dropped += 1;
                    self.fill_empty += 1;
                    return Err(Lost::Counted);
                }
            }
        };
        if self.rx.untaken() >= self.rx.size {
            self.ring_full += 1;
            self.spare.push(buffer);
            return Err(Lost::Counted);
        }
        let address = buffer / umem.chunk * umem.chunk + umem.headroom;
        // SAFETY: the frame fits in the chunk, which is the kernel's, and which lies in the registered
        // memory.
        unsafe {
            let to = umem.base.add(address as usize);
            to.sub(16).cast::<u64>().write_unaligned(STAMP_MAGIC);
            to.sub(8).cast::<u64>().write_unaligned(now);
            std::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len());
            let entry = libc::xdp_desc { addr: address, len: frame.len() as u32, options: 0 };
            self.rx.place(self.rx.at, 16).cast::<libc::xdp_desc>().write(entry);
        }
        self.rx.at = self.rx.at.wrapping_add(1);
        self.rx.index(PRODUCER).store(self.rx.at, Ordering::Release);
        umem.give(address);
        drop(umem);
        if self.is_zero_copy {
            // Its interrupt looks for buffers on its own as long as it has some, and at times asks to be
            // woken all the same.
            self.received = self.received.wrapping_add(1);
            let asks = self.received.is_multiple_of(ASKS_EVERY);
            if self.driver.len() > DRIVER_RING / 4 && !asks {
                self.refill_driver();
            } else {
                self.fill.index(FLAGS).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Buffers to receive into, now and when it was bound; its queue; frames that wait to be sent.
    pub(super) fn buffers(&mut self) -> (usize, usize, u32, u32) {
        if !self.works() {
            return (0, 0, self.queue, 0);
        }
        let now = self.spare.len() + self.driver.len() + self.fill.filled() as usize;
        (now, self.buffers_at_bind, self.queue, self.tx.filled())
    }

    fn violations(&mut self) -> Vec<String> {
        self.umem.as_ref().map_or(Vec::new(), |umem| std::mem::take(&mut umem.borrow_mut().violations))
    }

    /// The next frame to be sent, copied, with its chunk.
    fn next_to_send(&mut self, to: &mut Vec<u8>) -> Option<u64> {
        if self.tx.filled() == 0
            || self.completion.untaken() + self.uncompleted.len() as u32 >= self.completion.size
        {
            return None;
        }
        // SAFETY: an entry that the process has written.
        let desc = unsafe { self.tx.place(self.tx.at, 16).cast::<libc::xdp_desc>().read() };
        self.tx.at = self.tx.at.wrapping_add(1);
        self.tx.index(CONSUMER).store(self.tx.at, Ordering::Release);
        let umem = self.umem.as_ref()?.borrow();
        to.clear();
        if desc.addr as usize + desc.len as usize <= umem.is_kernels.len() * umem.chunk as usize {
            // SAFETY: within the registered memory.
            to.extend(unsafe {
                std::slice::from_raw_parts(umem.base.add(desc.addr as usize), desc.len as usize)
            });
        }
        Some(desc.addr)
    }

    /// Tells the process which frames were sent.
    fn complete(&mut self) {
        let Some(umem) = &self.umem else { return };
        while let Some(address) = self.uncompleted.front() {
            if !self.completion.put_address(*address) {
                break;
            }
            umem.borrow_mut().give(*address);
            self.uncompleted.pop_front();
        }
    }
}

impl Kernel {
    pub(super) fn bind_xsk(
        &mut self,
        socket: &Rc<RefCell<Xsk>>,
        address: &libc::sockaddr_xdp,
    ) -> Option<i64> {
        let Some(port) = self.port_of(address.sxdp_ifindex) else { return error(libc::ENODEV) };
        let interface = &self.interfaces[port];
        if let Some(number) = self.armed.bind.take_one() {
            self.met.count(Kind::OpenErrno);
            return error(number);
        }
        if !interface.is_up {
            return error(libc::ENETDOWN);
        }
        if address.sxdp_queue_id >= interface.queues {
            return error(libc::EINVAL);
        }
        let leaves = interface.leaving.get(&address.sxdp_queue_id);
        if interface.sockets.contains_key(&address.sxdp_queue_id)
            || leaves.is_some_and(|until| self.now < *until)
        {
            return error(libc::EBUSY);
        }
        let mut is_zero_copy = interface.has_zero_copy && address.sxdp_flags & libc::XDP_COPY == 0;
        if address.sxdp_flags & libc::XDP_SHARED_UMEM != 0 {
            let Some(super::Object::Xsk(first)) = self.object(address.sxdp_shared_umem_fd as c_int) else {
                return error(libc::EBADF);
            };
            let first = first.borrow();
            // A shared arena brings the mode of its first socket with it.
            if first.is_zero_copy && !self.interfaces[port].has_zero_copy {
                return error(libc::EOPNOTSUPP);
            }
            is_zero_copy = first.is_zero_copy;
            socket.borrow_mut().umem = first.umem.clone();
        } else if address.sxdp_flags & libc::XDP_ZEROCOPY != 0 && !is_zero_copy {
            return error(libc::EOPNOTSUPP);
        }
        let mut found = socket.borrow_mut();
        (found.port, found.queue, found.is_zero_copy) = (Some(port), address.sxdp_queue_id, is_zero_copy);
        if !found.works() {
            found.port = None;
            return error(libc::EINVAL);
        }
        // Sending takes a call always.
        found.tx.index(FLAGS).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        found.look();
        found.buffers_at_bind = found.fill.filled() as usize;
        if is_zero_copy {
            found.refill_driver();
        }
        drop(found);
        self.interfaces[port].sockets.insert(address.sxdp_queue_id, ());
        self.xsks.push(Rc::downgrade(socket));
        Some(0)
    }

    /// The process asks for frames, or tells that there are buffers.
    pub(super) fn wake_receiver(&mut self, socket: &Rc<RefCell<Xsk>>) {
        let mut socket = socket.borrow_mut();
        let Some(port) = socket.port.filter(|_| socket.works()) else { return };
        if self.armed.wakeup_lost[port] > 0 && socket.is_zero_copy {
            self.armed.wakeup_lost[port] -= 1;
            return self.met.count(Kind::WakeupLost);
        }
        socket.look();
        if socket.is_zero_copy {
            socket.refill_driver();
        }
        let violations = socket.violations();
        drop(socket);
        violations.into_iter().for_each(|text| self.violated(|| text));
    }

    /// The kernel sends without having been asked to, as it does when somebody waits for the socket.
    pub(super) fn wake_sender(&mut self, socket: &Rc<RefCell<Xsk>>) {
        self.send_xsk(socket);
    }

    pub(super) fn send_xsk(&mut self, socket: &Rc<RefCell<Xsk>>) -> Option<i64> {
        let Some(port) = socket.borrow().port else { return error(libc::ENXIO) };
        if !self.interfaces[port].is_present {
            return error(libc::ENXIO);
        }
        if let Some(number) = self.armed.send[port].take_one() {
            self.met.count(self.armed.send_kind[port]);
            self.note_refusal(port, true);
            return error(number);
        }
        self.note_refusal(port, false);
        if !self.interfaces[port].is_up {
            return error(libc::ENETDOWN);
        }
        if self.armed.wakeup_lost[port] > 0 {
            self.armed.wakeup_lost[port] -= 1;
            self.met.count(Kind::WakeupLost);
            return Some(0);
        }
        let mut found = socket.borrow_mut();
        if !found.works() {
            return error(libc::ENXIO);
        }
        found.look();
        let violations = found.violations();
        let mut budget = match (self.armed.transmit_slow[port], found.budget) {
            (0, 0) => COPY_BUDGET,
            (0, budget) => budget,
            (slow, _) => slow,
        };
        let is_late = self.armed.completions_late[port];
        if !is_late {
            found.complete();
        }
        let is_full = self.armed.transmit_full[port];
        let has_carrier = self.interfaces[port].has_carrier;
        let mut frame = std::mem::take(&mut self.outside.leaving);
        let mut result = Some(0);
        loop {
            if is_full {
                result = error(libc::ENOBUFS);
                break;
            }
            if budget == 0 {
                result = error(libc::EAGAIN);
                break;
            }
            let Some(address) = found.next_to_send(&mut frame) else { break };
            budget -= 1;
            found.uncompleted.push_back(address);
            self.leaves(port, &frame);
            if !has_carrier {
                // It is completed, and was not sent.
                result = error(libc::EBUSY);
                break;
            }
        }
        if !is_late {
            found.complete();
        }
        drop(found);
        self.outside.leaving = frame;
        violations.into_iter().for_each(|text| self.violated(|| text));
        result
    }
}
