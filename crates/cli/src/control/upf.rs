//! A user-plane function under control: how its sessions stand is published, and policies and set points of
//! its queues and the level of its log change while it runs. For all else another start takes its sessions
//! over.

use super::{
    Controlled, Desk, Doors, How, Source, configured, needs_restart, policy_status, refused, valued,
};
use crate::interrupt::HangUp;
use crate::log::{self, Level};
use crate::output::Failure;
use crate::sessions::SessionRow;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use weir_config::{AqmConfig, Document, FlowConfig, UpfConfig};
use weir_operate::{
    Applied, Board, DirectionStatus, Packets, PortStatus, Refusal, Refused, Status, UserPlaneStatus,
};
use weir_upf::configured::held_to;
use weir_upf::control::Counts;
use weir_upf::plane::HeldTo;
use weir_upf::rules::{FlowUsage, Seid};

/// Sessions at most whose queues are told: each is asked for at the packet loop.
const TOLD_MAX: usize = 100;
/// Of those that are not told, so many are looked at each time, in turn.
const LOOKED_AT: usize = 50;

/// Which sessions are told one by one: all while they are few, else those with the highest rates. Each look
/// asks for a bounded number, so that a session is found a lap later at the latest.
#[derive(Default)]
pub struct Followed {
    seen: HashMap<Seid, Pace>,
    next: usize,
}

/// What a session had forwarded at the last look.
#[derive(Clone, Copy)]
struct Pace {
    bytes: u64,
    at: Instant,
    bps: f64,
}

impl Followed {
    /// The sessions to ask for, of all there are.
    pub fn due(&mut self, all: &[Seid]) -> Vec<Seid> {
        if all.len() <= TOLD_MAX {
            return all.to_vec();
        }
        let mut due = self.told(all);
        // Whoever is told has a rate already.
        let (mut passed, most) = (0, due.len() + LOOKED_AT);
        let from = self.next % all.len();
        for seid in all[from..].iter().chain(&all[..from]) {
            if due.len() == most {
                break;
            }
            passed += 1;
            if !due[..most - LOOKED_AT].contains(seid) {
                due.push(*seid);
            }
        }
        self.next = (from + passed) % all.len();
        due
    }

    /// What a session has forwarded so far, in bytes; `None` of one that is gone.
    pub fn looked(&mut self, seid: Seid, bytes: Option<u64>, at: Instant) {
        let Some(bytes) = bytes else {
            self.seen.remove(&seid);
            return;
        };
        let bps = self.seen.get(&seid).map_or(0.0, |before| {
            let span = at.duration_since(before.at).as_secs_f64();
            if span > 0.0 { bytes.saturating_sub(before.bytes) as f64 * 8.0 / span } else { before.bps }
        });
        self.seen.insert(seid, Pace { bytes, at, bps });
    }

    /// The sessions that are told, the fastest first where there are others.
    pub fn told(&mut self, all: &[Seid]) -> Vec<Seid> {
        if all.len() <= TOLD_MAX {
            return all.to_vec();
        }
        let mut ranked: Vec<(f64, Seid)> = self.seen.iter().map(|(seid, pace)| (pace.bps, *seid)).collect();
        let order = |a: &(f64, Seid), b: &(f64, Seid)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if ranked.len() > TOLD_MAX {
            ranked.select_nth_unstable_by(TOLD_MAX - 1, order);
            ranked.truncate(TOLD_MAX);
        }
        ranked.sort_by(order);
        ranked.into_iter().map(|(_, seid)| seid).collect()
    }

    /// Forgets sessions that are gone.
    pub fn keep(&mut self, is_there: impl Fn(Seid) -> bool) {
        self.seen.retain(|seid, _| is_there(*seid));
    }

    /// Forwarded rate of all sessions, each as it was looked at last.
    pub fn bps(&self) -> f64 {
        self.seen.values().map(|pace| pace.bps).sum()
    }
}

/// A user-plane function that can be looked at.
pub struct Watched {
    board: Board,
    current: UpfConfig,
    about: Status,
    begun: Instant,
    /// When queues were told last, and the bytes that had left each by then.
    before: (Instant, HashMap<String, u64>),
}

/// What it counts beside its sessions.
pub struct Told<'a> {
    /// Sessions there are.
    pub sessions: usize,
    /// Their forwarded rate in bit/s.
    pub delivered_bps: f64,
    /// Tunnels there are.
    pub tunnels: usize,
    /// What became of messages.
    pub counts: &'a Counts,
    /// Messages that could not be sent.
    pub unsent: u64,
    /// Packets that were discarded and belong to no queue, by cause.
    pub faults: Vec<(&'static str, u64)>,
    /// How its loop stands.
    pub looping: LoopStatus,
}

