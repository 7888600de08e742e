//! `weir sweep` as it is used.

use crate::program;

use program::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two algorithms, two numbers of flows, two seeds.
fn swept(folder: &Path) -> PathBuf {
    let sweep = "run.seeds = 2\n[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\n\"flows.0.count\" = [1, 3]\n";
    file(folder, "swept.toml", &format!("{SMALL}{sweep}"))
}

/// Many runs, so that there is time to end it in between.
fn long(folder: &Path) -> PathBuf {
    let sweep = "run.seeds = 60\n[sweep]\n\"aqm.name\" = [\"gsp\", \"codel\"]\n";
    file(folder, "long.toml", &format!("{}{sweep}", SMALL.replace("10Mbit/s", "30Mbit/s")))
}

fn sweep(scenario: &Path, out: &Path, more: &str) -> String {
    done(&format!("sweep {} --out {} {more}", scenario.display(), out.display()))
}

const TABLES: [&str; 4] = ["table.csv", "table.parquet", "summary.csv", "chart.svg"];

fn tables(out: &Path) -> Vec<Vec<u8>> {
    TABLES.iter().map(|name| fs::read(out.join(name)).unwrap()).collect()
}

/// Starts a sweep and waits for its first results.
fn start(scenario: &Path, out: &Path) -> Child {
    let mut command = Command::new(WEIR);
    command.arg("sweep").arg(scenario).arg("--out").arg(out).args(["--jobs", "1"]).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while finished(out) < 5 {
        assert!(Instant::now() < deadline, "no results");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

/// Files of runs that look whole.
fn finished(out: &Path) -> usize {
    let Ok(entries) = fs::read_dir(out.join("points")) else { return 0 };
    entries.flatten().filter(|e| e.path().extension().is_some_and(|e| e == "json")).count()
}

#[test]
fn the_table_is_the_golden_one_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let said = sweep(&scenario, &one, "--jobs 1");
    assert!(said.contains("8 runs made, 0 found, 0 missing") && said.contains("±"), "{said}");
    sweep(&scenario, &two, "--jobs 2");
    assert_eq!(tree(&one), tree(&two));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sweep.csv");
    let table = fs::read_to_string(one.join("table.csv")).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &table).unwrap();
    }
    assert_eq!(
        table,
        fs::read_to_string(golden).unwrap(),
        "UPDATE_GOLDEN=1 writes it anew, if that is right"
    );
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = long(folder.path());
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    sweep(&scenario, &whole, "");
    let mut child = start(&scenario, &killed);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = finished(&killed);
    assert!((5..120).contains(&before), "{before} runs were finished");
    let said = sweep(&scenario, &killed, "");
    assert!(said.contains(&format!("{before} of 120 runs were finished before")), "{said}");
    assert!(said.contains(&format!("{} runs made, {before} found, 0 missing", 120 - before)), "{said}");
    assert_eq!(tables(&killed), tables(&whole));
    // Nothing is left to do.
    assert!(sweep(&scenario, &killed, "").contains("0 runs made, 120 found, 0 missing"));
}

#[test]
fn an_interrupted_sweep_keeps_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = long(folder.path());
    let out = folder.path().join("out");
    let mut child = start(&scenario, &out);
    // SAFETY: the process is ours and has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let kept = finished(&out);
    assert!((5..120).contains(&kept), "{kept} runs are kept");
    let rows = fs::read_to_string(out.join("table.csv")).unwrap().lines().count() - 1;
    assert_eq!(rows, kept);
}

#[test]
fn damaged_files_are_seen_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let out = folder.path().join("out");
    sweep(&scenario, &out, "");
    let before = tree(&out);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(out.join("points")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let text = fs::read_to_string(&paths[0]).unwrap();
    fs::write(&paths[0], &text[..text.len() / 2]).unwrap();
    let text = fs::read_to_string(&paths[5]).unwrap();
    assert!(text.contains("\"drops\","), "{text}");
    fs::write(&paths[5], text.replacen("\"drops\",", "\"drops\",1", 1)).unwrap();
    let output = weir(&format!("sweep {} --out {}", scenario.display(), out.display()));
    assert!(program::text(&output.stdout).contains("2 runs made, 6 found"), "{output:?}");
    assert_eq!(program::text(&output.stderr).matches("is damaged: its run is made again").count(), 2);
    assert_eq!(tree(&out), before);
}

