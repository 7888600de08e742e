//! What a study asks for beyond summaries, by `weir sim` and `weir sweep`.

use crate::program;

use program::*;
use std::fs;
use std::path::Path;

fn summary(out: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap()
}

const MIXED: &str = "title = \"mixed\"\nlink.rate = \"20Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"codel\"\n\
    run = { duration = \"8s\", warmup = \"1s\" }\n\
    [[flows]]\ncount = 2\n[[flows]]\ncount = 3\ntransfer = \"50kB\"\nevery = \"500ms\"\n\
    [[flows]]\ntransfer = \"2MB\"\nevery = \"3s\"\n[[flows]]\n[flows.web]\nobjects = 3\nobject_size = \"20kB\"\nthink = \"200ms\"\n";

#[test]
fn completion_times_have_percentiles_by_size_and_a_slow_down() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, out) = (file(folder.path(), "mixed.toml", MIXED), folder.path().join("out"));
    let said = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(
        said.contains("Completion times") && said.contains("10kB to 100kB") && said.contains("slowdown"),
        "{said}"
    );
    let told = summary(&out);
    let all = told["completions"].as_array().unwrap();
    let of = |kind: &str, key: &str, value: serde_json::Value| {
        all.iter()
            .find(|c| c["kind"] == kind && c[key] == value)
            .unwrap_or_else(|| panic!("{kind} {key}: {all:?}"))
    };
    let small = of("transfer", "size", "10kB to 100kB".into());
    let large = of("transfer", "size", "1MB to 10MB".into());
    assert!(small["completed"].as_u64().unwrap() >= 36, "{small}");
    assert!(large["time_ms"]["p50"].as_f64() > small["time_ms"]["p50"].as_f64());
    for c in all.iter().filter(|c| c["completed"].as_u64() > Some(0)) {
        let (time, slow) = (&c["time_ms"], &c["slowdown"]);
        for spread in [time, slow] {
            let at = |which: &str| spread[which].as_f64().unwrap();
            assert!(at("p50") <= at("p95") && at("p95") <= at("p99") && at("p99") <= at("max"), "{c}");
        }
        assert!(slow["p50"].as_f64() >= Some(1.0), "nothing is faster than ideal: {c}");
    }
    assert!(of("page", "group", serde_json::Value::Null)["completed"].as_u64() > Some(3));
    // Each of them, with those of the warm-up.
    let each = fs::read_to_string(out.join("completions.csv")).unwrap();
    assert!(each.starts_with("kind,flow,group,start_s,bytes,took_s,slowdown\n"), "{each}");
    let counted: u64 = all
        .iter()
        .filter(|c| c["size"].is_null() && c["group"].is_null())
        .map(|c| c["completed"].as_u64().unwrap())
        .sum();
    let after = |line: &&str| line.split(',').nth(3).unwrap().parse::<f64>().unwrap() >= 1.0;
    assert_eq!(each.lines().skip(1).filter(after).count() as u64, counted);
}

