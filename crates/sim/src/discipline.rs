//! The queue of a link, built for the discipline and the algorithm that the scenario names.
//!
//! The packet path inside is compiled for each pair of the two lists; the link makes one indirect call for
//! each arrival and one for each departure.

use crate::error::Error;
use crate::packet::Item;
use std::marker::PhantomData;
use weir_aqm::{Algorithm, Aqm, Cause, Packet, Sample};
use weir_config::{AqmConfig, PolicyConfig, QueueConfig};
use weir_measure::Status;
use weir_queue::{
    Arrival, Counters, Departure, Fifos, Limits, Managed, OfItsOwn, OverAny, Setup, Single, UserCounters,
};
use weir_steer::{Helm, Move, Observer, SteeringLaw};
use weir_units::{Bytes, Rate, Time};

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
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: Item, discarded: &mut Vec<Discarded>);
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
    /// How the algorithm stands.
    fn status(&mut self, now: Time) -> Status;
    /// Inner variables of the algorithm, by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64));
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
type Steering = Helm<SteeringLaw, Moves>;

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
    fn helm<A: Aqm>(&self, name: &'static str, aqm: &mut A, fifos: Fifos) -> Result<Option<Steering>, Error> {
        let Some(policy) = self.policy else { return Ok(None) };
        let helm = policy.helm(aqm, fifos, Time::ZERO, Moves::default());
        helm.map(Some).map_err(|e| Error::Steering { algorithm: name, reason: e.to_string() })
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
        Ok(match self.helm(D::NAME, &mut aqm, Fifos::Many)? {
            None => Box::new(Plain(D::build(&params, aqm, (), &self.setup()))),
            Some(helm) => Box::new(Guided(D::build(&params, aqm, helm, &self.setup()))),
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
        Ok(match setup.helm(A::NAME, &mut aqm, D::FIFOS)? {
            None => Box::new(Plain(D::build(&params, aqm, (), &setup.setup()))),
            Some(helm) => Box::new(Guided(D::build(&params, aqm, helm, &setup.setup()))),
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

/// Collects the moves of the set point.
#[derive(Clone, Debug, Default)]
struct Moves(Vec<Move>);

impl Observer for Moves {
    fn moved(&mut self, m: &Move) {
        self.0.push(*m);
    }
}

/// A queue that is not steered.
struct Plain<Q>(Q);

/// A queue that is steered.
struct Guided<Q>(Q);

/// What both do alike.
macro_rules! forward_to_queue {
    () => {
        fn enqueue(&mut self, now: Time, arrival: Arrival, item: Item, discarded: &mut Vec<Discarded>) {
            let mut out = |packet: &Packet, item, cause| {
                discarded.push(Discarded { packet: *packet, item, cause });
            };
            self.0.enqueue(now, arrival, item, &mut out);
        }
        fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>> {
            let mut out = |packet: &Packet, item, cause| {
                discarded.push(Discarded { packet: *packet, item, cause });
            };
            self.0.dequeue(now, &mut out)
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
        fn set_rate(&mut self, rate: Rate) {
            self.0.set_rate(rate);
        }
        fn sample(&mut self, now: Time, sample: Sample) {
            self.0.sample(now, sample);
        }
        fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
            self.0.gauges(plot);
        }
    };
}

impl<Q: Managed<Item, Guide = ()> + Send> LinkQueue for Plain<Q> {
    forward_to_queue!();

    fn status(&mut self, _now: Time) -> Status {
        Status::plain(self.0.setpoint())
    }
    fn take_moves(&mut self) -> Vec<Move> {
        Vec::new()
    }
}

impl<Q: Managed<Item, Guide = Steering> + Send> LinkQueue for Guided<Q> {
    forward_to_queue!();

    fn status(&mut self, now: Time) -> Status {
        Status::steered(self.0.guide(), now)
    }
    fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.0.guide_mut().observer_mut().0)
    }
}
