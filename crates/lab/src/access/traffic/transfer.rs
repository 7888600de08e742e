//! One transfer over TCP: who sends it and who takes it. It begins with the number of its connection.

use super::{Count, Counts, NAP, TCP_PORT};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes what a connection brings.
pub fn drain(mut stream: TcpStream, counts: &Counts, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(NAP));
    let (mut slot, mut known) = ([0; 4], 0);
    while known < slot.len() {
        match read(&mut stream, &mut slot[known..], stop) {
            Some(len) if len > 0 => known += len,
            _ => return,
        }
    }
    let Some(count) = counts.of(u32::from_be_bytes(slot)) else { return };
    let mut buffer = vec![0; 64 << 10];
    while let Some(len) = read(&mut stream, &mut buffer, stop).filter(|len| *len > 0) {
        count.note_received(len as u64);
    }
}

/// Some bytes, none at the end of the data; `None` if there will be no more.
fn read(stream: &mut TcpStream, into: &mut [u8], stop: &AtomicBool) -> Option<usize> {
    while !stop.load(Ordering::Relaxed) {
        match stream.read(into) {
            Ok(len) => return Some(len),
            Err(e) if is_timeout(&e) => {}
            Err(_) => return None,
        }
    }
    None
}

/// A connection that was begun, whose sender has this congestion control. Each socket is told it: a namespace
/// may not make one its default that the kernel does not allow to everybody
/// (`tcp_allowed_congestion_control`), as CUBIC where BBR is the kernel's default.
pub fn connect(to: SocketAddr, congestion: &str) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// Sends so many bytes, or without end; a transfer is over when the receiver has all of it and closes.
pub fn send(
    to: &str,
    congestion: &str,
    slot: u32,
    size: Option<u64>,
    count: &Count,
    stop: &AtomicBool,
) -> io::Result<()> {
    let start = Instant::now();
    let address = to.parse::<IpAddr>().map_err(io::Error::other)?;
    let mut stream = connect((address, TCP_PORT).into(), congestion)?;
    stream.set_write_timeout(Some(NAP))?;
    stream.set_read_timeout(Some(NAP))?;
    let done = send_over(&mut stream, slot, size, stop);
    let (retransmits, rtt_us) = told(&stream);
    count.note_ended(retransmits, rtt_us);
    done?;
    count.note_completed(start.elapsed());
    Ok(())
}

fn send_over(stream: &mut TcpStream, slot: u32, size: Option<u64>, stop: &AtomicBool) -> io::Result<()> {
    stream.write_all(&slot.to_be_bytes())?;
    let chunk = [0; 16 << 10];
    let mut left = size.unwrap_or(u64::MAX);
    while left > 0 {
        stopped(stop)?;
        match stream.write(&chunk[..left.min(chunk.len() as u64) as usize]) {
            Ok(len) => left -= len as u64,
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    loop {
        stopped(stop)?;
        match stream.read(&mut [0; 16]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Segments sent again and the smoothed round-trip time in microseconds, by the kernel (tcp(7), `TCP_INFO`).
fn told(stream: &TcpStream) -> (u64, u64) {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    let into: *mut libc::tcp_info = &mut info;
    // SAFETY: the pointers describe `info`, of which the kernel fills as much as it knows.
    let code = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into.cast(), &mut len)
    };
    if code == 0 { (info.tcpi_total_retrans.into(), info.tcpi_rtt.into()) } else { (0, 0) }
}

fn stopped(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn senders_have_the_congestion_control_that_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        for name in ["reno", "cubic"] {
            match connect(to, name) {
                Ok(stream) => {
                    let used = Socket::from(stream).tcp_congestion().unwrap();
                    assert_eq!(used.split(|byte| *byte == 0).next(), Some(name.as_bytes()));
                }
                // Without root those that the kernel does not allow to everybody are refused.
                Err(e) => assert!(name != "reno" && e.kind() == ErrorKind::PermissionDenied, "{name}: {e}"),
            }
        }
    }
}
