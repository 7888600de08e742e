//! Open ports, for the wire between two of them (`weir run`) and for functions that route between any number
//! (`weir upf`).
//!
//! Those of a wire fail open: when its loop dies or hangs, the kernel forwards between them. Those of a
//! function that routes fail closed: frames are the host's then, as if it had never run, as nobody else knows
//! where they should go.

use crate::frames::{Arena, Frame};
use crate::guard::{self, Guard};
use crate::interface::Interface;
use crate::journal::{Journal, starting};
use crate::mtu::{LINK_OVERHEAD, check_mtus};
use crate::neighbours::AddressWatch;
use crate::opening::{Opened, Opening};
use crate::port::{Port, Sleeper};
use crate::together::{self, Together};
use crate::{Error, Mode, Received, neighbours};
use std::os::fd::RawFd;
use weir_units::{Duration, Time};

/// Room that there is at least in front of each frame, for the headers of a tunnel.
pub const HEADROOM_MIN: u32 = 128;
/// Age of the heartbeat at which frames are the kernel's, where nobody says otherwise.
pub const FAIL_AFTER: Duration = Duration::from_millis(500);

/// Which ports, and how.
#[derive(Clone, Debug)]
pub struct PortsSetup {
    /// Names of the interfaces; ports are numbered in this order.
    pub names: Vec<String>,
    /// How frames come in and go out; `None` chooses the best that works for all.
    pub mode: Option<Mode>,
    /// Room in front of each frame, such as [`HEADROOM_MIN`] for the headers of a tunnel.
    pub headroom: u32,
    /// Frames that may wait in queues, beside those in rings.
    pub frames: u64,
    /// Whether the kernel forwards between two ports while nobody turns.
    pub fails_open: bool,
    /// Age of the heartbeat at which frames are the kernel's.
    pub fail_after: Duration,
    /// Whether changes to interfaces are journalled on disk, for a start after a crash.
    pub journal: bool,
}

/// Open ports with the memory that frames live in. They are put back when they are closed.
pub struct Ports {
    pub(crate) ports: Vec<Port>,
    guards: Vec<Guard>,
    sleeper: Sleeper,
    pub(crate) arena: Arena,
    journal: Journal,
    mode: Mode,
    /// MTUs that the rings were made for, and those of now.
    mtus: Vec<u32>,
    mtus_now: Vec<u32>,
    addresses: AddressWatch,
    is_bare: bool,
    said: Vec<String>,
    /// What of that is to be known when all is over, too.
    warnings: Vec<String>,
}

/// What happened to ports since the last look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortNews {
    /// Frames were lost before they came here.
    Lost(String),
    /// The MTU of a port was changed.
    Mtu(MtuChange),
    /// A port was given an address; what to say of it.
    Address(String),
}

/// The MTU of a port was changed while it was open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MtuChange {
    /// Number of the port.
    pub port: usize,
    /// Its name.
    pub name: String,
    /// What the MTU was, and is now.
    pub before: u32,
    /// See `before`.
    pub now: u32,
    /// Longest packet that can be sent from now on: buffers were made for the MTU at the start.
    pub most: u32,
}

impl MtuChange {
    /// In words; `when` and what becomes of longer packets are up to the host.
    pub fn warning(&self, when: &str, becomes: &str) -> String {
        let MtuChange { name, before, now, most, .. } = self;
        let remedy = if now > most { ". Remedy: start the run again to forward longer ones" } else { "" };
        format!(
            "{name}: its MTU was changed from {before} to {now} while running{when}; packets of more than {most} bytes are \
             {becomes}{remedy}"
        )
    }
}

impl Ports {
    /// Opens the ports in the network namespace of this thread. Their frames come here as soon as the heart
    /// beats.
    pub fn open(setup: &PortsSetup) -> Result<Ports, Error> {
        let interfaces: Vec<Interface> =
            setup.names.iter().map(|name| Interface::find(name)).collect::<Result<_, _>>()?;
        let Together { is_bare, without } = together::look(&interfaces, setup.fails_open)?;
        let mtus: Vec<u32> = interfaces.iter().map(Interface::mtu).collect::<Result<_, _>>()?;
        check_mtus(&interfaces.iter().collect::<Vec<_>>(), &mtus)?;
        let _starting = setup.journal.then(starting).transpose()?;
        let mut journal = Journal::open(setup.journal)?;
        let (mut said, mut warnings) = (Vec::new(), Vec::new());
        // From here on, so that none is given between the look and the watch.
        let addresses = AddressWatch::new(&interfaces);
        for port in &interfaces {
            guard::refuse_taken(port)?;
            neighbours::refuse_member(port)?;
            warnings.extend(neighbours::warn_of_addresses(port));
        }
        said.extend(warnings.iter().cloned());
        for port in &interfaces {
            said.extend(journal.prepare(port)?);
        }
        let opening = Opening {
            interfaces: &interfaces,
            is_bare,
            without,
            fails_open: setup.fails_open,
            after: setup.fail_after,
            longest: mtus.iter().max().map_or(0, |mtu| mtu + LINK_OVERHEAD),
            headroom: setup.headroom,
            frames: setup.frames,
            journal: &mut journal,
        };
        let (mode, Opened { arena, guards, ports }) = opening.in_best_mode(setup.mode, &mut said)?;
        let sleeper = Sleeper::new(&ports);
        let mtus_now = mtus.clone();
        Ok(Ports {
            ports,
            guards,
            sleeper,
            arena,
            journal,
            mode,
            mtus,
            mtus_now,
            addresses,
            is_bare,
            said,
            warnings,
        })
    }

    /// Whether frames come and go without an Ethernet header. Here they have one.
    pub(crate) fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// What was changed and chosen, in words.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// What of that is to be known when all is over, too.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
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

    /// Frames that the kernel forwarded past the loop.
    pub(crate) fn bypassed(&self) -> u64 {
        self.guards.iter().map(Guard::bypassed).sum()
    }

    /// Makes the loop poll drivers that defer their interrupts; to be called before it turns.
    pub fn poll_drivers_if_deferred(&mut self) {
        self.ports.iter_mut().for_each(Port::poll_driver_if_deferred);
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

    /// Whether all interfaces are still there. Tells what was lost before it came here, changes of MTUs and new
    /// addresses.
    pub fn look(&mut self, now: Time, tell: &mut dyn FnMut(PortNews)) -> Result<(), Error> {
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.look_for_losses(now).into_iter().for_each(|lost| tell(PortNews::Lost(lost)));
            let interface = &port.interface;
            if !interface.exists() {
                return Err(Error::PortGone(interface.name.clone(), Vec::new()));
            }
            // One that is going just now is missed at the next look.
            let mtu = interface.mtu().unwrap_or(self.mtus_now[number]);
            let before = std::mem::replace(&mut self.mtus_now[number], mtu);
            if mtu != before {
                let (name, most) = (interface.name.clone(), mtu.min(self.mtus[number]));
                tell(PortNews::Mtu(MtuChange { port: number, name, before, now: mtu, most }));
            }
        }
        let given = self.addresses.look(self.ports.iter().map(|port| &port.interface));
        given.into_iter().for_each(|warning| tell(PortNews::Address(warning)));
        Ok(())
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
