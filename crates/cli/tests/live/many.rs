//! Many links in one `weir run`: each is by itself, although they share a process and a packet loop.
//!
//! These tests need root; without it they say so and pass.

use crate::common::*;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_dataplane::{DirectionSetup, Ended, Handle, Loop, Setup, SharedLoop};
use weir_lab::{NsChild, SpawnOptions, Testbed, in_netns, spawn_in};

const METRICS: &str = "127.0.0.1:9461";

/// Pairs of ports in the bottleneck, each between two end hosts of its own. No other test of this file, which
/// may run beside, has ports of these names: `weir ctl` knows links by them, whatever their namespace.
struct Pairs {
    testbed: Testbed,
    count: usize,
    folder: Folder,
    mark: char,
}

impl Pairs {
    fn new(count: usize) -> Pairs {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        // Short, as a live view has little room.
        let mark = char::from(b'c' + COUNT.fetch_add(1, Ordering::Relaxed));
        let pairs = Pairs { testbed: testbed(), count, folder: Folder::new(), mark };
        let testbed = &pairs.testbed;
        let hosts = [("a", "s", testbed.sender(), 1), ("b", "r", testbed.receiver(), 2)];
        for number in 0..count {
            for (port, end, host, last) in hosts {
                let (port, end) = (pairs.port(port, number), format!("{end}{number}"));
                let add = ["link", "add", &port, "type", "veth", "peer", "name", &end, "netns", host];
                exec(testbed.bottleneck(), "ip", &add);
                exec(testbed.bottleneck(), "ip", &["link", "set", &port, "up"]);
                exec(host, "ip", &["address", "add", &format!("10.88.{number}.{last}/24"), "dev", &end]);
                exec(host, "ethtool", &["-K", &end, "tx", "off"]);
                exec(host, "ip", &["link", "set", &end, "up"]);
            }
        }
        pairs
    }

    /// The name of a port.
    fn port(&self, side: &str, number: usize) -> String {
        format!("{side}{}{number}", self.mark)
    }

    /// The name of a link.
    fn title(&self, number: usize) -> String {
        format!("{} <-> {}", self.port("a", number), self.port("b", number))
    }

    /// Waits until packets of these links are told: one address tells of all, and of each as it was a moment
    /// ago.
    fn are_told_by_metrics(&self, numbers: &[usize]) {
        for title in numbers.iter().map(|number| self.title(*number)) {
            let sample =
                format!("weir_link_delivered_packets_total{{link=\"{title}\",direction=\"a_to_b\"}} ");
            until(&format!("metrics tell packets of {title}"), || {
                let metrics = self.metrics();
                let line = metrics.lines().find_map(|line| line.strip_prefix(&sample));
                line.is_some_and(|count| count.parse::<u64>().unwrap() > 0)
            });
        }
    }

    fn metrics(&self) -> String {
        in_netns(self.testbed.bottleneck(), || http(METRICS, "/metrics")).unwrap()
    }

    fn states(&self) -> Vec<String> {
        let ports = (0..self.count).flat_map(|number| ["a", "b"].map(|side| self.port(side, number)));
        ports.map(|port| state(self.testbed.bottleneck(), &port)).collect()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number}.toml"))
    }

    fn write(&self, number: usize, rate: &str) {
        let [a, b] = ["a", "b"].map(|side| self.port(side, number));
        let text = format!(
            "[ports]\na = \"{a}\"\nb = \"{b}\"\n[run]\nmetrics = \"{METRICS}\"\n\
             [a_to_b]\nrate = \"{rate}\"\naqm = {{ name = \"gsp\" }}\npolicy = {{ target_max = \"30ms\" }}\n"
        );
        fs::write(self.file(number), text).unwrap();
    }

    /// Starts the program with the links of these numbers, and waits until so many are open.
    fn start(&self, numbers: &[usize], more: &[&str]) -> Many {
        let create = |name: &str| fs::File::create(self.folder.path().join(name)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["--json", "run"]).args(more).args(numbers.iter().map(|number| self.file(*number)));
        command.stdin(Stdio::null()).stdout(create("out")).stderr(create("err"));
        let child = spawn_in(self.testbed.bottleneck(), command, &SpawnOptions::default()).unwrap();
        Many { child, folder: self.folder.path().to_path_buf() }
    }
}

