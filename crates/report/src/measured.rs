//! What a run measured, as one row of a table.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_config::Objective;
use weir_measure::applications::Datagrams;
use weir_measure::jain;
use weir_measure::result::{FlowSummary, LinkSummary, Spread, Summary};
use weir_measure::study::{Study, size_column};

/// A value of a row. Whole numbers and others stay apart, so that columns have types.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// There is none.
    Missing,
}

impl Value {
    /// A number that may be none.
    fn number(value: Option<f64>) -> Value {
        value.filter(|v| v.is_finite()).map_or(Value::Missing, Value::Number)
    }

    /// The number, if there is one.
    pub fn get(self) -> Option<f64> {
        match self {
            Value::Count(n) => Some(n as f64),
            Value::Number(x) => Some(x),
            Value::Missing => None,
        }
    }
}

/// Values with the names of their columns, which carry the unit.
pub type Measured = Vec<(String, Value)>;

/// The row of a run. With several links each has columns of its own, with its name in front; with several
/// groups of flows each has columns of its own, too.
pub fn measured(summary: &Summary) -> Measured {
    let mut row = Vec::new();
    for link in &summary.links {
        let prefix = if summary.links.len() > 1 { format!("{}.", link.name) } else { String::new() };
        add_link(&mut row, &prefix, link);
    }
    let flows: Vec<&FlowSummary> = summary.flows.iter().collect();
    let measured_s = summary.duration_s;
    add_flows(&mut row, "", &flows, measured_s);
    let groups = summary.flows.iter().map(|f| f.group + 1).max().unwrap_or(0);
    for group in (0..groups).filter(|_| groups > 1) {
        let flows: Vec<&FlowSummary> = summary.flows.iter().filter(|f| f.group == group).collect();
        add_flows(&mut row, &format!("flows.{group}."), &flows, measured_s);
    }
    row
}

