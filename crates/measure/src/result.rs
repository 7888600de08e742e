//! What a run yields, in the same form from every arm (live link, lab, simulator).
//!
//! The summary is JSON, the samples are tables. Field names carry their unit.

use crate::responsiveness::Responsiveness;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use weir_queue::UserCounters;
use weir_sense::probe::{Sensor, Shaped};

/// One run of one scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Title of the scenario.
    pub title: String,
    /// Where it ran: `lab`, `run` or `sim`.
    pub arm: String,
    /// Whether it was ended before its time, as by Ctrl-C. A run of `weir run` without a length has none.
    pub interrupted: bool,
    /// Length of the measured part (after the warm-up), in seconds.
    pub duration_s: f64,
    /// Start of the measured part, in seconds after the start of the run.
    pub warmup_s: f64,
    /// How frames entered and left, such as `AF_XDP, native`; empty in the simulator.
    pub ports: String,
    /// One entry for each link and direction that was managed.
    pub links: Vec<LinkSummary>,
    /// One entry for each flow, where the arm knows flows.
    pub flows: Vec<FlowSummary>,
    /// How disturbed the host was while it measured; absent in the simulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostJitter>,
    /// Responsiveness under working conditions, where a lab was asked to measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responsiveness: Option<Responsiveness>,
    /// Things a reader must know before believing the numbers.
    pub warnings: Vec<String>,
}

/// One direction of one link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Name of the link and direction, such as `a_to_b`.
    pub name: String,
    /// The algorithm on it.
    pub aqm: String,
    /// The configured rate in bit/s, by the link's byte accounting; none when unshaped.
    pub rate_bps: Option<f64>,
    /// Byte accounting of rates and utilization: `line`, `frame` or `ip`.
    pub accounting: String,
    /// Packets delivered in the measured part.
    pub packets: u64,
    /// Bytes delivered in the measured part, by the link's accounting.
    pub bytes: u64,
    /// Delivered rate divided by what the link could have carried, which is the configured rate where that
    /// does not change; 0 when unshaped.
    pub utilization: f64,
    /// Queueing delay (sojourn time) of the delivered packets.
    pub delay_ms: Spread,
    /// The same of low-latency and of classic traffic apart, where packets came with ECT(1). Under DualPI2
    /// these are its two queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_by_class_ms: Option<ByClass>,
    /// Packets discarded by the algorithm.
    pub drops: u64,
    /// Packets discarded because the buffer was full.
    pub overflows: u64,
    /// Acknowledgements whose place newer ones took, where the queue filters them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acks_filtered: u64,
    /// Packets of flows that built a low-latency queue, which queue protection sent to the classic one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sanctioned: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Set point at the end, in milliseconds, where the algorithm has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setpoint_ms: Option<f64>,
    /// Frames that could not be parsed or forwarded, by reason.
    pub faults: Vec<(String, u64)>,
    /// What its probes told, where it senses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensing: Option<Sensing>,
    /// What it learned of the bottlenecks behind it from the packets that passed, where it observes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Observed>,
    /// What happened to its users, where each has a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersSummary>,
    /// Flows that send data over this link, where the scenario tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// How the link stood in each span of the run in which the number of flows and its rate stay; empty where
    /// they always do, and on links without a rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Links that tables on a terminal and pages show of one run.
pub const LINKS_SHOWN: usize = 40;

impl Summary {
    /// The links that are shown, by index: all, and of more than [`LINKS_SHOWN`] so many with the longest 95
    /// % delays, in the order of the summary.
    pub fn links_shown(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.links.len()).collect();
        if order.len() > LINKS_SHOWN {
            let delay = |link: &usize| self.links[*link].delay_ms.p95;
            order.sort_by(|a, b| delay(b).total_cmp(&delay(a)));
            order.truncate(LINKS_SHOWN);
            order.sort_unstable();
        }
        order
    }

    /// The summary with the links that are shown, and a warning that tells of the others; itself where it has
    /// no others.
    pub fn shown(&self) -> Cow<'_, Summary> {
        let shown = self.links_shown();
        let others = self.links.len() - shown.len();
        if others == 0 {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.links = shown.into_iter().map(|link| self.links[link].clone()).collect();
        copy.warnings.push(format!(
            "of {} links the {} with the longest 95 % delay are shown; summary.json and samples.csv have all",
            self.links.len(),
            copy.links.len()
        ));
        Cow::Owned(copy)
    }

    /// The number of flows of a link of this run: all of them where it is not known which send over it.
    pub fn flows_of(&self, link: &LinkSummary) -> Option<usize> {
        link.flows.map(|flows| flows as usize).or((!self.flows.is_empty()).then_some(self.flows.len()))
    }
}