/// How many links were opened, by what was said: of each its name, and then the same with both ports' mode.
fn opened(errors: &str) -> usize {
    errors.lines().filter(|line| line.contains(": AF_") && line.matches(" <-> ").count() == 2).count()
}

/// A `weir run` of several links.
struct Many {
    child: NsChild,
    folder: PathBuf,
}

impl Many {
    fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("err")).unwrap()
    }

    /// Waits until so many links are open.
    fn opened(self, count: usize) -> Many {
        let told = || format!("all links are open: {}", self.errors());
        until_or(told, || opened(&self.errors()) >= count);
        until("all links answer", || self.titles().len() == count);
        self
    }

    /// Titles of the links that answer under the number of this process.
    fn titles(&self) -> Vec<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let pid = self.child.pid().to_string();
        let output = command.args(["--json", "ctl", "--link", &pid, "status"]).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let links = told["links"].as_array().cloned().unwrap_or_default();
        links.iter().map(|link| link["title"].as_str().unwrap().to_string()).collect()
    }

    fn ended(mut self) -> (Option<i32>, serde_json::Value, String) {
        let status = self.child.wait_until(Instant::now() + PATIENCE).unwrap();
        let status = status.unwrap_or_else(|| panic!("still running: {}", self.errors()));
        let out = fs::read_to_string(self.folder.join("out")).unwrap();
        let json = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}: {}", self.errors()));
        (status.code(), json, self.errors())
    }
}

/// TCP that fills each link; counts what arrives.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    received: Vec<Arc<AtomicU64>>,
}

impl Load {
    fn begin(pairs: &Pairs) -> Load {
        let mut load = Load { stop: Arc::default(), threads: Vec::new(), received: Vec::new() };
        for number in 0..pairs.count {
            let to = format!("10.88.{number}.2:9000");
            let listener = in_netns(pairs.testbed.receiver(), || TcpListener::bind(&to)).unwrap().unwrap();
            let mut sending = in_netns(pairs.testbed.sender(), || TcpStream::connect(&to)).unwrap().unwrap();
            let (mut receiving, _) = listener.accept().unwrap();
            sending.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            receiving.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let received = Arc::new(AtomicU64::new(0));
            load.received.push(received.clone());
            load.run(move |data| drop(sending.write(data)));
            load.run(move |data| {
                received.fetch_add(receiving.read(data).unwrap_or(0) as u64, Ordering::Relaxed);
            });
        }
        load
    }

