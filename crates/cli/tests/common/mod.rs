//! What the live tests share: the program under test, raw frames, and what the kernel says of interfaces.

pub use crate::skipping::judged::{Attempt, judged};
pub use crate::skipping::{say, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::{Read, Write};
use std::ops::{ControlFlow, Deref, DerefMut, Range};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use weir_dataplane::privileges;
use weir_lab::{
    Exclusive, NsChild, SpawnOptions, Testbed, TestbedConfig, beside_others, exclusive, host, in_netns,
    spawn_in,
};

/// Longest wait for anything that should happen at once. On a processor that ten others use, a program takes
/// seconds to start. A wait ends when what is waited for is there, so that its length costs nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_or(|| what.to_string(), is_so);
}

/// The same, where what is told if it never is so is only known then.
pub fn until_or(what: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What comes of each of these, side by side; what one panics with, the test does.
pub fn each<T: Send, R: Send>(all: impl IntoIterator<Item = T>, of: impl Fn(T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(|| of(one))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The right to be on this machine, among these tests and beside other programs. Tests that measure take
/// turns, as they share the machine's processors; those that count run side by side. At its end it says how
/// long it was held: what the runner tells of a test counts the wait for the turn too.
pub struct Turn {
    begun: Instant,
    // Given back in this order: who is let in next need not wait for the machine.
    _machine: Exclusive,
    _place: Option<Place>,
}

impl Turn {
    fn begin(machine: Result<Exclusive, weir_lab::Error>, place: Option<Place>) -> Turn {
        Turn { _machine: machine.unwrap(), _place: place, begun: Instant::now() }
    }
}

/// One of the places for tests that run side by side, three for each processor: most of their time they wait
/// for packets. The runner has more threads than that, as most of those wait for a turn.
struct Place;

/// How many places are taken, and how many tests wait for one that take longer than most.
static PLACES: Mutex<[usize; 2]> = Mutex::new([0; 2]);
static FREE: Condvar = Condvar::new();

impl Place {
    fn take(is_long: bool) -> Place {
        let most = 3 * std::thread::available_parallelism().map_or(1, usize::from);
        let mut places = PLACES.lock().expect("nothing panics that holds it");
        places[1] += usize::from(is_long);
        let has_to_wait = |[taken, long]: &mut [usize; 2]| *taken >= most || (!is_long && *long > 0);
        let mut places = FREE.wait_while(places, has_to_wait).expect("nothing panics that holds it");
        places[0] += 1;
        places[1] -= usize::from(is_long);
        FREE.notify_all();
        Place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACES.lock().expect("nothing panics that holds it")[0] -= 1;
        FREE.notify_all();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (thread, held) = (std::thread::current(), self.begun.elapsed().as_secs_f64());
        say(format!("test {}: a turn of {held:.1} s", thread.name().unwrap_or("without a name")));
    }
}

/// Waits until no other test runs; `None`, said loudly, where live tests cannot run.
pub fn turn() -> Option<Turn> {
    can_run_live().then(|| Turn::begin(exclusive(told_waiting()), None))
}

/// The same for a test that judges neither rates nor delays and changes nothing of the machine outside of
/// its namespaces: waits until none runs that does.
pub fn turn_beside_others() -> Option<Turn> {
    beside(false)
}

/// The same for a test that takes longer than most: it begins before them, so that none is left alone at
/// their end.
pub fn long_turn_beside_others() -> Option<Turn> {
    beside(true)
}

fn beside(is_long: bool) -> Option<Turn> {
    can_run_live().then(|| {
        let place = Place::take(is_long);
        Turn::begin(beside_others(told_waiting()), Some(place))
    })
}

/// Waits for as long as it takes, and says so if that is longer than all other tests of a program take.
fn told_waiting() -> impl FnMut(Duration) -> ControlFlow<()> {
    const LONG: Duration = Duration::from_secs(900);
    let mut is_told = false;
    move |waited| {
        if waited > LONG && !std::mem::replace(&mut is_told, true) {
            say("waiting for another run that measures on this machine");
        }
        ControlFlow::Continue(())
    }
}

fn can_run_live() -> bool {
    crate::skipping::can_run_live(&["ip", "tc", "ethtool"])
}

pub fn testbed() -> Testbed {
    testbed_of(1500)
}

pub fn testbed_of(mtu: u32) -> Testbed {
    Testbed::new(TestbedConfig { mtu, ..TestbedConfig::default() }).unwrap()
}

/// Runs a program inside of a namespace; its standard output.
pub fn exec(namespace: &str, program: &str, arguments: &[&str]) -> String {
    let (ok, text) = try_exec(namespace, program, arguments);
    assert!(ok, "{program} {arguments:?}: {text}");
    text
}

/// Exit status and answer of `weir ctl` to the program with this number.
pub fn ctl(pid: u32, words: &[&str]) -> (i32, serde_json::Value) {
    ctl_of(&pid.to_string(), words)
}

/// The same to the link with this port, process number or socket.
pub fn ctl_of(link: &str, words: &[&str]) -> (i32, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["--json", "ctl", "--link", link]).args(words).output().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), json.unwrap_or_else(|e| panic!("{words:?}: {e}: {output:?}")))
}

