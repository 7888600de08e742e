use super::*;
use crate::{Ecn, View};
use std::vec::Vec;
use weir_units::Rate;

/// A time long enough after the start that packets may have waited before it.
fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_secs(10) + Duration::from_micros(us)
}

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

fn asqm() -> Asqm {
    Asqm::new(&Params::default(), Time::ZERO)
}

fn rtt(a: &mut Asqm, now: Time, v: Duration) {
    a.on_sample(now, Sample::Rtt(v));
}

fn packet(now: Time, len: u64, ecn: Ecn) -> (Moment, Packet) {
    let queue =
        View { backlog: Bytes::new(15_000), packets: 10, delay: Duration::ZERO, rate: Rate::from_mbps(16) };
    let p = Packet { arrived: now, len: Bytes::new(len), seq: 0, flow: 0, ecn };
    (Moment::new(now, queue, 0), p)
}

fn enqueue(a: &mut Asqm, now: Time) -> Verdict {
    let (m, p) = packet(now, 1500, Ecn::NotEct);
    a.on_enqueue(&m, &p)
}

/// A packet leaves the own queue after `wait`.
fn dequeue(a: &mut Asqm, now: Time, wait: Duration) {
    let (m, p) = packet(now, 1500, Ecn::NotEct);
    assert_eq!(a.on_dequeue(&m, &Packet { arrived: now - wait, ..p }), Verdict::Forward);
}

#[test]
fn it_starts_when_the_smoothed_round_trip_reaches_the_target() {
    let mut a = asqm();
    rtt(&mut a, at(0), ms(20));
    let first = (1..20u64).find(|n| {
        rtt(&mut a, at(1000 * n), ms(200));
        enqueue(&mut a, at(1000 * n)) != Verdict::Forward
    });
    // 20, 42.5, 62.1875, 79.4141, 94.4873, 107.6764 ms.
    assert_eq!(first, Some(5), "with the sixth value");
}

/// Times of the first signals relative to the start, in ms, with a packet each 50 us.
fn signals(a: &mut Asqm, start_us: u64) -> Vec<f64> {
    let mut times = Vec::new();
    for step in 0..12_000 {
        let now = at(start_us + 50 * step);
        if step % 100 == 0 {
            rtt(a, now, ms(200));
        }
        if enqueue(a, now) != Verdict::Forward {
            times.push(now.since(at(start_us)).as_millis_f64());
        }
    }
    times
}

#[test]
fn signals_follow_the_inverse_square_root() {
    let times = signals(&mut asqm(), 0);
    for (got, want) in times.iter().zip([0.0, 100.0, 170.711, 228.446, 278.446, 323.167, 363.992]) {
        assert!(*got >= want - 0.001 && *got < want + 0.051, "{got} for {want}");
    }
}

#[test]
fn one_sample_below_the_target_ends_it_and_the_next_start_is_slow_again() {
    let mut a = asqm();
    let before = signals(&mut a, 0);
    rtt(&mut a, at(600_000), ms(99));
    assert_eq!(enqueue(&mut a, at(900_000)), Verdict::Forward);
    // The smoothed value is still above the target; a sample at the target starts it again.
    let again = signals(&mut a, 1_000_000);
    assert_eq!(again, before);
}

#[test]
fn a_low_sample_does_not_start_it_while_the_smoothed_value_is_high() {
    let mut a = asqm();
    for n in 0..10 {
        rtt(&mut a, at(n), ms(1000));
    }
    rtt(&mut a, at(20), ms(50));
    assert!(a.srtt.get().unwrap() > ms(500));
    assert_eq!(enqueue(&mut a, at(30)), Verdict::Forward);
}

#[test]
fn small_packets_pass_and_the_signal_waits_for_a_larger_one() {
    let mut a = asqm();
    rtt(&mut a, at(0), ms(200));
    for len in [42, 66, 120] {
        let (m, p) = packet(at(1), len, Ecn::NotEct);
        assert_eq!(a.on_enqueue(&m, &p), Verdict::Forward, "{len}");
    }
    let (m, p) = packet(at(2), 121, Ecn::NotEct);
    assert_eq!(a.on_enqueue(&m, &p), Verdict::Drop(Cause::SetPoint));
}

