//! The packet loop: opens the ports, turns until it is told to stop, and puts everything back.

use crate::assemble::{Assemble, DirectionSetup};
use crate::change::{Change, UsersAsked};
use crate::checksums::{self, ChecksumWatch};
use crate::clock::clock;
use crate::interface::{Interface, LinkState};
use crate::link_clock::{LinkClock, RunClock};
use crate::mailbox::{self, mailbox};
use crate::meter::{Meter, Signals};
use crate::mtu::{ETHERNET, VLAN_TAG};
use crate::opening::Progress;
use crate::pipe::{DirectionNow, Longest, Pipe};
use crate::ports::{FAIL_AFTER, PortNews, Ports, PortsSetup};
use crate::processor::Claim;
use crate::sensing::{Sensing, SensingNow};
use crate::steering::Moves;
use crate::upkeep::Chores;
use crate::upstream::{RttSample, UpstreamNow, note_transports};
use crate::watch::{self, BypassWatch, Links};
use crate::{Error, Mode, Received, privileges};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering};
use weir_aqm::Sample;
use weir_config::{CapacitySince, SenseConfig};
use weir_measure::result::{HostJitter, LinkSample, LinkSummary, SteeringEvent, UsersSummary};
use weir_measure::{Distribution, Octaves, Window, utilization};
use weir_queue::UserNow;
use weir_steer::Move;
use weir_units::{Duration, Time};

/// Frames taken from a port in one turn. What a frame needs is still in the cache when it is sent; with 256,
/// a tenth fewer small frames pass.
const BATCH: usize = 64;
/// Most frames that are taken from the rings of a port as stale.
const STALE_MAX: usize = 1 << 20;
/// Samples kept for a reader that is late.
const SAMPLES: usize = 4096;
/// Moves of a set point kept for a reader that is late.
const MOVES: usize = 4096;
/// States of observers kept for a reader that is late: newer ones are not told then.
const OBSERVED: usize = 64;
/// Round-trip times kept for a reader that is late.
const RTTS: usize = 65_536;
/// States of the loop kept for a reader that is late: newer ones are not told then.
const STATES: usize = 4;
/// Warnings kept for a reader that is late, and the most that a run ends with.
const WARNINGS: usize = 64;
/// How often the loop looks whether its interfaces are still there, and as they were.
const PRESENCE: Duration = Duration::from_millis(200);
/// Longest sleep of a loop that sleeps: the heart must beat meanwhile.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// A gap between turns above this counts as a stall of the host.
const STALL: Duration = Duration::from_millis(1);

/// How long what waits is sent before the kernel forwards, and again as long after that.
const HAND_OVER: Duration = Duration::from_millis(10);
/// What is said at an end after which the kernel forwards.
const LEFT: &str = "the kernel goes on forwarding between the ports, past the queues. The next `weir run` on them takes over; \
                    `weir doctor --clean` ends it and puts the ports back";

/// What a loop keeps from one turn to the next.
pub(crate) struct Turns {
    batch: Vec<Received>,
    /// When the last turn began, or what was slept after it ended.
    pub(crate) last: Time,
    /// When the heart beat last.
    beaten: Time,
    sample_due: Time,
    presence_due: Time,
    measured: Window,
}

/// What came of a turn.
pub(crate) enum Turned {
    /// There was something to do, and may be more.
    Worked,
    /// There was nothing to do.
    Idle,
    Ended(End),
}

/// Why the loop ended.
pub(crate) enum End {
    /// It was told to.
    Told,
    /// Another run, of this process, takes over.
    TakenOver(u32),
}

/// What the loop is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Names of the two interfaces.
    pub ports: [String; 2],
    /// How frames come in and go out; `None` chooses the best that works.
    pub mode: Option<Mode>,
    /// From the first port to the second, and back.
    pub directions: [DirectionSetup; 2],
    /// Probes, for each port that they leave by.
    pub sense: Vec<SenseConfig>,
    /// Age of the heartbeat at which the kernel forwards.
    pub fail_open_after: Duration,
    /// Processor to run on.
    pub core: Option<usize>,
    /// Whether to ask for a real-time scheduling class.
    pub realtime: bool,
    /// Whether to turn all the time instead of sleeping until something happens.
    pub busy: bool,
    /// Whether links stand still while the host takes the loop's processor away. Only end hosts on this
    /// machine stand still with them.
    pub stands_still: bool,
    /// Whether changes to interfaces are journalled on disk, for a start after a crash.
    pub journal: bool,
    /// Whether the ports of a living run are taken over.
    pub takeover: bool,
    /// Whether the kernel goes on forwarding after an end in order.
    pub keep_forwarding: bool,
    /// Length of a sampling period.
    pub sample: Duration,
    /// Time from opening the ports to zero of the run's clock.
    pub lead: Duration,
    /// Part at the beginning of the run that totals leave out.
    pub warmup: Duration,
    /// Length of the run, for the totals; without one they go on until the loop stops.
    pub duration: Option<Duration>,
}

