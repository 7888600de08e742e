//! `weir run` between ports of many queues: each queue is served, in turn, and what the kernel drops is told.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::time::{Duration, Instant};
use weir_lab::{Testbed, TestbedConfig};

const MODES: [&str; 3] = ["xdp-native", "xdp-generic", "af_packet"];
/// Queues of the ports `a` and `b`.
const QUEUES: [[u32; 2]; 7] = [[1, 1], [6, 6], [8, 8], [16, 16], [32, 32], [64, 64], [5, 32]];
/// So many flows for each queue leave none without one: the chance is e^-16 for each.
const FLOWS_PER_QUEUE: u32 = 16;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A testbed whose links have so many queues.
fn testbed_of_queues(queues: [u32; 2]) -> Testbed {
    Testbed::new(TestbedConfig { queues, ..TestbedConfig::default() }).unwrap()
}

/// A UDP datagram of a flow, with a number in its payload.
fn datagram(flow: u32, number: u32) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2(SOURCE, DESTINATION)
        .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
        .udp(20_000 + flow as u16, 7000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[&number.to_be_bytes()[..], &[0; 60]].concat()).unwrap();
    frame
}

/// The number of a datagram.
fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

/// Sends a datagram of each flow at a low rate; which arrived, in order of arrival.
fn cross(from: &Raw, to: &Raw, flows: u32) -> Vec<u32> {
    to.drain(ms(1));
    for flow in 0..flows {
        from.send(&datagram(flow, flow));
        std::thread::sleep(Duration::from_micros(20));
    }
    let mut arrived = Vec::new();
    while arrived.len() < flows as usize
        && let Some(frame) = to.receive(PATIENCE)
    {
        if frame.get(6..12) == Some(&SOURCE) {
            arrived.push(number(&frame));
        }
    }
    arrived
}

/// How many frames each queue of a port got, as the driver counts them for native XDP.
fn per_queue(namespace: &str, port: &str, queues: u32) -> Vec<u64> {
    let text = exec(namespace, "ethtool", &["-S", port]);
    let of = |queue: u32| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        let value = text.lines().find_map(|line| line.trim().strip_prefix(&name));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse::<u64>().unwrap()
    };
    (0..queues).map(of).collect()
}

