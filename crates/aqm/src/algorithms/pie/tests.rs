//! Known answers of RFC 8033.

use super::*;
use crate::{Ecn, View};
use weir_units::Rate;

const MTU: Bytes = Bytes::new(1500);

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

fn moment(now: Duration, delay: Duration, dice: u64) -> Moment {
    let queue = View { backlog: Bytes::new(100_000), packets: 66, delay, rate: Rate::from_mbps(100) };
    Moment::new(Time::ZERO + now, queue, dice)
}

fn ask(pie: &mut Pie, m: &Moment, ecn: Ecn) -> Verdict {
    pie.on_enqueue(m, &Packet { arrived: m.now, len: MTU, seq: 0, flow: 0, ecn })
}

fn pie(params: Params) -> Pie {
    Pie::new(&params, Time::ZERO)
}

/// At a drop probability, in a queue that stands at 20 ms, with the allowance for bursts used up.
fn at(drop_prob: f64) -> Pie {
    let burst_left = Duration::ZERO;
    let mut pie = Pie { drop_prob, burst_left, delay_old: ms(20), ..pie(Params::default()) };
    pie.refresh();
    pie
}

#[test]
fn updates_by_hand() {
    // Probability before, delay and delay before in ms, probability after.
    let rows = [
        (0.0, 20, 18, 1.525_879e-6),
        (0.0005, 20, 18, 0.000_597_656),
        (0.005, 20, 18, 0.005_390_625),
        (0.05, 20, 18, 0.051_562_5),
        (0.2, 20, 18, 0.203_125),
        (0.2, 60, 18, 0.22),
        (0.05, 5, 10, 0.046_25),
        (0.05, 0, 0, 0.048_081_25),
        (0.3, 0, 0, 0.292_162_5),
        (0.999, 60, 18, 1.0),
        (1e-7, 0, 100, 0.0),
    ];
    for (before, delay, old, after) in rows {
        let mut pie = Pie { delay_old: ms(old), ..at(before) };
        pie.on_wakeup(&moment(ms(15), ms(delay), 0));
        let got = pie.drop_prob;
        assert!((got - after).abs() <= after * 1e-6, "{before}, {delay}, {old}: {got} and not {after}");
    }
    let mut uncapped = Pie { cap: false, delay_old: ms(18), ..at(0.2) };
    uncapped.on_wakeup(&moment(ms(15), ms(60), 0));
    assert!((uncapped.drop_prob - 0.258_125).abs() < 1e-12);
}

#[test]
fn the_table_of_auto_tuning() {
    let rows = [(1e-6, 2048.0, 512.0), (1e-5, 512.0, 128.0), (1e-4, 128.0, 32.0), (1e-3, 32.0, 8.0)];
    for (edge, below, from) in rows.into_iter().chain([(1e-2, 8.0, 2.0), (0.1, 2.0, 1.0)]) {
        assert_eq!((divisor(edge * 0.999_999), divisor(edge)), (below, from), "{edge}");
    }
}

#[test]
fn the_gains_of_linux_3_15_are_reduced_in_two_steps() {
    let grown = |tune_steps: u32, before: f64| {
        let mut pie = Pie {
            drop_prob: before,
            delay_old: ms(18),
            ..pie(Params { tune_steps, max_burst: Duration::ZERO, ..Params::default() })
        };
        pie.on_wakeup(&moment(ms(15), ms(20), 0));
        pie.drop_prob - before
    };
    // 0.125 * 5 ms + 1.25 * 2 ms, through 8 in the second step and through 32 in the third.
    assert!((grown(2, 0.000_5) - 0.003_125 / 8.0).abs() < 1e-12);
    assert!((grown(6, 0.000_5) - 0.003_125 / 32.0).abs() < 1e-12);
    assert!((grown(2, 0.05) - 0.003_125 / 2.0).abs() < 1e-12);
    assert!((grown(0, 0.05) - 0.003_125).abs() < 1e-12);
}