impl Setup {
    /// A loop between two interfaces of a network namespace that was made for it and goes away with
    /// everything in it: nothing is journalled. It sleeps, and goes on until it is stopped.
    pub fn in_namespace(ports: [&str; 2], directions: [DirectionSetup; 2]) -> Setup {
        Setup {
            ports: ports.map(String::from),
            mode: None,
            directions,
            sense: Vec::new(),
            fail_open_after: FAIL_AFTER,
            core: None,
            realtime: true,
            busy: false,
            stands_still: false,
            journal: false,
            takeover: false,
            keep_forwarding: false,
            sample: Duration::from_millis(100),
            lead: Duration::ZERO,
            warmup: Duration::ZERO,
            duration: None,
        }
    }

    fn window(&self, origin: Time) -> Window {
        let until = origin + self.duration.unwrap_or(Duration::MAX);
        Window { from: origin + self.warmup, until }
    }
}

/// What another thread sees of a running loop.
pub struct Handle {
    samples: [Consumer<LinkSample>; 2],
    moves: [Consumer<Move>; 2],
    warnings: Consumer<String>,
    upstream: Consumer<(usize, UpstreamNow)>,
    rtts: [Consumer<RttSample>; 2],
    states: Consumer<LoopNow>,
    changes: mailbox::Sender<Change>,
    links: Links,
    names: [String; 2],
    origin: Time,
    clock: RunClock,
}

impl Handle {
    /// The clock that all times in samples and events are on.
    pub fn clock(&self) -> RunClock {
        self.clock.clone()
    }

    /// Samples of a direction (0 or 1) since the last call, oldest first.
    pub fn samples(&mut self, direction: usize) -> Vec<LinkSample> {
        let ring = &mut self.samples[direction];
        std::iter::from_fn(|| ring.pop().ok()).collect()
    }

