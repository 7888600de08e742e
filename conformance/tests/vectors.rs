//! The golden steps in `vectors/` are what the algorithms do.
//!
//! `WEIR_BLESS=1 cargo test -p weir-conformance --test vectors` writes them anew.

use std::path::PathBuf;
use weir_aqm::{Algorithm, Visitor};
use weir_conformance::vectors::{STEPS, record, replay};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(format!("{name}.jsonl"))
}

#[derive(Clone)]
struct Compare;

impl Visitor for Compare {
    type Output = Result<(), String>;

    fn visit<A: Algorithm>(self) -> Result<(), String> {
        let path = path(A::NAME);
        let now = record::<A>();
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
    weir_aqm::visit_all(Compare, |result| wrong.extend(result.err()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
