//! Links and routes: both forms of a file give the simulator the same view.

use std::path::Path;
use weir_config::{
    Arm, BOTTLENECK, Buffer, Estimator, ExtraDelay, MAX_LINKS, Network, Rtt, Scenario, Step, Timing, Trace,
    Traffic, Web,
};
use weir_units::{Bytes, Duration, Rate};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn read(text: &str) -> Scenario {
    let scenario = Scenario::parse("x.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let printed = scenario.to_toml();
    let again = Scenario::parse("x.toml", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again, scenario, "{printed}");
    scenario
}

fn one_link(more: &str, flows: &str) -> Scenario {
    read(&format!("title = \"x\"\naqm.name = \"gsp\"\nflows = [{flows}]\nrun.duration = \"10s\"\n{more}"))
}

/// Links are `name from to`, all of 10 ms, and flows the keys of one table each.
fn links(links: &str, flows: &str) -> Scenario {
    let mut text = String::from("title = \"x\"\nrun.duration = \"10s\"\n");
    for link in links.lines() {
        let words: Vec<&str> = link.split_whitespace().collect();
        let [name, from, to] = words[..] else { panic!("{link}") };
        text.push_str(&format!(
            "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\n"
        ));
    }
    flows.lines().for_each(|flow| text.push_str(&format!("[[flows]]\n{}\n", flow.replace("; ", "\n"))));
    read(&text)
}

fn names(network: &Network, route: &[usize]) -> String {
    let names: Vec<&str> = route.iter().map(|i| network.links[*i].name.as_str()).collect();
    names.join(" ")
}

#[test]
fn a_dumbbell_is_a_network_of_one_link() {
    let scenario = one_link(
        "link = { rate = \"100Mbit/s\", loss = \"0.1%\" }\npath = { rtt = \"20ms\", delay_ab = \"5ms\" }\npolicy = {}",
        "{}, { direction = \"reverse\" }, { rtt = [\"40ms\", \"80ms\"] }",
    );
    let network = scenario.network();
    let link = &network.links[0];
    assert_eq!((link.name.as_str(), link.from.as_str(), link.to.as_str()), (BOTTLENECK, "a", "b"));
    assert_eq!((link.rate, link.buffer, link.delay), (Rate::from_mbps(100), Bytes::new(1_250_000), ms(0)));
    assert_eq!((link.aqm.name.as_str(), link.policy.is_some()), ("gsp", true));
    assert_eq!(link.variation.loss.0, 0.001);
    let [forward, reverse, ranged] = &network.routes[..] else { panic!() };
    assert_eq!((&forward.forward[..], &forward.back[..]), (&[0][..], &[][..]));
    assert_eq!((&reverse.forward[..], &reverse.back[..]), (&[][..], &[0][..]));
    assert_eq!(forward.extra_delay(ms(20)), ExtraDelay { forward: ms(5), back: ms(15) });
    // Data of a reverse flow takes the way from b to a.
    assert_eq!(reverse.extra_delay(ms(20)), ExtraDelay { forward: ms(15), back: ms(5) });
    assert_eq!(ranged.rtt, Rtt::Uniform(ms(40), ms(80)));
    assert_eq!(ranged.extra_delay(ms(60)), ExtraDelay { forward: ms(15), back: ms(45) });
}

#[test]
fn halves_of_an_odd_round_trip_are_those_of_the_path() {
    for rtt in [1, 3, 20_000_001] {
        let text = format!("link.rate = \"1Gbit/s\"\npath.rtt = \"{rtt}ns\"");
        let scenario = one_link(&text, "{}, { direction = \"reverse\" }");
        let (path, network) = (&scenario.path, scenario.network());
        let extra = network.routes[0].extra_delay(path.rtt);
        assert_eq!((extra.forward, extra.back), (path.forward_delay(), path.reverse_delay()));
        let extra = network.routes[1].extra_delay(path.rtt);
        assert_eq!((extra.forward, extra.back), (path.reverse_delay(), path.forward_delay()));
    }
    // A path without delay has no proportion to follow.
    let scenario = one_link("link.rate = \"1Gbit/s\"\npath.rtt = \"0ns\"", "{ rtt = \"20ms\" }");
    let extra = scenario.network().routes[0].extra_delay(ms(20));
    assert_eq!((extra.forward, extra.back), (ms(10), ms(10)));
}

const DIAMOND: &str = "slow a b\nab a b\nbd b d\nac a c\ncd c d\nda d a";

#[test]
fn routes_have_the_fewest_links_and_come_first_in_the_file() {
    let network = links(
        DIAMOND,
        "from = \"a\"; to = \"d\"\nfrom = \"a\"; to = \"d\"; via = [\"ac\", \"cd\"]\nfrom = \"b\"; to = \"a\"\nfrom = \"a\"; to = \"c\"",
    )
    .network();
    let routes: Vec<_> =
        network.routes.iter().map(|r| (names(&network, &r.forward), names(&network, &r.back))).collect();
    let routes: Vec<(&str, &str)> = routes.iter().map(|(f, b)| (f.as_str(), b.as_str())).collect();
    assert_eq!(routes, [("slow bd", "da"), ("ac cd", "da"), ("bd da", "slow"), ("ac", "cd da")]);
}

#[test]
fn round_trips_are_at_least_those_of_the_links() {
    let flows = "from = \"a\"; to = \"d\"\nfrom = \"a\"; to = \"d\"; rtt = \"50ms\"\n\
        from = \"b\"; to = \"c\"\nfrom = \"b\"; to = \"c\"; rtt = [\"40ms\", \"90ms\"]";
    let network = links("ab a b\nbc b c\ncd c d\nda d a", flows).network();
    let [plain, longer, pure, short] = &network.routes[..] else { panic!() };
    assert_eq!((plain.rtt, plain.link_delay), (Rtt::Constant(ms(40)), ms(40)));
    assert_eq!(longer.extra_delay(ms(50)), ExtraDelay { forward: ms(0), back: ms(10) });
    // From c a way leads back to b, over d and a.
    assert_eq!((names(&network, &pure.back).as_str(), pure.rtt), ("cd da ab", Rtt::Constant(ms(40))));
    assert_eq!(short.link_delay, ms(40));
}

#[test]
fn acknowledgements_without_links_have_a_delay_of_their_own() {
    let flows = "from = \"a\"; to = \"c\"\nfrom = \"a\"; to = \"c\"; rtt = [\"20ms\", \"90ms\"]";
    let network = links("ab a b\nbc b c", flows).network();
    let [plain, ranged] = &network.routes[..] else { panic!() };
    assert_eq!((plain.rtt, plain.back.len()), (Rtt::Constant(ms(40)), 0));
    assert_eq!(plain.extra_delay(ms(40)), ExtraDelay { forward: ms(0), back: ms(20) });
    assert_eq!(ranged.extra_delay(ms(20)), ExtraDelay { forward: ms(0), back: ms(0) });
}

#[test]
fn links_are_what_their_tables_say() {
    let scenario = read(
        "title = \"x\"\nrun.duration = \"10s\"\n[[links]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit/s\"\n\
        buffer = \"50ms\"\naqm = { name = \"codel\", target = \"7ms\" }\npolicy = { target_max = \"9ms\" }\n\
        steps = [{ at = \"1s\", rate = \"2Mbit/s\" }, { at = \"3s\", rate = \"1Mbit/s\" }]\njitter = \"1ms\"\n\
        [[links]]\nname = \"unused\"\nfrom = \"c\"\nto = \"b\"\nrate = \"1kbit/s\"\nbuffer = \"64B\"\n\
        [[flows]]\nfrom = \"a\"\nto = \"b\"\n",
    );
    let network = scenario.network();
    let [link, unused] = &network.links[..] else { panic!() };
    assert_eq!((link.aqm.setpoint(), link.buffer), (Some(ms(7)), Bytes::new(6250)));
    assert_eq!(link.policy.as_ref().unwrap().policy().target_max, ms(9));
    let steps =
        [(1, 2), (3, 1)].map(|(at, mbps)| Step { at: Duration::from_secs(at), rate: Rate::from_mbps(mbps) });
    assert_eq!((&link.variation.steps[..], link.variation.jitter), (&steps[..], ms(1)));
    // Without an algorithm only the buffer is a limit.
    assert_eq!(
        (unused.aqm.name.as_str(), unused.aqm.setpoint()),
        ("tail_drop", Some(Duration::from_secs(60)))
    );
    // The first link is the one that is shown.
    assert_eq!((scenario.rate(), scenario.aqm.name.as_str()), (Rate::from_mbps(1), "codel"));
    assert_eq!(scenario.link.shape.buffer, Buffer::Time(ms(50)));
    let unused_setpoint = "link l: steering starts at 5ms (policy.target_min_up), not at aqm.target, 7ms";
    let no_way_back = "acknowledgements of flows.0 pass no link: none lead from b to a. If they are to have queues, write \
                       links that lead back";
    let no_delay = "flows.0 have no round-trip time: their links have no `delay`. Remedy: give the links a `delay`, or the \
                    flows an `rtt`";
    assert_eq!(scenario.warnings(), [no_way_back, no_delay, unused_setpoint]);
}

#[test]
fn flows_whose_links_have_no_delay_are_told() {
    let warnings = |link: &str, flows: &str| {
        let link = |from: &str, to: &str| {
            format!(
                "[[links]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1Mbit/s\"\n{link}\n"
            )
        };
        let flows = format!("[[flows]]\nfrom = \"a\"\nto = \"b\"\n{flows}\n");
        read(&format!("title = \"x\"\nrun.duration = \"10s\"\n{}{}{flows}", link("a", "b"), link("b", "a")))
            .warnings()
    };
    let told = warnings("", "");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("flows.0 have no round-trip time")
            && told[0].contains("give the links a `delay`")
    );
    assert_eq!(warnings("delay = \"1ms\"", ""), Vec::<String>::new());
    // Who writes zero means it, and datagrams wait for nobody.
    assert_eq!(warnings("", "rtt = \"0ns\""), Vec::<String>::new());
    assert_eq!(warnings("", "udp_rate = \"1Mbit/s\""), Vec::<String>::new());
}

