//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! They are the same for both arms. A claim is left out where a case that it compares was not run. "Reaches"
//! and "within" are about the 95th percentile unless the paper says otherwise.

use super::cases::{ALGORITHMS, Algorithm, Direction, RTTS, Study, TARGET_MS, USUAL_RTT};
use super::measured::Measured;
use crate::claim::{above, at_least, at_most, below, claim, within};
use crate::statistics::{least, most};
use weir_aqm::algorithms::asqm::{Asqm, Params};
use weir_aqm::{Algorithm as _, Aqm, Ecn, Moment, Packet, Sample, Verdict, View};
use weir_measure::result::Claim;
use weir_sense::probe::{IPV4_LEN, Settings};
use weir_units::{Bytes, Duration, Rate, Time};

/// Queueing that the figures of CoDel and PIE show at most, off-peak, in ms.
const OTHERS_EXCESS: f64 = 25.0;
/// The same for ASQM.
const OWN_EXCESS: f64 = 50.0;

/// All claims that can be judged.
pub fn all(cases: &Measured) -> Vec<Claim> {
    let mut claims: Vec<Claim> = overhead(cases).into_iter().collect();
    for way in cases.ways() {
        let mut found = off_peak(cases, way);
        found.extend(peak(cases, way));
        found.extend(both(cases, way));
        claims.extend(found.into_iter().map(|c| Claim { text: format!("{}: {}", way.name(), c.text), ..c }));
    }
    claims.extend(shortfall(cases));
    claims.extend(long_rtt(cases));
    claims.extend(ranges(cases));
    claims.extend(half_target(cases));
    claims.extend(of_kernel(cases));
    claims.extend(voice(cases));
    claims
}

fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}

/// How many times as much a deviation is as another one.
fn times(value: f64) -> String {
    format!("{value:.2} times")
}

fn mbps(value: f64) -> String {
    format!("{value:.2} Mbit/s")
}

/// B1: what a queue made for 50 Mbit/s does at 2, as a run measured it.
pub fn oversized(delay_ms: [f64; 2]) -> Vec<Claim> {
    let [fast, slow] = delay_ms;
    vec![
        within("B1", "A queue of 625 kB delays by 100 ms at 50 Mbit/s", 95.0..=101.0, fast, ms),
        within("B1", "and by 2.5 s at 2 Mbit/s, 25 times as much", 2375.0..=2525.0, slow, ms),
    ]
}

/// B2 and B3: what probing costs, and when signals are given.
fn overhead(cases: &Measured) -> Vec<Claim> {
    let usual = Settings::default();
    let shares = [Study::OffPeak, Study::Peak].into_iter().flat_map(|study| cases.study(study));
    let Some(share) = shares.filter_map(|m| m.overhead()).reduce(f64::max) else { return Vec::new() };
    let thousandths = |share| format!("{:.3} %", share * 100.0);
    let cost = below("B2", "Probes are less than 0.5 % of the bytes", 0.005, share, thousandths);
    // Of packets of 1500 bytes, which nearly all are: what a probe costs each of those between two probes.
    let between = IPV4_LEN as f64 / 1500.0 / share;
    let format = claim(
        "B3",
        "A probe has 28 bytes, and one follows four packets",
        "28 bytes; 3.7 to 4.3 packets of 1500 bytes for a probe",
        format!("{IPV4_LEN} bytes, {between:.2} packets (set to {})", usual.every),
        IPV4_LEN == 28 && (3.7..=4.3).contains(&between),
    );
    let found = signal_times();
    let wanted = [0.0, 100.0, 100.0 + 70.71, 100.0 + 70.71 + 57.74];
    let agree = |(a, b): (&f64, &f64)| (a - b).abs() < 1.1;
    let list = |times: &[f64]| times.iter().map(|t| format!("{t:.0}")).collect::<Vec<_>>().join(", ") + " ms";
    let law = claim(
        "B3",
        "At the default target of 100 ms signals are 100 ms / sqrt(n) apart, and one round trip below it ends them",
        format!("{} after the first, then none", list(&wanted)),
        list(&found),
        found.len() == wanted.len() && found.iter().zip(&wanted).all(agree),
    );
    vec![cost, format, law]
}

