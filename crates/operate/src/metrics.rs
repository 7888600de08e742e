//! A status as metrics: OpenMetrics, and the text format of Prometheus before it.
//!
//! Every label has few values: a direction, a port, a cause, a rule. What an endpoint is of, Prometheus says
//! with its own label `instance`; one that is of several links says with `link` of which a value is.

use crate::model::{
    Delays, DirectionStatus, FALLEN_BACK, Packets, PortStatus, SensingStatus, Status, UserPlaneStatus,
    UserStatus,
};
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

/// The metrics in OpenMetrics, of one program, or `by_link` of the links of a program that has several: then
/// each value has a label `link` with the title of its status.
pub fn openmetrics(statuses: &[Status], by_link: bool) -> String {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(Metrics { statuses: statuses.to_vec(), by_link }));
    let mut text = String::new();
    // A text takes whatever is written.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The same in the older text format, in which a counter's name has its suffix everywhere and units are
/// comments.
pub fn plain(statuses: &[Status], by_link: bool) -> String {
    let text = openmetrics(statuses, by_link);
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
struct Metrics {
    statuses: Vec<Status>,
    by_link: bool,
}

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
        self.alarms(&mut out)?;
        self.links(&mut out)?;
        self.queues(&mut out)?;
        self.sensing(&mut out)?;
        self.users(&mut out)?;
        self.policies(&mut out)?;
        self.user_plane(&mut out)
    }
}

/// States of sensing in the order of their numbers.
const SENSING_STATES: [&str; 4] = ["starting", "sensing", "holding", FALLEN_BACK];
/// Customers at most that are told one by one, in each direction.
const USERS_MAX: usize = 20;

impl Metrics {
    /// Each status with the labels that all of its values have.
    fn statuses(&self) -> impl Iterator<Item = (Labels<'_>, &Status)> {
        self.statuses.iter().map(|status| {
            let link = self.by_link.then_some(("link", status.title.as_str()));
            (link.into_iter().collect(), status)
        })
    }

    /// One value of each status that has it.
    fn each<'a, V>(
        &'a self,
        value: impl Fn(&'a Status) -> Option<V> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        self.statuses().filter_map(move |(labels, status)| Some((labels, value(status)?)))
    }

