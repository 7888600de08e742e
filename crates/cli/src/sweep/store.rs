//! The folder of a sweep: a file for each finished run, and what the folder belongs to.

use crate::output::Failure;
use crate::results::{make_folder, prepare, refuse_foreign};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_measure::study::Distributed;
use weir_report::measured::Measured;
use weir_report::sweep::{Fingerprint, RunRow};
use weir_report::{FileSet, read_regular, remove_leftovers, write_atomic};

/// The tables of a sweep.
const TABLES: [&str; 7] = [
    "INCOMPLETE",
    "chart.svg",
    "distributions.csv",
    "histograms.csv",
    "summary.csv",
    "table.csv",
    "table.parquet",
];

/// The folder with the results of a sweep.
pub struct Store {
    out: PathBuf,
    /// Fingerprint of the program that runs.
    program: String,
}

/// What a folder belongs to.
#[derive(Serialize, Deserialize)]
struct Owner {
    version: String,
    /// Of all points.
    fingerprint: String,
    /// Of each point; programs before had none.
    #[serde(default)]
    points: Vec<String>,
}

/// The file of a run: what it measured, whose it is, and a checksum of it.
#[derive(Serialize, Deserialize)]
struct RunFile {
    /// Fingerprint of the program that made it.
    program: String,
    /// Fingerprint of the scenario of its point, with its traces.
    fingerprint: String,
    checksum: String,
    run: Kept,
}

/// What is kept of a run. Which point of a sweep it is, only the sweep knows.
#[derive(Serialize, Deserialize)]
struct Kept {
    seed: u64,
    trace_hash: String,
    measured: Measured,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    distributions: Vec<Distributed>,
}

/// What became of the file of a run.
pub enum StoredRun {
    /// It is whole.
    Whole(RunRow),
    /// There is none.
    Absent,
    /// It is not what was written; the run has to be made again.
    Damaged(PathBuf),
    /// Another build of the program made it, whose algorithms and models may be others; the run has to be
    /// made again.
    OfAnotherBuild,
}

impl Store {
    /// Opens the folder for a sweep with these points, and makes it where there is none. `scenario` is the
    /// sweep in canonical form.
    pub fn open(out: &Path, points: &[Fingerprint], scenario: &str) -> Result<Store, Failure> {
        let all = points.iter().fold(Fingerprint::of("sweep"), |hash, point| hash.and(&point.to_string()));
        let program = Fingerprint::of_program().map_err(|e| {
            format!("cannot read the program itself, which tells its results from those of other builds: {e}")
        })?;
        let program = program.to_string();
        let owner = Owner {
            version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: all.to_string(),
            points: points.iter().map(Fingerprint::to_string).collect(),
        };
        make_folder(out)?;
        let path = out.join("sweep.json");
        match read_regular(&path) {
            Ok(bytes) => check_owner(&bytes, &owner, out, scenario)?,
            Err(e) if e.kind() == ErrorKind::NotFound => refuse_others(out)?,
            Err(e) => return Err(format!("cannot read {}: {e}", path.display()).into()),
        }
        refuse_foreign(out, &TABLES)?;
        remove_leftovers(out);
        prepare(&out.join("points"))?;
        write_atomic(out.join("sweep.toml"), scenario)?;
        write_atomic(&path, serde_json::to_string_pretty(&owner).expect("plain data"))?;
        Ok(Store { out: out.to_path_buf(), program })
    }

    /// Runs are found by what they are made of, not by the number of their point, so that a sweep takes over
    /// what it has in common with the one before.
    fn path(&self, seed: u64, fingerprint: Fingerprint) -> PathBuf {
        self.out.join("points").join(format!("{fingerprint}-{seed}.json"))
    }

    /// Looks for the run with a seed of a point (its number from 1), whose scenario has this fingerprint.
    pub fn find(&self, point: usize, seed: u64, fingerprint: Fingerprint) -> Result<StoredRun, Failure> {
        let path = self.path(seed, fingerprint);
        let bytes = match read_regular(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(StoredRun::Absent),
            Err(e) => return Err(format!("cannot read {}: {e}", path.display()).into()),
        };
        let Ok(kept) = serde_json::from_slice::<RunFile>(&bytes) else { return Ok(StoredRun::Damaged(path)) };
        let is_whole = kept.checksum == checksum(&kept.run);
        if !is_whole || kept.run.seed != seed || kept.fingerprint != fingerprint.to_string() {
            return Ok(StoredRun::Damaged(path));
        }
        if kept.program != self.program {
            return Ok(StoredRun::OfAnotherBuild);
        }
        let Kept { seed, trace_hash, measured, distributions } = kept.run;
        Ok(StoredRun::Whole(RunRow { point, seed, trace_hash, measured, distributions }))
    }