/// How a packet loop and its ports stand.
#[derive(Default)]
pub struct LoopStatus {
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// Time in which it did not turn.
    pub stalled_s: f64,
}

impl Watched {
    /// Of a configuration; `mode` says how packets come in and go out.
    pub fn new(config: &UpfConfig, mode: String) -> Watched {
        let about = Status {
            verb: "upf".into(),
            title: format!("user plane {}", config.n4.address),
            mode,
            ..Status::default()
        };
        let before = (Instant::now(), HashMap::new());
        Watched { board: Board::default(), current: config.clone(), about, begun: Instant::now(), before }
    }

    /// Names of its ports, in the order of their numbers.
    pub fn ports(&self) -> Vec<&str> {
        let config = &self.current;
        let local = config.local.as_ref().map(|local| local.port.as_str());
        [config.n3.port.as_str(), config.n6.port.as_str()].into_iter().chain(local).collect()
    }

    /// Lets others ask from now on.
    pub fn open(&mut self, doors: Doors, source: Source, hangup: HangUp) -> Result<Desk, Failure> {
        let desk = Desk::open(doors, source, &self.board, &mut self.about, hangup)?;
        configured(&self.board, &self.about, self.current.to_toml());
        Ok(desk)
    }

    /// Publishes how it stands, and says it.
    pub fn tell(&mut self, rows: &[SessionRow], told: Told<'_>) -> Status {
        let now = Instant::now();
        let passed = now.duration_since(self.before.0).as_secs_f64();
        let queues = rows.iter().flat_map(SessionRow::queues);
        let mut status = self.about.clone();
        status.uptime_s = self.begun.elapsed().as_secs_f64();
        let mut bytes = HashMap::new();
        for (name, flow) in queues {
            let sent = self.before.1.get(&name).map_or(0, |before| flow.bytes.saturating_sub(*before));
            let per_s = if passed > 0.0 { sent as f64 * 8.0 / passed } else { 0.0 };
            bytes.insert(name.clone(), flow.bytes);
            let (key, waits) = waits(&self.current, flow);
            let policy = waits.policy.as_ref();
            status.directions.push(DirectionStatus {
                name,
                aqm: flow.aqm.clone(),
                policy: policy.map(|policy| policy_status(format!("{key}.policy"), &policy.policy())),
                delivered_bps: per_s,
                delay_p95_ms: flow.sojourn_p95.map(|delay| delay.as_millis_f64()),
                setpoint_ms: flow.setpoint.map(|setpoint| setpoint.as_millis_f64()),
                table_state: flow.state.map_or(0, |state| state as u8),
                backlog_bytes: flow.backlog.0,
                backlog_packets: flow.backlog.1,
                packets: Packets {
                    arrived: flow.packets + flow.dropped,
                    delivered: flow.packets,
                    delivered_bytes: flow.bytes,
                    dropped_on_arrival: flow.dropped,
                    marked: flow.marked,
                    ..Packets::default()
                },
                ..DirectionStatus::default()
            });
        }
        self.before = (now, bytes);
        status.user_plane = Some(plane(rows.len(), &told));
        (status.ports, status.stalled_s) = (told.looping.ports, told.looping.stalled_s);
        self.board.publish(status.clone());
        status
    }
}

/// How packets of a queue wait, with the key of the table that says so: that of its QoS flow, else that of
/// local breakout, else that of all others.
fn waits<'a>(config: &'a UpfConfig, queue: &FlowUsage) -> (String, &'a FlowConfig) {
    let qfi = queue.qfi.map(u32::from);
    let own = config.flows.iter().position(|flow| qfi == Some(flow.qfi));
    match (own, &config.local_flow) {
        (Some(number), _) => (format!("flows.{number}"), &config.flows[number].waits),
        (None, Some(local)) if queue.is_local => ("local_flow".into(), local),
        _ => ("flow".into(), &config.flow),
    }
}

fn plane(sessions_told: usize, told: &Told<'_>) -> UserPlaneStatus {
    let counts = told.counts;
    let named = |all: &[(&str, u64)]| all.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    UserPlaneStatus {
        sessions: told.sessions as u64,
        sessions_told: sessions_told as u64,
        delivered_bps: told.delivered_bps,
        tunnels: told.tunnels as u64,
        session_events: named(&[
            ("established", counts.established),
            ("modified", counts.modified),
            ("removed", counts.removed),
        ]),
        messages: named(&[
            ("accepted", counts.accepted),
            ("refused", counts.refused_all()),
            ("repeated", counts.repeated),
            ("reused", counts.reused),
            ("stranger", counts.strangers),
            ("over_rate", counts.over_rate),
            ("malformed", counts.malformed),
            ("unexpected", counts.unexpected),
            ("stale", counts.stale),
            ("unsent", told.unsent),
        ]),
        reports: named(&[
            ("sent", counts.reports),
            ("lost", counts.reports_lost),
            ("hushed", counts.reports_hushed),
        ]),
        discarded: named(&told.faults),
    }
}

