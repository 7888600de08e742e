//! Steers the virtual queue, or the queue in BPF, that the kernel keeps at the egress of an interface.

use crate::Kernel;
use crate::journal::Journal;
use crate::program::{self, Program, Room, State, Unfit, attached, detach, make_clsact};
use crate::qdisc::{self, Qdisc};
use serde::Serialize;
use std::collections::VecDeque;
use weir_aqm::Algorithm;
use weir_aqm::algorithms::gsp;
use weir_config::{Channel, Counting, QueueConfig, Remarking, Upstream};
use weir_steer::{Epoch, Law, Move, Observer, Policy, PolicyError, SteeringLaw, TableState, Told};
use weir_tc::{Handle, Kind, Message};
use weir_units::{Duration, Rate, Time};

/// Age of the last look at which the program lets every packet pass: its process hangs or is dead.
pub const STALE_AFTER: Duration = Duration::from_secs(1);
/// Length of Ethernet's header in bytes.
const ETHERNET: i32 = 14;
/// How often it is looked whether the program is still attached.
const WATCH: Duration = Duration::from_millis(250);

/// Why no virtual queue can be kept.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// No interface of that name.
    #[error("there is no interface {0}: `ip link` lists those that are there")]
    NoInterface(String),
    /// The policy contradicts itself.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// The kernel could not be asked.
    #[error("{0}")]
    Tc(#[from] weir_tc::Error),
    /// The kernel refused the program.
    #[error("{what}: {error}. Remedy: run as root (CAP_BPF, CAP_NET_ADMIN) on Linux 5.10 or newer")]
    Bpf {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        error: libbpf_rs::Error,
    },
    /// The kernel has no queues in BPF.
    #[error("{0}")]
    NoQueues(String),
    /// A queue that somebody set up would have to go.
    #[error(
        "the root of {interface} has {kind} {handle}, which somebody set up and which would be lost. Remedy: `tc qdisc del dev \
         {interface} root` first, or `weir steer {interface}`, which steers it where it is"
    )]
    Taken {
        /// The interface.
        interface: String,
        /// What is there.
        kind: String,
        /// Its handle.
        handle: Handle,
    },
    /// Somebody keeps one there already.
    #[error(
        "process {pid} keeps a virtual queue at {interface} already, or a queue in BPF; end that one first"
    )]
    Rival {
        /// The process.
        pid: u32,
        /// The interface.
        interface: String,
    },
    /// It failed midway, and what had been made could not be taken off. The journal has to stay, for the next
    /// start.
    #[error("{error}; what had been made before is NOT taken off: {why}; the next start tries again")]
    NotPutBack {
        /// Why it failed.
        error: Box<EgressError>,
        /// Why it was not taken off.
        why: String,
    },
    /// The journal could not be written; nothing was changed.
    #[error("cannot write the journal: {0}; nothing was changed")]
    Journal(#[from] std::io::Error),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct EgressSetup {
    /// The interface that packets leave by.
    pub interface: String,
    /// The rate of the link, in bytes of IP packets and `overhead`.
    pub link: Rate,
    /// What counts of a packet beside its IP packet, in bytes.
    pub overhead: i32,
    /// The algorithm.
    pub params: gsp::Params,
    /// The policy.
    pub policy: Policy,
    /// Whether the program goes on at its last set point when the process is gone.
    pub keep: bool,
    /// The queue that packets wait in; `None` for a virtual one.
    pub room: Option<Room>,
}

