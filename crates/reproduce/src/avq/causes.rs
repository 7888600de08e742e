//! Experiments that show why claims are missed.

use crate::experiment::{Experiment, Points, delay_mean_ms, fairness, lost};
use crate::statistics::most;

/// AVQ in its steady state loses nothing.
pub static START: Experiment = Experiment {
    name: "start",
    file: scenario_file!("cause_avq_start.toml"),
    judge: |points: &Points| {
        let lost = most(points.runs(&[]).map(lost));
        (
            format!(
                "once 180 flows have begun, and without short ones, it loses at most {lost:.0} packets in 200 s"
            ),
            lost <= 10.0,
        )
    },
};

/// With the timers of 2001 AVQ loses fewer packets than PI, with those of Linux not.
pub static TIMERS: Experiment = Experiment {
    name: "timers",
    file: scenario_file!("cause_avq_timers.toml"),
    judge: |points: &Points| {
        let [avq, pi, old_avq, old_pi] =
            ["AVQ", "PI", "AVQ, 2001", "PI, 2001"].map(|name| points.mean(&[name], lost));
        let found = format!(
            "AVQ loses {avq:.0} packets and PI {pi:.0} with the timers of Linux, {old_avq:.0} and {old_pi:.0} with those of 2001"
        );
        (found, avq >= pi && old_avq < old_pi)
    },
};

/// RED's queue is as long as its probability is small.
pub static RED: Experiment = Experiment {
    name: "red",
    file: scenario_file!("cause_avq_red.toml"),
    judge: |points: &Points| {
        let [ten, ninety] = ["RED, 10 %", "RED, 90 %"].map(|name| points.mean(&[name], delay_mean_ms) * 1.25);
        let found = format!(
            "180 flows have a queue of {ten:.0} packets with 10 % at the upper threshold, {ninety:.0} with 90 %"
        );
        (found, ninety <= 0.75 * ten)
    },
};

/// The others' queues make round-trip times alike.
pub static BIAS: Experiment = Experiment {
    name: "bias",
    file: scenario_file!("cause_avq_bias.toml"),
    judge: |points: &Points| {
        let [red, avq, longer] =
            ["RED", "AVQ 98 %", "AVQ 98 %, paths 40 ms longer"].map(|name| points.mean(&[name], fairness));
        let found =
            format!("Jain's index is {avq:.3}, with paths that are 40 ms longer {longer:.3}, RED's {red:.3}");
        (found, avq < red && longer >= red - 0.005)
    },
};

/// REM's queue needs longer than the experiment lasts.
pub static SETTLES: Experiment = Experiment {
    name: "settles",
    file: scenario_file!("cause_rem_settles.toml"),
    judge: |points: &Points| {
        // 1250 packets/s wait as long as there are packets before them.
        let queue = |from_s: f64, to_s: f64| {
            let samples = points.runs(&[]).filter_map(|run| run.link_samples.first()).flatten();
            let here = samples.filter(|sample| sample.t_s > from_s && sample.t_s <= to_s);
            crate::statistics::mean(here.map(|sample| sample.backlog_bytes as f64 / 1000.0))
        };
        let (first, last, settled) = (queue(150.0, 200.0), queue(200.0, 250.0), queue(350.0, 1150.0));
        let found = format!(
            "behind the return of 105 flows its queue is {first:.0} packets for 50 s, {last:.0} for the next 50, and from 200 s on \
             {settled:.0}"
        );
        (found, last > 65.0 && (40.0..=60.0).contains(&settled))
    },
};
