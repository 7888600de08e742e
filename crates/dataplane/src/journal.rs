//! What a run changes of its interfaces, and how it is put back.
//!
//! Every change is written to a journal before it is made. A clean exit undoes the changes and removes the
//! journal; after a crash the next start in the same network namespace, or `weir doctor --clean` wherever it
//! is, finds the journal of a dead process and undoes them then.

use crate::interface::{Interface, OFFLOADS};
use crate::{Error, guard, namespace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where journals are kept. A tmpfs on every system with systemd, so it is empty after a reboot, as are
/// the interfaces' settings.
pub const JOURNALS: &str = "/run/weir";
/// A journal is a few lines; whatever is larger is none.
const SIZE_MAX: u64 = 1 << 20;

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

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    interface: Interface,
    change: Change,
}

/// The changes of one run, undone on drop unless the run panicked.
#[derive(Debug)]
pub struct Journal {
    path: Option<PathBuf>,
    content: Content,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    pid: u32,
    started: u64,
    netns: u64,
    /// The kernel's name for the namespace. The number above is given again to a later one, which must not
    /// be changed by the journal of an earlier one.
    #[serde(default)]
    netns_cookie: Option<u64>,
    records: Vec<Record>,
}

impl Journal {
    /// An empty journal. Kept in memory only if `persistent` is false, as in namespaces that die anyway.
    pub fn open(persistent: bool) -> Result<Journal, Error> {
        let pid = std::process::id();
        let content = Content {
            pid,
            started: start_time(pid).unwrap_or(0),
            netns: namespace::number(),
            netns_cookie: namespace::cookie(),
            records: Vec::new(),
        };
        let path = if persistent {
            make_folder().map_err(|e| Error::io(format!("cannot create {JOURNALS}"), e))?;
            Some(Path::new(JOURNALS).join(format!("{pid}-{}.json", content.netns)))
        } else {
            None
        };
        Ok(Journal { path, content })
    }

    fn note(&mut self, interface: &Interface, change: Change) -> Result<(), Error> {
        self.content.records.push(Record { interface: interface.clone(), change });
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.content).expect("plain data is always JSON");
        let temporary = path.with_extension("new");
        let written = create(&temporary).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&temporary, path))
            .map_err(|e| Error::io(format!("cannot write the journal {}", path.display()), e))
    }

    /// Switches off what would break forwarding and brings the port up; says in words what it did.
    pub fn prepare(&mut self, interface: &Interface) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for offload in &OFFLOADS {
            // An interface without the feature has nothing to switch off.
            if interface.feature(offload).unwrap_or(false) {
                self.note(interface, Change::Offload(offload.name.into()))?;
                match interface.set_feature(offload, false) {
                    Ok(()) => said.push(format!("{}: switched {} off", interface.name, offload.name)),
                    Err(e) => said.push(format!("{}: {} stays on ({e})", interface.name, offload.name)),
                }
            }
        }
        if !interface.is_up()? {
            self.note(interface, Change::Up)?;
            interface.set_up(true)?;
            said.push(format!("{}: brought up", interface.name));
        }
        Ok(said)
    }

    /// Notes that programs are about to be attached.
    pub fn programs(&mut self, interface: &Interface) -> Result<(), Error> {
        self.note(interface, Change::Programs { created_clsact: false })
    }

    /// Notes that the port had no `clsact` qdisc before.
    pub fn created_clsact(&mut self, interface: &Interface) -> Result<(), Error> {
        self.note(interface, Change::Programs { created_clsact: true })
    }

    /// Puts everything back, last change first; says in words what it could not put back.
    pub fn restore(&mut self) -> Vec<String> {
        let said = self.content.restore().into_iter().filter_map(Result::err).collect();
        self.content.records.clear();
        if let Some(path) = self.path.take() {
            let _ = fs::remove_file(path);
        }
        said
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After a panic of the loop the kernel goes on forwarding, as after a kill; the next start or
        // `weir doctor --clean` puts everything back then.
        if !std::thread::panicking() {
            self.restore();
        }
    }
}

impl Content {
    /// Whether its run was killed.
    fn is_dead(&self) -> bool {
        start_time(self.pid) != Some(self.started)
    }

    /// Whether its interfaces are in this network namespace.
    fn is_here(&self) -> bool {
        self.netns == namespace::number()
            // Where the kernel has no name for the namespace, the number has to do.
            && self.netns_cookie.is_none_or(|cookie| namespace::cookie() == Some(cookie))
    }

    /// Says in words what was put back, as an error what was not.
    fn restore(&self) -> Vec<Result<String, String>> {
        self.records.iter().rev().filter_map(restore_one).collect()
    }
}

