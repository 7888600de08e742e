//! `weir run` on live interfaces: it fails open, is transparent, and puts everything back as it found it.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

use crate::common;

use common::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{Testbed, in_netns};

const MODES: [&str; 3] = ["xdp-native", "xdp-generic", "af_packet"];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A link of a rate towards the receiver, with the algorithm that the tests mostly use.
fn shaped(mode: &str, rate: &str, more: &str) -> String {
    format!("{}[a_to_b]\nrate = \"{rate}\"\n{more}\n[a_to_b.aqm]\nname = \"gsp\"\n", ports(mode))
}

/// Threads that make traffic; stopped and waited for when dropped.
struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn new() -> Traffic {
        Traffic { stop: Arc::default(), threads: Vec::new() }
    }

    fn run(&mut self, mut step: impl FnMut() + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                step();
            }
        }));
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A UDP socket of an end host; reads give up after a while, so that its thread can end.
fn udp(namespace: &str, address: &str) -> UdpSocket {
    let socket = in_netns(namespace, || UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(ms(100))).unwrap();
    socket
}

/// Lets TCP fill the link, at most at 50 Mbit/s; counts what arrives.
fn load(testbed: &Testbed, traffic: &mut Traffic) -> Arc<AtomicU64> {
    let listener = in_netns(testbed.receiver(), || TcpListener::bind("10.77.0.2:9000")).unwrap().unwrap();
    let mut stream = in_netns(testbed.sender(), || TcpStream::connect("10.77.0.2:9000")).unwrap().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let pace: u32 = 50_000_000 / 8;
    // SAFETY: the pointer and length describe `pace`.
    unsafe {
        let pointer: *const u32 = &pace;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
        assert_eq!(libc::setsockopt(stream.as_raw_fd(), level, name, pointer.cast(), 4), 0);
    }
    stream.set_write_timeout(Some(ms(100))).unwrap();
    accepted.set_read_timeout(Some(ms(100))).unwrap();
    let received = Arc::new(AtomicU64::new(0));
    let (data, counter) = (vec![0u8; 16 << 10], received.clone());
    traffic.run(move || drop(stream.write(&data)));
    let mut buffer = vec![0u8; 256 << 10];
    traffic.run(move || {
        if let Ok(n) = accepted.read(&mut buffer) {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    received
}

/// Numbered probes: when each was sent, and when those that did arrived.
#[derive(Default)]
struct Probes {
    sent: Mutex<Vec<Instant>>,
    arrived: Mutex<Vec<(Instant, u32)>>,
}

impl Probes {
    fn longest_gap(&self, span: Range<Instant>) -> Duration {
        longest_gap(&self.sent.lock().unwrap(), &self.arrived.lock().unwrap(), &span)
    }

    /// Median one-way delay of those that were sent in a span; endless where there are not twenty.
    fn median_delay(&self, span: Range<Instant>) -> Duration {
        let (sent, arrived) = (self.sent.lock().unwrap(), self.arrived.lock().unwrap());
        let both = arrived.iter().map(|(at, number)| (sent[*number as usize], *at));
        let mut delays: Vec<Duration> =
            both.filter(|(sent, _)| span.contains(sent)).map(|(sent, at)| at - sent).collect();
        delays.sort();
        // Few are sent where the threads of the test wait for a processor.
        if delays.len() > 20 { delays[delays.len() / 2] } else { Duration::MAX }
    }
}

/// Sends a small datagram every 5 ms.
fn probe(testbed: &Testbed, traffic: &mut Traffic) -> Arc<Probes> {
    let sender = udp(testbed.sender(), "10.77.0.1:7000");
    let receiver = udp(testbed.receiver(), "10.77.0.2:7000");
    let probes = Arc::<Probes>::default();
    let sent = probes.clone();
    traffic.run(move || {
        let number = {
            let mut sent = sent.sent.lock().unwrap();
            sent.push(Instant::now());
            sent.len() as u32 - 1
        };
        let _ = sender.send_to(&number.to_be_bytes(), "10.77.0.2:7000");
        sleep(ms(5));
    });
    let arrived = probes.clone();
    traffic.run(move || {
        let mut number = [0; 4];
        if receiver.recv(&mut number).is_ok() {
            arrived.arrived.lock().unwrap().push((Instant::now(), u32::from_be_bytes(number)));
        }
    });
    probes
}

/// Mbit/s of TCP payload that arrive during `span`.
fn goodput(received: &AtomicU64, span: Duration) -> f64 {
    let (start, before) = (Instant::now(), received.load(Ordering::Relaxed));
    sleep(span);
    (received.load(Ordering::Relaxed) - before) as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e6
}

/// Most seconds without an arrival when the program is gone: after as long as a heartbeat is fresh
/// (`fail_open.after`), frames pass through the kernel; probes are sent every 5 ms, and TCP's packets are
/// before them.
const GAP_MAX_S: f64 = 0.2 + 0.05;
/// What TCP gets of 20 Mbit/s, which are 18.8 Mbit/s of payload, and of an open link for which it paces
/// itself at 50.
const SHAPED_MBPS: std::ops::Range<f64> = 16.0..19.0;
const OPEN_MBPS: std::ops::Range<f64> = 40.0..51.0;

#[test]
fn a_killed_run_fails_open() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        judged(|attempt| killed(mode, attempt));
    }
}

fn killed(mode: &str, attempt: &mut Attempt) {
    let testbed = testbed();
    let found = ["a", "b"].map(|port| state(testbed.bottleneck(), port));
    let mut weir = Weir::start(testbed.bottleneck(), &shaped(mode, "20Mbit/s", ""));
    let mut traffic = Traffic::new();
    let probes = probe(&testbed, &mut traffic);
    let received = load(&testbed, &mut traffic);
    // What was held back behind a loss at the start has been read by then.
    sleep(ms(1500));
    attempt.begin();
    let shaped_mbps = goodput(&received, ms(1500));
    let killed = Instant::now();
    weir.signal(libc::SIGKILL);
    assert_eq!(weir.wait().code, None);
    sleep(ms(500));
    let open_mbps = goodput(&received, ms(1000));
    let gap = probes.longest_gap(killed..Instant::now());
    attempt.end();
    attempt.within(format!("{mode}: gap after SIGKILL in s"), gap.as_secs_f64(), ..GAP_MAX_S);
    attempt.within("Mbit/s of TCP before", shaped_mbps, SHAPED_MBPS);
    attempt.within("and after it", open_mbps, OPEN_MBPS);
    assert_eq!(journals(testbed.bottleneck()).len(), 1);

    // The next run takes over, and its end puts back what the first one found.
    let next = Weir::start(testbed.bottleneck(), &shaped(mode, "20Mbit/s", ""));
    let before = Instant::now();
    sleep(ms(500));
    attempt.within(
        "gap of the next run in s",
        probes.longest_gap(before..Instant::now()).as_secs_f64(),
        ..GAP_MAX_S,
    );
    let ended = next.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("after a killed run"), "{}", ended.stderr);
    drop(traffic);
    assert_eq!(found, ["a", "b"].map(|port| state(testbed.bottleneck(), port)), "{mode}");
    assert!(journals(testbed.bottleneck()).is_empty());
}

