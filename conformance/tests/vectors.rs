//! The golden steps in `vectors/` are what the algorithms do.
//!
//! `WEIR_BLESS=1 cargo test -p weir-conformance --test vectors` writes them anew.

use std::path::PathBuf;
use weir_aqm::{Algorithm, Params, Value, Visitor};
use weir_conformance::vectors::{STEPS, record, record_with, replay};
use weir_units::Time;

/// A file, what differs from the defaults, and whether the algorithm is told round trips.
type Variant = (&'static str, &'static [(&'static str, Value)], bool);

/// Algorithms that do not show all they can in so short a time with their defaults, and more recordings of them.
const VARIANTS: [(&str, Variant); 3] = [
    ("rem", ("rem_steep", &[("phi", Value::Number(1.3))], false)),
    ("asqm", ("asqm_sensed", &[], true)),
    ("vaqm", ("vaqm_sensed", &[], true)),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(format!("{name}.jsonl"))
}

/// Compares a recording, by default parameters and in the file of the algorithm, or a variant.
#[derive(Clone)]
struct Compare(Option<Variant>);

impl Visitor for Compare {
    type Output = Result<(), String>;

    fn visit<A: Algorithm>(self) -> Result<(), String> {
        let (file, settings, sensed) = self.0.unwrap_or((A::NAME, &[], false));
        let path = path(file);
        let mut params = A::Params::default();
        for (name, value) in settings {
            params.set(name, *value).map_err(|e| format!("{file}: {name}: {e}"))?;
        }
        let now = record_with::<A>(&params, sensed);
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &now).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = now.lines().zip(golden.lines()).position(|(a, b)| a != b);
        if now != golden {
            let line = differs.map_or("their lengths".to_string(), |n| format!("line {}", n + 1));
            let remedy = "WEIR_BLESS=1 cargo test -p weir-conformance --test vectors";
            return Err(format!("{} differs from the code in {line}; if meant: {remedy}", path.display()));
        }
        let steps = replay::<A>(&golden)?;
        (steps == STEPS).then_some(()).ok_or(format!("{}: {steps} steps", A::NAME))
    }
}

#[test]
fn golden_steps() {
    let mut wrong = Vec::new();
    weir_aqm::visit_all(Compare(None), |result| wrong.extend(result.err()));
    for (algorithm, variant) in VARIANTS {
        let compared = weir_aqm::visit(algorithm, Compare(Some(variant)));
        wrong.extend(compared.expect("an algorithm of the list").err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Overflows are there for most: an algorithm may well keep its queue so short that there are none.
#[test]
fn every_kind_of_call_is_recorded() {
    #[derive(Clone)]
    struct Overflows;
    impl Visitor for Overflows {
        type Output = bool;
        fn visit<A: Algorithm>(self) -> bool {
            let recording = record::<A>();
            let is_there = |kind: &str| recording.contains(&format!("{{\"call\":\"{kind}\""));
            for kind in ["enqueue", "dequeue", "empty"] {
                assert!(is_there(kind), "{}: {kind}", A::NAME);
            }
            let wakes = A::new(&A::Params::default(), Time::ZERO).next_wakeup().is_some();
            assert_eq!(is_there("wakeup"), wakes, "{}: wakeup", A::NAME);
            is_there("overflow")
        }
    }
    let mut with = 0;
    weir_aqm::visit_all(Overflows, |overflows| with += usize::from(overflows));
    assert!(2 * with > weir_aqm::names().len(), "{with} recordings have overflows");
}

#[test]
fn a_replay_notices_another_answer() {
    #[derive(Clone)]
    struct Spoil;
    impl Visitor for Spoil {
        type Output = bool;
        fn visit<A: Algorithm>(self) -> bool {
            let recording = record::<A>();
            let spoilt = recording.replacen("\"forward\"", "\"drop: chance\"", 1);
            replay::<A>(&recording).is_ok() && replay::<A>(&spoilt).is_err()
        }
    }
    weir_aqm::visit_all(Spoil, |noticed| assert!(noticed));
}