#[test]
fn keys_of_links_can_be_swept() {
    for axis in [
        "\"links.0.aqm.name\" = [\"gsp\", \"codel\"]",
        "\"links.0.delay\" = [\"1ms\", \"2ms\"]",
        "\"links.0.aqm\" = [{ name = \"gsp\" }, { name = \"codel\", target = \"1ms\" }]",
    ] {
        for aqm in ["", "aqm = { name = \"codel\" }\n"] {
            let scenario = read(&format!(
                "title = \"x\"\nrun.duration = \"10s\"\n[[links]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\n\
                rate = \"1Mbit/s\"\n{aqm}[[flows]]\nfrom = \"a\"\nto = \"b\"\n[sweep]\n{axis}\n"
            ));
            assert_eq!(scenario.expand().len(), 2);
        }
    }
}

#[test]
fn there_can_be_many_links_and_not_more() {
    let chain = |n: usize| (0..n).map(|i| format!("l{i} n{i} n{}", i + 1)).collect::<Vec<_>>().join("\n");
    let network = links(&chain(1000), "from = \"n0\"; to = \"n1000\"; rtt = \"10s\"").network();
    assert_eq!(
        (network.routes[0].forward.len(), network.routes[0].link_delay),
        (1000, Duration::from_secs(10))
    );
    let text = format!(
        "title = \"x\"\nrun.duration = \"1s\"\nlinks = [{}]\nflows = [{{ from = \"a\", to = \"b\" }}]\n",
        "{name=\"l\",from=\"a\",to=\"b\",rate=\"1Mbit/s\"},".repeat(MAX_LINKS + 1)
    );
    let refused = Scenario::parse("x.toml", &text).unwrap_err().to_string();
    assert!(refused.contains("`links`: are 20001 links; give at most 20000"), "{refused}");
}

