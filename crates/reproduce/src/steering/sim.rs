//! The arm of the simulator: every figure, any number of runs, the same numbers everywhere.

use super::cases::{Case, Measured, Run, Values, plan};
use super::claims::Margins;
use super::{Arguments, claims, draw, folder, paper};
use crate::claim::of_form;
use crate::host::{Error, Host, Report};
use crate::publish::Outcome;
use crate::runs::{Planned, run_all, simulate};
use serde_json::json;
use weir_measure::result::{Claim, Recording, Summary};
use weir_report::{FileSet, csv, table};
use weir_sim::batch::Progress;

/// Runs the figures and judges their claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let plan = plan(arguments)?;
    let folder = folder(arguments, &format!("figure{}-sim", arguments.figure.name));
    host.prepare(&folder)?;
    let runs = run_all(&plan, host, measure)?;
    let mut outcome = judge(&Measured::new(&runs), arguments, host);
    outcome.runs = json!(runs);
    let mut files = host.files(&folder)?;
    runs.iter().try_for_each(|run| add_samples(run, &mut files))?;
    outcome.deliver(&folder, files, host)
}

/// A run, if it was not interrupted.
pub fn measure(planned: &Planned<Case>, progress: &dyn Progress) -> Result<Option<Run>, Error> {
    let is_shown = planned.case.figure.is_over_time() && planned.seed == 0;
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
fn judge(measured: &Measured, arguments: &Arguments, host: &dyn Host) -> Outcome {
    let quick = arguments.quick;
    let (mut claims, mut beside, mut figures, mut summaries) = (vec![], vec![], vec![], vec![]);
    for ((part, _), measured) in measured.by(|case| (case.figure, case.rate_bps)) {
        let (name, rate) = (part.name(), measured.rate());
        let margins = [&Margins::FULL, &Margins::SHORT];
        let found = of_form(quick, margins, |margins| claims::of(part, &measured, *margins));
        claims.extend(found.into_iter().map(|c| Claim { text: format!("{name}: {} ({rate})", c.text), ..c }));
        beside.extend(paper::beside(part, &measured));
        figures.extend(draw::figures(part, &measured));
        for (series, flows, link) in measured.rows() {
            let title = format!("{name}, {rate}, {series}, {flows} flows");
            summaries.push(Summary { title, links: vec![link], ..Summary::default() });
        }
    }
    let what = match arguments.figure.name {
        "all" => "figures 5 to 8".to_string(),
        one => format!("figure {one}"),
    };
    Outcome {
        title: format!("AQM Steering, {what}, simulated{}", if quick { " (short form)" } else { "" }),
        notes: vec![note(measured.repetitions(), quick)],
        about: json!({
            "paper": "steering", "figure": arguments.figure.name, "arm": "sim", "quick": quick,
        }),
        claims: Some(claims),
        beside: Some(beside),
        figures,
        text: format!("{}\n", table::results(&summaries, host.paint())),
        ..Outcome::default()
    }
}

fn note(runs: u64, quick: bool) -> String {
    let short =
        if quick { " This is the short form; what its runs are too short for is not judged." } else { "" };
    format!(
        "Policy-oriented AQM Steering (Bless et al., 2018), section V, repeated in a simulator: CUBIC, round-trip \
         time 50 ms, packets of 1500 bytes, byte accounting of Ethernet lines. Runs per point: {runs} (the paper: \
         10); charts show the mean, whiskers the smallest and the largest.{short}"
    )
}

/// Adds the samples and moves of a run that is shown over time.
fn add_samples(run: &Run, files: &mut FileSet) -> Result<(), Error> {
    let Some(recording) = &run.values.recording else { return Ok(()) };
    let name = format!("figure{}-{}", run.case.figure.name(), run.case.rate().replace('/', "p"));
    let samples = recording.link_samples.first().map_or(&[][..], Vec::as_slice);
    files.add(format!("{name}-samples.csv"), csv::link_samples(samples))?;
    Ok(files.add(format!("{name}-events.csv"), csv::steering_events(&recording.events))?)
}