/// What happened to the users of a link on which each has a queue, over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UsersSummary {
    /// Places given to newcomers.
    pub placed: u64,
    /// Of these, taken from users who had sent little and were silent.
    pub displaced: u64,
    /// Packets of users without a place, who share one queue.
    pub shared_packets: u64,
}

impl UsersSummary {
    /// Of what a queue counted.
    pub fn of(counters: UserCounters) -> UsersSummary {
        let UserCounters { placed, displaced, shared } = counters;
        UsersSummary { placed, displaced, shared_packets: shared }
    }
}

/// What a link learned of the bottlenecks behind it from the packets that passed, over the whole run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// What was done with it: `inform` or `follow`.
    pub mode: String,
    /// Round-trip times between the link and users in the measured part, at most four of a flow in the
    /// smallest of them; of live links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<Spread>,
    /// How many those were.
    pub samples: u64,
    /// Path RTT, Average RTT and Target RTT at the end, where the link has one model and not one for each
    /// user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rtt_ms: Option<f64>,
    /// See `path_rtt_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_rtt_ms: Option<f64>,
    /// See `path_rtt_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_rtt_ms: Option<f64>,
    /// The rate in force at the end, where it follows a bottleneck and is lower than the link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<f64>,
    /// Bytes towards users.
    pub bytes: u64,
    /// Those of flows whose round-trip time was known and not old: the share of all is the coverage.
    pub live_bytes: u64,
    /// Users that are measured at the end.
    pub users: u32,
    /// Memory of what is measured, taken at the start.
    pub memory_bytes: u64,
    /// What did not add up, and packets that could not be measured, by reason.
    pub suspicions: Vec<(String, u64)>,
}

impl Observed {
    /// The share of bytes of flows with a known round-trip time; `None` before the first byte.
    pub fn coverage(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.live_bytes as f64 / self.bytes as f64)
    }
}

/// What the probes of a link told, over the whole run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sensing {
    /// Whether probes can be relied on at the end: `starting`, `sensing`, `holding` or `fallen back`.
    pub state: String,
    /// Smoothed round trip of the probes that came back, at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Probes sent.
    pub sent: u64,
    /// Probes that came back, each counted once.
    pub returned: u64,
    /// Probes given up.
    pub lost: u64,
    /// Of those that came back, given up before.
    pub late: u64,
    /// Of those that came back, overtaken by a later one.
    pub reordered: u64,
    /// Of those that came back, in another class than they were sent in.
    pub remapped: u64,
    /// Replies to a probe that was back already.
    pub duplicated: u64,
    /// Replies to no probe of this link, or with a wrong nonce or time.
    pub forged: u64,
    /// Bytes of probes divided by bytes of data, as IP packets.
    pub share: f64,
    /// What became of the rate of the link, where probes have to do with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaped: Option<SensedRate>,
    /// What else a live link saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<SensedWire>,
}

/// What probes did to the rate of a link, over the whole run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SensedRate {
    /// The rate at the end, in bit/s, by the accounting of the link as the others.
    pub rate_bps: f64,
    /// The least that was in force.
    pub least_bps: f64,
    /// The largest.
    pub largest_bps: f64,
    /// Whether it is what it is because probes do not come back.
    pub fallen_back: bool,
    /// How often it fell back for want of probes.
    pub fall_backs: u64,
    /// How often autorate found packets waiting below, and lowered it.
    pub cuts: u64,
}

impl SensedRate {
    /// What is told of a shaper.
    pub fn of(shaped: &Shaped) -> SensedRate {
        SensedRate {
            rate_bps: shaped.rate.as_bps_f64(),
            least_bps: shaped.least.as_bps_f64(),
            largest_bps: shaped.largest.as_bps_f64(),
            fallen_back: shaped.is_fallen_back,
            fall_backs: shaped.fall_backs,
            cuts: shaped.cuts,
        }
    }
}

