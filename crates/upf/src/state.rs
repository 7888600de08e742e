//! Associations and sessions on disk, so that a restart of this function loses none.
//!
//! A folder holds generations: `snapshot-N` is everything at one moment, and `log-N` what changed since, each
//! line with its checksum. A snapshot is written under another name, brought to the disk, and renamed; the
//! one before it stays with its log until the next is there. What is read back is the last whole snapshot
//! with all logs from it on, so that a torn snapshot costs nothing. A change is in its log before it is
//! answered: what is torn at the end of the last log was not answered, and comes again.
//!
//! The folder also says how this function bore its last time of start, so that the next is another wherever
//! sessions are lost, whatever the clock says.

use crate::control::{Saved, SavedPeer, SavedSession};
use crate::rules::Seid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a file of this form begins with, and the version of what follows.
const FORMAT: &str = "weir-upf-state";
const VERSION: u32 = 1;
/// A log that is longer than this and than the snapshot makes a new snapshot due, in bytes.
const LOG_MAX: u64 = 8 << 20;

/// Why there is no state to be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be used.
    #[error(
        "cannot use {path} to keep sessions: {error}. Remedy: name a folder of your own in `run.state`, or \"none\""
    )]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Somebody else has it.
    #[error(
        "{path} is in use by another `weir upf` (process {holder}). Remedy: end it, take over from it with --takeover, or \
         name another folder in `run.state`"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who has it, as far as that is known.
        holder: String,
    },
}

/// What a file is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    generation: u64,
    /// Our address for session management: the state of another function is none.
    node: IpAddr,
    /// Time of start, in seconds of NTP.
    recovery: u32,
    /// Which boot of the machine this was.
    boot: String,
    /// Nanoseconds from that to the start.
    started: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Head(Head),
    Peers(Vec<SavedPeer>),
    Session(Box<SavedSession>),
    Gone(Seid),
    /// The last line of a snapshot, with so many before it behind the first, itself counted.
    End(u64),
}

/// A start of this function, as peers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Its time stamp, in seconds of NTP.
    pub recovery: u32,
    /// When it was, in nanoseconds since the machine started.
    pub started: u64,
}

/// What was found in a folder.
pub struct Found {
    /// What goes on; `None` where there is nothing that could.
    pub kept: Option<(Start, Saved)>,
    /// The time of start that was borne last.
    pub last: Option<u32>,
    /// What there is to say of it, in words.
    pub said: Vec<String>,
}

/// A folder that is in use.
pub struct Store {
    folder: PathBuf,
    _lock: File,
    node: IpAddr,
    boot: String,
    start: Start,
    generation: u64,
    log: Option<File>,
    log_bytes: u64,
    snapshot_bytes: u64,
}

fn line(record: &Record) -> String {
    // There is nothing in it that has no form in JSON.
    let text = serde_json::to_string(record).unwrap_or_default();
    format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()))
}

/// The record of a line, if it is whole.
fn record(line: &str) -> Option<Record> {
    let (sum, text) = line.split_once(' ')?;
    let is_whole = u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(text.as_bytes());
    if is_whole { serde_json::from_str(text).ok() } else { None }
}

/// What a file says, and what is wrong with it.
struct Lines {
    head: Option<Head>,
    records: Vec<Record>,
    /// Whether a line is broken that is not the last, or the last is and was ended.
    is_broken: bool,
    /// Where the whole lines end.
    whole: u64,
    bytes: u64,
}

fn read(path: &Path) -> io::Result<Lines> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let mut lines =
        Lines { head: None, records: Vec::new(), is_broken: false, whole: 0, bytes: bytes.len() as u64 };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        match text.and_then(record) {
            Some(Record::Head(head)) if lines.whole == 0 => lines.head = Some(head),
            Some(record) => lines.records.push(record),
            None => {
                lines.is_broken = line.ends_with(b"\n");
                return Ok(lines);
            }
        }
        lines.whole += line.len() as u64;
    }
    Ok(lines)
}

/// Everything by its number, as the last line about it says.
#[derive(Default)]
struct Table {
    peers: Vec<SavedPeer>,
    sessions: BTreeMap<Seid, SavedSession>,
}

