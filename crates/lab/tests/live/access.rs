//! A queue below IP with real TCP: what a user notices of it under CoDel and under ASQM.
//!
//! Needs root and the programs of the lab; without them it says so and passes.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::ops::ControlFlow;
use std::process::Command;
use std::time::Duration;
use weir_config::RunConfig;
use weir_lab::access::{AccessConfig, Call, Connection, Home, ModemResult, Way, run};
use weir_lab::{Looking, SideBySide};
use weir_measure::result::Progress;
use weir_units::Rate;
use weir_wire::dscp::Dscp;

/// Two homes beside each other, for so many seconds each, with an algorithm and what it senses: each uploads
/// through a limiter of 16 Mbit/s and a modem of 7, whose FIFO takes 1.7 s to drain. That leaves the machine
/// idle most of the time.
fn uploads(homes: [(u64, &str, &str); 2]) -> [ModemResult; 2] {
    let turns = SideBySide::default();
    std::thread::scope(|scope| {
        let started = homes.map(|(seconds, aqm, sense)| {
            let config = AccessConfig {
                shared: Rate::from_mbps(7),
                duration: Duration::from_secs(seconds),
                ..access(vec![home(16, aqm, sense)])
            };
            let turns = &turns;
            scope.spawn(move || <[ModemResult; 1]>::try_from(played(&config, turns)).expect("one modem"))
        });
        started.map(|run| {
            let [modem] = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            modem
        })
    })
}

/// A home with three uploads behind a limiter of so many Mbit/s.
fn home(mbps: u64, aqm: &str, sense: &str) -> Home {
    let text = format!(
        "[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\nrate = \"{mbps}Mbit/s\"\naccounting = \"frame\"\nbuffer = \"1.5MB\"\n\
         [a_to_b.aqm]\nname = \"{aqm}\"\n{sense}"
    );
    // Reno fills the modem's FIFO within a second or two; CUBIC's HyStart ends slow start before.
    let reno = Connection { congestion: "reno".into(), ..Connection::default() };
    Home {
        limiter: RunConfig::parse("limiter", &text).expect("it is valid"),
        committed: None,
        expedites: false,
        machines: 1,
        connections: vec![reno; 3],
        calls: Vec::new(),
    }
}

/// An access network in which the limiters are the bottlenecks.
fn access(homes: Vec<Home>) -> AccessConfig {
    AccessConfig {
        way: Way::Upload,
        homes,
        mode: None,
        shared: Rate::from_mbps(60),
        lent: Rate::from_mbps(16),
        fifo: 1000,
        rtt: Duration::from_millis(20),
        duration: Duration::from_secs(6),
        warmup: Duration::from_secs(3),
    }
}

fn played(config: &AccessConfig, turns: &SideBySide) -> Vec<ModemResult> {
    let turn = || turns.exclusive(|_| ControlFlow::Continue(()));
    let modems = run(config, turn, &mut Looking(|_| ControlFlow::Continue(()))).expect("it runs");
    // A queue that is short where it should be long has lost packets early, here or on the way.
    for modem in &modems {
        let ModemResult { link, ports, stalled_share, bins_bps, warnings, .. } = modem;
        skipped::say(format!(
            "limiter: {} discarded by {}, {} by the buffer, faults {:?}, stalled {:.1} %, {bins_bps:.0?} bit/s; {ports}; \
             {warnings:?}",
            link.drops,
            link.aqm,
            link.overflows,
            link.faults,
            stalled_share * 100.0
        ));
    }
    modems
}

fn mbps(modem: &ModemResult) -> f64 {
    modem.bins_bps.iter().sum::<f64>() / modem.bins_bps.len() as f64 / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    // Of none it is no number, which is within no bounds.
    weir_measure::median(&values).unwrap_or(f64::NAN)
}

#[test]
fn a_ping_beside_uploads_is_held_by_asqm_where_codel_lets_it_wait() {
    if can_run_live(&["ip", "tc"]) {
        judged(both);
    }
}

fn both(attempt: &mut Attempt) {
    // The pings differ by a factor of 17, and the bounds by less than a third of what is measured.
    attempt.tolerates(0.1);
    let [codel, asqm] = uploads([(5, "codel", ""), (5, "asqm", "[sense]\nport = \"b\"\n")]);
    let ((codel_ms, _), (asqm_ms, asqm_mbps)) = (told("codel", &codel), told("asqm", &asqm));
    attempt.end();
    attempt.within(
        "median of the pings in ms with CoDel, which does not see what waits below",
        codel_ms,
        500.0..,
    );
    attempt.within("and with ASQM, which does", asqm_ms, ..300.0);
    // TCP delivers in order: in the second in which a gap is filled it delivers more than the link carries.
    attempt.within("Mbit/s delivered over the modem's link of 7", asqm_mbps, 4.0..);
    let sensing = asqm.link.sensing.expect("it senses");
    attempt.holds(format_args!("state {}", sensing.state), "sensing", sensing.state == "sensing");
    attempt.within("share of the probes", sensing.share, ..=0.005);
}

