//! DualPI2: who goes where, who goes first, and who is signalled.

use crate::common;

use common::{Link, MTU, arrival, setup};
use weir_aqm::{Cause, Ecn, Guide, Moment, Packet, Verdict, View};
use weir_queue::dual_pi2::{Coupled, Dual, Params};
use weir_queue::{Arrival, Discipline, DualPi2, OfItsOwn};
use weir_units::{Duration, Time};

const LOW: u32 = 1;
const CLASSIC: u32 = 0;

fn low() -> Arrival {
    Arrival { ecn: Ecn::Ect1, ..arrival(1, MTU) }
}

fn link(params: &Params) -> Link<DualPi2<u32>> {
    Link::new(DualPi2::new(params, &setup(10_000), Time::ZERO))
}

#[test]
fn ect1_and_ce_are_low_latency_and_go_first() {
    let mut link = link(&Params::default());
    for (item, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect0), (2, Ecn::Ect1), (3, Ecn::Ce)] {
        link.enqueue(Arrival { ecn, ..arrival(0, MTU) }, item);
    }
    let order: Vec<u32> = std::iter::from_fn(|| link.dequeue().map(|d| d.item)).collect();
    assert_eq!(order, [2, 3, 0, 1]);
}

/// Packets of each kind among so many, when both always have some.
fn served(params: &Params, packets: u32) -> [u32; 2] {
    let mut link = link(params);
    let mut counts = [0; 2];
    for _ in 0..packets {
        for (kind, packet) in [(CLASSIC, arrival(0, MTU)), (LOW, low())] {
            while link.waiting(kind) < 3 {
                link.enqueue(packet, kind);
            }
        }
        counts[link.dequeue().unwrap().item as usize] += 1;
    }
    counts
}

#[test]
fn the_classic_queue_gets_its_share_and_no_more() {
    assert_eq!(served(&Params::default(), 16_000), [1000, 15_000]);
    let half = Params { classic_share: weir_aqm::Share(0.5), ..Params::default() };
    assert_eq!(served(&half, 1000), [500, 500]);
    let none = Params { classic_share: weir_aqm::Share(0.0), ..Params::default() };
    assert_eq!(served(&none, 1000), [0, 1000]);
}

#[test]
fn shifted_in_time_the_classic_queue_waits_at_most_so_much_longer() {
    let params = Params { time_shifted: true, ..Params::default() };
    let mut link = link(&params);
    link.enqueue(arrival(0, MTU), CLASSIC);
    link.wait(Duration::from_millis(50));
    link.enqueue(low(), LOW);
    assert_eq!(link.dequeue().unwrap().item, LOW);
    link.wait(Duration::from_nanos(1));
    link.enqueue(low(), LOW);
    assert_eq!(link.dequeue().unwrap().item, CLASSIC);
}

#[test]
fn a_step_marks_whatever_waited_longer() {
    let params =
        Params { ramp_min: Duration::from_millis(1), ramp_range: Duration::ZERO, ..Params::default() };
    let mut link = link(&params);
    for _ in 0..4 {
        link.enqueue(low(), LOW);
    }
    link.wait(Duration::from_millis(1));
    assert!(!link.dequeue().unwrap().marked);
    link.wait(Duration::from_micros(1));
    // A probability of 1 hits with the second packet; nobody waits behind the last one.
    assert_eq!([0; 3].map(|_| link.dequeue().unwrap().marked), [false, true, false]);
}

#[test]
fn a_standing_classic_queue_is_signalled_and_low_latency_traffic_with_it() {
    let mut link = link(&Params::default());
    let mut marks = 0;
    for step in 0..20_000 {
        // Twice as much as is sent.
        link.enqueue(arrival(0, MTU), CLASSIC);
        if step % 2 == 0 {
            link.enqueue(low(), LOW);
            marks += u32::from(link.dequeue().unwrap().marked);
        }
        link.wait(Duration::from_micros(120));
    }
    assert!(link.queue.aqm().coupled_probability() >= 1.0, "the controller sees an overload");
    assert!(link.lost.len() > 5000 && marks > 1000, "{} {marks}", link.lost.len());
    assert!(link.queue.counters().is_conserved(link.queue.packets()));
}

