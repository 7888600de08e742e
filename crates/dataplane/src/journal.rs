//! What a run changes of its interfaces, and how it is put back.
//!
//! Every change is written to a journal before it is made. A clean exit undoes the changes and removes the
//! journal. After a crash, and where a run leaves its ports to the kernel, the journal stays: the next start
//! on the same ports takes over what it says, without taking anything off, and `weir doctor --clean` undoes
//! it wherever it is. A living run holds a lock on its journal, which tells it from a dead one also across
//! PID namespaces.

use crate::interface::{Interface, OFFLOADS, Offload};
use crate::lock::LockFile;
use crate::{Error, guard, namespace};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Where journals are kept. A tmpfs on every system with systemd, so it is empty after a reboot, as are
/// the interfaces' settings.
pub const JOURNALS: &str = "/run/weir";
/// Beside them, what is locked while a run starts.
const LOCK: &str = "starting.lock";
/// A journal is a few lines; whatever is larger is none.
const SIZE_MAX: u64 = 1 << 20;
/// How long a start waits for another one that does not go on, and for a run that it takes over.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// A change made to an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Change {
    /// An offload of this name was on and was switched off.
    Offload(String),
    /// The interface was down.
    Up,
    /// Programs were attached.
    Programs { created_clsact: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    interface: Interface,
    change: Change,
}

/// The changes of one run, undone on drop unless the run panicked or the changes are to stay.
#[derive(Debug)]
pub struct Journal {
    path: Option<PathBuf>,
    content: Content,
    /// Locked while this process lives.
    lock: Option<LockFile>,
    /// Whether the changes stay when this is dropped.
    stays: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    pid: u32,
    /// When the process started, in ticks since the boot; zero once it has left the ports.
    started: u64,
    netns: u64,
    /// The kernel's name for the namespace. The number above is given again to a later one, which must not
    /// be changed by the journal of an earlier one.
    #[serde(default)]
    netns_cookie: Option<u64>,
    /// Whether the kernel forwards between the ports when the run is gone.
    #[serde(default)]
    fails_open: bool,
    /// Whether the run ended in order and left its ports to the kernel.
    #[serde(default)]
    kept: bool,
    records: Vec<Record>,
}

impl Journal {
    /// An empty journal. Kept in memory only if `persistent` is false, as in namespaces that die anyway.
    pub fn open(persistent: bool, fails_open: bool) -> Result<Journal, Error> {
        let pid = std::process::id();
        let content = Content {
            pid,
            started: start_time(pid).unwrap_or(0),
            netns: namespace::number(),
            netns_cookie: namespace::cookie(),
            fails_open,
            kept: false,
            records: Vec::new(),
        };
        let path = if persistent {
            make(Path::new(JOURNALS))?;
            Some(free_name(Path::new(JOURNALS), &format!("{pid}-{}", content.netns)))
        } else {
            None
        };
        Ok(Journal { path, content, lock: None, stays: false })
    }

    fn note(&mut self, interface: &Interface, change: Change) -> Result<(), Error> {
        let record = Record { interface: interface.clone(), change };
        if self.content.records.contains(&record) {
            return Ok(());
        }
        self.content.records.push(record);
        let written = self.write();
        if written.is_err() {
            // What is not noted is not changed.
            self.content.records.pop();
        }
        written
    }

