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
    AHEAD_MAX, Arrival, Counters, DROPS_PER_DEQUEUE_MAX, Fifos, Hosts, Limits, Managed, OfItsOwn, OverAny,
    SHED_BATCH_MAX, Setup, Shaper, UserCounters,
};
use weir_steer::{Helm, Policy, SteerError};
use weir_units::{Bytes, Duration, Rate, Time};

/// Most discarded packets that wait to be handed out. At half of it no packets are taken in, so that what is
/// near it came of packets that left.
const PENDING_MAX: usize = 1024;

/// Packets that were discarded while there was no room to say so.
#[derive(Debug)]
pub struct Pending(VecDeque<weir_departure>);

impl Pending {
    /// With memory for as many as there may be.
    pub fn new() -> Pending {
        Pending(VecDeque::with_capacity(PENDING_MAX))
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

/// A queue, and an algorithm like its own to try set points on.
struct Built<Q, A> {
    queue: Q,
    spare: A,
    fifos: Fifos,
}

impl<Q: Managed<u64, Guide = Above>, A: Aqm + Clone> Built<Q, A> {
    #[inline]
    fn take_in(
        &mut self,
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
            };
            // The number that the queue gives it.
            let number = self.queue.counters().arrived;
            let mut own = WEIR_FORWARD;
            let mut out = |p: &Packet, cookie, cause| {
                if p.seq == number {
                    own = WEIR_DROP | code(cause);
                } else {
                    pending.0.push_back(discard(now, p, cookie, cause));
                }
            };
            self.queue.enqueue(now, arrival, packet.cookie, &mut out);
            said.write(own);
        }
        packets.len()
    }

    /// When the next packet may leave the link.
    #[inline]
    fn leaves(&self, pace: &Pace) -> Option<Time> {
        let head = self.queue.head_arrived()?;
        let Some(shaper) = &pace.shaper else {
            return Some(if pace.users { head } else { pace.last });
        };
        // Something waits since the queue was empty last, in whatever order packets go; unless users must
        // wait.
        Some(shaper.departure(if pace.users { head } else { pace.busy_from }))
    }
}

impl<Q: Managed<u64, Guide = Above>, A: Aqm + Clone> AnyQueue for Built<Q, A> {
    fn enqueue(
        &mut self,
        pace: &mut Pace,
        packets: &[weir_packet],
        verdicts: &mut [MaybeUninit<u8>],
        pending: &mut Pending,
    ) -> usize {
        if self.queue.packets() == 0 {
            pace.busy_from = pace.last;
        }
        if !Q::EXPECTS {
            return self.take_in(pace.last, packets, verdicts, pending);
        }
        let mut done = 0;
        for (window, said) in packets.chunks(AHEAD_MAX).zip(verdicts.chunks_mut(AHEAD_MAX)) {
            let mut hosts = [Hosts::UNKNOWN; AHEAD_MAX];
            for (hosts, packet) in hosts.iter_mut().zip(window) {
                *hosts = Hosts { sender: packet.sender, receiver: packet.receiver };
            }
            self.queue.expect(&hosts[..window.len()]);
            let taken = self.take_in(pace.last, window, said, pending);
            done += taken;
            if taken < window.len() {
                break;
            }
        }
        done
    }

    fn dequeue(
        &mut self,
        pace: &mut Pace,
        out: &mut [MaybeUninit<weir_departure>],
        pending: &mut Pending,
    ) -> usize {
        let now = pace.last;
        let share = pending.share(out.len());
        let mut n = pending.take(&mut out[..share]);
        if let Some(shaper) = &mut pace.shaper {
            shaper.looked(now);
        }
        // A departure has the last place: what is discarded before it and finds none is pending, once in a
        // call.
        while n < out.len() {
            let mut at = now;
            if pace.shaper.is_some() {
                match self.leaves(pace) {
                    Some(leaves) if leaves <= now => at = leaves,
                    _ => break,
                }
            }
            let last = out.len() - 1;
            let mut outbox = |p: &Packet, cookie, cause| {
                if n < last {
                    out[n].write(discard(now, p, cookie, cause));
                    n += 1;
                } else {
                    pending.0.push_back(discard(now, p, cookie, cause));
                }
            };
            let Some(gone) = self.queue.dequeue(now, &mut outbox) else { break };
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
            if let Some(shaper) = &mut pace.shaper {
                shaper.sent(at, packet.len);
            }
        }
        n + pending.take(&mut out[n..])
    }

