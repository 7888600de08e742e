//! A disk that is full: what is told, what is left, and how it goes on. On a file system of its own that
//! nobody else sees, which takes root.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::program;
use crate::skipping;

use program::*;
use skipping::skipped;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a script in a mount namespace of its own, with a file system of `size` at `small` in the folder and
/// the program as `$weir`. What is at `small` afterwards is copied to `kept`. None without root.
fn on_a_small_disk(folder: &Path, size: &str, script: &str) -> Option<Output> {
    // SAFETY: it only asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        skipped("root is needed to mount a small one");
        return None;
    }
    let script = format!(
        "mkdir small kept && mount -t tmpfs -o size={size} weir-test small || exit 99\n{script}\n\
         status=$?; cp -a small/. kept/; exit $status"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.env("weir", WEIR).current_dir(folder).output().unwrap();
    if output.status.code() == Some(99) {
        skipped(format!("nothing can be mounted here: {}", text(&output.stderr).trim()));
        return None;
    }
    Some(output)
}

/// Everything that looks like a result must be one.
fn assert_whole(kept: &Path) {
    for (name, bytes) in tree(kept) {
        let shown = name.display();
        let end = match name.extension().and_then(|e| e.to_str()) {
            Some("json") => "}",
            Some("svg") => "</svg>",
            Some("html") => "</html>",
            Some("csv" | "toml") => "\n",
            // What was to be there.
            None if name.ends_with(".weir-files") => "\n",
            // A filler of the test.
            None if name.starts_with("filler") => continue,
            Some("pcapng") => panic!("{shown} was not finished"),
            _ => panic!("{shown} is no result"),
        };
        let whole = text(&bytes);
        let whole = if end == "\n" { &whole } else { whole.trim_end() };
        assert!(whole.ends_with(end), "{shown} is cut off");
    }
}

#[test]
fn a_full_disk_is_told_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "long.toml", &SMALL.replace("\"3s\"", "\"86400s\""));
    let script = "head -c 200k /dev/zero > small/filler 2>/dev/null
        for verb in sim sweep; do timeout 20 $weir $verb long.toml --out small/$verb; echo $verb $?; done";
    let Some(output) = on_a_small_disk(folder.path(), "100k", script) else { return };
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["sim 1", "sweep 1"], "{told}");
    assert!(told.contains("cannot write to small/sim: No space left"), "{told}");
    assert!(told.contains("cannot write to small/sweep/points: No space left"), "{told}");
    assert_eq!(told.matches("make room").count(), 2, "{told}");
    let files: Vec<_> = tree(&folder.path().join("kept")).into_keys().collect();
    assert_eq!(files, [Path::new("filler")], "nothing else is left");
}

#[test]
fn a_run_that_does_not_fit_is_told_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "small.toml", SMALL);
    // The page alone is larger.
    let script = "$weir sim small.toml --out small/out --record ..";
    let Some(output) = on_a_small_disk(folder.path(), "150k", script) else { return };
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot write small/out/") && told.contains("No space left"), "{told}");
    assert!(!text(&output.stdout).contains("Report"), "{output:?}");
    assert_whole(&folder.path().join("kept"));
}

#[test]
fn a_file_that_may_not_grow_is_told_as_a_full_disk_is() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "small.toml", SMALL);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 100; exec \"$weir\" sim small.toml --out out --record .."]);
    let output = command.env("weir", WEIR).current_dir(folder.path()).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot write") && told.contains("File too large"), "{told}");
}

#[test]
fn a_sweep_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = "run.seeds = 60\n[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\n";
    let scenario = file(folder.path(), "swept.toml", &format!("{}{sweep}", SMALL.replace("3s", "1s")));
    // A file of a run takes a page; the probe needs sixteen for a moment.
    let script = "$weir sweep swept.toml --out small/out; echo first $?
        ls small/out/points | wc -l; ls small/out; mount -o remount,size=8m small
        $weir sweep swept.toml --out small/out; echo second $?";
    let Some(output) = on_a_small_disk(folder.path(), "160k", script) else { return };
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("first 1\n") && said.contains("second 0\n"), "{said}{told}");
    assert!(told.contains("cannot write small/out/points/") && told.contains("No space left"), "{told}");
    assert!(told.contains("No space left"), "{told}");
    let after = said.split("first 1\n").nth(1).unwrap();
    let finished: usize = after.lines().next().unwrap().trim().parse().unwrap();
    assert!((1..120).contains(&finished), "{said}");
    assert!(!after.lines().any(|line| line == "table.csv"), "no table of half a sweep: {said}");
    assert!(said.contains(&format!("{} runs made, {finished} found, 0 missing", 120 - finished)), "{said}");
    let kept = folder.path().join("kept/out");
    let whole = folder.path().join("whole");
    done(&format!("sweep {} --out {}", scenario.display(), whole.display()));
    assert_eq!(tree(&kept), tree(&whole));
}

#[cfg(feature = "live")]
#[test]
fn a_configuration_that_does_not_fit_leaves_the_one_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo old > small/home.toml; head -c 200k /dev/zero > small/filler 2>/dev/null
        told='--yes --a a --b b --rate 40Mbit/s'
        $weir init small/home.toml --force $told >&2; echo forced $?
        $weir init small/new.toml $told >&2; echo new $?
        rm small/filler; $weir init small/home.toml --force $told >&2; echo again $?";
    let Some(output) = on_a_small_disk(folder.path(), "100k", script) else { return };
    let told = text(&output.stderr);
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), ["forced 1", "new 1", "again 0"], "{told}");
    assert_eq!(told.matches("No space left").count(), 2, "{told}");
    let kept = tree(&folder.path().join("kept"));
    let files: Vec<_> = kept.keys().map(|name| name.display().to_string()).collect();
    assert_eq!(files, ["home.toml"], "{told}");
    assert!(kept.values().all(|bytes| text(bytes).contains("rate = \"40Mbit/s\"")), "{told}");
}
