//! The log of everything that runs long: one line for each event that matters, with a level and fields.
//!
//! Without a level that was asked for, who watches gets the messages as text, all of them. With one (`--log`,
//! `run.log`) lines are records of `key=value` on standard error, and where standard error is a stream of the
//! journal they are records of the journal, with fields (systemd's "Native Journal Protocol").
//!
//! The journal is told by an own writer: the crates there are for it look up the socket at each record and
//! pass memory files for long ones, which is confined by then; this is one datagram through a socket that was
//! connected before, as for the service manager (`service.rs`).

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the journal takes records.
#[cfg(feature = "live")]
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Longest value of a field, so that a record is one datagram.
const VALUE_MAX: usize = 4096;

/// How much an event matters; the lowest is what is told last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Level {
    /// What was asked for is not done.
    Error,
    /// It goes on, and somebody should look.
    Warn,
    /// What happened, such as a change of the configuration.
    Info,
    /// Also each move of a set point, and how it stands every few seconds.
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        ["error", "warn", "info", "debug"][self as usize]
    }

    /// The priority of syslog (RFC 5424 section 6.2.1).
    #[cfg(any(feature = "live", test))]
    fn priority(self) -> u8 {
        [3, 4, 6, 7][self as usize]
    }

    /// What a configuration says; none where it leaves it to where the log goes.
    #[cfg(feature = "live")]
    pub fn of(asked: weir_config::LogLevel) -> Option<Level> {
        use weir_config::LogLevel;
        match asked {
            LogLevel::Auto => None,
            LogLevel::Error => Some(Level::Error),
            LogLevel::Warn => Some(Level::Warn),
            LogLevel::Info => Some(Level::Info),
            LogLevel::Debug => Some(Level::Debug),
        }
    }
}

/// An event that is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    level: Level,
    event: &'static str,
    message: String,
    /// What a person is shown before the message.
    prefix: &'static str,
    fields: Vec<(&'static str, String)>,
}

impl Entry {
    /// An event by its name, which stays the same from version to version, in words.
    pub fn new(level: Level, event: &'static str, message: impl Display) -> Entry {
        Entry { level, event, message: message.to_string(), prefix: "", fields: Vec::new() }
    }

    /// Something that somebody should look at.
    #[cfg(any(feature = "live", test))]
    pub fn warn(event: &'static str, message: impl Display) -> Entry {
        Entry::new(Level::Warn, event, message)
    }

    /// What happened.
    pub fn info(event: &'static str, message: impl Display) -> Entry {
        Entry::new(Level::Info, event, message)
    }

    /// What those want to know who look for a cause.
    #[cfg(feature = "live")]
    pub fn debug(event: &'static str, message: impl Display) -> Entry {
        Entry::new(Level::Debug, event, message)
    }

    /// The same with a field; `key` is in lower case, of letters and underscores.
    #[cfg(any(feature = "live", test))]
    pub fn with(mut self, key: &'static str, value: impl Display) -> Entry {
        self.fields.push((key, value.to_string()));
        self
    }

    /// The same at another level.
    #[cfg(feature = "live")]
    pub fn at(self, level: Level) -> Entry {
        Entry { level, ..self }
    }

    /// The same, where a person is shown this before the message.
    pub fn prefixed(mut self, prefix: &'static str) -> Entry {
        self.prefix = prefix;
        self
    }

    /// As who watches sees it.
    pub fn text(&self) -> String {
        format!("{}{}", self.prefix, self.message)
    }

    /// All fields with their values, whoever wrote these.
    fn all(&self, about: Option<&'static About>) -> impl Iterator<Item = (&'static str, String)> {
        let own = self.fields.iter().map(|(key, value)| (*key, value.as_str()));
        let link = about.or(LINK.get()).map(|(verb, link)| [("verb", *verb), ("link", link.as_str())]);
        let first = [("event", self.event)].into_iter().chain(link.into_iter().flatten());
        first.chain(own).map(|(key, value)| (key, plain(value)))
    }

    /// A line of `key=value`; `at` is the time since 1970.
    fn record(&self, at: std::time::Duration, about: Option<&'static About>) -> String {
        let mut line = format!("time={} level={}", utc(at), self.level.name());
        for (key, value) in self.all(about).chain([("msg", plain(&self.message))]) {
            // A string takes all that is written.
            let _ = write!(line, " {key}={}", quoted(&value));
        }
        line
    }

    /// As the journal takes it: a line for each field, of which none has a line break.
    #[cfg(any(feature = "live", test))]
    fn datagram(&self, about: Option<&'static About>) -> String {
        let mut text = format!("MESSAGE={}\nPRIORITY={}\n", plain(&self.message), self.level.priority());
        text.push_str("SYSLOG_IDENTIFIER=weir\n");
        for (key, value) in self.all(about) {
            let _ = writeln!(text, "WEIR_{}={value}", key.to_ascii_uppercase());
        }
        text
    }
}

