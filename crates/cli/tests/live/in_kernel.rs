//! `weir run --in-kernel` at the egress of a veth, in namespaces of its own.

use crate::common::{PATIENCE, Started, exec, http, status_of, turn_beside_others as turn, until};
use crate::steer::{Busy, assert_rights, ended};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_config::Document;
use weir_dataplane::privileges;
use weir_kernel::{Egress, EgressError, EgressSetup, Journal, Kernel, Link, restore_dead};
use weir_lab::in_netns;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const CONFIG: &str = "ports = { a = \"d1\", b = \"d0\" }\n[a_to_b]\nrate = \"8Mbit/s\"\naccounting = \"frame\"\n\
    aqm = { name = \"gsp\" }\npolicy = { utilization_low = \"94%\", utilization_target = \"95%\" }\n";

/// A busy interface without a shaper, and the configuration in a file.
struct Place {
    busy: Busy,
    file: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let file = std::env::temp_dir().join(format!("weir-in-kernel-{name}-{}.toml", std::process::id()));
        std::fs::write(&file, CONFIG).unwrap();
        Place { busy: Busy::with(name, &[]), file }
    }

    fn start(&self, words: &[&str]) -> Started {
        self.start_as("--in-kernel", words)
    }

    fn start_as(&self, what: &str, words: &[&str]) -> Started {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.busy.namespace, WEIR, "--json", "run"]).arg(&self.file);
        command.arg(what).args(words);
        Started::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// The filters where packets leave.
    fn filters(&self) -> String {
        self.busy.tc("filter show dev d0 egress")
    }

    /// The queues, the filters and the offloads.
    fn all(&self) -> String {
        let offloads = exec(&self.busy.namespace, "ethtool", &["-k", "d0"]);
        assert!(offloads.contains("tcp-segmentation-offload: on"), "{offloads}");
        self.busy.tc("qdisc show dev d0") + &self.filters() + &offloads
    }

    /// What clsact counted: packets that passed it, and those that a program dropped.
    fn counted(&self) -> (u64, u64) {
        let all: Value = serde_json::from_str(&self.busy.tc("-s -j qdisc show dev d0")).unwrap();
        let clsact = all.as_array().unwrap().iter().find(|qdisc| qdisc["kind"] == "clsact");
        let clsact = clsact.unwrap_or_else(|| panic!("{all}"));
        (clsact["packets"].as_u64().unwrap(), clsact["drops"].as_u64().unwrap())
    }

    fn attached(&self) {
        let start = Instant::now();
        while !self.filters().contains("virtual_queue") {
            assert!(start.elapsed() < PATIENCE, "{}", self.all());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Waits until a program can be asked, which is soon after its own queue or program is in place.
fn answers(running: &Child) {
    until("it answers", || status_of(running.id()).is_some());
}

/// Sends a signal to a process.
fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_kernel_keeps_the_virtual_queue_within_the_policy_until_the_end() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("kernel");
    let found = place.all();
    for end in ["-INT", "-TERM"] {
        let running = place.start(&[]);
        place.attached();
        // Another one is refused while it lives.
        let (status, second, _) = ended(place.start(&[]));
        assert_eq!(status, Some(1), "{second}");
        let error = second["error"].as_str().unwrap();
        assert!(error.contains("keeps a virtual queue at d0 already"), "{second}");
        // Queues and offloads are as they were but for the program and what holds it.
        let now = place.all();
        let is_ours = |line: &&str| line.contains("clsact") || line.contains(" bpf ");
        let rest = now.lines().filter(|line| !is_ours(line)).collect::<Vec<_>>();
        assert_eq!(rest, found.lines().collect::<Vec<_>>());
        // Twice as much as the link carries: signals are sure to come.
        until("something is dropped", || place.counted().1 > 0);
        std::thread::sleep(Duration::from_millis(1500));
        assert_rights(running.id(), privileges::QUEUES.bitmask() | privileges::PROGRAMS.bitmask());
        signal(&running, end);
        let (status, result, said) = ended(running);
        assert_eq!(status, Some(0), "{said}");
        let egress = &result["egress"][0];
        assert_eq!(
            (&egress["interface"], &egress["rate_bps"]),
            (&"d0".into(), &8_000_000.into()),
            "{result}"
        );
        assert!(egress["packets"].as_u64() > Some(0) && egress["left"].is_null(), "{result}");
        // What is not ECN-capable is dropped.
        assert!(egress["signals"].as_u64() > Some(0) && egress["signals"] == egress["drops"], "{result}");
        // Within the policy.
        let virtual_bps = egress["virtual_bps"].as_u64().unwrap();
        let target_ms = egress["target_ms"].as_f64().unwrap();
        assert!((7_600_000..=8_000_000).contains(&virtual_bps), "{result}");
        assert!((0.2..=30.0).contains(&target_ms), "{result}");
        // The law moves where more comes than it aims at, which a sender that gets little of the machine may
        // not reach.
        let average_bps = egress["average_bps"].as_u64().unwrap();
        assert!(average_bps <= 7_600_000 || egress["moves"].as_u64() > Some(0), "{result}");
        assert_eq!(place.all(), found, "after {end}");
    }
}

#[test]
fn it_is_looked_at_and_held_to_another_policy_and_rate_while_it_runs() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("asked");
    exec(&place.busy.namespace, "ip", &["link", "set", "lo", "up"]);
    let found = place.all();
    let running = place.start(&["--set", "run.metrics=127.0.0.1:9478"]);
    place.attached();
    let asked = |words: &[&str]| crate::common::ctl(running.id(), words);
    until("it delivers", || {
        let told = status_of(running.id());
        told.is_some_and(|told| told.directions.first().is_some_and(|there| there.delivered_bps > 1e6))
    });
    let (code, told) = asked(&["status"]);
    let there = &told["links"][0]["directions"][0];
    assert_eq!((code, there["name"].as_str()), (0, Some("a_to_b")), "{told}");
    assert_eq!(there["policy"]["utilization_target"], 0.95, "{told}");
    assert!(there["table_state"].as_u64() > Some(0), "{told}");
    let (code, told) = asked(&["policy", "utilization_target=60%", "utilization_low=59%"]);
    assert_eq!(code, 0, "{told}");
    assert!(told["links"][0]["applied"]["at_s"].is_number(), "{told}");
    // Twice as much as the link carries comes: the law takes the virtual queue below the bound of before.
    let begun = Instant::now();
    let virtual_bps = || {
        let (_, told) = asked(&["status"]);
        told["links"][0]["directions"][0]["virtual_rate_bps"].as_f64().unwrap()
    };
    while virtual_bps() > 7_500_000.0 {
        assert!(begun.elapsed() < PATIENCE, "{}", asked(&["status"]).1);
        std::thread::sleep(Duration::from_millis(100));
    }
    // A higher rate, with other parameters: the virtual queue keeps its share at once, and more passes.
    let (code, told) = asked(&["set", "a_to_b.rate=80Mbit/s", "a_to_b.aqm.interval=50ms"]);
    assert_eq!((code, told["links"][0]["applied"]["changed"].as_array().unwrap().len()), (0, 2), "{told}");
    let (_, told) = asked(&["status"]);
    let there = &told["links"][0]["directions"][0];
    assert_eq!((&there["rate_bps"], &there["rate_key"]), (&80e6.into(), &"a_to_b.rate".into()), "{told}");
    assert!((48e6..=80e6).contains(&there["virtual_rate_bps"].as_f64().unwrap()), "{told}");
    let begun = Instant::now();
    let delivered_bps = || {
        let (_, told) = asked(&["status"]);
        told["links"][0]["directions"][0]["delivered_bps"].as_f64().unwrap()
    };
    while delivered_bps() < 9e6 {
        assert!(begun.elapsed() < PATIENCE, "{}", asked(&["status"]).1);
        std::thread::sleep(Duration::from_millis(100));
    }
    for (set, key) in [
        ("a_to_b.buffer=90ms", "a_to_b.buffer"),
        ("a_to_b.accounting=ip", "a_to_b.accounting"),
        ("run.duration=9s", "run.duration"),
    ] {
        let (code, told) = asked(&["set", "a_to_b.rate=9Mbit/s", set]);
        let refused = &told["links"][0]["refused"];
        assert_eq!((code, refused["problems"][0]["key"].as_str()), (1, Some(key)), "{told}");
        assert!(refused["error"].as_str().unwrap().contains("--in-kernel"), "{told}");
    }
    // What does not fit the program is refused with its remedy, and nothing of it is in force.
    let (code, told) = asked(&["set", "a_to_b.rate=9Mbit/s", "a_to_b.aqm.adaptive=false"]);
    assert!(code == 1 && told.to_string().contains("give true"), "{told}");
    let (_, told) = asked(&["status"]);
    assert_eq!(told["links"][0]["directions"][0]["rate_bps"], 80e6, "{told}");
    let (code, told) = asked(&["policy", "utilization_target=100%"]);
    assert_eq!(code, 1, "{told}");
    assert!(told.to_string().contains("a_to_b.policy.utilization_target"), "{told}");
    assert!(told.to_string().contains("give less than 100%"), "{told}");
    assert_rights(running.id(), privileges::QUEUES.bitmask() | privileges::PROGRAMS.bitmask());
    let metrics = in_netns(&place.busy.namespace, || http("127.0.0.1:9478", "/metrics")).unwrap();
    assert!(metrics.contains("weir_policy_utilization_target_ratio"), "{metrics}");
    let (code, told) = asked(&["drain"]);
    assert_eq!(code, 0, "{told}");
    let (status, result, said) = ended(running);
    assert_eq!(status, Some(0), "{said}");
    assert!(result["egress"][0]["moves"].as_u64() > Some(0), "{result}");
    assert_eq!(place.all(), found);
}

