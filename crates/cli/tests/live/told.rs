//! What `weir run` tells while it goes, and what it leaves in its folder and in memory.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_lab::Testbed;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn states(testbed: &Testbed) -> [String; 2] {
    ["a", "b"].map(|port| state(testbed.bottleneck(), port))
}

fn shaped() -> String {
    let shaped =
        |name| format!("[{name}]\nrate = \"20Mbit/s\"\naqm = {{ name = \"gsp\" }}\n[{name}.policy]\n");
    ports("auto") + &shaped("a_to_b") + &shaped("b_to_a")
}

/// Memory of a process that is in use, in kilobytes, without that of its file: how much of the program is in
/// memory, is the kernel's choice.
fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Open descriptors of a process.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Bytes in the files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().flatten().map(|file| file.metadata().map_or(0, |found| found.len())).sum()
}

#[test]
fn memory_descriptors_and_logs_do_not_grow_with_time() {
    let Some(_turn) = long_turn_beside_others() else { return };
    let results = Folder::new();
    let body = |out: Option<&Path>| {
        let testbed = testbed();
        // In that time each table grows by a megabyte.
        let rotate = "rotate = \"100kB\"\nrotations = 1\n";
        let out = out.map_or(String::new(), |out| format!("out = {out:?}\n{rotate}"));
        let mut weir =
            Weir::start(testbed.bottleneck(), &format!("{}[run]\nsample = \"1ms\"\n{out}", shaped()));
        // By then all that has a fixed size has been used once.
        std::thread::sleep(ms(6000));
        let pid = weir.child.pid();
        let before = resident_kb(pid);
        let (open, said) = (descriptors(pid), weir.text("err").len());
        std::thread::sleep(ms(10_000));
        // At most one more, while a table is put aside.
        assert!(descriptors(pid) <= open + 1, "{} descriptors, {open} before", descriptors(pid));
        // Two lines every two seconds.
        let lines = weir.text("err").len() - said;
        assert!(lines < 4000, "{lines} bytes of log in 10 s: {}", weir.text("err"));
        if !out.is_empty() {
            let kept = bytes_in(results.path());
            assert!((200_000..800_000).contains(&kept), "{kept} bytes of results");
        }
        assert!(weir.child.try_wait().unwrap().is_none(), "{}", weir.text("err"));
        let grown = resident_kb(weir.child.pid()).saturating_sub(before);
        say(format!("{grown} kB more after 10 s of rows of 1 ms, {out:?}"));
        // Rows that are kept take two megabytes in that time.
        assert!(grown < 300, "{grown} kB more, {out:?}");
        assert_eq!(weir.interrupt().code, Some(0));
    };
    // Beside each other, as both mostly wait.
    each([None, Some(results.path())], body);
}

#[test]
fn devices_without_ethernet_headers_beside_one_with_them_are_refused_with_a_remedy_that_fits() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let mut devices = vec![("lo", "loopback")];
    exec(bot, "ip", &["link", "set", "dev", "lo", "up"]);
    let made = |kind: &str| try_exec(bot, "ip", &kind.split(' ').collect::<Vec<_>>()).0;
    for (name, how) in [
        ("t0", "tuntap add dev t0 mode tun"),
        ("g0", "link add g0 type gre local 192.0.2.1 remote 192.0.2.2"),
        ("w0", "link add w0 type wireguard"),
        ("s0", "link add s0 type sit local 192.0.2.1 remote 192.0.2.2"),
    ] {
        if made(how) {
            devices.push((name, "no Ethernet header"));
        } else {
            say(format!("no `{how}` here"));
        }
    }
    assert!(devices.len() > 1, "not even TUN devices");
    let found = states(&testbed);
    for (device, why) in devices {
        for (a, b) in [(device, "b"), ("a", device)] {
            let ended = Weir::spawn(bot, &format!("[ports]\na = \"{a}\"\nb = \"{b}\"\n"), &[]).wait();
            assert_eq!(ended.code, Some(1), "{device}: {}", ended.stderr);
            let told = &ended.stderr;
            assert!(told.contains(&format!("{device}: it is ")) && told.contains(why), "{told}");
            assert!(told.contains("Remedy: name ") && !told.contains(" mtu "), "{told}");
            let file = Folder::new();
            let path = file.path().join("check.toml");
            fs::write(&path, format!("[ports]\na = \"{a}\"\nb = \"{b}\"\n")).unwrap();
            let (_, checked) = try_exec(bot, env!("CARGO_BIN_EXE_weir"), &["check", path.to_str().unwrap()]);
            assert!(checked.contains(&format!("on this machine: {device}: it is ")), "{checked}");
        }
        if device == "lo" {
            // The user plane refuses it by its name.
            continue;
        }
        let upf = format!(
            "n3 = {{ port = \"{device}\", address = [\"192.0.2.1/24\"] }}\n\
             n4 = {{ address = \"127.0.0.1\", peers = [\"127.0.0.2\"] }}\n\
             n6 = {{ port = \"b\", address = [\"198.51.100.1/24\"], gateway = [\"198.51.100.254\"] }}\n"
        );
        let folder = Folder::new();
        let file = folder.path().join("upf.toml");
        fs::write(&file, upf).unwrap();
        let (ok, told) = try_exec(bot, env!("CARGO_BIN_EXE_weir"), &["upf", file.to_str().unwrap()]);
        assert!(!ok && told.contains(&format!("{device}: it is ")) && told.contains(why), "{told}");
    }
    assert_eq!(found, states(&testbed));
    // With Ethernet headers it is a port like others.
    exec(bot, "ip", &["tuntap", "add", "dev", "tap0", "mode", "tap"]);
    let tap = Weir::spawn(bot, "[ports]\na = \"tap0\"\nb = \"b\"\n[run]\nduration = \"300ms\"\n", &[]).wait();
    assert_eq!(tap.code, Some(0), "{}", tap.stderr);
}

