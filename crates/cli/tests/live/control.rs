//! `weir ctl` and the control socket of a run on live interfaces.
//!
//! These tests need root; without it they say so and pass.

use crate::common::{self, *};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{SpawnOptions, Testbed, in_netns, spawn_in};
use weir_operate::client::Client;
use weir_operate::{Applied, ConfigurationChange, DirectionStatus, Forecast, Status, WhatIf};

/// Where the metrics of a run are.
pub const METRICS: &str = "127.0.0.1:9469";

/// A steered link whose algorithm marks, and with room for everything that TCP sends.
pub fn steered() -> String {
    format!(
        "{}[run]\nmetrics = \"{METRICS}\"\n[a_to_b]\nrate = \"50Mbit/s\"\nbuffer = \"2s\"\n\
         aqm = {{ name = \"gsp\", ecn = true }}\npolicy = {{ target_max = \"30ms\" }}\n",
        patient(&ports("auto"))
    )
}

/// The control socket of a run.
pub fn control_socket(weir: &Weir) -> PathBuf {
    PathBuf::from(format!("/run/weir/control-{}.sock", weir.child.pid()))
}

/// Exit status, and the JSON object on standard output.
fn ctl(weir: &Weir, arguments: &[&str]) -> (i32, serde_json::Value) {
    common::ctl(weir.child.pid(), arguments)
}

fn rate(weir: &Weir) -> f64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, told) = ctl(weir, &["status"]);
        // Before its first sample a loop tells nothing.
        if let Some(rate) = told["links"][0]["directions"][0]["rate_bps"].as_f64() {
            return rate;
        }
        assert!(Instant::now() < deadline, "{told}");
    }
}

#[test]
fn a_port_that_several_programs_have_is_not_changed() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbeds = [testbed(), testbed()];
    let config = format!("{}[a_to_b]\nrate = \"50Mbit/s\"\naqm = {{ name = \"codel\" }}\n", ports("auto"));
    let both = testbeds.each_ref().map(|testbed| Weir::start(testbed.bottleneck(), &config));
    for words in [&["set", "a_to_b.rate=9Mbit/s"][..], &["policy", "target_max=9ms"], &["reload"], &["drain"]]
    {
        let (code, told) = ctl_of("a", words);
        let error = told["error"].as_str().unwrap();
        assert!(code == 2 && error.contains("`a` is in several programs"), "{told}");
        for weir in &both {
            assert!(error.contains(&format!("a <-> b (pid {})", weir.child.pid())), "{error}");
        }
    }
    let (code, told) = ctl(&both[0], &["set", "a_to_b.rate=9Mbit/s"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(both.each_ref().map(rate), [9e6, 50e6]);
}

#[test]
fn changes_are_put_into_force_or_refused_with_key_and_remedy_and_logged_with_who() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let mut weir = Weir::start(bot, &steered());
    sleep(Duration::from_millis(300));
    assert_eq!(rate(&weir), 50e6);
    let (code, told) = ctl(&weir, &["set", "a_to_b.rate=20Mbit/s", "a_to_b.aqm.interval=50ms"]);
    assert_eq!((code, rate(&weir)), (0, 20e6), "{told}");
    let applied = &told["links"][0]["applied"];
    assert_eq!(applied["changed"].as_array().unwrap().len(), 2, "{told}");
    assert!(
        applied["at_s"].is_number() && applied["notes"][0].as_str().unwrap().contains("buffer"),
        "{told}"
    );
    weir.until("a_to_b.rate \"50Mbit/s\" -> \"20Mbit/s\"");
    weir.until("set by uid 0, pid ");
    // A policy, by its own verb.
    let (code, told) = ctl(&weir, &["policy", "target_max=9ms", "utilization_low=97%"]);
    assert_eq!(code, 0, "{told}");
    let (_, told) = ctl(&weir, &["status"]);
    let policy = &told["links"][0]["directions"][0]["policy"];
    assert_eq!(
        (policy["target_max_ms"].as_f64(), policy["utilization_low"].as_f64()),
        (Some(9.0), Some(0.97))
    );
    // Whatever is refused changes nothing, also not the keys that were right.
    let refusals: [(&[&str], &str); 5] = [
        (&["set", "a_to_b.rate=30Mbit/s", "a_to_b.buffer=1s"], "`a_to_b.buffer` cannot change while it runs"),
        (&["set", "a_to_b.rate=30Mbit/s", "a_to_b.rat=1"], "a_to_b.rat"),
        (&["set", "a_to_b.rate=-5"], "a_to_b.rate"),
        (&["policy", "target_max=0.1ms"], "target_min"),
        (&["set", "ports.a=c"], "--takeover"),
    ];
    for (arguments, words) in refusals {
        let (code, told) = ctl(&weir, arguments);
        let refused = &told["links"][0]["refused"];
        assert_eq!(code, 1, "{arguments:?}: {told}");
        assert!(refused["error"].as_str().unwrap().contains(words), "{arguments:?}: {told}");
        assert!(
            refused["problems"][0]["key"].is_string() && refused["problems"][0]["remedy"].is_string(),
            "{told}"
        );
    }
    weir.until("refused, nothing was changed");
    assert_eq!(rate(&weir), 20e6);
    let (code, told) = ctl(&weir, &["set", "a_to_b.rate=30Mbit/s", "--dry-run"]);
    assert_eq!((code, told["checked_only"].as_bool(), rate(&weir)), (0, Some(true), 20e6));
    // The file again: an editor puts a new one in its place.
    let new = weir.config().with_extension("new");
    std::fs::write(&new, steered().replace("50Mbit/s", "40Mbit/s")).unwrap();
    std::fs::rename(&new, weir.config()).unwrap();
    let (code, told) = ctl(&weir, &["reload"]);
    assert_eq!((code, rate(&weir)), (0, 40e6), "{told}");
    assert!(told.to_string().contains("as in the file again"), "{told}");
    std::fs::write(weir.config(), steered().replace("50Mbit/s", "45Mbit/s")).unwrap();
    weir.signal(libc::SIGHUP);
    weir.until("reload by SIGHUP");
    assert_eq!(rate(&weir), 45e6);
    std::fs::write(weir.config(), "[ports]\na = ").unwrap();
    let (code, told) = ctl(&weir, &["reload"]);
    assert_eq!((code, rate(&weir)), (1, 45e6), "{told}");
    assert_eq!(told["links"][0]["refused"]["problems"][0]["line"], 2, "{told}");
    let (_, told) = ctl(&weir, &["get", "a_to_b.rate"]);
    assert_eq!(told["links"][0]["values"]["a_to_b.rate"], "\"45Mbit/s\"");
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["links"][0]["rate_bps"], 45e6);
}

