//! What Linux does beyond the RFCs, or where they leave the choice.

use crate::link;

use link::*;
use weir_tcp::{Ack, EcnMode, Receiver, ReceiverConfig, Recovery, Rto, Segment, SenderConfig, State};
use weir_units::{Duration, Ecn, Time};

fn flow(name: &str) -> Link {
    Link::new(name, &SenderConfig::default(), &ReceiverConfig::default())
}

/// A thousand segments are written, then some every round trip.
#[test]
fn a_window_that_is_not_used_shrinks_towards_its_use() {
    let mut link = flow("reno");
    link.sender.write(1000 * 1448);
    link.run_to_the_end(Duration::from_secs(5)).unwrap();
    let full = link.sender.info().cwnd;
    assert!(full > 500, "{full}");
    let mut last = full;
    for _ in 0..40 {
        link.sender.write(20 * 1448);
        link.run_until(link.now + ms(110));
        let cwnd = link.sender.info().cwnd;
        // By half of what is not used at most, each time.
        assert!(cwnd <= last && cwnd >= 20 + (last - 20) / 2, "{last} {cwnd}");
        last = cwnd;
    }
    assert!((20..=40).contains(&last), "{last}");
    assert_eq!(link.sender.info().ssthresh, None);
}

#[test]
fn a_receiver_that_is_full_does_not_shrink_the_window() {
    let receiver = ReceiverConfig { window: 50, ..ReceiverConfig::default() };
    let mut link = Link::new("reno", &SenderConfig::default(), &receiver);
    link.sender.set_unlimited(true);
    link.run_until(at(ms(1000)));
    let cwnd = link.sender.info().cwnd;
    link.run_until(at(Duration::from_secs(10)));
    assert_eq!(link.sender.info().cwnd, cwnd);
    assert!((50..=101).contains(&cwnd), "{cwnd}");
}

/// The ACKs of the end of a transfer let the window grow, though nothing leaves any more.
#[test]
fn the_end_of_a_transfer_counts_for_the_next() {
    let mut link = flow("reno");
    link.sender.write(100 * 1448);
    link.run_to_the_end(Duration::from_secs(5)).unwrap();
    assert_eq!(link.sender.info().cwnd, 110);
}

/// What arrived behind a hole is acknowledged when the hole is filled, which is no measure of the path.
#[test]
fn a_repaired_hole_gives_no_long_round_trip() {
    for recovery in [Recovery::NewReno, Recovery::RackPrr] {
        let config = SenderConfig { recovery, ..SenderConfig::default() };
        let receiver = ReceiverConfig { ack_every: 1, ..ReceiverConfig::default() };
        let mut link = Link::new("reno", &config, &receiver);
        link.judge = lose(&[20, 60]);
        link.watch = Box::new(|_, sender| {
            if let Some(srtt) = sender.info().srtt {
                assert!(srtt < ms(101), "{srtt:?}");
            }
        });
        link.sender.write(300 * 1448);
        link.run_to_the_end(Duration::from_secs(10)).unwrap();
        assert!(link.sender.info().retransmits >= 2);
    }
}

/// A repair is lost and the timer expires: CUBIC's old maximum is forgotten though the window fell before.
#[test]
fn cubic_forgets_its_maximum_at_a_timeout_within_a_repair() {
    let config = SenderConfig { control: with_hystart(false), ..SenderConfig::default() };
    let mut link = Link::new("cubic", &config, &ReceiverConfig::default());
    link.sender.set_unlimited(true);
    let dead = |t: Time| t >= at(ms(650)) && t < at(ms(1300));
    link.judge = Box::new(move |s, i| if i == 1000 || dead(s.sent) { Fate::Drop } else { Fate::Pass });
    link.run_until(at(ms(1100)));
    let info = link.sender.info();
    assert_eq!((info.state, info.reductions), (State::Loss, 1), "{info:?}");
    let ssthresh = info.ssthresh.unwrap();
    while link.sender.info().cwnd < ssthresh {
        link.run_until(link.now + ms(100));
        assert!(link.now < at(Duration::from_secs(20)));
    }
    let before = link.sender.info().cwnd;
    link.run_until(link.now + ms(1000));
    // A segment for 20 that are acknowledged, where the cubic below the maximum would give one for fifty.
    let factor = f64::from(link.sender.info().cwnd) / f64::from(before);
    assert!((1.4..2.0).contains(&factor), "{factor}");
}

/// Its acknowledgement may be a delayed one, so it waits as long as the timeout; but it is a probe, which
/// costs no window.
#[test]
fn a_lone_segment_is_probed_when_the_timeout_would_come() {
    for floor in [50u64, 200] {
        let config = SenderConfig { rto: Rto::Linux { margin: ms(floor) }, ..SenderConfig::default() };
        let mut link = Link::new("reno", &config, &ReceiverConfig::default());
        link.delay = ms(10);
        link.sender.write(20 * 1448);
        link.run_to_the_end(Duration::from_secs(1)).unwrap();
        let due = link.now + link.sender.info().rto;
        link.judge = lose(&[20]);
        link.sender.write(1448);
        link.run_until(due - ms(1));
        assert_eq!(link.sender.info().retransmits, 0);
        link.run_until(due);
        let info = link.sender.info();
        assert_eq!((info.retransmits, info.probes, info.timeouts), (1, 1, 0), "{floor}: {info:?}");
    }
}

