//! No input makes the reader panic, and what it accepts prints as itself.

use proptest::prelude::*;
use weir_config::{Document, RunConfig, Scenario};

const SEEDS: &[&str] = &[
    include_str!("../../../../data/scenarios/demo.toml"),
    include_str!("../../../../data/scenarios/steering_figure8.toml"),
    include_str!("../bad/inline_tables.toml"),
    include_str!("../bad/run_combinations.toml"),
    include_str!("../../../../data/scenarios/shared_access.toml"),
    include_str!("../../../../data/scenarios/cellular_trace.toml"),
    include_str!("../bad/topology_routes.toml"),
    include_str!("../bad/kinds.toml"),
];

/// Reads a text as everything it could be; what is accepted must print as itself.
fn read(text: &str) {
    match Scenario::parse("random.toml", text) {
        Ok(scenario) => {
            let network = scenario.network();
            assert_eq!(network.routes.len(), scenario.flows.len());
            assert!(network.routes.iter().all(|r| r.link_delay <= r.rtt.shortest()));
            let printed = scenario.to_toml();
            let again = Scenario::parse("printed", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again, scenario, "{printed}");
        }
        Err(errors) => assert!(errors.count() > 0 && !errors.to_string().is_empty()),
    }
    if let Ok(config) = RunConfig::parse("random.toml", text) {
        assert_eq!(RunConfig::parse("printed", &config.to_toml()).as_ref(), Ok(&config));
    }
}

/// Pieces that mean something, so that mutations get past the syntax.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "\n[sweep]\n",
        "\n[policy]\n",
        "\n[[flows]]\n",
        "\n[a_to_b]\n",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "\"",
        "'",
        "\n",
        "\r\n",
        "#",
        "\"\"\"",
        "aqm.name",
        "name = \"codel\"",
        "\"flows.0.count\" = [1, 2]",
        "count = 0",
        "rate = \"1kbit/s\"",
        "\"99.123456789123%\"",
        "\"0.5ns\"",
        "-1",
        "1e400",
        "nan",
        "0x7f",
        "true",
        "1979-05-27",
        "udp_rate = \"1Mbit/s\"",
        "transfer = \"1B\"",
        "stop = \"1s\"",
        "buffer = \"64B\"",
        "delay_ab = \"1ms\"",
        "\u{0}",
        "\u{fe0f}",
        "\u{202e}",
        "é",
        "99999999999999999999",
        "\"1Tbit/s\"",
        "rtt = \"10s\"",
        "\"24h\"",
        "\n[[links]]\n",
        "\n[record]\n",
        "trace = \"../../data/scenarios/traces/cellular.trace\"",
        "trace = \"/dev/zero\"",
        "trace = \"\\u0000\"",
        "steps = [{ at = \"1s\", rate = \"1Mbit/s\" }]",
        "steps = [[]]",
        "loss = \"5%\"",
        "jitter = \"1ms\"",
        "steered_by = \"poll\"",
        "from = \"server\"",
        "to = \"home\"",
        "via = [\"core\"]",
        "via = [\"core\", \"core\"]",
        "rtt = [\"1ms\", \"5ms\"]",
        "aqm = { name = \"gsp\" }",
        "policy = {}",
        "web = { objects = 3 }",
        "voice = { codec = \"g729a\", packet_time = \"30ms\" }",
        "game = { sends = \"client\" }",
        "realtime = { frame_rate = 60, rate_max = \"5Mbit/s\" }",
        "video = { ladder = [\"1Mbit/s\", \"2Mbit/s\"], buffer = \"20s\" }",
        "page = { objects = [\"30kB\", \"3 x 5kB after 1\"] }",
        "udp_pattern = \"onoff\"\non = \"1s\"\noff = \"1s\"",
        "protocol = \"quic\"",
        "hystart = false",
        "mtu = 9000",
        "decisions = true",
        "\"links.0.rate\" = [\"1Mbit/s\"]",
    ];
    prop_oneof![
        4 => proptest::sample::select(words.to_vec()).prop_map(str::to_string),
        1 => any::<char>().prop_map(|c| c.to_string()),
        1 => (any::<u64>(), 0usize..6).prop_map(|(n, unit)| {
            format!("\"{}{}\"", n as f64 / 1000.0, ["ns", "ms", "h", "Mbit/s", "MB", "%"][unit])
        }),
    ]
}

/// The text with bytes cut out and pieces put in.
fn mutated(mut text: String, cuts: Vec<(usize, usize, String)>) -> String {
    for (at, length, piece) in cuts {
        let boundary = |mut i: usize| {
            i = i.min(text.len());
            while !text.is_char_boundary(i) {
                i -= 1;
            }
            i
        };
        let start = boundary(at % (text.len() + 1));
        let end = boundary(start + length);
        text.replace_range(start..end, &piece);
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        read(&text);
    }

    #[test]
    fn pieces(pieces in prop::collection::vec(piece(), 0..40)) {
        read(&pieces.concat());
    }

    #[test]
    fn mutations(
        seed in 0..SEEDS.len(),
        cuts in prop::collection::vec((any::<usize>(), 0usize..12, piece()), 0..5),
    ) {
        read(&mutated(SEEDS[seed].to_string(), cuts));
    }

    #[test]
    fn settings(key in "[a-z_.0-9]{0,20}|flows\\.0\\.count|aqm\\.target|run\\.warmup|sweep", value in piece()) {
        let mut doc = Document::parse("seed", SEEDS[1]).unwrap();
        if doc.set(&key, &value).is_ok() {
            let _ = (doc.scenario(), doc.run_config(), doc.upf_config());
        }
    }

    #[test]
    fn quantities(
        rtt in 0u64..=10_000_000_000, target in 1_000u64..=10_000_000_000, rate in 1_000_000u64..=1_000_000_000_000,
        buffer in 1538u64..=100_000_000_000, low in 0.0f64..=50.0, alpha in 0.0f64..=100.0,
    ) {
        let text = format!(
            "title = \"x\"\nlink = {{ rate = \"{rate}bit/s\", buffer = \"{buffer}B\" }}\npath.rtt = \"{rtt}ns\"\n\
            aqm = {{ name = \"gsp\", target = \"{target}ns\", alpha = {alpha:?} }}\n\
            policy.utilization_low = \"{low}%\"\nflows = [{{}}]\nrun.duration = \"10s\"\n"
        );
        let scenario = Scenario::parse("x", &text).unwrap_or_else(|e| panic!("{e}"));
        prop_assert_eq!(Scenario::parse("x", &scenario.to_toml()).unwrap(), scenario);
    }
}