    /// What happened to the ports since the last call and is to be known, oldest first.
    pub fn warnings(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.warnings.pop().ok()).collect()
    }

    /// Whether the ports have a link.
    pub fn links(&self) -> [LinkState; 2] {
        [0, 1].map(|port| self.links.state(port))
    }

    /// How directions (0 or 1) that observe stand with the bottlenecks behind them, as told since the last
    /// call.
    pub fn upstream(&mut self) -> [Option<UpstreamNow>; 2] {
        let mut latest = [None; 2];
        while let Ok((direction, now)) = self.upstream.pop() {
            latest[direction] = Some(now);
        }
        latest
    }

    /// Round-trip times behind a direction (0 or 1) since the last call, where its setup asks for them.
    pub fn rtts(&mut self, direction: usize) -> Vec<RttSample> {
        let ring = &mut self.rtts[direction];
        std::iter::from_fn(|| ring.pop().ok()).collect()
    }

    /// How the loop stands, if it told since the last call; it does with each sample.
    pub fn now(&mut self) -> Option<LoopNow> {
        std::iter::from_fn(|| self.states.pop().ok()).last()
    }

    /// Puts a change into force: as a whole between two packets, or not at all. Waits for the loop, which
    /// looks in each turn; after `patience` the change is withdrawn. Says when it was put into force, in
    /// seconds of the run.
    pub fn change(&mut self, change: Change, patience: std::time::Duration) -> Result<f64, Error> {
        let (_, applied) = self.send(Box::new(change), patience)?;
        Ok(seconds(applied, self.origin))
    }

    /// How users of a direction stand, from a place on, as many as `rows` has room for; how many there were.
    /// Where no customers are, there are none.
    pub fn users(
        &mut self,
        direction: usize,
        from: usize,
        rows: &mut Vec<UserNow>,
        patience: std::time::Duration,
    ) -> Result<usize, Error> {
        let asked = UsersAsked { direction, from, rows: std::mem::take(rows), told: 0 };
        match self.send(Box::new(Change::asking(asked)), patience) {
            Ok((letter, _)) => {
                let Some(asked) = letter.users else { return Ok(0) };
                *rows = asked.rows;
                Ok(asked.told)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a letter to the loop; with it comes back when it was opened.
    fn send(
        &mut self,
        change: Box<Change>,
        patience: std::time::Duration,
    ) -> Result<(Box<Change>, Time), Error> {
        let waits = "a change before it still waits for the packet loop".to_string();
        self.changes.send(change).map_err(|_| Error::Refused(waits))?;
        let begun = std::time::Instant::now();
        loop {
            // What it did before it ended has come back by then.
            let has_ended = self.states.is_abandoned();
            // It is freed here, and not by the loop.
            if let Some(change) = self.changes.fetch()
                && let Some(applied) = change.applied
            {
                return Ok((change, applied));
            }
            if has_ended {
                return Err(Error::Refused("the packet loop has ended: nothing changes any more".into()));
            }
            if begun.elapsed() > patience && self.changes.withdraw().is_some() {
                return Err(Error::Refused(format!(
                    "the packet loop did not turn for {:.1} s, so nothing was changed. Remedy: look at `weir ctl status`, and \
                     try again",
                    patience.as_secs_f64()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Moves of the set points since the last call, oldest first within a direction.
    pub fn events(&mut self) -> Vec<SteeringEvent> {
        let mut events = Vec::new();
        for (ring, name) in self.moves.iter_mut().zip(&self.names) {
            while let Ok(m) = ring.pop() {
                events.push(SteeringEvent::of(&m, name, self.origin));
            }
        }
        events
    }
}

/// How often it is looked whether a change is in force.
const LOOK: std::time::Duration = std::time::Duration::from_micros(200);

fn seconds(at: Time, origin: Time) -> f64 {
    if at < origin { -origin.since(at).as_secs_f64() } else { at.since(origin).as_secs_f64() }
}

/// How a loop stands; counts are of the whole run.
#[derive(Clone, Copy, Debug)]
pub struct LoopNow {
    /// Seconds after the start of the run.
    pub t_s: f64,
    /// From the first port to the second, and back.
    pub directions: [DirectionNow; 2],
    /// How those that are sensed stand with their probes.
    pub sensing: [Option<SensingNow>; 2],
    /// What each link could have sent so far at its rate, in bytes; 0 where it is not shaped.
    pub capacity_bytes: [f64; 2],
    /// Frames that each port lost before they came to the queue, as its rings were full.
    pub lost_before_queue: [u64; 2],
    /// Frames that the kernel forwarded past the queues.
    pub bypassed: u64,
    /// Times between turns.
    pub gaps: Octaves,
    /// Time in gaps above 1 ms.
    pub stalled: Duration,
    /// Changes that were put into force.
    pub changes: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Summary of each direction.
    pub links: [LinkSummary; 2],
    /// How frames came in and went out.
    pub mode: Mode,
    /// How disturbed the loop was.
    pub host: HostJitter,
    /// Things to know.
    pub warnings: Vec<String>,
}

/// A packet loop, ready to run.
pub struct Loop {
    setup: Setup,
    ports: Ports,
    pipes: [Box<dyn Pipe>; 2],
    origin: Time,
    said: Vec<String>,
    warnings: Vec<String>,
    /// Warnings that found no room among them.
    warnings_left_out: u64,
    bypass: BypassWatch,
    warn: Producer<String>,
    /// By the port that probes leave by.
    sensing: [Option<Box<Sensing>>; 2],
    observed: Producer<(usize, UpstreamNow)>,
    /// Whether a direction observes, so that transports are read.
    observes: bool,
    gaps: Distribution,
    gaps_told: Octaves,
    stalled: Duration,
    changes: mailbox::Receiver<Change>,
    changed: u64,
    /// What each link can carry since the start of the measured part.
    capacity: [CapacitySince; 2],
    states: Producer<LoopNow>,
    /// Frames that the kernel forwarded before the loop turned.
    bypassed_before: u64,
    claim: Claim,
    clock: LinkClock,
    /// One for each port.
    checksums: [ChecksumWatch; 2],
}

impl Loop {
    /// Opens both ports in the network namespace of this thread. Frames flow past the loop, in the kernel,
    /// until [`Loop::run`] turns.
    pub fn open(setup: Setup) -> Result<(Loop, Handle), Error> {
        Loop::open_with(setup, Ports::open)
    }

    /// As [`Loop::open`], for as long as `watcher` says so, who is told of each step; else
    /// [`Error::GivenUp`].
    pub fn open_while(
        setup: Setup,
        watcher: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<(Loop, Handle), Error> {
        Loop::open_with(setup, |setup| Ports::open_while(setup, watcher))
    }

    /// As [`Loop::open`] with a journal, without the thread that looks after ports: whoever calls does its
    /// work as often as [`crate::UPKEEP_PERIOD`] says. For those who run everything in one thread, such as
    /// the fault simulation.
    pub fn open_alone(setup: Setup) -> Result<(Loop, Handle, Option<Chores>), Error> {
        let (looping, handle) = Loop::open_with(setup, |setup| Ports::open_alone(setup, &mut |_| true))?;
        let chores = looping.ports.chores();
        Ok((looping, handle, chores))
    }

    fn open_with(
        setup: Setup,
        open: impl FnOnce(&PortsSetup) -> Result<Ports, Error>,
    ) -> Result<(Loop, Handle), Error> {
        let [a, b] = [Interface::find(&setup.ports[0])?, Interface::find(&setup.ports[1])?];
        if a == b {
            return Err(Error::Refused(format!(
                "both ports are `{}`. Remedy: a bump in the wire needs two interfaces",
                a.name
            )));
        }
        let mut ports = open(&PortsSetup {
            names: setup.ports.to_vec(),
            mode: setup.mode,
            headroom: 0,
            frames: setup.directions.iter().map(|direction| u64::from(direction.frames())).sum(),
            fails_open: true,
            fail_after: setup.fail_open_after,
            journal: setup.journal,
            takeover: setup.takeover,
        })?;
        let mtus = [0, 1].map(|port| ports.mtu(port));
        let mut said = Vec::new();
        if mtus[0] != mtus[1] {
            said.push(format!(
                "{} has an MTU of {} and {} of {}: larger frames between them are dropped and counted as `too_long`",
                a.name, mtus[0], b.name, mtus[1]
            ));
        }
        said.extend_from_slice(ports.said());
        said.extend([0, 1].map(|port| ports.describe(port)));
        if ports.is_bare() {
            said.extend(setup.directions.iter().filter_map(unknown_overhead));
        }
        let (mode, warnings) = (ports.mode(), ports.warnings().to_vec());
        let origin = clock() + setup.lead;
        let (warn, warned) = RingBuffer::new(WARNINGS);
        let (observed, upstream) = RingBuffer::new(OBSERVED);
        let link_clock = LinkClock::new(clock(), setup.stands_still);
        let (states, stated) = RingBuffer::new(STATES);
        let (changes, changing) = mailbox();
        let told = LoopReports {
            warnings: warned,
            upstream,
            states: stated,
            changes,
            clock: link_clock.for_others(origin),
            links: ports.links().clone(),
        };
        let (mut pipes, handle) = build_pipes(&setup, mtus.map(|mtu| longest(mode, mtu)), origin, told)?;
        let observes = pipes.iter().any(|pipe| pipe.observes());
        if observes {
            ports.arena.keep_notes();
        }
        for (pipe, direction) in pipes.iter().zip(&setup.directions) {
            said.extend(pipe.said().map(|words| format!("{}: {words}", direction.name)));
        }
        let gaps = Distribution::default();
        // Totals leave out what lies before the measured part.
        let from = setup.window(origin).from.since(origin);
        let capacity =
            [0, 1].map(|index: usize| CapacitySince::new(setup.directions[index].capacity(), from));
        let mut sensing = [None, None];
        for config in &setup.sense {
            let sensed = Sensing::new(config, BATCH, setup.window(origin));
            let direction = sensed.direction();
            let rate = setup.directions[direction].rate();
            if let Some(rate) = sensed.rate(config, rate, clock()) {
                pipes[direction].follow_probes(rate);
            }
            let port = sensed.port();
            sensing[port] = Some(Box::new(sensed));
        }
        let looping = Loop {
            setup,
            ports,
            pipes,
            origin,
            said,
            warnings,
            warnings_left_out: 0,
            bypass: BypassWatch::new(0),
            warn,
            sensing,
            observed,
            observes,
            gaps,
            gaps_told: Octaves::default(),
            stalled: Duration::ZERO,
            changes: changing,
            changed: 0,
            capacity,
            states,
            bypassed_before: 0,
            claim: Claim::default(),
            clock: link_clock,
            checksums: Default::default(),
        };
        Ok((looping, handle))
    }

    /// What was changed and chosen, in words.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.ports.mode()
    }

    /// Turns until `stop` is set, another run takes over, or an interface vanishes. Puts the interfaces back,
    /// unless the kernel is to go on forwarding: if the setup or another run says so, and after every
    /// unexpected error. To be called on a thread of its own, which from then on has no more rights than the
    /// loop needs ([`privileges::LOOP`]).
    pub fn run(mut self, stop: &AtomicBool) -> Result<Outcome, Error> {
        let mut turns = self.begin(Claim::make(self.setup.core, self.setup.realtime));
        let result = self.turn_until_end(&mut turns, stop);
        self.finish(result)
    }

    /// Takes over from the kernel, on a thread that has claimed a processor.
    pub(crate) fn begin(&mut self, claim: Claim) -> Turns {
        self.claim = claim;
        self.clock.begin(clock());
        self.tell_claim();
        privileges::keep(&privileges::LOOP).unwrap_or_else(|error| self.warn(error.to_string()));
        // Until now frames were meant to pass in the kernel.
        self.ports.beat(clock());
        let bypassed_before = self.ports.bypassed();
        self.bypass = BypassWatch::new(bypassed_before);
        self.bypassed_before = bypassed_before;
        let now = clock();
        self.ports.poll_drivers_if_deferred();
        Turns {
            batch: Vec::with_capacity(BATCH),
            last: now,
            beaten: now,
            sample_due: self.origin + self.setup.sample,
            presence_due: now + PRESENCE,
            measured: self.setup.window(self.origin),
        }
    }

    /// Puts the interfaces back, or leaves them to the kernel or to the run that takes over. After an error
    /// nothing is asked of the queues any more.
    pub(crate) fn finish(mut self, result: Result<End, Error>) -> Result<Outcome, Error> {
        let end = match result {
            Ok(end) => end,
            Err(Error::PortGone(name, _)) => return Err(Error::PortGone(name, self.ports.close())),
            Err(error) => {
                self.ports.leave(false);
                return Err(Error::LeftToKernel(error.to_string()));
            }
        };
        let words = match end {
            End::Told if !self.setup.keep_forwarding => None,
            End::Told => Some(LEFT.to_string()),
            End::TakenOver(by) => Some(format!("process {by} took over the ports")),
        };
        if words.is_some() {
            self.hand_over();
        }
        let mut outcome = self.outcome(self.bypassed_before);
        match words {
            Some(words) => {
                self.ports.leave(true);
                outcome.warnings.push(words);
            }
            // The kernel forwards until the programs are gone; then the wire is cut. A frame never has two
            // ways.
            None => outcome.warnings.extend(self.ports.close()),
        }
        Ok(outcome)
    }

    /// Sends what waits, without keeping rates, and lets the kernel forward what comes after it.
    fn hand_over(&mut self) {
        let (begun, mut batch) = (clock(), Vec::with_capacity(BATCH));
        // First as much as possible while nothing passes it by.
        while self.drain(&mut batch) && clock().since(begun) < HAND_OVER {}
        self.ports.retire();
        // Then what came meanwhile. Errors end it: nobody is left to tell.
        while (self.drain(&mut batch) || !self.ports.is_idle())
            && clock().since(begun) < HAND_OVER + HAND_OVER
        {}
    }

    /// Takes in what arrived and sends all that waits; whether there was any.
    fn drain(&mut self, batch: &mut Vec<Received>) -> bool {
        let now = self.clock.turn(clock());
        let Ok(mut any) = self.turn(now, batch) else { return false };
        for from in 0..2 {
            let Ports { arena, ports, .. } = &mut self.ports;
            any |= self.pipes[from].drain(now, arena, &mut ports[1 - from]);
        }
        self.ports.flush().is_ok() && any
    }

    fn turn_until_end(&mut self, turns: &mut Turns, stop: &AtomicBool) -> Result<End, Error> {
        loop {
            match self.step(turns, stop)? {
                Turned::Worked => {}
                Turned::Idle if self.setup.busy => self.claim.idle(turns.last),
                Turned::Idle => {
                    let span = self.rest_at_most(turns);
                    self.ports.wait(None, span);
                    self.slept(turns, span);
                }
                Turned::Ended(end) => return Ok(end),
            }
        }
    }

    /// Turns once: takes in what arrived, sends what is due, and does from time to time what there is to do
    /// beside that.
    pub(crate) fn step(&mut self, turns: &mut Turns, stop: &AtomicBool) -> Result<Turned, Error> {
        if stop.load(Ordering::Relaxed) {
            return Ok(Turned::Ended(End::Told));
        }
        let now = clock();
        if turns.measured.contains(now) {
            self.note_gap(now.since(turns.last));
        }
        self.bypass.turned(turns.last, now);
        turns.last = now;
        let link_now = self.clock.turn(now);
        if now.since(turns.beaten) >= self.setup.fail_open_after && !self.setup.stands_still {
            self.forget_stale(link_now, &mut turns.batch);
        }
        self.ports.beat(now);
        turns.beaten = now;
        self.take_change(link_now);
        let worked = self.turn(link_now, &mut turns.batch)?;
        if link_now >= turns.sample_due {
            // Rows keep their rhythm, unless the loop is late by more than one.
            let next = turns.sample_due + self.setup.sample;
            turns.sample_due = if next > link_now { next } else { link_now + self.setup.sample };
            self.pipes.iter_mut().for_each(|pipe| pipe.sample(link_now));
            self.tell_state(link_now);
            for (direction, pipe) in self.pipes.iter().enumerate() {
                // Whoever does not read does not watch.
                let _ = pipe.upstream().map(|now| self.observed.push((direction, now)));
            }
        }
        self.look_at_probes(link_now);
        if now >= turns.presence_due {
            turns.presence_due = now + PRESENCE;
            self.look_at_ports(now)?;
            if let Some(by) = self.ports.is_asked_for() {
                return Ok(Turned::Ended(End::TakenOver(by)));
            }
        }
        Ok(if worked { Turned::Worked } else { Turned::Idle })
    }

    /// How long there is nothing to do after a turn without work, unless a frame comes: until a packet or
    /// sample is due, and no longer than until the heart must beat.
    pub(crate) fn rest_at_most(&mut self, turns: &Turns) -> Duration {
        let due = self.pipes.iter_mut().filter_map(|p| p.next_event()).fold(turns.sample_due, Time::min);
        due.since(self.clock.of(turns.last)).min(SLEEP_MAX)
    }

    /// Time slept on purpose is no lateness.
    pub(crate) fn slept(&mut self, turns: &mut Turns, span: Duration) {
        self.clock.slept(span);
        turns.last += span;
    }

    /// What the loop asks of a processor: the core, a real-time class, and all of its time.
    pub(crate) fn wants(&self) -> (Option<usize>, bool, bool) {
        (self.setup.core, self.setup.realtime, self.setup.busy)
    }

    /// Its ports, to sleep on.
    pub(crate) fn ports(&mut self) -> &mut Ports {
        &mut self.ports
    }

    /// The loop did not turn for so long that the kernel forwarded in its place: what came before that, and
    /// waits in rings and queues, would leave behind newer frames. No more of it comes as long as the heart
    /// does not beat.
    #[cold]
    fn forget_stale(&mut self, now: Time, batch: &mut Vec<Received>) {
        for from in 0..2 {
            self.pipes[from].forget(now, &mut self.ports.arena);
            // Rings are finite; what cannot be given back at once is no reason to stay here.
            for _ in 0..STALE_MAX / BATCH {
                batch.clear();
                self.ports.receive(from, self.clock.last(), batch);
                if batch.is_empty() {
                    break;
                }
                self.pipes[from].meter().faults.stale += batch.len() as u64;
                batch.iter().for_each(|received| self.ports.arena.give(received.frame.addr));
            }
        }
        batch.clear();
    }

    /// Puts the change into force that somebody sent, if there is one.
    #[inline]
    fn take_change(&mut self, now: Time) {
        let Loop { changes, changed, pipes, capacity, setup, origin, .. } = self;
        let before = *changed;
        changes.open(|change| {
            change.applied = Some(now);
            if let Some(asked) = &mut change.users {
                asked.told = pipes[asked.direction].users(asked.from, &mut asked.rows);
                return;
            }
            for (index, direction) in change.directions.iter_mut().enumerate() {
                pipes[index].change(now, direction);
                // What probes have to do with is put into force by them.
                if let Some(rate) = direction.rate.filter(|_| pipes[index].shaped().is_none()) {
                    capacity[index].set_rate(now.since(*origin), rate);
                }
            }
            setup.keep_forwarding = change.keep_forwarding.unwrap_or(setup.keep_forwarding);
            *changed += 1;
        });
        if *changed > before {
            // Who asked for it sees it with the next look.
            self.tell_state(now);
        }
    }

    /// Tells how the loop stands.
    fn tell_state(&mut self, now: Time) {
        let state = LoopNow {
            t_s: seconds(now, self.origin),
            directions: [0, 1].map(|index: usize| self.pipes[index].now(now)),
            sensing: [0, 1].map(|index: usize| {
                let sensing = self.sensing[1 - index].as_ref()?;
                Some(sensing.now(self.pipes[index].shaped()))
            }),
            capacity_bytes: [0, 1]
                .map(|index: usize| self.capacity[index].bits(now.since(self.origin)) / 8.0),
            lost_before_queue: [0, 1].map(|index| self.ports.ports[index].lost()),
            bypassed: self.ports.bypassed().saturating_sub(self.bypassed_before),
            gaps: self.gaps_told,
            stalled: self.stalled,
            changes: self.changed,
        };
        // Whoever does not read does not watch.
        let _ = self.states.push(state);
    }

    fn turn(&mut self, now: Time, batch: &mut Vec<Received>) -> Result<bool, Error> {
        let mut worked = false;
        for from in 0..2 {
            let to = 1 - from;
            batch.clear();
            self.ports.receive(from, self.clock.last(), batch);
            batch.iter_mut().for_each(|received| received.arrived = self.clock.of(received.arrived));
            if self.checksums[from].is_looking() {
                self.look_at_checksums(from, batch);
            }
            if let Some(sensing) = &mut self.sensing[from] {
                // What left by this port is the other direction's.
                let sensed = &mut self.pipes[to];
                worked |= !batch.is_empty();
                sensing.take(batch, &mut self.ports.arena, &mut |at, back| sensed.probe_back(at, back));
            }
            let frames: &[Received] = match &mut self.sensing[to] {
                None => &*batch,
                Some(sensing) => sensing.follow(batch, &mut self.ports.arena),
            };
            if self.observes {
                note_transports(frames, &mut self.ports.arena);
                self.pipes[to].answered(now, frames, &mut self.ports.arena);
            }
            let Ports { arena, ports, .. } = &mut self.ports;
            worked |= self.pipes[from].turn(now, frames, arena, &mut ports[to]);
        }
        self.ports.flush()?;
        Ok(worked)
    }

    /// Gives the age of probes that are overdue for their round trip, changes the rate if they say so, and
    /// tells how sensing stands if that changed.
    fn look_at_probes(&mut self, now: Time) {
        for port in 0..2 {
            let Some(sensing) = &mut self.sensing[port] else { continue };
            let direction = sensing.direction();
            let pipe = &mut self.pipes[direction];
            if let Some(age) = sensing.look(now) {
                pipe.learn(now, Sample::Rtt(age));
            }
            let moved = pipe.look_at_probes(now, sensing.state());
            if let Some(rate) = moved {
                self.capacity[direction].set_rate(now.since(self.origin), rate);
            }
            let Some(news) = sensing.news() else { continue };
            let name = &self.setup.directions[direction].name;
            if let Some(warning) = news.warning(name, moved) {
                self.warn(warning);
            }
        }
    }

    #[cold]
    fn look_at_checksums(&mut self, port: usize, batch: &[Received]) {
        for received in batch {
            if self.checksums[port].look(self.ports.arena.bytes(received.frame)) {
                self.warn(checksums::warning(&self.ports.ports[port].interface.name));
            }
        }
    }

    /// Says what of a processor was asked for and not granted.
    fn tell_claim(&mut self) {
        if self.setup.realtime && !self.claim.realtime {
            self.warn(
                "the system does not give the packet loop a real-time class: it will be late at times. Remedy: run it \
                 as root, or allow it (`ulimit -r`, in containers the capability SYS_NICE)"
                    .into(),
            );
        }
        if let Some(core) = self.setup.core.filter(|_| !self.claim.core) {
            self.warn(format!(
                "the packet loop may not stay on core {core}. Remedy: allow it (`taskset`), or name another"
            ));
        }
    }

    /// Ends the run if an interface is gone. Says what happened to the ports, and if the kernel forwarded.
    fn look_at_ports(&mut self, now: Time) -> Result<(), Error> {
        let bypassed = self.ports.bypassed();
        if let Some(warning) = self.bypass.look(bypassed, now, self.origin, false) {
            self.warn(warning);
        }
        let mut news = Vec::new();
        self.ports.look(now, &mut |one| news.push(one))?;
        news.into_iter().for_each(|one| self.take_news(one, now));
        Ok(())
    }

    fn take_news(&mut self, news: PortNews, now: Time) {
        match news {
            // The end tells the sum.
            PortNews::Lost(warning) => drop(self.warn.push(warning)),
            PortNews::Told(text) => {
                let when = watch::at(now, self.origin);
                self.warn(format!("{text} ({when})"));
            }
            PortNews::Address(warning) => {
                self.warn(format!("{warning} (told {})", watch::at(now, self.origin)));
            }
            PortNews::Mtu(change) => {
                self.pipes[1 - change.port].set_longest(longest(self.ports.mode(), change.most));
                let when = format!(", {}", watch::at(now, self.origin));
                let becomes = "dropped and counted as faults (`too_long`, `lost_before_queue`)";
                self.warn(change.warning(&when, becomes));
            }
        }
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS {
            self.warnings.push(warning.clone());
        } else {
            self.warnings_left_out += 1;
        }
        // Whoever does not read finds it at the end.
        let _ = self.warn.push(warning);
    }

    fn note_gap(&mut self, gap: Duration) {
        self.gaps.record(gap);
        self.gaps_told.record(gap);
        if gap > STALL {
            self.stalled += gap;
        }
    }

    fn outcome(&mut self, bypassed_before: u64) -> Outcome {
        let end = self.clock.turn(clock());
        let window = self.setup.window(self.origin);
        let measured = window.until.min(end).since(window.from);
        let bypassed = self.ports.bypassed();
        let bypassed = self.bypass.look(bypassed, clock(), self.origin, true);
        let mut warnings = std::mem::take(&mut self.warnings);
        let left_out = self.warnings_left_out;
        let left_out = (left_out > 0).then(|| format!("{left_out} more warnings were left out here"));
        warnings.extend(left_out.into_iter().chain(bypassed).chain(self.bypass.total(bypassed_before)));
        for port in &mut self.ports.ports {
            warnings.extend(port.lost_in_all());
        }
        let links = [0, 1].map(|i| self.link_summary(i, end, measured, self.ports.ports[i].lost()));
        let lateness_ms = [0, 1].map(|i| self.pipes[i].meter().lateness.spread_ms());
        let host = HostJitter {
            gap_ms: self.gaps.spread_ms(),
            stalled_share: self.stalled.as_secs_f64() / measured.as_secs_f64().max(1e-9),
            realtime: self.claim.realtime,
            own_core: self.claim.core,
            late_ms: lateness_ms[0],
        };
        Outcome { links, host, mode: self.ports.mode(), warnings }
    }

    fn link_summary(&mut self, index: usize, end: Time, measured: Duration, lost: u64) -> LinkSummary {
        self.pipes[index].sample(end);
        let counters = self.pipes[index].counters();
        let setup = &self.setup.directions[index];
        let upstream = self.pipes[index].observed();
        let users = self.pipes[index].user_counters();
        let shaped = self.pipes[index].shaped();
        let meter = self.pipes[index].meter();
        let Signals { drops, overflows, filtered, sanctioned, marks } = meter.signals(&counters);
        // The rate at the end, where somebody changed it; what could have been sent is counted at the rates
        // that were in force.
        let capacity = &self.capacity[index];
        let rate_bps = setup.rate().map(|rate| capacity.rate().unwrap_or(rate).as_bps_f64());
        let window = self.setup.window(self.origin);
        let capacity_bps = capacity.mean_bps(window.until.min(end).since(self.origin));
        let (packets, bytes) = meter.delivered;
        let (samples_lost, moves_lost) = meter.lost();
        let delivered_bps = bytes as f64 * 8.0 / measured.as_secs_f64().max(1e-9);
        let sensing = self.sensing[1 - index].as_ref().map(|sensing| sensing.summary(shaped));
        let faults = [
            ("runt", meter.faults.runt),
            ("malformed", meter.faults.malformed),
            ("too_long", meter.faults.too_long),
            ("delay_line_full", meter.faults.delay_line_full),
            ("lost_behind_queue", meter.faults.lost_behind_queue),
            ("reordered", meter.faults.reordered),
            ("lost_before_queue", lost),
            ("stale", meter.faults.stale),
            ("samples_lost", samples_lost),
            ("moves_lost", moves_lost),
        ];
        LinkSummary {
            name: setup.name.clone(),
            aqm: setup.channel.queue.label(&setup.aqm().name),
            rate_bps,
            accounting: setup.channel.link.counting().to_string(),
            packets,
            bytes,
            utilization: utilization(delivered_bps, capacity_bps),
            delay_ms: meter.sojourn.spread_ms(),
            delay_by_class_ms: meter.sojourn.by_class_ms(),
            drops,
            overflows,
            acks_filtered: filtered,
            sanctioned,
            marks,
            setpoint_ms: meter.setpoint_ms(),
            faults: faults.iter().filter(|(_, n)| *n > 0).map(|(k, n)| (k.to_string(), *n)).collect(),
            upstream,
            users: users.map(UsersSummary::of),
            flows: None,
            phases: meter.phases(end, &setup.capacity()),
            sensing,
        }
    }
}

type Pipes = ([Box<dyn Pipe>; 2], Handle);

/// Where the loop tells what both directions have in common.
struct LoopReports {
    warnings: Consumer<String>,
    upstream: Consumer<(usize, UpstreamNow)>,
    states: Consumer<LoopNow>,
    changes: mailbox::Sender<Change>,
    clock: RunClock,
    links: Links,
}

/// What to say of a rate for packets without Ethernet headers whose link nobody described.
fn unknown_overhead(direction: &DirectionSetup) -> Option<String> {
    let link = &direction.channel.link;
    (direction.rate().is_some() && link.overhead.is_none()).then(|| {
        format!(
            "{}: its packets have no Ethernet headers, and are counted with `accounting = \"{}\"` as if they had. Remedy: \
             say with `overhead` what the link below adds to each, such as \"pppoe-ptm\" or \"overhead 60\"",
            direction.name, link.accounting
        )
    })
}

/// What a port of this MTU can send. The kernel sends no second tag with a packet of full size from an
/// AF_PACKET ring, and does not tell.
fn longest(mode: Mode, mtu: u32) -> Longest {
    let tags = if mode == Mode::AfPacket { VLAN_TAG } else { 2 * VLAN_TAG };
    Longest { packet: mtu, frame: mtu + ETHERNET + tags }
}

fn build_pipes(
    setup: &Setup,
    longest: [Longest; 2],
    origin: Time,
    LoopReports { warnings, upstream, states, changes, clock: run_clock, links }: LoopReports,
) -> Result<Pipes, Error> {
    let build = |index: usize| {
        let (sample_ring, samples) = RingBuffer::new(SAMPLES);
        let (move_ring, moves) = RingBuffer::new(MOVES);
        let (rtt_ring, rtts) = RingBuffer::new(if setup.directions[index].tells_rtts { RTTS } else { 0 });
        let direction = &setup.directions[index];
        let measured = setup.window(origin);
        let assemble = Assemble {
            setup: direction,
            // A frame goes out at the other port.
            longest: longest[1 - index],
            meter: Meter::new(origin, measured, &direction.settled, direction.capacity(), sample_ring),
            moves: Some(Moves { ring: Some(move_ring), lost: 0 }),
            rtts: Some(rtt_ring),
            origin,
            measured,
            // The run may begin later than the link: packets pass from now on.
            now: clock(),
            seed: index as u64,
        };
        assemble.run().map(|pipe| (pipe, samples, moves, rtts))
    };
    let (ab, ab_samples, ab_moves, ab_rtts) = build(0)?;
    let (ba, ba_samples, ba_moves, ba_rtts) = build(1)?;
    let handle = Handle {
        samples: [ab_samples, ba_samples],
        moves: [ab_moves, ba_moves],
        warnings,
        upstream,
        rtts: [ab_rtts, ba_rtts],
        states,
        changes,
        links,
        names: [0, 1].map(|i: usize| setup.directions[i].name.clone()),
        origin,
        clock: run_clock,
    };
    Ok(([ab, ba], handle))
}
