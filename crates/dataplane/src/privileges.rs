//! Least privilege: what a program that forwards keeps of root's rights once its ports are open.
//!
//! Four things, each for itself, so that one that a kernel lacks leaves the others: capabilities, which each
//! thread has for itself; a user who is not root, for the thread that reads what peers of control say; a
//! filter of system calls (seccomp) for all threads; and the files that may be opened (Landlock). None of
//! them ends a program that asks for more than it has: a call that is not in the list fails with EPERM, as
//! a link that stays open is worth more than a report of a call that somebody forgot to put in the list.
//! What cannot be given up is told, and the program goes on.
//!
//! Threads share memory. Whoever can run code of his own in one of them has what all of them have, but for
//! the system calls that the filter keeps from every one.

mod system_calls;

use crate::Error;
use caps::{CapSet, Capability, CapsHashSet};
use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
pub use system_calls::is_filtered_here;

/// What a packet loop keeps: to put interfaces, offloads, filters and programs back (NET_ADMIN, and BPF where
/// the kernel asks for it), and sockets on queues that appear while it runs (NET_RAW).
pub const LOOP: [Capability; 3] = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, PROGRAMS];
/// To change queues of the kernel.
pub const QUEUES: Capability = Capability::CAP_NET_ADMIN;
/// To ask about programs and maps, where the kernel keeps that from others (before Linux 5.19).
pub const PROGRAMS: Capability = Capability::CAP_BPF;
/// What a thread needs beside that to ask for a real-time class.
pub const REALTIME: Capability = Capability::CAP_SYS_NICE;
/// What a thread needs to take the place of a user who is not root ([`leave_root`]).
pub const USERS: [Capability; 2] = [Capability::CAP_SETUID, Capability::CAP_SETGID];
/// To write into a folder of another user, as root does.
pub const FOREIGN_FILES: Capability = Capability::CAP_DAC_OVERRIDE;

/// Whose place a thread takes that is no longer root: of this user, where there is one, else of nobody.
const USER: &str = "weir";
/// The user without rights, as the kernel numbers him (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;
/// The newest form of Landlock that is asked for; older kernels do what they know of it.
const LANDLOCK: ABI = ABI::V5;
/// What may be read: settings of the kernel, the program with its libraries for a backtrace, and who is whom.
const READABLE: [&str; 8] =
    ["/proc", "/sys", "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/passwd", "/etc/nsswitch.conf"];
/// Devices that are opened while a program runs, such as the terminal for the live view.
const DEVICES: [&str; 3] = ["/dev/tty", "/dev/null", "/dev/urandom"];

/// Keeps these capabilities of the calling thread, as far as it has them, and gives up all others for ever.
/// Threads that it starts have no more.
pub fn keep(kept: &[Capability]) -> Result<(), Error> {
    let refused = |error: caps::errors::CapsError| {
        Error::Refused(format!("cannot give up capabilities: {error}. Remedy: a kernel since 2.6.26"))
    };
    let has = caps::read(None, CapSet::Permitted).map_err(refused)?;
    let left: CapsHashSet = kept.iter().copied().filter(|one| has.contains(one)).collect();
    caps::clear(None, CapSet::Ambient).map_err(refused)?;
    caps::clear(None, CapSet::Inheritable).map_err(refused)?;
    // Asks for a capability itself, so it goes before the others; without it no program can be started
    // anyhow.
    if has.contains(&Capability::CAP_SETPCAP) {
        for one in caps::all().difference(&left) {
            // A kernel that does not know one has not got it either.
            let _ = caps::drop(None, CapSet::Bounding, *one);
        }
    }
    caps::set(None, CapSet::Effective, &left).map_err(refused)?;
    caps::set(None, CapSet::Permitted, &left).map_err(refused)
}

