//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A comparison with a number that is missing (NaN) does not hold.

use super::cases::{Measured, Part};
use super::over_time::{LOW_MS, peaks, transition, virtual_queue};
use crate::claim::{at_least, below, claim, percent, within};
use crate::statistics::{least, most};
use weir_measure::result::Claim;

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
    /// Those of the paper.
    pub const FULL: Margins = Margins { utilization: 0.0, delay: 1.0, band: (0.94, 0.95) };
    /// What runs may miss that contain some of the convergence.
    pub const SHORT: Margins = Margins { utilization: 0.005, delay: 1.5, band: (0.93, 0.955) };
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

/// `value (number of flows)` for each number of flows.
fn over_flows(flows: &[u32], text: impl Fn(u32) -> String) -> String {
    flows.iter().map(|n| format!("{} ({n})", text(*n))).collect::<Vec<_>>().join(", ")
}

/// A claim about a value with each number of flows, of which there must be any.
fn each(
    id: &str,
    text: impl Into<String>,
    expected: impl Into<String>,
    flows: &[u32],
    value: impl Fn(u32) -> f64,
    unit: impl Fn(f64) -> String,
    held: impl Fn(u32, f64) -> bool,
) -> Claim {
    let all = !flows.is_empty() && flows.iter().all(|n| held(*n, value(*n)));
    claim(id, text, expected, over_flows(flows, |n| unit(value(n))), all)
}

/// Figure 5.
fn long_lived(m: &Measured, margins: Margins) -> Vec<Claim> {
    let flows = m.flows();
    let many: Vec<u32> = flows.iter().copied().filter(|n| *n >= 9).collect();
    let steered = |n| m.utilization(STEERED, n);
    let full = 0.99 - margins.utilization;
    let mut claims = Vec::new();
    for other in STATIC {
        let text = format!("with 2 flows {other} uses less of the link than GSP-AS");
        claims.push(below("A3", text, steered(2), m.utilization(other, 2), percent));
    }
    for other in STATIC_AQMS {
        let text = format!("{other} loses no throughput from 9 flows on");
        let expected = format!("at least {}", percent(full));
        let used = |n| m.utilization(other, n);
        claims.push(each("A3", text, expected, &many, used, percent, |_, used| used >= full));
    }
    claims.push(small_tail_drop(m, &many));
    claims.extend(steered_delay(m, &flows, margins));
    claims.extend(large_tail_drop(m, &flows));
    let least = |n: u32| m.utilization(TAIL_DROP_LARGE, n).min(0.99) - margins.utilization;
    let text = "GSP-AS uses the link as its policy says, or as tail drop with 30 ms does";
    let expected = format!("at least {} or what tail drop has", percent(full));
    claims.push(each("A8", text, expected, &flows, steered, percent, |n, used| used >= least(n)));
    claims
}

fn small_tail_drop(m: &Measured, many: &[u32]) -> Claim {
    let [small, gsp] = [TAIL_DROP_SMALL, STATIC[2]].map(|series| move |n| m.utilization(series, n));
    let text = "a small tail-drop buffer loses throughput with many flows too, for want of desynchronization";
    let both = |n| format!("{} to {}", percent(small(n)), percent(gsp(n)));
    let held = !many.is_empty() && many.iter().all(|n| small(*n) < gsp(*n));
    claim("A4", text, "below static GSP for 9 flows and more", over_flows(many, both), held)
}

fn steered_delay(m: &Measured, flows: &[u32], margins: Margins) -> Vec<Claim> {
    let p95 = |n: u32| m.p95(STEERED, n);
    let range = |from: f64, to: f64| from / margins.delay..=to * margins.delay;
    let text = "the 95 % delay of GSP-AS stays clearly below 30 ms";
    let mut claims = vec![each("A5", text, "below 30 ms", flows, p95, ms, |_, delay| delay < 30.0)];
    let text = "with 2 flows GSP-AS takes the delay that throughput needs, and not 30 ms";
    claims.push(within("A5", text, range(10.0, 20.0), p95(2), ms));
    claims.push(falling(m, "the 95 % delay of GSP-AS falls with the number of flows", "each below the last"));
    let text = "with 36 flows the delay of GSP-AS is as low as 0.825 ms";
    claims.push(within("A6", text, range(0.5, 1.2), p95(36), ms));
    for other in STATIC_AQMS {
        let text = format!("with 36 flows {other} stays at its set point");
        claims.push(within("A6", text, range(2.0, 3.0), m.p95(other, 36), ms));
    }
    claims
}

/// Whether more flows make less delay.
pub fn falling(m: &Measured, text: &str, expected: &str) -> Claim {
    let flows = m.flows();
    let p95 = |n: u32| m.p95(STEERED, n);
    let falls = flows.len() > 1 && flows.windows(2).all(|pair| p95(pair[1]) < p95(pair[0]));
    claim("A6", text, expected, over_flows(&flows, |n| ms(p95(n))), falls)
}

fn large_tail_drop(m: &Measured, flows: &[u32]) -> [Claim; 2] {
    let used = |n: u32| m.utilization(TAIL_DROP_LARGE, n);
    let delay = |n: u32| m.p95(TAIL_DROP_LARGE, n);
    let text = "tail drop with 30 ms has all of the throughput";
    [
        each("A7", text, "at least 99 %", flows, used, percent, |_, used| used >= 0.99),
        each("A7", "and its delay", "25 ms to 31 ms", flows, delay, ms, |_, d| (25.0..=31.0).contains(&d)),
    ]
}

