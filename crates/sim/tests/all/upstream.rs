//! What a link learns of a bottleneck behind it that nobody manages, and what comes of it.

use std::ops::ControlFlow;
use weir_config::Scenario;
use weir_sim::{Outcome, Simulation, build};
use weir_units::{Duration, Time};

fn scenario(text: &str) -> Scenario {
    // Traces are found beside the file.
    let path = format!("{}/../../data/scenarios/changed.toml", env!("CARGO_MANIFEST_DIR"));
    Scenario::parse(&path, text).unwrap_or_else(|e| panic!("{e}"))
}

fn file(name: &str) -> String {
    let path = format!("{}/../../data/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn run(text: &str) -> Outcome {
    weir_sim::run(&scenario(text), 1, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Smoothed round-trip times of a flow's sender after the warm-up, in milliseconds, in order of size.
fn rtts(outcome: &Outcome, flow: u32) -> Vec<f64> {
    let samples = outcome.recording.flow_samples.iter();
    let of_flow = samples.filter(|s| s.flow == flow && s.t_s > 10.0 && s.rtt_us > 0);
    let mut rtts: Vec<f64> = of_flow.map(|s| f64::from(s.rtt_us) / 1e3).collect();
    rtts.sort_by(f64::total_cmp);
    rtts
}

/// What a run of a scenario shows of the first flow's delay, and what all flows get.
#[derive(Debug)]
struct Measured {
    median_ms: f64,
    high_ms: f64,
    goodput_mbps: f64,
}

fn measured(text: &str) -> Measured {
    let outcome = run(text);
    let rtts = rtts(&outcome, 0);
    let quantile = |q: f64| rtts[(rtts.len() as f64 * q) as usize];
    let flows = &outcome.recording.summary.flows;
    let goodput_mbps = flows.iter().map(|f| f.goodput_bps).sum::<f64>() / 1e6;
    Measured { median_ms: quantile(0.5), high_ms: quantile(0.95), goodput_mbps }
}

/// The three ways of dealing with phones: not at all, vAQM, and FQ-CoDel at a rate that follows.
fn three_ways(name: &str) -> [Measured; 3] {
    let on = file(name);
    let off = on.replace("upstream = \"inform\"", "upstream = \"off\"");
    let follow = on
        .replace("upstream = \"inform\"", "upstream = \"follow\"\nqueue = { discipline = \"flow\" }")
        .replace("aqm = { name = \"vaqm\" }", "aqm = { name = \"codel\" }");
    [off, on, follow].map(|text| measured(&text))
}

/// A receiver holds an acknowledgement for the second packet, 24 ms at 500 kbit/s: no queue, whatever the
/// rate.
#[test]
fn where_nothing_stands_behind_nobody_is_signalled_at_low_rates() {
    for rate in ["20Mbit/s", "10Mbit/s", "5Mbit/s", "2500kbit/s"] {
        let outcome = run(&file("vaqm_low_rates").replace("10Mbit/s", rate));
        let link = &outcome.recording.summary.links[0];
        assert_eq!((link.drops, link.marks), (0, 0), "{rate} for five users");
    }
}

/// Whose flow is signalled is the one with the most in flight, or each user's own: both give equal parts,
/// where a full buffer gives one nearly twice what another has.
#[test]
fn users_behind_one_line_get_equal_parts() {
    let text = file("vaqm_one_line");
    let of_users = text.replacen("upstream =", "queue = { discipline = \"user\" }\nupstream =", 1);
    let off = text.replace("\"inform\"", "\"off\"");
    let ratio = |text: &str| {
        let outcome = run(text);
        let rates: Vec<f64> = outcome.recording.summary.flows.iter().map(|f| f.goodput_bps).collect();
        let [least, most] = [f64::min, f64::max].map(|pick| rates.iter().copied().reduce(pick).unwrap());
        assert!(rates.iter().sum::<f64>() > 18e6, "{rates:?}");
        most / least
    };
    let [alone, all, each] = [&off, &text, &of_users].map(|text| ratio(text));
    assert!(alone > 1.5 && all < 1.25 && each < 1.25, "{alone} {all} {each}");
}

#[test]
fn vaqm_shortens_the_delay_of_radio_links_that_it_does_not_own() {
    let [off, on, follow] = three_ways("vaqm_strong");
    let [weak_off, weak_on, weak_follow] = three_ways("vaqm_weak");
    let all = format!("strong {off:?} {on:?} {follow:?}, weak {weak_off:?} {weak_on:?} {weak_follow:?}");
    assert!(off.median_ms > 2.5 * on.median_ms, "{all}");
    assert!(on.goodput_mbps > 0.95 * off.goodput_mbps, "{all}");
    assert!((0.67..1.5).contains(&(weak_on.median_ms / on.median_ms)), "{all}");
    assert!(weak_off.high_ms > 900.0 && weak_on.high_ms < 300.0, "{all}");
    assert!(weak_on.goodput_mbps > 0.9 * weak_off.goodput_mbps, "{all}");
    // A rate that follows costs more where the bottleneck never stands still.
    assert!(
        off.median_ms > 2.5 * follow.median_ms && weak_off.median_ms > 2.5 * weak_follow.median_ms,
        "{all}"
    );
    assert!(follow.goodput_mbps > 0.7 * off.goodput_mbps, "{all}");
    assert!(weak_follow.goodput_mbps > 0.75 * weak_off.goodput_mbps, "{all}");
}

/// A phone behind a radio link of 20 Mbit/s with a second of buffer, and the link that observes it.
fn phone(upstream: &str, flows: &str) -> String {
    let link = |name: &str, from: &str, to: &str, more: &str| {
        format!("[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
    };
    let fast = "rate = \"1Gbit/s\"\ndelay = \"5ms\"";
    let links = [
        link("core", "core", "cell", &format!("rate = \"1Gbit/s\"\n{upstream}")),
        link("radio", "cell", "phone", "rate = \"20Mbit/s\"\nbuffer = \"1s\"\ndelay = \"20ms\""),
        link("up", "phone", "core", "rate = \"50Mbit/s\"\ndelay = \"20ms\""),
        link("down", "server", "core", fast),
        link("back", "core", "server", fast),
    ];
    let flows = flows.replace("[[flows]]", "[[flows]]\nfrom = \"server\"\nto = \"phone\"");
    format!("title = \"t\"\n{}{flows}\n[run]\nduration = \"30s\"\nwarmup = \"10s\"\n", links.concat())
}

const INFORM: &str = "aqm = { name = \"vaqm\" }\nupstream = \"inform\"";
const FOLLOW: &str = "aqm = { name = \"codel\" }\nqueue = { discipline = \"flow\" }\nupstream = \"follow\"";

fn simulation(text: &str) -> Simulation {
    let mut simulation = build(&scenario(text), 1, ()).unwrap();
    simulation.run_until(Time::ZERO + Duration::from_secs(30));
    simulation
}

/// An inner variable of the algorithm of the link that observes.
fn gauge(simulation: &Simulation, wanted: &str) -> f64 {
    let mut seen = None;
    let link = &simulation.links()[0];
    link.queue.gauges(&mut |name, value| seen = if name == wanted { Some(value) } else { seen });
    seen.unwrap_or_else(|| panic!("no gauge {wanted}"))
}

#[test]
fn tcp_and_quic_show_the_path_and_little_is_unmeasured() {
    for flows in ["[[flows]]\n[[flows]]\n", "[[flows]]\nprotocol = \"quic\"\n"] {
        let simulation = simulation(&phone(INFORM, flows));
        let path = gauge(&simulation, "path_rtt_s");
        let observer = simulation.links()[0].observer.as_ref().unwrap();
        let coverage = observer.coverage().share().unwrap();
        // Propagation of 40 ms, the transmission of a packet, and what two flows never let drain.
        assert!((0.040..0.065).contains(&path), "{path}");
        assert!(coverage > 0.9, "{coverage}");
        let suspicions = observer.suspicions().unwrap();
        assert_eq!(suspicions.acks_beyond + suspicions.sequence_jumps, 0);
    }
}

/// A flow of QUIC that does not spin tells of the path by its handshake alone, and another one tells of the
/// queue that both have. Alone it is not shortened.
#[test]
fn quic_without_a_spin_bit_is_known_by_the_flow_beside_it() {
    let silent = "[[flows]]\nprotocol = \"quic\"\nspin = false\n";
    for law in [INFORM, FOLLOW] {
        let simulation = simulation(&phone(law, silent));
        let observer = simulation.links()[0].observer.as_ref().unwrap();
        let coverage = observer.coverage().share().unwrap();
        let suspicions = observer.suspicions().unwrap();
        assert!(coverage < 0.1 && suspicions.spin_distrusted > 100, "{coverage} {suspicions:?}");
        let both = format!("{silent}[[flows]]\n");
        let [alone, off, on] =
            [(law, silent), ("", &both), (law, &both)].map(|(law, flows)| measured(&phone(law, flows)));
        assert!(alone.median_ms > 500.0, "{alone:?}");
        assert!(
            off.median_ms > 3.0 * on.median_ms && on.goodput_mbps > 0.9 * off.goodput_mbps,
            "{off:?} {on:?}"
        );
    }
}

#[test]
fn one_flow_keeps_its_throughput_without_the_delay() {
    for (flow, least) in [("[[flows]]\n", 0.98), ("[[flows]]\nprotocol = \"quic\"\n", 0.95)] {
        let [off, on] = ["", INFORM].map(|upstream| measured(&phone(upstream, flow)));
        assert!(off.median_ms > 5.0 * on.median_ms, "{flow}{off:?} {on:?}");
        assert!(on.goodput_mbps > least * off.goodput_mbps, "{flow}{off:?} {on:?}");
    }
    let [off, follow] = ["", FOLLOW].map(|upstream| measured(&phone(upstream, "[[flows]]\n")));
    assert!(off.median_ms > 5.0 * follow.median_ms, "{off:?} {follow:?}");
    assert!(follow.goodput_mbps > 0.95 * off.goodput_mbps, "{off:?} {follow:?}");
}

#[test]
fn many_flows_share_a_bottleneck_that_is_followed() {
    let flows = "[[flows]]\ncount = 8\n";
    let [off, follow] = ["", FOLLOW].map(|upstream| measured(&phone(upstream, flows)));
    assert!(off.median_ms > 5.0 * follow.median_ms, "{off:?} {follow:?}");
    assert!(follow.goodput_mbps > 0.95 * off.goodput_mbps, "{off:?} {follow:?}");
}

/// As many signals as CoDel would give in a fade reach the one sender before the first of them shows, and its
/// window is a quarter of what the next cell takes.
#[test]
fn a_handover_costs_little_throughput() {
    let on = file("vaqm_handover");
    let [off, on] = ["off", "inform"].map(|way| measured(&on.replace("\"inform\"", &format!("\"{way}\""))));
    assert!(on.goodput_mbps > 0.86 * off.goodput_mbps, "{off:?} {on:?}");
    assert!(on.median_ms < 100.0 && on.high_ms < 200.0 && off.high_ms > 1000.0, "{off:?} {on:?}");
}

#[test]
fn downloads_that_begin_together_are_told_apart_also_more_than_are_remembered() {
    for (count, high_ms) in [(8, 350.0), (16, 350.0)] {
        let on = measured(&phone(INFORM, &format!("[[flows]]\ncount = {count}\n")));
        assert!(on.median_ms < 200.0 && on.high_ms < high_ms && on.goodput_mbps > 18.5, "{count}: {on:?}");
    }
}

/// What a TCP flow gets in Mbit/s, and its mean round-trip time in ms, beside datagrams of twice the rate of
/// a radio link: in the half minute from their first one on.
fn beside_a_flood(upstream: &str, mbps: u64, seed: u64) -> (f64, f64) {
    let flows = format!("[[flows]]\n[[flows]]\nudp_rate = \"{}Mbit/s\"\nstart = \"3s\"\n", 2 * mbps);
    let text = phone(upstream, &flows).replace("rate = \"20Mbit/s\"", &format!("rate = \"{mbps}Mbit/s\""));
    let text = text
        .replace("duration = \"30s\"", "duration = \"33s\"")
        .replace("warmup = \"10s\"", "warmup = \"3s\"");
    let outcome = weir_sim::run(&scenario(&text), seed, &mut |_| ControlFlow::Continue(())).unwrap();
    let flow = &outcome.recording.summary.flows[0];
    (flow.goodput_bps / 1e6, flow.rtt_ms)
}

/// Found with 20 Mbit/s and one seed; the other rates and seeds were held out.
#[test]
fn a_flood_of_twice_the_rate_leaves_others_four_fifths_of_their_share() {
    let (alone, _) = beside_a_flood("", 20, 1);
    assert!(alone < 0.5, "{alone}");
    let mut missed = Vec::new();
    let roomy = FOLLOW.replace("\"codel\"", "\"codel\", target = \"50ms\"");
    for (form, upstream) in [("signals", INFORM), ("shaper", &roomy)] {
        for (mbps, seed) in [(20, 1), (20, 2), (5, 3), (50, 4)] {
            let (kept, rtt) = beside_a_flood(upstream, mbps, seed);
            // Of 1538 bytes on the line 1448 are payload.
            let share = kept / (mbps as f64 / 2.0 * 1448.0 / 1538.0);
            if share < 0.8 || rtt > 400.0 {
                missed.push(format!(
                    "{form}, {mbps} Mbit/s, seed {seed}: {share:.2} of the share, {rtt:.0} ms"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// What a TCP flow gets in Mbit/s, its mean round-trip time in ms, what floods get together, and the bytes of
/// a stream of 20 kbit/s: beside `count` floods of so many kbit/s each, before a radio link of 20 Mbit/s, in
/// the minute from their first datagram on.
fn beside_floods(count: u32, kbps: u32) -> (f64, f64, f64, u64) {
    let flows = format!(
        "[[flows]]\n[[flows]]\nudp_rate = \"{kbps}kbit/s\"\ncount = {count}\nstart = \"3s\"\n\
         [[flows]]\nudp_rate = \"20kbit/s\"\npacket = \"160B\"\nstart = \"3s\"\n"
    );
    let text = phone(INFORM, &flows);
    let text = text
        .replace("duration = \"30s\"", "duration = \"63s\"")
        .replace("warmup = \"10s\"", "warmup = \"3s\"");
    let outcome = run(&text);
    let flows = &outcome.recording.summary.flows;
    let (floods, calls) = flows[1..].split_at(count as usize);
    let floods = floods.iter().map(|flow| flow.goodput_bps).sum::<f64>() / 1e6;
    (flows[0].goodput_bps / 1e6, flows[0].rtt_ms, floods, calls[0].bytes)
}

/// However many flows do not respond, together they are one.
#[test]
fn one_flood_ten_and_two_hundred_leave_tcp_its_share() {
    let mut missed = Vec::new();
    for count in [1, 10, 200] {
        let (kept, rtt, floods, call) = beside_floods(count, 40_000 / count);
        // 18.8 Mbit/s of payload fit, and 150 000 bytes are streamed. What is lost of them is lost before
        // the floods are known.
        if kept < 0.4 * 18.8 || rtt > 250.0 || call < 148_000 {
            missed.push(format!("{count}: {kept:.2} beside {floods:.2} Mbit/s, {rtt:.0} ms, {call} bytes"));
        }
    }
    // These fit beside TCP.
    let (kept, rtt, streams, call) = beside_floods(10, 400);
    if kept < 14.0 || streams < 3.98 || call < 149_500 {
        missed.push(format!("streams: {kept:.2} beside {streams:.2} Mbit/s, {rtt:.0} ms, {call} bytes"));
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Two phones whose cells have 10 and 40 Mbit/s behind one gateway: with the discipline "user" each is sent
/// to at the rate of its own cell, and neither waits in its cell.
#[test]
fn each_user_is_followed_at_the_rate_of_its_own_bottleneck() {
    let text = |upstream: &str| {
        let link = |name: &str, from: &str, to: &str, rate: &str, more: &str| {
            format!(
                "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\nbuffer = \"800ms\"\n{more}"
            )
        };
        let gateway = format!(
            "queue = {{ discipline = \"user\" }}\naqm = {{ name = \"codel\" }}\nupstream = \"{upstream}\"\n"
        );
        let mut text = String::from("title = \"two phones\"\n");
        text += &link("gateway", "core", "mast", "1Gbit/s", &gateway);
        text += &link("in", "servers", "core", "1Gbit/s", "");
        text += &link("out", "core", "servers", "1Gbit/s", "");
        for (phone, rate) in [("slow", "10Mbit/s"), ("fast", "40Mbit/s")] {
            text += &link(phone, "mast", phone, rate, "");
            text += &link(&format!("{phone}_up"), phone, "core", "50Mbit/s", "");
        }
        for phone in ["slow", "fast"] {
            text += &format!("[[flows]]\nfrom = \"servers\"\nto = \"{phone}\"\ncount = 2\nrtt = \"40ms\"\n");
        }
        text + "[run]\nduration = \"30s\"\nwarmup = \"10s\"\n"
    };
    let [off, follow] = ["off", "follow"].map(|upstream| run(&text(upstream)));
    let goodput = |outcome: &Outcome, group: u32| {
        let flows = outcome.recording.summary.flows.iter().filter(|flow| flow.group == group);
        flows.map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
    };
    for (user, rate, name) in [(0, 10.0, "slow"), (1, 40.0, "fast")] {
        let delay = |outcome: &Outcome| {
            let links = &outcome.recording.summary.links;
            links.iter().find(|link| link.name == name).unwrap().delay_ms.mean
        };
        assert!(delay(&off) > 100.0 && delay(&follow) < 10.0, "{name}: {} {}", delay(&off), delay(&follow));
        assert!(goodput(&follow, user) > 0.85 * rate, "{name}: {} Mbit/s", goodput(&follow, user));
    }
    let observed = follow.recording.summary.links[0].upstream.clone().unwrap();
    assert!(observed.users == 2 && observed.live_bytes * 100 > observed.bytes * 95, "{observed:?}");
}
