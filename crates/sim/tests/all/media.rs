//! Media with turns, against what follows from the timings of their standards and against what was published.

use crate::common;

use common::{quiet, run};
use weir_measure::result::LinkSummary;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_sim::{Body, Outcome};
use weir_units::{Duration, Time};

fn link_of(outcome: &Outcome, number: usize) -> &LinkSummary {
    &outcome.recording.summary.links[number]
}

/// Bits of IP packets in a second on a link that counts these.
fn ip_rate(outcome: &Outcome, number: usize) -> f64 {
    let summary = &outcome.recording.summary;
    link_of(outcome, number).bytes as f64 * 8.0 / (summary.duration_s - summary.warmup_s)
}

fn within(measured: f64, expected: f64, share: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() < share, "{what}: {measured} instead of {expected}");
}

/// Datagrams as fast as a radio takes them, for ten seconds.
fn saturated(wifi: &str) -> Outcome {
    let link = format!(
        "[link]\nwifi = {{ {wifi} }}\naccounting = \"ip\"\n[path]\nrtt = \"2ms\"\n[aqm]\nname = \"tail_drop\"\n"
    );
    run(&quiet(&link, "[[flows]]\nudp_rate = \"1Gbit/s\"\n", "5s"), 1)
}

/// One radio with nobody to contend with sends an aggregate in each turn, whose length is arithmetic.
#[test]
fn a_radio_alone_carries_what_the_timings_leave() {
    for (phy, aggregate) in [(866.7e6, 64.0), (866.7e6, 1.0), (144.4e6, 16.0), (65e6, 4.0)] {
        let wifi = format!("phy_rate = \"{}kbit/s\", aggregate = {aggregate}", phy / 1e3);
        // 1500 bytes with 42 around them are padded to 1544; 7.5 slots are waited on average.
        let turn = 43e-6 + 7.5 * 9e-6 + 44e-6 + (aggregate * 1544.0 * 8.0 + 22.0) / phy + 48e-6;
        let outcome = saturated(&wifi);
        within(ip_rate(&outcome, 0), aggregate * 12_000.0 / turn, 0.01, &wifi);
    }
}

/// Hoeiland-Joergensen and others, "Ending the Anomaly" (USENIX ATC 2017), table 1: rates of UDP that
/// they calculated for the mean aggregates they measured, with 802.11n at 144.4 and 7.2 Mbit/s.
#[test]
fn rates_are_those_that_were_published_for_802_11n() {
    for (phy, aggregate, published, of) in
        [("144.4", 18, 126.7e6, 18.44), ("144.4", 5, 101.1e6, 5.08), ("7.2", 2, 6.5e6, 1.89)]
    {
        let wifi = format!(
            "phy_rate = \"{phy}Mbit/s\", aggregate = {aggregate}, idle = \"34us\", preamble = \"32us\", longest = \"10ms\""
        );
        within(ip_rate(&saturated(&wifi), 0), published, 0.05, &format!("{aggregate} for {of}"));
    }
}

/// Bianchi, "Performance Analysis of the IEEE 802.11 Distributed Coordination Function" (IEEE JSAC 18(3),
/// 2000), equations 7, 9, 11 and 13: what stations carry together that always have packets.
fn bianchi(stations: i32, window: f64, doublings: i32, success: f64, collision: f64, bits: f64) -> f64 {
    let tau = |p: f64| {
        2.0 * (1.0 - 2.0 * p)
            / ((1.0 - 2.0 * p) * (window + 1.0) + p * window * (1.0 - (2.0 * p).powi(doublings)))
    };
    // The probability of a collision grows with tau, which falls with it.
    let (mut low, mut high) = (0.0, 0.499);
    for _ in 0..60 {
        let p = (low + high) / 2.0;
        if 1.0 - (1.0 - tau(p)).powi(stations - 1) > p { low = p } else { high = p }
    }
    let tau = tau(low);
    let some = 1.0 - (1.0 - tau).powi(stations);
    let one = f64::from(stations) * tau * (1.0 - tau).powi(stations - 1);
    one * bits / ((1.0 - some) * 9e-6 + one * success + (some - one) * collision)
}

