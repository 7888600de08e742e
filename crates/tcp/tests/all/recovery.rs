//! Losses of every kind are repaired, in the time and at the price that the RFCs promise.

use crate::link;

use link::*;
use std::cell::Cell;
use std::rc::Rc;
use weir_tcp::{ReceiverConfig, Recovery, SenderConfig, State};
use weir_units::{Duration, Time};

fn reno() -> Link {
    Link::new("reno", &SenderConfig::default(), &ReceiverConfig::default())
}

/// 100 segments over an RTT of 100 ms.
fn transfer(mut link: Link) -> (Link, f64) {
    link.sender.write(100 * 1448);
    let end = link.run_to_the_end(Duration::from_secs(300)).expect("everything arrives");
    assert_eq!(link.receiver.received_bytes(), 100 * 1448);
    // What is repaired is over with the last ACK, with nothing sent behind it.
    let info = link.sender.info();
    assert_eq!((info.state, info.in_flight), (State::Open, 0), "{info:?}");
    (link, end.as_secs_f64())
}

#[test]
fn without_loss_slow_start_takes_four_round_trips() {
    let (link, end) = transfer(reno());
    // 10, 20, 40, 30; the last ACK may be a delayed one.
    assert!((0.4..0.45).contains(&end), "{end}");
    assert_eq!(link.sender.info().retransmits, 0);
    assert_eq!(link.sender.info().timeouts, 0);
}

#[test]
fn the_first_segment_is_repaired_without_a_timeout() {
    let mut link = reno();
    link.judge = lose(&[0]);
    let (link, end) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.reductions), (1, 0, 1));
    assert!(end < 1.5, "{end}");
}

/// When the first of so many segments is repaired, each of which takes a millisecond on the link.
fn repaired(segments: u64) -> Time {
    let mut link = reno();
    link.service = ms(1);
    let seen = Rc::new(Cell::new(None));
    let repair = seen.clone();
    link.judge = Box::new(move |s, _| {
        if s.retransmission {
            repair.set(Some(s.sent));
            return Fate::Pass;
        }
        if s.seq == 0 { Fate::Drop } else { Fate::Pass }
    });
    link.sender.write(segments * 1448);
    link.run_to_the_end(Duration::from_secs(60)).expect("everything arrives");
    seen.get().expect("it was sent again")
}

#[test]
fn three_segments_beyond_a_hole_prove_it_and_two_wait_for_reordering() {
    // They are reported after 101, 102 and 103 ms.
    let third = repaired(10);
    assert!((at(ms(103))..at(ms(104))).contains(&third), "{third:?}");
    // A quarter of the RTT later, and no timeout.
    let waited = repaired(3);
    assert!((at(ms(120))..at(ms(140))).contains(&waited), "{waited:?}");
}

#[test]
fn the_last_segment_is_repaired_by_a_probe() {
    let mut link = reno();
    link.judge = lose(&[99]);
    let (link, end) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.probes), (1, 0, 1));
    // The probe leaves two RTTs and the slack after the last ACK.
    assert!(end < 0.85, "{end}");
}

#[test]
fn the_last_three_segments_are_repaired_by_a_probe_and_rack() {
    let mut link = reno();
    link.judge = lose(&[97, 98, 99]);
    let (link, _) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.probes), (3, 0, 1));
    assert_eq!(info.reductions, 1);
}

#[test]
fn a_whole_flight_is_repaired() {
    let mut link = reno();
    link.judge = lose(&(0..10).collect::<Vec<_>>());
    let (link, _) = transfer(link);
    // The probe repairs the last; RACK finds the rest through it.
    assert!(link.sender.info().retransmits <= 11);
    assert_eq!(link.receiver.repeated(), 0);
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut link = reno();
    // Segment 10 leaves as the 11th transmission; its repair is lost too, as often as it is tried.
    let mut tries = 0;
    link.judge = Box::new(move |s, _| {
        let lost = s.seq == 10 && tries < 2;
        tries += u32::from(lost);
        if lost { Fate::Drop } else { Fate::Pass }
    });
    link.sender.write(1000 * 1448);
    link.run_to_the_end(Duration::from_secs(60)).expect("everything arrives");
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts), (2, 0));
}

