//! `weir characterize`, in its short form: verdicts, files, the same bytes each time, and refusals.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::program;

use program::{done, refused, weir};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn characterize(arguments: &str, out: &Path) -> Value {
    let text = done(&format!("characterize {arguments} --quick --json --out {}", out.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn verdict<'a>(result: &'a Value, aspect: &str) -> &'a str {
    let findings = result["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|f| f["aspect"] == aspect).unwrap_or_else(|| panic!("{aspect}"));
    finding["verdict"].as_str().expect("a word")
}

#[test]
fn an_algorithm_and_none_are_told_apart_and_bytes_stay() {
    let outs = ["characterize1", "characterize2"].map(folder);
    let results = outs.each_ref().map(|out| characterize("codel --seed 3", out));
    assert_eq!(results[0]["experiments"], results[1]["experiments"]);
    let pages = outs.each_ref().map(|out| std::fs::read(out.join("report.html")).expect("a page"));
    assert!(pages[0] == pages[1], "pages differ");
    let codel = &results[0];
    assert_eq!(codel["experiments"].as_array().map(Vec::len), Some(31));
    assert_eq!(verdict(codel, "two managed queues in a row"), "good");
    assert_eq!(verdict(codel, "full link with long-lived flows"), "breaks");
    assert_eq!(verdict(codel, "ECN instead of losses"), "good");
    assert_eq!(verdict(codel, "flood of datagrams"), "breaks");
}

#[test]
fn tail_drop_beside_itself_has_no_advantage() {
    let result = characterize("tail_drop --set aqm.limit=60s", &folder("characterize3"));
    for experiment in result["experiments"].as_array().expect("experiments") {
        assert_eq!(experiment["aqm"]["trace_hash"], experiment["tail_drop"]["trace_hash"], "{experiment}");
    }
    assert_eq!(verdict(&result, "short queue with long-lived flows"), "breaks");
    assert_eq!(verdict(&result, "ECN instead of losses"), "breaks");
    assert_eq!(verdict(&result, "full link with long-lived flows"), "good");
}

#[test]
fn a_policy_steers_it() {
    let out = folder("characterize4");
    let result = characterize("gsp --set policy.target_max=30ms", &out);
    assert!(
        result["summary"].as_str().is_some_and(|s| s.starts_with("gsp, steered is good at: ")),
        "{result}"
    );
    assert!(
        result["parameters"].as_str().is_some_and(|s| s.ends_with("policy.target_max = 30ms")),
        "{result}"
    );
}

/// The page says that it goes for a discipline that brings its own algorithm, and calls FQ-CoDel by its name
/// elsewhere.
#[test]
fn disciplines_of_the_page_are_characterized() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/characterize.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for (n, name) in ["dualpi2", "fq_codel"].into_iter().enumerate() {
        assert!(page.contains(&format!("    weir characterize {name}")), "{name}");
        let result = characterize(name, &folder(&format!("characterize_discipline{n}")));
        assert_eq!(result["experiments"].as_array().map(Vec::len), Some(31), "{name}");
        let marks = verdict(&result, "ECN instead of losses");
        assert_eq!(marks, "good", "{name} marks, where tail drop has no ECN");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_runs() {
    assert!(refused("characterize coddel", 2).contains("did you mean `codel`?"));
    let told = refused("characterize codel --set aqm.tarket=5ms", 2);
    assert!(told.contains("--set aqm.tarket=5ms") && told.contains("`target`"), "{told}");
    assert!(refused("characterize codel --set link.rate=1Gbit/s", 2).contains("data/scenarios/rfc7928_"));
    assert!(refused("characterize codel --rate 10Gbit/s", 2).contains("--rate 10Gbit/s: choose one from"));
    assert!(refused("characterize hull --set policy.target_max=30ms", 2).contains("no set point"));
    assert_eq!(weir("characterize").status.code(), Some(2));
}
