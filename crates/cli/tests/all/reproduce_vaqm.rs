//! `weir reproduce vaqm`, in its short form: claims, files, the same bytes each time.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn weir(out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["reproduce", "vaqm", "--quick", "--json", "--arm", "sim", "--out"]);
    // Nothing is found beside the program: it brings its traces.
    command.arg(out).current_dir("/").output().expect("weir starts")
}

fn result(run: &Output) -> Value {
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

#[test]
fn the_short_form_judges_the_claims_draws_the_charts_and_writes_the_same_bytes() {
    let outs = ["vaqm-first", "vaqm-second"].map(folder);
    let [first, second] = outs.each_ref().map(|out| weir(out));
    let (result, again) = (result(&first), result(&second));
    assert_eq!(result["runs"], again["runs"]);
    // What a user notices: a row for each form of vAQM.
    assert_eq!(result["noticed"].as_array().map(Vec::len), Some(4));
    assert_eq!(result["noticed"], again["noticed"]);
    assert_eq!(result["runs"][0]["trace_hash"].as_str().map(str::len), Some(16));
    assert_eq!((&result["interrupted"], result["out"].is_string()), (&Value::from(false), true));
    let claims = result["claims"].as_array().expect("claims");
    for (id, count) in [("C1", 18), ("C2", 6), ("C3", 2), ("C4", 4), ("C5", 2)] {
        assert_eq!(claims.iter().filter(|c| c["id"] == id).count(), count, "{id}");
    }
    // Whatever 20 s make of the others: this is what it is for.
    let shortened = |c: &&Value| c["expected"] == "at least 2.5 times";
    assert_eq!(claims.iter().filter(shortened).filter(|c| c["held"] == true).count(), 6, "{claims:?}");
    let all_held = claims.iter().all(|c| c["held"] == true);
    assert_eq!(first.status.code(), Some(i32::from(!all_held)));
    let [first, second] = outs.map(|out| out.join("vaqm-sim-quick"));
    for file in [
        "rtt-strong.svg",
        "rtt-weak.svg",
        "pages.svg",
        "result.json",
        "table1.csv",
        "table2.csv",
        "table3.csv",
    ] {
        assert!(first.join(file).is_file(), "{file}");
    }
    let page = |folder: &Path| std::fs::read(folder.join("report.html")).expect("a report");
    assert!(page(&first) == page(&second), "the reports differ");
}
