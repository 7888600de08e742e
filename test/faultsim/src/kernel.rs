//! The simulated kernel: interfaces, sockets with their rings, programs, and virtual time.
//!
//! It is a model of Linux 6.x as far as the packet loop meets it, with the freedoms that drivers have. What
//! it hands over and takes back is memory that both sides map, as in the kernel. Time passes in system calls
//! alone: a call takes its time, and a sleep ends with the next event that ends it.

mod bpf;
pub mod interface;
mod memory;
mod netlink;
mod packet;
mod xdp;

pub use interface::Interface;
pub use packet::PacketSocket;
pub use xdp::{RING_MAX, Xsk};

use crate::dice::Dice;
use crate::faults::{Armed, Fault, Kind, Met};
use crate::outside::{Counts, Outside};
use crate::rival::{Process, Rival};
use bpf::{Link, Map, Program};
use libc::{c_int, c_void, size_t, socklen_t};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use weir_dataplane::{Chores, Setup};

/// Descriptors of the simulated kernel begin here; those below are the machine's.
const FIRST: c_int = 1 << 24;
/// Most descriptors that a process has at once: a loop has a socket for each of 128 queues of two ports.
pub const DESCRIPTORS_MAX: usize = 600;
/// Longest time between two beats of a loop that gets its processor, in ns.
const HEART_MAX: u64 = 50_000_000;
/// How often a process looks after its ports, in ns.
pub const LOOK: u64 = weir_dataplane::UPKEEP_PERIOD.as_nanos() as u64;
/// Programs that somebody removes are put back within this time, in ns.
const BACK: u64 = 1_000_000_000;
/// Queues that appear are served within this time, in ns.
const SERVED: u64 = 3_000_000_000;
/// Buffers that a queue has at least, where there are many.
const SHARE_LEAST: usize = 128;
/// Waits in a row that may end for nothing but errors of sockets: a loop that does not rest is no use to
/// anyone.
const ERRORS_MAX: u32 = 16;
/// How much later it is whenever a killed process looks at the clock, in ns.
const AFTER_DEATH: u64 = 1_000_000;
/// Time of a system call, in ns.
const CALL: u64 = 150;
/// Time of a turn of a loop that turns all the time, in ns: more than it takes, so that there are fewer.
pub const BUSY_TURN: u64 = 10_000;
/// When the virtual clock begins: not at zero, so that an age never underflows.
pub const BEGIN: u64 = 1_000_000_000_000;
/// Where wall-clock time begins, in seconds since 1970.
const WALL: i64 = 1_790_000_000;
/// Number of the first simulated process; the machine has none of so high a number.
const PID: i32 = 1 << 30;

/// What a descriptor stands for.
enum Object {
    Map(Rc<RefCell<Map>>),
    Program(Rc<Program>),
    /// An XDP program on an interface.
    Link(Rc<Link>),
    Xsk(Rc<RefCell<Xsk>>),
    Packet(Rc<RefCell<PacketSocket>>),
    /// With answers that were not read.
    Netlink(RefCell<VecDeque<Vec<u8>>>),
    /// That counts.
    Event(RefCell<u64>),
    /// For requests about interfaces, and others of which nothing is kept.
    Plain,
}

/// An open descriptor, and whose it is.
struct Entry {
    owner: i32,
    object: Object,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A flow sends its next frame.
    Flow(usize),
    /// A fault begins.
    Begin(usize),
    /// A fault ends.
    End(usize),
    /// The reader of samples looks.
    Read,
    /// Whoever looks after the ports looks.
    Look,
    /// Nothing is sent any more.
    Silence,
    /// The user ends the process.
    Stop,
}

