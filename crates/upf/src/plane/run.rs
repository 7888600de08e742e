//! The packet loop on interfaces, and the way to it from control.

use super::control::{Answer, Command};
use super::handle::{PlaneHandle, Reach};
use super::io::{Io, Nowhere};
use super::path::{PlaneEvent, PortInterface, UserPlane};
use super::setup::PlaneSetup;
use rtrb::{Consumer, Producer, RingBuffer};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_dataplane::{
    Error, FAIL_AFTER, Frame, HEADROOM_MIN, LinkState, Links, Mode, PortNews, Ports, PortsSetup, Progress,
    Received, clock, privileges,
};
use weir_units::{Duration, Time};

/// Frames taken from a port in one turn.
const BATCH: usize = 256;
/// What is asked and not answered yet.
const ASKED: usize = 16;
/// What happened and was not fetched.
const HAPPENED: usize = 4096;
/// Warnings kept for a reader that is late: newer ones are not told then.
const WARNINGS: usize = 64;
/// How often the loop looks whether its interfaces are still there.
const PRESENCE: Duration = Duration::from_millis(200);
/// How often ports that do not work are opened again.
const REOPEN: Duration = Duration::from_millis(500);
/// Longest sleep of a loop that sleeps: the heart must beat meanwhile.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// A turn that begins later than it was meant to by so much counts as a stall.
const STALL: Duration = Duration::from_millis(1);
/// How often whoever asks looks for the answer before giving the processor away.
const SPINS: u32 = 200;

/// How the loop runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How frames come in and go out; `None` for the best that works.
    pub mode: Option<Mode>,
    /// Whether changes to interfaces are journalled on disk, for a start after a crash.
    pub journal: bool,
    /// Whether to turn all the time instead of sleeping until something happens.
    pub busy: bool,
    /// Whether the ports of a living run are taken over.
    pub takeover: bool,
}

impl Io for Ports {
    fn bytes(&mut self, frame: Frame) -> &mut [u8] {
        self.arena().bytes(frame)
    }

    fn take(&mut self, len: usize) -> Option<Frame> {
        let room = (self.arena().chunk() - HEADROOM_MIN) as usize;
        let addr = if len <= room { self.arena().take()? } else { return None };
        Some(Frame { addr: addr + u64::from(HEADROOM_MIN), len: len as u32 })
    }

    fn give(&mut self, frame: Frame) {
        self.arena().give(frame.addr);
    }

    fn room(&self, port: usize) -> usize {
        Ports::room(self, port)
    }

    fn push(&mut self, port: usize, frame: Frame) {
        Ports::push(self, port, frame);
    }
}

/// Wakes a loop that sleeps.
struct Bell(OwnedFd);

