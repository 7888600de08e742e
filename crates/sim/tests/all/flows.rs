//! What flows do to each other, and what algorithms do to flows.

use crate::common;

use common::{goodput, quiet, run, scenario};
use std::ops::ControlFlow;

const CODEL_100M: &str = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";

#[test]
fn equal_flows_share_equally() {
    let text =
        quiet(CODEL_100M, "[[flows]]\ncount = 8\n", "60s").replace("[run]\n", "[run]\nwarmup = \"20s\"\n");
    let outcome = run(&text, 1);
    let rates: Vec<f64> = outcome.recording.summary.flows.iter().map(|f| f.goodput_bps).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    // Jain's index: 1 if all are equal.
    let fairness = sum * sum / (rates.len() as f64 * squares);
    assert!(fairness > 0.95, "{fairness}: {rates:?}");
    assert!(sum > 0.93 * 100e6 * 1448.0 / 1538.0, "{sum}");
}

#[test]
fn a_short_round_trip_gets_more() {
    let flows = "[[flows]]\ncongestion = \"reno\"\nrtt = \"10ms\"\ncount = 4\n[[flows]]\ncongestion = \"reno\"\n\
                 rtt = \"80ms\"\ncount = 4\n";
    let outcome = run(&quiet(CODEL_100M, flows, "60s"), 1);
    let (short, long) = (goodput(&outcome, 0), goodput(&outcome, 1));
    assert!(short > 2.0 * long && long > 1e5, "{short} {long}");
}

#[test]
fn ecn_flows_are_marked_and_not_dropped() {
    let outcome = run(&quiet(CODEL_100M, "[[flows]]\ncount = 4\necn = true\n", "20s"), 1);
    let link = &outcome.recording.summary.links[0];
    assert!(link.marks > 10, "{}", link.marks);
    assert_eq!((link.drops, outcome.counts.lost), (0, 0));
    // What went over the buffer in the first slow start may have been sent again.
    let retransmits: u64 = outcome.recording.summary.flows.iter().map(|f| f.retransmits).sum();
    assert!(link.overflows > 0 || retransmits == 0, "{retransmits}");
    assert!(link.utilization > 0.9);
}

#[test]
fn transfers_complete_in_plausible_time() {
    let text = quiet(
        "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n",
        "[[flows]]\ntransfer = \"1MB\"\nevery = \"2s\"\n",
        "10s",
    );
    let scenario = scenario(&text);
    let mut simulation = weir_sim::build(&scenario, 1, ()).unwrap();
    simulation.run_until(weir_units::Time::from_nanos(10_000_000_000));
    simulation.finish();
    let stats = simulation.flows()[0].stats;
    assert_eq!((stats.completed, simulation.flows()[0].opened), (5, 5));
    // 85 ms on the line, half a round trip, and some round trips of slow start.
    let mean = stats.transfer_time.as_secs_f64() / 5.0;
    assert!((0.1..0.35).contains(&mean), "{mean}");
    assert_eq!(stats.bytes, 5_000_000);
}

