//! Each claim holds for what the paper shows, and fails for what contradicts it.

use super::*;
use crate::avq::experiments::Case;
use crate::avq::measured::{Row, Values};
use crate::avq::observer::Sample;

/// Utilization, mean queue, packets lost.
type Load = (f64, f64, f64);

fn row(span: usize, (utilization, queue, lost): Load) -> Row {
    let from_s = 100.0 * span as f64;
    Row {
        from_s,
        to_s: from_s + 100.0,
        utilization,
        queue,
        lost,
        goodput: 1200.0,
        fairness: 0.8,
        ..Row::default()
    }
}

fn point(experiment: Experiment, series: &str, loads: &[Load]) -> Run {
    let spans = loads.iter().enumerate().map(|(span, load)| row(span, *load)).collect();
    Run {
        case: Case { experiment, series: series.into() },
        seed: 0,
        values: Values { spans, ..Values::default() },
        trace_hash: None,
        warnings: None,
    }
}

/// A queue that is given by the time, ten times a second.
fn with_queue(mut point: Run, seconds: u32, queue: impl Fn(f64) -> f64) -> Run {
    let sample = |n: u32| {
        let t_s = f64::from(n) / 10.0;
        Sample { t_s, queue_mean: queue(t_s), queue: queue(t_s) + f64::from(n % 2), ..Sample::default() }
    };
    point.values.samples = (1..=seconds * 10).map(sample).collect();
    point
}

fn judged(experiment: Experiment, points: &[Run]) -> Vec<Claim> {
    of(experiment, &Measured::new(points))
}

fn missed(claims: &[Claim]) -> Vec<&str> {
    claims.iter().filter(|c| !c.held).map(|c| c.text.as_str()).collect()
}

#[test]
fn experiment_1() {
    let as_shown = |used: f64, lost: f64, after: f64| {
        let point = point(Experiment::One, "AVQ", &[(used, 20.0, 0.0), (used, 20.0, lost)]);
        with_queue(point, 200, move |t| if t > 100.0 { after } else { 20.0 })
    };
    let claims = judged(Experiment::One, &[as_shown(0.9827, 10.0, 22.0)]);
    assert_eq!((missed(&claims).len(), claims.len()), (0, 4), "{claims:#?}");
    let claims = judged(Experiment::One, &[as_shown(1.0, 25.0, 40.0)]);
    assert_eq!(missed(&claims).len(), 3, "{claims:#?}");
    // A queue that rises for 20 s when the short flows come has changed, though it falls again.
    let risen = point(Experiment::One, "AVQ", &[(0.9827, 20.0, 0.0); 2]);
    let risen = with_queue(risen, 200, |t| if (100.0..120.0).contains(&t) { 74.0 } else { 20.0 });
    assert!(missed(&judged(Experiment::One, &[risen])).iter().any(|text| text.contains("short flows")));
}

#[test]
fn every_claim_has_the_papers_words_and_the_origin_of_its_bound() {
    let all = [Experiment::One, Experiment::Two, Experiment::Three, Experiment::Four, Experiment::Five];
    let claims: Vec<Claim> = all.into_iter().flat_map(|experiment| judged(experiment, &[])).collect();
    crate::said::assert_told(&claims, crate::avq::said::TABLE);
}

/// Figures 3 to 5, or 9 to 11, as far as the text tells.
fn as_in_the_paper(experiment: Experiment) -> Vec<Run> {
    let curve = |series, load| point(experiment, series, &[load; 3]);
    vec![
        curve("AVQ", (0.982, 15.0, 40.0)),
        curve("RED", (0.93, 30.0, 900.0)),
        curve("REM", (1.0, 70.0, 3000.0)),
        curve("PI", (1.0, 75.0, 4000.0)),
        curve("GKVQ", (0.75, 18.0, 25.0)),
    ]
}

fn figures_12_to_14() -> Vec<Run> {
    let curve = |series, load| point(Experiment::Five, series, &[load; 3]);
    vec![
        curve("RED", (0.95, 40.0, 900.0)),
        curve("REM", (1.0, 70.0, 3000.0)),
        curve("PI", (1.0, 75.0, 4000.0)),
        curve("AVQ 98 %", (0.975, 15.0, 2000.0)),
        curve("AVQ 100 %", (0.995, 30.0, 2000.0)),
    ]
}

