//! Runs a plan: a machine, and one process after the other, until the user ends the last one.

use crate::calls;
use crate::faults::{self, Kind, Met};
use crate::kernel::{BEGIN, BUSY_TURN, Event, Interface, Kernel, LOOK};
use crate::outside::{Counts, Outside};
use crate::plan::{Plan, SECOND};
use crate::rival::{Opened, Process, give_word};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use weir_dataplane::{Error, Handle, Loop, Outcome};

/// Most processes in a run.
const LIVES_MAX: u32 = 12;
/// Between silence and the end: what waits leaves meanwhile.
const DRAIN: u64 = SECOND / 2;
/// For so long the system refuses a port before a process leaves it, in ns.
const REFUSED: u64 = weir_dataplane::FAIL_AFTER.as_nanos();
/// Most chunks that a process can have.
const CHUNKS_MAX: u64 = 1 << 20;

/// What came of a run.
#[derive(Default, Debug)]
pub struct Report {
    /// What is wrong; nothing if all is as promised.
    pub violations: Vec<String>,
    /// Faults that took effect.
    pub met: Met,
    /// Simulated time in ns.
    pub simulated: u64,
    /// System calls.
    pub calls: u64,
    /// Processes.
    pub lives: u32,
    /// Frames that were sent from outside, and those that were received.
    pub frames: (u64, u64),
    /// The longest time a frame took, in ns.
    pub longest_delay: u64,
    /// The longest time in which the host got frames, as the wire was taken apart between two processes, in
    /// ns.
    pub longest_gap: u64,
    /// What happened, if it was wanted.
    pub trace: Vec<String>,
}

/// What the loop told while it ran.
#[derive(Default)]
struct Told {
    /// Packets that were discarded, by direction.
    dropped: [u64; 2],
    warnings: Vec<String>,
}

/// Runs a plan on a thread of its own, so that nothing of another run is left on it.
pub fn run(plan: &Plan, wants_trace: bool) -> Report {
    let plan = plan.clone();
    let thread = std::thread::Builder::new().stack_size(4 << 20);
    let thread = thread.spawn(move || Run::new(&plan, wants_trace).run());
    let result = thread.map(|thread| thread.join());
    match result {
        Ok(Ok(report)) => report,
        Ok(Err(_)) => {
            Report { violations: vec!["the simulator itself panicked".into()], ..Report::default() }
        }
        Err(error) => Report { violations: vec![format!("no thread: {error}")], ..Report::default() },
    }
}

struct Run<'a> {
    plan: &'a Plan,
    /// A process that took over, or tried to: what came of it.
    next: Option<(Opened, Process)>,
    kernel: Box<Kernel>,
    has_begun: bool,
    lives: u32,
    longest_gap: u64,
}

