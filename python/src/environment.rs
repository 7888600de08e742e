//! Environments for learning: simulations that go on step by step, side by side.

use crate::Scenario;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_aqm::{Algorithm, Aqm, Cause, Chance, Moment, Needs, Packet, Sample, Setpoint, Verdict};
use weir_config::NetworkLink;
use weir_queue::{Fifos, OfItsOwn, OverAny};
use weir_sim::{LinkQueue, Simulation, queue_of};
use weir_units::{Duration, Rate, Time};

/// What is observed of a step, in this order.
const FIELDS: [(&str, &str); 9] = [
    ("utilization", "delivered rate over the rate of the scenario"),
    ("load", "arriving rate over the rate of the scenario"),
    ("delay_mean_ms", "mean sojourn time of the packets that left, ms"),
    ("delay_max_ms", "longest of them, ms"),
    ("backlog_ms", "what waits at the end of the step, as time at the rate of the scenario, ms"),
    ("drops", "packets that the algorithm discarded"),
    ("overflows", "packets for which there was no room"),
    ("marks", "packets marked CE"),
    ("action", "the action in force, in its unit"),
];

/// What an algorithm is told from outside between two packets: a number that it looks at when it is asked.
type Knob = Arc<AtomicU64>;

/// On a knob that nobody has turned.
const UNTURNED: u64 = u64::MAX;

/// An algorithm whose set point a learner moves.
#[derive(Clone)]
struct Held<A> {
    aqm: A,
    knob: Knob,
    seen: u64,
}

impl<A: Aqm> Held<A> {
    #[inline]
    fn look(&mut self) -> &mut A {
        let wanted = self.knob.load(Ordering::Relaxed);
        if wanted != self.seen {
            self.seen = wanted;
            if let Some(setpoint) = self.aqm.setpoint() {
                setpoint.set(Duration::from_nanos(wanted));
            }
        }
        &mut self.aqm
    }
}

impl<A: Aqm> Aqm for Held<A> {
    const USES_RANDOM: bool = A::USES_RANDOM;
    const IGNORES_PASSING: bool = A::IGNORES_PASSING;
    const NEEDS: Needs = A::NEEDS;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.look().on_enqueue(m, p)
    }
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.look().on_dequeue(m, p)
    }
    fn on_empty(&mut self, now: Time) {
        self.look().on_empty(now);
    }
    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.look().on_overflow(m, p);
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.aqm.next_wakeup()
    }
    fn on_wakeup(&mut self, m: &Moment) {
        self.look().on_wakeup(m);
    }
    fn on_sample(&mut self, now: Time, s: Sample) {
        self.look().on_sample(now, s);
    }
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        self.look().setpoint()
    }
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.aqm.gauges(plot);
    }
}

/// Signals arriving packets with a probability that a learner sets: marks those that are ECN-capable and
/// discards the others. Before it is set there are no signals.
#[derive(Clone)]
struct Signals {
    knob: Knob,
    seen: u64,
    chance: Chance,
}

impl Aqm for Signals {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let wanted = self.knob.load(Ordering::Relaxed);
        if wanted != self.seen {
            self.seen = wanted;
            self.chance = Chance::new(f64::from_bits(wanted));
        }
        if self.chance.hits(m.random_bits::<Self>()) {
            Verdict::signal(p, true, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }
}

/// What an action sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sets {
    /// The set point of the link's algorithm, in ms.
    Setpoint,
    /// The rate of the link, in Mbit/s.
    Rate,
    /// The probability of a signal, 0 to 1.
    Probability,
}

/// The link's queue under an algorithm whose set point is moved by `knob`; nothing if it has none.
struct HeldQueue<'a> {
    link: &'a NetworkLink,
    knob: Knob,
    seed: u64,
}

impl weir_aqm::Visitor for HeldQueue<'_> {
    type Output = Option<Box<dyn LinkQueue>>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut aqm = A::new(&self.link.aqm.params(), Time::ZERO);
        aqm.setpoint()?;
        let held = Held { aqm, knob: self.knob, seen: UNTURNED };
        Some(queue_of(held, self.link.buffer, self.link.rate, self.seed))
    }
}

/// Whether a discipline has one FIFO under an algorithm.
struct IsOneFifo;

impl weir_queue::Visitor for IsOneFifo {
    type Output = bool;

    fn over_any<D: OverAny>(self) -> bool {
        D::FIFOS == Fifos::One
    }
    fn of_its_own<D: OfItsOwn>(self) -> bool {
        false
    }
}

/// One simulation, and what its learner turns.
struct Place {
    simulation: Simulation<()>,
    knob: Knob,
    /// The action in force, in its unit; NaN before the first one where the algorithm has a default.
    action: f64,
}

/// Simulations of one scenario that go on step by step.
#[pyclass(module = "weir._weir")]
pub struct Environments {
    scenario: weir_config::Scenario,
    sets: Sets,
    link: usize,
    rate_bps: f64,
    step: Duration,
    /// Behind a lock because Python may share the object between threads; calls that change it have it alone.
    places: Mutex<Vec<Option<Place>>>,
    threads: usize,
}

