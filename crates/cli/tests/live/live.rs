//! What `weir lab` shows while it runs: on a terminal (made by `script`), and elsewhere.
//!
//! Needs root, iperf3 and util-linux; skipped where they are missing.

use crate::common::Started;
use crate::skipping::{
    self,
    judged::{Attempt, judged},
};

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
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/scenarios/gsp_smoke.toml");
        let duration = format!("run.duration={seconds}s");
        let out = self.0.display().to_string();
        let words = ["lab", scenario, "--set", &duration, "--set", "run.warmup=0s", "--out", &out];
        words.map(String::from).to_vec()
    }

    /// The run on a terminal of its own, which tells the exit status and the terminal's modes at the end.
    fn on_terminal(&self, seconds: u32, columns: u32) -> Started {
        let run = self.arguments(seconds).join("' '");
        // `trap` lets the shell outlive Ctrl-C, to tell.
        let line = format!(
            "trap : INT; stty rows 24 cols {columns}; stty -g; '{WEIR}' '{run}'; echo \"status=$?\"; stty -g"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &format!("sh -c '{}'", line.replace('\'', "'\\''")), "/dev/null"]);
        command.env("TERM", "xterm-256color").stdin(Stdio::piped()).stdout(Stdio::piped());
        Started::of(&mut command)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads what a terminal shows until `wanted` is there, or until the end for an empty `wanted`. A lab waits
/// for others that measure on this machine, such as the other tests, and then ends by itself.
fn read_until(child: &mut Child, seen: &mut String, wanted: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let mut bytes = [0; 4096];
    while wanted.is_empty() || !seen.contains(wanted) {
        match stdout.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(n) => seen.push_str(&String::from_utf8_lossy(&bytes[..n])),
        }
    }
    assert!(seen.contains(wanted), "never `{wanted}`: {seen}");
}

fn press_ctrl_c(child: &mut Child) {
    press(child, b"\x03");
}

fn press(child: &mut Child, key: &[u8]) {
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all(key).unwrap();
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
    std::thread::sleep(Duration::from_secs(1));
    press_ctrl_c(&mut child);
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    let after = after(&seen);
    assert!(after.contains("status=130") && after.contains("of 30.0 s: "), "{after}");
}

#[test]
fn a_second_ctrl_c_right_after_the_first_is_the_same_request() {
    let Some(_turn) = turn() else { return };
    let (folder, mut seen) = (Folder::new("twice"), String::new());
    let mut child = folder.on_terminal(30, 80);
    read_until(&mut child, &mut seen, "Throughput");
    std::thread::sleep(Duration::from_secs(1));
    press_ctrl_c(&mut child);
    std::thread::sleep(Duration::from_millis(5));
    press_ctrl_c(&mut child);
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    let after = after(&seen);
    assert!(after.contains("status=130") && after.contains("of 30.0 s: "), "it ended in order: {after}");
}

#[test]
fn the_view_shows_its_keys_and_q_ends_it() {
    let Some(_turn) = turn() else { return };
    let (folder, mut seen) = (Folder::new("keys"), String::new());
    let mut child = folder.on_terminal(30, 80);
    read_until(&mut child, &mut seen, "Ctrl-C or q ends");
    std::thread::sleep(Duration::from_secs(1));
    press(&mut child, b"q");
    read_until(&mut child, &mut seen, "");
    child.wait().unwrap();
    assert!(after(&seen).contains("status=130"), "{seen}");
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

#[test]
fn flows_and_samples_keep_the_clock_of_the_links_while_the_program_is_stopped() {
    let Some(_turn) = turn() else { return };
    judged(while_it_is_stopped);
}

fn while_it_is_stopped(attempt: &mut Attempt) {
    // How late it may be is several times what this changes.
    attempt.tolerates(0.05);
    const START_S: f64 = 2.0;
    const STOP_S: f64 = 4.0;
    // It may be stopped for so long just when flows are to begin or to end.
    const LONGEST_MS: u64 = 800;
    let late_s = LONGEST_MS as f64 / 1e3;
    let folder = Folder::new("stalls");
    std::fs::create_dir_all(&folder.0).unwrap();
    let (scenario, out) = (folder.0.join("stalls.toml"), folder.0.join("out"));
    let text = "title = \"stalls\"\n[link]\nrate = \"20Mbit/s\"\nbuffer = \"50ms\"\n[path]\nrtt = \"10ms\"\n\
        [aqm]\nname = \"codel\"\n[[flows]]\ncount = 1\n[[flows]]\ncount = 2\nstart = \"2s\"\nstop = \"4s\"\n\
        [run]\nduration = \"6s\"\nwarmup = \"0s\"\nsample = \"50ms\"\n";
    std::fs::write(&scenario, text).unwrap();
    let mut command = Command::new(WEIR);
    command.args(["lab".as_ref(), scenario.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    let mut child = Started::of(command.stdout(Stdio::null()).stderr(Stdio::null()));
    // A third of the time, and once for longer than a link of `weir run` waits before the kernel takes over.
    let began = Instant::now();
    let pid = child.id() as libc::pid_t;
    // SAFETY: plain integers; the child is not waited for yet, so that the number is still its own.
    let signal = |signal| assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    // It makes its namespaces when it need not wait for others any more that measure on this machine.
    let has_begun = || {
        let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let own = format!("weir-{pid}-");
        let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with(&own) && name.ends_with("-snd"))
    };
    while !has_begun() {
        assert!(child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(900));
        std::thread::sleep(Duration::from_millis(20));
    }
    attempt.begin();
    let (began, mut stopped) = (Instant::now(), Duration::ZERO);
    for stop in 0.. {
        std::thread::sleep(Duration::from_millis(500));
        if child.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_secs(40) {
            break;
        }
        let length = Duration::from_millis(if stop == 6 { LONGEST_MS } else { 250 });
        signal(libc::SIGSTOP);
        std::thread::sleep(length);
        signal(libc::SIGCONT);
        stopped += length;
    }
    assert!(child.wait().unwrap().success());
    attempt.end();
    assert!(stopped > Duration::from_millis(2000), "stopped for {stopped:?} only");
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
    let warnings = summary["warnings"].to_string();
    attempt.holds(
        format_args!("warnings {warnings}"),
        "none of frames past the queues",
        !warnings.contains("past the queue"),
    );
    let rows = std::fs::read_to_string(out.join("flows.csv")).unwrap();
    let mut acked = [0u64; 3];
    let mut moved: Vec<f64> = Vec::new();
    for row in rows.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let (t_s, flow): (f64, usize) = (cells[0].parse().unwrap(), cells[1].parse().unwrap());
        let bytes: u64 = cells[7].parse().unwrap();
        // The first packet of iperf3 on each connection is no data.
        if flow > 0 && bytes > acked[flow].max(100) {
            moved.push(t_s);
        }
        acked[flow] = bytes;
    }
    // No number, which is within no bounds, where none moved.
    let [first, last] = [moved.first(), moved.last()].map(|t_s| t_s.copied().unwrap_or(f64::NAN));
    attempt.within("data from s", first, START_S - 0.1..START_S + late_s + 0.5);
    attempt.within("data until s", last, STOP_S - 0.5..STOP_S + late_s + 0.2);
    let phases = summary["links"][0]["phases"].as_array().unwrap();
    let flows: Vec<u64> = phases.iter().map(|phase| phase["flows"].as_u64().unwrap()).collect();
    assert_eq!(flows, [1, 3, 1]);
}