#[test]
fn a_stopped_run_fails_open_and_takes_over_again() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        judged(|attempt| stopped(mode, attempt));
    }
}

fn stopped(mode: &str, attempt: &mut Attempt) {
    let testbed = testbed();
    let mut weir = Weir::start(testbed.bottleneck(), &shaped(mode, "20Mbit/s", ""));
    let mut traffic = Traffic::new();
    let probes = probe(&testbed, &mut traffic);
    let received = load(&testbed, &mut traffic);
    sleep(ms(500));
    attempt.begin();
    let stopped = Instant::now();
    weir.signal(libc::SIGSTOP);
    sleep(ms(1500));
    let continued = Instant::now();
    let gap = probes.longest_gap(stopped..continued);
    weir.signal(libc::SIGCONT);
    sleep(ms(500));
    let again = Instant::now();
    let mbps = goodput(&received, ms(1500));
    let delay = probes.median_delay(again..again + ms(1400));
    let gap_back = probes.longest_gap(continued..Instant::now());
    attempt.end();
    attempt.within(format!("{mode}: gap after SIGSTOP in s"), gap.as_secs_f64(), ..GAP_MAX_S);
    attempt.within("after SIGCONT", gap_back.as_secs_f64(), ..GAP_MAX_S);
    attempt.within("then Mbit/s", mbps, SHAPED_MBPS);
    attempt.within("delay in s", delay.as_secs_f64(), ..0.050);
    drop(traffic);
    let arrived: Vec<u32> = probes.arrived.lock().unwrap().iter().map(|(_, number)| *number).collect();
    let mut once = arrived.clone();
    once.sort();
    once.dedup();
    // The copy and the original are judged a moment apart, at the moment the heartbeat grows stale. It does
    // so once more whenever other work keeps the loop from its processor for as long.
    attempt.within("probes that came twice", (arrived.len() - once.len()) as f64, 0.0..=1.0);
    let ended = weir.interrupt();
    let warnings = ended.json()["warnings"].to_string();
    assert!(warnings.contains("forwarded by the kernel past the queues"), "{warnings}");
}

#[test]
fn interfaces_are_put_back_as_they_were_found() {
    let Some(_turn) = turn() else { return };
    let killed = each(MODES.into_iter().chain(["auto"]).enumerate(), |(n, mode)| {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        exec(bot, "ip", &["link", "set", "dev", "b", "down"]);
        exec(bot, "ip", &["link", "set", "dev", "b", "promisc", "on"]);
        // Somebody else's filters on a's ingress.
        exec(bot, "tc", &["qdisc", "add", "dev", "a", "clsact"]);
        let filter = "filter add dev a ingress prio 9 protocol all bpf bytecode";
        let matches_nothing = "1,6 0 0 0";
        exec(bot, "tc", &filter.split(' ').chain([matches_nothing]).collect::<Vec<_>>());
        let found = ["a", "b"].map(|port| state(bot, port));

        // Longer than it takes to look at the interfaces while it runs.
        let length = "[run]\nduration = \"5s\"\n";
        let by_itself = n % 2 == 0;
        let weir = Weir::start(bot, &(ports(mode) + if by_itself { length } else { "" }));
        let running = ["a", "b"].map(|port| state(bot, port));
        assert!(running[0] != found[0] && running[1] != found[1]);
        assert!(running[1].contains("up true") && running[0].contains("generic-receive-offload: off"));
        assert!(running.iter().all(|s| s.contains("port_tc")));
        assert_eq!(running[0].contains("prog/xdp"), mode != "af_packet", "{}", running[0]);
        assert_eq!(journals(bot).len(), 1);
        let ended = if by_itself { weir.wait() } else { weir.interrupt() };
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(found, ["a", "b"].map(|port| state(bot, port)), "{mode}");
        assert!(journals(bot).is_empty());

        let mut killed = Weir::start(bot, &ports(mode));
        killed.signal(libc::SIGKILL);
        killed.wait();
        assert_eq!(journals(bot).len(), 1);
        assert!(["a", "b"].iter().all(|port| state(bot, port).contains("port_tc")), "{mode}");
        (mode, testbed, found)
    });
    // In its own namespace, and in those of the others.
    exec_weir(killed[0].1.bottleneck(), &["doctor", "--clean"]);
    for (mode, testbed, found) in &killed {
        let bot = testbed.bottleneck();
        assert_eq!(*found, ["a", "b"].map(|port| state(bot, port)), "{mode}, after doctor --clean");
        assert!(journals(bot).is_empty());
    }
}

/// Runs another verb; what it exits with is its business.
fn exec_weir(namespace: &str, arguments: &[&str]) {
    try_exec(namespace, env!("CARGO_BIN_EXE_weir"), arguments);
}

/// A frame of the tests' own addresses; tags and type are part of `rest`.
fn frame(rest: &[u8]) -> Vec<u8> {
    [&DESTINATION[..], &SOURCE, rest].concat()
}

/// The frames of the corpus that a sender can send and a kernel delivers.
fn corpus() -> Vec<(String, Vec<u8>, bool)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let digits = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let bytes: Vec<u8> = digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, bytes, text.contains("reads as: malformed"))
    };
    // Packet sockets refuse frames without an Ethernet header, and the kernel that receives a frame drops it
    // if the outer VLAN tag is cut: no program ever sees either.
    let is_cut_tag = |b: &[u8]| matches!(b[12..14], [0x81, 0] | [0x88, 0xa8]) && b.len() < 20;
    files.into_iter().map(read).filter(|(_, b, _)| b.len() >= 14 && !is_cut_tag(b)).collect()
}

