//! Builds a direction for the algorithm that the configuration names.

use crate::Error;
use crate::change::DirectionChange;
use crate::customers::DirectionPlans;
use crate::impairments::{Impairments, Line, Steps};
use crate::meter::{Meter, Standing};
use crate::pipe::{Direction, Longest, PacedFrame, Pipe, Shape, Works, changing};
use crate::service::Service;
use crate::steering::{Moves, Steering, exchange};
use crate::upstream::{Observer, ObserverSetup, RttSample};
use rtrb::Producer;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;
use weir_aqm::{Algorithm, Aqm};
use weir_config::{AqmConfig, Capacity, Channel, Trace, Upstream, Variation};
use weir_measure::Settled;
use weir_measure::{Status, Window};
use weir_queue::{Class, Fifos, Limits, Managed, OfItsOwn, OverAny, Shaper};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::flow_hash::{Hashing, Users};

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

/// What a direction is to be.
#[derive(Clone, Debug)]
pub struct DirectionSetup {
    /// Name in results, such as `a_to_b`.
    pub name: String,
    /// Link, delay line, algorithm and policy.
    pub channel: Channel,
    /// Whether packets of the class EF have a queue of their own, which goes first and which no algorithm
    /// manages.
    pub expedites: bool,
    /// The class that the link is of a shaper that it shares with others, in a lab; its ceiling is the link's
    /// rate.
    pub class: Option<Class>,
    /// What the link does to packets beside, in a lab.
    pub impairments: Option<Impairments>,
    /// Whether each round-trip time is told, where it observes.
    pub tells_rtts: bool,
    /// Parts of the run whose utilization and delay are told by themselves.
    pub settled: Vec<Settled>,
    /// What customers are entitled to, where there are some.
    pub plans: Option<DirectionPlans>,
}

impl DirectionSetup {
    /// A direction with one queue for all packets.
    pub fn new(name: &str, channel: Channel) -> DirectionSetup {
        DirectionSetup {
            name: name.into(),
            channel,
            expedites: false,
            class: None,
            impairments: None,
            tells_rtts: false,
            settled: Vec::new(),
            plans: None,
        }
    }

    /// The algorithm; a plain queue where none is configured.
    pub(crate) fn aqm(&self) -> AqmConfig {
        let plain = || AqmConfig::new(weir_aqm::UNMANAGED).expect("the list has a plain queue");
        self.channel.aqm.clone().unwrap_or_else(plain)
    }

    fn trace(&self) -> Option<&Trace> {
        self.impairments.as_ref().and_then(|i| i.variation.trace())
    }

    /// The link's rate, or that of its trace on average; `None` if it is not shaped.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.channel.link.rate.or_else(|| self.trace().map(Trace::average_rate))
    }

    pub(crate) fn capacity(&self) -> Capacity {
        let usual = Variation::default();
        let variation = self.impairments.as_ref().map_or(&usual, |impairments| &impairments.variation);
        Capacity::new(self.rate(), variation)
    }

    pub(crate) fn limits(&self) -> Limits {
        let bytes = self.rate().map_or(UNSHAPED_BUFFER, |rate| self.channel.link.buffer.bytes(rate));
        let packets = (bytes.get() / PACKET_MEAN_MIN).clamp(PACKETS_MIN, PACKETS_MAX);
        Limits { bytes, packets: packets as u32 }
    }

    /// A class that is there for its low delay needs little room.
    fn expedited_limits(&self) -> Limits {
        let bytes = self.rate().map_or(UNSHAPED_BUFFER, |rate| rate.bytes_in(EXPEDITED_ROOM));
        let bytes = bytes.max(EXPEDITED_MIN);
        Limits { bytes, packets: (bytes.get() / PACKET_MEAN_MIN).clamp(64, PACKETS_MAX) as u32 }
    }

    /// How long a packet may be in the delay line; `None` if there is none.
    fn line(&self) -> Option<Duration> {
        let more = self.impairments.as_ref().map_or(Duration::ZERO, Impairments::longest);
        let needed = self.channel.delay > Duration::ZERO
            || self.impairments.as_ref().is_some_and(Impairments::need_line);
        needed.then_some(self.channel.delay + more)
    }

    fn hashing(&self) -> Hashing {
        let users = self.channel.queue.user_key().map_or(Users::ADDRESSES, |key| Users {
            prefix4: key.prefix4,
            prefix6: key.prefix6,
            vlan: key.vlan,
        });
        // The standard library takes it from the system's source of randomness.
        Hashing { users, ..Hashing::of(RandomState::new().build_hasher().finish()) }
    }

    fn service(&self, origin: Time, now: Time) -> Service {
        let catch_up = self.channel.catch_up;
        match (self.trace(), &self.class) {
            (Some(trace), _) => Service::traced(trace, origin, now, catch_up),
            (None, Some(class)) => Service::Class { class: class.clone(), catch_up },
            (None, None) => Service::Rate(Shaper::new(self.rate().unwrap_or(Rate::ZERO), catch_up)),
        }
    }

    fn observer(&self, measured: Window, now: Time) -> Option<Box<Observer>> {
        let users = self.channel.queue.user_key();
        let setup = ObserverSetup {
            mode: self.channel.upstream,
            users: users.map(|key| key.most),
            by_sender: users.is_some_and(|key| key.by_sender),
            own: self.rate().unwrap_or(Rate::ZERO),
            measured,
        };
        (setup.mode != Upstream::Off).then(|| Box::new(Observer::new(setup, now)))
    }

    fn shape(&self, build: &mut Assemble<'_>) -> Shape {
        let line_max = match (self.line(), self.rate()) {
            (None, _) => 0,
            (Some(time), Some(rate)) => (rate.bytes_in(time).get() / WIRE_MIN + 64).min(LINE_MAX),
            (Some(_), None) => LINE_MAX,
        };
        let impairments = self.impairments.as_ref();
        Shape {
            rate: self.rate().unwrap_or(Rate::ZERO),
            service: self.service(build.origin, build.now),
            catch_up: self.channel.catch_up,
            steps: Steps::new(impairments, build.origin),
            counting: self.channel.link.counting(),
            line: Line::new(line_max as usize, self.channel.delay, impairments, build.seed),
            longest: build.longest,
            remarks: changing(self.channel.remarking.remarks()),
            hashing: self.hashing(),
            expedited: self.expedites.then(|| self.expedited_limits()),
            observer: self.observer(build.measured, build.now),
            rtts: build.rtts.take().filter(|_| self.tells_rtts),
            plans: self.plans.as_ref().map(DirectionPlans::make),
        }
    }

    /// Frames to have memory for: the queue, and a delay line of middling packets.
    pub(crate) fn frames(&self) -> u32 {
        let in_line = match (self.line(), self.rate()) {
            (None, _) => 0,
            (Some(time), Some(rate)) => rate.bytes_in(time).get() / PACKET_MEAN_MIN,
            (Some(_), None) => LINE_MAX / 4,
        };
        let expedited = if self.expedites { self.expedited_limits().packets } else { 0 };
        self.limits().packets + expedited + in_line.min(LINE_MAX) as u32
    }
}

