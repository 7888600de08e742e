//! Flows of a scenario as real kernel TCP through a testbed.
//!
//! Bulk flows and datagrams are made by iperf3: one server and one client process for each batch of
//! parallel streams. Transfers of a given size are made by this program's own sockets, because iperf3
//! ends a transfer when the sender's buffer has taken it, not when the receiver has it, and takes several
//! round trips to set each one up; neither gives a completion time.

mod bulk;
pub mod iperf;
mod receivers;
mod transfer;

use crate::command;
use crate::error::{Error, Result};
use crate::netns::{Testbed, address};
use crate::process::SpawnOptions;
use crate::side::Side;
use crate::supported;
use crate::tcpinfo::FlowTable;
use bulk::Batch;
pub use receivers::{Receiving, low_water_mark};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_config::{Direction, FlowGroup, IpVersion, Traffic};
use weir_dataplane::RunClock;
use weir_measure::result::{FlowSample, FlowSummary};
use weir_units::Time;

/// Streams of one iperf3 process. iperf3 allows 128, but connects them one after the other, one round trip
/// each, before any of them sends.
pub const STREAMS_PER_PROCESS: u32 = 16;
/// Most iperf3 processes of a run on each side.
pub const MAX_PROCESSES: usize = 512;
/// Port of the first server.
const FIRST_SERVER_PORT: u16 = 5201;
/// Client port of flow 0; flow n has the n-th after it. Below the ports the kernel gives away by itself.
const FIRST_CLIENT_PORT: u16 = 10_000;

/// Largest rate of flows that are to pace, in bytes/s: with any, Linux sends at 1.2 times the window in a
/// round-trip time, twice in slow start. iperf3 and the kernel take 32 bits.
const PACED_BYTES_PER_S: u32 = 3_750_000_000;

/// How traffic is run.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// The clock that flows start and stop by, and that their reports are on. For flows that start at 0 to
    /// be in time, its zero must be [`lead_time`] away.
    pub clock: RunClock,
    /// Length of the run.
    pub duration: Duration,
    /// Round-trip time of the path without queues: processes start earlier by what their handshakes take.
    pub rtt: Duration,
    /// Length of the intervals in which received bytes are counted, at least 100 ms.
    pub interval: Duration,
    /// How connections receive.
    pub receiving: Receiving,
    /// CPUs and niceness of what runs in the sender's namespace.
    pub sender: SpawnOptions,
    /// CPUs and niceness of what runs in the receiver's namespace.
    pub receiver: SpawnOptions,
}

impl TrafficOptions {
    fn spawn_options(&self, side: Side) -> &SpawnOptions {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }

    /// When the flows of a group start and stop.
    fn life(&self, group: &FlowGroup) -> (Time, Time) {
        let end = self.clock.at(self.duration.into());
        let stop = group.stop.map_or(end, |stop| self.clock.at(stop).min(end));
        (self.clock.at(group.start), stop)
    }
}

/// How long before the start of the run traffic must be started, so that flows that begin at its start do.
pub fn lead_time(groups: &[FlowGroup], rtt: Duration) -> Duration {
    let streams = groups.iter().map(|g| g.count.min(STREAMS_PER_PROCESS)).max().unwrap_or(0);
    handshakes(streams, rtt) + Duration::from_millis(100)
}

/// What iperf3 takes from its start to the first data: control connection, parameters, a connection for each
/// stream, start.
fn handshakes(streams: u32, rtt: Duration) -> Duration {
    rtt * (streams + 4) + Duration::from_millis(20)
}

/// Bytes that the receiver's application got in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Beginning, in seconds after the start of the run.
    pub from_s: f64,
    /// End, in seconds after the start of the run.
    pub to_s: f64,
    /// Bytes received.
    pub bytes: u64,
}

