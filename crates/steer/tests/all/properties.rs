//! What must hold for a steered queue whatever the traffic.

use crate::common;

use common::{Dice, Fate, Fifo, Sources};
use proptest::prelude::*;
use weir_aqm::algorithms::codel::{self, CoDel};
use weir_aqm::algorithms::gsp::{self, Gsp};
use weir_aqm::{Algorithm, Aqm, Ecn, Moment, Packet, Setpoint, Share, Verdict, View};
use weir_steer::{Law, Move, Observer, Policy, Rule, SteerError, Steered};
use weir_units::{Bytes, Duration, Rate, Time};

#[derive(Clone, Default)]
struct Diary(Vec<Move>);

impl Observer for Diary {
    fn moved(&mut self, m: &Move) {
        self.0.push(*m);
    }
}

fn gsp() -> Gsp {
    Gsp::new(&gsp::Params { interval: Duration::from_millis(20), ..gsp::Params::default() }, Time::ZERO)
}

/// A policy whose virtual queue settles within a few seconds.
fn under_utilizing() -> Policy {
    Policy {
        utilization_low: Share(0.94),
        utilization_target: Share(0.95),
        virtual_memory: Duration::from_secs(2),
        ..Policy::default()
    }
}

/// A steered GSP whose invariants are checked at each step.
struct Checked {
    aqm: Steered<Gsp, weir_steer::SteeringLaw, Diary>,
    policy: Policy,
    /// Rate of the link at the last arrival.
    link: Rate,
    silent_until: Time,
    signals: u32,
    /// Those given while the virtual queue was controlled.
    virtual_signals: u32,
}

impl Checked {
    fn new(policy: &Policy) -> Self {
        let aqm = Steered::new(gsp(), policy, Time::ZERO, Diary::default()).unwrap();
        Checked {
            aqm,
            policy: policy.clone(),
            link: Rate::ZERO,
            silent_until: Time::ZERO,
            signals: 0,
            virtual_signals: 0,
        }
    }

    fn check(&self, link: Rate) {
        let setpoint = self.aqm.setpoint_now();
        assert!(self.policy.target_min <= setpoint && setpoint <= self.policy.target_max, "{setpoint}");
        assert_eq!(self.aqm.aqm().clone().setpoint().unwrap().get(), setpoint);
        assert!(self.aqm.law().depth_variance() >= 0.0);
        if let Some((_, rate)) = self.aqm.virtual_queue() {
            assert!(self.policy.uses_virtual_queue());
            let least = self.policy.utilization_target.0 * link.as_bps_f64();
            assert!(rate <= link && rate.as_bps_f64() >= least - 1.0, "{rate} of {link}");
        }
    }

    /// One signal per timeout, and only above the set point.
    fn check_signal(&mut self, m: &Moment, setpoint: Duration, virtual_rate: Option<Rate>) {
        assert!(m.now > self.silent_until, "a second signal within a timeout at {:?}", m.now);
        match (virtual_rate, self.aqm.virtual_queue()) {
            (Some(rate), Some((backlog, _))) => {
                let guarded = m.queue.delay > self.policy.target_max;
                let slack = Duration::from_micros(1);
                assert!(guarded || rate.time_for(backlog) + slack > setpoint, "{backlog} at {rate}");
                self.virtual_signals += 1;
            }
            // A raise may have handed back to the real queue before the signal.
            _ => assert!(m.queue.delay > setpoint, "a signal below the set point at {:?}", m.now),
        }
        self.silent_until = m.now + self.aqm.aqm().interval();
        self.signals += 1;
    }
}