/// Holds queues to policies and set points, by number of the profile.
pub type HoldTo<'a> = dyn FnMut(&[HeldTo]) -> Result<(), String> + 'a;

/// A user-plane function, and the way to its packet loop.
pub struct Asked<'a> {
    /// What is watched.
    pub watched: &'a mut Watched,
    /// Holds its queues to policies and set points.
    pub hold_to: &'a mut HoldTo<'a>,
}

/// Whether a key changes while it runs: of queues their policies, and the set points of algorithms that no
/// policy moves.
fn is_live(key: &str, config: &UpfConfig) -> bool {
    let of_qfi = |rest: &str| {
        let (number, rest) = rest.split_once('.')?;
        Some((&config.flows.get(number.parse::<usize>().ok()?)?.waits, rest.to_string()))
    };
    let found = match key.split_once('.') {
        Some(("flow", rest)) => Some((&config.flow, rest.to_string())),
        Some(("local_flow", rest)) => config.local_flow.as_ref().map(|flow| (flow, rest.to_string())),
        Some(("flows", rest)) => of_qfi(rest),
        _ => None,
    };
    let Some((flow, rest)) = found else { return key == "run.log" };
    let setpoint = flow.aqm.as_ref().filter(|_| flow.policy.is_none()).and_then(AqmConfig::setpoint_key);
    rest.starts_with("policy.") || rest.strip_prefix("aqm.").is_some_and(|key| setpoint == Some(key))
}

impl Controlled for Asked<'_> {
    fn apply(&mut self, next: &Document, How { dry_run, .. }: How<'_>) -> Result<Applied, Refused> {
        let config = next.upf_config().map_err(refused)?;
        let current = &self.watched.current;
        let changed = current.changes(&config);
        let (before, after) = (held_to(current), held_to(&config));
        let is_there = |all: &[HeldTo]| -> Vec<(bool, bool)> {
            all.iter().map(|held| (held.policy.is_some(), held.setpoint.is_some())).collect()
        };
        let are_same = is_there(&before) == is_there(&after);
        let refused: Vec<_> = changed
            .iter()
            .filter(|one| !is_live(&one.key, &config) || (one.key != "run.log" && !are_same))
            .map(|one| match is_live(&one.key, &config) {
                true => (one.key.clone(), "whether there is a policy, or a set point of one's own, is part of what queues were made from"),
                false => (one.key.clone(), "ports, tunnels and queues of sessions were made from it"),
            })
            .collect();
        if !refused.is_empty() {
            let remedy = "change the file and start `weir upf FILE --takeover`, which goes on with the sessions of this one";
            return Err(needs_restart(refused, remedy));
        }
        let mut applied = Applied { changed: valued(changed), at_s: None, notes: config.warnings() };
        if dry_run || applied.changed.is_empty() {
            return Ok(applied);
        }
        if before != after {
            (self.hold_to)(&after).map_err(|why| (503, Refusal::plain(why)))?;
        }
        if current.run.log != config.run.log {
            log::set_level(Level::of(config.run.log));
        }
        let watched = &mut *self.watched;
        watched.about.changes += 1;
        applied.at_s = Some(watched.begun.elapsed().as_secs_f64());
        watched.current = config;
        configured(&watched.board, &watched.about, watched.current.to_toml());
        Ok(applied)
    }

    fn drain(&mut self) -> Result<Applied, Refused> {
        let why = "nobody else forwards between tunnels and the data network. Remedy: end it with SIGTERM, or start \
                   `weir upf FILE --takeover`, which goes on with its sessions";
        Err((409, Refusal::plain(why)))
    }
}

