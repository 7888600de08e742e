use super::*;
use crate::{Ecn, View};
use std::vec::Vec;
use weir_units::{Bytes, Rate};

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * MS)
}

/// What is checked here, whatever the defaults.
fn params() -> Params {
    Params {
        fraction: Share(1.0),
        interval_paths: 4.0,
        interval_max: Duration::from_millis(400),
        ..Params::default()
    }
}

fn vaqm() -> Vaqm {
    Vaqm::new(&params(), Time::ZERO)
}

fn rtt(aqm: &mut Vaqm, ms: u64, rtt: u64) {
    aqm.on_sample(at(ms), Sample::Rtt(Duration::from_millis(rtt)));
}

fn flight(aqm: &mut Vaqm, ms: u64, flow: u32, bytes: u64) {
    aqm.on_sample(at(ms), Sample::Inflight { flow, bytes: Bytes::new(bytes) });
}

/// Asks about a packet that leaves; the queue that it leaves is empty.
fn leaves(aqm: &mut Vaqm, now: Time, flow: u32, ecn: Ecn) -> Verdict {
    let queue = View { backlog: Bytes::ZERO, packets: 0, delay: Duration::ZERO, rate: Rate::from_mbps(1000) };
    let p = Packet { arrived: now, len: Bytes::new(1500), seq: 0, flow, ecn };
    aqm.on_dequeue(&Moment::new(now, queue, 0), &p)
}

/// A path of 50 ms with a queue of 150 ms from 1 s on; the interval is 200 ms.
fn congested(until: u64) -> Vaqm {
    let mut aqm = vaqm();
    rtt(&mut aqm, 0, 50);
    for ms in (1000..=until).step_by(10) {
        rtt(&mut aqm, ms, 200);
    }
    aqm
}

/// When the flows 1 to `flows`, which take turns and have as much in flight each, are signalled.
fn signals(flows: u32, until: u64) -> Vec<u64> {
    let mut aqm = congested(1000);
    let mut times = Vec::new();
    for ms in 1000..until {
        if ms % 10 == 0 {
            rtt(&mut aqm, ms, 200);
        }
        for flow in 1..=flows {
            flight(&mut aqm, ms, flow, 50_000);
            if leaves(&mut aqm, at(ms), flow, Ecn::NotEct) == Verdict::Drop(Cause::SetPoint) {
                times.push(ms);
            }
        }
    }
    times
}

#[test]
fn signals_follow_the_inverse_square_root_after_an_interval() {
    let times = signals(8, 2000);
    // With the fourth sample of 200 ms, at 1020 ms, the average is 112 ms, above 100 ms; the interval begins
    // there.
    assert_eq!(times[0], 1220);
    let gaps: Vec<u64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    assert_eq!(gaps[..5], [200, 142, 116, 100, 90]);
}

#[test]
fn a_flow_gets_no_further_signal_before_the_last_one_can_show() {
    // Three times an average that nears 200 ms.
    let times = signals(1, 3000);
    assert_eq!(times[0], 1220);
    let gaps: Vec<u64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    assert!(gaps.len() >= 2 && gaps.iter().all(|gap| (575..=600).contains(gap)), "{gaps:?}");
}

#[test]
fn small_flows_do_not_pay_while_a_large_one_makes_room() {
    let signalled = |bytes: [u64; 3]| {
        let mut aqm = congested(1400);
        (1..).zip(bytes).for_each(|(flow, bytes)| flight(&mut aqm, 1400, flow, bytes));
        let mut leave = |ms, flow| leaves(&mut aqm, at(ms), flow, Ecn::NotEct) != Verdict::Forward;
        assert!(leave(1401, 1), "the largest pays first");
        [leave(1620, 1), leave(1620, 2), leave(1620, 3)]
    };
    assert_eq!(signalled([90_000, 20_000, 10_000]), [false, false, false]);
    assert_eq!(signalled([90_000, 80_000, 10_000]), [false, true, false]);
}

#[test]
fn capable_packets_are_marked() {
    let mut aqm = congested(1400);
    assert_eq!(leaves(&mut aqm, at(1401), 1, Ecn::Ect0), Verdict::Mark(Cause::SetPoint));
    let mut aqm = Vaqm { ecn: false, ..congested(1400) };
    assert_eq!(leaves(&mut aqm, at(1401), 1, Ecn::Ect0), Verdict::Drop(Cause::SetPoint));
}

#[test]
fn a_round_trip_below_the_target_ends_the_dropping_state() {
    let mut aqm = congested(1400);
    assert_ne!(leaves(&mut aqm, at(1401), 1, Ecn::NotEct), Verdict::Forward);
    rtt(&mut aqm, 1402, 90);
    assert!(aqm.next.is_none() && aqm.model.excess().is_some(), "one round trip below it is enough");
    for ms in 0..40 {
        rtt(&mut aqm, 1410 + ms, 60);
    }
    for ms in 1450..1500 {
        assert_eq!(leaves(&mut aqm, at(ms), 1, Ecn::NotEct), Verdict::Forward);
    }
    // Soon above again: it goes on where it was, not from the start.
    for ms in (1500..=2400).step_by(10) {
        rtt(&mut aqm, ms, 300);
        for flow in 1..=8 {
            flight(&mut aqm, ms, flow, 50_000);
            let _ = leaves(&mut aqm, at(ms), flow, Ecn::NotEct);
        }
    }
    assert!(aqm.count > 5, "{}", aqm.count);
    for ms in 0..100 {
        rtt(&mut aqm, 2410 + ms, 50);
    }
    for ms in (2600..3000).step_by(10) {
        rtt(&mut aqm, ms, 300);
    }
    assert!(aqm.next.is_some() && aqm.count > 1, "{}", aqm.count);
}

