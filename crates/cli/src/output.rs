//! How the program speaks: text for people, one JSON object for programs, errors on standard error.

use crate::log::{Entry, Level, Log};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of a run that was interrupted, as shells give it.
pub const INTERRUPTED: u8 = 130;

/// The exit status of a run; that it failed is said rather than that it was interrupted.
pub fn exit_status(has_failed: bool, is_interrupted: bool) -> ExitCode {
    match (has_failed, is_interrupted) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(INTERRUPTED),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Whether something that was printed did not arrive.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether the one JSON object was printed: what fails after it has its warnings and exit status.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether results were lost on standard output, as on a full disk: then nothing succeeded.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Why a verb ended without doing what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or the input are wrong: exit status 2.
    Input(String),
    /// Something could not be done: exit status 1.
    Failed(String),
    /// The user ended it before it began: exit status 130.
    Interrupted(String),
}

impl Failure {
    /// What is said of it.
    pub fn text(&self) -> &str {
        let (Failure::Input(text) | Failure::Failed(text) | Failure::Interrupted(text)) = self;
        text
    }

    /// The input is wrong.
    pub fn input(e: impl Display) -> Failure {
        Failure::Input(e.to_string())
    }
}

impl<E: Display> From<E> for Failure {
    fn from(e: E) -> Failure {
        Failure::Failed(format!("{e:#}"))
    }
}

/// What a verb returns.
pub type Done = Result<ExitCode, Failure>;

/// Where to print.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether standard output carries one JSON object.
    pub json: bool,
    /// Where the log goes.
    log: Log,
    /// The level that the arguments ask for.
    asked: Option<Level>,
}

impl Output {
    /// Output for people, or for programs.
    pub fn new(json: bool) -> Output {
        Output { json, log: Log::TEXT, asked: None }
    }

    /// The same with a log from this level on. What was asked for first counts: arguments come before files.
    pub fn logging(self, asked: Option<Level>) -> Output {
        let asked = self.asked.or(asked);
        Output { log: Log::open(asked), asked, ..self }
    }

    /// Tells an event: as a record where these are asked for, else in words for who watches.
    pub fn tell(&self, entry: &Entry) {
        match (self.log.is_text(), self.json) {
            (false, _) => self.log.tell(entry),
            (true, true) => warn(self.text(entry)),
            (true, false) => self.print(self.text(entry)),
        }
    }

    /// An event in words, of one of several links with its name.
    fn text(&self, entry: &Entry) -> String {
        match self.log.link() {
            Some(link) => format!("{link}: {}", entry.text()),
            None => entry.text(),
        }
    }

    /// The same for one of several links, which has no live view.
    #[cfg(feature = "live")]
    pub fn of_link(self, verb: &'static str, link: impl Display) -> Output {
        Output { log: self.log.of_link(verb, link), ..self }
    }

    /// Whether an entry matters enough to be told.
    #[cfg(feature = "live")]
    pub fn wants(&self, entry: &Entry) -> bool {
        self.log.wants(entry)
    }

    /// The same of something that went wrong, which is said on standard error.
    #[cfg(feature = "live")]
    pub fn tell_error(&self, entry: &Entry) {
        if self.log.is_text() { warn(self.text(entry)) } else { self.log.tell(entry) }
    }

    /// Whether the log goes elsewhere than what is shown.
    #[cfg(feature = "live")]
    pub fn logs_apart(&self) -> bool {
        !self.log.is_text() && !std::io::stderr().is_terminal()
    }

    /// Whether people may see colours there.
    pub fn colour(&self) -> bool {
        !self.json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Whether tables may use colours.
    pub fn paint(&self) -> weir_report::table::Paint {
        if self.colour() { weir_report::table::Paint::Ansi } else { weir_report::table::Paint::Plain }
    }

    /// Whether a live view can be drawn.
    #[cfg(feature = "live")]
    pub fn live(&self) -> bool {
        let can_draw =
            std::io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|t| t != "dumb");
        !self.json && self.log.link().is_none() && can_draw
    }

    /// Says something on the way: for people, never mixed with results for programs.
    pub fn say(&self, text: impl Display) {
        self.tell(&Entry::info("note", text));
    }

    /// Prints text for people on standard output.
    pub fn print(&self, text: impl Display) {
        match writeln!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush()) {
            // Whoever reads us may have gone, as in `weir list | head -1`.
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {}
            Err(e) => {
                if !LOST.swap(true, Ordering::Relaxed) {
                    warn(format!("cannot write to standard output: {e}"));
                }
            }
        }
    }

    /// Gives the result: as the JSON object, or as text.
    pub fn result(&self, json: &impl Serialize, text: impl FnOnce() -> String) {
        if self.json {
            PRINTED.store(true, Ordering::Relaxed);
            let json = serde_json::to_string_pretty(json).expect("results are plain data");
            self.print(json);
        } else {
            self.print(text().trim_end());
        }
    }

    /// Says why it failed and gives the exit status.
    pub fn failed(&self, failure: &Failure) -> ExitCode {
        let text = failure.text().trim_end();
        let entry = Entry::new(Level::Error, "failed", text).prefixed("weir: ");
        match self.log.is_text() {
            true => for_a_while(move || warn(entry.text())),
            false => for_a_while({
                let log = self.log;
                move || log.tell(&entry)
            }),
        }
        if self.json && !PRINTED.load(Ordering::Relaxed) {
            self.print(serde_json::json!({ "error": text }));
        }
        ExitCode::from(match failure {
            Failure::Failed(_) => 1,
            Failure::Input(_) => 2,
            Failure::Interrupted(_) => INTERRUPTED,
        })
    }
}

/// Prints a line to standard error, which may be closed.
pub fn warn(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says something, but goes on if nobody reads it for some time.
fn for_a_while(say: impl FnOnce() + Send + 'static) {
    let (said, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        say();
        let _ = said.send(());
    });
    let _ = end.recv_timeout(std::time::Duration::from_millis(500));
}
