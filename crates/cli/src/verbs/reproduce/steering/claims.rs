//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A comparison with a number that is missing (NaN) does not hold.

use super::figures::Part;
use super::measured::Measured;
use super::over_time::{LOW_MS, peaks, transition, virtual_queue};
use super::{claim, percent};
use weir_scenario::result::Claim;

/// The steered curve.
pub const STEERED: &str = "GSP-AS";
/// The static curves: tail drop with the small buffer, and two algorithms at one set point.
pub const STATIC: [&str; 3] = ["TD 2.5ms", "CODEL 2.5ms", "GSP 2.5ms"];
/// Tail drop with the large buffer.
pub const TAIL_DROP_LARGE: &str = "TD 30ms";
const TAIL_DROP_SMALL: &str = STATIC[0];
const STATIC_AQMS: [&str; 2] = [STATIC[1], STATIC[2]];

/// How far a measurement may miss the paper's number.
#[derive(Clone, Copy, Debug)]
pub struct Margins {
    /// What may be missing to a utilization, as a share of one.
    utilization: f64,
    /// Factor by which a delay may lie outside of what is expected.
    delay: f64,
    /// Utilization with a target of 95 %.
    band: (f64, f64),
}

impl Margins {
    const FULL: Margins = Margins { utilization: 0.0, delay: 1.0, band: (0.94, 0.95) };
    /// Short runs contain some of the convergence.
    const QUICK: Margins = Margins { utilization: 0.005, delay: 1.5, band: (0.93, 0.955) };

    /// Those of the full form or of the short one.
    pub fn of(quick: bool) -> Margins {
        if quick { Margins::QUICK } else { Margins::FULL }
    }
}

/// The claims of one figure at one rate.
pub fn of(part: Part, measured: &Measured, margins: Margins) -> Vec<Claim> {
    match part {
        Part::Five => long_lived(measured, margins),
        Part::Six => with_short_flows(measured, margins),
        Part::SevenA => one_transition(measured),
        Part::SevenB => many_transitions(measured),
        Part::EightA => headroom(measured, margins),
        Part::EightB => virtual_queue_in_detail(measured),
    }
}

fn ms(value: f64) -> String {
    format!("{value:.2} ms")
}

/// `text (number of flows)` for each number of flows.
fn over_flows(flows: &[u32], text: impl Fn(u32) -> String) -> String {
    flows.iter().map(|n| format!("{} ({n})", text(*n))).collect::<Vec<_>>().join(", ")
}

/// Figure 5.
fn long_lived(m: &Measured, margins: Margins) -> Vec<Claim> {
    let flows = m.flows();
    let steered = |n| m.utilization(STEERED, n);
    let mut claims = Vec::new();
    for other in STATIC {
        let (theirs, ours) = (m.utilization(other, 2), steered(2));
        let text = format!("with 2 flows {other} uses less of the link than GSP-AS");
        claims.push(claim("A3", text, format!("below {}", percent(ours)), percent(theirs), theirs < ours));
    }
    let many: Vec<u32> = flows.iter().copied().filter(|n| *n >= 9).collect();
    for other in STATIC_AQMS {
        let least = 0.99 - margins.utilization;
        let text = format!("{other} loses no throughput from 9 flows on");
        let held = !many.is_empty() && many.iter().all(|n| m.utilization(other, *n) >= least);
        let found = over_flows(&many, |n| percent(m.utilization(other, n)));
        claims.push(claim("A3", text, format!("at least {}", percent(least)), found, held));
    }
    claims.push(small_tail_drop(m, &many));
    claims.extend(steered_delay(m, &flows, margins));
    claims.extend(large_tail_drop(m, &flows));
    let least = |n: u32| m.utilization(TAIL_DROP_LARGE, n).min(0.99) - margins.utilization;
    let held = !flows.is_empty() && flows.iter().all(|n| steered(*n) >= least(*n));
    let text = "GSP-AS uses the link as its policy says, or as tail drop with 30 ms does";
    let expected = format!("at least {} or what tail drop has", percent(0.99 - margins.utilization));
    claims.push(claim("A8", text, expected, over_flows(&flows, |n| percent(steered(n))), held));
    claims
}

fn small_tail_drop(m: &Measured, many: &[u32]) -> Claim {
    let lower = |n: &u32| m.utilization(TAIL_DROP_SMALL, *n) < m.utilization(STATIC[2], *n);
    let text = "a small tail-drop buffer loses throughput with many flows too, for want of desynchronization";
    let both = |n| {
        format!("{} to {}", percent(m.utilization(TAIL_DROP_SMALL, n)), percent(m.utilization(STATIC[2], n)))
    };
    let held = !many.is_empty() && many.iter().all(lower);
    claim("A4", text, "below static GSP for 9 flows and more", over_flows(many, both), held)
}

