//! What the kernel keeps under control: how the virtual queues, or the queues in BPF, stand, and other
//! policies, rates and parameters for them.

use super::loops::{aqm, moved};
use super::{
    Controlled, Desk, Doors, How, Moves, Source, configured, needs_restart, policy_status, refused, valued,
};
use crate::interrupt::HangUp;
use crate::output::Failure;
use std::collections::VecDeque;
use weir_config::{Changed, Document, Errors, RunConfig};
use weir_kernel::{Egress, EgressSetup};
use weir_measure::result::SteeringEvent;
use weir_operate::{Applied, Board, DirectionStatus, Packets, Refusal, Refused, Status};
use weir_units::{Duration, Time};

/// How often it is told how they stand.
const PERIOD: Duration = Duration::from_millis(250);
/// What is called "now" in a status.
const NOW: Duration = Duration::from_secs(1);

/// What a configuration asks for, by direction; an error in words.
pub type Planner = dyn Fn(&RunConfig, &Document) -> Result<Vec<(&'static str, EgressSetup)>, Errors>;

/// Queues that can be looked at, and held to another policy.
pub struct Watched {
    board: Board,
    current: RunConfig,
    planned: Box<Planner>,
    about: Status,
    /// What is done at the end, in words.
    after: &'static str,
    begun: Time,
    told: Option<Time>,
    rows: Vec<Row>,
}

/// A direction.
struct Row {
    name: &'static str,
    moves: Moves,
    /// Times and bytes that had passed by then, of the last second.
    recent: VecDeque<(Time, u64)>,
}

impl Watched {
    /// Of what was attached for these directions; `planned` says what a configuration asks for.
    pub fn new(
        (config, planned): (&RunConfig, Box<Planner>),
        names: &[&'static str],
        (mode, after): (&str, &'static str),
        now: Time,
    ) -> Watched {
        let about = Status {
            verb: "run".into(),
            title: format!("{} <-> {}", config.ports.a, config.ports.b),
            mode: mode.into(),
            what_if: true,
            ..Status::default()
        };
        let row = |name: &&'static str| Row { name, moves: Moves::default(), recent: VecDeque::new() };
        Watched {
            board: Board::default(),
            current: config.clone(),
            planned,
            about,
            after,
            begun: now,
            told: None,
            rows: names.iter().map(row).collect(),
        }
    }

    /// Lets others ask from now on.
    pub fn open(&mut self, doors: Doors, source: Source, hangup: HangUp) -> Result<Desk, Failure> {
        let desk = Desk::open(doors, source, &self.board, &mut self.about, hangup)?;
        self.board.limit_alarms(super::run::limits(&self.current.alarms));
        self.publish_configuration();
        Ok(desk)
    }

    fn publish_configuration(&self) {
        configured(&self.board, &self.about, self.current.to_toml());
    }

    /// Tells how they stand, if that is due; the status if it was told.
    pub fn tell(&mut self, egresses: &mut [Egress], now: Time) -> Option<Status> {
        if self.told.is_some_and(|last| now.since(last) < PERIOD) {
            return None;
        }
        self.told = Some(now);
        let mut status = self.about.clone();
        status.uptime_s = now.since(self.begun).as_secs_f64();
        for (at, egress) in egresses.iter_mut().enumerate() {
            status.directions.push(self.direction(at, egress, now));
        }
        self.board.publish(status.clone());
        Some(status)
    }

    fn direction(&mut self, at: usize, egress: &mut Egress, now: Time) -> DirectionStatus {
        let row = &mut self.rows[at];
        let channel = if row.name == "a_to_b" { &self.current.a_to_b } else { &self.current.b_to_a };
        for one in egress.take_moves() {
            row.moves.add(moved(&SteeringEvent::of(&one, row.name, self.begun)));
        }
        let report = egress.report();
        row.recent.push_back((now, report.bytes));
        while row.recent.get(1).is_some_and(|(old, _)| now.since(*old) >= NOW) {
            row.recent.pop_front();
        }
        let (since, before) = row.recent.front().copied().unwrap_or((now, report.bytes));
        let span_s = now.since(since).as_secs_f64();
        let passed_bps =
            if span_s > 0.0 { report.bytes.saturating_sub(before) as f64 * 8.0 / span_s } else { 0.0 };
        let rate_bps = report.rate_bps as f64;
        let overflowed = report.queue.as_ref().map_or(0, |queue| queue.overflows);
        // Of one that is left nothing is known any more.
        let queue = report.queue.as_ref().filter(|_| !egress.is_left());
        let (waiting, waiting_bytes) = queue.map_or((0, 0), |queue| (queue.packets, queue.bytes));
        let left = report.left.as_ref().map(|why| format!(", left: {why}"));
        DirectionStatus {
            name: row.name.into(),
            aqm: format!("{} in the kernel{}", aqm(channel), left.unwrap_or_default()),
            rate_bps: Some(rate_bps),
            rate_key: Some(format!("{}.rate", row.name)),
            capacity_bytes: egress.capacity_bytes(now),
            policy: Some(policy_status(format!("{}.policy", row.name), egress.policy())),
            arrived_bps: passed_bps,
            delivered_bps: passed_bps,
            utilization: Some(passed_bps / rate_bps),
            delay_mean_ms: queue.map(|queue| queue.delay_ms),
            delay_max_ms: queue.map_or(0.0, |queue| queue.delay_ms),
            setpoint_ms: Some(report.target_ms),
            table_state: egress.table_state() as u8,
            is_left: egress.is_left(),
            virtual_rate_bps: report.queue.is_none().then_some(report.virtual_bps as f64),
            backlog_bytes: waiting_bytes,
            backlog_packets: u32::try_from(waiting).unwrap_or(u32::MAX),
            packets: Packets {
                // Packets that wait are counted when they leave.
                arrived: report.packets + report.drops + waiting,
                arrived_bytes: report.bytes + waiting_bytes,
                delivered: report.packets,
                delivered_bytes: report.bytes,
                dropped_on_arrival: report.drops.saturating_sub(overflowed),
                overflowed,
                marked: report.signals.saturating_sub(report.drops.saturating_sub(overflowed)),
                ..Packets::default()
            },
            moves: row.moves.by_rule.clone(),
            recent_moves: row.moves.latest(),
            ..DirectionStatus::default()
        }
    }

    /// What can be asked for with what is attached.
    pub fn asked<'a>(&'a mut self, egresses: &'a mut [Egress], now: Time) -> Asked<'a> {
        Asked { watched: self, egresses, now }
    }
}

/// Queues, and what keeps them.
pub struct Asked<'a> {
    watched: &'a mut Watched,
    egresses: &'a mut [Egress],
    now: Time,
}

/// Why other keys do not change.
const LOADED: &str = "the programs in the kernel were loaded with it";
/// What to do about it.
const REMEDY: &str = "change the file and start `weir run FILE --in-kernel` again";

/// Whether a key of a direction changes: what the programs read with each packet, or the process at each
/// look. `waits` says whether packets wait there.
fn is_live(key: &str, waits: bool) -> bool {
    let of_algorithm = key.strip_prefix("aqm.").is_some_and(|rest| rest != "name");
    key == "rate"
        || key.starts_with("policy.")
        || of_algorithm
        || waits && ["buffer", "catch_up"].contains(&key)
}

impl Controlled for Asked<'_> {
    fn apply(&mut self, next: &Document, How { dry_run, .. }: How<'_>) -> Result<Applied, Refused> {
        let Asked { watched, egresses, now } = self;
        let config = next.run_config().map_err(refused)?;
        let changed = watched.current.changes(&config);
        let of = |row: &Row, key: &str| Some(key.strip_prefix(row.name)?.strip_prefix('.')?.to_string());
        let is_live = |key: &str| {
            let mut rows = watched.rows.iter().zip(egresses.iter());
            rows.any(|(row, egress)| of(row, key).is_some_and(|key| is_live(&key, egress.room().is_some())))
        };
        // A direction that is managed, or is not, takes programs.
        let is_there = |one: &&Changed| one.from.is_some() == one.to.is_some() || !one.key.ends_with(".rate");
        let is_fixed = |one: &&Changed| !is_live(&one.key) || !is_there(one);
        let fixed: Vec<(String, &str)> =
            changed.iter().filter(is_fixed).map(|one| (one.key.clone(), LOADED)).collect();
        if !fixed.is_empty() {
            return Err(needs_restart(fixed, REMEDY));
        }
        let planned = (watched.planned)(&config, next).map_err(refused)?;
        debug_assert!(planned.iter().map(|(name, _)| *name).eq(watched.rows.iter().map(|row| row.name)));
        let wrong = |error: weir_steer::PolicyError| (422, Refusal::plain(error.to_string()));
        planned.iter().try_for_each(|(_, setup)| setup.policy.validate()).map_err(wrong)?;
        let notes = planned.iter().zip(egresses.iter()).filter_map(|((name, setup), egress)| {
            let limit = setup.room.map(|room| room.limit);
            let is_new = limit != egress.room().map(|room| room.limit);
            limit.filter(|_| is_new).map(|limit| format!("{name}.buffer: {limit} may wait at this rate"))
        });
        let mut applied = Applied { notes: notes.collect(), at_s: None, changed: valued(changed) };
        if dry_run || applied.changed.is_empty() {
            return Ok(applied);
        }
        for (egress, (_, setup)) in egresses.iter_mut().zip(planned) {
            egress.adopt(setup, *now).map_err(wrong)?;
        }
        applied.at_s = Some(now.since(watched.begun).as_secs_f64());
        watched.about.changes += 1;
        watched.current = config;
        watched.publish_configuration();
        watched.told = None;
        watched.tell(egresses, *now);
        Ok(applied)
    }

    fn drain(&mut self) -> Result<Applied, Refused> {
        self.watched.about.is_draining = true;
        let at_s = Some(self.now.since(self.watched.begun).as_secs_f64());
        Ok(Applied { at_s, notes: vec![self.watched.after.into()], ..Applied::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_read_with_each_packet_changes() {
        for key in ["rate", "policy.target_max", "aqm.interval", "aqm.ecn"] {
            assert!(is_live(key, false) && is_live(key, true), "{key}");
        }
        for key in ["aqm.name", "aqm", "policy", "accounting", "overhead", "delay", "queue.discipline"] {
            assert!(!is_live(key, false) && !is_live(key, true), "{key}");
        }
        // Nothing waits in a virtual queue.
        for key in ["buffer", "catch_up"] {
            assert!(is_live(key, true) && !is_live(key, false), "{key}");
        }
    }
}
