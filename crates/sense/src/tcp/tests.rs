use super::*;
use proptest::prelude::*;
use std::vec::Vec;
use weir_wire::tcp::Stamps;

const MSS: u32 = 1448;

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn data(seq: u32) -> Segment {
    Segment { seq, ack: Some(1), len: MSS, ..Segment::default() }
}

fn ack(ack: u32) -> Segment {
    Segment { seq: 1, ack: Some(ack), ..Segment::default() }
}

/// A flow under observation, with what did not add up.
#[derive(Default)]
struct Watched(TcpFlow, Suspicions);

impl Watched {
    fn data(&mut self, at: u64, seq: u32) {
        self.0.forward(ms(at), &data(seq), &mut self.1);
    }

    fn ack(&mut self, at: u64, number: u32) -> Option<Rtt> {
        self.back(at, &ack(number))
    }

    fn back(&mut self, at: u64, s: &Segment) -> Option<Rtt> {
        self.0.back(ms(at), s, &mut self.1)
    }
}

fn sure(ms: u64) -> Option<Rtt> {
    held(0, ms)
}

/// The receiver waited for the last segment for so long.
fn held(held_ms: u64, ms: u64) -> Option<Rtt> {
    let [held, rtt] = [held_ms, ms].map(Duration::from_millis);
    Some(Rtt { rtt, held, doubtful: false })
}

fn doubtful(ms: u64) -> Option<Rtt> {
    sure(ms).map(|rtt| Rtt { doubtful: true, ..rtt })
}

#[test]
fn the_last_segment_of_a_delayed_acknowledgement_is_timed() {
    let mut w = Watched::default();
    w.data(0, 100);
    w.data(7, 100 + MSS);
    w.data(9, 100 + 2 * MSS);
    assert_eq!(w.0.in_flight(), Bytes::new(3 * u64::from(MSS)));
    // One acknowledgement for two: the receiver waited for the second, and the sender measures both.
    assert_eq!(w.ack(47, 100 + 2 * MSS), held(7, 40));
    assert_eq!(w.0.in_flight(), Bytes::new(MSS.into()));
    // The third was alone, so it may have waited for the timer of the receiver.
    assert_eq!(w.ack(89, 100 + 3 * MSS), doubtful(80));
    assert_eq!((w.0.in_flight(), w.0.delivered().get()), (Bytes::ZERO, 3 * u64::from(MSS)));
}

#[test]
fn a_handshake_is_timed_and_its_repetition_is_not() {
    let syn = Segment { seq: 5000, syn: true, ack: Some(1), ..Segment::default() };
    let mut w = Watched::default();
    w.0.forward(ms(0), &syn, &mut w.1);
    assert_eq!(w.ack(31, 5001), sure(31));
    let mut w = Watched::default();
    w.0.forward(ms(0), &syn, &mut w.1);
    w.0.forward(ms(1000), &syn, &mut w.1);
    assert_eq!(w.ack(1031, 5001), None);
    w.data(1040, 5001);
    w.data(1040, 5001 + MSS);
    assert_eq!(w.ack(1071, 5001 + 2 * MSS), sure(31));
}

#[test]
fn what_stands_behind_a_hole_is_timed_by_the_block_that_names_it_first() {
    let mut w = Watched::default();
    let at = |n: u32| 100 + n * MSS;
    (0..7).for_each(|n| w.data(u64::from(n), at(n)));
    let block = |from: u32, to: u32| Segment { sacked: Some((at(from), at(to))), ..ack(at(0)) };
    // The first and the fourth were lost.
    assert_eq!(w.back(41, &block(1, 2)), sure(40));
    assert_eq!(w.back(41, &block(1, 2)), None, "the same again");
    assert_eq!(w.back(45, &block(4, 5)), sure(41));
    // The acknowledgement of the sixth was lost.
    assert_eq!(w.back(47, &block(4, 7)), sure(42));
    w.data(48, at(3));
    w.data(48, at(0));
    assert_eq!(w.back(88, &block(3, 7)), None, "what was sent again is ambiguous");
    // The third was only late: it would be the first of what is new, but was held behind the hole.
    w.data(89, at(7));
    assert_eq!(w.ack(130, at(8)), None);
    (8..10).for_each(|n| w.data(140, at(n)));
    assert_eq!(w.ack(180, at(10)), sure(40), "after that it goes on");
}