fn told(what: &str, modem: &ModemResult) -> (f64, f64) {
    let ping = median(modem.pings_ms.clone());
    let mbps = mbps(modem);
    let shaped = modem.link.sensing.as_ref().and_then(|sensing| sensing.shaped.as_ref());
    skipped::say(format!("{what}: median of the pings {ping:.0} ms, {mbps:.2} Mbit/s, {shaped:?}"));
    (ping, mbps)
}

#[test]
fn a_rate_that_follows_the_modem_keeps_the_queue_at_the_limiter() {
    if can_run_live(&["ip", "tc"]) {
        judged(followed);
    }
}

fn followed(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let autorate = "[sense]\nport = \"b\"\nautorate = { min = \"2Mbit/s\", max = \"20Mbit/s\" }\n";
    let [fixed, moved] = uploads([(5, "codel", ""), (10, "codel", autorate)]);
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
    if can_run_live(&["ip", "tc"]) {
        judged(silent);
    }
}

/// Nobody has the address that probes are sent to.
fn silent(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let nobody = "[sense]\nport = \"b\"\nmode = \"icmp\"\ntarget = \"192.0.2.9\"\nhold = \"500ms\"\nfall_back = \"1s\"\n";
    // What stands in the modem at the change drains at the difference of both rates, 3 Mbit/s, and what the
    // flows have in flight by then at 4: 6 to 10 s. The last quarter is behind that.
    let lower = format!("{nobody}fall_back_rate = \"4Mbit/s\"\n");
    let [stays, falls] = uploads([(6, "asqm", nobody), (20, "asqm", &lower)]);
    let ((stays_ms, _), (_, mbps)) = (told("rate stays", &stays), told("fall-back rate", &falls));
    attempt.end();
    let ping_ms = median(falls.pings_ms[falls.pings_ms.len() / 4 * 3..].to_vec());
    attempt.within("median of the pings in ms at 16 Mbit/s", stays_ms, 500.0..);
    attempt.within("and of the last quarter at the fall-back rate of 4", ping_ms, ..250.0);
    attempt.within("Mbit/s delivered", mbps, 3.2..);
    let sensing = falls.link.sensing.expect("it senses");
    attempt.holds(format_args!("state {}", sensing.state), "fallen back", sensing.state == "fallen back");
    let shaped = sensing.shaped.expect("silence moves the rate");
    let is_lower = shaped.fallen_back && shaped.fall_backs == 1 && shaped.rate_bps == 4e6;
    attempt.holds(format_args!("{shaped:?}"), "4 Mbit/s once", is_lower);
}

#[test]
fn a_call_of_class_ef_does_not_wait_with_the_uploads_beside_it() {
    if can_run_live(&["ip", "tc"]) {
        judged(called);
    }
}

/// The uploads fill the limiter, which nobody manages; what is marked EF passes them.
fn called(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let call = |dscp| Call { dscp, payload: 172, every: Duration::from_millis(20), machine: 0 };
    let calls = [Dscp::EXPEDITED, Dscp::DEFAULT].map(call).to_vec();
    let home = Home { expedites: true, calls, ..home(4, weir_aqm::UNMANAGED, "") };
    let [modem] =
        <[ModemResult; 1]>::try_from(played(&access(vec![home]), &SideBySide::default())).expect("one modem");
    attempt.end();
    let [ef, af] = <[Vec<f64>; 2]>::try_from(modem.calls_ms).expect("two calls");
    // 150 in 3 s, both ways.
    attempt.within("datagrams came back", ef.len() as f64, 100.0..=151.0);
    let (ef_ms, af_ms) = (median(ef), median(af));
    skipped::say(format!("median of class EF {ef_ms:.1} ms, of the others {af_ms:.0} ms"));
    attempt.holds(format_args!("{ef_ms:.1} ms of class EF"), "less than the others", ef_ms < af_ms);
    attempt.within("median of the call in ms", ef_ms, 20.0..40.0);
    attempt.within("and of one that is not marked", af_ms, 60.0..);
}

#[test]
fn limiters_borrow_what_others_leave_in_proportion_to_their_committed_rates() {
    if can_run_live(&["ip", "tc"]) {
        judged(borrowed);
    }
}