/// One transfer on an empty link, known by hand: 100 segments of 1448 bytes in slow start from ten.
#[test]
fn a_transfer_on_an_empty_path_is_as_slow_as_slow_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"one\"\nlink.rate = \"1Gbit/s\"\npath.rtt = \"100ms\"\naqm.name = \"tail_drop\"\n\
                flows = [{ transfer = \"144800B\" }]\nrun.duration = \"5s\"\n";
    let (scenario, out) = (file(folder.path(), "one.toml", text), folder.path().join("out"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    let told = summary(&out);
    let only = &told["completions"][0];
    // Windows of 10, 20, 40 and 30 segments: three round trips, and half of one for the last byte.
    let (time, slow) = (only["time_ms"]["p50"].as_f64().unwrap(), only["slowdown"]["p50"].as_f64().unwrap());
    assert!((350.0..356.0).contains(&time), "{time}");
    // The ideal: 50 ms and 100 packets of 1514 bytes at 1 Gbit/s.
    let ideal = 50.0 + 100.0 * 1514.0 * 8.0 / 1e6;
    assert!((slow - time / ideal).abs() < 0.02, "{slow} {}", time / ideal);
}

#[test]
fn groups_and_fairness_are_measured_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let flow = "queue.discipline = \"flow\"\n";
    let text = format!("{flow}{MIXED}[measure]\nfairness = [\"100ms\", \"1s\"]\n");
    let (scenario, out) = (file(folder.path(), "mixed.toml", &text), folder.path().join("out"));
    let said = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(said.contains("Queueing delay of each group") && said.contains("Fairness (Jain)"), "{said}");
    let told = summary(&out);
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 4);
    let packets: u64 = groups.iter().map(|g| g["packets"].as_u64().unwrap()).sum();
    assert_eq!(packets, told["links"][0]["packets"].as_u64().unwrap(), "every packet is of a group");
    // A queue for each flow: slow start of short transfers waits behind itself, which CoDel does not change.
    let p50 = |group: usize| groups[group]["delay_ms"]["p50"].as_f64().unwrap();
    assert!(p50(1) > 2.0 * p50(0), "{groups:?}");
    let fairness = told["fairness"].as_array().unwrap();
    let mean = |i: usize| fairness[i]["mean"].as_f64().unwrap();
    assert!(fairness.len() == 2 && mean(0) < mean(1) && mean(1) <= 1.0, "{fairness:?}");
    let table = fs::read_to_string(out.join("distributions.csv")).unwrap();
    assert!(
        table.starts_with("quantity,link,group,share,value_ms\n")
            && table.contains("\ndelay,bottleneck,3,0.95,"),
        "{table}"
    );
    let histogram = fs::read_to_string(out.join("histograms.csv")).unwrap();
    let all: u64 = histogram
        .lines()
        .filter(|line| line.starts_with("delay,bottleneck,,"))
        .map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(all, packets);
    // Without the table nothing of it is there, and the same packets pass.
    let plain = file(folder.path(), "plain.toml", &format!("{flow}{MIXED}"));
    let out2 = folder.path().join("plain");
    done(&format!("sim {} --out {}", plain.display(), out2.display()));
    assert!(summary(&out2)["groups"].is_null() && summary(&out2)["fairness"].is_null());
    assert_eq!(summary(&out2)["trace_hash"], told["trace_hash"]);
    let wrong =
        file(folder.path(), "wrong.toml", &format!("{MIXED}[measure]\nfairness = [\"100ms\", \"150ms\"]\n"));
    assert!(
        refused(&format!("sim {}", wrong.display()), 2)
            .contains("150ms is no larger multiple of the first, 100ms")
    );
}

#[test]
fn the_warm_up_is_judged_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let text = SMALL.replace("\"3s\"", "\"30s\"").replace("codel", "tail_drop");
    let (scenario, out) = (file(folder.path(), "small.toml", &text), folder.path().join("out"));
    let run = format!("sim {} --out {}", scenario.display(), out.display());
    let said = done(&format!("{run} --warmup auto"));
    assert!(said.contains("by MSER-5") && said.contains("the delay of the first link asks for"), "{said}");
    let told = summary(&out);
    let (decided, used) = (told["warmup"]["warmup_s"].as_f64().unwrap(), told["warmup_s"].as_f64().unwrap());
    assert!(decided == used && used <= 15.0 && told["warmup"]["method"] == "MSER-5", "{told}");
    assert_eq!(told["duration_s"].as_f64().unwrap(), 30.0 - used);
    done(&format!("{run} --warmup 2s"));
    assert_eq!(summary(&out)["warmup_s"], 2.0);
    assert!(refused(&format!("{run} --warmup soon"), 2).contains("write a time such as 10s, or auto"));
    let told = refused(&format!("{run} --warmup auto --set run.duration=3s"), 2);
    assert!(told.contains("needs at least 40 samples") && told.contains("run.sample"), "{told}");
}

#[test]
fn every_packet_can_be_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{SMALL}[record]\nforwarded = true\nto = \"2s\"\n");
    let (scenario, out) = (file(folder.path(), "small.toml", &text), folder.path().join("out"));
    let said = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    assert!(said.contains("decisions.parquet"), "{said}");
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(fs::File::open(out.join("decisions.parquet")).unwrap()).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    let mut last = 0.0;
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let cell = |name: &str| row.get_column_iter().find(|(n, _)| *n == name).unwrap().1.clone();
        let parquet::record::Field::Double(t_s) = cell("t_s") else { panic!("{row}") };
        assert!(t_s >= last && t_s < 2.0);
        last = t_s;
        *counts.entry(cell("verdict").to_string()).or_insert(0u64) += 1;
        cell("count");
    }
    // 10 Mbit/s for two seconds.
    let forwarded = counts.get("\"forwarded\"").copied().unwrap_or(0);
    assert!((1400..1700).contains(&forwarded), "{counts:?}");
    assert!(counts.keys().any(|verdict| verdict.contains("dropped")), "{counts:?}");
}

