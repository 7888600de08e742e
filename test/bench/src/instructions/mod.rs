//! Instructions and nanoseconds of one packet, for every algorithm of the list, for RED and PIE of DPDK and
//! for its scheduler.
//!
//! Instructions are counted by valgrind in two runs of different length; what both have in common, from
//! start-up to the end, cancels in the difference. The loop without an algorithm is measured in the same way
//! and subtracted.

mod probes;
mod subjects;
mod tunnels;
pub mod workload;

use crate::error::{Error, Result};
use crate::rows::{Row, short};
use crate::tools;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use subjects::{FLOWS_MODE, SCHEDULER, Subject, peers, probe_paths, subjects, user_plane};
use workload::{FORMS, Form, PERIOD, REGIONS, Region, Run};

const PART: &str = "instructions";
/// Rounds of nanoseconds; the best counts.
const ROUNDS: u32 = 5;
/// Packets of one measurement of nanoseconds.
const TIMED_PACKETS: u64 = 8 * PERIOD;

/// Most instructions of one packet.
struct Ceiling {
    form: Form,
    /// Name of an algorithm; empty for all others.
    algorithm: &'static str,
    /// In a release build.
    release: f64,
    /// In a development build, for tests.
    dev: f64,
}

/// The one table of ceilings; the first line that fits counts.
const CEILINGS: [Ceiling; 20] = [
    Ceiling { form: Form::Plain, algorithm: "gsp", release: 160.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "codel", release: 200.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "red", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "rem", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "pi", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "gkvq", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "avq", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "pie", release: 200.0, dev: 300.0 },
    Ceiling { form: Form::Plain, algorithm: "pi2", release: 200.0, dev: 300.0 },
    Ceiling { form: Form::Plain, algorithm: "cobalt", release: 250.0, dev: 350.0 },
    Ceiling { form: Form::Plain, algorithm: "hull", release: 150.0, dev: 225.0 },
    Ceiling { form: Form::Plain, algorithm: "asqm", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Plain, algorithm: "vaqm", release: 150.0, dev: 240.0 },
    Ceiling { form: Form::Steered, algorithm: "gsp", release: 220.0, dev: 400.0 },
    Ceiling { form: Form::Plain, algorithm: "", release: 400.0, dev: 1000.0 },
    Ceiling { form: Form::Steered, algorithm: "", release: 500.0, dev: 1400.0 },
    Ceiling { form: Form::Fifo, algorithm: "", release: 700.0, dev: 2000.0 },
    Ceiling { form: Form::Flow, algorithm: "codel", release: 450.0, dev: 2500.0 },
    Ceiling { form: Form::Flow, algorithm: "gsp", release: 450.0, dev: 2500.0 },
    Ceiling { form: Form::Flow, algorithm: "", release: 700.0, dev: 3500.0 },
];

/// Most nanoseconds of one packet that a FlowQueue stores and takes, with the algorithms that have a line of
/// their own.
const FLOW_NS_MAX: f64 = 120.0;

/// The ceiling of an algorithm in a form, for builds such as this one.
fn ceiling(form: Form, algorithm: &str) -> f64 {
    let fits = |c: &&Ceiling| c.form == form && (c.algorithm == algorithm || c.algorithm.is_empty());
    let found = CEILINGS.iter().find(fits).expect("each form has a line for all others");
    if cfg!(debug_assertions) { found.dev } else { found.release }
}

/// Programs to run: this one, and the peers where they are installed.
struct Programs {
    this: PathBuf,
    valgrind: Option<PathBuf>,
    rte_aqm: Option<PathBuf>,
    rte_flows: Option<PathBuf>,
}

