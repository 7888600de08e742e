//! What happens in a run: made from a seed, made smaller when it fails, and written as JSON.

use crate::dice::Dice;
use crate::faults::{Fault, Kind};
use crate::outside::{Flow, SHORTEST};
use serde::{Deserialize, Serialize};
use weir_config::{AqmConfig, Buffer, Channel, LinkConfig, PolicyConfig, QueueConfig, Upstream};
use weir_dataplane::{DirectionSetup, Mode, Setup};
use weir_units::{Bytes, Duration, Rate};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000 * MS;

/// A port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PortPlan {
    /// Receive queues.
    pub queues: u32,
    /// Whether its driver has XDP.
    pub native: bool,
    /// Whether its driver needs no copies.
    pub zero_copy: bool,
    /// Offloads that are on.
    pub offloads: [bool; 3],
    /// Whether it is up at the beginning.
    pub up: bool,
    /// Whether it has a qdisc for filters already.
    pub clsact: bool,
}

/// A direction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DirectionPlan {
    /// In bit/s; zero for unshaped.
    pub rate: u64,
    /// Room, in ms at the rate.
    pub buffer_ms: u64,
    /// Behind the queue, in ms.
    pub delay_ms: u64,
    /// The algorithm.
    pub aqm: String,
    /// The discipline.
    pub discipline: String,
    /// Whether a policy moves the set point.
    pub steered: bool,
    /// Whether packets that pass are observed.
    pub observes: bool,
}

/// All that happens in a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The seed that it was made of.
    pub seed: u64,
    /// Both ports.
    pub ports: [PortPlan; 2],
    /// Both directions.
    pub directions: [DirectionPlan; 2],
    /// How frames come in and go out, if that is chosen.
    pub mode: Option<Mode>,
    /// Whether the loop turns all the time.
    pub busy: bool,
    /// Length of a sampling period, in ns.
    pub sample: u64,
    /// Flows.
    pub flows: Vec<Flow>,
    /// How long they send, in ns.
    pub length: u64,
    /// Faults.
    pub faults: Vec<Fault>,
    /// At which system call of its life each process is killed; zero for none.
    pub kills: Vec<u64>,
    /// How late a sleep ends in which nothing comes, in ns: the processor is somebody else's meanwhile.
    #[serde(default)]
    pub oversleeps: u64,
}

/// Kinds of faults that a packet loop meets, and how often each is chosen.
const LOOP_KINDS: &[(Kind, u64)] = &[
    (Kind::SendErrno, 4),
    (Kind::SendUnexpected, 3),
    (Kind::ReceiveErrno, 3),
    (Kind::PollErrno, 3),
    (Kind::StatisticsErrno, 2),
    (Kind::RequestErrno, 2),
    (Kind::OpenErrno, 1),
    (Kind::TransmitFull, 3),
    (Kind::TransmitSlow, 3),
    (Kind::CompletionsLate, 3),
    (Kind::WakeupLost, 3),
    (Kind::Flood, 1),
    (Kind::Carrier, 3),
    (Kind::AdminDown, 3),
    (Kind::Mtu, 2),
    (Kind::Queues, 2),
    (Kind::WallStep, 2),
    (Kind::Stall, 3),
    (Kind::ProgramsRemoved, 3),
    (Kind::OffloadOn, 2),
    (Kind::Gone, 1),
    (Kind::Kill, 2),
    (Kind::Restart, 2),
    (Kind::Takeover, 3),
];

