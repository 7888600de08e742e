//! Reordering: how far a sender lets others overtake a segment before it sends it again, and what it takes
//! back.

use crate::link;

use link::*;
use weir_tcp::{Ack, Receiver, ReceiverConfig, Segment, SenderConfig, SenderInfo};
use weir_units::{Duration, Ecn, Time};

/// A segment each millisecond for 20 s over an RTT of 100 ms that nothing limits, each hundredth late by so
/// much.
fn with_late_segments(late: u64, dsack: bool) -> SenderInfo {
    let receiver = ReceiverConfig { dsack, ..ReceiverConfig::default() };
    let mut link = Link::new("reno", &SenderConfig::default(), &receiver);
    let delayed = ms(late);
    link.judge =
        Box::new(
            move |s, _| {
                if s.seq % 100 == 50 && !s.retransmission { Fate::Late(delayed) } else { Fate::Pass }
            },
        );
    for now in 0..20_000 {
        link.sender.write(1448);
        link.run_until(at(ms(now)));
    }
    link.sender.info()
}

/// RFC 8985 section 6.2: the window begins with a quarter of the RTT, and a quarter more is added in each
/// round trip that learns of a needless retransmission, up to the smoothed RTT.
#[test]
fn the_reordering_window_grows_with_what_was_sent_again_in_vain() {
    let within = with_late_segments(20, true);
    assert!(within.retransmits <= 1, "{within:?}");
    for late in [35, 60, 90] {
        let (learns, does_not) = (with_late_segments(late, true), with_late_segments(late, false));
        assert!(does_not.retransmits > 5 * learns.retransmits, "{late}: {does_not:?}");
        assert!(learns.retransmits < 20 && learns.repeats > 0, "{late}: {learns:?}");
    }
}

/// The retransmission was in vain, so that nothing is left of the reduction.
#[test]
fn a_reduction_for_what_was_only_late_is_taken_back() {
    let info = with_late_segments(35, true);
    assert!(info.undone >= 1 && info.undone == info.reductions, "{info:?}");
    assert_eq!(info.ssthresh, None, "{info:?}");
}

/// A retransmission that overtakes others makes their timestamps old, and each of those needs a repair of its
/// own. What arrives late in a repair that follows another at once says nothing of it: the first
/// retransmission of both is the one to compare with (Linux's `retrans_stamp`). Linux 6.18 took back 4 or 5
/// of 34 to 36 reductions in a minute over such a path.
#[test]
fn of_repairs_one_after_the_other_few_are_taken_back() {
    let mut link = Link::new("cubic", &SenderConfig::default(), &ReceiverConfig::default());
    link.sender.set_unlimited(true);
    link.service = Duration::from_micros(240);
    link.delay = ms(20);
    link.limit = 166;
    // One segment in twenty, at random, 30 ms late.
    let mut dice = 1u64;
    link.judge = Box::new(move |_, _| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (dice >> 33).is_multiple_of(20) { Fate::Late(ms(30)) } else { Fate::Pass }
    });
    link.run_until(at(Duration::from_secs(60)));
    let info = link.sender.info();
    assert!((20..60).contains(&info.reductions) && info.undone * 4 < info.reductions, "{info:?}");
}

fn segment(seq: u64) -> Segment {
    Segment {
        seq,
        sent: Time::ZERO,
        payload: 1448,
        ecn: Ecn::NotEct,
        retransmission: false,
        cwr: false,
        spin: false,
    }
}

/// RFC 2883 section 4.1: below the cumulative acknowledgement the repeat alone; section 4.2: above it
/// before the block that holds it; section 4: reported once.
#[test]
fn what_arrives_twice_is_reported_first_and_once() {
    let mut receiver = Receiver::new(&ReceiverConfig::default(), Time::ZERO);
    let mut arrives =
        |seq| receiver.on_segment(Time::ZERO, &segment(seq)).map(|ack: Ack| (ack.next, ack.sacks));
    let none = (0, 0);
    assert!((0..4).all(|seq| arrives(seq).is_some()));
    assert_eq!(arrives(1), Some((4, [(1, 2), none, none])));
    assert_eq!(arrives(6), Some((4, [(6, 7), none, none])));
    assert_eq!(arrives(8), Some((4, [(8, 9), (6, 7), none])));
    assert_eq!(arrives(6), Some((4, [(6, 7), (6, 7), (8, 9)])));
    assert_eq!(arrives(2), Some((4, [(2, 3), (6, 7), (8, 9)])));
    assert_eq!(arrives(10), Some((4, [(10, 11), (6, 7), (8, 9)])));
    assert_eq!(arrives(4), Some((5, [(10, 11), (6, 7), (8, 9)])));
}