#[test]
fn stations_that_contend_carry_what_bianchis_model_says() {
    for stations in [2, 5, 10] {
        let link = |n: i32| {
            format!(
                "[[links]]\nname = \"l{n}\"\nfrom = \"s{n}\"\nto = \"ap\"\nmedium = \"air\"\naccounting = \"ip\"\n\
                 wifi = {{ phy_rate = \"144.4Mbit/s\", aggregate = 8 }}\n"
            )
        };
        let flow = |n: i32| format!("[[flows]]\nudp_rate = \"150Mbit/s\"\nfrom = \"s{n}\"\nto = \"ap\"\n");
        let (links, flows) =
            ((0..stations).map(link).collect::<String>(), (0..stations).map(flow).collect::<String>());
        let outcome = run(&quiet(&links, &flows, "4s"), 1);
        let rates: Vec<f64> = (0..stations as usize).map(|i| ip_rate(&outcome, i)).collect();
        let turn = 43e-6 + 44e-6 + (8.0 * 1544.0 * 8.0 + 22.0) / 144.4e6 + 48e-6;
        let expected = bianchi(stations, 16.0, 6, turn, turn, 8.0 * 12_000.0);
        within(rates.iter().sum(), expected, 0.05, &format!("{stations} stations"));
        // Who collided waits long, so that shares are unequal for some seconds.
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let fairness = rates.iter().sum::<f64>().powi(2) / (f64::from(stations) * squares);
        assert!(fairness > 0.95, "Jain's index of {stations} stations is {fairness}");
    }
}

/// Counts acknowledgements and the moments at which they leave a link.
#[derive(Default)]
struct Bursts {
    last: Option<Time>,
    acknowledgements: u32,
    moments: u32,
}

impl Tap for Bursts {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _: Duration, _: bool) {
        if matches!(seen.item.body, Body::Ack(_)) {
            self.acknowledgements += 1;
            self.moments += u32::from(self.last != Some(at.now));
            self.last = Some(at.now);
        }
    }
}

/// Two directions between an access point and a station: with radio, and with wires as fast.
fn download(congestion: &str, wifi: bool, aggregate: u32) -> (f64, f64) {
    let link = |name: &str, from: &str, to: &str| {
        let kind = match wifi {
            true => format!(
                "medium = \"air\"\nwifi = {{ phy_rate = \"433.3Mbit/s\", aggregate = {aggregate} }}\n"
            ),
            false => "rate = \"250Mbit/s\"\n".to_string(),
        };
        format!("[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\naccounting = \"ip\"\n{kind}")
    };
    let links = link("down", "ap", "phone") + &link("up", "phone", "ap");
    let flows =
        format!("[[flows]]\ncongestion = \"{congestion}\"\nfrom = \"ap\"\nto = \"phone\"\nrtt = \"20ms\"\n");
    let text = quiet(&links, &flows, "6s").replace("[run]\n", "[run]\nwarmup = \"2s\"\n");
    let scenario = common::scenario(&text);
    let (outcome, tap) =
        weir_sim::run_with(&scenario, 1, Bursts::default(), &mut |_| std::ops::ControlFlow::Continue(()))
            .expect("the scenario is valid");
    (ip_rate(&outcome, 0), f64::from(tap.acknowledgements) / f64::from(tap.moments))
}

/// Aggregates of data make acknowledgements come many at a time, which are sent as one aggregate.
#[test]
fn acknowledgements_come_in_bursts_over_radio_and_not_over_wire() {
    for congestion in ["cubic", "bbr"] {
        let (rate, burst) = download(congestion, true, 64);
        let (_, single) = download(congestion, true, 1);
        let (_, wired) = download(congestion, false, 0);
        assert!(burst > 8.0, "{congestion}: {burst} together");
        assert!(single == 1.0 && wired == 1.0, "{congestion}: {single} and {wired} together");
        assert!(rate > 200e6, "{congestion}: {rate}");
    }
}

fn upstream(grants: &str, flows: &str) -> Outcome {
    let link =
        format!("[link]\nrate = \"50Mbit/s\"\n{grants}[path]\nrtt = \"2ms\"\n[aqm]\nname = \"tail_drop\"\n");
    run(&quiet(&link, flows, "20s"), 1)
}

