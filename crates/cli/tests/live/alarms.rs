//! Alert rules and the dashboard of the repository, by a real Prometheus, on links where faults are made.
//!
//! These tests need root and Debian's package `prometheus`; without them they say so and pass.

use crate::common::*;
use crate::control::{Load, METRICS, program};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{NsChild, SpawnOptions, Testbed, in_netns, spawn_in};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/");
const ADDRESS: &str = "127.0.0.1:9090";
/// Windows of the rules, shortened.
const WINDOW: &str = "10s";
/// How long a rule has to fire.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Prometheus with the files of the repository and shorter times; ended when dropped.
pub struct Prometheus {
    namespace: String,
    server: NsChild,
    _folder: Folder,
}

impl Prometheus {
    /// None where it is not installed, which is said.
    pub fn start(namespace: &str) -> Option<Prometheus> {
        let Some(program) = program("prometheus") else {
            skipped("`prometheus` is not installed");
            return None;
        };
        let folder = Folder::new();
        let read = |name: &str| std::fs::read_to_string(format!("{DATA}prometheus/{name}")).unwrap();
        let asked = read("prometheus.yml").replace(
            "scrape_interval: 5s",
            "scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s",
        );
        assert!(asked.contains("evaluation_interval"));
        let rules = read("alerts.yml").replace("for: ", "for: 1s # ");
        let rules = rules.replace("[5m]", &format!("[{WINDOW}]")).replace("[10m]", &format!("[{WINDOW}]"));
        assert!(rules.contains(WINDOW) && rules.contains("for: 1s"));
        std::fs::write(folder.path().join("prometheus.yml"), asked).unwrap();
        std::fs::write(folder.path().join("alerts.yml"), rules).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={ADDRESS}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = spawn_in(namespace, command, &SpawnOptions::default()).unwrap();
        Some(Prometheus { namespace: namespace.into(), server, _folder: folder })
    }

    /// What it answers to an expression; null while it does not answer.
    pub fn query(&self, expression: &str) -> serde_json::Value {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let request =
            format!("GET /api/v1/query?query={escaped} HTTP/1.0\r\nhost: x\r\nconnection: close\r\n\r\n");
        let connected = in_netns(&self.namespace, || TcpStream::connect(ADDRESS)).unwrap();
        let mut text = String::new();
        if let Ok(mut stream) = connected {
            let _ = stream
                .write_all(request.as_bytes())
                .and_then(|()| stream.read_to_string(&mut text).map(drop));
        }
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    /// Its series; fails where the expression is none.
    fn series(&self, expression: &str) -> Vec<serde_json::Value> {
        let told = self.query(expression);
        assert!(told.is_null() || told["status"] == "success", "{expression}: {told}");
        told["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The alerts that fire.
    fn firing(&self) -> BTreeSet<String> {
        let alerts = self.series("ALERTS{alertstate=\"firing\"}");
        alerts.iter().filter_map(|alert| Some(alert["metric"]["alertname"].as_str()?.to_string())).collect()
    }

    /// Waits until an expression has series.
    fn until(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.series(expression).is_empty() {
            assert!(Instant::now() < deadline, "never: {expression}; {}", self.query("weir_uptime_seconds"));
            sleep(Duration::from_millis(200));
        }
    }

    /// Waits until all of these fire.
    fn until_fire(&self, alerts: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = BTreeSet::new();
        while !alerts.iter().all(|alert| seen.contains(*alert)) {
            // Not all of them at the same time.
            seen.extend(self.firing());
            assert!(Instant::now() < deadline, "{alerts:?}: only {seen:?}");
            sleep(Duration::from_millis(200));
        }
        say(format!("{alerts:?} fired, and {seen:?} in all"));
    }

    /// What the dashboard would draw now: each of its expressions with the number of series.
    fn drawn(&self) -> BTreeMap<String, usize> {
        let dashboard = std::fs::read(format!("{DATA}grafana/weir.json")).unwrap();
        let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
        let asked = targets.map(|target| target["expr"].as_str().unwrap().to_string());
        asked
            .map(|expression| {
                let here = expression
                    .replace("$instance", ".*")
                    .replace("$direction", ".*")
                    .replace("$__rate_interval", WINDOW);
                assert!(!here.contains('$'), "a variable without a value: {here}");
                let series = self.series(&here).len();
                (expression, series)
            })
            .collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.server.signal(libc::SIGKILL);
    }
}

/// Datagrams that respond to nothing, in turn to each address.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Flood {
    /// Of so many payload bytes, so many in a second.
    fn start(testbed: &Testbed, to: Vec<String>, len: usize, per_s: u32) -> Flood {
        let socket = in_netns(testbed.sender(), || UdpSocket::bind("10.77.0.1:0")).unwrap().unwrap();
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (begun, mut sent) = (Instant::now(), 0u64);
            let bytes = vec![0; len];
            while !stopped.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_micros() as u64 * u64::from(per_s) / 1_000_000;
                while sent < due {
                    // Nobody listens there, which the sender may be told.
                    let _ = socket.send_to(&bytes, &to[sent as usize % to.len()]);
                    sent += 1;
                }
                sleep(Duration::from_millis(1));
            }
        });
        Flood { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// The thread of a program with this name, held by a debugger: it alone does not run. It has to be let go by
/// the thread that holds it.
struct Held(libc::pid_t);

fn hold(pid: u32, name: &str) -> Held {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let named = |path: std::path::PathBuf| {
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        (comm.trim_end() == name).then(|| path.file_name()?.to_str()?.parse().ok())?
    };
    let thread: libc::pid_t = threads.filter_map(|entry| named(entry.path())).next().unwrap();
    // SAFETY: the calls take numbers and a pointer to one.
    unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, none), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(thread, &mut status, libc::__WALL), thread);
    }
    Held(thread)
}

