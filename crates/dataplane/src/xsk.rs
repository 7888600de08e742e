//! AF_XDP sockets: four rings shared with the kernel for each receive queue of a port.
//!
//! Both ports use one arena, so a forwarded frame is a descriptor that moves from a receive ring to a
//! transmit ring; the kernel copies only where the driver has no zero-copy mode. Each port registers the
//! arena for itself, and its sockets share that (`XDP_SHARED_UMEM`): all that share it have to work without
//! copies if the first does, and ports may differ in that.

use crate::frames::{Arena, Frame};
use crate::losses::LostFrames;
use crate::{Error, Received, ring};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use weir_units::{Duration, Time};

/// Entries of each ring.
pub const RING: u32 = 4096;
/// Room the kernel keeps free in front of each frame it receives.
const XDP_PACKET_HEADROOM: u32 = 256;
/// Room in front of each frame in its chunk. A stamp more than the kernel's: the stamp, which lies right
/// before the frame, and the headers that are read are then in one cache line.
pub const HEADROOM: u32 = XDP_PACKET_HEADROOM + STAMP_LEN as u32;
const STAMP_MAGIC: u64 = 0x5765_6972_5374_6d70;
const STAMP_LEN: u64 = 16;
/// In copy mode the kernel sends so many frames for each system call unless told otherwise.
const COPY_BATCH: u32 = 32;
/// Most system calls for transmission in one turn of the loop.
const KICKS_MAX: u32 = 16;
/// `XDP_MAX_TX_SKB_BUDGET` of Linux 6.17: frames sent in one call in copy mode.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Frames the driver hands over in one poll that the loop makes itself.
const POLL_BUDGET: libc::c_int = 64;
/// A driver that had nothing is left alone for so long: a call costs as much as several frames.
const POLL_PAUSE: Duration = Duration::from_micros(10);
/// The flag that `XDP_OPTIONS` tells (`if_xdp.h`).
const XDP_OPTIONS_ZEROCOPY: libc::c_int = 1;
/// Any value but zero: calls never wait, so the time is not used.
const POLL_US: libc::c_int = 20;

/// One ring: indices shared with the kernel and an array of `T`.
struct Ring<T> {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    /// Our own index: consumer of receive and completion rings, producer of the others.
    at: u32,
    map: *mut libc::c_void,
    map_len: usize,
}

