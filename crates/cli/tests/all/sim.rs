//! `weir sim` as it is used.

use crate::program;

use program::*;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn json(arguments: &str) -> Value {
    serde_json::from_str(&done(&format!("--json {arguments}"))).unwrap()
}

/// The table of a CSV file: header and rows.
pub(crate) fn csv(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|l| l.split(',').map(str::to_string).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

/// A network of more links than anybody reads: the table and the page show the slow ones, the files have all.
#[test]
fn of_many_links_the_slowest_are_shown_and_all_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"wide\"\nlink.rate = \"10Mbit/s\"\naqm.name = \"codel\"\n\
        network = { dumbbell = 12, delay = \"5ms\" }\nflows = [{ pairs = \"each\" }]\nrun.duration = \"2s\"\n";
    let (scenario, out) = (file(folder.path(), "wide.toml", text), folder.path().join("out"));
    let told = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(told.contains("of 50 links the 40 with the longest 95 % delay are shown"), "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with("wide ")).count(), 40, "{told}");
    let (header, rows) = csv(&out.join("samples.csv"));
    assert_eq!((header[0].as_str(), header[1].as_str(), rows.len()), ("link", "t_s", 50 * 20));
    assert_eq!(rows[0][0], "bottleneck");
    let summary: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    let links = summary["links"].as_array().unwrap();
    assert_eq!((links.len(), &links[0]["flows"], &links[2]["flows"]), (50, &12.into(), &1.into()));
    assert_eq!(fs::read_to_string(out.join("report.html")).unwrap().matches("data-chart=").count(), 40);
    // What was written can be run again, and is the same network.
    let copy = done(&format!("sim {} --out {}.again", out.join("scenario.toml").display(), out.display()));
    assert!(copy.contains(summary["trace_hash"].as_str().unwrap()), "{copy}");
}

#[test]
fn a_run_gives_the_same_bytes_again_and_all_files_of_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let run = |out: &str| {
        let out = folder.path().join(out);
        let json = json(&format!("sim {} --out {} --record 1s..2s", scenario.display(), out.display()));
        (json, tree(&out))
    };
    let ((a, files), (b, again)) = (run("a"), run("b"));
    assert_eq!(files, again);
    assert_eq!((&a["trace_hash"], &a["seed"], &a["arm"]), (&b["trace_hash"], &Value::from(1), &"sim".into()));
    assert!(a["trace_hash"].as_str().is_some_and(|h| u64::from_str_radix(h, 16).is_ok()), "{a}");
    let names: Vec<&str> = files.keys().map(|path| path.to_str().unwrap()).collect();
    let expected = [
        ".weir-files",
        "bottleneck.pcapng",
        "chart.svg",
        "decisions.csv",
        "distributions.csv",
        "events.csv",
        "flows.csv",
        "histograms.csv",
        "report.html",
        "samples_bottleneck.csv",
        "scenario.toml",
        "summary.json",
    ];
    assert_eq!(names, expected);
    let summary: Value = serde_json::from_slice(&files[Path::new("summary.json")]).unwrap();
    assert_eq!(summary["trace_hash"], a["trace_hash"]);
    // Looking on changes nothing, and another seed is another run.
    let plain = json(&format!("sim {} --out {0}.plain", scenario.display()));
    assert_eq!(plain["trace_hash"], a["trace_hash"]);
    let other = json(&format!("sim {} --seed 2 --out {0}.out", scenario.display()));
    assert_ne!(other["trace_hash"], a["trace_hash"]);
}

#[test]
fn one_more_algorithm_is_explained_and_simulated_without_a_change() {
    assert!(done("explain every_nth").contains("every_nth"));
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "nth.toml", &SMALL.replace("codel", "every_nth"));
    let out = folder.path().join("out");
    let arguments = format!("sim {} --out {}", scenario.display(), out.display());
    assert!(json(&arguments)["trace_hash"].is_string());
}

/// The algorithm of `examples/outside`, whose file the build took into the list.
#[test]
fn an_algorithm_of_another_crate_is_in_every_verb_of_the_simulator() {
    assert!(done("list").contains("ramp") && done("explain ramp").contains("steep"));
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/outside/study.toml");
    done(&format!("sweep {study} --set run.duration=4s --out {}", out("study")));
    let (header, rows) = csv(&folder.path().join("study/table.csv"));
    let column = |name: &str| header.iter().position(|h| h == name).unwrap_or_else(|| panic!("{header:?}"));
    let of = |aqm: &str| rows.iter().filter(|row| row[column("aqm.name")] == aqm).count();
    assert_eq!((of("ramp"), of("codel")), (2, 2));
    done(&format!("plot {} --out {}", out("study"), out("fig/delay")));
    assert!(fs::read_to_string(folder.path().join("fig/delay.svg")).unwrap().contains("ramp"));
    let steered = refused(&format!("sim {study} --set aqm.name=ramp --set aqm.steep=0s"), 2);
    assert!(steered.contains("aqm.steep"), "{steered}");
}