    fn write(&mut self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.content).expect("plain data is always JSON");
        let temporary = path.with_extension("new");
        let written = create(&temporary).and_then(|mut file| {
            // Before it has its name: nobody sees a journal of a living run without a lock. Where files
            // cannot be locked, the process tells whether the run lives.
            let _ = file.try_lock();
            // It need not last longer than what it tells of: neither outlives the system.
            file.write_all(&text)?;
            fs::rename(&temporary, path)?;
            Ok(file)
        });
        let written = written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            let what = format!(
                "cannot write the journal {}, without which nothing is changed. Remedy: make room in {JOURNALS}",
                path.display()
            );
            Error::io(what, e)
        });
        self.lock = Some(written?.into());
        Ok(())
    }

    /// Takes over what earlier runs changed of these ports, and what living ones did if `takes_over` says so;
    /// undoes what such runs changed whose ports are not the same. What others keep forwarding is left alone.
    /// Whoever calls holds [`Starting`].
    pub fn take_over(&mut self, ports: &[Interface], takes_over: bool) -> Result<TakenOver, Error> {
        let mut taken = TakenOver::default();
        for (path, found) in journals() {
            let mut content = match found {
                Ok(content) => content,
                Err(odd) => {
                    taken.said.push(odd.to_string());
                    continue;
                }
            };
            if !content.is_here() || !content.is_about(ports) {
                continue;
            }
            let is_same = content.has_just(ports) && content.fails_open == self.content.fails_open;
            if is_alive(&path, &content) {
                // What else attached its programs there is found by looking at the port.
                if !takes_over {
                    continue;
                }
                if !is_same {
                    return Err(Error::Refused(content.only_in_part(ports)));
                }
                taken.links = ports.iter().map(|port| guard::xdp_link(port.index)).collect();
                ask_to_leave(&path, &content)?;
                // While it was asked it may have changed more, such as an offload that others switched on.
                content = read(&path).map_err(Error::Refused)?;
                let pid = content.pid;
                let meanwhile = if content.fails_open { "; the kernel forwards meanwhile" } else { "" };
                taken.said.push(format!("took over from process {pid}{meanwhile}"));
            } else if is_same && content.fails_open {
                let why =
                    if content.kept { "after a run that kept forwarding" } else { "after a killed run" };
                taken
                    .said
                    .push(format!("{why}: took over its ports, between which the kernel forwards meanwhile"));
            } else {
                let lines = undo(&path, content).into_iter();
                taken.said.extend(lines.map(|line| format!("after a killed run: {line}")));
                continue;
            }
            taken.is_any = true;
            self.stays = true;
            for record in content.records {
                if !self.content.records.contains(&record) {
                    self.content.records.push(record);
                }
            }
            // Both say the same until the earlier one is removed; to undo it twice does no harm.
            self.write()?;
            if Some(&path) != self.path.as_ref() {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(taken)
    }

    /// The process that wants to take over, if one does.
    pub fn is_asked_for(&self) -> Option<u32> {
        let text = fs::read_to_string(self.path.as_ref()?.with_extension("takeover")).ok()?;
        Some(text.trim().parse().unwrap_or(0))
    }

    /// What was changed stays, for the next run or for `weir doctor --clean`; `kept` says that the run ended
    /// in order.
    pub fn leave(mut self, kept: bool) {
        self.stays = true;
        self.content.kept = kept;
        // The process has something to tell yet, and no more to do with the ports.
        self.content.started = 0;
        // The journal is there already; it only says less if this fails.
        let _ = self.write();
    }

    /// Switches off what would break forwarding and brings the port up; says in words what it did.
    pub fn prepare(&mut self, interface: &Interface) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for offload in &OFFLOADS {
            // An interface without the feature has nothing to switch off.
            let name = &interface.name;
            match interface.feature(offload) {
                Ok(true) => match self.switch_off(interface, offload) {
                    Ok(()) => said.push(format!("{name}: switched {} off", offload.name)),
                    Err(e) => said.push(format!("{name}: {} stays on ({e})", offload.name)),
                },
                // It is found and switched off later if it is on.
                Err(Error::Os { error, .. }) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => {
                    let offload = offload.name;
                    said.push(format!("{name}: the system does not tell whether {offload} is on ({error})"));
                }
                Ok(false) | Err(_) => {}
            }
        }
        if !interface.is_up()? {
            self.note(interface, Change::Up)?;
            interface.set_up(true)?;
            said.push(format!("{}: brought up", interface.name));
        }
        Ok(said)
    }

    /// Switches an offload off, and looks whether it is.
    pub fn switch_off(&mut self, interface: &Interface, offload: &Offload) -> Result<(), Error> {
        self.note(interface, Change::Offload(offload.name.into()))?;
        interface.set_feature(offload, false)?;
        match interface.feature(offload)? {
            true => Err(Error::Refused("the driver leaves it on".into())),
            false => Ok(()),
        }
    }

    /// Notes that programs are about to be attached.
    pub fn programs(&mut self, interface: &Interface) -> Result<(), Error> {
        self.note(interface, Change::Programs { created_clsact: false })
    }

    /// Makes the `clsact` qdisc that holds the filter where the port has none, and notes that it is ours.
    pub fn bring_clsact(&mut self, interface: &Interface) -> Result<(), Error> {
        // Before it is created, so that it does not stay if the process is killed in between.
        let is_ours =
            Record { interface: interface.clone(), change: Change::Programs { created_clsact: true } };
        let is_new = !guard::has_clsact(interface.index) && !self.content.records.contains(&is_ours);
        if is_new {
            self.note(interface, is_ours.change.clone())?;
        }
        match guard::create_clsact(interface.index) {
            Ok(true) => self.note(interface, is_ours.change),
            made => {
                if is_new {
                    // It was there though it did not seem so, or is not there now: nothing of that is ours.
                    self.content.records.retain(|record| *record != is_ours);
                    self.write()?;
                }
                made.map(drop)
            }
        }
    }

    /// Puts everything back, last change first; says in words what it could not put back. What the system
    /// refuses stays in the journal, for the next start or `weir doctor --clean`.
    pub fn restore(&mut self) -> Vec<String> {
        let said = self.content.restore().into_iter().filter_map(Result::err).collect();
        if self.content.records.is_empty() {
            if let Some(path) = self.path.take() {
                let _ = fs::remove_file(path);
            }
        } else {
            // The process may have other links yet, and has no more to do with these ports.
            self.content.started = 0;
            // The journal that is there says more if this fails, and to undo that again does no harm.
            let _ = self.write();
            (self.path, self.stays) = (None, true);
        }
        self.lock = None;
        said
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After a panic of the loop the kernel goes on forwarding, as after a kill; the next start or
        // `weir doctor --clean` puts everything back then.
        if !self.stays && !std::thread::panicking() {
            self.restore();
        }
    }
}