/// The scheduling class of a thread of a program, by its name; none where there is no such thread.
fn scheduler(pid: u32, name: &str) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let own =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let task = tasks.map(|task| task.path()).find(own)?;
    let number: i32 = task.file_name()?.to_str()?.parse().ok()?;
    // SAFETY: it reads and writes no memory of ours.
    let class = unsafe { libc::sched_getscheduler(number) };
    (class >= 0).then_some(class)
}

#[test]
fn what_if_is_computed_beside_a_link_and_changes_nothing() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let weir = Weir::start(testbed.bottleneck(), &steered());
    assert_eq!(rate(&weir), 50e6);
    let ask = |what: &WhatIf| -> Result<Forecast, String> {
        let mut client = Client::connect(&control_socket(&weir)).unwrap();
        client.ask("POST", "/v1/what-if", Some(what)).map_err(|failure| failure.to_string())
    };
    let of = |set: &[(&str, &str)], flows: u32| WhatIf {
        direction: "a_to_b".into(),
        set: set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        flows,
        duration_s: Some(10.0),
        ..WhatIf::default()
    };
    // Where others want all processors, nothing is left for it.
    let is_starved = |why: &str| why.contains("computing took more than") || why.contains("no answer within");
    let now = match ask(&of(&[], 10)) {
        Err(why) if is_starved(&why) => return skipped(format!("no processor is free: {why}")),
        now => now.unwrap(),
    };
    assert_eq!(
        (now.rate_bps, now.points.len(), now.policy.as_ref().unwrap().target_max_ms),
        (50e6, 20, 30.0)
    );
    assert!(now.utilization > 0.7, "{now:?}");
    let slow = match ask(&of(&[("rate", "10Mbit/s"), ("policy.target_max", "5ms")], 10)) {
        Err(why) if is_starved(&why) => return skipped(format!("no processor is free: {why}")),
        slow => slow.unwrap(),
    };
    assert_eq!((slow.rate_bps, slow.policy.as_ref().unwrap().target_max_ms), (10e6, 5.0));
    // Nothing of it is in force.
    assert_eq!(rate(&weir), 50e6);
    let refused = ask(&of(&[("policy.target_max", "99s")], 10)).unwrap_err();
    assert!(refused.contains("policy.target_max"), "{refused}");
    // It gets what nobody else wants of the processors, confined as the program is by then.
    let pid = weir.child.pid();
    let seen = std::thread::scope(|scope| {
        let long =
            scope.spawn(|| ask(&WhatIf { duration_s: Some(100.0), ..of(&[("rate", "400Mbit/s")], 200) }));
        let mut seen = None;
        while !long.is_finished() {
            seen = seen.or(scheduler(pid, "weir-what-if").filter(|class| *class == libc::SCHED_IDLE));
            sleep(Duration::from_millis(1));
        }
        // It is done, or has had its time.
        if let Err(refused) = long.join().unwrap() {
            assert!(is_starved(&refused), "{refused}");
        }
        seen
    });
    assert_eq!(seen, Some(libc::SCHED_IDLE));
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_drained_run_leaves_the_kernel_forwarding() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let weir = Weir::start(bot, &steered());
    let socket = control_socket(&weir);
    assert!(socket.exists());
    let (code, told) = ctl(&weir, &["drain"]);
    assert_eq!(code, 0, "{told}");
    let ended = weir.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("drain by uid 0"), "{}", ended.stderr);
    assert!(ended.warnings().iter().any(|warning| warning.contains("the kernel goes on forwarding")));
    assert!(!socket.exists(), "its name goes with it");
    let (near, far) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    near.send(&[&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 46]].concat());
    assert_eq!(far.take(1).len(), 1);
    assert_eq!(Weir::start(bot, &steered()).interrupt().code, Some(0));
}