fn steered_delay(m: &Measured, flows: &[u32], margins: Margins) -> Vec<Claim> {
    let p95 = |n: u32| m.p95(STEERED, n);
    let found = over_flows(flows, |n| ms(p95(n)));
    let below = !flows.is_empty() && flows.iter().all(|n| p95(*n) < 30.0);
    let falls = flows.len() > 1 && flows.windows(2).all(|pair| p95(pair[1]) < p95(pair[0]));
    let (from, to) = (10.0 / margins.delay, 20.0 * margins.delay);
    let most = 1.2 * margins.delay;
    let mut claims = vec![
        claim(
            "A5",
            "the 95 % delay of GSP-AS stays clearly below 30 ms",
            "below 30 ms",
            found.clone(),
            below,
        ),
        claim(
            "A5",
            "with 2 flows GSP-AS takes the delay that throughput needs, and not 30 ms",
            format!("{} to {}", ms(from), ms(to)),
            ms(p95(2)),
            (from..=to).contains(&p95(2)),
        ),
        claim(
            "A6",
            "the 95 % delay of GSP-AS falls with the number of flows",
            "each below the last",
            found,
            falls,
        ),
        claim(
            "A6",
            "with 36 flows the delay of GSP-AS is as low as 0.825 ms",
            format!("{} to {}", ms(0.5 / margins.delay), ms(most)),
            ms(p95(36)),
            (0.5 / margins.delay..=most).contains(&p95(36)),
        ),
    ];
    for other in STATIC_AQMS {
        let (found, range) = (m.p95(other, 36), 2.0 / margins.delay..=3.0 * margins.delay);
        let text = format!("with 36 flows {other} stays at its set point");
        let expected = format!("{} to {}", ms(*range.start()), ms(*range.end()));
        claims.push(claim("A6", text, expected, ms(found), range.contains(&found)));
    }
    claims
}

fn large_tail_drop(m: &Measured, flows: &[u32]) -> Vec<Claim> {
    let used = |n: u32| m.utilization(TAIL_DROP_LARGE, n);
    let delay = |n: u32| m.p95(TAIL_DROP_LARGE, n);
    let full = !flows.is_empty() && flows.iter().all(|n| used(*n) >= 0.99);
    let long = !flows.is_empty() && flows.iter().all(|n| (25.0..=31.0).contains(&delay(*n)));
    vec![
        claim(
            "A7",
            "tail drop with 30 ms has all of the throughput",
            "at least 99 %",
            over_flows(flows, |n| percent(used(n))),
            full,
        ),
        claim("A7", "and its delay", "25 ms to 31 ms", over_flows(flows, |n| ms(delay(n))), long),
    ]
}

/// Figure 6.
fn with_short_flows(m: &Measured, margins: Margins) -> Vec<Claim> {
    const CLEARLY: f64 = 0.03;
    let (few, many) = (2, 36);
    let steered = |n| m.utilization(STEERED, n);
    let mut claims = Vec::new();
    for other in STATIC {
        let (theirs, ours) = (m.utilization(other, few), steered(few));
        let text = format!("with 2 flows {other} loses clearly against GSP-AS");
        let most = ours - CLEARLY + margins.utilization;
        claims.push(claim("A9", text, format!("below {}", percent(most)), percent(theirs), theirs < most));
    }
    let small = m.utilization(TAIL_DROP_SMALL, few);
    let next = STATIC_AQMS.iter().map(|s| m.utilization(s, few)).fold(f64::NAN, f64::min);
    let mean = m.mean(TAIL_DROP_SMALL, few, |l| l.delay_ms.mean);
    let text = "with 2 flows the small tail-drop buffer is the worst of all";
    claims.push(claim("A9", text, format!("below {}", percent(next)), percent(small), small < next));
    let text = "because it drains completely: it has practically no delay";
    claims.push(claim("A9", text, "mean below 0.5 ms", ms(mean), mean < 0.5));
    let large = m.utilization(TAIL_DROP_LARGE, few);
    let least = large - margins.utilization;
    let text = "with 2 flows GSP-AS uses the link at least as well as tail drop with 30 ms";
    let held = steered(few) >= least;
    claims.push(claim("A9", text, format!("at least {}", percent(least)), percent(steered(few)), held));
    let (low, high) = (m.p95(STEERED, many), m.p95(STEERED, few));
    let text = "with 36 flows GSP-AS has less delay than with 2";
    claims.push(claim("A9", text, format!("below {}", ms(high)), ms(low), low < high));
    let (used, least) = (steered(many), 0.99 - margins.utilization);
    let text = "and that does not hurt its throughput";
    claims.push(claim("A9", text, format!("at least {}", percent(least)), percent(used), used >= least));
    let text = "the utilization of an AQM can fall to 60 to 80 %";
    claims.push(claim(
        "A10",
        text,
        "the lower of CoDel and GSP with 2 flows below 80 %",
        percent(next),
        next < 0.8,
    ));
    claims
}

