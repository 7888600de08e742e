//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A claim is left out where a case that it compares was not run. "Reaches" and "within" are about the 95th
//! percentile unless the paper says otherwise.

use super::cases::{ALGORITHMS, Algorithm, Direction, RTTS, Study, TARGET_MS, USUAL_RTT};
use super::measured::Measured;
use crate::claim::{at_least, at_most, claim};
use crate::statistics::{least, most};
use weir_measure::result::Claim;
use weir_sense::probe::{IPV4_LEN, Settings};

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
    claims
}

fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}

fn mbps(value: f64) -> String {
    format!("{value:.2} Mbit/s")
}

/// B2 and B3: what probing costs.
fn overhead(cases: &Measured) -> Vec<Claim> {
    let usual = Settings::default();
    let format = claim(
        "B3",
        "A probe has 28 bytes, one follows four packets, the target is 100 ms",
        "28 bytes, 1 in 4, 100 ms",
        format!("{IPV4_LEN} bytes, 1 in {}, {TARGET_MS} ms", usual.every),
        IPV4_LEN == 28 && usual.every == 4,
    );
    let shares = [Study::OffPeak, Study::Peak].into_iter().flat_map(|study| cases.study(study));
    let Some(share) = shares.filter_map(|m| m.overhead()).reduce(f64::max) else { return Vec::new() };
    let cost = claim(
        "B2",
        "Probes are less than 0.5 % of the bytes",
        "at most 0.47 %",
        format!("{:.3} %", share * 100.0),
        share <= 0.0047,
    );
    vec![cost, format]
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
        claims.push(bandwidth("B4", &mine, name, "15.5", (15.0, 15.8)));
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
    let lead = (0..RTTS.len()).map(|i| asqm[i] - codel[i].max(pie[i])).fold(f64::INFINITY, f64::min);
    let last = RTTS.len() - 1;
    let less = |text: &str, bound: f64, value: f64| {
        claim("B8", text, format!("less than {}", mbps(bound)), mbps(value), value < bound)
    };
    let text = "ASQM gives slightly more than CoDel and PIE at every round trip";
    vec![
        claim("B8", text, "more than 0 Mbit/s", mbps(lead), lead > 0.0),
        less("CoDel gives slightly less at 200 ms than at 50 ms", codel[0], codel[last]),
        less("PIE gives slightly less than CoDel at 200 ms", codel[last], pie[last]),
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
        if managed != Algorithm::Asqm {
            let reached = least(mine.iter().map(|m| m.delay(0.95)));
            let text = format!("Under {name} round trips reach a second at peak hours");
            claims.push(at_least("B10", text, 1000.0, reached, ms));
        }
    }
    claims
}

/// B11 and B12: what the peak changes under ASQM, and who is steady.
fn both(cases: &Measured, way: Direction) -> Vec<Claim> {
    let mut claims = Vec::new();
    let (off, on) =
        (cases.of(Study::OffPeak, way, Algorithm::Asqm), cases.of(Study::Peak, way, Algorithm::Asqm));
    if !off.is_empty() && off.len() == on.len() {
        let pairs = off.iter().zip(&on);
        let change = pairs.map(|(a, b)| b.delay(0.95) / a.delay(0.95) - 1.0);
        let change = change.fold(0.0, |worst: f64, c| if c.abs() > worst.abs() { c } else { worst });
        claims.push(claim(
            "B11",
            "The peak does not change ASQM's delay (95 %)",
            "by at most 25 %",
            format!("{:+.0} %", change * 100.0),
            change.abs() <= 0.25,
        ));
    }
    for other in [Algorithm::CoDel, Algorithm::Pie] {
        let theirs = cases.of(Study::Peak, way, other);
        if on.is_empty() || theirs.len() != on.len() {
            continue;
        }
        let ratio = on.iter().zip(&theirs).map(|(a, b)| a.deviation() / b.deviation()).fold(0.0, f64::max);
        claims.push(claim(
            "B12",
            format!("ASQM's bandwidth varies at most half as much as under {} at peak hours", other.name()),
            "deviation of 1 s at most 0.50 of theirs",
            format!("{ratio:.2}"),
            ratio <= 0.5,
        ));
    }
    claims
}

/// B13: how little is too little.
fn shortfall(cases: &Measured) -> Vec<Claim> {
    let mut claims = Vec::new();
    for managed in ALGORITHMS {
        let mine = cases.of(Study::Shortfall, Direction::Upload, managed);
        let (Some(short), Some(full)) = (mine.first(), mine.last()) else { continue };
        let (without, with) = (full.excess(0.95), short.excess(0.95));
        let [from, to] = [full, short].map(|m| m.case().access_kbps as f64 / 1e3);
        let rates = format!("{from} to {to} Mbit/s");
        let (text, expected, held) = match managed {
            Algorithm::Asqm => (
                format!("A slight shortfall, {rates}, does not defeat ASQM"),
                format!("at most 1.25 times {}", ms(without)),
                with <= 1.25 * without,
            ),
            other => (
                format!("A slight shortfall, {rates}, defeats {}", other.name()),
                format!("more than twice {}", ms(without)),
                with > 2.0 * without,
            ),
        };
        claims.push(claim("B13", text, expected, ms(with), held));
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
            claims.push(claim(
                "B14",
                format!("{} {what} (at {rtt} ms)", managed.name()),
                format!("at least {:.0} % of the bandwidth lost", lost * 100.0),
                format!("{:.0} %", loss * 100.0),
                loss >= lost,
            ));
        }
    }
    claims
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
