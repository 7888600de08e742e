//! What files mean: defaults, forms of writing, settings over a file, sweeps, limits.

use crate::common;

use common::SMALL;
use weir_aqm::{Algorithm, Value, Visitor};
use weir_config::{
    Accounting, Buffer, Datagrams, Document, IpVersion, MAX_FLOWS, MAX_POINTS, Poll, PortMode, RunConfig,
    Scenario, Timing, Traffic, Upstream,
};
use weir_units::{Bytes, Duration, Rate};

fn small(more: &str) -> Scenario {
    common::read(&format!("{SMALL}{more}"))
}

fn refusal(more: &str) -> String {
    common::refusal(&format!("{SMALL}{more}"))
}

#[test]
fn what_is_not_said_has_its_default() {
    let s = small("");
    assert_eq!(s.rate(), Rate::from_mbps(100));
    assert_eq!(s.link.shape.buffer, Buffer::Time(Duration::from_millis(100)));
    assert_eq!(s.link.shape.buffer_bytes(), Some(Bytes::new(1_250_000)));
    assert_eq!(s.link.shape.accounting, Accounting::Line);
    assert_eq!((s.path.forward_delay(), s.path.mtu), (Duration::from_millis(10), 1500));
    assert_eq!((s.flows[0].count, s.flows[0].congestion.as_str()), (1, "cubic"));
    assert_eq!((s.flows[0].ip, s.flows[0].stop), (IpVersion::V4, None));
    assert_eq!((s.run.warmup, s.run.seeds, s.run.sample), (Duration::ZERO, 1, Duration::from_millis(100)));
    assert!(s.policy.is_none());
    assert_eq!(s.expand().len(), 1);
}

#[test]
fn the_form_of_writing_does_not_matter() {
    let tables = "[run]\nduration = \"5000ms\"\n[[flows]]\n[aqm]\nname = \"gsp\"\n[path]\nrtt = \"20ms\"\n\
        [link]\nrate = \"0.1Gbit/s\"\n";
    let text = format!("title = \"Small\"\n{tables}");
    assert_eq!(Scenario::parse("x", &text).unwrap(), small(""));
    assert_eq!(Scenario::parse("x", &text.replace('\n', "\r\n")).unwrap(), small(""));
    assert_eq!(Scenario::parse("x", &format!("\u{feff}{text}")).unwrap(), small(""));
}

#[test]
fn delays_of_the_directions_make_up_the_round_trip() {
    let s = small("path.delay_ba = \"5ms\"");
    assert_eq!(s.path.forward_delay(), Duration::from_millis(15));
    assert_eq!(s.path.reverse_delay(), Duration::from_millis(5));
    assert_eq!(small("path.delay_ab = \"20ms\"").path.reverse_delay(), Duration::ZERO);
    assert!(refusal("path.delay_ab = \"21ms\"").contains("is more than `rtt`, 20ms"));
}

#[test]
fn flows_send_what_their_keys_say() {
    let text = SMALL.replace(
        "[{}]",
        r#"[{}, { transfer = "64MB", every = "2s" }, { transfer = "1MB", ip = 6 }, { udp_rate = "10Mbit/s" }]"#,
    );
    let s = Scenario::parse("x", &text).unwrap();
    let ten = Datagrams { rate: Rate::from_mbps(10), payload: None, timing: Timing::Cbr };
    let (size, every) = (Bytes::new(64_000_000), Some(Duration::from_secs(2)));
    assert_eq!(s.flows[0].traffic(), Traffic::Bulk);
    assert_eq!(s.flows[1].traffic(), Traffic::Transfers { size, every, pause: None });
    assert_eq!(
        s.flows[2].traffic(),
        Traffic::Transfers { size: Bytes::new(1_000_000), every: None, pause: None }
    );
    assert_eq!(s.flows[3].traffic(), Traffic::Unresponsive(ten));
    assert_eq!(s.flows[3].congestion, "none");
    assert_eq!(Scenario::parse("x", &s.to_toml()).unwrap(), s);
}

