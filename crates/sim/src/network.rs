//! The simulation: links, flows and the order in which things happen.
//!
//! A link has one pending event, the moment at which it may send again. Receivers act at the moment at which
//! a packet leaves the last link, with its time of arrival: their state depends on nothing but their own
//! arrivals, which come in order. So a delivered packet costs the event of the link and that of its
//! acknowledgement. Between links, packets and acknowledgements travel as events.

use crate::application::judged;
use crate::discipline::Discarded;
use crate::error::Error;
use crate::event::{Event, Rare};
use crate::flow::{Flow, FlowKind};
use crate::hash::TraceHash;
use crate::host::{Hosts, Transmitter};
use crate::link::Link;
use crate::medium::Medium;
use crate::meter::LinkMeter;
use crate::packet::AckStore;
use crate::service::NEVER;
use crate::tap::Tap;
use crate::time_tree::TimeTree;
use crate::turns::Turns;
use crate::wheel::Wheel;
use weir_config::{Capacity, ExtraDelay, NetworkLink, Traffic};
use weir_measure::result::FlowSample;
use weir_measure::{Played, Pool, Settled, Window};
use weir_queue::{Class, memory};
use weir_tcp::PathMemory;
use weir_units::{Duration, NANOS_PER_SEC, Rate, Time};

/// Events between asking for an endpoint's memory and its use.
const AHEAD: usize = 3;
/// The same of what an endpoint keeps elsewhere, asked for when the endpoint itself is there.
const AHEAD_ELSEWHERE: usize = 1;
/// Lines of a sending side that an acknowledgement touches.
const OUTBOUND_LINES: usize = 9;

/// Links from which on the memory of each is asked for when it is needed, also while packets pass.
const MANY_LINKS: usize = 256;

/// What a simulation is made of, apart from its flows.
#[derive(Clone, Debug)]
pub struct NetworkSetup<'a> {
    /// The links, by number.
    pub links: &'a [NetworkLink],
    /// Kinds of flows, by number.
    pub kinds: Vec<FlowKind>,
    /// Seed of the run.
    pub seed: u64,
    /// The measured part.
    pub window: Window,
    /// Of each link, parts of the run whose utilization and delay are told by themselves.
    pub settled: Vec<Vec<Settled>>,
    /// Length of a sampling period.
    pub sample: Duration,
    /// Whether flows are sampled, too.
    pub sample_flows: bool,
    /// Longest delay that is common, for which the event queue is laid out.
    pub delay: Duration,
}

/// Packets by where they ended; every packet is in one of these, in a queue or on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Put into the network: data and acknowledgements.
    pub sent: u64,
    /// Arrived at the host they were for.
    pub delivered: u64,
    /// Arrived after their connection had closed.
    pub late: u64,
    /// Discarded by queues.
    pub dropped: u64,
    /// Acknowledgements that newer ones took the place of.
    pub filtered: u64,
    /// Lost behind queues.
    pub lost: u64,
    /// Copies that links made of packets.
    pub duplicated: u64,
    /// Departures from links, a packet counted once on each.
    pub hops: u64,
    /// Events taken from the event queue.
    pub events: u64,
}

/// A network in virtual time.
pub struct Simulation<T: Tap = ()> {
    pub(crate) now: Time,
    pub(crate) wheel: Wheel<Event>,
    pub(crate) soonest: TimeTree,
    pub(crate) links: Vec<Link>,
    pub(crate) kinds: Vec<FlowKind>,
    pub(crate) flows: Vec<Flow>,
    /// What hosts remember of connections that ended; see [`FlowKind::memory`].
    pub(crate) memories: Vec<PathMemory>,
    pub(crate) hosts: Hosts,
    pub(crate) acks: AckStore,
    pub(crate) window: Window,
    pub(crate) sample: Duration,
    pub(crate) sample_flows: bool,
    /// Whether any flow stops before the end.
    pub(crate) stops: bool,
    /// Whether a packet may leave a link or medium at once though others wait there: where links have to wait
    /// for their turn, or are classes, or users are held to rates.
    pub(crate) has_turns: bool,
    pub(crate) flow_samples: Vec<FlowSample>,
    /// Transfers and pages that were completed, in order of time.
    pub(crate) ended: Vec<Ended>,
    /// Those that were not when the run ended: whether it was a page, and the group.
    pub(crate) unfinished: Vec<(bool, u32)>,
    /// Times of the datagrams of calls and games and of the frames of real-time video, by number of the
    /// `[[flows]]` table; empty of other flows.
    pub(crate) pools: Vec<Pool>,
    /// What players of video showed, with the number of their table.
    pub(crate) played: Vec<(u32, Played)>,
    pub(crate) seed: u64,
    pub(crate) counts: Counts,
    pub(crate) hash: TraceHash,
    pub(crate) steps: Vec<(u32, Rate)>,
    pub(crate) discarded: Vec<Discarded>,
    pub(crate) tap: T,
}

/// A transfer or a page that was completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Number of the flow.
    pub flow: u32,
    pub is_page: bool,
    pub began: Time,
    pub took: Duration,
    /// Bytes of the application.
    pub bytes: u64,
}

