//! A queue that is steered by its counters, as `weir steer` steers those of the kernel.

use crate::common::{run, scenario};
use weir_measure::result::LinkSample;
use weir_sim::Outcome;

/// Flows of CUBIC over a link of 10 Mbit/s, 80 ms away, with these keys of the link and these further tables.
fn text(link: &str, flows: u32, tables: &str) -> String {
    format!(
        "title = \"polled\"\n[link]\nrate = \"10Mbit/s\"\nbuffer = \"1500kB\"\n{link}\n[path]\nrtt = \"80ms\"\n\
         [[flows]]\ncount = {flows}\n[run]\nduration = \"60s\"\nwarmup = \"20s\"\n{tables}"
    )
}

const POLL: &str = "steered_by = \"poll\"";
const CODEL: &str = "[aqm]\nname = \"codel\"\n";

fn polled(link: &str, flows: u32, tables: &str) -> Outcome {
    run(&text(&format!("{POLL}\n{link}"), flows, tables), 1)
}

fn samples(outcome: &Outcome) -> &[LinkSample] {
    &outcome.recording.link_samples[0]
}

#[test]
fn polls_hold_the_policy_as_the_exact_law_does() {
    // Raises double: from CoDel's own 5 ms one law ends at 20 ms where another has 30.
    let tables = format!("{CODEL}[policy]\ntarget_min_up = \"2.5ms\"\n");
    for flows in [2, 16] {
        let link = |outcome: Outcome| outcome.recording.summary.links[0].clone();
        let exact = link(run(&text("", flows, &tables), 1));
        for estimator in ["backlog", "delay", "probe"] {
            let polled = link(polled(&format!("poll_estimator = \"{estimator}\""), flows, &tables));
            let all = format!("{flows} flows, {estimator}: {polled:?}\nexact law: {exact:?}");
            assert!((polled.utilization - exact.utilization).abs() < 0.01, "{all}");
            assert!((0.75..1.25).contains(&(polled.delay_ms.p95 / exact.delay_ms.p95)), "{all}");
        }
    }
}

#[test]
fn the_set_point_stays_until_the_first_signal_and_then_within_the_policy() {
    let tables =
        "[aqm]\nname = \"codel\"\ntarget = \"40ms\"\n[policy]\ntarget_min = \"1ms\"\ntarget_max = \"12ms\"\n";
    let outcome = polled("poll_settle = \"1s\"", 2, tables);
    let samples = samples(&outcome);
    let signalled = samples.iter().position(|s| s.drops + s.marks > 0).expect("two flows fill the link");
    assert!(signalled > 0);
    // The queue begins as it was found.
    assert!(samples[..signalled].iter().all(|s| s.setpoint_ms == 40.0));
    assert!(samples[signalled + 1..].iter().all(|s| (1.0..=12.0).contains(&s.setpoint_ms)));
    let moved = samples.windows(2).filter(|pair| pair[0].setpoint_ms != pair[1].setpoint_ms);
    let times: Vec<f64> = moved.map(|pair| pair[1].t_s).collect();
    assert!(times.len() > 1 && times.windows(2).all(|pair| pair[1] - pair[0] > 0.89), "{times:?}");
}

#[test]
fn a_link_that_is_no_bottleneck_is_left_alone() {
    let tables = format!("{CODEL}[policy]\n");
    let slow = text(POLL, 1, &tables).replace("count = 1\n", "udp_rate = \"5Mbit/s\"\n");
    let outcome = run(&slow, 1);
    assert!(samples(&outcome).iter().all(|s| s.setpoint_ms == 5.0 && s.drops == 0));
    assert_eq!(outcome.recording.events.len(), 0);
}

#[test]
fn below_full_utilization_the_rate_of_the_link_stands_for_the_virtual_queue() {
    let tables = format!("{CODEL}[policy]\nutilization_low = \"90%\"\nutilization_target = \"95%\"\n");
    let outcome = polled("", 16, &tables);
    let last = &samples(&outcome)[400..];
    let carried = last.iter().map(|s| s.delivered_bps).sum::<f64>() / last.len() as f64;
    assert!((9.3e6..9.65e6).contains(&carried), "{carried}");
    // It was lowered, and not only little used: packets wait for it.
    assert!(last.iter().all(|s| s.delivered_bps < 9.9e6));
    assert!(last.iter().filter(|s| s.backlog_bytes > 0).count() > last.len() / 2);
}

#[test]
fn all_flows_of_a_queue_of_many_get_the_set_point() {
    let tables = format!("{CODEL}[queue]\ndiscipline = \"flow\"\n[policy]\n");
    let outcome = polled("", 2, &tables);
    let link = &outcome.recording.summary.links[0];
    let still = run(&text("", 2, &tables.replace("[policy]\n", "")), 1);
    let still = &still.recording.summary.links[0];
    assert!(link.setpoint_ms.unwrap() > 5.0, "{link:?}");
    assert!(link.utilization > still.utilization + 0.005, "{link:?} {still:?}");
}

#[test]
fn a_run_is_repeated_to_the_bit() {
    let tables = format!("{CODEL}[policy]\n");
    let [one, two] = [1, 1].map(|_| polled("", 2, &tables));
    assert_eq!(one.trace_hash, two.trace_hash);
    let other = polled("poll_period = \"100ms\"", 2, &tables);
    assert_ne!(one.trace_hash, other.trace_hash);
    // Polls that move nothing change nothing.
    let slow = text("", 1, CODEL);
    let policy = text(POLL, 1, &format!("{CODEL}[policy]\n"));
    let quiet = |text: &str| run(&text.replace("count = 1\n", "udp_rate = \"5Mbit/s\"\n"), 1).trace_hash;
    assert_eq!(quiet(&slow), quiet(&policy));
    assert!(scenario(&policy).policy.is_some());
}