#[test]
fn what_is_before_the_short_flows_does_not_count() {
    let mut points = as_in_the_paper(Experiment::Four);
    for point in &mut points {
        point.values.spans[0] =
            row(0, (0.5, 99.0, 50_000.0 * f64::from(u8::from(point.case.series == "AVQ"))));
        point.values.spans[1].short_per_s = 10.0;
        point.values.spans[2].short_per_s = 20.0;
    }
    let claims = judged(Experiment::Four, &points);
    assert_eq!(missed(&claims), [""; 0], "{claims:#?}");
    points[0].values.spans[0].short_per_s = 5.0;
    assert!(missed(&judged(Experiment::Four, &points)).len() >= 5);
}

#[test]
fn experiments_2_and_4() {
    for (experiment, count) in [(Experiment::Two, 14), (Experiment::Four, 13)] {
        let mut points = as_in_the_paper(experiment);
        let claims = judged(experiment, &points);
        assert_eq!((missed(&claims).len(), claims.len()), (0, count), "{claims:#?}");
        points[0].values.spans[2] = row(2, (1.0, 90.0, 50_000.0));
        let claims = judged(experiment, &points);
        assert!(missed(&claims).iter().filter(|text| text.contains("AVQ")).count() >= 5, "{claims:#?}");
    }
}

#[test]
fn what_was_not_run_does_not_hold() {
    for experiment in
        [Experiment::One, Experiment::Two, Experiment::Three, Experiment::Four, Experiment::Five]
    {
        let claims = judged(experiment, &[]);
        assert_eq!(missed(&claims).len(), claims.len(), "{claims:#?}");
    }
}

#[test]
fn what_is_judged_by_two_curves_does_not_hold_by_one() {
    let (two, five) = (as_in_the_paper(Experiment::Two), figures_12_to_14());
    for (experiment, all, series, part) in [
        (Experiment::Two, &two, "AVQ", "are comparable"),
        (Experiment::Two, &two, "GKVQ", "are comparable"),
        (Experiment::Five, &five, "AVQ 98 %", "adds no bias"),
        (Experiment::Five, &five, "AVQ 100 %", "adds no bias"),
    ] {
        let points: Vec<Run> = all.iter().filter(|run| run.case.series != series).cloned().collect();
        let claims = judged(experiment, &points);
        let claim = claims.iter().find(|claim| claim.text.contains(part)).expect("it is judged");
        assert!(!claim.held, "without {series}: {claim:?}");
    }
}

#[test]
fn experiment_3() {
    // Flows leave at 100 s and come at 200 s; each queue returns to its level after some seconds.
    let settles = |series: &str, level: f64, away: f64, after: f64| {
        let point = point(Experiment::Three, series, &[(1.0, 0.0, 0.0); 3]);
        with_queue(point, 300, move |t| if t > 100.0 && (t % 100.0) < after { away } else { level })
    };
    let slow =
        [settles("AVQ", 20.0, 50.0, 2.0), settles("REM", 50.0, 90.0, 60.0), settles("PI", 50.0, 0.0, 40.0)];
    let claims = judged(Experiment::Three, &slow);
    assert_eq!((missed(&claims).len(), claims.len()), (0, 6), "{claims:#?}");
    for level in [None, Some(50.0)] {
        let seconds = settling(&slow[2], 1, level);
        assert!((seconds - 40.0).abs() < 3.0, "{seconds}");
    }
    // A queue that stays at 90 has settled, but not at what was wanted.
    let high = settles("REM", 90.0, 90.0, 0.0);
    assert_eq!((settling(&high, 1, None), settling(&high, 1, Some(50.0))), (0.0, 100.0));
    let quick =
        [settles("AVQ", 20.0, 50.0, 60.0), settles("REM", 50.0, 60.0, 2.0), settles("PI", 50.0, 0.0, 2.0)];
    let claims = judged(Experiment::Three, &quick);
    assert_eq!(missed(&claims).len(), claims.len(), "{claims:#?}");
}

#[test]
fn experiment_5() {
    let mut points = figures_12_to_14();
    let claims = judged(Experiment::Five, &points);
    assert_eq!((missed(&claims).len(), claims.len()), (0, 10), "{claims:#?}");
    points[3].values.spans[0] = row(0, (0.999, 200.0, 0.0));
    points[4].values.spans[1] = Row { goodput: 900.0, fairness: 0.2, ..row(1, (0.9, 200.0, 0.0)) };
    let claims = judged(Experiment::Five, &points);
    assert_eq!(missed(&claims).len(), claims.len(), "{claims:#?}");
}