/// What tables tell of a spread; missing where there is none.
fn of_spread(spread: Option<&Spread>) -> [(&'static str, Value); 4] {
    let value = |of: fn(&Spread) -> f64| Value::number(spread.map(of));
    [
        ("mean", value(|s| s.mean)),
        ("p50", value(|s| s.p50)),
        ("p95", value(|s| s.p95)),
        ("p99", value(|s| s.p99)),
    ]
}

/// The row of a run of the simulator, with what a study asks for. Completion times of all transfers are
/// `transfer_...`, of pages `page_...`; those of one size, or of one group of flows, have its name in front.
pub fn measured_with(summary: &Summary, study: &Study, objectives: &[Objective]) -> Measured {
    let mut row = measured(summary);
    let several = summary.links.len() > 1;
    let prefix = |link: &str| if several { format!("{link}.") } else { String::new() };
    for c in &study.completions {
        let kind = c.kind.name();
        let name = match (&c.size, c.group) {
            (Some(size), _) => format!("{}.{kind}", size_column(size)),
            (None, Some(group)) => format!("flows.{group}.{kind}"),
            (None, None) => kind.to_string(),
        };
        row.push((format!("{name}s"), Value::Count(c.completed)));
        row.extend(c.unfinished.map(|n| (format!("{name}s_unfinished"), Value::Count(n))));
        row.extend(of_spread(c.time_ms.as_ref()).map(|(which, ms)| (format!("{name}_{which}_ms"), ms)));
        row.extend(of_spread(c.slowdown.as_ref()).map(|(which, x)| (format!("{name}_slowdown_{which}"), x)));
    }
    add_applications(&mut row, study);
    for g in &study.groups {
        let name = format!("{}flows.{}.delay", prefix(&g.link), g.group);
        row.extend(of_spread(Some(&g.delay_ms)).map(|(which, ms)| (format!("{name}_{which}_ms"), ms)));
    }
    for f in &study.fairness {
        let name = format!("{}fairness_{}s", prefix(&f.link), f.scale_s);
        row.push((format!("{name}_mean"), Value::number(Some(f.mean))));
        row.push((format!("{name}_p5"), Value::number(Some(f.p5))));
    }
    // These are in the order of the links.
    for c in &study.convergence {
        let Some(link) = summary.links.get(c.link as usize) else { continue };
        let name = format!("{}settled_after_{}s_s", prefix(&link.name), c.at_s);
        row.push((name, Value::number(c.settled_s)));
    }
    add_objectives(&mut row, objectives);
    row
}

/// What a run of the simulator comes to by each objective; none where a column has no value.
pub fn objectives(
    summary: &Summary,
    study: &Study,
    objectives: &[Objective],
) -> BTreeMap<String, Option<f64>> {
    let row = measured_with(summary, study, objectives);
    let of_objectives = row.into_iter().rev().take(objectives.len());
    of_objectives.map(|(name, value)| (name, value.get())).collect()
}

/// Objectives may be made of those before them.
fn add_objectives(row: &mut Measured, objectives: &[Objective]) {
    for objective in objectives {
        let column = |name: &str| row.iter().find(|(n, _)| n == name).and_then(|(_, value)| value.get());
        let value = Value::number(objective.value(&column));
        row.push((objective.name.clone(), value));
    }
}

/// What of the objectives no run has a column for, hides one, or has no value in some run: a warning for
/// each.
pub fn unfit(objectives: &[Objective], rows: &[&Measured]) -> Vec<String> {
    let mut warnings = Vec::new();
    let has = |name: &str| rows.iter().any(|row| row.iter().any(|(n, _)| n == name));
    for objective in objectives {
        for column in objective.columns().into_iter().filter(|column| !has(column)) {
            warnings.push(format!(
                "objective `{}`: no run has a column `{column}`. Remedy: name one that table.csv has",
                objective.name
            ));
        }
        let twice = |row: &&Measured| row.iter().filter(|(name, _)| *name == objective.name).count() > 1;
        if rows.iter().any(twice) {
            warnings.push(format!(
                "objective `{0}`: what is measured has a column `{0}`, too. Remedy: give it another name",
                objective.name
            ));
        } else if objective.columns().into_iter().all(has) {
            warnings.extend(without_value(objective, rows));
        }
    }
    warnings
}

/// That an objective has no value in some of the runs, and why in the first of them.
fn without_value(objective: &Objective, rows: &[&Measured]) -> Option<String> {
    let is_empty =
        |row: &Measured, name: &str| row.iter().any(|(n, value)| n == name && value.get().is_none());
    let mut without = rows.iter().filter(|row| is_empty(row, &objective.name));
    let first = without.next()?;
    let runs = match rows.len() {
        1 => String::new(),
        all => format!(" in {} of {all} runs", 1 + without.count()),
    };
    let name = &objective.name;
    Some(match objective.columns().into_iter().find(|column| is_empty(first, column)) {
        Some(column) => format!(
            "objective `{name}` has no value{runs}, as `{column}` has none. Remedy: make it of columns that have \
             values in each run"
        ),
        None => format!(
            "objective `{name}` has no value{runs}, as the result is no finite number: it divides by zero, or takes the \
             logarithm of what is not above zero. Remedy: keep these from zero, as with `max(a, 1e-9)`"
        ),
    })
}

/// What users of applications notice: `voice_mos_mean`, `game_delay_p99_ms`, `video_rate_bps` and so on,
/// with the group in front where there are several of a kind.
fn add_applications(row: &mut Measured, study: &Study) {
    let prefix = |n: usize, group: u32| if n > 1 { format!("flows.{group}.") } else { String::new() };
    for call in &study.calls {
        let name = format!("{}voice", prefix(study.calls.len(), call.datagrams.group));
        let of = [
            ("mos_mean", call.mos),
            ("mos_min", call.mos_least),
            ("rating", call.rating),
            ("mouth_to_ear_ms", call.mouth_to_ear_ms),
        ];
        row.extend(of.map(|(which, value)| (format!("{name}_{which}"), Value::number(Some(value)))));
        add_datagrams(row, &name, &call.datagrams);
    }
    for game in &study.games {
        add_datagrams(row, &format!("{}game", prefix(study.games.len(), game.group)), game);
    }
    for r in &study.realtimes {
        let name = format!("{}realtime", prefix(study.realtimes.len(), r.frames.group));
        let of = [
            ("rate_bps", r.rate_bps),
            ("rate_min_bps", r.rate_least_bps),
            ("freezes_per_minute", r.freezes_per_minute),
            ("frozen", r.frozen),
        ];
        row.extend(of.map(|(which, value)| (format!("{name}_{which}"), Value::number(Some(value)))));
        add_datagrams(row, &name, &r.frames);
    }
    for v in &study.videos {
        let name = format!("{}video", prefix(study.videos.len(), v.group));
        let of = [
            ("rate_bps", v.rate_bps),
            ("rate_min_bps", v.rate_least_bps),
            ("switches_per_minute", v.switches_per_minute),
            ("stalled", v.stalled),
            ("buffer_s", v.buffer_s),
        ];
        row.extend(of.map(|(which, value)| (format!("{name}_{which}"), Value::number(Some(value)))));
        row.push((format!("{name}_stalls"), Value::Count(v.stalls)));
        let startup = Some(v.startup_ms.mean).filter(|_| v.never_began < v.players);
        row.push((format!("{name}_startup_ms"), Value::number(startup)));
    }
}

fn add_datagrams(row: &mut Measured, name: &str, d: &Datagrams) {
    let (delay, jitter) = (d.delay_ms, d.jitter_ms);
    let of = [
        ("lost", d.lost),
        ("late", d.late),
        ("delay_mean_ms", delay.mean),
        ("delay_p50_ms", delay.p50),
        ("delay_p95_ms", delay.p95),
        ("delay_p99_ms", delay.p99),
        ("jitter_mean_ms", jitter.mean),
        ("jitter_p99_ms", jitter.p99),
    ];
    row.extend(of.map(|(which, value)| (format!("{name}_{which}"), Value::number(Some(value)))));
}

fn add_link(row: &mut Measured, prefix: &str, link: &LinkSummary) {
    let delay = link.delay_ms;
    let numbers = [
        ("utilization", Some(link.utilization)),
        ("delay_mean_ms", Some(delay.mean)),
        ("delay_p50_ms", Some(delay.p50)),
        ("delay_p95_ms", Some(delay.p95)),
        ("delay_p99_ms", Some(delay.p99)),
        ("delay_max_ms", Some(delay.max)),
        ("setpoint_ms", link.setpoint_ms),
    ];
    row.extend(numbers.map(|(name, value)| (format!("{prefix}{name}"), Value::number(value))));
    for (class, delay) in link
        .delay_by_class_ms
        .iter()
        .flat_map(|of| [("low_latency", of.low_latency), ("classic", of.classic)])
    {
        let numbers = [("mean", delay.mean), ("p50", delay.p50), ("p95", delay.p95), ("p99", delay.p99)];
        row.extend(
            numbers.map(|(name, ms)| (format!("{prefix}delay_{class}_{name}_ms"), Value::number(Some(ms)))),
        );
    }
    let counts = [
        ("packets", link.packets),
        ("drops", link.drops),
        ("overflows", link.overflows),
        ("marks", link.marks),
    ];
    row.extend(counts.map(|(name, n)| (format!("{prefix}{name}"), Value::Count(n))));
}

/// The goodput of all is what they got in the measured part over its length. Those of single flows are over
/// the time in which each was active, and do not add up to it where flows come and go.
fn add_flows(row: &mut Measured, prefix: &str, flows: &[&FlowSummary], measured_s: f64) {
    let goodput = Goodput::of(flows.iter().map(|f| f.goodput_bps));
    let bytes: u64 = flows.iter().map(|f| f.bytes).sum();
    let n = flows.len() as f64;
    let rtt = flows.iter().map(|f| f.rtt_ms).sum::<f64>() / n;
    let numbers = [
        ("goodput_bps", (measured_s > 0.0).then_some(bytes as f64 * 8.0 / measured_s)),
        ("goodput_min_bps", goodput.map(|g| g.min)),
        ("goodput_mean_bps", goodput.map(|g| g.mean)),
        ("goodput_max_bps", goodput.map(|g| g.max)),
        ("fairness", goodput.and_then(|g| g.fairness)),
        ("rtt_mean_ms", Some(rtt)),
    ];
    row.push((format!("{prefix}flows"), Value::Count(flows.len() as u64)));
    row.extend(numbers.map(|(name, value)| (format!("{prefix}{name}"), Value::number(value))));
    let retransmits = flows.iter().map(|f| f.retransmits).sum();
    row.push((format!("{prefix}retransmits"), Value::Count(retransmits)));
}

/// The goodput of several flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goodput {
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Jain's index; none where nobody has anything.
    pub fairness: Option<f64>,
}

