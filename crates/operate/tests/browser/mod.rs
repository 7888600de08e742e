//! Chromium without a screen, driven through a pipe by its DevTools protocol. Each program of tests uses a
//! part of it.
#![allow(dead_code)]

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Where the program of Debian's package `chromium` is.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|program| program.is_file())
}

/// A browser with one page; ended when dropped.
pub struct Browser {
    child: Child,
    commands: File,
    answers: Receiver<Value>,
    session: Option<String>,
    number: u64,
    /// What went wrong in scripts, as the browser told.
    pub errors: Vec<String>,
    _profile: tempfile::TempDir,
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: both were just opened.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

impl Browser {
    /// Opens a page. `change` may have the program started elsewhere, such as in a network namespace.
    pub fn open(program: &Path, url: &str, change: impl FnOnce(&mut Command)) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let ((reads, commands), (answers, writes)) = (pipe(), pipe());
        let mut command = Command::new(program);
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-extensions",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--mute-audio",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        change(&mut command);
        let (reads_fd, writes_fd) = (reads.as_raw_fd(), writes.as_raw_fd());
        // SAFETY: between fork and exec only descriptors are copied. Both are put out of the way first, as
        // one may be 3 or 4.
        unsafe {
            command.pre_exec(move || {
                let from = libc::fcntl(reads_fd, libc::F_DUPFD, 10);
                let to = libc::fcntl(writes_fd, libc::F_DUPFD, 10);
                if libc::dup2(from, 3) < 0 || libc::dup2(to, 4) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((reads, writes));
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(File::from(answers)).split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&text) else { continue };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands: File::from(commands),
            answers: received,
            session: None,
            number: 0,
            errors: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", target)["sessionId"].as_str().unwrap().to_string();
        browser.session = Some(session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        browser.size(1280, 1400, false);
        browser.go(url);
        browser
    }

    /// Sends a command and waits for what comes of it.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let told = self
                .answers
                .recv_timeout(left)
                .unwrap_or_else(|e| panic!("{method}: the browser is silent: {e}"));
            self.note(&told);
            if told["id"] == self.number {
                assert!(told["error"].is_null(), "{method}: {told}");
                return told["result"].clone();
            }
        }
    }

    fn note(&mut self, told: &Value) {
        let parameters = &told["params"];
        match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(parameters["exceptionDetails"].to_string()),
            // What the network refuses, the page tells itself.
            Some("Log.entryAdded") if parameters["entry"]["source"] != "network" => {
                self.errors.push(parameters["entry"]["text"].to_string());
            }
            _ => {}
        }
    }

    /// Goes to an address.
    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
    }

    /// The size of the window.
    pub fn size(&mut self, width: u32, height: u32, is_phone: bool) {
        let scale = if is_phone { 2 } else { 1 };
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone }),
        );
    }

    /// What a script says.
    pub fn value(&mut self, script: &str) -> Value {
        let parameters = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The text of the element with this id.
    pub fn text(&mut self, id: &str) -> String {
        self.value(&format!("document.getElementById('{id}').innerText"))
            .as_str()
            .unwrap_or_default()
            .to_string()
    }

    /// Waits until an expression is true; one that fails, as the page is not there yet, is not true yet.
    pub fn until(&mut self, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        let tried = format!("(() => {{ try {{ return {script} }} catch {{ return false }} }})()");
        while self.value(&tried) != Value::Bool(true) {
            if Instant::now() >= deadline {
                let shown = self.value("document.body?.innerText");
                panic!("never: {script}; {:?}; {shown}", self.errors);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key });
            if kind == "keyDown" && key.chars().count() == 1 {
                event["text"] = key.into();
            }
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Puts a text into an input, as if it were typed.
    pub fn fill(&mut self, id: &str, text: &str) {
        self.value(&format!(
            "(() => {{ const i = document.getElementById('{id}'); i.focus(); i.value = {}; \
             i.dispatchEvent(new Event('input', {{ bubbles: true }})); i.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
            json!(text)
        ));
    }

    /// Clicks an element.
    pub fn click(&mut self, id: &str) {
        self.value(&format!("document.getElementById('{id}').click()"));
    }

    /// A picture of the window as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let answer = self.ask("Page.captureScreenshot", json!({ "format": "png" }));
        base64(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of a text in base64 (RFC 4648 section 4).
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let number = four.iter().fold(0, |number, c| number << 6 | digit(*c)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&number.to_be_bytes()[1..four.len()]);
    }
    bytes
}