impl Interval {
    /// Part of the interval, from 0 to 1, that lies within a window.
    fn share_within(&self, from_s: f64, to_s: f64) -> f64 {
        let overlap = self.to_s.min(to_s) - self.from_s.max(from_s);
        let length = self.to_s - self.from_s;
        if length > 0.0 { (overlap / length).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// One transfer of a given size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// When it started to connect, in seconds after the start of the run.
    pub start_s: f64,
    /// Time until the receiver had all of it, connecting included; `None` if it did not complete.
    pub completion_s: Option<f64>,
    /// Bytes the receiver got.
    pub bytes: u64,
}

/// Loss of datagrams, as the receiver counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// Datagrams sent, as far as the receiver can tell.
    pub sent: u64,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// Smoothed variation of the delay in milliseconds (RFC 3550).
    pub jitter_ms: f64,
}

/// What became of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Number of the flow, counted over all groups from 0.
    pub id: u32,
    /// Index of its group.
    pub group: u32,
    /// Congestion control.
    pub congestion: String,
    /// Bytes received, in order of time (transfers may overlap).
    pub intervals: Vec<Interval>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Transfers, for flows that are made of them.
    pub transfers: Vec<Transfer>,
    /// Datagrams, for flows that are made of them.
    pub datagrams: Option<Datagrams>,
}

impl FlowReport {
    /// Bytes received in a window; intervals that are partly within it count in proportion.
    pub fn bytes_within(&self, from_s: f64, to_s: f64) -> f64 {
        self.intervals.iter().map(|i| i.bytes as f64 * i.share_within(from_s, to_s)).sum()
    }

    /// Time within a window in which the flow was active.
    pub fn active_within(&self, from_s: f64, to_s: f64) -> f64 {
        let mut spans: Vec<(f64, f64)> =
            self.intervals.iter().map(|i| (i.from_s.max(from_s), i.to_s.min(to_s))).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut total, mut reached) = (0.0, from_s);
        for (from, to) in spans {
            let from = from.max(reached);
            if to > from {
                total += to - from;
                reached = to;
            }
        }
        total
    }

    /// Bytes received in a window divided by the time in which the flow was active in it, in bit/s.
    pub fn goodput_bps(&self, from_s: f64, to_s: f64) -> f64 {
        let active = self.active_within(from_s, to_s);
        if active > 0.0 { self.bytes_within(from_s, to_s) * 8.0 / active } else { 0.0 }
    }

    /// The flow's entry in the summary; `samples` are those of all flows.
    pub fn summary(&self, warmup_s: f64, end_s: f64, samples: &[FlowSample]) -> FlowSummary {
        let mine = samples.iter().filter(|s| s.flow == self.id && s.t_s >= warmup_s && s.t_s < end_s);
        let rtts: Vec<f64> = mine.filter(|s| s.rtt_us > 0).map(|s| f64::from(s.rtt_us) / 1e3).collect();
        FlowSummary {
            id: self.id,
            group: self.group,
            congestion: self.congestion.clone(),
            bytes: self.bytes_within(warmup_s, end_s) as u64,
            goodput_bps: self.goodput_bps(warmup_s, end_s),
            retransmits: self.retransmits,
            rtt_ms: if rtts.is_empty() { 0.0 } else { rtts.iter().sum::<f64>() / rtts.len() as f64 },
            transfers: None,
        }
    }
}

/// What became of all flows.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    /// One entry for each flow, in order of the numbers.
    pub flows: Vec<FlowReport>,
    /// What a reader must know before believing the numbers: flows that failed, started late, or lost data.
    pub warnings: Vec<String>,
}

impl TrafficReport {
    /// The flows' entries in the summary of a run whose measured part is `[warmup_s, end_s)`.
    pub fn summaries(&self, warmup_s: f64, end_s: f64, samples: &[FlowSample]) -> Vec<FlowSummary> {
        // Each flow looks only at its own samples.
        let mut by_flow: Vec<Vec<FlowSample>> = vec![Vec::new(); self.flows.len()];
        for sample in samples {
            if let Some(list) = by_flow.get_mut(sample.flow as usize) {
                list.push(*sample);
            }
        }
        self.flows.iter().zip(by_flow).map(|(f, s)| f.summary(warmup_s, end_s, &s)).collect()
    }
}

/// What a thread of the traffic found out.
enum Outcome {
    Flow(FlowReport),
    Warning(String),
}

/// Where threads of the traffic tell what they found out.
#[derive(Clone)]
struct Findings(mpsc::Sender<Outcome>);

