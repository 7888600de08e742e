//! Experiments that show why claims are missed, all with one home behind a limiter of 16 Mbit/s.

use crate::experiment::{Experiment, Points, delay_p95_ms, payload_mbps};
use crate::statistics::most;

/// Name and content of the scenario.
const FILE: (&str, &str) = scenario_file!("cause_limiter.toml");

/// Payload is 15.3 Mbit/s at most, and over 200 ms a queue of 100 ms keeps it.
pub static PAYLOAD: Experiment = Experiment {
    name: "payload",
    file: FILE,
    judge: |points: &Points| {
        let at_most =
            most(points.0.iter().map(|point| crate::statistics::mean(point.runs.iter().map(payload_mbps))));
        let [short, long] =
            ["CoDel, 5 ms", "CoDel, 100 ms"].map(|name| points.mean(&["200ms", name], payload_mbps));
        let found = format!(
            "no queue has more than {at_most:.2} Mbit/s, and over 200 ms CoDel has {short:.2} with a target of 5 ms and {long:.2} with one \
             of 100 ms"
        );
        (found, at_most < 15.5 && short < 15.0 && long >= 15.0)
    },
};

/// PIE's delay is in proportion to its target.
pub static TARGET_OF_PIE: Experiment = Experiment {
    name: "target of PIE",
    file: FILE,
    judge: |points: &Points| {
        let [short, usual] =
            ["PIE, 5 ms", "PIE, 15 ms"].map(|name| points.mean(&["200ms", name], delay_p95_ms));
        let found =
            format!("over 200 ms the 95 % delay is {usual:.0} ms, and {short:.0} ms with a target of 5 ms");
        (found, short <= 2.0 / 3.0 * usual)
    },
};

/// With PIE's target CoDel has as much as PIE.
pub static ORDER: Experiment = Experiment {
    name: "order",
    file: FILE,
    judge: |points: &Points| {
        let [codel, same, pie] = ["CoDel, 5 ms", "CoDel, 15 ms", "PIE, 15 ms"]
            .map(|name| points.mean(&["200ms", name], payload_mbps));
        let found =
            format!("over 200 ms CoDel has {codel:.2} Mbit/s, with PIE's target {same:.2}, and PIE {pie:.2}");
        (found, codel < pie && same >= pie - 0.1)
    },
};

/// What Reno loses over 500 ms, CUBIC does not.
pub static GRADUALLY: Experiment = Experiment {
    name: "gradually",
    file: FILE,
    judge: |points: &Points| {
        let loss = |name: &str| {
            let [near, far] = ["100ms", "500ms"].map(|rtt| points.mean(&[rtt, name], payload_mbps));
            (1.0 - far / near) * 100.0
        };
        let [cubic, reno] =
            [["CoDel, 5 ms", "PIE, 15 ms"], ["Reno, CoDel", "Reno, PIE"]].map(|two| two.map(loss));
        let long = loss("CoDel, 100 ms");
        let found = format!(
            "of what they have over 100 ms, CUBIC loses {:.0} and {:.0} % under CoDel and PIE over 500 ms, Reno {:.0} and {:.0} %; with a \
             queue as long as ASQM's CUBIC loses {long:.0} %",
            cubic[0], cubic[1], reno[0], reno[1]
        );
        (found, reno[0] >= 25.0 && reno[1] >= 25.0 && cubic[0] < reno[0] && cubic[1] < reno[1] && long < 10.0)
    },
};