#[test]
fn after_a_kill_every_packet_passes_and_the_next_start_takes_the_program_off() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("killed");
    let found = place.all();
    let mut killed = place.start(&[]);
    place.attached();
    until("something is dropped", || place.counted().1 > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    // Once nobody has looked for a second, nothing is dropped any more.
    std::thread::sleep(Duration::from_millis(1200));
    let before = place.counted();
    std::thread::sleep(Duration::from_millis(500));
    until("packets pass", || place.counted().0 > before.0 + 50);
    assert_eq!(place.counted().1, before.1, "dropped");
    let (status, _, said) = ended(place.start(&["--set", "run.duration=200ms"]));
    let told = "after a killed run: d0: took the virtual queue off";
    assert!(status == Some(0) && said.contains(told), "{said}");
    assert_eq!(place.all(), found);

    // Who uses the qdisc that the killed one made keeps it.
    let mut killed = place.start(&[]);
    place.attached();
    killed.kill().unwrap();
    killed.wait().unwrap();
    place.busy.tc("filter add dev d0 ingress protocol ip prio 7 u32 match u32 0 0 flowid 1:1");
    let (status, _, said) = ended(place.start(&["--set", "run.duration=200ms"]));
    assert!(status == Some(0) && said.contains(told), "{said}");
    assert!(place.busy.tc("filter show dev d0 ingress").contains("u32"), "{}", place.all());
    place.busy.tc("qdisc del dev d0 clsact");
    assert_eq!(place.all(), found);
}