/// Figure 6.
fn with_short_flows(m: &Measured, margins: Margins) -> Vec<Claim> {
    const CLEARLY: f64 = 0.03;
    let (few, many) = (2, 36);
    let steered = |n| m.utilization(STEERED, n);
    let mut claims = Vec::new();
    for other in STATIC {
        let text = format!("with 2 flows {other} loses clearly against GSP-AS");
        let most = steered(few) - CLEARLY + margins.utilization;
        claims.push(below("A9", text, most, m.utilization(other, few), percent));
    }
    let small = m.utilization(TAIL_DROP_SMALL, few);
    let next = least(STATIC_AQMS.map(|series| m.utilization(series, few)));
    let mean = m.mean_delay(TAIL_DROP_SMALL, few);
    let text = "with 2 flows the small tail-drop buffer is the worst of all";
    claims.push(below("A9", text, next, small, percent));
    let text = "because it drains completely: it has practically no delay";
    claims.push(claim("A9", text, "mean below 0.5 ms", ms(mean), mean < 0.5));
    let large = m.utilization(TAIL_DROP_LARGE, few) - margins.utilization;
    let text = "with 2 flows GSP-AS uses the link at least as well as tail drop with 30 ms";
    claims.push(at_least("A9", text, large, steered(few), percent));
    let text = "with 36 flows GSP-AS has less delay than with 2";
    claims.push(below("A9", text, m.p95(STEERED, few), m.p95(STEERED, many), ms));
    let text = "and that does not hurt its throughput";
    claims.push(at_least("A9", text, 0.99 - margins.utilization, steered(many), percent));
    let text = "the utilization of an AQM can fall to 60 to 80 %";
    let expected = "the lower of CoDel and GSP with 2 flows below 80 %";
    claims.push(claim("A10", text, expected, percent(next), next < 0.8));
    claims
}

/// Figure 7a.
fn one_transition(m: &Measured) -> Vec<Claim> {
    let Some(recording) = m.recording() else { return Vec::new() };
    let seen = transition(recording);
    let regained = seen.before_ms * 2.0 / 3.0;
    let signals = |n: Option<u64>| n.map_or("never".to_string(), |n| format!("with {n}"));
    let counts = format!("up {}, down {}", signals(seen.up), signals(seen.down));
    let quick = seen.up.zip(seen.down).is_some_and(|(up, down)| up < down);
    let low = format!("at most {LOW_MS} ms");
    let moved = if seen.moved_unsignalled { "moved" } else { "none" };
    let reclaimed = seen.reclaimed_s.map_or("never".to_string(), |s| format!("{s:.1} s"));
    let text = "the set point is regained when two flows have the link again";
    vec![
        claim(
            "A11",
            "two flows need a set point of about 11 ms",
            "7 ms to 20 ms",
            ms(seen.before_ms),
            (7.0..=20.0).contains(&seen.before_ms),
        ),
        claim(
            "A11",
            "with 36 flows the set point is low before 34 of them leave",
            low,
            ms(seen.low_ms),
            seen.low_ms <= LOW_MS,
        ),
        at_least("A11", text, regained, seen.regained_ms, ms),
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
            format!("{moved}, after {reclaimed}"),
            !seen.moved_unsignalled && seen.reclaimed_s.is_some(),
        ),
    ]
}

/// Figure 7b.
fn many_transitions(m: &Measured) -> Vec<Claim> {
    let Some(recording) = m.recording() else { return Vec::new() };
    let peaks = peaks(recording);
    let judged = |text: &str, expected: &str, held: &dyn Fn(f64) -> bool| {
        let found = peaks.iter().map(|p| ms(*p)).collect::<Vec<_>>().join(", ");
        claim("A13", text, expected, found, !peaks.is_empty() && peaks.iter().all(|p| held(*p)))
    };
    let high = "when the load flips every 20 s the set point reaches almost the value that two flows need";
    let stable = "and the control stays stable: no set point that two flows would not get by doubling";
    vec![
        judged(high, "at least 7 ms in every period", &|peak| peak >= 7.0),
        judged(stable, "at most 20 ms in every period", &|peak| peak <= 20.0),
    ]
}

/// Figure 8a.
fn headroom(m: &Measured, margins: Margins) -> Vec<Claim> {
    let flows = m.flows();
    let many: Vec<u32> = flows.iter().copied().filter(|n| *n >= 6).collect();
    let band = margins.band.0..=margins.band.1;
    let in_band = |n: &u32| {
        let text = format!("with {n} flows the utilization stays within its bounds");
        within("A14", text, band.clone(), m.utilization(STEERED, *n), percent)
    };
    let mut claims: Vec<Claim> = flows.iter().map(in_band).collect();
    let mean = |n: u32| m.mean_delay(STEERED, n);
    let bound = 0.1 * margins.delay;
    let text = "from 6 flows on the real queue is effectively empty";
    let (expected, unit) = (format!("mean below {bound:.2} ms"), |mean: f64| format!("{mean:.3} ms"));
    claims.push(each("A15", text, expected, &many, mean, unit, |_, mean| mean < bound));
    let (few, rest) = (m.p95(STEERED, 2), most(many.iter().map(|n| m.p95(STEERED, *n))));
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
    let near = (0.98..=1.02).contains(&ratio);
    let text = "the virtual queue of 36 flows fluctuates within the paper's scale";
    let expected = format!("99 % of the time below {scale_kb:.*} kB", if scale_kb < 1.0 { 2 } else { 0 });
    let found = format!("{:.0} kB", seen.p99_kb);
    let empty = (percent(seen.empty), seen.empty < 0.05);
    let close = "the rate that leaves is close to that of the virtual queue";
    vec![
        claim("A16", text, expected, found, seen.p99_kb <= scale_kb),
        claim("A16", "it is almost never empty", "in less than 5 % of the time", empty.0, empty.1),
        claim("A16", close, "mean within 2 %", rates.clone(), near),
        claim("A17", "and not above it on average", "at most the same", rates, ratio <= 1.0),
    ]
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