impl Findings {
    fn flow(&self, report: FlowReport) {
        // The receiver is gone only when nobody wants the report any more.
        let _ = self.0.send(Outcome::Flow(report));
    }

    fn warn(&self, text: impl Into<String>) {
        let _ = self.0.send(Outcome::Warning(text.into()));
    }
}

/// Flows that are under way. Dropping it ends them.
#[derive(Debug)]
pub struct TrafficRun {
    table: FlowTable,
    abort: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    outcomes: mpsc::Receiver<Outcome>,
    reports: Vec<FlowReport>,
}

/// A group with its number and the number of its first flow.
#[derive(Clone)]
struct Numbered {
    index: u32,
    first_flow: u32,
    flows: FlowGroup,
}

impl Numbered {
    /// The host that sends the data.
    fn source(&self) -> Side {
        match self.flows.direction {
            Direction::Forward => Side::Sender,
            Direction::Reverse => Side::Receiver,
        }
    }

    fn ipv6(&self) -> bool {
        self.flows.ip == IpVersion::V6
    }

    /// Where connections to `side` go.
    fn address(&self, side: Side) -> &'static str {
        // Datagrams carry their ECN bits themselves.
        address(side, self.ipv6(), self.flows.ecn.is_on() && self.flows.udp_rate.is_none())
    }
}

impl TrafficRun {
    /// Starts the traffic of a scenario's flow groups: returns when all servers listen; the flows then start
    /// and stop by themselves. The path between the hosts must forward packets from now on.
    pub fn start(testbed: &Testbed, groups: &[FlowGroup], options: TrafficOptions) -> Result<TrafficRun> {
        check(testbed, groups, &options)?;
        let (sender, outcomes) = mpsc::channel();
        let findings = Findings(sender);
        let mut run = TrafficRun {
            table: FlowTable::new(),
            abort: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            outcomes,
            reports: Vec::new(),
        };
        let options = Arc::new(options);
        let mut batches: Vec<Batch> = Vec::new();
        for group in numbered(groups) {
            run.announce(&group);
            match group.flows.traffic() {
                Traffic::Transfers { size, every, .. } => {
                    let size = size.get();
                    let job = transfer::Job { group, size, every, options: options.clone() };
                    let threads = transfer::start(testbed, job, &run.table, &run.abort, &findings)?;
                    run.threads.extend(threads);
                }
                Traffic::Bulk | Traffic::Unresponsive(_) => {
                    batches.extend(bulk::split(testbed, &group, &options, batches.len())?);
                }
                _ => unreachable!("refused by the check above"),
            }
        }
        // On failure `run` and `batches` are dropped here, which ends what was started.
        for batch in &mut batches {
            batch.start_server()?;
        }
        bulk::await_listening(testbed, &mut batches)?;
        for batch in batches {
            run.threads.push(batch.start(run.table.clone(), run.abort.clone(), findings.clone())?);
        }
        Ok(run)
    }

    /// Which connections belong to which flow, for a sampler.
    pub fn table(&self) -> FlowTable {
        self.table.clone()
    }

    /// Tells all flows to end now; [`TrafficRun::finish`] then returns soon, with what there was until now.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    /// A flag that ends all flows when set, for signal handlers and watchdogs.
    pub fn abort_flag(&self) -> Arc<AtomicBool> {
        self.abort.clone()
    }

    /// Whether all flows have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end of all flows and tells what became of them.
    pub fn finish(mut self) -> TrafficReport {
        let mut report = TrafficReport::default();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                report.warnings.push("a thread of the traffic panicked: flows are missing".into());
            }
        }
        for outcome in self.outcomes.try_iter() {
            match outcome {
                Outcome::Flow(flow) => {
                    if let Some(entry) = self.reports.get_mut(flow.id as usize) {
                        *entry = flow;
                    }
                }
                Outcome::Warning(text) => report.warnings.push(text),
            }
        }
        report.flows = std::mem::take(&mut self.reports);
        report
    }

    /// An empty report for each flow, so that flows that fail are in the results, too.
    fn announce(&mut self, group: &Numbered) {
        let report = |id| FlowReport {
            id,
            group: group.index,
            congestion: group.flows.congestion.clone(),
            ..FlowReport::default()
        };
        self.reports.extend((group.first_flow..group.first_flow + group.flows.count).map(report));
    }
}