#[test]
fn parameters_reach_the_algorithm() {
    struct Target(weir_config::AqmConfig);
    impl Visitor for Target {
        type Output = Option<Value>;
        fn visit<A: Algorithm>(self) -> Option<Value> {
            let params: A::Params = self.0.params();
            weir_aqm::Params::get(&params, A::SETPOINT.unwrap())
        }
    }
    let s = small("aqm.target = \"7ms\"");
    let target = weir_aqm::visit(&s.aqm.name.clone(), Target(s.aqm.clone())).unwrap();
    assert_eq!(target, Some(Value::Duration(Duration::from_millis(7))));
    assert_eq!(s.aqm.setpoint(), Some(Duration::from_millis(7)));
    assert_eq!(s.aqm.given, ["target"]);
    assert_eq!(s.forward().aqm, Some(s.aqm));
}

#[test]
fn settings_go_over_the_file() {
    let mut doc = Document::parse("small.toml", SMALL).unwrap();
    for set in ["run.duration=10s", "flows.0.count = 9", "policy.target_max=20ms", "aqm.adaptive=false"] {
        doc.set_from(set).unwrap();
    }
    doc.set("title", "\"5\"").unwrap();
    let s = doc.scenario().unwrap();
    assert_eq!((s.run.duration, s.flows[0].count, s.title.as_str()), (Duration::from_secs(10), 9, "5"));
    assert_eq!(s.policy.unwrap().policy().target_max, Duration::from_millis(20));
    assert_eq!(s.aqm.get("adaptive"), Some(Value::Flag(false)));
}

#[test]
fn elements_of_lists_are_set_by_their_names() {
    let link =
        |name: &str| format!("[[links]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit/s\"\n");
    let text = format!(
        "title = \"x\"\n{}{}{}[[flows]]\nfrom = \"a\"\nto = \"b\"\n[run]\nduration = \"5s\"\n\
         [sweep]\n\"links.1.rate\" = [\"1Mbit/s\", \"2Mbit/s\"]\n",
        link("first"),
        link("radio"),
        link("0")
    );
    let mut doc = Document::parse("links.toml", &text).unwrap();
    // A key that is set is no longer swept, however it is said.
    doc.set_from("links.radio.rate=5Mbit/s").unwrap();
    // A number is one, whatever a link is called.
    doc.set_from("links.0.rate=7Mbit/s").unwrap();
    let s = doc.scenario().unwrap();
    let rates: Vec<Rate> = s.links.iter().map(|link| link.rate()).collect();
    assert_eq!(rates, [7, 5, 10].map(Rate::from_mbps));
    assert_eq!(s.expand().len(), 1);
    let told = doc.set_from("links.third.rate=1Mbit/s").unwrap_err().to_string();
    assert!(told.contains("`links` is a list of 3"), "{told}");
}

#[test]
fn wrong_settings_are_told_as_such() {
    let told = |set: &str| {
        let mut doc = Document::parse("small.toml", SMALL).unwrap();
        doc.set_from(set).and_then(|()| doc.scenario().map(|_| ())).unwrap_err().to_string()
    };
    let list = "`flows` is a list of 1; name one of them by its number from 0, such as `flows.0`";
    assert_eq!(told("flows.count=2"), format!("--set flows.count=2: key `flows.count`: {list}"));
    assert_eq!(
        told("aqm.tarket=5ms"),
        "--set aqm.tarket=5ms: key `aqm.tarket`: is unknown; did you mean `target`?"
    );
    assert!(told("run.duration=5").contains("cannot be the number 5; write a duration such as"));
    assert!(told("run.duration").contains("has no `=`"));
    assert!(told("=5").contains("is no key"));
    assert!(told("a..b=5").contains("is no key"));
    assert!(told("title.x=5").contains("`title` is the text \"Small\", not a table"));
}

#[test]
fn a_sweep_is_every_combination_the_last_axis_fastest() {
    let s = small("[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\nflows.0.count = [2, 9, 36]\n");
    let labels: Vec<String> = s.expand().iter().map(|p| p.label()).collect();
    assert_eq!(labels[0], "aqm.name=gsp, flows.0.count=2");
    assert_eq!(labels[1], "aqm.name=gsp, flows.0.count=9");
    assert_eq!(labels[5], "aqm.name=codel, flows.0.count=36");
    assert_eq!((labels.len(), s.sweep.points[5].scenario.flows[0].count), (6, 36));
    assert_eq!(s.sweep.points[5].scenario.aqm.name, "codel");
}

