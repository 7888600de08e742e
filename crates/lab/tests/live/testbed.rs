//! The testbed with real kernel TCP, its ports joined by a kernel bridge instead of a dataplane.
//!
//! These tests need root and the programs of the lab; without them they say so and pass.

use crate::skipped;

use skipped::can_run_live;
use skipped::judged::{Attempt, judged};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_config::{FlowGroup, Scenario};
use weir_dataplane::RunClock;
use weir_lab::netns::{namespaces, processes_in, set_rps};
use weir_lab::tcpinfo::{FlowSamples, snapshot};
use weir_lab::traffic::Receiving;
use weir_lab::*;

/// Longest wait for what should happen at once, on a machine that others use.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set in the environment of the child that is killed with a testbed in its hands.
const HOLD: &str = "WEIR_LAB_TEST_HOLD";

/// Waits for the right to measure, which runs of the lab take too, of other tests and of other programs: they
/// share the machine's CPUs, and each removes what killed ones left behind.
fn turn() -> Exclusive {
    exclusive(|_| ControlFlow::Continue(())).unwrap()
}

fn ip(args: &[&str]) {
    let output = program("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn program(name: &str) -> Command {
    Command::new(host::binary(name).unwrap())
}

/// Joins the ports of the bottleneck.
fn bridge(testbed: &Testbed) {
    let bot = testbed.bottleneck();
    ip(&["-n", bot, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]);
    ip(&["-n", bot, "link", "set", "dev", "br0", "addrgenmode", "none"]);
    for port in ["a", "b"] {
        ip(&["-n", bot, "link", "set", "dev", port, "master", "br0"]);
    }
    ip(&["-n", bot, "link", "set", "dev", "br0", "up"]);
}

/// Joins the ports and shapes one of them, so that the machine is not the bottleneck.
fn shaped_bridge(testbed: &Testbed, rate: &str) {
    bridge(testbed);
    for port in ["a", "b"] {
        let bot = testbed.bottleneck();
        let tbf = ["-n", bot, "qdisc", "replace", "dev", port, "root", "tbf", "rate", rate];
        let status = program("tc").args(tbf).args(["burst", "32kb", "limit", "400kb"]).status();
        assert!(status.unwrap().success());
    }
}

/// Flow groups as a scenario file says them.
fn groups(tables: &str) -> Vec<FlowGroup> {
    let text = format!(
        "title = \"test\"\n[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"1ms\"\n[aqm]\nname = \"tail_drop\"\n\
         {tables}\n[run]\nduration = \"100s\"\n"
    );
    Scenario::parse("test.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}")).flows
}

struct Run {
    report: TrafficReport,
    samples: FlowSamples,
    seconds: f64,
}

fn run(testbed: &Testbed, groups: &[FlowGroup], seconds: f64) -> Run {
    let rtt = Duration::from_millis(1);
    let clock = RunClock::of_host(weir_dataplane::clock() + traffic::lead_time(groups, rtt).into());
    let options = TrafficOptions {
        clock: clock.clone(),
        duration: Duration::from_secs_f64(seconds),
        rtt,
        interval: Duration::from_millis(500),
        receiving: Receiving { low_water: 1, window: 1 << 20 },
        sender: SpawnOptions::default(),
        receiver: SpawnOptions::default(),
    };
    let run = TrafficRun::start(testbed, groups, options).unwrap();
    let config = SamplerConfig { clock, period: Duration::from_millis(100) };
    let sampler = Sampler::start(testbed, run.table(), config).unwrap();
    let report = run.finish();
    Run { report, samples: sampler.stop().unwrap(), seconds }
}

