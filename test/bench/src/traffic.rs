//! Traffic through a testbed, and how much of it arrived.

use crate::error::{Error, Result};
use crate::tools;
use crate::wire::end_host;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use weir_lab::netns::{RECEIVER_INTERFACE, SENDER_INTERFACE, address};
use weir_lab::{NsChild, Side, SpawnOptions, Testbed, in_netns, spawn_in};

/// A destination that the receiver does not have: it counts the frame and drops it at once.
const NOBODY: &str = "02:00:00:00:00:99";

/// Goodput of `flows` TCP connections over `seconds`, in Gbit/s.
pub fn tcp_gbps(testbed: &Testbed, flows: u32, seconds: u32) -> Result<f64> {
    let iperf3 = tools::program("iperf3")?;
    let mut server = Command::new(&iperf3);
    server.args(["-s", "-1"]).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = spawn_in(testbed.receiver(), server, &end_host())?;
    std::thread::sleep(Duration::from_millis(400));
    let mut client = Command::new(&iperf3);
    // The first second is the start of the connections and is left out.
    client.args(["-c", address(Side::Receiver, false, false), "-J", "-O", "1"]);
    client.args(["-t", &seconds.to_string(), "-P", &flows.to_string(), "-C", "cubic"]);
    client.stdout(Stdio::piped()).stderr(Stdio::null());
    let client = spawn_in(testbed.sender(), client, &end_host())?;
    let (_, text) = finish(client, Duration::from_secs(u64::from(seconds) + 15))?;
    let json: Value = serde_json::from_str(&text)?;
    let bits = json["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|b| b / 1e9).ok_or_else(|| Error::new(format!("iperf3 failed: {}", json["error"])))
}

/// Waits for a child's end: how it ended, and what it printed.
fn finish(mut child: NsChild, longest: Duration) -> Result<(ExitStatus, String)> {
    let deadline = Instant::now() + longest;
    let mut output = child.child_mut().stdout.take().ok_or_else(|| Error::new("a child has no output"))?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let Some(status) = child.wait_until(deadline)? else {
        child.kill();
        return Err(Error::new(format!("a program did not end within {longest:?}")));
    };
    Ok((status, reader.join().map_err(|_| Error::new("the reader of a child panicked"))??))
}

/// A flood of UDP frames, sent by `udp_blast`.
pub struct Flood {
    child: NsChild,
}

impl Flood {
    /// Starts sending frames of `frame_bytes` (check sequence included); `rate` in packets per second, 0 for
    /// as many as go.
    pub fn start(
        testbed: &Testbed,
        blast: &Path,
        frame_bytes: u32,
        rate: f64,
        seconds: f64,
    ) -> Result<Flood> {
        let mut command = Command::new(blast);
        let (from, to) = (address(Side::Sender, false, false), address(Side::Receiver, false, false));
        command.args([SENDER_INTERFACE, NOBODY, from, to, &seconds.to_string(), "1000000000000"]);
        command.args([&frame_bytes.to_string(), "1", &rate.to_string()]);
        command.stdout(Stdio::piped());
        // It writes frames to a packet socket, which takes a capability that end hosts do not have.
        let options = SpawnOptions { is_end_host: false, ..end_host() };
        Ok(Flood { child: spawn_in(testbed.sender(), command, &options)? })
    }

    /// Waits for its end.
    pub fn finish(self) -> Result<()> {
        match finish(self.child, Duration::from_secs(60))?.0 {
            status if status.success() => Ok(()),
            status => Err(Error::new(format!("the sender of frames failed: {status}"))),
        }
    }
}

/// Frames and bytes that the receiver's interface has counted, and when.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// When they were read.
    pub at: Instant,
    /// Frames.
    pub frames: u64,
    /// Bytes from the destination address to the end of the data, without check sequence.
    pub bytes: u64,
}

/// Reads the receiver's counters.
pub fn arrived(testbed: &Testbed) -> Result<Arrived> {
    let read = || (Instant::now(), std::fs::read_to_string("/proc/thread-self/net/dev"));
    let (at, text) = in_netns(testbed.receiver(), read)?;
    let text = text?;
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(RECEIVER_INTERFACE)?.strip_prefix(':'));
    let mut fields = line.unwrap_or_default().split_ascii_whitespace().map_while(|f| f.parse().ok());
    match (fields.next(), fields.next()) {
        (Some(bytes), Some(frames)) => Ok(Arrived { at, frames, bytes }),
        _ => Err(Error::new("the receiver's interface has no counters")),
    }
}

/// What arrived in `span`, which begins after `settle`: frames and bytes per second.
pub fn arriving(testbed: &Testbed, settle: Duration, span: Duration) -> Result<(f64, f64)> {
    std::thread::sleep(settle);
    let before = arrived(testbed)?;
    std::thread::sleep(span);
    let after = arrived(testbed)?;
    let seconds = (after.at - before.at).as_secs_f64();
    let per_second = |after: u64, before: u64| (after - before) as f64 / seconds;
    Ok((per_second(after.frames, before.frames), per_second(after.bytes, before.bytes)))
}
