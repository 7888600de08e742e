//! Bulk flows and datagrams, made by iperf3.

use super::iperf::{Output, Stream};
use super::receivers;
use super::{
    Datagrams, FIRST_CLIENT_PORT, FIRST_SERVER_PORT, Findings, FlowReport, Interval, Numbered,
    PACED_BYTES_PER_S, STREAMS_PER_PROCESS, TrafficOptions, handshakes,
};
use crate::command;
use crate::error::{Error, Result};
use crate::netns::{Testbed, in_netns};
use crate::process::{NsChild, spawn_in};
use crate::side::Side;
use crate::sock_diag::{CONNECTED, LISTENING, SockDiag};
use crate::tcpinfo::{FlowTable, PortEnd, sleep_until};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::{Pacing, Traffic};
use weir_dataplane::{RunClock, clock};
use weir_units::Time;

/// Each data connection of iperf3 begins with this many bytes that belong to no measurement.
const COOKIE_BYTES: u64 = 37;
/// How long servers may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a process may take to report after it was asked to end.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes read from a process; the rest is thrown away.
const MAX_OUTPUT: u64 = 256 << 20;
/// The time that iperf3 is given to end by itself, in seconds; the longest that it takes. It counts host
/// time, while this program ends it at a link time.
const MAX_SECONDS: u64 = 86_400;
/// How long after a round-trip time receivers have data for sure.
const SETTLE: weir_units::Duration = weir_units::Duration::from_millis(50);
/// A flow that starts later than planned by this is worth a warning.
const LATE: weir_units::Duration = weir_units::Duration::from_millis(250);

/// Flows of a group that share a client process and a server process.
pub(super) struct Batch {
    group: Numbered,
    first_flow: u32,
    count: u32,
    server_port: u16,
    sender: String,
    receiver: String,
    options: Arc<TrafficOptions>,
    server: Option<Process>,
}

/// Makes batches of a group; `number` is that of the first.
pub(super) fn split(
    testbed: &Testbed,
    group: &Numbered,
    options: &Arc<TrafficOptions>,
    number: usize,
) -> Result<Vec<Batch>> {
    let batches = group.flows.count.div_ceil(STREAMS_PER_PROCESS);
    (0..batches)
        .map(|i| {
            let done = i * STREAMS_PER_PROCESS;
            Ok(Batch {
                group: group.clone(),
                first_flow: group.first_flow + done,
                count: (group.flows.count - done).min(STREAMS_PER_PROCESS),
                server_port: FIRST_SERVER_PORT + (number as u32 + i) as u16,
                sender: testbed.sender().to_string(),
                receiver: testbed.receiver().to_string(),
                options: options.clone(),
                server: None,
            })
        })
        .collect()
}

