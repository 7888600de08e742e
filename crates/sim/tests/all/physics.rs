//! Times, rates and queueing laws, against what can be computed by hand.

use crate::common;

use common::{quiet, run};
use weir_measure::result::{LinkSample, Recording};

fn samples_of(recording: &Recording, of: impl Fn(&LinkSample) -> f64) -> Vec<f64> {
    recording.link_samples[0].iter().map(of).collect()
}

fn link(recording: &Recording) -> &weir_measure::result::LinkSummary {
    &recording.summary.links[0]
}

/// A single packet of 1000 bytes each second over 8 Mbit/s and 10 ms: 1 ms of transmission, no waiting.
#[test]
fn serialization_and_propagation_are_exact() {
    let text = quiet(
        "[link]\nrate = \"8Mbit/s\"\naccounting = \"ip\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n",
        "[[flows]]\nudp_rate = \"7776bit/s\"\npacket = \"972B\"\n",
        "10s",
    );
    let outcome = run(&text, 1);
    let summary = link(&outcome.recording);
    assert_eq!((summary.packets, summary.bytes), (10, 10_000));
    assert_eq!(summary.delay_ms.max, 0.0);
}

/// A transfer of one segment takes its transmission and the way there, to the nanosecond.
#[test]
fn a_single_packet_arrives_when_it_must() {
    let text = quiet(
        "[link]\nrate = \"8Mbit/s\"\naccounting = \"ip\"\n[path]\nrtt = \"30ms\"\ndelay_ab = \"10ms\"\n\
         [aqm]\nname = \"tail_drop\"\n",
        "[[flows]]\ntransfer = \"1448B\"\n",
        "1s",
    );
    let mut simulation = weir_sim::build(&common::scenario(&text), 1, ()).unwrap();
    simulation.run_until(weir_units::Time::from_nanos(1_000_000_000));
    simulation.finish();
    let stats = simulation.flows()[0].stats;
    assert_eq!((stats.completed, stats.transfer_time.as_nanos()), (1, 11_500_000));
}

/// What the link behind adds takes time and counts, in the words of tc-cake(8).
#[test]
fn the_overhead_of_a_link_takes_time_and_counts() {
    for (overhead, of_1000, of_1500) in [
        ("conservative", 22 * 53, 33 * 53),
        ("pppoe-ptm", 1030 + 17, 1530 + 24),
        ("docsis", 1018, 1518),
        ("overhead 8 mpu 256 noatm", 1008, 1508),
    ] {
        let link_of = |rtt: &str, flows: &str, length: &str| {
            let path = format!("[path]\n{rtt}\n[aqm]\nname = \"tail_drop\"\n");
            quiet(&format!("[link]\nrate = \"8Mbit/s\"\noverhead = \"{overhead}\"\n{path}"), flows, length)
        };
        let datagrams = "[[flows]]\nudp_rate = \"7776bit/s\"\npacket = \"972B\"\n";
        let outcome = run(&link_of("rtt = \"20ms\"", datagrams, "10s"), 1);
        let summary = link(&outcome.recording);
        assert_eq!((summary.packets, summary.bytes), (10, 10 * of_1000), "{overhead}");
        assert!(summary.accounting.starts_with("overhead "), "{}", summary.accounting);
        let text = link_of("rtt = \"30ms\"\ndelay_ab = \"10ms\"", "[[flows]]\ntransfer = \"1448B\"\n", "1s");
        let mut simulation = weir_sim::build(&common::scenario(&text), 1, ()).unwrap();
        simulation.run_until(weir_units::Time::from_nanos(1_000_000_000));
        simulation.finish();
        let time = simulation.flows()[0].stats.transfer_time.as_nanos();
        assert_eq!(time, 10_000_000 + of_1500 * 1000, "{overhead}: a byte takes a microsecond");
    }
}