#[test]
fn what_is_printed_says_whether_flows_use_ecn() {
    for (more, printed) in [
        ("flows = [{}]", "\necn = false\n"),
        ("flows = [{ congestion = \"dctcp\" }]", "\necn = true\n"),
        ("flows = [{ congestion = \"prague\", ecn = false }]", "\necn = false\n"),
        ("flows = [{ ecn = true }]", "\necn = true\n"),
        ("flows = [{ udp_rate = \"1Mbit/s\" }]", "\necn = false\n"),
    ] {
        let text = format!(
            "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\n{more}\nrun.duration = \"5s\"\n"
        );
        let scenario = Scenario::parse("x", &text).unwrap();
        // The algorithm has such a key too.
        let (_, flows) =
            scenario.to_toml().split_once("[[flows]]").map(|(a, b)| (a.len(), b.to_string())).unwrap();
        assert!(flows.contains(printed), "{more}: {flows}");
    }
    // Where the congestion control is swept, each has its own default.
    let text = "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\nrun.duration = \"5s\"\n\
                flows = [{ congestion = \"dctcp\" }]\nsweep.\"flows.0.congestion\" = [\"dctcp\", \"cubic\"]\n";
    let scenario = Scenario::parse("x", text).unwrap();
    let again = Scenario::parse("x", &scenario.to_toml()).unwrap();
    for points in [scenario.expand(), again.expand()] {
        let ecn: Vec<bool> = points.iter().map(|p| p.scenario.flows[0].ecn.is_on()).collect();
        assert_eq!(ecn, [true, false]);
    }
}

#[test]
fn a_sweep_survives_printing() {
    for more in [
        "aqm.target = \"2.5ms\"\n[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\n\"path.rtt\" = [\"1ms\"]\n",
        "aqm.burst_rule = false\n[sweep]\naqm = [{ name = \"gsp\" }, { name = \"codel\", target = \"1ms\" }]\n",
        "[sweep]\n\"flows.0.udp_rate\" = [\"1Mbit/s\"]\n\"policy.target_max\" = [\"1ms\", \"9ms\"]\n",
    ] {
        let s = small(more);
        let again = Scenario::parse("x", &s.to_toml()).unwrap_or_else(|e| panic!("{e}\n{}", s.to_toml()));
        assert_eq!(again, s, "{}", s.to_toml());
    }
}

#[test]
fn schemes_change_several_keys_and_take_tables_out() {
    let text = "policy.target_max = \"30ms\"\nrun.warmup = \"1s\"\n[sweep]\nschemes.queue.FIFO = { aqm = { name = \"tail_drop\" }, without = [\"policy\"] }\n\
                schemes.queue.\"FQ-CoDel\" = { aqm = { name = \"codel\" }, queue.discipline = \"flow\", run.duration = \"6s\",\n  without = [\"policy\"] }\n\
                schemes.queue.steered = {}\n\"flows.0.count\" = { name = \"n\", values = [2, 9] }\n";
    let s = small(text);
    let labels: Vec<String> = s.expand().iter().map(|p| p.label()).collect();
    assert_eq!(labels[..3], ["queue=FIFO, n=2", "queue=FIFO, n=9", "queue=FQ-CoDel, n=2"]);
    let of = |at: usize| &s.sweep.points[at].scenario;
    assert_eq!((of(0).aqm.name.as_str(), of(0).policy.is_none()), ("tail_drop", true));
    assert_eq!((of(2).queue.discipline.as_str(), of(2).aqm.name.as_str()), ("flow", "codel"));
    // A key with dots leaves its neighbours alone.
    assert_eq!((of(2).run.duration, of(2).run.warmup), (Duration::from_secs(6), Duration::from_secs(1)));
    assert_eq!((of(5).aqm.name.as_str(), of(5).policy.is_some(), of(5).flows[0].count), ("gsp", true, 9));
    let again = Scenario::parse("x", &s.to_toml()).unwrap_or_else(|e| panic!("{e}\n{}", s.to_toml()));
    assert_eq!(again, s, "{}", s.to_toml());
    for (more, told) in [
        ("[sweep.schemes.queue]\n", "has no scheme"),
        ("[sweep.schemes.point]\na = { aqm.name = \"gsp\" }\n", "cannot be called \"point\""),
        ("[sweep.schemes.q]\na = \"gsp\"\n", "cannot be the text \"gsp\""),
        ("[sweep.schemes.q]\n\"\" = { aqm.name = \"gsp\" }\n", "has a scheme without a short name"),
        (
            "[sweep.schemes.q]\na = { aqm = { name = \"gsp\" }, \"aqm.target\" = \"1ms\" }\n",
            "one of which is part",
        ),
        ("[sweep.schemes.q]\na = { without = \"policy\" }\n", "is a list of keys"),
        ("[sweep.schemes.q]\na = { without = [\"flows.0\"] }\n", "an element of a list"),
        ("[sweep.schemes.q]\na = { run.seeds = 3 }\n", "has no meaning in a sweep"),
        (
            "[sweep]\n\"aqm.name\" = [\"gsp\"]\nschemes.q.a = { aqm = { name = \"gsp\" } }\n",
            "sets what `sweep.aqm.name` sets too",
        ),
        ("[sweep]\n\"flows.0.count\" = { name = 3, values = [2] }\n", "cannot be the number 3"),
    ] {
        let said = refusal(more);
        assert!(said.contains(told), "{more}: {said}");
    }
}

