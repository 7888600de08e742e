//! A queue of any discipline, algorithm and policy, asked for many packets at once.
//!
//! The packet path is compiled for each pair of the two lists; a batch makes one indirect call.

use crate::guide::{Above, Moves};
use crate::types::{
    WEIR_CAUSE_CHANCE, WEIR_CAUSE_OVERFLOW, WEIR_CAUSE_SET_POINT, WEIR_DROP, WEIR_FORWARD, WEIR_MARK,
    weir_departure, weir_packet,
};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Packet, Sample};
use weir_config::Embedded;
use weir_queue::{
    AHEAD_MAX, Arrival, Counters, DROPS_PER_DEQUEUE_MAX, Discipline, Fifos, Hosts, Limits, Managed, OfItsOwn,
    OverAny, SHED_BATCH_MAX, Setup, Shaper, UserCounters,
};
use weir_steer::{Helm, Policy, SteerError};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::dscp::Dscp;

/// Most discarded packets that wait to be handed out, beside those that a single packet displaced. At half of
/// it no packets are taken in, so that what is near it came of packets that left.
const PENDING_MAX: usize = 1024;

/// Packets that were discarded while there was no room to say so.
#[derive(Debug)]
pub struct Pending(VecDeque<weir_departure>);

impl Pending {
    /// With memory for as many as there may be: a large packet may displace all small ones of a queue of
    /// `packets` at once.
    pub fn new(packets: u32) -> Pending {
        Pending(VecDeque::with_capacity(PENDING_MAX + packets as usize))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that are to be told first: half of what can be told, so that packets leave even while a queue
    /// sheds as many as come; all of it where there is no room for those of one more dequeue.
    fn share(&self, places: usize) -> usize {
        if self.0.len() + DROPS_PER_DEQUEUE_MAX as usize > PENDING_MAX { places } else { places / 2 }
    }

    /// Takes them out, oldest first; how many.
    fn take(&mut self, out: &mut [MaybeUninit<weir_departure>]) -> usize {
        let most = self.0.len().min(out.len());
        for (slot, gone) in out.iter_mut().zip(self.0.drain(..most)) {
            slot.write(gone);
        }
        most
    }
}

/// The code of a cause, as C has it.
fn code(cause: Cause) -> u8 {
    match cause {
        Cause::Overflow => WEIR_CAUSE_OVERFLOW,
        Cause::SetPoint => WEIR_CAUSE_SET_POINT,
        Cause::Chance => WEIR_CAUSE_CHANCE,
    }
}

/// A verdict, as C has it.
pub fn verdict(said: weir_aqm::Verdict) -> u8 {
    match said {
        weir_aqm::Verdict::Forward => WEIR_FORWARD,
        weir_aqm::Verdict::Mark(cause) => WEIR_MARK | code(cause),
        weir_aqm::Verdict::Drop(cause) => WEIR_DROP | code(cause),
    }
}

fn discard(now: Time, packet: &Packet, cookie: u64, cause: Cause) -> weir_departure {
    weir_departure {
        cookie,
        at_ns: now.as_nanos(),
        sojourn_ns: now.since(packet.arrived).as_nanos(),
        length: packet.len.get() as u32,
        verdict: WEIR_DROP | code(cause),
        reserved: [0; 3],
    }
}

/// When packets may leave.
pub struct Pace {
    /// The link, if the queue is shaped.
    pub shaper: Option<Shaper>,
    /// Whether users are held to rates, so that packets may have to wait for their users.
    users: bool,
    /// When the packet came that found the queue empty last.
    busy_from: Time,
    /// Time of the queue: that of its last call. It never runs backwards.
    pub last: Time,
}

impl Pace {
    /// Of a queue made at `start`.
    pub fn new(config: &Embedded, start: Time) -> Pace {
        let shaper = config.rate.filter(|_| config.shaped);
        let shaper = shaper.map(|rate| Shaper::new(rate, config.catch_up));
        Pace { shaper, users: config.user_rates, busy_from: start, last: start }
    }
}

/// A queue with any discipline and algorithm.
pub trait AnyQueue {
    /// Takes packets; how many before no more could be taken. The verdicts of as many are written.
    fn enqueue(
        &mut self,
        pace: &mut Pace,
        packets: &[weir_packet],
        verdicts: &mut [MaybeUninit<u8>],
        pending: &mut Pending,
    ) -> usize;
    /// Fills `out` with what leaves and what is discarded, in order; how many.
    fn dequeue(
        &mut self,
        pace: &mut Pace,
        out: &mut [MaybeUninit<weir_departure>],
        pending: &mut Pending,
    ) -> usize;
    /// The time at which the next packet may leave, as far as it is known; `None` while nothing waits.
    fn due(&self, pace: &Pace) -> Option<Time>;
    /// The time before which no packet could leave, whatever the link.
    fn head_arrived(&self) -> Option<Time>;
    /// Bytes and packets stored.
    fn stored(&self) -> (Bytes, u32);
    /// What happened so far.
    fn counters(&self) -> &Counters;
    /// What happened to users so far.
    fn user_counters(&self) -> Option<UserCounters>;
    /// The link's rate changed.
    fn set_rate(&mut self, rate: Rate);
    /// The rate of a user.
    fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>);
    /// Packets of a user.
    fn packets_of(&self, hosts: Hosts) -> u32;
    /// Something was measured, for one user or for all.
    fn sample(&mut self, now: Time, hosts: Option<Hosts>, sample: Sample);
    /// Inner variables by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64));
    /// The set point in force.
    fn setpoint(&mut self) -> Option<Duration>;
    /// Gives all algorithms a set point and ends steering; what is in force then.
    fn hold(&mut self, wanted: Duration) -> Result<Duration, SteerError>;
    /// Steers by another policy; an error changes nothing.
    fn steer(&mut self, policy: &Policy, now: Time) -> Result<(), SteerError>;
    /// Moves of the law so far.
    fn moves(&self) -> u64;
}

