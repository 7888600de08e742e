//! The wire stays open: errors of the system, programs and offloads that others remove or switch, a stop that
//! keeps forwarding, and a run that takes over from another one. Nothing is doubled, and VLAN tags survive.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_dataplane::{DirectionSetup, Loop, Mode, Setup};
use weir_lab::{Testbed, TestbedConfig, host, in_netns};

const MODES: [&str; 3] = ["xdp-native", "xdp-generic", "af_packet"];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn states(testbed: &Testbed) -> [String; 2] {
    ["a", "b"].map(|port| state(testbed.bottleneck(), port))
}

/// A frame with a number.
fn frame(number: u32) -> Vec<u8> {
    [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &number.to_be_bytes(), &[0; 46]].concat()
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// How many of twenty frames pass, at a pace that nothing on the way minds; of one that comes twice, two.
/// They have numbers of their own: what was sent before may still be on its way.
fn passes(from: &Raw, to: &Raw) -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(1 << 20);
    let first = NEXT.fetch_add(20, Ordering::Relaxed);
    let ours = first..first + 20;
    ours.clone().for_each(|n| {
        from.send(&frame(n));
        sleep(ms(2));
    });
    let is_ours = |f: &Vec<u8>| f.get(6..14) == Some(&frame(0)[6..14]) && ours.contains(&number(f));
    let (mut count, deadline) = (0, Instant::now() + PATIENCE);
    while count < 20 && Instant::now() < deadline {
        count += to.receive(ms(100)).iter().filter(|f| is_ours(f)).count();
    }
    count + to.drain(ms(100)).iter().filter(|f| is_ours(f)).count()
}

/// Makes system calls of a running process fail; ended when dropped.
struct Faults(Child);

