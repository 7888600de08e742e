//! Looks after what the kernel keeps of ports while they are open: programs, offloads, queues, and who else
//! has the interface. What was changed underfoot is put back and told.
//!
//! A thread of its own does that: most of these questions wait for a lock that the kernel holds for all
//! changes of interfaces (RTNL), at times for longer than a heartbeat is fresh.

use crate::guard::Programs;
use crate::interface::{Interface, OFFLOADS};
use crate::journal::Journal;
use crate::neighbours::Relations;
use crate::watch::FlapWatch;
use crate::{Error, clock, neighbours, privileges};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks. What is found is told by the packet loop, which looks for it every 200 ms.
pub const LOOK: Duration = Duration::from_millis(300);

/// What was found.
pub enum Found {
    /// Something to be known.
    Told(String),
    /// The XDP program of a port hangs on a new link.
    Relinked(usize, OwnedFd),
    /// A port has so many receive queues now.
    Queues(usize, u32),
    /// Frames of a port must pass in the kernel from now on.
    Left(usize),
}

/// Looks after ports. A thread does so that `Upkeep::begin` starts, or whoever turns the loop, where that is
/// all in one thread.
#[derive(Clone)]
pub struct Chores(Arc<Mutex<Option<Work>>>);

/// What is there to look after, until the ports are closed.
struct Work {
    kept: Vec<Kept>,
    journal: Arc<Mutex<Journal>>,
    tell: Sender<Found>,
}

impl Chores {
    /// Looks once at each port, puts back what was changed, and tells the loop. Nothing after the ports were
    /// closed.
    pub fn look(&self) {
        if let Some(Work { kept, journal, tell }) = &mut *self.work() {
            kept.iter_mut().for_each(|port| port.look(journal, &mut |one| drop(tell.send(one))));
        }
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        // Also after a panic of the thread that looked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of those who look after ports. Nobody looks any more when this is dropped.
pub struct Upkeep {
    found: Receiver<Found>,
    chores: Chores,
    thread: Option<Thread>,
}

struct Thread {
    end: Sender<()>,
    handle: JoinHandle<()>,
}

impl Upkeep {
    /// What there is to do for these ports, of each with how many queues it serves where it does so one by
    /// one, without a thread that does it. `has_tags` says that frames have
    /// lost their VLAN tags where these are taken off.
    pub fn new(
        ports: Vec<(Interface, Programs, Option<u32>)>,
        has_tags: bool,
        journal: Arc<Mutex<Journal>>,
    ) -> Upkeep {
        let (tell, found) = channel();
        let keep = |(number, (interface, programs, served)): (usize, (Interface, Programs, Option<u32>))| {
            let relations = neighbours::relations(interface.index).unwrap_or_default();
            Kept {
                number,
                // Queues that appeared while the ports were opened are found at the first look.
                queues: served.unwrap_or_else(|| interface.receive_queues()),
                master: neighbours::master_named(relations.master),
                relations,
                flaps: FlapWatch::default(),
                interface,
                programs,
                troubles: Vec::new(),
                has_tags,
            }
        };
        let kept = ports.into_iter().enumerate().map(keep).collect();
        let chores = Chores(Arc::new(Mutex::new(Some(Work { kept, journal, tell }))));
        Upkeep { found, chores, thread: None }
    }

    /// Starts the thread.
    pub fn begin(&mut self) -> Result<(), Error> {
        let (end, ended) = channel();
        let chores = self.chores.clone();
        let body = move || {
            // What cannot be given up is no reason to leave the ports alone; whoever opened them says so.
            let _ = privileges::keep(&privileges::LOOP);
            while matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
                chores.look();
            }
        };
        let handle = std::thread::Builder::new().name("weir-upkeep".into()).spawn(body);
        let handle = handle.map_err(|e| Error::io("cannot start a thread", e))?;
        self.thread = Some(Thread { end, handle });
        Ok(())
    }

    /// What is to be done every [`LOOK`], where no thread does it.
    pub fn chores(&self) -> Chores {
        self.chores.clone()
    }

    /// Whether a thread does the work.
    pub fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// Whether the thread has ended though it was not told to; true once.
    pub fn has_failed(&mut self) -> bool {
        self.thread.take_if(|thread| thread.handle.is_finished()).is_some()
    }

    /// What was found since the last call.
    pub fn found(&self) -> impl Iterator<Item = Found> + '_ {
        self.found.try_iter()
    }
}

impl Drop for Upkeep {
    /// Nothing is put back any more when this returns.
    fn drop(&mut self) {
        if let Some(Thread { end, handle }) = self.thread.take() {
            drop(end);
            // One that panicked does nothing any more either.
            let _ = handle.join();
        }
        *self.chores.work() = None;
    }
}

