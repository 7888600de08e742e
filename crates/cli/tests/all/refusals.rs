//! What the program refuses before it begins, and how it says so.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::program;

use program::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the program with `--json`, which must refuse; what the one object on standard output says.
fn error(arguments: &str, status: i32) -> String {
    let output = weir(arguments);
    let printed = text(&output.stdout);
    let object: Value = serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
    assert_eq!(output.status.code(), Some(status), "weir {arguments}: {printed}");
    assert_eq!(object.as_object().unwrap().len(), 1, "{printed}");
    object["error"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn wrong_arguments_are_an_object_for_programs() {
    assert!(error("--json sim", 2).starts_with("the following required arguments were not provided"));
    assert!(error("simm --json x.toml", 2).starts_with("unrecognized subcommand 'simm'"));
    assert!(error("sim x.toml --sed 3 --json", 2).contains("unexpected argument '--sed'"));
    assert!(error("--json sim x.toml --seed many", 2).starts_with("invalid value 'many' for '--seed <N>'"));
    assert!(error("--json", 2).contains("requires a subcommand"));
    // People are told how it is used; what is no error is no object.
    let output = weir("sim");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("Usage:"), "{output:?}");
    assert!(done("--json --help").contains("Usage:"));
    assert!(done("--version").starts_with("weir "));
}

#[test]
fn what_check_prints_is_a_file_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        "[ports]\na = \"nosuch0\"\nb = \"nosuch1\"\n[a_to_b]\nrate = \"10Mbit/s\"\naqm.name = \"codel\"\n";
    let config = file(folder.path(), "bridge.toml", config);
    let output = weir(&format!("check {} --print", config.display()));
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(told.contains("warning: ") && !printed.contains("warning: "), "{printed}{told}");
    let full = file(folder.path(), "full.toml", &printed);
    assert!(done(&format!("check {}", full.display())).contains("a valid configuration"));
}

#[test]
fn names_that_others_use_lead_to_those_of_here() {
    let told = refused("explain fq_pie", 2);
    assert!(told.contains("see `weir explain pie` and `weir explain flow`"), "{told}");
    assert!(refused("explain CoDel", 2).contains("did you mean `codel`?"));
    assert!(refused("explain Steering", 2).contains("did you mean `steering`?"));
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let told = refused(&format!("sim {} --set flows.0.congestion=newreno", scenario.display()), 2);
    assert!(told.contains("did you mean `reno`?"), "{told}");
}

/// A scenario that takes longer than anybody waits.
fn endless(folder: &Path) -> String {
    let path = file(folder, "endless.toml", &SMALL.replace("\"3s\"", "\"86400s\""));
    path.display().to_string()
}

/// Ends a process that should have ended long ago.
fn end(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs the program, which must refuse at once; what it said.
fn at_once(arguments: &[&str], status: i32) -> String {
    let mut command = Command::new(WEIR);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    command.args(arguments).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let code = end(command.spawn().unwrap());
    let told = fs::read_to_string(log).unwrap();
    assert_eq!(code, Some(status), "weir {arguments:?}: {told}");
    told
}

#[test]
fn results_that_would_have_no_place_are_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = endless(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    file(folder.path(), "file", "");
    // The folder of one of several runs has a file in its place.
    file(folder.path(), "several/endless-2", "");
    file(folder.path(), "swept/points", "");
    let cases = [
        (vec!["sim", &scenario], "file"),
        (vec!["sim", &scenario, "--set", "run.seeds=2"], "several"),
        (vec!["sweep", &scenario], "file"),
        (vec!["sweep", &scenario], "swept"),
        (vec!["reproduce", "steering", "--figure", "5", "--arm", "sim"], "file"),
        #[cfg(feature = "live")]
        (vec!["compare", &scenario], "file"),
        #[cfg(feature = "live")]
        (vec!["lab", &scenario], "file"),
    ];
    for (arguments, out) in cases {
        let out = at(out);
        let told = at_once(&[&arguments[..], &["--out", &out]].concat(), 1);
        assert!(told.contains("cannot create") && told.contains(&out) && told.contains("--out"), "{told}");
    }
    // Nobody makes files there.
    #[cfg(target_os = "linux")]
    {
        let told = at_once(&["sim", &scenario, "--out", "/proc/self"], 1);
        assert!(told.contains("cannot write to /proc/self: ") && told.contains("choose another"), "{told}");
    }
}

#[test]
fn nothing_is_left_of_the_look_at_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    let out = folder.path().join("out");
    done(&format!("sim {} --out {}", scenario.display(), out.display()));
    let hidden = tree(&out).into_keys().filter(|name| name.to_string_lossy().contains(".weir"));
    assert_eq!(hidden.collect::<Vec<_>>(), [Path::new(".weir-files")], "but the list of what is there");
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display().to_string();
    let text = SMALL.replace("rate = \"10Mbit/s\"", "trace = \"pipe\"");
    let traced = file(folder.path(), "traced.toml", &text).display().to_string();
    let out = folder.path().join("out").display().to_string();
    for verb in ["check", "sim", "sweep"] {
        let more: &[&str] = if verb == "check" { &[] } else { &["--out", &out] };
        let told = at_once(&[&[verb, &pipe][..], more].concat(), 2);
        assert!(told.contains("pipe: is a pipe, not a regular file; save the content to a file"), "{told}");
        let told = at_once(&[&[verb, "/dev/zero"][..], more].concat(), 2);
        assert!(told.contains("/dev/zero: is a device, not a regular file"), "{told}");
        let told = at_once(&[&[verb, &traced][..], more].concat(), 2);
        assert!(told.contains("trace") && told.contains("is a pipe, not a regular file"), "{told}");
    }
    assert!(refused(&format!("check {}", folder.path().display()), 2).contains("is a folder"));
}