impl Faults {
    fn inject(pid: u32, what: &str) -> Faults {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-q", "-o", "/dev/null", "-e", what, "-p", &pid.to_string()]);
        Faults(strace.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // It lets the process go when it is ended in order.
        // SAFETY: a process that this one started and has not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

fn has_strace() -> bool {
    let has = host::has_binary("strace");
    if !has {
        skipped("`strace` is not installed".to_string());
    }
    has
}

#[test]
fn unexpected_errors_of_the_system_leave_the_link_to_the_kernel() {
    let Some(_turn) = long_turn_beside_others() else { return };
    if !has_strace() {
        return;
    }
    let modes = ["xdp-native", "af_packet"];
    let errors = ["ENOMEM", "EINVAL", "ENXIO"].map(Some).into_iter().chain([None]);
    let all = errors.flat_map(|errno| modes.map(|mode| (mode, errno)));
    each(all, |(mode, errno)| match errno {
        Some(errno) => no_frame_can_be_sent(mode, errno),
        None => calls_fail_at_times(mode),
    });
}

fn no_frame_can_be_sent(mode: &str, errno: &str) {
    let testbed = testbed();
    let found = states(&testbed);
    let (sender, receiver) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    let weir = Weir::start(testbed.bottleneck(), &patient(&ports(mode)));
    let faults = Faults::inject(weir.child.pid(), &format!("inject=sendto:error={errno}"));
    let deadline = Instant::now() + ms(5000);
    let is_left = || weir.text("err").contains("The kernel forwards");
    while !is_left() && Instant::now() < deadline {
        sender.send(&frame(0));
        sleep(ms(10));
    }
    if !is_left() {
        // A loop that sleeps has the kernel send by that (xsk_poll), so that nothing stays behind.
        assert_eq!(passes(&sender, &receiver), 20, "{mode}, {errno}: {}", weir.text("err"));
        drop(faults);
        assert_eq!(weir.interrupt().code, Some(0), "{mode}, {errno}");
        return;
    }
    let ended = weir.wait();
    drop(faults);
    assert_eq!(ended.code, Some(1), "{mode}, {errno}: {}", ended.stderr);
    assert!(ended.json()["error"].as_str().unwrap().contains("The kernel forwards"), "{}", ended.stdout);
    assert_eq!(passes(&sender, &receiver), 20, "{mode}, {errno}");
    assert_eq!(journals(testbed.bottleneck()).len(), 1);
    // The next one puts back what it left.
    let next = Weir::start(testbed.bottleneck(), &patient(&ports(mode)));
    assert_eq!(next.interrupt().code, Some(0), "{mode}, {errno}");
    assert_eq!(found, states(&testbed), "{mode}, {errno}");
    assert!(journals(testbed.bottleneck()).is_empty());
}

/// Calls that fail at times are made again, and whatever else fails is no reason to end.
fn calls_fail_at_times(mode: &str) {
    let testbed = testbed();
    let found = states(&testbed);
    let (sender, receiver) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    let weir = Weir::start(testbed.bottleneck(), &patient(&ports(mode)));
    for fault in [
        "sendto:error=ENOMEM:when=1+3",
        "recvfrom:error=ENOMEM",
        "ppoll:error=EINVAL",
        "getsockopt:error=EINVAL",
    ] {
        let faults = Faults::inject(weir.child.pid(), &format!("inject={fault}"));
        sleep(ms(300));
        assert_eq!(passes(&sender, &receiver), 20, "{mode}, {fault}: {}", weir.text("err"));
        drop(faults);
    }
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{mode}: {}", ended.stderr);
    assert_eq!(found, states(&testbed), "{mode}");
    assert!(journals(testbed.bottleneck()).is_empty());
}

#[test]
fn a_run_that_is_to_keep_forwarding_does_so_after_its_end_and_the_next_one_takes_over() {
    let Some(_turn) = turn() else { return };
    let kept = each(MODES, |mode| {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        let found = states(&testbed);
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        for n in 0..2 {
            // By the option, and by the configuration.
            let config = ports(mode) + if n == 0 { "" } else { "[fail_open]\nkeep_forwarding = true\n" };
            let mut weir = Weir::start_with(bot, &config, if n == 0 { &["--keep-forwarding"] } else { &[] });
            assert_eq!(weir.text("err").contains("after a run that kept forwarding: took over"), n > 0);
            weir.signal(libc::SIGTERM);
            let ended = weir.wait();
            assert_eq!(ended.code, Some(0), "{mode}: {}", ended.stderr);
            assert!(ended.json()["warnings"].to_string().contains("goes on forwarding"), "{}", ended.stdout);
            assert_eq!(passes(&sender, &receiver), 20, "{mode}: after the end");
            assert_eq!(journals(bot).len(), 1);
            assert!(states(&testbed).iter().all(|s| s.contains("port_tc") && !s.contains("prog/xdp")));
        }
        let ended = Weir::start(bot, &ports(mode)).interrupt();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(found, states(&testbed), "{mode}");
        assert!(journals(bot).is_empty());
        // What keeps forwarding elsewhere is none of another run's business.
        for (name, peer) in [("c", "c0"), ("d", "d0")] {
            exec(bot, "ip", &["link", "add", "name", name, "type", "veth", "peer", "name", peer]);
        }
        let mut weir = Weir::start_with(bot, &ports(mode), &["--keep-forwarding"]);
        weir.signal(libc::SIGTERM);
        weir.wait();
        let other = "[ports]\na = \"c\"\nb = \"d\"\n[run]\nduration = \"100ms\"\n";
        assert_eq!(Weir::spawn(bot, other, &[]).wait().code, Some(0));
        assert_eq!(passes(&sender, &receiver), 20, "{mode}: beside another run");
        (mode, testbed, found)
    });
    exec(kept[0].1.bottleneck(), env!("CARGO_BIN_EXE_weir"), &["doctor", "--clean"]);
    for (mode, testbed, found) in &kept {
        assert_eq!(*found, states(testbed), "{mode}, after doctor --clean");
    }
}

/// TCP from the sender on, and numbered frames both ways, until it is told to end.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// From the sender, and from the receiver.
    frames: [JoinHandle<Vec<Instant>>; 2],
}

impl Load {
    fn begin(testbed: &Testbed) -> Load {
        let (stop, mut threads) = (Arc::<AtomicBool>::default(), Vec::new());
        let listener = in_netns(testbed.receiver(), || TcpListener::bind("10.77.0.2:9000")).unwrap().unwrap();
        let mut stream =
            in_netns(testbed.sender(), || TcpStream::connect("10.77.0.2:9000")).unwrap().unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(ms(100))).unwrap();
        accepted.set_read_timeout(Some(ms(100))).unwrap();
        let mut run = |mut step: Box<dyn FnMut() + Send>| {
            let stop = stop.clone();
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    step();
                }
            }));
        };
        let data = vec![0; 16 << 10];
        run(Box::new(move || drop(stream.write(&data))));
        let mut buffer = vec![0; 256 << 10];
        run(Box::new(move || drop(accepted.read(&mut buffer))));
        let ends = [(testbed.sender(), "snd0"), (testbed.receiver(), "rcv0")];
        let frames = ends.map(|(namespace, device)| numbered(namespace, device, &stop));
        Load { stop, threads, frames }
    }

    /// When each frame was sent, from the sender and from the receiver.
    fn end(self) -> [Vec<Instant>; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.frames.map(|thread| thread.join().unwrap())
    }
}

