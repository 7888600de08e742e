use super::*;
use crate::asqm::cases::Case;
use crate::asqm::measured::{Run, Values};
use crate::asqm::observer::tests::delays;
use crate::runs::NestedCase;

/// A run in which all round trips exceed the link's by so much.
fn run(study: Study, managed: Algorithm, excess_ms: u64, bandwidth: f64, deviation: f64) -> Run {
    let case = Case {
        study,
        way: Direction::Upload,
        managed,
        rtt_ms: 100,
        limit_kbps: 16_000,
        access_kbps: 48_000,
        target_ms: TARGET_MS,
    };
    Run {
        case: NestedCase { case },
        seed: 0,
        values: Values {
            bandwidth_mbps: [bandwidth; 3],
            deviation_mbps: [deviation; 3],
            overhead: (managed == Algorithm::Asqm).then_some(0.00467),
            delays: delays(100 + excess_ms),
            seconds: vec![bandwidth],
        },
        trace_hash: None,
        warnings: None,
    }
}

fn held(runs: &[Run], id: &str) -> Vec<bool> {
    all(&Measured::new(runs)).iter().filter(|c| c.id == id).map(|c| c.held).collect()
}

#[test]
fn what_the_paper_saw_is_held() {
    let runs = [
        run(Study::OffPeak, Algorithm::CoDel, 20, 15.5, 0.1),
        run(Study::OffPeak, Algorithm::Pie, 20, 15.4, 0.1),
        run(Study::OffPeak, Algorithm::Asqm, 45, 15.6, 0.1),
        run(Study::Peak, Algorithm::CoDel, 1400, 6.5, 2.0),
        run(Study::Peak, Algorithm::Pie, 1100, 6.5, 2.0),
        run(Study::Peak, Algorithm::Asqm, 45, 6.5, 0.5),
    ];
    let claims = all(&Measured::new(&runs));
    let missed: Vec<_> = claims.iter().filter(|c| !c.held).collect();
    assert!(missed.is_empty(), "{missed:?}");
    let ids: Vec<&str> = claims.iter().map(|c| c.id.as_str()).collect();
    for id in ["B2", "B3", "B4", "B5", "B6", "B7", "B9", "B10", "B11", "B12"] {
        assert!(ids.contains(&id), "{id} of {ids:?}");
    }
}

#[test]
fn what_is_otherwise_is_missed() {
    let off = |managed, excess| [run(Study::OffPeak, managed, excess, 15.5, 0.1)];
    assert_eq!(held(&off(Algorithm::CoDel, 30), "B5"), [false]);
    assert_eq!(held(&off(Algorithm::Pie, 30), "B6"), [false]);
    assert_eq!(held(&off(Algorithm::Asqm, 70), "B7"), [false, true], "above the figure, below the target");
    assert_eq!(held(&[run(Study::OffPeak, Algorithm::Pie, 0, 14.9, 0.1)], "B4"), [false]);
    let peak = |managed, excess, deviation| run(Study::Peak, managed, excess, 6.0, deviation);
    assert_eq!(held(&[peak(Algorithm::CoDel, 800, 1.0)], "B10"), [false]);
    assert_eq!(held(&[peak(Algorithm::CoDel, 800, 1.0)], "B9"), [false]);
    let steady = [peak(Algorithm::CoDel, 800, 1.0), peak(Algorithm::Asqm, 100, 0.6)];
    assert_eq!(held(&steady, "B12"), [false]);
    let changed = [run(Study::OffPeak, Algorithm::Asqm, 0, 15.0, 0.1), peak(Algorithm::Asqm, 26, 0.6)];
    assert_eq!(held(&changed, "B11"), [false]);
}

#[test]
fn what_was_not_run_is_not_judged() {
    assert!(all(&Measured::new(&[])).is_empty());
    let alone = [run(Study::Peak, Algorithm::Asqm, 45, 6.5, 0.5)];
    assert!(held(&alone, "B11").is_empty() && held(&alone, "B12").is_empty());
}
