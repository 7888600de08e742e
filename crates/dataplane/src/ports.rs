//! The ports of a network function that routes: any number of them, and no wire between them.
//!
//! They fail closed. When the function dies or hangs, frames are the host's, as if it had never run: nobody else knows
//! where they should go.

use crate::engine::{LINK_OVERHEAD, check_mtus};
use crate::frames::{Arena, Frame};
use crate::guard::{self, Guard};
use crate::interface::Interface;
use crate::journal::{Journal, starting};
use crate::opening::{Opened, Opening};
use crate::port::{Port, Sleeper};
use crate::{Error, Mode, Received, neighbours};
use std::os::fd::RawFd;
use weir_units::{Duration, Time};

/// Room that there is at least in front of each frame, for the headers of a tunnel.
pub const HEADROOM_MIN: u32 = 128;
/// Age of the heartbeat at which frames are the host's again.
const FAIL_AFTER: Duration = Duration::from_millis(500);

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
    sleeper: Sleeper,
    arena: Arena,
    journal: Journal,
    mode: Mode,
    mtus: Vec<u32>,
    said: Vec<String>,
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
        interfaces.iter().try_for_each(Interface::refuse_without_ethernet)?;
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
        let opening = Opening {
            interfaces: &interfaces,
            fails_open: false,
            after: FAIL_AFTER,
            longest: mtus.iter().max().map_or(0, |mtu| mtu + LINK_OVERHEAD),
            headroom: HEADROOM_MIN,
            frames: setup.frames.into(),
            journal: &mut journal,
        };
        let (mode, Opened { arena, guards, ports }) = opening.in_best_mode(setup.mode, &mut said)?;
        let sleeper = Sleeper::new(&ports);
        Ok(Ports { ports, guards, sleeper, arena, journal, mode, mtus, said })
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

    /// Frames of all ports that were lost before they came here, up to the last look.
    pub fn lost(&self) -> u64 {
        self.ports.iter().map(Port::lost).sum()
    }

    /// Whether all interfaces are still there. Counts what was lost before it came here, and warns of it.
    pub fn look(&mut self, now: Time, warn: &mut dyn FnMut(String)) -> Result<(), Error> {
        self.ports.iter_mut().filter_map(|port| port.look_for_losses(now)).for_each(warn);
        match self.ports.iter().find(|port| !port.interface.exists()) {
            Some(gone) => Err(Error::PortGone(gone.interface.name.clone(), Vec::new())),
            None => Ok(()),
        }
    }

    /// Sleeps until a frame comes, `also` has something to read, or a span is over.
    pub fn wait(&mut self, also: Option<RawFd>, span: Duration) {
        self.sleeper.sleep(also, span);
    }

    /// Puts the interfaces back; says in words what it could not put back.
    pub fn close(mut self) -> Vec<String> {
        self.guards.iter().for_each(Guard::retire);
        drop(self.ports);
        drop(self.guards);
        self.journal.restore()
    }
}