#[test]
fn a_segment_that_was_overtaken_is_timed_by_itself() {
    let mut w = Watched::default();
    let at = |n: u32| 100 + n * MSS;
    (0..3).for_each(|n| w.data(0, at(n)));
    assert_eq!(w.back(40, &Segment { sacked: Some((at(1), at(3))), ..ack(at(0)) }), sure(40));
    assert_eq!(w.ack(46, at(3)), sure(46), "three segments are more than one that was alone");
}

#[test]
fn nothing_that_a_retransmission_touches_is_timed() {
    let mut w = Watched::default();
    let at = |n: u32| 100 + n * MSS;
    (0..5).for_each(|n| w.data(u64::from(n), at(n)));
    // The first was lost, and the receiver knows no SACK.
    for held in 1..5u64 {
        assert_eq!(w.ack(40 + held, at(0)), None);
    }
    w.data(45, at(0));
    assert_eq!(w.ack(85, at(5)), None, "the others were held behind the hole");
    // A second loss whose repetition the observer does see, with something new sent before it.
    (5..8).for_each(|n| w.data(100, at(n)));
    w.data(150, at(5));
    w.data(151, at(8));
    w.data(152, at(6));
    assert_eq!(w.ack(190, at(9)), None);
    w.data(200, at(9));
    w.data(200, at(10));
    assert_eq!(w.ack(240, at(11)), sure(40), "after that it goes on");
}

#[test]
fn counters_wrap() {
    let mut w = Watched::default();
    let start = u32::MAX - 3 * MSS;
    for n in 0..40u32 {
        let seq = start.wrapping_add(2 * n * MSS);
        let at = u64::from(n) * 50;
        w.data(at, seq);
        w.data(at + 1, seq.wrapping_add(MSS));
        let rtt = w.ack(at + 41, seq.wrapping_add(2 * MSS)).expect("each pair is timed");
        assert_eq!(Some(rtt), held(1, 40), "round {n}");
    }
    assert_eq!(w.0.delivered().get(), 80 * u64::from(MSS));
    assert_eq!(w.1, Suspicions::default());
}

#[test]
fn joining_in_the_middle_needs_no_handshake() {
    let mut w = Watched::default();
    assert_eq!(w.ack(0, 900_000), None, "an acknowledgement before any data");
    w.data(1, 1_000_000);
    assert_eq!(w.ack(2, 950_000), None, "of data that passed before");
    assert_eq!((w.0.in_flight().get(), w.1.acks_beyond), (u64::from(MSS), 0));
    w.data(2, 1_000_000 + MSS);
    assert_eq!(w.ack(42, 1_000_000 + 2 * MSS), held(1, 40));
}

#[test]
fn spoofed_acknowledgements_are_refused_and_counted() {
    let mut w = Watched::default();
    w.data(0, 100);
    w.data(0, 100 + MSS);
    assert_eq!(w.ack(1, 100 + 3 * MSS), None);
    assert_eq!(w.ack(1, 100u32.wrapping_sub(1 << 30)), None);
    assert_eq!(w.ack(2, 99), None);
    assert_eq!((w.1.acks_beyond, w.0.in_flight().get()), (1, 2 * u64::from(MSS)));
    assert_eq!(w.ack(40, 100 + 2 * MSS), sure(40), "the true one still counts");
}

#[test]
fn a_stream_that_jumps_starts_again() {
    let mut w = Watched::default();
    w.data(0, 100);
    w.data(1, 100 + (1 << 30) + 2 * MSS);
    assert_eq!((w.1.sequence_jumps, w.0.in_flight().get()), (1, MSS.into()));
    w.data(2, 100 + MSS);
    assert_eq!((w.1.sequence_jumps, w.0.in_flight().get()), (2, MSS.into()));
}

fn stamped(s: Segment, value: u32, echo: u32) -> Segment {
    Segment { stamps: Some(Stamps { value, echo }), ..s }
}