#[test]
fn a_setting_replaces_the_axis_of_its_key() {
    let text = format!("{SMALL}[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\nflows.0.count = [2, 9]\n");
    let mut doc = Document::parse("x", &text).unwrap();
    doc.set("flows.0.count", "3").unwrap();
    assert_eq!(doc.scenario().unwrap().sweep.points.len(), 2);
    doc.set("aqm", "{ name = \"gsp\" }").unwrap();
    let s = doc.scenario().unwrap();
    assert_eq!((s.sweep.points.len(), s.flows[0].count), (0, 3));
}

#[test]
fn limits_are_reached_and_not_passed() {
    let flows = |count: u32| SMALL.replace("[{}]", &format!("[{{ count = {count} }}, {{}}]"));
    assert!(Scenario::parse("x", &flows(MAX_FLOWS - 1)).is_ok());
    assert!(Scenario::parse("x", &flows(MAX_FLOWS)).unwrap_err().to_string().contains("give at most 10000"));
    let axis = |n: usize| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let sweep =
        |n| format!("[sweep]\n\"flows.0.count\" = [{}]\n\"run.duration\" = [\"5s\", \"6s\"]\n", axis(n));
    assert!(refusal(&sweep(MAX_POINTS / 2 + 1)).contains("more than 100000 points"));
    assert!(small("run.sample = \"1ms\"").run.seeds == 1);
    assert!(Scenario::parse("x", &SMALL.replace("5s", "24h")).is_ok());
    assert!(Scenario::parse("x", &SMALL.replace("5s", "24.01h")).is_err());
}

#[test]
fn only_some_problems_of_a_hopeless_file_are_told() {
    let many: String = (0..5000).map(|i| format!("unknown_{i} = 1\n")).collect();
    let errors = Scenario::parse("x", &format!("{many}{SMALL}")).unwrap_err();
    assert_eq!((errors.count(), errors.iter().count()), (5000, weir_config::MAX_PROBLEMS));
    assert!(errors.to_string().ends_with("and 4800 more problems; mend these first"));
}

#[test]
fn suspicious_but_allowed_is_a_warning() {
    let flows = "[{}, { start = \"9s\" }, { stop = \"9s\" }]";
    let text = SMALL.replace("[{}]", flows) + "aqm.target = \"50ms\"\npolicy.target_max = \"30ms\"\n";
    let warnings = Scenario::parse("x", &text).unwrap().warnings();
    assert_eq!(
        warnings,
        [
            "flows.1 starts only after the end of the run",
            "flows.2 would stop only after the end of the run",
            "steering starts at 2.5ms (policy.target_min_up), not at aqm.target, 50ms",
        ]
    );
}

#[test]
fn a_set_point_that_the_buffer_has_no_room_for_is_a_warning() {
    let warnings = |more: &str| Scenario::parse("x", &format!("{SMALL}{more}")).unwrap().warnings();
    let told = warnings("aqm.target = \"500ms\"\nlink.buffer = \"100ms\"\n");
    assert!(told[0].starts_with("`aqm.target` is 500ms, and the buffer is full after 100ms: "), "{told:?}");
    assert_eq!(warnings("aqm.target = \"90ms\"\nlink.buffer = \"100ms\"\n"), Vec::<String>::new());
}

