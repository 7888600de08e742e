//! Pages for users are what they say: their files are written and their commands typed in an empty folder.
//! Only the lengths of runs are others.

use crate::program;

use program::*;
use std::fs;
use std::path::Path;

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The blocks of the page, which are indented, without their indentation.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        let block = blocks.last_mut().unwrap();
        let code = line.strip_prefix("        ").or_else(|| line.strip_prefix("    "));
        match code {
            Some(code) => *block += &format!("{code}\n"),
            None if line.is_empty() && !block.is_empty() => *block += "\n",
            None if !block.is_empty() => blocks.push(String::new()),
            None => {}
        }
    }
    blocks
}

/// The only block that has this text.
fn block(page: &str, part: &str) -> String {
    let with: Vec<String> = blocks(page).into_iter().filter(|block| block.contains(part)).collect();
    assert_eq!(with.len(), 1, "blocks of the page with {part}: {with:#?}");
    with[0].clone()
}

/// A text with one part of it replaced, which must be there.
fn with(text: &str, part: &str, by: &str) -> String {
    assert!(text.contains(part), "the page has no {part}: adapt the test to the page");
    text.replace(part, by)
}

/// Types a command in a folder.
fn types(folder: &Path, command: &str) {
    let arguments = command.strip_prefix("weir ").unwrap_or_else(|| panic!("{command} is no call of weir"));
    let output = weir_in(folder, arguments.split('#').next().unwrap());
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
}

/// The files of a figure: what is drawn, and the numbers of it.
fn drawn(folder: &Path, stem: &str, is_over_an_axis: bool) -> (String, String) {
    let read = |ending: &str| {
        fs::read(folder.join(format!("{stem}.{ending}"))).unwrap_or_else(|e| panic!("{stem}.{ending}: {e}"))
    };
    let (pdf, svg, csv) = (read("pdf"), text(&read("svg")), text(&read("csv")));
    assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"), "{stem}.pdf");
    assert!(csv.lines().count() > 5, "{stem}.csv: {csv}");
    if is_over_an_axis {
        assert!(text(&read("tex")).contains("\\begin{tabular}"), "{stem}.tex");
    }
    (svg, csv)
}