/// Kinds that end by themselves, with a span.
fn has_span(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, TransmitFull | TransmitSlow | CompletionsLate | Carrier | AdminDown | Mtu | Stall)
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let dice = &mut Dice::new(seed);
        let queues = |dice: &mut Dice| match dice.below(8) {
            0..5 => 1,
            5 => 2,
            6 => dice.range(3, 8) as u32,
            _ => dice.range(9, 32) as u32,
        };
        let port = |dice: &mut Dice| PortPlan {
            queues: queues(dice),
            native: !dice.one_in(3),
            zero_copy: false,
            offloads: [dice.one_in(2), dice.one_in(4), dice.one_in(4)],
            up: !dice.one_in(8),
            clsact: dice.one_in(6),
        };
        let mut ports = [port(dice), port(dice)];
        ports.iter_mut().for_each(|port| port.zero_copy = port.native && dice.one_in(3));
        let directions = [direction(dice), direction(dice)];
        let mode = match dice.below(8) {
            0..4 => None,
            4 => Some(Mode::XdpGeneric),
            5..7 => Some(Mode::AfPacket),
            _ => ports.iter().all(|port| port.native).then_some(Mode::XdpNative),
        };
        let length = dice.span(50 * MS, 4 * SECOND);
        let endurance = dice.one_in(200);
        let flows = (0..dice.range(1, 5)).map(|_| flow(dice, &ports, endurance)).collect();
        let mut faults: Vec<Fault> = Vec::new();
        let count = if dice.one_in(16) { 0 } else { dice.span(1, 12) };
        for _ in 0..count {
            faults.push(fault(dice, length));
        }
        faults.sort_by_key(|fault| fault.at);
        // An interface that vanishes is the end of the run, so nothing comes behind it.
        if let Some(gone) = faults.iter().position(|fault| fault.kind == Kind::Gone) {
            faults.truncate(gone + 1);
        }
        let kills = match dice.below(12) {
            0 | 1 => (0..dice.range(1, 3)).map(|_| dice.span(1, 6000)).collect(),
            _ => Vec::new(),
        };
        if mode.is_some() && ports[0].zero_copy != ports[1].zero_copy {
            // One of them would be refused, with the reason; there is nothing behind that to test.
            ports.iter_mut().for_each(|port| port.zero_copy = false);
        }
        let sample = dice.of(&[10 * MS, 100 * MS, 100 * MS, 100 * MS]);
        Plan {
            seed,
            ports,
            directions,
            mode,
            busy: dice.one_in(40),
            sample,
            flows,
            length,
            faults,
            kills,
            oversleeps: 0,
        }
    }

    /// A link of 10 Mbit/s on which little happens, and seldom, for so many seconds.
    pub fn years(seed: u64, seconds: u64) -> Plan {
        let mut plan = Plan { seed, ..Plan::of(1) };
        let port = PortPlan {
            queues: 1,
            native: true,
            zero_copy: false,
            offloads: [false; 3],
            up: true,
            clsact: false,
        };
        let direction = DirectionPlan {
            rate: 10_000_000,
            buffer_ms: 100,
            delay_ms: 0,
            aqm: weir_aqm::USUAL.into(),
            discipline: weir_queue::USUAL.into(),
            steered: false,
            observes: false,
        };
        plan.ports = [port.clone(), port];
        plan.directions = [direction.clone(), direction];
        (plan.mode, plan.busy, plan.sample) = (None, false, 60 * SECOND);
        plan.length = seconds * SECOND;
        // Most turns are for nothing but the heartbeat, so they are as seldom as a beat may be.
        plan.oversleeps = 30 * MS;
        (plan.faults, plan.kills) = (Vec::new(), Vec::new());
        plan.flows = [0, 1]
            .map(|port| Flow {
                port,
                queue: 0,
                len: (SHORTEST, 1514),
                burst: 20,
                gap: MS,
                pause: (SECOND, 60 * SECOND),
                is_ect: true,
                tag: None,
                dscp: 0,
            })
            .to_vec();
        plan
    }

    /// The loop of this plan.
    pub fn setup(&self) -> Setup {
        let directions = [0, 1].map(|way| {
            let plan = &self.directions[way];
            DirectionSetup::new(["there", "back"][way], plan.channel())
        });
        Setup {
            mode: self.mode,
            realtime: true,
            busy: self.busy,
            journal: true,
            sample: Duration::from_nanos(self.sample),
            ..Setup::in_namespace(["left", "right"], directions)
        }
    }

    /// How long a frame may take where nothing disturbs, in ns.
    pub fn late(&self) -> u64 {
        let of = |plan: &DirectionPlan| {
            // Room of the queue at its rate, at least for the least room that there is, and a sleep.
            let least = (64 * 1538 * 8 * SECOND).checked_div(plan.rate).unwrap_or(0);
            plan.buffer_ms * MS + least + plan.delay_ms * MS
        };
        self.directions.iter().map(of).max().unwrap_or(0) * 2 + 200 * MS
    }

    /// Smaller plans that may fail as well, the smallest first.
    pub fn smaller(&self) -> Vec<Plan> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Plan)| {
            let mut plan = self.clone();
            change(&mut plan);
            if plan != *self {
                all.push(plan);
            }
        };
        let half = self.faults.len() / 2;
        with(&|plan| plan.faults.clear());
        with(&|plan| drop(plan.faults.drain(..half)));
        with(&|plan| plan.faults.truncate(half));
        (0..self.faults.len()).for_each(|at| {
            with(&|plan| {
                plan.faults.remove(at);
            })
        });
        with(&|plan| plan.kills.clear());
        with(&|plan| plan.kills.truncate(plan.kills.len().saturating_sub(1)));
        (0..self.flows.len()).for_each(|at| {
            with(&|plan| {
                plan.flows.remove(at);
            })
        });
        let last = self.faults.iter().map(|fault| fault.at + fault.span).max().unwrap_or(0) + 10 * MS;
        with(&|plan| plan.length = (plan.length / 2).max(last));
        with(&|plan| plan.length = last.min(plan.length));
        for at in 0..self.flows.len() {
            with(&|plan| plan.flows[at].burst = (plan.flows[at].burst / 2).max(1));
            with(&|plan| (plan.flows[at].tag, plan.flows[at].dscp) = (None, 0));
        }
        for at in 0..2 {
            with(&|plan| plan.ports[at].queues = 1);
            with(&|plan| plan.ports[at].offloads = [false; 3]);
            with(&|plan| (plan.ports[at].up, plan.ports[at].clsact) = (true, false));
            with(&|plan| plan.ports[at].zero_copy = false);
            with(&|plan| {
                let way = &mut plan.directions[at];
                (way.aqm, way.discipline) = (weir_aqm::UNMANAGED.into(), weir_queue::USUAL.into());
                (way.steered, way.observes, way.delay_ms) = (false, false, 0);
            });
        }
        with(&|plan| plan.mode = Some(Mode::XdpGeneric));
        all
    }
}