#[test]
fn links_with_turns_are_read_and_carry_what_the_radio_does() {
    let text = "title = \"x\"\nlink = { wifi = { phy_rate = \"433.3Mbit/s\" }, accounting = \"ip\" }\n\
                path.rtt = \"20ms\"\naqm.name = \"codel\"\nflows = [{}]\nrun.duration = \"1s\"\n";
    let scenario = Scenario::parse("x", text).unwrap();
    // 64 packets in 43 + 67.5 + 44 + 1824.5 + 48 us.
    let rate = scenario.rate().as_bps_f64() / 1e6;
    assert!((rate - 64.0 * 12_000.0 / 2027.0).abs() < 0.1, "{rate}");
    assert_eq!(scenario.unplayed(weir_config::Arm::Row), ["link.wifi"]);
    let again = Scenario::parse("x", &scenario.to_toml()).unwrap();
    assert_eq!(again, scenario);
    let grants = text.replace("wifi = { phy_rate = \"433.3Mbit/s\" }", "rate = \"10Mbit/s\", grants = {}");
    let scenario = Scenario::parse("x", &grants).unwrap();
    let grants = scenario.link.variation.grants.as_ref().unwrap();
    assert_eq!((grants.interval, grants.lead), (Duration::from_millis(2), 2));
    assert_eq!(Scenario::parse("x", &scenario.to_toml()).unwrap(), scenario);
}

#[test]
fn raises_go_to_what_the_algorithm_has_by_itself() {
    let with = |more: &str| {
        let text = SMALL.lines().filter(|line| !line.starts_with("aqm")).collect::<Vec<_>>().join("\n");
        common::read(&format!("{text}\n{more}"))
    };
    let floor = |more: &str| with(more).policy.unwrap().policy().target_min_up.as_millis_f64();
    let of = |aqm: &str| floor(&format!("policy = {{}}\naqm.name = \"{aqm}\"\n"));
    assert_eq!([of("gsp"), of("tail_drop"), of("codel"), of("pie")], [2.5, 2.5, 5.0, 15.0]);
    // 0.025 times the initial timeout, whatever set point was written for the time before steering.
    assert_eq!(floor("policy = {}\naqm = { name = \"gsp\", interval = \"200ms\", target = \"9ms\" }"), 5.0);
    assert_eq!(floor("policy = {}\naqm = { name = \"codel\", target = \"9ms\" }"), 5.0);
    assert_eq!(floor("policy = {}\nqueue = { discipline = \"dualpi2\" }"), 15.0);
    let written = "policy = { target_min_up = \"3ms\" }\naqm = { name = \"pie\" }";
    assert_eq!(floor(written), 3.0);
    // What is printed still follows the algorithm, unless it was written.
    let printed = with("policy = {}\naqm.name = \"pie\"\n").to_toml();
    assert!(printed.contains("# target_min_up = \"15ms\""), "{printed}");
    assert!(!printed.contains("\ntarget_min_up"), "{printed}");
    assert!(with(written).to_toml().contains("\ntarget_min_up = \"3ms\""));
}

#[test]
fn the_policy_is_that_of_the_law() {
    let s = small("[policy]\nutilization_low = \"94%\"\nutilization_target = \"95%\"\nraise_factor = 3\n");
    let policy = s.policy.unwrap().policy();
    assert!(policy.uses_virtual_queue() && policy.raise_factor == 3.0);
    assert_eq!(small("policy = {}").policy.unwrap().policy(), weir_steer::Policy::default());
    let refused = refusal("policy.target_max = \"100us\"");
    assert!(
        refused.starts_with("small.toml:8: key `policy.target_max`: target_min = 200us lies above"),
        "{refused}"
    );
}

#[test]
fn the_largest_sweep_is_read() {
    let list = |n: u32| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let sweep = format!(
        "[sweep]\n\"flows.0.initial_window\" = [{}]\n\"flows.0.count\" = [{}]\n",
        list(1000),
        list(100)
    );
    assert_eq!(small(&sweep).sweep.points.len(), MAX_POINTS);
}

