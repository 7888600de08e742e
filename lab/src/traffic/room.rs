//! Room for received data, so that a receiver acknowledges when data arrives and not when it is read.
//!
//! Linux acknowledges every second segment at once only if the window it would offer is not smaller than the
//! one it offered last. As a buffer fills while a program waits for its turn, the window shrinks, and the
//! acknowledgement waits for the program too. On a machine that has the end hosts on one processor that makes
//! gaps and bursts of milliseconds, which the queue under test then has. A buffer several times larger than
//! the largest window leaves the window alone.

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel doubles it for its own needs.
const RECEIVE_BUFFER: libc::c_int = 1 << 29;

/// Makes room in every TCP connection of a process; returns of how many.
pub(super) fn widen_process(pid: u32) -> Result<usize> {
    let what = || format!("look at the sockets of process {pid}");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|e| Error::system(what(), e))?;
    let process = open_process(pid).map_err(|e| Error::system(what(), e))?;
    let mut widened = 0;
    for file in files.flatten() {
        let is_socket =
            fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        let Some(number) = file.file_name().to_str().and_then(|n| n.parse().ok()).filter(|_| is_socket)
        else {
            continue;
        };
        // What was closed in the meantime needs no room.
        let Ok(socket) = duplicate(&process, number) else { continue };
        let socket = socket2::Socket::from(socket);
        if socket.r#type().is_ok_and(|t| t == socket2::Type::STREAM)
            && socket.peer_addr().is_ok_and(|a| a.is_ipv4() || a.is_ipv6())
        {
            widen(&socket)?;
            widened += 1;
        }
    }
    Ok(widened)
}

/// Makes room in a connection.
pub(super) fn widen(socket: &impl AsRawFd) -> Result<()> {
    let size = RECEIVE_BUFFER;
    // SAFETY: an open socket, and an integer with its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const size).cast(),
            size_of_val(&size) as libc::socklen_t,
        )
    };
    if result < 0 { Err(Error::last("enlarge a receive buffer")) } else { Ok(()) }
}

fn open_process(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Another descriptor of the file that is number `fd` in the process.
fn duplicate(process: &OwnedFd, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: an open descriptor and plain integers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_of_a_process_get_room() {
        if !crate::host::is_root() {
            println!("SKIPPED: larger receive buffers: needs root");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(widen_process(std::process::id()).unwrap() >= 1);
        let size = socket2::SockRef::from(&client).recv_buffer_size().unwrap();
        assert_eq!(size, 2 * RECEIVE_BUFFER as usize);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(widen_process(u32::MAX / 2).is_err());
    }
}