#[test]
fn a_link_that_is_lost_and_found_is_told_at_once_and_in_the_results() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let (bot, far) = (testbed.bottleneck(), testbed.receiver());
    // Without a carrier from the start, too.
    exec(far, "ip", &["link", "set", "dev", "rcv0", "down"]);
    let weir = Weir::start(bot, &shaped());
    weir.until("b: no carrier: ");
    weir.until("no carrier on b\n");
    exec(far, "ip", &["link", "set", "dev", "rcv0", "up"]);
    let found_after = weir.until("b: the link is back; ");
    let said = |text: &str, times: usize| {
        until(&format!("`{text}` was said {times} times"), || {
            weir.text("err").matches(text).count() == times
        });
    };
    // Each state lasts until it was told: of what comes and goes between two looks the sum is told.
    exec(far, "ip", &["link", "set", "dev", "rcv0", "down"]);
    said("b: no carrier: ", 2);
    exec(far, "ip", &["link", "set", "dev", "rcv0", "up"]);
    said("b: the link is back; ", 2);
    exec(bot, "ip", &["link", "set", "dev", "a", "down"]);
    let down_after = weir.until("a: the interface was set down: ");
    // Its end is down now, which the other one notices as well.
    weir.until("a is down\n");
    exec(bot, "ip", &["link", "set", "dev", "a", "up"]);
    let up_after = weir.until("a: the link is back; ");
    say(format!("told after {found_after:?}, {down_after:?}, {up_after:?}"));
    // What is not told at once is told ten seconds later.
    assert!(found_after < ms(8000) && down_after < ms(8000) && up_after < ms(8000));
    let lines = || weir.text("err").lines().filter(|line| line.contains(" last ")).count();
    let before = lines();
    // Of both directions, and the next.
    until("lines tell how it stands", || lines() >= before + 4);
    let ended = weir.interrupt();
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(" last ")).collect();
    assert!(lines.iter().any(|line| line.ends_with("a is down")), "{}", ended.stderr);
    assert!(!lines.last().unwrap().contains("a is down"), "{}", ended.stderr);
    let warnings = ended.json()["warnings"].as_array().unwrap().clone();
    let told = |text: &str| warnings.iter().filter(|w| w.as_str().unwrap().contains(text)).count();
    let counts = [
        "b: no carrier: ",
        "b: the link is back; ",
        "a: the interface was set down: ",
        "a: the link is back; ",
    ];
    assert_eq!(counts.map(told), [2, 2, 1, 1], "{warnings:?}");
    // Other warnings, such as of a loop that other work keeps from its processor, may stand beside them.
    let timed = |w: &str| w.contains(" s after the start") && counts.iter().any(|text| w.contains(text));
    let timed = warnings.iter().filter(|w| timed(w.as_str().unwrap())).count();
    assert_eq!(timed, 6, "{warnings:?}");
}

