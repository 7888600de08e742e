//! Rates are judged only while the machine was there: the rule, and how it is found out what was taken away.

mod skipped;

use skipped::judged::*;
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What comes of attempts in which these shares of the time are taken away, and how many there are, where the
/// rate is as given.
fn decided(shares: &[f64], rate: f64) -> (Outcome, usize) {
    let mut number = 0;
    let outcome = decide(&Budget::new(REPEATS), || {
        let mut attempt = Attempt::default();
        attempt.stalled(shares[number]);
        attempt.within("rate", rate, 19.8..=20.2);
        number += 1;
        attempt
    });
    (outcome, number)
}

#[test]
fn an_attempt_that_is_disturbed_decides_nothing() {
    for rate in [20.0, 19.79] {
        let (outcome, number) = decided(&[0.045, 0.02, 0.5, 0.0], rate);
        let Outcome::Undecided(text) = outcome else { panic!("{outcome:?}") };
        assert_eq!(number, ATTEMPTS);
        for told in
            ["more than 1 %", "4.5 %", "2.0 %", "50.0 %", &format!("rate {rate:.3} (bounds 19.8..=20.2")]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}

#[test]
fn the_first_attempt_that_is_not_disturbed_decides() {
    for (shares, attempts) in [(&[0.01][..], 1), (&[0.3, 0.0], 2), (&[0.3, 0.011, 0.009], 3)] {
        assert_eq!(decided(shares, 19.8), (Outcome::Held, attempts));
        let (outcome, number) = decided(shares, 19.79);
        let Outcome::Missed(text) = outcome else { panic!("{outcome:?}") };
        assert!(
            number == attempts
                && text.starts_with("missed: rate 19.790 (bounds 19.8..=20.2 MISSED); of all, "),
            "{text}"
        );
    }
    // What is no number is within no bounds.
    assert!(matches!(decided(&[0.0], f64::NAN).0, Outcome::Missed(_)));
}

#[test]
fn a_busy_machine_does_not_make_tests_longer_than_the_time_there_is_for_repeats() {
    // Other tests of this program keep the processors busy, so that a sleep may take some tenths of a second
    // more: one of them has room here, and two have not.
    let left = Budget::new(Duration::from_millis(1900));
    let mut number = 0;
    let mut disturbed = || {
        decide(&left, || {
            number += 1;
            std::thread::sleep(Duration::from_millis(1000));
            let mut attempt = Attempt::default();
            attempt.stalled(0.5);
            attempt
        })
    };
    let Outcome::Undecided(text) = disturbed() else { panic!("it was disturbed") };
    assert!(text.contains("in each of 2 attempts"), "{text}");
    let Outcome::Undecided(text) = disturbed() else { panic!("it was disturbed") };
    assert!(text.contains("in the one attempt that there was time for"), "{text}");
    assert_eq!(number, 3);
}

#[test]
fn wide_bounds_are_judged_in_spite_of_more() {
    let tolerant = |taken: f64| {
        decide(&Budget::new(REPEATS), || {
            let mut attempt = Attempt::default();
            attempt.tolerates(0.1);
            attempt.stalled(taken);
            attempt.within("delay", 90.0, ..300.0);
            attempt
        })
    };
    assert_eq!(tolerant(0.1), Outcome::Held);
    let Outcome::Undecided(text) = tolerant(0.11) else { panic!("it was disturbed") };
    assert!(text.contains("more than 10 %"), "{text}");
}

#[test]
fn what_decides_too_little_has_not_passed_and_hides_nothing_that_was_missed() {
    let of = |rate: f64| {
        decide(&Budget::new(REPEATS), || {
            let mut attempt = Attempt::default();
            attempt.within("rate", rate, 19.8..=20.2);
            attempt.undecided("7 of 19 claims");
            attempt
        })
    };
    assert_eq!(of(20.0), Outcome::Undecided("undecided: 7 of 19 claims".into()));
    assert!(matches!(of(19.0), Outcome::Missed(_)));
}

#[test]
fn time_of_others_is_told_from_our_own() {
    let of = |processes: &[(u32, u32, u64, u64, u64)]| -> HashMap<u32, Process> {
        let entry = |&(pid, parent, started, used, reaped)| (pid, Process { parent, started, used, reaped });
        processes.iter().map(entry).collect()
    };
    // The kernel's threads 2 and 3, our 10 with its child 11, and the others 1, 20 and 21.
    let before = of(&[
        (1, 0, 0, 50, 900),
        (2, 0, 0, 7, 0),
        (3, 2, 0, 70, 0),
        (10, 1, 5, 100, 10),
        (11, 10, 6, 20, 0),
        (20, 1, 7, 1000, 40),
        (21, 20, 8, 300, 0),
    ]);
    let changed = |change: &dyn Fn(&mut HashMap<u32, Process>)| {
        let mut after = before.clone();
        change(&mut after);
        used_by_others(&before, &after, 10)
    };
    assert_eq!(changed(&|_| ()), 0);
    // Ours and the kernel's, and a child of ours that came and another one that ended.
    assert_eq!(
        changed(&|after| {
            after.get_mut(&3).unwrap().used += 500;
            after.get_mut(&10).unwrap().used += 500;
            after.get_mut(&10).unwrap().reaped += 25;
            after.remove(&11);
            after.insert(12, Process { parent: 10, started: 9, used: 30, reaped: 0 });
        }),
        0
    );
    // One that ran; one that came, ran and ended, of which its parent tells.
    assert_eq!(changed(&|after| after.get_mut(&20).unwrap().used += 5), 5);
    assert_eq!(changed(&|after| after.get_mut(&20).unwrap().reaped += 6), 6);
    // One that ended had run 300 before, and 4 since; nobody may ask for it, and then it is not known.
    let ended = |reaped| {
        move |after: &mut HashMap<u32, Process>| {
            after.remove(&21);
            after.get_mut(&20).unwrap().reaped += reaped;
        }
    };
    assert_eq!((changed(&ended(304)), changed(&ended(0))), (4, 0));
    // Parent and child ended, and whoever started the parent has the times of both.
    assert_eq!(
        changed(&|after| {
            after.remove(&20);
            after.remove(&21);
            after.get_mut(&1).unwrap().reaped += 1000 + 40 + 300 + 8;
        }),
        8
    );
    // A number that is used again is another process.
    assert_eq!(
        changed(&|after| {
            after.insert(21, Process { parent: 20, started: 77, used: 9, reaped: 0 });
            after.get_mut(&20).unwrap().reaped += 301;
        }),
        10
    );
}

/// Processes that do not descend from this one and take all of the processors; ended when dropped, and by
/// themselves.
struct Others(Vec<i32>);

impl Others {
    fn new() -> Others {
        let processors = std::thread::available_parallelism().unwrap().get();
        let start = |_| {
            // Left to the first process by the shell that started it.
            let line = "timeout 20 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!";
            let output =
                Command::new("setsid").args(["sh", "-c", line]).stdin(Stdio::null()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        Others((0..processors).map(start).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for pid in &self.0 {
            // It ends what it started.
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn processes_beside_a_test_leave_it_undecided() {
    let _others = Others::new();
    let outcome = judge(|attempt| {
        spin(Duration::from_millis(500));
        attempt.within("nothing", 1.0, 2.0..);
    });
    // How much each gets depends on the weights of their sessions.
    let Outcome::Undecided(text) = outcome else { panic!("{outcome:?}") };
    assert_eq!(text.matches(" % of the time taken away: ").count(), ATTEMPTS, "{text}");
}

#[test]
fn what_a_test_starts_is_not_taken_away_from_it() {
    let before = processes();
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let (own, begin) = (std::process::id(), Instant::now());
    // Of a processor that ten others want it gets a tenth.
    let (others, all) = loop {
        std::thread::sleep(Duration::from_millis(700));
        let after = processes();
        let (others, all) = (used_by_others(&before, &after, own), used_by_others(&before, &after, u32::MAX));
        if all > others + 10 || begin.elapsed() > Duration::from_secs(30) {
            break (others, all);
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(all > others + 10, "{all} ticks of all, {others} of others");
}
