//! A run of the kernel and the same in the simulator, and how far apart they may be.

use crate::common::scenario;
use crate::table::{FRAME, Law, Row, Table};
use std::ops::ControlFlow;
use weir_aqm::Cause;
use weir_sim::Outcome;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_units::{Duration, Time};

/// Runs of the simulator over which is averaged: with a few flows, when which packet is dropped matters.
const SEEDS: u64 = 3;

/// Averages the drop probability over the arrivals of the measured part, where an algorithm has one.
#[derive(Default)]
struct Probability {
    from: Time,
    sum: f64,
    count: f64,
}

impl Probability {
    fn see(&mut self, at: &LinkContext<'_>) {
        if at.now < self.from {
            return;
        }
        at.queue.gauges(&mut |name, value| {
            if name == "drop_probability" {
                self.sum += value;
                self.count += 1.0;
            }
        });
    }
}

impl Tap for Probability {
    fn on_enqueue(&mut self, at: &LinkContext<'_>, _seen: TappedPacket<'_>) {
        self.see(at);
    }

    fn on_drop(&mut self, at: &LinkContext<'_>, _seen: TappedPacket<'_>, _cause: Cause) {
        self.see(at);
    }
}

/// What the simulator did.
pub struct Ours {
    pub utilization: f64,
    pub delay_mean_ms: f64,
    pub delay_p95_ms: f64,
    pub drops_per_s: f64,
    pub marks_per_s: f64,
    /// Mean drop probability, where an algorithm has one.
    pub probability: Option<f64>,
    /// Drops so far at 1, 2, 3 ... seconds.
    pub drops_until: Vec<f64>,
}

impl Ours {
    fn of(outcome: &Outcome, seen: &Probability, seconds: f64) -> Ours {
        let link = &outcome.recording.summary.links[0];
        let drops = outcome.recording.link_samples[0].iter().map(|s| (s.drops + s.overflows) as f64);
        Ours {
            utilization: link.utilization,
            delay_mean_ms: link.delay_ms.mean,
            delay_p95_ms: link.delay_ms.p95,
            drops_per_s: (link.drops + link.overflows) as f64 / seconds,
            marks_per_s: link.marks as f64 / seconds,
            probability: (seen.count > 0.0).then(|| seen.sum / seen.count),
            drops_until: drops
                .scan(0.0, |sum, drops| {
                    *sum += drops;
                    Some(*sum)
                })
                .collect(),
        }
    }

    fn mean(runs: &[Ours]) -> Ours {
        let mean = |value: fn(&Ours) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
        Ours {
            utilization: mean(|r| r.utilization),
            delay_mean_ms: mean(|r| r.delay_mean_ms),
            delay_p95_ms: mean(|r| r.delay_p95_ms),
            drops_per_s: mean(|r| r.drops_per_s),
            marks_per_s: mean(|r| r.marks_per_s),
            probability: runs
                .iter()
                .map(|r| r.probability)
                .sum::<Option<f64>>()
                .map(|p| p / runs.len() as f64),
            drops_until: runs[0].drops_until.clone(),
        }
    }
}

/// Both sides of a comparison.
pub struct Pair<'a> {
    pub row: &'a Row,
    pub ours: Ours,
}

/// How far apart they may be: by a factor either way, or by a difference that is none, whichever allows more.
pub struct Bounds {
    /// Difference of the utilizations.
    utilization: f64,
    /// Mean delays, in milliseconds.
    delay: (f64, f64),
    /// Drops and marks in a second.
    signals: (f64, f64),
    /// Mean drop probability of PIE.
    probability: (f64, f64),
    /// Drops added up since the start, at each second.
    ramp: (f64, f64),
}

/// Gaps shorter than this between datagrams are those of twice the rate.
const TWICE_THE_RATE_NS: u64 = 700_000;

impl Bounds {
    pub fn of(table: &Table, row: &Row) -> Bounds {
        let tcp = Bounds {
            utilization: 0.03,
            delay: (1.25, 1.0),
            signals: (1.35, 0.25),
            probability: (1.35, 0.001),
            ramp: (1.05, 25.0),
        };
        // Nothing answers to the drops of datagrams, so that less is left to chance.
        let datagrams = Bounds { utilization: 0.003, signals: (1.02, 0.0), probability: (1.05, 0.0), ..tcp };
        match (row.gap_ns, row.queue.as_str()) {
            // By design: half of the packets must go, which takes a probability where a step of it matters
            // most, and the decay below half of the target takes it back too far each time.
            (Some(gap), "pie") if gap < TWICE_THE_RATE_NS => {
                return Bounds { delay: (1.7, 0.0), ramp: (1.15, 25.0), ..datagrams };
            }
            // What a packet takes of the kernel's memory is not known exactly.
            (Some(_), "cake_small") => return Bounds { utilization: 0.005, ..datagrams },
            (Some(_), _) => return datagrams,
            _ => {}
        }
        if row.queue == "fq_codel" && row.flows > 1 {
            // By design: here one packet of each flow may wait without a signal, in Linux one of all. Each
            // that waits delays the others by a transmission.
            let round_ms = f64::from(row.flows) * FRAME as f64 * 8e3 / table.rate_bps as f64;
            return Bounds { utilization: 0.07, delay: (1.25, 1.6 * round_ms), signals: (2.0, 0.25), ..tcp };
        }
        tcp
    }
}

fn is_near(a: f64, b: f64, (factor, difference): (f64, f64)) -> bool {
    (a - b).abs() <= difference || (a <= b * factor && b <= a * factor)
}

impl<'a> Pair<'a> {
    pub fn of(table: &Table, row: &'a Row, law: Law) -> Pair<'a> {
        let scenario = scenario(&table.scenario(row, law));
        let measured = (table.seconds - table.warmup_s) as f64;
        let from = Time::ZERO + Duration::from_secs(table.warmup_s as u64);
        let one = |seed| {
            let tap = Probability { from, ..Probability::default() };
            let (outcome, seen) =
                weir_sim::run_with(&scenario, seed, tap, &mut |_| ControlFlow::Continue(()))
                    .expect("the scenario is valid");
            Ours::of(&outcome, &seen, measured)
        };
        let runs: Vec<Ours> = (1..=SEEDS).map(one).collect();
        Pair { row, ours: Ours::mean(&runs) }
    }

    /// Differences beyond the bounds, in words.
    pub fn faults(&self, bounds: &Bounds) -> Vec<String> {
        let (row, ours) = (self.row, &self.ours);
        let mut faults = Vec::new();
        let mut check = |what: &str, ours: f64, kernel: f64, bound| {
            if !is_near(ours, kernel, bound) {
                faults.push(format!("{}: {what} {ours:.4}, in the kernel {kernel:.4}", row.name));
            }
        };
        check("utilization", ours.utilization, row.utilization, (1.0, bounds.utilization));
        check("mean delay in ms", ours.delay_mean_ms, row.delay_ms.mean, bounds.delay);
        check("drops per s", ours.drops_per_s, row.drops_per_s, bounds.signals);
        check("marks per s", ours.marks_per_s, row.marks_per_s, bounds.signals);
        if let (Some(ours), Some(kernel)) = (ours.probability, row.probability) {
            check("drop probability", ours, kernel, bounds.probability);
        }
        for (second, (ours, kernel)) in (1..).zip(ours.drops_until.iter().zip(&row.drops_until)) {
            check(&format!("drops until second {second}"), *ours, *kernel, bounds.ramp);
        }
        faults
    }
}
