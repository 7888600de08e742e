//! Open ports, for the wire between two of them (`weir run`) and for functions that route between any number
//! (`weir upf`).
//!
//! Those of a wire fail open: when its loop dies or hangs, the kernel forwards between them. Those of a
//! function that routes fail closed: frames are the host's then, as if it had never run, as nobody else knows
//! where they should go.

use crate::frames::{Arena, Frame};
use crate::guard::{self, Guard};
use crate::interface::Interface;
use crate::journal::{JOURNALS, Journal, Starting, TakenOver};
use crate::mtu::{LINK_OVERHEAD, check_mtus};
use crate::neighbours::AddressWatch;
use crate::opening::{Made, Opened, Opening, Progress, Watcher};
use crate::port::{Port, Sleeper};
use crate::together::{self, Together};
use crate::upkeep::{Chores, Found, Upkeep, locked};
use crate::watch::{LinkWatch, Links};
use crate::{Error, Mode, QUEUES_MAX, Received, clock, neighbours};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use weir_units::{Duration, Time};

/// Room that there is at least in front of each frame, for the headers of a tunnel.
pub const HEADROOM_MIN: u32 = 128;
/// Age of the heartbeat at which frames are the kernel's, where nobody says otherwise.
pub const FAIL_AFTER: Duration = Duration::from_millis(500);
/// Stack of a thread that closes a socket.
const CLOSER_STACK: usize = 1 << 16;

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
    /// Whether changes to interfaces are journalled on disk, for a start after a crash. Then the ports are
    /// looked after, too: what others take off or switch on is put back and told.
    pub journal: bool,
    /// Whether the ports of a living run are taken over.
    pub takeover: bool,
}

/// Open ports with the memory that frames live in. They are put back when they are closed.
pub struct Ports {
    pub(crate) ports: Vec<Port>,
    guards: Vec<Guard>,
    sleeper: Sleeper,
    pub(crate) arena: Arena,
    /// Looks after what the kernel keeps; `None` in namespaces that were made for this. It goes before the
    /// journal, so that after a panic of the loop it is the loop's thread that drops the journal, which knows
    /// of the panic.
    upkeep: Option<Upkeep>,
    journal: Arc<Mutex<Journal>>,
    /// Receive queues that each port is to have, and whether some have no socket yet.
    queues: Vec<Option<u32>>,
    lacks_sockets: bool,
    /// Ports whose next queue was refused a socket: when it is tried again.
    refused: Vec<Option<Refused>>,
    /// What is to be told at the next look.
    untold: Vec<String>,
    /// Since when each port can neither send nor be refilled, and why; whether that was told.
    failing: Vec<Option<Failing>>,
    fail_after: Duration,
    mode: Mode,
    /// MTUs that the rings were made for, and those of now.
    mtus: Vec<u32>,
    mtus_now: Vec<u32>,
    links: LinkWatch,
    addresses: AddressWatch,
    is_bare: bool,
    said: Vec<String>,
    /// What of that is to be known when all is over, too.
    warnings: Vec<String>,
}

/// A port on which the system refuses what it should not refuse.
struct Failing {
    since: Time,
    error: String,
    is_told: bool,
}

/// A socket for a queue that was added could not be had.
#[derive(Clone, Copy)]
struct Refused {
    due: Time,
    pause: Duration,
}

impl Refused {
    /// After which it is tried again, at first and at most.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
}