/// Of 24 Mbit/s the third home needs nothing: the others have their 4 and 8, and divide 12 as 1 to 2.
fn borrowed(attempt: &mut Attempt) {
    // Without borrowing they have half of it, and in equal parts of what is left 1.3 times as much.
    attempt.tolerates(0.2);
    let class =
        |committed: u64| Home { committed: Some(Rate::from_mbps(committed)), ..home(20, "codel", "") };
    let silent = Home { connections: Vec::new(), ..class(4) };
    let homes = vec![class(4), class(8), silent];
    let modems = played(&AccessConfig { lent: Rate::from_mbps(24), ..access(homes) }, &SideBySide::default());
    attempt.end();
    let [small, large] = [mbps(&modems[0]), mbps(&modems[1])];
    skipped::say(format!("{small:.2} and {large:.2} Mbit/s"));
    // Payload is 0.956 of a full frame.
    attempt.within("Mbit/s of both, of 24", small + large, 21.5..24.0);
    attempt.within("times as much as the one that is committed half of it", large / small, 1.8..2.2);
}

#[test]
fn machines_of_a_home_share_its_modem_both_ways() {
    if can_run_live(&["ip", "tc"]) {
        [Way::Upload, Way::Download].into_iter().for_each(|way| judged(|attempt| shared(way, attempt)));
    }
}

/// What `ss` says of the sockets in the homes of this process.
fn sockets_of_homes() -> String {
    let own = format!("weir-{}-", std::process::id());
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let homes = names.filter(|name| name.starts_with(&own) && name.contains("-hom"));
    let told = homes.map(|name| {
        let ss = Command::new("ip").args(["netns", "exec", &name, "ss", "-tinH"]).output();
        String::from_utf8_lossy(&ss.expect("ip starts").stdout).into_owned()
    });
    told.collect()
}

#[test]
fn homes_send_with_the_congestion_control_that_they_are_given() {
    if can_run_live(&["ip", "tc", "ss"]) {
        let home = Home { connections: vec![Connection::default()], ..home(16, "codel", "") };
        let config = AccessConfig { duration: Duration::from_secs(3), ..access(vec![home]) };
        let (turn, mut seen) = (|| weir_lab::exclusive(|_| ControlFlow::Continue(())), String::new());
        let look = |progress: Progress| {
            if progress.t_s > 1.0 && seen.is_empty() {
                seen = sockets_of_homes();
            }
            ControlFlow::Continue(())
        };
        run(&config, turn, &mut Looking(look)).expect("it runs");
        let controls: Vec<&str> = seen.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(controls.contains(&"cubic") && !controls.contains(&"reno"), "{seen}");
    }
}

/// Connections get theirs one by one, as the namespaces' default may be another one.
#[test]
fn a_congestion_control_that_the_kernel_lacks_is_told_and_no_other_takes_its_place() {
    if can_run_live(&["ip", "tc"]) {
        let lacking = Connection { congestion: "none".into(), ..Connection::default() };
        let home = Home { connections: vec![lacking], ..home(16, "codel", "") };
        let turn = || weir_lab::exclusive(|_| ControlFlow::Continue(()));
        let ran = run(&access(vec![home]), turn, &mut Looking(|_| ControlFlow::Continue(())));
        let told = ran.expect_err("there is no such one").to_string();
        assert!(told.contains("`none` is not in this kernel"), "{told}");
    }
}

fn shared(way: Way, attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let connections = [0, 1, 2].map(|machine| Connection { machine, ..Connection::default() }).to_vec();
    let call = Call { dscp: Dscp::DEFAULT, payload: 100, every: Duration::from_millis(20), machine: 2 };
    let sensed = home(16, "asqm", "[sense]\nport = \"b\"\n");
    let home = Home { machines: 3, connections, calls: vec![call], ..sensed };
    let config = AccessConfig { way, duration: Duration::from_secs(5), ..access(vec![home]) };
    let [modem] = <[ModemResult; 1]>::try_from(played(&config, &SideBySide::default())).expect("one modem");
    attempt.end();
    let bytes: Vec<u64> = modem.connections.iter().map(|c| c.bytes).collect();
    skipped::say(format!("{way:?}: {bytes:?} bytes to or from three machines"));
    assert!(bytes.iter().all(|bytes| *bytes > 0), "{way:?}: {bytes:?}");
    assert!(!modem.calls_ms[0].is_empty() && !modem.pings_ms.is_empty(), "{way:?}");
    // Whichever machine the data is of, its probes come back.
    let sensing = modem.link.sensing.expect("it senses");
    attempt.within(format!("{way:?}: probes sent"), sensing.sent as f64, 101.0..);
    let share = sensing.returned as f64 / sensing.sent as f64;
    attempt.within("share of them that came back", share, 0.9..=1.0);
}