/// Makes the calling thread, and no other, one of a user without rights and without any capability: `weir`
/// where there is such a user, else nobody. Says who; nothing if it was not root's before.
pub fn leave_root() -> Result<Option<String>, Error> {
    // SAFETY: no pointers are involved.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut name = None;
    if is_root {
        let (uid, gid, who) = successor();
        // The library's calls would change all threads; those of the system change the calling one.
        // SAFETY: plain numbers; the list of groups is empty.
        let codes = unsafe {
            [
                libc::syscall(libc::SYS_setgroups, 0usize, std::ptr::null::<libc::gid_t>()),
                libc::syscall(libc::SYS_setresgid, gid, gid, gid),
                libc::syscall(libc::SYS_setresuid, uid, uid, uid),
            ]
        };
        if codes.iter().any(|code| *code != 0) {
            return Err(Error::os(format!("cannot become the user {who}")));
        }
        name = Some(who);
    }
    keep(&[])?;
    Ok(name)
}

/// Gives a folder to the user whose place a thread takes in [`leave_root`], so that what is kept there can
/// still be written. Nothing if this process is not root's. Refuses a folder with anything in it whose name
/// does not begin with one of `names`: it has other uses.
pub fn give_to_user(folder: &Path, names: &[&str]) -> io::Result<()> {
    // SAFETY: no pointers are involved.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !names.iter().any(|own| name.starts_with(own)) {
            return Err(io::Error::other(format!(
                "it holds `{name}`, too. Remedy: name a folder of its own"
            )));
        }
    }
    let (uid, gid, _) = successor();
    // A link is not followed: it may lead anywhere.
    std::os::unix::fs::lchown(folder, Some(uid), Some(gid))
}

/// Number, group and name of the user whose place a thread takes that is no longer root.
fn successor() -> (u32, u32, String) {
    match user(USER) {
        Some((uid, gid)) => (uid, gid, USER.to_string()),
        None => (NOBODY, NOBODY, format!("nobody ({NOBODY})")),
    }
}

/// Number and group of a user who is not root.
fn user(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0 as libc::c_char; 16 << 10];
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live values, and the length is that of the buffer.
    let code =
        unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    (code == 0 && !found.is_null() && entry.pw_uid != 0).then_some((entry.pw_uid, entry.pw_gid))
}

/// From now on all threads of this process make only the system calls that a running program needs, and the
/// calling thread with those that it starts opens for writing only what lies in these folders, and for
/// reading what lies in `readable`, too. Nothing of it can be undone. Says in words what this kernel does not
/// do.
pub fn confine(writable: &[PathBuf], readable: &[PathBuf]) -> Vec<String> {
    let files = confine_files(writable, readable).err().map(|why| format!("files stay open to it ({why})"));
    let calls = system_calls::filter_all_threads().err();
    let calls = calls.map(|why| format!("system calls are not filtered ({why})"));
    let left: Vec<String> = files.into_iter().chain(calls).collect();
    left.iter().map(|what| format!("least privilege: {what}; `weir doctor` says more")).collect()
}

/// Files that the calling thread and those that it starts may open.
fn confine_files(writable: &[PathBuf], readable: &[PathBuf]) -> Result<(), String> {
    let all = AccessFs::from_all(LANDLOCK);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let restrict = || {
        Ruleset::default()
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(READABLE, AccessFs::from_read(LANDLOCK)))?
            .add_rules(path_beneath_rules(std::env::current_exe(), AccessFs::ReadFile))?
            .add_rules(path_beneath_rules(DEVICES, devices))?
            .add_rules(path_beneath_rules(readable, AccessFs::ReadFile))?
            .add_rules(path_beneath_rules(writable, all & !AccessFs::Execute))?
            .restrict_self()
    };
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has no Landlock".into()),
        // An older form keeps what it knows.
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Capabilities for results in a folder: none where it is one's own, that of root over the files of others
/// else.
pub fn for_results(folder: &Path) -> &'static [Capability] {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: no pointers are involved.
    let own = unsafe { libc::geteuid() };
    let is_own = folder.metadata().is_ok_and(|found| found.uid() == own && found.mode() & 0o300 == 0o300);
    if is_own { &[] } else { &[FOREIGN_FILES] }
}

