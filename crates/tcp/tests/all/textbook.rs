//! What the textbooks say about growth, ECN, pacing and delayed ACKs.

use crate::link;

use link::*;
use weir_tcp::{EcnMode, ReceiverConfig, Recovery, SenderConfig, State, congestion};
use weir_units::{Duration, Time};

/// A receiver that answers each segment.
fn ack_each() -> ReceiverConfig {
    ReceiverConfig { ack_every: 1, ..ReceiverConfig::default() }
}

fn unlimited(name: &str, config: &SenderConfig, receiver: &ReceiverConfig) -> Link {
    let mut link = Link::new(name, config, receiver);
    link.sender.set_unlimited(true);
    link
}

#[test]
fn slow_start_doubles_per_round_trip() {
    for receiver in [ack_each(), ReceiverConfig::default()] {
        let mut link = unlimited("reno", &SenderConfig::default(), &receiver);
        for (round, expected) in [(1u64, 20u32), (2, 40), (3, 80), (4, 160), (5, 320)] {
            link.run_until(at(ms(100 * round + 45)));
            let cwnd = link.sender.info().cwnd;
            assert!(cwnd.abs_diff(expected) <= 2, "{round}: {cwnd}");
        }
    }
}

#[test]
fn reno_grows_by_one_per_round_trip_and_halves() {
    let kinds = [(ack_each(), Recovery::RackPrr), (ack_each(), Recovery::NewReno)];
    for (receiver, recovery) in kinds.into_iter().chain([(ReceiverConfig::default(), Recovery::RackPrr)]) {
        let config = SenderConfig { recovery, ..SenderConfig::default() };
        let mut link = unlimited("reno", &config, &receiver);
        link.judge = lose(&[150]);
        link.run_until(at(ms(1450)));
        let start = link.sender.info();
        assert_eq!((start.state, start.reductions), (State::Open, 1), "{start:?}");
        link.run_until(at(ms(1450 + 2000)));
        let grown = link.sender.info().cwnd - start.cwnd;
        assert!((19..=20).contains(&grown), "{grown}");
        link.run_until(at(ms(8000)));
        let before = link.sender.info().cwnd;
        link.judge = lose(&[link.sent + 1]);
        link.run_until(at(ms(8400)));
        let after = link.sender.info().cwnd;
        assert!(after.abs_diff(before / 2) <= 3, "{before} {after}");
    }
}

#[test]
fn cubic_follows_its_closed_form_after_a_loss() {
    let config = SenderConfig { control: with_hystart(false), ..SenderConfig::default() };
    let mut link = unlimited("cubic", &config, &ack_each());
    // Slow start until one loss at about a thousand segments.
    link.judge = lose(&[1500]);
    link.run_until(at(ms(1500)));
    let info = link.sender.info();
    assert_eq!((info.reductions, info.state), (1, State::Open), "{info:?}");
    let ssthresh = f64::from(info.ssthresh.unwrap());
    let w_max = ssthresh / 0.7;
    let k = (w_max * 0.3 / 0.4).cbrt();
    let mut epoch = None;
    for step in 0..120u64 {
        link.run_until(at(ms(1500 + step * 100)));
        let cwnd = f64::from(link.sender.info().cwnd);
        let t0 = *epoch.get_or_insert(link.now.as_secs_f64() - 0.5);
        let t = link.now.as_secs_f64() - t0;
        let form = 0.4 * (t - k).powi(3) + w_max;
        assert!((cwnd / form - 1.0).abs() < 0.04, "t {t}: {cwnd} against {form}");
    }
}

#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let run = |hystart| {
        let config = SenderConfig { control: with_hystart(hystart), ..SenderConfig::default() };
        let mut link = unlimited("cubic", &config, &ReceiverConfig::default());
        // 120 Mbit/s, RTT 100 ms: a product of 1000 segments and a buffer of twice that.
        link.service = Duration::from_micros(100);
        link.limit = 2000;
        link.run_until(at(Duration::from_secs(2)));
        (link.sender.info(), link.dropped)
    };
    let (with, lost) = run(true);
    assert_eq!(lost, 0, "{with:?}");
    assert!(with.ssthresh.is_some_and(|s| (300..1600).contains(&s)), "{with:?}");
    let (without, lost) = run(false);
    assert!(lost > 500 && without.reductions >= 1, "{lost} {without:?}");
}