/// The simulated machine.
pub struct Kernel {
    /// Nanoseconds of the monotonic clock.
    pub now: u64,
    /// What a wall clock is ahead of it, in ns.
    pub wall: i64,
    /// Interfaces: the two ports.
    pub interfaces: [Interface; 2],
    /// Who sends and receives beyond the ports.
    pub outside: Outside,
    /// Faults of the plan.
    pub faults: Vec<Fault>,
    /// What is armed by faults that have begun.
    pub armed: Armed,
    /// Faults that took effect.
    pub met: Met,
    /// System calls of all processes.
    pub calls: u64,
    /// How many waits in a row ended for nothing but errors of sockets.
    ended_by_errors: u32,
    /// System calls of this process.
    pub steps: u64,
    /// The process is killed at this step of its life.
    pub kill_at: Option<u64>,
    /// The process was killed: its calls have no effect any more.
    pub is_dead: bool,
    /// Time that has passed to processes since they were killed, in ns: their code runs on until it ends by
    /// itself, and some of it waits for a time.
    after_death: u64,
    /// What is wrong.
    pub violations: Vec<String>,
    /// What happened, if it is wanted.
    pub trace: Option<Vec<String>>,
    /// Who reads what the loop tells.
    pub reader: Option<Box<dyn FnMut(u64) -> Vec<String>>>,
    /// What a thread of the process does beside the loop, here in the loop's sleep.
    pub chores: Option<Chores>,
    is_look_due: bool,
    /// Frames that had bypassed, and found the wire closed, by port, when the user asked for the end.
    pub at_stop: Option<[Counts; 2]>,
    /// By port: the first and the last time of those at which it was refused without an end in between.
    pub refused: [(u64, u64); 2],
    /// When the programs of a port were removed by somebody; while the process stands still it cannot notice.
    pub removed: [Option<u64>; 2],
    /// Says to the loop that it is to end.
    pub stop: *const AtomicBool,
    /// Until then the process does not run, whatever it waits for.
    pub stalled_until: u64,
    /// Time of a look at the clock, in ns.
    pub clock_takes: u64,
    /// How late a sleep ends in which nothing comes, in ns.
    pub oversleeps: u64,
    descriptors: Vec<Option<Entry>>,
    /// A process that takes over from the one that runs.
    pub rival: Option<Rival>,
    /// How one is begun, and where it is killed.
    pub challenge: Option<(Setup, Option<u64>)>,
    pub(crate) is_challenged: bool,
    /// Memory of maps, which lives as long as the machine.
    pages: Vec<Rc<bpf::Page>>,
    /// Where its journals are.
    pub folder: crate::files::Folder,
    /// Whether it describes its types. To read them takes longer than the rest of a run, so most do not.
    pub tells_types: bool,
    /// How many programs were loaded, and links made.
    programs: u32,
    links: u32,
    /// Sockets that were bound, as far as they live.
    pub(crate) xsks: Vec<std::rc::Weak<RefCell<Xsk>>>,
    events: BinaryHeap<Reverse<(u64, u64, EventBox)>>,
    order: u64,
    dice: Dice,
    process: i32,
    lives: i32,
    /// Mapped by the process that runs.
    pub mapped: u64,
    /// Most of that.
    pub mapped_max: u64,
    /// Most descriptors at once.
    pub descriptors_max: usize,
}

/// An event among others: of those at one time, the one that was named first comes first, whatever it is.
struct EventBox(Event);

impl PartialEq for EventBox {
    fn eq(&self, _: &EventBox) -> bool {
        true
    }
}

impl Eq for EventBox {}