/// The two builds of a queue. Packets of one that nobody guides do not pay for being asked who does.
trait Builds: 'static {
    /// The algorithm.
    type Aqm: Aqm + Clone + Send;
    /// With nobody above the algorithms, each of which keeps its own set point.
    type Free: Managed<u64> + Send;
    /// With somebody.
    type Guided: Managed<u64, Guide = Above> + Send;
    /// The same queue, with somebody from now on.
    fn guided(free: Self::Free, above: Above) -> Self::Guided;
}

/// A discipline over an algorithm of the list.
struct Any<D, A>(PhantomData<(D, A)>);

impl<D: OverAny, A: Algorithm> Builds for Any<D, A> {
    type Aqm = A;
    type Free = D::Queue<A, (), u64>;
    type Guided = D::Queue<A, Above, u64>;

    fn guided(free: Self::Free, above: Above) -> Self::Guided {
        D::under(free, above)
    }
}

/// A discipline with an algorithm of its own.
struct Own<D>(PhantomData<D>);

impl<D: OfItsOwn> Builds for Own<D> {
    type Aqm = D::Aqm;
    type Free = D::Queue<(), u64>;
    type Guided = D::Queue<Above, u64>;

    fn guided(free: Self::Free, above: Above) -> Self::Guided {
        D::under(free, above)
    }
}

/// The build that is in use.
enum Build<B: Builds> {
    Free(B::Free),
    Guided(B::Guided),
    /// Only while one becomes the other.
    Between,
}

/// A queue, and an algorithm like its own to try set points on.
struct Built<B: Builds> {
    build: Build<B>,
    spare: B::Aqm,
    fifos: Fifos,
}

/// The same for either build.
macro_rules! either {
    ($build:expr, $queue:ident => $what:expr) => {
        match $build {
            Build::Free($queue) => $what,
            Build::Guided($queue) => $what,
            Build::Between => unreachable!("a queue is in no build only within a call"),
        }
    };
}

impl<B: Builds> Built<B> {
    /// Who is above the algorithms, if somebody is.
    fn above(&self) -> Option<&Above> {
        if let Build::Guided(queue) = &self.build { Some(queue.guide()) } else { None }
    }

    /// Puts somebody above the algorithms.
    fn put_above(&mut self, above: Above) {
        self.build = match std::mem::replace(&mut self.build, Build::Between) {
            Build::Free(free) => Build::Guided(B::guided(free, above)),
            Build::Guided(mut queue) => {
                *queue.guide_mut() = above;
                Build::Guided(queue)
            }
            Build::Between => Build::Between,
        };
    }
}

