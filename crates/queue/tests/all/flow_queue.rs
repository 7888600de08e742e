//! FlowQueue: fairness, limits, accounting, and that it is nothing new for a single flow.

use crate::common;

use common::{Link, MTU, arrival, from_host, setup};
use weir_aqm::algorithms::{codel, gsp, tail_drop};
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Packet};
use weir_queue::flow_queue::{Params, SHED_BATCH_MAX};
use weir_queue::{Arrival, Discipline, FlowQueue, Limits, Single};
use weir_units::{Bytes, Duration, Rate, Time};

fn tail_drop() -> tail_drop::TailDrop {
    // Limits are those of the queue here.
    let params = tail_drop::Params { limit: Duration::from_secs(60) };
    tail_drop::TailDrop::new(&params, Time::ZERO)
}

fn plain(params: &Params, packets: u32) -> FlowQueue<tail_drop::TailDrop, u32> {
    FlowQueue::new(params, tail_drop(), &setup(packets))
}

/// Jain's index: 1 if all are equal.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}

/// Bytes sent of each flow when all send packets of their own length as fast as they can.
fn shares(params: &Params, lengths: &[(u32, u64)]) -> Vec<f64> {
    let mut link = Link::new(plain(params, 4096));
    let mut sent = vec![0.0; lengths.len()];
    for step in 0..20_000u32 {
        for (flow, (host, len)) in lengths.iter().enumerate() {
            if link.waiting(flow as u32) < 8 {
                link.enqueue(from_host(*host, flow as u32, *len), flow as u32);
            }
        }
        let departure = link.dequeue().expect("something always waits");
        if step > 1000 {
            sent[departure.item as usize] += departure.packet.len.get() as f64;
        }
    }
    sent
}

#[test]
fn equal_flows_get_equal_shares_whatever_their_packets() {
    let lengths: Vec<(u32, u64)> = (0..20).map(|flow| (0, 200 + 69 * flow)).collect();
    let sent = shares(&Params { ways: 8, ..Params::default() }, &lengths);
    assert!(jain(&sent) > 0.999, "{sent:?}");
}

#[test]
fn hosts_get_equal_shares_whatever_the_number_of_their_flows() {
    // One host with nine flows, one with one.
    let flows: Vec<(u32, u64)> = (0..10).map(|flow| (u32::from(flow == 0), 1000)).collect();
    let unfair = shares(&Params { ways: 8, ..Params::default() }, &flows);
    assert!(jain(&unfair) > 0.999, "{unfair:?}");
    for params in [
        Params { fair_senders: true, ways: 8, ..Params::default() },
        Params { fair_receivers: true, ways: 8, ..Params::default() },
        Params { fair_senders: true, fair_receivers: true, ways: 8, ..Params::default() },
    ] {
        let sent = shares(&params, &flows);
        let others: f64 = sent[1..].iter().sum();
        assert!(jain(&[sent[0], others]) > 0.999, "{sent:?}");
        assert!(jain(&sent[1..]) > 0.999, "{sent:?}");
    }
}

#[test]
fn a_sparse_flow_gets_through_in_one_quantum() {
    let mut link = Link::new(plain(&Params { ways: 8, ..Params::default() }, 4096));
    for flow in 0..50 {
        for _ in 0..20 {
            link.enqueue(arrival(flow, MTU), flow);
        }
    }
    // Their first quantum as new flows is over.
    for _ in 0..100 {
        link.dequeue();
    }
    for _ in 0..5 {
        link.enqueue(arrival(99, 200), 99);
        let next = link.dequeue().unwrap();
        assert_eq!(next.item, 99, "a flow that sends little waits for nobody");
        for _ in 0..60 {
            link.dequeue();
        }
    }
}

#[test]
fn one_that_comes_and_goes_does_not_starve_the_others() {
    let mut link = Link::new(plain(&Params { ways: 8, ..Params::default() }, 4096));
    let mut sent = [0u32; 2];
    for _ in 0..2000 {
        while link.waiting(0) < 4 {
            link.enqueue(arrival(0, MTU), 0);
        }
        // Exactly when it has nothing waiting it comes again.
        if link.waiting(1) == 0 {
            link.enqueue(arrival(1, MTU), 1);
        }
        sent[link.dequeue().unwrap().item as usize] += 1;
    }
    assert!(sent[0] > 900, "{sent:?}");
}

