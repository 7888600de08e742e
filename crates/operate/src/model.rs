//! What is told and asked, as JSON. The description of the interface is made from these declarations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a running program stands. Counts are of the whole run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// What it runs: `run`, for instance.
    pub verb: String,
    /// Version of the program.
    pub version: String,
    /// Number of the process.
    pub pid: u32,
    /// What it works on, such as `eth1 <-> eth2`.
    pub title: String,
    /// The file of its configuration.
    pub file: String,
    /// How packets come in and go out.
    pub mode: String,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// Seconds since the packet loop told last how it stands.
    pub silent_s: f64,
    /// Address of its page, where it has one.
    #[serde(default)]
    pub page: Option<String>,
    /// Whether it ends, and only sends what waits.
    pub is_draining: bool,
    /// Live changes that were put into force.
    pub changes: u64,
    /// Frames that the kernel forwarded past the queues, because the packet loop did not turn.
    pub bypassed_frames: u64,
    /// Seconds in which the packet loop did not turn for more than 1 ms at once.
    pub stalled_s: f64,
    /// Times between turns of the packet loop.
    pub gaps: Delays,
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// Its queues, one for each direction.
    pub directions: Vec<DirectionStatus>,
    /// What is watched, and what of it is raised.
    #[serde(default)]
    pub alarms: Vec<AlarmStatus>,
    /// Whether what its directions would do can be asked for (`/v1/what-if`).
    #[serde(default)]
    pub what_if: bool,
    /// Sessions and what was asked about them, where it is a user-plane function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_plane: Option<UserPlaneStatus>,
}

/// How a user-plane function stands. Its queues are those of sessions, as many as are told one by one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPlaneStatus {
    /// Sessions there are.
    pub sessions: u64,
    /// Sessions whose queues are told: all while they are few, else those with the highest rates.
    pub sessions_told: u64,
    /// Forwarded rate of all sessions in bit/s, each as it was looked at last.
    #[serde(default)]
    pub delivered_bps: f64,
    /// Tunnels of these sessions and of their indirect forwarding.
    pub tunnels: u64,
    /// Sessions by what happened to them: established, modified, removed.
    pub session_events: BTreeMap<String, u64>,
    /// Messages of session management, by what became of them.
    pub messages: BTreeMap<String, u64>,
    /// Reports to session management: sent, lost, hushed.
    pub reports: BTreeMap<String, u64>,
    /// Packets that belong to no session or could not be forwarded, by cause.
    pub discarded: BTreeMap<String, u64>,
}

/// How an alarm stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlarmStatus {
    /// Its name, such as `policy_missed`.
    pub alarm: String,
    /// The direction that it is of, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The port that it is of, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Whether it is raised.
    pub is_raised: bool,
    /// Seconds since it was, while it is.
    pub since_s: Option<f64>,
    /// Why it was raised last, or would be; empty where its condition never held.
    pub why: String,
}

impl AlarmStatus {
    /// What it is, of what, and why.
    pub fn text(&self) -> String {
        let of =
            self.direction.as_ref().or(self.port.as_ref()).map_or(String::new(), |of| format!(" of {of}"));
        format!("{}{of}: {}", self.alarm, self.why)
    }
}

/// How a port stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortStatus {
    /// Name of the interface.
    pub name: String,
    /// Whether it is up and has a carrier.
    pub is_up: bool,
    /// Frames lost at it before they came to a queue, as its rings were full.
    pub lost_frames: u64,
}