#[test]
fn flows_can_do_what_the_simulator_knows() {
    let flows = "{ app_rate = \"1Mbit/s\" }, { web = { think = \"5s\" } }, { udp_rate = \"1Mbit/s\", packet = \"200B\" }, \
        { udp_rate = \"1Mbit/s\", udp_pattern = \"onoff\", on = \"1s\", off = \"2s\" }, \
        { udp_rate = \"1Mbit/s\", udp_pattern = \"poisson\" }, \
        { start_spread = \"1s\", hystart = false, window = \"64kB\", recovery = \"newreno\", window_min = 1, initial_window = 3, delay_target = \"5ms\", burst = \"64kB\", mtu = 9000 }";
    let scenario = one_link(
        "link.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\nrecord = { decisions = true, to = \"5s\" }",
        flows,
    );
    let sent: Vec<Traffic> = scenario.flows.iter().map(|f| f.traffic()).collect();
    assert_eq!(sent[0], Traffic::Limited(Rate::from_mbps(1)));
    let web = Web { objects: 10, object_size: Bytes::new(30_000), think: Duration::from_secs(5) };
    assert_eq!(sent[1], Traffic::Web(web));
    let Traffic::Unresponsive(small) = sent[2] else { panic!() };
    assert_eq!((small.payload, small.timing), (Some(Bytes::new(200)), Timing::Cbr));
    let Traffic::Unresponsive(on_off) = sent[3] else { panic!() };
    assert_eq!(on_off.timing, Timing::OnOff { on: Duration::from_secs(1), off: Duration::from_secs(2) });
    assert!(matches!(sent[4], Traffic::Unresponsive(d) if d.timing == Timing::Poisson));
    assert_eq!(
        scenario.flows[5].host.changed(),
        ["hystart", "delay_target", "burst", "window", "recovery", "window_min", "initial_window"]
    );
    assert_eq!((scenario.mtu(&scenario.flows[0]), scenario.mtu(&scenario.flows[5])), (1500, 9000));
    assert!(scenario.record.unwrap().decisions);
}

