//! AF_PACKET rings (`TPACKET_V2`): the way in and out where AF_XDP is unavailable, and for frames too
//! long for it. Each frame is copied between the kernel's ring and the arena.

use crate::frames::{Arena, Frame};
use crate::losses::LostFrames;
use crate::{Error, Received};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use weir_units::Time;
use weir_wire::{ethernet, frame, vlan};

/// Frames in each direction's ring.
const SLOTS: u32 = 4096;
/// Where a transmit slot's data starts: the aligned header without the address (packet_mmap.rst).
const TX_DATA: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// A receive and a transmit ring on one interface.
pub struct PacketRing {
    fd: OwnedFd,
    map: *mut u8,
    map_len: usize,
    slot: usize,
    /// Room that is kept in front of each frame in the arena.
    headroom: u64,
    rx_at: u32,
    tx_at: u32,
    /// Frames that did not fit in a chunk of the arena or in a slot, or that no other port can send.
    oversized: u64,
    /// Frames for which the arena had no free chunk, or the kernel no slot.
    starved: u64,
    /// Whether the kernel may not have sent all that was queued.
    unsent: bool,
    ifindex: u32,
    /// Whether frames are IP packets without a header before them.
    is_bare: bool,
}

// SAFETY: the rings are used by one thread at a time; slots change hands through their status word.
unsafe impl Send for PacketRing {}

fn set_option<T>(fd: RawFd, name: libc::c_int, value: &T) -> Result<(), Error> {
    // SAFETY: the pointer and length describe `value`.
    let code = unsafe {
        let pointer: *const T = value;
        libc::setsockopt(fd, libc::SOL_PACKET, name, pointer.cast(), size_of::<T>() as libc::socklen_t)
    };
    if code == 0 { Ok(()) } else { Err(Error::os("cannot set up the AF_PACKET ring")) }
}

/// Lets a BPF program choose what a socket gets.
fn attach_filter(fd: RawFd, program: RawFd) -> Result<(), Error> {
    // SAFETY: the pointer and length describe `program`.
    let code = unsafe {
        let pointer: *const RawFd = &program;
        let len = size_of::<RawFd>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, pointer.cast(), len)
    };
    if code == 0 { Ok(()) } else { Err(Error::os("cannot attach the filter of the AF_PACKET ring")) }
}