impl Drop for TrafficRun {
    fn drop(&mut self) {
        self.abort();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn numbered(groups: &[FlowGroup]) -> Vec<Numbered> {
    let mut first_flow = 0;
    let mut number = |(index, flows): (usize, &FlowGroup)| {
        let group = Numbered { index: index as u32, first_flow, flows: flows.clone() };
        first_flow += flows.count;
        group
    };
    groups.iter().enumerate().map(&mut number).collect()
}

/// Everything that can be known to be wrong before anything is started.
fn check(testbed: &Testbed, groups: &[FlowGroup], options: &TrafficOptions) -> Result<()> {
    let mut processes = 0;
    supported::check_flows(groups)?;
    for group in groups {
        match group.traffic() {
            Traffic::Transfers { .. } => testbed.require_congestion(&group.congestion)?,
            Traffic::Bulk => {
                testbed.require_congestion(&group.congestion)?;
                processes += group.count.div_ceil(STREAMS_PER_PROCESS) as usize;
            }
            Traffic::Unresponsive(_) => processes += group.count.div_ceil(STREAMS_PER_PROCESS) as usize,
            _ => unreachable!("refused by the check above"),
        }
    }
    if processes > 0 {
        command::find("iperf3")?;
    }
    let flows: u64 = groups.iter().map(|g| u64::from(g.count)).sum();
    if processes > MAX_PROCESSES || flows > u64::from(weir_config::MAX_FLOWS) {
        return Err(Error::invalid(
            format!("{flows} flows are too many for one machine"),
            format!("at most {} bulk flows can be run", MAX_PROCESSES as u32 * STREAMS_PER_PROCESS),
        ));
    }
    if options.interval < Duration::from_millis(100) {
        return Err(Error::invalid(
            "intervals of received bytes are shorter than 100 ms",
            "iperf3 cannot: use longer ones",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(intervals: &[(f64, f64, u64)]) -> FlowReport {
        let intervals =
            intervals.iter().map(|&(from_s, to_s, bytes)| Interval { from_s, to_s, bytes }).collect();
        FlowReport { intervals, ..FlowReport::default() }
    }

    #[test]
    fn goodput_counts_only_the_window() {
        let f =
            flow(&[(0.0, 1.0, 1_000_000), (1.0, 2.0, 125_000), (2.0, 3.0, 125_000), (3.0, 4.0, 9_000_000)]);
        assert_eq!(f.goodput_bps(1.0, 3.0), 1e6);
        assert_eq!(f.goodput_bps(1.5, 3.0), 1e6);
        assert_eq!(f.goodput_bps(5.0, 6.0), 0.0);
    }

    #[test]
    fn goodput_is_over_the_time_in_which_the_flow_was_active() {
        let f = flow(&[(2.0, 3.0, 125_000)]);
        assert_eq!(f.goodput_bps(0.0, 10.0), 1e6);
        // Transfers that overlap: the time counts once.
        let f = flow(&[(0.0, 2.0, 125_000), (1.0, 2.0, 125_000), (5.0, 6.0, 125_000)]);
        assert_eq!(f.active_within(0.0, 10.0), 3.0);
        assert_eq!(f.goodput_bps(0.0, 10.0), 1e6);
    }

    #[test]
    fn the_rtt_is_the_mean_of_the_measured_samples() {
        let sample = |t_s, flow, rtt_us| FlowSample { t_s, flow, rtt_us, ..FlowSample::default() };
        let samples =
            [sample(0.5, 0, 90_000), sample(1.0, 0, 10_000), sample(1.5, 0, 20_000), sample(1.5, 1, 5)];
        let report = TrafficReport { flows: vec![flow(&[(1.0, 2.0, 125_000)])], warnings: Vec::new() };
        let summaries = report.summaries(1.0, 2.0, &samples);
        assert_eq!((summaries[0].rtt_ms, summaries[0].goodput_bps, summaries[0].bytes), (15.0, 1e6, 125_000));
    }
}
