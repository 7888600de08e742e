//! Results without their runs: all that the page shows of them, and small enough to be kept beside it. The
//! files of a campaign are large and may be gone when the page is made again. Runs with real TCP, which take
//! hours and come out differently each time, are kept in a folder below; copied into the folder of a result
//! they are what `--resume` takes.

use super::{RESULT, Written, arm, case, damaged, find, none_below, number, written};
use crate::host::Error;
use crate::journal::RUNS;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_report::{FileSet, read_regular};
use weir_units::Rate;

/// Where results without runs have what the page tells of these.
pub const KEPT: &str = "of_runs";
/// The folder beside a result that has the file of its runs with real TCP.
const RUNS_OF: &str = "runs";

/// What the page tells of the runs of results.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// The rate of all figures in bit/s, where they have one. What is told without a figure is of links of
    /// its own.
    rate_bps: Option<f64>,
    /// How many there are of each case, if there are as many of all.
    pub of_each_case: Option<usize>,
    /// How many there are of the cases, in words.
    pub repetitions: String,
    /// A table of the least and the most of each case; null where they tell of no link, or once.
    pub spreads: Value,
}

impl Runs {
    /// Those of results, or what was kept of them.
    ///
    /// # Errors
    ///
    /// If what was kept cannot be read.
    pub fn of(value: &Value) -> Result<Runs, serde_json::Error> {
        if let Some(kept) = value.get(KEPT) {
            return Runs::deserialize(kept);
        }
        let cases = cases(value);
        let counts = counts_of_runs(&cases);
        Ok(Runs {
            rate_bps: only_rate_bps(value),
            of_each_case: counts.keys().next().copied().filter(|_| counts.len() == 1),
            repetitions: repetitions(&counts),
            spreads: spreads(&cases),
        })
    }

    /// The rate of all figures, where they have one.
    pub fn only_rate(&self) -> Option<Rate> {
        self.rate_bps.map(Rate::from_bps_f64)
    }
}

fn only_rate_bps(value: &Value) -> Option<f64> {
    let mut rates = value["runs"].as_array()?.iter().filter(|run| run["figure"] != "text");
    let first = rates.next()?["rate_bps"].as_f64()?;
    rates.all(|run| run["rate_bps"] == first).then_some(first)
}

/// The runs of each case, which differ in nothing but their number; cases in the order of their first run.
fn cases(value: &Value) -> Vec<Vec<&Value>> {
    let (mut cases, mut places) = (Vec::new(), BTreeMap::new());
    for run in value["runs"].as_array().into_iter().flatten() {
        let place = *places.entry(case(run)).or_insert(cases.len());
        if place == cases.len() {
            cases.push(Vec::new());
        }
        cases[place].push(run);
    }
    cases
}

/// How many cases have how many runs.
fn counts_of_runs(cases: &[Vec<&Value>]) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for runs in cases {
        let numbers: BTreeSet<u64> = runs.iter().map(|run| number(run)).collect();
        *counts.entry(numbers.len()).or_default() += 1;
    }
    counts
}

/// The same in words.
fn repetitions(counts: &BTreeMap<usize, usize>) -> String {
    let told = |(runs, cases): (&usize, &usize)| {
        let runs = if *runs == 1 { "one run".to_string() } else { format!("{runs} runs") };
        match cases {
            _ if counts.len() == 1 => format!("{runs} of each case"),
            1 => format!("{runs} of one case"),
            cases => format!("{runs} of each of {cases} cases"),
        }
    };
    counts.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// Least and most of the runs of each case of a figure, where they tell of a link: a mean hides a run that
/// misses what is asked.
fn spreads(cases: &[Vec<&Value>]) -> Value {
    let is_shown = |run: &Value| run["figure"].is_string() && run["link"].is_object();
    let cases = cases.iter().filter(|runs| runs.len() > 1 && is_shown(runs[0]));
    let told = cases.map(|runs| {
        let between = |of: &dyn Fn(&Value) -> &Value, unit: f64| {
            let values = || runs.iter().filter_map(|run| of(&run["link"]).as_f64());
            let [least, most] = [values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max)];
            format!("{:.2} to {:.2}", least * unit, most * unit)
        };
        let text = |key: &str| runs[0][key].as_str().unwrap_or_default();
        let cells = [
            format!("{}, {}", text("figure"), text("series")),
            Rate::from_bps_f64(runs[0]["rate_bps"].as_f64().unwrap_or(0.0)).to_string(),
            runs[0]["flows"].to_string(),
            runs.len().to_string(),
            between(&|link| &link["utilization"], 100.0),
            between(&|link| &link["delay_ms"]["mean"], 1.0),
            between(&|link| &link["delay_ms"]["p95"], 1.0),
        ];
        json!(cells)
    });
    let told: Vec<Value> = told.collect();
    if told.is_empty() {
        return Value::Null;
    }
    let header = ["figure, queue", "rate", "flows", "runs", "util %", "mean ms", "95 % ms"];
    json!({ "title": "Least and most of the runs", "header": header, "rows": told })
}

