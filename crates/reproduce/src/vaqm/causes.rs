//! Experiments that show why claims are missed.

use crate::experiment::{Experiment, Points, delay_mean_ms};

/// How many times CoDel shortens a delay is the size of the buffer.
pub static BUFFER: Experiment = Experiment {
    name: "buffer",
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