/// What a live link saw of probes, over the whole run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SensedWire {
    /// Packets of data that probes may follow.
    pub data_packets: u64,
    /// Their IP bytes.
    pub data_bytes: u64,
    /// IP bytes of probes sent.
    pub sent_bytes: u64,
    /// Probes that were due by the number of packets and not sent, for the share of bytes or the rate.
    pub budget_skipped: u64,
    /// Messages of routers that know a shorter way for a probe (ICMP redirect); they end here.
    pub redirects: u64,
    /// Messages of routers and hosts that do not pass a probe on; they end here.
    pub refused: u64,
    /// Probes that were due while there was no memory for them.
    pub no_memory: u64,
    /// Round trips of the measured part, those of lost probes not among them.
    pub rtt_ms: Spread,
}

impl Sensing {
    /// What a sensor tells, and what became of the rate of its link.
    pub fn of(sensor: &Sensor, shaped: Option<&Shaped>) -> Sensing {
        let c = sensor.counters();
        Sensing {
            state: sensor.state().name().to_string(),
            rtt_ms: sensor.rtt().map(|rtt| rtt.as_millis_f64()),
            sent: c.sent,
            returned: c.returned,
            lost: c.lost,
            late: c.late,
            reordered: c.reordered,
            remapped: c.remapped,
            duplicated: c.duplicated,
            forged: c.forged + c.unknown + c.future,
            share: c.sent_bytes.get() as f64 / (c.data_bytes.get() as f64).max(1.0),
            shaped: shaped.map(SensedRate::of),
            wire: None,
        }
    }
}

/// The later half of a span of the run in which no flows start or stop and the rate of the link stays: how
/// it settled.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Its beginning, in seconds after the start of the run.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// The number of flows.
    pub flows: u32,
    /// Delivered rate divided by what the link could have carried.
    pub utilization: f64,
    /// Mean sojourn time of the delivered packets, in milliseconds.
    pub delay_mean_ms: f64,
    /// Sojourn time in milliseconds that 95 % of the delivered packets do not exceed.
    #[serde(default)]
    pub delay_p95_ms: f64,
}

/// Mean and percentiles of a quantity.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

/// A quantity of low-latency and of classic traffic (RFC 9331: a packet with ECT(1) or CE is low-latency).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ByClass {
    /// Of packets that came with ECT(1) or CE.
    pub low_latency: Spread,
    /// Of all others.
    pub classic: Spread,
}

/// One flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Number of the flow, counted over all groups of the scenario from 0.
    pub id: u32,
    /// Index of the `[[flows]]` table it came from.
    pub group: u32,
    /// Congestion control.
    pub congestion: String,
    /// Application bytes received in the measured part.
    #[serde(default)]
    pub bytes: u64,
    /// The same in bits, divided by the time the flow was active in it.
    pub goodput_bps: f64,
    /// Segments the sender's kernel sent again, over the whole run.
    pub retransmits: u64,
    /// Smoothed RTT as the sender's kernel saw it, mean over the samples, in milliseconds.
    pub rtt_ms: f64,
    /// What came of its transfers, where it makes such and the arm follows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
}

/// Transfers of a flow over the whole run, the warm-up included.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Transfers {
    /// How many were completed.
    pub completed: u32,
    /// Time from the start of a transfer to the arrival of its last byte, mean over those, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_s: Option<f64>,
}

/// How late the packet loop was called, as measured by itself during the run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct HostJitter {
    /// Gap between two turns of the packet loop, in milliseconds.
    pub gap_ms: Spread,
    /// Share of time spent in gaps above one millisecond.
    pub stalled_share: f64,
    /// Whether the loop had a real-time scheduling class.
    pub realtime: bool,
    /// Whether the loop had a core of its own.
    pub own_core: bool,
    /// How late frames left the delay line of the first direction, in milliseconds.
    pub late_ms: Spread,
}

