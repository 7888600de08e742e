//! Alarms: what somebody should look at, raised when it lasts and cleared when it is over.
//!
//! Each alarm has a time, which runs up while its condition holds and down while it does not. The alarm is
//! raised when that time reaches a bound, and cleared when it is back at zero: a condition that comes and
//! goes raises it once. What health and readiness tell are conditions of this list, without the time.

use crate::model::{AlarmStatus, DirectionStatus, FALLEN_BACK, Health, Status};
use std::collections::{BTreeMap, BTreeSet};

/// How long a packet loop may tell nothing.
const SILENT_MAX_S: f64 = 3.0;
/// How far utilization may lie below the policy, as a share of the link's rate.
const MISSED_MIN: f64 = 0.05;
/// Beyond so many times the largest set point delays are too long, where nothing else is said.
const TOO_LONG: f64 = 2.0;
/// State of Table I in which a link is no bottleneck.
const BELOW: u8 = 1;

/// Bounds of the conditions, and how long each lasts until its alarm is raised, in seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// A loop that tells nothing.
    pub loop_silent_after_s: f64,
    /// Share of the time in which the loop does not turn.
    pub loop_late: f64,
    /// How long that lasts.
    pub loop_late_after_s: f64,
    /// A port without a carrier.
    pub port_down_after_s: f64,
    /// A utilization below the policy.
    pub policy_missed_after_s: f64,
    /// Mean delay in ms; none for twice the largest set point of the policy.
    pub delay_ms: Option<f64>,
    /// How long that lasts.
    pub delay_after_s: f64,
    /// Share of the packets that are discarded.
    pub drops: f64,
    /// How long that lasts.
    pub drops_after_s: f64,
    /// A gateway that does not answer probes.
    pub gateway_silent_after_s: f64,
}

impl Default for Limits {
    /// As a configuration says that says nothing of alarms.
    fn default() -> Limits {
        Limits {
            loop_silent_after_s: 10.0,
            loop_late: 0.05,
            loop_late_after_s: 300.0,
            port_down_after_s: 10.0,
            policy_missed_after_s: 600.0,
            delay_ms: None,
            delay_after_s: 300.0,
            drops: 0.1,
            drops_after_s: 300.0,
            gateway_silent_after_s: 60.0,
        }
    }
}

/// What an alarm is of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Of {
    Program,
    Port(String),
    Direction(String),
}

/// A condition that is watched.
struct Condition {
    alarm: &'static str,
    of: Of,
    after_s: f64,
    /// Why it holds, where it does.
    why: Option<String>,
}

/// The names of all alarms.
pub const NAMES: [&str; 7] = [
    "loop_silent",
    "loop_late",
    "port_down",
    "policy_missed",
    "delay_above_policy",
    "drops",
    "gateway_silent",
];

/// The loop tells nothing.
fn silent(status: &Status) -> Option<String> {
    let silent_s = status.silent_s;
    (silent_s > SILENT_MAX_S).then(|| {
        format!("the packet loop told nothing for {silent_s:.0} s: the kernel forwards past the queues")
    })
}

/// Ports that nothing passes, each with the words for it.
fn ports(status: &Status) -> impl Iterator<Item = (&str, Option<String>)> {
    let down = |port: &str| format!("{port} is down or has no carrier");
    status.ports.iter().map(move |port| (port.name.as_str(), (!port.is_up).then(|| down(&port.name))))
}

impl Status {
    /// Whether the packet loop turns: packets are managed.
    pub fn health(&self) -> Health {
        let silent = silent(self);
        Health { ok: silent.is_none(), problems: silent.into_iter().collect() }
    }

    /// Whether packets pass, too.
    pub fn readiness(&self) -> Health {
        let mut problems = self.health().problems;
        problems.extend(ports(self).filter_map(|(_, why)| why));
        problems.extend(self.is_draining.then(|| "it ends".to_string()));
        Health { ok: problems.is_empty(), problems }
    }
}

/// Counts of a direction, of which what happened since the last look is told.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    arrived: u64,
    discarded: u64,
}

impl Counts {
    fn of(direction: &DirectionStatus) -> Counts {
        let packets = &direction.packets;
        let by_algorithm = packets.dropped_on_arrival + packets.dropped_at_head;
        Counts { arrived: packets.arrived, discarded: by_algorithm + packets.overflowed + packets.shed }
    }
}

/// What is known of the last look.
#[derive(Clone, Default, Debug)]
struct Before {
    at_s: f64,
    stalled_s: f64,
    counts: BTreeMap<String, Counts>,
}

/// The time of an alarm.
#[derive(Clone, Default, Debug)]
struct Lasting {
    bad_s: f64,
    raised_s: Option<f64>,
    why: String,
}