/// How a queue stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectionStatus {
    /// Name of the direction.
    pub name: String,
    /// How packets wait, and the algorithm.
    pub aqm: String,
    /// Rate of the link in bit/s, by its byte accounting; none where it is not shaped.
    pub rate_bps: Option<f64>,
    /// The key of its rate in the configuration, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_key: Option<String>,
    /// What the link could have sent so far, in bytes; 0 where it is not shaped.
    pub capacity_bytes: f64,
    /// Whether it was steered, and is left to others now, or gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left: bool,
    /// The policy in force, where it is steered.
    pub policy: Option<PolicyStatus>,
    /// Arriving rate of the last second, in bit/s.
    pub arrived_bps: f64,
    /// Delivered rate of the last second, in bit/s.
    pub delivered_bps: f64,
    /// The same as a share of the link's rate.
    pub utilization: Option<f64>,
    /// Mean queueing delay of the last second, in ms; none where nothing was delivered.
    pub delay_mean_ms: Option<f64>,
    /// Largest queueing delay of the last second, in ms.
    pub delay_max_ms: f64,
    /// 95th percentile of the queueing delay since it was told last, in ms, where that is measured.
    #[serde(default)]
    pub delay_p95_ms: Option<f64>,
    /// Set point in ms, where the algorithm has one.
    pub setpoint_ms: Option<f64>,
    /// State of the queue relative to the set point: 1 below, 2 above, 3 fluctuating around it, 4 its flows
    /// do not respond; 0 without steering.
    pub table_state: u8,
    /// Rate of the virtual queue in bit/s, while it is in charge.
    pub virtual_rate_bps: Option<f64>,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// Packets that wait.
    pub backlog_packets: u32,
    /// What happened to packets.
    pub packets: Packets,
    /// Queueing delays of the delivered packets.
    pub delays: Delays,
    /// Moves of the set point, by rule of the steering law.
    pub moves: BTreeMap<String, u64>,
    /// The latest moves of the set point, oldest first.
    #[serde(default)]
    pub recent_moves: Vec<Move>,
    /// Frames that could not be parsed or forwarded as they should, by cause.
    pub faults: BTreeMap<String, u64>,
    /// Places of users, where each has a queue: given to newcomers.
    pub users_placed: Option<u64>,
    /// Customers, where there are plans of some.
    #[serde(default)]
    pub users: Option<UsersStatus>,
    /// Its probes, where it senses what lies below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensing: Option<SensingStatus>,
}

/// What probes are worth when the gateway is silent.
pub(crate) const FALLEN_BACK: &str = "fallen back";

/// How the probes of a direction stand.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SensingStatus {
    /// What they are worth: `starting`, `sensing`, `holding` (the last good round trip, as none came back
    /// lately) or `fallen back` (to the link's own queue, as the gateway is silent).
    pub state: String,
    /// Probes sent.
    pub sent: u64,
    /// Probes that came back, each counted once.
    pub returned: u64,
    /// Probes given up.
    pub lost: u64,
    /// Replies with a wrong nonce or time, and to no probe of this link.
    pub not_believed: u64,
    /// Messages of routers and hosts that do not pass probes on.
    pub refused: u64,
    /// Smoothed round-trip time in ms, once one was measured.
    pub rtt_ms: Option<f64>,
    /// Whether the rate is what it is because probes do not come back; none where they do not move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_fallen_back: Option<bool>,
    /// How often autorate found packets waiting below and lowered the rate; none where probes do not move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<u64>,
}

/// How the customers of a direction stand.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsersStatus {
    /// Customers that have a plan.
    pub planned: u64,
    /// Users that have a queue now, customers and others.
    pub with_queue: u64,
    /// Delivered rate of all customers since the look before, in bit/s.
    pub delivered_bps: f64,
    /// The same of all who are no customers.
    pub others_bps: f64,
    /// Packets of all customers that were discarded since the start, for whatever reason.
    #[serde(default)]
    pub dropped_packets: u64,
    /// Packets of all customers that were marked CE since the start.
    #[serde(default)]
    pub marked_packets: u64,
    /// Customers whose quality of outcome since the look before has a value.
    #[serde(default)]
    pub scored: u64,
    /// Of these, customers with less than one half.
    #[serde(default)]
    pub poor: u64,
    /// The customers with the highest rates, at most 100.
    pub users: Vec<UserStatus>,
}

