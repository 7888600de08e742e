//! `weir list`: the algorithms, the queue disciplines, and the congestion controls of the simulator.

use crate::output::{Done, Output};
use serde::Serialize;
use std::process::ExitCode;
use weir_aqm::{Algorithm, Visitor};

/// List the algorithms, the queue disciplines and the congestion controls of the simulator, one line each.
/// `weir explain NAME` tells more of one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {}

const EXAMPLES: &str = "Examples:
  weir list
  weir list --json   the same for programs";

#[derive(Serialize)]
struct AlgorithmEntry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    setpoint: Option<&'static str>,
    steerable: bool,
}

/// A congestion control of the transport models.
#[derive(Serialize)]
pub struct Congestion {
    /// Its name in scenario files.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Where it is defined.
    pub source: &'static str,
}

impl From<&(&'static str, &'static str, &'static str)> for Congestion {
    fn from((name, summary, source): &(&'static str, &'static str, &'static str)) -> Congestion {
        Congestion { name, summary, source }
    }
}

#[derive(Clone)]
struct Describe;

impl Visitor for Describe {
    type Output = AlgorithmEntry;
    fn visit<A: Algorithm>(self) -> AlgorithmEntry {
        AlgorithmEntry {
            name: A::NAME,
            summary: A::SUMMARY,
            source: A::SOURCE,
            setpoint: A::SETPOINT,
            steerable: A::SETPOINT.is_some(),
        }
    }
}

/// A queue discipline.
#[derive(Serialize)]
pub struct Discipline {
    /// Its name.
    pub name: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Whether it has an algorithm of its own, beside which there is no other.
    pub brings_algorithm: bool,
}

struct DescribeQueue;

impl weir_queue::Visitor for DescribeQueue {
    type Output = Discipline;
    fn over_any<D: weir_queue::OverAny>(self) -> Discipline {
        Discipline { name: D::NAME, summary: D::SUMMARY, source: D::SOURCE, brings_algorithm: false }
    }
    fn of_its_own<D: weir_queue::OfItsOwn>(self) -> Discipline {
        Discipline { name: D::NAME, summary: D::SUMMARY, source: D::SOURCE, brings_algorithm: true }
    }
}

/// All disciplines, in the order of their list.
pub fn disciplines() -> Vec<Discipline> {
    weir_queue::names().iter().filter_map(|name| weir_queue::visit(name, DescribeQueue)).collect()
}

/// Runs the verb.
pub fn main(_: Arguments, output: &Output) -> Done {
    let mut entries = Vec::new();
    weir_aqm::visit_all(Describe, |entry| entries.push(entry));
    let congestion: Vec<Congestion> = weir_tcp::congestion::describe().iter().map(Congestion::from).collect();
    let disciplines = disciplines();
    let json = serde_json::json!({
        "algorithms": entries, "disciplines": disciplines, "congestion": congestion,
    });
    output.result(&json, || {
        let width = entries.iter().map(|e| e.name.len()).max().unwrap_or(0);
        let line = |e: &AlgorithmEntry| {
            let steer = if e.steerable { "steerable" } else { "" };
            format!("{:width$}  {steer:9}  {}\n", e.name, e.summary)
        };
        let mut text: String = entries.iter().map(line).collect();
        text.push_str("\nQueue disciplines, for `discipline` of [queue]; docs/queues.md:\n");
        let line = |d: &Discipline| {
            let own = if d.brings_algorithm { "own AQM" } else { "any AQM" };
            format!("{:width$}  {own:9}  {}\n", d.name, d.summary)
        };
        text.extend(disciplines.iter().map(line));
        text.push_str("\nCongestion controls of the simulator, for `congestion` of [[flows]]:\n");
        let line = |c: &Congestion| format!("{:width$}  {:9}  {}\n", c.name, "", c.summary);
        text.extend(congestion.iter().map(line));
        text
    });
    Ok(ExitCode::SUCCESS)
}