/// A packet that comes alone waits for the next interval, half of one on average, and then for its grant:
/// 2.5 intervals with the minimum of two between request and grant. White, Sundaresan and Briscoe, "Low
/// Latency DOCSIS: Technology Overview" (CableLabs 2019), has 2 to 8 ms for it in DOCSIS 3.1.
#[test]
fn a_packet_alone_waits_for_two_and_a_half_intervals() {
    let flows = "[[flows]]\nudp_rate = \"100kbit/s\"\nudp_pattern = \"poisson\"\n";
    for (interval, lead) in [(2.0, 2.0), (1.0, 2.0), (2.0, 3.0)] {
        let grants = format!("grants = {{ interval = \"{interval}ms\", lead = {lead} }}\n");
        let outcome = upstream(&grants, flows);
        let delay = &link_of(&outcome, 0).delay_ms;
        within(delay.mean, (lead + 0.5) * interval, 0.05, "mean");
        // What comes while another one waits for its grant asks with that one and waits longer.
        assert!(delay.p99 < (2.0 * lead + 1.2) * interval, "{}", delay.p99);
    }
}

/// Under load requests go with the data, so that nothing of the rate is lost, and delay is that of the
/// buffer.
#[test]
fn an_upstream_under_load_carries_its_rate() {
    for flows in ["[[flows]]\nudp_rate = \"60Mbit/s\"\n", "[[flows]]\ncount = 4\n"] {
        let outcome = upstream("grants = {}\n", flows);
        let used = link_of(&outcome, 0).utilization;
        assert!((0.98..1.0001).contains(&used), "{used} of {flows}");
    }
    // Less than a byte in an interval, and a rate of which each interval leaves a fraction of a byte.
    for rate in ["30kbit/s", "64kbit/s", "100kbit/s"] {
        let link = format!(
            "[link]\nrate = \"{rate}\"\nbuffer = \"2s\"\ngrants = {{ interval = \"200us\" }}\n[path]\nrtt = \"2ms\"\n[aqm]\nname = \"tail_drop\"\n"
        );
        let outcome = run(&quiet(&link, "[[flows]]\nudp_rate = \"500kbit/s\"\n", "60s"), 1);
        let used = link_of(&outcome, 0).utilization;
        assert!((0.95..1.02).contains(&used), "{used} of {rate}");
    }
}

/// Modems that share an upstream get equal parts, and requests of many collide.
#[test]
fn modems_share_an_upstream_and_their_requests_collide() {
    let of = |modems: u32, opportunities: u32, flow: &str| {
        let link = |n| {
            format!(
                "[[links]]\nname = \"m{n}\"\nfrom = \"home{n}\"\nto = \"cmts\"\nmedium = \"cable\"\nrate = \"50Mbit/s\"\n\
                 grants = {{ opportunities = {opportunities} }}\n"
            )
        };
        let flow = |n| format!("[[flows]]\nfrom = \"home{n}\"\nto = \"cmts\"\nrtt = \"10ms\"\n{flow}\n");
        let (links, flows) =
            ((0..modems).map(link).collect::<String>(), (0..modems).map(flow).collect::<String>());
        run(&quiet(&links, &flows, "10s"), 1)
    };
    let outcome = of(3, 8, "udp_rate = \"40Mbit/s\"");
    (0..3).for_each(|n| within(link_of(&outcome, n).utilization, 1.0 / 3.0, 0.02, "a modem's part"));
    let poisson = "udp_rate = \"200kbit/s\"\nudp_pattern = \"poisson\"";
    let mean = |opportunities| {
        let outcome = of(60, opportunities, poisson);
        (0..60).map(|n| link_of(&outcome, n).delay_ms.mean).sum::<f64>() / 60.0
    };
    let (many, few) = (mean(256), mean(2));
    assert!((4.5..6.0).contains(&many), "{many} ms where requests hardly collide");
    assert!(few > many + 1.0, "{few} ms where they do, {many} ms where they do not");
}