/// When ASQM with its defaults signals, in ms after the first signal, under probes that take 100 ms for 240
/// ms and then 99 ms; and that it is silent before, while they take 99.9 ms.
fn signal_times() -> Vec<f64> {
    let mut asqm = Asqm::new(&Params::default(), Time::ZERO);
    let begin = 1_000;
    let mut signals: Vec<f64> = Vec::new();
    for at_ms in 0..begin + 500 {
        let now = Time::ZERO + Duration::from_millis(at_ms);
        let rtt = match at_ms {
            before if before < begin => Duration::from_micros(99_900),
            // Long enough that the smoothed value is there at once.
            at if at == begin => Duration::from_millis(1_000),
            at if at < begin + 240 => Duration::from_millis(100),
            _ => Duration::from_millis(99),
        };
        asqm.on_sample(now, Sample::Rtt(rtt));
        let queue = View {
            backlog: Bytes::new(15_140),
            packets: 10,
            delay: Duration::ZERO,
            rate: Rate::from_mbps(16),
        };
        let moment = Moment::new(now, queue, 0);
        let packet = Packet { arrived: now, len: Bytes::new(1514), seq: at_ms, flow: 0, ecn: Ecn::NotEct };
        if asqm.on_enqueue(&moment, &packet) != Verdict::Forward {
            signals.push(at_ms as f64);
        }
    }
    let first = signals.first().copied().unwrap_or(f64::NAN);
    signals.iter().map(|at| at - first).collect()
}

/// B4 to B8: off-peak, all three do well.
fn off_peak(cases: &Measured, way: Direction) -> Vec<Claim> {
    let mut claims = Vec::new();
    for managed in ALGORITHMS {
        let mine = cases.of(Study::OffPeak, way, managed);
        if mine.is_empty() {
            continue;
        }
        let name = managed.name();
        claims.push(bandwidth("B4", &mine, name, "15.5", (15.0, 15.6)));
        let (id, share, limit) = match managed {
            Algorithm::CoDel => ("B5", 0.95, OTHERS_EXCESS),
            Algorithm::Pie => ("B6", 0.90, OTHERS_EXCESS),
            Algorithm::Asqm => ("B7", 0.95, OWN_EXCESS),
        };
        let excess = most(mine.iter().map(|m| m.excess(share)));
        let (kept, within) = (format!("{:.0} %", share * 100.0), ms(limit));
        let text = format!("{name} keeps {kept} of the round trips within {within} of the link's");
        claims.push(at_most(id, text, limit, excess, ms));
        if managed == Algorithm::Asqm {
            let text = "ASQM holds its target beyond the link's round trip";
            claims.push(at_most("B7", text, TARGET_MS as f64, excess, ms));
        }
    }
    claims.extend(order(cases, way));
    claims
}

fn bandwidth(id: &str, mine: &[Measured], name: &str, said: &str, range: (f64, f64)) -> Claim {
    let bandwidths = || mine.iter().map(Measured::bandwidth);
    let (low, high) = (least(bandwidths()), most(bandwidths()));
    claim(
        id,
        format!("{name} gives each modem about {said} Mbit/s"),
        format!("{} to {} Mbit/s", range.0, range.1),
        format!("{low:.2} to {high:.2} Mbit/s"),
        low >= range.0 && high <= range.1,
    )
}

/// B8: who gets most.
fn order(cases: &Measured, way: Direction) -> Vec<Claim> {
    let [codel, pie, asqm] = ALGORITHMS.map(|managed| cases.of(Study::OffPeak, way, managed));
    if [&codel, &pie, &asqm].iter().any(|of| of.len() < RTTS.len()) {
        return Vec::new();
    }
    let [codel, pie, asqm] =
        [codel, pie, asqm].map(|of| of.iter().map(Measured::bandwidth).collect::<Vec<_>>());
    let lead = least((0..RTTS.len()).map(|i| asqm[i] - most([codel[i], pie[i]])));
    let last = RTTS.len() - 1;
    let text = "ASQM gives slightly more than CoDel and PIE at every round trip";
    vec![
        above("B8", text, 0.0, lead, mbps),
        below("B8", "CoDel gives slightly less at 200 ms than at 50 ms", codel[0], codel[last], mbps),
        below("B8", "PIE gives slightly less than CoDel at 200 ms", codel[last], pie[last], mbps),
    ]
}

/// B9 and B10: at peak hours, CoDel and PIE do not see the queue.
fn peak(cases: &Measured, way: Direction) -> Vec<Claim> {
    let mut claims = Vec::new();
    for managed in ALGORITHMS {
        let mine = cases.of(Study::Peak, way, managed);
        if mine.is_empty() {
            continue;
        }
        let name = managed.name();
        claims.push(bandwidth("B9", &mine, name, "6.5", (6.2, 6.8)));
        let (from, to) = match managed {
            Algorithm::CoDel => (100.0, 1500.0),
            Algorithm::Pie => (200.0, 1200.0),
            Algorithm::Asqm => continue,
        };
        let (low, high) =
            (least(mine.iter().map(|m| m.delay(0.05))), most(mine.iter().map(|m| m.delay(0.95))));
        let found = format!("{} to {}", ms(low), ms(high));
        let expected = format!("from at most {} to {} to {}", ms(2.0 * from), ms(0.75 * to), ms(1.25 * to));
        let held = low <= 2.0 * from && (0.75 * to..=1.25 * to).contains(&high);
        let text = format!("Under {name} they vary between {from:.0} and {to:.0} ms (5 and 95 %)");
        claims.push(claim("B10", text, expected, found, held));
    }
    claims.extend(order_of_peak(cases, way));
    claims
}

