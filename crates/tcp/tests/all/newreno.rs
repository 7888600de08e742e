//! What the window of a sender without SACK does, step by step as the RFCs have it.

use crate::link;

use link::*;
use weir_tcp::{EcnMode, ReceiverConfig, Recovery, SenderConfig, SenderInfo, State};
use weir_units::Duration;

/// One flow that sends for ever, by a receiver that answers each segment and has room for so many.
fn flow(ecn: EcnMode, room: u32) -> Link {
    let sender = SenderConfig { recovery: Recovery::NewReno, ecn, window_min: 1, ..SenderConfig::default() };
    let receiver =
        ReceiverConfig { ecn, ack_every: 1, window: room, window_most: None, ..ReceiverConfig::default() };
    let mut link = Link::new("reno", &sender, &receiver);
    link.sender.set_unlimited(true);
    link.service = Duration::from_micros(100);
    link
}

/// Goes on until that is so; what was before, and what is then.
fn until(link: &mut Link, is_so: impl Fn(&SenderInfo) -> bool) -> (SenderInfo, SenderInfo) {
    let end = link.now + Duration::from_secs(20);
    loop {
        let before = link.sender.info();
        link.run_until(link.now + Duration::from_micros(10));
        let now = link.sender.info();
        if is_so(&now) {
            return (before, now);
        }
        assert!(link.now < end, "{now:?}");
    }
}

/// RFC 6582 section 3.2 step 3: the ACK that ends the repair sets the window to the slow-start threshold, and
/// its segments, of which duplicates told before, make it no larger.
#[test]
fn a_recovery_ends_with_half_the_window() {
    for lost in [&[150][..], &[150, 152, 160]] {
        let mut link = flow(EcnMode::Off, 1000);
        link.judge = lose(lost);
        until(&mut link, |now| now.state == State::Recovery);
        let (before, after) = until(&mut link, |now| now.state == State::Open);
        assert_eq!((after.reductions, after.timeouts), (1, 0), "{after:?}");
        let threshold = after.ssthresh.unwrap();
        assert!(before.cwnd > threshold && after.cwnd == threshold, "{before:?}, {after:?}");
    }
}

/// RFC 5681 section 3.1: in slow start the window grows by one segment for each ACK, however many it
/// acknowledges, as one does that fills the hole after a timeout.
#[test]
fn slow_start_after_a_timeout_does_not_count_what_had_arrived_before() {
    let mut link = flow(EcnMode::Off, 1000);
    // The retransmission is lost, too.
    let (hole, mut times) = (150, 0);
    link.judge = Box::new(move |s, _| {
        times += u32::from(s.seq == hole);
        if s.seq == hole && times <= 2 { Fate::Drop } else { Fate::Pass }
    });
    let (_, after) = until(&mut link, |now| now.una > hole);
    assert_eq!((after.timeouts, after.cwnd), (1, 2), "{after:?}");
}

/// RFC 6582 section 3.2 step 3: only the first partial ACK restarts the timer, so that many losses do not
/// take a round trip each.
#[test]
fn a_recovery_from_many_losses_ends_by_a_timeout() {
    let mut link = flow(EcnMode::Off, 1000);
    let lost: Vec<u64> = (0..12).map(|n| 150 + 2 * n).collect();
    link.judge = lose(&lost);
    until(&mut link, |now| now.state == State::Recovery);
    let begun = link.now;
    let (before, after) = until(&mut link, |now| now.timeouts > 0);
    assert_eq!((before.state, after.reductions), (State::Recovery, 1), "{after:?}");
    // A round trip to the first partial ACK, and the timeout.
    let took = link.now.since(begun).as_nanos() / 1_000_000;
    assert!((390..=430).contains(&took), "{took} ms");
    // Three losses are repaired in less than it takes.
    let mut link = flow(EcnMode::Off, 1000);
    link.judge = lose(&lost[..3]);
    until(&mut link, |now| now.state == State::Recovery);
    let (_, after) = until(&mut link, |now| now.state == State::Open);
    assert_eq!((after.retransmits, after.timeouts), (3, 0), "{after:?}");
}

/// RFC 3168 section 6.1.2: a mark halves the window at once, and it does not grow by an ACK with an echo.
#[test]
fn a_mark_halves_the_window_at_once() {
    let mut link = flow(EcnMode::Classic, 1000);
    link.judge = Box::new(|_, i| if i == 150 { Fate::Mark } else { Fate::Pass });
    let (before, after) = until(&mut link, |now| now.reductions > 0);
    let half = before.cwnd / 2;
    assert_eq!((after.state, after.ssthresh, after.cwnd), (State::Cwr, Some(half), half), "{after:?}");
    // Until the sender may send again, and tell that it has reduced its window, all ACKs have an echo.
    let marked = after.marked;
    link.run_until(link.now + ms(100));
    let echoes = link.sender.info();
    assert!(echoes.marked > marked + 50 && echoes.cwnd == half, "{echoes:?}");
    let (_, after) = until(&mut link, |now| now.cwnd > half);
    assert_eq!((after.cwnd, after.reductions), (half + 1, 1), "{after:?}");
}

/// RFC 5681 section 3.1, equation 4: half of what is in flight, where the receiver has no room for more.
#[test]
fn what_is_halved_is_in_flight() {
    for (ecn, fate) in [(EcnMode::Classic, Fate::Mark), (EcnMode::Off, Fate::Drop)] {
        let mut link = flow(ecn, 20);
        link.judge = Box::new(move |_, i| if i == 300 { fate } else { Fate::Pass });
        let (before, after) = until(&mut link, |now| now.reductions > 0);
        assert!(before.cwnd >= 30 && before.in_flight == 20, "{before:?}");
        assert_eq!(after.ssthresh, Some(10), "{fate:?}: {after:?}");
    }
    // By a timeout, too: nothing arrives any more.
    let mut link = flow(EcnMode::Off, 20);
    link.judge = Box::new(|_, i| if i >= 300 { Fate::Drop } else { Fate::Pass });
    let (_, after) = until(&mut link, |now| now.timeouts > 0);
    assert_eq!(after.ssthresh, Some(10), "{after:?}");
}