/// TCP that fills the link, and numbered datagrams beside it, all ECN-capable.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    numbers: JoinHandle<(u32, u32, u32)>,
}

/// Longest wait of a reader, so that its thread can end.
const WAIT: Duration = Duration::from_millis(200);
/// So many times nothing came when all that were sent are there, or lost.
const QUIET_MAX: u32 = 10;

impl Load {
    pub fn start(testbed: &Testbed) -> Load {
        for namespace in [testbed.sender(), testbed.receiver()] {
            exec(namespace, "sysctl", &["-qw", "net.ipv4.tcp_ecn=1"]);
        }
        let stop: Arc<AtomicBool> = Arc::default();
        let listener = in_netns(testbed.receiver(), || TcpListener::bind("10.77.0.2:9000")).unwrap().unwrap();
        let mut threads = Vec::new();
        for _ in 0..2 {
            let mut sender =
                in_netns(testbed.sender(), || TcpStream::connect("10.77.0.2:9000")).unwrap().unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            sender.set_write_timeout(Some(WAIT)).unwrap();
            receiver.set_read_timeout(Some(WAIT)).unwrap();
            let (sends, reads) = (stop.clone(), stop.clone());
            threads.push(std::thread::spawn(move || {
                while !sends.load(Ordering::Relaxed) {
                    let _ = sender.write(&[0; 16 << 10]);
                }
            }));
            threads.push(std::thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while !reads.load(Ordering::Relaxed) {
                    let _ = receiver.read(&mut buffer);
                }
            }));
        }
        let open = |namespace: &str, address: &str| {
            in_netns(namespace, || UdpSocket::bind(address)).unwrap().unwrap()
        };
        let (near, far) =
            (open(testbed.sender(), "10.77.0.1:9001"), open(testbed.receiver(), "10.77.0.2:9001"));
        far.set_read_timeout(Some(WAIT)).unwrap();
        let option = |socket: &UdpSocket, level: i32, name: i32, value: i32| {
            // SAFETY: the pointer and length describe the value.
            let code = unsafe {
                let pointer: *const i32 = &value;
                let len = size_of::<i32>() as libc::socklen_t;
                libc::setsockopt(socket.as_raw_fd(), level, name, pointer.cast(), len)
            };
            assert_eq!(code, 0);
        };
        let ect0 = 2;
        option(&near, libc::IPPROTO_IP, libc::IP_TOS, ect0);
        // The usual room is for 0.3 s of them: a reader that waits longer for a processor would lose some.
        option(&far, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20);
        let sends = stop.clone();
        let sent = std::thread::spawn(move || {
            let mut number = 0u32;
            while !sends.load(Ordering::Relaxed) {
                near.send_to(&number.to_be_bytes(), "10.77.0.2:9001").unwrap();
                number += 1;
                sleep(Duration::from_millis(1));
            }
            number
        });
        // Sent, received, and received too early or twice.
        let numbers = std::thread::spawn(move || {
            let (mut received, mut wrong, mut quiet) = (0, 0, 0);
            let mut bytes = [0; 4];
            loop {
                match far.recv(&mut bytes) {
                    Ok(_) => {
                        wrong += u32::from(u32::from_be_bytes(bytes) != received);
                        (received, quiet) = (received + 1, 0);
                    }
                    Err(_) if !sent.is_finished() => {}
                    // The last may wait in a queue, and that for a processor.
                    Err(_) if quiet < QUIET_MAX => quiet += 1,
                    Err(_) => break (sent.join().unwrap(), received, wrong),
                }
            }
        });
        Load { stop, threads, numbers }
    }

    pub fn end(self) -> (u32, u32, u32) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.numbers.join().unwrap()
    }
}