const PORTS: &str = "[ports]\na = \"eth1\"\nb = \"eth2\"\n";

#[test]
fn two_ports_are_a_configuration() {
    let c = RunConfig::parse("x", PORTS).unwrap();
    assert_eq!((c.ports.a.as_str(), c.ports.mode), ("eth1", PortMode::Auto));
    assert_eq!((c.a_to_b.link.rate, c.a_to_b.catch_up), (None, Duration::from_millis(5)));
    assert!(c.a_to_b.aqm.is_none() && c.b_to_a == c.a_to_b);
    assert_eq!((c.host.core, c.host.realtime, c.host.poll), (None, true, Poll::Busy));
    assert_eq!(c.fail_open.after, Duration::from_millis(200));
    assert_eq!(RunConfig::parse("x", &c.to_toml()).unwrap(), c);
}

#[test]
fn an_algorithm_that_nobody_tells_of_round_trips_is_a_warning() {
    let warnings = |aqm: &str, more: &str| {
        let text = format!("{PORTS}[a_to_b]\naqm = {{ name = \"{aqm}\" }}\n{more}");
        RunConfig::parse("x", &text).unwrap().warnings()
    };
    assert!(warnings("asqm", "")[0].contains("no `[sense]` table"));
    assert!(warnings("vaqm", "")[0].contains("`a_to_b.upstream` is \"off\""));
    assert_eq!(warnings("vaqm", "upstream = \"inform\"\n"), Vec::<String>::new());
    for (aqm, sense) in [("asqm", "[sense]\nport = \"b\"\n"), ("codel", "")] {
        assert_eq!(warnings(aqm, sense), Vec::<String>::new());
    }
}

/// A direction of 16 Mbit/s each, with these tables of probes.
fn sensing(tables: &str) -> Result<RunConfig, String> {
    let direction = |name: &str| format!("[{name}]\nrate = \"16Mbit/s\"\naqm = {{ name = \"asqm\" }}\n");
    let text = format!("{PORTS}{}{}{tables}", direction("a_to_b"), direction("b_to_a"));
    RunConfig::parse("x", &text).map_err(|e| e.to_string())
}

#[test]
fn probes_are_one_table_or_one_for_each_port() {
    let one = sensing("[sense]\nport = \"b\"\n").unwrap();
    assert!(one.is_sensed("a_to_b") && !one.is_sensed("b_to_a"));
    assert!(one.to_toml().contains("\n[sense]\n"), "{}", one.to_toml());
    assert_eq!(sensing("[[sense]]\nport = \"b\"\n").unwrap(), one);
    let both = sensing("[[sense]]\nport = \"b\"\n[[sense]]\nport = \"a\"\nevery = 8\n").unwrap();
    assert!(both.is_sensed("a_to_b") && both.is_sensed("b_to_a"));
    assert_eq!(RunConfig::parse("x", &both.to_toml()).unwrap(), both, "{}", both.to_toml());
    let same = sensing("[[sense]]\nport = \"b\"\n[[sense]]\nport = \"b\"\n").unwrap_err();
    assert!(same.contains("key `sense.1.port`: is that of the first `[[sense]]` table"), "{same}");
    // Of three the last one is that of the second.
    let third =
        sensing("[[sense]]\nport = \"b\"\n[[sense]]\nport = \"a\"\n[[sense]]\nport = \"a\"\n").unwrap_err();
    assert!(third.contains("key `sense.2.port`: is that of an earlier `[[sense]]` table"), "{third}");
    let text = format!("{PORTS}[a_to_b]\naqm = {{ name = \"asqm\" }}\n[[sense]]\nport = \"a\"\n");
    let blind = RunConfig::parse("x", &text).unwrap_err().to_string();
    assert!(blind.contains("key `sense.0.port`: senses for b_to_a"), "{blind}");
}