    fn run(&mut self, mut step: impl FnMut(&mut [u8]) + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            let mut data = vec![0; 16 << 10];
            while !stop.load(Ordering::Relaxed) {
                step(&mut data);
            }
        }));
    }

    /// Waits until something more has come through each of these links.
    fn passes(&self, when: &str, numbers: &[usize]) {
        let count = |number: usize| self.received[number].load(Ordering::Relaxed);
        let before: Vec<u64> = numbers.iter().map(|number| count(*number)).collect();
        until(&format!("all forward {when}"), || {
            numbers.iter().zip(&before).all(|(number, before)| count(*number) > before + 100_000)
        });
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Packet loops of a process, by the names of their threads.
fn loops(pid: u32) -> usize {
    threads(pid).iter().filter(|thread| thread["Name"] == "weir-loop").count()
}

#[test]
fn eight_links_on_one_loop_fail_change_and_end_each_by_itself() {
    let Some(_turn) = turn_beside_others() else { return };
    let pairs = Pairs::new(8);
    (0..8).for_each(|number| pairs.write(number, "8Mbit/s"));
    let before = pairs.states();
    let all: Vec<usize> = (0..8).collect();
    let weir = pairs.start(&all, &[]).opened(8);
    let expected: Vec<String> = (0..8).map(|number| pairs.title(number)).collect();
    assert_eq!(weir.titles(), expected, "{}", weir.errors());
    until("all are on one loop", || loops(weir.child.pid()) == 1);
    let load = Load::begin(&pairs);
    load.passes("through one loop", &all);
    pairs.are_told_by_metrics(&all);
    // A configuration that is refused, and one that is taken.
    pairs.write(5, "9Mbit/s");
    pairs.write(6, "nothing");
    let (code, told) = ctl_of(&pairs.port("a", 6), &["reload"]);
    let refused = &told["links"][0]["refused"]["problems"][0];
    assert_eq!((code, refused["line"].as_u64()), (1, Some(7)), "{told}");
    let (code, told) = ctl_of(&pairs.port("b", 5), &["reload"]);
    assert_eq!(code, 0, "{told}");
    let rate = |number: &usize| {
        let (_, told) = ctl_of(&pairs.port("a", *number), &["status"]);
        told["links"][0]["directions"][0]["rate_bps"].as_f64()
    };
    let rates: Vec<_> = all.iter().map(rate).collect();
    assert_eq!(rates, [8e6, 8e6, 8e6, 8e6, 8e6, 9e6, 8e6, 8e6].map(Some));
    load.passes("after a change", &all);
    // How the loop waits, which all links share, is not changed unseen by the file of one.
    let calm = fs::read_to_string(pairs.file(5)).unwrap();
    fs::write(pairs.file(5), format!("{calm}[host]\npoll = \"busy\"\n")).unwrap();
    let (code, told) = ctl_of(&pairs.port("a", 5), &["reload"]);
    let refused = &told["links"][0]["refused"]["problems"][0];
    assert_eq!((code, refused["key"].as_str()), (1, Some("host.poll")), "{told}");
    assert!(refused["remedy"].as_str().unwrap().contains("--takeover"), "{told}");
    fs::write(pairs.file(5), calm).unwrap();
    // A port vanishes.
    let third = pairs.port("a", 3);
    exec(pairs.testbed.bottleneck(), "ip", &["link", "delete", &third]);
    until("the link without a port is gone", || weir.titles().len() == 7);
    let left = [0, 1, 2, 4, 5, 6, 7];
    load.passes("after a port vanished", &left);
    let failed = format!("{}: failed: interface `{third}` vanished", pairs.title(3));
    // Another thread than that of the socket says so.
    until(&failed, || weir.errors().contains(&failed));
    // One ends, and the kernel forwards there.
    let (code, told) = ctl_of(&pairs.port("a", 7), &["drain"]);
    assert_eq!(code, 0, "{told}");
    until("the drained link is gone", || weir.titles().len() == 6);
    load.passes("after one was drained", &left);
    until("the metrics tell no more of the drained link", || {
        let metrics = pairs.metrics();
        assert!(metrics.contains(&pairs.title(3)), "{metrics}");
        !metrics.contains(&pairs.title(7))
    });
    // Another process takes one of them.
    let other =
        fs::read_to_string(pairs.file(0)).unwrap().replace("[run]", "[host]\npoll = \"sleep\"\n[run]");
    let other = other.replace(&format!("metrics = \"{METRICS}\"\n"), "");
    let other = Weir::start_with(pairs.testbed.bottleneck(), &other, &["--takeover"]);
    until("the link that was taken over is gone", || weir.titles().len() == 5);
    load.passes("after another process took one over", &left);
    assert_eq!(other.interrupt().code, Some(0));
    let mut weir = weir;
    weir.child.signal(libc::SIGKILL).unwrap();
    sleep(Duration::from_millis(700));
    // The end of the other process put the ports of its link back, which cut the wire.
    load.passes("after it was killed", &left[1..]);
    drop(weir);
    // A start takes over what a killed run left; the end puts all back.
    pairs.write(6, "8Mbit/s");
    let weir = pairs.start(&left, &["--loops", "3"]).opened(7);
    until("there are three loops", || loops(weir.child.pid()) == 3);
    load.passes("after a new start", &left);
    // What the kernel forwarded before may still be read by the receivers.
    pairs.are_told_by_metrics(&left);
    let mut weir = weir;
    weir.child.signal(libc::SIGINT).unwrap();
    let (code, told, errors) = weir.ended();
    assert_eq!((code, told["runs"].as_array().map(Vec::len)), (Some(0), Some(7)), "{told}: {errors}");
    for run in told["runs"].as_array().unwrap() {
        assert!(run["summary"]["links"][0]["packets"].as_u64().unwrap() > 0, "{run}");
    }
    drop(load);
    assert_eq!(journals(pairs.testbed.bottleneck()), [] as [PathBuf; 0]);
    let survivors = |states: Vec<String>| -> Vec<String> {
        let of_three = |at: &usize| at / 2 != 3;
        (0..states.len()).filter(of_three).map(|at| states[at].clone()).collect()
    };
    exec(pairs.testbed.bottleneck(), "ip", &["link", "add", &third, "type", "veth", "peer", "name", "gone"]);
    assert_eq!(survivors(pairs.states()), survivors(before));
}

#[test]
fn links_that_cannot_start_leave_the_others_alone_and_files_in_each_others_way_are_refused() {
    let Some(_turn) = turn_beside_others() else { return };
    let pairs = Pairs::new(2);
    (0..3).for_each(|number| pairs.write(number, "8Mbit/s"));
    // There are no ports of the third.
    let weir = pairs.start(&[2, 0, 1], &["--set", "run.duration=2s"]);
    let (code, told, errors) = weir.ended();
    assert_eq!((code, opened(&errors)), (Some(1), 2), "{errors}");
    let runs = told["runs"].as_array().unwrap();
    assert!(
        runs[0]["error"].as_str().unwrap().contains(&format!("no interface `{}`", pairs.port("a", 2))),
        "{told}"
    );
    assert!(runs[1]["error"].is_null() && runs[2]["summary"]["links"].is_array(), "{told}");
    let failed = format!("{}: failed: there is no interface", pairs.title(2));
    assert!(errors.contains(&failed), "{errors}");
    // What is wrong with one file is told before anything is touched.
    let same = fs::read_to_string(pairs.file(1)).unwrap().replace(&pairs.port("b", 1), &pairs.port("a", 0));
    fs::write(pairs.file(1), same).unwrap();
    let (code, told, _) = pairs.start(&[0, 1], &[]).ended();
    let error = told["error"].as_str().unwrap();
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("1.toml:3: key `ports.b`") && error.contains("0.toml"), "{error}");
}