/// How many times as much each of some cases has as the other one in its place; none unless all were run.
fn ratios(some: &[Measured], others: &[Measured], of: impl Fn(&Measured) -> f64) -> Option<Vec<f64>> {
    let rtts = |cases: &[Measured]| cases.iter().map(|m| m.case().rtt_ms).collect::<Vec<_>>();
    let are_all = !some.is_empty() && rtts(some) == rtts(others);
    are_all.then(|| some.iter().zip(others).map(|(a, b)| of(a) / of(b)).collect())
}

/// B10 beside B11: what sensing is for.
fn order_of_peak(cases: &Measured, way: Direction) -> Vec<Claim> {
    let mine = cases.of(Study::Peak, way, Algorithm::Asqm);
    let one = |other: Algorithm| {
        let theirs = cases.of(Study::Peak, way, other);
        let ratio = most(ratios(&mine, &theirs, |m| m.delay(0.95))?);
        let text = format!("ASQM's round trips at peak are less than half of those under {}", other.name());
        Some(claim("B11", text, "at most 0.50 of theirs (95 %)", format!("{ratio:.2}"), ratio <= 0.5))
    };
    [Algorithm::CoDel, Algorithm::Pie].into_iter().filter_map(one).collect()
}

/// B11 and B12: what the peak changes under ASQM, and who is steady.
fn both(cases: &Measured, way: Direction) -> Vec<Claim> {
    let mut claims = Vec::new();
    let (off, on) =
        (cases.of(Study::OffPeak, way, Algorithm::Asqm), cases.of(Study::Peak, way, Algorithm::Asqm));
    // Beyond the empty path's round trip, which would hide in a long one what the queue changes.
    if let Some(ratios) = ratios(&on, &off, |m| m.excess(0.95)) {
        let changes = ratios.into_iter().map(|ratio| ratio - 1.0);
        // NaN stays, as nothing holds for it.
        let worse = |worst: f64, c: f64| if worst.is_nan() || c.abs() <= worst.abs() { worst } else { c };
        let change = changes.fold(0.0, worse);
        claims.push(claim(
            "B11",
            "The peak does not change ASQM's delay (95 %)",
            "by at most 25 %",
            format!("{:+.0} %", change * 100.0),
            change.abs() <= 0.25,
        ));
    }
    for other in [Algorithm::CoDel, Algorithm::Pie] {
        let [before, theirs] = [Study::OffPeak, Study::Peak].map(|study| cases.of(study, way, other));
        let name = other.name();
        if let Some(ratios) = ratios(&theirs, &before, |m| m.deviation()) {
            let text = format!("{name}'s bandwidth varies a lot more at peak hours than off-peak");
            claims.push(at_least("B12", text, 2.0, least(ratios), times));
        }
        if let Some(ratios) = ratios(&on, &theirs, |m| m.deviation()) {
            let text = format!("ASQM's bandwidth varies at most half as much as under {name} at peak hours");
            claims.push(at_most("B12", text, 0.5, most(ratios), times));
        }
    }
    claims
}

/// B13: how little is too little.
fn shortfall(cases: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for managed in ALGORITHMS {
        let mine = cases.of(Study::Shortfall, Direction::Upload, managed);
        let Some((full, steps)) = mine.split_last() else { continue };
        let without = full.excess(0.95);
        // The slightest one first.
        claims.extend(steps.iter().rev().map(|step| {
            let with = step.excess(0.95);
            let [from, to] = [full, step].map(|m| m.case().access_kbps as f64 / 1e3);
            let rates = format!("{from} to {to} Mbit/s");
            let (text, expected, held) = match managed {
                Algorithm::Asqm => (
                    format!("A slight shortfall, {rates}, does not defeat ASQM"),
                    format!("at most 1.25 times {}", ms(without)),
                    with <= 1.25 * without,
                ),
                other => {
                    let defeated = 2.0 * most([without, OTHERS_EXCESS]);
                    (
                        format!("A slight shortfall, {rates}, defeats {}", other.name()),
                        format!(
                            "more than {}: twice what it was, and twice what figures 4 and 6 show",
                            ms(defeated)
                        ),
                        with > defeated,
                    )
                }
            };
            claim("B13", text, expected, ms(with), held)
        }));
    }
    claims
}