impl DirectionPlan {
    fn channel(&self) -> Channel {
        let plain = Channel::unshaped();
        Channel {
            link: LinkConfig {
                rate: (self.rate > 0).then(|| Rate::from_bps(self.rate)),
                buffer: Buffer::Time(Duration::from_millis(self.buffer_ms)),
                ..plain.link
            },
            delay: Duration::from_millis(self.delay_ms),
            queue: QueueConfig::new(&self.discipline).unwrap_or_default(),
            aqm: AqmConfig::new(&self.aqm),
            policy: self.steered.then(PolicyConfig::default),
            upstream: if self.observes { Upstream::Inform } else { Upstream::Off },
            ..plain
        }
    }

    /// Set points that the policy allows, in ms.
    pub fn setpoints_ms(&self) -> Option<(f64, f64)> {
        let policy = self.steered.then(|| PolicyConfig::default().policy())?;
        Some((policy.target_min.as_millis_f64(), policy.target_max.as_millis_f64()))
    }
}

fn direction(dice: &mut Dice) -> DirectionPlan {
    let names = weir_aqm::names();
    let aqm = dice.of(names);
    let config = AqmConfig::new(aqm);
    let has_setpoint = config.as_ref().is_some_and(|config| config.setpoint().is_some());
    let needs = config.map_or(weir_aqm::Needs::Nothing, |config| config.needs());
    let rate = dice.of(&[0, 1_000_000, 10_000_000, 10_000_000, 100_000_000]);
    let disciplines = weir_queue::names();
    let discipline = if dice.one_in(2) { weir_queue::USUAL } else { dice.of(disciplines) };
    DirectionPlan {
        rate,
        buffer_ms: dice.of(&[20, 100, 500]),
        delay_ms: if dice.one_in(3) { dice.range(1, 80) } else { 0 },
        aqm: aqm.into(),
        discipline: discipline.into(),
        steered: has_setpoint && rate > 0 && dice.one_in(2),
        observes: needs == weir_aqm::Needs::PassingPackets || dice.one_in(6),
    }
}

fn flow(dice: &mut Dice, ports: &[PortPlan; 2], endurance: bool) -> Flow {
    let port = dice.below(2) as usize;
    let short = dice.range(SHORTEST as u64, 400) as usize;
    let long = dice.range(short as u64, 1514) as usize;
    let heavy = endurance || dice.one_in(40);
    Flow {
        port,
        queue: dice.below(u64::from(ports[port].queues)) as u32,
        len: (short, long),
        burst: if heavy { dice.span(100, if endurance { 20_000 } else { 2000 }) } else { dice.span(1, 30) },
        gap: if heavy { dice.span(1_000, 100_000) } else { dice.span(5_000, 2 * MS) },
        pause: if heavy { (MS, 50 * MS) } else { (20 * MS, dice.span(40 * MS, 2 * SECOND)) },
        is_ect: dice.one_in(2),
        tag: dice.one_in(4).then(|| (dice.of(&[0x8100, 0x88a8]), dice.range(1, 4094) as u16)),
        dscp: dice.of(&[0, 0, 0, 46, 34, 8]),
    }
}

fn fault(dice: &mut Dice, length: u64) -> Fault {
    let all: u64 = LOOP_KINDS.iter().map(|(_, weight)| weight).sum();
    let mut rest = dice.below(all);
    let (kind, _) = LOOP_KINDS
        .iter()
        .find(|(_, weight)| {
            let is_it = rest < *weight;
            rest = rest.wrapping_sub(*weight);
            is_it
        })
        .expect("the weights sum up");
    let at = dice.below(length * 9 / 10);
    let span = if has_span(*kind) { dice.span(MS, 3 * SECOND).min(length - at) } else { 0 };
    Fault { at, span, port: dice.below(2) as usize, kind: *kind, value: dice.bits() >> 16 }
}

/// Least room of a queue, for those who count.
pub const ROOM_MIN: Bytes = Bytes::new(64 * 1538);