#[test]
fn timestamps_time_what_sequence_numbers_cannot() {
    let mut w = Watched::default();
    let at = |n: u32| 100 + n * MSS;
    for n in 0..3 {
        w.0.forward(ms(u64::from(n)), &stamped(data(at(n)), 7000 + n, 1), &mut w.1);
    }
    // The first is repeated, with a stamp of its own; its echo names the repetition.
    // What was sent behind it is named by SACK blocks meanwhile.
    w.0.forward(ms(100), &stamped(data(at(0)), 7100, 1), &mut w.1);
    let hole = Segment { sacked: Some((at(1), at(3))), ..ack(at(0)) };
    assert_eq!(w.back(101, &stamped(hole, 1, 6999)), sure(100));
    assert_eq!(w.back(140, &stamped(ack(at(3)), 1, 7100)), sure(40));
    // With a sequence number in time the stamp is not needed.
    w.0.forward(ms(200), &stamped(data(at(3)), 7200, 1), &mut w.1);
    w.0.forward(ms(203), &stamped(data(at(4)), 7203, 1), &mut w.1);
    assert_eq!(w.back(243, &stamped(ack(at(5)), 1, 7200)), held(3, 40));
}

#[test]
fn stamps_that_jump_do_not_lock_the_flow_out() {
    let mut w = Watched::default();
    let mut seq = 100;
    let mut send = |w: &mut Watched, at: u64, value: u32| {
        w.0.forward(ms(at), &stamped(data(seq), value, 1), &mut w.1);
        seq += MSS;
    };
    send(&mut w, 0, 5000);
    send(&mut w, 1, 5000u32.wrapping_add(1 << 30));
    send(&mut w, 2, 5002);
    assert_eq!(w.1.stamp_jumps, 1, "back to the truth");
    // An echo of what was never sent.
    assert_eq!(w.back(3, &stamped(ack(100), 1, 77_777)), None);
    // A retransmission of everything leaves the stamp alone to tell.
    w.0.forward(ms(50), &stamped(data(100), 5050, 1), &mut w.1);
    assert_eq!(w.back(90, &stamped(ack(100 + 3 * MSS), 1, 5050)), sure(40));
}

#[test]
fn acknowledgements_that_stretch_over_many_segments_are_timed() {
    let mut w = Watched::default();
    let mut samples = Vec::new();
    for burst in 0..20u32 {
        let at = u64::from(burst) * 60;
        for n in 0..10 {
            w.data(at, 100 + (burst * 10 + n) * MSS);
        }
        samples.extend(w.ack(at + 40, 100 + (burst * 10 + 10) * MSS));
    }
    // Before the first sample everything is timed, so that there is a first.
    assert!(samples.iter().all(|s| s.rtt == Duration::from_millis(40)), "{samples:?}");
    assert!(!samples.is_empty());
}

proptest! {
    /// Whatever passes: no panic, no sample longer than the flow has been watched, and never more in flight
    /// than a window.
    #[test]
    fn any_segments_are_survived(
        steps in prop::collection::vec(
            (any::<bool>(), 0u32..6, any::<u32>(), 0u32..3000, any::<u8>(), any::<u32>()), 1..200)
    ) {
        let mut w = Watched::default();
        let base = u32::MAX - 5000;
        for (n, (forward, near, far, len, flags, stamp)) in steps.into_iter().enumerate() {
            let number = if near < 5 { base.wrapping_add(near * 2000) } else { far };
            let s = Segment {
                seq: number, ack: (flags & 1 == 0).then_some(number), len,
                syn: flags & 0x1e == 0, fin: flags & 0x2e == 0, rst: flags & 0x7e == 0,
                sacked: (flags >> 6 == 0).then_some((number, far)), window: 0,
                stamps: (flags & 0x20 == 0).then_some(Stamps { value: stamp, echo: stamp }),
            };
            let now = n as u64;
            if forward {
                w.0.forward(ms(now), &s, &mut w.1);
            } else if let Some(rtt) = w.back(now, &s) {
                prop_assert!(rtt.rtt <= Duration::from_millis(now));
            }
            prop_assert!(w.0.in_flight().get() <= 1 << 30);
        }
    }
}