#[test]
fn the_study_of_the_page_becomes_its_figures() {
    let page = page("docs/study.md");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let study = block(&page, "title = \"Five queues\"");
    let shorter = with(
        &study,
        "duration = \"60s\"\nwarmup = \"10s\"\nseeds = 5\n",
        "duration = \"4s\"\nwarmup = \"1s\"\nseeds = 3\n",
    );
    file(folder, "study.toml", &shorter);
    let sweep = "weir sweep study.toml --out study";
    assert!(page.contains(&format!("`{sweep}`")), "the page has no {sweep}");
    types(folder, sweep);
    let table = fs::read_to_string(folder.join("study/table.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 5 * 3 * 3 * 3, "a row for each run");
    assert!(fs::read_to_string(folder.join("study/summary.csv")).unwrap().contains("_ci95"));
    assert!(table.lines().next().unwrap().contains(",flows_measured,"), "{table}");

    let plots = block(&page, "weir plot study --out fig/delay");
    let plots: Vec<&str> = plots.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(plots.len(), 7, "{plots:?}");
    for plot in &plots {
        types(folder, plot);
    }
    let schemes = [">Tail drop<", ">CoDel<", ">PIE<", ">FQ-CoDel<", ">GSP-AS<"];
    for (stem, is_over_an_axis, says) in [
        ("fig/delay", true, [">RTT 10ms<", ">RTT 40ms<", ">RTT 120ms<"].as_slice()),
        ("fig/completion", true, &[">RTT 40ms<"]),
        ("fig/plane", false, &[]),
        ("fig/cdf", false, &[">RTT 40ms<"]),
        ("fig/fairness", true, &[">RTT 40ms<"]),
    ] {
        assert!(plots.iter().any(|plot| plot.contains(&format!("--out {stem}"))), "no {stem}");
        let (svg, csv) = drawn(folder, stem, is_over_an_axis);
        for part in schemes.iter().chain(says) {
            assert!(svg.contains(part), "{stem}.svg has no {part}");
        }
        assert!(csv.contains("FQ-CoDel"), "{csv}");
    }
    // The same from a description.
    let described = block(&page, "weir plot --from figures.toml");
    file(folder, "figures.toml", &described);
    fs::remove_dir_all(folder.join("fig")).unwrap();
    types(folder, "weir plot --from figures.toml");
    drawn(folder, "fig/delay", true);
}

/// The lines about networks and objectives are taken as they stand.
#[test]
fn networks_and_objectives_of_the_page_are_valid() {
    let page = page("docs/study.md");
    let folder = tempfile::tempdir().unwrap();
    let lines = |part: &str| -> Vec<String> {
        block(&page, part).lines().filter(|line| !line.is_empty()).map(str::to_string).collect()
    };
    let networks = lines("network = { dumbbell");
    let flows = lines("flows = [{ pairs = \"long\"");
    assert_eq!((networks.len(), flows.len()), (3, 2), "{networks:?} {flows:?}");
    let of = |network: &str| match network {
        n if n.contains("parking_lot") => flows[0].clone(),
        n if n.contains("tree") => flows[1].clone(),
        _ => "flows = [{ pairs = \"each\" }]".to_string(),
    };
    for network in &networks {
        let text = format!(
            "title = \"x\"\nlink.rate = \"10Mbit/s\"\naqm.name = \"codel\"\n{network}\n{}\nrun.duration = \"5s\"\n",
            of(network)
        );
        file(folder.path(), "network.toml", &text);
        types(folder.path(), "weir check network.toml");
    }
    let objectives = lines("objectives = [\"power");
    // They go into the study of the page as they stand.
    let study = with(&block(&page, "title = \"Five queues\""), "[run]", &objectives.join("\n"));
    file(folder.path(), "study.toml", &study);
    types(folder.path(), "weir check study.toml");
    let small = SMALL.replace("run.duration", &format!("run.{}\nrun.duration", objectives[1]));
    file(folder.path(), "objectives.toml", &small);
    types(folder.path(), "weir sweep objectives.toml --out out");
    let table = fs::read_to_string(folder.path().join("out/table.csv")).unwrap();
    let header = table.lines().next().unwrap();
    assert!(header.contains(",power,value"), "{header}");
}

/// The file of the author's guide is that of the example, which tests build, under another name.
#[test]
fn the_algorithm_of_the_guide_is_that_of_the_example() {
    let guide = page("docs/own-algorithm.md");
    let renamed = guide.replace("Slope", "Ramp").replace("slope", "ramp");
    let after =
        |text: &str| text[text.find("use crate::").expect("it begins with imports")..].trim().to_string();
    let example = page("examples/outside/src/ramp.rs").replace("pub use Ramp as Outside;\n\n", "");
    assert_eq!(after(&block(&renamed, "use crate::{Algorithm, Aqm")), after(&example));
    // Its sweep, too.
    let folder = tempfile::tempdir().unwrap();
    let sweep = block(&renamed, "title = \"Ramp beside CoDel\"");
    let (sweep, command) = sweep.split_once("\n\ntarget/debug/").expect("the command follows the file");
    let sweep = with(&with(sweep, "\"30s\"", "\"2s\""), "\"5s\"", "\"1s\"");
    file(folder.path(), "mine.toml", &sweep);
    types(folder.path(), command.lines().next().unwrap());
    let table = fs::read_to_string(folder.path().join("out/mine/table.csv")).unwrap();
    assert_eq!(table.lines().filter(|row| row.contains(",ramp,")).count(), 2 * 3, "{table}");
    assert!(folder.path().join("out/mine/chart.svg").exists());
}