/// Sends frames at a pace that no ring on the way minds; what arrived, of which so many are waited for.
fn some_through(from: &Raw, to: &Raw, frames: &[Vec<u8>], wanted: usize) -> Vec<Vec<u8>> {
    to.drain(ms(1));
    for frame in frames {
        from.send(frame);
        std::thread::sleep(Duration::from_micros(50));
    }
    to.take(wanted)
}

/// The same of frames that all have to arrive.
fn through(from: &Raw, to: &Raw, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    some_through(from, to, frames, frames.len())
}

fn assert_same(got: &[Vec<u8>], want: &[Vec<u8>], what: &str) {
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(got == want, "{what}: frame {n} of {}\ngot  {got:02x?}\nwant {want:02x?}", want.len());
    }
    assert_eq!(got.len(), want.len(), "{what}: number of frames");
}

#[test]
fn whatever_goes_in_comes_out_bit_identical_and_in_order() {
    let Some(_turn) = turn() else { return };
    let corpus = corpus();
    let malformed = corpus.iter().filter(|c| c.2).count() as u64;
    assert!(malformed > 20);
    let mut frames: Vec<Vec<u8>> = corpus.into_iter().map(|c| c.1).collect();
    // All lengths around the smallest frame, and the largest, without, with one and with two tags.
    for len in (14..80).chain([1498, 1499, 1500].map(|n| n + 14)) {
        frames.push(frame(&[&[0x88, 0xb5][..], &vec![len as u8; len - 14]].concat()));
    }
    // The receiving kernel drops what is shorter than a tag and a type.
    for len in [2, 46, 1500] {
        frames.push(frame(&[&[0x81, 0, 0x20, 5, 0x88, 0xb5][..], &vec![7; len]].concat()));
    }
    frames.push(frame(&[&[0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 5, 0x88, 0xb5][..], &[7; 1492]].concat()));
    for mode in MODES {
        let testbed = testbed();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(testbed.bottleneck(), &patient(&ports(mode)));
        assert_same(&through(&sender, &receiver, &frames), &frames, &format!("{mode}, a to b"));
        assert_same(&through(&receiver, &sender, &frames), &frames, &format!("{mode}, b to a"));
        let ended = weir.interrupt();
        let json = ended.json();
        assert_eq!([0, 1].map(|link| ended.fault(link, "malformed")), [malformed; 2], "{mode}: {json}");
        assert!(json["links"][0]["packets"].as_u64().unwrap() >= frames.len() as u64);
        assert_eq!(ended.warnings(), Vec::<String>::new(), "{json}");
        // The kernel that takes over when the loop ends is as transparent.
        let mut killed = Weir::start(testbed.bottleneck(), &ports(mode));
        killed.signal(libc::SIGKILL);
        killed.wait();
        sleep(ms(300));
        assert_same(&through(&sender, &receiver, &frames), &frames, &format!("{mode}, killed"));
        exec_weir(testbed.bottleneck(), &["doctor", "--clean"]);
        assert!(journals(testbed.bottleneck()).is_empty());
    }
}

#[test]
fn tags_that_the_hosts_left_to_their_interfaces_pass() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let vlan = |namespace: &str, interface: &str, address: &str| {
        let add = format!("link add link {interface} name v5 type vlan id 5");
        let made = try_exec(namespace, "ip", &add.split(' ').collect::<Vec<_>>());
        if made.0 {
            exec(namespace, "ip", &["addr", "add", address, "dev", "v5"]);
            exec(namespace, "ip", &["link", "set", "dev", "v5", "up"]);
        }
        made
    };
    let made = vlan(testbed.sender(), "snd0", "10.5.0.1/24");
    if !made.0 {
        return skipped(format!("no VLAN interfaces here: {}", made.1));
    }
    vlan(testbed.receiver(), "rcv0", "10.5.0.2/24");
    let (near, far) = (udp(testbed.sender(), "10.5.0.1:7000"), udp(testbed.receiver(), "10.5.0.2:7000"));
    far.set_read_timeout(Some(ms(5000))).unwrap();
    for mode in MODES {
        let weir = Weir::start(testbed.bottleneck(), &patient(&ports(mode)));
        let arrived = (0..10).filter(|_| {
            near.send_to(b"tagged", "10.5.0.2:7000").unwrap();
            far.recv(&mut [0; 64]).is_ok()
        });
        assert!(arrived.count() >= 9, "{mode}");
        weir.interrupt();
    }
}

#[test]
fn checksums_that_the_other_end_leaves_open_are_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let near = udp(testbed.sender(), "10.77.0.1:7000");
    for (offload, mode) in [("off", MODES[0]), ("on", MODES[0]), ("on", MODES[1]), ("on", MODES[2])] {
        exec(testbed.sender(), "ethtool", &["-K", "snd0", "tx", offload]);
        let weir = Weir::start(testbed.bottleneck(), &ports(mode));
        for _ in 0..20 {
            near.send_to(b"open", "10.77.0.2:7000").unwrap();
            sleep(ms(5));
        }
        let ended = weir.interrupt();
        let warnings = ended.json()["warnings"].to_string();
        // Frames that come through AF_PACKET are known to be open, and completed.
        let expected = offload == "on" && mode != "af_packet";
        assert_eq!(
            warnings.contains("a: packets arrive with unfinished checksums"),
            expected,
            "{mode}: {warnings}"
        );
        assert_eq!(ended.stderr.contains("ethtool -K DEV tx off"), expected, "{mode}: {}", ended.stderr);
    }
}

