//! `weir export` as it is used: what it writes is opened by Flent itself, where that is installed.

use crate::program;
use crate::skipping::skipped;

use program::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A download and an upload over two links, 5 s long.
const BOTH: &str = "title = \"Both ways\"\n\
    [[links]]\nname = \"down\"\nfrom = \"net\"\nto = \"home\"\nrate = \"20Mbit/s\"\ndelay = \"10ms\"\n\
    aqm = { name = \"codel\" }\n\
    [[links]]\nname = \"up\"\nfrom = \"home\"\nto = \"net\"\nrate = \"5Mbit/s\"\ndelay = \"10ms\"\n\
    aqm = { name = \"codel\" }\n\
    [[flows]]\nfrom = \"net\"\nto = \"home\"\ncount = 2\n\
    [[flows]]\nfrom = \"home\"\nto = \"net\"\n\
    [run]\nduration = \"5s\"\nsample = \"100ms\"\n";

/// The data file of a scenario that is simulated.
fn exported(folder: &Path, name: &str, text: &str) -> PathBuf {
    let scenario = file(folder, &format!("{name}.toml"), text);
    let out = folder.join(name);
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    let said = done(&format!("export {} --flent", out.display()));
    let path = out.join("run.flent.gz");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    path
}

#[test]
fn what_is_exported_goes_with_its_run_when_another_one_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = exported(folder.path(), "both", BOTH);
    assert!(path.is_file());
    let (scenario, out) = (folder.path().join("both.toml"), folder.path().join("both"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(!path.exists() && out.join("summary.json").is_file());
}

#[test]
fn a_file_of_somebody_else_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = exported(folder.path(), "both", BOTH);
    // Its own one is.
    done(&format!("export {} --flent", folder.path().join("both").display()));
    let (scenario, out) = (folder.path().join("both.toml"), folder.path().join("both"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    std::fs::write(&path, "mine").unwrap();
    let told = refused(&format!("export {} --flent", out.display()), 1);
    assert!(told.contains("run.flent.gz") && told.contains("weir did not write it"), "{told}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

/// A program on the PATH that answers to `--version`.
fn is_installed(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|ended| ended.status.success())
}

/// What Flent prints of a file with one of its formatters.
fn flent(file: &Path, formatter: &str) -> String {
    let ended = Command::new("flent").arg("-i").arg(file).args(["-f", formatter]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    said
}

/// Mean of a series in a summary of Flent, where `NAME : MEAN MEDIAN ...` stands.
fn mean(summary: &str, series: &str) -> f64 {
    let line = summary.lines().find(|line| line.split(" : ").next().unwrap_or("").trim() == series);
    let line = line.unwrap_or_else(|| panic!("no {series} in {summary}"));
    line.split(" : ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn flent_opens_what_is_exported_and_reads_the_same_numbers() {
    if !is_installed("flent") {
        return skipped("`flent` is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let summary = flent(&exported(folder.path(), "both", BOTH), "summary");
    assert!(summary.contains("Summary of rrul_be_nflows test run"), "{summary}");
    let (down, up) = (mean(&summary, "TCP download sum"), mean(&summary, "TCP upload sum"));
    assert!((14.0..20.0).contains(&down) && (3.0..5.0).contains(&up), "{summary}");
    assert!((mean(&summary, "TCP totals") - down - up).abs() < 0.3, "{summary}");
    assert!((20.0..80.0).contains(&mean(&summary, "Ping (ms) ICMP")), "{summary}");
    let (one, other) = (mean(&summary, "TCP download BE::1"), mean(&summary, "TCP download BE::2"));
    assert!((one + other - down).abs() < 0.3, "{summary}");
    // One direction, and the rows of it; the formatter `stats` takes numpy, on which Debian's flent does not
    // depend.
    let alone = exported(folder.path(), "alone", &SMALL.replace("\"3s\"", "\"2s\""));
    let summary = flent(&alone, "summary");
    assert!(summary.contains("Summary of tcp_ndown"), "{summary}");
    let rows = flent(&alone, "csv");
    assert!(rows.contains("TCP download sum") && rows.lines().count() > 15, "{rows}");
}

#[test]
fn folders_without_results_are_refused_and_several_runs_have_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}run.seeds = 2\n", SMALL.replace("\"3s\"", "\"2s\""));
    let scenario = file(folder.path(), "twice.toml", &text);
    let (out, files) = (folder.path().join("out"), folder.path().join("files"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    done(&format!("export {} --flent --out {}", out.display(), files.display()));
    let mut names: Vec<String> = std::fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["twice-1.flent.gz", "twice-2.flent.gz"]);
    for name in &names {
        let bytes = std::fs::read(files.join(name)).unwrap();
        assert!(bytes.starts_with(&[0x1f, 0x8b, 8]));
    }
    std::fs::write(out.join("twice-1/summary.json"), "{ \"links\": 3 }").unwrap();
    let told = refused(&format!("export {} --flent", out.display()), 2);
    assert!(
        told.contains("twice-1/summary.json: invalid type") && told.contains("make the run again"),
        "{told}"
    );
    let told = refused(&format!("export {} --flent", files.display()), 2);
    assert!(told.contains("no results of a run"), "{told}");
}

#[test]
fn a_run_with_many_links_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let exported = exported(folder.path(), "many", MANY_LINKS);
    assert!(std::fs::metadata(&exported).unwrap().len() > 1000);
    if is_installed("flent") {
        let summary = flent(&exported, "summary");
        assert!(mean(&summary, "TCP download sum") > 50.0, "{summary}");
    }
}
