//! Scripts for algorithms and disciplines: arrivals, departures and time as bytes say.

use crate::Overseer;
use crate::bytes::Script;
use weir_aqm::{Algorithm, Ecn, Packet, Params, Sample, Value};
use weir_queue::single::OneFifo;
use weir_queue::{Arrival, Fifos, Hosts, Limits, Managed, OfItsOwn, OverAny, Setup, Visitor};
use weir_steer::{Helm, Policy};
use weir_units::{Bytes, Duration, Time};

/// The target of an algorithm: alone in one FIFO, or steered.
pub fn algorithm<A: Algorithm>(bytes: &[u8]) {
    over::<OneFifo, A>(Script::new(bytes));
}

/// The target of a discipline: over an algorithm that the first byte chooses, or its own.
pub fn discipline(name: &str, bytes: &[u8]) {
    let visited = weir_queue::visit(name, Build(Script::new(bytes)));
    assert!(visited.is_some(), "{name} is no discipline");
}

struct Build<'a>(Script<'a>);

impl Visitor for Build<'_> {
    type Output = ();

    fn over_any<D: OverAny>(mut self) {
        struct Over<'a, D>(Script<'a>, std::marker::PhantomData<D>);
        impl<D: OverAny> weir_aqm::Visitor for Over<'_, D> {
            type Output = ();
            fn visit<A: Algorithm>(self) {
                over::<D, A>(self.0);
            }
        }
        let names = weir_aqm::names();
        let name = names[usize::from(self.0.byte_or_zero()) % names.len()];
        let visited = weir_aqm::visit(name, Over::<D>(self.0, std::marker::PhantomData));
        assert!(visited.is_some(), "{name} is no algorithm");
    }

    fn of_its_own<D: OfItsOwn>(mut self) {
        let script = &mut self.0;
        let (params, setup) = (script.params::<D::Params>(), setup(script));
        let mut aqm = D::aqm(&params, Time::ZERO);
        let range = range::<D::Params>(Some(D::SETPOINT));
        match policy(script).and_then(|policy| Helm::of_many(&mut aqm, &policy, Time::ZERO, ()).ok()) {
            Some(helm) => run(D::build(&params, aqm, Overseer::new(helm, range), &setup), &setup, script),
            None => run(D::build(&params, aqm, Overseer::new((), range), &setup), &setup, script),
        }
    }
}

fn over<D: OverAny, A: Algorithm>(mut script: Script) {
    let script = &mut script;
    let (params, setup) = (script.params::<D::Params>(), setup(script));
    let mut aqm = A::new(&script.params(), Time::ZERO);
    let range = range::<A::Params>(A::SETPOINT);
    let helm = policy(script).and_then(|policy| match D::FIFOS {
        Fifos::One => Helm::new(&mut aqm, &policy, Time::ZERO, ()).ok(),
        Fifos::Many => Helm::of_many(&mut aqm, &policy, Time::ZERO, ()).ok(),
    });
    match helm {
        Some(helm) => run(D::build(&params, aqm, Overseer::new(helm, range), &setup), &setup, script),
        None => run(D::build(&params, aqm, Overseer::new((), range), &setup), &setup, script),
    }
}

/// A policy in every fourth script; the default one if the values do not fit together.
fn policy(script: &mut Script) -> Option<Policy> {
    let wanted = script.byte_or_zero().is_multiple_of(4);
    let policy: Policy = if wanted { script.params() } else { return None };
    Some(if policy.validate().is_ok() { policy } else { Policy::default() })
}

fn setup(script: &mut Script) -> Setup {
    let packets = 1 + u32::from(script.byte_or_zero());
    let limits = Limits { bytes: Bytes::new(1 + u64::from(script.number()) * 8), packets };
    Setup {
        limits,
        rate: script.rate(),
        seed: script.number().into(),
        grows: script.byte_or_zero().is_multiple_of(2),
    }
}

/// The declared range of a set point.
fn range<P: Params>(setpoint: Option<&str>) -> Option<(Duration, Duration)> {
    let info = P::INFO.iter().find(|info| Some(info.name) == setpoint)?;
    let (Value::Duration(min), Value::Duration(max)) = (info.min, info.max) else {
        panic!("the set point {} is no duration", info.name);
    };
    Some((min, max))
}