impl PartialOrd for EventBox {
    fn partial_cmp(&self, other: &EventBox) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventBox {
    fn cmp(&self, _: &EventBox) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// An error as system calls return it.
fn error(number: c_int) -> Option<i64> {
    Some(-i64::from(number))
}

/// Reads a value that the process points to.
///
/// # Safety
/// The pointer must be to a value of this type, aligned or not.
unsafe fn given<T: Copy>(pointer: *const c_void) -> T {
    // SAFETY: as the caller promises.
    unsafe { pointer.cast::<T>().read_unaligned() }
}

impl Kernel {
    /// A machine with two interfaces.
    pub fn new(interfaces: [Interface; 2], outside: Outside, faults: Vec<Fault>, seed: u64) -> Kernel {
        Kernel {
            now: BEGIN,
            wall: WALL * 1_000_000_000,
            interfaces,
            outside,
            faults,
            armed: Armed::default(),
            met: Met::default(),
            calls: 0,
            ended_by_errors: 0,
            steps: 0,
            kill_at: None,
            is_dead: false,
            after_death: 0,
            violations: Vec::new(),
            trace: None,
            reader: None,
            chores: None,
            is_look_due: false,
            at_stop: None,
            refused: [(0, 0); 2],
            removed: [None; 2],
            stop: std::ptr::null(),
            stalled_until: 0,
            clock_takes: CALL,
            oversleeps: 0,
            descriptors: Vec::new(),
            rival: None,
            challenge: None,
            is_challenged: false,
            pages: Vec::new(),
            folder: crate::files::Folder::new(),
            tells_types: seed.is_multiple_of(16),
            programs: 0,
            links: 0,
            xsks: Vec::new(),
            events: BinaryHeap::new(),
            order: 0,
            dice: Dice::new(seed),
            process: PID,
            lives: 0,
            mapped: 0,
            mapped_max: 0,
            descriptors_max: 0,
        }
    }

    /// A new process begins.
    pub fn begin_process(&mut self) {
        self.lives += 1;
        self.process = PID + self.lives;
        (self.steps, self.is_dead, self.kill_at) = (0, false, None);
        (self.is_look_due, self.at_stop) = (false, None);
        self.mapped = 0;
        self.armed.forget_calls();
    }

    /// Number of the process that runs.
    pub fn pid(&self) -> i32 {
        self.process
    }

    /// Something happens later.
    pub fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, EventBox(event))));
    }

    /// Notes what happened.
    #[inline]
    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let (now, step) = (self.now - BEGIN, self.steps);
            trace.push(format!("{:>14.6} ms  step {step:>8}  {}", now as f64 / 1e6, what()));
        }
    }

    /// Something is wrong. One is enough to fail; a few are kept.
    pub fn violated(&mut self, what: impl FnOnce() -> String) {
        if self.violations.len() < 8 {
            let text = what();
            self.note(|| format!("VIOLATION: {text}"));
            self.violations.push(text);
        }
    }

    /// A system call begins; an error if the process is dead or is killed by it.
    pub(crate) fn step(&mut self) -> Result<(), Option<i64>> {
        self.calls += 1;
        self.steps += 1;
        if self.kill_at == Some(self.steps) {
            self.kill();
        }
        if self.is_dead {
            return Err(error(libc::EIO));
        }
        Ok(())
    }

    /// Ends the process as `SIGKILL` does: whatever it had open is closed, and what it does from now on has
    /// no effect.
    pub fn kill(&mut self) {
        self.note(|| "the process is killed".into());
        self.is_dead = true;
        self.met.count(Kind::Kill);
        let own = self.process;
        for at in 0..self.descriptors.len() {
            if let Some(entry) = self.descriptors[at].take_if(|entry| entry.owner == own) {
                self.closed(entry.object);
            }
        }
        for interface in &self.interfaces {
            // What is left of it lives in the kernel, out of reach of the process.
            if let Some(program) = interface.filter.as_ref().filter(|program| program.owner() == own) {
                program.detach_from_process();
            }
        }
        // Of one that takes over the other does not know.
        if !self.rival.as_ref().is_some_and(|rival| rival.has_word) {
            self.ask_to_stop();
        }
    }

    /// The process that has the word, and the one that has not.
    pub fn swap_process(&mut self, other: &mut Process) {
        let Process { number, steps, kill_at, is_dead } = *other;
        *other = Process {
            number: std::mem::replace(&mut self.process, number),
            steps: std::mem::replace(&mut self.steps, steps),
            kill_at: std::mem::replace(&mut self.kill_at, kill_at),
            is_dead: std::mem::replace(&mut self.is_dead, is_dead),
        };
    }

    /// Whether another process takes over and has something to do.
    pub(crate) fn begin_takeover(&mut self) -> bool {
        if self.is_dead || self.rival.as_ref().is_some_and(|rival| rival.has_word) {
            return false;
        }
        if std::mem::take(&mut self.is_challenged)
            && self.rival.is_none()
            && let Some((setup, kill_at)) = self.challenge.take()
        {
            self.lives += 1;
            let process = Process { number: PID + self.lives, steps: 0, kill_at, is_dead: false };
            // SAFETY: whoever set the challenge keeps the kernel where it is until the rival is joined.
            self.rival = unsafe { Rival::begin(self, setup, process) }.ok();
            self.note(|| "another process takes over".into());
        }
        self.rival.as_ref().is_some_and(|rival| !rival.is_done && self.now >= rival.wake)
    }

    /// Sending at a port is refused, or not.
    pub(crate) fn note_refusal(&mut self, port: usize, is_refused: bool) {
        let (first, last) = &mut self.refused[port];
        if !is_refused {
            (*first, *last) = (self.now, self.now);
        }
        *last = self.now;
    }

    /// What the thread beside the loop is to do now.
    pub(crate) fn due_chores(&mut self) -> Option<Chores> {
        let is_due = std::mem::take(&mut self.is_look_due) && !self.is_dead;
        self.chores.clone().filter(|_| is_due)
    }

    /// The user asks for an end.
    pub fn ask_to_stop(&mut self) {
        self.at_stop.get_or_insert(self.outside.counts);
        if !self.stop.is_null() {
            // SAFETY: whoever runs the process sets it to a value that outlives the run.
            unsafe { (*self.stop).store(true, std::sync::atomic::Ordering::Relaxed) };
        }
    }

    /// Time goes on to a moment, with all that happens until then.
    pub fn advance(&mut self, to: u64) {
        while let Some(Reverse((time, ..))) = self.events.peek()
            && *time <= to
        {
            let Some(Reverse((time, _, EventBox(event)))) = self.events.pop() else { break };
            self.now = self.now.max(time);
            self.happen(event);
        }
        self.now = self.now.max(to);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Flow(flow) => self.flow_sends(flow),
            Event::Begin(fault) => self.begin_fault(fault),
            Event::End(fault) => self.end_fault(fault),
            Event::Read => self.read_told(),
            Event::Look => {
                self.is_look_due = true;
                self.at(self.now + LOOK, Event::Look);
            }
            Event::Silence => self.outside.is_silent = true,
            Event::Stop => {
                self.outside.is_drained = true;
                self.check_buffers();
                self.check_queues();
                self.ask_to_stop();
            }
        }
    }

    /// After a while in which nothing happened, sockets have nearly as many buffers as in the beginning.
    fn check_buffers(&mut self) {
        self.xsks.retain(|socket| socket.strong_count() > 0);
        let sockets: Vec<_> = self.xsks.iter().filter_map(std::rc::Weak::upgrade).collect();
        for socket in sockets {
            let (now, before, queue, unsent) = socket.borrow_mut().buffers();
            let port = socket.borrow().port;
            // Where queues were added, each has less.
            let shares = port.is_some_and(|port| self.interfaces[port].queues_changed > 0);
            let before = if shares { before.min(SHARE_LEAST) } else { before };
            if now + before / 4 + 1 < before {
                self.violated(|| {
                    format!("queue {queue} had {before} buffers to receive into, and has {now}")
                });
            }
            if unsent > 0 {
                self.violated(|| {
                    format!(
                        "{unsent} frames wait in the transmit ring of queue {queue}, and nobody sends them"
                    )
                });
            }
        }
    }

    /// Queues that appeared a while ago have sockets.
    fn check_queues(&mut self) {
        let has_failed = |kind| self.met.all().any(|(met, _)| met == kind);
        // What cannot be asked about, or is not there, is not served.
        if [Kind::RequestErrno, Kind::AdminDown, Kind::ProgramsRemoved, Kind::SendUnexpected]
            .into_iter()
            .any(has_failed)
        {
            return;
        }
        for port in 0..2 {
            let interface = &self.interfaces[port];
            let is_settled = self.now > interface.queues_changed + SERVED;
            let lacks = |queue: &u32| !interface.sockets.contains_key(queue);
            let served = interface.queues.min(weir_dataplane::QUEUES_MAX);
            if interface.xdp.is_none() || !is_settled || !interface.is_present {
                continue;
            }
            if let Some(queue) = (0..served).find(lacks) {
                self.violated(|| {
                    format!("queue {queue} of port {port} has no socket, long after it appeared")
                });
            }
        }
    }

    fn flow_sends(&mut self, flow: usize) {
        if self.outside.is_silent {
            return;
        }
        let (port, queue, next) = self.outside.next(flow, self.now, &mut self.dice);
        self.arrive(port, queue);
        self.at(next, Event::Flow(flow));
    }

    /// Lets the reader look, and checks what it found.
    pub fn read_told(&mut self) {
        let Some(mut reader) = self.reader.take() else { return };
        for wrong in reader(self.now) {
            self.violated(|| wrong);
        }
        self.reader = Some(reader);
        let period = self.outside.read_every;
        self.at(self.now + period, Event::Read);
    }

    /// A frame comes in at a port from outside; it is in `outside.frame`.
    pub fn arrive(&mut self, port: usize, queue: u32) {
        let frame = std::mem::take(&mut self.outside.frame);
        self.arrived(port, queue, &frame);
        self.outside.frame = frame;
    }

    fn arrived(&mut self, port: usize, queue: u32, frame: &[u8]) {
        let interface = &mut self.interfaces[port];
        let count = &mut self.outside.counts[port];
        count.sent += 1;
        if !interface.has_link() || !interface.is_present {
            count.link_down += 1;
            return;
        }
        let queue = queue % interface.queues;
        if let Some(program) = interface.xdp.clone()
            && program.is_fresh(self.now)
        {
            if let Some(socket) = program.socket(queue) {
                let taken = socket.borrow_mut().deliver(frame, self.now);
                return match taken {
                    Ok(()) => count.taken += 1,
                    Err(xdp::Lost::Counted) => count.lost_in_kernel += 1,
                    Err(xdp::Lost::InDriver) => count.lost_in_driver += 1,
                };
            }
            interface.passed_queue = true;
        }
        // Beyond here it is the host's network stack: copies for packet sockets, then the filter.
        let mut copied = false;
        if let Some(socket) = interface.packet.clone() {
            let mut socket = socket.borrow_mut();
            if socket.accepts(self.now) {
                copied = true;
                if socket.deliver(frame) {
                    count.taken += 1;
                } else {
                    count.lost_in_kernel += 1;
                }
            }
        }
        let Some(filter) = interface.filter.clone() else {
            let is_excused =
                self.removed[port].is_some_and(|since| self.now < since.max(self.stalled_until) + BACK);
            if !copied && is_excused {
                count.unguarded += 1;
            } else if !copied {
                count.to_host += 1;
            }
            return;
        };
        if filter.is_copied() && filter.is_fresh(self.now) {
            if !copied {
                count.shot += 1;
            }
            return;
        }
        let Some(peer) = filter.peer() else {
            if !copied {
                count.to_host += 1;
            }
            return;
        };
        filter.count_bypassed();
        let is_before_turn = filter.beat() == 0;
        if copied {
            let (now, after) = (self.now, port);
            self.violated(|| format!("at {now} a frame of port {after} went both ways"));
        }
        let count = &mut self.outside.counts[port];
        count.bypassed += 1;
        count.bypassed_without_loop += u64::from(is_before_turn);
        let out = self.interfaces.iter().position(|i| i.index == peer && i.is_present);
        match out
            .filter(|out| self.interfaces[*out].has_link() && frame.len() <= self.interfaces[*out].longest())
        {
            Some(_) => self.outside.received(port, frame, self.now, true, &mut self.violations),
            None => self.outside.counts[port].lost_behind += 1,
        }
    }

    /// A frame leaves at a port; whether it reached the other end.
    fn leaves(&mut self, port: usize, frame: &[u8]) {
        let from = 1 - port;
        self.outside.counts[from].left += 1;
        if !self.interfaces[port].has_link() {
            self.outside.counts[from].lost_behind += 1;
            return;
        }
        let before = self.violations.len();
        self.outside.received(from, frame, self.now, false, &mut self.violations);
        if self.violations.len() > before {
            let text = self.violations[before].clone();
            self.note(|| format!("VIOLATION: {text}"));
        }
    }

    fn begin_fault(&mut self, at: usize) {
        let fault = self.faults[at].clone();
        self.note(|| format!("fault begins: {fault:?}"));
        crate::faults::begin(self, &fault);
        if fault.span > 0 {
            self.at(self.now + fault.span, Event::End(at));
        }
    }

    fn end_fault(&mut self, at: usize) {
        let fault = self.faults[at].clone();
        self.note(|| format!("fault ends: {fault:?}"));
        crate::faults::end(self, &fault);
    }

    /// An index of a file descriptor among ours.
    fn place(&self, fd: c_int) -> Option<usize> {
        (fd >= FIRST).then(|| (fd - FIRST) as usize)
    }

    fn object(&self, fd: c_int) -> Option<&Object> {
        self.descriptors.get(self.place(fd)?)?.as_ref().map(|entry| &entry.object)
    }

    fn open(&mut self, object: Object) -> Option<i64> {
        let free = self.descriptors.iter().position(Option::is_none).unwrap_or_else(|| {
            self.descriptors.push(None);
            self.descriptors.len() - 1
        });
        self.descriptors[free] = Some(Entry { owner: self.process, object });
        self.descriptors_max = self.descriptors_max.max(self.descriptors.len());
        if self.descriptors.len() == DESCRIPTORS_MAX {
            self.violated(|| format!("the process has {DESCRIPTORS_MAX} descriptors"));
        }
        Some(i64::from(FIRST) + free as i64)
    }

    /// Descriptors that the process has open.
    pub fn open_descriptors(&self) -> usize {
        self.descriptors.iter().flatten().filter(|entry| entry.owner == self.process).count()
    }

    /// What goes away with the last descriptor of something.
    fn closed(&mut self, object: Object) {
        match object {
            // It goes with the last descriptor.
            Object::Link(link) if Rc::strong_count(&link) == 1 => self.detach(&link),
            Object::Xsk(socket) => {
                let mut socket = socket.borrow_mut();
                if let Some(port) = socket.close() {
                    self.interfaces[port].remove(socket.queue, self.now);
                }
            }
            Object::Packet(found) => {
                let socket = found.borrow();
                if let Some(port) = socket.port {
                    self.interfaces[port].packet.take_if(|bound| Rc::ptr_eq(bound, &found));
                }
                if let Some(port) = socket.promiscuous {
                    self.interfaces[port].promiscuous -= 1;
                }
            }
            _ => {}
        }
    }

    // From here on: the system calls, in the order of `calls.rs`. `None` leaves a call to the machine.

    pub(crate) fn clock(&mut self, clock: c_int, to: *mut libc::timespec) -> Option<i64> {
        if self.is_dead {
            self.after_death += AFTER_DEATH;
        } else {
            self.calls += 1;
            self.advance(self.now + self.clock_takes);
            self.run_on();
        }
        let ns = match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
                (self.wall + (self.now - BEGIN) as i64).max(0) as u64
            }
            _ => self.now,
        };
        let ns = if self.is_dead { ns + self.after_death } else { ns };
        // SAFETY: the process gives a place for a time.
        unsafe {
            *to = libc::timespec {
                tv_sec: (ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (ns % 1_000_000_000) as libc::c_long,
            };
        }
        Some(0)
    }

    /// Lets time pass while the process is not given a processor.
    fn run_on(&mut self) {
        while self.stalled_until > self.now {
            let until = self.stalled_until;
            self.advance(until);
        }
    }

    pub(crate) fn poll(
        &mut self,
        fds: *mut libc::pollfd,
        count: usize,
        timeout: *const libc::timespec,
    ) -> Option<i64> {
        if let Err(result) = self.step() {
            return result;
        }
        // SAFETY: the pointer and length are those of the process's list.
        let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
        // SAFETY: a time, or nothing.
        let span = unsafe { timeout.as_ref() }
            .map_or(u64::MAX / 2, |t| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64);
        let deadline = self.now.saturating_add(span).saturating_add(self.oversleeps);
        if let Some(number) = self.armed.poll.take_one() {
            self.met.count(Kind::PollErrno);
            self.advance(self.now + CALL);
            return error(number);
        }
        for fd in fds.iter() {
            if let Some(Object::Xsk(socket)) = self.object(fd.fd) {
                let socket = socket.clone();
                if socket.borrow().poll_wakes() {
                    self.wake_receiver(&socket);
                    self.wake_sender(&socket);
                }
            }
        }
        loop {
            let mut ready = 0;
            for fd in fds.iter_mut() {
                fd.revents = self.readable(fd.fd);
                ready += i64::from(fd.revents != 0);
            }
            if ready > 0 || self.now >= deadline || self.is_dead {
                let for_nothing = ready > 0 && fds.iter().all(|fd| fd.revents & !libc::POLLERR == 0);
                self.ended_by_errors = if for_nothing { self.ended_by_errors + 1 } else { 0 };
                if self.ended_by_errors == ERRORS_MAX {
                    self.violated(|| format!("{ERRORS_MAX} waits in a row ended by errors of sockets"));
                }
                // The processor comes back a little later.
                let late = self.dice.below(20_000);
                self.advance(self.now + if ready > 0 { CALL + late / 8 } else { CALL });
                self.run_on();
                self.check_heart();
                return Some(ready);
            }
            let next = self.events.peek().map_or(deadline, |Reverse((time, ..))| (*time).max(self.now));
            self.advance(next.min(deadline));
            self.run_on();
        }
    }

    /// The loop shows that it lives often enough, unless it was given no processor.
    fn check_heart(&mut self) {
        let Some(beat) =
            self.interfaces.iter().filter_map(|port| port.filter.as_ref()).map(|filter| filter.beat()).max()
        else {
            return;
        };
        let age = self.now.saturating_sub(beat);
        if !self.is_dead && beat > 0 && age > HEART_MAX && self.now > self.stalled_until + 2 * HEART_MAX {
            self.violated(|| format!("the heart did not beat for {} ms", age / 1_000_000));
        }
    }

    fn readable(&self, fd: c_int) -> i16 {
        match self.object(fd) {
            Some(Object::Xsk(socket)) => {
                let socket = socket.borrow();
                let port = socket.port;
                let down = port.is_some_and(|port| !self.interfaces[port].is_up);
                (if socket.has_received() { libc::POLLIN } else { 0 })
                    | (if down && self.armed.poll_error { libc::POLLERR } else { 0 })
            }
            Some(Object::Packet(socket)) => {
                let socket = socket.borrow();
                (if socket.has_received() { libc::POLLIN } else { 0 })
                    | (if socket.error.get() != 0 { libc::POLLERR } else { 0 })
            }
            Some(Object::Event(count)) if *count.borrow() > 0 => libc::POLLIN,
            _ => 0,
        }
    }

    pub(crate) fn sleep(&mut self, span: *const libc::timespec) -> Option<i64> {
        if let Err(result) = self.step() {
            return result;
        }
        // SAFETY: the process gives a time.
        let span = unsafe { *span };
        self.advance(self.now + span.tv_sec as u64 * 1_000_000_000 + span.tv_nsec as u64);
        self.run_on();
        Some(0)
    }

    pub(crate) fn socket(&mut self, domain: c_int, kind: c_int, _protocol: c_int) -> Option<i64> {
        if let Err(result) = self.step() {
            return result;
        }
        if let Some(number) = self.armed.open.take_one() {
            self.met.count(Kind::OpenErrno);
            return error(number);
        }
        let _ = kind;
        let object = match domain {
            libc::AF_XDP => Object::Xsk(Rc::default()),
            libc::AF_PACKET => Object::Packet(Rc::default()),
            libc::AF_NETLINK => Object::Netlink(RefCell::default()),
            _ => Object::Plain,
        };
        self.open(object)
    }

    pub(crate) fn bind(&mut self, fd: c_int, to: *const libc::sockaddr, _len: socklen_t) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        match self.object(fd) {
            Some(Object::Xsk(socket)) => {
                let socket = socket.clone();
                // SAFETY: an address of this family, as the socket is of it.
                let address: libc::sockaddr_xdp = unsafe { given(to.cast()) };
                self.bind_xsk(&socket, &address)
            }
            Some(Object::Packet(socket)) => {
                let socket = socket.clone();
                // SAFETY: an address of this family, as the socket is of it.
                let address: libc::sockaddr_ll = unsafe { given(to.cast()) };
                let Some(port) = self.port_of(address.sll_ifindex as u32) else { return error(libc::ENODEV) };
                socket.borrow_mut().port = Some(port);
                self.interfaces[port].packet = Some(socket);
                Some(0)
            }
            Some(_) => Some(0),
            None => error(libc::EBADF),
        }
    }

    /// Number of a port by its index.
    fn port_of(&self, index: u32) -> Option<usize> {
        self.interfaces.iter().position(|i| i.index == index && i.is_present)
    }

    pub(crate) fn set_option(
        &mut self,
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        _len: socklen_t,
    ) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        match self.object(fd) {
            Some(Object::Xsk(socket)) if level == libc::SOL_XDP => {
                // SAFETY: the process gives what the option takes.
                unsafe { socket.borrow_mut().set_option(name, value) }
            }
            Some(Object::Packet(socket)) => {
                let socket = socket.clone();
                // SAFETY: the process gives what the option takes.
                unsafe { self.set_packet_option(&socket, level, name, value) }
            }
            Some(_) => Some(0),
            None => error(libc::EBADF),
        }
    }

    pub(crate) fn option(
        &mut self,
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        if let Some(number) = self.armed.statistics.take_one() {
            self.met.count(Kind::StatisticsErrno);
            return error(number);
        }
        // SAFETY: the process gives a place and its length.
        unsafe {
            match self.object(fd) {
                Some(Object::Xsk(socket)) if level == libc::SOL_XDP => {
                    socket.borrow().option(name, value, len)
                }
                Some(Object::Packet(socket)) => socket.borrow_mut().option(level, name, value, len),
                Some(_) => {
                    std::ptr::write_bytes(value.cast::<u8>(), 0, *len as usize);
                    Some(0)
                }
                None => error(libc::EBADF),
            }
        }
    }

    pub(crate) fn socket_name(
        &mut self,
        fd: c_int,
        to: *mut libc::sockaddr,
        len: *mut socklen_t,
    ) -> Option<i64> {
        self.place(fd)?;
        // SAFETY: the process gives a place and its length.
        unsafe {
            if let Some(Object::Netlink(_)) = self.object(fd) {
                let mut address: libc::sockaddr_nl = std::mem::zeroed();
                address.nl_family = libc::AF_NETLINK as u16;
                address.nl_pid = netlink::PORT;
                to.cast::<libc::sockaddr_nl>().write_unaligned(address);
                *len = size_of::<libc::sockaddr_nl>() as socklen_t;
                return Some(0);
            }
        }
        error(libc::EBADF)
    }

    pub(crate) fn send(&mut self, fd: c_int, data: *const c_void, len: size_t) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        self.advance(self.now + CALL);
        match self.object(fd) {
            Some(Object::Xsk(socket)) => {
                let socket = socket.clone();
                self.send_xsk(&socket)
            }
            Some(Object::Packet(socket)) => {
                let socket = socket.clone();
                self.send_packet(&socket)
            }
            Some(Object::Netlink(_)) => {
                // SAFETY: the pointer and length are those of the process's message.
                let message = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
                let answer = self.ask_netlink(message);
                if let Some(Object::Netlink(answers)) = self.object(fd) {
                    answers.borrow_mut().push_back(answer);
                }
                Some(len as i64)
            }
            Some(_) => Some(len as i64),
            None => error(libc::EBADF),
        }
    }

    pub(crate) fn receive(&mut self, fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> Option<i64> {
        self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        self.advance(self.now + CALL);
        match self.object(fd) {
            Some(Object::Xsk(socket)) => {
                let socket = socket.clone();
                if let Some(number) = self.armed.receive.take_one() {
                    self.met.count(Kind::ReceiveErrno);
                    return error(number);
                }
                self.wake_receiver(&socket);
                Some(0)
            }
            Some(Object::Netlink(answers)) => {
                let mut answers = answers.borrow_mut();
                let Some(answer) = answers.front() else { return error(libc::EAGAIN) };
                let n = answer.len().min(len);
                // SAFETY: the process gives a place of this length.
                unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), data.cast(), n) };
                let whole = answer.len();
                if flags & libc::MSG_PEEK == 0 {
                    answers.pop_front();
                }
                Some(if flags & libc::MSG_TRUNC != 0 { whole } else { n } as i64)
            }
            Some(_) => error(libc::EAGAIN),
            None => error(libc::EBADF),
        }
    }

    pub(crate) fn receive_message(
        &mut self,
        fd: c_int,
        message: *mut libc::msghdr,
        flags: c_int,
    ) -> Option<i64> {
        self.place(fd)?;
        // SAFETY: the process gives a message with one buffer at least.
        let buffer = unsafe { *(*message).msg_iov };
        self.receive(fd, buffer.iov_base, buffer.iov_len, flags)
    }

    pub(crate) fn read(&mut self, fd: c_int, data: *mut c_void, _len: size_t) -> Option<i64> {
        self.place(fd)?;
        let Some(Object::Event(count)) = self.object(fd) else { return error(libc::EBADF) };
        let found = count.replace(0);
        if found == 0 {
            return error(libc::EAGAIN);
        }
        // SAFETY: a counter is read with eight bytes.
        unsafe { data.cast::<u64>().write_unaligned(found) };
        Some(8)
    }

    pub(crate) fn write(&mut self, fd: c_int, data: *const c_void, _len: size_t) -> Option<i64> {
        self.place(fd)?;
        let Some(Object::Event(count)) = self.object(fd) else { return error(libc::EBADF) };
        // SAFETY: a counter is written with eight bytes.
        *count.borrow_mut() += unsafe { given::<u64>(data) };
        Some(8)
    }

    pub(crate) fn close(&mut self, fd: c_int) -> Option<i64> {
        let place = self.place(fd)?;
        if let Err(result) = self.step() {
            return result;
        }
        match self.descriptors.get_mut(place).and_then(Option::take) {
            Some(entry) => {
                self.closed(entry.object);
                Some(0)
            }
            None => {
                self.violated(|| format!("descriptor {fd} is closed and was not open"));
                error(libc::EBADF)
            }
        }
    }

    pub(crate) fn event_descriptor(&mut self) -> Option<i64> {
        self.open(Object::Event(RefCell::new(0)))
    }

    pub(crate) fn claim(&mut self) -> Option<i64> {
        if self.armed.no_realtime { error(libc::EPERM) } else { Some(0) }
    }

    pub(crate) fn random(&mut self, to: *mut c_void, len: size_t) -> Option<i64> {
        // SAFETY: the process gives a place of this length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len) };
        bytes.iter_mut().for_each(|byte| *byte = self.dice.bits() as u8);
        Some(len as i64)
    }

    pub(crate) fn fcntl(&mut self, fd: c_int, command: c_int) -> Option<i64> {
        self.place(fd)?;
        if command != libc::F_DUPFD_CLOEXEC {
            return Some(0);
        }
        if let Err(result) = self.step() {
            return result;
        }
        let copy = match self.object(fd) {
            Some(Object::Map(map)) => Object::Map(map.clone()),
            Some(Object::Program(program)) => Object::Program(program.clone()),
            Some(Object::Link(link)) => Object::Link(link.clone()),
            _ => return error(libc::EINVAL),
        };
        self.open(copy)
    }
}
