//! Runs the experiments, judges the claims, and puts together what came of them.

use super::experiments::{Case, Experiment, plan};
use super::measured::{Measured, Row, Run, Values, measure};
use super::observer::Sample;
use super::{Arguments, claims, draw, paper, said, witness};
use crate::choice::Arm;
use crate::host::{Error, Host, Report, at_a_time, disturbance};
use crate::journal::{Done, Journal};
use crate::publish::Outcome;
use crate::said::{Experiments, WITNESS, leave_open, tell, totals};
use serde_json::json;
use std::path::{Path, PathBuf};
use weir_config::Point;
use weir_measure::result::Claim;
use weir_report::html::Rows;
use weir_report::{FileSet, Judged, csv};

/// What a reader of the arm with real TCP must know.
const NOTE_LIVE: &str = "Real TCP in network namespaces over the program's own packet loop, which sleeps between \
    packets: the kernel's Reno with SACK, timers of Linux, initial windows of ten packets and no limit of 20; \
    one round-trip time of 85 ms. Long flows begin in steps of a second, short ones at even distances. \
    Experiments 1 and 3, with up to 180 flows, are made with drops, as marks do not make the kernel's windows \
    smaller than two packets; experiment 2 ends at 60 flows for the same reason. The mean queue of a period is \
    the delay of the packets that left times their rate (Little's law); what short flows got is spread evenly \
    over their time, so that the goodput of a single load may be more than the link carried in it.";

/// Repeats the experiments.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let plan = plan(arguments)?;
    let ns = arguments.witness.map(|_| witness::find()).transpose()?;
    let folder = folder(arguments);
    host.prepare(&folder)?;
    let done = Journal::begin(&folder, arguments.resume, host)?.simulate(&plan, host, measure)?;
    let compare = |measured: &Measured| match ns {
        Some(ns) => Ok(Some(witness::compare(measured, witness::run(&ns, &plan, &folder, host)?))),
        None => Ok(None),
    };
    publish(done, compare, arguments, &folder, host)
}

/// Judges runs, has them compared with those of a witness, and writes what came of all.
pub fn publish(
    Done { runs, origins }: Done<Case, Values>,
    compare: impl FnOnce(&Measured) -> Result<Option<witness::Comparison>, Error>,
    arguments: &Arguments,
    folder: &Path,
    host: &dyn Host,
) -> Result<Report, Error> {
    let measured = Measured::new(&runs);
    let (mut outcome, tables) = judge(&measured, arguments, host)?;
    (outcome.runs, outcome.origins) = (json!(runs), origins);
    let compared = compare(&measured)?;
    let mut files = host.files(folder)?;
    for ((experiment, runs), table) in measured.experiments().into_iter().zip(&tables) {
        add_files(experiment, &runs, table, &mut files)?;
    }
    if let Some(comparison) = compared {
        files.add("witness.csv", csv::rows(&comparison.table))?;
        add_witness(comparison, arguments, host, &mut outcome)?;
    }
    outcome.deliver(folder, files, host)
}

/// Claims, comparisons, charts and tables of every experiment; and the tables as they are written to files.
fn judge(measured: &Measured, arguments: &Arguments, host: &dyn Host) -> Result<(Outcome, Vec<Rows>), Error> {
    let told = format!("timers of {}", arguments.timers.name);
    let with_timers =
        |points: &mut [Point]| arguments.timers.value.is_some_and(|timers| timers.give_to_all(points));
    let experiments = Experiments::new(host, arguments.quick).otherwise(&with_timers, &told);
    let (mut claims, mut beside, mut figures) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tables, mut files) = (Vec::new(), Vec::new());
    let is_live = arguments.arm == Arm::Lab;
    let condition = condition(measured.repetitions(), arguments);
    for (experiment, runs) in measured.experiments() {
        let mut found = judged(experiment, &runs, arguments);
        tell(&mut found, said::TABLE, &experiments)?;
        claims.extend(found);
        beside.extend(paper::beside(experiment, &runs, &condition));
        figures.extend(draw::figures(experiment, &runs, None));
        let table = rows(experiment, &runs);
        tables.push(Rows { title: format!("{} ({condition})", table.title), ..table.clone() });
        files.push(table);
    }
    let arm = if is_live { ", real TCP" } else { "" };
    let title = match arguments.experiment.name {
        "all" => format!("AVQ, experiments 1 to 5{arm}"),
        one => format!("AVQ, experiment {one}{arm}"),
    };
    let mut notes = vec![note(&condition, arguments)];
    notes.extend(is_live.then(|| NOTE_LIVE.to_string()));
    notes.extend(at_a_time(arguments.jobs));
    notes.extend(disturbance(measured.runs.iter().filter_map(|run| run.values.host)));
    let outcome = Outcome {
        title,
        notes,
        about: json!({
            "paper": "avq", "experiment": arguments.experiment.name, "arm": arguments.arm.name(),
            "timers": arguments.timers.name, "quick": arguments.quick, "jobs": arguments.jobs,
        }),
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        beside: Some(beside),
        figures,
        tables,
        ..Outcome::default()
    };
    Ok((outcome, files))
}

