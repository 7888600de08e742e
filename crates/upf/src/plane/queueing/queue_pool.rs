//! Where packets wait: a bounded number of queues, each with an algorithm, for those of many sessions that
//! have packets.

use crate::plane::classify::layout::QueuePlan;
use crate::plane::queueing::bound::Bound;
use crate::plane::setup::{HeldTo, PlaneSetup, Profile};
use weir_aqm::{AnyAqm, Aqm, Parameters, Params};
use weir_config::AqmConfig;
use weir_dataplane::Frame;
use weir_queue::{Counters, Fifos, Pooled, Shaper, Sojourns, Store};
use weir_steer::{Helm, Policy, PolicyError, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

/// Most places that are looked at for an idle queue when all are taken.
const SWEEP_MAX: usize = 16;
/// A set point is that of a path if it differs by at most a fraction of this.
const FITS_WITHIN: u64 = 8;
/// Room of a queue without a rate, which waits for the port alone.
const UNSHAPED_ROOM: Bytes = Bytes::new(4 << 20);

/// Most queues whose flows are told apart at once: few have packets that wait.
pub const FLOW_SETS_MAX: u32 = 1024;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub struct BufferedPacket {
    /// The IP packet; what was around it is cut off.
    pub frame: Frame,
    /// Hash of its flow, the same for both directions.
    pub flow: u32,
    /// Where it goes.
    pub act: u8,
    /// Whose turn that place was then.
    pub generation: u8,
    /// The QoS flow that it is marked with.
    pub qfi: Option<u8>,
    /// Its traffic class octet.
    pub tos: u8,
    /// The meters that count it, as bits.
    pub meters: u16,
    /// Bytes that were to leave before it when it came, with its own; zero if it went before others.
    pub behind: u32,
    /// Whether it was to be in time; what is known to be late says nothing of others.
    pub is_timed: bool,
}

type Guide = Option<Helm<SteeringLaw>>;

/// Memory for the packets of all queues.
pub type PacketStore = Store<BufferedPacket, AnyAqm>;

/// Whose a queue was, and what it had done.
pub type Former = ((u32, u8), Counters);

/// A queue in use.
pub struct QueueSlot {
    /// The queue.
    pub queue: Pooled<AnyAqm, Guide>,
    /// Whose it is: number of the session, and of the queue in it.
    pub owner: (u32, u8),
    /// When a packet came last.
    pub active: Time,
    /// How long packets waited.
    pub sojourns: Sojourns,
    /// Bytes that it sent, as far as it had to share: who sent less goes first.
    pub served: u64,
    /// When its algorithm was asked last: to it time only moves forward, also when a rate is taken away.
    pub asked: Time,
    /// How much of what it sends is within its guaranteed rate.
    pub guaranteed: Shaper,
    /// Bytes that may wait.
    pub room: Bytes,
    /// What keeps nearly all packets from being late.
    pub bound: Option<Bound>,
    /// The set point that its algorithm was given for the path of a bottleneck.
    fitted: Option<Duration>,
}

impl QueueSlot {
    /// So many packets passed since this was said last.
    pub fn note_passed(&mut self, packets: u64) {
        self.sojourns.note_none(packets);
        self.bound.iter_mut().for_each(|bound| bound.passed(packets));
    }

    /// The rules give the queue other rates.
    pub fn set_rates(&mut self, plan: &QueuePlan, buffer: (Duration, Bytes)) {
        self.queue.set_rate(plan.rate);
        self.guaranteed.set_rate(plan.gbr);
        self.room = room(plan.rate, buffer);
        self.bound.iter_mut().for_each(|bound| bound.set_rate(plan.rate));
    }
}

fn room(rate: Rate, (time, least): (Duration, Bytes)) -> Bytes {
    if rate == Rate::ZERO { UNSHAPED_ROOM } else { rate.bytes_in(time).max(least) }
}

/// What a new queue is made from.
struct Fresh {
    aqm: AnyAqm,
    guide: Guide,
    /// Whether its algorithm looks at all flows of a user together.
    is_told: bool,
    fifos: Fifos,
    name: String,
    bound: Option<Duration>,
    /// Its set point, if that is to be the path's where a bottleneck is followed.
    fits: Option<Duration>,
}

struct AqmParameters<'a>(&'a AqmConfig);

