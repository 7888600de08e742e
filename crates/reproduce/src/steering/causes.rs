//! Experiments that show why claims are missed.

use crate::experiment::{Experiment, Points, delay_p95_ms, utilization};
use crate::statistics::{extremes, least, mean, most};
use weir_measure::result::{LinkSample, Recording};

fn samples(run: &Recording) -> &[LinkSample] {
    run.link_samples.first().map_or(&[], Vec::as_slice)
}

/// Set point at the end of a run, in ms.
fn last_setpoint_ms(run: &Recording) -> f64 {
    samples(run).last().map_or(f64::NAN, |sample| sample.setpoint_ms)
}

fn range(values: &[f64], digits: usize) -> String {
    let (low, high) = extremes(values);
    format!("{low:.digits$} to {high:.digits$}")
}

/// Runs of figure 6 with two flows differ by more than the queues do.
pub static RUNS_DIFFER: Experiment = Experiment {
    name: "runs differ",
    file: scenario_file!("cause_figure6.toml"),
    judge: |points: &Points| {
        let of = |name: &str| points.runs(&[name]).map(|run| utilization(run) * 100.0).collect::<Vec<_>>();
        let [steered, drop] = ["GSP-AS", "TD 30 ms"].map(of);
        let [ours, theirs] = [&steered, &drop].map(|values| mean(values.iter().copied()));
        let (low, high) = extremes(&steered);
        let found = format!(
            "ten runs of each have {ours:.2} % ({}) and {theirs:.2} % ({})",
            range(&steered, 2),
            range(&drop, 2)
        );
        (found, (ours - theirs).abs() < high - low && low < theirs && theirs < high)
    },
};

/// A raise doubles the set point, and with a longer timeout no run doubles it once more.
pub static DOUBLED: Experiment = Experiment {
    name: "doubled",
    file: scenario_file!("cause_mtu.toml"),
    judge: |points: &Points| {
        let of = |timeout: &str| points.runs(&["9000", timeout]).map(last_setpoint_ms).collect::<Vec<_>>();
        let [usual, longer] = ["100ms", "200ms"].map(of);
        let found = format!(
            "six runs end at {} ms, and with an initial timeout of 200 ms at {} ms",
            range(&usual, 1),
            range(&longer, 1)
        );
        let spread = |values: &[f64]| most(values.iter().copied()) / least(values.iter().copied());
        (found, spread(&usual) >= 1.5 && spread(&longer) < 1.5)
    },
};

/// Two flows signal too seldom to raise the set point within 20 s.
pub static FLIPS: Experiment = Experiment {
    name: "flips",
    file: scenario_file!("cause_figure7b.toml"),
    judge: |points: &Points| {
        // The 34 flows leave for the first time at 200 s.
        let reached = |flips: &str, seconds: f64| {
            let here = |run: &Recording| {
                let since = samples(run).iter().filter(|s| s.t_s > 200.0 && s.t_s <= 200.0 + seconds);
                most(since.map(|sample| sample.setpoint_ms))
            };
            points.runs(&[flips]).map(here).collect::<Vec<_>>()
        };
        let (short, long) = (reached("20 s", 20.0), reached("40 s", 40.0));
        let found =
            format!("it reaches {} ms within 20 s and {} ms within 40 s", range(&short, 1), range(&long, 1));
        (found, least(short) < 7.0 && least(long) >= 7.0)
    },
};

/// Senders that pace leave the real queue empty.
pub static BURSTS: Experiment = Experiment {
    name: "bursts",
    file: scenario_file!("cause_bursts.toml"),
    judge: |points: &Points| {
        let of = |senders: &str| ["6", "36"].map(|flows| points.mean(&[flows, senders], delay_p95_ms));
        let [usual, paced] = ["as printed", "paced"].map(of);
        let found = format!(
            "95 % delays of 6 and 36 flows are {:.2} and {:.2} ms, and {:.2} and {:.2} ms where senders pace",
            usual[0], usual[1], paced[0], paced[1]
        );
        (found, most(paced) < 0.1 && least(usual) > 0.1)
    },
};