#[test]
fn collisions_are_counted_and_eight_ways_avoid_them() {
    let collisions = |ways| {
        let mut queue = plain(&Params { flows: 64, ways, ..Params::default() }, 4096);
        for flow in 0..32 {
            let hash = flow * 0x0101_0101;
            queue.enqueue(Time::ZERO, arrival(hash, 100), flow, &mut |_: &Packet, _, _| {});
        }
        (queue.collisions(), queue.active())
    };
    let (one_way, active) = collisions(1);
    assert!(one_way > 2 && u64::from(active) + one_way == 32, "{one_way} {active}");
    assert!(collisions(8).0 <= 1, "{:?}", collisions(8));
}

#[test]
fn when_memory_ends_the_longest_flow_pays_from_its_head() {
    let params = Params { memory: Bytes::new(100 * MTU), ways: 8, ..Params::default() };
    let mut queue = plain(&params, 4096);
    let mut lost: Vec<(u32, u64)> = Vec::new();
    let mut note = |packet: &Packet, item: u32, cause| {
        assert_eq!(cause, Cause::Overflow);
        lost.push((item, packet.seq));
    };
    for flow in 0..10 {
        queue.enqueue(Time::ZERO, arrival(flow, MTU), flow, &mut note);
    }
    for _ in 0..91 {
        queue.enqueue(Time::ZERO, arrival(77, MTU), 77, &mut note);
    }
    // Half of the 91 packets that it had then.
    let expected: Vec<(u32, u64)> = (10..56).map(|seq| (77, seq)).collect();
    assert_eq!(lost, expected);
    let counters = *queue.counters();
    assert_eq!((counters.shed, counters.overflowed, counters.enqueued), (46, 0, 101));
    assert_eq!((queue.packets(), queue.backlog()), (55, Bytes::new(55 * MTU)));
    assert!(counters.is_conserved(queue.packets()));
}

#[test]
fn a_batch_is_limited_and_repeated_until_there_is_room() {
    let params = Params { packets: 1000, ..Params::default() };
    let mut queue = plain(&params, 4096);
    let mut lost = 0;
    let mut count = |_: &Packet, _, _| lost += 1;
    for n in 0..1001 {
        queue.enqueue(Time::ZERO, arrival(5, 100), n, &mut count);
    }
    assert_eq!(lost, SHED_BATCH_MAX);
    // A packet for which one batch of small ones does not make room.
    let tight = Params { memory: Bytes::new(20_000), ..Params::default() };
    let mut queue = plain(&tight, 4096);
    let mut lost = 0;
    for n in 0..200 {
        queue.enqueue(Time::ZERO, arrival(n, 100), n, &mut |_: &Packet, _, _| {});
    }
    queue.enqueue(Time::ZERO, arrival(999, 15_000), 999, &mut |_: &Packet, _, _| lost += 1);
    assert!(queue.backlog() <= Bytes::new(20_000) && lost > 0, "{}", queue.backlog());
    // One that is larger than all the room does not get in, and nobody pays for it.
    let before = queue.packets();
    queue.enqueue(Time::ZERO, arrival(998, 20_001), 998, &mut |_: &Packet, item, _| assert_eq!(item, 998));
    assert_eq!((queue.packets(), queue.counters().overflowed), (before, 1));
}

