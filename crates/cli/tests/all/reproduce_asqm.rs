//! `weir reproduce asqm`, in its short form: claims, files, the same bytes each time.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn weir(figure: &str, out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["reproduce", "asqm", "--quick", "--json", "--arm", "sim", "--figure", figure, "--out"]);
    command.arg(out).output().expect("weir starts")
}

fn result(run: &Output) -> Value {
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

#[test]
fn the_short_form_judges_the_claims_and_draws_the_figures() {
    let out = folder("asqm-all");
    let run = weir("all", &out);
    let result = result(&run);
    let claims = result["claims"].as_array().expect("claims");
    for (id, count) in [
        ("B1", 2),
        ("B2", 1),
        ("B3", 2),
        ("B4", 3),
        ("B5", 2),
        ("B6", 2),
        ("B7", 3),
        ("B9", 3),
        ("B10", 2),
        ("B11", 5),
        ("B12", 4),
        ("B13", 3),
        ("B14", 3),
    ] {
        assert_eq!(claims.iter().filter(|c| c["id"] == id).count(), count, "{id}");
    }
    // Whatever the short form makes of the others: this is what sensing is for.
    let held = |id: &str| claims.iter().filter(|c| c["id"] == id).all(|c| c["held"] == true);
    assert!(held("B1") && held("B2") && held("B3"), "{claims:?}");
    assert!(claims.iter().all(|c| c["paper"].is_string() && c["basis"].is_string()), "{claims:?}");
    let totals = &result["totals"];
    // Criteria of which the paper says nothing count apart.
    let own = totals["own"]["held"].as_u64().zip(totals["own"]["missed"].as_u64()).map(|(a, b)| a + b);
    assert_eq!(own, Some(claims.iter().filter(|c| c["own"] == true).count() as u64));
    assert_eq!(totals["judged"].as_u64().zip(own).map(|(a, b)| a + b), Some(claims.len() as u64));
    assert_eq!(totals["not_judgeable"][0]["id"], "B15");
    let all_held = claims.iter().all(|c| c["held"] == true);
    assert_eq!(run.status.code(), Some(i32::from(!all_held)));
    let folder = out.join("asqm-figureall-sim-quick");
    for number in 4..=15 {
        assert!(folder.join(format!("figure{number}-upload.svg")).is_file(), "figure {number}");
    }
    for file in ["report.html", "result.json", "table1.csv", "table6.csv"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
}

#[test]
fn the_same_command_writes_the_same_bytes() {
    let outs = ["asqm-first", "asqm-second"].map(folder);
    let [first, second] = outs.each_ref().map(|out| result(&weir("14", out))["runs"].clone());
    assert_eq!(first, second);
    assert_eq!(first[0]["trace_hash"].as_str().map(str::len), Some(16));
    let page =
        |out: &PathBuf| std::fs::read(out.join("asqm-figure14-sim-quick/report.html")).expect("a report");
    assert!(page(&outs[0]) == page(&outs[1]), "the reports differ");
}