#[test]
fn decisions_and_packets_are_those_of_the_period() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("out");
    let run = |more: &str| {
        let json = json(&format!("sim {} --out {} {more}", scenario.display(), out.display()));
        let (header, rows) = csv(&out.join("decisions.csv"));
        (json, header, rows)
    };
    let (whole, header, rows) = run("--record ..");
    let count = |name: &str| whole["links"][0][name].as_u64().unwrap();
    let signals = count("drops") + count("overflows") + count("marks");
    assert!(signals > 3, "{whole}");
    assert_eq!(rows.len() as u64, signals);
    assert!(header.len() > 7 && header.iter().any(|h| h == "count"), "inner variables: {header:?}");
    assert_eq!(whole["records"], serde_json::json!(["decisions.csv", "bottleneck.pcapng"]));
    let packets = fs::metadata(out.join("bottleneck.pcapng")).unwrap().len();
    let (_, _, part) = run("--record 1s..2s");
    let within = |row: &&Vec<String>| (1.0..2.0).contains(&row[0].parse::<f64>().unwrap());
    assert_eq!(part, rows.iter().filter(within).cloned().collect::<Vec<_>>());
    assert!(!part.is_empty() && part.len() < rows.len(), "{} of {}", part.len(), rows.len());
    let fewer = fs::metadata(out.join("bottleneck.pcapng")).unwrap().len();
    assert!(fewer > 1000 && fewer < packets / 2, "{fewer} of {packets}");
    // The table of the scenario does the same.
    run("--set record.decisions=true --set record.from=1s --set record.to=2s");
    assert_eq!(csv(&out.join("decisions.csv")).1, part);
}

#[test]
fn the_copy_of_a_scenario_runs_again_with_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "traces/radio.trace", "1\n1\n3\n7\n8\n");
    let text = SMALL.replace("rate = \"10Mbit/s\"", "trace = \"traces/radio.trace\"");
    let scenario = file(folder.path(), "radio.toml", &text);
    let out = folder.path().join("out");
    let first = json(&format!("sim {} --set run.seeds=2 --out {}", scenario.display(), out.display()));
    fs::remove_dir_all(folder.path().join("traces")).unwrap();
    let copy = out.join("radio-2/scenario.toml");
    let again =
        json(&format!("sim {} --seed 2 --out {}", copy.display(), folder.path().join("again").display()));
    assert_eq!(again["trace_hash"], first["runs"][1]["trace_hash"]);
    assert_ne!(again["trace_hash"], first["runs"][0]["trace_hash"]);
}

#[test]
fn the_copy_of_a_scenario_runs_again_with_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = "[[objects]]\nname = \"document\"\nsize = \"30kB\"\nserver = \"20ms\"\n";
    file(folder.path(), "pages/one.toml", page);
    let text = SMALL.replace("count = 2 }", "count = 2 }, { page = { file = \"pages/one.toml\" } }");
    let scenario = file(folder.path(), "pages.toml", &text);
    let out = folder.path().join("out");
    let first = json(&format!("sim {} --out {}", scenario.display(), out.display()));
    file(folder.path(), "pages/one.toml", &page.replace("20ms", "40ms"));
    let other = json(&format!("sim {} --out {}", scenario.display(), folder.path().join("b").display()));
    assert_ne!(other["trace_hash"], first["trace_hash"]);
    fs::remove_dir_all(folder.path().join("pages")).unwrap();
    let copy = out.join("scenario.toml").display().to_string();
    let again = json(&format!("sim {copy} --out {}", folder.path().join("again").display()));
    assert_eq!(again["trace_hash"], first["trace_hash"]);
}

#[test]
fn runs_have_as_many_seeds_as_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let hashes = |name: &str, more: &str| {
        let out = folder.path().join(name);
        let all = json(&format!("sim {} --out {} {more}", scenario.display(), out.display()));
        let runs = all["runs"].as_array().unwrap().iter();
        runs.map(|run| (run["seed"].as_u64().unwrap(), run["trace_hash"].clone())).collect::<Vec<_>>()
    };
    let three = hashes("a", "--seeds 3");
    assert_eq!(three.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(hashes("b", "--set run.seeds=3"), three);
    assert_eq!(hashes("c", "--seed 2 --seeds 2"), three[1..]);
    assert!(refused(&format!("sim {} --seeds 0", scenario.display()), 2).contains("--seeds"));
}

