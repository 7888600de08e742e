//! `weir compare --with ns3` as it is used, where ns-3 is installed.

use crate::program;
use crate::skipping;

use crate::sim::{csv, json};
use program::*;
use std::fs;
use std::path::Path;

const DUMBBELL: &str = "title = \"Dumbbell\"\nlink = { rate = \"20Mbit/s\", buffer = \"200ms\" }\npath.rtt = \"40ms\"\n\
                        aqm = { name = \"codel\", newton = true }\nflows = [{ count = 4, congestion = \"reno\" }]\n\
                        run = { duration = \"40s\", warmup = \"10s\" }\n";

#[test]
fn a_dumbbell_is_alike_in_ns3_and_another_is_not() {
    if !Path::new("/usr/include/ns3/core-module.h").exists() {
        return skipping::skipped("ns-3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "dumbbell.toml", DUMBBELL);
    let out = folder.path().join("out");
    let compare = format!("compare {} --with ns3 --out {}", scenario.display(), out.display());
    // Repetitions are for the simulator alone.
    let compared = json(&format!("{compare} --set run.seeds=3"));
    assert_eq!((&compared["within"], &compared["title"]), (&true.into(), &"Dumbbell".into()), "{compared}");
    let of = |arm: &str, key: &str| compared["arms"][arm]["links"][0][key].as_f64().unwrap();
    for arm in ["sim", "ns3"] {
        // CoDel holds four flows of Reno so, and signals all the time.
        assert!(of(arm, "utilization") > 0.9 && of(arm, "drops") > 20.0, "{arm}: {compared}");
    }
    assert_eq!(compared["arms"]["ns3"]["flows"].as_array().unwrap().len(), 4);
    let names: Vec<&str> =
        compared["differences"][0].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(names.contains(&"ns3") && !names.contains(&"lab"), "{names:?}");
    for file in [
        "ns3/summary.json",
        "ns3/samples_bottleneck.csv",
        "sim/summary.json",
        "comparison.svg",
        "report.html",
    ] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let (header, rows) = csv(&out.join("ns3/samples_bottleneck.csv"));
    assert_eq!((rows.len(), header[0].as_str()), (400, "t_s"));
    // The program is there already; a target four times as long is another queue.
    let built = fs::metadata(out.join("ns3-program/dumbbell")).unwrap().modified().unwrap();
    let longer = json(&format!("{compare} --set aqm.target=20ms"));
    assert_eq!(fs::metadata(out.join("ns3-program/dumbbell")).unwrap().modified().unwrap(), built);
    let delay = |of: &serde_json::Value| of["arms"]["ns3"]["links"][0]["delay_ms"]["p95"].as_f64().unwrap();
    assert!(delay(&longer) > 1.5 * delay(&compared), "{longer}");
}

#[test]
fn what_ns3_does_not_play_and_a_missing_ns3_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "dumbbell.toml", DUMBBELL);
    let compare =
        format!("compare {} --with ns3 --out {}", scenario.display(), folder.path().join("out").display());
    let told = refused(&format!("{compare} --set flows.0.transfer=1MB"), 2);
    assert!(told.contains("ns-3 does not play `flows.0.transfer`"), "{told}");
    // A compiler that finds no header.
    let failed = std::process::Command::new(WEIR)
        .args(compare.split_whitespace())
        .env("CXX", "false")
        .output()
        .unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let told = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(told.contains("ns-3 cannot be used") && told.contains("libns3-dev"), "{told}");
}
