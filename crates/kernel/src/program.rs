//! The BPF programs at an egress: loading them, what they are told, what they tell. `virtual_queue` keeps a
//! virtual queue; `admission` decides about what enters a [queue in BPF](crate::qdisc).

use crate::Kernel;
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, ProgramInput, TC_EGRESS, TC_INGRESS,
    TcHook, TcHookBuilder,
};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;
use weir_aqm::algorithms::gsp;
use weir_steer::Epoch;
use weir_steer::virtual_queue::{FRACTION, bytes_per_nano};
use weir_tc::Kind;
use weir_units::{Bytes, Duration, Rate, Time};

static VIRTUAL_QUEUE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/virtual_queue.bpf.o"));
static ADMISSION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/admission.bpf.o"));
const STEP: &str = "step";
/// What the program returns for a packet that is dropped (`TC_ACT_SHOT`).
const DROPPED: u32 = 2;
/// Handle and priority of the filter, by which a later start finds it.
const FILTER: u32 = 0x5756;
/// Bits of fraction of `alpha`.
const ALPHA_FRACTION: f64 = 65_536.0;
/// Length of a context that a test run is given (`struct __sk_buff`), and where it has what a test sets.
const CONTEXT: usize = 192;
const WIRE_LEN: usize = 160;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

/// Words of 64 bits of `struct state` of the program behind the lock and a flag: where it has the times that
/// begin with it, the epoch that goes on, and those that ended.
const LAST: usize = 1;
const LAST_UPDATE: usize = 2;
const EXPIRY: usize = 3;
const EPOCH_START: usize = 10;
const EPOCH_LEAST: usize = 14;
const ENDED: usize = 16;
const EPOCHS: usize = 17;
/// Words of an epoch, and how many epochs there is room for.
const EPOCH: usize = 6;
const EPOCHS_MOST: usize = 64;
/// Bytes of all of it.
const STATE: usize = 8 + 8 * TAIL;
/// Words of `struct queue_state` behind that: packets and bytes that wait, when the link is free, its
/// fraction, packets without room, and since when nothing waits.
const TAIL: usize = EPOCHS + EPOCH * EPOCHS_MOST;
const TAIL_WORDS: usize = 6;
/// Bits of fraction of what a byte takes on the link.
const COST_FRACTION: u32 = 24;

/// What the program decided about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It goes on as it is; one that had CE may have been signalled.
    Pass,
    /// It goes on with CE.
    Mark,
    /// It is dropped.
    Drop,
}

/// A packet of a test run.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// When it comes.
    pub now: Time,
    /// Its bytes, from the Ethernet header on: 14 or more, with those of the IP header that its type says.
    pub frame: &'a [u8],
    /// Its bytes on the wire, with the headers of each segment: those of the frame to 65536.
    pub wire_len: u32,
    /// Into how many packets the interface will split it; 0 where whoever made it left the count to the
    /// kernel.
    pub segments: u32,
    /// Bytes of a segment without headers; 0 for a packet that is not split.
    pub segment_size: u32,
}

/// A queue behind a shaper, as `struct queue_control` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Rate of the shaper.
    pub link: Rate,
    /// Bytes that may wait.
    pub limit: Bytes,
    /// Lost time that the shaper makes up for.
    pub catch_up: Duration,
}

impl Room {
    /// Nanoseconds of a byte on the link, with their fraction, as `weir_queue::Shaper` has them.
    fn cost(&self) -> u64 {
        let scaled = 8e9 * f64::from(1u32 << COST_FRACTION) / self.link.as_bps().max(1) as f64;
        (scaled + 0.5) as u64
    }

    /// Why the program cannot shape to it: what a packet takes must fit 64 bits.
    pub fn unfit(&self) -> Option<Unfit> {
        const LEAST: Rate = Rate::from_bps(64_000);
        let remedy = format!("give {LEAST} or more");
        (self.link < LEAST).then(|| Unfit::new("rate", "the queue in BPF reckons with 64 bits", &remedy))
    }
}

