//! Verdicts follow from numbers: a queue as good as it can be is praised, and tail drop is not.

use super::*;
use crate::verbs::characterize::measure::Class;
use crate::verbs::characterize::plan::{Subject, plan};
use weir_measure::result::Spread;

fn numbers(p95: f64, utilization: f64, experiment: &'static Experiment) -> Numbers {
    let class = |name: &&'static str| Class {
        name,
        flows: 1,
        goodput_bps: 1e6,
        transfer_s: Some(1.0),
        queue_p99_ms: Some(p95),
    };
    Numbers {
        utilization,
        delay_ms: Spread { p95, p99: p95, ..Spread::default() },
        loss: 0.01,
        marked: 0.0,
        fairness: Some(0.99),
        classes: experiment.classes.iter().map(class).collect(),
        phases: Vec::new(),
        trace_hash: String::new(),
        samples: Vec::new(),
    }
}

fn results(p95: f64, utilization: f64) -> Results {
    let subject = Subject::new("codel", &[], None, true).unwrap();
    let case = |pair: crate::verbs::characterize::plan::Pair| Case {
        experiment: pair.experiment,
        aqm: numbers(p95, utilization, pair.experiment),
        tail_drop: numbers(100.0, 1.0, pair.experiment),
        scenario: pair.aqm,
    };
    Results(plan(&subject).unwrap().into_iter().map(case).collect())
}

fn verdict(results: &Results, aspect: &str) -> Judgement {
    let findings = judge(results);
    findings.iter().find(|f| f.aspect == aspect).unwrap_or_else(|| panic!("{aspect}")).verdict
}

#[test]
fn every_rule_finds_its_experiments() {
    assert_eq!(judge(&results(10.0, 1.0)).len(), RULES.len());
    assert!(RULES.iter().all(|rule| rule.good < rule.breaks));
    assert!(judge(&Results(Vec::new())).is_empty());
}

#[test]
fn bounds_separate_the_verdicts() {
    let queue = |p95| verdict(&results(p95, 1.0), "short queue with long-lived flows");
    assert_eq!([33.0, 34.0, 67.0, 68.0].map(queue), {
        use Judgement::*;
        [Good, Fair, Fair, Breaks]
    });
    let link = |used| verdict(&results(10.0, used), "full link with long-lived flows");
    assert_eq!([0.99, 0.95, 0.8].map(link), [Judgement::Good, Judgement::Fair, Judgement::Breaks]);
}

#[test]
fn one_bad_experiment_is_enough() {
    let mut results = results(10.0, 1.0);
    let heavy = results.0.iter_mut().find(|c| c.experiment.id == LEVELS[2]).unwrap();
    heavy.aqm.delay_ms.p95 = 90.0;
    let findings = judge(&results);
    let queue = &findings[0];
    assert_eq!((queue.verdict, queue.value), (Judgement::Breaks, Some(0.9)));
    assert_eq!(queue.measured, "p95 90.0 ms, tail drop 100.0 ms (heavy)");
    assert_eq!(findings[2].verdict, Judgement::Breaks, "{:?}", findings[2]);
}

#[test]
fn goodput_that_falls_with_the_round_trip_time_has_that_exponent() {
    let mut results = results(10.0, 1.0);
    for (id, rtt_ms) in RTTS {
        let case = results.0.iter_mut().find(|c| c.experiment.id == id).unwrap();
        case.aqm.classes[1].goodput_bps = 1e6 * (100.0 / rtt_ms) * (100.0 / rtt_ms);
    }
    let found = rtt_exponent(&results).unwrap();
    assert!((found.value.unwrap() - 2.0).abs() < 1e-9, "{}", found.measured);
    assert!(found.measured.starts_with("goodput as RTT^-2.00, under tail drop RTT^-0.00"));
}

#[test]
fn who_marks_nothing_has_no_ecn() {
    let mut results = results(10.0, 1.0);
    let of = |r: &Results| verdict(r, "ECN instead of losses");
    assert_eq!(of(&results), Judgement::Breaks);
    let ecn = results.0.iter_mut().find(|c| c.experiment.id == ECN).unwrap();
    (ecn.aqm.marked, ecn.aqm.loss) = (0.01, 0.0);
    assert_eq!(of(&results), Judgement::Good);
}

#[test]
fn a_missing_number_is_not_good() {
    let mut results = results(10.0, 1.0);
    let short = results.0.iter_mut().find(|c| c.experiment.id == SHORT).unwrap();
    short.aqm.classes[1].transfer_s = None;
    assert_eq!(verdict(&results, "short transfers"), Judgement::Breaks);
}

#[test]
fn the_summary_names_both_ends() {
    let [good, fair, breaks] = summary("codel", &judge(&results(10.0, 0.5)));
    assert!(good.starts_with("codel is good at: short queue with long-lived flows,"), "{good}");
    assert!(fair.starts_with("It is fair at: TCP beside unresponsive datagrams,"), "{fair}");
    assert!(breaks.starts_with("It breaks at: full link with long-lived flows,"), "{breaks}");
}

#[test]
fn the_documentation_has_every_rule_with_its_bounds() {
    let page = include_str!("../../../../../docs/characterize.md");
    for Rule { aspect, good, breaks, .. } in RULES {
        let line = page.lines().find(|line| line.starts_with(&format!("| {aspect} |")));
        let line = line.unwrap_or_else(|| panic!("{aspect} is not in docs/characterize.md"));
        assert!(line.ends_with(&format!("| {good} | {breaks} |")), "{line}");
    }
}