impl Goodput {
    /// Of these flows; none if there are none.
    pub fn of(flows: impl Iterator<Item = f64>) -> Option<Goodput> {
        let flows: Vec<f64> = flows.collect();
        if flows.is_empty() {
            return None;
        }
        let n = flows.len() as f64;
        let sum: f64 = flows.iter().sum();
        let min = flows.iter().copied().fold(f64::INFINITY, f64::min);
        let max = flows.iter().copied().fold(0.0, f64::max);
        Some(Goodput { min, mean: sum / n, max, fairness: jain(&flows) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[9.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0.0]), None);
        assert_eq!(jain(&[]), None);
        assert_eq!(Goodput::of([4.0, 0.0].into_iter()).and_then(|g| g.fairness), Some(0.5));
    }

    #[test]
    fn values_keep_their_kind_on_disk() {
        for (value, text) in [(Value::Count(5), "5"), (Value::Number(5.0), "5.0"), (Value::Missing, "null")] {
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        }
        assert_eq!(Value::number(Some(f64::NAN)), Value::Missing);
    }

    #[test]
    fn several_links_and_groups_have_columns_of_their_own() {
        let flow = |group, goodput_bps: f64| {
            // Each was active for a quarter of the four seconds.
            FlowSummary { group, goodput_bps, bytes: (goodput_bps / 8.0) as u64, ..FlowSummary::default() }
        };
        let links = vec![LinkSummary::default()];
        let mut summary = Summary { links, duration_s: 4.0, ..Summary::default() };
        summary.flows = vec![flow(0, 8.0), flow(0, 24.0)];
        let names = |s: &Summary| measured(s).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&summary).iter().filter(|n| n.contains('.')).count(), 0);
        summary.links[0].name = "core".into();
        summary.links.push(LinkSummary { name: "edge".into(), ..LinkSummary::default() });
        summary.flows.push(flow(1, 64.0));
        let names = names(&summary);
        assert!(names.contains(&"core.drops".into()) && names.contains(&"edge.utilization".into()));
        let row = measured(&summary);
        let of = |name: &str| row.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(of("goodput_bps"), Value::Number(24.0), "over the measured time");
        assert_eq!(of("flows.1.goodput_min_bps"), Value::Number(64.0), "over its own");
        assert_eq!(of("flows.0.flows"), Value::Count(2));
    }
}
