//! Experiments that show why claims are missed.

use super::measured::Values;
use crate::experiment::{Experiment, Points, delay_mean_ms, utilization};
use weir_measure::result::Recording;

/// What claims are judged by, of one run.
fn median_rtt_ms(run: &Recording) -> f64 {
    Values::recorded(run).rtt_median_ms
}

/// How many times vAQM shortens them at a point.
fn times_shorter(points: &Points, vaqm: &str, point: &[&str]) -> f64 {
    let [off, on] = ["off", vaqm].map(|vaqm| points.mean(&[&[vaqm], point].concat(), median_rtt_ms));
    off / on
}

/// How many times vAQM shortens round trips is the size of the base station's buffers.
pub static CELL: Experiment = Experiment {
    file: scenario_file!("cause_cell.toml"),
    judge: |points: &Points| {
        let ratios = |by: &str| {
            ["250 kB", "500 kB", "1000 kB", "2000 kB"].map(|buffer| times_shorter(points, by, &[buffer]))
        };
        let ways = ["signals", "shaper"].map(ratios);
        let [signals, shaper] = ways.map(|ratios| ratios.map(|ratio| format!("{ratio:.1}")).join(", "));
        let found = format!(
            "medians of round trips fall {signals} times by signals and {shaper} times by our shaper with buffers of \
             250 kB, 500 kB, 1 MB and 2 MB"
        );
        let is_buffer =
            |[quarter, half, usual, _]: [f64; 4]| quarter < 2.5 && (2.5..=4.0).contains(&half) && usual > 4.0;
        (found, ways.into_iter().all(is_buffer))
    },
};

/// Of QUIC it is that size, too, whether slow start ends early or not.
pub static QUIC: Experiment = Experiment {
    file: scenario_file!("cause_cell_quic.toml"),
    judge: |points: &Points| {
        let ratios = |buffer: &str, start: &str| {
            ["signals", "shaper", "largest"].map(|vaqm| times_shorter(points, vaqm, &[buffer, start]))
        };
        let told = |[signals, shaper, largest]: [f64; 3]| {
            format!(
                "{signals:.1} times by signals, {shaper:.1} by our shaper and {largest:.1} by the article's"
            )
        };
        let starts = ["ends early", "does not"];
        let [usual, half] = ["1000 kB", "500 kB"].map(|buffer| starts.map(|start| ratios(buffer, start)));
        let found = format!(
            "medians of round trips fall {} with buffers of 1 MB, and {} with 500 kB; where slow start does not end early {}, and {}",
            told(usual[0]),
            told(half[0]),
            told(usual[1]),
            told(half[1])
        );
        // With half the buffer a tenth less at least, of each.
        let less = |i: usize| usual[i].iter().zip(half[i]).all(|(usual, half)| half < 0.9 * usual);
        (found, less(0) && less(1))
    },
};

/// How many times CoDel shortens a delay is the size of the buffer.
pub static BUFFER: Experiment = Experiment {
    file: scenario_file!("cause_buffer.toml"),
    judge: |points: &Points| {
        let ratio = |buffer: &str| {
            let [bloated, managed] =
                ["tail drop", "CoDel"].map(|name| points.mean(&[buffer, name], delay_mean_ms));
            bloated / managed
        };
        let [one, two, four] = ["1MB", "2MB", "4MB"].map(ratio);
        let found = format!("{one:.0}, {two:.0} and {four:.0} times with buffers of 1, 2 and 4 MB");
        (found, one < 100.0 && two >= 100.0 && four >= 100.0)
    },
};

/// What a longer target gains is how long the path is.
pub static TARGET: Experiment = Experiment {
    file: scenario_file!("cause_target.toml"),
    judge: |points: &Points| {
        let gain = |rtt: &str, flows: &str| {
            let [short, long] =
                ["5ms", "20ms"].map(|target| points.mean(&[rtt, flows, target], utilization) * 100.0);
            long - short
        };
        let [near, far] = ["10ms", "50ms"].map(|rtt| ["1", "9"].map(|flows| gain(rtt, flows)));
        let found = format!(
            "20 ms instead of 5 gain {:.1} points with one flow over 50 ms and {:.1} with nine, {:.1} and {:.1} over 10 ms",
            far[0], far[1], near[0], near[1]
        );
        (found, far[0] > 2.0 && far[1] < 1.0 && near.iter().all(|gain| *gain < 1.0))
    },
};
