//! Builds a direction for the algorithm that the configuration names.

use crate::Error;
use crate::meter::{Meter, Standing};
use crate::pipe::{Direction, Held, Longest, Pipe, Shape};
use rtrb::Producer;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;
use weir_aqm::{Algorithm, Aqm};
use weir_queue::{Fifos, Limits, Managed, OfItsOwn, OverAny};
use weir_scenario::measure::Status;
use weir_scenario::{AqmConfig, Channel};
use weir_steer::{Helm, Move, Observer, SteeringLaw};
use weir_units::{Bytes, Duration, Rate, Time};

/// Smallest packet that a byte limit is turned into a packet limit with; smaller ones hit the latter first.
const PACKET_MEAN_MIN: u64 = 256;
const PACKETS_MIN: u64 = 1024;
const PACKETS_MAX: u64 = 131_072;
/// Smallest Ethernet frame with everything around it.
const WIRE_MIN: u64 = 84;
/// Frames in the delay line of an unshaped direction, and the most in any.
const LINE_MAX: u64 = 131_072;
/// Queue of an unshaped direction, which waits for the port alone.
const UNSHAPED_BUFFER: Bytes = Bytes::new(4 << 20);
/// Room for packets of the class EF, as time at the link's rate, and at least.
const EXPEDITED_ROOM: Duration = Duration::from_millis(50);
const EXPEDITED_MIN: Bytes = Bytes::new(16 << 10);
/// What a direction without an algorithm gets.
const UNMANAGED: &str = "tail_drop";

/// What a direction is to be.
#[derive(Clone, Debug)]
pub struct DirectionSetup {
    /// Name in results, such as `a_to_b`.
    pub name: String,
    /// Link, delay line, algorithm and policy.
    pub channel: Channel,
    /// Whether packets of the class EF have a queue of their own, which goes first and which no algorithm manages.
    pub expedites: bool,
}

impl DirectionSetup {
    /// A direction with one queue for all packets.
    pub fn new(name: &str, channel: Channel) -> DirectionSetup {
        DirectionSetup { name: name.into(), channel, expedites: false }
    }

    /// The algorithm; a plain queue where none is configured.
    pub(crate) fn aqm(&self) -> AqmConfig {
        let plain = || AqmConfig::new(UNMANAGED).expect("the list has a plain queue");
        self.channel.aqm.clone().unwrap_or_else(plain)
    }

    pub(crate) fn limits(&self) -> Limits {
        let bytes = self.channel.link.buffer_bytes().unwrap_or(UNSHAPED_BUFFER);
        let packets = (bytes.get() / PACKET_MEAN_MIN).clamp(PACKETS_MIN, PACKETS_MAX);
        Limits { bytes, packets: packets as u32 }
    }

    /// A class that is there for its low delay needs little room.
    fn expedited_limits(&self) -> Limits {
        let bytes = self.channel.link.rate.map_or(UNSHAPED_BUFFER, |rate| rate.bytes_in(EXPEDITED_ROOM));
        let bytes = bytes.max(EXPEDITED_MIN);
        Limits { bytes, packets: (bytes.get() / PACKET_MEAN_MIN).clamp(64, PACKETS_MAX) as u32 }
    }

    pub(crate) fn shape(&self, longest: Longest) -> Shape {
        let Channel { link, delay, catch_up, .. } = &self.channel;
        let line = match link.rate {
            _ if *delay == Duration::ZERO => 0,
            Some(rate) => (rate.bytes_in(*delay).get() / WIRE_MIN + 64).min(LINE_MAX),
            None => LINE_MAX,
        };
        Shape {
            rate: link.rate.unwrap_or(Rate::ZERO),
            accounting: link.accounting,
            catch_up: *catch_up,
            delay: *delay,
            line_max: line as usize,
            longest,
            // The standard library takes it from the system's source of randomness.
            hash_seed: RandomState::new().build_hasher().finish(),
            expedited: self.expedites.then(|| self.expedited_limits()),
        }
    }

    /// Frames to have memory for: the queue, and a delay line of middling packets.
    pub(crate) fn frames(&self) -> u32 {
        let in_line = match self.channel.link.rate {
            Some(rate) => rate.bytes_in(self.channel.delay).get() / PACKET_MEAN_MIN,
            None if self.channel.delay == Duration::ZERO => 0,
            None => LINE_MAX / 4,
        };
        let expedited = if self.expedites { self.expedited_limits().packets } else { 0 };
        self.limits().packets + expedited + in_line.min(LINE_MAX) as u32
    }
}