impl Parameters for AqmParameters<'_> {
    fn params<P: Params>(&self) -> P {
        self.0.params()
    }
}

impl Fresh {
    fn of(profile: &Profile, start: Time) -> Result<Fresh, String> {
        let name = &profile.aqm.name;
        let known = || weir_aqm::names().join(", ");
        let unknown = || format!("there is no algorithm `{name}`. Remedy: choose one of: {}", known());
        let mut aqm = AnyAqm::new(name, &AqmParameters(&profile.aqm), start).ok_or_else(unknown)?;
        let steer = |policy: &weir_config::PolicyConfig| {
            policy
                .helm(&mut aqm, weir_queue::Fifos::One, start, ())
                .map_err(|error| format!("{name}: {error}"))
        };
        let guide = profile.policy.as_ref().map(steer).transpose()?;
        let label = if guide.is_some() { format!("{name}, steered") } else { name.clone() };
        let label = if profile.follow { format!("vaqm ({label})") } else { label };
        let (is_told, bound, fits) = (profile.is_told(), profile.bound, profile.fits());
        let mut fresh = Fresh { aqm, guide, is_told, fifos: Fifos::One, name: label, bound, fits };
        fresh.fifos = fresh.fifos_under(profile.policy.as_ref().map(|policy| policy.policy()).as_ref());
        Ok(fresh)
    }

    /// Flows are told apart, unless the algorithm has to see them together or the policy has a virtual queue,
    /// which stands for one FIFO.
    fn fifos_under(&self, policy: Option<&Policy>) -> Fifos {
        let is_one = self.is_told || policy.is_some_and(Policy::uses_virtual_queue);
        if is_one { Fifos::One } else { Fifos::Many }
    }
}

fn adopt(guide: &mut Guide, held: &HeldTo) -> Result<(), PolicyError> {
    match (guide, &held.policy) {
        (Some(helm), Some(policy)) => helm.adopt(policy),
        _ => Ok(()),
    }
}

/// All queues, and the memory of their packets.
pub struct QueuePool {
    /// Memory for packets.
    pub store: PacketStore,
    places: Vec<Option<QueueSlot>>,
    free: Vec<u32>,
    hand: usize,
    fresh: Vec<Fresh>,
    idle: Duration,
    buffer: (Duration, Bytes),
    seed: u64,
    /// Queues that were needed while none was free.
    pub refused: u64,
}

impl QueuePool {
    /// As a setup says; profiles are numbered: the one of all others, those of QoS flows by rising QFI, that
    /// of local breakout. Tells a profile that cannot be.
    pub fn new(setup: &PlaneSetup, start: Time) -> Result<QueuePool, String> {
        let count = 1 + setup.profiles.len() + usize::from(setup.local_profile.is_some());
        let profiles = (0..count as u16).map(|number| setup.profile_number(number));
        let fresh = profiles.map(|profile| Fresh::of(profile, start)).collect::<Result<Vec<_>, _>>()?;
        let mut store = Store::with_shapers(setup.packets, setup.shapers(), setup.seed);
        if let Some(apart) = fresh.iter().find(|fresh| !fresh.is_told) {
            store = store.with_flows(setup.queues.min(FLOW_SETS_MAX) as usize, &apart.aqm);
        }
        Ok(QueuePool {
            store,
            places: (0..setup.queues).map(|_| None).collect(),
            free: (0..setup.queues).rev().collect(),
            hand: 0,
            fresh,
            idle: setup.idle,
            buffer: setup.buffer,
            seed: setup.seed,
            refused: 0,
        })
    }

