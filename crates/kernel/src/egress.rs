//! Steers the virtual queue that the kernel keeps at the egress of an interface.

use crate::Kernel;
use crate::journal::Journal;
use crate::program::{self, Program, State, attached, detach, make_clsact};
use serde::Serialize;
use weir_aqm::Algorithm;
use weir_aqm::algorithms::gsp;
use weir_config::{Channel, Counting, QueueConfig, Upstream};
use weir_steer::{Law, Observer, Policy, PolicyError, SteeringLaw, Told};
use weir_tc::Kind;
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
    /// What the program does not do, with what to change.
    #[error("{0}")]
    Unfit(String),
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
    /// Somebody keeps one there already.
    #[error("process {pid} keeps a virtual queue at {interface} already; end that one first")]
    Rival {
        /// The process.
        pid: u32,
        /// The interface.
        interface: String,
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
}

impl EgressSetup {
    /// What a direction of a configuration of `weir run` asks for, at the port where it leaves; `None` if
    /// nothing is managed there. `name` is that of its table.
    pub fn of(
        name: &str,
        channel: &Channel,
        interface: &str,
        keep: bool,
    ) -> Result<Option<EgressSetup>, EgressError> {
        let unfit = |key: &str, why: &str| Err(EgressError::Unfit(format!("`{name}.{key}` {why}")));
        let (Some(aqm), Some(link)) = (&channel.aqm, channel.link.rate) else { return Ok(None) };
        if aqm.name != gsp::Gsp::NAME {
            return unfit(
                "aqm.name",
                "must be \"gsp\": that is the algorithm that the program in the kernel has",
            );
        }
        let Some(policy) = &channel.policy else {
            let why = "is missing: the program keeps a virtual queue, which `utilization_target` below 100% asks for";
            return unfit("policy", why);
        };
        let policy = policy.policy();
        if !policy.uses_virtual_queue() {
            let why = "must be below 100%: at 100% the real queue is what is managed, which `weir steer` does in the kernel";
            return unfit("policy.utilization_target", why);
        }
        if channel.delay > Duration::ZERO {
            return unfit("delay", "must be left out: the kernel sends packets at once");
        }
        if channel.queue != QueueConfig::default() {
            return unfit("queue", "must be left out: no packet waits in the program");
        }
        if channel.upstream != Upstream::Off {
            return unfit("upstream", "must be \"off\": the program does not look into packets");
        }
        let overhead = match channel.link.counting() {
            Counting::Frame(accounting) => accounting.overhead().get() as i32,
            Counting::Link(_) => {
                let why = "must be left out: the program adds the same to each packet; say `accounting`";
                return unfit("overhead", why);
            }
        };
        let params: gsp::Params = aqm.params();
        if let Some(why) = program::unfit(&params) {
            return Err(EgressError::Unfit(format!("`{name}.aqm`: {why}")));
        }
        let interface = interface.to_string();
        Ok(Some(EgressSetup { interface, link, overhead, params, policy, keep }))
    }
}

/// What became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EgressReport {
    /// Name of the interface.
    pub interface: String,
    /// Rate of the link, in bit/s.
    pub rate_bps: u64,
    /// Rate of the virtual queue in force, in bit/s.
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
    /// Share of the time in which nothing waited in the virtual queue.
    pub empty: Option<f64>,
    /// How often the law moved something.
    pub moves: u64,
    /// Why it was left before the end, in words.
    pub left: Option<String>,
}

/// Counts the moves of the law.
struct Moves<'a>(&'a mut u64);

impl Observer for Moves<'_> {
    fn moved(&mut self, _: &weir_steer::Move) {
        *self.0 += 1;
    }
}

/// The program and the law that steers it, wherever it runs.
pub struct SteeredProgram {
    program: Program,
    law: Told,
    link: Rate,
    /// Age of the last look at which every packet passes; never with `None`.
    after: Option<Duration>,
    moves: u64,
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
        let mut steered = SteeredProgram { program, law, link: setup.link, after, moves: 0 };
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
        self.moves
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
            self.law.signalled(&seen, &mut Moves(&mut self.moves));
        }
        self.steer(now)?;
        Ok(state)
    }

    fn steer(&mut self, now: Time) -> libbpf_rs::Result<()> {
        self.program.steer(self.rate(), self.law.law().bounded_setpoint(), now, self.after)
    }
}

fn not_steered(error: libbpf_rs::Error) -> EgressError {
    EgressError::Bpf { what: "the program cannot be steered", error }
}

/// A virtual queue at the egress of an interface.
pub struct Egress {
    setup: EgressSetup,
    steered: SteeredProgram,
    index: i32,
    /// The number by which the kernel knows the program there.
    number: u32,
    brought_clsact: bool,
    began: Time,
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
        let program = Program::load(&setup.params, overhead)
            .map_err(refused("the kernel does not take the program"))?;
        if let Some((pid, interface)) = journal.rival_at(index) {
            return Err(EgressError::Rival { pid, interface });
        }
        let brought_clsact = !kernel.disciplines(index)?.iter().any(|m| m.kind() == Some(&Kind::Clsact));
        journal.egress(index, &setup.interface, brought_clsact)?;
        let steered = SteeredProgram::begin(program, &setup, now)?;
        if brought_clsact {
            make_clsact(index).map_err(refused("cannot make the clsact qdisc"))?;
        }
        let attached = steered.program.attach(index);
        if attached.is_err() && brought_clsact {
            // As it was found; the error that is told is the first.
            let _ = detach(kernel, index, true);
        }
        let number = attached.map_err(refused("cannot attach the program"))?;
        let state = steered.program.state().map_err(refused("cannot read what the program tells"))?;
        let (began, watched, last) = (now, now, (now, state));
        Ok(Egress { setup, steered, index, number, brought_clsact, began, watched, last, left: None })
    }

    /// Whether it is not steered any more, because somebody took it away.
    pub fn is_left(&self) -> bool {
        self.left.is_some()
    }

    /// One look: counters, law, what is in force; `now` is the time on CLOCK_MONOTONIC. Says why it is left,
    /// if it is.
    pub fn turn(&mut self, now: Time) -> Option<&str> {
        if self.left.is_some() {
            return None;
        }
        if now.since(self.watched) >= WATCH {
            self.watched = now;
            if attached(self.index) != Some(self.number) {
                return Some(self.leave("somebody took its program away, or the interface is gone"));
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

    /// How long nothing waited, until the last look: the program counts it up to the last packet.
    fn empty(&self) -> Duration {
        let (now, state) = &self.last;
        let since = now.since(state.last);
        let rate = self.steered.rate();
        let waits = rate.time_for(state.backlog(state.last, rate));
        state.empty + if since > waits { since - waits } else { Duration::ZERO }
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
        let done = detach(kernel, self.index, self.brought_clsact);
        done.err().map(|e| format!("{}: NOT taken off: {e}", self.setup.interface))
    }

    /// What became of it.
    pub fn report(&self) -> EgressReport {
        let (now, state) = &self.last;
        let time = now.since(self.began).as_secs_f64();
        let share = |part: f64| (time > 0.0).then_some(part / time);
        let could = self.setup.link.as_bps_f64() / 8.0;
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
            utilization: share(state.accepted.get() as f64 / could),
            empty: share(self.empty().as_secs_f64()),
            moves: self.steered.moves(),
            left: self.left.clone(),
        }
    }
}
