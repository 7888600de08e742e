use super::*;
use crate::{Ecn, View};

fn near(value: f64, wanted: f64, relative: f64) {
    assert!((value / wanted - 1.0).abs() < relative, "{value} is not {wanted}");
}

#[test]
fn the_design_gives_published_constants() {
    // Test suite of the simulator ns-2: 2 flows, 70 ms, 187.5 packets per second.
    let ns2 = design(2.0, 0.07, 187.5);
    near(ns2.frequency, 435.374, 1e-6);
    near(ns2.a, 0.007_434_89, 1e-6);
    near(ns2.b, 0.007_360_91, 1e-6);
    // The example of the paper: 60 flows, 246 ms, 3750 packets per second, 160 Hz. It rounds its gain down
    // to 9.64e-6 and gets 1.822e-5 and 1.816e-5; without rounding it is 1.6 % more.
    let paper = gains(60.0, 0.246, 3750.0, 160.0);
    near(paper.a, 1.853e-5, 5e-4);
    near(paper.b, 1.847e-5, 5e-4);
    near(paper.a * 9.64e-6 / 9.78e-6, 1.822e-5, 5e-3);
    // 10 Mbit/s, packets of 1000 bytes, 20 flows, 130 ms and 40 ms of queue.
    let avq = design(20.0, 0.17, 1250.0);
    near(avq.a, 1.705_18e-4, 1e-5);
    near(avq.b, 1.688_21e-4, 1e-5);
    near(avq.frequency, 110.7, 1e-3);
}

/// 10 Mbit/s and packets of 1000 bytes: 50 packets take 40 ms.
fn pi(settings: impl FnOnce(&mut Params)) -> Pi {
    let target = Duration::from_millis(40);
    let mut params = Params { target, mean_packet: Bytes::new(1000), ..Params::default() };
    settings(&mut params);
    Pi::new(&params, Time::ZERO)
}

fn moment(now: Time, packets: u32, rate: Rate) -> Moment {
    let backlog = Bytes::new(u64::from(packets) * 1000);
    Moment::new(now, View { backlog, packets, delay: Duration::ZERO, rate }, 0)
}

const LINK: Rate = Rate::from_mbps(10);

#[test]
fn probabilities_computed_by_hand() {
    for count_bytes in [true, false] {
        let mut pi = pi(|params| (params.design, params.count_bytes) = (false, count_bytes));
        // a = 1.822e-5, b = 1.816e-5: 10 a + 50 b, then + 30 a - 10 b.
        for (n, (packets, p)) in [(60, 1.0902e-3), (80, 1.4552e-3)].into_iter().enumerate() {
            let now = Time::from_nanos(n as u64 * 6_250_000);
            assert_eq!(pi.next_wakeup(), Some(now));
            pi.on_wakeup(&moment(now, packets, LINK));
            assert!((pi.p - p).abs() < 1e-15, "{} in step {n}", pi.p);
        }
    }
}

#[test]
fn the_configuration_designs_for_the_rate_of_the_link() {
    let mut pi = pi(|params| {
        (params.flows, params.rtt) = (20, Duration::from_millis(170));
        params.flow_rate = Rate::from_mbps(1000);
    });
    pi.on_wakeup(&moment(Time::ZERO, 50, LINK));
    near(pi.gains.a, 1.705_18e-4, 1e-5);
    near(pi.gains.b, 1.688_21e-4, 1e-5);
    let next = pi.next_wakeup().unwrap();
    near(1.0 / next.as_secs_f64(), 110.7, 1e-3);
    // Ten times the rate: a tenth of the corner frequency, so that the period is the longest allowed.
    pi.on_wakeup(&moment(next, 50, Rate::from_mbps(100)));
    let faster = gains(20.0, 0.17, 12_500.0, 100.0 / 9.0);
    near(pi.gains.a, faster.a, 1e-2);
    assert_eq!(pi.next_wakeup().unwrap().since(next), Duration::from_secs_f64(1.0 / pi.gains.frequency));
}

#[test]
fn a_fast_link_counts_as_having_more_flows() {
    let params = Params::default();
    let flows = |mbps| params.fewest_flows(Rate::from_mbps(mbps));
    assert_eq!((flows(1), flows(46)), (60.0, 60.0));
    near(flows(1000), 1000.0 / 0.769, 1e-12);
    // So the queue's time is weighed alike: gains per packet fall with the rate, no faster.
    let gains = [100, 10_000].map(|mbps| {
        let mut pi = pi(|_| {});
        pi.redesign(Rate::from_mbps(mbps));
        pi.gains
    });
    // The periods are rounded to nanoseconds.
    near(gains[0].a / gains[1].a, 100.0, 1e-6);
    near(gains[0].frequency, gains[1].frequency, 1e-6);
}

#[test]
fn missed_samples_are_what_single_ones_would_have_been() {
    for (p, q_old, q) in [(0.5, 60.0, 80.0), (0.01, 10.0, 0.0), (0.0, 0.0, 30.0), (0.9999, 50.0, 5000.0)] {
        let (mut late, mut punctual) = (pi(|_| {}), pi(|_| {}));
        for pi in [&mut late, &mut punctual] {
            pi.redesign(LINK);
            (pi.p, pi.q_old) = (p, q_old);
        }
        late.step(q, 50.0, 300.0);
        for _ in 0..300 {
            punctual.step(q, 50.0, 1.0);
        }
        assert!((late.p - punctual.p).abs() < 1e-12, "{} {}", late.p, punctual.p);
    }
}

#[test]
fn an_idle_hour_forgets_and_a_stalled_host_does_not_drop_for_minutes() {
    let hour = Duration::from_secs(3600);
    let mut idle = pi(|_| {});
    idle.on_wakeup(&moment(Time::ZERO, 100, LINK));
    assert!(idle.p > 0.0);
    idle.on_wakeup(&moment(Time::ZERO + hour, 0, LINK));
    assert_eq!(idle.p, 0.0);
    let mut stalled = pi(|_| {});
    stalled.on_wakeup(&moment(Time::ZERO, 100, LINK));
    let before = stalled.p;
    stalled.on_wakeup(&moment(Time::ZERO + hour, 100, LINK));
    // A second's worth of samples at most, and the one that is due.
    let second = (stalled.gains.frequency + 1.0) * (stalled.gains.a - stalled.gains.b) * 50.0;
    assert!(stalled.p - before <= second + 1e-9, "{} {}", stalled.p - before, second);
}

#[test]
fn packets_are_signalled_with_the_probability_and_not_without_a_rate() {
    let mut pi = pi(|_| {});
    pi.p = 0.25;
    let ask = |pi: &mut Pi, dice, ecn| {
        let p = Packet { arrived: Time::ZERO, len: Bytes::new(1000), seq: 0, flow: 0, ecn };
        let m = moment(Time::ZERO, 10, LINK);
        pi.on_enqueue(&Moment::new(m.now, m.queue, dice), &p)
    };
    assert_eq!(ask(&mut pi, (1 << 62) - 1, Ecn::NotEct), Verdict::Drop(Cause::Chance));
    assert_eq!(ask(&mut pi, (1 << 62) - 1, Ecn::Ect0), Verdict::Mark(Cause::Chance));
    assert_eq!(ask(&mut pi, 1 << 62, Ecn::Ect0), Verdict::Forward);
    pi.on_wakeup(&moment(Time::ZERO, 1000, Rate::ZERO));
    assert_eq!(ask(&mut pi, 0, Ecn::NotEct), Verdict::Forward);
}
