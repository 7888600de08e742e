//! No input makes the reader panic, and what it accepts prints as itself.

use proptest::prelude::*;
use weir_scenario::{Document, RunConfig, Scenario};

const SEEDS: &[&str] = &[
    include_str!("../../scenarios/demo.toml"),
    include_str!("../../scenarios/steering_figure8.toml"),
    include_str!("bad/inline_tables.toml"),
    include_str!("bad/run_combinations.toml"),
];

/// Reads a text as everything it could be; what is accepted must print as itself.
fn read(text: &str) {
    match Scenario::parse("random.toml", text) {
        Ok(scenario) => {
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
            let _ = (doc.scenario(), doc.run_config());
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
    let fill = |line: &str| line.repeat(weir_scenario::MAX_FILE_BYTES / line.len());
    let unique: String = (0..60_000).map(|i| format!("k{i}=1\n")).collect();
    for text in
        [fill("[[flows]]\n"), fill("a = 1\n"), fill("["), fill("\n"), fill("\"\"\""), fill("= "), unique]
    {
        read(&text);
    }
}