/// Builds the direction, generic over its discipline and algorithm, so that the packet path has no dynamic calls
/// in it.
pub(crate) struct Assemble<'a> {
    pub setup: &'a DirectionSetup,
    pub longest: Longest,
    pub meter: Meter,
    pub moves: Option<Moves>,
    pub now: Time,
    pub seed: u64,
}

type Built = Result<Box<dyn Pipe>, Error>;
type Steering = Helm<SteeringLaw, Moves>;

impl Assemble<'_> {
    pub(crate) fn run(self) -> Built {
        let name = self.setup.channel.queue.discipline.clone();
        weir_queue::visit(&name, self).unwrap_or_else(|| {
            let known = weir_queue::names().join(", ");
            Err(Error::Refused(format!(
                "there is no queue discipline `{name}`. Remedy: choose one of: {known}"
            )))
        })
    }

    fn queue_setup(&self) -> weir_queue::Setup {
        let rate = self.setup.channel.link.rate.unwrap_or(Rate::ZERO);
        weir_queue::Setup { limits: self.setup.limits(), rate, seed: self.seed, grows: false }
    }

    /// What steers the algorithm of that name, if anything does.
    fn helm<A: Aqm>(&mut self, name: &str, aqm: &mut A, fifos: Fifos) -> Result<Option<Steering>, Error> {
        let Some(policy) = &self.setup.channel.policy else { return Ok(None) };
        let observer = self.moves.take().expect("set by whoever assembles");
        let helm = policy.helm(aqm, fifos, self.now, observer);
        helm.map(Some).map_err(|e| Error::Refused(format!("{}: {name}: {e}", self.setup.name)))
    }

    fn pipe<Q: Managed<Held> + Send + 'static>(self, queue: Q, standing: StandingOf<Q>) -> Box<dyn Pipe> {
        let shape = self.setup.shape(self.longest);
        Box::new(Direction::new(queue, standing, shape, self.meter, self.now))
    }
}

type StandingOf<Q> = fn(&mut Q, Time) -> Standing;

impl weir_queue::Visitor for Assemble<'_> {
    type Output = Built;

    fn over_any<D: OverAny>(self) -> Built {
        let name = self.setup.aqm().name;
        weir_aqm::visit(&name, Over::<D>(self, PhantomData)).unwrap_or_else(|| {
            let known = weir_aqm::names().join(", ");
            Err(Error::Refused(format!("there is no algorithm `{name}`. Remedy: choose one of: {known}")))
        })
    }

    fn of_its_own<D: OfItsOwn>(mut self) -> Built {
        let (params, setup) = (self.setup.channel.queue.params(), self.queue_setup());
        let mut aqm = D::aqm(&params, self.now);
        Ok(match self.helm(D::NAME, &mut aqm, Fifos::Many)? {
            None => self.pipe(D::build(&params, aqm, (), &setup), plain),
            Some(helm) => self.pipe(D::build(&params, aqm, helm, &setup), steered),
        })
    }
}

/// A discipline that waits for its algorithm.
struct Over<'a, D>(Assemble<'a>, PhantomData<D>);

impl<D: OverAny> weir_aqm::Visitor for Over<'_, D> {
    type Output = Built;

    fn visit<A: Algorithm>(self) -> Built {
        let mut assemble = self.0;
        let (params, setup) = (assemble.setup.channel.queue.params(), assemble.queue_setup());
        let mut aqm = A::new(&assemble.setup.aqm().params(), assemble.now);
        Ok(match assemble.helm(A::NAME, &mut aqm, D::FIFOS)? {
            None => assemble.pipe(D::build(&params, aqm, (), &setup), plain),
            Some(helm) => assemble.pipe(D::build(&params, aqm, helm, &setup), steered),
        })
    }
}

fn plain<Q: Managed<Held>>(queue: &mut Q, _now: Time) -> Standing {
    Standing { status: Status::plain(queue.setpoint()), moves_lost: 0 }
}

fn steered<Q: Managed<Held, Guide = Steering>>(queue: &mut Q, now: Time) -> Standing {
    let helm = queue.guide();
    Standing { status: Status::steered(helm, now), moves_lost: helm.observer().lost }
}

/// Passes the moves of the set point on to whoever reads them.
pub(crate) struct Moves {
    pub ring: Producer<Move>,
    pub lost: u64,
}

impl Observer for Moves {
    fn moved(&mut self, m: &Move) {
        self.lost += u64::from(self.ring.push(*m).is_err());
    }
}