/// How a life ended.
enum End {
    Killed,
    /// By itself, with the wire left open.
    Left,
    /// By its user.
    Clean,
    /// Because it could not go on, which it said.
    Told,
    /// Before it had begun, which it said.
    Refused,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, wants_trace: bool) -> Run<'a> {
        let interface = |at: usize| {
            let port = &plan.ports[at];
            Interface {
                queues: port.queues,
                has_native: port.native,
                has_zero_copy: port.native && port.zero_copy,
                offloads: port.offloads,
                is_up: port.up,
                has_clsact: port.clsact,
                ..Interface::new(["left", "right"][at], 11 + at as u32)
            }
        };
        let outside = Outside::new(&plan.flows, plan.late());
        let mut kernel =
            Box::new(Kernel::new([interface(0), interface(1)], outside, plan.faults.clone(), plan.seed));
        if plan.busy {
            kernel.clock_takes = BUSY_TURN;
        }
        kernel.oversleeps = plan.oversleeps;
        kernel.trace = wants_trace.then(Vec::new);
        kernel.outside.read_every = (plan.sample * 256).max(SECOND);
        Run { plan, next: None, kernel, has_begun: false, lives: 0, longest_gap: 0 }
    }

    fn run(mut self) -> Report {
        let found = [0, 1].map(|port| self.kernel.interfaces[port].found());
        if let Some(opening) = self.plan.faults.iter().find(|fault| fault.kind == Kind::OpenErrno) {
            faults::arm_opening(&mut self.kernel.armed, opening.value);
        }
        let (mut end, mut is_left) = (End::Told, false);
        while self.lives < LIVES_MAX {
            self.lives += 1;
            let came = self.next.take().map(|(opened, mut process)| {
                self.kernel.swap_process(&mut process);
                self.kernel.at_stop = None;
                opened
            });
            if came.is_none() {
                let armed = self.kernel.armed.clone();
                self.kernel.begin_process();
                if self.lives == 1 {
                    self.kernel.armed = armed;
                }
                self.kernel.kill_at = self.kill_of(self.lives);
            }
            let setup = weir_dataplane::Setup { takeover: true, ..self.plan.setup() };
            self.kernel.challenge = Some((setup, self.kill_of(self.lives + 1)));
            end = self.live(came);
            self.kernel.stop = std::ptr::null();
            self.end_takeover();
            // What a process left is there until another one has begun: one that could not puts nothing back.
            is_left = match end {
                End::Killed | End::Left => true,
                End::Refused => is_left,
                End::Clean | End::Told => false,
            };
            if self.next.is_some() {
                continue;
            }
            let is_gone = self.kernel.interfaces.iter().any(|port| !port.is_present);
            let is_over = self.kernel.outside.is_drained || is_gone;
            // Without a port none begins any more.
            if is_over && (!is_left || is_gone && matches!(end, End::Refused)) {
                break;
            }
            if is_left || matches!(end, End::Told | End::Refused) {
                // Whoever starts it again waits for a while.
                self.pass_dead();
            }
        }
        if self.lives == LIVES_MAX
            && !matches!(end, End::Clean)
            && self.plan.faults.len() + self.plan.kills.len() < LIVES_MAX as usize
        {
            self.kernel.violated(|| format!("after {LIVES_MAX} processes none has ended by its user"));
        }
        let everybody_there = self.kernel.interfaces.iter().all(|port| port.is_present);
        if everybody_there && !is_left {
            self.check_as_found(&found);
        }
        self.report()
    }

    /// At which step a life ends.
    fn kill_of(&self, life: u32) -> Option<u64> {
        self.plan.kills.get(life as usize - 1).copied().filter(|step| *step > 0)
    }

    /// Whoever takes over goes on after the end of the other.
    fn end_takeover(&mut self) {
        let kernel: *mut Kernel = &mut *self.kernel;
        while let Some(rival) = self.kernel.rival.as_ref().filter(|rival| !rival.is_done) {
            let wake = rival.wake;
            self.kernel.advance(wake);
            // SAFETY: the kernel lives, and this thread has the word.
            unsafe { give_word(kernel) };
        }
        if let Some(rival) = self.kernel.rival.take() {
            let process = rival.other;
            self.next = Some((rival.join(), process));
        }
    }

    /// Time passes while nobody runs: frames go on, or the kernel lost them by a fault.
    fn pass_dead(&mut self) {
        let before = self.counts();
        let now = self.kernel.now;
        let had_filter = self.kernel.interfaces.iter().all(|port| port.filter.is_some());
        self.kernel.advance(now + SECOND);
        if !had_filter {
            return;
        }
        for (port, before) in before.iter().enumerate() {
            let closed = self.kernel.outside.counts[port].to_host - before.to_host;
            if closed > 0 {
                self.kernel.violated(|| {
                    format!("{closed} frames of port {port} found the wire closed after a kill")
                });
            }
        }
    }

    fn counts(&self) -> [Counts; 2] {
        self.kernel.outside.counts
    }

    /// A process, from its beginning to its end.
    fn live(&mut self, came: Option<Opened>) -> End {
        // The user may have asked for the end while nobody ran.
        let stop = AtomicBool::new(self.kernel.outside.is_drained);
        self.kernel.stop = &stop;
        let kernel: *mut Kernel = &mut *self.kernel;
        let closed_from = self.kernel.now;
        // What one met that took over it met before.
        let all_before = || self.kernel.met.all().map(|(_, n)| n).sum::<u64>();
        let armed_before = if came.is_some() { 0 } else { all_before() };
        // SAFETY: the kernel lives, and nobody uses it but the calls of the process until `leave`.
        unsafe { calls::enter(kernel) };
        let opened =
            came.unwrap_or_else(|| catch_unwind(AssertUnwindSafe(|| Loop::open_alone(self.plan.setup()))));
        calls::leave();
        let opened = match opened {
            Err(panic) => return self.panicked("while ports were opened", &*panic),
            Ok(opened) => opened,
        };
        if self.kernel.is_dead {
            drop_inside(kernel, opened);
            return self.died();
        }
        let (looping, handle, chores) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let faults: u64 = self.kernel.met.all().map(|(_, n)| n).sum();
                let is_excused = faults > armed_before || !matches!(error, Error::Os { .. });
                self.kernel.note(|| format!("it could not begin: {error}"));
                let met = faults > 0 || self.kernel.interfaces.iter().any(|port| !port.is_present);
                if !(is_excused && met) {
                    self.kernel.violated(|| format!("it could not begin: {error}"));
                }
                return End::Refused;
            }
        };
        self.kernel
            .note(|| format!("process {} forwards: {}; {:?}", self.lives, looping.mode(), looping.said()));
        if self.lives > 1 {
            self.longest_gap = self.longest_gap.max(self.kernel.now - closed_from);
        }
        self.kernel.armed.forget_calls();
        self.begin_outside();
        let told = Rc::new(RefCell::new(Told::default()));
        self.kernel.reader = Some(reader(handle, told.clone(), self.plan));
        self.kernel.chores = chores;
        let before = self.counts();
        // The user may have asked for the end while it opened: what passed until now is of no concern to it.
        self.kernel.at_stop = self.kernel.at_stop.map(|_| before);
        // SAFETY: as above.
        unsafe { calls::enter(kernel) };
        let result = catch_unwind(AssertUnwindSafe(|| looping.run(&stop)));
        // Nothing is left in it: the ports are closed.
        drop(self.kernel.chores.take());
        calls::leave();
        let result = match result {
            Err(panic) => return self.panicked("while it forwarded", &*panic),
            Ok(result) => result,
        };
        if self.kernel.is_dead {
            self.kernel.reader = None;
            return self.died();
        }
        self.kernel.read_told();
        self.kernel.reader = None;
        let told = told.take();
        match result {
            Ok(outcome) => {
                self.kernel.note(|| format!("it ended by its user; {:?}", outcome.warnings));
                self.check_counts(&before, &told, &outcome);
                End::Clean
            }
            Err(error) => {
                self.kernel.note(|| format!("it ended by itself: {error}"));
                let is_gone = self.kernel.interfaces.iter().any(|port| !port.is_present);
                match error {
                    Error::PortGone(..) if is_gone => {}
                    // The system refused for so long that it leaves the ports to the kernel, and says so.
                    Error::LeftToKernel(_) if self.is_refused_for_long() => return End::Left,
                    _ => self.kernel.violated(|| format!("it ended by itself: {error}")),
                }
                End::Told
            }
        }
    }

    /// Whether sending or lending was refused at a port for as long as a heartbeat is fresh.
    fn is_refused_for_long(&self) -> bool {
        self.kernel.refused.iter().any(|(first, last)| last - first >= REFUSED)
    }

    fn died(&mut self) -> End {
        let open = self.kernel.open_descriptors();
        if open > 0 {
            self.kernel.violated(|| format!("{open} descriptors outlived their process"));
        }
        End::Killed
    }

    fn panicked(&mut self, when: &str, panic: &(dyn std::any::Any + Send)) -> End {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_string();
        self.kernel.violated(|| format!("it panicked {when}: {text}"));
        (self.kernel.outside.is_silent, self.kernel.outside.is_drained) = (true, true);
        self.kernel.reader = None;
        End::Told
    }

    /// Traffic and faults begin with the first process that forwards.
    fn begin_outside(&mut self) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        let now = self.kernel.now;
        for flow in 0..self.plan.flows.len() {
            self.kernel.at(now + 1_000_000 + flow as u64 * 77_777, Event::Flow(flow));
        }
        for (at, fault) in self.plan.faults.iter().enumerate() {
            if fault.kind != Kind::OpenErrno {
                self.kernel.at(now + fault.at, Event::Begin(at));
            }
        }
        let period = self.kernel.outside.read_every;
        self.kernel.at(now + period, Event::Read);
        self.kernel.at(now + LOOK, Event::Look);
        self.kernel.at(now + self.plan.length, Event::Silence);
        self.kernel.at(now + self.plan.length + DRAIN + 2 * self.plan.late(), Event::Stop);
    }

    /// Every frame that came in during a life went out, or was counted.
    fn check_counts(&mut self, before: &[Counts; 2], told: &Told, outcome: &Outcome) {
        let is_drained = self.kernel.outside.is_drained;
        let now = self.counts();
        for way in 0..2 {
            let (before, now) = (before[way], now[way]);
            let came = now.taken - before.taken + now.lost_in_kernel - before.lost_in_kernel;
            let left = now.left - before.left;
            let faults = &outcome.links[way].faults;
            let not_lost = ["malformed", "samples_lost", "moves_lost"];
            let counted: u64 =
                faults.iter().filter(|(name, _)| !not_lost.contains(&name.as_str())).map(|(_, n)| n).sum();
            let counted = counted + told.dropped[way];
            let name = ["there", "back"][way];
            let accounted = left + counted;
            if accounted > came {
                self.kernel.violated(|| {
                    format!("{name}: {came} frames came, and {left} left and {counted} were counted as lost")
                });
            }
            let waits = came.saturating_sub(accounted);
            // What the kernel lost it alone knows: where it does not tell, nobody can count it. That is said.
            let port = ["left", "right"][way];
            let untold = format!("{port}: the system does not tell how many frames were lost");
            let is_untold = outcome.warnings.iter().any(|line| line.starts_with(&untold));
            let may_miss = if is_untold { now.lost_in_kernel - before.lost_in_kernel } else { 0 };
            if is_drained && waits > may_miss {
                self.kernel.violated(|| {
                    format!("{name}: {came} frames came, {left} left, {counted} were counted as lost, and {waits} are missing")
                });
            }
            if waits > CHUNKS_MAX {
                self.kernel.violated(|| format!("{name}: {waits} frames wait"));
            }
            let (sent, in_sum) = (
                now.sent,
                now.link_down
                    + now.taken
                    + now.lost_in_kernel
                    + now.lost_in_driver
                    + now.to_host
                    + now.unguarded
                    + now.shot
                    + now.bypassed,
            );
            if sent != in_sum {
                self.kernel.violated(|| format!("{name}: the simulator lost count of {sent} frames"));
            }
            // Whoever ends a run without more words closes the wire.
            let until = self.kernel.at_stop.map_or(now, |at_stop| at_stop[way]);
            let closed = until.to_host - before.to_host + until.shot - before.shot;
            if closed > 0 {
                self.kernel.violated(|| format!("{name}: {closed} frames found the wire closed"));
            }
            let past_the_loop = |counts: Counts| counts.bypassed - counts.bypassed_without_loop;
            let bypassed = past_the_loop(until) - past_the_loop(before);
            let words = ["forwarded by the kernel", "took over the ports"];
            let says = outcome.warnings.iter().any(|line| words.iter().any(|words| line.contains(words)));
            if bypassed > 0 && !says {
                self.kernel.violated(|| {
                    format!("{name}: {bypassed} frames went past the queues, and nobody said so")
                });
            }
        }
    }

    fn check_as_found(&mut self, found: &[crate::kernel::interface::Found; 2]) {
        for port in 0..2 {
            let mut found = found[port].clone();
            // What others did meanwhile is theirs.
            let touched =
                |kind| self.plan.faults.iter().any(|fault| fault.kind == kind && fault.port == port);
            // What cannot be put back is told.
            let is_told = self.plan.faults.iter().any(|fault| fault.kind == Kind::RequestErrno);
            if is_told || touched(Kind::AdminDown) || touched(Kind::OffloadOn) {
                continue;
            }
            let mut now = self.kernel.interfaces[port].found();
            if touched(Kind::ProgramsRemoved) {
                // Somebody took the qdisc away: then the one that was put back is ours, and goes with us.
                (found.has_clsact, now.has_clsact) = (false, false);
            }
            if found != now {
                self.kernel.violated(|| format!("port {port} was found as {found:?} and left as {now:?}"));
                found = now;
            }
            let _ = found;
        }
        let left: Vec<String> =
            self.kernel.folder.names().into_iter().filter(|name| name.ends_with(".json")).collect();
        if !left.is_empty() {
            self.kernel.violated(|| format!("journals are left: {left:?}"));
        }
        let open = self.kernel.open_descriptors();
        if open > 0 {
            self.kernel.violated(|| format!("{open} descriptors are left open"));
        }
    }

    fn report(self) -> Report {
        let mut kernel = self.kernel;
        let counts = kernel.outside.counts;
        Report {
            violations: std::mem::take(&mut kernel.violations),
            met: kernel.met.clone(),
            simulated: kernel.now - BEGIN,
            calls: kernel.calls,
            lives: self.lives,
            frames: (counts.iter().map(|c| c.sent).sum(), counts.iter().map(|c| c.received).sum()),
            longest_delay: kernel.outside.longest_delay,
            longest_gap: self.longest_gap,
            trace: kernel.trace.take().unwrap_or_default(),
        }
    }
}