/// What was taken over from earlier runs.
#[derive(Debug, Default)]
pub struct TakenOver {
    /// Whether the kernel forwards between the ports now.
    pub is_any: bool,
    /// The links of XDP programs that a living run had on the ports, which stay as long as these are open.
    pub links: Vec<Option<OwnedFd>>,
    /// In words.
    pub said: Vec<String>,
}

/// Sleeps until the next look; how much of it counts as waiting: while this thread did not run, whoever is
/// waited for may not have run either.
fn pause() -> Duration {
    let begun = Instant::now();
    std::thread::sleep(LOOK);
    begun.elapsed().min(2 * LOOK)
}

/// Asks a run to leave its ports to the kernel, and waits until it is gone.
fn ask_to_leave(path: &Path, content: &Content) -> Result<(), Error> {
    let request = path.with_extension("takeover");
    let asked = create(&request).and_then(|mut file| write!(file, "{}", std::process::id()));
    asked.map_err(|e| Error::io(format!("cannot write {}", request.display()), e))?;
    let (mut waited, mut is_gone) = (Duration::ZERO, false);
    while !is_gone && waited < PATIENCE {
        waited += pause();
        // It may have written it anew as it left.
        is_gone = !is_alive(path, read(path).as_ref().unwrap_or(content));
    }
    let _ = fs::remove_file(&request);
    if !is_gone {
        return Err(Error::Refused(format!(
            "the run that has these ports (process {}) does not leave them within {} s. Remedy: kill it, and start again",
            content.pid,
            PATIENCE.as_secs()
        )));
    }
    if !path.exists() {
        return Err(Error::Refused(format!(
            "the run that has these ports (process {}) ended by itself and put them back. Remedy: start again",
            content.pid
        )));
    }
    Ok(())
}

/// A name for a journal that no link of this process has: all but the first have a number.
fn free_name(folder: &Path, stem: &str) -> PathBuf {
    let has_link = |path: &PathBuf| read(path).is_ok_and(|content| is_alive(path, &content));
    let numbered = (2..).map(|number| folder.join(format!("{stem}-{number}.json")));
    let mut names = std::iter::once(folder.join(format!("{stem}.json"))).chain(numbered);
    names.find(|path| !has_link(path)).expect("there is no end of numbers")
}

