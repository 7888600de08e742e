//! What the paper says without a figure: background, and remarks that an experiment can check.

use super::cases::{Case, Changes, File, Part, document};
use crate::host::Error;
use crate::runs::Planned;

/// A buffer that is far too large (section II-A).
pub const BLOATED: &str = "TD 1MB at 2Mbit/s";
/// A policy that keeps half of a link free, as providers do for protection.
pub const HALF: &str = "GSP-AS <49 %, 50 %>";
/// A policy below that of figure 8a.
pub const EIGHTY: &str = "GSP-AS <79 %, 80 %>";
/// The virtual queue of related work, at its fixed fraction of 95 %.
pub const HULL: &str = "HULL";
/// The rule of thumb for a tail-drop buffer: the curves, with which senders, and what is changed for them.
pub const ONE_BDP: [(&str, &str, Changes); 4] = [
    ("TD 1 bdp", "CUBIC, round-trip time 50 ms", &[("aqm.limit", "50ms")]),
    ("TD 1 bdp, Reno", "Reno, 50 ms", &[("aqm.limit", "50ms"), ("flows.0.congestion", "reno")]),
    ("TD 1 bdp, 10 ms", "CUBIC, 10 ms", &[("aqm.limit", "10ms"), ("path.rtt", "10ms")]),
    ("TD 1 bdp, 200 ms", "CUBIC, 200 ms", &[("aqm.limit", "200ms"), ("path.rtt", "200ms")]),
];
/// A quarter of it, under an algorithm that desynchronizes losses.
pub const QUARTER: &str = "GSP 1/4 bdp";

const TAIL_DROP: File = scenario_file!("steering_text.toml");
const WITH_POLICY: File = scenario_file!("steering_figure8a.toml");
const OF_GSP: File = scenario_file!("steering_text_gsp.toml");
const OF_HULL: File = scenario_file!("steering_text_hull.toml");

/// A curve, its scenario, what is changed in it, and its numbers of flows.
type Experiment = (&'static str, File, Changes, &'static [u32]);

/// Before those of a buffer of one bandwidth-delay product.
const EXPERIMENTS: [Experiment; 4] = [
    (BLOATED, TAIL_DROP, &[("link.rate", "2Mbit/s"), ("link.buffer", "1MB"), ("run.duration", "120s")], &[1]),
    (
        HALF,
        WITH_POLICY,
        &[("link.rate", "1Gbit/s"), ("policy.utilization_low", "49%"), ("policy.utilization_target", "50%")],
        &[9],
    ),
    (
        EIGHTY,
        WITH_POLICY,
        &[("link.rate", "1Gbit/s"), ("policy.utilization_low", "79%"), ("policy.utilization_target", "80%")],
        &[2, 3, 6, 9, 12, 18, 24, 36],
    ),
    (HULL, OF_HULL, &[], &[9]),
];
const LESS: Experiment = (QUARTER, OF_GSP, &[], &[36]);

/// Every run, the same at each rate.
pub fn plan(seeds: u32) -> Result<Vec<Planned<Case>>, Error> {
    let mut plan = Vec::new();
    let of_buffer =
        |(series, _, changes): (_, &str, _)| -> Experiment { (series, TAIL_DROP, changes, &[1, 2, 9, 36]) };
    let experiments = EXPERIMENTS.into_iter().chain(ONE_BDP.map(of_buffer)).chain([LESS]);
    for (series, file, changes, flows) in experiments {
        let scenario = document(file, changes.iter().copied())?.scenario().map_err(Error::input)?;
        for scenario in scenario.expand().into_iter().map(|point| point.scenario) {
            if !flows.contains(&scenario.flows[0].count) {
                continue;
            }
            let case = Case { series: series.into(), ..Case::of(Part::Text, &scenario) };
            plan.extend(Planned::repeated(&case, &scenario, seeds));
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remark_has_its_runs() {
        let plan = plan(2).unwrap_or_else(|e| panic!("{e:?}"));
        let count = |series: &str| plan.iter().filter(|planned| planned.case.series == series).count();
        assert_eq!([BLOATED, HALF, EIGHTY, HULL, QUARTER].map(count), [2, 2, 16, 2, 2]);
        assert_eq!(ONE_BDP.map(|(series, ..)| count(series)), [8; 4]);
        assert!(plan.iter().all(|planned| planned.case.figure == Part::Text));
    }
}