/// Puts one change back. Of an interface that is not here any more only the offloads are worth a word: the
/// rest went when it was removed or moved.
fn restore_one(record: &Record) -> Option<Result<String, String>> {
    let Record { interface, change } = record;
    let name = &interface.name;
    if !interface.exists() {
        let Change::Offload(offload) = change else { return None };
        return Some(Err(format!(
            "{name}: NOT switched {offload} back on: it is not in this network namespace any more. Remedy, if it was \
             moved to another one: `ethtool -K {name} {offload} on` there"
        )));
    }
    let (what, result) = match change {
        Change::Offload(name) => {
            let offload = OFFLOADS.iter().find(|o| o.name == name);
            let result = offload.map_or(Ok(()), |o| interface.set_feature(o, true));
            (format!("switched {name} back on"), result)
        }
        Change::Up => ("brought down again".to_string(), interface.set_up(false)),
        Change::Programs { created_clsact } => {
            guard::detach(interface.index, *created_clsact);
            ("took the programs off".to_string(), Ok(()))
        }
    };
    Some(match result {
        Ok(()) => Ok(format!("{name}: {what}")),
        Err(error) => Err(format!("{name}: NOT {what}: {error}")),
    })
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
pub fn make_folder() -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(JOURNALS)?;
    let found = fs::symlink_metadata(JOURNALS)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    // SAFETY: no pointers are involved.
    if found.uid() != unsafe { libc::geteuid() } {
        // Of another user, whom it would have to be changed by.
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(JOURNALS, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The right to look at ports and take them: of two runs that start at the same instant, the second sees what
/// the first attached. Given back when dropped, also by a crash.
pub fn starting() -> Result<fs::File, Error> {
    make_folder().map_err(|e| Error::io(format!("cannot create {JOURNALS}"), e))?;
    let path = Path::new(JOURNALS).join("starting.lock");
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::io(format!("cannot lock {}", path.display()), error),
        _ => Error::Refused(format!("cannot lock {}: {error}. Remedy: remove it", path.display())),
    };
    let mut options = fs::OpenOptions::new();
    // Of a pipe or a device nobody waits for the other end.
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = options.open(&path).map_err(refused)?;
    if !file.metadata().map_err(refused)?.is_file() {
        return Err(refused(io::Error::other("it is not a regular file")));
    }
    // One that an earlier version made was open to others.
    file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(refused)?;
    file.lock().map_err(refused)?;
    Ok(file)
}

/// Reads a journal. Whatever else has the name of one must neither block nor fill the memory.
fn read(path: &Path) -> Result<Content, String> {
    let odd = |what: String| format!("{}: {what}; left alone. Remedy: remove it", path.display());
    let is_file = fs::symlink_metadata(path).map_err(|e| odd(e.to_string()))?.is_file();
    if !is_file {
        return Err(odd("not a journal but no regular file at all".into()));
    }
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let mut text = Vec::new();
    let file = options.open(path).map_err(|e| odd(e.to_string()))?;
    file.take(SIZE_MAX).read_to_end(&mut text).map_err(|e| odd(e.to_string()))?;
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

/// The journals of killed runs in any network namespace; an error for what is no journal.
fn of_killed_runs() -> Vec<(PathBuf, Result<Content, String>)> {
    let Ok(entries) = fs::read_dir(JOURNALS) else { return Vec::new() };
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|x| x == "json");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_journal).collect();
    paths.sort();
    let found = paths.into_iter().map(|path| (read(&path), path));
    let left = found.filter(|(content, _)| content.as_ref().map_or(true, Content::is_dead));
    left.map(|(content, path)| (path, content)).collect()
}

/// Undoes what the run did, removes its journal and says both in words.
fn undo(path: &Path, content: &Content) -> Vec<String> {
    let said = content.restore().into_iter().map(|line| line.unwrap_or_else(|e| e)).collect();
    let _ = fs::remove_file(path);
    said
}

/// Undoes what runs left that were killed, in this network namespace; says in words what it did.
pub fn restore_stale() -> Vec<String> {
    let mut said = Vec::new();
    for (path, found) in of_killed_runs() {
        match found {
            Ok(content) if content.is_here() => said.extend(undo(&path, &content)),
            Ok(_) => {}
            Err(odd) => said.push(odd),
        }
    }
    said
}

/// Undoes what runs left that were killed, in every network namespace that can be entered; says in words what
/// it did.
pub fn restore_everywhere() -> Vec<String> {
    let mut said = restore_stale();
    for (path, content) in of_killed_runs().into_iter().filter_map(|(path, found)| Some((path, found.ok()?)))
    {
        let Some(file) = namespace::file_of(content.netns) else {
            said.push(forget(&path));
            continue;
        };
        let undo = || if content.is_here() { Some(undo(&path, &content)) } else { None };
        let name = file.display();
        match namespace::inside(&file, undo) {
            Ok(Some(lines)) => said.extend(lines.iter().map(|line| format!("in {name}: {line}"))),
            // A later namespace has got its number.
            Ok(None) => said.push(forget(&path)),
            Err(e) => said.push(format!(
                "{}: NOT undone: cannot enter {name}: {e}. Remedy: `nsenter --net={name} weir doctor --clean` as root",
                path.display()
            )),
        }
    }
    said
}

/// Removes a journal whose changes went with their network namespace; says so.
fn forget(path: &Path) -> String {
    match fs::remove_file(path) {
        Ok(()) => {
            format!("{}: removed; no name and no process leads to its network namespace", path.display())
        }
        Err(e) => format!("{}: NOT removed: {e}", path.display()),
    }
}

/// What [`restore_everywhere`] would undo, or say that it is no journal, in words.
pub fn stale_journals() -> Vec<String> {
    let describe = |(path, found): (PathBuf, Result<Content, String>)| match found {
        Err(odd) => odd,
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

/// When a process started, in clock ticks since boot; tells a process from a later one of the same id.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses; fields are counted after its last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A process that was killed but not yet waited for is dead.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