/// Numbered frames, one in a millisecond, until it is stopped: when each was sent.
fn numbered(namespace: &str, device: &str, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<Instant>> {
    let (raw, stop) = (Raw::open(namespace, device), stop.clone());
    std::thread::spawn(move || {
        let mut sent = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            sent.push(Instant::now());
            raw.send(&frame(sent.len() as u32 - 1));
            sleep(ms(1));
        }
        sent
    })
}

/// Takes numbered frames at one end: when each came. What is still on its way at the end is waited for.
fn watch(namespace: &str, device: &str, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<(Instant, u32)>> {
    let (raw, stop) = (Raw::open(namespace, device), stop.clone());
    std::thread::spawn(move || {
        let (mut seen, mut end) = (Vec::new(), None);
        while end.is_none_or(|end| Instant::now() < end) {
            if end.is_none() && stop.load(Ordering::Relaxed) {
                end = Some(Instant::now() + ms(500));
            }
            let Some(frame) = raw.receive(ms(20)) else { continue };
            if frame.get(6..14) == Some(&[&SOURCE[..], &[0x88, 0xb5]].concat()) {
                seen.push((Instant::now(), number(&frame)));
            }
        }
        seen
    })
}

#[test]
fn a_run_takes_over_from_another_without_a_gap_and_without_doubling_a_packet() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        judged(|attempt| taken_over(mode, attempt));
    }
}

fn taken_over(mode: &str, attempt: &mut Attempt) {
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
    let found = states(&testbed);
    let config = patient(&ports(mode)) + "[a_to_b]\nrate = \"50Mbit/s\"\naqm = { name = \"codel\" }\n";
    let first = Weir::start(bot, &config);
    // Without the word of the user it is as ever.
    let refused = Weir::spawn(bot, &config, &[]).wait();
    assert!(refused.code == Some(1) && refused.stderr.contains("--takeover"), "{}", refused.stderr);
    let load = Load::begin(&testbed);
    let stop = Arc::<AtomicBool>::default();
    let watches = [(testbed.receiver(), "rcv0"), (testbed.sender(), "snd0")].map(|(n, d)| watch(n, d, &stop));
    sleep(ms(1000));
    attempt.begin();
    let before = Instant::now();
    let second = Weir::start_with(bot, &config, &["--takeover"]);
    let ended = first.wait();
    sleep(ms(300));
    let third = Weir::start_with(bot, &config, &["--takeover"]);
    let ended_second = second.wait();
    sleep(ms(300));
    let after = Instant::now();
    attempt.end();
    stop.store(true, Ordering::Relaxed);
    let seen = watches.map(|watch| watch.join().unwrap());
    let sent = load.end();
    for ended in [&ended, &ended_second] {
        assert_eq!(ended.code, Some(0), "{mode}: {}", ended.stderr);
        assert!(ended.json()["warnings"].to_string().contains("took over the ports"), "{}", ended.stdout);
    }
    assert!(third.text("err").contains("took over from process "), "{}", third.text("err"));
    assert_eq!(journals(bot).len(), 1);
    for ((way, seen), sent) in ["a to b", "b to a"].into_iter().zip(&seen).zip(&sent) {
        let mut times: HashMap<u32, u32> = HashMap::new();
        seen.iter().for_each(|(_, number)| *times.entry(*number).or_default() += 1);
        let doubled = times.values().filter(|n| **n > 1).count();
        assert_eq!(doubled, 0, "{mode}, {way}: doubled frames, of {}", seen.len());
        let lost = seen.iter().map(|s| s.1).max().unwrap() as usize + 1
            - seen.iter().map(|s| s.1).min().unwrap() as usize
            - times.len();
        let gap = longest_gap(sent, seen, &(before..after));
        say(format!("{mode}, {way}: {gap:?} without a frame at the longest, {lost} of {} lost", seen.len()));
        attempt.within(format!("{mode}, {way}: longest gap in s"), gap.as_secs_f64(), ..0.050);
    }
    let ended = third.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(found, states(&testbed), "{mode}");
    assert!(journals(bot).is_empty());
}