/// The claims of an experiment, with its number before each sentence.
fn judged(experiment: Experiment, runs: &Measured, arguments: &Arguments) -> Vec<Claim> {
    let is_live = arguments.arm == Arm::Lab;
    let mut found = claims::of(experiment, runs);
    // In a tenth of the time nothing settles, and in a twentieth nothing else is decided.
    let unsettled = |c: &Claim| is_live || ["D1", "D2", "D5", "D6"].contains(&c.id.as_str());
    let open = found.iter_mut().filter(|c| arguments.quick && unsettled(c));
    open.for_each(|c| c.undecided = !c.held);
    if is_live {
        leave_open(&mut found, claims::UNDECIDED_LIVE);
    }
    let number = u32::from(experiment);
    found.iter_mut().for_each(|c| c.text = format!("{number}: {}", c.text));
    found
}

/// Adds what came of the same runs in ns-2: how far both are apart, the charts, and the claims of the paper
/// by the same bounds.
fn add_witness(
    comparison: witness::Comparison,
    arguments: &Arguments,
    host: &dyn Host,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let ours = outcome.claims.get_or_insert_default();
    let mut claims = Vec::new();
    for (experiment, runs) in Measured::new(&comparison.runs).experiments() {
        claims.extend(judged(experiment, &runs, arguments));
        outcome.figures.extend(draw::figures(experiment, &runs, Some(WITNESS)));
    }
    let (none, mut compared) = (Experiments::new(host, true), comparison.claims);
    if host.is_interrupted() {
        // Of runs that are not all there nothing is said.
        claims.clear();
        compared.clear();
    }
    tell(&mut claims, said::TABLE, &none)?;
    tell(&mut compared, said::TABLE, &none)?;
    // Experiments are run in this simulator alone: of misses in ns-2 the causes are assumed.
    outcome.tables.extend([comparison.table, side_by_side(ours, &claims)]);
    ours.extend(compared);
    outcome.notes.push(witness::NOTE.to_string());
    outcome.more = json!({ "witness": {
        "simulator": WITNESS, "runs": comparison.runs, "totals": totals(&claims, said::UNJUDGED, arguments.arm.name()), "claims": claims,
    } });
    Ok(())
}

/// What was held of the paper's claims here and in ns-2.
fn side_by_side(ours: &[Claim], theirs: &[Claim]) -> Rows {
    let row = |claim: &Claim| {
        let other = theirs.iter().find(|other| (&other.id, &other.text) == (&claim.id, &claim.text))?;
        let [here, there] =
            [claim, other].map(|claim| [Judged::of(claim).word().to_string(), claim.measured.clone()]);
        Some([vec![claim.id.clone()], here.to_vec(), there.to_vec(), vec![claim.text.clone()]].concat())
    };
    let header = ["claim", "here", "measured", "in ns-2", "measured", "what it says"];
    Rows {
        title: "Claims of the paper, here and in ns-2 by the same bounds".into(),
        header: header.map(String::from).to_vec(),
        rows: ours.iter().filter_map(row).collect(),
    }
}

fn condition(runs: u64, arguments: &Arguments) -> String {
    let runs = if runs == 1 { "one run".to_string() } else { format!("mean of {runs} runs") };
    let timers = match arguments.timers.value {
        Some(_) => format!(", timers of {}", arguments.timers.name),
        None => String::new(),
    };
    let short = match (arguments.quick, arguments.arm) {
        (false, _) => "",
        (true, Arm::Sim) => ", a tenth of the time",
        (true, _) => ", a twentieth of the time",
    };
    format!("{runs}{timers}{short}")
}

/// In tables, what a run does not tell.
const UNKNOWN: &str = "–";

