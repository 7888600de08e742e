//! Builds a direction for the algorithm that the configuration names.

use crate::Error;
use crate::meter::{Meter, Standing};
use crate::pipe::{Direction, Held, Longest, Pipe, Shape};
use rtrb::Producer;
use weir_aqm::{Algorithm, Aqm, Visitor};
use weir_queue::{Limits, Single};
use weir_scenario::measure::Status;
use weir_scenario::{AqmConfig, Channel};
use weir_steer::{Move, Observer, Policy, Steered, SteeringLaw};
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
/// What a direction without an algorithm gets.
const UNMANAGED: &str = "tail_drop";

/// What a direction is to be.
#[derive(Clone, Debug)]
pub struct DirectionSetup {
    /// Name in results, such as `a_to_b`.
    pub name: String,
    /// Link, delay line, algorithm and policy.
    pub channel: Channel,
}

impl DirectionSetup {
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
        }
    }

    /// Frames to have memory for: the queue, and a delay line of middling packets.
    pub(crate) fn frames(&self) -> u32 {
        let in_line = match self.channel.link.rate {
            Some(rate) => rate.bytes_in(self.channel.delay).get() / PACKET_MEAN_MIN,
            None if self.channel.delay == Duration::ZERO => 0,
            None => LINE_MAX / 4,
        };
        self.limits().packets + in_line.min(LINE_MAX) as u32
    }
}

/// Builds the direction, generic over its algorithm, so that the packet path has no dynamic calls in it.
pub(crate) struct Assemble<'a> {
    pub setup: &'a DirectionSetup,
    pub longest: Longest,
    pub meter: Meter,
    pub moves: Option<Moves>,
    pub now: Time,
    pub seed: u64,
}

impl Assemble<'_> {
    pub(crate) fn run(self) -> Result<Box<dyn Pipe>, Error> {
        let name = self.setup.aqm().name;
        weir_aqm::visit(&name, self).unwrap_or_else(|| {
            let known = weir_aqm::names().join(", ");
            Err(Error::Refused(format!("there is no algorithm `{name}`. Remedy: choose one of: {known}")))
        })
    }

    fn pipe<A: Aqm + Send + 'static>(self, aqm: A, standing: StandingOf<A>) -> Box<dyn Pipe> {
        let shape = self.setup.shape(self.longest);
        let queue = Single::new(aqm, self.setup.limits(), shape.rate, self.seed);
        Box::new(Direction::new(queue, standing, shape, self.meter, self.now))
    }
}

type StandingOf<A> = fn(&mut Single<A, Held>, Time) -> Standing;

impl Visitor for Assemble<'_> {
    type Output = Result<Box<dyn Pipe>, Error>;

    fn visit<A: Algorithm>(mut self) -> Self::Output {
        let aqm = A::new(&self.setup.aqm().params(), self.now);
        let Some(policy) = &self.setup.channel.policy else {
            return Ok(self.pipe(aqm, plain));
        };
        let (policy, start) = (policy.params::<Policy>(), self.now);
        let observer = self.moves.take().expect("set by whoever assembles");
        let aqm = Steered::new(aqm, &policy, start, observer)
            .map_err(|e| Error::Refused(format!("{}: {}: {e}", self.setup.name, A::NAME)))?;
        Ok(self.pipe(aqm, steered))
    }
}

fn plain<A: Aqm>(queue: &mut Single<A, Held>, _now: Time) -> Standing {
    Standing { status: Status::plain(queue.aqm_mut()), moves_lost: 0 }
}

fn steered<A: Aqm + Clone>(queue: &mut Single<Steered<A, SteeringLaw, Moves>, Held>, now: Time) -> Standing {
    let aqm = queue.aqm();
    Standing { status: Status::steered(aqm, now), moves_lost: aqm.observer().lost }
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
