//! The BPF program beside the algorithm that it is a twin of.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use weir_aqm::algorithms::gsp::{Gsp, Params};
use weir_aqm::{Algorithm, Aqm, Ecn, Moment, Packet, Setpoint, Verdict};
use weir_config::{Document, RunConfig};
use weir_kernel::EgressSetup;
use weir_kernel::program::{Answer, Probe, Program, unfit};
use weir_steer::VirtualQueue;
use weir_units::{Bytes, Duration, Rate, Time};

/// The algorithm over a virtual queue, as `weir_steer::Helm` asks it.
struct Twin {
    queue: VirtualQueue,
    gsp: Gsp,
    drops: u64,
    signals: u64,
    accepted: u64,
}

impl Twin {
    fn answer(&mut self, probe: &Probe, overhead: i64) -> Answer {
        self.queue.drain(probe.now);
        let len = Bytes::new((i64::from(probe.wire_len) + overhead * i64::from(probe.segments)) as u64);
        let packet = Packet { arrived: probe.now, len, seq: 0, flow: 0, ecn: probe.ecn };
        let verdict = self.gsp.on_enqueue(&Moment::new(probe.now, self.queue.view(1), 0), &packet);
        self.signals += u64::from(verdict != Verdict::Forward);
        if matches!(verdict, Verdict::Drop(_)) {
            self.drops += 1;
            return Answer::Drop;
        }
        self.queue.add(len);
        self.accepted += len.get();
        if verdict == Verdict::Forward { Answer::Pass } else { Answer::Mark }
    }
}

