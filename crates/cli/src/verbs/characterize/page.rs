//! What was found, for people and for programs.

use super::Characterization;
use super::experiments::{EXPERIMENTS, LEFT_OUT};
use super::measure::{Case, Numbers};
use super::plan::Subject;
use super::rules::{Finding, Judgement, summary};
use crate::interrupt::titled;
use std::path::Path;
use weir_config::{AqmConfig, Scenario};
use weir_report::html::{Grid, GridCell};
use weir_report::table;

impl Subject {
    /// The algorithm in a few words.
    pub fn label(&self) -> String {
        let is_of = |table: &str| self.settings.iter().any(|(key, _)| key.split('.').next() == Some(table));
        let steered = if is_of("policy") { ", steered" } else { "" };
        let discipline = self.settings.iter().find(|(key, _)| key == "queue.discipline");
        let queue = discipline.map_or(String::new(), |(_, name)| format!(" in the discipline `{name}`"));
        format!("{}{queue}{steered}", self.name)
    }
}

/// The title of the page.
pub fn title(all: &Characterization) -> String {
    let short = if all.subject.quick { " (short form)" } else { "" };
    titled(&format!("{}: characterized by RFC 7928{short}", all.subject.label()))
}

/// What was set of the discipline.
fn queue_settings(subject: &Subject) -> impl Iterator<Item = String> {
    let of_queue = |(key, _): &&(String, String)| key.starts_with("queue.");
    subject.settings.iter().filter(of_queue).map(|(key, value)| format!("{key} = {value}"))
}

/// The parameters that are in force, which the guidelines want told (section 4.3.1).
fn parameters(subject: &Subject, scenario: &Scenario) -> String {
    let AqmConfig { settings, .. } = &scenario.aqm;
    let setting = |(name, value): &(&str, weir_aqm::Value)| format!("{name} = {value}");
    let mut all: Vec<String> = settings.iter().map(setting).collect();
    all.extend(queue_settings(subject));
    if let Some(policy) = &scenario.policy {
        let changed = policy.settings.iter().filter(|(name, _)| policy.given.contains(name));
        all.extend(changed.map(|(name, value)| format!("policy.{name} = {value}")));
    }
    all.join(", ")
}

/// What was not run, if that is more than always.
fn unfinished(all: &Characterization) -> Option<String> {
    let (run, planned) = (all.results.0.len(), EXPERIMENTS.len());
    (run < planned).then(|| {
        format!("Interrupted: {run} of {planned} experiments were run; verdicts follow from these alone.")
    })
}

