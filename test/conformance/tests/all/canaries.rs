//! The suites can fail: each rejects an algorithm, a queue or a declaration that was broken on purpose.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_aqm::{
    Algorithm, Aqm, Cause, Moment, Needs, Packet, ParamError, ParamInfo, Params, Sample, Setpoint, Share,
    Value, Verdict,
};
use weir_conformance::script::{Script, single};
use weir_conformance::{Finding, Suite, behaviour, parameters, run, setpoint};
use weir_queue::{Arrival, Counters, Departure, Discipline, Outbox};
use weir_units::{Bytes, Duration, Rate, Time};

/// A suite noticed something; the text names it, and what to do.
fn says(finding: Finding, part: &str) {
    let text = finding.expect_err("the canary sings: the suite noticed nothing");
    assert!(text.contains(part), "{text:?} does not say {part:?}");
    assert!(text.contains("Remedy"), "{text:?} has no remedy");
}

/// Checks that a suite rejects a canary and accepts the same without the fault; the text names the fault.
fn rejects<A: Aqm + Clone>(suite: Suite<A>, broken: A, part: &str) {
    says(run(|| suite(&|| broken.clone())), part);
}

/// Has nothing to object to, and wants to be woken from time to time.
#[derive(Clone)]
struct Sound(Time);

impl Aqm for Sound {
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.0)
    }
    fn on_wakeup(&mut self, m: &Moment) {
        self.0 = m.now + Duration::from_millis(15);
    }
}

#[test]
fn a_sound_algorithm_passes() {
    for (name, suite) in weir_conformance::behaviour_suites::<Sound>() {
        assert_eq!(run(|| suite(&|| Sound(Time::ZERO))), Ok(()), "{name}");
    }
}

#[test]
fn marks_on_packets_that_are_not_capable() {
    #[derive(Clone)]
    struct MarksAll;
    impl Aqm for MarksAll {
        fn on_dequeue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            Verdict::Mark(Cause::SetPoint)
        }
    }
    rejects(behaviour::ecn, MarksAll, "not ECN-capable");
}

#[test]
fn a_source_of_its_own_randomness() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    #[derive(Clone)]
    struct Moody;
    impl Aqm for Moody {
        fn on_enqueue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            match CALLS.fetch_add(1, Ordering::Relaxed) % 1009 {
                0 => Verdict::Drop(Cause::Chance),
                _ => Verdict::Forward,
            }
        }
    }
    rejects(behaviour::determinism, Moody, "two runs of one seed differ: from packet ");
}

#[test]
fn a_copy_that_forgets() {
    struct Amnesiac(u64);
    impl Clone for Amnesiac {
        fn clone(&self) -> Self {
            Amnesiac(0)
        }
    }
    impl Aqm for Amnesiac {
        fn on_enqueue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            self.0 += 1;
            if self.0.is_multiple_of(997) { Verdict::Drop(Cause::Chance) } else { Verdict::Forward }
        }
    }
    rejects(
        behaviour::determinism,
        Amnesiac(0),
        "made before packet 10000, it answers otherwise from packet 10",
    );
}

#[test]
fn arithmetic_that_wraps_after_an_hour() {
    #[derive(Clone)]
    struct ShortClock(Time);
    impl Aqm for ShortClock {
        fn on_enqueue(&mut self, m: &Moment, _p: &Packet) -> Verdict {
            let gap = u32::try_from(m.now.since(self.0).as_nanos()).expect("gaps are short");
            self.0 = m.now;
            if gap == 1 { Verdict::Drop(Cause::Chance) } else { Verdict::Forward }
        }
    }
    rejects(behaviour::time_jumps, ShortClock(Time::ZERO), "gaps are short");
}

#[test]
fn a_delay_that_is_remembered_for_ever() {
    #[derive(Clone)]
    struct Grudge(Duration);
    impl Aqm for Grudge {
        fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
            self.0 = self.0.max(m.now.since(p.arrived));
            Verdict::Forward
        }
        fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
            let above = self.0 > Duration::from_millis(20);
            if above && m.now.as_nanos().is_multiple_of(7) {
                Verdict::signal(p, true, Cause::SetPoint)
            } else {
                Verdict::Forward
            }
        }
    }
    rejects(behaviour::time_jumps, Grudge(Duration::ZERO), "found an empty queue");
}

/// Wants to be woken each millisecond of the past, one by one.
#[derive(Clone)]
struct Pedant(Time);

