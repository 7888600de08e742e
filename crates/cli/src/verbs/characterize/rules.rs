//! The verdicts: each follows from numbers by a rule that is printed beside it.
//!
//! Every rule makes one number of the runs, of which less is better, and has two bounds.

use super::experiments::*;
use super::measure::{Case, Numbers};
use super::plan::datagram_rate;
use serde::Serialize;

/// What became of an aspect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The number is within the first bound.
    Good,
    /// It lies between both.
    Fair,
    /// It is beyond the second.
    Breaks,
}

impl Judgement {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Good => "good",
            Judgement::Fair => "fair",
            Judgement::Breaks => "breaks",
        }
    }
}

/// What the experiments say about one aspect.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The aspect.
    pub aspect: &'static str,
    /// Sections of RFC 7928.
    pub section: &'static str,
    /// The verdict.
    pub verdict: Judgement,
    /// The number that is judged; less is better. None where it does not apply, as of marks without any.
    pub value: Option<f64>,
    /// What was measured, in words.
    pub measured: String,
    /// How the number is made, and its bounds.
    pub rule: String,
}

/// A number and what it was made from; no number where the algorithm does not do what is judged.
struct MeasuredValue {
    value: Option<f64>,
    measured: String,
}

fn found(value: f64, measured: String) -> Option<MeasuredValue> {
    Some(MeasuredValue { value: Some(value), measured })
}

/// How an aspect is judged.
struct Rule {
    aspect: &'static str,
    section: &'static str,
    /// What the number is.
    quantity: &'static str,
    of: fn(&Results) -> Option<MeasuredValue>,
    good: f64,
    breaks: f64,
}

/// All experiments that were run.
pub struct Results(pub Vec<Case>);

impl Results {
    /// An experiment, if it was run to its end.
    pub fn get(&self, id: &str) -> Option<&Case> {
        self.0.iter().find(|case| case.experiment.id == id)
    }

    fn all<'a>(&'a self, ids: &'a [&'a str]) -> impl Iterator<Item = &'a Case> {
        ids.iter().filter_map(|id| self.get(id))
    }
}

/// The experiments whose flows always send as much as they can over a link of constant rate.
const LONG_LIVED: [&str; 5] = [RENO, CUBIC, LEVELS[0], LEVELS[1], LEVELS[2]];
/// Parts of the delay under tail drop where some packets have a queue of their own.
const SEPARATE_DELAY: (f64, f64) = (0.1, 0.33);
/// Parts of the delay under tail drop.
const SHORT_DELAY: (f64, f64) = (0.33, 0.67);