/// Every step of a script with a single flow, in both disciplines.
fn same_as_single<A: Algorithm>(aqm: A) {
    let limits = Limits { bytes: Bytes::new(10_000_000), packets: 5000 };
    let rate = Rate::from_mbps(100);
    let mut single = Link::new(Single::new(aqm.clone(), limits, rate, 1));
    let mut flows = Link::new(FlowQueue::new(&Params::default(), aqm, &setup(5000)));
    let mut signals = 0;
    for step in 0..40_000u64 {
        let queued = single.queue.packets();
        // Overload, then underload until it is empty, again and again.
        let up = step / 4000 % 2 == 0;
        if up || step % 3 == 0 {
            let packet = common::with_ecn(arrival(1234, 60 + step * 37 % 1400), step % 2 == 0);
            assert_eq!(single.enqueue(packet, step as u32), flows.enqueue(packet, step as u32));
        }
        if (!up || step % 2 == 0) && queued > 0 {
            let (a, b) = (single.dequeue(), flows.dequeue());
            signals += u64::from(a.is_some_and(|d| d.marked));
            assert_eq!(a, b, "step {step}");
        }
        single.wait(Duration::from_micros(70));
        flows.wait(Duration::from_micros(70));
        assert_eq!(single.queue.counters(), flows.queue.counters(), "step {step}");
        assert_eq!(
            (single.queue.backlog(), single.queue.packets()),
            (flows.queue.backlog(), flows.queue.packets())
        );
    }
    assert!(signals > 10, "{signals}");
}

#[test]
fn acknowledgements_take_the_place_of_the_last_one_and_two_stay() {
    let params = Params { ack_filter: true, ways: 8, ..Params::default() };
    let mut queue = plain(&params, 100);
    let mut none = |_: &Packet, _, _| panic!("nothing is discarded");
    // Items are what they acknowledge.
    let ahead = |newest: u32| move |last: &u32, before: &u32| newest > *last && *last > *before;
    for (n, replaced) in [(1, None), (2, None), (3, Some(2)), (3, None), (4, None), (5, Some(4))] {
        let got = queue.replace(&arrival(9, 90), &n, ahead(n));
        assert_eq!(got, replaced, "{n}");
        if got.is_none() {
            queue.enqueue(Time::ZERO, arrival(9, 90), n, &mut none);
        }
        // Another flow, another size and another flow's place are left alone.
        assert_eq!(queue.replace(&arrival(10, 90), &99, |_, _| true), None);
        assert_eq!(queue.replace(&arrival(9, 91), &99, |_, _| true), None);
    }
    let counters = *queue.counters();
    assert_eq!((counters.arrived, counters.enqueued, counters.filtered), (6, 4, 2));
    assert!(counters.is_conserved(queue.packets()) && counters.drops() + counters.overflows() == 0);
    let mut sent = Vec::new();
    while let Some(departure) = queue.dequeue(Time::ZERO, &mut none) {
        sent.push(departure.item);
    }
    assert_eq!(sent, [1, 3, 3, 5]);
    assert_eq!(queue.replace(&arrival(9, 90), &6, |_, _| true), None, "nothing waits");
    let mut off = plain(&Params::default(), 100);
    (1..3).for_each(|n| off.enqueue(Time::ZERO, arrival(9, 90), n, &mut none));
    assert_eq!(off.replace(&arrival(9, 90), &3, |_, _| true), None, "nobody asked for it");
    // A long FIFO is not searched to its end.
    let mut long = plain(&params, 100);
    (0..50).for_each(|n| long.enqueue(Time::ZERO, arrival(9, 90), n, &mut none));
    assert_eq!(long.replace(&arrival(9, 90), &51, |_, _| true), None);
}

#[test]
fn packets_with_ect1_are_marked_above_a_shallow_threshold_of_their_own_flow() {
    let marked = |threshold| {
        let params = Params { l4s_threshold: threshold, ways: 8, ..Params::default() };
        let mut queue = plain(&params, 100);
        let mut none = |_: &Packet, _, _| panic!("nothing is discarded");
        for ecn in 0..4 {
            let packet = Arrival { ecn: Ecn::from_bits(ecn), ..arrival(ecn.into(), 1000) };
            queue.enqueue(Time::ZERO, packet, 0, &mut none);
            queue.enqueue(Time::ZERO + Duration::from_millis(1), packet, 1, &mut none);
        }
        let mut got = Vec::new();
        while let Some(departure) = queue.dequeue(Time::ZERO + Duration::from_millis(2), &mut none) {
            if departure.marked {
                got.push((departure.packet.ecn, departure.item));
            }
        }
        assert_eq!(queue.counters().marked, got.len() as u64);
        got
    };
    // The first packet of each flow waits for 2 ms, the second for one.
    assert_eq!(marked(Duration::from_micros(1500)), [(Ecn::Ect1, 0)]);
    assert_eq!(marked(Duration::from_micros(500)), [(Ecn::Ect1, 0), (Ecn::Ect1, 1)]);
    assert_eq!(marked(Duration::ZERO), []);
}

