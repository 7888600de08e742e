//! `weir upf` as a person and as session management meet it.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::{
    Attempt, Folder, PATIENCE, Started, ctl, exec, judged, say, skipped, testbed, turn, turn_beside_others,
};
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_lab::{Testbed, TestbedConfig, in_netns};
use weir_upf::client::{Client, Established, usual};
use weir_upf::message::{Element, Value, ie, kind};
use weir_upf::rules::{PerDirection, Session};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const USER: [u8; 4] = [10, 45, 0, 7];
/// The tunnel at the base station.
const STATION_TEID: u32 = 0x99;

fn configuration(name: &str, server: &str, peer: &str) -> PathBuf {
    configuration_with(name, server, peer, "")
}

fn configuration_with(name: &str, server: &str, peer: &str, more: &str) -> PathBuf {
    let text = format!(
        "n3 = {{ port = \"a\", address = [\"192.0.2.1/24\"] }}\n\
         n4 = {{ address = \"{server}\", peers = [\"{peer}\"] }}\n\
         n6 = {{ port = \"b\", address = [\"198.51.100.1/24\"] }}\n{more}"
    );
    let path = std::env::temp_dir().join(format!("weir-upf-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

/// A running program; its lines until it serves were read.
struct Upf {
    child: Started,
    /// Holds the file of its configuration, which goes with it.
    _file: Configuration,
}

/// A file of a configuration; removed when dropped.
struct Configuration(PathBuf);

impl Drop for Configuration {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Upf {
    fn start(mut command: Command, file: PathBuf, options: &[&str]) -> Upf {
        command.args(["--json", "upf"]).arg(&file).args(options).stdin(Stdio::null());
        let mut child = Started::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let serves =
            lines.by_ref().inspect(|line| said.push(line.clone())).any(|line| line.starts_with("PFCP on"));
        assert!(serves, "{said:?}");
        // What follows is read, so that the program never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Upf { child, _file: Configuration(file) }
    }

    /// Ends it as Ctrl-C does; its exit status and its one object.
    fn interrupt(self) -> (Option<i32>, serde_json::Value) {
        // SAFETY: no pointers are involved; the process is our child, which was not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.wait()
    }

    /// Waits for its end, which another one asks for; as [`Upf::interrupt`].
    fn wait(self) -> (Option<i32>, serde_json::Value) {
        let output = self.child.wait_with_output();
        (output.status.code(), serde_json::from_slice(&output.stdout).expect("one JSON object"))
    }
}

fn rules() -> Session {
    let ambr = PerDirection { up: 50_000, down: 100_000 };
    usual(7, USER.into(), [192, 0, 2, 1].into(), ([192, 0, 2, 9].into(), STATION_TEID), ambr)
}

fn session(server: &str, peer: &str) -> (Client, Established) {
    let address = SocketAddr::new(server.parse().unwrap(), 8805);
    let mut client = Client::open(peer.parse::<IpAddr>().unwrap(), address).unwrap();
    client.associate(5).unwrap();
    let session = client.establish(&rules()).unwrap();
    (client, session)
}

#[test]
fn sessions_are_told_and_ctrl_c_ends_it() {
    let (server, peer) = ("127.8.7.1", "127.8.7.2");
    let upf = Upf::start(Command::new(WEIR), configuration("told", server, peer), &["--control-only"]);
    let (mut client, established) = session(server, peer);
    // The address of its user is taken, as it would be with ports.
    let taken = client.establish(&rules()).expect_err("two sessions with one address").to_string();
    assert!(taken.contains("cause 73, rule creation or modification failure"), "{taken}");
    // It asks to be released and is not answered: it ends all the same.
    drop(client);
    let (status, told) = upf.interrupt();
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(told["sessions"][0]["seid"], format!("{:#x}", established.seid));
    assert_eq!(told["sessions"][0]["user"][0], "10.45.0.7");
    assert_eq!((&told["pfcp"]["established"], &told["interrupted"]), (&1.into(), &false.into()));
}

/// What was published when this holds of it.
fn published(upf: &Upf, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, told) = ctl(upf.child.id(), &["status"]);
        assert_eq!(status, 0, "{told}");
        if holds(&told["links"][0]) {
            return told["links"][0].clone();
        }
        assert!(Instant::now() < deadline, "{told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn its_sessions_are_looked_at_while_it_runs_and_what_takes_a_restart_is_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let (server, peer, metrics) = ("127.8.7.11", "127.8.7.12", "127.8.7.11:9469");
    let file = configuration_with("watched", server, peer, &format!("run = {{ metrics = \"{metrics}\" }}\n"));
    let upf = Upf::start(Command::new(WEIR), file, &["--control-only"]);
    let (client, _) = session(server, peer);
    let told = published(&upf, |now| now["user_plane"]["sessions"] == 1);
    assert_eq!((&told["verb"], &told["title"]), (&"upf".into(), &format!("user plane {server}").into()));
    assert_eq!(told["user_plane"]["session_events"]["established"], 1, "{told}");
    let scraped = common::http(metrics, "/metrics");
    assert!(
        scraped.lines().any(|line| line.starts_with("weir_sessions") && line.ends_with(" 1")),
        "{scraped}"
    );
    assert!(scraped.contains("weir_pfcp_messages_total{outcome=\"accepted\"}"), "{scraped}");
    let pid = upf.child.id();
    let (status, refused) = ctl(pid, &["set", "limits.sessions=5"]);
    let why = &refused["links"][0]["refused"];
    assert!(status == 1 && why["needs_restart"] == true, "{refused}");
    assert_eq!(why["problems"][0]["key"], "limits.sessions");
    assert!(why["error"].as_str().unwrap().contains("--takeover"), "{refused}");
    // What the file says already is no change.
    assert_eq!(ctl(pid, &["reload"]).0, 0);
    let (status, refused) = ctl(pid, &["drain"]);
    assert!(status == 1 && refused.to_string().contains("SIGTERM"), "{refused}");
    drop(client);
    let (status, told) = upf.interrupt();
    assert_eq!((status, &told["pfcp"]["established"]), (Some(0), &1.into()));
    assert!(
        !Path::new(&format!("/run/weir/control-{pid}.sock")).exists(),
        "the name of the control socket stayed"
    );
}

#[test]
fn policies_and_the_level_of_the_log_change_while_it_runs() {
    let Some(_turn) = turn_beside_others() else { return };
    let (server, peer) = ("127.8.7.25", "127.8.7.26");
    let more = "[flow]\naqm = { name = \"gsp\" }\npolicy = { target_max = \"30ms\" }\n\
                [[flows]]\nqfi = 5\naqm = { name = \"codel\", target = \"5ms\" }\n";
    let file = configuration_with("changed", server, peer, more);
    let upf = Upf::start(Command::new(WEIR), file, &["--control-only"]);
    let pid = upf.child.id();
    // A policy is there before a session has a queue.
    let (status, told) = ctl(pid, &["policy", "flow"]);
    assert!(status == 0 && told.to_string().contains("30ms"), "{told}");
    let (status, refused) = ctl(pid, &["policy"]);
    let why = refused["error"].as_str().unwrap();
    assert!(status == 2 && why.contains("no queue is there yet") && why.contains("policy flow"), "{refused}");
    let (client, _) = session(server, peer);
    let set = ["set", "flow.policy.target_max=9ms", "flows.0.aqm.target=8ms", "run.log=debug"];
    let (status, told) = ctl(pid, &set);
    let applied = &told["links"][0]["applied"];
    assert!(status == 0 && applied["at_s"].as_f64().is_some(), "{told}");
    let keys: Vec<_> = applied["changed"].as_array().unwrap().iter().map(|one| one["key"].clone()).collect();
    assert_eq!(keys, ["flow.policy.target_max", "flows.0.aqm.target", "run.log"], "{told}");
    let (_, told) = ctl(pid, &["get", "flow.policy.target_max"]);
    assert_eq!(told["links"][0]["values"]["flow.policy.target_max"], "\"9ms\"", "{told}");
    // That of the session's queues, once they are told.
    published(&upf, |now| now["directions"].as_array().is_some_and(|queues| !queues.is_empty()));
    let (status, told) = ctl(pid, &["policy"]);
    assert!(status == 0 && told.to_string().contains("\"flow.policy.target_max\":\"\\\"9ms"), "{told}");
    // One key that takes a restart refuses all of it, and so does a policy where none was.
    for (keys, wanted) in [
        (["flow.policy.target_max=8ms", "limits.sessions=5"], "limits.sessions"),
        (["run.log=info", "flows.0.policy.target_max=8ms"], "flows.0.policy"),
        // A policy moves that one.
        (["run.log=info", "flow.aqm.target=8ms"], "flow.aqm.target"),
        (["flows.0.aqm.target=9ms", "flows.0.aqm.interval=90ms"], "flows.0.aqm.interval"),
    ] {
        let (status, refused) = ctl(pid, &["set", keys[0], keys[1]]);
        let why = &refused["links"][0]["refused"];
        assert!(status == 1 && why["needs_restart"] == true, "{refused}");
        assert!(why["problems"].to_string().contains(wanted), "{refused}");
    }
    let (status, refused) = ctl(pid, &["set", "flow.policy.target_max=99s"]);
    assert!(status == 1 && refused["links"][0]["refused"]["needs_restart"] == false, "{refused}");
    // The file is in force again.
    let (status, told) = ctl(pid, &["reload"]);
    assert!(status == 0 && told.to_string().contains("after it was changed live"), "{told}");
    published(&upf, |now| now["changes"] == 2);
    drop(client);
    assert_eq!(upf.interrupt().0, Some(0));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_key() {
    let file = configuration("wrong", "127.8.7.3", "2001:db8::1");
    for verb in [["upf", "--control-only"], ["check", "--print"]] {
        let output = Command::new(WEIR).args(verb).arg(&file).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("n4.peers"), "{told}");
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn other_peoples_pfcp_is_understood() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tool = |name: &str, arguments: &[&str]| {
        Command::new(format!("{root}/tools/{name}")).args(arguments).output().unwrap()
    };
    if !crate::skipping::can_run_live(&["ip"]) {
        return;
    }
    if !tool("python", &["tomllib"]).status.success() {
        return skipped("Python 3.11 is not installed");
    }
    let output = tool("interop", &[WEIR, "--if-there"]);
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().filter(|line| line.starts_with("SKIPPED")).for_each(skipped);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A packet of the user, in the tunnel that was chosen, in QoS flow 9.
fn uplink(teid: u32, payload: &[u8]) -> Vec<u8> {
    let mut inner = Vec::new();
    PacketBuilder::ipv4(USER, [198, 51, 100, 9], 64).udp(5000, 7000).write(&mut inner, payload).unwrap();
    let length = (8 + inner.len()) as u16;
    let mut packet =
        [&[0x34, 255][..], &length.to_be_bytes(), &teid.to_be_bytes(), &[0, 0, 0, 0x85]].concat();
    packet.extend([1, 0x10, 9, 0]);
    packet.extend(inner);
    packet
}

/// A base station with 192.0.2.9 and a data network with 198.51.100.9, the program between them, and a
/// session.
fn forward(testbed: &Testbed, server: &str, file: PathBuf, peer: &str) -> (Upf, Client, Established) {
    let upf = between(testbed, file);
    let (client, established) = in_netns(testbed.bottleneck(), || session(server, peer)).unwrap();
    (upf, client, established)
}

/// The same without a session.
fn between(testbed: &Testbed, file: PathBuf) -> Upf {
    exec(testbed.sender(), "ip", &["addr", "replace", "192.0.2.9/24", "dev", "snd0"]);
    exec(testbed.receiver(), "ip", &["addr", "replace", "198.51.100.9/24", "dev", "rcv0"]);
    exec(testbed.receiver(), "ip", &["route", "replace", "10.45.0.0/16", "via", "198.51.100.1"]);
    exec(testbed.bottleneck(), "ip", &["link", "set", "lo", "up"]);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", testbed.bottleneck(), WEIR]);
    Upf::start(command, file, &[])
}

fn bound(namespace: &str, address: &str) -> UdpSocket {
    let socket = in_netns(namespace, || UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// How many datagrams come, of so many, until none came for a while.
fn count(socket: &UdpSocket, most: usize) -> usize {
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 2048];
    (0..most).take_while(|_| socket.recv(&mut buffer).is_ok()).count()
}

#[test]
fn of_several_programs_those_that_have_a_key_tell_its_value() {
    let addresses = [("127.8.7.15", "127.8.7.16"), ("127.8.7.17", "127.8.7.18")];
    let more = ["flow = { aqm = { name = \"gsp\" }, policy = { target_max = \"20ms\" } }\n", ""];
    let all = [0, 1].map(|one: usize| {
        let file =
            configuration_with(&format!("several-{one}"), addresses[one].0, addresses[one].1, more[one]);
        Upf::start(Command::new(WEIR), file, &["--control-only"])
    });
    let other = all[1].child.id().to_string();
    let get = |key: &str| ctl(all[0].child.id(), &["--link", &other, "get", key]);
    let (status, told) = get("flow.policy.target_max");
    assert_eq!(status, 0, "{told}");
    let links = told["links"].as_array().unwrap();
    let of = |upf: &Upf| links.iter().find(|link| link["pid"] == upf.child.id()).unwrap();
    assert_eq!(of(&all[0])["values"]["flow.policy.target_max"], "\"20ms\"", "{told}");
    assert!(of(&all[1])["error"].as_str().unwrap().contains("has no value"), "{told}");
    // Of several keys each is told that is there.
    let (status, told) =
        ctl(all[0].child.id(), &["--link", &other, "get", "flow.policy.target_max", "n4.address"]);
    let links = told["links"].as_array().unwrap();
    let values: Vec<_> = links.iter().map(|link| link["values"].as_object().unwrap().len()).collect();
    assert!(status == 0 && (values == [2, 1] || values == [1, 2]), "{told}");
    // What none has is an error that names each.
    let (status, told) = get("flow.policy.target_maximum");
    let error = told["error"].as_str().unwrap();
    assert!(
        status == 2 && all.iter().all(|upf| error.contains(&format!("process {}", upf.child.id()))),
        "{told}"
    );
}

/// As `weir run` tells of its own.
#[test]
fn ports_without_a_link_and_a_loop_that_does_not_turn_are_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let upf = between(&testbed, configuration("ports", "127.8.7.13", "127.8.7.14"));
    let up = |now: &serde_json::Value| {
        let ports = now["ports"].as_array().unwrap();
        let is_up = |port: &serde_json::Value| (port["name"].to_string(), port["is_up"].as_bool().unwrap());
        ports.iter().map(is_up).collect::<Vec<_>>()
    };
    let are = |a: bool, b: bool| {
        let all = vec![("\"a\"".to_string(), a), ("\"b\"".to_string(), b)];
        move |now: &serde_json::Value| up(now) == all
    };
    published(&upf, are(true, true));
    exec(testbed.receiver(), "ip", &["link", "set", "dev", "rcv0", "down"]);
    let told = published(&upf, are(true, false));
    let watched = told["alarms"].as_array().unwrap().iter();
    let watched = watched.filter(|one| one["alarm"] == "port_down").map(|one| one["port"].as_str().unwrap());
    assert_eq!(watched.collect::<Vec<_>>(), ["a", "b"], "{told}");
    exec(testbed.receiver(), "ip", &["link", "set", "dev", "rcv0", "up"]);
    let told = published(&upf, are(true, true));
    let stalled_s = |told: &serde_json::Value| told["stalled_s"].as_f64().unwrap();
    // SAFETY: no pointers are involved; the process is our child, which was not waited for.
    let signal = |number| assert_eq!(unsafe { libc::kill(upf.child.id() as i32, number) }, 0);
    signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(200));
    signal(libc::SIGCONT);
    published(&upf, |now| stalled_s(now) > stalled_s(&told) + 0.15);
}

#[test]
fn packets_of_all_queues_pass_both_ways() {
    let Some(_turn) = turn_beside_others() else { return };
    let (server, peer) = ("127.8.7.7", "127.8.7.8");
    let mut wrong = Vec::new();
    for (queues, mode) in [([16, 16], "xdp-native"), ([5, 32], "xdp-generic"), ([16, 16], "af_packet")] {
        let testbed = Testbed::new(TestbedConfig { queues, ..TestbedConfig::default() }).unwrap();
        let file = configuration_with("queues", server, peer, &format!("host = {{ mode = \"{mode}\" }}\n"));
        let (upf, client, established) = forward(&testbed, server, file, peer);
        let station = bound(testbed.sender(), "192.0.2.9:2152");
        let host = bound(testbed.receiver(), "198.51.100.9:7000");
        // Neighbours are asked for first.
        station.send_to(&uplink(established.tunnels[0].1.teid, b"first"), "192.0.2.1:2152").unwrap();
        count(&host, 1);
        // Sixteen flows for each queue leave none without one: the chance is e^-16 for each.
        let flows = queues.map(|queues| 16 * queues as usize);
        let cross = |from: &str, flows: usize, send: &dyn Fn(&UdpSocket), to: &UdpSocket| -> usize {
            let sockets: Vec<UdpSocket> = (0..flows).map(|_| bound(from, "0.0.0.0:0")).collect();
            // No more at a time than a socket has room for.
            let arrived = sockets.chunks(64).map(|some| {
                some.iter().for_each(send);
                count(to, some.len())
            });
            arrived.sum()
        };
        let teid = established.tunnels[0].1.teid;
        let send = |socket: &UdpSocket| {
            socket.send_to(&uplink(teid, b"up"), "192.0.2.1:2152").unwrap();
        };
        let up = cross(testbed.sender(), flows[0], &send, &host);
        let send = |socket: &UdpSocket| {
            socket.send_to(b"down", "10.45.0.7:5000").unwrap();
        };
        let down = cross(testbed.receiver(), flows[1], &send, &station);
        if [up, down] != flows {
            wrong.push(format!(
                "{queues:?} queues, {mode}: {up} of {} up, {down} of {} down",
                flows[0], flows[1]
            ));
        }
        // Queues of sessions are looked at while it runs.
        let sent = |queue: &serde_json::Value| queue["packets"]["delivered"].as_u64().unwrap();
        let seen = published(&upf, |now| {
            let queues = now["directions"].as_array().unwrap();
            queues.iter().map(sent).sum::<u64>() >= (up + down) as u64
        });
        let names: Vec<&str> = seen["directions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|queue| queue["name"].as_str().unwrap())
            .collect();
        assert!(names.iter().all(|name| name.starts_with("10.45.0.7 ")), "{names:?}");
        let name = PathBuf::from(format!("/run/weir/control-{}.sock", upf.child.id()));
        assert!(name.exists());
        drop(client);
        let (status, told) = upf.interrupt();
        assert_eq!(status, Some(0), "{told}");
        assert!(!name.exists(), "the name of the control socket stayed");
        assert_eq!(told["discarded"]["lost_before_queue"], serde_json::Value::Null, "{told}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_upgrade_takes_the_sessions_along_with_a_short_gap_and_without_doubling_a_packet() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        judged(|attempt| taken_over(mode, attempt));
    }
}

/// When the other side says that it started.
fn stamp(client: &mut Client) -> Option<Value> {
    let own = Element::number(ie::RECOVERY_TIME_STAMP, 5u32);
    let answer = client.ask(kind::HEARTBEAT_REQUEST, None, vec![own]).unwrap();
    let stamp = answer.elements.into_iter().find(|element| element.id == ie::RECOVERY_TIME_STAMP);
    stamp.map(|element| element.value)
}

fn taken_over(mode: &str, attempt: &mut Attempt) {
    let testbed = testbed();
    let (server, peer) = ("127.8.7.11", "127.8.7.12");
    let folder = Folder::new();
    let state = folder.path().join("state");
    let more = format!("[host]\nmode = \"{mode}\"\n[run]\nstate = {state:?}\n");
    let file = |name: &str| configuration_with(name, server, peer, &more);
    let (first, mut client, established) = forward(&testbed, server, file("first"), peer);
    let stamp = in_netns(testbed.bottleneck(), || stamp(&mut client)).unwrap();
    let station = bound(testbed.sender(), "192.0.2.9:2152");
    let host = bound(testbed.receiver(), "198.51.100.9:7000");
    let teid = established.tunnels[0].1.teid;
    let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let sends = {
        let (stop, sent) = (stop.clone(), sent.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                let _ = station.send_to(&uplink(teid, &number.to_be_bytes()), "192.0.2.1:2152");
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let takes = {
        let stop = stop.clone();
        host.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        std::thread::spawn(move || {
            let (mut seen, mut buffer) = (Vec::new(), [0; 64]);
            while !stop.load(Ordering::Relaxed) {
                // What still is on its way at the end is waited for.
                while let Ok(4) = host.recv(&mut buffer) {
                    seen.push((
                        Instant::now(),
                        u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]),
                    ));
                }
            }
            seen
        })
    };
    std::thread::sleep(Duration::from_millis(1000));
    attempt.begin();
    let before = Instant::now();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", testbed.bottleneck(), WEIR]);
    let second = Upf::start(command, file("second"), &["--takeover"]);
    let (status, told) = first.wait();
    assert_eq!(status, Some(0), "{told}");
    // Nobody but the second has these.
    let of_second = sent.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(500));
    let after = Instant::now();
    attempt.end();
    stop.store(true, Ordering::Relaxed);
    sends.join().unwrap();
    let seen = takes.join().unwrap();
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    seen.iter().for_each(|(_, number)| *times.entry(*number).or_default() += 1);
    assert!(times.values().all(|n| *n == 1), "{mode}: doubled packets, of {}", seen.len());
    assert!(times.keys().any(|number| *number >= of_second), "{mode}: none after the upgrade");
    let while_taken = seen.iter().map(|s| s.0).filter(|at| (before..after).contains(at));
    let edges: Vec<Instant> = std::iter::once(before).chain(while_taken).chain([after]).collect();
    let gap = edges.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    let lost = sent.load(Ordering::Relaxed) as usize - times.len();
    say(format!("{mode}: {gap:?} without a packet at the longest, {lost} of {} lost", times.len() + lost));
    // Session management sees no restart, and the session goes on to be changed.
    let now = in_netns(testbed.bottleneck(), || self::stamp(&mut client)).unwrap();
    assert_eq!(now, stamp, "{mode}: it says that it did not start again");
    client.delete(established.seid).unwrap();
    // Nobody forwards between the end of one and the beginning of the other.
    attempt.within(format!("{mode}: longest gap in s"), gap.as_secs_f64(), ..0.2);
    let (status, told) = second.interrupt();
    assert_eq!(status, Some(0), "{told}");
    testbed.close().unwrap();
}

/// `weir upf session` with a file of its own; exit status, its object, and what it said.
fn by_hand(folder: &Path, namespace: Option<&str>, words: &[&str]) -> (i32, serde_json::Value, String) {
    let mut command = match namespace {
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace, WEIR]);
            command
        }
        None => Command::new(WEIR),
    };
    let state = folder.join("sessions.json");
    command.args(["--json", "upf", "session"]).args(words).arg("--state").arg(state);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code().unwrap(), told, said)
}

#[test]
fn sessions_by_hand_are_added_changed_listed_and_ended() {
    let (server, peer) = ("127.8.7.21", "127.8.7.22");
    let folder = Folder::new();
    let peers = ["--upf", server, "--from", peer];
    let ask = |words: &[&str]| by_hand(folder.path(), None, &[words, &peers].concat());
    let phone = ["--ue", "10.45.0.7", "--station", "192.0.2.9", "--teid", "0x99"];
    // Nobody is there.
    let begun = Instant::now();
    let (status, told, _) = ask(&[&["add", "phone", "--timeout", "400ms"], &phone[..]].concat());
    let why = told["error"].as_str().unwrap();
    assert!(status == 1 && why.contains("does not answer PFCP") && why.contains("Remedy"), "{told}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let upf = Upf::start(Command::new(WEIR), configuration("by-hand", server, peer), &["--control-only"]);
    let flow = "{ qfi = 1, gbr_down = \"2Mbit/s\", filter = [\"permit out 17 from any to assigned 5060\"] }";
    let more = ["--ambr-up", "50Mbit/s", "--ambr-down", "100Mbit/s", "--flow", flow];
    let (status, told, said) = ask(&[&["add", "phone"], &phone[..], &more[..]].concat());
    assert_eq!(status, 0, "{told} {said}");
    let session = &told["sessions"][0];
    assert!(session["teid"].as_u64().unwrap() > 0 && session["n3_address"] == "192.0.2.1", "{told}");
    assert_eq!(session["qfis"], serde_json::json!([1, 9]));
    let seid = session["seid"].as_str().unwrap().to_string();
    // The same name, and the address of the same user.
    let (status, told, _) = ask(&[&["add", "phone"], &phone[..]].concat());
    assert!(status == 2 && told.to_string().contains("is there already"), "{told}");
    // The same tunnel: its base station would not know whose packets come.
    let (status, told, _) = ask(&[&["add", "other", "--ue", "10.45.0.8"], &phone[2..]].concat());
    assert!(status == 2 && told.to_string().contains("0x99 at 192.0.2.9 is that of session"), "{told}");
    let (status, told, _) = ask(&[&["add", "other"], &phone[..4], &["--teid", "0x98"]].concat());
    assert!(status == 1 && told.to_string().contains("cause 73, rule creation"), "{told}");
    assert!(told.to_string().contains("UE IP Address"), "{told}");
    // A file adds several; what is wrong in it is told before anything is asked.
    let file = folder.path().join("more.toml");
    let text = "[[sessions]]\nname = \"a\"\nue = [\"10.45.1.1\"]\nstation = \"192.0.2.9\"\nteid = 1\n\
                [[sessions]]\nname = \"b\"\nue = [\"10.45.1.2\"]\nstation = \"192.0.2.9\"\nteid = 2\n";
    std::fs::write(&file, text.replace("teid = 2", "tied = 2")).unwrap();
    let (status, told, _) = ask(&["add", "--file", file.to_str().unwrap()]);
    assert!(status == 2 && told.to_string().contains("more.toml:10: key `sessions.1.tied`"), "{told}");
    std::fs::write(&file, text).unwrap();
    assert_eq!(ask(&["add", "--file", file.to_str().unwrap()]).0, 0);
    let (status, told, _) = ask(&["list"]);
    let states: Vec<_> =
        told["sessions"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert!(status == 0 && states == ["up", "up", "up"], "{told}");
    // A handover, another AMBR and a flow less, in one request.
    let changes = ["--teid", "0x100", "--ambr-down", "200Mbit/s", "--remove-flow", "1"];
    let (status, told, _) = ask(&[&["change", &seid], &changes[..]].concat());
    assert!(status == 0 && told["changed"] == true, "{told}");
    assert_eq!(
        (&told["session"]["station_teid"], &told["session"]["qfis"]),
        (&0x100.into(), &serde_json::json!([9]))
    );
    let (status, told, _) = ask(&[&["change", "phone"], &changes[..4]].concat());
    assert!(status == 0 && told["changed"] == false, "{told}");
    let (status, told, _) = ask(&["change", "phone", "--ambr-down", "fast"]);
    assert!(status == 2 && told.to_string().contains("sessions.0.ambr_down"), "{told}");
    let (status, told, _) = ask(&["change", "phoen", "--teid", "5"]);
    assert!(status == 2 && told.to_string().contains("did you mean \\\"phone\\\"?"), "{told}");
    let mapped = ["--station", "::ffff:192.0.2.9", "--teid", "0x97"];
    let (status, told, _) = ask(&[&["add", "other", "--ue", "10.45.0.8"], &mapped[..]].concat());
    assert!(status == 2 && told.to_string().contains("write 192.0.2.9"), "{told}");
    let one = ["--station", "192.0.2.9", "--teid", "0x97", "--core", "192.0.2.9", "--core-teid", "0x97"];
    let (status, told, _) = ask(&[&["add", "other", "--ue", "10.45.0.8"], &one[..]].concat());
    assert!(status == 2 && told.to_string().contains("for the other way"), "{told}");
    let (status, told, _) = ask(&["change", "phone", "--teid", "2"]);
    assert!(status == 2 && told.to_string().contains("is that of session \\\"b\\\""), "{told}");
    let (status, told, _) = ask(&["delete", "phone", "a"]);
    assert!(status == 0 && told["sessions"][0]["bytes_up"] == 0, "{told}");
    assert_eq!(ask(&["list"]).1["sessions"].as_array().unwrap().len(), 1);
    let (_, told) = upf.interrupt();
    let counts = (&told["pfcp"]["established"], &told["pfcp"]["modified"], &told["sessions_in_all"]);
    // Each look at a session is a modification that changes nothing.
    assert_eq!((counts.0, counts.2), (&3.into(), &1.into()), "{told}");
    assert!(counts.1.as_u64().unwrap() >= 1, "{told}");
    // A user plane that knows nothing any more.
    let upf = Upf::start(Command::new(WEIR), configuration("by-hand", server, peer), &["--control-only"]);
    assert_eq!(ask(&["list"]).1["sessions"][0]["state"], "gone");
    let (status, told, _) = ask(&["change", "b", "--teid", "9"]);
    assert!(status == 1 && told.to_string().contains("add it again, with --hold"), "{told}");
    let (status, told, said) = ask(&[&["add", "phone"], &phone[..]].concat());
    assert!(status == 0 && said.contains("knows none of the 1 sessions"), "{told} {said}");
    assert_eq!(ask(&["delete", "--all"]).0, 0);
    drop(upf);
}

#[test]
fn bearers_and_tunnels_to_another_function_are_asked_for_by_hand() {
    let (server, peer) = ("127.8.7.27", "127.8.7.28");
    let folder = Folder::new();
    let peers = ["--upf", server, "--from", peer];
    let ask = |words: &[&str]| by_hand(folder.path(), None, &[words, &peers].concat());
    let upf = Upf::start(Command::new(WEIR), configuration("bearers", server, peer), &["--control-only"]);
    // 4G: a tunnel for each bearer, chosen there, and named here.
    let lte = ["add", "lte", "--ue", "10.45.0.7", "--station", "192.0.2.9", "--teid", "0x99", "--bearers"];
    let bearer = |qfi: u32, teid: &str| {
        format!("{{ qfi = {qfi}, {teid}filter = [\"permit out 17 from any to assigned 506{qfi}\"] }}")
    };
    let call = bearer(1, "teid = 0x9a, ");
    let (status, told, _) = ask(&[&lte[..], &["--flow", &bearer(1, "")]].concat());
    assert!(status == 2 && told.to_string().contains("sessions.0.flows.0.teid`: is missing"), "{told}");
    let (status, told, said) = ask(&[&lte[..], &["--flow", &call]].concat());
    let session = &told["sessions"][0];
    let teid = |session: &serde_json::Value, at: usize| session["bearers"][at]["teid"].as_u64().unwrap();
    assert!(status == 0 && session["bearers"][0]["station_teid"] == 0x9a, "{told} {said}");
    let (first, of_call) = (session["teid"].as_u64().unwrap(), teid(session, 0));
    assert!(first > 0 && of_call > 0 && first != of_call, "{told}");
    // Another bearer gets another tunnel, and those that go on keep theirs.
    let video = bearer(2, "teid = 0x9b, ");
    let (status, told, said) = ask(&["change", "lte", "--flow", &video]);
    let session = &told["session"];
    assert_eq!(
        (status, session["teid"].as_u64(), teid(session, 0)),
        (0, Some(first), of_call),
        "{told} {said}"
    );
    assert!(![first, of_call].contains(&teid(session, 1)), "{told}");
    let handed_over = bearer(1, "teid = 0x100, ");
    let (status, told, said) = ask(&["change", "lte", "--flow", &handed_over, "--remove-flow", "2"]);
    let session = &told["session"];
    assert_eq!(
        (status, session["bearers"].as_array().map(Vec::len), teid(session, 0)),
        (0, Some(1), of_call),
        "{told} {said}"
    );
    assert_eq!(session["bearers"][0]["station_teid"], 0x100);
    // N9: the tunnel here into which the other function sends.
    let near = ["add", "near", "--ue", "10.45.0.8", "--station", "192.0.2.9", "--teid", "0x9c"];
    let (status, told, _) =
        ask(&[&near[..], &["--core", "192.0.2.30", "--core-teid", "5", "--bearers"]].concat());
    assert!(status == 2 && told.to_string().contains("sessions.0.core"), "{told}");
    let stays = "{ qfi = 1, breakout = true, filter = [\"permit out ip from 203.0.113.0/24 to assigned\"] }";
    let core = ["--core", "192.0.2.30", "--core-teid", "0xa005", "--flow", stays];
    let (status, told, said) = ask(&[&near[..], &core[..]].concat());
    let session = &told["sessions"][0];
    let here = session["core"]["teid_here"].as_u64();
    assert!(status == 0 && here.is_some() && here != session["teid"].as_u64(), "{told} {said}");
    assert_eq!(session["core"]["teid"], 0xa005);
    let (status, told, said) =
        ask(&["change", "near", "--core", "192.0.2.31", "--core-teid", "6", "--remove-flow", "1"]);
    assert!(status == 0 && told["session"]["core"]["teid_here"].as_u64() == here, "{told} {said}");
    let (status, told, _) = ask(&["change", "near", "--core", "2001:db8::1", "--core-teid", "6"]);
    assert!(status == 2 && told.to_string().contains("key `core` does not change"), "{told}");
    let (status, told, _) = ask(&["delete", "--all"]);
    assert_eq!((status, told["sessions"].as_array().map(Vec::len)), (0, Some(2)), "{told}");
    drop(upf);
}

#[test]
fn packets_of_a_session_by_hand_pass_as_long_as_it_is_held() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let (server, peer) = ("127.8.7.23", "127.8.7.24");
    // Heartbeats that nobody answers for two seconds end sessions.
    let n4 = format!("n4 = {{ address = \"{server}\", peers = [\"{peer}\"]");
    let file = configuration("held", server, peer);
    let text = std::fs::read_to_string(&file).unwrap();
    let quick = text.replacen(&n4, &format!("{n4}, heartbeat = \"1s\", hold = \"2s\""), 1);
    assert_ne!(quick, text);
    std::fs::write(&file, quick).unwrap();
    let upf = between(&testbed, file);
    let folder = Folder::new();
    let namespace = Some(testbed.bottleneck());
    let ask = |words: &[&str]| {
        by_hand(folder.path(), namespace, &[words, &["--upf", server, "--from", peer]].concat())
    };
    let phone = ["add", "phone", "--ue", "10.45.0.7", "--station", "192.0.2.9", "--teid", "0x99"];
    let state = folder.path().join("sessions.json");
    let mut holder = Command::new("ip");
    holder
        .args(["netns", "exec", testbed.bottleneck(), WEIR, "--json", "upf", "session"])
        .args(phone)
        .args(["--hold", "--upf", server, "--from", peer, "--state", state.to_str().unwrap()]);
    let mut holder = Started::of(holder.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut told = String::new();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        told.push_str(&line);
        if line == "}" {
            break;
        }
    }
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let teid = told["sessions"][0]["teid"].as_u64().unwrap() as u32;
    let station = bound(testbed.sender(), "192.0.2.9:2152");
    let host = bound(testbed.receiver(), "198.51.100.9:7000");
    let round_trip = |to_station: u32| {
        let mut buffer = [0; 2048];
        station.send_to(&uplink(teid, b"hello"), "192.0.2.1:2152").unwrap();
        let (_, from) = host.recv_from(&mut buffer).expect("the user's packet");
        host.send_to(b"back", from).unwrap();
        loop {
            let (_, _) = station.recv_from(&mut buffer).expect("the packet to the user");
            // An end marker is told to the tunnel of before.
            if buffer[1] == 255 {
                return assert_eq!(&buffer[4..8], &to_station.to_be_bytes());
            }
        }
    };
    round_trip(0x99);
    // A handover by another process, while the first one holds the session.
    let (status, told, said) =
        ask(&["change", "phone", "--teid", "0x100", "--ambr-up", "50Mbit/s", "--ambr-down", "50Mbit/s"]);
    assert_eq!(status, 0, "{told} {said}");
    round_trip(0x100);
    // Longer than nobody may be silent.
    std::thread::sleep(Duration::from_secs(4));
    round_trip(0x100);
    // SAFETY: no pointers are involved; the process is our child, which was not waited for.
    unsafe { libc::kill(holder.id() as i32, libc::SIGINT) };
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    assert!(ask(&["list"]).1["sessions"].as_array().unwrap().is_empty());
    // One that is not held ends.
    assert_eq!(ask(&phone).0, 0);
    // Whoever looks at a session is heard from, and so it is looked at seldom.
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_secs(5));
        let told = ask(&["list"]).1;
        if told["sessions"][0]["state"] == "gone" {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{told}");
    }
    let (status, told) = upf.interrupt();
    assert_eq!(
        (status, &told["pfcp"]["established"], &told["sessions_in_all"]),
        (Some(0), &2.into(), &0.into())
    );
    testbed.close().unwrap();
}

#[test]
fn packets_pass_between_a_base_station_and_the_data_network() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let (server, peer) = ("127.8.7.5", "127.8.7.6");
    let (upf, mut client, established) = forward(&testbed, server, configuration("live", server, peer), peer);
    let station = bound(testbed.sender(), "192.0.2.9:2152");
    let host = bound(testbed.receiver(), "198.51.100.9:7000");
    let mut buffer = [0; 2048];
    station.send_to(&uplink(established.tunnels[0].1.teid, b"hello"), "192.0.2.1:2152").unwrap();
    let (length, from) = host.recv_from(&mut buffer).expect("the user's packet");
    assert_eq!((&buffer[..length], from.to_string().as_str()), (&b"hello"[..], "10.45.0.7:5000"));
    host.send_to(b"back", from).unwrap();
    let (length, from) = station.recv_from(&mut buffer).expect("the packet to the user");
    assert_eq!(from.to_string(), "192.0.2.1:2152");
    // G-PDU, its tunnel, a PDU session container of the downlink with QFI 9 (TS 38.415).
    assert_eq!((&buffer[..2], &buffer[4..8]), (&[0x34, 255][..], &STATION_TEID.to_be_bytes()[..]));
    assert_eq!(&buffer[11..16], [0x85, 1, 0, 9, 0]);
    let inner = SlicedPacket::from_ip(&buffer[16..length]).unwrap();
    let Some(TransportSlice::Udp(udp)) = inner.transport else { panic!("{inner:?}") };
    assert_eq!((udp.destination_port(), udp.payload()), (5000, &b"back"[..]));
    // The base station does not know the tunnel: session management is told.
    let mut indication = vec![0x32, 26, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16];
    indication.extend(STATION_TEID.to_be_bytes());
    indication.extend([133, 0, 4, 192, 0, 2, 9]);
    station.send_to(&indication, "192.0.2.1:2152").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let is_report = |client: &Client| client.asked.iter().any(|m| m.kind == kind::SESSION_REPORT_REQUEST);
    while !is_report(&client) && Instant::now() < deadline {
        client.listen().unwrap();
    }
    let report = client.asked.last().expect("a report");
    let said = report.elements.iter().find(|element| element.id == ie::REPORT_TYPE).map(|e| &e.value);
    assert_eq!((report.kind, said), (kind::SESSION_REPORT_REQUEST, Some(&Value::Number(4))));
    let (status, told) = upf.interrupt();
    assert_eq!(status, Some(0), "{told}");
    let packets = &told["sessions"][0]["packets"];
    assert_eq!((&packets["up"], &packets["down"]), (&1.into(), &1.into()), "{told}");
    testbed.close().unwrap();
}