#[cfg(feature = "live")]
#[test]
fn what_only_the_simulator_can_do_is_wrong_input_for_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "web.toml", &SMALL.replace("count = 2", "web = {}"));
    for verb in ["lab", "compare"] {
        let told = refused(&format!("{verb} {}", scenario.display()), 2);
        assert!(told.contains("web.toml: only the simulator knows `flows.0.web`: use `weir sim`"), "{told}");
    }
}

#[test]
fn options_that_change_nothing_there_are_refused() {
    let told = refused("reproduce vaqm --arm sim --jobs 2", 2);
    assert!(told.contains("--jobs: the simulator takes all processors"), "{told}");
    let told = refused("reproduce steering --figure bbr --arm sim --resume", 2);
    assert!(told.contains("--arm sim without --rate, --seeds, --quick and --resume"), "{told}");
    let told = refused("reproduce steering --figure bbr --arm lab --quick", 2);
    assert!(told.contains("or --arm lab without --rate and --quick"), "{told}");
    let told = refused("reproduce steering --figure virtual-sweep --arm sim --series GSP-AS", 2);
    assert!(told.contains("--series is for the figures of the paper alone: leave it out"), "{told}");
    for option in ["--quick", "--rate fast"] {
        let told = refused(&format!("reproduce steering --figure text --arm sim {option}"), 2);
        assert!(told.contains("rates and lengths of its own: leave out --rate and --quick"), "{told}");
    }
    let told = refused("reproduce steering --figure 8a --arm sim --series TD", 2);
    assert!(told.contains("--series: `TD` is none of this figure"), "{told}");
}

#[test]
fn a_file_that_is_no_toml_is_told_in_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let text = "Lorem ipsum, dolor = sit amet\n".repeat(500);
    let path = file(folder.path(), "prose.txt", &text);
    let output = weir(&format!("check {}", path.display()));
    let told = program::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.lines().count() <= 6 && told.contains("more problems; mend these first"), "{told}");
}

#[test]
fn every_verb_has_an_example() {
    let live: &[&str] = if cfg!(feature = "live") { &["run", "lab", "compare", "doctor"] } else { &[] };
    let always = ["sim", "sweep", "tune", "list", "explain", "check", "characterize"];
    let papers = ["reproduce", "reproduce steering", "reproduce avq"];
    for verb in live.iter().copied().chain(always).chain(papers) {
        let help = done(&format!("{verb} --help"));
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{verb}: {help}"));
        assert!(examples.contains(&format!("weir {verb}")), "{verb}: {examples}");
    }
}