/// A port that is looked after.
struct Kept {
    number: usize,
    interface: Interface,
    programs: Programs,
    queues: u32,
    /// The interface that this one belongs to.
    master: Option<String>,
    /// What it had to do with other interfaces at the last look.
    relations: Relations,
    flaps: FlapWatch,
    /// What was tried in vain and told: it is tried again, and not told again.
    troubles: Vec<String>,
    has_tags: bool,
}

impl Kept {
    fn look(&mut self, journal: &Mutex<Journal>, tell: &mut dyn FnMut(Found)) {
        if !self.interface.exists() {
            return;
        }
        self.look_at_filter(journal, tell);
        self.look_at_xdp(tell);
        self.look_at_offloads(journal, tell);
        self.look_at_queues(tell);
        self.look_at_relations(tell);
    }

    /// Tells what came of putting something back.
    fn tell(&mut self, what: &str, back: &str, result: Result<(), Error>, tell: &mut dyn FnMut(Found)) {
        let name = &self.interface.name;
        match result {
            Ok(()) => {
                self.troubles.retain(|trouble| trouble != what);
                tell(Found::Told(format!("{name}: {what} by another program while running; {back}")));
            }
            Err(error) if !self.troubles.iter().any(|trouble| trouble == what) => {
                self.troubles.push(what.into());
                tell(Found::Told(format!(
                    "{name}: {what} by another program while running, and that cannot be put back, which is tried \
                     again and again: {error}"
                )));
            }
            Err(_) => {}
        }
    }

    fn look_at_filter(&mut self, journal: &Mutex<Journal>, tell: &mut dyn FnMut(Found)) {
        if self.programs.has_filter() {
            return;
        }
        let brought = locked(journal).bring_clsact(&self.interface);
        let result = brought.and_then(|()| self.programs.attach_filter());
        let back = "it was put back: without it the link does not fail open";
        self.tell("the filter that fails open was removed", back, result, tell);
    }

    fn look_at_xdp(&mut self, tell: &mut dyn FnMut(Found)) {
        if self.programs.has_xdp() {
            return;
        }
        let result = self.programs.attach_xdp();
        let result = result.map(|link| tell(Found::Relinked(self.number, link)));
        let back = "it was put back; meanwhile the kernel forwarded past the queues";
        self.tell("the XDP program was taken off", back, result, tell);
    }

    fn look_at_offloads(&mut self, journal: &Mutex<Journal>, tell: &mut dyn FnMut(Found)) {
        for offload in &OFFLOADS {
            if !self.interface.feature(offload).unwrap_or(false) {
                continue;
            }
            let what = format!("{} was switched on", offload.name);
            let result = locked(journal).switch_off(&self.interface, offload);
            let is_refused = result.is_err();
            let is_new = is_refused && !self.troubles.contains(&what);
            self.tell(&what, "it was switched off again", result, tell);
            if is_new && offload.strips_tags && self.has_tags {
                tell(Found::Left(self.number));
            }
        }
    }

    fn look_at_queues(&mut self, tell: &mut dyn FnMut(Found)) {
        let now = self.interface.receive_queues();
        if now == self.queues {
            return;
        }
        // What goes wrong here is found and told at the next look.
        if now > self.queues
            && let Some(Ok(link)) = self.programs.reattach_xdp()
        {
            tell(Found::Relinked(self.number, link));
        }
        self.queues = now;
        tell(Found::Queues(self.number, now));
    }

    fn look_at_relations(&mut self, tell: &mut dyn FnMut(Found)) {
        // One that cannot be asked about is as it was.
        let Ok(now) = neighbours::relations(self.interface.index) else { return };
        let before = std::mem::replace(&mut self.relations, now);
        let name = &self.interface.name;
        if let (Some(known), Some(changes)) = (before.carrier_changes, self.relations.carrier_changes)
            && let Some(flaps) = self.flaps.look(changes.wrapping_sub(known), clock())
        {
            tell(Found::Told(format!("{name}: {flaps}")));
        }
        if self.relations.master == before.master {
            return;
        }
        // By the name that it had: one that is gone has none.
        let now = neighbours::master_named(self.relations.master);
        let before = std::mem::replace(&mut self.master, now);
        tell(Found::Told(match (&self.master, &before) {
            (Some(master), _) => format!(
                "{name}: it was made a part of `{master}` while running, which does not get the frames that are forwarded, \
                 and sends its own among them. Remedy: `ip link set dev {name} nomaster`"
            ),
            (None, Some(master)) => format!("{name}: it is no part of `{master}` any more"),
            (None, None) => return,
        }));
    }
}

/// The journal, also after a panic of another thread.
pub fn locked(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
