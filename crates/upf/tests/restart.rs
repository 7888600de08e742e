//! Restarts of this function: with what it kept, with what is torn, and with a clock that begins anew.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_config::UpfConfig;
use weir_upf::client::{Client, Error, usual};
use weir_upf::ledger::Ledger;
use weir_upf::message::{Element, Value, ie, kind};
use weir_upf::rules::{PerDirection, Session};
use weir_upf::server::Server;
use weir_upf::state;

/// A folder of a test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    /// Names of its files that begin so, the newest last.
    fn named(&self, beginning: &str) -> Vec<PathBuf> {
        let mut found: Vec<(u64, PathBuf)> = fs::read_dir(&self.0)
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let number = entry.file_name().to_str()?.strip_prefix(beginning)?.parse().ok()?;
                Some((number, entry.path()))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(host: u8) -> UpfConfig {
    let text = format!(
        "n3 = {{ port = \"a\", address = [\"192.0.2.1/24\"] }}\n\
         n4 = {{ address = \"127.8.7.{host}\", peers = [\"127.8.7.{}\"] }}\n\
         n6 = {{ port = \"b\", address = [\"198.51.100.1/24\"] }}\n",
        host + 100
    );
    UpfConfig::parse("test", &text).unwrap()
}

/// A function that runs in a thread.
struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
    said: Vec<String>,
    recovery: u32,
}

impl Running {
    fn start(config: &UpfConfig, folder: &Path) -> Running {
        let lock = state::lock(folder).unwrap();
        let mut server = Server::open_keeping(config, Ledger::new(1000), folder, lock).unwrap();
        let (said, recovery) = (server.said(), server.control().recovery());
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        // Nothing is done at its end: it could as well have been killed.
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                server.turn(Duration::from_millis(5)).unwrap();
            }
            server.control().sessions().len()
        });
        Running { stop, thread, said, recovery }
    }

    fn killed(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn client(host: u8) -> Client {
    let address = |last: u8| IpAddr::from([127, 8, 7, last]);
    Client::open(address(host + 100), SocketAddr::new(address(host), 8805)).unwrap()
}

fn rules(number: u32) -> Session {
    let ambr = PerDirection { up: 50_000, down: 100_000 };
    let ue = std::net::Ipv4Addr::from(0x0a2d_0000 + number);
    usual(u64::from(number), ue, "192.0.2.1".parse().unwrap(), ("192.0.2.9".parse().unwrap(), 0x99), ambr)
}

fn gate(client: &mut Client, seid: u64, gate: u32) -> Result<(), Error> {
    let closed =
        Value::Group(vec![Element::number(ie::QER_ID, 1u32), Element::number(ie::GATE_STATUS, gate)]);
    client.modify(seid, vec![Element::new(ie::UPDATE_QER, closed)]).map(drop)
}

#[test]
fn sessions_go_on_after_a_kill_and_peers_see_no_restart() {
    let (folder, config) = (Folder::new("kill"), config(1));
    let running = Running::start(&config, &folder.0);
    let recovery = running.recovery;
    let mut client = client(1);
    client.associate(5).unwrap();
    let seids: Vec<u64> = (1..=20).map(|n| client.establish(&rules(n)).unwrap().seid).collect();
    gate(&mut client, seids[0], 5).unwrap();
    client.delete(seids[1]).unwrap();
    assert_eq!(running.killed(), 19);
    let running = Running::start(&config, &folder.0);
    assert_eq!(
        (running.recovery, &running.said[..]),
        (recovery, &["19 sessions of before go on".to_string()][..])
    );
    // No association is asked for again.
    gate(&mut client, seids[0], 0).unwrap();
    assert!(matches!(client.delete(seids[1]), Err(Error::Refused { cause: Some(65), .. })));
    client.delete(seids[2]).unwrap();
    // Places and tunnels that are taken stay so.
    let again = client.establish(&rules(3)).unwrap();
    assert!(!seids[3..].contains(&again.seid));
    assert_eq!(running.killed(), 19);
    // Once more, from a snapshot that is a restored one's.
    let running = Running::start(&config, &folder.0);
    assert_eq!(running.recovery, recovery);
    client.delete(again.seid).unwrap();
    client.delete(seids[19]).unwrap();
    assert_eq!(running.killed(), 17);
}

#[test]
fn who_asks_for_an_association_anew_has_given_its_sessions_up() {
    let (folder, config) = (Folder::new("anew"), config(2));
    let running = Running::start(&config, &folder.0);
    let mut client = client(2);
    client.associate(5).unwrap();
    client.establish(&rules(1)).unwrap();
    running.killed();
    let running = Running::start(&config, &folder.0);
    client.associate(5).unwrap();
    client.establish(&rules(1)).unwrap();
    assert_eq!(running.killed(), 1);
}

/// Runs with some sessions, has something done to the files, and starts again: whether the sessions go on,
/// and what was said.
fn after(name: &str, host: u8, sessions: u32, harm: impl FnOnce(&Folder)) -> (bool, usize, String) {
    let (folder, config) = (Folder::new(name), config(host));
    // Two starts before, so that there is a snapshot before the last.
    Running::start(&config, &folder.0).killed();
    let running = Running::start(&config, &folder.0);
    let recovery = running.recovery;
    let mut client = client(host);
    client.associate(5).unwrap();
    (1..=sessions).for_each(|n| drop(client.establish(&rules(n)).unwrap()));
    running.killed();
    let running = Running::start(&config, &folder.0);
    running.killed();
    harm(&folder);
    let running = Running::start(&config, &folder.0);
    let (same, said) = (running.recovery == recovery, running.said.join("\n"));
    assert!(same || running.recovery > recovery, "{name}: an earlier start than before");
    (same, running.killed(), said)
}

fn cut(path: &Path, by: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len().saturating_sub(by)).unwrap();
}

