//! The queue of a link, built for the discipline and the algorithm that the scenario names.
//!
//! The packet path inside is compiled for each pair of the two lists; the link makes one indirect call for
//! each arrival and one for each departure.

use crate::error::Error;
use crate::packet::Item;
use std::marker::PhantomData;
use weir_aqm::{Algorithm, Aqm, Cause, Packet, Sample};
use weir_config::{AqmConfig, Estimator, PolicyConfig, QueueConfig, Steering};
use weir_measure::Status;
use weir_queue::{
    Arrival, Counters, Departure, Fifos, Hosts, Limits, Managed, OfItsOwn, OverAny, Plans, Setup, Single,
    UserCounters,
};
use weir_steer::polled::Seen;
use weir_steer::{ByHand, Helm, Law as _, Move, Observer, Pace, Policy, Polled, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

/// A packet that a queue discarded.
#[derive(Clone, Copy, Debug)]
pub struct Discarded {
    /// What the algorithm knew of it.
    pub packet: Packet,
    /// What it was.
    pub item: Item,
    /// Why.
    pub cause: Cause,
}

/// A queue with any algorithm.
pub trait LinkQueue: Send {
    /// Takes a packet, or adds it to `discarded`, as it may do with others.
    fn enqueue(&mut self, now: Time, arrival: &Arrival, item: &Item, discarded: &mut Vec<Discarded>);
    /// Whether acknowledgements may take the place of older ones ([`weir_queue::Discipline::replace`]).
    fn filters_acks(&self) -> bool;
    /// Whether it treats packets of NQB otherwise than others.
    fn reads_nqb(&self) -> bool;
    /// An acknowledgement takes the place of an older one, which is returned, if `replaces` says so.
    fn replace(
        &mut self,
        arrival: &Arrival,
        item: &Item,
        replaces: &dyn Fn(&Item, &Item) -> bool,
    ) -> Option<Item>;
    /// The next packet to send; discarded heads are added to `discarded`.
    fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>>;
    /// The packet that is likely to be sent or discarded next, where that is known.
    fn head(&self) -> Option<&Item>;
    /// Bytes stored.
    fn backlog(&self) -> Bytes;
    /// Packets stored.
    fn packets(&self) -> u32;
    /// What happened so far.
    fn counters(&self) -> &Counters;
    /// What happened to users so far, where each has a queue.
    fn user_counters(&self) -> Option<UserCounters>;
    /// The link's rate changed.
    fn set_rate(&mut self, rate: Rate);
    /// Something was measured outside.
    fn sample(&mut self, now: Time, sample: Sample);
    /// The same, for the user among these hosts alone.
    fn sample_for(&mut self, now: Time, hosts: Hosts, sample: Sample);
    /// Makes room for a rate of each user ([`weir_queue::Managed::make_paces`]).
    fn make_paces(&mut self, catch_up: Duration);
    /// Holds users to plans from the first packet on, each by the number of its `[[flows]]` table; those who
    /// have one by policies of their own, where the queue is steered packet by packet.
    fn put_plans(&mut self, plans: Plans, policies: &[Option<Policy>], catch_up: Duration);
    /// The rate that a user is held to from its next packet on; `None` for no limit.
    fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>);
    /// Packets stored for the user among these hosts; all of them where users are not told apart.
    fn packets_of(&self, hosts: Hosts) -> u32;
    /// When the first packet may leave where all users with packets are held to a rate; otherwise some time
    /// that has passed. `None` while nothing is stored.
    fn ready(&self) -> Option<Time>;
    /// How the algorithm stands.
    fn status(&mut self, now: Time) -> Status;
    /// Inner variables of the algorithm, by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64));
    /// Reads its counters, where these steer it; a rate if it is to be served at another one from now on.
    fn poll(&mut self, now: Time) -> Option<Rate>;
    /// Takes the moves of the set point since the last call, oldest first.
    fn take_moves(&mut self) -> Vec<Move>;
}

/// What a queue is made of.
#[derive(Clone, Copy, Debug)]
pub struct QueueSetup<'a> {
    /// How packets wait.
    pub queue: &'a QueueConfig,
    /// The algorithm.
    pub aqm: &'a AqmConfig,
    /// The policy, if it is steered.
    pub policy: Option<&'a PolicyConfig>,
    /// How the policy is held.
    pub steering: &'a Steering,
    /// Room in bytes by the link's accounting.
    pub room: Bytes,
    /// What the algorithm is told about the link.
    pub rate: Rate,
    /// For the algorithm's dice.
    pub seed: u64,
}

