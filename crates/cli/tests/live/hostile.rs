//! `weir run` with `upstream` beside a user who lies to what measures it and floods it: the other user's
//! delay stays, memory stays within what was told at the start, counters say what happened, and a killed run
//! leaves the link open.
//!
//! This test needs root; without it it says so and passes.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::tcpinfo::snapshot;
use weir_lab::{Testbed, TestbedConfig, in_netns};

/// Who does not feel it, by address and port.
const MODEST: (&str, u16) = ("10.77.0.2", 9000);
/// Who does it.
const HOSTILE: &str = "10.77.0.21";
/// Of frames between the end hosts: towards the user, and back.
const ETHERNET: [[u8; 14]; 2] =
    [[2, 0x77, 0, 0, 0, 2, 2, 0x77, 0, 0, 0, 1, 8, 0], [2, 0x77, 0, 0, 0, 1, 2, 0x77, 0, 0, 0, 2, 8, 0]];
/// Between two bursts of frames of a flood, and how many are in one.
const BURST: (Duration, u32) = (Duration::from_millis(1), 10);
/// Path of the modest user.
const DELAY_MS: f64 = 20.0;
/// How long each part is measured.
const PART: Duration = Duration::from_millis(600);

/// Does something until it is dropped.
struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
    fn new(mut step: impl FnMut() + Send + 'static) -> Busy {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                step();
            }
        });
        Busy(stop, Some(thread))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Knuth's MMIX generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

/// A frame between server and hostile user, towards the user or `back`. Its header has no checksum, so that
/// no kernel answers it.
fn frame(back: bool, protocol: u8, transport: &[u8], payload: usize) -> Vec<u8> {
    let (server, user) = ([10, 77, 0, 1], [10, 77, 0, 21]);
    let (from, to) = if back { (user, server) } else { (server, user) };
    let len = (20 + transport.len() + payload) as u16;
    let ip = [&[69, 0][..], &len.to_be_bytes(), &[0, 0, 0, 0, 64, protocol, 0, 0], &from, &to].concat();
    [&ETHERNET[usize::from(back)][..], &ip, transport, &vec![0; payload]].concat()
}

/// A TCP header with timestamps.
fn tcp(ports: (u16, u16), seq: u32, ack: u32, stamps: (u32, u32)) -> Vec<u8> {
    let words = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let rest = [0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10];
    [
        &words[..],
        &seq.to_be_bytes(),
        &ack.to_be_bytes(),
        &rest,
        &stamps.0.to_be_bytes(),
        &stamps.1.to_be_bytes(),
    ]
    .concat()
}