/// Figure 7a.
fn one_transition(m: &Measured) -> Vec<Claim> {
    let Some(recording) = m.recording() else { return Vec::new() };
    let seen = transition(recording);
    let seconds = |s: Option<f64>| s.map_or("never".to_string(), |s| format!("{s:.1} s"));
    let least = seen.before_ms * 2.0 / 3.0;
    let (before, regained) = (seen.before_ms, seen.regained_ms);
    let signals = |n: Option<u64>| n.map_or("never".to_string(), |n| format!("with {n}"));
    let counts = format!("up {}, down {}", signals(seen.up), signals(seen.down));
    let quick = seen.up.zip(seen.down).is_some_and(|(up, down)| up < down);
    vec![
        claim(
            "A11",
            "two flows need a set point of about 11 ms",
            "7 ms to 20 ms",
            ms(before),
            (7.0..=20.0).contains(&before),
        ),
        claim(
            "A11",
            "with 36 flows the set point is low before 34 of them leave",
            format!("at most {LOW_MS} ms"),
            ms(seen.low_ms),
            seen.low_ms <= LOW_MS,
        ),
        claim(
            "A11",
            "the set point is regained when two flows have the link again",
            format!("at least {}", ms(least)),
            ms(regained),
            regained >= least,
        ),
        claim(
            "A11",
            "the set point is raised quicker than it was lowered",
            "up with fewer signals",
            counts,
            quick,
        ),
        claim(
            "A12",
            "nothing is adapted while the two flows reclaim the link (the paper: 18 s)",
            "no move before the next discard",
            format!(
                "{}, after {}",
                if seen.moved_unsignalled { "moved" } else { "none" },
                seconds(seen.reclaimed_s)
            ),
            !seen.moved_unsignalled && seen.reclaimed_s.is_some(),
        ),
    ]
}

/// Figure 7b.
fn many_transitions(m: &Measured) -> Vec<Claim> {
    let Some(recording) = m.recording() else { return Vec::new() };
    let peaks = peaks(recording);
    let found = peaks.iter().map(|p| ms(*p)).collect::<Vec<_>>().join(", ");
    let high = !peaks.is_empty() && peaks.iter().all(|p| *p >= 7.0);
    let stable = !peaks.is_empty() && peaks.iter().all(|p| *p <= 20.0);
    vec![
        claim(
            "A13",
            "when the load flips every 20 s the set point reaches almost the value that two flows need",
            "at least 7 ms in every period",
            found.clone(),
            high,
        ),
        claim(
            "A13",
            "and the control stays stable: no set point that two flows would not get by doubling",
            "at most 20 ms in every period",
            found,
            stable,
        ),
    ]
}

/// Figure 8a.
fn headroom(m: &Measured, margins: Margins) -> Vec<Claim> {
    let flows = m.flows();
    let (from, to) = margins.band;
    let used = |n: u32| m.utilization(STEERED, n);
    let mut claims: Vec<Claim> = flows
        .iter()
        .map(|n| {
            let text = format!("with {n} flows the utilization stays within its bounds");
            let expected = format!("{} to {}", percent(from), percent(to));
            claim("A14", text, expected, percent(used(*n)), (from..=to).contains(&used(*n)))
        })
        .collect();
    let many: Vec<u32> = flows.iter().copied().filter(|n| *n >= 6).collect();
    let mean = |n: u32| m.mean(STEERED, n, |l| l.delay_ms.mean);
    let most = 0.1 * margins.delay;
    let held = !many.is_empty() && many.iter().all(|n| mean(*n) < most);
    let found = over_flows(&many, |n| format!("{:.3} ms", mean(n)));
    let text = "from 6 flows on the real queue is effectively empty";
    claims.push(claim("A15", text, format!("mean below {most:.2} ms"), found, held));
    let (few, rest) = (m.p95(STEERED, 2), many.iter().map(|n| m.p95(STEERED, *n)).fold(f64::NAN, f64::max));
    let text = "with 2 flows the virtual queue overshoots into the real one";
    claims.push(claim("A15", text, format!("95 % delay above {}", ms(rest)), ms(few), few > rest));
    claims
}

/// Figure 8b.
fn virtual_queue_in_detail(m: &Measured) -> Vec<Claim> {
    let Some(recording) = m.recording() else { return Vec::new() };
    let seen = virtual_queue(recording);
    // The paper's scale, which is for 10 Gbit/s.
    let scale_kb = 800.0 * m.rate_bps() / 10e9;
    let rates = format!("{:.1} Mbit/s at {:.1} Mbit/s", seen.delivered_bps / 1e6, seen.virtual_bps / 1e6);
    let ratio = seen.delivered_bps / seen.virtual_bps;
    vec![
        claim(
            "A16",
            "the virtual queue of 36 flows fluctuates within the paper's scale",
            format!("99 % of the time below {scale_kb:.*} kB", if scale_kb < 1.0 { 2 } else { 0 }),
            format!("{:.0} kB", seen.p99_kb),
            seen.p99_kb <= scale_kb,
        ),
        claim(
            "A16",
            "it is almost never empty",
            "in less than 5 % of the samples",
            percent(seen.empty),
            seen.empty < 0.05,
        ),
        claim(
            "A16",
            "the rate that leaves is close to that of the virtual queue",
            "mean within 2 %",
            rates.clone(),
            (0.98..=1.02).contains(&ratio),
        ),
        claim("A17", "and not above it on average", "at most the same", rates, ratio <= 1.0),
    ]
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