/// What a dead process still has goes away, without effect.
fn drop_inside<T>(kernel: *mut Kernel, value: T) {
    // SAFETY: the kernel lives, and nobody else uses it meanwhile.
    unsafe { calls::enter(kernel) };
    drop(value);
    calls::leave();
}

/// Reads what the loop tells, as another thread does, and checks it.
fn reader(mut handle: Handle, told: Rc<RefCell<Told>>, plan: &Plan) -> Box<dyn FnMut(u64) -> Vec<String>> {
    let setpoints = [0, 1].map(|way| plan.directions[way].setpoints_ms());
    Box::new(move |_| {
        let mut told = told.borrow_mut();
        let mut wrong = Vec::new();
        for (way, bounds) in setpoints.iter().enumerate() {
            for row in handle.samples(way) {
                told.dropped[way] += row.drops + row.overflows;
                if let Some((least, most)) = *bounds
                    && !row.setpoint_ms.is_nan()
                    && !(least * 0.999..=most * 1.001).contains(&row.setpoint_ms)
                {
                    wrong.push(format!(
                        "a set point of {} ms, and the policy allows {least} to {most}",
                        row.setpoint_ms
                    ));
                }
            }
        }
        told.warnings.extend(handle.warnings());
        handle.events();
        handle.upstream();
        wrong
    })
}
