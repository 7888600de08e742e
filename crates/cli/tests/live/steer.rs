//! `weir steer` on queues of this kernel, in namespaces of its own: a FIFO below TBF, which every kernel here
//! has. CoDel and its relatives run in QEMU (`tools/steer-witness`).

use crate::common::{self, PATIENCE, Started, Weir, assert_settles, exec, is_confined_to, try_exec, turn};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dataplane::privileges;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Packets in a second of 1428 bytes that are sent to a queue for 8 Mbit/s, which are twice as much; and how
/// many of those that are late are made up for at once, which are a tenth of a second's.
const SENT_PER_S: u64 = 1500;
const BURST: u64 = 150;

/// A namespace with a shaped interface that sends twice as much as it may, until it is dropped.
pub(crate) struct Busy {
    pub(crate) namespace: String,
    stop: Arc<AtomicBool>,
    sender: Option<std::thread::JoinHandle<()>>,
}

impl Busy {
    /// With these queues, as words of `tc`.
    pub(crate) fn with(name: &str, queues: &[&str]) -> Busy {
        let namespace = format!("weir-steer-{name}-{}", std::process::id());
        let ip = |words: &str| {
            let done = Command::new("ip").args(words.split(' ')).output().unwrap();
            assert!(done.status.success(), "ip {words}: {done:?}");
        };
        ip(&format!("netns add {namespace}"));
        let mut busy = Busy { namespace, stop: Arc::default(), sender: None };
        let within = |words: &str| ip(&format!("-n {} {words}", busy.namespace));
        within("link add d0 type veth peer name d1");
        within("addr add 10.9.0.1/24 dev d0");
        within("link set d0 up");
        within("link set d1 up");
        within("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev d0");
        queues.iter().for_each(|words| drop(busy.tc(words)));
        let (namespace, stop) = (busy.namespace.clone(), busy.stop.clone());
        busy.sender = Some(std::thread::spawn(move || {
            weir_lab::in_netns(&namespace, || {
                let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
                let (begun, mut sent) = (Instant::now(), 0);
                while !stop.load(Ordering::Relaxed) {
                    // Also a thread that gets little of the machine sends as much as is wanted.
                    let due = begun.elapsed().as_micros() as u64 * SENT_PER_S / 1_000_000;
                    for _ in sent.max(due.saturating_sub(BURST))..due {
                        // A full queue is what is wanted.
                        let _ = socket.send_to(&[0; 1400], "10.9.0.2:9");
                    }
                    sent = due;
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
            .unwrap();
        }));
        busy
    }

    fn new(name: &str) -> Busy {
        let tbf = "qdisc add dev d0 root handle 1: tbf rate 8mbit burst 5k limit 200k";
        Busy::with(name, &[tbf, "qdisc add dev d0 parent 1: handle 10: bfifo limit 100000"])
    }

    /// With a shaper that can be slowed, and a policy that makes the program slow it.
    fn slowed(name: &str) -> (Busy, [&'static str; 6]) {
        let queues = [
            "qdisc add dev d0 root handle 1: htb default 1",
            "class add dev d0 parent 1: classid 1:1 htb rate 8mbit burst 5k quantum 1514",
            "qdisc add dev d0 parent 1:1 handle 10: bfifo limit 100000",
        ];
        let words =
            ["--utilization-low", "90%", "--utilization-target", "95%", "--set", "policy.virtual_memory=1s"];
        (Busy::with(name, &queues), words)
    }

    pub(crate) fn tc(&self, words: &str) -> String {
        exec(&self.namespace, "tc", &words.split(' ').collect::<Vec<_>>())
    }

    /// The queues and classes as `tc` tells them, without counters.
    fn queues(&self) -> String {
        self.tc("-d qdisc show dev d0") + &self.tc("-d class show dev d0")
    }

    /// Starts `weir --json steer d0` with some words.
    fn start(&self, words: &[&str]) -> Started {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, WEIR, "--json", "steer", "d0"]).args(words);
        Started::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Waits until the queues are such.
    fn until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let queues = self.queues();
            if is(&queues) {
                return queues;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {queues}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

/// No thread of a process has other capabilities than these, or may get any, and system calls are filtered. A
/// thread that was just started gives its rights up by itself, and is waited for.
pub(crate) fn assert_rights(pid: u32, allowed: u64) {
    assert_settles(pid, "weir", |thread| is_confined_to(thread, allowed));
}

/// Asks a process to end.
pub(crate) fn terminate(child: &Child) {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// What a process said at its end: its status, the result, and the rest.
pub(crate) fn ended(child: Started) -> (Option<i32>, Value, String) {
    let output = child.wait_with_output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = serde_json::from_slice(&output.stdout);
    (output.status.code(), result.unwrap_or_else(|e| panic!("{e}: {output:?}")), said)
}

#[test]
fn that_a_run_sends_past_the_queues_is_told() {
    let Some(_turn) = turn() else { return };
    let busy = Busy::new("beside");
    let of_a_run = || {
        let (status, _, said) = ended(busy.start(&["--dry-run"]));
        assert_eq!(status, Some(0), "{said}");
        said.contains("d0 is a port of process").then_some(said)
    };
    assert_eq!(of_a_run(), None);
    exec(&busy.namespace, "ip", &["link", "add", "e0", "up", "type", "veth", "peer", "name", "e1"]);
    let weir = Weir::start(&busy.namespace, "ports = { a = \"e0\", b = \"d0\" }\n");
    let said = of_a_run();
    assert!(said.as_ref().is_some_and(|said| said.contains(&weir.child.pid().to_string())), "{said:?}");
    assert_eq!(weir.interrupt().code, Some(0));
    assert_eq!(of_a_run(), None);
}

#[test]
fn a_fifo_below_a_shaper_is_steered_and_put_back_also_after_a_kill() {
    let Some(_turn) = turn() else { return };
    let busy = Busy::new("kill");
    let found = busy.queues();
    let (status, result, _) = ended(busy.start(&["--dry-run"]));
    assert_eq!((status, &result["changed"]), (Some(0), &Value::Bool(false)), "{result}");
    let (would, policy) = (&result["would_steer"][0], &result["would_steer"][0]["policy"]);
    assert_eq!((&would["kind"], &policy["target_max_ms"]), (&"bfifo".into(), &30.0.into()), "{result}");
    assert_eq!(policy["utilization_low"], 0.99, "{result}");
    assert_eq!(busy.queues(), found);

    let steered = busy.start(&[]);
    busy.until("the room becomes less", |now| now != found);
    assert_rights(steered.id(), privileges::QUEUES.bitmask());
    terminate(&steered);
    let (status, result, said) = ended(steered);
    assert_eq!(status, Some(0), "{said}");
    let queue = &result["queues"][0];
    assert!(queue["changes"].as_u64() >= Some(1) && queue["left"].is_null(), "{result}");
    assert!(queue["target_max_ms"].as_f64() <= Some(30.0), "{result}");
    assert_eq!(busy.queues(), found);

    let kill_one = || {
        let mut killed = busy.start(&[]);
        busy.until("the room becomes less", |now| now != found);
        killed.kill().unwrap();
        killed.wait().unwrap();
    };
    kill_one();
    // A dead program leaves the queue as it was. Until it died it may have gone on to change it.
    let changed = busy.queues();
    assert_ne!(changed, found);
    let (status, _, said) = ended(busy.start(&["--duration", "50ms"]));
    assert!(
        status == Some(0) && said.contains("after a killed run: d0 bfifo 10:: put its target back"),
        "{said}"
    );
    assert_eq!(busy.queues(), found);

    // So it is from outside of the namespace.
    kill_one();
    let cleaned = Command::new(WEIR).args(["doctor", "--clean-only"]).output().unwrap();
    let said = String::from_utf8_lossy(&cleaned.stdout);
    assert!(cleaned.status.success() && said.contains("d0 bfifo 10:: put its target back"), "{cleaned:?}");
    assert_eq!(busy.queues(), found);

    // One that would have ended by itself was cut short.
    let cut = busy.start(&["--duration", "60s"]);
    busy.until("the room becomes less", |now| now != found);
    terminate(&cut);
    let (status, result, said) = ended(cut);
    assert_eq!((status, &result["interrupted"]), (Some(130), &Value::Bool(true)), "{said}");
    assert_eq!(busy.queues(), found);

    let kept = busy.start(&["--keep"]);
    busy.until("the room becomes less", |now| now != found);
    terminate(&kept);
    assert_eq!(ended(kept).0, Some(0));
    assert_ne!(busy.queues(), found);
}

#[test]
fn what_another_tc_does_is_told_and_left_to_it() {
    let Some(_turn) = turn() else { return };
    let busy = Busy::new("other");
    let found = busy.queues();
    for (deed, words) in [
        ("qdisc change dev d0 parent 1: handle 10: bfifo limit 50000", "somebody else changed its target"),
        ("qdisc del dev d0 parent 1: handle 10:", "removed or replaced"),
    ] {
        let steered = busy.start(&[]);
        busy.until("the room becomes less", |now| now != found);
        busy.tc(deed);
        let after = busy.queues();
        let since = Instant::now();
        // It ends by itself, as nothing is left to be steered.
        let (status, result, said) = ended(steered);
        assert!(since.elapsed() < PATIENCE);
        assert_eq!(status, Some(1), "{said}");
        assert!(result["queues"][0]["left"].as_str().unwrap().contains(words), "{result}");
        assert!(said.contains("left as it is"), "{said}");
        assert_eq!(busy.queues(), after);
        let _ =
            try_exec(&busy.namespace, "tc", &["qdisc", "del", "dev", "d0", "parent", "1:", "handle", "10:"]);
        busy.tc("qdisc add dev d0 parent 1: handle 10: bfifo limit 100000");
    }
    let lone = Busy::new("none");
    lone.tc("qdisc replace dev d0 root handle 2: pfifo limit 10");
    let (status, result, _) = ended(lone.start(&[]));
    assert_eq!(status, Some(2));
    assert!(result["error"].as_str().unwrap().contains("there is pfifo 2:"), "{result}");
}

/// Packets that left by the shaper so far.
fn sent(busy: &Busy) -> u64 {
    let all: Value = serde_json::from_str(&busy.tc("-s -j qdisc show dev d0")).unwrap();
    let shaper = all.as_array().unwrap().iter().find(|qdisc| qdisc["handle"] == "1:");
    shaper.unwrap_or_else(|| panic!("{all}"))["packets"].as_u64().unwrap()
}

/// Each packet of the queue is seen, and none of a queue with the same numbers in another namespace.
#[test]
fn delays_are_read_of_each_packet_of_the_queue_and_of_no_other() {
    let Some(_turn) = turn() else { return };
    let (busy, beside) = (Busy::new("probe"), Busy::new("beside"));
    let index = |busy: &Busy| exec(&busy.namespace, "cat", &["/sys/class/net/d0/ifindex"]);
    assert_eq!(index(&busy), index(&beside), "the test needs interfaces of one number");
    let found = busy.queues();
    let before = sent(&busy);
    let steered = busy.start(&["--probe", "--target-max", "40ms"]);
    let start = Instant::now();
    while ctl(&steered, &["status"]).1["links"][0]["directions"][0]["packets"]["delivered"]
        .as_u64()
        .is_none_or(|n| n < before + 500)
    {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_rights(steered.id(), privileges::QUEUES.bitmask() | privileges::PROGRAMS.bitmask());
    terminate(&steered);
    let (status, result, said) = ended(steered);
    assert_eq!(status, Some(0), "{said}");
    let left = sent(&busy) - before;
    let delays = &result["queues"][0]["delays"];
    let of = |what: &str| delays[what].as_u64().unwrap_or_else(|| panic!("{result}"));
    let [packets, unmatched, lost] = ["packets", "unmatched", "lost"].map(of);
    println!("{left} left, of which {packets} were seen whole and {unmatched} half: {delays}");
    assert!(packets > 200 && packets + unmatched <= left, "{left}: {delays}");
    // What waited already when the programs were attached: 100 kB at most.
    assert!(unmatched <= 100 && lost == 0, "{delays}");
    // Packets wait 100 ms until the room becomes less and some milliseconds then, so the mean may be larger
    // than 95 % of the delays. Only the unit is judged, as delays of a shared machine are its own:
    // microseconds or seconds would be outside. Of all delays 5 % are at least `p95`, but for a bin's width.
    let (mean, p95) = (delays["mean_ms"].as_f64().unwrap(), delays["p95_ms"].as_f64().unwrap());
    assert!((0.05..5000.0).contains(&mean) && p95 > 0.0 && mean >= 0.025 * p95, "{delays}");
    assert_eq!(busy.queues(), found);
}

#[test]
fn a_queue_whose_packets_cannot_be_told_from_others_is_not_probed() {
    let Some(_turn) = turn() else { return };
    let (busy, _) = Busy::slowed("unprobed");
    busy.tc("class add dev d0 parent 1: classid 1:2 htb rate 1mbit");
    let found = busy.queues();
    let (status, result, _) = ended(busy.start(&["--probe"]));
    assert_eq!(status, Some(2), "{result}");
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("class 1:") && error.contains("leave `--probe` out"), "{error}");
    assert_eq!(busy.queues(), found);
}

#[test]
fn the_rate_of_the_shaper_is_moved_and_put_back() {
    let Some(_turn) = turn() else { return };
    let (busy, words) = Busy::slowed("rate");
    let found = busy.queues();
    let steered = busy.start(&words);
    // 95 % of 8 Mbit/s is the least.
    let least = busy.until("the shaper becomes slower", |now| now.contains("ceil 7600Kbit"));
    assert!(least.contains("rate 7600Kbit"), "{least}");
    terminate(&steered);
    let (status, result, said) = ended(steered);
    assert_eq!((status, &result["not_put_back"]), (Some(0), &serde_json::json!([])), "{said}");
    assert_eq!(busy.queues(), found);
}

/// Exit status and answer of `weir ctl` to the program that steers.
fn ctl(steered: &Child, words: &[&str]) -> (i32, Value) {
    common::ctl(steered.id(), words)
}

#[test]
fn queues_are_looked_at_and_held_to_another_policy_while_they_are_steered() {
    let Some(_turn) = turn() else { return };
    let (busy, words) = Busy::slowed("ctl");
    let found = busy.queues();
    let steered = busy.start(&words);
    busy.until("the shaper becomes slower", |now| now.contains("ceil 7600Kbit"));
    let stands = |what: &str, is: &dyn Fn(&Value) -> bool| {
        let start = Instant::now();
        loop {
            let (status, told) = ctl(&steered, &["status"]);
            assert_eq!(status, 0, "{told}");
            let link = &told["links"][0];
            if is(&link["directions"][0]) {
                return link.clone();
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {told}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let link = stands("the shaper's rate is told", &|queue| queue["virtual_rate_bps"] == 7.6e6);
    assert_eq!((&link["verb"], &link["file"]), (&"steer".into(), &"the arguments".into()), "{link}");
    let queue = &link["directions"][0];
    assert_eq!((&queue["policy"]["key"], &queue["rate_bps"]), (&"policy".into(), &8e6.into()), "{queue}");
    assert!(queue["moves"]["rate"].as_u64() >= Some(1), "{queue}");
    // By which the alarm of a policy that is missed knows that the link has enough to do.
    stands("its state is told", &|queue| queue["table_state"].as_u64() > Some(0));

    // Another bound, in force with the next look.
    let (status, applied) = ctl(&steered, &["policy", "policy", "target_max=10ms"]);
    assert_eq!(status, 0, "{applied}");
    stands("the bound is in force", &|queue| {
        queue["policy"]["target_max_ms"] == 10.0 && queue["setpoint_ms"].as_f64().is_some_and(|ms| ms <= 10.0)
    });
    // Without a virtual queue the shaper has its rate again.
    let (status, applied) = ctl(&steered, &["set", "policy.utilization_target=100%"]);
    assert_eq!(status, 0, "{applied}");
    busy.until("the shaper has its rate again", |now| now.contains("ceil 8Mbit"));
    let (_, kept) = ctl(&steered, &["get", "policy.target_max", "queues.0.interface"]);
    assert_eq!(kept["links"][0]["values"]["policy.target_max"], "\"10ms\"", "{kept}");
    assert_eq!(kept["links"][0]["values"]["queues.0.interface"], "\"d0\"", "{kept}");

    for (words, why) in [
        (vec!["set", "queues.0.interface=d1"], "`queues.0.interface` cannot change while it runs"),
        (vec!["set", "policy.utilization_low=150%"], "utilization_low"),
        (vec!["set", "policy.target_max=1us"], "target_m"),
        (vec!["reload"], "no file"),
    ] {
        let (status, refused) = ctl(&steered, &words);
        let error = refused["links"][0]["refused"]["error"].as_str().unwrap_or_default();
        assert!(status == 1 && error.contains(why), "{words:?}: {refused}");
    }
    let (_, kept) = ctl(&steered, &["get", "policy"]);
    assert_eq!(kept["links"][0]["values"]["policy.target_max"], "\"10ms\"", "{kept}");

    let (status, drained) = ctl(&steered, &["drain"]);
    assert_eq!(status, 0, "{drained}");
    let (status, result, said) = ended(steered);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(result["not_put_back"], serde_json::json!([]), "{result}");
    assert!(said.contains("drain by uid 0") && said.contains("set by uid 0"), "{said}");
    assert_eq!(busy.queues(), found);
}