/// Smallest packet with everything around it: a limit in bytes holds at most this many times as many packets.
const PACKET_MIN: u64 = 20;

/// The limits of a queue with room for so many bytes.
fn limits(room: Bytes) -> Limits {
    Limits { bytes: room, packets: u32::try_from(room.get() / PACKET_MIN + 1).unwrap_or(u32::MAX) }
}

type Built = Result<Box<dyn LinkQueue>, Error>;
type Law = Helm<SteeringLaw, Moves>;

/// Who steers a queue.
enum Steers {
    Nobody,
    EachPacket(Box<Law>),
    Polls(Box<Poller>),
}

impl QueueSetup<'_> {
    /// Builds the queue.
    pub fn build(self) -> Built {
        let unknown = || Error::Discipline {
            name: self.queue.discipline.clone(),
            known: weir_queue::names().join(", "),
        };
        weir_queue::visit(&self.queue.discipline, self).unwrap_or_else(|| Err(unknown()))
    }

    fn setup(&self) -> Setup {
        Setup { limits: limits(self.room), rate: self.rate, seed: self.seed, grows: true }
    }

    /// What steers the algorithm of that name, if anything does.
    fn steers<A: Aqm>(&self, name: &'static str, aqm: &mut A, fifos: Fifos) -> Result<Steers, Error> {
        let Some(policy) = self.policy else { return Ok(Steers::Nobody) };
        let wrong = |reason: String| Error::Steering { algorithm: name, reason };
        if let Some(steering) = self.steering.polls() {
            let law = SteeringLaw::new(&policy.policy()).map_err(|e| wrong(e.to_string()))?;
            return Ok(Steers::Polls(Box::new(Poller::new(law, steering, self.rate))));
        }
        let helm = policy.helm(aqm, fifos, Time::ZERO, Moves::of_link());
        helm.map(|helm| Steers::EachPacket(Box::new(helm))).map_err(|e| wrong(e.to_string()))
    }
}

impl weir_queue::Visitor for QueueSetup<'_> {
    type Output = Built;

    fn over_any<D: OverAny>(self) -> Built {
        let unknown =
            || Error::Algorithm { name: self.aqm.name.clone(), known: weir_aqm::names().join(", ") };
        let over = Over::<D>(self, PhantomData);
        weir_aqm::visit(&self.aqm.name, over).unwrap_or_else(|| Err(unknown()))
    }

    fn of_its_own<D: OfItsOwn>(self) -> Built {
        let params = self.queue.params();
        let mut aqm = D::aqm(&params, Time::ZERO);
        Ok(match self.steers(D::NAME, &mut aqm, Fifos::Many)? {
            Steers::Nobody => Box::new(Plain(D::build(&params, aqm, (), &self.setup()))),
            Steers::EachPacket(helm) => Box::new(Guided(D::build(&params, aqm, *helm, &self.setup()))),
            Steers::Polls(poller) => {
                Box::new(Polling(D::build(&params, aqm, ByHand::default(), &self.setup()), poller))
            }
        })
    }
}

/// A discipline that waits for its algorithm.
struct Over<'a, D>(QueueSetup<'a>, PhantomData<D>);

impl<D: OverAny> weir_aqm::Visitor for Over<'_, D> {
    type Output = Built;

    fn visit<A: Algorithm>(self) -> Built {
        let setup = self.0;
        let params = setup.queue.params();
        let mut aqm = A::new(&setup.aqm.params(), Time::ZERO);
        Ok(match setup.steers(A::NAME, &mut aqm, D::FIFOS)? {
            Steers::Nobody => Box::new(Plain(D::build(&params, aqm, (), &setup.setup()))),
            Steers::EachPacket(helm) => Box::new(Guided(D::build(&params, aqm, *helm, &setup.setup()))),
            Steers::Polls(poller) => {
                Box::new(Polling(D::build(&params, aqm, ByHand::default(), &setup.setup()), poller))
            }
        })
    }
}

/// A FIFO of at most `room` bytes under an algorithm of the caller's own, on a link of this rate.
pub fn queue_of<A>(aqm: A, room: Bytes, rate: Rate, seed: u64) -> Box<dyn LinkQueue>
where
    A: Aqm + Send + 'static,
{
    Box::new(Plain(Single::growing(aqm, limits(room), rate, seed)))
}