impl Table {
    fn apply(&mut self, records: Vec<Record>) {
        for record in records {
            match record {
                Record::Peers(peers) => self.peers = peers,
                Record::Session(session) => drop(self.sessions.insert(session.rules.seid, *session)),
                Record::Gone(seid) => drop(self.sessions.remove(&seid)),
                Record::Head(_) | Record::End(_) => {}
            }
        }
    }
}

/// How the names of the files begin that are kept.
pub const FILES: [&str; 3] = ["lock", "snapshot-", "log-"];

/// Takes the folder: nobody else does until this process ends.
///
/// # Errors
///
/// If the folder cannot be made or written, or is in use.
pub fn lock(folder: &Path) -> Result<File, Error> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| Error::Folder { path, error }
    };
    // Those above it are open to others, or only root could reach what is written by somebody else.
    folder.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(folder))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(failed(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            return Err(Error::InUse { path: folder.into(), holder: holder.trim().to_string() });
        }
        Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
    }
    let written =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed(&path))?;
    Ok(file)
}

/// Reads what the last run left, of this function alone.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn find(folder: &Path, node: IpAddr, boot: &str) -> Result<Found, Error> {
    let mut found = Found { kept: None, last: None, said: Vec::new() };
    let failed = |error| Error::Folder { path: folder.into(), error };
    let numbers = |kind: &str| -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix(kind)?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    };
    let (snapshots, logs) = (numbers("snapshot-")?, numbers("log-")?);
    let read_of = |name: String| {
        let path = folder.join(name);
        read(&path).map_err(|error| Error::Folder { path, error })
    };
    let suits = |lines: &Lines, generation: u64| match &lines.head {
        None => Err("it is torn or no such file"),
        Some(head) if head.format != FORMAT => Err("it is no such file"),
        Some(head) if head.version != VERSION => Err("it is of another version of Weir"),
        Some(head) if head.node != node => Err("it is of a function with another `n4.address`"),
        Some(head) if head.generation != generation => Err("it bears the name of another"),
        Some(_) => Ok(()),
    };
    // The last whole snapshot.
    let mut table = None;
    for generation in snapshots.iter().rev() {
        let name = format!("snapshot-{generation}");
        let mut lines = read_of(name.clone())?;
        found.last = found.last.max(lines.head.as_ref().map(|head| head.recovery));
        let is_ended = match lines.records.last() {
            Some(Record::End(count)) => *count == lines.records.len() as u64 && lines.whole == lines.bytes,
            _ => false,
        };
        let why = match suits(&lines, *generation) {
            Ok(()) if is_ended => {
                let mut all = Table::default();
                all.apply(std::mem::take(&mut lines.records));
                table = lines.head.map(|head| (*generation, head, all));
                break;
            }
            Ok(()) => "it is torn",
            Err(why) => why,
        };
        found.said.push(format!(
            "{}: refused, {why}; the one before it is used, if there is one",
            folder.join(name).display()
        ));
    }
    let Some((first, head, mut table)) = table else { return Ok(found) };
    let mut lost = None;
    for generation in logs.iter().filter(|generation| **generation >= first) {
        let name = format!("log-{generation}");
        let lines = read_of(name.clone())?;
        found.last = found.last.max(lines.head.as_ref().map(|head| head.recovery));
        // An empty one was just begun.
        if lines.bytes > 0 && lines.whole > 0 {
            lost = lost.or(suits(&lines, *generation).err());
        }
        if lines.is_broken || (lines.whole < lines.bytes && logs.last() != Some(generation)) {
            lost = lost.or(Some("it is broken"));
        }
        if let Some(why) = lost {
            found.said.push(format!("{}: refused, {why}: sessions are lost", folder.join(name).display()));
            break;
        }
        table.apply(lines.records);
    }
    if logs.binary_search(&first).is_err() {
        lost = Some("its log is not there");
        found.said.push(format!(
            "{}: sessions are lost, as the log of what changed is not there",
            folder.display()
        ));
    }
    if head.boot != boot {
        lost = Some("the machine has started again");
        found
            .said
            .push(format!("{}: the machine has started again since: sessions are lost", folder.display()));
    }
    if lost.is_none() {
        let start = Start { recovery: head.recovery, started: head.started };
        let saved = Saved { peers: table.peers, sessions: table.sessions.into_values().collect() };
        found.kept = Some((start, saved));
    }
    Ok(found)
}