/// The program, or why there is none.
fn loaded(test: &str, params: &Params, overhead: i32) -> Option<Program> {
    match Program::load(params, overhead) {
        Ok(program) => Some(program),
        // Only who may not is excused: what the kernel refuses for another reason is an error of the program.
        Err(e) if e.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
            println!("SKIPPED: {test}: needs root: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Packets as they come: trains back to back, gaps, pauses in which the queue drains; offloaded ones among them.
fn packets(seed: u64, rate: Rate, count: u32) -> impl Iterator<Item = Probe> {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut now, mut load) = (Time::from_nanos(1_000_000_007), 1.0);
    (0..count).map(move |number| {
        let segments = if dice.next_u32() % 4 == 0 { 1 + dice.next_u32() % 40 } else { 1 };
        let wire_len = 64 + dice.next_u32() % 1450 + (segments - 1) * 1514;
        if number % 300 == 0 {
            load = [0.3, 0.95, 1.2, 1.5, 2.0][(dice.next_u32() % 5) as usize];
        }
        let gap = rate.time_for(Bytes::new(u64::from(wire_len))).mul_f64(1.0 / load).as_nanos();
        let pause = if dice.next_u32() % 500 == 0 { u64::from(dice.next_u32() % 300_000_000) } else { 0 };
        now += Duration::from_nanos(gap / 2 + dice.next_u64() % gap.max(1) + pause);
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][(dice.next_u32() % 3) as usize];
        Probe { now, wire_len, segments, ecn }
    })
}

#[test]
fn the_program_decides_as_the_algorithm_does() {
    let never = None;
    for (seed, mbps, overhead, params) in [
        (1, 10_000, 0, Params::default()),
        (2, 1000, 24, Params { ecn: false, interval: Duration::from_millis(20), ..Params::default() }),
        (3, 100, -14, Params { burst_rule: false, alpha: 0.75, ..Params::default() }),
        (
            4,
            10,
            24,
            Params {
                tau: Duration::from_millis(40),
                interval: Duration::from_millis(3),
                ..Params::default()
            },
        ),
    ] {
        let Some(mut program) = loaded("the_program_decides_as_the_algorithm_does", &params, overhead) else {
            return;
        };
        let link = Rate::from_mbps(mbps);
        let mut gsp = Gsp::new(&params, Time::ZERO);
        let (mut rate, mut target) = (link, Duration::from_micros(200));
        gsp.set(target);
        let mut twin = Twin {
            queue: VirtualQueue::new(Time::ZERO, Bytes::ZERO, rate),
            gsp,
            drops: 0,
            signals: 0,
            accepted: 0,
        };
        let mut answers = [0u32; 3];
        for (number, probe) in packets(seed, link, 20_000).enumerate() {
            // It is steered now and then.
            if number % 1000 == 0 {
                rate = Rate::from_bps(link.as_bps() / 100 * (90 + (number / 1000 % 11) as u64));
                target = Duration::from_micros(200 + 100 * (number / 1000 % 7) as u64);
                twin.queue.set_rate(rate);
                twin.gsp.set(target);
                program.steer(rate, target, Time::ZERO, never).unwrap();
            }
            let (got, want) = (program.answer(&probe).unwrap(), twin.answer(&probe, overhead.into()));
            assert_eq!(got, want, "seed {seed}, packet {number}: {probe:?}, {:?}", program.state());
            answers[want as usize] += 1;
        }
        assert!(answers[2] > 50 && answers[0] > 10_000, "{answers:?}");
        assert_eq!(answers[1] > 50, params.ecn, "{answers:?}");
        let state = program.state().unwrap();
        assert_eq!((state.signals, state.drops), (twin.signals, twin.drops));
        assert_eq!(state.accepted, Bytes::new(twin.accepted));
        let (got, want) = (state.backlog(state.last, rate), twin.queue.backlog());
        assert!(got.get().abs_diff(want.get()) <= 1, "{got:?} {want:?}");
        assert!(state.empty.as_nanos().abs_diff(twin.queue.empty_for().as_nanos()) < 100_000, "{state:?}");
    }
}

#[test]
fn what_is_not_steered_any_more_lets_every_packet_pass() {
    let Some(mut program) =
        loaded("what_is_not_steered_any_more_lets_every_packet_pass", &Params::default(), 0)
    else {
        return;
    };
    let drops = |program: &mut Program, from_s: u64| {
        let mut count = 0;
        for n in 0..20_000 {
            let now = Time::from_nanos(from_s * 1_000_000_000 + n * 10_000);
            let probe = Probe { now, wire_len: 1514, segments: 1, ecn: Ecn::NotEct };
            count += u32::from(program.answer(&probe).unwrap() == Answer::Drop);
        }
        count
    };
    let (rate, target) = (Rate::from_mbps(100), Duration::from_millis(1));
    assert_eq!(drops(&mut program, 10), 0, "before it is steered");
    let beat = Time::from_nanos(20_000_000_000);
    program.steer(rate, target, beat, Some(Duration::from_secs(1))).unwrap();
    assert!(drops(&mut program, 20) > 0);
    assert_eq!(drops(&mut program, 30), 0, "its process is gone");
    program.steer(rate, target, beat, None).unwrap();
    assert!(drops(&mut program, 40) > 0, "it may be gone");
}

/// Not judged, as the machine may be busy; the figure in docs/kernel-queues.md is what it says on an idle one.
#[test]
fn what_a_packet_costs() {
    let Some(mut program) = loaded("what_a_packet_costs", &Params::default(), 0) else { return };
    program.steer(Rate::from_mbps(9_500), Duration::from_micros(200), Time::ZERO, None).unwrap();
    let probe = Probe { now: Time::from_nanos(1), wire_len: 1514, segments: 1, ecn: Ecn::Ect0 };
    let cost = (0..5).map(|_| program.cost(&probe, 200_000).unwrap()).min().unwrap();
    println!("a packet costs {} ns in the program", cost.as_nanos());
    assert!(cost < std::time::Duration::from_micros(20), "{cost:?}");
}

#[test]
fn parameters_beyond_its_arithmetic_are_refused() {
    assert_eq!(unfit(&Params::default()), None);
    let long =
        Params { interval: Duration::from_secs(100), tau: Duration::from_secs(1000), ..Params::default() };
    assert!(unfit(&long).unwrap().contains("`tau` may be 0 s"), "{:?}", unfit(&long));
    assert!(unfit(&Params { delay_based: false, ..Params::default() }).unwrap().contains("delay_based"));
}

#[test]
fn a_direction_that_asks_for_more_is_refused_with_the_key() {
    let of = |keys: &str| {
        let text = format!("ports = {{ a = \"e0\", b = \"e1\" }}\n[a_to_b]\nrate = \"10Gbit/s\"\n{keys}\n");
        let config: RunConfig = Document::parse("x.toml", &text).unwrap().run_config().unwrap();
        EgressSetup::of("a_to_b", &config.a_to_b, &config.ports.b, false)
    };
    let policy = "policy = { utilization_low = \"94%\", utilization_target = \"95%\" }";
    let good = of(&format!("aqm = {{ name = \"gsp\" }}\n{policy}")).unwrap().unwrap();
    assert_eq!((good.interface.as_str(), good.link, good.overhead), ("e1", Rate::from_mbps(10_000), 24));
    for (keys, told) in [
        (format!("aqm = {{ name = \"codel\" }}\n{policy}"), "`a_to_b.aqm.name` must be \"gsp\""),
        ("aqm = { name = \"gsp\" }".into(), "`a_to_b.policy` is missing"),
        (
            "aqm = { name = \"gsp\" }\npolicy = {}".into(),
            "`a_to_b.policy.utilization_target` must be below 100%",
        ),
        (format!("delay = \"5ms\"\naqm = {{ name = \"gsp\" }}\n{policy}"), "`a_to_b.delay` must be left out"),
        (
            format!("overhead = \"docsis\"\naqm = {{ name = \"gsp\" }}\n{policy}"),
            "`a_to_b.overhead` must be left out",
        ),
    ] {
        let wrong = of(&keys).unwrap_err().to_string();
        assert!(wrong.starts_with(told), "{wrong}");
    }
    let text = "ports = { a = \"e0\", b = \"e1\" }\n";
    let config = Document::parse("x.toml", text).unwrap().run_config().unwrap();
    assert!(EgressSetup::of("a_to_b", &config.a_to_b, "e1", false).unwrap().is_none());
}