impl EgressSetup {
    /// What a direction of a configuration of `weir run` asks for, at the port where it leaves; `None` if
    /// nothing is managed there. `name` is that of its table. With `waits` packets wait in a queue in BPF;
    /// otherwise the queue is virtual.
    pub fn of(
        name: &str,
        channel: &Channel,
        interface: &str,
        keep: bool,
        waits: bool,
    ) -> Result<Option<EgressSetup>, Unfit> {
        let unfit =
            |key: &str, problem: &str, remedy: &str| Err(Unfit::new(key, problem, remedy).below(name));
        let (Some(aqm), Some(link)) = (&channel.aqm, channel.link.rate) else { return Ok(None) };
        if aqm.name != gsp::Gsp::NAME {
            return unfit("aqm.name", "the program in the kernel has one algorithm, GSP", "give \"gsp\"");
        }
        let Some(policy) = &channel.policy else {
            return match waits {
                true => unfit(
                    "policy",
                    "is missing: the queue in BPF is steered",
                    "give one; `policy = {}` is the default policy",
                ),
                false => unfit(
                    "policy",
                    "is missing: the program keeps a virtual queue, which a policy asks for",
                    "give one with a `utilization_target` below 100%",
                ),
            };
        };
        let policy = policy.policy();
        let target = "policy.utilization_target";
        match (waits, policy.uses_virtual_queue()) {
            (false, false) => {
                let remedy = "give less than 100%, or use --in-kernel=queue, or `weir steer` where the queue is the kernel's own";
                return unfit(target, "at 100% the real queue is what is managed", remedy);
            }
            (true, true) => {
                let remedy = "give 100%, or use --in-kernel, whose virtual queue does it";
                return unfit(target, "below 100% no packet needs to wait", remedy);
            }
            _ => {}
        }
        let leave_out = "leave it out";
        if channel.delay > Duration::ZERO {
            return unfit("delay", "the kernel sends packets at once", leave_out);
        }
        if channel.queue != QueueConfig::default() {
            return unfit("queue", "the program has one FIFO, or none", leave_out);
        }
        if channel.upstream != Upstream::Off {
            return unfit("upstream", "the program does not look into packets", leave_out);
        }
        if channel.remarking != Remarking::default() {
            let key = if channel.remarking.remark.is_empty() { "dscp" } else { "remark" };
            return unfit(key, "the program does not change packets but for marks", leave_out);
        }
        let overhead = match channel.link.counting() {
            Counting::Frame(accounting) => accounting.overhead().get() as i32,
            Counting::Link(_) => {
                let remedy = "leave it out and give `accounting`";
                return unfit("overhead", "the program adds the same to each packet", remedy);
            }
        };
        let params: gsp::Params = aqm.params();
        if let Some(unfit) = program::unfit(&params) {
            return Err(unfit.below("aqm").below(name));
        }
        let limit = channel.link.buffer.bytes(link);
        let room = waits.then_some(Room { link, limit, catch_up: channel.catch_up });
        if let Some(unfit) = room.and_then(|room| room.unfit()) {
            return Err(unfit.below(name));
        }
        let interface = interface.to_string();
        Ok(Some(EgressSetup { interface, link, overhead, params, policy, keep, room }))
    }
}

/// What became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EgressReport {
    /// Name of the interface.
    pub interface: String,
    /// Rate of the link, in bit/s.
    pub rate_bps: u64,
    /// Rate of the virtual queue in force, in bit/s; that of the link where packets wait.
    pub virtual_bps: u64,
    /// The target in force, in milliseconds.
    pub target_ms: f64,
    /// Packets that passed, as they are on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were marked or dropped.
    pub signals: u64,
    /// Those that were dropped.
    pub drops: u64,
    /// What the law knows of the rate at which packets come, in bit/s: its average over the last signals.
    pub average_bps: Option<u64>,
    /// Share of the rate that was used.
    pub utilization: Option<f64>,
    /// Share of the time in which nothing waited.
    pub empty: Option<f64>,
    /// The queue in BPF, where there is one.
    pub queue: Option<QueueReport>,
    /// How often the law moved something.
    pub moves: u64,
    /// Why it was left before the end, in words.
    pub left: Option<String>,
}

/// How a queue in BPF stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueReport {
    /// The name by which `tc` knows its kind.
    pub kind: String,
    /// Packets that wait.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the packet waited that left last, in milliseconds; zero while none waits.
    pub delay_ms: f64,
    /// Packets that found no room; they are among the drops.
    pub overflows: u64,
}

/// Moves that are kept until somebody takes them; of more the oldest are forgotten.
const MOVES_MAX: usize = 64;

/// Moves of the law: how many there were, and those that nobody has taken yet.
#[derive(Default)]
struct Moves {
    count: u64,
    latest: VecDeque<Move>,
}

impl Observer for Moves {
    fn moved(&mut self, one: &Move) {
        self.count += 1;
        self.latest.push_back(*one);
        if self.latest.len() > MOVES_MAX {
            self.latest.pop_front();
        }
    }
}

/// The program and the law that steers it, wherever it runs.
pub struct SteeredProgram {
    program: Program,
    law: Told,
    link: Rate,
    /// Age of the last look at which every packet passes; never with `None`.
    after: Option<Duration>,
    moves: Moves,
}