impl Aqm for Pedant {
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.0)
    }
    fn on_wakeup(&mut self, _m: &Moment) {
        self.0 += Duration::from_millis(1);
    }
}

#[test]
fn wakeups_that_never_catch_up() {
    rejects(behaviour::late_wakeups, Pedant(Time::ZERO), "it wants one at");
}

#[test]
fn round_trips_that_it_acts_on_and_does_not_ask_for() {
    #[derive(Clone)]
    struct Listens(bool);
    impl Aqm for Listens {
        fn on_sample(&mut self, _now: Time, _s: Sample) {
            self.0 = true;
        }
        fn on_enqueue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            if self.0 { Verdict::Drop(Cause::SetPoint) } else { Verdict::Forward }
        }
    }
    rejects(behaviour::needs, Listens(false), "signals where it is told them, 0 where not");
    #[derive(Clone)]
    struct Pretends;
    impl Aqm for Pretends {
        const NEEDS: Needs = Needs::Probes;
    }
    rejects(behaviour::needs, Pretends, "does not act");
}

#[test]
fn gauges_that_cannot_be_drawn() {
    #[derive(Clone)]
    struct Fog(f64, &'static str);
    impl Aqm for Fog {
        fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
            plot("depth", 1.0);
            plot(self.1, self.0);
        }
    }
    rejects(behaviour::finite_gauges, Fog(f64::NAN, "height"), "gauge height = NaN");
    rejects(behaviour::finite_gauges, Fog(1.0, "depth"), "gauge depth = 1 is the second of that name");
}

/// A queue that discards a packet now and then without telling, or sends one again.
struct Leaky<D> {
    queue: D,
    every: u64,
    calls: u64,
}

impl<D: Discipline<u32>> Discipline<u32> for Leaky<D> {
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: u32, out: &mut impl Outbox<u32>) {
        self.queue.enqueue(now, arrival, item, out);
    }
    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<u32>) -> Option<Departure<u32>> {
        self.calls += 1;
        let departure = self.queue.dequeue(now, out);
        if self.calls.is_multiple_of(self.every) { None } else { departure }
    }
    fn head_arrived(&self) -> Option<Time> {
        self.queue.head_arrived()
    }
    fn backlog(&self) -> Bytes {
        self.queue.backlog()
    }
    fn packets(&self) -> u32 {
        self.queue.packets()
    }
    fn counters(&self) -> &Counters {
        self.queue.counters()
    }
    fn set_rate(&mut self, rate: Rate) {
        self.queue.set_rate(rate);
    }
    fn sample(&mut self, now: Time, sample: Sample) {
        self.queue.sample(now, sample);
    }
}

#[test]
fn a_queue_that_loses_packets() {
    let script = Script::default();
    let leaky = |every| Leaky { queue: single(Sound(Time::ZERO), &script), every, calls: 0 };
    assert_eq!(run(|| behaviour::conserves(leaky(u64::MAX), &script)), Ok(()));
    says(run(|| behaviour::conserves(leaky(1000), &script)), "did not come out");
}

weir_aqm::params! {
    /// Parameters of the canaries below.
    pub struct CanaryParams {
        /// Delay above which everything is discarded.
        target: Duration = Duration::from_millis(5), Duration::from_millis(1) => Duration::from_secs(1);
        /// Divides something.
        divisor: u32 = 1, 0 => 9;
    }
}

/// An algorithm whose faults are chosen by `FAULT`.
#[derive(Clone)]
struct Faulty<const FAULT: u8> {
    target: Duration,
    used: Duration,
    divisor: u32,
}

const NONE: u8 = 0;
const UNCLAMPED: u8 = 1;
const UNUSED: u8 = 2;
const DIVIDES: u8 = 3;
const WRONG_START: u8 = 4;
const HIDDEN: u8 = 5;

impl<const FAULT: u8> Algorithm for Faulty<FAULT> {
    const NAME: &'static str = "faulty";
    const SUMMARY: &'static str = "Is broken on purpose.";
    const SOURCE: &'static str = "none";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = CanaryParams;

    fn new(params: &CanaryParams, _start: Time) -> Self {
        let target = if FAULT == WRONG_START { Duration::from_millis(9) } else { params.target };
        Faulty { target, used: target, divisor: params.divisor }
    }
}