/// M/D/1: Poisson arrivals, constant service; mean wait is rho / (2 (1 - rho)) service times.
#[test]
fn poisson_arrivals_wait_as_the_formula_says() {
    for rho in [0.5, 0.8] {
        let rate = (rho * 100e6 * 972.0 / 1000.0) as u64;
        let text = quiet(
            "[link]\nrate = \"100Mbit/s\"\naccounting = \"ip\"\nbuffer = \"1s\"\n[path]\nrtt = \"10ms\"\n\
             [aqm]\nname = \"tail_drop\"\nlimit = \"1s\"\n",
            &format!("[[flows]]\nudp_rate = \"{rate}bit/s\"\nudp_pattern = \"poisson\"\npacket = \"972B\"\n"),
            "200s",
        );
        let outcome = run(&text, 7);
        let service_ms = 0.08;
        let want = rho / (2.0 * (1.0 - rho)) * service_ms;
        let got = link(&outcome.recording).delay_ms.mean;
        assert!((got / want - 1.0).abs() < 0.03, "rho {rho}: {got} ms instead of {want}");
        assert!((link(&outcome.recording).utilization / rho - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_buffer_of_one_bandwidth_delay_product_keeps_the_link_busy() {
    for congestion in ["reno", "cubic"] {
        let text = quiet(
            "[link]\nrate = \"50Mbit/s\"\nbuffer = \"40ms\"\n[path]\nrtt = \"40ms\"\n\
             [aqm]\nname = \"tail_drop\"\nlimit = \"40ms\"\n",
            &format!("[[flows]]\ncongestion = \"{congestion}\"\n"),
            "60s",
        );
        let text = text.replace("[run]\n", "[run]\nwarmup = \"10s\"\n");
        let outcome = run(&text, 1);
        let summary = link(&outcome.recording);
        assert!(summary.utilization > 0.995, "{congestion}: {}", summary.utilization);
        assert!(summary.delay_ms.max <= 41.0 && summary.delay_ms.max > 35.0, "{:?}", summary.delay_ms);
        let goodput = outcome.recording.summary.flows[0].goodput_bps;
        // 1448 bytes of 1538 on the line.
        assert!((goodput / (50e6 * summary.utilization * 1448.0 / 1538.0) - 1.0).abs() < 0.01, "{goodput}");
    }
}

#[test]
fn a_rate_that_steps_delivers_the_sum_of_its_parts() {
    let text = quiet(
        "[link]\nrate = \"10Mbit/s\"\naccounting = \"ip\"\nsteps = [{ at = \"4s\", rate = \"20Mbit/s\" }, \
         { at = \"7s\", rate = \"5Mbit/s\" }]\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"tail_drop\"\n",
        "[[flows]]\nudp_rate = \"100Mbit/s\"\npacket = \"1472B\"\n",
        "10s",
    );
    let outcome = run(&text, 1);
    // From the flow's start, within the first 10 ms, on: 40 + 60 + 15 Mbit.
    let bits = link(&outcome.recording).bytes as f64 * 8.0;
    assert!((bits - 115e6).abs() < 0.1e6 + 3.0 * 12_000.0, "{bits}");
    // It is used up at any time, and each sample says what that is.
    let used = link(&outcome.recording).utilization;
    assert!((0.995..=1.0).contains(&used), "{used}");
    for row in &outcome.recording.link_samples[0] {
        let rate = if row.t_s < 4.05 {
            10e6
        } else if row.t_s < 7.05 {
            20e6
        } else {
            5e6
        };
        assert!((row.capacity_bps / rate - 1.0).abs() < 1e-9, "{row:?}");
    }
    is_used_up(&outcome.recording);
}

/// After the first samples a link under overload delivers its capacity in each of them, up to a packet that
/// is sent across an edge.
fn is_used_up(recording: &Recording) {
    for row in &recording.link_samples[0][2..] {
        let packets = (row.delivered_bps - row.capacity_bps) * 0.1 / 12_000.0;
        assert!(packets.abs() < 1.5, "{packets} packets: {row:?}");
    }
}

/// Links of one medium have the steps of the first, and each what it can carry while the others are silent.
#[test]
fn the_capacity_of_a_medium_is_that_of_each_of_its_links() {
    let link = |name: &str, from: &str, more: &str| {
        format!(
            "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"b\"\nrate = \"10Mbit/s\"\nmedium = \"air\"\n{more}"
        )
    };
    let step = "steps = [{ at = \"1s\", rate = \"4Mbit/s\" }]\n";
    let flow = |from: &str| {
        format!("[[flows]]\nudp_rate = \"20Mbit/s\"\nfrom = \"{from}\"\nto = \"b\"\nrtt = \"10ms\"\n")
    };
    let text = quiet(
        &format!("{}{}", link("one", "a", step), link("other", "c", "")),
        &format!("{}{}", flow("a"), flow("c")),
        "2s",
    );
    let recording = run(&text, 1).recording;
    for (samples, summary) in recording.link_samples.iter().zip(&recording.summary.links) {
        let told: Vec<f64> = samples.iter().map(|row| row.capacity_bps / 1e6).collect();
        assert!(told[..10].iter().all(|mbps| *mbps == 10.0), "{told:?}");
        assert!(told[10..].iter().all(|mbps| (mbps - 4.0).abs() < 1e-9), "{told:?}");
        assert!((summary.utilization - 0.5).abs() < 0.02, "{summary:?}");
    }
}

#[test]
fn a_trace_delivers_its_opportunities_and_no_more() {
    let name = format!("weir-sim-trace-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    // Twelve packets of 1500 bytes in 12 ms, unevenly.
    std::fs::write(&path, "1\n1\n1\n2\n3\n3\n5\n7\n7\n7\n11\n12\n").unwrap();
    let text = quiet(
        &format!(
            "[link]\ntrace = \"{}\"\naccounting = \"ip\"\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"tail_drop\"\n",
            path.display()
        ),
        "[[flows]]\nudp_rate = \"100Mbit/s\"\npacket = \"1472B\"\n",
        "12s",
    );
    let outcome = run(&text, 1);
    std::fs::remove_file(&path).unwrap();
    // A thousand rounds, but for the first at most, when the flow had not started.
    let packets = link(&outcome.recording).packets;
    assert!((12_000 - 12..=12_000).contains(&packets), "{packets}");
    // In 100 ms there are eight rounds and four milliseconds: 96 opportunities, and how many are in these.
    let counts: Vec<f64> = samples_of(&outcome.recording, |row| row.capacity_bps * 0.1 / 12_000.0);
    assert_eq!(counts[..3].iter().map(|n| n.round()).collect::<Vec<_>>(), [102.0, 100.0, 98.0]);
    is_used_up(&outcome.recording);
}

#[test]
fn as_much_is_lost_as_the_file_says() {
    let text = quiet(
        "[link]\nrate = \"100Mbit/s\"\nloss = \"2%\"\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"tail_drop\"\n",
        "[[flows]]\nudp_rate = \"50Mbit/s\"\n",
        "60s",
    );
    let outcome = run(&text, 3);
    let share = outcome.counts.lost as f64 / outcome.counts.sent as f64;
    assert!((share - 0.02).abs() < 0.001, "{share}");
    assert_eq!(link(&outcome.recording).faults[0].1, outcome.counts.lost);
}

/// Jitter that broke the order would look like loss to TCP.
#[test]
fn jitter_keeps_the_order() {
    let text = quiet(
        "[link]\nrate = \"20Mbit/s\"\njitter = \"5ms\"\nbuffer = \"1s\"\n[path]\nrtt = \"20ms\"\n\
         [aqm]\nname = \"tail_drop\"\nlimit = \"1s\"\n",
        "[[flows]]\nwindow = \"100kB\"\n",
        "20s",
    );
    let outcome = run(&text, 1);
    let flow = &outcome.recording.summary.flows[0];
    assert_eq!(flow.retransmits, 0);
    assert!(flow.goodput_bps > 10e6);
}

#[test]
fn an_hour_of_nothing_takes_no_time() {
    let text = quiet(
        "[link]\nrate = \"10Gbit/s\"\n[path]\nrtt = \"50ms\"\n[aqm]\nname = \"codel\"\n",
        "[[flows]]\ncount = 100\nstart = \"3599s\"\ntransfer = \"10kB\"\n",
        "3600s",
    );
    let outcome = run(&text.replace("sample = \"100ms\"", "sample = \"10s\""), 1);
    assert!(outcome.counts.events < 20_000, "{:?}", outcome.counts);
    assert!(outcome.recording.summary.flows.iter().all(|f| f.goodput_bps > 0.0));
}
