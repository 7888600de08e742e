//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A comparison with a number that is missing (NaN) does not hold.

use super::cases::{Measured, Part};
use super::over_time::{LOW_MS, Transition, VirtualQueue, peaks, transition, virtual_queue};
use super::text::{BLOATED, EIGHTY, HALF, HULL, ONE_BDP, QUARTER};
use crate::claim::{above, at_least, at_most, below, claim, percent, within};
use crate::statistics::{least, mean, most};
use std::ops::RangeInclusive;
use weir_config::AqmConfig;
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
    /// What may be missing to the bounds of a utilization target, as a share of one.
    band: f64,
}

impl Margins {
    /// Those of the paper.
    pub const FULL: Margins = Margins { utilization: 0.0, delay: 1.0, band: 0.0 };
    /// What runs may miss that contain some of the convergence.
    pub const SHORT: Margins = Margins { utilization: 0.005, delay: 1.5, band: 0.01 };
    /// The same with real TCP, for some seconds.
    #[cfg(feature = "live")]
    pub const SHORT_LIVE: Margins = Margins { utilization: 0.05, delay: 1.5, band: 0.04 };

    /// A range of delays around a number that the paper prints.
    fn of_delay(self, from: f64, to: f64) -> RangeInclusive<f64> {
        from / self.delay..=to * self.delay
    }
}

/// The least delay of two flows in figure 5b, in ms. That is of 10 Gbit/s; those of 1 Gbit/s are called "very
/// similar", which is taken as a third less; of other rates the paper says nothing.
fn least_of_two_flows_ms(m: &Measured) -> Option<f64> {
    match m.rate_bps() {
        rate if rate >= PAPER_BPS => Some(10.0),
        rate if rate >= 1e9 => Some(10.0 / 1.5),
        _ => None,
    }
}

/// The claims of one figure at one rate.
pub fn of(part: Part, measured: &Measured, margins: Margins) -> Vec<Claim> {
    match part {
        Part::Text => background(measured),
        Part::Five => long_lived(measured, margins),
        Part::Six => with_short_flows(measured, margins),
        Part::SevenA => by_series(measured, one_transition),
        Part::SevenB => by_series(measured, many_transitions),
        Part::EightA => headroom(measured, margins),
        Part::EightB => virtual_queue_in_detail(measured),
    }
}

/// The claims about each curve of a figure over time, named where there are several.
fn by_series(m: &Measured, claims: fn(&Measured) -> Vec<Claim>) -> Vec<Claim> {
    let series = m.series();
    let several = series.len() > 1;
    let one = |name: &&str| {
        let named = move |c: Claim| Claim { text: format!("{name}: {}", c.text), ..c };
        let found = claims(&m.only(|case| case.series == *name));
        found.into_iter().map(move |c| if several { named(c) } else { c }).collect::<Vec<_>>()
    };
    series.iter().flat_map(one).collect()
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
    let (few, many): (Vec<u32>, Vec<u32>) = flows.iter().partition(|n| **n < 9);
    let steered = |n| m.utilization(STEERED, n);
    let full = 0.99 - margins.utilization;
    let mut claims = Vec::new();
    for other in STATIC {
        let text = format!("below 9 flows {other} uses less of the link than GSP-AS");
        let used = |n| m.utilization(other, n);
        let both = |n| format!("{} to {}", percent(used(n)), percent(steered(n)));
        let held = !few.is_empty() && few.iter().all(|n| used(*n) < steered(*n));
        claims.push(claim("A3", text, "less with each number of flows", over_flows(&few, both), held));
    }
    for other in STATIC_AQMS {
        let text = format!("{other} loses no throughput from 9 flows on");
        let expected = format!("at least {}", percent(full));
        let used = |n| m.utilization(other, n);
        claims.push(each("A3", text, expected, &many, used, percent, |_, used| used >= full));
    }
    claims.push(small_tail_drop(m, &many));
    claims.extend(steered_delay(m, &flows, margins));
    claims.extend(large_tail_drop(m, &flows, margins));
    let asked = |n: u32| least([m.utilization(TAIL_DROP_LARGE, n), 0.99]) - margins.utilization;
    let text = "GSP-AS uses the link as its policy says, or as tail drop with 30 ms does";
    let expected = format!("at least {} or what tail drop has", percent(full));
    claims.push(each("A8", text, expected, &flows, steered, percent, |n, used| used >= asked(n)));
    claims
}