/// On a terminal (made by `script`) each link has a line, and the keys say which is shown in full.
#[test]
fn several_links_have_a_live_view_together() {
    let Some(_turn) = turn_beside_others() else { return };
    if Command::new("script").arg("--version").output().is_err() {
        return crate::skipping::skipped("`script` is not installed");
    }
    let pairs = Pairs::new(2);
    (0..2).for_each(|number| pairs.write(number, "8Mbit/s"));
    let program = env!("CARGO_BIN_EXE_weir");
    let files = [0, 1].map(|number| pairs.file(number).display().to_string()).join("' '");
    let line = format!("stty rows 24 cols 100; '{program}' run '{files}'; echo \"status=$?\"");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn_in(pairs.testbed.bottleneck(), command, &SpawnOptions::default()).unwrap();
    let mut screen = child.child_mut().stdout.take().unwrap();
    let mut keys = child.child_mut().stdin.take().unwrap();
    // What was sent, and what a terminal shows of it: cells that stay as they are, are not sent again.
    let kept = Arc::new(std::sync::Mutex::new((String::new(), vt100::Parser::new(24, 100, 0))));
    let seen = kept.clone();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            let (sent, terminal) = &mut *kept.lock().unwrap();
            sent.push_str(&String::from_utf8_lossy(&bytes[..count]));
            terminal.process(&bytes[..count]);
        }
    });
    let shows_all = |texts: &[&str]| {
        let begun = Instant::now();
        loop {
            let shown = seen.lock().unwrap().1.screen().contents();
            let shown = shown.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
            if texts.iter().all(|text| shown.contains(text)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{texts:?} are not shown:\n{shown}");
            sleep(Duration::from_millis(10));
        }
    };
    let [first, second] = [0, 1].map(|number| pairs.title(number));
    shows_all(&[&format!("> {first}"), &format!("\n  {second}"), "another link (1 of 2)"]);
    let load = Load::begin(&pairs);
    shows_all(&["set point"]);
    keys.write_all(b"\x1b[B").unwrap();
    shows_all(&[&format!("  {first}"), &format!("\n> {second}"), "another link (2 of 2)"]);
    // One that ends leaves the screen to the others.
    let (code, told) = ctl_of(&pairs.port("a", 0), &["drain"]);
    assert_eq!(code, 0, "{told}");
    shows_all(&[&format!("  ended\n> {second}")]);
    drop(load);
    keys.write_all(b"q").unwrap();
    shows_all(&["status=0"]);
    let status = child.wait_until(Instant::now() + PATIENCE).unwrap();
    assert!(status.is_some_and(|status| status.success()));
    reader.join().unwrap();
    // What was said meanwhile, and the results of both, stand below the screen.
    let (seen, _) = &*seen.lock().unwrap();
    let (_, after) = seen.rsplit_once("\x1b[?1049l").unwrap();
    assert!(after.contains(&format!("{first}: drain by")), "{after}");
    assert!(after.contains(&second) && seen.matches("\x1b[?1049h").count() == 1, "{after}");
}

