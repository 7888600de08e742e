//! How exactly the delay line delays: probes with the time at which they were sent, stamped on arrival by the
//! receiver's kernel.

use crate::error::{Error, Result};
use crate::rows::{Row, short};
use crate::tools;
use crate::traffic::Flood;
use crate::wire::{Interrupts, Manner, TRAFFIC_CPU, Weir, alone, channel};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use weir_config::Channel;
use weir_lab::netns::address;
use weir_lab::{Side, Testbed, TestbedConfig, in_netns, set_affinity};
use weir_measure::result::Spread;

const PART: &str = "delay";
const DELAY_MS: f64 = 25.0;
/// Deviation in milliseconds that 99 % of the probes stay within.
const MOST_MS: f64 = 0.3;
const PORT: u16 = 7007;
const PROBE: usize = 100;
const PROBE_PERIOD: Duration = Duration::from_millis(1);
/// A probe whose sending took longer left at a time that is not known.
const SENDING_MAX_NS: i64 = 50_000;
/// Frames of the load, with check sequence, and how many make 200 Mbit/s on the line.
const LOAD_FRAME: u32 = 1518;
const LOAD_PER_S: f64 = 200e6 / 8.0 / 1538.0;

/// Measures without and with load beside the probes, over so many seconds each.
pub fn run(seconds: u32) -> Vec<Row> {
    if let Err(error) = ["ip", "tc"].iter().try_for_each(|t| tools::program(t).map(|_| ())) {
        return vec![Row::skipped(PART, "everything", error.to_string())];
    }
    [("light load", false), ("beside 200 Mbit/s", true)]
        .into_iter()
        .flat_map(|(name, loaded)| rows(name, loaded, seconds))
        .collect()
}

fn rows(name: &str, loaded: bool, seconds: u32) -> Vec<Row> {
    eprintln!("delay: {name}");
    let what = format!("25 ms, {name}: deviation of 99 % of the packets");
    match measure(loaded, seconds) {
        Ok(Measured { mut deviations, sent, unsure, late }) => {
            let s = weir_measure::spread(&mut deviations);
            let got = deviations.len();
            let lost = sent.saturating_sub(unsure + got);
            let note = format!(
                "median {}, max {} ms; {got} probes, {lost} lost, {unsure} left out",
                short(s.p50),
                short(s.max)
            );
            let own = format!("25 ms, {name}: lateness of 99 % as the loop says");
            vec![
                Row::told(PART, what, s.p99, "ms").at_most(MOST_MS).note(note),
                Row::told(PART, own, late.p99, "ms").note(format!("max {} ms", short(late.max))),
            ]
        }
        Err(error) => vec![Row::failed(PART, what, error.to_string())],
    }
}

struct Measured {
    /// Absolute deviations in milliseconds.
    deviations: Vec<f64>,
    sent: usize,
    /// Probes whose time of sending is not known.
    unsure: usize,
    late: Spread,
}

fn measure(loaded: bool, seconds: u32) -> Result<Measured> {
    let blast = if loaded { Some(tools::peer("udp_blast")?) } else { None };
    let _alone = alone()?;
    let testbed = Testbed::new(TestbedConfig::default())?;
    let manner = Manner { realtime: true, interrupts: Interrupts::Kernel, sense: None };
    let weir = Weir::start(&testbed, channel("delay = \"25ms\"")?, Channel::unshaped(), manner)?;
    let length = f64::from(seconds) + 2.0;
    let flood = blast.map(|b| Flood::start(&testbed, &b, LOAD_FRAME, LOAD_PER_S, length)).transpose()?;
    std::thread::sleep(Duration::from_millis(500));
    let probed = probe(&testbed, seconds);
    flood.map(Flood::finish).transpose()?;
    let late = weir.finish()?.host.late_ms;
    testbed.close()?;
    let (departures, arrivals) = probed?;
    let unsure = departures.iter().filter(|d| d.is_none()).count();
    let deviations = arrivals
        .iter()
        .filter_map(|(seq, at)| {
            let left = (*departures.get(*seq)?)?;
            Some(((at - left) as f64 / 1e6 - DELAY_MS).abs())
        })
        .collect();
    Ok(Measured { deviations, sent: departures.len(), unsure, late })
}

/// When each probe was sent, `None` where that is not known; number and arrival of those that came.
type Probed = (Vec<Option<i64>>, Vec<(usize, i64)>);

fn probe(testbed: &Testbed, seconds: u32) -> Result<Probed> {
    let length = Duration::from_secs(seconds.into());
    let (listening, listens) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || in_netns(testbed.receiver(), || receive(length, &listening))?);
        if listens.recv().is_err() {
            return Err(joined(receiver.join()).err().unwrap_or_else(|| Error::new("nobody listens")));
        }
        let departures = in_netns(testbed.sender(), || send(length))??;
        Ok((departures, joined(receiver.join())?))
    })
}

fn joined<T>(result: std::thread::Result<Result<T>>) -> Result<T> {
    result.unwrap_or_else(|_| Err(Error::new("a thread panicked")))
}

/// The clock of receive time stamps.
fn now_ns() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a place for its time.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn send(length: Duration) -> Result<Vec<Option<i64>>> {
    set_affinity(&[TRAFFIC_CPU])?;
    let socket = UdpSocket::bind((address(Side::Sender, false, false), 0))?;
    socket.connect((address(Side::Receiver, false, false), PORT))?;
    let begin = Instant::now();
    let mut departures = Vec::new();
    let mut probe = [0u8; PROBE];
    while begin.elapsed() < length {
        probe[..8].copy_from_slice(&(departures.len() as u64).to_le_bytes());
        let before = now_ns();
        socket.send(&probe)?;
        let took = now_ns() - before;
        departures.push((took < SENDING_MAX_NS).then_some(before));
        let due = begin + PROBE_PERIOD * departures.len() as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(departures)
}

fn receive(length: Duration, listening: &std::sync::mpsc::Sender<()>) -> Result<Vec<(usize, i64)>> {
    set_affinity(&[TRAFFIC_CPU])?;
    let socket = UdpSocket::bind((address(Side::Receiver, false, false), PORT))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    stamp_arrivals(&socket)?;
    listening.send(())?;
    let deadline = Instant::now() + length + Duration::from_millis(500);
    let mut arrivals = Vec::new();
    while Instant::now() < deadline {
        arrivals.extend(receive_one(&socket));
    }
    Ok(arrivals)
}

fn stamp_arrivals(socket: &UdpSocket) -> Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and length describe `on`.
    let code = unsafe {
        let pointer: *const libc::c_int = &on;
        let size = size_of_val(&on) as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, pointer.cast(), size)
    };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Number and time of arrival of a probe; `None` if none came within the socket's timeout.
fn receive_one(socket: &UdpSocket) -> Option<(usize, i64)> {
    let mut data = [0u8; PROBE];
    // Aligned as control messages need.
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message refers to live buffers of the lengths given.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, 0) };
    if n < 8 {
        return None;
    }
    // SAFETY: the kernel filled the control buffer as `message` now says; headers are read inside of it.
    let at = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            return None;
        }
        let t: libc::timespec = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    };
    let seq = u64::from_le_bytes(data[..8].try_into().ok()?);
    Some((seq as usize, at))
}