/// Links and flows between few nodes, so that some routes are there and some are not.
fn topology() -> impl Strategy<Value = String> {
    let node = || 0u8..4;
    let link = (node(), node(), 0u64..20, any::<bool>());
    let flow = (node(), node(), prop::collection::vec(0usize..8, 0..4), 0u64..100);
    (prop::collection::vec(link, 1..8), prop::collection::vec(flow, 1..4)).prop_map(|(links, flows)| {
        let mut text = String::from("title = \"x\"\nrun.duration = \"5s\"\n");
        for (i, (from, to, delay, traced)) in links.into_iter().enumerate() {
            let rate = "rate = \"10Mbit/s\"";
            let rate = if traced { "trace = \"../../data/scenarios/traces/cellular.trace\"" } else { rate };
            text.push_str(&format!(
                "[[links]]\nname = \"l{i}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\n{rate}\ndelay = \"{delay}ms\"\n"
            ));
        }
        for (from, to, via, rtt) in flows {
            text.push_str(&format!("[[flows]]\nfrom = \"n{from}\"\nto = \"n{to}\"\n"));
            if !via.is_empty() {
                let via: Vec<String> = via.iter().map(|i| format!("\"l{i}\"")).collect();
                text.push_str(&format!("via = [{}]\n", via.join(", ")));
            }
            if rtt > 40 {
                text.push_str(&format!("rtt = [\"{rtt}ms\", \"{}ms\"]\n", 2 * rtt));
            }
        }
        text
    })
}

/// What a route must be, whatever the file says.
fn check_route(scenario: &Scenario, group: usize) {
    let network = scenario.network();
    let (flows, route) = (&scenario.flows[group], &network.routes[group]);
    let (from, to) = (flows.from.as_deref().unwrap(), flows.to.as_deref().unwrap());
    let ends = |links: &[usize], from: &str, to: &str| {
        let mut at = from;
        let mut visited = vec![at];
        for link in links.iter().map(|i| &network.links[*i]) {
            assert_eq!(link.from, at);
            at = &link.to;
            assert!(!visited.contains(&at), "a loop");
            visited.push(at);
        }
        assert_eq!(at, to);
    };
    ends(&route.forward, from, to);
    if !route.back.is_empty() {
        ends(&route.back, to, from);
    }
    for rtt in [route.rtt.shortest(), route.rtt.longest()] {
        let extra = route.extra_delay(rtt);
        assert_eq!(extra.forward + extra.back + route.link_delay, rtt);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn topologies(text in topology()) {
        read(&text);
        if let Ok(scenario) = Scenario::parse("x", &text) {
            (0..scenario.flows.len()).for_each(|group| check_route(&scenario, group));
        }
    }

    #[test]
    fn traces(text in prop::collection::vec(any::<u8>(), 0..60), numbers in prop::collection::vec(0u32..2000, 0..60)) {
        let _ = weir_config::Trace::parse("x", &text);
        let mut numbers = numbers;
        numbers.sort_unstable();
        let lines: String = numbers.iter().map(|n| format!("{n}\n")).collect();
        if let Ok(trace) = weir_config::Trace::parse("x", lines.as_bytes()) {
            // Two periods have each opportunity twice, in order.
            let taken: Vec<_> = trace.opportunities().take_while(|(at, _)| *at < trace.period().saturating_mul(2)).collect();
            let total: u64 = taken.iter().map(|(_, n)| u64::from(*n)).sum();
            let last = numbers.iter().filter(|n| Some(*n) == numbers.last()).count() as u64;
            prop_assert_eq!(total, 2 * numbers.len() as u64 - last);
            prop_assert!(taken.windows(2).all(|w| w[0].0 <= w[1].0));
        }
    }
}

#[test]
fn deep_nesting_is_refused_before_it_hurts() {
    let keys = vec!["a"; 79].join(".");
    for (open, close) in [("[", "]"), ("{a=", "}"), (&format!("{{{keys}="), "}")] {
        for times in [10, 70, 5000] {
            read(&format!("x = {}1{}", open.repeat(times), close.repeat(times)));
            read(&format!("x = {}", open.repeat(times)));
        }
    }
    read(&format!("[{keys}]\n{keys} = 1\n"));
    read(&format!("{}\n", vec!["a"; 100_000].join(".")));
}

#[test]
fn large_files_are_read_in_reasonable_time() {
    let fill = |line: &str| line.repeat(weir_config::MAX_FILE_BYTES / line.len());
    let unique: String = (0..60_000).map(|i| format!("k{i}=1\n")).collect();
    for text in
        [fill("[[flows]]\n"), fill("a = 1\n"), fill("["), fill("\n"), fill("\"\"\""), fill("= "), unique]
    {
        read(&text);
    }
}
