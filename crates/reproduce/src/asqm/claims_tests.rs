use super::*;
use crate::asqm::cases::Case;
use crate::asqm::measured::{Run, Seen, Values};
use crate::asqm::observer::tests::delays;
use crate::runs::NestedCase;

/// A run in which all round trips exceed the link's by so much.
fn run(study: Study, managed: Algorithm, excess_ms: u64, bandwidth: f64, deviation: f64) -> Run {
    let case = Case::of(study, Direction::Upload, managed);
    Run {
        case: NestedCase { case },
        seed: 0,
        values: Values {
            bandwidth_mbps: vec![bandwidth; 3],
            deviation_mbps: vec![deviation; 3],
            overhead: (managed == Algorithm::Asqm).then_some(0.00467),
            error_p95_ms: None,
            voice_p95_ms: (study == Study::Voice).then_some(100.0 + excess_ms as f64),
            seen: Seen { delays: delays(100 + excess_ms), seconds: vec![bandwidth] },
        },
        trace_hash: None,
        warnings: None,
    }
}

/// One at peak whose round trips vary.
fn varied(study: Study, managed: Algorithm, excess_ms: [u64; 2]) -> Run {
    let mut run = run(study, managed, excess_ms[1], 6.5, 2.0);
    run.values.seen.delays.add(&delays(100 + excess_ms[0]));
    run
}

#[test]
fn every_claim_has_the_papers_words_and_the_origin_of_its_bound() {
    let studies = [
        Study::OffPeak,
        Study::Peak,
        Study::Shortfall,
        Study::LongRtt,
        Study::Targets,
        Study::Rates,
        Study::HalfTarget,
        Study::Kernel,
        Study::Voice,
    ];
    let of = |study| ALGORITHMS.map(|managed| run(study, managed, 20, 15.5, 0.1));
    let mut runs: Vec<Run> = studies.into_iter().flat_map(of).collect();
    for rtt_ms in [50, 200, 300, 500, 1000] {
        let mut more: Vec<Run> = studies.into_iter().flat_map(of).collect();
        more.iter_mut().for_each(|run| run.case.case.rtt_ms = rtt_ms);
        runs.extend(more);
    }
    let mut claims = all(&Measured::new(&runs));
    claims.extend(oversized([99.0, 2480.0]));
    assert!(oversized([99.0, 2480.0]).iter().all(|c| c.held));
    assert!(oversized([50.0, 1500.0]).iter().all(|c| !c.held));
    crate::said::assert_told(&claims, crate::asqm::said::TABLE);
    for id in ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "B12", "B13", "B14", "B16"]
    {
        assert!(claims.iter().any(|c| c.id == id), "{id}");
    }
}

#[test]
fn signals_are_spaced_by_the_root_of_their_number() {
    let times = signal_times();
    assert_eq!(times.iter().map(|t| t.round() as i64).collect::<Vec<_>>(), [0, 100, 171, 229]);
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
        varied(Study::Peak, Algorithm::CoDel, [50, 1400]),
        varied(Study::Peak, Algorithm::Pie, [100, 1100]),
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
    let usual = [run(Study::OffPeak, Algorithm::CoDel, 20, 15.5, 0.6), peak(Algorithm::CoDel, 800, 1.0)];
    assert_eq!(held(&usual, "B12"), [false]);
    let changed = [run(Study::OffPeak, Algorithm::Asqm, 0, 15.0, 0.1), peak(Algorithm::Asqm, 26, 0.6)];
    assert_eq!(held(&changed, "B11"), [false]);
    let displaced = [peak(Algorithm::Pie, 200, 1.0), peak(Algorithm::Asqm, 100, 0.1)];
    assert_eq!(held(&displaced, "B11"), [false]);
}

#[test]
fn voice_is_judged_beside_what_does_not_sense() {
    let runs = |asqm| {
        [
            run(Study::Voice, Algorithm::CoDel, 1000, 6.5, 1.0),
            run(Study::Voice, Algorithm::Asqm, asqm, 6.5, 0.1),
        ]
    };
    assert_eq!(held(&runs(100), "B11"), [true]);
    assert_eq!(held(&runs(700), "B11"), [false]);
}

#[test]
fn what_was_not_run_is_not_judged() {
    assert!(all(&Measured::new(&[])).is_empty());
    let alone = [run(Study::Peak, Algorithm::Asqm, 45, 6.5, 0.5)];
    assert!(held(&alone, "B11").is_empty() && held(&alone, "B12").is_empty());
}