impl<T: Copy> Ring<T> {
    fn map(fd: RawFd, offsets: &libc::xdp_ring_offset, page_offset: u64) -> Result<Ring<T>, Error> {
        let map_len = offsets.desc as usize + RING as usize * size_of::<T>();
        // SAFETY: the kernel checks the size and offset against the ring made for this socket.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd,
                page_offset as libc::off_t,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(Error::os("cannot map an AF_XDP ring"));
        }
        // SAFETY: the kernel's offsets lie inside of the mapping it made.
        let field = |offset: u64| unsafe { map.byte_add(offset as usize) };
        Ok(Ring {
            producer: field(offsets.producer).cast(),
            consumer: field(offsets.consumer).cast(),
            flags: field(offsets.flags).cast(),
            entries: field(offsets.desc).cast(),
            at: 0,
            map,
            map_len,
        })
    }

    /// Entries the kernel has produced and we have not consumed.
    fn available(&self) -> u32 {
        // SAFETY: the pointer is into the live mapping.
        unsafe { ring::available(&*self.producer, self.at) }
    }

    /// Entries we produced and the kernel has not consumed.
    fn pending(&self) -> u32 {
        // SAFETY: the pointer is into the live mapping.
        unsafe { ring::pending(&*self.consumer, self.at) }
    }

    fn get(&self, n: u32) -> T {
        // SAFETY: the index is masked to the ring's size.
        unsafe { self.entries.add((self.at.wrapping_add(n) & (RING - 1)) as usize).read() }
    }

    fn put(&mut self, value: T) {
        // SAFETY: the index is masked to the ring's size; callers checked that there is room.
        unsafe { self.entries.add((self.at & (RING - 1)) as usize).write(value) };
        self.at = self.at.wrapping_add(1);
    }

    fn consumed(&mut self, n: u32) {
        self.at = self.at.wrapping_add(n);
        // SAFETY: the pointer is into the live mapping.
        unsafe { ring::hand_over(&*self.consumer, self.at) };
    }

    fn publish(&self) {
        // SAFETY: the pointer is into the live mapping.
        unsafe { ring::hand_over(&*self.producer, self.at) };
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: the pointer is into the live mapping.
        unsafe { (*self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0 }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and no reference into it outlives the ring.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}

/// The socket of one receive queue.
pub struct Xsk {
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    fd: OwnedFd,
    /// Most chunks that the kernel has at once for receiving, and those it has: in the fill ring, in the
    /// driver, or as frames that were not taken yet.
    share: u32,
    lent: u32,
    /// Whether calls of the kernel poll the driver.
    polls: bool,
    /// When the driver is polled next, unless it has something before.
    poll_due: Time,
}

// SAFETY: the rings are used by one thread at a time; the kernel's side is synchronised by the indices.
unsafe impl Send for Xsk {}

fn set_option<T>(fd: RawFd, name: libc::c_int, value: &T) -> Result<(), std::io::Error> {
    set_option_of(libc::SOL_XDP, fd, name, value)
}

fn set_option_of<T>(
    level: libc::c_int,
    fd: RawFd,
    name: libc::c_int,
    value: &T,
) -> Result<(), std::io::Error> {
    // SAFETY: the pointer and length describe `value`.
    let code = unsafe {
        let pointer: *const T = value;
        libc::setsockopt(fd, level, name, pointer.cast(), size_of::<T>() as libc::socklen_t)
    };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

impl Xsk {
    /// Binds a socket to a queue, and lends it at most `share` chunks. The first socket of a port registers
    /// the arena; the others name the first. `copies` says that the driver is not to work without copies.
    pub fn bind(
        arena: &mut Arena,
        ifindex: u32,
        queue: u32,
        share: u32,
        first: Option<RawFd>,
        copies: bool,
    ) -> Result<Xsk, std::io::Error> {
        let mut xsk = Xsk::unbound(arena, share, first.is_none())?;
        if let Err(error) = xsk.bind_to(ifindex, queue, first, copies) {
            xsk.take_back(arena);
            return Err(error);
        }
        Ok(xsk)
    }

    /// A socket with all that takes long and needs no queue: its rings, the chunks lent to it, and, for the
    /// first of a port, the arena registered. [`Xsk::bind_to`] is to follow.
    pub fn unbound(arena: &mut Arena, share: u32, is_first: bool) -> Result<Xsk, std::io::Error> {
        assert!(share <= RING, "what is lent has room in the fill ring");
        // SAFETY: no pointers are involved.
        let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        if is_first {
            // SAFETY: all-zero is a valid value of this plain struct, also of fields newer than this code.
            let mut region: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
            region.addr = arena.base() as u64;
            region.len = arena.size() as u64;
            region.chunk_size = arena.chunk();
            region.headroom = HEADROOM - XDP_PACKET_HEADROOM;
            set_option(raw, libc::XDP_UMEM_REG, &region)?;
        }
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set_option(raw, ring, &RING)?;
        }
        // Kernels before 6.17 do not know it, and need no more than more system calls.
        let _ = set_option(raw, XDP_MAX_TX_SKB_BUDGET, &(RING / 8));
        let mut xsk = Xsk::map_rings(fd, share)?;
        // A driver without copies takes its first buffers when the socket is bound.
        arena.add_borrower();
        xsk.lend(arena, share);
        Ok(xsk)
    }

    fn map_rings(fd: OwnedFd, share: u32) -> Result<Xsk, std::io::Error> {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&offsets) as libc::socklen_t;
        // SAFETY: the pointers describe `offsets`, which the kernel fills up to `len`.
        let code = unsafe {
            let pointer: *mut libc::xdp_mmap_offsets = &mut offsets;
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, pointer.cast(), &mut len)
        };
        if code != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let raw = fd.as_raw_fd();
        let io = |e: Error| std::io::Error::other(e.to_string());
        Ok(Xsk {
            rx: Ring::map(raw, &offsets.rx, libc::XDP_PGOFF_RX_RING as u64).map_err(io)?,
            tx: Ring::map(raw, &offsets.tx, libc::XDP_PGOFF_TX_RING as u64).map_err(io)?,
            fill: Ring::map(raw, &offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING).map_err(io)?,
            completion: Ring::map(raw, &offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING).map_err(io)?,
            fd,
            share,
            lent: 0,
            polls: false,
            poll_due: Time::ZERO,
        })
    }

    /// Takes back what was lent to a socket that got no frame and is closed next.
    pub fn take_back(&mut self, arena: &mut Arena) {
        for n in 1..=self.lent {
            // SAFETY: the index is masked to the ring's size; this entry was written by `lend`.
            let addr =
                unsafe { self.fill.entries.add((self.fill.at.wrapping_sub(n) & (RING - 1)) as usize).read() };
            arena.give(addr);
        }
        self.lent = 0;
        arena.remove_borrower();
    }

    /// Whether frames come and go without being copied.
    pub fn is_zero_copy(&self) -> bool {
        let mut options: libc::c_int = 0;
        let mut len = size_of_val(&options) as libc::socklen_t;
        // SAFETY: the pointers describe `options`, which the kernel fills.
        let code = unsafe {
            let pointer: *mut libc::c_int = &mut options;
            libc::getsockopt(self.fd(), libc::SOL_XDP, libc::XDP_OPTIONS, pointer.cast(), &mut len)
        };
        code == 0 && options & XDP_OPTIONS_ZEROCOPY != 0
    }

    /// From now on this queue is lent at most so many chunks; what it has beyond comes back with frames.
    pub fn set_share(&mut self, share: u32) {
        self.share = share.min(RING);
    }

    /// Frames that were given to the kernel to be sent and were not taken yet.
    pub fn unsent(&self) -> u32 {
        self.tx.pending()
    }

    /// Binds the socket to a queue, as [`Xsk::bind`] says.
    pub fn bind_to(
        &self,
        ifindex: u32,
        queue: u32,
        first: Option<RawFd>,
        copies: bool,
    ) -> Result<(), std::io::Error> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            // A shared arena brings the flags of its first socket with it.
            sxdp_flags: match first {
                Some(_) => libc::XDP_SHARED_UMEM,
                None if copies => libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY,
                None => libc::XDP_USE_NEED_WAKEUP,
            },
            sxdp_ifindex: ifindex,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: first.unwrap_or(0) as u32,
        };
        // SAFETY: the pointer and length describe `address`.
        let code = unsafe {
            let pointer: *const libc::sockaddr_xdp = &address;
            libc::bind(self.fd.as_raw_fd(), pointer.cast(), size_of_val(&address) as libc::socklen_t)
        };
        if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// The socket's descriptor, for the map of sockets and for sharing the arena.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// From now on this thread polls the driver itself while it takes frames. That saves the processors on
    /// which frames arrive the work, and does it here.
    pub fn poll_driver(&mut self) {
        let set = |name, value: libc::c_int| set_option_of(libc::SOL_SOCKET, self.fd(), name, &value).is_ok();
        // Kernels before 5.11 do not know these; frames then come as they always do.
        self.polls = set(libc::SO_PREFER_BUSY_POLL, 1)
            && set(libc::SO_BUSY_POLL_BUDGET, POLL_BUDGET)
            && set(libc::SO_BUSY_POLL, POLL_US);
    }

    /// Polls the driver where this thread does that and no frame waits.
    pub fn poll(&mut self, now: Time) {
        if self.polls && now >= self.poll_due && self.rx.available() == 0 {
            let _ = self.enter_kernel();
            if self.rx.available() == 0 {
                self.poll_due = now + POLL_PAUSE;
            }
        }
    }

    /// Takes received frames, at most `most` and as many as `out` has room for; whether more wait.
    pub fn receive(&mut self, arena: &mut Arena, now: Time, most: usize, out: &mut Vec<Received>) -> bool {
        let room = most.min(out.capacity() - out.len()) as u32;
        let available = self.rx.available();
        let n = available.min(room);
        // All of them are asked for before the first is read: another processor may have written them.
        for i in 0..n {
            let desc = self.rx.get(i);
            arena.expect(Frame { addr: desc.addr, len: desc.len });
        }
        for i in 0..n {
            let desc = self.rx.get(i);
            let frame = Frame { addr: desc.addr, len: desc.len };
            let arrived = stamp(arena, frame).unwrap_or(now);
            out.push(Received { frame, arrived });
        }
        if n > 0 {
            self.rx.consumed(n);
            self.lent -= n;
        }
        available > n
    }

    /// Lends free chunks to the kernel for receiving; wakes the driver where it asks for it, also where
    /// nothing is lent.
    pub fn refill(&mut self, arena: &mut Arena) -> Result<(), std::io::Error> {
        let room = self.share.saturating_sub(self.lent);
        if room > 0 && room >= self.share / 4 {
            self.lend(arena, room.min(arena.share()));
        }
        if self.fill.needs_wakeup() { self.enter_kernel() } else { Ok(()) }
    }

    fn lend(&mut self, arena: &mut Arena, count: u32) {
        for _ in 0..count {
            let Some(addr) = arena.take() else { break };
            self.fill.put(addr);
            self.lent += 1;
        }
        self.fill.publish();
    }

    /// Wakes the driver, or polls it.
    fn enter_kernel(&self) -> Result<(), std::io::Error> {
        // SAFETY: no buffers are passed.
        let code = unsafe {
            let null = std::ptr::null_mut();
            libc::recvfrom(self.fd(), null, 0, libc::MSG_DONTWAIT, null.cast(), null.cast())
        };
        if code >= 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(error),
        }
    }

    /// Queues frames for sending, taking from the front; those left over have no room in the ring.
    pub fn send(&mut self, frames: &mut std::collections::VecDeque<Frame>) {
        let room = RING - self.tx.pending();
        for _ in 0..room.min(frames.len() as u32) {
            let Some(frame) = frames.pop_front() else { break };
            self.tx.put(libc::xdp_desc { addr: frame.addr, len: frame.len, options: 0 });
        }
        self.tx.publish();
    }

    /// Makes the kernel send what is queued. Errors that pass by themselves are left to the next turn;
    /// the others say that the port is gone.
    pub fn kick(&mut self) -> Result<(), std::io::Error> {
        for _ in 0..KICKS_MAX {
            let before = self.tx.pending();
            if before == 0 || !self.tx.needs_wakeup() {
                break;
            }
            // SAFETY: no buffers are passed.
            let code = unsafe {
                let null = std::ptr::null();
                libc::sendto(self.fd(), null, 0, libc::MSG_DONTWAIT, null.cast(), 0)
            };
            if code < 0 {
                let error = std::io::Error::last_os_error();
                match error.raw_os_error() {
                    // More is pending than one call sends.
                    Some(libc::EAGAIN) if self.tx.pending() + COPY_BATCH <= before => continue,
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => break,
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Takes back the chunks of frames that were sent.
    pub fn reclaim(&mut self, arena: &mut Arena) {
        let n = self.completion.available();
        for i in 0..n {
            arena.give(self.completion.get(i));
        }
        if n > 0 {
            self.completion.consumed(n);
        }
    }

    /// Frames the kernel could not deliver to this socket: no chunk to put them in, no room in the ring, or
    /// too long; and whether the kernel told.
    pub fn lost(&self) -> (LostFrames, std::io::Result<()>) {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut s: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&s) as libc::socklen_t;
        // SAFETY: the pointers describe `s`, which the kernel fills up to `len`.
        let code = unsafe {
            let pointer: *mut libc::xdp_statistics = &mut s;
            libc::getsockopt(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS, pointer.cast(), &mut len)
        };
        if code != 0 {
            return (LostFrames::default(), Err(std::io::Error::last_os_error()));
        }
        // A frame that found the fill ring empty is in `rx_dropped`, too. A driver without copies counts its
        // vain looks into the ring alone: what it dropped is in its own counters.
        let lost = LostFrames {
            frames: s.rx_dropped + s.rx_ring_full,
            starved: s.rx_fill_ring_empty_descs + s.rx_ring_full,
        };
        (lost, Ok(()))
    }
}

/// The arrival time that the BPF program put in front of the frame, if it did.
fn stamp(arena: &mut Arena, frame: Frame) -> Option<Time> {
    let in_chunk = frame.addr & u64::from(arena.chunk() - 1);
    if in_chunk < STAMP_LEN {
        return None;
    }
    let meta = arena.bytes(Frame { addr: frame.addr - STAMP_LEN, len: STAMP_LEN as u32 });
    let (magic, ns) = meta.split_at(8);
    let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().expect("eight bytes"));
    (word(magic) == STAMP_MAGIC).then(|| Time::from_nanos(word(ns)))
}