    /// A queue in use.
    #[inline]
    pub fn place(&mut self, at: u32) -> &mut QueueSlot {
        self.places[at as usize].as_mut().expect("whoever names a place owns it")
    }

    /// The same with the memory of packets.
    #[inline]
    pub fn with_store(&mut self, at: u32) -> (&mut QueueSlot, &mut PacketStore) {
        let place = self.places[at as usize].as_mut().expect("whoever names a place owns it");
        (place, &mut self.store)
    }

    /// A queue in use, and the packet that is next of those that may go.
    #[inline]
    pub fn head(
        &mut self,
        at: u32,
        may_go: impl Fn(&BufferedPacket) -> bool,
    ) -> Option<(&QueueSlot, Time, &BufferedPacket)> {
        let place = self.places[at as usize].as_ref()?;
        place.queue.head(&mut self.store, may_go).map(|(packet, held)| (place, packet.arrived, held))
    }

    /// When the packet came that has waited longest of the first ones of a queue's FIFOs that are meant.
    pub fn oldest(&self, at: u32, is_meant: impl Fn(&BufferedPacket) -> bool) -> Option<Time> {
        let place = self.places[at as usize].as_ref()?;
        place.queue.oldest(&self.store, is_meant).map(|(packet, _)| packet.arrived)
    }

    /// Bytes that a queue in use has sent, if packets wait in it.
    pub fn served(&self, at: u32) -> Option<u64> {
        let place = self.places[at as usize].as_ref()?;
        (place.queue.packets_of_both()[0] > 0).then_some(place.served)
    }

    /// The first packet in the shaper beside a queue, and when it may leave that.
    #[inline]
    pub fn shaped_head(&mut self, at: u32) -> Option<(&QueueSlot, Time, &BufferedPacket)> {
        let place = self.places[at as usize].as_ref()?;
        place.queue.shaped_head(&mut self.store).map(|(due, held)| (place, due, held))
    }

    /// Whether packets wait in the shaper beside a queue.
    #[inline]
    pub fn has_shaped(&self, at: u32) -> bool {
        self.places[at as usize].as_ref().is_some_and(|place| place.queue.packets_of_both()[1] > 0)
    }

    /// Packets of a queue in use, without those in the shaper beside it.
    #[inline]
    pub fn packets(&self, at: u32) -> u32 {
        self.places[at as usize].as_ref().map_or(0, |place| place.queue.packets_of_both()[0])
    }

    /// Name of a profile's algorithm.
    pub fn name(&self, profile: u16) -> &str {
        &self.fresh[usize::from(profile)].name
    }

    /// A queue for an owner, and if it was taken from another, from whom, and what that one had done.
    #[cold]
    pub fn take(&mut self, owner: (u32, u8), plan: &QueuePlan, now: Time) -> Option<(u32, Option<Former>)> {
        let (at, former) = match self.free.pop() {
            Some(at) => (at, None),
            None => {
                let at = self.idle_one(now)?;
                let former = self.places[at as usize].as_ref();
                (at, former.map(|place| (place.owner, *place.queue.counters())))
            }
        };
        let Fresh { aqm, guide, fifos, bound, .. } = &self.fresh[usize::from(plan.profile)];
        let mut queue = Pooled::new(aqm.clone(), guide.clone(), plan.rate, self.seed ^ u64::from(at));
        queue.set_fifos(*fifos);
        self.places[at as usize] = Some(QueueSlot {
            queue,
            owner,
            active: now,
            sojourns: Sojourns::default(),
            served: 0,
            asked: now,
            // What was not used of a guarantee is not saved up.
            guaranteed: Shaper::new(plan.gbr, Duration::ZERO),
            room: room(plan.rate, self.buffer),
            bound: bound.map(|most| Bound::new(most, plan.rate)),
            fitted: None,
        });
        Some((at, former))
    }