/// The alarms of a program.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    limits: Limits,
    before: Option<Before>,
    lasting: BTreeMap<(&'static str, Of), Lasting>,
}

/// Between two looks at least.
const PERIOD_S: f64 = 1.0;

impl Alarms {
    /// From now on by other bounds.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Looks at a status, and tells there how alarms stand; those that were raised or cleared.
    pub fn look(&mut self, status: &mut Status) -> Vec<AlarmStatus> {
        let now_s = status.uptime_s;
        let mut changed = self.begin_anew(now_s);
        let span_s = self.before.as_ref().map_or(0.0, |before| now_s - before.at_s);
        let found = self.conditions(status, span_s);
        changed.extend(self.let_go(&found, status));
        if self.before.is_none() || span_s >= PERIOD_S {
            changed.extend(self.count(found, now_s, span_s));
            let counts = status.directions.iter().map(|one| (one.name.clone(), Counts::of(one)));
            self.before = Some(Before { at_s: now_s, stalled_s: status.stalled_s, counts: counts.collect() });
        }
        status.alarms = self.lasting.iter().map(|(of, lasting)| told(of, lasting, now_s)).collect();
        changed
    }

    /// Forgets everything where the time runs back: another run of the program began, as in `weir lab`. Those
    /// that were raised.
    fn begin_anew(&mut self, now_s: f64) -> Vec<AlarmStatus> {
        let Some(before) = self.before.take_if(|before| now_s < before.at_s) else { return Vec::new() };
        let lasting = std::mem::take(&mut self.lasting);
        let raised = lasting.iter().filter(|(_, lasting)| lasting.raised_s.is_some());
        let cleared = raised.map(|(of, lasting)| AlarmStatus {
            is_raised: false,
            why: "the run in which it was raised is over".into(),
            ..told(of, lasting, before.at_s)
        });
        cleared.collect()
    }

    /// Forgets what is watched no more, as queues may go and be left to others; those that were raised.
    fn let_go(&mut self, found: &[Condition], status: &Status) -> Vec<AlarmStatus> {
        let found: BTreeSet<_> = found.iter().map(|one| (one.alarm, &one.of)).collect();
        let mut cleared = Vec::new();
        self.lasting.retain(|of, lasting| {
            let is_found = found.contains(&(of.0, &of.1));
            if is_found || lasting.raised_s.is_none() {
                return is_found;
            }
            let why = match &of.1 {
                Of::Direction(name) => match status.directions.iter().find(|one| one.name == *name) {
                    Some(one) if one.is_left => "its queue was left to others, and is watched no more".into(),
                    Some(_) => "it is watched no more".into(),
                    None => format!("{name} is gone"),
                },
                Of::Port(name) => format!("{name} is gone"),
                Of::Program => "it is watched no more".into(),
            };
            cleared.push(AlarmStatus { is_raised: false, why, ..told(of, lasting, status.uptime_s) });
            false
        });
        cleared
    }

    /// Goes on with the time of each alarm.
    fn count(&mut self, found: Vec<Condition>, now_s: f64, span_s: f64) -> Vec<AlarmStatus> {
        let mut changed = Vec::new();
        for Condition { alarm, of, after_s, why } in found {
            let lasting = self.lasting.entry((alarm, of.clone())).or_default();
            let step_s = if why.is_some() { span_s } else { -span_s };
            lasting.bad_s = (lasting.bad_s + step_s).clamp(0.0, after_s);
            // While it is raised it is told why it was.
            if let Some(why) = why.filter(|_| lasting.raised_s.is_none()) {
                lasting.why = why;
            }
            let is_raised = match lasting.raised_s {
                None => lasting.bad_s >= after_s,
                Some(_) => lasting.bad_s > 0.0,
            };
            if is_raised != lasting.raised_s.is_some() {
                let before = told(&(alarm, of), lasting, now_s);
                let why =
                    before.since_s.map_or(before.why, |since_s| format!("it is over after {since_s:.0} s"));
                changed.push(AlarmStatus { is_raised, why, ..before });
                lasting.raised_s = is_raised.then_some(now_s);
            }
        }
        changed
    }

    /// All that is watched.
    fn conditions(&self, status: &Status, span_s: f64) -> Vec<Condition> {
        let limits = &self.limits;
        let of_program = |alarm, after_s, why| Condition { alarm, of: Of::Program, after_s, why };
        let mut all = vec![of_program("loop_silent", limits.loop_silent_after_s, silent(status))];
        let stalled_s = self.before.as_ref().map_or(0.0, |before| status.stalled_s - before.stalled_s);
        let late = (stalled_s / span_s.max(PERIOD_S)).max(0.0);
        let why = (late > limits.loop_late)
            .then(|| format!("the packet loop misses {:.0} % of its time", 100.0 * late));
        all.push(of_program("loop_late", limits.loop_late_after_s, why));
        all.extend(ports(status).map(|(port, why)| {
            let after_s = limits.port_down_after_s;
            Condition { alarm: "port_down", of: Of::Port(port.into()), after_s, why }
        }));
        // Queues of sessions come and go with whoever sends.
        if status.user_plane.is_none() {
            all.extend(status.directions.iter().flat_map(|direction| self.of_direction(direction)));
        }
        all
    }

