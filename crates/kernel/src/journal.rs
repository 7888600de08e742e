//! What queues were like before they were changed, for who comes after a kill.
//!
//! One file for each process, which holds a lock on it while it lives: a line for each queue when it is
//! found, and one before each change. A later start in the same network namespace puts back what a dead
//! process left, unless somebody else has changed it meanwhile: what stands there must be one of the last two
//! values that were noted.

use crate::find::with_all;
use crate::place::{Place, is_noted};
use crate::{Kernel, Link};
use crate::{program, qdisc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use weir_dataplane::namespace::{file_of, inside};
use weir_dataplane::{LockFile, PutBack, Starting};
use weir_tc::{Handle, Message, Options, Subject};
use weir_units::Rate;

/// Where journals are kept. A tmpfs on every system with systemd, so it is empty after a reboot, as are
/// queues.
pub const JOURNALS: &str = "/run/weir/queues";
/// A journal that grows beyond this is written anew, with the last two values of each queue.
const SIZE_MAX: u64 = 4 << 20;
/// Whatever is larger is no journal.
const READ_MAX: u64 = 64 << 20;

/// A line of a journal. Messages are written as they go to the kernel, in hexadecimal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// Where it runs.
    Here { netns: u64, pid: u32 },
    /// A queue was found: the discipline, its name, and the shaper with its messages to put it back.
    Found {
        queue: usize,
        name: String,
        discipline: String,
        restore: String,
        shaper: Option<(String, String)>,
    },
    /// This is about to be set: nanoseconds, or the bytes of a FIFO.
    Target { queue: usize, value: u64 },
    /// This is about to be set, in bytes per second.
    Rate { queue: usize, bytes: u64 },
    /// The queue belongs to somebody else now.
    Left { queue: usize },
    /// From here on this puts the shaper of a queue back: rates that were noted before are in force no more.
    Shaper { queue: usize, shaper: Option<(String, String)> },
    /// A program is about to be attached to the egress of an interface, and the qdisc that holds it made, if
    /// `clsact`; and a queue in BPF at the root, if `queue`.
    Egress {
        interface: i32,
        name: String,
        clsact: bool,
        #[serde(default)]
        queue: bool,
    },
}

/// The journal of this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Held until what is noted is begun with: who starts meanwhile waits, and sees it then.
    starting: Option<Starting>,
    file: LockFile,
    written: u64,
    /// For writing anew: the lines of each queue that still say something.
    found: Vec<Option<Line>>,
    last: Vec<[Option<Line>; 4]>,
}

fn hex(message: &Message) -> String {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn message(hex: &str) -> Option<Message> {
    let byte = |at: usize| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    Message::decode(&bytes?).ok()
}

fn messages((about, restore): (String, String)) -> Option<(Message, Message)> {
    Some((message(&about)?, message(&restore)?))
}

/// The network namespace of this thread.
pub(crate) fn namespace() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino())
}

/// How a shaper is known, and what puts it back.
fn to_restore(place: &Place) -> Option<(String, String)> {
    let shaper = place.shaper.as_ref()?;
    let mut about = Message::new(shaper.subject, weir_tc::Action::Get, place.interface);
    (about.handle, about.parent) = (shaper.handle, shaper.parent);
    Some((hex(&about), hex(&shaper.restore(place.interface)?)))
}

fn starting(folder: &Path) -> io::Result<Starting> {
    Starting::wait(folder, &mut || true).map_err(|e| io::Error::other(e.to_string()))
}