/// Of what the table counts.
const UNITS: &str = "queue, deviation, lost, marked and goodput in packets";
const HEADER: [&str; 13] = [
    "AQM",
    "from s",
    "to s",
    "long flows",
    "short/s",
    "util %",
    "queue",
    "deviation",
    "lost",
    "by AQM",
    "marked",
    "goodput/s",
    "Jain",
];

/// The results of an experiment as a table: means over the runs.
fn rows(experiment: Experiment, runs: &Measured) -> Rows {
    let row = |series: &str, span: usize| {
        let load = runs.load(span);
        let value = |of: fn(&Row) -> f64, digits: usize| format!("{:.digits$}", runs.at(series, span, of));
        let known = |of: fn(&Row) -> Option<f64>| {
            runs.known(series, span, of).map_or(UNKNOWN.into(), |n| format!("{n:.0}"))
        };
        vec![
            series.to_string(),
            load.from_s.to_string(),
            load.to_s.to_string(),
            load.flows.to_string(),
            load.short_per_s.to_string(),
            value(|r| r.utilization * 100.0, 2),
            value(|r| r.queue, 1),
            value(|r| r.deviation, 1),
            value(|r| r.lost, 0),
            known(|r| r.discarded),
            known(|r| r.marked),
            value(|r| r.goodput, 1),
            value(|r| r.fairness, 3),
        ]
    };
    let spans = || 0..runs.spans();
    let rows = runs.series().into_iter().flat_map(|series| spans().map(move |span| (series, span)));
    Rows {
        title: format!("Experiment {}: each load, transients included; {UNITS}", u32::from(experiment)),
        header: HEADER.map(String::from).to_vec(),
        rows: rows.map(|(series, span)| row(series, span)).collect(),
    }
}

/// Where the results are written.
pub fn folder(arguments: &Arguments) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    let timers = if arguments.timers.value.is_some() { "-timers2001" } else { "" };
    let arm = if arguments.arm == Arm::Lab { "-lab" } else { "" };
    arguments.out.join(format!("avq-experiment{}{arm}{timers}{quick}", arguments.experiment.name))
}

fn note(condition: &str, arguments: &Arguments) -> String {
    let part = if arguments.arm == Arm::Sim { "tenth" } else { "twentieth" };
    let short = match arguments.quick {
        true => format!(
            " This is the short form: every span has a {part} of its length, so that more of it is transient."
        ),
        false => String::new(),
    };
    let arm = if arguments.arm == Arm::Sim { "in a simulator" } else { "with real TCP" };
    let path = if arguments.arm == Arm::Sim {
        "round-trip times of 40 to 130 ms"
    } else {
        "a round-trip time of 85 ms"
    };
    format!(
        "Analysis and design of an adaptive virtual queue (AVQ) algorithm for active queue management (Kunniyur and \
         Srikant, SIGCOMM 2001), experiments of section 4, repeated {arm}: a link of 10 Mbit/s, 1250 packets \
         of 1000 bytes per second, room for 100, Reno, {path}. Values: {condition}; charts \
         show the mean, whiskers the smallest and the largest.{short}"
    )
}

/// Adds the table of an experiment, and the samples of one that is shown over time.
fn add_files(
    experiment: Experiment,
    runs: &Measured,
    table: &Rows,
    files: &mut FileSet,
) -> Result<(), Error> {
    let number = u32::from(experiment);
    files.add(format!("experiment{number}.csv"), csv::rows(table))?;
    for series in runs.series().into_iter().filter(|_| experiment.is_over_time()) {
        if let Some(run) = runs.first(series) {
            let name = format!("experiment{number}-{}-samples.csv", series.to_lowercase());
            files.add(name, samples_csv(run))?;
        }
    }
    Ok(())
}

fn samples_csv(run: &Run) -> String {
    let header =
        ["t_s", "queue_mean_packets", "queue_packets", "departed", "lost", "marked", "virtual_capacity"];
    let row = |s: &Sample| {
        let cells = [s.t_s, s.queue_mean, s.queue, s.departed, s.lost as f64];
        let known = [s.marked.map(|n| n.to_string()), s.capacity.map(|c| c.to_string())];
        let known = known.map(Option::unwrap_or_default);
        let cells: Vec<String> = cells.iter().map(f64::to_string).chain(known).collect();
        csv::line(&cells)
    };
    run.values.samples.iter().fold(csv::line(&header), |out, sample| out + &row(sample))
}
