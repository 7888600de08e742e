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
    upload_for(5, aqm, sense)
}

fn upload_for(seconds: u64, aqm: &str, sense: &str) -> ModemResult {
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
        duration: Duration::from_secs(seconds),
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
    if can_run() {
        judged(both);
    }
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

/// Whether the lab can run here; says why not.
fn can_run() -> bool {
    let can = host::is_root() && ["ip", "tc"].iter().all(|program| host::has_binary(program));
    if !can {
        skipped::skipped("not root, or `ip` or `tc` is not installed");
    }
    can
}

fn told(what: &str, modem: &ModemResult) -> (f64, f64) {
    let ping = median(modem.pings_ms.clone());
    let mbps = modem.bins_bps.iter().sum::<f64>() / modem.bins_bps.len() as f64 / 1e6;
    let shaped = modem.link.sensing.as_ref().and_then(|sensing| sensing.shaped.as_ref());
    skipped::say(format!("{what}: median of the pings {ping:.0} ms, {mbps:.2} Mbit/s, {shaped:?}"));
    (ping, mbps)
}

#[test]
fn a_rate_that_follows_the_modem_keeps_the_queue_at_the_limiter() {
    if can_run() {
        judged(followed);
    }
}

fn followed(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let autorate = "[sense]\nport = \"b\"\nautorate = { min = \"2Mbit/s\", max = \"20Mbit/s\" }\n";
    let [fixed, moved] = [(5, ""), (10, autorate)].map(|(s, sense)| upload_for(s, "codel", sense));
    let ((fixed_ms, _), (ping_ms, mbps)) = (told("fixed", &fixed), told("autorate", &moved));
    attempt.end();
    attempt.within("median of the pings in ms at 16 Mbit/s", fixed_ms, 500.0..);
    attempt.within("and at a rate that follows the modem", ping_ms, ..100.0);
    attempt.within("Mbit/s delivered over the modem's link of 7", mbps, 5.5..);
    let shaped = moved.link.sensing.and_then(|sensing| sensing.shaped).expect("probes move the rate");
    // It ends somewhere between two reductions; at a fixed rate the modem is offered 16.
    attempt.within("rate at the end in Mbit/s", shaped.rate_bps / 1e6, 4.5..12.0);
    attempt.within("least rate in Mbit/s", shaped.least_bps / 1e6, 2.0..);
}

#[test]
fn a_ping_stays_short_at_the_fall_back_rate_while_the_gateway_is_silent() {
    if can_run() {
        judged(silent);
    }
}

/// Nobody has the address that probes are sent to.
fn silent(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let nobody = "[sense]\nport = \"b\"\nmode = \"icmp\"\ntarget = \"192.0.2.9\"\nhold = \"500ms\"\nfall_back = \"1s\"\n";
    // What stands in the modem at the change drains at the difference of both rates, 3 Mbit/s.
    let lower = format!("{nobody}fall_back_rate = \"4Mbit/s\"\n");
    let [stays, falls] = [(6, nobody), (20, &lower)].map(|(s, sense)| upload_for(s, "asqm", sense));
    let ((stays_ms, _), (ping_ms, mbps)) = (told("rate stays", &stays), told("fall-back rate", &falls));
    attempt.end();
    attempt.within("median of the pings in ms at 16 Mbit/s", stays_ms, 500.0..);
    attempt.within("and at the fall-back rate of 4", ping_ms, ..250.0);
    attempt.within("Mbit/s delivered", mbps, 3.2..);
    let sensing = falls.link.sensing.expect("it senses");
    attempt.holds(format_args!("state {}", sensing.state), "fallen back", sensing.state == "fallen back");
    let shaped = sensing.shaped.expect("silence moves the rate");
    let is_lower = shaped.fallen_back && shaped.fall_backs == 1 && shaped.rate_bps == 4e6;
    attempt.holds(format_args!("{shaped:?}"), "4 Mbit/s once", is_lower);
}
