//! The arm with real TCP in network namespaces: figures 5 and 8.

use super::cases::{Case, Changes, File, Measured, Part, Run, Values, document};
use super::claims::{STATIC, STEERED, TAIL_DROP_LARGE, falling};
use super::{Arguments, folder};
use crate::claim::{claim, of_form, percent};
use crate::host::{Error, Host, Report};
use crate::publish::{Outcome, titled, with_note};
use crate::runs::Planned;
use serde_json::{Value, json};
use std::path::Path;
use weir_config::Scenario;
use weir_measure::result::{Claim, HostJitter, Summary};
use weir_report::chart::{Figure, FigurePoint, FigureSeries, figure};
use weir_report::{FileSet, html, table};

/// What is run for a figure, and how far it may miss the paper's numbers on a machine that is no testbed.
struct Experiment {
    number: &'static str,
    part: Part,
    files: &'static [File],
    /// What the short form changes, and what it changes besides where the set point is steered.
    quick: [Changes; 2],
    claims: fn(&Measured, &Margins) -> Vec<Claim>,
}

/// Steering converges while static set points are just there, and in a short run it must not remember its
/// start for ten seconds.
const QUICK_STEERED: Changes = &[
    ("run.duration", "30s"),
    ("run.warmup", "18s"),
    ("policy.memory_rate", "2s"),
    ("policy.memory_depth", "2s"),
];
/// Both ends of the range of flows.
const QUICK_FLOWS: [u32; 2] = [2, 36];

static EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        number: "5",
        part: Part::Five,
        files: &[scenario_file!("steering_figure5.toml"), scenario_file!("steering_figure5_static.toml")],
        // The host has no part in the result at this rate, and CUBIC's epochs are short.
        quick: [&[("link.rate", "200Mbit/s"), ("run.duration", "14s"), ("run.warmup", "6s")], QUICK_STEERED],
        claims: claims_of_figure_5,
    },
    Experiment {
        number: "8",
        part: Part::EightA,
        files: &[scenario_file!("steering_figure8.toml")],
        // At 200 Mbit/s 36 flows do not fill the link at all without a queue, virtual or real.
        quick: [&[("run.duration", "14s"), ("run.warmup", "6s")], QUICK_STEERED],
        claims: claims_of_figure_8,
    },
];

/// Runs the figure and judges its claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let experiment = EXPERIMENTS
        .iter()
        .find(|e| e.number == arguments.figure.name)
        .ok_or_else(|| Error::input("the lab repeats figures 5 and 8: choose one of them, or --arm sim"))?;
    let plan = plan(experiment, arguments)?;
    let folder = folder(arguments, &format!("figure{}-lab", experiment.number));
    host.prepare(&folder)?;
    let seconds: f64 = plan.iter().map(|p| p.scenario.run.duration.as_secs_f64() + 2.0).sum();
    host.say(&format!("{} runs, about {:.0} min", plan.len(), seconds / 60.0));
    let mut runs = Vec::new();
    for planned in &plan {
        host.say(&format!("[{}/{}] {}", runs.len() + 1, plan.len(), planned.scenario.title));
        runs.push(measure(planned, host)?);
        if host.is_interrupted() {
            break;
        }
    }
    let outcome = judge(&Measured::new(&runs), experiment, arguments, host);
    publish(outcome, &runs, &plan, &folder, host)
}

/// Every run of the figure, with the options applied: all points, again and again.
fn plan(experiment: &Experiment, arguments: &Arguments) -> Result<Vec<Planned<Case>>, Error> {
    let mut points = Vec::new();
    for &file in experiment.files {
        let is_steered = document(file, [])?.has_table("policy");
        let [always, steered] = experiment.quick;
        let steered = steered.iter().filter(|_| is_steered);
        let changes = always.iter().chain(steered).filter(|_| arguments.quick).copied();
        let mut document = document(file, changes)?;
        if let Some(rate) = &arguments.rate {
            document.set("link.rate", rate).map_err(Error::input)?;
        }
        let scenario = document.scenario().map_err(Error::input)?;
        for mut point in scenario.expand().into_iter().map(|p| p.scenario) {
            let case = Case::of(experiment.part, &point);
            point.title = format!("{}, {} flows, {}", case.series, case.flows, point.rate());
            points.push((case, point));
        }
    }
    points.retain(|(case, _)| !arguments.quick || QUICK_FLOWS.contains(&case.flows));
    let all = |seed| points.iter().map(move |(case, scenario)| (case.clone(), seed, scenario.clone()));
    let plan = (0..u64::from(arguments.runs.unwrap_or(1))).flat_map(all);
    Ok(plan.map(|(case, seed, scenario)| Planned { case, seed, scenario }).collect())
}

