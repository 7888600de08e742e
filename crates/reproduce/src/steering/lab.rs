//! The arm with real TCP in network namespaces: the scenarios and the claims of the simulator, at 1 Gbit/s.

use super::cases::{
    Case, Changes, File, Measured, Part, Run, Values, about, begin, document, part_at, seeds,
};
use super::claims::Margins;
use super::sim::{judged, rows};
use super::{Arguments, LAB_RATE, draw, folder, paper, said};
use crate::claim::percent;
use crate::host::{Error, Host, Report, disturbance};
use crate::journal::{Attempt, Done, STALLED_MAX};
use crate::publish::{Outcome, titled, with_note};
use crate::runs::{self, Planned};
use crate::said::{Experiments, tell};
use serde_json::{Value, json};
use std::path::Path;
use weir_config::Scenario;
use weir_measure::result::{Recording, Summary};
use weir_report::chart::{Plot, figure, plot};
use weir_report::{FileSet, csv, html, table};

/// The short form of a figure: what is run, and what it changes.
struct Short {
    part: Part,
    files: &'static [File],
    /// What it changes, and what it changes besides where the set point is steered.
    changes: [Changes; 2],
}

/// Steering converges while static set points are just there, and in a short run it must not remember its
/// start for ten seconds and more.
const QUICK_STEERED: Changes = &[
    ("run.duration", "40s"),
    ("run.warmup", "20s"),
    ("policy.memory_rate", "2s"),
    ("policy.memory_depth", "2s"),
    ("policy.virtual_memory", "2s"),
];
/// Both ends of the range of flows.
const QUICK_FLOWS: [u32; 2] = [2, 36];

static SHORT: [Short; 2] = [
    Short {
        part: Part::Five,
        files: &[scenario_file!("steering_figure5.toml"), scenario_file!("steering_figure5_static.toml")],
        // The host has no part in the result at this rate, and CUBIC's epochs are short.
        changes: [
            &[("link.rate", "200Mbit/s"), ("run.duration", "10s"), ("run.warmup", "4s")],
            QUICK_STEERED,
        ],
    },
    Short {
        part: Part::EightA,
        files: &[scenario_file!("steering_figure8.toml")],
        // At 200 Mbit/s 36 flows do not fill the link at all without a queue, virtual or real.
        changes: [&[("run.duration", "14s"), ("run.warmup", "6s")], QUICK_STEERED],
    },
];

/// What may be taken away of a run of figure 8a at full length. Its delays are tenths of a millisecond: of 36
/// flows 95 % were within 0.36 ms where 0.02 % was taken away, and within 1.44 ms where 5.1 % was.
const STALLED_MAX_EMPTY: f64 = 0.003;

/// What may be taken away of a run.
fn stalled_max(case: &Case, is_quick: bool) -> f64 {
    if !is_quick && case.figure == Part::EightA { STALLED_MAX_EMPTY } else { STALLED_MAX }
}

/// Runs the figure and judges its claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let mut plan = plan(arguments)?;
    let folder = folder(arguments, &format!("figure{}-lab", arguments.figure.name));
    let journal = begin(&mut plan, arguments, &folder, host)?;
    let title = |planned: &Planned<Case>| planned.scenario.title.clone();
    let most = |planned: &Planned<Case>| stalled_max(&planned.case, arguments.quick);
    let Done { runs, origins } = journal.live(&plan, 1, host, title, most, |planned, _| {
        let whole = host.lab().run(&planned.scenario, None)?;
        let mut recording = whole.clone();
        if !arguments.quick {
            slim(&mut recording, planned.case.figure);
        }
        // A campaign of hours leaves what it has, also where it is ended.
        let (scenario, own) = (planned.scenario.clone(), folder.join(name_of(&planned.case, planned.seed)));
        Ok(attempt(planned, recording).with(move || host.lab().write(&whole, &scenario, &own)))
    })?;
    let (mut outcome, plots) = judge(&Measured::new(&runs), arguments, host)?;
    outcome.origins = origins;
    outcome.keep_measured(host);
    outcome.tell_origins(host);
    let folders = if arguments.resume {
        folders_in(&folder)
    } else {
        runs.iter().map(|run| name_of(&run.case, run.seed)).collect()
    };
    publish(outcome, plots, &runs, &plan, (&folder, folders), host)
}

/// The folders of runs there, also of those beyond the plan: they belong to the results, so that nothing
/// removes them.
fn folders_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| FileSet::is_in(&entry.path()));
    runs.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Name of the folder of a run.
fn name_of(Case { figure, series, flows, .. }: &Case, seed: u64) -> String {
    format!("{}-{}-{flows}-{}", figure.name(), series.replace([' ', ','], "_"), seed)
}

