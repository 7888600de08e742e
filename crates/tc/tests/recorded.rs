//! Messages that kernels sent, recorded by `tools/tc-record`, beside what `tc -s -j` said of the same queues.

use serde_json::Value;
use std::path::Path;
use weir_tc::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Every row of every record.
fn rows() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors/tc");
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            let text = std::fs::read_to_string(path).unwrap();
            rows.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
    }
    rows.retain(|row| row.get("case").is_some());
    assert!(rows.len() > 10, "the records are missing");
    rows
}

fn messages(row: &Value, what: &str) -> Vec<Vec<u8>> {
    row[what].as_array().unwrap().iter().map(|hex| bytes(hex.as_str().unwrap())).collect()
}

#[test]
fn every_recorded_message_is_written_again_as_it_was() {
    let mut count = 0;
    for row in rows() {
        for what in ["qdisc", "class", "told"] {
            for bytes in messages(&row, what) {
                let message = Message::decode(&bytes).unwrap_or_else(|e| panic!("{e} in {}", row["case"]));
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(again, bytes, "{}: {message:?}", row["case"]);
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count} messages");
}

#[test]
fn of_the_listed_kinds_nothing_is_left_untyped() {
    for row in rows() {
        for what in ["qdisc", "class", "told"] {
            for bytes in messages(&row, what) {
                let message = Message::decode(&bytes).unwrap();
                if matches!(message.kind(), None | Some(Kind::Other(_))) {
                    continue;
                }
                // What an enqueued list keeps as it came is written so by `Debug`.
                let text = format!("{message:?}");
                assert!(!text.contains("Other("), "{}: {text}", row["case"]);
            }
        }
    }
}

/// What `tc` says of a discipline with this handle.
fn tc(row: &Value, handle: Handle) -> Option<&Value> {
    row["tc"].as_array().unwrap().iter().find(|q| q["handle"] == handle.to_string())
}

#[test]
fn counters_and_options_are_those_that_tc_tells() {
    let mut compared = std::collections::BTreeMap::<String, usize>::new();
    for row in rows() {
        for message in messages(&row, "qdisc").iter().map(|b| Message::decode(b).unwrap()) {
            if message.handle == Handle::NONE {
                continue;
            }
            let Some(said) = tc(&row, message.handle) else { continue };
            let (kind, counters) = (message.kind().unwrap(), message.counters());
            assert_eq!(said["kind"], kind.name());
            let numbers = [
                ("bytes", counters.bytes),
                ("packets", counters.packets),
                ("drops", counters.drops.into()),
                ("overlimits", counters.overlimits.into()),
                ("requeues", counters.requeues.into()),
                ("backlog", counters.waiting_bytes.into()),
                ("qlen", counters.waiting_packets.into()),
            ];
            for (name, value) in numbers {
                assert_eq!(said[name], value, "{name} of {}", row["case"]);
            }
            let options = &said["options"];
            if let (Some(ours), Some(theirs)) =
                (message.options().and_then(Options::target), options["target"].as_u64())
            {
                assert_eq!(ours.as_nanos() / 1000, theirs, "target of {}", row["case"]);
                *compared.entry(format!("{kind} target")).or_default() += 1;
            }
            let interval = options["interval"].as_u64().or(options["rtt"].as_u64());
            if let (Some(ours), Some(theirs)) = (message.options().and_then(Options::interval), interval) {
                assert_eq!(ours.as_nanos() / 1000, theirs, "interval of {}", row["case"]);
                *compared.entry(format!("{kind} interval")).or_default() += 1;
            }
            let rate = options["rate"].as_u64().or(options["bandwidth"].as_u64());
            if let (Some(ours), Some(theirs)) = (message.options().and_then(Options::shaped_rate), rate) {
                assert_eq!(ours, theirs, "rate of {}", row["case"]);
                *compared.entry(format!("{kind} rate")).or_default() += 1;
            }
        }
    }
    for what in
        ["codel target", "fq_codel target", "cake interval", "cake rate", "tbf rate", "codel interval"]
    {
        assert!(compared.contains_key(what), "{what} was never compared: {compared:?}");
    }
}

#[test]
fn a_change_is_told_with_its_new_target() {
    for (case, kind, target_us) in
        [("codel", Kind::Codel, 2999), ("pie", Kind::Pie, 20_000), ("fq_pie", Kind::FqPie, 20_000)]
    {
        let row = rows().into_iter().find(|row| row["case"] == case).unwrap();
        let told: Vec<_> = messages(&row, "told").iter().map(|b| Message::decode(b).unwrap()).collect();
        let targets: Vec<_> = told
            .iter()
            .filter(|m| m.kind() == Some(&kind) && m.action == Action::New && m.handle == Handle::new(16, 0))
            .filter_map(|m| m.options()?.target())
            .collect();
        assert_eq!(targets.last().unwrap().as_nanos() / 1000, target_us, "{case}: {targets:?}");
        assert!(told.iter().any(|m| m.action == Action::Delete && m.kind() == Some(&kind)), "{case}");
    }
}

#[test]
fn a_rate_is_changed_and_bursts_keep_their_bytes() {
    for (case, rate) in
        [("tbf", 1_000_000), ("tbf_fast", 6_000_000_000), ("htb", 1_000_000), ("htb_fast", 700)]
    {
        let row = rows().into_iter().find(|row| row["case"] == case).unwrap();
        let what = if case.starts_with("tbf") { "qdisc" } else { "class" };
        let all: Vec<_> = messages(&row, what).iter().map(|b| Message::decode(b).unwrap()).collect();
        let options = all.iter().filter_map(Message::options).find(|o| o.shaped_rate().is_some()).unwrap();
        let changed = options.with_shaped_rate(rate).unwrap();
        assert_eq!(changed.shaped_rate(), Some(rate), "{case}");
        let buffer = |o: &Options| match o {
            Options::Tbf(o) => o.iter().find_map(|a| match a {
                TbfOption::Parms(p) => Some(p.buffer),
                _ => None,
            }),
            Options::Htb(o) => o.iter().find_map(|a| match a {
                HtbOption::Class(c) => Some(c.cbuffer),
                _ => None,
            }),
            _ => None,
        };
        let bytes = |o: &Options| {
            u128::from(buffer(o).unwrap()) * u128::from(TICK_NANOS) * u128::from(o.shaped_rate().unwrap())
                / 1_000_000_000
        };
        let (before, after) = (bytes(options), bytes(&changed));
        // A tick of 64 ns is up to 320 bytes at 40 Gbit/s.
        let tolerance = 1 + u128::from(rate) * u128::from(TICK_NANOS) / 1_000_000_000;
        assert!(before.abs_diff(after) <= tolerance, "{case}: {before} {after}");
    }
}