/// Whether the run of a journal lives: it holds the lock, also in another PID namespace, or its process is
/// there.
fn is_alive(path: &Path, content: &Content) -> bool {
    LockFile::open(path).is_ok_and(|file| file.is_taken()) || start_time(content.pid) == Some(content.started)
}

impl Content {
    /// Interfaces that have programs of the run.
    fn guarded(&self) -> Vec<u32> {
        let guarded = self.records.iter().filter(|r| matches!(r.change, Change::Programs { .. }));
        let mut guarded: Vec<u32> = guarded.map(|r| r.interface.index).collect();
        guarded.sort_unstable();
        guarded.dedup();
        guarded
    }

    /// Whether it changed any of these ports.
    fn is_about(&self, ports: &[Interface]) -> bool {
        self.records.iter().any(|record| ports.iter().any(|port| port.index == record.interface.index))
    }

    /// Whether its ports are these and no others.
    fn has_just(&self, ports: &[Interface]) -> bool {
        let mut wanted: Vec<u32> = ports.iter().map(|port| port.index).collect();
        wanted.sort_unstable();
        self.guarded() == wanted
    }

    /// Why these ports cannot be taken over from a run that lives.
    fn only_in_part(&self, ports: &[Interface]) -> String {
        let names = |interfaces: &[Interface]| {
            interfaces.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let mut theirs: Vec<Interface> = Vec::new();
        for record in &self.records {
            if !theirs.contains(&record.interface) {
                theirs.push(record.interface.clone());
            }
        }
        let (own, theirs, pid) = (names(ports), names(&theirs), self.pid);
        if self.has_just(ports) {
            return format!(
                "process {pid} has {theirs} for something else, which --takeover does not go on with. Remedy: end that \
                 process first"
            );
        }
        format!(
            "process {pid} has {theirs}, and --takeover takes the same ports, which these ({own}) are not. Remedy: \
             name {theirs}, or end that process first"
        )
    }

    /// Whether its interfaces are in this network namespace.
    fn is_here(&self) -> bool {
        self.netns == namespace::number()
            // Where the kernel has no name for the namespace, or does not tell it, the number has to do: a
            // journal that nobody finds would leave its ports to nobody.
            && self.netns_cookie.is_none_or(|cookie| namespace::cookie().is_none_or(|now| now == cookie))
    }

    /// Says in words what was put back, as an error what was not. What the system refused, and may grant
    /// later, stays in the records.
    fn restore(&mut self) -> Vec<Result<String, String>> {
        let (mut said, mut left) = (Vec::new(), Vec::new());
        for record in std::mem::take(&mut self.records).into_iter().rev() {
            match restore_one(&record) {
                Undone::Silently => {}
                // Programs and the qdisc that they hang on are noted apart.
                Undone::Yes(line) if said.contains(&Ok(line.clone())) => {}
                Undone::Yes(line) => said.push(Ok(line)),
                Undone::Never(line) => said.push(Err(line)),
                Undone::NotNow(line) => {
                    said.push(Err(line));
                    left.push(record);
                }
            }
        }
        left.reverse();
        self.records = left;
        said
    }
}

/// What came of looking for what killed runs left, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PutBack {
    /// It was put back, or removed.
    Done(String),
    /// It could not be.
    Failed(String),
    /// It is none of ours, or was changed by others meanwhile.
    LeftAlone(String),
}

impl PutBack {
    /// In words.
    pub fn text(&self) -> &str {
        let (PutBack::Done(text) | PutBack::Failed(text) | PutBack::LeftAlone(text)) = self;
        text
    }

    /// The same with the place where it was.
    pub fn within(self, place: &dyn Display) -> PutBack {
        let placed = |text: String| format!("in {place}: {text}");
        match self {
            PutBack::Done(text) => PutBack::Done(placed(text)),
            PutBack::Failed(text) => PutBack::Failed(placed(text)),
            PutBack::LeftAlone(text) => PutBack::LeftAlone(placed(text)),
        }
    }
}

impl Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What came of putting a change back, in words.
enum Undone {
    /// It went with the interface.
    Silently,
    Yes(String),
    /// The interface is not here any more.
    Never(String),
    /// The system refuses it.
    NotNow(String),
}