/// Everything of a testbed must be gone.
fn assert_gone(names: &[String]) {
    let left: Vec<String> = namespaces().unwrap().into_iter().filter(|n| names.contains(n)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn names_of(testbed: &Testbed) -> Vec<String> {
    [testbed.sender(), testbed.bottleneck(), testbed.receiver()].map(String::from).to_vec()
}

#[test]
fn bulk_flows_share_a_link_and_leave_nothing_behind() {
    if !can_run_live(&["ip", "tc", "iperf3"]) {
        return;
    }
    let _turn = turn();
    judged(bulk_flows);
}

/// Bulk flows and transfers; the sampler may not see a transfer, so that both are looked for while they run.
#[test]
fn flows_that_are_to_pace_ask_the_kernel_for_it() {
    if !can_run_live(&["ip", "tc", "iperf3"]) {
        return;
    }
    let _turn = turn();
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    shaped_bridge(&testbed, "20mbit");
    let groups = groups(
        "[[flows]]\ncongestion = \"cubic\"\npacing = \"on\"\n[[flows]]\ncongestion = \"reno\"\n\
         [[flows]]\ncongestion = \"cubic\"\ntransfer = \"100MB\"\npacing = \"on\"\n",
    );
    let sender = testbed.sender().to_string();
    let seen = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&testbed, &groups, 3.0));
        let mut seen: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        while !running.is_finished() {
            for socket in snapshot(&sender).unwrap_or_default() {
                // Control connections of iperf3 send less than a full window.
                let Some(tcp) = socket.tcp.filter(|tcp| tcp.bytes_sent > 100_000) else { continue };
                let is_second = socket.local_port == 10_001;
                seen[usize::from(is_second)].push(tcp.pacing_max_bps);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        running.join().unwrap();
        seen
    });
    let [paced, other] = seen;
    assert!(!paced.is_empty() && paced.iter().all(|bps| *bps == 30_000_000_000), "{paced:?}");
    assert!(!other.is_empty() && other.iter().all(|bps| *bps == 0), "{other:?}");
}

fn bulk_flows(attempt: &mut Attempt) {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    shaped_bridge(&testbed, "100mbit");
    let names = names_of(&testbed);
    // ECN and IPv6 differ between groups of one testbed; the last one goes the other way.
    let groups = groups(
        "[[flows]]\ncongestion = \"cubic\"\n[[flows]]\ncongestion = \"reno\"\necn = true\nip = \"6\"\n\
         [[flows]]\ndirection = \"reverse\"\nstart = \"500ms\"\nstop = \"2500ms\"\n",
    );
    attempt.begin();
    // Losses of the slow start take a sixth of two seconds now and then, and little of five.
    let r = run(&testbed, &groups, 6.0);
    attempt.end();
    // A program that starts late was kept from its processor, by whomever.
    if r.report.warnings.iter().any(|warning| warning.ends_with("s late")) {
        attempt.stalled(1.0);
    }
    attempt.holds(format_args!("warnings {:?}", r.report.warnings), "none", r.report.warnings.is_empty());
    let summaries = r.report.summaries(1.0, r.seconds, &r.samples.samples);
    let goodput: Vec<f64> = summaries.iter().map(|s| s.goodput_bps / 1e6).collect();
    eprintln!("{} samples, {summaries:?}", r.samples.samples.len());
    // 100 Mbit/s of Ethernet are at most 94.9 Mbit/s of TCP payload.
    attempt.within("Mbit/s of two flows", goodput[0] + goodput[1], 80.0..97.0);
    attempt.within("the lesser", goodput[0].min(goodput[1]), 5.0..);
    attempt.within("the other way", goodput[2], 70.0..96.0);
    assert_samples(&r, attempt);
    assert_eq!([0, 1, 2].map(|f| r.samples.last[&f].ecn), [false, true, false]);
    // The reverse flow has its own time.
    let reverse = &r.report.flows[2];
    assert!(reverse.intervals[0].from_s > 0.4, "{reverse:?}");
    attempt.within("its end in s", reverse.intervals.last().unwrap().to_s, ..2.7);
    // At a tenth of what the machine can do it must not lose anything by itself.
    attempt.within("frames lost", testbed.wire_losses().unwrap().total() as f64, 0.0..=0.0);
    testbed.close().unwrap();
    assert_gone(&names);
}

fn assert_samples(r: &Run, attempt: &mut Attempt) {
    for flow in 0..3 {
        let mine: Vec<_> = r.samples.samples.iter().filter(|s| s.flow == flow).collect();
        attempt.within(format!("samples of flow {flow}"), mine.len() as f64, 15.0..);
        assert!(mine.iter().all(|s| s.cwnd > 0));
        // Without any, too few samples are a bound that was missed.
        let Some(last) = mine.last() else { return };
        attempt.within("the last at s", last.t_s, ..r.seconds + 0.5);
        attempt.within("bytes acknowledged", last.bytes_acked as f64, 1e5..);
        // The sender counts what was acknowledged, the receiver what arrived: they must agree.
        let acked = last.bytes_acked as f64;
        let received = r.report.flows[flow as usize].bytes_within(-1.0, 9.0);
        attempt.within("acknowledged, of what was received", acked / received, 0.85..1.2);
    }
}