#[test]
fn a_congestion_control_that_nobody_has_is_told_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{SMALL}sweep.\"aqm.target\" = [\"2ms\", \"10ms\"]\n");
    let scenario = file(folder.path(), "small.toml", &text);
    let cubick = format!("{} --set flows.0.congestion=cubick", scenario.display());
    let told = refused(&format!("sim {cubick}"), 2);
    assert!(told.contains("no congestion control `cubick`; did you mean `cubic`? choose"), "{told}");
    // With the line, also where it is swept.
    let alone = SMALL.replace("flows = [{ count = 2 }]", "flows = [{ congestion = \"cubick\" }]");
    let swept = format!("{SMALL}[sweep]\n\"flows.0.congestion\" = [\"reno\", \"cubick\"]\n");
    for wrong in [alone, swept] {
        let path = file(folder.path(), "wrong.toml", &wrong);
        let told = refused(&format!("sim {}", path.display()), 2);
        let line = wrong.lines().position(|line| line.contains("cubick")).unwrap() + 1;
        assert!(
            told.contains(&format!("wrong.toml:{line}: key `flows.0.congestion`: the simulator")),
            "{told}"
        );
    }
    let checked: Value = serde_json::from_str(&done(&format!("check --json {cubick}"))).unwrap();
    let warnings = checked["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "once, not for each point: {checked}");
    let warning = warnings[0].as_str().unwrap();
    assert!(
        warning.contains("`cubick`, so `weir sim` refuses it") && warning.contains("`cubic`?"),
        "{warning}"
    );
    let plain = done(&format!("check {}", scenario.display()));
    assert!(!plain.contains("warning"), "{plain}");
    // Datagrams have none.
    let datagrams = format!("check {} --set flows.0.udp_rate=1Mbit/s", scenario.display());
    assert!(!done(&datagrams).contains("warning"));
}

#[test]
fn a_configuration_that_lacks_its_ports_is_not_taken_for_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let bridge =
        file(folder.path(), "bridge.toml", "[a_to_b]\nrate = \"10Mbit/s\"\naqm = { name = \"gsp\" }\n");
    let told = refused(&format!("check {}", bridge.display()), 2);
    assert!(told.contains("key `ports.a`: is missing") && !told.contains("scenario"), "{told}");
    let upf = file(folder.path(), "upf.toml", "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n");
    let told = refused(&format!("check {}", upf.display()), 2);
    assert!(told.contains("key `n4.address`: is missing") && !told.contains("scenario"), "{told}");
}

#[cfg(feature = "live")]
#[test]
fn ports_and_cores_that_this_machine_lacks_are_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let text = "ports = { a = \"no-such-port\", b = \"lo\" }\nhost = { core = 1023 }\n";
    let path = file(folder.path(), "bridge.toml", text);
    let checked: Value = serde_json::from_str(&done(&format!("check --json {}", path.display()))).unwrap();
    let warnings: Vec<&str> =
        checked["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let parts = ["there is no interface `no-such-port` here", "lo: it is the loopback", "host.core is 1023"];
    assert_eq!(warnings.len(), parts.len(), "{warnings:?}");
    for (warning, part) in warnings.iter().zip(parts) {
        assert!(warning.starts_with("on this machine: ") && warning.contains(part), "{warning}");
    }
    let steered = file(folder.path(), "queues.toml", "[[queues]]\ninterface = \"no-such-port\"\n");
    let told = done(&format!("check {}", steered.display()));
    assert!(told.contains("warning: on this machine: there is no interface `no-such-port`"), "{told}");
}

#[cfg(unix)]
#[test]
fn what_hangs_at_its_end_is_ended_by_a_later_signal_and_not_by_a_quick_one() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), "small.toml", SMALL);
    // A pipe that is full and that nobody reads: results cannot be printed.
    let (_unread, mut full) = std::io::pipe().unwrap();
    let fd = full.as_raw_fd();
    let set = |flags: i32| {
        // SAFETY: no pointers are involved; the descriptor is open.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }, 0);
    };
    set(libc::O_NONBLOCK);
    while full.write(&[0; 4096]).is_ok() {}
    set(0);
    let mut command = Command::new(WEIR);
    command.arg("sim").arg(&scenario).arg("--out").arg(folder.path().join("out")).stderr(Stdio::null());
    let mut child = command.stdout(full).spawn().unwrap();
    let pid = child.id() as i32;
    let signal = || {
        // SAFETY: no pointers are involved; the process is our child, which was not waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    };
    let wait = |ms| std::thread::sleep(Duration::from_millis(ms));
    // It hangs when it has started and computed; before it has started, a signal would end it at once.
    let hangs = || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut places = tasks.filter_map(|task| fs::read_to_string(task.path().join("wchan")).ok());
        places.any(|place| place.contains("pipe_write"))
    };
    let begun = Instant::now();
    while !hangs() && begun.elapsed() < Duration::from_secs(20) {
        wait(20);
    }
    for _ in 0..3 {
        signal();
        wait(300);
    }
    assert_eq!(child.try_wait().unwrap(), None, "it has two seconds to end in order");
    wait(1500);
    signal();
    let ended = Instant::now();
    assert_eq!(end(child), Some(130));
    assert!(ended.elapsed() < Duration::from_secs(5));
}
