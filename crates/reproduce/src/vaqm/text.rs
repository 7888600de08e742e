//! Background of the article: fixed links, and what a page takes.

use crate::claim::{at_most, claim};
use crate::host::{Error, Host};
use crate::runs::{Planned, Run, run_all, simulate};
use weir_config::{AqmConfig, Document};
use weir_measure::result::{Claim, Recording};

/// What is measured of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Share of the link that was used.
    pub utilization: f64,
    /// Mean delay in the queue, in ms.
    pub delay_ms: f64,
    /// Mean time of a transfer in seconds, where there are any.
    pub transfer_s: f64,
}

/// A run: what its queue or path is, and what was measured.
type Point = (String, Seen);

/// Runs both scenarios and judges what they show. Nothing where they were interrupted.
pub fn background(host: &dyn Host) -> Result<Vec<Claim>, Error> {
    let mut plan = Vec::new();
    for (name, text) in [scenario_file!("vaqm_text.toml"), scenario_file!("vaqm_text_page.toml")] {
        let scenario = Document::parse(name, text).and_then(|file| file.scenario()).map_err(Error::input)?;
        for point in scenario.expand() {
            let scenario = point.scenario;
            let flows = &scenario.flows[0];
            let case = match flows.transfer {
                Some(_) => format!("{}", scenario.path.rtt.as_millis_f64()),
                None => match scenario.aqm.setpoint().filter(|_| scenario.aqm.name == "codel") {
                    Some(target) => format!("codel {target}, {}", flows.count),
                    None => format!("{}, {}", scenario.aqm.name, flows.count),
                },
            };
            plan.push(Planned { case, seed: 0, scenario });
        }
    }
    let runs: Vec<Run<String, Seen>> = run_all(&plan, host, |planned, progress| {
        simulate(planned, (), progress, |recording: Recording, ()| {
            let link = recording.summary.links.first();
            let transfers = recording.summary.flows.first().and_then(|flow| flow.transfers);
            Seen {
                utilization: link.map_or(f64::NAN, |link| link.utilization),
                delay_ms: link.map_or(f64::NAN, |link| link.delay_ms.mean),
                transfer_s: transfers.and_then(|t| t.mean_s).unwrap_or(f64::NAN),
            }
        })
    })?;
    if runs.len() < plan.len() {
        return Ok(Vec::new());
    }
    Ok(judge(&runs.into_iter().map(|run| (run.case, run.values)).collect::<Vec<_>>()))
}

/// Numbers of flows on the fixed link, of which the most are the usual ones.
const FLOWS: [u32; 3] = [1, 2, 9];

fn judge(points: &[Point]) -> Vec<Claim> {
    let nothing = Seen { utilization: f64::NAN, delay_ms: f64::NAN, transfer_s: f64::NAN };
    let of = |queue: &str, flows: u32| {
        let wanted = format!("{queue}, {flows}");
        points.iter().find(|(case, _)| *case == wanted).map_or(nothing, |(_, seen)| *seen)
    };
    let [unmanaged, short] = ["tail_drop", "codel 5ms"].map(|queue| of(queue, 9));
    let codel = AqmConfig::new("codel");
    let default = |name: &str| {
        codel.as_ref().and_then(|codel| codel.get(name)).map(|value| value.to_string()).unwrap_or_default()
    };
    let constants = [default("target"), default("interval")];
    let ratio = unmanaged.delay_ms / short.delay_ms;
    let pages: Vec<(f64, f64)> =
        points.iter().filter_map(|(case, seen)| Some((case.parse::<f64>().ok()?, seen.transfer_s))).collect();
    let fit = linear(&pages);
    let points_of = |share: f64| format!("{:.2} points", share * 100.0);
    let gain = |flows: u32| {
        let gained = of("codel 20ms", flows).utilization - of("codel 5ms", flows).utilization;
        let plural = if flows == 1 { "" } else { "s" };
        let text =
            format!("A target of 20 ms instead of 5 gains little utilization ({flows} flow{plural}, 50 ms)");
        at_most("C4", text, 0.02, gained, points_of)
    };
    let mut claims = FLOWS.map(gain).to_vec();
    claims.extend([
        claim(
            "C4",
            "CoDel's target is 5 ms and its interval 100 ms",
            "5ms, 100ms",
            constants.join(", "),
            constants == ["5ms", "100ms"],
        ),
        claim(
            "C5",
            "CoDel reduces the delay of a bloated fixed link by two to three orders of magnitude",
            "100 to 1000 times",
            format!("{ratio:.0} times, {:.0} to {:.1} ms", unmanaged.delay_ms, short.delay_ms),
            (100.0..=1000.0).contains(&ratio),
        ),
        claim(
            "C5",
            "The time of a page grows linearly with the round-trip time",
            "r squared at least 0.99",
            format!(
                "{fit:.4}: {}",
                pages.iter().map(|(x, y)| format!("{y:.2} s at {x} ms")).collect::<Vec<_>>().join(", ")
            ),
            fit >= 0.99,
        ),
    ]);
    claims
}

/// How much of the variance a line explains (r squared); NaN of fewer than three points.
fn linear(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (xx, yy) = (sum(&|p| (p.0 - x).powi(2)), sum(&|p| (p.1 - y).powi(2)));
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    if points.len() < 3 { f64::NAN } else { xy * xy / (xx * yy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(bloated_ms: f64, gained: f64, last_page_s: f64) -> Vec<Point> {
        let seen = |utilization, delay_ms| Seen { utilization, delay_ms, transfer_s: f64::NAN };
        let page = |rtt: f64, s| (rtt.to_string(), Seen { transfer_s: s, ..seen(0.1, 0.0) });
        let of = |flows: u32| {
            [
                ("tail_drop", seen(1.0, bloated_ms)),
                ("codel 5ms", seen(0.98, 5.0)),
                ("codel 20ms", seen(0.98 + gained, 12.0)),
            ]
            .map(|(queue, seen)| (format!("{queue}, {flows}"), seen))
        };
        let mut points = FLOWS.map(of).concat();
        points.extend([page(25.0, 0.25), page(50.0, 0.5), page(100.0, last_page_s)]);
        points
    }

    #[test]
    fn the_background_holds_as_told_and_is_missed_otherwise() {
        let held = |points: &[Point]| judge(points).iter().map(|c| c.held).collect::<Vec<_>>();
        assert_eq!(held(&points(800.0, 0.01, 1.0)), [true; 6]);
        let only_constants = [false, false, false, true, false, false];
        assert_eq!(held(&points(80.0, 0.03, 0.1)), only_constants);
        assert_eq!(held(&[]), only_constants);
        crate::said::assert_told(&judge(&[]), crate::vaqm::said::TABLE);
    }
}
