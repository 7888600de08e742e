//! Known answers of COBALT.

use super::*;
use crate::{Ecn, View};
use std::vec::Vec;

const NEVER: u64 = u64::MAX;

fn us(v: u64) -> Duration {
    Duration::from_micros(v)
}

fn ms(v: u64) -> Duration {
    us(1000 * v)
}

fn moment(now: Duration, packets: u32, dice: u64) -> Moment {
    let backlog = Bytes::new(1500 * u64::from(packets));
    let queue = View { backlog, packets, delay: Duration::ZERO, rate: Rate::from_mbps(10_000) };
    Moment::new(Time::ZERO + ms(1000) + now, queue, dice)
}

fn packet(arrived: Time, ecn: Ecn) -> Packet {
    Packet { arrived, len: Bytes::new(1500), seq: 0, flow: 0, ecn }
}

/// Asks about a head packet that has waited for `wait`.
fn head(cobalt: &mut Cobalt, now: Duration, wait: Duration, ecn: Ecn) -> Verdict {
    let m = moment(now, 600, NEVER);
    cobalt.on_dequeue(&m, &packet(m.now - wait, ecn))
}

fn overflow(cobalt: &mut Cobalt, now: Duration) {
    let m = moment(now, 600, NEVER);
    cobalt.on_overflow(&m, &packet(m.now, Ecn::NotEct));
}

fn fresh() -> Cobalt {
    Cobalt::new(&Params::default(), Time::ZERO)
}

/// An instance that wanted `signals` signals, with when the last one was.
fn after_signals(signals: usize) -> (Cobalt, Duration) {
    let mut cobalt = fresh();
    let mut last = Duration::ZERO;
    let mut seen = 0;
    for n in 0.. {
        if head(&mut cobalt, us(50 * n), ms(20), Ecn::Ect0) != Verdict::Forward {
            (last, seen) = (us(50 * n), seen + 1);
        }
        if seen == signals {
            break;
        }
    }
    (cobalt, last)
}

#[test]
fn signals_follow_the_inverse_square_root() {
    // An interval after the target was exceeded, then sums of 100 / sqrt(n) ms from n = 2 on.
    let exact = [100.0, 170.711, 228.446, 278.446, 323.167, 363.992, 401.788, 437.144, 470.477];
    for ecn in [Ecn::Ect0, Ecn::NotEct] {
        let mut cobalt = fresh();
        let times: Vec<f64> = (0..10_000)
            .map(|n| us(50 * n))
            .filter(|now| head(&mut cobalt, *now, ms(20), ecn) != Verdict::Forward)
            .map(Duration::as_millis_f64)
            .collect();
        for (got, want) in times.iter().zip(exact) {
            // A packet comes each 50 us; a mark that comes late delays those after it.
            assert!(*got >= want - 0.001 && *got < want + 0.5, "{ecn:?}: {got} for {want}");
        }
    }
}

/// In whole numbers, where nothing is rounded, as for CoDel.
#[test]
fn the_exact_twin_of_the_spacing_agrees_within_a_nanosecond() {
    for interval in [20_000_000u64, 100_000_000, 99_999_999_999] {
        let params = Params { interval: Duration::from_nanos(interval), ..Params::default() };
        let cobalt = Cobalt::new(&params, Time::ZERO);
        for count in (1..3000).chain([65_537, 1_000_003, u32::MAX]) {
            let step = u128::from(cobalt.step(count).as_nanos());
            let square = |s: u128| s * s * u128::from(count);
            let wanted = u128::from(interval) * u128::from(interval);
            let low = square(step.saturating_sub(1));
            assert!(low <= wanted && wanted <= square(step + 1), "{interval} {count}: {step}");
        }
    }
}

#[test]
fn it_forgets_at_the_pace_at_which_it_learned() {
    let (mut cobalt, last) = after_signals(5);
    assert_eq!(cobalt.count, 6);
    // The next signal would be 100 / sqrt(6) = 40.8 ms later; then 100 / sqrt(5), and so on.
    for (after_ms, count) in [(40, 6), (42, 5), (85, 5), (87, 4), (135, 4), (137, 3), (400, 0)] {
        assert_eq!(head(&mut cobalt, last + ms(after_ms), ms(1), Ecn::NotEct), Verdict::Forward);
        assert_eq!(cobalt.count, count, "after {after_ms} ms");
    }
}

#[test]
fn a_return_above_the_target_resumes_at_once_if_a_signal_was_due() {
    let (mut cobalt, last) = after_signals(5);
    assert_eq!(head(&mut cobalt, last + ms(39), ms(1), Ecn::Ect0), Verdict::Forward);
    // The fifth mark was up to 50 us late, and so is what follows.
    assert_eq!(head(&mut cobalt, last + ms(42), ms(20), Ecn::Ect0), Verdict::Mark(Cause::SetPoint));
    assert_eq!(cobalt.count, 7);
}