const CELLULAR: &str = "../../data/scenarios/traces/cellular.trace";

#[test]
fn a_link_that_follows_a_trace_has_its_average_rate() {
    let link = format!("link = {{ trace = \"{CELLULAR}\", buffer = \"100ms\" }}\npath.rtt = \"20ms\"");
    let scenario = one_link(&link, "{}");
    assert_eq!(scenario.rate(), Rate::from_bps(22_500_000));
    let network = scenario.network();
    assert_eq!((network.links[0].rate, network.links[0].buffer), (scenario.rate(), Bytes::new(281_250)));
    assert_eq!(network.links[0].variation.trace().unwrap().period(), Duration::from_secs(60));
    // However many points, the file is read once and its content is shared.
    let counts: Vec<String> = (1..=2000).map(|count| count.to_string()).collect();
    let sweep = format!("{link}\n[sweep]\n\"flows.0.count\" = [{}]\n", counts.join(", "));
    assert_eq!(one_link(&sweep, "{}").expand().len(), 2000);
}

/// The trace of the project is made from a formula, which stands in `cellular_trace.toml`.
#[test]
fn the_cellular_trace_is_what_its_scenario_says() {
    let trace = Trace::load(Path::new(env!("CARGO_MANIFEST_DIR")).join(CELLULAR)).unwrap();
    let mut sent = 0.0;
    let mut made = trace.opportunities().peekable();
    let (mut wanted, turn) = (0.0, std::f64::consts::TAU);
    for t in 1..=60_000u64 {
        let s = t as f64 / 1000.0;
        let mbps = 22.5 + 12.5 * (turn * s / 20.0).sin() + 5.0 * (turn * s / 3.0).sin();
        wanted += mbps * 1000.0 / 12_000.0;
        while let Some((_, count)) = made.next_if(|(at, _)| *at <= Duration::from_millis(t)) {
            sent += f64::from(count);
        }
        assert!((sent - wanted).abs() < 1.01, "{sent} and {wanted} at {t} ms");
    }
}

