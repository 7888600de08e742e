use super::*;
use crate::trace;
use std::vec::Vec;
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::Segment;

const PAYLOAD: u32 = 1460;

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn data(seq: u32, len: u32) -> Transport {
    Transport::Tcp(Segment { seq, ack: Some(1), len, ..Segment::default() })
}

fn ack(ack: u32) -> Transport {
    Transport::Tcp(Segment { seq: 1, ack: Some(ack), ..Segment::default() })
}

struct Link {
    flows: Flows<16>,
    bottleneck: Bottleneck,
    waiting: bool,
}

impl Link {
    fn new() -> Link {
        Link {
            flows: Flows::default(),
            bottleneck: Bottleneck::new(Time::ZERO, FollowLaw::default()),
            waiting: false,
        }
    }

    fn observer(&mut self) -> Observer<'_, 16> {
        Observer { flows: &mut self.flows, bottleneck: Some(&mut self.bottleneck) }
    }

    fn forwarded(&mut self, at: u64, flow: u32, len: u32, transport: &Transport) -> Learned {
        let packet = PacketInfo { flow, len: Bytes::new(u64::from(len)), transport };
        let waiting = self.waiting;
        self.observer().forwarded(ms(at), &packet, waiting)
    }

    fn answered(&mut self, at: u64, flow: u32, transport: &Transport) -> Learned {
        let packet = PacketInfo { flow, len: Bytes::new(40), transport };
        let waiting = self.waiting;
        self.observer().answered(ms(at), &packet, waiting)
    }
}

#[test]
fn each_flow_has_headers_of_its_own_size() {
    let mut link = Link::new();
    for n in 0..10 {
        link.forwarded(n, 1, PAYLOAD + 40, &data(n as u32 * PAYLOAD, PAYLOAD));
    }
    link.forwarded(10, 2, 41, &data(0, 1));
    let learned = link.answered(40, 1, &ack(10 * PAYLOAD));
    assert_eq!(learned.seen.delivered, Bytes::new(14_600));
    assert_eq!(learned.seen.counted, Some(Bytes::new(15_000)));
    assert_eq!(link.answered(50, 2, &ack(1)).seen.counted, Some(Bytes::new(41)));
    // A window of segments with other headers takes the place of the former ones.
    for n in 10..2000 {
        link.forwarded(60, 1, PAYLOAD + 80, &data(n * PAYLOAD, PAYLOAD));
    }
    let counted = link.answered(100, 1, &ack(2000 * PAYLOAD)).seen.counted.unwrap().get();
    assert_eq!(counted, 1990 * u64::from(PAYLOAD + 80));
}

#[test]
fn what_is_not_measured_counts_as_delivered_when_it_is_sent() {
    let mut link = Link::new();
    let silent = Transport::Quic(QuicPackets { spin: Some(false), ..QuicPackets::default() });
    for n in 0..1000 {
        let transport = if n % 2 == 0 { silent } else { Transport::Other };
        let learned = link.forwarded(n, 3 + n as u32 % 2, 1250, &transport);
        assert_eq!(learned.seen.counted, None);
    }
    let bandwidth = link.bottleneck.follower.bandwidth(ms(1000)).unwrap();
    assert!((9.9e6..10.3e6).contains(&bandwidth.as_bps_f64()), "{bandwidth:?} of 10 Mbit/s");
}

#[test]
fn a_reaction_is_told_again_after_a_second() {
    let mut link = Link::new();
    let mut told = Vec::new();
    for n in 0..3000u64 {
        let mut learned = std::vec![link.forwarded(n, 1, PAYLOAD + 40, &data(n as u32 * PAYLOAD, PAYLOAD))];
        if let Some(sent) = n.checked_sub(40) {
            learned.push(link.answered(n, 1, &ack((sent as u32 + 1) * PAYLOAD)));
        }
        told.extend(learned.iter().filter_map(|learned| learned.reaction).map(|reaction| (n, reaction)));
    }
    let times: Vec<u64> = told.iter().map(|(at, _)| *at).collect();
    assert!(times.len() == 3 && times.windows(2).all(|pair| pair[1] - pair[0] == 1000), "{told:?}");
    assert!(told.iter().all(|(_, reaction)| *reaction == Duration::from_millis(120)), "{told:?}");
}

#[test]
fn a_rate_that_is_tried_without_end_is_bounded() {
    let mut link = Link { waiting: true, ..Link::new() };
    let mut acks = Vec::new();
    // A round trip of 1 ms that grows with a queue to 61 ms.
    for n in 0..2000u64 {
        link.forwarded(n, 1, PAYLOAD + 40, &data(n as u32 * PAYLOAD, PAYLOAD));
        acks.push((n + 1 + (n / 10).min(60), n as u32 + 1));
        while let Some((due, number)) = acks.first().copied().filter(|(due, _)| *due <= n) {
            link.answered(due, 1, &ack(number * PAYLOAD));
            acks.remove(0);
        }
    }
    let followed = link.bottleneck.rate(Rate::ZERO).unwrap();
    assert!(followed < Rate::from_mbps(100), "{followed:?}");
    // Packets wait for something else, and nothing that comes back tells what they meet.
    for n in 2000..20_000 {
        link.forwarded(n, 9, 1500, &Transport::Other);
    }
    let tried = link.bottleneck.rate(Rate::ZERO).unwrap();
    assert!(tried > followed && tried <= Rate::from_mbps(1_000_000), "{tried:?}");
}

#[test]
fn the_trace_of_other_tests_teaches_all_there_is() {
    let learned: Vec<Learned> = trace::learned().collect();
    assert_eq!(learned.len(), trace::trace().count());
    let count = |what: fn(&Learned) -> bool| learned.iter().filter(|learned| what(learned)).count();
    assert!(count(|learned| learned.rtt.is_some()) > 500);
    assert!(count(|learned| learned.in_flight.is_some()) > 4000);
    assert!((5..20).contains(&count(|learned| learned.reaction.is_some())));
    let of_flow = |flow: u32, what: fn(&Learned) -> bool| {
        trace::trace().zip(&learned).filter(|(step, learned)| step.flow == flow && what(learned)).count()
    };
    assert!((1..=3).all(|flow| of_flow(flow, |learned| learned.rtt.is_some()) > 20));
    assert_eq!((4..=5).map(|flow| of_flow(flow, |learned| learned.seen.counted.is_some())).sum::<usize>(), 0);
}