/// How far apart events lie about: each packet of 1500 bytes has two, at the rates of all links together.
fn event_spacing(links: &[NetworkLink]) -> Duration {
    let follows_trace = links.iter().any(|link| link.variation.trace().is_some());
    let together = links.iter().fold(0, |sum: u64, link| sum.saturating_add(link.rate.as_bps()));
    if follows_trace || together == 0 {
        return Duration::ZERO;
    }
    Duration::from_nanos(1500 * 8 * NANOS_PER_SEC / together / 2)
}

impl<T: Tap> Simulation<T> {
    /// A network without flows, at time zero.
    pub fn new(setup: NetworkSetup<'_>, tap: T) -> Result<Simulation<T>, Error> {
        let rows = setup.window.until.as_nanos() / setup.sample.as_nanos().max(1) + 1;
        let many = setup.links.len() > MANY_LINKS;
        let rows = rows.min(1 << 20) as usize;
        let link = |((link, settled), capacity): ((&NetworkLink, &Vec<Settled>), Capacity)| {
            let meter = LinkMeter::new(setup.window, settled, capacity, rows, many);
            Link::new(link, setup.seed, meter)
        };
        let described = setup.links.iter().zip(&setup.settled).zip(Capacity::of_links(setup.links));
        let mut links = described.map(link).collect::<Result<Vec<_>, _>>()?;
        let has_turns =
            share_media(&mut links, setup.links, setup.seed) || links.iter().any(|link| link.is_paced);
        let mut simulation = Simulation {
            now: Time::ZERO,
            wheel: Wheel::new(setup.delay, event_spacing(setup.links)),
            soonest: TimeTree::new(links.len().max(1)),
            links,
            memories: vec![PathMemory::default(); setup.kinds.len()],
            pools: pools(&setup.kinds),
            played: Vec::new(),
            kinds: setup.kinds,
            flows: Vec::new(),
            hosts: Hosts::default(),
            acks: AckStore::default(),
            window: setup.window,
            sample: setup.sample,
            sample_flows: setup.sample_flows,
            stops: false,
            has_turns,
            flow_samples: Vec::new(),
            ended: Vec::new(),
            unfinished: Vec::new(),
            seed: setup.seed,
            counts: Counts::default(),
            hash: TraceHash::default(),
            steps: Vec::new(),
            discarded: Vec::new(),
            tap,
        };
        simulation.schedule_what_is_known(setup.links);
        Ok(simulation)
    }

    fn schedule_what_is_known(&mut self, links: &[NetworkLink]) {
        for (number, link) in links.iter().enumerate() {
            for step in &link.variation.steps {
                self.wheel.insert(Time::ZERO + step.at, Event::Rare(Rare::Step(self.steps.len() as u32)));
                self.steps.push((number as u32, step.rate));
            }
            if let Some(period) = link.policy.as_ref().and_then(|_| Some(link.steering.polls()?.poll_period))
            {
                self.wheel.insert(Time::ZERO + period, Event::Rare(Rare::Poll(number as u32)));
            }
        }
        self.wheel.insert(self.window.from, Event::Rare(Rare::MeasureFrom));
        self.wheel.insert(self.window.until, Event::Rare(Rare::MeasureUntil));
        if self.sample > Duration::ZERO {
            self.wheel.insert(Time::ZERO + self.sample, Event::Rare(Rare::Sample));
        }
    }

    /// Makes room for so many flows, each with one connection.
    pub fn expect_flows(&mut self, count: usize) {
        self.flows.reserve_exact(count);
        self.hosts.expect(count);
    }

    /// Adds a flow that starts at `start`; returns its number.
    pub fn add_flow(&mut self, kind: u32, extra: ExtraDelay, start: Time) -> u32 {
        let flow = self.flows.len() as u32;
        if let Some(stop) = self.kinds[kind as usize].stop {
            self.stops = true;
            self.wheel.insert(stop, Event::Rare(Rare::Stop(flow)));
        }
        self.wheel.insert(start, Event::Rare(Rare::Start(flow)));
        self.flows.push(Flow::new(kind, extra));
        flow
    }

    /// Lets everything happen up to `limit`, that moment included.
    pub fn run_until(&mut self, limit: Time) {
        loop {
            let free_at = self.soonest.time();
            match self.wheel.peek(free_at.min(limit)) {
                // A link that is free at the moment of an arrival sends first, as the live link does.
                Some(at) if at < free_at && at <= limit => {
                    self.now = at;
                    let event = self.wheel.pop().expect("there is one, as was just seen");
                    self.counts.events += 1;
                    self.expect_next();
                    self.happen(event);
                }
                _ if free_at <= limit && free_at < NEVER => {
                    self.now = free_at;
                    self.serve(self.soonest.number());
                }
                _ => break,
            }
        }
        self.now = self.now.max(limit);
    }