#[test]
fn a_transfer_in_the_long_run_fills_the_link() {
    for name in congestion::names() {
        let which = weir_tcp::Congestion::by_name(name).unwrap();
        let config = SenderConfig { ecn: which.ecn(), ..SenderConfig::default() };
        let receiver = ReceiverConfig { ecn: which.ecn(), ..ReceiverConfig::default() };
        let mut link = unlimited(name, &config, &receiver);
        link.service = Duration::from_micros(100);
        link.delay = ms(10);
        link.limit = 220;
        link.run_until(at(Duration::from_secs(10)));
        let before = link.receiver.received_segments();
        link.run_until(at(Duration::from_secs(30)));
        let share = (link.receiver.received_segments() - before) as f64 / 200_000.0;
        assert!(share > 0.95, "{name}: {share} {:?}", link.sender.info());
        assert!(link.sender.info().timeouts == 0, "{name}: {:?}", link.sender.info());
    }
}

#[test]
fn bbr_keeps_the_queue_short_and_ignores_random_loss() {
    let mut link = unlimited("bbr", &SenderConfig::default(), &ReceiverConfig::default());
    link.service = Duration::from_micros(100);
    link.delay = ms(10);
    link.judge = random_loss(0.01, 3);
    link.run_until(at(Duration::from_secs(5)));
    let before = link.receiver.received_segments();
    link.run_until(at(Duration::from_secs(25)));
    let share = (link.receiver.received_segments() - before) as f64 / 200_000.0;
    let srtt = link.sender.info().srtt.unwrap().as_millis_f64();
    assert!(share > 0.85, "{share}");
    assert!(srtt < 35.0, "{srtt}");
}

#[test]
fn one_reduction_per_window_of_marks() {
    let config = SenderConfig { ecn: EcnMode::Classic, ..SenderConfig::default() };
    let receiver = ReceiverConfig { ecn: EcnMode::Classic, ..ack_each() };
    let mut link = unlimited("reno", &config, &receiver);
    link.run_until(at(ms(410)));
    let before = link.sender.info().cwnd;
    // All of one window is marked, and nothing of the next: the reduction ends it.
    let marked = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = marked.clone();
    link.judge = Box::new(move |s, _| {
        let first = s.sent < at(ms(505));
        seen.set(seen.get() + u32::from(first));
        if first { Fate::Mark } else { Fate::Pass }
    });
    link.run_until(at(ms(800)));
    let info = link.sender.info();
    assert!(marked.get() > before, "{} of {before}", marked.get());
    assert_eq!((info.reductions, info.retransmits, info.undone), (1, 0, 0), "{info:?}");
    // Half of the window at the first echo, which has doubled since, and some round trips of growth.
    let half = info.ssthresh.unwrap();
    assert!(half >= before / 2 && half <= before && info.cwnd.abs_diff(half) <= 3, "{before} {info:?}");
    link.run_until(at(Duration::from_secs(3)));
    let calm = link.sender.info();
    assert_eq!((calm.reductions, calm.state), (info.reductions, State::Open));
}

/// Marks above a threshold of the queue, as DCTCP and L4S want it.
fn shallow(name: &str, ecn: EcnMode) -> (f64, f64) {
    let config = SenderConfig { ecn, ..SenderConfig::default() };
    let receiver = ReceiverConfig { ecn, ..ReceiverConfig::default() };
    let mut link = unlimited(name, &config, &receiver);
    link.service = Duration::from_micros(12);
    link.delay = Duration::from_micros(500);
    // RTT 1 ms: a product of 83 segments; the queue's delay is read off the wait of what was sent before.
    let mut busy = Time::ZERO;
    link.judge = Box::new(move |s, _| {
        let waiting = busy.since(s.sent).as_nanos() / 12_000;
        busy = busy.max(s.sent) + Duration::from_micros(12);
        if waiting >= 20 { Fate::Mark } else { Fate::Pass }
    });
    link.run_until(at(ms(500)));
    let before = link.receiver.received_segments();
    link.run_until(at(ms(1500)));
    let share = (link.receiver.received_segments() - before) as f64 * 12e-6;
    (share, link.sender.info().srtt.unwrap().as_millis_f64())
}