/// Collects the moves of the set point, where somebody takes them.
#[derive(Clone, Debug)]
struct Moves(Option<Vec<Move>>);

impl Moves {
    fn of_link() -> Moves {
        Moves(Some(Vec::new()))
    }

    fn take(&mut self) -> Vec<Move> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Observer for Moves {
    fn moved(&mut self, m: &Move) {
        self.0.iter_mut().for_each(|list| list.push(*m));
    }
}

/// Holds users to plans.
fn hold(queue: &mut impl Managed<Item>, mut plans: Plans, catch_up: Duration) {
    queue.make_plans(catch_up);
    queue.set_plans(&mut plans);
}

/// A queue that is not steered.
struct Plain<Q>(Q);

/// A queue that is steered.
struct Guided<Q>(Q);

/// A queue that is steered by its counters.
struct Polling<Q>(Q, Box<Poller>);

/// What both do alike.
macro_rules! forward_to_queue {
    () => {
        fn enqueue(&mut self, now: Time, arrival: &Arrival, item: &Item, discarded: &mut Vec<Discarded>) {
            self.0.enqueue(now, *arrival, *item, &mut outbox(discarded));
        }
        fn filters_acks(&self) -> bool {
            self.0.filters_acks()
        }
        fn reads_nqb(&self) -> bool {
            self.0.reads_nqb()
        }
        fn replace(
            &mut self,
            arrival: &Arrival,
            item: &Item,
            replaces: &dyn Fn(&Item, &Item) -> bool,
        ) -> Option<Item> {
            self.0.replace(arrival, item, replaces)
        }
        fn head(&self) -> Option<&Item> {
            self.0.head()
        }
        fn backlog(&self) -> Bytes {
            self.0.backlog()
        }
        fn packets(&self) -> u32 {
            self.0.packets()
        }
        fn counters(&self) -> &Counters {
            self.0.counters()
        }
        fn user_counters(&self) -> Option<UserCounters> {
            self.0.user_counters()
        }
        fn sample(&mut self, now: Time, sample: Sample) {
            self.0.sample(now, sample);
        }
        fn sample_for(&mut self, now: Time, hosts: Hosts, sample: Sample) {
            self.0.sample_for(now, hosts, sample);
        }
        fn make_paces(&mut self, catch_up: Duration) {
            self.0.make_paces(catch_up);
        }
        fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>) {
            self.0.set_rate_of(hosts, rate);
        }
        fn packets_of(&self, hosts: Hosts) -> u32 {
            self.0.packets_of(hosts)
        }
        fn ready(&self) -> Option<Time> {
            self.0.head_arrived()
        }
    };
}

/// What queues do alike that no counters steer.
macro_rules! forward_all_to_queue {
    () => {
        forward_to_queue!();
        fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>> {
            self.0.dequeue(now, &mut outbox(discarded))
        }
        fn set_rate(&mut self, rate: Rate) {
            self.0.set_rate(rate);
        }
        fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
            self.0.gauges(plot);
        }
        fn poll(&mut self, _now: Time) -> Option<Rate> {
            None
        }
    };
}

fn outbox(discarded: &mut Vec<Discarded>) -> impl FnMut(&Packet, Item, Cause) {
    move |packet: &Packet, item, cause| discarded.push(Discarded { packet: *packet, item, cause })
}

impl<Q: Managed<Item, Guide = ()> + Send> LinkQueue for Plain<Q> {
    forward_all_to_queue!();

    fn status(&mut self, _now: Time) -> Status {
        Status::plain(self.0.setpoint())
    }
    fn take_moves(&mut self) -> Vec<Move> {
        Vec::new()
    }
    fn put_plans(&mut self, plans: Plans, _: &[Option<Policy>], catch_up: Duration) {
        hold(&mut self.0, plans, catch_up);
    }
}

impl<Q: Managed<Item, Guide = Law> + Send> LinkQueue for Guided<Q> {
    forward_all_to_queue!();

    fn status(&mut self, now: Time) -> Status {
        Status::steered(self.0.guide(), now)
    }
    fn take_moves(&mut self) -> Vec<Move> {
        self.0.guide_mut().observer_mut().take()
    }
    fn put_plans(&mut self, plans: Plans, policies: &[Option<Policy>], catch_up: Duration) {
        hold(&mut self.0, plans, catch_up);
        let law = |policy: &Policy| SteeringLaw::new(policy).expect("checked with the scenario");
        let own = |policy: &Policy| Box::new(Helm::to_come(law(policy), Time::ZERO, Moves(None)));
        if let Some(guides) = self.0.own_guides() {
            *guides = policies.iter().map(|policy| policy.as_ref().map(own)).collect();
        }
    }
}