/// A UDP datagram with a number in its payload.
fn datagram(v6: bool, tags: &[u8], ecn: u8, number: u32) -> Vec<u8> {
    let mut ip = Vec::new();
    let payload = [&number.to_be_bytes()[..], &[0; 200]].concat();
    let builder = if v6 {
        let [from, to] = [1, 2].map(|n| std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, n).octets());
        etherparse::PacketBuilder::ipv6(from, to, 64)
    } else {
        etherparse::PacketBuilder::ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
    };
    builder.udp(5000, 5001).write(&mut ip, &payload).unwrap();
    if v6 {
        ip[1] |= ecn << 4;
    } else {
        // Any differentiated services, which must survive.
        ip[1] = 0x28 | ecn;
        let header = etherparse::Ipv4HeaderSlice::from_slice(&ip).unwrap().to_header();
        ip[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
    let ethertype: &[u8] = if v6 { &[0x86, 0xdd] } else { &[8, 0] };
    frame(&[tags, ethertype, &ip].concat())
}

#[test]
fn only_capable_packets_are_marked_and_nothing_else_changes() {
    let Some(_turn) = long_turn_beside_others() else { return };
    for mode in MODES {
        until_decided(|| only_capable_marked(mode));
    }
}

fn only_capable_marked(mode: &str) -> Result<(), String> {
    const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]];
    let testbed = testbed();
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    // One signal each millisecond while the queue stands above 100 us.
    let aqm = "target = \"100us\"\ninterval = \"1ms\"\nadaptive = false\n";
    let weir = Weir::start(testbed.bottleneck(), &patient(&(shaped(mode, "8Mbit/s", "") + aqm)));
    let kinds = [false, true].into_iter().flat_map(|v6| TAGS.into_iter().map(move |tags| (v6, tags)));
    let kinds: Vec<_> = kinds.flat_map(|(v6, tags)| (0..3u8).map(move |ecn| (v6, tags, ecn))).collect();
    let mut sent = HashMap::new();
    let start = Instant::now();
    for number in 0..6000u32 {
        // The kind must not follow the rhythm of signals.
        let kind = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % kinds.len();
        let (v6, tags, ecn) = kinds[kind];
        let frame = datagram(v6, tags, ecn, number);
        let due = Duration::from_micros(u64::from(number) * 200);
        sleep(due.saturating_sub(start.elapsed()));
        sender.send(&frame);
        sent.insert(number, (frame, kind));
    }
    let mut marked = vec![0u32; kinds.len()];
    let mut numbers = Vec::new();
    for got in receiver.drain(ms(1000)) {
        let at = got.len() - 204;
        let number = u32::from_be_bytes(got[at..at + 4].try_into().unwrap());
        numbers.push(number);
        let (want, kind) = &sent[&number];
        if got == *want {
            continue;
        }
        let (v6, tags, ecn) = kinds[*kind];
        assert!(ecn == 1 || ecn == 2, "{mode}: a packet with ECN field {ecn} was changed");
        marked[*kind] += 1;
        assert_eq!(got, datagram(v6, tags, 3, number), "{mode}: more than the mark changed");
        let network = 14 + tags.len();
        if !v6 {
            let ip = etherparse::Ipv4HeaderSlice::from_slice(&got[network..]).unwrap();
            assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        }
    }
    let ended = weir.interrupt();
    let (json, total) = (ended.json(), marked.iter().sum::<u32>());
    say(format!("{mode}: {total} packets marked, by kind {marked:?}"));
    ended.not_bypassed()?;
    in_order(&numbers).unwrap_or_else(|e| panic!("{mode}: {e}: {json}"));
    assert_eq!(json["links"][0]["marks"], total, "{mode}: {json}");
    // A loop without a processor marks few, and not of each kind.
    ended.loop_was_there()?;
    for (count, (v6, tags, ecn)) in marked.iter().zip(&kinds) {
        assert_eq!(*count > 0, *ecn == 1 || *ecn == 2, "{mode}: v6 {v6} tags {tags:02x?} ECN {ecn}");
    }
    assert!(json["links"][0]["drops"].as_u64().unwrap() > 0, "others are dropped");
    Ok(())
}

/// Of the datagrams below: version 6 of IP or not, and ECN field. Three of ten are ECT(1), two ECT(0). The
/// kind must not follow the rhythm of signals.
fn l4s_or_classic(number: u32) -> (bool, u8) {
    let mixed = number.wrapping_mul(0x9e37_79b9) >> 16;
    let ecn = match mixed % 10 {
        0..3 => 1,
        3..5 => 2,
        _ => 0,
    };
    (mixed / 10 % 2 == 1, ecn)
}

#[test]
fn l4s_packets_pass_the_classic_ones_and_are_marked_where_those_are_dropped() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        judged(|attempt| l4s_beside_classic(mode, attempt));
    }
}

/// What is marked and dropped depends on the rate at which packets come.
fn l4s_beside_classic(mode: &str, attempt: &mut Attempt) {
    // Counts, which differ from their bounds by factors.
    attempt.tolerates(0.1);
    let testbed = testbed();
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    // Five packets a millisecond are two percent more than the link takes: far more, and not even L4S packets
    // would be spared.
    let link = "[a_to_b]\nrate = \"11Mbit/s\"\n[a_to_b.queue]\ndiscipline = \"dualpi2\"\n\
            target = \"2ms\"\nrtt_max = \"50ms\"\n";
    let weir = Weir::start(testbed.bottleneck(), &patient(&(ports(mode) + link)));
    attempt.begin();
    let mut due = Instant::now();
    for number in 0..8000u32 {
        let (v6, ecn) = l4s_or_classic(number);
        // What was missed while this thread had to wait is not made up for in a burst.
        due = (due + Duration::from_micros(200)).max(Instant::now() - ms(2));
        sleep(due.saturating_duration_since(Instant::now()));
        sender.send(&datagram(v6, &[], ecn, number));
    }
    attempt.end();
    // By ECN field: what arrived, and what of it was marked. Of the two queues: the last number.
    let (mut arrived, mut marked, mut last, mut passed) = ([0; 3], [0; 3], [None; 2], 0);
    let mut l4s_by_version = [0; 2];
    for got in receiver.drain(ms(1000)) {
        let number = u32::from_be_bytes(got[got.len() - 204..got.len() - 200].try_into().unwrap());
        let (v6, ecn) = l4s_or_classic(number);
        let queue = usize::from(ecn != 1);
        let before = last[queue].replace(number);
        assert!(before < Some(number), "{mode}: {number} came behind {before:?}");
        passed += u32::from(queue == 1 && last[0] > Some(number));
        arrived[usize::from(ecn)] += 1;
        let is_marked = got != datagram(v6, &[], ecn, number);
        if is_marked {
            marked[usize::from(ecn)] += 1;
            l4s_by_version[usize::from(v6)] += u32::from(ecn == 1);
            // This has the checksum of the marked header.
            assert_eq!(got, datagram(v6, &[], 3, number), "{mode}: more than the mark changed");
        }
    }
    let sent = [0, 1, 2].map(|ecn| (0..8000).filter(|n| l4s_or_classic(*n).1 == ecn).count());
    let json = weir.interrupt().json();
    say(format!(
        "{mode}: sent {sent:?}, arrived {arrived:?}, marked {marked:?}; {passed} overtaken; {}",
        json["links"][0]
    ));
    let lost = [0, 1, 2].map(|ecn| (sent[ecn] - arrived[ecn]) as f64);
    attempt.within(format!("{mode}: capable packets dropped"), lost[1] + lost[2], 0.0..=0.0);
    attempt.within("others", lost[0], 1.0..);
    assert_eq!(marked[0], 0);
    // The one kind with p'^2, the other with 2 p'.
    let [_, l4s, classic] = [0, 1, 2].map(|ecn| marked[ecn] as f64 / sent[ecn] as f64);
    attempt.within("share of L4S packets that was marked, in that of classic ones", l4s / classic, 2.0..1e9);
    let [v4, v6] = l4s_by_version.map(f64::from);
    attempt.within("L4S packets marked, IPv4", v4, 101.0..);
    attempt.within("IPv6", v6, 101.0..);
    attempt.within("classic packets that L4S ones passed", f64::from(passed), 1001.0..);
    assert_eq!(json["links"][0]["marks"], marked.iter().sum::<usize>(), "{json}");
}

