//! Less than one segment per round trip: marks at a window of one segment (RFC 3168 section 6.1.2).

use crate::link;

use link::*;
use std::cell::RefCell;
use std::rc::Rc;
use weir_tcp::{EcnMode, ReceiverConfig, Recovery, SenderConfig, State};
use weir_units::{Duration, Time};

fn config(recovery: Recovery, ecn: EcnMode, window_min: u32) -> SenderConfig {
    SenderConfig { recovery, ecn, window_min, ..SenderConfig::default() }
}

/// A round trip of 100 ms, so that the retransmission timeout is 300 ms.
fn flow(name: &str, config: &SenderConfig) -> Link {
    let receiver = ReceiverConfig { ack_every: 1, ecn: config.ecn, ..ReceiverConfig::default() };
    let mut link = Link::new(name, config, &receiver);
    link.sender.set_unlimited(true);
    link
}

/// Gives each segment the fate that `fate` names for its number; returns when each left.
fn judge(link: &mut Link, fate: impl Fn(u64) -> Fate + 'static) -> Rc<RefCell<Vec<Time>>> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = times.clone();
    link.judge = Box::new(move |s, _| {
        seen.borrow_mut().push(s.sent);
        fate(s.seq)
    });
    times
}

/// Distances in whole milliseconds.
fn gaps(times: &[Time]) -> Vec<u64> {
    times.windows(2).map(|w| w[1].since(w[0]).as_nanos() / 1_000_000).collect()
}

/// 10, 5, 2, 1, and then a round trip and the timeout, twice as long after each mark.
#[test]
fn where_all_is_marked_the_timer_spreads_the_segments() {
    for recovery in [Recovery::RackPrr, Recovery::NewReno] {
        for (name, ecn) in
            [("reno", EcnMode::Classic), ("cubic", EcnMode::Classic), ("dctcp", EcnMode::Dctcp)]
        {
            let mut link = flow(name, &config(recovery, ecn, 1));
            let times = judge(&mut link, |_| Fate::Mark);
            link.run_until(at(Duration::from_secs(22)));
            let gaps = gaps(&times.borrow());
            assert!(gaps.ends_with(&[400, 700, 1300, 2500, 4900, 9700]), "{name} {recovery:?}: {gaps:?}");
            assert!(gaps[..gaps.len() - 6].iter().all(|gap| *gap <= 100), "{name} {recovery:?}: {gaps:?}");
            let info = link.sender.info();
            assert_eq!((info.timeouts, info.probes, info.retransmits), (0, 0, 0), "{name} {recovery:?}");
            assert_eq!((info.cwnd, info.ssthresh), (1, Some(1)), "{name} {recovery:?}");
        }
    }
}

#[test]
fn with_two_segments_nobody_waits() {
    for recovery in [Recovery::RackPrr, Recovery::NewReno] {
        let mut link = flow("reno", &config(recovery, EcnMode::Classic, 2));
        let times = judge(&mut link, |_| Fate::Mark);
        link.run_until(at(Duration::from_secs(20)));
        // The reduction, which starts again with each mark, sends one or two per round trip.
        let count = times.borrow().len();
        assert!((200..=420).contains(&count), "{recovery:?}: {count}");
        assert!(gaps(&times.borrow()).iter().all(|gap| *gap <= 100));
    }
}

/// Three waits, of 300, 600 and 1200 ms; then nothing is marked but one segment much later.
#[test]
fn a_segment_that_is_not_marked_ends_the_waiting() {
    for recovery in [Recovery::RackPrr, Recovery::NewReno] {
        let mut link = flow("reno", &config(recovery, EcnMode::Classic, 1));
        let times = judge(&mut link, |_| Fate::Mark);
        let waits = || gaps(&times.borrow()).into_iter().filter(|gap| *gap > 100).collect::<Vec<_>>();
        while waits().len() < 3 {
            link.run_until(link.now + ms(10));
        }
        assert_eq!(waits(), [400, 700, 1300]);
        let sent = link.sent;
        let times = judge(&mut link, |_| Fate::Pass);
        link.run_until(link.now + ms(250));
        // The last one that was marked is still to be answered.
        link.run_until(link.now + Duration::from_millis(2400));
        let info = link.sender.info();
        assert_eq!(info.rto.as_nanos() / 1_000_000, 300, "{info:?}");
        link.run_until(link.now + ms(500));
        let info = link.sender.info();
        assert_eq!(info.state, State::Open);
        assert!(info.cwnd >= 4 && link.sent > sent + 9, "{info:?} {} {sent}", link.sent);
        assert!(gaps(&times.borrow()).iter().all(|gap| *gap <= 100), "{:?}", times.borrow());
    }
}

/// What is lost is retransmitted, so that RFC 5681's two segments stay the floor.
#[test]
fn losses_leave_two_segments() {
    for name in ["reno", "cubic", "dctcp", "prague"] {
        let few = SenderConfig { initial_window: 2, ..config(Recovery::RackPrr, EcnMode::Classic, 1) };
        let mut link = flow(name, &few);
        link.judge = Box::new(|_, index| if index < 3 { Fate::Drop } else { Fate::Pass });
        link.run_until(at(ms(2500)));
        let info = link.sender.info();
        assert_eq!((info.timeouts, info.ssthresh), (1, Some(2)), "{name}: {info:?}");
    }
}

/// Data that is written while the sender waits does not end the wait, and neither does silence prolong it.
#[test]
fn the_wait_holds_back_what_is_written_meanwhile() {
    for (pause, gap) in [(ms(150), 400), (ms(800), 900)] {
        let mut link = flow("reno", &config(Recovery::RackPrr, EcnMode::Classic, 1));
        let times = judge(&mut link, |_| Fate::Mark);
        while link.sender.info().cwnd > 1 || link.sender.info().in_flight > 0 {
            link.run_until(link.now + ms(1));
        }
        let last = *times.borrow().last().unwrap();
        link.sender.set_unlimited(false);
        link.run_until(last + ms(100) + pause);
        assert_eq!(*times.borrow().last().unwrap(), last, "{pause:?}");
        link.sender.write(1448);
        link.run_until(last + ms(1500));
        let next = *times.borrow().last().unwrap();
        assert_eq!(next.since(last).as_nanos() / 1_000_000, gap);
    }
}

/// BBR never has fewer than four segments, and so no timer to wait for.
#[test]
fn bbr_has_a_smallest_window_of_its_own() {
    let sent = |window_min| {
        let mut link = flow("bbr", &config(Recovery::RackPrr, EcnMode::Classic, window_min));
        let dark = |t: Time| (10..14).contains(&(t.as_nanos() / 100_000_000 % 20));
        link.judge = Box::new(move |s, _| if dark(s.sent) { Fate::Drop } else { Fate::Mark });
        link.run_until(at(Duration::from_secs(30)));
        assert!(link.sender.info().timeouts > 3);
        link.sent
    };
    assert_eq!(sent(1), sent(2));
}
