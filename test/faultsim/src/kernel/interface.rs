//! Interfaces and the requests about them.

use super::bpf::Program;
use super::packet::PacketSocket;
use super::{Kernel, error, given};
use crate::faults::Kind;
use libc::{c_int, c_ulong, c_void};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ethernet header and two VLAN tags, which a port takes beside a packet of its MTU.
const LINK_OVERHEAD: u32 = 14 + 8;

/// A network interface with its driver.
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index.
    pub index: u32,
    /// Largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub is_up: bool,
    /// The other end is there.
    pub has_carrier: bool,
    /// It is in this namespace.
    pub is_present: bool,
    /// Receive queues.
    pub queues: u32,
    /// When their number was changed last.
    pub queues_changed: u64,
    /// Generic receive offload, large receive offload, VLAN tags taken off.
    pub offloads: [bool; 3],
    /// Whether the driver has XDP.
    pub has_native: bool,
    /// Whether the driver has AF_XDP without copies.
    pub has_zero_copy: bool,
    /// The qdisc that holds filters.
    pub has_clsact: bool,
    /// The filter at ingress.
    pub filter: Option<Rc<Program>>,
    /// The XDP program.
    pub xdp: Option<Rc<Program>>,
    /// Whether that is in the driver.
    pub xdp_is_native: bool,
    /// The packet socket that is bound to it.
    pub packet: Option<Rc<RefCell<PacketSocket>>>,
    /// Who holds it in promiscuous mode.
    pub promiscuous: u32,
    /// AF_XDP sockets by queue.
    pub sockets: BTreeMap<u32, ()>,
    /// Queues that the kernel takes a closed socket off yet, and until when, in ns.
    pub leaving: BTreeMap<u32, u64>,
    /// A frame of a queue without a socket went to the host's stack.
    pub passed_queue: bool,
}

/// What a run may not leave changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    is_up: bool,
    offloads: [bool; 3],
    /// The qdisc that holds filters.
    pub has_clsact: bool,
    has_filter: bool,
    has_xdp: bool,
    is_promiscuous: bool,
}

impl Interface {
    /// An interface that is up, of one queue.
    pub fn new(name: &str, index: u32) -> Interface {
        Interface {
            name: name.into(),
            index,
            mtu: 1500,
            is_up: true,
            has_carrier: true,
            is_present: true,
            queues: 1,
            queues_changed: 0,
            offloads: [false; 3],
            has_native: true,
            has_zero_copy: false,
            has_clsact: false,
            filter: None,
            xdp: None,
            xdp_is_native: false,
            packet: None,
            promiscuous: 0,
            sockets: BTreeMap::new(),
            leaving: BTreeMap::new(),
            passed_queue: false,
        }
    }

    /// Whether frames pass to and from the other end.
    pub fn has_link(&self) -> bool {
        self.is_up && self.has_carrier
    }

    /// Longest frame that it sends.
    pub fn longest(&self) -> usize {
        (self.mtu + LINK_OVERHEAD) as usize
    }

    /// What a run may not leave changed.
    pub fn found(&self) -> Found {
        Found {
            is_up: self.is_up,
            offloads: self.offloads,
            has_clsact: self.has_clsact,
            has_filter: self.filter.is_some(),
            has_xdp: self.xdp.is_some(),
            is_promiscuous: self.promiscuous > 0,
        }
    }

    pub(super) fn remove(&mut self, queue: u32, now: u64) {
        self.sockets.remove(&queue);
        self.leaving.insert(queue, now + LEAVES);
        if let Some(program) = &self.xdp {
            program.remove_socket(queue);
        }
    }
}

/// For so long after a socket was closed its queue takes no other one, in ns: a worker of the kernel takes
/// it off.
const LEAVES: u64 = 4_000_000;

impl Kernel {
    pub(crate) fn index_of(&mut self, name: &str) -> Option<u32> {
        self.interfaces.iter().find(|i| i.name == name && i.is_present).map(|i| i.index)
    }

    pub(crate) fn name_of(&mut self, index: u32) -> Option<String> {
        if self.step().is_err() {
            return None;
        }
        self.port_of(index).map(|port| self.interfaces[port].name.clone())
    }

    pub(crate) fn ioctl(&mut self, fd: c_int, request: c_ulong, argument: *mut c_void) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        if let Some(number) = self.armed.request.take_one() {
            self.met.count(Kind::RequestErrno);
            return error(number);
        }
        // SAFETY: requests about interfaces begin with the name of one.
        let request_of = unsafe { &mut *argument.cast::<libc::ifreq>() };
        let name: String =
            request_of.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
        let Some(port) = self.interfaces.iter().position(|i| i.name == name && i.is_present) else {
            return error(libc::ENODEV);
        };
        let interface = &mut self.interfaces[port];
        match request {
            libc::SIOCGIFMTU => request_of.ifr_ifru.ifru_mtu = interface.mtu as c_int,
            libc::SIOCGIFFLAGS => {
                let mut flags = 0;
                if interface.is_up {
                    flags |= libc::IFF_UP;
                }
                if interface.has_link() {
                    flags |= libc::IFF_RUNNING;
                }
                request_of.ifr_ifru.ifru_flags = flags as i16;
            }
            libc::SIOCSIFFLAGS => {
                // SAFETY: the process filled this member.
                let flags = unsafe { request_of.ifr_ifru.ifru_flags };
                interface.is_up = i32::from(flags) & libc::IFF_UP != 0;
            }
            libc::SIOCGIFHWADDR => {
                // SAFETY: all-zero is a valid address.
                let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
                address.sa_family = libc::ARPHRD_ETHER;
                address.sa_data[0] = 2;
                address.sa_data[5] = interface.index as libc::c_char;
                request_of.ifr_ifru.ifru_hwaddr = address;
            }
            libc::SIOCETHTOOL => {
                // SAFETY: the process points to a request of the driver, which begins with its number.
                return unsafe { self.ask_driver(port, request_of.ifr_ifru.ifru_data.cast()) };
            }
            _ => return error(libc::EOPNOTSUPP),
        }
        Some(0)
    }

    /// # Safety
    /// The pointer must be to a request of `ethtool`.
    unsafe fn ask_driver(&mut self, port: usize, words: *mut u32) -> Option<i64> {
        const GRO: (u32, u32) = (0x2b, 0x2c);
        const FLAGS: (u32, u32) = (0x25, 0x26);
        const LRO: u32 = 1 << 15;
        const VLAN: u32 = 1 << 8;
        let interface = &mut self.interfaces[port];
        // SAFETY: as the caller promises; each request has a second word at least.
        unsafe {
            match words.read() {
                0x3c => {
                    // struct ethtool_channels: combined_max is the fifth word, combined_count the ninth.
                    words.add(4).write(128);
                    words.add(8).write(interface.queues);
                }
                n if n == GRO.0 => words.add(1).write(u32::from(interface.offloads[0])),
                n if n == GRO.1 => interface.offloads[0] = words.add(1).read() != 0,
                n if n == FLAGS.0 => {
                    let [_, lro, vlan] = interface.offloads.map(u32::from);
                    words.add(1).write((lro * LRO) | (vlan * VLAN));
                }
                n if n == FLAGS.1 => {
                    let flags = words.add(1).read();
                    interface.offloads[1] = flags & LRO != 0;
                    interface.offloads[2] = flags & VLAN != 0;
                }
                _ => return error(libc::EOPNOTSUPP),
            }
            let _ = given::<u32>(words.cast());
        }
        Some(0)
    }
}
