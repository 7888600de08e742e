//! `weir plot` as it is used: figures of a sweep and of single runs.

use crate::program;

use program::*;
use std::fs;
use std::path::{Path, PathBuf};

/// A sweep of two schemes, two numbers of flows and two round-trip times, with distributions.
fn swept(folder: &Path) -> PathBuf {
    let text = format!(
        "{}run.seeds = 3\n[measure]\n[sweep]\n\"path.rtt\" = [\"10ms\", \"40ms\"]\n\
         \"flows.0.count\" = {{ name = \"flows\", values = [1, 3] }}\n[sweep.schemes.queue]\n\
         \"Tail drop\" = {{ aqm = {{ name = \"tail_drop\" }} }}\n\"FQ-CoDel\" = {{ queue = {{ discipline = \"flow\" }} }}\n",
        SMALL.replace("\"3s\"", "\"2s\"")
    );
    let (scenario, out) = (file(folder, "study.toml", &text), folder.join("study"));
    done(&format!("sweep {} --out {}", scenario.display(), out.display()));
    out
}

fn text_of(stem: &Path, ending: &str) -> String {
    fs::read_to_string(format!("{}.{ending}", stem.display())).unwrap()
}

#[test]
fn a_sweep_becomes_figures_for_a_paper() {
    let folder = tempfile::tempdir().unwrap();
    let (out, stem) = (swept(folder.path()), folder.path().join("fig/delay"));
    let (results, figure) = (out.display(), stem.display());
    // By itself: schemes are compared, flows lie below, round-trip times have panels.
    let said = done(&format!("plot {results} --out {figure}"));
    for ending in ["svg", "pdf", "csv", "tex"] {
        assert!(said.contains(&format!("{figure}.{ending}")), "{said}");
    }
    let svg = text_of(&stem, "svg");
    assert!(svg.contains("width=\"252pt\"") && svg.contains("font-size=\"8\""), "{}", &svg[..300]);
    for text in
        [">Tail drop<", ">FQ-CoDel<", ">RTT 10ms<", ">RTT 40ms<", ">Flows<", ">95 % queueing delay (ms)<"]
    {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(!svg.contains("small"), "no title");
    let pdf = fs::read(format!("{figure}.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"));
    // The numbers are those of the sweep: the mean over the seeds and Student's interval.
    let summary = fs::read_to_string(out.join("summary.csv")).unwrap();
    let mut lines = summary.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap_or_else(|| panic!("{name}"));
    let first = lines.next().unwrap();
    let (mean, half): (f64, f64) = (
        first[column("delay_p95_ms_mean")].parse().unwrap(),
        first[column("delay_p95_ms_ci95")].parse().unwrap(),
    );
    let csv = text_of(&stem, "csv");
    let row: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(row[..3], ["RTT 10ms", "Tail drop", "1"]);
    let number = |i: usize| row[i].parse::<f64>().unwrap();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(near(number(3), mean) && near(number(4), mean - half) && near(number(5), mean + half), "{row:?}");
    assert_eq!(csv.lines().count(), 9);
    let tex = text_of(&stem, "tex");
    assert!(
        tex.contains("\\begin{tabular}{llrr}") && tex.contains("FQ-CoDel & $") && tex.contains("\\pm"),
        "{tex}"
    );
    // Percentiles of seeds by the bootstrap, in the table of the sweep, too.
    assert!(header.contains(&"delay_p95_ms_median_low95") && !header.contains(&"utilization_median_low95"));
    done(&format!("plot {results} --interval bootstrap --width 120mm --font 9 --height 70 --out {figure}"));
    let svg = text_of(&stem, "svg");
    assert!(
        svg.contains("width=\"340.16pt\" height=\"198.43pt\"") && svg.contains("font-size=\"9\""),
        "{}",
        &svg[..300]
    );
}

#[test]
fn planes_and_distributions_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (out, stem) = (swept(folder.path()), folder.path().join("figure"));
    let (results, figure) = (out.display(), stem.display());
    done(&format!("plot {results} --kind plane --out {figure} --where path.rtt=10ms"));
    let svg = text_of(&stem, "svg");
    assert!(
        svg.contains(">Utilization (%)<") && svg.contains("fill-opacity"),
        "ellipses are see-through: {svg}"
    );
    done(&format!(
        "plot {results} --kind cdf --log-x --where flows=3 --series queue --panels path.rtt --out {figure}"
    ));
    let csv = text_of(&stem, "csv");
    let of = |scheme: &str| -> Vec<(f64, f64)> {
        let rows = csv.lines().filter(|line| line.contains("RTT 10ms") && line.contains(scheme));
        let pair = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[2].parse().unwrap(), cells[3].parse().unwrap())
        };
        rows.map(pair).collect()
    };
    for scheme in ["Tail drop", "FQ-CoDel"] {
        let points = of(scheme);
        assert!(points.len() > 90, "{csv}");
        assert!(points.windows(2).all(|p| p[0].1 < p[1].1 && p[0].0 <= p[1].0), "{points:?}");
    }
    let median = |scheme: &str| of(scheme).iter().find(|p| p.1 >= 0.5).unwrap().0;
    assert!(median("FQ-CoDel") < median("Tail drop"));
    // The table has the same quantiles.
    let tex = text_of(&stem, "tex");
    assert!(tex.contains("50 \\%") && tex.contains(&format!("& ${:.1}$", median("Tail drop"))), "{tex}");
    // Groups beside each other and beside the packets of the link: there is one group, so both are the same.
    done(&format!(
        "plot {results} --kind cdf --where flows=3 --where path.rtt=10ms --series group --out {figure}"
    ));
    let csv = text_of(&stem, "csv");
    let of_group = |group: &str| -> Vec<String> {
        let mine = csv.lines().filter(|line| line.contains("Tail drop,") && line.contains(group));
        mine.map(|line| line.replace(group, "")).collect()
    };
    assert!(of_group(",flows.0,").len() > 90 && of_group(",flows.0,") == of_group(",all,"), "{csv}");
    // How often which delays are, over all seeds: as many packets as the runs delivered.
    done(&format!("plot {results} --kind histogram --where flows=3 --where path.rtt=10ms --out {figure}"));
    let csv = text_of(&stem, "csv");
    for scheme in ["Tail drop", "FQ-CoDel"] {
        let mine = csv.lines().filter(|line| line.contains(scheme));
        let share: f64 = mine.map(|line| line.split(',').nth(3).unwrap().parse::<f64>().unwrap()).sum();
        assert!((share - 100.0).abs() < 1e-6, "{scheme}: {share}");
    }
    let svg = text_of(&stem, "svg");
    assert!(svg.contains(">Share of packets (%)<") && svg.contains(">Queueing delay (ms)<"), "{svg}");
    // What is not chosen is asked for.
    let told = refused(&format!("plot {results} --kind cdf --out {figure} --series queue"), 2);
    assert!(told.contains("choose a value with --where of") && told.contains("flows (1, 3)"), "{told}");
}

