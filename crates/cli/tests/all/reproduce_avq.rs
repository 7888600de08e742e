//! `weir reproduce avq`, in its short form: claims, files, the same bytes each time, and the witness.

use crate::skipping;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn weir(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["reproduce", "avq", "--quick", "--json"]).args(arguments).arg("--out").arg(out);
    command
}

fn result(run: &Output) -> Value {
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

#[test]
fn the_short_form_judges_every_claim() {
    let out = folder("avq-all");
    let run = weir(&["--experiment", "all"], &out).output().expect("weir starts");
    let result = result(&run);
    let claims = result["claims"].as_array().expect("claims");
    for (id, count) in
        [("D1", 2), ("D2", 2), ("D3", 4), ("D4", 5), ("D5", 5), ("D6", 6), ("D7", 13), ("D8", 10)]
    {
        assert_eq!(claims.iter().filter(|c| c["id"] == id).count(), count, "{id}");
    }
    let all_held = claims.iter().all(|c| c["held"] == true);
    assert_eq!(run.status.code(), Some(i32::from(!all_held)));
    let runs = result["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1 + 5 + 3 + 5 + 5);
    for span in runs.iter().flat_map(|r| r["spans"].as_array().expect("spans")) {
        let used = span["utilization"].as_f64().expect("a number");
        let goodput = span["goodput"].as_f64().expect("a number");
        assert!((0.3..=1.001).contains(&used) && goodput <= used * 1250.0 + 1e-6, "{span}");
    }
    let folder = out.join("avq-experimentall-quick");
    for number in 1..=14 {
        assert!(folder.join(format!("figure{number}.svg")).is_file(), "figure {number}");
    }
    let table = std::fs::read_to_string(folder.join("experiment2.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1 + 5 * 9);
    let samples = std::fs::read_to_string(folder.join("experiment1-avq-samples.csv")).expect("samples");
    let capacity = samples.lines().last().and_then(|l| l.split(',').next_back()?.parse::<f64>().ok());
    assert!(capacity.is_some_and(|share| (0.0..=1.0).contains(&share)), "{capacity:?}");
}

/// What was ended goes on: half of the runs are cut off, as by a kill, and what is written is as if it had
/// not been ended, to the byte.
#[test]
fn runs_that_are_there_are_not_made_again() {
    let out = folder("avq-resumed");
    let run = |more: &[&str]| {
        let run = weir(&[&["--experiment", "3"], more].concat(), &out).output().expect("weir starts");
        assert!(run.status.code().is_some_and(|code| code <= 1), "{run:?}");
        String::from_utf8(run.stderr).expect("text")
    };
    let folder = out.join("avq-experiment3-quick");
    let files = || {
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into(), std::fs::read(&path).unwrap()))
            // Whichever was made first stands first there.
            .filter(|(name, _): &(String, Vec<u8>)| name != "runs.msgpack")
            .collect();
        files.sort();
        files
    };
    run(&[]);
    let whole = files();
    let runs = folder.join("runs.msgpack");
    let bytes = std::fs::read(&runs).expect("its runs are kept");
    std::fs::write(&runs, &bytes[..bytes.len() / 2]).expect("it writes");
    let said = run(&["--resume"]);
    assert!(said.contains("1 of 3 runs are there already") && said.contains("is cut off"), "{said}");
    assert!(files() == whole, "other files than of a run that was not ended");
    assert_eq!(std::fs::read(&runs).expect("they are there").len(), bytes.len());
    let said = run(&["--resume"]);
    assert!(said.contains("3 of 3 runs are there already"), "{said}");
    assert!(files() == whole, "other files than of a run that was not ended");
    let said = run(&[]);
    assert!(!said.contains("already"), "it was not asked for: {said}");
}

#[test]
fn the_same_command_writes_the_same_bytes() {
    let outs = ["avq-first", "avq-second"].map(folder);
    let [first, second] = outs
        .each_ref()
        .map(|out| result(&weir(&["--experiment", "3"], out).output().expect("weir starts"))["runs"].clone());
    assert_eq!(first, second);
    assert_eq!(first[0]["trace_hash"].as_str().map(str::len), Some(16));
    let [first, second] = outs
        .each_ref()
        .map(|out| std::fs::read(out.join("avq-experiment3-quick/report.html")).expect("a report"));
    assert!(first == second, "the reports differ");
}

#[test]
fn a_missing_witness_is_told_before_anything_runs() {
    let out = folder("avq-missing");
    let run =
        weir(&["--experiment", "1", "--witness", "ns2"], &out).env("PATH", "").output().expect("weir starts");
    assert_eq!(run.status.code(), Some(1));
    let error = result(&run)["error"].as_str().expect("an error").to_string();
    assert!(error.contains("Debian package `ns2`"), "{error}");
    assert!(!out.exists());
}

/// Where ns-2 is installed; elsewhere there is nothing to compare with.
#[test]
fn a_witness_runs_the_same_experiment() {
    let is_there = |path: &std::ffi::OsStr| std::env::split_paths(path).any(|p| p.join("ns").is_file());
    if !std::env::var_os("PATH").is_some_and(|path| is_there(&path)) {
        skipping::skipped("`ns` of the Debian package `ns2` is not installed");
        return;
    }
    let out = folder("avq-witness");
    let run = weir(&["--experiment", "1", "--witness", "ns2"], &out).output().expect("weir starts");
    let result = result(&run);
    let theirs = &result["witness"]["runs"][0]["spans"];
    for span in 0..2 {
        let used = theirs[span]["utilization"].as_f64().expect("a number");
        assert!((0.5..=1.001).contains(&used), "{theirs}");
        assert!(theirs[span]["goodput"].as_f64().expect("a number") > 600.0, "{theirs}");
        assert!(theirs[span].get("marked").is_none(), "ns-2 does not tell: {theirs}");
        assert!(result["runs"][0]["spans"][span]["marked"].as_f64().is_some_and(|n| n > 0.0), "{result}");
    }
    let claims = result["claims"].as_array().expect("claims");
    let beside: Vec<_> = claims.iter().filter(|c| c["id"] == "ns-2").collect();
    assert!(beside.len() == 3 && beside.iter().all(|c| c["paper"] == "the same experiment in ns-2"));
    // The paper's claims are judged on its runs by the same bounds.
    let theirs = result["witness"]["claims"].as_array().expect("claims");
    let sentences = |claims: &[Value]| -> Vec<(String, String)> {
        let own = claims.iter().filter(|c| c["id"] != "ns-2");
        own.map(|c| (c["id"].to_string(), c["text"].to_string())).collect()
    };
    assert_eq!(sentences(theirs), sentences(claims));
    assert!(theirs.iter().all(|c| c["paper"] != "" && c["basis"] != ""), "{theirs:?}");
    let totals = &result["witness"]["totals"];
    let judged = totals["judged"].as_u64().zip(totals["undecided"].as_u64()).map(|(a, b)| (a + b) as usize);
    assert_eq!(judged, Some(theirs.len()), "{totals}");
    let table = result["tables"].as_array().and_then(|tables| tables.last()).expect("a table");
    assert_eq!(table["title"], "Claims of the paper, here and in ns-2 by the same bounds");
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(theirs.len()), "{table}");
    let folder = out.join("avq-experiment1-quick");
    for name in ["witness.csv", "figure1-ns-2.svg", "ns2/witness.tcl", "ns2/experiment1-avq-0.tcl"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
}