#[test]
fn a_burst_of_150_ms_passes_and_the_next_needs_a_calm_queue() {
    let mut pie = pie(Params::default());
    // The first signal in a stretch of time, in ms, with a packet each 50 us.
    let first = |from: u64, until: u64, delay: u64, pie: &mut Pie| {
        let signal = |n: u64| {
            let m = moment(Duration::from_micros(50 * n), ms(delay), 0);
            pie.on_wakeup(&m);
            (ask(pie, &m, Ecn::NotEct) != Verdict::Forward).then_some(Duration::from_micros(50 * n))
        };
        (from * 20..until * 20).map(signal).fold(None, Option::or)
    };
    assert_eq!(first(0, 150, 100, &mut pie), None);
    assert!(first(150, 400, 100, &mut pie).unwrap() < ms(170));
    // The queue is short for a moment, but the probability is not zero: no allowance.
    let _ = first(400, 420, 1, &mut pie);
    assert_eq!(first(420, 500, 1, &mut pie), None);
    assert!(pie.drop_prob > 0.0);
    assert!(first(500, 550, 100, &mut pie).is_some());
    // Calm until nothing is left of it.
    assert_eq!(first(2000, 9000, 1, &mut pie), None);
    assert_eq!((pie.drop_prob, pie.burst_left), (0.0, ms(150)));
    // The update at 9000 ms counts already, so that it ends at 9135 ms.
    assert_eq!(first(9000, 9135, 100, &mut pie), None);
    assert!(first(9135, 9200, 100, &mut pie).is_some());
}

#[test]
fn signals_come_neither_too_close_nor_too_far_apart() {
    // The accumulated probability reaches 0.85 at the ninth packet and 8.5 at the 85th.
    let mut lucky = at(0.1);
    let mut unlucky = at(0.1);
    for _ in 0..3 {
        assert_eq!((1..).find(|_| lucky.draws(0)), Some(9));
        assert_eq!((1..).find(|_| unlucky.draws(u64::MAX)), Some(85));
    }
    let mut plain = Pie { derandomize: false, ..at(0.1) };
    assert!(plain.draws(0) && plain.draws(0) && !plain.draws(u64::MAX));
    // A drop for lack of room starts the count anew.
    assert!((1..=8).all(|_| !lucky.draws(0)));
    let m = moment(ms(0), ms(20), 0);
    lucky.on_overflow(&m, &Packet { arrived: m.now, len: MTU, seq: 0, flow: 0, ecn: Ecn::NotEct });
    assert_eq!((1..).find(|_| lucky.draws(0)), Some(9));
}

/// The de-randomised coin as the RFC has it, with floats.
fn draws_twin(accu: &mut f64, p: f64, dice: u64) -> bool {
    *accu += p;
    let u = (dice >> 8) as f64 / ONE;
    let drawn = *accu >= 0.85 && (*accu >= 8.5 || u < p);
    *accu = if drawn { 0.0 } else { *accu };
    drawn
}

#[test]
fn the_coin_agrees_with_its_twin_in_floats() {
    let (mut dice, mut accu) = (1u64, 0.0);
    let mut pie = at(0.0);
    let mut drawn = 0;
    for n in 0..200_000u64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if n.is_multiple_of(500) {
            pie.drop_prob =
                (dice >> 11) as f64 / (1u64 << 53) as f64 * [1e-3, 0.01, 0.3, 1.0][n as usize / 500 % 4];
            pie.refresh();
            // Exact: both sides are multiples of 2^-57 at the least.
            assert!((pie.prob as f64 - pie.drop_prob * ONE).abs() <= 0.5);
        }
        let hit = pie.draws(dice);
        assert_eq!(hit, draws_twin(&mut accu, pie.drop_prob, dice), "packet {n}");
        // 2^-57 a packet, of which 8.5 / p pass at most, and the rounding of the twin.
        assert!((pie.accu_prob as f64 / ONE - accu).abs() < 1e-10);
        drawn += u32::from(hit);
    }
    assert!(drawn > 10_000, "{drawn}");
}

#[test]
fn a_short_queue_is_safe() {
    let far = moment(ms(0), ms(20), 0);
    let signalled = |pie: &mut Pie, m: &Moment| (0..20).any(|_| ask(pie, m, Ecn::NotEct) != Verdict::Forward);
    assert!(signalled(&mut at(0.15), &far));
    // Below half the target at the last update: not signalled below 20 %.
    for (drop_prob, delay_us, want) in [(0.19, 7_499, false), (0.19, 7_500, true), (0.2, 7_499, true)] {
        let mut pie = Pie { delay_old: Duration::from_micros(delay_us), ..at(drop_prob) };
        pie.refresh();
        assert_eq!(signalled(&mut pie, &far), want, "{drop_prob} {delay_us}");
    }
    // Two packets may always wait.
    for (backlog, want) in [(3076, false), (3077, true)] {
        let mut m = far;
        m.queue.backlog = Bytes::new(backlog);
        assert_eq!(signalled(&mut at(1.0), &m), want, "{backlog}");
    }
}