#[test]
fn parts_together_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let at = |name: &str| folder.path().join(name);
    sweep(&scenario, &at("whole"), "");
    for part in 1..=3 {
        let said = sweep(&scenario, &at(&part.to_string()), &format!("--shard {part}/3"));
        assert!(said.contains("missing; copy the `points`"), "{said}");
    }
    fs::create_dir_all(at("all/points")).unwrap();
    for part in ["1", "2", "3"] {
        for entry in fs::read_dir(at(part).join("points")).unwrap().flatten() {
            let to = at("all/points").join(entry.file_name());
            assert!(!to.exists(), "no run is in two parts");
            fs::copy(entry.path(), to).unwrap();
        }
    }
    assert!(sweep(&scenario, &at("all"), "").contains("0 runs made, 8 found, 0 missing"));
    assert_eq!(tree(&at("all")), tree(&at("whole")));
}

#[test]
fn another_scenario_in_the_same_folder_is_refused_and_more_seeds_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let out = folder.path().join("out");
    let shown = format!("sweep {} --out {}", scenario.display(), out.display());
    done(&shown);
    let before = tree(&out);
    let told = refused(&format!("{shown} --set path.rtt=30ms"), 2);
    assert!(told.contains("it has `path.rtt = \"20ms\"` where this one has `path.rtt = \"30ms\"`"), "{told}");
    assert!(told.contains("choose another folder with --out, or remove"), "{told}");
    assert_eq!(tree(&out), before, "what is there stays");
    assert!(done(&format!("{shown} --seeds 3")).contains("4 runs made, 8 found, 0 missing"));
    assert!(done(&format!("{shown} --seeds 1")).contains("0 runs made, 4 found, 0 missing"));
}

#[test]
fn a_sweep_that_was_added_is_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let plain = file(folder.path(), "plain.toml", SMALL);
    let out = folder.path().join("out");
    let output = weir(&format!("sweep {} --out {}", plain.display(), out.display()));
    assert!(text(&output.stderr).contains("has no table [sweep]: it is a single point"), "{output:?}");
    let told = refused(&format!("sweep {} --out {}", swept(folder.path()).display(), out.display()), 2);
    assert!(
        told.contains("this one has `sweep.\"aqm.name\" = [\"gsp\", \"codel\"]`, which it does not set"),
        "{told}"
    );
}

/// Five queues as tables over three numbers of flows and three round-trip times: more series than colours.
#[test]
fn the_figure_of_a_sweep_over_tables_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let axes = "[sweep]\n\"aqm\" = [{ name = \"codel\", ecn = false }, { name = \"codel\", target = \"2ms\", ecn = false }, \
                { name = \"pie\", ecn = false }, { name = \"gsp\", ecn = false }, { name = \"pi2\", ecn = false }]\n\
                \"flows.0.count\" = [1, 2, 3]\n\"path.rtt\" = [\"10ms\", \"20ms\"]\n";
    let scenario =
        file(folder.path(), "tables.toml", &format!("{}{axes}", SMALL.replace("\"3s\"", "\"1s\"")));
    let out = folder.path().join("out");
    sweep(&scenario, &out, "");
    let chart = fs::read_to_string(out.join("chart.svg")).unwrap();
    let texts: Vec<&str> = chart.split("<text ").skip(1).map(|t| t.split('<').next().unwrap()).collect();
    let legend: Vec<(f64, &str)> = texts
        .iter()
        .filter(|t| t.contains("class=\"soft\"") && t.contains(", "))
        .map(|t| {
            let x = t.split('"').nth(1).unwrap().parse().unwrap();
            (x, t.split_once('>').unwrap().1)
        })
        .filter(|(_, t)| t.len() < 30)
        .collect();
    assert_eq!(legend.len(), 15, "{texts:?}");
    assert!(
        legend.iter().any(|(_, t)| *t == "codel 2ms, 3") && legend.iter().all(|(_, t)| !t.contains('{')),
        "{legend:?}"
    );
    assert!(legend.iter().all(|(x, t)| *x > 0.0 && x + 6.1 * (t.len() as f64) < 860.0), "{legend:?}");
    assert!(chart.contains("stroke-dasharray"), "series with a colour that was there before are dashed");
}

