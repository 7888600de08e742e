//! The targets can fail: the overseer panics over an algorithm that was broken on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_aqm::{Aqm, Cause, Ecn, Moment, Packet, Setpoint, Verdict};
use weir_fuzz::Overseer;
use weir_queue::{Arrival, Discipline, Hosts, Limits, Managed, Setup, Single};
use weir_units::{Bytes, Duration, Rate, Time};

const RANGE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// What a short life of it makes the overseer say; nothing if it lives.
fn objection<A: Aqm + Clone>(aqm: A) -> Option<String> {
    let limits = Limits { bytes: Bytes::new(100_000), packets: 4 };
    let setup = Setup { limits, rate: Rate::from_mbps(1), seed: 1, grows: true };
    let life = || {
        let mut queue = Single::guided(aqm, Overseer::new((), Some(RANGE)), &setup);
        for n in 0..40u64 {
            let now = Time::from_nanos(n * 7_000_000);
            let arrival = Arrival {
                len: Bytes::new(1000),
                flow: 0,
                hosts: Hosts::UNKNOWN,
                ecn: Ecn::NotEct,
                nqb: false,
            };
            queue.guide_mut().move_to = Some(Duration::from_millis(n * 100));
            queue.enqueue(now, arrival, n, &mut |_: &Packet, _, _| {});
            let _ = queue.dequeue(now, &mut |_: &Packet, _, _| {});
        }
    };
    let panic = catch_unwind(AssertUnwindSafe(life)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
}

fn objects<A: Aqm + Clone>(aqm: A, part: &str) {
    let said = objection(aqm).expect("the canary sings: the overseer noticed nothing");
    assert!(said.contains(part), "{said:?} does not say {part:?}");
}

/// An algorithm with one fault.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    MarksAll,
    WakesInThePast,
    Unclamped,
    NoGauge,
}

#[derive(Clone)]
struct Faulty {
    fault: Fault,
    target: Duration,
    due: Time,
}

impl Aqm for Faulty {
    fn on_dequeue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
        if self.fault == Fault::MarksAll { Verdict::Mark(Cause::Chance) } else { Verdict::Forward }
    }
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.due)
    }
    fn on_wakeup(&mut self, m: &Moment) {
        let late = if self.fault == Fault::WakesInThePast { self.due } else { m.now };
        self.due = late + Duration::from_millis(1);
    }
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("target", if self.fault == Fault::NoGauge { f64::NAN } else { self.target.as_secs_f64() });
    }
}

impl Setpoint for Faulty {
    fn get(&self) -> Duration {
        self.target
    }
    fn set(&mut self, to: Duration) -> Duration {
        let clamped = to.clamp(RANGE.0, RANGE.1);
        self.target = if self.fault == Fault::Unclamped { to } else { clamped };
        self.target
    }
}

#[test]
fn broken_algorithms_are_noticed() {
    let faulty = |fault| Faulty { fault, target: RANGE.0, due: Time::ZERO };
    assert_eq!(objection(faulty(Fault::None)), None);
    objects(faulty(Fault::MarksAll), "not ECN-capable");
    objects(faulty(Fault::WakesInThePast), "after a wakeup at");
    objects(faulty(Fault::Unclamped), "the set point after it was set to");
    objects(faulty(Fault::NoGauge), "the gauge target is NaN");
}

#[test]
fn a_copy_that_forgets_is_noticed() {
    struct Amnesiac(u64, Faulty);
    impl Clone for Amnesiac {
        fn clone(&self) -> Self {
            Amnesiac(0, self.1.clone())
        }
    }
    impl Aqm for Amnesiac {
        fn on_enqueue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            self.0 += 1;
            if self.0.is_multiple_of(9) { Verdict::Drop(Cause::Chance) } else { Verdict::Forward }
        }
        fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
            self.1.setpoint()
        }
    }
    objects(
        Amnesiac(0, Faulty { fault: Fault::None, target: RANGE.0, due: Time::ZERO }),
        "a copy answers differently",
    );
}
