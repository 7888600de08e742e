//! A status as metrics: OpenMetrics, and the text format of Prometheus before it.
//!
//! Every label has few values: a direction, a port, a cause, a rule. What an endpoint is of, Prometheus says
//! with its own label `instance`.

use crate::model::{Delays, DirectionStatus, Packets, Status, UserStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt::{Error, Write};

/// Media type of [`openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Media type of [`plain`].
pub const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics in OpenMetrics.
pub fn openmetrics(status: &Status) -> String {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(Metrics(status.clone())));
    let mut text = String::new();
    // A text takes whatever is written.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The same in the older text format, in which a counter's name has its suffix everywhere and units are
/// comments.
pub fn plain(status: &Status) -> String {
    let text = openmetrics(status);
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(about), Some(name), Some(rest)) if counters.contains(&name) => {
                let _ = writeln!(out, "# {about} {name}_total {rest}");
            }
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    // Units of counters were renamed like the rest.
    out.lines().filter(|line| !line.starts_with("# UNIT")).map(|line| format!("{line}\n")).collect()
}

#[derive(Debug)]
struct Metrics(Status);

/// Writes families of metrics.
struct Families<'a>(DescriptorEncoder<'a>);

type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Families<'_> {
    fn each<'l, V>(
        &mut self,
        (name, help, unit, kind): (&str, &str, Option<Unit>, MetricType),
        values: impl IntoIterator<Item = (Labels<'l>, V)>,
        write: impl Fn(MetricEncoder<'_>, V) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut values = values.into_iter().peekable();
        // A family without members is none.
        if values.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in values {
            write(family.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    fn counters<'l, N: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels<'l>, N)>,
    ) -> Result<(), Error> {
        self.each((name, help, unit, MetricType::Counter), values, |mut metric, value| {
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    fn gauges<'l, N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (Labels<'l>, N)>,
    ) -> Result<(), Error> {
        self.each((name, help, unit, MetricType::Gauge), values, |mut metric, value| {
            metric.encode_gauge(&value)
        })
    }

    fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'l>, &'l Delays)>,
    ) -> Result<(), Error> {
        let about = (name, help, Some(Unit::Seconds), MetricType::Histogram);
        // Where nothing of the kind is measured there are no buckets.
        let values = values.into_iter().filter(|(_, delays)| !delays.counts.is_empty());
        self.each(about, values, |mut metric, delays| {
            let bounds = delays.bounds_s.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(delays.counts.iter().copied()).collect();
            let count = delays.counts.iter().sum();
            metric.encode_histogram::<NoLabelSet>(delays.sum_s, count, &buckets, None)
        })
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut out = Families(encoder);
        self.program(&mut out)?;
        self.links(&mut out)?;
        self.queues(&mut out)?;
        self.sensing(&mut out)?;
        self.users(&mut out)?;
        self.policies(&mut out)?;
        self.user_plane(&mut out)
    }
}

const NONE: Labels<'static> = Vec::new();
/// Customers at most that are told one by one, in each direction.
const USERS_MAX: usize = 20;

/// Counts by name, with the name as a label.
fn by<'a>(label: &'static str, counts: &'a BTreeMap<String, u64>) -> impl Iterator<Item = (Labels<'a>, u64)> {
    counts.iter().map(move |(name, n)| (vec![(label, name.as_str())], *n))
}

impl Metrics {
    fn program(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let status = &self.0;
        let build = vec![("version", status.version.as_str()), ("verb", status.verb.as_str())];
        out.gauges("build_info", "Version of the program and what it runs", None, [(build, 1u64)])?;
        let seconds = || Some(Unit::Seconds);
        out.gauges("uptime", "Time since the start", seconds(), [(NONE, status.uptime_s)])?;
        let silent = "Time since the packet loop told last how it stands";
        out.gauges("loop_silent", silent, seconds(), [(NONE, status.silent_s)])?;
        out.histograms("loop_gap", "Times between turns of the packet loop", [(NONE, &status.gaps)])?;
        let stalled = "Time in which the packet loop did not turn for more than 1 ms at once";
        out.counters("loop_stalled", stalled, seconds(), [(NONE, status.stalled_s)])?;
        out.counters("changes", "Live changes that were put into force", None, [(NONE, status.changes)])?;
        let bypassed = "Frames that the kernel forwarded past the queues, as the packet loop did not turn";
        out.counters("bypassed_frames", bypassed, None, [(NONE, status.bypassed_frames)])?;
        let ports = || status.ports.iter().map(|port| (vec![("port", port.name.as_str())], port));
        let up = ports().map(|(labels, port)| (labels, u64::from(port.is_up)));
        out.gauges("port_up", "Whether the port is up and has a carrier", None, up)?;
        let lost = ports().map(|(labels, port)| (labels, port.lost_frames));
        out.counters(
            "port_lost_frames",
            "Frames lost before they came to a queue, as rings were full",
            None,
            lost,
        )
    }

