//! The golden steps in `data/vectors/` are what the algorithms do.
//!
//! `WEIR_BLESS=1 cargo test -p weir-conformance --test all vectors` writes them anew.

use std::path::PathBuf;
use weir_aqm::{Algorithm, Params, Share, Value, Visitor};
use weir_conformance::vectors::{LOADED, Plan, SENSED, SHORT, SLOW, record, record_with, replay};
use weir_units::{Bytes, Duration, Rate, Time};

/// A file, what differs from the defaults, and what the queue goes through.
#[derive(Clone, Copy)]
struct Variant {
    file: &'static str,
    settings: &'static [(&'static str, Value)],
    plan: &'static Plan,
}

const fn variant(
    file: &'static str,
    settings: &'static [(&'static str, Value)],
    plan: &'static Plan,
) -> Variant {
    Variant { file, settings, plan }
}

const fn ms(v: u64) -> Value {
    Value::Duration(Duration::from_millis(v))
}

const fn share(v: f64) -> Value {
    Value::Share(Share(v))
}

/// More recordings of algorithms that do not show all they can in so short a time with their defaults. Gains
/// are larger and times shorter, so that a few hundred packets reach every state.
const VARIANTS: [(&str, Variant); 18] = [
    ("asqm", variant("asqm_sensed", &[], &SENSED)),
    ("vaqm", variant("vaqm_sensed", &[], &SENSED)),
    ("rem", variant("rem_steep", &[("phi", Value::Number(1.3))], &SHORT)),
    ("avq", variant("avq_loaded", &AVQ_LOADED, &LOADED)),
    ("blue", variant("blue_loaded", &BLUE_LOADED, &LOADED)),
    ("cobalt", variant("cobalt_loaded", &COBALT_LOADED, &LOADED)),
    ("codel", variant("codel_loaded", &CODEL_LOADED, &LOADED)),
    ("gkvq", variant("gkvq_loaded", &GKVQ_LOADED, &LOADED)),
    ("gsp", variant("gsp_loaded", &GSP_LOADED, &LOADED)),
    ("gsp", variant("gsp_size", &GSP_SIZE, &LOADED)),
    ("hull", variant("hull_loaded", &HULL_LOADED, &LOADED)),
    ("pi", variant("pi_loaded", &PI_LOADED, &LOADED)),
    ("pi2", variant("pi2_loaded", &PI2_LOADED, &LOADED)),
    ("pie", variant("pie_loaded", &PIE_LOADED, &LOADED)),
    ("pie", variant("pie_departures", &PIE_DEPARTURES, &LOADED)),
    ("red", variant("red_loaded", &RED_LOADED, &SLOW)),
    ("red", variant("red_1993", &RED_1993, &LOADED)),
    ("rem", variant("rem_loaded", &REM_LOADED, &LOADED)),
];

