//! One law for the algorithms of many flows.

use weir_aqm::{Aqm, Cause, Ecn, Guide, Moment, Packet, Setpoint, Verdict, View};
use weir_steer::{Helm, Policy, SteerError};
use weir_units::{Bytes, Duration, Rate, Time};

/// Signals whatever waited longer than its set point.
#[derive(Clone)]
struct Threshold(Duration);

impl Aqm for Threshold {
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if m.now.since(p.arrived) > self.0 { Verdict::Drop(Cause::SetPoint) } else { Verdict::Forward }
    }
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }
}

impl Setpoint for Threshold {
    fn get(&self) -> Duration {
        self.0
    }
    fn set(&mut self, to: Duration) -> Duration {
        self.0 = to;
        to
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

const RATE: Rate = Rate::from_mbps(100);

fn view(packets: u32, delay: Duration) -> View {
    View { backlog: Bytes::new(1500 * u64::from(packets)), packets, delay, rate: RATE }
}

/// A packet of a flow leaves after it waited for so long, with `whole` packets behind it in all flows.
fn leaves(helm: &mut Helm, aqm: &mut Threshold, now: Time, waited: Duration, whole: u32) -> Verdict {
    let m = Moment::new(now, view(0, waited), 0);
    let p = Packet { arrived: now - waited, len: Bytes::new(1500), seq: 0, flow: 0, ecn: Ecn::NotEct };
    let all = RATE.time_for(Bytes::new(1500 * u64::from(whole)));
    helm.on_dequeue(aqm, || view(whole, all), &m, &p)
}

fn helm(aqm: &mut Threshold) -> Helm {
    Helm::of_many(aqm, &Policy::default(), Time::ZERO, ()).unwrap()
}

#[test]
fn a_raise_for_one_flow_reaches_the_others_before_they_are_asked() {
    let mut first = Threshold(Duration::ZERO);
    let mut helm = helm(&mut first);
    let mut second = first.clone();
    let start = helm.setpoint_now();
    assert_eq!(first.0, start);
    assert!(matches!(leaves(&mut helm, &mut first, at(500), Duration::from_secs(1), 5), Verdict::Drop(_)));
    // The link was idle for a while: another signal would make that worse.
    helm.on_empty(&mut first, true, at(600));
    let waited = start + Duration::from_micros(1);
    assert_eq!(leaves(&mut helm, &mut first, at(1000), waited, 5), Verdict::Forward);
    let raised = helm.setpoint_now();
    assert!(raised > start && first.0 == raised && second.0 == start);
    assert_eq!(leaves(&mut helm, &mut second, at(1001), waited, 5), Verdict::Forward);
    assert_eq!(second.0, raised);
}

#[test]
fn only_the_whole_queue_runs_empty() {
    let mut first = Threshold(Duration::ZERO);
    let mut helm = helm(&mut first);
    let start = helm.setpoint_now();
    let waited = start + Duration::from_micros(1);
    // A signal ends the time of the start, when everything was empty.
    let _ = leaves(&mut helm, &mut first, at(1000), Duration::from_secs(1), 5);
    let before = helm.setpoint_now();
    // The flow has nothing left, but others have.
    helm.on_empty(&mut first, false, at(1001));
    assert!(!helm.epoch(at(1002)).ran_empty);
    assert!(matches!(leaves(&mut helm, &mut first, at(1002), waited + before, 5), Verdict::Drop(_)));
    helm.on_empty(&mut first, true, at(1003));
    assert!(helm.epoch(at(1004)).ran_empty);
}

#[test]
fn the_standing_delay_is_that_of_everything_stored() {
    let mut aqm = Threshold(Duration::ZERO);
    let mut helm = helm(&mut aqm);
    let _ = leaves(&mut helm, &mut aqm, at(1000), Duration::from_secs(1), 5);
    // A packet that did not wait itself, while a hundred of others do.
    let _ = leaves(&mut helm, &mut aqm, at(1001), Duration::ZERO, 100);
    let standing = RATE.time_for(Bytes::new(150_000));
    assert_eq!(helm.epoch(at(1002)).delay_min, Some(standing));
}

#[test]
fn a_virtual_queue_does_not_go_with_many() {
    let policy = Policy {
        utilization_low: weir_aqm::Share(0.94),
        utilization_target: weir_aqm::Share(0.95),
        ..Policy::default()
    };
    let error = Helm::of_many(&mut Threshold(Duration::ZERO), &policy, Time::ZERO, ()).unwrap_err();
    assert_eq!(error, SteerError::ManyFifos);
}