/// Takes the XDP programs off all links whose program is on this interface, as `bpftool link detach` does.
fn detach_xdp(namespace: &str, device: &str) {
    let detach = || {
        let name = std::ffi::CString::new(device).unwrap();
        // SAFETY: a terminated string.
        let wanted = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let [get_info, get_fd, next_id, detach_link] = [15i64, 30, 31, 34];
        let bpf = |command: i64, attributes: &mut [u32; 16]| {
            // SAFETY: the pointer and length describe the attributes, which outlive the call.
            unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), 64) }
        };
        let (mut id, mut count) = (0, 0);
        loop {
            let mut next = [0; 16];
            next[0] = id;
            if bpf(next_id, &mut next) != 0 {
                return count;
            }
            id = next[1];
            let mut open = [0; 16];
            open[0] = id;
            let fd = bpf(get_fd, &mut open);
            let mut info = [0u32; 32];
            let mut ask = [0; 16];
            let pointer = info.as_mut_ptr() as u64;
            (ask[0], ask[1], ask[2], ask[3]) = (fd as u32, 128, pointer as u32, (pointer >> 32) as u32);
            // Of `struct bpf_link_info`: type 6 is XDP, the interface follows id and program.
            if bpf(get_info, &mut ask) == 0 && info[0] == 6 && info[4] == wanted {
                let mut link = [0; 16];
                link[0] = fd as u32;
                assert_eq!(bpf(detach_link, &mut link), 0, "{}", std::io::Error::last_os_error());
                count += 1;
            }
            // SAFETY: opened above and used no more.
            unsafe { libc::close(fd as i32) };
        }
    };
    assert_eq!(in_netns(namespace, detach).unwrap(), 1, "one link of {device}");
}

#[test]
fn what_is_removed_underfoot_is_told_and_put_back_within_a_second() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        judged(|attempt| removed_underfoot(mode, attempt));
    }
}