#[test]
fn ecn_capable_packets_are_marked_if_wanted() {
    for (ecn, want) in [(true, Verdict::Mark(Cause::SetPoint)), (false, Verdict::Drop(Cause::SetPoint))] {
        let mut a = Asqm::new(&Params { ecn, ..Params::default() }, Time::ZERO);
        rtt(&mut a, at(0), ms(200));
        let (m, p) = packet(at(0), 1500, Ecn::Ect0);
        assert_eq!(a.on_enqueue(&m, &p), want);
    }
}

#[test]
fn a_pause_of_the_traffic_is_not_made_up_for() {
    let mut a = Asqm::new(&Params { silence: Duration::from_secs(60), ..Params::default() }, Time::ZERO);
    rtt(&mut a, at(0), ms(200));
    for n in 0..100 {
        let _ = enqueue(&mut a, at(200_000 * n));
    }
    let in_a_row = (0..50).filter(|n| enqueue(&mut a, at(30_000_000 + n)) != Verdict::Forward).count();
    assert_eq!(in_a_row, 1);
}

#[test]
fn with_the_minimum_subtracted_the_target_means_queueing() {
    let mut a = Asqm::new(&Params { subtract_min: true, ..Params::default() }, Time::ZERO);
    rtt(&mut a, at(0), ms(600));
    for n in 1..100 {
        rtt(&mut a, at(1000 * n), ms(690));
    }
    assert_eq!(enqueue(&mut a, at(100_000)), Verdict::Forward, "90 ms of queue");
    for n in 100..200 {
        rtt(&mut a, at(1000 * n), ms(710));
    }
    assert_ne!(enqueue(&mut a, at(200_000)), Verdict::Forward, "110 ms of queue");
    // The path became longer for good.
    for n in 0..300 {
        rtt(&mut a, at(300_000 + 50_000 * n), ms(900));
    }
    assert_eq!(enqueue(&mut a, at(15_300_000)), Verdict::Forward);
}

#[test]
fn without_samples_the_own_queue_is_held_at_the_target() {
    let mut a = asqm();
    for n in 0..100 {
        dequeue(&mut a, at(1000 * n), ms(99));
        assert_eq!(enqueue(&mut a, at(1000 * n)), Verdict::Forward);
    }
    let first = (0..100).find(|n| {
        dequeue(&mut a, at(100_000 + 1000 * n), ms(150));
        enqueue(&mut a, at(100_000 + 1000 * n)) != Verdict::Forward
    });
    // Each fourth departure is a sample, and the smoothed value rises from 99 by an eighth of the way at the
    // first.
    assert_eq!(first, Some(3));
}

#[test]
fn samples_silence_the_own_queue_and_their_absence_brings_it_back() {
    let mut a = asqm();
    let sojourns = |a: &mut Asqm, from_us: u64, wait: Duration| {
        for n in 0..8 {
            dequeue(a, at(from_us + n), wait);
        }
    };
    rtt(&mut a, at(0), ms(20));
    sojourns(&mut a, 50, ms(400));
    assert_eq!(enqueue(&mut a, at(100)), Verdict::Forward, "probes say that the path is short");
    rtt(&mut a, at(200), ms(2_000));
    assert_ne!(enqueue(&mut a, at(300)), Verdict::Forward);
    assert_eq!(enqueue(&mut a, at(2_900_000)), Verdict::Drop(Cause::SetPoint), "the last word is held");
    assert_eq!(enqueue(&mut a, at(3_000_200)), Verdict::Forward, "for three seconds");
    sojourns(&mut a, 3_000_300, ms(400));
    assert_ne!(enqueue(&mut a, at(3_000_400)), Verdict::Forward, "then the own queue counts");
    rtt(&mut a, at(3_000_500), ms(20));
    assert_eq!(enqueue(&mut a, at(3_500_000)), Verdict::Forward);
}

#[test]
fn an_empty_queue_of_its_own_ends_it() {
    let mut a = asqm();
    for n in 0..8 {
        dequeue(&mut a, at(n), ms(400));
    }
    let (m, p) = packet(at(100), 1500, Ecn::NotEct);
    let empty = View { backlog: Bytes::ZERO, packets: 0, ..m.queue };
    assert_eq!(a.on_enqueue(&Moment::new(m.now, empty, 0), &p), Verdict::Forward);
    assert_eq!(enqueue(&mut a, at(200)), Verdict::Forward);
}