/// A window of 40 at 2 ms per segment.
#[test]
fn slow_flows_do_not_gather_bursts() {
    let config = SenderConfig { burst: 44, ..SenderConfig::default() };
    let receiver = ReceiverConfig { ack_every: 1, ..ReceiverConfig::default() };
    let mut link = Link::new("reno", &config, &receiver);
    link.sender.set_unlimited(true);
    link.service = ms(2);
    link.delay = ms(40);
    link.run_until(at(ms(1000)));
    let mut run = (Time::ZERO, 0);
    link.judge = Box::new(move |s, _| {
        run = if s.sent == run.0 { (s.sent, run.1 + 1) } else { (s.sent, 1) };
        assert!(run.1 <= 2, "{run:?}");
        Fate::Pass
    });
    link.run_until(at(ms(2000)));
}

/// 12 Gbit/s and 10 ms: a burst is full. A tenth of that: a millisecond's worth.
#[test]
fn a_burst_is_a_millisecond_of_the_rate() {
    let largest = |service_ns: u64, window: u32| {
        let config = SenderConfig { burst: 44, ..SenderConfig::default() };
        let receiver = ReceiverConfig { ack_every: 1, window, ..ReceiverConfig::default() };
        let mut link = Link::new("reno", &config, &receiver);
        link.sender.set_unlimited(true);
        link.service = Duration::from_nanos(service_ns);
        link.delay = ms(5);
        link.run_until(at(ms(300)));
        let sizes = std::rc::Rc::new(std::cell::RefCell::new((Time::ZERO, Vec::new())));
        let seen = sizes.clone();
        link.judge = Box::new(move |s, _| {
            let (last, list) = &mut *seen.borrow_mut();
            if s.sent != *last || list.is_empty() {
                list.push(0u32);
                *last = s.sent;
            }
            *list.last_mut().unwrap() += 1;
            Fate::Pass
        });
        link.run_until(at(ms(350)));
        let (_, list) = &*sizes.borrow();
        (list[1..list.len() - 1].iter().copied().max().unwrap(), link.sender.info().cwnd)
    };
    // The window stands at up to twice the receiver's, so that 44 per millisecond and more are paced.
    let (size, cwnd) = largest(1000, 8000);
    assert!((40..=60).contains(&size), "{size} {cwnd}");
    let (size, cwnd) = largest(100_000, 100);
    let paced = 2.0 * f64::from(cwnd) / 0.010 / 1024.0;
    assert!(f64::from(size) <= paced + 2.0 && size >= 10, "{size} {cwnd}");
}

fn segment(seq: u64, sent: Time, ecn: Ecn) -> Segment {
    Segment { seq, sent, payload: 1448, ecn, retransmission: false, cwr: false, spin: false }
}

/// RFC 8257 section 3.2 wants the old state told at once; Linux tells the new one at once too.
#[test]
fn a_change_of_the_congestion_state_is_told_at_once() {
    let config = ReceiverConfig { ecn: EcnMode::Dctcp, quick_acks: 0, ..ReceiverConfig::default() };
    let mut receiver = Receiver::new(&config, Time::ZERO);
    let mut feed = |seq, ecn| {
        (receiver.on_segment(at(ms(seq)), &segment(seq, at(ms(seq)), ecn)), receiver.next_timeout())
    };
    let told = |ack: Option<Ack>| ack.map(|a| (a.next, a.ece));
    assert_eq!(told(feed(0, Ecn::Ect0).0), None);
    let (first, due) = feed(1, Ecn::Ce);
    assert_eq!((told(first), due), (Some((1, false)), Some(at(ms(1)))));
    let second = receiver.on_timeout(at(ms(1)));
    assert_eq!(told(second), Some((2, true)));
    // With nothing waiting, a change is told by the ACK of the segment itself.
    let ack = receiver.on_segment(at(ms(2)), &segment(2, at(ms(2)), Ecn::Ect0));
    assert_eq!(told(ack), Some((3, false)));
    assert_eq!(receiver.on_segment(at(ms(3)), &segment(3, at(ms(3)), Ecn::Ect0)), None);
}

#[test]
fn after_a_repetition_the_next_segments_are_acknowledged_at_once() {
    let config = ReceiverConfig { quick_acks: 4, ..ReceiverConfig::default() };
    let mut receiver = Receiver::new(&config, Time::ZERO);
    let mut feed = |seq, t| receiver.on_segment(at(ms(t)), &segment(seq, at(ms(t)), Ecn::NotEct)).is_some();
    let start: Vec<bool> = (0..8).map(|seq| feed(seq, seq)).collect();
    assert_eq!(start, [true, true, true, true, false, true, false, true]);
    assert!(feed(7, 8));
    // Out of order too: nothing is gathered.
    let after: Vec<bool> = (8..14).map(|seq| feed(seq, seq + 1)).collect();
    assert_eq!(after, [true, true, true, false, true, false]);
}

#[test]
fn a_marked_segment_is_acknowledged_at_once_and_the_next_too() {
    let config = ReceiverConfig { ecn: EcnMode::Classic, quick_acks: 0, ..ReceiverConfig::default() };
    let mut receiver = Receiver::new(&config, Time::ZERO);
    let mut feed =
        |seq, ecn| receiver.on_segment(at(ms(seq)), &segment(seq, at(ms(seq)), ecn)).map(|a| a.ece);
    assert_eq!(feed(0, Ecn::Ect0), None);
    assert_eq!(feed(1, Ecn::Ect0), Some(false));
    assert_eq!(feed(2, Ecn::Ce), Some(true));
    assert_eq!(feed(3, Ecn::Ect0), Some(true));
    // The echo goes on until the sender has reduced, with delayed ACKs.
    assert_eq!(feed(4, Ecn::Ce), None);
    assert_eq!(feed(5, Ecn::Ect0), Some(true));
    let cwr = Segment { cwr: true, ..segment(6, at(ms(6)), Ecn::Ect0) };
    assert_eq!(receiver.on_segment(at(ms(6)), &cwr).map(|a| a.ece), Some(false));
}
