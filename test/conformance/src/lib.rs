//! Suites that every algorithm must pass, made from THE LIST.
//!
//! A suite is a function of any algorithm that returns what is wrong with it. [`check_all`] runs all suites
//! over all algorithms, plain and, where there is a set point, steered. Nothing here names an algorithm, so
//! that a new line in the list is enough to have it checked. The suites themselves are checked against
//! deliberately broken algorithms (`tests/all/canaries.rs`).
#![forbid(unsafe_code)]

pub mod behaviour;
pub mod parameters;
pub mod script;
pub mod setpoint;
pub mod vectors;

use script::Script;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_aqm::{Algorithm, Aqm, Params, Visitor};
use weir_queue::{OfItsOwn, OverAny};
use weir_steer::{Policy, Steered};
use weir_units::Time;

/// What a suite found: nothing, or what is wrong.
pub type Finding = Result<(), String>;

/// `Err` with a formatted text unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

/// One suite run on one algorithm.
#[derive(Debug)]
pub struct Check {
    /// The algorithm, with how it was run.
    pub subject: String,
    /// The suite.
    pub suite: &'static str,
    /// What it found.
    pub finding: Finding,
}

/// A suite for anything that is an AQM; it gets a fresh instance as often as it likes.
pub type Suite<A> = fn(&dyn Fn() -> A) -> Finding;

/// A suite for an entry of the list.
pub type EntrySuite = fn() -> Finding;

/// The suites about how an AQM behaves, by name.
pub fn behaviour_suites<A: Aqm + Clone>() -> [(&'static str, Suite<A>); 8] {
    [
        ("conservation", behaviour::conservation),
        ("determinism", behaviour::determinism),
        ("ecn", behaviour::ecn),
        ("time jumps", behaviour::time_jumps),
        ("late wakeups", behaviour::late_wakeups),
        ("bounded work", behaviour::bounded_work),
        ("needs", behaviour::needs),
        ("finite gauges", behaviour::finite_gauges),
    ]
}

/// The suites about an entry of the list, by name.
pub fn entry_suites<A: Algorithm>() -> [(&'static str, EntrySuite); 5] {
    [
        ("parameters", parameters::parameters::<A::Params>),
        ("extreme parameters", parameters::extremes::<A>),
        ("set point", setpoint::reads_back_and_clamps::<A>),
        ("set point matters", setpoint::matters::<A>),
        ("texts", parameters::texts::<A>),
    ]
}

/// Runs a suite; a panic is a finding too.
pub fn run(suite: impl FnOnce() -> Finding) -> Finding {
    catch_unwind(AssertUnwindSafe(suite)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!(
            "panicked: {text}. Remedy: hold for any time that passes, any rate, 0 too, and any parameter in its range: \
             saturate, or look before a division, an index or an `unwrap`"
        ))
    })
}

fn check_behaviour<A: Aqm + Clone>(subject: &str, make: &dyn Fn() -> A, checks: &mut Vec<Check>) {
    for (suite, test) in behaviour_suites::<A>() {
        checks.push(Check { subject: subject.to_string(), suite, finding: run(|| test(make)) });
    }
}

/// The policies under which every algorithm with a set point is checked.
pub fn policies() -> [(&'static str, Policy); 2] {
    let virtual_queue = Policy {
        utilization_low: weir_aqm::Share(0.94),
        utilization_target: weir_aqm::Share(0.95),
        ..Policy::default()
    };
    [("steered", Policy::default()), ("steered to 95 %", virtual_queue)]
}

/// A discipline of the list keeps account of its packets under this algorithm.
struct Keeping<A>(A);

impl<A: Algorithm> weir_queue::Visitor for Keeping<A> {
    type Output = Finding;

    fn over_any<D: OverAny>(self) -> Finding {
        let script = Script::default();
        let queue = D::build(&D::Params::default(), self.0, (), &script.setup());
        behaviour::conserves(queue, &script)
    }

    fn of_its_own<D: OfItsOwn>(self) -> Finding {
        let (params, script) = (D::Params::default(), Script::default());
        let queue = D::build(&params, D::aqm(&params, Time::ZERO), (), &script.setup());
        behaviour::conserves(queue, &script)
    }
}

/// Runs every suite on algorithm `A`.
pub fn check<A: Algorithm>() -> Vec<Check> {
    let mut checks = Vec::new();
    let make = || A::new(&A::Params::default(), Time::ZERO);
    check_behaviour(A::NAME, &make, &mut checks);
    for (suite, test) in entry_suites::<A>() {
        checks.push(Check { subject: A::NAME.to_string(), suite, finding: run(test) });
    }
    for name in weir_queue::names() {
        let keeps = || weir_queue::visit(name, Keeping(make())).unwrap_or(Ok(()));
        let subject = format!("{} in the discipline {name}", A::NAME);
        checks.push(Check { subject, suite: "conservation", finding: run(keeps) });
    }
    if A::SETPOINT.is_some() {
        for (how, policy) in policies() {
            let subject = format!("{} {how}", A::NAME);
            match Steered::new(make(), &policy, Time::ZERO, ()) {
                Ok(steered) => check_behaviour(&subject, &|| steered.clone(), &mut checks),
                Err(e) => {
                    let finding =
                        Err(format!("{e}. Remedy: widen the range of the parameter that `SETPOINT` names"));
                    checks.push(Check { subject, suite: "steering", finding });
                }
            }
        }
    }
    checks
}

/// Runs every suite on every algorithm of the list.
pub fn check_all() -> Vec<Check> {
    #[derive(Clone)]
    struct All;
    impl Visitor for All {
        type Output = Vec<Check>;
        fn visit<A: Algorithm>(self) -> Vec<Check> {
            check::<A>()
        }
    }
    let mut checks = Vec::new();
    weir_aqm::visit_all(All, |of_one| checks.extend(of_one));
    checks
}

/// A fresh instance of an algorithm with its parameters set by name; for parameters known to be valid.
pub fn instance<A: Algorithm>(settings: &[(&str, weir_aqm::Value)]) -> Result<A, String> {
    let mut params = A::Params::default();
    for (name, value) in settings {
        params.set(name, *value).map_err(|e| format!("{name} = {value}: {e}"))?;
    }
    Ok(A::new(&params, Time::ZERO))
}