#[test]
fn with_one_flow_it_is_the_single_queue() {
    same_as_single(codel::CoDel::new(&codel::Params::default(), Time::ZERO));
    same_as_single(gsp::Gsp::new(&gsp::Params::default(), Time::ZERO));
}

#[test]
fn algorithms_act_on_their_own_flow_alone() {
    let codel = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let mut link = Link::new(FlowQueue::new(&Params { ways: 8, ..Params::default() }, codel, &setup(5000)));
    let mut lost = [0u32; 2];
    for _ in 0..20_000 {
        // A flow that fills its queue, beside one that keeps to a tenth of the rate.
        for _ in 0..2 {
            link.enqueue(arrival(0, MTU), 0);
        }
        if link.now.as_nanos() / 1_230_400 % 2 == 0 && link.waiting(1) == 0 {
            link.enqueue(arrival(1, MTU / 2), 1);
        }
        link.dequeue();
        link.wait(Duration::from_micros(123));
    }
    for item in &link.lost {
        lost[*item as usize] += 1;
    }
    assert!(lost[0] > 1000 && lost[1] == 0, "{lost:?}");
}

/// Says every set point that it is asked under.
#[derive(Clone)]
struct Fixed(Duration);

impl Aqm for Fixed {
    fn setpoint(&mut self) -> Option<&mut dyn weir_aqm::Setpoint> {
        Some(self)
    }
}

impl weir_aqm::Setpoint for Fixed {
    fn get(&self) -> Duration {
        self.0
    }
    fn set(&mut self, to: Duration) -> Duration {
        self.0 = to;
        to
    }
}

#[test]
fn a_guide_sees_the_whole_queue_and_every_algorithm() {
    #[derive(Default)]
    struct Watch {
        most: (u32, Duration),
        emptied: u32,
    }
    impl weir_aqm::Guide<Fixed> for Watch {
        fn on_dequeue(
            &mut self,
            aqm: &mut Fixed,
            whole: impl FnOnce() -> weir_aqm::View,
            m: &weir_aqm::Moment,
            p: &Packet,
        ) -> weir_aqm::Verdict {
            let whole = whole();
            assert!(m.queue.packets <= whole.packets && m.queue.backlog <= whole.backlog);
            self.most = self.most.max((whole.packets, whole.delay));
            aqm.on_dequeue(m, p)
        }
        fn on_empty(&mut self, aqm: &mut Fixed, all: bool, now: Time) {
            self.emptied += u32::from(all);
            aqm.on_empty(now);
        }
    }
    use weir_queue::Managed;
    let params = Params { ways: 8, ..Params::default() };
    let queue = FlowQueue::guided(&params, Fixed(Duration::ZERO), Watch::default(), &setup(100));
    let mut link = Link::new(queue);
    for flow in 0..10 {
        link.enqueue(arrival(flow, 1250), flow);
    }
    while link.dequeue().is_some() {}
    // Nine packets of 1250 bytes are 0.9 ms at 100 Mbit/s.
    assert_eq!(link.queue.guide().most, (9, Duration::from_micros(900)));
    assert_eq!(link.queue.guide().emptied, 1);
}

fn nqb(flow: u32, len: u64) -> Arrival {
    Arrival { nqb: true, ..arrival(flow, len) }
}

/// One FIFO for all flows, with a lane.
fn with_lane(params: Params) -> Link<FlowQueue<tail_drop::TailDrop, u32>> {
    Link::new(plain(&Params { flows: 1, nqb: true, ..params }, 5000))
}

