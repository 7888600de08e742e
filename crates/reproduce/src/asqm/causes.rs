//! Experiments that show why claims are missed, all with one home of the paper's testbed.

use crate::experiment::{Experiment, Points, between, delay_p95_ms, payload_mbps, utilization};
use crate::statistics::{least, mean, most, quantile, sorted};
use weir_measure::result::Recording;

/// Name and content of the scenario without probes.
const FILE: (&str, &str) = scenario_file!("cause_limiter.toml");

/// Payload is 15.3 Mbit/s at most, and over 200 ms a queue of 100 ms keeps it.
pub static PAYLOAD: Experiment = Experiment {
    file: FILE,
    judge: |points: &Points| {
        let at_most = most(points.0.iter().map(|point| mean(point.runs.iter().map(payload_mbps))));
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
    file: FILE,
    judge: |points: &Points| {
        let [codel, same, pie] = ["CoDel, 5 ms", "CoDel, 15 ms", "PIE, 15 ms"]
            .map(|name| points.mean(&["200ms", name], payload_mbps));
        let found =
            format!("over 200 ms CoDel has {codel:.2} Mbit/s, with PIE's target {same:.2}, and PIE {pie:.2}");
        (found, codel < pie && same >= pie - 0.1)
    },
};

/// With CoDel's target PIE of Linux 3.15 has as much as CoDel.
pub static ORDER_OF_KERNEL: Experiment = Experiment {
    file: FILE,
    judge: |points: &Points| {
        let [codel, same, pie] = ["CoDel, 5 ms", "PIE of Linux 3.15, 5 ms", "PIE of Linux 3.15"]
            .map(|name| points.mean(&["200ms", name], payload_mbps));
        let found = format!(
            "over 200 ms CoDel has {codel:.2} Mbit/s, PIE of Linux 3.15 {pie:.2}, and with CoDel's target {same:.2}"
        );
        (found, codel < pie && (same - codel).abs() < (pie - codel) / 2.0)
    },
};

/// What CUBIC, Reno, and CUBIC with a queue as long as ASQM's lose over such a path, in words; the two are
/// under CoDel and PIE.
fn losses(points: &Points, rtt: &str) -> (String, [f64; 2], [f64; 2], f64) {
    let loss = |name: &str| {
        let [near, far] = ["100ms", rtt].map(|rtt| points.mean(&[rtt, name], payload_mbps));
        (1.0 - far / near) * 100.0
    };
    let [cubic, reno] =
        [["CoDel, 5 ms", "PIE, 15 ms"], ["Reno, CoDel", "Reno, PIE"]].map(|two| two.map(loss));
    let long = loss("CoDel, 100 ms");
    let found = format!(
        "of what they have over 100 ms, CUBIC loses {:.0} and {:.0} % under CoDel and PIE over {}, Reno {:.0} and {:.0} %; with a queue as \
         long as ASQM's CUBIC loses {long:.0} %",
        cubic[0],
        cubic[1],
        rtt.replace("ms", " ms"),
        reno[0],
        reno[1]
    );
    (found, cubic, reno, long)
}

/// What Reno loses over 300 ms, CUBIC does not.
pub static BEGINS: Experiment = Experiment {
    file: FILE,
    judge: |points: &Points| {
        let (found, cubic, reno, long) = losses(points, "300ms");
        (found, least(reno) >= 10.0 && cubic[0] < reno[0] && cubic[1] < reno[1] && long < least(cubic))
    },
};

/// What Reno loses over 500 ms, CUBIC does not.
pub static GRADUALLY: Experiment = Experiment {
    file: FILE,
    judge: |points: &Points| {
        let (found, cubic, reno, long) = losses(points, "500ms");
        (found, least(reno) >= 25.0 && cubic[0] < reno[0] && cubic[1] < reno[1] && long < 10.0)
    },
};

/// A link carries what leaves CoDel's limiter on average.
pub static SHORTFALL: Experiment = Experiment {
    file: scenario_file!("cause_shortfall.toml"),
    judge: |points: &Points| {
        let below = |run: &Recording| run.summary.links.get(1).map_or(f64::NAN, |link| link.delay_ms.p95);
        let of = |name: &str| {
            let leaves = points.mean(&["16Mbit/s", name], utilization) * 100.0;
            (leaves, ["7967kbit/s", "7833kbit/s"].map(|rate| points.mean(&[rate, name], below)))
        };
        let [codel, pie, full] = ["CoDel", "PIE", "Tail drop"].map(of);
        let told = |(leaves, [slight, more]): (f64, [f64; 2])| {
            format!("{leaves:.1} % of the rate leaves, and 95 % wait {slight:.0} and {more:.0} ms below")
        };
        let found = format!(
            "with a link that gives 0.4 and 2.1 % less than the limiter, under CoDel {}; under PIE {}; under tail drop with 100 ms {}",
            told(codel),
            told(pie),
            told(full)
        );
        // Half and twice of what the claim asks for.
        let carries = codel.0 < 99.5 && codel.1[0] < 25.0 && codel.1[1] > 50.0;
        (found, carries && full.0 > 99.9 && full.1[0] > 100.0)
    },
};

/// Name and content of the scenario with probes, in which the limiter's queue comes first.
const SENSED: (&str, &str) = scenario_file!("cause_asqm.toml");
const RTTS: [&str; 3] = ["50 ms", "100 ms", "200 ms"];

/// The 95 % delay of the limiter's queue at each round-trip time, in ms.
fn queues(points: &Points, name: &str) -> [f64; 3] {
    RTTS.map(|rtt| points.mean(&[rtt, name], delay_p95_ms))
}

fn three([a, b, c]: [f64; 3]) -> String {
    format!("{a:.0}, {b:.0} and {c:.0} ms")
}

/// The delay is what the target is.
pub static TARGET: Experiment = Experiment {
    file: SENSED,
    judge: |points: &Points| {
        let [usual, half] = ["ASQM", "ASQM, 50 ms"].map(|name| queues(points, name));
        let found = format!(
            "95 % wait {} at round-trip times of 50, 100 and 200 ms, and {} with a target of 50 ms",
            three(usual),
            three(half)
        );
        (found, least(usual) > 75.0 && most(half) <= 62.5)
    },
};

/// What exceeds the target is what senders add until they answer.
pub static SENDERS: Experiment = Experiment {
    file: SENSED,
    judge: |points: &Points| {
        let [one, ten, forty] = ["ASQM, one flow", "ASQM", "ASQM, 40 flows"].map(|name| queues(points, name));
        let found = format!(
            "95 % wait {} with one flow, {} with ten and {} with 40, at round-trip times of 50, 100 and 200 ms",
            three(one),
            three(ten),
            three(forty)
        );
        (found, most(one) <= 100.0 && least(ten) > 100.0 && least(forty) > most(ten))
    },
};

/// Probes take what ASQM is behind.
pub static PROBES: Experiment = Experiment {
    file: SENSED,
    judge: |points: &Points| {
        let [codel, pie, asqm, fewer] = ["CoDel", "PIE", "ASQM", "ASQM, a probe for 64 packets"]
            .map(|name| points.mean(&["50 ms", name], payload_mbps));
        let best = codel.max(pie);
        let found = format!(
            "at 50 ms ASQM has {asqm:.2} Mbit/s with a probe for 4 packets and {fewer:.2} with one for 64, CoDel {codel:.2} and PIE {pie:.2}"
        );
        (found, asqm <= best - 0.05 && fewer >= best - 0.02)
    },
};

/// A FIFO is as long as its frames, and empty only where senders pause.
pub static FIFO: Experiment = Experiment {
    file: scenario_file!("cause_fifo.toml"),
    judge: |points: &Points| {
        // Round trips over a path of 100 ms, that 5 and 95 % of the time they do not exceed.
        let of = |name: &str| {
            let ends = |run: &Recording| {
                let measured = between(run, run.summary.warmup_s, f64::INFINITY);
                let delays = sorted(measured.map(|sample| 100.0 + sample.delay_mean_ms));
                [0.05, 0.95].map(|share| quantile(&delays, share))
            };
            let runs: Vec<[f64; 2]> = points.runs(&[name]).map(ends).collect();
            [0, 1].map(|end| mean(runs.iter().map(|run| run[end])))
        };
        let [usual, reno, pauses, short] =
            ["as in the testbed", "Reno", "pauses of 20 s", "750 frames"].map(of);
        let told = |[low, high]: [f64; 2]| format!("{low:.0} to {high:.0} ms");
        let found = format!(
            "round trips are {} (5 and 95 %), with Reno {}, with pauses of 20 s between transfers {}, with 750 frames {}",
            told(usual),
            told(reno),
            told(pauses),
            told(short)
        );
        let is_full = least([usual[0], reno[0], short[0]]) > 400.0;
        (found, is_full && pauses[0] <= 200.0 && short[1] <= 1500.0 && usual[1] > 1500.0)
    },
};