/// Why a key cannot be used with a program in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfit {
    /// The key.
    pub key: String,
    /// What is wrong with its value.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Unfit {
    pub(crate) fn new(key: &str, problem: &str, remedy: &str) -> Unfit {
        Unfit { key: key.to_string(), problem: problem.to_string(), remedy: remedy.to_string() }
    }

    /// With its key in this table.
    pub(crate) fn below(self, table: &str) -> Unfit {
        Unfit { key: format!("{table}.{}", self.key), ..self }
    }
}

/// How a queue in BPF stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// How long the packet waited that left last; zero while none waits.
    pub delay: Duration,
    /// Packets that wait, as they were handed over.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// When the link has sent what left last.
    pub free: Time,
    /// Packets that found no room; they are among the drops.
    pub overflows: u64,
    /// Since when nothing waits.
    since: Time,
}

/// How the program stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// The virtual backlog at `last`, in bytes with 32 bits of fraction.
    size: u64,
    /// Time of the last packet.
    pub last: Time,
    /// Bytes of packets that passed, marked ones included; of those that left, where they wait.
    pub accepted: Bytes,
    /// The packets that they are on the wire: segments of one that is split later count each.
    pub accepted_packets: u64,
    /// Packets that were marked or dropped, as they were handed over: with all their segments.
    pub signals: u64,
    /// Those that were dropped.
    pub drops: u64,
    /// How long nothing waited.
    pub empty: Duration,
    /// What was noted since the last signal, or the start; its end is not filled in.
    pub since_signal: Noted,
    /// The queue, where packets wait.
    pub waiting: Option<Waiting>,
}

impl State {
    fn of(words: &[u64]) -> State {
        let waiting = words.get(TAIL..TAIL + TAIL_WORDS).map(|tail| Waiting {
            delay: Duration::from_nanos(words[0]),
            packets: tail[0],
            bytes: Bytes::new(tail[1]),
            free: Time::from_nanos(tail[2]),
            overflows: tail[4],
            since: Time::from_nanos(tail[5]),
        });
        State {
            size: words[0],
            last: Time::from_nanos(words[LAST]),
            accepted: Bytes::new(words[5]),
            accepted_packets: words[6],
            signals: words[7],
            drops: words[8],
            empty: Duration::from_nanos(words[9]),
            since_signal: Noted::of(&words[EPOCH_START..][..EPOCH], waiting.is_some()),
            waiting,
        }
    }

    /// How long nothing waited until `now`, at this rate: the program counts up to the last packet.
    pub fn empty_for(&self, now: Time, rate: Rate) -> Duration {
        let Some(waiting) = &self.waiting else {
            let since = now.since(self.last);
            let waits = rate.time_for(self.backlog(self.last, rate));
            return self.empty + if since > waits { since - waits } else { Duration::ZERO };
        };
        self.empty + if waiting.packets == 0 { now.since(waiting.since) } else { Duration::ZERO }
    }

    /// The virtual backlog at `now`, at this rate, in whole bytes.
    pub fn backlog(&self, now: Time, rate: Rate) -> Bytes {
        let served = u128::from(bytes_per_nano(rate)) * u128::from(now.since(self.last).as_nanos());
        let left = u128::from(self.size).saturating_sub(served);
        Bytes::new((left >> FRACTION) as u64)
    }
}

/// What the program noted between two signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Noted {
    /// The signal before, or the start.
    pub start: Time,
    /// The signal at its end.
    pub end: Time,
    /// Bytes that came, with those that were dropped.
    pub arrived: Bytes,
    /// Bytes that were dropped.
    pub dropped: Bytes,
    /// The least that a packet found waiting; `None` if none came.
    least: Option<Least>,
    /// Whether a packet found nothing, or the last one that waited left.
    pub ran_empty: bool,
}