    fn of_direction(&self, d: &DirectionStatus) -> Vec<Condition> {
        if d.is_left {
            return Vec::new();
        }
        let limits = &self.limits;
        let watched =
            |alarm, after_s, why| Condition { alarm, of: Of::Direction(d.name.clone()), after_s, why };
        let mut all = Vec::new();
        if let Some(policy) = &d.policy {
            // The link had enough to do, and the set point is as high as it may be.
            let is_highest = d.setpoint_ms.is_some_and(|ms| ms >= policy.target_max_ms);
            let low = policy.utilization_low - MISSED_MIN;
            let used = d.utilization.filter(|used| is_highest && d.table_state > BELOW && *used < low);
            let why = used.map(|used| {
                let [used, wanted] = [used, policy.utilization_low].map(|share| 100.0 * share);
                format!("used to {used:.0} % at the largest set point, and the policy asks for {wanted:.0} %")
            });
            all.push(watched("policy_missed", limits.policy_missed_after_s, why));
        }
        let most_ms = limits.delay_ms.or(d.policy.as_ref().map(|policy| TOO_LONG * policy.target_max_ms));
        if let Some(most_ms) = most_ms {
            let mean_ms = d.delay_mean_ms.filter(|ms| *ms > most_ms);
            let why =
                mean_ms.map(|ms| format!("packets wait {ms:.1} ms on average, more than {most_ms:.1} ms"));
            all.push(watched("delay_above_policy", limits.delay_after_s, why));
        }
        let (now, before) =
            (Counts::of(d), self.before.as_ref().and_then(|before| before.counts.get(&d.name)));
        let before = before.copied().unwrap_or(now);
        let arrived = now.arrived.saturating_sub(before.arrived);
        let share = now.discarded.saturating_sub(before.discarded) as f64 / arrived.max(1) as f64;
        let why =
            (share > limits.drops).then(|| format!("{:.1} % of the packets are discarded", 100.0 * share));
        all.push(watched("drops", limits.drops_after_s, why));
        if let Some(sensing) = &d.sensing {
            let is_silent = sensing.state == FALLEN_BACK;
            let why = is_silent.then(|| "probes do not come back: the gateway is silent".to_string());
            all.push(watched("gateway_silent", limits.gateway_silent_after_s, why));
        }
        all
    }
}