#[test]
fn a_link_that_flaps_between_two_looks_is_told_with_its_count() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    let file = folder.path().join("flaps");
    fs::write(&file, "link set dev rcv0 down\nlink set dev rcv0 up\n".repeat(20)).unwrap();
    let weir = Weir::start(testbed.bottleneck(), &shaped());
    exec(testbed.receiver(), "ip", &["-batch", file.to_str().unwrap()]);
    weir.until("b: the link was lost and came back ");
    // What came behind that is told ten seconds later; a count in one look tells most of it.
    let said = weir.text("err");
    let (_, count) = said.split_once("b: the link was lost and came back ").unwrap();
    let count: u32 = count.split(' ').next().unwrap().parse().unwrap();
    say(format!("20 losses in a row, told as {count}"));
    assert!((1..=20).contains(&count), "{said}");
    assert_eq!(weir.interrupt().code, Some(0));
}

#[test]
fn lines_tell_both_directions_and_for_which_time() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let weir = Weir::start(testbed.bottleneck(), &shaped());
    // One that is late is of a longer time.
    weir.until("s  b_to_a  last 2.");
    for direction in ["a_to_b", "b_to_a"] {
        let of =
            |line: &&str| line.contains(&format!(" s  {direction}  last ")) && line.contains("drops 0, ");
        until(&format!("two lines of {direction}"), || weir.text("err").lines().filter(of).count() >= 2);
    }
    weir.interrupt();
}

#[test]
fn frames_past_the_queues_are_told_when_the_loop_turns_again() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let sender = Raw::open(testbed.sender(), "snd0");
    let begun = Instant::now();
    let mut weir = Weir::start(testbed.bottleneck(), &shaped());
    std::thread::sleep(ms(1000));
    assert!(!weir.text("err").contains("past the queues"), "{}", weir.text("err"));
    weir.signal(libc::SIGSTOP);
    std::thread::sleep(ms(600));
    let frame = [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 50]].concat();
    (0..40).for_each(|_| sender.send(&frame));
    std::thread::sleep(ms(100));
    weir.signal(libc::SIGCONT);
    let text = " frames were forwarded by the kernel past the queues: the packet loop did not turn from ";
    let after = weir.until(text);
    say(format!("told {after:?} after the loop could turn again"));
    // What is not told at once is told ten seconds later.
    assert!(after < ms(8000));
    let ended = weir.interrupt();
    let whole_s = begun.elapsed().as_secs_f64();
    let warnings = ended.json()["warnings"].to_string();
    let (before, _) = warnings.split_once(text).unwrap_or_else(|| panic!("{warnings}"));
    let frames: u32 = before.rsplit('"').next().unwrap().parse().unwrap();
    // Hosts may have sent some by themselves.
    assert!((40..60).contains(&frames), "{warnings}");
    // It was stopped for 0.7 s, and ran for no longer than what has passed here.
    let share = ended.json()["host"]["stalled_share"].as_f64().unwrap();
    assert!(
        share * whole_s > 0.6 && warnings.contains("the packet loop did not turn for "),
        "{share}: {warnings}"
    );
    assert!(warnings.contains("(more than 5 % is too much)"), "{warnings}");
}

#[test]
fn frames_that_waited_while_the_kernel_forwarded_newer_ones_are_counted_and_not_sent_late() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        let testbed = testbed();
        let (sender, receiver) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
        let frame = |number: u32| {
            [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &number.to_be_bytes(), &[7; 1000]].concat()
        };
        // A queue that takes seconds to send what follows.
        let link =
            "[a_to_b]\nrate = \"1Mbit/s\"\nbuffer = \"5s\"\naqm = { name = \"tail_drop\", limit = \"5s\" }\n";
        let mut weir = Weir::start(testbed.bottleneck(), &(ports(mode) + link));
        (0..200).for_each(|number| sender.send(&frame(number)));
        std::thread::sleep(ms(50));
        weir.stop();
        std::thread::sleep(ms(600));
        (200..220).for_each(|number| sender.send(&frame(number)));
        std::thread::sleep(ms(100));
        weir.signal(libc::SIGCONT);
        weir.until("forwarded by the kernel past the queues");
        (220..240).for_each(|number| sender.send(&frame(number)));
        std::thread::sleep(ms(1000));
        let seen = receiver.drain(ms(1000));
        let numbers = seen.iter().filter(|frame| frame.get(12..14) == Some(&[0x88, 0xb5]));
        let numbers: Vec<u32> =
            numbers.map(|frame| u32::from_be_bytes(frame[14..18].try_into().unwrap())).collect();
        assert!(numbers.is_sorted(), "{mode}: {numbers:?}");
        // Those of the kernel at least; the loop may be kept from its processor once more.
        assert!((200..220).all(|number| numbers.contains(&number)), "{mode}: {numbers:?}");
        let ended = weir.interrupt();
        let stale = ended.fault(0, "stale") as usize;
        say(format!("{mode}: {stale} frames were stale, {} arrived", numbers.len()));
        // Kernels send a frame of their own now and then.
        assert!((240..=250).contains(&(stale + numbers.len())), "{mode}: {stale} and {numbers:?}");
    }
}