#[test]
fn it_stays_where_that_is_asked_for_and_what_others_have_there_stays() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("stays");
    place.busy.tc("qdisc add dev d0 clsact");
    place.busy.tc("filter add dev d0 egress protocol arp prio 7 u32 match u32 0 0 flowid 1:1");
    let found = place.all();
    let (status, _, said) = ended(place.start(&["--set", "run.duration=200ms"]));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(place.all(), found);

    let (status, result, said) = ended(place.start(&["--keep", "--set", "run.duration=200ms"]));
    assert_eq!((status, &result["kept"]), (Some(0), &true.into()), "{said}");
    assert!(place.filters().contains("virtual_queue") && place.filters().contains("u32"));
    // The next one takes its place, and its leave.
    let running = place.start(&[]);
    answers(&running);
    place.busy.tc("filter del dev d0 egress prio 22358");
    let (status, result, said) = ended(running);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        result["egress"][0]["left"].as_str().unwrap().contains("somebody took its program away"),
        "{result}"
    );
    assert_eq!(place.all(), found);
}

/// The kernel, where something happens when it is asked about queues: the first time after it was looked who
/// else is there, and before anything was noted; the second time with the program in place.
struct Meanwhile<F: FnMut(u32) -> Result<(), weir_tc::Error>> {
    link: Link,
    asked: u32,
    happens: F,
}