/// The recorded traces carry what the rows of their recordings say, from row to row.
#[test]
fn recorded_traces_are_their_recordings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/scenarios/traces");
    for (name, seconds, mbps) in [("oslo_metro", 310, 1.08..1.09), ("oslo_ferry", 43, 2.3..2.4)] {
        let rows = std::fs::read_to_string(folder.join(format!("recorded/{name}.csv"))).unwrap();
        let trace = Trace::load(folder.join(format!("{name}.trace"))).unwrap();
        let mut made = trace.opportunities().peekable();
        let (mut sent, mut wanted, mut before) = (0.0, 0.0, 0);
        for row in rows.lines().skip(1) {
            let (at, kbps) = row.split_once(',').unwrap();
            let (at, kbps): (u64, f64) = (at.parse().unwrap(), kbps.parse().unwrap());
            wanted += (at - before) as f64 * kbps / 12_000.0;
            before = at;
            while let Some((_, count)) = made.next_if(|(now, _)| *now <= Duration::from_millis(at)) {
                sent += f64::from(count);
            }
            assert!((sent - wanted).abs() < 1.01, "{name}: {sent} and {wanted} at {at} ms");
        }
        assert_eq!((before / 1000, trace.period()), (seconds, Duration::from_millis(before)), "{name}");
        let mean = wanted * 12_000.0 / before as f64 / 1000.0;
        assert!(mbps.contains(&mean), "{name}: {mean} Mbit/s");
    }
}

#[test]
fn a_queue_may_be_steered_by_polls() {
    let keys = "steered_by = \"poll\", poll_period = \"50ms\", poll_estimator = \"delay\"";
    let link = format!("link = {{ rate = \"10Mbit/s\", {keys} }}\npath.rtt = \"20ms\"\npolicy = {{}}");
    let scenario = one_link(&link, "{}");
    let network = scenario.network();
    let polls = network.links[0].steering.polls().expect("it was said");
    assert_eq!((polls.poll_period, polls.poll_settle), (ms(50), ms(100)));
    assert_eq!(polls.poll_estimator, Estimator::Delay);
    // The queue keeps its own set point until it signals, so that none is unused.
    assert_eq!(one_link(&format!("{link}\naqm.target = \"7ms\""), "{}").warnings(), Vec::<String>::new());
    let unplayed = scenario.unplayed(Arm::Row);
    assert_eq!(unplayed, ["link.steered_by", "link.poll_period", "link.poll_estimator"]);
    let exact = one_link("link.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\npolicy = {}", "{}");
    assert_eq!(exact.network().links[0].steering.polls(), None);

    let of_many = links("up a b\ndown b a", "from = \"a\"; to = \"b\"").to_toml();
    let polled = of_many.replacen("steered_by = \"packet\"", "steered_by = \"poll\"", 1);
    let wrong = Scenario::parse("x.toml", &polled).unwrap_err().to_string();
    assert!(wrong.contains("`links.0.steered_by`: is \"poll\", and there is no policy to hold"), "{wrong}");
}

#[test]
fn polls_that_do_not_go_with_the_rest_are_told() {
    let told = |link: &str, tables: &str| {
        let text = format!(
            "title = \"x\"\naqm.name = \"codel\"\nflows = [{{}}]\nrun.duration = \"10s\"\npath.rtt = \"20ms\"\n{tables}\n\
             [link]\nrate = \"10Mbit/s\"\n{link}\n"
        );
        Scenario::parse("x.toml", &text).map(|_| ()).map_err(|e| e.to_string()).unwrap_err()
    };
    let wrong = told("poll_period = \"50ms\"", "policy = {}");
    assert!(wrong.contains("x.toml:9") && wrong.contains("`link.poll_period`: has no meaning"), "{wrong}");
    assert!(wrong.contains("add `steered_by = \"poll\"`"), "{wrong}");
    let wrong = told("steered_by = \"poll\"", "");
    assert!(wrong.contains("`link.steered_by`: is \"poll\", and there is no policy to hold"), "{wrong}");
    let wrong = told("steered_by = \"poll\"\npoll_period = \"600ms\"", "policy = {}");
    assert!(wrong.contains("out of range; give a value in 1ms .. 500ms"), "{wrong}");
    let wrong = told("steered_by = \"pol\"", "policy = {}");
    assert!(wrong.contains("did you mean \"poll\"?"), "{wrong}");
    let policy = "policy = { utilization_low = \"90%\", utilization_target = \"95%\" }";
    let wrong = told("steered_by = \"poll\"\nsteps = [{ at = \"1s\", rate = \"5Mbit/s\" }]", policy);
    assert!(wrong.contains("and so does `steps`; remove `steps`"), "{wrong}");
}

