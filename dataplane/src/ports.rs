//! The ports of a network function that routes: any number of them, and no wire between them.
//!
//! They fail closed. When the function dies or hangs, frames are the host's, as if it had never run: nobody else knows
//! where they should go.

use crate::engine::{LINK_OVERHEAD, check_mtus, chunk_for, in_best_mode, open_guard, sockets};
use crate::frames::{Arena, Frame};
use crate::guard::{self, Guard};
use crate::interface::Interface;
use crate::journal::{Journal, starting};
use crate::port::{Port, WAITING_MAX};
use crate::xsk::RING;
use crate::{Error, Mode, Received, neighbours};
use std::os::fd::RawFd;
use weir_units::{Duration, Time};

/// Room that there is at least in front of each frame, for the headers of a tunnel.
pub const HEADROOM_MIN: u32 = 128;
/// Age of the heartbeat at which frames are the host's again.
const FAIL_AFTER: Duration = Duration::from_millis(500);
/// Most descriptors that are waited on at once.
const WAITED_MAX: usize = 64;

/// Which ports, and how.
#[derive(Clone, Debug)]
pub struct PortsSetup {
    /// Names of the interfaces; ports are numbered in this order.
    pub names: Vec<String>,
    /// How frames come in and go out; `None` chooses the best that works for all.
    pub mode: Option<Mode>,
    /// Frames that may wait in queues, beside those in rings.
    pub frames: u32,
    /// Whether changes to interfaces are journalled on disk, for a start after a crash.
    pub journal: bool,
}

/// Open ports with the memory that frames live in. They are put back when they are closed.
pub struct Ports {
    ports: Vec<Port>,
    guards: Vec<Guard>,
    arena: Arena,
    journal: Journal,
    mode: Mode,
    mtus: Vec<u32>,
    said: Vec<String>,
}

struct Opened {
    arena: Arena,
    guards: Vec<Guard>,
    ports: Vec<Port>,
}

impl Ports {
    /// Opens the ports in the network namespace of this thread. Their frames come here as soon as the heart beats.
    pub fn open(setup: &PortsSetup) -> Result<Ports, Error> {
        let interfaces: Vec<Interface> =
            setup.names.iter().map(|name| Interface::find(name)).collect::<Result<_, _>>()?;
        for (at, port) in interfaces.iter().enumerate() {
            if interfaces[..at].contains(port) {
                let name = &port.name;
                return Err(Error::Refused(format!("`{name}` is two ports at once. Remedy: name another")));
            }
        }
        let mtus: Vec<u32> = interfaces.iter().map(Interface::mtu).collect::<Result<_, _>>()?;
        check_mtus(&interfaces.iter().collect::<Vec<_>>(), &mtus)?;
        let _starting = setup.journal.then(starting).transpose()?;
        let mut journal = Journal::open(setup.journal)?;
        let mut said = Vec::new();
        for port in &interfaces {
            guard::refuse_taken(port)?;
            neighbours::refuse_member(port)?;
            said.extend(neighbours::warn_of_addresses(port));
        }
        for port in &interfaces {
            said.extend(journal.prepare(port)?);
        }
        let longest = mtus.iter().max().map_or(0, |mtu| mtu + LINK_OVERHEAD);
        let open = |mode| open_in_mode(setup, &interfaces, longest, mode, &mut journal);
        let (mode, Opened { arena, guards, ports }) = in_best_mode(setup.mode, &interfaces, &mut said, open)?;
        Ok(Ports { ports, guards, arena, journal, mode, mtus, said })
    }

    /// What was changed and chosen, in words.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Largest network packet of a port.
    pub fn mtu(&self, port: usize) -> u32 {
        self.mtus[port]
    }

    /// Address of a port on its link.
    pub fn link_address(&self, port: usize) -> Result<[u8; 6], Error> {
        self.ports[port].interface.link_address()
    }

    /// The loop lives: frames come here and not to the host.
    pub fn beat(&self, now: Time) {
        self.guards.iter().for_each(|guard| guard.beat(now));
    }

    /// Takes received frames of a port, at most as many as `out` has room for.
    pub fn receive(&mut self, port: usize, now: Time, out: &mut Vec<Received>) {
        self.ports[port].receive(&mut self.arena, now, out);
    }