    /// Keeps what a run measured: whole or not at all.
    pub fn keep(&self, row: &RunRow, fingerprint: Fingerprint) -> Result<(), Failure> {
        let RunRow { seed, trace_hash, measured, distributions, .. } = row.clone();
        let run = Kept { seed, trace_hash, measured, distributions };
        let checksum = checksum(&run);
        let kept =
            RunFile { program: self.program.clone(), fingerprint: fingerprint.to_string(), checksum, run };
        let text = serde_json::to_string(&kept).expect("plain data");
        Ok(write_atomic(self.path(row.seed, fingerprint), text)?)
    }

    /// The tables, which appear together.
    pub fn tables(&self) -> FileSet {
        FileSet::new(&self.out)
    }
}

fn checksum(run: &Kept) -> String {
    Fingerprint::of(&serde_json::to_string(run).expect("plain data")).to_string()
}

/// Refuses a folder with results of a single run: those of both would take each other's places.
fn refuse_others(out: &Path) -> Result<(), Failure> {
    let has = |name: &&&str| out.join(name).symlink_metadata().is_ok();
    let names = ["summary.json", "result.json", "comparison.json", "report.html", "sweep.toml"];
    match names.iter().find(has) {
        Some(name) => Err(Failure::Failed(format!(
            "{} holds {name}, and this sweep did not write it. Remedy: choose another folder with --out, or move what \
             is there away",
            out.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses a folder that belongs to another sweep: one that has no point in common with this one. A damaged
/// note of it is written again: every run is checked.
fn check_owner(bytes: &[u8], owner: &Owner, out: &Path, scenario: &str) -> Result<(), Failure> {
    let Ok(was) = serde_json::from_slice::<Owner>(bytes) else { return Ok(()) };
    if was.fingerprint == owner.fingerprint || was.points.iter().any(|point| owner.points.contains(point)) {
        return Ok(());
    }
    let before = fs::read_to_string(out.join("sweep.toml")).unwrap_or_default();
    // The same scenario: written in another way by another build, or with a trace or a page that was edited.
    // Each run says which build made it, and is found by what the files had in them, too.
    let Some(why) = difference(&before, scenario) else { return Ok(()) };
    let folder = out.display();
    Err(Failure::Input(format!(
        "{folder} has results of another scenario: {why}; choose another folder with --out, or remove {folder}"
    )))
}

/// The first key in which two scenarios in canonical form differ, with those of the sweep before all others,
/// which are printed in another way where a sweep sets some of a table. The number of seeds is none of a
/// point.
fn difference(before: &str, now: &str) -> Option<String> {
    let (before, now) = (settings(before), settings(now));
    let value =
        |of: &[(String, String)], key: &str| of.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let told = |key: &str| match (value(&before, key), value(&now, key)) {
        (Some(a), Some(b)) => {
            (a != b).then(|| format!("it has `{key} = {a}` where this one has `{key} = {b}`"))
        }
        (Some(a), None) => Some(format!("it has `{key} = {a}`, which this one does not set")),
        (None, Some(b)) => Some(format!("this one has `{key} = {b}`, which it does not set")),
        (None, None) => None,
    };
    let keys = || before.iter().chain(&now).map(|(key, _)| key.as_str());
    let (mut swept, mut others) = (keys().filter(|k| is_swept(k)), keys().filter(|k| !is_swept(k)));
    swept.find_map(told).or_else(|| others.find_map(told))
}

fn is_swept(key: &str) -> bool {
    key.starts_with("sweep.")
}

/// The keys of a scenario in canonical form, with their tables, and their values. A default that is printed
/// as a comment, because a sweep could make it contradict another key, counts; what has no value is followed
/// by what holds instead, in brackets, and does not.
fn settings(text: &str) -> Vec<(String, String)> {
    let (mut table, mut headers, mut settings) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            let is_element = header.starts_with('[');
            let name = header.trim_matches(['[', ']']);
            let number = headers.iter().filter(|other| **other == name).count();
            headers.push(name);
            table = if is_element { format!("{name}.{number}.") } else { format!("{name}.") };
        } else if let Some((key, value)) = line.strip_prefix("# ").unwrap_or(line).split_once(" = ") {
            // Sentences in comments may have an equals sign, too.
            let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || "_.\"".contains(c));
            let key = format!("{table}{key}");
            if is_key && !value.starts_with('(') && key != "run.seeds" {
                settings.push((key, value.to_string()));
            }
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_report::measured::Value;

    fn row() -> RunRow {
        let measured = vec![("x".to_string(), Value::Number(0.1 + 0.2)), ("n".to_string(), Value::Count(3))];
        RunRow { point: 2, seed: 1, trace_hash: "00ff".into(), measured, distributions: Vec::new() }
    }

    #[test]
    fn what_was_kept_is_found_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (Fingerprint::of("mine"), Fingerprint::of("other"));
        let store = Store::open(folder.path(), &[mine], "a = 1\n").unwrap();
        assert!(matches!(store.find(2, 1, mine), Ok(StoredRun::Absent)));
        store.keep(&row(), mine).unwrap();
        assert!(matches!(store.find(2, 1, mine), Ok(StoredRun::Whole(found)) if found == row()));
        assert!(matches!(store.find(2, 1, other), Ok(StoredRun::Absent)));
        assert!(matches!(store.find(2, 2, mine), Ok(StoredRun::Absent)));
        // The same scenario is found again as another point.
        assert!(matches!(store.find(7, 1, mine), Ok(StoredRun::Whole(found)) if found.point == 7));
        let path = store.path(1, mine);
        let whole = fs::read_to_string(&path).unwrap();
        let damaged = [whole[..whole.len() - 9].to_string(), whole.replace("00ff", "00fe"), String::new()];
        for text in damaged {
            fs::write(&path, text).unwrap();
            assert!(matches!(store.find(2, 1, mine), Ok(StoredRun::Damaged(_))));
        }
        // A whole file under the name of another run.
        fs::write(store.path(2, mine), &whole).unwrap();
        assert!(matches!(store.find(2, 2, mine), Ok(StoredRun::Damaged(_))));
        fs::write(store.path(1, other), whole).unwrap();
        assert!(matches!(store.find(2, 1, other), Ok(StoredRun::Damaged(_))));
    }

    #[test]
    fn files_of_others_and_what_is_no_file_are_refused() {
        let (folder, mine) = (tempfile::tempdir().unwrap(), Fingerprint::of("mine"));
        let told = |name: &str| {
            fs::write(folder.path().join(name), "not of a sweep").unwrap();
            let Err(failure) = Store::open(folder.path(), &[mine], "a = 1\n") else {
                panic!("taken with {name}")
            };
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "not of a sweep");
            fs::remove_file(folder.path().join(name)).unwrap();
            failure.text().to_string()
        };
        for name in ["summary.json", "table.csv", "sweep.toml"] {
            assert!(told(name).contains(name));
        }
        let store = Store::open(folder.path(), &[mine], "a = 1\n").unwrap();
        std::process::Command::new("mkfifo").arg(store.path(1, mine)).status().unwrap();
        assert!(matches!(store.find(2, 1, mine), Err(Failure::Failed(told)) if told.contains("no file")));
    }

    #[test]
    fn a_sweep_with_a_point_in_common_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let of = |texts: &[&str]| texts.iter().map(|text| Fingerprint::of(text)).collect::<Vec<_>>();
        let open = |texts: &[&str], scenario: &str| Store::open(folder.path(), &of(texts), scenario);
        open(&["a", "b"], "x = [1, 2]\n").unwrap();
        open(&["b", "c"], "x = [2, 3]\n").unwrap();
        assert!(open(&["a"], "x = [1]\n").is_err(), "nothing in common with what was last");
    }

    #[test]
    fn another_scenario_is_refused_with_the_line_that_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (Fingerprint::of("mine"), Fingerprint::of("other"));
        Store::open(folder.path(), &[mine], "a = 1\nb = 2\n").unwrap();
        Store::open(folder.path(), &[mine], "a = 1\nb = 2\n").unwrap();
        let Err(Failure::Input(told)) = Store::open(folder.path(), &[other], "a = 1\nb = 3\n") else {
            panic!("it was taken")
        };
        assert!(told.contains("it has `b = 2` where this one has `b = 3`; choose another folder"), "{told}");
        // The same text with another trace.
        Store::open(folder.path(), &[other], "a = 1\nb = 2\n").unwrap();
    }

    #[test]
    fn two_scenarios_differ_in_keys_and_not_in_how_they_are_printed() {
        let plain = "[[flows]]\n# Of what kind, `x = 1`.\ncc = \"cubic\"\n# stop = (the end)\n[[flows]]\ncc = \"cubic\"\n\
                     [run]\nseeds = 1\n";
        let swept = "[[flows]]\n# cc = \"cubic\"\n# stop = (the end)\n[[flows]]\n[run]\nseeds = 4\n[sweep]\n\"flows.0.n\" = [1, 2]\n";
        let told = |before: &str, now: &str| difference(before, now).unwrap();
        assert_eq!(told(plain, swept), "this one has `sweep.\"flows.0.n\" = [1, 2]`, which it does not set");
        assert_eq!(told(swept, plain), "it has `sweep.\"flows.0.n\" = [1, 2]`, which this one does not set");
        let fewer = swept.replace("[1, 2]", "[1]");
        assert!(told(swept, &fewer).ends_with("where this one has `sweep.\"flows.0.n\" = [1]`"));
        let stopped = plain.replacen("# stop = (the end)", "stop = \"1s\"", 1);
        assert_eq!(told(plain, &stopped), "this one has `flows.0.stop = \"1s\"`, which it does not set");
        assert_eq!(difference(plain, &plain.replace("seeds = 1", "seeds = 2")), None);
        let reno = swept.replace("# cc = \"cubic\"", "cc = \"reno\"");
        assert_eq!(
            told(swept, &reno),
            "it has `flows.0.cc = \"cubic\"` where this one has `flows.0.cc = \"reno\"`"
        );
    }
}