fn small_tail_drop(m: &Measured, many: &[u32]) -> Claim {
    let [small, gsp] = [TAIL_DROP_SMALL, STATIC[2]].map(|series| move |n| m.utilization(series, n));
    let text = "a small tail-drop buffer loses throughput with many flows too, for want of desynchronization";
    let both = |n| format!("{} to {}", percent(small(n)), percent(gsp(n)));
    let held = !many.is_empty() && many.iter().all(|n| small(*n) < gsp(*n));
    claim("A4", text, "below static GSP for 9 flows and more", over_flows(many, both), held)
}

/// "Clearly below 30 ms" is two thirds of it: with two flows the paper's figure shows 10 to 20 ms.
const CLEARLY_BELOW_MS: f64 = 20.0;

fn steered_delay(m: &Measured, flows: &[u32], margins: Margins) -> Vec<Claim> {
    let p95 = |n: u32| m.p95(STEERED, n);
    let clearly = CLEARLY_BELOW_MS * margins.delay;
    let text = "the 95 % delay of GSP-AS stays clearly below 30 ms";
    let expected = format!("at most {clearly:.0} ms");
    let mut claims = vec![each("A5", text, expected, flows, p95, ms, |_, delay| delay <= clearly)];
    if let Some(least) = least_of_two_flows_ms(m) {
        let text = "with 2 flows GSP-AS takes the delay that throughput needs, and not 30 ms";
        claims.push(within("A5", text, margins.of_delay(least, CLEARLY_BELOW_MS), p95(2), ms));
    }
    claims.push(falling(m, "the 95 % delay of GSP-AS falls with the number of flows", "each below the last"));
    let text = "with 36 flows the delay of GSP-AS is as low as 0.825 ms";
    claims.push(within("A6", text, margins.of_delay(0.5, 1.2), p95(36), ms));
    // 0.825 ms is a third of 2.5 ms.
    let bound = 0.5 * margins.delay * m.p95(STATIC_AQMS[1], 36);
    let text = "with 36 flows the delay of GSP-AS is less than half of that of the static set point";
    claims.push(below("A6", text, bound, p95(36), ms));
    for other in STATIC_AQMS {
        let text = format!("with 36 flows {other} stays at its set point");
        claims.push(within("A6", text, margins.of_delay(2.0, 3.0), m.p95(other, 36), ms));
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

fn large_tail_drop(m: &Measured, flows: &[u32], margins: Margins) -> [Claim; 2] {
    let used = |n: u32| m.utilization(TAIL_DROP_LARGE, n);
    let delay = |n: u32| m.p95(TAIL_DROP_LARGE, n);
    let text = "tail drop with 30 ms has all of the throughput";
    [
        each("A7", text, "at least 99 %", flows, used, percent, |_, used| used >= 0.99),
        each("A7", "and its delay", "25 ms to 31 ms", flows, delay, ms, |_, d| {
            (25.0 / margins.delay..=31.0).contains(&d)
        }),
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
    let text = "with 2 flows GSP-AS has even more throughput than tail drop with 30 ms";
    claims.push(above("A9", text, large, steered(few), percent));
    let others = most(STATIC.map(|series| m.p95(series, few)));
    let text = "and pays for it with more delay than any static set point (95 %)";
    claims.push(above("A9", text, others, m.p95(STEERED, few), ms));
    let text = "with 36 flows GSP-AS has less delay than with 2";
    claims.push(below("A9", text, m.p95(STEERED, few), m.p95(STEERED, many), ms));
    let text = "and that does not hurt its throughput";
    claims.push(at_least("A9", text, 0.99 - margins.utilization, steered(many), percent));
    let text = "the utilization of an AQM can fall to 60 to 80 % (the lower of CoDel and GSP with 2 flows)";
    claims.push(within("A10", text, 0.6..=0.8, next, percent));
    claims
}

/// "About", of a set point that moves by doubling: three tenths to either side.
fn about(id: &str, text: &str, said_ms: f64, value_ms: f64) -> Claim {
    within(id, text, 0.7 * said_ms..=1.3 * said_ms, value_ms, ms)
}

/// What the paper's two flows need to have the link again, in seconds.
const RECLAIMED_S: f64 = 18.0;
/// Rate of the link that the paper shows, in bit/s.
pub const PAPER_BPS: f64 = 10e9;
/// Claims with numbers of that rate that say nothing of others: identifier, a part of the sentence, and why.
pub const OF_THE_PAPERS_RATE: &[(&str, &str, &str)] = &[
    ("A6", "0.825", PRINTED),
    ("A6", "stays at its set point", PRINTED),
    (
        "A12",
        "the two flows have the link again",
        "the paper's 18 s are of 10 Gbit/s, and the time grows with the cube root of the rate",
    ),
];
const PRINTED: &str = "the paper prints the number for 10 Gbit/s; at a lower rate a packet takes longer, and a set point of as much time is \
    one of fewer packets";

/// Figure 7a.
fn one_transition(m: &Measured) -> Vec<Claim> {
    let seen: Vec<Transition> = m.recordings().map(transition).collect();
    if seen.is_empty() {
        return Vec::new();
    }
    let mean_of = |of: fn(&Transition) -> f64| mean(seen.iter().map(of));
    let signals = |n: Option<u64>| n.map_or("never".to_string(), |n| format!("with {n}"));
    let counts: Vec<String> =
        seen.iter().map(|s| format!("up {}, down {}", signals(s.up), signals(s.down))).collect();
    let quick = seen.iter().all(Transition::is_raised_quicker);
    let moved = seen.iter().filter(|s| s.moved_unsignalled).count();
    let reclaimed = mean_of(|s| s.reclaimed_s.unwrap_or(f64::NAN));
    let low = most(seen.iter().map(|s| s.low_ms));
    vec![
        about("A11", "two flows need a set point of about 11 ms", 11.0, mean_of(|s| s.before_ms)),
        claim(
            "A11",
            "with 36 flows the set point is low before 34 of them leave",
            format!("at most {LOW_MS} ms"),
            ms(low),
            low <= LOW_MS,
        ),
        about(
            "A11",
            "the set point regained when two flows have the link again",
            10.0,
            mean_of(|s| s.regained_ms),
        ),
        claim(
            "A11",
            "the set point is raised quicker than it was lowered",
            "up with fewer signals",
            counts.join("; "),
            quick,
        ),
        claim(
            "A12",
            "nothing is adapted while the two flows reclaim the link",
            "no move before the next discard",
            format!("moved in {moved} of {} runs", seen.len()),
            moved == 0 && reclaimed.is_finite(),
        ),
        within(
            "A12",
            "the two flows have the link again in the paper's time",
            0.5 * RECLAIMED_S..=1.5 * RECLAIMED_S,
            reclaimed,
            |s| format!("{s:.1} s"),
        ),
    ]
}

/// Figure 7b.
fn many_transitions(m: &Measured) -> Vec<Claim> {
    let peaks: Vec<f64> = m.recordings().flat_map(peaks).collect();
    if peaks.is_empty() {
        return Vec::new();
    }
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

/// "Effectively zero", in ms: the width of a line in the paper's figure 8a, whose axis is 6 ms long.
pub const EMPTY_MS: f64 = 0.1;

/// Figure 8a.
fn headroom(m: &Measured, margins: Margins) -> Vec<Claim> {
    let flows = m.flows();
    let many: Vec<u32> = flows.iter().copied().filter(|n| *n >= 6).collect();
    let band = 0.94 - margins.band..=0.95 + margins.band / 2.0;
    let in_band = |n: &u32| {
        let text = format!("with {n} flows the utilization stays within its bounds");
        within("A14", text, band.clone(), m.utilization(STEERED, *n), percent)
    };
    let mut claims: Vec<Claim> = flows.iter().map(in_band).collect();
    let bound = EMPTY_MS * margins.delay;
    let unit = |delay: f64| format!("{delay:.3} ms");
    let quantities: [(&str, &dyn Fn(u32) -> f64); 2] =
        [("mean", &|n| m.mean_delay(STEERED, n)), ("95 % quantile", &|n| m.p95(STEERED, n))];
    for (name, of) in quantities {
        let text = format!("from 6 flows on the real queue is effectively empty ({name})");
        claims.push(each("A15", text, format!("below {bound:.2} ms"), &many, of, unit, |_, d| d < bound));
    }
    // What is effectively empty is no overshoot.
    let rest = most([most(many.iter().map(|n| m.p95(STEERED, *n))), EMPTY_MS]);
    for n in flows.into_iter().filter(|n| *n < 6) {
        let text = format!("with {n} flows the virtual queue overshoots into the real one");
        let found = above("A15", text, rest, m.p95(STEERED, n), unit);
        claims.push(Claim { expected: format!("95 % delay {}", found.expected), ..found });
    }
    claims
}

/// The claim about the threshold of the virtual queue, which is the default.
pub const AROUND: &str = "and around its threshold";

/// "Briefly": a round-trip time, after which a signal shows.
const BRIEFLY_MS: f64 = 50.0;

/// Figure 8b.
fn virtual_queue_in_detail(m: &Measured) -> Vec<Claim> {
    let seen: Vec<VirtualQueue> = m.recordings().map(virtual_queue).collect();
    if seen.is_empty() {
        return Vec::new();
    }
    let mean_of = |of: fn(&VirtualQueue) -> f64| mean(seen.iter().map(of));
    // The paper's scale, which is for 10 Gbit/s.
    let scale_kb = 800.0 * m.rate_bps() / 10e9;
    let (delivered, rate) = (mean_of(|v| v.delivered_bps), mean_of(|v| v.virtual_bps));
    let rates = format!("{:.1} Mbit/s at {:.1} Mbit/s", delivered / 1e6, rate / 1e6);
    let ratio = delivered / rate;
    let near = (0.98..=1.02).contains(&ratio);
    let text = "the virtual queue of 36 flows fluctuates within the paper's scale";
    let kb = |value: f64| format!("{value:.*} kB", if value < 1.0 { 2 } else { 0 });
    let scale = below("A16", text, scale_kb, mean_of(|v| v.p99_kb), kb);
    let (empty, above, long) = (mean_of(|v| v.empty), mean_of(|v| v.above), mean_of(|v| v.long));
    let stretch = mean_of(|v| v.stretch_p99_ms);
    let close = "the rate that leaves is close to that of the virtual queue";
    vec![
        Claim { expected: format!("99 % of the time {}", scale.expected), ..scale },
        within("A16", AROUND, 0.25..=0.75, long, |share| format!("{} of the time above it", percent(share))),
        claim(
            "A16",
            "it is almost never empty",
            "in less than 2 % of the time",
            percent(empty),
            empty < 0.02,
        ),
        claim("A16", close, "mean within 2 %", rates.clone(), near),
        claim(
            "A17",
            "the rate exceeds that of the virtual queue briefly",
            "in some samples",
            percent(above),
            above > 0.0,
        ),
        at_most("A17", "and for no longer than a round-trip time, 99 times in 100", BRIEFLY_MS, stretch, ms),
        claim("A17", "and not on average", "at most the same", rates, ratio <= 1.0),
    ]
}

/// Background and remarks: what the paper says without a figure.
fn background(m: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    let p95 = m.only(|case| case.series == BLOATED).mean(|v| v.link.delay_ms.p95);
    let text = "a buffer of 1 MB before 2 Mbit/s delays by several seconds";
    claims.push(at_least("A1", text, 2000.0, p95, ms));
    let codel = AqmConfig::new("codel");
    let of = |name: &str| {
        let value = codel.as_ref().and_then(|codel| codel.get(name)).map(|value| value.to_string());
        value.unwrap_or_default()
    };
    let (target, interval) = (of("target"), of("interval"));
    claims.push(claim(
        "A2",
        "CoDel's default target is 5 ms, 5 % of an interval of 100 ms",
        "5ms of 100ms",
        format!("{target} of {interval}"),
        (target.as_str(), interval.as_str()) == ("5ms", "100ms"),
    ));
    let spare = m.only(|case| case.series == HALF);
    let used = spare.mean(|v| v.link.utilization);
    let text = "a policy can keep half of a link free (utilization_target 50 %, 9 flows)";
    claims.push(within("A18", text, 0.49..=0.5, used, percent));
    let lower = m.only(|case| case.series == EIGHTY);
    for n in lower.flows() {
        let text = format!("a policy of 79 to 80 % is held with {n} flows");
        claims.push(within("A14", text, 0.79..=0.80, lower.utilization(EIGHTY, n), percent));
    }
    let hull = m.only(|case| case.series == HULL);
    let (used, delay) = (hull.mean(|v| v.link.utilization), hull.mean(|v| v.link.delay_ms.p95));
    let text = "HULL's phantom queue at 95 % of the link leaves the rest free, with DCTCP";
    claims.push(within("A19", text, 0.90..=0.95, used, percent));
    claims.push(below("A19", "and so the real queue stays short (95 %)", 1.0, delay, ms));
    for (series, what, _) in ONE_BDP {
        let whole = m.only(|case| case.series == series);
        let flows = whole.flows();
        let used = |n: u32| whole.utilization(series, n);
        let text = format!("a tail-drop buffer of one bandwidth-delay product keeps the link busy ({what})");
        claims.push(each("A20", text, "at least 99 %", &flows, used, percent, |_, used| used >= 0.99));
    }
    let many = m.utilization(QUARTER, 36);
    let text = "36 desynchronized flows need less: GSP at a quarter of it";
    claims.push(at_least("A20", text, 0.99, many, percent));
    claims
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