#[test]
fn long_frames_pass_where_the_mtu_allows() {
    let Some(_turn) = turn_beside_others() else { return };
    let big = |mtu: usize, n: u8| frame(&[&[0x88, 0xb5][..], &vec![n; mtu]].concat());
    for (mtu, mode, said) in
        [(9000, "auto", "AF_PACKET"), (3000, "xdp-native", "native"), (3000, "auto", "native")]
    {
        let testbed = testbed_of(mtu);
        let bot = testbed.bottleneck();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(bot, &patient(&ports(mode)));
        let tagged = frame(&[&[0x81, 0, 0, 5, 0x88, 0xb5][..], &vec![1; mtu as usize]].concat());
        let mut frames: Vec<_> = (0..20).map(|n| big(mtu as usize, n)).collect();
        frames.push(tagged);
        assert_same(&through(&sender, &receiver, &frames), &frames, &format!("MTU {mtu}, {mode}"));
        let ended = weir.interrupt();
        assert!(ended.json()["ports"].as_str().unwrap().contains(said), "{}", ended.stderr);
    }
    let jumbo = testbed_of(9000);
    let refused = Weir::spawn(jumbo.bottleneck(), &ports("xdp-native"), &[]).wait();
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("9022 bytes do not fit") && refused.stderr.contains("af_packet"),
        "{}",
        refused.stderr
    );
    assert!(!state(jumbo.bottleneck(), "a").contains("clsact"));
    drop(jumbo);

    for mode in MODES {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        exec(testbed.sender(), "ip", &["link", "set", "dev", "snd0", "mtu", "3000"]);
        exec(bot, "ip", &["link", "set", "dev", "a", "mtu", "3000"]);
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(bot, &patient(&ports(mode)));
        let frames = [big(1500, 1), big(1600, 2), big(3000, 3), big(1500, 4)];
        let want = [frames[0].clone(), frames[3].clone()];
        assert_same(&some_through(&sender, &receiver, &frames, want.len()), &want, mode);
        let ended = weir.interrupt();
        assert_eq!(ended.fault(0, "too_long"), 2, "{mode}: {}", ended.stdout);
    }
}

fn refused(namespace: &str, config: &str, code: i32, says: &[&str]) {
    let ended = Weir::spawn(namespace, config, &[]).wait();
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(says.iter().all(|text| ended.stderr.contains(text)), "{says:?}: {}", ended.stderr);
    assert!(ended.json()["error"].is_string());
}

#[test]
fn what_cannot_work_is_refused_with_a_remedy_and_nothing_changes() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let found = ["a", "b"].map(|port| state(bot, port));
    let named = |a: &str, b: &str| format!("[ports]\na = \"{a}\"\nb = \"{b}\"\n");
    refused(bot, &named("a", "nope"), 1, &["no interface `nope`", "Remedy", "a, b"]);
    refused(bot, &named("a", "a"), 2, &["same port as `a`", "two different interfaces"]);
    refused(bot, "[ports]\na = \"a\"\n", 2, &["b"]);
    refused(bot, &(named("a", "b") + "[a_to_b]\nrate = \"fast\"\n"), 2, &["rate"]);
    refused(bot, &(ports("auto") + "core = 1023\n"), 2, &["host.core is 1023", "may use cores 0", "Remedy"]);
    exec(bot, "ip", &["link", "add", "name", "br0", "type", "bridge"]);
    exec(bot, "ip", &["link", "set", "dev", "b", "master", "br0"]);
    refused(bot, &ports("auto"), 1, &["b: it belongs to `br0`", "`ip link set dev b nomaster`"]);
    exec(bot, "ip", &["link", "del", "dev", "br0"]);
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    if weir_lab::host::has_binary("setpriv") {
        // A user who may neither read the test's folders nor the program is not what is meant.
        let ended = Weir::spawn(bot, &named("a", "b"), &unprivileged).wait();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("run as root"), "{}", ended.stderr);
    }
    assert_eq!(found, ["a", "b"].map(|port| state(bot, port)));
    assert!(journals(bot).is_empty());

    // A second run on the same ports, in all modes, against a first one in each.
    for first in MODES {
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(bot, &patient(&ports(first)));
        let running = ["a", "b"].map(|port| state(bot, port));
        for second in MODES {
            let says = if first == "af_packet" { "another run" } else { "attached already" };
            refused(bot, &ports(second), 1, &[says, "Remedy"]);
        }
        assert_eq!(running, ["a", "b"].map(|port| state(bot, port)), "{first}: disturbed");
        let frames: Vec<_> = (0..50).map(|n| frame(&[0x88, 0xb5, n, 1, 2, 3])).collect();
        assert_same(&through(&sender, &receiver, &frames), &frames, first);
        let ended = weir.interrupt();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.json()["links"][0]["packets"].as_u64().unwrap() >= 50, "{}", ended.stdout);
        assert_eq!(found, ["a", "b"].map(|port| state(bot, port)), "{first}");
    }
}