/// Leaves what claims and charts ask for: samples of all runs of a campaign need more memory than there is.
fn slim(recording: &mut Recording, part: Part) {
    recording.flow_samples.clear();
    if !part.is_over_time() {
        recording.link_samples.clear();
    }
}

/// Every run of the figure, with the options applied: all points, again and again.
fn plan(arguments: &Arguments) -> Result<Vec<Planned<Case>>, Error> {
    let parts = || arguments.figure.value.iter().copied().filter(|part| *part != Part::Text);
    if parts().next().is_none() {
        return Err(Error::input("what the paper tells without a figure is simulated: choose --arm sim"));
    }
    let mut points: Vec<(Part, Scenario)> = Vec::new();
    for part in parts() {
        let scenarios = match arguments.quick {
            true => short_points(part, arguments)?,
            false => part_at(part, arguments.rate.as_deref().unwrap_or(LAB_RATE), false)?,
        };
        points.extend(scenarios.into_iter().map(|scenario| (part, scenario)));
    }
    if points.is_empty() {
        let remedy = "leave out --quick, or choose --arm sim";
        return Err(Error::input(format!("the lab has short forms of figures 5 and 8a: {remedy}")));
    }
    let name = |(part, mut scenario): (Part, Scenario)| {
        let case = Case::of(part, &scenario);
        scenario.title =
            format!("figure {}, {}, {} flows, {}", part.name(), case.series, case.flows, scenario.rate());
        (case, scenario)
    };
    let points: Vec<(Case, Scenario)> = points.into_iter().map(name).collect();
    let all = |seed| points.iter().map(move |(case, scenario)| (case.clone(), seed, scenario.clone()));
    let plan = (0..u64::from(seeds(arguments))).flat_map(all);
    Ok(plan.map(|(case, seed, scenario)| Planned { case, seed, scenario }).collect())
}

/// The points of a part's short form; none where it has no such.
fn short_points(part: Part, arguments: &Arguments) -> Result<Vec<Scenario>, Error> {
    let mut points = Vec::new();
    for short in SHORT.iter().filter(|short| short.part == part) {
        for &file in short.files {
            let is_steered = document(file, [])?.has_table("policy");
            let [always, steered] = short.changes;
            let changes = always.iter().chain(steered.iter().filter(|_| is_steered)).copied();
            let mut document = document(file, changes)?;
            if let Some(rate) = &arguments.rate {
                document.set("link.rate", rate).map_err(Error::input)?;
            }
            let scenario = document.scenario().map_err(Error::input)?;
            points.extend(scenario.expand().into_iter().map(|point| point.scenario));
        }
    }
    points.retain(|scenario| QUICK_FLOWS.contains(&scenario.flows[0].count));
    Ok(points)
}

/// A run as it was recorded, and what is said of it.
pub fn attempt<'a, C: Clone>(planned: &Planned<C>, recording: Recording) -> Attempt<'a, C, Values> {
    let summary = &recording.summary;
    let link = summary.links.first().cloned().unwrap_or_default();
    let told = format!("{}, 95 % delay {:.2} ms", percent(link.utilization), link.delay_ms.p95);
    let (host, warnings) = (Some(summary.host.unwrap_or_default()), Some(summary.warnings.clone()));
    let values = Values { link, host, recording: Some(recording) };
    Attempt::new(runs::Run { warnings, ..runs::Run::of(planned, values) }, told)
}

type Judged = (Outcome, Vec<crate::figure::Figure>);

fn judge(m: &Measured, arguments: &Arguments, host: &dyn Host) -> Result<Judged, Error> {
    let experiments = Experiments::new(host, arguments.quick);
    let (mut claims, mut beside, mut plots) = (Vec::new(), Vec::new(), Vec::new());
    for ((part, _), m) in m.by(|case| (case.figure, case.judged_rate())) {
        let mut found = judged(part, &m, arguments.quick, &Margins::SHORT_LIVE);
        tell(&mut found, said::TABLE, &experiments)?;
        claims.extend(found);
        beside.extend(paper::beside(part, &m));
        plots.extend(draw::figures(part, &m));
    }
    let short = if arguments.quick { " (short form)" } else { "" };
    let line = host_line(m);
    let summaries = m.runs.iter().filter_map(|run| run.values.recording.as_ref()).map(|recording| {
        let mut summary: Summary = recording.summary.clone();
        // The way back is not what the figure is about.
        summary.links.truncate(1);
        summary
    });
    let summaries: Vec<Summary> = summaries.collect();
    let table = table::results(&summaries, host.paint());
    let outcome = Outcome {
        title: format!("AQM Steering, figure {}, real TCP{short}", arguments.figure.name),
        about: about(arguments),
        runs: m.runs.iter().map(|run| json_of(run)).collect(),
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        beside: Some(beside),
        tables: vec![rows(m)],
        text: format!("{table}\n{line}\n\n"),
        notes: vec![line],
        ..Outcome::default()
    };
    Ok((outcome, plots))
}