impl Journal {
    /// A new journal in a folder, which is made. Until [`Journal::started`] is told, no other can be opened
    /// there, so that of two that start at once one sees the other.
    pub fn open(folder: &Path) -> io::Result<Journal> {
        let starting = Some(starting(folder)?);
        let pid = std::process::id();
        let netns = namespace();
        // A process may steer several times; each has its own.
        for number in 0..10_000 {
            let path = folder.join(format!("{pid}-{netns}-{number}.jsonl"));
            let mut options = OpenOptions::new();
            let file = match options.create_new(true).append(true).mode(0o600).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                other => LockFile::from(other?),
            };
            // Before it says anything: nobody takes the journal of a living process for that of a dead one.
            file.try_lock().map_err(|e| io::Error::other(e.to_string()))?;
            let mut journal =
                Journal { path, starting, file, written: 0, found: Vec::new(), last: Vec::new() };
            journal.append(&Line::Here { netns, pid })?;
            return Ok(journal);
        }
        Err(io::Error::other(format!("{} is full of journals", folder.display())))
    }

    /// What it notes is begun with: others may start.
    pub fn started(&mut self) {
        self.starting = None;
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line).expect("plain data is always JSON");
        text.push('\n');
        let before = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A line that was written in part would make the next one unreadable.
            let _ = self.file.set_len(before);
            return Err(error);
        }
        self.written += text.len() as u64;
        Ok(())
    }

    /// Writes what still says something into a new file, which takes the place of the old one, if that is
    /// long. The last line must be known as one of those by then.
    fn shorten(&mut self) -> io::Result<()> {
        if self.written <= SIZE_MAX {
            return Ok(());
        }
        let path = self.path.with_extension("new");
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        let mut file = LockFile::from(file);
        file.try_lock().map_err(|e| io::Error::other(e.to_string()))?;
        let here = Line::Here { netns: namespace(), pid: std::process::id() };
        let mut text = serde_json::to_string(&here).expect("plain data is always JSON") + "\n";
        for (found, last) in self.found.iter().zip(&self.last) {
            for line in found.iter().chain(last.iter().flatten()) {
                text += &serde_json::to_string(line).expect("plain data is always JSON");
                text.push('\n');
            }
        }
        file.write_all(text.as_bytes())?;
        fs::rename(&path, &self.path)?;
        (self.file, self.written) = (file, 0);
        Ok(())
    }

    /// Notes a queue as it was found; its number is the order of calls.
    pub fn found(&mut self, place: &Place) -> io::Result<()> {
        let queue = self.found.len();
        let mut discipline = Message::new(Subject::Discipline, weir_tc::Action::Get, place.interface);
        (discipline.handle, discipline.parent) = (place.handle, place.parent);
        discipline.attributes.push(weir_tc::TcAttribute::Kind(place.kind.clone()));
        let shaper = to_restore(place);
        let restore = place.restore_target().map(|m| hex(&m)).unwrap_or_default();
        let line =
            Line::Found { queue, name: place.name.clone(), discipline: hex(&discipline), restore, shaper };
        self.append(&line)?;
        self.found.push(Some(line));
        self.last.push([const { None }; 4]);
        self.shorten()
    }

    fn note(&mut self, queue: usize, first: usize, line: Line) -> io::Result<()> {
        self.append(&line)?;
        let last = &mut self.last[queue];
        last[first] = last[first + 1].replace(line);
        self.shorten()
    }

    /// Notes a target that is about to be set: nanoseconds, or the room of a FIFO in bytes.
    pub fn target(&mut self, queue: usize, value: u64) -> io::Result<()> {
        self.note(queue, 0, Line::Target { queue, value })
    }

    /// Notes a rate of the shaper that is about to be set.
    pub fn rate(&mut self, queue: usize, rate: Rate) -> io::Result<()> {
        self.note(queue, 2, Line::Rate { queue, bytes: rate.as_bps() / 8 })
    }

    /// Notes that the shaper of a queue is as `place` says, by whomever: before it is moved first, and when
    /// it was put back.
    pub fn shaper(&mut self, queue: usize, place: &Place) -> io::Result<()> {
        let line = Line::Shaper { queue, shaper: to_restore(place) };
        self.append(&line)?;
        if let (Some(Line::Found { shaper, .. }), Line::Shaper { shaper: now, .. }) =
            (&mut self.found[queue], line)
        {
            *shaper = now;
        }
        self.last[queue][2..].fill(None);
        self.shorten()
    }

    /// Notes that a queue belongs to somebody else.
    pub fn left(&mut self, queue: usize) -> io::Result<()> {
        (self.found[queue], self.last[queue]) = (None, [const { None }; 4]);
        self.append(&Line::Left { queue })?;
        self.shorten()
    }

    /// Notes a program that is about to be attached to the egress of an interface, and whether the qdisc that
    /// holds it is made for it, and a queue in BPF at the root.
    pub fn egress(&mut self, interface: i32, name: &str, clsact: bool, queue: bool) -> io::Result<()> {
        self.append(&Line::Egress { interface, name: name.into(), clsact, queue })
    }

    /// What the journals of other living processes say: each process with its entries.
    fn others(&self) -> Vec<(u32, Vec<Entry>)> {
        let all = self.path.parent().and_then(|folder| fs::read_dir(folder).ok());
        let paths = all.into_iter().flatten().flatten().map(|entry| entry.path());
        let living = paths.filter_map(|path| {
            let is_journal = path.extension().is_some_and(|e| e == "jsonl") && path != self.path;
            let file = is_journal.then(|| LockFile::open(&path).ok()).flatten()?;
            read(&file.is_taken().then(|| fs::read_to_string(&path).ok()).flatten()?)
        });
        living.collect()
    }

    /// The living process, if there is one, that steers one of these queues: process, interface, handle.
    pub fn rival(&self, places: &[(i32, Handle)]) -> Option<(u32, String, Handle)> {
        self.others().into_iter().find_map(|(pid, entries)| {
            entries.into_iter().find_map(|entry| {
                let about = entry.discipline?;
                let is_same = places.contains(&(about.interface, about.handle));
                is_same.then_some((pid, entry.name, about.handle))
            })
        })
    }

    /// The living process, if there is one, that has a program at the egress of this interface, and the
    /// interface's name.
    pub fn rival_at(&self, interface: i32) -> Option<(u32, String)> {
        self.others().into_iter().find_map(|(pid, entries)| {
            let mut at = entries.into_iter().filter(|e| e.egress.is_some_and(|egress| egress.0 == interface));
            at.next().map(|entry| (pid, entry.name))
        })
    }

    /// Removes the journal: everything was put back, or is to stay.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What a journal says of one queue.