/// Two links of a process on one loop, without a program around it.
fn together(pairs: &Pairs) -> (Vec<Handle>, Vec<Ended>, Vec<Arc<AtomicBool>>, JoinHandle<()>) {
    let (opened, opening) = mpsc::channel();
    let namespace = pairs.testbed.bottleneck().to_string();
    let ports = [0, 1].map(|number| ["a", "b"].map(|side| pairs.port(side, number)));
    let thread = std::thread::spawn(move || {
        let direction = |name| DirectionSetup::new(name, weir_config::Channel::unshaped());
        let open = |[a, b]: [String; 2]| {
            Loop::open(Setup::in_namespace([&a, &b], [direction("there"), direction("back")])).unwrap()
        };
        let links = in_netns(&namespace, || ports.map(open)).unwrap();
        let stops: Vec<Arc<AtomicBool>> = vec![Arc::default(), Arc::default()];
        let (loops, handles): (Vec<Loop>, Vec<Handle>) = links.into_iter().unzip();
        let (shared, ends) = SharedLoop::new(loops.into_iter().zip(stops.clone()));
        opened.send((handles, ends, stops)).unwrap();
        // Interfaces are put back where they are.
        in_netns(&namespace, || shared.run()).unwrap();
    });
    let (handles, ends, stops) = opening.recv().unwrap();
    (handles, ends, stops, thread)
}

#[test]
fn a_panic_of_one_link_leaves_it_to_the_kernel_and_the_others_alone() {
    let Some(_turn) = turn_beside_others() else { return };
    let pairs = Pairs::new(2);
    let (mut handles, ends, stops, thread) = together(&pairs);
    let load = Load::begin(&pairs);
    load.passes("at first", &[0, 1]);
    // There is no third direction, which nobody but a broken program asks for.
    assert!(handles[0].users(2, 0, &mut Vec::new(), PATIENCE).is_err());
    let told = ends[0].recv_timeout(PATIENCE).unwrap().unwrap_err().to_string();
    assert!(told.contains("the packet loop panicked. The kernel forwards"), "{told}");
    load.passes("after a panic", &[0, 1]);
    until("the other turns, and says so", || handles[1].now().is_some());
    stops[1].store(true, Ordering::Relaxed);
    let ended = ends[1].recv_timeout(PATIENCE).unwrap();
    assert!(ended.is_ok(), "{:?}", ended.err());
    thread.join().unwrap();
}