#[test]
fn signals_in_quick_succession_end_a_run_in_order() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
    let found = states(&testbed);
    let cases = [
        vec![libc::SIGINT, libc::SIGINT],
        vec![libc::SIGTERM, libc::SIGTERM, libc::SIGTERM],
        vec![libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGINT],
    ];
    for signals in cases {
        let mut weir = Weir::start(bot, &shaped());
        assert_ne!(found, states(&testbed));
        for (n, signal) in signals.iter().enumerate() {
            std::thread::sleep(ms(if n == 0 { 0 } else { 4 }));
            weir.signal(*signal);
        }
        let ended = weir.wait();
        assert_eq!(ended.code, Some(0), "{signals:?}: {}", ended.stderr);
        assert!(ended.json()["links"].is_array());
        assert_eq!(found, states(&testbed), "{signals:?}");
        assert!(journals(bot).is_empty());
    }
    // `timeout` signals its child, and then its group.
    let ended = Weir::spawn(bot, &shaped(), &["timeout", "-s", "INT", "5"]).wait();
    assert_eq!(ended.code, Some(124), "{}", ended.stderr);
    let deadline = Instant::now() + PATIENCE;
    while found != states(&testbed) {
        assert!(Instant::now() < deadline, "not put back: {:?}", states(&testbed));
    }
    assert!(ended.json()["links"].is_array() && journals(bot).is_empty());
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.') && name != "earlier").collect();
    names.sort();
    names
}

const WHOLE: [&str; 4] = ["events.csv", "samples_a_to_b.csv", "samples_b_to_a.csv", "summary.json"];
const GROWING: [&str; 4] = ["INCOMPLETE", "events.csv", "samples_a_to_b.csv", "samples_b_to_a.csv"];

/// Rows of a table, the head not counted. Each must be whole.
fn rows(folder: &Path, name: &str) -> usize {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    assert!(text.ends_with('\n'), "a row is cut off: {text}");
    let fields = |line: &str| line.split(',').count();
    let head = fields(text.lines().next().unwrap());
    assert!(text.lines().all(|line| fields(line) == head), "{text}");
    text.lines().count() - 1
}

/// Waits until a table that is being written has so many rows.
fn grows(folder: &Path, name: &str, least: usize) {
    // The last of them may be being written.
    let lines = || fs::read_to_string(folder.join(name)).map_or(0, |text| text.matches('\n').count());
    until(&format!("{least} rows of {name}"), || lines() > least);
}

/// A folder for results, and a configuration that has a row written there every 10 ms.
fn with_results(folder: &Folder) -> (PathBuf, String) {
    let out = folder.path().join("out");
    let config = format!("{}[run]\nsample = \"10ms\"\nout = {out:?}\n", shaped());
    (out, config)
}

#[test]
fn results_are_written_as_the_run_goes_and_are_whole_at_its_end() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let folder = Folder::new();
    let (out, config) = with_results(&folder);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut weir = Weir::start(bot, &config);
        std::thread::sleep(ms(1000));
        assert_eq!(names(&out), GROWING);
        WHOLE[1..3].iter().for_each(|name| grows(&out, name, 40));
        let early = WHOLE[1..3].iter().map(|name| rows(&out, name)).min().unwrap();
        grows(&out, WHOLE[1], early + 20);
        let other = Weir::spawn(bot, &config, &[]).wait();
        assert_eq!(other.code, Some(1));
        assert!(other.stderr.contains("another run writes its results to"), "{}", other.stderr);
        weir.signal(signal);
        let ended = weir.wait();
        assert_eq!(
            (ended.code, names(&out)),
            (Some(0), WHOLE.map(String::from).to_vec()),
            "{}",
            ended.stderr
        );
        let summary: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
        assert_eq!((&summary["interrupted"], &summary), (&false.into(), &ended.json()));
    }
    // One that was to run longer is interrupted, and says so.
    let mut weir = Weir::start(bot, &(config.clone() + "duration = \"60s\"\n"));
    weir.signal(libc::SIGINT);
    assert_eq!(weir.wait().code, Some(130));
    assert_eq!(names(&out), [&["INCOMPLETE"], &WHOLE[..]].concat());

    // What was written stays where a run is killed, and where a port vanishes.
    let mut weir = Weir::start(bot, &config);
    grows(&out, WHOLE[1], 20);
    weir.signal(libc::SIGKILL);
    weir.wait();
    assert_eq!(names(&out), GROWING, "nothing of the run before");
    assert!(rows(&out, WHOLE[1]) > 10);
    let weir = Weir::start(bot, &config);
    grows(&out, WHOLE[1], 20);
    exec(bot, "ip", &["link", "del", "dev", "a"]);
    assert_eq!(weir.wait().code, Some(1));
    assert_eq!(names(&out), GROWING);
    assert!(rows(&out, WHOLE[1]) > 10);
    let told = fs::read_to_string(out.join("INCOMPLETE")).unwrap();
    assert!(told.contains("interface `a` vanished while running"), "{told}");
}