impl Bell {
    fn new() -> Result<Bell, Error> {
        // SAFETY: no pointers are involved.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if raw < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Error::Os { what: "cannot open an event descriptor".into(), error });
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the pointer and length describe `one`.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn quiet(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the pointer and length describe `count`.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// What the loop tells without being asked.
#[derive(Clone)]
struct Told {
    /// Whether ports have a link: none while they do not work.
    links: Links,
    /// Time in which the loop was meant to turn and did not, in ns.
    stalled: Arc<AtomicU64>,
}

/// A packet loop, ready to run.
pub struct PlaneLoop {
    plane: UserPlane,
    /// Until it runs.
    ports: Option<Ports>,
    /// With which they are opened again.
    setup: PortsSetup,
    count: usize,
    asked: Consumer<Command>,
    answers: Producer<Answer>,
    events: Producer<PlaneEvent>,
    warnings: Producer<String>,
    bell: Arc<Bell>,
    told: Told,
    busy: bool,
}

/// The way to a running loop.
pub struct Remote {
    asked: Producer<Command>,
    answers: Consumer<Answer>,
    events: Consumer<PlaneEvent>,
    warnings: Consumer<String>,
    bell: Arc<Bell>,
    told: Told,
}

impl Remote {
    /// What happened to the ports since the last call and is to be known, oldest first.
    pub fn warnings(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.warnings.pop().ok()).collect()
    }

    /// Whether ports have a link, and what each lost.
    pub fn links(&self) -> &Links {
        &self.told.links
    }

    /// Time in which the loop was meant to turn and did not, in stalls of more than a millisecond.
    pub fn stalled(&self) -> Duration {
        Duration::from_nanos(self.told.stalled.load(Ordering::Relaxed))
    }
}

/// Opens the ports in the network namespace of this thread, and makes a packet loop with the desk before it.
/// Rules can be put in place as soon as [`PlaneLoop::run`] turns.
pub fn open(setup: PlaneSetup, pace: Pace) -> Result<(PlaneLoop, PlaneHandle<Remote>), Error> {
    open_while(setup, pace, &mut |_| true)
}

/// As [`open`], for as long as `watcher` says so, who is told of each step; else [`Error::GivenUp`].
pub fn open_while(
    setup: PlaneSetup,
    pace: Pace,
    watcher: &mut dyn FnMut(Progress<'_>) -> bool,
) -> Result<(PlaneLoop, PlaneHandle<Remote>), Error> {
    let named = [Some(&setup.access), Some(&setup.core), setup.local.as_ref()];
    let names: Vec<String> = named.into_iter().flatten().map(|port| port.name.clone()).collect();
    let count = names.len();
    let Pace { mode, journal, busy, takeover } = pace;
    let ports_setup = PortsSetup {
        names,
        mode,
        headroom: HEADROOM_MIN,
        frames: setup.packets.into(),
        fails_open: false,
        fail_after: FAIL_AFTER,
        journal,
        takeover,
    };
    // First, as it takes long, and nobody forwards while ports are taken over.
    let cards = vec![PortInterface::default(); count];
    let mut plane = UserPlane::new(setup.clone(), &cards, clock()).map_err(Error::Refused)?;
    let mut ports = Ports::open_while(&ports_setup, watcher)?;
    let told = Told { links: Links::new(count), stalled: Arc::default() };
    ports.tell_links(told.links.clone());
    set_cards(&mut plane, &ports, count)?;
    // From now on they are opened again where they fail.
    let ports_setup = PortsSetup { takeover: false, ..ports_setup };
    let (ask, asked) = RingBuffer::new(ASKED);
    let (answers, answered) = RingBuffer::new(ASKED);
    let (events, happened) = RingBuffer::new(HAPPENED);
    let (warnings, warned) = RingBuffer::new(WARNINGS);
    let bell = Arc::new(Bell::new()?);
    let looping = PlaneLoop {
        plane,
        ports: Some(ports),
        setup: ports_setup,
        count,
        asked,
        answers,
        events,
        warnings,
        bell: bell.clone(),
        told: told.clone(),
        busy,
    };
    let remote = Remote { asked: ask, answers: answered, events: happened, warnings: warned, bell, told };
    Ok((looping, PlaneHandle::new(setup, remote)))
}

fn set_cards(plane: &mut UserPlane, ports: &Ports, count: usize) -> Result<(), Error> {
    for port in 0..count {
        plane.set_card(port, PortInterface { address: ports.link_address(port)?, mtu: ports.mtu(port) });
    }
    Ok(())
}

/// Why a loop ends.
enum End {
    Told,
    /// This process goes on.
    TakenOver(u32),
}

impl PlaneLoop {
    /// What was changed and chosen, in words.
    pub fn said(&self) -> &[String] {
        self.ports.as_ref().map_or(&[], Ports::said)
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.ports.as_ref().map_or(Mode::AfPacket, Ports::mode)
    }

    /// Turns until `stop` is set or another run takes over the ports. Where ports fail or vanish they are
    /// opened again, as often as it takes: sessions stay, and control is answered meanwhile. Puts the
    /// interfaces back; says in words what it could not. To be called on a thread of its own, which from then
    /// on has no more rights than the loop needs ([`privileges::LOOP`]).
    pub fn run(mut self, stop: &AtomicBool) -> Result<Vec<String>, Error> {
        // Whoever does not read has a loop all the same.
        privileges::keep(&privileges::LOOP)
            .unwrap_or_else(|error| drop(self.warnings.push(error.to_string())));
        let Some(mut ports) = self.ports.take() else { return Ok(Vec::new()) };
        let end = loop {
            let error = match self.turns(&mut ports, stop) {
                Ok(end) => break end,
                Err(error) => error,
            };
            match self.gone(&error) {
                Some(port) => self.told.links.set(port, LinkState::Down),
                None => self.told.links.set_all(LinkState::Down),
            }
            let left = ports.close();
            // Frames that wait lie in memory that goes with the ports.
            self.plane.forget_frames();
            let left = if left.is_empty() { String::new() } else { format!("; {}", left.join("; ")) };
            let warning = format!(
                "the ports do not work: {error}{left}. Sessions stay; they are opened again when they can be"
            );
            let _ = self.warnings.push(warning);
            ports = match self.reopen(stop) {
                Some(ports) => ports,
                None => return Ok(Vec::new()),
            };
        };
        Ok(match end {
            End::Told => ports.close(),
            End::TakenOver(by) => {
                ports.leave(true);
                vec![format!("process {by} took over the ports")]
            }
        })
    }

    /// The port that vanished, where that is why they do not work.
    fn gone(&self, error: &Error) -> Option<usize> {
        let Error::PortGone(name, _) = error else { return None };
        self.setup.names.iter().position(|port| port == name)
    }

    /// Opens the ports again; `None` if it is stopped before they can be.
    fn reopen(&mut self, stop: &AtomicBool) -> Option<Ports> {
        let mut due = clock();
        while !stop.load(Ordering::Relaxed) {
            let now = clock();
            while let Ok(command) = self.asked.pop() {
                let _ = self.answers.push(self.plane.apply(command, now, &mut Nowhere));
            }
            if now >= due {
                due = now + REOPEN;
                if let Ok(ports) = self.try_reopen() {
                    let _ = self.warnings.push("the ports work again, with all sessions".into());
                    return Some(ports);
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        None
    }

    fn try_reopen(&mut self) -> Result<Ports, Error> {
        let mut ports = Ports::open(&self.setup)?;
        ports.tell_links(self.told.links.clone());
        set_cards(&mut self.plane, &ports, self.count)?;
        Ok(ports)
    }

    fn turns(&mut self, ports: &mut Ports, stop: &AtomicBool) -> Result<End, Error> {
        let mut batch: Vec<Received> = Vec::with_capacity(BATCH);
        let mut presence_due = clock();
        let mut last = clock();
        let mut due = last;
        ports.poll_drivers_if_deferred();
        while !stop.load(Ordering::Relaxed) {
            let now = clock();
            let late = now.since(due);
            if late > STALL {
                self.told.stalled.fetch_add(late.as_nanos(), Ordering::Relaxed);
            }
            due = now;
            ports.beat(now);
            let mut worked = self.obey(now, ports);
            for port in 0..self.count {
                batch.clear();
                ports.receive(port, now, &mut batch);
                worked |= !batch.is_empty();
                for received in &batch {
                    // Stamps come from other processors and several queues; time only moves forward.
                    last = received.arrived.clamp(last, now.max(last));
                    self.plane.receive(port, received.frame, last, ports);
                }
            }
            last = last.max(now);
            self.plane.turn(last, ports);
            ports.flush()?;
            while !self.events.is_full()
                && let Some(event) = self.plane.happened()
            {
                let _ = self.events.push(event);
            }
            if now >= presence_due {
                presence_due = now + PRESENCE;
                if let Some(by) = ports.is_asked_for() {
                    return Ok(End::TakenOver(by));
                }
                let (plane, warnings) = (&mut self.plane, &mut self.warnings);
                ports.look(now, &mut |news| {
                    let warning = match news {
                        PortNews::Lost(warning) | PortNews::Told(warning) | PortNews::Address(warning) => {
                            warning
                        }
                        PortNews::Mtu(change) => {
                            plane.set_mtu(change.port, change.most);
                            change.warning("", "told to their senders and counted (`too_big`)")
                        }
                    };
                    // Whoever does not read finds the sum among the faults.
                    let _ = warnings.push(warning);
                })?;
            }
            if !worked && !self.busy {
                due = self.rest(last, ports);
            }
        }
        Ok(End::Told)
    }

    /// Does what was asked; whether anything was.
    fn obey(&mut self, now: Time, ports: &mut Ports) -> bool {
        let mut any = false;
        while let Ok(command) = self.asked.pop() {
            let mut answer = self.plane.apply(command, now, ports);
            if let Answer::Faults(faults) = &mut answer
                && ports.lost() > 0
            {
                faults.push(("lost_before_queue", ports.lost()));
            }
            // Whoever asks waits for each answer, so that there is room.
            let _ = self.answers.push(answer);
            any = true;
        }
        any
    }

    /// Sleeps until something happens; when it was to wake at the latest.
    fn rest(&mut self, now: Time, ports: &mut Ports) -> Time {
        let sleep = self.plane.next_event(now).since(now).min(SLEEP_MAX);
        let slept = clock();
        ports.wait(Some(self.bell.0.as_raw_fd()), sleep);
        self.bell.quiet();
        slept + sleep
    }
}

impl Reach for Remote {
    fn ask(&mut self, command: Command) -> Option<Answer> {
        self.asked.push(command).ok()?;
        self.bell.ring();
        let mut spins = 0;
        loop {
            if let Ok(answer) = self.answers.pop() {
                return Some(answer);
            }
            if self.answers.is_abandoned() {
                return None;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    fn happened(&mut self) -> Option<PlaneEvent> {
        self.events.pop().ok()
    }
}