#[derive(Default)]
struct Entry {
    name: String,
    discipline: Option<Message>,
    restore: Option<Message>,
    shaper: Option<(Message, Message)>,
    targets: Vec<u64>,
    rates: Vec<u64>,
    /// A program at the egress of this interface, whether its qdisc was made for it, and whether a queue was
    /// put at the root.
    egress: Option<(i32, bool, bool)>,
}

/// The process and the queues of a journal of this network namespace, in their order; `None` if it is of
/// another, or none.
fn read(text: &str) -> Option<(u32, Vec<Entry>)> {
    // A line of which a part was written, as by a kill or on a full disk, says nothing.
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let pid = match lines.next()? {
        Line::Here { netns, pid } if netns == namespace() => pid,
        _ => return None,
    };
    let mut entries: BTreeMap<usize, Entry> = Default::default();
    let mut egresses = Vec::new();
    for line in lines {
        match line {
            Line::Here { .. } => return None,
            Line::Found { queue, name, discipline, restore, shaper } => {
                let shaper = shaper.and_then(messages);
                let (discipline, restore) = (message(&discipline), message(&restore));
                entries.insert(queue, Entry { name, discipline, restore, shaper, ..Entry::default() });
            }
            Line::Target { queue, value } => {
                entries.entry(queue).or_default().targets.push(value);
            }
            Line::Rate { queue, bytes } => {
                entries.entry(queue).or_default().rates.push(bytes);
            }
            Line::Shaper { queue, shaper } => {
                let entry = entries.entry(queue).or_default();
                (entry.shaper, entry.rates) = (shaper.and_then(messages), Vec::new());
            }
            Line::Left { queue } => {
                entries.remove(&queue);
            }
            Line::Egress { interface, name, clsact, queue } => {
                egresses.push(Entry { name, egress: Some((interface, clsact, queue)), ..Entry::default() });
            }
        }
    }
    Some((pid, entries.into_values().chain(egresses).collect()))
}