/// Time that a process has run.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    ms((fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10)
}

#[test]
fn an_interface_may_go_down_and_come_back_but_not_vanish() {
    let Some(_turn) = turn_beside_others() else { return };
    for mode in MODES {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        let found = state(bot, "b");
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let mut weir = Weir::start(bot, &patient(&ports(mode)));
        let frames: Vec<_> = (0..100).map(|n| frame(&[0x88, 0xb5, n, 1, 2, 3])).collect();
        for port in ["a", "b"] {
            exec(bot, "ip", &["link", "set", "dev", port, "down"]);
            if port == "b" {
                // Something to send while it cannot be sent.
                frames.iter().for_each(|frame| sender.send(frame));
            }
            sleep(ms(250));
            assert!(weir.child.try_wait().unwrap().is_none(), "{mode}: {}", weir.text("err"));
            exec(bot, "ip", &["link", "set", "dev", port, "up"]);
            sleep(ms(100));
            // What waited for the port.
            receiver.drain(ms(500));
        }
        assert_same(&through(&sender, &receiver, &frames), &frames, &format!("{mode}, up again"));
        let (begun, before) = (Instant::now(), processor_time(weir.child.pid()));
        sleep(ms(500));
        // This thread may have slept for longer.
        let (used, span) = (processor_time(weir.child.pid()) - before, begun.elapsed());
        assert!(used < span / 2, "{mode}: a loop that sleeps took {used:?} of {span:?}");
        exec(bot, "ip", &["link", "del", "dev", "a"]);
        let ended = weir.wait();
        assert_eq!(ended.code, Some(1), "{mode}: {}", ended.stderr);
        assert!(ended.stderr.contains("interface `a` vanished while running"), "{}", ended.stderr);
        assert_eq!(found, state(bot, "b"), "{mode}");
        assert!(journals(bot).is_empty());
    }
}

#[test]
fn a_port_may_be_moved_to_another_namespace_and_is_free_there() {
    let Some(_turn) = turn_beside_others() else { return };
    for mode in MODES {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        let found = state(bot, "b");
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        let weir = Weir::start(bot, &ports(mode));
        exec(bot, "ip", &["link", "set", "dev", "a", "netns", testbed.sender()]);
        let ended = weir.wait();
        assert_eq!(ended.code, Some(1), "{mode}: {}", ended.stderr);
        for text in ["moved to another network namespace", "`ethtool -K a generic-receive-offload on` there"]
        {
            assert!(ended.stderr.contains(text), "{mode}: {}", ended.stderr);
        }
        let moved = state(testbed.sender(), "a");
        assert!(!moved.contains("prog/xdp") && !moved.contains("port_tc"), "{mode}: {moved}");
        assert_eq!(found, state(bot, "b"), "{mode}");
        assert!(journals(bot).is_empty());
    }
}

#[test]
fn a_killed_run_leaves_no_program_on_a_port_that_is_moved_and_is_cleaned_up_from_anywhere() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "xdp-generic"] {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        let found = state(bot, "b");
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        let mut weir = Weir::start(bot, &ports(mode));
        weir.signal(libc::SIGKILL);
        weir.wait();
        exec(bot, "ip", &["link", "set", "dev", "a", "netns", testbed.sender()]);
        let moved = state(testbed.sender(), "a");
        assert!(!moved.contains("prog/xdp") && !moved.contains("port_tc"), "{mode}: {moved}");
        assert_eq!(journals(bot).len(), 1);
        // Not from within the namespace of the ports.
        let doctor = |arguments: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
        };
        let listed = doctor(&["--json", "doctor"])["checks"].to_string();
        let place = format!("of the network namespace /run/netns/{bot}");
        assert!(listed.contains(&place), "{mode}: {listed}");
        let told = doctor(&["--json", "doctor", "--clean"]);
        let cleaned = told["cleaned"].to_string();
        let b = format!("in /run/netns/{bot}: b: took the programs off");
        let a = format!("in /run/netns/{bot}: a: NOT switched generic-receive-offload back on");
        assert!(told["not_cleaned"].to_string().contains(&a), "{mode}: {told}");
        assert_eq!(cleaned.matches(&b).count(), 1, "{mode}: {cleaned}");
        assert_eq!(found, state(bot, "b"), "{mode}");
        assert!(journals(bot).is_empty());
    }
}

#[test]
fn packets_above_a_changed_mtu_are_counted_and_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let long = |mtu: usize| frame(&[&[0x88, 0xb5][..], &vec![1; mtu]].concat());
    for mode in ["xdp-generic", "af_packet"] {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(bot, &patient(&ports(mode)));
        exec(testbed.sender(), "ip", &["link", "set", "dev", "snd0", "mtu", "3000"]);
        for (port, mtu) in [("a", "3000"), ("b", "1400")] {
            exec(bot, "ip", &["link", "set", "dev", port, "mtu", mtu]);
        }
        sleep(ms(300));
        weir.until("a: its MTU was changed from 1500 to 3000");
        weir.until("b: its MTU was changed from 1500 to 1400");
        let frames = [1400, 1401, 1405, 1500, 1600, 3000].map(long);
        assert_same(&some_through(&sender, &receiver, &frames, 1), &frames[..1], mode);
        let ended = weir.interrupt();
        let lost = ["too_long", "lost_before_queue"].map(|fault| ended.fault(0, fault));
        assert_eq!(lost.iter().sum::<u64>(), 5, "{mode}: {}", ended.stdout);
        let warnings = ended.json()["warnings"].to_string();
        assert!(warnings.contains("a: its MTU") && warnings.contains("b: its MTU"), "{mode}: {warnings}");
    }
    // Ports that differ from the start: what the other one cannot send is a fault, by the byte.
    let testbed = testbed_of(3000);
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "b", "mtu", "1500"]);
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    for mode in MODES {
        let weir = Weir::start(bot, &patient(&ports(mode)));
        let frames = [1500, 1501, 1504, 1508, 1509].map(long);
        assert_same(&some_through(&sender, &receiver, &frames, 1), &frames[..1], mode);
        let ended = weir.interrupt();
        assert_eq!(ended.fault(0, "too_long"), 4, "{mode}: {}", ended.stdout);
    }
}