fn told((alarm, of): &(&'static str, Of), lasting: &Lasting, now_s: f64) -> AlarmStatus {
    let (port, direction) = match of {
        Of::Program => (None, None),
        Of::Port(port) => (Some(port.clone()), None),
        Of::Direction(direction) => (None, Some(direction.clone())),
    };
    AlarmStatus {
        alarm: (*alarm).into(),
        port,
        direction,
        is_raised: lasting.raised_s.is_some(),
        since_s: lasting.raised_s.map(|raised_s| now_s - raised_s),
        why: lasting.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Packets, PolicyStatus, PortStatus, SensingStatus};

    /// A link whose policy is missed, or held.
    fn status(at_s: f64, utilization: f64) -> Status {
        let policy = PolicyStatus { utilization_low: 0.99, target_max_ms: 30.0, ..PolicyStatus::default() };
        let direction = DirectionStatus {
            name: "a_to_b".into(),
            policy: Some(policy),
            utilization: Some(utilization),
            setpoint_ms: Some(30.0),
            table_state: 3,
            delay_mean_ms: Some(20.0),
            packets: Packets { arrived: (1000.0 * at_s) as u64, ..Packets::default() },
            ..DirectionStatus::default()
        };
        Status { uptime_s: at_s, directions: vec![direction], ..Status::default() }
    }

    fn limits() -> Limits {
        let short = Limits {
            policy_missed_after_s: 10.0,
            delay_after_s: 10.0,
            drops_after_s: 10.0,
            ..Limits::default()
        };
        Limits { port_down_after_s: 2.0, gateway_silent_after_s: 2.0, loop_late_after_s: 2.0, ..short }
    }

    /// Looks twice a second for so long; what was raised (+) and cleared (-), when and why.
    fn watched(seconds: u32, of: impl Fn(f64) -> Status) -> Vec<String> {
        let mut alarms = Alarms { limits: limits(), ..Alarms::default() };
        let mut all = Vec::new();
        for half in 0..=2 * seconds {
            let at_s = f64::from(half) / 2.0;
            let mut now = of(at_s);
            let changed = alarms.look(&mut now);
            assert!(now.alarms.iter().all(|one| NAMES.contains(&one.alarm.as_str())));
            all.extend(
                changed
                    .iter()
                    .map(|one| format!("{at_s} {}{}", if one.is_raised { "+" } else { "-" }, one.text())),
            );
        }
        all
    }

    #[test]
    fn an_alarm_is_raised_when_its_condition_lasts_and_cleared_when_it_was_gone_for_as_long() {
        let told = watched(60, |at_s| status(at_s, if (5.0..20.0).contains(&at_s) { 0.5 } else { 0.995 }));
        let text =
            "policy_missed of a_to_b: used to 50 % at the largest set point, and the policy asks for 99 %";
        let over = "policy_missed of a_to_b: it is over after 15 s";
        assert_eq!(told, [format!("14 +{text}"), format!("29 -{over}")]);
        // One that comes and goes is raised once at most: never where it is gone for half of the time.
        let of =
            |bad: u32| watched(600, move |at_s| status(at_s, if at_s as u32 % 10 < bad { 0.5 } else { 1.0 }));
        assert_eq!((of(5).len(), of(7).len()), (0, 1));
        // Below what is asked for by less than 5 %, not at the largest set point, or with nothing to do.
        assert!(watched(60, |at_s| status(at_s, 0.95)).is_empty());
        let changed = |change: fn(&mut DirectionStatus)| {
            watched(60, move |at_s| {
                let mut now = status(at_s, 0.5);
                now.directions.iter_mut().for_each(change);
                now
            })
        };
        assert!(changed(|one| one.setpoint_ms = Some(29.0)).is_empty());
        assert!(changed(|one| one.table_state = 1).is_empty());
    }

    #[test]
    fn every_alarm_is_raised_by_its_condition() {
        let told = watched(20, |at_s| {
            let mut now = status(at_s, 0.5);
            (now.silent_s, now.stalled_s) = (at_s, 0.2 * at_s);
            now.ports = vec![PortStatus { name: "eth1".into(), is_up: false, lost_frames: 0 }];
            let direction = &mut now.directions[0];
            direction.delay_mean_ms = Some(61.0);
            direction.packets.shed = direction.packets.arrived / 5;
            direction.sensing = Some(SensingStatus { state: FALLEN_BACK.into(), ..SensingStatus::default() });
            now
        });
        for name in NAMES {
            assert!(
                told.iter().filter(|line| line.contains(&format!("+{name}"))).count() == 1,
                "{name}: {told:?}"
            );
        }
        assert!(told.iter().any(|line| line.contains("port_down of eth1: eth1 is down")), "{told:?}");
        // What is gone is watched no more.
        let mut alarms = Alarms { limits: limits(), ..Alarms::default() };
        alarms.look(&mut status(0.0, 1.0));
        let mut empty = Status { uptime_s: 1.0, ..Status::default() };
        alarms.look(&mut empty);
        assert_eq!(empty.alarms.len(), 2, "those of the loop");
    }

    #[test]
    fn an_alarm_that_is_raised_is_cleared_when_what_it_is_of_goes() {
        let cleared = |change: fn(&mut Status), by: &str| {
            let told = watched(20, |at_s| {
                let mut now = status(at_s, 0.5);
                now.ports = vec![PortStatus { name: "eth1".into(), is_up: false, lost_frames: 0 }];
                // Between two looks, too.
                if at_s > 15.0 {
                    change(&mut now);
                }
                now
            });
            let cleared: Vec<&String> = told.iter().filter(|line| line.contains('-')).collect();
            assert_eq!(cleared, [&format!("15.5 -{by}")], "{told:?}");
        };
        cleared(|now| now.directions.clear(), "policy_missed of a_to_b: a_to_b is gone");
        cleared(|now| now.ports.clear(), "port_down of eth1: eth1 is gone");
        cleared(|now| now.directions[0].policy = None, "policy_missed of a_to_b: it is watched no more");
        let left = "policy_missed of a_to_b: its queue was left to others, and is watched no more";
        cleared(|now| now.directions[0].is_left = true, left);
    }

    #[test]
    fn another_run_begins_with_alarms_of_its_own() {
        // The time of a run begins with it, as in `weir lab`.
        let told = watched(60, |at_s| status(at_s % 25.0, 0.5));
        let raised =
            "policy_missed of a_to_b: used to 50 % at the largest set point, and the policy asks for 99 %";
        let over = "policy_missed of a_to_b: the run in which it was raised is over";
        let wanted = [("10 +", raised), ("25 -", over), ("35 +", raised), ("50 -", over), ("60 +", raised)];
        assert_eq!(told, wanted.map(|(when, text)| format!("{when}{text}")));
    }
}