#[test]
fn timeouts_back_off_exponentially() {
    let mut link = reno();
    link.judge = Box::new(|_, _| Fate::Drop);
    link.sender.write(1448);
    link.run_until(at(Duration::from_secs(1000)));
    let info = link.sender.info();
    // A probe after 1 s, then 1, 2, 4 ... 64, 120, 120 s.
    let expected = 1.0 + (0..7).map(|i| f64::from(1 << i)).sum::<f64>();
    let after = ((1000.0 - expected) / 120.0) as u64;
    assert!((7..=8 + after).contains(&u64::from(info.timeouts)), "{}", info.timeouts);
    assert_eq!(info.rto, Duration::from_secs(120));
    assert_eq!(info.state, State::Loss);
}

#[test]
fn the_window_falls_to_one_at_a_timeout_and_grows_again() {
    let mut link = reno();
    link.sender.set_unlimited(true);
    let dead = |t: Time| t >= at(ms(450)) && t < at(ms(1200));
    link.judge = Box::new(move |s, _| if dead(s.sent) { Fate::Drop } else { Fate::Pass });
    link.service = Duration::from_micros(100);
    link.run_until(at(Duration::from_millis(1100)));
    assert_eq!(link.sender.info().state, State::Loss);
    assert!(link.sender.info().cwnd <= 2, "{:?}", link.sender.info());
    link.run_until(at(Duration::from_secs(4)));
    assert_eq!(link.sender.info().state, State::Open);
    assert!(link.sender.info().cwnd > 50);
}

#[test]
fn a_spurious_timeout_is_taken_back() {
    let mut link = reno();
    link.sender.set_unlimited(true);
    link.service = Duration::from_micros(200);
    link.run_until(at(ms(600)));
    let before = link.sender.info();
    // The path becomes slower by a second for a moment: nothing is lost, all timers expire.
    link.delay = ms(1050);
    link.run_until(at(ms(2500)));
    link.delay = ms(1050);
    link.run_until(at(Duration::from_secs(6)));
    let info = link.sender.info();
    assert!(info.timeouts >= 1);
    assert!(info.undone >= 1, "{info:?}");
    assert!(info.cwnd >= before.cwnd, "{} {}", info.cwnd, before.cwnd);
}

#[test]
fn moderate_reordering_costs_no_window() {
    let mut link = reno();
    link.sender.set_unlimited(true);
    link.service = Duration::from_micros(500);
    // Overtaken by two: less than the threshold of three.
    link.judge =
        Box::new(|_, i| if i % 50 == 49 { Fate::Late(Duration::from_micros(1100)) } else { Fate::Pass });
    link.limit = 400;
    link.run_until(at(ms(900)));
    assert_eq!(link.sender.info().retransmits, 0, "{:?}", link.sender.info());
}

#[test]
fn newreno_repairs_one_hole_per_round_trip() {
    let config = SenderConfig { recovery: Recovery::NewReno, ..SenderConfig::default() };
    let mut link = Link::new("reno", &config, &ReceiverConfig::default());
    link.judge = lose(&[20, 22, 24]);
    let (link, end) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.reductions), (3, 0, 1));
    assert!((0.6..1.0).contains(&end), "{end}");
}

#[test]
fn rack_repairs_all_holes_in_one_round_trip() {
    let mut link = reno();
    link.judge = lose(&[20, 22, 24]);
    let (link, end) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.reductions), (3, 0, 1));
    assert!(end < 0.7, "{end}");
}

#[test]
fn newreno_survives_a_dead_link() {
    let config = SenderConfig { recovery: Recovery::NewReno, ..SenderConfig::default() };
    let mut link = Link::new("cubic", &config, &ReceiverConfig::default());
    link.judge = Box::new(|_, i| if (10..33).contains(&i) { Fate::Drop } else { Fate::Pass });
    transfer(link);
}

#[test]
fn newreno_repairs_the_very_first_segment_without_a_timeout() {
    let config = SenderConfig { recovery: Recovery::NewReno, ..SenderConfig::default() };
    let mut link = Link::new("reno", &config, &ReceiverConfig::default());
    link.judge = lose(&[0]);
    let (link, _) = transfer(link);
    let info = link.sender.info();
    assert_eq!((info.retransmits, info.timeouts, info.reductions), (1, 0, 1));
}