#[test]
fn a_torn_or_foreign_snapshot_is_refused_and_the_one_before_used() {
    let newest = |folder: &Folder| folder.named("snapshot-").pop().unwrap();
    for (name, host, by) in [("torn1", 3, 1), ("torn2", 4, 700), ("torn3", 5, 1 << 30)] {
        let (same, count, said) = after(name, host, 5, |folder| cut(&newest(folder), by));
        assert_eq!((same, count), (true, 5), "{said}");
        assert!(said.contains("refused, it is torn") && said.contains("snapshot-"), "{said}");
    }
    let (same, count, said) = after("foreign", 6, 5, |folder| fs::write(newest(folder), "hello\n").unwrap());
    assert_eq!((same, count), (true, 5), "{said}");
    let (same, count, said) = after("bit", 7, 5, |folder| {
        let mut bytes = fs::read(newest(folder)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(newest(folder), bytes).unwrap();
    });
    assert_eq!((same, count), (true, 5), "{said}");
    let (same, count, said) = after("half", 8, 5, |folder| {
        // It was not renamed yet when the power went.
        let path = newest(folder);
        fs::rename(&path, path.with_extension("new")).unwrap();
    });
    assert_eq!((same, count), (true, 5), "{said}");
}

#[test]
fn a_change_that_was_not_whole_was_not_answered_and_a_log_with_a_hole_is_not_believed() {
    let log = |folder: &Folder| folder.named("log-").pop().unwrap();
    let append = |folder: &Folder, text: &str| {
        let bytes = [&fs::read(log(folder)).unwrap()[..], text.as_bytes()].concat();
        fs::write(log(folder), bytes).unwrap();
    };
    let (same, count, said) = after("tail", 9, 5, |folder| append(folder, "1234abcd {\"Gone\":"));
    assert_eq!((same, count), (true, 5), "{said}");
    let (same, count, said) = after("hole", 10, 5, |folder| append(folder, "1234abcd {\"Gone\":7}\n"));
    assert_eq!((same, count), (false, 0), "{said}");
    assert!(said.contains("log-") && said.contains("sessions are lost"), "{said}");
    let (same, count, said) = after("nolog", 11, 5, |folder| fs::remove_file(log(folder)).unwrap());
    assert_eq!((same, count), (false, 0), "{said}");
    let (same, count, said) = after("none", 12, 5, |folder| {
        folder.named("snapshot-").iter().for_each(|path| cut(path, 1));
    });
    assert_eq!((same, count), (false, 0), "{said}");
}

#[test]
fn a_state_of_another_boot_or_version_or_function_is_none() {
    let change = |from: &str, to: &str| {
        let (from, to) = (from.to_string(), to.to_string());
        move |folder: &Folder| {
            for path in folder.named("snapshot-").into_iter().chain(folder.named("log-")) {
                let text = fs::read_to_string(&path).unwrap();
                let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
                let body = lines[0].split_once(' ').unwrap().1.replace(&from, &to);
                lines[0] = format!("{:08x} {body}", crc32fast::hash(body.as_bytes()));
                fs::write(&path, lines.join("\n") + "\n").unwrap();
            }
        }
    };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let (same, count, said) = after("boot", 13, 5, change(boot.trim(), "another"));
    assert_eq!((same, count), (false, 0), "{said}");
    assert!(said.contains("has started again"), "{said}");
    let (same, count, said) = after("version", 14, 5, change("\"version\":1", "\"version\":2"));
    assert_eq!((same, count), (false, 0), "{said}");
    assert!(said.contains("of another version"), "{said}");
    let (_, count, said) = after("node", 15, 5, change("127.8.7.15", "127.8.7.99"));
    assert!(count == 0 && said.contains("another `n4.address`"), "{said}");
}

#[test]
fn a_clock_that_begins_anew_bears_no_time_stamp_twice() {
    let (folder, config) = (Folder::new("clock"), config(16));
    let last = Running::start(&config, &folder.0);
    let far = last.recovery + 1_000_000;
    last.killed();
    for path in folder.named("snapshot-").into_iter().chain(folder.named("log-")) {
        let text = fs::read_to_string(&path).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        let body = text.lines().next().unwrap().split_once(' ').unwrap().1;
        let at = body.find("\"recovery\":").unwrap() + 11;
        let end = at + body[at..].find(',').unwrap();
        // As if it was a run of a time in which the clock was right, and the machine has no clock that goes
        // on.
        let body = format!("{}{far}{}", &body[..at], &body[end..]).replace("\"boot\":\"", "\"boot\":\"x");
        fs::write(&path, format!("{:08x} {body}\n{rest}", crc32fast::hash(body.as_bytes()))).unwrap();
    }
    let mut starts = vec![far];
    for _ in 0..3 {
        let running = Running::start(&config, &folder.0);
        starts.push(running.recovery);
        running.killed();
        // Nothing goes on of this one either.
        folder.named("log-").iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    assert_eq!(starts, [far, far + 1, far + 2, far + 3]);
}

#[test]
fn what_the_configuration_has_no_place_for_is_lost_as_a_whole_and_told() {
    let (folder, before) = (Folder::new("config"), config(17));
    let running = Running::start(&before, &folder.0);
    let recovery = running.recovery;
    let mut client = client(17);
    client.associate(5).unwrap();
    (1..=5).for_each(|n| drop(client.establish(&rules(n)).unwrap()));
    running.killed();
    let mut smaller = before.clone();
    smaller.limits.sessions = 3;
    let running = Running::start(&smaller, &folder.0);
    assert!(running.recovery > recovery && running.said[0].contains("limits.sessions"), "{:?}", running.said);
    assert!(matches!(client.establish(&rules(1)), Err(Error::Refused { cause: Some(72), .. })));
    assert_eq!(running.killed(), 0);
}

#[test]
fn one_folder_has_one_user_and_files_that_nobody_else_reads() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, config) = (Folder::new("lock"), config(18));
    let running = Running::start(&config, &folder.0);
    let error = state::lock(&folder.0).unwrap_err().to_string();
    assert!(error.contains(&std::process::id().to_string()) && error.contains("--takeover"), "{error}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.0), 0o700);
    for entry in fs::read_dir(&folder.0).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    running.killed();
    assert!(state::lock(&folder.0).is_ok());
}

#[test]
fn what_was_measured_goes_on() {
    let (folder, config) = (Folder::new("usage"), config(19));
    let counted = |bytes| {
        let amount = PerDirection { up: bytes, down: 0 };
        vec![weir_upf::rules::Measured { place: 0, packets: amount, bytes: amount }]
    };
    let run = |client: &mut Client, bytes: u64, what: &mut dyn FnMut(&mut Client) -> u64| {
        let lock = state::lock(&folder.0).unwrap();
        let mut ledger = Ledger::new(10);
        ledger.counted = counted(bytes);
        let mut server = Server::open_keeping(&config, ledger, &folder.0, lock).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                server.turn(Duration::from_millis(5)).unwrap();
            }
            server.close();
        });
        let done = what(client);
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        done
    };
    let mut client = client(19);
    let urr = Value::Group(vec![
        Element::number(ie::URR_ID, 1u32),
        Element::number(ie::MEASUREMENT_METHOD, 2u8),
        Element::number(ie::REPORTING_TRIGGERS, 0u32),
    ]);
    let seid = run(&mut client, 1000, &mut |client| {
        client.associate(5).unwrap();
        let seid = client.establish(&rules(1)).unwrap().seid;
        let pdr = Value::Group(vec![Element::number(ie::PDR_ID, 1u16), Element::number(ie::URR_ID, 1u32)]);
        let more = vec![Element::new(ie::CREATE_URR, urr.clone()), Element::new(ie::UPDATE_PDR, pdr)];
        client.modify(seid, more).unwrap();
        seid
    });
    // The plane counts from the beginning.
    let told = run(&mut client, 234, &mut |client| {
        let query = Value::Group(vec![Element::number(ie::URR_ID, 1u32)]);
        let answer = client.modify(seid, vec![Element::new(ie::QUERY_URR, query)]).unwrap();
        volume(&answer.elements)
    });
    assert_eq!(told, 1234);
    let told = run(&mut client, 500, &mut |client| volume(&client.delete(seid).unwrap().elements));
    assert_eq!(told, 500);
}

/// Bytes of all that an answer tells of usage.
fn volume(elements: &[Element]) -> u64 {
    elements
        .iter()
        .map(|element| match &element.value {
            Value::Group(inner) => volume(inner),
            Value::Volume(volume) => volume.bytes.total.unwrap_or(0),
            _ => 0,
        })
        .sum()
}

#[test]
fn a_function_that_keeps_says_no_goodbye() {
    let (folder, config) = (Folder::new("goodbye"), config(20));
    let running = Running::start(&config, &folder.0);
    let mut client = client(20);
    client.associate(5).unwrap();
    running.killed();
    assert!(!client.asked.iter().any(|message| message.kind == kind::ASSOCIATION_UPDATE_REQUEST));
}
