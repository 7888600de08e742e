//! What a service manager is told, and the page of a run in a browser.
//!
//! These tests need root; without it they say so and pass.

use crate::browser::{Browser, chromium};
use crate::common::*;
use crate::control::Load;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};
use weir_lab::in_netns;

/// A steered link, and with `[run]` at its end.
fn steered() -> String {
    format!(
        "{}[a_to_b]\nrate = \"20Mbit/s\"\naqm = {{ name = \"gsp\" }}\npolicy = {{ target_max = \"30ms\" }}\n[run]\n",
        ports("auto")
    )
}

/// Waits for a message that begins so; those before it.
fn heard(manager: &UnixDatagram, words: &str) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    let (mut before, mut text) = (Vec::new(), [0; 1024]);
    loop {
        assert!(Instant::now() < deadline, "never {words}: {before:?}");
        let Ok(length) = manager.recv(&mut text) else { continue };
        let told = String::from_utf8_lossy(&text[..length]).into_owned();
        if told.starts_with(words) {
            return before;
        }
        before.push(told);
    }
}

#[test]
fn a_service_manager_hears_of_readiness_life_and_reload_and_starts_a_run_that_takes_over() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let socket = format!("NOTIFY_SOCKET={}", path.display());
    // As the unit starts it.
    let before = ["/usr/bin/env", &socket, "WATCHDOG_USEC=1000000"];
    let start = || Weir::spawn_with(bot, &steered(), &before, &["--keep-forwarding", "--takeover"]);
    let mut weir = start();
    assert_eq!(heard(&manager, "READY=1"), [] as [String; 0], "nothing is told before it is ready");
    heard(&manager, "WATCHDOG=1");
    heard(&manager, "WATCHDOG=1");
    weir.signal(libc::SIGHUP);
    let before_reload = heard(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    assert!(!before_reload.iter().any(|told| told == "READY=1"));
    heard(&manager, "READY=1");

    // One that does not turn is not alive; it is ended as the watchdog does, and the next takes over.
    weir.stop();
    while manager.recv(&mut [0; 1024]).is_ok() {}
    std::thread::sleep(Duration::from_millis(1200));
    assert!(manager.recv(&mut [0; 1024]).is_err());
    weir.signal(libc::SIGKILL);
    let (near, far) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    let frame = [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 46]].concat();
    let passes = || {
        near.send(&frame);
        far.take(1).len()
    };
    assert_eq!(passes(), 1, "the kernel forwards");
    drop(weir);
    let mut next = start();
    heard(&manager, "READY=1");
    assert_eq!(passes(), 1);
    next.signal(libc::SIGTERM);
    heard(&manager, "STOPPING=1");
    let ended = next.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(passes(), 1, "the kernel goes on forwarding");
    assert_eq!(Weir::start(bot, &steered()).interrupt().code, Some(0));
}

const PAGE: &str = "127.0.0.1:9470";

/// What the page answers in a namespace.
fn at_page(namespace: &str, request: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: {PAGE}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    in_netns(namespace, || {
        let mut stream = TcpStream::connect(PAGE).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
    .unwrap()
}

#[test]
fn the_page_of_a_run_changes_its_policy_for_who_has_the_token() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "lo", "up"]);
    let weir = Weir::start_with(bot, &steered(), &["--page"]);
    let token = std::fs::read_to_string("/run/weir/page.token").unwrap();
    assert!(!weir.text("err").contains(&token), "the token is in no log");
    let body = r#"{"set":{"a_to_b.policy.target_max":"20ms"}}"#;
    assert!(at_page(bot, "PATCH /v1/config", "", body).starts_with("HTTP/1.1 401"));
    let with = format!("authorization: Bearer {token}\r\n");
    let applied = at_page(bot, "PATCH /v1/config", &with, body);
    assert!(applied.starts_with("HTTP/1.1 200") && applied.contains("20ms"), "{applied}");
    assert!(at_page(bot, "GET /v1/status", "", "").contains("\"target_max_ms\":20.0"));
    let refused = at_page(bot, "PATCH /v1/config", &with, &body.replace("20ms", "20 furlongs"));
    assert!(refused.starts_with("HTTP/1.1 422") && refused.contains("remedy"), "{refused}");
    // The run that takes over has the same page, and the same token.
    let second = Weir::start_with(bot, &steered(), &["--page", "--takeover"]);
    let ended = weir.wait();
    assert!(ended.stderr.contains("set by the page, 127.0.0.1:"), "{}", ended.stderr);
    let applied = at_page(bot, "PATCH /v1/config", &with, body);
    assert!(applied.starts_with("HTTP/1.1 200"), "{applied}");
    assert_eq!(second.interrupt().code, Some(0));
}