#[test]
fn what_probes_do_to_the_rate_fits_the_rate() {
    let with = |more: &str| sensing(&format!("[sense]\nport = \"b\"\n{more}\n"));
    let config =
        with("fall_back_rate = \"6Mbit/s\"\nautorate = { min = \"2Mbit/s\", max = \"20Mbit/s\" }").unwrap();
    let settings = config.sense[0].rate.settings(Rate::from_mbps(16)).unwrap();
    assert_eq!((settings.rate, settings.fall_back), (Rate::from_mbps(16), Some(Rate::from_mbps(6))));
    assert_eq!(settings.autorate.unwrap().delay, Duration::from_millis(30));
    assert_eq!(RunConfig::parse("x", &config.to_toml()).unwrap(), config);
    assert_eq!(with("").unwrap().sense[0].rate.settings(Rate::from_mbps(16)), None);
    for (more, problem) in [
        (
            "fall_back_rate = \"17Mbit/s\"",
            "key `sense.fall_back_rate`: 17Mbit/s is more than the configured rate",
        ),
        (
            "autorate = { min = \"17Mbit/s\", max = \"20Mbit/s\" }",
            "key `sense.autorate`: does not hold the configured rate, 16Mbit/s",
        ),
        (
            "autorate = { min = \"20Mbit/s\", max = \"10Mbit/s\" }",
            "key `sense.autorate.max`: 10Mbit/s is not more than `min`",
        ),
    ] {
        let told = with(more).unwrap_err();
        assert!(told.contains(problem), "{told}");
    }
    let text = format!(
        "{PORTS}[a_to_b]\naqm = {{ name = \"asqm\" }}\n[sense]\nport = \"b\"\nfall_back_rate = \"1Mbit/s\"\n"
    );
    let unshaped = RunConfig::parse("x", &text).unwrap_err().to_string();
    assert!(
        unshaped.contains("key `sense.fall_back_rate`: moves the rate of the shaper, and there is none"),
        "{unshaped}"
    );
    let text = text
        .replace("[sense]", "rate = \"1Mbit/s\"\ndelay = \"5ms\"\n[sense]")
        .replace("fall_back_rate = \"1Mbit/s\"", "autorate = { min = \"1Mbit/s\", max = \"2Mbit/s\" }");
    let delayed = RunConfig::parse("x", &text).unwrap_err().to_string();
    assert!(delayed.contains("key `sense.autorate.max`: is more than `a_to_b.rate`"), "{delayed}");
}

#[test]
fn what_cannot_have_the_effect_it_is_written_for_is_a_warning() {
    let warnings = |direction: &str| {
        let text = format!("{PORTS}[a_to_b]\n{direction}\n");
        RunConfig::parse("x", &text).unwrap().warnings()
    };
    let steered = |more: &str, policy: &str| {
        warnings(&format!("rate = \"10Mbit/s\"\n{more}\naqm = {{ name = \"gsp\" }}\npolicy = {{ {policy} }}"))
    };
    let told = steered("buffer = \"20ms\"", "target_max = \"300ms\"");
    assert_eq!(told.len(), 1, "{told:?}");
    for part in ["a_to_b: `policy.target_max` is 300ms", "full after 20ms", "Remedy: a larger `buffer`"] {
        assert!(told[0].contains(part), "{told:?}");
    }
    // 25 kB are 20 ms at that rate.
    assert!(steered("buffer = \"25kB\"", "")[0].contains("full after 20ms"));
    assert_eq!(steered("", "target_max = \"100ms\""), Vec::<String>::new());
    let codel = |more: &str| warnings(&format!("rate = \"10Mbit/s\"\n{more}"));
    assert!(codel("aqm = { name = \"codel\", target = \"500ms\" }")[0].contains("`aqm.target` is 500ms"));
    assert_eq!(codel("aqm = { name = \"codel\", target = \"50ms\" }"), Vec::<String>::new());
    assert_eq!(
        codel("buffer = \"10ms\"\naqm = { name = \"tail_drop\" }"),
        Vec::<String>::new(),
        "nothing was written"
    );
    // A follower that makes packets wait puts them in one queue unless told otherwise.
    let follow =
        |queue: &str| warnings(&format!("upstream = \"follow\"\naqm = {{ name = \"codel\" }}\n{queue}"));
    assert!(follow("")[0].contains("`queue.discipline = \"flow\"` for one bottleneck"));
    for discipline in ["flow", "user"] {
        let queue = format!("queue = {{ discipline = \"{discipline}\" }}");
        assert_eq!(follow(&queue), Vec::<String>::new());
    }
    assert_eq!(warnings("upstream = \"inform\"\naqm = { name = \"vaqm\" }"), Vec::<String>::new());
}

