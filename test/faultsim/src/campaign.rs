//! Many seeds: how many, how fast, what was met, what was found.

use crate::faults::{Kind, Met};
use crate::life::{self, Report};
use crate::plan::Plan;
use crate::user::{self, Script};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// What a seed stands for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "there are few of them at a time")]
pub enum Case {
    /// A packet loop between two ports.
    Loop(Plan),
    /// A user plane with its control.
    User(Script),
}

impl Case {
    /// Of a seed: one in four is a user plane.
    pub fn of(seed: u64) -> Case {
        match seed % 4 {
            3 => Case::User(Script::of(seed)),
            _ => Case::Loop(Plan::of(seed)),
        }
    }

    /// Runs it.
    pub fn run(&self, wants_trace: bool) -> Report {
        match self {
            Case::Loop(plan) => life::run(plan, wants_trace),
            Case::User(script) => user::run(script, wants_trace),
        }
    }

    fn smaller(&self) -> Vec<Case> {
        match self {
            Case::Loop(plan) => plan.smaller().into_iter().map(Case::Loop).collect(),
            Case::User(script) => script.smaller().into_iter().map(Case::User).collect(),
        }
    }

    /// A smaller one that finds the same in kind, after at most so many runs.
    pub fn shrunk(&self, runs_max: u32) -> Case {
        let (mut best, mut runs) = (self.clone(), 0);
        let wanted = essence(&best.run(false));
        'again: loop {
            for smaller in best.smaller() {
                runs += 1;
                if runs > runs_max {
                    break 'again;
                }
                if wanted.is_some() && essence(&smaller.run(false)) == wanted {
                    best = smaller;
                    continue 'again;
                }
            }
            break;
        }
        best
    }
}

/// What was found first, without its numbers.
pub fn essence(report: &Report) -> Option<String> {
    let text = report.violations.first()?;
    Some(text.chars().filter(|c| !c.is_ascii_digit()).collect())
}

/// The sum of many runs.
#[derive(Default)]
pub struct Sum {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that found something, with what.
    pub failed: Vec<(u64, Vec<String>)>,
    /// Faults that were met.
    pub met: Met,
    /// Simulated time, in ns.
    pub simulated: u128,
    /// System calls and steps.
    pub calls: u64,
    /// Processes.
    pub lives: u64,
    /// Frames sent and received.
    pub frames: (u64, u64),
    /// The longest gap between two processes, in ns.
    pub longest_gap: u64,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, seed: u64, report: Report) {
        self.seeds += 1;
        self.met.merge(&report.met);
        self.simulated += u128::from(report.simulated);
        self.calls += report.calls;
        self.lives += u64::from(report.lives);
        self.frames.0 += report.frames.0;
        self.frames.1 += report.frames.1;
        self.longest_gap = self.longest_gap.max(report.longest_gap);
        if !report.violations.is_empty() {
            self.failed.push((seed, report.violations));
        }
    }

    /// Another one.
    pub fn merge(&mut self, other: Sum) {
        self.seeds += other.seeds;
        self.failed.extend(other.failed);
        self.met.merge(&other.met);
        self.simulated += other.simulated;
        self.calls += other.calls;
        self.lives += other.lives;
        self.frames.0 += other.frames.0;
        self.frames.1 += other.frames.1;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
    }

    /// In a line.
    pub fn line(&self, took: Duration) -> String {
        let simulated = self.simulated as f64 / 1e9;
        format!(
            "{} seeds, {} failed; {:.0} s simulated in {:.1} s ({:.0} times as fast), {} processes, {} system calls, {} frames",
            self.seeds,
            self.failed.len(),
            simulated,
            took.as_secs_f64(),
            simulated / took.as_secs_f64().max(1e-9),
            self.lives,
            self.calls,
            self.frames.0
        )
    }

    /// Faults by kind.
    pub fn table(&self) -> String {
        let counts: std::collections::BTreeMap<Kind, u64> = self.met.all().collect();
        let rows = Kind::ALL.iter().map(|kind| {
            let count = counts.get(kind).copied().unwrap_or(0);
            format!("{count:>12}  {:<18} {}", format!("{kind:?}"), kind.about().trim())
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// For programs.
    pub fn json(&self, took: Duration) -> Value {
        let met: serde_json::Map<String, Value> =
            self.met.all().map(|(kind, n)| (format!("{kind:?}"), json!(n))).collect();
        let failed: Vec<Value> =
            self.failed.iter().map(|(seed, found)| json!({ "seed": seed, "found": found })).collect();
        json!({
            "seeds": self.seeds,
            "failed": failed,
            "faults_met": met,
            "simulated_s": self.simulated as f64 / 1e9,
            "took_s": took.as_secs_f64(),
            "processes": self.lives,
            "calls": self.calls,
            "frames_sent": self.frames.0,
            "frames_received": self.frames.1,
            "longest_gap_ms": self.longest_gap as f64 / 1e6,
        })
    }
}