fn removed_underfoot(mode: &str, attempt: &mut Attempt) {
    // The thread that looks does so every 0.3 s.
    attempt.tolerates(0.1);
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let found = states(&testbed);
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    let mut weir = Weir::start(bot, &ports(mode));
    let running = states(&testbed);
    let mut within = |what: &str, after: Duration| {
        attempt.within(format!("{mode}: `{what}` after s"), after.as_secs_f64(), ..1.0);
    };
    let tc = |arguments: &str| drop(exec(bot, "tc", &arguments.split(' ').collect::<Vec<_>>()));
    let mut back = |weir: &Weir, what: &str, remove: &dyn Fn()| {
        remove();
        let after = weir.until(what);
        within(what, after);
        assert_eq!(running, states(&testbed), "{mode}: {what}");
        assert_eq!(passes(&sender, &receiver), 20, "{mode}: {what}");
    };
    back(&weir, "a: the filter that fails open was removed", &|| tc("filter del dev a ingress"));
    back(&weir, "b: the filter that fails open was removed", &|| tc("qdisc del dev b clsact"));
    let gro = || drop(exec(bot, "ethtool", &["-K", "b", "gro", "on"]));
    back(&weir, "b: generic-receive-offload was switched on", &gro);
    let tags = || drop(exec(bot, "ethtool", &["-K", "a", "rx-vlan-stag-hw-parse", "on"]));
    back(&weir, "a: rx-vlan-stag-hw-parse was switched on", &tags);
    if mode != "af_packet" {
        back(&weir, "a: the XDP program was taken off", &|| detach_xdp(bot, "a"));
    }
    exec(bot, "ip", &["link", "add", "name", "br0", "type", "bridge"]);
    exec(bot, "ip", &["link", "set", "dev", "a", "master", "br0"]);
    let told = "a: it was made a part of `br0` while running";
    within(told, weir.until(told));
    exec(bot, "ip", &["link", "del", "dev", "br0"]);
    let told = "a: it is no part of `br0` any more";
    within(told, weir.until(told));
    // It still fails open.
    weir.stop();
    sleep(ms(400));
    assert_eq!(passes(&sender, &receiver), 20, "{mode}: stopped");
    weir.signal(libc::SIGCONT);
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{mode}: {}", ended.stderr);
    assert!(ended.json()["warnings"].to_string().contains("it was put back"), "{}", ended.stdout);
    let after = states(&testbed);
    // What somebody switched on is on again.
    assert!(after[1].contains("generic-receive-offload: on"), "{mode}: {}", after[1]);
    exec(
        bot,
        "ethtool",
        &["-K", "b", "gro", if found[1].contains("generic-receive-offload: on") { "on" } else { "off" }],
    );
    assert_eq!(found, states(&testbed), "{mode}");
}

#[test]
fn a_panic_in_the_loops_thread_leaves_the_wire_open() {
    let Some(_turn) = turn_beside_others() else { return };
    for mode in MODES {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let config = weir_config::RunConfig::parse("run", &ports(mode)).unwrap();
        let direction = |channel: &weir_config::Channel| DirectionSetup::new("way", channel.clone());
        let directions = [direction(&config.a_to_b), direction(&config.b_to_a)];
        let wanted = match mode {
            "xdp-native" => Mode::XdpNative,
            "xdp-generic" => Mode::XdpGeneric,
            _ => Mode::AfPacket,
        };
        let setup =
            Setup { mode: Some(wanted), journal: true, ..Setup::in_namespace(["a", "b"], directions) };
        let (looping, _handle) = in_netns(bot, || Loop::open(setup).unwrap()).unwrap();
        let thread = std::thread::spawn(move || {
            let _looping = looping;
            panic!("as a packet loop may");
        });
        assert!(thread.join().is_err());
        assert_eq!(passes(&sender, &receiver), 20, "{mode}: the wire is open");
        assert!(states(&testbed).iter().all(|s| s.contains("port_tc") && !s.contains("prog/xdp")), "{mode}");
        let left = journals(bot);
        assert_eq!(left.len(), 1, "{mode}: the next run finds what to put back");
        // This process lives, so that nobody else takes its journal for left behind.
        left.iter().for_each(|journal| std::fs::remove_file(journal).unwrap());
    }
}

/// Lets an end host leave the tag of what it sends beside the frame, as VLAN devices do.
fn push_tags(namespace: &str, device: &str, folder: &std::path::Path, kind: &str, id: u16) {
    let source = format!(
        "static long (*const push)(void *, unsigned short, unsigned short) = (void *)18;\n\
         __attribute__((section(\"tc\"), used)) int tag(void *skb) {{ push(skb, __builtin_bswap16({kind}), {id}); return 0; }}\n\
         char the_license[] __attribute__((section(\"license\"), used)) = \"GPL\";\n"
    );
    let (file, object) = (folder.join("tag.c"), folder.join("tag.o"));
    std::fs::write(&file, source).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-target", "bpf", "-c"]).arg(&file).arg("-o").arg(&object);
    assert!(clang.status().unwrap().success());
    try_exec(namespace, "tc", &["qdisc", "add", "dev", device, "clsact"]);
    try_exec(namespace, "tc", &["filter", "del", "dev", device, "egress"]);
    let add =
        ["filter", "add", "dev", device, "egress", "bpf", "da", "obj", object.to_str().unwrap(), "sec", "tc"];
    exec(namespace, "tc", &add);
}