/// A datagram of QUIC with a spin bit.
fn quic(ports: (u16, u16), spin: bool, payload: usize) -> Vec<u8> {
    let len = (8 + payload) as u16;
    let first = 0x40 | if spin { 0x20 } else { 0 };
    let words = [ports.0.to_be_bytes(), ports.1.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    [words, vec![first]].concat()
}

/// What the hostile user is sent: in turns a flow that has endless data, flows of a packet each, and QUIC, at
/// more than twice the rate of the link.
fn towards(number: u32, dice: &mut Dice) -> Vec<u8> {
    const LEN: usize = 1200;
    let seq = number.wrapping_mul(LEN as u32);
    match number % 4 {
        0 => frame(false, 6, &tcp((80, 5000), seq, 1, (dice.next(), 1)), LEN),
        1 => frame(false, 17, &quic((443, 5001), dice.next() & 1 == 0, LEN), LEN - 1),
        _ => frame(false, 6, &tcp((dice.next() as u16, dice.next() as u16), seq, 1, (number, 1)), LEN),
    }
}

/// What it sends: acknowledgements of what never came, echoes of what was never sent, spin bits by chance.
fn lies(number: u32, dice: &mut Dice) -> Vec<u8> {
    match number % 3 {
        0 => frame(true, 6, &tcp((5000, 80), 1, dice.next(), (1, dice.next())), 0),
        1 => frame(true, 17, &quic((5001, 443), dice.next() & 1 == 0, 40), 39),
        _ => frame(true, 6, &tcp((dice.next() as u16, dice.next() as u16), 1, dice.next(), (1, 1)), 0),
    }
}

fn flood(testbed: &Testbed) -> [Busy; 2] {
    let busy = |namespace: &str, interface, make: fn(u32, &mut Dice) -> Vec<u8>| {
        let (raw, mut dice, mut number) = (Raw::open(namespace, interface), Dice(5), 0);
        Busy::new(move || {
            for _ in 0..BURST.1 {
                raw.send(&make(number, &mut dice));
                number += 1;
            }
            sleep(BURST.0);
        })
    };
    [busy(testbed.sender(), "snd0", towards), busy(testbed.receiver(), "rcv0", lies)]
}

/// A download of the modest user at some Mbit/s.
fn download(testbed: &Testbed) -> [Busy; 2] {
    let listener = in_netns(testbed.receiver(), || TcpListener::bind(MODEST)).unwrap().unwrap();
    let mut stream = in_netns(testbed.sender(), || TcpStream::connect(MODEST)).unwrap().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let reads = Busy::new(move || drop(accepted.read(&mut buffer)));
    let writes = Busy::new(move || {
        let _ = stream.write(&[0; 6_000]);
        sleep(Duration::from_millis(6));
    });
    [writes, reads]
}

/// The median of the round-trip times that the modest user's server sees, in ms.
fn delay(testbed: &Testbed) -> f64 {
    let (end, mut rtts) = (Instant::now() + PART, Vec::new());
    while Instant::now() < end {
        sleep(Duration::from_millis(10));
        let modest = |port| port == MODEST.1;
        let sockets = snapshot(testbed.sender()).unwrap();
        let tcp = sockets.into_iter().find(|s| modest(s.remote_port)).and_then(|s| s.tcp);
        rtts.extend(tcp.map(|tcp| f64::from(tcp.rtt_us) / 1e3));
    }
    rtts.sort_by(f64::total_cmp);
    // No number, which is within no bounds, where this thread did not come to look.
    rtts.get(rtts.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Memory that a process asked for, in MiB, whether it has used it yet or not.
fn memory(weir: &Weir) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", weir.child.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() / 1024.0
}

/// What was told at the start that memory takes, in MiB.
fn bound(told: &str) -> f64 {
    let (_, parts) = told.split_once("a_to_b: memory, taken at the start and never more: ").unwrap();
    let mut words = parts.lines().next().unwrap().split(' ').peekable();
    let mut sum = 0.0;
    while let Some(word) = words.next() {
        sum += if words.peek() == Some(&"MiB") { word.parse::<f64>().unwrap() } else { 0.0 };
    }
    sum
}

fn suspicion(seen: &serde_json::Value, name: &str) -> u64 {
    let all = seen["suspicions"].as_array().unwrap();
    all.iter().find(|s| s[0] == name).map_or(0, |s| s[1].as_u64().unwrap())
}

#[test]
fn a_user_who_lies_and_floods_costs_others_nothing() {
    let Some(_turn) = turn() else { return };
    for (upstream, aqm) in [("inform", "vaqm"), ("follow", "codel")] {
        judged(|attempt| beside_a_flood(upstream, aqm, attempt));
    }
}

fn beside_a_flood(upstream: &str, aqm: &str, attempt: &mut Attempt) {
    // Ten per cent to either side is asked.
    attempt.tolerates(0.05);
    let config = TestbedConfig { more_receivers: vec![HOSTILE.into()], ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap();
    let found = ["a", "b"].map(|port| state(testbed.bottleneck(), port));
    let text = format!(
        "{}[a_to_b]\nrate = \"50Mbit/s\"\nupstream = \"{upstream}\"\naqm = {{ name = \"{aqm}\" }}\n\
             queue = {{ discipline = \"user\", users = 64 }}\n[b_to_a]\ndelay = \"{DELAY_MS}ms\"\n",
        ports("xdp-native")
    );
    let mut weir = Weir::start(testbed.bottleneck(), &text);
    let bound = bound(&weir.text("err"));
    let modest = download(&testbed);
    sleep(Duration::from_millis(300));
    attempt.begin();
    let (alone, before) = (delay(&testbed), memory(&weir));
    let flood = flood(&testbed);
    sleep(Duration::from_millis(200));
    let (beside, after) = (delay(&testbed), memory(&weir));
    attempt.end();
    drop(flood);
    say(format!("{upstream}: {before:.1} MiB, then {after:.1}, of {bound:.1} told"));
    attempt.within(
        format!("{upstream}: beside {beside:.2} ms, of {alone:.2} alone"),
        beside / alone,
        0.9..=1.1,
    );
    if upstream == "inform" {
        let ended = weir.interrupt();
        let json = ended.json();
        say(format!("{}", json["links"][0]["upstream"]));
        let seen = &json["links"][0]["upstream"];
        for name in ["acks_beyond", "stamp_jumps", "untracked"] {
            assert!(suspicion(seen, name) > 100, "{name}: {seen}");
        }
    } else {
        // Killed in the middle of it, it leaves the link open and its places to whoever comes next.
        weir.signal(libc::SIGKILL);
        weir.wait();
        // The kernel forwards, and delays nothing.
        attempt.within("after SIGKILL in ms", delay(&testbed), ..DELAY_MS / 2.0);
        let next = Weir::start(testbed.bottleneck(), &text).interrupt();
        assert!(next.stderr.contains("after a killed run"), "{}", next.stderr);
    }
    drop(modest);
    assert!(after <= before + bound, "{upstream}: {before} MiB, then {after}, of {bound} told");
    assert_eq!(found, ["a", "b"].map(|port| state(testbed.bottleneck(), port)), "{upstream}");
    assert!(journals(testbed.bottleneck()).is_empty());
}
