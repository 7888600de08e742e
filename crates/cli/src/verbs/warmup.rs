//! How much of a run to leave out: given, or judged from the run itself.

use crate::output::{Failure, Output};
use crate::results::Planned;
use crate::runs::run_all;
use crate::simulate::simulate;
use crate::warmup::Decided;
use weir_measure::result::LinkSample;
use weir_measure::{Truncation, mser};
use weir_units::Duration;

/// What `--warmup` says.
#[derive(Clone, Debug)]
pub enum Warmup {
    /// By MSER-5.
    Auto,
    /// A time, as it was written.
    Fixed(String),
}

/// Reads `--warmup`.
pub fn parse(text: &str) -> Result<Warmup, String> {
    if text == "auto" {
        return Ok(Warmup::Auto);
    }
    let remedy = "write a time such as 10s, or auto";
    weir_units::parse_duration(text)
        .map(|_| Warmup::Fixed(text.to_string()))
        .map_err(|e| format!("{e}; {remedy}"))
}

/// Makes all runs without a warm-up and sets that of each point.
pub fn decide(plan: &mut [Planned], seed: u64, output: &Output) -> Result<Vec<Decided>, Failure> {
    let found = run_all(
        plan,
        |planned| &planned.scenario,
        output,
        |planned, progress| {
            let seed = seed.wrapping_add(u64::from(planned.run));
            let (outcome, interrupted) = simulate(&planned.scenario, seed, progress)?;
            let samples = outcome.recording.link_samples.into_iter().next().unwrap_or_default();
            Ok((!interrupted).then_some(samples))
        },
    )?;
    let mut all: Vec<Decided> = Vec::new();
    for (planned, samples) in plan.iter().zip(found) {
        let Some(samples) = samples else { continue };
        let sample = planned.scenario.run.sample;
        let (delay, rate) = judge(&samples).ok_or_else(|| {
            let title = &planned.scenario.title;
            Failure::Input(format!(
                "--warmup auto needs at least 40 samples, and {title} has {}: run longer, or sample more often than {sample} \
                 (run.sample)",
                samples.len()
            ))
        })?;
        let seconds = |t: Truncation| t.samples as f64 * sample.as_nanos() as f64 / 1e9;
        let own = Decided {
            point: planned.point,
            method: "MSER-5",
            warmup_s: seconds(delay).max(seconds(rate)),
            of_delay_s: seconds(delay),
            of_rate_s: seconds(rate),
            runs: 1,
            is_undecided: delay.is_undecided || rate.is_undecided,
            duration_s: planned.scenario.run.duration.as_secs_f64(),
        };
        match all.iter_mut().find(|d| d.point == own.point) {
            Some(d) => {
                d.warmup_s = d.warmup_s.max(own.warmup_s);
                d.of_delay_s = d.of_delay_s.max(own.of_delay_s);
                d.of_rate_s = d.of_rate_s.max(own.of_rate_s);
                d.runs += 1;
                d.is_undecided |= own.is_undecided;
            }
            None => all.push(own),
        }
    }
    for planned in plan {
        if let Some(d) = all.iter().find(|d| d.point == planned.point) {
            planned.scenario.run.warmup = Duration::from_nanos((d.warmup_s * 1e9).round() as u64);
        }
    }
    Ok(all)
}

/// What the delay and the rate ask for.
fn judge(samples: &[LinkSample]) -> Option<(Truncation, Truncation)> {
    let series = |of: fn(&LinkSample) -> f64| mser(&samples.iter().map(of).collect::<Vec<_>>());
    Some((series(|row| row.delay_mean_ms)?, series(|row| row.delivered_bps)?))
}