impl Held {
    fn release(self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) }, 0);
    }
}

fn with_metrics(testbed: &Testbed) {
    exec(testbed.bottleneck(), "ip", &["link", "set", "dev", "lo", "up"]);
}

/// A direction with a policy.
fn link(more: &str) -> String {
    format!(
        "{}[run]\nmetrics = \"{METRICS}\"\n[alarms]\npolicy_missed_after = \"5s\"\ndelay_after = \"5s\"\n\
         drops_after = \"5s\"\nport_down_after = \"1s\"\ngateway_silent_after = \"1s\"\nloop_late_after = \"1s\"\n[a_to_b]\nrate = \"10Mbit/s\"\naqm = {{ name = \"gsp\" }}\n{more}",
        ports("auto")
    )
}

#[test]
fn overload_and_a_policy_that_cannot_be_held_fire_their_alerts() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    with_metrics(&testbed);
    let Some(prometheus) = Prometheus::start(testbed.bottleneck()) else { return };
    // One flow over a path of 100 ms, whose queue may never be longer than 1 ms: the link is used to about
    // three quarters.
    let long = link(
        "buffer = \"300ms\"\ndelay = \"100ms\"\npolicy = { target_max = \"1ms\", target_min_up = \"1ms\" }\n",
    );
    let weir = Weir::start(testbed.bottleneck(), &long);
    let load = Load::start(&testbed);
    prometheus.until_fire(&["WeirPolicyMissed"]);
    load.end();
    assert_eq!(weir.interrupt().code, Some(0));
    // Twice the link's rate, which no signal brings down.
    let weir =
        Weir::start(testbed.bottleneck(), &link("buffer = \"300ms\"\npolicy = { target_max = \"10ms\" }\n"));
    prometheus.until("weir_link_rate_bytes_per_second == 1.25e6");
    let flood = Flood::start(&testbed, vec!["10.77.0.2:7000".into()], 1400, 1800);
    prometheus.until_fire(&["WeirOverflows", "WeirDelayAbovePolicy", "WeirDrops"]);
    flood.end();
    assert_eq!(weir.interrupt().code, Some(0));
}

#[test]
fn a_loop_that_does_not_turn_fires_alerts_while_the_program_still_tells_of_it() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    with_metrics(&testbed);
    let Some(prometheus) = Prometheus::start(testbed.bottleneck()) else { return };
    let more = "buffer = \"100ms\"\npolicy = { target_max = \"10ms\" }\n[fail_open]\nafter = \"900ms\"\n";
    let weir = Weir::start(testbed.bottleneck(), &link(more));
    prometheus.until("weir_loop_silent_seconds < 3");
    let quiet = ["WeirLoopSilent", "WeirBypassed", "WeirRingLosses"];
    assert!(quiet.iter().all(|alert| !prometheus.firing().contains(*alert)), "{:?}", prometheus.firing());
    // More in 0.9 s than a ring holds; then the kernel forwards.
    let flood = Flood::start(&testbed, vec!["10.77.0.2:7000".into()], 18, 20_000);
    let held = hold(weir.child.pid(), "weir-loop");
    prometheus.until_fire(&["WeirLoopSilent"]);
    held.release();
    // Pauses are counted when the loop turns again; each is longer than the kernel waits.
    let (deadline, mut seen) = (Instant::now() + PATIENCE, BTreeSet::new());
    let due = ["WeirBypassed", "WeirLoopLate", "WeirRingLosses"];
    while !due.iter().all(|alert| seen.contains(*alert)) {
        assert!(Instant::now() < deadline, "{due:?}: only {seen:?}");
        sleep(Duration::from_millis(300));
        let held = hold(weir.child.pid(), "weir-loop");
        sleep(Duration::from_millis(1200));
        held.release();
        seen.extend(prometheus.firing());
    }
    say(format!("{due:?} fired, and {seen:?} in all"));
    flood.end();
    assert_eq!(weir.interrupt().code, Some(0));
}

