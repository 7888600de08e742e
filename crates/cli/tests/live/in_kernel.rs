//! `weir run --in-kernel` at the egress of a veth, in namespaces of its own.

use crate::common::turn;
use crate::steer::{Busy, PATIENCE, assert_rights, ended, terminate};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_dataplane::privileges;

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

    fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.busy.namespace, WEIR, "--json", "run"]).arg(&self.file);
        command.arg("--in-kernel").args(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The filters where packets leave.
    fn filters(&self) -> String {
        self.busy.tc("filter show dev d0 egress")
    }

    /// The queues and the filters.
    fn all(&self) -> String {
        self.busy.tc("qdisc show dev d0") + &self.filters()
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

#[test]
fn the_kernel_keeps_the_virtual_queue_until_the_end_also_after_a_kill() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("kernel");
    let found = place.all();
    let running = place.start(&[]);
    place.attached();
    // Another one is refused while it lives.
    let (status, second, _) = ended(place.start(&[]));
    assert_eq!(status, Some(1), "{second}");
    assert!(second["error"].as_str().unwrap().contains("keeps a virtual queue at d0 already"), "{second}");
    // Twice as much as the link carries: signals are sure to come.
    std::thread::sleep(Duration::from_millis(1500));
    let rights = privileges::QUEUES.bitmask() | privileges::PROGRAMS.bitmask();
    assert_rights(running.id(), rights);
    terminate(&running);
    let (status, result, said) = ended(running);
    assert_eq!(status, Some(0), "{said}");
    let egress = &result["egress"][0];
    assert_eq!((&egress["interface"], &egress["rate_bps"]), (&"d0".into(), &8_000_000.into()), "{result}");
    assert!(egress["packets"].as_u64() > Some(0) && egress["left"].is_null(), "{result}");
    // What is not ECN-capable is dropped.
    assert!(egress["signals"].as_u64() > Some(0) && egress["signals"] == egress["drops"], "{result}");
    assert_eq!(place.all(), found);

    let mut killed = place.start(&[]);
    place.attached();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(place.filters().contains("virtual_queue"));
    let (status, _, said) = ended(place.start(&["--set", "run.duration=200ms"]));
    assert!(
        status == Some(0) && said.contains("after a killed run: d0: took the virtual queue off"),
        "{said}"
    );
    assert_eq!(place.all(), found);
}

#[test]
fn it_stays_where_that_is_asked_for_and_what_others_have_there_stays() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("stays");
    place.busy.tc("qdisc add dev d0 clsact");
    place.busy.tc("filter add dev d0 egress protocol ip prio 7 matchall action ok");
    let found = place.all();
    let (status, _, said) = ended(place.start(&["--set", "run.duration=200ms"]));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(place.all(), found);

    let (status, result, said) = ended(place.start(&["--keep", "--set", "run.duration=200ms"]));
    assert_eq!((status, &result["kept"]), (Some(0), &true.into()), "{said}");
    assert!(place.filters().contains("virtual_queue") && place.filters().contains("matchall"));
    // The next one takes its place, and its leave.
    let running = place.start(&[]);
    std::thread::sleep(Duration::from_millis(500));
    place.busy.tc("filter del dev d0 egress prio 22358");
    let (status, result, said) = ended(running);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        result["egress"][0]["left"].as_str().unwrap().contains("somebody took its program away"),
        "{result}"
    );
    assert_eq!(place.all(), found);
}

#[test]
fn what_the_program_cannot_do_is_refused_before_anything_is_changed() {
    let Some(_turn) = turn() else { return };
    let place = Place::new("refused");
    let found = place.all();
    for (set, told) in [
        ("a_to_b.aqm.name=codel", "`a_to_b.aqm.name` must be \"gsp\""),
        ("a_to_b.policy.utilization_target=100%", "`a_to_b.policy.utilization_target` must be below 100%"),
        ("ports.b=nosuch", "there is no interface nosuch"),
    ] {
        let (status, result, _) = ended(place.start(&["--set", set]));
        assert_eq!(status, Some(2), "{result}");
        assert!(result["error"].as_str().unwrap().contains(told), "{result}");
    }
    assert_eq!(place.all(), found);
}