    fn due(&self, pace: &Pace) -> Option<Time> {
        self.leaves(pace)
    }

    fn head_arrived(&self) -> Option<Time> {
        self.queue.head_arrived()
    }

    fn stored(&self) -> (Bytes, u32) {
        (self.queue.backlog(), self.queue.packets())
    }

    fn counters(&self) -> &Counters {
        self.queue.counters()
    }

    fn user_counters(&self) -> Option<UserCounters> {
        self.queue.user_counters()
    }

    fn set_rate(&mut self, rate: Rate) {
        self.queue.set_rate(rate);
    }

    fn set_rate_of(&mut self, hosts: Hosts, rate: Option<Rate>) {
        self.queue.set_rate_of(hosts, rate);
    }

    fn packets_of(&self, hosts: Hosts) -> u32 {
        self.queue.packets_of(hosts)
    }

    fn sample(&mut self, now: Time, hosts: Option<Hosts>, sample: Sample) {
        match hosts {
            Some(hosts) => self.queue.sample_for(now, hosts, sample),
            None => self.queue.sample(now, sample),
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.queue.gauges(plot);
    }

    fn setpoint(&mut self) -> Option<Duration> {
        match self.queue.guide() {
            Above::Nobody => self.queue.setpoint(),
            Above::Hand(held) => Some(*held),
            Above::Law(helm) => Some(helm.setpoint_now()),
        }
    }

    fn hold(&mut self, wanted: Duration) -> Result<Duration, SteerError> {
        let held = self.spare.setpoint().ok_or(SteerError::NoSetpoint)?.set(wanted);
        *self.queue.guide_mut() = Above::Hand(held);
        Ok(held)
    }

    fn steer(&mut self, policy: &Policy, now: Time) -> Result<(), SteerError> {
        if self.fifos == Fifos::Many && policy.uses_virtual_queue() {
            return Err(SteerError::ManyFifos);
        }
        match self.queue.guide_mut() {
            Above::Law(helm) => helm.set_policy(&mut self.spare, policy),
            other => {
                *other = Above::Law(Helm::new(&mut self.spare, policy, now, Moves::default())?);
                Ok(())
            }
        }
    }

    fn moves(&self) -> u64 {
        if let Above::Law(helm) = self.queue.guide() { helm.observer().0 } else { 0 }
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

    fn above<A: Aqm>(&self, aqm: &mut A, fifos: Fifos) -> Result<Above, String> {
        let Some(policy) = &self.config.policy else { return Ok(Above::Nobody) };
        let helm = policy.helm(aqm, fifos, self.start, Moves::default());
        helm.map(Above::Law).map_err(|e| e.to_string())
    }

    fn made<Q, A>(&self, mut queue: Q, spare: A, fifos: Fifos) -> Made
    where
        Q: Managed<u64, Guide = Above> + Send + 'static,
        A: Aqm + Clone + Send + 'static,
    {
        if self.config.user_rates {
            queue.make_paces(self.config.catch_up);
        }
        Ok(Box::new(Built { queue, spare, fifos }))
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
        let spare = D::aqm(&params, self.start);
        let mut aqm = spare.clone();
        let above = self.above(&mut aqm, Fifos::Many)?;
        self.made(D::build(&params, aqm, above, &self.setup()), spare, Fifos::Many)
    }
}

/// A discipline that waits for its algorithm.
struct Over<'a, D>(Maker<'a>, PhantomData<D>);

impl<D: OverAny> weir_aqm::Visitor for Over<'_, D> {
    type Output = Made;

    fn visit<A: Algorithm>(self) -> Made {
        let maker = self.0;
        let spare = A::new(&maker.config.algorithm().params(), maker.start);
        let mut aqm = spare.clone();
        let above = maker.above(&mut aqm, D::FIFOS)?;
        let queue = D::build(&maker.config.queue.params(), aqm, above, &maker.setup());
        maker.made(queue, spare, D::FIFOS)
    }
}