    /// While a bottleneck is followed, the queue before it may stand as long as its path bears (`tolerated`),
    /// unless the set point was configured or is steered; the bound beside the algorithm grows with it.
    /// With `None` it is as it was made. Changes by less than an eighth are passed over.
    pub fn fit(&mut self, at: u32, plan: &QueuePlan, tolerated: Option<Duration>) {
        let Fresh { fits: Some(usual), bound: most, .. } = self.fresh[usize::from(plan.profile)] else {
            return;
        };
        let place = self.places[at as usize].as_mut().expect("whoever names a place owns it");
        let wanted = tolerated.filter(|tolerated| *tolerated > usual);
        let is_same = match (place.fitted, wanted) {
            (Some(one), Some(other)) => {
                one.as_nanos().abs_diff(other.as_nanos()) <= one.as_nanos() / FITS_WITHIN
            }
            (one, other) => one == other,
        };
        if is_same {
            return;
        }
        place.fitted = wanted;
        let target = wanted.unwrap_or(usual);
        place.queue.aim(&mut self.store, target);
        if let (Some(bound), Some(most)) = (&mut place.bound, most) {
            let longer = target.as_nanos() as f64 / usual.as_nanos().max(1) as f64;
            bound.set_most(most.mul_f64(longer), plan.rate);
        }
    }

