//! The tools of this repository use what they installed, also behind another Python on the PATH that lacks
//! it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(name)
}

/// Programs of our own before those of the system on the PATH.
struct Programs(TempDir);

impl Programs {
    fn new() -> Programs {
        let programs = Programs(tempfile::tempdir().unwrap());
        // A virtual environment: a Python, but without what Debian's packages installed, and here without
        // anything.
        programs.add("venv/python3", "exit 1");
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, name: &str, arguments: &[&str], python: Option<&str>) -> Output {
        let mut path: Vec<PathBuf> = ["venv", "other"].map(|folder| self.path(folder)).into();
        path.extend(["/usr/bin", "/bin"].map(PathBuf::from));
        let mut command = Command::new(tool(name));
        command.args(arguments).env("PATH", std::env::join_paths(path).unwrap()).env_remove("WEIR_PYTHON");
        command.envs(python.map(|python| ("WEIR_PYTHON", self.path(python)))).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

#[test]
fn a_python_that_lacks_a_module_is_passed_over() {
    let programs = Programs::new();
    let nobody = "weir_has_no_such_module";
    let none = programs.run("python", &[nobody], None);
    assert!(!none.status.success() && text(&none.stderr).contains(nobody), "{none:?}");
    assert!(text(&none.stderr).contains("WEIR_PYTHON"), "{none:?}");
    // By a name with a version, and by the common name, which is tried before.
    for name in ["other/python3.99", "other/python3"] {
        programs.add(name, r#"[ "$1" = -c ] || echo "$# arguments: $*""#);
        let found = programs.run("python", &[nobody], None);
        assert_eq!(text(&found.stdout), programs.path(name).to_str().unwrap(), "{found:?}");
    }
    let ran = programs.run("python", &[nobody, "program", "two words"], None);
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(0), "2 arguments: program two words".into()));
    // One that is named is the only one.
    let named = programs.run("python", &[nobody], Some("venv/python3"));
    assert!(!named.status.success() && text(&named.stdout).is_empty(), "{named:?}");
}

#[test]
fn what_is_found_is_not_installed_and_what_is_not_found_is() {
    let programs = Programs::new();
    for name in ["go", "tshark", "tcpdump", "cargo", "python3"] {
        programs.add(&format!("other/{name}"), "exit 0");
    }
    programs.add("other/apt-get", &format!("echo \"$*\" >>{}", programs.path("asked").display()));
    let there = programs.run("install", &["interop"], None);
    assert!(there.status.success() && there.stdout.is_empty(), "{there:?}");
    assert!(!programs.path("asked").exists());
    // A Go that does not work, as the stand-in of a version manager without a version.
    programs.add("venv/go", "exit 127");
    assert!(programs.run("install", &["interop"], None).stdout.is_empty());
    let lacking = programs.run("install", &["interop"], Some("venv/python3"));
    let said = text(&lacking.stdout) + &text(&lacking.stderr);
    assert!(said.contains(": python3-scapy") && !said.contains("tshark"), "{lacking:?}");
}

/// `make reproduce` installs ns-2 like everything else that a target needs, and goes on without root.
#[test]
fn the_campaign_installs_its_witness_or_says_what_it_leaves_out() {
    let programs = Programs::new();
    programs.add("other/cargo", "exit 0");
    programs.add("other/apt-get", &format!("echo \"$*\" >>{}", programs.path("asked").display()));
    let is_there = programs.run("find", &["ns", "/dev/null"], None).status.success();
    let said = programs.run("install", &["reproduce"], None);
    let said = text(&said.stdout) + &text(&said.stderr);
    assert_eq!(said.contains(": ns2") || said.contains("get install ns2"), !is_there, "{said}");
    programs.add("other/ns", "exit 0");
    let there = programs.run("install", &["reproduce"], None);
    assert!(there.status.success() && there.stdout.is_empty(), "{there:?}");

    // Another user than root: `id` says so.
    programs.add("other/id", "echo 1000");
    programs.add("weir", &format!("echo \"$*\" >>{}", programs.path("ran").display()));
    let out = programs.path("out");
    let arguments = [programs.path("weir"), out].map(|path| path.to_str().unwrap().to_string());
    let ran = programs.run("reproduce", &arguments.each_ref().map(String::as_str), None);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(text(&ran.stderr).contains("left out: what runs with real TCP"), "{ran:?}");
    let ran = std::fs::read_to_string(programs.path("ran")).unwrap();
    assert!(ran.contains("avq --experiment all --witness ns2") && !ran.contains("lab"), "{ran}");
    assert!(ran.lines().last().is_some_and(|last| last.starts_with("reproduce summary")), "{ran}");
}

/// A campaign of a day that was ended goes on where it was: what left results is not made again with the same
/// commit, also where claims were missed; what failed is.
#[test]
fn a_campaign_goes_on_where_it_was() {
    let programs = Programs::new();
    programs.add("other/ns", "exit 0");
    programs.add("other/id", "echo 1000");
    programs.add("other/git", "case $1 in describe) echo abc1234 ;; esac");
    // It leaves results with missed claims, but for one that fails and one that is interrupted.
    let ran = programs.path("ran");
    let script = format!(
        "echo \"$*\" >>{}\ncase \"$*\" in *bbr*) exit 1 ;; *vaqm*) exit 130 ;; esac\nwhile [ $# -gt 1 ]; do shift; done\n\
         mkdir -p \"$1/one\"\nsleep 0.01\necho >\"$1/one/result.json\"\nexit 1",
        ran.display()
    );
    programs.add("weir", &script);
    let out = programs.path("out");
    let arguments = [programs.path("weir"), out].map(|path| path.to_str().unwrap().to_string());
    let campaign = || {
        let _ = std::fs::remove_file(&ran);
        let ended = programs.run("reproduce", &arguments.each_ref().map(String::as_str), None);
        (ended, std::fs::read_to_string(&ran).unwrap())
    };
    let (first, all) = campaign();
    assert_eq!((first.status.code(), all.lines().count()), (Some(130), 8), "{all}");
    let (second, rest) = campaign();
    assert_eq!(second.status.code(), Some(130), "{second:?}");
    let rest: Vec<&str> = rest.lines().collect();
    assert!(rest.len() == 2 && rest[0].contains("bbr") && rest[1].contains("vaqm"), "{rest:?} {second:?}");
    assert!(text(&second.stderr).contains("made already with commit abc1234"), "{second:?}");
    programs.add("other/git", "case $1 in describe) echo 'abc1234, changed' ;; esac");
    assert_eq!(campaign().1, all, "a tree that is in no commit");

    // What was ended in its middle keeps the runs that it has, if they are of this commit.
    programs.add("other/id", "echo 0");
    programs.add("other/git", "case $1 in describe) echo abc1234 ;; esac");
    programs.add("weir", &format!("echo \"$*\" >>{}", ran.display()));
    let resumed = |commit: &str| {
        programs.add("other/git", &format!("case $1 in describe) echo '{commit}' ;; esac"));
        let _ = std::fs::remove_file(programs.path("out/made"));
        let ran = campaign().1;
        let of =
            |what: &str| ran.lines().find(|line| line.contains(what)).unwrap().contains(" --resume --out ");
        assert!(!of("--figure bbr"), "its runs are not kept: {ran}");
        let kept = ["--figure all", "avq --experiment all", "--figure 5 --arm lab", "vaqm --arm upf"].map(of);
        assert!(kept.iter().all(|one| *one == kept[0]), "{ran}");
        kept[0]
    };
    let commits = ["abc1234", "def5678", "def5678", "def5678, changed", "def5678, changed"];
    assert_eq!(commits.map(resumed), [false, false, true, false, false]);
}

#[test]
fn the_clients_of_make_interop_run_in_the_python_that_was_found() {
    let programs = Programs::new();
    let real = Command::new(tool("python")).arg("tomllib").output().unwrap();
    let script = format!(
        "case \"$*\" in\n*'import scapy'*) ;;\n*scapy_session.py*) echo \"SESSION $0\" ;;\n*) exec {} \"$@\" ;;\nesac",
        text(&real.stdout)
    );
    programs.add("other/python3", &script);
    // Works, but builds nothing: that client takes its time, and is not what this is about.
    programs.add("venv/go", "[ \"$1\" = version ]");
    // It serves, and ends when it is asked to.
    programs.add("weir", "trap 'exit 0' TERM\necho 'PFCP on'\nwhile :; do sleep 0.05; done");
    let weir = programs.path("weir");
    let ran = programs.run("interop", &[weir.to_str().unwrap(), "--if-there"], None);
    let said = text(&ran.stdout);
    assert!(said.contains(&format!("SESSION {}", programs.path("other/python3").display())), "{ran:?}");
    assert!(ran.status.success() && !said.contains("scapy is missing"), "{ran:?}");
}

/// Runs a program by `tools/test-program`; whether it could, and what was printed.
fn run_by(programs: &Programs, name: &str, kind: &str, begun: &Path) -> (bool, String) {
    let mut command = Command::new(tool("test-program"));
    command.arg(programs.path(name)).env("TEST_PROGRAMS", kind).env("TEST_PROGRAMS_BEGUN", begun);
    let output = command.output().unwrap();
    (output.status.success(), text(&[output.stdout, output.stderr].concat()))
}

#[test]
fn of_several_runners_one_begins_a_program_and_none_passes_it_over_for_another_reason() {
    let (programs, begun) = (Programs::new(), tempfile::tempdir().unwrap());
    for name in ["live-1", "all-1"] {
        programs.add(name, "echo $RUST_TEST_THREADS tests at once");
    }
    let run = |name: &str, kind: &str| run_by(&programs, name, kind, begun.path());
    let passed_over = (true, String::new());
    assert_eq!(run("live-1", "other"), passed_over);
    assert_eq!(run("live-1", "live"), (true, "200 tests at once".into()));
    let (ok, said) = run("all-1", "other");
    assert!(ok && said.ends_with("tests at once"), "{said}");
    assert_eq!(run("all-1", "other"), passed_over, "it has been begun");
    let (ok, said) = run("all-1", "others");
    assert!(!ok && said.contains("live or other is wanted"), "{said}");
    let (ok, said) = run_by(&programs, "all-1", "other", &begun.path().join("gone"));
    assert!(!ok && said.contains("Remedy"), "{said}");
}

#[test]
fn a_test_that_was_skipped_is_not_counted_as_passed_and_one_that_failed_is_told_with_the_reason() {
    let said = "     Running tests/run.rs (target/debug/deps/run-1)\n\
         SKIPPED: rates: undecided, 4.5 % of the time taken away\n\
         SKIPPED: rates: undecided, in another mode\n\
         test rates ... ok\n\
         test ends ... ok\n\
         SKIPPED: both: the first half\n\
         thread 'both' (7) panicked at tests/run.rs:9:5:\n\
         left: 1\nright: 2\n\
         stack backtrace:\n   0: main\n\
         test both ... FAILED\n\
         failures:\n    both\n\n\
         test result: FAILED. 2 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
         thread '<unnamed>' (8) panicked at tests/run.rs:11:9:\n\
         gone\n\
         note: run with\n\
         failures:\n    inside\n    src/lib.rs - Queue (line 7)\n\n\
         test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
         SKIPPED: rates: not root\n\
         test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
    let mut command = Command::new(tool("test"));
    let mut child = command.arg("--count").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let failed = "FAILED: both: panicked at tests/run.rs:9:5: | left: 1 | right: 2\n\
                  FAILED: inside: a thread without a name panicked at tests/run.rs:11:9: | gone\n\
                  FAILED: src/lib.rs - Queue (line 7): a thread without a name panicked at tests/run.rs:11:9: | gone";
    assert_eq!(text(&output.stdout), format!("{failed}\n1 passed, 3 failed, 5 skipped"));
}
