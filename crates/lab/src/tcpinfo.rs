//! Samples of the flows from the sending kernel (`tcp_info`).

use crate::error::{Error, Result};
use crate::netns::{Testbed, in_netns};
use crate::side::Side;
use crate::sock_diag::{CONNECTED, SockDiag};
pub use crate::sock_diag::{SocketInfo, TcpInfo};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_dataplane::RunClock;
use weir_measure::result::FlowSample;
use weir_units::Time;

/// Which end of a connection a port belongs to, as seen from the host that sends the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PortEnd {
    /// The data sender's port.
    Local(u16),
    /// The peer's port.
    Remote(u16),
}

/// Which connections belong to which flow. Copies share one table.
#[derive(Clone, Debug, Default)]
pub struct FlowTable(Arc<RwLock<HashMap<(Side, PortEnd), u32>>>);

impl FlowTable {
    /// An empty table.
    pub fn new() -> FlowTable {
        FlowTable::default()
    }

    /// Tells that connections whose data is sent by `side` and that have this port belong to `flow`. A port
    /// that was used before belongs to the new flow from now on.
    pub fn register(&self, side: Side, port: PortEnd, flow: u32) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert((side, port), flow);
    }

    /// The flow of a connection seen on `side`.
    pub fn flow(&self, side: Side, socket: &SocketInfo) -> Option<u32> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ends = [PortEnd::Local(socket.local_port), PortEnd::Remote(socket.remote_port)];
        ends.iter().find_map(|end| table.get(&(side, *end)).copied())
    }
}

/// What a sampler watches.
#[derive(Clone, Debug)]
pub struct SamplerConfig {
    /// The clock of the samples' times.
    pub clock: RunClock,
    /// Time between two samples of a flow.
    pub period: Duration,
}

/// A thread that samples flows until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<FlowSamples>>>,
}

/// What a sampler saw.
#[derive(Clone, Debug, Default)]
pub struct FlowSamples {
    /// The samples, in order of time.
    pub samples: Vec<FlowSample>,
    /// The last state seen of each flow.
    pub last: HashMap<u32, TcpInfo>,
    /// By how much longer than its period the longest time between two samples was, in seconds: for so long
    /// the program had no processor.
    pub late_s: f64,
}

impl FlowSamples {
    /// Flows that waited for more than this share of their busy time for the receiver's window or for room
    /// in the send buffer: there, buffers were measured and not the bottleneck.
    pub fn buffer_limited(&self, share: f64) -> Vec<u32> {
        let limited =
            |i: &TcpInfo| (i.receive_limited_us + i.send_limited_us) as f64 > share * i.busy_us.max(1) as f64;
        let mut flows: Vec<u32> = self.last.iter().filter(|(_, i)| limited(i)).map(|(f, _)| *f).collect();
        flows.sort_unstable();
        flows
    }
}

impl Sampler {
    /// Starts sampling the flows of `table` in both end hosts of a testbed.
    pub fn start(testbed: &Testbed, table: FlowTable, config: SamplerConfig) -> Result<Sampler> {
        if config.period < Duration::from_millis(1) {
            return Err(Error::invalid("sampling more often than every millisecond", "use a longer period"));
        }
        let mut hosts = Vec::new();
        for side in [Side::Sender, Side::Receiver] {
            hosts.push((side, in_netns(testbed.namespace(side), SockDiag::open)??));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("weir-tcpinfo".into())
            .spawn(move || sample(hosts, &table, &config, &stopped))
            .map_err(|e| Error::system("start the sampler's thread", e))?;
        Ok(Sampler { stop, thread: Some(thread) })
    }

    /// Stops it and returns what it saw.
    pub fn stop(mut self) -> Result<FlowSamples> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(Error::system("sample TCP", std::io::Error::other("the sampler's thread panicked"))),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All TCP connections of a namespace at this moment.
pub fn snapshot(namespace: &str) -> Result<Vec<SocketInfo>> {
    in_netns(namespace, || SockDiag::open()?.dump(CONNECTED))?
}

fn sample(
    mut hosts: Vec<(Side, SockDiag)>,
    table: &FlowTable,
    config: &SamplerConfig,
    stop: &AtomicBool,
) -> Result<FlowSamples> {
    let mut seen = FlowSamples::default();
    let clock = &config.clock;
    let mut due = clock.at(weir_units::Duration::ZERO);
    let mut expected_s = clock.seconds(due);
    while sleep_until(clock, due, stop) {
        let now_s = clock.seconds(clock.now());
        seen.late_s = seen.late_s.max(now_s - expected_s);
        expected_s = now_s + config.period.as_secs_f64();
        for (side, diag) in &mut hosts {
            let sockets = diag.dump(CONNECTED)?;
            let t_s = clock.seconds(clock.now());
            for socket in &sockets {
                if let (Some(flow), Some(tcp)) = (table.flow(*side, socket), socket.tcp) {
                    seen.samples.push(row(t_s, flow, &tcp));
                    seen.last.insert(flow, tcp);
                }
            }
        }
        // A late sample does not make the next ones late, and none is made up.
        while due <= clock.now() {
            due += config.period.into();
        }
    }
    Ok(seen)
}

fn row(t_s: f64, flow: u32, tcp: &TcpInfo) -> FlowSample {
    FlowSample {
        t_s,
        flow,
        cwnd: tcp.cwnd,
        ssthresh: tcp.ssthresh,
        rtt_us: tcp.rtt_us,
        rttvar_us: tcp.rttvar_us,
        retransmits: tcp.retransmits,
        bytes_acked: tcp.bytes_acked,
        delivery_bps: tcp.delivery_bps,
    }
}

/// Sleeps until `due`, a time of the run's clock; false as soon as `stop` is set.
pub(crate) fn sleep_until(clock: &RunClock, due: Time, stop: &AtomicBool) -> bool {
    const NAP: Duration = Duration::from_millis(50);
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = Duration::from_nanos(due.since(clock.now()).as_nanos());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_nobody_registered_have_no_flow() {
        let table = FlowTable::new();
        table.register(Side::Sender, PortEnd::Local(10_000), 3);
        table.register(Side::Receiver, PortEnd::Remote(10_001), 4);
        let socket = |local_port, remote_port| SocketInfo { local_port, remote_port, ..Default::default() };
        assert_eq!(table.flow(Side::Sender, &socket(10_000, 5201)), Some(3));
        assert_eq!(table.flow(Side::Sender, &socket(40_000, 5201)), None);
        assert_eq!(table.flow(Side::Receiver, &socket(5201, 10_001)), Some(4));
        assert_eq!(table.flow(Side::Receiver, &socket(10_001, 5201)), None);
    }

    #[test]
    fn flows_that_waited_for_buffers_are_named() {
        let mut seen = FlowSamples::default();
        seen.last.insert(1, TcpInfo { busy_us: 1000, receive_limited_us: 60, ..Default::default() });
        seen.last.insert(2, TcpInfo { busy_us: 1000, send_limited_us: 10, ..Default::default() });
        assert_eq!(seen.buffer_limited(0.05), [1]);
    }
}
