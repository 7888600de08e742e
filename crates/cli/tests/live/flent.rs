//! `weir lab --flent`: a test of Flent through the lab's link.
//!
//! Needs root, what `weir lab` needs, and Flent; skipped where they are missing.

use crate::skipping;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/scenarios/rrul.toml");

fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// A folder for results, or none where no lab can be, or one of these programs is not there.
fn folder(name: &str, programs: &[&str]) -> Option<PathBuf> {
    let diagnosis = Command::new(WEIR).args(["--json", "doctor"]).output().unwrap().stdout;
    let diagnosis: Value = serde_json::from_slice(&diagnosis).unwrap();
    if diagnosis["can"]["lab"] != true {
        skipping::skipped("needs what `weir lab` needs");
        return None;
    }
    if let Some(missing) = programs.iter().find(|program| !is_there(program)) {
        skipping::skipped(format!("`{missing}` is not installed"));
        return None;
    }
    Some(std::env::temp_dir().join(format!("weir-lab-flent-{name}-{}", std::process::id())))
}

/// Runs a test with a load of so many seconds.
fn lab(test: &str, seconds: u32, out: &Path) -> (Option<i32>, Value) {
    let duration = format!("run.duration={seconds}s");
    let mut command = Command::new(WEIR);
    command.args(["--json", "lab", SCENARIO, "--flent", test, "--set", &duration]);
    let ended = command.args(["--set", "run.warmup=0s", "--out"]).arg(out).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    let json = serde_json::from_str(&told);
    let json = json.unwrap_or_else(|e| panic!("{e}: {told} {}", String::from_utf8_lossy(&ended.stderr)));
    (ended.status.code(), json)
}

#[test]
fn a_test_of_flent_makes_the_traffic_and_its_data_is_among_the_results() {
    let Some(out) = folder("ping", &["flent", "ping", "netperf"]) else { return };
    let (code, told) = lab("ping", 3, &out);
    assert_eq!(code, Some(0), "{told}");
    assert!(told["flows"].as_array().unwrap().is_empty(), "{told}");
    assert!(told["warnings"].to_string().contains("Flent's test `ping` made the traffic"), "{told}");
    // Flent reads what it wrote, and its pings passed links of 20 ms together.
    let data = out.join("test.flent.gz");
    let read = Command::new("flent").arg("-i").arg(&data).args(["-f", "summary"]).output().unwrap();
    let summary = String::from_utf8_lossy(&read.stdout);
    assert!(summary.contains("Summary of ping"), "{summary}");
    assert!(out.join("summary.json").exists() && out.join("report.html").exists());
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn what_a_test_of_flent_lacks_is_told_with_its_remedy() {
    let Some(out) = folder("lacks", &["flent"]) else { return };
    let (code, told) = lab("rul", 5, &out);
    let error = told["error"].as_str().unwrap();
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("Flent has no test `rul`: did you mean `rrul`?"), "{error}");
    assert!(!out.exists(), "nothing was touched");
    if is_there("netperf") {
        return skipping::skipped("`netperf` is installed");
    }
    let (code, told) = lab("rrul", 5, &out);
    let error = told["error"].as_str().unwrap();
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("No netperf binary found") && error.contains("non-free"), "{error}");
    assert!(!out.join("summary.json").exists());
    let _ = std::fs::remove_dir_all(&out);
}
