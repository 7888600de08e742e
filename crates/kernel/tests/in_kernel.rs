//! The BPF program beside the algorithm that it is a twin of.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::ops::ControlFlow;
use weir_aqm::algorithms::gsp::{Gsp, Params};
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Moment, Packet, Setpoint, Verdict};
use weir_config::{Document, RunConfig, Scenario};
use weir_kernel::program::{Answer, Noted, Probe, Program, Room, unfit};
use weir_kernel::{EgressSetup, SteeredProgram};
use weir_queue::{Discipline, Hosts, Limits, Shaper, Single};
use weir_steer::VirtualQueue;
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::{ethernet, frame, ipv4, ipv6};

/// When test runs begin.
const START: Time = Time::from_nanos(1_000_000_007);

/// A packet as it comes.
#[derive(Clone, Debug)]
struct Arrival {
    now: Time,
    frame: Vec<u8>,
    wire_len: u32,
    segments: u32,
}

impl Arrival {
    fn probe(&self) -> Probe<'_> {
        let (wire_len, segments) = (self.wire_len, self.segments);
        Probe { now: self.now, frame: &self.frame, wire_len, segments, segment_size: 0 }
    }
}

/// The algorithm over a virtual queue, as `weir_steer::Helm` asks it.
struct Twin {
    queue: VirtualQueue,
    gsp: Gsp,
    last: Time,
    overhead: i64,
    drops: u64,
    signals: u64,
    accepted: u64,
    segments: u64,
    seen: Seen,
    ended: Vec<Seen>,
}

/// What the law is told of the time between two signals.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    start: Time,
    end: Time,
    arrived: u64,
    dropped: u64,
    delay_min: Option<Duration>,
    ran_empty: bool,
}

impl Seen {
    fn since(start: Time) -> Seen {
        Seen { start, end: start, arrived: 0, dropped: 0, delay_min: None, ran_empty: false }
    }
}

impl Twin {
    fn new(params: &Params, overhead: i32, rate: Rate) -> Twin {
        Twin {
            queue: VirtualQueue::new(START, Bytes::ZERO, rate),
            gsp: Gsp::new(params, START),
            last: START,
            overhead: overhead.into(),
            drops: 0,
            signals: 0,
            accepted: 0,
            segments: 0,
            seen: Seen::since(START),
            ended: Vec::new(),
        }
    }

    /// The verdict, and the frame as it goes on.
    fn answer(&mut self, arrival: &Arrival) -> (Answer, Vec<u8>) {
        // What the algorithm is promised: time does not run backwards.
        let now = arrival.now.max(self.last);
        self.last = now;
        self.queue.drain(now);
        let read = frame::read(&arrival.frame);
        let len = i64::from(arrival.wire_len) + self.overhead * i64::from(arrival.segments);
        let len = Bytes::new(u64::try_from(len).unwrap_or(0));
        let packet = Packet { arrived: now, len, seq: 0, flow: 0, ecn: read.ecn };
        self.seen.arrived += len.get();
        let least = self.seen.delay_min.map_or(self.queue.delay(), |least| least.min(self.queue.delay()));
        self.seen.delay_min = Some(least);
        self.seen.ran_empty |= self.queue.is_empty();
        let verdict = self.gsp.on_enqueue(&Moment::new(now, self.queue.view(1), 0), &packet);
        if matches!(verdict, Verdict::Drop(_)) {
            self.seen.dropped += len.get();
        }
        // Signals at one instant are one.
        if verdict != Verdict::Forward && now > self.seen.start {
            self.ended.push(Seen { end: now, ..self.seen });
            self.seen = Seen::since(now);
        }
        let mut after = arrival.frame.clone();
        self.signals += u64::from(verdict != Verdict::Forward);
        if matches!(verdict, Verdict::Drop(_)) {
            self.drops += 1;
            return (Answer::Drop, after);
        }
        self.queue.add(len);
        self.accepted += len.get();
        self.segments += u64::from(arrival.segments);
        if verdict == Verdict::Forward {
            return (Answer::Pass, after);
        }
        frame::mark(&mut after, read.kind, read.network);
        (if read.ecn == Ecn::Ce { Answer::Pass } else { Answer::Mark }, after)
    }
}

/// The program, or why there is none.
fn loaded(test: &str, params: &Params, overhead: i32) -> Option<Program> {
    begun(test, Program::load(params, overhead))
}

/// The program before a queue, or why there is none.
fn admission(test: &str, params: &Params, room: Room) -> Option<Program> {
    begun(test, Program::load_admission(params, 0, room))
}