#[test]
fn vlan_tags_survive_in_each_mode_and_in_bypass_wherever_they_are_kept() {
    let Some(_turn) = turn_beside_others() else { return };
    let folder = Folder::new();
    // Generic XDP does not see a tag beside the frame, and a veth has them there if its peer leaves them.
    for mode in ["xdp-native", "af_packet"] {
        let testbed = testbed();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let mut weir = Weir::start(testbed.bottleneck(), &ports(mode));
        for (kind, id) in [("0x8100", 5), ("0x88a8", 7)] {
            push_tags(testbed.sender(), "snd0", folder.path(), kind, id);
            let type_ = u16::from_str_radix(&kind[2..], 16).unwrap();
            let tagged = |n| {
                let plain = frame(n);
                [&plain[..12], &type_.to_be_bytes(), &id.to_be_bytes(), &plain[12..]].concat()
            };
            let want: Vec<Vec<u8>> = (0..20).map(tagged).collect();
            let send = || {
                receiver.drain(ms(20));
                (0..20).for_each(|n| sender.send(&frame(n)));
                receiver.take(20)
            };
            assert_eq!(send(), want, "{mode}, {kind}");
            weir.stop();
            sleep(ms(400));
            assert_eq!(send(), want, "{mode}, {kind}: in bypass");
            weir.signal(libc::SIGCONT);
            sleep(ms(300));
        }
        exec(testbed.sender(), "tc", &["qdisc", "del", "dev", "snd0", "clsact"]);
        assert_eq!(weir.interrupt().code, Some(0));
    }
}

#[test]
fn queues_that_are_added_under_load_are_served() {
    let Some(_turn) = turn_beside_others() else { return };
    let config = TestbedConfig { queues: [128, 1], ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap();
    let bot = testbed.bottleneck();
    let set = |namespace: &str, device: &str, count: &str| {
        drop(try_exec(namespace, "ethtool", &["-L", device, "rx", count, "tx", count]));
    };
    set(testbed.sender(), "snd0", "1");
    set(bot, "a", "1");
    let sender = Raw::open(testbed.sender(), "snd0");
    let receiver = Raw::open(testbed.receiver(), "rcv0");
    let weir = Weir::start(bot, &patient(&ports("xdp-native")));
    let stop = Arc::<AtomicBool>::default();
    let seen = watch(testbed.receiver(), "rcv0", &stop);
    let mut sent = 0;
    for count in ["4", "128"] {
        set(bot, "a", count);
        set(testbed.sender(), "snd0", count);
        let start = Instant::now();
        weir.until(&format!("a: it has {count} receive queues now"));
        while start.elapsed() < ms(2500) {
            sender.send(&frame(sent));
            sent += 1;
            sleep(ms(1));
        }
    }
    sleep(ms(100));
    stop.store(true, Ordering::Relaxed);
    let seen = seen.join().unwrap();
    let mut numbers: Vec<u32> = seen.iter().map(|s| s.1).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..sent), "{} of {sent} frames", numbers.len());
    // All of them are served now: nothing passes by.
    let told = |weir: &Weir| weir.text("err").matches("past the queues").count();
    let before = told(&weir);
    (0..512u32).for_each(|flow| {
        let builder = etherparse::PacketBuilder::ethernet2(SOURCE, DESTINATION)
            .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
            .udp(20_000 + flow as u16, 7000);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &[0; 60]).unwrap();
        sender.send(&bytes);
        sleep(Duration::from_micros(200));
    });
    let is_ip = |f: &Vec<u8>| f[6..12] == SOURCE && f[12..14] == [8, 0];
    let (mut count, deadline) = (0, Instant::now() + PATIENCE);
    while count < 512 && Instant::now() < deadline {
        count += receiver.receive(ms(200)).iter().filter(|f| is_ip(f)).count();
    }
    count += receiver.drain(ms(200)).iter().filter(|f| is_ip(f)).count();
    assert_eq!(count, 512);
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.json()["links"][0]["packets"].as_u64().unwrap() >= 512, "{before}: {}", ended.stdout);
}