/// Puts one change back. Of an interface that is not here any more only the offloads are worth a word: the
/// rest went when it was removed or moved.
fn restore_one(record: &Record) -> Undone {
    let Record { interface, change } = record;
    let name = &interface.name;
    if !interface.exists() {
        let Change::Offload(offload) = change else { return Undone::Silently };
        return Undone::Never(format!(
            "{name}: NOT switched {offload} back on: it is not in this network namespace any more. Remedy, if it was \
             moved to another one: `ethtool -K {name} {offload} on` there"
        ));
    }
    let (what, result) = match change {
        Change::Offload(name) => {
            let offload = OFFLOADS.iter().find(|o| o.name == name);
            let result = offload.map_or(Ok(()), |o| interface.set_feature(o, true));
            (format!("switched {name} back on"), result)
        }
        Change::Up => ("brought down again".to_string(), interface.set_up(false)),
        Change::Programs { created_clsact } => {
            ("took the programs off".to_string(), guard::detach(interface.index, *created_clsact))
        }
    };
    match result {
        Ok(()) => Undone::Yes(format!("{name}: {what}")),
        Err(_) if !interface.exists() => Undone::Silently,
        Err(error) => Undone::NotNow(format!(
            "{name}: NOT {what}: {error}. Remedy: `weir doctor --clean` tries it again"
        )),
    }
}

/// Makes a file. Whatever else has its name goes, unless it is a folder: to write to a pipe would be to wait.
fn create(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
    }
}

/// Makes the folder of journals and locks, and closes it to others: who could lock what lies there would keep
/// every run from starting, and a journal says what is to be done as root.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    // SAFETY: no pointers are involved.
    if found.uid() != unsafe { libc::geteuid() } {
        // Of another user, whom it would have to be changed by.
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn make(folder: &Path) -> Result<(), Error> {
    make_folder(folder).map_err(|e| Error::io(format!("cannot create {}", folder.display()), e))
}

/// The right to look at ports and take them: of two runs that start at the same instant, the second sees what
/// the first attached. Given back when dropped, also by a crash.
#[derive(Debug)]
pub struct Starting(LockFile);

impl Starting {
    /// Waits for it, for as long as `go_on` says so. The folder is that of the journals, which is made and
    /// closed to others.
    pub fn wait(folder: &Path, go_on: &mut dyn FnMut() -> bool) -> Result<Starting, Error> {
        make(folder)?;
        Starting::lock(&folder.join(LOCK), PATIENCE, go_on)
    }

    /// Says that this start goes on, which may take long with many queues: whoever waits goes on to do so.
    pub(crate) fn goes_on(&self) {
        // Without it others wait for a shorter time.
        let _ = self.0.set_modified(SystemTime::now());
    }

    /// Waits for as long as the starts before this one go on: each time `patience` is over it is looked
    /// whether one said so meanwhile, or had some of the processors' time, as a step may take long.
    /// Others may not open the file: who can has it locked for as long as he likes.
    fn lock(path: &Path, patience: Duration, go_on: &mut dyn FnMut() -> bool) -> Result<Starting, Error> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::io(format!("cannot lock {}", path.display()), error),
            _ => Error::Refused(format!("cannot lock {}: {error}. Remedy: remove it", path.display())),
        };
        let mut options = fs::OpenOptions::new();
        // Of a pipe or a device nobody waits for the other end.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        let file = LockFile::from(options.open(path).map_err(refused)?);
        if !file.metadata().map_err(refused)?.is_file() {
            return Err(refused(io::Error::other("it is not a regular file")));
        }
        // One that an earlier version made was open to others.
        let _ = file.set_permissions(fs::Permissions::from_mode(0o600));
        let signs = || (file.metadata().and_then(|about| about.modified()).ok(), time_of_holder(&file));
        let (mut waited, mut before) = (Duration::ZERO, signs());
        loop {
            match file.try_lock() {
                Ok(()) => {
                    // Without its number it is known by its steps alone.
                    // SAFETY: no pointers are involved.
                    let thread = unsafe { libc::gettid() }.to_string();
                    let _ = file.set_len(0).and_then(|()| file.write_all_at(thread.as_bytes(), 0));
                    let starting = Starting(file);
                    starting.goes_on();
                    return Ok(starting);
                }
                Err(fs::TryLockError::Error(error)) => return Err(refused(error)),
                Err(fs::TryLockError::WouldBlock) if !go_on() => return Err(Error::GivenUp),
                Err(fs::TryLockError::WouldBlock) => waited += pause(),
            }
            if waited >= patience {
                let now = signs();
                if std::mem::replace(&mut before, now) == now {
                    break;
                }
                waited = Duration::ZERO;
            }
        }
        Err(Error::Refused(format!(
            "{} is locked by another program for more than {} s. Remedy: `fuser -v {}` names it; end it, and start again",
            path.display(),
            patience.as_secs_f64(),
            path.display()
        )))
    }
}

