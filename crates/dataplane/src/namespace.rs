//! Network namespaces: how they are told apart, found and entered.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file to enter a network namespace by: where it is mounted, or that of a process inside. None if there is
/// neither: then the namespace is gone, as far as anybody can tell.
pub fn file_of(number: u64) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_processes = || {
        let processes = fs::read_dir("/proc").ok()?.flatten().map(|e| e.path().join("ns/net"));
        let mut processes = processes.filter(|file| fs::metadata(file).is_ok_and(|m| m.ino() == number));
        processes.next()
    };
    mounted(&mounts, number).or_else(of_processes)
}

/// Where a network namespace is mounted, by the text of `/proc/self/mountinfo`: its fourth column is what is
/// mounted, its fifth where.
fn mounted(mounts: &str, number: u64) -> Option<PathBuf> {
    let wanted = format!("net:[{number}]");
    let mut columns = mounts.lines().map(|line| line.split(' ').skip(3));
    columns.find_map(|mut c| (c.next()? == wanted).then(|| c.next().map(PathBuf::from))?)
}

/// Runs `f` on a thread of its own inside of a network namespace.
pub fn inside<T: Send>(file: &Path, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = fs::File::open(file)?;
    std::thread::scope(|scope| {
        let enter = || {
            // SAFETY: an open descriptor; the kernel checks that it is a network namespace. Threads have
            // theirs each.
            match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(f()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        scope.spawn(enter).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A number of this network namespace that no other ever has; Linux 5.14 and later tell it.
pub fn cookie() -> Option<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the pointers describe `cookie`.
    let code = unsafe {
        let pointer: *mut u64 = &mut cookie;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, pointer.cast(), &mut len)
    };
    (code == 0).then_some(cookie)
}

/// The number of this network namespace, which a later one may get again.
pub fn number() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_found_by_what_is_mounted() {
        let mounts = "22 1 0:20 / /proc rw - proc proc rw\n\
                      90 25 0:4 net:[4026532281] /run/netns/left rw shared:7 - nsfs nsfs rw\n";
        assert_eq!(mounted(mounts, 4_026_532_281), Some("/run/netns/left".into()));
        assert_eq!(mounted(mounts, 402_653_228), None);
    }
}