/// Where the results of the runs before are, the oldest first.
fn earlier(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.join("earlier")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
    all.sort();
    all
}

#[test]
fn a_run_that_takes_over_or_comes_after_a_crash_puts_the_results_before_aside() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let folder = Folder::new();
    let (out, config) = with_results(&folder);
    let first = Weir::start(bot, &config);
    grows(&out, WHOLE[1], 30);
    let mut second = Weir::start_with(bot, &config, &["--takeover"]);
    assert_eq!(first.wait().code, Some(0));
    second.until("the results of an earlier run are in ");
    grows(&out, WHOLE[1], 30);
    let before = earlier(&out);
    assert_eq!(before.iter().map(|folder| names(folder)).collect::<Vec<_>>(), [WHOLE]);
    assert!(rows(&before[0], WHOLE[1]) > 20 && rows(&out, WHOLE[1]) > 20);
    second.signal(libc::SIGKILL);
    second.wait();
    Weir::start(bot, &config).interrupt();
    let before = earlier(&out);
    assert_eq!(before.iter().map(|folder| names(folder)).collect::<Vec<_>>(), [&WHOLE[..], &GROWING[..]]);
    assert!(rows(&before[1], WHOLE[1]) > 20);
}

#[test]
fn files_of_others_are_not_overwritten() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let found = states(&testbed);
    let folder = Folder::new();
    let config = format!("{}[run]\nduration = \"300ms\"\nout = {:?}\n", shaped(), folder.path());
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    for name in WHOLE.iter().chain(&["INCOMPLETE"]) {
        let path = folder.path().join(name);
        fs::write(&path, "mine").unwrap();
        let ended = Weir::spawn(bot, &config, &[]).wait();
        assert_eq!(ended.code, Some(1), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains(name) && ended.stderr.contains("Remedy"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("a <-> b"), "refused before the ports are touched: {}", ended.stderr);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(found, states(&testbed));
    // Its own results it replaces.
    for _ in 0..2 {
        let ended = Weir::spawn(bot, &config, &[]).wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(names(folder.path()), [&WHOLE[..1], &["notes.txt"], &WHOLE[1..]].concat());
    }
}

#[test]
fn a_failure_after_the_result_leaves_one_json_object() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    let config = format!("{}[run]\nout = {:?}\n", shaped(), folder.path());
    let mut weir = Weir::start(testbed.bottleneck(), &config);
    fs::remove_file(folder.path().join(WHOLE[1])).unwrap();
    weir.signal(libc::SIGINT);
    let ended = weir.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("was replaced or removed"), "{}", ended.stderr);
    assert!(ended.json()["links"].is_array(), "one object, and it is the result");
}

#[test]
fn a_lab_that_waits_for_another_ends_when_it_is_asked_to() {
    // The turn of this test is what it waits for.
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    let scenario = folder.path().join("small.toml");
    fs::write(&scenario, "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\nflows = [{}]\naqm.name = \"codel\"\nrun.duration = \"2s\"\n")
        .unwrap();
    let said = folder.path().join("said");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("lab").arg(&scenario).arg("--out").arg(folder.path().join("out"));
    let mut lab = Started::of(command.stdout(fs::File::create(&said).unwrap()).stderr(Stdio::null()));
    let start = Instant::now();
    while !fs::read_to_string(&said).unwrap().contains("waiting for another run") {
        assert!(start.elapsed() < PATIENCE, "it never said that it waits");
        std::thread::sleep(ms(10));
    }
    // SAFETY: the process is a child that was not waited for.
    unsafe { libc::kill(lab.id() as i32, libc::SIGINT) };
    let status = lab.wait().unwrap();
    assert_eq!(status.code(), Some(130));
}
