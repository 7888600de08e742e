//! What `weir lab` shows while it runs: on a terminal (made by `script`), and elsewhere.
//!
//! Needs root, iperf3 and util-linux; skipped where they are missing.

#[path = "../../lab/tests/skipped/mod.rs"]
mod skipping;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// One run at a time; none where none can be.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let diagnosis = Command::new(WEIR).args(["--json", "doctor"]).output().unwrap().stdout;
    let diagnosis: serde_json::Value = serde_json::from_slice(&diagnosis).unwrap();
    let has_script = Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok();
    if diagnosis["can"]["lab"] != true || !has_script {
        skipping::skipped("needs what `weir lab` needs, and `script`");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(|e| e.into_inner()))
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("weir-live-{name}-{}", std::process::id())))
    }

    /// A short run.
    fn arguments(&self, seconds: u32) -> Vec<String> {
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/gsp_smoke.toml");
        let duration = format!("run.duration={seconds}s");
        let out = self.0.display().to_string();
        let words = ["lab", scenario, "--set", &duration, "--set", "run.warmup=0s", "--out", &out];
        words.map(String::from).to_vec()
    }

    /// The run on a terminal of its own, which tells the exit status and the terminal's modes at the end.
    fn on_terminal(&self, seconds: u32, columns: u32) -> Child {
        let run = self.arguments(seconds).join("' '");
        // `trap` lets the shell outlive Ctrl-C, to tell.
        let line = format!(
            "trap : INT; stty rows 24 cols {columns}; stty -g; '{WEIR}' '{run}'; echo \"status=$?\"; stty -g"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &format!("sh -c '{}'", line.replace('\'', "'\\''")), "/dev/null"]);
        command.env("TERM", "xterm-256color").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads what a terminal shows until `wanted` is there, or until the end for an empty `wanted`.
fn read_until(child: &mut Child, seen: &mut String, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let stdout = child.stdout.as_mut().unwrap();
    let mut bytes = [0; 4096];
    while Instant::now() < deadline && (wanted.is_empty() || !seen.contains(wanted)) {
        match stdout.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(n) => seen.push_str(&String::from_utf8_lossy(&bytes[..n])),
        }
    }
}

fn press_ctrl_c(child: &mut Child) {
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all(b"\x03").unwrap();
    stdin.flush().unwrap();
}

/// Checks that the terminal was given back as it was, and returns what was said after that.
fn after(seen: &str) -> &str {
    assert_eq!(seen.matches(ENTER).count(), 1, "{seen}");
    let (_, after) = seen.rsplit_once(LEAVE).unwrap_or_else(|| panic!("never left: {seen}"));
    let before = seen.lines().next().unwrap().trim();
    assert_eq!(after.lines().last().unwrap().trim(), before, "the modes of the terminal: {after}");
    after
}

#[test]
fn ctrl_c_ends_a_live_view_and_the_results_stay() {
    let Some(_turn) = turn() else { return };
    let (folder, mut seen) = (Folder::new("once"), String::new());
    let mut child = folder.on_terminal(30, 80);
    read_until(&mut child, &mut seen, "Throughput");
    std::thread::sleep(Duration::from_secs(2));
    press_ctrl_c(&mut child);
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    let after = after(&seen);
    assert!(after.contains("status=130") && after.contains("of 30.0 s: "), "{after}");
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_gives_the_terminal_back() {
    let Some(_turn) = turn() else { return };
    let (folder, mut seen) = (Folder::new("twice"), String::new());
    let mut child = folder.on_terminal(30, 80);
    read_until(&mut child, &mut seen, "Throughput");
    press_ctrl_c(&mut child);
    std::thread::sleep(Duration::from_millis(5));
    press_ctrl_c(&mut child);
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    assert!(after(&seen).contains("status=130"), "{seen}");
    let _ = Command::new(WEIR).args(["doctor", "--clean"]).output();
}

#[test]
fn a_tiny_terminal_gets_lines() {
    let Some(_turn) = turn() else { return };
    let (folder, mut seen) = (Folder::new("tiny"), String::new());
    let mut child = folder.on_terminal(3, 40);
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    assert!(!seen.contains(ENTER) && seen.contains("status=0") && seen.contains("of 3 s"), "{seen}");
}

#[test]
fn with_json_lines_go_to_standard_error() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new("json");
    let output = Command::new(WEIR).arg("--json").args(folder.arguments(3)).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["links"].is_array() && summary["interrupted"] == false, "{summary}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("of 3 s") && !said.contains('\u{1b}'), "{said}");
}