/// One row of the link's sample table.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LinkSample {
    /// End of the sampling period, in seconds after the start of the run.
    pub t_s: f64,
    /// Arriving rate in the period, in bit/s by the link's accounting.
    pub arrived_bps: f64,
    /// Delivered rate in the period, in bit/s by the link's accounting.
    pub delivered_bps: f64,
    /// Mean sojourn time of the packets delivered in the period, in ms.
    pub delay_mean_ms: f64,
    /// Largest sojourn time in the period, in ms.
    pub delay_max_ms: f64,
    /// Backlog at the end of the period, in bytes.
    pub backlog_bytes: u64,
    /// Set point at the end of the period, in ms; NaN (in JSON null) where there is none.
    #[serde(with = "nan_as_null")]
    pub setpoint_ms: f64,
    /// Packets discarded by the algorithm in the period.
    pub drops: u64,
    /// Packets discarded for lack of room in the period.
    pub overflows: u64,
    /// Packets marked in the period.
    pub marks: u64,
    /// State of Table I (0 unknown, 1 below, 2 above, 3 fluctuating around the set point), or 4: the flows do
    /// not respond; 0 without steering.
    pub table_state: u8,
    /// Virtual backlog in bytes; 0 while the virtual queue is not in charge.
    pub virtual_backlog_bytes: u64,
    /// Rate of the virtual queue in bit/s; 0 while it is not in charge.
    pub virtual_rate_bps: f64,
    /// Share of the period in which the virtual queue was in charge and empty, 0 to 1. What lies between the
    /// last arrival of a period and its end counts in the next.
    pub virtual_empty: f64,
    /// What the link could have carried in the period, in bit/s by its accounting: its rate, the mean of its
    /// steps, or the opportunities of its trace; of a link on a shared medium, while the others are silent.
    /// NaN (in JSON null) where it has no rate.
    #[serde(with = "nan_as_null")]
    pub capacity_bps: f64,
}

/// One row of the flows' sample table, from the sender's kernel (`tcp_info`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct FlowSample {
    /// Seconds after the start of the run.
    pub t_s: f64,
    /// Number of the flow.
    pub flow: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; 0 while it is infinite.
    pub ssthresh: u32,
    /// Smoothed RTT in microseconds.
    pub rtt_us: u32,
    /// Variation of the RTT in microseconds.
    pub rttvar_us: u32,
    /// Segments sent again so far.
    pub retransmits: u32,
    /// Bytes acknowledged so far.
    pub bytes_acked: u64,
    /// Delivery rate as the kernel estimates it, in bit/s.
    pub delivery_bps: u64,
}

/// One move of the set point, with its reason in words and numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SteeringEvent {
    /// Seconds after the start of the run.
    pub t_s: f64,
    /// Name of the link and direction.
    pub link: String,
    /// The rule that moved it, such as `lower` or `raise`.
    pub rule: String,
    /// What was moved before: a set point, or the rate of the virtual queue.
    pub from: f64,
    /// What it is now.
    pub to: f64,
    /// Unit of both: `ms` for a set point, `Mbit/s` for a rate.
    pub unit: String,
    /// What was measured, by name: rates, depth, variance, state of Table I.
    pub measured: Vec<(String, f64)>,
}

/// Everything of one run: what `weir lab` writes and the charts are drawn from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// The summary.
    pub summary: Summary,
    /// Samples for each link of the summary, in its order.
    pub link_samples: Vec<Vec<LinkSample>>,
    /// Samples of the flows, in order of time.
    pub flow_samples: Vec<FlowSample>,
    /// Moves of set points, in order of time.
    pub events: Vec<SteeringEvent>,
}

/// State of [`LinkSample::table_state`] of a queue whose flows do not respond.
const UNRESPONSIVE: u8 = 4;

impl Recording {
    /// The recording with the links that are shown ([`Summary::shown`]); itself where it has no others.
    pub fn shown(&self) -> Cow<'_, Recording> {
        let Cow::Owned(summary) = self.summary.shown() else { return Cow::Borrowed(self) };
        let links = self.summary.links_shown().into_iter();
        let link_samples =
            links.map(|link| self.link_samples.get(link).cloned().unwrap_or_default()).collect();
        let (flow_samples, events) = (self.flow_samples.clone(), self.events.clone());
        Cow::Owned(Recording { summary, link_samples, flow_samples, events })
    }

    /// For how long the flows of each link did not respond to signals, after the warm-up.
    fn unresponsive_links(&self) -> impl Iterator<Item = Unresponsive> {
        let warmup_s = self.summary.warmup_s;
        self.link_samples.iter().map(move |rows| {
            let mut seen = Unresponsive::default();
            rows.iter().filter(|row| row.t_s > warmup_s).for_each(|row| seen.add(row));
            seen
        })
    }

    /// The share of the measured time in which the flows of the first link did not respond to signals.
    pub fn unresponsive_share(&self) -> f64 {
        self.unresponsive_links().next().map_or(f64::NAN, |seen| seen.share())
    }

    /// What a reader must know of steered links whose flows did not respond to signals.
    pub fn unresponsive(&self) -> Vec<String> {
        let links = self.summary.links.iter().zip(self.unresponsive_links());
        links.filter_map(|(link, seen)| seen.told(link)).collect()
    }
}