impl Environments {
    fn places(&mut self) -> &mut Vec<Option<Place>> {
        self.places.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// A simulation with this seed, at time zero.
    fn build(&self, seed: u64) -> PyResult<Place> {
        let failed = |e: weir_sim::Error| PyRuntimeError::new_err(e.to_string());
        let mut simulation = weir_sim::build(&self.scenario, seed, ()).map_err(failed)?;
        let knob = Knob::new(AtomicU64::new(UNTURNED));
        let network = self.scenario.network();
        let link = &network.links[self.link];
        let queue = match self.sets {
            Sets::Rate => None,
            Sets::Setpoint => {
                weir_aqm::visit(&link.aqm.name, HeldQueue { link, knob: knob.clone(), seed }).flatten()
            }
            Sets::Probability => {
                let signals = Signals { knob: knob.clone(), seen: UNTURNED, chance: Chance::NEVER };
                Some(queue_of(signals, link.buffer, link.rate, seed))
            }
        };
        if let Some(queue) = queue {
            simulation.links_mut()[self.link].queue = queue;
        }
        let action = match self.sets {
            Sets::Setpoint => f64::NAN,
            Sets::Rate => self.rate_bps / 1e6,
            Sets::Probability => 0.0,
        };
        Ok(Place { simulation, knob, action })
    }
}

impl Place {
    /// Sets what the learner chose, and goes on for `step`.
    fn advance(&mut self, sets: Sets, link: usize, action: f64, step: Duration) {
        match sets {
            Sets::Setpoint => self.knob.store((action.max(0.0) * 1e6) as u64, Ordering::Relaxed),
            Sets::Rate => self.simulation.set_rate(link, Rate::from_bps((action.max(0.0) * 1e6) as u64)),
            Sets::Probability => self.knob.store(action.to_bits(), Ordering::Relaxed),
        }
        self.action = action;
        self.simulation.run_until(self.simulation.now() + step);
    }

    /// What the last step showed, in the order of [`FIELDS`].
    fn observed(&self, link: usize, rate_bps: f64) -> [f32; FIELDS.len()] {
        let row = self.simulation.links()[link].meter.samples().last().copied().unwrap_or_default();
        let action = if self.action.is_nan() { row.setpoint_ms } else { self.action };
        [
            row.delivered_bps / rate_bps,
            row.arrived_bps / rate_bps,
            row.delay_mean_ms,
            row.delay_max_ms,
            row.backlog_bytes as f64 * 8e3 / rate_bps,
            row.drops as f64,
            row.overflows as f64,
            row.marks as f64,
            action,
        ]
        .map(|value| value as f32)
    }
}

#[pymethods]
impl Environments {
    /// `count` simulations of a scenario whose sampling period is the length of a step. `sets` says what an
    /// action sets: `setpoint`, `rate` or `probability`, on the link of this name, or on the first one.
    #[new]
    fn new(
        scenario: &Scenario,
        sets: &str,
        link: Option<&str>,
        count: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let sets = match sets {
            "setpoint" => Sets::Setpoint,
            "rate" => Sets::Rate,
            "probability" => Sets::Probability,
            other => {
                let known = "setpoint, rate, probability";
                return Err(PyValueError::new_err(format!(
                    "an action cannot set {other:?}: choose one of {known}"
                )));
            }
        };
        let scenario = scenario.inner.clone();
        let network = scenario.network();
        let number = match link {
            None => 0,
            Some(name) => network.links.iter().position(|l| l.name == name).ok_or_else(|| {
                let names: Vec<&str> = network.links.iter().map(|l| l.name.as_str()).collect();
                PyValueError::new_err(format!(
                    "there is no link {name:?}; the links are {}",
                    names.join(", ")
                ))
            })?,
        };
        let of = &network.links[number];
        let refuse = |why: String| Err(PyValueError::new_err(format!("link {:?}: {why}", of.name)));
        if of.rate == Rate::ZERO {
            return refuse("its rate is 0, and nothing can be told by it; give it one".into());
        }
        match sets {
            Sets::Rate if of.variation.trace().is_some() || !of.variation.steps.is_empty() => {
                return refuse(
                    "its rate follows `steps` or a trace; remove them, or let actions set a set point".into(),
                );
            }
            Sets::Rate => {}
            Sets::Setpoint | Sets::Probability => {
                if of.policy.is_some() {
                    return refuse(
                        "it is steered by a policy, and two would move it; remove `policy`".into(),
                    );
                }
                if weir_queue::visit(&of.queue.discipline, IsOneFifo) != Some(true) {
                    let (discipline, fifo) =
                        (&of.queue.discipline, "remove `queue`, or let actions set the rate");
                    return refuse(format!("its discipline {discipline:?} has more than one FIFO; {fifo}"));
                }
            }
        }
        if sets == Sets::Setpoint {
            let held = HeldQueue { link: of, knob: Knob::default(), seed: 0 };
            if weir_aqm::visit(&of.aqm.name, held).flatten().is_none() {
                return refuse(format!(
                    "{:?} has no set point; choose an algorithm that has one",
                    of.aqm.name
                ));
            }
        }
        let rate_bps = of.rate.as_bps_f64();
        let step = scenario.run.sample;
        let mut places = Vec::new();
        // Memory that is refused otherwise ends the interpreter.
        places.try_reserve_exact(count).map_err(|_| {
            PyMemoryError::new_err(format!("there is no memory for {count} environments: give fewer"))
        })?;
        places.resize_with(count, || None);
        let (places, threads) = (Mutex::new(places), threads.max(1));
        Ok(Environments { scenario, sets, link: number, rate_bps, step, places, threads })
    }