    /// One that was empty for long; a few are looked at.
    fn idle_one(&mut self, now: Time) -> Option<u32> {
        for _ in 0..SWEEP_MAX.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let is_idle = self.places[self.hand]
                .as_ref()
                .is_some_and(|place| place.queue.packets() == 0 && now.since(place.active) >= self.idle);
            if is_idle {
                return Some(self.hand as u32);
            }
        }
        self.refused += 1;
        None
    }

    /// Gives a queue back, whose packets go to `discard`.
    pub fn give(&mut self, at: u32, mut discard: impl FnMut(BufferedPacket)) {
        if let Some(mut place) = self.places[at as usize].take() {
            place.queue.clear(&mut self.store, &mut |_: &weir_aqm::Packet, held, _| discard(held));
            self.free.push(at);
        }
    }

    /// Holds queues to other policies and set points, by number of the profile: those in use, which keep
    /// packets and what was learned, and those to come. `profile` is that of an owner. Where there was no
    /// policy there is none.
    pub fn hold_to(
        &mut self,
        held: &[HeldTo],
        profile: impl Fn((u32, u8)) -> Option<u16>,
    ) -> Result<(), PolicyError> {
        held.iter().filter_map(|held| held.policy.as_ref()).try_for_each(Policy::validate)?;
        for (fresh, held) in self.fresh.iter_mut().zip(held) {
            adopt(&mut fresh.guide, held)?;
            if held.policy.is_some() {
                fresh.fifos = fresh.fifos_under(held.policy.as_ref());
            }
            if let (Some(to), Some(setpoint)) = (held.setpoint, fresh.aqm.setpoint()) {
                setpoint.set(to);
            }
        }
        for place in self.places.iter_mut().flatten() {
            let Some(number) = profile(place.owner).map(usize::from) else { continue };
            let (Some(held), Some(fresh)) = (held.get(number), self.fresh.get(number)) else { continue };
            adopt(place.queue.guide_mut(), held)?;
            place.queue.set_fifos(fresh.fifos);
            held.setpoint.into_iter().for_each(|to| place.queue.aim(&mut self.store, to));
        }
        Ok(())
    }

    /// Queues in use.
    pub fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::classify::layout::LIMITS_MAX;
    use weir_config::PolicyConfig;
    use weir_queue::{Arrival, Hosts};
    use weir_units::Ecn;

    fn plan(profile: u16) -> QueuePlan {
        QueuePlan {
            is_up: false,
            is_local: false,
            qfi: None,
            profile,
            limits: [0; LIMITS_MAX],
            rate: Rate::from_mbps(10),
            gbr: Rate::ZERO,
            path: 0,
            learns: false,
            follows: false,
            is_asked: true,
            is_kept: false,
        }
    }

    #[test]
    fn queues_in_use_and_those_to_come_are_held_to_another_policy() {
        let mut setup = PlaneSetup::alone([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
        let steered = || Profile {
            policy: Some(PolicyConfig::default()),
            ..Profile::of(AqmConfig::new("gsp").unwrap())
        };
        setup.profile = steered();
        setup.profiles.insert(5, steered());
        let mut pool = QueuePool::new(&setup, Time::ZERO).unwrap();
        let (first, _) = pool.take((0, 0), &plan(0), Time::ZERO).unwrap();
        let (other, _) = pool.take((0, 1), &plan(1), Time::ZERO).unwrap();
        let most = |pool: &mut QueuePool, at: u32| {
            pool.place(at).queue.guide().as_ref().unwrap().law().policy().target_max
        };
        let usual = Policy::default();
        let set = usual.target_max;
        let short = Policy { target_max: Duration::from_millis(3), ..usual.clone() };
        let profile = |(_, queue): (u32, u8)| Some(u16::from(queue));
        let (place, store) = pool.with_store(first);
        place.queue.aim(store, set);
        let to = |policy: &Policy| HeldTo { policy: Some(policy.clone()), setpoint: None };
        pool.hold_to(&[to(&short), to(&usual)], profile).unwrap();
        assert_eq!([most(&mut pool, first), most(&mut pool, other)], [short.target_max, set]);
        // Its set point is within the policy before the algorithm is asked next.
        let arrival =
            Arrival { len: Bytes::new(1500), flow: 1, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
        let _ = pool.place(first).queue.pass(Time::from_nanos(1), arrival);
        assert!(pool.place(first).queue.setpoint().unwrap() <= short.target_max);
        let (later, _) = pool.take((1, 0), &plan(0), Time::ZERO).unwrap();
        assert_eq!(most(&mut pool, later), short.target_max);
        // One that contradicts itself changes nothing.
        let wrong = Policy { target_max: Duration::ZERO, ..usual.clone() };
        assert!(pool.hold_to(&[to(&usual), to(&wrong)], profile).is_err());
        assert_eq!(most(&mut pool, first), short.target_max);
    }

    #[test]
    fn fifos_of_flows_take_eight_megabytes_however_many_queues_there_are() {
        let mut setup = PlaneSetup::alone([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
        setup.queues = 100_000;
        let bytes = QueuePool::new(&setup, Time::ZERO).unwrap().store.bytes_of_flows();
        assert!((1..=8 << 20).contains(&bytes), "{bytes}");
    }

    /// A set point that no policy moves is another one from then on, in queues that are there and to come.
    #[test]
    fn queues_in_use_and_those_to_come_have_another_set_point() {
        let mut setup = PlaneSetup::alone([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
        setup.profile = Profile::of(AqmConfig::new("codel").unwrap());
        setup.profiles.insert(5, Profile::of(AqmConfig::new("codel").unwrap()));
        let mut pool = QueuePool::new(&setup, Time::ZERO).unwrap();
        let (first, _) = pool.take((0, 0), &plan(0), Time::ZERO).unwrap();
        let (other, _) = pool.take((0, 1), &plan(1), Time::ZERO).unwrap();
        let usual = pool.place(first).queue.setpoint().unwrap();
        let to = Duration::from_millis(9);
        let held = [HeldTo { setpoint: Some(to), policy: None }, HeldTo::default()];
        pool.hold_to(&held, |(_, queue): (u32, u8)| Some(u16::from(queue))).unwrap();
        let (later, _) = pool.take((1, 0), &plan(0), Time::ZERO).unwrap();
        let setpoints = [first, later, other].map(|at| pool.place(at).queue.setpoint().unwrap());
        assert_eq!((setpoints, to != usual), ([to, to, usual], true));
    }
}