impl SteeredProgram {
    /// A program that keeps a virtual queue from `now` on. Until the law has come to the virtual queue, it
    /// has the rate of the link.
    pub fn begin(
        mut program: Program,
        setup: &EgressSetup,
        now: Time,
    ) -> Result<SteeredProgram, EgressError> {
        let law = Told::new(SteeringLaw::new(&setup.policy)?);
        let after = (!setup.keep).then_some(STALE_AFTER);
        program.begin(now).map_err(not_steered)?;
        let mut steered = SteeredProgram { program, law, link: setup.link, after, moves: Moves::default() };
        steered.steer(now).map_err(not_steered)?;
        Ok(steered)
    }

    /// The rate of the virtual queue in force.
    pub fn rate(&self) -> Rate {
        self.law.law().virtual_rate().unwrap_or(self.link)
    }

    /// The law.
    pub fn law(&self) -> &SteeringLaw {
        self.law.law()
    }

    /// How often the law moved something.
    pub fn moves(&self) -> u64 {
        self.moves.count
    }

    /// Another policy, rate of the link, room and other parameters from the next look on. What was noted
    /// until now is judged by those of before. An error changes nothing.
    pub fn adopt(&mut self, setup: &EgressSetup, now: Time) -> Result<(), PolicyError> {
        setup.policy.validate()?;
        // What cannot be read now cannot be at the next look, which says so.
        let _ = self.look(now);
        self.law.set_policy(&setup.policy)?;
        self.law.follow_link(setup.link);
        self.link = setup.link;
        self.program.set_params(&setup.params);
        setup.room.into_iter().for_each(|room| self.program.set_room(room));
        Ok(())
    }

    /// The program, for runs that send nothing.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// One look: what was seen between signals goes to the law, and what it decides into force. `now` is the
    /// time on CLOCK_MONOTONIC.
    pub fn look(&mut self, now: Time) -> libbpf_rs::Result<State> {
        let (state, all) = self.program.look()?;
        let rate = self.rate();
        for noted in all {
            let seen = noted.epoch(rate, self.link, self.law.law().counts_discarded());
            self.law.signalled(&seen, &mut self.moves);
        }
        self.steer(now)?;
        Ok(state)
    }

    /// State of the queue relative to its set point, by what was noted since the last signal until `now`.
    fn table_state(&self, state: &State, now: Time) -> TableState {
        let law = self.law.law();
        let seen = state.since_signal.epoch(self.rate(), self.link, law.counts_discarded());
        law.state(&Epoch { now, ..seen })
    }

    fn steer(&mut self, now: Time) -> libbpf_rs::Result<()> {
        self.program.steer(self.rate(), self.law.law().bounded_setpoint(), now, self.after)
    }
}

fn not_steered(error: libbpf_rs::Error) -> EgressError {
    EgressError::Bpf { what: "the program cannot be steered", error }
}

/// Whether somebody made this discipline, so that it would not come again by itself. What an earlier run of
/// ours kept may go.
fn is_set_up(there: &Message) -> bool {
    there.handle != Handle::NONE && !qdisc::is_ours(there.kind())
}

/// With the program in place: puts the queue there which packets are admitted to, or takes away the one that
/// a run left with `--keep`, as nobody decides any more what enters that.
fn settle(kernel: &mut dyn Kernel, index: i32, qdisc: Option<&Qdisc>) -> Result<(), EgressError> {
    if let Some(qdisc) = qdisc {
        return Ok(qdisc.make(kernel, index)?);
    }
    if qdisc::root(kernel, index)?.is_some_and(|there| qdisc::is_ours(there.kind())) {
        qdisc::remove(kernel, index)?;
    }
    Ok(())
}

/// Removes a queue in BPF at the root, if one is there.
fn take_off_queue(kernel: &mut dyn Kernel, index: i32) -> Result<(), String> {
    let root = qdisc::root(kernel, index).map_err(|e| e.to_string())?;
    let is_there = root.is_some_and(|there| qdisc::is_ours(there.kind()));
    if is_there { qdisc::remove(kernel, index).map_err(|e| e.to_string()) } else { Ok(()) }
}

/// An error, with what became of putting back what had been changed before it.
fn put_back(error: EgressError, done: Result<(), String>) -> EgressError {
    match done {
        Ok(()) => error,
        Err(why) => EgressError::NotPutBack { error: Box::new(error), why },
    }
}

