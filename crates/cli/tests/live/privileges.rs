//! What running programs keep of root's rights.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Instant;
use weir_dataplane::{JOURNALS, privileges};

const MODES: [&str; 3] = ["xdp-native", "xdp-generic", "af_packet"];

/// Looks at each thread of a process: the packet loop and who looks after its ports have what it takes, and
/// none else has anything.
fn assert_reduced(pid: u32, extra: u64) {
    assert_settles(pid, "weir-loop", |thread| {
        let has_rights = ["weir-loop", "weir-upkeep"].contains(&thread["Name"].as_str());
        let allowed = if has_rights { rights_of_loop() } else { extra };
        is_confined_to(thread, allowed)
    });
}

#[test]
fn a_run_keeps_only_what_it_needs_and_still_puts_its_ports_back() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "b", "down"]);
    exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
    let states = || ["a", "b"].map(|port| state(bot, port));
    let found = states();
    for mode in MODES {
        // An end by each signal, and one that nobody is told of.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
            let mut weir = Weir::start(bot, &ports(mode));
            assert_reduced(weir.child.pid(), 0);
            assert_ne!(states(), found, "{mode}");
            weir.signal(signal);
            let ended = weir.wait();
            if signal == libc::SIGKILL {
                assert_ne!(states(), found, "{mode}: the kernel forwards");
                let next = Weir::start(bot, &ports(mode));
                assert_reduced(next.child.pid(), 0);
                let ended = next.interrupt();
                assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                assert!(ended.stderr.contains("after a killed run"), "{}", ended.stderr);
            } else {
                assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                assert!(!ended.stderr.contains("NOT"), "{}", ended.stderr);
            }
            assert_eq!(states(), found, "{mode}, signal {signal}");
            assert!(journals(bot).is_empty());
        }
    }
}

#[test]
fn frames_pass_and_the_real_time_class_is_had_all_the_same() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let (near, far) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    for mode in MODES {
        let config = patient(&ports(mode).replace("[host]\n", "[host]\ncore = 0\n"));
        let weir = Weir::start(testbed.bottleneck(), &config);
        assert_reduced(weir.child.pid(), 0);
        let frame = [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 46]].concat();
        (0..100).for_each(|_| near.send(&frame));
        assert_eq!(far.take(100).len(), 100, "{mode}");
        let ended = weir.interrupt();
        assert_eq!(ended.json()["host"]["realtime"], true, "{mode}: {}", ended.stderr);
    }
}

#[test]
fn results_are_written_also_where_the_folder_is_anothers() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    for owner in [0, 65_534] {
        chown(folder.path(), Some(owner), None).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let out = folder.path().join(format!("of-{owner}"));
        fs::create_dir(&out).unwrap();
        chown(&out, Some(owner), None).unwrap();
        let config = format!("{}[run]\nout = {out:?}\n", ports("auto"));
        let weir = Weir::start(testbed.bottleneck(), &config);
        let extra = if owner == 0 { 0 } else { privileges::FOREIGN_FILES.bitmask() };
        assert_reduced(weir.child.pid(), extra);
        let ended = weir.interrupt();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(out.join("summary.json").exists() && !out.join("INCOMPLETE").exists());
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn journals_and_locks_are_closed_to_others() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    // As an earlier version left it.
    fs::create_dir_all(JOURNALS).unwrap();
    fs::set_permissions(JOURNALS, fs::Permissions::from_mode(0o755)).unwrap();
    let lock = format!("{JOURNALS}/starting.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let weir = Weir::start(testbed.bottleneck(), &ports("auto"));
    assert_eq!(mode(JOURNALS.as_ref()), 0o700);
    assert_eq!(mode(lock.as_ref()), 0o600);
    for journal in journals(testbed.bottleneck()) {
        assert_eq!(mode(&journal), 0o600, "{}", journal.display());
    }
    assert_eq!(journals(testbed.bottleneck()).len(), 1);
    assert_eq!(weir.interrupt().code, Some(0));
}

#[test]
fn pfcp_is_never_read_as_root() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "lo", "up"]);
    let found = ["a", "b"].map(|port| state(bot, port));
    let folder = Folder::new();
    let file = folder.path().join("upf.toml");
    let text = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"] }\n\
                n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n";
    fs::write(&file, text).unwrap();
    for options in [&[][..], &["--control-only"]] {
        let arguments = [&["upf", file.to_str().unwrap()], options].concat();
        let mut child = start_verb(bot, &folder, &arguments, "PFCP is read as the user");
        assert_settles(child.pid(), "weir", |thread| {
            let name = thread["Name"].as_str();
            let is_root = |key: &str| thread[key].split_whitespace().any(|id| id == "0");
            // The threads that wait for Ctrl-C, and for the end to remove the control socket, read nothing.
            let reads = !["ctrl-c", "weir-name"].contains(&name);
            ["weir-loop", "weir-upkeep"].contains(&name)
                || bits(thread, "CapPrm") == 0 && !(reads && (is_root("Uid") || is_root("Gid")))
        });
        if options.is_empty() {
            assert_reduced(child.pid(), 0);
        }
        child.signal(libc::SIGTERM).unwrap();
        let status = child.wait_until(Instant::now() + PATIENCE).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(0));
        assert_eq!(["a", "b"].map(|port| state(bot, port)), found);
        assert!(journals(bot).is_empty());
    }
}

#[test]
fn a_reflector_keeps_nothing() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    for mode in ["user", "xdp-generic"] {
        let arguments = ["reflect", "--interface", "rcv0", "--peer", "203.0.113.7", "--mode", mode];
        let arguments = [&arguments[..], &["--address", "203.0.113.8"]].concat();
        // It says so before it gives up its rights.
        let mut child = start_verb(testbed.receiver(), &folder, &arguments, "reflecting");
        assert_settles(child.pid(), "weir", |thread| {
            let allowed = if mode == "user" { 0 } else { privileges::PROGRAMS.bitmask() };
            let is_root = thread["Uid"].split_whitespace().any(|id| id == "0");
            bits(thread, "CapPrm") & !allowed == 0
                && thread["Seccomp"] == "2"
                && !(thread["Name"] == "weir" && mode == "user" && is_root)
        });
        child.signal(libc::SIGTERM).unwrap();
        let status = child.wait_until(Instant::now() + PATIENCE).unwrap();
        let told = fs::read_to_string(folder.path().join("err")).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(0), "{told}");
    }
}

#[test]
fn doctor_tells_what_can_be_given_up() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let (_, text) = try_exec(testbed.bottleneck(), env!("CARGO_BIN_EXE_weir"), &["doctor"]);
    for name in ["capabilities", "seccomp", "Landlock"] {
        let line = text.lines().find(|line| line.contains(&format!("  {name} "))).unwrap_or_default();
        assert!(line.starts_with("ok") || line.starts_with("optional"), "{name}: {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("ok") && line.contains("are given up")), "{text}");
}
