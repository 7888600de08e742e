//! AF_PACKET sockets with rings (`TPACKET_V2`) as the kernel sees them.

use super::bpf::Program;
use super::{Kernel, error, given};
use libc::{c_int, c_void, socklen_t};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a received frame begins in its slot.
const RECEIVED: usize = 82;
/// Where a frame to be sent begins.
const TO_SEND: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// A socket with a receive and a transmit ring, or one that holds an interface in promiscuous mode.
pub struct PacketSocket {
    /// Which interface it is bound to.
    pub port: Option<usize>,
    /// Which interface it holds in promiscuous mode.
    pub promiscuous: Option<usize>,
    /// The error that waits on it.
    pub error: Cell<c_int>,
    filter: Option<Rc<Program>>,
    memory: *mut u8,
    slot: usize,
    slots: u32,
    received: u32,
    sent: u32,
    packets: u32,
    drops: u32,
}

impl Default for PacketSocket {
    fn default() -> PacketSocket {
        PacketSocket {
            port: None,
            promiscuous: None,
            error: Cell::new(0),
            filter: None,
            memory: std::ptr::null_mut(),
            slot: 0,
            slots: 0,
            received: 0,
            sent: 0,
            packets: 0,
            drops: 0,
        }
    }
}

impl PacketSocket {
    pub(super) fn map_rings(&mut self, memory: *mut u8) {
        self.memory = memory;
    }

    pub(super) fn unmap_rings(&mut self, at: *mut u8) {
        if self.memory == at {
            self.memory = std::ptr::null_mut();
        }
    }

    fn slot_at(&self, index: u32) -> *mut libc::tpacket2_hdr {
        // SAFETY: both rings lie in the mapping, which has so many slots.
        unsafe { self.memory.add(index as usize * self.slot).cast() }
    }

    fn status(&self, index: u32) -> &AtomicU32 {
        // SAFETY: the status is the first word of a slot.
        unsafe { &*self.slot_at(index).cast::<AtomicU32>() }
    }

    /// Whether its filter lets frames through now.
    pub(super) fn accepts(&self, now: u64) -> bool {
        !self.memory.is_null() && self.filter.as_ref().is_none_or(|program| program.is_fresh(now))
    }

    /// Whether there is something to take.
    pub fn has_received(&self) -> bool {
        if self.memory.is_null() || self.slots == 0 {
            return false;
        }
        let last = (self.received + self.slots - 1) % self.slots;
        self.status(last).load(Ordering::Acquire) != libc::TP_STATUS_KERNEL
    }

    /// A frame comes in; whether there was a slot.
    pub(super) fn deliver(&mut self, frame: &[u8]) -> bool {
        self.packets += 1;
        if self.status(self.received).load(Ordering::Acquire) != libc::TP_STATUS_KERNEL {
            self.drops += 1;
            return false;
        }
        // The kernel takes the outer tag of a frame off, and tells it beside the frame.
        let is_tagged = frame.len() >= 18 && matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]);
        let tag = |at: usize| u16::from(frame[at]) << 8 | u16::from(frame[at + 1]);
        let len = frame.len() - if is_tagged { 4 } else { 0 };
        let kept = len.min(self.slot - RECEIVED);
        // SAFETY: the slot is the kernel's, and what is written fits.
        unsafe {
            let slot = self.slot_at(self.received);
            let data = slot.cast::<u8>().add(RECEIVED);
            if is_tagged {
                std::ptr::copy_nonoverlapping(frame.as_ptr(), data, 12);
                std::ptr::copy_nonoverlapping(frame.as_ptr().add(16), data.add(12), kept - 12);
            } else {
                std::ptr::copy_nonoverlapping(frame.as_ptr(), data, kept);
            }
            (*slot).tp_len = len as u32;
            (*slot).tp_snaplen = kept as u32;
            (*slot).tp_mac = RECEIVED as u16;
            (*slot).tp_vlan_tci = if is_tagged { tag(14) } else { 0 };
            (*slot).tp_vlan_tpid = if is_tagged { tag(12) } else { 0 };
        }
        let told = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let status = libc::TP_STATUS_USER | if is_tagged { told } else { 0 };
        self.status(self.received).store(status, Ordering::Release);
        self.received = (self.received + 1) % self.slots;
        true
    }

    /// # Safety
    /// The pointers must be to a place and its length.
    pub(super) unsafe fn option(
        &mut self,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> Option<i64> {
        // SAFETY: as the caller promises.
        unsafe {
            if level == libc::SOL_PACKET && name == libc::PACKET_STATISTICS {
                let told = libc::tpacket_stats { tp_packets: self.packets, tp_drops: self.drops };
                value.cast::<libc::tpacket_stats>().write_unaligned(told);
                *len = size_of::<libc::tpacket_stats>() as socklen_t;
                (self.packets, self.drops) = (0, 0);
            } else if level == libc::SOL_SOCKET && name == libc::SO_ERROR {
                value.cast::<c_int>().write_unaligned(self.error.replace(0));
            } else {
                std::ptr::write_bytes(value.cast::<u8>(), 0, *len as usize);
            }
        }
        Some(0)
    }
}