#[test]
fn transfers_complete_in_their_time_and_datagrams_are_counted() {
    if !can_run_live(&["ip", "tc", "iperf3"]) {
        return;
    }
    let _turn = turn();
    judged(transfers);
}

fn transfers(attempt: &mut Attempt) {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    shaped_bridge(&testbed, "100mbit");
    // Every 210 ms and not every 200: the sampler looks each 100 ms, and would come between all of them or
    // find each.
    let groups = groups(
        "[[flows]]\ntransfer = \"500kB\"\nevery = \"210ms\"\n\
         [[flows]]\ntransfer = \"100MB\"\nstart = \"1s\"\nip = \"6\"\ndirection = \"reverse\"\n\
         [[flows]]\nudp_rate = \"10Mbit/s\"\n",
    );
    attempt.begin();
    let r = run(&testbed, &groups, 2.0);
    attempt.end();
    let [short, long, datagrams] = &r.report.flows[..] else { panic!("{:?}", r.report) };
    // 500 kB take 42 ms at 95 Mbit/s, a little more beside the datagrams.
    attempt.within("transfers begun", short.transfers.len() as f64, 9.0..=10.0);
    let times: Vec<f64> = short.transfers.iter().filter_map(|t| t.completion_s).collect();
    eprintln!("completion times {times:?}");
    let (shortest, longest) =
        (times.iter().copied().fold(f64::NAN, f64::min), times.iter().copied().fold(f64::NAN, f64::max));
    attempt.within("transfers completed", times.len() as f64, 9.0..);
    attempt.within("the fastest in s", shortest, 0.040..);
    attempt.within("the slowest", longest, ..0.500);
    // Beside nothing but datagrams; later, acknowledgements wait behind the long transfer.
    attempt.within(
        "the slowest of the first",
        times.iter().take(4).skip(1).copied().fold(f64::NAN, f64::max),
        ..0.080,
    );
    assert!(short.transfers.iter().filter(|t| t.completion_s.is_some()).all(|t| t.bytes == 500_000));
    for flow in [short, long] {
        let read = flow.intervals.iter().map(|i| i.bytes).sum::<u64>();
        assert_eq!(read, flow.transfers.iter().map(|t| t.bytes).sum::<u64>(), "{flow:?}");
    }
    let seen = r.samples.samples.iter().filter(|s| s.flow == 0).count();
    attempt.within("samples of short transfers", seen as f64, 1.0..);
    // 100 MB do not fit into a second: the transfer is cut at the end, and says so.
    let ends: Vec<Option<f64>> = long.transfers.iter().map(|t| t.completion_s).collect();
    attempt.holds(format_args!("ends of the long one {ends:?}"), "one without an end", ends == [None]);
    attempt.within("Mbit/s of the long one", long.goodput_bps(1.0, 2.0) / 1e6, 70.0..96.0);
    attempt.within("Mbit/s of datagrams", datagrams.goodput_bps(0.5, 2.0) / 1e6, 9.0..11.0);
    attempt.within("datagrams sent", datagrams.datagrams.unwrap().sent as f64, 1000.0..);
    // Nothing goes on after the end.
    let begin = Instant::now();
    while !snapshot(testbed.receiver()).unwrap().is_empty() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", snapshot(testbed.receiver()).unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn programs_of_end_hosts_have_no_rights_but_over_their_network() {
    if !can_run_live(&["ip"]) {
        return;
    }
    let _turn = turn();
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    let fields = |options: &SpawnOptions| {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = spawn_in(testbed.receiver(), command, options).unwrap();
        let text = std::io::read_to_string(child.child_mut().stdout.take().unwrap()).unwrap();
        ["CapEff", "CapPrm", "CapBnd", "NoNewPrivs"].map(|key| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}:"))).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        })
    };
    let net_admin = 1 << 12;
    assert_ne!(fields(&SpawnOptions::default())[0] & !net_admin, 0, "others keep what they had");
    let end_host = SpawnOptions { is_end_host: true, ..SpawnOptions::default() };
    assert_eq!(fields(&end_host), [net_admin, net_admin, net_admin, 1]);
}