/// What each call gives, in the order of the items. As many run side by side as there are processors: of
/// counted instructions none depends on time.
fn side_by_side<T: Sync, R: Send>(items: &[T], call: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = call(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

impl Programs {
    fn command(&self, subject: &Subject, packets: u64) -> Vec<String> {
        let path = |p: &Path| p.display().to_string();
        match subject {
            Subject::Weir { algorithm, form, region } => {
                let this = path(&self.this);
                vec![
                    this,
                    "packets".into(),
                    (*form).into(),
                    algorithm.clone(),
                    (*region).into(),
                    packets.to_string(),
                ]
            }
            Subject::Peer { algorithm, mode } => {
                let program = if *mode == FLOWS_MODE { &self.rte_flows } else { &self.rte_aqm };
                let peer = program.as_deref().map(path).unwrap_or_default();
                vec![peer, (*algorithm).into(), packets.to_string(), (*mode).into()]
            }
            Subject::Probes { way } => {
                vec![path(&self.this), "probes".into(), probes::name(*way).into(), packets.to_string()]
            }
            Subject::Tunnels { way } => {
                vec![path(&self.this), "tunnels".into(), tunnels::name(*way), packets.to_string()]
            }
        }
    }

    /// Instructions of one packet of each subject, without those of the loop. With `quick` one run of each is
    /// counted instead of two of different length, and a run without packets of an empty subject; then a
    /// packet has a share of what a subject takes to be made, which is three instructions at most.
    fn instructions(&self, subjects: &[Subject], packets: u64, quick: bool) -> Vec<Result<f64>> {
        let mut empties: Vec<Subject> = subjects.iter().map(Subject::empty).collect();
        empties.sort();
        empties.dedup();
        let mut all: Vec<Subject> = subjects.iter().cloned().chain(empties.clone()).collect();
        all.sort();
        all.dedup();
        let starts = if quick { &empties[..] } else { &[] };
        let starts = side_by_side(starts, |empty| (empty.clone(), self.total(empty, 0).ok()));
        let starts: BTreeMap<Subject, Option<u64>> = starts.into_iter().collect();
        let counted = side_by_side(&all, |subject| {
            eprintln!("{}: instructions", subject.name());
            let start = starts.get(&subject.empty()).copied().flatten();
            self.with_loop(subject, packets, start).map_err(|error| error.to_string())
        });
        let counted: BTreeMap<&Subject, _> = all.iter().zip(counted).collect();
        let of = |subject: &Subject| counted[subject].clone().map_err(Error::new);
        subjects.iter().map(|subject| Ok(of(subject)? - of(&subject.empty())?)).collect()
    }

    /// Instructions of one packet with those of the loop; `start` is what a run without packets takes, where
    /// that is known.
    fn with_loop(&self, subject: &Subject, packets: u64, start: Option<u64>) -> Result<f64> {
        let packets = subject.packets(packets);
        let (less, more) = match start {
            Some(start) => (start, packets),
            None => (self.total(subject, packets)?, 2 * packets),
        };
        Ok((self.total(subject, more)? as f64 - less as f64) / packets as f64)
    }

    fn total(&self, subject: &Subject, packets: u64) -> Result<u64> {
        let valgrind = self.valgrind.as_ref().ok_or_else(|| Error::new("valgrind is missing"))?;
        let mut command = Command::new(valgrind);
        command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
        command.args(self.command(subject, packets));
        let (_, said) = tools::output(&mut command)?;
        references(&said).ok_or_else(|| Error::new(format!("valgrind did not count: {said}")))
    }

    /// Nanoseconds of one packet, with those of the loop.
    fn nanoseconds(&self, subject: &Subject) -> Result<f64> {
        let line = self.command(subject, TIMED_PACKETS);
        let (text, _) = tools::output(Command::new(&line[0]).args(&line[1..]))?;
        let json: serde_json::Value = serde_json::from_str(&text)?;
        json["ns_per_packet"].as_f64().ok_or_else(|| Error::new(format!("no time in: {text}")))
    }
}

/// Reads "==123== I   refs:      1,234,567" (or "I refs:" of later versions).
fn references(said: &str) -> Option<u64> {
    let line = said.lines().find(|l| l.contains(" refs:") && l.contains("== I"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

/// What `probes` prints: one run in this process. Called by this program itself.
pub fn probes(arguments: &[String]) -> Result<String> {
    let [way, packets] = arguments else { return Err(Error::new("probes <out|in|none> <packets>")) };
    let begin = std::time::Instant::now();
    let packets = packets.parse()?;
    probes::run(way, packets)?;
    let ns = begin.elapsed().as_nanos() as f64 / packets.max(1) as f64;
    Ok(format!("{{\"ns_per_packet\": {ns:.3}}}"))
}

/// What `tunnels` prints: one run in this process. Called by this program itself.
pub fn tunnels(arguments: &[String]) -> Result<String> {
    let [way, packets] = arguments else {
        return Err(Error::new("tunnels <{up|down},{free|rate|learning|waiting}|plain|none> <packets>"));
    };
    let begin = std::time::Instant::now();
    let packets = packets.parse()?;
    tunnels::run(way, packets)?;
    let ns = begin.elapsed().as_nanos() as f64 / packets.max(1) as f64;
    Ok(format!("{{\"ns_per_packet\": {ns:.3}}}"))
}

/// What `packets` prints: one run in this process. Called by this program itself.
pub fn packets(arguments: &[String]) -> Result<String> {
    let usage =
        || Error::new("packets <plain|steered|fifo|flow> <algorithm> <working|below|hourly> <packets>");
    let [form, algorithm, region, packets] = arguments else { return Err(usage()) };
    let form = FORMS.into_iter().find(|f| f.name() == form).ok_or_else(usage)?;
    let region = REGIONS.into_iter().find(|r| r.name() == region).ok_or_else(usage)?;
    let packets: u64 = packets.parse()?;
    let outcome = Run { form, region, packets }.with(algorithm);
    let outcome = outcome.ok_or_else(|| Error::new("there is no such algorithm in this form"))?;
    let ns = outcome.ns as f64 / packets.max(1) as f64;
    Ok(format!("{{\"signals\": {}, \"ns_per_packet\": {ns:.3}}}", outcome.signals))
}

/// Checks the ceilings where there are signals, and where an hour passes between packets, without peers and
/// without times.
pub fn ceilings() -> Vec<Row> {
    let programs = match (std::env::current_exe(), tools::program("valgrind")) {
        (Ok(this), Ok(valgrind)) => {
            Programs { this, valgrind: Some(valgrind), rte_aqm: None, rte_flows: None }
        }
        (Err(error), _) => return vec![Row::skipped(PART, "everything", error.to_string())],
        (_, Err(error)) => return vec![Row::skipped(PART, "everything", error.to_string())],
    };
    let idle = Region::Below.name();
    let asks = |s: &Subject| matches!(s, Subject::Weir { region, .. } if *region != idle);
    let subjects = subjects().into_iter().filter(|(s, _)| asks(s)).chain(probe_paths()).chain(user_plane());
    count(&programs, &subjects.collect::<Vec<_>>(), PERIOD, true)
}

/// Measures everything. `packets` is the length of the shorter of two counted runs.
pub fn run(packets: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(error) => return vec![Row::skipped(PART, "everything", error.to_string())],
    };
    let mut found = |what: &str, result: Result<PathBuf>| match result {
        Ok(path) => Some(path),
        Err(error) => {
            eprintln!("instructions: NO {what}: {error}");
            rows.push(Row::skipped(PART, what, error.to_string()));
            None
        }
    };
    let valgrind = found("valgrind", tools::program("valgrind"));
    let rte_aqm = found("DPDK's RED and PIE", tools::peer("rte_aqm"));
    let rte_flows = found("DPDK's scheduler", tools::peer("rte_flows"));
    let programs = Programs { this, valgrind, rte_aqm, rte_flows };
    let mut all = subjects();
    all.extend(probe_paths());
    all.extend(user_plane());
    if programs.rte_aqm.is_some() {
        all.extend(peers().into_iter().map(|peer| (peer, None)));
    }
    if programs.rte_flows.is_some() {
        all.push((SCHEDULER, None));
    }
    if programs.valgrind.is_some() {
        rows.extend(count(&programs, &all, packets, false));
    }
    rows.extend(time(&programs, &all));
    rows
}

fn count(programs: &Programs, all: &[(Subject, Option<f64>)], packets: u64, quick: bool) -> Vec<Row> {
    let subjects: Vec<Subject> = all.iter().map(|(subject, _)| subject.clone()).collect();
    let counted = programs.instructions(&subjects, packets, quick);
    all.iter().zip(counted).map(|((subject, most), counted)| row(programs, subject, *most, counted)).collect()
}

fn row(programs: &Programs, subject: &Subject, most: Option<f64>, counted: Result<f64>) -> Row {
    let what = format!("{}: instructions", subject.name());
    let peer = match (subject.rival() == SCHEDULER, programs.rte_aqm.is_some(), programs.rte_flows.is_some())
    {
        (true, _, true) => "rte_sched",
        (false, true, _) => "rte_red, rte_pie",
        _ => "",
    };
    match counted {
        Ok(value) => {
            let row = Row::told(PART, what, value, "per packet").times(2).beside(peer);
            let row = match subject.demanded() {
                Some(demanded) => row.note(format!("{} are demanded", short(demanded))),
                None => row,
            };
            most.map_or(row.clone(), |most| row.at_most(most))
        }
        Err(error) => Row::failed(PART, what, error.to_string()),
    }
}

/// The best of interleaved rounds, without the loop, beside rte_pie while it signals, or rte_sched with as
/// many flows.
fn time(programs: &Programs, all: &[(Subject, Option<f64>)]) -> Vec<Row> {
    let mut subjects: Vec<Subject> = all.iter().flat_map(|(s, _)| [s.clone(), s.empty()]).collect();
    subjects.sort();
    subjects.dedup();
    // The best of a subject, or why its last run gave none.
    let mut best: BTreeMap<Subject, std::result::Result<f64, String>> = BTreeMap::new();
    for round in 0..ROUNDS {
        eprintln!("instructions: nanoseconds, round {round}");
        for subject in &subjects {
            let now = programs.nanoseconds(subject).map_err(|error| error.to_string());
            match best.get(subject) {
                Some(Ok(before)) if now.as_ref().map_or(true, |ns| ns >= before) => {}
                _ => {
                    best.insert(subject.clone(), now);
                }
            }
        }
    }
    let missing = || Err("it was not measured".to_string());
    let of = |subject: &Subject| best.get(subject).cloned().unwrap_or_else(missing);
    let net = |subject: &Subject| Ok::<f64, String>(of(subject)? - of(&subject.empty())?);
    all.iter()
        .map(|(subject, _)| {
            let what = format!("{}: time", subject.name());
            let ns = match net(subject) {
                Ok(ns) => ns,
                Err(why) => return Row::failed(PART, what, why),
            };
            let row = Row::told(PART, what, ns, "ns per packet").times(ROUNDS);
            let row = subject.time_max().map_or(row.clone(), |most| row.at_most(most));
            let rival = subject.rival();
            match net(&rival) {
                Ok(theirs) => {
                    let name = rival.name();
                    let name = name.trim_start_matches("DPDK ");
                    row.beside(name).note(format!("{} of {name}", short(ns / theirs)))
                }
                // Why the peer did not run is said in its own row.
                Err(_) => row,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valgrinds_counts_are_read() {
        assert_eq!(references("==1== \n==1== I   refs:      1,234,567\n"), Some(1_234_567));
        assert_eq!(references("==1== I refs:        42\n"), Some(42));
        assert_eq!(references("nothing"), None);
    }

    #[test]
    fn a_queue_of_flows_is_set_beside_a_scheduler_and_bounded_in_time() {
        let codel = |form, region| Subject::weir("codel", form, region);
        assert_eq!(codel(Form::Flow, Region::Below).rival(), SCHEDULER);
        assert_ne!(codel(Form::Plain, Region::Below).rival(), SCHEDULER);
        assert_eq!(codel(Form::Flow, Region::Working).time_max(), Some(120.0));
        assert_eq!(codel(Form::Plain, Region::Working).time_max(), None);
        assert_eq!(Subject::weir("red", Form::Flow, Region::Working).time_max(), None);
    }

    #[test]
    fn a_subject_that_does_not_run_says_why() {
        let this = PathBuf::from("/nowhere/weir-bench");
        let programs = Programs { this, valgrind: None, rte_aqm: None, rte_flows: None };
        let rows = time(&programs, &[(Subject::weir("codel", Form::Plain, Region::Below), None)]);
        let [row] = &rows[..] else { panic!("one row for one subject") };
        assert_eq!(row.verdict, crate::rows::Verdict::Failed);
        assert!(row.note.contains("/nowhere/weir-bench"), "{}", row.note);
    }

    #[test]
    fn every_algorithm_has_a_ceiling() {
        assert!(subjects().iter().all(|(_, most)| most.is_some_and(|m| m > 0.0)));
    }
}