/// What a reader should know first.
pub fn notes(all: &Characterization) -> Vec<String> {
    let rate = all.subject.rate;
    let mut notes: Vec<String> = unfinished(all).into_iter().collect();
    notes.extend(summary(&all.subject.label(), &all.findings));
    notes.push(format!(
            "Experiments of RFC 7928 in the simulator: {rate}, round-trip time 100 ms, buffer 100 ms, packets of 1500 \
             bytes, seed {}. Tail drop, which only the buffer limits, ran in the same place.",
            all.seed
    ));
    if let Some(first) = all.results.0.first() {
        notes.push(format!("Parameters: {}.", parameters(&all.subject, &first.scenario)));
    }
    if all.subject.quick {
        notes.push("Runs had a quarter of their length: verdicts are rough.".into());
    }
    notes
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// The tables of the page.
pub fn grids(all: &Characterization) -> Vec<Grid> {
    vec![verdicts(all), results(all), classes(all), phases(all), left_out()]
}

fn verdicts(all: &Characterization) -> Grid {
    let row = |f: &Finding| {
        let word = f.verdict.word().to_string();
        let verdict = match f.verdict {
            Judgement::Good => GridCell::Good(word),
            Judgement::Fair => GridCell::Text(word),
            Judgement::Breaks => GridCell::Bad(word),
        };
        let text = |text: &str| GridCell::Text(text.to_string());
        let value = f.value.map_or("–".into(), |value| format!("{value:.3}"));
        let number = GridCell::Number(value);
        vec![text(f.aspect), text(f.section), verdict, text(&f.measured), number, text(&f.rule)]
    };
    Grid {
        title: "Verdicts".into(),
        note: "Less is better in every number. \"Tail drop\" is the reference of the same experiment.".into(),
        header: texts(&[
            "Aspect",
            "Section",
            "Verdict",
            "Measured",
            "Number",
            "How the number is made, and its bounds",
        ]),
        rows: all.findings.iter().map(row).collect(),
        folded: false,
    }
}

/// Columns of the table of results, after the name of the experiment.
const COLUMNS: [&str; 10] = [
    "util %",
    "tail drop",
    "mean ms",
    "p95 ms",
    "p99 ms",
    "tail drop p95",
    "loss %",
    "tail drop",
    "marks %",
    "Jain",
];

fn cells(case: &Case) -> Vec<String> {
    let (a, t) = (&case.aqm, &case.tail_drop);
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let used = |n: &Numbers| format!("{:.1}", n.utilization * 100.0);
    let ms = |value: f64| format!("{value:.1}");
    vec![
        used(a),
        used(t),
        ms(a.delay_ms.mean),
        ms(a.delay_ms.p95),
        ms(a.delay_ms.p99),
        ms(t.delay_ms.p95),
        percent(a.loss),
        percent(t.loss),
        percent(a.marked),
        a.fairness.map_or("–".into(), |index| format!("{index:.3}")),
    ]
}

fn results(all: &Characterization) -> Grid {
    let row = |case: &Case| {
        let e = case.experiment;
        let names = [e.id, e.section, e.title].map(|text| GridCell::Text(text.to_string()));
        names.into_iter().chain(cells(case).into_iter().map(GridCell::Number)).collect()
    };
    Grid {
        title: "Experiments".into(),
        note: "Utilization is the delivered rate in what the link could carry; delay is the time in the queue; loss and \
               marks are shares of the packets that arrived; Jain's index is over flows that send as much as they can."
            .into(),
        header: [texts(&["Experiment", "Section", "What is run"]), texts(&COLUMNS)].concat(),
        rows: all.results.0.iter().map(row).collect(),
        folded: false,
    }
}

fn classes(all: &Characterization) -> Grid {
    let mut rows = Vec::new();
    for case in &all.results.0 {
        for (ours, theirs) in case.aqm.classes.iter().zip(&case.tail_drop.classes) {
            let seconds = |time: Option<f64>| time.map_or("–".into(), |s| format!("{s:.3}"));
            let numbers = [
                ours.flows.to_string(),
                format!("{:.3}", ours.goodput_bps / 1e6),
                format!("{:.3}", theirs.goodput_bps / 1e6),
                seconds(ours.transfer_s),
                seconds(theirs.transfer_s),
            ];
            let names = [case.experiment.id, ours.name].map(|text| GridCell::Text(text.to_string()));
            rows.push(names.into_iter().chain(numbers.map(GridCell::Number)).collect());
        }
    }
    let columns = ["flows", "Mbit/s each", "tail drop", "transfer s", "tail drop"];
    Grid {
        title: "Who got what".into(),
        note: "Goodput of one flow on average, and the mean time of a transfer.".into(),
        header: [texts(&["Experiment", "Flows"]), texts(&columns)].concat(),
        rows,
        folded: true,
    }
}

fn phases(all: &Characterization) -> Grid {
    let mut rows = Vec::new();
    for case in &all.results.0 {
        for (ours, theirs) in case.aqm.phases.iter().zip(&case.tail_drop.phases) {
            let numbers = [
                format!("{:.0}–{:.0}", ours.from_s, ours.to_s),
                ours.flows.to_string(),
                format!("{:.1}", ours.utilization * 100.0),
                format!("{:.1}", ours.delay_mean_ms),
                format!("{:.1}", theirs.delay_mean_ms),
            ];
            let name = GridCell::Text(case.experiment.id.to_string());
            rows.push(std::iter::once(name).chain(numbers.map(GridCell::Number)).collect());
        }
    }
    Grid {
        title: "Phases: the later half of each span with the same flows and rate".into(),
        header: texts(&["Experiment", "Seconds", "Flows", "Utilization %", "Mean ms", "Tail drop ms"]),
        rows,
        folded: true,
        ..Grid::default()
    }
}

fn left_out() -> Grid {
    let row = |(what, why): &(&str, &str)| [*what, *why].map(|t| GridCell::Text(t.to_string())).to_vec();
    Grid {
        title: "In the guidelines and not here".into(),
        header: texts(&["Section", "Why"]),
        rows: LEFT_OUT.iter().map(row).collect(),
        ..Grid::default()
    }
}

/// The page for a terminal.
pub fn text(all: &Characterization, is_coloured: bool, report: &Path) -> String {
    let header: Vec<&str> = ["experiment"].into_iter().chain(COLUMNS).collect();
    let row = |case: &Case| {
        let name = format!("{} ({})", case.experiment.id, case.experiment.section);
        std::iter::once(name).chain(cells(case)).collect()
    };
    let rows: Vec<Vec<String>> = all.results.0.iter().map(row).collect();
    let mut text = format!("{}\n\n{}\n", title(all), table::aligned(&header, &rows));
    let width = all.findings.iter().map(|f| f.aspect.len()).max().unwrap_or(0);
    for f in &all.findings {
        let word = painted(f.verdict, is_coloured);
        text.push_str(&format!("{word}  {:width$}  {}\n", f.aspect, f.measured));
    }
    let left_out: Vec<String> = LEFT_OUT.iter().map(|(what, why)| format!("{what} ({why})")).collect();
    text.extend(unfinished(all).map(|told| format!("\n{told}\n")));
    text.push_str(&format!("\n{}\n", summary(&all.subject.label(), &all.findings).join("\n")));
    text.push_str(&format!("Not run: {}.\n", left_out.join("; ")));
    text + &format!("The rules of the verdicts: {}", report.display())
}

fn painted(verdict: Judgement, is_coloured: bool) -> String {
    let word = format!("{:6}", verdict.word());
    match (is_coloured, verdict) {
        (true, Judgement::Good) => format!("\u{1b}[32m{word}\u{1b}[0m"),
        (true, Judgement::Breaks) => format!("\u{1b}[1;31m{word}\u{1b}[0m"),
        _ => word,
    }
}

/// The same for programs.
pub fn json(all: &Characterization, folder: &Path) -> serde_json::Value {
    let experiment = |case: &Case| {
        let e = case.experiment;
        serde_json::json!({
            "id": e.id, "section": e.section, "title": e.title, "file": e.file.0,
            "aqm": case.aqm, "tail_drop": case.tail_drop,
        })
    };
    let left_out = |(what, why): &(&str, &str)| serde_json::json!({ "what": what, "why": why });
    serde_json::json!({
        "aqm": all.subject.name,
        "settings": all.subject.settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
        "parameters": all.results.0.first().map(|case| parameters(&all.subject, &case.scenario)),
        "rate_bps": all.subject.rate.as_bps_f64(),
        "seed": all.seed,
        "quick": all.subject.quick,
        "summary": summary(&all.subject.label(), &all.findings).join(" "),
        "findings": all.findings,
        "experiments": all.results.0.iter().map(experiment).collect::<Vec<_>>(),
        "left_out": LEFT_OUT.iter().map(left_out).collect::<Vec<_>>(),
        "interrupted": crate::interrupt::is_interrupted(),
        "out": folder.display().to_string(),
    })
}