/// The verb, and the ports or devices.
type About = (&'static str, String);

/// What runs here, told with each record.
static LINK: OnceLock<About> = OnceLock::new();

/// Says what runs here; the first time counts.
#[cfg(feature = "live")]
pub fn about(verb: &'static str, link: impl Display) {
    let _ = LINK.set((verb, link.to_string()));
}

/// Text in one line, of a bounded length.
fn plain(text: &str) -> String {
    let space = |c: char| if c.is_control() { ' ' } else { c };
    let mut left = VALUE_MAX;
    text.trim_end()
        .chars()
        .map(space)
        .take_while(|c| left.checked_sub(c.len_utf8()).map(|rest| left = rest).is_some())
        .collect()
}

/// A value, in quotes where it could be taken for more than one.
fn quoted(value: &str) -> String {
    let is_word = |c: char| !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(is_word) {
        return value.into();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A time in UTC (RFC 3339), from days as in the proleptic Gregorian calendar.
pub fn utc(at: std::time::Duration) -> String {
    let (days, second) = (at.as_secs() / 86_400, at.as_secs() % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month, day, ms) = (month + 1, day + 1, at.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The level that was asked for while it runs, and 1; 0 where none was.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Tells records from this level on from now on, whatever was asked for before; none takes that back. Who
/// watches still gets all messages as text.
#[cfg(feature = "live")]
pub fn set_level(level: Option<Level>) {
    LEVEL.store(level.map_or(0, |level| level as u8 + 1), Ordering::Relaxed);
}

/// Where the log goes, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Log {
    level: Level,
    form: Form,
    /// Which of the links it is of, where a program has several.
    about: Option<&'static About>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// For who watches.
    Text,
    /// A line of `key=value` on standard error.
    Records,
    #[cfg(feature = "live")]
    Journal,
}

impl Log {
    /// All of it, as text.
    pub const TEXT: Log = Log { level: Level::Debug, form: Form::Text, about: None };

    /// As it was asked for, and as standard error is.
    pub fn open(asked: Option<Level>) -> Log {
        #[cfg(feature = "live")]
        if journal().is_some() {
            return Log { level: asked.unwrap_or(Level::Info), form: Form::Journal, about: None };
        }
        asked.map_or(Log::TEXT, |level| Log { level, form: Form::Records, about: None })
    }

    /// The same of one of several links, whose name each line has. As text it leaves out how links stand all
    /// the time. The name stays for the life of the program.
    #[cfg(feature = "live")]
    pub fn of_link(self, verb: &'static str, link: impl Display) -> Log {
        let level = if self.is_text() { Level::Info } else { self.level };
        Log { level, about: Some(Box::leak(Box::new((verb, link.to_string())))), ..self }
    }

    /// Which of several links it is of.
    pub fn link(self) -> Option<&'static str> {
        self.about.map(|(_, link)| link.as_str())
    }

    /// Whether messages are for who watches, and go with the results.
    pub fn is_text(self) -> bool {
        self.form == Form::Text
    }

    /// Whether it matters enough to be told.
    pub fn wants(self, entry: &Entry) -> bool {
        let live = LEVEL.load(Ordering::Relaxed);
        let is_live = self.form != Form::Text && live > 0;
        entry.level as u8 <= if is_live { live - 1 } else { self.level as u8 }
    }

    /// Tells it as a record, if it matters enough.
    pub fn tell(self, entry: &Entry) {
        if !self.wants(entry) {
            return;
        }
        #[cfg(feature = "live")]
        if let (Form::Journal, Some(socket)) = (self.form, journal()) {
            match socket.send(entry.datagram(self.about).as_bytes()) {
                Ok(_) => return,
                // It does not keep up, and nobody waits for it.
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                // It is gone; its stream takes lines with a priority (sd-daemon(3)).
                Err(_) => return line(&format!("<{}>{}", entry.level.priority(), plain(&entry.text()))),
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line(&entry.record(now, self.about));
    }
}

/// Standard error may be closed.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The journal, where standard error is a stream of it: `JOURNAL_STREAM` has the device and inode of that
/// (systemd.exec(5)).
#[cfg(feature = "live")]
fn journal() -> Option<&'static std::os::unix::net::UnixDatagram> {
    use std::os::fd::AsFd;
    use std::os::unix::{fs::MetadataExt, net::UnixDatagram};

    static SOCKET: OnceLock<Option<UnixDatagram>> = OnceLock::new();
    let find = || {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let own =
            std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        (stream == format!("{}:{}", own.dev(), own.ino())).then_some(())?;
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(JOURNAL).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(socket)
    };
    SOCKET.get_or_init(find).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn entry() -> Entry {
        Entry::warn("change", "two\nlines \"quoted\" a=b\u{1b}[2J").with("who", "uid 0").with("pid", 7)
    }

    #[test]
    fn a_record_is_one_line_whatever_was_sent() {
        let line = entry().record(Duration::from_millis(1_795_462_301_123), None);
        let expected = "time=2026-11-23T19:31:41.123Z level=warn event=change who=\"uid 0\" pid=7 \
                        msg=\"two lines \\\"quoted\\\" a=b [2J\"";
        assert_eq!(line, expected);
        assert_eq!(plain(&"\u{e9}".repeat(VALUE_MAX)).len(), VALUE_MAX);
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn the_journal_gets_a_line_for_each_field_and_no_other() {
        let expected = "MESSAGE=two lines \"quoted\" a=b [2J\nPRIORITY=4\nSYSLOG_IDENTIFIER=weir\nWEIR_EVENT=change\n\
                        WEIR_WHO=uid 0\nWEIR_PID=7\n";
        assert_eq!(entry().datagram(None), expected);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (second, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(second)), text);
        }
    }

    #[test]
    fn levels_are_ordered_by_how_much_they_matter() {
        assert!(Level::Error < Level::Warn && Level::Info < Level::Debug);
        let text = Entry::warn("configuration", "odd").prefixed("warning: ").text();
        assert_eq!(text, "warning: odd");
    }
}
