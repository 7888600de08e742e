//! Phones behind a 5G core, in short: PFCP, tunnels, a radio link, real TCP and QUIC.
//!
//! It needs root and the programs of the lab; without them it says so and passes.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::time::Duration;
use weir_config::{RunConfig, Variation};
use weir_lab::cell::mobile::{MobileConfig, run};
use weir_lab::cell::{CellConfig, LoadBy};
use weir_upf::rules::PerDirection;

fn boxed(text: &str) -> RunConfig {
    let text = format!("[ports]\na = \"a\"\nb = \"b\"\n{text}");
    RunConfig::parse("box", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// 20 Mbit/s for two phones, 50 ms there and back, and buffers for most of a second.
fn config() -> MobileConfig {
    let radio = "[a_to_b]\nrate = \"20Mbit/s\"\nbuffer = \"8MB\"\ndelay = \"20ms\"\n\
                 queue = { discipline = \"user\", users = 64, user_memory = \"1MB\" }\n\
                 aqm = { name = \"tail_drop\" }\n[b_to_a]\ndelay = \"20ms\"\n";
    let cell = CellConfig {
        phones: 2,
        by: LoadBy::Quic,
        core: boxed("[a_to_b]\n[b_to_a]\ndelay = \"10ms\"\n"),
        cell: boxed(radio),
        radio: Variation::default(),
        duration: Duration::from_secs(6),
        warmup: Duration::from_secs(3),
    };
    MobileConfig { cell, waits: String::new(), ambr: PerDirection { up: 100_000, down: 1_000_000 } }
}

#[test]
fn the_user_plane_function_keeps_the_base_stations_queue_short() {
    if !can_run_live(&["ip", "tc", "ethtool"]) {
        return;
    }
    // By our rule for the rate, and by the article's.
    for waits in ["", "follow_law = \"largest\""] {
        judged(|attempt| two_phones(waits, attempt));
    }
}

fn two_phones(waits: &str, attempt: &mut Attempt) {
    // Both bounds are wider than a tenth of what is measured.
    attempt.tolerates(0.05);
    let say = || skipped::say("waiting for another run that measures on this machine");
    let wait = weir_lab::waiting(say, || true);
    let mut config = config();
    config.waits = waits.into();
    let result = run(&config, || weir_lab::exclusive(wait), &mut || true).unwrap_or_else(|e| panic!("{e}"));
    attempt.end();
    let mut rtts = result.cell.rtts_ms.clone();
    rtts.sort_by(f64::total_cmp);
    let median = rtts.get(rtts.len() / 2).copied().unwrap_or(f64::NAN);
    let goodput = result.cell.goodput_bps / 1e6;
    skipped::say(format!("{:?}", result.sessions));
    // Without it two full buffers of 1 MB make 850 ms.
    attempt.within(format!("{waits} round trip in ms"), median, 50.0..250.0);
    attempt.within("Mbit/s", goodput, 13.0..20.0);
    assert_eq!(result.sessions.len(), 2);
    // The base station is a thread of the test, whose socket overflows where it waits for a processor.
    attempt.within("lost in the base station", result.lost_in_station as f64, 0.0..=0.0);
    for session in &result.sessions {
        // What was reported over PFCP is what the queue passed.
        let queue = session.flows.iter().find(|flow| !flow.is_uplink).expect("a queue to the phone");
        assert!(queue.aqm.starts_with("vaqm"), "{}", queue.aqm);
        let (reported, passed) = (session.reported.down, queue.bytes);
        assert!(reported >= passed, "{reported}, and {passed} before");
        // A second and a little more of what the link carries.
        attempt.within("bytes passed until the report", (reported - passed) as f64, ..3e6);
        assert!(session.reported.up > 10_000);
    }
}