#[test]
fn scalable_controls_hold_a_shallow_queue_at_full_rate() {
    for (name, ecn) in [("dctcp", EcnMode::Dctcp), ("prague", EcnMode::Accurate)] {
        let (share, srtt) = shallow(name, ecn);
        assert!(share > 0.95, "{name}: {share}");
        assert!(srtt < 1.0 + 0.6, "{name}: {srtt} ms");
    }
}

#[test]
fn a_lone_segment_is_acknowledged_when_the_timer_says_so() {
    let receiver = ReceiverConfig { quick_acks: 0, ..ReceiverConfig::default() };
    let mut link = Link::new("reno", &SenderConfig::default(), &receiver);
    link.sender.write(100);
    let end = link.run_to_the_end(Duration::from_secs(1)).unwrap();
    assert_eq!(end, at(ms(140)) + Duration::from_nanos(1));
    assert_eq!(link.receiver.received_bytes(), 100);
}

#[test]
fn an_application_limited_flow_does_not_grow_its_window() {
    let mut link = Link::new("reno", &SenderConfig::default(), &ReceiverConfig::default());
    for i in 1..100u64 {
        link.sender.write(3 * 1448);
        link.run_until(at(ms(i * 110)));
    }
    assert!(link.sender.info().cwnd <= 12, "{:?}", link.sender.info());
}

#[test]
fn the_window_restarts_after_an_idle_time() {
    let mut link = Link::new("cubic", &SenderConfig::default(), &ReceiverConfig::default());
    link.sender.write(1448 * 2000);
    link.run_to_the_end(Duration::from_secs(10)).unwrap();
    assert!(link.sender.info().cwnd > 200);
    link.run_until(link.now + Duration::from_secs(20));
    link.sender.write(1448 * 2000);
    link.run_until(link.now + ms(1));
    assert_eq!(link.sender.info().in_flight, 10);
}

#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    let config = SenderConfig { pacing: weir_tcp::Pacing::On, ..SenderConfig::default() };
    let mut link = unlimited("reno", &config, &ack_each());
    let mut last = Time::ZERO;
    link.run_until(at(ms(500)));
    let mut bursts = 0u64;
    link.judge = Box::new(move |s, _| {
        bursts = if s.sent == last { bursts + 1 } else { 0 };
        last = s.sent;
        assert!(bursts < 2);
        Fate::Pass
    });
    link.run_until(at(ms(1000)));
    assert!(link.sent > 300);
}

#[test]
fn the_spin_bit_turns_once_per_round_trip() {
    let mut link = unlimited("reno", &SenderConfig::default(), &ack_each());
    let edges = std::rc::Rc::new(std::cell::Cell::new((false, 0u32)));
    let seen = edges.clone();
    link.judge = Box::new(move |s, _| {
        let (last, n) = seen.get();
        seen.set((s.spin, n + u32::from(s.spin != last)));
        Fate::Pass
    });
    link.run_until(at(ms(1050)));
    assert_eq!(edges.get().1, 10);
}

#[test]
fn bursts_leave_whole() {
    let config = SenderConfig { burst: 8, ..SenderConfig::default() };
    let mut link = unlimited("reno", &config, &ack_each());
    // 20 ms, so that eight segments are less than a millisecond of the rate.
    link.delay = ms(10);
    link.run_until(at(ms(110)));
    let sizes = std::rc::Rc::new(std::cell::RefCell::new((Time::ZERO, vec![0u32])));
    let seen = sizes.clone();
    link.service = Duration::from_micros(10);
    link.judge = Box::new(move |s, _| {
        let (last, list) = &mut *seen.borrow_mut();
        if s.sent == *last {
            *list.last_mut().unwrap() += 1;
        } else {
            list.push(1);
            *last = s.sent;
        }
        Fate::Pass
    });
    link.run_until(at(ms(180)));
    let (_, list) = &*sizes.borrow();
    // A round trip may begin with a smaller one: after a pause nothing waits.
    let full = list.iter().filter(|n| **n == 8).count();
    assert!(list.len() > 100 && list.iter().all(|n| *n <= 8) && full * 100 > 95 * list.len(), "{list:?}");
}