#[test]
fn a_port_that_is_renamed_is_served_on_and_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let (sender, receiver) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    let mut weir = Weir::start(bot, &patient(&ports("auto")));
    for change in [&["down"][..], &["name", "uplink"], &["up"]] {
        let port = if change[0] == "up" { "uplink" } else { "a" };
        exec(bot, "ip", &[&["link", "set", "dev", port][..], change].concat());
    }
    weir.until("a: it is called uplink from now on, and served as before. Remedy");
    sleep(ms(500));
    let frames = [frame(&[0x88, 0xb5, 1]), frame(&[0x88, 0xb5, 2])];
    assert_same(&through(&sender, &receiver, &frames), &frames, "renamed");
    // What means nothing to it does not end it; a request to quit ends it in order.
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM] {
        weir.signal(signal);
    }
    assert_same(&through(&sender, &receiver, &frames), &frames, "after signals");
    weir.signal(libc::SIGQUIT);
    let ended = weir.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(journals(bot).is_empty());
}

#[test]
fn a_run_with_another_port_of_a_living_run_is_refused_with_both_names() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "add", "c", "type", "veth", "peer", "name", "d"]);
    let weir = Weir::start(bot, &ports("auto"));
    let other = "[ports]\na = \"a\"\nb = \"c\"\n";
    let refused = Weir::spawn_with(bot, other, &[], &["--takeover"]).wait();
    let told = "has a and b, and --takeover takes the same ports, which these (a and c) are not";
    assert!(refused.code == Some(1) && refused.stderr.contains(told), "{}", refused.stderr);
    assert_eq!(weir.interrupt().code, Some(0));
}

#[test]
fn a_port_with_an_address_is_taken_with_a_warning() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["address", "add", "10.9.9.1/24", "dev", "a"]);
    let ended = Weir::start(bot, &ports("auto")).interrupt();
    assert!(ended.stderr.contains("a: it carries 10.9.9.1, and this host does not see"), "{}", ended.stderr);
    assert!(ended.json()["warnings"].to_string().contains("10.9.9.1"), "{}", ended.stdout);
}

#[test]
fn a_loop_that_sleeps_samples_as_often_as_it_is_told() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let out = Folder::new();
    let config = format!("[run]\nduration = \"1s\"\nsample = \"1ms\"\nout = {:?}\n", out.path());
    judged(|attempt| {
        attempt.tolerates(0.1);
        let ended = Weir::spawn(testbed.bottleneck(), &(ports("auto") + &config), &[]).wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let rows = std::fs::read_to_string(out.path().join("samples_a_to_b.csv")).unwrap().lines().count();
        // Asleep for 10 ms each time it would be a hundred.
        attempt.within("rows of 1 ms in 1 s", rows as f64, 500.0..=1100.0);
    });
}

#[test]
fn what_is_no_journal_holds_nobody_up() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    // A folder for journals that nobody else sees.
    let prepare = "mkdir -p /run/weir && mount -t tmpfs none /run/weir && mkfifo /run/weir/1-1.json && \
                   ln -s /dev/zero /run/weir/2-1.json && exec \"$@\"";
    let before = ["unshare", "-m", "sh", "-c", prepare, "sh"];
    let config = ports("auto") + "[run]\nduration = \"200ms\"\n";
    let ended = Weir::spawn(testbed.bottleneck(), &config, &before).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for name in ["1-1", "2-1"] {
        let text =
            format!("/run/weir/{name}.json: not a journal but no regular file at all; left alone. Remedy");
        assert!(ended.stderr.contains(&text), "{}", ended.stderr);
    }
}

/// Runs a program on a terminal of its own, as the leader of its session.
const ON_A_TERMINAL: [&str; 3] = ["python3", "-c", "import pty, sys; pty.spawn(sys.argv[1:])"];

#[test]
fn a_terminal_that_is_closed_ends_a_run_unless_it_was_started_to_ignore_it() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    // Whoever runs the tests may ignore the signal as well.
    let heeding = ["env", "--default-signal=HUP"];
    for (around, goes_on) in [(&ignoring[..], true), (&heeding[..], false)] {
        let before = [&ON_A_TERMINAL, around].concat();
        let mut terminal = Weir::spawn(bot, &ports("auto"), &before);
        while !terminal.text("out").contains("a <-> b: AF_") {
            assert!(terminal.child.try_wait().unwrap().is_none(), "{}", terminal.text("out"));
            sleep(ms(5));
        }
        sleep(ms(100));
        // Whoever holds the other side of the terminal goes; the kernel tells its session.
        terminal.signal(libc::SIGKILL);
        if goes_on {
            sleep(ms(700));
            assert!(!journals(bot).is_empty(), "{}", terminal.text("out"));
            let next = Weir::start_with(bot, &ports("auto"), &["--takeover"]);
            assert_eq!(next.interrupt().code, Some(0));
        }
        let deadline = Instant::now() + PATIENCE;
        while !journals(bot).is_empty() {
            assert!(Instant::now() < deadline, "it goes on: {}", terminal.text("out"));
            sleep(ms(10));
        }
        drop(terminal);
    }
}

#[test]
fn a_run_ends_as_it_is_told_and_gives_one_json_object() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let timed = |length: &str| shaped("auto", "20Mbit/s", "") + &format!("[run]\nduration = \"{length}\"\n");
    let ended = Weir::spawn(bot, &timed("500ms"), &[]).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!(json["interrupted"], false, "{json}");
    let links = json["links"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    for key in ["packets", "bytes", "utilization", "drops", "marks"] {
        assert!(links.iter().all(|link| link[key].is_number()), "{key}: {json}");
    }
    assert!(links.iter().all(|link| link["delay_ms"]["p99"].is_number()), "{json}");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut weir = Weir::start(bot, &timed("60s"));
        weir.signal(signal);
        let ended = weir.wait();
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        assert_eq!(ended.json()["interrupted"], true, "{}", ended.stdout);
    }
}

#[test]
fn rate_and_delay_are_as_configured() {
    let Some(_turn) = turn() else { return };
    judged(shaper_and_delay_line);
}