/// A copy of the program with a byte after its end is another program that does the same.
#[cfg(target_os = "linux")]
#[test]
fn results_of_another_program_are_computed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let out = folder.path().join("out");
    sweep(&scenario, &out, "");
    let before = tables(&out);
    let other = folder.path().join("weir");
    // By another process: a program that this one has open for writing, or a child of it, cannot be started.
    let copy = ["-c", "cp \"$1\" \"$2\" && printf x >>\"$2\"", "sh", WEIR];
    assert!(Command::new("sh").args(copy).arg(&other).status().unwrap().success());
    let of_other = |seeds: &str| {
        let mut command = Command::new(&other);
        command.arg("sweep").arg(&scenario).arg("--out").arg(&out).args(["--seeds", seeds]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    // One seed of two is taken over by the other program, which then knows its own.
    let (said, told) = of_other("1");
    assert!(said.contains("4 runs made, 0 found, 0 missing"), "{said}");
    assert!(told.contains("4 of 4 results are of another build of weir and are computed anew"), "{told}");
    let (said, told) = of_other("1");
    assert!(said.contains("0 runs made, 4 found") && !told.contains("another build"), "{said}{told}");
    let output = weir(&format!("sweep {} --out {}", scenario.display(), out.display()));
    assert!(text(&output.stdout).contains("4 runs made, 4 found, 0 missing"), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("4 of 8 results are of another build"), "{told}");
    assert_eq!(tables(&out), before);
}

/// A trace is a file beside the scenario, of which the scenario says only the name.
#[test]
fn a_trace_that_was_edited_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |more: &str| file(folder.path(), "my.trace", &format!("1\n2\n3\n5\n{more}8\n"));
    trace("");
    let text = fs::read_to_string(swept(folder.path())).unwrap();
    let text = text.replace("link.rate = \"10Mbit/s\"", "link.trace = \"my.trace\"\nlink.buffer = \"100ms\"");
    let scenario = file(folder.path(), "traced.toml", &text);
    let (out, fresh) = (folder.path().join("out"), folder.path().join("fresh"));
    assert!(sweep(&scenario, &out, "").contains("8 runs made, 0 found, 0 missing"));
    let before = tables(&out);
    // Nothing was edited.
    assert!(sweep(&scenario, &out, "").contains("0 runs made, 8 found, 0 missing"));
    trace("6\n");
    let said = sweep(&scenario, &out, "");
    assert!(said.contains("8 runs made, 0 found, 0 missing"), "results of the old trace were taken: {said}");
    sweep(&scenario, &fresh, "");
    assert_eq!(tables(&out), tables(&fresh));
    assert_ne!(tables(&out), before, "a link that is a quarter faster");
}

/// Three schemes of one axis, each of which changes several keys or takes a table out.
fn schemes(folder: &Path, more: &str) -> PathBuf {
    let text = format!(
        "{}policy.target_max = \"30ms\"\nrun.seeds = 2\n[sweep]\n\"flows.0.count\" = {{ name = \"flows\", values = [1, 3] }}\n\
         [sweep.schemes.queue]\n\"Tail drop\" = {{ aqm = {{ name = \"tail_drop\" }}, without = [\"policy\"] }}\n\
         \"FQ-CoDel\" = {{ aqm = {{ name = \"codel\" }}, queue.discipline = \"flow\", without = [\"policy\"] }}\n{more}",
        SMALL.replace("\"3s\"", "\"1s\"")
    );
    file(folder, "schemes.toml", &text)
}