    /// The memory that frames live in.
    pub fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// How many more frames a port takes before it is behind.
    pub fn room(&self, port: usize) -> usize {
        self.ports[port].room()
    }

    /// Takes a frame to be sent at the next [`Ports::flush`].
    pub fn push(&mut self, port: usize, frame: Frame) {
        self.ports[port].push(frame);
    }

    /// Sends what waits and takes back the memory of what was sent.
    pub fn flush(&mut self) -> Result<(), Error> {
        for port in &mut self.ports {
            let Err(error) = port.flush(&mut self.arena) else { continue };
            return Err(match error.raw_os_error() {
                Some(libc::ENETDOWN) => continue,
                Some(libc::ENXIO | libc::ENODEV) => Error::PortGone(port.interface.name.clone(), Vec::new()),
                _ => Error::io(format!("cannot send on `{}`", port.interface.name), error),
            });
        }
        Ok(())
    }

    /// Frames that were lost before they came here. To be read once.
    pub fn lost(&self, port: usize) -> u64 {
        self.ports[port].lost()
    }

    /// Whether all interfaces are still there.
    pub fn look(&self) -> Result<(), Error> {
        match self.ports.iter().find(|port| !port.interface.exists()) {
            Some(gone) => Err(Error::PortGone(gone.interface.name.clone(), Vec::new())),
            None => Ok(()),
        }
    }

    /// Sleeps until a frame comes, `also` has something to read, or a span is over.
    pub fn wait(&self, also: Option<RawFd>, span: Duration) {
        let mut fds = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; WAITED_MAX];
        let mut count = 0;
        for fd in also.into_iter().chain(self.ports.iter().flat_map(Port::fds)).take(WAITED_MAX) {
            fds[count].fd = fd;
            count += 1;
        }
        let ns = span.as_nanos().min(999_999_999);
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: ns as libc::c_long };
        // SAFETY: the array holds `count` descriptors; no signal mask is passed.
        unsafe { libc::ppoll(fds.as_mut_ptr(), count as libc::nfds_t, &timeout, std::ptr::null()) };
        // An interface that went down leaves an error, which would end every further wait at once.
        let failed = fds[..count].iter().filter(|fd| fd.revents & libc::POLLERR != 0);
        failed.for_each(|fd| crate::packet_ring::clear_error(fd.fd));
    }

    /// Puts the interfaces back; says in words what it could not put back.
    pub fn close(mut self) -> Vec<String> {
        self.guards.iter().for_each(Guard::retire);
        drop(self.ports);
        drop(self.guards);
        self.journal.restore()
    }
}

fn open_in_mode(
    setup: &PortsSetup,
    interfaces: &[Interface],
    longest: u32,
    mode: Mode,
    journal: &mut Journal,
) -> Result<Opened, Error> {
    let count = interfaces.len() as u32;
    let in_rings = match mode {
        // Frames in rings are not in the arena: what waits for the ports, twice for rounding.
        Mode::AfPacket => 2 * count * WAITING_MAX as u32,
        // What the rings can hold, twice for what waits in between.
        _ => 4 * count * RING,
    };
    let arena = Arena::new(chunk_for(mode, longest, HEADROOM_MIN)?, in_rings + setup.frames)?;
    let mut guards = Vec::new();
    for interface in interfaces {
        guards.push(open_guard(interface, None, mode, FAIL_AFTER, journal)?);
    }
    let mut ports = Vec::new();
    let mut shared = None;
    for (interface, guard) in interfaces.iter().zip(&mut guards) {
        ports.push(if mode == Mode::AfPacket {
            let headroom = u64::from(HEADROOM_MIN);
            Port::packet(interface.clone(), longest as usize, headroom, guard.copy_filter())?
        } else {
            let opened = sockets(&arena, interface, guard, shared)?;
            shared = shared.or(opened.first().map(crate::xsk::Xsk::fd));
            Port::xdp(interface.clone(), opened)?
        });
    }
    if mode != Mode::AfPacket {
        guards.iter_mut().try_for_each(Guard::attach_xdp)?;
    }
    Ok(Opened { arena, guards, ports })
}
