//! Scenarios from text, and runs of them.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::ops::ControlFlow;
use weir_config::Scenario;
use weir_sim::Outcome;

/// A scenario of a link with its tables, flows and a duration.
pub fn quiet(link: &str, flows: &str, duration: &str) -> String {
    format!("title = \"test\"\n{link}{flows}[run]\nduration = \"{duration}\"\nsample = \"100ms\"\n")
}

pub fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

pub fn run(text: &str, seed: u64) -> Outcome {
    weir_sim::run(&scenario(text), seed, &mut |_| ControlFlow::Continue(())).expect("the scenario is valid")
}

/// Mean over the flows of a group.
pub fn goodput(outcome: &Outcome, group: u32) -> f64 {
    let flows: Vec<f64> =
        outcome.recording.summary.flows.iter().filter(|f| f.group == group).map(|f| f.goodput_bps).collect();
    flows.iter().sum::<f64>() / flows.len() as f64
}
