//! The wrapper against the plain reference, packet by packet, on random traffic that reacts.

use crate::common;
use crate::reference;

use common::{Fifo, Sources};
use proptest::prelude::*;
use reference::{Reference, gsp_params};
use weir_aqm::algorithms::gsp::Gsp;
use weir_aqm::{Algorithm, Aqm, Ecn, Moment, Packet, Share, Verdict};
use weir_steer::{Policy, Steered};
use weir_units::{Duration, Rate, Time};

/// Asks both and insists on the same answers and the same inner state.
struct Pair {
    steered: Steered<Gsp>,
    reference: Reference,
    signals: u32,
    virtual_signals: u32,
}

impl Pair {
    fn compare(&self, m: &Moment, verdicts: (Verdict, Verdict)) {
        let (s, r) = (&self.steered, &self.reference);
        assert_eq!(verdicts.0, verdicts.1, "verdict at {:?}", m.now);
        assert_eq!(s.setpoint_now().as_nanos() as f64, r.thresh_curr, "set point at {:?}", m.now);
        assert_eq!(s.virtual_queue().is_some(), r.vq_active, "virtual queue at {:?}", m.now);
        if let Some((backlog, rate)) = s.virtual_queue() {
            assert!((backlog.get() as f64 - r.vq_size).abs() < 2.0, "{backlog} and {}", r.vq_size);
            assert!((rate.as_bps_f64() - r.rate_vq).abs() < 1.0, "{rate} and {}", r.rate_vq);
        }
        if verdicts.0 != Verdict::Forward {
            let avg = s.law().rate_avg().unwrap().as_bps_f64();
            assert!((avg - r.rate_bd_avg().unwrap()).abs() < 1.0, "average rate at {:?}", m.now);
            assert!(s.law().depth_variance() >= 0.0);
        }
    }
}

impl Aqm for Pair {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let verdicts = (self.steered.on_enqueue(m, p), self.reference.on_enqueue(m, p));
        self.compare(m, verdicts);
        self.signals += u32::from(verdicts.0 != Verdict::Forward);
        self.virtual_signals += u32::from(verdicts.0 != Verdict::Forward && self.reference.vq_active);
        verdicts.0
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let verdicts = (self.steered.on_dequeue(m, p), self.reference.on_dequeue(m, p));
        self.compare(m, verdicts);
        verdicts.0
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.steered.on_overflow(m, p);
        self.reference.on_overflow(m, p);
    }

    fn on_empty(&mut self, now: Time) {
        self.steered.on_empty(now);
        self.reference.on_empty(now);
    }
}

/// Runs the pair under sources that come and go.
fn lockstep(policy: &Policy, flows: usize, buffer_ms: u64, ecn: Ecn, seed: u64) -> (Pair, u64) {
    let rate = Rate::from_mbps(100);
    let pair = Pair {
        steered: Steered::new(Gsp::new(&gsp_params(), Time::ZERO), policy, Time::ZERO, ()).unwrap(),
        reference: Reference::new(policy),
        signals: 0,
        virtual_signals: 0,
    };
    let mut fifo = Fifo::new(pair, rate, rate.bytes_in(Duration::from_millis(buffer_ms)));
    let mut sources = Sources::new(flows, Duration::from_millis(10), rate, 1513, seed);
    sources.ecn = ecn;
    for _ in 0..10 {
        sources.run(&mut fifo, Duration::from_millis(1500));
        sources.toggle(0.3);
    }
    (fifo.aqm, sources.overflows)
}

fn policies() -> impl Strategy<Value = Policy> {
    (
        prop_oneof![Just((0.99, 1.0)), Just((0.9, 1.0)), Just((0.94, 0.95)), Just((0.5, 0.8))],
        (1u32..6, 0.0..3.0, 0.05..2.5),
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        (1u64..10, 1u64..10, 0u32..8, 1u64..40),
    )
        .prop_map(
            |(
                (low, aim),
                (samples_min, margin, virtual_gain),
                flags,
                (memory, virtual_memory, virtual_signals, max),
            )| {
                Policy {
                    utilization_low: Share(low),
                    utilization_target: Share(aim),
                    target_max: Duration::from_millis(max),
                    samples_min,
                    margin,
                    virtual_gain,
                    cap_step: flags.0,
                    unbiased_variance: flags.1,
                    unbiased_rate: flags.2,
                    count_discarded: flags.3,
                    virtual_by_time: flags.4,
                    memory_depth: Duration::from_millis(500 * memory),
                    memory_rate: Duration::from_millis(300 * memory),
                    virtual_memory: Duration::from_millis(100 * virtual_memory),
                    virtual_signals,
                    ..Policy::default()
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_wrapper_does_what_the_paper_says(
        policy in policies(),
        flows in 1usize..30,
        buffer_ms in 3u64..40,
        marks in any::<bool>(),
        seed in any::<u64>(),
    ) {
        lockstep(&policy, flows, buffer_ms, if marks { Ecn::Ect0 } else { Ecn::NotEct }, seed);
    }
}

#[test]
fn the_lockstep_reaches_every_corner() {
    let full = Policy { memory_depth: Duration::from_secs(1), ..Policy::default() };
    let (pair, _) = lockstep(&full, 20, 40, Ecn::NotEct, 1);
    assert!(pair.signals > 50 && pair.virtual_signals == 0, "{}", pair.signals);
    let (_, overflows) = lockstep(&full, 2, 4, Ecn::NotEct, 2);
    assert!(overflows > 0, "the buffer never overflowed");
    let under = Policy {
        utilization_low: Share(0.94),
        utilization_target: Share(0.95),
        memory_rate: Duration::from_secs(1),
        ..full
    };
    let (pair, _) = lockstep(&under, 20, 40, Ecn::NotEct, 3);
    assert!(pair.virtual_signals > 20, "{}", pair.virtual_signals);
}