#[test]
fn runs_over_time_and_figures_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("run");
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    let text = "[[figure]]\nresults = [\"run\"]\ny = \"delivered_bps\"\nout = \"rate\"\nwidth = \"text\"\n\
                [[figure]]\nresults = [\"run\"]\nkind = \"cdf\"\nout = \"cdf\"\ny_label = \"Share\"\n";
    let figures = file(folder.path(), "figures.toml", text);
    let said = done(&format!("plot --from {} --json", figures.display()));
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["figures"].as_array().unwrap().len(), 2, "{said}");
    let svg = text_of(&folder.path().join("rate"), "svg");
    assert!(svg.contains(">Delivered (Mbit/s)<") && svg.contains(">Time (s)<"), "{svg}");
    assert!(text_of(&folder.path().join("cdf"), "svg").contains(">Queueing delay (ms)<"));
    let tex = text_of(&folder.path().join("rate"), "tex");
    assert!(tex.contains(" & Mean & Least & Largest") && tex.starts_with("% Delivered (Mbit/s)"), "{tex}");
    let histogram = folder.path().join("histogram");
    done(&format!("plot {} --kind histogram --out {}", out.display(), histogram.display()));
    assert!(text_of(&histogram, "csv").lines().count() > 10 && !histogram.with_extension("tex").exists());
    // A pattern of the shell may name files beside folders.
    let told = refused(&format!("plot {}/summary.json --kind time", out.display()), 2);
    assert!(told.contains("summary.json is a file: give the folder that it lies in"), "{told}");
    let wrong = file(folder.path(), "wrong.toml", "[[figure]]\nresults = [\"run\"]\nwidht = \"text\"\n");
    let told = refused(&format!("plot --from {}", wrong.display()), 2);
    assert!(told.contains("wrong.toml:3:") && told.contains("widht") && told.contains("--help"), "{told}");
}

