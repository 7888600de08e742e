//! What it takes to read a dump of many queueing disciplines.

use crate::rows::Row;
use std::time::Instant;
use weir_tc::Message;

/// What Debian's kernel said of its queues.
const RECORDED: &str = include_str!("../../../data/vectors/tc/6.12.jsonl");
const DISCIPLINES: usize = 10_000;
const MOST_MS: f64 = 50.0;

fn recorded() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for line in RECORDED.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("the record is JSON");
        for hex in row["qdisc"].as_array().into_iter().flatten() {
            let hex = hex.as_str().expect("messages are texts");
            let byte =
                |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("messages are hexadecimal");
            all.push((0..hex.len()).step_by(2).map(byte).collect());
        }
    }
    all
}

/// Decodes the recorded messages in turn, `rounds` times as many as are required; the median counts.
pub fn run(rounds: u32) -> Vec<Row> {
    let messages = recorded();
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for message in messages.iter().cycle().take(DISCIPLINES) {
                std::hint::black_box(Message::decode(message).expect("the kernel's messages are taken"));
            }
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    vec![
        Row::told("queues", "10 000 queueing disciplines decoded", median, "ms")
            .at_most(MOST_MS)
            .times(rounds),
    ]
}