#[test]
fn queues_that_come_and_go_under_load_cost_nothing_but_the_moment_of_the_change() {
    let Some(_turn) = long_turn_beside_others() else { return };
    for mode in ["xdp-native", "af_packet"] {
        let testbed = Testbed::new(TestbedConfig { queues: [128, 1], ..TestbedConfig::default() }).unwrap();
        let bot = testbed.bottleneck();
        let set = |count: &str| try_exec(bot, "ethtool", &["-L", "a", "rx", count, "tx", count]).0;
        // A veth takes no native program that has fewer queues than its peer sends to.
        try_exec(testbed.sender(), "ethtool", &["-L", "snd0", "rx", "1", "tx", "1"]);
        assert!(set("1"), "{mode}: without sockets each count is taken");
        let weir = Weir::start(bot, &patient(&ports(mode)));
        let stop = Arc::<AtomicBool>::default();
        let seen = watch(testbed.receiver(), "rcv0", &stop);
        let sent = numbered(testbed.sender(), "snd0", &stop);
        let mut changes = Vec::new();
        for count in ["16", "128", "4", "128", "1"] {
            sleep(ms(1200));
            let before = Instant::now();
            let is_done = set(count);
            // A driver takes its link down for that: what is sent meanwhile is its own loss.
            changes.push((count, is_done, before - ms(5)..Instant::now() + ms(200)));
        }
        sleep(ms(1200));
        stop.store(true, Ordering::Relaxed);
        let (sent, seen) = (sent.join().unwrap(), seen.join().unwrap());
        let mut times = vec![0; sent.len()];
        seen.iter().for_each(|(_, number)| times[*number as usize] += 1);
        assert!(times.iter().all(|n| *n <= 1), "{mode}: doubled frames, of {}", seen.len());
        // A frame leaves after its time was noted, and before the next one's was.
        let is_lost = |number: &usize| {
            let (from, until) = (sent[*number], sent[*number + 1]);
            let is_meanwhile = |span: &Range<Instant>| span.start <= until && from < span.end;
            times[*number] == 0 && !changes.iter().any(|(_, _, while_changed)| is_meanwhile(while_changed))
        };
        // The last may be on their way.
        let lost: Vec<usize> = (0..sent.len() - 100).filter(is_lost).collect();
        let done: Vec<(&str, bool)> = changes.iter().map(|(count, is_done, _)| (*count, *is_done)).collect();
        say(format!("{mode}: {done:?}; {} of {} frames passed", seen.len(), sent.len()));
        assert!(lost.is_empty(), "{mode}: {lost:?} of {}, {done:?}", sent.len());
        // The kernel lets none be taken away that has a socket, and says so.
        let is_taken = |count: &str| done.iter().filter(|(n, _)| *n == count).all(|(_, is_done)| *is_done);
        assert!(is_taken("16") && is_taken("128"), "{mode}: {done:?}");
        assert_eq!(is_taken("4") && is_taken("1"), mode == "af_packet", "{done:?}");
        if mode != "af_packet" {
            for count in ["16", "128"] {
                weir.until(&format!("a: it has {count} receive queues now"));
            }
        }
        assert_eq!(weir.interrupt().code, Some(0), "{mode}");
    }
}

/// The system calls that change interfaces, programs (over netlink) and the journal.
const CHANGES: &str = "rename,renameat,renameat2,unlink,unlinkat,ioctl,sendto";
/// Testbeds in which that is done side by side.
const SIDES: u32 = 2;