#[test]
fn the_victim_is_the_flow_with_the_most_in_flight() {
    let three = || {
        let mut aqm = congested(1400);
        flight(&mut aqm, 1400, 1, 10_000);
        flight(&mut aqm, 1400, 2, 90_000);
        flight(&mut aqm, 1400, 3, 40_000);
        aqm
    };
    let mut aqm = three();
    // The signal is due, and for 50 ms only the largest can get it.
    aqm.next = Some(at(1401));
    for flow in [1, 3, 4] {
        assert_eq!(leaves(&mut aqm, at(1410), flow, Ecn::NotEct), Verdict::Forward, "flow {flow}");
    }
    assert_ne!(leaves(&mut aqm, at(1411), 2, Ecn::NotEct), Verdict::Forward);
    // Another one is silent: after 50 ms the second may pay, after 100 ms the third.
    let mut aqm = three();
    aqm.next = Some(at(1420));
    assert_eq!(leaves(&mut aqm, at(1469), 3, Ecn::NotEct), Verdict::Forward);
    assert_eq!(leaves(&mut aqm, at(1471), 1, Ecn::NotEct), Verdict::Forward);
    assert_ne!(leaves(&mut aqm, at(1471), 3, Ecn::NotEct), Verdict::Forward);
}

#[test]
fn without_measurements_nothing_is_signalled() {
    let mut aqm = vaqm();
    for ms in 0..5000 {
        assert_eq!(leaves(&mut aqm, at(ms), 1, Ecn::NotEct), Verdict::Forward);
    }
    // The last round-trip time is older than a second.
    let mut aqm = congested(1400);
    assert_eq!(leaves(&mut aqm, at(2500), 1, Ecn::NotEct), Verdict::Forward);
    assert_eq!((aqm.next, aqm.first_above), (None, None));
}

#[test]
fn a_queue_that_stands_for_a_window_is_held_low_and_then_believed() {
    let mut aqm = congested(10_000);
    assert_eq!(aqm.model.path_rtt(), Some(Duration::from_millis(50)));
    rtt(&mut aqm, 10_010, 200);
    assert_eq!(
        (aqm.model.path_rtt(), aqm.target()),
        (Some(Duration::from_millis(50)), Duration::from_nanos(56_250_000))
    );
    for ms in (10_020..=12_010).step_by(10) {
        rtt(&mut aqm, ms, 200);
    }
    assert_eq!(aqm.model.path_rtt(), Some(Duration::from_millis(200)));
}

#[test]
fn a_queue_that_falls_with_what_is_in_flight_is_not_believed() {
    let mut aqm = congested(10_000);
    for ms in (10_010..=20_000).step_by(10) {
        // What is in flight falls to a half and comes back, again and again, and the queue with it.
        let phase = (ms / 10) % 400;
        let share = 200 - phase.min(400 - phase) / 2;
        flight(&mut aqm, ms, 1, 1000 * share);
        rtt(&mut aqm, ms, share);
    }
    assert_eq!(aqm.model.path_rtt(), Some(Duration::from_millis(50)));
    // It falls, and the round trip stays, as for the whole window before: that is the path.
    for ms in (20_010..=44_000).step_by(10) {
        flight(&mut aqm, ms, 1, if ms < 38_000 { 200_000 + ms } else { 100_000 });
        rtt(&mut aqm, ms, 150);
    }
    assert_eq!(aqm.model.path_rtt(), Some(Duration::from_millis(150)));
}

#[test]
fn slow_start_before_a_queue_is_signalled_at_once_and_a_recovery_is_not() {
    let mut aqm = vaqm();
    rtt(&mut aqm, 0, 50);
    // It doubles with each round trip while none is longer than the path.
    for (ms, bytes) in [(0, 10_000), (50, 20_000), (100, 40_000), (150, 80_000)] {
        rtt(&mut aqm, ms, 50);
        flight(&mut aqm, ms, 1, bytes);
        assert_eq!(leaves(&mut aqm, at(ms + 1), 1, Ecn::NotEct), Verdict::Forward, "at {ms} ms");
    }
    // The first that shows a queue is no average yet; the next is no interval yet. Whichever is told first.
    rtt(&mut aqm, 270, 120);
    flight(&mut aqm, 270, 1, 160_000);
    assert_eq!(leaves(&mut aqm, at(271), 1, Ecn::NotEct), Verdict::Forward);
    let signal = Verdict::Drop(Cause::SetPoint);
    let mut told_late = aqm.clone();
    flight(&mut told_late, 400, 1, 320_000);
    rtt(&mut told_late, 400, 600);
    assert_eq!(leaves(&mut told_late, at(401), 1, Ecn::NotEct), signal);
    rtt(&mut aqm, 400, 600);
    flight(&mut aqm, 400, 1, 320_000);
    assert_eq!(leaves(&mut aqm, at(401), 1, Ecn::NotEct), signal);
    assert_eq!(leaves(&mut aqm, at(402), 1, Ecn::NotEct), Verdict::Forward, "once");
    // After a loss as much again comes back in a round trip as there was, which is no slow start.
    for (ms, bytes) in [(460, 110_000), (520, 200_000), (580, 320_000)] {
        rtt(&mut aqm, ms, 130);
        flight(&mut aqm, ms, 1, bytes);
        assert_eq!(leaves(&mut aqm, at(ms + 1), 1, Ecn::NotEct), Verdict::Forward, "at {ms} ms");
    }
}
