//! The loop closed over a toy network: few flows need a long queue, many a short one.

use crate::common;

use common::{Fifo, Sources};
use weir_aqm::algorithms::codel::{self, CoDel};
use weir_aqm::algorithms::gsp::{self, Gsp};
use weir_aqm::{Algorithm, Aqm, Share};
use weir_steer::{Move, Observer, Policy, Rule, Steered};
use weir_units::{Bytes, Duration, Rate, Time};

const RATE: Rate = Rate::from_mbps(200);

#[derive(Clone, Default)]
struct Diary(Vec<Move>);

impl Observer for Diary {
    fn moved(&mut self, m: &Move) {
        self.0.push(*m);
    }
}

struct Outcome {
    setpoint_ms: f64,
    utilization: f64,
    delay_mean_ms: f64,
    rules: Vec<Rule>,
    virtual_active: bool,
}

/// Set point and utilization averaged over the second half of a run.
fn outcome<A: Aqm + Clone>(aqm: A, policy: &Policy, flows: usize) -> Outcome {
    let steered = Steered::new(aqm, policy, Time::ZERO, Diary::default()).unwrap();
    let mut fifo = Fifo::new(steered, RATE, RATE.bytes_in(Duration::from_millis(100)));
    let mut sources = Sources::new(flows, Duration::from_millis(50), RATE, 1500, 3);
    sources.beta = 0.7;
    let half = Duration::from_secs(120);
    sources.run(&mut fifo, half);
    let served = fifo.served;
    let (mut setpoints, mut delays, steps) = (0.0, 0.0, 1200);
    for _ in 0..steps {
        sources.run(&mut fifo, Duration::from_millis(100));
        setpoints += fifo.aqm.setpoint_now().as_millis_f64();
        delays += fifo.delay().as_millis_f64();
    }
    Outcome {
        setpoint_ms: setpoints / f64::from(steps),
        utilization: (fifo.served - served) as f64 / RATE.bytes_in(half).get() as f64,
        delay_mean_ms: delays / f64::from(steps),
        rules: fifo.aqm.observer().0.iter().map(|m| m.rule).collect(),
        virtual_active: fifo.aqm.virtual_queue().is_some(),
    }
}

fn gsp() -> Gsp {
    Gsp::new(&gsp::Params::default(), Time::ZERO)
}

#[test]
fn two_flows_raise_the_set_point() {
    let o = outcome(gsp(), &Policy::default(), 2);
    assert!(o.setpoint_ms > 5.0 && o.setpoint_ms <= 30.0, "{} ms", o.setpoint_ms);
    assert!(o.utilization > 0.985, "{}", o.utilization);
    assert!(o.rules.contains(&Rule::Raise));
}

#[test]
fn many_flows_lower_the_set_point() {
    let o = outcome(gsp(), &Policy::default(), 36);
    assert!(o.setpoint_ms < 2.5, "{} ms", o.setpoint_ms);
    assert!(o.utilization > 0.985, "{}", o.utilization);
    assert!(o.rules.contains(&Rule::Lower));
}

#[test]
fn the_set_point_of_codel_follows_as_well() {
    let codel = || CoDel::new(&codel::Params::default(), Time::ZERO);
    let few = outcome(codel(), &Policy::default(), 2);
    let many = outcome(codel(), &Policy::default(), 36);
    assert!(few.setpoint_ms > 1.5 * many.setpoint_ms, "{} and {} ms", few.setpoint_ms, many.setpoint_ms);
    assert!(few.utilization > 0.97 && many.utilization > 0.97, "{} {}", few.utilization, many.utilization);
}

#[test]
fn a_virtual_queue_keeps_the_real_one_empty() {
    let policy =
        Policy { utilization_low: Share(0.94), utilization_target: Share(0.95), ..Policy::default() };
    let o = outcome(gsp(), &policy, 36);
    assert!(o.virtual_active);
    assert!((0.93..0.96).contains(&o.utilization), "{}", o.utilization);
    assert!(o.delay_mean_ms < 0.3, "{} ms", o.delay_mean_ms);
}

#[test]
fn what_is_not_full_is_left_alone() {
    let steered = Steered::new(gsp(), &Policy::default(), Time::ZERO, Diary::default()).unwrap();
    let mut fifo = Fifo::new(steered, RATE, Bytes::new(1_000_000));
    let before = fifo.aqm.setpoint_now();
    let mut now = Time::ZERO;
    for _ in 0..100_000 {
        now += Duration::from_micros(600);
        fifo.arrive(now, 1500, 0, weir_aqm::Ecn::NotEct);
    }
    assert_eq!(fifo.aqm.setpoint_now(), before);
    assert_eq!(fifo.aqm.observer().0, []);
    assert_eq!(fifo.aqm.table_state(now), weir_steer::TableState::Below);
}