    /// Values of each status, by a label and its value.
    fn listed<'a, V>(
        &'a self,
        label: &'static str,
        values: impl Fn(&'a Status) -> Vec<(&'a str, V)> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        self.statuses().flat_map(move |(labels, status)| {
            let with = move |name| [&labels[..], &[(label, name)]].concat();
            values(status).into_iter().map(move |(name, value)| (with(name), value))
        })
    }

    /// The directions of each status, with their labels.
    fn directions(&self) -> impl Iterator<Item = (Labels<'_>, &DirectionStatus)> {
        self.listed("direction", |status| {
            status.directions.iter().map(|direction| (direction.name.as_str(), direction)).collect()
        })
    }

    fn program(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let build = self.statuses().map(|(labels, status)| {
            let build = [("version", status.version.as_str()), ("verb", status.verb.as_str())];
            ([&labels[..], &build].concat(), 1u64)
        });
        out.gauges("build_info", "Version of the program and what it runs", None, build)?;
        let seconds = || Some(Unit::Seconds);
        let uptime = self.each(|status| Some(status.uptime_s));
        out.gauges("uptime", "Time since the start", seconds(), uptime)?;
        let silent = "Time since the packet loop told last how it stands";
        out.gauges("loop_silent", silent, seconds(), self.each(|status| Some(status.silent_s)))?;
        let gaps = self.each(|status| Some(&status.gaps));
        out.histograms("loop_gap", "Times between turns of the packet loop", gaps)?;
        let stalled = "Time in which the packet loop did not turn for more than 1 ms at once";
        out.counters("loop_stalled", stalled, seconds(), self.each(|status| Some(status.stalled_s)))?;
        let changes = self.each(|status| Some(status.changes));
        out.counters("changes", "Live changes that were put into force", None, changes)?;
        let bypassed = "Frames that the kernel forwarded past the queues, as the packet loop did not turn";
        out.counters("bypassed_frames", bypassed, None, self.each(|status| Some(status.bypassed_frames)))?;
        let ports = |value: fn(&PortStatus) -> u64| {
            self.listed("port", move |status| {
                status.ports.iter().map(|port| (port.name.as_str(), value(port))).collect()
            })
        };
        let up = ports(|port| port.is_up.into());
        out.gauges("port_up", "Whether the port is up and has a carrier", None, up)?;
        out.counters(
            "port_lost_frames",
            "Frames lost before they came to a queue, as rings were full",
            None,
            ports(|port| port.lost_frames),
        )
    }

    fn alarms(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let all = self.statuses().flat_map(|(labels, status)| {
            status.alarms.iter().map(move |one| {
                let of = [("direction", &one.direction), ("port", &one.port)];
                let of = of.into_iter().filter_map(|(name, of)| Some((name, of.as_deref()?)));
                let own: Labels<'_> = [("alarm", one.alarm.as_str())].into_iter().chain(of).collect();
                ([&labels[..], &own[..]].concat(), u64::from(one.is_raised))
            })
        });
        out.gauges("alarm", "Whether an alarm is raised", None, all)
    }

    /// One value of each direction that has it.
    fn of<'a, V>(
        &'a self,
        value: impl Fn(&'a DirectionStatus) -> Option<V> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        self.directions().filter_map(move |(labels, direction)| Some((labels, value(direction)?)))
    }

    /// Values of each direction by name.
    fn by<'a>(
        &'a self,
        label: &'static str,
        values: impl Fn(&'a DirectionStatus) -> Vec<(&'a str, u64)> + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        self.directions().flat_map(move |(labels, direction)| {
            let with = move |name| [&labels[..], &[(label, name)]].concat();
            values(direction).into_iter().map(move |(name, value)| (with(name), value))
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
        let came = self.of(|d| d.packets.came_marked);
        out.counters("link_arrived_marked_packets", "Packets that came in marked CE", None, came)?;
        let filtered = self.of(|d| Some(d.packets.acks_filtered));
        let about = "Acknowledgements taken out, as a newer one says the same";
        out.counters("link_filtered_acknowledgements", about, None, filtered)?;
        let faults = self.by("cause", |d| d.faults.iter().map(|(cause, n)| (cause.as_str(), *n)).collect());
        out.counters(
            "link_faulty_frames",
            "Frames that could not be parsed or forwarded as they should",
            None,
            faults,
        )
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

    fn sensing(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let probes = self.by("outcome", |d| {
            let Some(sensing) = &d.sensing else { return Vec::new() };
            let SensingStatus { returned, lost, not_believed, refused, .. } = *sensing;
            let all = [("returned", returned), ("lost", lost), ("not_believed", not_believed)];
            all.into_iter().chain([("refused", refused)]).collect()
        });
        let sent = self.of(|d| d.sensing.as_ref().map(|sensing| sensing.sent));
        out.counters("sense_sent_probes", "Probes sent", None, sent)?;
        out.counters("sense_probes", "Probes and what answers them, by what became of them", None, probes)?;
        let rtt = self.of(|d| d.sensing.as_ref()?.rtt_ms.map(|ms| ms / 1e3));
        out.gauges("sense_rtt", "Smoothed round-trip time of the probes", Some(Unit::Seconds), rtt)?;
        let state =
            "What probes are worth: 0 starting, 1 sensing, 2 none came back lately, 3 the gateway is silent";
        let states = self.of(|d| {
            let state = &d.sensing.as_ref()?.state;
            SENSING_STATES.iter().position(|name| name == state).map(|at| at as u64)
        });
        out.gauges("sense_state", state, None, states)?;
        let fallen = self.of(|d| d.sensing.as_ref()?.is_fallen_back.map(u64::from));
        let about = "Whether the rate is the one for links whose probes do not come back";
        out.gauges("sense_rate_fallen_back", about, None, fallen)?;
        let cuts = self.of(|d| d.sensing.as_ref()?.cuts);
        let about = "Times that autorate lowered the rate, as packets waited below";
        out.counters("sense_rate_cuts", about, None, cuts)
    }

    /// One value of each of the customers with the highest rates.
    fn of_users<'a, V>(
        &'a self,
        value: impl Fn(&'a UserStatus) -> Option<V> + Copy + 'a,
    ) -> impl Iterator<Item = (Labels<'a>, V)> {
        self.directions().flat_map(move |(labels, direction)| {
            let users = direction.users.iter().flat_map(|users| users.users.iter().take(USERS_MAX));
            let with = move |user: &'a UserStatus| [&labels[..], &[("user", user.name.as_str())]].concat();
            users.filter_map(move |user| Some((with(user), value(user)?)))
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
        let drops = self.of(|d| d.users.as_ref().map(|users| users.dropped_packets));
        out.counters("users_dropped_packets", "Packets of all customers that were discarded", None, drops)?;
        let marks = self.of(|d| d.users.as_ref().map(|users| users.marked_packets));
        out.counters("users_marked_packets", "Packets of all customers that were marked CE", None, marks)?;
        let scored = self.of(|d| d.users.as_ref().map(|users| users.scored));
        out.gauges("users_with_outcome", "Customers that have a quality of outcome now", None, scored)?;
        let poor = self.of(|d| d.users.as_ref().map(|users| users.poor));
        let about = "Customers whose quality of outcome is below one half";
        out.gauges("users_with_poor_outcome", about, None, poor)?;
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
        let delay = self.of_users(|user| user.delay_p95_ms.map(|ms| ms / 1e3));
        let about = "95th percentile of the queueing delay of a customer since the look before";
        out.gauges("user_delay_p95", about, Some(Unit::Seconds), delay)?;
        let rtt = self.of_users(|user| user.rtt_ms.map(|ms| ms / 1e3));
        out.gauges("user_rtt", "Round-trip time between the link and a customer", Some(Unit::Seconds), rtt)?;
        let outcome = self.of_users(|user| user.outcome);
        // With `Unit::Ratios` the name would end in `ratios`.
        out.gauges("user_outcome_ratio", "Quality of outcome of a customer", None, outcome)
    }

    fn user_plane(&self, out: &mut Families<'_>) -> Result<(), Error> {
        let planes = |value: fn(&UserPlaneStatus) -> u64| {
            self.each(move |status| status.user_plane.as_ref().map(value))
        };
        out.gauges("sessions", "PDU sessions there are", None, planes(|plane| plane.sessions))?;
        let rate = self.each(|status| Some(status.user_plane.as_ref()?.delivered_bps / 8.0));
        let about = "Forwarded rate of all sessions, each as it was looked at last";
        out.gauges("sessions_delivered_bytes_per_second", about, None, rate)?;
        out.gauges("tunnels", "Tunnels of sessions", None, planes(|plane| plane.tunnels))?;
        let counts = |label: &'static str, value: fn(&UserPlaneStatus) -> &BTreeMap<String, u64>| {
            self.listed(label, move |status| {
                let counts = status.user_plane.iter().flat_map(value);
                counts.map(|(name, n)| (name.as_str(), *n)).collect()
            })
        };
        let events = counts("event", |plane| &plane.session_events);
        out.counters("session_events", "Sessions established, modified and removed", None, events)?;
        let messages = counts("outcome", |plane| &plane.messages);
        let about = "Messages of session management by what became of them";
        out.counters("pfcp_messages", about, None, messages)?;
        let reports = counts("outcome", |plane| &plane.reports);
        out.counters("pfcp_reports", "Reports to session management", None, reports)?;
        let discarded = counts("cause", |plane| &plane.discarded);
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
