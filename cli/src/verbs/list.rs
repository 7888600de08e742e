//! `weir list`: the algorithms.

use crate::output::{Done, Output};
use serde::Serialize;
use std::process::ExitCode;
use weir_aqm::{Algorithm, Visitor};

/// List the algorithms, one line each. `weir explain NAME` tells more of one.
#[derive(clap::Args)]
pub struct Arguments {}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    setpoint: Option<&'static str>,
    steerable: bool,
}

#[derive(Clone)]
struct Describe;

impl Visitor for Describe {
    type Output = Entry;
    fn visit<A: Algorithm>(self) -> Entry {
        Entry {
            name: A::NAME,
            summary: A::SUMMARY,
            source: A::SOURCE,
            setpoint: A::SETPOINT,
            steerable: A::SETPOINT.is_some(),
        }
    }
}

/// Runs the verb.
pub fn main(_: Arguments, output: &Output) -> Done {
    let mut entries = Vec::new();
    weir_aqm::visit_all(Describe, |entry| entries.push(entry));
    output.result(&serde_json::json!({ "algorithms": entries }), || {
        let width = entries.iter().map(|e| e.name.len()).max().unwrap_or(0);
        let line = |e: &Entry| {
            let steer = if e.steerable { "steerable" } else { "" };
            format!("{:width$}  {steer:9}  {}\n", e.name, e.summary)
        };
        entries.iter().map(line).collect()
    });
    Ok(ExitCode::SUCCESS)
}
