//! Two users whose bottlenecks differ, behind one direction that holds each to the rate of its own, with real
//! TCP.
//!
//! The second box is the kernel's bridge with a FIFO for each user (HTB), of which nothing here knows. Needs
//! root, iproute2 and the kernel's bridge and HTB; skipped without.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use weir_config::RunConfig;
use weir_dataplane::{DirectionSetup, Loop, Setup};
use weir_lab::tcpinfo::snapshot;
use weir_lab::*;
use weir_measure::result::LinkSummary;

/// The users, and what their bottlenecks deliver in Mbit/s.
const USERS: [(&str, f64); 2] = [("10.77.0.2", 24.0), ("10.77.0.21", 6.0)];
/// The first user's port; the second has the one after.
const PORT: u16 = 9001;
const WARMUP: Duration = Duration::from_millis(2500);
const LENGTH: Duration = Duration::from_secs(6);

/// What a user had: the median of smoothed round-trip times in ms, and the goodput in Mbit/s.
type Had = (f64, f64);

fn did(program: &str, words: &str) -> bool {
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Makes a bridge of the second box, with a deep FIFO for each user.
fn bottlenecks(namespace: &str) -> bool {
    let mut good = did("ip", &format!("-n {namespace} link add name middle type bridge"));
    for port in netns::PORTS {
        good &= did("ip", &format!("-n {namespace} link set dev {port} master middle"));
    }
    good &= did("ip", &format!("-n {namespace} link set middle up"));
    let mut tc = |words: &str| good &= did("tc", &format!("-n {namespace} {words}"));
    tc("qdisc replace dev b root handle 1: htb");
    for (n, (address, mbps)) in USERS.iter().enumerate() {
        let class = format!("1:{}", n + 1);
        tc(&format!(
            "class add dev b parent 1: classid {class} htb rate {mbps}mbit burst 3k cburst 3k quantum 1514"
        ));
        tc(&format!("qdisc add dev b parent {class} bfifo limit 600k"));
        tc(&format!("filter add dev b parent 1: protocol ip u32 match ip dst {address} flowid {class}"));
    }
    good
}

fn direction(there: &str) -> [DirectionSetup; 2] {
    let text = format!("[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\n{there}[b_to_a]\ndelay = \"30ms\"\n");
    let config = RunConfig::parse("test", &text).unwrap_or_else(|e| panic!("{e}"));
    [DirectionSetup::new("there", config.a_to_b), DirectionSetup::new("back", config.b_to_a)]
}

/// A download of a user, until told to stop.
fn download(testbed: &Testbed, user: usize, stop: &Arc<AtomicBool>) -> Arc<AtomicU64> {
    let at = SocketAddr::new(USERS[user].0.parse().unwrap(), PORT + user as u16);
    let listener = in_netns(testbed.receiver(), || TcpListener::bind(at)).unwrap().unwrap();
    let received = Arc::<AtomicU64>::default();
    let (counter, stopped) = (received.clone(), stop.clone());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            counter.fetch_add(len as u64, Ordering::Relaxed);
        }
    });
    let namespace = testbed.sender().to_string();
    std::thread::spawn(move || {
        let mut stream = in_netns(&namespace, || TcpStream::connect(at)).unwrap().unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            let _ = stream.write(&[0; 16 << 10]);
        }
        let _ = stream.shutdown(Shutdown::Both);
    });
    received
}

fn testbed() -> Testbed {
    let config =
        TestbedConfig { boxes: 2, more_receivers: vec![USERS[1].0.to_string()], ..TestbedConfig::default() };
    Testbed::new(config).unwrap()
}

fn has_bottlenecks() -> bool {
    bottlenecks(&testbed().boxes()[1])
}

/// Both users download.
fn run(there: &str) -> ([Had; 2], LinkSummary) {
    let testbed = testbed();
    let [first, second] = testbed.boxes() else { panic!("two boxes") };
    assert!(bottlenecks(second));
    let (stop, opened) = (Arc::<AtomicBool>::default(), mpsc::channel());
    let setup = Setup { warmup: WARMUP.into(), ..Setup::in_namespace(netns::PORTS, direction(there)) };
    let (namespace, stopped, told) = (first.clone(), stop.clone(), opened.0);
    let looping = std::thread::spawn(move || {
        let body = || {
            let (looping, handle) = Loop::open(setup).unwrap();
            told.send(()).unwrap();
            let outcome = looping.run(&stopped).unwrap();
            drop(handle);
            outcome
        };
        in_netns(&namespace, body).unwrap()
    });
    opened.1.recv().unwrap();
    let ended = Arc::<AtomicBool>::default();
    let received = [0, 1].map(|user| download(&testbed, user, &ended));
    let had = measure(&testbed, &received);
    ended.store(true, Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    let [summary, _] = looping.join().unwrap().links;
    testbed.close().unwrap();
    (had, summary)
}

fn measure(testbed: &Testbed, received: &[Arc<AtomicU64>; 2]) -> [Had; 2] {
    std::thread::sleep(WARMUP);
    let count = || [0, 1].map(|n: usize| received[n].load(Ordering::Relaxed));
    let (began, before, mut rtts) = (Instant::now(), count(), [Vec::new(), Vec::new()]);
    while began.elapsed() < LENGTH - WARMUP {
        std::thread::sleep(Duration::from_millis(50));
        for socket in snapshot(testbed.sender()).unwrap() {
            let Some(tcp) = socket.tcp else { continue };
            let user = usize::from(socket.remote_port.wrapping_sub(PORT));
            rtts.get_mut(user).into_iter().for_each(|rtts| rtts.push(f64::from(tcp.rtt_us) / 1e3));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = count();
    [0, 1].map(|n| {
        rtts[n].sort_by(f64::total_cmp);
        // No number, which is within no bounds, where this thread did not come to look.
        let rtt_ms = rtts[n].get(rtts[n].len() / 2).copied().unwrap_or(f64::NAN);
        (rtt_ms, (after[n] - before[n]) as f64 * 8.0 / seconds / 1e6)
    })
}

#[test]
fn each_user_has_a_short_queue_behind_at_the_rate_of_its_own_bottleneck() {
    if !can_run_live(&["ip", "tc"]) {
        return;
    }
    let _alone = exclusive(|_| ControlFlow::Continue(())).unwrap();
    if !has_bottlenecks() {
        return skipped::skipped("needs the kernel's bridge and HTB");
    }
    judged(with_and_without);
}

fn with_and_without(attempt: &mut Attempt) {
    // A tenth of the rate lies between what is measured and its bound.
    attempt.tolerates(0.05);
    let follow = "upstream = \"follow\"\nqueue = { discipline = \"user\", users = 64 }\n\
                  aqm = { name = \"codel\", target = \"20ms\" }\n";
    let ((off, _), (on, link)) = (run(""), run(follow));
    attempt.end();
    eprintln!("off {off:?}, follow {on:?}, {:?}", link.upstream);
    for (n, (address, mbps)) in USERS.iter().enumerate() {
        // Without, what is read comes in jumps, as it waits behind what was lost.
        let ((off_ms, _), (on_ms, on_mbps)) = (off[n], on[n]);
        attempt.within(
            format!("{address}: {off_ms:.1} ms without, in {on_ms:.1} with"),
            off_ms / on_ms,
            2.0..,
        );
        attempt.within(format!("Mbit/s, in {mbps}"), on_mbps / mbps, 0.85..1.0);
    }
    let observed = link.upstream.unwrap();
    assert_eq!(observed.users, 2, "{observed:?}");
    attempt.within("coverage", observed.coverage().unwrap_or(0.0), 0.9..=1.0);
}