impl Kernel {
    /// # Safety
    /// The pointer must be to what the option takes.
    pub(super) unsafe fn set_packet_option(
        &mut self,
        socket: &Rc<RefCell<PacketSocket>>,
        level: c_int,
        name: c_int,
        value: *const c_void,
    ) -> Option<i64> {
        // SAFETY: as the caller promises.
        unsafe {
            match (level, name) {
                (libc::SOL_SOCKET, libc::SO_ATTACH_BPF) => {
                    let Some(program) = self.program_of(given(value)) else { return error(libc::EBADF) };
                    socket.borrow_mut().filter = Some(program);
                }
                (libc::SOL_PACKET, libc::PACKET_RX_RING | libc::PACKET_TX_RING) => {
                    let request: libc::tpacket_req = given(value);
                    let mut socket = socket.borrow_mut();
                    (socket.slot, socket.slots) = (request.tp_frame_size as usize, request.tp_frame_nr);
                }
                (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP) => {
                    let request: libc::packet_mreq = given(value);
                    let Some(port) = self.port_of(request.mr_ifindex as u32) else {
                        return error(libc::ENODEV);
                    };
                    self.interfaces[port].promiscuous += 1;
                    socket.borrow_mut().promiscuous = Some(port);
                }
                _ => {}
            }
        }
        Some(0)
    }

    pub(super) fn send_packet(&mut self, socket: &Rc<RefCell<PacketSocket>>) -> Option<i64> {
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
        if self.armed.transmit_full[port] {
            return error(libc::ENOBUFS);
        }
        let mut frame = std::mem::take(&mut self.outside.leaving);
        let mut socket = socket.borrow_mut();
        let mut budget = match self.armed.transmit_slow[port] {
            0 => u32::MAX,
            slow => slow,
        };
        let mut result = Some(0);
        while !socket.memory.is_null() && socket.slots > 0 {
            let index = socket.slots + socket.sent;
            if socket.status(index).load(Ordering::Acquire) != libc::TP_STATUS_SEND_REQUEST {
                break;
            }
            if budget == 0 {
                result = error(libc::ENOBUFS);
                break;
            }
            budget -= 1;
            frame.clear();
            // SAFETY: the slot is the kernel's, and its length is checked.
            unsafe {
                let slot = socket.slot_at(index);
                let len = ((*slot).tp_len as usize).min(socket.slot - TO_SEND);
                frame.extend(std::slice::from_raw_parts(slot.cast::<u8>().add(TO_SEND), len));
            }
            socket.status(index).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            socket.sent = (socket.sent + 1) % socket.slots;
            self.leaves(port, &frame);
        }
        drop(socket);
        self.outside.leaving = frame;
        result
    }
}