const RULES: [Rule; 24] = [
    Rule {
        aspect: "short queue with long-lived flows",
        section: "5.1, 5.2, 8.2",
        quantity: "largest 95 % delay as a share of that under tail drop",
        of: |r| worst_delay(r, &LONG_LIVED, |n| n.delay_ms.p95, "p95"),
        good: SHORT_DELAY.0,
        breaks: SHORT_DELAY.1,
    },
    Rule {
        aspect: "full link with long-lived flows",
        section: "5.1, 5.2, 8.2",
        quantity: "largest loss of utilization against tail drop, as a share of the rate",
        of: |r| worst_use(r, &LONG_LIVED),
        good: 0.02,
        breaks: 0.1,
    },
    Rule {
        aspect: "delay independent of the number of flows",
        section: "8.2.2 to 8.2.4",
        quantity: "95 % delay under heavy congestion, in that under mild congestion or 5 ms if that is more",
        of: growth,
        good: 1.5,
        breaks: 3.0,
    },
    Rule {
        aspect: "congestion that varies",
        section: "8.2.5",
        quantity: "95 % delay as a share of that under tail drop",
        of: |r| worst_delay(r, &[VARYING_LEVEL], |n| n.delay_ms.p95, "p95"),
        good: SHORT_DELAY.0,
        breaks: SHORT_DELAY.1,
    },
    // Where the rate falls for a tenth of a second only, most of what waits then has come before: no
    // algorithm helps.
    Rule {
        aspect: "delay when the rate falls to a tenth",
        section: "8.2.6",
        quantity: "99 % delay as a share of that under tail drop",
        of: |r| worst_delay(r, &[SLOW], |n| n.delay_ms.p99, "p99"),
        good: SHORT_DELAY.0,
        breaks: SHORT_DELAY.1,
    },
    Rule {
        aspect: "use of a rate that varies",
        section: "8.2.6",
        quantity: "largest loss of utilization against tail drop, as a share of what the link could carry",
        of: |r| worst_use(r, &[SLOW, FAST]),
        good: 0.05,
        breaks: 0.15,
    },
    Rule {
        aspect: "flood of datagrams",
        section: "5.3",
        quantity: "95 % delay as a share of that under tail drop",
        of: |r| worst_delay(r, &[FLOOD], |n| n.delay_ms.p95, "p95"),
        good: SHORT_DELAY.0,
        breaks: SHORT_DELAY.1,
    },
    Rule {
        aspect: "TCP beside unresponsive datagrams",
        section: "5.3",
        quantity: "share of what datagrams leave of the rate that the Reno flow does not use",
        of: left_over,
        good: 0.3,
        breaks: 0.65,
    },
    // Where queues are short, LEDBAT sees no delay to yield to: RFC 7928 asks to tell it.
    Rule {
        aspect: "background transfers that yield",
        section: "5.4",
        quantity: "share of the goodput that the LEDBAT flow has beside a Reno flow",
        of: background,
        good: 0.15,
        breaks: 0.4,
    },
    Rule {
        aspect: "short transfers",
        section: "5.1.2",
        quantity: "mean completion time in that under tail drop",
        of: |r| worst_time(r, &[SHORT, SHORT_SMALL], "short"),
        good: 1.05,
        breaks: 1.5,
    },
    Rule {
        aspect: "web pages in bursts",
        section: "7.2",
        quantity: "largest goodput of web flows under tail drop in that here",
        of: web,
        good: 1.05,
        breaks: 1.25,
    },
    Rule {
        aspect: "video in bursts",
        section: "7.2",
        quantity: "largest mean time of a segment in that under tail drop",
        of: |r| worst_time(r, &[BURSTS[2], BURSTS[3]], "video"),
        good: 1.05,
        breaks: 1.5,
    },
    Rule {
        aspect: "calls in a mix of traffic",
        section: "9.1",
        quantity: "share of a call's datagrams that is discarded",
        of: calls,
        good: 0.01,
        breaks: 0.05,
    },
    Rule {
        aspect: "fairness between round-trip times",
        section: "6.2",
        quantity: "exponent of goodput over round-trip time, without its sign: 0 is equal, 1 what equal losses give",
        of: rtt_exponent,
        good: 1.0,
        breaks: 1.5,
    },
    Rule {
        aspect: "fairness between equal flows",
        section: "6.1, 8.2",
        quantity: "largest distance of Jain's index from 1, mild to heavy congestion",
        of: unfairness,
        good: 0.05,
        breaks: 0.2,
    },
    Rule {
        aspect: "ECN instead of losses",
        section: "4.5",
        quantity: "share of lost packets with ECN in that without, medium congestion",
        of: ecn,
        good: 0.1,
        breaks: 0.5,
    },
    Rule {
        aspect: "flows with and without ECN together",
        section: "4.5",
        quantity: "goodput of one kind in that of the other, the larger way round",
        of: |r| either_way(r.get(ECN_HALF)?.aqm.ratio(0, 1)?, "with ECN", "without", "goodput"),
        good: 1.5,
        breaks: 3.0,
    },
    Rule {
        aspect: "independence of packet sizes",
        section: "4.4",
        quantity: "packets per second of flows with small packets in those with large ones, the larger way round",
        of: packets,
        good: 1.5,
        breaks: 3.0,
    },
    Rule {
        aspect: "traffic both ways",
        section: "9.2",
        quantity: "loss of utilization against tail drop in the worse direction, as a share of the rate",
        of: |r| worst_use(r, &[BOTH_WAYS]),
        good: 0.05,
        breaks: 0.15,
    },
    Rule {
        aspect: "two managed queues in a row",
        section: "10.2",
        quantity: "95 % delay of the longer queue as a share of that under tail drop",
        of: |r| worst_delay(r, &[IN_SERIES], |n| n.delay_ms.p95, "p95"),
        good: SHORT_DELAY.0,
        breaks: SHORT_DELAY.1,
    },
    Rule {
        aspect: "short queue for L4S",
        section: "RFC 9331",
        quantity: "99 % delay of packets of L4S as a share of that under tail drop",
        of: |r| queue_of_first(r, L4S),
        good: SEPARATE_DELAY.0,
        breaks: SEPARATE_DELAY.1,
    },
    Rule {
        aspect: "L4S and classic flows together",
        section: "RFC 9331",
        quantity: "goodput of one kind in that of the other, the larger way round",
        of: |r| either_way(r.get(L4S)?.aqm.ratio(0, 1)?, "of L4S", "of CUBIC", "goodput"),
        good: 1.5,
        breaks: 3.0,
    },
    Rule {
        aspect: "games of NQB beside downloads",
        section: "RFC 9956",
        quantity: "99 % of the time that packets of a game wait as a share of that under tail drop",
        of: |r| queue_of_first(r, NQB),
        good: SEPARATE_DELAY.0,
        breaks: SEPARATE_DELAY.1,
    },
    Rule {
        aspect: "games of NQB beside its misuse",
        section: "RFC 9956, 9957",
        quantity: "99 % of the time that packets of a game wait as a share of that under tail drop",
        of: |r| queue_of_first(r, NQB_MISUSED),
        good: SEPARATE_DELAY.0,
        breaks: SEPARATE_DELAY.1,
    },
];