/// A queue, what went in and what came out.
struct Run<Q> {
    queue: Q,
    now: Time,
    sent: u32,
    out: Vec<u32>,
}

/// Runs a script on a queue. What is wrong with the queue is found here, what is wrong with its algorithm by
/// the overseer.
fn run<G>(queue: impl Managed<u32, Guide = Overseer<G>>, setup: &Setup, script: &mut Script) {
    let mut run = Run { queue, now: Time::ZERO, sent: 0, out: Vec::new() };
    while let Some(step) = script.byte() {
        run.step(step, script);
        run.check(setup);
    }
    run.queue.let_go();
    while run.queue.packets() > 0 {
        run.dequeue();
    }
    assert_eq!(run.queue.backlog(), Bytes::ZERO);
    run.out.sort_unstable();
    assert!(run.out.iter().copied().eq(0..run.sent), "a packet came out twice or never");
}

impl<G, Q: Managed<u32, Guide = Overseer<G>>> Run<Q> {
    fn step(&mut self, step: u8, script: &mut Script) {
        match step % 16 {
            0..=5 => self.enqueue(arrival(script)),
            6 => {
                let (arrival, times) = (arrival(script), script.byte_or_zero());
                let (pause, each) =
                    (Duration::from_nanos(script.magnitude(20)), 1 + script.byte_or_zero() % 4);
                for n in 0..times {
                    self.enqueue(arrival);
                    self.now += pause;
                    if n % each == 0 {
                        self.dequeue();
                    }
                }
            }
            7..=9 => self.dequeue(),
            10 => {
                let pause = Duration::from_nanos(script.magnitude(28));
                let times = script.byte_or_zero() % 64;
                for _ in 0..times {
                    self.dequeue();
                    self.now += pause;
                }
            }
            11..=13 => self.now += script.wait(),
            14 => self.queue.set_rate(script.rate()),
            _ => self.meddle(script),
        }
    }

    fn enqueue(&mut self, arrival: Arrival) {
        let (out, serial) = (&mut self.out, self.sent);
        self.sent += 1;
        self.queue.enqueue(self.now, arrival, serial, &mut |_: &Packet, item, _| out.push(item));
    }

    fn dequeue(&mut self) {
        let (out, before, due) = (&mut self.out, self.queue.packets(), self.queue.head_arrived());
        let departure = self.queue.dequeue(self.now, &mut |_: &Packet, item, _| out.push(item));
        if let Some(departure) = departure {
            assert!(!departure.marked || departure.packet.ecn != Ecn::NotEct, "{departure:?}");
            assert_eq!(departure.sojourn, self.now.since(departure.packet.arrived));
            self.out.push(departure.item);
        }
        let is_due = due.is_some_and(|due| due <= self.now);
        assert!(!is_due || self.queue.packets() < before, "a dequeue that does nothing");
    }

    fn meddle(&mut self, script: &mut Script) {
        let overseer = self.queue.guide_mut();
        match script.byte_or_zero() % 4 {
            0 => overseer.move_to = Some(Duration::MAX),
            1 => overseer.move_to = Some(script.wait()),
            2 => overseer.sample = Some(Sample::Rtt(script.wait())),
            _ => overseer.sample = Some(Sample::LinkRate(script.rate())),
        }
    }

    fn check(&self, setup: &Setup) {
        let (packets, counters) = (self.queue.packets(), self.queue.counters());
        assert!(counters.is_conserved(packets), "{counters:?} with {packets} packets queued");
        assert_eq!(self.sent as usize - self.out.len(), packets as usize);
        assert!(packets <= setup.limits.packets && self.queue.backlog() <= setup.limits.bytes);
        assert_eq!(self.queue.head_arrived().is_some(), packets > 0);
        self.queue.gauges(&mut |name, value| assert!(value.is_finite(), "the gauge {name} is {value}"));
    }
}

fn arrival(script: &mut Script) -> Arrival {
    let [kind, host] = [script.byte_or_zero(), script.byte_or_zero()];
    let len = Bytes::new(1 + u64::from(script.number() >> (kind >> 4)));
    let hosts = Hosts { sender: u32::from(host & 3), receiver: u32::from(host >> 2 & 3) };
    Arrival { len, flow: u32::from(host), hosts, ecn: Ecn::from_bits(kind & 3), nqb: kind & 4 != 0 }
}