fn measure(planned: &Planned<Case>, host: &dyn Host) -> Result<Run, Error> {
    let recording = host.lab().run(&planned.scenario)?;
    let summary = &recording.summary;
    let link = summary.links.first().cloned().unwrap_or_default();
    Ok(Run {
        case: planned.case.clone(),
        seed: planned.seed,
        trace_hash: None,
        warnings: Some(summary.warnings.clone()),
        values: Values { link, host: Some(summary.host.unwrap_or_default()), recording: Some(recording) },
    })
}

struct Margins {
    /// Least utilization of GSP-AS with two flows.
    steered_two_flows: f64,
    /// What another curve may be above GSP-AS with two flows.
    above_static: f64,
    /// Most that GSP-AS with 36 flows may lose against tail drop 30 ms.
    against_tail_drop: f64,
    /// Share of the static set point's delay that GSP-AS stays below with 36 flows.
    share_of_static: f64,
    /// Range of the utilization with a target of 95 %.
    band: (f64, f64),
    /// Most mean delay of the real queue beside a virtual one, in ms.
    real_queue_ms: f64,
}

const FULL: Margins = Margins {
    steered_two_flows: 0.985,
    above_static: 0.0,
    against_tail_drop: 0.01,
    share_of_static: 0.5,
    band: (0.93, 0.96),
    real_queue_ms: 0.1,
};
/// What runs may miss that contain some of the convergence; and a packet at 200 Mbit/s takes 0.06 ms by
/// itself.
const SHORT: Margins = Margins {
    steered_two_flows: 0.93,
    above_static: 0.02,
    against_tail_drop: 0.03,
    share_of_static: 0.9,
    band: (0.90, 0.97),
    real_queue_ms: 0.5,
};

fn claims_of_figure_5(m: &Measured, margins: &Margins) -> Vec<Claim> {
    let (few, many) = (2, 36);
    let used = m.utilization(STEERED, few);
    let least = format!("utilization at least {}", percent(margins.steered_two_flows));
    let text = "With 2 flows GSP-AS keeps the link busy";
    let mut claims = vec![claim("A8", text, least, percent(used), used >= margins.steered_two_flows)];
    for other in m.series().into_iter().filter(|s| ![STEERED, TAIL_DROP_LARGE].contains(s)) {
        let theirs = m.utilization(other, few) - margins.above_static;
        let text = format!("With 2 flows GSP-AS uses the link better than {other}");
        let expected = format!("above {} of {other}", percent(theirs));
        claims.push(claim("A3", text, expected, percent(used), used > theirs));
    }
    let delays: Vec<(u32, f64)> = m.flows().into_iter().map(|n| (n, m.p95(STEERED, n))).collect();
    let found: Vec<String> = delays.iter().map(|(n, delay)| format!("{delay:.2} ms ({n})")).collect();
    let bounded = !delays.is_empty() && delays.iter().all(|(_, delay)| *delay < 30.0);
    let text = "The 95 % delay of GSP-AS stays below its bound for every number of flows";
    claims.push(claim("A5", text, "below 30 ms", found.join(", "), bounded));
    let text = "The 95 % delay of GSP-AS falls with the number of flows";
    claims.push(falling(m, text, "each below the one before"));
    let (steered, fixed, share) = (m.p95(STEERED, many), m.p95(STATIC[2], many), margins.share_of_static);
    let text = "With 36 flows the 95 % delay of GSP-AS lies far below that of the static set point";
    let expected = format!("below {share} of {fixed:.2} ms");
    claims.push(claim("A6", text, expected, format!("{steered:.2} ms"), steered < share * fixed));
    let (steered, full) = (m.utilization(STEERED, many), m.utilization(TAIL_DROP_LARGE, many));
    let text = "With 36 flows GSP-AS uses the link as tail drop with 30 ms does";
    let expected = format!("within {} of {}", percent(margins.against_tail_drop), percent(full));
    let held = (full - steered) <= margins.against_tail_drop;
    claims.push(claim("A7", text, expected, percent(steered), held));
    claims
}

fn claims_of_figure_8(m: &Measured, margins: &Margins) -> Vec<Claim> {
    let (from, to) = margins.band;
    let mut claims = Vec::new();
    for flows in m.flows() {
        let used = m.utilization(STEERED, flows);
        let text = format!("With {flows} flows the utilization target of 95 % is held");
        let expected = format!("between {} and {}", percent(from), percent(to));
        claims.push(claim("A14", text, expected, percent(used), (from..=to).contains(&used)));
        if flows >= 9 {
            let mean = m.mean_delay(STEERED, flows);
            let text = format!("With {flows} flows the real queue is practically empty");
            let expected = format!("mean below {} ms", margins.real_queue_ms);
            let held = mean < margins.real_queue_ms;
            claims.push(claim("A15", text, expected, format!("{mean:.3} ms"), held));
        }
    }
    claims
}