fn last_two(all: &[u64]) -> impl Iterator<Item = u64> + '_ {
    all.iter().rev().take(2).copied()
}

/// What stands now where a queue and its shaper were changed; none where that is gone.
fn standing(
    entry: &Entry,
    about: &Message,
    kernel: &mut dyn Kernel,
) -> Result<[Option<Message>; 2], weir_tc::Error> {
    let mut at = |about: &Message| -> Result<Option<Message>, weir_tc::Error> {
        let (interface, handle) = (about.interface, about.handle);
        let all = with_all(
            || match about.subject {
                Subject::Class => kernel.classes(interface),
                Subject::Discipline => kernel.disciplines(interface),
            },
            [handle],
        )?;
        Ok(all.into_iter().find(|m| m.handle == handle))
    };
    let shaper = entry.shaper.as_ref().map(|(shaper, _)| at(shaper)).transpose()?;
    Ok([at(about)?, shaper.flatten()])
}

/// Takes what is at the egress of an interface off again; says what was done, or returns why not.
fn take_off(
    entry: &Entry,
    (interface, clsact, queue): (i32, bool, bool),
    what: &str,
    kernel: &mut dyn Kernel,
    said: &mut Vec<PutBack>,
) -> Result<(), String> {
    let told = |error: weir_tc::Error| error.to_string();
    // The number may be that of another interface by now, or the interface have another name.
    let is_it = |i: &weir_tc::Interface| i.index == interface && i.name == entry.name;
    let has_program = program::attached(interface).is_some();
    let is_there = has_program || (clsact || queue) && kernel.interfaces().map_err(told)?.iter().any(is_it);
    if !is_there {
        return Ok(());
    }
    let root = if queue { qdisc::root(kernel, interface).map_err(told)? } else { None };
    let has_queue = root.is_some_and(|m| qdisc::is_ours(m.kind()));
    // The queue first: it is nothing without what admits packets to it.
    let removed = if has_queue { qdisc::remove(kernel, interface) } else { Ok(()) };
    removed.map_err(told).and(program::detach(kernel, interface, clsact))?;
    if has_program || has_queue {
        said.push(PutBack::Done(format!("{}: took the {what} off", entry.name)));
    }
    Ok(())
}

/// Puts one queue back, and says in words what was done, or why not; whether nothing is left to do.
fn put_back(entry: &Entry, kernel: &mut dyn Kernel, said: &mut Vec<PutBack>) -> bool {
    let failed = if let Some(egress) = entry.egress {
        let what = if egress.2 { "queue in BPF" } else { "virtual queue" };
        match take_off(entry, egress, what, kernel, said) {
            Ok(()) => return true,
            Err(error) => format!("{}: NOT taken the {what} off: {error}", entry.name),
        }
    } else if let Some(about) = &entry.discipline {
        let kind = about.kind().map(ToString::to_string).unwrap_or_default();
        let label = format!("{} {kind} {}", entry.name, about.handle);
        match restore(entry, about, &label, kernel, said) {
            Ok(is_done) => return is_done,
            Err(error) => format!("{label}: NOT put back: {error}"),
        }
    } else {
        return true;
    };
    said.push(PutBack::Failed(failed));
    false
}