/// Builds the direction, generic over its discipline and algorithm, so that the packet path has no dynamic
/// calls in it.
pub(crate) struct Assemble<'a> {
    pub setup: &'a DirectionSetup,
    pub longest: Longest,
    pub meter: Meter,
    pub moves: Option<Moves>,
    pub rtts: Option<Producer<RttSample>>,
    /// Zero of the run's clock, and the part that is measured.
    pub origin: Time,
    pub measured: Window,
    pub now: Time,
    pub seed: u64,
}

type Built = Result<Box<dyn Pipe>, Error>;

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
        let rate = self.setup.rate().unwrap_or(Rate::ZERO);
        weir_queue::Setup { limits: self.setup.limits(), rate, seed: self.seed, grows: false }
    }

    /// What steers the algorithm of that name, if anything does.
    fn helm<A: Aqm>(&mut self, name: &str, aqm: &mut A, fifos: Fifos) -> Result<Option<Steering>, Error> {
        let Some(policy) = &self.setup.channel.policy else { return Ok(None) };
        let observer = self.moves.take().expect("set by whoever assembles");
        let helm = policy.helm(aqm, fifos, self.now, observer);
        helm.map(Some).map_err(|e| Error::Refused(format!("{}: {name}: {e}", self.setup.name)))
    }

    fn pipe<Q: Managed<PacedFrame> + Send + 'static>(mut self, queue: Q, works: Works<Q>) -> Box<dyn Pipe> {
        let shape = self.setup.shape(&mut self);
        Box::new(Direction::new(queue, works, shape, self.meter, self.now))
    }
}

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
            None => self.pipe(D::build(&params, aqm, (), &setup), Works { standing: plain, change: keep }),
            Some(helm) => {
                let works = Works { standing: steered, change: keep_steered };
                self.pipe(D::build(&params, aqm, helm, &setup), works)
            }
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
            None => {
                let works = Works { standing: plain, change: renew::<A, _> };
                assemble.pipe(D::build(&params, aqm, (), &setup), works)
            }
            Some(helm) => {
                let works = Works { standing: steered, change: renew_steered::<A, _> };
                assemble.pipe(D::build(&params, aqm, helm, &setup), works)
            }
        })
    }
}

fn plain<Q: Managed<PacedFrame>>(queue: &mut Q, _now: Time) -> Standing {
    Standing { status: Status::plain(queue.setpoint()), moves_lost: 0 }
}

fn steered<Q: Managed<PacedFrame, Guide = Steering>>(queue: &mut Q, now: Time) -> Standing {
    let helm = queue.guide();
    Standing { status: Status::steered(helm, now), moves_lost: helm.observer().lost }
}

/// An algorithm that a discipline brings with it has no parameters that change while it runs.
fn keep<Q>(_queue: &mut Q, _now: Time, _change: &mut DirectionChange) {}

fn keep_steered<Q: Managed<PacedFrame, Guide = Steering>>(
    queue: &mut Q,
    now: Time,
    change: &mut DirectionChange,
) {
    change.steer(queue.guide_mut());
    if let (Some(made), Some(own)) = (&mut change.plans, queue.own_guides()) {
        exchange(now, own, &mut made.guides);
    }
}

/// Algorithms begin anew where their parameters change.
fn renew<A: Algorithm, Q: Managed<PacedFrame, Aqm = A>>(
    queue: &mut Q,
    now: Time,
    change: &mut DirectionChange,
) {
    if let Some(params) = change.params::<A::Params>() {
        queue.set_aqm(A::new(params, now));
    }
}

/// The same under the set point that the law has found, which they get before they are asked.
fn renew_steered<A: Algorithm, Q: Managed<PacedFrame, Aqm = A, Guide = Steering>>(
    queue: &mut Q,
    now: Time,
    change: &mut DirectionChange,
) {
    renew(queue, now, change);
    keep_steered(queue, now, change);
}
