//! `weir ctl` and the page of a running `weir lab`.
//!
//! Needs root and iperf3; skipped where they are missing.

use crate::browser::{Browser, chromium};
use crate::common::{PATIENCE, ctl, http, judged, status_of};
use crate::service::{LIVE, changes_a_policy_with_the_token_only};
use crate::skipping;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const PAGE: &str = "127.0.0.1:9476";
/// The same of the browser's test: a lab has its address while it waits for its turn.
const BROWSED: &str = "127.0.0.1:9479";

/// Longest wait for a lab's run, each of which waits for others that measure on this machine.
const FOR_A_TURN: Duration = Duration::from_secs(900);

/// A lab in the background, with its results in a folder of its own.
struct Lab {
    child: Child,
    folder: PathBuf,
}

impl Lab {
    /// None where no lab can be.
    fn start(name: &str, scenario: &str, words: &[&str]) -> Option<Lab> {
        let diagnosis = Command::new(WEIR).args(["--json", "doctor"]).output().unwrap().stdout;
        let diagnosis: Value = serde_json::from_slice(&diagnosis).unwrap();
        if diagnosis["can"]["lab"] != true {
            skipping::skipped("needs what `weir lab` needs");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("weir-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("scenario.toml");
        std::fs::write(&file, scenario).unwrap();
        let mut command = Command::new(WEIR);
        command.args(["--json", "lab"]).arg(&file).arg("--out").arg(folder.join("out")).args(words);
        let said = std::fs::File::create(folder.join("err")).unwrap();
        let child = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        Some(Lab { child, folder })
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("err")).unwrap_or_default()
    }

    /// How it stands, as soon as both links are told.
    fn status(&mut self) -> weir_operate::Status {
        self.status_of(2)
    }

    /// The same of so many links.
    fn status_of(&mut self, links: usize) -> weir_operate::Status {
        let deadline = Instant::now() + FOR_A_TURN;
        loop {
            if let Some(status) = status_of(self.child.id())
                && status.directions.len() == links
            {
                return status;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.said());
            assert!(Instant::now() < deadline, "nothing is told: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ctl(&self, words: &[&str]) -> (i32, Value) {
        ctl(self.child.id(), words)
    }

    fn end(mut self) -> (Option<i32>, Value) {
        let mut text = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text} {}", self.said()));
        (status.code(), json)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // In order, so that its namespaces go.
        if !matches!(self.child.try_wait(), Ok(None)) {
            let _ = std::fs::remove_dir_all(&self.folder);
            return;
        }
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What the page answers to who asks it for a change.
fn change_by_page(key: &str, value: &str, token: &str) -> String {
    let body = format!("{{\"set\": {{\"{key}\": \"{value}\"}}}}");
    let mut stream = TcpStream::connect(PAGE).unwrap();
    write!(
        stream,
        "PATCH /v1/config HTTP/1.1\r\nhost: {PAGE}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A lab that is ended by request: on a busy machine what is asked before takes more than its seconds.
const STEERED: &str = "title = \"one link\"\n[run]\nduration = \"300s\"\nwarmup = \"1s\"\n\
    [link]\nrate = \"20Mbit/s\"\nbuffer = \"300ms\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"gsp\"\n\
    [policy]\ntarget_max = \"30ms\"\n[[flows]]\ncount = 2\ncongestion = \"cubic\"\n";

#[test]
fn a_lab_is_followed_and_its_policy_changes_and_what_takes_a_restart_is_said() {
    let page = format!("--page={PAGE}");
    let Some(mut lab) = Lab::start("control", STEERED, &[&page, "--metrics", "127.0.0.1:9477"]) else {
        return;
    };
    let status = lab.status();
    assert_eq!((status.verb.as_str(), status.title.as_str()), ("lab", "one link"));
    let names: Vec<&str> = status.directions.iter().map(|direction| direction.name.as_str()).collect();
    assert_eq!(names, ["a_to_b", "b_to_a"]);
    let there = &status.directions[0];
    assert_eq!((there.rate_bps, there.rate_key.as_deref()), (Some(20e6), Some("link.rate")));
    assert_eq!(there.policy.as_ref().unwrap().key, "policy");
    assert!(status.directions[1].policy.is_none() && status.directions[1].rate_key.is_none());
    // TCP fills the link, which the status follows.
    let deadline = Instant::now() + PATIENCE;
    while lab.status().directions[0].delivered_bps < 10e6 {
        assert!(Instant::now() < deadline, "{:?}", lab.status());
        std::thread::sleep(Duration::from_millis(200));
    }
    // A policy and a rate, each by its own way.
    let (code, told) = lab.ctl(&["policy", "target_max=8ms"]);
    assert_eq!(code, 0, "{told}");
    let (code, told) = lab.ctl(&["set", "link.rate=10Mbit/s"]);
    assert_eq!(code, 0, "{told}");
    assert!(told["links"][0]["applied"]["at_s"].is_number(), "{told}");
    let status = lab.status();
    let there = &status.directions[0];
    assert_eq!((there.rate_bps, there.policy.as_ref().unwrap().target_max_ms), (Some(10e6), 8.0));
    assert!(there.setpoint_ms.unwrap() <= 8.0 && status.changes == 2, "{status:?}");
    let (_, told) = lab.ctl(&["get", "policy.target_max"]);
    assert_eq!(told["links"][0]["values"]["policy.target_max"], "\"8ms\"");
    // Each is refused with its key and what to do, and nothing changes.
    for (set, key) in [
        ("flows.0.count=3", "flows.0.count"),
        ("link.buffer=1s", "link.buffer"),
        ("path.rtt=5ms", "path.rtt"),
        ("aqm.name=codel", "aqm.name"),
        ("link.rate=30Mbit/s", "link.rate"),
    ] {
        let (code, told) = lab.ctl(&["set", "policy.target_max=7ms", set]);
        let refused = &told["links"][0]["refused"];
        assert_eq!((code, refused["needs_restart"].as_bool()), (1, Some(true)), "{set}: {told}");
        let keys: Vec<&str> =
            refused["problems"].as_array().unwrap().iter().filter_map(|one| one["key"].as_str()).collect();
        assert!(keys.contains(&key), "{set}: {told}");
        assert!(refused["error"].as_str().unwrap().contains("start `weir lab` again"), "{told}");
    }
    let (code, told) = lab.ctl(&["set", "link.rat=1"]);
    assert_eq!(code, 1, "{told}");
    assert_eq!(lab.status().directions[0].policy.as_ref().unwrap().target_max_ms, 8.0);
    // The page and the metrics of the same run.
    assert!(http(PAGE, "/").contains("<title>"));
    let metrics = http("127.0.0.1:9477", "/metrics");
    assert!(metrics.contains("weir_policy_target_max_seconds{direction=\"a_to_b\"} 0.008"), "{metrics}");
    // A policy by the page, with the token and not without.
    let token = std::fs::read_to_string("/run/weir/page.token").unwrap();
    assert!(change_by_page("policy.target_max", "6ms", "wrong").starts_with("HTTP/1.1 401"));
    let answer = change_by_page("policy.target_max", "6ms", token.trim_end());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(lab.status().directions[0].policy.as_ref().unwrap().target_max_ms, 6.0);
    // The file again gives up what was set.
    let (code, told) = lab.ctl(&["reload"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(lab.status().directions[0].rate_bps, Some(20e6));
    // So does SIGHUP from a process.
    let (code, told) = lab.ctl(&["set", "link.rate=10Mbit/s"]);
    assert_eq!(code, 0, "{told}");
    assert!(Command::new("kill").args(["-HUP", &lab.child.id().to_string()]).status().unwrap().success());
    let deadline = Instant::now() + PATIENCE;
    while lab.status().directions[0].rate_bps != Some(20e6) {
        assert!(Instant::now() < deadline, "{}", lab.said());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Its end by request keeps what was measured.
    let (code, told) = lab.ctl(&["drain"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.to_string().contains("what was measured until now is kept"), "{told}");
    let (out, socket) = (lab.folder.join("out/summary.json"), lab.child.id());
    let written = || std::fs::read_to_string(&out).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while lab.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it does not end: {}", lab.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!PathBuf::from(format!("/run/weir/control-{socket}.sock")).exists());
    let summary: Value = serde_json::from_str(&written()).unwrap();
    let warnings = summary["warnings"].to_string();
    assert!(warnings.contains("policy.target_max") && warnings.contains("link.rate"), "{warnings}");
    let (code, told) = lab.end();
    assert_eq!((code, told["interrupted"].as_bool()), (Some(130), Some(true)), "{told}");
}

#[test]
fn a_browser_follows_a_lab_and_changes_its_policy() {
    let Some(program) = chromium() else { return skipping::skipped("`chromium` is not installed") };
    let page = format!("--page={BROWSED}");
    let Some(mut lab) = Lab::start("browser", STEERED, &[&page]) else { return };
    lab.status();
    let url = format!("http://{BROWSED}/");
    let mut page = Browser::open(&program, &url, |_| {});
    page.until(LIVE);
    assert_eq!(page.text("title"), "one link");
    page.until("[...document.querySelectorAll('.tile')].some((t) => /delivered\\n[1-9]/.test(t.innerText))");
    // It follows: moves of the set point come.
    page.until("document.querySelectorAll('#delay polyline').length > 0 && document.getElementById('moves').innerText.length > 20");
    changes_a_policy_with_the_token_only(&mut page, &url, &mut |ms| {
        lab.status().directions[0].policy.as_ref().unwrap().target_max_ms == f64::from(ms)
    });
    assert_eq!(page.errors, [] as [String; 0]);
    drop(page);
    let (code, told) = lab.ctl(&["drain"]);
    assert_eq!(code, 0, "{told}");
    let (code, told) = lab.end();
    assert_eq!(code, Some(130), "{told}");
    assert!(told["warnings"].to_string().contains("policy.target_max"), "{told}");
}

#[test]
fn each_link_of_a_row_is_told_and_changes_by_its_name() {
    let scenario = "title = \"row\"\n[run]\nduration = \"300s\"\nwarmup = \"1s\"\n\
        [[links]]\nname = \"first\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20Mbit/s\"\nbuffer = \"100ms\"\n\
        aqm = { name = \"gsp\" }\npolicy = { target_max = \"20ms\" }\n\
        [[links]]\nname = \"second\"\nfrom = \"b\"\nto = \"c\"\nrate = \"15Mbit/s\"\nbuffer = \"100ms\"\n\
        steps = [{ at = \"299s\", rate = \"14Mbit/s\" }]\n\
        [[links]]\nname = \"third\"\nfrom = \"c\"\nto = \"d\"\nrate = \"25Mbit/s\"\nbuffer = \"100ms\"\n\
        aqm = { name = \"codel\" }\n\
        [[flows]]\nfrom = \"a\"\nto = \"d\"\ncongestion = \"cubic\"\n";
    let Some(mut lab) = Lab::start("row", scenario, &[]) else { return };
    let rates = |lab: &mut Lab| {
        let of = |d: &weir_operate::DirectionStatus| (d.name.clone(), d.rate_bps.unwrap_or(0.0) / 1e6);
        lab.status_of(3).directions.iter().map(of).collect::<Vec<_>>()
    };
    let named =
        |rates: [f64; 3]| ["first", "second", "third"].map(String::from).into_iter().zip(rates).collect();
    let expected: Vec<_> = named([20.0, 15.0, 25.0]);
    assert_eq!(rates(&mut lab), expected);
    let most = |lab: &mut Lab| lab.status_of(3).directions[0].policy.clone().unwrap();
    assert_eq!(most(&mut lab).key, "links.0.policy");
    let (code, told) = lab.ctl(&["policy", "first", "target_max=8ms"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(told["links"][0]["applied"]["changed"][0]["key"], "links.0.policy.target_max", "{told}");
    assert_eq!(most(&mut lab).target_max_ms, 8.0);
    // Two packet loops at once, one key by the name of its link and others by its number.
    let both = ["set", "links.third.rate=9Mbit/s", "links.2.aqm.interval=60ms", "links.0.rate=12Mbit/s"];
    let (code, told) = lab.ctl(&both);
    assert_eq!(code, 0, "{told}");
    assert!(told["links"][0]["applied"]["at_s"].is_number(), "{told}");
    let expected: Vec<_> = named([12.0, 15.0, 9.0]);
    assert_eq!(rates(&mut lab), expected);
    // What flows get follows: the third is the narrowest now.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mbps = lab.status_of(3).directions[2].delivered_bps / 1e6;
        if (3.0..=9.1).contains(&mbps) {
            break;
        }
        assert!(Instant::now() < deadline, "{mbps} {:?}", lab.status_of(3));
        std::thread::sleep(Duration::from_millis(200));
    }
    // One key that takes a restart refuses what is asked of all links.
    for (set, key) in [
        ("links.0.buffer=1s", "links.0.buffer"),
        ("links.first.delay=5ms", "links.0.delay"),
        ("links.second.rate=14Mbit/s", "links.1.rate"),
        ("flows.0.count=2", "flows.0.count"),
    ] {
        let (code, told) = lab.ctl(&["set", "links.first.policy.target_max=7ms", set]);
        let refused = &told["links"][0]["refused"];
        assert_eq!((code, refused["needs_restart"].as_bool()), (1, Some(true)), "{set}: {told}");
        let problems = refused["problems"].as_array().unwrap();
        assert!(problems.iter().any(|one| one["key"] == key), "{set}: {told}");
    }
    let (code, told) = lab.ctl(&["set", "links.fourth.rate=1Mbit/s"]);
    assert!(code == 1 && told.to_string().contains("is a list of 3"), "{told}");
    assert_eq!(most(&mut lab).target_max_ms, 8.0);
    // The file again.
    let (code, told) = lab.ctl(&["reload"]);
    assert_eq!(code, 0, "{told}");
    let expected: Vec<_> = named([20.0, 15.0, 25.0]);
    assert_eq!((rates(&mut lab), most(&mut lab).target_max_ms), (expected, 20.0));
    let (code, _) = lab.ctl(&["drain"]);
    assert_eq!(code, 0);
    let (code, told) = lab.end();
    assert_eq!(code, Some(130), "{told}");
    let warnings = told["warnings"].to_string();
    assert!(
        warnings.contains("links.0.policy.target_max") && warnings.contains("links.2.rate"),
        "{warnings}"
    );
}

/// Round trips per minute with a queue, and what else was told of them.
fn responsiveness(name: &str, aqm: &str) -> Option<Value> {
    let scenario = format!(
        "title = \"{name}\"\n[run]\nduration = \"12s\"\nwarmup = \"2s\"\n[link]\nrate = \"20Mbit/s\"\nbuffer = \"250ms\"\n\
         [path]\nrtt = \"20ms\"\n{aqm}\n[[flows]]\ncount = 1\ncongestion = \"cubic\"\n"
    );
    let mut lab = Lab::start(name, &scenario, &["--responsiveness"])?;
    // What is said between is read, or the program waits.
    lab.status();
    let (code, told) = lab.end();
    assert_eq!(code, Some(0), "{told}");
    let told = told["responsiveness"].clone();
    assert!(told["rpm"].as_f64().unwrap() > 0.0, "{told}");
    Some(told)
}

/// A FIFO of 250 ms that fills holds every round trip for as long; GSP, steered to 20 ms at most, does not.
#[test]
fn a_fifo_that_fills_answers_less_often_a_minute_than_queues_that_are_managed() {
    judged(|attempt| {
        attempt.tolerates(0.05);
        let Some(fifo) = responsiveness("rpm-fifo", "[aqm]\nname = \"tail_drop\"") else { return };
        let gsp = "[aqm]\nname = \"gsp\"\n[policy]\ntarget_max = \"20ms\"";
        let steered = responsiveness("rpm-gsp", gsp).unwrap();
        attempt.end();
        let of = |told: &Value, what: &str| told[what].as_f64().unwrap();
        // 60 000 / 270 ms are 222 a minute; a queue that is half full has 430.
        attempt.within("loaded RPM of a FIFO", of(&fifo, "loaded_rpm"), ..450.0);
        attempt.within("RPM steered / of a FIFO", of(&steered, "rpm") / of(&fifo, "rpm"), 1.5..);
        let foreign = of(&steered, "foreign_rpm") / of(&fifo, "foreign_rpm");
        attempt.within("RPM of new connections steered / of a FIFO", foreign, 1.0..);
        for told in [&fifo, &steered] {
            // No path answers faster than its length: 20 ms are 3000 a minute.
            assert!(of(told, "loaded_rpm") <= 3100.0 && of(told, "foreign_rpm") <= 3100.0, "{told}");
            assert!(told["probes"][0].as_u64() > Some(0) && told["probes"][1].as_u64() > Some(0), "{told}");
            attempt.within("Mbit/s", of(told, "goodput_bps") / 1e6, 8.0..20.0);
        }
    });
}

#[test]
fn one_socket_serves_runs_that_follow_each_other() {
    let second = std::env::temp_dir().join(format!("weir-lab-second-{}.toml", std::process::id()));
    std::fs::write(&second, STEERED.replace("one link", "another").replace("20Mbit/s", "16Mbit/s")).unwrap();
    let words = [second.to_str().unwrap(), "--set", "run.duration=6s"];
    let Some(mut lab) = Lab::start("follow", STEERED, &words) else { return };
    assert_eq!(lab.status().title, "one link");
    let (code, told) = lab.ctl(&["set", "link.rate=9Mbit/s"]);
    assert_eq!(code, 0, "{told}");
    let deadline = Instant::now() + FOR_A_TURN;
    while lab.status().title != "another" {
        assert!(Instant::now() < deadline, "{:?}", lab.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    // What was changed in the first is not in force in the second, which changes by itself.
    assert_eq!(lab.status().directions[0].rate_bps, Some(16e6));
    let (code, told) = lab.ctl(&["set", "link.rate=8Mbit/s"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(lab.status().directions[0].rate_bps, Some(8e6));
    let (code, told) = lab.end();
    let _ = std::fs::remove_file(second);
    let warnings = |run: usize| told["runs"][run]["warnings"].to_string();
    assert_eq!(code, Some(0), "{told}");
    assert!(warnings(0).contains("\\\"9Mbit/s\\\"") && warnings(1).contains("\\\"8Mbit/s\\\""), "{told}");
}

/// The link falls from 20 to 5 Mbit/s, and TCP fills it before and after. By the rate at the start the second
/// half would have a quarter.
#[test]
fn a_lab_judges_its_link_by_the_rates_in_force() {
    let steps = "buffer = \"300ms\"\nsteps = [{ at = \"3s\", rate = \"5Mbit/s\" }]";
    let scenario = STEERED.replace("buffer = \"300ms\"", steps).replace("300s", "6s");
    judged(|attempt| {
        attempt.tolerates(0.05);
        let Some(lab) = Lab::start("capacity", &scenario, &[]) else { return };
        let (status, told) = lab.end();
        attempt.end();
        assert_eq!(status, Some(0), "{told}");
        let link = &told["links"][0];
        let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("no {key}: {link}"));
        let phases = link["phases"].as_array().unwrap_or_else(|| panic!("no phases: {link}"));
        let ends: Vec<f64> = phases.iter().map(|phase| number(phase, "to_s")).collect();
        assert_eq!(ends, [3.0, 6.0], "{link}");
        attempt.within("used", number(link, "utilization"), 0.7..1.01);
        attempt.within("used at 5 Mbit/s", number(&phases[1], "utilization"), 0.7..1.02);
    });
}