/// Kills a run at its n-th call of those that change anything; whether it came that far.
fn is_killed_at(bot: &str, config: &str, n: u32) -> bool {
    let (trace, inject) = (format!("trace={CHANGES}"), format!("inject={CHANGES}:signal=SIGKILL:when={n}"));
    let before = ["strace", "-f", "-q", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let ended = Weir::spawn(bot, config, &before).wait();
    assert!(matches!(ended.code, None | Some(0)), "{n}: {}", ended.stderr);
    ended.code.is_none()
}

#[test]
fn a_run_that_is_killed_at_any_step_leaves_interfaces_to_be_put_back_by_the_next() {
    let Some(_turn) = long_turn_beside_others() else { return };
    if !has_strace() {
        return;
    }
    let steps = |side: u32| {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        exec(bot, "ethtool", &["-K", "a", "gro", "on"]);
        exec(bot, "ip", &["link", "set", "dev", "b", "down"]);
        let found = states(&testbed);
        let short = |mode| ports(mode) + "[run]\nduration = \"10ms\"\nsample = \"5ms\"\n";
        let mut step = 1 + side;
        while is_killed_at(bot, &short("xdp-native"), step) {
            let next = Weir::spawn(bot, &short("af_packet"), &[]).wait();
            assert_eq!(next.code, Some(0), "after step {step}: {}", next.stderr);
            assert_eq!(found, states(&testbed), "killed at step {step}: {}", next.stderr);
            assert!(journals(bot).is_empty(), "killed at step {step}: {}", next.stderr);
            step += SIDES;
            assert!(step < 2000, "it never comes to its end");
        }
        assert_eq!(found, states(&testbed), "not killed");
        step
    };
    let all = each(0..SIDES, steps);
    say(format!("killed at every step below {all:?}"));
    assert!(all.iter().all(|steps| *steps > 50), "{all:?}");
}

#[test]
fn a_lock_that_somebody_holds_is_waited_for_with_an_end() {
    let Some(_turn) = long_turn_beside_others() else { return };
    let testbed = testbed();
    // The folder is there before anybody looks at it: below it lies the one that runs of other tests lock.
    let prepare = "mkdir -p /run/weir && mount -t tmpfs none /run/weir && umask 0 && : > /run/weir/starting.lock && \
                   chmod 666 /run/weir/starting.lock || exit 3; \
                   (flock 9; sleep 30) 9</run/weir/starting.lock & \
                   while flock -n /run/weir/starting.lock true; do sleep 0.01; done; exec \"$@\"";
    let before = ["unshare", "-m", "sh", "-c", prepare, "sh"];
    // It is told what is waited for, and a request to end ends it.
    let mut asked = Weir::spawn(testbed.bottleneck(), &ports("auto"), &before);
    until("it says what it waits for", || {
        asked.text("err").contains("for another program that opens its ports")
    });
    asked.signal(libc::SIGINT);
    let ended = asked.wait();
    assert_eq!(
        (ended.code, ended.json()["interrupted"].as_bool()),
        (Some(0), Some(true)),
        "{}",
        ended.stderr
    );
    let start = Instant::now();
    let mut weir = Weir::spawn(testbed.bottleneck(), &ports("auto"), &before);
    while weir.child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "it waits without end");
        sleep(ms(20));
    }
    let ended = weir.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("is locked by another program") && ended.stderr.contains("Remedy"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_run_goes_on_where_nobody_reads_what_it_says() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    let out = folder.path().join("out");
    // A pipe that is full and that nobody reads.
    let prepare =
        "mkfifo \"$1\" && exec 8<>\"$1\" && (head -c 65536 /dev/zero >&8) && shift && exec \"$@\" 2>&8";
    let pipe = folder.path().join("pipe");
    let before = ["sh", "-c", prepare, "sh", pipe.to_str().unwrap()];
    let config = format!("{}[run]\nduration = \"2s\"\nsample = \"10ms\"\nout = {out:?}\n", ports("auto"));
    let weir = Weir::spawn(testbed.bottleneck(), &config, &before);
    let ended = weir.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(out.join("summary.json").exists());
}