#[test]
fn an_idle_hour_is_forgotten() {
    let mut link = link(&Params::default());
    for _ in 0..3000 {
        link.enqueue(arrival(0, MTU), CLASSIC);
        link.wait(Duration::from_micros(60));
    }
    link.wait(Duration::from_secs(3));
    while link.dequeue().is_some() {}
    link.wait(Duration::from_secs(3600));
    let before = link.lost.len();
    for _ in 0..200 {
        link.enqueue(arrival(0, MTU), CLASSIC);
        link.wait(Duration::from_micros(80));
        assert!(link.dequeue().is_some());
        link.wait(Duration::from_millis(10));
    }
    assert_eq!(link.lost.len(), before);
}

/// Refuses every arrival for want of room of its own.
struct Full;

impl Guide<Coupled> for Full {
    fn on_enqueue(&mut self, _: &mut Coupled, _: impl FnOnce() -> View, _: &Moment, _: &Packet) -> Verdict {
        Verdict::Drop(Cause::Overflow)
    }
}

#[test]
fn an_arrival_refused_for_lack_of_room_is_an_overflow_whoever_refuses_it() {
    let params = Params::default();
    let aqm = <Dual as OfItsOwn>::aqm(&params, Time::ZERO);
    let mut link = Link::new(DualPi2::guided(&params, aqm, Full, &setup(10)));
    link.enqueue(arrival(0, MTU), CLASSIC);
    link.enqueue(low(), LOW);
    assert_eq!((link.queue.counters().overflowed, link.queue.counters().dropped_in), (2, 0));
}

fn nqb(flow: u32, len: u64) -> Arrival {
    Arrival { nqb: true, ..arrival(flow, len) }
}

#[test]
fn packets_of_nqb_are_low_latency_where_that_is_asked_for() {
    for (asked, want) in [(true, [1, 0]), (false, [0, 1])] {
        let mut link = link(&Params { nqb: asked, ..Params::default() });
        assert_eq!(link.queue.reads_nqb(), asked);
        link.enqueue(arrival(0, MTU), 0);
        link.enqueue(nqb(1, MTU), 1);
        let order: Vec<u32> = std::iter::from_fn(|| link.dequeue().map(|d| d.item)).collect();
        assert_eq!(order, want);
    }
}

#[test]
fn the_low_latency_queue_is_shallow_for_nqb() {
    // 10 ms at 100 Mbit/s are 125 kB, which are 83 packets.
    let mut link = link(&Params { nqb: true, ..Params::default() });
    let stored = (0..200).filter(|_| link.enqueue(nqb(1, MTU), 1)).count();
    assert_eq!((stored, link.queue.counters().overflowed), (83, 117));
    // Others are not concerned.
    assert!(link.enqueue(low(), LOW) && link.enqueue(arrival(0, MTU), CLASSIC));
}

#[test]
fn flows_that_build_the_low_latency_queue_are_sent_to_the_classic_one() {
    for (is_nqb, protection) in [(true, true), (false, true), (true, false)] {
        let params = Params { nqb: true, protection, ..Params::default() };
        let mut link = link(&params);
        let packet = if is_nqb { nqb(1, MTU) } else { low() };
        // All at once: 12 packets take 1.44 ms at 100 Mbit/s, more than the 1.2 ms of the whole ramp.
        (0..40).for_each(|_| assert!(link.enqueue(packet, LOW)));
        let sanctioned = link.queue.counters().sanctioned;
        assert_eq!(sanctioned, if protection { 29 } else { 0 }, "{is_nqb}");
        // Who sends little stays where it belongs, and is sent before what was sent elsewhere.
        link.enqueue(nqb(2, 200), 7);
        assert_eq!(link.queue.counters().sanctioned, sanctioned);
        let before = std::iter::from_fn(|| link.dequeue()).position(|d| d.item == 7).unwrap();
        assert!(if protection { before <= 13 } else { before == 40 }, "{before}");
    }
}

/// A classic packet to the algorithm: signalled by the square of the base probability, and not at each packet
/// as by the ramp.
#[test]
fn a_packet_of_l4s_that_was_sent_to_the_classic_queue_is_signalled_as_a_classic_one() {
    let params = Params { protection: true, ..Params::default() };
    let mut link = link(&params);
    (0..200).for_each(|_| assert!(link.enqueue(low(), LOW)));
    link.wait(Duration::from_millis(14));
    let departures: Vec<_> = std::iter::from_fn(|| link.dequeue()).collect();
    let marked = departures.iter().filter(|d| d.marked).count();
    // Eleven stayed and were late. The last has nobody behind it, and even spacing begins with the second.
    assert_eq!((departures.len(), marked), (200, 9));
}