/// What became of the results below a folder.
#[derive(Debug, Default, PartialEq)]
pub struct Kept {
    /// How many were kept.
    pub results: usize,
    /// How many of them took the place of an earlier one.
    pub replaced: usize,
    /// The folders of those that were not kept, as not all of their runs were made.
    pub interrupted: Vec<PathBuf>,
}

/// Puts what the page shows of each result below a folder into another one, under the name of its folder, in
/// place of what was kept there of an earlier one of that name, with the file of its runs where these were
/// made with real TCP. What the other folder has besides stays, as does what it has of a result of which not
/// all runs were made.
///
/// # Errors
///
/// If a result cannot be read, there is none, two have the same name, the other folder has a whole result of
/// that name, or cannot be written to. Nothing is kept then, unless it was the writing that failed.
pub fn keep(root: &Path, folder: &Path) -> Result<Kept, Error> {
    let mut files = Vec::new();
    find(root, &mut files)?;
    files.sort();
    // What is kept there already is none of the results, unless it is what is meant.
    let there = folder.canonicalize().ok().filter(|there| root.canonicalize().ok().as_ref() != Some(there));
    let is_kept_there = |file: &Path| {
        there.as_ref().is_some_and(|there| file.canonicalize().is_ok_and(|file| file.starts_with(there)))
    };
    let (mut told, mut results) = (Kept::default(), BTreeMap::new());
    for file in files.into_iter().filter(|file| !is_kept_there(file)) {
        let Some(Written { mut value, made, runs, .. }) = written(&file)? else { continue };
        let of = std::path::absolute(file.parent().unwrap_or(root)).map_err(|e| damaged(&file, &e))?;
        if value["interrupted"] == true {
            told.interrupted.push(of);
            continue;
        }
        value[KEPT] = serde_json::to_value(runs).expect("plain data");
        // A place of the machine that made it.
        value.as_object_mut().map(|all| all.remove("out"));
        for without_runs in ["", "/witness"] {
            value.pointer_mut(without_runs).and_then(Value::as_object_mut).map(|all| all.remove("runs"));
        }
        let target = folder.join(of.file_name().unwrap_or("results".as_ref())).join(RESULT);
        let runs_file = made_runs(&of, &value);
        if target.exists() {
            told.replaced += 1;
            refuse_loss(&target, &made.date, runs_file.is_some() || arm(&value) == "sim")?;
        }
        if let Some((_, other, _)) = results.insert(target, (value, of.clone(), runs_file)) {
            let (of, other) = (of.display(), other.display());
            return Err(Error::input(format!(
                "{of} and {other} would be kept under one name: name the folder of one"
            )));
        }
    }
    if results.is_empty() {
        let Some(one) = told.interrupted.first() else { return Err(none_below(root)) };
        let remedy = "go on with its command and --resume";
        return Err(Error::input(format!(
            "nothing to keep: of {} not all runs were made; {remedy}",
            one.display()
        )));
    }
    told.results = results.len();
    for (file, (value, of, runs_file)) in &results {
        let text = serde_json::to_string_pretty(value).expect("plain data") + "\n";
        let failed =
            |e: &dyn std::fmt::Display| Error::Failed(format!("cannot keep {}: {e}", file.display()));
        std::fs::create_dir_all(file.parent().unwrap_or(folder)).map_err(|e| failed(&e))?;
        keep_runs(of, runs_file.as_deref(), file.parent().unwrap_or(folder))?;
        weir_report::write_atomic(file, text.as_bytes()).map_err(|e| failed(&e))?;
    }
    Ok(told)
}

/// Puts the file of the runs of a result in a folder beside what is kept of it, or takes away that of an
/// earlier result.
fn keep_runs(of: &Path, made: Option<&Path>, kept: &Path) -> Result<(), Error> {
    if of.canonicalize().ok() == kept.canonicalize().ok() {
        return Ok(());
    }
    let there = kept.join(RUNS_OF);
    let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("cannot keep {}: {e}", there.display()));
    let Some(made) = made else {
        return FileSet::remove(&there).map_err(|e| failed(&e));
    };
    let bytes = read_regular(made).map_err(|e| damaged(made, &e))?;
    std::fs::create_dir_all(&there).map_err(|e| failed(&e))?;
    FileSet::append(&there, RUNS, bytes).map_err(|e| failed(&e))
}

/// The file of the runs of a result in a folder, where they were made with real TCP.
fn made_runs(of: &Path, value: &Value) -> Option<PathBuf> {
    let files = [of.join(RUNS), of.join(RUNS_OF).join(RUNS)];
    files.into_iter().find(|file| arm(value) != "sim" && file.exists())
}

