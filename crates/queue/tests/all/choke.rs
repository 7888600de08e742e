//! CHOKe: who meets whom, and what is dropped then.

use crate::common;

use common::{Link, MTU, arrival, setup, with_ecn};
use weir_aqm::{Cause, Packet};
use weir_queue::choke::Params;
use weir_queue::{Arrival, Choke, Discipline, Setup};
use weir_units::{Duration, Time};

/// Thresholds of 20 and 40 packets at 100 Mbit/s, an average that follows at once, and no signals of RED
/// between them.
fn params() -> Params {
    Params {
        target: Duration::from_micros(3600),
        min_packets: 0,
        memory: Duration::from_millis(1),
        max_p: weir_aqm::Share(0.001),
        mean_packet: weir_units::Bytes::new(1500),
        ..Params::default()
    }
}

fn link(params: &Params) -> Link<Choke<u32>> {
    Link::new(Choke::new(params, &setup(10_000), Time::ZERO))
}

/// A gauge of a queue, by its name.
fn gauge(queue: &Choke<u32>, wanted: &str) -> f64 {
    use weir_queue::Managed;
    let mut found = None;
    queue.gauges(&mut |name, value| {
        if name == wanted {
            found = Some(value)
        }
    });
    found.expect(wanted)
}

#[test]
fn packets_leave_in_the_order_of_their_arrival() {
    let mut link = link(&Params::default());
    for n in 0..50 {
        link.enqueue(arrival(n, MTU), n);
    }
    let order: Vec<u32> = std::iter::from_fn(|| link.dequeue().map(|d| d.item)).collect();
    assert!(order.is_sorted() && order.len() == 50, "{order:?}");
}

#[test]
fn below_the_lower_threshold_one_flow_may_have_the_queue() {
    let mut link = link(&params());
    for n in 0..19 {
        assert!(link.enqueue(arrival(7, MTU), n));
    }
    assert_eq!(gauge(&link.queue, "pairs"), 0.0);
}

#[test]
fn above_it_a_packet_that_meets_its_flow_is_dropped_with_the_other() {
    let mut link = link(&params());
    let (mut n, mut pairs) = (0, Vec::new());
    while pairs.is_empty() {
        let (stored, lost) = (link.queue.packets(), link.lost.len());
        if !link.enqueue(with_ecn(arrival(7, MTU), true), n) {
            pairs = link.lost[lost..].to_vec();
            assert_eq!(link.queue.packets(), stored - 1);
        }
        n += 1;
    }
    // The arrival first, then one that was stored; both can carry a mark and are dropped all the same.
    assert_eq!((pairs.len(), pairs[0], gauge(&link.queue, "pairs")), (2, n - 1, 1.0));
    assert!(pairs[1] < n - 1);
    let counters = *link.queue.counters();
    assert_eq!((counters.dropped_in, counters.dropped_out, counters.marked), (1, 1, 0));
    assert_eq!(link.queue.backlog().get(), u64::from(link.queue.packets()) * MTU);
}

#[test]
fn flows_of_one_packet_never_meet() {
    let mut link = link(&params());
    for n in 0..60 {
        link.enqueue(arrival(n, MTU), n);
    }
    assert_eq!(gauge(&link.queue, "pairs"), 0.0);
}

/// A flow with one packet in four of the queue meets itself in one arrival of four, wherever its packets lie.
#[test]
fn the_share_of_the_queue_is_the_chance_to_meet() {
    for first in [0..10u32, 8..18] {
        let met = (0..2000).filter(|seed| {
            let seeded = Setup { seed: *seed, ..setup(10_000) };
            let mut link = Link::new(Choke::new(&params(), &seeded, Time::ZERO));
            for n in 0..40 {
                link.enqueue(arrival(if first.contains(&n) { 7 } else { 1000 + n }, MTU), n);
            }
            assert_eq!(link.queue.packets(), 40);
            link.enqueue(arrival(7, MTU), 40);
            gauge(&link.queue, "pairs") == 1.0
        });
        // Of 500; two standard deviations are 39.
        let met = met.count();
        assert!((440..=560).contains(&met), "{met}");
    }
}

#[test]
fn more_draws_meet_more_and_drop_all_that_were_met() {
    let mut link = link(&Params { draws: 16, ..params() });
    let mut most = 0;
    for n in 0..200 {
        let before = link.lost.len();
        link.enqueue(arrival(7, MTU), n);
        most = most.max(link.lost.len() - before);
    }
    assert!((3..=17).contains(&most), "{most}");
    let mut again = link.lost.clone();
    again.sort_unstable();
    again.dedup();
    assert_eq!(again.len(), link.lost.len(), "a packet was dropped twice");
}

#[test]
fn a_pair_is_told_as_a_drop_by_chance() {
    let mut queue: Choke<u32> = Choke::new(&params(), &setup(10_000), Time::ZERO);
    let mut causes = Vec::new();
    for n in 0..100 {
        let packet = Arrival { flow: 7, ..arrival(7, MTU) };
        queue.enqueue(Time::ZERO, packet, n, &mut |_: &Packet, _, cause| causes.push(cause));
    }
    assert!(!causes.is_empty() && causes.iter().all(|cause| *cause == Cause::Chance));
}
