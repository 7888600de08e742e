//! Receivers that acknowledge when data arrives, whether or not their programs have read what came before.
//!
//! Linux acknowledges every second segment at once only if less data waits than the program wants to be woken
//! for (`SO_RCVLOWAT`, one byte by default), or if the window it would offer is as large as the last one.
//! With a program that waits for its turn on a busy processor neither holds, and acknowledgements wait for
//! the program too: one then answers hundreds of segments, and the sender's answer is a burst that the queue
//! under test has to take. So the window of these receivers is a part of what their buffers could hold, and
//! stays the same while data waits; the low-water mark only wakes their programs less often.

use crate::error::{Error, Result};
use crate::socket::set_option;
use socket2::{SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use weir_units::{Duration, Rate};

/// Programs are woken about this often per flow, if flows share the link evenly.
const WAKEUP: Duration = Duration::from_millis(20);
/// More than this waits for nobody: it is read in a few microseconds.
const LARGEST: u64 = 256 * 1024;

/// The low-water mark of each of `flows` flows that share a link.
pub fn low_water_mark(rate: Rate, flows: u64) -> u32 {
    let bytes = rate.as_bps() as f64 / 8.0 * WAKEUP.as_secs_f64() / flows.max(1) as f64;
    (bytes as u64).clamp(1, LARGEST) as u32
}

/// How a connection receives.
#[derive(Clone, Copy, Debug)]
pub struct Receiving {
    /// Bytes that wait before the program is woken; see [`low_water_mark`].
    pub low_water: u32,
    /// Largest window that is offered.
    pub window: u32,
}

/// Makes those TCP connections of a process receive so that have one of `ports` at either end; returns how
/// many they are. Others may carry messages that must not wait, as the control connections of iperf3 do.
pub(super) fn set_in_process(pid: u32, ports: Range<u16>, receiving: Receiving) -> Result<usize> {
    let what = || format!("look at the sockets of process {pid}");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|e| Error::system(what(), e))?;
    let process = open_process(pid).map_err(|e| Error::system(what(), e))?;
    let mut count = 0;
    for file in files.flatten() {
        let is_socket =
            fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        let Some(number) = file.file_name().to_str().and_then(|n| n.parse().ok()).filter(|_| is_socket)
        else {
            continue;
        };
        // What was closed in the meantime receives no more.
        let Ok(socket) = duplicate(&process, number).map(Socket::from) else { continue };
        let ends = [socket.local_addr(), socket.peer_addr()];
        let meant = |a: SockAddr| a.as_socket().is_some_and(|a| ports.contains(&a.port()));
        if socket.r#type().is_ok_and(|t| t == Type::STREAM) && ends.into_iter().flatten().any(meant) {
            receiving.set(&socket)?;
            count += 1;
        }
    }
    Ok(count)
}

impl Receiving {
    /// Makes a connection receive so. The kernel forgets the window when the sizes of packets begin to tell
    /// it how much memory they take, so that it is to be set once data has come.
    pub(super) fn set(self, socket: &impl AsRawFd) -> Result<()> {
        let options = [
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT, self.low_water),
            (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, self.window),
        ];
        let set = |(level, option, value)| set_option(socket, level, option, value);
        options.into_iter().try_for_each(set).map_err(|e| Error::system("set how a connection receives", e))
    }
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
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_of_a_process_get_their_mark() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let port = listener.local_addr().unwrap().port();
        // The listening socket, too, has this port; marks of listening sockets are inherited, which is
        // harmless.
        let receiving = Receiving { low_water: 1000, window: 1 << 20 };
        assert_eq!(set_in_process(std::process::id(), port..port + 1, receiving).unwrap(), 3);
        // A blocking read waits for the mark. Of one that has taken something already the kernel holds only
        // what came after that against the mark, so that it would wait until its timeout.
        client.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let late = std::thread::spawn(move || {
            for part in [600, 400] {
                std::thread::sleep(std::time::Duration::from_millis(50));
                server.write_all(&vec![7; part]).unwrap();
            }
            server
        });
        assert_eq!(client.read(&mut [0; 2000]).unwrap(), 1000);
        let _ = late.join();
    }

    #[test]
    fn the_mark_shrinks_with_the_share_of_a_flow() {
        assert_eq!(low_water_mark(Rate::from_mbps(1000), 36), 69_444);
        assert_eq!(low_water_mark(Rate::from_mbps(1000), 2), LARGEST as u32);
        assert_eq!(low_water_mark(Rate::from_bps(1000), 36), 1);
        assert_eq!(low_water_mark(Rate::from_mbps(1), 0), 2500);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(set_in_process(u32::MAX / 2, 0..10, Receiving { low_water: 1, window: 1 << 20 }).is_err());
    }
}