#[test]
fn a_link_tells_how_long_it_took_to_settle() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"steps\"\nlink.rate = \"20Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"codel\"\n\
                flows = [{ count = 2 }, { count = 6, start = \"10s\", stop = \"20s\" }]\nrun.duration = \"30s\"\n";
    let (scenario, out) = (file(folder.path(), "steps.toml", text), folder.path().join("out"));
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    let told = summary(&out);
    let all = told["convergence"].as_array().unwrap();
    let at: Vec<(f64, u64)> =
        all.iter().map(|c| (c["at_s"].as_f64().unwrap(), c["flows"].as_u64().unwrap())).collect();
    assert_eq!(at, [(0.0, 2), (10.0, 8), (20.0, 2)], "{all:?}");
    let settled = all[1]["settled_s"].as_f64();
    assert!(settled.is_none_or(|s| (0.0..=7.5).contains(&s)), "{all:?}");
}

const APPLICATIONS: &str = "title = \"applications\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"codel\"\n\
    run = { duration = \"20s\", warmup = \"2s\" }\n\
    flows = [{}, { voice = {} }, { voice = { codec = \"g729a\" }, direction = \"reverse\" }, { game = {} },\n\
    { video = { buffer = \"20s\" } }, { page = { objects = [\"20kB\", \"5 x 10kB after 1\"] } },\n\
    { protocol = \"quic\", page = {} }, { realtime = { rate_max = \"1Mbit/s\" } }]\n";

#[test]
fn what_users_notice_is_told_in_summary_tables_and_columns() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, out) = (file(folder.path(), "apps.toml", APPLICATIONS), folder.path().join("out"));
    let said = done(&format!("sim {} --out {}", scenario.display(), out.display()));
    for part in [
        "Calls, by the E-model (ITU-T G.107)",
        "MOS",
        "Games",
        "Video that adapts its rate",
        "switches/min",
        "Real-time video, by frames",
        "freezes/min",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let told = summary(&out);
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{told}"));
    let (calls, games, videos) = (&told["calls"], &told["games"], &told["videos"]);
    assert_eq!((calls[0]["group"].as_u64(), calls[1]["group"].as_u64()), (Some(1), Some(2)));
    // One call passes the queue, the other only what is free; its codec costs it eleven points.
    assert!(number(&calls[0]["delay_ms"]["p99"]) > number(&calls[1]["delay_ms"]["p99"]));
    assert!((number(&calls[1]["rating"]) - (93.2 - 11.0 - 2.4)).abs() < 1.0, "{calls}");
    assert_eq!((games[0]["group"].as_u64(), videos[0]["group"].as_u64()), (Some(3), Some(4)));
    assert!(number(&videos[0]["rate_bps"]) >= 235e3 && number(&videos[0]["startup_ms"]["mean"]) > 20.0);
    let realtime = &told["realtimes"][0];
    assert_eq!(realtime["group"].as_u64(), Some(7));
    assert!((0.1e6..1.1e6).contains(&number(&realtime["rate_bps"])), "{realtime}");
    assert!(number(&realtime["delay_ms"]["p50"]) > 10.0 && number(&realtime["lost"]) < 0.2, "{realtime}");
    let pages = told["completions"].as_array().unwrap();
    let of = |group: u64| pages.iter().find(|c| c["group"] == group).unwrap();
    assert!(number(&of(5)["time_ms"]["p50"]) >= 40.0 && of(6)["completed"].as_u64() > Some(1), "{pages:?}");
    let distributions = fs::read_to_string(out.join("distributions.csv")).unwrap();
    assert!(distributions.contains("\nvoice,,1,0.95,") && distributions.contains("\ngame,,3,0.95,"));
    // The same as columns of a sweep; where there are several tables of a kind, each has its own.
    let (sweep, swept) = (
        format!("{APPLICATIONS}[sweep]\n\"path.rtt\" = [\"20ms\", \"40ms\"]\n"),
        folder.path().join("sweep"),
    );
    let sweep = file(folder.path(), "sweep.toml", &sweep);
    done(&format!("sweep {} --out {}", sweep.display(), swept.display()));
    let table = fs::read_to_string(swept.join("table.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    for column in [
        "flows.1.voice_mos_mean",
        "flows.2.voice_late",
        "game_delay_p99_ms",
        "video_rate_bps",
        "video_stalls",
        "realtime_delay_p95_ms",
        "realtime_freezes_per_minute",
    ] {
        assert!(header.contains(&column), "{column}: {header:?}");
    }
    let wrong = APPLICATIONS.replace("flows = [{}", "flows = [{ voice = {}, page = {} }");
    let wrong = file(folder.path(), "wrong.toml", &wrong);
    assert!(refused(&format!("sim {}", wrong.display()), 2).contains("does not go with"));
}