/// What of least privilege works here, tried on threads that end again; as an error why it does not.
#[derive(Clone, Debug)]
pub struct Rehearsed {
    /// Giving up capabilities.
    pub capabilities: Result<(), String>,
    /// The filter of system calls.
    pub system_calls: Result<(), String>,
    /// The files that may be opened.
    pub files: Result<(), String>,
}

/// Tries each part, and whether it keeps what it promises.
pub fn rehearse() -> Rehearsed {
    fn alone(part: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
        std::thread::spawn(part).join().unwrap_or_else(|_| Err("it panicked".into()))
    }
    Rehearsed {
        capabilities: alone(|| {
            keep(&[]).map_err(|e| e.to_string())?;
            let left = caps::read(None, CapSet::Effective).map_err(|e| e.to_string())?;
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?} stayed")) }
        }),
        system_calls: alone(system_calls::rehearse),
        files: alone(|| {
            confine_files(&[], &[])?;
            // A file that exists wherever a program starts, and that nobody has business to write.
            let opened = std::fs::OpenOptions::new().write(true).open("/proc/self/comm");
            match opened.map_err(|error| error.kind()) {
                Err(io::ErrorKind::PermissionDenied) => Ok(()),
                other => Err(format!("a file could be opened all the same ({other:?})")),
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Runs a part in a process of its own: what it gives up is gone for a whole process.
    fn in_child(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `body` and ends without returning.
        match unsafe { libc::fork() } {
            0 => {
                let is_right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
                // SAFETY: ends the child at once, without what the test's process would do at its end.
                unsafe { libc::_exit(if is_right { 0 } else { 1 }) }
            }
            child => {
                assert!(child > 0, "{}", io::Error::last_os_error());
                let mut status = 0;
                // SAFETY: the pointer is to the status.
                unsafe { libc::waitpid(child, &mut status, 0) };
                status == 0
            }
        }
    }

    fn status(of: &str, key: &str) -> String {
        let text = fs::read_to_string(format!("{of}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}:"))).unwrap();
        line.trim().to_string()
    }

    fn errno() -> Option<i32> {
        io::Error::last_os_error().raw_os_error()
    }

    #[test]
    fn capabilities_go_from_one_thread_and_those_that_it_starts() {
        let before = status("/proc/thread-self", "CapEff");
        let of_thread = std::thread::spawn(|| {
            keep(&LOOP).unwrap();
            let inner = || ["CapEff", "CapPrm", "CapInh"].map(|key| status("/proc/thread-self", key));
            [inner(), std::thread::spawn(inner).join().unwrap()]
        });
        for [effective, permitted, inheritable] in of_thread.join().unwrap() {
            let bits = u64::from_str_radix(&effective, 16).unwrap();
            assert_eq!(bits & !LOOP.iter().fold(0, |all, one| all | one.bitmask()), 0, "{effective}");
            assert_eq!((permitted, inheritable), (effective, "0".repeat(16)));
        }
        assert_eq!(status("/proc/thread-self", "CapEff"), before, "other threads keep theirs");
    }

    #[test]
    fn one_thread_leaves_root_and_the_others_stay() {
        let ours = status("/proc/thread-self", "Uid");
        let left = std::thread::spawn(|| {
            let who = leave_root().unwrap();
            let refused = fs::OpenOptions::new().append(true).open("/etc/passwd").is_err();
            (who, refused, status("/proc/thread-self", "Uid"), status("/proc/thread-self", "CapEff"))
        });
        let (who, refused, uid, capabilities) = left.join().unwrap();
        assert!(refused);
        assert_eq!(capabilities, "0".repeat(16));
        assert_eq!(who.is_some(), ours.starts_with('0'));
        assert!(!uid.split_whitespace().any(|one| one == "0"), "{uid}");
        assert_eq!(status("/proc/thread-self", "Uid"), ours);
    }

    #[test]
    fn what_is_not_in_the_list_is_refused_and_nothing_ends() {
        if !is_filtered_here() {
            return println!("not tried: there is no list of system calls for this processor");
        }
        assert!(in_child(|| {
            let other = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(100)));
            let left = confine(&[], &[]);
            // SAFETY: calls that change nothing if they are refused; the pointers are to live values.
            let refused = unsafe {
                let path = c"/bin/true".as_ptr();
                let (none, here) = (std::ptr::null(), c".".as_ptr());
                [
                    (libc::execve(path, none, none), errno()),
                    (libc::fork(), errno()),
                    (libc::unshare(libc::CLONE_NEWNET), errno()),
                    (libc::chroot(here), errno()),
                    (libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), errno()),
                    (libc::kill(libc::getppid(), 0), errno()),
                    (libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) as i32, errno()),
                ]
            };
            eprintln!("{left:?} {refused:?}");
            let all_refused = refused.iter().all(|one| *one == (-1, Some(libc::EPERM)));
            // What a running program does still works: threads, clocks, sockets, interfaces.
            let thread = std::thread::spawn(|| std::time::Instant::now().elapsed().as_nanos() < 1 << 40);
            let works = thread.join().unwrap() && other.join().is_ok();
            let known = !crate::interface::list().is_empty();
            let filtered = fs::read_dir("/proc/self/task")
                .unwrap()
                .flatten()
                .all(|task| status(task.path().to_str().unwrap(), "Seccomp") == "2");
            left.is_empty() && all_refused && works && known && filtered
        }));
    }

    #[test]
    fn only_named_folders_are_written() {
        let own = std::env::temp_dir().join(format!("weir-privileges-{}", std::process::id()));
        let [foreign, read] = ["foreign", "read"].map(|name| own.with_extension(name));
        [&own, &foreign, &read].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        if let Err(why) = rehearse().files {
            return println!("not tried: {why}");
        }
        assert!(in_child(|| {
            fs::write(read.join("config"), "x").unwrap();
            confine_files(std::slice::from_ref(&own), std::slice::from_ref(&read)).unwrap();
            fs::write(own.join("new"), "x").unwrap();
            fs::rename(own.join("new"), own.join("old")).unwrap();
            let refused = |result: io::Result<()>| {
                result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
            };
            fs::read_to_string("/proc/self/status").unwrap();
            assert_eq!(fs::read_to_string(read.join("config")).unwrap(), "x");
            refused(fs::write(foreign.join("new"), "x"))
                && refused(fs::write(read.join("config"), "y"))
                && refused(fs::read_to_string("/etc/shadow").map(drop))
                && refused(fs::remove_dir(&foreign))
        }));
        [&own, &foreign, &read].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
    }

    #[test]
    fn the_folder_of_another_user_asks_for_a_capability() {
        assert_eq!(for_results(Path::new("/no/such/folder")), [FOREIGN_FILES]);
        let own = std::env::temp_dir().join(format!("weir-privileges-own-{}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        assert!(for_results(&own).is_empty());
        if std::os::unix::fs::chown(&own, Some(NOBODY), None).is_ok() {
            assert_eq!(for_results(&own), [FOREIGN_FILES]);
        }
        fs::remove_dir_all(&own).unwrap();
    }

    #[test]
    fn what_is_rehearsed_changes_nothing_here() {
        let before = fs::read_to_string("/proc/thread-self/status").unwrap();
        let Rehearsed { capabilities, .. } = rehearse();
        assert_eq!(capabilities, Ok(()));
        let after = fs::read_to_string("/proc/thread-self/status").unwrap();
        let kept = |text: &str| {
            let lines = text.lines().filter(|line| line.starts_with("Cap") || line.starts_with("Seccomp"));
            lines.map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(kept(&after), kept(&before));
    }
}