impl Store {
    /// Begins to keep what goes on, in a folder that was locked: with a snapshot. The log of what changes
    /// stands before it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn begin(
        folder: &Path,
        lock: File,
        node: IpAddr,
        boot: &str,
        start: Start,
        all: impl Iterator<Item = SavedSession>,
        peers: Vec<SavedPeer>,
    ) -> io::Result<Store> {
        let newest = fs::read_dir(folder)?.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let name = name.to_str()?;
            name.strip_prefix("snapshot-").or(name.strip_prefix("log-"))?.parse::<u64>().ok()
        });
        let generation = newest.max().unwrap_or(0);
        let mut store = Store {
            folder: folder.into(),
            _lock: lock,
            node,
            boot: boot.into(),
            start,
            generation,
            log: None,
            log_bytes: 0,
            snapshot_bytes: 0,
        };
        store.snapshot(all, peers)?;
        Ok(store)
    }

    fn head(&self, generation: u64) -> String {
        line(&Record::Head(Head {
            format: FORMAT.into(),
            version: VERSION,
            generation,
            node: self.node,
            recovery: self.start.recovery,
            boot: self.boot.clone(),
            started: self.start.started,
        }))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(self.folder.join(name))
    }

    /// Writes everything, and begins a new log.
    ///
    /// # Errors
    ///
    /// If it cannot be written: what was kept before is still good, with its log.
    pub fn snapshot(
        &mut self,
        all: impl Iterator<Item = SavedSession>,
        peers: Vec<SavedPeer>,
    ) -> io::Result<()> {
        let next = self.generation + 1;
        // From here on changes stand in the new log, whether the snapshot comes to be or not.
        let mut log = self.create(&format!("log-{next}"))?;
        log.write_all(self.head(next).as_bytes())?;
        (self.log, self.log_bytes) = (Some(log), 0);
        let temporary = format!("snapshot-{next}.new");
        let mut file = io::BufWriter::with_capacity(1 << 20, self.create(&temporary)?);
        let (mut count, mut bytes) = (2, 0);
        let mut write = |text: String| {
            bytes += text.len() as u64;
            file.write_all(text.as_bytes())
        };
        write(self.head(next))?;
        write(line(&Record::Peers(peers)))?;
        for session in all {
            count += 1;
            write(line(&Record::Session(Box::new(session))))?;
        }
        write(line(&Record::End(count)))?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(self.folder.join(temporary), self.folder.join(format!("snapshot-{next}")))?;
        File::open(&self.folder)?.sync_all()?;
        // The one before stays, with the logs from it on.
        let former = std::mem::replace(&mut self.generation, next);
        self.snapshot_bytes = bytes;
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| {
                let name = name.strip_suffix(".new").unwrap_or(name);
                name.strip_prefix("snapshot-").or(name.strip_prefix("log-"))?.parse::<u64>().ok()
            });
            if number.is_some_and(|number| number < former) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Notes what changed, before it is answered: sessions as they are now, or that they are gone.
    ///
    /// # Errors
    ///
    /// If it cannot be written: what is kept is not good any more.
    pub fn note(
        &mut self,
        changed: impl Iterator<Item = (Seid, Option<SavedSession>)>,
        peers: Option<Vec<SavedPeer>>,
    ) -> io::Result<()> {
        let mut text = String::new();
        for (seid, session) in changed {
            text += &line(&session.map_or(Record::Gone(seid), |session| Record::Session(Box::new(session))));
        }
        text.extend(peers.map(|peers| line(&Record::Peers(peers))));
        if let Some(log) = self.log.as_mut().filter(|_| !text.is_empty()) {
            log.write_all(text.as_bytes())?;
            self.log_bytes += text.len() as u64;
        }
        Ok(())
    }

    /// Whether the log is so long that a snapshot should be made.
    pub fn is_long(&self) -> bool {
        self.log_bytes > LOG_MAX.max(self.snapshot_bytes)
    }

    /// What is kept is not what is: nobody shall take it for that. The time of start stays.
    pub fn spoil(&mut self) {
        self.log = None;
        let _ = fs::remove_file(self.folder.join(format!("log-{}", self.generation)));
        let _ = fs::remove_file(self.folder.join(format!("log-{}", self.generation + 1)));
    }
}