impl Drop for Starting {
    /// Whoever has the lock next, and says nothing, is not taken for this thread.
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
    }
}

/// Reads a journal. Whatever else has the name of one must neither block nor fill the memory.
fn read(path: &Path) -> Result<Content, String> {
    let odd = |what: String| format!("{}: {what}; left alone. Remedy: remove it", path.display());
    let is_file = fs::symlink_metadata(path).map_err(|e| odd(e.to_string()))?.is_file();
    if !is_file {
        return Err(odd("not a journal but no regular file at all".into()));
    }
    let mut text = Vec::new();
    let file = LockFile::open(path).map_err(|e| odd(e.to_string()))?;
    (&*file).take(SIZE_MAX).read_to_end(&mut text).map_err(|e| odd(e.to_string()))?;
    parse(&text).map_err(odd)
}

fn parse(text: &[u8]) -> Result<Content, String> {
    serde_json::from_slice(text).map_err(|e| format!("not a journal ({e})"))
}

/// A journal as it would be written again, or why it is none; for those who test the reader.
#[doc(hidden)]
pub fn rewritten(text: &[u8]) -> Result<Vec<u8>, String> {
    parse(text).map(|content| serde_json::to_vec(&content).expect("plain data is always JSON"))
}

/// The journals of runs in any network namespace; an error for what is no journal.
fn journals() -> Vec<(PathBuf, Result<Content, PutBack>)> {
    let folder = PathBuf::from(JOURNALS);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(e) => {
            let odd = format!("{JOURNALS}: NOT looked into: {e}. Remedy: ask as root");
            return vec![(folder, Err(PutBack::Failed(odd)))];
        }
    };
    // Other files there, as those of `weir upf session`, begin with a word.
    let begins_with_number = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.as_encoded_bytes());
        name.and_then(|name| name.first()).is_some_and(u8::is_ascii_digit)
    };
    let is_journal =
        |path: &PathBuf| path.extension().is_some_and(|x| x == "json") && begins_with_number(path);
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_journal).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(&path).map_err(PutBack::LeftAlone))).collect()
}

/// The process that has an interface of this network namespace for a port, if one does: what it forwards
/// passes by the interface's queues.
pub fn user_of(interface: u32) -> Option<u32> {
    journals().into_iter().find_map(|(path, found)| {
        let content = found.ok().filter(|c| c.is_here() && c.guarded().contains(&interface))?;
        is_alive(&path, &content).then_some(content.pid)
    })
}

/// Those of runs that are gone.
fn of_killed_runs() -> Vec<(PathBuf, Result<Content, PutBack>)> {
    let is_gone = |path: &Path, found: &Result<Content, PutBack>| {
        found.as_ref().map_or(true, |content| !is_alive(path, content))
    };
    journals().into_iter().filter(|(path, found)| is_gone(path, found)).collect()
}

/// Undoes what the run did, and removes its journal if nothing is left of it; says what it did.
fn undo(path: &Path, mut content: Content) -> Vec<PutBack> {
    let said = content.restore().into_iter();
    let said = said.map(|line| line.map_or_else(PutBack::Failed, PutBack::Done)).collect();
    // What the system refuses now is tried again by whoever comes next.
    if content.records.is_empty() {
        let _ = fs::remove_file(path);
    }
    said
}