#[test]
fn packets_of_nqb_do_not_wait_behind_others_of_their_fifo_and_get_no_more_than_these() {
    let mut link = with_lane(Params::default());
    (0..50).for_each(|_| assert!(link.enqueue(arrival(1, MTU), 0)));
    link.enqueue(nqb(2, 200), 1);
    assert_eq!(link.dequeue().unwrap().item, 1);
    // With packets in both all the time each gets half, by bytes.
    let mut bytes = [0; 2];
    for _ in 0..3000 {
        while link.waiting(0) < 10 {
            link.enqueue(arrival(1, MTU), 0);
        }
        while link.waiting(1) < 10 {
            link.enqueue(nqb(2, 300), 1);
        }
        let departure = link.dequeue().unwrap();
        bytes[departure.item as usize] += departure.packet.len.get();
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 2 * MTU, "{bytes:?}");
    // Without lanes they wait in order, whatever they ask for.
    let mut link = Link::new(plain(&Params { flows: 1, ..Params::default() }, 5000));
    (0..5).for_each(|n| assert!(link.enqueue(if n == 4 { nqb(2, 200) } else { arrival(1, MTU) }, n)));
    let order: Vec<u32> = std::iter::from_fn(|| link.dequeue().map(|d| d.item)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

#[test]
fn a_lane_is_shallow_and_its_flow_pays_for_what_it_sends() {
    let mut link = with_lane(Params { flows: 2, ..Params::default() });
    let stored = (0..200).filter(|_| link.enqueue(nqb(2, MTU), 1)).count();
    assert_eq!((stored, link.queue.counters().overflowed), (83, 117), "10 ms at 100 Mbit/s");
    assert!(link.enqueue(arrival(2, MTU), 0), "the FIFO beside it has room");
    // Two FIFOs: what the lane sends is charged to its flow, which gets half of the link.
    let params = Params { flows: 2, nqb: true, ..Params::default() };
    let mut link = Link::new(plain(&params, 5000));
    let mut sent = [0; 3];
    for _ in 0..4000 {
        for (item, packet) in [(0, arrival(0, MTU)), (1, nqb(0, MTU)), (2, arrival(1, MTU))] {
            while link.waiting(item) < 5 {
                link.enqueue(packet, item);
            }
        }
        sent[link.dequeue().unwrap().item as usize] += 1;
    }
    assert!(sent[0] + sent[1] > 1950 && sent[0] + sent[1] < 2050, "{sent:?}");
    assert!(u32::abs_diff(sent[0], sent[1]) <= 2, "{sent:?}");
}

#[test]
fn in_a_lane_only_l4s_is_marked_and_the_algorithm_of_the_fifo_sees_none_of_it() {
    let params = Params { l4s_threshold: Duration::from_millis(1), flows: 1, nqb: true, ..Params::default() };
    let codel = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let mut link = Link::new(FlowQueue::new(&params, codel, &setup(5000)));
    link.enqueue(nqb(1, 500), 0);
    for (n, ecn) in [Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::Ect1].into_iter().enumerate() {
        link.wait(Duration::from_micros(if n == 3 { 1500 } else { 0 }));
        link.enqueue(Arrival { ecn, ..arrival(1, 500) }, 1 + n as u32);
    }
    link.wait(Duration::from_micros(500));
    let got: Vec<(u32, bool)> = std::iter::from_fn(|| link.dequeue().map(|d| (d.item, d.marked))).collect();
    // By turns, and in order in each: ECT(0) waits in the FIFO.
    assert_eq!(got, [(0, false), (2, false), (1, true), (3, false), (4, false)]);
    assert_eq!(link.queue.counters().marked, 1);
}

#[test]
fn queue_protection_sends_flows_that_build_a_queue_to_the_fifo_beside_the_lane() {
    let mut lost = Vec::new();
    for protection in [false, true] {
        let mut link = with_lane(Params { protection, ..Params::default() });
        // A flow that floods, and one that sends little and regularly.
        for n in 0..2000 {
            link.enqueue(nqb(1, MTU), 1);
            link.enqueue(nqb(1, MTU), 1);
            if n % 20 == 0 {
                link.enqueue(nqb(2, 200), 2);
            }
            link.dequeue();
            link.wait(Duration::from_micros(120));
        }
        let counters = link.queue.counters();
        assert_eq!(counters.sanctioned > 1000, protection, "{counters:?}");
        lost.push(link.lost.iter().filter(|item| **item == 2).count());
    }
    assert!(lost[0] > 20 && lost[1] == 0, "{lost:?} of 100");
}