#[test]
fn schemes_have_short_names_and_only_new_ones_are_computed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let two = schemes(folder.path(), "");
    let said = sweep(&two, &out, "");
    assert!(said.contains("8 runs made, 0 found, 0 missing"), "{said}");
    assert!(said.contains("FQ-CoDel") && said.contains("queue"), "{said}");
    let header =
        |out: &Path| fs::read_to_string(out.join("table.csv")).unwrap().lines().next().unwrap().to_string();
    assert!(header(&out).starts_with("point,flows,queue,seed,"), "{}", header(&out));
    let chart = fs::read_to_string(out.join("chart.svg")).unwrap();
    assert!(
        chart.contains(">FQ-CoDel<") && !chart.contains("name ="),
        "the legend has the names of the schemes"
    );
    // A third scheme, between the two: what is there is taken over though the numbers of points move.
    let text = fs::read_to_string(&two).unwrap();
    let three = text.replace("\"FQ-CoDel\" =", "\"GSP-AS\" = { aqm = { name = \"gsp\" } }\n\"FQ-CoDel\" =");
    let three = file(folder.path(), "three.toml", &three);
    let said = sweep(&three, &out, "");
    assert!(said.contains("4 runs made, 8 found, 0 missing"), "{said}");
    let fresh = folder.path().join("fresh");
    assert!(sweep(&three, &fresh, "").contains("12 runs made, 0 found"));
    assert_eq!(tables(&out), tables(&fresh), "what was taken over is what is computed");
    // More seeds: the new ones.
    assert!(sweep(&three, &out, "--seeds 3").contains("6 runs made, 12 found, 0 missing"));
    // Fewer values: nothing to do, and what is not asked for stays.
    assert!(sweep(&two, &out, "").contains("0 runs made, 8 found, 0 missing"));
    assert!(sweep(&three, &out, "").contains("0 runs made, 12 found, 0 missing"));
    // What is common to all points is another scenario.
    let told = refused(&format!("sweep {} --out {} --set path.rtt=33ms", two.display(), out.display()), 2);
    assert!(told.contains("results of another scenario") && told.contains("path.rtt"), "{told}");
}

#[test]
fn objectives_are_columns_of_the_tables_and_of_figures() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let text = fs::read_to_string(swept(folder.path())).unwrap();
    let named = "run.objectives = [\"value = utilization - 0.01 * delay_p95_ms\", \"twice = 2 * value\"]\n";
    let named = file(folder.path(), "named.toml", &text.replace("run.seeds", &format!("{named}run.seeds")));
    sweep(&named, &out, "");
    let table = fs::read_to_string(out.join("table.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    for row in table.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let number =
            |name: &str| cells[header.iter().position(|h| *h == name).unwrap()].parse::<f64>().unwrap();
        let value = number("utilization") - 0.01 * number("delay_p95_ms");
        assert_eq!((number("value"), number("twice")), (value, 2.0 * value));
    }
    let summary = fs::read_to_string(out.join("summary.csv")).unwrap();
    assert!(summary.starts_with("point,") && summary.contains(",value_mean,value_ci95,"), "{summary}");
    let stem = folder.path().join("value");
    done(&format!("plot {} --y value --out {}", out.display(), stem.display()));
    let drawn = fs::read_to_string(stem.with_extension("csv")).unwrap();
    assert_eq!(drawn.lines().count(), 5, "a line for each of four points: {drawn}");
}

#[test]
fn schemes_that_contradict_the_command_or_the_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = schemes(folder.path(), "");
    let told = refused(&format!("sweep {} --set aqm.name=pie", scenario.display()), 2);
    assert!(
        told.contains("is set by the schemes `sweep.schemes.queue` (`aqm`), which would undo it"),
        "{told}"
    );
    let wrong = schemes(folder.path(), "\"PIE\" = { aqm = { name = \"pie\" }, without = [\"polcy\"] }\n");
    let told = refused(&format!("sweep {}", wrong.display()), 2);
    assert!(
        told.contains("takes out `polcy`, which the file does not have; did you mean `policy`?"),
        "{told}"
    );
    let wrong = schemes(folder.path(), "\"PIE\" = { aqm = { name = \"pie\", tarket = \"5ms\" } }\n");
    let told = refused(&format!("sweep {}", wrong.display()), 2);
    assert!(told.contains("queue=PIE: is unknown; did you mean `target`?"), "{told}");
}

#[test]
fn wrong_arguments_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = swept(folder.path());
    let scenario = scenario.display();
    assert!(refused(&format!("sweep {scenario} --shard 4/3"), 2).contains("write it like 1/4"));
    assert!(refused(&format!("sweep {scenario} --seeds 0"), 2).contains("--seeds"));
    let told = refused(&format!("sweep {scenario} --out {scenario}/x"), 1);
    assert!(told.contains("cannot create") && told.contains("choose another folder"), "{told}");
    let told = refused(&format!("sweep {scenario} --set flows.0.congestion=vegas"), 2);
    assert!(told.contains("no congestion control `vegas`"), "{told}");
}