/// Undoes what runs left that were killed, in this network namespace; says what it did.
fn restore_stale() -> Vec<PutBack> {
    let mut said = Vec::new();
    for (path, found) in of_killed_runs() {
        match found {
            Ok(content) if content.is_here() => said.extend(undo(&path, content)),
            Ok(_) => {}
            Err(odd) => said.push(odd),
        }
    }
    said
}

/// Undoes what runs left that were killed, in every network namespace that can be entered; says what it did.
pub fn restore_everywhere() -> Vec<PutBack> {
    let mut said = restore_stale();
    for (path, content) in of_killed_runs().into_iter().filter_map(|(path, found)| Some((path, found.ok()?)))
    {
        let Some(file) = namespace::file_of(content.netns) else {
            said.push(forget(&path));
            continue;
        };
        let undo = || if content.is_here() { Some(undo(&path, content)) } else { None };
        let name = file.display();
        match namespace::inside(&file, undo) {
            Ok(Some(lines)) => said.extend(lines.into_iter().map(|line| line.within(&name))),
            // A later namespace has got its number.
            Ok(None) => said.push(forget(&path)),
            Err(e) => said.push(PutBack::Failed(format!(
                "{}: NOT undone: cannot enter {name}: {e}. Remedy: `nsenter --net={name} weir doctor --clean` as root",
                path.display()
            ))),
        }
    }
    said
}

/// Removes a journal whose changes went with their network namespace; says so.
fn forget(path: &Path) -> PutBack {
    match fs::remove_file(path) {
        Ok(()) => PutBack::Done(format!(
            "{}: removed; no name and no process leads to its network namespace",
            path.display()
        )),
        Err(e) => PutBack::Failed(format!("{}: NOT removed: {e}", path.display())),
    }
}

/// What [`restore_everywhere`] would undo, or say that it is no journal, in words.
pub fn stale_journals() -> Vec<String> {
    let describe = |(path, found): (PathBuf, Result<Content, PutBack>)| match found {
        Err(odd) => odd.to_string(),
        Ok(content) if content.is_here() => format!("journal {}", path.display()),
        Ok(content) => match namespace::file_of(content.netns) {
            Some(file) => format!("journal {} of the network namespace {}", path.display(), file.display()),
            None => format!(
                "journal {} of a network namespace that no name and no process leads to",
                path.display()
            ),
        },
    };
    of_killed_runs().into_iter().map(describe).collect()
}

/// The processor's time that the thread has had which says in a file that it holds its lock, in clock ticks;
/// none where there is no such thread here.
fn time_of_holder(file: &fs::File) -> Option<u64> {
    let mut text = [0; 20];
    let length = file.read_at(&mut text, 0).ok()?;
    let thread: u32 = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    let stat = stat(thread)?;
    let mut fields = stat.split_whitespace().skip(11).map(str::parse);
    let (user, system): (u64, u64) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(user + system)
}

/// What the kernel tells of a process or thread behind its name, which may contain spaces and parentheses:
/// its state comes first.
fn stat(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_string())
}