/// How a customer stands; counts are since it has its queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserStatus {
    /// Its name, as in the file of plans.
    pub name: String,
    /// The rate that it is held to in bit/s, if there is one of its own.
    pub rate_bps: Option<f64>,
    /// Delivered rate since the look before, in bit/s.
    pub delivered_bps: f64,
    /// Bytes that were delivered.
    pub delivered_bytes: u64,
    /// Packets that were delivered.
    pub delivered_packets: u64,
    /// Packets that were discarded, for whatever reason.
    pub dropped_packets: u64,
    /// Packets that were marked CE.
    pub marked_packets: u64,
    /// Mean queueing delay since the look before in ms; none where nothing was delivered.
    pub delay_mean_ms: Option<f64>,
    /// The longest since the look before, in ms.
    pub delay_max_ms: f64,
    /// 95th percentile of the queueing delay since the look before in ms, up to a quarter too large; none
    /// where nothing was delivered.
    #[serde(default)]
    pub delay_p95_ms: Option<f64>,
    /// The last round-trip time behind the link that was measured in what passes, in ms; none where the
    /// direction does not look into packets (`upstream`).
    pub rtt_ms: Option<f64>,
    /// Quality of outcome since the look before, from 0 to 1; none where nothing was sent.
    pub outcome: Option<f64>,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// Delay set point in ms, where its algorithm has one.
    #[serde(default)]
    pub setpoint_ms: Option<f64>,
    /// The policy by which its set point moves, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
}

/// Keys of a customer's plan that were asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFound {
    /// Every key with its value in TOML, by the path by which it changes (`customers.NAME.down`).
    pub values: BTreeMap<String, String>,
}

/// Customers that were asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomersFound {
    /// How many there are, of which `limit` are told from `offset` on.
    pub matched: u64,
    /// These, in the order that was asked for.
    pub customers: Vec<CustomerStatus>,
}

/// A customer in a direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomerStatus {
    /// Name of the direction.
    pub direction: String,
    /// Whether it has a queue now; one that sends nothing has none, and all its numbers are 0.
    pub has_queue: bool,
    /// How it stands.
    pub user: UserStatus,
}

/// A move of a set point, or of the rate of the virtual queue, and why.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// When, in seconds of the run.
    pub t_s: f64,
    /// The rule of the steering law.
    pub rule: String,
    /// Before.
    pub from: f64,
    /// After.
    pub to: f64,
    /// Unit of both: `ms` or `Mbit/s`.
    pub unit: String,
    /// What was measured, by name.
    pub measured: BTreeMap<String, f64>,
}

/// What happened to packets of a queue: arrived = dropped_on_arrival + overflowed + acks_filtered + shed +
/// dropped_at_head + delivered + waiting.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Wanted in.
    pub arrived: u64,
    /// Bytes of these, by the link's accounting.
    pub arrived_bytes: u64,
    /// Sent.
    pub delivered: u64,
    /// Bytes of these.
    pub delivered_bytes: u64,
    /// Discarded by the algorithm on arrival.
    pub dropped_on_arrival: u64,
    /// Discarded by the algorithm at the head of the queue.
    pub dropped_at_head: u64,
    /// Discarded on arrival for lack of room.
    pub overflowed: u64,
    /// Discarded for lack of room after they were stored.
    pub shed: u64,
    /// Acknowledgements that took the place of an older one, which is no more.
    #[serde(default)]
    pub acks_filtered: u64,
    /// Marked CE by the algorithm.
    pub marked: u64,
    /// Marked CE by somebody before they came here; none where nobody looks.
    #[serde(default)]
    pub came_marked: Option<u64>,
}

/// Times counted in buckets.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Upper bounds of the buckets in seconds; one more bucket has no bound.
    pub bounds_s: Vec<f64>,
    /// How many are in each bucket.
    pub counts: Vec<u64>,
    /// All times together, in seconds.
    pub sum_s: f64,
}

/// A policy of steering.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyStatus {
    /// Its key in the configuration, such as `a_to_b.policy`.
    #[serde(default)]
    pub key: String,
    /// Utilization below which the set point is raised.
    pub utilization_low: f64,
    /// Utilization that is aimed at.
    pub utilization_target: f64,
    /// Smallest set point in ms.
    pub target_min_ms: f64,
    /// Largest set point in ms.
    pub target_max_ms: f64,
}

/// Whether it works.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Whether it does.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Health {
    /// Of one program, or `by_link` of its links, whose problems are told with their titles.
    pub fn of_all(statuses: &[Status], by_link: bool, of: fn(&Status) -> Health) -> Health {
        let named = |status: &Status| {
            let title = if by_link { format!("{}: ", status.title) } else { String::new() };
            of(status).problems.into_iter().map(move |problem| format!("{title}{problem}"))
        };
        let problems: Vec<String> = statuses.iter().flat_map(named).collect();
        Health { ok: problems.is_empty(), problems }
    }
}

