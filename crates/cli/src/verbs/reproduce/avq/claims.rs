//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A comparison with a number that is missing (NaN) does not hold.

use super::experiments::Experiment;
use super::measured::{Point, Row, Runs, between, deviation, mean};
use super::{claim, percent};
use weir_scenario::result::Claim;

const AVQ: &str = "AVQ";
/// Schemes that the paper compares AVQ's losses with.
const LOSSY: [&str; 3] = ["RED", "REM", "PI"];
/// The queue that REM and PI are to hold.
const REFERENCE: f64 = 50.0;

/// The claims of one experiment. Where the paper lets the algorithms converge before short flows come, that time does
/// not count.
pub fn of(experiment: Experiment, runs: &Runs) -> Vec<Claim> {
    match experiment {
        Experiment::One => marking_alone(runs),
        Experiment::Two => long_flows(runs),
        Experiment::Three => changes(runs),
        Experiment::Four => short_flows(&runs.with_short_flows()),
        Experiment::Five => dropping(&runs.with_short_flows()),
    }
}

fn range(values: &[f64], text: fn(f64) -> String) -> String {
    let (least, most) = (least(values), most(values));
    format!("{} to {}", text(least), text(most))
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn packets(value: f64) -> String {
    format!("{value:.1}")
}

fn utilization(row: &Row) -> f64 {
    row.utilization
}

fn queue(row: &Row) -> f64 {
    row.queue
}

/// Packets lost over all loads.
fn lost(runs: &Runs, series: &str) -> f64 {
    runs.along(series, |r| r.lost).iter().sum()
}

/// Packets that left over all loads.
fn carried(runs: &Runs, series: &str) -> f64 {
    use super::measured::PACKETS_PER_S;
    runs.along(series, |r| r.utilization * PACKETS_PER_S * (r.to_s - r.from_s)).iter().sum()
}

/// What a run tells of itself from one time to another.
type Told = fn(&Point, f64, f64) -> f64;

/// Experiment 1.
fn marking_alone(runs: &Runs) -> Vec<Claim> {
    let (lost, carried) = (lost(runs, AVQ), carried(runs, AVQ));
    let used = mean(runs.along(AVQ, utilization).into_iter());
    let most = (carried * 100.0 / 250_000.0).ceil();
    let mut claims = vec![
        claim(
            "D1",
            "AVQ loses 10 of 250000 packets",
            format!("at most {most:.0} of {carried:.0}"),
            format!("{lost:.0}"),
            carried > 0.0 && lost <= most,
        ),
        claim(
            "D1",
            "AVQ uses 98.27 % of the link where 98 % are wanted",
            "97.50 % to 99.00 %",
            percent(used),
            (0.975..=0.99).contains(&used),
        ),
    ];
    let middle = runs.load(1).from_s;
    // What was there before and what is new have settled by then.
    let calm = 0.3 * middle;
    let of = |from: f64, to: f64, what: Told| runs.mean_of(AVQ, |p| what(p, from, to));
    let wanted: [(&str, Told); 2] = [
        ("the mean of the queue", |p, from, to| mean(between(&p.samples, from, to).map(|s| s.queue_mean))),
        ("the deviation of the queue", |p, from, to| deviation(between(&p.samples, from, to))),
    ];
    for (name, what) in wanted {
        let (before, after) = (of(calm, middle, what), of(middle + calm, 2.0 * middle, what));
        let margin = (0.2 * before).max(5.0);
        claims.push(claim(
            "D2",
            format!("short flows hardly change {name} of AVQ"),
            format!("{} to {} packets", packets((before - margin).max(0.0)), packets(before + margin)),
            format!("{} after {}", packets(after), packets(before)),
            (after - before).abs() <= margin,
        ));
    }
    claims
}

/// AVQ loses fewer packets than others.
fn fewer_losses(id: &str, runs: &Runs) -> Vec<Claim> {
    let ours = lost(runs, AVQ);
    let one = |other: &&str| {
        let theirs = lost(runs, other);
        let text = format!("AVQ loses fewer packets than {other}");
        claim(id, text, format!("below {theirs:.0}"), format!("{ours:.0}"), ours < theirs)
    };
    LOSSY.iter().map(one).collect()
}

/// REM and PI always have packets to send.
fn always_full(id: &str, runs: &Runs) -> Vec<Claim> {
    let one = |series: &&str| {
        let used = runs.along(series, utilization);
        let text = format!("{series} has a utilization of 1");
        claim(id, text, "at least 99.00 %", range(&used, percent), least(&used) >= 0.99)
    };
    ["REM", "PI"].iter().map(one).collect()
}

/// Experiment 2.
fn long_flows(runs: &Runs) -> Vec<Claim> {
    let mut claims = fewer_losses("D3", runs);
    let (ours, theirs) = (lost(runs, AVQ), lost(runs, "GKVQ"));
    let apart = (ours - theirs).abs() / carried(runs, AVQ);
    claims.push(claim(
        "D3",
        "the losses of AVQ and GKVQ are comparable",
        "apart by at most 1.00 % of the packets",
        format!("{ours:.0} and {theirs:.0}, {}", percent(apart)),
        apart <= 0.01,
    ));
    let strict = least(&runs.along("GKVQ", utilization));
    claims.push(claim(
        "D4",
        "the utilization of GKVQ is as low as 75 %",
        "lowest at most 80.00 %",
        percent(strict),
        strict <= 0.8,
    ));
    let (red, avq) = (runs.along("RED", utilization), runs.along(AVQ, utilization));
    claims.push(claim(
        "D4",
        "RED uses the link poorly",
        "somewhere below 97.00 %",
        range(&red, percent),
        least(&red) < 0.97,
    ));
    claims.extend(always_full("D4", runs));
    let held = least(&avq) >= 0.975 && most(&avq) <= 0.99;
    claims.push(claim(
        "D4",
        "AVQ tracks a utilization of 98 %",
        "97.50 % to 99.00 % with every number of flows",
        range(&avq, percent),
        held,
    ));
    for (series, above) in [("REM", true), ("PI", true), (AVQ, false), ("GKVQ", false), ("RED", false)] {
        let length = mean(runs.along(series, queue).into_iter());
        let (word, held) = if above { ("above", length > REFERENCE) } else { ("below", length < REFERENCE) };
        let text =
            format!("the mean queue of {series} is {word} the 50 packets wanted, changes of load included");
        claims.push(claim("D5", text, format!("{word} {REFERENCE:.0}"), packets(length), held));
    }
    claims
}

/// Width of what counts as settled, in packets.
const NEAR: f64 = 15.0;

/// Seconds after which the queue stays near its level, smoothed over a fiftieth of the span; all of the span if it
/// never does. The level of AVQ, which aims at none, is that of the span's last third.
pub fn settling(point: &Point, span: usize) -> f64 {
    let Some(row) = point.spans.get(span) else { return f64::NAN };
    let length = row.to_s - row.from_s;
    let here: Vec<f64> = between(&point.samples, row.from_s, row.to_s).map(|s| s.queue_mean).collect();
    let smooth = smoothed(&here, (here.len() / 50).max(1));
    let late = smooth[smooth.len() * 2 / 3..].iter().copied();
    let level = if point.series == AVQ { mean(late) } else { REFERENCE };
    let last = smooth.iter().rposition(|q| (q - level).abs() > NEAR);
    last.map_or(0.0, |i| length * (i + 1) as f64 / smooth.len() as f64)
}

/// Means over windows of `width` values.
fn smoothed(values: &[f64], width: usize) -> Vec<f64> {
    values.windows(width).map(|w| mean(w.iter().copied())).collect()
}

/// Longest queue of a span, smoothed as in [`settling`].
fn peak(point: &Point, span: usize) -> f64 {
    let Some(row) = point.spans.get(span) else { return f64::NAN };
    let here: Vec<f64> = between(&point.samples, row.from_s, row.to_s).map(|s| s.queue_mean).collect();
    most(&smoothed(&here, (here.len() / 50).max(1)))
}

/// Experiment 3.
fn changes(runs: &Runs) -> Vec<Claim> {
    let seconds = |s: f64| format!("{s:.1} s");
    let mut claims = Vec::new();
    for (span, what) in [(1, "when 105 flows leave"), (2, "when 105 flows come")] {
        let ours = runs.mean_of(AVQ, |p| settling(p, span));
        for other in ["PI", "REM"] {
            let theirs = runs.mean_of(other, |p| settling(p, span));
            let text = format!("{what}, the queue of {other} settles much later than that of AVQ");
            let expected = format!("at least twice {}", seconds(ours));
            claims.push(claim("D6", text, expected, seconds(theirs), theirs >= 2.0 * ours && theirs > 0.0));
        }
    }
    let high = runs.mean_of("REM", |p| peak(p, 2));
    let text = "when 105 flows come, the queue of REM overshoots";
    claims.push(claim("D6", text, "above 75 packets", packets(high), high > 1.5 * REFERENCE));
    claims
}

/// Experiment 4.
fn short_flows(runs: &Runs) -> Vec<Claim> {
    let mut claims = fewer_losses("D7", runs);
    let strict = lost(runs, "GKVQ") / carried(runs, "GKVQ");
    let text = "GKVQ loses no significant number of packets";
    claims.push(claim("D7", text, "at most 0.10 %", percent(strict), strict <= 0.001));
    claims.extend(always_full("D7", runs));
    let avq = runs.along(AVQ, utilization);
    for other in ["RED", "GKVQ"] {
        let (ours, theirs) = (mean(avq.iter().copied()), mean(runs.along(other, utilization).into_iter()));
        let text = format!("{other} uses less of the link than AVQ");
        claims.push(claim("D7", text, format!("below {}", percent(ours)), percent(theirs), theirs < ours));
    }
    let loaded = avq.last().copied().unwrap_or(f64::NAN);
    claims.push(claim(
        "D7",
        "with the most short flows the utilization of AVQ is slightly above 98 %",
        "98.00 % to 99.50 %",
        percent(loaded),
        (0.98..=0.995).contains(&loaded),
    ));
    let ours = mean(runs.along(AVQ, queue).into_iter());
    for other in ["RED", "REM", "PI", "GKVQ"] {
        let theirs = mean(runs.along(other, queue).into_iter());
        let text = format!("the mean queue of AVQ is shorter than that of {other}");
        claims.push(claim("D7", text, format!("below {}", packets(theirs)), packets(ours), ours < theirs));
    }
    claims
}

/// Experiment 5.
fn dropping(runs: &Runs) -> Vec<Claim> {
    const SPARE: &str = "AVQ 98 %";
    const FULL: &str = "AVQ 100 %";
    let (spare, full) = (runs.along(SPARE, utilization), runs.along(FULL, utilization));
    let mut claims = vec![
        claim(
            "D8",
            "adapted to the accepted packets alone, AVQ at 98 % leaves the rest of the link free",
            "at most 98.50 % with every load",
            range(&spare, percent),
            most(&spare) <= 0.985,
        ),
        claim(
            "D8",
            "AVQ at 100 % uses more of the link than AVQ at 98 %",
            format!("above {}", percent(mean(spare.iter().copied()))),
            percent(mean(full.iter().copied())),
            mean(full.iter().copied()) > mean(spare.iter().copied()),
        ),
    ];
    for ours in [SPARE, FULL] {
        let length = mean(runs.along(ours, queue).into_iter());
        for other in LOSSY {
            let theirs = mean(runs.along(other, queue).into_iter());
            let text = format!("the mean queue of {ours} is shorter than that of {other}");
            let expected = format!("below {}", packets(theirs));
            claims.push(claim("D8", text, expected, packets(length), length < theirs));
        }
    }
    let goodput = |series: &str| mean(runs.along(series, |r| r.goodput).into_iter());
    let fairness = |series: &str| mean(runs.along(series, |r| r.fairness).into_iter());
    let best = most(&LOSSY.map(goodput));
    claims.push(claim(
        "D8",
        "the short queue of AVQ at 100 % costs no goodput",
        format!("at least 97 % of {best:.0} packets/s"),
        format!("{:.0} packets/s", goodput(FULL)),
        goodput(FULL) >= 0.97 * best,
    ));
    let fair = least(&LOSSY.map(fairness));
    claims.push(claim(
        "D8",
        "AVQ adds no bias towards flows with short round-trip times",
        format!("Jain's index at least {:.2}, the least of the others less 0.05", fair - 0.05),
        format!("{:.2} (98 %), {:.2} (100 %)", fairness(SPARE), fairness(FULL)),
        fairness(SPARE).min(fairness(FULL)) >= fair - 0.05,
    ));
    claims
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