#[test]
fn the_capacity_of_a_link_that_varies_is_drawn_and_delivery_stays_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let steps =
        "link.steps = [{ at = \"1s\", rate = \"60Mbit/s\" }, { at = \"2s\", rate = \"10Mbit/s\" }]\npath";
    let scenario = file(folder.path(), "steps.toml", &SMALL.replacen("path", steps, 1));
    let (out, stem) = (folder.path().join("run"), folder.path().join("figure"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    done(&format!("plot {} --kind time --y capacity_bps --out {}", out.display(), stem.display()));
    assert!(text_of(&stem, "svg").contains(">Capacity (Mbit/s)<"));
    let drawn = text_of(&stem, "csv");
    let at = |t_s: &str| {
        let row = drawn.lines().find(|line| line.split(',').nth(2) == Some(t_s));
        row.unwrap_or_else(|| panic!("{t_s}: {drawn}")).split(',').nth(3).unwrap().parse::<f64>().unwrap()
    };
    assert!((at("1.5") - 60.0).abs() < 1e-6 && (at("2.5") - 10.0).abs() < 1e-6, "{drawn}");
    let summary = fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let used = summary["links"][0]["utilization"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&used), "{used}");
    // The chart has the line of what varies in place of that of the rate at the start.
    let chart = fs::read_to_string(out.join("chart.svg")).unwrap();
    assert!(chart.contains(">capacity<") && !chart.contains(">rate<"), "{chart}");
}

#[test]
fn one_of_many_links_is_drawn_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "many.toml", MANY_LINKS);
    let (out, stem) = (folder.path().join("run"), folder.path().join("figure"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(out.join("samples.csv").is_file() && !out.join("samples_hop20.csv").exists());
    let draw = |link: &str| {
        let more = format!("--kind time --y delivered_bps --link {link} --out {}", stem.display());
        done(&format!("plot {} {more}", out.display()));
        text_of(&stem, "csv")
    };
    // The file has the rows of all links; the figure those of one.
    let (forth, back) = (draw("hop20"), draw("hop20-back"));
    let mean = |csv: &str| {
        let values: Vec<f64> =
            csv.lines().skip(1).map(|l| l.split(',').nth(3).unwrap().parse().unwrap()).collect();
        assert_eq!(values.len(), 20, "{csv}");
        values[10..].iter().sum::<f64>() / 10.0
    };
    assert!(mean(&forth) > 8.0 && (0.01..2.0).contains(&mean(&back)), "{forth}{back}");
    let told = refused(&format!("plot {} --kind time --link hop22", out.display()), 2);
    assert!(told.contains("--link hop22:"), "{told}");
    // A table that somebody cut is told with its line.
    let table = fs::read_to_string(out.join("samples.csv")).unwrap();
    fs::write(out.join("samples.csv"), format!("{}hop20,1\n", &table[..table.find('\n').unwrap() + 1]))
        .unwrap();
    let told = refused(&format!("plot {} --kind time --link hop20", out.display()), 2);
    assert!(told.contains("samples.csv: CSV line 2") && told.contains("make the run again"), "{told}");
}

#[test]
fn what_users_notice_is_drawn_with_names_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let applications = "{ count = 2 }, { voice = {} }, { realtime = {} }, { page = {} }";
    let text = SMALL.replace("\"3s\"", "\"6s\"").replace("{ count = 2 }", applications);
    let text = format!("{text}[measure]\n[sweep]\n\"path.rtt\" = [\"10ms\", \"40ms\"]\n");
    let (scenario, out) = (file(folder.path(), "apps.toml", &text), folder.path().join("apps"));
    done(&format!("sweep {} --out {}", scenario.display(), out.display()));
    let stem = folder.path().join("figure");
    let draw = |more: &str| {
        done(&format!("plot {} {more} --out {}", out.display(), stem.display()));
        text_of(&stem, "svg")
    };
    for (y, name) in [
        ("voice_mos_mean", ">MOS<"),
        ("realtime_delay_p95_ms", ">95 % frame delay (ms)<"),
        ("page_p95_ms", ">95 % page load time (ms)<"),
    ] {
        let svg = draw(&format!("--y {y}"));
        assert!(svg.contains(name), "{y}: {svg}");
    }
    let mos = text_of(&stem, "csv").lines().count();
    assert_eq!(mos, 3, "a line for each of two points");
    // The only group of a kind needs no number, and the wrong one is told with those there are.
    let svg = draw("--kind cdf --quantity realtime");
    assert!(svg.contains(">Frame delay (ms)<") && svg.contains(">Share<"), "{svg}");
    draw("--kind cdf --quantity voice --group 1");
    let told = refused(&format!("plot {} --kind cdf --quantity voice --group 0", out.display()), 2);
    assert!(told.contains("--group: choose one of 1;"), "{told}");
    let told = refused(&format!("plot {} --kind cdf --quantity game", out.display()), 2);
    assert!(told.contains("no distribution of game times"), "{told}");
}