/// Backlog that 99 % of the samples do not exceed, in kB, and the rate that leaves for each bit of the
/// virtual rate, over the time in which the virtual queue is in charge.
fn virtual_queue(run: &Recording) -> [f64; 2] {
    let warmup_s = run.summary.warmup_s;
    let there = || samples(run).iter().filter(|s| s.t_s > warmup_s && s.virtual_rate_bps > 0.0);
    let backlogs = crate::statistics::sorted(there().map(|s| s.virtual_backlog_bytes as f64 / 1e3));
    let sum = |of: fn(&LinkSample) -> f64| there().map(of).sum::<f64>();
    [crate::statistics::quantile(&backlogs, 0.99), sum(|s| s.delivered_bps) / sum(|s| s.virtual_rate_bps)]
}

fn virtual_queues(points: &Points) -> [[f64; 2]; 3] {
    ["0.1 ms", "0.2 ms", "0.8 ms"].map(|setpoint| {
        let runs: Vec<[f64; 2]> = points.runs(&[setpoint]).map(virtual_queue).collect();
        [0, 1].map(|i| mean(runs.iter().map(|run| run[i])))
    })
}

/// A shorter set point of the virtual queue is within the figure's scale.
pub static SCALE: Experiment = Experiment {
    name: "scale",
    file: scenario_file!("cause_virtual.toml"),
    judge: |points: &Points| {
        let [short, usual, _] = virtual_queues(points);
        let found = format!(
            "99 % of the time it holds {:.0} kB at most with 0.2 ms, and {:.0} kB with 0.1 ms",
            usual[0], short[0]
        );
        (found, short[0] < 80.0 && short[0] < usual[0])
    },
};

/// With a longer one the rates are closer.
pub static RATES: Experiment = Experiment {
    name: "rates",
    file: scenario_file!("cause_virtual.toml"),
    judge: |points: &Points| {
        let [_, usual, long] = virtual_queues(points).map(|[_, share]| share * 100.0);
        let found =
            format!("{usual:.1} % of the virtual rate leave with 0.2 ms, and {long:.1} % with 0.8 ms");
        (found, long >= 98.0 && usual < long)
    },
};

/// A step that weighs by the time since the last signal keeps the policy.
pub static CLUSTERS: Experiment = Experiment {
    name: "clusters",
    file: scenario_file!("cause_half.toml"),
    judge: |points: &Points| {
        let of =
            |steps: &str| points.runs(&["9", steps]).map(|run| utilization(run) * 100.0).collect::<Vec<_>>();
        let [printed, by_time] = ["as printed", "by time, gain 1"].map(of);
        let [ours, theirs] = [&printed, &by_time].map(|values| mean(values.iter().copied()));
        let found = format!(
            "{} runs have {ours:.1} % ({}), and {theirs:.1} % where a step weighs by the time since the last",
            printed.len(),
            range(&printed, 1)
        );
        (found, ours < 49.0 && (49.0..=50.0).contains(&theirs))
    },
};

/// DCTCP at a phantom queue, by round-trip time.
pub static PHANTOM: Experiment = Experiment {
    name: "phantom",
    file: scenario_file!("cause_hull.toml"),
    judge: |points: &Points| {
        let of = |rtt: &str, flows: &str| {
            points.runs(&[rtt, "", flows]).map(|run| utilization(run) * 100.0).collect::<Vec<_>>()
        };
        let (far, near) = (of("1ms", ""), of("250us", "9"));
        let found = format!(
            "{} % at a round-trip time of 1 ms whatever the threshold, {} % with nine flows at 250 us",
            range(&far, 0),
            range(&near, 0)
        );
        (found, most(far.iter().copied()) < 91.0 && least(near.iter().copied()) >= 90.0)
    },
};
