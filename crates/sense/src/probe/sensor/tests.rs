use super::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

const FULL: Bytes = Bytes::new(1500);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn sensor() -> Sensor {
    Sensor::new(Settings::default(), 0x5eed)
}

/// A sensor with a probe sent at each of the times.
fn with_probes(times: &[u64]) -> (Sensor, Vec<Stamp>) {
    let mut s = sensor();
    let probes = times.iter().map(|&t| s.send(at(t), 0)).collect();
    (s, probes)
}

#[test]
fn a_reply_measures_the_round_trip_once() {
    let mut s = sensor();
    let probes: Vec<_> = (0..8).filter_map(|n| s.on_data(at(n), FULL, 10)).collect();
    assert_eq!(
        probes.iter().map(|p| (p.sequence, p.nonce, p.dscp)).collect::<Vec<_>>(),
        [(0, 0x5eed, 10), (1, 0x5eed, 10)]
    );
    assert_eq!(s.state(), State::Starting);
    assert_eq!(s.on_return(at(23), &probes[0]), Ok(ms(20)));
    assert_eq!(s.on_return(at(24), &probes[0]), Err(Rejected::Duplicate));
    assert_eq!(s.on_return(at(47), &probes[1]), Ok(ms(40)));
    assert_eq!(s.rtt(), Some(Duration::from_micros(22_500)));
    assert_eq!(s.state(), State::Sensing);
    let c = s.counters();
    assert_eq!((c.sent, c.returned, c.duplicated, c.data_packets), (2, 2, 1, 8));
    assert_eq!((c.sent_bytes.get(), c.data_bytes.get()), (56, 12_000));
}

#[test]
fn what_was_not_sent_is_refused_and_counted() {
    let (mut s, probes) = with_probes(&[1_000]);
    let probe = probes[0];
    let unknown = Stamp { sequence: 1, ..probe };
    assert_eq!(s.on_return(at(1_010), &unknown), Err(Rejected::Unknown));
    let nonce = Stamp { nonce: 0, ..probe };
    assert_eq!(s.on_return(at(1_010), &nonce), Err(Rejected::Forged));
    let earlier = Stamp { sent: probe.sent - 1, ..probe };
    assert_eq!(s.on_return(at(1_010), &earlier), Err(Rejected::Forged));
    assert_eq!(s.on_return(at(999), &probe), Err(Rejected::Future));
    assert_eq!((s.state(), s.rtt()), (State::Starting, None));
    let c = *s.counters();
    assert_eq!((c.unknown, c.forged, c.future, c.returned), (1, 2, 1, 0));
    assert_eq!(s.on_return(at(1_010), &probe), Ok(ms(10)), "none of it used the probe up");
}

#[test]
fn a_class_that_was_changed_on_the_way_is_counted_and_measured() {
    let (mut s, probes) = with_probes(&[0]);
    assert_eq!(s.on_return(at(5), &Stamp { dscp: 8, ..probes[0] }), Ok(ms(5)));
    assert_eq!(s.counters().remapped, 1);
}

#[test]
fn an_overdue_probe_gives_its_age() {
    let (mut s, probes) = with_probes(&[0, 100]);
    s.on_return(at(20), &probes[0]).unwrap();
    assert_eq!(s.next_timer(), Some(at(600)));
    assert_eq!(s.on_timer(at(599)), None);
    assert_eq!(s.on_timer(at(600)), Some(ms(500)));
    assert_eq!(s.next_timer(), Some(at(700)));
    assert_eq!(s.on_timer(at(650)), None, "not at every look");
    assert_eq!(s.on_timer(at(700)), Some(ms(600)));
    assert_eq!(s.rtt(), Some(ms(20)), "an age is not a round trip");
    assert_eq!(s.on_return(at(800), &probes[1]), Ok(ms(700)));
    assert_eq!((s.counters().lost, s.counters().late), (0, 0));
}

#[test]
fn four_smoothed_round_trips_are_not_overdue() {
    let (mut s, probes) = with_probes(&[0, 400]);
    s.on_return(at(300), &probes[0]).unwrap();
    assert_eq!(s.on_timer(at(1_599)), None);
    assert_eq!(s.on_timer(at(1_600)), Some(ms(1_200)));
}

#[test]
fn a_probe_that_was_overtaken_is_lost_and_not_held_up() {
    let (mut s, probes) = with_probes(&[0, 10, 20]);
    s.on_return(at(40), &probes[2]).unwrap();
    assert_eq!(s.on_return(at(41), &probes[1]), Ok(ms(31)));
    assert_eq!(s.counters().reordered, 1);
    assert_eq!(s.on_timer(at(499)), None);
    assert_eq!((s.counters().lost, s.next_timer()), (0, Some(at(500))));
    assert_eq!(s.on_timer(at(500)), None);
    assert_eq!((s.counters().lost, s.next_timer()), (1, None));
    assert_eq!(s.on_return(at(600), &probes[0]), Ok(ms(600)), "late is still true");
    let c = s.counters();
    assert_eq!((c.late, c.reordered), (1, 2));
}

/// Milliseconds, and what was so then.
type Timeline<T> = Vec<(u64, T)>;

/// What a sensor says when from 1 s on nothing returns any more: its samples in milliseconds, and its states.
fn silence(mut s: Sensor) -> (Timeline<u64>, Timeline<State>) {
    let mut underway = VecDeque::new();
    let (mut samples, mut states) = (vec![], vec![(0, s.state())]);
    for t in 0..8_000 {
        if let Some(probe) = s.on_data(at(t), FULL, 0) {
            underway.push_back((t + 20, probe));
        }
        if underway.front().is_some_and(|(due, _)| *due == t) {
            let (_, probe) = underway.pop_front().unwrap();
            if t < 1_000 {
                s.on_return(at(t), &probe).unwrap();
            }
        }
        if s.next_timer().is_some_and(|due| due <= at(t)) {
            samples.extend(s.on_timer(at(t)).map(|v| (t, v.as_nanos() / 1_000_000)));
            assert!(s.next_timer().is_none_or(|due| due > at(t)), "it asks for the past at {t} ms");
        }
        if states.last().map(|(_, state)| *state) != Some(s.state()) {
            states.push((t, s.state()));
        }
    }
    (samples, states)
}