/// Judges every aspect of which the experiments were run.
pub fn judge(results: &Results) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| rule.judge(results)).collect()
}

impl Rule {
    fn judge(&self, results: &Results) -> Option<Finding> {
        let MeasuredValue { value, measured } = (self.of)(results)?;
        // A number that is none, as after a division of nothing by nothing, is not good.
        let verdict = match value {
            Some(value) if value <= self.good => Judgement::Good,
            Some(value) if value <= self.breaks => Judgement::Fair,
            _ => Judgement::Breaks,
        };
        let Rule { aspect, section, quantity, good, breaks, .. } = self;
        let rule = format!("{quantity}; good up to {good}, breaks above {breaks}");
        let value = value.filter(|v| v.is_finite());
        Some(Finding { aspect, section, verdict, value, measured, rule })
    }
}

/// The experiment of which a number is largest; a number that is missing is larger than any.
fn worst<'a>(cases: impl Iterator<Item = &'a Case>, of: impl Fn(&Case) -> f64) -> Option<(&'a Case, f64)> {
    let known = |x: f64| if x.is_nan() { f64::INFINITY } else { x };
    cases.map(|case| (case, known(of(case)))).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn worst_delay(
    results: &Results,
    ids: &[&str],
    of: fn(&Numbers) -> f64,
    name: &str,
) -> Option<MeasuredValue> {
    let (case, share) = worst(results.all(ids), |case| of(&case.aqm) / of(&case.tail_drop))?;
    let (ours, theirs) = (of(&case.aqm), of(&case.tail_drop));
    found(share, format!("{name} {ours:.1} ms, tail drop {theirs:.1} ms ({})", case.experiment.id))
}

fn worst_use(results: &Results, ids: &[&str]) -> Option<MeasuredValue> {
    let (case, missing) = worst(results.all(ids), |c| c.tail_drop.utilization - c.aqm.utilization)?;
    let [ours, theirs] = [&case.aqm, &case.tail_drop].map(|n| n.utilization * 100.0);
    found(missing, format!("{ours:.1} %, tail drop {theirs:.1} % ({})", case.experiment.id))
}

fn growth(results: &Results) -> Option<MeasuredValue> {
    let p95 = |id| Some(results.get(id)?.aqm.delay_ms.p95);
    let (mild, heavy) = (p95(LEVELS[0])?, p95(LEVELS[2])?);
    found(heavy / mild.max(5.0), format!("p95 {mild:.1} ms mild, {heavy:.1} ms heavy"))
}

fn left_over(results: &Results) -> Option<MeasuredValue> {
    let case = results.get(UNRESPONSIVE)?;
    let rate = case.scenario.rate().as_bps_f64();
    let left = rate - datagram_rate(&case.scenario, 1)?;
    let used = |n: &Numbers| n.class(0).map_or(0.0, |class| class.goodput_bps / left);
    let (ours, theirs) = (used(&case.aqm), used(&case.tail_drop));
    let text = format!("uses {:.0} % of what is left, under tail drop {:.0} %", ours * 100.0, theirs * 100.0);
    found(1.0 - ours, text)
}

fn background(results: &Results) -> Option<MeasuredValue> {
    let case = results.get(LBE)?;
    let [ours, theirs] = [&case.aqm, &case.tail_drop].map(|n| share_of_second(n).unwrap_or(f64::NAN));
    found(ours, format!("has {:.0} %, under tail drop {:.0} %", ours * 100.0, theirs * 100.0))
}

fn worst_time(results: &Results, ids: &[&str], class: &str) -> Option<MeasuredValue> {
    let time = |n: &Numbers| n.named(class).and_then(|c| c.transfer_s).unwrap_or(f64::NAN);
    let (case, ratio) = worst(results.all(ids), |case| time(&case.aqm) / time(&case.tail_drop))?;
    let (ours, theirs) = (time(&case.aqm), time(&case.tail_drop));
    found(ratio, format!("{ours:.2} s, tail drop {theirs:.2} s ({})", case.experiment.id))
}

fn web(results: &Results) -> Option<MeasuredValue> {
    let goodput = |n: &Numbers| n.named("web").map_or(f64::NAN, |class| class.goodput_bps);
    let (case, ratio) = worst(results.all(&BURSTS), |case| goodput(&case.tail_drop) / goodput(&case.aqm))?;
    let [ours, theirs] = [&case.aqm, &case.tail_drop].map(|n| goodput(n) / 1e3);
    found(ratio, format!("{ours:.0} kbit/s each, tail drop {theirs:.0} kbit/s ({})", case.experiment.id))
}

fn calls(results: &Results) -> Option<MeasuredValue> {
    let case = results.get(MIX)?;
    let rate = datagram_rate(&case.scenario, 0)?;
    let lost = |n: &Numbers| n.class(0).map_or(f64::NAN, |call| (1.0 - call.goodput_bps / rate).max(0.0));
    let [ours, theirs] = [&case.aqm, &case.tail_drop].map(lost);
    found(ours, format!("{:.2} % lost, under tail drop {:.2} %", ours * 100.0, theirs * 100.0))
}

/// Share of both flows' goodput that the second one has.
pub fn share_of_second(numbers: &Numbers) -> Option<f64> {
    let ratio = numbers.ratio(1, 0)?;
    Some(ratio / (1.0 + ratio))
}

/// The least-squares slope through the origin of the logarithm of the goodput's ratio over that of the
/// round-trip times.
fn rtt_exponent(results: &Results) -> Option<MeasuredValue> {
    let slope = |of: fn(&Case) -> &Numbers| {
        let (mut xy, mut xx) = (0.0, 0.0);
        for (id, rtt_ms) in RTTS {
            let ratio = of(results.get(id)?).ratio(1, 0).unwrap_or(f64::NAN);
            let x = libm::log(100.0 / rtt_ms);
            (xy, xx) = (xy + x * libm::log(ratio), xx + x * x);
        }
        Some(xy / xx)
    };
    let (ours, theirs) = (slope(|case| &case.aqm)?, slope(|case| &case.tail_drop)?);
    found(ours.abs(), format!("goodput as RTT^-{ours:.2}, under tail drop RTT^-{theirs:.2}"))
}

fn unfairness(results: &Results) -> Option<MeasuredValue> {
    let index = |n: &Numbers| n.fairness.unwrap_or(f64::NAN);
    let (case, distance) = worst(results.all(&LEVELS), |case| 1.0 - index(&case.aqm))?;
    let (ours, theirs) = (index(&case.aqm), index(&case.tail_drop));
    found(distance, format!("Jain's index {ours:.3}, tail drop {theirs:.3} ({})", case.experiment.id))
}

fn ecn(results: &Results) -> Option<MeasuredValue> {
    let (with, without) = (&results.get(ECN)?.aqm, &results.get(LEVELS[1])?.aqm);
    if with.marked == 0.0 {
        return Some(MeasuredValue { value: None, measured: "marks nothing".into() });
    }
    let [lost, marked, before] = [with.loss, with.marked, without.loss].map(|share| share * 100.0);
    let text = format!("{marked:.2} % marked, {lost:.2} % lost; without ECN {before:.2} % lost");
    found(with.loss / without.loss, text)
}

/// How long packets of the first class wait.
fn queue_of_first(results: &Results, id: &str) -> Option<MeasuredValue> {
    let case = results.get(id)?;
    let p99 = |n: &Numbers| n.class(0).and_then(|class| class.queue_p99_ms).unwrap_or(f64::NAN);
    let (ours, theirs) = (p99(&case.aqm), p99(&case.tail_drop));
    found(ours / theirs, format!("p99 {ours:.1} ms, tail drop {theirs:.1} ms"))
}

fn either_way(ratio: f64, one: &str, other: &str, quantity: &str) -> Option<MeasuredValue> {
    let larger = ratio.max(1.0 / ratio);
    found(larger, format!("{quantity} {one} {ratio:.2} times that {other}"))
}

fn packets(results: &Results) -> Option<MeasuredValue> {
    let case = results.get(PACKETS)?;
    // Goodput counts payloads; TCP and IP take 52 bytes of a packet.
    let payload = |group: usize| f64::from(case.scenario.mtu(&case.scenario.flows[group])) - 52.0;
    let ratio = case.aqm.ratio(1, 0)? * payload(0) / payload(1);
    either_way(ratio, "with small packets", "with large ones", "packets per second")
}

/// What it is good at, what lies between, and where it breaks: a sentence each.
pub fn summary(name: &str, findings: &[Finding]) -> [String; 3] {
    let of = |verdict: Judgement| {
        let aspects: Vec<&str> = findings.iter().filter(|f| f.verdict == verdict).map(|f| f.aspect).collect();
        if aspects.is_empty() { "nothing".to_string() } else { aspects.join(", ") }
    };
    let (good, fair, breaks) = (of(Judgement::Good), of(Judgement::Fair), of(Judgement::Breaks));
    [
        format!("{name} is good at: {good}."),
        format!("It is fair at: {fair}."),
        format!("It breaks at: {breaks}."),
    ]
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