/// Takes packets of one batch.
#[inline]
fn take_in(
    queue: &mut impl Managed<u64>,
    now: Time,
    packets: &[weir_packet],
    verdicts: &mut [MaybeUninit<u8>],
    pending: &mut Pending,
) -> usize {
    for (n, (packet, said)) in packets.iter().zip(verdicts).enumerate() {
        if pending.len() + SHED_BATCH_MAX as usize > PENDING_MAX / 2 {
            return n;
        }
        let arrival = Arrival {
            len: Bytes::new(u64::from(packet.length)),
            flow: packet.flow,
            hosts: Hosts { sender: packet.sender, receiver: packet.receiver },
            ecn: Ecn::from_bits(packet.ecn),
            nqb: Dscp::of(packet.ecn) == Dscp::NQB,
        };
        // The number that the queue gives it.
        let number = queue.counters().arrived;
        let mut own = WEIR_FORWARD;
        let mut out = |p: &Packet, cookie, cause| {
            if p.seq == number {
                own = WEIR_DROP | code(cause);
            } else {
                pending.0.push_back(discard(now, p, cookie, cause));
            }
        };
        queue.enqueue(now, arrival, packet.cookie, &mut out);
        said.write(own);
    }
    packets.len()
}

/// When the next packet may leave the link. `waits` is [`Built::waits`].
#[inline]
fn leaves(queue: &impl Managed<u64>, pace: &Pace, waits: bool) -> Option<Time> {
    let head = queue.head_arrived()?;
    let Some(shaper) = &pace.shaper else {
        return Some(if waits { head } else { pace.last });
    };
    // Something waits since the queue was empty last, in whatever order packets go; unless users or flows
    // must wait.
    Some(shaper.departure(if waits { head } else { pace.busy_from }))
}

/// Takes packets.
fn enqueue<Q: Managed<u64>>(
    queue: &mut Q,
    pace: &mut Pace,
    packets: &[weir_packet],
    verdicts: &mut [MaybeUninit<u8>],
    pending: &mut Pending,
) -> usize {
    if queue.packets() == 0 {
        pace.busy_from = pace.last;
    }
    if !Q::EXPECTS {
        return take_in(queue, pace.last, packets, verdicts, pending);
    }
    let mut done = 0;
    for (window, said) in packets.chunks(AHEAD_MAX).zip(verdicts.chunks_mut(AHEAD_MAX)) {
        let mut hosts = [Hosts::UNKNOWN; AHEAD_MAX];
        for (hosts, packet) in hosts.iter_mut().zip(window) {
            *hosts = Hosts { sender: packet.sender, receiver: packet.receiver };
        }
        queue.expect(&hosts[..window.len()]);
        let taken = take_in(queue, pace.last, window, said, pending);
        done += taken;
        if taken < window.len() {
            break;
        }
    }
    done
}

/// When packets may leave in one call. The loop over packets is compiled for each, so that those of an
/// unshaped queue are not asked for a link.
trait Link {
    /// The time at which the next packet leaves, if that is not after `now`.
    fn leaves(&self, queue: &impl Managed<u64>, now: Time) -> Option<Time>;
    /// A packet left.
    fn sent(&mut self, at: Time, len: Bytes);
}

/// Everything leaves when it is asked for.
struct Unshaped;

impl Link for Unshaped {
    #[inline]
    fn leaves(&self, _: &impl Managed<u64>, now: Time) -> Option<Time> {
        Some(now)
    }

    #[inline]
    fn sent(&mut self, _: Time, _: Bytes) {}
}

/// What leaves is paced. Packets wait for the link since `busy_from`, or since the next one came.
struct Shaped<'a> {
    shaper: &'a mut Shaper,
    busy_from: Option<Time>,
}

impl Link for Shaped<'_> {
    #[inline]
    fn leaves(&self, queue: &impl Managed<u64>, now: Time) -> Option<Time> {
        let head = queue.head_arrived()?;
        Some(self.shaper.departure(self.busy_from.unwrap_or(head))).filter(|leaves| *leaves <= now)
    }

    #[inline]
    fn sent(&mut self, at: Time, len: Bytes) {
        self.shaper.sent(at, len);
    }
}

