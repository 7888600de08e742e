//! Options of sockets that the libraries do not have.

use std::io;
use std::os::fd::AsRawFd;

/// Sets an option whose value is a whole number (setsockopt(2)).
pub fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: u32,
) -> io::Result<()> {
    // SAFETY: an open socket, and an integer with its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
