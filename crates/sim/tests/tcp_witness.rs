//! TCP of the simulator beside that of Linux, as `weir compare` measured it: where CUBIC ends its first slow
//! start, and what reordering costs. The record is `data/vectors/tcp_witness.json`; the tables of
//! `docs/tcp.md` are written by `WEIR_REGENERATE=1 cargo test -p weir-sim --test tcp_witness`.

mod common;

use common::run;
use serde::Deserialize;
use std::fmt::Write;

/// How far the threshold may be from Linux's, as a part of it.
const THRESHOLD: f64 = 0.01;
/// How far utilization under reordering may be from the mean of Linux's runs, as a part of it.
const UTILIZATION: f64 = 0.1;
/// Runs of each point of reordering over which is averaged.
const SEEDS: u64 = 10;

#[derive(Deserialize)]
struct Record {
    kernel: String,
    date: String,
    slow_start: Vec<SlowStart>,
    reordering: Vec<Reordering>,
}

#[derive(Deserialize)]
struct SlowStart {
    rate: String,
    rtt: String,
    /// The same in each of its runs.
    ssthresh: u32,
}

#[derive(Deserialize)]
struct Reordering {
    share: String,
    delay: String,
    /// Of each run.
    utilization: Vec<f64>,
}

fn path(of: &str) -> String {
    format!("{}/../../{of}", env!("CARGO_MANIFEST_DIR"))
}

fn record() -> Record {
    let path = path("data/vectors/tcp_witness.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A quantity with a space before its unit.
fn spaced(quantity: &str) -> String {
    let digits = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    format!("{} {}", &quantity[..digits], &quantity[digits..])
}

/// The lines of a page between two marks are these, or are written anew.
fn page_has(name: &str, table: &str) {
    let path = path("docs/tcp.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = (format!("<!-- {name}: written by the test tcp_witness -->\n"), "<!-- end -->\n");
    let table = format!("\n{table}\n");
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("{path} has no mark {begin}"));
    let (now, tail) = rest.split_once(end).expect("the page has a second mark");
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        std::fs::write(&path, format!("{head}{begin}{table}{end}{tail}")).expect("the page can be written");
    } else {
        assert!(
            now == table,
            "the table of docs/tcp.md is not what is computed now:\n{table}if meant: \
             WEIR_REGENERATE=1 cargo test -p weir-sim --test tcp_witness"
        );
    }
}

/// Threshold at which the first slow start ended.
fn threshold(point: &SlowStart) -> u32 {
    let text = format!(
        "title = \"x\"\nlink = {{ rate = \"{}\", buffer = \"300ms\" }}\npath.rtt = \"{}\"\naqm.name = \"tail_drop\"\n\
         flows = [{{ congestion = \"cubic\" }}]\nrun = {{ duration = \"4s\", sample = \"10ms\" }}\n",
        point.rate, point.rtt
    );
    let samples = run(&text, 1).recording.flow_samples;
    samples.iter().map(|sample| sample.ssthresh).find(|segments| *segments > 0).expect("slow start ends")
}

#[test]
fn cubic_ends_its_slow_start_where_that_of_linux_does() {
    let record = record();
    let mut wrong = Vec::new();
    let mut table = format!(
        "{}, {}; Linux, here.\n\n| rate | 20 ms | 50 ms | 100 ms |\n| --- | ---: | ---: | ---: |\n",
        record.kernel, record.date
    );
    for of_rate in record.slow_start.chunks(3) {
        let _ = write!(table, "| {} |", spaced(&of_rate[0].rate));
        assert_eq!([0, 1, 2].map(|i| of_rate[i].rtt.as_str()), ["20ms", "50ms", "100ms"]);
        for point in of_rate {
            let (linux, here) = (point.ssthresh, threshold(point));
            let _ = write!(table, " {linux}, {here} |");
            if (f64::from(here) / f64::from(linux) - 1.0).abs() > THRESHOLD {
                wrong.push(format!("{}, {}: {here} segments, in Linux {linux}", point.rate, point.rtt));
            }
        }
        table += "\n";
    }
    assert!(wrong.is_empty() && record.slow_start.len() == 9, "{}", wrong.join("\n"));
    page_has("slow start", &table);
}

#[test]
fn reordering_costs_what_it_costs_in_linux() {
    let record = record();
    let scenario = std::fs::read_to_string(path("data/scenarios/reordering.toml")).expect("it is there");
    let (scenario, _) = scenario.split_once("[sweep]").expect("its points are those of the record");
    let with = |text: &str, part: &str, by: &str| {
        assert!(text.contains(part), "reordering.toml has no {part}: adapt the test");
        text.replace(part, by)
    };
    let here = |point: &Reordering| {
        let reorder = format!("{{ share = \"{}\", delay = \"{}\" }}", point.share, point.delay);
        let text = with(scenario, "{ share = \"1%\", delay = \"5ms\" }", &reorder);
        // As long as Linux was measured.
        let text = with(&text, "duration = \"40s\"", "duration = \"60s\"");
        (1..=SEEDS).map(|seed| run(&text, seed).recording.summary.links[0].utilization).sum::<f64>()
            / SEEDS as f64
    };
    let mut wrong = Vec::new();
    let mut table = format!(
        "{}, {}; here the mean of {SEEDS} seeds.\n\n| held back | for | Linux, % | here, % |\n| --- | ---: | ---: | ---: |\n",
        record.kernel, record.date
    );
    for point in &record.reordering {
        let (runs, here) = (&point.utilization, here(point));
        let linux = runs.iter().sum::<f64>() / runs.len() as f64;
        let each: Vec<String> = runs.iter().map(|run| format!("{:.1}", 100.0 * run)).collect();
        let _ = writeln!(
            table,
            "| {} | {} | {} | {:.1} |",
            spaced(&point.share),
            spaced(&point.delay),
            each.join(", "),
            100.0 * here
        );
        if (here / linux - 1.0).abs() > UTILIZATION {
            wrong.push(format!("{}, {}: {here:.3}, in Linux {linux:.3}", point.share, point.delay));
        }
    }
    assert!(wrong.is_empty() && record.reordering.len() == 6, "{}", wrong.join("\n"));
    page_has("reordering", &table);
}