/// How long is listened to those who ask, between two looks for datagrams.
pub const TURN: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_upf::rules::Session;

    #[test]
    fn policies_change_and_set_points_that_none_moves() {
        let text = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"] }\n\
                    n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n\
                    flow.aqm = { name = \"codel\", target = \"8ms\" }\n\
                    flows = [{ qfi = 9, aqm = { name = \"gsp\", target = \"3ms\" }, policy = {} }]\n";
        let config = Document::parse("upf.toml", text).unwrap().upf_config().unwrap();
        let is_live = |key: &str| is_live(key, &config);
        for key in ["run.log", "flow.aqm.target", "flow.policy.target_max", "flows.0.policy.target_max"] {
            assert!(is_live(key), "{key}");
        }
        // A policy moves that one, and the others are what queues are made from.
        for key in [
            "flows.0.aqm.target",
            "flow.aqm.interval",
            "flow.aqm.name",
            "flows.1.aqm.target",
            "limits.queues",
        ] {
            assert!(!is_live(key), "{key}");
        }
        let held = held_to(&config);
        assert_eq!(held[0].setpoint.map(|to| to.as_millis_f64()), Some(8.0));
        assert!(held[0].policy.is_none() && held[1].policy.is_some() && held[1].setpoint.is_none());
    }

    #[test]
    fn a_queue_is_told_with_the_policy_of_its_flow_of_local_breakout_or_of_all_others() {
        let text = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"] }\n\
                    n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n\
                    local = { port = \"c\", address = [\"203.0.113.1/24\"], instance = \"edge\" }\n\
                    flow = { aqm = { name = \"gsp\" }, policy = { target_max = \"20ms\" } }\n\
                    local_flow = { aqm = { name = \"gsp\" }, policy = { target_max = \"10ms\" } }\n\
                    flows = [{ qfi = 7 }, { qfi = 9, aqm = { name = \"gsp\" }, policy = { target_max = \"5ms\" } }]\n";
        let config = Document::parse("upf.toml", text).unwrap().upf_config().unwrap();
        let mut watched = Watched::new(&config, "af_packet".into());
        let mut row = SessionRow::new(&Session::default(), "127.0.0.2".parse().unwrap());
        let queue = |qfi, is_local| FlowUsage {
            qfi,
            is_local,
            backlog: (3000, 2),
            setpoint: Some(weir_units::Duration::from_millis(4)),
            ..FlowUsage::default()
        };
        row.flows = vec![
            queue(None, false),
            queue(None, true),
            queue(Some(9), true),
            queue(Some(7), false),
            queue(Some(5), false),
        ];
        let counts = Counts::default();
        let told = Told {
            sessions: 1,
            delivered_bps: 0.0,
            tunnels: 0,
            counts: &counts,
            unsent: 0,
            faults: Vec::new(),
            looping: LoopStatus::default(),
        };
        let directions = watched.tell(&[row], told).directions;
        for queue in &directions {
            let told = (queue.backlog_bytes, queue.backlog_packets, queue.setpoint_ms);
            assert_eq!(told, (3000, 2, Some(4.0)));
        }
        let policies = directions.iter().map(|d| d.policy.as_ref().map(|p| (&*p.key, p.target_max_ms)));
        assert_eq!(
            policies.collect::<Vec<_>>(),
            [
                Some(("flow.policy", 20.0)),
                Some(("local_flow.policy", 10.0)),
                Some(("flows.1.policy", 5.0)),
                // Its packets wait by vAQM, which learns what it needs.
                None,
                Some(("flow.policy", 20.0)),
            ]
        );
    }

    #[test]
    fn the_fastest_of_many_sessions_are_told_and_each_look_asks_for_a_bounded_number() {
        let mut followed = Followed::default();
        let mut all: Vec<Seid> = (0..1000).collect();
        let begun = Instant::now();
        // Session n forwards n bytes in a second.
        for second in 0..45 {
            followed.keep(|seid| all.contains(&seid));
            let due = followed.due(&all);
            assert!(due.len() <= TOLD_MAX + LOOKED_AT, "{}", due.len());
            let at = begun + Duration::from_secs(second);
            due.iter().for_each(|seid| followed.looked(*seid, Some(seid * second), at));
        }
        let told = followed.told(&all);
        assert_eq!((told.len(), told[0], told[99]), (TOLD_MAX, 999, 900));
        assert_eq!(followed.bps(), (0..1000).sum::<u64>() as f64 * 8.0);
        // Those that end make room for others, and one that begins to send is told within a lap.
        all.retain(|seid| *seid < 950);
        for second in 45..90 {
            followed.keep(|seid| all.contains(&seid));
            let at = begun + Duration::from_secs(second);
            for seid in followed.due(&all) {
                followed.looked(seid, Some(if seid == 3 { second * 5000 } else { seid * second }), at);
            }
        }
        let told = followed.told(&all);
        assert_eq!((told.len(), told[0], told[1], told[99]), (TOLD_MAX, 3, 949, 851));
        // Few are told all, in their order, without having been looked at.
        assert_eq!(Followed::default().told(&all[..50]), all[..50]);
    }
}
