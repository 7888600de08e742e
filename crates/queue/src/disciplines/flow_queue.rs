//! A FIFO and an algorithm for each flow, served in turn (FlowQueue, RFC 8290).
//!
//! A hash chooses the FIFO of a packet. FIFOs send a quantum each round, and those of flows that have sent
//! little go first. RFC 8290 manages them with CoDel; here any algorithm of the list can do it, one instance
//! for each FIFO. When there is no room, the flow with the longest backlog pays.
//!
//! The algorithm of a flow sees its flow: backlog and packets of its FIFO, and the share of the link's rate
//! that it gets while so many flows are served. A guide sees the queue as a whole.

use crate::buckets::Buckets;
use crate::disciplines::{Entry, Managed, OverAny, Setup};
use crate::lanes::{LaneParams, Lanes, NQB_BUFFER, NQB_BUFFER_MAX, NQB_BUFFER_MIN, Way};
use crate::pool::{Chain, Pool, Slot};
use crate::rounds::{Rounds, Turn};
use crate::settle::{Decision, random_bits};
use crate::sum::Sum;
use crate::{Arrival, Counters, Departure, Discipline, Hosts, Limits, Outbox};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use weir_aqm::{Aqm, Cause, Ecn, Guide, Moment, Packet, Sample, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// Most packets that are discarded from the longest FIFO at once, when there is no room: half of its backlog,
/// but not more than this (RFC 8290 section 4.1). Finding it takes a look at every FIFO, once in a batch.
pub const SHED_BATCH_MAX: u32 = 64;

weir_aqm::params! {
    /// Parameters of FlowQueue.
    pub struct Params {
        /// Number of FIFOs; flows beyond share one with another (RFC 8290 section 5.2.5).
        flows: u32 = 1024, 1 => 65_536;
        /// Bytes that a flow sends in one round, about one packet of the largest size (RFC 8290 section
        /// 5.2.4).
        quantum: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(1_000_000);
        /// Most packets stored, beside the room of the link (RFC 8290 section 5.2.3).
        packets: u32 = 10_240, 1 => 1_000_000;
        /// Most bytes stored, beside the room of the link.
        memory: Bytes = Bytes::new(32_000_000), Bytes::new(1500) => Bytes::new(4_000_000_000);
        /// Places that a flow may choose from. With 1 its hash says the FIFO; with 8, as in CAKE, flows
        /// rarely share one.
        ways: u32 = 1, 1 => 32;
        /// Whether senders, by their address, get equal shares whatever the number of their flows. With
        /// `fair_receivers` as well, pairs of addresses do.
        fair_senders: bool = false, false => true;
        /// Whether receivers, by their address, get equal shares whatever the number of their flows.
        fair_receivers: bool = false, false => true;
        /// Whether a TCP acknowledgement takes the place of an older one of its flow that waits, which says
        /// nothing more (RFC 3449 section 5.2.1). Two at least stay; duplicates, and those with SACK blocks,
        /// are left alone.
        ack_filter: bool = false, false => true;
        /// Delay of its own FIFO above which each packet with ECT(1) is marked, beside what the algorithm
        /// does, as senders of L4S need it (RFC 9331 section 5.2). Zero turns it off.
        l4s_threshold: Duration = Duration::ZERO, Duration::ZERO => Duration::from_secs(1);
        /// Whether each FIFO has a shallow lane beside it for packets of NQB (DSCP 45, RFC 9956), and with
        /// `l4s_threshold` for those of L4S; both get the same share of what the flow gets.
        nqb: bool = false, false => true;
        /// Room of a lane, as time at the link's rate, but two packets at least.
        nqb_buffer: Duration = NQB_BUFFER, NQB_BUFFER_MIN => NQB_BUFFER_MAX;
        /// Whether packets of flows that build a queue in a lane go to the FIFO beside it (queue protection,
        /// RFC 9957); needs `nqb`.
        protection: bool = false, false => true;
    }
}

/// Longest FIFO in which the last two packets are looked for: acknowledgements that are filtered keep theirs
/// at two, and one that is longer holds other packets.
const FILTERED_MAX: usize = 16;

struct Flow<A> {
    aqm: A,
    fifo: Chain,
    /// Whose flow it is, while it is not idle.
    host: u32,
    last_delay: Duration,
}

/// What waits in a lane.
#[derive(Clone, Copy, Default)]
struct Beside {
    packets: u32,
    bytes: u32,
}

/// The hosts in turn.
struct HostRounds {
    key: HostKey,
    buckets: Buckets,
    /// What waits of a host are its flows that are not idle.
    turns: Box<[Turn]>,
    rounds: Rounds,
    /// The flows of each.
    flows: Box<[Rounds]>,
}

/// What tells hosts apart.
#[derive(Clone, Copy)]
enum HostKey {
    Sender,
    Receiver,
    Pair,
}

impl HostKey {
    fn of(params: &Params) -> Option<HostKey> {
        match (params.fair_senders, params.fair_receivers) {
            (false, false) => None,
            (true, false) => Some(HostKey::Sender),
            (false, true) => Some(HostKey::Receiver),
            (true, true) => Some(HostKey::Pair),
        }
    }

    fn hash(self, hosts: &Hosts) -> u32 {
        match self {
            HostKey::Sender => hosts.sender,
            HostKey::Receiver => hosts.receiver,
            HostKey::Pair => hosts.sender.wrapping_mul(0x9e37_79b1) ^ hosts.receiver,
        }
    }
}

/// See the [module documentation](self).
pub struct FlowQueue<A, T, G = ()> {
    flows: Box<[Flow<A>]>,
    turns: Box<[Turn]>,
    buckets: Buckets,
    /// All flows in turn, unless hosts are.
    rounds: Rounds,
    hosts: Option<HostRounds>,
    pool: Pool<T>,
    guide: G,
    limits: Limits,
    quantum: i64,
    sum: Sum,
    /// Flows that are not idle.
    active: u32,
    /// When the packet arrived that was stored last.
    latest: Time,
    /// The flow that was served last, for gauges.
    served: usize,
    dice: SplitMix64,
    counters: Counters,
    filters: bool,
    /// Where packets with ECT(1) are marked; [`Duration::MAX`] where they are not.
    shallow: Duration,
    /// One beside each FIFO, where they are wanted.
    lanes: Option<Lanes>,
}

impl<A: Aqm + Clone, T: Copy> FlowQueue<A, T> {
    /// An empty queue, with a copy of `aqm` for each flow.
    pub fn new(params: &Params, aqm: A, setup: &Setup) -> Self {
        Self::guided(params, aqm, (), setup)
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> FlowQueue<A, T, G> {
    /// The same with a guide.
    pub fn guided(params: &Params, aqm: A, guide: G, setup: &Setup) -> Self {
        let lane = LaneParams {
            buffer: params.nqb_buffer,
            l4s_threshold: params.l4s_threshold,
            protection: params.protection,
        };
        let buckets = Buckets::new(params.flows, params.ways, setup.seed);
        let count = buckets.len();
        let hosts = HostKey::of(params).map(|key| {
            let buckets = Buckets::new(params.flows, params.ways, setup.seed ^ 1);
            let count = buckets.len();
            HostRounds {
                key,
                buckets,
                turns: vec![Turn::IDLE; count].into(),
                rounds: Rounds::default(),
                flows: vec![Rounds::default(); count].into(),
            }
        });
        let flow = Flow { aqm, fifo: Chain::default(), host: 0, last_delay: Duration::ZERO };
        let flow = |_| Flow { aqm: flow.aqm.clone(), ..flow };
        let limits = Limits {
            bytes: setup.limits.bytes.min(params.memory),
            packets: setup.limits.packets.min(params.packets),
        };
        // A packet is stored before others make room for it.
        let room = if setup.grows { 0 } else { limits.packets as usize + 1 };
        FlowQueue {
            flows: (0..count).map(flow).collect(),
            turns: vec![Turn::IDLE; count].into(),
            buckets,
            rounds: Rounds::default(),
            hosts,
            pool: Pool::with_capacity(room),
            guide,
            limits,
            quantum: params.quantum.get() as i64,
            sum: Sum::new(setup.rate),
            active: 0,
            latest: Time::ZERO,
            served: 0,
            dice: SplitMix64::seed_from_u64(setup.seed),
            counters: Counters::default(),
            filters: params.ack_filter,
            shallow: lane.marked_above(),
            lanes: params.nqb.then(|| Lanes::new(count, lane)),
        }
    }

    /// The same queue, with what waits in it, under another guide.
    pub fn under<H: Guide<A>>(self, guide: H) -> FlowQueue<A, T, H> {
        let FlowQueue { flows, turns, buckets, rounds, hosts, pool, guide: _, limits, quantum, sum, active, latest, served, dice, counters, filters, shallow, lanes } = self;
        FlowQueue { flows, turns, buckets, rounds, hosts, pool, guide, limits, quantum, sum, active, latest, served, dice, counters, filters, shallow, lanes }
    }

    /// How often a packet of one flow came to the FIFO of another.
    pub fn collisions(&self) -> u64 {
        self.buckets.collisions()
    }

    /// Flows that are served now.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// What each flow that is not idle gets of the rate. It is not kept, because flows come and go with every
    /// packet, and few algorithms ask.
    #[inline(always)]
    fn share(&self) -> Rate {
        self.sum.share(self.active)
    }

    /// What waits in the lane of a flow, of which its algorithm knows nothing.
    #[inline(always)]
    fn beside(&self, flow: usize) -> Beside {
        match &self.lanes {
            Some(lanes) => Beside { packets: lanes.packets(flow), bytes: lanes.bytes(flow).get() as u32 },
            None => Beside::default(),
        }
    }

    /// The moment as the algorithm of a flow sees it.
    #[inline(always)]
    fn moment(&mut self, now: Time, flow: usize) -> Moment {
        let beside = self.beside(flow);
        let queue = view(&self.turns[flow], beside, self.flows[flow].last_delay, self.share());
        Moment::new(now, queue, random_bits::<A>(&mut self.dice))
    }

    /// Runs the wakeup of a flow's algorithm if it is due. Flows without packets are woken late, when one
    /// comes.
    #[inline(always)]
    fn wake(&mut self, now: Time, flow: usize) {
        if self.flows[flow].aqm.next_wakeup().is_some_and(|due| due <= now) {
            self.wake_now(now, flow);
        }
    }

    /// Kept out of line: few algorithms have wakeups, and those that have do much in one.
    #[inline(never)]
    fn wake_now(&mut self, now: Time, flow: usize) {
        let m = self.moment(now, flow);
        self.guide.on_wakeup(&mut self.flows[flow].aqm, &m);
    }

    #[inline(always)]
    fn flow_of(&mut self, hash: u32) -> usize {
        let turns = &self.turns;
        self.buckets.place(hash, |i| turns[i].is_idle())
    }

    /// Gives a flow that was idle its place among the flows of its host.
    fn join(&mut self, flow: usize, who: &Hosts) {
        self.active += 1;
        let Some(hosts) = &mut self.hosts else {
            self.rounds.join(&mut self.turns, flow, self.quantum);
            return;
        };
        let turns = &hosts.turns;
        let host = hosts.buckets.place(hosts.key.hash(who), |i| turns[i].is_idle());
        if hosts.turns[host].is_idle() {
            hosts.rounds.join(&mut hosts.turns, host, self.quantum);
        }
        hosts.turns[host].waiting += 1;
        self.flows[flow].host = host as u32;
        hosts.flows[host].join(&mut self.turns, flow, self.quantum);
    }

    /// Makes room: takes half of the longest backlog from its head, where drops are noticed first.
    #[cold]
    fn shed(&mut self, now: Time, out: &mut impl Outbox<T>) {
        let flow = longest(&self.turns);
        let enough = u64::from(self.turns[flow].bytes / 2);
        let is_beside = self.classic(flow) == 0;
        let mut gone = 0;
        for _ in 0..SHED_BATCH_MAX {
            let slot = match &mut self.lanes {
                Some(lanes) if is_beside => lanes.pop(flow, &mut self.pool),
                _ => self.pool.pop(&mut self.flows[flow].fifo).copied(),
            };
            let Some(Slot { packet, item, .. }) = slot else { break };
            self.sum.remove(packet.len);
            self.turns[flow].taken(packet.len);
            self.counters.shed += 1;
            let m = self.moment(now, flow);
            self.guide.on_shed(&mut self.flows[flow].aqm, &m, &packet);
            out.discarded(&packet, item, Cause::Overflow);
            gone += packet.len.get();
            if gone >= enough {
                break;
            }
        }
        if is_beside {
            if self.sum.packets == 0 {
                self.guide.on_idle();
            }
        } else if self.classic(flow) == 0 {
            let state = &mut self.flows[flow];
            state.last_delay = Duration::ZERO;
            self.guide.on_empty(&mut state.aqm, self.sum.packets == 0, now);
        }
    }

    /// Packets in the FIFO of a flow.
    #[inline(always)]
    fn classic(&self, flow: usize) -> u32 {
        self.turns[flow].waiting - self.beside(flow).packets
    }

    /// Stores an arrival in the lane of its flow, or discards it, if it belongs there; whether it does.
    #[inline(never)]
    fn offer_beside(
        &mut self,
        now: Time,
        flow: usize,
        arrival: &Arrival,
        packet: &Packet,
        item: T,
        out: &mut impl Outbox<T>,
    ) -> bool {
        let Some(lanes) = &mut self.lanes else { return false };
        match lanes.way(flow, now, packet, arrival.nqb, self.sum.rate()) {
            Way::Classic => return false,
            Way::Sanctioned => {
                self.counters.sanctioned += 1;
                return false;
            }
            Way::Shallow if packet.len <= self.limits.bytes => {
                lanes.push(flow, &mut self.pool, *packet, item);
                self.counters.admitted(Ok(false));
                self.guide.on_beside(now, packet);
                self.stored(now, flow, packet.len, &arrival.hosts, out);
            }
            Way::Shallow | Way::Full => {
                self.counters.admitted(Err(Cause::Overflow));
                out.discarded(packet, item, Cause::Overflow);
            }
        }
        debug_assert!(self.counters.is_conserved(self.sum.packets));
        true
    }

    /// A packet of a flow was stored.
    #[inline(always)]
    fn stored(&mut self, now: Time, flow: usize, len: Bytes, hosts: &Hosts, out: &mut impl Outbox<T>) {
        self.sum.add(len);
        self.latest = now;
        let turn = &mut self.turns[flow];
        turn.stored(len);
        if turn.is_idle() {
            self.join(flow, hosts);
        }
        while self.is_over() {
            self.shed(now, out);
        }
    }

    /// The next packet of the lane of a flow.
    #[inline(never)]
    fn take_beside(&mut self, now: Time, flow: usize) -> Option<Departure<T>> {
        let lanes = self.lanes.as_mut()?;
        let Slot { packet, item, .. } = lanes.pop(flow, &mut self.pool)?;
        let turn = &mut self.turns[flow];
        self.sum.remove(packet.len);
        turn.taken(packet.len);
        turn.charge(packet.len);
        lanes.sent(flow, packet.len, turn.waiting > lanes.packets(flow));
        let sojourn = now.since(packet.arrived);
        let marked = lanes.marks(&packet, sojourn);
        self.counters.marked += u64::from(marked);
        self.counters.departure(packet.len);
        if self.sum.packets == 0 {
            self.guide.on_idle();
        }
        Some(Departure { packet, item, marked, sojourn })
    }

    fn is_over(&self) -> bool {
        self.sum.packets > self.limits.packets || self.sum.backlog > self.limits.bytes
    }

    /// The flow whose turn it is; it has a packet.
    #[inline(always)]
    fn choose(&mut self) -> Option<usize> {
        if self.hosts.is_some() {
            return self.choose_by_host();
        }
        let mut left = 0;
        let flow = self.rounds.choose(&mut self.turns, self.quantum, &mut left);
        self.active -= left;
        flow
    }

    #[inline(never)]
    fn choose_by_host(&mut self) -> Option<usize> {
        let hosts = self.hosts.as_mut()?;
        loop {
            let host = hosts.rounds.choose(&mut hosts.turns, self.quantum, &mut 0)?;
            let mut left = 0;
            let flow = hosts.flows[host].choose(&mut self.turns, self.quantum, &mut left);
            hosts.turns[host].waiting -= left;
            self.active -= left;
            // The flows of a host may all have left it; then it leaves as well.
            if flow.is_some() {
                return flow;
            }
        }
    }

    /// The next packet of a flow; `None` when its algorithm lets none go.
    ///
    /// Everything of the flow is looked up once: this is where most of the time of a packet goes.
    #[inline(always)]
    fn take(
        &mut self,
        now: Time,
        flow: usize,
        drops: &mut u32,
        out: &mut impl Outbox<T>,
    ) -> Option<Departure<T>> {
        if let Some(lanes) = &self.lanes
            && lanes.is_next(flow, self.classic(flow) > 0)
        {
            return self.take_beside(now, flow);
        }
        self.wake(now, flow);
        let (share, beside) = (self.share(), self.beside(flow));
        let (state, turn) = (&mut self.flows[flow], &mut self.turns[flow]);
        let departure = loop {
            let Some(slot) = self.pool.pop(&mut state.fifo) else { break None };
            let (packet, sojourn) = (&slot.packet, now.since(slot.packet.arrived));
            self.sum.remove(packet.len);
            turn.taken(packet.len);
            let queue = view(turn, beside, state.last_delay, share);
            let m = Moment::new(now, queue, random_bits::<A>(&mut self.dice));
            state.last_delay = sojourn;
            let decision =
                Decision { aqm: &mut state.aqm, guide: &mut self.guide, counters: &mut self.counters };
            match decision.release(drops, || self.sum.view(), &m, packet, slot.marked) {
                Ok(mut marked) => {
                    turn.charge(packet.len);
                    if let Some(lanes) = &mut self.lanes {
                        lanes.classic_sent(flow, packet.len);
                    }
                    // A step at a shallow threshold: what responds to each mark needs them early (RFC 9331
                    // section 5.2). A packet that came with CE has its mark.
                    if sojourn > self.shallow && packet.ecn == Ecn::Ect1 && !marked {
                        self.counters.marked += 1;
                        marked = true;
                    }
                    break Some(Departure { packet: *packet, item: slot.item, marked, sojourn });
                }
                Err(cause) => out.discarded(packet, slot.item, cause),
            }
        };
        if turn.waiting == beside.packets {
            state.last_delay = Duration::ZERO;
            self.guide.on_empty(&mut state.aqm, self.sum.packets == 0, now);
        }
        departure
    }
}

/// A flow as its algorithm sees it.
#[inline(always)]
fn view(turn: &Turn, beside: Beside, delay: Duration, rate: Rate) -> View {
    let backlog = Bytes::new((turn.bytes - beside.bytes).into());
    View { backlog, packets: turn.waiting - beside.packets, delay, rate }
}

/// The first of those with most bytes.
fn longest(turns: &[Turn]) -> usize {
    let most = turns.iter().map(|turn| turn.bytes).max().unwrap_or(0);
    turns.iter().position(|turn| turn.bytes == most).unwrap_or(0)
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> Discipline<T> for FlowQueue<A, T, G> {
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>) {
        let flow = self.flow_of(arrival.flow);
        self.wake(now, flow);
        let packet = self.counters.arrive(now, &arrival);
        let fits = packet.len <= self.limits.bytes && self.limits.packets > 0;
        if self.lanes.is_some() && self.offer_beside(now, flow, &arrival, &packet, item, out) {
            return;
        }
        let (rate, beside) = (self.share(), self.beside(flow));
        let (state, turn) = (&mut self.flows[flow], &mut self.turns[flow]);
        let m = Moment::new(now, view(turn, beside, state.last_delay, rate), random_bits::<A>(&mut self.dice));
        let (guide, counters) = (&mut self.guide, &mut self.counters);
        let decision = Decision { aqm: &mut state.aqm, guide, counters };
        match decision.admit(fits, || self.sum.view(), &m, &packet) {
            Ok(marked) => {
                self.pool.push(&mut state.fifo, packet, marked, item);
                self.stored(now, flow, packet.len, &arrival.hosts, out);
            }
            Err(cause) => out.discarded(&packet, item, cause),
        }
        debug_assert!(self.counters.is_conserved(self.sum.packets));
    }

    fn filters_acks(&self) -> bool {
        self.filters
    }

    fn reads_nqb(&self) -> bool {
        self.lanes.is_some()
    }

    /// The packet that comes has the place, the number and the time of arrival of the one that goes, so that
    /// nothing changes for the algorithm.
    fn replace(&mut self, arrival: &Arrival, item: &T, replaces: impl FnOnce(&T, &T) -> bool) -> Option<T> {
        let flow = self.buckets.find(arrival.flow).filter(|_| self.filters)?;
        let [last, before] = self.pool.last_two(&self.flows[flow].fifo, FILTERED_MAX)?;
        let is_alike = |slot: &Slot<T>| (slot.packet.flow, slot.packet.ecn) == (arrival.flow, arrival.ecn);
        if !is_alike(last) || !is_alike(before) || last.packet.len != arrival.len {
            return None;
        }
        if !replaces(&last.item, &before.item) {
            return None;
        }
        self.counters.arrived += 1;
        self.counters.arrived_bytes += arrival.len.get();
        self.counters.filtered += 1;
        let replaced = std::mem::replace(&mut last.item, *item);
        debug_assert!(self.counters.is_conserved(self.sum.packets));
        Some(replaced)
    }

    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>> {
        let mut drops = 0;
        let departure = loop {
            let Some(flow) = self.choose() else { break None };
            if let Some(departure) = self.take(now, flow, &mut drops, out) {
                self.served = flow;
                if let Some(hosts) = &mut self.hosts {
                    hosts.turns[self.flows[flow].host as usize].charge(departure.packet.len);
                }
                break Some(departure);
            }
        };
        debug_assert!(self.counters.is_conserved(self.sum.packets));
        departure
    }

    /// That of the packet stored last: none leaves before it, as all that could have left by then did.
    fn head_arrived(&self) -> Option<Time> {
        (self.sum.packets > 0).then_some(self.latest)
    }

    fn backlog(&self) -> Bytes {
        self.sum.backlog
    }

    fn packets(&self) -> u32 {
        self.sum.packets
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn set_rate(&mut self, rate: Rate) {
        self.sum.set_rate(rate);
    }

    fn sample(&mut self, now: Time, sample: Sample) {
        for flow in &mut self.flows {
            flow.aqm.on_sample(now, sample);
        }
    }
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> Managed<T> for FlowQueue<A, T, G> {
    type Aqm = A;
    type Guide = G;

    fn set_aqm(&mut self, aqm: A) {
        self.flows.iter_mut().for_each(|flow| flow.aqm = aqm.clone());
    }

    fn guide(&self) -> &G {
        &self.guide
    }

    fn guide_mut(&mut self) -> &mut G {
        &mut self.guide
    }

    fn setpoint(&mut self) -> Option<Duration> {
        self.flows[self.served].aqm.setpoint().map(|s| s.get())
    }

    fn head(&self) -> Option<&T> {
        let flow = match &self.hosts {
            Some(hosts) => hosts.flows[hosts.rounds.first()?].first()?,
            None => self.rounds.first()?,
        };
        let beside = || self.lanes.as_ref().and_then(|lanes| lanes.head(flow, &self.pool));
        self.pool.head(&self.flows[flow].fifo).or_else(beside).map(|slot| &slot.item)
    }

    /// Those of the flow that was served last, and of the queue.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.flows[self.served].aqm.gauges(plot);
        self.guide.gauges(plot);
        plot("flows", f64::from(self.active));
        plot("collisions", self.collisions() as f64);
    }
}

/// FlowQueue in the list of disciplines.
pub struct Flows;

impl Entry for Flows {
    const NAME: &'static str = "flow";
    const SUMMARY: &'static str =
        "A FIFO and an instance of the algorithm for each flow, served in turn, new flows first.";
    const SOURCE: &'static str = "RFC 8290";
    type Params = Params;

    fn accept<V: crate::disciplines::Visitor>(visitor: V) -> V::Output {
        visitor.over_any::<Self>()
    }
}

impl OverAny for Flows {
    const FIFOS: crate::disciplines::Fifos = crate::disciplines::Fifos::Many;
    type Queue<A, G, T>
        = FlowQueue<A, T, G>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;

    fn build<A, G, T>(params: &Params, aqm: A, guide: G, setup: &Setup) -> Self::Queue<A, G, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        FlowQueue::guided(params, aqm, guide, setup)
    }

    fn under<A, G, H, T>(queue: Self::Queue<A, G, T>, guide: H) -> Self::Queue<A, H, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        H: Guide<A> + Send + 'static,
        T: Copy + Send + 'static,
    {
        queue.under(guide)
    }
}