/// The configuration in force.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The file that it was read from.
    pub file: String,
    /// The whole in canonical form, with the meaning of each key.
    pub toml: String,
    /// Each key that has a value, with it in TOML.
    pub values: BTreeMap<String, String>,
}

/// A change of the configuration in force.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationChange {
    /// Keys and their values in TOML; a text needs no quotes. All are put into force together, or none.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Whether it is only checked.
    #[serde(default)]
    pub dry_run: bool,
}

/// Traffic and keys with which a direction is to be computed in the simulator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WhatIf {
    /// Name of the direction.
    pub direction: String,
    /// Keys of the direction with other values than those in force, such as `policy.target_max` or `rate`.
    /// Nothing of it is put into force.
    pub set: BTreeMap<String, String>,
    /// Flows of TCP that send as much as they can, 1 to 1000.
    pub flows: u32,
    /// Round-trip time of each without the queue, in ms, 0.1 to 2000.
    pub rtt_ms: f64,
    /// Congestion control of the senders, one of `weir list`; without it that of a scenario.
    pub congestion: Option<String>,
    /// Seconds that are computed, 2 to 120; without it 30, or fewer on a link so fast that these would take
    /// too long.
    pub duration_s: Option<f64>,
}

impl Default for WhatIf {
    fn default() -> WhatIf {
        WhatIf {
            direction: String::new(),
            set: BTreeMap::new(),
            flows: 10,
            rtt_ms: 30.0,
            congestion: None,
            duration_s: None,
        }
    }
}

/// What the simulator says that a direction would do. Numbers are of the last two thirds of the time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// Name of the direction.
    pub direction: String,
    /// How packets would wait, and the algorithm.
    pub aqm: String,
    /// Seconds that were computed.
    pub duration_s: f64,
    /// Seconds that computing took.
    pub took_s: f64,
    /// Rate of the link in bit/s.
    pub rate_bps: f64,
    /// The policy, where it would be steered.
    pub policy: Option<PolicyStatus>,
    /// Share of the link's rate that would be delivered.
    pub utilization: f64,
    /// Mean queueing delay in ms.
    pub delay_mean_ms: f64,
    /// 95th percentile of the queueing delay in ms.
    pub delay_p95_ms: f64,
    /// Largest queueing delay in ms.
    pub delay_max_ms: f64,
    /// Packets that would be discarded, by the algorithm or for lack of room.
    pub drops: u64,
    /// Packets that would be marked CE.
    pub marks: u64,
    /// How it would stand each half second.
    pub points: Vec<ForecastPoint>,
    /// What is to be known of it.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Half a second of what is computed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastPoint {
    /// Its end, in seconds since the beginning.
    pub t_s: f64,
    /// Share of the link's rate that was delivered.
    pub utilization: f64,
    /// Mean queueing delay in ms.
    pub delay_mean_ms: f64,
    /// Largest queueing delay in ms.
    pub delay_max_ms: f64,
    /// Set point in ms, where the algorithm has one.
    pub setpoint_ms: Option<f64>,
}

/// A change that was put into force, or would be.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Applied {
    /// The keys that changed; empty where everything was so already.
    pub changed: Vec<Valued>,
    /// When, in seconds of the run; none where nothing was to be done, or only checked.
    pub at_s: Option<f64>,
    /// What is to be known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A key with its value before and after, in TOML; nothing where it is absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Valued {
    /// The key, as in the file.
    pub key: String,
    /// Before.
    pub from: Option<String>,
    /// After.
    pub to: Option<String>,
}

/// Why nothing was changed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// What is wrong, in a sentence or more, with what to do about it.
    pub error: String,
    /// The same of each key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// Whether a restart would do it.
    #[serde(default)]
    pub needs_restart: bool,
}

/// What is wrong with a key.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The key; none where the file itself is the problem.
    pub key: Option<String>,
    /// Its line in the file.
    pub line: Option<u32>,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// Why something was not done, and the status of HTTP as which that is told.
pub type Refused = (u16, Refusal);

impl Refusal {
    /// A refusal that is not about a key.
    pub fn plain(error: impl Into<String>) -> Refusal {
        Refusal { error: error.into(), ..Refusal::default() }
    }
}