/// When a process started, in clock ticks since boot; tells a process from a later one of the same id.
fn start_time(pid: u32) -> Option<u64> {
    let stat = stat(pid)?;
    let mut fields = stat.split_whitespace();
    // A process that was killed but not yet waited for is dead.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn what_is_no_journal_is_named_with_a_remedy_and_blocks_nobody() {
        let folder = std::env::temp_dir().join(format!("weir-journal-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (pipe, text, link) = (folder.join("pipe"), folder.join("text"), folder.join("link"));
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        fs::write(&text, "{\"pid\":").unwrap();
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, what) in [(&pipe, "no regular file"), (&text, "not a journal"), (&link, "no regular file")]
        {
            let odd = read(path).unwrap_err();
            assert!(odd.contains(what) && odd.contains("Remedy: remove it"), "{odd}");
            assert!(odd.starts_with(path.to_str().unwrap()), "{odd}");
        }
        create(&pipe).unwrap().write_all(b"{}").unwrap();
        assert_eq!(fs::read(&pipe).unwrap(), b"{}");
        fs::remove_dir_all(&folder).unwrap();
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_lock_that_others_hold_is_waited_for_with_an_end_and_closed_to_others() {
        let folder = folder("lock");
        let path = folder.join("starting.lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let other = LockFile::from(fs::File::open(&path).unwrap());
        other.lock().unwrap();
        let lock = |patience_ms| Starting::lock(&path, Duration::from_millis(patience_ms), &mut || true);
        let told = lock(30).unwrap_err().to_string();
        assert!(told.contains("is locked by another program") && told.contains("Remedy: `fuser"), "{told}");
        let given_up = Starting::lock(&path, PATIENCE, &mut || false);
        assert!(matches!(given_up, Err(Error::GivenUp)), "{given_up:?}");
        drop(other);
        let other = lock(30).unwrap();
        assert_eq!(other.0.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // One that goes on is waited for.
        let patience_ms = 400;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..6 {
                    std::thread::sleep(Duration::from_millis(patience_ms / 4));
                    other.goes_on();
                }
                drop(other);
            });
            lock(patience_ms).unwrap();
        });
        assert!(begun.elapsed() > Duration::from_millis(patience_ms));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Calls `meanwhile` while a process is being started, which has all open files of this one until it
    /// becomes another program.
    fn while_a_process_starts(meanwhile: impl FnOnce()) {
        let ((told, tell), (may_go, go)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut command = Command::new("true");
        let waits = move || {
            (&tell).write_all(&[1])?;
            (&may_go).read_exact(&mut [0])
        };
        // SAFETY: between fork and exec it writes to a pipe and reads from one, which are system calls alone.
        unsafe { command.pre_exec(waits) };
        std::thread::scope(|scope| {
            let starter = scope.spawn(move || command.status().unwrap());
            (&told).read_exact(&mut [0]).unwrap();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            (&go).write_all(&[1]).unwrap();
            assert!(starter.join().unwrap().success());
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    #[test]
    fn locks_end_with_their_owners_while_a_process_is_being_started() {
        let folder = folder("forked");
        let path = folder.join("starting.lock");
        let lock = || Starting::lock(&path, Duration::ZERO, &mut || false);
        let first = lock().unwrap();
        let mut journal = Journal::open(false, true).unwrap();
        journal.content.pid = u32::MAX;
        journal.path = Some(folder.join("journal.json"));
        journal.programs(&Interface { name: "p1".into(), index: 1 }).unwrap();
        let noted = journal.path.clone().unwrap();
        while_a_process_starts(|| {
            assert!(lock().is_err());
            drop(first);
            drop(lock().unwrap());
            drop(lock().unwrap());
            journal.leave(true);
            assert!(!is_alive(&noted, &read(&noted).unwrap()), "it holds the lock");
        });
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_run_lives_while_it_holds_its_journal_wherever_its_process_is() {
        let folder = folder("alive");
        let port = |index| Interface { name: format!("p{index}"), index };
        let mut journal = Journal::open(false, true).unwrap();
        // As a process of another PID namespace: there is none of this number here.
        journal.content.pid = u32::MAX;
        journal.path = Some(folder.join("journal.json"));
        journal.programs(&port(1)).unwrap();
        journal.programs(&port(2)).unwrap();
        journal.programs(&port(2)).unwrap();
        let path = journal.path.clone().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let content = read(&path).unwrap();
        assert_eq!(content.records.len(), 2, "what is noted is not noted again");
        assert!(is_alive(&path, &content));
        assert!(content.has_just(&[port(2), port(1)]) && !content.has_just(&[port(1), port(3)]));
        assert!(content.is_about(&[port(2), port(3)]) && !content.is_about(&[port(3), port(4)]));
        assert_eq!(journal.is_asked_for(), None);
        fs::write(path.with_extension("takeover"), "17").unwrap();
        assert_eq!(journal.is_asked_for(), Some(17));
        assert_eq!(free_name(&folder, "journal"), folder.join("journal-2.json"), "each link has its own");
        journal.leave(true);
        assert_eq!(free_name(&folder, "journal"), path);
        let content = read(&path).unwrap();
        assert!(content.kept && !is_alive(&path, &content), "{content:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