#[test]
fn transfers_are_summed_up_and_other_flows_have_none() {
    let text = quiet(
        CODEL_100M,
        "[[flows]]\ntransfer = \"1MB\"\nevery = \"2s\"\n[[flows]]\napp_rate = \"1Mbit/s\"\n",
        "9s",
    );
    let outcome = weir_sim::run(&scenario(&text), 1, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let flows = &outcome.recording.summary.flows;
    let (transfers, other) = (flows[0].transfers.unwrap(), flows[1].transfers);
    assert_eq!(transfers.completed, 5);
    let mean = transfers.mean_s.unwrap();
    assert!((0.1..0.35).contains(&mean), "{mean}");
    assert_eq!(other, None);
}

#[test]
fn transfers_longer_than_their_distance_overlap() {
    let text = quiet(CODEL_100M, "[[flows]]\ntransfer = \"5MB\"\nevery = \"200ms\"\n", "4s");
    let outcome = run(&text, 1);
    let flow = &outcome.recording.summary.flows[0];
    // Twice as much is offered as fits; overlapping transfers fill the link.
    assert!(flow.goodput_bps > 80e6, "{}", flow.goodput_bps);
}

#[test]
fn applications_send_what_they_make() {
    let flows = "[[flows]]\napp_rate = \"5Mbit/s\"\n[[flows]]\napp_rate = \"20kbit/s\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "30s"), 1);
    assert!((goodput(&outcome, 0) / 5e6 - 1.0).abs() < 0.01, "{}", goodput(&outcome, 0));
    assert!((goodput(&outcome, 1) / 20e3 - 1.0).abs() < 0.03, "{}", goodput(&outcome, 1));
}

#[test]
fn readers_load_pages() {
    let flows =
        "[[flows]]\ncount = 20\n[flows.web]\nobjects = 5\nobject_size = \"20kB\"\nthink = \"500ms\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "60s"), 1);
    // A page of 100 kB each half second and a little more.
    let mean = goodput(&outcome, 0);
    assert!((0.5e6..1.8e6).contains(&mean), "{mean}");
}

/// An object of one segment would end with a delayed acknowledgement, 40 ms later.
#[test]
fn an_object_ends_when_its_last_byte_is_there() {
    let web = "[[flows]]\n[flows.web]\nobjects = 1\nobject_size = \"200B\"\nthink = \"0s\"\n";
    let outcome = run(&quiet(CODEL_100M, web, "10s"), 1);
    let bytes = outcome.recording.summary.flows[0].bytes as f64;
    // One object in each round trip of 20 ms, and in those that take two segments not more.
    let objects = bytes / 200.0;
    assert!((350.0..700.0).contains(&objects), "{objects} of about 500");
}

#[test]
fn low_rates_of_applications_are_met() {
    let flows = "[[flows]]\napp_rate = \"1kbit/s\"\n[[flows]]\napp_rate = \"9990bit/s\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "400s"), 1);
    for (flow, wanted) in [(0, 1000.0), (1, 9990.0)] {
        let got = goodput(&outcome, flow);
        assert!((got / wanted - 1.0).abs() < 0.002, "{got} of {wanted}");
    }
}

#[test]
fn an_application_far_above_the_link_costs_no_more_than_one_that_always_has_data() {
    let all = |flow: &str| run(&quiet(CODEL_100M, &format!("[[flows]]\n{flow}"), "5s"), 1);
    let (bulk, fast) = (all(""), all("app_rate = \"100Gbit/s\"\n"));
    assert!((goodput(&fast, 0) / goodput(&bulk, 0) - 1.0).abs() < 0.01, "{}", goodput(&fast, 0));
    // Forty million segments are made in that time, and few of them by an event of their own.
    assert!(fast.counts.events < bulk.counts.events + 5000, "{:?} {:?}", fast.counts, bulk.counts);
}

#[test]
fn on_and_off_sends_its_share_of_the_time() {
    let flows =
        "[[flows]]\nudp_rate = \"10Mbit/s\"\nudp_pattern = \"onoff\"\non = \"100ms\"\noff = \"300ms\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "400s"), 1);
    let mean = goodput(&outcome, 0);
    assert!((mean / 2.5e6 - 1.0).abs() < 0.1, "{mean}");
}

#[test]
fn flows_start_and_stop() {
    let flows = "[[flows]]\n[[flows]]\nstart = \"5s\"\nstop = \"10s\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "15s"), 1);
    let samples = &outcome.recording.flow_samples;
    let second: Vec<f64> = samples.iter().filter(|s| s.flow == 1).map(|s| s.t_s).collect();
    assert!(second.first().is_some_and(|t| *t >= 5.0) && second.last().is_some_and(|t| *t <= 10.0));
    assert!(goodput(&outcome, 1) > 5e6);
}

#[test]
fn reverse_flows_share_the_link_with_acknowledgements() {
    let flows = "[[flows]]\n[[flows]]\ndirection = \"reverse\"\nwindow = \"2MB\"\n";
    let outcome = run(&quiet(CODEL_100M, flows, "20s"), 1);
    // Data there and acknowledgements of the other flow pass the queue; data back meets nothing.
    assert!(goodput(&outcome, 0) > 70e6 && goodput(&outcome, 1) > 100e6, "{outcome:?}");
    assert!(outcome.counts.hops > 2 * outcome.recording.summary.links[0].packets / 3);
}

/// Without a link in its way a flow has its window in each round trip, and not all there could be.
#[test]
fn what_nothing_hinders_is_limited_by_its_window() {
    let outcome = run(&quiet(CODEL_100M, "[[flows]]\ndirection = \"reverse\"\n", "5s"), 1);
    let most = weir_sim::UNHINDERED_WINDOW.get() as f64 * 8.0 / 0.02;
    assert!((0.5 * most..=most).contains(&goodput(&outcome, 0)), "{} of {most}", goodput(&outcome, 0));
}

const PARKING_LOT: &str = "[[links]]\nname = \"first\"\nfrom = \"a\"\nto = \"b\"\nrate = \"50Mbit/s\"\ndelay = \"5ms\"\n\
     [links.aqm]\nname = \"codel\"\n\
     [[links]]\nname = \"second\"\nfrom = \"b\"\nto = \"c\"\nrate = \"50Mbit/s\"\ndelay = \"5ms\"\n\
     [links.aqm]\nname = \"gsp\"\n[links.policy]\n\
     [[links]]\nname = \"back\"\nfrom = \"c\"\nto = \"a\"\nrate = \"50Mbit/s\"\ndelay = \"10ms\"\n";

#[test]
fn a_parking_lot_gives_the_long_way_less() {
    let flows = "[[flows]]\nfrom = \"a\"\nto = \"c\"\ncongestion = \"reno\"\n\
                 [[flows]]\nfrom = \"a\"\nto = \"b\"\ncongestion = \"reno\"\n\
                 [[flows]]\nfrom = \"b\"\nto = \"c\"\ncongestion = \"reno\"\n";
    let outcome = run(&quiet(PARKING_LOT, flows, "60s"), 1);
    let rates: Vec<f64> = (0..3).map(|group| goodput(&outcome, group)).collect();
    assert!(rates[0] < rates[1] && rates[0] < rates[2] && rates[0] > 2e6, "{rates:?}");
    let links = &outcome.recording.summary.links;
    assert!(links[0].utilization > 0.85 && links[1].utilization > 0.85, "{links:?}");
    // The way back carries acknowledgements alone.
    assert!(links[2].packets > 1000 && links[2].utilization < 0.1);
}

#[test]
fn steering_raises_for_few_flows_and_lowers_for_many() {
    let steered = |count: u32| {
        let text = quiet(
            "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"50ms\"\n[aqm]\nname = \"gsp\"\n[policy]\n",
            &format!("[[flows]]\ncount = {count}\n"),
            "60s",
        );
        let outcome = run(&text, 1);
        let events = outcome.recording.events;
        let rule = |name: &str| events.iter().filter(|e| e.rule == name).count();
        assert!(events.is_sorted_by(|a, b| a.t_s <= b.t_s));
        (rule("raise"), rule("lower"), outcome.recording.summary.links[0].setpoint_ms.unwrap())
    };
    let (raised, _, few) = steered(2);
    let (_, lowered, many) = steered(60);
    assert!(raised > 0 && lowered > 0, "{raised} {lowered}");
    assert!(few > 5.0 && many < few, "{few} ms and {many} ms");
}

#[test]
fn what_is_not_known_is_told_with_what_is() {
    let text = quiet(CODEL_100M, "[[flows]]\ncongestion = \"vegas\"\n", "1s");
    let error = weir_sim::run(&scenario(&text), 1, &mut |_| ControlFlow::Continue(())).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("`vegas`") && told.contains("cubic"), "{told}");
}

#[test]
fn a_run_can_be_ended_early() {
    let text = quiet(CODEL_100M, "[[flows]]\n", "60s");
    let mut times = Vec::new();
    let outcome = weir_sim::run(&scenario(&text), 1, &mut |p| {
        times.push(p.t_s);
        if p.t_s >= 2.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let summary = outcome.unwrap().recording.summary;
    assert!((summary.duration_s - 2.0).abs() < 0.1 && summary.links[0].utilization > 0.5);
    assert!(summary.warnings.iter().any(|w| w.contains("interrupted")));
    assert!(times.is_sorted() && times.len() == 20);
}