/// Puts target and shaper of a queue back where they are as they were set; whether nothing is left to do.
/// What cannot be asked now is an error, and asked at the next start.
fn restore(
    entry: &Entry,
    about: &Message,
    label: &str,
    kernel: &mut dyn Kernel,
    said: &mut Vec<PutBack>,
) -> Result<bool, weir_tc::Error> {
    // The number may be that of another interface by now.
    match kernel.interfaces()?.iter().find(|i| i.index == about.interface) {
        Some(interface) if interface.name == entry.name => {}
        Some(interface) => {
            let told =
                format!("{label}: its interface is called {} now; it is left as it is", interface.name);
            said.push(PutBack::LeftAlone(told));
            return Ok(true);
        }
        None => return Ok(true),
    }
    let [target_now, shaper_now] = standing(entry, about, kernel)?;
    let mut is_done = true;
    let mut restore = |order: &Message, what: String, kernel: &mut dyn Kernel| {
        let done = kernel.change(order);
        is_done &= done.is_ok();
        said.push(match done {
            Ok(()) => PutBack::Done(format!("{label}: put its {what} back")),
            Err(e) => PutBack::Failed(format!("{label}: NOT put its {what} back: {e}")),
        });
    };
    let mut foreign = Vec::new();
    if let (Some(order), false) = (&entry.restore, entry.targets.is_empty()) {
        let target = target_now.filter(|m| m.kind() == about.kind() && m.parent == about.parent);
        match target.as_ref().and_then(Message::options) {
            Some(now) if last_two(&entry.targets).any(|ours| is_noted(now, ours)) => {
                restore(order, "target".into(), kernel);
            }
            _ => foreign.push("target"),
        }
    }
    if let (Some((about, order)), false) = (&entry.shaper, entry.rates.is_empty()) {
        match shaper_now.and_then(|m| m.options().and_then(Options::shaped_rate)) {
            Some(now) if last_two(&entry.rates).any(|ours| ours == now) => {
                restore(order, format!("shaper's rate ({})", about.handle), kernel);
            }
            _ => foreign.push("rate"),
        }
    }
    said.extend(foreign.iter().map(|what| {
        let told = format!("{label}: somebody else changed its {what} meanwhile; it is left as it is");
        PutBack::LeftAlone(told)
    }));
    Ok(is_done)
}

/// Puts back what processes left that are dead; says what was done. Journals of other network namespaces
/// stay, and those of which something could not be put back, for the next try.
pub fn restore_dead(folder: &Path, kernel: &mut dyn Kernel) -> Vec<PutBack> {
    let mut said = Vec::new();
    match fs::read_dir(folder) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return said,
        Err(e) => {
            let told = format!("{}: NOT looked into: {e}. Remedy: ask as root", folder.display());
            return vec![PutBack::Failed(told)];
        }
    }
    // Who starts meanwhile would have taken off what it attached.
    let _starting = match starting(folder) {
        Ok(lock) => lock,
        Err(e) => return vec![PutBack::Failed(format!("NOT put back: {e}"))],
    };
    let Ok(all) = fs::read_dir(folder) else { return said };
    let mut paths: Vec<PathBuf> = all.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    paths.sort();
    for path in paths {
        let odd = || {
            let told = format!("{}: not a journal; left alone. Remedy: remove it", path.display());
            PutBack::LeftAlone(told)
        };
        let Ok(file) = LockFile::open(&path) else { continue };
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            said.push(odd());
            continue;
        }
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => {}
            // Whoever lives wrote it anew meanwhile, and holds the lock of that one.
            Ok(()) => continue,
            // Somebody lives, or somebody else puts it back.
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(e)) => {
                said.push(PutBack::Failed(format!("{}: NOT put back: {e}", path.display())));
                continue;
            }
        }
        let mut text = String::new();
        if file.metadata().is_ok_and(|m| m.len() > READ_MAX) || (&*file).read_to_string(&mut text).is_err() {
            said.push(odd());
            continue;
        }
        let Some((_, entries)) = read(&text) else {
            // That of another network namespace stays.
            let first = text.lines().next().map(serde_json::from_str::<Line>);
            if !matches!(first, None | Some(Ok(Line::Here { .. }))) {
                said.push(odd());
            }
            continue;
        };
        // Last first, as shapers may be shared.
        let left = entries.iter().rev().filter(|entry| !put_back(entry, kernel, &mut said)).count();
        if left == 0 {
            let _ = fs::remove_file(&path);
        }
    }
    said
}

/// Whether a file that is open is still the one of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let known = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(known) == fs::metadata(path).ok().map(known)
}

