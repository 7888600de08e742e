//! The short form of the fault simulation, and seeds that once found something.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use weir_faultsim::campaign::Case;
use weir_faultsim::faults::{Fault, Kind};
use weir_faultsim::life;
use weir_faultsim::plan::Plan;
use weir_faultsim::user::{self, Script};

/// Seeds of the short form.
const SEEDS: u64 = 200;
/// Seeds that failed before what they found was mended, with what that was.
const ONCE_FAILED: &[(u64, &str)] =
    &[(7, "packets waited for ever for a neighbour that never answers"), (1011, "the same, at both ports")];

fn found(seed: u64) -> Option<String> {
    let report = Case::of(seed).run(false);
    (!report.violations.is_empty()).then(|| format!("seed {seed}: {}", report.violations.join("; ")))
}

#[test]
fn nothing_is_found_in_some_seeds() {
    weir_faultsim::warm_up();
    let found: Vec<String> = (1..=SEEDS).filter_map(found).collect();
    assert!(found.is_empty(), "replay with `faultsim --seed N`:\n{}", found.join("\n"));
}

#[test]
fn nothing_is_found_where_something_was() {
    weir_faultsim::warm_up();
    let found: Vec<String> = ONCE_FAILED.iter().filter_map(|(seed, _)| found(*seed)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Cases that failed before what they found was mended, made as small as possible. The name of a file says
/// what happens in it.
#[test]
fn nothing_is_found_in_cases_that_once_failed() {
    weir_faultsim::warm_up();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
    let files: Vec<_> = std::fs::read_dir(folder).expect("it is in the repository").flatten().collect();
    let found: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let text = std::fs::read(file.path()).expect("a file");
            let case: Case = serde_json::from_slice(&text).expect("a case");
            let violations = case.run(false).violations;
            (!violations.is_empty()).then(|| format!("{}: {}", file.path().display(), violations.join("; ")))
        })
        .collect();
    assert!(
        files.len() >= 5 && found.is_empty(),
        "replay with `faultsim --case FILE`:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_run_is_taken_over_where_the_system_does_not_tell_the_name_of_the_namespace() {
    weir_faultsim::warm_up();
    let mut plan = Plan::of(4);
    (plan.mode, plan.kills, plan.length) = (None, Vec::new(), 500_000_000);
    plan.ports.iter_mut().for_each(|port| (port.queues, port.offloads) = (1, [false; 3]));
    let fault = |at, kind, value| Fault { at, span: 0, port: 0, kind, value };
    // The loop asks for its losses every 200 ms, and the process that takes over for the name in between.
    plan.faults =
        vec![fault(220_000_000, Kind::StatisticsErrno, 19 << 8), fault(230_000_000, Kind::Takeover, 0)];
    let report = life::run(&plan, true);
    let words = report.trace.join("\n");
    assert!(report.violations.is_empty() && words.contains("took over the ports"), "{words}");
    assert!(report.met.all().any(|(kind, n)| kind == Kind::StatisticsErrno && n > 1), "{words}");
}

#[test]
fn a_seed_gives_the_same_steps_each_time() {
    weir_faultsim::warm_up();
    for seed in [3, 7, 11, 15, 19] {
        let [first, second] = [0, 1].map(|_| Case::of(seed).run(true));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(
            (first.calls, first.simulated, first.frames),
            (second.calls, second.simulated, second.frames)
        );
    }
}

#[test]
fn a_process_killed_at_each_of_its_first_calls_leaves_ports_that_the_next_one_puts_back() {
    weir_faultsim::warm_up();
    let mut plan = Plan::of(4);
    (plan.faults, plan.mode, plan.length) = (Vec::new(), None, 50_000_000);
    plan.ports.iter_mut().for_each(|port| (port.queues, port.offloads, port.clsact) = (1, [true; 3], true));
    for step in 1..=420 {
        plan.kills = vec![step];
        let report = life::run(&plan, false);
        assert!(report.violations.is_empty(), "killed at step {step}: {:?}", report.violations);
    }
}

#[test]
fn what_others_take_off_is_put_back_and_told() {
    weir_faultsim::warm_up();
    let mut plan = Plan::of(4);
    (plan.mode, plan.kills, plan.length) = (None, Vec::new(), 3_000_000_000);
    plan.ports.iter_mut().for_each(|port| (port.queues, port.offloads, port.clsact) = (1, [true; 3], false));
    for (port, value) in [(0, 0), (1, 1), (0, 2)] {
        plan.faults = vec![Fault { at: 700_000_000, span: 0, port, kind: Kind::ProgramsRemoved, value }];
        let report = life::run(&plan, true);
        assert!(report.violations.is_empty(), "{value}: {:?}", report.violations);
        let told =
            ["the filter that fails open was removed", "the filter that", "the XDP program was taken off"];
        let words = report.trace.join("\n");
        assert!(words.contains(told[value as usize]), "{value}: {words}");
    }
}

/// At which system call of its life a process says this for the first time.
fn step_of(trace: &[String], words: &str) -> u64 {
    let line = trace.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {trace:?}"));
    let step = line.split("step").nth(1).and_then(|rest| rest.split_whitespace().next());
    step.and_then(|step| step.parse().ok()).expect("each line of a trace has its step")
}

#[test]
fn a_takeover_that_is_killed_at_each_step_leaves_the_wire_open() {
    weir_faultsim::warm_up();
    std::thread::scope(|scope| {
        for mode in [None, Some(weir_dataplane::Mode::AfPacket)] {
            scope.spawn(move || killed_takeovers(mode));
        }
    });
}

fn killed_takeovers(mode: Option<weir_dataplane::Mode>) {
    let mut plan = Plan::of(4);
    (plan.mode, plan.length) = (mode, 300_000_000);
    plan.ports.iter_mut().for_each(|port| (port.queues, port.offloads, port.clsact) = (1, [true; 3], true));
    plan.faults = vec![Fault { at: 20_000_000, span: 0, port: 0, kind: Kind::Takeover, value: 0 }];
    plan.kills = Vec::new();
    let trace = life::run(&plan, true).trace;
    // Of the one that takes over, each until it forwards; of the one that is there, each from its beginning
    // on.
    let forwards = step_of(&trace, "process 2 forwards");
    let ended = step_of(&trace, "it ended by its user");
    assert!(forwards > 100 && ended > 100, "{forwards}, {ended}");
    let of_rival = (1..=forwards + 1).map(|step| vec![0, step]);
    let kills = of_rival.chain((1..=ended + 1).map(|step| vec![step]));
    let (mut killed, mut taken) = (0, 0);
    for kills in kills {
        plan.kills = kills.clone();
        let report = life::run(&plan, true);
        assert!(report.violations.is_empty(), "killed at {kills:?}: {:?}", report.violations);
        killed += u64::from(report.trace.iter().any(|line| line.contains("the process is killed")));
        taken += u32::from(report.trace.join("\n").contains("took over the ports"));
    }
    assert!(killed >= forwards + ended - 2, "{killed} of {forwards} and {ended}");
    assert!(taken > 5, "{taken}");
}

#[test]
fn a_wall_clock_that_steps_disturbs_nothing() {
    weir_faultsim::warm_up();
    for seed in [1, 4, 12, 40] {
        let mut plan = Plan::of(seed);
        (plan.kills, plan.faults) = (Vec::new(), Vec::new());
        plan.length = plan.length.max(1_000_000_000);
        let [still, stepped] = [0, 3u64].map(|steps| {
            let step = |n| Fault {
                at: 300_000_000 * n,
                span: 0,
                port: 0,
                kind: Kind::WallStep,
                value: n * 1_234_567_891,
            };
            plan.faults = (1..=steps).map(step).collect();
            life::run(&plan, false)
        });
        assert!(stepped.violations.is_empty(), "{:?}", stepped.violations);
        assert_eq!(stepped.met.all().collect::<Vec<_>>(), [(Kind::WallStep, 3)]);
        let told =
            |report: &life::Report| (report.calls, report.frames, report.longest_delay, report.simulated);
        assert_eq!(told(&still), told(&stepped), "seed {seed}");
    }
}

#[test]
fn hostile_peers_alone() {
    let found =
        (1..=60).map(|seed| user::run(&Script::of(seed), false)).find(|report| !report.violations.is_empty());
    assert!(found.is_none(), "{found:?}");
}

#[test]
fn a_campaign_says_how_it_ended() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_faultsim")).args(words).output().expect("it was built");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = run(&["--seeds", "8", "--json"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("\"seeds\":8") && told.contains("faults_met"), "{told}");
    assert_eq!(run(&["--sedes", "8"]).0, Some(2));
    assert_eq!(run(&["--jobs", "0"]).0, Some(2));
}

#[test]
fn a_campaign_that_is_ended_tells_what_it_met() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let mut campaign = Command::new(env!("CARGO_BIN_EXE_faultsim"))
            .args(["--seeds", "100000000", "--jobs", "2"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut line = String::new();
        let told = campaign.stderr.as_mut().expect("it is a pipe");
        BufReader::new(told).read_line(&mut line).expect("it tells that it begins");
        assert!(line.starts_with("it begins"), "{line}");
        // SAFETY: plain numbers; the process is not waited for yet, so the number is its own.
        unsafe { libc::kill(campaign.id() as libc::pid_t, signal) };
        let output = campaign.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains("faults met, by kind"), "{told}");
    }
}

#[test]
fn idle_time_is_cheap_and_loses_nothing() {
    weir_faultsim::warm_up();
    // An hour of it, in a test.
    let report = life::run(&Plan::years(1, 3600), false);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.simulated >= 3_600_000_000_000 && report.frames.0 > 1000, "{:?}", report.frames);
    assert_eq!(report.frames.0, report.frames.1, "nothing is lost");
    let turns = report.calls as f64 / 3600.0;
    assert!(turns < 600.0, "{turns} system calls in a second of a link on which nothing happens");
}
