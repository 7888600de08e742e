//! `weir doctor` as it is used.

use crate::skipping;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    (output, said)
}

fn is_root() -> bool {
    // The owner of this process, as the kernel tells it.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let mut checks = diagnosis["checks"].as_array().unwrap().iter();
    checks.find(|c| c["name"] == name).unwrap_or_else(|| panic!("no check `{name}` in {diagnosis}"))
}

#[test]
fn the_diagnosis_is_one_json_object() {
    let (output, said) = run(Command::new(WEIR).args(["--json", "doctor"]));
    let diagnosis: Value = serde_json::from_str(&said).unwrap();
    for check in diagnosis["checks"].as_array().unwrap() {
        assert!(check["optional"].is_boolean() && check["detail"].is_string(), "{check}");
        let has_remedy = check["remedy"].as_str() != Some("");
        assert_eq!(check["ok"] == false, has_remedy, "what is missing has a remedy: {check}");
    }
    assert_eq!(check(&diagnosis, "root")["ok"], is_root());
    // It looks at queues in a namespace.
    if is_root() && check(&diagnosis, "network namespaces")["ok"] == true {
        let kinds = check(&diagnosis, "kernel queues")["detail"].to_string();
        assert!(
            kinds.contains("can steer") && kinds.contains("bfifo") && kinds.contains("not in this kernel"),
            "{kinds}"
        );
    }
    let works = diagnosis["can"]["lab"] == true && diagnosis["can"]["run"] == true;
    assert_eq!(output.status.code(), Some(i32::from(!works)));
    assert_eq!(diagnosis["cleaned"], serde_json::json!([]));
}

/// Who may not look cannot say that nothing was left.
#[test]
fn who_may_not_look_has_not_cleaned() {
    if !is_root() {
        return skipping::skipped("not root");
    }
    std::fs::create_dir_all("/run/weir").unwrap();
    // So that nobody else removes the folder meanwhile.
    let file = format!("/run/weir/nobody-{}", std::process::id());
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions("/run/weir", std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // A copy that others may start, wherever this one lies.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = public_copy(folder.path());
    let program = program.to_str().unwrap();
    let nobody = ["--reuid", "65534", "--clear-groups", program, "--json", "doctor", "--clean-only"];
    let (output, said) = run(Command::new("setpriv").args(nobody));
    std::fs::remove_file(file).unwrap();
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((output.status.code(), &told["whole"]), (Some(1), &Value::Bool(false)), "{told}");
    assert_eq!(told["cleaned"], serde_json::json!([]));
    assert!(
        told["not_cleaned"].to_string().contains("/run/weir: NOT looked into: Permission denied"),
        "{told}"
    );
}

#[test]
fn each_port_is_told_with_its_driver_queues_offloads_and_what_will_be_done() {
    let Some(_turn) = crate::common::turn_beside_others() else { return };
    let testbed =
        weir_lab::Testbed::new(weir_lab::TestbedConfig { queues: [4, 1], ..Default::default() }).unwrap();
    let bot = testbed.bottleneck();
    crate::common::exec(bot, "ethtool", &["-K", "a", "gro", "on", "rxvlan", "on"]);
    let (_, said) = crate::common::try_exec(bot, WEIR, &["--json", "doctor"]);
    let diagnosis: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let ports = diagnosis["ports"].as_array().unwrap();
    let port = |name: &str| {
        ports.iter().find(|port| port["name"] == name).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let a = port("a");
    assert_eq!((&a["driver"], &a["queues"], &a["mtu"]), (&"veth".into(), &4.into(), &1500.into()), "{a}");
    assert_eq!((&a["mode"], &a["xdp"]["zero_copy"]), (&"AF_XDP, native".into(), &false.into()), "{a}");
    let plan = a["plan"].as_str().unwrap();
    for text in ["4 receive queues", "switch off generic-receive-offload, rx-vlan-offload", "one copy"] {
        assert!(plan.contains(text), "{plan}");
    }
    assert!(
        port("lo")["mode"].is_null() && port("lo")["plan"].as_str().unwrap().contains("loopback"),
        "{said}"
    );
    let (_, said) = crate::common::try_exec(bot, WEIR, &["doctor"]);
    assert!(
        said.contains("port a: driver veth, MTU 1500, 4 receive queues\n    `weir run` would take"),
        "{said}"
    );
}

/// Copies the program to where everybody may run it.
fn public_copy(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("weir");
    // By another process: a program that this one has open for writing, or a child of it, cannot be started.
    let copied = Command::new("install").args(["-m", "755", WEIR]).arg(&copy).status();
    assert!(copied.unwrap().success());
    copy
}

#[test]
fn without_privileges_it_says_what_is_missing() {
    let folder = std::env::temp_dir().join(format!("weir-doctor-{}", std::process::id()));
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(public_copy(&folder));
        command
    } else {
        Command::new(WEIR)
    };
    let (output, said) = run(command.args(["doctor", "--clean"]));
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("MISSING   root") && said.contains("-> run it as root"), "{said}");
    assert!(
        said.contains(
            "Will work here: list, explain, check, sim, sweep, characterize, reproduce --arm sim.\n"
        ),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "no colours into a pipe: {said}");
}

/// Makes what a killed run leaves: a namespace and a journal of a process that is no more.
fn leave_behind() -> (String, PathBuf) {
    use std::os::unix::fs::MetadataExt;
    let namespace = "weir-4194305-1-chk".to_string();
    let made = Command::new("ip").args(["netns", "add", &namespace]).status().unwrap();
    assert!(made.success());
    std::fs::create_dir_all("/run/weir").unwrap();
    let netns = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let journal = PathBuf::from(format!("/run/weir/4194305-{netns}.json"));
    let gone = serde_json::json!({ "interface": { "name": "gone", "index": 1 << 30 }, "change": "Up" });
    let content = serde_json::json!({ "pid": 4_194_305, "started": 1, "netns": netns, "records": [gone] });
    std::fs::write(&journal, content.to_string()).unwrap();
    (namespace, journal)
}

#[test]
fn what_killed_runs_left_is_listed_and_removed() {
    // Runs of other tests remove what killed ones left, and this one what killed runs of other tests left.
    let Some(_turn) = crate::common::turn() else { return };
    let (namespace, journal) = leave_behind();
    let listed = run(Command::new(WEIR).args(["--json", "doctor"])).1;
    let cleaned = run(Command::new(WEIR).args(["--json", "doctor", "--clean"])).1;
    let (listed, cleaned): (Value, Value) =
        (serde_json::from_str(&listed).unwrap(), serde_json::from_str(&cleaned).unwrap());
    let left = check(&listed, "left by killed runs");
    let detail = left["detail"].as_str().unwrap();
    assert!(left["ok"] == false && detail.contains(&namespace), "{left}");
    assert!(detail.contains(journal.to_str().unwrap()), "{left}");
    assert!(left["remedy"].as_str().unwrap().contains("--clean"), "{left}");
    assert!(cleaned["cleaned"].to_string().contains(&namespace), "{cleaned}");
    // Fails if somebody else uses it, which is as well.
    let _ = std::fs::remove_dir("/run/weir");
    assert!(!journal.exists() && !Path::new("/run/netns").join(&namespace).exists());
}