impl Aqm for Checked {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let setpoint = self.aqm.setpoint_now();
        let virtual_rate = self.aqm.virtual_queue().map(|(_, rate)| rate);
        // The virtual rate follows the link within the call: what was seen before it does not judge that one.
        let same_link = virtual_rate.is_none() || self.link == m.queue.rate;
        self.link = m.queue.rate;
        let verdict = self.aqm.on_enqueue(m, p);
        if verdict != Verdict::Forward && same_link {
            self.check_signal(m, setpoint, virtual_rate);
        }
        self.check(m.queue.rate);
        verdict
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let verdict = self.aqm.on_dequeue(m, p);
        assert_eq!(verdict, Verdict::Forward);
        verdict
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.aqm.on_overflow(m, p);
        self.check(m.queue.rate);
    }

    fn on_empty(&mut self, now: Time) {
        self.aqm.on_empty(now);
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    let shares = (0.01f64..=1.0, 0.0f64..=1.0).prop_map(|(aim, part)| (aim * part, aim));
    let delays = (10u64..2000, 0u64..20_000, 0u64..20_000);
    (shares, delays, any::<bool>()).prop_map(|((low, aim), (min, more, virt), full)| Policy {
        utilization_low: Share(low),
        utilization_target: Share(if full { 1.0 } else { aim }),
        target_min: Duration::from_micros(min),
        target_max: Duration::from_micros(min + more),
        virtual_target: Duration::from_micros(min + virt.min(more)),
        samples_min: 2,
        memory_depth: Duration::from_secs(1),
        memory_rate: Duration::from_secs(1),
        ..Policy::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn bounds_hold_whatever_the_traffic_and_the_link(
        policy in policies(),
        flows in 1usize..30,
        rates in prop::collection::vec(1u64..200, 3..8),
        seed in any::<u64>(),
    ) {
        let rate = Rate::from_mbps(100);
        let mut fifo = Fifo::new(Checked::new(&policy), rate, Bytes::new(300_000));
        let mut sources = Sources::new(flows, Duration::from_millis(10), rate, 1000, seed);
        for mbps in rates {
            fifo.rate = Rate::from_mbps(mbps);
            sources.run(&mut fifo, Duration::from_secs(1));
            sources.toggle(0.3);
        }
    }
}

#[test]
fn the_checks_see_signals_of_both_queues() {
    let rate = Rate::from_mbps(100);
    for (policy, virt) in [(Policy::default(), false), (under_utilizing(), true)] {
        let mut fifo = Fifo::new(Checked::new(&policy), rate, Bytes::new(300_000));
        Sources::new(10, Duration::from_millis(10), rate, 1000, 1).run(&mut fifo, Duration::from_secs(10));
        assert!(fifo.aqm.signals > 50, "{}", fifo.aqm.signals);
        assert_eq!(fifo.aqm.virtual_signals > 20, virt, "{}", fifo.aqm.virtual_signals);
    }
}

#[test]
fn an_idle_hour_leaves_neither_a_stale_delay_nor_a_raise() {
    let rate = Rate::from_mbps(100);
    for policy in [Policy::default(), under_utilizing()] {
        let mut fifo = Fifo::new(Checked::new(&policy), rate, rate.bytes_in(Duration::from_millis(100)));
        let mut sources = Sources::new(8, Duration::from_millis(20), rate, 1000, 5);
        sources.run(&mut fifo, Duration::from_secs(20));
        assert!(fifo.aqm.signals > 0);
        fifo.serve_until(sources.now + Duration::from_secs(60));
        // Thin traffic for an hour: the link is no bottleneck, so nothing is moved.
        let (moves, signals) = (fifo.aqm.aqm.observer().0.len(), fifo.aqm.signals);
        let mut now = sources.now + Duration::from_secs(3600);
        for _ in 0..20_000 {
            now += Duration::from_millis(1);
            assert_eq!(fifo.arrive(now, 1000, 0, Ecn::NotEct), Fate::Stored);
        }
        assert_eq!((fifo.aqm.aqm.observer().0.len(), fifo.aqm.signals), (moves, signals));
        // The first burst afterwards passes as well.
        for n in 0..300 {
            let at = now + Duration::from_secs(1) + Duration::from_micros(n);
            assert_eq!(fifo.arrive(at, 1000, 0, Ecn::NotEct), Fate::Stored);
        }
        assert_eq!(fifo.aqm.aqm.observer().0.len(), moves);
    }
}

/// Verdicts on a scripted queue whose delay swings around the set point.
fn scripted<A: Aqm + Clone>(aqm: A, ecn: Ecn) -> Vec<u32> {
    let policy = Policy { count_discarded: true, ..Policy::default() };
    let mut steered = Steered::new(aqm, &policy, Time::ZERO, ()).unwrap();
    let mut dice = Dice(11);
    let mut signals = Vec::new();
    for n in 0..200_000u32 {
        let now = Time::from_nanos(100_000 * u64::from(n + 1));
        // A triangle of 0 to 6 ms in half a second.
        let phase = f64::from(n % 5000) / 5000.0;
        let delay = Duration::from_secs_f64((0.006 * phase).max(0.0));
        let backlog = Rate::from_mbps(120).bytes_in(delay);
        let queue =
            View { backlog, packets: (backlog.get() / 1500) as u32, delay, rate: Rate::from_mbps(120) };
        let m = Moment::new(now, queue, dice.roll());
        let p = Packet { arrived: now, len: Bytes::new(1500), seq: u64::from(n), flow: 0, ecn };
        let arrival = steered.on_enqueue(&m, &p);
        let departure = steered.on_dequeue(&m, &Packet { arrived: now - delay, ..p });
        if arrival != Verdict::Forward || departure != Verdict::Forward {
            assert_eq!(
                matches!(arrival, Verdict::Mark(_)) || matches!(departure, Verdict::Mark(_)),
                ecn.is_capable()
            );
            signals.push(n);
        }
        if queue.packets == 0 {
            steered.on_empty(now);
        }
    }
    signals
}

#[test]
fn marks_come_when_drops_would() {
    let drops = scripted(gsp(), Ecn::NotEct);
    assert!(drops.len() > 20, "{}", drops.len());
    assert_eq!(scripted(gsp(), Ecn::Ect0), drops);
    assert_eq!(scripted(gsp(), Ecn::Ect1), drops);
    assert_eq!(scripted(gsp(), Ecn::Ce), drops);
}

/// Fates and moves of a run at `scale` times the rate and packet size.
fn scaled(policy: &Policy, scale: u64) -> (Vec<Rule>, Vec<u64>, u64) {
    let rate = Rate::from_mbps(100 * scale);
    let steered = Steered::new(gsp(), policy, Time::ZERO, Diary::default()).unwrap();
    let mut fifo = Fifo::new(steered, rate, Bytes::new(400_000 * scale));
    let mut sources = Sources::new(12, Duration::from_millis(10), rate, 1000 * scale, 9);
    let mut setpoints = Vec::new();
    for _ in 0..200 {
        sources.run(&mut fifo, Duration::from_millis(100));
        setpoints.push(fifo.aqm.setpoint_now().as_nanos());
    }
    (fifo.aqm.observer().0.iter().map(|m| m.rule).collect(), setpoints, sources.signals)
}

#[test]
fn ten_times_the_rate_and_the_packet_size_is_the_same_queue() {
    for policy in [Policy::default(), under_utilizing()] {
        let one = scaled(&policy, 1);
        assert!(one.2 > 100);
        assert_eq!(one, scaled(&policy, 10));
    }
}

/// An algorithm with a narrow range of set points, and one with none.
#[derive(Clone)]
struct Narrow(Option<Duration>);

impl Aqm for Narrow {
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        if self.0.is_some() { Some(self) } else { None }
    }
}

impl Setpoint for Narrow {
    fn get(&self) -> Duration {
        self.0.unwrap()
    }

    fn set(&mut self, to: Duration) -> Duration {
        *self.0.insert(to.clamp(Duration::from_millis(1), Duration::from_millis(10)))
    }
}

#[test]
fn what_cannot_be_steered_is_refused_with_a_remedy() {
    let text = |aqm: Narrow, policy: &Policy| match Steered::new(aqm, policy, Time::ZERO, ()) {
        Ok(_) => panic!("it was accepted"),
        Err(e) => e.to_string(),
    };
    let default = Policy::default();
    let none = Steered::new(Narrow(None), &default, Time::ZERO, ()).err();
    assert_eq!(none, Some(SteerError::NoSetpoint));
    let narrow = || Narrow(Some(Duration::from_millis(5)));
    assert_eq!(
        text(narrow(), &default),
        "this algorithm takes no set point below 1ms: raise target_min from 200us"
    );
    let higher = Policy { target_min: Duration::from_millis(1), ..default };
    assert_eq!(
        text(narrow(), &higher),
        "this algorithm takes no set point above 10ms: lower target_max from 30ms"
    );
    let fits = Policy { target_max: Duration::from_millis(10), ..higher.clone() };
    assert!(Steered::new(narrow(), &fits, Time::ZERO, ()).is_ok());
    let reversed = Policy { target_max: Duration::from_micros(900), ..higher };
    assert!(text(narrow(), &reversed).starts_with("target_min = 1ms lies above target_max = 900us"));
}

#[test]
fn a_dequeue_time_algorithm_works_on_the_virtual_queue_too() {
    let rate = Rate::from_mbps(100);
    let codel = CoDel::new(
        &codel::Params { interval: Duration::from_millis(20), ..codel::Params::default() },
        Time::ZERO,
    );
    let steered = Steered::new(codel, &under_utilizing(), Time::ZERO, Diary::default()).unwrap();
    let mut fifo = Fifo::new(steered, rate, Bytes::new(1_000_000));
    let mut sources = Sources::new(20, Duration::from_millis(10), rate, 250, 2);
    sources.run(&mut fifo, Duration::from_secs(20));
    assert!(fifo.aqm.virtual_queue().is_some());
    let before = (fifo.signals_at_head, sources.signals, fifo.served);
    sources.run(&mut fifo, Duration::from_secs(20));
    // While the virtual queue decides, signals come at arrival.
    assert!(sources.signals > before.1 + 20);
    assert!(fifo.signals_at_head - before.0 < (sources.signals - before.1) / 2);
    let used = (fifo.served - before.2) as f64 / rate.bytes_in(Duration::from_secs(20)).get() as f64;
    assert!((0.9..0.97).contains(&used), "{used}");
}

/// A link that delivers half of what it says: the virtual queue is empty, the real one grows.
fn slow_link(virtual_guard: bool) -> (Vec<Rule>, u32) {
    let policy = Policy { virtual_guard, ..under_utilizing() };
    let rate = Rate::from_mbps(100);
    let steered = Steered::new(gsp(), &policy, Time::ZERO, Diary::default()).unwrap();
    let mut fifo = Fifo::new(steered, rate, Bytes::new(1_000_000));
    let mut sources = Sources::new(20, Duration::from_millis(10), rate, 1000, 2);
    sources.run(&mut fifo, Duration::from_secs(20));
    assert!(fifo.aqm.virtual_queue().is_some());
    let moves = fifo.aqm.observer().0.len();
    let mut aqm = fifo.aqm;
    let mut signals = 0;
    for n in 0..10_000 {
        let now = sources.now + Duration::from_micros(160 * (n + 1));
        let delay = Duration::from_millis(80);
        let m = Moment::new(now, View { backlog: Bytes::new(500_000), packets: 500, delay, rate }, 0);
        let p = Packet { arrived: now, len: Bytes::new(1000), seq: n, flow: 0, ecn: Ecn::NotEct };
        signals += u32::from(aqm.on_enqueue(&m, &p) != Verdict::Forward);
        let _ = aqm.on_dequeue(&m, &Packet { arrived: now - delay, ..p });
    }
    (aqm.observer().0[moves..].iter().map(|m| m.rule).collect(), signals)
}

#[test]
fn a_link_slower_than_its_rate_is_guarded_by_the_real_queue() {
    let (rules, signals) = slow_link(true);
    assert!(signals > 10, "{signals}");
    assert!(rules.contains(&Rule::VirtualOff), "{rules:?}");
    // Unguarded, only what was left in the virtual queue is signalled.
    let (rules, signals) = slow_link(false);
    assert!(rules.is_empty() && signals <= 1, "{rules:?} {signals}");
}

#[test]
fn the_policy_can_be_changed_in_operation() {
    let rate = Rate::from_mbps(100);
    let steered = Steered::new(gsp(), &under_utilizing(), Time::ZERO, ()).unwrap();
    let mut fifo = Fifo::new(steered, rate, Bytes::new(1_000_000));
    let mut sources = Sources::new(20, Duration::from_millis(10), rate, 1000, 2);
    let mut used = |fifo: &mut Fifo<Steered<Gsp>>| {
        sources.run(fifo, Duration::from_secs(20));
        let served = fifo.served;
        sources.run(fifo, Duration::from_secs(20));
        (fifo.served - served) as f64 / rate.bytes_in(Duration::from_secs(20)).get() as f64
    };
    let before = used(&mut fifo);
    let lower = Policy { utilization_low: Share(0.79), utilization_target: Share(0.8), ..under_utilizing() };
    fifo.aqm.set_policy(&lower).unwrap();
    let after = used(&mut fifo);
    assert!((0.92..0.97).contains(&before) && (0.77..0.82).contains(&after), "{before} {after}");
    fifo.aqm.set_policy(&Policy::default()).unwrap();
    assert!(used(&mut fifo) > 0.97 && fifo.aqm.virtual_queue().is_none());
    assert!(fifo.aqm.set_policy(&Policy { target_max: Duration::from_micros(1), ..lower }).is_err());
    assert_eq!(fifo.aqm.law().policy(), &Policy::default());
}

#[test]
fn an_epoch_that_begins_with_an_empty_queue_says_so() {
    #[derive(Clone)]
    struct DropsAll(Duration);
    impl Aqm for DropsAll {
        fn on_enqueue(&mut self, _m: &Moment, _p: &Packet) -> Verdict {
            Verdict::Drop(weir_aqm::Cause::Chance)
        }
        fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
            Some(self)
        }
    }
    impl Setpoint for DropsAll {
        fn get(&self) -> Duration {
            self.0
        }
        fn set(&mut self, to: Duration) -> Duration {
            self.0 = to;
            to
        }
    }
    let mut aqm = Steered::new(DropsAll(Duration::ZERO), &Policy::default(), Time::ZERO, ()).unwrap();
    let mut arrive = |packets, ms| {
        let now = Time::ZERO + Duration::from_millis(ms);
        let queue = View { backlog: Bytes::ZERO, packets, delay: Duration::ZERO, rate: Rate::from_mbps(100) };
        let p = Packet { arrived: now, len: Bytes::new(1000), seq: 0, flow: 0, ecn: Ecn::NotEct };
        let _ = aqm.on_enqueue(&Moment::new(now, queue, 0), &p);
        let epoch = aqm.epoch(now);
        (epoch.delay_min, epoch.ran_empty)
    };
    assert_eq!(arrive(0, 1), (Some(Duration::ZERO), true));
    assert_eq!(arrive(5, 2), (None, false));
}

#[test]
fn gauges_show_what_steering_does() {
    let rate = Rate::from_mbps(100);
    let steered = Steered::new(gsp(), &under_utilizing(), Time::ZERO, ()).unwrap();
    let mut fifo = Fifo::new(steered, rate, Bytes::new(300_000));
    Sources::new(10, Duration::from_millis(10), rate, 1000, 1).run(&mut fifo, Duration::from_secs(5));
    let mut names = Vec::new();
    fifo.aqm.gauges(&mut |name, value| {
        assert!(value.is_finite(), "{name}");
        assert!(!names.contains(&name), "{name} twice");
        names.push(name);
    });
    for name in [
        "cum_time_s",
        "setpoint_ms",
        "rate_mbps",
        "rate_avg_mbps",
        "depth_variance_ms2",
        "table_state",
        "virtual_rate_mbps",
        "virtual_backlog_bytes",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(fifo.aqm.setpoint().is_none());
    assert!(fifo.aqm.law().virtual_rate().is_some());
}
