//! Builds a direction for the algorithm that the configuration names.

use crate::meter::{Meter, Status};
use crate::pipe::{Direction, Held, Pipe, Shape};
use crate::{Accounting, Error};
use weir_aqm::{Algorithm, Aqm, Params, Value, Visitor};
use weir_queue::{Limits, Single};
use weir_units::{Bytes, Duration, Rate, Time};

/// Smallest packet that a byte limit is turned into a packet limit with; smaller ones hit the latter first.
const PACKET_MEAN_MIN: u64 = 256;
const PACKETS_MIN: u64 = 1024;
const PACKETS_MAX: u64 = 131_072;
/// Smallest Ethernet frame with everything around it.
const WIRE_MIN: u64 = 84;
/// Frames in the delay line of an unshaped direction, and the most in any.
const LINE_MAX: u64 = 131_072;

/// What a direction is to be.
#[derive(Clone, Debug)]
pub struct DirectionSetup {
    /// Name in results, such as `a_to_b`.
    pub name: String,
    /// Rate of the link; `None` for unshaped.
    pub rate: Option<Rate>,
    /// How bytes are counted.
    pub accounting: Accounting,
    /// Most bytes in the queue.
    pub buffer: Bytes,
    /// Propagation delay added after the queue.
    pub delay: Duration,
    /// Lost time that the shaper makes up for after a stall of the host.
    pub catch_up: Duration,
    /// Name of the algorithm in the list.
    pub aqm: String,
    /// Its parameters, where they differ from the defaults.
    pub settings: Vec<(&'static str, Value)>,
}

impl DirectionSetup {
    pub(crate) fn limits(&self) -> Limits {
        let packets = (self.buffer.get() / PACKET_MEAN_MIN).clamp(PACKETS_MIN, PACKETS_MAX);
        Limits { bytes: self.buffer, packets: packets as u32 }
    }

    pub(crate) fn shape(&self, frame_max: u32) -> Shape {
        let line = match self.rate {
            _ if self.delay == Duration::ZERO => 0,
            Some(rate) => (rate.bytes_in(self.delay).get() / WIRE_MIN + 64).min(LINE_MAX),
            None => LINE_MAX,
        };
        Shape {
            rate: self.rate.unwrap_or(Rate::ZERO),
            accounting: self.accounting,
            catch_up: self.catch_up,
            delay: self.delay,
            line_max: line as usize,
            frame_max,
        }
    }

    /// Frames to have memory for: the queue, and a delay line of middling packets.
    pub(crate) fn frames(&self) -> u32 {
        let in_line = match self.rate {
            Some(rate) => rate.bytes_in(self.delay).get() / PACKET_MEAN_MIN,
            None if self.delay == Duration::ZERO => 0,
            None => 32_768,
        };
        self.limits().packets + in_line.min(LINE_MAX) as u32
    }
}

/// Builds the direction, generic over its algorithm, so that the packet path has no dynamic calls in it.
pub(crate) struct Assemble<'a> {
    pub setup: &'a DirectionSetup,
    pub frame_max: u32,
    pub meter: Meter,
    pub now: Time,
    pub seed: u64,
}

impl Assemble<'_> {
    pub(crate) fn run(self) -> Result<Box<dyn Pipe>, Error> {
        let name = self.setup.aqm.clone();
        weir_aqm::visit(&name, self).unwrap_or_else(|| {
            let known = weir_aqm::names().join(", ");
            Err(Error::Refused(format!("there is no algorithm `{name}`. Remedy: choose one of: {known}")))
        })
    }

    fn pipe<A: Aqm + Send + 'static>(
        self,
        aqm: A,
        status: fn(&mut Single<A, Held>) -> Status,
    ) -> Box<dyn Pipe> {
        let shape = self.setup.shape(self.frame_max);
        let queue = Single::new(aqm, self.setup.limits(), shape.rate, self.seed);
        Box::new(Direction::new(queue, status, shape, self.meter, self.now))
    }
}

impl Visitor for Assemble<'_> {
    type Output = Result<Box<dyn Pipe>, Error>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut params = A::Params::default();
        for (key, value) in &self.setup.settings {
            let refused = |e| Error::Refused(format!("parameter `{key}` of {}: {e}", A::NAME));
            params.set(key, *value).map_err(refused)?;
        }
        let aqm = A::new(&params, self.now);
        Ok(self.pipe(aqm, |queue| Status {
            setpoint: queue.aqm_mut().setpoint().map(|s| s.get()),
            ..Status::default()
        }))
    }
}
