//! The arm of the simulator: every figure, any number of runs, the same numbers everywhere.

use super::cases::{Case, Measured, Part, Run, Values, about, begin, plan, seeds};
use super::claims::Margins;
use super::{Arguments, claims, draw, folder, paper, said, text};
use crate::claim::of_form;
use crate::host::{Error, Host, Report};
use crate::journal::Done;
use crate::publish::Outcome;
use crate::runs::{Planned, counts, runs_each, simulate};
use crate::said::{Experiments, leave_open, tell};
use serde_json::json;
use weir_measure::result::{Claim, Recording, Summary};
use weir_report::html::Rows;
use weir_report::{FileSet, csv, table};
use weir_sim::batch::Progress;

/// Runs the figures and judges their claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let mut plan = plan(arguments)?;
    // What is told without a figure has rates and lengths of its own.
    let is_whole = arguments.rate.is_none() && !arguments.quick;
    if is_whole && arguments.figure.value.contains(&Part::Text) {
        plan.extend(text::plan(seeds(arguments))?);
    }
    let folder = folder(arguments, &format!("figure{}-sim", arguments.figure.name));
    let Done { runs, origins } =
        begin(&mut plan, arguments, &folder, host)?.simulate(&plan, host, measure)?;
    let mut outcome = judge(&Measured::new(&runs), arguments, host)?;
    (outcome.runs, outcome.origins) = (json!(runs), origins);
    let mut files = host.files(&folder)?;
    runs.iter().try_for_each(|run| add_samples(run, &mut files))?;
    overviews(&runs, &mut files)?;
    outcome.deliver(&folder, files, host)
}

/// A run, if it was not interrupted.
pub fn measure(planned: &Planned<Case>, progress: &dyn Progress) -> Result<Option<Run>, Error> {
    let is_shown = planned.case.figure.is_over_time();
    let mut warnings = Vec::new();
    let values = |mut recording: Recording, ()| {
        warnings = std::mem::take(&mut recording.summary.warnings);
        recording.flow_samples.clear();
        let link = recording.summary.links.first().cloned().unwrap_or_default();
        Values { link, host: None, recording: is_shown.then_some(recording) }
    };
    let run = simulate(planned, (), progress, values)?;
    Ok(run.map(|run| Run { warnings: Some(warnings), ..run }))
}

/// Claims, comparisons and charts of every figure at every rate.
fn judge(measured: &Measured, arguments: &Arguments, host: &dyn Host) -> Result<Outcome, Error> {
    let experiments = Experiments::new(host, arguments.quick);
    let quick = arguments.quick;
    let (mut claims, mut beside, mut figures, mut summaries) = (vec![], vec![], vec![], vec![]);
    for ((part, _), measured) in measured.by(|case| (case.figure, case.judged_rate())) {
        let (name, rate) = (part.name(), measured.rate());
        let mut found = judged(part, &measured, quick, &Margins::SHORT);
        tell(&mut found, said::TABLE, &experiments)?;
        claims.extend(found);
        beside.extend(paper::beside(part, &measured));
        figures.extend(draw::figures(part, &measured));
        for (series, flows, link) in measured.rows() {
            let title = format!("{name}, {rate}, {series}, {flows} flows");
            summaries.push(Summary { title, links: vec![link], ..Summary::default() });
        }
    }
    let what = match arguments.figure.name {
        "all" if measured.runs.iter().any(|run| run.case.figure == Part::Text) => {
            "figures 5 to 8, and what is told without".to_string()
        }
        "all" => "figures 5 to 8".to_string(),
        "text" => "what is told without a figure".to_string(),
        one => format!("figure {one}"),
    };
    Ok(Outcome {
        title: format!("AQM Steering, {what}, simulated{}", if quick { " (short form)" } else { "" }),
        notes: vec![note(&counts(&measured.each()), quick)],
        about: about(arguments),
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        beside: Some(beside),
        figures,
        tables: vec![rows(measured)],
        text: format!("{}\n", table::results(&summaries, host.paint())),
        ..Outcome::default()
    })
}