/// What waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Least {
    /// In a virtual queue, in bytes with 32 bits of fraction.
    Size(u64),
    /// For how long.
    Delay(Duration),
}

impl Noted {
    /// Out of the words of an epoch; `waits` says whether packets wait there.
    fn of(words: &[u64], waits: bool) -> Noted {
        let least = match words[4] {
            u64::MAX => None,
            delay if waits => Some(Least::Delay(Duration::from_nanos(delay))),
            size => Some(Least::Size(size)),
        };
        Noted {
            start: Time::from_nanos(words[0]),
            end: Time::from_nanos(words[1]),
            arrived: Bytes::new(words[2]),
            dropped: Bytes::new(words[3]),
            least,
            ran_empty: words[5] != 0,
        }
    }

    /// As a law wants it: `rate` is that of the virtual queue, `link` that of the link.
    pub fn epoch(&self, rate: Rate, link: Rate, counts_discarded: bool) -> Epoch {
        let dropped = if counts_discarded { Bytes::ZERO } else { self.dropped };
        let delay = |least| match least {
            Least::Size(size) => size.checked_div(bytes_per_nano(rate)).map(Duration::from_nanos),
            Least::Delay(delay) => Some(delay),
        };
        Epoch {
            start: self.start,
            now: self.end,
            arrived: self.arrived - dropped,
            delay_min: self.least.and_then(delay),
            ran_empty: self.ran_empty,
            link,
        }
    }
}

/// The least size of a virtual queue, in bytes with fraction, whose delay to the nearest nanosecond is above
/// the target.
fn size_above(target: Duration, rate: Rate) -> u64 {
    let rate = bytes_per_nano(rate);
    let size = (u128::from(target.as_nanos()) + 1) * u128::from(rate) - u128::from(rate / 2);
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Why parameters of GSP cannot be those of the program.
pub fn unfit(params: &gsp::Params) -> Option<Unfit> {
    if !params.delay_based {
        let problem = "the program compares the delay of the virtual queue";
        return Some(Unfit::new("delay_based", problem, "give true"));
    }
    if !params.adaptive {
        return Some(Unfit::new("adaptive", "the program adapts its timeout", "give true"));
    }
    let product = u128::from(params.interval.as_nanos()) * u128::from(params.tau.as_nanos());
    let most = product + u128::from(params.tau.as_nanos() + params.max_cum.as_nanos());
    (most > u128::from(u64::MAX)).then(|| {
        let (interval, tau) = (params.interval, 1e-9 * u64::MAX as f64 / params.interval.as_nanos() as f64);
        let remedy = format!("give {tau:.0} s or less at an `interval` of {interval}");
        Unfit::new("tau", "`interval` times `tau` is too much for its arithmetic of 64 bits", &remedy)
    })
}

/// What the program is told, and what it was told last.
#[derive(Clone, Debug)]
struct Control {
    rate: Rate,
    target: Duration,
    beat: Time,
    /// Age of the beat at which everything passes; `None` for never.
    after: Option<Duration>,
    /// The time, in a test run.
    clock: Option<Time>,
    overhead: i32,
    /// Epochs that were read.
    read: u64,
    params: gsp::Params,
    /// The queue, where packets wait.
    room: Option<Room>,
    /// When the packet came that leaves, in a test run.
    arrived: Option<Time>,
}

impl Control {
    /// As `struct control` of the program has it, or `struct queue_control`.
    fn bytes(&self) -> Vec<u8> {
        let after = self.after.map_or(i64::MAX as u64, |after| after.as_nanos());
        let long = [
            bytes_per_nano(self.rate),
            self.params.interval.as_nanos(),
            self.params.tau.as_nanos(),
            self.params.max_cum.as_nanos(),
            self.beat.as_nanos(),
            after,
            self.clock.map_or(0, Time::as_nanos),
            self.room.map_or_else(|| size_above(self.target, self.rate), |_| self.target.as_nanos() + 1),
            self.read,
        ];
        let alpha = (self.params.alpha * ALPHA_FRACTION).round() as u32;
        let short =
            [alpha, u32::from(self.params.burst_rule), u32::from(self.params.ecn), self.overhead as u32];
        let queue = self.room.map(|room| {
            let arrived = self.arrived.map_or(0, Time::as_nanos);
            [room.cost(), room.limit.get(), room.catch_up.as_nanos(), arrived]
        });
        let long = long.iter().flat_map(|number| number.to_ne_bytes());
        let short = short.iter().flat_map(|number| number.to_ne_bytes());
        long.chain(short).chain(queue.iter().flatten().flat_map(|number| number.to_ne_bytes())).collect()
    }
}

/// The program, loaded into the kernel.
pub struct Program {
    name: &'static str,
    object: Object,
    control: MapHandle,
    state: MapHandle,
    told: Control,
}

pub(crate) fn quiet() {
    static ONCE: Once = Once::new();
    // Its errors say enough.
    fn nothing(_: PrintLevel, _: String) {}
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Debug, nothing)));
    });
}