/// What a link could have carried.
struct Capacity {
    /// Bytes until the rate changed last.
    bytes: f64,
    /// When that was, or the start.
    since: Time,
}

impl Capacity {
    /// Bytes until `now`, at this rate since the last change.
    fn until(&self, now: Time, link: Rate) -> f64 {
        self.bytes + link.as_bps_f64() / 8.0 * now.since(self.since).as_secs_f64()
    }
}

/// A virtual queue at the egress of an interface, or a queue in BPF at its root.
pub struct Egress {
    setup: EgressSetup,
    qdisc: Option<Qdisc>,
    steered: SteeredProgram,
    index: i32,
    /// The number by which the kernel knows the program there.
    number: u32,
    brought_clsact: bool,
    began: Time,
    capacity: Capacity,
    watched: Time,
    last: (Time, State),
    left: Option<String>,
}

impl Egress {
    /// Attaches the program. What was made is noted in the journal before, so that a later start takes it
    /// away after a kill.
    pub fn attach(
        setup: EgressSetup,
        kernel: &mut dyn Kernel,
        journal: &mut Journal,
        now: Time,
    ) -> Result<Egress, EgressError> {
        let interfaces = kernel.interfaces()?;
        let port = interfaces.iter().find(|i| i.name == setup.interface);
        let port = port.ok_or_else(|| EgressError::NoInterface(setup.interface.clone()))?;
        let index = port.index;
        // Frames are counted by the kernel with their Ethernet header.
        let overhead = setup.overhead - if port.is_ethernet { ETHERNET } else { 0 };
        let refused = |what| move |error| EgressError::Bpf { what, error };
        if setup.room.is_some()
            && let Some(why) = qdisc::missing()
        {
            return Err(EgressError::NoQueues(why));
        }
        let program = match setup.room {
            Some(room) => Program::load_admission(&setup.params, overhead, room),
            None => Program::load(&setup.params, overhead),
        };
        let program = program.map_err(refused("the kernel does not take the program"))?;
        let qdisc = setup.room.map(|_| Qdisc::load(&program)).transpose();
        let qdisc = qdisc.map_err(refused("the kernel does not take the queue"))?;
        if let Some((pid, interface)) = journal.rival_at(index) {
            return Err(EgressError::Rival { pid, interface });
        }
        if qdisc.is_some()
            && let Some(there) = qdisc::root(kernel, index)?
            && is_set_up(&there)
        {
            let kind = there.kind().map(ToString::to_string).unwrap_or_default();
            let interface = setup.interface.clone();
            return Err(EgressError::Taken { interface, kind, handle: there.handle });
        }
        let brought_clsact = !kernel.disciplines(index)?.iter().any(|m| m.kind() == Some(&Kind::Clsact));
        journal.egress(index, &setup.interface, brought_clsact, qdisc.is_some())?;
        let steered = SteeredProgram::begin(program, &setup, now)?;
        if brought_clsact {
            make_clsact(index).map_err(refused("cannot make the clsact qdisc"))?;
        }
        let number = match steered.program.attach(index).map_err(refused("cannot attach the program")) {
            Ok(number) => number,
            Err(error) if brought_clsact => return Err(put_back(error, detach(kernel, index, true))),
            Err(error) => return Err(error),
        };
        let settled = settle(kernel, index, qdisc.as_ref())
            .and_then(|()| steered.program.state().map_err(refused("cannot read what the program tells")));
        let state = settled.map_err(|error| {
            let queue = qdisc.is_some().then(|| take_off_queue(kernel, index));
            let program = detach(kernel, index, brought_clsact);
            put_back(error, queue.unwrap_or(Ok(())).and(program))
        })?;
        let (capacity, last) = (Capacity { bytes: 0.0, since: now }, (now, state));
        Ok(Egress {
            setup,
            qdisc,
            steered,
            index,
            number,
            brought_clsact,
            began: now,
            capacity,
            watched: now,
            last,
            left: None,
        })
    }

    /// Whether it is not steered any more, because somebody took it away.
    pub fn is_left(&self) -> bool {
        self.left.is_some()
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        self.steered.law().policy()
    }

