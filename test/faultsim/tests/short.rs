//! The short form of the fault simulation, and seeds that once found something.

use std::process::Command;
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

#[test]
fn a_takeover_that_is_killed_at_any_step_leaves_the_wire_open() {
    killed_while_taken_over(11);
}

#[test]
#[ignore = "minutes: every step in place of every eleventh"]
fn a_takeover_that_is_killed_at_each_step_leaves_the_wire_open() {
    killed_while_taken_over(1);
}

fn killed_while_taken_over(stride: usize) {
    weir_faultsim::warm_up();
    let mut plan = Plan::of(4);
    (plan.mode, plan.length) = (None, 300_000_000);
    plan.ports.iter_mut().for_each(|port| (port.queues, port.offloads, port.clsact) = (1, [true; 3], true));
    plan.faults = vec![Fault { at: 20_000_000, span: 0, port: 0, kind: Kind::Takeover, value: 0 }];
    for mode in [None, Some(weir_dataplane::Mode::AfPacket)] {
        plan.mode = mode;
        let (mut lives, mut taken) = (Vec::new(), 0);
        // Of the one that takes over, each; of the one that is there, those around it.
        let of_rival = (0..=420).step_by(stride).map(|step| vec![0, step]);
        let kills = of_rival.chain((380..=560).step_by(stride).map(|step| vec![step]));
        for kills in kills {
            plan.kills = kills.clone();
            let report = life::run(&plan, true);
            assert!(report.violations.is_empty(), "killed at {kills:?}: {:?}", report.violations);
            taken += u32::from(report.trace.join("\n").contains("took over the ports"));
            lives.push(report.lives);
        }
        assert!(lives[0] == 2 && lives.contains(&3), "{lives:?}");
        assert!(taken > 5, "{taken}");
    }
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