impl Program {
    /// Loads it. Until it is steered, every packet passes. `overhead` is what a packet takes beside its
    /// Ethernet frame, in bytes.
    pub fn load(params: &gsp::Params, overhead: i32) -> libbpf_rs::Result<Program> {
        Program::of("virtual_queue", VIRTUAL_QUEUE, params, overhead, None)
    }

    /// Loads the program that decides about what enters a queue behind a shaper.
    pub fn load_admission(params: &gsp::Params, overhead: i32, room: Room) -> libbpf_rs::Result<Program> {
        Program::of("admission", ADMISSION, params, overhead, Some(room))
    }

    fn of(
        name: &'static str,
        object: &[u8],
        params: &gsp::Params,
        overhead: i32,
        room: Option<Room>,
    ) -> libbpf_rs::Result<Program> {
        quiet();
        let object = ObjectBuilder::default().open_memory(object)?.load()?;
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name).expect("the object has this map");
            MapHandle::try_from(&map)
        };
        let (control, state) = (map("control")?, map("state")?);
        let told = Control {
            rate: Rate::ZERO,
            target: params.target,
            beat: Time::ZERO,
            after: None,
            clock: None,
            overhead,
            read: 0,
            params: params.clone(),
            room,
            arrived: None,
        };
        Ok(Program { name, object, control, state, told })
    }

    /// Its maps, which a queue in BPF shares: what it is told, and what it tells.
    pub(crate) fn maps(&self) -> [(&'static str, BorrowedFd<'_>); 2] {
        [("control", self.control.as_fd()), ("state", self.state.as_fd())]
    }

    fn state_size(&self) -> usize {
        STATE + if self.told.room.is_some() { 8 * TAIL_WORDS } else { 0 }
    }

    /// Begins anew at `now`, with nothing that waits.
    pub fn begin(&mut self, now: Time) -> libbpf_rs::Result<()> {
        let mut state = vec![0u8; self.state_size()];
        let mut set = |word: usize, to: u64| {
            state[8 + 8 * word..16 + 8 * word].copy_from_slice(&to.to_ne_bytes());
        };
        for word in [LAST, LAST_UPDATE, EXPIRY, EPOCH_START] {
            set(word, now.as_nanos());
        }
        if self.told.room.is_some() {
            set(TAIL + TAIL_WORDS - 1, now.as_nanos());
        } else {
            // Of nothing; a queue is empty at the start.
            set(EPOCH_LEAST, u64::MAX);
        }
        self.told.read = 0;
        self.state.update(&0u32.to_ne_bytes(), &state, MapFlags::ANY)
    }

    /// Steers it: the rate of the virtual queue and GSP's target hold from the next packet on. `beat` is the
    /// time now; when it is older than `after`, every packet passes, and never with `None`.
    pub fn steer(
        &mut self,
        rate: Rate,
        target: Duration,
        beat: Time,
        after: Option<Duration>,
    ) -> libbpf_rs::Result<()> {
        self.told = Control { rate, target, beat, after, clock: None, ..self.told.clone() };
        self.tell()
    }

    fn tell(&self) -> libbpf_rs::Result<()> {
        self.control.update(&0u32.to_ne_bytes(), &self.told.bytes(), MapFlags::ANY)
    }

    /// The words behind the lock and a flag, of one moment.
    fn words(&self) -> libbpf_rs::Result<Vec<u64>> {
        let bytes = self.state.lookup(&0u32.to_ne_bytes(), MapFlags::LOCK)?.unwrap_or_default();
        let words = bytes.chunks_exact(8).skip(1).map(|b| u64::from_ne_bytes(b.try_into().expect("8 bytes")));
        let mut words: Vec<u64> = words.collect();
        words.resize(self.state_size() / 8 - 1, 0);
        Ok(words)
    }

    /// How it stands.
    pub fn state(&self) -> libbpf_rs::Result<State> {
        self.words().map(|words| State::of(&words))
    }

    /// How it stands, and what it noted between signals since the last look, oldest first. It has room for 64
    /// epochs; while they are not read, the next signals do not end the one that goes on. The room is free
    /// again when it is steered.
    pub fn look(&mut self) -> libbpf_rs::Result<(State, Vec<Noted>)> {
        let words = self.words()?;
        let (state, ended) = (State::of(&words), words[ENDED]);
        let noted = |number: u64| {
            let at = EPOCHS + EPOCH * (number % EPOCHS_MOST as u64) as usize;
            Noted::of(&words[at..][..EPOCH], state.waiting.is_some())
        };
        let all = (self.told.read..ended).map(noted).collect();
        self.told.read = ended;
        Ok((state, all))
    }

    /// Attaches it to the egress of an interface, in the place of one that an earlier run left. The interface
    /// must have a clsact qdisc ([`make_clsact`]). Returns the number by which the kernel knows the program.
    pub fn attach(&self, interface: i32) -> libbpf_rs::Result<u32> {
        let mut programs = self.object.progs();
        let program = programs.find(|p| p.name() == self.name).expect("the object has this program");
        let mut hook = hook(program.as_fd(), interface);
        hook.attach()?;
        hook.query()
    }

    /// What it decides about a packet, in a run of the kernel that sends nothing (`BPF_PROG_TEST_RUN`), and
    /// the packet after that.
    pub fn answer(&mut self, probe: &Probe<'_>) -> libbpf_rs::Result<(Answer, Vec<u8>)> {
        self.told.clock = Some(probe.now);
        self.tell()?;
        let (said, after, _) = self.run(self.name, probe, 1)?;
        let answer = match said {
            DROPPED => Answer::Drop,
            _ if after != probe.frame => Answer::Mark,
            _ => Answer::Pass,
        };
        Ok((answer, after))
    }

    /// How long such a packet takes in it, on average of so many runs, by the clock of the machine.
    pub fn cost(&mut self, probe: &Probe<'_>, runs: u32) -> libbpf_rs::Result<std::time::Duration> {
        self.told.clock = None;
        self.tell()?;
        self.run(self.name, probe, runs).map(|(_, _, cost)| cost)
    }

    /// A packet enters the queue, or leaves it that came at `arrived`, in a run of the kernel that sends
    /// nothing; whether the shaper lets it leave.
    pub fn step(&mut self, probe: &Probe<'_>, arrived: Option<Time>) -> libbpf_rs::Result<bool> {
        (self.told.clock, self.told.arrived) = (Some(probe.now), arrived);
        self.tell()?;
        self.run(STEP, probe, 1).map(|(said, _, _)| said != 0)
    }

    /// Changes the parameters of the algorithm, which keeps the time that it accumulated; they hold once it
    /// is steered. `target` is whatever it is steered to.
    pub fn set_params(&mut self, params: &gsp::Params) {
        self.told.params = params.clone();
    }

    /// Changes the queue's rate and room; it holds once it is steered.
    pub fn set_room(&mut self, room: Room) {
        self.told.room = Some(room);
    }

    /// Puts a queue for tests into a state: how long the last packet waited, and what waits.
    pub fn set_waiting(&mut self, delay: Duration, packets: u64, bytes: Bytes) -> libbpf_rs::Result<()> {
        let mut state = self.state.lookup(&0u32.to_ne_bytes(), MapFlags::LOCK)?.unwrap_or_default();
        for (word, to) in [(0, delay.as_nanos()), (TAIL, packets), (TAIL + 1, bytes.get())] {
            state[8 + 8 * word..16 + 8 * word].copy_from_slice(&to.to_ne_bytes());
        }
        self.state.update(&0u32.to_ne_bytes(), &state, MapFlags::LOCK)
    }

    fn run(
        &self,
        name: &str,
        probe: &Probe<'_>,
        repeat: u32,
    ) -> libbpf_rs::Result<(u32, Vec<u8>, std::time::Duration)> {
        let mut context = [0u8; CONTEXT];
        for (at, number) in
            [(WIRE_LEN, probe.wire_len), (GSO_SEGS, probe.segments), (GSO_SIZE, probe.segment_size)]
        {
            context[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        let mut after = probe.frame.to_vec();
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(probe.frame),
            data_out: Some(&mut after),
            repeat,
            ..ProgramInput::default()
        };
        let mut programs = self.object.progs_mut();
        let program = programs.find(|p| p.name() == name).expect("the object has this program");
        let done = program.test_run(input)?;
        let (said, cost) = (done.return_value, done.duration);
        Ok((said, after, cost))
    }
}