#[test]
fn an_abort_ends_all_flows_at_once() {
    if !can_run_live(&["ip", "iperf3"]) {
        return;
    }
    let _turn = turn();
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    bridge(&testbed);
    let groups =
        groups("[[flows]]\n[[flows]]\ntransfer = \"1MB\"\nevery = \"50ms\"\n[[flows]]\nstart = \"60s\"\n");
    let options = TrafficOptions {
        clock: RunClock::of_host(weir_dataplane::clock()),
        duration: Duration::from_secs(90),
        rtt: Duration::ZERO,
        interval: Duration::from_millis(100),
        receiving: Receiving { low_water: 1, window: 1 << 20 },
        sender: SpawnOptions { cpus: vec![0], nice: 5, is_end_host: true },
        receiver: SpawnOptions { cpus: vec![0], nice: 5, is_end_host: true },
    };
    let run = TrafficRun::start(&testbed, &groups, options).unwrap();
    // Time for forty transfers, of which a few are asked for.
    std::thread::sleep(Duration::from_secs(2));
    let begin = Instant::now();
    run.abort();
    let report = run.finish();
    // The third would begin a minute after the start.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    // However late it was started.
    assert!(report.flows[0].bytes_within(0.0, 90.0) > 1e5, "{report:?}");
    assert!(report.flows[1].transfers.len() > 3 && report.flows[2].intervals.is_empty(), "{report:?}");
    for name in names_of(&testbed) {
        assert!(processes_in(&name).is_empty());
    }
}

#[test]
fn a_path_that_forwards_nothing_is_told_and_not_waited_for() {
    if !can_run_live(&["ip", "iperf3"]) {
        return;
    }
    let _turn = turn();
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    let r = run(&testbed, &groups("[[flows]]\n[[flows]]\ntransfer = \"1kB\"\n"), 0.5);
    assert!(r.report.warnings.iter().any(|w| w.contains("flow 0")), "{:?}", r.report.warnings);
    assert_eq!(r.report.flows[1].transfers[0].completion_s, None);
    assert_eq!(r.report.summaries(0.0, 0.5, &[])[0].goodput_bps, 0.0);
}