/// Steers a queue by what its counters say now and then, as `weir steer` does with queues of the kernel.
struct Poller {
    polled: Polled,
    pace: Pace,
    /// Utilization is measured against it; a step of the link's rate changes it.
    link: Rate,
    /// The rate at which the queue is served, which is lower where that stands for the virtual queue.
    served: Rate,
    tells: Estimator,
    /// Delay of the last packet that left.
    last_delay: Duration,
    /// What was seen of each packet since the last look.
    seen: Seen,
    moves: Moves,
}

impl Poller {
    fn new(law: SteeringLaw, steering: &Steering, link: Rate) -> Poller {
        Poller {
            polled: Polled::new(law),
            pace: Pace::new(steering.poll_settle),
            link,
            served: link,
            tells: steering.poll_estimator,
            last_delay: Duration::ZERO,
            seen: Seen::default(),
            moves: Moves::of_link(),
        }
    }

    /// The counters as a queue of the kernel tells them.
    fn counters(&mut self, now: Time, counters: &Counters, waiting: Bytes) -> weir_steer::polled::Counters {
        weir_steer::polled::Counters {
            now,
            sent: Bytes::new(counters.dequeued_bytes),
            sent_packets: counters.dequeued,
            signals: counters.drops() + counters.marked,
            discarded: counters.drops() + counters.overflows(),
            waiting,
            delay: (self.tells == Estimator::Delay && waiting > Bytes::ZERO).then_some(self.last_delay),
            seen: (self.tells == Estimator::Probe).then(|| std::mem::take(&mut self.seen)),
        }
    }
}

impl<Q: Managed<Item, Guide = ByHand> + Send> LinkQueue for Polling<Q> {
    forward_to_queue!();

    fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>> {
        let departure = self.0.dequeue(now, &mut outbox(discarded))?;
        let sojourn = departure.sojourn;
        self.1.last_delay = sojourn;
        let seen = &mut self.1.seen;
        seen.least = Some(seen.least.map_or(sojourn, |least| least.min(sojourn)));
        seen.ran_empty |= self.0.backlog() == Bytes::ZERO;
        Some(departure)
    }
    fn set_rate(&mut self, rate: Rate) {
        (self.1.link, self.1.served) = (rate, rate);
        self.0.set_rate(rate);
    }
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.0.gauges(plot);
        self.1.polled.law().gauges(plot);
    }
    fn status(&mut self, _now: Time) -> Status {
        let setpoint = self.0.guide().0.or_else(|| self.0.setpoint());
        let state = self.1.polled.epoch(self.1.link).map(|seen| self.1.polled.law().state(&seen));
        Status { setpoint, table_state: state.map_or(0, |state| state as u8), ..Status::default() }
    }
    fn take_moves(&mut self) -> Vec<Move> {
        self.1.moves.take()
    }
    fn put_plans(&mut self, plans: Plans, _: &[Option<Policy>], catch_up: Duration) {
        hold(&mut self.0, plans, catch_up);
    }

    fn poll(&mut self, now: Time) -> Option<Rate> {
        let Polling(queue, poller) = self;
        let counters = poller.counters(now, queue.counters(), queue.backlog());
        let polling = poller.polled.poll(&counters, poller.link, &mut poller.moves);
        poller.pace.note(&polling);
        if !poller.pace.is_due(now) {
            return None;
        }
        let wanted = poller.polled.wanted_target();
        let in_force = queue.guide().0.or_else(|| queue.setpoint());
        if in_force.is_none_or(|in_force| Pace::is_step(in_force, wanted)) {
            queue.guide_mut().0 = Some(wanted);
            poller.pace.changed(now);
        }
        let wanted = poller.polled.wanted_rate(poller.link, poller.link);
        let is_lowered = poller.polled.law().policy().uses_virtual_queue();
        if !is_lowered || !Pace::is_rate_step(poller.served, wanted, poller.link, poller.link) {
            return None;
        }
        poller.served = wanted;
        poller.pace.changed(now);
        queue.set_rate(wanted);
        Some(wanted)
    }
}