#[test]
fn wrong_questions_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let out = swept(folder.path());
    let out = out.display();
    for (more, told) in [
        ("--y delay_p95_s", "has no column delay_p95_s; did you mean delay_p95_ms?"),
        ("--x flow", "has no axis flow; its axes are path.rtt, flows, queue"),
        ("--where flows=2", "flows has the values 1, 3"),
        ("--where flows", "write it like flows=36"),
        ("--width narrow", "write column, text, or millimetres"),
        ("--font 1", "give points from 3 to 40"),
        ("--kind cdf --quantity transfer", "no distribution of transfer times"),
        ("--kind time", "has no results of a run"),
    ] {
        let said = refused(&format!("plot {out} {more}"), 2);
        assert!(said.contains(told), "{more}: {said}");
    }
    assert!(refused("plot", 2).contains("no results"));
}

#[test]
fn an_ending_of_the_files_is_not_part_of_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = swept(folder.path());
    for (name, stem) in [("figure.pdf", "figure"), ("delay.v2", "delay.v2")] {
        let asked = folder.path().join(name);
        done(&format!("plot {} --out {}", out.display(), asked.display()));
        for ending in ["svg", "pdf", "csv", "tex"] {
            let file = folder.path().join(format!("{stem}.{ending}"));
            assert!(file.exists(), "{}", file.display());
        }
    }
    assert!(!folder.path().join("figure.pdf.pdf").exists());
}

#[test]
fn schemes_whose_names_are_one_number_are_points_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let schemes = "run.seeds = 2\n[sweep.schemes.kernel]\n\"5.1\" = { aqm = { name = \"tail_drop\" } }\n\
                   \"5.10\" = { queue = { discipline = \"flow\" } }\n";
    let text = format!("{}{schemes}", SMALL.replace("\"3s\"", "\"2s\""));
    let (scenario, out) = (file(folder.path(), "study.toml", &text), folder.path().join("study"));
    done(&format!("sweep {} --out {}", scenario.display(), out.display()));
    let stem = folder.path().join("figure");
    done(&format!("plot {} --out {}", out.display(), stem.display()));
    let csv = text_of(&stem, "csv");
    let names: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    assert_eq!(names, ["5.1", "5.10"], "{csv}");
}