/// A journal of a process that is dead, which nobody else looks at while the file is open.
struct Dead {
    path: PathBuf,
    pid: u32,
    netns: u64,
    _lock: LockFile,
}

fn dead(folder: &Path) -> Vec<Dead> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let journals = all.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let found = journals.filter_map(|path| {
        let file = LockFile::open(&path).ok()?;
        file.try_lock().ok().filter(|()| is_at(&file, &path))?;
        let mut first = String::new();
        BufReader::new((&*file).take(READ_MAX)).read_line(&mut first).ok()?;
        match serde_json::from_str(&first).ok()? {
            Line::Here { netns, pid } => Some(Dead { path, pid, netns, _lock: file }),
            _ => None,
        }
    });
    found.collect()
}

/// Whether a network namespace is gone: no process is in it or has it open, and it is mounted nowhere.
/// `false` where that cannot be known.
fn is_gone(netns: u64) -> bool {
    let name = format!("net:[{netns}]");
    let is_it = |path: &Path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == name.as_str());
    let within =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Without init's namespaces those of others are not seen either.
    if fs::read_link("/proc/1/ns/net").is_err() {
        return false;
    }
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    !within("/proc".into()).filter(is_number).any(|process| {
        let mounted = fs::read_to_string(process.join("mountinfo")).unwrap_or_default().contains(&name);
        mounted
            || within(process.join("task")).any(|task| is_it(&task.join("ns/net")))
            || within(process.join("fd")).any(|open| is_it(&open))
    })
}

/// What dead processes left to be put back, in words; nothing is changed.
pub fn left_behind(folder: &Path) -> Vec<String> {
    let told = |one: Dead| {
        let Dead { pid, netns, .. } = one;
        match netns {
            _ if netns == namespace() => format!("queues that process {pid} changed"),
            _ if is_gone(netns) => {
                format!("the record of process {pid} about a network namespace that is gone ({netns})")
            }
            _ => format!("queues that process {pid} changed in another network namespace ({netns})"),
        }
    };
    dead(folder).into_iter().map(told).collect()
}

/// Puts back what dead processes left in every network namespace that can be entered, and removes the
/// journals of those that are gone; says what was done.
pub fn restore_everywhere(folder: &Path) -> Vec<PutBack> {
    let here = namespace();
    let restore = || match Link::open() {
        Ok(mut link) => restore_dead(folder, &mut link),
        Err(e) => vec![PutBack::Failed(format!("queues of the kernel: NOT put back: {e}"))],
    };
    let mut said = restore();
    said.extend(remove_vanished(folder));
    let elsewhere: BTreeSet<u64> = dead(folder).iter().map(|one| one.netns).filter(|n| *n != here).collect();
    for netns in elsewhere {
        let Some(file) = file_of(netns) else {
            let told = format!(
                "queues in the network namespace {netns}: NOT put back: no name and no process leads to it. Remedy: \
                 `weir doctor --clean` inside of it"
            );
            said.push(PutBack::Failed(told));
            continue;
        };
        let name = file.display();
        match inside(&file, restore) {
            Ok(lines) => said.extend(lines.into_iter().map(|line| line.within(&name))),
            Err(e) => said.push(PutBack::Failed(format!(
                "queues in {name}: NOT put back: cannot enter it: {e}. Remedy: `nsenter --net={name} weir doctor \
                 --clean` as root"
            ))),
        }
    }
    said
}

/// Removes the journals of dead processes whose network namespace is gone, and its queues with it; says
/// which.
pub fn remove_vanished(folder: &Path) -> Vec<PutBack> {
    let vanished = dead(folder).into_iter().filter(|one| one.netns != namespace() && is_gone(one.netns));
    let told = |Dead { path, pid, netns, .. }: Dead| match fs::remove_file(&path) {
        Ok(()) => {
            PutBack::Done(format!("removed the record of process {pid}: network namespace {netns} is gone"))
        }
        Err(e) => PutBack::Failed(format!("NOT removed {}: {e}", path.display())),
    };
    vanished.map(told).collect()
}
