//! The log of a run: as records, and as the journal takes it.
//!
//! These tests need root; without it they say so and pass.

use crate::common::{self, *};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

fn steered(log: &str) -> String {
    let run = if log.is_empty() { String::new() } else { format!("[run]\nlog = \"{log}\"\n") };
    format!(
        "{}[a_to_b]\nrate = \"20Mbit/s\"\naqm = {{ name = \"gsp\" }}\npolicy = {{ target_max = \"30ms\" }}\n{run}",
        ports("auto")
    )
}

/// Waits for a line of the log in which all these words are.
fn line(weir: &Weir, words: &[&str]) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = weir.text("err");
        if let Some(line) = text.lines().find(|line| words.iter().all(|word| line.contains(word))) {
            return line.into();
        }
        assert!(Instant::now() < deadline, "never {words:?}:\n{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn records_have_a_level_and_fields_and_what_matters_less_is_left_out() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let weir = Weir::start_with(testbed.bottleneck(), &steered("error"), &["--log", "info"]);
    let pid = weir.child.pid();
    let ctl = |words: &[&str]| common::ctl(pid, words).0;
    line(&weir, &["level=info event=open verb=run link=\"", "mode=", "msg=\""]);
    assert_eq!(ctl(&["set", "a_to_b.rate=10Mbit/s"]), 0);
    let changed = line(&weir, &["event=change", "result=applied"]);
    for field in
        ["level=info", "asked=set", "who=\"uid 0, pid ", "keys=a_to_b.rate", "t_s=", "-> \\\"10Mbit/s\\\""]
    {
        assert!(changed.contains(field), "{field}: {changed}");
    }
    assert_eq!(ctl(&["set", "a_to_b.buffer=1s"]), 1);
    line(&weir, &["level=warn event=change", "result=refused", "status=409", "a_to_b.buffer"]);
    // How it stands is told every two seconds, to those who ask for more.
    std::thread::sleep(Duration::from_millis(2500));
    let text = weir.text("err");
    assert!(text.lines().all(|line| line.starts_with("time=20") && line.contains(" level=")), "{text}");
    assert!(!text.contains("event=state") && !text.contains("level=debug"), "{text}");
    drop(weir);

    // As the file says, where the arguments say nothing.
    let weir = Weir::start_with(testbed.bottleneck(), &steered("debug"), &[]);
    line(&weir, &["level=debug event=state verb=run", "a_to_b"]);
}

#[test]
fn the_journal_gets_fields_also_from_a_run_that_may_open_nothing_more() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let folder = Folder::new();
    let journal = UnixDatagram::bind(folder.path().join("socket")).unwrap();
    journal.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    // In a folder of its own in the place where the journal has its socket.
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {} /run/systemd/journal && \
         JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"",
        folder.path().display()
    );
    let before = ["/usr/bin/unshare", "-m", "sh", "-c", &script, "sh"];
    let mut weir = Weir::spawn_with(testbed.bottleneck(), &steered(""), &before, &[]);
    let heard = |weir: &Weir, words: &[&str]| {
        let (deadline, mut text) = (Instant::now() + PATIENCE, [0; 8192]);
        loop {
            assert!(Instant::now() < deadline, "never {words:?}: {}", weir.text("err"));
            let Ok(length) = journal.recv(&mut text) else { continue };
            let told = String::from_utf8_lossy(&text[..length]).into_owned();
            assert!(told.starts_with("MESSAGE=") && told.ends_with('\n'), "{told}");
            assert!(!told.contains("WEIR_EVENT=state"), "{told}");
            if words.iter().all(|word| told.contains(word)) {
                return;
            }
        }
    };
    heard(
        &weir,
        &["PRIORITY=6\nSYSLOG_IDENTIFIER=weir\nWEIR_EVENT=open\nWEIR_VERB=run\nWEIR_LINK=", "WEIR_MODE="],
    );
    // The loop turns and files are confined by now.
    std::thread::sleep(Duration::from_millis(500));
    weir.signal(libc::SIGHUP);
    heard(&weir, &["WEIR_EVENT=change", "WEIR_ASKED=reload", "WEIR_WHO=SIGHUP", "WEIR_RESULT=applied"]);
    std::fs::write(weir.config(), "ports = 7\n").unwrap();
    weir.signal(libc::SIGHUP);
    heard(&weir, &["PRIORITY=4", "WEIR_EVENT=change", "WEIR_RESULT=refused"]);
    assert_eq!(weir.text("err"), "", "nothing is told twice");
    weir.signal(libc::SIGTERM);
    assert_eq!(weir.wait().code, Some(0));
}