type Settings<const N: usize> = [(&'static str, Value); N];

/// The buffer is shorter than a packet of 1500 bytes at 1 Mbit/s, and the capacity reaches both its ends.
const AVQ_LOADED: Settings<3> = [("alpha", Value::Number(15.0)), ("buffer", ms(11)), ("initial", share(0.8))];
const BLUE_LOADED: Settings<4> =
    [("target", ms(60)), ("increment", share(0.05)), ("decrement", share(0.03)), ("freeze", ms(15))];
const COBALT_LOADED: Settings<3> =
    [("interval", ms(60)), ("increment", share(0.1)), ("decrement", share(0.04))];
const CODEL_LOADED: Settings<2> = [("target", ms(10)), ("interval", ms(30))];
/// The virtual buffer has room for a packet or two.
const GKVQ_LOADED: Settings<2> = [("theta", share(0.7)), ("buffer", ms(30))];
const GSP_LOADED: Settings<5> = [
    ("target", ms(15)),
    ("interval", ms(40)),
    ("tau", ms(60)),
    ("alpha", Value::Number(1.5)),
    ("max_cum", ms(150)),
];
/// By the backlog, with a timeout that stays as it is, also where a burst meets an empty queue; all signals
/// are drops.
const GSP_SIZE: Settings<6> = [
    ("target", ms(20)),
    ("interval", ms(12)),
    ("adaptive", Value::Flag(false)),
    ("delay_based", Value::Flag(false)),
    ("burst_rule", Value::Flag(false)),
    ("ecn", Value::Flag(false)),
];
const HULL_LOADED: Settings<2> = [("drain", share(0.8)), ("threshold", Value::Bytes(Bytes::new(2000)))];
/// On the faster link `flow_rate` decides about the design.
const PI_LOADED: Settings<4> = [
    ("target", ms(30)),
    ("flows", Value::Count(20)),
    ("rtt", ms(600)),
    ("flow_rate", Value::Rate(Rate::from_bps(100_000))),
];
const PI2_LOADED: Settings<4> = [
    ("alpha", Value::Number(0.4)),
    ("coupling", Value::Number(1.5)),
    ("target", ms(20)),
    ("t_update", ms(20)),
];
/// A probability that outlives a short queue, so that what protects one shows.
const PIE_LOADED: Settings<6> = [
    ("target", ms(20)),
    ("t_update", ms(20)),
    ("alpha", Value::Number(0.5)),
    ("beta", Value::Number(1.5)),
    ("max_burst", ms(180)),
    ("mark_ecnth", share(0.3)),
];
const PIE_DEPARTURES: Settings<9> = [
    ("alpha", Value::Number(1.0)),
    ("beta", Value::Number(4.0)),
    ("max_burst", ms(60)),
    ("departure_rate", Value::Flag(true)),
    ("dq_threshold", Value::Bytes(Bytes::new(5000))),
    ("activation", Value::Bytes(Bytes::new(8000))),
    ("mark_ecnth", share(0.4)),
    ("derandomize", Value::Flag(false)),
    ("cap", Value::Flag(false)),
];
/// The thresholds stand on the floor of one packet, 123 ms.
const RED_LOADED: Settings<4> =
    [("target", ms(200)), ("min_packets", Value::Count(1)), ("max_p", share(0.45)), ("memory", ms(400))];
/// All that is optional is the other way about.
const RED_1993: Settings<9> = [
    ("target", ms(30)),
    ("min_packets", Value::Count(0)),
    ("memory", ms(100)),
    ("gentle", Value::Flag(false)),
    ("adaptive", Value::Flag(false)),
    ("wait", Value::Flag(false)),
    ("count_bytes", Value::Flag(false)),
    ("byte_mode", Value::Flag(true)),
    ("mark_above", Value::Flag(true)),
];
const REM_LOADED: Settings<5> = [
    ("target", ms(30)),
    ("phi", Value::Number(1.1)),
    ("gamma", Value::Number(0.02)),
    ("period", ms(20)),
    ("count_bytes", Value::Flag(false)),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors").join(format!("{name}.jsonl"))
}

/// Compares a recording, by default parameters and in the file of the algorithm, or a variant.
#[derive(Clone)]
struct Compare(Option<Variant>);

impl Visitor for Compare {
    type Output = Result<(), String>;

    fn visit<A: Algorithm>(self) -> Result<(), String> {
        let Variant { file, settings, plan } = self.0.unwrap_or(variant(A::NAME, &[], &SHORT));
        let path = path(file);
        let mut params = A::Params::default();
        for (name, value) in settings {
            params.set(name, *value).map_err(|e| format!("{file}: {name}: {e}"))?;
        }
        let now = record_with::<A>(&params, plan);
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &now).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = now.lines().zip(golden.lines()).position(|(a, b)| a != b);
        if now != golden {
            let line = differs.map_or("their lengths".to_string(), |n| format!("line {}", n + 1));
            let remedy = "WEIR_BLESS=1 cargo test -p weir-conformance --test all vectors";
            return Err(format!("{} differs from the code in {line}; if meant: {remedy}", path.display()));
        }
        // A recording that seldom signals says little about the rules that decide about signals.
        let signals = golden.matches("\"mark: ").count() + golden.matches("\"drop: ").count();
        if settings.len() > 1 && signals < 70 {
            return Err(format!("{file}: {signals} signals only"));
        }
        let steps = replay::<A>(&golden)?;
        (steps + 1 == golden.lines().count()).then_some(()).ok_or(format!("{file}: {steps} steps"))
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
