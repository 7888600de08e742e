//! The claims of the paper, judged on what was measured: each is held or missed, with its numbers.
//!
//! A comparison with a number that is missing (NaN) does not hold.

use super::experiments::Experiment;
use super::measured::{Measured, PACKETS_PER_S, Row, Run, between};
use crate::claim::{at_least, at_most, below, claim, percent, within};
use crate::statistics::{deviation, least, mean, most};
use weir_measure::result::Claim;

const AVQ: &str = "AVQ";
/// Schemes that the paper compares AVQ's losses with.
const LOSSY: [&str; 3] = ["RED", "REM", "PI"];
/// The queue that REM and PI are to hold.
const REFERENCE: f64 = 50.0;

/// Claims that the kernel's end hosts cannot decide: identifier, a part of the sentence, and why.
pub const UNDECIDED_LIVE: &[(&str, &str, &str)] = &[
    (
        "D1",
        "loses",
        "marks do not make the kernel's windows smaller than two packets, of which 180 flows have 360 where path and buffer hold \
         206: the experiment is made with drops, and each signal is a loss",
    ),
    (
        "D2",
        "short flows hardly change",
        "the experiment is made with drops, under which AVQ's queue is two packets long: a change of 5 packets, the least \
         that counts, would more than double it",
    ),
    ("D7", "GKVQ loses", WINDOWS),
    ("D7", "GKVQ uses", WINDOWS),
    ("D7", "slightly above", WINDOWS),
    ("D8", "bias", "the lab's path has one round-trip time, 85 ms, for all flows"),
];

/// Of experiment 4, whose loads beyond 20 short flows a second are more than the link carries.
const WINDOWS: &str = "marks do not make the kernel's windows smaller than two packets, of which the 40 long flows send 940 a second \
    without a queue: with the 600 to 1000 of 30 to 50 short flows that is more than the 1250 that the link carries, whatever is marked";

/// The claims of one experiment.
pub fn of(experiment: Experiment, runs: &Measured) -> Vec<Claim> {
    match experiment {
        Experiment::One => marking_alone(&Loads::all(runs)),
        Experiment::Two => long_flows(&Loads::all(runs)),
        Experiment::Three => changes(runs),
        Experiment::Four => short_flows(&Loads::short(runs)),
        Experiment::Five => dropping(&Loads::short(runs)),
    }
}

/// The runs along their loads. Where the paper lets the algorithms converge before short flows come, that
/// time does not count.
struct Loads<'a> {
    runs: &'a Measured<'a>,
    /// Whether only those with short flows count.
    is_short: bool,
}

impl<'a> Loads<'a> {
    fn all(runs: &'a Measured<'a>) -> Loads<'a> {
        Loads { runs, is_short: false }
    }

    fn short(runs: &'a Measured<'a>) -> Loads<'a> {
        Loads { runs, is_short: true }
    }

    fn along(&self, series: &str, of: fn(&Row) -> f64) -> Vec<f64> {
        if self.is_short { self.runs.along_short(series, of) } else { self.runs.along(series, of) }
    }

    fn mean(&self, series: &str, of: fn(&Row) -> f64) -> f64 {
        mean(self.along(series, of))
    }

    fn utilization(&self, series: &str) -> Vec<f64> {
        self.along(series, |r| r.utilization)
    }

    fn queue(&self, series: &str) -> f64 {
        self.mean(series, |r| r.queue)
    }

    /// Packets lost over all loads.
    fn lost(&self, series: &str) -> f64 {
        self.along(series, |r| r.lost).iter().sum()
    }

    /// Packets that left over all loads.
    fn carried(&self, series: &str) -> f64 {
        self.along(series, |r| r.utilization * PACKETS_PER_S * (r.to_s - r.from_s)).iter().sum()
    }
}

fn range(values: &[f64], unit: fn(f64) -> String) -> String {
    let values = || values.iter().copied();
    format!("{} to {}", unit(least(values())), unit(most(values())))
}

fn packets(value: f64) -> String {
    format!("{value:.1}")
}

/// The mean queue of one series is shorter than that of another.
fn shorter(id: &str, ours: &str, other: &str, runs: &Loads) -> Claim {
    let text = format!("the mean queue of {ours} is shorter than that of {other}");
    below(id, text, runs.queue(other), runs.queue(ours), packets)
}

/// A quantity of the samples of a run from one time to another.
type Quantity = fn(&Run, f64, f64) -> f64;

/// By how many packets mean or deviation of a queue may change that hardly changes: a fifth, or 5 packets.
pub fn alike(before: f64) -> f64 {
    (0.2 * before).max(5.0)
}