    /// Names and meanings of what is observed.
    #[staticmethod]
    fn fields() -> Vec<(&'static str, &'static str)> {
        FIELDS.to_vec()
    }

    /// Rate of the link in Mbit/s, range of its set point in ms where it has one, steps of warm-up (one at
    /// least), steps of an episode.
    fn limits(&self) -> (f64, Option<(f64, f64)>, u64, u64) {
        let network = self.scenario.network();
        let link = &network.links[self.link];
        let step = self.step.as_nanos();
        let warm = self.scenario.run.warmup.as_nanos().div_ceil(step).max(1);
        let all = self.scenario.run.duration.as_nanos() / step;
        let range = weir_aqm::visit(&link.aqm.name, Range).flatten();
        (self.rate_bps / 1e6, range, warm, all.saturating_sub(warm))
    }

    /// Begins an episode in one place with this seed, and lets the warm-up pass; what its last step showed,
    /// as 32-bit floats.
    fn reset<'py>(&mut self, py: Python<'py>, place: usize, seed: u64) -> PyResult<Bound<'py, PyBytes>> {
        let count = self.places().len();
        if place >= count {
            return Err(PyValueError::new_err(format!("there is no place {place} of {count}")));
        }
        let warm = self.limits().2;
        let (link, rate_bps, step) = (self.link, self.rate_bps, self.step);
        let (built, observed) = py.detach(|| {
            let mut built = self.build(seed)?;
            built.simulation.run_until(Time::from_nanos(step.as_nanos() * warm));
            let observed = built.observed(link, rate_bps);
            Ok::<_, PyErr>((built, observed))
        })?;
        self.places()[place] = Some(built);
        Ok(PyBytes::new(py, &bytes(&observed)))
    }

    /// One step in every place, with an action for each (64-bit floats), of which none changes anything if
    /// one is no number; what it showed, a row for each place.
    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (sets, link, rate_bps, step, threads) =
            (self.sets, self.link, self.rate_bps, self.step, self.threads);
        let places = self.places();
        let chunks = actions.chunks_exact(8).map(|c| f64::from_ne_bytes(c.try_into().unwrap_or_default()));
        let actions: Vec<f64> = chunks.collect();
        if actions.len() != places.len() || actions.iter().any(|a| !a.is_finite()) {
            let wanted = places.len();
            return Err(PyValueError::new_err(format!(
                "give {wanted} actions, each a number, not {actions:?}"
            )));
        }
        if places.iter().any(Option::is_none) {
            return Err(PyRuntimeError::new_err("call reset before the first step"));
        }
        let mut observed = vec![0; places.len() * ROW];
        let share = places.len().div_ceil(threads).max(1);
        py.detach(|| {
            let parts =
                places.chunks_mut(share).zip(actions.chunks(share)).zip(observed.chunks_mut(share * ROW));
            let work = |((places, actions), rows): ((&mut [Option<Place>], &[f64]), &mut [u8])| {
                for ((place, action), row) in places.iter_mut().zip(actions).zip(rows.chunks_mut(ROW)) {
                    if let Some(place) = place {
                        place.advance(sets, link, *action, step);
                        row.copy_from_slice(&bytes(&place.observed(link, rate_bps)));
                    }
                }
            };
            std::thread::scope(|scope| {
                let mut parts = parts.into_iter();
                // The first part is done here, so that one thread starts no other.
                let first = parts.next();
                for part in parts {
                    scope.spawn(move || work(part));
                }
                if let Some(first) = first {
                    work(first);
                }
            });
        });
        Ok(PyBytes::new(py, &observed))
    }

    /// Fingerprint of every decision so far in one place.
    fn trace_hash(&mut self, place: usize) -> Option<u64> {
        self.places().get(place)?.as_ref().map(|place| place.simulation.trace_hash())
    }
}

/// Bytes of a row of observations.
const ROW: usize = 4 * FIELDS.len();

fn bytes(row: &[f32; FIELDS.len()]) -> [u8; ROW] {
    let mut bytes = [0; ROW];
    for (to, from) in bytes.chunks_exact_mut(4).zip(row) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    bytes
}

/// The range of the parameter that is the set point, in ms.
struct Range;

impl weir_aqm::Visitor for Range {
    type Output = Option<(f64, f64)>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut aqm = A::new(&Default::default(), Time::ZERO);
        let setpoint = aqm.setpoint()?;
        let mut at = |to: Duration| setpoint.set(to).as_millis_f64();
        Some((at(Duration::ZERO), at(Duration::from_nanos(i64::MAX as u64))))
    }
}