#[test]
fn marks_turn_into_drops_at_ten_percent() {
    let first = |pie: &mut Pie, ecn| {
        let m = moment(ms(0), ms(20), 0);
        (0..20).map(|_| ask(pie, &m, ecn)).find(|v| *v != Verdict::Forward).unwrap()
    };
    assert_eq!(first(&mut at(0.099), Ecn::Ect0), Verdict::Mark(Cause::Chance));
    assert_eq!(first(&mut at(0.1), Ecn::Ect0), Verdict::Drop(Cause::Chance));
    assert_eq!(first(&mut at(0.099), Ecn::NotEct), Verdict::Drop(Cause::Chance));
}

#[test]
fn it_goes_on_with_the_backlog_and_off_in_a_calm_queue() {
    let mut pie = pie(Params { activation: Bytes::new(90_000), ..Params::default() });
    let mut low = moment(ms(1000), ms(50), 0);
    low.queue.backlog = Bytes::new(89_999);
    pie.on_wakeup(&low);
    let _ = ask(&mut pie, &low, Ecn::NotEct);
    assert_eq!((pie.active, pie.drop_prob), (false, 0.0));
    let _ = ask(&mut pie, &moment(ms(1001), ms(50), 0), Ecn::NotEct);
    assert!(pie.active && pie.burst_left == ms(150));
    pie.on_wakeup(&moment(ms(1200), ms(50), 0));
    assert!(pie.drop_prob > 0.0 && pie.burst_left == Duration::ZERO);
    // A shorter backlog alone does not switch it off.
    let _ = ask(&mut pie, &low, Ecn::NotEct);
    assert!(pie.active);
    let mut calm = moment(ms(60_000), ms(1), 0);
    calm.queue.backlog = Bytes::new(1);
    pie.on_wakeup(&calm);
    let _ = ask(&mut pie, &calm, Ecn::NotEct);
    assert_eq!((pie.active, pie.drop_prob), (false, 0.0));
}

#[test]
fn the_rate_of_departures_gives_the_same_delay() {
    let mut pie = pie(Params { departure_rate: true, ..Params::default() });
    // 1500 bytes each 0.6 ms are 20 Mbit/s, at which 100 kB wait 40 ms; the sojourn time in view is not
    // asked.
    for n in 0..500 {
        let m = moment(Duration::from_micros(600 * n), ms(1), 0);
        pie.on_wakeup(&m);
        let p = Packet { arrived: m.now, len: MTU, seq: n, flow: 0, ecn: Ecn::NotEct };
        assert_eq!(pie.on_dequeue(&m, &p), Verdict::Forward);
    }
    assert!((pie.delay_old.as_millis_f64() - 40.0).abs() < 1e-6, "{}", pie.delay_old);
    assert!(pie.drop_prob > 0.0);
}

#[test]
fn late_wakeups_do_what_was_missed() {
    for (drop_prob, delay) in [(0.5, ms(0)), (0.01, ms(16)), (0.3, ms(5)), (1e-5, ms(200))] {
        let mut one_by_one = at(drop_prob);
        let mut late = one_by_one.clone();
        for n in 1..=CATCH_UP_MAX {
            one_by_one.on_wakeup(&moment(ms(15 * n), delay, 0));
        }
        late.on_wakeup(&moment(ms(15 * CATCH_UP_MAX), delay, 0));
        assert_eq!(late.drop_prob, one_by_one.drop_prob);
        assert_eq!(late.next_wakeup(), one_by_one.next_wakeup());
    }
    let mut idle = at(1.0);
    idle.on_wakeup(&moment(Duration::from_secs(36_000), Duration::ZERO, 0));
    assert_eq!(idle.drop_prob, 0.0);
    // Without the integral part only the decay counts, which never ends by itself.
    let decaying = Pie { alpha: 0.0, delay_old: Duration::ZERO, ..at(1.0) };
    for (updates, forgotten) in [(CATCH_UP_MAX, false), (CATCH_UP_MAX + 1, true)] {
        let mut pie = decaying.clone();
        pie.on_wakeup(&moment(ms(15 * updates), Duration::ZERO, 0));
        assert!(pie.drop_prob < 2e-9 && (pie.drop_prob == 0.0) == forgotten, "{}", pie.drop_prob);
    }
}