impl<const FAULT: u8> Aqm for Faulty<FAULT> {
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if FAULT == DIVIDES {
            let _ = std::hint::black_box(1000 / self.divisor);
        }
        let above = m.now.since(p.arrived) > self.used;
        if above { Verdict::Drop(Cause::SetPoint) } else { Verdict::Forward }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        if FAULT == HIDDEN { None } else { Some(self) }
    }
}

impl<const FAULT: u8> Setpoint for Faulty<FAULT> {
    fn get(&self) -> Duration {
        self.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        let clamped = to.clamp(Duration::from_millis(1), Duration::from_secs(1));
        self.target = if FAULT == UNCLAMPED { to } else { clamped };
        if FAULT != UNUSED {
            self.used = self.target;
        }
        self.target
    }
}

#[test]
fn set_points_that_are_not_clamped_or_not_used() {
    assert_eq!(run(setpoint::reads_back_and_clamps::<Faulty<NONE>>), Ok(()));
    assert_eq!(run(setpoint::matters::<Faulty<NONE>>), Ok(()));
    says(run(setpoint::reads_back_and_clamps::<Faulty<UNCLAMPED>>), "set to 0ns it says 0ns");
    says(
        run(setpoint::reads_back_and_clamps::<Faulty<WRONG_START>>),
        "it starts at 9ms and not at 5ms, the default of `target`",
    );
    says(run(setpoint::reads_back_and_clamps::<Faulty<HIDDEN>>), "declares a set point and has none");
    let unused = "a lower set point has to signal more. Remedy: let what `Aqm::setpoint` hands out be what";
    says(run(setpoint::matters::<Faulty<UNUSED>>), unused);
    says(run(parameters::texts::<Faulty<HIDDEN>>), "it has a set point: false");
}

#[test]
fn a_parameter_at_the_end_of_its_range_that_breaks_the_algorithm() {
    assert_eq!(run(parameters::extremes::<Faulty<NONE>>), Ok(()));
    says(run(parameters::extremes::<Faulty<DIVIDES>>), "with divisor = 0 alone: panicked: attempt to divide");
}

/// Parameters that take what their declaration excludes.
#[derive(Clone, Debug)]
struct Lax<const FAULT: u8>(f64);

impl<const FAULT: u8> Default for Lax<FAULT> {
    fn default() -> Self {
        Lax(if FAULT == 3 { 0.7 } else { 0.5 })
    }
}

impl<const FAULT: u8> Params for Lax<FAULT> {
    const INFO: &'static [ParamInfo] = &[ParamInfo {
        name: "gain",
        doc: "How eager.",
        default: Value::Number(0.5),
        min: Value::Number(0.0),
        max: Value::Number(1.0),
    }];

    fn get(&self, name: &str) -> Option<Value> {
        (name == "gain").then_some(Value::Number(self.0))
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), ParamError> {
        let wrong = |problem| ParamError { problem };
        if name != "gain" {
            return Err(wrong(weir_aqm::Problem::Unknown));
        }
        let given = match value {
            Value::Number(v) => v,
            Value::Share(Share(v)) if FAULT == 1 => v,
            _ => return Err(wrong(weir_aqm::Problem::Kind { wanted: "a number" })),
        };
        // The plain comparison lets NaN through: that is the fault.
        #[allow(clippy::manual_range_contains)]
        let outside = if FAULT == 2 { given < 0.0 || given > 1.0 } else { !(0.0..=1.0).contains(&given) };
        if FAULT == 4 {
            self.0 = given;
        }
        if outside || (FAULT == 5 && given == 1.0) {
            let (min, max) = (Value::Number(0.0), Value::Number(1.0));
            return Err(wrong(weir_aqm::Problem::Range { min, max }));
        }
        self.0 = given;
        Ok(())
    }
}

#[test]
fn parameters_that_take_what_they_must_not() {
    assert_eq!(run(parameters::parameters::<Lax<0>>), Ok(()));
    says(run(parameters::parameters::<Lax<1>>), "gain = 50% was taken");
    says(run(parameters::parameters::<Lax<2>>), "gain = NaN was taken");
    says(run(parameters::parameters::<Lax<3>>), "gain has another default");
    says(
        run(parameters::parameters::<Lax<4>>),
        "gain changed though -2.2250738585072014e-308 was refused: from 0.5 to -2.2",
    );
    says(run(parameters::parameters::<Lax<5>>), "gain = 1 was refused");
}