/// A row for each point: means over its runs.
pub fn rows(measured: &Measured) -> Rows {
    let mut rows = Vec::new();
    for ((part, rate), measured) in measured.by(|case| (case.figure, case.rate())) {
        for (series, flows, link) in measured.rows() {
            let ms = |value: f64| format!("{value:.2}");
            let runs = measured.at(series, flows).runs.len();
            rows.push(vec![
                format!("{}, {series}", part.name()),
                rate.clone(),
                flows.to_string(),
                runs.to_string(),
                format!("{:.2}", link.utilization * 100.0),
                ms(link.delay_ms.mean),
                ms(link.delay_ms.p95),
                link.drops.to_string(),
                link.overflows.to_string(),
            ]);
        }
    }
    let header =
        ["figure, queue", "rate", "flows", "runs", "util %", "mean ms", "95 % ms", "signals", "overflows"];
    Rows {
        title: format!("Means over the runs; {}", runs_each(&measured.each())),
        header: header.map(String::from).to_vec(),
        rows,
    }
}

/// The claims of a figure at one rate, which they tell, as causes may differ by it.
pub fn judged(part: Part, m: &Measured, quick: bool, short: &Margins) -> Vec<Claim> {
    let mut found = of_form(quick, [&Margins::FULL, short], |margins| claims::of(part, m, *margins));
    if m.rate_bps() != claims::PAPER_BPS {
        leave_open(&mut found, claims::OF_THE_PAPERS_RATE);
    }
    titled(part, &m.rate(), found).collect()
}

/// Claims that say of which figure they are, and at which rate.
pub fn titled(part: Part, rate: &str, claims: Vec<Claim>) -> impl Iterator<Item = Claim> {
    let rate = if part == Part::Text { String::new() } else { format!(" ({rate})") };
    claims.into_iter().map(move |c| Claim { text: format!("{}: {}{rate}", part.name(), c.text), ..c })
}

fn note(runs: &str, quick: bool) -> String {
    let short =
        if quick { " This is the short form; what its runs are too short for is not judged." } else { "" };
    format!(
        "Policy-oriented AQM Steering (Bless et al., 2018), section V, repeated in a simulator: CUBIC, round-trip \
         time 50 ms, packets of 1500 bytes, byte accounting of Ethernet lines. Runs per point: {runs} (the paper: \
         10); charts show the mean, whiskers the smallest and the largest.{short}"
    )
}

/// Adds figure 5 as one chart for each rate, as the lab draws it.
fn overviews(runs: &[Run], files: &mut FileSet) -> Result<(), Error> {
    let all = Measured::new(runs);
    for (rate, m) in all.only(|case| case.figure == Part::Five).by(|case| case.rate()) {
        let title = format!("AQM Steering, figure 5, simulated ({rate})");
        let subtitle = format!("Means; {}; round-trip time 50 ms, CUBIC.", runs_each(&m.each()));
        let chart = weir_report::chart::figure(&draw::chart(&m, &title, subtitle));
        files.add(format!("figure5-{}.svg", rate.replace('/', "p")), chart)?;
    }
    Ok(())
}

/// Adds the samples and moves of a run that is shown over time.
fn add_samples(run: &Run, files: &mut FileSet) -> Result<(), Error> {
    let Some(recording) = run.values.recording.as_ref().filter(|_| run.seed == 0) else { return Ok(()) };
    let size =
        run.case.series.split(", ").nth(1).map_or(String::new(), |s| format!("-{}", s.replace(' ', "")));
    let name = format!("figure{}{size}-{}", run.case.figure.name(), run.case.rate().replace('/', "p"));
    let samples = recording.link_samples.first().map_or(&[][..], Vec::as_slice);
    files.add(format!("{name}-samples.csv"), csv::link_samples(samples))?;
    Ok(files.add(format!("{name}-events.csv"), csv::steering_events(&recording.events))?)
}