/// A counter of a kernel's TCP, from `/proc/net/snmp` or `/proc/net/netstat`.
fn tcp(namespace: &str, file: &str, name: &str) -> u64 {
    let text = exec(namespace, "cat", &[file]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let found = lines.chunks(2).find_map(|pair| {
        let at = pair[0].iter().position(|word| *word == name)?;
        pair[1][at].parse().ok()
    });
    found.unwrap_or_else(|| panic!("no {name} in {file}"))
}

fn scrape(testbed: &Testbed) -> String {
    in_netns(testbed.bottleneck(), || common::http(METRICS, "/metrics")).unwrap()
}

fn metric(text: &str, name: &str) -> f64 {
    let line =
        text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}:\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Whether the set point is one that the policy in force allows.
fn assert_held(direction: &DirectionStatus) {
    let (policy, setpoint) = (direction.policy.as_ref().unwrap(), direction.setpoint_ms.unwrap());
    let allowed = policy.target_min_ms..=policy.target_max_ms;
    assert!(allowed.contains(&setpoint), "{setpoint} is not in {allowed:?}");
}

/// `WEIR_CHANGES=10000` for the long form.
#[test]
fn changes_in_a_row_under_tcp_lose_and_reorder_no_packet() {
    let Some(_turn) = turn() else { return };
    let changes: u64 = std::env::var("WEIR_CHANGES").map_or(500, |text| text.parse().unwrap());
    let testbed = testbed();
    // The address for metrics is one of the namespace.
    exec(testbed.bottleneck(), "ip", &["link", "set", "dev", "lo", "up"]);
    let weir = Weir::start(testbed.bottleneck(), &steered());
    let load = Load::start(&testbed);
    sleep(Duration::from_millis(500));
    let mut client = Client::connect(&control_socket(&weir)).unwrap();
    let begun = Instant::now();
    for n in 0..changes {
        let rate = format!("{}Mbit/s", 30 + n % 20);
        let most = format!("{}ms", 1 + n * 7 % 30);
        let interval = format!("{}ms", 60 + n % 50);
        let set = [
            ("a_to_b.rate", rate.clone()),
            ("a_to_b.policy.target_max", most),
            ("a_to_b.aqm.interval", interval),
        ];
        // The algorithm begins anew now and then; rates and policies change each time.
        let count = if n % 10 == 0 { 3 } else { 2 };
        let set = set.into_iter().take(count).map(|(key, value)| (key.to_string(), value)).collect();
        let change = ConfigurationChange { set, dry_run: false };
        let applied: Applied = client.ask("PATCH", "/v1/config", Some(&change)).unwrap();
        assert!(!applied.changed.is_empty() && applied.at_s.is_some(), "{n}: {applied:?}");
        let status: Status = client.ask("GET", "/v1/status", None::<&()>).unwrap();
        assert_eq!(status.changes, n + 1, "no change is lost");
        assert_eq!(status.directions[0].rate_bps, Some((30 + n % 20) as f64 * 1e6));
        assert_held(&status.directions[0]);
        if n % 100 == 0 {
            assert_eq!(metric(&scrape(&testbed), "weir_changes_total"), (n + 1) as f64);
        }
    }
    println!("{changes} changes in {:?}", begun.elapsed());
    check(&scrape(&testbed));
    let (sent, received, wrong) = load.end();
    sleep(Duration::from_millis(500));
    let status: Status = client.ask("GET", "/v1/status", None::<&()>).unwrap();
    let direction = &status.directions[0];
    let packets = &direction.packets;
    assert_eq!((received, wrong), (sent, 0), "numbered datagrams arrive, each once and in order");
    assert!(sent > 100 && packets.marked > 0, "{sent} {packets:?}");
    let discarded = packets.dropped_on_arrival + packets.dropped_at_head + packets.overflowed + packets.shed;
    assert_eq!((discarded, direction.faults.values().sum::<u64>()), (0, 0), "{direction:?}");
    assert_eq!(packets.arrived, packets.delivered + u64::from(direction.backlog_packets));
    assert_eq!(direction.delays.counts.iter().sum::<u64>(), packets.delivered);
    // The receiver's kernel never had to wait for a segment that another one overtook.
    assert_eq!(tcp(testbed.receiver(), "/proc/net/netstat", "TCPOFOQueue"), 0);
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("set by uid 0"), "{}", ended.stderr);
}