impl<F: FnMut(u32) -> Result<(), weir_tc::Error>> Meanwhile<F> {
    fn new(happens: F) -> Meanwhile<F> {
        Meanwhile { link: Link::open().unwrap(), asked: 0, happens }
    }
}

impl<F: FnMut(u32) -> Result<(), weir_tc::Error>> Kernel for Meanwhile<F> {
    fn interfaces(&mut self) -> Result<Vec<weir_tc::Interface>, weir_tc::Error> {
        Kernel::interfaces(&mut self.link)
    }

    fn disciplines(&mut self, interface: i32) -> Result<Vec<weir_tc::Message>, weir_tc::Error> {
        self.asked += 1;
        (self.happens)(self.asked)?;
        Kernel::disciplines(&mut self.link, interface)
    }

    fn classes(&mut self, interface: i32) -> Result<Vec<weir_tc::Message>, weir_tc::Error> {
        Kernel::classes(&mut self.link, interface)
    }

    fn has_filters(&mut self, interface: i32) -> Result<bool, weir_tc::Error> {
        self.asked += 1;
        (self.happens)(self.asked)?;
        Kernel::has_filters(&mut self.link, interface)
    }

    fn change(&mut self, message: &weir_tc::Message) -> Result<(), weir_tc::Error> {
        Kernel::change(&mut self.link, message)
    }

    fn make(&mut self, message: &weir_tc::Message) -> Result<(), weir_tc::Error> {
        Kernel::make(&mut self.link, message)
    }
}

/// A folder for journals, and the setup of a virtual queue at the egress of `d0` of a place.
fn to_attach(place: &Place, name: &str) -> (PathBuf, EgressSetup) {
    let folder = std::env::temp_dir().join(format!("weir-in-kernel-{name}-{}", std::process::id()));
    let config = Document::load(&place.file).unwrap().run_config().unwrap();
    (folder, EgressSetup::of("a_to_b", &config.a_to_b, "d0", false, false).unwrap().unwrap())
}

#[test]
fn what_fails_with_the_program_in_place_takes_it_off_again_or_leaves_a_note() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("midway");
    let found = place.all();
    let (folder, setup) = to_attach(&place, "midway");
    let attach = |fails: fn(u32) -> bool| {
        let mut kernel = Meanwhile::new(|asked| {
            let refused = || std::io::Error::from_raw_os_error(libc::ENOBUFS);
            if fails(asked) { Err(refused().into()) } else { Ok(()) }
        });
        let mut journal = Journal::open(&folder).unwrap();
        let attached = Egress::attach(setup.clone(), &mut kernel, &mut journal, weir_dataplane::clock());
        journal.started();
        (attached.err().expect("it fails"), journal)
    };
    weir_lab::in_netns(&place.busy.namespace, || {
        let (error, journal) = attach(|asked| asked == 2);
        assert!(!matches!(error, EgressError::NotPutBack { .. }), "{error}");
        assert_eq!(place.all(), found);
        journal.remove();

        // The kernel does not say either whether the clsact qdisc that was made has filters of others.
        let (error, journal) = attach(|asked| asked >= 2);
        assert!(matches!(error, EgressError::NotPutBack { .. }), "{error}");
        assert_ne!(place.all(), found);
        drop(journal);
        // What cannot be put back either is told, and tried again.
        let refuses = |_| Err(std::io::Error::from_raw_os_error(libc::ENOBUFS).into());
        let said = restore_dead(&folder, &mut Meanwhile::new(refuses));
        assert!(said.len() == 1 && said[0].text().contains("NOT taken the virtual queue off"), "{said:?}");
        assert_eq!(restore_dead(&folder, &mut Link::open().unwrap()), Vec::new());
        assert_eq!(place.all(), found);
    })
    .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn of_two_that_start_at_once_one_attaches_and_the_other_is_told() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("once");
    let found = place.all();
    let (folder, setup) = to_attach(&place, "once");
    let start = |kernel: &mut dyn Kernel| {
        let mut journal = Journal::open(&folder).unwrap();
        let attached = Egress::attach(setup.clone(), kernel, &mut journal, weir_dataplane::clock());
        journal.started();
        (attached, journal)
    };
    weir_lab::in_netns(&place.busy.namespace, || {
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let start = &start;
            let other = move || {
                let mut link = Link::open().unwrap();
                let (attached, journal) = start(&mut link);
                let _ = tell.send(());
                (attached.map(|mut egress| egress.end(&mut link)), journal)
            };
            let (mut other, mut second, wait) = (Some(other), None, Duration::from_millis(500));
            let mut kernel = Meanwhile::new(|_| {
                if let Some(other) = other.take() {
                    second = Some(scope.spawn(other));
                    let _ = told.recv_timeout(wait);
                }
                Ok(())
            });
            let (first, journal) = start(&mut kernel);
            let mut first = first.unwrap();
            drop(kernel);
            let (second, other_journal) = second.unwrap().join().unwrap();
            assert!(matches!(second, Err(EgressError::Rival { .. })), "both attached");
            assert!(place.filters().contains("virtual_queue"));
            assert_eq!(first.end(&mut Link::open().unwrap()), None);
            [journal, other_journal].into_iter().for_each(Journal::remove);
        });
    })
    .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(place.all(), found);
}

