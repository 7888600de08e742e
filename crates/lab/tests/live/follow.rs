//! A rate that follows a radio link with a deep buffer, with real TCP, beside the same without.
//!
//! Needs root and iperf3; skipped without.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::ops::ControlFlow;
use std::path::Path;
use weir_config::{Scenario, Upstream};
use weir_measure::result::Recording;
use weir_units::Duration;

/// The scenario with and without, over the same part of its trace.
fn run(upstream: Upstream) -> Recording {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/scenarios/vaqm_phone.toml");
    let mut scenario = Scenario::load(file).unwrap_or_else(|e| panic!("{e}"));
    scenario.links[0].upstream = upstream;
    scenario.run.duration = Duration::from_secs(7);
    scenario.run.warmup = Duration::from_secs(3);
    weir_lab::run(&scenario, None, |_| ControlFlow::Continue(()), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Median of the senders' round-trip times in milliseconds, of fifty at least, and what the receivers got, in
/// Mbit/s.
fn measured(recording: &Recording) -> Option<(f64, f64)> {
    let summary = &recording.summary;
    let within = recording.flow_samples.iter().filter(|s| s.t_s > summary.warmup_s && s.rtt_us > 0);
    let mut rtts: Vec<u32> = within.map(|s| s.rtt_us).collect();
    rtts.sort_unstable();
    let radio = &summary.links[1];
    assert_eq!(radio.name, "radio");
    let mbps = radio.bytes as f64 * 8.0 / summary.duration_s / 1e6;
    (rtts.len() > 50).then(|| (f64::from(rtts[rtts.len() / 2]) / 1e3, mbps))
}

#[test]
fn real_tcp_has_a_short_queue_behind_at_little_cost() {
    if !can_run_live(&["ip", "tc", "iperf3"]) {
        return;
    }
    judged(with_and_without);
}

/// Least share of the throughput that is left. One run of seconds has less now and then, longer ones too
/// (0.92 to 0.99): where one has, the mean of so many is judged.
const LEAST: f64 = 0.95;
const RUNS: usize = 3;

fn with_and_without(attempt: &mut Attempt) {
    // The bounds are wider than that: a share that both runs lose changes neither ratio.
    attempt.tolerates(0.03);
    let mut take = |upstream| {
        let recording = run(upstream);
        attempt.stalled(recording.summary.host.map_or(0.0, |host| host.stalled_share));
        recording
    };
    let (off, on) = (take(Upstream::Off), take(Upstream::Follow));
    let (Some((off_ms, off_mbps)), Some((on_ms, mut on_mbps))) = (measured(&off), measured(&on)) else {
        // Flows that start seconds late have next to no samples.
        return attempt.holds("too few samples of round-trip times", "fifty", false);
    };
    if on_mbps < LEAST * off_mbps {
        let more = (1..RUNS).map(|_| measured(&take(Upstream::Follow)).map_or(0.0, |(_, mbps)| mbps));
        on_mbps = (on_mbps + more.sum::<f64>()) / RUNS as f64;
    }
    attempt.end();
    eprintln!("{:?}; {:?}", on.summary.links[0].upstream, on.summary.warnings);
    attempt.within(format!("{off_ms:.0} ms without, in {on_ms:.0} ms with"), off_ms / on_ms, 2.5..);
    attempt.within(
        format!("{on_mbps:.2} Mbit/s with, in {off_mbps:.2} without"),
        on_mbps / off_mbps,
        LEAST..,
    );
    assert!(off.summary.links[0].upstream.is_none());
    let observed = on.summary.links[0].upstream.as_ref().unwrap();
    attempt.within("coverage", observed.coverage().unwrap_or(0.0), 0.9..=1.0);
    // Past a loop that does not turn for 0.2 s the kernel forwards, and delays nothing.
    attempt.within("round trip of the path in ms", observed.path_rtt_ms.unwrap_or(f64::NAN), 40.0..);
}