#[test]
fn a_browser_follows_a_run_under_load_changes_its_policy_and_survives_its_restart() {
    let Some(_turn) = turn() else { return };
    let Some(program) = chromium() else {
        return skipped("`chromium` is not installed".to_string());
    };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "ip", &["link", "set", "dev", "lo", "up"]);
    let mut weir = Weir::start_with(bot, &steered(), &["--page"]);
    let load = Load::start(&testbed);
    let netns = std::fs::File::open(format!("/run/netns/{bot}")).unwrap();
    let url = format!("http://{PAGE}/");
    let mut page = Browser::open(&program, &url, |command| {
        let raw = netns.as_raw_fd();
        // SAFETY: only a system call between fork and exec; the file lives until the program was started.
        unsafe {
            command.pre_exec(move || match libc::setns(raw, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    });
    page.until(LIVE);
    page.until("[...document.querySelectorAll('.tile')].some((t) => /delivered\\n[1-9]/.test(t.innerText))");
    page.until("document.querySelectorAll('#used polyline.used').length > 0");
    assert_eq!(page.text("title"), "a <-> b");
    if let Some(folder) = std::env::var_os("WEIR_PICTURES") {
        std::thread::sleep(Duration::from_secs(45));
        std::fs::write(std::path::Path::new(&folder).join("page-live.png"), page.picture()).unwrap();
    }
    // The policy, without the token and with it: what is in force is asked for elsewhere.
    let in_force = || at_page(bot, "GET /v1/status", "", "");
    changes_a_policy_with_the_token_only(&mut page, &url, &mut |ms| {
        in_force().contains(&format!("\"target_max_ms\":{ms}.0"))
    });
    // A run that is killed and started anew, while the page stays open.
    let drawn = page.value("document.querySelectorAll('#phase circle').length").as_u64();
    weir.signal(libc::SIGKILL);
    page.until("document.getElementById('link').dataset.state === 'lost'");
    drop(weir);
    let weir = Weir::start_with(bot, &steered(), &["--page"]);
    let number = weir.child.pid();
    page.until(&format!("document.getElementById('link').dataset.state === 'live' && document.getElementById('about').innerText.includes('{number}')"));
    page.until("document.getElementById('answer').innerText.includes('started anew')");
    page.until(&format!("document.querySelectorAll('#phase circle').length >= {}", drawn.unwrap()));
    page.until("document.querySelectorAll('#phase circle').length > 0 && [...document.querySelectorAll('.tile')].some((t) => /delivered\\n[1-9]/.test(t.innerText))");
    // What is drawn may be of the program before, and the new one tells nothing of its queues at first.
    page.until("[...document.querySelectorAll('.tile')].some((t) => t.innerText.includes('to 30.0 ms'))");
    assert!(in_force().contains("\"target_max_ms\":30.0"), "what was changed live ended with the run");
    apply(&mut page, 15);
    assert!(in_force().contains("\"target_max_ms\":15.0"));
    assert_eq!(page.errors, [] as [String; 0]);
    drop(page);
    load.end();
    let ended = weir.interrupt();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("set by the page, 127.0.0.1:"), "{}", ended.stderr);
}

/// The page is connected, and draws two directions or one.
pub const LIVE: &str = "document.getElementById('link').dataset.state === 'live' && document.querySelectorAll('.tile').length === 8";

fn apply(page: &mut Browser, ms: u32) {
    page.fill("target_max", &ms.to_string());
    page.click("apply");
    page.until("document.getElementById('answer').innerText.startsWith('In force since')");
}

/// A policy by the form of a page that was opened without the token: refused, and then put into force with
/// it. `is_in_force` says whether this many ms are the largest set point; 30 are at the start.
pub fn changes_a_policy_with_the_token_only(
    page: &mut Browser,
    url: &str,
    is_in_force: &mut dyn FnMut(u32) -> bool,
) {
    page.fill("target_max", "20");
    page.click("apply");
    page.until("document.getElementById('answer').dataset.kind === 'bad'");
    assert!(page.text("answer").contains("this takes the token"), "{}", page.text("answer"));
    assert!(is_in_force(30));
    let token = std::fs::read_to_string("/run/weir/page.token").unwrap();
    page.go("about:blank");
    page.go(&format!("{url}#token={}", token.trim_end()));
    page.until(LIVE);
    apply(page, 20);
    assert!(is_in_force(20));
    page.until("[...document.querySelectorAll('.tile')].some((t) => t.innerText.includes('to 20.0 ms'))");
    // What the program refuses is told with its remedy.
    page.fill("target_max", "99999");
    page.click("apply");
    page.until("document.getElementById('answer').dataset.kind === 'bad'");
    assert!(page.text("answer").contains("give a value"), "{}", page.text("answer"));
    assert!(is_in_force(20));
    page.click("undo");
}