/// What happened to ports since the last look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortNews {
    /// Frames were lost before they came here.
    Lost(String),
    /// Something else that is to be known.
    Told(String),
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
    /// beats. A thread looks after what the kernel keeps of them, where `setup` says so.
    pub fn open(setup: &PortsSetup) -> Result<Ports, Error> {
        Ports::open_while(setup, &mut |_| true)
    }

    /// As [`Ports::open`], for as long as `watcher` says so, who is told of each step.
    pub fn open_while(
        setup: &PortsSetup,
        watcher: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<Ports, Error> {
        let mut ports = Ports::open_alone(setup, watcher)?;
        ports.upkeep.as_mut().map_or(Ok(()), Upkeep::begin)?;
        Ok(ports)
    }

    /// As [`Ports::open`], without that thread: whoever turns the loop does its work ([`Ports::chores`]).
    pub(crate) fn open_alone(setup: &PortsSetup, watcher: Watcher<'_>) -> Result<Ports, Error> {
        let interfaces: Vec<Interface> =
            setup.names.iter().map(|name| Interface::find(name)).collect::<Result<_, _>>()?;
        let Together { is_bare, without } = together::look(&interfaces, setup.fails_open)?;
        let mtus: Vec<u32> = interfaces.iter().map(Interface::mtu).collect::<Result<_, _>>()?;
        check_mtus(&interfaces.iter().collect::<Vec<_>>(), &mtus)?;
        let starting =
            setup.journal.then(|| Starting::wait(JOURNALS.as_ref(), &mut || watcher(Progress::Waiting)));
        let starting = starting.transpose()?;
        let mut watcher = |at: Progress<'_>| {
            starting.iter().for_each(Starting::goes_on);
            watcher(at)
        };
        let mut journal = Journal::open(setup.journal, setup.fails_open)?;
        let (mut said, mut warnings) = (Vec::new(), Vec::new());
        let longest = mtus.iter().max().map_or(0, |mtu| mtu + LINK_OVERHEAD);
        let sizes = (longest, setup.headroom, setup.frames);
        let made =
            setup.takeover.then(|| Made::beforehand(&interfaces, setup.mode, &without, sizes)).flatten();
        // From here on, so that none is given between the look and the watch.
        let addresses = AddressWatch::new(&interfaces);
        for port in &interfaces {
            neighbours::refuse_member(port)?;
            warnings.extend(neighbours::warn_of_addresses(port));
        }
        let taken = match setup.journal {
            true => journal.take_over(&interfaces, setup.takeover)?,
            false => TakenOver::default(),
        };
        said.extend(taken.said.iter().cloned());
        for (at, port) in interfaces.iter().enumerate() {
            match (taken.is_any, taken.links.get(at)) {
                (false, _) => guard::refuse_taken(port)?,
                (true, Some(Some(_))) => {}
                (true, _) => guard::refuse_other_xdp(port)?,
            }
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
            longest,
            headroom: setup.headroom,
            frames: setup.frames,
            journal: &mut journal,
            is_taken_over: taken.is_any,
            links: taken.links,
            made,
            watcher: &mut watcher,
        };
        let (mode, Opened { arena, guards, ports }) = opening.in_best_mode(setup.mode, &mut said)?;
        if setup.journal && mode == Mode::XdpGeneric {
            let lossy: Vec<String> = interfaces.iter().filter_map(neighbours::warn_of_lost_tags).collect();
            said.extend(lossy.iter().cloned());
            warnings.extend(lossy);
        }
        let sleeper = Sleeper::new(&ports);
        let links = LinkWatch::new(interfaces.len());
        let mtus_now = mtus.clone();
        let journal = Arc::new(Mutex::new(journal));
        let kept = |((interface, guard), port): ((&Interface, &Guard), &Port)| {
            Ok((interface.clone(), guard.programs()?, port.queues()))
        };
        let upkeep = match setup.journal {
            true => {
                let kept = interfaces.iter().zip(&guards).zip(&ports).map(kept);
                let kept = kept.collect::<Result<_, Error>>()?;
                Some(Upkeep::new(kept, mode != Mode::AfPacket, journal.clone()))
            }
            false => None,
        };
        let queues = ports.iter().map(Port::queues).collect();
        let failing = ports.iter().map(|_| None).collect();
        let fail_after = setup.fail_after;
        Ok(Ports {
            ports,
            guards,
            sleeper,
            arena,
            journal,
            upkeep,
            queues,
            lacks_sockets: false,
            refused: vec![None; interfaces.len()],
            untold: Vec::new(),
            failing,
            fail_after,
            mode,
            mtus,
            mtus_now,
            links,
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

    /// Sends what waits and takes back the memory of what was sent. What the system refuses is tried again; a
    /// port on which it does so for as long as a heartbeat is fresh has failed.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.lacks_sockets {
            self.add_queue();
        }
        for number in 0..self.ports.len() {
            match self.ports[number].flush(&mut self.arena) {
                Ok(()) => self.failing[number] = None,
                Err(error) => self.failed(number, error)?,
            }
        }
        Ok(())
    }

    #[cold]
    fn failed(&mut self, number: usize, error: std::io::Error) -> Result<(), Error> {
        let interface = &self.ports[number].interface;
        match error.raw_os_error() {
            // Told as a link that is down.
            Some(libc::ENETDOWN) => return Ok(()),
            _ if interface.is_up().is_ok_and(|is_up| !is_up) => return Ok(()),
            Some(libc::ENXIO | libc::ENODEV) if !interface.exists() => {
                return Err(Error::PortGone(interface.name.clone(), Vec::new()));
            }
            _ => {}
        }
        let now = clock();
        let begun = || Failing { since: now, error: error.to_string(), is_told: false };
        let failing = self.failing[number].get_or_insert_with(begun);
        if now.since(failing.since) < self.fail_after {
            return Ok(());
        }
        Err(Error::io(format!("`{}` neither sends nor takes buffers", interface.name), error))
    }

    /// Frames of all ports that were lost before they came here, up to the last look.
    pub fn lost(&self) -> u64 {
        self.ports.iter().map(Port::lost).sum()
    }

    /// Whether ports have a link, and what each lost, as last seen.
    pub fn links(&self) -> &Links {
        self.links.links()
    }

    /// Tells there from now on whether ports have a link, and what each lost.
    pub fn tell_links(&mut self, to: Links) {
        self.links.tell(to);
    }

    /// Whether all interfaces are still there. Tells what was lost before it came here, links that are lost
    /// and found, changes of MTUs, new addresses, and what others changed underfoot; serves queues that were
    /// added.
    pub fn look(&mut self, now: Time, tell: &mut dyn FnMut(PortNews)) -> Result<(), Error> {
        self.take_found(tell);
        self.lacks_sockets |= self.refused.iter().flatten().any(|refused| refused.due <= now);
        self.untold.drain(..).for_each(|text| tell(PortNews::Told(text)));
        for (failing, port) in self.failing.iter_mut().zip(&self.ports) {
            if let Some(failing) = failing.as_mut().filter(|failing| !failing.is_told) {
                failing.is_told = true;
                let name = &port.interface.name;
                tell(PortNews::Told(format!(
                    "{name}: the system refuses to send or receive: {}",
                    failing.error
                )));
            }
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.look_for_losses(now).into_iter().for_each(|lost| tell(PortNews::Lost(lost)));
            self.links.links().set_lost(number, port.lost());
            let interface = &mut port.interface;
            match interface.name_now() {
                Some(called) if called.as_bytes() != interface.name.as_bytes() => {
                    let called = called.to_string_lossy().into_owned();
                    tell(PortNews::Told(format!(
                        "{}: it is called {called} from now on, and served as before. Remedy: change the name in the \
                         configuration before the next start",
                        interface.name
                    )));
                    interface.name = called;
                }
                Some(_) => {}
                None if interface.exists() => {}
                None => return Err(Error::PortGone(interface.name.clone(), Vec::new())),
            }
            let changed = self.links.look(number, interface, now);
            changed.into_iter().for_each(|text| tell(PortNews::Told(text)));
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

    /// What it sleeps on, for those who sleep for several at once.
    pub(crate) fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }

    /// Takes what was found by whoever looks after the ports.
    fn take_found(&mut self, tell: &mut dyn FnMut(PortNews)) {
        let Some(upkeep) = &mut self.upkeep else { return };
        if upkeep.has_failed() {
            tell(PortNews::Told(
                "nobody looks any more whether programs and offloads of the ports are as they were: the thread that did \
                 has ended by itself. Remedy: start the run again, with --takeover without a gap"
                    .into(),
            ));
        }
        for found in upkeep.found() {
            match found {
                Found::Told(text) => tell(PortNews::Told(text)),
                Found::Relinked(port, link) => self.guards[port].relink(link),
                Found::Left(port) => {
                    self.guards[port].leave();
                    let name = &self.ports[port].interface.name;
                    tell(PortNews::Told(format!(
                        "{name}: what arrives there passes in the kernel from now on, past the queues, so that VLAN tags \
                         are kept. Remedy: start the run again with mode = \"af_packet\""
                    )));
                }
                Found::Queues(port, count) => {
                    let (name, before) = (&self.ports[port].interface.name, &mut self.queues[port]);
                    let Some(before) = before else { continue };
                    let more = match count > QUEUES_MAX {
                        true => format!(
                            "; {QUEUES_MAX} are served, and the kernel forwards what arrives at others"
                        ),
                        false => String::new(),
                    };
                    tell(PortNews::Told(format!(
                        "{name}: it has {count} receive queues now, and had {before}{more}"
                    )));
                    *before = count.min(QUEUES_MAX);
                    self.lacks_sockets = true;
                }
            }
        }
    }

    /// Serves a queue that was added, one in a turn, as each takes some milliseconds: until then the kernel
    /// forwards what arrives there.
    #[cold]
    fn add_queue(&mut self) {
        self.lacks_sockets = false;
        for number in 0..self.ports.len() {
            let (port, guard) = (&mut self.ports[number], &self.guards[number]);
            let (Some(wanted), Some(served)) = (self.queues[number], port.queues()) else { continue };
            if served >= wanted {
                continue;
            }
            let (name, now) = (port.interface.name.clone(), clock());
            let refused = &mut self.refused[number];
            if refused.is_some_and(|refused| now < refused.due) {
                continue;
            }
            // There may be more, also at another port.
            self.lacks_sockets = true;
            match port.add_queue(&mut self.arena, guard) {
                Ok(()) if refused.take().is_some() => {
                    self.untold.push(format!("{name}: its receive queue {served} is served from now on"));
                }
                Ok(()) => {}
                Err(error) => {
                    if refused.is_none() {
                        self.untold.push(format!(
                            "{name}: what arrives at its receive queues from number {served} on passes in the kernel, past \
                             the queues; that is tried again: {error}"
                        ));
                    }
                    let (first, most) = Refused::PAUSES;
                    let pause = refused.map_or(first, |refused| (refused.pause + refused.pause).min(most));
                    *refused = Some(Refused { due: now + pause, pause });
                }
            }
            self.sleeper = Sleeper::new(&self.ports);
            return;
        }
    }

    /// What is to be done every [`crate::upkeep::LOOK`] where no thread does it; nothing for ports that
    /// nobody looks after.
    pub(crate) fn chores(&self) -> Option<Chores> {
        self.upkeep.as_ref().map(Upkeep::chores)
    }

    /// How frames of a port come in and go out, with the number of its queues, in words.
    pub fn describe(&self, port: usize) -> String {
        let Port { interface, .. } = &self.ports[port];
        let queues = interface.receive_queues();
        let copies = match self.ports[port].is_zero_copy() {
            Some(true) => ", zero-copy",
            Some(false) => ", with copies",
            None => "",
        };
        format!(
            "{}: {}{copies}, {queues} receive queue{}",
            interface.name,
            self.mode,
            if queues == 1 { "" } else { "s" }
        )
    }

    /// The process that wants to take the ports over, if one does. Whoever looks after the ports has the
    /// journal while it waits for the kernel, at times for longer than a heartbeat is fresh: then this says
    /// nothing, and is to be asked again.
    pub fn is_asked_for(&self) -> Option<u32> {
        match self.journal.try_lock() {
            Ok(journal) => journal.is_asked_for(),
            Err(TryLockError::Poisoned(journal)) => journal.into_inner().is_asked_for(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// From now on the kernel forwards what arrives; what arrived before can still be taken and sent.
    pub(crate) fn retire(&mut self) {
        self.guards.iter_mut().for_each(Guard::leave);
    }

    /// Whether all that was to be sent is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.ports.iter().all(Port::is_idle)
    }

    /// Leaves the ports as they are: to the kernel, which goes on forwarding, or to a run that takes over;
    /// `kept` says that all is in order.
    pub fn leave(mut self, kept: bool) {
        self.retire();
        let has_threads = self.end_upkeep_and_sockets();
        let Ports { journal, ports, guards, arena, .. } = self;
        // Whoever takes over waits for this.
        if let Some(journal) = Arc::into_inner(journal) {
            journal.into_inner().unwrap_or_else(PoisonError::into_inner).leave(kept);
        }
        // To close what is left takes as long again: programs, those that are attached stay, and sockets
        // that are in nobody's way. Nobody waits for it.
        let rest = (ports, guards, arena);
        if has_threads {
            let _ = std::thread::Builder::new().name("weir-closing".into()).spawn(move || drop(rest));
        }
    }

    /// Nobody looks after the ports any more, and their queues have no sockets. The kernel waits for all
    /// processors with each socket that is closed, which it does for many at once where there are threads.
    /// Says whether there are.
    fn end_upkeep_and_sockets(&mut self) -> bool {
        let has_threads = self.upkeep.take().is_some_and(|upkeep| upkeep.has_thread());
        let sockets: Vec<_> = self.ports.iter_mut().flat_map(Port::take_sockets).collect();
        if !has_threads {
            return false;
        }
        std::thread::scope(|scope| {
            for socket in sockets {
                // Where there is no thread to be had it is closed here.
                let _ =
                    std::thread::Builder::new().stack_size(CLOSER_STACK).spawn_scoped(scope, || drop(socket));
            }
        });
        true
    }

    /// Puts the interfaces back; says in words what it could not put back.
    pub fn close(mut self) -> Vec<String> {
        self.retire();
        self.end_upkeep_and_sockets();
        drop(self.ports);
        drop(self.guards);
        locked(&self.journal).restore()
    }
}