/// Opens a packet socket that hears nothing yet, for frames (`SOCK_RAW`) or for what is in them
/// (`SOCK_DGRAM`).
fn open(kind: libc::c_int) -> Result<OwnedFd, Error> {
    // SAFETY: no pointers are involved.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(Error::os("cannot open a packet socket"));
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Holds an interface in promiscuous mode; the kernel ends it with the descriptor, also after a crash.
pub fn promiscuous(ifindex: u32) -> Result<OwnedFd, Error> {
    let fd = open(libc::SOCK_RAW)?;
    let request = libc::packet_mreq {
        mr_ifindex: ifindex as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd.as_raw_fd(), libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(fd)
}

/// Takes the error that waits on a socket, and forgets it: whether the interface is still there is looked
/// after elsewhere.
pub fn clear_error(fd: RawFd) {
    let mut error: libc::c_int = 0;
    let mut len = size_of_val(&error) as libc::socklen_t;
    // SAFETY: the pointers describe `error`.
    unsafe {
        let pointer: *mut libc::c_int = &mut error;
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, pointer.cast(), &mut len);
    }
}

/// Size of a slot for frames of at most `frame_max` bytes.
fn slot(frame_max: usize) -> usize {
    (frame_max + 128).next_power_of_two().max(2048)
}

/// Memory of both rings for frames of at most `frame_max` bytes.
pub fn size(frame_max: usize) -> usize {
    2 * slot(frame_max) * SLOTS as usize
}

impl PacketRing {
    /// Opens both rings on an interface, for frames of at most `frame_max` bytes. `filter` is a BPF program
    /// that says which frames are copied. Where frames are bare IP packets, each gets a header of Ethernet on
    /// its way in, which goes on its way out, so that all between reads frames of one form.
    pub fn open(
        ifindex: u32,
        frame_max: usize,
        headroom: u64,
        filter: RawFd,
        is_bare: bool,
    ) -> Result<PacketRing, Error> {
        let fd = open(if is_bare { libc::SOCK_DGRAM } else { libc::SOCK_RAW })?;
        let raw = fd.as_raw_fd();
        set_option(raw, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        set_option(raw, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        set_option(raw, libc::PACKET_QDISC_BYPASS, &1i32)?;
        // A frame the driver refuses is counted and skipped instead of stopping the ring.
        set_option(raw, libc::PACKET_LOSS, &1i32)?;
        attach_filter(raw, filter)?;
        let slot = slot(frame_max);
        let block = slot.max(65_536);
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (slot as u64 * u64::from(SLOTS) / block as u64) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: SLOTS,
        };
        set_option(raw, libc::PACKET_RX_RING, &request)?;
        // The kernel takes from a ring, where there is one, whatever a call names.
        if !is_bare {
            set_option(raw, libc::PACKET_TX_RING, &request)?;
        }
        let map_len = if is_bare { size(frame_max) / 2 } else { size(frame_max) };
        // SAFETY: the kernel checks the length against the rings made above.
        let map = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), map_len, libc::PROT_READ | libc::PROT_WRITE, flags, raw, 0)
        };
        if map == libc::MAP_FAILED {
            return Err(Error::os("cannot map the AF_PACKET rings"));
        }
        let ring = PacketRing {
            fd,
            map: map.cast(),
            map_len,
            slot,
            headroom,
            rx_at: 0,
            tx_at: 0,
            oversized: 0,
            starved: 0,
            unsent: false,
            ifindex,
            is_bare,
        };
        ring.bind()?;
        Ok(ring)
    }

    fn address(&self, protocol: u16) -> libc::sockaddr_ll {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.ifindex as i32;
        address
    }

    /// Whether frames are IP packets without a header before them.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    fn bind(&self) -> Result<(), Error> {
        let address = self.address(libc::ETH_P_ALL as u16);
        // SAFETY: the pointer and length describe `address`.
        let code = unsafe {
            let pointer: *const libc::sockaddr_ll = &address;
            libc::bind(self.fd.as_raw_fd(), pointer.cast(), size_of_val(&address) as libc::socklen_t)
        };
        if code == 0 { Ok(()) } else { Err(Error::os("cannot bind the packet socket")) }
    }

    fn slot_at(&self, index: u32) -> *mut libc::tpacket2_hdr {
        // SAFETY: indices are below 2 * SLOTS, the size of the mapping.
        unsafe { self.map.add(index as usize * self.slot).cast() }
    }

    fn status(&self, index: u32) -> &AtomicU32 {
        // SAFETY: the status word is the first field of each slot in the live mapping.
        unsafe { &*self.slot_at(index).cast::<AtomicU32>() }
    }

    /// Takes received frames, at most as many as `out` has room for.
    pub fn receive(&mut self, arena: &mut Arena, now: Time, out: &mut Vec<Received>) {
        while out.len() < out.capacity() {
            let status = self.status(self.rx_at).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            if let Some(frame) = self.copy_in(arena, status) {
                out.push(Received { frame, arrived: now });
            }
            self.status(self.rx_at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.rx_at = (self.rx_at + 1) % SLOTS;
        }
    }

    /// Copies the current receive slot to the arena. The kernel moves the outer VLAN tag of what it
    /// receives to the slot's header and leaves checksums of local senders open: both are put right.
    fn copy_in(&mut self, arena: &mut Arena, status: u32) -> Option<Frame> {
        // SAFETY: the slot belongs to us while TP_STATUS_USER is set.
        let header = unsafe { &*self.slot_at(self.rx_at) };
        let tag = if status & libc::TP_STATUS_VLAN_VALID != 0 { vlan::TAG_LEN } else { 0 };
        let len = header.tp_snaplen as usize;
        let start = header.tp_mac as usize;
        let is_whole = header.tp_len == header.tp_snaplen && start + len <= self.slot;
        let cover = if self.is_bare { ethernet::HEADER_LEN } else { 0 };
        if !is_whole
            || len + tag + cover + self.headroom as usize > arena.chunk() as usize
            || (tag > 0 && (len < ethernet::HEADER_LEN || self.is_bare))
        {
            self.oversized += 1;
            return None;
        }
        let Some(addr) = arena.take() else {
            self.starved += 1;
            return None;
        };
        let frame = Frame { addr: addr + self.headroom, len: (len + tag + cover) as u32 };
        // SAFETY: checked above to lie inside of the slot.
        let data =
            unsafe { std::slice::from_raw_parts(self.slot_at(self.rx_at).cast::<u8>().add(start), len) };
        let bytes = arena.bytes(frame);
        if tag > 0 {
            let is_told = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if is_told { header.tp_vlan_tpid } else { vlan::CUSTOMER };
            // Both lengths were checked above.
            let _ = vlan::insert(bytes, data, tpid, header.tp_vlan_tci);
        } else if self.is_bare {
            bytes[cover..].copy_from_slice(data);
            if !ethernet::cover(bytes) {
                // Nothing else can be sent at the other port.
                self.oversized += 1;
                arena.give(frame.addr);
                return None;
            }
        } else {
            bytes.copy_from_slice(data);
        }
        if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            frame::complete_checksum(bytes);
        }
        Some(frame)
    }

    /// Copies frames to the transmit ring, taking from the front, and frees them; those left over have no
    /// room in the ring.
    pub fn send(&mut self, arena: &mut Arena, frames: &mut VecDeque<Frame>) {
        while let Some(frame) = frames.front().copied() {
            let index = SLOTS + self.tx_at;
            if self.status(index).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                break;
            }
            frames.pop_front();
            arena.give(frame.addr);
            let len = frame.len as usize;
            if TX_DATA + len > self.slot {
                self.oversized += 1;
                continue;
            }
            let bytes = arena.bytes(frame);
            // SAFETY: the slot is ours while it is available, and the length was checked.
            unsafe {
                let slot = self.slot_at(index);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.cast::<u8>().add(TX_DATA), len);
                (*slot).tp_len = frame.len;
                (*slot).tp_snaplen = frame.len;
            }
            fence(Ordering::Release);
            self.status(index).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.tx_at = (self.tx_at + 1) % SLOTS;
            self.unsent = true;
        }
    }

    /// Sends packets without the header that they got, taking from the front, and frees them; those left over
    /// were not taken by the interface now. One call for each, as each names its protocol: devices such as
    /// PPP do not look for it.
    pub fn send_bare(&mut self, arena: &mut Arena, frames: &mut VecDeque<Frame>) -> std::io::Result<()> {
        while let Some(frame) = frames.front().copied() {
            let result = match ethernet::uncover(arena.bytes(frame)) {
                Some((protocol, packet)) => self.send_packet(protocol, packet),
                None => {
                    self.oversized += 1;
                    Ok(())
                }
            };
            match result.as_ref().map_err(std::io::Error::raw_os_error) {
                Ok(()) => {}
                Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => return Ok(()),
                Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => return result,
                // This packet and no other: it is too long by now, or leads to nobody whom WireGuard knows.
                Err(_) => self.oversized += 1,
            }
            frames.pop_front();
            arena.give(frame.addr);
        }
        Ok(())
    }

    fn send_packet(&self, protocol: u16, packet: &[u8]) -> std::io::Result<()> {
        let to = self.address(protocol);
        // SAFETY: both pointers and lengths describe live values.
        let code = unsafe {
            let pointer: *const libc::sockaddr_ll = &to;
            let len = size_of_val(&to) as libc::socklen_t;
            let flags = libc::MSG_DONTWAIT;
            libc::sendto(
                self.fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                flags,
                pointer.cast(),
                len,
            )
        };
        if code < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes the kernel send what is queued. What it cannot send now, as while the interface is down, is
    /// left to the next call.
    pub fn kick(&mut self) -> Result<(), std::io::Error> {
        if !self.unsent {
            return Ok(());
        }
        // SAFETY: no buffers are passed.
        let code = unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        if code >= 0 {
            self.unsent = false;
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(error),
        }
    }

    /// Whether the kernel may not have sent all that was queued.
    pub fn has_unsent(&self) -> bool {
        self.unsent
    }

    /// Frames that were lost before they were copied to the arena; and whether the kernel told of its own.
    pub fn lost(&mut self) -> (LostFrames, std::io::Result<()>) {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut stats: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the pointers describe `stats`, which the kernel fills up to `len`.
        let code = unsafe {
            let pointer: *mut libc::tpacket_stats = &mut stats;
            let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            libc::getsockopt(self.fd.as_raw_fd(), level, name, pointer.cast(), &mut len)
        };
        let told = if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
        // Reading it resets it.
        self.starved += if told.is_ok() { u64::from(stats.tp_drops) } else { 0 };
        (LostFrames { frames: self.oversized + self.starved, starved: self.starved }, told)
    }

    /// The socket's descriptor, to wait for frames.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length; no reference into it outlives the ring.
        unsafe { libc::munmap(self.map.cast(), self.map_len) };
    }
}
