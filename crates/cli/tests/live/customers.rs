//! Customers with plans behind a run, with real TCP.
//!
//! These tests need root; without it they say so and pass.

use crate::common::{self, *};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{Testbed, in_netns};

const WAIT: Duration = Duration::from_millis(200);

/// Downloads of two customers, and what each got.
struct Downloads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    begun: Instant,
    bytes: [Arc<AtomicU64>; 2],
}

impl Downloads {
    fn start(testbed: &Testbed) -> Downloads {
        let stop: Arc<AtomicBool> = Arc::default();
        let (begun, bytes): (_, [Arc<AtomicU64>; 2]) = (Instant::now(), Default::default());
        let mut threads = Vec::new();
        for (n, bytes) in bytes.iter().enumerate() {
            let address = format!("10.77.0.{}:9000", 31 + n);
            let listener = in_netns(testbed.receiver(), || TcpListener::bind(&address)).unwrap().unwrap();
            // Three flows of the first and one of the second.
            for _ in 0..3 - 2 * n {
                let mut sender =
                    in_netns(testbed.sender(), || TcpStream::connect(&address)).unwrap().unwrap();
                let (mut receiver, _) = listener.accept().unwrap();
                sender.set_write_timeout(Some(WAIT)).unwrap();
                receiver.set_read_timeout(Some(WAIT)).unwrap();
                let (sends, reads, bytes) = (stop.clone(), stop.clone(), bytes.clone());
                threads.push(std::thread::spawn(move || {
                    while !sends.load(Ordering::Relaxed) {
                        let _ = sender.write(&[0; 16 << 10]);
                    }
                }));
                threads.push(std::thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while !reads.load(Ordering::Relaxed) {
                        if let Ok(count) = receiver.read(&mut buffer) {
                            bytes.fetch_add(count as u64, Ordering::Relaxed);
                        }
                    }
                }));
            }
        }
        Downloads { stop, threads, begun, bytes }
    }

    /// Rates in Mbit/s over the next second.
    fn rates(&self) -> [f64; 2] {
        let (begun, before) =
            (Instant::now(), self.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
        sleep(Duration::from_secs(1));
        let span = begun.elapsed().as_secs_f64();
        [0, 1].map(|n| (self.bytes[n].load(Ordering::Relaxed) - before[n]) as f64 * 8.0 / 1e6 / span)
    }

    /// Mbit/s of both since the start. What is read late, by a thread that waits for a processor or behind a
    /// gap, makes the rate of a second larger than that of the link, and not this one.
    fn mean(&self) -> f64 {
        let bytes: u64 = self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        bytes as f64 * 8.0 / 1e6 / self.begun.elapsed().as_secs_f64()
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Plans of two customers below a site, and of so many others.
fn plans(first: u32, second: u32, others: u32) -> String {
    let mut table = "name,site,address,down,up\ntower,,,30Mbit/s,\n".to_string();
    for (n, rate) in [first, second].into_iter().enumerate() {
        writeln!(table, "c{n},tower,10.77.0.{},{rate}Mbit/s,10Mbit/s", 31 + n).unwrap();
    }
    for n in 0..others {
        writeln!(table, "other{n},tower,172.16.{}.{},50Mbit/s,10Mbit/s", n / 250, n % 250).unwrap();
    }
    table
}

/// A testbed whose receiver has the addresses of the customers c0 and c1.
fn with_two_customers() -> Testbed {
    let testbed = testbed();
    for address in ["10.77.0.31/24", "10.77.0.32/24"] {
        exec(testbed.receiver(), "ip", &["addr", "add", address, "dev", "rcv0"]);
    }
    testbed
}

/// Whether rates are what plans say, without headers, of which a packet of full size has less than 5 %.
fn are(got: [f64; 2], due: [f64; 2]) -> bool {
    got.iter().zip(due).all(|(got, due)| (0.85 * due..1.01 * due).contains(got))
}

#[test]
fn customers_below_a_site_hold_their_rates_and_plans_change_while_tcp_goes_on() {
    let Some(_turn) = turn() else { return };
    let testbed = with_two_customers();
    let folder = Folder::new();
    let file = folder.path().join("plans.csv");
    // What the file is a link to lies where nothing else that is read does.
    let elsewhere = Folder::new();
    std::os::unix::fs::symlink(elsewhere.path().join("plans.csv"), &file).unwrap();
    std::fs::write(&file, plans(20, 20, 5000)).unwrap();
    let queue = "queue = { discipline = \"user\", users = 6000";
    let config = format!(
        "{}[users]\nfile = \"{}\"\n[a_to_b]\nrate = \"200Mbit/s\"\nbuffer = \"100ms\"\naqm = {{ name = \"codel\" }}\nupstream = \"inform\"\n{queue} }}\n\
         [b_to_a]\nrate = \"200Mbit/s\"\naqm = {{ name = \"codel\" }}\n{queue}, by_sender = true }}\n",
        patient(&ports("auto")),
        file.display()
    );
    let mut weir = Weir::start(testbed.bottleneck(), &config);
    let pid = weir.child.pid();
    let downloads = Downloads::start(&testbed);
    // Machines that are busy are given time.
    let settles = |due: [f64; 2]| {
        let begun = Instant::now();
        loop {
            sleep(Duration::from_millis(500));
            let got = downloads.rates();
            // No plan is ever exceeded.
            assert!(downloads.mean() < 30.5, "{} Mbit/s, now {got:?}", downloads.mean());
            if are(got, due) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{got:?} where {due:?} are due");
        }
    };
    // Each could have 20, and the site has 30 for both, whatever the number of flows.
    settles([15.0, 15.0]);
    // What is told is a moment old.
    until("both are told, and what was delivered and dropped", || {
        let status = common::ctl(pid, &["status"]).1;
        let users = &status["links"][0]["directions"][0]["users"];
        assert_eq!(users["planned"], 5002, "{users}");
        let told = users["users"].as_array().unwrap();
        let of = |name: &str| told.iter().find(|user| user["name"] == name);
        let (Some(c0), Some(c1)) = (of("c0"), of("c1")) else { return false };
        assert_eq!(c0["rate_bps"], 20e6, "{users}");
        c1["delivered_packets"].as_u64() > Some(1000) && c1["dropped_packets"].as_u64() > Some(0)
    });

    // What an application needs decides how good the same conditions are.
    let scores = |needs: [&str; 2], due: f64| {
        let (code, told) = common::ctl(pid, &["set", needs[0], needs[1]]);
        assert_eq!(code, 0, "{told}");
        let begun = Instant::now();
        loop {
            let status = common::ctl(pid, &["status"]).1;
            let users = status["links"][0]["directions"][0]["users"]["users"].as_array().unwrap().clone();
            let of =
                |name: &str, key: &str| users.iter().find(|user| user["name"] == name).unwrap()[key].as_f64();
            let is_measured = |name: &&str| of(name, "rtt_ms").is_some_and(|ms| ms > 0.0 && ms < 1000.0);
            let all = ["c0", "c1"];
            if all.iter().all(is_measured) && all.map(|name| of(name, "outcome")) == [Some(due); 2] {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{due}: {users:?}");
            sleep(Duration::from_millis(100));
        }
    };
    scores(["users.outcome.loss_optimal=50%", "users.outcome.loss_unacceptable=60%"], 1.0);
    scores(["users.outcome.delay_optimal=0s", "users.outcome.delay_unacceptable=1us"], 0.0);

    // Read again on request, and told in the log.
    std::fs::write(&file, plans(5, 20, 4000)).unwrap();
    let (code, told) = common::ctl(pid, &["reload"]);
    assert_eq!(code, 0, "{told}");
    let all = told["links"][0]["applied"]["changed"].as_array().unwrap();
    let changed = all.iter().find(|changed| changed["key"] == "users.file").unwrap();
    assert!(
        changed["to"].as_str().unwrap().contains("4002 customers at 1 sites: 0 new, 1000 gone, 1 with"),
        "{told}"
    );
    settles([5.0, 20.0]);

    // One customer, whom the file puts back when it is read again.
    let (code, told) = common::ctl(pid, &["set", "customers.c1.down=8Mbit/s", "customers.c0.exempt=true"]);
    let applied = &told["links"][0]["applied"];
    assert!(code == 0 && applied["at_s"].as_f64().is_some(), "{told}");
    let is_so = |key: &str, from: &str, to: &str| {
        let all = applied["changed"].as_array().unwrap();
        all.iter().any(|one| one["key"] == key && one["from"] == from && one["to"] == to)
    };
    assert!(is_so("customers.c1.down", "\"20Mbit/s\"", "\"8Mbit/s\""), "{told}");
    assert!(is_so("customers.c0.exempt", "false", "true"), "{told}");
    assert!(applied["notes"].to_string().contains("puts back what the file says"), "{told}");
    // What was set is told by the same path, and what the plan leaves out as what takes it out.
    for (key, value) in [
        ("customers.c1.down", "\"8Mbit/s\""),
        ("customers.c0.exempt", "true"),
        ("customers.c0.target_max", "\"none\""),
        ("customers.c1.site", "\"tower\""),
    ] {
        let (code, told) = common::ctl(pid, &["get", key, "run.sample"]);
        let values = told["links"][0]["values"].as_object().unwrap();
        assert!(code == 0 && values[key] == value && values.len() == 2, "{key}: {told}");
    }
    let (_, told) = common::ctl(pid, &["get", "customers.c1"]);
    let values = told["links"][0]["values"].as_object().unwrap();
    assert!(values["customers.c1.name"] == "\"c1\"" && values.len() > 4, "{told}");
    settles([5.0, 8.0]);
    for (set, words) in [
        ("customers.c9.down=1Mbit/s", "is no customer"),
        ("customers.c1.down=fast", "customers.c1.down"),
        ("customers.c1.address=10.0.0.1", "does not change so"),
    ] {
        let (code, told) = common::ctl(pid, &["set", "customers.c0.down=1Mbit/s", set]);
        assert!(code == 1 && told.to_string().contains(words), "{told}");
    }
    // Who sends nothing is found, too, by name and by address.
    let customers = |words: &[&str]| {
        let (code, told) = common::ctl(pid, &[&["users"], words].concat());
        assert_eq!(code, 0, "{told}");
        told["links"][0]["customers"].as_array().unwrap().clone()
    };
    let c1 = customers(&["c1", "--limit", "1"]).remove(0);
    assert!(c1["user"]["name"] == "c1" && c1["user"]["rate_bps"] == 8e6, "{c1}");
    for words in [["OTHER3999", "--limit=5"], ["--address", "172.16.15.249"]] {
        let found = customers(&words);
        assert!(found.iter().all(|one| one["user"]["name"] == "other3999" && one["has_queue"] == false));
        assert_eq!(found.len(), 2, "{found:?}");
    }
    let (code, told) = common::ctl(pid, &["reload"]);
    assert!(code == 0 && told.to_string().contains("2 with another plan"), "{told}");
    settles([5.0, 20.0]);

    // A file that is wrong is refused as a whole, with line, key and remedy.
    std::fs::write(&file, plans(7, 7, 10).replace("c1,tower", "c1,towr").replace(",7Mbit/s", ",7 apples"))
        .unwrap();
    let (code, told) = common::ctl(pid, &["reload"]);
    let error = told["links"][0]["error"].as_str().unwrap_or_default().to_string();
    assert!(code == 1, "{told}");
    for words in ["plans.csv:3", "customers.0.down", "plans.csv:4", "\"remedy\":"] {
        assert!(error.contains(words) || told.to_string().contains(words), "{words}: {told}");
    }
    settles([5.0, 20.0]);

    // By signal, too.
    std::fs::write(&file, plans(20, 5, 0)).unwrap();
    weir.signal(libc::SIGHUP);
    settles([20.0, 5.0]);
    downloads.end();
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn customers_are_held_to_policies_of_their_own_which_change_while_tcp_goes_on() {
    let Some(_turn) = turn() else { return };
    let testbed = with_two_customers();
    let folder = Folder::new();
    let file = folder.path().join("plans.csv");
    let table = "name,address,down,target_max\nc0,10.77.0.31,20Mbit/s,1ms\nc1,10.77.0.32,20Mbit/s,\n";
    std::fs::write(&file, table).unwrap();
    let config = format!(
        "{}[users]\nfile = \"{}\"\n[a_to_b]\nrate = \"200Mbit/s\"\nbuffer = \"100ms\"\naqm = {{ name = \"gsp\" }}\n\
         queue = {{ discipline = \"user\" }}\npolicy = {{ target_max = \"30ms\" }}\n",
        ports("auto"),
        file.display()
    );
    let weir = Weir::start(testbed.bottleneck(), &config);
    let pid = weir.child.pid();
    let downloads = Downloads::start(&testbed);
    let of = |name: &str| {
        let (code, told) = common::ctl(pid, &["users", name, "--limit", "1"]);
        assert_eq!(code, 0, "{told}");
        told["links"][0]["customers"][0]["user"].clone()
    };
    let set = |values: &[&str]| {
        let (code, told) = common::ctl(pid, &[&["set"], values].concat());
        assert_eq!(code, 0, "{told}");
    };
    // What is told is a moment old, and laws take their time.
    let until = |what: &str, is_so: &dyn Fn(&serde_json::Value, &serde_json::Value) -> bool| {
        let begun = Instant::now();
        loop {
            let (c0, c1) = (of("c0"), of("c1"));
            if is_so(&c0, &c1) {
                return (c0, c1);
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {c0} {c1}");
            sleep(Duration::from_millis(100));
        }
    };
    let setpoint = |user: &serde_json::Value| user["setpoint_ms"].as_f64().unwrap_or(f64::NAN);
    let low = |user: &serde_json::Value| user["policy"]["utilization_low"].as_f64();
    // Its law goes as far up as it may, for three flows take more than 1 ms at 20 Mbit/s.
    let (c0, c1) = until("set points rise", &|c0, c1| setpoint(c0) > 0.9 && setpoint(c1) > 1.0);
    assert_eq!(
        (c0["policy"]["target_max_ms"].as_f64(), c0["policy"]["key"].as_str()),
        (Some(1.0), Some("customers.c0"))
    );
    assert!(setpoint(&c0) <= 1.0, "{c0}");
    assert!(c1["policy"].is_null(), "{c1}");
    // The other one gets one, and the first another.
    set(&["customers.c1.target_max=500us", "customers.c0.utilization_low=80%"]);
    let (c0, _) = until("both are in force", &|c0, c1| low(c0) == Some(0.8) && setpoint(c1) <= 0.5);
    assert_eq!(c0["policy"]["target_max_ms"].as_f64(), Some(1.0));
    // What they do not say is as in the policy of the direction, which changes live, too.
    set(&["a_to_b.policy.utilization_low=90%"]);
    let (c0, _) = until("that of the direction is in force", &|_, c1| low(c1) == Some(0.9));
    assert_eq!(low(&c0), Some(0.8));
    set(&["customers.c1.target_max=none"]);
    until("the other one has none", &|_, c1| c1["policy"].is_null());
    for (value, words) in [
        ("customers.c0.target_max=9us", "raise target_max"),
        ("customers.c0.down=none", "give `down`"),
        ("a_to_b.policy.target_min=2ms", "customers.c0.target_max"),
    ] {
        let (code, told) = common::ctl(pid, &["set", value]);
        assert!(code == 1 && told.to_string().contains(words), "{value}: {told}");
    }
    // The file says what it said.
    let (code, told) = common::ctl(pid, &["reload"]);
    assert!(code == 0 && told.to_string().contains("1 with another plan"), "{told}");
    until("the first has that of the direction", &|c0, _| low(c0) == Some(0.99));
    downloads.end();
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