fn shaper_and_delay_line(attempt: &mut Attempt) {
    let testbed = testbed();
    // What the host loses is made up for: here it is the shaper that is judged, not the machine.
    let config = format!(
        "{}poll = \"busy\"\n[a_to_b]\nrate = \"20Mbit/s\"\ndelay = \"10ms\"\ncatch_up = \"1s\"\n\
         [a_to_b.aqm]\nname = \"tail_drop\"\n[b_to_a]\ndelay = \"10ms\"\n",
        ports("auto").replace("poll = \"sleep\"\n", "")
    );
    let weir = Weir::start(testbed.bottleneck(), &config);
    let (near, far) = (udp(testbed.sender(), "10.77.0.1:7000"), udp(testbed.receiver(), "10.77.0.2:7000"));
    let mut echo = Traffic::new();
    let answering = far.try_clone().unwrap();
    echo.run(move || {
        let mut bytes = [0; 64];
        if let Ok((len, from)) = answering.recv_from(&mut bytes) {
            let _ = answering.send_to(&bytes[..len], from);
        }
    });
    // One that comes late is late, and not lost.
    near.set_read_timeout(Some(ms(5000))).unwrap();
    attempt.begin();
    let mut times = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        near.send_to(b"echo", "10.77.0.2:7000").unwrap();
        near.recv(&mut [0; 64]).unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    let median = times[50];
    drop(echo);

    // A flood of one and a half times the rate; arrivals are counted by what they occupy on a line.
    let (mut flood, start) = (Traffic::new(), Instant::now());
    let (payload, wire) = (1200, 1200 + 28 + 38);
    let mut sent = 0u32;
    flood.run(move || {
        let due = Duration::from_nanos(u64::from(sent) * wire * 8 * 1_000 / 30);
        sleep(due.saturating_sub(start.elapsed()));
        let _ = near.send_to(&vec![0; payload], "10.77.0.2:7000");
        sent += 1;
    });
    let count = |span: Duration| {
        let (start, mut packets, mut bytes) = (Instant::now(), 0u64, [0; 2048]);
        while start.elapsed() < span {
            packets += u64::from(far.recv(&mut bytes).is_ok());
        }
        packets as f64 * wire as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e6
    };
    count(ms(700));
    let mbps = count(ms(4000));
    attempt.end();
    drop(flood);
    let json = weir.interrupt().json();
    attempt.stalled(json["host"]["stalled_share"].as_f64().unwrap());
    attempt.within("round trip in ms", median.as_secs_f64() * 1e3, 19.0..=21.0);
    attempt.within("Mbit/s", mbps, 19.8..=20.2);
}

/// Datagrams at twice the link's rate, whatever is signalled.
#[test]
fn that_flows_do_not_respond_is_among_the_warnings_of_the_results() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let config = shaped("auto", "2Mbit/s", "") + "[a_to_b.policy]\n[run]\nduration = \"8s\"\n";
    let weir = Weir::start(testbed.bottleneck(), &config);
    let (sender, mut flood) = (udp(testbed.sender(), "10.77.0.1:7000"), Traffic::new());
    flood.run(move || {
        let _ = sender.send_to(&[0; 450], "10.77.0.2:7000");
        sleep(ms(1));
    });
    let ended = weir.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let warnings = ended.json()["warnings"].to_string();
    assert!(warnings.contains("link a_to_b: the flows do not respond to signals ("), "{warnings}");
    assert!(!warnings.contains("link b_to_a: the flows"), "{warnings}");
}

/// A frame with a TCP segment from the sender, with timestamps, and a SACK block where `sack`.
fn segment(seq: u32, ack: u32, sack: bool, payload: &[u8]) -> Vec<u8> {
    let mut options = vec![etherparse::TcpOptionElement::Timestamp(5, 6)];
    if sack {
        options.push(etherparse::TcpOptionElement::SelectiveAcknowledgement((1, 2), [None; 3]));
    }
    let mut ip = Vec::new();
    etherparse::PacketBuilder::ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
        .tcp(443, 50_000, seq, 1000)
        .ack(ack)
        .options(&options)
        .unwrap()
        .write(&mut ip, payload)
        .unwrap();
    frame(&[&[8, 0][..], &ip].concat())
}

#[test]
fn waiting_acknowledgements_are_replaced_by_newer_ones_and_nothing_else_is() {
    let Some(_turn) = turn_beside_others() else { return };
    for mode in MODES {
        let queue = "queue = { discipline = \"flow\", ways = 8, ack_filter = true }\nbuffer = \"2s\"\n";
        let config = shaped(mode, "50kbit/s", queue).replace("gsp", "tail_drop") + "limit = \"10s\"\n";
        // What waits while a datagram and a large frame are sent, for 0.3 s: 20 acknowledgements, then three
        // duplicates of one, one with SACK, data, and two that come late.
        let data = segment(7, 21, false, &[1; 100]);
        let mut frames: Vec<Vec<u8>> = (1..=20).map(|ack| segment(7, ack, false, &[])).collect();
        frames.extend([20, 20, 20].map(|ack| segment(7, ack, false, &[])));
        frames.extend([segment(7, 21, true, &[]), data.clone()]);
        frames.extend([19, 18].map(|ack| segment(7, ack, false, &[])));
        // The same addresses behind VLAN tags are other hosts: none of these waits behind two of its own.
        let tagged = |vlan: u8, ack| {
            let plain = segment(7, ack, false, &[]);
            [&plain[..12], &[0x81, 0, 0, vlan], &plain[12..]].concat()
        };
        // Raw sockets are given frames without the tag.
        let untagged = |frame: &Vec<u8>| match frame[12..14] {
            [0x81, 0] => [&frame[..12], &frame[16..]].concat(),
            _ => frame.clone(),
        };
        frames.extend([tagged(10, 31), tagged(10, 32), tagged(20, 33), tagged(10, 34)]);
        let first = [datagram(false, &[], 0, 1), frame(&[&[0x88, 0xb5][..], &[7; 1500]].concat())];
        let Some((got, json)) = sent_at_once(&config, &first, &frames, ms(200), 2 + frames.len() - 18) else {
            return;
        };
        let got: Vec<Vec<u8>> = got.iter().map(untagged).filter(|got| got[12..14] == [8, 0]).collect();
        let mut want = vec![datagram(false, &[], 0, 1)];
        // The first that waits and the newest stay.
        want.push(segment(7, 1, false, &[]));
        want.push(segment(7, 20, false, &[]));
        want.extend(frames[20..].iter().map(untagged));
        assert_same(&got, &want, mode);
        assert_eq!(
            (&json["links"][0]["acks_filtered"], &json["links"][0]["drops"]),
            (&18.into(), &0.into()),
            "{json}"
        );
    }
}