/// A file that is to be replaced may be the only one with the runs of its result, may have been made later,
/// or have runs with real TCP beside it in whose place none come.
fn refuse_loss(file: &Path, date: &str, has_runs: bool) -> Result<(), Error> {
    let refused =
        |what: String, remedy: &str| Err(Error::input(format!("{} {what}: {remedy}", file.display())));
    let Some(there) = written(file)? else {
        return refused("is none of `weir reproduce`".into(), "name another folder");
    };
    if there.value.get(KEPT).is_none() {
        let remedy = "name another folder, as what is kept in the place of a result is without its runs";
        return refused("is a whole result".into(), remedy);
    }
    if there.made.date.as_str() > date {
        let what = format!("is of {}, and what would take its place of {date}", there.made.date);
        return refused(what, "remove its folder first if that is meant");
    }
    if !has_runs && file.with_file_name(RUNS_OF).join(RUNS).exists() {
        let what = format!("has the file of its runs beside it, and what would take its place has no {RUNS}");
        return refused(what, "remove its folder first if that is meant");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn result(paper: &str) -> Value {
        let made =
            json!({ "date": "2026-11-27", "commit": "abc1234", "version": "0.1.0", "machine": "2 x EPYC" });
        json!({ "paper": paper, "arm": "lab", "made": made, "runs": [{ "series": "AVQ", "seed": 0 }] })
    }

    fn write(folder: &Path, value: &Value) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(RESULT), value.to_string()).unwrap();
    }

    fn refused(kept: Result<Kept, Error>) -> String {
        match kept {
            Err(Error::Input(told)) => told,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_whole_result_is_replaced_and_what_is_there_stays_where_one_cannot_be_kept() {
        let root = std::env::temp_dir().join(format!("weir-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (out, kept) = (root.join("out"), root.join("kept"));
        write(&out.join("a"), &result("avq"));
        write(&out.join("b"), &result("vaqm"));
        let of = |results, replaced| Kept { results, replaced, interrupted: Vec::new() };
        assert_eq!(keep(&out, &kept).unwrap(), of(2, 0));
        // One alone has the same name as below the folder of all, and replaces that one.
        assert_eq!(keep(&out.join("a"), &kept).unwrap(), of(1, 1));
        let before = fs::read_to_string(kept.join("b").join(RESULT)).unwrap();

        for folder in [out.clone(), out.join("..").join("out")] {
            let told = refused(keep(&out, &folder));
            assert!(told.contains("is a whole result"), "{told}");
        }
        assert!(fs::read_to_string(out.join("a").join(RESULT)).unwrap().contains("\"runs\""));

        // With its runs, and not with those of an earlier one; nor goes what is later, or has runs.
        let runs = kept.join("a").join(RUNS_OF);
        fs::write(out.join("a").join(RUNS), "runs").unwrap();
        keep(&out.join("a"), &kept).unwrap();
        assert_eq!(fs::read_to_string(runs.join(RUNS)).unwrap(), "runs");
        fs::remove_file(out.join("a").join(RUNS)).unwrap();
        let told = refused(keep(&out.join("a"), &kept));
        assert!(told.contains("has the file of its runs beside it"), "{told}");
        fs::write(out.join("a").join(RUNS), "runs").unwrap();
        let mut earlier = result("avq");
        earlier["made"]["date"] = json!("2026-11-26");
        write(&out.join("a"), &earlier);
        let told = refused(keep(&out.join("a"), &kept));
        assert!(told.contains("is of 2026-11-27, and what would take its place of 2026-11-26"), "{told}");
        write(&out.join("a"), &result("avq"));
        let again = root.join("again");
        fs::create_dir_all(&again).unwrap();
        keep(&kept, &again).unwrap();
        assert!(FileSet::foreign(&again.join("a").join(RUNS_OF), &[RUNS]).is_empty());
        assert_eq!(fs::read_to_string(again.join("a").join(RUNS_OF).join(RUNS)).unwrap(), "runs");
        let mut simulated = result("avq");
        simulated["arm"] = json!("sim");
        simulated["out"] = json!("/a/folder/of/this/machine");
        write(&out.join("a"), &simulated);
        keep(&out.join("a"), &kept).unwrap();
        assert!(!runs.exists());
        assert!(!fs::read_to_string(kept.join("a").join(RESULT)).unwrap().contains("of/this/machine"));
        fs::remove_dir_all(&again).unwrap();
        fs::remove_file(out.join("a").join(RUNS)).unwrap();

        let mut interrupted = result("vaqm");
        interrupted["interrupted"] = json!(true);
        write(&out.join("b"), &interrupted);
        let told = keep(&out, &kept).unwrap();
        assert_eq!((told.results, told.replaced), (1, 1));
        assert!(told.interrupted[0].ends_with("out/b"), "{told:?}");

        let mut damaged = result("vaqm");
        damaged["claims"] = json!([{ "id": 3 }]);
        write(&out.join("b"), &damaged);
        let told = refused(keep(&out, &kept));
        assert!(told.contains("b/result.json: ") && told.contains("make it again"), "{told}");
        write(&out.join("more/a"), &result("avq"));
        write(&out.join("b"), &result("vaqm"));
        let told = refused(keep(&out, &kept));
        assert!(told.contains("would be kept under one name"), "{told}");
        assert_eq!(fs::read_to_string(kept.join("b").join(RESULT)).unwrap(), before);

        // What was kept below the folder itself is not kept a second time.
        fs::remove_dir_all(out.join("more")).unwrap();
        assert_eq!(keep(&root, &kept).unwrap(), of(2, 2));
        assert_eq!(keep(&kept, &kept).unwrap(), of(2, 2));
        fs::remove_dir_all(&root).unwrap();
    }
}