fn json_of(run: &Run) -> Value {
    let Values { link, host, .. } = &run.values;
    json!({
        "figure": run.case.figure, "rate_bps": run.case.rate_bps, "series": run.case.series, "flows": run.case.flows, "run": run.seed, "link": link, "host": host,
        "warnings": run.warnings,
    })
}

/// The host's part in the results, in a line.
fn host_line(m: &Measured) -> String {
    disturbance(m.runs.iter().filter_map(|run| run.values.host)).unwrap_or_default()
}

/// Writes the page with all runs, their charts and the result.
fn publish(
    outcome: Outcome,
    plots: Vec<crate::figure::Figure>,
    runs: &[Run],
    plan: &[Planned<Case>],
    (folder, folders): (&Path, Vec<String>),
    host: &dyn Host,
) -> Result<Report, Error> {
    let title = titled(&outcome.title, host);
    let mut files = host.files(folder)?;
    folders.into_iter().for_each(|name| files.add_folder(name));
    let mut shown = Vec::new();
    for run in runs {
        // Runs whose samples were left out have nothing to be drawn over time.
        let Some(recording) = run.values.recording.as_ref().filter(|r| !r.flow_samples.is_empty()) else {
            continue;
        };
        let label = format!("{}, {} flows", run.case.series, run.case.flows);
        let scenario = plan.iter().find(|p| (&p.case, p.seed) == (&run.case, run.seed)).map(|p| &p.scenario);
        let policies = scenario.map_or(Vec::new(), |scenario| host.lab().policies(scenario));
        shown.push((label, recording, policies));
    }
    for figure in &plots {
        files.add(format!("{}.svg", figure.file), plot(&figure.plot))?;
    }
    for run in runs.iter().filter(|run| run.case.figure.is_over_time()) {
        let Some(samples) = run.values.recording.as_ref().and_then(|r| r.link_samples.first()) else {
            continue;
        };
        let name = format!("figure{}-run{}-samples.csv", run.case.figure.name(), run.seed);
        if run.case.series == super::claims::STEERED {
            files.add(name, csv::link_samples(samples))?;
        }
    }
    let measured = Measured::new(runs);
    files.add("figure.svg", figure(&draw::chart(&measured, &title, host_line(&measured))))?;
    let plots: Vec<Plot> = plots.into_iter().map(|figure| figure.plot).collect();
    let page = html::Page {
        title: &title,
        runs: shown
            .iter()
            .map(|(label, recording, policies)| html::PageRun { label, recording, policies })
            .collect(),
        claims: outcome.claims.as_deref().unwrap_or_default(),
        notes: &with_note(&outcome.notes, host),
        figures: &plots,
        beside: outcome.beside.as_deref().unwrap_or_default(),
        ..html::Page::default()
    };
    files.add("report.html", html::page(&page))?;
    outcome.finish(folder, files, &format!("Results: {}", folder.display()), host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::tests::arguments;

    #[test]
    fn the_lab_has_every_figure_of_the_paper_with_the_simulators_scenarios() {
        let planned = plan(&arguments("all", false)).unwrap();
        let count = |part| planned.iter().filter(|p| p.case.figure == part).count();
        assert_eq!([Part::Five, Part::Six, Part::EightA].map(count), [5 * 8 * 3, 5 * 3 * 3, 8 * 3]);
        assert_eq!([Part::SevenA, Part::SevenB, Part::EightB].map(count), [2 * 3, 2 * 3, 3]);
        assert!(planned.iter().all(|p| p.scenario.rate().as_bps() == 1_000_000_000));
        let policies = planned.iter().filter_map(|p| p.scenario.policy.as_ref());
        assert!(policies.into_iter().all(|policy| !policy.given.contains(&"memory_depth")), "the default");
    }

    /// Also where 8a is one of several figures.
    #[test]
    fn less_may_be_taken_away_of_figure_8a_at_full_length_than_of_others() {
        for (figure, quick) in [("8", false), ("8", true), ("all", false)] {
            for planned in plan(&arguments(figure, quick)).unwrap() {
                let most = stalled_max(&planned.case, quick);
                let is_less = planned.case.figure == Part::EightA && !quick;
                assert_eq!(most, if is_less { 0.003 } else { 0.02 }, "{}", planned.scenario.title);
            }
        }
    }

    #[test]
    fn what_has_no_short_form_or_is_only_simulated_is_refused() {
        let refused = |figure: &str, quick| match plan(&arguments(figure, quick)) {
            Err(Error::Input(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(refused("6", true).contains("short forms of figures 5 and 8a"));
        assert!(refused("text", false).contains("choose --arm sim"));
        let short = plan(&arguments("8", true)).unwrap();
        assert!(!short.is_empty() && short.iter().all(|p| p.case.figure == Part::EightA), "8a alone");
    }
}
