//! A port: one interface, as the packet loop sees it.

use crate::frames::{Arena, Frame};
use crate::interface::Interface;
use crate::packet_ring::{self, PacketRing};
use crate::xsk::{RING, Xsk};
use crate::{Error, Received};
use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use weir_units::Time;

/// How frames come in and go out.
enum Rings {
    /// A socket for each receive queue; frames are sent by the first.
    Xdp(Vec<Xsk>),
    Packet(PacketRing),
}

/// An interface with its rings.
pub struct Port {
    /// Which interface.
    pub interface: Interface,
    rings: Rings,
    /// Frames to be sent that had no room in the ring yet.
    waiting: VecDeque<Frame>,
    _promiscuous: OwnedFd,
}

/// Frames that may wait for the ring; when so many wait the queues are held back.
pub const WAITING_MAX: usize = RING as usize;

/// Whether the kernel leaves it to a busy program to take an interface's frames, for some time.
fn defers_interrupts(name: &str) -> bool {
    ["napi_defer_hard_irqs", "gro_flush_timeout"].iter().all(|setting| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{setting}"));
        text.is_ok_and(|t| t.trim().parse::<u64>().is_ok_and(|n| n > 0))
    })
}

impl Port {
    /// Opens AF_XDP sockets on all queues.
    pub fn xdp(interface: Interface, sockets: Vec<Xsk>) -> Result<Port, Error> {
        Port::new(interface, Rings::Xdp(sockets))
    }

    /// Opens AF_PACKET rings; `filter` says which frames are copied to them, with so much room in front of each.
    pub fn packet(
        interface: Interface,
        frame_max: usize,
        headroom: u64,
        filter: RawFd,
    ) -> Result<Port, Error> {
        let ring = PacketRing::open(interface.index, frame_max, headroom, filter)?;
        Port::new(interface, Rings::Packet(ring))
    }

    fn new(interface: Interface, rings: Rings) -> Result<Port, Error> {
        let promiscuous = packet_ring::promiscuous(interface.index)?;
        let waiting = VecDeque::with_capacity(2 * WAITING_MAX);
        Ok(Port { interface, rings, waiting, _promiscuous: promiscuous })
    }

    /// Takes received frames, at most as many as `out` has room for.
    pub fn receive(&mut self, arena: &mut Arena, now: Time, out: &mut Vec<Received>) {
        match &mut self.rings {
            Rings::Xdp(sockets) => {
                for socket in sockets {
                    socket.receive(arena, now, out);
                }
            }
            Rings::Packet(ring) => ring.receive(arena, now, out),
        }
    }

    /// How many more frames may be given to [`Port::push`] before the port is behind.
    pub fn room(&self) -> usize {
        WAITING_MAX.saturating_sub(self.waiting.len())
    }

    /// Takes a frame to be sent at the next [`Port::flush`].
    pub fn push(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// Sends what waits and takes back the memory of what was sent.
    pub fn flush(&mut self, arena: &mut Arena) -> Result<(), std::io::Error> {
        match &mut self.rings {
            Rings::Xdp(sockets) => {
                if let Some(first) = sockets.first_mut() {
                    first.send(&mut self.waiting);
                    first.kick()?;
                }
                for socket in sockets {
                    socket.reclaim(arena);
                    socket.refill(arena);
                }
                Ok(())
            }
            Rings::Packet(ring) => {
                ring.send(arena, &mut self.waiting);
                ring.kick()
            }
        }
    }

    /// Polls the driver while taking frames if somebody set the interface to wait for that
    /// (`napi_defer_hard_irqs` and `gro_flush_timeout`): otherwise each frame would wait for the timeout.
    pub fn poll_driver_if_deferred(&mut self) {
        match &mut self.rings {
            Rings::Xdp(sockets) if defers_interrupts(&self.interface.name) => {
                sockets.iter_mut().for_each(Xsk::poll_driver);
            }
            _ => {}
        }
    }

    /// Frames the kernel or the ring lost before the loop saw them. To be read once.
    pub fn lost(&self) -> u64 {
        match &self.rings {
            Rings::Xdp(sockets) => sockets.iter().map(Xsk::kernel_drops).sum(),
            Rings::Packet(ring) => ring.oversized + ring.no_memory + ring.kernel_drops(),
        }
    }

    /// Descriptors to wait on for frames.
    pub fn fds(&self) -> Vec<RawFd> {
        match &self.rings {
            Rings::Xdp(sockets) => sockets.iter().map(Xsk::fd).collect(),
            Rings::Packet(ring) => vec![ring.fd()],
        }
    }
}
