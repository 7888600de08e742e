//! Queues whose memory is given when they are made allocate nothing for packets.

mod common;
mod counting;

use common::{MTU, from_host, setup};
use counting::calls;
use weir_aqm::algorithms::codel;
use weir_aqm::{Algorithm, Aqm, Ecn, Packet, Params, Value};
use weir_queue::{Arrival, Fifos, Managed, OfItsOwn, OverAny, Plan, Plans, Pooled, Store, Visitor};
use weir_units::{Bytes, Duration, Rate, Time};

/// Overload from many flows, until packets are discarded for lack of room as well.
struct Overload {
    /// Whether users are customers with plans, which are exchanged meanwhile.
    is_planned: bool,
}

impl Overload {
    fn run<Q: Managed<u32>>(&self, mut queue: Q, other: Q::Aqm) -> u64
    where
        Q::Aqm: Clone,
    {
        if self.is_planned {
            queue.make_plans(Duration::from_millis(1));
        }
        let plan = |user: u64| Plan {
            rate: Some(Rate::from_mbps(1 + user)),
            burst: Bytes::new(3000 * user),
            site: Some(user as u32 % 2),
            target: Some(Duration::from_millis(1 + user)),
            is_exempt: user == 6,
            is_one_fifo: user == 5,
        };
        let mut plans: Vec<Plans> = (0..5u64)
            .map(|n| {
                Plans::new((0..7).map(|user| plan(user + n)).collect(), &[Some(Rate::from_mbps(9)), None])
            })
            .collect();
        let (mut now, mut lost) = (Time::ZERO, 0u64);
        let before = calls();
        for n in 0..50_000u32 {
            let ecn = if n % 5 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
            let arrival = Arrival { ecn, ..from_host(n % 7, n.wrapping_mul(0x9e37) % 900, MTU) };
            queue.enqueue(now, arrival, n, &mut |_: &Packet, _, _| lost += 1);
            if n % 3 == 0 {
                let _ = queue.dequeue(now, &mut |_: &Packet, _, _| lost += 1);
            }
            if n % 5000 == 0 {
                queue.set_aqm(other.clone());
                queue.set_plans(&mut plans[n as usize / 5000 % 5]);
            }
            now += Duration::from_micros(40);
        }
        let calls = calls() - before;
        assert!(lost > 1000 && queue.counters().overflows() > 0, "{lost}");
        calls
    }
}

impl Visitor for Overload {
    type Output = u64;

    fn over_any<D: OverAny>(self) -> u64 {
        let mut params = D::Params::default();
        // Disciplines without this parameter have no hosts.
        let _ = params.set("fair_senders", Value::Flag(true));
        let [codel, other] = [0, 1].map(|_| codel::CoDel::new(&codel::Params::default(), Time::ZERO));
        self.run(D::build(&params, codel, (), &setup(500)), other)
    }

    fn of_its_own<D: OfItsOwn>(self) -> u64 {
        let params = D::Params::default();
        let [aqm, other] = [0, 1].map(|_| D::aqm(&params, Time::ZERO));
        self.run(D::build(&params, aqm, (), &setup(500)), other)
    }
}

#[test]
fn no_discipline_allocates_for_packets() {
    for name in weir_queue::names() {
        for is_planned in [false, true] {
            assert_eq!(weir_queue::visit(name, Overload { is_planned }), Some(0), "{name}");
        }
    }
}

/// Has half of the flows shaped.
#[derive(Clone)]
struct Half;

impl Aqm for Half {
    const SHAPES: bool = true;

    fn shaped(&self, p: &Packet) -> Option<Rate> {
        (p.flow % 2 == 1).then_some(Rate::from_mbps(5))
    }
}

#[test]
fn shapers_and_fifos_of_flows_are_lent_to_queues_without_allocating() {
    let mut store = Store::with_shapers(500, 4, 1).with_flows(4, &Half);
    let mut queues: Vec<_> = (0..7).map(|seed| Pooled::new(Half, (), Rate::ZERO, seed)).collect();
    queues.iter_mut().for_each(|queue| queue.set_fifos(Fifos::Many));
    let (mut now, mut lost, mut sent) = (Time::ZERO, 0u64, 0u64);
    let before = calls();
    for n in 0..50_000u32 {
        let arrival = from_host(n % 7, n.wrapping_mul(0x9e37) % 900, MTU);
        let queue = &mut queues[n as usize % 7];
        let mut out = |_: &Packet, _, _| lost += 1;
        let room = Bytes::new(100_000);
        match (queue.shaped_to(&mut store, now, &arrival), queue.fifo_of(&mut store, arrival.flow)) {
            (Some(rate), _) => queue.shape(&mut store, room, rate, now, (arrival, n), &mut out),
            (None, Some(fifo)) => queue.enqueue_in(&mut store, fifo, room, now, (arrival, n), &mut out),
            (None, None) => queue.enqueue(&mut store, room, now, arrival, n, &mut out),
        }
        sent += u64::from(queue.take_shaped(&mut store, now, &mut out).is_some());
        if n % 3 == 0 {
            let _ = queue.dequeue(&mut store, now, |_| true, &mut out);
        }
        if n % 5000 == 4999 {
            queue.clear(&mut store, &mut out);
        }
        now += Duration::from_micros(40);
    }
    assert_eq!(calls() - before, 0);
    assert!(lost > 1000 && sent > 1000, "{lost} {sent}");
}
