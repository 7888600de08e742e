//! Each claim holds for what the paper shows, and fails for what contradicts it.

use super::*;
use crate::steering::cases::{Case, Run, Values};
use crate::steering::over_time::tests::{as_in_the_paper, recording};
use weir_measure::result::{LinkSummary, Recording, Spread};

fn point(part: Part, series: &str, flows: u32, utilization: f64, p95: f64) -> Run {
    let delay_ms = Spread { mean: p95 / 10.0, p95, ..Spread::default() };
    let link = LinkSummary { utilization, delay_ms, ..LinkSummary::default() };
    Run {
        case: Case { figure: part, rate_bps: 10e9, series: series.into(), flows },
        seed: 0,
        values: Values { link, ..Values::default() },
        trace_hash: None,
        warnings: None,
    }
}

fn judge(points: &[Run], part: Part) -> Vec<Claim> {
    of(part, &Measured::new(points), Margins::FULL)
}

/// Identifiers and texts of the claims that are missed.
fn missed(points: &[Run], part: Part) -> Vec<String> {
    judge(points, part).into_iter().filter(|c| !c.held).map(|c| format!("{} {}", c.id, c.text)).collect()
}

type Row = (&'static str, u32, f64, f64);

fn points(part: Part, rows: &[Row]) -> Vec<Run> {
    rows.iter().map(|(series, flows, used, p95)| point(part, series, *flows, *used, *p95)).collect()
}

const FIVE: [Row; 15] = [
    ("GSP-AS", 2, 0.995, 12.0),
    ("GSP-AS", 9, 0.995, 3.0),
    ("GSP-AS", 36, 0.995, 0.825),
    ("TD 2.5ms", 2, 0.90, 2.0),
    ("TD 2.5ms", 9, 0.93, 2.4),
    ("TD 2.5ms", 36, 0.97, 2.5),
    ("CODEL 2.5ms", 2, 0.94, 2.5),
    ("CODEL 2.5ms", 9, 0.992, 2.5),
    ("CODEL 2.5ms", 36, 0.998, 2.5),
    ("GSP 2.5ms", 2, 0.95, 2.4),
    ("GSP 2.5ms", 9, 0.993, 2.5),
    ("GSP 2.5ms", 36, 0.999, 2.6),
    ("TD 30ms", 2, 1.0, 29.0),
    ("TD 30ms", 9, 1.0, 29.5),
    ("TD 30ms", 36, 1.0, 30.0),
];

const SIX: [Row; 10] = [
    ("GSP-AS", 2, 0.97, 28.0),
    ("GSP-AS", 36, 0.995, 5.0),
    ("TD 2.5ms", 2, 0.3, 0.1),
    ("TD 2.5ms", 36, 0.9, 2.0),
    ("CODEL 2.5ms", 2, 0.7, 2.0),
    ("CODEL 2.5ms", 36, 0.98, 3.0),
    ("GSP 2.5ms", 2, 0.75, 2.0),
    ("GSP 2.5ms", 36, 0.98, 3.0),
    ("TD 30ms", 2, 0.96, 29.0),
    ("TD 30ms", 36, 1.0, 30.0),
];

const EIGHT: [Row; 3] = [("GSP-AS", 2, 0.945, 1.5), ("GSP-AS", 9, 0.947, 0.09), ("GSP-AS", 36, 0.944, 0.05)];

/// Changes one row, and expects that a claim with this beginning is missed for it.
fn spoil(part: Part, rows: &[Row], change: Row, expected: &str) {
    let mut rows = rows.to_vec();
    for row in rows.iter_mut().filter(|r| r.0 == change.0 && r.1 == change.1) {
        *row = change;
    }
    let missed = missed(&points(part, &rows), part);
    assert!(
        missed.iter().any(|m| m.starts_with(expected)),
        "{change:?} missed {missed:?} and not {expected}"
    );
}

#[test]
fn what_the_paper_shows_holds() {
    assert_eq!(missed(&points(Part::Five, &FIVE), Part::Five), Vec::<String>::new());
    assert_eq!(missed(&points(Part::Six, &SIX), Part::Six), Vec::<String>::new());
    assert_eq!(missed(&points(Part::EightA, &EIGHT), Part::EightA), Vec::<String>::new());
}

#[test]
fn every_claim_of_figure_5_can_fail() {
    let spoil = |change, expected| spoil(Part::Five, &FIVE, change, expected);
    spoil(("TD 2.5ms", 2, 0.996, 2.0), "A3 below 9 flows TD");
    spoil(("CODEL 2.5ms", 2, 0.996, 2.0), "A3 below 9 flows CODEL");
    spoil(("GSP 2.5ms", 2, 0.996, 2.0), "A3 below 9 flows GSP");
    spoil(("CODEL 2.5ms", 9, 0.98, 2.5), "A3 CODEL 2.5ms loses");
    spoil(("GSP 2.5ms", 36, 0.98, 2.5), "A3 GSP 2.5ms loses");
    spoil(("TD 2.5ms", 9, 0.994, 2.5), "A4");
    spoil(("GSP-AS", 2, 0.995, 31.0), "A5 the 95 %");
    spoil(("GSP-AS", 2, 0.995, 9.0), "A5 with 2 flows");
    spoil(("GSP-AS", 9, 0.995, 12.5), "A6 the 95 %");
    spoil(("GSP-AS", 36, 0.995, 1.3), "A6 with 36 flows the delay");
    spoil(("GSP 2.5ms", 36, 0.995, 3.5), "A6 with 36 flows GSP");
    spoil(("GSP-AS", 9, 0.995, 21.0), "A5 the 95 %");
    spoil(("GSP-AS", 36, 0.995, 1.35), "A6 with 36 flows the delay of GSP-AS is less than half");
    spoil(("TD 30ms", 2, 0.98, 29.0), "A7 tail drop");
    spoil(("TD 30ms", 36, 1.0, 20.0), "A7 and its delay");
    spoil(("GSP-AS", 2, 0.989, 12.0), "A8");
}

#[test]
fn every_claim_of_figure_6_can_fail() {
    let spoil = |change, expected| spoil(Part::Six, &SIX, change, expected);
    spoil(("CODEL 2.5ms", 2, 0.95, 2.0), "A9 with 2 flows CODEL");
    spoil(("TD 2.5ms", 2, 0.8, 0.1), "A9 with 2 flows the small");
    spoil(("TD 2.5ms", 2, 0.3, 6.0), "A9 because");
    spoil(("TD 30ms", 2, 0.98, 29.0), "A9 with 2 flows GSP-AS");
    spoil(("CODEL 2.5ms", 2, 0.7, 28.5), "A9 and pays");
    spoil(("GSP-AS", 36, 0.995, 28.0), "A9 with 36 flows");
    spoil(("GSP-AS", 36, 0.98, 5.0), "A9 and that");
}

/// The lower of the two decides A10, so both have to be changed.
#[test]
fn numbers_are_judged_at_the_rates_that_the_paper_has() {
    let at = |rate_bps: f64| {
        let mut runs = points(Part::Five, &FIVE);
        runs.iter_mut().for_each(|run| run.case.rate_bps = rate_bps);
        judge(&runs, Part::Five).iter().map(|c| (c.id.clone(), c.expected.clone())).collect::<Vec<_>>()
    };
    let a6 = |rate| at(rate).into_iter().filter(|(id, _)| id == "A6").map(|(_, e)| e).collect::<Vec<_>>();
    for rate in [10e9, 1e9, 0.2e9] {
        assert_eq!(a6(rate)[1], "0.50 ms to 1.20 ms", "the paper's number, whatever the rate");
    }
    let a5 = |rate| at(rate).into_iter().filter(|(id, _)| id == "A5").map(|(_, e)| e).collect::<Vec<_>>();
    assert_eq!(a5(10e9)[1], "10.00 ms to 20.00 ms");
    assert_eq!(a5(1e9)[1], "6.67 ms to 20.00 ms", "two thirds of 30 ms at any rate");
    assert_eq!(a5(0.2e9).len(), 1, "the order alone");
    // What is printed of 10 Gbit/s alone decides nothing at other rates.
    let judged = |rate_bps: f64| {
        let mut runs = points(Part::Five, &FIVE);
        runs.iter_mut().for_each(|run| run.case.rate_bps = rate_bps);
        let found = crate::steering::sim::judged(Part::Five, &Measured::new(&runs), false, &Margins::SHORT);
        found.iter().filter(|claim| claim.undecided).count()
    };
    assert_eq!([judged(10e9), judged(1e9)], [0, 3]);
}

#[test]
fn every_claim_has_the_papers_words_and_the_origin_of_its_bound() {
    let mut claims = judge(&points(Part::Five, &FIVE), Part::Five);
    claims.extend(judge(&points(Part::Six, &SIX), Part::Six));
    claims.extend(judge(&points(Part::EightA, &EIGHT), Part::EightA));
    claims.extend(judge(&points(Part::Text, &[(EIGHTY, 2, 0.795, 1.0)]), Part::Text));
    let run = |part| over_time(part, recording(380, as_in_the_paper, |_| true));
    for part in [Part::SevenA, Part::SevenB, Part::EightB] {
        claims.extend(judge(&run(part), part));
    }
    // Figure 7a with packets of both sizes.
    let mut sizes = run(Part::SevenA);
    let mut large = run(Part::SevenA);
    large.iter_mut().for_each(|run| run.case.series = "GSP-AS, MTU 9000".into());
    sizes.extend(large);
    claims.extend(judge(&sizes, Part::SevenA));
    let at_ten = [
        (Part::SevenA, judge(&sizes, Part::SevenA)),
        (Part::SevenB, judge(&run(Part::SevenB), Part::SevenB)),
        (Part::EightA, judge(&points(Part::EightA, &EIGHT), Part::EightA)),
        (Part::EightB, judge(&run(Part::EightB), Part::EightB)),
    ];
    for (part, found) in at_ten {
        claims.extend(crate::steering::sim::titled(part, "10Gbit/s", found));
    }
    crate::said::assert_told(&claims, crate::steering::said::TABLE);
    // And each row of the table is about a claim.
    let said = crate::steering::said::TABLE;
    let of = |c: &Claim| said.iter().position(|row| row.id == c.id && c.text.contains(row.about));
    let used: Vec<_> = claims.iter().filter_map(of).collect();
    for (i, row) in said.iter().enumerate() {
        assert!(used.contains(&i), "nothing is judged of {} {:?}", row.id, row.about);
    }
}

#[test]
fn aqms_that_never_fall_miss_a10() {
    let mut rows = SIX.to_vec();
    rows.iter_mut().filter(|r| r.1 == 2 && STATIC_AQMS.contains(&r.0)).for_each(|r| r.2 = 0.9);
    let missed = missed(&points(Part::Six, &rows), Part::Six);
    assert!(missed.iter().any(|m| m.starts_with("A10")), "{missed:?}");
}

#[test]
fn every_claim_of_figure_8a_can_fail() {
    let spoil = |change, expected| spoil(Part::EightA, &EIGHT, change, expected);
    spoil(("GSP-AS", 2, 0.951, 1.5), "A14 with 2 flows");
    spoil(("GSP-AS", 36, 0.939, 0.1), "A14 with 36 flows");
    spoil(("GSP-AS", 9, 0.945, 1.2), "A15 from 6 flows on the real queue is effectively empty (mean)");
    spoil(("GSP-AS", 9, 0.945, 0.11), "A15 from 6 flows on the real queue is effectively empty (95 %");
    spoil(("GSP-AS", 2, 0.945, 0.05), "A15 with 2");
    let mut three = EIGHT.to_vec();
    three.push(("GSP-AS", 3, 0.945, 0.5));
    assert_eq!(missed(&points(Part::EightA, &three), Part::EightA), Vec::<String>::new());
    super::tests::spoil(Part::EightA, &three, ("GSP-AS", 3, 0.945, 0.05), "A15 with 3");
}

#[test]
fn nothing_measured_holds_nothing() {
    for part in [Part::Five, Part::Six, Part::EightA] {
        assert!(judge(&[], part).iter().all(|c| !c.held), "{}", part.name());
    }
}

/// What overshoots has a longer delay than what is run with more flows, and what GSP-AS has to use is what
/// tail drop uses.
#[test]
fn what_is_judged_beside_others_does_not_hold_without_them() {
    let few: Vec<Row> = EIGHT.into_iter().filter(|(_, flows, ..)| *flows < 6).collect();
    let alone: Vec<Row> = FIVE.into_iter().filter(|(series, ..)| *series != "TD 30ms").collect();
    for (part, rows, id) in [(Part::EightA, few, "A15"), (Part::Five, alone, "A8")] {
        let claims = judge(&points(part, &rows), part);
        let mut claims = claims.iter().filter(|claim| claim.id == id).peekable();
        assert!(claims.peek().is_some() && claims.all(|claim| !claim.held), "{id}");
    }
}

/// What is told without a figure, but for A2, which compares constants.
#[test]
fn every_claim_without_a_figure_can_fail() {
    let mut rows: Vec<Row> = vec![
        (BLOATED, 1, 1.0, 3000.0),
        (HALF, 9, 0.495, 1.0),
        (EIGHTY, 2, 0.795, 1.0),
        (HULL, 9, 0.93, 0.5),
        (QUARTER, 36, 0.995, 12.0),
    ];
    rows.extend(ONE_BDP.map(|(series, ..)| (series, 1, 0.995, 50.0)));
    assert_eq!(missed(&points(Part::Text, &rows), Part::Text), Vec::<String>::new());
    let spoil = |change, expected: &str| spoil(Part::Text, &rows, change, expected);
    spoil((BLOATED, 1, 1.0, 1900.0), "A1");
    spoil((HALF, 9, 0.501, 1.0), "A18");
    spoil((EIGHTY, 2, 0.801, 1.0), "A14 a policy of 79 to 80 % is held with 2");
    spoil((HULL, 9, 0.96, 0.5), "A19 HULL");
    spoil((HULL, 9, 0.93, 1.5), "A19 and so");
    for (series, what, _) in ONE_BDP {
        let text = "A20 a tail-drop buffer of one bandwidth-delay product keeps the link busy";
        spoil((series, 1, 0.98, 50.0), &format!("{text} ({what})"));
    }
    spoil((QUARTER, 36, 0.98, 12.0), "A20 36");
}

fn over_time(part: Part, recording: Recording) -> Vec<Run> {
    let mut run = point(part, "GSP-AS", 2, 0.99, 1.0);
    run.values.recording = Some(recording);
    vec![run]
}

#[test]
fn every_claim_of_figure_7_can_fail() {
    let reclaimed = |t: f64| !(260.0..278.0).contains(&t);
    let missed = |part, setpoint: &dyn Fn(f64) -> f64| {
        self::missed(&over_time(part, recording(380, setpoint, reclaimed)), part)
    };
    assert_eq!(missed(Part::SevenA, &as_in_the_paper), Vec::<String>::new());
    let flat = missed(Part::SevenA, &|_| 5.0);
    assert!(flat.iter().any(|m| m.starts_with("A11 two flows")), "{flat:?}");
    assert!(flat.iter().any(|m| m.starts_with("A11 with 36")), "{flat:?}");
    let lost = missed(Part::SevenA, &|t| if t <= 200.0 { 11.0 } else { 1.0 });
    assert!(lost.iter().any(|m| m.starts_with("A11 the set point regained")), "{lost:?}");
    assert!(lost.iter().any(|m| m.starts_with("A11 the set point is raised")), "{lost:?}");
    let restless = missed(Part::SevenA, &|t| 11.0 - (t % 3.0));
    assert!(restless.iter().any(|m| m.starts_with("A12")), "{restless:?}");
    let late = recording(380, as_in_the_paper, |t| !(260.0..304.0).contains(&t));
    let late = self::missed(&over_time(Part::SevenA, late), Part::SevenA);
    assert!(late.iter().any(|m| m.starts_with("A12 the two flows")), "{late:?}");
    assert_eq!(missed(Part::SevenB, &|_| 9.0), Vec::<String>::new());
    assert_eq!(missed(Part::SevenB, &|t| t / 10.0).len(), 1, "it grows");
    assert_eq!(missed(Part::SevenB, &|_| 2.0).len(), 1, "it stays low");
}

#[test]
fn every_claim_of_figure_8b_can_fail() {
    // The first samples are above the virtual rate, whatever the others are.
    let missed_after = |first: usize, backlog: u64, delivered_bps: f64| {
        let mut seen = recording(400, |_| 0.2, |_| false);
        for (i, s) in seen.link_samples[0].iter_mut().enumerate() {
            s.t_s *= 0.002;
            let above = if i < first { 9.501e9 } else { delivered_bps };
            (s.virtual_rate_bps, s.delivered_bps) = (9.5e9, above);
            // Half of the samples lie below the threshold.
            s.virtual_backlog_bytes = if i % 2 == 0 { backlog / 2 } else { backlog };
            s.virtual_empty = if backlog == 0 { 0.03 } else { 0.01 };
        }
        self::missed(&over_time(Part::EightB, seen), Part::EightB)
    };
    let missed = |backlog, delivered_bps| missed_after(1, backlog, delivered_bps).len();
    // Its threshold is 0.2 ms: 237.5 kB.
    assert_eq!(missed(300_000, 9.45e9), 0);
    assert_eq!(missed(900_000, 9.45e9), 2, "off the scale, and always above");
    assert_eq!(missed(200_000, 9.45e9), 1, "never above");
    assert_eq!(missed(0, 9.45e9), 2, "empty");
    assert_eq!(missed(300_000, 9.0e9), 1, "far below");
    assert_eq!(missed(300_000, 9.6e9), 2, "above, and for long");
    assert_eq!(missed_after(25, 300_000, 9.45e9), Vec::<String>::new(), "for a round-trip time");
    let longer = missed_after(26, 300_000, 9.45e9);
    assert!(longer.len() == 1 && longer[0].starts_with("A17 and for no longer"), "{longer:?}");
    assert_eq!(missed_after(0, 300_000, 9.45e9).len(), 2, "never above");
}