/// Fills `out` from place `n` with what leaves and what is discarded; how many there are then. A departure
/// has the last place: what is discarded before it and finds none is pending, once in a call.
#[inline]
fn hand_out(
    queue: &mut impl Managed<u64>,
    link: &mut impl Link,
    now: Time,
    out: &mut [MaybeUninit<weir_departure>],
    mut n: usize,
    pending: &mut Pending,
) -> usize {
    let Some(last) = out.len().checked_sub(1) else { return n };
    while n <= last {
        let Some(at) = link.leaves(queue, now) else { break };
        let mut outbox = |p: &Packet, cookie, cause| {
            if n < last {
                out[n].write(discard(now, p, cookie, cause));
                n += 1;
            } else {
                pending.0.push_back(discard(now, p, cookie, cause));
            }
        };
        let Some(gone) = queue.dequeue(now, &mut outbox) else { break };
        let packet = &gone.packet;
        out[n].write(weir_departure {
            cookie: gone.item,
            at_ns: at.as_nanos(),
            sojourn_ns: gone.sojourn.as_nanos(),
            length: packet.len.get() as u32,
            verdict: if gone.marked { WEIR_MARK } else { WEIR_FORWARD },
            reserved: [0; 3],
        });
        n += 1;
        link.sent(at, packet.len);
    }
    n
}

/// Hands out what leaves and what is discarded. `waits` is [`Built::waits`].
fn dequeue(
    queue: &mut impl Managed<u64>,
    pace: &mut Pace,
    waits: bool,
    out: &mut [MaybeUninit<weir_departure>],
    pending: &mut Pending,
) -> usize {
    let now = pace.last;
    let share = pending.share(out.len());
    let mut n = pending.take(&mut out[..share]);
    match &mut pace.shaper {
        None => n = hand_out(queue, &mut Unshaped, now, out, n, pending),
        Some(shaper) => {
            shaper.looked(now);
            let busy_from = if waits { None } else { Some(pace.busy_from) };
            n = hand_out(queue, &mut Shaped { shaper, busy_from }, now, out, n, pending);
        }
    }
    n + pending.take(&mut out[n..])
}

impl<B: Builds> Built<B> {
    /// Whether packets may have to wait for a rate of their users, or of flows that the algorithm has shaped.
    fn waits(pace: &Pace) -> bool {
        pace.users || B::Aqm::SHAPES
    }
}

impl<B: Builds> AnyQueue for Built<B> {
    fn enqueue(
        &mut self,
        pace: &mut Pace,
        packets: &[weir_packet],
        verdicts: &mut [MaybeUninit<u8>],
        pending: &mut Pending,
    ) -> usize {
        either!(&mut self.build, queue => enqueue(queue, pace, packets, verdicts, pending))
    }

    fn dequeue(
        &mut self,
        pace: &mut Pace,
        out: &mut [MaybeUninit<weir_departure>],
        pending: &mut Pending,
    ) -> usize {
        let waits = Self::waits(pace);
        either!(&mut self.build, queue => dequeue(queue, pace, waits, out, pending))
    }

    fn due(&self, pace: &Pace) -> Option<Time> {
        either!(&self.build, queue => leaves(queue, pace, Self::waits(pace)))
    }

    fn head_arrived(&self) -> Option<Time> {
        either!(&self.build, queue => queue.head_arrived())
    }

    fn stored(&self) -> (Bytes, u32) {
        (either!(&self.build, queue => queue.backlog()), either!(&self.build, queue => queue.packets()))
    }

    fn counters(&self) -> &Counters {
        either!(&self.build, queue => queue.counters())
    }

    fn user_counters(&self) -> Option<UserCounters> {
        either!(&self.build, queue => queue.user_counters())
    }

    fn set_rate(&mut self, rate: Rate) {
        either!(&mut self.build, queue => queue.set_rate(rate));
    }

    fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>) {
        either!(&mut self.build, queue => queue.set_rate_of(hosts, rate));
    }

    fn packets_of(&self, hosts: Hosts) -> u32 {
        either!(&self.build, queue => queue.packets_of(hosts))
    }

    fn sample(&mut self, now: Time, hosts: Option<Hosts>, sample: Sample) {
        match hosts {
            Some(hosts) => either!(&mut self.build, queue => queue.sample_for(now, hosts, sample)),
            None => either!(&mut self.build, queue => queue.sample(now, sample)),
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        either!(&self.build, queue => queue.gauges(plot));
    }

    fn setpoint(&mut self) -> Option<Duration> {
        match self.above() {
            None => either!(&mut self.build, queue => queue.setpoint()),
            Some(Above::Hand(held)) => Some(*held),
            Some(Above::Law(helm)) => Some(helm.setpoint_now()),
        }
    }

    fn hold(&mut self, wanted: Duration) -> Result<Duration, SteerError> {
        let held = self.spare.setpoint().ok_or(SteerError::NoSetpoint)?.set(wanted);
        self.put_above(Above::Hand(held));
        Ok(held)
    }

    fn steer(&mut self, policy: &Policy, now: Time) -> Result<(), SteerError> {
        if self.fifos == Fifos::Many && policy.uses_virtual_queue() {
            return Err(SteerError::ManyFifos);
        }
        if let Build::Guided(queue) = &mut self.build
            && let Above::Law(helm) = queue.guide_mut()
        {
            return helm.set_policy(&mut self.spare, policy);
        }
        let helm = Helm::new(&mut self.spare, policy, now, Moves::default())?;
        self.put_above(Above::Law(helm));
        Ok(())
    }

    fn moves(&self) -> u64 {
        if let Some(Above::Law(helm)) = self.above() { helm.observer().0 } else { 0 }
    }
}

type Made = Result<Box<dyn AnyQueue + Send>, String>;

/// Builds a queue.
pub fn build(config: &Embedded, start: Time, seed: u64) -> Made {
    let maker = Maker { config, start, seed };
    weir_queue::visit(&config.queue.discipline, maker).unwrap_or_else(|| Err("no such discipline".into()))
}

#[derive(Clone, Copy)]
struct Maker<'a> {
    config: &'a Embedded,
    start: Time,
    seed: u64,
}

impl Maker<'_> {
    fn setup(&self) -> Setup {
        let limits = Limits { bytes: self.config.room(), packets: self.config.packets };
        let rate = self.config.rate.unwrap_or(Rate::ZERO);
        Setup { limits, rate, seed: self.seed, grows: false }
    }

    fn made<B: Builds>(&self, spare: B::Aqm, fifos: Fifos, build: impl FnOnce(B::Aqm) -> B::Free) -> Made {
        let mut aqm = spare.clone();
        let helm = match &self.config.policy {
            Some(policy) => {
                let helm = policy.helm(&mut aqm, fifos, self.start, Moves::default());
                Some(helm.map_err(|e| e.to_string())?)
            }
            None => None,
        };
        let mut free = build(aqm);
        if self.config.user_rates {
            free.make_paces(self.config.catch_up);
        }
        let mut built = Built::<B> { build: Build::Free(free), spare, fifos };
        if let Some(helm) = helm {
            built.put_above(Above::Law(helm));
        }
        Ok(Box::new(built))
    }
}

impl weir_queue::Visitor for Maker<'_> {
    type Output = Made;

    fn over_any<D: OverAny>(self) -> Made {
        let over = Over::<D>(self, PhantomData);
        let name = &self.config.algorithm().name;
        weir_aqm::visit(name, over).unwrap_or_else(|| Err("no such algorithm".into()))
    }

    fn of_its_own<D: OfItsOwn>(self) -> Made {
        let params = self.config.queue.params();
        let aqm = D::aqm(&params, self.start);
        self.made::<Own<D>>(aqm, Fifos::Many, |aqm| D::build(&params, aqm, (), &self.setup()))
    }
}

/// A discipline that waits for its algorithm.
struct Over<'a, D>(Maker<'a>, PhantomData<D>);

impl<D: OverAny> weir_aqm::Visitor for Over<'_, D> {
    type Output = Made;

    fn visit<A: Algorithm>(self) -> Made {
        let maker = self.0;
        let aqm = A::new(&maker.config.algorithm().params(), maker.start);
        let params = maker.config.queue.params();
        maker.made::<Any<D, A>>(aqm, D::FIFOS, |aqm| D::build(&params, aqm, (), &maker.setup()))
    }
}