#[test]
fn several_files_points_and_seeds_are_run_and_summarised() {
    let folder = tempfile::tempdir().unwrap();
    let swept = format!("{SMALL}sweep.\"aqm.target\" = [\"2ms\", \"10ms\"]\nrun.seeds = 3\n");
    let (a, b) = (file(folder.path(), "a.toml", &swept), file(folder.path(), "b.toml", SMALL));
    let out = folder.path().join("out");
    let all = json(&format!("sim {} {} --out {}", a.display(), b.display(), out.display()));
    assert_eq!(all["runs"].as_array().unwrap().len(), 7);
    assert_eq!((&all["runs"][4]["seed"], &all["interrupted"]), (&Value::from(2), &Value::from(false)));
    let (header, rows) = csv(&out.join("summary.csv"));
    assert_eq!(rows.len(), 3);
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let number = |row: usize, name: &str| rows[row][column(name)].parse::<f64>().unwrap();
    assert_eq!((number(0, "seeds"), number(2, "seeds")), (3.0, 1.0));
    let delays: Vec<f64> =
        (0..3).map(|i| all["runs"][i]["links"][0]["delay_ms"]["mean"].as_f64().unwrap()).collect();
    let mean = (delays[0] + delays[1] + delays[2]) / 3.0;
    assert_eq!(number(0, "delay_mean_ms_mean"), mean);
    let deviation = delays.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / 2.0;
    let half = 4.302_653 * (deviation / 3.0).sqrt();
    assert!((number(0, "delay_mean_ms_ci95") - half).abs() < 1e-9 && half > 0.0);
    assert_eq!(rows[2][column("delay_mean_ms_ci95")], "", "a single run has no interval");
    assert!(out.join("report.html").exists() && out.join("a-aqm.target_2ms-1/summary.json").exists());
    let text = done(&format!("sim {} --out {}", a.display(), out.display()));
    assert!(text.contains("±") && text.contains("95 % confidence") && text.contains("Trace hash"), "{text}");
}

#[test]
fn control_characters_in_a_title_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "red.toml", &SMALL.replace("small", "\\u001b[31mred"));
    let out = folder.path().join("out");
    let text = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(text.contains("Trace hash") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn objectives_are_among_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let named = "run.objectives = [\"value = utilization - 0.01 * delay_p95_ms\", \"twice = 2 * value\", \"none = log(0 * value)\"]\n";
    let scenario =
        file(folder.path(), "small.toml", &SMALL.replace("run.duration", &format!("{named}run.duration")));
    let out = folder.path().join("out");
    let told = json(&format!("sim {} --out {}", scenario.display(), out.display()));
    let written: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    let link = &written["links"][0];
    let value = link["utilization"].as_f64().unwrap() - 0.01 * link["delay_ms"]["p95"].as_f64().unwrap();
    let wanted = serde_json::json!({ "value": value, "twice": 2.0 * value, "none": null });
    assert_eq!((&written["objectives"], &told["objectives"]), (&wanted, &wanted));
    // Who asks for none has none.
    let scenario = file(folder.path(), "none.toml", SMALL);
    let told = json(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(told.get("objectives").is_none(), "{told}");
}

#[test]
fn an_objective_of_a_column_that_is_none_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let run = weir(&format!(
        "sim {} --set run.objectives=[\"power=goodput_bps/nope\"] --out {}",
        scenario.display(),
        folder.path().join("out").display()
    ));
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(told.contains("objective `power`: no run has a column `nope`"), "{told}");
    let run = weir(&format!(
        "sim {} --set run.objectives=[\"power=goodput_bps/0\",\"more=power+1\",\"fine=goodput_bps\"] --out {}",
        scenario.display(),
        folder.path().join("other").display()
    ));
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(told.contains("objective `power` has no value, as the result is no finite number"), "{told}");
    assert!(told.contains("objective `more` has no value, as `power` has none"), "{told}");
    assert!(!told.contains("`fine`"), "{told}");
}

#[test]
fn wrong_input_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let scenario = scenario.display();
    let told = refused(&format!("sim {scenario} --set flows.0.congestion=vegas"), 2);
    assert!(told.contains("key `flows.0.congestion`: the simulator has no congestion control `vegas`; choose one of: reno, cubic"), "{told}");
    let told = refused(&format!("sim {scenario} --set run.lenght=5s"), 2);
    assert!(told.contains("run.length") || told.contains("lenght"), "{told}");
    assert!(refused("sim nothing.toml", 2).contains("nothing.toml"));
    assert!(refused(&format!("sim {scenario} --record 2s..1s"), 2).contains("write it like 10s..12s"));
    assert!(refused(&format!("sim {scenario} --record 9s.."), 2).contains("start earlier, or run longer"));
    let told = refused(&format!("sim {scenario} --out {scenario}/out"), 1);
    assert!(told.contains("small.toml/out") && told.contains("--out"), "{told}");
    let told = refused(&format!("--json sim {scenario} --out {scenario}/out"), 1);
    assert!(told.contains("cannot create"), "{told}");
    // Of a run that cannot be written nothing stays.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_run_ends_with_what_was_simulated_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "long.toml", SMALL);
    let out = folder.path().join("out");
    let mut command = Command::new(WEIR);
    command.args(["sim", "--set", "run.duration=86400s", "--set", "link.rate=1Gbit/s"]).arg(&scenario);
    let mut child = command.arg("--out").arg(&out).stdout(Stdio::piped()).spawn().unwrap();
    // Work that takes more than a moment tells how far it is.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("% simulated, 0 of 1 runs")));
    // SAFETY: the process is ours and has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let summary: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["interrupted"], true);
    assert!(summary["links"][0]["packets"].as_u64().unwrap() > 1000, "{summary}");
    assert!(summary["warnings"][0].as_str().unwrap().starts_with("interrupted at"), "{summary}");
}

