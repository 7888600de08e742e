//! No packet is lost or made up, whatever happens, in every discipline of the list.

use proptest::prelude::*;
use weir_aqm::algorithms::codel;
use weir_aqm::{Algorithm, Ecn, Packet, Params};
use weir_queue::{Arrival, Hosts, Limits, Managed, OfItsOwn, OverAny, Setup, Visitor};
use weir_units::{Bytes, Duration, Rate, Time};

#[derive(Clone, Debug)]
enum Step {
    Enqueue {
        flow: u32,
        host: u32,
        len: u64,
        ecn: u8,
        nqb: bool,
    },
    Dequeue,
    Wait(u64),
    Rate(u64),
    /// Another algorithm of the same kind takes the place of all instances.
    Aqm,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40u32, 0..4u32, 1..3000u64, 0..4u8, any::<bool>())
            .prop_map(|(flow, host, len, ecn, nqb)| Step::Enqueue { flow, host, len, ecn, nqb }),
        4 => Just(Step::Dequeue),
        2 => (0..30_000_000u64).prop_map(Step::Wait),
        1 => (0..1000u64).prop_map(Step::Rate),
        1 => Just(Step::Aqm),
    ]
}

/// Runs a script on a discipline; panics where packets are not conserved.
#[derive(Clone)]
struct Conserves<'a> {
    script: &'a [Step],
    setup: Setup,
    /// Whether hosts are told apart, where the discipline can do that, and the number of ways.
    fair: bool,
    ways: u32,
    /// Whether there are lanes for NQB and L4S, with queue protection.
    lanes: bool,
}

impl Conserves<'_> {
    fn params<P: Params>(&self) -> P {
        use weir_aqm::Value;
        let mut params = P::default();
        // Disciplines without these parameters keep their defaults.
        for (name, value) in [
            ("fair_senders", Value::Flag(self.fair)),
            ("ways", Value::Count(self.ways)),
            ("flows", Value::Count(16)),
            ("nqb", Value::Flag(self.lanes)),
            ("protection", Value::Flag(self.lanes)),
            ("l4s_threshold", Value::Duration(Duration::from_millis(u64::from(self.lanes)))),
        ] {
            let _ = params.set(name, value);
        }
        params
    }

    fn run<Q: Managed<u32>>(&self, mut queue: Q, other: Q::Aqm)
    where
        Q::Aqm: Clone,
    {
        let (mut now, mut sent, mut out) = (Time::ZERO, 0u32, Vec::new());
        for step in self.script {
            match step {
                Step::Enqueue { flow, host, len, ecn, nqb } => {
                    let hosts = Hosts { sender: *host, receiver: *host };
                    let ecn = Ecn::from_bits(*ecn);
                    let arrival = Arrival { len: Bytes::new(*len), flow: *flow, hosts, ecn, nqb: *nqb };
                    queue.enqueue(now, arrival, sent, &mut |_: &Packet, item, _| out.push(item));
                    sent += 1;
                }
                Step::Dequeue => {
                    let waits = queue.packets();
                    let departure = queue.dequeue(now, &mut |_: &Packet, item, _| out.push(item));
                    out.extend(departure.map(|d| d.item));
                    assert_eq!(waits == 0, waits == queue.packets());
                }
                Step::Wait(ns) => now += Duration::from_nanos(*ns),
                Step::Rate(mbps) => queue.set_rate(Rate::from_mbps(*mbps)),
                Step::Aqm => queue.set_aqm(other.clone()),
            }
            assert!(queue.counters().is_conserved(queue.packets()), "{:?}", queue.counters());
            assert!(queue.backlog() <= self.setup.limits.bytes);
            assert!(queue.packets() <= self.setup.limits.packets);
            assert_eq!(queue.head_arrived().is_some(), queue.packets() > 0);
            assert_eq!(sent as usize - out.len(), queue.packets() as usize);
        }
        while queue.packets() > 0 {
            let departure = queue.dequeue(now, &mut |_: &Packet, item, _| out.push(item));
            out.extend(departure.map(|d| d.item));
        }
        assert_eq!(queue.backlog(), Bytes::ZERO);
        out.sort_unstable();
        assert!(out.iter().copied().eq(0..sent), "a packet came out twice or never");
    }
}

impl Visitor for Conserves<'_> {
    type Output = ();

    fn over_any<D: OverAny>(self) {
        let codel = codel::Params { target: Duration::from_millis(1), ..codel::Params::default() };
        let codel = codel::CoDel::new(&codel, Time::ZERO);
        let other = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
        self.run(D::build(&self.params(), codel, (), &self.setup), other);
    }

    fn of_its_own<D: OfItsOwn>(self) {
        let params: D::Params = self.params();
        let [aqm, other] = [0, 1].map(|_| D::aqm(&params, Time::ZERO));
        self.run(D::build(&params, aqm, (), &self.setup), other);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_discipline_conserves_packets(
        script in prop::collection::vec(step(), 1..400),
        bytes in 2_000..60_000u64,
        packets in 1..60u32,
        fair: bool,
        wide: bool,
        lanes: bool,
        grows: bool,
    ) {
        let limits = Limits { bytes: Bytes::new(bytes), packets };
        let setup = Setup { limits, rate: Rate::from_mbps(10), seed: 3, grows };
        let conserves = Conserves { script: &script, setup, fair, ways: if wide { 8 } else { 1 }, lanes };
        for name in weir_queue::names() {
            weir_queue::visit(name, conserves.clone()).expect("it is in the list");
        }
    }
}