/// A hook that names our filter on the egress of an interface.
fn hook(fd: BorrowedFd<'_>, interface: i32) -> TcHook {
    quiet();
    let mut builder = TcHookBuilder::new(fd);
    builder.ifindex(interface).handle(FILTER).priority(FILTER).replace(true);
    builder.hook(TC_EGRESS)
}

/// Makes the qdisc that holds filters, where there is none.
pub fn make_clsact(interface: i32) -> libbpf_rs::Result<()> {
    // The request names no program.
    hook(std::io::stdin().as_fd(), interface).create().map(|_| ())
}

/// The number of the program that is attached to the egress of an interface by a run of ours, if one is.
pub fn attached(interface: i32) -> Option<u32> {
    hook(std::io::stdin().as_fd(), interface).query().ok()
}

/// Takes the program off an interface, and with `clsact` the qdisc that held it, unless others have filters
/// there meanwhile.
pub fn detach(kernel: &mut dyn Kernel, interface: i32, clsact: bool) -> Result<(), String> {
    let stdin = std::io::stdin();
    let taken_off = hook(stdin.as_fd(), interface).detach();
    // What is not there any more is no error.
    if attached(interface).is_some() {
        return taken_off.map_err(|e| e.to_string());
    }
    if !clsact || kernel.has_filters(interface).map_err(|e| e.to_string())? {
        return Ok(());
    }
    let has_clsact = |kernel: &mut dyn Kernel| {
        kernel.disciplines(interface).is_ok_and(|all| all.iter().any(|m| m.kind() == Some(&Kind::Clsact)))
    };
    if !has_clsact(kernel) {
        return Ok(());
    }
    let mut builder = TcHookBuilder::new(stdin.as_fd());
    builder.ifindex(interface);
    // Both directions together name the qdisc itself.
    let removed = builder.hook(TC_INGRESS | TC_EGRESS).destroy();
    if has_clsact(kernel) { removed.map_err(|e| e.to_string()) } else { Ok(()) }
}