#[test]
fn what_the_program_cannot_do_is_refused_before_anything_is_changed() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("refused");
    let found = place.all();
    for (set, told) in [
        (
            "a_to_b.aqm.name=codel",
            "--set a_to_b.aqm.name=codel: key `a_to_b.aqm.name`: the program in the kernel has one algorithm, GSP",
        ),
        ("a_to_b.policy.utilization_target=100%", "real queue is what is managed; give less than 100%"),
        ("a_to_b.aqm.adaptive=false", "key `a_to_b.aqm.adaptive`: the program adapts its timeout; give true"),
        ("ports.b=nosuch", "there is no interface nosuch"),
        ("run.out=somewhere", "key `run.out`: results are printed at the end"),
    ] {
        let (status, result, _) = ended(place.start(&["--set", set]));
        assert_eq!(status, Some(2), "{result}");
        assert!(result["error"].as_str().unwrap().contains(told), "{result}");
    }
    assert_eq!(place.all(), found);
}

/// Puts a queue there where the kernel takes one, and says what is missing otherwise, before anything is
/// changed.
#[test]
fn a_queue_in_bpf_is_there_until_the_end_or_it_is_told_what_the_kernel_lacks() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("queue");
    let found = place.all();
    let whole =
        ["--set", "a_to_b.policy.utilization_target=100%", "--set", "a_to_b.policy.utilization_low=99%"];
    let start = || place.start_as("--in-kernel=queue", &whole);
    if let Some(missing) = weir_kernel::qdisc::missing() {
        let (status, result, _) = ended(start());
        assert_eq!((status, result["error"].as_str()), (Some(1), Some(missing.as_str())), "{result}");
        for remedy in ["CONFIG_NET_SCH_BPF", "trixie-backports", "weir steer"] {
            assert!(missing.contains(remedy), "{missing}");
        }
        assert_eq!(place.all(), found);
        println!("SKIPPED: the queue in BPF itself: {missing}");
        return;
    }
    let there = || {
        let begun = Instant::now();
        while !place.busy.tc("qdisc show dev d0").contains("weir_gsp") {
            assert!(begun.elapsed() < PATIENCE, "{}", place.all());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // What somebody set up is not lost.
    place.busy.tc("qdisc add dev d0 root handle 7: pfifo");
    let (status, result, _) = ended(start());
    assert_eq!(status, Some(2), "{result}");
    assert!(result["error"].as_str().unwrap().contains("somebody set up"), "{result}");
    place.busy.tc("qdisc del dev d0 root");
    assert_eq!(place.all(), found);
    let mut killed = start();
    there();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let running = start();
    answers(&running);
    std::thread::sleep(Duration::from_millis(1500));
    there();
    signal(&running, "-TERM");
    let (status, result, said) = ended(running);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("after a killed run: d0: took the queue in BPF off"), "{said}");
    assert!(result["egress"][0]["signals"].as_u64() > Some(0), "{result}");
    assert_eq!(place.all(), found);
}