#[test]
fn the_end_hosts_are_set_up_as_promised() {
    if !can_run_live(&["ip", "tc"]) {
        return;
    }
    let testbed =
        Testbed::new(TestbedConfig { mtu: 9000, rps_ports: 1, ..TestbedConfig::default() }).unwrap();
    let read =
        |file: &'static str| in_netns(testbed.receiver(), move || std::fs::read_to_string(file).unwrap());
    assert!(read("/proc/sys/net/ipv4/tcp_rmem").unwrap().trim().ends_with("268435456"));
    assert_eq!(read("/proc/sys/net/ipv4/tcp_no_metrics_save").unwrap().trim(), "1");
    set_rps(testbed.receiver(), "rcv0", 0b10).unwrap();
    let rps = |namespace: &str, interface: &str| {
        let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        let output = program("ip").args(["netns", "exec", namespace, "/bin/cat", &file]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    assert_eq!(rps(testbed.receiver(), "rcv0"), "2");
    assert_eq!(rps(testbed.bottleneck(), "b"), "1");
    assert_eq!(rps(testbed.sender(), "snd0"), "0");
    let link = program("ip").args(["-n", testbed.bottleneck(), "addr", "show", "dev", "a"]).output().unwrap();
    let link = String::from_utf8(link.stdout).unwrap();
    assert!(link.contains("mtu 9000") && link.contains("state UP") && !link.contains("inet"), "{link}");
    let told = |args: &[&str]| {
        let output = program("ip").args(["-n", testbed.receiver()]).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // A window below what the buffer could hold, and no segmentation that the interface does not have either.
    assert!(told(&["route", "show", "10.77.0.1"]).contains("window 67108864"));
    assert!(told(&["-6", "route", "show", "fd77::11"]).contains("window 67108864"));
    assert!(told(&["-d", "link", "show", "rcv0"]).contains("gso_max_segs 1 "));
    testbed.require_congestion("reno").unwrap();
    let e = testbed.require_congestion("no_such_cc").unwrap_err().to_string();
    assert!(e.contains("no_such_cc") && e.contains("reno"), "{e}");
    assert!(in_netns("weir-none", || ()).unwrap_err().to_string().contains("weir-none"));
    // What was just used must pass its check.
    for check in
        host::checks().iter().filter(|c| ["network namespaces", "veth", "sock_diag"].contains(&&*c.name))
    {
        assert!(check.ok, "{check:?}");
    }
    if let Some(ethtool) = host::binary("ethtool") {
        assert_offloads_off(&testbed, &ethtool);
    }
}

fn assert_offloads_off(testbed: &Testbed, ethtool: &std::path::Path) {
    let args = ["netns", "exec", testbed.sender(), ethtool.to_str().unwrap(), "-k", "snd0"];
    let text = String::from_utf8(program("ip").args(args).output().unwrap().stdout).unwrap();
    let features = [
        "rx-checksumming",
        "tx-checksumming",
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "tx-udp-segmentation",
    ];
    for feature in features {
        let line = text.lines().find(|l| l.trim().starts_with(feature)).unwrap_or_default();
        assert!(line.contains(": off"), "{feature}: {line}\n{text}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    if !can_run_live(&["ip"]) {
        return;
    }
    let e = Testbed::new(TestbedConfig { mtu: 100, ..TestbedConfig::default() }).unwrap_err();
    assert!(e.to_string().contains("576"), "{e}");
}

/// Builds a testbed, starts a process in it and waits to be killed.
fn hold_a_testbed() {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("300").stdin(Stdio::null());
    let child = spawn_in(testbed.receiver(), sleep, &SpawnOptions::default()).unwrap();
    // Detached from its parent: nothing but the cleaning ends it.
    let orphan = ["netns", "exec", testbed.sender(), "/bin/sh", "-c", "setsid -f sleep 300"];
    // Without pipes of ours: it would keep them open.
    let orphan =
        program("ip").args(orphan).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(orphan.unwrap().success());
    println!("\nHOLDING {} {}", testbed.sender(), child.pid());
    std::thread::sleep(Duration::from_secs(300));
}

#[test]
fn what_a_killed_program_left_behind_is_removed() {
    if std::env::var_os(HOLD).is_some() {
        return hold_a_testbed();
    }
    if !can_run_live(&["ip"]) {
        return;
    }
    let _turn = turn();
    use std::io::{BufRead, BufReader};
    let mine = Testbed::new(TestbedConfig::default()).unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "testbed::what_a_killed_program_left_behind_is_removed", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let line =
        lines.map_while(Result::ok).find(|l| l.starts_with("HOLDING")).expect("the child holds a testbed");
    let words: Vec<&str> = line.split(' ').collect();
    let (sender, pid) = (words[1], words[2]);
    let receiver = sender.replace("-snd", "-rcv");
    assert!(clean_stale().unwrap().iter().all(|s| s.name != sender), "its owner lives");
    assert_eq!(processes_in(&receiver), [pid.parse::<u32>().unwrap()]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    // The kernel kills the child with its parent.
    let deadline = Instant::now() + PATIENCE;
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < deadline, "the child of the killed program still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    // One that cannot be removed, here as it is no file, does not keep the others from being removed. It
    // comes first.
    let stuck = std::path::Path::new("/run/netns").join("weir-0-1-chk");
    std::fs::create_dir(&stuck).unwrap();
    let cleaned = clean_stale();
    std::fs::remove_dir(&stuck).unwrap();
    let cleaned = cleaned.unwrap();
    let of = |name: &str| cleaned.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("{cleaned:?}"));
    assert!(of("weir-0-1-chk").removed.is_err(), "{cleaned:?}");
    assert_eq!(of(sender).removed.as_ref().unwrap().len(), 1, "{cleaned:?}");
    let names: Vec<String> = ["snd", "bot", "rcv"].map(|r| sender.replace("snd", r)).to_vec();
    assert!(names.iter().all(|n| of(n).removed.is_ok()), "{cleaned:?}");
    assert_gone(&names);
    // The testbed of a program that lives is left alone.
    assert!(names_of(&mine).iter().all(|n| namespaces().unwrap().contains(n)));
}