#[test]
fn flows_on_all_queues_pass_both_ways() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed_of_queues([64, 64]);
    let bot = testbed.bottleneck();
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    let mut wrong = Vec::new();
    for queues in QUEUES {
        let ends = [(testbed.sender(), "snd0"), (bot, "a"), (bot, "b"), (testbed.receiver(), "rcv0")];
        for ((namespace, device), count) in ends.into_iter().zip([queues[0], queues[0], queues[1], queues[1]])
        {
            let count = count.to_string();
            // One that has so many already says so by failing.
            try_exec(namespace, "ethtool", &["-L", device, "rx", &count, "tx", &count]);
            let told = exec(namespace, "ethtool", &["-l", device]);
            assert!(
                told.contains(&format!("Current hardware settings:\nRX:\t\t{count}\nTX:\t\t{count}\n")),
                "{told}"
            );
        }
        // In the other modes the smallest, the largest, and ports that differ.
        let is_all = [[1, 1], [64, 64], [5, 32]].contains(&queues);
        for mode in if is_all { &MODES[..] } else { &MODES[..1] } {
            let link = |name: &str, rate: &str| {
                format!("[{name}]\nrate = \"{rate}\"\n[{name}.aqm]\nname = \"tail_drop\"\n")
            };
            let config = patient(&ports(mode)) + &link("a_to_b", "50Mbit/s") + &link("b_to_a", "10Mbit/s");
            let weir = Weir::start(bot, &config);
            for (way, from, to, at) in [(0, &sender, &receiver, "a"), (1, &receiver, &sender, "b")] {
                let flows = FLOWS_PER_QUEUE * queues[way];
                let before = (*mode == MODES[0]).then(|| per_queue(bot, at, queues[way]));
                let mut arrived = cross(from, to, flows);
                arrived.sort();
                if !arrived.iter().copied().eq(0..flows) {
                    wrong.push(format!("{queues:?} queues, {mode}, into {at}: {} of {flows}", arrived.len()));
                }
                if let Some(before) = before {
                    let after = per_queue(bot, at, queues[way]);
                    let idle = before.iter().zip(&after).filter(|(before, after)| before == after).count();
                    assert_eq!(idle, 0, "{at}: queues without a frame: {before:?}, then {after:?}");
                }
            }
            let ended = weir.interrupt();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            let lost = [0, 1].map(|link| ended.fault(link, "lost_before_queue"));
            let warnings = ended.warnings();
            if lost != [0, 0] || !warnings.is_empty() {
                wrong.push(format!("{queues:?} queues, {mode}: lost {lost:?}, warnings {warnings:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "datagrams that arrived:\n{}", wrong.join("\n"));
    testbed.close().unwrap();
}

/// One flow for each queue of port `a`, found by trying. Of five that are tried at once each sends twice as
/// many frames as the one before, so that the frames of a queue tell which flows it has.
fn flow_of_each_queue(testbed: &Testbed, sender: &Raw, queues: u32) -> Vec<u32> {
    const AT_ONCE: u32 = 5;
    let mut flows = vec![None; queues as usize];
    let mut after = per_queue(testbed.bottleneck(), "a", queues);
    for first in (0..FLOWS_PER_QUEUE * queues).step_by(AT_ONCE as usize) {
        let before = after.clone();
        for nth in 0..AT_ONCE {
            (0..1 << nth).for_each(|_| sender.send(&datagram(first + nth, 0)));
        }
        let sent = (1 << AT_ONCE) - 1;
        let mut counts: Vec<u64> = Vec::new();
        // The kernel's thread that takes them may have to wait for a processor.
        until("all frames are counted", || {
            after = per_queue(testbed.bottleneck(), "a", queues);
            counts = before.iter().zip(&after).map(|(before, after)| after - before).collect();
            counts.iter().sum::<u64>() >= sent
        });
        // A frame of the kernel's own may have come between.
        if counts.iter().sum::<u64>() != sent {
            continue;
        }
        for nth in 0..AT_ONCE {
            let queue = counts.iter().position(|count| count >> nth & 1 == 1).expect("one has the flow");
            flows[queue].get_or_insert(first + nth);
        }
        if flows.iter().all(Option::is_some) {
            break;
        }
    }
    flows.into_iter().map(|flow| flow.expect("a flow for each queue")).collect()
}

#[test]
fn a_flood_on_one_queue_neither_delays_nor_costs_the_others_a_frame() {
    let Some(_turn) = turn() else { return };
    for (queues, few) in [(4, 50), (128, 8)] {
        judged(|attempt| flooded(queues, few, attempt));
    }
}

/// Floods one of many queues; few frames go to each of the others.
fn flooded(queues: u32, few: u32, attempt: &mut Attempt) {
    // Frames are counted, which what is taken away does not change while all are sent in time.
    attempt.tolerates(f64::MAX);
    let testbed = testbed_of_queues([queues, 1]);
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    // Frames go to the loop also while it is stopped.
    let config = ports("xdp-native") + "[fail_open]\nafter = \"900ms\"\n";
    let mut weir = Weir::start(testbed.bottleneck(), &config);
    let flows = flow_of_each_queue(&testbed, &sender, queues);
    receiver.drain(ms(50));
    let stopped = Instant::now();
    weir.stop();
    // More than the kernel has buffers for at one queue; few at the others, behind them.
    let flood = 6000;
    for number in 0..flood {
        sender.send(&datagram(flows[0], number));
    }
    for number in 0..few {
        flows[1..].iter().for_each(|flow| sender.send(&datagram(*flow, number)));
    }
    let stopped = stopped.elapsed();
    weir.signal(libc::SIGCONT);
    let arrived = receiver.drain(ms(1000));
    if stopped >= ms(900) {
        // The kernel forwarded past the loop, as this thread was kept from its processor.
        attempt.tolerates(0.5);
        attempt.stalled(1.0);
        return attempt.holds(format_args!("sending took {stopped:?}"), "less than 0.9 s", false);
    }
    let port = |frame: &[u8]| u32::from(u16::from_be_bytes([frame[34], frame[35]])) - 20_000;
    let last = arrived.iter().rposition(|frame| port(frame) != flows[0]);
    let counts: Vec<_> =
        flows.iter().map(|flow| arrived.iter().filter(|frame| port(frame) == *flow).count()).collect();
    say(format!("frames by queue {counts:?}, the last of those beside the flood came as number {last:?}"));
    assert!(counts[1..].iter().all(|count| *count == few as usize), "frames of the queues without a flood");
    // All of these, and as much of the flood as a few queues have.
    let most = (few * queues) as usize + 312;
    assert!(last.unwrap() < most, "{last:?} of {most}: queues are served in turn");
    // The kernel's own count of what the flood lost is told while the loop runs, and in the end.
    let lost = flood as usize - counts[0];
    assert!(lost > 0);
    let told = format!("a: {lost} frames");
    weir.until(&told);
    let err = weir.text("err");
    assert!(err.contains(&told) && err.contains(&format!("queue 0: {lost}")), "{err}");
    let ended = weir.interrupt();
    assert_eq!(ended.fault(0, "lost_before_queue"), lost as u64, "{}", ended.stdout);
    assert!(ended.json()["warnings"].to_string().contains(&told), "{}", ended.stdout);
}

#[test]
fn a_loop_that_sleeps_wakes_for_all_queues() {
    let Some(_turn) = turn() else { return };
    judged(asleep);
}

fn asleep(attempt: &mut Attempt) {
    // A loop that does not wake sleeps for several times as long as the bound.
    attempt.tolerates(0.05);
    let queues = 24;
    let testbed = testbed_of_queues([queues, 24]);
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    let weir = Weir::start(testbed.bottleneck(), &ports("xdp-native"));
    let flows = flow_of_each_queue(&testbed, &sender, queues);
    receiver.drain(ms(50));
    attempt.begin();
    let mut delays = Vec::new();
    for flow in &flows {
        // Long enough for the loop to fall asleep.
        std::thread::sleep(ms(12));
        let start = Instant::now();
        sender.send(&datagram(*flow, 0));
        let arrived = receiver.receive(ms(500));
        delays.push(arrived.map_or(ms(500), |_| start.elapsed()));
    }
    attempt.end();
    say(format!("delays by queue {delays:?}"));
    let mut late: Vec<_> = delays.split_off(8);
    late.sort();
    attempt.within("median delay in ms", late[late.len() / 2].as_secs_f64() * 1e3, ..2.0);
    weir.interrupt();
}

#[test]
fn ports_that_cannot_work_are_refused_with_numbers_and_remedy() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed_of_queues([129, 1]);
    let bot = testbed.bottleneck();
    let refused = |weir: Weir| {
        let ended = weir.wait();
        assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.stderr);
        ended.stderr
    };
    let told = refused(Weir::spawn(bot, &ports("xdp-native"), &[]));
    assert!(told.contains("a: it has 129 receive queues, and AF_XDP serves at most 128"), "{told}");
    assert!(told.contains("`ethtool -L a") && told.contains("mode = \"af_packet\""), "{told}");
    // AF_PACKET has no such limit, and "auto" finds that out.
    let ended = Weir::start(bot, &ports("auto")).interrupt();
    assert_eq!(ended.json()["ports"], "AF_PACKET");
    // Memory is locked: without the right to do that, the limit counts.
    exec(bot, "ethtool", &["-L", "a", "rx", "2", "tx", "2"]);
    let limited = ["prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock"];
    let told = refused(Weir::spawn(bot, &ports("xdp-native"), &limited));
    assert!(told.contains("MiB") && told.contains("64 KiB") && told.contains("ulimit -l"), "{told}");
}

#[test]
fn an_opening_that_takes_long_says_so_and_ends_when_it_is_told_to() {
    // It holds for seconds the lock that others wait for as they start.
    let Some(_turn) = turn() else { return };
    let testbed = testbed_of_queues([64, 64]);
    let bot = testbed.bottleneck();
    let states = || ["a", "b"].map(|port| state(bot, port));
    let found = states();
    // The kernel keeps something of each of 300 000 chunks for each of 128 sockets.
    let link = "[a_to_b]\nrate = \"10Gbit/s\"\nbuffer = \"300ms\"\naqm = { name = \"tail_drop\" }\n";
    let mut weir = Weir::spawn(bot, &(ports("xdp-native") + link), &[]);
    let start = Instant::now();
    while !weir.text("err").contains("opening a: ") && !weir.text("err").contains("opening b: ") {
        let said = weir.text("err");
        if weir.child.try_wait().unwrap().is_some() && said.contains("that are available") {
            return skipped("needs 6 GiB of memory".to_string());
        }
        assert!(start.elapsed() < ms(60_000) && !said.contains(" <-> "), "nothing was said: {said}");
        std::thread::sleep(ms(10));
    }
    let said_after = start.elapsed();
    weir.signal(libc::SIGTERM);
    // How long it takes until it looks is the kernel's work for a queue, which has no bound on a machine that
    // others use. That it looked between two queues is told below by their number.
    let ended = weir.wait();
    let all = start.elapsed();
    say(format!("told after {said_after:?} and ended after {all:?}: {}", ended.stderr.trim_end()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.json()["interrupted"].as_bool().unwrap(), "{}", ended.stdout);
    assert!(ended.stderr.contains(" of 64 receive queues after "), "{}", ended.stderr);
    assert_eq!(found, states());
    assert!(journals(bot).is_empty());
}