#[test]
fn runs_of_files_with_one_title_are_points_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = SMALL.replace("\"3s\"", "\"2s\"");
    let other = text.replace("codel", "tail_drop");
    let (a, b) = (file(folder.path(), "a.toml", &text), file(folder.path(), "b.toml", &other));
    let (out, stem) = (folder.path().join("runs"), folder.path().join("figure"));
    done(&format!("sim {} {} --seeds 2 --out {}", a.display(), b.display(), out.display()));
    done(&format!("plot {} --out {}", out.display(), stem.display()));
    let csv = text_of(&stem, "csv");
    let names: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(names, ["small", "small (2)"], "{csv}");
}

/// A run of [`SMALL`] in a folder.
fn ran(folder: &Path) -> PathBuf {
    let (scenario, out) = (file(folder, "small.toml", SMALL), folder.join("run"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    out
}

#[test]
fn figures_of_a_file_do_not_replace_each_other_and_take_no_options() {
    let folder = tempfile::tempdir().unwrap();
    ran(folder.path());
    let described = |outs: [&str; 2]| {
        let text = outs.map(|out| format!("[[figure]]\nresults = [\"run\"]\n{out}\n")).concat();
        file(folder.path(), "figures.toml", &text).display().to_string()
    };
    for (outs, names) in
        [(["", ""], ["out/figure", "out/figure"]), (["out = \"a\"", "out = \"./a.pdf\""], ["a", "./a.pdf"])]
    {
        let told = refused(&format!("plot --from {}", described(outs)), 2);
        let [first, second] = names.map(|name| folder.path().join(name).display().to_string());
        let both =
            format!("figures.toml: figure 1 ({first}) and figure 2 ({second}) would have the same files");
        assert!(told.contains(&both) && told.contains("give each an `out` of its own"), "{told}");
    }
    assert!(!folder.path().join("out").exists() && !folder.path().join("a.svg").exists());
    let figures = described(["out = \"a\"", "out = \"b\""]);
    for (more, option) in
        [("--out x", "--out <PATH>"), ("--kind cdf", "--kind <KIND>"), ("--log-y", "--log-y")]
    {
        let told = refused(&format!("plot --from {figures} {more}"), 2);
        assert!(told.contains("'--from <FILE>' cannot be used with") && told.contains(option), "{told}");
    }
    done(&format!("plot --from {figures}"));
}

#[test]
fn sources_and_results_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let out = ran(folder.path());
    file(folder.path(), "paper.tex", "% A paper\n\\documentclass{article}\n");
    file(folder.path(), "mine.tex", "% Mine\n\\begin{tabular}{lr}\n\\hline\n\\end{tabular}\nand a text\n");
    file(folder.path(), "notes.csv", "a,b\n1,2\n");
    let before = tree(folder.path());
    for (name, taken) in [
        ("paper.pdf", "paper.tex"),
        ("mine", "mine.tex"),
        ("notes", "notes.csv"),
        ("run/flows", "run/flows.csv"),
        ("run/chart", "run/chart.svg"),
    ] {
        let path = folder.path().join(name);
        let told = refused(&format!("plot {} --out {}", out.display(), path.display()), 2);
        let taken = folder.path().join(taken);
        let is_told = told.contains(&format!("{} is there, and `weir plot` did not", taken.display()));
        assert!(is_told && told.contains("choose another path with --out"), "{told}");
    }
    // Nor does the second figure of a file replace any, and then the first is not written either.
    let text = "[[figure]]\nresults = [\"run\"]\nout = \"first\"\n\
                [[figure]]\nresults = [\"run\"]\nout = \"paper\"\n";
    let figures = file(folder.path(), "figures.toml", text);
    refused(&format!("plot --from {}", figures.display()), 2);
    fs::remove_file(figures).unwrap();
    assert!(tree(folder.path()) == before, "something was written");
    // What this verb wrote it replaces, beside results, too.
    for name in ["figure", "run/figure"] {
        let path = folder.path().join(name);
        for kind in ["time", "cdf"] {
            done(&format!("plot {} --kind {kind} --out {}", out.display(), path.display()));
        }
        assert!(text_of(&path, "tex").contains("50 \\%"));
    }
}