    /// Holds what is there to another policy, rate, room and other parameters from the next look on; an error
    /// changes nothing. The setup is of the same interface, wants a queue where this one has one, and counts
    /// as much of a packet.
    pub fn adopt(&mut self, setup: EgressSetup, now: Time) -> Result<(), PolicyError> {
        self.steered.adopt(&setup, now)?;
        self.capacity = Capacity { bytes: self.capacity.until(now, self.setup.link), since: now };
        self.setup = setup;
        Ok(())
    }

    /// State of the queue relative to its set point at the last look.
    pub fn table_state(&self) -> TableState {
        let (now, state) = &self.last;
        self.steered.table_state(state, *now)
    }

    /// The queue that packets wait in; `None` where it is virtual.
    pub fn room(&self) -> Option<Room> {
        self.setup.room
    }

    /// Bytes that the link could have carried until now, at the rates that were in force.
    pub fn capacity_bytes(&self, now: Time) -> f64 {
        self.capacity.until(now, self.setup.link)
    }

    /// The moves of the law since the last call, oldest first; the latest of them where there were many.
    pub fn take_moves(&mut self) -> impl Iterator<Item = Move> + use<> {
        std::mem::take(&mut self.steered.moves.latest).into_iter()
    }

    /// One look: counters, law, what is in force; `now` is the time on CLOCK_MONOTONIC. Says why it is left,
    /// if it is.
    pub fn turn(&mut self, now: Time, kernel: &mut dyn Kernel) -> Option<&str> {
        if self.left.is_some() {
            return None;
        }
        if now.since(self.watched) >= WATCH {
            self.watched = now;
            if attached(self.index) != Some(self.number) {
                return Some(self.leave("somebody took its program away, or the interface is gone"));
            }
            if self.qdisc.is_some() && !self.has_root(kernel) {
                return Some(self.leave("somebody removed or replaced its queue"));
            }
        }
        match self.steered.look(now) {
            Ok(state) => {
                self.last = (now, state);
                None
            }
            Err(_) => Some(self.leave("its maps cannot be read or written")),
        }
    }

    /// Whether the queue at the root is this one.
    fn has_root(&self, kernel: &mut dyn Kernel) -> bool {
        let ours = self.qdisc.as_ref().map(Qdisc::name);
        let root = qdisc::root(kernel, self.index).ok().flatten();
        ours.is_some() && root.as_ref().and_then(Message::kind).map(Kind::name) == ours
    }

    fn leave(&mut self, why: &str) -> &str {
        self.left.insert(why.to_string())
    }

    /// Takes the program away, or leaves it to work on with `keep`. An error is told in words.
    pub fn end(&mut self, kernel: &mut dyn Kernel) -> Option<String> {
        let is_ours = attached(self.index).is_none_or(|number| number == self.number);
        if self.setup.keep || !is_ours {
            return None;
        }
        let removed = if self.has_root(kernel) { qdisc::remove(kernel, self.index) } else { Ok(()) };
        let detached = detach(kernel, self.index, self.brought_clsact);
        let done = removed.map_err(|e| e.to_string()).and(detached);
        done.err().map(|e| format!("{}: NOT taken off: {e}", self.setup.interface))
    }

    /// What became of it.
    pub fn report(&self) -> EgressReport {
        let (now, state) = &self.last;
        let time = now.since(self.began).as_secs_f64();
        let share = |part: f64, whole: f64| (whole > 0.0).then_some(part / whole);
        EgressReport {
            interface: self.setup.interface.clone(),
            rate_bps: self.setup.link.as_bps(),
            virtual_bps: self.steered.rate().as_bps(),
            target_ms: self.steered.law().bounded_setpoint().as_millis_f64(),
            packets: state.accepted_packets,
            bytes: state.accepted.get(),
            signals: state.signals,
            drops: state.drops,
            average_bps: self.steered.law().rate_avg().map(Rate::as_bps),
            utilization: share(state.accepted.get() as f64, self.capacity_bytes(*now)),
            empty: share(state.empty_for(*now, self.steered.rate()).as_secs_f64(), time),
            queue: self.qdisc.as_ref().zip(state.waiting).map(|(qdisc, waiting)| QueueReport {
                kind: qdisc.name().to_string(),
                packets: waiting.packets,
                bytes: waiting.bytes.get(),
                delay_ms: waiting.delay.as_millis_f64(),
                overflows: waiting.overflows,
            }),
            moves: self.steered.moves(),
            left: self.left.clone(),
        }
    }
}