    /// Asks for the memory that the next events will need.
    #[inline]
    fn expect_next(&self) {
        if !self.hosts.are_many() {
            return;
        }
        if let Some(Event::Acknowledge { connection, .. }) = self.wheel.ahead(AHEAD) {
            memory::lines_soon(&self.hosts.outbound[*connection as usize], OUTBOUND_LINES);
        }
        if let Some(Event::Acknowledge { connection, .. }) = self.wheel.ahead(AHEAD_ELSEWHERE)
            && let Transmitter::Transport(sender) = &self.hosts.outbound[*connection as usize].transmitter
        {
            sender.records_ahead().into_iter().flatten().for_each(memory::soon);
        }
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event {
            Event::Acknowledge { connection, generation, ack } => {
                self.acknowledge(connection, generation, ack)
            }
            Event::Opened { connection, generation, answer } => self.opened(connection, generation, answer),
            Event::Enter(item) => self.enter_next(item),
            Event::Arrive(item) => self.arrive(item),
            Event::Rare(rare) => self.happen_rarely(rare),
        }
    }

    fn happen_rarely(&mut self, event: Rare) {
        match event {
            Rare::Timer(timer) => self.ring(timer),
            Rare::Act { connection, generation } => self.act(connection, generation),
            Rare::Unanswered { connection, generation, tries } => {
                self.unanswered(connection, generation, tries);
            }
            Rare::Start(flow) => self.start(flow),
            Rare::Stop(flow) => self.stop(flow),
            Rare::Step(number) => self.change_rate(number),
            Rare::Probe(link) => self.ring_prober(link),
            Rare::Poll(link) => self.poll(link),
            Rare::MeasureFrom => self.links.iter_mut().for_each(|l| l.meter.begins(l.queue.counters())),
            Rare::MeasureUntil => self.links.iter_mut().for_each(|l| l.meter.ends(l.queue.counters())),
            Rare::Sample => self.take_samples(),
        }
    }

    fn take_samples(&mut self) {
        for link in &mut self.links {
            link.meter.sample(self.now, &mut *link.queue);
        }
        if self.sample_flows {
            self.take_flow_samples();
        }
        self.wheel.insert(self.now + self.sample, Event::Rare(Rare::Sample));
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The links, by number.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The links, to take what they recorded, or to put other queues on them before the run.
    pub fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }

    /// What the flows of each group of the scenario have in common, to change it before the run.
    pub fn kinds_mut(&mut self) -> &mut [FlowKind] {
        &mut self.kinds
    }

    /// The flows, by number.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The number of the `[[flows]]` table that a flow is of.
    pub fn group(&self, flow: u32) -> u32 {
        self.kinds[self.flows[flow as usize].kind as usize].group
    }

    /// Packets by where they ended.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Fingerprint of every decision so far.
    pub fn trace_hash(&self) -> u64 {
        self.hash.value()
    }

    /// The tap.
    pub fn tap(&self) -> &T {
        &self.tap
    }

    /// Ends the simulation and gives the tap back.
    pub fn into_tap(self) -> T {
        self.tap
    }

    /// Whether no packet was lost or made up.
    pub fn is_conserved(&self) -> bool {
        let c = &self.counts;
        let queued: u64 = self
            .links
            .iter()
            .map(|l| u64::from(l.waiting()) + l.turns.as_ref().map_or(0, |turns| turns.held()))
            .sum();
        let travelling = |e: &&Event| !matches!(e, Event::Rare(_));
        let on_the_way = self.wheel.iter().filter(travelling).count() as u64;
        self.links.iter().all(Link::is_conserved)
            && c.sent + c.duplicated
                == c.delivered + c.late + c.dropped + c.filtered + c.lost + queued + on_the_way
    }
}

/// Room for the times of datagrams, up to the last group that has such.
fn pools(kinds: &[FlowKind]) -> Vec<Pool> {
    let is_judged = |of: &Traffic| judged(of).is_some() || matches!(of, Traffic::Realtime(_));
    let judged = kinds.iter().filter(|kind| is_judged(&kind.traffic));
    let groups = judged.map(|kind| kind.group as usize + 1).max().unwrap_or(0);
    (0..groups).map(|_| Pool::default()).collect()
}

/// Makes the first link of each medium its leader; says whether any has turns or classes.
fn share_media(links: &mut [Link], of: &[NetworkLink], seed: u64) -> bool {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
    for (number, link) in links.iter().enumerate() {
        members[link.leader].push(number);
    }
    let mut has_turns = false;
    for (leader, members) in members.into_iter().enumerate() {
        if let Some(turns) = Turns::of(&members, of, seed) {
            links[leader].turns = Some(Box::new(turns));
            has_turns = true;
            continue;
        }
        let class = |number: &usize| of[*number].committed.map(|committed| (committed, of[*number].rate));
        if let Some(classes) = members.iter().map(class).collect::<Option<Vec<_>>>().filter(|c| !c.is_empty())
        {
            let classes = Class::siblings(of[leader].medium_rate, &classes);
            links[leader].medium = Some(Medium::of_classes(members, classes));
            has_turns = true;
        } else if members.len() > 1 {
            links[leader].medium = Some(Medium::new(members));
        }
    }
    has_turns
}