/// B14: where all break down. The paper draws no figure; "break down" is taken for a tenth of the bandwidth
/// lost and "unusable" for a quarter.
fn long_rtt(cases: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for managed in ALGORITHMS {
        let mine = cases.of(Study::LongRtt, Direction::Upload, managed);
        let at = |rtt: u64| mine.iter().find(|m| m.case().rtt_ms == rtt).map(Measured::bandwidth);
        for (rtt, what, lost) in
            [(300, "breaks down above 250 ms", 0.1), (500, "is unusable at 500 ms", 0.25)]
        {
            let (Some(here), Some(usual)) = (at(rtt), at(USUAL_RTT)) else { continue };
            let loss = 1.0 - here / usual;
            let text = format!("{} {what} (at {rtt} ms)", managed.name());
            let unit = |share| format!("{:.1} % of the bandwidth lost", share * 100.0);
            claims.push(at_least("B14", text, lost, loss, unit));
        }
    }
    claims
}

/// B16: the ranges that were tried.
fn ranges(cases: &Measured) -> Option<Claim> {
    let of = |study: Study, of: fn(&Measured) -> u64| {
        let values: Vec<u64> = cases.study(study).iter().filter(|m| m.bandwidth() > 0.0).map(of).collect();
        (values.iter().copied().min().unwrap_or(0), values.into_iter().max().unwrap_or(0))
    };
    let rtt = of(Study::LongRtt, |m| m.case().rtt_ms);
    let rate = of(Study::Rates, |m| m.case().limit_kbps / 2000);
    let target = of(Study::Targets, |m| m.case().target_ms);
    let text =
        "Experiments with round trips of 10 to 1000 ms, 1 to 50 Mbit/s committed and targets of 10 to 500 ms";
    let found = format!(
        "{} to {} ms, {} to {} Mbit/s, {} to {} ms",
        rtt.0, rtt.1, rate.0, rate.1, target.0, target.1
    );
    let held = rtt == (10, 1000) && rate == (1, 50) && target == (10, 500);
    // The short form has the ends of some ranges alone.
    let is_run = !cases.study(Study::Targets).is_empty() && rtt.1 >= 1000;
    is_run.then(|| claim("B16", text, "all three ranges to their ends, with bandwidth in each", found, held))
}

/// B7, read with a target of half as much: at 100 ms the law begins to signal when the queue is there.
fn half_target(cases: &Measured) -> Option<Claim> {
    let mine = cases.of(Study::HalfTarget, Direction::Upload, Algorithm::Asqm);
    let excess = most(mine.iter().map(|m| m.excess(0.95)));
    let text =
        format!("With a target of {} ms ASQM exceeds the link's round trip by at most 50 ms", TARGET_MS / 2);
    (!mine.is_empty()).then(|| at_most("B7", text, OWN_EXCESS, excess, ms))
}

/// B11 for class EF: it passes the limiter first, but waits below IP with everything else.
fn voice(cases: &Measured) -> Vec<Claim> {
    let queued = |m: &Measured| m.voice_p95_ms() - m.case().rtt_ms as f64;
    let of = |managed| cases.of(Study::Voice, Direction::Upload, managed).first().map(queued);
    let Some(ours) = of(Algorithm::Asqm) else { return Vec::new() };
    let one = |other: Algorithm| {
        let theirs = of(other)?;
        let text = format!(
            "A call in class EF at peak hours waits less than half as long as under {}",
            other.name()
        );
        Some(at_most("B11", text, theirs / 2.0, ours, ms))
    };
    [Algorithm::CoDel, Algorithm::Pie].into_iter().filter_map(one).collect()
}

/// B5, B6 and B8 with the constants of the kernel of the paper's modems.
fn of_kernel(cases: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (managed, id, share) in [(Algorithm::CoDel, "B5", 0.95), (Algorithm::Pie, "B6", 0.9)] {
        let mine = cases.of(Study::Kernel, Direction::Upload, managed);
        if mine.is_empty() {
            continue;
        }
        let excess = most(mine.iter().map(|m| m.excess(share)));
        let text = format!(
            "{} of Linux 3.15 keeps {:.0} % of the round trips within {} of the link's",
            managed.name(),
            share * 100.0,
            ms(OTHERS_EXCESS)
        );
        claims.push(at_most(id, text, OTHERS_EXCESS, excess, ms));
    }
    let last = |managed| {
        let cases = cases.of(Study::Kernel, Direction::Upload, managed);
        cases.last().filter(|_| cases.len() == RTTS.len()).map(Measured::bandwidth)
    };
    if let (Some(codel), Some(pie)) = (last(Algorithm::CoDel), last(Algorithm::Pie)) {
        let text = "PIE of Linux 3.15 gives slightly less than CoDel at 200 ms";
        claims.push(claim("B8", text, format!("less than {}", mbps(codel)), mbps(pie), pie < codel));
    }
    claims
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
