//! The queue of a link, built for the algorithm that the scenario names.
//!
//! The packet path inside is compiled for each algorithm of THE LIST; the link makes one indirect call for each
//! arrival and one for each departure.

use crate::error::Error;
use crate::packet::Item;
use weir_aqm::{Algorithm, Aqm, Cause, Packet, Visitor};
use weir_queue::{Arrival, Counters, Departure, Discipline, Limits, Single};
use weir_scenario::measure::Status;
use weir_scenario::{AqmConfig, PolicyConfig};
use weir_steer::{Move, Observer, Policy, Steered, SteeringLaw};
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
pub trait LinkQueue {
    /// Takes a packet, or adds it to `discarded`.
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: Item, discarded: &mut Vec<Discarded>);
    /// The next packet to send; discarded heads are added to `discarded`.
    fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>>;
    /// The packet that will be sent or discarded next.
    fn head(&self) -> Option<&Item>;
    /// Bytes stored.
    fn backlog(&self) -> Bytes;
    /// Packets stored.
    fn packets(&self) -> u32;
    /// What happened so far.
    fn counters(&self) -> &Counters;
    /// The link's rate changed.
    fn set_rate(&mut self, rate: Rate);
    /// How the algorithm stands.
    fn status(&mut self, now: Time) -> Status;
    /// Inner variables of the algorithm, by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64));
    /// Takes the moves of the set point since the last call, oldest first.
    fn take_moves(&mut self) -> Vec<Move>;
}

/// What a queue is made of.
#[derive(Clone, Debug)]
pub struct QueueSetup<'a> {
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

impl QueueSetup<'_> {
    /// Builds the queue.
    pub fn build(self) -> Result<Box<dyn LinkQueue>, Error> {
        let name = self.aqm.name.clone();
        weir_aqm::visit(&name, self).unwrap_or_else(|| {
            Err(Error::Algorithm { name: name.clone(), known: weir_aqm::names().join(", ") })
        })
    }

    fn single<A: Aqm>(&self, aqm: A) -> Single<A, Item> {
        let packets = u32::try_from(self.room.get() / PACKET_MIN + 1).unwrap_or(u32::MAX);
        Single::growing(aqm, Limits { bytes: self.room, packets }, self.rate, self.seed)
    }
}

impl Visitor for QueueSetup<'_> {
    type Output = Result<Box<dyn LinkQueue>, Error>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let aqm = A::new(&self.aqm.params(), Time::ZERO);
        let Some(policy) = self.policy else { return Ok(Box::new(Plain(self.single(aqm)))) };
        let steered = Steered::new(aqm, &policy.params::<Policy>(), Time::ZERO, Moves::default())
            .map_err(|e| Error::Steering { algorithm: A::NAME, reason: e.to_string() })?;
        Ok(Box::new(Guided(self.single(steered))))
    }
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
struct Plain<A>(Single<A, Item>);

/// A queue that is steered.
struct Guided<A>(Single<Steered<A, SteeringLaw, Moves>, Item>);

/// What both do alike.
macro_rules! forward_to_single {
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
        fn set_rate(&mut self, rate: Rate) {
            self.0.set_rate(rate);
        }
        fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
            self.0.aqm().gauges(plot);
        }
    };
}

impl<A: Algorithm> LinkQueue for Plain<A> {
    forward_to_single!();

    fn status(&mut self, _now: Time) -> Status {
        Status::plain(self.0.aqm_mut())
    }
    fn take_moves(&mut self) -> Vec<Move> {
        Vec::new()
    }
}

impl<A: Algorithm> LinkQueue for Guided<A> {
    forward_to_single!();

    fn status(&mut self, now: Time) -> Status {
        Status::steered(self.0.aqm(), now)
    }
    fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.0.aqm_mut().observer_mut().0)
    }
}