/// A scenario with a network of one line.
fn described(network: &str, flows: &str) -> Result<Scenario, String> {
    let text = format!(
        "title = \"x\"\nlink.rate = \"10Mbit/s\"\naqm.name = \"codel\"\nnetwork = {{ {network} }}\nflows = [{flows}]\n\
         run.duration = \"10s\"\n"
    );
    Scenario::parse("x.toml", &text).map(|_| read(&text)).map_err(|e| e.to_string())
}

fn route_names(network: &Network) -> Vec<(usize, String, String)> {
    let names = |route: &[usize]| names(network, route);
    network.routes.iter().map(|r| (r.group, names(&r.forward), names(&r.back))).collect()
}

#[test]
fn a_parking_lot_takes_a_line() {
    let flows = "{ pairs = \"long\" }, { pairs = \"cross\", count = 2 }, { from = \"n2\", to = \"n1\" }";
    let scenario = described("parking_lot = 3, delay = \"5ms\", back_rate = \"1Mbit/s\"", flows).unwrap();
    let network = scenario.network();
    let one = |group, there: &str, back: &str| (group, there.to_string(), back.to_string());
    let hop = |n: u32| one(1, &format!("hop{n}"), &format!("hop{n}-back"));
    let long = one(0, "hop1 hop2 hop3", "hop3-back hop2-back hop1-back");
    assert_eq!(route_names(&network), [long, hop(1), hop(2), hop(3), one(2, "hop2-back", "hop2")]);
    assert_eq!((network.routes[0].link_delay, scenario.flow_count()), (ms(30), 1 + 6 + 1));
    let rates: Vec<u64> = network.links.iter().map(|link| link.rate.as_bps() / 1_000_000).collect();
    assert_eq!(rates, [10, 10, 10, 1, 1, 1]);
    assert!(network.links.iter().all(|link| link.aqm.name == "codel"));
    assert_eq!(scenario.warnings(), [""; 0]);
}

#[test]
fn a_dumbbell_and_a_tree_take_a_line() {
    let flows = "{ pairs = \"each\" }, { pairs = \"each\", direction = \"reverse\" }";
    let access = "access_delay = \"1ms\", access_rate = \"1Gbit/s\"";
    let network = described(&format!("dumbbell = 2, delay = \"5ms\", {access}"), flows).unwrap().network();
    let routes = route_names(&network);
    assert_eq!(routes[1].1, "l2-in bottleneck r2-out");
    assert_eq!(routes[1].2, "r2-in bottleneck-back l2-out");
    assert_eq!((routes.len(), &routes[3].1), (4, &routes[1].2));
    assert_eq!((network.routes[0].link_delay, network.links.len()), (ms(14), 10));
    let managed =
        |name: &str| network.links.iter().find(|link| link.name == name).unwrap().aqm.name == "codel";
    assert!(managed("bottleneck") && managed("bottleneck-back") && !managed("l1-in"));

    let flows = "{ pairs = \"leaves\", count = 3 }";
    let tree = "tree = [2, 3], rates = [\"1Gbit/s\"], delay = \"2ms\", back_rate = \"1Mbit/s\"";
    let scenario = described(tree, flows).unwrap();
    let network = scenario.network();
    let routes = route_names(&network);
    assert_eq!((routes.len(), scenario.flow_count(), network.links.len()), (6, 18, 16));
    assert_eq!(routes[5].1, "down-2 down-2-3");
    assert_eq!(routes[5].2, "up-2-3 up-2");
    let rate = |name: &str| network.links.iter().find(|l| l.name == name).unwrap().rate.as_bps() / 1_000_000;
    assert_eq!(["down-1", "up-1", "down-1-1", "up-1-1"].map(rate), [1000, 1000, 10, 1]);
}