/// Where a program is.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Prometheus's own judgement, where it is installed.
fn check(metrics: &str) {
    let Some(promtool) = program("promtool") else { return };
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Answers of a Prometheus to a query, as JSON text; empty while it does not answer.
fn query(namespace: &str, expression: &str) -> String {
    let request =
        format!("GET /api/v1/query?query={expression} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let connected = in_netns(namespace, || TcpStream::connect("127.0.0.1:9090")).unwrap();
    let mut text = String::new();
    if let Ok(mut stream) = connected {
        let _ =
            stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut text).map(drop));
    }
    text
}

fn await_answer(namespace: &str, expression: &str, words: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = query(namespace, expression);
        if words.iter().all(|word| text.contains(word)) {
            return;
        }
        assert!(Instant::now() < deadline, "{expression}: no {words:?} in {text}");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_real_prometheus_scrapes_a_link_under_load_and_alarms_when_a_fault_is_made() {
    let Some(_turn) = turn() else { return };
    let Some(prometheus) = program("prometheus") else { return skipped("`prometheus` is not installed") };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "lo", "up"]);
    // The files of the repository, with shorter times.
    let (folder, data) = (Folder::new(), concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/prometheus/"));
    for (name, from, to) in [
        ("prometheus.yml", "scrape_interval: 5s", "scrape_interval: 1s, evaluation_interval: 1s"),
        ("alerts.yml", "for: ", "for: 1s # "),
    ] {
        let text = std::fs::read_to_string(format!("{data}{name}")).unwrap();
        assert!(text.contains(from));
        std::fs::write(folder.path().join(name), text.replace(from, to)).unwrap();
    }
    let mut weir = Weir::start(bot, &steered());
    let load = Load::start(&testbed);
    let mut command = Command::new(prometheus);
    command
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg("--web.listen-address=127.0.0.1:9090")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = spawn_in(bot, command, &SpawnOptions::default()).unwrap();
    await_answer(bot, "up", &["\"job\":\"weir\"", "\"1\""]);
    await_answer(bot, "rate(weir_link_delivered_bytes_total%5B10s%5D)%3E1e5", &["a_to_b"]);
    await_answer(bot, "weir_queue_delay_seconds_bucket", &["\"le\":\"+Inf\""]);
    assert!(!query(bot, "ALERTS").contains("WeirPortDown"));
    load.end();
    exec(testbed.sender(), "ip", &["link", "set", "dev", "snd0", "down"]);
    await_answer(bot, "ALERTS", &["WeirPortDown", "firing"]);
    weir.signal(libc::SIGKILL);
    await_answer(bot, "ALERTS", &["WeirGone", "firing"]);
    server.signal(libc::SIGKILL).unwrap();
    drop(weir);
    assert_eq!(Weir::start(bot, &steered()).interrupt().code, Some(0));
}