/// How the program with this number stands; none while it cannot be asked.
pub fn status_of(pid: u32) -> Option<weir_operate::Status> {
    let socket = PathBuf::from(format!("/run/weir/control-{pid}.sock"));
    weir_operate::client::Client::connect(&socket).ok()?.ask("GET", "/v1/status", None::<&()>).ok()
}

/// What is answered to a request for a page.
pub fn http(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    text.split_once("\r\n\r\n").unwrap().1.to_string()
}

/// As [`exec`]: whether it could, and what it printed.
pub fn try_exec(namespace: &str, program: &str, arguments: &[&str]) -> (bool, String) {
    let all = [&["netns", "exec", namespace, program], arguments].concat();
    let output = Command::new(host::binary("ip").unwrap()).args(all).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-run-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that does not outlive its test: killed when dropped, where it has not ended by then.
pub struct Started(Option<Child>);

const UNTIL_THE_END: &str = "who waits for its end gives it away";

impl Started {
    pub fn of(command: &mut Command) -> Started {
        Started(Some(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"))))
    }

    /// As [`Child::wait_with_output`].
    pub fn wait_with_output(mut self) -> Output {
        self.0.take().expect(UNTIL_THE_END).wait_with_output().unwrap()
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect(UNTIL_THE_END)
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect(UNTIL_THE_END)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A running `weir run --json`; killed when dropped.
pub struct Weir {
    pub child: NsChild,
    folder: Folder,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// How a warning begins that the loop waited for a processor for more than 5 % of the time.
const LOOP_STOOD: &str = "the packet loop did not turn";

impl Ended {
    /// The one JSON object on standard output.
    pub fn json(&self) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not one JSON value: {e}\n{}\n{}", self.stdout, self.stderr));
        assert!(value.is_object(), "{value}");
        value
    }

    /// Its warnings, without those of how busy this machine is, and of tags that the ends of veths keep
    /// beside frames of generic XDP.
    pub fn warnings(&self) -> Vec<String> {
        let is_expected =
            |warning: &String| warning.starts_with(LOOP_STOOD) || warning.contains("does not see VLAN tags");
        self.all_warnings().into_iter().filter(|warning| !is_expected(warning)).collect()
    }

    fn all_warnings(&self) -> Vec<String> {
        let json = self.json();
        let warnings = json["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning.as_str().unwrap().to_string()).collect()
    }

    /// Whether all packets went through the loop. The kernel forwards past one that does not turn for long,
    /// also past packets that wait.
    pub fn not_bypassed(&self) -> Result<(), String> {
        self.without(|warning| warning.contains("forwarded by the kernel past the queues"))
    }

    /// The same where it is also decided by when packets are handled, which takes a processor.
    pub fn loop_was_there(&self) -> Result<(), String> {
        self.not_bypassed().and_then(|()| self.without(|warning| warning.starts_with(LOOP_STOOD)))
    }

    fn without(&self, is_meant: impl Fn(&str) -> bool) -> Result<(), String> {
        self.all_warnings().into_iter().find(|warning| is_meant(warning)).map_or(Ok(()), Err)
    }

    /// A counter of a link's `faults`.
    pub fn fault(&self, link: usize, name: &str) -> u64 {
        let json = self.json();
        let faults = json["links"][link]["faults"].as_array().unwrap().clone();
        faults.iter().find(|f| f[0] == name).map_or(0, |f| f[1].as_u64().unwrap())
    }
}

/// The ports of every configuration here.
pub fn ports(mode: &str) -> String {
    format!("[ports]\na = \"a\"\nb = \"b\"\nmode = \"{mode}\"\n[host]\npoll = \"sleep\"\n")
}

/// The same for tests that count what the loop did to frames: the kernel forwards past a loop that does not
/// turn only after the longest time that can be set. After the usual 0.2 s it would do so whenever other work
/// keeps the loop from its processor for as long.
pub fn patient(config: &str) -> String {
    assert!(config.contains("[host]\n"), "{config}");
    config.replacen("[host]\n", "[fail_open]\nafter = \"900ms\"\n[host]\n", 1)
}

impl Weir {
    /// Starts the program without waiting for anything.
    pub fn spawn(namespace: &str, config: &str, before: &[&str]) -> Weir {
        Weir::spawn_with(namespace, config, before, &[])
    }

    /// The same with more arguments behind the file.
    pub fn spawn_with(namespace: &str, config: &str, before: &[&str], more: &[&str]) -> Weir {
        let folder = Folder::new();
        let file = folder.path().join("config.toml");
        fs::write(&file, config).unwrap();
        let weir = env!("CARGO_BIN_EXE_weir");
        let all: Vec<&str> = before.iter().copied().chain([weir, "--json", "run"]).collect();
        let mut command = Command::new(all[0]);
        let create = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
        command
            .args(&all[1..])
            .arg(&file)
            .args(more)
            .stdin(Stdio::null())
            .stdout(create("out"))
            .stderr(create("err"));
        let child = spawn_in(namespace, command, &SpawnOptions::default()).unwrap();
        Weir { child, folder }
    }

    /// Starts the program and waits until frames go through its loop.
    pub fn start(namespace: &str, config: &str) -> Weir {
        Weir::start_with(namespace, config, &[])
    }

    /// The same with more arguments.
    pub fn start_with(namespace: &str, config: &str, more: &[&str]) -> Weir {
        let mut weir = Weir::spawn_with(namespace, config, &[], more);
        let deadline = Instant::now() + PATIENCE;
        let is_open = |line: &str| line.contains(" <-> ") && line.contains(": AF_");
        // The loop's thread starts some time after the line.
        while !weir.text("err").lines().any(is_open) || !weir.is_begun() {
            let ended = weir.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "no start: {}", weir.text("err"));
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        weir
    }

    /// Whether the thread of its packet loop has no more rights than it needs: it gives the others up right
    /// before it turns.
    fn is_begun(&self) -> bool {
        let is_loop = |thread: &Thread| thread["Name"] == "weir-loop";
        threads(self.child.pid()).iter().any(|t| is_loop(t) && bits(t, "CapEff") & !rights_of_loop() == 0)
    }

    /// Waits until it has said a text; how long that took.
    pub fn until(&self, text: &str) -> Duration {
        let start = Instant::now();
        while !self.text("err").contains(text) {
            assert!(start.elapsed() < PATIENCE, "never said `{text}`:\n{}", self.text("err"));
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    }

    /// The file of its configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub fn signal(&mut self, signal: i32) {
        self.child.signal(signal).unwrap();
    }

    /// Stops it, and waits until none of its threads runs any more: one on another processor runs on for some
    /// time.
    pub fn stop(&mut self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.child.pid());
        let is_stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        let deadline = Instant::now() + PATIENCE;
        while !fs::read_dir(&tasks).unwrap().flatten().all(is_stopped) {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let status = self.child.wait_until(Instant::now() + PATIENCE).unwrap();
        let status = status.unwrap_or_else(|| panic!("still running: {}", self.text("err")));
        let ended = Ended { code: status.code(), stdout: self.text("out"), stderr: self.text("err") };
        assert!(!ended.stderr.contains("libbpf"), "a library speaks for itself: {}", ended.stderr);
        ended
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(mut self) -> Ended {
        self.signal(libc::SIGINT);
        self.wait()
    }
}

/// Longest time in which nothing came of what was sent. While nothing is sent, as the sender waits for a
/// processor, nothing is missing.
pub fn longest_gap(sent: &[Instant], seen: &[(Instant, u32)], span: &Range<Instant>) -> Duration {
    let (mut longest, mut last, mut next) = (Duration::ZERO, span.start, 0);
    let end = (span.end, u32::MAX);
    for (at, number) in seen.iter().copied().filter(|seen| seen.0 < span.end).chain([end]) {
        let missing_since = sent.get(next as usize).map_or(span.end, |sent| last.max(*sent));
        longest = longest.max(at.saturating_duration_since(missing_since));
        last = last.max(at);
        next = next.max(number.saturating_add(1));
    }
    longest
}

/// A thread: of each field of its status in `/proc` the text.
pub type Thread = BTreeMap<String, String>;

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let fields = |text: String| {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(key, value)| (key.to_string(), value.trim().to_string())).collect()
    };
    status.map(fields).collect()
}

/// A set of capabilities of a thread.
pub fn bits(thread: &Thread, key: &str) -> u64 {
    u64::from_str_radix(&thread[key], 16).unwrap()
}

/// Waits until this holds of each thread of a process, and of one with this name: each gives up its rights by
/// itself, soon after the program has said that it works.
pub fn assert_settles(pid: u32, name: &str, holds: impl Fn(&Thread) -> bool) {
    let begun = Instant::now();
    loop {
        let threads = threads(pid);
        let is_there = threads.iter().any(|thread| thread["Name"] == name);
        let wrong: Vec<_> = threads.iter().filter(|thread| !holds(thread)).collect();
        if is_there && wrong.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{name} is there: {is_there}; {wrong:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a thread has no other capabilities than these, nor may get any, and its system calls are filtered.
pub fn is_confined_to(thread: &Thread, allowed: u64) -> bool {
    let sets = ["CapEff", "CapPrm", "CapInh", "CapAmb"];
    sets.iter().all(|key| bits(thread, key) & !allowed == 0)
        && thread["NoNewPrivs"] == "1"
        && (!privileges::is_filtered_here() || thread["Seccomp"] == "2")
}

/// What the packet loop needs.
pub fn rights_of_loop() -> u64 {
    privileges::LOOP.iter().fold(0, |all, one| all | one.bitmask())
}

/// Does it anew while that comes to nothing, which gives why; after a minute the test is skipped with it.
pub fn until_decided<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Option<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return Some(done),
            Err(why) if begun.elapsed() > PATIENCE => {
                skipped(format!("undecided, as in each attempt {why}"));
                return None;
            }
            Err(why) => say(format!("undecided, as {why}: once more")),
        }
    }
}

/// Whether packets came in the order of their numbers, each once.
pub fn in_order(numbers: &[u32]) -> Result<(), String> {
    let wrong = numbers.windows(2).find(|pair| pair[0] >= pair[1]);
    wrong.map_or(Ok(()), |pair| Err(format!("packet {} came behind packet {}", pair[1], pair[0])))
}

/// Runs a link, and sends frames that all have to be there while the `first` ones are being sent, which
/// takes longer than `within`. Gives what left the link, of which so many frames are waited for, and the
/// results. A thread that waits for a processor meanwhile sends them too late: then it is undecided.
pub fn sent_at_once(
    config: &str,
    first: &[Vec<u8>],
    frames: &[Vec<u8>],
    within: Duration,
    wanted: usize,
) -> Option<(Vec<Vec<u8>>, serde_json::Value)> {
    until_decided(|| {
        let testbed = testbed();
        let sender = Raw::open(testbed.sender(), "snd0");
        let receiver = Raw::open(testbed.receiver(), "rcv0");
        let weir = Weir::start(testbed.bottleneck(), &patient(config));
        let start = Instant::now();
        first.iter().for_each(|frame| sender.send(frame));
        std::thread::sleep(Duration::from_millis(5));
        frames.iter().for_each(|frame| sender.send(frame));
        let took = start.elapsed();
        if took > within {
            weir.interrupt();
            return Err(format!("sending took {took:?}, and {within:?} are allowed"));
        }
        let got = receiver.take(wanted);
        let ended = weir.interrupt();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.not_bypassed()?;
        Ok((got, ended.json()))
    })
}

/// Starts a verb in a namespace, with its words in the files `out` and `err` of a folder, and waits until it
/// has said a text.
pub fn start_verb(namespace: &str, folder: &Folder, arguments: &[&str], says: &str) -> NsChild {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let file = folder.path().join("err");
    command.arg("--json").args(arguments).stderr(fs::File::create(&file).unwrap());
    command.stdin(Stdio::null()).stdout(fs::File::create(folder.path().join("out")).unwrap());
    let mut child = spawn_in(namespace, command, &SpawnOptions::default()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&file).unwrap().contains(says) {
        let told = fs::read_to_string(&file).unwrap();
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "{told}");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// All that a run may change of an interface, as the kernel's own tools tell it.
pub fn state(namespace: &str, port: &str) -> String {
    let link = exec(namespace, "ip", &["-d", "link", "show", "dev", port]);
    // Neither the carrier nor the queue's statistics are settings.
    let is_setting =
        |word: &&str| word.starts_with("prog") || word.contains("xdp") || word.starts_with("promiscuity");
    let words: Vec<&str> = link.split_whitespace().collect();
    let up = link.contains(",UP") || link.contains("<UP");
    let told: Vec<String> = words
        .iter()
        .enumerate()
        .filter(|(_, word)| is_setting(word))
        .map(|(i, word)| format!("{word} {}", words.get(i + 1).unwrap_or(&"")))
        .collect();
    let offloads = exec(namespace, "ethtool", &["-k", port]);
    let qdisc = exec(namespace, "tc", &["qdisc", "show", "dev", port]);
    let filters = exec(namespace, "tc", &["filter", "show", "dev", port, "ingress"]);
    format!("up {up}\n{told:?}\n{offloads}\n{qdisc}\n{filters}")
}

/// Journals on disk of a namespace.
pub fn journals(namespace: &str) -> Vec<PathBuf> {
    // The number in a journal's name may have been that of an earlier namespace.
    let cookie = in_netns(namespace, netns_cookie).unwrap();
    let Ok(entries) = fs::read_dir(weir_dataplane::JOURNALS) else { return Vec::new() };
    let is_of = |p: &PathBuf| {
        let content = fs::read(p).ok().and_then(|t| serde_json::from_slice::<serde_json::Value>(&t).ok());
        content.is_some_and(|c| c["netns_cookie"] == cookie)
    };
    entries.flatten().map(|e| e.path()).filter(is_of).collect()
}

fn netns_cookie() -> u64 {
    const SO_NETNS_COOKIE: i32 = 71;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the pointers describe `cookie`.
    let code = unsafe {
        let pointer: *mut u64 = &mut cookie;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, pointer.cast(), &mut len)
    };
    assert_eq!(code, 0, "{}", io::Error::last_os_error());
    cookie
}

/// A packet socket on an interface: frames as they are.
pub struct Raw(OwnedFd);

const VLAN_VALID: u32 = 1 << 4;
const TPID_VALID: u32 = 1 << 6;

fn option(fd: i32, level: i32, name: i32, value: i32) {
    // SAFETY: the pointer and length describe `value`.
    let code = unsafe {
        let pointer: *const i32 = &value;
        libc::setsockopt(fd, level, name, pointer.cast(), size_of::<i32>() as libc::socklen_t)
    };
    assert_eq!(code, 0, "option {level} {name}: {}", io::Error::last_os_error());
}

impl Raw {
    /// Opens one that hears what arrives, and nothing that is sent here.
    pub fn open(namespace: &str, interface: &str) -> Raw {
        in_netns(namespace, || Raw::open_here(interface)).unwrap()
    }

    fn open_here(interface: &str) -> Raw {
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: plain integers and a terminated string; results are checked.
        unsafe {
            let raw = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(raw >= 0, "{}", io::Error::last_os_error());
            let fd = OwnedFd::from_raw_fd(raw);
            option(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
            option(raw, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1);
            option(raw, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20);
            option(raw, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 32 << 20);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let pointer: *const libc::sockaddr_ll = &address;
            let code = libc::bind(raw, pointer.cast(), size_of_val(&address) as libc::socklen_t);
            assert_eq!(code, 0, "{}", io::Error::last_os_error());
            // Frames to anybody, as the tests send them.
            let promiscuous = libc::packet_mreq {
                mr_ifindex: address.sll_ifindex,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            let pointer: *const libc::packet_mreq = &promiscuous;
            let len = size_of_val(&promiscuous) as libc::socklen_t;
            libc::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, pointer.cast(), len);
            Raw(fd)
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the pointer and length describe `frame`.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        let error = io::Error::last_os_error();
        assert_eq!(sent, frame.len() as isize, "{} bytes {:02x?}: {error}", frame.len(), &frame[..14]);
    }

    /// The next frame as it was on the wire: an outer VLAN tag that the kernel took off is put back.
    pub fn receive(&self, wait: Duration) -> Option<Vec<u8>> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut bytes = vec![0u8; 16 << 10];
        let mut control = [0u64; 16];
        // SAFETY: all pointers are to buffers that outlive the calls, with their lengths.
        unsafe {
            if libc::poll(&mut poll, 1, wait.as_millis() as i32) <= 0 {
                return None;
            }
            let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let len = libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT);
            if len < 0 {
                return None;
            }
            bytes.truncate(len as usize);
            let header = libc::CMSG_FIRSTHDR(&message);
            if !header.is_null() && (*header).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned();
                if aux.tp_status & VLAN_VALID != 0 {
                    let is_told = aux.tp_status & TPID_VALID != 0;
                    let tpid = if is_told { aux.tp_vlan_tpid } else { 0x8100 };
                    let tag = [tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()].concat();
                    bytes.splice(12..12, tag);
                }
            }
        }
        Some(bytes)
    }

    /// Frames of a sender: so many, however long they take, and what else comes until none came for 0.2 s.
    pub fn take(&self, wanted: usize) -> Vec<Vec<u8>> {
        const QUIET: Duration = Duration::from_millis(200);
        let (mut frames, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while frames.len() < wanted && Instant::now() < deadline {
            frames.extend(self.receive(QUIET).filter(|frame| frame.get(6..12) == Some(&SOURCE)));
        }
        frames.extend(self.drain(QUIET));
        frames
    }

    /// All frames of a sender until none came for `wait`.
    pub fn drain(&self, wait: Duration) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.receive(wait) {
            if frame.get(6..12) == Some(&SOURCE) {
                frames.push(frame);
            }
        }
        frames
    }
}

/// Addresses of the frames that tests make; no host has them.
pub const SOURCE: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];
pub const DESTINATION: [u8; 6] = [2, 0xbb, 0, 0, 0, 1];