#[test]
fn a_folder_holds_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("out");
    let run = |more: &str| done(&format!("sim {} --out {} {more}", scenario.display(), out.display()));
    let mine = |out: &Path| {
        let mut names: Vec<String> = tree(out).into_keys().map(|p| p.display().to_string()).collect();
        names.retain(|name| name != "notes.csv" && name != "mine.pcapng");
        names
    };
    run("");
    let plain = mine(&out);
    // What a user keeps there stays, and what was killed leaves nothing.
    file(&out, "notes.csv", "mine");
    file(&out, "mine.pcapng", "mine");
    file(&out, ".weir-4294967295-7.tmp", "half");
    run("--record ..1s");
    assert_eq!(mine(&out).len(), plain.len() + 2);
    run("--set run.seeds=3");
    let several = mine(&out);
    assert!(several.contains(&"small-3/summary.json".into()) && !several.contains(&"summary.json".into()));
    run("--set run.seeds=2");
    assert!(!out.join("small-3").exists() && out.join("small-2/summary.json").exists());
    run("");
    assert_eq!(mine(&out), plain);
    assert_eq!(fs::read_to_string(out.join("mine.pcapng")).unwrap(), "mine");
}

/// Killed at any moment, a folder with a summary has all files of one run and no others.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_nothing_that_looks_whole() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("out");
    let command = |seed: u32| {
        let mut command = Command::new(WEIR);
        command.arg("sim").arg(&scenario).arg("--out").arg(&out).args(["--seed", &seed.to_string()]);
        command.stdout(Stdio::null());
        command
    };
    let start = std::time::Instant::now();
    assert!(command(0).status().unwrap().success());
    let whole = start.elapsed();
    let names: Vec<_> = tree(&out).into_keys().collect();
    let mut left_whole = 0;
    for attempt in 1..=20 {
        let mut child = command(attempt).spawn().unwrap();
        std::thread::sleep(whole * attempt / 20);
        child.kill().unwrap();
        child.wait().unwrap();
        let Ok(summary) = fs::read(out.join("summary.json")) else {
            // Killed while it wrote. The next one finds a whole run again.
            assert!(command(0).status().unwrap().success());
            continue;
        };
        left_whole += 1;
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let samples = fs::read(out.join("samples_bottleneck.csv")).unwrap();
        let again = folder.path().join("again");
        let seed = summary["seed"].as_u64().unwrap();
        done(&format!("sim {} --out {} --seed {seed}", scenario.display(), again.display()));
        assert!(samples == fs::read(again.join("samples_bottleneck.csv")).unwrap(), "files of two runs");
    }
    // It computes for longer than it writes.
    assert!(left_whole >= 10, "{left_whole} of 20");
    assert!(command(0).status().unwrap().success());
    assert_eq!(tree(&out).into_keys().collect::<Vec<_>>(), names, "what the killed left is gone");
}

#[test]
fn a_record_that_reaches_its_size_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("out");
    let command = format!("sim {} --out {} --record ..", scenario.display(), out.display());
    let whole = json(&command);
    assert!(whole.get("truncated").is_none() && whole["warnings"].as_array().unwrap().is_empty(), "{whole}");
    let cut = json(&format!("{command} --set record.size_max=100kB"));
    assert_eq!(cut["truncated"][0]["file"], "bottleneck.pcapng");
    let at_s = cut["truncated"][0]["at_s"].as_f64().unwrap();
    assert!((0.1..2.0).contains(&at_s), "{cut}");
    let warning = cut["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("bottleneck.pcapng ends after") && warning.contains("raise record.size_max"),
        "{warning}"
    );
    assert!(fs::metadata(out.join("bottleneck.pcapng")).unwrap().len() <= 100_000);
    assert!(done(&format!("{command} --set record.size_max=100kB")).contains("record.size_max"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let mut command = Command::new(WEIR);
    command.arg("sim").arg(&scenario).arg("--out").arg(folder.path().join("out"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), String::new()));
}