    /// One value of each direction that has it.
    fn of<'a, V>(
        &'a self,
        value: impl Fn(&'a DirectionStatus) -> Option<V> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        let labelled = move |direction: &'a DirectionStatus| {
            value(direction).map(|value| (vec![("direction", direction.name.as_str())], value))
        };
        self.0.directions.iter().filter_map(labelled)
    }

    /// Values of each direction by name.
    fn by<'a>(
        &'a self,
        label: &'static str,
        values: impl Fn(&'a DirectionStatus) -> Vec<(&'a str, u64)> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        self.0.directions.iter().flat_map(move |direction| {
            let labelled = values(direction).into_iter();
            let labels = move |name| vec![("direction", direction.name.as_str()), (label, name)];
            labelled.map(move |(name, value)| (labels(name), value)).collect::<Vec<_>>()
        })
    }

    fn links(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let bytes = || Some(Unit::Bytes);
        let rate = self.of(|d| d.rate_bps.map(|rate| rate / 8.0));
        out.gauges("link_rate_bytes_per_second", "Rate of the link, by its byte accounting", None, rate)?;
        let capacity = "What the link could have sent at its rates";
        out.counters("link_capacity", capacity, bytes(), self.of(|d| d.rate_bps.map(|_| d.capacity_bytes)))?;
        let arrived = self.of(|d| Some(d.packets.arrived_bytes));
        out.counters("link_arrived", "Bytes that wanted in", bytes(), arrived)?;
        let delivered = self.of(|d| Some(d.packets.delivered_bytes));
        out.counters("link_delivered", "Bytes that were sent", bytes(), delivered)?;
        let packets = self.of(|d| Some(d.packets.arrived));
        out.counters("link_arrived_packets", "Packets that wanted in", None, packets)?;
        let packets = self.of(|d| Some(d.packets.delivered));
        out.counters("link_delivered_packets", "Packets that were sent", None, packets)?;
        let utilization = "Delivered rate of the last second as a share of the link's rate";
        out.gauges("link_utilization_ratio", utilization, None, self.of(|d| d.utilization))?;
        let drops = self.by("cause", |d| {
            let Packets { dropped_on_arrival, dropped_at_head, overflowed, shed, .. } = &d.packets;
            let of_algorithm = [("arrival", *dropped_on_arrival), ("head", *dropped_at_head)];
            of_algorithm.into_iter().chain([("overflow", *overflowed), ("shed", *shed)]).collect()
        });
        let about = "Packets discarded: by the algorithm on arrival or at the head, for lack of room on arrival (overflow) or later (shed)";
        out.counters("link_dropped_packets", about, None, drops)?;
        let marks = self.of(|d| Some(d.packets.marked));
        out.counters("link_marked_packets", "Packets that the algorithm marked CE", None, marks)?;
        let faults = self.by("cause", |d| d.faults.iter().map(|(cause, n)| (cause.as_str(), *n)).collect());
        out.counters(
            "link_faulty_frames",
            "Frames that could not be parsed or forwarded as they should",
            None,
            faults,
        )
    }

    fn sensing(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let of = |d: &DirectionStatus| d.sensing.clone();
        let relied = self.of(move |d| of(d).map(|sensing| u64::from(sensing.state == "sensing")));
        out.gauges("sensing_relied_on", "Whether probes come back and are relied on", None, relied)?;
        let rtt = self.of(move |d| of(d).and_then(|sensing| sensing.rtt_ms).map(|ms| ms / 1e3));
        out.gauges("sensing_rtt", "Smoothed round trip of probes", Some(Unit::Seconds), rtt)?;
        let sent = self.of(move |d| of(d).map(|sensing| sensing.sent));
        out.counters("sensing_probes_sent", "Probes sent", None, sent)?;
        let fates = self.by("fate", |d| {
            let probes = d.sensing.iter().flat_map(|sensing| &sensing.probes);
            probes.map(|(fate, count)| (fate.as_str(), *count)).collect()
        });
        out.counters("sensing_probes", "Probes by what became of them", None, fates)?;
        let fallen = self.of(move |d| of(d).and_then(|sensing| sensing.is_fallen_back).map(u64::from));
        let about = "Whether the rate is the one for links whose probes do not come back";
        out.gauges("sensing_rate_fallen_back", about, None, fallen)?;
        let cuts = self.of(move |d| of(d).and_then(|sensing| sensing.cuts));
        let about = "Times that autorate lowered the rate, as packets waited below";
        out.counters("sensing_rate_cuts", about, None, cuts)
    }

    fn queues(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let delays = self.of(|d| Some(&d.delays));
        out.histograms("queue_delay", "Queueing delays of the delivered packets", delays)?;
        let p95 = self.of(|d| d.delay_p95_ms.map(|ms| ms / 1e3));
        let about =
            "95th percentile of the queueing delay since it was told last, where there is no histogram";
        out.gauges("queue_delay_p95", about, Some(Unit::Seconds), p95)?;
        let backlog = self.of(|d| Some(d.backlog_bytes));
        out.gauges("queue_backlog", "What waits", Some(Unit::Bytes), backlog)?;
        let packets = self.of(|d| Some(d.backlog_packets));
        out.gauges("queue_backlog_packets", "Packets that wait", None, packets)?;
        let setpoint = self.of(|d| d.setpoint_ms.map(|ms| ms / 1e3));
        let seconds = || Some(Unit::Seconds);
        out.gauges("queue_setpoint", "The delay that the algorithm holds", seconds(), setpoint)?;
        let state = "The queue relative to its set point: 1 below, 2 above, 3 around it, 4 flows do not respond, 0 not steered";
        out.gauges("queue_state", state, None, self.of(|d| Some(u32::from(d.table_state))))?;
        let moves = self.by("rule", |d| d.moves.iter().map(|(rule, n)| (rule.as_str(), *n)).collect());
        out.counters("queue_moves", "Moves of the set point by rule of the steering law", None, moves)?;
        let placed = self.of(|d| d.users_placed);
        out.counters("queue_users_placed", "Users that were given a queue of their own", None, placed)
    }

    /// One value of each of the customers with the highest rates.
    fn of_users<'a, V>(
        &'a self,
        value: impl Fn(&'a UserStatus) -> Option<V> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        self.0.directions.iter().flat_map(move |direction| {
            let users = direction.users.iter().flat_map(|users| users.users.iter().take(USERS_MAX));
            let labels = |user: &'a UserStatus| {
                vec![("direction", direction.name.as_str()), ("user", user.name.as_str())]
            };
            users.filter_map(|user| Some((labels(user), value(user)?))).collect::<Vec<_>>()
        })
    }

    fn users(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let bytes = || Some(Unit::Bytes);
        let planned = self.of(|d| d.users.as_ref().map(|users| users.planned));
        out.gauges("users_planned", "Customers that have a plan", None, planned)?;
        let queues = self.of(|d| d.users.as_ref().map(|users| users.with_queue));
        out.gauges("users_with_queue", "Users that have a queue now", None, queues)?;
        let all = self.of(|d| d.users.as_ref().map(|users| users.delivered_bps / 8.0));
        out.gauges("users_delivered_bytes_per_second", "Rate of all customers", None, all)?;
        let delivered = self.of_users(|user| Some(user.delivered_bytes));
        out.counters(
            "user_delivered",
            "Bytes sent of the customers with the highest rates",
            bytes(),
            delivered,
        )?;
        let rate = self.of_users(|user| user.rate_bps.map(|bps| bps / 8.0));
        out.gauges("user_rate_bytes_per_second", "Rate that a customer is held to", None, rate)?;
        let drops = self.of_users(|user| Some(user.dropped_packets));
        out.counters("user_dropped_packets", "Packets of a customer that were discarded", None, drops)?;
        let marks = self.of_users(|user| Some(user.marked_packets));
        out.counters("user_marked_packets", "Packets of a customer that were marked CE", None, marks)?;
        let delay = self.of_users(|user| user.delay_mean_ms.map(|ms| ms / 1e3));
        out.gauges("user_delay_mean", "Mean queueing delay of a customer", Some(Unit::Seconds), delay)?;
        let rtt = self.of_users(|user| user.rtt_ms.map(|ms| ms / 1e3));
        out.gauges("user_rtt", "Round-trip time between the link and a customer", Some(Unit::Seconds), rtt)?;
        let outcome = self.of_users(|user| user.outcome);
        out.gauges("user_outcome", "Quality of outcome of a customer", Some(Unit::Ratios), outcome)
    }

    fn user_plane(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let Some(plane) = &self.0.user_plane else { return Ok(()) };
        out.gauges("sessions", "PDU sessions there are", None, [(NONE, plane.sessions)])?;
        out.gauges("tunnels", "Tunnels of sessions", None, [(NONE, plane.tunnels)])?;
        let events = by("event", &plane.session_events);
        out.counters("session_events", "Sessions established, modified and removed", None, events)?;
        let messages = by("outcome", &plane.messages);
        out.counters(
            "pfcp_messages",
            "Messages of session management by what became of them",
            None,
            messages,
        )?;
        let reports = by("outcome", &plane.reports);
        out.counters("pfcp_reports", "Reports to session management", None, reports)?;
        let discarded = by("cause", &plane.discarded);
        let about = "Packets that belong to no session or could not be forwarded";
        out.counters("user_plane_discarded_packets", about, None, discarded)
    }

    fn policies(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let low = self.of(|d| d.policy.as_ref().map(|policy| policy.utilization_low));
        out.gauges(
            "policy_utilization_low_ratio",
            "Utilization below which the set point is raised",
            None,
            low,
        )?;
        let aim = self.of(|d| d.policy.as_ref().map(|policy| policy.utilization_target));
        out.gauges("policy_utilization_target_ratio", "Utilization that is aimed at", None, aim)?;
        let seconds = || Some(Unit::Seconds);
        let least = self.of(|d| d.policy.as_ref().map(|policy| policy.target_min_ms / 1e3));
        out.gauges("policy_target_min", "Smallest set point of the policy", seconds(), least)?;
        let most = self.of(|d| d.policy.as_ref().map(|policy| policy.target_max_ms / 1e3));
        out.gauges("policy_target_max", "Largest set point of the policy", seconds(), most)
    }
}