fn begun(test: &str, program: libbpf_rs::Result<Program>) -> Option<Program> {
    match program {
        Ok(mut program) => {
            program.begin(START).unwrap();
            Some(program)
        }
        // Only who may not is excused: what the kernel refuses for another reason is an error of the program.
        Err(e) if e.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
            println!("SKIPPED: {test}: needs root: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A frame with VLAN tags of these types and what the type `carries` says.
fn framed(carries: u16, ecn: Ecn, tags: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0; 110];
    let outer = tags.first().copied().unwrap_or(carries);
    ethernet::Header { destination: [2; 6], source: [4; 6], ethertype: outer }.write(&mut bytes).unwrap();
    for (number, _) in tags.iter().enumerate() {
        let at = 14 + 4 * number;
        // Priority and number of the network such that the first octet may be taken for that of an IP header.
        bytes[at..at + 2].copy_from_slice(&[0x45, 0x01]);
        let inner = tags.get(number + 1).copied().unwrap_or(carries);
        bytes[at + 2..at + 4].copy_from_slice(&inner.to_be_bytes());
    }
    let packet = &mut bytes[14 + 4 * tags.len()..];
    match carries {
        ethernet::IPV4 => {
            let header = ipv4::Header::new([10, 0, 0, 1], [10, 0, 0, 2]);
            let header =
                ipv4::Header { payload_len: 40, protocol: 17, traffic_class: 0xb8 | ecn as u8, ..header };
            header.write(packet).unwrap();
        }
        ethernet::IPV6 => {
            let header = ipv6::Header::new([0xfd; 16], [0xfe; 16]);
            let header =
                ipv6::Header { payload_len: 40, next_header: 17, traffic_class: 0xb8 | ecn as u8, ..header };
            header.write(packet).unwrap();
        }
        _ => {}
    }
    bytes
}

/// Every kind of frame once for each codepoint.
fn frames() -> Vec<Vec<u8>> {
    const TAG: u16 = 0x8100;
    const OUTER: u16 = 0x88a8;
    let mut all = Vec::new();
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        for tags in [&[][..], &[TAG], &[OUTER, TAG], &[TAG, TAG]] {
            all.push(framed(ethernet::IPV4, ecn, tags));
            all.push(framed(ethernet::IPV6, ecn, tags));
        }
    }
    // Not IP: ARP, MPLS, an address family that is not that of the type field, and a length instead of a
    // type.
    let mut six_for_four = framed(ethernet::IPV6, Ecn::Ect0, &[]);
    six_for_four[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
    all.extend([framed(0x0806, Ecn::Ect0, &[]), framed(0x8847, Ecn::Ect0, &[TAG]), six_for_four]);
    all.push(framed(100, Ecn::NotEct, &[]));
    all
}

/// How packets come: back to back, with gaps, with pauses in which the queue drains, with a clock that is
/// read on another processor; offloaded ones among them.
fn arrivals(seed: u64, rate: Rate, count: u32) -> impl Iterator<Item = Arrival> {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let frames = frames();
    let (mut now, mut load) = (START, 1.0);
    (0..count).map(move |number| {
        let segments = if dice.next_u32() % 4 == 0 { 1 + dice.next_u32() % 40 } else { 1 };
        let wire_len = 110 + dice.next_u32() % 1404 + (segments - 1) * 1514;
        if number % 300 == 0 {
            load = [0.3, 0.95, 1.2, 1.5, 2.0][(dice.next_u32() % 5) as usize];
        }
        let gap = rate.time_for(Bytes::new(u64::from(wire_len))).mul_f64(1.0 / load).as_nanos();
        let pause = if dice.next_u32() % 500 == 0 { u64::from(dice.next_u32() % 300_000_000) } else { 0 };
        now += Duration::from_nanos(gap / 2 + dice.next_u64() % gap.max(1) + pause);
        let back = if dice.next_u32() % 50 == 0 { u64::from(dice.next_u32() % 50_000) } else { 0 };
        let frame = frames[dice.next_u32() as usize % frames.len()].clone();
        Arrival { now: now - Duration::from_nanos(back), frame, wire_len, segments }
    })
}

/// Asks both about all arrivals, which must agree in every answer; how often they passed, were marked and
/// dropped. Rate and target change every thousand packets.
fn compared(
    name: &str,
    params: &Params,
    overhead: i32,
    link: Rate,
    all: impl Iterator<Item = Arrival>,
) -> Option<[u32; 3]> {
    let mut program = loaded(name, params, overhead)?;
    let mut rate = link;
    let mut twin = Twin::new(params, overhead, rate);
    let mut answers = [0u32; 3];
    for (number, arrival) in all.enumerate() {
        // There is room for 64 epochs.
        if number % 50 == 0 {
            let (_, told) = program.look().unwrap();
            compare_epochs(name, &told, &std::mem::take(&mut twin.ended), rate);
            program.steer(rate, twin.gsp.get(), Time::ZERO, None).unwrap();
        }
        if number % 1000 == 0 {
            rate = Rate::from_bps(link.as_bps() / 100 * (90 + (number / 1000 % 11) as u64));
            let target = params.target + Duration::from_micros(100 * (number / 1000 % 7) as u64);
            twin.queue.set_rate(rate);
            twin.gsp.set(target);
            program.steer(rate, target, Time::ZERO, None).unwrap();
        }
        let (got, want) = (program.answer(&arrival.probe()).unwrap(), twin.answer(&arrival));
        assert_eq!(got.0, want.0, "{name}, packet {number}: {arrival:?}, {:?}", program.state());
        if got.0 != Answer::Drop {
            assert_eq!(got.1, want.1, "{name}, packet {number}: {arrival:?}");
        }
        answers[want.0 as usize] += 1;
    }
    let state = program.state().unwrap();
    assert_eq!((state.signals, state.drops), (twin.signals, twin.drops), "{name}");
    assert_eq!(
        (state.accepted, state.accepted_packets),
        (Bytes::new(twin.accepted), twin.segments),
        "{name}"
    );
    assert_eq!(state.backlog(state.last, rate), twin.queue.backlog(), "{name}");
    assert_eq!(state.empty, twin.queue.empty_for(), "{name}");
    Some(answers)
}

/// What the program noted for the law beside what its twin saw. The delay is of what waited, at the rate now,
/// so that it is not exact where the rate was changed in between, and to a nanosecond otherwise.
fn compare_epochs(name: &str, told: &[Noted], seen: &[Seen], rate: Rate) {
    assert_eq!(told.len(), seen.len(), "{name}");
    for (told, seen) in told.iter().zip(seen) {
        let epoch = told.epoch(rate, rate, true);
        assert_eq!(
            (epoch.start, epoch.now, epoch.arrived.get(), told.dropped.get(), epoch.ran_empty),
            (seen.start, seen.end, seen.arrived, seen.dropped, seen.ran_empty),
            "{name}: {told:?}"
        );
        let without = told.epoch(rate, rate, false).arrived.get();
        assert_eq!(without, seen.arrived - seen.dropped, "{name}");
        let (Some(got), Some(want)) = (epoch.delay_min, seen.delay_min) else {
            // No packet left a queue in the meantime.
            assert_eq!(epoch.delay_min, seen.delay_min, "{name}");
            continue;
        };
        let (got, want) = (got.as_nanos(), want.as_nanos());
        assert!(got.abs_diff(want) <= 1 + want / 5, "{name}: {got} {want}");
    }
}

#[test]
fn the_program_decides_as_the_algorithm_does() {
    let target = Duration::from_micros(200);
    let ms = Duration::from_millis;
    for (seed, mbps, overhead, params) in [
        (
            1,
            10_000,
            0,
            Params { interval: Duration::from_micros(200), tau: ms(1), target, ..Params::default() },
        ),
        (2, 1000, 24, Params { ecn: false, interval: ms(2), tau: ms(10), target, ..Params::default() }),
        (3, 100, -14, Params { burst_rule: false, alpha: 0.75, target, ..Params::default() }),
        (4, 10, 24, Params { tau: ms(40), interval: ms(3), target, ..Params::default() }),
    ] {
        let link = Rate::from_mbps(mbps);
        let all = arrivals(seed, link, 6000);
        let name = format!("the_program_decides_as_the_algorithm_does, {mbps} Mbit/s");
        let Some(answers) = compared(&name, &params, overhead, link, all) else { return };
        assert!(answers[2] > 5 && answers[0] > 1000, "{answers:?}");
        assert_eq!(answers[1] > 5, params.ecn, "{answers:?}");
    }
}

#[test]
fn the_program_decides_as_the_algorithm_does_whatever_the_parameters() {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut between =
        |from: f64, to: f64| from * (to / from).powf(f64::from(dice.next_u32()) / f64::from(u32::MAX));
    let mut signals = 0;
    for seed in 0..20 {
        let link = Rate::from_bps(between(200e3, 100e9) as u64);
        // A weight that the program has exactly: it keeps 16 bits of fraction.
        let alpha = (between(0.1, 20.0) * 65_536.0).round() / 65_536.0;
        let packet = link.time_for(Bytes::new(10_000));
        let params = Params {
            target: packet.mul_f64(between(0.2, 20.0)),
            interval: packet.mul_f64(between(1.0, 100.0)),
            tau: packet.mul_f64(between(10.0, 1000.0)),
            max_cum: packet.mul_f64(between(10.0, 10_000.0)),
            alpha,
            burst_rule: seed % 3 != 0,
            ecn: seed % 5 != 0,
            ..Params::default()
        };
        if unfit(&params).is_some() {
            continue;
        }
        let name =
            format!("the_program_decides_as_the_algorithm_does_whatever_the_parameters, {seed}: {params:?}");
        let Some(answers) =
            compared(&name, &params, [0, 24, -14][seed as usize % 3], link, arrivals(seed, link, 2000))
        else {
            return;
        };
        signals += answers[1] + answers[2];
    }
    assert!(signals > 500, "{signals}");
}

/// Packets at exactly the rate at which they are served, with rates that no binary fraction is equal to:
/// whether the queue is empty at an arrival hangs on the last bit.
#[test]
fn the_program_decides_as_the_algorithm_does_where_a_queue_just_empties() {
    for (bps, gap) in
        [(9_600_000_000, 1250), (10_000_000_000, 1200), (3_000_000_000, 4000), (7_000_000, 1_714_286)]
    {
        let params = Params {
            target: Duration::from_nanos(gap),
            interval: Duration::from_nanos(10 * gap),
            ..Params::default()
        };
        let frame = framed(ethernet::IPV4, Ecn::Ect0, &[]);
        let all = (0..2000u64).map(|n| {
            // Now and then one more, so that something waits for a while.
            let more = if n % 40 == 20 { 6000 } else { 0 };
            let now = START + Duration::from_nanos(n * gap);
            Arrival { now, frame: frame.clone(), wire_len: 1500 + more, segments: 1 }
        });
        let name = "the_program_decides_as_the_algorithm_does_where_a_queue_just_empties";
        let Some(answers) = compared(name, &params, 0, Rate::from_bps(bps), all) else { return };
        assert!(answers[1] > 0, "{answers:?}");
    }
}

#[test]
fn segments_that_nobody_counted_are_counted() {
    let Some(mut program) = loaded("segments_that_nobody_counted_are_counted", &Params::default(), 24) else {
        return;
    };
    program.steer(Rate::from_mbps(10_000), Duration::from_millis(10), Time::ZERO, None).unwrap();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut before = program.state().unwrap();
    for number in 0..3000u64 {
        let (carries, ip) = if number % 2 == 0 { (ethernet::IPV4, 20) } else { (ethernet::IPV6, 40) };
        let tcp = 20 + 4 * (dice.next_u32() % 11);
        let (headers, size) = (14 + ip + tcp, 200 + dice.next_u32() % 1300);
        let payload = 1 + dice.next_u32() % 3000;
        let count = payload.div_ceil(size);
        let mut frame = framed(carries, Ecn::NotEct, &[]);
        frame.resize((headers + payload) as usize, 0);
        frame[if ip == 20 { 14 + 9 } else { 14 + 6 }] = 6;
        frame[14 + ip as usize + 12] = (tcp / 4 * 16) as u8;
        let wire_len = frame.len() as u32 + (count - 1) * headers;
        let now = START + Duration::from_micros(10 * number);
        for (segments, segment_size) in [(count, size), (0, if count > 1 { size } else { 0 })] {
            program.answer(&Probe { now, frame: &frame, wire_len, segments, segment_size }).unwrap();
            let after = program.state().unwrap();
            let told = format!("{headers} + {payload} bytes in segments of {size}: {count}");
            assert_eq!(after.accepted_packets - before.accepted_packets, u64::from(count), "{told}");
            let bytes = u64::from(wire_len + 24 * count);
            assert_eq!(after.accepted.get() - before.accepted.get(), bytes, "{told}");
            before = after;
        }
    }
}

#[test]
fn what_is_not_steered_any_more_lets_every_packet_pass() {
    let Some(mut program) =
        loaded("what_is_not_steered_any_more_lets_every_packet_pass", &Params::default(), 0)
    else {
        return;
    };
    let frame = framed(ethernet::IPV4, Ecn::NotEct, &[]);
    let drops = |program: &mut Program, from_s: u64| {
        let mut count = 0;
        for n in 0..20_000 {
            let now = Time::from_nanos(from_s * 1_000_000_000 + n * 10_000);
            let probe = Probe { now, frame: &frame, wire_len: 1514, segments: 1, segment_size: 0 };
            count += u32::from(program.answer(&probe).unwrap().0 == Answer::Drop);
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

/// Signals that nobody reads of: the last epoch goes on, so that no byte and no time is lost.
#[test]
fn epochs_beyond_the_room_for_them_become_one() {
    let params = Params { interval: Duration::from_micros(1), ..Params::default() };
    let Some(mut program) = loaded("epochs_beyond_the_room_for_them_become_one", &params, 0) else { return };
    let (rate, target) = (Rate::from_mbps(8), Duration::from_micros(1));
    program.steer(rate, target, Time::ZERO, None).unwrap();
    let frame = framed(ethernet::IPV4, Ecn::Ect0, &[]);
    let mut come = 0;
    let mut send = |program: &mut Program, count: u64| {
        for _ in 0..count {
            come += 1;
            let now = START + Duration::from_micros(100 * come);
            let probe = Probe { now, frame: &frame, wire_len: 1000, segments: 1, segment_size: 0 };
            program.answer(&probe).unwrap();
        }
    };
    send(&mut program, 300);
    let (state, told) = program.look().unwrap();
    assert!(state.signals > 200, "{state:?}");
    assert_eq!(told.len(), 64);
    program.steer(rate, target, Time::ZERO, None).unwrap();
    send(&mut program, 10);
    let (_, later) = program.look().unwrap();
    assert_eq!(later.len(), 10);
    let all: Vec<&Noted> = told.iter().chain(&later).collect();
    assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{all:?}");
    assert_eq!(all.iter().map(|noted| noted.arrived.get()).sum::<u64>(), 310_000);
    assert_eq!(program.look().unwrap().1, [], "each is told once");
}

/// What the algorithm was asked when it was written, and what it answered.
#[test]
fn admission_answers_the_golden_steps() {
    const TEST: &str = "admission_answers_the_golden_steps";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/vectors/gsp.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let head = lines.next().unwrap();
    let number = |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap();
    let time = |key: &str| Duration::from_nanos(number(&head["params"], key));
    // The parameters that the program has; the others are what it is written for.
    let params = Params {
        target: time("target"),
        interval: time("interval"),
        tau: time("tau"),
        max_cum: time("max_cum"),
        alpha: head["params"]["alpha"].as_f64().unwrap(),
        burst_rule: head["params"]["burst_rule"].as_bool().unwrap(),
        ecn: head["params"]["ecn"].as_bool().unwrap(),
        ..Params::default()
    };
    let link = Rate::from_mbps(1);
    let room = |bytes| Room { link, limit: Bytes::new(bytes), catch_up: Duration::ZERO };
    let Some(mut program) = admission(TEST, &params, room(0)) else { return };
    program.begin(Time::from_nanos(number(&head, "start_ns"))).unwrap();
    let mut asked = [0; 4];
    for (line, step) in lines.enumerate() {
        let call = step["call"].as_str().unwrap();
        let fits = match call {
            "enqueue" => true,
            "overflow" => false,
            _ => continue,
        };
        let len = number(&step, "len");
        let waiting = number(&step, "backlog");
        // Where there is no room, what comes would be one byte too much.
        program.set_room(room(if fits { waiting + len } else { waiting + len - 1 }));
        program.steer(link, params.target, Time::ZERO, None).unwrap();
        let delay = Duration::from_nanos(number(&step, "delay_ns"));
        program.set_waiting(delay, number(&step, "packets"), Bytes::new(waiting)).unwrap();
        let frame = framed(ethernet::IPV4, Ecn::from_bits(number(&step, "ecn") as u8), &[]);
        let now = Time::from_nanos(number(&step, "now_ns"));
        let probe = Probe { now, frame: &frame, wire_len: len as u32, segments: 1, segment_size: 0 };
        let signals = program.state().unwrap().signals;
        let (got, _) = program.answer(&probe).unwrap();
        let signalled = program.state().unwrap().signals > signals;
        let (want, at) = match step["verdict"].as_str() {
            Some("forward") => ((Answer::Pass, false), 0),
            // One that has CE already is as it was.
            Some("mark: set point") if got == Answer::Pass => ((Answer::Pass, true), 1),
            Some("mark: set point") => ((Answer::Mark, true), 1),
            Some("drop: set point") => ((Answer::Drop, true), 2),
            None => ((Answer::Drop, false), 3),
            Some(other) => panic!("{other}"),
        };
        asked[at] += 1;
        assert_eq!((got, signalled), want, "line {}: {step}", line + 2);
    }
    assert!(asked.iter().all(|count| *count > 5), "{asked:?}");
}

/// A queue of Weir behind its shaper beside what two programs of the kernel do: every answer, when each
/// packet leaves, how long it waited, what the law is told.
#[test]
fn the_queue_does_as_a_queue_of_weir_does() {
    const TEST: &str = "the_queue_does_as_a_queue_of_weir_does";
    let ms = Duration::from_millis;
    let us = Duration::from_micros;
    for (seed, mbps, bytes, catch_up, params) in [
        (1, 10, 60_000, ms(5), Params { tau: ms(100), interval: ms(20), ..Params::default() }),
        (
            2,
            1000,
            400_000,
            ms(1),
            Params { ecn: false, target: us(100), interval: us(500), tau: ms(10), ..Params::default() },
        ),
        (
            3,
            100,
            30_000,
            us(200),
            Params { burst_rule: false, alpha: 0.75, target: us(800), interval: ms(5), ..Params::default() },
        ),
        (4, 7, 20_000, Duration::ZERO, Params { target: ms(8), interval: ms(5), ..Params::default() }),
    ] {
        let mut link = Rate::from_mbps(mbps);
        let limit = Bytes::new(bytes);
        let Some(mut program) = admission(TEST, &params, Room { link, limit, catch_up }) else { return };
        program.steer(link, params.target, Time::ZERO, None).unwrap();
        let mut shaper = Shaper::new(link, catch_up);
        let limits = Limits { bytes: limit, packets: 1_000_000 };
        let mut queue = Single::new(Gsp::new(&params, START), limits, link, 1);
        // The queue is empty at the start.
        let mut seen = Seen { delay_min: Some(Duration::ZERO), ..Seen::since(START) };
        let mut ended = Vec::new();
        let (mut left, mut answers, mut late) = (0u64, [0u32; 3], Duration::ZERO);
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut now, mut load) = (START, 1.0);
        for (number, arrival) in arrivals(seed, link, 4000).enumerate() {
            let wire_len = 110 + arrival.wire_len % 1404;
            if number % 300 == 0 {
                load = [0.3, 0.95, 1.2, 1.5, 2.0][(dice.next_u32() % 5) as usize];
            }
            let gap = link.time_for(Bytes::new(wire_len.into())).mul_f64(1.0 / load).as_nanos();
            let pause = if dice.next_u32() % 500 == 0 { u64::from(dice.next_u32() % 300_000_000) } else { 0 };
            now += Duration::from_nanos(gap / 2 + dice.next_u64() % gap.max(1) + pause);
            let arrival = Arrival { now, segments: 1, wire_len, ..arrival };
            // What leaves before; the timer may be late.
            while let Some(arrived) = queue.head_arrived() {
                let due = shaper.departure(arrived) + late;
                if due > now {
                    break;
                }
                late = Duration::from_nanos(dice.next_u64() % 300_000);
                shaper.looked(due);
                let at = shaper.departure(arrived);
                let gone = queue.dequeue(at, &mut |_: &_, (), _| unreachable!()).unwrap();
                shaper.sent(at, gone.packet.len);
                let frame = framed(ethernet::IPV4, Ecn::NotEct, &[]);
                let wire_len = gone.packet.len.get() as u32;
                let probe = Probe { now: due, frame: &frame, wire_len, segments: 1, segment_size: 0 };
                assert!(program.step(&probe, Some(arrived)).unwrap(), "{mbps} Mbit/s, packet {number}");
                left += gone.packet.len.get();
                seen.delay_min = seen.delay_min.map(|least| least.min(gone.sojourn)).or(Some(gone.sojourn));
                let is_empty = queue.packets() == 0;
                if is_empty {
                    (seen.delay_min, seen.ran_empty) = (Some(Duration::ZERO), true);
                }
                let waiting = program.state().unwrap().waiting.unwrap();
                let want = if is_empty { Duration::ZERO } else { gone.sojourn };
                assert_eq!(
                    (waiting.delay, waiting.packets, waiting.bytes, waiting.free),
                    (want, queue.packets().into(), queue.backlog(), shaper.departure(Time::ZERO)),
                    "{mbps} Mbit/s, packet {number}"
                );
            }
            if number % 20 == 0 {
                let (_, told) = program.look().unwrap();
                compare_epochs(TEST, &told, &std::mem::take(&mut ended), link);
                // A rate that changes while packets wait.
                if number % 1000 == 0 {
                    link = Rate::from_mbps(mbps * [1, 3, 2, 5][number / 1000] / 2);
                    program.set_room(Room { link, limit, catch_up });
                    shaper.set_rate(link);
                    queue.set_rate(link);
                }
                program.steer(link, params.target, Time::ZERO, None).unwrap();
            }
            let read = frame::read(&arrival.frame);
            let len = Bytes::new(arrival.wire_len.into());
            let hosts = Hosts { sender: 0, receiver: 0 };
            let before = *queue.counters();
            let mut dropped = None;
            let comes = weir_queue::Arrival { len, flow: 0, hosts, ecn: read.ecn, nqb: false };
            queue.enqueue(now, comes, (), &mut |_: &_, (), cause| dropped = Some(cause));
            seen.arrived += len.get();
            let marked = queue.counters().marked > before.marked;
            if dropped.is_some() {
                seen.dropped += len.get();
            }
            let signalled = marked || dropped == Some(Cause::SetPoint);
            if signalled && now > seen.start {
                ended.push(Seen { end: now, ..seen });
                seen = Seen::since(now);
                if queue.packets() - u32::from(dropped.is_none()) == 0 {
                    (seen.delay_min, seen.ran_empty) = (Some(Duration::ZERO), true);
                }
            }
            let want = match (dropped, marked) {
                (Some(_), _) => Answer::Drop,
                (None, true) if read.ecn != Ecn::Ce => Answer::Mark,
                _ => Answer::Pass,
            };
            let (got, _) = program.answer(&arrival.probe()).unwrap();
            assert_eq!(got, want, "{mbps} Mbit/s, packet {number}: {arrival:?}, {:?}", program.state());
            if got != Answer::Drop {
                let frame = framed(ethernet::IPV4, Ecn::NotEct, &[]);
                let probe = Probe { now, frame: &frame, ..arrival.probe() };
                program.step(&probe, None).unwrap();
            }
            answers[got as usize] += 1;
        }
        let state = program.state().unwrap();
        assert_eq!(state.accepted.get(), left);
        assert_eq!(state.waiting.unwrap().overflows, queue.counters().overflowed, "{mbps}");
        assert!(answers[0] > 1000 && answers[2] > 5 && (answers[1] > 0) == params.ecn, "{answers:?}");
    }
}

/// From the next look on it decides as one that was loaded with these parameters, at the other rate, which
/// the virtual queue has at once.
#[test]
fn it_holds_to_other_parameters_and_another_rate_while_it_runs() {
    const TEST: &str = "it_holds_to_other_parameters_and_another_rate_while_it_runs";
    let policy = || {
        let text = "ports = { a = \"x\", b = \"y\" }\n[a_to_b]\nrate = \"1Mbit/s\"\naqm = { name = \"gsp\" }\n\
                    policy = { utilization_low = \"94%\", utilization_target = \"95%\", target_max = \"5ms\" }\n";
        let config: RunConfig = Document::parse("x.toml", text).unwrap().run_config().unwrap();
        config.a_to_b.policy.unwrap().policy()
    };
    let ms = Duration::from_millis;
    let setup = |mbps, params: Params| EgressSetup {
        interface: "none".into(),
        link: Rate::from_mbps(mbps),
        overhead: 0,
        params,
        policy: policy(),
        keep: true,
        room: None,
    };
    let before = setup(100, Params { interval: ms(20), tau: ms(100), ..Params::default() });
    let after = Params { interval: ms(3), tau: ms(40), alpha: 0.75, ecn: false, ..Params::default() };
    let after = setup(10, after);
    let Some(program) = loaded(TEST, &before.params, 0) else { return };
    let mut steered = SteeredProgram::begin(program, &before, START).unwrap();
    let mut now = START;
    for (number, arrival) in arrivals(5, before.link, 3000).enumerate() {
        now = now.max(arrival.now);
        if number % 50 == 0 {
            steered.look(now).unwrap();
        }
        steered.program_mut().answer(&arrival.probe()).unwrap();
    }
    assert!(steered.moves() > 0);
    // What contradicts itself changes nothing.
    let mut wrong = after.clone();
    (wrong.policy.target_min, wrong.policy.target_max) = (ms(9), ms(5));
    assert!(steered.adopt(&wrong, now).is_err() && steered.rate() > after.link);
    steered.adopt(&after, now).unwrap();
    assert!((9_500_000..=10_000_000).contains(&steered.rate().as_bps()), "{}", steered.rate());
    steered.look(now).unwrap();
    // Nothing is left of what was accumulated, nor waits, so that it is as a program that begins.
    for _ in 0..3 {
        now += Duration::from_secs(1000);
        let frame = framed(ethernet::IPV4, Ecn::NotEct, &[]);
        let probe = Probe { now, frame: &frame, wire_len: 110, segments: 1, segment_size: 0 };
        assert_eq!(steered.program_mut().answer(&probe).unwrap().0, Answer::Pass);
    }
    now += Duration::from_secs(1000);
    let mut twin = Twin::new(&after.params, 0, steered.rate());
    twin.gsp.set(steered.law().bounded_setpoint());
    let mut answers = [0u32; 3];
    for (number, arrival) in arrivals(6, after.link, 3000).enumerate() {
        let later = Arrival { now: now + arrival.now.since(START), ..arrival.clone() };
        let (got, want) = (steered.program_mut().answer(&later.probe()).unwrap().0, twin.answer(&later).0);
        assert_eq!(got, want, "packet {number}: {later:?}");
        answers[want as usize] += 1;
    }
    assert!(answers[0] > 500 && answers[1] == 0 && answers[2] > 20, "{answers:?}");
}

/// The program as the algorithm of a simulated link, looked at each 10 ms as `weir run --in-kernel` does.
struct InTheLoop {
    steered: SteeredProgram,
    looked: Time,
    /// One for each codepoint.
    frames: Vec<Vec<u8>>,
}

impl Aqm for InTheLoop {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        // A time of zero would be that of the clock.
        let now = START + Duration::from_nanos(m.now.as_nanos());
        if now.since(self.looked) >= Duration::from_millis(10) {
            self.looked = now;
            self.steered.look(now).unwrap();
        }
        let wire_len = p.len.get() as u32;
        let frame = &self.frames[p.ecn as usize];
        let probe = Probe { now, frame, wire_len, segments: 1, segment_size: 0 };
        match self.steered.program_mut().answer(&probe).unwrap().0 {
            Answer::Pass => Verdict::Forward,
            Answer::Mark => Verdict::Mark(Cause::SetPoint),
            Answer::Drop => Verdict::Drop(Cause::SetPoint),
        }
    }
}

#[test]
fn flows_use_as_much_of_a_link_as_under_the_law_that_sees_each_packet() {
    const TEST: &str = "flows_use_as_much_of_a_link_as_under_the_law_that_sees_each_packet";
    let params = Params { interval: Duration::from_millis(40), ..Params::default() };
    for (flows, ecn) in [(2, true), (9, true), (36, false)] {
        let of = |tables: &str| {
            let text = format!(
                "title = \"loop\"\n[link]\nrate = \"100Mbit/s\"\nbuffer = \"500kB\"\n[path]\nrtt = \"20ms\"\n{tables}\
                 [[flows]]\ncount = {flows}\necn = {ecn}\n[run]\nduration = \"30s\"\nwarmup = \"10s\"\nsample = \"1s\"\n"
            );
            Scenario::parse("loop.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
        };
        let keys = "utilization_low = \"94%\"\nutilization_target = \"95%\"\n";
        let exact = of(&format!("[aqm]\nname = \"gsp\"\ninterval = \"40ms\"\n[policy]\n{keys}"));
        let policy = exact.policy.as_ref().unwrap().policy();
        let exact = weir_sim::run(&exact, 1, &mut |_| ControlFlow::Continue(())).unwrap();
        let Some(program) = loaded(TEST, &params, 0) else { return };
        let link = Rate::from_mbps(100);
        let interface = "none".to_string();
        let setup = EgressSetup {
            interface,
            link,
            overhead: 0,
            params: params.clone(),
            policy,
            keep: true,
            room: None,
        };
        let steered = SteeredProgram::begin(program, &setup, START).unwrap();
        let frames = (0..4).map(|ecn| framed(ethernet::IPV4, Ecn::from_bits(ecn), &[])).collect();
        let aqm = InTheLoop { steered, looked: START, frames };
        let put = |sim: &mut weir_sim::Simulation<()>| {
            sim.links_mut()[0].queue = weir_sim::queue_of(aqm, Bytes::new(500_000), link, 1);
        };
        let looked = weir_sim::run_prepared(&of("[aqm]\nname = \"tail_drop\"\n"), 1, put, &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let [exact, looked] = [exact, looked].map(|o| o.recording.summary.links[0].clone());
        let all = format!(
            "{flows} flows, ECN {ecn}: {:.4} used, {:.2} ms; under the exact law {:.4}, {:.2} ms",
            looked.utilization, looked.delay_ms.mean, exact.utilization, exact.delay_ms.mean
        );
        println!("{all}");
        assert!((looked.utilization - exact.utilization).abs() < 0.01, "{all}");
    }
}

/// Not judged, as the machine may be busy; the figure in docs/kernel-queues.md is what it says on an idle
/// one.
#[test]
fn what_a_packet_costs() {
    for (what, rate) in
        [("a packet", Rate::from_mbps(10_000)), ("a packet that is let pass unseen", Rate::ZERO)]
    {
        let Some(mut program) = loaded("what_a_packet_costs", &Params::default(), 0) else { return };
        program.steer(rate, Duration::from_micros(200), Time::ZERO, None).unwrap();
        let frame = framed(ethernet::IPV4, Ecn::Ect0, &[]);
        let probe = Probe { now: START, frame: &frame, wire_len: 110, segments: 1, segment_size: 0 };
        let cost = (0..10).map(|_| program.cost(&probe, 100_000).unwrap()).min().unwrap();
        println!("{what} costs {} ns in the program", cost.as_nanos());
        assert!(cost < std::time::Duration::from_micros(20), "{cost:?}");
    }
}

#[test]
fn parameters_beyond_its_arithmetic_are_refused() {
    assert_eq!(unfit(&Params::default()), None);
    let long =
        Params { interval: Duration::from_secs(100), tau: Duration::from_secs(1000), ..Params::default() };
    let told = unfit(&long).unwrap();
    assert_eq!((told.key.as_str(), told.remedy.starts_with("give 0 s or less")), ("tau", true), "{told:?}");
    assert_eq!(unfit(&Params { delay_based: false, ..Params::default() }).unwrap().key, "delay_based");
}

#[test]
fn a_direction_that_asks_for_more_is_refused_with_the_key() {
    let of = |keys: &str| {
        let text = format!("ports = {{ a = \"e0\", b = \"e1\" }}\n[a_to_b]\nrate = \"10Gbit/s\"\n{keys}\n");
        let config: RunConfig = Document::parse("x.toml", &text).unwrap().run_config().unwrap();
        EgressSetup::of("a_to_b", &config.a_to_b, &config.ports.b, false, false)
    };
    let policy = "policy = { utilization_low = \"94%\", utilization_target = \"95%\" }";
    let good = of(&format!("aqm = {{ name = \"gsp\" }}\n{policy}")).unwrap().unwrap();
    assert_eq!((good.interface.as_str(), good.link, good.overhead), ("e1", Rate::from_mbps(10_000), 38));
    for (keys, key, remedy) in [
        (format!("aqm = {{ name = \"codel\" }}\n{policy}"), "aqm.name", "give \"gsp\""),
        (format!("aqm = {{ name = \"gsp\", adaptive = false }}\n{policy}"), "aqm.adaptive", "give true"),
        ("aqm = { name = \"gsp\" }".into(), "policy", "give one with a `utilization_target` below 100%"),
        ("aqm = { name = \"gsp\" }\npolicy = {}".into(), "policy.utilization_target", "give less than 100%"),
        (format!("delay = \"5ms\"\naqm = {{ name = \"gsp\" }}\n{policy}"), "delay", "leave it out"),
        (
            format!("overhead = \"docsis\"\naqm = {{ name = \"gsp\" }}\n{policy}"),
            "overhead",
            "leave it out and give `accounting`",
        ),
    ] {
        let wrong = of(&keys).unwrap_err();
        assert_eq!(wrong.key, format!("a_to_b.{key}"));
        assert!(wrong.remedy.starts_with(remedy), "{wrong:?}");
    }
    // The queue itself aims at the whole of the link.
    let queue = |keys: &str| {
        let text =
            format!("ports = {{ a = \"e0\", b = \"e1\" }}\n[a_to_b]\naqm = {{ name = \"gsp\" }}\n{keys}\n");
        let config: RunConfig = Document::parse("x.toml", &text).unwrap().run_config().unwrap();
        EgressSetup::of("a_to_b", &config.a_to_b, &config.ports.b, false, true)
    };
    let good = queue("rate = \"10Mbit/s\"\nbuffer = \"100kB\"\npolicy = {}").unwrap().unwrap();
    let room =
        Room { link: Rate::from_mbps(10), limit: Bytes::new(100_000), catch_up: Duration::from_millis(5) };
    assert_eq!(good.room, Some(room));
    for (keys, key, remedy) in [
        (format!("rate = \"10Mbit/s\"\n{policy}"), "policy.utilization_target", "give 100%"),
        ("rate = \"10Mbit/s\"".into(), "policy", "give one; `policy = {}`"),
        ("rate = \"20kbit/s\"\nbuffer = \"100kB\"\npolicy = {}".into(), "rate", "give 64kbit/s or more"),
    ] {
        let wrong = queue(&keys).unwrap_err();
        assert_eq!(wrong.key, format!("a_to_b.{key}"));
        assert!(wrong.remedy.starts_with(remedy), "{wrong:?}");
    }
    let text = "ports = { a = \"e0\", b = \"e1\" }\n";
    let config = Document::parse("x.toml", text).unwrap().run_config().unwrap();
    assert!(EgressSetup::of("a_to_b", &config.a_to_b, "e1", false, false).unwrap().is_none());
}