/// Twelve customers of whom each is sent more than its rate, and one with enough.
fn customers(folder: &Folder) -> Vec<String> {
    let hosts: Vec<u32> = (31..43).collect();
    let rows: String = hosts.iter().map(|host| format!("c{host},10.77.0.{host},100kbit/s\n")).collect();
    let table = format!("name,address,down\n{rows}enough,10.77.0.2,8Mbit/s\n");
    std::fs::write(folder.path().join("plans.csv"), table).unwrap();
    hosts.iter().map(|host| format!("10.77.0.{host}:7000")).collect()
}

/// Expressions that only a user plane has series for.
const OF_USER_PLANE: [&str; 7] = [
    "weir_sessions",
    "weir_tunnels",
    "weir_session_events",
    "weir_pfcp_messages",
    "weir_pfcp_reports",
    "weir_user_plane_discarded",
    "weir_queue_delay_p95",
];

#[test]
fn a_silent_gateway_and_customers_in_trouble_fire_their_alerts_and_the_dashboard_draws_all() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    with_metrics(&testbed);
    let Some(prometheus) = Prometheus::start(testbed.bottleneck()) else { return };
    let (folder, bot) = (Folder::new(), testbed.bottleneck());
    let hosts = customers(&folder);
    for host in &hosts {
        let address = format!("{}/24", host.split(':').next().unwrap());
        exec(testbed.receiver(), "ip", &["addr", "add", &address, "dev", "rcv0"]);
    }
    // The sender is the gateway that probes of the way back bounce off.
    let bounces = |value: u32| {
        exec(testbed.sender(), "sysctl", &["-qw", &format!("net.ipv4.ip_forward={value}")]);
    };
    bounces(1);
    // Users with plans and a policy one way, and probes the other.
    let config = format!(
        "{}upstream = \"inform\"\nbuffer = \"100ms\"\nqueue = {{ discipline = \"user\" }}\n\
         policy = {{ target_max = \"10ms\" }}\n[b_to_a]\nrate = \"10Mbit/s\"\naqm = {{ name = \"gsp\" }}\n\
         [users]\nfile = \"{}\"\n[sense]\nport = \"a\"\nhold = \"500ms\"\nfall_back = \"1s\"\nfall_back_rate = \"8Mbit/s\"\n",
        link(""),
        folder.path().join("plans.csv").display()
    );
    let weir = Weir::start(bot, &config);
    // TCP of the customer with enough.
    let load = Load::start(&testbed);
    let flood = Flood::start(&testbed, hosts, 1000, 600);
    prometheus.until("weir_sense_state == 1");
    assert!(!prometheus.firing().contains("WeirGatewaySilent"));
    prometheus.until_fire(&["WeirCustomersPoor"]);
    let mut drawn = prometheus.drawn();
    bounces(0);
    prometheus.until_fire(&["WeirGatewaySilent", "WeirProbesLost"]);
    for (expression, series) in prometheus.drawn() {
        let most = drawn.entry(expression).or_default();
        *most = series.max(*most);
    }
    flood.end();
    load.end();
    let empty: Vec<_> = drawn.iter().filter(|(_, series)| **series == 0).map(|(asked, _)| asked).collect();
    // Nor does the set point move under a flood that fills the link and heeds no signal.
    let expected =
        |asked: &String| OF_USER_PLANE.iter().chain(&["queue_moves"]).any(|name| asked.contains(name));
    let wrong: Vec<_> = empty.iter().filter(|asked| !expected(asked)).collect();
    assert!(drawn.len() > 40 && wrong.is_empty(), "{wrong:?} of {}", drawn.len());
    say(format!("{} of {} expressions of the dashboard have series", drawn.len() - empty.len(), drawn.len()));
    assert_eq!(weir.interrupt().code, Some(0));
}