/// Experiment 1.
fn marking_alone(runs: &Loads) -> Vec<Claim> {
    let (lost, carried, used) = (runs.lost(AVQ), runs.carried(AVQ), mean(runs.utilization(AVQ)));
    // Twice the paper's.
    let most = (carried * 20.0 / 250_000.0).ceil();
    let (expected, held) = (format!("at most {most:.0} of {carried:.0}"), carried > 0.0 && lost <= most);
    let text = "AVQ uses 98.27 % of the link where 98 % are wanted";
    let mut claims = vec![
        claim("D1", "AVQ loses 10 of 250000 packets", expected, format!("{lost:.0}"), held),
        within("D1", text, 0.975..=0.99, used, percent),
    ];
    let middle = runs.runs.load(1).from_s;
    // The flows begin in this time; what the short ones change counts from their first on.
    let begun = 0.1 * middle;
    let wanted: [(&str, Quantity); 2] = [
        ("the mean of the queue", |run, from, to| {
            mean(between(&run.values.samples, from, to).map(|s| s.queue_mean))
        }),
        ("the deviation of the queue", |run, from, to| {
            deviation(between(&run.values.samples, from, to).map(|s| s.queue))
        }),
    ];
    let curve = runs.runs.curve(AVQ);
    for (name, what) in wanted {
        let of = |from: f64, to: f64| mean(curve.runs.iter().map(|run| what(run, from, to)));
        let (before, after) = (of(begun, middle), of(middle, 2.0 * middle));
        let margin = alike(before);
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
fn fewer_losses(id: &str, runs: &Loads) -> Vec<Claim> {
    let one = |other: &&str| {
        let text = format!("AVQ loses fewer packets than {other}");
        below(id, text, runs.lost(other), runs.lost(AVQ), |packets| format!("{packets:.0}"))
    };
    LOSSY.iter().map(one).collect()
}

/// REM and PI always have packets to send.
fn always_full(id: &str, runs: &Loads) -> [Claim; 2] {
    ["REM", "PI"].map(|series| {
        let used = runs.utilization(series);
        let text = format!("{series} has a utilization of 1");
        claim(id, text, "at least 99.00 %", range(&used, percent), least(used.iter().copied()) >= 0.99)
    })
}

/// Experiment 2.
fn long_flows(runs: &Loads) -> Vec<Claim> {
    let mut claims = fewer_losses("D3", runs);
    let [ours, theirs] = [AVQ, "GKVQ"].map(|series| runs.lost(series) / runs.carried(series));
    let times = most([ours, theirs]) / least([ours, theirs]);
    let text = "the loss rates of AVQ and GKVQ are comparable";
    let rate = |share: f64| format!("{:.3} %", share * 100.0);
    let found = format!("{} and {}, {times:.1} times", rate(ours), rate(theirs));
    let held = times <= 2.0 || ours == theirs;
    claims.push(claim("D3", text, "neither more than 2.0 times the other", found, held));
    let strict = least(runs.utilization("GKVQ"));
    let text = "the utilization of GKVQ is as low as 75 %";
    claims.push(claim("D4", text, "lowest at most 80.00 %", percent(strict), strict <= 0.8));
    let (red, avq) = (runs.utilization("RED"), runs.utilization(AVQ));
    let (found, held) = (range(&red, percent), least(red) < 0.97);
    claims.push(claim("D4", "RED uses the link poorly", "somewhere below 97.00 %", found, held));
    claims.extend(always_full("D4", runs));
    let held = least(avq.iter().copied()) >= 0.975 && most(avq.iter().copied()) <= 0.99;
    let text = "AVQ tracks a utilization of 98 %";
    let expected = format!("97.50 % to 99.00 % with each of {} numbers of flows", avq.len());
    claims.push(claim("D4", text, expected, range(&avq, percent), held));
    for (series, is_above) in [("REM", true), ("PI", true), (AVQ, false), ("GKVQ", false), ("RED", false)] {
        let length = runs.queue(series);
        let (word, held) =
            if is_above { ("above", length > REFERENCE) } else { ("below", length < REFERENCE) };
        let text =
            format!("the mean queue of {series} is {word} the 50 packets wanted, changes of load included");
        claims.push(claim("D5", text, format!("{word} {REFERENCE:.0}"), packets(length), held));
    }
    claims
}

/// Width of what counts as settled, in packets.
const NEAR: f64 = 15.0;

/// Seconds after which the queue stays near a level; all of the span if it never does. Without a level, near
/// the one that it has in the span's last third: the same rule for every algorithm, as AVQ aims at none.
pub fn settling(run: &Run, span: usize, level: Option<f64>) -> f64 {
    let Some((length, smooth)) = smoothed(run, span) else { return f64::NAN };
    let late = smooth[smooth.len() * 2 / 3..].iter().copied();
    let level = level.unwrap_or_else(|| mean(late));
    let last = smooth.iter().rposition(|q| (q - level).abs() > NEAR);
    last.map_or(0.0, |i| length * (i + 1) as f64 / smooth.len() as f64)
}

/// Length of a span in seconds, and its queue, smoothed over a fiftieth of it.
fn smoothed(run: &Run, span: usize) -> Option<(f64, Vec<f64>)> {
    let row = run.values.spans.get(span)?;
    let here: Vec<f64> = between(&run.values.samples, row.from_s, row.to_s).map(|s| s.queue_mean).collect();
    let windows = here.windows((here.len() / 50).max(1));
    Some((row.to_s - row.from_s, windows.map(|w| mean(w.iter().copied())).collect()))
}

/// Experiment 3.
fn changes(runs: &Measured) -> Vec<Claim> {
    let seconds = |s: f64| format!("{s:.1} s");
    let mean_of =
        |series: &str, of: &dyn Fn(&Run) -> f64| mean(runs.curve(series).runs.iter().map(|run| of(run)));
    let mut claims = Vec::new();
    for (span, what) in [(1, "when 105 flows leave"), (2, "when 105 flows come")] {
        let ours = mean_of(AVQ, &|run| settling(run, span, None));
        for other in ["PI", "REM"] {
            let theirs = mean_of(other, &|run| settling(run, span, None));
            let text = format!("{what}, the queue of {other} settles much later than that of AVQ");
            let expected = format!("at least twice {}", seconds(ours));
            claims.push(claim("D6", text, expected, seconds(theirs), theirs >= 2.0 * ours && theirs > 0.0));
        }
    }
    let (ours, rem) = (
        mean_of(AVQ, &|run| settling(run, 2, None)),
        mean_of("REM", &|run| settling(run, 2, Some(REFERENCE))),
    );
    let text = "REM is slow to bring the queue to the 50 packets wanted when flows come";
    let expected = format!("at least twice {}", seconds(ours));
    claims.push(claim("D6", text, expected, seconds(rem), rem >= 2.0 * ours && rem > 0.0));
    let high = mean_of("REM", &|run| smoothed(run, 2).map_or(f64::NAN, |(_, smooth)| most(smooth)));
    let text = "when 105 flows come, the queue of REM overshoots";
    claims.push(claim("D6", text, "above 75 packets", packets(high), high > 1.5 * REFERENCE));
    claims
}

/// Experiment 4.
fn short_flows(runs: &Loads) -> Vec<Claim> {
    let mut claims = fewer_losses("D7", runs);
    let strict = runs.lost("GKVQ") / runs.carried("GKVQ");
    claims.push(at_most("D7", "GKVQ loses no significant number of packets", 0.001, strict, percent));
    claims.extend(always_full("D7", runs));
    let avq = runs.utilization(AVQ);
    for other in ["RED", "GKVQ"] {
        let text = format!("{other} uses less of the link than AVQ");
        let (ours, theirs) = (mean(avq.iter().copied()), mean(runs.utilization(other)));
        claims.push(below("D7", text, ours, theirs, percent));
    }
    let loaded = avq.last().copied().unwrap_or(f64::NAN);
    let text = "with the most short flows the utilization of AVQ is slightly above 98 %";
    claims.push(within("D7", text, 0.98..=0.995, loaded, percent));
    claims.extend(["RED", "REM", "PI", "GKVQ"].map(|other| shorter("D7", AVQ, other, runs)));
    claims
}

/// Experiment 5.
fn dropping(runs: &Loads) -> Vec<Claim> {
    const SPARE: &str = "AVQ 98 %";
    const FULL: &str = "AVQ 100 %";
    let (spare, full) = (runs.utilization(SPARE), runs.utilization(FULL));
    let text = "adapted to the accepted packets alone, AVQ at 98 % leaves the rest of the link free";
    let (found, held) = (range(&spare, percent), most(spare.iter().copied()) <= 0.985);
    let mut claims = vec![claim("D8", text, "at most 98.50 % with every load", found, held)];
    claims.push(at_least("D8", "AVQ at 100 % uses all of the link", 0.99, mean(full), percent));
    for ours in [SPARE, FULL] {
        claims.extend(LOSSY.map(|other| shorter("D8", ours, other, runs)));
    }
    let goodput = |series: &str| runs.mean(series, |r| r.goodput);
    let fairness = |series: &str| runs.mean(series, |r| r.fairness);
    let best = most(LOSSY.map(goodput));
    claims.push(claim(
        "D8",
        "the short queue of AVQ at 100 % costs no goodput",
        format!("at least 99 % of {best:.0} packets/s"),
        format!("{:.0} packets/s", goodput(FULL)),
        goodput(FULL) >= 0.99 * best,
    ));
    let fair = least(LOSSY.map(fairness));
    claims.push(claim(
        "D8",
        "AVQ adds no bias towards flows with short round-trip times",
        format!("Jain's index at least {fair:.3}, the least of the others"),
        format!("{:.3} (98 %), {:.3} (100 %)", fairness(SPARE), fairness(FULL)),
        least([fairness(SPARE), fairness(FULL)]) >= fair,
    ));
    claims
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