#[test]
fn disciplines_by_the_names_of_others_are_told_what_they_are_here() {
    let told = |discipline: &str| {
        let text = format!("{PORTS}[a_to_b]\nqueue = {{ discipline = \"{discipline}\" }}\n");
        RunConfig::parse("x", &text).unwrap_err().to_string()
    };
    for (name, algorithm) in
        [("fq_codel", "codel"), ("fq-pie", "pie"), ("cake", "cobalt"), ("fq", "tail_drop")]
    {
        let remedy = format!("write `aqm.name = \"{algorithm}\"` and `queue.discipline = \"flow\"`");
        assert!(told(name).contains(&remedy), "{}", told(name));
    }
    let remedy = "write `discipline = \"single\"` and, beside `queue`, `aqm = { name = \"codel\" }`";
    assert!(told("codel").contains(remedy), "{}", told("codel"));
    assert!(told("flwo").contains("did you mean \"flow\"?"));
}

#[test]
fn a_rate_that_follows_a_bottleneck_has_no_other_master() {
    let told = |more: &str| {
        let text = format!("{PORTS}[a_to_b]\nupstream = \"follow\"\n{more}");
        RunConfig::parse("x", &text).map(|c| c.a_to_b.upstream).map_err(|e| e.to_string())
    };
    let codel = "aqm = { name = \"codel\" }\n";
    assert_eq!(told(codel), Ok(Upstream::Follow));
    assert_eq!(
        told(&format!("rate = \"1Gbit/s\"\nqueue = {{ discipline = \"flow\" }}\n{codel}")),
        Ok(Upstream::Follow)
    );
    assert!(told("").unwrap_err().contains("key `a_to_b.aqm.name`: is missing: packets wait here"));
    let users = format!("queue = {{ discipline = \"user\" }}\n{codel}");
    assert_eq!(told(&users), Ok(Upstream::Follow), "each user has a rate");
    let policy = "rate = \"1Gbit/s\"\naqm = { name = \"gsp\" }\npolicy = {}\n";
    assert!(told(policy).unwrap_err().contains("does not go with `policy`"));
    let sense = format!("{codel}[sense]\nport = \"b\"\n");
    assert!(told(&sense).unwrap_err().contains("key `a_to_b.upstream`: tells the algorithm of round trips"));
}

#[test]
fn a_full_configuration_prints_as_itself() {
    let text = format!(
        "{PORTS}mode = \"af_packet\"\n\
        [a_to_b]\nrate = \"1Gbit/s\"\nbuffer = \"12.5MB\"\naccounting = \"ip\"\ndelay = \"25ms\"\n\
        aqm = {{ name = \"codel\", ecn = false }}\n[a_to_b.policy]\nutilization_low = \"99.25%\"\n\
        [b_to_a]\ncatch_up = \"1ms\"\n[host]\ncore = 1\npoll = \"sleep\"\nrealtime = false\n\
        [run]\nduration = \"1min\"\nout = \"results\\\\\\\"of\\\" today\"\n[fail_open]\nafter = \"20ms\"\n"
    );
    let c = RunConfig::parse("x", &text).unwrap_or_else(|e| panic!("{e}"));
    let again = RunConfig::parse("x", &c.to_toml()).unwrap_or_else(|e| panic!("{e}\n{}", c.to_toml()));
    assert_eq!(again, c);
    assert_eq!(c.a_to_b.link.buffer, Buffer::Bytes(Bytes::new(12_500_000)));
    assert_eq!(c.run.out.as_deref(), Some("results\\\"of\" today"));
}

#[test]
fn a_value_that_an_axis_has_twice_is_refused() {
    let text = |counts: &str| {
        format!(
            "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\nflows = [{{}}]\n\
             run.duration = \"5s\"\n[sweep]\n\"flows.0.count\" = {counts}\n"
        )
    };
    let told = Scenario::parse("x", &text("[1, 2, 1]")).unwrap_err().to_string();
    assert!(told.contains("x:8") && told.contains("has \"1\" twice"), "{told}");
    assert!(Scenario::parse("x", &text("[1, 2]")).is_ok());
}
