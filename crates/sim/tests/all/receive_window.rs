//! A receive window that grows, beside Linux 6.18 on a path of 100 ms (docs/tcp.md has the measurement).

use crate::common;

use common::{quiet, run};

/// A link that is never the limit.
const LINK: &str =
    "[link]\nrate = \"1Gbit/s\"\nbuffer = \"1s\"\n[path]\nrtt = \"100ms\"\n[aqm]\nname = \"tail_drop\"\n";

/// Seconds from the first byte's arrival until 10 MB were there.
fn took(window: &str) -> f64 {
    let text = quiet(LINK, &format!("[[flows]]\ntransfer = \"10MB\"\n{window}"), "10s");
    run(&text, 1).recording.summary.flows[0].transfers.unwrap().mean_s.unwrap() - 0.05
}

#[test]
fn ten_megabytes_take_as_long_as_in_linux_where_its_window_grows_at_once() {
    let grows = took("window_auto = \"6MiB\"\n");
    // Linux: 1.04 s and 1.17 s; 2.2 s where its window rested for a second before it grew. Here 0.92 s.
    assert!((0.88..1.25).contains(&grows), "{grows}");
    // A large constant window is the sender's business alone, a small one holds it back.
    assert!(took("") < grows);
    assert!(took("window = \"640kB\"\n") > grows);
}

#[test]
fn the_largest_window_is_that_of_linux() {
    let text = quiet(LINK, "[[flows]]\nwindow_auto = \"6291456B\"\n", "12s");
    let long = run(&text, 1).recording.summary.flows[0].bytes as f64;
    let text = quiet(LINK, "[[flows]]\nwindow_auto = \"6291456B\"\n", "7s");
    let short = run(&text, 1).recording.summary.flows[0].bytes as f64;
    // 3 930 752 bytes per round trip, to which the transmission of a packet adds 12 us.
    let window = (long - short) / 5.0 * 0.100_012;
    assert!((window / 3_930_752.0 - 1.0).abs() < 0.005, "{window}");
}
