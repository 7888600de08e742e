//! A queue below IP with real TCP: what a user notices of it under CoDel and under ASQM.
//!
//! Needs root and the programs of the lab; without them it says so and passes.

use crate::skipped;

use skipped::judged::{Attempt, judged};
use std::ops::ControlFlow;
use std::time::Duration;
use weir_config::RunConfig;
use weir_lab::Looking;
use weir_lab::access::{AccessConfig, Connection, Home, ModemResult, Way, run};
use weir_lab::host;
use weir_units::Rate;

/// A home that uploads through a limiter of 16 Mbit/s and a modem of 7, whose FIFO takes 1.7 s to drain.
fn upload(aqm: &str, sense: &str) -> ModemResult {
    let text = format!(
        "[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\nrate = \"16Mbit/s\"\naccounting = \"frame\"\nbuffer = \"1.5MB\"\n\
         [a_to_b.aqm]\nname = \"{aqm}\"\n{sense}"
    );
    let config = AccessConfig {
        way: Way::Upload,
        homes: vec![Home {
            limiter: RunConfig::parse("limiter", &text).expect("it is valid"),
            connections: vec![Connection { size: None, pause: None }; 3],
        }],
        mode: None,
        shared: Rate::from_mbps(7),
        fifo: 1000,
        rtt: Duration::from_millis(20),
        duration: Duration::from_secs(5),
        warmup: Duration::from_secs(3),
    };
    let [modem] = <[ModemResult; 1]>::try_from(
        run(&config, |_| ControlFlow::Continue(()), &mut Looking(|_| ControlFlow::Continue(())))
            .expect("it runs"),
    )
    .expect("one modem");
    modem
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_ping_beside_uploads_is_held_by_asqm_where_codel_lets_it_wait() {
    if !host::is_root() || ["ip", "tc"].iter().any(|program| !host::has_binary(program)) {
        skipped::skipped("not root, or `ip` or `tc` is not installed");
        return;
    }
    judged(both);
}

fn both(attempt: &mut Attempt) {
    // The pings differ by a factor of 17, and the bounds by less than a third of what is measured.
    attempt.tolerates(0.1);
    let [codel, asqm] = [("codel", ""), ("asqm", "[sense]\nport = \"b\"\n")].map(|(aqm, sense)| {
        let modem = upload(aqm, sense);
        let (pings, bins) = (median(modem.pings_ms.clone()), modem.bins_bps.clone());
        skipped::say(format!("{aqm}: median of the pings {pings:.0} ms, {bins:.0?} bit/s"));
        (pings, modem)
    });
    attempt.end();
    attempt.within(
        "median of the pings in ms with CoDel, which does not see what waits below",
        codel.0,
        500.0..,
    );
    attempt.within("and with ASQM, which does", asqm.0, ..300.0);
    let mean = asqm.1.bins_bps.iter().sum::<f64>() / asqm.1.bins_bps.len() as f64;
    // TCP delivers in order: in the second in which a gap is filled it delivers more than the link carries.
    attempt.within("Mbit/s delivered over the modem's link of 7", mean / 1e6, 4.0..);
    let sensing = asqm.1.link.sensing.expect("it senses");
    attempt.holds(format_args!("state {}", sensing.state), "sensing", sensing.state == "sensing");
    attempt.within("share of the probes", sensing.share, ..=0.005);
}