/// For how much of the time the flows of a steered link do not respond to signals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unresponsive {
    samples: u64,
    in_that_state: u64,
    setpoint_ms: f64,
}

impl Unresponsive {
    /// A sample of the link.
    pub fn add(&mut self, sample: &LinkSample) {
        self.samples += 1;
        self.in_that_state += u64::from(sample.table_state == UNRESPONSIVE);
        self.setpoint_ms = sample.setpoint_ms;
    }

    /// That share, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.in_that_state as f64 / self.samples.max(1) as f64
    }

    /// What a reader of the link's results must know where it is at least a quarter: no set point holds their
    /// delay.
    pub fn told(&self, link: &LinkSummary) -> Option<String> {
        let name = if link.name.is_empty() { String::new() } else { format!("link {}: ", link.name) };
        (self.share() >= 0.25).then(|| {
            format!(
                "{name}the flows do not respond to signals ({:.0} % of the time): 95 % of the packets waited up to \
                 {:.1} ms at a set point of {:.1} ms, and no set point holds them; a short buffer bounds them, a \
                 queue for each flow keeps others from them (docs/steering.md)",
                self.share() * 100.0,
                link.delay_ms.p95,
                self.setpoint_ms
            )
        })
    }
}

/// What somebody who watches a run is told.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Seconds since the start of the run, in the arm's time; negative before it.
    pub t_s: f64,
    /// Length of the run in seconds.
    pub length_s: f64,
    /// New samples of the first link.
    pub samples: &'a [LinkSample],
    /// New moves of set points.
    pub events: &'a [SteeringEvent],
}

/// A claim of a paper and what became of it here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Claim {
    /// Short name, such as `A5`.
    pub id: String,
    /// The claim in a sentence.
    pub text: String,
    /// What the paper itself says, in its own numbers where it has any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
    /// What was expected, in numbers: the bound that was judged by.
    pub expected: String,
    /// Where that bound comes from: the paper's text, the axis of a figure, arithmetic, or a choice and its
    /// reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub basis: String,
    /// What was measured, in numbers.
    pub measured: String,
    /// Whether it held.
    pub held: bool,
    /// Whether it was missed by a run that is too short to decide it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
    /// Why it was missed or could not be judged, where something is known of that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// Whether an experiment showed that cause when the claim was judged; otherwise it is assumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
    /// Whether it is a criterion of this program's, of which the paper says nothing: it counts apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

impl Claim {
    /// Whether it was judged and did not hold.
    pub fn is_missed(&self) -> bool {
        !self.held && !self.undecided
    }

    /// Why it did not hold, as a clause behind its identifier; none where nothing is known of that.
    pub fn why(&self) -> Option<String> {
        let assumed = if self.shown { "" } else { " (assumed, not shown)" };
        match self {
            claim if claim.cause.is_empty() || claim.held => None,
            claim if claim.undecided => Some(format!("is not judged: {}", claim.cause)),
            claim => Some(format!("is missed: {}{assumed}", claim.cause)),
        }
    }
}

/// JSON has no NaN: a missing number is null there.
mod nan_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_do_not_respond_are_told_with_their_delay() {
        let of = |state: u8| {
            let row = |t: u32| LinkSample {
                t_s: f64::from(t),
                table_state: if t.is_multiple_of(3) { 2 } else { state },
                setpoint_ms: 2.5,
                ..LinkSample::default()
            };
            let delay_ms = Spread { p95: 70.0, ..Spread::default() };
            let link = LinkSummary { name: "access".into(), delay_ms, ..LinkSummary::default() };
            let summary = Summary { warmup_s: 10.0, links: vec![link], ..Summary::default() };
            let recording = Recording {
                summary,
                link_samples: vec![(1..=40).map(row).collect()],
                ..Recording::default()
            };
            recording.unresponsive()
        };
        let told = of(UNRESPONSIVE);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("link access: the flows do not respond to signals (67 % of the time)"),
            "{told:?}"
        );
        assert!(told[0].contains("70.0 ms at a set point of 2.5 ms"), "{told:?}");
        assert_eq!(of(3), Vec::<String>::new());
    }
}