#[test]
fn the_flows_of_a_described_network_are_counted_where_they_pass() {
    let flows = "{ pairs = \"long\" }, { pairs = \"cross\", count = 2 }";
    let scenario = described("parking_lot = 3, delay = \"5ms\"", flows).unwrap();
    let link = |name: &str| weir_measure::result::LinkSummary { name: name.into(), ..Default::default() };
    let links = ["hop1", "hop3", "hop2-back"].map(link).to_vec();
    let mut summary = weir_measure::result::Summary { links, ..Default::default() };
    scenario.note_flows(&mut summary);
    assert_eq!(summary.links.iter().map(|l| l.flows).collect::<Vec<_>>(), [Some(3), Some(3), Some(0)]);
}

#[test]
fn a_network_that_could_be_misread_is_refused() {
    let long = "{ pairs = \"long\" }";
    for (network, flows, told) in [
        ("delay = \"1ms\"", long, "`network.dumbbell`: is missing: nothing says what network it is"),
        ("dumbbell = 2, parking_lot = 2, delay = \"1ms\"", long, "does not go with `dumbbell`"),
        ("parking_lot = 2", long, "`network.delay`: is missing"),
        ("parking_lot = 2, delay = \"1ms\", rates = [\"1Mbit/s\"]", long, "are of a `tree`"),
        ("parking_lot = 2, delay = \"1ms\", access_rate = \"1Mbit/s\"", long, "is of a `dumbbell`"),
        ("tree = [2, 2], delay = \"1ms\"", "{ pairs = \"leaves\" }", "are 0, and 1 levels are above"),
        (
            "tree = [100, 100, 100], rates = [\"1Gbit/s\", \"1Gbit/s\"], delay = \"1ms\"",
            long,
            "describes 2020200 links",
        ),
        ("parking_lot = 2, delay = \"1ms\"", "{ pairs = \"each\" }", "is not of this network"),
        ("parking_lot = 2, delay = \"1ms\"", "{}", "`flows.0.pairs`: is missing: nothing says where"),
        ("parking_lot = 2, delay = \"1ms\"", "{ from = \"n0\", to = \"n9\" }", "no link begins or ends at"),
        ("parking_lot = 2, delay = \"1ms\"", "{ pairs = \"long\", to = \"n1\" }", "does not go with `from`"),
        (
            "parking_lot = 2000, delay = \"1ms\"",
            "{ pairs = \"cross\", count = 6 }",
            "are 12000 flows together",
        ),
    ] {
        let error = described(network, flows).unwrap_err();
        assert!(error.contains(told), "{network} {flows}: {error}");
    }
    let error = described("delay = \"1ms\"", "{}").unwrap_err();
    assert!(!error.contains("pairs"), "{error}");
    let path = "title = \"x\"\nlink.rate = \"1Mbit/s\"\naqm.name = \"codel\"\npath.rtt = \"1ms\"\n\
        network = { parking_lot = 1, delay = \"1ms\" }\nflows = [{ pairs = \"long\" }]\nrun.duration = \"1s\"\n";
    let error = Scenario::parse("x.toml", path).unwrap_err().to_string();
    assert!(error.contains("`path`: does not go with `[network]`"), "{error}");
    let one = one_link_error("{ pairs = \"long\" }");
    assert!(one.contains("does not go with `[link]`; remove it, or describe the links in one line"), "{one}");
}

fn one_link_error(flows: &str) -> String {
    let text = format!(
        "title = \"x\"\naqm.name = \"gsp\"\nlink.rate = \"1Mbit/s\"\npath.rtt = \"1ms\"\nflows = [{flows}]\nrun.duration = \"1s\"\n"
    );
    Scenario::parse("x.toml", &text).unwrap_err().to_string()
}

#[test]
fn a_network_can_be_swept_and_set() {
    let text = "title = \"x\"\nlink.rate = \"1Mbit/s\"\naqm.name = \"codel\"\nnetwork = { parking_lot = 1, delay = \"1ms\" }\n\
        flows = [{ pairs = \"long\" }]\nrun.duration = \"1s\"\n[sweep]\n\"network.parking_lot\" = [1, 4]\n";
    let points = read(text).expand();
    assert_eq!(points.iter().map(|p| p.scenario.links.len()).collect::<Vec<_>>(), [2, 8]);
}