fn judge(m: &Measured, experiment: &Experiment, arguments: &Arguments, host: &dyn Host) -> Outcome {
    let claims = of_form(arguments.quick, [&FULL, &SHORT], |margins| (experiment.claims)(m, margins));
    let short = if arguments.quick { " (short form)" } else { "" };
    let line = host_line(m);
    let summaries = m.runs.iter().filter_map(|run| run.values.recording.as_ref()).map(|recording| {
        let mut summary: Summary = recording.summary.clone();
        // The way back is not what the figure is about.
        summary.links.truncate(1);
        summary
    });
    let table = table::results(&summaries.collect::<Vec<_>>(), host.paint());
    let mut outcome = Outcome {
        title: format!("AQM Steering, figure {}, real TCP{short}", experiment.number),
        about: json!({
            "paper": "steering", "figure": experiment.number, "arm": "lab", "quick": arguments.quick,
        }),
        runs: m.runs.iter().map(|run| json_of(run)).collect(),
        claims: Some(claims),
        text: format!("{table}\n{line}\n\n"),
        notes: vec![line],
        ..Outcome::default()
    };
    outcome.keep_measured(host);
    outcome
}

fn json_of(run: &Run) -> Value {
    let Values { link, host, .. } = &run.values;
    json!({
        "series": run.case.series, "flows": run.case.flows, "run": run.seed, "link": link, "host": host,
        "warnings": run.warnings,
    })
}

/// The host's part in the results, in a line.
fn host_line(m: &Measured) -> String {
    let hosts = || m.runs.iter().filter_map(|run| run.values.host);
    let worst = |of: fn(&HostJitter) -> f64| hosts().map(|h| of(&h)).fold(0.0, f64::max);
    format!(
        "host: loop called late by at most {:.2} ms (99 %: {:.3} ms), frames left the delay line late by \
         {:.3} ms (99 %), stalled {:.3} % of the time; real-time class: {}, own core: {}",
        worst(|h| h.gap_ms.max),
        worst(|h| h.gap_ms.p99),
        worst(|h| h.late_ms.p99),
        worst(|h| h.stalled_share) * 100.0,
        hosts().all(|h| h.realtime),
        hosts().all(|h| h.own_core),
    )
}

fn chart(m: &Measured, title: &str) -> Figure {
    let point = |series: &str, flows: u32, of: fn(&Values) -> f64| {
        let plotted = m.at(series, flows).plotted(0.0, 1.0, of);
        FigurePoint { value: plotted.y, range: plotted.range }
    };
    let flows = m.flows();
    let curve = |name: &str| FigureSeries {
        name: name.to_string(),
        utilization: flows.iter().map(|n| point(name, *n, |v| v.link.utilization)).collect(),
        delay_p95_ms: flows.iter().map(|n| point(name, *n, |v| v.link.delay_ms.p95)).collect(),
    };
    Figure {
        title: title.into(),
        subtitle: host_line(m),
        x_name: "Number of flows".into(),
        categories: flows.iter().map(u32::to_string).collect(),
        series: m.series().into_iter().map(curve).collect(),
        log_delay: true,
        ..Figure::default()
    }
}

/// Writes every run to a folder of its own, and the page with all of them.
fn publish(
    outcome: Outcome,
    runs: &[Run],
    plan: &[Planned<Case>],
    folder: &Path,
    host: &dyn Host,
) -> Result<Report, Error> {
    let title = titled(&outcome.title, host);
    let mut files = host.files(folder)?;
    FileSet::withdraw(folder)?;
    let scenarios: Vec<&Scenario> = plan.iter().map(|planned| &planned.scenario).collect();
    let mut shown = Vec::new();
    for (run, scenario) in runs.iter().zip(scenarios) {
        let Some(recording) = &run.values.recording else { continue };
        let name = format!("{}-{}-{}", run.case.series.replace(' ', "_"), run.case.flows, run.seed);
        host.lab().write(recording, scenario, &folder.join(&name))?;
        files.add_folder(name);
        let label = format!("{}, {} flows", run.case.series, run.case.flows);
        shown.push((label, recording, host.lab().policies(scenario)));
    }
    files.add("figure.svg", figure(&chart(&Measured::new(runs), &title)))?;
    let page = html::Page {
        title: &title,
        runs: shown
            .iter()
            .map(|(label, recording, policies)| html::PageRun { label, recording, policies })
            .collect(),
        claims: outcome.claims.as_deref().unwrap_or_default(),
        notes: &with_note(&outcome.notes, host),
        ..html::Page::default()
    };
    files.add("report.html", html::page(&page))?;
    outcome.finish(folder, files, &format!("Results: {}", folder.display()), host)
}