#[test]
fn silence_is_first_delay_then_the_last_good_value_and_then_said() {
    let (samples, states) = silence(sensor());
    let held = *samples.last().unwrap();
    assert_eq!(held.1, 20, "the last good value");
    let ages = &samples[..samples.len() - 1];
    assert_eq!(ages.len(), 15);
    assert_eq!((ages[0].1, ages[14].1), (500, 1_900));
    let names: Vec<_> = states.iter().map(|(_, s)| s.name()).collect();
    assert_eq!(names, ["starting", "sensing", "holding", "fallen back"]);
    assert_eq!(states[2].0, held.0);
    assert!((2_900..3_100).contains(&states[2].0), "{states:?}");
    assert!((5_900..6_100).contains(&states[3].0), "{states:?}");
}

#[test]
fn where_nothing_ever_returned_there_is_no_sample_at_all() {
    let mut s = sensor();
    for t in 0..10_000 {
        let _ = s.on_data(at(t), FULL, 0);
        assert_eq!(s.on_timer(at(t)), None);
    }
    assert_eq!(s.state(), State::FallenBack);
    let mut returns = 0;
    while s.state() == State::FallenBack {
        let now = at(10_000 + 4 * returns);
        let probe = s.send(now, 0);
        s.on_return(now, &probe).unwrap();
        returns += 1;
    }
    // The last half second of unanswered ones is lost while the first replies come.
    assert_eq!((s.state(), (64..200).contains(&returns)), (State::Sensing, true), "after {returns} replies");
}

#[test]
fn a_path_that_returns_one_probe_in_a_hundred_is_not_relied_on() {
    let mut s = sensor();
    let (mut samples, mut sent) = (0, 0);
    for t in 0..20_000 {
        if let Some(probe) = s.on_data(at(t), FULL, 0) {
            sent += 1;
            if sent % 100 == 1 {
                s.on_return(at(t), &probe).unwrap();
                samples += u32::from(s.state() == State::Sensing);
            }
        }
        if s.next_timer().is_some_and(|due| due <= at(t)) {
            samples += u32::from(s.on_timer(at(t)).is_some());
        }
    }
    assert_eq!(s.state(), State::FallenBack);
    assert!(samples <= 4, "{samples} samples before it was known");
}

/// What a sensor says of a path of 20 ms that loses so many of a hundred probes: the moments in ms at which
/// its state changed, and how many samples it gave in 20 s.
fn lossy(percent: u64) -> (Vec<(u64, State)>, usize) {
    let mut s = sensor();
    let (mut underway, mut states, mut samples) = (VecDeque::new(), vec![], 0);
    let mut dice = 1u64;
    for t in 0..20_000 {
        if let Some(probe) = s.on_data(at(t), FULL, 0) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (dice >> 33) % 100 >= percent {
                underway.push_back((t + 20, probe));
            }
        }
        if underway.front().is_some_and(|(due, _)| *due == t) {
            let (_, probe) = underway.pop_front().unwrap();
            s.on_return(at(t), &probe).unwrap();
            samples += usize::from(s.state() == State::Sensing);
        }
        if s.next_timer().is_some_and(|due| due <= at(t)) {
            assert_eq!(s.on_timer(at(t)).filter(|v| *v > ms(600)), None, "a loss is no long queue");
        }
        if states.last().is_none_or(|(_, last)| *last != s.state()) {
            states.push((t, s.state()));
        }
    }
    (states, samples)
}

#[test]
fn losses_by_chance_do_not_make_it_waver() {
    for percent in (5..=95).step_by(5).chain([12, 99]) {
        let (states, samples) = lossy(percent);
        let late: Vec<_> = states.iter().filter(|(t, _)| *t > 4_000).collect();
        assert!(states.len() <= 3 && late.is_empty(), "{percent} %: {states:?}");
        if percent <= 50 {
            let wanted = 5_000 * (100 - percent as usize) / 100 - 200;
            assert!(states.len() == 2 && samples >= wanted, "{percent} %: {samples} samples, {states:?}");
        }
    }
}

#[test]
fn the_last_probes_before_a_pause_do_not_prove_silence() {
    let (mut s, probes) = with_probes(&[0, 10, 20]);
    s.on_return(at(20), &probes[0]).unwrap();
    let mut last = None;
    while let Some(due) = s.next_timer() {
        last = s.on_timer(due).or(last);
    }
    assert_eq!(last, Some(ms(20)), "no age stays the last word");
    assert_eq!((s.state(), s.counters().lost), (State::Sensing, 2));
}

#[test]
fn a_flood_of_replies_changes_nothing_but_counters() {
    let mut s = sensor();
    let mut probes = vec![];
    for t in 0..4_000 {
        if let Some(probe) = s.on_data(at(t), FULL, 0) {
            probes.push(probe);
            s.on_return(at(t), &probe).unwrap();
            let rtt = s.rtt();
            for n in 0..100u16 {
                let noise = Stamp { sequence: n.wrapping_mul(661), sent: u64::from(n), ..probe };
                assert!(s.on_return(at(t), &noise).is_err());
            }
            assert_eq!(s.rtt(), rtt);
        }
    }
    let c = s.counters();
    assert_eq!((c.returned, c.unknown + c.forged + c.duplicated), (1_000, 100_000));
}
