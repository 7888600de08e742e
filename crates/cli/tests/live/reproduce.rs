//! `weir reproduce` with real TCP, in its short form.

use crate::skipping;

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `weir reproduce` with real TCP in its short form, and the folder of its results; none where it cannot run.
fn short_form(name: &str, words: &[&str]) -> Option<(PathBuf, Command)> {
    if !skipping::can_run_live(&["ip", "tc"]) {
        return None;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&out);
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["--json", "reproduce"]).args(words).args(["--arm", "lab", "--quick", "--out"]).arg(&out);
    Some((out, weir))
}

/// Counts that hold on any machine: what a busy one disturbs is told in the results and judged nowhere here.
#[test]
fn avq_runs_with_real_tcp_and_leaves_open_what_the_kernel_cannot_decide() {
    let Some((out, mut weir)) = short_form("avq-lab", &["avq", "--experiment", "1"]) else { return };
    let output = weir.output().expect("weir starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let claims = result["claims"].as_array().unwrap_or_else(|| panic!("{result}: {said}"));
    let losses =
        claims.iter().find(|c| c["text"].as_str().is_some_and(|t| t.contains("loses 10"))).expect("D1");
    assert!(
        losses["undecided"] == true && losses["cause"].as_str().unwrap().contains("two packets"),
        "{losses}"
    );
    let run = &result["runs"][0];
    assert!(run["host"]["stalled_share"].is_number() && run.get("trace_hash").is_none(), "{run}");
    let spans = run["spans"].as_array().expect("spans");
    assert_eq!(spans.iter().map(|s| s["flows"].as_u64()).collect::<Vec<_>>(), [Some(180); 2]);
    for span in spans {
        let of = |key: &str| span[key].as_f64().unwrap_or_else(|| panic!("{key}: {span}"));
        assert!((0.3..=1.01).contains(&of("utilization")), "{span}");
        assert!(of("goodput") > 200.0 && of("goodput") <= 1.1 * 1250.0, "{span}");
        assert!(of("discarded") > 0.0 && of("marked") == 0.0, "drops, as the flows have no ECN: {span}");
        assert!(of("queue") > 0.0 && of("queue") < 110.0, "{span}");
    }
    let samples = out.join("avq-experiment1-lab-quick/experiment1-avq-samples.csv");
    assert!(samples.is_file(), "{}", samples.display());
}

/// Namespaces of a process, of the last part of their name and its number.
fn namespaces(pid: u32) -> Vec<String> {
    let folder = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = folder.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("weir-{pid}-"))).collect()
}

/// Two runs have namespaces at once, and an end that is asked for leaves nothing behind: by Ctrl-C, which
/// reaches all processes of a terminal's group, while namespaces are still built.
#[test]
fn runs_are_made_side_by_side_and_end_together() {
    let words = ["asqm", "--figure", "4-15", "--jobs", "2"];
    let Some((_, mut weir)) = short_form("asqm-lab", &words) else { return };
    weir.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut weir = weir.spawn().expect("weir starts");
    let pid = weir.id();
    let of_role = || namespaces(pid).iter().filter(|name| name.contains("-gwy")).count();
    // Other tests may have their turns before.
    let until = Instant::now() + Duration::from_secs(900);
    while of_role() < 2 {
        assert!(Instant::now() < until && weir.try_wait().unwrap().is_none(), "{:?}", namespaces(pid));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", "--", &format!("-{pid}")]).status().unwrap().success());
    let output = weir.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), namespaces(pid)), (Some(130), Vec::new()), "{said}");
    assert!(said.contains("[1/2] CoDel, peak") && said.contains("[2/2] ASQM, peak"), "{said}");
}