#[test]
fn forgetting_in_one_go_is_within_two_counts_of_step_by_step() {
    for count in [17, 40, 1000, 30_000, 2_000_000] {
        for share in [0.01, 0.3, 0.9, 0.999, 1.0, 1.1] {
            let whole = 200.0 * f64::from(count).sqrt() * share;
            let now = Time::ZERO + us((whole * 1000.0) as u64);
            let start = || Cobalt { count, ..fresh() };
            let (mut at_once, mut slow) = (start(), start());
            at_once.forget(now);
            while slow.is_due(now) {
                slow.count -= 1;
                slow.drop_next += slow.step(slow.count);
            }
            let error = i64::from(at_once.count) - i64::from(slow.count);
            assert!(error.abs() <= 2, "{count}, {share}: {} and {}", at_once.count, slow.count);
        }
    }
}

#[test]
fn blue_drops_by_chance_what_ecn_does_not_slow_down() {
    let mut cobalt = fresh();
    for n in 0..128 {
        overflow(&mut cobalt, us(5001 * n));
        overflow(&mut cobalt, us(5001 * n + 5000));
    }
    // Half of the time: 128 steps of 1/256. Each second overflow came within a target of the one before.
    assert_eq!(cobalt.blue.chance().get(), 0.5);
    let mut ask = |dice, packets| {
        let m = moment(ms(700), packets, dice);
        let _ = cobalt.on_enqueue(&m, &packet(m.now, Ecn::Ect0));
        cobalt.on_dequeue(&m, &packet(m.now - ms(1), Ecn::Ect0))
    };
    assert_eq!(ask((1 << 63) - 1, 9), Verdict::Drop(Cause::Chance));
    assert_eq!(ask(1 << 63, 9), Verdict::Forward);
    // Empty: one step of 1/4096 at once, and one for each target of idleness.
    let steps = |cobalt: &Cobalt| ((0.5 - cobalt.blue.chance().get()) * 4096.0).round();
    let at = |now| moment(now, 0, NEVER);
    cobalt.on_empty(at(ms(800)).now);
    assert_eq!(steps(&cobalt), 1.0);
    let _ = cobalt.on_enqueue(&at(ms(849)), &packet(at(ms(849)).now, Ecn::Ect0));
    assert_eq!(steps(&cobalt), 10.0);
    let _ = cobalt.on_enqueue(&at(ms(60_000)), &packet(at(ms(849)).now, Ecn::Ect0));
    assert_eq!(cobalt.blue.chance().get(), 0.0);
}

#[test]
fn an_overflow_is_a_reason_to_signal_at_once() {
    let mut cobalt = fresh();
    // A packet in time puts the next possible signal an interval off.
    assert_eq!(head(&mut cobalt, ms(0), ms(1), Ecn::NotEct), Verdict::Forward);
    overflow(&mut cobalt, ms(0));
    assert_eq!(head(&mut cobalt, ms(0), ms(6), Ecn::NotEct), Verdict::Drop(Cause::SetPoint));
    assert_eq!(cobalt.count, 2);
}

#[test]
fn drops_that_were_due_long_ago_are_made_up_for_but_marks_are_not() {
    // Within 300 ms drops are due after 50 ms and then 44.7, 40.8, 37.8, 35.4, 33.3 and 31.6 ms apart. The
    // second mark is the one that is due now.
    for (ecn, want) in [(Ecn::NotEct, 7), (Ecn::Ect0, 2)] {
        let (mut cobalt, last) = after_signals(3);
        let late = last + ms(300);
        let signals = (0..99).take_while(|_| head(&mut cobalt, late, ms(20), ecn) != Verdict::Forward);
        assert_eq!(signals.count(), want, "{ecn:?}");
    }
}

#[test]
fn a_slow_link_has_a_larger_target() {
    let mut cobalt = fresh();
    cobalt.follow(Rate::from_mbps(1));
    // 1538 bytes take 12.304 ms.
    assert_eq!((cobalt.freeze, cobalt.too_long, cobalt.pace), (us(18_456), us(49_216), us(113_456)));
    cobalt.follow(Rate::from_mbps(100));
    assert_eq!((cobalt.freeze, cobalt.too_long, cobalt.pace), (ms(5), ms(5), ms(100)));
    // The set point itself is what was asked for.
    cobalt.follow(Rate::from_mbps(1));
    assert_eq!((cobalt.set(ms(10)), cobalt.get(), cobalt.freeze), (ms(10), ms(10), us(18_456)));
    assert_eq!((cobalt.set(ms(80)), cobalt.too_long, cobalt.pace), (ms(80), ms(80), ms(160)));
}