/// Waits until the servers of all batches accept connections.
pub(super) fn await_listening(testbed: &Testbed, batches: &mut [Batch]) -> Result<()> {
    if batches.is_empty() {
        return Ok(());
    }
    let mut diag = in_netns(testbed.receiver(), SockDiag::open)??;
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        let ports: HashSet<u16> = diag.dump(LISTENING)?.iter().map(|s| s.local_port).collect();
        if batches.iter().all(|b| ports.contains(&b.server_port)) {
            return Ok(());
        }
        for batch in batches.iter_mut() {
            batch.check_server()?;
        }
        if Instant::now() > deadline {
            return Err(Error::Timeout {
                what: "listening of all iperf3 servers".into(),
                seconds: LISTEN_TIMEOUT.as_secs_f64(),
                remedy: "free the machine's CPUs, or use fewer flows".into(),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// When the parts of a test happened, on the host's clock, as iperf3 counts.
#[derive(Clone, Copy)]
struct Times {
    /// Zero of the receiver's intervals.
    zero: Time,
    /// When the receiver counted no more.
    stop: Time,
}

impl Batch {
    /// Starts the server.
    pub fn start_server(&mut self) -> Result<()> {
        let args = [
            "--server".to_string(),
            "--one-off".into(),
            "--json".into(),
            format!("--port={}", self.server_port),
            format!("--interval={:.3}", self.options.interval.as_secs_f64()),
        ];
        self.server = Some(Process::start(&self.receiver, &args, &self.options, Side::Receiver)?);
        Ok(())
    }

    fn check_server(&mut self) -> Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        if server.child.try_wait()?.is_none() {
            return Ok(());
        }
        let reason = self.server.take().map(Process::words).unwrap_or_default();
        Err(Error::Command {
            command: format!("iperf3 --server --port={}", self.server_port),
            status: "ended before any client came".into(),
            message: reason,
        })
    }

    /// Lets the batch run its life on a thread of its own.
    pub fn start(
        mut self,
        table: FlowTable,
        abort: Arc<AtomicBool>,
        findings: Findings,
    ) -> Result<JoinHandle<()>> {
        let diag = in_netns(self.namespace(self.group.source()), SockDiag::open)??;
        for flow in self.flows() {
            let port = client_port(flow);
            let end = match self.group.source() {
                Side::Sender => PortEnd::Local(port),
                Side::Receiver => PortEnd::Remote(port),
            };
            table.register(self.group.source(), end, flow);
        }
        let body = move || {
            if let Err(e) = self.run(diag, &abort, &findings) {
                findings.warn(format!("{}: {e}", self.describe()));
            }
        };
        std::thread::Builder::new()
            .name("weir-iperf3".into())
            .spawn(body)
            .map_err(|e| Error::system("start a thread for iperf3", e))
    }

    fn namespace(&self, side: Side) -> &str {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }

    fn flows(&self) -> std::ops::Range<u32> {
        self.first_flow..self.first_flow + self.count
    }

    fn describe(&self) -> String {
        let last = self.first_flow + self.count - 1;
        if self.count == 1 {
            format!("flow {last} (group {})", self.group.index)
        } else {
            format!("flows {} to {last} (group {})", self.first_flow, self.group.index)
        }
    }

    fn run(&mut self, diag: SockDiag, abort: &AtomicBool, findings: &Findings) -> Result<()> {
        let (start, stop) = self.options.life(&self.group.flows);
        let (run_clock, rtt) = (&self.options.clock, weir_units::Duration::from(self.options.rtt));
        let lead = handshakes(self.count, self.options.rtt);
        if start >= stop || !sleep_until(run_clock, start - lead.into(), abort) {
            return Ok(());
        }
        let mut client = Process::start(&self.sender, &self.client_args(), &self.options, Side::Sender)?;
        let began = self.await_data(diag, &mut client, abort)?;
        let late = run_clock.of(began).since(start);
        if late > rtt + LATE {
            findings.warn(format!("{} started {:.2} s late", self.describe(), late.as_secs_f64()));
        }
        // Data has come by then, which the kernel measures first.
        sleep_until(run_clock, run_clock.of(began).max(start) + rtt + SETTLE, abort);
        if let Err(e) = self.set_receivers(&client) {
            findings.warn(format!("{}: acknowledges in bursts: {e}", self.describe()));
        }
        let early = await_end(&mut client, run_clock, stop, abort)?;
        let stopped = clock();
        client.end()?;
        let mut server = self.server.take().ok_or_else(|| Error::Iperf { reason: "no server".into() })?;
        let client = client.output();
        // The client told the server that it ends; only a server that did not hear it is told by us.
        let connected = client.as_ref().is_ok_and(|c| !c.streams().is_empty());
        let patience = if connected { REPORT_TIMEOUT } else { Duration::ZERO };
        if server.child.wait_until(Instant::now() + patience)?.is_none() {
            server.end()?;
        }
        let exited = clock();
        let server = server.output();
        if early {
            let words = client.as_ref().ok().and_then(|o| o.error.clone()).unwrap_or_default();
            findings.warn(format!("{}: iperf3 ended before its time: {words}", self.describe()));
        }
        let half = weir_units::Duration::from(self.options.rtt / 2);
        let times = match self.group.source() {
            // The news of the end waits in the bottleneck's queue, and the receiver counts until it comes.
            Side::Sender => Times { zero: began - half, stop: exited },
            Side::Receiver => Times { zero: began + half, stop: stopped },
        };
        self.report(client?, server?, times, findings);
        Ok(())
    }

    fn client_args(&self) -> Vec<String> {
        let flows = &self.group.flows;
        let mut args = vec![
            format!("--client={}", self.group.address(Side::Receiver)),
            format!("--port={}", self.server_port),
            "--json".into(),
            format!("--time={MAX_SECONDS}"),
            format!("--parallel={}", self.count),
            format!("--cport={}", client_port(self.first_flow)),
        ];
        match self.group.source() {
            // The server counts what arrives; the client has nothing to tell before the end.
            Side::Sender => args.push("--interval=0".into()),
            Side::Receiver => {
                args.push("--reverse".into());
                args.push(format!("--interval={:.3}", self.options.interval.as_secs_f64()));
            }
        }
        match flows.traffic() {
            Traffic::Unresponsive(datagrams) => {
                args.push("--udp".into());
                args.push(format!("--bitrate={}", datagrams.rate.as_bps()));
                if flows.ecn.is_on() {
                    // ECT(0).
                    args.push("--tos=2".into());
                }
            }
            _ => args.push(format!("--congestion={}", flows.congestion)),
        }
        if flows.host.pacing == Pacing::On {
            args.push(format!("--fq-rate={}", u64::from(PACED_BYTES_PER_S) * 8));
        }
        args
    }

    /// All connections exist by now.
    fn set_receivers(&self, client: &Process) -> Result<usize> {
        let receiving = match self.group.source() {
            Side::Sender => self.server.as_ref(),
            Side::Receiver => Some(client),
        };
        let Some(process) = receiving.filter(|_| self.group.flows.udp_rate.is_none()) else { return Ok(0) };
        receivers::set_in_process(process.child.pid(), self.ports(), self.options.receiving)
    }

    /// The client ports of the flows.
    fn ports(&self) -> std::ops::Range<u16> {
        let first = client_port(self.first_flow);
        first..first + self.count as u16
    }

    /// When the first data was sent, on the host's clock. Without an answer from the kernel (datagrams, or a
    /// client that fails) the planned time.
    fn await_data(&self, mut diag: SockDiag, client: &mut Process, abort: &AtomicBool) -> Result<Time> {
        let run_clock = &self.options.clock;
        let (start, stop) = self.options.life(&self.group.flows);
        if self.group.flows.udp_rate.is_some() {
            sleep_until(run_clock, start, abort);
            return Ok(clock());
        }
        let ports = self.ports();
        while client.child.try_wait()?.is_none() && run_clock.now() < stop && !abort.load(Ordering::Relaxed) {
            let sent = diag.dump(CONNECTED)?.iter().any(|s| {
                (ports.contains(&s.local_port) || ports.contains(&s.remote_port))
                    && s.tcp.is_some_and(|t| t.bytes_sent > COOKIE_BYTES)
            });
            if sent {
                return Ok(clock());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(clock())
    }

    /// Tells the flows what the receiving and the sending process said of them.
    fn report(&self, client: Output, server: Output, times: Times, findings: &Findings) {
        let (clients, servers) = (client.streams(), server.streams());
        for flow in self.flows() {
            let port = client_port(flow);
            let at_client = clients.iter().find(|s| s.local_port == port);
            let at_server = servers.iter().find(|s| s.remote_port == port);
            let (sending, receiving) = match self.group.source() {
                Side::Sender => (at_client, at_server),
                Side::Receiver => (at_server, at_client),
            };
            let Some(receiving) = receiving else {
                findings.warn(format!("flow {flow} (group {}) was not connected", self.group.index));
                continue;
            };
            findings.flow(FlowReport {
                id: flow,
                group: self.group.index,
                congestion: self.group.flows.congestion.clone(),
                intervals: self.intervals(receiving, times),
                retransmits: sending.map_or(0, |s| s.retransmits),
                transfers: Vec::new(),
                datagrams: self.group.flows.udp_rate.map(|_| Datagrams {
                    sent: receiving.packets,
                    lost: receiving.lost_packets,
                    jitter_ms: receiving.jitter_ms,
                }),
            });
        }
    }

    /// The receiver's intervals on the clock of the run.
    fn intervals(&self, stream: &Stream, times: Times) -> Vec<Interval> {
        let run_clock = &self.options.clock;
        let seconds = |host: Time| run_clock.seconds(run_clock.of(host));
        let after_zero = |s: f64| seconds(times.zero + weir_units::Duration::from_secs_f64(s));
        let mut intervals: Vec<Interval> = stream
            .intervals
            .iter()
            .map(|i| Interval { from_s: after_zero(i.start_s), to_s: after_zero(i.end_s), bytes: i.bytes })
            .collect();
        let from_s = intervals.last().map_or(seconds(times.zero), |i| i.to_s);
        let to_s = seconds(times.stop);
        if stream.rest() > 0 {
            // A test that is cut ends within an interval, which iperf3 counts only in the total.
            intervals.push(Interval { from_s, to_s: to_s.max(from_s + 1e-3), bytes: stream.rest() });
        }
        intervals
    }
}

/// Client port of a flow.
fn client_port(flow: u32) -> u16 {
    FIRST_CLIENT_PORT + flow as u16
}

/// Waits for `stop`; true if the client ended before.
fn await_end(client: &mut Process, run_clock: &RunClock, stop: Time, abort: &AtomicBool) -> Result<bool> {
    loop {
        if client.child.try_wait()?.is_some() {
            return Ok(run_clock.now() < stop && !abort.load(Ordering::Relaxed));
        }
        let step = (run_clock.now() + weir_units::Duration::from_millis(100)).min(stop);
        if !sleep_until(run_clock, step, abort) || run_clock.now() >= stop {
            return Ok(false);
        }
    }
}

/// A process of iperf3 whose output is read while it runs.
/// Files in memory (shm_open(3)).
const MEMORY: &str = "/dev/shm";

struct Process {
    child: NsChild,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Process {
    fn start(namespace: &str, args: &[String], options: &TrafficOptions, side: Side) -> Result<Process> {
        let mut command = Command::new(command::find("iperf3")?);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Each stream has a file for its buffer, and a disk that is busy can hold up its start for seconds.
        if Path::new(MEMORY).is_dir() {
            command.env("TMPDIR", MEMORY);
        }
        let mut child = spawn_in(namespace, command, options.spawn_options(side))?;
        let stdout = child.child_mut().stdout.take().map(read_all).transpose()?;
        let stderr = child.child_mut().stderr.take().map(read_all).transpose()?;
        Ok(Process { child, stdout, stderr })
    }

    /// Asks it to end and report; kills it if it does not.
    fn end(&mut self) -> Result<()> {
        self.child.signal(libc::SIGTERM)?;
        if self.child.wait_until(Instant::now() + REPORT_TIMEOUT)?.is_none() {
            self.child.kill();
        }
        Ok(())
    }

    /// What it reported; it must have ended.
    fn output(mut self) -> Result<Output> {
        let text = joined(self.stdout.take());
        Output::parse(&text).map_err(|e| {
            let stderr = joined(self.stderr.take());
            let stderr = String::from_utf8_lossy(&stderr);
            if stderr.trim().is_empty() { e } else { Error::Iperf { reason: stderr.trim().to_string() } }
        })
    }

    /// Why it ended, in its own words.
    fn words(mut self) -> String {
        let stderr = joined(self.stderr.take());
        match self.output() {
            Ok(Output { error: Some(error), .. }) => error,
            _ => String::from_utf8_lossy(&stderr).trim().to_string(),
        }
    }
}

/// Reads to the end on a thread: a full pipe would stop the process.
fn read_all(mut pipe: impl Read + Send + 'static) -> Result<JoinHandle<Vec<u8>>> {
    std::thread::Builder::new()
        .name("weir-output".into())
        .spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth parsing.
            let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            bytes
        })
        .map_err(|e| Error::system("start a thread that reads output", e))
}

fn joined(thread: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    thread.and_then(|t| t.join().ok()).unwrap_or_default()
}
